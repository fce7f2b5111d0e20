//! FlyHash: h(x) = the `rho` largest entries of M x, M sparse and binary (Ram & Sinha, section 2, equation 1; Dasgupta,
//! Stevens & Navlakha 2017).
//!
//! **M** has m rows with s ones each, drawn from `Stream(seed, "flynn/matrix", LE32 m || LE32 D || LE32 s)`, one row
//! after another, D the number of columns: start from 0..D in order; for i in 0..s swap place i with place
//! i + below(D - i); the first s places, sorted, are the columns of the row.
//!
//! **Projection**: f32, from 0.0, columns in ascending order. **Winners**: exactly `rho`; of equal sums the lower row
//! of M wins. (The paper leaves ties open; on digits 78 % of the points have some at the cut.)
//!
//! **densify** (an option of the authors' code, not in the paper): x_j of the w numbers of a scaled row is negated where bit j of
//! `Stream(seed, "flynn/signs", LE32 w)` is 1 (byte j / 8, lowest bit first), padded with zeros to D = the next power of
//! two, and transformed by the Walsh-Hadamard matrix of entries +1 and -1 in natural order. The factor 1 / sqrt(D) that
//! would make it orthonormal is left out: it does not change which sums are largest.
//!
//! No sum is infinite or NaN, since entries are finite and below 2^80 (`data::MAX_MAGNITUDE`), and none is -0.0, since
//! it starts from 0.0: so sums are ordered as numbers.
//!
//! Layout: `LANES` points lie side by side, so that a row of M is s additions of contiguous vectors. Each lane adds in
//! the same order whatever the width of the machine's vectors. Sums are offered to a running selection row by row: no
//! n x m array exists.

use std::ops::Range;

use rayon::prelude::*;

use super::Sketch;
use super::scaling::Scaler;
use crate::crypto::stream::Stream;
use crate::data::Dataset;

/// Points side by side. Measured with SSE2 on a noisy machine, d = 784, m = 170,128, s = 19, 2,048 points: 32 to 64 take
/// 0.6 to 1.1 s on two cores whatever the group, 128 takes 1.7 s.
const LANES: usize = 64;
/// Lanes that are summed at once, so that the sums stay in registers.
const GROUP: usize = 32;

type Lanes = [f32; LANES];

/// The data does not fit the sketch.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{found} features in {what}, expected {expected}")]
pub struct FeatureError {
    /// In the scaler or the data.
    pub what: &'static str,
    /// Its features.
    pub found: usize,
    /// Those of the sketch.
    pub expected: usize,
}

/// The lifting matrix and what goes with it: rows in, winners out.
#[derive(Debug, Clone)]
pub struct FlyHash {
    features: usize,
    /// Numbers of a scaled row.
    width: usize,
    dimension: usize,
    ones: usize,
    winners: usize,
    /// m rows of `ones` columns, ascending.
    columns: Vec<u32>,
    /// The signs of the features where densified: 1 or -1.
    signs: Option<Vec<f32>>,
}

impl FlyHash {
    /// Draws M and the signs from the seed.
    #[must_use]
    pub fn new(sketch: &Sketch) -> Self {
        let parameters = sketch.parameters();
        let seed = &parameters.seed;
        Self {
            features: parameters.d,
            width: parameters.scaling.width(parameters.d),
            dimension: sketch.dimension(),
            ones: parameters.s,
            winners: parameters.rho,
            columns: draw_matrix(seed, parameters.m, sketch.dimension(), parameters.s),
            signs: parameters.densify.then(|| draw_signs(seed, parameters.scaling.width(parameters.d))),
        }
    }

    /// Rows of M.
    #[must_use]
    pub fn m(&self) -> usize {
        self.columns.len() / self.ones
    }

    /// Winners per point.
    #[must_use]
    pub fn rho(&self) -> usize {
        self.winners
    }

    /// Rows of M: the ascending columns of its ones.
    pub fn matrix(&self) -> impl ExactSizeIterator<Item = &[u32]> {
        self.columns.chunks_exact(self.ones)
    }

    /// The winners of the points `rows` of `data`: `rho` ascending rows of M for each, one point after another.
    ///
    /// # Errors
    /// [`FeatureError`] when scaler or data have another number of features.
    ///
    /// # Panics
    /// If `rows` reaches past the data.
    pub fn winners(&self, scaler: &Scaler, data: &Dataset, rows: Range<usize>) -> Result<Vec<u32>, FeatureError> {
        for (what, found, expected) in [
            ("the scaler", scaler.features(), self.features),
            ("the data", data.features(), self.features),
            ("a scaled row", scaler.width(), self.width),
        ] {
            if found != expected {
                return Err(FeatureError { what, found, expected });
            }
        }
        let blocks = rows.len().div_ceil(LANES);
        let block = |b: usize| {
            let from = rows.start + b * LANES;
            self.block(scaler, data, from..rows.end.min(from + LANES))
        };
        Ok((0..blocks).into_par_iter().map(block).collect::<Vec<_>>().concat())
    }

    fn block(&self, scaler: &Scaler, data: &Dataset, rows: Range<usize>) -> Vec<u32> {
        let points = rows.len();
        let mut lanes = vec![[0.0; LANES]; self.dimension];
        let mut point = vec![0.0; self.dimension];
        for (lane, row) in rows.enumerate() {
            self.prepare(scaler, data.row(row), &mut point);
            for (column, &x) in lanes.iter_mut().zip(&point) {
                column[lane] = x;
            }
        }
        let mut selection = Selection::new(points, self.winners);
        for (row, columns) in (0..).zip(self.matrix()) {
            selection.offer(row, &project(columns, &lanes));
        }
        selection.finish()
    }

    /// One point as M sees it: scaled, and rotated where densified. `out` has D entries.
    fn prepare(&self, scaler: &Scaler, row: &[f32], out: &mut [f32]) {
        let (head, padding) = out.split_at_mut(self.width);
        scaler.apply(row, head);
        if let Some(signs) = &self.signs {
            head.iter_mut().zip(signs).for_each(|(x, sign)| *x *= sign);
            padding.fill(0.0);
            walsh_hadamard(out);
        }
    }
}

/// The columns of M, row after row; see the module.
fn draw_matrix(seed: &[u8], m: usize, dimension: usize, ones: usize) -> Vec<u32> {
    let word = |n: usize| u32::try_from(n).unwrap_or_else(|_| unreachable!("BUG: checked parameters fit u32"));
    let params = [word(m), word(dimension), word(ones)].map(u32::to_le_bytes);
    let mut stream = Stream::new(seed, "flynn/matrix", params.as_flattened());
    let mut places: Vec<u32> = (0..word(dimension)).collect();
    let mut swaps = vec![0; ones];
    let mut columns = Vec::with_capacity(m * ones);
    for _ in 0..m {
        for (i, swap) in swaps.iter_mut().enumerate() {
            *swap = i + stream.below(word(dimension - i)) as usize;
            places.swap(i, *swap);
        }
        let start = columns.len();
        columns.extend_from_slice(&places[..ones]);
        columns[start..].sort_unstable();
        for (i, &swap) in swaps.iter().enumerate().rev() {
            places.swap(i, swap);
        }
    }
    columns
}

fn draw_signs(seed: &[u8], features: usize) -> Vec<f32> {
    let mut bytes = vec![0; features.div_ceil(8)];
    Stream::new(seed, "flynn/signs", &(features as u32).to_le_bytes()).fill(&mut bytes);
    (0..features).map(|j| if bytes[j / 8] >> (j % 8) & 1 == 1 { -1.0 } else { 1.0 }).collect()
}

/// In place, natural order, without a scale factor; the length is a power of two.
fn walsh_hadamard(x: &mut [f32]) {
    let mut half = 1;
    while half < x.len() {
        for pair in x.chunks_exact_mut(2 * half) {
            let (left, right) = pair.split_at_mut(half);
            for (a, b) in left.iter_mut().zip(right) {
                (*a, *b) = (*a + *b, *a - *b);
            }
        }
        half *= 2;
    }
}

/// One row of M times all lanes.
fn project(columns: &[u32], lanes: &[Lanes]) -> Lanes {
    let mut sums = [0.0; LANES];
    for (group, out) in sums.as_chunks_mut::<GROUP>().0.iter_mut().enumerate() {
        let mut sum = [0.0; GROUP];
        for &column in columns {
            let x = &lanes[column as usize].as_chunks::<GROUP>().0[group];
            for (sum, x) in sum.iter_mut().zip(x) {
                *sum += x;
            }
        }
        *out = sum;
    }
    sums
}

/// The `rho` largest sums of each lane so far, offered in ascending row order.
struct Selection {
    rho: usize,
    /// Sums not above it cannot win any more: infinite for unused lanes, the smallest kept sum once `rho` are kept.
    threshold: Lanes,
    kept: Vec<Vec<(f32, u32)>>,
}

impl Selection {
    fn new(points: usize, rho: usize) -> Self {
        let mut threshold = [f32::INFINITY; LANES];
        threshold[..points].fill(f32::NEG_INFINITY);
        Self { rho, threshold, kept: vec![Vec::with_capacity(2 * rho); points] }
    }

    fn offer(&mut self, row: u32, sums: &Lanes) {
        let above = sums.iter().zip(&self.threshold).fold(false, |any, (sum, threshold)| any | (sum > threshold));
        if !above {
            return;
        }
        for (lane, kept) in self.kept.iter_mut().enumerate() {
            if sums[lane] > self.threshold[lane] {
                kept.push((sums[lane], row));
                if kept.len() == 2 * self.rho {
                    keep_largest(kept, self.rho);
                    // A later row with an equal sum loses to all that are kept, so "not above" is enough.
                    self.threshold[lane] = kept.last().map_or(f32::NEG_INFINITY, |&(sum, _)| sum);
                }
            }
        }
    }

    /// `rho` ascending rows of M for each lane.
    fn finish(self) -> Vec<u32> {
        let mut winners = Vec::with_capacity(self.kept.len() * self.rho);
        for mut kept in self.kept {
            keep_largest(&mut kept, self.rho);
            let start = winners.len();
            winners.extend(kept.iter().map(|&(_, row)| row));
            winners[start..].sort_unstable();
        }
        winners
    }
}

/// Cuts `kept` to its `rho` largest sums, of equal ones the lowest rows; the last entry is the smallest of them.
fn keep_largest(kept: &mut Vec<(f32, u32)>, rho: usize) {
    if kept.len() > rho {
        kept.select_nth_unstable_by(rho - 1, |a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        kept.truncate(rho);
    }
}

#[cfg(test)]
mod tests;
