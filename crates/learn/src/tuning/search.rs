//! Tries candidates. Each has its own lifting matrix for every trial, and all readouts use the same
//! counts.

use rayon::prelude::*;

use super::{Candidate, Tally, Trial, summed};
use crate::model::ModelError;
use crate::model::bloom::{self, Counts};
use crate::model::readout::{Readout, Scorer, gather, lowest};
use crate::sketch::ParameterError;
use crate::sketch::flyhash::FlyHash;
use flyswarm_data::Dataset;
use flyswarm_data::scaling::{Scaler, ScalingError};
use flyswarm_sealed_sum::crypto::stream::derive;

/// Number of rows that are hashed at a time.
const BLOCK: usize = 4096;

/// Reason why a candidate could not be tried.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// Data and candidate do not fit.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A parameter of the candidate is out of range.
    #[error(transparent)]
    Parameter(#[from] ParameterError),
    /// A feature has no exact mean.
    #[error(transparent)]
    Scaling(#[from] ScalingError),
}

/// Returns the tallies of every (candidate, readout), candidates outermost, summed over the trials.
/// `tick` is called after each candidate and trial.
///
/// # Errors
/// [`TrialError`] of the first candidate that cannot be tried.
pub fn search(
    candidates: &[Candidate],
    readouts: &[Readout],
    trials: &[Trial],
    seed: &[u8],
    tick: &(dyn Fn() + Sync),
) -> Result<Vec<Tally>, TrialError> {
    let tasks: Vec<_> =
        candidates.iter().enumerate().flat_map(|c| trials.iter().enumerate().map(move |t| (c, t))).collect();
    let tallies: Vec<Vec<Tally>> = tasks
        .into_par_iter()
        .map(|((c, candidate), (t, trial))| {
            let params = [(c as u64).to_le_bytes(), (t as u64).to_le_bytes()].concat();
            let predicted = predict(candidate, readouts, trial, *derive(seed, "evaluate/matrix", &params))?;
            tick();
            Ok(predicted.iter().map(|predicted| Tally::new(&trial.test, predicted)).collect())
        })
        .collect::<Result<_, TrialError>>()?;
    Ok(tallies.chunks(trials.len().max(1)).flat_map(|each| summed(each.to_vec())).collect())
}

/// Returns the predicted classes of the test rows under every readout.
///
/// # Errors
/// [`TrialError`].
pub fn predict(
    candidate: &Candidate,
    readouts: &[Readout],
    trial: &Trial,
    seed: [u8; 32],
) -> Result<Vec<Vec<u16>>, TrialError> {
    let Trial { train, test } = trial;
    let classes = train.classes().len();
    let sketch = candidate.parameters(train.features(), seed).check(classes)?;
    let scaler = Scaler::fit(&candidate.scaling, train)?;
    let hash = FlyHash::new(&sketch);
    let counts = bloom::fit(&hash, &scaler, train, classes)?;
    Ok(read(&hash, &scaler, &counts, readouts, test)?)
}

/// Returns the predicted classes of `test` under every readout of the same counts.
///
/// # Errors
/// [`ModelError`] if the rows do not fit.
pub fn read(
    hash: &FlyHash,
    scaler: &Scaler,
    counts: &Counts,
    readouts: &[Readout],
    test: &Dataset,
) -> Result<Vec<Vec<u16>>, ModelError> {
    let classes = counts.classes();
    let scorers: Vec<Scorer> =
        readouts.iter().map(|&readout| Scorer::new(readout, counts, classes)).collect();
    let mut predicted = vec![Vec::with_capacity(test.rows()); readouts.len()];
    let mut gathered = vec![Vec::with_capacity(hash.rho()); classes];
    let mut scores = vec![0.0; classes];
    for from in (0..test.rows()).step_by(BLOCK) {
        let rows = from..test.rows().min(from + BLOCK);
        let winners = hash.winners(scaler, test, rows)?;
        for winners in winners.chunks_exact(hash.rho()) {
            gathered.iter_mut().enumerate().for_each(|(l, gathered)| gather(counts, l, winners, gathered));
            for (scorer, predicted) in scorers.iter().zip(&mut predicted) {
                for (l, (score, gathered)) in scores.iter_mut().zip(&gathered).enumerate() {
                    *score = scorer.novelty(l, gathered);
                }
                predicted.push(lowest(&scores));
            }
        }
    }
    Ok(predicted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Model;
    use crate::tuning::candidate::readouts;
    use flyswarm_data::digits::digits;
    use flyswarm_data::scaling::Scaling;
    use flyswarm_data::split::train_test;

    #[test]
    fn a_trial_predicts_what_a_model_of_the_same_parameters_does() {
        let data = digits();
        let trial = &Trial::of(&data, &[train_test(&data, 80, b"seed")])[0];
        let candidate = Candidate { m: 300, s: 4, rho: 9, densify: false, scaling: Scaling::SoftBins(3) };
        let readouts = readouts();
        let predicted = predict(&candidate, &readouts, trial, [7; 32]).unwrap();
        for (readout, predicted) in readouts.iter().zip(predicted) {
            let sketch = candidate.parameters(64, [7; 32]).check(10).unwrap();
            let scaler = Scaler::fit(&candidate.scaling, &trial.train).unwrap();
            let counts = bloom::fit(&FlyHash::new(&sketch), &scaler, &trial.train, 10).unwrap();
            let model = Model::new(sketch, *readout, data.classes().to_vec(), scaler, counts).unwrap();
            assert_eq!(model.predictor().predict(&trial.test).unwrap(), predicted, "{readout:?}");
        }
    }
}
