//! One round of training at one peer: by the built-in learner, or by the user's own trainer.

use std::sync::PoisonError;

use flyswarm_learn::learner::{Trained, clip_update, train};
use serde_json::json;

use super::super::History;
use super::tensors::{self, Rule, USUAL_RANGE, Values};
use super::trainer::{Order, lower_rate};
use super::words::{Figures, LIMIT};
use super::{Fedavg, FedavgError, LabelledRows};
use crate::crypto::stream::Stream;

impl Fedavg {
    /// Checks that the words of a round can hold these weights. The weights have been scaled to the range of
    /// the words.
    pub(super) fn check_range(
        &self,
        round: u32,
        loss: f64,
        scaled: &[f32],
        curve: &[Figures],
    ) -> Result<(), FedavgError> {
        // The comparison also refuses NaN.
        let fits = |weight: &f32| f64::from(weight.abs()) <= LIMIT;
        let Some(at) = scaled.iter().position(|weight| !fits(weight)) else { return Ok(()) };
        let (place, range) =
            tensors::place(&self.plan.tensors, at).unwrap_or_else(|| (format!("weight {at}"), USUAL_RANGE));
        let losses: Vec<f64> = curve.iter().map(|figures| figures.loss).chain([loss]).collect();
        let told: Vec<_> = losses.iter().map(|loss| format!("{loss:.2}")).collect();
        let told = told[told.len().saturating_sub(5)..].join(", ");
        let number = f64::from(scaled[at]) * (range / USUAL_RANGE);
        let rate = self.plan.settings(0).rate;
        // If the loss is above that of the first round or that of guessing, training diverges. Otherwise the
        // range is too small.
        let first = losses[0].min((self.plan.session.data.classes.len() as f64).ln());
        let reason = if number.is_finite() && loss <= first {
            format!("its range is too small: set range = {} in a new session", wide_enough(number))
        } else {
            format!("training diverges (loss of the last rounds: {told}); {}", lower_rate(f64::from(rate)))
        };
        let text = format!("{place} is {number} after round {}, beyond +-{range}; {reason}", round + 1);
        Err(FedavgError::Training(text))
    }

    /// Returns the weights of all tensors that this peer starts a round from.
    pub(super) fn start(&self, averaged: Vec<f32>) -> Values {
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        let others = own.get_or_insert_with(|| {
            let kept = self.kept.as_ref().and_then(|kept| kept.own());
            let kept = kept.and_then(|file| {
                let file = tensors::open(&file).ok()?;
                let session = hex::encode(self.plan.session.id().0);
                (file.metadata("session_id")? == session)
                    .then_some(file.values(&self.plan.tensors).ok()?.others)
            });
            let first = || self.plan.initial.as_ref().map_or_else(Vec::new, |first| first.others.clone());
            kept.unwrap_or_else(first)
        });
        Values { averaged, others: others.clone() }
    }

    /// Keeps this peer's own tensors from the trainer's answer.
    fn keep_own(&self, answered: &Values) -> Result<(), FedavgError> {
        let others = self.plan.tensors.iter().filter(|each| !each.is_averaged());
        if !others.clone().any(|each| each.rule == Rule::KeepOwn) {
            return Ok(());
        }
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        for ((tensor, new), old) in others.zip(&answered.others).zip(own.iter_mut().flatten()) {
            if tensor.rule == Rule::KeepOwn {
                old.clone_from(new);
            }
        }
        let Some(kept) = &self.kept else { return Ok(()) };
        let (averaged, others) = (answered.averaged.clone(), own.clone().unwrap_or_default());
        let metadata = json!({"session_id": hex::encode(self.plan.session.id().0)});
        let file = tensors::write(&self.plan.tensors, &Values { averaged, others }, Some(&metadata));
        kept.write_own(&file).map_err(FedavgError::Training)
    }

    /// Trains from the start weights of a round.
    pub(super) fn learn(
        &self,
        slot: u32,
        round: u32,
        history: &History,
        found: Option<&LabelledRows>,
        start: Vec<f32>,
    ) -> Result<Trained, FedavgError> {
        let plan = &self.plan;
        let rows = &self.prepared(history)?.train;
        let seed = history.seed().ok_or(FedavgError::Closed("coin"))?;
        let settings = plan.settings(round);
        let mut trained = match &self.trainer {
            Some(trainer) => {
                let (network, tensors, rounds) = (&plan.network, &plan.tensors, plan.spec.rounds);
                let start = self.start(start);
                let order = Order { network, tensors, round, rounds, start: &start, rows, settings };
                let answer = trainer.train(&order).map_err(FedavgError::Training)?;
                self.keep_own(&answer.values)?;
                Trained { weights: answer.values.averaged, seen: answer.seen }
            }
            None => {
                let place = [&self.me.0.to_le_bytes()[..], &slot.to_le_bytes()].concat();
                let mut stream = Stream::new(&seed, "fedavg/batches", &place);
                let network = &plan.network;
                match found {
                    Some(LabelledRows { labels, class_weights }) => {
                        let points = self.points(history)?;
                        labels.train(network, start, points.view(), class_weights, &settings, &mut stream)
                    }
                    None => train(network, start, rows.view(), rows.labels(), None, &settings, &mut stream),
                }
            }
        };
        if plan.spec.clip > 0.0 {
            clip_update(&plan.weights(slot, history)?, &mut trained.weights, plan.spec.clip);
        }
        Ok(trained)
    }
}

/// Returns a range that this weight fits in, with room for more training.
fn wide_enough(weight: f64) -> f64 {
    let most = 4.0 * weight.abs();
    let powers = tensors::RANGES.0..=tensors::RANGES.1;
    powers.map(|power| 2f64.powi(power)).find(|&range| range >= most).unwrap_or(f64::INFINITY)
}
