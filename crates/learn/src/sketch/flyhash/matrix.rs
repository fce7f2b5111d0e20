//! Draws the lifting matrix and the signs from their streams, by the rules in [`super`].

use flyswarm_sealed_sum::crypto::stream::Stream;

/// Number of bytes of keystream that are taken at a time.
const BUFFER: usize = 4096;

/// Draws the columns of M, ascending in each row, row after row: m x `ones`, each below `dimension`.
pub(super) fn draw_matrix(seed: &[u8], m: usize, dimension: usize, ones: usize) -> Vec<u32> {
    let word =
        |n: usize| u32::try_from(n).unwrap_or_else(|_| unreachable!("BUG: checked parameters fit u32"));
    let params = [word(m), word(dimension), word(ones)].map(u32::to_le_bytes);
    let mut integers = Integers::new(Stream::new(seed, "flynn/matrix", params.as_flattened()));
    let bounds: Vec<Bound> = (0..ones).map(|i| Bound::new(word(dimension - i))).collect();
    let mut sort = Sort::new(dimension, ones);
    let mut places: Vec<u32> = (0..word(dimension)).collect();
    let mut swaps = vec![0; ones];
    let mut columns = vec![0; m * ones];
    for row in columns.chunks_exact_mut(ones) {
        for (i, ((bound, swap), column)) in bounds.iter().zip(&mut swaps).zip(&mut *row).enumerate() {
            *swap = i + integers.below(bound) as usize;
            places.swap(i, *swap);
            *column = places[i];
        }
        for (i, &swap) in swaps.iter().enumerate().rev() {
            places.swap(i, swap);
        }
        sort.ascending(row);
    }
    columns
}

/// Draws 1 or -1 for each feature.
pub(super) fn draw_signs(seed: &[u8], features: usize) -> Vec<f32> {
    let mut bytes = vec![0; features.div_ceil(8)];
    Stream::new(seed, "flynn/signs", &(features as u32).to_le_bytes()).fill(&mut bytes);
    (0..features).map(|j| if bytes[j / 8] >> (j % 8) & 1 == 1 { -1.0 } else { 1.0 }).collect()
}

/// Draws the same integers as [`Stream::below`], but takes the keystream in large pieces.
struct Integers {
    stream: Stream,
    bytes: [u8; BUFFER],
    used: usize,
}

/// The n of `below(n)`, and the first word that is skipped.
struct Bound {
    n: u32,
    limit: u64,
}

impl Bound {
    fn new(n: u32) -> Self {
        Self { n, limit: (1 << 32) / u64::from(n) * u64::from(n) }
    }
}

impl Integers {
    fn new(stream: Stream) -> Self {
        Self { stream, bytes: [0; BUFFER], used: BUFFER }
    }

    fn below(&mut self, bound: &Bound) -> u32 {
        loop {
            if self.used == BUFFER {
                self.stream.fill(&mut self.bytes);
                self.used = 0;
            }
            let word = self.bytes.as_chunks::<4>().0[self.used / 4];
            self.used += 4;
            let v = u32::from_le_bytes(word);
            if u64::from(v) < bound.limit {
                return v % bound.n;
            }
        }
    }
}

/// Sorts distinct columns: dense rows with a map of all columns, sparse rows by comparisons.
struct Sort {
    /// Map with a bit for each column, all 0 between calls; empty for sparse rows.
    map: Vec<u64>,
}

impl Sort {
    fn new(dimension: usize, ones: usize) -> Self {
        let words = dimension.div_ceil(64);
        Self { map: if words <= ones { vec![0; words] } else { Vec::new() } }
    }

    fn ascending(&mut self, row: &mut [u32]) {
        if self.map.is_empty() {
            return row.sort_unstable();
        }
        row.iter().for_each(|&column| self.map[column as usize / 64] |= 1 << (column % 64));
        let mut places = row.iter_mut();
        for (base, bits) in (0..).step_by(64).zip(&mut self.map) {
            while *bits != 0 {
                if let Some(place) = places.next() {
                    *place = base + bits.trailing_zeros();
                }
                *bits &= *bits - 1;
            }
        }
    }
}
