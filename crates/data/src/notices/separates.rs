//! Measures how well one column alone separates the classes.

use crate::Dataset;

/// AUC above which a column reveals the class.
pub const SEPARATES: f64 = 0.98;
/// Rows that a class needs to be compared.
pub const MIN_CLASS_ROWS: usize = 10;
/// Fewest compared rows in all.
const FEWEST: usize = 50;
/// Most classes that are compared; those with the most rows are kept.
const CLASSES: usize = 30;
/// Most rows that are compared.
const ROWS: usize = 4_000;
/// Largest number of values in the compared rows, over all columns.
const VALUES: usize = 1 << 25;
/// Most different values that a column of numbers may have to be treated as codes.
const CODES: usize = 30;

/// Rows that are compared. Each of their classes has enough rows.
pub(super) struct Sample {
    /// Compared rows, each with the place of its class.
    rows: Vec<(usize, usize)>,
    classes: usize,
}

impl Sample {
    /// Draws the rows; `None` without labels, or if fewer than two classes have enough rows.
    pub(super) fn new(data: &Dataset) -> Option<Self> {
        let counts = data.class_counts(data.classes().len());
        let mut classes: Vec<usize> = (0..counts.len()).collect();
        classes.retain(|&class| counts[class] >= MIN_CLASS_ROWS as u64);
        classes.sort_by_key(|&class| std::cmp::Reverse(counts[class]));
        classes.truncate(CLASSES);
        if classes.len() < 2 {
            return None;
        }
        let most = ROWS.min((VALUES / data.features()).max(400));
        let share = (most / classes.len()).max(MIN_CLASS_ROWS) as u64;
        let mut rows = Vec::new();
        for (place, &class) in classes.iter().enumerate() {
            let step = counts[class].div_ceil(share) as usize;
            let of_class =
                data.labels().iter().enumerate().filter(|(_, label)| usize::from(**label) == class);
            rows.extend(of_class.step_by(step).map(|(row, _)| (row, place)));
        }
        (rows.len() >= FEWEST).then_some(Self { rows, classes: classes.len() })
    }

    /// Returns the AUC for two classes; for more classes, the mean over all pairs of classes (Hand and
    /// Till 2001, equation 7). Each pair is scored in its better direction. Codes and columns with few
    /// values may also be sorted in the order that separates best.
    pub(super) fn auc(&self, values: &[f32], coded: bool) -> Option<f64> {
        let mut rows: Vec<(f32, usize)> = Vec::with_capacity(self.rows.len());
        for &(row, class) in &self.rows {
            rows.push((*values.get(row)?, class));
        }
        rows.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        let groups: Vec<Vec<u64>> =
            rows.chunk_by(|a, b| a.0 == b.0).map(|group| self.counts(group)).collect();
        let by_size = self.of_groups(&groups);
        if groups.len() < 3 || (groups.len() > CODES && !coded) {
            return Some(by_size);
        }
        // Codes with few rows would separate the classes by chance.
        let total = |group: &[u64]| group.iter().sum::<u64>();
        let (mut known, rare): (Vec<_>, Vec<_>) =
            groups.into_iter().partition(|group| total(group) >= MIN_CLASS_ROWS as u64);
        let rest = (0..self.classes).map(|class| rare.iter().map(|group| group[class]).sum()).collect();
        known.push(rest);
        Some(by_size.max(self.of_codes(known)))
    }

    fn counts(&self, group: &[(f32, usize)]) -> Vec<u64> {
        let mut counts = vec![0; self.classes];
        group.iter().for_each(|&(_, class)| counts[class] += 1);
        counts
    }

    /// Returns the AUC over all pairs of classes, for groups of equal values in ascending order.
    fn of_groups(&self, groups: &[Vec<u64>]) -> f64 {
        let k = self.classes;
        let mut below = vec![0u64; k];
        // Twice the number of pairs of rows of classes a and b with a's value above b's; equal
        // values count half.
        let mut above = vec![0u64; k * k];
        for group in groups {
            for a in (0..k).filter(|&a| group[a] > 0) {
                for b in 0..k {
                    above[a * k + b] += group[a] * (2 * below[b] + group[b]);
                }
            }
            below.iter_mut().zip(group).for_each(|(below, rows)| *below += rows);
        }
        let pairs = (0..k).flat_map(|a| (0..a).map(move |b| (a, b)));
        mean(pairs.map(|(a, b)| (above[a * k + b].max(above[b * k + a]), 2 * below[a] * below[b])))
    }

    /// Returns the same AUC, but sorts the codes for each pair of classes in the best order.
    fn of_codes(&self, groups: Vec<Vec<u64>>) -> f64 {
        let pairs = (0..self.classes).flat_map(|a| (0..a).map(move |b| (a, b)));
        mean(pairs.map(|(a, b)| {
            let mut pairs: Vec<(u64, u64)> = groups.iter().map(|group| (group[a], group[b])).collect();
            pairs.retain(|&(of_a, of_b)| of_a + of_b > 0);
            pairs.sort_by(|x, y| (x.0 * (y.0 + y.1)).cmp(&(y.0 * (x.0 + x.1))));
            let (mut won, mut below) = (0, 0);
            for (of_a, of_b) in pairs {
                won += of_a * (2 * below + of_b);
                below += of_b;
            }
            let rows_a: u64 = groups.iter().map(|group| group[a]).sum();
            (won, 2 * rows_a * below)
        }))
    }
}

/// Returns the mean over pairs of classes of the share of row pairs that are in order.
fn mean(pairs: impl Iterator<Item = (u64, u64)>) -> f64 {
    let shares: Vec<f64> = pairs.map(|(won, all)| won as f64 / all.max(1) as f64).collect();
    shares.iter().sum::<f64>() / shares.len().max(1) as f64
}
