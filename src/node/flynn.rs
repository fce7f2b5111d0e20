//! The task `flynn`: one exact classifier from everybody's rows (Ram and Sinha, AAAI 2022, section 3 and Algorithm 2
//! without noise; spec, section "Task flynn").
//!
//! Slots: the coin, whose seed fixes the lifting matrix; `holders`, which peers have rows of which class; `moments` where the
//! scaling needs global means; `counts`, the class filters as counts. Counts add up, so the sum over the peers' counts is the
//! counts of the pooled rows, bit for bit (Theorem 4).

use std::sync::Arc;

use bytes::Bytes;

use super::Task;
use crate::data::Dataset;
use crate::model::bloom::{self, Counts};
use crate::model::readout::Readout;
use crate::model::{Model, ModelError};
use crate::protocol::context::Quantity;
use crate::protocol::record::Value;
use crate::session::{self, Peer, Session};
use crate::sketch::flyhash::FlyHash;
use crate::sketch::scaling::{self, Moments, Scaler, Scaling};
use crate::sketch::{Parameters, Sketch};

/// Slot of `holders`: word 0 counts members with rows, word 1 + l those with rows of class l.
pub const HOLDERS: u8 = 1;

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
        let scaling = match session.data.scaling {
            session::Scaling::None => Scaling::None,
            session::Scaling::UnitNorm => Scaling::UnitNorm,
            session::Scaling::Range { lo, hi } => Scaling::Range { lo: vec![lo], hi: vec![hi] },
            session::Scaling::Center => Scaling::Center,
            session::Scaling::Standard => Scaling::Standard,
            session::Scaling::SoftBins { bins } => Scaling::SoftBins(bins),
        };
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
        let quantity = |name: &str, word_bytes, words| Quantity { name: name.into(), word_bytes, words };
        let mut plan = vec![Quantity::coin(), quantity("holders", 4, 1 + classes)];
        if let Some(squares) = self.scaling.needs_moments() {
            plan.push(quantity("moments", 8, Moments::words(features, squares) as u64));
        }
        plan.push(quantity("counts", 4, classes * u64::from(flynn.m)));
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
        let features = self.session.data.features as usize;
        let moments = match (self.scaling.needs_moments(), moments) {
            (Some(_), Some(bytes)) => {
                let (words, _) = bytes.as_chunks::<8>();
                let words: Vec<_> = words.iter().map(|&word| u64::from_le_bytes(word)).collect();
                Some(Moments::from_words(&words, features)?)
            }
            _ => None,
        };
        Ok(Scaler::new(&self.scaling, features, moments.as_ref())?)
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
        let counts = Counts::from_le_bytes(counts, classes.len(), self.session.flynn.m as usize)
            .map_err(|error| FlynnError::Data(error.to_string()))?;
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
        let features = session.data.features as usize;
        if data.features() != features {
            return Err(FlynnError::Data(format!(
                "rows have {} features, the session says {features}",
                data.features()
            )));
        }
        if data.classes() != session.data.classes {
            return Err(FlynnError::Data("the classes of the rows are not those of the session".into()));
        }
        // No count of the sum can wrap: it is at most the rows of all peers.
        let most = u32::MAX as usize / session.roster.len();
        if data.rows() > most {
            let text = format!("{} rows, with {} peers at most {most} each", data.rows(), session.roster.len());
            return Err(FlynnError::Data(text));
        }
        if data.rows() > 0 && data.labels().is_empty() {
            return Err(FlynnError::Data("the rows have no labels".into()));
        }
        let rules = Rules::new(session);
        Ok(Self { rules, data })
    }

    fn vector(&self, name: &str, opened: &[Bytes]) -> Result<Bytes, FlynnError> {
        let classes = self.rules.session.data.classes.len();
        Ok(match name {
            "holders" => {
                let counts = self.data.class_counts(classes);
                let held = std::iter::once(self.data.rows() as u64).chain(counts);
                held.flat_map(|rows| u32::from(rows > 0).to_le_bytes()).collect()
            }
            "moments" => words(&scaling::moments(&self.data, self.rules.scaling.needs_moments() == Some(true))).into(),
            _ => {
                let seed = opened.first().and_then(seed).ok_or(FlynnError::Incomplete(0, 1))?;
                self.refuse_uncounted(opened)?;
                let hash = FlyHash::new(&self.rules.sketch(seed)?);
                let moments = opened.get(usize::from(HOLDERS) + 1).map(|bytes| &bytes[..]);
                let scaler = self.rules.scaler(moments)?;
                bloom::fit(&hash, &scaler, &self.data, classes)?.to_le_bytes().into()
            }
        })
    }

    /// A peer that came after the holders were counted may not bring a class that nobody had: it would be its only holder.
    fn refuse_uncounted(&self, opened: &[Bytes]) -> Result<(), FlynnError> {
        let Some(holders) = opened.get(usize::from(HOLDERS)) else { return Ok(()) };
        let (words, _) = holders.as_chunks::<4>();
        let names = &self.rules.session.data.classes;
        let own = self.data.class_counts(names.len());
        match names
            .iter()
            .zip(own)
            .zip(words.iter().skip(1))
            .find(|((_, own), counted)| *own > 0 && **counted == [0; 4])
        {
            Some(((class, _), _)) => Err(FlynnError::Data(format!(
                "nobody had rows of class {class} when the session counted who holds what"
            ))),
            None => Ok(()),
        }
    }

    /// Class names with fewer holders than allowed, given that `lost` of those counted may be gone.
    fn too_few_holders(&self, opened: &[Bytes], lost: usize) -> Result<(), String> {
        let minimum = usize::from(self.rules.session.privacy.min_holders);
        let Some(holders) = opened.get(usize::from(HOLDERS)) else { return Ok(()) };
        let (words, _) = holders.as_chunks::<4>();
        let names = std::iter::once("rows".to_owned())
            .chain(self.rules.session.data.classes.iter().map(|class| format!("rows of class {class}")));
        for (name, &word) in names.zip(words) {
            let counted = u32::from_le_bytes(word) as usize;
            // A class that nobody has is nobody's secret.
            let absent = counted == 0 && name != "rows";
            if !absent && counted.saturating_sub(lost) < minimum {
                let gone = if lost > 0 { format!(", and {lost} of those counted are gone") } else { String::new() };
                return Err(format!("only {counted} members have {name}{gone}; privacy.min_holders is {minimum}"));
            }
        }
        Ok(())
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

    fn allows(&self, slot: u8, values: &[Value], opened: &[Bytes], members: &[Peer]) -> Result<(), String> {
        let Some(counted) = values.get(usize::from(HOLDERS)).filter(|_| slot > HOLDERS) else { return Ok(()) };
        let lost = counted.members.iter().filter(|peer| !members.contains(peer)).count();
        self.too_few_holders(opened, lost)
    }

    fn check(&self, slot: u8, opened: &[Bytes]) -> Result<(), String> {
        if slot == HOLDERS { self.too_few_holders(opened, 0) } else { Ok(()) }
    }
}

fn seed(bytes: &Bytes) -> Option<[u8; 32]> {
    bytes[..].try_into().ok()
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}
