//! Rings over the words of the computation, with *exceptional* elements. Because their number is large,
//! a false claim passes with a probability below 2^-40. The differences of exceptional elements are
//! units, so a polynomial of degree D that is not 0 has at most D roots among them.
//!
//! - Bits: GF(2^64), all of whose elements are exceptional. A word of 64 lanes is an element.
//! - Integers mod 2^16 and 2^64: the Galois rings of degree 49 over them, Z\[x\] / (x^49 + x^9 + 1). The
//!   2^49 elements with coefficients 0 and 1 are exceptional, because x^49 + x^9 + 1 is irreducible mod 2.

use pulp::Arch;

use super::super::context::blend;
use super::super::{Bits, Ring};
use super::carryless;
pub use super::galois::Galois;
use flyswarm_sealed_sum::crypto::stream::Stream;

/// Ring over words of type [`Extension::Word`].
pub trait Extension: Copy + Default + PartialEq + Send + Sync + std::fmt::Debug + 'static {
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
    /// Writes the differences of elements: loops over results of [`Extension::minus`] copy them twice.
    fn differences(to: &mut [Self], a: &[Self], b: &[Self]);
    /// Returns the product.
    #[must_use]
    fn times(self, other: Self) -> Self;
    /// Returns the sum of products.
    #[must_use]
    fn inner(a: &[Self], b: &[Self]) -> Self;
    /// Returns the sum of weight times vector, for vectors of `len` elements. Missing elements are zeros.
    #[must_use]
    fn weighted(vectors: &[&[Self]], weights: &[Self], len: usize) -> Vec<Self>;
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

/// Draws the bits of a uniform exceptional element.
#[must_use]
pub fn draw_bits(stream: &mut Stream) -> u64 {
    let mut bytes = [0; 8];
    stream.fill(&mut bytes);
    u64::from_le_bytes(bytes)
}

/// Draws the bits of `count` uniform exceptional elements.
#[must_use]
pub fn draw_all(stream: &mut Stream, count: usize) -> Vec<u64> {
    let mut all = vec![0; count];
    blend(stream, &mut all, |_, bits| bits);
    all
}

/// Element of GF(2^64) = GF(2)\[x\] / (x^64 + x^4 + x^3 + x + 1). Bit i is the coefficient of x^i.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gf64(pub u64);

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
    fn differences(to: &mut [Self], a: &[Self], b: &[Self]) {
        for (to, (a, b)) in to.iter_mut().zip(a.iter().zip(b)) {
            *to = a.minus(*b);
        }
    }
    fn times(self, other: Self) -> Self {
        Self::inner(&[self], &[other])
    }
    fn inner(a: &[Self], b: &[Self]) -> Self {
        carryless::inner(a, b)
    }
    fn weighted(vectors: &[&[Self]], weights: &[Self], len: usize) -> Vec<Self> {
        carryless::weighted(vectors, weights, len)
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

/// Runs a loop with the vector instructions of this machine.
#[inline(always)]
pub fn vectorized<T>(run: impl FnOnce() -> T) -> T {
    Arch::new().dispatch(run)
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
            let [x, y] = [(); 2].map(|()| R::exceptional(draw_bits(&mut stream)));
            assert_eq!(x.minus(y).times(x.minus(y).inverse()), one, "differences are units");
            let mut bytes = Vec::new();
            a.write(&mut bytes);
            assert_eq!((bytes.len(), R::read(&bytes)), (R::BYTES, a));
        }
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
