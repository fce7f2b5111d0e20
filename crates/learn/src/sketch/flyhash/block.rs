//! Sums every row of M for a block of points at once.
//!
//! Each point has a *lane* of the vectors. So a row of M with s ones takes s additions of vectors. Rows are
//! first summed in levels of a byte ([`super::levels`]). If levels are exact or a row has many ones, two
//! lanes share a `u16`. Then four levels add up without a carry from one lane into the other, and are added
//! to totals of 16 bits for each lane. Otherwise a byte holds a quarter of the sum, rounded up. Only rows
//! that may win are summed in f32. An estimate of the winners' sums ([`super::guess`]) keeps the number of
//! these rows low from the start. If levels cannot separate rows (too many ones in a row; entries of very
//! different size), all rows are summed in f32.
//!
//! The loops are plain Rust over arrays, compiled for AVX-512, AVX2, NEON and plain instructions; `pulp`
//! picks one when the program runs. Levels are whole numbers, and f32 sums add in the same order in every
//! lane. So the result does not depend on the width of the vectors.

use std::cell::OnceCell;

use pulp::{Arch, NullaryFnOnce};

use super::guess::Guess;
use super::levels::{Extent, GROUP, LEVELS, MAX_ONES, MAX_QUARTERED, Scale, quartered};
use super::selection::{Candidate, Selection};

/// Number of points of a block (an estimate: two vectors of bytes for AVX-512).
pub(super) const LANES: usize = 128;
/// Levels, or their sums. Either word i has lane i in its low byte and lane `LANES` / 2 + i in its high byte,
/// or each word has a sum of 16 bits of one lane.
pub(super) type Words = [u16; LANES / 2];
/// Levels of all lanes, or quarters of sums of levels.
pub(super) type Bytes = [u8; LANES];
/// Number of lanes that are summed at once in f32, so that the sums stay in registers.
pub(super) const FLOATS: usize = 32;
/// A column for all lanes, on its own cache lines, so that no load crosses lines.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
pub(super) struct Column<T>(pub(super) T);
/// Entries or sums of [`FLOATS`] lanes.
pub(super) type Floats = [f32; FLOATS];
/// Number of rows of M that are summed before their sums are offered. If a loop also inspects single sums,
/// the compiler does not keep the sums in vectors.
const BATCH: usize = 8;
/// Number of rows of M between checks of whether levels separate them.
const CHUNK: usize = 512;
/// Number of columns that are turned into levels at a time.
const TILE: usize = 16;
/// After one `EARLY`-th of the rows of M, a check finds out whether the guesses are too high.
const EARLY: usize = 8;
/// An estimate. Summing a row in f32 for all lanes takes about as long as summing it in levels, and then in
/// f32 for this number of single lanes.
const PASSED: usize = 4;

/// Points of a block, prepared for M, and M.
#[derive(Debug)]
pub(super) struct Points<'a> {
    /// Columns of the ones in each row of M, ascending.
    pub(super) columns: &'a [u32],
    pub(super) ones: usize,
    pub(super) dimension: usize,
    /// Values, row-major, points x `dimension`; at most [`LANES`] points.
    pub(super) values: Vec<f32>,
}

impl Points<'_> {
    fn rows(&self) -> impl ExactSizeIterator<Item = &[f32]> {
        self.values.chunks_exact(self.dimension)
    }

    fn row_of_m(&self, row: u32) -> &[u32] {
        &self.columns[row as usize * self.ones..][..self.ones]
    }

    /// Replaces the bounds of rows of M by their sums for the point of a lane.
    pub(super) fn sum(&self, lane: usize, candidates: &mut [Candidate]) {
        let point = &self.values[lane * self.dimension..][..self.dimension];
        let (fours, rest) = candidates.as_chunks_mut::<4>();
        // Four sums at a time, because an addition waits for the previous one in the same sum.
        for four in fours {
            let rows = four.map(|candidate| self.row_of_m(candidate.row()));
            let mut sums = [0.0; 4];
            for i in 0..self.ones {
                for (sum, row) in sums.iter_mut().zip(rows) {
                    *sum += point[row[i] as usize];
                }
            }
            four.iter_mut()
                .zip(sums)
                .for_each(|(candidate, sum)| *candidate = Candidate::new(sum, candidate.row()));
        }
        for candidate in rest {
            let columns = self.row_of_m(candidate.row());
            let sum = columns.iter().fold(0.0, |sum, &column| sum + point[column as usize]);
            *candidate = Candidate::new(sum, candidate.row());
        }
    }

    /// Returns `rho` ascending rows of M for each point, one point after another. Also returns the points,
    /// ascending, whose guess was too high; their rows of M are meaningless. Without `guessing` there are no
    /// such points.
    pub(super) fn winners(&self, arch: Arch, rho: usize, guessing: bool) -> (Vec<u32>, Vec<usize>) {
        let ones = self.ones;
        let guess =
            if guessing { Guess::new(self.columns.len() / ones, ones, self.dimension, rho) } else { None };
        let (extents, guesses): (Vec<Extent>, Vec<f32>) =
            arch.dispatch(Extents { points: self, guess }).into_iter().unzip();
        let exact: Option<Vec<Scale>> = extents.iter().map(|&extent| Scale::exact(extent, ones)).collect();
        let quarters = exact.is_none() && ones <= MAX_QUARTERED;
        let highest = if quarters { quartered(ones) } else { LEVELS };
        // At first nearly all rows pass, later fewer and fewer. More rows pass by levels than by sums.
        let (mut use_levels, mut enough) = (exact.is_some() || guess.is_some(), PASSED * CHUNK / 2);
        let scales = exact.unwrap_or_else(|| {
            let exact = |extent| Scale::exact(extent, ones).filter(|_| !quarters);
            let scale = |&extent| exact(extent).unwrap_or_else(|| Scale::bounding(extent, ones, highest));
            extents.iter().map(scale).collect()
        });
        let levels = (ones <= MAX_ONES).then(|| {
            let levels = arch.dispatch(Levels { points: self, scales: &scales });
            if quarters {
                BlockSums::Quarters(levels)
            } else {
                BlockSums::Words(levels.into_iter().map(in_words).collect())
            }
        });
        let floats = OnceCell::new();
        let mut selection = Selection::new(scales, guesses, rho);
        let chunks = self.columns.chunks(CHUNK * ones);
        let early = chunks.len() / EARLY;
        for (number, columns) in (0..).zip(chunks) {
            let first = CHUNK as u32 * number;
            if guess.is_some() && number as usize == early && selection.seems_in_vain(EARLY) {
                return (vec![0; self.rows().len() * rho], (0..self.rows().len()).collect());
            }
            let before = selection.passed();
            match &levels {
                Some(BlockSums::Words(levels)) if use_levels => {
                    arch.dispatch(InLevels {
                        columns,
                        first,
                        levels,
                        points: self,
                        selection: &mut selection,
                    });
                }
                Some(BlockSums::Quarters(levels)) if use_levels => {
                    arch.dispatch(InQuarters {
                        columns,
                        first,
                        levels,
                        points: self,
                        selection: &mut selection,
                    });
                }
                _ => {
                    for (lane, floats) in (0..).step_by(FLOATS).zip(floats.get_or_init(|| self.floats())) {
                        arch.dispatch(InFloats {
                            columns,
                            first,
                            ones,
                            floats,
                            lane,
                            selection: &mut selection,
                        });
                    }
                }
            }
            let passed = selection.passed() - before;
            if use_levels && passed > PASSED * CHUNK {
                selection.settle_all(self);
                (use_levels, enough) = (false, enough / 4);
            } else if levels.is_some() && passed <= enough {
                use_levels = true;
            }
        }
        selection.finish(self)
    }

    /// Returns the entries of all lanes, by group of lanes, then column after column.
    fn floats(&self) -> Vec<Vec<Column<Floats>>> {
        let mut groups =
            vec![vec![Column([0.0; FLOATS]); self.dimension]; self.rows().len().div_ceil(FLOATS)];
        for (lane, point) in self.rows().enumerate() {
            for (column, &x) in groups[lane / FLOATS].iter_mut().zip(point) {
                column.0[lane % FLOATS] = x;
            }
        }
        groups
    }
}

/// Levels of a block, prepared for one way of summing.
enum BlockSums {
    /// Levels for sums of 16 bits.
    Words(Vec<Column<Words>>),
    /// Levels for quarters of sums, rounded up.
    Quarters(Vec<Column<Bytes>>),
}

/// Computes the extent and the guess of each point. Without guesses, each guess is negative infinity.
struct Extents<'a> {
    points: &'a Points<'a>,
    guess: Option<Guess>,
}

impl NullaryFnOnce for Extents<'_> {
    type Output = Vec<(Extent, f32)>;

    #[inline(always)]
    fn call(self) -> Self::Output {
        let mut seen = Vec::with_capacity(LANES);
        for point in self.points.rows() {
            let extent = Extent::new(point);
            seen.push((extent, self.guess.map_or(f32::NEG_INFINITY, |guess| guess.of(point, extent))));
        }
        seen
    }
}

/// Computes the levels of all lanes, column after column.
struct Levels<'a> {
    points: &'a Points<'a>,
    scales: &'a [Scale],
}

impl NullaryFnOnce for Levels<'_> {
    type Output = Vec<Column<Bytes>>;

    #[inline(always)]
    fn call(self) -> Self::Output {
        let mut columns = vec![Column([0; LANES]); self.points.dimension];
        // A few columns are made at a time, so that their memory stays in the cache.
        for (first, columns) in (0..).step_by(TILE).zip(columns.chunks_mut(TILE)) {
            for (lane, (point, scale)) in self.points.rows().zip(self.scales).enumerate() {
                let entries = &point[first..first + columns.len()];
                let mut levels = [0; TILE];
                levels.iter_mut().zip(entries).for_each(|(level, &x)| *level = scale.level(x));
                columns.iter_mut().zip(levels).for_each(|(column, level)| column.0[lane] = level);
            }
        }
        columns
    }
}

/// Puts the levels of the first half of the lanes into the low bytes, those of the second half into the
/// high bytes.
fn in_words(Column(levels): Column<Bytes>) -> Column<Words> {
    let (low, high) = levels.split_at(LANES / 2);
    Column(std::array::from_fn(|i| u16::from_le_bytes([low[i], high[i]])))
}

/// Sums the quarters of some rows of M, from row `first` on.
struct InQuarters<'a> {
    columns: &'a [u32],
    first: u32,
    levels: &'a [Column<Bytes>],
    points: &'a Points<'a>,
    selection: &'a mut Selection,
}

impl NullaryFnOnce for InQuarters<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let ones = self.points.ones;
        let mut sums = [Column([0; LANES]); BATCH];
        for (first, columns) in (self.first..).step_by(BATCH).zip(self.columns.chunks(BATCH * ones)) {
            for (columns, sums) in columns.chunks_exact(ones).zip(&mut sums) {
                sums.0 = sum_quarters(columns, self.levels);
            }
            for (row, sums) in (first..).zip(&sums[..columns.len() / ones]) {
                self.selection.offer_quarters(row, &sums.0, self.points);
            }
        }
    }
}

#[inline(always)]
fn sum_quarters(columns: &[u32], levels: &[Column<Bytes>]) -> Bytes {
    let (fours, rest) = columns.as_chunks::<{ 4 * GROUP }>();
    let mut sum = [0; LANES];
    for four in fours {
        let (pair, other) = four.split_at(2 * GROUP);
        add_quarters(&mut sum, &averaged(&halves(pair, levels), &halves(other, levels)));
    }
    if rest.len() > 2 * GROUP {
        let (pair, other) = rest.split_at(2 * GROUP);
        add_quarters(&mut sum, &averaged(&halves(pair, levels), &halves(other, levels)));
    } else if !rest.is_empty() {
        add_quarters(&mut sum, &averaged(&halves(rest, levels), &[0; LANES]));
    }
    sum
}

/// Returns half the sum of at most two groups of columns, rounded up.
#[inline(always)]
fn halves(columns: &[u32], levels: &[Column<Bytes>]) -> Bytes {
    let (group, other) = columns.split_at(columns.len().min(GROUP));
    averaged(&sum_bytes(group, levels), &sum_bytes(other, levels))
}

/// Returns the sum of at most [`GROUP`] columns.
#[inline(always)]
fn sum_bytes(columns: &[u32], levels: &[Column<Bytes>]) -> Bytes {
    let mut sum = [0u8; LANES];
    for &column in columns {
        sum.iter_mut()
            .zip(&levels[column as usize].0)
            .for_each(|(sum, level)| *sum = sum.wrapping_add(*level));
    }
    sum
}

/// Returns the mean, rounded up.
#[inline(always)]
fn averaged(a: &Bytes, b: &Bytes) -> Bytes {
    std::array::from_fn(|i| (a[i] | b[i]) - ((a[i] ^ b[i]) >> 1))
}

#[inline(always)]
fn add_quarters(sum: &mut Bytes, quarters: &Bytes) {
    sum.iter_mut().zip(quarters).for_each(|(sum, quarter)| *sum = sum.saturating_add(*quarter));
}

/// Sums the levels of some rows of M, from row `first` on.
struct InLevels<'a> {
    columns: &'a [u32],
    first: u32,
    levels: &'a [Column<Words>],
    points: &'a Points<'a>,
    selection: &'a mut Selection,
}

impl NullaryFnOnce for InLevels<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let ones = self.points.ones;
        let mut sums = [Column([[0; LANES / 2]; 2]); BATCH];
        for (first, columns) in (self.first..).step_by(BATCH).zip(self.columns.chunks(BATCH * ones)) {
            for (columns, sums) in columns.chunks_exact(ones).zip(&mut sums) {
                sums.0 = sum_levels(columns, self.levels);
            }
            for (row, sums) in (first..).zip(&sums[..columns.len() / ones]) {
                self.selection.offer_levels(row, &sums.0, self.points);
            }
        }
    }
}

#[inline(always)]
fn sum_levels(columns: &[u32], levels: &[Column<Words>]) -> [Words; 2] {
    // Sums of both lanes of a word together, and of the high lane.
    let (mut both, mut high) = ([0u16; LANES / 2], [0u16; LANES / 2]);
    let (groups, rest) = columns.as_chunks::<GROUP>();
    for group in groups {
        add_group(group, levels, &mut both, &mut high);
    }
    if !rest.is_empty() {
        add_group(rest, levels, &mut both, &mut high);
    }
    // The low sum is correct mod 2^16, and it is below 2^16.
    both.iter_mut().zip(&high).for_each(|(both, high)| *both = both.wrapping_sub(high << 8));
    [both, high]
}

/// Adds at most [`GROUP`] columns. (Only `both` wraps. Checked additions would not be vectorised.)
#[inline(always)]
fn add_group(columns: &[u32], levels: &[Column<Words>], both: &mut Words, high: &mut Words) {
    let mut sum = [0u16; LANES / 2];
    for &column in columns {
        sum.iter_mut()
            .zip(&levels[column as usize].0)
            .for_each(|(sum, level)| *sum = sum.wrapping_add(*level));
    }
    both.iter_mut().zip(&sum).for_each(|(both, sum)| *both = both.wrapping_add(*sum));
    high.iter_mut().zip(&sum).for_each(|(high, sum)| *high = high.wrapping_add(sum >> 8));
}

/// Sums some rows of M in one group of lanes. The rows start at row `first`, the lanes at `lane`.
struct InFloats<'a> {
    columns: &'a [u32],
    first: u32,
    ones: usize,
    floats: &'a [Column<Floats>],
    lane: usize,
    selection: &'a mut Selection,
}

impl NullaryFnOnce for InFloats<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let mut sums = [[0.0; FLOATS]; BATCH];
        for (first, columns) in (self.first..).step_by(BATCH).zip(self.columns.chunks(BATCH * self.ones)) {
            for (columns, sums) in columns.chunks_exact(self.ones).zip(&mut sums) {
                *sums = sum_floats(columns, self.floats);
            }
            for (row, sums) in (first..).zip(&sums[..columns.len() / self.ones]) {
                self.selection.offer_sums(row, self.lane, sums);
            }
        }
    }
}

#[inline(always)]
fn sum_floats(columns: &[u32], floats: &[Column<Floats>]) -> Floats {
    let mut sums = [0.0; FLOATS];
    for &column in columns {
        sums.iter_mut().zip(&floats[column as usize].0).for_each(|(sum, x)| *sum += x);
    }
    sums
}
