//! The winners of each lane: the `rho` largest sums, of equal ones the lowest rows of M.
//!
//! [`rank`] is the whole of the rule. Rows are offered in ascending order, so a row whose sum equals the smallest kept one
//! comes after all that are kept and cannot win: thresholds are strict. A rule under which it may would have to let equal
//! sums through, in [`Selection::raise`].

use std::cmp::Ordering;

use super::block::{Floats, LANES, Points, Words};
use super::levels::Scale;

/// A row of M and its sum.
type Candidate = (f32, u32);

/// The better candidate first.
fn rank(a: &Candidate, b: &Candidate) -> Ordering {
    b.0.total_cmp(&a.0).then(a.1.cmp(&b.1))
}

/// The candidates of each lane so far.
#[derive(Debug)]
pub(super) struct Selection {
    rho: usize,
    /// Sums of levels below it cannot win any more: 0 until `rho` rows are kept, `u16::MAX` for unused lanes.
    limits: [Words; 2],
    /// Sums not above it cannot win any more; infinite for unused lanes.
    thresholds: [f32; LANES],
    lanes: Vec<Lane>,
    /// Rows that were not sorted out by their levels.
    passed: usize,
}

#[derive(Debug)]
struct Lane {
    scale: Scale,
    kept: Vec<Candidate>,
    /// Candidates before it have their sum, others a bound of it.
    summed: usize,
}

impl Selection {
    /// One lane for each scale, at most [`LANES`].
    pub(super) fn new(scales: impl IntoIterator<Item = Scale>, rho: usize) -> Self {
        let lane = |scale| Lane { scale, kept: Vec::with_capacity(2 * rho), summed: 0 };
        let lanes: Vec<Lane> = scales.into_iter().map(lane).collect();
        let mut limits = [u16::MAX; LANES];
        limits[..lanes.len()].fill(0);
        let mut thresholds = [f32::INFINITY; LANES];
        thresholds[..lanes.len()].fill(f32::NEG_INFINITY);
        let (low, high) = limits.split_at(LANES / 2);
        let limits = [low, high].map(|half| std::array::from_fn(|i| half[i]));
        Self { rho, limits, thresholds, lanes, passed: 0 }
    }

    /// Rows, counted once for each lane, that have to be summed in f32 although they were offered as levels.
    pub(super) fn passed(&self) -> usize {
        self.passed
    }

    /// Offers the sums of levels of one row of M: lanes 0.. in the first half, the others in the second.
    #[inline(always)]
    pub(super) fn offer_levels(&mut self, row: u32, sums: &[Words; 2], points: &Points) {
        let mut any = false;
        for (sums, limits) in sums.iter().zip(&self.limits) {
            any |= sums.iter().zip(limits).fold(false, |any, (sum, limit)| any | (sum >= limit));
        }
        if !any {
            return;
        }
        for (half, sums) in sums.iter().enumerate() {
            let mut hits = [0; LANES / 2];
            for ((hit, sum), limit) in hits.iter_mut().zip(sums).zip(&self.limits[half]) {
                *hit = u8::from(sum >= limit);
            }
            for (first, eight) in (0..).step_by(8).zip(hits.as_chunks::<8>().0) {
                let mut bits = u64::from_le_bytes(*eight);
                while bits != 0 {
                    let at = first + bits.trailing_zeros() as usize / 8;
                    bits &= bits - 1;
                    self.keep(half * LANES / 2 + at, sums[at], row, points);
                }
            }
        }
    }

    #[inline(always)]
    fn keep(&mut self, at: usize, levels: u16, row: u32, points: &Points) {
        let lane = &mut self.lanes[at];
        lane.kept.push((lane.scale.bound(levels), row));
        if lane.kept.len() == 2 * self.rho {
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
        for (at, &sum) in (first..).zip(sums) {
            if sum > self.thresholds[at] {
                let lane = &mut self.lanes[at];
                lane.kept.push((sum, row));
                lane.summed = lane.kept.len();
                if lane.kept.len() == 2 * self.rho {
                    self.raise(at);
                }
            }
        }
    }

    /// Gives every candidate its sum, so that [`Selection::offer_sums`] can follow.
    pub(super) fn settle_all(&mut self, points: &Points) {
        (0..self.lanes.len()).for_each(|lane| self.settle(lane, points));
    }

    #[inline(never)]
    fn settle(&mut self, at: usize, points: &Points) {
        let Lane { scale, kept, summed } = &mut self.lanes[at];
        if !scale.is_exact() {
            self.passed += kept.len() - *summed;
            points.sum(at, &mut kept[*summed..]);
        }
        self.raise(at);
    }

    /// Cuts the candidates of a lane, all of which have their sum, to the `rho` best, and raises its thresholds.
    fn raise(&mut self, at: usize) {
        let Lane { scale, kept, summed } = &mut self.lanes[at];
        if kept.len() > self.rho {
            kept.select_nth_unstable_by(self.rho - 1, rank);
            kept.truncate(self.rho);
        }
        *summed = kept.len();
        if kept.len() == self.rho {
            let smallest = kept.iter().fold(f32::INFINITY, |least, &(sum, _)| least.min(sum));
            self.thresholds[at] = smallest;
            self.limits[at / (LANES / 2)][at % (LANES / 2)] = scale.least_above(smallest);
        }
    }

    /// `rho` ascending rows of M for each lane.
    pub(super) fn finish(mut self, points: &Points) -> Vec<u32> {
        self.settle_all(points);
        let mut winners = Vec::with_capacity(self.lanes.len() * self.rho);
        for lane in self.lanes {
            let start = winners.len();
            winners.extend(lane.kept.iter().map(|&(_, row)| row));
            winners[start..].sort_unstable();
        }
        winners
    }
}
