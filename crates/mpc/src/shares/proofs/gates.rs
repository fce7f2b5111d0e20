//! First step of a proof: from words of the computation to elements of the extension.
//!
//! Statements lie in *groups* of *columns*: statement number a m + w of `len` statements is in group a and
//! column w, where m is `len` divided by the number of groups, rounded up. Its coin is sigma_a tau_w.

use std::sync::Arc;

use zeroize::{Zeroize, Zeroizing};

use super::super::primitives::LANES;
use super::super::{Bits, Ring};
use super::carryless;
use super::cube;
use super::extension::{Extension, Galois, Gf64, draw_all, vectorized};
use super::galois::{self, DEGREE};
use flyswarm_sealed_sum::crypto::stream::Stream;

/// Factors of statements with one prover, as one party knows them: for each statement, the sum over all
/// pairs of a factor of `a` and one of `b` equals a sum of two words. The party before the prover knows
/// `a` and one of the words, the party after the prover knows `b` and the other word, and the prover
/// knows both factors.
///
/// The words are wiped when they are dropped. A shared factor is wiped with the last statement that uses it.
#[derive(Clone, Default)]
pub struct Terms<T: Zeroize> {
    /// Number of statements.
    pub len: usize,
    /// Number of products in each statement.
    pub products: usize,
    /// First factors of all statements, product after product; empty if this party does not know them.
    pub a: Vec<Arc<Vec<T>>>,
    /// Second factors.
    pub b: Vec<Arc<Vec<T>>>,
    /// The word of each statement that this party knows. The prover has the word of the party before
    /// it.
    pub word: Vec<T>,
}

impl<T: Zeroize> std::fmt::Debug for Terms<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Terms({} x {}, <redacted>)", self.len, self.products)
    }
}

impl<T: Zeroize> Drop for Terms<T> {
    fn drop(&mut self) {
        let factors = self.a.iter_mut().chain(&mut self.b);
        factors.filter_map(Arc::get_mut).for_each(Zeroize::zeroize);
        self.word.zeroize();
    }
}

/// One factor of a sum of products of a coin and a word.
pub enum Factor {
    /// The coins, if this party knows them: bits of exceptional elements.
    Coins(Vec<u64>),
    /// The words, if this party knows them.
    Words(Zeroizing<Vec<u64>>),
    /// This party does not know the factor.
    None,
}

/// Sum of products of a coin and a word, as one party knows it.
pub struct Sum<R> {
    /// Factor that the prover and the party before it know.
    pub a: Factor,
    /// Factor that the prover and the party after it know.
    pub b: Factor,
    /// Number that this party knows. The prover has the number of the party before it.
    pub claim: R,
}

impl<R> std::fmt::Debug for Sum<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sum(<redacted>)")
    }
}

impl std::fmt::Debug for Factor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Factor(<redacted>)")
    }
}

/// Function that makes such a sum from its coins.
pub type MakeSum<R> = Box<dyn FnOnce(&mut Stream) -> Sum<R> + Send>;

impl Factor {
    /// Appends the sum of weight times coin or word over all groups, column after column.
    pub fn fold<R: Gates>(&self, len: usize, weights: &[R], out: &mut Vec<R>) {
        let columns = len.div_ceil(R::GROUPS);
        match self {
            Self::Coins(coins) => R::fold_coins(coins, columns, weights, out),
            Self::Words(words) => R::fold_words(words, columns, weights, out),
            Self::None => {}
        }
    }
}

impl<R: Gates> Sum<R> {
    /// Adds the values of the product of both factors.
    pub fn add_values(&self, values: &mut [R]) {
        match (&self.a, &self.b) {
            (Factor::Coins(coins), Factor::Words(words)) | (Factor::Words(words), Factor::Coins(coins)) => {
                R::add_coin_values(values, coins, words);
            }
            _ => {}
        }
    }
}

impl<T: Zeroize> Terms<T> {
    /// Returns the number of columns.
    #[must_use]
    pub fn columns(&self, groups: usize) -> usize {
        self.len.div_ceil(groups)
    }
}

/// Two vectors of factors, and the bits of the coins tau of their columns.
pub type Factors<'a, T> = (&'a [T], &'a [T], &'a [u64]);

/// Extension whose words are factors of gates.
pub trait Gates: Extension {
    /// Number of variables of the first step.
    const VARIABLES: usize;
    /// Number of groups of the first step.
    const GROUPS: usize = 1 << Self::VARIABLES;
    /// Number of elements that one column becomes.
    const LANES: usize;

    /// Adds the values ([`cube`]) of the sum over the columns w of tau_w times the product of two words, for
    /// all factors.
    fn add_values(values: &mut [Self], factors: &[Factors<'_, Self::Word>]);

    /// Adds the values of the sum of coin times word.
    fn add_coin_values(values: &mut [Self], coins: &[u64], words: &[u64]);

    /// Appends the sum over all groups of weight times word, lane after lane of each column.
    fn fold(words: &[Self::Word], columns: usize, weights: &[Self], out: &mut Vec<Self>);

    /// Multiplies the elements of each column by its coin.
    fn times_coins(elements: &mut [Self], tau: &[u64]);

    /// Returns the sum over the columns w of tau_w times the word, for each group.
    fn group_sums(words: &[Self::Word], tau: &[u64]) -> Vec<Self>;

    /// Adds the sum of coin times word to an element.
    fn add_sum(sum: &mut Self, coins: &[u64], words: &[u64]);

    /// Appends the sum of weight times coin over all groups, column after column.
    fn fold_coins(coins: &[u64], columns: usize, weights: &[Self], out: &mut Vec<Self>);

    /// Appends the sum of weight times word over all groups, column after column.
    fn fold_words(words: &[u64], columns: usize, weights: &[Self], out: &mut Vec<Self>);
}

fn group<T>(words: &[T], columns: usize, group: usize) -> &[T] {
    let start = words.len().min(group * columns);
    &words[start..words.len().min(start + columns)]
}

/// Adds up the values of the product of two vectors, by blocks of columns.
pub(super) fn in_blocks<A: Copy + Default, B: Copy + Default, S>(
    values: &mut [S],
    (groups, columns, block): (usize, usize, usize),
    (a, minus_a): (&[A], cube::Minus<A>),
    (b, minus_b): (&[B], cube::Minus<B>),
    mut add: impl FnMut(std::ops::Range<usize>, &mut S, &[A], &[B]),
) {
    fn fill<T: Copy + Default>(to: &mut [T], from: &[T], columns: usize, range: &std::ops::Range<usize>) {
        to.fill(T::default());
        for (at, to) in to.chunks_mut(range.len()).enumerate() {
            let group = group(from, columns, at);
            let from = &group[group.len().min(range.start)..group.len().min(range.end)];
            to[..from.len()].copy_from_slice(from);
        }
    }
    let space = groups * block.min(columns);
    let (mut of_a, mut spare_a) = (vec![A::default(); space], vec![A::default(); space]);
    let (mut of_b, mut spare_b) = (vec![B::default(); space], vec![B::default(); space]);
    for start in (0..columns).step_by(block) {
        let range = start..columns.min(start + block);
        let used = groups * range.len();
        fill(&mut of_a[..used], a, columns, &range);
        fill(&mut of_b[..used], b, columns, &range);
        let a = cube::Groups { entries: &of_a[..used], spare: &mut spare_a, minus: minus_a };
        let b = cube::Groups { entries: &of_b[..used], spare: &mut spare_b, minus: minus_b };
        cube::add_values(values, a, b, &mut |sum, a, b| add(range.clone(), sum, a, b));
    }
}

/// Writes differences.
macro_rules! differences {
    ($($name:ident, $entry:ty, $difference:expr;)*) => {$(
        fn $name(to: &mut [$entry], a: &[$entry], b: &[$entry]) {
            vectorized(#[inline(always)] || {
                for (to, (a, b)) in to.iter_mut().zip(a.iter().zip(b)) {
                    *to = $difference(a, b);
                }
            })
        }
    )*};
}

differences! {
    minus_bits, Bits, |a: &Bits, b: &Bits| a.sub(*b);
    minus_u16, u16, |a: &u16, b: &u16| a.wrapping_sub(*b);
    minus_u64, u64, |a: &u64, b: &u64| a.wrapping_sub(*b);
}

impl Gates for Gf64 {
    const VARIABLES: usize = 6;
    const LANES: usize = LANES;

    fn add_values(values: &mut [Self], factors: &[Factors<'_, Bits>]) {
        for &(a, b, tau) in factors {
            let add = |range, sum: &mut Self, a: &[Bits], b: &[Bits]| {
                *sum = sum.plus(carryless::gates(a, b, &tau[range]));
            };
            in_blocks(values, (Self::GROUPS, tau.len(), 128), (a, minus_bits), (b, minus_bits), add);
        }
    }

    fn add_coin_values(values: &mut [Self], coins: &[u64], words: &[u64]) {
        let (coins, words) = (carryless::of_bits(coins), carryless::of_bits(words));
        let add = |_, sum: &mut Self, a: &[Self], b: &[Self]| *sum = sum.plus(Self::inner(a, b));
        let columns = coins.len().div_ceil(Self::GROUPS);
        let sizes = (Self::GROUPS, columns, 128);
        in_blocks(values, sizes, (coins, Self::differences), (words, Self::differences), add);
    }

    fn fold(words: &[Bits], columns: usize, weights: &[Self], out: &mut Vec<Self>) {
        carryless::lanes(words, columns, weights, out);
    }

    fn times_coins(elements: &mut [Self], tau: &[u64]) {
        carryless::times_coins(elements, tau);
    }

    fn group_sums(words: &[Bits], tau: &[u64]) -> Vec<Self> {
        let words: Vec<Self> = words.iter().map(|word| Self(word.0)).collect();
        let coins = carryless::of_bits(tau);
        (0..Self::GROUPS).map(|at| Self::inner(coins, group(&words, tau.len(), at))).collect()
    }

    fn add_sum(sum: &mut Self, coins: &[u64], words: &[u64]) {
        *sum = sum.plus(Self::inner(carryless::of_bits(coins), carryless::of_bits(words)));
    }

    fn fold_coins(coins: &[u64], columns: usize, weights: &[Self], out: &mut Vec<Self>) {
        let coins = carryless::of_bits(coins);
        let groups: Vec<&[Self]> = (0..weights.len()).map(|at| group(coins, columns, at)).collect();
        out.append(&mut Self::weighted(&groups, weights, columns));
    }

    fn fold_words(words: &[u64], columns: usize, weights: &[Self], out: &mut Vec<Self>) {
        Self::fold_coins(words, columns, weights, out);
    }
}

macro_rules! integers {
    ($($word:ty, $minus:ident, $variables:literal;)*) => {$(
        impl Gates for Galois<$word> {
            const VARIABLES: usize = $variables;
            const LANES: usize = 1;

            fn add_values(values: &mut [Self], factors: &[Factors<'_, $word>]) {
                let width = values.len().next_multiple_of(galois::BLOCK);
                let (mut products, mut sums) = (vec![0; LANES * width], vec![0; DEGREE * width]);
                let mut numbers: Vec<usize> = (0..values.len()).collect();
                for &(a, b, tau) in factors {
                    let add = |range: std::ops::Range<usize>, value: &mut usize, a: &[$word], b: &[$word]| {
                        let places = products.iter_mut().skip(*value).step_by(width);
                        for (place, (a, b)) in places.zip(a.iter().zip(b)) {
                            *place = a.wrapping_mul(*b);
                        }
                        // The last value of a block of columns.
                        if *value + 1 == values.len() {
                            let (words, columns) = (&products[..range.len() * width], range.len());
                            let coins = &[galois::turned(&tau[range])];
                            galois::Subsets { words, coins, columns, sums: &mut sums }.add();
                        }
                    };
                    in_blocks(&mut numbers, (Self::GROUPS, tau.len(), LANES), (a, $minus), (b, $minus), add);
                }
                for (sums, coefficient) in sums.chunks_exact(width).zip(0..) {
                    for (value, sum) in values.iter_mut().zip(sums) {
                        value.0[coefficient] = value.0[coefficient].wrapping_add(*sum);
                    }
                }
            }

            fn add_coin_values(values: &mut [Self], coins: &[u64], words: &[u64]) {
                let sizes = (Self::GROUPS, coins.len().div_ceil(Self::GROUPS));
                let mut sums = vec![0; Self::GROUPS * DEGREE * Self::GROUPS];
                for start in (0..sizes.1).step_by(LANES) {
                    let range = start..sizes.1.min(start + LANES);
                    let words: &[$word] = &galois::columns_of(words, sizes, &range);
                    let of_group = |at| {
                        let group = group(coins, sizes.1, at);
                        galois::turned(&group[group.len().min(range.start)..group.len().min(range.end)])
                    };
                    let coins: Vec<_> = (0..Self::GROUPS).map(of_group).collect();
                    galois::Subsets { words, coins: &coins, columns: range.len(), sums: &mut sums }.add();
                }
                let mut matrix = Vec::with_capacity(Self::GROUPS * Self::GROUPS);
                for sums in sums.chunks_exact(DEGREE * Self::GROUPS) {
                    for at in 0..Self::GROUPS {
                        matrix.push(Self(std::array::from_fn(|i| sums[i * Self::GROUPS + at])));
                    }
                }
                cube::add_matrix(values, &matrix);
            }

            fn fold(words: &[$word], columns: usize, weights: &[Self], out: &mut Vec<Self>) {
                vectorized(#[inline(always)] || {
                    for column in 0..columns {
                        let mut sum = Self::zero();
                        for (at, weight) in weights.iter().enumerate() {
                            let word = words.get(at * columns + column).copied().unwrap_or_default();
                            sum.add_scaled(weight, word);
                        }
                        out.push(sum);
                    }
                });
            }

            fn times_coins(elements: &mut [Self], tau: &[u64]) {
                elements.iter_mut().zip(tau).for_each(|(x, &tau)| *x = x.times(Self::exceptional(tau)));
            }

            fn group_sums(words: &[$word], tau: &[u64]) -> Vec<Self> {
                let sizes = (Self::GROUPS, tau.len());
                let mut sums = vec![0; DEGREE * Self::GROUPS];
                for start in (0..tau.len()).step_by(LANES) {
                    let range = start..tau.len().min(start + LANES);
                    let words = &galois::columns_of(words, sizes, &range);
                    let (columns, coins) = (range.len(), &[galois::turned(&tau[range])]);
                    galois::Subsets { words, coins, columns, sums: &mut sums }.add();
                }
                let element = |at| Self(std::array::from_fn(|i| sums[i * Self::GROUPS + at]));
                (0..Self::GROUPS).map(element).collect()
            }

            fn add_sum(sum: &mut Self, coins: &[u64], words: &[u64]) {
                // The sums of all coefficients, in whole vectors.
                let mut sums = [0 as $word; 56];
                vectorized(#[inline(always)] || {
                    for (&coin, &word) in coins.iter().zip(words) {
                        for (at, sum) in sums.iter_mut().enumerate() {
                            let chosen = if coin & 1 << at != 0 { word as $word } else { 0 };
                            *sum = sum.wrapping_add(chosen);
                        }
                    }
                });
                for (sum, more) in sum.0.iter_mut().zip(sums) {
                    *sum = sum.wrapping_add(more);
                }
            }

            fn fold_coins(coins: &[u64], columns: usize, weights: &[Self], out: &mut Vec<Self>) {
                galois::append_coin_sums(coins, columns, weights, out);
            }

            fn fold_words(words: &[u64], columns: usize, weights: &[Self], out: &mut Vec<Self>) {
                let words: Vec<$word> = words.iter().map(|&word| word as $word).collect();
                Self::fold(&words, columns, weights, out);
            }
        }
    )*};
}

integers!(u16, minus_u16, 5; u64, minus_u64, 6;);

/// Coins of the first step.
pub struct Coins<R> {
    sigma: Vec<R>,
    /// Bits of tau, for each of the terms.
    tau: Vec<Vec<u64>>,
}

impl<R> std::fmt::Debug for Coins<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Coins({} terms, <redacted>)", self.tau.len())
    }
}

impl<R: Gates> Coins<R> {
    /// Draws the coins for terms with these numbers of columns.
    #[must_use]
    pub fn draw(stream: &mut Stream, columns: impl Iterator<Item = usize>) -> Self {
        let sigma = draw_all(stream, R::GROUPS).into_iter().map(R::exceptional).collect();
        Self { sigma, tau: columns.map(|columns| draw_all(stream, columns)).collect() }
    }

    /// Returns the sum of coin times word over all statements.
    #[must_use]
    pub fn claim(&self, all: &[Terms<R::Word>]) -> R {
        let mut claim = R::zero();
        for (terms, tau) in all.iter().zip(&self.tau) {
            claim = claim.plus(R::inner(&self.sigma, &R::group_sums(&terms.word, tau)));
        }
        claim
    }

    /// Adds the values of the sum of tau_w times a product of factors.
    pub fn add_values(&self, all: &[Terms<R::Word>], values: &mut [R]) {
        let mut factors = Vec::new();
        for (terms, tau) in all.iter().zip(&self.tau) {
            factors.extend(terms.a.iter().zip(&terms.b).map(|(a, b)| (&a[..], &b[..], &tau[..])));
        }
        R::add_values(values, &factors);
    }

    /// Returns the sum of the values of the product of all statements: the value of group a counts
    /// sigma_a times.
    #[must_use]
    pub fn sum(&self, values: &[R]) -> R {
        let values: Vec<R> = (0..R::GROUPS).map(|group| values[cube::corner(group, R::VARIABLES)]).collect();
        R::inner(&self.sigma, &values)
    }

    /// Appends the first factors at a point with these weights of the groups.
    pub fn fold_first(&self, all: &[Terms<R::Word>], weights: &[R], out: &mut Vec<R>) {
        for (terms, tau) in all.iter().zip(&self.tau) {
            for a in &terms.a {
                R::fold(a, tau.len(), weights, out);
            }
        }
    }

    /// Appends the second factors at a point with these weights, times the coins of the columns.
    pub fn fold_second(&self, all: &[Terms<R::Word>], weights: &[R], out: &mut Vec<R>) {
        for (terms, tau) in all.iter().zip(&self.tau) {
            for b in &terms.b {
                let start = out.len();
                R::fold(b, tau.len(), weights, out);
                R::times_coins(&mut out[start..], tau);
            }
        }
    }
}
