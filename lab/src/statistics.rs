//! Compares two methods over many data sets: wins, ties and losses, the median improvement, and p values (the
//! columns of Ram & Sinha's Table 2).
//!
//! The normalised accuracy of a method on a set is `1 - a / a_k`. Here a is its accuracy and a_k that of the
//! reference (tuned kNN). A value of 0 means equal to the reference; negative is better (paper, section 4,
//! "Evaluation metric"). The improvement of a first method with accuracy a over a second with accuracy b is
//! `(a - b) / a_k`. It is positive if the first is better.

use serde::Serialize;
use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

/// Most differences for the exact distribution of the rank sum, as in scipy.
const EXACT: usize = 50;

/// Returns `1 - a / a_k`; negative is better than the reference.
#[must_use]
pub fn normalised(accuracy: f64, reference: f64) -> f64 {
    1.0 - accuracy / reference
}

/// Comparison of two methods.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// Number of sets compared.
    pub sets: usize,
    /// Number of sets on which the first is strictly better.
    pub wins: usize,
    /// Number of sets on which both are equal.
    pub ties: usize,
    /// Number of sets on which the second is better.
    pub losses: usize,
    /// Median of the improvement over the sets, as a share of the reference's accuracy.
    pub median_improvement: f64,
    /// p of the paired two-sided t-test of the improvements; `None` if there are fewer than two sets or
    /// all are equal.
    pub t_test: Option<f64>,
    /// p of the two-sided Wilcoxon signed-rank test; `None` if all sets are ties.
    pub wilcoxon: Option<f64>,
}

impl Comparison {
    /// Compares accuracies given as (first, second, reference) for each set; `None` without sets.
    #[must_use]
    pub fn new(accuracies: &[(f64, f64, f64)]) -> Option<Self> {
        let improvement = |&(a, b, k): &(f64, f64, f64)| normalised(b, k) - normalised(a, k);
        let improvements: Vec<f64> = accuracies.iter().map(improvement).collect();
        let count = |f: fn(f64, f64) -> bool| accuracies.iter().filter(|(a, b, _)| f(*a, *b)).count();
        Some(Self {
            sets: accuracies.len(),
            wins: count(|a, b| a > b),
            ties: count(|a, b| a == b),
            losses: count(|a, b| a < b),
            median_improvement: median(&improvements)?,
            t_test: t_test(&improvements),
            wilcoxon: wilcoxon(&improvements),
        })
    }
}

/// Returns the middle value, or the mean of the two middle ones; `None` for an empty list.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    Some(if sorted.len().is_multiple_of(2) { f64::midpoint(sorted[middle - 1], upper) } else { upper })
}

/// Returns p of Student's two-sided test that the mean of the differences is 0.
#[must_use]
pub fn t_test(differences: &[f64]) -> Option<f64> {
    let n = differences.len() as f64;
    let mean = differences.iter().sum::<f64>() / n;
    let variance = differences.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let t = mean / (variance / n).sqrt();
    let distribution = StudentsT::new(0.0, 1.0, n - 1.0).ok()?;
    // The lower tail keeps small p exact, because 1 - cdf(t) would cancel.
    t.is_finite().then(|| 2.0 * distribution.cdf(-t.abs()))
}

/// Returns p of Wilcoxon's two-sided signed-rank test. Differences of 0 are dropped, and equal magnitudes
/// share their mean rank. p is exact for at most 50 differences without zeros and equal magnitudes. Otherwise
/// p comes from the normal approximation, corrected for ties but not for continuity, as in
/// `scipy.stats.wilcoxon`.
#[must_use]
pub fn wilcoxon(differences: &[f64]) -> Option<f64> {
    let mut nonzero: Vec<f64> = differences.iter().copied().filter(|d| *d != 0.0).collect();
    if nonzero.is_empty() {
        return None;
    }
    nonzero.sort_unstable_by(|a, b| a.abs().total_cmp(&b.abs()));
    let n = nonzero.len();
    let (mut positive, mut ties, mut below) = (0.0, 0.0, 0);
    for group in nonzero.chunk_by(|a, b| a.abs() == b.abs()) {
        let rank = below as f64 + (group.len() as f64 + 1.0) / 2.0;
        positive += rank * group.iter().filter(|d| **d > 0.0).count() as f64;
        let t = group.len() as f64;
        ties += t * (t * t - 1.0);
        below += group.len();
    }
    let total = n as f64 * (n as f64 + 1.0) / 2.0;
    let smaller = positive.min(total - positive);
    if n == differences.len() && ties == 0.0 && n <= EXACT {
        return Some((2.0 * share_at_most(n, smaller)).min(1.0));
    }
    let deviation = (total * (2.0 * n as f64 + 1.0) / 12.0 - ties / 48.0).sqrt();
    let z = (smaller - total / 2.0) / deviation;
    Some((2.0 * Normal::standard().cdf(z)).min(1.0))
}

/// Returns the share of the 2^n sets of ranks 1..=n whose sum is at most `sum`.
fn share_at_most(n: usize, sum: f64) -> f64 {
    let mut ways = vec![0.0; n * (n + 1) / 2 + 1];
    ways[0] = 1.0;
    for rank in 1..=n {
        for total in (rank..ways.len()).rev() {
            // Shares instead of counts, so each rank halves them.
            ways[total] = 0.5 * (ways[total] + ways[total - rank]);
        }
        ways[..rank].iter_mut().for_each(|way| *way *= 0.5);
    }
    ways.iter().take(sum as usize + 1).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: Option<f64>, expected: f64) {
        let found = found.unwrap();
        assert!((found / expected - 1.0).abs() < 1e-9, "{found}, expected {expected}");
    }

    // The p-values are those of scipy 1.17.1, printed by `lab/scripts/check-statistics.py`.
    const APART: [f64; 9] = [0.012, -0.003, 0.051, 0.027, 0.008, -0.011, 0.034, 0.019, 0.002];

    #[test]
    fn p_values_are_those_of_scipy() {
        close(t_test(&APART), 0.04482594398118573);
        close(wilcoxon(&APART), 0.0546875);
        let tied =
            [0.01, 0.01, -0.01, 0.02, 0.02, 0.03, 0.0, 0.05, 0.04, 0.06, 0.07, -0.02, 0.02, 0.01, 0.03];
        close(t_test(&tied), 0.0033777434935467407);
        close(wilcoxon(&tied), 0.006050864460788634);
        let many: Vec<f64> =
            (1..=70).map(|i| f64::from(i) * if i % 9 == 0 { -0.001 } else { 0.001 }).collect();
        close(t_test(&many), 2.167023644321665e-11);
        close(wilcoxon(&many), 6.7678128570628086e-09);
    }

    #[test]
    fn differences_that_say_nothing_have_no_p_value() {
        assert_eq!((t_test(&[0.1]), t_test(&[0.0; 4]), wilcoxon(&[0.0; 4])), (None, None, None));
        assert_eq!(median(&[]), None);
        assert_eq!(Comparison::new(&[]), None);
    }

    #[test]
    fn a_comparison_counts_wins_and_takes_the_median_of_improvements() {
        let found =
            Comparison::new(&[(0.9, 0.8, 0.8), (0.5, 0.5, 0.9), (0.6, 0.7, 1.0), (0.8, 0.7, 0.5)]).unwrap();
        assert_eq!((found.sets, found.wins, found.ties, found.losses), (4, 2, 1, 1));
        // The improvements are 0.125, 0, -0.1 and 0.2.
        assert!((found.median_improvement - 0.0625).abs() < 1e-12);
    }
}
