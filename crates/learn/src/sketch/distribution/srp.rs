//! Signs of random projections (paper, Definition A.1): each row has p = log2 B planes. A record is on one
//! side or the other of each plane. These p sides, read as a number, select the record's counter.
//!
//! Two records at an angle a collide in a row with probability (1 - a / pi)^p. The normal of plane l is row l
//! of a matrix of R p x d standard Gaussians from `Stream(seed, "sketch/planes", "")`. They are drawn in the
//! same way as in `lsh` and then rounded to binary32. Bit i of a record's number in row r is 1 if its product
//! with plane r p + i is above 0. Products and their sum are computed in binary32, and products are added in
//! the order of the features, starting from 0, never fused. So a record of zeros has the number 0 in every
//! row.
//!
//! For speed, a register holds one feature of `LANES` records, and the p sums of a row stay in registers
//! while the features are read once. `BLOCKS` such blocks use a row's planes before the next row's planes are
//! loaded. Every sum is still added in the same order, so a sketch is the same on every machine and for every
//! vector width.
//! vector width.

use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use super::{RowHashes, SketchError, check_shape};
use crate::sketch::gaussian::Gaussians;

/// Largest number of entries of all planes: 1 GiB.
pub const MAX_ENTRIES: usize = 1 << 28;

/// Number of records in a block: one vector of AVX-512, two of AVX2.
const LANES: usize = 16;
/// Number of blocks of [`LANES`] records that use the planes of a row one after another. With 784
/// features they fill 800 KiB.
const BLOCKS: usize = 16;
/// Number of planes that are used at a time. With AVX2 their sums fill twelve of sixteen registers.
const TILE: usize = 6;

/// Hash functions by random projections; see the module.
pub struct Srp {
    rows: usize,
    planes: usize,
    features: usize,
    /// Entries, row after row. A row is stored tile by tile of at most [`TILE`] planes, a tile feature by
    /// feature.
    entries: Vec<f32>,
}

impl std::fmt::Debug for Srp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Srp({} rows of {} planes, d = {})", self.rows, self.planes, self.features)
    }
}

impl Srp {
    /// Draws the planes from a seed.
    ///
    /// # Errors
    /// [`SketchError::Shape`]: `range` must be a power of two.
    pub fn new(seed: &[u8], rows: usize, range: usize, features: usize) -> Result<Self, SketchError> {
        check_shape(rows, range)?;
        if !range.is_power_of_two() {
            return Err(SketchError::Shape {
                what: "range",
                value: range,
                expected: "a power of two with srp".into(),
            });
        }
        let planes = range.ilog2() as usize;
        let most = MAX_ENTRIES / (rows * planes);
        if !(1..=most).contains(&features) {
            let expected = format!("1 to {most} with {rows} rows of {planes} planes");
            return Err(SketchError::Shape { what: "features", value: features, expected });
        }
        let mut entries = vec![0.0; rows * planes * features];
        entries.par_chunks_exact_mut(planes * features).enumerate().for_each(|(row, entries)| {
            let mut gaussians = Gaussians::new(seed, "sketch/planes", features, row * planes);
            for tile in entries.chunks_mut(TILE * features) {
                let width = tile.len() / features;
                for plane in 0..width {
                    #[expect(clippy::cast_possible_truncation, reason = "rounding to binary32 is the rule")]
                    gaussians.row(|feature, entry| tile[feature * width + plane] = entry as f32);
                }
            }
        });
        Ok(Self { rows, planes, features, entries })
    }

    fn row(&self, row: usize) -> &[f32] {
        &self.entries[row * self.planes * self.features..][..self.planes * self.features]
    }
}

impl RowHashes for Srp {
    fn rows(&self) -> usize {
        self.rows
    }

    fn range(&self) -> usize {
        1 << self.planes
    }

    fn features(&self) -> usize {
        self.features
    }

    fn buckets(&self, record: &[f32]) -> Vec<u16> {
        let block = lanes(record, self.features);
        let arch = Arch::new();
        let first = |row| {
            arch.dispatch(Sides { tiles: self.row(row), blocks: &block, features: self.features })[0][0]
        };
        (0..self.rows).map(first).collect()
    }

    fn count(&self, records: &[f32], counters: &mut [u32]) {
        let arch = Arch::new();
        for records in records.chunks(LANES * BLOCKS * self.features) {
            let (blocks, count) = (lanes(records, self.features), records.len() / self.features);
            counters.par_chunks_exact_mut(self.range()).enumerate().for_each(|(row, counters)| {
                let sides = Sides { tiles: self.row(row), blocks: &blocks, features: self.features };
                let buckets = arch.dispatch(sides);
                buckets.iter().flatten().take(count).for_each(|&bucket| counters[usize::from(bucket)] += 1);
            });
        }
    }
}

/// One feature of [`LANES`] records.
type Lane = [f32; LANES];

/// Arranges records in blocks, feature after feature. Unused lanes are zero.
fn lanes(records: &[f32], features: usize) -> Vec<Lane> {
    let blocks = records.chunks(LANES * features);
    let mut out = vec![[0.0; LANES]; blocks.len() * features];
    for (block, out) in blocks.zip(out.chunks_exact_mut(features)) {
        for (lane, record) in block.chunks_exact(features).enumerate() {
            out.iter_mut().zip(record).for_each(|(column, &x)| column[lane] = x);
        }
    }
    out
}

/// Computes the numbers that the planes of a row give to the records of all blocks.
struct Sides<'a> {
    tiles: &'a [f32],
    blocks: &'a [Lane],
    features: usize,
}

impl WithSimd for Sides<'_> {
    type Output = Vec<[u16; LANES]>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Self::Output {
        let mut out = vec![[0; LANES]; self.blocks.len() / self.features];
        for (number, tile) in self.tiles.chunks(TILE * self.features).enumerate() {
            let first = number * TILE;
            for (block, buckets) in self.blocks.chunks_exact(self.features).zip(&mut out) {
                // The number of sums must be a constant so that they stay in registers.
                match tile.len() / self.features {
                    1 => add_sides::<S, 1>(simd, tile, block, first, buckets),
                    2 => add_sides::<S, 2>(simd, tile, block, first, buckets),
                    3 => add_sides::<S, 3>(simd, tile, block, first, buckets),
                    4 => add_sides::<S, 4>(simd, tile, block, first, buckets),
                    5 => add_sides::<S, 5>(simd, tile, block, first, buckets),
                    _ => add_sides::<S, TILE>(simd, tile, block, first, buckets),
                }
            }
        }
        out
    }
}

/// Sets bits `first` to `first + P` of the numbers, one vector of lanes at a time.
#[inline(always)]
fn add_sides<S: Simd, const P: usize>(
    simd: S,
    tile: &[f32],
    block: &[Lane],
    first: usize,
    buckets: &mut [u16; LANES],
) {
    let (entries, _) = tile.as_chunks::<P>();
    for (vector, buckets) in buckets.chunks_mut(S::F32_LANES).enumerate() {
        let mut sums = [simd.splat_f32s(0.0); P];
        for (entries, xs) in entries.iter().zip(block) {
            let xs = S::as_simd_f32s(xs).0[vector];
            for (sum, &entry) in sums.iter_mut().zip(entries) {
                *sum = simd.add_f32s(*sum, simd.mul_f32s(simd.splat_f32s(entry), xs));
            }
        }
        for (plane, sums) in sums.iter().enumerate() {
            let sums: &[f32] = pulp::bytemuck::cast_slice(std::slice::from_ref(sums));
            for (bucket, &sum) in buckets.iter_mut().zip(sums) {
                *bucket |= u16::from(sum > 0.0) << (first + plane);
            }
        }
    }
}
