//! Evaluation of the result on held-out rows (spec, section "Task fedavg", *Predictions*).
//!
//! Each round sums one loss and one accuracy. Counts by class are summed only once, for the result. Their
//! slot follows `scores`; after an early end they are summed instead of the next round. If two rounds opened
//! such counts, the difference could reveal the counts of a single member.

use bytes::Bytes;
use flyswarm_learn::learner::{Tape, surprise};
use flyswarm_learn::model::comparison::Whose;
use flyswarm_learn::model::figures::{Figures, Sums};
use serde_json::{Value, json};

use super::super::common::holders::{self, HOLDERS};
use super::super::{History, Outcome, RowUse};
use super::{Fedavg, FedavgError, Plan, Prepared};
use crate::data::Dataset;
use crate::protocol::context::Aggregate;

/// Evaluation from the opened sum of predictions.
pub(super) struct Evaluated {
    /// Figures over the rows of all members, if any are scored.
    pub(super) figures: Option<Figures>,
    /// Figures of this peer's own rows.
    own: Option<Figures>,
    /// Entry for the receipt, or `None` if the sum was not opened.
    told: Option<Value>,
}

impl Plan {
    /// Returns the aggregate `predictions`.
    pub(super) fn predicted(classes: usize) -> Aggregate {
        let reveals = "the confusion matrix of the held-out rows, in which a small number reveals that a \
                       member has such a row; calibration and ranking of the predictions, over at least \
                       10 rows of each peer";
        let words = Sums::length(classes, true) as u64;
        Aggregate::exact("predictions", 8, words, "quality of the network, by class", reveals)
    }

    /// Returns for each class whether the sum of `slot` scores it. This needs enough peers that hold out rows
    /// of the class and were members of the slot before. If a member is lost in training, figures may be
    /// missing, but the result is not.
    pub(super) fn scored(&self, slot: u32, history: &History) -> Vec<bool> {
        let lost = holders::lost(HOLDERS, history, history.members(slot.saturating_sub(1)));
        holders::scored(&self.session, HOLDERS, history.vectors(), lost)
    }

    /// Returns the opened sums. The outer value is `None` if they are not open. The inner value is `None` if
    /// no rows can have these sums.
    fn opened_predictions(&self, history: &History) -> Option<Option<Sums>> {
        let last = history.committed().checked_sub(1).filter(|_| self.predicts())?;
        let bytes = history.vector(last)?;
        let words: Vec<_> = match last {
            last if last == self.predictions() => {
                bytes.as_chunks::<8>().0.iter().map(|&word| u64::from_le_bytes(word)).collect()
            }
            last if self.closes(last, history) => self.layout().predictions(bytes),
            _ => return None,
        };
        Some(Sums::from_words(self.session.data.classes.len(), &words))
    }

    /// Returns the number of the class with fewer held-out rows, if there are two classes; in a tie, the
    /// second.
    pub(super) fn rarer_class(&self, history: &History) -> Option<u16> {
        let [first, second] = self.opened_predictions(history)??.class_rows()[..] else { return None };
        (first + second > 0).then(|| u16::from(first >= second))
    }
}

impl Fedavg {
    /// Returns this peer's words for `holders`: the classes of its rows, and those of its held-out rows.
    pub(super) fn holders(&self, history: &History) -> Result<Bytes, FedavgError> {
        let classes = self.plan.session.data.classes.len();
        Ok(match self.split(history)? {
            Some(split) => holders::vector_with(classes, &self.data, &self.data.subset(&split.test), None),
            None => holders::vector(classes, &self.data),
        })
    }

    /// Returns this peer's held-out rows of the classes that `slot` scores, scaled for the network.
    fn scored_rows(&self, slot: u32, history: &History) -> Result<Option<Dataset>, FedavgError> {
        let Prepared { held: Some(held), .. } = self.prepared(history)? else { return Ok(None) };
        let scored = self.plan.scored(slot, history);
        let is_scored =
            |row: &usize| scored.get(usize::from(held.labels()[*row])).is_some_and(|&scored| scored);
        let rows: Vec<_> = (0..held.rows()).filter(is_scored).collect();
        Ok((!rows.is_empty()).then(|| held.subset(&rows)))
    }

    /// Scores the result on this peer's held-out rows.
    fn own_predictions(&self, slot: u32, history: &History) -> Result<Sums, FedavgError> {
        let (plan, classes) = (&self.plan, self.plan.session.data.classes.len());
        let Some(held) = self.scored_rows(slot, history)? else { return Ok(Sums::empty(classes, true)) };
        let judged = plan.judged(history).ok_or(FedavgError::Closed("scores"))?;
        let weights = plan.made(plan.result(&judged), history)?;
        let scores = plan.network.scores(&weights, held.view(), &mut Tape::default());
        Ok(Sums::of_scores(classes, held.labels(), &surprise(&scores)))
    }

    /// Returns the numbers that this peer adds to the sum of predictions in this slot. Details that other
    /// peers may not see are left out.
    pub(super) fn predictions(&self, slot: u32, history: &History) -> Result<Vec<u64>, FedavgError> {
        Ok(self.own_predictions(slot, history)?.shown().words())
    }

    /// Returns whether the sum of predictions in this slot uses any of this peer's rows.
    pub(super) fn rows_in_predictions(&self, slot: u32, history: &History) -> RowUse {
        match self.scored_rows(slot, history) {
            Ok(None) => RowUse::LeftOut("none of its rows is held out and scored"),
            _ => RowUse::Included,
        }
    }

    /// Evaluates the opened sum for the receipt and for this peer.
    pub(super) fn evaluated(&self, history: &History) -> Result<Evaluated, FedavgError> {
        let plan = &self.plan;
        let Some(opened) = plan.opened_predictions(history) else {
            return Ok(Evaluated { figures: None, own: None, told: None });
        };
        let names = &plan.session.data.classes;
        let slot = history.committed().saturating_sub(1);
        let scored = plan.scored(slot, history);
        let left_out: Vec<_> =
            names.iter().zip(scored).filter(|(_, scored)| !scored).map(|(class, _)| class).collect();
        // This peer's own figures use the same positive class as those of all peers.
        let positive = plan.rarer_class(history);
        let figures = opened.as_ref().and_then(|sums| Figures::new(names, sums, positive));
        let told = json!({
            "held_out_percent": plan.spec.held_out, "classes_not_scored": left_out,
            // The sums contradict each other if a member has added wrong numbers.
            "contradictory": opened.is_none(),
            "pooled": figures.as_ref().map(|figures| json!({"swarm": figures})),
            "headline": figures.as_ref().map(|figures| figures.headline("held-out rows")),
            "warnings": figures.as_ref().map(|figures| figures.warnings(Whose::Pool)),
        });
        let own = Figures::new(names, &self.own_predictions(slot, history)?, positive)
            .filter(|_| figures.is_some());
        Ok(Evaluated { figures, own, told: Some(told) })
    }
}

impl Evaluated {
    /// Adds the figures of all members to the receipt, and this peer's own figures to the outcome.
    pub(super) fn extend(self, mut outcome: Outcome) -> Result<Outcome, FedavgError> {
        outcome.details.extend(self.told.map(|told| ("evaluation".to_owned(), told)));
        outcome.warnings = self.figures.map_or_else(Vec::new, |figures| figures.warnings(Whose::Pool));
        outcome.own = self.own.map(|own| json!({"swarm": own}));
        Ok(outcome)
    }
}
