//! Galois rings of degree 49 over the integers mod 2^16 and 2^64: Z\[x\] / (x^49 + x^9 + 1).
//!
//! Loops have fixed lengths and do not read what they have just written, so that the compiler uses
//! vector instructions. They are `for` loops, because the compiler does not inline closures of
//! iterators everywhere.

use flyswarm_sealed_sum::crypto::stream::Stream;
use pulp::Arch;

use super::super::Ring;
use super::super::bits::transpose;
use super::super::primitives::LANES;
use super::extension::{Extension, vectorized};
use crate::lanes::{Lanes, Word, Work};

/// Degree of the rings.
pub const DEGREE: usize = 49;
/// Middle exponent of the modulus x^49 + x^9 + 1.
const MIDDLE: usize = 9;
/// Coefficients of a product, in whole blocks.
const PRODUCT: usize = 128;

/// Element of a Galois ring: its coefficients, lowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Galois<W>(pub [W; DEGREE]);

impl<W: Ring> Default for Galois<W> {
    fn default() -> Self {
        Self([W::default(); DEGREE])
    }
}

/// Words of such rings.
#[allow(private_bounds)]
pub trait Coefficient: Ring + Word {}

impl Coefficient for u16 {}
impl Coefficient for u64 {}

/// Sum of products of elements, not reduced.
struct Products<W>([W; PRODUCT]);

impl<W: Ring> Products<W> {
    #[inline(always)]
    fn new() -> Self {
        Self([W::default(); PRODUCT])
    }

    /// Returns the remainder: x^49 = -x^9 - 1.
    #[inline(always)]
    fn reduced(mut self) -> Galois<W> {
        // Coefficients 40 and more of the high part reach the high part again.
        for (from, to) in [(2 * DEGREE - MIDDLE, 2 * DEGREE - 1), (DEGREE, 2 * DEGREE - MIDDLE)] {
            let mut high = [W::default(); DEGREE];
            high[..to - from].copy_from_slice(&self.0[from..to]);
            for low in [from - DEGREE, from - DEGREE + MIDDLE] {
                for (low, &high) in self.0[low..].iter_mut().zip(&high[..to - from]) {
                    *low = low.sub(high);
                }
            }
        }
        let mut low = [W::default(); DEGREE];
        low.copy_from_slice(&self.0[..DEGREE]);
        Galois(low)
    }
}

impl<W: Ring> Galois<W> {
    /// Adds the product with a word.
    #[inline(always)]
    pub fn add_scaled(&mut self, other: &Self, word: W) {
        for at in 0..DEGREE {
            self.0[at] = self.0[at].add(other.0[at].mul(word));
        }
    }
}

impl<W: Coefficient> Extension for Galois<W> {
    type Word = W;
    const BYTES: usize = DEGREE * W::BYTES;
    const MASK: u64 = (1 << DEGREE) - 1;

    #[inline(always)]
    fn zero() -> Self {
        Self([W::default(); DEGREE])
    }
    #[inline(always)]
    fn exceptional(bits: u64) -> Self {
        Self(std::array::from_fn(|at| W::from_bits(bits >> at & 1)))
    }
    #[inline(always)]
    fn embed(word: W) -> Self {
        let mut element = Self::zero();
        element.0[0] = word;
        element
    }
    #[inline(always)]
    fn plus(mut self, other: Self) -> Self {
        for at in 0..DEGREE {
            self.0[at] = self.0[at].add(other.0[at]);
        }
        self
    }
    #[inline(always)]
    fn minus(mut self, other: Self) -> Self {
        for at in 0..DEGREE {
            self.0[at] = self.0[at].sub(other.0[at]);
        }
        self
    }
    fn differences(to: &mut [Self], a: &[Self], b: &[Self]) {
        vectorized(
            #[inline(always)]
            || {
                for (to, (a, b)) in to.iter_mut().zip(a.iter().zip(b)) {
                    for at in 0..DEGREE {
                        to.0[at] = a.0[at].sub(b.0[at]);
                    }
                }
            },
        )
    }
    fn times(self, other: Self) -> Self {
        Self::inner(&[self], &[other])
    }
    fn inner(a: &[Self], b: &[Self]) -> Self {
        let mut out = Self::zero();
        W::with(Arch::new(), Inner { a, b, out: &mut out });
        out
    }
    fn weighted(vectors: &[&[Self]], weights: &[Self], len: usize) -> Vec<Self> {
        let mut out = vec![Self::zero(); len];
        W::with(Arch::new(), Weighted { vectors, weights, out: &mut out });
        out
    }
    fn inverse(self) -> Self {
        // The inverse mod 2 is the power 2^49 - 2 (Fermat). Then each step of Newton doubles the number
        // of right bits.
        let odd = |x: Self| Self(x.0.map(|x| W::from_bits(x.bits() & 1)));
        let (mut power, mut inverse) = (odd(self), Self::embed(W::from_bits(1)));
        for _ in 1..DEGREE {
            power = odd(power.times(power));
            inverse = odd(inverse.times(power));
        }
        let two = Self::embed(W::from_bits(2));
        for _ in 0..6 {
            inverse = inverse.times(two.minus(self.times(inverse)));
        }
        inverse
    }
    fn draw(stream: &mut Stream) -> Self {
        let mut bytes = [0; 8 * DEGREE];
        let bytes = &mut bytes[..Self::BYTES];
        stream.fill(bytes);
        Self::read(bytes)
    }
    fn write(self, out: &mut Vec<u8>) {
        W::write_all(&self.0, out);
    }
    fn read(bytes: &[u8]) -> Self {
        let mut words = bytes.chunks_exact(W::BYTES).map(W::read);
        Self(std::array::from_fn(|_| words.next().unwrap_or_default()))
    }
}

/// Inner product of two vectors.
struct Inner<'a, W> {
    a: &'a [Galois<W>],
    b: &'a [Galois<W>],
    out: &'a mut Galois<W>,
}

impl<W: Coefficient> Work<W> for Inner<'_, W> {
    #[inline(always)]
    fn with<L: Lanes<W>>(self, lanes: L) {
        let pairs = self.a.iter().zip(self.b).map(|(a, b)| [&a.0, &b.0]);
        *self.out = Products(lanes.convolved(pairs)).reduced();
    }
}

/// Sum of weight times vector. Missing elements are zeros.
struct Weighted<'a, W> {
    vectors: &'a [&'a [Galois<W>]],
    weights: &'a [Galois<W>],
    out: &'a mut [Galois<W>],
}

impl<W: Coefficient> Work<W> for Weighted<'_, W> {
    #[inline(always)]
    fn with<L: Lanes<W>>(self, lanes: L) {
        for (at, out) in self.out.iter_mut().enumerate() {
            let pairs = self.vectors.iter().zip(self.weights);
            let pairs = pairs.filter_map(|(vector, weight)| Some([&vector.get(at)?.0, &weight.0]));
            *out = Products(lanes.convolved(pairs)).reduced();
        }
    }
}

/// Returns the sum of element times row, for rows of `width` words.
#[must_use]
pub fn combined<W: Coefficient>(elements: &[Galois<W>], rows: &[W], width: usize) -> Vec<Galois<W>> {
    // This number of sums fits into the first-level cache.
    const COLUMNS: usize = 32;
    vectorized(
        #[inline(always)]
        || {
            let mut sums = vec![Galois::zero(); width];
            for (block, sums) in sums.chunks_mut(COLUMNS).enumerate() {
                for (row, element) in rows.chunks_exact(width.max(1)).zip(elements) {
                    let words = &row[block * COLUMNS..];
                    for (sum, &word) in sums.iter_mut().zip(words) {
                        sum.add_scaled(element, word);
                    }
                }
            }
            sums
        },
    )
}

/// Returns the sum of element times word.
#[must_use]
pub fn scaled_sum<W: Coefficient>(elements: &[Galois<W>], words: impl Iterator<Item = W>) -> Galois<W> {
    vectorized(
        #[inline(always)]
        || {
            let mut sum = Galois::zero();
            for (element, word) in elements.iter().zip(words) {
                sum.add_scaled(element, word);
            }
            sum
        },
    )
}

/// Words of a vector of sums, in whole blocks on every machine.
pub(super) const BLOCK: usize = 32;

/// Sums of coin times word for up to 64 columns of words, for several rows of coins. The coins are the bits
/// of exceptional elements, so each coefficient is the sum of a subset of the words. Subsets of four words
/// are added up once for all coefficients (Arlazarov, Dinic, Kronrod & Faradzev, 1970).
pub(super) struct Subsets<'a, W> {
    /// Words, column after column. Each column has a multiple of [`BLOCK`] words.
    pub(super) words: &'a [W],
    /// Coins of the columns, for each row, as [`turned`] returns them.
    pub(super) coins: &'a [[u64; LANES]],
    /// Number of columns.
    pub(super) columns: usize,
    /// Sums: for each row of coins, for each coefficient, as many words as a column has.
    pub(super) sums: &'a mut [W],
}

/// Returns the words of a range of columns, column after column, with one word of each group.
pub(super) fn columns_of<W: Coefficient, T: Ring>(
    words: &[T],
    (groups, columns): (usize, usize),
    range: &std::ops::Range<usize>,
) -> Vec<W> {
    let mut out = vec![W::default(); range.len() * groups];
    for (at, group) in words.chunks(columns.max(1)).enumerate() {
        let group = &group[group.len().min(range.start)..group.len().min(range.end)];
        for (to, word) in out[at..].iter_mut().step_by(groups).zip(group) {
            *to = W::from_bits(word.bits());
        }
    }
    out
}

/// Returns the bits of up to 64 coins, coefficient after coefficient.
pub(super) fn turned(coins: &[u64]) -> [u64; LANES] {
    let mut bits = [0; LANES];
    bits[..coins.len()].copy_from_slice(coins);
    transpose(&mut bits);
    bits
}

impl<W: Coefficient> Subsets<'_, W> {
    /// Adds to the sums.
    pub(super) fn add(self) {
        W::with(Arch::new(), self);
    }
}

impl<W: Coefficient> Work<W> for Subsets<'_, W> {
    #[inline(always)]
    fn with<L: Lanes<W>>(self, lanes: L) {
        let none = lanes.store(lanes.zero());
        let mut tables = [[[none; 16]; 4]; LANES / 16];
        let tables = &mut tables[..self.columns.div_ceil(16)];
        let words = L::blocks(self.words).0;
        let vectors = words.len() / self.columns;
        for vector in 0..vectors {
            for (chunk, table) in tables.as_flattened_mut().iter_mut().enumerate() {
                for bit in 0..4 {
                    let word = words.get((chunk * 4 + bit) * vectors + vector).copied().unwrap_or(none);
                    for at in 0..1 << bit {
                        table[at + (1 << bit)] = lanes.plus(table[at], word);
                    }
                }
            }
            let sums = L::blocks_mut(self.sums).chunks_exact_mut(DEGREE * vectors);
            for (coins, sums) in self.coins.iter().zip(sums) {
                for (&coins, sums) in coins.iter().zip(sums.chunks_exact_mut(vectors)) {
                    let (mut coins, mut sum) = (coins, sums[vector]);
                    for tables in &*tables {
                        for (chunk, table) in tables.iter().enumerate() {
                            sum = lanes.plus(sum, table[(coins >> (4 * chunk) & 15) as usize]);
                        }
                        coins >>= 16;
                    }
                    sums[vector] = sum;
                }
            }
        }
    }
}

/// Appends the sum of weight times coin over all groups, for each column. The coins are the bits of
/// exceptional elements. Subsets of six weights are added up once for all columns.
pub fn append_coin_sums<W: Coefficient>(
    coins: &[u64],
    columns: usize,
    weights: &[Galois<W>],
    out: &mut Vec<Galois<W>>,
) {
    const CHUNK: usize = 6;
    // Coefficients of an element, and those of the sum of elements times powers of x^8, in whole vectors.
    const WIDE: usize = 56;
    const SUM: usize = WIDE + 48;
    vectorized(
        #[inline(always)]
        || {
            let mut tables = vec![[[W::default(); WIDE]; 1 << CHUNK]; weights.len().div_ceil(CHUNK)];
            for (table, weights) in tables.iter_mut().zip(weights.chunks(CHUNK)) {
                for (bit, weight) in weights.iter().enumerate() {
                    for at in 0..1 << bit {
                        let mut sum = table[at];
                        for (sum, &word) in sum.iter_mut().zip(&weight.0) {
                            *sum = sum.add(word);
                        }
                        table[at + (1 << bit)] = sum;
                    }
                }
            }
            for column in 0..columns {
                let mut of_column = [0; LANES];
                for (group, coin) in of_column[..weights.len()].iter_mut().enumerate() {
                    *coin = coins.get(group * columns + column).copied().unwrap_or_default();
                }
                transpose(&mut of_column);
                let mut product = Products::<W>::new();
                // Powers of x with the same remainder mod 8 begin at the same lane of a vector.
                for first in 0..8 {
                    let mut sum = [W::default(); SUM];
                    for (place, power) in (first..DEGREE).step_by(8).enumerate() {
                        let (mut chosen, mut subset) = (of_column[power], [W::default(); WIDE]);
                        for table in &tables {
                            let entry = &table[chosen as usize & ((1 << CHUNK) - 1)];
                            for (sum, &word) in subset.iter_mut().zip(entry) {
                                *sum = sum.add(word);
                            }
                            chosen >>= CHUNK;
                        }
                        for (sum, &word) in sum[8 * place..].iter_mut().zip(&subset) {
                            *sum = sum.add(word);
                        }
                    }
                    for (product, &word) in product.0[first..].iter_mut().zip(&sum) {
                        *product = product.add(word);
                    }
                }
                out.push(product.reduced());
            }
        },
    );
}

#[cfg(test)]
mod tests {
    use super::super::extension::draw_all;
    use super::*;
    use crate::lanes::machines;

    fn subsets_by_definition<W: Coefficient>() {
        let mut stream = Stream::new(&[6; 32], "subsets", &[]);
        let (rows, groups) = (3, BLOCK);
        for columns in [1, 3, 16, 17, 63, 64] {
            // The last group is short.
            let words: Vec<u64> = draw_all(&mut stream, groups * columns - columns / 2);
            let coins: Vec<Vec<u64>> = (0..rows).map(|_| draw_all(&mut stream, columns)).collect();
            let turned: Vec<_> = coins.iter().map(|coins| turned(coins)).collect();
            let by_column: Vec<W> = columns_of(&words, (groups, columns), &(0..columns));
            let one = W::from_bits(1);
            for machine in machines() {
                let mut sums = vec![one; rows * DEGREE * groups];
                let coins = &turned;
                W::with(machine, Subsets { words: &by_column, coins, columns, sums: &mut sums });
                for (place, &sum) in sums.iter().enumerate() {
                    let (row, i, at) = (place / groups / DEGREE, place / groups % DEGREE, place % groups);
                    let bit = |column: usize| W::from_bits(turned[row][i] >> column & 1);
                    let word = |column| W::from_bits(words.get(at * columns + column).copied().unwrap_or(0));
                    let expected = (0..columns).fold(one, |sum, w| sum.add(bit(w).mul(word(w))));
                    assert_eq!(sum, expected, "{columns} columns, {machine:?}");
                }
            }
            for (column, coin) in coins[0].iter().enumerate() {
                assert!((0..LANES).all(|i| turned[0][i] >> column & 1 == coin >> i & 1));
            }
        }
    }

    #[test]
    fn sums_of_subsets_are_those_of_the_definition_on_every_machine() {
        subsets_by_definition::<u16>();
        subsets_by_definition::<u64>();
    }
}
