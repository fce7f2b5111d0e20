//! The parameters of the task `flynn` in a session file: the sizes of the model, and whether peers are
//! drawn first.

use std::any::Any;
use std::fmt::{self, Write};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::model::readout::Readout;
use crate::session::TaskSpec;
use crate::session::encoding::{Field, integer, number, text};
use crate::session::fields::field;
use crate::session::rules::{self, check_number};
use crate::session::{DataSpec, Score, Session, SessionError};
use crate::session::{Release, Sections, Spec};
use crate::tasks::{BuiltIn, Protection, Protections, TaskKind};
use crate::tasks::{EvaluateSpec, Setting, Size, Sizes, SketchSpec};

/// The parameters of a FlyNN model (paper, Algorithm 1). d is [`DataSpec::dimension`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ModelSpec {
    /// Number of rows of the lifting matrix, which is the number of bits of a hash. At least 1. The m x
    /// classes counts of 4 bytes may take at most 1 GiB.
    pub m: u32,
    /// Number of ones in each row of the matrix: 2 to d.
    pub s: u32,
    /// Number of ones in each hash: 1 to m.
    pub rho: u32,
    /// Decay, 0 <= gamma < 1. If the rows of a class have set a bit c times, the bit has weight gamma^c.
    pub gamma: f64,
    /// How a prediction uses the counts: the paper's score, or an extension of it.
    pub score: Score,
}

/// The parameters of the task `flynn`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FlynnSpec {
    /// The model.
    pub model: ModelSpec,
    /// Sketches for drawing the training peers by their distances (`select = "sketch"`), or `None` if all
    /// peers train.
    pub select: Option<SketchSpec>,
    /// Settings for rows that are held out to measure the quality of the model, or `None` if no rows are held
    /// out.
    pub evaluate: Option<EvaluateSpec>,
}

/// The section `[flynn]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    m: Size,
    s: Size,
    rho: Size,
    gamma: f64,
    #[serde(default)]
    score: Score,
}

impl ModelSpec {
    /// Returns the number of counts in the model: m x classes. At most 2^28.
    #[must_use]
    pub fn counts(&self, classes: usize) -> usize {
        self.m as usize * classes
    }

    /// Returns how a prediction reads the counts.
    #[must_use]
    pub fn readout(&self) -> Readout {
        Readout { score: self.score, gamma: self.gamma }
    }

    pub(crate) fn read(
        sections: &mut Sections<'_>,
        task: &'static str,
        data: &DataSpec,
    ) -> Result<Self, SessionError> {
        let Some(Raw { m, s, rho, gamma, score }) = sections.take("flynn")? else {
            return Err(SessionError::value("[flynn]", "missing", format!("given with the task {task}")));
        };
        Sizes { m, s, rho }.resolve(data, Readout { score, gamma })
    }

    /// Returns the setting of this model, with the session's own scaling.
    pub(crate) fn setting(&self, data: &DataSpec) -> Setting {
        let Self { m, s, rho, .. } = *self;
        Setting { scaling: data.scaling, densify: data.densify, m, s, rho }
    }

    pub(crate) fn check_gamma(&self) -> Result<(), SessionError> {
        check_number("flynn.gamma", self.gamma, (0.0..1.0).contains(&self.gamma), "from 0 to below 1")
    }

    pub(crate) fn entries(&self) -> Vec<Field> {
        vec![
            ("flynn.m", integer(self.m)),
            ("flynn.s", integer(self.s)),
            ("flynn.rho", integer(self.rho)),
            ("flynn.gamma", number(self.gamma)),
            ("flynn.score", text(self.score.name())),
        ]
    }

    pub(crate) fn write_toml(&self, data: &DataSpec, out: &mut String) -> fmt::Result {
        let Self { m, s, rho, gamma, score } = self;
        let d = data.dimension();
        writeln!(out, "[flynn]")?;
        writeln!(
            out,
            "# d = {d}: the features, times the soft bins; with densify padded to a power of two."
        )?;
        let about = "Bits of a hash: a number, or a multiple of d such as \"256d\". The counts need m x classes x \
                     4 bytes.";
        field(about, "m", m, out)?;
        field("Features that a bit looks at: 2 to d, or a multiple of d such as \"0.1d\".", "s", s, out)?;
        field("Bits set in a hash: 1 to m, or a multiple of m such as \"0.001m\".", "rho", rho, out)?;
        let about = "Decay of a bit's weight each time it is set: from 0 to below 1. Log scores add 1 - gamma to \
                     the counts.";
        field(about, "gamma", format_args!("{gamma:?}"), out)?;
        let about = "How a prediction reads the counts: \"decay\" (the paper's), \"balanced-decay\", \"log\" or \
                     \"balanced-log\".";
        field(about, "score", format_args!("\"{score}\"\n"), out)
    }

    pub(crate) fn json(&self, data: &DataSpec) -> Vec<(&'static str, Value)> {
        let counts = self.counts(data.classes.len());
        vec![("flynn", json!(self)), ("sizes", json!({"counts": counts, "counts_bytes": counts * 4}))]
    }

    pub(crate) fn lines(&self, data: &DataSpec) -> Vec<(&'static str, String)> {
        let Self { m, s, rho, gamma, score } = self;
        let counts = self.counts(data.classes.len());
        vec![
            ("flynn", format!("m = {m}, s = {s}, rho = {rho}, gamma = {gamma}, score {score}")),
            ("counts", format!("{counts} ({} bytes)", counts * 4)),
        ]
    }
}

impl From<ModelSpec> for TaskSpec {
    /// Makes the task `flynn` with all peers.
    fn from(model: ModelSpec) -> Self {
        FlynnSpec { model, select: None, evaluate: None }.into()
    }
}

impl FlynnSpec {
    /// Reads the parameters from their sections of the session file. `data` describes the rows.
    pub(crate) fn read(
        sections: &mut Sections<'_>,
        data: &DataSpec,
        _peers: usize,
    ) -> Result<Self, SessionError> {
        let model = ModelSpec::read(sections, "flynn", data)?;
        let select = match sections.select.take() {
            Some(how) => Some(SketchSpec::read_section(sections, Some(how))?),
            None => None,
        };
        let evaluate = EvaluateSpec::read(sections, data)?;
        Ok(Self { model, select, evaluate })
    }
}

impl Spec for FlynnSpec {
    fn kind(&self) -> &'static TaskKind {
        &super::KIND
    }

    fn built_in(&self, session: &Session) -> Option<BuiltIn> {
        Some(super::built_in(session, *self))
    }

    fn about(&self) -> &'static str {
        "a nearest-neighbour-like classifier of the rows of all peers (FlyNN)"
    }

    fn normalise(&mut self) {
        self.model.gamma += 0.0;
    }

    fn check(&self, session: &Session) -> Result<(), SessionError> {
        rules::check_classes(&session.data)?;
        if let Some(sketch) = &self.select {
            sketch.check_select(session)?;
        }
        if let Some(evaluate) = &self.evaluate {
            evaluate.check(session, self.select.is_some())?;
        }
        self.model.setting(&session.data).check(session.data.features, session.data.classes.len())?;
        self.model.check_gamma()
    }

    fn protections(&self) -> Protections {
        match self.select {
            None => Protections::ALL,
            Some(_) => Protections {
                contributors: Protection::ByTask("counts the peers that were drawn"),
                ..Protections::ALL
            },
        }
    }

    fn resize(&mut self, peers: u16) {
        if let Some(select) = &mut self.select {
            select.active = select.active.min(peers);
        }
    }

    fn selects(&self) -> bool {
        self.select.is_some()
    }

    fn parts(&self) -> Vec<&dyn Any> {
        let sketch = self.select.iter().map(|sketch| sketch as &dyn Any);
        std::iter::once(&self.model as &dyn Any).chain(sketch).collect()
    }

    fn entries(&self) -> Vec<Field> {
        let sketch = self.select.iter().flat_map(Spec::entries);
        let evaluate = self.evaluate.iter().flat_map(EvaluateSpec::entries);
        self.model.entries().into_iter().chain(sketch).chain(evaluate).collect()
    }

    fn write_toml(&self, data: &DataSpec, out: &mut String) -> fmt::Result {
        self.model.write_toml(data, out)?;
        self.select.iter().try_for_each(|sketch| sketch.write_toml(data, out))?;
        self.evaluate.iter().try_for_each(|evaluate| evaluate.write_toml(data, out))
    }

    fn json(&self, data: &DataSpec) -> Vec<(&'static str, Value)> {
        let sketch = self.select.iter().flat_map(|sketch| sketch.json(data));
        let evaluate = self.evaluate.iter().map(|evaluate| ("evaluate", json!(evaluate)));
        self.model.json(data).into_iter().chain(sketch).chain(evaluate).collect()
    }

    fn lines(&self, data: &DataSpec) -> Vec<(&'static str, String)> {
        let sketch = self.select.iter().flat_map(|sketch| sketch.lines(data));
        let evaluate = self.evaluate.iter().map(|evaluate| ("evaluate", evaluate.line()));
        self.model.lines(data).into_iter().chain(sketch).chain(evaluate).collect()
    }

    fn release(&self, data: &DataSpec) -> Release {
        Release::Top(self.model.counts(data.classes.len()))
    }
}
