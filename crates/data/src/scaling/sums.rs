//! Sums over the columns of all peers: the moments of all rows and, if each peer compares its columns with
//! those of all, also the moments of *typical rows*.
//!  A peer with at least [`FEWEST_ROWS`] rows has two typical rows. Sort the n values of a column in
//! ascending order. The first typical row has the mean of the values at the places floor(n / 4) to floor(n /
//! 2) - 1, counted from 0. The second has the mean of those at the places floor(n / 2) to n - floor(n / 4) -
//! 1.
//!
//! Up to a quarter of the values may be codes such as -999, and still neither mean changes much. (These are
//! quartile means, like the midmean of Tukey, *Exploratory Data Analysis*, 1977.) Each peer counts equally,
//! and each number is the mean of at least ten of its rows.

use flyswarm_sealed_sum::crypto::mask::Wide;

use super::{Moments, moments};
use crate::Borrowed;

/// Fewest rows of a peer that adds typical rows: ten in each quarter.
pub const FEWEST_ROWS: usize = 40;

/// Sums of columns over all peers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnSums {
    /// Sums, which give the means.
    Means,
    /// Sums and squares, which give means and deviations.
    Spreads,
    /// Like `Spreads`, followed by the same for typical rows.
    Compared,
}

impl ColumnSums {
    /// Returns the sums for a scaling that needs moments, with `squares` or without.
    #[must_use]
    pub const fn needed(squares: bool) -> Self {
        if squares { Self::Spreads } else { Self::Means }
    }

    /// Returns the number of words for `d` features.
    #[must_use]
    pub const fn words(self, d: usize) -> usize {
        match self {
            Self::Means => Moments::words(d, false),
            Self::Spreads => Moments::words(d, true),
            Self::Compared => 2 * Moments::words(d, true),
        }
    }

    /// Returns the words that a peer with these rows adds to the sum.
    #[must_use]
    pub fn of<'a>(self, data: impl Into<Borrowed<'a>>) -> Vec<Wide> {
        let data = data.into();
        let mut words = moments(data, self != Self::Means);
        if self == Self::Compared {
            words.extend(typical_moments(data));
        }
        words
    }
}

/// Splits the opened words into those of the moments and those of typical rows, which are empty if they
/// were not summed.
#[must_use]
pub fn parts(words: &[Wide], d: usize) -> (&[Wide], &[Wide]) {
    if words.len() == ColumnSums::Compared.words(d) { words.split_at(words.len() / 2) } else { (words, &[]) }
}

/// Returns the moments of a peer's typical rows; all words are 0 if it has too few rows.
fn typical_moments(data: Borrowed<'_>) -> Vec<Wide> {
    let rows = if data.rows() < FEWEST_ROWS { Vec::new() } else { typical_rows(data).concat() };
    let rows = Borrowed::new(data.features(), &rows);
    rows.map_or_else(
        |_| vec![Wide::default(); Moments::words(data.features(), true)],
        |rows| moments(rows, true),
    )
}

/// Returns the two typical rows of at least four rows.
#[must_use]
pub fn typical_rows<'a>(data: impl Into<Borrowed<'a>>) -> [Vec<f32>; 2] {
    let data = data.into();
    let n = data.rows();
    let ends = [n / 4, n / 2, n - n / 4];
    let mut rows = [(); 2].map(|()| Vec::with_capacity(data.features()));
    for feature in 0..data.features() {
        let mut values: Vec<f32> = (0..n).map(|row| data.row(row)[feature]).collect();
        values.sort_unstable_by(f32::total_cmp);
        for (row, ends) in rows.iter_mut().zip(ends.windows(2)) {
            let quarter = &values[ends[0]..ends[1]];
            let sum = quarter.iter().fold(0.0, |sum, &value| sum + f64::from(value));
            row.push((sum / quarter.len().max(1) as f64) as f32);
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Dataset;

    fn data(values: &[f32]) -> Dataset {
        Dataset::new(1, values.to_vec(), Vec::new(), Vec::new()).unwrap()
    }

    #[test]
    fn each_sum_has_its_words_and_the_parts_are_found_again() {
        let rows = data(&[3.0; 50]);
        for sums in [ColumnSums::Means, ColumnSums::Spreads, ColumnSums::Compared] {
            let words = sums.of(&rows);
            assert_eq!(words.len(), sums.words(1));
            let (whole, typical) = parts(&words, 1);
            assert_eq!(whole, moments(&rows, sums != ColumnSums::Means));
            let expected =
                if sums == ColumnSums::Compared { moments(&data(&[3.0; 2]), true) } else { vec![] };
            assert_eq!(typical, expected);
        }
    }

    #[test]
    fn a_peer_with_few_rows_puts_in_no_typical_rows() {
        let typical = |rows: usize| {
            let values: Vec<f32> = (0..rows).map(|value| value as f32).collect();
            parts(&ColumnSums::Compared.of(&data(&values)), 1).1[0]
        };
        assert_eq!([typical(39), typical(40)], [0, 2].map(Wide::from));
    }

    proptest! {
        /// Checks that codes in up to a quarter of the rows keep each typical row within the range of the
        /// other values.
        #[test]
        fn codes_in_a_quarter_of_the_rows_stay_out(
            mut values in prop::collection::vec(50.0f32..100.0, 40..90),
            codes in prop::collection::vec(prop_oneof![Just(-999.0f32), Just(9999.0)], 0..10),
        ) {
            let count = codes.len();
            values[..count].copy_from_slice(&codes);
            for row in typical_rows(&data(&values)) {
                prop_assert!((50.0..100.0).contains(&row[0]), "{row:?}");
            }
            values.reverse();
            let sorted = typical_rows(&data(&values));
            prop_assert!(sorted[0][0] <= sorted[1][0]);
        }
    }
}
