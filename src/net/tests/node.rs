//! A node under test. It checks for every event that `PeerUp` and `PeerLost` alternate, and that frames come
//! only between them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::net::{Channel, Command, Config, Event, Events, Frame, Multiaddr, Network, PeerId, peer_id};
use bytes::Bytes;
use zeroize::Zeroizing;

/// It is longer than any step of these tests, so only a failing test waits for it.
pub const PATIENCE: Duration = Duration::from_secs(30);

pub fn seed(number: u8) -> Zeroizing<[u8; 32]> {
    Zeroizing::new([number; 32])
}

pub fn peer(number: u8) -> PeerId {
    peer_id(&seed(number)).expect("every seed makes an identity")
}

/// Returns the seeds of two peers, that of the smaller `PeerId` first.
pub fn ordered(a: u8, b: u8) -> (u8, u8) {
    if peer(a) < peer(b) { (a, b) } else { (b, a) }
}

pub const TCP: &str = "/ip4/127.0.0.1/tcp/0";
pub const QUIC: &str = "/ip4/127.0.0.1/udp/0/quic-v1";

pub fn config(number: u8, roster: &[u8]) -> Config {
    config_on(TCP, number, roster)
}

pub fn config_on(listen: &str, number: u8, roster: &[u8]) -> Config {
    let roster = roster.iter().map(|number| (peer(*number), Vec::new())).collect::<BTreeMap<_, _>>();
    let mut config = Config::new(seed(number), roster);
    config.listen = vec![listen.parse().expect("an address")];
    config.patience = Duration::ZERO;
    config
}

pub fn frame(header: &[u8], payload: impl Into<Bytes>) -> Frame {
    Frame { header: Bytes::copy_from_slice(header), payload: payload.into() }
}

pub struct Node {
    pub peer: PeerId,
    pub address: Multiaddr,
    pub network: Option<Network>,
    pub events: Events,
    pub up: BTreeSet<PeerId>,
}

impl Node {
    pub fn start(config: Config) -> Self {
        let peer = peer_id(&config.identity_seed).expect("every seed makes an identity");
        let (network, events) = Network::spawn(config).expect("it starts");
        let mut node =
            Self { peer, address: Multiaddr::empty(), network: Some(network), events, up: BTreeSet::new() };
        node.address = node.wait("Listening", |event| match event {
            Event::Listening(address) => Some(address.clone()),
            _ => None,
        });
        node
    }

    pub fn network(&self) -> &Network {
        self.network.as_ref().expect("not shut down")
    }

    pub fn next(&mut self, timeout: Duration) -> Option<Event> {
        let event = self.events.recv_timeout(timeout).ok()?;
        match &event {
            Event::PeerUp { peer, .. } => assert!(self.up.insert(*peer), "second PeerUp of {peer}"),
            Event::PeerLost { peer, .. } => {
                assert!(self.up.remove(peer), "PeerLost of {peer} without PeerUp")
            }
            Event::Frame { from, .. } => assert!(self.up.contains(from), "frame of {from}, which is not up"),
            _ => {}
        }
        Some(event)
    }

    /// Takes events until `wanted` accepts one.
    pub fn wait<T>(&mut self, what: &str, mut wanted: impl FnMut(&Event) -> Option<T>) -> T {
        let mut seen = Vec::new();
        while let Some(event) = self.next(PATIENCE) {
            if let Some(found) = wanted(&event) {
                return found;
            }
            seen.push(format!("{event:.200?}"));
        }
        panic!("waited in vain for {what}; saw {seen:?}");
    }

    pub fn wait_up(&mut self, peer: PeerId) {
        if !self.up.contains(&peer) {
            self.wait("PeerUp", |event| {
                matches!(event, Event::PeerUp { peer: p, .. } if *p == peer).then_some(())
            });
        }
    }

    /// Waits for the next `PeerLost` and returns its reason.
    pub fn wait_lost(&mut self, peer: PeerId) -> String {
        self.wait("PeerLost", |event| match event {
            Event::PeerLost { peer: p, reason } if *p == peer => Some(reason.clone()),
            _ => None,
        })
    }

    pub fn wait_frame(&mut self) -> (PeerId, Channel, Frame) {
        self.wait("Frame", |event| match event {
            Event::Frame { from, channel, frame } => Some((*from, *channel, frame.clone())),
            _ => None,
        })
    }

    pub fn send(&self, to: PeerId, channel: Channel, frame: Frame) {
        self.network().send(Command::Send { to, channel, frame }).expect("within the limits");
    }

    pub fn knows(&self, other: &Self) {
        self.network().send(Command::AddAddress(other.peer, other.address.clone())).expect("always taken");
    }
}

/// Returns two connected nodes, the smaller `PeerId` first.
pub fn pair(a: u8, b: u8) -> (Node, Node) {
    pair_on(TCP, a, b)
}

/// Returns two connected nodes that listen on `listen`, the smaller `PeerId` first.
pub fn pair_on(listen: &str, a: u8, b: u8) -> (Node, Node) {
    let (small, large) = ordered(a, b);
    let mut small = Node::start(config_on(listen, small, &[a, b]));
    let mut large = Node::start(config_on(listen, large, &[a, b]));
    small.knows(&large);
    small.wait_up(large.peer);
    large.wait_up(small.peer);
    (small, large)
}
