//! How good the model is, without anybody showing rows (spec, section 15.4).
//!
//! Each peer holds rows out by a hash of their values. A model of everybody's other rows, under a lifting
//! matrix of its own, is opened as `learnt`; with it each peer scores its held-out rows, and beside it by a
//! model of its own other rows and by its nearest neighbours among them. `scores` sums how that went. The
//! final counts are under another matrix, so that their difference from `learnt` does not show the held-out
//! rows.

pub(crate) mod spec;

use bytes::Bytes;
use flyswarm_learn::model::comparison::{Comparison, Whose};
use flyswarm_learn::model::figures::Sums;
use serde_json::{Map, Value, json};

use super::{Flynn, FlynnError, Plan, seed};
use crate::crypto::stream::derive;
use crate::data::Dataset;
use crate::data::split::{Split, held_out};
use crate::model::Model;
use crate::model::bloom::{self, Counts};
use crate::model::neighbours::Neighbours;
use crate::model::readout::lowest;
use crate::session::Peer;
use crate::sketch::flyhash::FlyHash;
use crate::tasks::EvaluateSpec;
use crate::tasks::common::evaluation::{Evaluation, NEIGHBOURS};
use crate::tasks::{History, Outcome, Work, common::holders};
use flyswarm_data::scaling::Scaler;

/// The aggregate: counts of the rows that are not held out.
pub(super) const LEARNT: &str = "learnt";
/// The aggregate: how the held-out rows were predicted.
pub(super) const SCORES: &str = "scores";

impl Plan {
    /// Whether each class has enough peers that hold rows of it out; only such rows are scored.
    fn scored(&self, opened: &[Bytes]) -> Vec<bool> {
        // At least 1.
        let minimum = u32::from(self.session.privacy.min_contributors);
        self.holding_out(opened).iter().map(|&peers| peers >= minimum).collect()
    }

    /// How many peers hold rows of each class out.
    fn holding_out(&self, opened: &[Bytes]) -> Vec<u32> {
        let classes = self.session.data.classes.len();
        let words = opened.get(self.holders() as usize).map_or(&[][..], |vector| vector.as_chunks::<4>().0);
        let word = |class| words.get(1 + classes + class).map_or(0, |&word| u32::from_le_bytes(word));
        (0..classes).map(word).collect()
    }

    /// Which rows of a peer are kept, and which are held out.
    pub(crate) fn split(&self, data: &Dataset, opened: &[Bytes]) -> Result<Split, FlynnError> {
        let spec = self.evaluate.unwrap_or_default();
        let seed = opened.first().and_then(seed).ok_or(FlynnError::Incomplete(opened.len(), 1))?;
        Ok(held_out(data, spec.held_out.into(), spec.most as usize, &seed))
    }

    /// The seed of the model that scores.
    fn seed_of_scores(opened: &[Bytes]) -> Result<[u8; 32], FlynnError> {
        let seed = opened.first().and_then(seed).ok_or(FlynnError::Incomplete(opened.len(), 1))?;
        Ok(*derive(&seed, "evaluate/matrix", &[]))
    }

    /// Whether `scores` may be summed over `members`: of the rows of each class that are scored enough peers
    /// are left.
    pub(super) fn allows_scores(&self, slot: u32, history: &History, members: &[Peer]) -> Result<(), String> {
        let at_scores =
            self.aggregates().get(slot as usize).is_some_and(|aggregate| aggregate.name == SCORES);
        if !at_scores {
            return Ok(());
        }
        let counted = history.members(self.holders());
        let lost = counted.iter().filter(|peer| !members.contains(peer)).count();
        let (opened, minimum) = (history.vectors(), usize::from(self.session.privacy.min_contributors));
        let classes = self.session.data.classes.iter().zip(self.scored(opened));
        for ((class, scored), peers) in classes.zip(self.holding_out(opened)) {
            if scored && (peers as usize).saturating_sub(lost) < minimum {
                return Err(format!(
                    "only {peers} members hold rows of class {class} out, and {lost} of those counted are gone; \
                     privacy.min_contributors is {minimum}"
                ));
            }
        }
        Ok(())
    }

    /// What is opened of everybody's figures, and what the receipt says of them.
    fn evaluation(&self, spec: EvaluateSpec, opened: &[Bytes]) -> Option<(Option<Comparison>, Value)> {
        let names = &self.session.data.classes;
        let bytes = self.opened(SCORES, opened)?;
        let left_out = names.iter().zip(self.scored(opened)).filter(|(_, scored)| !scored);
        let left_out: Vec<_> = left_out.map(|(class, _)| class).collect();
        let found = Evaluation::from_bytes(names.len(), bytes);
        // Any member could have added what it liked.
        let contradictory = found.is_none();
        let pooled = found.and_then(|found| found.compared(names, spec.positive));
        let told = json!({
            "held_out_percent": spec.held_out, "learn_all": spec.learn_all, "classes_not_scored": left_out,
            "contradictory": contradictory, "pooled": pooled,
            "headline": pooled.as_ref().map(|pooled| pooled.headline("held-out rows")),
            "warnings": pooled.as_ref().map(|pooled| pooled.warnings(Whose::Pool)),
        });
        Some((pooled, told))
    }
}

impl Flynn {
    /// This peer's rows: those that are learnt from for the scores, and those that are held out.
    pub(super) fn parts(&self, opened: &[Bytes]) -> Result<(Dataset, Dataset), FlynnError> {
        // Every row is hashed, once: the seed of a session is opened once.
        let split = match self.split.get() {
            Some(split) => split,
            None => {
                let split = self.plan.split(&self.data, opened)?;
                self.split.get_or_init(|| split)
            }
        };
        Ok((self.data.subset(&split.train), self.data.subset(&split.test)))
    }

    /// Which classes this peer has rows of, and of which it holds some out where any are.
    pub(super) fn holders(&self, opened: &[Bytes]) -> Result<Bytes, FlynnError> {
        let classes = self.plan.session.data.classes.len();
        match self.plan.evaluate {
            Some(_) => Ok(holders::vector_with(classes, &self.data, &self.parts(opened)?.1)),
            None => Ok(holders::vector(classes, &self.data)),
        }
    }

    /// The counts of the rows that are not held out.
    pub(super) fn learnt(&self, opened: &[Bytes]) -> Result<Bytes, FlynnError> {
        let hash = FlyHash::new(&self.plan.sketch(Plan::seed_of_scores(opened)?)?);
        let (kept, _) = self.parts(opened)?;
        let scaler = self.plan.opened_scaler(opened)?;
        let counts = bloom::fit(&hash, &scaler, &kept, self.plan.session.data.classes.len())?;
        Ok(counts.to_le_bytes().into())
    }

    /// How this peer's held-out rows are predicted.
    pub(super) fn own(&self, opened: &[Bytes]) -> Result<&Evaluation, FlynnError> {
        if let Some(own) = self.own.get() {
            return Ok(own);
        }
        let own = self.score(opened)?;
        Ok(self.own.get_or_init(|| own))
    }

    /// Whether any of this peer's rows is held out and scored.
    pub(super) fn scores_rows(&self, opened: &[Bytes]) -> bool {
        let scored = self.plan.scored(opened);
        let is_scored = |label: &u16| scored.get(usize::from(*label)).is_some_and(|scored| *scored);
        self.parts(opened).is_ok_and(|(_, held)| held.labels().iter().any(is_scored))
    }

    fn score(&self, opened: &[Bytes]) -> Result<Evaluation, FlynnError> {
        let names = &self.plan.session.data.classes;
        let classes = names.len();
        let (kept, held) = self.parts(opened)?;
        let scored = self.plan.scored(opened);
        let rows: Vec<_> = (0..held.rows()).filter(|&row| scored[usize::from(held.labels()[row])]).collect();
        let held = held.subset(&rows);
        if rows.is_empty() {
            return Ok(Evaluation::empty(classes));
        }
        let (learnt, m) = (self.plan.opened_scaler(opened)?, self.plan.model.m as usize);
        let counts = self.plan.opened(LEARNT, opened).ok_or(FlynnError::Incomplete(opened.len(), 1))?;
        let counts =
            Counts::from_le_bytes(counts, classes, m).map_err(|error| FlynnError::Data(error.to_string()))?;
        let sketch = self.plan.sketch(Plan::seed_of_scores(opened)?)?;
        compared(&Model::new(sketch, self.plan.readout(), names.clone(), learnt, counts)?, &kept, &held)
    }

    /// The outcome with everybody's figures for the receipt and this peer's own beside it.
    pub(super) fn with_evaluation(&self, mut outcome: Outcome, opened: &[Bytes]) -> Result<Outcome, String> {
        let found = self.plan.evaluate.and_then(|spec| self.plan.evaluation(spec, opened));
        let Some((pooled, told)) = found else { return Ok(outcome) };
        let names = &self.plan.session.data.classes;
        outcome.details = Map::from_iter([("evaluation".to_owned(), told)]);
        let Some(pooled) = pooled else { return Ok(outcome) };
        outcome.summary = pooled.headline("held-out rows");
        outcome.warnings = pooled.warnings(Whose::Pool);
        // The pool's positive class is this peer's too.
        let positive =
            pooled.swarm.positive.and_then(|positive| names.iter().position(|name| *name == positive.class));
        let own = self.own(opened).map_err(|error| error.to_string())?;
        outcome.own = own.compared(names, positive.map(|class| class as u16)).map(|own| json!(own));
        Ok(outcome)
    }

    /// Learning from most rows, twice, and comparing the held-out ones with them.
    pub(super) fn work_of_evaluation(&self, rows: f64) -> Work {
        let Some(EvaluateSpec { held_out, most, .. }) = self.plan.evaluate else { return Work::default() };
        let (m, s) = (f64::from(self.plan.model.m), f64::from(self.plan.model.s));
        let held = (rows * f64::from(held_out) / 100.0).min(f64::from(most));
        let mut work = Work::training(m, s, rows - held);
        work.lift += held * (rows - held) * f64::from(self.plan.session.data.dimension()) / 2.0;
        work
    }
}

/// How `held` is predicted: by `model`, by a model with its settings of `kept` alone, and by the nearest rows
/// of these. Labels are numbers of the model's classes; neither is empty.
pub(crate) fn compared(model: &Model, kept: &Dataset, held: &Dataset) -> Result<Evaluation, FlynnError> {
    let (sketch, names) = (model.sketch(), model.classes());
    let own = Scaler::fit(&sketch.parameters().scaling, kept)?;
    let counts = bloom::fit(&FlyHash::new(sketch), &own, kept, names.len())?;
    let alone = Model::new(sketch.clone(), model.readout(), names.to_vec(), own.clone(), counts)?;
    let scores = model.predictor().scores(held)?;
    let by_swarm: Vec<u16> = scores.chunks_exact(names.len()).map(lowest).collect();
    let by_alone = alone.predictor().predict(held)?;
    let near = own.transform(kept);
    let near = Neighbours::new(&near).map(|near| near.predict(NEIGHBOURS, &own.transform(held)));
    let near = near.unwrap_or_else(|| unreachable!("BUG: rows are held out where none are kept"));
    let sums = Sums::of_scores(names.len(), held.labels(), &scores);
    Ok(Evaluation::of(held.labels(), sums, [&by_swarm, &by_alone, &near]))
}

#[cfg(test)]
mod tests;
