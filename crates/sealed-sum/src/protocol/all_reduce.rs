//! Pipelined sum on the tree (spec, section "All-reduce").
//!
//! A vector is cut into chunks of [`CHUNK`] bytes. A peer sends chunk `i` to its parent when its own part
//! of the chunk is masked and the parts of all its children are added. The root sends each chunk down
//! again as soon as it is complete. So the total travels down while later chunks still travel up.
//!
//! At most [`WINDOW`] chunks per edge and direction are unacknowledged. A credit acknowledges all
//! chunks up to its index. A peer masks its own chunk in a buffer, adds its children's chunks there,
//! and sends the complete buffer without a copy. The total is written once, front to back.
//!
//! A peer masks its own chunks, and acknowledges its children's chunks, at most `LOOKAHEAD` chunks
//! ahead of the next chunk to leave. So a sum needs little memory in addition to the vector and the
//! total.

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
/// Number of chunks that one message acknowledges. It is large enough that acknowledgements cost little, and
/// small enough that the sender does not have to stop.
pub const CREDIT: u32 = WINDOW as u32 / 2;
/// Largest number of chunks of this peer's own vector that are masked at once.
const MASKING: usize = 4;
/// Number of chunks by which a child or this peer's own masking may run ahead of the next chunk to leave:
/// one window.
const LOOKAHEAD: u32 = WINDOW as u32;

/// Direction in which data travels: towards the root or away from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Direction {
    /// Partial sums, to the parent.
    Up,
    /// Totals, to the children.
    Down,
}

/// Message on an edge of the tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// Chunk `index` of the partial sum (up) or of the sealed total (down). Bulk channel.
    Chunk {
        /// Sum.
        sum: SumId,
        /// Direction.
        direction: Direction,
        /// Number of the chunk, from 0, in order.
        index: u32,
        /// [`CHUNK`] bytes, or the rest in the last chunk. In a sum without masks, the pairs of the chunk
        /// ([`sparse`]).
        #[serde(skip)]
        data: Bytes,
    },
    /// Acknowledgement of all chunks up to `index` that travelled in `direction`. Control channel.
    Credit {
        /// Sum.
        sum: SumId,
        /// Direction of the acknowledged chunks.
        direction: Direction,
        /// Index of the last acknowledged chunk.
        index: u32,
    },
}

/// Job that masks one chunk of this peer's own vector.
#[derive(Clone)]
pub struct Job {
    /// Sum.
    pub sum: SumId,
    /// Number of the chunk.
    pub index: u32,
    /// Whole vector.
    pub vector: Bytes,
    /// Streams to add and subtract.
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

/// Masked chunk.
#[derive(Clone, Debug)]
pub struct Done {
    /// Sum.
    pub sum: SumId,
    /// Number of the chunk.
    pub index: u32,
    /// Masked words.
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

/// Sealed total, the same at every member.
#[derive(Clone, Debug)]
pub struct Total {
    /// Words, still hidden by the pads.
    pub bytes: Bytes,
    /// Digest, see [`total_digest`].
    pub digest: [u8; 32],
}

/// Returns SHA-256(tag "total" || session id || ballot || slot || BLAKE3(bytes)). BLAKE3 is fast, and
/// every member hashes every total.
#[must_use]
pub fn total_digest(session: &[u8; 32], sum: SumId, bytes: &[u8]) -> [u8; 32] {
    tag_total(session, sum, blake3::hash(bytes))
}

fn tag_total(session: &[u8; 32], sum: SumId, content: blake3::Hash) -> [u8; 32] {
    let place = tagged_hash("total").chain_update(session).chain_update(sum.to_bytes());
    place.chain_update(content.as_bytes()).finalize().into()
}

/// Chunks that one neighbour has sent or received.
#[derive(Clone, Debug, Default)]
struct Flow {
    /// Next index in order.
    next: u32,
    /// Next index to be acknowledged.
    acknowledged: u32,
}

impl Flow {
    fn room(&self) -> bool {
        ((self.next - self.acknowledged) as usize) < WINDOW
    }

    /// Returns the index to acknowledge, if enough chunks below `until` were taken to be worth a message.
    fn credit(&mut self, until: u32) -> Option<u32> {
        let until = self.next.min(until);
        if until.saturating_sub(self.acknowledged) < CREDIT {
            return None;
        }
        self.acknowledged = until;
        Some(until - 1)
    }
}

/// Chunk that is not complete.
#[derive(Clone, Debug, Default)]
struct Partial {
    /// This peer's own part, with the parts that were added to it.
    sum: Option<Buffer>,
    /// Children's parts, until the own part is masked.
    waiting: Vec<Bytes>,
    /// Number of parts that have come.
    parts: usize,
}

/// Machine of one sum at one member.
#[derive(Clone, Debug)]
pub struct AllReduce {
    sum: SumId,
    word: Word,
    /// True if vectors have no masks and chunks travel as pairs.
    plain: bool,
    place: Place,
    len: usize,
    /// Number of parts: those of this peer and of its children.
    parts: usize,
    /// Incomplete chunks with at least one part.
    partial: BTreeMap<u32, Partial>,
    vector: Option<(Bytes, Arc<Masks>)>,
    /// Memory for masking chunks.
    buffers: Buffers,
    own_next: u32,
    own_working: usize,
    /// Chunks taken from and acknowledged to each child.
    from_children: BTreeMap<Peer, Flow>,
    up: Flow,
    down: BTreeMap<Peer, Flow>,
    /// Chunks of the total taken from and acknowledged to the parent. At the root, the complete chunks.
    from_parent: Flow,
    /// Bytes of the total.
    total: Vec<u8>,
    session: [u8; 32],
    digest: blake3::Hasher,
    finished: bool,
}

impl Machine for AllReduce {
    crate::protocol::machine_types!(Message, Never, Job => Done, Never, Total);

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
    /// Makes a sum of vectors of this aggregate. Nothing is sent before [`AllReduce::contribute`].
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
    /// If the vector does not have the agreed length, which is a bug of the node.
    pub fn contribute(&mut self, vector: Bytes, masks: Arc<Masks>) -> Step<Self> {
        assert_eq!(vector.len(), self.len, "BUG: own vector has the wrong length");
        self.vector = Some((vector, masks));
        let mut step = Step::none();
        self.advance(&mut step);
        step
    }

    /// Returns whether the whole total has arrived.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.from_parent.next == self.chunks()
    }

    /// Returns a child whose next chunk this peer needs before it can continue.
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

    /// Returns the next chunk to leave: to the parent, or into the total at the root.
    fn leaving(&self) -> u32 {
        if self.place.parent.is_some() { self.up.next } else { self.from_parent.next }
    }

    /// Adds this peer's own masked part of chunk `index`.
    fn add_own(&mut self, index: u32, mut sum: Buffer) {
        let partial = self.partial.entry(index).or_default();
        partial.waiting.drain(..).for_each(|child| mask::add(self.word, sum.bytes_mut(), &child));
        partial.sum = Some(sum);
        partial.parts += 1;
    }

    /// Adds a child's part of chunk `index`.
    fn add_child(&mut self, index: u32, data: Bytes) {
        let partial = self.partial.entry(index).or_default();
        match &mut partial.sum {
            Some(sum) => mask::add(self.word, sum.bytes_mut(), &data),
            None => partial.waiting.push(data),
        }
        partial.parts += 1;
    }

    /// Takes chunk `index` if it has all parts.
    fn complete(&mut self, index: u32) -> Option<Bytes> {
        let parts = self.parts;
        match self.partial.entry(index) {
            Entry::Occupied(entry) if entry.get().parts == parts => entry.remove().sum.map(Buffer::freeze),
            _ => None,
        }
    }

    /// Returns a chunk in its wire format.
    fn travelling(&self, words: Bytes) -> Bytes {
        if self.plain { sparse::encode(&words) } else { words }
    }

    /// Adds the next chunk of the total.
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
                        // A child must stay within its window.
                        let flow = self.from_children.get_mut(&from).filter(|flow| flow.room());
                        flow.ok_or(Fault::OutOfOrder("chunk"))?.next += 1;
                        self.add_child(index, words);
                    }
                    Direction::Down => {
                        // A chunk's total exists only after this peer's partial sum of the chunk has
                        // left.
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

    /// Sends a chunk of the total unchanged to the children that have received all chunks before it.
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

    /// Does everything that has become possible.
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
        // Sends chunks to children whose window was full when the chunks came. Children at the same chunk
        // share one copy of it.
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
