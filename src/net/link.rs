//! The state of one connection that the caller's thread and the connection's task share: the queue of frames
//! to send, the account of received frames that were not taken, and a flag that allows frames only between
//! `PeerUp` and `PeerLost`.
//!
//! A `Link` belongs to one connection. The caller can use it from the time when it takes the connection's
//! `PeerUp` until it takes the `PeerLost`. So a frame that is meant for one connection is never sent on the
//! next one.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use futures::task::AtomicWaker;

use super::events::EventSender;
use super::frame::Frame;
use super::{Channel, Event, PeerId};

/// Cost of each queued frame in addition to its bytes, so that the number of tiny frames is limited too
/// (guess: the memory of a queue entry and its buffers).
const ENTRY: usize = 256;
/// Maximum number of bytes in the frames of a connection that were received and that the caller has not
/// taken. Above this limit the substream is not read (guess: 16 bulk frames of 256 KiB; few enough that
/// control frames do not wait long after them).
const INBOX: [usize; 2] = [1 << 20, 4 << 20];
/// Maximum number of bytes in the frames of a connection that were accepted from the caller and are not yet
/// written. Above this limit the connection is closed. The protocol does not reach the limit, because it has
/// at most 8 unacknowledged chunks of 1 MiB for each edge of the tree.
const OUTBOX: [usize; 2] = [4 << 20, 16 << 20];

/// Returns the cost of a frame in a queue.
pub(super) fn cost(frame: &Frame) -> usize {
    frame.wire_length() + ENTRY
}

/// Bytes of frames between this node and one peer for each channel, over all connections of this run.
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
    /// True from the time when the behaviour reports `PeerUp` until it reports `PeerLost`.
    open: bool,
    finishing: bool,
    verdict: Option<String>,
    outbox: [Outbox; 2],
}

#[derive(Debug, Default)]
struct Outbox {
    frames: VecDeque<Frame>,
    /// Cost of these frames and of the frame that is being written.
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

    /// Queues a frame. Drops it if the connection is gone. Closes the connection if the queue is too long.
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

    /// Closes the connection with a reason that the caller gives.
    pub(super) fn fail(&self, reason: String) {
        self.shared().verdict.get_or_insert(reason);
        self.waker.wake();
    }

    /// Returns the cost of the frames that are queued and not yet written.
    pub(super) fn queued(&self, channel: Channel) -> usize {
        self.shared().outbox[channel.index()].cost
    }

    /// Records that the caller has taken a received frame.
    pub(super) fn taken(&self, channel: Channel, cost: usize) {
        self.inbox[channel.index()].fetch_sub(cost, Ordering::AcqRel);
        self.waker.wake();
    }

    // Methods for the behaviour.

    /// Allows frames to be sent. Called before `PeerUp` is queued.
    pub(super) fn open(&self) {
        self.shared().open = true;
    }

    /// Stops frames: after this returns, none is delivered or accepted. Called before `PeerLost` is queued.
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

    /// Registers the connection's task, which is then woken at every change that the caller or the behaviour
    /// makes. Returns a reason if the connection must be closed at once, and `true` if it must be finished.
    pub(super) fn watch(&self, waker: &Waker) -> (Option<String>, bool) {
        self.waker.register(waker);
        let shared = self.shared();
        (shared.verdict.clone(), shared.finishing)
    }

    /// Returns the next frame to write. Its cost is counted until [`Self::written`] is called.
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
