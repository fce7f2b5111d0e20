//! Points in whole levels: a cheap upper bound of every sum, which leaves few rows of M to be summed in f32.
//!
//! With lo and hi the least and largest entry of a point and step = (hi - lo) / [`LEVELS`], entry x has the level
//! q = ceil((x - lo) / step), so x <= lo + q step. The real sum S over a row of M with s ones is then at most
//! s lo + Q step, Q the sum of its levels, and the sum that [`super`] defines, rounded to f32 s - 1 times, is at most
//! S + s^2 2^-24 A (1 + s 2^-23) with A the largest magnitude (Higham, *Accuracy and Stability of Numerical Algorithms*,
//! section 4.2). [`Scale`] takes s^2 2^-23 A instead; the difference covers its own rounding in f64, which is smaller
//! than s A 2^-40. A row whose bound is not above a sum that already has rho rows at or above it cannot win.
//!
//! **Exact levels.** Whole numbers that span at most [`LEVELS`] (digits, letters, bits) and whose sums stay within 2^24
//! are their own levels, with step 1: then s lo + Q *is* the f32 sum, and nothing is left to be summed again.

/// The highest level: four of them add up in a byte.
pub(super) const LEVELS: u8 = 63;
/// Levels that fit a byte together.
pub(super) const GROUP: usize = (u8::MAX / LEVELS) as usize;
/// Most ones in a row of M: a sum of levels stays below `u16::MAX`.
pub(super) const MAX_ONES: usize = (u16::MAX as usize - 1) / LEVELS as usize;
/// Whole numbers up to it, and so their sums, are exact in f32.
const EXACT: f64 = (1u32 << 24) as f64;

/// How one point becomes levels, and sums of levels become bounds.
#[derive(Debug, Clone)]
pub(super) struct Scale {
    /// s lo.
    base: f64,
    lo: f64,
    /// 0 where all entries are equal.
    step: f64,
    /// 1 / step, or 0.
    inverse: f64,
    slack: f64,
}

impl Scale {
    /// For the finite entries of one point, and rows of M with `ones` ones.
    pub(super) fn new(point: &[f32], ones: usize) -> Self {
        let (mut lo, mut hi, mut whole) = (f32::INFINITY, f32::NEG_INFINITY, true);
        for &x in point {
            (lo, hi) = (lo.min(x), hi.max(x));
            whole &= x as i32 as f32 == x;
        }
        let (lo, hi, ones) = (f64::from(lo), f64::from(hi), ones as f64);
        let (range, largest) = (hi - lo, f64::max(-lo, hi));
        let base = ones * lo;
        if whole && range <= f64::from(LEVELS) && ones * largest <= EXACT {
            return Self { base, lo, step: 1.0, inverse: 1.0, slack: 0.0 };
        }
        let step = range / f64::from(LEVELS);
        let inverse = if range > 0.0 { f64::from(LEVELS) / range } else { 0.0 };
        Self { base, lo, step, inverse, slack: ones * ones * largest / f64::from(1 << 23) }
    }

    /// Whether [`Scale::bound`] is the sum itself.
    pub(super) fn is_exact(&self) -> bool {
        self.slack == 0.0
    }

    /// The level of an entry, at most [`LEVELS`].
    #[inline(always)]
    pub(super) fn level(&self, x: f32) -> u8 {
        let level = (f64::from(x) - self.lo) * self.inverse;
        let whole = level as u8;
        (whole + u8::from(f64::from(whole) < level)).min(LEVELS)
    }

    /// The sum of a row whose levels add up to `levels`, or, unless exact, about the most that it can be.
    pub(super) fn bound(&self, levels: u16) -> f32 {
        (self.base + f64::from(levels) * self.step) as f32
    }

    /// The least sum of levels with which a row may have a sum above `kept`; `u16::MAX`, which no row has, if none may.
    pub(super) fn least_above(&self, kept: f32) -> u16 {
        if self.step == 0.0 {
            return u16::MAX; // All sums are equal.
        }
        // Saturates at both ends.
        (((f64::from(kept) - self.slack - self.base) / self.step).floor() + 1.0) as u16
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// As [`super::super`] defines it: from 0.0, one after another.
    fn sum(entries: &[f32]) -> f32 {
        entries.iter().fold(0.0, |sum, x| sum + x)
    }

    fn levels(scale: &Scale, entries: &[f32]) -> u16 {
        entries.iter().map(|&x| u16::from(scale.level(x))).sum()
    }

    #[test]
    fn small_whole_numbers_are_their_own_levels() {
        for (lo, ones) in [(0, 4), (-63, 4), (1000, 4), (16_777_216 / 4 - 63, 4), (-20, 1)] {
            let point: Vec<f32> = (0..64).map(|x| (lo + x) as f32).collect();
            let scale = Scale::new(&point, ones);
            assert!(scale.is_exact(), "from {lo}");
            for (entries, row) in point.windows(ones).zip(0i32..) {
                let total = levels(&scale, entries);
                assert_eq!(scale.bound(total), sum(entries));
                assert_eq!(scale.least_above(sum(entries)), total + 1, "row {row}");
            }
        }
        for point in [&[0.0, 64.0][..], &[0.5, 1.0], &[16_777_216.0 / 4.0 + 1.0; 2], &[-1e30, 0.0]] {
            assert!(!Scale::new(point, 4).is_exact(), "{point:?}");
        }
    }

    #[test]
    fn where_all_entries_are_equal_no_later_row_wins() {
        for x in [0.0, 1.0, -0.3, 1e-45, 1e30] {
            let scale = Scale::new(&[x; 5], 3);
            assert_eq!(levels(&scale, &[x; 3]), 0);
            assert!(scale.least_above(sum(&[x; 3])) > 0, "{x}");
        }
    }

    proptest! {
        /// What the filter rests on, at every magnitude: a row with a sum above `kept` is never below the limit.
        #[test]
        fn no_row_above_is_left_out(
            mantissas in prop::collection::vec(-1.0f32..1.0, 2..60), exponents in prop::collection::vec(-3i32..4, 60),
            scale in -140i32..79, offset in -1e6f32..1e6, has_offset: bool, below in 0u32..3,
        ) {
            let point: Vec<f32> = mantissas
                .iter()
                .zip(&exponents)
                .map(|(x, e)| ((x * 2f32.powi(*e) + if has_offset { offset } else { 0.0 }) as f64 * 2f64.powi(scale)) as f32)
                .collect();
            let row = &point[..point.len() - 1];
            let scale = Scale::new(&point, row.len());
            let (sum, levels) = (sum(row), levels(&scale, row));
            prop_assert!(levels <= row.len() as u16 * u16::from(LEVELS));
            let mut kept = sum;
            for _ in 0..=below {
                kept = kept.next_down();
            }
            prop_assert!(levels >= scale.least_above(kept), "{levels} levels, {scale:?}, {row:?}");
        }
    }
}
