//! mDNS without joining a session. It finds the flyswarm nodes on the local network, including those with
//! this machine's own identity. It also announces an identity before there is a session. mDNS gives no proof;
//! only a connection proves the identity of a peer.

use std::future::Pending;
use std::io;
use std::pin::Pin;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use futures::StreamExt;
use if_watch::IfEvent;
use if_watch::tokio::IfWatcher;
use libp2p::core::muxing::StreamMuxerBox;
use libp2p::core::transport::dummy::DummyTransport;
use libp2p::core::transport::{DialOpts, ListenerId, Transport, TransportError, TransportEvent};
use libp2p::multiaddr::Protocol;
use libp2p::swarm::{NetworkBehaviour, SwarmEvent};
use libp2p::{Multiaddr, PeerId, Swarm, mdns};
use tokio::runtime::Builder;
use tokio::sync::oneshot;

use super::dial::without_peer;
use super::service;

/// Maximum number of records (guess). If there are more, the observation ends, so that false answers cannot
/// fill the memory.
const MOST: usize = 4096;

#[derive(NetworkBehaviour)]
struct Parts {
    over_4: mdns::tokio::Behaviour,
    over_6: mdns::tokio::Behaviour,
}

/// A running observation, which ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Observer {
    found: Receiver<(PeerId, Multiaddr)>,
    _stop: oneshot::Sender<()>,
}

impl Observer {
    /// Starts to ask and to listen, on every interface.
    ///
    /// # Errors
    /// If the system starts no thread or cannot watch interfaces.
    pub(crate) fn start() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let mut swarm = {
            let _inside = runtime.enter();
            // The observer has a random name, because mDNS leaves out the observer's own name. It has no
            // address, so it announces nothing.
            let local = PeerId::random();
            let [over_4, over_6] = service::mdns(local)?;
            let transport = DummyTransport::<(PeerId, StreamMuxerBox)>::new().boxed();
            let options = libp2p::swarm::Config::with_tokio_executor();
            Swarm::new(transport, Parts { over_4, over_6 }, local, options)
        };
        let (sender, found) = mpsc::channel();
        let (stop, mut stopped) = oneshot::channel::<()>();
        thread::Builder::new().name("flyswarm-mdns".to_owned()).spawn(move || {
            runtime.block_on(async {
                let mut left = MOST;
                while left > 0 {
                    let event = tokio::select! {
                        event = swarm.select_next_some() => event,
                        _ = &mut stopped => break,
                    };
                    let SwarmEvent::Behaviour(
                        PartsEvent::Over4(mdns::Event::Discovered(records))
                        | PartsEvent::Over6(mdns::Event::Discovered(records)),
                    ) = event
                    else {
                        continue;
                    };
                    for (peer, address) in records.into_iter().take(left) {
                        left -= 1;
                        if sender.send((peer, without_peer(address))).is_err() {
                            return;
                        }
                    }
                }
            });
            let _inside = runtime.enter();
            drop(swarm);
        })?;
        Ok(Self { found, _stop: stop })
    }

    /// Returns the next new peer and address, or `None` if none came within `timeout`.
    #[must_use]
    pub(crate) fn next(&self, timeout: Duration) -> Option<(PeerId, Multiaddr)> {
        match self.found.recv_timeout(timeout) {
            Ok(found) => Some(found),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                thread::sleep(timeout);
                None
            }
        }
    }
}

/// Announces `peer` by mDNS on every interface for `time`. The addresses in the answers cannot be dialled
/// (UDP port 0), so this announcement is not confused with a node of the same identity.
///
/// # Errors
/// If the system cannot watch interfaces.
pub(crate) fn announce(peer: PeerId, time: Duration) -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let [over_4, over_6] = service::mdns(peer)?;
        let transport = Nowhere { interfaces: IfWatcher::new()?, listener: None };
        let options = libp2p::swarm::Config::with_tokio_executor();
        let mut swarm = Swarm::new(transport.boxed(), Parts { over_4, over_6 }, peer, options);
        swarm.listen_on(Multiaddr::empty()).map_err(io::Error::other)?;
        let observe = async {
            loop {
                swarm.select_next_some().await;
            }
        };
        // This never returns by itself, so it always ends by the time-out.
        let _ = tokio::time::timeout(time, observe).await;
        Ok(())
    })
}

/// Returns whether an address from mDNS belongs to a node, and not to [`announce`].
#[must_use]
pub(crate) fn is_node(address: &Multiaddr) -> bool {
    address.iter().any(|part| matches!(part, Protocol::Tcp(_) | Protocol::QuicV1))
}

/// A transport with an address on every interface that listens on none of them.
struct Nowhere {
    interfaces: IfWatcher,
    listener: Option<ListenerId>,
}

impl Transport for Nowhere {
    type Output = (PeerId, StreamMuxerBox);
    type Error = io::Error;
    type ListenerUpgrade = Pending<io::Result<Self::Output>>;
    type Dial = Pending<io::Result<Self::Output>>;

    fn listen_on(&mut self, id: ListenerId, _: Multiaddr) -> Result<(), TransportError<io::Error>> {
        self.listener = Some(id);
        Ok(())
    }

    fn remove_listener(&mut self, id: ListenerId) -> bool {
        self.listener.take_if(|listener| *listener == id).is_some()
    }

    fn dial(&mut self, address: Multiaddr, _: DialOpts) -> Result<Self::Dial, TransportError<io::Error>> {
        Err(TransportError::MultiaddrNotSupported(address))
    }

    fn poll(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<TransportEvent<Self::ListenerUpgrade, io::Error>> {
        let Some(listener_id) = self.listener else { return Poll::Pending };
        while let Poll::Ready(Some(change)) = self.interfaces.poll_next_unpin(cx) {
            let at = |ip: std::net::IpAddr| Multiaddr::from(ip).with(Protocol::Udp(0));
            match change {
                Ok(IfEvent::Up(network)) => {
                    return Poll::Ready(TransportEvent::NewAddress {
                        listener_id,
                        listen_addr: at(network.addr()),
                    });
                }
                Ok(IfEvent::Down(network)) => {
                    return Poll::Ready(TransportEvent::AddressExpired {
                        listener_id,
                        listen_addr: at(network.addr()),
                    });
                }
                Err(error) => tracing::warn!(%error, "an interface is not watched"),
            }
        }
        Poll::Pending
    }
}
