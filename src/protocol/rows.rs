//! Row sums: a sum whose every block opens for its owner alone (SecureRowSums; Scott, Yeo & Lampert,
//! *Cross-client Label Propagation*, TMLR 2023, section 3.2; spec, section "Row sums").
//!
//! The vector of a [`Kind::Rows`](super::context::Kind::Rows) is divided in blocks, one for each peer of the
//! roster. Member j masks its vector like any other, then takes its own block out of it, keeps that and sends
//! zeros in its place. So block j of the total lacks what j put on it:
//!
//! ```text
//! opened[R_j] = Z[R_j] - kept_j,    kept_j = Z_j[R_j] + M_j[R_j] + (its pad, if j is a dealer)
//! ```
//!
//! Z is the sum of all vectors, M_j the pairwise masks of j, which cancel against those of all its partners
//! together. The opening takes *every* pad off *every* block. In block j that of j is not there to be taken
//! off, and is left with a minus; but j put it on what it kept, so it cancels when j adds that: to whom the
//! pads belong makes no difference, and what all members hold and open is one vector as in any other sum. To
//! everybody else block j is uniform as long as one partner of j does not tell its key; all of them together
//! know the sum of it without j's part, as the others of any sum know it (above 64 members the partners are
//! fewer: the chance that all of some peer's collude is the same 2^-40 under which the ordinary sum hides
//! that peer's vector, so the sparse graph serves both).
//!
//! No task of this crate sums so: XCLP's answers reach their owner from two computing parties alone, whose
//! shares add up without a tree. It is there for tasks of others; `examples/row-sum.rs` is one.
//!
//! The blocks of peers that are not in the view are set to zero *before* masking: nobody keeps them back, and
//! they would open for all.
//!
//! What a member keeps is on disk before it says that it holds the total, without which nothing can be
//! decided: whoever was in the view that the council decides on, however late, opens its block from it. A
//! member that is lost before ends the view, and the next one has fresh masks and does not count it; one that
//! is lost later has its block when it returns, or if it never does is the only one to miss anything.

use std::ops::Range;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::all_reduce::SumId;
use super::context::Quantity;
use crate::crypto::mask::{self, Word};
use crate::session::Peer;

/// The changes of one member to its vector beside masking it, as ranges of bytes; none where the quantity is
/// no row sum.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cut {
    own: Range<usize>,
    /// Blocks of the roster's peers outside the view.
    absent: Vec<Range<usize>>,
}

impl Cut {
    /// For `me` in a view of `members` (ascending).
    #[must_use]
    pub(crate) fn new(quantity: &Quantity, me: Peer, members: &[Peer]) -> Self {
        let absent = quantity.owners().filter(|peer| members.binary_search(peer).is_err());
        Self { own: quantity.block(me), absent: absent.map(|peer| quantity.block(peer)).collect() }
    }

    /// Bytes of the member's own block.
    #[must_use]
    pub(crate) fn kept(&self) -> usize {
        self.own.len()
    }

    /// Before masking: what nobody keeps back must not open for all. `start` is where the chunk begins in the
    /// vector.
    pub(crate) fn blank(&self, chunk: &mut [u8], start: usize) {
        for block in &self.absent {
            let range = within(block, start, chunk.len());
            chunk[range].fill(0);
        }
    }

    /// After masking: takes the part of the own block that lies in the chunk.
    pub(crate) fn take(&self, chunk: &mut [u8], start: usize) -> Piece {
        let range = within(&self.own, start, chunk.len());
        if range.is_empty() {
            return Piece::default();
        }
        let bytes = Zeroizing::new(chunk[range.clone()].to_vec());
        let at = start + range.start - self.own.start;
        chunk[range].fill(0);
        Piece { at, bytes }
    }
}

/// The part of `block` in a chunk of `len` bytes that begins at `start`, seen from there.
fn within(block: &Range<usize>, start: usize, len: usize) -> Range<usize> {
    let place = |at: usize| at.saturating_sub(start).min(len);
    place(block.start)..place(block.end)
}

/// A part of a block that is being taken.
#[derive(Clone, Default)]
pub(crate) struct Piece {
    /// The place in the block at which it begins.
    at: usize,
    bytes: Zeroizing<Vec<u8>>,
}

impl std::fmt::Debug for Piece {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Piece({} bytes, <redacted>)", self.bytes.len())
    }
}

/// A member's own block, masked, as it comes chunk by chunk in any order.
#[derive(Clone, Default)]
pub(crate) struct Keeping(Zeroizing<Vec<u8>>);

impl std::fmt::Debug for Keeping {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Keeping(<redacted>)")
    }
}

impl Keeping {
    /// A block of so many bytes.
    #[must_use]
    pub(crate) fn new(len: usize) -> Self {
        Self(Zeroizing::new(vec![0; len]))
    }

    /// Test only: of these bytes.
    #[cfg(test)]
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self(Zeroizing::new(bytes.to_vec()))
    }

    /// Puts a piece in its place.
    pub(crate) fn put(&mut self, piece: &Piece) {
        self.0[piece.at..piece.at + piece.bytes.len()].copy_from_slice(&piece.bytes);
    }

    /// The whole block; `None` where there is none.
    #[must_use]
    pub(crate) fn finish(self, sum: SumId) -> Option<Kept> {
        (!self.0.is_empty()).then(|| Kept::new(sum, self.0))
    }
}

/// The words that a member has kept back of a sum: with the opened total they give the member's block.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// The sum: each view has masks of its own.
    pub sum: SumId,
    /// SHA-256 of the block.
    pub digest: [u8; 32],
    #[serde(skip)]
    block: Bytes,
}

impl std::fmt::Debug for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Kept({:?}, <redacted>)", self.sum)
    }
}

impl Kept {
    fn new(sum: SumId, block: Zeroizing<Vec<u8>>) -> Self {
        Self { sum, digest: Sha256::digest(&*block).into(), block: Bytes::from_owner(block) }
    }

    /// The masked block.
    #[must_use]
    pub fn block(&self) -> &[u8] {
        &self.block
    }

    /// The same with its block, as read from disk.
    #[must_use]
    pub fn with_block(self, block: Bytes) -> Self {
        Self { block: Bytes::from_owner(Zeroizing::new(Vec::from(block))), ..self }
    }

    /// Whether the block is the one that was written, of `len` bytes.
    #[must_use]
    pub fn sound(&self, len: usize) -> bool {
        self.block.len() == len && Sha256::digest(&self.block)[..] == self.digest
    }

    /// The block of the sum itself, given that of the opened total.
    fn open(&self, word: Word, opened: &[u8]) -> Part {
        let mut words = Zeroizing::new(opened.to_vec());
        mask::add(word, &mut words, &self.block);
        Part(Bytes::from_owner(words))
    }
}

/// A peer's own block of a row sum: nobody else has it. Its memory is wiped.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Part(Bytes);

impl std::fmt::Debug for Part {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Part({} bytes, <redacted>)", self.0.len())
    }
}

impl Part {
    /// The words, little-endian.
    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        &self.0
    }
}

/// Why a peer has no block of a sum that is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Missing {
    /// Its rows do not count: it was lost before, or came after.
    #[error("this peer was not in the view that was summed")]
    Absent,
    /// It was in it, and its storage was not the one that it has now.
    #[error("what this peer kept of the sum is not in its state any more, and nobody else has it")]
    Lost,
}

/// The block of `me` of a row sum that opened to `opened` over `members`.
pub(crate) fn part(
    quantity: &Quantity,
    me: Peer,
    members: &[Peer],
    kept: Option<&Kept>,
    opened: &[u8],
) -> Result<Part, Missing> {
    if members.binary_search(&me).is_err() {
        return Err(Missing::Absent);
    }
    let block = quantity.block(me);
    match kept {
        _ if block.is_empty() => Ok(Part::default()),
        Some(kept) if kept.block.len() == block.len() => Ok(kept.open(quantity.word(), &opened[block])),
        _ => Err(Missing::Lost),
    }
}

#[cfg(test)]
mod tests;
