//! Finds rows far outside the training rows of a model, column by column. Typical causes are another
//! unit, a code for missing values, or mixed-up columns.

use super::Model;
use flyswarm_data::Dataset;
use flyswarm_data::scaling::Scaling;

/// A value is far outside at this number of standard deviations from the column's mean. By Chebyshev's
/// inequality at most one training value in 2,500 was that far. With n training rows, sqrt(n - 1) deviations
/// are enough, because no training value was farther (Samuelson's inequality).
pub const FAR: f64 = 50.0;
/// A value is also far outside at this number u of standard deviations if enough values of its column are
/// that far: at least three, and more than one value in u^2. By Chebyshev's inequality the training rows had
/// no larger share.
pub const UNUSUAL: f64 = 6.0;

/// Known range of a column's values in the model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ColumnRange {
    /// Mean and standard deviation over all counted rows. A deviation of 0 means that the column was
    /// constant.
    Spread(f64, f64),
    /// The mean alone.
    Mean(f64),
    /// Bounds set by the session. Values beyond them are cut off.
    Bounds(f32, f32),
    /// Nothing is known.
    Nothing,
}

impl ColumnRange {
    /// Returns whether a value is more than `deviations` from the mean, beyond the bounds, or different
    /// from a constant column (up to the rounding of binary32).
    #[must_use]
    pub fn is_beyond(self, x: f32, deviations: f64) -> bool {
        match self {
            Self::Spread(mean, deviation) => {
                self.distance(x) > (deviations * deviation).max(1e-6 * mean.abs())
            }
            Self::Bounds(..) => self.distance(x) > 0.0,
            Self::Mean(_) | Self::Nothing => false,
        }
    }

    /// Returns the distance from the mean, or from the bounds.
    fn distance(self, x: f32) -> f64 {
        let x = f64::from(x);
        match self {
            Self::Spread(mean, _) | Self::Mean(mean) => (x - mean).abs(),
            Self::Bounds(lo, hi) => (f64::from(lo) - x).max(x - f64::from(hi)),
            Self::Nothing => 0.0,
        }
    }
}

/// A column with values far outside.
#[derive(Debug, Clone, PartialEq)]
pub struct Outside {
    /// Index of the column, from 0.
    pub column: usize,
    /// Number of rows whose value is far outside.
    pub rows: usize,
    /// Value that is farthest from the others, the first in a tie.
    pub farthest: f32,
}

impl Model {
    /// Returns the known range of the values of a column, from 0.
    #[must_use]
    pub fn known(&self, column: usize) -> ColumnRange {
        let scaler = self.scaler();
        let bound = |bounds: &[f32]| bounds.get(if bounds.len() == 1 { 0 } else { column }).copied();
        match (scaler.means().get(column), scaler.deviations().get(column), scaler.scaling()) {
            (Some(&mean), Some(&deviation), _) => ColumnRange::Spread(mean, deviation),
            (Some(&mean), None, _) => ColumnRange::Mean(mean),
            (None, _, Scaling::Range { lo, hi }) => match (bound(lo), bound(hi)) {
                (Some(lo), Some(hi)) => ColumnRange::Bounds(lo, hi),
                _ => ColumnRange::Nothing,
            },
            _ => ColumnRange::Nothing,
        }
    }

    /// Returns the columns with values far outside the known range, in their order, and the number of
    /// rows with such a value.
    #[must_use]
    pub fn outside(&self, data: &Dataset) -> (Vec<Outside>, usize) {
        let known: Vec<ColumnRange> = (0..data.features()).map(|column| self.known(column)).collect();
        let values = |column: usize| (0..data.rows()).map(move |i| data.row(i)[column]);
        let beyond =
            |column: usize, limit| values(column).filter(|&x| known[column].is_beyond(x, limit)).count();
        let learnt = self.class_rows().map(|rows| rows.iter().sum::<u64>() as f64);
        // The factor is slightly above 1, because the words of the sums are rounded.
        let far = learnt.map_or(FAR, |learnt| FAR.min(1.001 * learnt.sqrt()));
        let limits: Vec<f64> = (0..known.len())
            .map(|column| {
                let unusual = beyond(column, UNUSUAL);
                let many = unusual >= 3 && unusual as f64 * UNUSUAL * UNUSUAL > data.rows() as f64;
                if many { UNUSUAL } else { far }
            })
            .collect();
        let is_far = |column: usize, x: f32| known[column].is_beyond(x, limits[column]);
        let outside = |column: usize| {
            let far = values(column).filter(|&x| is_far(column, x));
            let farther =
                |a: f32, b: f32| if known[column].distance(b) > known[column].distance(a) { b } else { a };
            let farthest = far.clone().reduce(farther)?;
            Some(Outside { column, rows: far.count(), farthest })
        };
        let found: Vec<Outside> = (0..known.len()).filter_map(outside).collect();
        let any = |row: &[f32]| found.iter().any(|outside| is_far(outside.column, row[outside.column]));
        let rows = (0..data.rows()).filter(|&i| any(data.row(i))).count();
        (found, rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tests::small_model;
    use flyswarm_data::digits::digits;

    fn changed(column: usize, change: impl Fn(usize) -> Option<f32>) -> Dataset {
        let data = digits();
        let mut values = data.values().to_vec();
        for i in 0..data.rows() {
            if let Some(value) = change(i) {
                values[i * data.features() + column] = value;
            }
        }
        Dataset::new(data.features(), values, Vec::new(), Vec::new()).unwrap()
    }

    #[test]
    fn values_far_from_what_was_learnt_are_counted_by_column() {
        let model = small_model(Scaling::Standard, 0.5);
        assert_eq!(model.outside(&digits()), (Vec::new(), 0), "training rows are not outside");
        let data = changed(20, |i| (i % 100 == 0).then_some(-999.0 - i as f32));
        let (found, rows) = model.outside(&data);
        let twenty = found.iter().find(|outside| outside.column == 20).unwrap();
        assert_eq!((twenty.rows, twenty.farthest), (18, -999.0 - 1700.0));
        assert_eq!((found.len(), rows), (1, 18));
        // The values have a different unit: no value is 20 deviations from the mean, but too many are more
        // than 6 away.
        let tenfold = digits().values().iter().skip(20).step_by(64).map(|x| 10.0 * x).collect::<Vec<_>>();
        let (found, rows) = model.outside(&changed(20, |i| Some(tenfold[i])));
        assert!(found.len() == 1 && found[0].rows == rows && rows > 1797 / 36, "{found:?}");
        // The first pixel is 0 in all rows, so any other value is outside.
        let (found, _) = model.outside(&changed(0, |i| (i == 7).then_some(0.5)));
        assert!(found.contains(&Outside { column: 0, rows: 1, farthest: 0.5 }), "{found:?}");
    }

    #[test]
    fn bounds_of_the_session_count_values_that_are_cut_off_and_without_numbers_nothing_is_said() {
        let of = |scaling| small_model(scaling, 0.5).outside(&changed(5, |i| (i < 3).then_some(17.0)));
        let range = of(Scaling::Range { lo: vec![0.0], hi: vec![16.0] });
        assert_eq!(range, (vec![Outside { column: 5, rows: 3, farthest: 17.0 }], 3));
        for silent in [Scaling::None, Scaling::UnitNorm, Scaling::Center] {
            assert_eq!(of(silent), (Vec::new(), 0));
        }
    }
}
