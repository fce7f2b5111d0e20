//! The transport: it connects peers over libp2p and carries frames, whose content it does not know.
//!
//! **Stack.** The layers are TCP without delay; if there is a network key, the stream cipher of libp2p's
//! `pnet` 1.0; Noise, in which the peer's Ed25519 identity is its `PeerId`; Yamux; and multistream-select
//! 1.0. A connection carries four protocols: `/flyswarm/5/control`, `/flyswarm/5/bulk`, `/ipfs/ping/1.0.0`
//! and, if a peer asks, `/flyswarm/probe/1` ([`Command::Probe`]).
//!
//! **Connections.** Only peers of the roster may connect. All other nodes are refused as soon as Noise
//! has shown their identity, before any substream is opened. At most 256 connections at a time may not yet
//! have shown an identity. A further connection replaces the oldest of them; connections of strangers are
//! replaced first (see the module `gate`). In each pair, the peer with the smaller `PeerId` dials at once.
//! The other peer dials only if it knows an address and no connection has come for about 3 s. After a failed
//! dial, both dial again as long as they run: first after 0.2 s, then each time after twice the wait before,
//! up to 5 s. They use the addresses from the roster, from [`Command::AddAddress`] and from mDNS.
//!
//! **One connection per pair.** The peer with the smaller `PeerId` keeps the first connection that it sees,
//! and refuses others while this one lasts. On this connection, the peer opens two substreams for sending,
//! one for each channel. When one of the two has reached the other peer, that peer opens two substreams of
//! its own. Each side reports [`Event::PeerUp`] when all four are open, so that both directions work. A
//! second substream of the same protocol from the same side is a fault.
//!
//! **Frames** have the form that [`Frame`] describes. On each channel they arrive in order and exactly as
//! sent. There is no order between the channels, but the control channel is served first. A length outside
//! the limits causes [`Event::Malformed`].
//!
//! **Closing.** An error of one substream closes the connection. If the peer was reported up,
//! [`Event::PeerLost`] is reported exactly once, and dialling begins again. A peer that leaves on purpose
//! writes its queued frames and ends both its substreams. The other peer reads both to their ends, and then
//! closes the connection. So the leaving peer can be sure that everything was read. A peer is pinged every 2
//! s. It counts as gone if its answer is 5 s late and no other data has come from it in that time.
//!
//! **Back-pressure.** Received frames that the caller has not taken are counted for each connection and
//! channel, in an account of limited size (1 MiB for control, 4 MiB for bulk). While an account is full, its
//! substream is not read, and Yamux's window (at most 16 MiB more) stops the sender. Pings continue. Frames
//! to be sent wait in a queue for each connection and channel (4 MiB for control, 16 MiB for bulk). A caller
//! that overfills a queue has ignored the credits of its own protocol, and loses the connection. Each frame
//! counts as its bytes plus 256.

mod at_relays;
mod behaviour;
mod dial;
pub mod driver;
mod events;
mod farewell;
mod frame;
mod gate;
mod handler;
mod link;
mod log;
pub(crate) mod metrics;
pub(crate) mod observe;
mod ping;
mod probe;
pub(crate) mod relay;
mod service;
#[cfg(test)]
mod tests;
mod transport;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use libp2p::identity::Keypair;
pub use libp2p::pnet::PreSharedKey as NetworkKey;
pub use libp2p::{Multiaddr, PeerId};
use tokio::sync::mpsc::{self, UnboundedSender};
use zeroize::Zeroizing;

pub(crate) use self::dial::is_relayed;
pub use self::events::{Events, Waker};
pub use self::frame::Frame;
use self::link::{Link, Traffic};
pub use self::probe::{Answers, Questions, Reach};
use self::service::Order;
#[cfg(feature = "cli")]
pub(crate) use self::transport::addresses_of;

/// Default of [`Config::max_frame`]: the largest piece that Yamux in Rust accepts from other
/// implementations.
pub const MAX_FRAME: usize = 1 << 20;
/// Default of [`Config::patience`] (design).
const PATIENCE: Duration = Duration::from_secs(3);

/// Configuration of a node's network.
#[derive(Clone)]
pub struct Config {
    /// Ed25519 seed of this peer's identity.
    pub identity_seed: Zeroizing<[u8; 32]>,
    /// Peers that may connect, with their known addresses. An entry for this peer itself is ignored.
    pub roster: BTreeMap<PeerId, Vec<Multiaddr>>,
    /// Addresses to listen on, such as `/ip4/0.0.0.0/tcp/0`.
    pub listen: Vec<Multiaddr>,
    /// True to find peers of the roster on the local network. This needs a listener on an interface other
    /// than loopback.
    pub mdns: bool,
    /// Largest value of the length field of a frame, in bytes. It is the same at all peers, and at least 4.
    pub max_frame: usize,
    /// Maximum number of bytes of a frame that are given to a substream at once. At least 1.
    pub piece: usize,
    /// Time for which the peer with the larger `PeerId` waits to be dialled before it dials itself.
    pub patience: Duration,
    /// Text about this node that peers of the roster get if they ask: at most 64 KiB, chosen by the caller.
    pub about: Bytes,
    /// True to also report [`Event::Found`] and [`Event::NotUp`], which show the steps to a connection and
    /// why they fail.
    pub details: bool,
    /// Key with which every connection is encrypted once more (libp2p `pnet`). Peers without the same key are
    /// disconnected before Noise.
    pub network_key: Option<NetworkKey>,
    /// Peer id and address of each relay. Peers that cannot be dialled are reached through relays.
    pub relays: Vec<(PeerId, Multiaddr)>,
}

impl Config {
    /// Makes a configuration without listener, mDNS and network key, and with the default limits.
    #[must_use]
    pub fn new(identity_seed: Zeroizing<[u8; 32]>, roster: BTreeMap<PeerId, Vec<Multiaddr>>) -> Self {
        Self {
            identity_seed,
            roster,
            listen: Vec::new(),
            mdns: false,
            max_frame: MAX_FRAME,
            piece: frame::PIECE,
            patience: PATIENCE,
            about: Bytes::new(),
            details: false,
            network_key: None,
            relays: Vec::new(),
        }
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("identity_seed", &"<redacted>")
            .field("roster", &self.roster)
            .field("listen", &self.listen)
            .field("mdns", &self.mdns)
            .field("max_frame", &self.max_frame)
            .field("piece", &self.piece)
            .field("patience", &self.patience)
            .field("about", &self.about.len())
            .field("details", &self.details)
            .field("network_key", &self.network_key.map(|_| "<redacted>"))
            .field("relays", &self.relays)
            .finish()
    }
}

/// One of the two channels between a pair of peers. There is no order between the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Channel {
    /// Channel for small frames that must not wait behind large ones.
    Control,
    /// Channel for all other frames.
    Bulk,
}

impl Channel {
    /// Both channels, in the order in which they are served.
    pub const BOTH: [Self; 2] = [Self::Control, Self::Bulk];

    fn index(self) -> usize {
        match self {
            Self::Control => 0,
            Self::Bulk => 1,
        }
    }

    /// Returns the protocol name negotiated for its substreams.
    #[must_use]
    pub fn protocol(self) -> &'static str {
        match self {
            Self::Control => "/flyswarm/5/control",
            Self::Bulk => "/flyswarm/5/bulk",
        }
    }
}

impl fmt::Display for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Control => "control",
            Self::Bulk => "bulk",
        })
    }
}

/// An event that the network reports to the caller.
#[derive(Debug)]
pub enum Event {
    /// Peers can reach this node at this address.
    Listening(Multiaddr),
    /// A listener failed. The others continue.
    ListenFailed {
        /// Address in the configuration.
        address: Multiaddr,
        /// Error of the system.
        reason: String,
    },
    /// The peer is connected: both sides can send frames.
    PeerUp {
        /// The peer.
        peer: PeerId,
        /// Other end of the connection.
        address: Multiaddr,
    },
    /// The connection is gone. Frames that were not delivered are lost. There is exactly one for each
    /// `PeerUp`.
    PeerLost {
        /// The peer.
        peer: PeerId,
        /// Reason, one line for the user.
        reason: String,
    },
    /// A frame arrived.
    Frame {
        /// Sender, authenticated by Noise.
        from: PeerId,
        /// Channel of the frame.
        channel: Channel,
        /// Frame as sent.
        frame: Frame,
    },
    /// A connection was refused because this identity is not in the roster. This is reported once a minute
    /// for each identity and address.
    Stranger {
        /// Identity of that node, whether it dialled or was dialled.
        peer: PeerId,
        /// Address of that node.
        address: Multiaddr,
    },
    /// According to mDNS, which gives no proof, a peer of the roster is at this address. Reported only with
    /// [`Config::details`].
    Found {
        /// The peer.
        peer: PeerId,
        /// Address at which the peer claims to listen.
        address: Multiaddr,
    },
    /// A connection with a peer of the roster could not be made, or ended before the peer was up. Dialling
    /// continues. Reported only with [`Config::details`].
    NotUp {
        /// The peer.
        peer: PeerId,
        /// Address that was tried.
        address: Multiaddr,
        /// True if Noise had proved the identity of the peer.
        known: bool,
        /// Reason, one line for the user.
        reason: String,
    },
    /// Another node with this node's own identity dialled it or answered its dial.
    Twin {
        /// Address of that node.
        address: Multiaddr,
    },
    /// Result of a [`Command::Probe`].
    Probed {
        /// Peer that was asked.
        peer: PeerId,
        /// Answers of the peer, or one line with the reason why there are none.
        answers: Result<Answers, String>,
    },
    /// A peer has asked its last question.
    WasProbed {
        /// Peer that asked.
        peer: PeerId,
    },
    /// A [`Waker`] was used: another part of the program needs the caller's attention.
    Woken,
    /// A peer of the roster broke the rules of this layer. Its connection is closed, but the peer may connect
    /// again.
    Malformed {
        /// The peer.
        from: PeerId,
        /// Rule that was broken, with the value and the limit.
        reason: String,
    },
}

/// A command of the caller to the network.
#[derive(Debug)]
pub enum Command {
    /// Sends a frame on the connection of the last `PeerUp` that the caller has taken. Drops the frame if the
    /// peer is not up.
    Send {
        /// Receiver of the frame.
        to: PeerId,
        /// Channel of the frame.
        channel: Channel,
        /// The frame.
        frame: Frame,
    },
    /// Adds an address of a peer of the roster.
    AddAddress(PeerId, Multiaddr),
    /// Dials a peer now, without waiting for its back-off, unless it is connected.
    Dial(PeerId),
    /// Closes the connection of the last `PeerUp` that the caller has taken. The peer is dialled again and
    /// may come back.
    Disconnect {
        /// The peer.
        peer: PeerId,
        /// Reason that `PeerLost` returns.
        reason: String,
    },
    /// Closes the connection and refuses the peer from now on.
    Ban(PeerId),
    /// Ends the connection when everything has been written and read, and does not dial its address for a
    /// minute, because the process at this address has another session. The right process of the peer may be
    /// at another address.
    LeaveOut(PeerId),
    /// Sends questions about itself and the connection to a peer that is up. Only one list of questions may
    /// be open at a time. [`Event::Probed`] follows.
    Probe(PeerId, Questions),
    /// Sends all peers the reason why this node leaves. Use it before [`Network::shutdown`]. The peers see
    /// the text as the reason of their `PeerLost`. It is cut after 512 bytes.
    TellReason(String),
}

/// Reasons why the network did not start, or refused a command. Nothing has been changed.
#[derive(Debug, thiserror::Error)]
pub enum NetError {
    /// The system provided no threads or timers.
    #[error("cannot start the network: {0}")]
    Start(#[source] io::Error),
    /// The seed is not a valid identity.
    #[error("identity key: {0}")]
    Identity(String),
    /// The node cannot listen on an address of the configuration.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// Address in the configuration.
        address: Multiaddr,
        /// Error of the system.
        error: io::Error,
    },
    /// Network interfaces cannot be watched.
    #[error("mDNS: {0}")]
    Mdns(#[source] io::Error),
    /// The frame is so long that the peer would refuse it.
    #[error("frame of {length} bytes, the limit is {limit}")]
    FrameTooLong {
        /// Length of header and payload, plus 4.
        length: usize,
        /// [`Config::max_frame`].
        limit: usize,
    },
    /// `about` of the configuration is too long.
    #[error("{0} bytes about this node, the limit is {limit}", limit = probe::MAX_ABOUT)]
    About(usize),
    /// `max_frame` of the configuration is out of range.
    #[error("max_frame is {0}, it must be between 4 and 4294967295")]
    MaxFrame(usize),
}

/// A running network. Dropping it closes every connection at once; [`Network::shutdown`] flushes first.
#[derive(Debug)]
pub struct Network {
    max_frame: usize,
    links: events::Links,
    traffic: BTreeMap<PeerId, Arc<Traffic>>,
    events: events::EventSender,
    /// `None` after the network was asked to end.
    orders: Option<UnboundedSender<Order>>,
    thread: Option<JoinHandle<Vec<PeerId>>>,
}

impl Network {
    /// Listens and starts to dial. Returns when every address of the configuration is bound.
    ///
    /// # Errors
    /// If an address cannot be bound, or the configuration is invalid. In this case no network is running.
    pub fn spawn(config: Config) -> Result<(Self, Events), NetError> {
        if config.max_frame < 4 || u32::try_from(config.max_frame).is_err() {
            return Err(NetError::MaxFrame(config.max_frame));
        }
        if config.about.len() > probe::MAX_ABOUT {
            return Err(NetError::About(config.about.len()));
        }
        let keypair = keypair(&config.identity_seed)?;
        let local = keypair.public().to_peer_id();
        let others = config.roster.keys().filter(|peer| **peer != local);
        let traffic: BTreeMap<_, _> = others.map(|peer| (*peer, Arc::<Traffic>::default())).collect();
        let links = events::Links::default();
        let (sender, events) = events::queue(Arc::clone(&links), config.details);
        let (orders, receiver) = mpsc::unbounded_channel();
        let thread = service::start(&config, &keypair, &traffic, sender.clone(), receiver)?;
        let max_frame = config.max_frame;
        let network =
            Self { max_frame, links, traffic, events: sender, orders: Some(orders), thread: Some(thread) };
        Ok((network, events))
    }

    /// Returns a handle with which other threads can interrupt a caller that waits for events.
    #[must_use]
    pub fn waker(&self) -> Waker {
        Waker(self.events.clone())
    }

    /// Executes a command or queues it; never blocks.
    ///
    /// # Errors
    /// If a frame to be sent breaks a limit.
    pub fn send(&self, command: Command) -> Result<(), NetError> {
        match command {
            Command::Send { to, channel, frame } => {
                if frame.length() > self.max_frame {
                    return Err(NetError::FrameTooLong { length: frame.length(), limit: self.max_frame });
                }
                if let Some(link) = self.link(&to) {
                    link.send(channel, frame);
                }
            }
            Command::Disconnect { peer, reason } => {
                if let Some(link) = self.link(&peer) {
                    link.fail(reason);
                }
            }
            Command::AddAddress(peer, address) => self.order(Order::AddAddress(peer, address)),
            Command::Dial(peer) => self.order(Order::Dial(peer)),
            Command::Ban(peer) => self.order(Order::Ban(peer)),
            Command::LeaveOut(peer) => self.order(Order::LeaveOut(peer)),
            Command::Probe(peer, questions) => self.order(Order::Probe(peer, questions)),
            Command::TellReason(reason) => self.order(Order::Reason(reason)),
        }
        Ok(())
    }

    /// Returns the number of bytes that wait to be written to the peer. Each frame counts as its bytes plus
    /// 256.
    #[must_use]
    pub fn queued(&self, peer: &PeerId, channel: Channel) -> usize {
        self.link(peer).map_or(0, |link| link.queued(channel))
    }

    /// Returns the bytes of frames written to the peer so far, over all connections.
    #[must_use]
    pub fn bytes_sent(&self, peer: &PeerId, channel: Channel) -> u64 {
        self.traffic.get(peer).map_or(0, |traffic| traffic.sent[channel.index()].load(Ordering::Relaxed))
    }

    /// Returns the bytes of frames read from the peer so far, over all connections.
    #[must_use]
    pub fn bytes_received(&self, peer: &PeerId, channel: Channel) -> u64 {
        self.traffic.get(peer).map_or(0, |traffic| traffic.received[channel.index()].load(Ordering::Relaxed))
    }

    /// Returns the round trip of the last ping to the peer, or `None` before the first ping on a connection.
    #[must_use]
    pub(crate) fn round_trip(&self, peer: &PeerId) -> Option<Duration> {
        let micros = self.traffic.get(peer)?.round_trip.load(Ordering::Relaxed);
        (micros > 0).then(|| Duration::from_micros(micros))
    }

    /// Ends the network: writes the queued frames and waits until every peer has read them, for at most
    /// `deadline`. Returns the peers that have not read them in time. The last events include a `PeerLost`
    /// for each peer that was up.
    #[must_use = "names the peers that may lack what was sent last"]
    pub fn shutdown(mut self, deadline: Duration) -> Vec<PeerId> {
        self.order(Order::ShutDown(deadline));
        self.join()
    }

    fn link(&self, peer: &PeerId) -> Option<Arc<Link>> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner).get(peer).cloned()
    }

    fn order(&self, order: Order) {
        if let Some(orders) = &self.orders {
            // This fails only if the thread has already ended.
            let _ = orders.send(order);
        }
    }

    fn join(&mut self) -> Vec<PeerId> {
        self.orders = None;
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.join();
    }
}

/// Returns the `PeerId` that belongs to an Ed25519 seed.
///
/// # Errors
/// If the seed is not a valid identity. Every seed of 32 bytes is valid.
pub fn peer_id(seed: &Zeroizing<[u8; 32]>) -> Result<PeerId, NetError> {
    Ok(keypair(seed)?.public().to_peer_id())
}

fn keypair(seed: &Zeroizing<[u8; 32]>) -> Result<Keypair, NetError> {
    // libp2p erases the bytes that it receives, so it gets a copy.
    let mut copy = seed.clone();
    Keypair::ed25519_from_bytes(copy.as_mut_slice()).map_err(|error| NetError::Identity(error.to_string()))
}
