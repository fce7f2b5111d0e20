//! Limits the number of connections that have not shown their identity. If there are too many, the oldest is
//! dropped; the newest is not refused. So a node that occupies places without using them cannot keep other
//! peers out.
//!
//! Incoming connections are counted from the time when they are accepted until Noise and Yamux are set up.
//! They are counted for each address (for IPv6 for each /64, because one machine may have a whole /64).
//! *Known* addresses are those in the roster, and those from which a peer of the roster has proved its
//! identity. An answer of mDNS does not make an address known, because any node can send it. Strangers have
//! few places. The places of known addresses do not depend on the number of strangers.
//!
//! `libp2p-connection-limits` counts such connections too, but refuses the newest one. A behaviour of libp2p
//! can close only established connections. So this gate is between the transport and the swarm.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use futures::future::{Either, select};
use libp2p::core::muxing::StreamMuxerBox;
use libp2p::core::transport::{Boxed, DialOpts, ListenerId, Transport, TransportError, TransportEvent};
use libp2p::multiaddr::Protocol;
use libp2p::{Multiaddr, PeerId};
use tokio::sync::oneshot;

/// Total number of places; each is a socket.
const PLACES: usize = 256;
/// Number of these places for addresses that are not known.
const STRANGERS: usize = 96;
/// Number of places for one address that is not known.
const STRANGER: usize = 16;
/// Number of places for one known address. Several peers, and strangers too, may share an address.
const KNOWN: usize = 128;

/// The waiting connections. The transport and the behaviour share them.
#[derive(Clone, Default)]
pub(super) struct Gate(Arc<Mutex<Waiting>>);

#[derive(Default)]
struct Waiting {
    known: BTreeSet<IpAddr>,
    next: u64,
    /// Places in the order of their age.
    places: BTreeMap<u64, (IpAddr, oneshot::Sender<()>)>,
}

impl Gate {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes this address known, so that it has its own places.
    pub(super) fn know(&self, address: &Multiaddr) {
        if let Some(ip) = ip_of(address) {
            self.waiting().known.insert(network(ip));
        }
    }

    /// Takes a place. The receiver is notified if the connection must make room for another.
    fn enter(&self, address: &Multiaddr) -> (Place, oneshot::Receiver<()>) {
        let ip = network(ip_of(address).unwrap_or(Ipv6Addr::UNSPECIFIED.into()));
        let (sender, dropped) = oneshot::channel();
        let mut waiting = self.waiting();
        let id = waiting.next;
        waiting.next += 1;
        waiting.places.insert(id, (ip, sender));
        waiting.make_room(ip);
        drop(waiting);
        (Place { gate: self.clone(), id }, dropped)
    }
}

impl Waiting {
    fn make_room(&mut self, newest: IpAddr) {
        let limit = if self.known.contains(&newest) { KNOWN } else { STRANGER };
        self.drop_oldest(limit, |_, ip| ip == newest);
        self.drop_oldest(STRANGERS, |known, ip| !known.contains(&ip));
        self.drop_oldest(PLACES, |_, _| true);
    }

    /// Counts the places that `of` accepts, and drops the oldest of them until there are at most `limit`.
    fn drop_oldest(&mut self, limit: usize, of: impl Fn(&BTreeSet<IpAddr>, IpAddr) -> bool) {
        let counted: Vec<u64> =
            self.places.iter().filter(|(_, (ip, _))| of(&self.known, *ip)).map(|(id, _)| *id).collect();
        for id in counted.iter().take(counted.len().saturating_sub(limit)) {
            if let Some((_, place)) = self.places.remove(id) {
                // An error means that the connection has already ended.
                let _ = place.send(());
            }
        }
    }
}

/// A place. It becomes free when this value is dropped.
struct Place {
    gate: Gate,
    id: u64,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.gate.waiting().places.remove(&self.id);
    }
}

/// Returns the numeric address at the beginning of `address`.
pub(super) fn ip_of(address: &Multiaddr) -> Option<IpAddr> {
    address.iter().find_map(|part| match part {
        Protocol::Ip4(ip) => Some(IpAddr::from(ip)),
        Protocol::Ip6(ip) => Some(IpAddr::from(ip)),
        _ => None,
    })
}

/// Returns the part of an address that one machine cannot choose freely: an IPv4 address, or the first
/// 64 bits of an IPv6 address.
fn network(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V6(ip) => Ipv6Addr::from(u128::from(ip) >> 64 << 64).into(),
        four => four,
    }
}

type Output = (PeerId, StreamMuxerBox);

/// A transport whose incoming connections pass through a gate.
pub(super) struct Gated {
    inner: Boxed<Output>,
    gate: Gate,
}

impl Gated {
    pub(super) fn new(inner: Boxed<Output>, gate: Gate) -> Self {
        Self { inner, gate }
    }
}

impl Transport for Gated {
    type Output = Output;
    type Error = io::Error;
    type ListenerUpgrade = <Boxed<Output> as Transport>::ListenerUpgrade;
    type Dial = <Boxed<Output> as Transport>::Dial;

    fn listen_on(&mut self, id: ListenerId, address: Multiaddr) -> Result<(), TransportError<io::Error>> {
        self.inner.listen_on(id, address)
    }

    fn remove_listener(&mut self, id: ListenerId) -> bool {
        self.inner.remove_listener(id)
    }

    fn dial(&mut self, address: Multiaddr, opts: DialOpts) -> Result<Self::Dial, TransportError<io::Error>> {
        self.inner.dial(address, opts)
    }

    fn poll(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<TransportEvent<Self::ListenerUpgrade, io::Error>> {
        let event = std::task::ready!(Pin::new(&mut self.inner).poll(cx));
        Poll::Ready(match event {
            TransportEvent::Incoming { listener_id, upgrade, local_addr, send_back_addr } => {
                let (place, dropped) = self.gate.enter(&send_back_addr);
                let upgrade = Box::pin(async move {
                    let _place = place;
                    match select(upgrade, dropped).await {
                        Either::Left((upgraded, _)) => upgraded,
                        Either::Right(_) => Err(io::Error::new(
                            io::ErrorKind::ConnectionAborted,
                            "did not identify itself in time, and other connections were waiting",
                        )),
                    }
                });
                TransportEvent::Incoming { listener_id, upgrade, local_addr, send_back_addr }
            }
            other => other,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Multiaddr {
        format!("/{text}/tcp/4001").parse().unwrap()
    }

    type Held = (Place, oneshot::Receiver<()>);

    fn alive(held: &mut Held) -> bool {
        matches!(held.1.try_recv(), Err(oneshot::error::TryRecvError::Empty))
    }

    #[test]
    fn the_oldest_connection_of_an_address_makes_room_for_its_newest() {
        let gate = Gate::default();
        let mut held: Vec<Held> = (0..40).map(|_| gate.enter(&address("ip4/192.0.2.1"))).collect();
        let living: Vec<usize> = (0..40).filter(|&i| alive(&mut held[i])).collect();
        assert_eq!(living, (40 - STRANGER..40).collect::<Vec<_>>());
        drop(held);
        assert!(gate.waiting().places.is_empty());
    }

    #[test]
    fn strangers_from_any_number_of_addresses_leave_known_ones_their_places() {
        let gate = Gate::default();
        gate.know(&address("ip4/198.51.100.7"));
        let mut known: Vec<Held> = (0..100).map(|_| gate.enter(&address("ip4/198.51.100.7"))).collect();
        let strangers = (0..100).flat_map(|i| std::iter::repeat_n(address(&format!("ip4/10.0.0.{i}")), 8));
        let mut strangers: Vec<Held> = strangers.map(|address| gate.enter(&address)).collect();
        assert!(known.iter_mut().all(alive));
        assert_eq!(strangers.iter_mut().filter_map(|held| alive(held).then_some(())).count(), STRANGERS);
        // Known addresses are limited too.
        for i in 0..20u8 {
            let address = address(&format!("ip4/203.0.113.{i}"));
            gate.know(&address);
            known.extend((0..10).map(|_| gate.enter(&address)));
        }
        assert!(gate.waiting().places.len() <= PLACES);
        assert!(known.iter_mut().rev().take(PLACES - STRANGERS).all(alive));
    }

    #[test]
    fn an_ipv6_network_counts_as_one_address_and_a_mapped_ipv4_address_as_itself() {
        let gate = Gate::default();
        let mut held: Vec<Held> =
            (0..40).map(|i| gate.enter(&address(&format!("ip6/2001:db8::{i:x}")))).collect();
        assert_eq!(held.iter_mut().filter_map(|held| alive(held).then_some(())).count(), STRANGER);
        gate.know(&address("ip4/192.0.2.1"));
        let mut mapped: Vec<Held> =
            (0..KNOWN).map(|_| gate.enter(&address("ip6/::ffff:192.0.2.1"))).collect();
        assert!(mapped.iter_mut().all(alive));
    }
}
