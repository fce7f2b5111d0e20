//! The task `fedavg`: a network that is trained in rounds (McMahan et al., "Communication-Efficient Learning
//! of Deep Networks from Decentralized Data", AISTATS 2017, without a server; spec, section "Task fedavg").
//!
//! Slots: the coin, whose seed fixes the first weights, the batches and who trains; `holders`, which peers
//! have rows of which class; `rows`, how many there are; `moments` where the scaling needs them; `round-1` to
//! `round-R`; `scores`, loss and accuracy of the last weights. In a round every member trains from the same
//! weights on its own rows. The sum of (n_m / n) w_m, divided by the sum of the shares n_m / n, is the next
//! weights: a mean over whoever was there.
//!
//! A peer may send a share only of rows that n counts, or shares might add up to more than 1. So n is that of
//! the slot with the most members so far (the last one of them), and a peer that was not there sends its rows
//! alone, once, and takes part from the next round on. Each round's vector has the rows of its members, and
//! carries on n and the figures of the rounds before: a peer that comes late needs the last one and no other.

pub(crate) mod trainer;
mod words;

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use flyswarm_kernels::data::prepare::Preparation;
use flyswarm_kernels::learner::{
    Batch, Classifier, ClassifierError, Network, Settings, Tape, clip_update, train,
};
use serde_json::{Map, Value, json};

use super::holders::{self, HOLDERS};
use super::{Build, BuiltIn, History, Labels, Outcome, Task, Work};
use crate::crypto::stream::Stream;
use crate::data::Dataset;
use crate::data::deal::shuffle;
use crate::data::split::train_test;
use crate::protocol::context::{Quantity, SMALLEST_SUM};
use crate::session::{FedavgSpec, Peer, Session, SessionError, Weighting};
use crate::sketch::scaling::{self, Moments, Scaler, Scaling, ScalingError};
use trainer::{Order, Trainer};
use words::{Carried, Figures, Layout, ONE, WordsError, mean, mean_word};

/// Slot of `rows`.
const ROWS: u32 = 2;
/// Members that are drawn beyond the fewest that a sum needs, where there are as many: one may be lost.
const RESERVE: usize = 1;

/// What follows from the session file alone.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    session: Session,
    spec: FedavgSpec,
    network: Network,
    scaling: Scaling,
    /// How a table becomes rows, where that is described.
    preparation: Option<Arc<Preparation>>,
}

/// One peer's part.
#[derive(Debug)]
pub(crate) struct Fedavg {
    plan: Plan,
    me: Peer,
    data: Arc<Dataset>,
    /// What trains; the built-in learner where nothing else does.
    trainer: Option<Arc<dyn Trainer>>,
    /// Its scaled rows, once the slots before the first round are frozen.
    prepared: OnceLock<Prepared>,
}

/// A peer's rows as the network takes them.
#[derive(Debug)]
struct Prepared {
    train: Dataset,
    held: Option<Dataset>,
}

/// Why there are no weights.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FedavgError {
    /// The rows do not fit the session.
    #[error("{0}")]
    Data(String),
    /// The opened moments are no moments.
    #[error("the opened moments: {0}")]
    Moments(#[from] ScalingError),
    /// A weight or a loss has left the range of the words, or the opened words are no members' sum.
    #[error(transparent)]
    Words(WordsError),
    /// The session's network does not fit its rows.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The peer's own trainer has failed.
    #[error("{0}")]
    Trainer(String),
    /// The weights make no model.
    #[error("{0}")]
    Classifier(#[from] ClassifierError),
    /// A slot that this depends on is not open.
    #[error("{0} is not open")]
    Closed(&'static str),
}

impl From<WordsError> for FedavgError {
    fn from(error: WordsError) -> Self {
        Self::Words(error)
    }
}

impl Plan {
    /// The plan of a session of the task `fedavg` with these parameters.
    ///
    /// # Errors
    /// [`FedavgError::Session`] where the session was not checked and its network does not fit.
    pub(crate) fn new(session: Session, spec: FedavgSpec) -> Result<Self, FedavgError> {
        let network = spec.build(&session.data)?;
        let (scaling, preparation) = (session.data.scaling.of_rows(), session.data.preparation.clone());
        Ok(Self { session, spec, network, scaling, preparation })
    }

    /// Whether moments are opened, and with squares.
    fn opens_moments(&self) -> Option<bool> {
        self.session.data.opens_moments(self.scaling.needs_moments())
    }

    fn layout(&self) -> Layout {
        Layout { weights: self.network.weights(), rounds: self.spec.rounds as usize }
    }

    /// Slot of the first round.
    fn first(&self) -> u32 {
        ROWS + 1 + u32::from(self.opens_moments().is_some())
    }

    /// Slot of `scores`.
    fn last(&self) -> u32 {
        self.first() + self.spec.rounds
    }

    /// The round of a slot, from 0.
    fn round(&self, slot: u32) -> Option<u32> {
        slot.checked_sub(self.first()).filter(|&round| round < self.spec.rounds)
    }

    /// The quantities of the session.
    #[must_use]
    pub(crate) fn quantities(&self) -> Vec<Quantity> {
        let data = &self.session.data;
        let mut plan =
            vec![Quantity::coin(), holders::quantity(data.classes.len()), Quantity::exact("rows", 4, 1)];
        if let Some(squares) = self.opens_moments() {
            let words = Moments::words(data.features as usize, squares) as u64;
            plan.push(Quantity::exact("moments", 8, words));
        }
        let words = self.layout().words() as u64;
        let round = |round| Quantity::exact(&format!("round-{round}"), 4, words);
        plan.extend((1..=self.spec.rounds).map(round));
        plan.push(Quantity::exact("scores", 4, words::FIGURES as u64 + 1));
        plan
    }

    /// The slot whose members' rows are the n of `slot`, a round or `scores`: of those before it the one with
    /// the most members, of equal ones the last. Moments count nobody.
    fn base(&self, slot: u32, history: &History) -> u32 {
        let rounds = (self.first()..slot).take_while(|&before| before < self.last());
        let (mut base, mut most) = (ROWS, history.members(ROWS).len());
        for slot in rounds {
            let members = history.members(slot).len();
            if members >= most {
                (base, most) = (slot, members);
            }
        }
        base
    }

    /// The peers that may train in `slot`: those whose rows n counts, or those of them that are drawn.
    ///
    /// The draw: the counted peers in the order of the roster are shuffled by Stream(seed, "fedavg/members",
    /// slot as u32 LE); the first K train, K = ceil(members x counted), at least one more than a sum needs.
    #[must_use]
    pub(crate) fn trains(&self, slot: u32, history: &History) -> Vec<Peer> {
        let mut counted = history.members(self.base(slot, history)).to_vec();
        let Some(seed) = history.seed().filter(|_| self.spec.members < 1.0 && slot < self.last()) else {
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

    /// Fewest members that may train in a round.
    fn fewest(&self) -> usize {
        SMALLEST_SUM.max(self.session.privacy.min_holders.into())
    }

    fn opened<'a>(
        &self,
        slot: u32,
        name: &'static str,
        history: &'a History,
    ) -> Result<&'a Bytes, FedavgError> {
        history.vector(slot).ok_or(FedavgError::Closed(name))
    }

    /// What the members carry on into `slot`, a round or `scores`.
    fn carried(&self, slot: u32, history: &History) -> Result<Carried, FedavgError> {
        let Some(before) = slot.checked_sub(1).filter(|&before| self.round(before).is_some()) else {
            let rows = self.opened(ROWS, "rows", history)?;
            let rows = rows[..].try_into().map(u32::from_le_bytes);
            return Ok(Carried { rows: rows.unwrap_or_default(), curve: Vec::new() });
        };
        let opened = self.opened(before, "the round before", history)?;
        let layout = self.layout();
        let round = (before - self.first()) as usize;
        let mut carried = layout.carried(opened, history.members(before).len(), round)?;
        carried.push(layout.figures(opened));
        if self.base(slot, history) == before {
            carried.rows = layout.rows(opened);
        }
        Ok(carried)
    }

    /// The weights from which the members train in `slot`, or that `scores` tests.
    pub(crate) fn weights(&self, slot: u32, history: &History) -> Result<Vec<f32>, FedavgError> {
        if slot <= self.first() {
            let seed = history.seed().ok_or(FedavgError::Closed("coin"))?;
            return Ok(self.network.initial(&seed));
        }
        Ok(self.layout().weights(self.opened(slot - 1, "the round before", history)?))
    }

    /// The scaler from what has been opened.
    fn scaler(&self, history: &History) -> Result<Scaler, FedavgError> {
        let moments = match self.scaling.needs_moments() {
            Some(_) => Some(&self.opened(ROWS + 1, "moments", history)?[..]),
            None => None,
        };
        Ok(Scaler::opened(&self.scaling, self.session.data.features as usize, moments)?)
    }

    /// How a member trains in a round, from 0.
    fn settings(&self, round: u32) -> Settings {
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

    /// What counts as a peer's n_m.
    fn counts(&self, rows: usize) -> u32 {
        match self.spec.weighting {
            Weighting::Rows => u32::try_from(rows).unwrap_or(u32::MAX),
            Weighting::Equal => 1,
        }
    }

    /// The share of a peer with n_m of n, rounded down.
    fn share(&self, own: u32, all: u32) -> Result<u32, FedavgError> {
        if own > all || all == 0 {
            let text = format!("this peer's {own} rows are more than the {all} that were counted");
            return Err(FedavgError::Data(text));
        }
        let share = u64::from(own) * u64::from(ONE) / u64::from(all);
        Ok(u32::try_from(share).unwrap_or(ONE))
    }

    /// The figures of every round, and those of the last weights.
    fn curve(&self, history: &History) -> Result<(Vec<Figures>, Figures), FedavgError> {
        let curve = self.carried(self.last(), history)?.curve;
        let words = self.opened(self.last(), "scores", history)?;
        let words: Vec<u32> = words.as_chunks::<4>().0.iter().map(|&word| u32::from_le_bytes(word)).collect();
        let [a, b, c, d, share] = words[..] else { return Err(FedavgError::Closed("scores")) };
        let [loss, accuracy, held_loss, held_accuracy] = [a, b, c, d].map(|word| mean(word, share));
        Ok((curve, Figures { loss, accuracy, held_loss, held_accuracy }))
    }

    /// Figures by name; those of rows that are held out where there are some.
    fn named(&self, figures: Figures) -> Map<String, Value> {
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

    /// The model of the whole plan.
    pub(crate) fn classifier(&self, history: &History) -> Result<Classifier, FedavgError> {
        self.with_weights(self.scaler(history)?, self.weights(self.last(), history)?)
    }

    fn with_weights(&self, scaler: Scaler, weights: Vec<f32>) -> Result<Classifier, FedavgError> {
        let data = &self.session.data;
        let session = (self.session.name.clone(), self.session.id().0);
        let (classes, columns) = (data.classes.clone(), data.columns.clone());
        let made = Classifier::new(self.network.architecture(), scaler, classes, columns, weights, session)?;
        Ok(match &self.preparation {
            Some(preparation) => made.with_preparation(preparation.clone())?,
            None => made,
        })
    }

    /// The same network trained on rows in one place, after each of as many rounds: what that of the peers is
    /// held against.
    pub(crate) fn in_one_place(
        &self,
        rows: &Dataset,
        seed: &[u8; 32],
    ) -> Result<Vec<Classifier>, FedavgError> {
        let scaler = Scaler::fit(&self.scaling, rows)?;
        let scaled = scaler.transform(rows);
        let mut weights = self.network.initial(seed);
        let round = |round: u32| {
            let mut stream = Stream::new(seed, "fedavg/in-one-place", &round.to_le_bytes());
            let (settings, labels) = (self.settings(round), scaled.labels());
            let trained = train(&self.network, &weights, scaled.view(), labels, None, &settings, &mut stream);
            weights = trained.weights;
            self.with_weights(scaler.clone(), weights.clone())
        };
        (0..self.spec.rounds).map(round).collect()
    }
}

/// The task with these parameters.
#[must_use]
pub(crate) fn built_in(session: &Session, spec: FedavgSpec) -> BuiltIn {
    BuiltIn {
        // A session that was checked has a network; an empty plan is refused by the engine.
        plan: Plan::new(session.clone(), spec.clone()).map_or(Vec::new(), |plan| plan.quantities()),
        result: "network",
        extension: "safetensors",
        labels: Labels::All,
        witnesses: false,
        build: build(spec, None),
    }
}

/// Makes a peer's task, which `trainer` trains for where there is one.
pub(crate) fn build(spec: FedavgSpec, trainer: Option<Arc<dyn Trainer>>) -> Build {
    Box::new(move |session, me, rows, _| {
        let task = Fedavg::new(session, spec.clone(), me, rows.data);
        let mut task = task.map_err(|error| error.to_string())?;
        task.trainer.clone_from(&trainer);
        task.plan.preparation = rows.preparation.or(task.plan.preparation);
        Ok(Arc::new(task))
    })
}

impl Fedavg {
    /// A peer with these rows.
    ///
    /// # Errors
    /// [`FedavgError::Data`] where the rows do not fit the session, or there are none.
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
        Ok(Self { plan: Plan::new(session, spec)?, me, data, trainer: None, prepared: OnceLock::new() })
    }

    fn prepared(&self, history: &History) -> Result<&Prepared, FedavgError> {
        if let Some(prepared) = self.prepared.get() {
            return Ok(prepared);
        }
        let rows = self.plan.scaler(history)?.transform(&self.data);
        let percent = self.plan.spec.held_out;
        let prepared = if percent == 0 {
            Prepared { train: rows, held: None }
        } else {
            let seed = history.seed().ok_or(FedavgError::Closed("coin"))?;
            // Over all rows at once: of small classes none would be held out.
            let split = train_test(&vec![0; rows.rows()], percent, &seed);
            if split.test.is_empty() || split.train.is_empty() {
                let text = format!("{} rows, too few to hold {percent} % out", rows.rows());
                return Err(FedavgError::Data(text));
            }
            Prepared { train: rows.subset(&split.train), held: Some(rows.subset(&split.test)) }
        };
        Ok(self.prepared.get_or_init(|| prepared))
    }

    /// What this peer's n_m is.
    fn own(&self) -> u32 {
        self.plan.counts(self.data.rows())
    }

    /// This peer's words for a round, from 0.
    fn train(&self, slot: u32, round: u32, history: &History) -> Result<Bytes, FedavgError> {
        let plan = &self.plan;
        let (layout, carried) = (plan.layout(), plan.carried(slot, history)?);
        if !plan.trains(slot, history).contains(&self.me) {
            return Ok(layout.write(None, 0, self.own(), &carried)?);
        }
        let share = plan.share(self.own(), carried.rows)?;
        let Prepared { train: rows, held } = self.prepared(history)?;
        let seed = history.seed().ok_or(FedavgError::Closed("coin"))?;
        let start = plan.weights(slot, history)?;
        let settings = plan.settings(round);
        let mut trained = match &self.trainer {
            Some(trainer) => {
                let (network, start, rounds) = (&plan.network, &start[..], plan.spec.rounds);
                let order = Order { network, round, rounds, start, rows, settings };
                trainer.train(&order).map_err(FedavgError::Trainer)?
            }
            None => {
                let place = [&self.me.0.to_le_bytes()[..], &slot.to_le_bytes()].concat();
                let mut stream = Stream::new(&seed, "fedavg/batches", &place);
                train(&plan.network, &start, rows.view(), rows.labels(), None, &settings, &mut stream)
            }
        };
        if plan.spec.clip > 0.0 {
            clip_update(&start, &mut trained.weights, plan.spec.clip);
        }
        let figures = self.figures_of(trained.seen, held.as_ref(), &start);
        Ok(layout.write(Some((&trained.weights, figures)), share, self.own(), &carried)?)
    }

    fn figures_of(&self, seen: Batch, held: Option<&Dataset>, weights: &[f32]) -> Figures {
        let part = |batch: Batch| {
            let rows = batch.rows.max(1) as f64;
            (batch.loss / rows, batch.right as f64 / rows)
        };
        let tested = held.map(|held| {
            self.plan.network.evaluate(weights, held.view(), held.labels(), &mut Tape::default())
        });
        let ((loss, accuracy), (held_loss, held_accuracy)) = (part(seen), part(tested.unwrap_or_default()));
        Figures { loss, accuracy, held_loss, held_accuracy }
    }

    /// This peer's words for `scores`.
    fn scores(&self, history: &History) -> Result<Bytes, FedavgError> {
        let (plan, slot) = (&self.plan, self.plan.last());
        let mut words = vec![0; words::FIGURES + 1];
        if plan.trains(slot, history).contains(&self.me) {
            let share = plan.share(self.own(), plan.carried(slot, history)?.rows)?;
            let Prepared { train: rows, held } = self.prepared(history)?;
            let weights = plan.weights(slot, history)?;
            let seen = plan.network.evaluate(&weights, rows.view(), rows.labels(), &mut Tape::default());
            let figures = self.figures_of(seen, held.as_ref(), &weights);
            for (word, number) in words.iter_mut().zip(figures.numbers()) {
                *word = mean_word(number.min(15.0), share, || "the loss".into())?;
            }
            words[words::FIGURES] = share;
        }
        Ok(words.into_iter().flat_map(u32::to_le_bytes).collect())
    }

    fn vector(&self, slot: u32, history: &History) -> Result<Bytes, FedavgError> {
        let session = &self.plan.session;
        if let Some(round) = self.plan.round(slot) {
            holders::refuse_uncounted(session, HOLDERS, &self.data, history.vectors())
                .map_err(FedavgError::Data)?;
            return self.train(slot, round, history);
        }
        match slot {
            HOLDERS => Ok(holders::vector(session.data.classes.len(), &self.data)),
            ROWS => Ok(Bytes::copy_from_slice(&self.own().to_le_bytes())),
            slot if slot == self.plan.last() => self.scores(history),
            _ => {
                let moments = scaling::moments(&self.data, self.plan.opens_moments() == Some(true));
                Ok(moments.iter().flat_map(|word| word.to_le_bytes()).collect())
            }
        }
    }

    /// Holds an opened round against what everybody knew before it.
    fn check_round(&self, slot: u32, round: u32, history: &History) -> Result<(), FedavgError> {
        let layout = self.plan.layout();
        let opened = self.plan.opened(slot, "the round", history)?;
        if !(1..=ONE).contains(&layout.share(opened)) {
            return Err(WordsError::Opened("share").into());
        }
        let carried = layout.carried(opened, history.members(slot).len(), round as usize)?;
        // Whoever comes back may not have the round before any more.
        let known = slot == self.plan.first() || history.vector(slot - 1).is_some();
        if known && carried != self.plan.carried(slot, history)? {
            return Err(WordsError::Opened("history").into());
        }
        Ok(())
    }
}

impl Task for Fedavg {
    fn plan(&self) -> Vec<Quantity> {
        self.plan.quantities()
    }

    fn contribution(&self, slot: u32, history: &History) -> Result<Bytes, String> {
        self.vector(slot, history).map_err(|error| error.to_string())
    }

    fn allows(&self, slot: u32, history: &History, members: &[Peer]) -> Result<(), String> {
        holders::allows(&self.plan.session, slot, history, members)?;
        if slot < self.plan.first() {
            return Ok(());
        }
        let trains = self.plan.trains(slot, history);
        let present = trains.iter().filter(|peer| members.contains(peer)).count();
        if present < self.plan.fewest() {
            let fewest = self.plan.fewest();
            return Err(format!("only {present} of the members that train are there, {fewest} are needed"));
        }
        Ok(())
    }

    fn check(&self, slot: u32, history: &History) -> Result<(), String> {
        let checked = match self.plan.round(slot) {
            Some(round) => self.check_round(slot, round, history),
            None if slot == HOLDERS => {
                holders::enough(&self.plan.session, HOLDERS, history.vectors(), 0).map_err(FedavgError::Data)
            }
            None => Ok(()),
        };
        checked.map_err(|error| error.to_string())
    }

    /// The last round, until the next is frozen; the last of all to the end.
    fn retains(&self, slot: u32, frozen: u32) -> bool {
        self.plan.round(slot).is_none_or(|_| slot + 1 >= frozen.min(self.plan.last()))
    }

    fn figures(&self, slot: u32, history: &History) -> Map<String, Value> {
        let Some(opened) = history.vector(slot).filter(|_| self.plan.round(slot).is_some()) else {
            return Map::new();
        };
        self.plan.named(self.plan.layout().figures(opened))
    }

    fn outcome(&self, history: &History, _unix: u64) -> Result<Outcome, String> {
        let make = || -> Result<Outcome, FedavgError> {
            let classifier = self.plan.classifier(history)?;
            let (curve, last) = self.plan.curve(history)?;
            let summary = match self.plan.spec.held_out {
                0 => format!("accuracy {:.4} on the rows of training", last.accuracy),
                _ => format!("accuracy {:.4} on rows that were held out", last.held_accuracy),
            };
            let rounds: Vec<_> = curve.into_iter().map(|figures| self.plan.named(figures)).collect();
            let mut details = Map::new();
            details.insert("rounds".into(), json!(rounds));
            details.insert("scores".into(), json!(self.plan.named(last)));
            let outcome = Outcome::new(classifier.encode(), classifier.digest()).with_summary(summary);
            Ok(Outcome { details, ..outcome })
        };
        make().map_err(|error| error.to_string())
    }

    fn work(&self, slot: u32, history: &History) -> Work {
        let rows = self.data.rows() as f64;
        let spec = &self.plan.spec;
        // Forward, and twice as much backward.
        let row = self.plan.network.work() as f64;
        let lift = match self.plan.round(slot) {
            Some(_) if !self.plan.trains(slot, history).contains(&self.me) => 0.0,
            Some(_) if spec.steps > 0 => 3.0 * row * f64::from(spec.steps) * f64::from(spec.batch),
            Some(_) => 3.0 * row * rows * f64::from(spec.epochs),
            None if slot == self.plan.last() => row * rows,
            None => rows * f64::from(self.plan.session.data.features),
        };
        Work { lift, ..Work::default() }
    }
}

#[cfg(test)]
mod tests;
