//! Loops over GF(2^64) = GF(2)\[x\] / (x^64 + x^4 + x^3 + x + 1): in constant time, with carry-less
//! multiplication (PCLMULQDQ) and vectors of 512 bits where the machine has them.
//!
//! Each loop is written once, over the operations of a kind of machine.

// The compiler cannot see that a machine has instructions, so a call of a function that uses them is
// unsafe. There are no pointers, and the tests run the same loops with the plain operations.
#![allow(unsafe_code)]

use std::sync::LazyLock;

use pulp::bytemuck::TransparentWrapper;

use super::super::Bits;
use super::super::primitives::LANES;
use super::extension::Gf64;

// SAFETY: an element is a word (`repr(transparent)`), and every word is an element.
unsafe impl TransparentWrapper<u64> for Gf64 {}

/// Returns words as elements with the same bits.
pub(super) fn of_bits(words: &[u64]) -> &[Gf64] {
    Gf64::wrap_slice(words)
}

/// Loops over the operations in scope: vectors `V` of `N` words, and `Sum`s of unreduced products.
macro_rules! loops {
    ($(#[$feature:meta])*) => {
        /// Returns the vector of the words of a chunk, and zeros after them.
        $(#[$feature])*
        #[inline]
        fn part(words: impl ExactSizeIterator<Item = u64>) -> V {
            let mut chunk = [0; N];
            chunk.iter_mut().zip(words).for_each(|(to, word)| *to = word);
            load(&chunk)
        }

        /// Returns the vector of words. The compiler does not inline closures of `array::map` here.
        $(#[$feature])*
        #[inline]
        fn bits(words: &[Bits; N]) -> V {
            let mut chunk = [0; N];
            for (to, word) in chunk.iter_mut().zip(words) {
                *to = word.0;
            }
            load(&chunk)
        }

        /// Returns the vector of elements.
        $(#[$feature])*
        #[inline]
        fn elements(elements: &[Gf64; N]) -> V {
            let mut chunk = [0; N];
            for (to, element) in chunk.iter_mut().zip(elements) {
                *to = element.0;
            }
            load(&chunk)
        }

        /// Returns the exclusive or of the words of a vector.
        $(#[$feature])*
        #[inline]
        fn folded(v: V) -> u64 {
            store(v).iter().fold(0, |sum, word| sum ^ word)
        }

        /// Returns the sum of coin times the word that both factors have.
        $(#[$feature])*
        pub(super) fn gates(a: &[Bits], b: &[Bits], coins: &[u64]) -> Gf64 {
            let len = a.len().min(b.len()).min(coins.len());
            let (a, b, coins) = (&a[..len], &b[..len], &coins[..len]);
            let (a, a_rest) = a.as_chunks::<N>();
            let (b, b_rest) = b.as_chunks::<N>();
            let (coins, coins_rest) = coins.as_chunks::<N>();
            let mut sum = zero();
            for ((a, b), coin) in a.iter().zip(b).zip(coins) {
                sum = add(sum, and(bits(a), bits(b)), load(coin));
            }
            if !coins_rest.is_empty() {
                let both = a_rest.iter().zip(b_rest).map(|(a, b)| a.0 & b.0);
                sum = add(sum, part(both), part(coins_rest.iter().copied()));
            }
            Gf64(folded(reduce(sum)))
        }

        /// Returns the sum of products.
        $(#[$feature])*
        pub(super) fn inner(a: &[Gf64], b: &[Gf64]) -> Gf64 {
            let len = a.len().min(b.len());
            let (a, a_rest) = a[..len].as_chunks::<N>();
            let (b, b_rest) = b[..len].as_chunks::<N>();
            let mut sum = zero();
            for (a, b) in a.iter().zip(b) {
                sum = add(sum, elements(a), elements(b));
            }
            if !a_rest.is_empty() {
                sum = add(sum, part(a_rest.iter().map(|x| x.0)), part(b_rest.iter().map(|x| x.0)));
            }
            Gf64(folded(reduce(sum)))
        }

        /// Returns the sum of weight times vector over vectors of this length. Missing elements are zeros.
        $(#[$feature])*
        pub(super) fn weighted(vectors: &[&[Gf64]], weights: &[Gf64], len: usize) -> Vec<Gf64> {
            let mut out = Vec::with_capacity(len + N);
            for start in (0..len).step_by(N) {
                let mut sum = zero();
                for (vector, weight) in vectors.iter().zip(weights) {
                    let rest = &vector[vector.len().min(start)..];
                    let words = match rest.first_chunk::<N>() {
                        Some(words) => elements(words),
                        None => part(rest.iter().map(|x| x.0)),
                    };
                    sum = add(sum, words, load(&[weight.0; N]));
                }
                for sum in store(reduce(sum)) {
                    out.push(Gf64(sum));
                }
            }
            out.truncate(len);
            out
        }

        /// Multiplies the element of each lane by the coin of its column times x^lane.
        $(#[$feature])*
        pub(super) fn times_coins(all: &mut [Gf64], coins: &[u64]) {
            for (lanes, &coin) in all.chunks_mut(LANES).zip(coins) {
                for (at, lanes) in lanes.chunks_mut(N).enumerate() {
                    let mut powers = [0; N];
                    for (lane, power) in powers.iter_mut().enumerate() {
                        *power = 1u64.wrapping_shl((at * N + lane) as u32);
                    }
                    let coins = reduce(add(zero(), load(&powers), load(&[coin; N])));
                    let factors = match lanes.first_chunk::<N>() {
                        Some(lanes) => elements(lanes),
                        None => part(lanes.iter().map(|x| x.0)),
                    };
                    let products = store(reduce(add(zero(), factors, coins)));
                    for (lane, &product) in lanes.iter_mut().zip(&products) {
                        lane.0 = product;
                    }
                }
            }
        }

        /// Appends the sum of weight times bit over all groups, for each lane of each column.
        $(#[$feature])*
        pub(super) fn lanes(words: &[Bits], columns: usize, weights: &[Gf64], out: &mut Vec<Gf64>) {
            for column in 0..columns {
                let mut sums = [0u64; LANES];
                for (group, weight) in weights.iter().enumerate() {
                    let word = words.get(group * columns + column).map_or(0, |word| word.0);
                    for (lane, sum) in sums.iter_mut().enumerate() {
                        *sum ^= weight.0 & 0u64.wrapping_sub(word >> lane & 1);
                    }
                }
                for sum in sums {
                    out.push(Gf64(sum));
                }
            }
        }
    };
}

/// Any machine.
mod plain {
    use super::{Bits, Gf64, LANES};

    const N: usize = 1;
    type V = u64;
    type Sum = [u64; 2];

    /// Returns the low 64 bits of the product of two polynomials over GF(2): the bits are spread out, so
    /// that carries do not reach the next used bit (Pornin, BearSSL, *ghash_ctmul64*).
    #[inline(always)]
    fn low_product(x: u64, y: u64) -> u64 {
        const MASK: u64 = 0x1111_1111_1111_1111;
        let of = |word: u64| -> [u64; 4] { std::array::from_fn(|at| word & MASK << at) };
        let (x, y) = (of(x), of(y));
        (0..4).fold(0, |product, at| {
            let sum = (0..4).fold(0, |sum, i| sum ^ x[i].wrapping_mul(y[(4 + at - i) % 4]));
            product | sum & MASK << at
        })
    }

    fn load(words: &[u64; N]) -> V {
        words[0]
    }
    fn store(v: V) -> [u64; N] {
        [v]
    }
    fn zero() -> Sum {
        [0; 2]
    }
    fn and(a: V, b: V) -> V {
        a & b
    }
    fn add([low, high]: Sum, a: V, b: V) -> Sum {
        let product = low_product(a.reverse_bits(), b.reverse_bits()).reverse_bits() >> 1;
        [low ^ low_product(a, b), high ^ product]
    }
    fn reduce([low, high]: Sum) -> V {
        // x^64 = x^4 + x^3 + x + 1.
        let high = high ^ high >> 63 ^ high >> 61 ^ high >> 60;
        low ^ high ^ high << 1 ^ high << 3 ^ high << 4
    }

    loops! {}
}

#[cfg(target_arch = "x86_64")]
macro_rules! carryless {
    ($name:ident, $features:literal, $n:literal, $vector:ident,
     $multiply:ident, $and:ident, $xor:ident, $low:ident, $high:ident, $left:ident, $right:ident) => {
        mod $name {
            use std::arch::x86_64::*;
            use std::mem::transmute;

            use super::{Bits, Gf64, LANES};

            const N: usize = $n;
            type V = $vector;
            /// Products of the words at even places, and those at odd places.
            type Sum = [V; 2];

            #[target_feature(enable = $features)]
            #[inline]
            fn load(words: &[u64; N]) -> V {
                // SAFETY: both are plain bits of the same size.
                unsafe { transmute::<[u64; N], V>(*words) }
            }
            #[target_feature(enable = $features)]
            #[inline]
            fn store(v: V) -> [u64; N] {
                // SAFETY: as in `load`.
                unsafe { transmute::<V, [u64; N]>(v) }
            }
            #[target_feature(enable = $features)]
            #[inline]
            fn zero() -> Sum {
                [load(&[0; N]); 2]
            }
            #[target_feature(enable = $features)]
            #[inline]
            fn and(a: V, b: V) -> V {
                $and(a, b)
            }
            #[target_feature(enable = $features)]
            #[inline]
            fn add([even, odd]: Sum, a: V, b: V) -> Sum {
                [$xor(even, $multiply::<0x00>(a, b)), $xor(odd, $multiply::<0x11>(a, b))]
            }
            #[target_feature(enable = $features)]
            #[inline]
            fn reduce([even, odd]: Sum) -> V {
                let (low, high) = ($low(even, odd), $high(even, odd));
                // x^64 = x^4 + x^3 + x + 1.
                let over = $xor($xor($right::<63>(high), $right::<61>(high)), $right::<60>(high));
                let high = $xor(high, over);
                let shifted = $xor($xor($left::<1>(high), $left::<3>(high)), $left::<4>(high));
                $xor($xor(low, high), shifted)
            }

            loops! { #[target_feature(enable = $features)] }
        }
    };
}

#[cfg(target_arch = "x86_64")]
carryless!(
    narrow,
    "pclmulqdq,avx2",
    2,
    __m128i,
    _mm_clmulepi64_si128,
    _mm_and_si128,
    _mm_xor_si128,
    _mm_unpacklo_epi64,
    _mm_unpackhi_epi64,
    _mm_slli_epi64,
    _mm_srli_epi64
);
#[cfg(target_arch = "x86_64")]
carryless!(
    wide,
    "pclmulqdq,vpclmulqdq,avx512f,avx512bw,avx512dq,avx512vl",
    8,
    __m512i,
    _mm512_clmulepi64_epi128,
    _mm512_and_si512,
    _mm512_xor_si512,
    _mm512_unpacklo_epi64,
    _mm512_unpackhi_epi64,
    _mm512_slli_epi64,
    _mm512_srli_epi64
);

/// Kinds of machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Machine {
    Plain,
    #[cfg(target_arch = "x86_64")]
    Narrow,
    #[cfg(target_arch = "x86_64")]
    Wide,
}

impl Machine {
    /// Returns the kinds whose instructions this machine has, best last.
    fn all() -> Vec<Self> {
        let mut all = vec![Self::Plain];
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::is_x86_feature_detected as has;
            if has!("pclmulqdq") && has!("avx2") {
                all.push(Self::Narrow);
                let wide = has!("vpclmulqdq") && has!("avx512f") && has!("avx512bw");
                if wide && has!("avx512dq") && has!("avx512vl") {
                    all.push(Self::Wide);
                }
            }
        }
        all
    }

    fn best() -> Self {
        static BEST: LazyLock<Machine> = LazyLock::new(|| *Machine::all().last().unwrap_or(&Machine::Plain));
        *BEST
    }
}

macro_rules! on {
    ($machine:expr, $name:ident($($argument:expr),*)) => {
        match $machine {
            Machine::Plain => plain::$name($($argument),*),
            // SAFETY: `Machine::all` has this kind only if the machine has its instructions.
            #[cfg(target_arch = "x86_64")]
            Machine::Narrow => unsafe { narrow::$name($($argument),*) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Machine::Wide => unsafe { wide::$name($($argument),*) },
        }
    };
}

/// Returns the sum over all columns of coin times the product of two words.
pub(super) fn gates(a: &[Bits], b: &[Bits], coins: &[u64]) -> Gf64 {
    on!(Machine::best(), gates(a, b, coins))
}

/// Returns the sum of products.
pub(super) fn inner(a: &[Gf64], b: &[Gf64]) -> Gf64 {
    on!(Machine::best(), inner(a, b))
}

/// Returns the sum of weight times vector over vectors of this length. Missing elements are zeros.
pub(super) fn weighted(vectors: &[&[Gf64]], weights: &[Gf64], len: usize) -> Vec<Gf64> {
    on!(Machine::best(), weighted(vectors, weights, len))
}

/// Multiplies the element of each lane by the coin of its column times x^lane.
pub(super) fn times_coins(elements: &mut [Gf64], coins: &[u64]) {
    on!(Machine::best(), times_coins(elements, coins));
}

/// Appends the sum of weight times bit over all groups, for each lane of each column.
pub(super) fn lanes(words: &[Bits], columns: usize, weights: &[Gf64], out: &mut Vec<Gf64>) {
    on!(Machine::best(), lanes(words, columns, weights, out));
}

#[cfg(test)]
mod tests {
    use flyswarm_sealed_sum::crypto::stream::Stream;

    use super::super::super::Xor;
    use super::super::extension::draw_bits;
    use super::*;

    #[test]
    fn all_kinds_of_machines_compute_the_same() {
        let mut stream = Stream::new(&[3; 32], "carryless", &[]);
        let mut draw = |len: usize| -> Vec<u64> { (0..len).map(|_| draw_bits(&mut stream)).collect() };
        for columns in [0, 1, 2, 7, 8, 9, 63, 300] {
            // The last column of the last groups is missing.
            let len = (columns * LANES).saturating_sub(5);
            let [a, b]: [Vec<Bits>; 2] = [(); 2].map(|()| draw(len).into_iter().map(Xor).collect());
            let (coins, tau, weights) = (draw(columns), draw(len), draw(LANES));
            let [x, y]: [Vec<Gf64>; 2] = [(); 2].map(|()| draw(len).into_iter().map(Gf64).collect());
            let weights: Vec<Gf64> = weights.into_iter().map(Gf64).collect();
            let groups: Vec<&[Gf64]> = x.chunks(columns.max(1)).collect();
            let run = |machine: Machine| {
                let gates = on!(machine, gates(&a, &b, &tau));
                let mut products = x.clone();
                on!(machine, times_coins(&mut products, &coins));
                let inner = on!(machine, inner(&x, &y));
                let weighted = on!(machine, weighted(&groups, &weights, columns));
                let mut lanes = Vec::new();
                on!(machine, lanes(&a, columns, &weights, &mut lanes));
                (gates, products, inner, weighted, lanes)
            };
            let plain = run(Machine::Plain);
            for machine in Machine::all() {
                assert!(run(machine) == plain, "{machine:?}: {columns} columns");
            }
            // The plain loops, by their definitions.
            let times = |a: u64, b: u64| plain_product(a, b);
            let at = |words: &[Bits], group: usize, column: usize| {
                words.get(group * columns + column).map_or(0, |word| word.0)
            };
            let gates = a.iter().zip(&b).zip(&tau).map(|((a, b), &tau)| times(a.0 & b.0, tau));
            assert_eq!(plain.0, Gf64(gates.fold(0, |sum, product| sum ^ product)));
            for (at, (&x, &product)) in x.iter().zip(&plain.1).enumerate() {
                let coin = times(coins[at / LANES], 1 << (at % LANES));
                assert_eq!(product.0, times(x.0, coin));
            }
            let sum = x.iter().zip(&y).fold(0, |sum, (x, y)| sum ^ times(x.0, y.0));
            assert_eq!(plain.2, Gf64(sum));
            for (at, sum) in plain.3.iter().enumerate() {
                let of =
                    |(group, weight): (&&[Gf64], &Gf64)| group.get(at).map_or(0, |x| times(x.0, weight.0));
                assert_eq!(sum.0, groups.iter().zip(&weights).map(of).fold(0, |sum, x| sum ^ x));
            }
            for (place, sum) in plain.4.iter().enumerate() {
                let bit = |group: usize| at(&a, group, place / LANES) >> (place % LANES) & 1;
                let of = |group: usize| if bit(group) == 1 { weights[group].0 } else { 0 };
                assert_eq!(sum.0, (0..LANES).fold(0, |sum, group| sum ^ of(group)));
            }
        }
    }

    /// Returns a product, bit after bit.
    fn plain_product(a: u64, b: u64) -> u64 {
        (0..64).rev().fold(0, |sum: u64, bit| {
            let doubled = sum << 1 ^ if sum >> 63 == 1 { 0b1_1011 } else { 0 };
            doubled ^ if b >> bit & 1 == 1 { a } else { 0 }
        })
    }
}
