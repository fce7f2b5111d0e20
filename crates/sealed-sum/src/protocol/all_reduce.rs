//! Pipelined sum on the tree (spec, section "All-reduce").
//!
//! A vector is cut in chunks of [`CHUNK`] bytes. A peer sends chunk `i` to its parent when its own share of
//! it is masked and both children's have been added; the root sends it down again as soon as it is complete,
//! and so the total travels down while later chunks still travel up. At most [`WINDOW`] chunks on an edge and
//! direction are unacknowledged; a credit acknowledges all chunks up to one. Children's chunks are added to
//! the own one, in the buffer that it was masked in, which leaves as it is when it is complete; the total is
//! written once, front to back. A peer that runs ahead waits: own chunks are masked, and children's
//! acknowledged, only up to `LOOKAHEAD` chunks before the one that leaves next, so that besides the vector
//! and the total a sum takes little memory.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use sha2::Digest;

use super::context::Aggregate;
use super::pairwise::Masks;
use super::sparse;
use super::sum_id::SumId;
use super::tree::Place;
use super::{Action, EarlyWrite, Fault, Input, Machine, Never, Step, Time};
use crate::buffers::{Buffer, Buffers};
use crate::crypto::mask::{self, Word};
use crate::crypto::tagged_hash;
use crate::session::Peer;

/// Bytes in a chunk: large enough to amortise a message, small enough to pipeline.
pub const CHUNK: usize = 256 * 1024;
/// Unacknowledged chunks per edge and direction.
pub const WINDOW: usize = 8;
/// As many chunks are acknowledged at once: rarely enough to cost little, early enough that the sender need
/// not stop.
pub const CREDIT: u32 = WINDOW as u32 / 2;
/// Chunks of this peer's own vector that may be in masking at once.
const MASKING: usize = 4;
/// How far before the chunk that leaves next a child or this peer's own masking may run: as far again as the
/// window.
const LOOKAHEAD: u32 = WINDOW as u32;

/// Towards the root or away from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Direction {
    /// Partial sums, to the parent.
    Up,
    /// Totals, to the children.
    Down,
}

/// A message on an edge of the tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// `data` is chunk `index` of the partial sum (up) or of the sealed total (down). Bulk channel.
    Chunk {
        /// The sum.
        sum: SumId,
        /// The direction.
        direction: Direction,
        /// The number of the chunk, from 0, in order.
        index: u32,
        /// [`CHUNK`] bytes, the last one what remains; of a sum without masks its pairs ([`sparse`]).
        #[serde(skip)]
        data: Bytes,
    },
    /// The receiver has taken all chunks up to `index` that travelled in `direction`. Control channel.
    Credit {
        /// The sum.
        sum: SumId,
        /// The direction of the chunks that are acknowledged.
        direction: Direction,
        /// The last one's index.
        index: u32,
    },
}

/// Mask one chunk of this peer's own vector.
#[derive(Clone)]
pub struct Job {
    /// The sum.
    pub sum: SumId,
    /// The number of the chunk.
    pub index: u32,
    /// The whole vector.
    pub vector: Bytes,
    /// The streams to add and subtract.
    pub masks: Arc<Masks>,
    buffers: Buffers,
}

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Job {{ sum: {:?}, index: {}, vector: <redacted>, masks: {:?} }}",
            self.sum, self.index, self.masks
        )
    }
}

/// A masked chunk.
#[derive(Clone, Debug)]
pub struct Done {
    /// The sum.
    pub sum: SumId,
    /// The number of the chunk.
    pub index: u32,
    /// The masked words.
    data: Buffer,
}

impl Job {
    /// Adds every mask to the chunk.
    #[must_use]
    pub fn run(self) -> Done {
        let start = self.index as usize * CHUNK;
        let own = &self.vector[start..(start + CHUNK).min(self.vector.len())];
        let mut data = self.buffers.take(own.len());
        data.bytes_mut().copy_from_slice(own);
        self.masks.apply(data.bytes_mut(), start as u64);
        Done { sum: self.sum, index: self.index, data }
    }
}

/// The sealed total, the same at every member.
#[derive(Clone, Debug)]
pub struct Total {
    /// The words, still under the pads.
    pub bytes: Bytes,
    /// See [`total_digest`].
    pub digest: [u8; 32],
}

/// SHA-256(tag "total" || session id || ballot || slot || BLAKE3(bytes)). (BLAKE3, because
/// every member hashes every total.)
#[must_use]
pub fn total_digest(session: &[u8; 32], sum: SumId, bytes: &[u8]) -> [u8; 32] {
    tag_total(session, sum, blake3::hash(bytes))
}

fn tag_total(session: &[u8; 32], sum: SumId, content: blake3::Hash) -> [u8; 32] {
    let place = tagged_hash("total").chain_update(session).chain_update(sum.to_bytes());
    place.chain_update(content.as_bytes()).finalize().into()
}

/// Chunks one neighbour has sent or been sent.
#[derive(Clone, Debug, Default)]
struct Flow {
    /// The next index in order.
    next: u32,
    /// The next index that is to be acknowledged.
    acknowledged: u32,
}

impl Flow {
    fn room(&self) -> bool {
        ((self.next - self.acknowledged) as usize) < WINDOW
    }

    /// The index to acknowledge, once enough chunks below `until` were taken to be worth a message.
    fn credit(&mut self, until: u32) -> Option<u32> {
        let until = self.next.min(until);
        if until.saturating_sub(self.acknowledged) < CREDIT {
            return None;
        }
        self.acknowledged = until;
        Some(until - 1)
    }
}

/// A chunk that is not complete.
#[derive(Clone, Debug, Default)]
struct Partial {
    /// This peer's own part and those that were added to it.
    sum: Option<Buffer>,
    /// Children's parts, until the own one is there.
    waiting: Vec<Bytes>,
    /// Number of parts that have come.
    parts: usize,
}

/// The machine of one sum at one member.
#[derive(Clone, Debug)]
pub struct AllReduce {
    sum: SumId,
    word: Word,
    /// Without masks: chunks travel as pairs.
    plain: bool,
    place: Place,
    len: usize,
    /// Number of parts: those of this peer and of its children.
    parts: usize,
    /// Chunks of which a part has come and that have not left.
    partial: BTreeMap<u32, Partial>,
    vector: Option<(Bytes, Arc<Masks>)>,
    /// The memory in which chunks are masked.
    buffers: Buffers,
    own_next: u32,
    own_working: usize,
    /// Chunks taken from and acknowledged to each child.
    from_children: BTreeMap<Peer, Flow>,
    up: Flow,
    down: BTreeMap<Peer, Flow>,
    /// Chunks of the total taken from and acknowledged to the parent; at the root, those that are complete.
    from_parent: Flow,
    /// Their bytes.
    total: Vec<u8>,
    session: [u8; 32],
    digest: blake3::Hasher,
    finished: bool,
}

impl Machine for AllReduce {
    type Message = Message;
    type Timer = Never;
    type Job = Job;
    type Done = Done;
    type Record = Never;
    type Output = Total;

    fn handle(&mut self, _now: Time, input: Input<Self>) -> Step<Self> {
        let mut step = Step::none();
        match input {
            Input::Start => self.advance(&mut step),
            Input::Message { from, message } => {
                if let Err(fault) = self.message(from, message, &mut step) {
                    step.blame(from, fault);
                } else {
                    self.advance(&mut step);
                }
            }
            Input::Done(done) => {
                self.own_working -= 1;
                self.add_own(done.index, done.data);
                self.advance(&mut step);
            }
            Input::PeerUp(_) | Input::PeerLost(_) | Input::Timer(_) => {}
        }
        step
    }
}

impl AllReduce {
    /// A sum of vectors of this aggregate; nothing is sent before [`AllReduce::contribute`].
    #[must_use]
    pub fn new(session: &[u8; 32], sum: SumId, aggregate: &Aggregate, place: Place) -> Self {
        let (word, len, plain) = (aggregate.word(), aggregate.len(), aggregate.plain());
        let parts = 1 + place.children.len();
        Self {
            sum,
            word,
            plain,
            len,
            parts,
            partial: BTreeMap::new(),
            vector: None,
            buffers: Buffers::default(),
            own_next: 0,
            own_working: 0,
            from_children: place.children.iter().map(|&child| (child, Flow::default())).collect(),
            up: Flow::default(),
            down: place.children.iter().map(|&child| (child, Flow::default())).collect(),
            place,
            from_parent: Flow::default(),
            total: Vec::with_capacity(len),
            session: *session,
            digest: blake3::Hasher::new(),
            finished: false,
        }
    }

    /// Sets this peer's own vector and its masks.
    ///
    /// # Panics
    /// If the vector has another length than agreed: the node built it wrongly.
    pub fn contribute(&mut self, vector: Bytes, masks: Arc<Masks>) -> Step<Self> {
        assert_eq!(vector.len(), self.len, "BUG: own vector has the wrong length");
        self.vector = Some((vector, masks));
        let mut step = Step::none();
        self.advance(&mut step);
        step
    }

    /// Whether the whole total is here.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.from_parent.next == self.chunks()
    }

    /// A child without whose next chunk nothing goes on.
    #[must_use]
    pub fn lacks(&self) -> Option<Peer> {
        let next = self.leaving();
        let lacking = |flow: &Flow| next < self.chunks() && flow.next <= next;
        self.from_children.iter().find(|(_, flow)| lacking(flow)).map(|(&child, _)| child)
    }

    fn chunks(&self) -> u32 {
        let chunks = self.len.div_ceil(CHUNK);
        u32::try_from(chunks).unwrap_or_else(|_| unreachable!("BUG: vectors are at most 1 GiB"))
    }

    fn range(&self, index: u32) -> std::ops::Range<usize> {
        let start = index as usize * CHUNK;
        start..(start + CHUNK).min(self.len)
    }

    /// The chunk that leaves next: to the parent, at the root into the total.
    fn leaving(&self) -> u32 {
        if self.place.parent.is_some() { self.up.next } else { self.from_parent.next }
    }

    /// This peer's own part of chunk `index` is masked.
    fn add_own(&mut self, index: u32, mut sum: Buffer) {
        let partial = self.partial.entry(index).or_default();
        partial.waiting.drain(..).for_each(|child| mask::add(self.word, sum.bytes_mut(), &child));
        partial.sum = Some(sum);
        partial.parts += 1;
    }

    /// A child's part of chunk `index` is there.
    fn add_child(&mut self, index: u32, data: Bytes) {
        let partial = self.partial.entry(index).or_default();
        match &mut partial.sum {
            Some(sum) => mask::add(self.word, sum.bytes_mut(), &data),
            None => partial.waiting.push(data),
        }
        partial.parts += 1;
    }

    /// Takes chunk `index` if all parts of it are there.
    fn complete(&mut self, index: u32) -> Option<Bytes> {
        let parts = self.parts;
        match self.partial.entry(index) {
            Entry::Occupied(entry) if entry.get().parts == parts => entry.remove().sum.map(Buffer::freeze),
            _ => None,
        }
    }

    /// A chunk as it travels.
    fn travelling(&self, words: Bytes) -> Bytes {
        if self.plain { sparse::encode(&words) } else { words }
    }

    /// The next chunk of the total is there.
    fn extend(&mut self, data: &Bytes, step: &mut Step<Self>) {
        let start = self.total.len();
        self.digest.update(data);
        self.total.extend_from_slice(data);
        self.from_parent.next += 1;
        step.0.push(Action::WriteEarly(EarlyWrite::Chunk(self.sum, start, data.clone())));
    }

    fn message(&mut self, from: Peer, message: Message, step: &mut Step<Self>) -> Result<(), Fault> {
        match message {
            Message::Chunk { direction, index, data, .. } => {
                let expected = match direction {
                    Direction::Up => self.from_children.get(&from).map(|flow| flow.next),
                    Direction::Down => (self.place.parent == Some(from)).then_some(self.from_parent.next),
                };
                if expected != Some(index) || index >= self.chunks() {
                    return Err(Fault::OutOfOrder("chunk"));
                }
                let length = self.range(index).len();
                let words = if self.plain { sparse::decode(&data, length)? } else { data.clone() };
                if words.len() != length {
                    return Err(Fault::Inconsistent(format!(
                        "chunk {index} has {} bytes, expected {length}",
                        words.len(),
                    )));
                }
                match direction {
                    Direction::Up => {
                        // A child keeps to what was acknowledged.
                        let flow = self.from_children.get_mut(&from).filter(|flow| flow.room());
                        flow.ok_or(Fault::OutOfOrder("chunk"))?.next += 1;
                        self.add_child(index, words);
                    }
                    Direction::Down => {
                        // The total of a chunk exists only after this peer's partial sum of it has left.
                        if index >= self.up.next {
                            return Err(Fault::OutOfOrder("total"));
                        }
                        self.extend(&words, step);
                        self.relay(index, &data, step);
                        if let Some(index) = self.from_parent.credit(self.chunks()) {
                            step.send(from, Message::Credit { sum: self.sum, direction, index });
                        }
                    }
                }
            }
            Message::Credit { direction, index, .. } => {
                let flow = match direction {
                    Direction::Up => (self.place.parent == Some(from)).then_some(&mut self.up),
                    Direction::Down => self.down.get_mut(&from),
                };
                let flow = flow.ok_or(Fault::OutOfOrder("credit"))?;
                if index < flow.acknowledged || index >= flow.next {
                    return Err(Fault::OutOfOrder("credit"));
                }
                flow.acknowledged = index + 1;
            }
        }
        Ok(())
    }

    /// Hands a chunk of the total, as it came, to the children that are level with it.
    fn relay(&mut self, index: u32, data: &Bytes, step: &mut Step<Self>) {
        for (&child, flow) in &mut self.down {
            if flow.next == index && flow.room() {
                let message =
                    Message::Chunk { sum: self.sum, direction: Direction::Down, index, data: data.clone() };
                step.send(child, message);
                flow.next += 1;
            }
        }
    }

    /// Does whatever has become possible.
    fn advance(&mut self, step: &mut Step<Self>) {
        let chunks = self.chunks();
        match self.place.parent {
            Some(parent) => {
                while self.up.next < chunks && self.up.room() {
                    let index = self.up.next;
                    let Some(data) = self.complete(index) else { break };
                    let data = self.travelling(data);
                    step.send(
                        parent,
                        Message::Chunk { sum: self.sum, direction: Direction::Up, index, data },
                    );
                    self.up.next += 1;
                }
            }
            None => {
                while let Some(data) = self.complete(self.from_parent.next) {
                    let index = self.from_parent.next;
                    self.extend(&data, step);
                    let data = self.travelling(data);
                    self.relay(index, &data, step);
                }
            }
        }
        let until = self.leaving().saturating_add(LOOKAHEAD);
        if let Some((vector, masks)) = &self.vector {
            while self.own_next < chunks.min(until) && self.own_working < MASKING {
                let (vector, masks) = (vector.clone(), masks.clone());
                step.0.push(Action::Compute(Job {
                    sum: self.sum,
                    index: self.own_next,
                    vector,
                    masks,
                    buffers: self.buffers.clone(),
                }));
                self.own_next += 1;
                self.own_working += 1;
            }
        }
        for (&child, flow) in &mut self.from_children {
            if let Some(index) = flow.credit(until) {
                step.send(child, Message::Credit { sum: self.sum, direction: Direction::Up, index });
            }
        }
        // Children that could not take a chunk when it came. One copy of it serves both when they are level.
        let mut copies: BTreeMap<u32, Bytes> = BTreeMap::new();
        for (&child, flow) in &mut self.down {
            while flow.next < self.from_parent.next && flow.room() {
                let index = flow.next;
                let start = index as usize * CHUNK;
                let words = &self.total[start..(start + CHUNK).min(self.len)];
                let copy = || if self.plain { sparse::encode(words) } else { Bytes::copy_from_slice(words) };
                let data = copies.entry(index).or_insert_with(copy).clone();
                step.send(child, Message::Chunk { sum: self.sum, direction: Direction::Down, index, data });
                flow.next += 1;
            }
        }
        let sent = self.down.values().all(|flow| flow.next == chunks);
        let given = self.vector.is_some() || chunks == 0;
        if !self.finished && self.from_parent.next == chunks && sent && given {
            self.finished = true;
            self.vector = None;
            let digest = tag_total(&self.session, self.sum, self.digest.finalize());
            step.0.push(Action::WriteEarly(EarlyWrite::End(self.sum, digest)));
            step.output(Total { bytes: Bytes::from(std::mem::take(&mut self.total)), digest });
        }
    }
}

#[cfg(test)]
mod tests;
