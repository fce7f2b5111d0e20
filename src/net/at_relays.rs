//! libp2p behaviours that are used only on connections with relays. By identify, a relay tells this node the
//! address at which it sees the node. Ping detects that a relay is gone. Connections between peers use
//! neither.

use std::collections::BTreeSet;
use std::task::{Context, Poll};

use either::Either;
use libp2p::core::transport::PortUse;
use libp2p::core::{Endpoint, Multiaddr};
use libp2p::identity::Keypair;
use libp2p::swarm::{
    ConnectionDenied, ConnectionId, FromSwarm, NetworkBehaviour, THandler, THandlerInEvent, THandlerOutEvent,
    ToSwarm, dummy,
};
use libp2p::{identify, ping};

use super::PeerId;
use super::ping::{INTERVAL, TIMEOUT};

/// Makes an identify behaviour that tells the other end the address at which it is seen, but no addresses of
/// this machine.
pub(super) fn identify(keypair: &Keypair) -> identify::Behaviour {
    let config = identify::Config::new("/flyswarm/5".to_owned(), keypair.public());
    identify::Behaviour::new(
        config.with_agent_version("flyswarm".to_owned()).with_hide_listen_addrs(true).with_cache_size(0),
    )
}

/// Makes a ping behaviour with the same interval and time-out as between peers.
pub(super) fn ping() -> ping::Behaviour {
    ping::Behaviour::new(ping::Config::new().with_interval(INTERVAL).with_timeout(TIMEOUT))
}

/// Returns the connection that does not answer, if this ping event reports one. libp2p does not report the
/// first failure. The second failure may belong to a new substream.
pub(super) fn silent(event: &ping::Event) -> Option<ConnectionId> {
    match event.result {
        Ok(_) | Err(ping::Failure::Unsupported) => None,
        Err(ping::Failure::Timeout | ping::Failure::Other { .. }) => Some(event.connection),
    }
}

pub(super) struct AtRelays<B> {
    inner: B,
    relays: BTreeSet<PeerId>,
}

impl<B> AtRelays<B> {
    pub(super) fn new(inner: B, relays: BTreeSet<PeerId>) -> Self {
        Self { inner, relays }
    }
}

impl<B: NetworkBehaviour> NetworkBehaviour for AtRelays<B> {
    type ConnectionHandler = Either<THandler<B>, dummy::ConnectionHandler>;
    type ToSwarm = B::ToSwarm;

    fn handle_established_inbound_connection(
        &mut self,
        id: ConnectionId,
        peer: PeerId,
        local: &Multiaddr,
        remote: &Multiaddr,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        if !self.relays.contains(&peer) {
            return Ok(Either::Right(dummy::ConnectionHandler));
        }
        self.inner.handle_established_inbound_connection(id, peer, local, remote).map(Either::Left)
    }

    fn handle_established_outbound_connection(
        &mut self,
        id: ConnectionId,
        peer: PeerId,
        address: &Multiaddr,
        role: Endpoint,
        port: PortUse,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        if !self.relays.contains(&peer) {
            return Ok(Either::Right(dummy::ConnectionHandler));
        }
        self.inner.handle_established_outbound_connection(id, peer, address, role, port).map(Either::Left)
    }

    fn on_swarm_event(&mut self, event: FromSwarm<'_>) {
        let at = match &event {
            FromSwarm::ConnectionEstablished(event) => Some(event.peer_id),
            FromSwarm::ConnectionClosed(event) => Some(event.peer_id),
            FromSwarm::AddressChange(event) => Some(event.peer_id),
            _ => None,
        };
        if at.is_none_or(|peer| self.relays.contains(&peer)) {
            self.inner.on_swarm_event(event);
        }
    }

    fn on_connection_handler_event(&mut self, peer: PeerId, id: ConnectionId, event: THandlerOutEvent<Self>) {
        let Either::Left(event) = event;
        self.inner.on_connection_handler_event(peer, id, event);
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<ToSwarm<Self::ToSwarm, THandlerInEvent<Self>>> {
        self.inner.poll(cx).map(|action| action.map_in(Either::Left))
    }
}
