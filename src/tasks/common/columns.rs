//! Columns that look wrong beside those of all peers: other units, a constant.
//!
//! What is found is told to the peer whose rows they are, and to nobody else. Three tests, chosen so that
//! honest differences between peers are not taken for mistakes (thresholds are guesses):
//!
//! - **mean**: with n rows here and N at the others, of mean M and deviation S, the mean here is more than
//!   [`FAR`] S away, and more than [`UNLIKELY`] S sqrt(1/n + 1/N);
//! - **scale**: the deviation here is more than [`SCALE`] times that of the others, or less than a part in so
//!   many;
//! - **constant**: one value c here, and rows like the others' would show another: their first two moments
//!   leave at least the share p = (M - c)^2 / (S^2 + (M - c)^2) of other values (Cauchy-Schwarz), and n p is
//!   at least [`EXPECTED`].
//!
//! "The others" is the opened sum less this peer's own part of it. What this peer's rows tell alone is in
//! [`flyswarm_data::notices`].

use crate::protocol::context::Aggregate;
use flyswarm_data::notices::listed;
use flyswarm_data::scaling::Moments;

/// Deviations between means. Rows of one class and rows of another seldom lie so far apart.
pub(crate) const FAR: f64 = 6.0;
/// Standard errors between means.
pub(crate) const UNLIKELY: f64 = 8.0;
/// Ratio of deviations; kilo is 1,000.
pub(crate) const SCALE: f64 = 100.0;
/// Other values that should have been seen.
pub(crate) const EXPECTED: f64 = 20.0;
/// Rows below which nothing is said of means, scales and constants.
pub(crate) const FEWEST_ROWS: u64 = 10;

/// What looks wrong about a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Anomaly {
    /// The mean here, that of the others, and their deviation.
    Mean(f64, f64, f64),
    /// The deviation here is so many times that of the others.
    Scale(f64),
    /// The one value here, and the mean and deviation of the others.
    Constant(f64, f64, f64),
}

/// A column, from 0, and what looks wrong about it.
pub(crate) type Finding = (usize, Anomaly);

/// Columns whose moments are far from the others'. `own` and `opened` are words of moments with squares
/// ([`moments`](flyswarm_data::scaling::moments())); `own` is part of `opened` where `counted`.
#[must_use]
pub(crate) fn compare(own: &[u64], opened: &[u64], counted: bool, features: usize) -> Vec<Finding> {
    if own.len() != opened.len() {
        return Vec::new();
    }
    let rest = opened.iter().zip(own).map(|(all, own)| if counted { all.wrapping_sub(*own) } else { *all });
    let rest = Moments::from_words(&rest.collect::<Vec<_>>(), features);
    // Without rows on either side there is nothing to compare.
    let (Ok(own), Ok(rest)) = (Moments::from_words(own, features), rest) else { return Vec::new() };
    let (Some(variances), Some(theirs)) = (&own.variances, &rest.variances) else { return Vec::new() };
    if own.rows < FEWEST_ROWS || rest.rows < FEWEST_ROWS {
        return Vec::new();
    }
    let (n, others) = (own.rows as f64, rest.rows as f64);
    let columns = own.means.iter().zip(variances).zip(rest.means.iter().zip(theirs)).enumerate();
    let odd = |(column, ((&mean, &variance), (&their_mean, &their_variance)))| {
        let (here, there) = (f64::sqrt(variance), f64::sqrt(their_variance));
        let apart = f64::abs(mean - their_mean);
        let far = apart > FAR * there && apart > UNLIKELY * there * f64::sqrt(1.0 / n + 1.0 / others);
        let odd = if here == 0.0 {
            let share = apart * apart / (their_variance + apart * apart);
            (their_variance > 0.0 && n * share >= EXPECTED)
                .then_some(Anomaly::Constant(mean, their_mean, there))
        } else if there > 0.0 && !(1.0 / SCALE..=SCALE).contains(&(here / there)) {
            Some(Anomaly::Scale(here / there))
        } else {
            (far && there > 0.0).then_some(Anomaly::Mean(mean, their_mean, there))
        };
        odd.map(|odd| (column, odd))
    };
    columns.filter_map(odd).collect()
}

/// One line for each kind of finding; `names` may be empty.
#[must_use]
pub(crate) fn lines(findings: &[Finding], names: &[String]) -> Vec<String> {
    type Kind = (fn(&Anomaly) -> bool, &'static str);
    let kinds: [Kind; 3] = [
        (
            |odd| matches!(odd, Anomaly::Scale(_)),
            "other units? values spread differently than at the other peers",
        ),
        (|odd| matches!(odd, Anomaly::Mean(..)), "other units? means far from those of the other peers"),
        (|odd| matches!(odd, Anomaly::Constant(..)), "constant here only"),
    ];
    let mut out = Vec::new();
    for (of_kind, what) in kinds {
        let name = |column: usize| {
            names.get(column).map_or_else(|| format!("feature {}", column + 1), |name| format!("{name:?}"))
        };
        let found = findings.iter().filter(|(_, odd)| of_kind(odd));
        let shown: Vec<_> = found.map(|(column, odd)| format!("{} {odd}", name(*column))).collect();
        out.extend((!shown.is_empty()).then(|| listed(what, shown.into_iter())));
    }
    out
}

impl std::fmt::Display for Anomaly {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Mean(mean, theirs, deviation) => {
                write!(f, "(mean {mean:.4}, at the others {theirs:.4} +- {deviation:.4})")
            }
            Self::Scale(ratio) if *ratio > 1.0 => write!(f, "({ratio:.0} times as widely)"),
            Self::Scale(ratio) => write!(f, "(the others' {:.0} times as widely)", 1.0 / ratio),
            Self::Constant(value, theirs, deviation) => {
                write!(f, "(always {value}, at the others {theirs:.4} +- {deviation:.4})")
            }
        }
    }
}

/// The sums from which means, and with squares spreads, of all columns follow.
pub(crate) fn aggregate(features: u32, squares: bool) -> Aggregate {
    let words = Moments::words(features as usize, squares) as u64;
    let (is, reveals) = match squares {
        true => ("means and spreads of columns", "mean and spread of every column over all rows together"),
        false => ("means of columns", "mean of every column over all rows together"),
    };
    Aggregate::exact("moments", 8, words, is, reveals)
}

#[cfg(test)]
mod tests;
