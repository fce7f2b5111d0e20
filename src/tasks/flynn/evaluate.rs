//! Measures the quality of the model without revealing rows (spec, section 15.4).
//!
//! A hash of the values decides which rows a peer holds out. The slot `learnt` opens a model of all other
//! rows, with a lifting matrix that is used only for it. Each peer predicts its held-out rows in three ways:
//! with this model, with a model of its own other rows, and by the nearest of its own other rows.
//!
//! `calibration` sums the likelihood of the held-out rows for each possible calibration. The model gets the
//! best calibration, which also gives the confidence of the predictions in `scores`. `scores` sums how good
//! the predictions are.
//!
//! The final counts use another matrix. Otherwise the difference between them and `learnt` would reveal the
//! held-out rows.

pub(crate) mod spec;

use bytes::Bytes;
use flyswarm_learn::model::calibration::{Calibration, FEWEST_ROWS, Losses};
use flyswarm_learn::model::comparison::{Comparison, Whose};
use flyswarm_learn::model::figures::Sums;
use serde_json::{Map, Value, json};

use super::compare::together;
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

/// Aggregate: counts of the rows that are not held out.
pub(super) const LEARNT: &str = "learnt";
/// Aggregate: likelihood of the held-out rows for each possible calibration.
pub(super) const CALIBRATION: &str = "calibration";
/// Aggregate: quality of the predictions for the held-out rows.
pub(super) const SCORES: &str = "scores";

impl Plan {
    /// Returns for each class whether enough peers hold out rows of it. Only rows of such classes are
    /// scored.
    fn scored(&self, opened: &[Bytes]) -> Vec<bool> {
        holders::scored(&self.session, self.holders(), opened, 0)
    }

    /// Returns a number of rows: if `privacy.min_contributors` peers each hold out this number, they hold out
    /// at least [`FEWEST_ROWS`] together.
    fn many(&self) -> u64 {
        FEWEST_ROWS.div_ceil(u64::from(self.session.privacy.min_contributors.max(1)))
    }

    /// Returns how many peers hold out at least [`Plan::many`] rows.
    fn holding_many_out(&self, opened: &[Bytes]) -> u32 {
        let words = opened.get(self.holders() as usize).map_or(&[][..], |vector| vector.as_chunks::<4>().0);
        words.get(1 + 2 * self.session.data.classes.len()).map_or(0, |&word| u32::from_le_bytes(word))
    }

    /// Returns whether enough peers hold out enough rows to fit a calibration. With fewer rows, the sum would
    /// reveal something about single rows.
    pub(super) fn calibrates(&self, opened: &[Bytes]) -> bool {
        self.holding_many_out(opened) >= u32::from(self.session.privacy.min_contributors.max(1))
    }

    /// Returns the opened losses. If they are not open, returns losses over zero rows.
    pub(super) fn opened_losses(&self, opened: &[Bytes]) -> Losses {
        let bytes = self.opened(CALIBRATION, opened).map_or(&[][..], |bytes| &bytes[..]);
        let words: Vec<_> = bytes.as_chunks::<8>().0.iter().map(|&word| u64::from_le_bytes(word)).collect();
        Losses::from_words(&words).unwrap_or_else(Losses::empty)
    }

    /// Returns the calibration that fits the held-out rows best, if there are enough of them.
    pub(super) fn calibration(&self, opened: &[Bytes]) -> Option<Calibration> {
        self.opened_losses(opened).fit()
    }

    /// Returns the model of all rows that are not held out.
    fn learnt(&self, opened: &[Bytes]) -> Result<Model, FlynnError> {
        let (names, m) = (&self.session.data.classes, self.model.m as usize);
        let counts = self.opened(LEARNT, opened).ok_or(FlynnError::Incomplete(opened.len(), 1))?;
        let counts = Counts::from_le_bytes(counts, names.len(), m)
            .map_err(|error| FlynnError::Data(error.to_string()))?;
        let (sketch, scaler) = (self.sketch(Self::seed_of_scores(opened)?)?, self.opened_scaler(opened)?);
        let model = Model::new(sketch, self.readout(), names.clone(), scaler, counts)?;
        Ok(model.with_calibration(self.calibration(opened)))
    }

    /// Splits the rows of a peer into kept and held-out ones.
    pub(crate) fn split(&self, data: &Dataset, opened: &[Bytes]) -> Result<Split, FlynnError> {
        let seed = opened.first().and_then(seed).ok_or(FlynnError::Incomplete(opened.len(), 1))?;
        Ok(self.split_under(data, &seed))
    }

    /// Does the same as `split`, with a given seed.
    fn split_under(&self, data: &Dataset, seed: &[u8; 32]) -> Split {
        let spec = self.evaluate.unwrap_or_default();
        held_out(data, spec.held_out.into(), spec.most as usize, seed)
    }

    /// Computes the calibration from the rows of all peers in one place, with a given seed and scaler. The
    /// session must arrive at the same calibration.
    pub(super) fn pooled_calibration(
        &self,
        parts: &[&Dataset],
        seed: [u8; 32],
        scaler: Scaler,
    ) -> Result<Option<Calibration>, FlynnError> {
        if self.evaluate.is_none() {
            return Ok(None);
        }
        let split = |part: &&Dataset| {
            let split = self.split_under(part, &seed);
            (part.subset(&split.train), part.subset(&split.test))
        };
        let (kept, held): (Vec<_>, Vec<_>) = parts.iter().map(split).unzip();
        let many = held.iter().filter(|part| part.rows() as u64 >= self.many()).count();
        if many < usize::from(self.session.privacy.min_contributors.max(1)) {
            return Ok(None);
        }
        let whole = |parts: &[Dataset]| {
            let rows = together(&parts.iter().collect::<Vec<_>>());
            rows.ok_or_else(|| FlynnError::Data("the parts have no rows".into()))
        };
        let (kept, held) = (whole(&kept)?, whole(&held)?);
        let model = self.scaled(&kept, *derive(&seed, "evaluate/matrix", &[]), scaler)?;
        Ok(Losses::of(&model.frequencies(), held.labels(), &model.predictor().scores(&held)?).fit())
    }

    /// Returns the seed of the model that predicts the held-out rows.
    fn seed_of_scores(opened: &[Bytes]) -> Result<[u8; 32], FlynnError> {
        let seed = opened.first().and_then(seed).ok_or(FlynnError::Incomplete(opened.len(), 1))?;
        Ok(*derive(&seed, "evaluate/matrix", &[]))
    }

    /// Checks whether `calibration` or `scores` may be summed over `members`. Enough peers that hold out rows
    /// must be left; for `scores`, enough peers for each scored class.
    pub(super) fn allows_held_out(
        &self,
        slot: u32,
        history: &History,
        members: &[Peer],
    ) -> Result<(), String> {
        let plan = self.aggregates();
        let name = plan.get(slot as usize).map(|aggregate| &*aggregate.name);
        if name == Some(SCORES) {
            let scored = (self.holders(), self.scored(history.vectors()));
            return holders::allows_scored(&self.session, scored, history, members);
        }
        if name != Some(CALIBRATION) {
            return Ok(());
        }
        let counted = history.members(self.holders());
        let lost = counted.iter().filter(|peer| !members.contains(peer)).count();
        let (opened, minimum) = (history.vectors(), usize::from(self.session.privacy.min_contributors));
        let peers = self.holding_many_out(opened);
        if self.calibrates(opened) && (peers as usize).saturating_sub(lost) < minimum.max(1) {
            return Err(format!(
                "only {peers} peers hold out {} rows, and {lost} of them are gone; the session requires \
                 {minimum} (privacy.min_contributors)",
                self.many()
            ));
        }
        Ok(())
    }

    /// Returns the opened figures of all peers, and the entry of the receipt with them. If there are two
    /// classes, `rarer` is the one with fewer rows in the model.
    fn evaluation(
        &self,
        spec: EvaluateSpec,
        opened: &[Bytes],
        rarer: Option<u16>,
    ) -> Option<(Option<Comparison>, Value)> {
        let names = &self.session.data.classes;
        let bytes = self.opened(SCORES, opened)?;
        let left_out = names.iter().zip(self.scored(opened)).filter(|(_, scored)| !scored);
        let left_out: Vec<_> = left_out.map(|(class, _)| class).collect();
        let found = Evaluation::from_bytes(names.len(), bytes);
        // The sums contradict each other if a member has added wrong numbers.
        let contradictory = found.is_none();
        let pooled = found.and_then(|found| found.compared(names, spec.positive.or(rarer)));
        let losses = self.opened_losses(opened);
        let calibration = losses.fit().map(|calibration| {
            json!({
                "rows": losses.rows(), "sharpness": calibration.sharpness(),
                "log_loss": losses.mean(calibration),
            })
        });
        let told = json!({
            "held_out_percent": spec.held_out, "learn_all": spec.learn_all, "classes_not_scored": left_out,
            "calibration": calibration, "contradictory": contradictory, "pooled": pooled,
            "headline": pooled.as_ref().map(|pooled| pooled.headline("held-out rows")),
            "warnings": pooled.as_ref().map(|pooled| pooled.warnings(Whose::Pool)),
        });
        Some((pooled, told))
    }
}

impl Flynn {
    /// Returns the positions of this peer's training rows and held-out rows for the scores.
    pub(super) fn split(&self, opened: &[Bytes]) -> Result<&Split, FlynnError> {
        // The split is kept, because the seed of a session does not change and hashing every row takes time.
        if let Some(split) = self.split.get() {
            return Ok(split);
        }
        let split = self.plan.split(&self.data, opened)?;
        Ok(self.split.get_or_init(|| split))
    }

    /// Returns this peer's training rows and its held-out rows for the scores.
    pub(super) fn parts(&self, opened: &[Bytes]) -> Result<(Dataset, Dataset), FlynnError> {
        let split = self.split(opened)?;
        Ok((self.data.subset(&split.train), self.data.subset(&split.test)))
    }

    /// Returns this peer's words for `holders`: the classes of its rows, and those of its held-out rows.
    pub(super) fn holders(&self, opened: &[Bytes]) -> Result<Bytes, FlynnError> {
        let classes = self.plan.session.data.classes.len();
        match self.plan.evaluate {
            Some(_) => {
                let held = self.parts(opened)?.1;
                Ok(holders::vector_with(classes, &self.data, &held, Some(self.plan.many())))
            }
            None => Ok(holders::vector(classes, &self.data)),
        }
    }

    /// Returns the counts of the rows that are not held out.
    pub(super) fn learnt(&self, opened: &[Bytes]) -> Result<Bytes, FlynnError> {
        let hash = FlyHash::new(&self.plan.sketch(Plan::seed_of_scores(opened)?)?);
        let (kept, _) = self.parts(opened)?;
        let scaler = self.plan.opened_scaler(opened)?;
        let counts = bloom::fit(&hash, &scaler, &kept, self.plan.session.data.classes.len())?;
        Ok(counts.to_le_bytes().into())
    }

    /// Returns the likelihood of this peer's held-out rows for each possible calibration.
    pub(super) fn losses(&self, opened: &[Bytes]) -> Result<Losses, FlynnError> {
        let (_, held) = self.parts(opened)?;
        if !self.plan.calibrates(opened) || held.rows() == 0 {
            return Ok(Losses::empty());
        }
        let model = self.plan.learnt(opened)?;
        let scores = model.predictor().scores(&held)?;
        Ok(Losses::of(&model.frequencies(), held.labels(), &scores))
    }

    /// Returns how well this peer's held-out rows are predicted.
    pub(super) fn own(&self, opened: &[Bytes]) -> Result<&Evaluation, FlynnError> {
        if let Some(own) = self.own.get() {
            return Ok(own);
        }
        let own = self.score(opened)?;
        Ok(self.own.get_or_init(|| own))
    }

    /// Returns whether any of this peer's rows is held out and scored.
    pub(super) fn scores_rows(&self, opened: &[Bytes]) -> bool {
        let scored = self.plan.scored(opened);
        let is_scored = |label: &u16| scored.get(usize::from(*label)).is_some_and(|scored| *scored);
        self.parts(opened).is_ok_and(|(_, held)| held.labels().iter().any(is_scored))
    }

    fn score(&self, opened: &[Bytes]) -> Result<Evaluation, FlynnError> {
        let (kept, held) = self.parts(opened)?;
        let scored = self.plan.scored(opened);
        let rows: Vec<_> = (0..held.rows()).filter(|&row| scored[usize::from(held.labels()[row])]).collect();
        let held = held.subset(&rows);
        if rows.is_empty() {
            return Ok(Evaluation::empty(self.plan.session.data.classes.len()));
        }
        compared(&self.plan.learnt(opened)?, &kept, &held)
    }

    /// Adds the figures of all peers to the receipt, and the figures of this peer to the outcome. As in
    /// `flyswarm report`, the positive class is the one with fewer rows in the model.
    pub(super) fn with_evaluation(
        &self,
        mut outcome: Outcome,
        opened: &[Bytes],
        model: &Model,
    ) -> Result<Outcome, String> {
        let rarer = model.rarer_class();
        let found = self.plan.evaluate.and_then(|spec| self.plan.evaluation(spec, opened, rarer));
        let Some((pooled, told)) = found else { return Ok(outcome) };
        let names = &self.plan.session.data.classes;
        outcome.details = Map::from_iter([("evaluation".to_owned(), told)]);
        let Some(pooled) = pooled else { return Ok(outcome) };
        outcome.summary = pooled.headline("held-out rows");
        outcome.warnings = pooled.warnings(Whose::Pool);
        // This peer's own figures use the same positive class as those of all peers.
        let positive =
            pooled.swarm.positive.and_then(|positive| names.iter().position(|name| *name == positive.class));
        let own = self.own(opened).map_err(|error| error.to_string())?;
        outcome.own = own.compared(names, positive.map(|class| class as u16)).map(|own| json!(own));
        Ok(outcome)
    }

    /// Returns the work of the evaluation: learning from the training rows twice, and comparing the held-out
    /// rows with them.
    pub(super) fn work_of_evaluation(&self, rows: f64) -> Work {
        let Some(EvaluateSpec { held_out, most, .. }) = self.plan.evaluate else { return Work::default() };
        let (m, s) = (f64::from(self.plan.model.m), f64::from(self.plan.model.s));
        let held = (rows * f64::from(held_out) / 100.0).min(f64::from(most));
        let mut work = Work::training(m, s, rows - held);
        work.lift += held * (rows - held) * f64::from(self.plan.session.data.dimension()) / 2.0;
        work
    }
}

/// Evaluates three predictions of the rows `held`: by `model`, by a model with the same settings that learns
/// only from `kept`, and by the nearest rows in `kept`. Labels are numbers of the model's classes. Both data
/// sets must have rows.
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
    let sums = Sums::of_stated(names.len(), held.labels(), &scores, &model.confidences(&scores));
    Ok(Evaluation::of(held.labels(), sums, [&by_swarm, &by_alone, &near]))
}

#[cfg(test)]
mod tests;
