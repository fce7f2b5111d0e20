//! Tries settings of FlyNN on the same folds as baselines.
//!
//! A [`Trial`] has training rows and test rows. Every *setting* of a method (a [`Candidate`] with a
//! readout, or a number of neighbours with a scaling) gives a [`Tally`] for each trial; tallies of trials
//! add up. [`search`](search::search) computes them.
//!
//! Source: Ram & Sinha, section 4 and Appendix D. The score of the best of all settings is optimistic on the
//! folds that selected it; `lab/` measures nested figures. The authors' code selects by balanced accuracy and
//! reports it, while the paper reports accuracy. Both are measured here.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use flyswarm_data::Dataset;

pub mod baselines;
pub mod candidate;
pub mod noisy;
pub mod search;

pub use candidate::Candidate;

/// Training rows and test rows.
#[derive(Debug, Clone)]
pub struct Trial {
    /// Labelled rows to train on.
    pub train: Dataset,
    /// Labelled rows to test on, none of them in `train`.
    pub test: Dataset,
}

impl Trial {
    /// Makes the trials of some splits.
    #[must_use]
    pub fn of(data: &Dataset, splits: &[flyswarm_data::split::Split]) -> Vec<Self> {
        splits
            .iter()
            .map(|split| Self { train: data.subset(&split.train), test: data.subset(&split.test) })
            .collect()
    }
}

/// Quantity to maximise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// Mean over the classes of the recall (the authors' code).
    #[default]
    Balanced,
    /// Share of all rows that are predicted correctly (the paper's text).
    Accuracy,
}

impl Metric {
    /// Both metrics.
    pub const ALL: [Self; 2] = [Self::Balanced, Self::Accuracy];
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Balanced => "balanced",
            Self::Accuracy => "accuracy",
        })
    }
}

impl FromStr for Metric {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|metric| metric.to_string() == text);
        found.ok_or_else(|| "expected balanced or accuracy".into())
    }
}

/// Correct predictions of each class. Tallies add up over folds, so that every row counts once, even if
/// its fold has few rows of the class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tally {
    /// (Correct predictions, rows) of each class.
    classes: Vec<(u32, u32)>,
}

impl Tally {
    /// Makes a tally of no rows.
    #[must_use]
    pub fn empty(classes: usize) -> Self {
        Self { classes: vec![(0, 0); classes] }
    }

    /// Compares predictions with the labels of `test`, which has at most 2^23 rows.
    #[must_use]
    pub fn new(test: &Dataset, predicted: &[u16]) -> Self {
        let mut tally = Self::empty(test.classes().len());
        for (&label, &class) in test.labels().iter().zip(predicted) {
            let (right, rows) = &mut tally.classes[usize::from(label)];
            *rows += 1;
            *right += u32::from(label == class);
        }
        tally
    }

    /// Makes a tally from (correct predictions, rows) of each class. Returns `None` if a class has more
    /// correct predictions than rows.
    #[must_use]
    pub fn of(classes: Vec<(u32, u32)>) -> Option<Self> {
        classes.iter().all(|(right, rows)| right <= rows).then_some(Self { classes })
    }

    /// Returns (correct predictions, rows) of each class.
    #[must_use]
    pub fn classes(&self) -> &[(u32, u32)] {
        &self.classes
    }

    /// Adds another tally of the same classes.
    pub fn add(&mut self, other: &Self) {
        for ((right, rows), (r, n)) in self.classes.iter_mut().zip(&other.classes) {
            *right += r;
            *rows += n;
        }
    }

    /// Returns the score, 0 to 1. Classes without rows are ignored. The score is 0 without rows.
    #[must_use]
    pub fn score(&self, metric: Metric) -> f64 {
        let held = self.classes.iter().filter(|(_, rows)| *rows > 0);
        match metric {
            Metric::Balanced => {
                let shares = held.clone().map(|&(right, rows)| f64::from(right) / f64::from(rows));
                shares.sum::<f64>() / (held.count().max(1) as f64)
            }
            Metric::Accuracy => {
                let (right, rows) = held.fold((0, 0), |sum, (right, rows)| (sum.0 + right, sum.1 + rows));
                f64::from(right) / f64::from(rows.max(1))
            }
        }
    }
}

/// Sums the tallies of each setting over trials.
#[must_use]
pub fn summed(tallies: Vec<Vec<Tally>>) -> Vec<Tally> {
    let mut all = tallies.into_iter();
    let mut sum = all.next().unwrap_or_default();
    for more in all {
        sum.iter_mut().zip(&more).for_each(|(sum, tally)| sum.add(tally));
    }
    sum
}

/// Returns the index of the best tally, the first of equally good ones; `None` without tallies.
#[must_use]
pub fn best<'a>(tallies: impl IntoIterator<Item = (usize, &'a Tally)>, metric: Metric) -> Option<usize> {
    let scored = tallies.into_iter().map(|(index, tally)| (tally.score(metric), index));
    scored.reduce(|best, next| if next.0 > best.0 { next } else { best }).map(|(_, index)| index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tallies_add_up_to_that_of_all_rows() {
        let classes = ["a", "b", "c"].map(String::from).to_vec();
        let data = Dataset::new(1, vec![0.0; 5], vec![0, 0, 0, 0, 1], classes).unwrap();
        let predicted = [0, 0, 0, 1, 1];
        let whole = Tally::new(&data, &predicted);
        assert_eq!((whole.score(Metric::Accuracy), whole.score(Metric::Balanced)), (0.8, 0.875));
        let part = |rows: &[usize]| {
            Tally::new(&data.subset(rows), &rows.iter().map(|&row| predicted[row]).collect::<Vec<_>>())
        };
        assert_eq!(summed(vec![vec![part(&[0, 4])], vec![part(&[1, 2, 3])]]), std::slice::from_ref(&whole));
        let worse = Tally::new(&data, &[1, 1, 1, 1, 1]);
        assert_eq!(best([(0, &worse), (1, &whole), (2, &whole)], Metric::Balanced), Some(1));
    }
}
