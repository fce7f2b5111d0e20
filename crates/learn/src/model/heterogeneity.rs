//! Measures how much data sets differ if their classes are known, and whether two such measures put them in
//! the same order.

/// Returns half the sum of the absolute differences of two class mixes, 0 to 1. Each mix is given by its
/// counts. Returns 0 if one mix is empty.
#[must_use]
pub fn total_variation(one: &[u64], other: &[u64]) -> f64 {
    let sum = |counts: &[u64]| counts.iter().sum::<u64>() as f64;
    let (n, m) = (sum(one), sum(other));
    if n == 0.0 || m == 0.0 {
        return 0.0;
    }
    one.iter().zip(other).map(|(&a, &b)| (a as f64 / n - b as f64 / m).abs()).sum::<f64>() / 2.0
}

/// Returns Spearman's rank correlation, -1 to 1: Pearson's correlation of the ranks, where equal values share
/// the mean rank. Returns `None` for fewer than two pairs, or if all values of one side are equal.
#[must_use]
pub fn spearman(pairs: &[(f64, f64)]) -> Option<f64> {
    let (a, b) = (ranks(pairs.iter().map(|pair| pair.0)), ranks(pairs.iter().map(|pair| pair.1)));
    let mean = (pairs.len() as f64 + 1.0) / 2.0;
    let moment = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| (x - mean) * (y - mean)).sum::<f64>();
    let scale = (moment(&a, &a) * moment(&b, &b)).sqrt();
    (scale > 0.0).then(|| moment(&a, &b) / scale)
}

/// Returns the ranks, from 1.
fn ranks(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut order: Vec<(usize, f64)> = values.enumerate().collect();
    order.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut ranks = vec![0.0; order.len()];
    let mut before = 0;
    for equal in order.chunk_by(|a, b| a.1 == b.1) {
        let rank = before as f64 + (equal.len() as f64 + 1.0) / 2.0;
        equal.iter().for_each(|&(place, _)| ranks[place] = rank);
        before += equal.len();
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn total_variation_is_half_the_sum_of_differences() {
        assert_eq!(total_variation(&[1, 1], &[10, 10]), 0.0);
        assert_eq!(total_variation(&[3, 0], &[0, 9]), 1.0);
        assert_eq!(total_variation(&[1, 3], &[1, 1]), 0.25);
        assert_eq!(total_variation(&[0, 0], &[1, 1]), 0.0);
    }

    /// The expected value is computed by hand: ranks 1, 2.5, 2.5, 4 against 1, 3, 2, 4.
    #[test]
    fn equal_values_share_a_rank() {
        assert_eq!(spearman(&[(1.0, 5.0), (2.0, 6.0), (3.0, 7.0)]), Some(1.0));
        assert_eq!(spearman(&[(1.0, 7.0), (2.0, 6.0), (3.0, 5.0)]), Some(-1.0));
        let found = spearman(&[(0.1, 1.0), (0.2, 8.0), (0.2, 4.0), (0.9, 9.0)]).unwrap();
        assert!((found - 4.5 / (4.5f64 * 5.0).sqrt()).abs() < 1e-12, "{found}");
        assert_eq!(spearman(&[(1.0, 2.0)]), None);
        assert_eq!(spearman(&[(1.0, 2.0), (1.0, 3.0)]), None);
    }
}
