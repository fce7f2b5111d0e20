//! The section `[evaluate]`: rows that are held out to measure the quality of the model.

use std::fmt::{self, Write};

use serde::{Deserialize, Serialize};

use crate::session::encoding::{Field, flag, integer};
use crate::session::file::quoted;
use crate::session::rules::Limit;
use crate::session::task::Sections;
use crate::session::{DataSpec, Session, SessionError};

/// Settings for held-out rows (spec, section 15.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct EvaluateSpec {
    /// Percent of the rows: 1 to 50. Default 20.
    pub held_out: u8,
    /// Largest number of rows that a peer holds out, not counting one row of each class: 1 to 1,000,000.
    /// Default 1,000.
    pub most: u32,
    /// True if the written model also learns from the held-out rows. Default true.
    pub learn_all: bool,
    /// Number of the positive class (for sensitivity) if there are two classes. If `None`, it is the rarer
    /// one.
    pub positive: Option<u16>,
}

const HELD_OUT: Limit = Limit::new("evaluate.held_out", 1, 50);
const POSITIVE: &str = "one of the two data.classes";
const MOST: Limit = Limit::new("evaluate.most", 1, 1_000_000);

/// The section as it is written in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    held_out: Option<i64>,
    most: Option<i64>,
    learn_all: Option<bool>,
    positive: Option<String>,
}

impl Raw {
    fn resolve(self, data: &DataSpec) -> Result<EvaluateSpec, SessionError> {
        let usual = EvaluateSpec::default();
        let number = |name: String| {
            let position = data.classes.iter().position(|class| *class == name);
            let number = position.filter(|_| data.classes.len() == 2).and_then(|at| u16::try_from(at).ok());
            number.ok_or_else(|| SessionError::value("evaluate.positive", format!("{name:?}"), POSITIVE))
        };
        Ok(EvaluateSpec {
            held_out: self.held_out.map_or(Ok(usual.held_out), |percent| HELD_OUT.check(percent))?,
            most: self.most.map_or(Ok(usual.most), |rows| MOST.check(rows))?,
            learn_all: self.learn_all.unwrap_or(usual.learn_all),
            positive: self.positive.map(number).transpose()?,
        })
    }
}

impl Default for EvaluateSpec {
    fn default() -> Self {
        Self { held_out: 20, most: 1000, learn_all: true, positive: None }
    }
}

impl EvaluateSpec {
    pub(crate) fn read(sections: &mut Sections<'_>, data: &DataSpec) -> Result<Option<Self>, SessionError> {
        sections.take::<Raw>("evaluate")?.map(|raw| raw.resolve(data)).transpose()
    }

    /// Checks the settings; `selects` is true if peers are drawn.
    pub(crate) fn check(&self, session: &Session, selects: bool) -> Result<(), SessionError> {
        if session.privacy.noise.is_some() || selects {
            let limit = "missing in a session with privacy.epsilon or select";
            return Err(SessionError::value("[evaluate]", "given", limit));
        }
        if let Some(class) = self.positive.filter(|class| *class > 1 || session.data.classes.len() != 2) {
            return Err(SessionError::value("evaluate.positive", format!("class {class}"), POSITIVE));
        }
        HELD_OUT.check::<u8>(self.held_out)?;
        MOST.check::<u32>(self.most).map(drop)
    }

    pub(crate) fn entries(&self) -> Vec<Field> {
        let mut entries = vec![
            ("evaluate.held_out", integer(self.held_out)),
            ("evaluate.most", integer(self.most)),
            ("evaluate.learn_all", flag(self.learn_all)),
        ];
        entries.extend(self.positive.map(|class| ("evaluate.positive", integer(class))));
        entries
    }

    pub(crate) fn write_toml(&self, data: &DataSpec, out: &mut String) -> fmt::Result {
        writeln!(out, "# Evaluation of the model on held-out rows; without this")?;
        writeln!(out, "# section no rows are held out.")?;
        writeln!(out, "[evaluate]")?;
        writeln!(out, "# Percent of each peer's rows that are held out: 1 to 50.")?;
        writeln!(out, "held_out = {}", self.held_out)?;
        writeln!(out, "# Most rows of a peer that are held out: 1 to 1000000.")?;
        writeln!(out, "most = {}", self.most)?;
        writeln!(out, "# true if the final model also trains on these rows.")?;
        writeln!(out, "learn_all = {}", self.learn_all)?;
        if let [first, second] = &data.classes[..] {
            writeln!(out, "# Positive class (sensitivity); by default the rarer one.")?;
            let (comment, class) = match self.positive {
                None => ("# ", first),
                Some(0) => ("", first),
                Some(_) => ("", second),
            };
            writeln!(out, "{comment}positive = {}", quoted(class))?;
        }
        writeln!(out)
    }

    pub(crate) fn line(&self) -> String {
        let last = if self.learn_all { "all" } else { "the other" };
        let Self { held_out, most, .. } = self;
        format!(
            "{held_out} % of each peer's rows, at most {most}, are held out; the final model trains on \
             {last} rows"
        )
    }
}
