//! FlyHash: h(x) = the `rho` largest entries of M x, M sparse and binary (Ram & Sinha, section 2, equation 1;
//! Dasgupta, Stevens & Navlakha 2017).
//!
//! **M** has m rows with s ones each, drawn from `Stream(seed, "flynn/matrix", LE32 m || LE32 D || LE32 s)`,
//! one row after another, D the number of columns: start from 0..D in order; for i in 0..s swap place i with
//! place i + below(D - i); the first s places, sorted, are the columns of the row.
//!
//! **Projection**: f32, from 0.0, columns in ascending order. **Winners**: exactly `rho`; of equal sums the
//! lower row of M wins. (The paper leaves ties open; on digits 78 % of the points have some at the cut.)
//!
//! **densify** (an option of the authors' code, not in the paper): x_j of the w numbers of a scaled row is
//! negated where bit j of `Stream(seed, "flynn/signs", LE32 w)` is 1 (byte j / 8, lowest bit first), padded
//! with zeros to D = the next power of two, and transformed by the Walsh-Hadamard matrix of entries +1 and -1
//! in natural order. The factor 1 / sqrt(D) that would make it orthonormal is left out: it does not change
//! which sums are largest.
//!
//! No sum is infinite or NaN, since entries are finite and below 2^80 (`data::MAX_MAGNITUDE`), and none is
//! -0.0, since it starts from 0.0: so sums are ordered as numbers.
//!
//! How it is computed fast without changing any of this: `block.rs`, `levels.rs` and `guess.rs`. No n x m
//! array exists.

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

/// Most entries of a block of points, 2^24 (64 MiB): with very many features it holds fewer points than it
/// could.
const BLOCK_ENTRIES: usize = 1 << 24;

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
    /// The machine's vector instructions.
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

    /// The signs of the numbers of a scaled row, 1 or -1, where densified.
    #[must_use]
    pub fn signs(&self) -> Option<&[f32]> {
        self.signs.as_deref()
    }

    /// The winners of the points `rows` of `data`: `rho` ascending rows of M for each, one point after
    /// another.
    ///
    /// # Errors
    /// [`FeatureError`] when scaler or data have another number of features.
    ///
    /// # Panics
    /// If `rows` reaches past the data.
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
        // Few, if any, so that they are brought together from all blocks.
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

    /// One point as M sees it: scaled, and rotated where densified. `out` is D zeros.
    fn prepare(&self, scaler: &Scaler, row: &[f32], out: &mut [f32]) {
        let head = &mut out[..self.width];
        scaler.apply(row, head);
        if let Some(signs) = &self.signs {
            head.iter_mut().zip(signs).for_each(|(x, sign)| *x *= sign);
            walsh_hadamard(out);
        }
    }
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

#[cfg(test)]
mod tests;
