//! Collects information about another peer, and makes findings from it. This module has no socket and no
//! clock: the doctor records the information.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::TcpStream;
use std::time::Duration;

use libp2p::multiaddr::Protocol;

use super::TOUCH;
use super::finding::{Finding, Level};
use super::local::megabytes;
use crate::net::{self, Answers, Multiaddr, PeerId, Reach};
use crate::protocol::about::{About, Role};
use crate::protocol::message::VERSION;
use crate::session::Session;

/// If two clocks differ by more seconds than this, receipts and logs are hard to compare (guess). The
/// protocol does not depend on clocks.
const CLOCK: f64 = 60.0;
/// If a sum takes more seconds than this, there is a warning (guess).
const LONG_SUM: f64 = 60.0;
/// Maximum number of addresses of a peer that are tried and shown.
pub(crate) const TRIED: usize = 8;

/// Result of a plain TCP connection to an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Touch {
    Connected,
    Refused,
    Silence,
    Failed(String),
}

impl Touch {
    /// Makes a plain TCP connection to an address, closes it at once, and returns the result.
    pub(crate) fn of(address: &Multiaddr) -> Self {
        let Some(port) = port(address) else { return Self::Failed("not a TCP address".to_owned()) };
        let found = match address.iter().next() {
            Some(Protocol::Ip4(ip)) => Ok(vec![ip.into()]),
            Some(Protocol::Ip6(ip)) => Ok(vec![ip.into()]),
            Some(Protocol::Dns(name) | Protocol::Dns4(name) | Protocol::Dns6(name)) => {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                let found = runtime.map_err(|error| error.to_string());
                found
                    .and_then(|runtime| runtime.block_on(net::addresses_of(&name)))
                    .map_err(|error| format!("{name} is not known to DNS: {error}"))
            }
            _ => Err("not an IP address and not a DNS name".to_owned()),
        };
        let places = match found {
            Ok(places) => places,
            Err(error) => return Self::Failed(error),
        };
        let mut last = Self::Failed("the name has no address".to_owned());
        for place in places.into_iter().take(4) {
            match TcpStream::connect_timeout(&(place, port).into(), TOUCH) {
                Ok(_) => return Self::Connected,
                Err(error) => last = Self::failed(&error),
            }
        }
        last
    }

    fn failed(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::ConnectionRefused => Self::Refused,
            io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => Self::Silence,
            _ => Self::Failed(error.to_string()),
        }
    }
}

/// Another peer of the roster.
#[derive(Debug, Default)]
pub(crate) struct Other {
    pub(crate) name: String,
    /// Addresses in the session file.
    pub(crate) file: Vec<Multiaddr>,
    /// True if the session has relays. It then also uses hole punching.
    pub(crate) relays: bool,
    /// Addresses from mDNS.
    pub(crate) found: BTreeSet<Multiaddr>,
    /// Results of plain connections, or `None` while an address is being tried.
    pub(crate) touched: BTreeMap<Multiaddr, Option<Touch>>,
    /// Address at which the peer was last up.
    pub(crate) up: Option<Multiaddr>,
    /// For each address, why the connection failed, and whether the peer had shown its identity before.
    pub(crate) not_up: BTreeMap<Multiaddr, (bool, String)>,
    /// Other identities that answered at the peer's addresses.
    pub(crate) others: BTreeMap<Multiaddr, PeerId>,
    pub(crate) about: Option<About>,
    /// Version and session in the peer's hello, if the peer answers no questions.
    pub(crate) hello: Option<(u16, [u8; 32])>,
    pub(crate) unanswered: Option<String>,
    /// Port of this machine that the peer was asked to connect to.
    pub(crate) asked: Option<u16>,
    /// The last answers of the peer; if any have rates, the last with rates.
    pub(crate) answers: Option<Answers>,
    /// Number of the peer's questions that this machine has answered.
    pub(crate) was_probed: u32,
}

/// Information about this machine that the findings need.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Here<'a> {
    pub(crate) session: &'a Session,
    /// True if mDNS was used.
    pub(crate) mdns: bool,
    /// True if mDNS found any of the other peers.
    pub(crate) mdns_works: bool,
    /// True if a network key is used.
    pub(crate) keyed: bool,
    /// True if the user chose the addresses to listen on.
    pub(crate) chosen: bool,
    /// Size of the largest sum in bytes.
    pub(crate) vector: u64,
}

impl Other {
    /// Returns whether the peer would take part in this session now.
    pub(crate) fn is_ready(&self, session: &Session) -> bool {
        let same = |version, id| version == VERSION && id == session.id().0;
        match (&self.about, &self.hello) {
            (Some(about), _) => same(about.version, about.session),
            (None, Some((version, id))) => same(*version, *id),
            (None, None) => false,
        }
    }

    /// Returns whether the information is complete: the peer has answered all questions and, if it runs the
    /// doctor too, its own questions have been answered.
    pub(crate) fn is_complete(&self) -> bool {
        let asked =
            self.answers.as_ref().is_some_and(|answers| answers.rates.is_some()) || self.unanswered.is_some();
        let served = self.about.as_ref().is_none_or(|about| about.role == Role::Join || self.was_probed >= 2);
        asked && served && self.touched.values().all(Option::is_some)
    }

    /// Returns all findings. `missing` is the level of a problem that prevents this peer from taking part.
    pub(crate) fn findings(&self, here: Here<'_>, missing: Level) -> Vec<Finding> {
        let mut findings = match (&self.about, &self.hello) {
            (None, None) => self.not_there(here, missing),
            _ => self.there(here, missing),
        };
        findings.iter_mut().for_each(|finding| finding.peer = Some(self.name.clone()));
        findings
    }

    fn source(&self, address: &Multiaddr) -> &'static str {
        if net::is_relayed(address) {
            return "through a relay";
        }
        match (self.file.contains(address), self.found.contains(address)) {
            (true, true) => "from the session file and mDNS",
            (true, false) => "from the session file",
            (false, true) => "from mDNS",
            (false, false) if self.relays => "it connected to this machine, or by hole punching",
            (false, false) => "it connected to this machine",
        }
    }

    fn known_by(&self) -> &'static str {
        match (self.file.is_empty(), self.found.is_empty()) {
            (false, false) => "known by mDNS and the session file",
            (false, true) => "known by the session file only",
            (true, false) => "known by mDNS only",
            (true, true) => "known by neither mDNS nor the session file",
        }
    }

    fn there(&self, here: Here<'_>, missing: Level) -> Vec<Finding> {
        let mut findings = Vec::new();
        let (version, session) = match (&self.about, &self.hello) {
            (Some(about), _) => (about.version, about.session),
            (None, Some(hello)) => *hello,
            (None, None) => return findings,
        };
        let at = self
            .up
            .as_ref()
            .map_or(String::new(), |address| format!(" at {address} ({})", self.source(address)));
        if version != VERSION {
            let text = format!("speaks protocol version {version}, this machine {VERSION}{at}");
            findings.push(Finding::new(missing, "version", text).advise("install the same flyswarm on both"));
        } else if session != here.session.id().0 {
            let fields = match &self.about {
                Some(about) => about.differs_from(&here.session.settings()),
                None => Vec::new(),
            };
            let fields = if fields.is_empty() { "a field".to_owned() } else { fields.join(", ") };
            let ids = (hex::encode(&session[..4]), hex::encode(&here.session.id().0[..4]));
            let text = format!(
                "has another session file: {fields} differs (its session {}..., ours {}...)",
                ids.0, ids.1
            );
            let advice = "give all peers the same file; `flyswarm session check` prints its id";
            findings.push(Finding::new(missing, "session", text).advise(advice));
        } else {
            let runs = match self.about.as_ref().map(|about| about.role) {
                Some(Role::Join) => ", runs join",
                Some(Role::Doctor) => ", runs doctor",
                None => "",
            };
            let way = self.answers.as_ref().map_or_else(String::new, |answers| format!(", {}", way(answers)));
            let text = format!("ready{at}; {}{runs}{way}", self.known_by());
            findings.push(Finding::new(Level::Ok, "peer", text));
        }
        if self.up.as_ref().is_some_and(net::is_relayed) {
            let text = "is reached only through a relay: neither machine has a direct connection to the \
                        other";
            let advice = "for a direct connection open a TCP port at one of them, run `flyswarm join` \
                          there with --listen /ip4/0.0.0.0/tcp/PORT, and write its address into the \
                          session file";
            findings.push(Finding::new(Level::Note, "relayed", text).advise(advice));
        }
        if let Some(why) = &self.unanswered {
            let text = format!("does not answer questions ({why}): round trip and rates are unknown");
            findings.push(Finding::new(Level::Note, "probe", text));
        }
        if let Some(answers) = &self.answers {
            findings.extend(judged(answers, self.asked, here));
        }
        if here.mdns_works && self.found.is_empty() {
            let text = "not seen by mDNS, although it can be reached";
            let advice = "this is fine if its address is in the session file; otherwise open UDP port \
                          5353 for multicast";
            findings.push(Finding::new(Level::Note, "mdns", text).advise(advice));
        }
        // Addresses that work do not get another line.
        for (address, touch) in self.touched.iter().filter(|(address, _)| self.file.contains(address)) {
            if let Some(touch) = touch
                && *touch != Touch::Connected
            {
                let finding = self.touch_finding(address, touch, Level::Warning);
                findings.push(finding);
            }
        }
        findings.extend(self.impostors(Level::Warning));
        findings
    }

    fn not_there(&self, here: Here<'_>, missing: Level) -> Vec<Finding> {
        if self.touched.is_empty() && self.not_up.is_empty() {
            let (text, advice) = if here.mdns {
                (
                    "no contact: mDNS did not find it and the session file has no address",
                    "check that it is on, is on this network and runs `flyswarm join` or `doctor`; if \
                     the network blocks multicast (UDP port 5353), write its address into the session \
                     file",
                )
            } else {
                (
                    "no contact: the session file has no address, and mDNS is off",
                    "leave out --no-mdns, or write its address into the session file",
                )
            };
            return vec![Finding::new(missing, "address", text).advise(advice)];
        }
        let mut findings = Vec::new();
        if let (Some(address), Some(why)) = (&self.up, &self.unanswered) {
            let text = format!(
                "responds at {address} ({}), but does not name its program: {why}",
                self.source(address)
            );
            findings.push(Finding::new(missing, "probe", text).advise("install the same flyswarm on both"));
        }
        // If the peer has shown its identity, it can be reached. So the reason why it left is more useful
        // than the present state of its addresses.
        let mut known: Vec<_> = self.not_up.iter().filter(|(_, (known, _))| *known).collect();
        known.sort_by_key(|(address, _)| !self.file.contains(address) && !self.found.contains(address));
        if let Some((address, (_, why))) = known.first() {
            let at = format!("{address} ({})", self.source(address));
            findings.push(if why.contains("does not speak it") {
                let text = format!("speaks another protocol version at {at}: {why}");
                Finding::new(missing, "version", text).advise("install the same flyswarm on both")
            } else {
                let text = format!("closes the connection at {at} when it sees this machine's id: {why}");
                let advice = "the other peer's session file may have another peer id for this machine, or its \
                              program is another version: compare the id that `flyswarm id` prints here with \
                              both session files, and `flyswarm --version` on both machines";
                Finding::new(missing, "roster", text).advise(advice)
            });
        }
        if !findings.is_empty() {
            return findings;
        }
        let (key, compare) = if here.keyed {
            ("no network key or another one", "compare `flyswarm id --network-key` on both")
        } else {
            ("a network key", "give the same one with --network-key")
        };
        for (address, (_, why)) in self.not_up.iter().take(TRIED) {
            let connected = matches!(self.touched.get(address), Some(Some(Touch::Connected)) | None);
            if connected && !self.others.contains_key(address) {
                let text = format!(
                    "a program answers at {address} ({}), but not like flyswarm: {why}",
                    self.source(address)
                );
                let advice = format!("it may use {key}: {compare}; or the port belongs to another program");
                findings.push(Finding::new(missing, "network-key", text).advise(advice));
            }
        }
        for (address, touch) in &self.touched {
            match touch {
                Some(Touch::Connected) if findings.is_empty() && !self.others.contains_key(address) => {
                    let text = format!(
                        "a program answers at {address} ({}), but no handshake follows",
                        self.source(address)
                    );
                    let advice = format!("it may use {key}: {compare}; or it is overloaded, or not flyswarm");
                    findings.push(Finding::new(missing, "network-key", text).advise(advice));
                }
                Some(Touch::Connected) | None => {}
                Some(touch) => findings.push(self.touch_finding(address, touch, missing)),
            }
        }
        findings.extend(self.impostors(missing));
        findings
    }

    fn touch_finding(&self, address: &Multiaddr, touch: &Touch, level: Level) -> Finding {
        let at = format!("{address} ({})", self.source(address));
        let port = port(address).map_or("its port".to_owned(), |port| format!("TCP port {port}"));
        match touch {
            Touch::Connected => Finding::new(Level::Ok, "address", format!("answers at {at}")),
            Touch::Refused => Finding::new(level, "refused", format!("no program listens at {at}: connection refused")).advise(
                "is `flyswarm join` or `doctor` running there? An address in the session file needs the same --listen each time",
            ),
            Touch::Silence => Finding::new(level, "firewall", format!("no answer at {at} within 4 s: probably a firewall, or the machine is off"))
                .advise(format!("open {port} there; check that its address has not changed")),
            Touch::Failed(why) => Finding::new(level, "address", format!("{at} cannot be reached: {why}"))
                .advise("check that both machines are on the same network and that the address is right"),
        }
    }

    fn impostors(&self, level: Level) -> Vec<Finding> {
        let finding = |(address, who): (&Multiaddr, &PeerId)| {
            let text = format!("another peer answers at {address} ({}): {who}", self.source(address));
            let advice = "another machine has this address now, or the machine has a new key: compare \
                          `flyswarm id` there";
            Finding::new(level, "identity", text).advise(advice)
        };
        self.others.iter().map(finding).collect()
    }
}

/// Returns the TCP port at the end of an address.
pub(crate) fn port(address: &Multiaddr) -> Option<u16> {
    address.iter().find_map(|part| match part {
        Protocol::Tcp(port) => Some(port),
        _ => None,
    })
}

fn duration(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1e3;
    if ms < 10.0 { format!("{ms:.1} ms") } else { format!("{ms:.0} ms") }
}

fn rate(bytes: f64) -> String {
    // The number is positive and below 10^19, because a transfer takes at least 10 microseconds.
    format!("{}/s", megabytes(bytes as u64))
}

fn way(answers: &Answers) -> String {
    let mut text = format!("round trip {}", duration(answers.round_trip));
    if let Some((out, back)) = answers.rates {
        text += &format!(", {} there, {} back", rate(out), rate(back));
    }
    let ahead = answers.clock_ahead;
    let direction = if ahead < 0.0 { "behind" } else { "ahead" };
    text + &format!(", its clock {:.2} s {direction}", ahead.abs())
}

fn judged(answers: &Answers, asked: Option<u16>, here: Here<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    if answers.clock_ahead.abs() > CLOCK {
        let direction = if answers.clock_ahead < 0.0 { "behind" } else { "ahead of" };
        let text = format!("its clock is {:.0} s {direction} this machine's", answers.clock_ahead.abs());
        let advice = "set both clocks by NTP; the session works without it, but times in receipts and \
                      logs would not match";
        findings.push(Finding::new(Level::Warning, "clock", text).advise(advice));
    }
    if let Some((out, back)) = answers.rates {
        let slowest = out.min(back).max(1.0);
        let seconds = here.vector as f64 / slowest;
        if seconds > LONG_SUM {
            let text =
                format!("{} of counts take {seconds:.0} s at {}", megabytes(here.vector), rate(slowest));
            let advice = "use a cable, or fewer bits (m) in the session file";
            findings.push(Finding::new(Level::Warning, "throughput", text).advise(advice));
        }
    }
    if let (Some(reach), Some(port)) = (answers.reach, asked) {
        let what = match reach {
            Reach::Connected => return findings,
            Reach::Refused => "is refused",
            Reach::Silence => "gets no answer in 3 s: probably a firewall on this machine",
            Reach::Failed => "fails",
        };
        let text = format!("its connection to this machine's TCP port {port} {what}");
        let advice = if here.chosen {
            format!("open TCP port {port} on this machine")
        } else {
            "choose a port with --listen /ip4/0.0.0.0/tcp/4001 and open it on this machine".to_owned()
        };
        findings.push(Finding::new(Level::Warning, "firewall", text).advise(advice));
    }
    findings
}

#[cfg(test)]
mod tests;
