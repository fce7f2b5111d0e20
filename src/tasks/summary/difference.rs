//! Compares the groups of a column with standardised mean differences, Welch's t-test and Pearson's
//! chi-square test. They use only opened numbers. If a test needs a closed number, it is left out.

use flyswarm_glm::{chi_square_p, student_p};

/// Standardised mean difference of two groups, and the p value of a test of all groups.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Difference {
    /// Absolute value of the standardised mean difference, or `None` unless there are exactly two groups and
    /// their numbers are open.
    pub(super) smd: Option<f64>,
    pub(super) p: Option<f64>,
}

/// Count, mean and standard deviation of a group.
pub(super) type Group = (u64, f64, f64);

/// Compares the means of two groups. A group is `None` if one of its numbers is closed.
pub(super) fn of_means(groups: &[Option<Group>]) -> Difference {
    let &[Some((n, mean, sd)), Some((other_n, other_mean, other_sd))] = groups else {
        return Difference::default();
    };
    let (variance, other_variance) = (sd * sd, other_sd * other_sd);
    let spread = ((variance + other_variance) / 2.0).sqrt();
    let (one, two) = (variance / n as f64, other_variance / other_n as f64);
    let less = |n: u64| n as f64 - 1.0;
    let freedom = (one + two).powi(2) / (one.powi(2) / less(n) + two.powi(2) / less(other_n));
    let t = (mean - other_mean) / (one + two).sqrt();
    let valid = n > 1 && other_n > 1 && spread > 0.0;
    Difference {
        smd: valid.then(|| (mean - other_mean).abs() / spread),
        p: valid.then(|| student_p(t, freedom)),
    }
}

/// Compares the counts of each level in each group. A count is `None` if it is closed. Each inner list has
/// the counts of one level.
pub(super) fn of_counts(levels: &[Vec<Option<u64>>]) -> Difference {
    let open: Option<Vec<Vec<f64>>> =
        levels.iter().map(|level| level.iter().map(|count| Some((*count)? as f64)).collect()).collect();
    let Some(counts) = open.filter(|counts| counts.len() > 1) else { return Difference::default() };
    let groups = counts[0].len();
    let of_group = |group: usize| counts.iter().map(|level| level[group]).sum::<f64>();
    let all: f64 = (0..groups).map(of_group).sum();
    let expected = |level: &[f64], group: usize| level.iter().sum::<f64>() * of_group(group) / all;
    if groups < 2 || counts.iter().any(|level| (0..groups).any(|group| expected(level, group) <= 0.0)) {
        return Difference::default();
    }
    let terms = counts.iter().flat_map(|level| {
        level
            .iter()
            .enumerate()
            .map(move |(group, &count)| (count - expected(level, group)).powi(2) / expected(level, group))
    });
    let freedom = ((counts.len() - 1) * (groups - 1)) as f64;
    let p = Some(chi_square_p(terms.sum(), freedom));
    let share =
        |group: usize| counts.iter().map(|level| level[group] / of_group(group)).collect::<Vec<f64>>();
    Difference { smd: (groups == 2).then(|| mahalanobis(&share(0), &share(1))).flatten(), p }
}

/// Returns the standardised difference of shares of levels (Yang & Dalton, *A unified approach to measuring
/// the effect size between two groups using SAS*, 2012). The last level is left out, because it follows from
/// the others.
fn mahalanobis(one: &[f64], two: &[f64]) -> Option<f64> {
    let size = one.len() - 1;
    let covariance = |shares: &[f64], i: usize, j: usize| {
        if i == j { shares[i] * (1.0 - shares[i]) } else { -shares[i] * shares[j] }
    };
    // The matrix has the covariance, and the difference as its last column. It is solved by elimination with
    // the largest pivot.
    let mut rows: Vec<Vec<f64>> = (0..size)
        .map(|i| {
            let row = (0..size).map(|j| (covariance(one, i, j) + covariance(two, i, j)) / 2.0);
            row.chain([one[i] - two[i]]).collect()
        })
        .collect();
    for at in 0..size {
        let pivot = (at..size).max_by(|&a, &b| rows[a][at].abs().total_cmp(&rows[b][at].abs()))?;
        rows.swap(at, pivot);
        let lead = rows[at].clone();
        if lead[at].abs() < 1e-12 {
            return None;
        }
        for other in (0..size).filter(|&other| other != at) {
            let factor = rows[other][at] / lead[at];
            rows[other].iter_mut().zip(&lead).for_each(|(x, y)| *x -= factor * y);
        }
    }
    let square: f64 = (0..size).map(|i| rows[i][size] / rows[i][i] * (one[i] - two[i])).sum();
    Some(square.max(0.0).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: Option<f64>, expected: f64) {
        let found = found.expect("a number");
        assert!((found - expected).abs() < 1e-9 * expected.abs().max(1e-3), "{found}, {expected}");
    }

    #[test]
    fn tests_of_groups_are_those_of_scipy() {
        // The expected values come from scipy.stats: ttest_ind_from_stats(..., equal_var=False) and
        // chi2_contingency(..., correction=False).
        let found = of_means(&[Some((40, 12.5, 3.0)), Some((55, 11.0, 4.5))]);
        close(found.p, 0.054_500_144_807_094_31);
        close(found.smd, 1.5 / (29.25f64 / 2.0).sqrt());
        let found =
            of_counts(&[vec![Some(12), Some(30)], vec![Some(45), Some(20)], vec![Some(10), Some(25)]]);
        close(found.p, 8.369_844_148_724_121e-6);
        close(found.smd, 0.887_865_700_291_238_6);
        close(of_means(&[Some((1000, 0.0, 1.0)), Some((1000, 1.0, 1.0))]).p, 5.012_825_213_402_718e-99);
        close(of_counts(&[vec![Some(50), Some(51)], vec![Some(50), Some(49)]]).p, 0.887_531_497_807_507_7);
    }

    #[test]
    fn no_test_is_made_with_a_closed_number_or_an_empty_level() {
        assert_eq!(of_means(&[Some((40, 12.5, 3.0)), None]), Difference::default());
        assert_eq!(of_means(&[Some((40, 12.5, 0.0)), Some((40, 12.5, 0.0))]), Difference::default());
        assert_eq!(of_counts(&[vec![Some(12), None], vec![Some(4), Some(5)]]), Difference::default());
        assert_eq!(of_counts(&[vec![Some(0), Some(0)], vec![Some(4), Some(5)]]), Difference::default());
        assert_eq!(of_counts(&[vec![Some(3), Some(4)]]), Difference::default());
    }
}
