//! State that the caller's thread and the task of one connection share: the queue of frames to send, the
//! account of frames received but not yet taken, and the gate that keeps frames between `PeerUp` and
//! `PeerLost`.
//!
//! A `Link` belongs to one connection. The caller reaches it after it has taken that connection's
//! `PeerUp` and until it has taken its `PeerLost`. So a frame that the caller sends on one connection
//! never travels on the next one.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use futures::task::AtomicWaker;

use super::events::EventSender;
use super::frame::Frame;
use super::{Channel, Event, PeerId};

/// Cost of each queued frame in addition to its bytes, so that many tiny frames are bounded too (guess:
/// cost of a queue entry and its buffers).
const ENTRY: usize = 256;
/// Limit of frames received and not yet taken by the caller, per connection, in bytes: above it the
/// substream is not read (guess: 16 bulk frames of 256 KiB; small enough that control frames behind them
/// do not wait long).
const INBOX: [usize; 2] = [1 << 20, 4 << 20];
/// Limit of frames accepted from the caller and not yet written, per connection, in bytes: above it the
/// connection is closed. The protocol above has at most 8 unacknowledged chunks of 1 MiB per edge and
/// stays below.
const OUTBOX: [usize; 2] = [4 << 20, 16 << 20];

/// Returns the cost of a frame in a queue.
pub(super) fn cost(frame: &Frame) -> usize {
    frame.wire_length() + ENTRY
}

/// Bytes of frames per channel between this node and one peer, over all connections of this run.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    pub(super) sent: [AtomicU64; 2],
    pub(super) received: [AtomicU64; 2],
    /// Round trip of the last ping in microseconds; 0 until a ping was answered on the open connection.
    pub(super) round_trip: AtomicU64,
}

/// Shared state of one connection.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) peer: PeerId,
    traffic: Arc<Traffic>,
    shared: Mutex<Shared>,
    inbox: [AtomicUsize; 2],
    waker: AtomicWaker,
}

#[derive(Debug, Default)]
struct Shared {
    /// True between `PeerUp` and `PeerLost`, as the behaviour has reported them.
    open: bool,
    finishing: bool,
    verdict: Option<String>,
    outbox: [Outbox; 2],
}

#[derive(Debug, Default)]
struct Outbox {
    frames: VecDeque<Frame>,
    /// Cost of the frames above and of the one that is being written.
    cost: usize,
}

impl Link {
    pub(super) fn new(peer: PeerId, traffic: Arc<Traffic>) -> Self {
        Self {
            peer,
            traffic,
            shared: Mutex::default(),
            inbox: [AtomicUsize::new(0), AtomicUsize::new(0)],
            waker: AtomicWaker::new(),
        }
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // Methods for the caller.

    /// Queues a frame. Drops it if the connection is gone; too long a queue closes the connection.
    pub(super) fn send(&self, channel: Channel, frame: Frame) {
        let mut shared = self.shared();
        if !shared.open || shared.verdict.is_some() {
            return;
        }
        let outbox = &mut shared.outbox[channel.index()];
        let (cost, limit) = (outbox.cost + cost(&frame), OUTBOX[channel.index()]);
        if cost > limit {
            shared.verdict = Some(format!("{cost} bytes wait to be sent on {channel}, the limit is {limit}"));
        } else {
            outbox.cost = cost;
            outbox.frames.push_back(frame);
        }
        drop(shared);
        self.waker.wake();
    }

    /// Closes the connection for a reason of the caller.
    pub(super) fn fail(&self, reason: String) {
        self.shared().verdict.get_or_insert(reason);
        self.waker.wake();
    }

    /// Returns the bytes queued and not yet given to the substream.
    pub(super) fn queued(&self, channel: Channel) -> usize {
        self.shared().outbox[channel.index()].cost
    }

    /// Records that the caller has taken a received frame.
    pub(super) fn taken(&self, channel: Channel, cost: usize) {
        self.inbox[channel.index()].fetch_sub(cost, Ordering::AcqRel);
        self.waker.wake();
    }

    // Methods for the behaviour.

    /// Lets frames flow. Called before `PeerUp` is queued.
    pub(super) fn open(&self) {
        self.shared().open = true;
    }

    /// Stops frames: none is delivered or accepted after this returns. Called before `PeerLost` is
    /// queued.
    pub(super) fn shut(&self) {
        self.traffic.round_trip.store(0, Ordering::Relaxed);
        let mut shared = self.shared();
        shared.open = false;
        shared.outbox = Default::default();
    }

    /// Asks the handler to write the queued frames and to end its substreams.
    pub(super) fn finish(&self) {
        self.shared().finishing = true;
        self.waker.wake();
    }

    // Methods for the handler.

    /// Registers the connection's task to be woken on every change by the other sides. Returns whether
    /// they want the connection to end: a reason to close at once, or `true` to finish.
    pub(super) fn watch(&self, waker: &Waker) -> (Option<String>, bool) {
        self.waker.register(waker);
        let shared = self.shared();
        (shared.verdict.clone(), shared.finishing)
    }

    /// Returns the next frame to write. It stays in the account until [`Self::written`].
    pub(super) fn next(&self, channel: Channel) -> Option<Frame> {
        self.shared().outbox[channel.index()].frames.pop_front()
    }

    /// Records that a frame has been given to the substream.
    pub(super) fn written(&self, channel: Channel, cost: usize, bytes: usize) {
        let outbox = &mut self.shared().outbox[channel.index()];
        outbox.cost = outbox.cost.saturating_sub(cost);
        self.traffic.sent[channel.index()].fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Records the round trip of a ping.
    pub(super) fn answered(&self, after: Duration) {
        let micros = u64::try_from(after.as_micros()).unwrap_or(u64::MAX).max(1);
        self.traffic.round_trip.store(micros, Ordering::Relaxed);
    }

    /// Returns whether another frame may be read.
    pub(super) fn has_room(&self, channel: Channel) -> bool {
        self.inbox[channel.index()].load(Ordering::Acquire) < INBOX[channel.index()]
    }

    /// Passes a received frame to the caller, unless the connection has been reported lost.
    pub(super) fn deliver(self: &Arc<Self>, events: &EventSender, channel: Channel, frame: Frame) {
        self.traffic.received[channel.index()].fetch_add(frame.wire_length() as u64, Ordering::Relaxed);
        let cost = cost(&frame);
        let shared = self.shared();
        if shared.open {
            self.inbox[channel.index()].fetch_add(cost, Ordering::AcqRel);
            let from = self.peer;
            events.frame(Event::Frame { from, channel, frame }, Arc::clone(self), cost);
        }
    }
}
