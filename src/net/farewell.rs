//! The reason why a peer leaves: `/flyswarm/leave/1` (spec, section 6, *Leaving*).
//!
//! If a peer leaves for a reason that the others may know, it writes the reason before it ends its frames,
//! and waits until the reason is read. The reason is only a claim of this peer, and is used only for the
//! user's log.

use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{AsyncReadExt, AsyncWriteExt, FutureExt};
use libp2p::Stream;
use tokio::time::timeout;

/// Protocol name negotiated for its substreams.
pub(super) const PROTOCOL: &str = "/flyswarm/leave/1";
/// Longest reason in bytes.
pub(super) const MAX_REASON: usize = 512;
/// Time limit for the other side to read the reason.
const PATIENCE: Duration = Duration::from_secs(1);

/// The reasons of both sides of a connection.
#[derive(Default)]
pub(super) struct Farewell {
    /// Reason that waits for its substream.
    to_say: Option<String>,
    saying: Option<BoxFuture<'static, ()>>,
    hearing: Option<BoxFuture<'static, io::Result<String>>>,
    heard: Option<String>,
}

impl Farewell {
    /// Sets this node's reason. A substream for it must then be opened.
    pub(super) fn say(&mut self, reason: String) {
        self.to_say = Some(reason);
    }

    /// Writes the reason to its substream.
    pub(super) fn opened(&mut self, stream: Stream) {
        self.saying = self.to_say.take().map(|reason| say(stream, reason).boxed());
    }

    /// Gives up, because the other side does not speak this protocol.
    pub(super) fn refused(&mut self) {
        self.to_say = None;
    }

    /// Reads the other side's reason; only the first substream counts.
    pub(super) fn accepted(&mut self, stream: Stream) {
        if self.hearing.is_none() && self.heard.is_none() {
            self.hearing = Some(hear(stream).boxed());
        }
    }

    /// Returns whether this node's reason has not been read yet.
    pub(super) fn is_saying(&self) -> bool {
        self.to_say.is_some() || self.saying.is_some()
    }

    /// Returns the other side's reason.
    pub(super) fn heard(&self) -> Option<&str> {
        self.heard.as_deref()
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) {
        if let Some(saying) = &mut self.saying
            && let Poll::Ready(()) = saying.poll_unpin(cx)
        {
            self.saying = None;
        }
        if let Some(hearing) = &mut self.hearing
            && let Poll::Ready(result) = hearing.poll_unpin(cx)
        {
            self.hearing = None;
            self.heard = result.ok();
        }
    }
}

async fn say(mut stream: Stream, reason: String) {
    let end = reason.len().min(MAX_REASON);
    let written = async {
        stream.write_all(&reason.as_bytes()[..end]).await?;
        stream.close().await?;
        // The other side ends the substream when it has read the reason.
        stream.read(&mut [0]).await
    };
    // If the other side does not answer in time, this node leaves anyway.
    let _ = timeout(PATIENCE, written).await;
}

async fn hear(mut stream: Stream) -> io::Result<String> {
    let mut bytes = Vec::new();
    let mut reason = (&mut stream).take(MAX_REASON as u64);
    match timeout(PATIENCE, reason.read_to_end(&mut bytes)).await {
        Ok(read) => read?,
        Err(_) => return Err(io::ErrorKind::TimedOut.into()),
    };
    let _ = stream.close().await;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
