//! The thread that owns the tokio runtime and the swarm.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::num::{NonZeroU8, NonZeroUsize};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use futures::StreamExt;
use libp2p::core::transport::{ListenerId, Transport, TransportError};
use libp2p::identity::Keypair;
use libp2p::multiaddr::Protocol;
use libp2p::swarm::behaviour::toggle::Toggle;
use libp2p::swarm::{NetworkBehaviour, SwarmEvent};
use libp2p::{Multiaddr, PeerId, Swarm, connection_limits, dcutr, identify, mdns, ping, relay};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, interval, sleep_until};

use super::at_relays::{self, AtRelays};
use super::behaviour::Behaviour;
use super::dial::Source;
use super::events::EventSender;
use super::gate::{Gate, Gated};
use super::link::Traffic;
use super::probe::Questions;
use super::{Config, Event, NetError, transport};

/// Number of established connections that are allowed in addition to two for each peer. Most of these are
/// being closed (guess).
const SLACK: u32 = 16;
/// Number of addresses of a peer that are dialled at the same time. It is the largest number that a peer can
/// have, so that false addresses never delay the right one.
const DIALLED: NonZeroU8 = NonZeroU8::new(48).unwrap();
/// Maximum number of substreams of a connection that are in negotiation. A peer opens three.
const NEGOTIATING: usize = 8;
/// Interval at which mDNS asks again, in case a packet was lost, and lifetime of an answer (guess).
const MDNS_QUERY: Duration = Duration::from_secs(15);
const MDNS_TTL: Duration = Duration::from_secs(120);
/// First wait before a relay that gave no reservation is asked again. The wait doubles each time (guess).
const RESERVE: Duration = Duration::from_millis(500);
const RESERVE_LONGEST: Duration = Duration::from_secs(15);
/// Time limit for tasks of the runtime at the end.
const RUNTIME_END: Duration = Duration::from_millis(500);

/// Command of the caller to the swarm. Frames are not sent in this way, but through [`super::link`].
#[derive(Debug)]
pub(super) enum Order {
    AddAddress(PeerId, Multiaddr),
    Dial(PeerId),
    Ban(PeerId),
    LeaveOut(PeerId),
    Probe(PeerId, Questions),
    Reason(String),
    /// Writes queued frames for at most this time, then ends.
    ShutDown(Duration),
}

/// Listeners, each with its address in the configuration.
type Listeners = Vec<(ListenerId, Multiaddr)>;

/// A reservation at a relay. Other peers reach this node through it.
struct Place {
    address: Multiaddr,
    /// `None` if there is no reservation. It is then requested again at `next`.
    listener: Option<ListenerId>,
    next: Instant,
    failures: u32,
}

impl Place {
    /// Requests the reservation if this is due.
    fn keep(&mut self, swarm: &mut Swarm<Parts>) {
        if self.listener.is_some() || Instant::now() < self.next {
            return;
        }
        match swarm.listen_on(self.address.clone()) {
            Ok(listener) => self.listener = Some(listener),
            Err(error) => {
                tracing::warn!(address = %self.address, %error, "not an address of a relay");
                self.lost();
            }
        }
    }

    /// Records that the reservation has ended, or was refused.
    fn lost(&mut self) {
        let wait = RESERVE.saturating_mul(1 << self.failures.min(8)).min(RESERVE_LONGEST);
        self.failures += 1;
        (self.listener, self.next) = (None, Instant::now() + wait);
    }
}

/// `peers` comes after all parts that may refuse a connection. So if `peers` admits a connection, no other
/// part refuses it. The parts after `peers` never see a connection that `peers` refuses.
#[derive(NetworkBehaviour)]
struct Parts {
    limits: connection_limits::Behaviour,
    mdns: Toggle<mdns::tokio::Behaviour>,
    /// There are two, because an mDNS behaviour supports either IPv4 or IPv6.
    mdns6: Toggle<mdns::tokio::Behaviour>,
    relays: Toggle<relay::client::Behaviour>,
    peers: Behaviour,
    identify: Toggle<AtRelays<identify::Behaviour>>,
    ping: Toggle<AtRelays<ping::Behaviour>>,
    punch: Toggle<dcutr::Behaviour>,
}

/// Makes mDNS over IPv4 and over IPv6.
pub(super) fn mdns(local: PeerId) -> io::Result<[mdns::tokio::Behaviour; 2]> {
    let over = |enable_ipv6| {
        let config = mdns::Config { ttl: MDNS_TTL, query_interval: MDNS_QUERY, enable_ipv6 };
        mdns::tokio::Behaviour::new(config, local)
    };
    Ok([over(false)?, over(true)?])
}

/// Starts to listen, then starts the thread. The thread ends on `ShutDown`, or when `orders` is closed. It
/// returns the peers that did not close their connections in time.
pub(super) fn start(
    config: &Config,
    keypair: &Keypair,
    traffic: &BTreeMap<PeerId, Arc<Traffic>>,
    events: EventSender,
    orders: UnboundedReceiver<Order>,
) -> Result<JoinHandle<Vec<PeerId>>, NetError> {
    let workers = thread::available_parallelism().map_or(1, NonZeroUsize::get).min(4);
    let runtime = Builder::new_multi_thread()
        .worker_threads(workers)
        .thread_name("flyswarm-net")
        .enable_all()
        .build()
        .map_err(NetError::Start)?;
    // Timers, sockets and the watch on interfaces must be created inside the runtime.
    let swarm = {
        let _inside = runtime.enter();
        swarm(config, keypair, traffic, events.clone())?
    };
    let now = Instant::now();
    let place = |(relay, address): &(PeerId, Multiaddr)| Place {
        address: address.clone().with(Protocol::P2p(*relay)).with(Protocol::P2pCircuit),
        listener: None,
        next: now,
        failures: 0,
    };
    let places = config.relays.iter().map(place).collect();
    let run = move || run(runtime, swarm, places, events, orders);
    thread::Builder::new().name("flyswarm-net-swarm".to_owned()).spawn(run).map_err(NetError::Start)
}

fn swarm(
    config: &Config,
    keypair: &Keypair,
    traffic: &BTreeMap<PeerId, Arc<Traffic>>,
    events: EventSender,
) -> Result<(Swarm<Parts>, Listeners), NetError> {
    let local = keypair.public().to_peer_id();
    let established =
        u32::try_from(traffic.len()).unwrap_or(u32::MAX).saturating_mul(2).saturating_add(SLACK);
    let limits = connection_limits::ConnectionLimits::default().with_max_established(Some(established));
    let gate = Gate::default();
    let [over_4, over_6] = match config.mdns {
        true => mdns(local).map_err(NetError::Mdns)?.map(Some),
        false => [None, None],
    };
    let (relayed, relays) = (!config.relays.is_empty()).then(|| relay::client::new(local)).unzip();
    let relay_ids = || config.relays.iter().map(|(relay, _)| *relay).collect();
    let has_relays = relays.is_some();
    let parts = Parts {
        limits: connection_limits::Behaviour::new(limits),
        mdns: Toggle::from(over_4),
        mdns6: Toggle::from(over_6),
        relays: Toggle::from(relays),
        peers: Behaviour::new(local, config, traffic, events, gate.clone()),
        identify: has_relays.then(|| AtRelays::new(at_relays::identify(keypair), relay_ids())).into(),
        ping: has_relays.then(|| AtRelays::new(at_relays::ping(), relay_ids())).into(),
        punch: has_relays.then(|| dcutr::Behaviour::new(local)).into(),
    };
    let transport = transport::build(keypair, config.network_key, relayed)
        .map_err(|error| NetError::Identity(error.to_string()))?;
    let options = libp2p::swarm::Config::with_tokio_executor()
        .with_max_negotiating_inbound_streams(NEGOTIATING)
        .with_dial_concurrency_factor(DIALLED);
    let transport = Gated::new(transport, gate).boxed();
    let mut swarm = Swarm::new(transport, parts, local, options);
    let mut listeners = Listeners::new();
    for address in &config.listen {
        let failed = |error| NetError::Listen { address: address.clone(), error };
        is_free(address).map_err(failed)?;
        let listener = swarm.listen_on(address.clone()).map_err(|error| {
            failed(match error {
                TransportError::Other(error) => error,
                TransportError::MultiaddrNotSupported(_) => io::Error::new(
                    io::ErrorKind::InvalidInput,
                    match config.network_key {
                        Some(_) => "with a network key only addresses like /ip4/0.0.0.0/tcp/0 are supported",
                        None => "only addresses like /ip4/0.0.0.0/tcp/0 and /ip4/0.0.0.0/udp/0/quic-v1 are supported",
                    },
                ),
            })
        })?;
        listeners.push((listener, address.clone()));
    }
    Ok((swarm, listeners))
}

/// Checks that a port is free. libp2p listens with `SO_REUSEPORT`, so a second process on the same port would
/// get every other connection instead of an error. A bind without this option fails in that case.
pub(super) fn is_free(address: &Multiaddr) -> io::Result<()> {
    let mut parts = address.iter();
    let ip = match parts.next() {
        Some(Protocol::Ip4(ip)) => ip.into(),
        Some(Protocol::Ip6(ip)) => ip.into(),
        _ => return Ok(()),
    };
    match parts.next() {
        Some(Protocol::Tcp(port)) if port != 0 => TcpListener::bind(SocketAddr::new(ip, port)).map(drop),
        _ => Ok(()),
    }
}

fn run(
    runtime: Runtime,
    (mut swarm, listeners): (Swarm<Parts>, Listeners),
    mut places: Vec<Place>,
    events: EventSender,
    mut orders: UnboundedReceiver<Order>,
) -> Vec<PeerId> {
    let unfinished = runtime.block_on(async {
        let mut deadline = None;
        let mut look = interval(RESERVE);
        loop {
            if deadline.is_some() && swarm.behaviour().peers.unfinished().is_empty() {
                break;
            }
            let time_out = async {
                match deadline {
                    Some(deadline) => sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                event = swarm.select_next_some() => {
                    observe(&mut swarm, &listeners, &mut places, &events, event);
                }
                _ = look.tick(), if !places.is_empty() && deadline.is_none() => {
                    places.iter_mut().for_each(|place| place.keep(&mut swarm));
                }
                order = orders.recv(), if deadline.is_none() => match order {
                    Some(Order::AddAddress(peer, address)) => {
                        swarm.behaviour_mut().peers.add_address(peer, address, Source::Given);
                    }
                    Some(Order::Dial(peer)) => swarm.behaviour_mut().peers.hurry(peer),
                    Some(Order::Ban(peer)) => swarm.behaviour_mut().peers.ban(peer),
                    Some(Order::LeaveOut(peer)) => swarm.behaviour_mut().peers.leave_out(peer),
                    Some(Order::Probe(peer, questions)) => swarm.behaviour_mut().peers.probe(peer, questions),
                    Some(Order::Reason(reason)) => swarm.behaviour_mut().peers.tell_reason(&reason),
                    Some(Order::ShutDown(within)) => {
                        deadline = Some(Instant::now() + within);
                        swarm.behaviour_mut().peers.finish();
                    }
                    None => break,
                },
                () = time_out => break,
            }
        }
        let peers = &mut swarm.behaviour_mut().peers;
        let unfinished = peers.unfinished();
        peers.abandon();
        unfinished
    });
    {
        let _inside = runtime.enter();
        drop(swarm);
    }
    runtime.shutdown_timeout(RUNTIME_END);
    unfinished
}

fn observe(
    swarm: &mut Swarm<Parts>,
    listeners: &[(ListenerId, Multiaddr)],
    places: &mut [Place],
    events: &EventSender,
    event: SwarmEvent<PartsEvent>,
) {
    let failed = |listener: ListenerId, reason: String| {
        if let Some((_, address)) = listeners.iter().find(|(id, _)| *id == listener) {
            events.send(Event::ListenFailed { address: address.clone(), reason });
        }
    };
    if let SwarmEvent::ListenerClosed { listener_id, .. } | SwarmEvent::ListenerError { listener_id, .. } =
        &event
        && let Some(place) = places.iter_mut().find(|place| place.listener == Some(*listener_id))
    {
        tracing::info!(address = %place.address, "no reservation at this relay");
        // If the reservation was active, its address was reported and is now withdrawn.
        if place.failures == 0 {
            let reason = "the relay ended or refused the reservation".to_owned();
            events.send(Event::ListenFailed { address: place.address.clone(), reason });
        }
        place.lost();
        return;
    }
    match event {
        SwarmEvent::NewListenAddr { listener_id, address } => {
            if let Some(place) = places.iter_mut().find(|place| place.listener == Some(listener_id)) {
                place.failures = 0;
            }
            events.send(Event::Listening(address));
        }
        SwarmEvent::ListenerClosed { listener_id, reason: Err(error), .. }
        | SwarmEvent::ListenerError { listener_id, error } => failed(listener_id, error.to_string()),
        SwarmEvent::Behaviour(
            PartsEvent::Mdns(mdns::Event::Discovered(found))
            | PartsEvent::Mdns6(mdns::Event::Discovered(found)),
        ) => {
            for (peer, address) in found {
                swarm.behaviour_mut().peers.add_address(peer, address, Source::Found);
            }
        }
        SwarmEvent::Behaviour(
            PartsEvent::Mdns(mdns::Event::Expired(expired))
            | PartsEvent::Mdns6(mdns::Event::Expired(expired)),
        ) => {
            for (peer, address) in expired {
                swarm.behaviour_mut().peers.expire_address(peer, address);
            }
        }
        SwarmEvent::Behaviour(PartsEvent::Identify(identify::Event::Received { info, .. })) => {
            swarm.behaviour_mut().peers.seen_at(info.observed_addr);
        }
        SwarmEvent::Behaviour(PartsEvent::Ping(event)) => {
            if let Some(connection) = at_relays::silent(&event) {
                tracing::info!(relay = %event.peer, "this relay does not answer");
                swarm.close_connection(connection);
            }
        }
        SwarmEvent::Behaviour(PartsEvent::Punch(dcutr::Event { remote_peer_id, result })) => match result {
            Ok(_) => tracing::debug!(peer = %remote_peer_id, "hole punching made a direct connection"),
            Err(error) => {
                tracing::debug!(peer = %remote_peer_id, %error, "hole punching made no direct connection");
                swarm.behaviour_mut().peers.not_punched(remote_peer_id);
            }
        },
        _ => {}
    }
}
