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
use super::extension::{Extension, Galois, Gf64, draw_bits, vectorized};
use super::galois;
use flyswarm_sealed_sum::crypto::stream::Stream;

/// Factors of statements with one prover, as one party knows them: for each statement, the sum over all
/// pairs of a factor of `a` and one of `b` equals a sum of two words. The party before the prover knows `a`
/// and one of the words, the party after it knows `b` and the other, the prover knows both factors.
///
/// They are wiped when they are dropped, a factor with the last statement that has it.
#[derive(Clone, Default)]
pub struct Terms<T: Zeroize> {
    /// Number of statements.
    pub len: usize,
    /// Number of products in each statement.
    pub products: usize,
    /// First factors of all statements, product after product; nothing if this party does not know them.
    pub a: Vec<Arc<Vec<T>>>,
    /// Second factors.
    pub b: Vec<Arc<Vec<T>>>,
    /// The word of each statement that this party knows: the prover has that of the party before it.
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
    /// Number that this party knows: that of the party before the prover, at the prover.
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
    /// Returns the sum of weight times coin or word over all groups, column after column.
    fn folded<R: Gates>(&self, len: usize, weights: &[R]) -> Vec<R> {
        let columns = len.div_ceil(R::GROUPS);
        match self {
            Self::Coins(coins) => R::folded_coins(coins, columns, weights),
            Self::Words(words) => R::folded_words(words, columns, weights),
            Self::None => Vec::new(),
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

    /// Appends both factors at a point with these weights of the groups.
    pub fn append_folded(&self, len: usize, weights: &[R], a: &mut Vec<R>, b: &mut Vec<R>) {
        a.extend(self.a.folded(len, weights));
        b.extend(self.b.folded(len, weights));
    }
}

impl<T: Zeroize> Terms<T> {
    /// Returns the number of columns.
    #[must_use]
    pub fn columns(&self, groups: usize) -> usize {
        self.len.div_ceil(groups)
    }
}

/// Extension whose words are factors of gates.
pub trait Gates: Extension {
    /// Number of variables of the first step.
    const VARIABLES: usize;
    /// Number of groups of the first step.
    const GROUPS: usize = 1 << Self::VARIABLES;
    /// Number of elements that one column becomes.
    const LANES: usize;

    /// Adds the values ([`cube`]) of the sum over the columns w of tau_w times the product of two words.
    /// `tau` has the bits of the coins.
    fn add_values(values: &mut [Self], a: &[Self::Word], b: &[Self::Word], tau: &[u64]);

    /// Adds the values of the sum of coin times word.
    fn add_coin_values(values: &mut [Self], coins: &[u64], words: &[u64]);

    /// Returns the sum over all groups of weight times word, lane after lane of each column.
    fn folded(words: &[Self::Word], columns: usize, weights: &[Self]) -> Vec<Self>;

    /// Multiplies the elements of each column by its coin.
    fn times_coins(elements: &mut [Self], tau: &[u64]);

    /// Adds the sum of coin times word to an element.
    fn add_sum(sum: &mut Self, coins: &[u64], words: &[u64]);

    /// Returns the sum of weight times coin over all groups, column after column.
    fn folded_coins(coins: &[u64], columns: usize, weights: &[Self]) -> Vec<Self>;

    /// Returns the sum of weight times word over all groups, column after column.
    fn folded_words(words: &[u64], columns: usize, weights: &[Self]) -> Vec<Self>;
}

fn group<T>(words: &[T], columns: usize, group: usize) -> &[T] {
    let start = words.len().min(group * columns);
    &words[start..words.len().min(start + columns)]
}

/// Adds up the values of the product of two vectors, by blocks of columns.
fn in_blocks<A: Copy + Default, B: Copy + Default, S>(
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

/// Coefficients of a difference of exceptional elements.
#[derive(Clone, Copy)]
struct Small([i8; LANES]);

impl Default for Small {
    fn default() -> Self {
        Self([0; LANES])
    }
}

differences! {
    minus_bits, Bits, |a: &Bits, b: &Bits| a.sub(*b);
    minus_fields, Gf64, |a: &Gf64, b: &Gf64| a.minus(*b);
    minus_u16, u16, |a: &u16, b: &u16| a.wrapping_sub(*b);
    minus_u64, u64, |a: &u64, b: &u64| a.wrapping_sub(*b);
}

fn minus_small(to: &mut [Small], a: &[Small], b: &[Small]) {
    vectorized(
        #[inline(always)]
        || {
            for (to, (a, b)) in to.iter_mut().zip(a.iter().zip(b)) {
                for lane in 0..LANES {
                    to.0[lane] = a.0[lane].wrapping_sub(b.0[lane]);
                }
            }
        },
    )
}

impl Gates for Gf64 {
    const VARIABLES: usize = 6;
    const LANES: usize = LANES;

    fn add_values(values: &mut [Self], a: &[Bits], b: &[Bits], tau: &[u64]) {
        let add = |range, sum: &mut Self, a: &[Bits], b: &[Bits]| {
            *sum = sum.plus(carryless::gates(a, b, &tau[range]));
        };
        in_blocks(values, (Self::GROUPS, tau.len(), 128), (a, minus_bits), (b, minus_bits), add);
    }

    fn add_coin_values(values: &mut [Self], coins: &[u64], words: &[u64]) {
        let (coins, words) = (elements(coins), elements(words));
        let add = |_, sum: &mut Self, a: &[Self], b: &[Self]| *sum = sum.plus(Self::inner(a, b));
        let columns = coins.len().div_ceil(Self::GROUPS);
        let sizes = (Self::GROUPS, columns, 128);
        in_blocks(values, sizes, (&coins, minus_fields), (&words, minus_fields), add);
    }

    fn folded(words: &[Bits], columns: usize, weights: &[Self]) -> Vec<Self> {
        carryless::lanes(words, columns, weights)
    }

    fn times_coins(elements: &mut [Self], tau: &[u64]) {
        carryless::times_coins(elements, tau);
    }

    fn add_sum(sum: &mut Self, coins: &[u64], words: &[u64]) {
        *sum = sum.plus(Self::inner(&elements(coins), &elements(words)));
    }

    fn folded_coins(coins: &[u64], columns: usize, weights: &[Self]) -> Vec<Self> {
        let elements = elements(coins);
        let groups: Vec<&[Self]> = (0..weights.len()).map(|at| group(&elements, columns, at)).collect();
        Self::weighted(&groups, weights, columns)
    }

    fn folded_words(words: &[u64], columns: usize, weights: &[Self]) -> Vec<Self> {
        Self::folded_coins(words, columns, weights)
    }
}

fn elements(bits: &[u64]) -> Vec<Gf64> {
    bits.iter().map(|&bits| Gf64(bits)).collect()
}

/// Adds the product of a word and the exceptional element with these bits.
macro_rules! chosen {
    ($word:ty, $sum:expr, $bits:expr, $product:expr) => {
        let (bits, product): (u64, $word) = ($bits, $product);
        // Shifts of the width of a word are vectors of as many words as there are sums.
        for (part, sums) in $sum.0.chunks_mut(<$word>::BITS as usize).enumerate() {
            let bits = (bits >> (part as u32 * <$word>::BITS)) as $word;
            for (at, sum) in sums.iter_mut().enumerate() {
                let mask = (0 as $word).wrapping_sub(bits >> at & 1);
                *sum = sum.wrapping_add(product & mask);
            }
        }
    };
}

macro_rules! integers {
    ($($word:ty, $minus:ident;)*) => {$(
        impl Gates for Galois<$word> {
            const VARIABLES: usize = 5;
            const LANES: usize = 1;

            fn add_values(values: &mut [Self], a: &[$word], b: &[$word], tau: &[u64]) {
                let add = |range, sum: &mut Self, a: &[$word], b: &[$word]| {
                    let tau: &[u64] = &tau[range];
                    vectorized(#[inline(always)] || {
                        for ((&a, &b), &tau) in a.iter().zip(b).zip(tau) {
                            chosen!($word, sum, tau, a.wrapping_mul(b));
                        }
                    })
                };
                in_blocks(values, (Self::GROUPS, tau.len(), 64), (a, $minus), (b, $minus), add);
            }

            fn add_coin_values(values: &mut [Self], coins: &[u64], words: &[u64]) {
                let columns = coins.len().div_ceil(Self::GROUPS);
                let coins: Vec<Small> = coins
                    .iter()
                    .map(|coin| Small(std::array::from_fn(|at| (coin >> at & 1) as i8)))
                    .collect();
                let words: Vec<$word> = words.iter().map(|&word| word as $word).collect();
                let add = |_, sum: &mut Self, coins: &[Small], words: &[$word]| {
                    vectorized(#[inline(always)] || {
                        for (coin, &word) in coins.iter().zip(words) {
                            for (sum, &coefficient) in sum.0.iter_mut().zip(&coin.0) {
                                *sum = sum.wrapping_add(word.wrapping_mul(coefficient as $word));
                            }
                        }
                    })
                };
                in_blocks(values, (Self::GROUPS, columns, 16), (&coins, minus_small), (&words, $minus), add);
            }

            fn folded(words: &[$word], columns: usize, weights: &[Self]) -> Vec<Self> {
                vectorized(#[inline(always)] || {
                    let mut out = Vec::with_capacity(columns);
                    for column in 0..columns {
                        let mut sum = Self::zero();
                        for (at, weight) in weights.iter().enumerate() {
                            let word = words.get(at * columns + column).copied().unwrap_or_default();
                            sum.add_scaled(weight, word);
                        }
                        out.push(sum);
                    }
                    out
                })
            }

            fn times_coins(elements: &mut [Self], tau: &[u64]) {
                elements.iter_mut().zip(tau).for_each(|(x, &tau)| *x = x.times(Self::exceptional(tau)));
            }

            fn add_sum(sum: &mut Self, coins: &[u64], words: &[u64]) {
                vectorized(#[inline(always)] || {
                    for (&coin, &word) in coins.iter().zip(words) {
                        chosen!($word, sum, coin, word as $word);
                    }
                })
            }

            fn folded_coins(coins: &[u64], columns: usize, weights: &[Self]) -> Vec<Self> {
                galois::coin_sums(coins, columns, weights)
            }

            fn folded_words(words: &[u64], columns: usize, weights: &[Self]) -> Vec<Self> {
                let words: Vec<$word> = words.iter().map(|&word| word as $word).collect();
                Self::folded(&words, columns, weights)
            }
        }
    )*};
}

integers!(u16, minus_u16; u64, minus_u64;);

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
        let sigma = (0..R::GROUPS).map(|_| R::exceptional(draw_bits(stream))).collect();
        Self {
            sigma,
            tau: columns.map(|columns| (0..columns).map(|_| draw_bits(stream)).collect()).collect(),
        }
    }

    /// Returns the sum of coin times word over all statements.
    #[must_use]
    pub fn claim(&self, all: &[Terms<R::Word>]) -> R {
        let mut claim = R::zero();
        for (terms, tau) in all.iter().zip(&self.tau) {
            let words: Vec<u64> = terms.word.iter().map(|word| word.bits()).collect();
            for (at, &sigma) in self.sigma.iter().enumerate() {
                let mut sum = R::zero();
                R::add_sum(&mut sum, tau, group(&words, tau.len(), at));
                claim = claim.plus(sum.times(sigma));
            }
        }
        claim
    }

    /// Adds the values of the sum of tau_w times a product of factors.
    pub fn add_values(&self, all: &[Terms<R::Word>], values: &mut [R]) {
        for (terms, tau) in all.iter().zip(&self.tau) {
            for (a, b) in terms.a.iter().zip(&terms.b) {
                R::add_values(values, a, b, tau);
            }
        }
    }

    /// Returns what the values of the product of all statements add up to: sigma_a times that of group a.
    #[must_use]
    pub fn sum(&self, values: &[R]) -> R {
        let values: Vec<R> = (0..R::GROUPS).map(|group| values[cube::corner(group, R::VARIABLES)]).collect();
        R::inner(&self.sigma, &values)
    }

    /// Returns the first factors at a point with these weights of the groups.
    #[must_use]
    pub fn first(&self, all: &[Terms<R::Word>], weights: &[R]) -> Vec<R> {
        let vectors = all.iter().flat_map(|terms| terms.a.iter().map(|a| (terms.columns(R::GROUPS), a)));
        vectors.flat_map(|(columns, a)| R::folded(a, columns, weights)).collect()
    }

    /// Returns the second factors at such a point, times the coins of the columns.
    #[must_use]
    pub fn second(&self, all: &[Terms<R::Word>], weights: &[R]) -> Vec<R> {
        let mut out = Vec::new();
        for (terms, tau) in all.iter().zip(&self.tau) {
            for b in &terms.b {
                let mut elements = R::folded(b, tau.len(), weights);
                R::times_coins(&mut elements, tau);
                out.extend(elements);
            }
        }
        out
    }
}
