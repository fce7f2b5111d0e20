//! TCP (no delay) with the network key, Noise and Yamux; in addition QUIC; DNS names; and a limit on the
//! time that a connection may take to close.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::Either;
use libp2p::core::muxing::{StreamMuxer, StreamMuxerBox, StreamMuxerEvent};
use libp2p::core::transport::{Boxed, OptionalTransport, Transport};
use libp2p::core::upgrade::Version;
use libp2p::identity::Keypair;
use libp2p::pnet::{PnetConfig, PreSharedKey};
use libp2p::{PeerId, dns, noise, quic, relay, tcp, yamux};
use tokio::time::{Sleep, sleep};

/// Time limit for TCP, Noise and Yamux together if this node dials (guess: four round trips and a slow
/// machine).
const SET_UP: Duration = Duration::from_secs(10);
/// Time limit for Noise and Yamux if this node is dialled: a peer that is silent for this time loses its
/// place.
const SET_UP_INCOMING: Duration = Duration::from_secs(5);
/// Time limit for the message to the peer that the connection closes (guess). A paused peer reads
/// nothing, and would keep the socket open.
const CLOSE: Duration = Duration::from_secs(5);
/// Number of substreams for Yamux's limits. Yamux doubles a substream's receive window of 256 KiB while
/// the reader keeps up. `libp2p-yamux` fixes the sum over a connection's substreams at 1 GiB. We can set
/// only the number of substreams, and 256 KiB are reserved for each: with 4032 of them 16 MiB remain for
/// growth. That is the maximum in the buffers of a reader that stops, and it is enough for 1 Gbit/s at
/// 60 ms.
const STREAMS: usize = 4032;

/// Builds TCP, and QUIC unless there is a network key: that key encrypts the bytes of one stream, and
/// QUIC has no such stream. Connections through relays, if any, are encrypted and authenticated end to
/// end in the same way.
pub(super) fn build(
    keypair: &Keypair,
    network_key: Option<PreSharedKey>,
    relayed: Option<relay::client::Transport>,
) -> Result<Boxed<(PeerId, StreamMuxerBox)>, noise::Error> {
    let noise = noise::Config::new(keypair)?;
    let mut yamux = yamux::Config::default();
    yamux.set_max_num_streams(STREAMS);
    let both = || {
        let tcp = tcp::tokio::Transport::new(tcp::Config::default().nodelay(true))
            .and_then(move |socket, _| async move {
                Ok::<_, libp2p::pnet::PnetError>(match network_key {
                    Some(key) => Either::Left(PnetConfig::new(key).handshake(socket).await?),
                    None => Either::Right(socket),
                })
            })
            .upgrade(Version::V1)
            .authenticate(noise.clone())
            .multiplex(yamux.clone())
            .outbound_timeout(SET_UP)
            .inbound_timeout(SET_UP_INCOMING)
            .map(|(peer, muxer), _| (peer, StreamMuxerBox::new(BoundedClose::new(muxer))));
        let quic = match network_key {
            Some(_) => OptionalTransport::none(),
            None => OptionalTransport::some(quic::tokio::Transport::new(quic::Config::new(keypair))),
        };
        let quic = quic.map(|(peer, muxer), _| (peer, StreamMuxerBox::new(BoundedClose::new(muxer))));
        tcp.or_transport(quic).map(|either, _| either.into_inner())
    };
    let relayed = match relayed {
        Some(relayed) => OptionalTransport::some(
            relayed
                .upgrade(Version::V1)
                .authenticate(noise.clone())
                .multiplex(yamux.clone())
                .outbound_timeout(SET_UP)
                .inbound_timeout(SET_UP_INCOMING)
                .map(|(peer, muxer), _| (peer, StreamMuxerBox::new(BoundedClose::new(muxer)))),
        ),
        None => OptionalTransport::none(),
    };
    let direct = match dns::tokio::Transport::system(both()) {
        Ok(dns) => dns.boxed(),
        // A machine without a resolver configuration can still reach numeric addresses.
        Err(error) => {
            tracing::warn!(%error, "names in addresses cannot be resolved");
            both().boxed()
        }
    };
    Ok(relayed.or_transport(direct).map(|either, _| either.into_inner()).boxed())
}

/// Returns the addresses of a name, resolved in the same way as for dialling.
///
/// # Errors
/// The text gives the reason.
#[cfg(feature = "cli")]
pub(crate) async fn addresses_of(name: &str) -> Result<Vec<std::net::IpAddr>, String> {
    let resolver = hickory_resolver::TokioResolver::builder_tokio().and_then(|builder| builder.build());
    let found = resolver.map_err(|error| error.to_string())?.lookup_ip(name).await;
    found.map(|found| found.iter().collect()).map_err(|error| error.to_string())
}

/// A muxer that closes in time, even if the peer does not read the remaining data.
struct BoundedClose<M> {
    muxer: M,
    deadline: Option<Pin<Box<Sleep>>>,
}

impl<M> BoundedClose<M> {
    fn new(muxer: M) -> Self {
        Self { muxer, deadline: None }
    }
}

impl<M: StreamMuxer + Unpin> StreamMuxer for BoundedClose<M> {
    type Substream = M::Substream;
    type Error = M::Error;

    fn poll_inbound(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<M::Substream, M::Error>> {
        Pin::new(&mut self.muxer).poll_inbound(cx)
    }

    fn poll_outbound(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<M::Substream, M::Error>> {
        Pin::new(&mut self.muxer).poll_outbound(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), M::Error>> {
        if let Poll::Ready(closed) = Pin::new(&mut self.muxer).poll_close(cx) {
            return Poll::Ready(closed);
        }
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(sleep(CLOSE)));
        deadline.as_mut().poll(cx).map(Ok)
    }

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<StreamMuxerEvent, M::Error>> {
        Pin::new(&mut self.muxer).poll(cx)
    }
}
