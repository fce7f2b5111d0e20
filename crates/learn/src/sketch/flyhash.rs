//! FlyHash: h(x) = the indices of the `rho` largest entries of M x, where M is sparse and binary (Ram &
//! Sinha, section 2, equation 1; Dasgupta, Stevens & Navlakha 2017).
//!
//! **M** has m rows with s ones each. They are drawn from `Stream(seed, "flynn/matrix", LE32 m || LE32 D ||
//! LE32 s)`, one row after another, where D is the number of columns. For each row, start from 0..D in order.
//! For i in 0..s, swap place i with place i + below(D - i). The first s places, sorted, are the columns of
//! the row.
//! **Projection**: sums in f32 that start at 0.0, with the columns in ascending order. **Winners**: exactly
//! `rho` rows of M. Of equal sums, the lower row of M wins. (The paper does not define ties. On the digits,
//! 78 % of the points have equal sums at the cut between winners and others.)
//!
//! **densify** (an option of the authors' code, not in the paper): x_j of the w numbers of a scaled row
//! is negated if bit j of `Stream(seed, "flynn/signs", LE32 w)` is 1 (byte j / 8, lowest bit first). The
//! row is padded with zeros to D, the next power of two. Then it is transformed by the Walsh-Hadamard
//! matrix of entries +1 and -1 in natural order. The factor 1 / sqrt(D) that would make the matrix
//! orthonormal is left out, because it does not change which sums are largest.
//!
//! No sum is infinite or NaN, because entries are finite and below 2^80 (`data::MAX_MAGNITUDE`). No sum
//! is -0.0, because it starts from 0.0. So sums are ordered like numbers.
//!
//! `block.rs`, `levels.rs` and `guess.rs` compute the same winners fast. No n x m array is ever made.

use std::ops::Range;

use pulp::Arch;
use rayon::prelude::*;

use super::Sketch;
use flyswarm_data::Borrowed;
use flyswarm_data::scaling::Scaler;

mod block;
mod guess;
mod levels;
mod matrix;
mod selection;

use block::{LANES, Points};

/// Largest number of entries of a block of points, 2^24 (64 MiB). With very many features, this limit makes a
/// block smaller.
const BLOCK_ENTRIES: usize = 1 << 24;

/// The data does not fit the sketch.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{found} features in {what}, expected {expected}")]
pub struct FeatureError {
    /// The scaler or the data.
    pub what: &'static str,
    /// Number of its features.
    pub found: usize,
    /// Number of features of the sketch.
    pub expected: usize,
}

/// The lifting matrix with its parameters: it turns rows into winners.
#[derive(Debug, Clone)]
pub struct FlyHash {
    features: usize,
    /// Number of values of a scaled row.
    width: usize,
    dimension: usize,
    ones: usize,
    winners: usize,
    /// Columns of the ones in the m rows of M, ascending in each row.
    columns: Vec<u32>,
    /// Signs of the features, 1 or -1, if densified.
    signs: Option<Vec<f32>>,
    /// Vector instructions of the machine.
    arch: Arch,
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
            columns: matrix::draw_matrix(seed, parameters.m, sketch.dimension(), parameters.s),
            signs: parameters
                .densify
                .then(|| matrix::draw_signs(seed, parameters.scaling.width(parameters.d))),
            arch: Arch::new(),
        }
    }

    /// Returns the number of rows of M.
    #[must_use]
    pub fn m(&self) -> usize {
        self.columns.len() / self.ones
    }

    /// Returns the number of winners of a point.
    #[must_use]
    pub fn rho(&self) -> usize {
        self.winners
    }

    /// Returns the rows of M: the ascending columns of their ones.
    pub fn matrix(&self) -> impl ExactSizeIterator<Item = &[u32]> {
        self.columns.chunks_exact(self.ones)
    }

    /// Returns the signs of the values of a scaled row, 1 or -1, if densified.
    #[must_use]
    pub fn signs(&self) -> Option<&[f32]> {
        self.signs.as_deref()
    }

    /// Returns the winners of the points `rows` of `data`: `rho` ascending rows of M for each, one point
    /// after another.
    ///
    /// # Errors
    /// [`FeatureError`] if scaler or data have a different number of features.
    ///
    /// # Panics
    /// If `rows` has an index that `data` does not have.
    pub fn winners<'a>(
        &self,
        scaler: &Scaler,
        data: impl Into<Borrowed<'a>>,
        rows: Range<usize>,
    ) -> Result<Vec<u32>, FeatureError> {
        let data = data.into();
        for (what, found, expected) in [
            ("the scaler", scaler.features(), self.features),
            ("the data", data.features(), self.features),
            ("a scaled row", scaler.width(), self.width),
        ] {
            if found != expected {
                return Err(FeatureError { what, found, expected });
            }
        }
        let points = (BLOCK_ENTRIES / self.dimension).clamp(1, LANES);
        let rows: Vec<usize> = rows.collect();
        let blocks = |rows: &[usize], guessing| -> Vec<_> {
            rows.par_chunks(points).map(|rows| self.block(scaler, data, rows, guessing)).collect()
        };
        let (mut winners, mut failed) = (Vec::with_capacity(rows.len() * self.winners), Vec::new());
        for (from, (found, without)) in (0..).step_by(points).zip(blocks(&rows, true)) {
            winners.extend(found);
            failed.extend(without.into_iter().map(|at| from + at));
        }
        // There are few such points, if any, so they are collected from all blocks.
        let again: Vec<usize> = failed.iter().map(|&at| rows[at]).collect();
        let found = blocks(&again, false).into_iter().flat_map(|(found, _)| found).collect::<Vec<_>>();
        for (at, found) in failed.into_iter().zip(found.chunks_exact(self.winners)) {
            winners[at * self.winners..][..self.winners].copy_from_slice(found);
        }
        Ok(winners)
    }

    fn block(
        &self,
        scaler: &Scaler,
        data: Borrowed<'_>,
        rows: &[usize],
        guessing: bool,
    ) -> (Vec<u32>, Vec<usize>) {
        let mut values = vec![0.0; rows.len() * self.dimension];
        for (&row, point) in rows.iter().zip(values.chunks_exact_mut(self.dimension)) {
            self.prepare(scaler, data.row(row), point);
        }
        let (columns, ones, dimension) = (&self.columns, self.ones, self.dimension);
        Points { columns, ones, dimension, values }.winners(self.arch, self.winners, guessing)
    }

    /// Prepares one point for M: scaled, and rotated if densified. `out` is D zeros.
    fn prepare(&self, scaler: &Scaler, row: &[f32], out: &mut [f32]) {
        let head = &mut out[..self.width];
        scaler.apply(row, head);
        if let Some(signs) = &self.signs {
            head.iter_mut().zip(signs).for_each(|(x, sign)| *x *= sign);
            walsh_hadamard(out);
        }
    }
}

/// Transforms in place, in natural order, without a scale factor. The length is a power of two.
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

#[cfg(test)]
mod tests;
