//! Secure Hamming distances by homomorphic encryption (spec, section 15c, `phe`): the paper's second method.
//! Here, many bits are packed into a ciphertext ([`flyswarm_mpc::phe`]) instead of one.
//!
//! The owner with fewer rows (in a tie the earlier) is the *holder* of a key. It encrypts its rows, in groups
//! of 512, and sends them to the other owner, the *evaluator*. For each row b of the evaluator and each
//! group, the holder gets an answer. For each row a of the holder, the answer has x, the inner product of a
//! and b plus a mask, mod 2^15. The holder's share of the distance is |a| - 2 x, and the evaluator's share is
//! |b| + 2 mask. They are shares mod 2^16, because 2 (x mod 2^15) is 2 x mod 2^16.

use std::ops::Range;

use bytes::Bytes;

use super::ones;
use crate::sketch::lsh::Codes;
use flyswarm_mpc::phe::{Holder, Layout, MAX_STRIDE, Public};

/// How the holder's rows are divided into groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Groups {
    /// Rows of the holder.
    pub holder: usize,
    /// Rows of the evaluator.
    pub evaluator: usize,
    /// Bits of a code.
    pub bits: usize,
}

impl Groups {
    /// Returns the number of groups of the holder's rows.
    #[must_use]
    pub fn count(&self) -> usize {
        self.holder.div_ceil(MAX_STRIDE)
    }

    /// Returns the holder's rows of a group.
    #[must_use]
    pub fn rows(&self, group: usize) -> Range<usize> {
        (group * MAX_STRIDE).min(self.holder)..((group + 1) * MAX_STRIDE).min(self.holder)
    }

    /// Returns the layout of a group's rows in ciphertexts: the layout of the first group, with the number of
    /// rows of this group.
    #[must_use]
    pub fn layout(&self, group: usize) -> Layout {
        Layout { rows: self.rows(group).len(), ..Layout::new(self.holder.min(MAX_STRIDE), self.bits) }
    }

    /// Returns the numbers of a group's ciphertexts.
    #[must_use]
    pub fn ciphertexts(&self, group: usize) -> Range<usize> {
        let each = self.layout(0).ciphertexts();
        group * each..(group + 1) * each
    }

    /// Returns the numbers of a group's answers, one for each row of the evaluator.
    #[must_use]
    pub fn answers(&self, group: usize) -> Range<usize> {
        group * self.evaluator..(group + 1) * self.evaluator
    }
}

/// Returns ciphertext `number`.
#[must_use]
pub fn encrypt(holder: &Holder, groups: Groups, number: usize, codes: &Codes) -> Vec<u8> {
    let group = number / groups.layout(0).ciphertexts();
    let rows: Vec<&[u64]> = groups.rows(group).map(|row| codes.row(row)).collect();
    let index = number - groups.ciphertexts(group).start;
    holder.encrypt(groups.layout(group), (wire(number), index), &rows)
}

/// Returns the answers to a group for some rows of the evaluator, and the masks in them, or `None` if a
/// ciphertext is invalid.
#[must_use]
pub fn answers(
    public: &Public,
    groups: Groups,
    (group, ciphertexts): (usize, &[Bytes]),
    (codes, rows): (&Codes, Range<usize>),
    secret: &[u8; 32],
) -> Option<Vec<(Vec<u8>, Vec<u16>)>> {
    let first = (groups.answers(group).start + rows.start) as u64;
    let rows: Vec<&[u64]> = rows.map(|row| codes.row(row)).collect();
    let start = wire(groups.ciphertexts(group).start);
    public.answers(groups.layout(group), (start, ciphertexts), &rows, (secret, first))
}

/// Returns the holder's shares of the distances between its rows and one row of the evaluator, computed from
/// the decrypted words.
pub fn holder_share(codes: &Codes, rows: Range<usize>, opened: &[u16]) -> impl Iterator<Item = u16> {
    rows.zip(opened).map(|(row, x)| ones(codes.row(row)).wrapping_sub(x.wrapping_mul(2)))
}

/// Returns the evaluator's shares of the distances, computed from its masks.
pub fn evaluator_share(code: &[u64], masks: &[u16]) -> impl Iterator<Item = u16> {
    let ones = ones(code);
    masks.iter().map(move |mask| ones.wrapping_add(mask.wrapping_mul(2)))
}

/// Converts the number of a ciphertext or answer. Both sides have at most 2^16 rows, so the numbers fit.
fn wire(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
