//! Rounds. A program waits only for the end of a round.
//!
//! In a round, each party sends one sequence of bytes to each of the other two, and continues when it
//! has the sequences of both. All three run the same program, so messages need no names: data are read
//! in the order of sending. If a length differs, some party deviates. The fault is recorded
//! ([`Wire::fault`]), missing data are read as zeros, and the driver stops before it sends anything.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context as Wakeup, Poll};

use super::accounts::{Account, Place};
use super::{Ring, Stage};

/// The two other parties as seen from one party: the one before it and the one after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// Party i - 1.
    Before,
    /// Party i + 1.
    After,
}

/// Both sides.
pub const SIDES: [Side; 2] = [Side::Before, Side::After];

/// Data that one party sends in this round and received in the last one.
#[derive(Default)]
pub struct Wire {
    round: u32,
    out: [Vec<u8>; 2],
    inbox: [Vec<u8>; 2],
    read: [usize; 2],
    fault: Option<Side>,
    doubt: Option<Side>,
    sent: [u64; 2],
    /// Streams that were drawn, each with its round.
    drawn: BTreeMap<[u8; 12], u32>,
    marks: Vec<Mark>,
    chunks: u32,
    accounts: BTreeMap<Place, Account>,
    /// Checked messages, in the order of sending.
    #[cfg(test)]
    pub(super) labels: Vec<Label>,
}

/// Position of a checked message.
#[cfg(test)]
#[derive(Clone, Copy, Debug)]
pub(super) struct Label {
    /// Kind of message.
    pub what: &'static str,
    /// Number of the part.
    pub chunk: u32,
    /// Round in which it is sent.
    pub round: u32,
    /// Receiver.
    pub to: Side,
    /// Its bytes in the round.
    pub start: usize,
    pub end: usize,
}

/// Start of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Stage.
    pub stage: Stage,
    /// Number of rounds before it.
    pub rounds: u32,
    /// Bytes sent before it.
    pub sent: u64,
}

impl std::fmt::Debug for Wire {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Wire(round {}, <redacted>)", self.round)
    }
}

impl Wire {
    /// Returns the number of finished rounds.
    #[must_use]
    pub fn rounds(&self) -> u32 {
        self.round
    }

    /// Returns the bytes sent to each side so far.
    #[must_use]
    pub fn sent(&self) -> [u64; 2] {
        self.sent
    }

    /// Returns the side that sent too little or too much.
    #[must_use]
    pub fn fault(&self) -> Option<Side> {
        self.fault
    }

    /// Notes the kind of the next message.
    #[cfg(test)]
    pub(super) fn label(&mut self, what: &'static str, chunk: u32, to: Side, len: usize) {
        let start = self.out[to as usize].len();
        self.labels.push(Label { what, chunk, round: self.round, to, start, end: start + len });
    }

    /// Adds words to the messages of this round.
    pub fn send<T: Ring>(&mut self, to: Side, words: &[T]) {
        T::write_all(words, &mut self.out[to as usize]);
    }

    /// Adds bytes to the messages of this round.
    pub fn send_bytes(&mut self, to: Side, bytes: &[u8]) {
        self.out[to as usize].extend_from_slice(bytes);
    }

    /// Reads the next `len` words of the data of the last round.
    pub fn receive<T: Ring>(&mut self, from: Side, len: usize) -> Vec<T> {
        self.receive_bytes(from, len * T::BYTES, T::read_all)
    }

    /// Applies `read` to the next `len` bytes of the data of the last round, and returns the result.
    pub fn receive_bytes<R>(&mut self, from: Side, len: usize, read: impl FnOnce(&[u8]) -> R) -> R {
        let at = from as usize;
        let bytes = self.inbox[at].get(self.read[at]..).and_then(|rest| rest.get(..len));
        let Some(bytes) = bytes else {
            self.fault.get_or_insert(from);
            return read(&vec![0; len]);
        };
        let result = read(bytes);
        self.read[at] += len;
        if self.read[at] == self.inbox[at].len() {
            (self.inbox[at], self.read[at]) = (Vec::new(), 0);
        }
        result
    }

    /// Takes out the messages of this round.
    pub fn take(&mut self) -> [Vec<u8>; 2] {
        let out = std::mem::take(&mut self.out);
        SIDES.iter().for_each(|&side| self.sent[side as usize] += out[side as usize].len() as u64);
        out
    }

    /// Begins the next round with the messages of both sides.
    pub fn turn(&mut self, received: [Vec<u8>; 2]) {
        self.inbox = received;
        self.read = [0; 2];
        self.round += 1;
    }

    /// Records a fault if the last round brought more data than were read.
    pub fn settle(&mut self) {
        for side in SIDES {
            if self.read[side as usize] != self.inbox[side as usize].len() {
                self.fault.get_or_insert(side);
            }
        }
        self.inbox = Default::default();
        self.read = [0; 2];
    }

    /// Returns the side whose data have the right length but contradict this party's data: one of the
    /// three parties deviates.
    #[must_use]
    pub fn doubt(&self) -> Option<Side> {
        self.doubt
    }

    /// Records such a side.
    pub fn note_doubt(&mut self, side: Side) {
        self.doubt.get_or_insert(side);
    }

    /// Records a label in the ledger of draws.
    ///
    /// # Panics
    /// If the label was drawn before, because two vectors would have the same mask.
    pub fn note(&mut self, label: [u8; 12]) {
        let before = self.drawn.insert(label, self.round);
        assert!(before.is_none(), "BUG: the stream {label:?} is drawn a second time");
    }

    /// Returns the labels of the drawn streams, each with its round.
    #[must_use]
    pub fn drawn(&self) -> &BTreeMap<[u8; 12], u32> {
        &self.drawn
    }

    /// Records what this party tells at a place, before the party sends it.
    pub fn account(&mut self, place: Place, account: Account) {
        self.accounts.insert(place, account);
    }

    /// Returns this party's account of a place.
    pub fn account_of(&mut self, place: Place) -> Option<&mut Account> {
        self.accounts.get_mut(&place)
    }

    /// Returns all accounts of this party.
    #[must_use]
    pub fn accounts(&self) -> &BTreeMap<Place, Account> {
        &self.accounts
    }

    /// Records the start of a stage.
    pub fn mark(&mut self, stage: Stage) {
        self.marks.push(Mark { stage, rounds: self.round, sent: self.sent.iter().sum() });
    }

    /// Returns the start of each stage so far.
    #[must_use]
    pub fn marks(&self) -> &[Mark] {
        &self.marks
    }

    /// Returns a number that no other chunk has.
    pub fn next_chunk(&mut self) -> u32 {
        self.chunks += 1;
        self.chunks
    }
}

/// Wire of a party, shared by its driver and the parts of its program.
#[derive(Clone, Debug, Default)]
pub struct Line(Arc<Mutex<Wire>>);

impl Line {
    /// Returns the wire. It must not be held over a round.
    pub fn wire(&self) -> MutexGuard<'_, Wire> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a future that waits for the end of this round.
    #[must_use]
    pub fn round(&self) -> Round {
        Round { line: self.clone(), from: self.wire().round }
    }
}

/// Future that is ready at the end of the round in which it was made.
#[derive(Debug)]
pub struct Round {
    line: Line,
    from: u32,
}

impl Future for Round {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Wakeup<'_>) -> Poll<()> {
        if self.line.wire().round > self.from { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// Part of a program.
pub type Part<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Runs parts in parallel, always in the same order. Their messages share rounds.
#[must_use]
pub fn together<T>(parts: Vec<Part<'_, T>>) -> Together<'_, T> {
    Together { parts: parts.into_iter().map(Err).collect() }
}

/// Future of the results of all parts, in order. It is ready when all parts have ended.
pub struct Together<'a, T> {
    parts: Vec<Result<T, Part<'a, T>>>,
}

impl<T> std::fmt::Debug for Together<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Together({} parts)", self.parts.len())
    }
}

// Its contents do not need to be pinned: parts are boxed, and results are moved out at the end.
impl<T> Unpin for Together<'_, T> {}

impl<T> Future for Together<'_, T> {
    type Output = Vec<T>;

    fn poll(mut self: Pin<&mut Self>, wakeup: &mut Wakeup<'_>) -> Poll<Vec<T>> {
        for part in &mut self.parts {
            if let Err(running) = part
                && let Poll::Ready(result) = running.as_mut().poll(wakeup)
            {
                *part = Ok(result);
            }
        }
        if self.parts.iter().any(Result::is_err) {
            return Poll::Pending;
        }
        Poll::Ready(self.parts.drain(..).filter_map(Result::ok).collect())
    }
}
