//! The task `flynn`: one exact classifier from everybody's rows (Ram and Sinha, AAAI 2022, section 3 and Algorithm 2;
//! spec, section "Task flynn").
//!
//! Slots: the coin, whose seed fixes the lifting matrix; `holders`, which peers have rows of which class; `moments` where the
//! scaling needs global means; `counts`, the class filters as counts. Counts add up, so the sum over the peers' counts is the
//! counts of the pooled rows, bit for bit (Theorem 4).
//!
//! With `privacy.epsilon` the slots are the coin and `counts`, which holds what [`Mechanism::draw`](crate::privacy::mechanism::Mechanism::draw) makes of
//! them (Algorithm 2 with noise; docs/privacy.md).

use std::sync::Arc;

use bytes::Bytes;

use super::Task;
use super::holders::{self, HOLDERS};
use crate::data::Dataset;
use crate::model::bloom::{self, Counts};
use crate::model::readout::Readout;
use crate::model::{Model, ModelError};
use crate::protocol::context::{Kind, Quantity};
use crate::protocol::record::Value;
use crate::protocol::view::Rng;
use crate::session::{NoiseMode, Peer, Session};
use crate::sketch::flyhash::FlyHash;
use crate::sketch::scaling::{self, Moments, Scaler, Scaling};
use crate::sketch::{Parameters, Sketch};

/// One peer's part.
#[derive(Debug)]
pub struct Flynn {
    rules: Rules,
    data: Arc<Dataset>,
}

/// What follows from the session file alone.
#[derive(Clone, Debug)]
pub struct Rules {
    session: Session,
    scaling: Scaling,
}

/// Why there is no task or no model.
#[derive(Debug, thiserror::Error)]
pub enum FlynnError {
    /// The rows do not fit the session.
    #[error("{0}")]
    Data(String),
    /// The opened sums do not make a model.
    #[error("the opened sums make no model: {0}")]
    Model(#[from] ModelError),
    /// The session's parameters make no sketch.
    #[error("{0}")]
    Parameters(#[from] crate::sketch::ParameterError),
    /// The opened moments are no moments.
    #[error("the opened moments: {0}")]
    Moments(#[from] scaling::ScalingError),
    /// There are fewer opened vectors than the plan has slots.
    #[error("{0} opened vectors, the plan has {1}")]
    Incomplete(usize, usize),
}

impl Rules {
    /// Of a session of task `flynn`.
    #[must_use]
    pub fn new(session: Session) -> Self {
        let scaling = session.data.scaling.of_rows();
        Self { session, scaling }
    }

    /// What the counts will mean.
    #[must_use]
    pub fn readout(&self) -> Readout {
        Readout { score: self.session.flynn.score, gamma: self.session.flynn.gamma }
    }

    /// The quantities of the session.
    #[must_use]
    pub fn plan(&self) -> Vec<Quantity> {
        let (data, flynn) = (&self.session.data, &self.session.flynn);
        let classes = data.classes.len() as u64;
        let features = data.features as usize;
        let counts = Quantity::exact("counts", 4, classes * u64::from(flynn.m));
        if let Some(noise) = self.session.privacy.noise {
            // No exact sum beside the noisy one: who has which class, and means, would have to be paid for.
            let kind = if noise.mode == NoiseMode::Central { Kind::Noised } else { Kind::Released };
            return vec![Quantity::coin(), Quantity { kind, ..counts }];
        }
        let mut plan = vec![Quantity::coin(), holders::quantity(&self.session)];
        if let Some(squares) = self.scaling.needs_moments() {
            plan.push(Quantity::exact("moments", 8, Moments::words(features, squares) as u64));
        }
        plan.push(counts);
        plan
    }

    /// The sketch that the opened seed fixes.
    pub fn sketch(&self, seed: [u8; 32]) -> Result<Sketch, FlynnError> {
        let (data, flynn) = (&self.session.data, &self.session.flynn);
        let parameters = Parameters {
            d: data.features as usize,
            m: flynn.m as usize,
            s: flynn.s as usize,
            rho: flynn.rho as usize,
            seed,
            densify: data.densify,
            scaling: self.scaling.clone(),
        };
        Ok(parameters.check(data.classes.len())?)
    }

    /// The scaler from the opened moments, if the scaling has any.
    pub fn scaler(&self, moments: Option<&[u8]>) -> Result<Scaler, FlynnError> {
        Ok(Scaler::opened(&self.scaling, self.session.data.features as usize, moments)?)
    }

    /// The model that the opened vectors of the whole plan make.
    pub fn model(&self, opened: &[Bytes]) -> Result<Model, FlynnError> {
        let slots = self.plan().len();
        let (Some(seed), Some(counts)) = (opened.first().and_then(seed), opened.get(slots - 1)) else {
            return Err(FlynnError::Incomplete(opened.len(), slots));
        };
        let sketch = self.sketch(seed)?;
        let scaler = self.scaler(opened.get(usize::from(HOLDERS) + 1).map(|bytes| &bytes[..]))?;
        let classes = self.session.data.classes.clone();
        let mut counts = Counts::from_le_bytes(counts, classes.len(), self.session.flynn.m as usize)
            .map_err(|error| FlynnError::Data(error.to_string()))?;
        if let Some(noise) = self.session.privacy.noise {
            let read = noise.mechanism(&self.session).read(counts.values());
            counts = Counts::from_values(read, classes.len(), self.session.flynn.m as usize)
                .map_err(|error| FlynnError::Data(error.to_string()))?;
        }
        Ok(Model::new(sketch, self.readout(), classes, scaler, counts)?)
    }

    /// The same model from rows in one place, under a given seed: what all peers together must arrive at.
    pub fn pooled(&self, data: &Dataset, seed: [u8; 32]) -> Result<Model, FlynnError> {
        let sketch = self.sketch(seed)?;
        let scaler = Scaler::fit(&self.scaling, data)?;
        let classes = self.session.data.classes.clone();
        let counts = bloom::fit(&FlyHash::new(&sketch), &scaler, data, classes.len())?;
        Ok(Model::new(sketch, self.readout(), classes, scaler, counts)?)
    }
}

impl Flynn {
    /// A peer with these rows, which may be none.
    pub fn new(session: Session, data: Arc<Dataset>) -> Result<Self, FlynnError> {
        holders::fits(&session, &data).map_err(FlynnError::Data)?;
        // Noisy totals are read as signed, and noise needs room beside the counts.
        let most = (1 << 30) / session.roster.len();
        let central = session.privacy.noise.is_some_and(|noise| noise.mode == NoiseMode::Central);
        if central && data.rows() > most {
            return Err(FlynnError::Data(format!("{} rows, with noise in shares at most {most} each", data.rows())));
        }
        let rules = Rules::new(session);
        Ok(Self { rules, data })
    }

    fn vector(&self, name: &str, opened: &[Bytes]) -> Result<Bytes, FlynnError> {
        Ok(match name {
            "holders" => holders::vector(&self.rules.session, &self.data),
            "moments" => words(&scaling::moments(&self.data, self.rules.scaling.needs_moments() == Some(true))).into(),
            _ => {
                holders::refuse_uncounted(&self.rules.session, &self.data, opened).map_err(FlynnError::Data)?;
                self.counts(opened)?.to_le_bytes().into()
            }
        })
    }

    /// Of this peer's rows, exactly.
    fn counts(&self, opened: &[Bytes]) -> Result<Counts, FlynnError> {
        let seed = opened.first().and_then(seed).ok_or(FlynnError::Incomplete(0, 1))?;
        let hash = FlyHash::new(&self.rules.sketch(seed)?);
        let scaler = self.rules.scaler(opened.get(usize::from(HOLDERS) + 1).map(|bytes| &bytes[..]))?;
        Ok(bloom::fit(&hash, &scaler, &self.data, self.rules.session.data.classes.len())?)
    }
}

impl Task for Flynn {
    fn plan(&self) -> Vec<Quantity> {
        self.rules.plan()
    }

    fn contribution(&self, slot: u8, opened: &[Bytes]) -> Result<Bytes, String> {
        let plan = self.plan();
        let quantity = plan.get(usize::from(slot)).ok_or("no such slot")?;
        self.vector(&quantity.name, opened).map_err(|error| error.to_string())
    }

    fn draw(&self, _slot: u8, opened: &[Bytes], rng: &mut Rng) -> Result<Bytes, String> {
        let session = &self.rules.session;
        let noise = session.privacy.noise.ok_or("the session has no noise")?;
        let counts = self.counts(opened).map_err(|error| error.to_string())?;
        let words = noise.mechanism(session).draw(counts.values(), rng);
        Ok(words.into_iter().flat_map(u32::to_le_bytes).collect())
    }

    fn allows(&self, slot: u8, values: &[Value], opened: &[Bytes], members: &[Peer]) -> Result<(), String> {
        if self.rules.session.privacy.noise.is_some() {
            return Ok(());
        }
        holders::allows(&self.rules.session, slot, values, opened, members)
    }

    fn check(&self, slot: u8, _values: &[Value], opened: &[Bytes]) -> Result<(), String> {
        let counted = slot == HOLDERS && self.rules.session.privacy.noise.is_none();
        if counted { holders::enough(&self.rules.session, opened, 0) } else { Ok(()) }
    }
}

fn seed(bytes: &Bytes) -> Option<[u8; 32]> {
    bytes[..].try_into().ok()
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}
