//! Secure Hamming distances with a dealt triple (spec, section 15c, `dealer`): after Beaver, "Efficient
//! multiparty protocols using circuit randomization", CRYPTO 1991, with matrices in place of numbers.
//!
//! Two owners hold codes A (n x L) and B (m x L), 0 or 1, and want additive shares mod 2^16 of the n x m
//! matrix of Hamming distances
//! |a| + |b| - 2 A B^T. The dealer, who holds neither, makes U and X from one seed and V from another and
//!
//! ```text
//! the left owner gets the first seed, and with it U (n x L) and X (n x m)
//! the right owner gets the second, and with it V (m x L), and Y = U V^T - X
//! left -> right: D = A - U       right -> left: E = B - V
//! left's share:  |a| - 2 (U E^T + X)         right's: |b| - 2 (D B^T + Y)
//! ```
//!
//! U E^T + X + D B^T + Y = A B^T. D and E are uniform to whoever does not have the seeds. A triple serves one
//! pair of owners in one view.

use std::array::from_fn;
use std::ops::RangeInclusive;
use std::sync::Arc;

use bytes::Bytes;
use zeroize::Zeroizing;

use super::desk::{Desk, Made};
use super::hamming::{Got, Pair, ones};
use super::{Exchange, ParcelKind, custody};
use crate::crypto::product::product;
use crate::crypto::stream::Stream;
use crate::protocol::Step;
use crate::session::Peer;
use crate::sketch::lsh::{Codes, WORD};

/// Words of a stream that are made at once.
const PIECE: usize = 4096;

/// The dealer's Y, left rows x right rows.
#[must_use]
pub fn deal(left: &[u8; 32], right: &[u8; 32], rows: (usize, usize), bits: usize) -> Vec<u16> {
    let (u, v) = (words(left, "triple", rows.0 * bits), words(right, "triple", rows.1 * bits));
    let mut y = product(&u, &v, bits);
    y.iter_mut().zip(words(left, "share", rows.0 * rows.1)).for_each(|(y, x)| *y = y.wrapping_sub(x));
    y
}

/// D or E, which an owner sends to the other.
#[must_use]
pub fn hide(codes: &Codes, seed: &[u8; 32]) -> Vec<u16> {
    let mut out = unpacked(codes);
    each_word(seed, "triple", &mut out, |bit, mask| *bit = bit.wrapping_sub(mask));
    out
}

/// The left owner's share, from E.
#[must_use]
pub fn left_share(codes: &Codes, seed: &[u8; 32], hidden: &[u16]) -> Vec<u16> {
    let bits = codes.bits();
    let mut out = product(&words(seed, "triple", codes.rows() * bits), hidden, bits);
    let columns = hidden.len() / bits;
    let x = words(seed, "share", out.len());
    for (row, (out, x)) in out.chunks_mut(columns.max(1)).zip(x.chunks(columns.max(1))).enumerate() {
        let ones = ones(codes.row(row));
        out.iter_mut()
            .zip(x)
            .for_each(|(out, x)| *out = ones.wrapping_sub(out.wrapping_add(*x).wrapping_mul(2)));
    }
    out
}

/// The right owner's share, from D and the dealer's Y; left rows x right rows as well.
#[must_use]
pub fn right_share(codes: &Codes, hidden: &[u16], dealt: &[u16]) -> Vec<u16> {
    let mut out = product(hidden, &unpacked(codes), codes.bits());
    let ones: Vec<u16> = (0..codes.rows()).map(|row| ones(codes.row(row))).collect();
    for (out, y) in out.chunks_mut(ones.len().max(1)).zip(dealt.chunks(ones.len().max(1))) {
        for ((out, y), ones) in out.iter_mut().zip(y).zip(&ones) {
            *out = ones.wrapping_sub(out.wrapping_add(*y).wrapping_mul(2));
        }
    }
    out
}

/// An owner's part in a block with a dealt triple.
pub(super) struct Dealt {
    other: Peer,
    seed: Option<Zeroizing<[u8; 32]>>,
    dealt: Option<Bytes>,
    theirs: Option<Bytes>,
    hidden: bool,
    begun: bool,
    share: Option<Vec<u16>>,
}

impl Dealt {
    pub(super) fn new(other: Peer) -> Self {
        Self { other, seed: None, dealt: None, theirs: None, hidden: false, begun: false, share: None }
    }
}

impl Pair for Dealt {
    fn expected(&self, desk: &Desk, from: Peer, what: ParcelKind) -> Option<RangeInclusive<usize>> {
        let (roles, me) = (&desk.setup.roles, desk.setup.me);
        let rows = |peer| roles.rows_of(peer);
        let dealer = roles.dealer(me, self.other) == from;
        let bytes = match what {
            ParcelKind::Triple(_) if dealer => 32,
            ParcelKind::Dealt(left) if dealer && left < me => 2 * rows(left) * rows(me),
            ParcelKind::Hidden => 2 * rows(from) * desk.setup.bits,
            _ => return None,
        };
        Some(bytes..=bytes)
    }

    fn parcel(&mut self, what: ParcelKind, data: Bytes) {
        match what {
            ParcelKind::Triple(_) => self.seed = data[..].try_into().ok().map(Zeroizing::new),
            ParcelKind::Dealt(_) => self.dealt = Some(data),
            _ => self.theirs = Some(data),
        }
    }

    fn made(&mut self, got: Got) {
        if let Got::Share(share) = got {
            self.share = Some(share);
        }
    }

    fn advance(&mut self, desk: &mut Desk, codes: Option<&Arc<Codes>>, step: &mut Step<Exchange>) {
        let (Some(codes), Some(seed)) = (codes, &self.seed) else { return };
        let (other, left, bits) = (self.other, desk.setup.me < self.other, desk.setup.bits);
        if !std::mem::replace(&mut self.hidden, true) {
            let (codes, seed) = (codes.clone(), seed.clone());
            desk.compute(codes.rows() * bits, step, move || {
                Made::Parcels(vec![(other, ParcelKind::Hidden, to_bytes(&hide(&codes, &seed)).into())])
            });
        }
        if self.begun || !(left || self.dealt.is_some()) {
            return;
        }
        let Some(theirs) = self.theirs.take() else { return };
        self.begun = true;
        let (codes, seed, dealt) = (codes.clone(), seed.clone(), self.dealt.take());
        desk.compute(theirs.len() * codes.rows(), step, move || {
            let theirs = from_bytes(&theirs);
            let share = match &dealt {
                Some(dealt) => {
                    custody::transposed(&right_share(&codes, &theirs, &from_bytes(dealt)), codes.rows())
                }
                None => left_share(&codes, &seed, &theirs),
            };
            Made::Pair(other, Ok(Got::Share(share)), Vec::new())
        });
    }

    fn waits(&self, desk: &Desk) -> Option<Peer> {
        let me = desk.setup.me;
        let dealt = self.seed.is_some() && (me < self.other || self.dealt.is_some());
        let waits = if dealt { self.other } else { desk.setup.roles.dealer(me, self.other) };
        (!self.begun).then_some(waits)
    }

    fn share(&mut self) -> Option<Vec<u16>> {
        self.share.take()
    }
}

/// Every bit as a word.
fn unpacked(codes: &Codes) -> Vec<u16> {
    let mut out = vec![0; codes.rows() * codes.bits()];
    let words = (0..codes.rows()).flat_map(|row| codes.row(row));
    for (out, word) in out.as_chunks_mut::<WORD>().0.iter_mut().zip(words) {
        *out = from_fn(|bit| (word >> bit & 1) as u16);
    }
    out
}

/// Uniform words, little-endian.
pub(super) fn words(seed: &[u8; 32], label: &str, count: usize) -> Vec<u16> {
    let mut out = vec![0; count];
    each_word(seed, label, &mut out, |out, word| *out = word);
    out
}

/// Gives every place its word of the stream, a piece at a time that stays in the first-level cache.
fn each_word(seed: &[u8; 32], label: &str, out: &mut [u16], put: impl Fn(&mut u16, u16)) {
    let mut stream = Stream::new(seed, label, &[]);
    let mut bytes = Zeroizing::new([0; 2 * PIECE]);
    for piece in out.chunks_mut(PIECE) {
        let bytes = &mut bytes[..2 * piece.len()];
        stream.fill(bytes);
        piece.iter_mut().zip(bytes.as_chunks().0).for_each(|(out, &word)| put(out, u16::from_le_bytes(word)));
    }
}

/// Words of 2 bytes, little-endian.
#[must_use]
pub fn from_bytes(bytes: &[u8]) -> Vec<u16> {
    bytes.as_chunks().0.iter().map(|&word| u16::from_le_bytes(word)).collect()
}

/// The bytes of words.
#[must_use]
pub fn to_bytes(words: &[u16]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn codes(rows: usize, bits: usize, salt: u8) -> Codes {
        let mut bytes = vec![0; rows * bits / 8];
        Stream::new(&[salt; 32], "test", &[]).fill(&mut bytes);
        Codes::from_words(bits, bytes.as_chunks().0.iter().map(|&word| u64::from_le_bytes(word)).collect())
            .unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn shares_add_up_to_the_plain_distances(n in 1usize..40, m in 1usize..40, words in 1usize..6, salt in 0u8..100) {
            let bits = words * WORD;
            let (a, b) = (codes(n, bits, salt), codes(m, bits, salt + 100));
            let (left, right) = ([salt; 32], [salt + 1; 32]);
            let y = deal(&left, &right, (n, m), bits);
            let (d, e) = (hide(&a, &left), hide(&b, &right));
            let sum: Vec<u16> = left_share(&a, &left, &e)
                .iter()
                .zip(right_share(&b, &d, &y))
                .map(|(x, y)| x.wrapping_add(y))
                .collect();
            prop_assert_eq!(sum, a.distances(&b));
        }
    }

    #[test]
    fn words_travel_as_little_endian_bytes() {
        assert_eq!(to_bytes(&[0x0102, 3]), [2, 1, 3, 0]);
        assert_eq!(from_bytes(&to_bytes(&[0x0102, 3])), [0x0102, 3]);
    }
}
