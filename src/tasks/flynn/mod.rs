//! The task `flynn`: one exact classifier from the rows of all peers (Ram and Sinha, AAAI 2022, section
//! 3 and Algorithm 2; spec, section "Task flynn").
//!
//! Slots, in order:
//! * the coin; its seed determines the lifting matrix;
//! * `holders`: the peers that have rows of each class;
//! * `moments`, if the scaling needs global means;
//! * `counts`: the counts of all classes, which are the model.
//!
//! Counts add up: the sum of the peers' counts equals the counts of the pooled rows, bit for bit
//! (Theorem 4).
//!
//! With `[evaluate]`, three slots come before `counts` (see the module `evaluate`):
//! * `learnt`: the counts of the rows that are not held out;
//! * `calibration`: it determines how confident predictions may be;
//! * `scores`: how well the counts of `learnt` predict the held-out rows.
//!
//! With `select`, the slots of the task `sketch` up to the draw replace the coin and `moments`. Then come
//! `holders` and `counts`. The peers that were not drawn add zeros to them.
//!
//! With `privacy.epsilon` the slots are the coin and `counts`. In this case the counts are the output of
//! [`Mechanism::draw`](crate::privacy::mechanism::Mechanism::draw) (Algorithm 2 with noise; docs/privacy.md).

mod compare;
pub(crate) mod evaluate;
mod file;
mod forecast;
mod kind;
pub(crate) mod new;
pub(crate) mod size;
pub(crate) mod spec;

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use flyswarm_data::prepare::TableSchema;

use super::common::columns;
use super::common::evaluation::Evaluation;
use super::common::holders::{self, HOLDERS};
use super::sketch::{self, SketchTask};
use super::{History, Outcome, RowUse, Task, Work};
use crate::crypto::mask::{self, Wide};
use crate::crypto::stream::PROTOCOL;
use crate::data::Dataset;
use crate::data::split::Split;
use crate::model::bloom::{self, Counts};
use crate::model::origin::Origin;
use crate::model::readout::Readout;
use crate::model::selection::Draw;
use crate::model::{Model, ModelError};
use crate::protocol::context::{Aggregate, Kind as Summed, SMALLEST_SUM};
use crate::protocol::view::Rng;
use crate::session::{NoiseMode, Peer, Session};
use crate::sketch::flyhash::FlyHash;
use crate::sketch::{Parameters, Sketch};
use crate::tasks::{EvaluateSpec, FlynnSpec, ModelSpec};
use flyswarm_data::scaling::{self, ColumnSums, Scaler, Scaling};
use flyswarm_learn::model::calibration::Losses;
pub use kind::KIND;
pub(crate) use kind::built_in;

/// The task of one peer.
#[derive(Debug)]
pub struct Flynn {
    plan: Plan,
    me: Peer,
    data: Arc<Dataset>,
    /// This peer's task in the slots up to the draw, if peers are drawn.
    selection: Option<SketchTask>,
    /// Split of this peer's rows into training and held-out rows. It is set when the seed has been opened.
    split: OnceLock<Split>,
    /// Evaluation on this peer's held-out rows. It is set when it has been computed.
    own: OnceLock<Evaluation>,
}

/// Plan of a session. It follows from the session file alone.
#[derive(Clone, Debug)]
pub struct Plan {
    session: Session,
    model: ModelSpec,
    scaling: Scaling,
    /// Plan of the slots up to the draw, if peers are drawn.
    selection: Option<sketch::Plan>,
    evaluate: Option<EvaluateSpec>,
    /// Preparation of a table into rows, if the session describes one.
    preparation: Option<Arc<TableSchema>>,
}

/// Reason why a task or a model cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum FlynnError {
    /// The rows do not fit the session.
    #[error("{0}")]
    Data(String),
    /// The opened sums do not form a valid model.
    #[error("the sums do not form a valid model: {0}")]
    Model(#[from] ModelError),
    /// The session's parameters do not form a valid sketch.
    #[error("{0}")]
    Parameters(#[from] crate::sketch::ParameterError),
    /// The opened moments are invalid.
    #[error("the opened moments: {0}")]
    Moments(#[from] scaling::ScalingError),
    /// Peers cannot be drawn.
    #[error(transparent)]
    Selection(#[from] sketch::TaskError),
    /// The number of opened vectors is less than the number of slots in the plan.
    #[error("{0} opened vectors, the plan has {1}")]
    Incomplete(usize, usize),
}

impl Plan {
    /// Makes the plan of a session of the task `flynn` with these parameters.
    #[must_use]
    pub fn new(session: Session, FlynnSpec { model, select, evaluate }: FlynnSpec) -> Self {
        let scaling = session.data.scaling.of_rows();
        let selection = select.map(|sketch| sketch::Plan::new(session.clone(), sketch));
        let preparation = session.data.preparation.clone();
        Self { session, model, scaling, selection, evaluate, preparation }
    }

    /// Returns the session.
    #[must_use]
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Returns which sums over the columns the session opens.
    fn opens_moments(&self) -> Option<ColumnSums> {
        self.session.data.opens_moments(self.scaling.needs_moments())
    }

    /// Returns the slot of `holders`.
    fn holders(&self) -> u32 {
        let before = self.selection.as_ref().map(|selection| selection.aggregates().len());
        before.and_then(|slots| u32::try_from(slots).ok()).unwrap_or(HOLDERS)
    }

    /// Returns the peers whose rows are used for training, drawn with the opened scores and the second coin;
    /// `None` if all peers train.
    pub fn drawn(&self, opened: &[Bytes]) -> Result<Option<Draw>, FlynnError> {
        Ok(self.selection.as_ref().map(|selection| selection.draw(opened)).transpose()?.flatten())
    }

    /// Returns how the counts are to be read.
    #[must_use]
    pub fn readout(&self) -> Readout {
        self.model.readout()
    }

    /// Returns the aggregates of the session.
    #[must_use]
    pub fn aggregates(&self) -> Vec<Aggregate> {
        let data = &self.session.data;
        let classes = data.classes.len();
        let reveals = match self.selection {
            Some(_) => {
                "the model: counts of hashes over the rows of the drawn peers; the fewer peers, the more \
                 it reveals about each"
            }
            None => {
                "the model: counts of hashes over all rows. With three members, each can compute the sum \
                 of the two others"
            }
        };
        let words = self.model.counts(classes) as u64;
        let counts = Aggregate::exact("counts", 4, words, "the model", reveals);
        if let Some(noise) = self.session.privacy.noise {
            // A session with noise opens no exact sums, because the holders of the classes and the means
            // would need a part of the budget.
            let kind = if noise.mode == NoiseMode::Central { Summed::Noised } else { Summed::Released };
            return vec![Aggregate::coin(), Aggregate { kind, ..counts }];
        }
        let holders = holders::aggregate(classes);
        if let Some(selection) = &self.selection {
            return [selection.aggregates(), vec![holders, counts]].concat();
        }
        let mut plan = vec![Aggregate::coin(), holders];
        if self.evaluate.is_some() {
            plan[1].words += classes as u64 + 1;
        }
        if let Some(sums) = self.opens_moments() {
            plan.push(columns::aggregate(data.features, sums));
        }
        if self.evaluate.is_some() {
            let reveals = "counts of all rows that were not held out, under a second matrix: reveals \
                           more about rows that few others resemble";
            let is = "a model without the held-out rows";
            plan.push(Aggregate { name: evaluate::LEARNT.into(), is, reveals, ..counts.clone() });
            let reveals = "the number of held-out rows, and how well probabilities of different \
                           confidence fit these rows (sums over at least ten rows)";
            let (is, words) = ("calibration of the probabilities", Losses::WORDS as u64);
            plan.push(Aggregate::exact(evaluate::CALIBRATION, 8, words, is, reveals));
            let reveals = "the confusion matrix of the held-out rows, in which a small number reveals \
                           that a member has such a row; calibration and ranking of the predictions, \
                           over at least 10 rows of each peer";
            let words = Evaluation::length(classes) as u64;
            plan.push(Aggregate::exact(evaluate::SCORES, 8, words, "quality of the model", reveals));
        }
        plan.push(counts);
        plan
    }

    /// Returns the opened vector of the aggregate with this name.
    fn opened<'a>(&self, name: &str, opened: &'a [Bytes]) -> Option<&'a Bytes> {
        let slot = self.aggregates().iter().position(|aggregate| aggregate.name == name)?;
        opened.get(slot)
    }

    /// Returns the sketch that the opened seed determines.
    pub fn sketch(&self, seed: [u8; 32]) -> Result<Sketch, FlynnError> {
        let (data, model) = (&self.session.data, &self.model);
        let parameters = Parameters {
            d: data.features as usize,
            m: model.m as usize,
            s: model.s as usize,
            rho: model.rho as usize,
            seed,
            densify: data.densify,
            scaling: self.scaling.clone(),
        };
        Ok(parameters.check(data.classes.len())?)
    }

    /// Makes the scaler. `moments` are the opened moments, if the scaling needs them.
    pub fn scaler(&self, moments: Option<&[u8]>) -> Result<Scaler, FlynnError> {
        Ok(Scaler::opened(&self.scaling, self.session.data.features as usize, moments)?)
    }

    /// Makes the scaler from the opened vectors.
    fn opened_scaler(&self, opened: &[Bytes]) -> Result<Scaler, FlynnError> {
        self.scaler(self.opened("moments", opened).map(|bytes| &bytes[..]))
    }

    /// Makes the model from the opened vectors of the whole plan.
    pub fn model(&self, opened: &[Bytes]) -> Result<Model, FlynnError> {
        let slots = self.aggregates().len();
        let (Some(seed), Some(counts)) = (opened.first().and_then(seed), opened.get(slots - 1)) else {
            return Err(FlynnError::Incomplete(opened.len(), slots));
        };
        let sketch = self.sketch(seed)?;
        let scaler = self.opened_scaler(opened)?;
        let classes = self.session.data.classes.clone();
        let mut counts = Counts::from_le_bytes(counts, classes.len(), self.model.m as usize)
            .map_err(|error| FlynnError::Data(error.to_string()))?;
        if let Some(noise) = self.session.privacy.noise {
            let read = noise.mechanism(&self.session, self.model.rho).read(counts.values());
            counts = Counts::from_values(read, classes.len(), self.model.m as usize)
                .map_err(|error| FlynnError::Data(error.to_string()))?;
        }
        let model = Model::new(sketch, self.readout(), classes, scaler, counts)?;
        self.named(model.with_calibration(self.calibration(opened)))
    }

    /// Adds the session's description of the columns to the model.
    fn named(&self, model: Model) -> Result<Model, FlynnError> {
        Ok(match &self.preparation {
            Some(preparation) => model.with_preparation(preparation.clone())?,
            None => model.with_columns(self.session.data.columns.clone())?,
        })
    }

    /// Returns the origin of a model that is written at `unix`, in seconds since 1970.
    fn origin(&self, history: &History, draw: Option<&Draw>, unix: u64) -> Origin {
        let session = &self.session;
        let members = history.values().last().map_or(&[][..], |value| &value.members);
        // A peer that was not drawn is a member too, but has added only zeros.
        let counted = |peer: &&Peer| draw.is_none_or(|draw| draw.chosen.contains(&peer.index()));
        Origin {
            session: session.name.clone(),
            id: session.id().0,
            members: members.iter().filter(counted).map(|&peer| session.name(peer).to_owned()).collect(),
            roster: u16::try_from(session.roster.len()).unwrap_or(u16::MAX),
            noised: session.privacy.noise.is_some(),
            protocol: PROTOCOL.into(),
            program: concat!("flyswarm ", env!("CARGO_PKG_VERSION")).into(),
            unix,
        }
    }

    /// Makes the model from rows in one place, with a given seed. The session must arrive at the same model.
    pub fn pooled(&self, data: &Dataset, seed: [u8; 32]) -> Result<Model, FlynnError> {
        self.scaled(data, seed, Scaler::fit(&self.scaling, data)?)
    }

    /// Makes the model from the drawn peers' rows in one place, with the opened seed and moments. The session
    /// must arrive at the same model.
    pub fn pooled_under(&self, data: &Dataset, opened: &[Bytes]) -> Result<Model, FlynnError> {
        let seed = opened.first().and_then(seed).ok_or(FlynnError::Incomplete(opened.len(), 1))?;
        self.scaled(data, seed, self.opened_scaler(opened)?)
    }

    /// Makes the model from rows in one place, with a given seed and scaler.
    pub fn scaled(&self, data: &Dataset, seed: [u8; 32], scaler: Scaler) -> Result<Model, FlynnError> {
        let sketch = self.sketch(seed)?;
        let classes = self.session.data.classes.clone();
        let counts = bloom::fit(&FlyHash::new(&sketch), &scaler, data, classes.len())?;
        self.named(Model::new(sketch, self.readout(), classes, scaler, counts)?)
    }
}

impl Flynn {
    /// Makes a peer with these rows, which may be empty. Only this peer may know `secret`. If peers are
    /// drawn, this peer's part of the second coin follows from it.
    pub fn new(
        session: Session,
        spec: FlynnSpec,
        me: Peer,
        data: Arc<Dataset>,
        secret: &[u8; 32],
    ) -> Result<Self, FlynnError> {
        holders::fits(&session, &data).map_err(FlynnError::Data)?;
        if session.privacy.noise.is_some_and(|noise| noise.mode == NoiseMode::Central) {
            holders::fits_ring(&session, &data, mask::noised_capacity).map_err(FlynnError::Data)?;
        }
        let part = |sketch| SketchTask::new(session.clone(), sketch, me, data.clone(), secret);
        let selection = spec.select.map(part).transpose()?;
        Ok(Self {
            plan: Plan::new(session, spec),
            me,
            data,
            selection,
            split: OnceLock::new(),
            own: OnceLock::new(),
        })
    }

    /// Sets the description of how the rows were made from a table, if it differs from that of the session.
    fn prepared(mut self, preparation: Option<Arc<TableSchema>>) -> Self {
        self.plan.preparation = preparation.or(self.plan.preparation);
        self
    }

    /// Returns whether this peer's rows are used for training.
    fn takes_part(&self, opened: &[Bytes]) -> Result<bool, FlynnError> {
        Ok(self.plan.drawn(opened)?.is_none_or(|draw| draw.chosen.contains(&self.me.index())))
    }

    /// Returns this peer's task in the slots up to the draw, if `slot` is one of them.
    fn before(&self, slot: u32) -> Option<&SketchTask> {
        self.selection.as_ref().filter(|_| slot < self.plan.holders())
    }

    /// Checks that enough of the drawn peers are present for a sum of their rows.
    fn enough_drawn(&self, drawn: usize) -> Result<(), String> {
        if drawn < SMALLEST_SUM {
            return Err(format!(
                "only {drawn} of the drawn peers are present; a sum of their rows needs {SMALLEST_SUM}"
            ));
        }
        Ok(())
    }

    fn vector(&self, name: &str, opened: &[Bytes]) -> Result<Bytes, FlynnError> {
        Ok(match name {
            "holders" => self.holders(opened)?,
            "moments" => {
                Wide::bytes(&self.plan.opens_moments().map_or_else(Vec::new, |sums| sums.of(&self.data)))
                    .into()
            }
            _ => {
                let holders = self.plan.holders();
                holders::refuse_uncounted(
                    &self.plan.session,
                    holders,
                    &self.data.class_counts(self.data.classes().len()),
                    opened,
                )
                .map_err(FlynnError::Data)?;
                match name {
                    evaluate::LEARNT => self.learnt(opened)?,
                    evaluate::CALIBRATION => words(self.losses(opened)?.words()).into(),
                    evaluate::SCORES => self.own(opened)?.to_bytes(),
                    _ => self.counts(opened)?.to_le_bytes().into(),
                }
            }
        })
    }

    /// Returns the exact counts of this peer's rows.
    fn counts(&self, opened: &[Bytes]) -> Result<Counts, FlynnError> {
        let seed = opened.first().and_then(seed).ok_or(FlynnError::Incomplete(0, 1))?;
        let hash = FlyHash::new(&self.plan.sketch(seed)?);
        let scaler = self.plan.opened_scaler(opened)?;
        let classes = self.plan.session.data.classes.len();
        match self.plan.evaluate {
            Some(spec) if !spec.learn_all => Ok(bloom::fit(&hash, &scaler, &self.parts(opened)?.0, classes)?),
            _ => Ok(bloom::fit(&hash, &scaler, &self.data, classes)?),
        }
    }
}

impl Task for Flynn {
    fn plan(&self) -> Vec<Aggregate> {
        self.plan.aggregates()
    }

    fn contribution(&self, slot: u32, history: &History) -> Result<Bytes, String> {
        if let Some(selection) = self.before(slot) {
            return selection.contribution(slot, history);
        }
        let aggregate = super::aggregate_of(self, slot)?;
        let vector = self.takes_part(history.vectors()).and_then(|takes_part| match takes_part {
            true => self.vector(&aggregate.name, history.vectors()),
            false => Ok(vec![0; aggregate.len()].into()),
        });
        vector.map_err(|error| error.to_string())
    }

    fn noisy_contribution(&self, _slot: u32, history: &History, rng: &mut Rng) -> Result<Bytes, String> {
        let session = &self.plan.session;
        let noise = session.privacy.noise.ok_or("the session has no noise")?;
        let counts = self.counts(history.vectors()).map_err(|error| error.to_string())?;
        let words = noise.mechanism(session, self.plan.model.rho).draw(counts.values(), rng);
        Ok(words.into_iter().flat_map(u32::to_le_bytes).collect())
    }

    fn row_use(&self, slot: u32, history: &History) -> RowUse {
        if let Some(selection) = self.before(slot) {
            return selection.row_use(slot, history);
        }
        let opened = history.vectors();
        let parts =
            || self.parts(opened).map_or((true, true), |(kept, held)| (kept.rows() > 0, held.rows() > 0));
        let learns_all = self.plan.evaluate.is_none_or(|spec| spec.learn_all);
        match self.plan.aggregates().get(slot as usize).map(|aggregate| &*aggregate.name) {
            _ if !self.takes_part(opened).unwrap_or(true) => RowUse::LeftOut("this peer was not drawn"),
            Some(evaluate::SCORES) if !self.scores_rows(opened) => {
                RowUse::LeftOut("none of its rows is held out and scored")
            }
            // All peers add zeros.
            Some(evaluate::CALIBRATION) if !self.plan.calibrates(opened) => RowUse::NotUsed,
            Some(evaluate::CALIBRATION) if !parts().1 => RowUse::LeftOut("none of its rows is held out"),
            Some(evaluate::LEARNT) if !parts().0 => RowUse::LeftOut("all of its rows are held out"),
            Some("counts") if !learns_all && !parts().0 => RowUse::LeftOut("all of its rows are held out"),
            _ => RowUse::Included,
        }
    }

    fn learnt_rows(&self, history: &History) -> Option<Vec<usize>> {
        let counts = self.plan.aggregates().len() as u32 - 1;
        let counted =
            history.members(counts).contains(&self.me) && self.row_use(counts, history) == RowUse::Included;
        Some(match self.plan.evaluate {
            _ if !counted => Vec::new(),
            Some(spec) if !spec.learn_all => self.split(history.vectors()).ok()?.train.clone(),
            _ => (0..self.data.rows()).collect(),
        })
    }

    fn outcome(&self, history: &History, unix: u64) -> Result<Outcome, String> {
        let opened = history.vectors();
        let model = self.plan.model(opened).map_err(|error| error.to_string())?;
        let draw = self.plan.drawn(opened).map_err(|error| error.to_string())?;
        let model = model.with_origin(self.plan.origin(history, draw.as_ref(), unix));
        let outcome = self.with_evaluation(Outcome::new(model.encode(), model.digest()), opened, &model)?;
        let session = &self.plan.session;
        let Some(draw) = draw else { return Ok(outcome) };
        Ok(Outcome {
            summary: format!("trained on {}", sketch::names(session, &draw.chosen).join(", ")),
            details: sketch::selection(session, &draw),
            ..outcome
        })
    }

    fn work(&self, slot: u32, history: &History) -> Work {
        if let Some(selection) = self.before(slot) {
            return selection.work(slot, history);
        }
        let (rows, d) = (self.data.rows() as f64, self.plan.session.data.dimension());
        let plan = self.plan();
        match plan.get(slot as usize).map(|aggregate| &*aggregate.name) {
            Some("moments") => Work { lift: rows * f64::from(d), ..Work::default() },
            Some(evaluate::LEARNT | evaluate::CALIBRATION | evaluate::SCORES) => {
                self.work_of_evaluation(rows)
            }
            Some("counts") if self.takes_part(history.vectors()).unwrap_or(true) => {
                let flynn = self.plan.model;
                Work::training(f64::from(flynn.m), f64::from(flynn.s), rows)
            }
            _ => Work::default(),
        }
    }

    fn allows(&self, slot: u32, history: &History, members: &[Peer]) -> Result<(), String> {
        if self.plan.session.privacy.noise.is_some() {
            return Ok(());
        }
        if let Some(selection) = self.before(slot) {
            return selection.allows(slot, history, members);
        }
        let Some(draw) = self.plan.drawn(history.vectors()).map_err(|error| error.to_string())? else {
            holders::allows(&self.plan.session, slot, history, members)?;
            return self.plan.allows_held_out(slot, history, members);
        };
        let drawn = |peer: &&Peer| draw.chosen.contains(&peer.index());
        self.enough_drawn(members.iter().filter(drawn).count())?;
        // A peer that was not drawn has contributed only zeros, so it does not matter if the peer is lost.
        let at = self.plan.holders();
        let counted = history.members(at);
        let lost = counted.iter().filter(drawn).filter(|peer| !members.contains(peer)).count();
        holders::enough(&self.plan.session, at, history.vectors(), lost)
    }

    fn check(&self, slot: u32, history: &History) -> Result<(), String> {
        let holders = self.plan.holders();
        if let Some(selection) = self.before(slot) {
            selection.check(slot, history)?;
            if slot == HOLDERS {
                // This is checked before sketches are made, because training needs at least this number of
                // drawn peers.
                let word = history.vector(slot).and_then(|word| word[..].try_into().ok());
                let present = u32::from_le_bytes(word.unwrap_or_default());
                if (present as usize) < SMALLEST_SUM {
                    return Err(format!(
                        "only {present} members have rows; at least {SMALLEST_SUM} are to be drawn"
                    ));
                }
            }
            if slot + 1 < holders {
                return Ok(());
            }
            let draw = self.plan.drawn(history.vectors()).map_err(|error| error.to_string())?;
            return self.enough_drawn(draw.map_or(0, |draw| draw.chosen.len()));
        }
        let counted = slot == holders && self.plan.session.privacy.noise.is_none();
        if counted { holders::enough(&self.plan.session, holders, history.vectors(), 0) } else { Ok(()) }
    }
}

fn seed(bytes: &Bytes) -> Option<[u8; 32]> {
    bytes[..].try_into().ok()
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[cfg(test)]
mod tests;
