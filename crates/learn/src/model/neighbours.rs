//! Nearest neighbours by brute force: the baseline for FlyNN (1NN, and kNN with k tuned).
//!
//! Distances are squared Euclidean, in f32. Of equally near rows, the first counts as nearer. Of equally
//! frequent classes, the lowest wins. The time grows as rows x rows x features, so this is meant for up to
//! some ten thousand rows.

use rayon::prelude::*;

use flyswarm_data::Dataset;

/// Values of k that tuning tries: powers of two in the paper's range of 1 to 64 (section 4, Baselines).
pub const TRIED: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];

/// Rows to search, borrowed and labelled.
#[derive(Debug, Clone, Copy)]
pub struct Neighbours<'a> {
    data: &'a Dataset,
}

/// Result of tuning.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tuned {
    /// Best k of [`TRIED`], the smallest of equally good ones.
    pub k: usize,
    /// Leave-one-out accuracy of this k, 0 to 1.
    pub accuracy: f64,
}

impl<'a> Neighbours<'a> {
    /// Searches in `data`. Returns `None` if it has no labels.
    #[must_use]
    pub fn new(data: &'a Dataset) -> Option<Self> {
        (!data.labels().is_empty()).then_some(Self { data })
    }

    /// Returns the class index of each row by a vote of its `k` nearest rows, or of all rows if there are
    /// fewer.
    ///
    /// # Panics
    /// If `k` is 0 or `rows` have a different number of features.
    #[must_use]
    pub fn predict(&self, k: usize, rows: &Dataset) -> Vec<u16> {
        assert_eq!(rows.features(), self.data.features(), "rows must have the features of the neighbours");
        (0..rows.rows()).into_par_iter().map(|i| self.vote(&self.nearest(rows.row(i), k, None))).collect()
    }

    /// Returns the class index of each row for each k of [`TRIED`].
    ///
    /// # Panics
    /// If `rows` have a different number of features.
    #[must_use]
    pub fn predict_tried(&self, rows: &Dataset) -> Vec<[u16; TRIED.len()]> {
        assert_eq!(rows.features(), self.data.features(), "rows must have the features of the neighbours");
        (0..rows.rows()).into_par_iter().map(|i| self.vote_tried(rows.row(i), None)).collect()
    }

    /// Returns the class index of each of the stored rows for each k of [`TRIED`], predicted from the
    /// other rows.
    #[must_use]
    pub fn leave_one_out(&self) -> Vec<[u16; TRIED.len()]> {
        (0..self.data.rows()).into_par_iter().map(|i| self.vote_tried(self.data.row(i), Some(i))).collect()
    }

    /// Finds the best k by leaving each row out in turn.
    #[must_use]
    pub fn tune(&self) -> Tuned {
        let mut right = [0; TRIED.len()];
        for (predicted, label) in self.leave_one_out().iter().zip(self.data.labels()) {
            right.iter_mut().zip(predicted).for_each(|(right, class)| *right += usize::from(class == label));
        }
        let mut best = 0;
        for j in 1..TRIED.len() {
            if right[j] > right[best] {
                best = j;
            }
        }
        Tuned { k: TRIED[best], accuracy: right[best] as f64 / self.data.rows() as f64 }
    }

    fn vote_tried(&self, row: &[f32], without: Option<usize>) -> [u16; TRIED.len()] {
        let near = self.nearest(row, TRIED[TRIED.len() - 1], without);
        TRIED.map(|k| self.vote(&near[..k.min(near.len())]))
    }

    /// Returns the labels of the `k` nearest rows, the nearest first.
    fn nearest(&self, row: &[f32], k: usize, without: Option<usize>) -> Vec<u16> {
        assert!(k > 0, "0 neighbours");
        let mut all: Vec<(f32, usize)> = (0..self.data.rows())
            .filter(|&i| Some(i) != without)
            .map(|i| (squared_distance(row, self.data.row(i)), i))
            .collect();
        let order = |a: &(f32, usize), b: &(f32, usize)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1));
        if all.len() > k {
            all.select_nth_unstable_by(k - 1, order);
            all.truncate(k);
        }
        all.sort_unstable_by(order);
        all.into_iter().map(|(_, i)| self.data.labels()[i]).collect()
    }

    fn vote(&self, labels: &[u16]) -> u16 {
        let mut votes = vec![0; self.data.classes().len()];
        labels.iter().for_each(|&l| votes[usize::from(l)] += 1);
        let mut best = 0;
        for (class, &n) in votes.iter().enumerate() {
            if n > votes[best] {
                best = class;
            }
        }
        best as u16
    }
}

/// Computes eight partial sums, so that the loop is vectorised. The order is fixed.
fn squared_distance(a: &[f32], b: &[f32]) -> f32 {
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    let mut sums = [0.0f32; 8];
    for (a, b) in a.iter().zip(b) {
        for j in 0..8 {
            sums[j] += (a[j] - b[j]) * (a[j] - b[j]);
        }
    }
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(a, b)| (a - b) * (a - b)).sum();
    sums.iter().sum::<f32>() + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(at: &[f32], labels: &[u16]) -> Dataset {
        Dataset::new(1, at.to_vec(), labels.to_vec(), vec!["a".into(), "b".into(), "c".into()]).unwrap()
    }

    #[test]
    fn ties_go_to_the_first_row_and_the_lowest_class() {
        let data = line(&[0.0, 2.0, 4.0, 6.0], &[2, 1, 1, 0]);
        let near = Neighbours::new(&data).unwrap();
        let at_1 = line(&[1.0], &[0]);
        assert_eq!(near.predict(1, &at_1), [2], "rows 0 and 1 are equally near");
        assert_eq!(near.predict(2, &at_1), [1], "classes 2 and 1 have one vote each");
        assert_eq!(near.predict(100, &at_1), [1]);
    }

    #[test]
    fn tuning_leaves_the_row_itself_out() {
        let data = line(&[0.0, 0.1, 5.0, 5.1], &[0, 1, 0, 1]);
        let tuned = Neighbours::new(&data).unwrap().tune();
        assert!(tuned.accuracy < 1.0, "{tuned:?}");
        let data = line(&[0.0, 0.1, 0.2, 5.0, 5.1, 5.2], &[0, 0, 0, 1, 1, 1]);
        assert_eq!(Neighbours::new(&data).unwrap().tune(), Tuned { k: 1, accuracy: 1.0 });
    }
}
