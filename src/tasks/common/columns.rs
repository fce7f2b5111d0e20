//! Finds columns that look wrong compared with those of all peers: other units, or a constant.
//!
//! Findings are shown only to the peer that owns the rows. The tests are chosen so that honest
//! differences between peers are not reported as mistakes (the thresholds are estimates). Let n be the number
//! of rows here. Let N, M and S be the number, mean and deviation of the rows at all other peers:
//!
//! - **mean**: the mean here is more than [`FAR`] S from M, and more than [`UNLIKELY`] S sqrt(1/n + 1/N);
//! - **scale**: the deviation here is more than [`SCALE`] times S, or less than S / [`SCALE`];
//! - **constant**: the column here has one value c, although rows like those of the other peers would have
//!   more than one value. By M and S, at least the share p = (M - c)^2 / (S^2 + (M - c)^2) of the other
//!   peers' values differ from c (Cauchy-Schwarz). The column is reported if n p is at least [`EXPECTED`].
//!
//! "The others" is the opened sum minus this peer's own part. If another peer has a few codes such as -999, S
//! is so large that **mean** finds nothing and every honest deviation looks small. So mean and scale are also
//! tested with the moments of all peers' [typical rows](sums), which such codes do not change. S is then the
//! deviation of the typical rows divided by [`QUARTER`]. In that test a mean is reported only if at most the
//! share [`BEYOND`] of the rows here lie beyond M: a value that is rare at one peer and frequent at another
//! does not mean other units. A small deviation here is not reported if the typical rows here and at the
//! others have similar deviations.
//!
//! Findings from this peer's rows alone are in [`flyswarm_data::notices`].

use crate::crypto::mask::Wide;
use crate::data::Dataset;
use crate::protocol::context::Aggregate;
use flyswarm_data::notices::listed;
use flyswarm_data::scaling::sums::{self, typical_rows};
use flyswarm_data::scaling::{ColumnSums, Moments, moments};

/// Two means are reported if they differ by more than this number of deviations. The means of two classes
/// seldom differ as much.
pub(crate) const FAR: f64 = 6.0;
/// Number of standard errors between two means that is reported.
pub(crate) const UNLIKELY: f64 = 8.0;
/// Ratio of two deviations that is reported. A wrong unit prefix such as kilo gives a ratio of 1,000.
pub(crate) const SCALE: f64 = 100.0;
/// Expected number of rows with other values from which on a constant is reported.
pub(crate) const EXPECTED: f64 = 20.0;
/// Deviation of typical rows, in deviations of all rows, if the rows have a normal distribution: the mean of
/// the second quarter of its values is 0.325 deviations below the median.
pub(crate) const QUARTER: f64 = 0.325;
/// Largest share of the rows here that may lie beyond the mean of the other peers.
pub(crate) const BEYOND: f64 = 0.05;
/// With fewer rows than this, nothing is compared.
pub(crate) const FEWEST_ROWS: u64 = 10;

/// Anomaly of a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Anomaly {
    /// Mean here, mean of the others, and deviation of the others.
    Mean(f64, f64, f64),
    /// Deviation here, divided by that of the others.
    Scale(f64),
    /// The only value here, and mean and deviation of the others.
    Constant(f64, f64, f64),
}

/// Index of a column, from 0, and its anomaly.
pub(crate) type Finding = (usize, Anomaly);

/// Returns the columns of `data` that differ much from those of the other peers. `opened` has the opened
/// words of [`ColumnSums`], with squares. If `counted` is true, the words of `data` are part of this sum.
#[must_use]
pub(crate) fn compare(data: &Dataset, opened: &[Wide], counted: bool) -> Vec<Finding> {
    let features = data.features();
    let (all, all_typical) = sums::parts(opened, features);
    let own_sums = if all_typical.is_empty() { ColumnSums::Spreads } else { ColumnSums::Compared };
    let own = own_sums.of(data);
    let (own, own_typical) = sums::parts(&own, features);
    let others = |all: &[Wide], own: &[Wide]| {
        let rest = all.iter().zip(own).map(|(all, own)| if counted { all.wrapping_sub(*own) } else { *all });
        Moments::from_words(&rest.collect::<Vec<_>>(), features).ok()
    };
    // If this peer or all others have no rows, there is nothing to compare.
    let (Ok(here), Some(there)) = (Moments::from_words(own, features), others(all, own)) else {
        return Vec::new();
    };
    if all.len() != own.len() || here.rows < FEWEST_ROWS || there.rows < FEWEST_ROWS {
        return Vec::new();
    }
    let typical = typical(data).zip(others(all_typical, own_typical));
    let odd = |column| {
        let plain = plain(Column::of(&here, column)?, Column::of(&there, column)?, (here.rows, there.rows));
        let Some((own, typical)) = &typical else { return plain };
        let (own, there) = (Column::of(own, column)?, Column::of(typical, column)?);
        match plain {
            Some(Anomaly::Scale(ratio)) if ratio < 1.0 && (own.spreads_like(there) || own.same(there)) => {
                robust(data, column, own, there)
            }
            None => robust(data, column, own, there),
            found => found,
        }
    };
    (0..features).filter_map(|column| Some((column, odd(column)?))).collect()
}

/// Mean and deviation of a column.
#[derive(Clone, Copy, Debug)]
struct Column {
    mean: f64,
    deviation: f64,
}

impl Column {
    fn of(moments: &Moments, column: usize) -> Option<Self> {
        let variance = moments.variances.as_ref()?.get(column)?;
        Some(Self { mean: *moments.means.get(column)?, deviation: f64::sqrt(*variance) })
    }

    /// Returns whether both columns are constant and have the same value. For example, the typical rows of a
    /// sparse column are all 0.
    fn same(self, other: Self) -> bool {
        self.deviation == 0.0 && other.deviation == 0.0 && self.mean == other.mean
    }

    /// Returns whether both deviations are above 0, and neither is much larger than the other.
    fn spreads_like(self, other: Self) -> bool {
        let ratio = self.deviation / other.deviation;
        self.deviation > 0.0 && other.deviation > 0.0 && (1.0 / SCALE..=SCALE).contains(&ratio)
    }
}

/// Returns the moments of this peer's own typical rows.
fn typical(data: &Dataset) -> Option<Moments> {
    let rows = Dataset::new(data.features(), typical_rows(data).concat(), Vec::new(), Vec::new()).ok()?;
    Moments::from_words(&moments(&rows, true), data.features()).ok()
}

/// Finds an anomaly of a column from all rows. The last argument is the number of rows here and the number of
/// rows at the others.
fn plain(here: Column, there: Column, (own, others): (u64, u64)) -> Option<Anomaly> {
    let (n, others) = (own as f64, others as f64);
    let apart = f64::abs(here.mean - there.mean);
    let deviation = there.deviation;
    let far = apart > FAR * deviation && apart > UNLIKELY * deviation * f64::sqrt(1.0 / n + 1.0 / others);
    if here.deviation == 0.0 {
        let share = apart * apart / (deviation * deviation + apart * apart);
        let odd = deviation > 0.0 && n * share >= EXPECTED;
        odd.then_some(Anomaly::Constant(here.mean, there.mean, deviation))
    } else if deviation > 0.0 && !here.spreads_like(there) {
        Some(Anomaly::Scale(here.deviation / deviation))
    } else {
        (far && deviation > 0.0).then_some(Anomaly::Mean(here.mean, there.mean, deviation))
    }
}

/// Finds an anomaly of a column from typical rows.
fn robust(data: &Dataset, column: usize, here: Column, there: Column) -> Option<Anomaly> {
    if here.deviation == 0.0 || there.deviation == 0.0 {
        return None;
    }
    let above = here.mean > there.mean;
    let beyond = |row: &usize| (f64::from(data.row(*row)[column]) > there.mean) != above;
    let beyond = (0..data.rows()).filter(beyond).count();
    if beyond as f64 > BEYOND * data.rows() as f64 {
        return None;
    }
    let deviation = there.deviation / QUARTER;
    if f64::abs(here.mean - there.mean) > FAR * deviation {
        return Some(Anomaly::Mean(here.mean, there.mean, deviation));
    }
    (!here.spreads_like(there)).then_some(Anomaly::Scale(here.deviation / there.deviation))
}

/// Returns one line for each kind of finding. `names` may be empty.
#[must_use]
pub(crate) fn lines(findings: &[Finding], names: &[String]) -> Vec<String> {
    /// Advice for the user.
    const CONVERT: &str = "; if so, convert the values in a map file (--map): `factor` in [columns.NAME]";
    type Kind = (fn(&Anomaly) -> bool, &'static str, &'static str);
    let kinds: [Kind; 3] = [
        (
            |odd| matches!(odd, Anomaly::Scale(_)),
            "other units? deviations differ from those of the other peers",
            CONVERT,
        ),
        (
            |odd| matches!(odd, Anomaly::Mean(..)),
            "other units? means far from those of the other peers",
            CONVERT,
        ),
        (|odd| matches!(odd, Anomaly::Constant(..)), "constant here only", ""),
    ];
    let mut out = Vec::new();
    for (of_kind, what, remedy) in kinds {
        let name = |column: usize| {
            names.get(column).map_or_else(|| format!("feature {}", column + 1), |name| format!("{name:?}"))
        };
        let found = findings.iter().filter(|(_, odd)| of_kind(odd));
        let shown: Vec<_> = found.map(|(column, odd)| format!("{} {odd}", name(*column))).collect();
        out.extend((!shown.is_empty()).then(|| listed(what, shown.into_iter()) + remedy));
    }
    out
}

impl std::fmt::Display for Anomaly {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Mean(mean, theirs, deviation) => {
                write!(f, "(mean {mean:.4}, at the others {theirs:.4} +- {deviation:.4})")
            }
            Self::Scale(ratio) if *ratio > 1.0 => write!(f, "({ratio:.0} times the others' deviation)"),
            Self::Scale(ratio) => write!(f, "(the others' deviation is {:.0} times as large)", 1.0 / ratio),
            Self::Constant(value, theirs, deviation) => {
                write!(f, "(always {value}, at the others {theirs:.4} +- {deviation:.4})")
            }
        }
    }
}

/// Returns the aggregate of the sums for means, spreads and typical rows of all columns.
pub(crate) fn aggregate(features: u32, sums: ColumnSums) -> Aggregate {
    let words = sums.words(features as usize) as u64;
    let (is, reveals) = match sums {
        ColumnSums::Means => ("means of columns", "mean of every column over all rows together"),
        ColumnSums::Spreads => {
            ("means and deviations of columns", "mean and deviation of every column over all rows together")
        }
        ColumnSums::Compared => (
            "means and deviations of columns",
            "mean and deviation of every column over all rows together, and over two typical rows of \
             each peer with at least 40: means of the second and of the third quarter of its values",
        ),
    };
    Aggregate::exact("moments", 64, words, is, reveals)
}

#[cfg(test)]
mod tests;
