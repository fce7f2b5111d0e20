//! Checks of the columns of every peer's rows: limits from the session file, and the comparison of each
//! peer's columns with those of all peers.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use serde::{Deserialize, Serialize};

use super::encoding::{Field, flag, integer, number, put};
use super::fields::field;
use super::file::quoted;
use super::rules::check_number;
use super::{DataSpec, SessionError, TaskSpec};
use crate::tasks::Protection;
use flyswarm_data::scaling::ColumnSums;

/// Checks of columns. By default there are none, but a session file compares columns unless it disables this.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ColumnChecks {
    /// True if each peer compares its columns with the sum of all peers (`data.check_columns`). This sum is
    /// opened even if the scaling does not need it. The task `xclp` opens only the sums that its scaling
    /// needs.
    pub compare: bool,
    /// Limits of columns, by their names in [`DataSpec::columns`]; rows outside the limits are refused.
    pub limits: BTreeMap<String, Bounds>,
}

/// Limits of a column, both ends allowed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bounds {
    /// Smallest value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    /// Largest value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<f64>,
}

impl Bounds {
    /// Returns whether a value is within the limits.
    #[must_use]
    pub fn holds(&self, value: f32) -> bool {
        let value = f64::from(value);
        self.min.is_none_or(|min| value >= min) && self.max.is_none_or(|max| value <= max)
    }
}

impl fmt::Display for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.min, self.max) {
            (Some(min), Some(max)) => write!(f, "{min} to {max}"),
            (Some(min), None) => write!(f, "at least {min}"),
            (None, Some(max)) => write!(f, "at most {max}"),
            (None, None) => f.write_str("any number"),
        }
    }
}

impl ColumnChecks {
    /// Replaces -0.0 by 0.0, because the two are equal but have different encodings.
    pub(super) fn normalise(&mut self) {
        for Bounds { min, max } in self.limits.values_mut() {
            min.iter_mut().chain(max).for_each(|end| *end += 0.0);
        }
    }

    /// Returns the default of `check_columns`: true if the session may open exact sums of columns.
    #[must_use]
    pub fn usual(task: &TaskSpec, private: bool) -> bool {
        !private && !matches!(task.protections().columns, Protection::OptOut(_))
    }

    pub(super) fn check(&self, data: &DataSpec, task: &TaskSpec, private: bool) -> Result<(), SessionError> {
        if self.compare && !Self::usual(task, private) {
            let why = match task.protections().columns {
                Protection::OptOut(why) if !private => format!("false with the task {task}, which {why}"),
                _ => "false with privacy.epsilon: it needs exact sums".to_owned(),
            };
            return Err(SessionError::value("data.check_columns", true, why));
        }
        if data.preparation.is_some() && !self.limits.is_empty() {
            let expected = "absent: the columns of [table] have limits of their own";
            return Err(SessionError::value("[columns.NAME]", "given", expected));
        }
        for (name, Bounds { min, max }) in &self.limits {
            let field = |end: &str| format!("columns.{name:?}{end}");
            if !data.columns.contains(name) {
                return Err(SessionError::value(
                    "a name in columns",
                    format!("{name:?}"),
                    "one of data.columns",
                ));
            }
            for (end, value) in [(".min", min), (".max", max)] {
                value
                    .map_or(Ok(()), |value| check_number(&field(end), value, value.is_finite(), "finite"))?;
            }
            if min.is_none() && max.is_none() {
                return Err(SessionError::value(field(""), "empty", "min, max or both"));
            }
            if let (Some(min), Some(max)) = (min, max) {
                check_number(&field(".max"), *max, min <= max, &format!("at least min, {min}"))?;
            }
        }
        Ok(())
    }

    /// Returns the fields that are part of the session id.
    pub(super) fn entries(&self) -> Vec<Field> {
        let mut entries = vec![("data.check_columns", flag(self.compare))];
        if !self.limits.is_empty() {
            let mut list = integer(self.limits.len() as u64);
            for (name, Bounds { min, max }) in &self.limits {
                let mut item = Vec::new();
                put(&mut item, name.as_bytes());
                [min, max].iter().for_each(|end| put(&mut item, &end.map(number).unwrap_or_default()));
                put(&mut list, &item);
            }
            entries.push(("columns", list));
        }
        entries
    }

    /// Writes the field `check_columns` for the section `[data]`.
    pub(super) fn write_field(&self, out: &mut String) -> fmt::Result {
        let about = "Each peer compares its columns with the sum over all peers; only this peer sees the \
                     warnings.";
        field(about, "check_columns", self.compare, out)
    }

    /// Writes the sections `[columns.NAME]`.
    pub(super) fn write_toml(&self, out: &mut String) -> fmt::Result {
        for (name, Bounds { min, max }) in &self.limits {
            writeln!(out, "# Rows with values outside these limits are refused; the error names the line.")?;
            writeln!(out, "[columns.{}]", quoted(name))?;
            min.iter().try_for_each(|min| writeln!(out, "min = {min:?}"))?;
            max.iter().try_for_each(|max| writeln!(out, "max = {max:?}"))?;
            writeln!(out)?;
        }
        Ok(())
    }
}

impl DataSpec {
    /// Returns the smallest and the largest value of each feature in order; empty if there are no
    /// limits.
    #[must_use]
    pub fn limits(&self) -> Vec<(f64, f64)> {
        let limits = &self.checks.limits;
        let of = |name: &String| {
            let Bounds { min, max } = limits.get(name).copied().unwrap_or_default();
            (min.unwrap_or(f64::NEG_INFINITY), max.unwrap_or(f64::INFINITY))
        };
        if limits.is_empty() { Vec::new() } else { self.columns.iter().map(of).collect() }
    }

    /// Returns which sums over the columns are opened. The scaling needs some of them: `needed` is true if it
    /// also needs sums of squares. The comparison of each peer's columns with those of all peers needs more.
    #[must_use]
    pub fn opens_moments(&self, needed: Option<bool>) -> Option<ColumnSums> {
        if self.checks.compare { Some(ColumnSums::Compared) } else { needed.map(ColumnSums::needed) }
    }
}
