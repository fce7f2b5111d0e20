//! Ring `Z_q[X] / (X^4096 + 1)`, q the product of two primes: polynomials as residues, products by
//! number-theoretic transforms.

use std::sync::LazyLock;

use zeroize::{Zeroize, Zeroizing};

use flyswarm_sealed_sum::crypto::stream::Stream;

/// Number of coefficients of a polynomial.
pub const N: usize = 4096;
/// Largest primes below 2^50 that are 1 modulo 2 N.
pub const PRIMES: [u64; 2] = [1_125_899_906_826_241, 1_125_899_906_629_633];
/// Number of bits of a coefficient on the wire, for each prime.
pub const WIDTH: usize = 50;

/// Coefficients modulo one prime.
pub(super) type Residues = Zeroizing<Vec<u64>>;

/// Prime with the constants of its transform.
pub(super) struct Prime {
    pub(super) q: u64,
    roots: Vec<Factor>,
    inverse_roots: Vec<Factor>,
    inverse_n: Factor,
}

/// Number that others are multiplied by, with its quotient floor(x 2^64 / q) (V. Shoup's method).
#[derive(Clone, Copy, Zeroize)]
pub(super) struct Factor {
    value: u64,
    quotient: u64,
}

impl Factor {
    pub(super) fn new(value: u64, q: u64) -> Self {
        Self { value, quotient: ((u128::from(value) << 64) / u128::from(q)) as u64 }
    }

    /// Returns the product modulo q.
    #[inline(always)]
    pub(super) fn times(self, x: u64, q: u64) -> u64 {
        let estimate = ((u128::from(x) * u128::from(self.quotient)) >> 64) as u64;
        reduced(x.wrapping_mul(self.value).wrapping_sub(estimate.wrapping_mul(q)), q)
    }
}

/// Transformed polynomial that others are multiplied by.
pub(super) struct Multiplier(Zeroizing<Vec<Factor>>);

/// Returns x modulo q, for x below 2 q.
#[inline(always)]
pub(super) fn reduced(x: u64, q: u64) -> u64 {
    x.min(x.wrapping_sub(q))
}

pub(super) fn plus(x: u64, y: u64, q: u64) -> u64 {
    reduced(x + y, q)
}

pub(super) fn minus(x: u64, y: u64, q: u64) -> u64 {
    reduced(x + q - y, q)
}

pub(super) fn times(x: u64, y: u64, q: u64) -> u64 {
    (u128::from(x) * u128::from(y) % u128::from(q)) as u64
}

pub(super) fn power(mut base: u64, mut exponent: u64, q: u64) -> u64 {
    let mut out = 1;
    while exponent > 0 {
        if exponent & 1 == 1 {
            out = times(out, base, q);
        }
        base = times(base, base, q);
        exponent >>= 1;
    }
    out
}

/// Returns the two primes.
pub(super) fn primes() -> &'static [Prime; 2] {
    static ALL: LazyLock<[Prime; 2]> = LazyLock::new(|| PRIMES.map(Prime::new));
    &ALL
}

impl Prime {
    fn new(q: u64) -> Self {
        let order = 2 * N as u64;
        let root =
            (2..).map(|g| power(g, (q - 1) / order, q)).find(|&root| power(root, order / 2, q) == q - 1);
        let root = root
            .unwrap_or_else(|| unreachable!("BUG: a prime that is 1 modulo 2 N has a root of that order"));
        let bits = N.trailing_zeros();
        let powers = |root: u64| -> Vec<Factor> {
            let reversed = |i: usize| (i.reverse_bits() >> (usize::BITS - bits)) as u64;
            (0..N).map(|i| Factor::new(power(root, reversed(i), q), q)).collect()
        };
        let inverse = |x: u64| power(x, q - 2, q);
        Self {
            q,
            roots: powers(root),
            inverse_roots: powers(inverse(root)),
            inverse_n: Factor::new(inverse(N as u64), q),
        }
    }

    /// Transforms to bit-reversed order with Cooley and Tukey's butterflies (Longa & Naehrig, 2016,
    /// algorithm 1).
    fn forward(&self, a: &mut [u64]) {
        let (mut half, mut blocks) = (N, 1);
        while blocks < N {
            half /= 2;
            for (block, root) in a.chunks_exact_mut(2 * half).zip(&self.roots[blocks..]) {
                let (low, high) = block.split_at_mut(half);
                for (x, y) in low.iter_mut().zip(high) {
                    let (u, v) = (*x, root.times(*y, self.q));
                    (*x, *y) = (plus(u, v, self.q), minus(u, v, self.q));
                }
            }
            blocks *= 2;
        }
    }

    /// Transforms back with Gentleman and Sande's butterflies (algorithm 2).
    fn backward(&self, a: &mut [u64]) {
        let (mut half, mut blocks) = (1, N / 2);
        while blocks > 0 {
            for (block, root) in a.chunks_exact_mut(2 * half).zip(&self.inverse_roots[blocks..]) {
                let (low, high) = block.split_at_mut(half);
                for (x, y) in low.iter_mut().zip(high) {
                    let (u, v) = (*x, *y);
                    (*x, *y) = (plus(u, v, self.q), root.times(minus(u, v, self.q), self.q));
                }
            }
            half *= 2;
            blocks /= 2;
        }
        a.iter_mut().for_each(|x| *x = self.inverse_n.times(*x, self.q));
    }

    /// Makes a multiplier from a polynomial.
    pub(super) fn multiplier(&self, polynomial: &[u64]) -> Multiplier {
        let mut transformed = Zeroizing::new(polynomial.to_vec());
        self.forward(&mut transformed);
        Multiplier(Zeroizing::new(transformed.iter().map(|&x| Factor::new(x, self.q)).collect()))
    }

    /// Returns the product.
    pub(super) fn product(&self, polynomial: &[u64], by: &Multiplier) -> Residues {
        let mut out = Zeroizing::new(polynomial.to_vec());
        self.forward(&mut out);
        out.iter_mut().zip(by.0.iter()).for_each(|(x, factor)| *x = factor.times(*x, self.q));
        self.backward(&mut out);
        out
    }

    /// Returns small numbers modulo the prime.
    pub(super) fn residues(&self, small: &[i64]) -> Residues {
        Zeroizing::new(small.iter().map(|&x| x.rem_euclid(self.q as i64) as u64).collect())
    }
}

/// Draws uniform residues modulo q: the lower 50 bits of each word of 8 bytes of the stream. Values that
/// are not below q are skipped.
pub(super) fn uniform(stream: &mut Stream, q: u64) -> Vec<u64> {
    let mut out = Vec::with_capacity(N);
    let mut bytes = vec![0; 8 * N];
    while out.len() < N {
        let missing = 8 * (N - out.len());
        stream.fill(&mut bytes[..missing]);
        let words =
            bytes[..missing].as_chunks().0.iter().map(|&word| u64::from_le_bytes(word) & ((1 << WIDTH) - 1));
        out.extend(words.filter(|&x| x < q));
    }
    out
}

/// Draws -1, 0 and 1 with equal probability: bytes below 255, modulo 3, minus 1.
pub(super) fn ternary(stream: &mut Stream) -> Zeroizing<Vec<i64>> {
    let mut out = Zeroizing::new(Vec::with_capacity(N));
    let mut bytes = Zeroizing::new(vec![0; N]);
    while out.len() < N {
        let missing = N - out.len();
        stream.fill(&mut bytes[..missing]);
        out.extend(bytes[..missing].iter().filter(|&&byte| byte < 255).map(|byte| i64::from(byte % 3) - 1));
    }
    out
}

/// Draws centred binomial numbers of variance 10.5: for each word of 8 bytes, the number of ones among the
/// first 21 bits minus that among the next 21.
pub(super) fn errors(stream: &mut Stream, count: usize) -> Zeroizing<Vec<i64>> {
    let mut bytes = Zeroizing::new(vec![0; 8 * count]);
    stream.fill(&mut bytes);
    let ones = |word: u64| i64::from((word & 0x1f_ffff).count_ones());
    let words = bytes.as_chunks().0.iter().map(|&word| u64::from_le_bytes(word));
    Zeroizing::new(words.map(|word| ones(word) - ones(word >> 21)).collect())
}

/// Returns the bytes of `count` packed coefficients.
#[must_use]
pub fn packed_bytes(count: usize) -> usize {
    (count * WIDTH).div_ceil(8)
}

/// Packs coefficients of 50 bits one after the other, from the lowest bit of the first byte on.
pub(super) fn pack(coefficients: &[u64], out: &mut Vec<u8>) {
    let (mut held, mut bits) = (0u128, 0);
    for &x in coefficients {
        held |= u128::from(x) << bits;
        bits += WIDTH;
        while bits >= 8 {
            out.push(held as u8);
            held >>= 8;
            bits -= 8;
        }
    }
    if bits > 0 {
        out.push(held as u8);
    }
}

/// Unpacks coefficients. Returns `None` if a coefficient is not below q, or if bits after the last one are
/// set.
pub(super) fn unpack(bytes: &[u8], count: usize, q: u64) -> Option<Vec<u64>> {
    let mut out = Vec::with_capacity(count);
    let (mut held, mut bits) = (0u128, 0);
    let mut bytes = bytes.iter();
    while out.len() < count {
        while bits < WIDTH {
            held |= u128::from(*bytes.next()?) << bits;
            bits += 8;
        }
        out.push(held as u64 & ((1 << WIDTH) - 1));
        held >>= WIDTH;
        bits -= WIDTH;
    }
    (held == 0 && bytes.next().is_none() && out.iter().all(|&x| x < q)).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_are_those_of_the_schoolbook() {
        for prime in primes() {
            let mut stream = Stream::new(&[3; 32], "test", &[]);
            let (a, mut b) = (uniform(&mut stream, prime.q), vec![0; N]);
            let terms: Vec<(usize, u64)> =
                (0..9).map(|i| ((i * 1237) % N, uniform(&mut stream, prime.q)[0])).collect();
            terms.iter().for_each(|&(place, x)| b[place] = x);
            let mut expected = vec![0; N];
            for (i, &x) in a.iter().enumerate() {
                for &(place, y) in &terms {
                    let product = times(x, y, prime.q);
                    let at = &mut expected[(i + place) % N];
                    *at = if i + place < N {
                        plus(*at, product, prime.q)
                    } else {
                        minus(*at, product, prime.q)
                    };
                }
            }
            assert_eq!(*prime.product(&a, &prime.multiplier(&b)), expected);
        }
    }

    #[test]
    fn coefficients_travel_in_50_bits() {
        for count in [1, 4, 500, N] {
            let all = uniform(&mut Stream::new(&[4; 32], "test", &[]), PRIMES[0])[..count].to_vec();
            let mut bytes = Vec::new();
            pack(&all, &mut bytes);
            assert_eq!(bytes.len(), packed_bytes(count));
            assert_eq!(unpack(&bytes, count, PRIMES[0]), Some(all));
            assert_eq!(unpack(&bytes[1..], count, PRIMES[0]), None);
            bytes[..7].fill(0xff);
            assert_eq!(unpack(&bytes, count, PRIMES[0]), None, "not below q");
        }
    }
}
