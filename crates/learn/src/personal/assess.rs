//! Compares personal models on rows that they have not seen.

use ndarray::{ArrayView2, Axis};
use rayon::prelude::*;

use super::mix::highest;
use super::{Contents, Datastore, LAMBDAS, Mixture, PersonalError, Tally, probabilities};
use crate::learner::{Classifier, Settings, train};
use flyswarm_data::Dataset;
use flyswarm_data::groups::Units;
use flyswarm_data::split::Split;
use flyswarm_sealed_sum::crypto::stream::Stream;

/// Settings of [`assess()`]: how personal models are made.
#[derive(Clone, Debug)]
pub struct Practice<'a> {
    /// Neighbours and scale. Its lambda is ignored.
    pub mixture: Mixture,
    /// Rows that become keys.
    pub contents: Contents,
    /// Settings to fine-tune the network on the rows (FedAvg+), or `None` not to fine-tune it.
    pub fine_tuning: Option<Settings>,
    /// Settings to train a network on the peer's rows alone, from new weights, or `None` to train no such
    /// network.
    pub local: Option<Settings>,
    /// Seed for the choice of rows and prototypes, the order of batches and new weights.
    pub seed: &'a [u8],
}

/// Numbers of correct predictions for rows that were neither in a datastore nor used for training here.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Assessment {
    /// Number of rows.
    pub rows: usize,
    /// Correct predictions of the network as it is.
    pub global: usize,
    /// Correct predictions of the network after training on the peer's rows (FedAvg+).
    pub fine_tuned: Option<usize>,
    /// Correct predictions of a network that has seen only the peer's rows.
    pub local: Option<usize>,
    /// Correct predictions of the neighbours alone.
    pub neighbours: usize,
    /// Correct predictions of neighbours and network together. Each row uses the lambda that is best for
    /// the *other* parts of the rows, so no lambda is judged by rows that chose it.
    pub personal: usize,
    /// Result of every lambda on all rows.
    pub tally: Tally,
}

impl Assessment {
    /// Returns the lambda that is best on all rows.
    #[must_use]
    pub fn lambda(&self) -> f64 {
        LAMBDAS[self.tally.best()]
    }

    /// Returns the name of the best model. In a tie, the first of `global`, `fine-tuned`, `kNN-Per` wins.
    #[must_use]
    pub fn better(&self) -> &'static str {
        let tuned = self.fine_tuned.unwrap_or_default();
        if self.personal > self.global.max(tuned) {
            "kNN-Per"
        } else if tuned > self.global {
            "fine-tuned"
        } else {
            "global"
        }
    }
}

/// Results of one split. Each lambda is counted on the split's parts, the other models on all test rows.
struct SplitTally {
    parts: Vec<Tally>,
    fine_tuned: Option<usize>,
    local: Option<usize>,
}

/// Makes personal models from the training rows of each split and counts their correct predictions on the
/// test rows. With one split, the test rows form two parts, and no group is in both parts. Each part is
/// judged with the lambda that is best for the other part. With more splits, each split is a part.
///
/// # Errors
/// [`PersonalError`], also if a split has no training row or too few test rows.
pub fn assess(
    classifier: &Classifier,
    rows: &Dataset,
    splits: &[Split],
    practice: &Practice<'_>,
) -> Result<Assessment, PersonalError> {
    let scaled = classifier.scaler().transform(rows);
    let (keys, scores) = classifier.represent(rows.view())?;
    let network = probabilities(scores.view());
    if rows.labels().len() != rows.rows() {
        return Err(PersonalError::Shape("rows without labels".into()));
    }
    let tested: usize = splits.iter().map(|split| split.test.len()).sum();
    let trained_on = splits.iter().map(|split| split.train.len()).min().unwrap_or(0);
    if tested < 2 || trained_on == 0 {
        return Err(PersonalError::Few(rows.rows(), 3));
    }
    let all = Datastore::new(keys.clone(), rows.labels().to_vec(), classifier.classes().len())?;
    let one = |(place, split): (usize, &Split)| -> Result<SplitTally, PersonalError> {
        let datastore = practice.contents.of(&all.subset(&split.train), practice.seed)?;
        let test = keys.select(Axis(0), &split.test);
        let said = practice.mixture.neighbours(&datastore, test.view())?;
        let count = if splits.len() == 1 { 2 } else { 1 };
        let mut parts = vec![Tally::default(); count];
        let (own, test) = (scaled.subset(&split.train), scaled.subset(&split.test));
        let units = Units::of(&test);
        for (unit, &at) in (0..units.len()).flat_map(|unit| units.rows(unit).iter().map(move |at| (unit, at)))
        {
            let row = split.test[at];
            parts[unit % count].count(said.row(at), network.row(row), rows.labels()[row]);
        }
        let seed = [practice.seed, &(place as u64).to_le_bytes()].concat();
        let right = |settings: Settings, local: bool| {
            let weights = trained(classifier, &own, &settings, local, &seed);
            right(classifier, &weights, test.view(), test.labels())
        };
        let fine_tuned = practice.fine_tuning.map(|settings| right(settings, false));
        Ok(SplitTally { parts, fine_tuned, local: practice.local.map(|settings| right(settings, true)) })
    };
    let found = splits.par_iter().enumerate().map(one).collect::<Result<Vec<_>, _>>()?;
    let parts: Vec<Tally> = found.iter().flat_map(|found| found.parts.clone()).collect();
    let tally = parts.iter().fold(Tally::default(), Tally::plus);
    let judged = |part: usize| {
        let others = parts.iter().enumerate().filter(|(other, _)| *other != part);
        let others = others.fold(Tally::default(), |sum, (_, other)| sum.plus(other));
        parts[part].right[others.best()]
    };
    Ok(Assessment {
        rows: tally.rows,
        global: tally.right[0],
        neighbours: tally.right[LAMBDAS.len() - 1],
        fine_tuned: found.iter().map(|found| found.fine_tuned).sum(),
        local: found.iter().map(|found| found.local).sum(),
        personal: (0..parts.len()).map(judged).sum(),
        tally,
    })
}

/// Returns the weights after training on scaled rows. Training starts from the network's weights
/// (FedAvg+), or, if `local` is true, from new weights. `seed` shuffles the batches and makes the new
/// weights.
#[must_use]
pub fn trained(
    classifier: &Classifier,
    scaled: &Dataset,
    settings: &Settings,
    local: bool,
    seed: &[u8],
) -> Vec<f32> {
    let network = classifier.network();
    let start = if local {
        network.initial(&flyswarm_sealed_sum::crypto::stream::derive(seed, "personal/weights", &[]))
    } else {
        classifier.weights().to_vec()
    };
    let mut stream = Stream::new(seed, "personal/batches", &[u8::from(local)]);
    train(network, start, scaled.view(), scaled.labels(), None, settings, &mut stream).weights
}

/// Counts the scaled rows whose class is predicted correctly.
fn right(classifier: &Classifier, weights: &[f32], rows: ArrayView2<'_, f32>, labels: &[u16]) -> usize {
    let tape = &mut crate::learner::Tape::default();
    let said = classifier.network().scores(weights, rows, tape).mapv(f64::from);
    said.rows().into_iter().zip(labels).filter(|(said, label)| highest(said.view()) == **label).count()
}
