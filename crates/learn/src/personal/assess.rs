//! Which personal model is the better one, by rows that it has not seen.

use ndarray::{ArrayView2, Axis};
use rayon::prelude::*;

use super::mix::highest;
use super::{Contents, Datastore, LAMBDAS, Mixture, PersonalError, Tally, probabilities};
use crate::learner::{Classifier, Settings, train};
use flyswarm_data::Dataset;
use flyswarm_data::groups::Units;
use flyswarm_data::split::Split;
use flyswarm_sealed_sum::crypto::stream::Stream;

/// How personal models are made, for [`assess()`].
#[derive(Clone, Debug)]
pub struct Practice<'a> {
    /// Neighbours and scale; its lambda is not looked at.
    pub mixture: Mixture,
    /// Which rows become keys.
    pub contents: Contents,
    /// How the network is tuned to the rows (FedAvg+); not at all where nothing is said.
    pub fine_tuning: Option<Settings>,
    /// How a network of a peer's own is trained from new weights; not at all where nothing is said.
    pub local: Option<Settings>,
    /// Draws rows and prototypes, shuffles batches, makes new weights.
    pub seed: &'a [u8],
}

/// Rows whose class was right, of rows that were in no datastore and no training here.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Assessment {
    /// Rows.
    pub rows: usize,
    /// By the network as it is.
    pub global: usize,
    /// By the network after training on the peer's rows (FedAvg+).
    pub fine_tuned: Option<usize>,
    /// By a network that has seen the peer's rows only.
    pub local: Option<usize>,
    /// By neighbours alone.
    pub neighbours: usize,
    /// By neighbours and network, each row with the lambda that is best for the *other* parts of the rows:
    /// a lambda is not judged by rows that chose it.
    pub personal: usize,
    /// How every lambda does on all rows.
    pub tally: Tally,
}

impl Assessment {
    /// The lambda that is best on all rows.
    #[must_use]
    pub fn lambda(&self) -> f64 {
        LAMBDAS[self.tally.best()]
    }

    /// The name of the best: of equally good ones the first of `global`, `fine-tuned`, `kNN-Per`.
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

/// One split: how each lambda does on its parts, and others on all its test rows.
struct SplitTally {
    parts: Vec<Tally>,
    fine_tuned: Option<usize>,
    local: Option<usize>,
}

/// Makes personal models of the rows of each split's training and counts how they do on its test rows. With
/// one split the test rows are two parts (no group is in both), each judged with the lambda of the other;
/// with more each split is a part.
///
/// # Errors
/// [`PersonalError`], also where a split has no row for training, or there are too few to test.
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

/// The weights after training on scaled rows: from the network's own (FedAvg+), or with `local` from new
/// ones. Batches are shuffled, and new weights made, by `seed`.
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

/// Scaled rows whose class is right.
fn right(classifier: &Classifier, weights: &[f32], rows: ArrayView2<'_, f32>, labels: &[u16]) -> usize {
    let tape = &mut crate::learner::Tape::default();
    let said = classifier.network().scores(weights, rows, tape).mapv(f64::from);
    said.rows().into_iter().zip(labels).filter(|(said, label)| highest(said.view()) == **label).count()
}
