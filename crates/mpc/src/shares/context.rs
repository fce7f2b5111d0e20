//! Context of a part of the program: its party and its streams.

use std::sync::Arc;

use zeroize::{Zeroize, Zeroizing};

use super::accounts::Place;
use super::proofs::log::Log;
use super::proofs::statements::Masks;
use super::round::{Line, Round, Side, Wire};
use super::{Ring, Shared};
use flyswarm_sealed_sum::crypto::stream::Stream;

/// Label of every stream between parties.
const LABEL: &str = "shares";
/// Number of words that are masked at once: their keystream stays in the first-level cache.
const BLOCK: usize = 512;

/// Stages of the program. The numbers are part of the labels of streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Stage {
    /// Checks of the input.
    Input = 1,
    /// Hamming distances.
    Distances = 2,
    /// Bits of the distances.
    Keys = 3,
    /// Search for the k nearest.
    Nearest = 4,
    /// Shuffled rows and opened edges.
    Compaction = 5,
    /// Weights of the edges.
    Weights = 6,
    /// Dense graph.
    Dense = 7,
    /// Reciprocals of degrees.
    Degrees = 8,
    /// Chebyshev steps.
    Propagation = 9,
    /// Labels and coarse scores.
    Output = 10,
    /// Disclosure control of pooled cells, in a program of its own.
    Cells = 11,
}

/// All stages of XCLP, in order.
pub const STAGES: [Stage; 10] = [
    Stage::Input,
    Stage::Distances,
    Stage::Keys,
    Stage::Nearest,
    Stage::Compaction,
    Stage::Weights,
    Stage::Dense,
    Stage::Degrees,
    Stage::Propagation,
    Stage::Output,
];

/// The two keys that a party holds: the key of its own number, shared with the party before it, and the
/// next key, shared with the party after it. A context binds every stream to one attempt.
#[derive(Clone)]
pub struct Keys {
    own: Zeroizing<[u8; 32]>,
    next: Zeroizing<[u8; 32]>,
    context: Vec<u8>,
    #[cfg(test)]
    pub(super) taped: super::tests::audit::Taped,
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Keys(<redacted>)")
    }
}

impl Keys {
    /// Makes the keys of a party. `context` names session, view and attempt, so no two of them get the
    /// same streams.
    #[must_use]
    pub fn new(own: [u8; 32], next: [u8; 32], context: &[u8]) -> Self {
        Self {
            own: Zeroizing::new(own),
            next: Zeroizing::new(next),
            context: context.to_vec(),
            #[cfg(test)]
            taped: super::tests::audit::Taped::default(),
        }
    }

    fn stream(&self, side: Side, label: &[u8]) -> Stream {
        let key = if side == Side::Before { &self.own } else { &self.next };
        Stream::new(&**key, LABEL, &[&self.context, label].concat())
    }
}

/// One part of the program at one party. The roles rotate with `turn`: party `turn` has role 0. Role 0 has
/// more work than the others, so parts with different turns give all parties the same load.
#[derive(Debug)]
pub struct Context {
    line: Line,
    keys: Arc<Keys>,
    party: usize,
    turn: usize,
    stage: Stage,
    chunk: u32,
    step: u32,
    /// Statements that are to be proved, if the program proves them.
    log: Option<Log>,
}

impl Context {
    /// Makes the context of the whole program at party 0, 1 or 2.
    #[must_use]
    pub fn new(line: Line, keys: Keys, party: usize) -> Self {
        Self {
            line,
            keys: Arc::new(keys),
            party: party % 3,
            turn: 0,
            stage: Stage::Input,
            chunk: 0,
            step: 0,
            log: None,
        }
    }

    /// Returns the context with a log of statements: the operations add the statements that their
    /// senders must prove.
    #[must_use]
    pub fn with_log(mut self, log: Log) -> Self {
        self.log = Some(log);
        self
    }

    /// Returns the log of statements.
    #[must_use]
    pub fn log(&self) -> Option<Log> {
        self.log.clone()
    }

    /// Enters a stage.
    pub fn enter(&mut self, stage: Stage) {
        self.stage = stage;
        let chunk = {
            let mut wire = self.wire();
            wire.mark(stage);
            wire.next_chunk()
        };
        self.chunk = chunk;
        self.step = 0;
    }

    /// Makes the context of a part that runs in parallel with others, with the roles rotated by `turn`.
    #[must_use]
    pub fn split(&self, turn: usize) -> Self {
        Self {
            line: self.line.clone(),
            keys: Arc::clone(&self.keys),
            party: self.party,
            turn: (self.turn + turn) % 3,
            stage: self.stage,
            chunk: self.wire().next_chunk(),
            step: 0,
            log: self.log.clone(),
        }
    }

    /// Returns a place of this part.
    #[must_use]
    pub fn place(&self, number: u32) -> Place {
        Place { chunk: self.chunk, number }
    }

    /// Returns the role of this party in this part.
    #[must_use]
    pub fn role(&self) -> usize {
        (self.party + 3 - self.turn) % 3
    }

    /// Returns the wire of this party. It must not be held over a round.
    pub fn wire(&self) -> std::sync::MutexGuard<'_, Wire> {
        self.line.wire()
    }

    /// Returns the tape of a test.
    #[cfg(test)]
    pub(super) fn tape(&self) -> super::tests::audit::Tape {
        self.keys.taped.tape
    }

    /// Notes the kind and length of the next message.
    #[cfg(test)]
    pub(super) fn label(&self, what: &'static str, to: Side, len: usize) {
        self.wire().label(what, self.chunk, to, len);
    }

    /// Returns a future that waits for the end of this round.
    #[must_use]
    pub fn round(&self) -> Round {
        self.line.round()
    }

    /// Sends words to a neighbour in this round.
    pub fn send<T: Ring>(&self, to: Side, words: &[T]) {
        self.wire().send(to, words);
    }

    /// Returns the next words that a neighbour sent in the last round.
    #[must_use]
    pub fn receive<T: Ring>(&self, from: Side, len: usize) -> Vec<T> {
        self.wire().receive(from, len)
    }

    /// Returns the label of the next draws. All parties take a step if one of them draws.
    pub fn step(&mut self) -> Step {
        self.step += 1;
        let mut label = [0; 12];
        label[0] = self.stage as u8;
        label[1] = self.turn as u8;
        label[2..6].copy_from_slice(&self.chunk.to_le_bytes());
        label[6..10].copy_from_slice(&self.step.to_le_bytes());
        Step { line: self.line.clone(), keys: Arc::clone(&self.keys), label }
    }

    /// Returns this party's shares of a public number. Share 0, at role 0, is the number; the other
    /// shares are 0.
    #[must_use]
    pub fn public<T: Ring>(&self, words: &[T]) -> Shared<T> {
        let zeros = || vec![T::default(); words.len()];
        match self.role() {
            0 => Shared { own: words.to_vec(), next: zeros() },
            2 => Shared { own: zeros(), next: words.to_vec() },
            _ => Shared { own: zeros(), next: zeros() },
        }
    }

    /// Returns shares of x + c for a public c.
    #[must_use]
    pub fn plus<T: Ring>(&self, mut shared: Shared<T>, c: T) -> Shared<T> {
        match self.role() {
            0 => shared.own.iter_mut().for_each(|x| *x = x.add(c)),
            2 => shared.next.iter_mut().for_each(|x| *x = x.add(c)),
            _ => {}
        }
        shared
    }
}

/// Streams of one step. Each key is used once.
#[derive(Debug)]
pub struct Step {
    line: Line,
    keys: Arc<Keys>,
    label: [u8; 12],
}

impl Step {
    /// Returns the stream that this party shares with a neighbour.
    pub fn stream(&self, side: Side) -> Stream {
        let mut label = self.label;
        label[10] = side as u8;
        self.line.wire().note(label);
        self.unnoted(side)
    }

    /// Returns the stream without an entry in the ledger of draws.
    fn unnoted(&self, side: Side) -> Stream {
        #[cfg(test)]
        if let Some(stream) = self.keys.taped.stream(side, &self.label[..10], self.line.wire().rounds()) {
            return stream;
        }
        // The label does not contain the side, because the other holder of the key holds it on the
        // opposite side.
        self.keys.stream(side, &self.label[..10])
    }

    /// Draws the same words as [`Step::draw`] once more. They must not mask anything else.
    #[must_use]
    pub fn draw_again<T: Ring>(&self, side: Side, len: usize) -> Vec<T> {
        let mut words = vec![T::default(); len];
        blend(&mut self.unnoted(side), &mut words, |_, mask| mask);
        words
    }

    /// Draws words that the neighbour draws too.
    #[must_use]
    pub fn draw<T: Ring>(&self, side: Side, len: usize) -> Vec<T> {
        let mut words = vec![T::default(); len];
        blend(&mut self.stream(side), &mut words, |_, mask| mask);
        words
    }

    /// Masks words as [`Step::mask`] does, and returns the masks.
    #[must_use]
    pub fn masks<T: Ring>(&self, words: &mut [T]) -> Masks<T> {
        let [before, after] = [Side::Before, Side::After].map(|side| self.draw::<T>(side, words.len()));
        let masks = before.iter().zip(&after);
        #[cfg(test)]
        let bare = words.to_vec();
        words.iter_mut().zip(masks).for_each(|(word, (&a, &b))| *word = word.add(a).sub(b));
        #[cfg(test)]
        self.keys.taped.bare(words, &bare);
        Masks { before, after }
    }

    /// Adds this party's part of a sum of zero: the words that it draws with the neighbour before it,
    /// minus those that it draws with the neighbour after it.
    pub fn mask<T: Ring>(&self, words: &mut [T]) {
        #[cfg(test)]
        let before = words.to_vec();
        let (mut own, mut next) = (self.stream(Side::Before), self.stream(Side::After));
        for block in words.chunks_mut(BLOCK) {
            blend(&mut own, block, T::add);
            blend(&mut next, block, T::sub);
        }
        #[cfg(test)]
        self.keys.taped.bare(words, &before);
    }
}

/// Combines each word with the next word of a stream.
pub fn blend<T: Ring>(stream: &mut Stream, words: &mut [T], combine: impl Fn(T, T) -> T) {
    let mut bytes = [0u8; 8 * BLOCK];
    for block in words.chunks_mut(BLOCK) {
        let bytes = &mut bytes[..block.len() * T::BYTES];
        stream.fill(bytes);
        for (word, mask) in block.iter_mut().zip(bytes.chunks_exact(T::BYTES)) {
            *word = combine(*word, T::read(mask));
        }
    }
    // Wipe only the used bytes, because wiping takes longer than drawing.
    let used = bytes.len().min(words.len() * T::BYTES);
    bytes[..used].zeroize();
}
