//! Checks that the peer is alive: `/ipfs/ping/1.0.0`, as in the libp2p specification (32 bytes, echoed,
//! on one long-lived substream per direction).
//!
//! libp2p's own ping behaviour does not report the first failure, and then negotiates a new substream for up
//! to 10 s. So it detects a dead peer only after 17 s. It also considers only the echo. On a slow link, the
//! ping waits after megabytes of this node's own data in the kernel's send buffer. Here a peer counts as gone
//! if an echo has been due for [`TIMEOUT`] *and* no other data has come from the peer in that time, neither
//! frames nor its own pings.

use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{AsyncReadExt, AsyncWriteExt, FutureExt};
use libp2p::Stream;
use tokio::time::Instant;

/// Interval between an echo and the next ping.
pub(super) const INTERVAL: Duration = Duration::from_secs(2);
/// Time limit for the echo.
pub(super) const TIMEOUT: Duration = Duration::from_secs(5);
/// Length of a ping, fixed by the libp2p specification.
const LENGTH: usize = 32;

enum Outbound {
    /// The substream has been in negotiation since this time. The peer must answer here too.
    Opening(Instant),
    Idle(Stream, Instant),
    Waiting(BoxFuture<'static, io::Result<Stream>>, Instant),
}

/// The two ping substreams of one connection.
pub(super) struct Ping {
    outbound: Outbound,
    inbound: Option<BoxFuture<'static, io::Result<Stream>>>,
    heard: Instant,
    sent: u64,
}

impl Ping {
    pub(super) fn new(now: Instant) -> Self {
        Self { outbound: Outbound::Opening(now), inbound: None, heard: now, sent: 0 }
    }

    /// Records that data arrived from the peer.
    pub(super) fn heard(&mut self, now: Instant) {
        self.heard = now;
    }

    /// Records that our substream is open.
    pub(super) fn opened(&mut self, stream: Stream, now: Instant) {
        self.outbound = Outbound::Idle(stream, now);
    }

    /// Records that the peer's substream is open; it replaces an earlier one.
    pub(super) fn accepted(&mut self, stream: Stream) {
        self.inbound = Some(echo(stream).boxed());
    }

    /// Sends a ping if it is due and answers the peer. Returns the round trip of a ping whose echo has
    /// come. An error means that a ping substream broke.
    pub(super) fn poll(&mut self, now: Instant, cx: &mut Context<'_>) -> Result<Option<Duration>, String> {
        let mut round_trip = None;
        while let Some(inbound) = &mut self.inbound {
            let Poll::Ready(result) = inbound.poll_unpin(cx) else { break };
            self.inbound = match result {
                Ok(stream) => {
                    self.heard = now;
                    Some(echo(stream).boxed())
                }
                // The peer may end its pings, because its frames and this node's own pings still show that it
                // is alive.
                Err(_) => None,
            };
        }
        if let Outbound::Waiting(answer, since) = &mut self.outbound
            && let Poll::Ready(answer) = answer.poll_unpin(cx)
        {
            let stream = answer.map_err(|error| format!("ping failed: {error}"))?;
            self.heard = now;
            round_trip = Some(now.duration_since(*since));
            self.outbound = Outbound::Idle(stream, now + INTERVAL);
        }
        if matches!(&self.outbound, Outbound::Idle(_, due) if now >= *due)
            && let Outbound::Idle(stream, _) = std::mem::replace(&mut self.outbound, Outbound::Opening(now))
        {
            self.sent += 1;
            self.outbound = Outbound::Waiting(ask(stream, self.sent).boxed(), now);
            // Has this handler polled again at once. That poll sends the ping.
            cx.waker().wake_by_ref();
        }
        Ok(round_trip)
    }

    /// Returns whether the peer counts as gone.
    pub(super) fn is_dead(&self, now: Instant) -> bool {
        let asked = match &self.outbound {
            Outbound::Opening(since) | Outbound::Waiting(_, since) => *since,
            Outbound::Idle(..) => return false,
        };
        now.duration_since(asked) >= TIMEOUT && now.duration_since(self.heard) >= TIMEOUT
    }
}

async fn ask(mut stream: Stream, number: u64) -> io::Result<Stream> {
    // The specification asks for random bytes. Here a number is enough to distinguish echoes, because the
    // link is authenticated.
    let mut ping = [0; LENGTH];
    ping[..8].copy_from_slice(&number.to_le_bytes());
    let mut echo = [0; LENGTH];
    stream.write_all(&ping).await?;
    stream.flush().await?;
    stream.read_exact(&mut echo).await?;
    if ping == echo { Ok(stream) } else { Err(io::Error::other("the echo differs")) }
}

async fn echo(mut stream: Stream) -> io::Result<Stream> {
    let mut ping = [0; LENGTH];
    stream.read_exact(&mut ping).await?;
    stream.write_all(&ping).await?;
    stream.flush().await?;
    Ok(stream)
}
