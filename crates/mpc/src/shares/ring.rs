//! Words that can be shared, and a party's shares of a vector of them.

use zeroize::Zeroize;

/// Ring of words: integers mod 2^16 or 2^64, or bits in parallel.
pub trait Ring: Copy + Default + Eq + Send + Sync + std::fmt::Debug + Zeroize + 'static {
    /// Bytes of a word.
    const BYTES: usize;
    /// Returns the sum.
    #[must_use]
    fn add(self, other: Self) -> Self;
    /// Returns the difference.
    #[must_use]
    fn sub(self, other: Self) -> Self;
    /// Returns the product.
    #[must_use]
    fn mul(self, other: Self) -> Self;
    /// Reads the word at the start of `bytes`, little-endian. `bytes` has at least [`Ring::BYTES`] bytes.
    #[must_use]
    fn read(bytes: &[u8]) -> Self;
    /// Appends the word, little-endian.
    fn write(self, out: &mut Vec<u8>);
    /// Appends words.
    fn write_all(words: &[Self], out: &mut Vec<u8>);
    /// Reads all whole words of `bytes`.
    #[must_use]
    fn read_all(bytes: &[u8]) -> Vec<Self> {
        bytes.chunks_exact(Self::BYTES).map(Self::read).collect()
    }
    /// Returns the bits of the word.
    #[must_use]
    fn bits(self) -> u64;
    /// Returns the word with these bits. Bits that do not fit are dropped.
    #[must_use]
    fn from_bits(bits: u64) -> Self;
}

/// Bits in parallel: the sum is exclusive or, the product is and.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Zeroize)]
pub struct Xor<W>(pub W);

/// Word of 64 lanes with one bit each.
pub type Bits = Xor<u64>;

macro_rules! rings {
    ($($word:ty),*) => {$(
        impl Ring for $word {
            const BYTES: usize = size_of::<$word>();
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn sub(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            #[inline(always)]
            fn read(bytes: &[u8]) -> Self {
                bytes.first_chunk().map_or(0, |word| Self::from_le_bytes(*word))
            }
            #[inline(always)]
            fn write(self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
            fn write_all(words: &[Self], out: &mut Vec<u8>) {
                let start = out.len();
                out.resize(start + words.len() * Self::BYTES, 0);
                let places = out[start..].as_chunks_mut::<{ size_of::<$word>() }>().0;
                places.iter_mut().zip(words).for_each(|(place, word)| *place = word.to_le_bytes());
            }
            #[inline(always)]
            fn bits(self) -> u64 {
                self.into()
            }
            #[inline(always)]
            fn from_bits(bits: u64) -> Self {
                bits as Self
            }
        }

        impl Ring for Xor<$word> {
            const BYTES: usize = size_of::<$word>();
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                Self(self.0 ^ other.0)
            }
            #[inline(always)]
            fn sub(self, other: Self) -> Self {
                Self(self.0 ^ other.0)
            }
            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                Self(self.0 & other.0)
            }
            #[inline(always)]
            fn read(bytes: &[u8]) -> Self {
                Self(<$word as Ring>::read(bytes))
            }
            #[inline(always)]
            fn write(self, out: &mut Vec<u8>) {
                self.0.write(out);
            }
            fn write_all(words: &[Self], out: &mut Vec<u8>) {
                let start = out.len();
                out.resize(start + words.len() * Self::BYTES, 0);
                let places = out[start..].as_chunks_mut::<{ size_of::<$word>() }>().0;
                places.iter_mut().zip(words).for_each(|(place, word)| *place = word.0.to_le_bytes());
            }
            #[inline(always)]
            fn bits(self) -> u64 {
                self.0.into()
            }
            #[inline(always)]
            fn from_bits(bits: u64) -> Self {
                Self(bits as $word)
            }
        }
    )*};
}

rings!(u16, u64);

/// Shares of a vector that one party holds: the share with the party's number, and the next share.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Shared<T> {
    /// Share i, at party i.
    pub own: Vec<T>,
    /// Share i + 1 mod 3, at party i.
    pub next: Vec<T>,
}

impl<T> std::fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Shared({} words, <redacted>)", self.own.len())
    }
}

impl<T: Ring> Shared<T> {
    /// Returns shares of `len` zeros.
    #[must_use]
    pub fn zeros(len: usize) -> Self {
        Self { own: vec![T::default(); len], next: vec![T::default(); len] }
    }

    /// Returns the number of words.
    #[must_use]
    pub fn len(&self) -> usize {
        self.own.len()
    }

    /// Returns whether the vector is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.own.is_empty()
    }

    /// Applies the same linear map to both shares.
    #[must_use]
    pub fn map<U: Ring>(&self, f: impl Fn(&[T]) -> Vec<U>) -> Shared<U> {
        Shared { own: f(&self.own), next: f(&self.next) }
    }

    /// Applies a linear map word by word.
    #[must_use]
    pub fn each(&self, f: impl Fn(T) -> T) -> Self {
        self.map(|share| share.iter().map(|&x| f(x)).collect())
    }

    /// Combines this vector with another one word by word.
    fn zip(&self, other: &Self, f: impl Fn(T, T) -> T) -> Self {
        let of = |a: &[T], b: &[T]| a.iter().zip(b).map(|(&a, &b)| f(a, b)).collect();
        Self { own: of(&self.own, &other.own), next: of(&self.next, &other.next) }
    }

    /// Returns the sum.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        self.zip(other, T::add)
    }

    /// Returns the difference.
    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        self.zip(other, T::sub)
    }

    /// Returns the product with a public number.
    #[must_use]
    pub fn times(&self, factor: T) -> Self {
        self.each(|x| x.mul(factor))
    }

    /// Adds a vector in place.
    pub fn add(&mut self, other: &Self) {
        self.own.iter_mut().zip(&other.own).for_each(|(a, &b)| *a = a.add(b));
        self.next.iter_mut().zip(&other.next).for_each(|(a, &b)| *a = a.add(b));
    }

    /// Returns a range of the words.
    #[must_use]
    pub fn slice(&self, range: std::ops::Range<usize>) -> Self {
        Self { own: self.own[range.clone()].to_vec(), next: self.next[range].to_vec() }
    }

    /// Splits the vector into vectors of `len` words each.
    #[must_use]
    pub fn chunks(&self, len: usize) -> Vec<Self> {
        (0..self.len()).step_by(len.max(1)).map(|at| self.slice(at..self.len().min(at + len))).collect()
    }

    /// Concatenates vectors.
    #[must_use]
    pub fn concat<'a>(parts: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut whole = Self::default();
        for part in parts {
            whole.append(part);
        }
        whole
    }

    /// Reserves memory for `len` more words.
    pub fn reserve(&mut self, len: usize) {
        self.own.reserve_exact(len);
        self.next.reserve_exact(len);
    }

    /// Appends a vector.
    pub fn append(&mut self, other: &Self) {
        self.own.extend_from_slice(&other.own);
        self.next.extend_from_slice(&other.next);
    }

    /// Returns this party's part of the products, word by word. The parts of the three parties add up to
    /// the products.
    #[must_use]
    pub fn product(&self, other: &Self) -> Vec<T> {
        let x = self.own.iter().zip(&self.next);
        let y = other.own.iter().zip(&other.next);
        x.zip(y).map(|((&x, &x1), (&y, &y1))| x.mul(y.add(y1)).add(x1.mul(y))).collect()
    }
}

impl<T: Zeroize> Zeroize for Shared<T> {
    fn zeroize(&mut self) {
        self.own.zeroize();
        self.next.zeroize();
    }
}
