//! Secret permutations, one for each row, known to two parties.

use zeroize::Zeroize;

use super::Ring;
use flyswarm_sealed_sum::crypto::stream::Stream;

/// Number of words drawn at once.
const BLOCK: usize = 1024;

/// One permutation for each row, of `width` places.
#[derive(Clone, PartialEq, Eq)]
pub struct Permutations {
    width: usize,
    places: Vec<u16>,
}

impl std::fmt::Debug for Permutations {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Permutations({} places, <redacted>)", self.width)
    }
}

impl Drop for Permutations {
    fn drop(&mut self) {
        self.places.zeroize();
    }
}

impl Permutations {
    /// Draws uniform permutations (Fisher & Yates): it starts with the places in order, and for i = 0, 1,
    /// .. swaps place i with place i + below(width - i), where `below` is [`Stream::below`].
    #[must_use]
    pub fn draw(stream: &mut Stream, rows: usize, width: usize) -> Self {
        let mut words = Words { stream, block: [0; 4 * BLOCK], next: 4 * BLOCK };
        let mut places = Vec::with_capacity(rows * width);
        for row in 0..rows {
            places.extend((0..width).map(|place| place as u16));
            let places = &mut places[row * width..];
            for i in 0..width.saturating_sub(1) {
                places.swap(i, i + words.below((width - i) as u32) as usize);
            }
        }
        Self { width, places }
    }

    /// Uses the first row's permutation for every row: a bug that a test plants.
    #[cfg(test)]
    pub(super) fn one_for_all(mut self) -> Self {
        let first = self.places.get(..self.width).map(<[u16]>::to_vec).unwrap_or_default();
        self.places.chunks_mut(self.width).for_each(|row| row.copy_from_slice(&first));
        self
    }

    /// Permutes each row: place i gets the word at the permutation's i-th place.
    #[must_use]
    pub fn apply<T: Ring>(&self, rows: &[T]) -> Vec<T> {
        let rows = rows.chunks_exact(self.width).zip(self.places.chunks_exact(self.width));
        rows.flat_map(|(row, places)| places.iter().map(|&place| row[usize::from(place)])).collect()
    }

    /// Permutes each row back.
    #[must_use]
    pub fn invert<T: Ring>(&self, rows: &[T]) -> Vec<T> {
        let mut out = vec![T::default(); rows.len()];
        let pairs = out.chunks_exact_mut(self.width).zip(rows.chunks_exact(self.width));
        for ((out, row), places) in pairs.zip(self.places.chunks_exact(self.width)) {
            row.iter().zip(places).for_each(|(&x, &place)| out[usize::from(place)] = x);
        }
        out
    }
}

/// Words of a stream, read in large blocks.
struct Words<'a> {
    stream: &'a mut Stream,
    block: [u8; 4 * BLOCK],
    next: usize,
}

impl Words<'_> {
    /// Draws like [`Stream::below`].
    fn below(&mut self, n: u32) -> u32 {
        let limit = (1u64 << 32) / u64::from(n) * u64::from(n);
        loop {
            if self.next == self.block.len() {
                self.stream.fill(&mut self.block);
                self.next = 0;
            }
            let word = self.block[self.next..].first_chunk().map_or(0, |word| u32::from_le_bytes(*word));
            self.next += 4;
            if u64::from(word) < limit {
                return word % n;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_those_of_the_plain_stream_and_invert() {
        let mut found = Stream::new(&[1; 32], "test", &[]);
        let mut plain = Stream::new(&[1; 32], "test", &[]);
        let drawn = Permutations::draw(&mut found, 300, 37);
        for row in drawn.places.chunks(37) {
            let mut expected: Vec<u16> = (0..37).collect();
            (0..36).for_each(|i| expected.swap(i, i + plain.below(37 - i as u32) as usize));
            assert_eq!(row, expected);
        }
        let rows: Vec<u64> = (0..300 * 37).collect();
        assert_ne!(drawn.apply(&rows), rows);
        assert_eq!(drawn.invert(&drawn.apply(&rows)), rows);
    }
}
