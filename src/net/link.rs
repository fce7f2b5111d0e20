//! The state that the caller's thread and the task of one connection share: the queue of frames to send, the
//! account of frames received but not yet taken, and the gate that keeps frames between `PeerUp` and
//! `PeerLost`.
//!
//! A `Link` belongs to one connection. The caller reaches it from the moment it has taken that connection's
//! `PeerUp` until it has taken its `PeerLost`, so a frame sent in the belief that one connection stands
//! never travels on the next.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use futures::task::AtomicWaker;

use super::events::EventSender;
use super::frame::Frame;
use super::{Channel, Event, PeerId};

/// Counted for each queued frame on top of its bytes, so that many tiny frames are bounded too (guess: what a
/// queue entry and its buffers cost).
const ENTRY: usize = 256;
/// Frames received and not yet taken by the caller, per connection, in bytes: above this the substream is not
/// read (guess: 16 bulk frames of 256 KiB; small enough that control frames behind them do not wait long).
const INBOX: [usize; 2] = [1 << 20, 4 << 20];
/// Frames accepted from the caller and not yet written, per connection, in bytes: above this the connection
/// is closed. The protocol above has at most 8 unacknowledged chunks of 1 MiB per edge and stays below.
const OUTBOX: [usize; 2] = [4 << 20, 16 << 20];

/// The cost of a frame in a queue.
pub(super) fn cost(frame: &Frame) -> usize {
    frame.wire_length() + ENTRY
}

/// Bytes of frames per channel between this node and one peer, over all connections of this run.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    pub(super) sent: [AtomicU64; 2],
    pub(super) received: [AtomicU64; 2],
    /// Of the last ping, microseconds; 0 while none was answered on the connection that stands.
    pub(super) round_trip: AtomicU64,
}

/// The shared state of one connection.
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
    /// Between `PeerUp` and `PeerLost`, as the behaviour has reported them.
    open: bool,
    finishing: bool,
    verdict: Option<String>,
    outbox: [Outbox; 2],
}

#[derive(Debug, Default)]
struct Outbox {
    frames: VecDeque<Frame>,
    /// The cost of the frames above and of the one being written.
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

    // The caller's side.

    /// Queues a frame. Dropped where the connection is gone; too long a queue closes the connection.
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

    /// Closes the connection for a reason of the caller's.
    pub(super) fn fail(&self, reason: String) {
        self.shared().verdict.get_or_insert(reason);
        self.waker.wake();
    }

    /// Bytes queued and not yet handed to the substream.
    pub(super) fn queued(&self, channel: Channel) -> usize {
        self.shared().outbox[channel.index()].cost
    }

    /// The caller has taken a received frame.
    pub(super) fn taken(&self, channel: Channel, cost: usize) {
        self.inbox[channel.index()].fetch_sub(cost, Ordering::AcqRel);
        self.waker.wake();
    }

    // The behaviour's side.

    /// Frames may flow. Called before `PeerUp` is queued.
    pub(super) fn open(&self) {
        self.shared().open = true;
    }

    /// No frame is delivered or accepted after this returns. Called before `PeerLost` is queued.
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

    // The handler's side.

    /// Registers the connection's task for everything the other sides do, and says whether they want it to
    /// end: a reason to close at once, or `true` to finish.
    pub(super) fn watch(&self, waker: &Waker) -> (Option<String>, bool) {
        self.waker.register(waker);
        let shared = self.shared();
        (shared.verdict.clone(), shared.finishing)
    }

    /// The next frame to write. It stays in the account until [`Self::written`].
    pub(super) fn next(&self, channel: Channel) -> Option<Frame> {
        self.shared().outbox[channel.index()].frames.pop_front()
    }

    /// A frame has been handed to the substream.
    pub(super) fn written(&self, channel: Channel, cost: usize, bytes: usize) {
        let outbox = &mut self.shared().outbox[channel.index()];
        outbox.cost = outbox.cost.saturating_sub(cost);
        self.traffic.sent[channel.index()].fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// A ping was answered after so long.
    pub(super) fn answered(&self, after: Duration) {
        let micros = u64::try_from(after.as_micros()).unwrap_or(u64::MAX).max(1);
        self.traffic.round_trip.store(micros, Ordering::Relaxed);
    }

    /// Whether another frame may be read.
    pub(super) fn has_room(&self, channel: Channel) -> bool {
        self.inbox[channel.index()].load(Ordering::Acquire) < INBOX[channel.index()]
    }

    /// Hands a received frame to the caller, unless the connection has been reported lost.
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
