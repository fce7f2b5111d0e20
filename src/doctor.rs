//! Finds problems that would prevent a session from starting now, for `flyswarm doctor`.
//!
//! The doctor first checks this machine. Then it asks mDNS whether another node uses the same identity,
//! because two such nodes would take each other's connections. Only after that does it show the identity to
//! the other peers. It never sends a hello to a peer that runs `join`, so it is not a member of any view, and
//! its end does not disturb the session. It asks all its questions over `/flyswarm/probe/1` (spec, section
//! 6.1).

mod finding;
pub(crate) mod local;
mod peers;
mod relays;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use libp2p::multiaddr::Protocol;

pub(crate) use self::finding::{Finding, Level};
use self::peers::{Here, Other, TRIED, Touch, port};
use self::relays::Relays;
use crate::net::driver::peer_id;
use crate::net::observe::{Observer, is_node};
use crate::net::{
    Channel, Command, Config, Event, Events, Multiaddr, Network, PeerId, Questions, Waker, is_relayed,
};
use crate::peer::Error;
use crate::protocol::about::{About, Role};
use crate::protocol::message::{self, Message};
use crate::protocol::wire;
use crate::session::{Entry, Session};

/// Time for which the doctor listens to mDNS before it shows this identity. It is twice the time that a first
/// answer takes on a slow link (guess).
const LISTEN_FIRST: Duration = Duration::from_millis(1500);
/// Time limit of a plain TCP connection. It is longer than the 3 s for which Linux looks for a missing
/// address in its own network.
const TOUCH: Duration = Duration::from_secs(4);
/// Time for answers of mDNS. In this time, mDNS asks four times.
const MDNS: Duration = Duration::from_secs(5);
/// Time after which a refused address is tried again.
const AGAIN: Duration = Duration::from_secs(2);
/// Delay before dialling. It can be short, because the other side dials too.
const DIAL_AFTER: Duration = Duration::from_millis(500);
/// Bytes that are sent in each direction to measure rates: for a peer that also runs the doctor, and for a
/// peer that runs `join`.
const MOST: (u32, u32) = (4 << 20, 1 << 20);
/// Time limit for sending the last frames.
const FLUSH: Duration = Duration::from_secs(1);

/// Receives each finding when it is made.
pub(crate) type Say<'a, E> = dyn FnMut(&Finding) -> Result<(), E> + 'a;

fn twin_finding(address: &Multiaddr) -> Finding {
    let text = format!("this identity is in use at {address}");
    let advice =
        "stop the node there; if it is another machine, make another key for it (`flyswarm id --new`)";
    Finding::new(Level::Error, "twice", text).advise(advice)
}

#[allow(clippy::disallowed_methods, reason = "the doctor waits for the others for a limited time")]
fn now() -> Instant {
    Instant::now()
}

/// Result of a plain connection to an address of a peer.
type Touched = (PeerId, Multiaddr, Touch);

/// An examination of a session from this machine.
pub(crate) struct Examination<'a> {
    session: &'a Session,
    me: PeerId,
    others: BTreeMap<PeerId, Other>,
    mdns: bool,
    keyed: bool,
    chosen: bool,
    relays: Relays,
    listening: Vec<Multiaddr>,
    strangers: BTreeMap<PeerId, Multiaddr>,
    twins: BTreeSet<Multiaddr>,
    touches: (mpsc::Sender<Touched>, mpsc::Receiver<Touched>),
}

impl<'a> Examination<'a> {
    /// Prepares an examination with these network settings. `chosen` is true if the user chose the addresses
    /// to listen on.
    pub(crate) fn new(session: &'a Session, me: PeerId, config: &Config, chosen: bool) -> Self {
        let other = |entry: &Entry| {
            let id = peer_id(&entry.key);
            let file = config.roster.get(&id).cloned().unwrap_or_default();
            let (name, relays) = (entry.name.clone(), !session.relays.is_empty());
            (id, Other { name, file, relays, ..Other::default() })
        };
        let mut others: BTreeMap<_, _> = session.roster.iter().map(other).collect();
        others.remove(&me);
        Self {
            session,
            me,
            others,
            mdns: config.mdns,
            keyed: config.network_key.is_some(),
            chosen,
            relays: Relays::new(&config.relays),
            listening: Vec::new(),
            strangers: BTreeMap::new(),
            twins: BTreeSet::new(),
            touches: mpsc::channel(),
        }
    }

    /// Returns the number of other peers.
    pub(crate) fn others(&self) -> usize {
        self.others.len()
    }

    /// Returns whether mDNS finds another node with this identity. Records the other peers that mDNS finds.
    pub(crate) fn twin<E>(&mut self, say: &mut Say<'_, E>) -> Result<bool, E> {
        if !self.mdns {
            return Ok(false);
        }
        let observer = match Observer::start() {
            Ok(observer) => observer,
            Err(error) => {
                let advice = "only the addresses in the session file can be used";
                say(&Finding::new(Level::Warning, "mdns", format!("cannot search: {error}")).advise(advice))?;
                return Ok(false);
            }
        };
        let until = now() + LISTEN_FIRST;
        let mut twins = BTreeSet::new();
        while let Some(left) = until.checked_duration_since(now()) {
            if let Some((peer, address)) = observer.next(left)
                && is_node(&address)
            {
                if peer == self.me {
                    twins.insert(address);
                } else if let Some(other) = self.others.get_mut(&peer) {
                    other.found.insert(address);
                }
            }
        }
        for address in &twins {
            say(&twin_finding(address))?;
        }
        Ok(!twins.is_empty())
    }

    /// Searches for the other peers for at most this time. If `alone` is true, this identity is not shown to
    /// them.
    pub(crate) fn run<E: From<Error>>(
        &mut self,
        mut config: Config,
        alone: bool,
        wait: Duration,
        say: &mut Say<'_, E>,
    ) -> Result<(), E> {
        if alone {
            // The identity would disturb another node that has it, or is not in the roster. Addresses can be
            // tried without it.
            self.only_touch(wait);
            return Ok(());
        }
        config.patience = DIAL_AFTER;
        config.details = true;
        config.about = About::new(&self.session.settings(), Role::Doctor).encode();
        self.connect(config, wait, say)
    }

    /// Returns the number of peers that are ready, this one included, and the findings about relays and
    /// peers.
    pub(crate) fn findings(&self) -> (usize, Vec<Finding>) {
        let here = self.here();
        let ready = 1 + self.others.values().filter(|other| other.is_ready(self.session)).count();
        let enough = ready >= usize::from(self.session.min_peers);
        let missing = if enough { Level::Warning } else { Level::Error };
        let mut others: Vec<_> = self.others.values().collect();
        others.sort_by_key(|other| &other.name);
        let mut findings = self.relays.findings();
        findings.extend(others.iter().flat_map(|other| other.findings(here, missing)));
        if self.mdns && !here.mdns_works && others.iter().any(|other| other.up.is_some()) {
            let text = "mDNS found no peer of this session";
            let advice = "check that UDP port 5353 is open for multicast here; until then every address \
                          must be in the session file";
            findings.push(Finding::new(Level::Warning, "mdns", text).advise(advice));
        }
        for (peer, address) in &self.strangers {
            let text = format!("{peer} at {address} is not in this session file and was turned away");
            let advice = "if it should take part, its id is missing or wrong in this file: compare with \
                          `flyswarm id` there";
            findings.push(Finding::new(Level::Warning, "stranger", text).advise(advice));
        }
        (ready, findings)
    }

    fn here(&self) -> Here<'_> {
        let (session, mdns, keyed, chosen) = (self.session, self.mdns, self.keyed, self.chosen);
        let mdns_works = self.others.values().any(|other| !other.found.is_empty());
        Here { session, mdns, mdns_works, keyed, chosen, vector: local::vector_bytes(session) }
    }

    fn complete(&self, waited: Duration) -> bool {
        let found = |other: &Other| !self.mdns || !other.found.is_empty() || waited >= MDNS;
        self.relays.are_heard() && self.others.values().all(|other| other.is_complete() && found(other))
    }

    /// Tries new addresses with plain TCP connections. QUIC addresses are left out, because QUIC does not
    /// answer without a handshake.
    fn touch(&mut self, peer: PeerId, waker: Option<&Waker>) {
        let Some(other) = self.others.get_mut(&peer) else { return };
        let mut fresh = Vec::new();
        let quic = |address: &&Multiaddr| address.iter().any(|part| matches!(part, Protocol::QuicV1));
        for address in other.file.iter().chain(&other.found).filter(|address| !quic(address)) {
            if other.touched.len() < TRIED && !other.touched.contains_key(address) {
                other.touched.insert(address.clone(), None);
                fresh.push(address.clone());
            }
        }
        fresh.into_iter().for_each(|address| self.try_on_a_thread(peer, address, waker));
    }

    /// Tries refused addresses again, because a program may listen there now.
    fn touch_refused_again(&mut self, waker: &Waker) {
        let refused = |other: &Other| {
            let refused = other.touched.iter().filter(|(_, touch)| **touch == Some(Touch::Refused));
            refused.map(|(address, _)| address.clone()).collect::<Vec<_>>()
        };
        for (peer, other) in self.others.iter().filter(|(_, other)| other.up.is_none()) {
            refused(other).into_iter().for_each(|address| self.try_on_a_thread(*peer, address, Some(waker)));
        }
    }

    fn try_on_a_thread(&self, peer: PeerId, address: Multiaddr, waker: Option<&Waker>) {
        let (sender, waker) = (self.touches.0.clone(), waker.cloned());
        std::thread::spawn(move || {
            let touch = Touch::of(&address);
            // An error is ignored, because the doctor may have ended.
            let _ = sender.send((peer, address, touch));
            if let Some(waker) = waker {
                waker.wake();
            }
        });
    }

    fn take_touches(&mut self) {
        while let Ok((peer, address, touch)) = self.touches.1.try_recv() {
            if let Some(other) = self.others.get_mut(&peer) {
                other.touched.insert(address, Some(touch));
            }
        }
    }

    /// Does only the checks that need no identity.
    fn only_touch(&mut self, wait: Duration) {
        self.others.keys().copied().collect::<Vec<_>>().into_iter().for_each(|peer| self.touch(peer, None));
        let until = now() + wait.min(TOUCH + Duration::from_millis(500));
        while now() < until
            && self.others.values().flat_map(|other| other.touched.values()).any(Option::is_none)
        {
            std::thread::sleep(Duration::from_millis(20));
            self.take_touches();
        }
    }

    fn connect<E: From<Error>>(
        &mut self,
        config: Config,
        wait: Duration,
        say: &mut Say<'_, E>,
    ) -> Result<(), E> {
        let until = now() + wait;
        let (network, events) = match Network::spawn(config.clone()) {
            Ok(started) => started,
            Err(error) => {
                let advice = "stop the program that uses it, or choose another address with --listen";
                say(&Finding::new(Level::Error, "listen", error.to_string()).advise(advice))?;
                self.only_touch(wait);
                return Ok(());
            }
        };
        let waker = network.waker();
        self.others
            .keys()
            .copied()
            .collect::<Vec<_>>()
            .into_iter()
            .for_each(|peer| self.touch(peer, Some(&waker)));
        let mut told = false;
        let begun = now();
        let mut last = begun;
        while let Some(left) = until.checked_duration_since(now()) {
            if self.complete(begun.elapsed()) {
                break;
            }
            // Interfaces are reported only a short time after the start.
            if !told && begun.elapsed() >= Duration::from_secs(1) {
                told = true;
                self.tell_listeners(say)?;
            }
            if let Ok(event) = events.recv_timeout(left.min(Duration::from_millis(200))) {
                self.event(event, &network, say)?;
            }
            self.take_touches();
            if last.elapsed() >= AGAIN {
                last = now();
                self.touch_refused_again(&waker);
            }
        }
        if !told {
            self.tell_listeners(say)?;
        }
        let _ = network.shutdown(FLUSH);
        self.drain(&events);
        Ok(())
    }

    fn drain(&mut self, events: &Events) {
        while let Ok(event) = events.try_recv() {
            if let Event::WasProbed { peer } = event
                && let Some(other) = self.others.get_mut(&peer)
            {
                other.was_probed += 1;
            }
        }
    }

    fn tell_listeners<E>(&self, say: &mut Say<'_, E>) -> Result<(), E> {
        let loopback = |address: &Multiaddr| {
            address.iter().any(|part| match part {
                Protocol::Ip4(ip) => ip.is_loopback(),
                Protocol::Ip6(ip) => ip.is_loopback(),
                _ => false,
            })
        };
        let (inner, outer): (Vec<_>, Vec<_>) = self.listening.iter().partition(|address| loopback(address));
        for address in &outer {
            let finding = Finding::new(Level::Ok, "listening", address.to_string());
            let advice = "the port changes with every run; if a firewall needs a fixed port: --listen \
                          /ip4/0.0.0.0/tcp/4001";
            say(&if self.chosen { finding } else { finding.advise(advice) })?;
        }
        if outer.is_empty() {
            let inner = inner.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            let text = format!("only on this machine itself ({inner}): no other machine can reach it");
            let advice = "connect this machine to a network, or listen on one with --listen \
                          /ip4/0.0.0.0/tcp/4001";
            say(&Finding::new(Level::Warning, "listening", text).advise(advice))?;
        }
        Ok(())
    }

    fn event<E: From<Error>>(
        &mut self,
        event: Event,
        network: &Network,
        say: &mut Say<'_, E>,
    ) -> Result<(), E> {
        match event {
            Event::Listening(address) if is_relayed(&address) => self.relays.note(&address, true),
            Event::Listening(address) => self.listening.push(address),
            Event::ListenFailed { address, .. } if is_relayed(&address) => self.relays.note(&address, false),
            Event::ListenFailed { address, reason } => {
                let text = format!("no longer listening on {address}: {reason}");
                say(&Finding::new(Level::Error, "listen", text)
                    .advise("check that the network interface is up"))?;
            }
            Event::Twin { address } => {
                if self.twins.len() < TRIED && self.twins.insert(address.clone()) {
                    say(&twin_finding(&address))?;
                }
            }
            Event::Stranger { peer, address } => {
                // If the stranger answers at the address of another peer, records this.
                let place = self.others.iter_mut().find(|(whose, other)| {
                    **whose != peer && (other.file.contains(&address) || other.found.contains(&address))
                });
                match place {
                    Some((_, other)) => drop(other.others.insert(address, peer)),
                    None if self.strangers.len() < TRIED => drop(self.strangers.insert(peer, address)),
                    None => {}
                }
            }
            Event::Found { peer, address } => {
                if let Some(other) = self.others.get_mut(&peer) {
                    other.found.insert(address);
                    self.touch(peer, Some(&network.waker()));
                }
            }
            Event::NotUp { peer, address, known, reason } => {
                if let Some(other) = self.others.get_mut(&peer)
                    && (other.not_up.len() < 2 * TRIED || other.not_up.contains_key(&address))
                {
                    other.not_up.insert(address, (known, reason));
                }
            }
            Event::PeerUp { peer, address } => self.up(peer, address, network)?,
            Event::Probed { peer, answers } => self.probed(peer, answers, network)?,
            Event::WasProbed { peer } => {
                if let Some(other) = self.others.get_mut(&peer) {
                    other.was_probed += 1;
                }
            }
            Event::Frame { from, channel: Channel::Control, frame } => {
                let message = wire::decode(message::Channel::Control, &frame.header, frame.payload);
                if let (Ok(Message::Hello { version, session, .. }), Some(other)) =
                    (message, self.others.get_mut(&from))
                {
                    other.hello = Some((version, session));
                }
            }
            Event::Frame { .. } | Event::PeerLost { .. } | Event::Malformed { .. } | Event::Woken => {}
        }
        Ok(())
    }

    fn up(&mut self, peer: PeerId, address: Multiaddr, network: &Network) -> Result<(), Error> {
        let Some(other) = self.others.get_mut(&peer) else { return Ok(()) };
        other.touched.retain(|_, touch| matches!(touch, None | Some(Touch::Connected)));
        other.up = Some(address);
        other.not_up.clear();
        let finished = other.answers.as_ref().is_some_and(|answers| answers.rates.is_some());
        // The peer may have been silent before it was up, and may answer now.
        self.touch(peer, Some(&network.waker()));
        if finished { Ok(()) } else { ask(network, peer, Questions::default()) }
    }

    fn probed(
        &mut self,
        peer: PeerId,
        answers: Result<crate::net::Answers, String>,
        network: &Network,
    ) -> Result<(), Error> {
        let Some(other) = self.others.get_mut(&peer) else { return Ok(()) };
        // The peer connects to the address of the present connection. The port must fit, because IPv4 and
        // IPv6 have separate ports. If the connection goes through a relay, the peer knows no address of this
        // machine.
        let family = |address: &Multiaddr| matches!(address.iter().next(), Some(Protocol::Ip6(_)));
        let direct = other.up.as_ref().filter(|theirs| !is_relayed(theirs));
        let alike = |own: &&Multiaddr| direct.is_some_and(|theirs| family(theirs) == family(own));
        let port = self.listening.iter().filter(alike).find_map(port);
        match answers {
            Ok(answers) => {
                other.unanswered = None;
                match About::decode(&answers.about) {
                    Ok(about) => {
                        let most = if about.role == Role::Doctor { MOST.0 } else { MOST.1 };
                        other.about = Some(about);
                        if answers.rates.is_none() {
                            other.asked = port;
                            ask(network, peer, Questions { bytes: most, port })?;
                        }
                    }
                    Err(fault) => other.unanswered = Some(fault.to_string()),
                }
                other.answers = Some(answers);
            }
            Err(reason) => other.unanswered = Some(reason),
        }
        Ok(())
    }
}

fn ask(network: &Network, peer: PeerId, questions: Questions) -> Result<(), Error> {
    network.send(Command::Probe(peer, questions)).map_err(|error| Error::Environment(error.to_string()))
}
