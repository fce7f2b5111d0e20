//! Plan of a session: its slots, which members train, and the meaning of the opened words. It follows from
//! the session file alone.

use std::sync::Arc;

use bytes::Bytes;
use flyswarm_data::prepare::TableSchema;
use flyswarm_learn::learner::{Classifier, Network, Settings, train};
use flyswarm_learn::model::figures::Sums;
use serde_json::{Map, Value, json};

use super::super::History;
use super::super::common::{columns, holders};
use super::best::Best;
use super::tensors::{TensorSpec, USUAL_RANGE, Values};
use super::words::{self, Carried, Figures, Layout, ONE, mean};
use super::{FedavgError, RESERVE, ROWS, initial, own};
use crate::crypto::stream::Stream;
use crate::data::Dataset;
use crate::data::deal::shuffle;
use crate::protocol::context::{Aggregate, Kind, SMALLEST_SUM};
use crate::session::{Peer, Session};
use crate::tasks::{FedavgSpec, RoundNoise, Weighting};
use flyswarm_data::scaling::{ColumnSums, Scaler, Scaling};

/// Plan of a session. It follows from the session file alone.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(super) session: Session,
    pub(super) spec: FedavgSpec,
    /// The network. It has no layers if the model is the users' own.
    pub(in crate::tasks) network: Network,
    /// All tensors of the model: those that a round averages, and the others.
    pub(super) tensors: Arc<[TensorSpec]>,
    scaling: Scaling,
    /// Preparation of a table into rows, if the session describes one.
    pub(super) preparation: Option<Arc<TableSchema>>,
    /// The first weights, if the session names a file that has them.
    pub(super) initial: Option<Arc<Values>>,
    /// Noise of a private session, which opens only its rounds.
    pub(super) noise: Option<RoundNoise>,
    /// Number of rounds at the start whose weights a `patience` does not count.
    pub(in crate::tasks) uncounted: u32,
}

impl Plan {
    /// Makes the plan of a session of the task `fedavg` with these parameters.
    ///
    /// # Errors
    /// [`FedavgError::Session`] if the session was not checked and its network does not fit.
    pub(crate) fn new(session: Session, spec: FedavgSpec) -> Result<Self, FedavgError> {
        let network = spec.build(&session.data)?;
        let tensors = spec.model(&session.data)?.into();
        let (scaling, preparation) = (session.data.scaling.of_rows(), session.data.preparation.clone());
        let noise = spec.noise(&session);
        Ok(Self { session, spec, network, tensors, scaling, preparation, initial: None, noise, uncounted: 0 })
    }

    /// Returns which sums over the columns the session opens.
    pub(super) fn opens_moments(&self) -> Option<ColumnSums> {
        self.session.data.opens_moments(self.scaling.needs_moments())
    }

    pub(super) fn layout(&self) -> Layout {
        let figures = if self.noise.is_some() { 0 } else { words::FIGURES };
        let classes = self.session.data.classes.len();
        let predictions = if self.spec.patience > 0 { Sums::length(classes, true) } else { 0 };
        let weights = self.spans().map(|(count, _)| count).sum();
        Layout { weights, figures, rounds: self.spec.rounds as usize, predictions }
    }

    /// Returns the number of weights and the range of each averaged tensor.
    fn spans(&self) -> impl Iterator<Item = (usize, f64)> {
        self.tensors.iter().filter(|each| each.is_averaged()).map(|each| (each.count(), each.range))
    }

    /// Multiplies the weights of each tensor by a power of two. If `out` is true, the result has the range of
    /// the words; otherwise this is undone. Only numbers that are too small for a word lose digits.
    #[expect(clippy::cast_possible_truncation, reason = "a power of two")]
    pub(super) fn scale(&self, weights: &mut [f32], out: bool) {
        let mut rest = weights;
        for (count, range) in self.spans() {
            let (own, after) = rest.split_at_mut(count.min(rest.len()));
            let factor = if out { USUAL_RANGE / range } else { range / USUAL_RANGE };
            if range != USUAL_RANGE {
                own.iter_mut().for_each(|weight| *weight = (f64::from(*weight) * factor) as f32);
            }
            rest = after;
        }
    }

    /// Returns the slot of `rows`. A private session has no slot `holders` before it.
    pub(super) fn rows(&self) -> u32 {
        if self.noise.is_some() { ROWS - 1 } else { ROWS }
    }

    /// Returns the slot of the first round.
    pub(in crate::tasks) fn first(&self) -> u32 {
        self.rows() + 1 + u32::from(self.opens_moments().is_some())
    }

    /// Returns whether the last weights are tested: not in a private session, and not if only the peers'
    /// trainers know the model.
    pub(super) fn has_scores(&self) -> bool {
        self.noise.is_none() && !self.spec.is_own()
    }

    /// Returns the slot of `scores`. If the plan has no `scores`, this is the number of its slots.
    pub(super) fn last(&self) -> u32 {
        self.first() + self.spec.rounds
    }

    /// Returns the slot of `predictions`, if the plan has it: after all others.
    pub(super) fn predictions(&self) -> u32 {
        self.last() + 1
    }

    /// Returns whether rows are held out and their predictions are summed.
    pub(in crate::tasks) fn predicts(&self) -> bool {
        self.spec.held_out > 0 && self.noise.is_none()
    }

    /// Returns the round of a slot, from 0.
    pub(in crate::tasks) fn round(&self, slot: u32) -> Option<u32> {
        slot.checked_sub(self.first()).filter(|&round| round < self.spec.rounds)
    }

    /// Returns the aggregates of the session.
    #[must_use]
    pub(crate) fn aggregates(&self) -> Vec<Aggregate> {
        let data = &self.session.data;
        let mut plan = vec![Aggregate::coin()];
        if self.noise.is_none() {
            let of_classes = holders::aggregate(data.classes.len());
            let held_out = if self.predicts() { data.classes.len() as u64 } else { 0 };
            plan.push(Aggregate { words: of_classes.words + held_out, ..of_classes });
        }
        plan.push(Aggregate::exact("rows", 4, 1, "rows in all", "how many rows all members have together"));
        if let Some(sums) = self.opens_moments() {
            plan.push(columns::aggregate(data.features, sums));
        }
        let words = self.layout().words() as u64;
        let kind = if self.noise.is_some() { Kind::Noised } else { Kind::Exact };
        let reveals = match self.spec.patience {
            0 => "weights after every round, which are sums over its members",
            _ => {
                "weights after every round, which are sums over its members; if training ends early, the last \
                 round also reveals the same as `predictions`"
            }
        };
        let round = |round| {
            let (name, is) = (format!("round-{round}"), "weights after a round");
            Aggregate { kind: kind.clone(), ..Aggregate::exact(&name, 4, words, is, reveals) }
        };
        plan.extend((1..=self.spec.rounds).map(round));
        if self.has_scores() {
            let reveals = "loss and accuracy of the last network over all rows with a label";
            let words = words::FIGURES as u64 + 1;
            plan.push(Aggregate::exact("scores", 4, words, "quality of the network", reveals));
        }
        if self.predicts() {
            plan.push(Self::predicted(data.classes.len()));
        }
        plan
    }

    /// `slot` is a round or `scores`. Returns the earlier slot whose number of rows is the n of `slot`: the
    /// one with the most members or, in a tie, the last of these. The slot of the moments is not considered.
    pub(super) fn base(&self, slot: u32, history: &History) -> u32 {
        let rounds = (self.first()..slot).take_while(|&before| before < self.last());
        let (mut base, mut most) = (self.rows(), history.members(self.rows()).len());
        for slot in rounds {
            let members = history.members(slot).len();
            if members >= most {
                (base, most) = (slot, members);
            }
        }
        base
    }

    /// Returns the peers that may train in `slot`: the peers whose rows are part of n, or those of them that
    /// are drawn.
    ///
    /// The draw: these peers, in the order of the roster, are shuffled with Stream(seed, "fedavg/members",
    /// slot as u32 LE). The first K of them train. K is ceil(members x number of these peers), but at least
    /// one more than a sum needs.
    #[must_use]
    pub(crate) fn trains(&self, slot: u32, history: &History) -> Vec<Peer> {
        let mut counted = history.members(self.base(slot, history)).to_vec();
        let draws = self.spec.members < 1.0 && slot < self.last() && !self.closes(slot, history);
        let Some(seed) = history.seed().filter(|_| draws) else {
            return counted;
        };
        let mut stream = Stream::new(&seed, "fedavg/members", &slot.to_le_bytes());
        shuffle(&mut counted, &mut stream);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most the roster")]
        let drawn = (self.spec.members * counted.len() as f64).ceil() as usize;
        counted.truncate(drawn.max(self.fewest() + RESERVE));
        counted.sort_unstable();
        counted
    }

    /// Returns the fewest members that may train in a round.
    pub(super) fn fewest(&self) -> usize {
        if self.noise.is_some() {
            SMALLEST_SUM
        } else {
            SMALLEST_SUM.max(self.session.privacy.min_contributors.into())
        }
    }

    pub(super) fn opened<'a>(
        &self,
        slot: u32,
        name: &'static str,
        history: &'a History,
    ) -> Result<&'a Bytes, FedavgError> {
        history.vector(slot).ok_or(FedavgError::Closed(name))
    }

    /// Returns the values that the members carry into `slot`, which is a round or `scores`.
    pub(super) fn carried(&self, slot: u32, history: &History) -> Result<Carried, FedavgError> {
        let Some(before) = slot.checked_sub(1).filter(|&before| self.round(before).is_some()) else {
            let rows = self.opened(self.rows(), "rows", history)?;
            let rows = rows[..].try_into().map(u32::from_le_bytes);
            return Ok(Carried { rows: rows.unwrap_or_default(), curve: Vec::new() });
        };
        let opened = self.opened(before, "the round before", history)?;
        let layout = self.layout();
        let round = (before - self.first()) as usize;
        let mut carried = layout.carried(opened, history.members(before).len(), round)?;
        if layout.figures > 0 && !self.over(&carried.curve) {
            carried.push(layout.figures(opened));
        }
        if self.base(slot, history) == before {
            carried.rows = layout.rows(opened);
        }
        Ok(carried)
    }

    /// Returns whether training ends with the last round in `curve`.
    fn over(&self, curve: &[Figures]) -> bool {
        let best = Best::of(curve.iter().map(|figures| figures.judged()));
        self.spec.patience > 0 && best.is_some_and(|best| best.waited(self.uncounted) >= self.spec.patience)
    }

    /// Returns whether the slot of a round sums predictions instead, because training ended before it.
    pub(in crate::tasks) fn closes(&self, slot: u32, history: &History) -> bool {
        let Some(round) = self.round(slot).filter(|_| self.spec.patience > 0) else { return false };
        let before = match history.vector(slot) {
            Some(opened) => {
                let members = history.members(slot).len();
                self.layout().carried(opened, members, round as usize).map_err(FedavgError::from)
            }
            None if slot < history.committed() => return false,
            None => self.carried(slot, history),
        };
        before.is_ok_and(|before| self.over(&before.curve))
    }

    /// Returns whether a slot sums the predictions for held-out rows.
    pub(super) fn sums_predictions(&self, slot: u32, history: &History) -> bool {
        slot == self.predictions() || self.closes(slot, history)
    }

    /// Returns the weights that the members start from in `slot`; for `scores`, the weights that it tests.
    pub(crate) fn weights(&self, slot: u32, history: &History) -> Result<Vec<f32>, FedavgError> {
        if slot <= self.first() {
            let seed = history.seed().ok_or(FedavgError::Closed("coin"))?;
            return self.first_weights(&seed);
        }
        let mut weights = self.layout().weights(self.opened(slot - 1, "the round before", history)?);
        self.scale(&mut weights, false);
        Ok(weights)
    }

    fn first_weights(&self, seed: &[u8; 32]) -> Result<Vec<f32>, FedavgError> {
        match (&self.initial, self.spec.initial) {
            (Some(values), _) => Ok(values.averaged.clone()),
            (None, Some(_)) => Err(FedavgError::Data(initial::MISSING.into())),
            (None, None) => Ok(self.network.initial(seed)),
        }
    }

    /// Makes the scaler from the opened moments.
    pub(super) fn scaler(&self, history: &History) -> Result<Scaler, FedavgError> {
        let moments = match self.scaling.needs_moments() {
            Some(_) => Some(&self.opened(ROWS + 1, "moments", history)?[..]),
            None => None,
        };
        Ok(Scaler::opened(&self.scaling, self.session.data.features as usize, moments)?)
    }

    /// Returns how a member trains in a round, from 0.
    pub(super) fn settings(&self, round: u32) -> Settings {
        let spec = &self.spec;
        #[expect(clippy::cast_possible_truncation, reason = "steps are taken in binary32")]
        let narrow = |number: f64| number as f32;
        Settings {
            epochs: spec.epochs,
            steps: spec.steps,
            batch: spec.batch as usize,
            rate: narrow(spec.schedule.rate(spec.rate, round, spec.rounds)),
            momentum: narrow(spec.momentum),
            decay: narrow(spec.weight_decay),
            proximal: narrow(spec.proximal),
            augment: spec.augment(),
        }
    }

    /// Returns n_m of a peer that has this number of rows.
    pub(super) fn counts(&self, rows: usize) -> u32 {
        match self.spec.weighting {
            Weighting::Rows => u32::try_from(rows).unwrap_or(u32::MAX),
            Weighting::Equal => 1,
        }
    }

    /// Returns the share n_m / n of a peer, rounded down. `own` is n_m and `all` is n.
    pub(super) fn share(&self, own: u32, all: u32) -> Result<u32, FedavgError> {
        if own > all || all == 0 {
            let text = format!("this peer has {own} rows, but only {all} rows of all peers were counted");
            return Err(FedavgError::Data(text));
        }
        let share = u64::from(own) * u64::from(ONE) / u64::from(all);
        Ok(u32::try_from(share).unwrap_or(ONE))
    }

    /// Returns the figures of the last weights.
    pub(super) fn scores(&self, history: &History) -> Result<Figures, FedavgError> {
        let words = self.opened(self.last(), "scores", history)?;
        let words: Vec<u32> = words.as_chunks::<4>().0.iter().map(|&word| u32::from_le_bytes(word)).collect();
        let [a, b, c, d, share] = words[..] else { return Err(FedavgError::Closed("scores")) };
        let [loss, accuracy, held_loss, held_accuracy] = [a, b, c, d].map(|word| mean(word, share));
        Ok(Figures { loss, accuracy, held_loss, held_accuracy })
    }

    /// Returns the figures by name. Those of held-out rows are included only if the session holds rows out.
    pub(super) fn named(&self, figures: Figures) -> Map<String, Value> {
        let round = |number: f64| (number * 1e4).round() / 1e4;
        let mut named = Map::new();
        named.insert("loss".into(), json!(round(figures.loss)));
        named.insert("accuracy".into(), json!(round(figures.accuracy)));
        if self.spec.held_out > 0 {
            named.insert("held_out_loss".into(), json!(round(figures.held_loss)));
            named.insert("held_out_accuracy".into(), json!(round(figures.held_accuracy)));
        }
        named
    }

    /// Returns the model that a finished session has made.
    pub(crate) fn classifier(&self, history: &History) -> Result<Classifier, FedavgError> {
        let judged = self.judged(history).ok_or(FedavgError::Closed("the last round"))?;
        let made = self.with_weights(self.scaler(history)?, self.made(self.result(&judged), history)?)?;
        Ok(match self.rarer_class(history) {
            Some(positive) => made.with_positive(positive)?,
            None => made,
        })
    }

    /// Returns a file with these weights.
    pub(super) fn file(&self, weights: Vec<f32>, history: &History) -> Result<Vec<u8>, FedavgError> {
        let scaler = self.scaler(history)?;
        if !self.spec.is_own() {
            return Ok(self.with_weights(scaler, weights)?.encode());
        }
        let others = self.initial.as_ref().map_or_else(Vec::new, |first| first.others.clone());
        Ok(own::encode(self, &scaler, &Values { averaged: weights, others }))
    }

    pub(super) fn with_weights(&self, scaler: Scaler, weights: Vec<f32>) -> Result<Classifier, FedavgError> {
        let data = &self.session.data;
        let session = (self.session.name.clone(), self.session.id().0);
        let (classes, columns) = (data.classes.clone(), data.columns.clone());
        let made = Classifier::new(self.network.architecture(), scaler, classes, columns, weights, session)?;
        Ok(match &self.preparation {
            Some(preparation) => made.with_preparation(preparation.clone())?,
            None => made,
        })
    }

    /// Trains the same network on rows in one place, and returns its weights after each round. The network of
    /// the peers is compared with it.
    pub(crate) fn in_one_place(
        &self,
        rows: &Dataset,
        seed: &[u8; 32],
    ) -> Result<Vec<Classifier>, FedavgError> {
        let scaler = Scaler::fit(&self.scaling, rows)?;
        let scaled = scaler.transform(rows);
        let mut weights = self.first_weights(seed)?;
        let round = |round: u32| {
            let mut stream = Stream::new(seed, "fedavg/in-one-place", &round.to_le_bytes());
            let (settings, labels) = (self.settings(round), scaled.labels());
            let start = std::mem::take(&mut weights);
            let trained = train(&self.network, start, scaled.view(), labels, None, &settings, &mut stream);
            weights = trained.weights;
            self.with_weights(scaler.clone(), weights.clone())
        };
        (0..self.spec.rounds).map(round).collect()
    }
}
