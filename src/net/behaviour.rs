//! Manages connections: which are admitted, the single connection for each peer, when peers are dialled
//! again, and the order of the caller's events.
//!
//! **Admission.** Noise shows the identity of the other end. If this is not a peer of the roster, or if the
//! peer is banned, the connection is refused before this node opens a substream.
//!
//! **One connection.** Both peers of a pair may dial at once. The peer with the smaller `PeerId`
//! *chooses*: it keeps the first established connection that it sees, regardless of which side dialled, and
//! refuses all others until this one is closed. It shows its choice by opening its two substreams at once.
//! The other peer accepts up to [`SPARE`] connections, but opens its own substreams only on a connection on
//! which the chooser has opened one. If the chooser opens substreams on a second connection, the first one is
//! dead. So both keep the same connection without negotiation.
//!
//! **Through a relay.** The chooser waits for [`PUNCH`] before it chooses a connection through a relay. In
//! this time libp2p's DCUtR tries to make a direct connection, which is then chosen instead. After a relayed
//! connection has been chosen, it is kept.
//!
//! **Order.** `PeerUp` is queued before the handler starts to read. Frames are stopped before `PeerLost` is
//! queued ([`super::link`]). Both events are queued only in this module, so they alternate.

mod tell;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use either::Either;
use libp2p::core::transport::PortUse;
use libp2p::core::{Endpoint, Multiaddr};
use libp2p::multiaddr::Protocol;
use libp2p::swarm::behaviour::{ConnectionClosed, DialFailure, ListenFailure};
use libp2p::swarm::dial_opts::{DialOpts, PeerCondition};
use libp2p::swarm::{
    CloseConnection, ConnectionDenied, ConnectionError, ConnectionId, DialError, FromSwarm, ListenError,
    NetworkBehaviour, NotifyHandler, ToSwarm, dummy,
};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval};

use super::dial::{Dialer, Source, dials_first, is_relayed, without_peer};
use super::events::{EventSender, harmless};
use super::gate::{Gate, ip_of};
use super::handler::{Handler, Report, Tell};
use super::link::{Link, Traffic};
use super::observe::is_node;
use super::probe;
use super::{Config, Event, PeerId};
use crate::buffers::Buffers;

/// Maximum number of simultaneous connections with one peer on the side that does not choose: one that each
/// side has dialled, and one that is dead but not yet detected as such.
const SPARE: usize = 3;
/// Time after which a relayed connection is chosen, if hole punching has not made a direct one. Hole punching
/// takes about seven round trips, and a second more if a packet is lost (guess).
const PUNCH: Duration = Duration::from_secs(4);
/// Interval between checks of the peers to dial.
const TICK: Duration = Duration::from_millis(50);
/// A stranger is reported at most once in this time.
const REPORT_AGAIN: Duration = Duration::from_secs(60);
/// Maximum number of strangers that are remembered, so that they are not reported again too soon (guess).
const STRANGERS: usize = 256;

/// Where this node has met a stranger. The two cases are remembered separately, because they have different
/// causes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Met {
    Calling,
    /// The stranger answered at the address of a peer of the roster.
    Answering,
}

/// Reason why a connection was refused. Only libp2p sees it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Refused(&'static str);

struct Connection {
    link: Arc<Link>,
    address: Multiaddr,
    /// Time at which `PeerUp` was queued.
    up: Option<Instant>,
    /// If this connection uses a relay and waits for a direct one: the time at which the wait ends.
    held: Option<Instant>,
    /// True if the connection is being closed. If it was up, `PeerLost` has been queued.
    shut: bool,
}

struct Peer {
    dialer: Dialer,
    dialing: Option<ConnectionId>,
    banned: bool,
    traffic: Arc<Traffic>,
    connections: BTreeMap<ConnectionId, Connection>,
}

impl Peer {
    fn live(&self) -> usize {
        self.connections.values().filter(|connection| !connection.shut).count()
    }
}

/// Network behaviour of a node.
pub(super) struct Behaviour {
    local: PeerId,
    max_frame: usize,
    piece: usize,
    /// Text for peers that ask about this node.
    about: Bytes,
    buffers: Buffers,
    events: EventSender,
    /// Limit of incoming connections without an identity. It knows the addresses of the peers.
    gate: Gate,
    peers: BTreeMap<PeerId, Peer>,
    /// Relays that this node dials. They are not peers of the session.
    relays: BTreeSet<PeerId>,
    finishing: bool,
    strangers: BTreeMap<(IpAddr, PeerId, Met), Instant>,
    tick: Interval,
    actions: VecDeque<ToSwarm<Infallible, Tell>>,
}

impl Behaviour {
    pub(super) fn new(
        local: PeerId,
        config: &Config,
        traffic: &BTreeMap<PeerId, Arc<Traffic>>,
        events: EventSender,
        gate: Gate,
    ) -> Self {
        let Config { roster, max_frame, piece, patience, about, relays, .. } = config;
        let now = Instant::now();
        let peer = |(peer, traffic): (&PeerId, &Arc<Traffic>)| {
            let mut dialer = Dialer::new(local, *peer, *patience, now);
            for address in roster.get(peer).into_iter().flatten() {
                gate.know(address);
                dialer.add(address.clone(), Source::Given);
            }
            for (relay, address) in relays.iter().filter(|(relay, _)| relay != peer) {
                let through = address.clone().with(Protocol::P2p(*relay)).with(Protocol::P2pCircuit);
                dialer.add(through, Source::Relayed);
            }
            let traffic = Arc::clone(traffic);
            (*peer, Peer { dialer, dialing: None, banned: false, traffic, connections: BTreeMap::new() })
        };
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            local,
            max_frame: *max_frame,
            piece: *piece,
            about: about.clone(),
            buffers: Buffers::default(),
            events,
            gate: gate.clone(),
            peers: traffic.iter().map(peer).collect(),
            relays: relays.iter().map(|(relay, _)| *relay).collect(),
            finishing: false,
            strangers: BTreeMap::new(),
            tick,
            actions: VecDeque::new(),
        }
    }

    pub(super) fn add_address(&mut self, peer: PeerId, address: Multiaddr, source: Source) {
        let Some(entry) = self.peers.get_mut(&peer) else { return };
        if source == Source::Found && !is_node(&address) {
            return;
        }
        entry.dialer.add(address.clone(), source);
        if source == Source::Given {
            self.gate.know(&address);
        }
        // mDNS is not authenticated, so false answers must not fill the caller's queue.
        if source == Source::Found && !self.events.is_crowded() {
            self.events.detail(Event::Found { peer, address: without_peer(address) });
        }
    }

    pub(super) fn expire_address(&mut self, peer: PeerId, address: Multiaddr) {
        if let Some(peer) = self.peers.get_mut(&peer) {
            peer.dialer.expire(address);
        }
    }

    /// Dials a peer at once if it is not connected (see [`Command::Dial`](super::Command::Dial)).
    pub(super) fn hurry(&mut self, peer: PeerId) {
        let now = Instant::now();
        if let Some(entry) = self.peers.get_mut(&peer).filter(|entry| entry.connections.is_empty()) {
            entry.dialer.hurry(now);
        }
    }

    /// Closes every connection with the peer, and refuses new ones.
    pub(super) fn ban(&mut self, peer: PeerId) {
        if let Some(entry) = self.peers.get_mut(&peer) {
            entry.banned = true;
            let connections: Vec<_> = entry.connections.keys().copied().collect();
            for connection in connections {
                self.close(peer, connection, "banned");
            }
        }
    }

    /// Excludes the address of a peer that is up, and ends the connection when its queues are flushed.
    pub(super) fn leave_out(&mut self, peer: PeerId) {
        let now = Instant::now();
        let Some(entry) = self.peers.get_mut(&peer) else { return };
        let up = entry.connections.values().filter(|connection| connection.up.is_some() && !connection.shut);
        for connection in up {
            entry.dialer.wrong(connection.address.clone(), now);
            connection.link.finish();
        }
    }

    /// Stops admitting and dialling peers. Connections end when their queues are flushed.
    pub(super) fn finish(&mut self) {
        self.finishing = true;
        let connections = self.peers.iter().flat_map(|(peer, entry)| {
            entry.connections.iter().map(|(id, connection)| (*peer, *id, connection.up.is_some()))
        });
        for (peer, id, up) in connections.collect::<Vec<_>>() {
            if up {
                self.peers[&peer].connections[&id].link.finish();
            } else {
                self.close(peer, id, "this node shut down");
            }
        }
    }

    /// Returns the peers that have not closed their connection yet.
    pub(super) fn unfinished(&self) -> Vec<PeerId> {
        self.peers.iter().filter(|(_, entry)| entry.live() > 0).map(|(peer, _)| *peer).collect()
    }

    /// Ends the remaining connections, so that every `PeerUp` has its `PeerLost`.
    pub(super) fn abandon(&mut self) {
        for entry in self.peers.values_mut() {
            for connection in entry.connections.values_mut() {
                connection.shut(&self.events, "this node shut down");
            }
        }
    }

    fn close(&mut self, peer: PeerId, id: ConnectionId, reason: &str) {
        let Some(connection) = self.peers.get_mut(&peer).and_then(|entry| entry.connections.get_mut(&id))
        else {
            return;
        };
        if !connection.shut {
            connection.shut(&self.events, reason);
            let connection = CloseConnection::One(id);
            self.actions.push_back(ToSwarm::CloseConnection { peer_id: peer, connection });
            self.rest(peer, id);
        }
    }

    /// Schedules the next dial when the last connection with a peer has ended.
    fn rest(&mut self, peer: PeerId, id: ConnectionId) {
        let Some(entry) = self.peers.get_mut(&peer) else { return };
        if entry.live() == 0 {
            let now = Instant::now();
            match entry.connections.get(&id).and_then(|connection| connection.up) {
                Some(since) => entry.dialer.lost(now - since, now),
                None => entry.dialer.failed(now),
            }
        }
    }

    fn stranger(&mut self, peer: PeerId, address: &Multiaddr, met: Met) {
        let key = (ip_of(address).unwrap_or(IpAddr::from([0; 4])), peer, met);
        let now = Instant::now();
        self.strangers.retain(|_, since| now - *since < REPORT_AGAIN);
        if self.strangers.len() < STRANGERS && !self.strangers.contains_key(&key) {
            self.strangers.insert(key, now);
            self.events.send(Event::Stranger { peer, address: without_peer(address.clone()) });
        }
    }

    fn admit(
        &mut self,
        id: ConnectionId,
        peer: PeerId,
        address: &Multiaddr,
    ) -> Result<Handler, ConnectionDenied> {
        let refuse = |why| Err(ConnectionDenied::new(Refused(why)));
        let chooses = dials_first(self.local, peer);
        let Some(entry) = self.peers.get_mut(&peer) else {
            self.stranger(peer, address, Met::Calling);
            return refuse("not in the roster");
        };
        if entry.banned {
            return refuse("banned");
        }
        if self.finishing {
            return refuse("shutting down");
        }
        if self.events.is_crowded() {
            return refuse("the program does not read its events fast enough");
        }
        let relayed = is_relayed(address);
        let gives_way = |connection: &&Connection| connection.held.is_some() && !connection.shut && !relayed;
        let waiting = entry.connections.values().filter(gives_way).count();
        if entry.live() - waiting >= if chooses { 1 } else { SPARE } {
            return refuse("another connection is in use");
        }
        self.gate.know(address);
        let link = Arc::new(Link::new(peer, Arc::clone(&entry.traffic)));
        let about = (self.about.clone(), probe::asker(address));
        let handler = Handler::new(
            Arc::clone(&link),
            self.events.clone(),
            (self.max_frame, self.piece),
            self.buffers.clone(),
            chooses && !relayed,
            about,
        );
        let address = without_peer(address.clone());
        let held = (chooses && relayed).then(|| Instant::now() + PUNCH);
        entry.connections.insert(id, Connection { link, address, up: None, held, shut: false });
        Ok(handler)
    }

    /// If connection `id` is direct, closes the relayed connections with this peer that waited for it.
    fn punched(&mut self, peer: PeerId, id: ConnectionId) {
        let Some(entry) = self.peers.get(&peer) else { return };
        if entry.connections.get(&id).is_none_or(|connection| is_relayed(&connection.address)) {
            return;
        }
        let held = entry.connections.iter().filter(|(_, connection)| connection.held.is_some());
        for relayed in held.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.close(peer, relayed, "a direct connection was made");
        }
    }

    /// Ends the wait of relayed connections with this peer, because no direct connection can be made.
    pub(super) fn not_punched(&mut self, peer: PeerId) {
        let now = Instant::now();
        let connections = self.peers.get_mut(&peer).into_iter().flat_map(|entry| &mut entry.connections);
        for held in connections.filter_map(|(_, connection)| connection.held.as_mut()) {
            *held = now;
        }
    }

    /// Chooses the relayed connections whose wait for a direct one is over.
    fn choose_due(&mut self) {
        let now = Instant::now();
        for (peer, entry) in &mut self.peers {
            for (id, connection) in &mut entry.connections {
                if !connection.shut && connection.held.is_some_and(|until| now >= until) {
                    connection.held = None;
                    let (handler, event) = (NotifyHandler::One(*id), Tell::Choose);
                    self.actions.push_back(ToSwarm::NotifyHandler { peer_id: *peer, handler, event });
                }
            }
        }
    }

    /// Adds an address at which a relay sees this node. Hole punching sends it to the other side.
    pub(super) fn seen_at(&mut self, address: Multiaddr) {
        self.actions.push_back(ToSwarm::NewExternalAddrCandidate(address));
    }

    fn standing(&mut self, peer: PeerId, id: ConnectionId) {
        let Some(entry) = self.peers.get_mut(&peer) else { return };
        if entry.connections.get(&id).is_none_or(|connection| connection.shut || connection.up.is_some()) {
            return;
        }
        let older: Vec<_> =
            entry.connections.iter().filter(|(_, c)| c.up.is_some()).map(|(id, _)| *id).collect();
        for older in older {
            self.close(peer, older, "the peer uses a newer connection");
        }
        let Some(connection) = self.peers.get_mut(&peer).and_then(|entry| entry.connections.get_mut(&id))
        else {
            return;
        };
        connection.up = Some(Instant::now());
        let address = connection.address.clone();
        // The link is opened before the event is queued, because the caller may send as soon as it has the
        // event. The handler does not read before `Go`.
        connection.link.open();
        self.events.up(Event::PeerUp { peer, address }, Arc::clone(&connection.link));
        if self.finishing {
            connection.link.finish();
        }
        self.actions.push_back(ToSwarm::NotifyHandler {
            peer_id: peer,
            handler: NotifyHandler::One(id),
            event: Tell::Go,
        });
    }

    fn closed(&mut self, peer: PeerId, id: ConnectionId, cause: Option<&ConnectionError>) {
        let Some(entry) = self.peers.get_mut(&peer) else { return };
        let Some(connection) = entry.connections.get_mut(&id) else { return };
        if !connection.shut {
            let reason = match cause {
                Some(ConnectionError::IO(error)) => format!("the connection broke: {error}"),
                Some(error) => format!("the connection broke: {error}"),
                None => "the connection was closed".to_owned(),
            };
            connection.shut(&self.events, &reason);
            self.rest(peer, id);
        }
        if let Some(entry) = self.peers.get_mut(&peer) {
            entry.connections.remove(&id);
        }
    }

    fn dial_failed(&mut self, failure: &DialFailure<'_>) {
        let now = Instant::now();
        match failure.error {
            DialError::WrongPeerId { obtained, address } if *obtained == self.local => self.twin(address),
            DialError::WrongPeerId { obtained, address } => self.stranger(*obtained, address, Met::Answering),
            DialError::LocalPeerId { address } => self.twin(address),
            _ => {}
        }
        let Some(entry) = failure.peer_id.and_then(|peer| self.peers.get_mut(&peer)) else { return };
        entry.connections.remove(&failure.connection_id);
        if entry.dialing == Some(failure.connection_id) {
            entry.dialing = None;
            entry.dialer.failed(now);
        }
        match failure.error {
            DialError::WrongPeerId { address, .. } | DialError::LocalPeerId { address } => {
                entry.dialer.wrong(address.clone(), now);
            }
            DialError::Transport(failed) => {
                if let Some(peer) = failure.peer_id {
                    for (address, error) in failed {
                        entry.dialer.failed_at(address.clone());
                        let (address, reason) = (without_peer(address.clone()), innermost(error));
                        self.events.detail(Event::NotUp { peer, address, known: false, reason });
                    }
                }
            }
            _ => {}
        }
    }

    /// Reports that another node has this node's identity.
    fn twin(&mut self, address: &Multiaddr) {
        if !self.events.is_crowded() {
            self.events.send(Event::Twin { address: without_peer(address.clone()) });
        }
    }

    fn dial_due(&mut self) {
        if self.finishing || self.events.is_crowded() {
            return;
        }
        let now = Instant::now();
        for (peer, entry) in &mut self.peers {
            if entry.banned || entry.dialing.is_some() || entry.live() > 0 {
                continue;
            }
            if let Some(addresses) = entry.dialer.due(now) {
                let opts = DialOpts::peer_id(*peer)
                    .condition(PeerCondition::Always)
                    .addresses(addresses)
                    .allocate_new_port()
                    .build();
                entry.dialing = Some(opts.connection_id());
                self.actions.push_back(ToSwarm::Dial { opts });
            }
        }
    }
}

/// Returns the text of an error's last cause, which is the most specific.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    harmless(&error.to_string())
}

impl Connection {
    fn shut(&mut self, events: &EventSender, reason: &str) {
        if !self.shut {
            self.shut = true;
            self.link.shut();
            let (peer, reason) = (self.link.peer, harmless(reason));
            match self.up {
                Some(_) => events.send(Event::PeerLost { peer, reason }),
                None => {
                    events.detail(Event::NotUp { peer, address: self.address.clone(), known: true, reason })
                }
            }
        }
    }
}

impl NetworkBehaviour for Behaviour {
    /// The handler of a relay does nothing.
    type ConnectionHandler = Either<Handler, dummy::ConnectionHandler>;
    type ToSwarm = Infallible;

    fn handle_established_inbound_connection(
        &mut self,
        id: ConnectionId,
        peer: PeerId,
        local: &Multiaddr,
        remote: &Multiaddr,
    ) -> Result<Self::ConnectionHandler, ConnectionDenied> {
        // For a relayed connection only the local address contains the relay.
        let address = if is_relayed(local) { local } else { remote };
        self.admit(id, peer, address).map(Either::Left)
    }

    fn handle_established_outbound_connection(
        &mut self,
        id: ConnectionId,
        peer: PeerId,
        address: &Multiaddr,
        _: Endpoint,
        _: PortUse,
    ) -> Result<Self::ConnectionHandler, ConnectionDenied> {
        if self.relays.contains(&peer) && !self.peers.contains_key(&peer) {
            return Ok(Either::Right(dummy::ConnectionHandler));
        }
        self.admit(id, peer, address).map(Either::Left)
    }

    fn on_swarm_event(&mut self, event: FromSwarm<'_>) {
        match event {
            FromSwarm::ConnectionEstablished(established) => {
                if let Some(entry) = self.peers.get_mut(&established.peer_id)
                    && entry.dialing == Some(established.connection_id)
                {
                    entry.dialing = None;
                }
                self.punched(established.peer_id, established.connection_id);
            }
            FromSwarm::ConnectionClosed(ConnectionClosed { peer_id, connection_id, cause, .. }) => {
                self.closed(peer_id, connection_id, cause);
            }
            FromSwarm::DialFailure(failure) => self.dial_failed(&failure),
            FromSwarm::ListenFailure(ListenFailure { connection_id, error, send_back_addr, .. }) => {
                tracing::debug!(address = %send_back_addr, %error, "incoming connection failed");
                if let ListenError::LocalPeerId { address } = error {
                    self.twin(address);
                }
                for entry in self.peers.values_mut() {
                    entry.connections.remove(&connection_id);
                }
            }
            _ => {}
        }
    }

    fn on_connection_handler_event(
        &mut self,
        peer: PeerId,
        id: ConnectionId,
        report: Either<Report, Infallible>,
    ) {
        let Either::Left(report) = report;
        match report {
            Report::Standing => self.standing(peer, id),
            Report::Fault { malformed, reason } => {
                tracing::debug!(%peer, %id, reason, "closing a connection");
                if malformed {
                    self.events.send(Event::Malformed { from: peer, reason: reason.clone() });
                }
                self.close(peer, id, &reason);
            }
            Report::Probed(answers) => self.events.send(Event::Probed { peer, answers }),
            Report::WasProbed => self.events.send(Event::WasProbed { peer }),
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<ToSwarm<Infallible, Either<Tell, Infallible>>> {
        while self.tick.poll_tick(cx).is_ready() {
            self.dial_due();
            self.choose_due();
        }
        match self.actions.pop_front() {
            Some(action) => Poll::Ready(action.map_in(Either::Left)),
            None => Poll::Pending,
        }
    }
}
