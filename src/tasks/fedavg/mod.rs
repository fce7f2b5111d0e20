//! The task `fedavg`: a network that is trained in rounds (McMahan et al., "Communication-Efficient
//! Learning of Deep Networks from Decentralized Data", AISTATS 2017, without a server; spec, section
//! "Task fedavg").
//!
//! Slots, in order:
//! * the coin; its seed determines the first weights, the batches and the members that train;
//! * `holders`: the peers that have rows of each class;
//! * `rows`: the number of rows;
//! * `moments`, if the scaling needs them;
//! * `round-1` to `round-R`;
//! * `scores`: loss and accuracy of the last weights;
//! * `predictions`, if rows are held out: counts of the result's predictions for each class.
//!
//! After an early end, the slot of the next round sums the words of `predictions` instead, and is the last
//! slot.
//!
//! In a round, every member m trains on its own n_m rows, starting from the same weights, and gets the
//! weights w_m. Let n be the number of rows in use. The next weights are the sum of (n_m / n) w_m, divided by
//! the sum of the shares n_m / n. This is the mean over the members that are present.
//!
//! A peer may send a share only if its rows are part of n; otherwise the shares could add up to more than 1.
//! n is the number of rows of the slot with the most members so far (in a tie, the last of them). A peer that
//! was not in that slot sends only its number of rows in the next round, and may train in the rounds after
//! it.
//!
//! The vector of each round has the number of rows of the round's members. It also repeats n and the figures
//! of the earlier rounds. So a peer that comes late needs only the last vector.
//!
//! A private session has the slots coin, `rows` and the rounds, and opens no figures (see the module
//! `private`).

mod best;
pub(crate) mod compare;
mod evaluate;
mod file;
pub(crate) mod initial;
mod kind;
mod learn;
pub mod own;
mod plan;
mod private;
pub mod rounds;
pub(crate) mod spec;
#[cfg(all(feature = "cli", feature = "net"))]
pub(crate) mod subprocess;
pub(crate) mod tensors;
pub(crate) mod trainer;
mod words;

use std::sync::{Arc, Mutex, OnceLock};

use bytes::Bytes;
use flyswarm_learn::learner::{Batch, ClassifierError, PseudoLabels, Tape};
use serde_json::{Map, Value, json};

use super::common::holders::{self, HOLDERS};
use super::{History, Outcome, RowUse, Rows, Task, Work};
use crate::crypto::mask::Wide;
use crate::data::Dataset;
use crate::data::groups;
use crate::data::split::{self, Split, train_test};
use crate::protocol::context::Aggregate;
use crate::protocol::view::Rng;
use crate::session::{Peer, Session, SessionError};
use crate::tasks::FedavgSpec;
#[cfg(feature = "internals")]
#[doc(hidden)]
pub use best::Best;
use flyswarm_data::Borrowed;
use flyswarm_data::scaling::{ColumnSums, ScalingError};
pub use kind::KIND;
pub(crate) use kind::{Own, build, built_in, note};
pub(crate) use plan::Plan;
use rounds::RoundFile;
use trainer::Trainer;
use words::{Figures, ONE, WordsError, mean_word};

/// Beginning of the error text if a peer's own training has failed. It differs from an error in the peer's
/// input, and the other peers may see the reason too.
pub(crate) const TRAINING: &str = "training failed: ";
/// Slot of `rows`.
const ROWS: u32 = 2;
/// Reason why a peer's rows are in no round.
pub(super) const UNLABELLED: &str = "none of its rows has a label";
/// If members are drawn, this number is drawn in addition to the fewest that a sum needs, so that one of them
/// may be lost.
const RESERVE: usize = 1;

/// The task of one peer.
#[derive(Debug)]
pub(crate) struct Fedavg {
    pub(super) plan: Plan,
    me: Peer,
    /// Rows with labels.
    data: Arc<Dataset>,
    /// Rows without labels, which the task `fedavg-xclp` has.
    others: Option<Dataset>,
    /// The user's trainer, or `None` for the built-in learner.
    trainer: Option<Arc<dyn Trainer>>,
    /// This peer's values of the tensors that are not averaged, once it has trained.
    own: Mutex<Option<Vec<Bytes>>>,
    /// Files in which the peer keeps the common weights of the last round, and `own`.
    pub(super) kept: Option<Arc<RoundFile>>,
    /// This peer's scaled rows. They are set when the slots before the first round have been committed.
    prepared: OnceLock<Prepared>,
}

/// A peer's rows, scaled for the network.
#[derive(Debug)]
struct Prepared {
    train: Dataset,
    held: Option<Dataset>,
    others: Option<Dataset>,
}

/// Given and found labels, and the number of rows of each class over all members.
pub(super) struct LabelledRows {
    pub(super) labels: PseudoLabels,
    pub(super) class_weights: Vec<f32>,
}

/// Reason why the weights are missing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FedavgError {
    /// The rows do not fit the session.
    #[error("{0}")]
    Data(String),
    /// The opened moments are invalid.
    #[error("the opened moments: {0}")]
    Moments(#[from] ScalingError),
    /// A weight or a loss is outside the range of the words, or no members can have this opened sum.
    #[error(transparent)]
    Words(WordsError),
    /// The session's network does not fit its rows.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The peer's own training has failed.
    #[error("{TRAINING}{0}")]
    Training(String),
    /// The weights do not form a valid model.
    #[error("{0}")]
    Classifier(#[from] ClassifierError),
    /// A slot that is needed has not been opened.
    #[error("{0} is not open")]
    Closed(&'static str),
}

impl From<WordsError> for FedavgError {
    fn from(error: WordsError) -> Self {
        Self::Words(error)
    }
}

impl Fedavg {
    /// Makes a peer with these rows.
    ///
    /// # Errors
    /// [`FedavgError::Data`] if the rows do not fit the session, or if the peer has none.
    pub(crate) fn new(
        session: Session,
        spec: FedavgSpec,
        me: Peer,
        data: Arc<Dataset>,
    ) -> Result<Self, FedavgError> {
        holders::fits(&session, &data).map_err(FedavgError::Data)?;
        if data.rows() == 0 {
            return Err(FedavgError::Data("the task fedavg needs rows of every peer".into()));
        }
        Ok(Self::with(Plan::new(session, spec)?, me, data, None))
    }

    /// Makes a peer with these rows. Some of them may have no label.
    ///
    /// # Errors
    /// [`FedavgError::Data`] if the rows do not fit the session, or if the peer has none.
    pub(super) fn partly(
        session: Session,
        spec: FedavgSpec,
        me: Peer,
        rows: &Rows,
    ) -> Result<Self, FedavgError> {
        let failed = |text: String| FedavgError::Data(text);
        let Rows { data: rows, labels, preparation, .. } = rows;
        if labels.len() != rows.rows() {
            return Err(failed(format!("{} labels for {} rows", labels.len(), rows.rows())));
        }
        if rows.rows() == 0 {
            return Err(failed("the task fedavg-xclp needs rows of every peer".into()));
        }
        let place = |known: bool| (0..labels.len()).filter(move |&row| labels[row].is_some() == known);
        let (known, unknown): (Vec<_>, Vec<_>) = (place(true).collect(), place(false).collect());
        let given = labels.iter().flatten().copied().collect();
        let data = rows.subset(&known).with_labels(given, session.data.classes.clone());
        let data = Arc::new(data.map_err(|error| failed(error.to_string()))?);
        holders::fits(&session, &data).map_err(failed)?;
        if spec.held_out > 0 && data.rows() == 0 {
            let text = "none of this peer's rows has a label to hold out: fedavg.held_out must be 0";
            return Err(failed(text.into()));
        }
        let mut plan = Plan::new(session, spec)?;
        plan.preparation = preparation.clone().or(plan.preparation);
        Ok(Self::with(plan, me, data, Some(rows.subset(&unknown))))
    }

    fn with(plan: Plan, me: Peer, data: Arc<Dataset>, others: Option<Dataset>) -> Self {
        let (own, prepared) = (Mutex::default(), OnceLock::new());
        Self { plan, me, data, others, trainer: None, own, kept: None, prepared }
    }

    /// Returns the given labels of the rows in [`Fedavg::points`]: first the labelled training rows, then
    /// `None` for each row without a label.
    pub(super) fn given(&self, history: &History) -> Result<Vec<Option<u16>>, FedavgError> {
        let Prepared { train, others, .. } = self.prepared(history)?;
        let mut labels: Vec<_> = train.labels().iter().copied().map(Some).collect();
        labels.resize(train.rows() + others.as_ref().map_or(0, Dataset::rows), None);
        Ok(labels)
    }

    /// Returns the labelled training rows, then the rows without a label, scaled for the network.
    pub(super) fn points(&self, history: &History) -> Result<Dataset, FedavgError> {
        let Prepared { train, others, .. } = self.prepared(history)?;
        let others = others.as_ref().map_or(&[][..], Dataset::values);
        let values = [train.values(), others].concat();
        let points = Dataset::new(train.features(), values, Vec::new(), Vec::new());
        points.map_err(|error| FedavgError::Data(error.to_string()))
    }

    fn prepared(&self, history: &History) -> Result<&Prepared, FedavgError> {
        if let Some(prepared) = self.prepared.get() {
            return Ok(prepared);
        }
        let scaler = self.plan.scaler(history)?;
        let rows = scaler.transform(&self.data);
        let others = self.others.as_ref().map(|rows| scaler.transform(rows));
        let prepared = match self.split(history)? {
            None => Prepared { train: rows, held: None, others },
            Some(Split { train, test }) => {
                let held = rows.subset(&test);
                // If a group is held out, its unlabelled rows are not used for training either.
                let others = others.map(|others| groups::without(&others, &held));
                Prepared { train: rows.subset(&train), held: Some(held), others }
            }
        };
        Ok(self.prepared.get_or_init(|| prepared))
    }

    /// Returns which labelled rows are held out, or `None` if the session holds none out.
    fn split(&self, history: &History) -> Result<Option<Split>, FedavgError> {
        let (percent, rows) = (self.plan.spec.held_out, self.data.rows());
        if percent == 0 {
            return Ok(None);
        }
        let seed = history.seed().ok_or(FedavgError::Closed("coin"))?;
        // The split ignores the classes. If each class were split on its own, no rows of small classes would
        // be held out.
        let all = vec![0; rows];
        let split = train_test(split::Rows::new(&all, self.data.groups()), percent, &seed);
        if split.test.is_empty() || split.train.is_empty() {
            return Err(FedavgError::Data(format!(
                "{rows} rows with a label are too few to hold {percent} % out: use more rows, or a session \
                 with fedavg.held_out = 0"
            )));
        }
        Ok(Some(split))
    }

    /// Returns the labelled rows that are used for training, from 0.
    pub(super) fn trained_on(&self, history: &History) -> Option<Vec<usize>> {
        let split = self.split(history).ok()?;
        Some(split.map_or_else(|| (0..self.data.rows()).collect(), |split| split.train))
    }

    /// Returns this peer's n_m (see the module's documentation).
    fn own(&self) -> u32 {
        self.plan.counts(self.rows())
    }

    /// Returns whether any of this peer's rows has a label.
    pub(super) fn has_labels(&self) -> bool {
        self.data.rows() > 0
    }

    fn rows(&self) -> usize {
        self.data.rows() + self.others.as_ref().map_or(0, Dataset::rows)
    }

    /// Returns the work of `passes` forward passes over all rows of this peer.
    pub(super) fn passes(&self, passes: f64) -> Work {
        Work { lift: passes * self.plan.network.work() as f64 * self.rows() as f64, ..Work::default() }
    }

    /// Trains in a round (from 0), and returns this peer's words for it.
    fn train(
        &self,
        slot: u32,
        round: u32,
        history: &History,
        found: Option<&LabelledRows>,
    ) -> Result<Bytes, FedavgError> {
        let plan = &self.plan;
        let (layout, carried) = (plan.layout(), plan.carried(slot, history)?);
        if plan.closes(slot, history) {
            return Ok(layout.write_predictions(&self.predictions(slot, history)?, self.own(), &carried));
        }
        if !plan.trains(slot, history).contains(&self.me) {
            return Ok(layout.write(None, 0, self.own(), &carried)?);
        }
        let share = plan.share(self.own(), carried.rows)?;
        let Prepared { train: rows, held, .. } = self.prepared(history)?;
        let learns = found.map_or(rows.rows() > 0, |found| found.labels.teach());
        if !learns {
            return Ok(layout.write(None, 0, self.own(), &carried)?);
        }
        // The start weights are computed again, because keeping them and the trained weights may need much
        // memory.
        let start = plan.weights(slot, history)?;
        let tested = self.test(held.as_ref(), &start);
        let mut trained = self.learn(slot, round, history, found, start)?;
        let figures = figures_of(trained.seen, tested);
        plan.scale(&mut trained.weights, true);
        self.check_range(round, figures.loss, &trained.weights, &carried.curve)?;
        Ok(layout.write(Some((&trained.weights, figures)), share, self.own(), &carried)?)
    }

    /// Evaluates weights on the rows that this peer holds out; empty if it holds none out.
    fn test(&self, held: Option<&Dataset>, weights: &[f32]) -> Batch {
        held.map_or(Batch::default(), |held| {
            self.plan.network.evaluate(weights, held.view(), held.labels(), &mut Tape::default())
        })
    }

    /// Returns this peer's words for `scores`.
    fn scores(&self, history: &History) -> Result<Bytes, FedavgError> {
        let (plan, slot) = (&self.plan, self.plan.last());
        let mut words = vec![0; words::FIGURES + 1];
        if plan.trains(slot, history).contains(&self.me) && self.data.rows() > 0 {
            let share = plan.share(self.own(), plan.carried(slot, history)?.rows)?;
            let Prepared { train: rows, held, .. } = self.prepared(history)?;
            let weights = plan.weights(slot, history)?;
            let seen = plan.network.evaluate(&weights, rows.view(), rows.labels(), &mut Tape::default());
            let figures = figures_of(seen, self.test(held.as_ref(), &weights));
            for (word, number) in words.iter_mut().zip(figures.numbers()) {
                *word = mean_word(number.min(15.0), share, || "the loss".into())?;
            }
            words[words::FIGURES] = share;
        }
        Ok(words.into_iter().flat_map(u32::to_le_bytes).collect())
    }

    /// Returns this peer's vector for a slot. `found` has all labels for a round if labels were found in
    /// addition to the given ones.
    pub(super) fn vector(
        &self,
        slot: u32,
        history: &History,
        found: Option<&LabelledRows>,
    ) -> Result<Bytes, FedavgError> {
        let session = &self.plan.session;
        if slot == self.plan.rows() {
            return Ok(Bytes::copy_from_slice(&self.own().to_le_bytes()));
        }
        if let Some(round) = self.plan.round(slot) {
            holders::refuse_uncounted(
                session,
                HOLDERS,
                &self.data.class_counts(self.data.classes().len()),
                history.vectors(),
            )
            .map_err(FedavgError::Data)?;
            return self.train(slot, round, history, found);
        }
        match slot {
            HOLDERS => self.holders(history),
            slot if slot == self.plan.last() => self.scores(history),
            slot if slot == self.plan.predictions() => {
                Ok(self.predictions(slot, history)?.into_iter().flat_map(u64::to_le_bytes).collect())
            }
            _ => {
                let others = self.others.as_ref().map_or(&[][..], Dataset::values);
                let values = [self.data.values(), others].concat();
                let rows = Borrowed::new(self.data.features(), &values);
                let rows = rows.map_err(|error| FedavgError::Data(error.to_string()))?;
                let sums = self.plan.opens_moments().unwrap_or(ColumnSums::Means);
                Ok(Wide::bytes(&sums.of(rows)).into())
            }
        }
    }

    /// Returns whether this peer's vector for a slot uses its rows. `learns` is true if the peer has rows to
    /// train on.
    pub(super) fn rows_in(&self, slot: u32, history: &History, learns: bool) -> RowUse {
        match slot {
            HOLDERS if self.plan.noise.is_none() && !self.has_labels() => RowUse::LeftOut(UNLABELLED),
            slot if slot < self.plan.first() => RowUse::Included,
            slot if self.plan.sums_predictions(slot, history) => self.rows_in_predictions(slot, history),
            slot if !self.plan.trains(slot, history).contains(&self.me) => {
                RowUse::LeftOut("this peer did not train")
            }
            _ if !learns => RowUse::LeftOut(UNLABELLED),
            _ => RowUse::Included,
        }
    }

    /// Checks an opened round against the values that all peers knew before it.
    fn check_round(&self, slot: u32, round: u32, history: &History) -> Result<(), FedavgError> {
        let layout = self.plan.layout();
        let opened = self.plan.opened(slot, "the round", history)?;
        let share = if self.plan.closes(slot, history) { 0..=0 } else { 1..=ONE };
        if !share.contains(&layout.share(opened)) {
            return Err(WordsError::Opened("share").into());
        }
        let carried = layout.carried(opened, history.members(slot).len(), round as usize)?;
        // A peer that was away may lack the vector of the round before.
        let known = slot == self.plan.first() || history.vector(slot - 1).is_some();
        if known && carried != self.plan.carried(slot, history)? {
            return Err(WordsError::Opened("history").into());
        }
        Ok(())
    }
}

/// Returns the figures of the training rows and of the held-out rows.
fn figures_of(seen: Batch, held: Batch) -> Figures {
    let part = |batch: Batch| {
        let rows = batch.rows.max(1) as f64;
        (batch.loss / rows, batch.right as f64 / rows)
    };
    let ((loss, accuracy), (held_loss, held_accuracy)) = (part(seen), part(held));
    Figures { loss, accuracy, held_loss, held_accuracy }
}

impl Task for Fedavg {
    fn plan(&self) -> Vec<Aggregate> {
        self.plan.aggregates()
    }

    fn contribution(&self, slot: u32, history: &History) -> Result<Bytes, String> {
        self.vector(slot, history, None).map_err(|error| error.to_string())
    }

    fn noisy_contribution(&self, slot: u32, history: &History, rng: &mut Rng) -> Result<Bytes, String> {
        self.noisy(slot, history, rng).map_err(|error| error.to_string())
    }

    fn allows(&self, slot: u32, history: &History, members: &[Peer]) -> Result<(), String> {
        if self.plan.noise.is_none() {
            holders::allows(&self.plan.session, slot, history, members)?;
        }
        if slot < self.plan.first() {
            return Ok(());
        }
        let trains = self.plan.trains(slot, history);
        let present = trains.iter().filter(|peer| members.contains(peer)).count();
        if present < self.plan.fewest() {
            let fewest = self.plan.fewest();
            return Err(format!("only {present} of the members that train are present, {fewest} are needed"));
        }
        if self.plan.sums_predictions(slot, history) {
            let scored = (HOLDERS, self.plan.scored(slot, history));
            return holders::allows_scored(&self.plan.session, scored, history, members);
        }
        Ok(())
    }

    fn check(&self, slot: u32, history: &History) -> Result<(), String> {
        let checked = match self.plan.round(slot) {
            Some(round) => self.check_round(slot, round, history),
            None if slot == HOLDERS && self.plan.noise.is_none() => {
                holders::enough(&self.plan.session, HOLDERS, history.vectors(), 0).map_err(FedavgError::Data)
            }
            None => Ok(()),
        };
        checked.map_err(|error| error.to_string())
    }

    /// Keeps the vector of a round until the next round is committed, and the vector of the last round to the
    /// end.
    fn needed_by_plan(&self, slot: u32, committed: u32) -> bool {
        self.plan.round(slot).is_none_or(|_| slot + 1 >= committed.min(self.plan.last()))
    }

    /// If the session has a `patience`, also keeps the vector of the round whose weights are the best so far.
    fn still_needed(&self, slot: u32, history: &History) -> bool {
        self.needed_by_plan(slot, history.committed()) || self.plan.may_be_result(slot, history)
    }

    fn ends(&self, history: &History) -> bool {
        self.plan.ends(history)
    }

    fn metrics(&self, slot: u32, history: &History) -> Map<String, Value> {
        let Some(opened) = history.vector(slot).filter(|_| self.plan.round(slot).is_some()) else {
            return Map::new();
        };
        let round = slot - self.plan.first();
        if let Some(kept) = self.kept.as_ref().filter(|_| !self.plan.closes(slot, history))
            && let Ok(file) =
                self.plan.made(round + 1, history).and_then(|made| self.plan.file(made, history))
        {
            kept.write(round + 1, file);
        }
        if self.plan.noise.is_some() {
            return Map::new();
        }
        let mut figures = match self.plan.closes(slot, history) {
            true => Map::new(),
            false => self.plan.named(self.plan.layout().figures(opened)),
        };
        if let Some(judged) = self.plan.judged(history) {
            figures.extend(self.plan.told(&judged));
        }
        figures
    }

    /// The rounds and `scores` use the labelled rows of the peers that train. The other slots use all rows.
    fn row_use(&self, slot: u32, history: &History) -> RowUse {
        self.rows_in(slot, history, self.has_labels())
    }

    fn learnt_rows(&self, history: &History) -> Option<Vec<usize>> {
        let trains = |slot| {
            history.members(slot).contains(&self.me) && self.row_use(slot, history) == RowUse::Included
        };
        let rounds = (self.plan.first()..self.plan.last()).filter(|&slot| !self.plan.closes(slot, history));
        let trained = rounds.into_iter().any(trains);
        if trained { self.trained_on(history) } else { Some(Vec::new()) }
    }

    fn outcome(&self, history: &History, _unix: u64) -> Result<Outcome, String> {
        let make = || -> Result<Outcome, FedavgError> {
            if self.plan.spec.is_own() {
                return self.own_outcome(history);
            }
            let classifier = self.plan.classifier(history)?;
            let judged = self.plan.judged(history).ok_or(FedavgError::Closed("the last round"))?;
            let result = self.plan.result(&judged);
            if let Some(noise) = &self.plan.noise {
                let members = history.members(self.plan.last() - 1).len();
                let told = format!(
                    "epsilon {}, delta {:?}: no accuracy is reported",
                    noise.epsilon,
                    noise.delta.to_f64()
                );
                let outcome = Outcome::new(classifier.encode(), classifier.digest()).with_summary(told);
                return Ok(Outcome { details: self.told_of_noise(members), ..outcome });
            }
            let figures = judged.figures(result);
            let evaluated = self.evaluated(history)?;
            let headline = evaluated.figures.as_ref().map(|figures| figures.headline("held-out rows"));
            let mut summary = headline.unwrap_or_else(|| match self.plan.spec.held_out {
                0 => format!("accuracy {:.4} on the training rows", figures.accuracy),
                _ => format!("accuracy {:.4} on rows that were held out", figures.held_accuracy),
            });
            if self.plan.spec.patience > 0 {
                let (made, all) = (judged.curve.len(), self.plan.spec.rounds);
                summary += &format!(", weights of round {result}; {made} of {all} rounds were made");
            }
            let rounds: Vec<_> = judged.curve.iter().map(|figures| self.plan.named(*figures)).collect();
            let mut details = self.plan.told(&judged);
            details.insert("rounds".into(), json!(rounds));
            details.insert("scores".into(), json!(self.plan.named(figures)));
            let outcome = Outcome::new(classifier.encode(), classifier.digest()).with_summary(summary);
            evaluated.extend(Outcome { details, ..outcome })
        };
        make().map_err(|error| error.to_string())
    }

    fn work(&self, slot: u32, history: &History) -> Work {
        let rows = self.rows() as f64;
        let spec = &self.plan.spec;
        // The work of a forward pass, and twice as much for the backward pass.
        let row = self.plan.network.work() as f64;
        let lift = match self.plan.round(slot) {
            Some(_) if self.plan.closes(slot, history) => row * rows,
            Some(_) if !self.plan.trains(slot, history).contains(&self.me) => 0.0,
            Some(_) if spec.steps > 0 => 3.0 * row * f64::from(spec.steps) * f64::from(spec.batch),
            Some(_) => 3.0 * row * rows * f64::from(spec.epochs),
            None if slot >= self.plan.last() => row * rows,
            None => rows * f64::from(self.plan.session.data.features),
        };
        Work { lift, ..Work::default() }
    }
}

#[cfg(test)]
mod tests;
