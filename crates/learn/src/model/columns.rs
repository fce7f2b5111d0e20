//! Compares the columns of some rows with those of all rows: how far means and spreads are apart.
//!
//! The session opens no sum for this comparison. It uses the moments that a session opens, or those that a
//! model keeps for its scaling.

use serde::{Deserialize, Serialize};

use flyswarm_data::Dataset;
use flyswarm_data::prepare::{Kind, TableSchema};
use flyswarm_data::scaling::{Moments, Scaler, moments};

/// Mean and standard deviation (divisor n) of a column.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Mean of the column.
    pub mean: f64,
    /// Standard deviation of the column.
    pub deviation: f64,
}

/// A column of some rows, compared with the same column of all rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Column {
    /// Name of the column.
    pub name: String,
    /// Spread in these rows.
    pub here: Spread,
    /// Spread in the pool.
    pub pool: Spread,
}

impl Column {
    /// Returns the distance of the two spreads in deviations of the pool: the 2-Wasserstein distance of two
    /// normal distributions, sqrt(difference of means^2 + difference of deviations^2). It is infinite if the
    /// pool is constant and these rows differ from it.
    #[must_use]
    pub fn distance(&self) -> f64 {
        let apart = (self.here.mean - self.pool.mean).hypot(self.here.deviation - self.pool.deviation);
        if apart == 0.0 { 0.0 } else { apart / self.pool.deviation.abs() }
    }
}

/// Columns of some rows, compared with those of the pool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Beside {
    /// Number of these rows.
    pub rows: u64,
    /// Number of rows of the pool, if known.
    pub pool_rows: Option<u64>,
    /// All columns, sorted by distance, the largest first.
    pub columns: Vec<Column>,
    /// Names of the columns of dates, whose values are days since 1970-01-01.
    #[serde(default)]
    pub dates: Vec<String>,
}

impl Beside {
    /// Compares `data` with the opened moments of the pool. `names` are the names of the columns, or
    /// empty. Returns `None` if the moments lack squares, if they have other columns, or if `data` has no
    /// rows.
    #[must_use]
    pub fn moments(data: &Dataset, names: &[String], pool: &Moments) -> Option<Self> {
        let deviations: Vec<_> = pool.variances.as_ref()?.iter().map(|variance| variance.sqrt()).collect();
        Self::new(data, names, (&pool.means, &deviations), Some(pool.rows))
    }

    /// Compares `data` with the means and deviations of the pool in a scaler. Returns `None` if the scaler
    /// has no deviations.
    #[must_use]
    pub fn scaler(data: &Dataset, names: &[String], pool: &Scaler, pool_rows: Option<u64>) -> Option<Self> {
        Self::new(data, names, (pool.means(), pool.deviations()), pool_rows)
    }

    fn new(
        data: &Dataset,
        names: &[String],
        (means, deviations): (&[f64], &[f64]),
        pool_rows: Option<u64>,
    ) -> Option<Self> {
        let features = data.features();
        if means.len() != features || deviations.len() != features {
            return None;
        }
        let here = Moments::from_words(&moments(data, true), features).ok()?;
        let own = here.means.iter().zip(here.variances.as_ref()?);
        let pool = means.iter().zip(deviations);
        let columns =
            own.zip(pool).enumerate().map(|(at, ((&mean, &variance), (&pool, &deviation)))| Column {
                name: names.get(at).cloned().unwrap_or_else(|| format!("feature {}", at + 1)),
                here: Spread { mean, deviation: variance.sqrt() },
                pool: Spread { mean: pool, deviation },
            });
        let mut columns: Vec<_> = columns.collect();
        // The sort is stable: columns with equal distances keep their order.
        columns.sort_by(|a, b| b.distance().total_cmp(&a.distance()));
        Some(Self { rows: here.rows, pool_rows, columns, dates: Vec::new() })
    }

    /// Names the columns of dates, if the description of the columns is known.
    #[must_use]
    pub fn dated(self, schema: Option<&TableSchema>) -> Self {
        let columns = schema.map_or(&[][..], |schema| &schema.columns);
        let dates = columns.iter().filter(|column| matches!(column.kind, Kind::Date(_)));
        Self { dates: dates.map(|column| column.name.clone()).collect(), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flyswarm_data::scaling::Scaling;

    fn rows(features: usize, values: &[f32]) -> Dataset {
        Dataset::new(features, values.to_vec(), Vec::new(), Vec::new()).unwrap()
    }

    #[test]
    fn columns_are_told_in_the_pools_deviations_and_the_farthest_comes_first() {
        // Here the means are 1, 0, 5 and the deviations 1, 0, 0. In the pool they are 3, 0, 4 and 1, 0, 1.
        let here = rows(3, &[0.0, 0.0, 5.0, 2.0, 0.0, 5.0]);
        let pool = rows(3, &[2.0, 0.0, 3.0, 4.0, 0.0, 5.0]);
        let opened = Moments::from_words(&moments(&pool, true), 3).unwrap();
        let names = ["a", "b", "c"].map(String::from);
        let found = Beside::moments(&here, &names, &opened).unwrap();
        assert_eq!((found.rows, found.pool_rows), (2, Some(2)));
        let told: Vec<_> = found.columns.iter().map(|each| (&*each.name, each.distance())).collect();
        assert_eq!(told, [("a", 2.0), ("c", f64::sqrt(2.0)), ("b", 0.0)]);
        assert_eq!(found.columns[1].here, Spread { mean: 5.0, deviation: 0.0 });
        // A scaler has the same numbers. Without names, columns are numbered from 1.
        let scaler = Scaler::fit(&Scaling::Standard, &pool).unwrap();
        let again = Beside::scaler(&here, &[], &scaler, None).unwrap();
        assert_eq!(again.columns[0].name, "feature 1");
        assert_eq!(again.columns[0].pool, found.columns[0].pool);
        // Without deviations, columns or rows the result is `None`.
        let center = Scaler::fit(&Scaling::Center, &pool).unwrap();
        assert_eq!(Beside::scaler(&here, &[], &center, None), None);
        assert_eq!(Beside::moments(&rows(1, &[0.0]), &[], &opened), None);
        assert_eq!(Beside::moments(&here.subset(&[]), &[], &opened), None);
    }

    #[test]
    fn a_column_that_is_constant_in_the_pool_and_other_here_is_infinitely_far() {
        let (here, pool) = (rows(1, &[1.0, 2.0]), rows(1, &[7.0, 7.0]));
        let opened = Moments::from_words(&moments(&pool, true), 1).unwrap();
        let found = Beside::moments(&here, &[], &opened).unwrap();
        assert_eq!(found.columns[0].distance(), f64::INFINITY);
    }
}
