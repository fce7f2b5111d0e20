//! Masks in Z_{2^w}: words of w = 32, 64 or 512 bits, little-endian, added mod 2^w.
//!
//! Two peers that share a key add the same keystream, one with plus and one with minus. So the masks of
//! all pairs cancel in the sum (Bonawitz et al., "Practical Secure Aggregation", CCS 2017, section 4).
//!
//! A sum is only correct if it does not wrap: with p peers and values of at most v, p v < 2^w must hold.
//! [`capacity`] returns the largest v:
//!
//! | word | 3 peers | 64 peers | 1,024 peers |
//! | --- | --- | --- | --- |
//! | 32 bits | 1,431,655,765 | 67,108,863 | 4,194,303 |
//! | 64 bits | 6.1 10^18 | 2.8 10^17 | 1.8 10^16 |
//!
//! Words of 512 bits ([`Wide`]) hold sums that need more than 64 bits. If such a sum were split into
//! several words, it would show the carries between the peers' parts, and these reveal more than the
//! sum.

use std::borrow::BorrowMut;

use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::stream::Stream;

/// Bytes of keystream that are made at a time. Together with the same amount of the vector they fit into a
/// first-level cache of 32 KiB.
const PIECE: usize = 8 * 1024;

/// Ring of the words of vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Word {
    /// Z_{2^32}
    W32,
    /// Z_{2^64}
    W64,
    /// Z_{2^512}
    W512,
}

/// Bytes of a [`Wide`] word.
const WIDE: usize = 64;

/// Word of Z_{2^512}: eight limbs, the lowest first. Negative numbers are in two's complement.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wide([u64; WIDE / 8]);

impl Wide {
    /// Returns the words in these bytes. An incomplete word at the end is ignored.
    #[must_use]
    pub fn all(bytes: &[u8]) -> Vec<Self> {
        bytes.as_chunks().0.iter().map(|&bytes| Self::from_le_bytes(bytes)).collect()
    }

    /// Returns the bytes of these words.
    #[must_use]
    pub fn bytes(words: &[Self]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// Makes a word from its bytes, the lowest first.
    #[must_use]
    pub fn from_le_bytes(bytes: [u8; WIDE]) -> Self {
        let mut limbs = [0; WIDE / 8];
        for (limb, bytes) in limbs.iter_mut().zip(bytes.as_chunks().0) {
            *limb = u64::from_le_bytes(*bytes);
        }
        Self(limbs)
    }

    /// Returns the bytes of the word, the lowest first.
    #[must_use]
    pub fn to_le_bytes(self) -> [u8; WIDE] {
        let mut bytes = [0; WIDE];
        for (bytes, limb) in bytes.as_chunks_mut().0.iter_mut().zip(self.0) {
            *bytes = limb.to_le_bytes();
        }
        bytes
    }

    /// Adds mod 2^512.
    #[must_use]
    pub fn wrapping_add(self, other: Self) -> Self {
        self.carried(other.0, 0)
    }

    /// Subtracts mod 2^512.
    #[must_use]
    pub fn wrapping_sub(self, other: Self) -> Self {
        self.carried(other.0.map(|limb| !limb), 1)
    }

    fn carried(mut self, other: [u64; WIDE / 8], mut carry: u128) -> Self {
        for (a, b) in self.0.iter_mut().zip(other) {
            carry += u128::from(*a) + u128::from(b);
            *a = carry as u64;
            carry >>= 64;
        }
        self
    }
}

impl TryFrom<Wide> for u64 {
    type Error = Wide;

    /// # Errors
    /// The word itself if it has more than 64 bits.
    fn try_from(word: Wide) -> Result<Self, Wide> {
        match word.0 {
            [number, 0, 0, 0, 0, 0, 0, 0] => Ok(number),
            _ => Err(word),
        }
    }
}

impl From<u64> for Wide {
    fn from(number: u64) -> Self {
        Self([number, 0, 0, 0, 0, 0, 0, 0])
    }
}

impl Word {
    /// Returns the bytes of one word: 4, 8 or 64.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::W32 => 4,
            Self::W64 => 8,
            Self::W512 => WIDE,
        }
    }

    /// Returns the largest u64 that one word holds.
    #[must_use]
    pub const fn max(self) -> u64 {
        match self {
            Self::W32 => u32::MAX as u64,
            Self::W64 | Self::W512 => u64::MAX,
        }
    }
}

/// Sign of a mask at one of its two ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    /// The keystream is added.
    Add,
    /// The keystream is subtracted.
    Subtract,
}

/// Returns the largest value that each of `peers` may contribute to a sum that must not wrap: the largest
/// v with `peers * v < 2^w`. With one peer or none it is the largest word.
#[must_use]
pub const fn capacity(word: Word, peers: u64) -> u64 {
    let peers = if peers == 0 { 1 } else { peers };
    word.max() / peers
}

/// Returns the [`capacity`] for a sum with noise that is read as a signed number: the largest v with
/// `peers * v <= 2^(w - 2)`, which leaves half of the positive numbers to the noise.
#[must_use]
pub const fn noised_capacity(word: Word, peers: u64) -> u64 {
    let peers = if peers == 0 { 1 } else { peers };
    (word.max() / 4 + 1) / peers
}

/// Adds to `chunk`, or subtracts from it, the next `chunk.len()` bytes of the stream, word by word. A
/// vector may be split into chunks if they are given in order, or if the stream is moved to each chunk
/// ([`Stream::seek`]).
///
/// # Panics
/// If the length of `chunk` is not a multiple of the word.
pub fn apply(word: Word, sign: Sign, chunk: &mut [u8], stream: &mut Stream) {
    apply_all(word, chunk, &mut [(sign, stream)]);
}

/// Applies several streams like [`apply`]: each piece of the chunk is combined with all of them while it
/// is in the cache.
///
/// # Panics
/// If the length of `chunk` is not a multiple of the word.
pub fn apply_all<S: BorrowMut<Stream>>(word: Word, chunk: &mut [u8], streams: &mut [(Sign, S)]) {
    assert_whole(word, chunk);
    let mut keystream = Zeroizing::new([0; PIECE]);
    for piece in chunk.chunks_mut(PIECE) {
        let keystream = &mut keystream[..piece.len()];
        for (sign, stream) in &mut *streams {
            stream.borrow_mut().fill(keystream);
            match sign {
                Sign::Add => add(word, piece, keystream),
                Sign::Subtract => subtract(word, piece, keystream),
            }
        }
    }
}

/// Adds `from` to `into`, word by word, mod 2^w.
///
/// # Panics
/// If the lengths differ or are not a multiple of the word.
pub fn add(word: Word, into: &mut [u8], from: &[u8]) {
    assert_whole(word, into);
    assert_eq!(into.len(), from.len(), "vectors of different length");
    match word {
        Word::W32 => {
            words(into, from, |a, b| u32::from_le_bytes(a).wrapping_add(u32::from_le_bytes(b)).to_le_bytes())
        }
        Word::W64 => {
            words(into, from, |a, b| u64::from_le_bytes(a).wrapping_add(u64::from_le_bytes(b)).to_le_bytes())
        }
        Word::W512 => words(into, from, |a, b| {
            Wide::from_le_bytes(a).wrapping_add(Wide::from_le_bytes(b)).to_le_bytes()
        }),
    }
}

/// Subtracts `from` from `into`, word by word, mod 2^w.
fn subtract(word: Word, into: &mut [u8], from: &[u8]) {
    match word {
        Word::W32 => {
            words(into, from, |a, b| u32::from_le_bytes(a).wrapping_sub(u32::from_le_bytes(b)).to_le_bytes())
        }
        Word::W64 => {
            words(into, from, |a, b| u64::from_le_bytes(a).wrapping_sub(u64::from_le_bytes(b)).to_le_bytes())
        }
        Word::W512 => words(into, from, |a, b| {
            Wide::from_le_bytes(a).wrapping_sub(Wide::from_le_bytes(b)).to_le_bytes()
        }),
    }
}

/// Combines arrays of known size in a plain loop, which the compiler turns into vector instructions.
fn words<const N: usize>(into: &mut [u8], from: &[u8], sum: impl Fn([u8; N], [u8; N]) -> [u8; N]) {
    for (a, b) in into.as_chunks_mut::<N>().0.iter_mut().zip(from.as_chunks::<N>().0) {
        *a = sum(*a, *b);
    }
}

fn assert_whole(word: Word, vector: &[u8]) {
    let (length, bytes) = (vector.len(), word.bytes());
    assert!(length.is_multiple_of(bytes), "vector has {length} bytes, must be a multiple of {bytes}");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn vector(word: Word, values: &[u64]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()[..word.bytes()].to_vec()).collect()
    }

    fn word() -> impl Strategy<Value = Word> {
        prop_oneof![Just(Word::W32), Just(Word::W64)]
    }

    proptest! {
        #[test]
        fn the_masks_of_all_pairs_cancel_in_the_sum(
            word in prop_oneof![word(), Just(Word::W512)],
            peers in 2usize..8,
            length in 0usize..100,
            seed: u8,
        ) {
            // One sum of plain vectors and one of masked vectors must be exactly equal.
            let plain: Vec<Vec<u8>> = (0..peers)
                .map(|peer| {
                    let mut bytes = vec![0; length * word.bytes()];
                    Stream::new(&[seed], "values", &[peer as u8]).fill(&mut bytes);
                    bytes
                })
                .collect();
            let (mut expected, mut sum) = (vec![0; length * word.bytes()], vec![0; length * word.bytes()]);
            for (i, own) in plain.iter().enumerate() {
                add(word, &mut expected, own);
                let mut masked = own.clone();
                for j in 0..peers {
                    let pair = [i.min(j) as u8, i.max(j) as u8];
                    if i != j {
                        let sign = if i < j { Sign::Add } else { Sign::Subtract };
                        apply(word, sign, &mut masked, &mut Stream::new(&[seed], "pair", &pair));
                    }
                }
                prop_assert!(length == 0 || &masked != own);
                add(word, &mut sum, &masked);
            }
            prop_assert_eq!(sum, expected);
        }

        #[test]
        fn addition_is_that_of_the_integers_mod_2_to_the_w(word in word(), pairs: Vec<(u64, u64)>) {
            let (a, b): (Vec<u64>, Vec<u64>) = pairs.iter().copied().unzip();
            let mut sum = vector(word, &a);
            add(word, &mut sum, &vector(word, &b));
            let expected: Vec<u64> = pairs.iter().map(|(a, b)| a.wrapping_add(*b)).collect();
            prop_assert_eq!(sum, vector(word, &expected));
        }

        #[test]
        fn wide_words_carry_and_borrow_through_all_limbs(a: [u64; 8], b: [u64; 8], ones in 0usize..8) {
            let (mut a, b) = (a, Wide(b));
            a[..ones].fill(u64::MAX);
            let a = Wide(a);
            let mut carry = 0;
            let byte = |(a, b): (u8, u8)| {
                carry = u16::from(a) + u16::from(b) + (carry >> 8);
                carry as u8
            };
            let sum: Vec<u8> = a.to_le_bytes().into_iter().zip(b.to_le_bytes()).map(byte).collect();
            prop_assert_eq!(&a.wrapping_add(b).to_le_bytes()[..], &sum);
            prop_assert_eq!(a.wrapping_add(b).wrapping_sub(b), a);
            prop_assert_eq!(Wide::all(&Wide::bytes(&[a, b])), [a, b]);
        }

        #[test]
        fn the_capacity_is_the_largest_value_that_does_not_wrap(word in word(), peers in 1u64..=u64::MAX) {
            let value = capacity(word, peers);
            let limit = u128::from(word.max()) + 1;
            prop_assert!(u128::from(peers) * u128::from(value) < limit);
            prop_assert!(u128::from(peers) * (u128::from(value) + 1) >= limit);
        }

        #[test]
        fn with_noise_values_fill_at_most_a_quarter_of_the_ring(word in word(), peers in 1u64..=u64::MAX) {
            let value = noised_capacity(word, peers);
            let limit = (u128::from(word.max()) + 1) / 4;
            prop_assert!(u128::from(peers) * u128::from(value) <= limit);
            prop_assert!(u128::from(peers) * (u128::from(value) + 1) > limit);
        }
    }

    #[test]
    fn a_vector_masked_in_chunks_is_the_vector_masked_at_once() {
        let length = 3 * PIECE + 8;
        let mut whole = vec![7; length];
        apply(Word::W64, Sign::Add, &mut whole, &mut Stream::new(b"key", "mask", b""));
        let mut parts = vec![7; length];
        let mut stream = Stream::new(b"key", "mask", b"");
        for part in parts.chunks_mut(PIECE / 2 + 8) {
            apply(Word::W64, Sign::Add, part, &mut stream);
        }
        assert_eq!(whole, parts);
        let mut keystream = vec![0; length];
        Stream::new(b"key", "mask", b"").fill(&mut keystream);
        apply(Word::W64, Sign::Subtract, &mut whole, &mut Stream::new(b"key", "mask", b""));
        assert_eq!(whole, vec![7; length]);
        let mut zero = vec![0; length];
        apply(Word::W32, Sign::Add, &mut zero, &mut Stream::new(b"key", "mask", b""));
        assert_eq!(zero, keystream);
    }

    #[test]
    fn the_table_of_capacities_holds() {
        let row = |word| [3, 64, 1024].map(|peers| capacity(word, peers));
        assert_eq!(row(Word::W32), [1_431_655_765, 67_108_863, 4_194_303]);
        assert_eq!(row(Word::W64).map(|v| v / 100_000_000_000_000), [61_489, 2_882, 180]);
        assert_eq!(capacity(Word::W32, 0), u64::from(u32::MAX));
    }

    #[test]
    #[should_panic(expected = "vector has 6 bytes, must be a multiple of 4")]
    fn half_a_word_is_a_bug_of_the_caller() {
        apply(Word::W32, Sign::Add, &mut [0; 6], &mut Stream::new(b"", "", b""));
    }

    #[test]
    #[should_panic(expected = "vectors of different length")]
    fn vectors_of_different_length_are_a_bug_of_the_caller() {
        add(Word::W32, &mut [0; 8], &[0; 4]);
    }
}
