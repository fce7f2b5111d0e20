//! Locality-sensitive codes. Bit l of a row's code is the side of random plane l on which the row lies. The
//! Hamming distance H of two codes estimates their angle, cos(pi H / L) (Scott, Yeo & Lampert, *Cross-client
//! Label Propagation*, TMLR 2023, Algorithm 1, lines 3-6).
//!
//! The normal of plane l is row l of a matrix of L x d standard Gaussians from
//! `Stream(seed, "planes", [])`, drawn as described in `sketch::gaussian`.
//!
//! The bit is 1 if the sum of the products, added in the order of the features in binary64, is above 0. A
//! program in another language may compute entries that differ by about 1e-15. Its bits are still the same,
//! except for rows that are within about 1e-13 of a plane.

use pulp::{Arch, NullaryFnOnce};
use rayon::prelude::*;

use super::gaussian::Gaussians;
use flyswarm_data::Dataset;

/// Number of bits of a word of a code.
pub const WORD: usize = 64;
/// Largest number of bits of a code. A distance fits a `u16`, and so does twice a distance.
pub const MAX_BITS: usize = 16_384;

/// Number of rows in a block.
const LANES: usize = 16;
/// Number of planes at a time, each with a sum of [`LANES`] numbers. These sums stay in registers.
const PLANES: usize = 8;

/// Codes of some rows.
#[derive(Clone, PartialEq, Eq)]
pub struct Codes {
    bits: usize,
    words: Vec<u64>,
}

impl std::fmt::Debug for Codes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Codes({} of {} bits, <redacted>)", self.rows(), self.bits)
    }
}

impl Codes {
    /// Makes codes of `bits` bits (a positive multiple of [`WORD`], at most [`MAX_BITS`]) from packed
    /// words, row after row. The first bit of a row is the lowest bit of its first word. Returns `None`
    /// if `bits` or the number of words is invalid.
    #[must_use]
    pub fn from_words(bits: usize, words: Vec<u64>) -> Option<Self> {
        let whole = allowed(bits) && words.len().is_multiple_of(bits / WORD);
        whole.then_some(Self { bits, words })
    }

    /// Computes the codes of all rows of `data` with the planes of `seed`. Returns `None` if
    /// [`from_words`](Self::from_words) would refuse `bits`.
    #[must_use]
    pub fn of(data: &Dataset, seed: &[u8], bits: usize) -> Option<Self> {
        if !allowed(bits) {
            return None;
        }
        let blocks = lanes(data);
        let arch = Arch::new();
        // One word of all rows at a time, because the 64 planes of a word are few enough to be drawn where
        // they are used.
        let columns: Vec<Vec<u64>> = (0..bits / WORD)
            .into_par_iter()
            .map(|word| {
                let planes: Vec<_> = (0..WORD / PLANES)
                    .map(|tile| planes(seed, word * WORD + tile * PLANES, data.features()))
                    .collect();
                arch.dispatch(Sides { planes: &planes, blocks: &blocks })
            })
            .collect();
        let words = (0..data.rows()).flat_map(|row| columns.iter().map(move |column| column[row])).collect();
        Some(Self { bits, words })
    }

    /// Returns the number of bits of each code, L.
    #[must_use]
    pub fn bits(&self) -> usize {
        self.bits
    }

    /// Returns the number of codes.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.words.len() / (self.bits / WORD)
    }

    /// Returns one code, packed.
    #[must_use]
    pub fn row(&self, row: usize) -> &[u64] {
        &self.words[row * (self.bits / WORD)..][..self.bits / WORD]
    }

    /// Returns the codes of these rows, in this order.
    #[must_use]
    pub fn select(&self, rows: &[usize]) -> Self {
        Self { bits: self.bits, words: rows.iter().flat_map(|&row| self.row(row)).copied().collect() }
    }

    /// Returns the Hamming distances between every row of `self` and every row of `other`, row-major,
    /// `self.rows()` x `other.rows()`.
    ///
    /// # Panics
    /// If the codes have different numbers of bits.
    #[must_use]
    pub fn distances(&self, other: &Self) -> Vec<u16> {
        assert_eq!(self.bits, other.bits, "codes of different lengths");
        let arch = Arch::new();
        let width = self.bits / WORD;
        self.words
            .par_chunks(width)
            .flat_map_iter(|row| arch.dispatch(Distances { row, others: &other.words }))
            .collect()
    }
}

fn allowed(bits: usize) -> bool {
    (1..=MAX_BITS).contains(&bits) && bits.is_multiple_of(WORD)
}

/// Draws planes `first` to `first + PLANES`: for each feature, their entries.
fn planes(seed: &[u8], first: usize, features: usize) -> Vec<[f64; PLANES]> {
    let mut out = vec![[0.0; PLANES]; features];
    let mut rows = Gaussians::new(seed, "planes", features, first);
    (0..PLANES).for_each(|plane| rows.row(|feature, entry| out[feature][plane] = entry));
    out
}

/// Arranges rows in blocks, feature after feature. Unused lanes are zero.
fn lanes(data: &Dataset) -> Vec<Vec<[f64; LANES]>> {
    let block = |first: usize| {
        let mut block = vec![[0.0; LANES]; data.features()];
        for (lane, row) in (first..data.rows().min(first + LANES)).enumerate() {
            block.iter_mut().zip(data.row(row)).for_each(|(column, &x)| column[lane] = f64::from(x));
        }
        block
    };
    (0..data.rows()).step_by(LANES).map(block).collect()
}

/// Computes the side of 64 planes for every row of every block.
struct Sides<'a> {
    planes: &'a [Vec<[f64; PLANES]>],
    blocks: &'a [Vec<[f64; LANES]>],
}

impl NullaryFnOnce for Sides<'_> {
    type Output = Vec<u64>;

    #[inline(always)]
    fn call(self) -> Vec<u64> {
        let mut out = Vec::with_capacity(self.blocks.len() * LANES);
        for block in self.blocks {
            let mut words = [0u64; LANES];
            for (tile, planes) in self.planes.iter().enumerate() {
                let mut sums = [[0.0; LANES]; PLANES];
                for (entries, xs) in planes.iter().zip(block) {
                    for (sums, &entry) in sums.iter_mut().zip(entries) {
                        for (sum, &x) in sums.iter_mut().zip(xs) {
                            *sum += entry * x;
                        }
                    }
                }
                for (plane, sums) in sums.iter().enumerate() {
                    for (word, &sum) in words.iter_mut().zip(sums) {
                        *word |= u64::from(sum > 0.0) << (tile * PLANES + plane);
                    }
                }
            }
            out.extend(words);
        }
        out
    }
}

/// Computes the distances of one row to others.
struct Distances<'a> {
    row: &'a [u64],
    others: &'a [u64],
}

impl NullaryFnOnce for Distances<'_> {
    type Output = Vec<u16>;

    #[inline(always)]
    fn call(self) -> Vec<u16> {
        let differing =
            |other: &[u64]| self.row.iter().zip(other).map(|(a, b)| (a ^ b).count_ones()).sum::<u32>();
        // A distance is at most MAX_BITS.
        self.others.chunks_exact(self.row.len()).map(|other| differing(other) as u16).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flyswarm_data::digits::digits;
    use flyswarm_sealed_sum::crypto::stream::Stream;

    fn rows(n: usize, d: usize) -> Dataset {
        let mut stream = Stream::new(b"rows", "test", &[]);
        let values = (0..n * d).map(|_| stream.below(2001) as f32 / 1000.0 - 1.0).collect();
        Dataset::new(d, values, Vec::new(), Vec::new()).unwrap()
    }

    #[test]
    fn every_instruction_set_gives_the_bits_of_the_plain_sum() {
        for (n, d) in [(1, 1), (17, 3), (33, 64), (5, 101)] {
            let data = rows(n, d);
            let codes = Codes::of(&data, b"seed", 128).unwrap();
            for row in 0..n {
                for bit in 0..128 {
                    let plane = planes(b"seed", bit / PLANES * PLANES, d);
                    let sum = plane
                        .iter()
                        .zip(data.row(row))
                        .fold(0.0, |sum, (p, &x)| sum + p[bit % PLANES] * f64::from(x));
                    let found = codes.row(row)[bit / WORD] >> (bit % WORD) & 1;
                    assert_eq!(found, u64::from(sum > 0.0), "row {row} of {n} x {d}, bit {bit}");
                }
            }
        }
    }

    #[test]
    fn entries_are_standard_gaussians() {
        let all: Vec<f64> = (0..250).flat_map(|tile| planes(b"seed", tile * PLANES, 51)).flatten().collect();
        let n = all.len() as f64;
        let moment = |power: i32| all.iter().map(|x| x.powi(power)).sum::<f64>() / n;
        // With 102,000 entries the standard errors are 0.003, 0.004 and 0.03.
        assert!(moment(1).abs() < 0.015 && (moment(2) - 1.0).abs() < 0.02 && (moment(4) - 3.0).abs() < 0.15);
    }

    #[test]
    fn distances_estimate_the_angle() {
        let data = digits();
        let some = data.subset(&(0..40).collect::<Vec<_>>());
        let codes = Codes::of(&some, b"seed", 4096).unwrap();
        let distances = codes.distances(&codes);
        for (i, j) in (0..40).flat_map(|i| (0..40).map(move |j| (i, j))) {
            let dot = |a: usize, b: usize| -> f64 {
                some.row(a).iter().zip(some.row(b)).map(|(&x, &y)| f64::from(x) * f64::from(y)).sum()
            };
            let cosine = dot(i, j) / (dot(i, i) * dot(j, j)).sqrt();
            let angle = cosine.min(1.0).acos() / std::f64::consts::PI;
            let found = f64::from(distances[i * 40 + j]) / 4096.0;
            // The limit is six standard errors of a share of 4,096 bits.
            assert!(
                (found - angle).abs() <= 6.0 * (angle * (1.0 - angle) / 4096.0).sqrt(),
                "{i} {j}: {found} {angle}"
            );
            assert_eq!(distances[i * 40 + j], distances[j * 40 + i]);
        }
    }

    #[test]
    fn lengths_that_are_no_whole_words_are_refused() {
        for bits in [0, 1, 63, 65, MAX_BITS + WORD] {
            assert!(Codes::of(&rows(2, 2), b"seed", bits).is_none(), "{bits}");
        }
        assert!(Codes::from_words(128, vec![0; 3]).is_none());
        assert_eq!(Codes::from_words(128, vec![7; 4]).unwrap().select(&[1]).row(0), [7, 7]);
    }
}
