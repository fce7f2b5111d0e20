//! Rounds the entries of points up to whole levels. Sums of levels are cheap upper bounds of all sums, so
//! that few rows of M must be summed in f32. Let lo and hi be the smallest and the largest entry of a point
//! and step = (hi - lo) / [`LEVELS`]. Entry x has the level q = ceil((x - lo) / step), so x <= lo + q step.
//! Let S be the real sum over a row of M with s ones, and Q the sum of its levels. Then S is at most s lo + Q
//! step. The sum that [`super`] defines is rounded to f32 s - 1 times. This f32 sum is at most S + s^2 2^-24
//! A (1 + s 2^-23), where A is the largest magnitude (Higham, *Accuracy and Stability of Numerical
//! Algorithms*, section 4.2). [`Scale`] uses s^2 2^-23 A instead. The difference of these two terms covers
//! the rounding of the bound itself in f64, which is smaller than s A 2^-40. A row cannot win if its bound is
//! not above a sum that rho rows have or exceed already.
//!
//! **Exact levels.** Entries that are whole numbers (digits, letters, bits) can be their own levels, with
//! step 1. This needs entries that span at most [`LEVELS`], and sums that stay within 2^24. Then s lo + Q
//! *is* the f32 sum, and no row must be summed again.
//!
//! **Quarters.** If a row of M has few ones, the whole sum fits a byte after division by four. Four levels
//! are averaged in pairs, then the two averages, each time rounded up (one instruction). The resulting
//! quarters are added. Because of the rounding up, the result is still an upper bound. [`quartered`] is the
//! highest level for which the sum fits the byte.

/// Highest level: four of them fit into a byte.
pub(super) const LEVELS: u8 = 63;
/// Number of levels whose sum fits into a byte.
pub(super) const GROUP: usize = (u8::MAX / LEVELS) as usize;
/// Largest number of ones in a row of M, so that a sum of levels stays below `u16::MAX`.
pub(super) const MAX_ONES: usize = (u16::MAX as usize - 1) / LEVELS as usize;
/// Largest number of ones in a row of M whose quarters are summed (an estimate: with more, there are too
/// few levels to separate rows).
pub(super) const MAX_QUARTERED: usize = 32;
/// Whole numbers up to this one, and so their sums, are exact in f32.
const EXACT: f64 = (1u32 << 24) as f64;

/// Returns the highest level if the quarters of `ones` levels are summed.
pub(super) fn quartered(ones: usize) -> u8 {
    u8::try_from(4 * usize::from(u8::MAX) / ones.max(1)).map_or(LEVELS, |highest| highest.min(LEVELS))
}

/// Conversion of one point into levels, and of sums of levels into bounds.
#[derive(Debug, Clone)]
pub(super) struct Scale {
    /// s lo, the sum of a row whose levels are all 0.
    base: f64,
    lo: f64,
    /// Step; 0 if all entries are equal.
    step: f64,
    /// 1 / step, or 0.
    inverse: f64,
    highest: u8,
    slack: f64,
}

/// Range of the entries of a point.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extent {
    lo: f32,
    hi: f32,
    /// True if all entries are whole numbers.
    whole: bool,
}

impl Extent {
    /// Computes the extent of the finite entries of one point.
    #[inline(always)]
    pub(super) fn new(point: &[f32]) -> Self {
        const LANES: usize = 16;
        let (mut lo, mut hi, mut whole) = ([f32::INFINITY; LANES], [f32::NEG_INFINITY; LANES], [true; LANES]);
        let (chunks, rest) = point.as_chunks::<LANES>();
        for chunk in chunks {
            for (((lo, hi), whole), &x) in lo.iter_mut().zip(&mut hi).zip(&mut whole).zip(chunk) {
                *lo = if x < *lo { x } else { *lo };
                *hi = if x > *hi { x } else { *hi };
                *whole &= x as i32 as f32 == x;
            }
        }
        for (((lo, hi), whole), &x) in lo.iter_mut().zip(&mut hi).zip(&mut whole).zip(rest) {
            (*lo, *hi) = (lo.min(x), hi.max(x));
            *whole &= x as i32 as f32 == x;
        }
        Self {
            lo: lo.into_iter().fold(f32::INFINITY, f32::min),
            hi: hi.into_iter().fold(f32::NEG_INFINITY, f32::max),
            whole: whole == [true; LANES],
        }
    }

    /// Returns whether all entries are whole numbers.
    #[inline(always)]
    pub(super) fn is_whole(self) -> bool {
        self.whole
    }

    /// Returns the least entry, and the difference of the largest from it.
    #[inline(always)]
    pub(super) fn lo_and_range(self) -> (f64, f64) {
        (f64::from(self.lo), f64::from(self.hi) - f64::from(self.lo))
    }
}

impl Scale {
    /// Returns levels that are the entries themselves, for rows of M with `ones` ones; `None` if the
    /// entries do not allow it.
    pub(super) fn exact(Extent { lo, hi, whole }: Extent, ones: usize) -> Option<Self> {
        let (lo, hi, ones) = (f64::from(lo), f64::from(hi), ones as f64);
        let exact = whole && hi - lo <= f64::from(LEVELS) && ones * f64::max(-lo, hi) <= EXACT;
        exact.then_some(Self { base: ones * lo, lo, step: 1.0, inverse: 1.0, highest: LEVELS, slack: 0.0 })
    }

    /// Returns levels up to `highest` that bound the entries.
    pub(super) fn bounding(Extent { lo, hi, .. }: Extent, ones: usize, highest: u8) -> Self {
        let (lo, hi, ones) = (f64::from(lo), f64::from(hi), ones as f64);
        let (range, largest) = (hi - lo, f64::max(-lo, hi));
        let step = range / f64::from(highest);
        let inverse = if range > 0.0 { f64::from(highest) / range } else { 0.0 };
        Self {
            base: ones * lo,
            lo,
            step,
            inverse,
            highest,
            slack: ones * ones * largest / f64::from(1 << 23),
        }
    }

    /// Returns whether [`Scale::bound`] is the sum itself.
    pub(super) fn is_exact(&self) -> bool {
        self.slack == 0.0
    }

    /// Returns the level of an entry, at most the highest.
    #[inline(always)]
    pub(super) fn level(&self, x: f32) -> u8 {
        let level = (f64::from(x) - self.lo) * self.inverse;
        let whole = level as u8;
        (whole + u8::from(f64::from(whole) < level)).min(self.highest)
    }

    /// Returns the sum of a row whose levels add up to `levels`. If the levels are not exact, it returns
    /// approximately the upper bound of that sum.
    pub(super) fn bound(&self, levels: u16) -> f32 {
        (self.base + f64::from(levels) * self.step) as f32
    }

    /// Returns the least sum of levels of a row whose sum may be above `kept`. If no row's sum may be above
    /// it, returns `u16::MAX`, which no row reaches.
    pub(super) fn least_above(&self, kept: f32) -> u16 {
        if self.step == 0.0 {
            return u16::MAX; // All sums are equal.
        }
        // The conversion saturates at both ends.
        (((f64::from(kept) - self.slack - self.base) / self.step).floor() + 1.0) as u16
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Sums as defined in [`super::super`]: from 0.0, one after another.
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
            let scale = Scale::exact(Extent::new(&point), ones).unwrap();
            assert!(scale.is_exact(), "from {lo}");
            for (entries, row) in point.windows(ones).zip(0i32..) {
                let total = levels(&scale, entries);
                assert_eq!(scale.bound(total), sum(entries));
                assert_eq!(scale.least_above(sum(entries)), total + 1, "row {row}");
            }
        }
        for point in [&[0.0, 64.0][..], &[0.5, 1.0], &[16_777_216.0 / 4.0 + 1.0; 2], &[-1e30, 0.0]] {
            assert!(Scale::exact(Extent::new(point), 4).is_none(), "{point:?}");
        }
    }

    #[test]
    fn where_all_entries_are_equal_no_later_row_wins() {
        for x in [0.0, 1.0, -0.3, 1e-45, 1e30] {
            let scale = Scale::bounding(Extent::new(&[x; 5]), 3, LEVELS);
            assert_eq!(levels(&scale, &[x; 3]), 0);
            assert!(scale.least_above(sum(&[x; 3])) > 0, "{x}");
        }
    }

    proptest! {
        /// Checks the property that the filter needs, at every magnitude: a row with a sum above `kept`
        /// is never below the limit.
        #[test]
        fn no_row_above_is_left_out(
            mantissas in prop::collection::vec(-1.0f32..1.0, 2..60),
            exponents in prop::collection::vec(-3i32..4, 60),
            scale in -140i32..79, offset in -1e6f32..1e6, has_offset: bool, below in 0u32..3,
            highest in 8u8..=LEVELS,
        ) {
            let point: Vec<f32> = mantissas
                .iter()
                .zip(&exponents)
                .map(|(x, e)| x * 2f32.powi(*e) + if has_offset { offset } else { 0.0 })
                .map(|x| (f64::from(x) * 2f64.powi(scale)) as f32)
                .collect();
            let row = &point[..point.len() - 1];
            let scale = Scale::bounding(Extent::new(&point), row.len(), highest);
            // If all entries are equal, `kept` is their sum too, and no sum is above it; the previous
            // test covers this.
            prop_assume!(scale.step > 0.0);
            let (sum, levels) = (sum(row), levels(&scale, row));
            prop_assert!(levels <= row.len() as u16 * u16::from(highest));
            let mut kept = sum;
            for _ in 0..=below {
                kept = kept.next_down();
            }
            prop_assert!(levels >= scale.least_above(kept), "{levels} levels, {scale:?}, {row:?}");
        }
    }
}
