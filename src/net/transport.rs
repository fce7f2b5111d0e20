//! TCP (no delay), DNS names, the network key, Noise, Yamux; and a bound on how long a connection may take to close.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::Either;
use libp2p::core::muxing::{StreamMuxer, StreamMuxerBox, StreamMuxerEvent};
use libp2p::core::transport::{Boxed, Transport};
use libp2p::core::upgrade::Version;
use libp2p::identity::Keypair;
use libp2p::pnet::{PnetConfig, PreSharedKey};
use libp2p::{PeerId, dns, noise, tcp, yamux};
use tokio::time::{Sleep, sleep};

/// For TCP, Noise and Yamux together, each way (guess: two round trips and a slow machine).
const SET_UP: Duration = Duration::from_secs(10);
/// For telling the peer that the connection closes (guess). A paused peer takes nothing, and would hold the socket.
const CLOSE: Duration = Duration::from_secs(5);
/// Yamux doubles a substream's receive window of 256 KiB while the reader keeps up. `libp2p-yamux` fixes the sum over a
/// connection's substreams at 1 GiB and lets us set only the number of substreams, for each of which 256 KiB are held
/// back: with 4032 of them 16 MiB remain for growth. That is what a reader that stops can have in its
/// buffers, and it is enough for 1 Gbit/s at 60 ms.
const STREAMS: usize = 4032;

pub(super) fn build(
    keypair: &Keypair,
    network_key: Option<PreSharedKey>,
) -> Result<Boxed<(PeerId, StreamMuxerBox)>, noise::Error> {
    let mut yamux = yamux::Config::default();
    yamux.set_max_num_streams(STREAMS);
    let tcp = || tcp::tokio::Transport::new(tcp::Config::default().nodelay(true));
    // A machine without a resolver configuration still reaches addresses written as numbers.
    let resolved = match dns::tokio::Transport::system(tcp()) {
        Ok(dns) => dns.boxed(),
        Err(error) => {
            tracing::warn!(%error, "names in addresses cannot be resolved");
            tcp().boxed()
        }
    };
    let streams = match network_key {
        Some(key) => resolved
            .and_then(move |socket, _| PnetConfig::new(key).handshake(socket))
            .map(|s, _| Either::Left(s))
            .boxed(),
        None => resolved.map(|socket, _| Either::Right(socket)).boxed(),
    };
    Ok(streams
        .upgrade(Version::V1)
        .authenticate(noise::Config::new(keypair)?)
        .multiplex(yamux)
        .timeout(SET_UP)
        .map(|(peer, muxer), _| (peer, StreamMuxerBox::new(BoundedClose::new(muxer))))
        .boxed())
}

/// A muxer whose closing ends in time, whether or not the peer takes what is left.
struct BoundedClose<M> {
    muxer: M,
    deadline: Option<Pin<Box<Sleep>>>,
}

impl<M> BoundedClose<M> {
    fn new(muxer: M) -> Self {
        Self { muxer, deadline: None }
    }
}

impl<M> StreamMuxer for BoundedClose<M>
where
    M: StreamMuxer<Error: Into<io::Error>> + Unpin,
{
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
