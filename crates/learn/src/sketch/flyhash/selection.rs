//! Finds the winners of each lane: the `rho` largest sums, and of equal sums the lowest rows of M.
//!
//! The order of [`Candidate`]s is the complete rule. Rows are offered in ascending order. So a row whose sum
//! equals the smallest kept sum comes after all kept rows and cannot win. That is why thresholds are strict.
//! If the rule changes, [`Selection::raise`] has to let equal sums pass.

use super::block::{Bytes, Column, FLOATS, Floats, LANES, Points, Words};
use super::levels::Scale;

/// A row of M and its sum. Candidates are ordered by sum. Of equal sums, the lower row is the larger
/// candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Candidate(u64);

impl Candidate {
    /// Makes a candidate. The sum must be a number and not -0.0.
    #[inline(always)]
    pub(super) fn new(sum: f32, row: u32) -> Self {
        // The bits of an f32 get the order of the numbers: if the sign bit is set, all bits are inverted.
        let bits = sum.to_bits();
        let ordered = if bits >> 31 == 1 { !bits } else { bits | 1 << 31 };
        Self(u64::from(ordered) << 32 | u64::from(!row))
    }

    pub(super) fn row(self) -> u32 {
        !(self.0 as u32)
    }

    fn sum(self) -> f32 {
        let ordered = (self.0 >> 32) as u32;
        f32::from_bits(if ordered >> 31 == 1 { ordered ^ 1 << 31 } else { !ordered })
    }
}

/// Candidates of each lane so far.
#[derive(Debug)]
pub(super) struct Selection {
    rho: usize,
    /// Number of candidates that a lane keeps before they are cut to the `rho` best: one and a half times
    /// `rho`.
    most: usize,
    /// Limits of sums of levels. Sums below the limit can no longer win, or are below the guess. Unused
    /// lanes have `u16::MAX`.
    limits: Column<[Words; 2]>,
    /// Limits of quarters of sums of levels, one for each lane.
    quarter_limits: Column<Bytes>,
    /// Thresholds of sums. A sum that is not above its threshold can no longer win, or is not above the
    /// guess. Unused lanes have infinity.
    thresholds: [f32; LANES],
    lanes: Vec<Lane>,
    /// Number of candidates so far that must be summed one by one. Candidates that were offered as sums count
    /// if they would have to be summed after an offer as levels.
    passed: usize,
}

#[derive(Debug)]
struct Lane {
    scale: Scale,
    /// Guess of the lane. Sums that are not above it are not kept, even if they would win.
    guess: f32,
    kept: Vec<Candidate>,
    /// Number of candidates, from the first on, that have their sum. The others have a bound of it.
    summed: usize,
}

impl Selection {
    /// Makes one lane for each scale, at most [`LANES`], with its guess: negative infinity without a
    /// guess.
    pub(super) fn new(scales: Vec<Scale>, guesses: Vec<f32>, rho: usize) -> Self {
        let most = rho + rho.div_ceil(2);
        let lanes = scales.len();
        let mut selection = Self {
            rho,
            most,
            limits: Column([[u16::MAX; LANES / 2]; 2]),
            // Unused lanes have no levels.
            quarter_limits: Column([u8::MAX; LANES]),
            thresholds: [f32::INFINITY; LANES],
            lanes: Vec::with_capacity(lanes),
            passed: 0,
        };
        for (at, (scale, guess)) in scales.into_iter().zip(guesses).enumerate() {
            let limit = if guess == f32::NEG_INFINITY { 0 } else { scale.least_above(guess) };
            selection.lanes.push(Lane { scale, guess, kept: Vec::with_capacity(most), summed: 0 });
            selection.set_threshold(at, guess, limit);
        }
        selection
    }

    fn set_threshold(&mut self, at: usize, threshold: f32, limit: u16) {
        self.thresholds[at] = threshold;
        self.limits.0[at / (LANES / 2)][at % (LANES / 2)] = limit;
        self.quarter_limits.0[at] = u8::try_from(limit.div_ceil(4)).unwrap_or(u8::MAX);
    }

    /// Returns whether many lanes will have fewer than `rho` candidates. The estimate extrapolates from the
    /// rows seen so far, one `part`-th of all.
    pub(super) fn seems_in_vain(&self, part: usize) -> bool {
        let few = self.lanes.iter().filter(|lane| part * lane.kept.len() < self.rho);
        4 * few.count() > self.lanes.len()
    }

    /// Returns the number of rows so far that were not below a threshold when offered, counted for each
    /// lane that is not exact.
    pub(super) fn passed(&self) -> usize {
        self.passed
    }

    /// Offers the sums of levels of one row of M: the first half of the lanes in the first array, the
    /// others in the second.
    #[inline(always)]
    pub(super) fn offer_levels(&mut self, row: u32, sums: &[Words; 2], points: &Points) {
        let mut any = false;
        for (sums, limits) in sums.iter().zip(&self.limits.0) {
            any |= sums.iter().zip(limits).fold(false, |any, (sum, limit)| any | (sum >= limit));
        }
        if !any {
            return;
        }
        for (half, sums) in sums.iter().enumerate() {
            let mut hits = [0; LANES / 2];
            for ((hit, sum), limit) in hits.iter_mut().zip(sums).zip(&self.limits.0[half]) {
                *hit = u8::from(sum >= limit);
            }
            let mut bits = bits_of(&hits);
            while bits != 0 {
                let at = bits.trailing_zeros() as usize;
                bits &= bits - 1;
                self.keep(half * LANES / 2 + at, sums[at], row, points);
            }
        }
    }

    /// Offers the quarters of the sums of levels of one row of M, rounded up.
    #[inline(always)]
    pub(super) fn offer_quarters(&mut self, row: u32, sums: &Bytes, points: &Points) {
        let limits = &self.quarter_limits.0;
        if !sums.iter().zip(limits).fold(false, |any, (sum, limit)| any | (sum >= limit)) {
            return;
        }
        let mut hits = [0; LANES];
        for ((hit, sum), limit) in hits.iter_mut().zip(sums).zip(limits) {
            *hit = u8::from(sum >= limit);
        }
        for (first, eight) in (0..).step_by(8).zip(hits.as_chunks::<8>().0) {
            let mut bits = u64::from_le_bytes(*eight);
            while bits != 0 {
                let at = first + bits.trailing_zeros() as usize / 8;
                bits &= bits - 1;
                self.keep(at, 4 * u16::from(sums[at]), row, points);
            }
        }
    }

    #[inline(always)]
    fn keep(&mut self, at: usize, levels: u16, row: u32, points: &Points) {
        let lane = &mut self.lanes[at];
        self.passed += usize::from(!lane.scale.is_exact());
        lane.kept.push(Candidate::new(lane.scale.bound(levels), row));
        if lane.kept.len() == self.most {
            self.settle(at, points);
        }
    }

    /// Offers the sums of one row of M to the lanes from `first` on.
    #[inline(always)]
    pub(super) fn offer_sums(&mut self, row: u32, first: usize, sums: &Floats) {
        let thresholds = &self.thresholds[first..first + sums.len()];
        if !sums.iter().zip(thresholds).fold(false, |any, (sum, threshold)| any | (sum > threshold)) {
            return;
        }
        let mut hits = [0; FLOATS];
        for ((hit, sum), threshold) in hits.iter_mut().zip(sums).zip(thresholds) {
            *hit = u8::from(sum > threshold);
        }
        let mut bits = bits_of(&hits);
        while bits != 0 {
            let at = bits.trailing_zeros() as usize;
            bits &= bits - 1;
            let lane = &mut self.lanes[first + at];
            lane.kept.push(Candidate::new(sums[at], row));
            lane.summed = lane.kept.len();
            self.passed += 1;
            if lane.kept.len() == self.most {
                self.raise(first + at);
            }
        }
    }

    /// Gives every candidate its sum, so that [`Selection::offer_sums`] can follow.
    pub(super) fn settle_all(&mut self, points: &Points) {
        (0..self.lanes.len()).for_each(|lane| self.settle(lane, points));
    }

    #[inline(never)]
    fn settle(&mut self, at: usize, points: &Points) {
        let Lane { scale, guess, kept, summed } = &mut self.lanes[at];
        if !scale.is_exact() {
            points.sum(at, &mut kept[*summed..]);
            kept.retain(|candidate| candidate.sum() > *guess);
        }
        *summed = kept.len();
        self.raise(at);
    }

    /// Cuts the candidates of a lane to the `rho` best and raises the lane's thresholds. All candidates
    /// must have their sum.
    fn raise(&mut self, at: usize) {
        let Lane { scale, kept, summed, .. } = &mut self.lanes[at];
        if kept.len() < self.rho {
            return;
        }
        let (_, smallest, _) = kept.select_nth_unstable_by(self.rho - 1, |a, b| b.cmp(a));
        let smallest = smallest.sum();
        kept.truncate(self.rho);
        *summed = self.rho;
        let limit = scale.least_above(smallest);
        self.set_threshold(at, smallest, limit);
    }

    /// Returns `rho` ascending rows of M for each lane, and the lanes that have fewer rows above their guess.
    pub(super) fn finish(mut self, points: &Points) -> (Vec<u32>, Vec<usize>) {
        self.settle_all(points);
        let mut winners = Vec::with_capacity(self.lanes.len() * self.rho);
        let mut failed = Vec::new();
        for (at, lane) in self.lanes.into_iter().enumerate() {
            let start = winners.len();
            winners.extend(lane.kept.iter().map(|candidate| candidate.row()));
            if lane.kept.len() < self.rho {
                failed.push(at);
                winners.resize(start + self.rho, 0);
            }
            winners[start..].sort_unstable();
        }
        (winners, failed)
    }
}

/// Packs bytes of 0 or 1, at most 64, into bits.
#[inline(always)]
fn bits_of(bytes: &[u8]) -> u64 {
    let eights = bytes.as_chunks::<8>().0.iter().map(|eight| u64::from_le_bytes(*eight));
    // The product collects the lowest bits of eight bytes in the highest byte.
    eights.rev().fold(0, |bits, eight| bits << 8 | eight.wrapping_mul(0x0102_0408_1020_4080) >> 56)
}
