//! Sums of products mod 2^16 and 2^64 with the machine's vector instructions. They are written out for
//! AVX2 and AVX-512, because the compiler would multiply 64-bit words one by one.

pub use flyswarm_learn::sketch::machines;
use pulp::{Arch, NullaryFnOnce};

/// Operations that multiply and add many words of type `W` at once.
pub(crate) trait Lanes<W>: Copy {
    /// Words that are multiplied at once, in memory.
    type Block: Copy;
    /// The same words in a register.
    type Vector: Copy;
    /// Partial sums, one per lane.
    type Sum: Copy;
    /// True if there are registers for twenty sums, false if only for four.
    const WIDE: bool;
    /// Splits words into whole blocks and the remaining words.
    fn blocks(words: &[W]) -> (&[Self::Block], &[W]);
    /// Returns whole blocks that can be written.
    fn blocks_mut(words: &mut [W]) -> &mut [Self::Block];
    /// Returns a + b, word by word.
    fn plus(self, a: Self::Block, b: Self::Block) -> Self::Block;
    /// Returns the sum zero.
    fn zero(self) -> Self::Sum;
    /// Loads a block.
    fn load(self, block: Self::Block) -> Self::Vector;
    /// Returns sum + a b, lane by lane.
    fn add(self, sum: Self::Sum, a: Self::Vector, b: Self::Vector) -> Self::Sum;
    /// Returns the sum of all lanes.
    fn total(self, sum: Self::Sum) -> W;
    /// Returns all lanes.
    fn store(self, sum: Self::Sum) -> Self::Block;
    /// Returns the sum of the products of pairs of polynomials with 49 coefficients, lowest first.
    fn convolved<'a>(self, pairs: impl Iterator<Item = [&'a [W; 49]; 2]>) -> [W; 128]
    where
        W: 'a;
}

/// Computes [`Lanes::convolved`] with vectors of N words: B vectors hold a polynomial that begins at
/// any lane, Q vectors hold one that begins at the first lane, and OUT = B + Q - 1 vectors hold a
/// product.
#[inline(always)]
fn convolve<'a, W, L, const N: usize, const B: usize, const Q: usize, const OUT: usize>(
    lanes: L,
    pairs: impl Iterator<Item = [&'a [W; 49]; 2]>,
) -> [W; 128]
where
    W: Copy + Default + 'a,
    L: Lanes<W, Block = [W; N]>,
{
    const { assert!(B * N >= 48 + N && Q * N >= 49 && OUT == B + Q - 1 && OUT * N <= 128) };
    let mut sums = [lanes.zero(); OUT];
    for [a, b] in pairs {
        let (mut factors, mut padded) = ([W::default(); 64], [W::default(); 160]);
        factors[..49].copy_from_slice(a);
        padded[N..N + 49].copy_from_slice(b);
        for lane in 0..N {
            // Shift the second polynomial to this lane, and multiply it by each coefficient of this
            // lane.
            let mut shifted = [lanes.load([W::default(); N]); B];
            for (at, shifted) in shifted.iter_mut().enumerate() {
                let words = padded[N - lane + at * N..].first_chunk::<N>();
                *shifted = lanes.load(words.copied().unwrap_or([W::default(); N]));
            }
            for at in 0..Q {
                // The last vector of a polynomial is not full.
                if at + 1 < Q || at * N + lane < 49 {
                    let factor = lanes.load([factors[at * N + lane]; N]);
                    for (sum, &words) in sums[at..at + B].iter_mut().zip(&shifted) {
                        *sum = lanes.add(*sum, factor, words);
                    }
                }
            }
        }
    }
    let mut out = [W::default(); 128];
    for (out, sum) in out.chunks_exact_mut(N).zip(sums) {
        out.copy_from_slice(&lanes.store(sum));
    }
    out
}

/// Work that is the same on every machine.
pub(crate) trait Work<W> {
    /// Does the work with these lanes.
    fn with<L: Lanes<W>>(self, lanes: L);
}

/// Lanes for any machine.
#[derive(Clone, Copy, Debug)]
struct Plain;

macro_rules! plain {
    ($($word:ty, $count:literal, $b:literal, $q:literal, $out:literal);*) => {$(
        impl Lanes<$word> for Plain {
            type Block = [$word; $count];
            type Vector = [$word; $count];
            type Sum = [$word; $count];
            const WIDE: bool = false;
            #[inline(always)]
            fn blocks(words: &[$word]) -> (&[Self::Block], &[$word]) {
                words.as_chunks()
            }
            #[inline(always)]
            fn blocks_mut(words: &mut [$word]) -> &mut [Self::Block] {
                words.as_chunks_mut().0
            }
            #[inline(always)]
            fn plus(self, a: Self::Block, b: Self::Block) -> Self::Block {
                std::array::from_fn(|lane| a[lane].wrapping_add(b[lane]))
            }
            #[inline(always)]
            fn zero(self) -> Self::Sum {
                [0; $count]
            }
            #[inline(always)]
            fn load(self, block: Self::Block) -> Self::Vector {
                block
            }
            #[inline(always)]
            fn add(self, sum: Self::Sum, a: Self::Vector, b: Self::Vector) -> Self::Sum {
                std::array::from_fn(|lane| sum[lane].wrapping_add(a[lane].wrapping_mul(b[lane])))
            }
            #[inline(always)]
            fn total(self, sum: Self::Sum) -> $word {
                sum.iter().fold(0, |sum, &lane| sum.wrapping_add(lane))
            }
            #[inline(always)]
            fn store(self, sum: Self::Sum) -> Self::Block {
                sum
            }
            #[inline(always)]
            fn convolved<'a>(self, pairs: impl Iterator<Item = [&'a [$word; 49]; 2]>) -> [$word; 128] {
                convolve::<$word, Self, $count, $b, $q, $out>(self, pairs)
            }
        }
    )*};
}

plain!(u16, 16, 4, 4, 7; u64, 4, 13, 13, 25);

#[cfg(target_arch = "x86_64")]
mod x86 {
    use pulp::x86::{V3, V4};
    use pulp::{cast, u16x16, u16x32, u64x4, u64x8};

    use super::Lanes;

    macro_rules! products {
        ($simd:ty, $word:ty, $vector:ty, $count:literal, $wide:literal, $multiply:ident, $add:ident,
         $b:literal, $q:literal, $out:literal) => {
            impl Lanes<$word> for $simd {
                type Block = [$word; $count];
                type Vector = $vector;
                type Sum = $vector;
                const WIDE: bool = $wide;
                #[inline(always)]
                fn blocks(words: &[$word]) -> (&[Self::Block], &[$word]) {
                    words.as_chunks()
                }
                #[inline(always)]
                fn blocks_mut(words: &mut [$word]) -> &mut [Self::Block] {
                    words.as_chunks_mut().0
                }
                #[inline(always)]
                fn plus(self, a: Self::Block, b: Self::Block) -> Self::Block {
                    cast(self.$add(cast(a), cast(b)))
                }
                #[inline(always)]
                fn zero(self) -> Self::Sum {
                    cast([0 as $word; $count])
                }
                #[inline(always)]
                fn load(self, block: Self::Block) -> Self::Vector {
                    cast(block)
                }
                #[inline(always)]
                fn add(self, sum: Self::Sum, a: Self::Vector, b: Self::Vector) -> Self::Sum {
                    self.$add(sum, self.$multiply(a, b))
                }
                #[inline(always)]
                fn total(self, sum: Self::Sum) -> $word {
                    let lanes: [$word; $count] = cast(sum);
                    lanes.iter().fold(0, |sum, &lane| sum.wrapping_add(lane))
                }
                #[inline(always)]
                fn store(self, sum: Self::Sum) -> Self::Block {
                    cast(sum)
                }
                #[inline(always)]
                fn convolved<'a>(self, pairs: impl Iterator<Item = [&'a [$word; 49]; 2]>) -> [$word; 128] {
                    super::convolve::<$word, Self, $count, $b, $q, $out>(self, pairs)
                }
            }
        };
    }

    products!(V4, u16, u16x32, 32, true, wrapping_mul_u16x32, wrapping_add_u16x32, 3, 2, 4);
    products!(V4, u64, u64x8, 8, true, wrapping_mul_u64x8, wrapping_add_u64x8, 7, 7, 13);
    products!(V3, u16, u16x16, 16, false, wrapping_mul_u16x16, wrapping_add_u16x16, 4, 4, 7);

    /// AVX2 multiplies halves of 32 bits, so a vector holds each word and its upper half.
    impl Lanes<u64> for V3 {
        type Block = [u64; 4];
        type Vector = [u64x4; 2];
        /// Products of lower halves, and products with the factor 2^32.
        type Sum = [u64x4; 2];
        const WIDE: bool = false;
        #[inline(always)]
        fn blocks(words: &[u64]) -> (&[Self::Block], &[u64]) {
            words.as_chunks()
        }
        #[inline(always)]
        fn blocks_mut(words: &mut [u64]) -> &mut [Self::Block] {
            words.as_chunks_mut().0
        }
        #[inline(always)]
        fn plus(self, a: Self::Block, b: Self::Block) -> Self::Block {
            cast(self.wrapping_add_u64x4(cast(a), cast(b)))
        }
        #[inline(always)]
        fn zero(self) -> Self::Sum {
            [cast([0u64; 4]); 2]
        }
        #[inline(always)]
        fn load(self, block: Self::Block) -> Self::Vector {
            let words: u64x4 = cast(block);
            [words, self.shr_const_u64x4::<32>(words)]
        }
        #[inline(always)]
        fn add(self, [low, high]: Self::Sum, a: Self::Vector, b: Self::Vector) -> Self::Sum {
            let product =
                |a: u64x4, b: u64x4| -> u64x4 { cast(self.avx2._mm256_mul_epu32(cast(a), cast(b))) };
            let crossed = self.wrapping_add_u64x4(product(a[1], b[0]), product(a[0], b[1]));
            [self.wrapping_add_u64x4(low, product(a[0], b[0])), self.wrapping_add_u64x4(high, crossed)]
        }
        #[inline(always)]
        fn total(self, [low, high]: Self::Sum) -> u64 {
            let (low, high): ([u64; 4], [u64; 4]) = (cast(low), cast(high));
            let sum = |lanes: [u64; 4]| lanes.iter().fold(0u64, |sum, &lane| sum.wrapping_add(lane));
            sum(low).wrapping_add(sum(high) << 32)
        }
        #[inline(always)]
        fn store(self, [low, high]: Self::Sum) -> Self::Block {
            cast(self.wrapping_add_u64x4(low, self.shl_const_u64x4::<32>(high)))
        }
        #[inline(always)]
        fn convolved<'a>(self, pairs: impl Iterator<Item = [&'a [u64; 49]; 2]>) -> [u64; 128] {
            super::convolve::<u64, Self, 4, 13, 13, 25>(self, pairs)
        }
    }
}

/// Returns the sums of products of each of R rows with each of C rows, all of the same length. Words after
/// the last whole block are not counted.
#[inline(always)]
pub(crate) fn products<W: Copy + Default, L: Lanes<W>, const R: usize, const C: usize>(
    lanes: L,
    a: [&[W]; R],
    b: [&[W]; C],
) -> [[W; C]; R] {
    let mut sums = [[lanes.zero(); C]; R];
    let (a, b) = (a.map(|row| L::blocks(row).0), b.map(|row| L::blocks(row).0));
    let len = a.iter().chain(&b).map(|row| row.len()).min().unwrap_or(0);
    let (a, b) = (a.map(|row| &row[..len]), b.map(|row| &row[..len]));
    for at in 0..len {
        let columns: [L::Vector; C] = std::array::from_fn(|column| lanes.load(b[column][at]));
        for (sums, row) in sums.iter_mut().zip(a) {
            let x = lanes.load(row[at]);
            for (sum, y) in sums.iter_mut().zip(columns) {
                *sum = lanes.add(*sum, x, y);
            }
        }
    }
    sums.map(|sums| sums.map(|sum| lanes.total(sum)))
}

/// Word types with lanes.
pub(crate) trait Word: Sized {
    /// Does work with the vector instructions of `arch`.
    fn with(arch: Arch, work: impl Work<Self>);
}

/// Work passed to code that is compiled for the machine of the lanes.
struct On<L, T>(L, T);

macro_rules! words {
    ($($word:ty),*) => {$(
        impl<L: Lanes<$word>, T: Work<$word>> NullaryFnOnce for On<L, ($word, T)> {
            type Output = ();
            #[inline(always)]
            fn call(self) {
                self.1.1.with(self.0);
            }
        }

        impl Word for $word {
            fn with(arch: Arch, work: impl Work<Self>) {
                match arch {
                    #[cfg(target_arch = "x86_64")]
                    Arch::V4(simd) => arch.dispatch(On(simd, (0, work))),
                    #[cfg(target_arch = "x86_64")]
                    Arch::V3(simd) => arch.dispatch(On(simd, (0, work))),
                    _ => arch.dispatch(On(Plain, (0, work))),
                }
            }
        }
    )*};
}

words!(u16, u64);
