//! The task of a session: one file for each, with its parameters, their limits, its sections of the session
//! file, its canonical encoding and its description.
//!
//! A new task needs its own file with a [`Spec`], and a line in `tasks!`.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use super::encoding::Field;
use super::file::syntax;
use super::rules::{Limit, ROSTER};
use super::{DataSpec, Session, SessionError};

pub use crate::tasks::custom::CustomSpec;
pub use crate::tasks::fedavg::spec::{FedavgSpec, RoundNoise, Weighting};
pub(crate) use crate::tasks::fedavg::spec::{MOST_WEIGHT, WHOLE_SHARE};
pub use crate::tasks::fedavg_xclp::spec::FedavgXclpSpec;
pub use crate::tasks::flynn::evaluate::spec::EvaluateSpec;
pub use crate::tasks::flynn::spec::{FlynnSpec, ModelSpec};
pub use crate::tasks::sketch::spec::{Select, SketchSpec};
pub use crate::tasks::tune::spec::{Setting, TuneSpec};
pub use crate::tasks::xclp::spec::{Hamming, XclpSpec};

/// Declares [`TaskSpec`], the names of its variants in a session file, and what has an arm for each variant.
macro_rules! tasks {
    ($($(#[$about:meta])* $variant:ident($spec:ty) = $name:literal,)+) => {
        /// What a session computes, with the task's parameters.
        #[derive(Debug, Clone, PartialEq)]
        pub enum TaskSpec {
            $($(#[$about])* $variant($spec),)+
        }

        /// The value of `task` in a session file.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
        pub(crate) enum Name {
            $(#[serde(rename = $name)] $variant,)+
        }

        /// The sections of all tasks.
        fn sections() -> impl Iterator<Item = &'static Section> {
            [$(<$spec>::sections(),)+].into_iter().flatten()
        }

        impl TaskSpec {
            /// The value of `task` in a session file, such as `flynn`.
            #[must_use]
            pub fn name(&self) -> &'static str {
                match self {
                    $(Self::$variant(_) => $name,)+
                }
            }

            fn spec(&self) -> &dyn Spec {
                match self {
                    $(Self::$variant(spec) => spec,)+
                }
            }

            fn spec_mut(&mut self) -> &mut dyn Spec {
                match self {
                    $(Self::$variant(spec) => spec,)+
                }
            }

            fn read_spec(
                name: Name,
                sections: &mut Sections<'_>,
                data: &DataSpec,
                peers: usize,
            ) -> Result<Self, SessionError> {
                Ok(match name {
                    $(Name::$variant => Self::$variant(<$spec>::read(sections, data, peers)?),)+
                })
            }
        }
    };
}

tasks! {
    /// FlyNNFL (Ram and Sinha, "Federated Nearest Neighbor Classification with a Colony of Fruit-Flies", AAAI
    /// 2022).
    Flynn(FlynnSpec) = "flynn",
    /// Cross-validation of settings of FlyNN over the rows of all peers.
    Tune(TuneSpec) = "tune",
    /// Label propagation over the points of all peers (Scott, Yeo & Lampert, "Cross-client Label
    /// Propagation", TMLR 2023).
    Xclp(XclpSpec) = "xclp",
    /// The distance of each peer's data from the data of all (Liu, Xu, Coleman & Shrivastava, "One-Pass
    /// Distribution Sketch for Measuring Data Heterogeneity in Federated Learning", NeurIPS 2023).
    Sketch(SketchSpec) = "sketch",
    /// A network that is trained in rounds (McMahan et al., AISTATS 2017).
    Fedavg(FedavgSpec) = "fedavg",
    /// A network that is trained in rounds on labels that were given and labels that XCLP finds (Scott, Yeo &
    /// Lampert, TMLR 2023, Algorithm 2).
    FedavgXclp(FedavgXclpSpec) = "fedavg-xclp",
    /// A task that a program outside this crate brings along.
    Custom(CustomSpec) = "custom",
}

/// A table of the session file that belongs to single tasks.
pub(crate) struct Section {
    /// Its name at the top level of the file.
    pub(crate) name: &'static str,
    /// The tasks that read it, as the limit of an error says it.
    pub(crate) tasks: &'static str,
}

/// What the file of a task supplies.
pub(crate) trait Spec {
    /// The sections that belong to this task, unless an earlier one has them.
    fn sections() -> &'static [Section]
    where
        Self: Sized;

    /// Reads the parameters from their sections, for rows as in `data` and so many peers. Leaves the rules to
    /// [`Spec::check`], as far as it can.
    fn read(sections: &mut Sections<'_>, data: &DataSpec, peers: usize) -> Result<Self, SessionError>
    where
        Self: Sized;

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

    /// What the author of such a session file should know before others join.
    fn caution(&self) -> Option<&'static str> {
        None
    }

    /// What a peer releases with noise where the session has a `privacy.epsilon`.
    fn release(&self, _data: &DataSpec) -> Release {
        Release::Nothing
    }

    /// The parameters of the FlyNN models that the task trains.
    fn model(&self) -> Option<&ModelSpec> {
        None
    }

    /// As [`Spec::model`], to change them.
    fn model_mut(&mut self) -> Option<&mut ModelSpec> {
        None
    }

    /// The parameters of the propagation of labels.
    fn propagation(&self) -> Option<&XclpSpec> {
        None
    }

    /// The parameters of the sketches that the task makes of the peers' rows.
    fn sketch(&self) -> Option<&SketchSpec> {
        None
    }
}

/// What a peer of a private session releases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Release {
    /// Nothing: the task opens exact sums, and its session cannot be private.
    Nothing,
    /// The `privacy.top` largest of so many counts.
    Top(usize),
    /// Every counter.
    Every,
    /// Every weight in every round, in shares.
    Rounds,
}

/// The parts of a session file that belong to single tasks, until they are read.
pub(crate) struct Sections<'a> {
    /// The whole file, for the line of an error.
    text: &'a str,
    /// The top-level field `select`.
    pub(crate) select: Option<Select>,
    left: Vec<(&'static str, Spanned<DeValue<'a>>)>,
}

impl<'a> Sections<'a> {
    /// Takes them out of the rest of a file with this text.
    pub(crate) fn split(text: &'a str, file: &mut DeTable<'a>) -> Self {
        let take = |section: &'static Section| {
            let key = Spanned::new(0..0, Cow::Borrowed(section.name));
            file.remove(&key).map(|value| (section.name, value))
        };
        Self { text, select: None, left: sections().filter_map(take).collect() }
    }

    /// Adds the sections to an error that lists the fields of a file, after `data`.
    pub(crate) fn listed(error: SessionError) -> SessionError {
        let SessionError::Syntax { line, message } = error else { return error };
        let names: String = sections().map(|section| format!("`{}`, ", section.name)).collect();
        let message = message.replace("`columns`, `privacy`", &format!("`columns`, {names}`privacy`"));
        SessionError::Syntax { line, message }
    }

    /// Reads one section; `None` where the file has none.
    pub(crate) fn take<T: DeserializeOwned>(&mut self, name: &str) -> Result<Option<T>, SessionError> {
        let Some(place) = self.left.iter().position(|(section, _)| *section == name) else { return Ok(None) };
        let (_, value) = self.left.remove(place);
        let read =
            T::deserialize(ValueDeserializer::from(value)).map_err(|error| syntax(self.text, &error))?;
        Ok(Some(read))
    }
}

/// Reads a table with the fields of a section.
pub(crate) fn fields<T: DeserializeOwned>(table: toml::Table) -> Result<T, SessionError> {
    table.try_into().map_err(|error: toml::de::Error| SessionError::Syntax {
        line: 1,
        message: error.message().split_whitespace().collect::<Vec<_>>().join(" "),
    })
}

/// The fields of a section, as [`Spec::write_toml`] writes them.
pub(crate) fn section(spec: &impl Spec, name: &str, data: &DataSpec) -> toml::Table {
    let mut text = String::new();
    let written = spec.write_toml(data, &mut text).ok().and_then(|()| text.parse::<toml::Table>().ok());
    match written.and_then(|mut file| file.remove(name)) {
        Some(toml::Value::Table(table)) => table,
        _ => unreachable!("BUG: a [{name}] that no session file could have"),
    }
}

impl TaskSpec {
    /// Reads the task of this name from its sections, for rows as in `data` and so many peers. A section of
    /// another task is refused. The rest of the rules is left to [`Session::check`].
    pub(crate) fn read(
        name: Name,
        mut sections: Sections<'_>,
        data: &DataSpec,
        peers: usize,
    ) -> Result<Self, SessionError> {
        let task = Self::read_spec(name, &mut sections, data, peers)?;
        let left = |section: &&Section| sections.left.iter().any(|(name, _)| *name == section.name);
        if let Some(section) = self::sections().find(left) {
            return Err(SessionError::value("task", task.name(), section.tasks));
        }
        if sections.select.is_some() {
            return Err(SessionError::value("task", task.name(), "flynn where there is a select"));
        }
        Ok(task)
    }

    pub(crate) fn normalise(&mut self) {
        self.spec_mut().normalise();
    }

    pub(crate) fn check(&self, session: &Session) -> Result<(), SessionError> {
        self.spec().check(session)
    }

    pub(crate) fn entries(&self) -> Vec<Field> {
        self.spec().entries()
    }

    pub(crate) fn about(&self) -> &'static str {
        self.spec().about()
    }

    pub(crate) fn write_toml(&self, data: &DataSpec, out: &mut String) -> fmt::Result {
        self.spec().write_toml(data, out)
    }

    pub(crate) fn release(&self, data: &DataSpec) -> Release {
        self.spec().release(data)
    }

    pub(crate) fn roster(&self) -> Limit {
        self.spec().roster()
    }

    pub(crate) fn members(&self) -> (usize, &'static str) {
        self.spec().members()
    }

    /// The members of the smallest view of so many peers that can finish: a majority, and at least the 3
    /// members of a sum.
    #[must_use]
    pub fn smallest_view(&self, roster: usize) -> usize {
        self.members().0.max(roster / 2 + 1)
    }

    /// The task's sections of the session file as JSON, by name, and the sizes that follow from them.
    pub(crate) fn json(&self, data: &DataSpec) -> Vec<(&'static str, Value)> {
        self.spec().json(data)
    }

    /// The task's parameters for people: pairs of a heading (empty to continue the last one) and one line.
    pub(crate) fn lines(&self, data: &DataSpec) -> Vec<(&'static str, String)> {
        self.spec().lines(data)
    }

    /// What the author of such a session file should know before others join.
    pub(crate) fn caution(&self) -> Option<&'static str> {
        self.spec().caution()
    }

    /// The parameters of the FlyNN models that the task trains; `None` where it trains none.
    #[must_use]
    pub fn model(&self) -> Option<&ModelSpec> {
        self.spec().model()
    }

    /// As [`TaskSpec::model`], to change them.
    pub fn model_mut(&mut self) -> Option<&mut ModelSpec> {
        self.spec_mut().model_mut()
    }

    /// The parameters of the propagation of labels; `None` where the task propagates none.
    pub(crate) fn propagation(&self) -> Option<&XclpSpec> {
        self.spec().propagation()
    }

    /// The parameters of the sketches that the task makes of the peers' rows; `None` where it makes none.
    #[must_use]
    pub fn sketch(&self) -> Option<&SketchSpec> {
        self.spec().sketch()
    }
}

impl fmt::Display for TaskSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
