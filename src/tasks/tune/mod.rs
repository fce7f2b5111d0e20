//! The task `tune` finds settings of FlyNN that suit the rows of all peers. No peer reveals its rows (spec,
//! section "Task tune").
//!
//! It is a cross-validation over the rows of all peers together. Each peer splits its own rows into folds. A
//! first sealed sum has, for every setting and fold, the counts of the rows outside the fold. With the opened
//! counts, each peer predicts its own rows inside the fold, with all readouts. A second sealed sum has the
//! numbers of correct predictions. Every setting has its own lifting matrix in every fold (paper, Appendix
//! D).
//!
//! Slots: the coin; `holders`; `moments` if a scaling needs global means (over all rows, including those
//! inside the fold); `counts`, for each setting and in it for each fold; `scores`, the number of scored rows
//! of each class, then the number of correct predictions of each setting, readout and class.

pub(crate) mod spec;
pub(crate) mod text;

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use rayon::prelude::*;
use sha2::Digest;

use super::common::columns;
use super::common::holders::{self, HOLDERS};
use super::flynn::new;
use super::{BuiltIn, History, Labels, NewFile, OwnSlots, Shared, Task, TaskKind, TaskOption, Work};
use crate::crypto::mask::Wide;
use crate::crypto::stream::derive;
use crate::crypto::tagged_hash;
use crate::data::Dataset;
use crate::data::split::{Split, folds};
use crate::model::ModelError;
use crate::model::bloom::{self, Counts, CountsError};
use crate::model::readout::Readout;
use crate::protocol::context::Aggregate;
use crate::session::{Peer, Section, Session, SessionError};
use crate::sketch::ParameterError;
use crate::sketch::flyhash::FlyHash;
use crate::tasks::{EvaluateSpec, FlynnSpec, Setting, TuneSpec};
use flyswarm_data::scaling::{ColumnSums, Moments, Scaler, ScalingError, sums};
use flyswarm_learn::tuning::candidate::readouts;
use flyswarm_learn::tuning::search::read;
use flyswarm_learn::tuning::{Candidate, Metric, Tally, best, summed};

/// Task of one peer.
#[derive(Debug)]
pub struct Tune {
    plan: Plan,
    data: Arc<Dataset>,
}

/// Plan of a session. It follows from the session file alone.
#[derive(Clone, Debug)]
pub struct Plan {
    session: Session,
    candidates: Vec<Candidate>,
    readouts: Vec<Readout>,
    folds: usize,
}

/// Opened scores.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Settings, best first, each with its best readout and the correct predictions under that readout.
    pub ranked: Vec<(Candidate, Readout, Tally)>,
    /// SHA-256(tag "scores" || session id || opened words), the same at every peer.
    pub digest: [u8; 32],
}

/// Entry of the task in the registry.
pub static KIND: TaskKind = TaskKind {
    options: &[
        TaskOption::own(
            "candidates",
            "N",
            "Compare N other settings with the one in [data] and [flynn], 1 to 64 [default: 12]",
        ),
        new::PAPER,
        new::SETTINGS,
        new::TUNING,
    ],
    fill,
    take_settings,
    evaluation_note: |_| {
        Some(
            "For each setting the file of settings has the number of rows of all peers that are predicted right, in \
             folds that the setting has not learnt from.",
        )
    },
    ..TaskKind::new(
        "tune",
        "a comparison of settings of FlyNN",
        &[Section { name: "tune", tasks: "tune if there is a [tune]" }],
        |sections, data, peers| TuneSpec::read(sections, data, peers).map(Into::into),
        Shared::Sums,
    )
};

fn fill(file: &mut NewFile) -> Result<(), SessionError> {
    new::fill(file)?;
    let text = file.option("candidates").unwrap_or("12");
    let refused = || SessionError::value("--candidates", text, "1 to 64");
    let count = text.parse().ok().filter(|count| (1..=64).contains(count)).ok_or_else(refused)?;
    let settings = new::to_compare(file, count)?;
    file.propose("tune.setting", settings);
    Ok(())
}

fn take_settings(session: &mut Session, file: &Path) -> Result<(), SessionError> {
    let model = new::give(session, file)?;
    session.task = FlynnSpec { model, select: None, evaluate: Some(EvaluateSpec::default()) }.into();
    Ok(())
}

/// Returns the task with these parameters.
#[must_use]
pub(crate) fn built_in(session: &Session, spec: TuneSpec) -> BuiltIn {
    let plan = Plan::new(session.clone(), &spec).aggregates();
    BuiltIn {
        own: OwnSlots::of(&plan, "holders"),
        plan,
        result: "settings",
        extension: "settings.toml",
        labels: Labels::All,
        witnesses: false,
        build: Box::new(move |session, _, rows, _| match Tune::new(session, &spec, rows.data) {
            Ok(task) => Ok(Arc::new(task)),
            Err(error) => Err(error.to_string()),
        }),
    }
}

/// Reason why scores could not be computed.
#[derive(Debug, thiserror::Error)]
pub enum TuneError {
    /// The rows do not fit the session.
    #[error("{0}")]
    Data(String),
    /// Rows and counts do not match.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The opened counts have another shape.
    #[error("the opened counts: {0}")]
    Counts(#[from] CountsError),
    /// A setting is not a valid sketch.
    #[error(transparent)]
    Parameters(#[from] ParameterError),
    /// The opened moments are invalid.
    #[error("the opened moments: {0}")]
    Moments(#[from] ScalingError),
    /// An aggregate that is needed has not been opened.
    #[error("{0} opened vectors, too few for this")]
    Incomplete(usize),
    /// There are more correct predictions than rows.
    #[error("the opened scores cannot come from rows")]
    Scores,
}

/// One setting in one fold.
struct Trial<'a> {
    candidate: &'a Candidate,
    hash: FlyHash,
    scaler: Scaler,
    split: &'a Split,
}

impl Plan {
    /// Makes the plan of a session of the task `tune` with these parameters.
    #[must_use]
    pub fn new(session: Session, spec: &TuneSpec) -> Self {
        let candidate = |setting: Setting| Candidate {
            m: setting.m as usize,
            s: setting.s as usize,
            rho: setting.rho as usize,
            densify: setting.densify,
            scaling: setting.scaling.of_rows(),
        };
        let candidates = spec.settings(&session.data).into_iter().map(candidate).collect();
        Self { session, candidates, readouts: readouts(), folds: spec.folds.into() }
    }

    /// Returns `None` if no setting needs sums over all rows before it; otherwise, whether any setting also
    /// needs sums of squares.
    fn needs_moments(&self) -> Option<bool> {
        self.candidates.iter().filter_map(|candidate| candidate.scaling.needs_moments()).max()
    }

    /// Returns which sums over the columns the session opens.
    fn opens_moments(&self) -> Option<ColumnSums> {
        self.session.data.opens_moments(self.needs_moments())
    }

    fn classes(&self) -> usize {
        self.session.data.classes.len()
    }

    /// Returns the aggregates of the session.
    #[must_use]
    pub fn aggregates(&self) -> Vec<Aggregate> {
        let mut plan = vec![Aggregate::coin(), holders::aggregate(self.classes())];
        if let Some(sums) = self.opens_moments() {
            plan.push(columns::aggregate(self.session.data.features, sums));
        }
        let counts: usize =
            self.candidates.iter().map(|candidate| candidate.m * self.classes() * self.folds).sum();
        plan.push(Aggregate::exact(
            "counts",
            4,
            counts as u64,
            "models of every setting and fold",
            "counts of the rows of every fold under every setting",
        ));
        let scores = self.classes() * (1 + self.candidates.len() * self.readouts.len());
        let reveals = "how many rows each setting has right, by class";
        plan.push(Aggregate::exact("scores", 4, scores as u64, "how good each setting is", reveals));
        plan
    }

    /// Returns the opened vector of the aggregate with this name.
    fn opened<'a>(&self, name: &str, opened: &'a [Bytes]) -> Result<&'a Bytes, TuneError> {
        let slot = self.aggregates().iter().position(|aggregate| aggregate.name == name);
        slot.and_then(|slot| opened.get(slot)).ok_or(TuneError::Incomplete(opened.len()))
    }

    /// Returns all trials: for each setting, those of all folds.
    fn trials<'a>(&'a self, splits: &'a [Split], opened: &[Bytes]) -> Result<Vec<Trial<'a>>, TuneError> {
        let coin = self.opened("coin", opened)?;
        let features = self.session.data.features as usize;
        let moments = match self.needs_moments() {
            None => None,
            Some(_) => {
                let words = Wide::all(self.opened("moments", opened)?);
                Some(Moments::from_words(sums::parts(&words, features).0, features)?)
            }
        };
        let pairs = self
            .candidates
            .iter()
            .zip(0u32..)
            .flat_map(|(c, i)| splits.iter().zip(0u32..).map(move |(f, j)| (c, i, f, j)));
        let trial = |(candidate, i, split, j): (&'a Candidate, u32, &'a Split, u32)| {
            let seed = *derive(coin, "tune/matrix", &[i.to_le_bytes(), j.to_le_bytes()].concat());
            let sketch = candidate.parameters(features, seed).check(self.classes())?;
            let scaler = Scaler::new(&candidate.scaling, features, moments.as_ref())?;
            Ok(Trial { candidate, hash: FlyHash::new(&sketch), scaler, split })
        };
        pairs.collect::<Vec<_>>().into_par_iter().map(trial).collect()
    }

    /// Splits this peer's rows into folds, in the same way for counts and scores.
    fn splits(&self, data: &Dataset, opened: &[Bytes]) -> Result<Vec<Split>, TuneError> {
        Ok(folds(data, self.folds, self.opened("coin", opened)?))
    }

    fn counts(&self, data: &Dataset, opened: &[Bytes]) -> Result<Bytes, TuneError> {
        let splits = self.splits(data, opened)?;
        let trials = self.trials(&splits, opened)?;
        let counts = trials.into_par_iter().map(|trial| {
            let train = data.subset(&trial.split.train);
            Ok(bloom::fit(&trial.hash, &trial.scaler, &train, self.classes())?.to_le_bytes())
        });
        let counts: Vec<Vec<u8>> = counts.collect::<Result<_, TuneError>>()?;
        Ok(counts.concat().into())
    }

    fn scores(&self, data: &Dataset, opened: &[Bytes]) -> Result<Bytes, TuneError> {
        let splits = self.splits(data, opened)?;
        let trials = self.trials(&splits, opened)?;
        let mut rest = &self.opened("counts", opened)?[..];
        let mut summed_counts = Vec::with_capacity(trials.len());
        for trial in &trials {
            let (own, others) = rest
                .split_at_checked(trial.candidate.m * self.classes() * 4)
                .ok_or(TuneError::Incomplete(opened.len()))?;
            summed_counts.push(Counts::from_le_bytes(own, self.classes(), trial.candidate.m)?);
            rest = others;
        }
        let tallies = trials.into_par_iter().zip(summed_counts).map(|(trial, counts)| {
            let test = data.subset(&trial.split.test);
            let predicted = read(&trial.hash, &trial.scaler, &counts, &self.readouts, &test)?;
            Ok(predicted.iter().map(|predicted| Tally::new(&test, predicted)).collect())
        });
        let tallies: Vec<Vec<Tally>> = tallies.collect::<Result<_, TuneError>>()?;
        let tallies: Vec<_> =
            tallies.chunks(self.folds.max(1)).flat_map(|each| summed(each.to_vec())).collect();
        let rows = tallies.first().map_or(&[][..], Tally::classes).iter().map(|(_, rows)| rows);
        let right = tallies.iter().flat_map(|tally| tally.classes().iter().map(|(right, _)| right));
        Ok(rows.chain(right).flat_map(|word| word.to_le_bytes()).collect())
    }

    /// Computes the result from the opened vectors of the whole plan.
    pub fn outcome(&self, opened: &[Bytes]) -> Result<Outcome, TuneError> {
        let scores = self.opened("scores", opened)?;
        let words: Vec<_> = scores.as_chunks::<4>().0.iter().map(|&word| u32::from_le_bytes(word)).collect();
        let mut classes = words.chunks(self.classes().max(1));
        let rows = classes.next().unwrap_or_default();
        let tally = |right: &[u32]| Tally::of(right.iter().copied().zip(rows.iter().copied()).collect());
        let tallies: Vec<_> = classes.map(tally).collect::<Option<_>>().ok_or(TuneError::Scores)?;
        let each = self.candidates.iter().zip(tallies.chunks(self.readouts.len().max(1)));
        let mut ranked: Vec<_> = each
            .filter_map(|(candidate, tallies)| {
                let at = best(tallies.iter().enumerate(), Metric::Balanced)?;
                Some((candidate.clone(), self.readouts[at], tallies[at].clone()))
            })
            .collect();
        // The sort is stable, so equally good settings stay in the order of the session file.
        ranked.sort_by(|a, b| b.2.score(Metric::Balanced).total_cmp(&a.2.score(Metric::Balanced)));
        let digest =
            tagged_hash("scores").chain_update(self.session.id().0).chain_update(scores).finalize().into();
        Ok(Outcome { ranked, digest })
    }
}

impl Tune {
    /// Makes a peer with these rows. There may be none.
    pub fn new(session: Session, spec: &TuneSpec, data: Arc<Dataset>) -> Result<Self, TuneError> {
        holders::fits(&session, &data).map_err(TuneError::Data)?;
        Ok(Self { plan: Plan::new(session, spec), data })
    }

    fn vector(&self, name: &str, opened: &[Bytes]) -> Result<Bytes, TuneError> {
        let session = &self.plan.session;
        match name {
            "holders" => Ok(holders::vector(self.plan.classes(), &self.data)),
            "moments" => {
                let moments = self.plan.opens_moments().map_or_else(Vec::new, |sums| sums.of(&self.data));
                Ok(Wide::bytes(&moments).into())
            }
            name => {
                holders::refuse_uncounted(
                    session,
                    HOLDERS,
                    &self.data.class_counts(self.data.classes().len()),
                    opened,
                )
                .map_err(TuneError::Data)?;
                if name == "counts" {
                    self.plan.counts(&self.data, opened)
                } else {
                    self.plan.scores(&self.data, opened)
                }
            }
        }
    }
}

impl Task for Tune {
    fn plan(&self) -> Vec<Aggregate> {
        self.plan.aggregates()
    }

    fn contribution(&self, slot: u32, history: &History) -> Result<Bytes, String> {
        let aggregate = super::aggregate_of(self, slot)?;
        self.vector(&aggregate.name, history.vectors()).map_err(|error| error.to_string())
    }

    fn outcome(&self, history: &History, _unix: u64) -> Result<super::Outcome, String> {
        let outcome = self.plan.outcome(history.vectors()).map_err(|error| error.to_string())?;
        let summary = outcome.ranked.first().map_or(String::new(), |(candidate, readout, tally)| {
            let score = tally.score(Metric::Balanced);
            format!("balanced accuracy {score:.4} with {candidate}, {} {}", readout.score, readout.gamma)
        });
        Ok(super::Outcome::new(text::settings(&outcome).into_bytes(), outcome.digest).with_summary(summary))
    }

    fn work(&self, slot: u32, _: &History) -> Work {
        let rows = self.data.rows() as f64;
        let plan = self.plan();
        let mut work = Work::default();
        match plan.get(slot as usize).map(|aggregate| &*aggregate.name) {
            Some("moments") => work.lift = rows * self.data.features() as f64,
            // Each fold has its own matrix, and each row is counted in all folds except one.
            Some("counts") => {
                let folds = self.plan.folds as f64;
                for candidate in &self.plan.candidates {
                    let (m, s) = (candidate.m as f64, candidate.s as f64);
                    for _ in 0..self.plan.folds {
                        work += Work::training(m, s, rows * (folds - 1.0) / folds);
                    }
                }
            }
            Some("scores") => {
                for candidate in &self.plan.candidates {
                    let (m, s) = (candidate.m as f64, candidate.s as f64);
                    for _ in 0..self.plan.folds {
                        work += Work::training(m, s, rows / self.plan.folds as f64);
                    }
                }
            }
            _ => {}
        }
        work
    }

    fn allows(&self, slot: u32, history: &History, members: &[Peer]) -> Result<(), String> {
        holders::allows(&self.plan.session, slot, history, members)
    }

    fn check(&self, slot: u32, history: &History) -> Result<(), String> {
        match slot {
            HOLDERS => holders::enough(&self.plan.session, HOLDERS, history.vectors(), 0),
            slot if slot as usize + 1 == self.plan().len() => {
                self.plan.outcome(history.vectors()).map(drop).map_err(|error| error.to_string())
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
