//! Builds the transport: TCP without delay, the network key, Noise and Yamux; in addition QUIC and DNS names.
//! Also limits the time that a connection may take to close.

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

/// Time limit for TCP, Noise and Yamux together if this node dials (guess: enough for four round trips and a
/// slow machine).
const SET_UP: Duration = Duration::from_secs(10);
/// Time limit for Noise and Yamux if this node is dialled. A peer that is silent for this time loses its
/// place.
const SET_UP_INCOMING: Duration = Duration::from_secs(5);
/// Time limit for the message to the peer that the connection closes (guess). Without a limit, a paused peer
/// would keep the socket open, because it does not read.
const CLOSE: Duration = Duration::from_secs(5);
/// Number of substreams for Yamux's limits. While the reader is fast enough, Yamux doubles a substream's
/// receive window of 256 KiB. In `libp2p-yamux` the sum of the windows of a connection is always 1 GiB. Only
/// the number of substreams can be set, and 256 KiB are reserved for each. With 4032 substreams, 16 MiB
/// remain for growth. So at most 16 MiB are in the buffers of a reader that stops. This is enough for 1
/// Gbit/s at 60 ms.
const STREAMS: usize = 4032;

/// Builds TCP, and QUIC unless there is a network key: the key encrypts the bytes of one stream, which QUIC
/// does not have. Connections through relays are encrypted and authenticated from end to end in the same way.
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
        // If the machine has no configuration for DNS, numeric addresses still work.
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
