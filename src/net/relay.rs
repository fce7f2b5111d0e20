//! A relay: it forwards the connections of peers that cannot dial each other, by libp2p's circuit relay
//! v2.
//!
//! The forwarded data is encrypted and authenticated from peer to peer. The relay learns which peers
//! communicate, when and how much. It serves only the listed peers. All others are disconnected as soon as
//! Noise has shown their identity.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::num::NonZeroU32;
use std::time::Duration;

use futures::StreamExt;
use libp2p::core::transport::{Transport, TransportError};
use libp2p::multiaddr::Protocol;
use libp2p::relay::{self, Behaviour, StatusCode};
use libp2p::swarm::{NetworkBehaviour, SwarmEvent};
use libp2p::{Multiaddr, PeerId, Swarm, allow_block_list, connection_limits, identify, ping};
use tokio::sync::oneshot;
use zeroize::Zeroizing;

use super::gate::{Gate, Gated};
use super::{NetError, NetworkKey, at_relays, transport};

/// Maximum number of reservations and circuits per peer and minute (guess: a roster of 1,024 that
/// restarts).
const RATE: NonZeroU32 = NonZeroU32::new(2048).unwrap();
/// Maximum number of connections of a peer to the relay. There may be several, because a new one may come
/// before an old one is detected as dead.
const CONNECTIONS: u32 = 4;

/// Limits of a relay.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Maximum number of peers with a reservation. Others reach these peers through the relay.
    pub(crate) reservations: usize,
    /// Maximum number of forwarded connections at a time.
    pub(crate) circuits: usize,
    /// Maximum number of bytes of a forwarded connection, in both directions together; 0 for no limit.
    pub(crate) bytes: u64,
    /// Maximum duration of a forwarded connection.
    pub(crate) duration: Duration,
}

/// Configuration of a relay.
pub(crate) struct Config {
    pub(crate) seed: Zeroizing<[u8; 32]>,
    pub(crate) listen: Vec<Multiaddr>,
    /// Peers that the relay serves.
    pub(crate) peers: BTreeSet<PeerId>,
    pub(crate) network_key: Option<NetworkKey>,
    pub(crate) limits: Limits,
}

/// An event of a relay.
#[derive(Debug)]
pub(crate) enum Event {
    /// Address of the relay, with its peer id.
    Listening(Multiaddr),
    Reserved(PeerId),
    /// A peer no longer has a reservation.
    Left(PeerId),
    Opened(PeerId, PeerId),
    Closed(PeerId, PeerId),
    /// A request of a peer was denied for this reason.
    Denied(PeerId, String),
}

#[derive(NetworkBehaviour)]
struct Parts {
    allowed: allow_block_list::Behaviour<allow_block_list::AllowedPeers>,
    limits: connection_limits::Behaviour,
    relay: Behaviour,
    identify: identify::Behaviour,
    ping: ping::Behaviour,
}

/// Runs a relay until `stop` is dropped or used.
///
/// # Errors
/// If it cannot listen.
pub(crate) fn run(
    config: Config,
    stop: oneshot::Receiver<()>,
    tell: &mut dyn FnMut(Event),
) -> Result<(), NetError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .thread_name("flyswarm-relay")
        .enable_all()
        .build()
        .map_err(NetError::Start)?;
    runtime.block_on(async {
        let (mut swarm, local) = swarm(config)?;
        let mut stop = stop;
        let mut open = BTreeMap::new();
        loop {
            tokio::select! {
                event = swarm.select_next_some() => observe(&mut swarm, local, event, &mut open, tell),
                _ = &mut stop => return Ok(()),
            }
        }
    })
}

fn swarm(config: Config) -> Result<(Swarm<Parts>, PeerId), NetError> {
    let keypair = super::keypair(&config.seed)?;
    let local = keypair.public().to_peer_id();
    let Limits { reservations, circuits, bytes, duration } = config.limits;
    let minute = Duration::from_secs(60);
    let rules = relay::Config {
        max_reservations: reservations,
        max_reservations_per_peer: CONNECTIONS as usize,
        reservation_rate_limiters: Vec::new(),
        max_circuits: circuits,
        max_circuits_per_peer: circuits,
        max_circuit_duration: duration,
        max_circuit_bytes: bytes,
        circuit_src_rate_limiters: Vec::new(),
        ..relay::Config::default()
    };
    let rules = rules.reservation_rate_per_peer(RATE, minute).circuit_src_per_peer(RATE, minute);
    let mut allowed = allow_block_list::Behaviour::<allow_block_list::AllowedPeers>::default();
    config.peers.iter().for_each(|peer| {
        allowed.allow_peer(*peer);
    });
    let limits =
        connection_limits::ConnectionLimits::default().with_max_established_per_peer(Some(CONNECTIONS));
    let parts = Parts {
        allowed,
        limits: connection_limits::Behaviour::new(limits),
        relay: Behaviour::new(local, rules),
        identify: at_relays::identify(&keypair),
        ping: at_relays::ping(),
    };
    let transport = transport::build(&keypair, config.network_key, None)
        .map_err(|error| NetError::Identity(error.to_string()))?;
    let transport = Gated::new(transport, Gate::default()).boxed();
    let options = libp2p::swarm::Config::with_tokio_executor();
    let mut swarm = Swarm::new(transport, parts, local, options);
    for address in config.listen {
        super::service::is_free(&address)
            .and_then(|()| {
                swarm.listen_on(address.clone()).map(drop).map_err(|error| match error {
                    TransportError::Other(error) => error,
                    error => io::Error::new(io::ErrorKind::InvalidInput, error.to_string()),
                })
            })
            .map_err(|error| NetError::Listen { address: address.clone(), error })?;
    }
    Ok((swarm, local))
}

/// Handles an event. `open` counts the circuits of each pair, because libp2p may report the end of a circuit
/// twice.
fn observe(
    swarm: &mut Swarm<Parts>,
    local: PeerId,
    event: SwarmEvent<PartsEvent>,
    open: &mut BTreeMap<(PeerId, PeerId), u32>,
    tell: &mut dyn FnMut(Event),
) {
    let denied = |status: StatusCode| format!("{status:?}");
    match event {
        SwarmEvent::NewListenAddr { address, .. } => {
            // Peers receive this address with their reservation.
            swarm.add_external_address(address.clone());
            tell(Event::Listening(address.with(Protocol::P2p(local))));
        }
        SwarmEvent::ExpiredListenAddr { address, .. } => swarm.remove_external_address(&address),
        SwarmEvent::Behaviour(PartsEvent::Ping(event)) => {
            if let Some(connection) = at_relays::silent(&event) {
                swarm.close_connection(connection);
            }
        }
        SwarmEvent::Behaviour(PartsEvent::Relay(event)) => match event {
            relay::Event::ReservationReqAccepted { src_peer_id, renewed: false } => {
                tell(Event::Reserved(src_peer_id));
            }
            relay::Event::ReservationClosed { src_peer_id }
            | relay::Event::ReservationTimedOut { src_peer_id } => tell(Event::Left(src_peer_id)),
            relay::Event::ReservationReqDenied { src_peer_id, status } => {
                tell(Event::Denied(src_peer_id, denied(status)));
            }
            relay::Event::CircuitReqAccepted { src_peer_id, dst_peer_id } => {
                *open.entry((src_peer_id, dst_peer_id)).or_default() += 1;
                tell(Event::Opened(src_peer_id, dst_peer_id));
            }
            relay::Event::CircuitClosed { src_peer_id, dst_peer_id, .. } => {
                let pair = (src_peer_id, dst_peer_id);
                let Some(count) = open.get_mut(&pair) else { return };
                *count -= 1;
                if *count == 0 {
                    open.remove(&pair);
                }
                tell(Event::Closed(src_peer_id, dst_peer_id));
            }
            relay::Event::CircuitReqDenied { src_peer_id, status, .. } => {
                tell(Event::Denied(src_peer_id, denied(status)));
            }
            _ => {}
        },
        _ => {}
    }
}
