//! Labels found by propagation in addition to given labels, and the weight of each row in training
//! (Scott, Yeo & Lampert, *Cross-client Label Propagation*, TMLR 2023, section 3.3 and Algorithm 2; the
//! weights are those of the authors' code).

use ndarray::ArrayView2;

use super::{Network, Settings, Trained, train_halves};
use flyswarm_sealed_sum::crypto::stream::Stream;

/// One member's rows with the labels for training.
#[derive(Clone, Debug, PartialEq)]
pub struct PseudoLabels {
    /// Label of each row. A row without a label has 0 and is not used for training.
    labels: Vec<u16>,
    /// Confidence of each label, from 0 to 1. A given label has 1.
    confidence: Vec<f32>,
    /// Rows whose label was given.
    given: Vec<usize>,
    /// Rows whose label was found.
    found: Vec<usize>,
}

/// Divides the scores of each row (rows x classes) by their sum. A row whose scores are all 0 does not
/// change.
///
/// `counts` has the number of given labels of each class among all rows that took part in the propagation.
/// With `counts`, the scores of a class are first divided by its count. Label propagation is linear in the
/// labels. So the result is the same as if every class had the same number of given labels.
#[must_use]
pub fn shares(scores: &[f64], classes: usize, counts: Option<&[u64]>) -> Vec<f64> {
    let mut shares = scores.to_vec();
    for row in shares.chunks_exact_mut(classes) {
        if let Some(counts) = counts {
            row.iter_mut().zip(counts).for_each(|(score, &count)| *score /= count.max(1) as f64);
        }
        let sum: f64 = row.iter().sum();
        if sum > 0.0 {
            row.iter_mut().for_each(|score| *score /= sum);
        }
    }
    shares
}

/// Returns the weight of a row of each class. Both arguments count the labels of all members: `given` counts
/// the given labels, `all` the given labels and the found ones ([`PseudoLabels::counts`]).
///
/// The weight is 1 / (classes f), where f is the share of the class in a batch. Half of a batch has given
/// labels, so f is the mean of two shares: that among the given labels and that among the found ones. The
/// authors' code uses the share among all labels as f. Then training may diverge if a class has given labels
/// and almost no found ones: a row of this class has a weight of several hundred and is in many batches.
#[must_use]
pub fn class_weights(given: &[u64], all: &[u64]) -> Vec<f32> {
    let found: Vec<u64> = all.iter().zip(given).map(|(all, given)| all.saturating_sub(*given)).collect();
    let kinds: Vec<&[u64]> = [given, &found].into_iter().filter(|kind| kind.iter().any(|&n| n > 0)).collect();
    let part = |kind: &[u64], class: usize| kind[class] as f64 / kind.iter().sum::<u64>() as f64;
    let weight = |class| {
        let in_batch = kinds.iter().map(|kind| part(kind, class)).sum::<f64>() / kinds.len().max(1) as f64;
        1.0 / (all.len() as f64 * in_batch.max(1e-6))
    };
    #[expect(clippy::cast_possible_truncation, reason = "a weight of binary32")]
    let weights = (0..all.len()).map(|class| weight(class) as f32).collect();
    weights
}

impl PseudoLabels {
    /// Makes labels from the given labels and the shares of all rows, rows x classes ([`shares`], or a
    /// network's probabilities). A row without a label gets the class of its largest share, or the first of
    /// several largest ones. Its confidence is c = 1 - H / ln(classes), where H is the entropy of its shares,
    /// divided by the largest c of this member's rows.
    #[must_use]
    pub fn new(given: &[Option<u16>], shares: &[f64], classes: usize) -> Self {
        let mut rows = Self {
            labels: Vec::with_capacity(given.len()),
            confidence: Vec::with_capacity(given.len()),
            given: Vec::new(),
            found: Vec::new(),
        };
        let most = (classes.max(2) as f64).ln();
        for (row, (&label, shares)) in given.iter().zip(shares.chunks_exact(classes)).enumerate() {
            let best = (0u16..)
                .zip(shares)
                .fold((0, 0.0), |best, (class, &share)| if share > best.1 { (class, share) } else { best });
            let entropy: f64 = shares.iter().filter(|&&share| share > 0.0).map(|p| -p * p.ln()).sum();
            let (label, sure) = match label {
                Some(label) => {
                    rows.given.push(row);
                    (label, 1.0)
                }
                None if best.1 > 0.0 => {
                    rows.found.push(row);
                    (best.0, (1.0 - entropy / most).max(0.0))
                }
                None => (0, 0.0),
            };
            rows.labels.push(label);
            #[expect(clippy::cast_possible_truncation, reason = "a weight of binary32")]
            rows.confidence.push(sure as f32);
        }
        let largest = rows.found.iter().map(|&row| rows.confidence[row]).fold(0.0, f32::max);
        if largest > 0.0 {
            rows.found.iter().for_each(|&row| rows.confidence[row] /= largest);
        }
        rows
    }

    /// Returns whether there is any label to train on.
    #[must_use]
    pub fn teach(&self) -> bool {
        !(self.given.is_empty() && self.found.is_empty())
    }

    /// Counts the rows with a label of each class, given or found.
    #[must_use]
    pub fn counts(&self, classes: usize) -> Vec<u64> {
        let mut counts = vec![0; classes];
        self.given.iter().chain(&self.found).for_each(|&row| counts[usize::from(self.labels[row])] += 1);
        counts
    }

    /// Returns the rows whose label was found, with that label.
    pub fn found(&self) -> impl Iterator<Item = (usize, u16)> {
        self.found.iter().map(|&row| (row, self.labels[row]))
    }

    /// Trains from `start` on these rows. Half of each batch has given labels. The loss of a row is
    /// multiplied by its confidence and by its class's weight ([`class_weights`]).
    #[must_use]
    pub fn train(
        &self,
        network: &Network,
        start: Vec<f32>,
        rows: ArrayView2<'_, f32>,
        class_weights: &[f32],
        settings: &Settings,
        stream: &mut Stream,
    ) -> Trained {
        let of_class = |&label: &u16| class_weights.get(usize::from(label)).copied().unwrap_or(0.0);
        let weights: Vec<f32> =
            self.confidence.iter().zip(self.labels.iter().map(of_class)).map(|(s, w)| s * w).collect();
        let kinds = [&self.given[..], &self.found[..]];
        train_halves(network, start, rows, &self.labels, Some(&weights), kinds, settings, stream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learner::Architecture;

    /// Two certain rows, one of them with a given label, a row with equal shares, and a row without any
    /// score.
    const SHARES: [f64; 8] = [0.0, 1.0, 0.9, 0.1, 0.5, 0.5, 0.0, 0.0];

    #[test]
    fn given_labels_stay_and_found_ones_are_as_sure_as_their_entropy_says() {
        let rows = PseudoLabels::new(&[Some(0), None, None, None], &SHARES, 2);
        assert_eq!(
            (&rows.labels[..], &rows.given[..], &rows.found[..]),
            (&[0; 4][..], &[0][..], &[1, 2][..])
        );
        // 0.9 to 0.1 is the most certain of the found labels; equal shares have confidence 0.
        assert_eq!(rows.confidence, [1.0, 1.0, 0.0, 0.0]);
        assert_eq!(rows.counts(2), [3, 0]);
        let two = PseudoLabels::new(&[None, None], &[0.25, 0.75, 1.0, 0.0], 2);
        assert_eq!(two.labels, [1, 0]);
        let entropy = 2.0 - 0.75 * 3f64.log2();
        assert!((f64::from(two.confidence[0]) - (1.0 - entropy)).abs() < 1e-6);
    }

    #[test]
    fn shares_over_counts_are_those_of_labels_of_the_same_sum() {
        assert_eq!(shares(&[48.0, 16.0, 0.0, 0.0], 2, None), [0.75, 0.25, 0.0, 0.0]);
        // The first class has three labels, the second one.
        assert_eq!(shares(&[48.0, 16.0], 2, Some(&[3, 1])), [0.5, 0.5]);
        assert_eq!(shares(&[48.0, 16.0], 2, Some(&[0, 0])), [0.75, 0.25]);
    }

    #[test]
    fn a_row_that_no_label_reaches_teaches_nothing_and_batches_are_halved() {
        let network = Network::new(&Architecture::Logistic, 1, 2).unwrap();
        let settings = Settings {
            epochs: 1,
            steps: 0,
            batch: 4,
            rate: 0.5,
            momentum: 0.0,
            decay: 0.0,
            proximal: 0.0,
            augment: None,
        };
        let run = |rows: &PseudoLabels, last: f32| {
            let values = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, last];
            let view = ArrayView2::from_shape((8, 1), &values).unwrap();
            let mut stream = Stream::new(b"seed", "test", &[]);
            rows.train(&network, vec![0.0; 4], view, &[1.0, 1.2], &settings, &mut stream)
        };
        let mut given = vec![None; 8];
        given[0] = Some(0);
        let found = [1.0, 0.0, 0.8, 0.2, 0.9, 0.1, 1.0, 0.0, 0.2, 0.8, 0.1, 0.9, 0.0, 1.0, 0.0, 0.0];
        let rows = PseudoLabels::new(&given, &found, 2);
        let trained = run(&rows, 8.0);
        assert_eq!(trained, run(&rows, -80.0));
        // Two batches: each has the one given row and two of the found ones.
        assert_eq!(trained.seen.rows, 2 + 4);
        let none = PseudoLabels::new(&[None; 8], &[0.0; 16], 2);
        assert_eq!((run(&none, 8.0).weights, run(&none, 8.0).seen.rows), (vec![0.0; 4], 0));
        // A class that is rare among all members weighs more.
        let (mut stream, values) = (Stream::new(b"seed", "test", &[]), [1.0; 8]);
        let view = ArrayView2::from_shape((8, 1), &values).unwrap();
        let rare = rows.train(&network, vec![0.0; 4], view, &[0.6, 4.0], &settings, &mut stream);
        let mut stream = Stream::new(b"seed", "test", &[]);
        let even = rows.train(&network, vec![0.0; 4], view, &[1.0, 1.0], &settings, &mut stream);
        assert_ne!(rare.weights, even.weights);
    }

    #[test]
    fn a_class_weighs_by_its_part_of_a_batch_however_few_of_its_labels_were_found() {
        assert_eq!(class_weights(&[10, 10], &[10, 10]), [1.0, 1.0]);
        assert_eq!(class_weights(&[0, 0], &[30, 10]), [2.0 / 3.0, 2.0]);
        // The second class has half of the given labels and none of the found ones, so it fills a quarter of
        // a batch.
        assert_eq!(class_weights(&[10, 10], &[1_010, 10]), [2.0 / 3.0, 2.0]);
        // `all` may be smaller than `given`: members that were counted in `given` may leave before the second
        // count.
        assert_eq!(class_weights(&[10, 10], &[10, 5]), [1.0, 1.0]);
        assert!(class_weights(&[4, 0], &[9, 0]).iter().all(|weight| weight.is_finite()));
    }

    #[test]
    fn training_stays_finite_and_learns_beside_a_class_that_next_to_no_row_has() {
        let network = Network::new(&Architecture::Perceptron { hidden: vec![8] }, 2, 2).unwrap();
        let settings = Settings {
            epochs: 40,
            steps: 0,
            batch: 4,
            rate: 0.1,
            momentum: 0.9,
            decay: 0.0,
            proximal: 0.0,
            augment: None,
        };
        // One given row of the second class fills half of each batch, next to 20 found rows.
        let mut given = vec![None; 21];
        given[20] = Some(1);
        let rows = PseudoLabels::new(&given, &[1.0, 0.0].repeat(21), 2);
        let values: Vec<f32> = (0..42u8).map(|at| if at < 40 { 1.0 } else { -1.0 }).collect();
        let view = ArrayView2::from_shape((21, 2), &values).unwrap();
        let mut stream = Stream::new(b"seed", "test", &[]);
        let start = network.initial(&[1; 32]);
        let weights = class_weights(&[49, 1], &[3_000, 1]);
        let trained = rows.train(&network, start, view, &weights, &settings, &mut stream);
        let mut tape = crate::learner::Tape::default();
        assert_eq!(network.evaluate(&trained.weights, view, &rows.labels, &mut tape).right, 21);
    }
}
