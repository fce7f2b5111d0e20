//! Rings over the words of the computation, with so many *exceptional* elements that a false claim passes
//! with a probability below 2^-40. The differences of exceptional elements are units, so a polynomial of
//! degree D that is not 0 has at most D roots among them.
//!
//! - Bits: GF(2^64), all of whose elements are exceptional. A word of 64 lanes is an element.
//! - Integers mod 2^16 and 2^64: the Galois rings of degree 49 over them, Z\[x\] / (x^49 + x^9 + 1). The
//!   2^49 elements with coefficients 0 and 1 are exceptional, because x^49 + x^9 + 1 is irreducible mod 2.

use pulp::Arch;

use super::super::{Bits, Ring};
use flyswarm_sealed_sum::crypto::stream::Stream;

/// Ring over words of type [`Extension::Word`].
pub trait Extension: Copy + PartialEq + Send + Sync + std::fmt::Debug + 'static {
    /// Words of the computation.
    type Word: Ring;
    /// Bytes of an element.
    const BYTES: usize;
    /// Bits of the number of an exceptional element.
    const MASK: u64;
    /// Returns 0.
    #[must_use]
    fn zero() -> Self;
    /// Returns the exceptional element whose coefficients are the lowest bits of `bits`.
    #[must_use]
    fn exceptional(bits: u64) -> Self;
    /// Returns the element whose constant coefficient is `word`. For bits, the lanes are the coefficients.
    #[must_use]
    fn embed(word: Self::Word) -> Self;
    /// Returns the sum.
    #[must_use]
    fn plus(self, other: Self) -> Self;
    /// Returns the difference.
    #[must_use]
    fn minus(self, other: Self) -> Self;
    /// Returns the product.
    #[must_use]
    fn times(self, other: Self) -> Self;
    /// Returns the product with the element that a word embeds to.
    #[must_use]
    fn scaled(self, word: Self::Word) -> Self {
        self.times(Self::embed(word))
    }
    /// Returns the inverse of a unit.
    #[must_use]
    fn inverse(self) -> Self;
    /// Returns a uniform element.
    #[must_use]
    fn draw(stream: &mut Stream) -> Self;
    /// Appends the element, coefficient after coefficient, little-endian.
    fn write(self, out: &mut Vec<u8>);
    /// Reads an element from [`Extension::BYTES`] bytes.
    #[must_use]
    fn read(bytes: &[u8]) -> Self;
}

/// Draws a uniform exceptional element.
#[must_use]
pub fn challenge<R: Extension>(stream: &mut Stream) -> R {
    R::exceptional(draw_bits(stream))
}

/// Draws the bits of a uniform exceptional element.
#[must_use]
pub fn draw_bits(stream: &mut Stream) -> u64 {
    let mut bytes = [0; 8];
    stream.fill(&mut bytes);
    u64::from_le_bytes(bytes)
}

/// Element of GF(2^64) = GF(2)\[x\] / (x^64 + x^4 + x^3 + x + 1). Bit i is the coefficient of x^i.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gf64(pub u64);

/// Returns the low 64 bits of the product of two polynomials over GF(2), in constant time: the bits are
/// spread out, so that carries do not reach the next used bit (Pornin, BearSSL, *ghash_ctmul64*).
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

impl Extension for Gf64 {
    type Word = Bits;
    const BYTES: usize = 8;
    const MASK: u64 = u64::MAX;

    #[inline(always)]
    fn zero() -> Self {
        Self(0)
    }
    #[inline(always)]
    fn exceptional(bits: u64) -> Self {
        Self(bits)
    }
    #[inline(always)]
    fn embed(word: Bits) -> Self {
        Self(word.0)
    }
    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        Self(self.0 ^ other.0)
    }
    #[inline(always)]
    fn minus(self, other: Self) -> Self {
        Self(self.0 ^ other.0)
    }
    #[inline(always)]
    fn times(self, other: Self) -> Self {
        let low = low_product(self.0, other.0);
        let high = low_product(self.0.reverse_bits(), other.0.reverse_bits()).reverse_bits() >> 1;
        // x^64 = x^4 + x^3 + x + 1.
        let over = high >> 63 ^ high >> 61 ^ high >> 60;
        let high = high ^ over;
        Self(low ^ high ^ high << 1 ^ high << 3 ^ high << 4)
    }
    fn inverse(self) -> Self {
        // The power 2^64 - 2.
        let mut result = self;
        for _ in 0..62 {
            result = result.times(result).times(self);
        }
        result.times(result)
    }
    fn draw(stream: &mut Stream) -> Self {
        Self(draw_bits(stream))
    }
    fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0.to_le_bytes());
    }
    fn read(bytes: &[u8]) -> Self {
        Self(<u64 as Ring>::read(bytes))
    }
}

/// Degree of the Galois rings.
pub const DEGREE: usize = 49;
/// Middle exponent of the modulus x^49 + x^9 + 1.
const MIDDLE: usize = 9;

/// Element of a Galois ring: its coefficients, lowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Galois<W>(pub [W; DEGREE]);

impl<W: Ring> Galois<W> {
    /// Returns the remainder of a polynomial of degree 96 at most.
    #[must_use]
    #[inline(always)]
    pub fn reduced(mut product: [W; 2 * DEGREE - 1]) -> Self {
        for at in (DEGREE..product.len()).rev() {
            let high = product[at];
            product[at - DEGREE] = product[at - DEGREE].sub(high);
            product[at - DEGREE + MIDDLE] = product[at - DEGREE + MIDDLE].sub(high);
        }
        Self(std::array::from_fn(|at| product[at]))
    }
}

impl<W: Ring> Extension for Galois<W> {
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
    fn plus(self, other: Self) -> Self {
        Self(std::array::from_fn(|at| self.0[at].add(other.0[at])))
    }
    #[inline(always)]
    fn minus(self, other: Self) -> Self {
        Self(std::array::from_fn(|at| self.0[at].sub(other.0[at])))
    }
    #[inline(always)]
    fn times(self, other: Self) -> Self {
        let mut product = [W::default(); 2 * DEGREE - 1];
        for at in 0..DEGREE {
            let a = self.0[at];
            for to in 0..DEGREE {
                product[at + to] = product[at + to].add(a.mul(other.0[to]));
            }
        }
        Self::reduced(product)
    }
    #[inline(always)]
    fn scaled(self, word: W) -> Self {
        Self(self.0.map(|x| x.mul(word)))
    }
    fn inverse(self) -> Self {
        // Mod 2 by Fermat: the power 2^49 - 2. Then each step of Newton doubles the number of right bits.
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

/// Points 0, 1, .. `count` - 1 of a polynomial, and the weights with which its values there give its value
/// at any other point (Lagrange).
#[derive(Debug)]
pub struct Points<R> {
    /// For each point, the inverse of the product of its differences from all others.
    inverses: Vec<R>,
}

impl<R: Extension> Points<R> {
    /// Prepares `count` points.
    #[must_use]
    pub fn new(count: usize) -> Self {
        let inverse = |at: usize| {
            let others = (0..count).filter(|&other| other != at);
            let difference = |other: usize| point::<R>(at).minus(point(other));
            others.map(difference).fold(R::exceptional(1), R::times).inverse()
        };
        Self { inverses: (0..count).map(inverse).collect() }
    }

    /// Returns the weights of the values for the value at `x`.
    #[must_use]
    pub fn weights(&self, x: R) -> Vec<R> {
        let count = self.inverses.len();
        let difference = |at: usize| x.minus(point(at));
        // Products of the differences before each point, then times those after it.
        let mut weights = Vec::with_capacity(count);
        let mut product = R::exceptional(1);
        for at in 0..count {
            weights.push(product.times(self.inverses[at]));
            product = product.times(difference(at));
        }
        let mut product = R::exceptional(1);
        for at in (0..count).rev() {
            weights[at] = weights[at].times(product);
            product = product.times(difference(at));
        }
        weights
    }
}

/// Returns the point with this number.
#[must_use]
pub fn point<R: Extension>(number: usize) -> R {
    R::exceptional(number as u64)
}

/// Runs a loop with the vector instructions of this machine.
#[inline(always)]
pub fn vectorized<T>(run: impl FnOnce() -> T) -> T {
    Arch::new().dispatch(run)
}

/// Returns the sum of products.
#[must_use]
pub fn inner<R: Extension>(a: &[R], b: &[R]) -> R {
    vectorized(
        #[inline(always)]
        || {
            let mut sum = R::zero();
            for (&a, &b) in a.iter().zip(b) {
                sum = sum.plus(a.times(b));
            }
            sum
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring_laws<R: Extension>() {
        let mut stream = Stream::new(&[7; 32], "test", &[]);
        let one = R::exceptional(1);
        for _ in 0..20 {
            let [a, b, c] = [(); 3].map(|()| R::draw(&mut stream));
            assert_eq!(a.times(b), b.times(a));
            assert_eq!(a.times(b).times(c), a.times(b.times(c)));
            assert_eq!(a.times(b.plus(c)), a.times(b).plus(a.times(c)));
            assert_eq!(a.times(one), a);
            assert_eq!(a.plus(b).minus(b), a);
            let (x, y) = (challenge::<R>(&mut stream), challenge::<R>(&mut stream));
            assert_eq!(x.minus(y).times(x.minus(y).inverse()), one, "differences are units");
            let mut bytes = Vec::new();
            a.write(&mut bytes);
            assert_eq!((bytes.len(), R::read(&bytes)), (R::BYTES, a));
        }
        // A polynomial of degree 4 through its values at 5 points.
        let coefficients: Vec<R> = (0..5).map(|_| R::draw(&mut stream)).collect();
        let value = |x: R| coefficients.iter().rev().fold(R::zero(), |sum, &c| sum.times(x).plus(c));
        let values: Vec<R> = (0..5).map(|at| value(point(at))).collect();
        let x = challenge::<R>(&mut stream);
        assert_eq!(inner(&Points::new(5).weights(x), &values), value(x));
    }

    #[test]
    fn extensions_are_rings_whose_exceptional_elements_differ_by_units() {
        ring_laws::<Gf64>();
        ring_laws::<Galois<u16>>();
        ring_laws::<Galois<u64>>();
    }

    #[test]
    fn the_moduli_are_irreducible_over_two_elements() {
        // Rabin: x^(2^n) = x, and x^(2^(n / p)) - x is a unit for each prime p that divides n.
        let x = Gf64(2);
        let square = |x: Gf64, times: u32| (0..times).fold(x, |x, _| x.times(x));
        assert_eq!(square(x, 64), x);
        let half = square(x, 32).minus(x);
        assert_eq!(half.times(half.inverse()), Gf64(1));
        let x = Galois::<u16>::exceptional(2);
        let odd = |x: Galois<u16>| Galois(x.0.map(|x| x & 1));
        let square = |x: Galois<u16>, times: u32| (0..times).fold(x, |x, _| odd(x.times(x)));
        assert_eq!(square(x, 49), x);
        let seventh = odd(square(x, 7).minus(x));
        assert_eq!(seventh.times(seventh.inverse()), Galois::exceptional(1));
    }
}
