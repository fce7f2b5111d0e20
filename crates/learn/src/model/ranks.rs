//! The area under the curve (AUC) of two classes, within each peer. A pair has one row of each class, both
//! of the same peer. The area is the share of pairs in which the row of the second class has the larger
//! margin. Equal margins count half.
//!
//! A peer sums over pairs of its own rows, and the sums of several peers add up. So no histogram of margins
//! is opened, and rows whose scores come from different models are never compared.

use super::figures::{Share, Z};

/// Fewest rows of each class, or of a bin, in sums that one peer shows to others.
pub const FEWEST: usize = 10;
/// Largest number of rows of each class, so that no word summed over 1,024 peers overflows.
const MOST: usize = 1 << 16;

/// Sums over pairs of rows. Sums of several peers add up word by word.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ranks {
    /// Number of pairs: n m, for n rows of the first class and m of the second.
    pairs: u64,
    /// Pairs, weighted by the rows of the first class: n n m.
    by_first: u64,
    /// Pairs, weighted by the rows of the second class: n m m.
    by_second: u64,
    /// Pairs that the second class wins: each pair counts 2 if its row has the larger margin, 1 if the
    /// margins are equal.
    won: u64,
}

impl Ranks {
    /// Number of words of [`Ranks::words`].
    pub const WORDS: usize = 4;

    /// Makes the sums from the margins of one peer's rows of the first and of the second class.
    #[must_use]
    pub fn of(mut first: Vec<f64>, second: &[f64]) -> Self {
        first.sort_by(f64::total_cmp);
        let won = second.iter().map(|margin| {
            let below = first.partition_point(|other| other < margin);
            let tied = first[below..].partition_point(|other| other <= margin);
            (2 * below + tied) as u64
        });
        let (n, m) = (first.len() as u64, second.len() as u64);
        let pairs = n * m;
        Self { pairs, by_first: pairs.saturating_mul(n), by_second: pairs.saturating_mul(m), won: won.sum() }
    }

    /// Returns the part of one peer's sums that others may see. All words are 0 if a class has fewer than
    /// [`FEWEST`] rows, or more rows than can be summed.
    #[must_use]
    pub fn shown(self) -> Self {
        let times = |rows: usize| self.pairs.saturating_mul(rows as u64);
        let enough = |weighted: u64| (times(FEWEST)..=times(MOST)).contains(&weighted);
        if enough(self.by_first) && enough(self.by_second) { self } else { Self::default() }
    }

    /// Returns the pairs, the pairs weighted by the rows of the first and of the second class, and twice
    /// the pairs won.
    #[must_use]
    pub fn words(self) -> [u64; Self::WORDS] {
        [self.pairs, self.by_first, self.by_second, self.won]
    }

    /// Restores sums from [`Ranks::words`].
    #[must_use]
    pub fn from_words([pairs, by_first, by_second, won]: [u64; Self::WORDS]) -> Self {
        Self { pairs, by_first, by_second, won }
    }

    /// Adds the sums of another peer.
    pub fn add(&mut self, other: &Self) {
        let sum = |at: usize| self.words()[at] + other.words()[at];
        *self = Self::from_words([0, 1, 2, 3].map(sum));
    }

    /// Returns whether these may be sums, in the form shown to others, of peers that together have `rows`
    /// rows of the two classes.
    #[must_use]
    pub fn agree(&self, rows: [u64; 2]) -> bool {
        let [pairs, by_first, by_second, won] = self.words().map(u128::from);
        let [n, m] = rows.map(u128::from);
        let between = |rows: u128, by: u128| (FEWEST as u128 * pairs..=rows * pairs).contains(&by);
        pairs <= n * m && won <= 2 * pairs && between(n, by_first) && between(m, by_second)
    }

    /// Returns the area with its 95 % interval; `None` without pairs.
    #[must_use]
    pub fn area(&self) -> Option<Share> {
        let [pairs, by_first, by_second, won] = self.words().map(|word| word as f64);
        if pairs == 0.0 {
            return None;
        }
        let value = won / 2.0 / pairs;
        // A few rows that happen to be in order do not show that all rows are in order. For an area of 0 or 1
        // the formula gives an interval without width. So the variance is that of an area which is half a row
        // of the smaller class away from 0 and 1. The size of this class is its mean over the peers,
        // weighted by their pairs.
        let edge = (0.5 * pairs / by_first.min(by_second)).min(0.5);
        let area = value.clamp(edge, 1.0 - edge);
        let square = area * area;
        let (q1, q2) = (area / (2.0 - area), 2.0 * square / (1.0 + area));
        let variance = area * (1.0 - area) * pairs
            + (q1 - square) * (by_second - pairs)
            + (q2 - square) * (by_first - pairs);
        Some(Share::within(value, Z * variance.max(0.0).sqrt() / pairs))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn near(found: f64, expected: f64) {
        assert!((found - expected).abs() < 5e-5, "{found}, expected {expected}");
    }

    #[test]
    fn the_area_and_its_interval_are_those_of_the_formulas() {
        // 0.9 with 20 and 30 rows: Hanley and McNeil give a standard error of 0.0435.
        let low = |count| vec![0.0; count];
        let area = Ranks::of([vec![0.0; 18], vec![2.0; 2]].concat(), &[1.0; 30]).area().unwrap();
        near(area.value, 0.9);
        near(area.low, 0.9 - Z * 0.043_537);
        near(area.high, 0.9 + Z * 0.043_537);
        // All pairs are in order: the interval is as wide as for an area of 0.975, half a row from 1. More
        // rows make it narrower.
        let area = Ranks::of(low(20), &[1.0; 30]).area().unwrap();
        let (square, q1, q2): (f64, f64, f64) = (0.950_625, 0.951_219_5, 0.962_658_2);
        let variance = (0.975 * 0.025 + 29.0 * (q1 - square) + 19.0 * (q2 - square)) / 600.0;
        near(area.low, 1.0 - Z * variance.sqrt());
        assert_eq!((area.value, area.high), (1.0, 1.0));
        assert!((0.99..1.0).contains(&Ranks::of(low(2000), &[1.0; 3000]).area().unwrap().low));
        assert_eq!(Ranks::of(low(3), &[]).area(), None);
    }

    #[test]
    fn a_party_with_nine_rows_of_a_class_shows_no_ranks() {
        let of = |n, m| Ranks::of(vec![0.0; n], &vec![1.0; m]).shown();
        assert_eq!((of(9, 500), of(500, 9)), (Ranks::default(), Ranks::default()));
        assert_eq!(of(10, 10).words(), [100, 1000, 1000, 200]);
        assert_eq!((of(MOST + 1, 10), of(MOST, 10).words()[3]), (Ranks::default(), 20 * MOST as u64));
    }

    #[test]
    fn ranks_that_no_rows_have_are_refused() {
        let whole = Ranks::of(vec![0.0; 12], &[1.0; 11]);
        assert!(whole.agree([12, 11]) && Ranks::default().agree([0, 3]));
        assert!(!whole.agree([11, 11]) && !whole.agree([12, 10]));
        // The words have more pairs won than exist, or come from peers with fewer than ten rows.
        for (at, word) in [(3, 2 * 132 + 1), (1, 10 * 132 - 1), (2, 10 * 132 - 1)] {
            let mut words = whole.words();
            words[at] = word;
            assert!(!Ranks::from_words(words).agree([12, 11]), "{words:?}");
        }
    }

    proptest! {
        #[test]
        fn the_area_is_the_share_of_all_pairs_within_the_parties(
            parties in prop::collection::vec(
                (prop::collection::vec(-3i8..4, 0..30), prop::collection::vec(-3i8..4, 0..30)), 1..4,
            ),
        ) {
            let (mut sum, mut pairs, mut won) = (Ranks::default(), 0u32, 0.0);
            for (first, second) in &parties {
                for (a, b) in first.iter().flat_map(|a| second.iter().map(move |b| (a, b))) {
                    pairs += 1;
                    won += if b > a { 1.0 } else if b == a { 0.5 } else { 0.0 };
                }
                let floats = |values: &[i8]| values.iter().map(|&value| f64::from(value)).collect::<Vec<_>>();
                sum.add(&Ranks::of(floats(first), &floats(second)));
            }
            prop_assert_eq!(sum.area().map(|area| area.value), (pairs > 0).then(|| won / f64::from(pairs)));
        }
    }
}
