//! The rows of one peer, and their sums in a round.
//!
//! An entry of the matrix is a sum of W x_j x_k, where W has up to 64 bits. The sums are exact. Rows are
//! taken in blocks, and W is cut into short limbs. So the sum of limb x_j x_k over a block is a whole number
//! below 2^53. Floating point adds such numbers up exactly, in any order, several at a time.

use super::family::{Family, Round};
use super::totals::Totals;

/// Number of rows of a block.
const BLOCK: usize = 128;
/// Number of columns of a panel.
const PANEL: usize = 4;
/// Number of bits of the exact whole numbers in binary64.
const EXACT: u32 = 53;

/// Four columns of a block of rows.
type Panel = [[f64; PANEL]; BLOCK];

/// The rows of one peer that a model uses.
#[derive(Clone, Debug)]
pub struct Rows {
    width: usize,
    /// Columns in steps, row after row.
    columns: Vec<i32>,
    /// Outcome, offset and weight of each row.
    numbers: Vec<[f64; 3]>,
}

impl Rows {
    /// Makes an empty list of rows with this number of columns, at least 1.
    #[must_use]
    pub const fn new(width: usize) -> Self {
        Self { width, columns: Vec::new(), numbers: Vec::new() }
    }

    /// Adds a row. `columns` are in steps, and the first is 1. `numbers` are the outcome, the offset and the
    /// weight. The outcome is in steps for `linear`, otherwise 0, 1 or a count. The offset is in steps of the
    /// outcome for `linear`. The weight is above 0.
    pub fn push(&mut self, columns: &[i32], numbers: [f64; 3]) {
        debug_assert_eq!(columns.len(), self.width);
        self.columns.extend(columns);
        self.numbers.push(numbers);
    }

    /// Returns the number of rows.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Returns whether there are no rows.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// Returns the sums of a round.
    #[must_use]
    pub fn sums(&self, family: Family, round: &Round) -> Totals {
        let mut block = Block::new(self.width);
        let mut totals = Totals::new(self.width);
        for (columns, numbers) in self.columns.chunks(BLOCK * self.width).zip(self.numbers.chunks(BLOCK)) {
            block.weights.clear();
            block.residuals.clear();
            for (columns, &numbers) in columns.chunks(self.width).zip(numbers) {
                let (weight, residual) = family.terms(round, columns, numbers, &mut totals.scalars);
                block.weights.push(weight);
                block.residuals.push(residual);
            }
            block.add(columns, &mut totals);
        }
        totals
    }
}

/// Work space for a block of rows.
struct Block {
    width: usize,
    /// Factor of each row in the matrix, and in the vector.
    weights: Vec<u64>,
    residuals: Vec<i128>,
    panels: Vec<Panel>,
}

/// Returns the number of bits of a number.
const fn bits(x: u64) -> u32 {
    u64::BITS - x.leading_zeros()
}

impl Block {
    fn new(width: usize) -> Self {
        let panels = vec![[[0.0; PANEL]; BLOCK]; width.div_ceil(PANEL)];
        Self { width, weights: Vec::with_capacity(BLOCK), residuals: Vec::with_capacity(BLOCK), panels }
    }

    #[expect(clippy::cast_precision_loss, reason = "limbs have at most 46 bits")]
    fn add(&mut self, columns: &[i32], totals: &mut Totals) {
        let rows = self.weights.len();
        let mut largest = vec![0u32; self.panels.len()];
        for (at, row) in columns.chunks(self.width).enumerate() {
            let panels = row.chunks(PANEL).zip(&mut self.panels).zip(&mut largest);
            for ((part, panel), largest) in panels {
                for (to, &x) in panel[at].iter_mut().zip(part) {
                    *to = f64::from(x);
                    *largest = (*largest).max(x.unsigned_abs());
                }
            }
        }
        let most = bits(largest.iter().copied().max().unwrap_or_default().into());
        let left = EXACT - BLOCK.ilog2() - most;
        let weight_bits = bits(self.weights.iter().fold(0, |all, weight| all | weight));
        let mut scaled: Panel = [[0.0; PANEL]; BLOCK];
        for (first, &largest) in largest.iter().enumerate() {
            let limb = left - bits(largest.into()).min(left - 1);
            for shift in (0..weight_bits).step_by(limb as usize) {
                let own = scaled.iter_mut().zip(&self.panels[first]).zip(&self.weights);
                for ((to, from), weight) in own {
                    let part = (weight >> shift & ((1 << limb) - 1)) as f64;
                    *to = from.map(|x| part * x);
                }
                for second in first..self.panels.len() {
                    let found = product(&scaled[..rows], &self.panels[second][..rows]);
                    self.store((first, second), shift, &found, &mut totals.matrix);
                }
            }
        }
        // The residuals are multiplied like a panel whose columns are the limbs of the residuals.
        let residual_bits = self.residuals.iter().map(|x| u128::BITS - x.unsigned_abs().leading_zeros());
        let residual_bits = residual_bits.max().unwrap_or_default();
        let limb = left;
        for shift in (0..residual_bits).step_by(PANEL * limb as usize) {
            for (to, residual) in scaled.iter_mut().zip(&self.residuals) {
                for (to, at) in to.iter_mut().zip(0..) {
                    let above = residual.unsigned_abs().checked_shr(shift + at * limb).unwrap_or_default();
                    let part = (above & ((1 << limb) - 1)) as f64;
                    *to = if *residual < 0 { -part } else { part };
                }
            }
            for (second, panel) in self.panels.iter().enumerate() {
                let found = product(&scaled[..rows], &panel[..rows]);
                let entries = totals.vector.iter_mut().skip(PANEL * second);
                for (column, entry) in (0..PANEL).zip(entries) {
                    for (at, found) in (0..).zip(&found) {
                        *entry += whole(found[column], shift + at * limb);
                    }
                }
            }
        }
    }

    /// Adds the products of two panels to the upper triangle of the matrix.
    fn store(
        &self,
        (first, second): (usize, usize),
        shift: u32,
        found: &[[f64; PANEL]; PANEL],
        matrix: &mut [i128],
    ) {
        for (row, found) in (PANEL * first..self.width).zip(found) {
            let place = row * (2 * self.width - row + 1) / 2;
            for (column, &found) in (PANEL * second..self.width).zip(found) {
                if column >= row {
                    matrix[place + column - row] += whole(found, shift);
                }
            }
        }
    }
}

/// Returns a whole number times 2^shift. A limb beyond the bits of an `i128` is 0.
#[expect(clippy::cast_possible_truncation, reason = "a whole number below 2^53")]
fn whole(x: f64, shift: u32) -> i128 {
    i128::from(x as i64).checked_shl(shift).unwrap_or_default()
}

/// Returns the sums over rows of the products of a column of one panel with a column of another.
fn product(one: &[[f64; PANEL]], two: &[[f64; PANEL]]) -> [[f64; PANEL]; PANEL] {
    let mut sums = [[0.0; PANEL]; PANEL];
    for (one, two) in one.iter().zip(two) {
        for i in 0..PANEL {
            for j in 0..PANEL {
                sums[i][j] += one[i] * two[j];
            }
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        #[test]
        fn the_sums_of_blocks_are_those_of_single_rows(
            width in 1usize..11, count in 1usize..300, size in 0u32..21, weight_bits in 1u32..65,
            seed in any::<u64>(),
        ) {
            let mut state = seed;
            let mut draw = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                state ^ state >> 32
            };
            let most = 1i64 << size;
            // The ends of the range are drawn often.
            let mut column = |_| match draw() % 3 {
                0 => most as i32,
                1 => -(most as i32),
                _ => ((draw() >> 8) as i64 % (most + 1)) as i32,
            };
            let columns: Vec<i32> = (0..width * count).map(&mut column).collect();
            let weights: Vec<u64> = (0..count).map(|_| draw() >> (64 - weight_bits)).collect();
            let residuals: Vec<i128> = (0..count)
                .map(|_| i128::from(draw().cast_signed()) << (draw() % 17))
                .collect();
            let (mut found, mut block) = (Totals::new(width), Block::new(width));
            for at in (0..count).step_by(BLOCK) {
                let end = count.min(at + BLOCK);
                block.weights = weights[at..end].to_vec();
                block.residuals = residuals[at..end].to_vec();
                block.add(&columns[at * width..end * width], &mut found);
            }
            let mut expected = Totals::new(width);
            for (at, row) in columns.chunks(width).enumerate() {
                let mut entry = expected.matrix.iter_mut();
                for (j, &x) in row.iter().enumerate() {
                    for &y in &row[j..] {
                        *entry.next().unwrap() += i128::from(weights[at]) * i128::from(x) * i128::from(y);
                    }
                    expected.vector[j] += residuals[at] * i128::from(x);
                }
            }
            prop_assert_eq!(found, expected);
        }
    }
}
