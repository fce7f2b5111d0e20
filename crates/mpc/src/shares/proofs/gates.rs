//! First step of a proof: from words of the computation to elements of the extension.
//!
//! Statements lie in *groups* of *columns*: statement number a m + w of `len` statements is in group a and
//! column w, where m is `len` divided by the number of groups, rounded up. Its coin is sigma_a tau_w.

use std::sync::{Arc, LazyLock};

use super::super::bits::transpose;
use super::super::primitives::LANES;
use super::super::{Bits, Ring};
use super::extension::{Extension, Galois, Gf64, Points, draw_bits, vectorized};
use flyswarm_sealed_sum::crypto::stream::Stream;

/// Factors of statements with one prover, as one party knows them: for each statement, the sum over all
/// pairs of a factor of `a` and one of `b` equals a sum of two words. The party before the prover knows `a`
/// and one of the words, the party after it knows `b` and the other, the prover knows both factors.
#[derive(Clone, Default)]
pub struct Terms<T> {
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

impl<T> std::fmt::Debug for Terms<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Terms({} x {}, <redacted>)", self.len, self.products)
    }
}

/// One factor of a sum of products of a coin and a word.
pub enum Factor {
    /// The coins, if this party knows them: bits of exceptional elements.
    Coins(Vec<u64>),
    /// The words, if this party knows them.
    Words(Vec<u64>),
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
    /// Adds the sums M_ab of products of groups a and b over all columns.
    pub fn add_matrix(&self, len: usize, matrix: &mut [R]) {
        let columns = len.div_ceil(R::GROUPS);
        for (at, sum) in matrix.iter_mut().enumerate() {
            let (row, column) = (at / R::GROUPS, at % R::GROUPS);
            match (&self.a, &self.b) {
                (Factor::Coins(coins), Factor::Words(words)) => {
                    R::add_sum(sum, group(coins, columns, row), group(words, columns, column));
                }
                (Factor::Words(words), Factor::Coins(coins)) => {
                    R::add_sum(sum, group(coins, columns, column), group(words, columns, row));
                }
                _ => {}
            }
        }
    }

    /// Appends both factors at a point with these weights of the groups.
    pub fn append_folded(&self, len: usize, weights: &[R], a: &mut Vec<R>, b: &mut Vec<R>) {
        a.extend(self.a.folded(len, weights));
        b.extend(self.b.folded(len, weights));
    }
}

impl<T> Terms<T> {
    /// Returns the number of columns.
    #[must_use]
    pub fn columns(&self, groups: usize) -> usize {
        self.len.div_ceil(groups)
    }
}

/// Extension whose words are factors of gates.
pub trait Gates: Extension {
    /// Number of groups of the first step.
    const GROUPS: usize;
    /// Number of elements that one column becomes.
    const LANES: usize;

    /// Returns the points of all steps.
    fn tables() -> &'static Tables<Self>;

    /// Adds tau_w a b for each column w to an element: `tau` has the bits of the coins.
    fn add_products(sum: &mut Self, a: &[Self::Word], b: &[Self::Word], tau: &[u64]);

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

impl Gates for Gf64 {
    const GROUPS: usize = LANES;
    const LANES: usize = LANES;

    fn tables() -> &'static Tables<Self> {
        static TABLES: LazyLock<Tables<Gf64>> = LazyLock::new(Tables::new);
        &TABLES
    }

    fn add_products(sum: &mut Self, a: &[Bits], b: &[Bits], tau: &[u64]) {
        vectorized(
            #[inline(always)]
            || {
                for ((a, b), &tau) in a.iter().zip(b).zip(tau) {
                    *sum = sum.plus(Self(a.0 & b.0).times(Self(tau)));
                }
            },
        )
    }

    fn folded(words: &[Bits], columns: usize, weights: &[Self]) -> Vec<Self> {
        vectorized(
            #[inline(always)]
            || {
                // For each eight groups, the sums of all subsets of their weights.
                let tables: Vec<[u64; 256]> = weights
                    .chunks(8)
                    .map(|weights| {
                        let mut table = [0; 256];
                        for set in 1..256usize {
                            let lowest = set.trailing_zeros() as usize;
                            let weight = weights.get(lowest).map_or(0, |weight| weight.0);
                            table[set] = table[set & (set - 1)] ^ weight;
                        }
                        table
                    })
                    .collect();
                let mut out = Vec::with_capacity(columns * LANES);
                for column in 0..columns {
                    let mut block: [u64; LANES] = std::array::from_fn(|group| {
                        words.get(group * columns + column).map_or(0, |word| word.0)
                    });
                    transpose(&mut block);
                    let sum = |lane: u64| {
                        let sets = lane.to_le_bytes();
                        tables.iter().zip(sets).fold(0, |sum, (table, set)| sum ^ table[usize::from(set)])
                    };
                    out.extend(block.map(|lane| Self(sum(lane))));
                }
                out
            },
        )
    }

    fn times_coins(elements: &mut [Self], tau: &[u64]) {
        vectorized(
            #[inline(always)]
            || {
                for (lanes, &tau) in elements.chunks_mut(LANES).zip(tau) {
                    let mut coin = Self(tau);
                    for lane in lanes {
                        *lane = lane.times(coin);
                        coin = coin.times(Self(2));
                    }
                }
            },
        )
    }

    fn add_sum(sum: &mut Self, coins: &[u64], words: &[u64]) {
        vectorized(
            #[inline(always)]
            || {
                for (&coin, &word) in coins.iter().zip(words) {
                    *sum = sum.plus(Self(coin).times(Self(word)));
                }
            },
        )
    }

    fn folded_coins(coins: &[u64], columns: usize, weights: &[Self]) -> Vec<Self> {
        vectorized(
            #[inline(always)]
            || {
                let mut out = vec![Self(0); columns];
                for (at, weight) in weights.iter().enumerate() {
                    for (out, &coin) in out.iter_mut().zip(group(coins, columns, at)) {
                        *out = out.plus(weight.times(Self(coin)));
                    }
                }
                out
            },
        )
    }

    fn folded_words(words: &[u64], columns: usize, weights: &[Self]) -> Vec<Self> {
        vectorized(
            #[inline(always)]
            || Self::folded_coins(words, columns, weights),
        )
    }
}

macro_rules! integers {
    ($($word:ty),*) => {$(
        impl Gates for Galois<$word> {
            const GROUPS: usize = 16;
            const LANES: usize = 1;

            fn tables() -> &'static Tables<Self> {
                static TABLES: LazyLock<Tables<Galois<$word>>> = LazyLock::new(Tables::new);
                &TABLES
            }

            fn add_products(sum: &mut Self, a: &[$word], b: &[$word], tau: &[u64]) {
                vectorized(#[inline(always)] || {
                    for ((&a, &b), &tau) in a.iter().zip(b).zip(tau) {
                        let product = a.mul(b);
                        for (at, sum) in sum.0.iter_mut().enumerate() {
                            *sum = sum.add(product.mul((tau >> at & 1) as $word));
                        }
                    }
                })
            }

            fn folded(words: &[$word], columns: usize, weights: &[Self]) -> Vec<Self> {
                vectorized(#[inline(always)] || {
                    let mut out = vec![Self::zero(); columns];
                    for (at, weight) in weights.iter().enumerate() {
                        for (out, &word) in out.iter_mut().zip(group(words, columns, at)) {
                            *out = out.plus(weight.scaled(word));
                        }
                    }
                    out
                })
            }

            fn times_coins(elements: &mut [Self], tau: &[u64]) {
                vectorized(#[inline(always)] || {
                    elements.iter_mut().zip(tau).for_each(|(x, &tau)| *x = x.times(Self::exceptional(tau)));
                })
            }

            fn add_sum(sum: &mut Self, coins: &[u64], words: &[u64]) {
                vectorized(#[inline(always)] || {
                    for (&coin, &word) in coins.iter().zip(words) {
                        let word = word as $word;
                        for (at, sum) in sum.0.iter_mut().enumerate() {
                            *sum = sum.add(word.mul((coin >> at & 1) as $word));
                        }
                    }
                })
            }

            fn folded_coins(coins: &[u64], columns: usize, weights: &[Self]) -> Vec<Self> {
                vectorized(#[inline(always)] || {
                    let mut out = vec![Self::zero(); columns];
                    for (at, weight) in weights.iter().enumerate() {
                        for (out, &coin) in out.iter_mut().zip(group(coins, columns, at)) {
                            *out = out.plus(weight.times(Self::exceptional(coin)));
                        }
                    }
                    out
                })
            }

            fn folded_words(words: &[u64], columns: usize, weights: &[Self]) -> Vec<Self> {
                vectorized(#[inline(always)] || {
                    let mut out = vec![Self::zero(); columns];
                    for (at, weight) in weights.iter().enumerate() {
                        for (out, &word) in out.iter_mut().zip(group(words, columns, at)) {
                            *out = out.plus(weight.scaled(word as $word));
                        }
                    }
                    out
                })
            }
        }
    )*};
}

integers!(u16, u64);

/// Number of groups of each step after the first.
pub const FOLD: usize = 8;

/// Points of the first step, of the last one and of those between: of each polynomial, and of the product.
#[derive(Debug)]
pub struct Tables<R> {
    first: [Points<R>; 2],
    middle: [Points<R>; 2],
    last: [Points<R>; 2],
}

impl<R: Gates> Tables<R> {
    fn new() -> Self {
        let of = |count: usize| [Points::new(count), Points::new(2 * count - 1)];
        Self { first: of(R::GROUPS), middle: of(FOLD), last: of(FOLD + 1) }
    }

    /// Returns the points of step `step` of `steps`.
    #[must_use]
    pub fn of(&self, step: usize, steps: usize) -> &[Points<R>; 2] {
        match step {
            0 => &self.first,
            _ if step + 1 == steps => &self.last,
            _ => &self.middle,
        }
    }
}

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
            let ones = vec![one::<R>(); tau.len()];
            for (at, &sigma) in self.sigma.iter().enumerate() {
                let mut sum = R::zero();
                R::add_products(&mut sum, group(&terms.word, tau.len(), at), &ones, tau);
                claim = claim.plus(sum.times(sigma));
            }
        }
        claim
    }

    /// Returns the sums M_ab of tau_w times a product of groups a and b, over all columns, times sigma_a.
    #[must_use]
    pub fn matrix(&self, all: &[Terms<R::Word>]) -> Vec<R> {
        let mut matrix = vec![R::zero(); R::GROUPS * R::GROUPS];
        for (terms, tau) in all.iter().zip(&self.tau) {
            for (a, b) in terms.a.iter().zip(&terms.b) {
                for (at, sum) in matrix.iter_mut().enumerate() {
                    let (row, column) = (at / R::GROUPS, at % R::GROUPS);
                    R::add_products(sum, group(a, tau.len(), row), group(b, tau.len(), column), tau);
                }
            }
        }
        matrix.iter().enumerate().map(|(at, sum)| sum.times(self.sigma[at / R::GROUPS])).collect()
    }

    /// Returns the first factors at a point with these weights of the groups.
    #[must_use]
    pub fn first(&self, all: &[Terms<R::Word>], weights: &[R]) -> Vec<R> {
        let weights: Vec<R> = weights.iter().zip(&self.sigma).map(|(w, &sigma)| w.times(sigma)).collect();
        let vectors = all.iter().flat_map(|terms| terms.a.iter().map(|a| (terms.columns(R::GROUPS), a)));
        vectors.flat_map(|(columns, a)| R::folded(a, columns, &weights)).collect()
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

/// Returns the word that leaves every word as it is when it is multiplied.
fn one<R: Gates>() -> R::Word {
    R::Word::from_bits(if R::LANES == 1 { 1 } else { u64::MAX })
}
