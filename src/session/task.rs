//! The task of a session: one file for each, with its parameters, their limits, its sections of the session
//! file, its canonical encoding and its description.
//!
//! A new task needs its own file with a [`Spec`], and here a variant of [`TaskSpec`] and of [`Name`], an arm
//! of `dispatch!` and of [`TaskSpec::read`], and the type of its section in [`Sections`].

mod custom;
mod flynn;
mod sketch;
mod tune;
mod xclp;

use std::fmt;

use serde::Deserialize;
use serde_json::Value;

use super::encoding::Field;
use super::rules::{Limit, ROSTER};
use super::{DataSpec, Session, SessionError};

pub use custom::CustomSpec;
pub use flynn::{FlynnSpec, ModelSpec};
pub use sketch::{Select, SketchSpec};
pub use tune::{Setting, TuneSpec};
pub use xclp::XclpSpec;

/// What a session computes, with the task's parameters.
#[derive(Debug, Clone, PartialEq)]
pub enum TaskSpec {
    /// FlyNNFL (Ram and Sinha, "Federated Nearest Neighbor Classification with a Colony of Fruit-Flies", AAAI
    /// 2022).
    Flynn(FlynnSpec),
    /// Cross-validation of settings of FlyNN over the rows of all peers.
    Tune(TuneSpec),
    /// Label propagation over the points of all peers (Scott, Yeo & Lampert, "Cross-client Label
    /// Propagation", TMLR 2023).
    Xclp(XclpSpec),
    /// The distance of each peer's data from the data of all (Liu, Xu, Coleman & Shrivastava, "One-Pass
    /// Distribution Sketch for Measuring Data Heterogeneity in Federated Learning", NeurIPS 2023).
    Sketch(SketchSpec),
    /// A task that a program outside this crate brings along.
    Custom(CustomSpec),
}

/// What the file of a task supplies.
pub(super) trait Spec {
    /// The value of `task` in a session file.
    fn name(&self) -> &'static str;

    /// What is computed: the comment above `task` in a session file.
    fn about(&self) -> &'static str;

    /// How many peers a session has.
    fn roster(&self) -> Limit {
        ROSTER
    }

    /// The fewest members with whom the task can finish, and how this and the majority are explained where
    /// `min_peers` is refused.
    fn members(&self) -> (usize, &'static str) {
        (3, " (a majority of the roster, and the 3 members that a sum needs)")
    }

    /// Replaces -0.0 by 0.0: the two are equal but have different encodings.
    fn normalise(&mut self) {}

    /// Checks the parameters, and that the rest of the session suits the task. `session.data` is checked.
    fn check(&self, session: &Session) -> Result<(), SessionError>;

    /// Names and canonical values of the fields, in the order of the encoding.
    fn entries(&self) -> Vec<Field>;

    /// Writes the sections of the session file.
    fn write_toml(&self, data: &DataSpec, out: &mut String) -> fmt::Result;

    /// The sections as JSON, by name, with the sizes that follow from them.
    fn json(&self, data: &DataSpec) -> Vec<(&'static str, Value)>;

    /// The description for people: pairs of a heading (empty to continue the last one) and one line.
    fn lines(&self, data: &DataSpec) -> Vec<(&'static str, String)>;

    /// What a peer releases with noise where the session has a `privacy.epsilon`.
    fn release(&self, _data: &DataSpec) -> Release {
        Release::Nothing
    }
}

/// What a peer of a private session releases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Release {
    /// Nothing: the task opens exact sums, and its session cannot be private.
    Nothing,
    /// The `privacy.top` largest of so many counts.
    Top(usize),
    /// Every counter.
    Every,
}

/// The value of `task` in a session file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Name {
    Flynn,
    Tune,
    Xclp,
    Sketch,
    Custom,
}

/// The parts of a session file that belong to single tasks; [`TaskSpec::read`] takes those of its task.
pub(super) struct Sections {
    pub(super) select: Option<Select>,
    pub(super) flynn: Option<flynn::Raw>,
    pub(super) tune: Option<tune::Raw>,
    pub(super) xclp: Option<xclp::Raw>,
    pub(super) sketch: Option<sketch::Raw>,
    pub(super) custom: Option<custom::Raw>,
}

pub(super) use custom::Raw as RawCustom;
pub(super) use flynn::Raw as RawFlynn;
pub(super) use sketch::Raw as RawSketch;
pub(super) use tune::Raw as RawTune;
pub(super) use xclp::Raw as RawXclp;

/// The expression with the parameters of the task under this name.
macro_rules! dispatch {
    ($task:expr, $spec:ident => $what:expr) => {
        match $task {
            TaskSpec::Flynn($spec) => $what,
            TaskSpec::Tune($spec) => $what,
            TaskSpec::Xclp($spec) => $what,
            TaskSpec::Sketch($spec) => $what,
            TaskSpec::Custom($spec) => $what,
        }
    };
}

impl TaskSpec {
    /// Reads the task of this name from its sections, for rows as in `data` and so many peers. A section of
    /// another task is refused. The rest of the rules is left to [`Session::check`].
    pub(super) fn read(
        name: Name,
        mut sections: Sections,
        data: &DataSpec,
        peers: usize,
    ) -> Result<Self, SessionError> {
        let task = match name {
            Name::Flynn => Self::Flynn(FlynnSpec::read(&mut sections, data, peers)?),
            Name::Tune => Self::Tune(TuneSpec::read(&mut sections, data)?),
            Name::Xclp => Self::Xclp(XclpSpec::read(&mut sections)?),
            Name::Sketch => Self::Sketch(SketchSpec::read(&mut sections, peers)?),
            Name::Custom => Self::Custom(CustomSpec::read(&mut sections)?),
        };
        let Sections { select, flynn, tune, xclp, sketch, custom } = sections;
        let left = [
            (flynn.is_some(), "flynn or tune where there is a [flynn]"),
            (select.is_some(), "flynn where there is a select"),
            (xclp.is_some(), "xclp where there is an [xclp]"),
            (sketch.is_some(), "sketch where there is a [sketch], or flynn with select = \"sketch\""),
            (tune.is_some(), "tune where there is a [tune]"),
            (custom.is_some(), "custom where there is a [custom]"),
        ];
        match left.into_iter().find(|(given, _)| *given) {
            Some((_, limit)) => Err(SessionError::value("task", task.name(), limit)),
            None => Ok(task),
        }
    }

    fn spec(&self) -> &dyn Spec {
        dispatch!(self, spec => spec)
    }

    pub(super) fn normalise(&mut self) {
        dispatch!(self, spec => spec.normalise());
    }

    pub(super) fn check(&self, session: &Session) -> Result<(), SessionError> {
        self.spec().check(session)
    }

    pub(super) fn entries(&self) -> Vec<Field> {
        self.spec().entries()
    }

    pub(super) fn about(&self) -> &'static str {
        self.spec().about()
    }

    pub(super) fn write_toml(&self, data: &DataSpec, out: &mut String) -> fmt::Result {
        self.spec().write_toml(data, out)
    }

    pub(super) fn release(&self, data: &DataSpec) -> Release {
        self.spec().release(data)
    }

    pub(super) fn roster(&self) -> Limit {
        self.spec().roster()
    }

    pub(super) fn members(&self) -> (usize, &'static str) {
        self.spec().members()
    }

    /// The members of the smallest view of so many peers that can finish: a majority, and at least the 3
    /// members of a sum.
    #[must_use]
    pub fn smallest_view(&self, roster: usize) -> usize {
        self.members().0.max(roster / 2 + 1)
    }

    /// The value of `task` in a session file: `flynn`, `tune`, `xclp`, `sketch` or `custom`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.spec().name()
    }

    /// The task's sections of the session file as JSON, by name, and the sizes that follow from them.
    pub(crate) fn json(&self, data: &DataSpec) -> Vec<(&'static str, Value)> {
        self.spec().json(data)
    }

    /// The task's parameters for people: pairs of a heading (empty to continue the last one) and one line.
    pub(crate) fn lines(&self, data: &DataSpec) -> Vec<(&'static str, String)> {
        self.spec().lines(data)
    }

    /// The parameters of the FlyNN models that the task trains; `None` where it trains none.
    #[must_use]
    pub fn model(&self) -> Option<&ModelSpec> {
        match self {
            Self::Flynn(FlynnSpec { model, .. }) | Self::Tune(TuneSpec { model, .. }) => Some(model),
            Self::Xclp(_) | Self::Sketch(_) | Self::Custom(_) => None,
        }
    }

    /// As [`TaskSpec::model`], to change them.
    pub fn model_mut(&mut self) -> Option<&mut ModelSpec> {
        match self {
            Self::Flynn(FlynnSpec { model, .. }) | Self::Tune(TuneSpec { model, .. }) => Some(model),
            Self::Xclp(_) | Self::Sketch(_) | Self::Custom(_) => None,
        }
    }

    /// The parameters of the sketches that the task makes of the peers' rows; `None` where it makes none.
    #[must_use]
    pub fn sketch(&self) -> Option<&SketchSpec> {
        match self {
            Self::Sketch(sketch) => Some(sketch),
            Self::Flynn(flynn) => flynn.select.as_ref(),
            Self::Tune(_) | Self::Xclp(_) | Self::Custom(_) => None,
        }
    }
}

impl fmt::Display for TaskSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
