//! The section `[histogram]` of a session file.

use std::fmt::{self, Write};

use flyswarm::session::{DataSpec, Field, Scaling, Sections, Session, SessionError, Spec};
use flyswarm::tasks::{BuiltIn, TaskKind};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Maximum number of edges of a column.
const EDGES_LIMIT: usize = 10_001;
/// Maximum number of bins of all columns together, including the bins below the first and above the last
/// edge.
const BINS_LIMIT: usize = 1 << 20;

/// Parameters of the task `histogram`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HistogramSpec {
    /// The columns to count, at least one.
    pub(super) columns: Vec<Column>,
}

/// One column and its bins.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Column {
    /// Name of the column in `data.columns`.
    pub(super) name: String,
    /// Edges of the bins, in ascending order: 2 to 10,001 of them. A bin includes its lower edge, but not its
    /// upper edge.
    pub(super) edges: Vec<f64>,
}

impl Column {
    /// Returns the number of bins. One bin lies below the first edge, and one from the last edge on.
    pub(super) fn bins(&self) -> usize {
        self.edges.len() + 1
    }

    /// Returns the bin of a value.
    pub(super) fn bin(&self, value: f64) -> usize {
        self.edges.partition_point(|&edge| edge <= value)
    }
}

impl HistogramSpec {
    /// Returns the number of bins of all columns.
    pub(super) fn bins(&self) -> usize {
        self.columns.iter().map(Column::bins).sum()
    }

    /// Reads the section.
    pub(super) fn read(sections: &mut Sections<'_>) -> Result<Self, SessionError> {
        let missing = || SessionError::value("[histogram]", "missing", "given with the task histogram");
        sections.take("histogram")?.ok_or_else(missing)
    }
}

impl Spec for HistogramSpec {
    fn kind(&self) -> &'static TaskKind {
        &super::KIND
    }

    fn built_in(&self, _session: &Session) -> Option<BuiltIn> {
        Some(super::built_in(self))
    }

    fn about(&self) -> &'static str {
        "how many rows of all peers lie in each bin of single columns"
    }

    fn normalise(&mut self) {
        self.columns.iter_mut().flat_map(|column| &mut column.edges).for_each(|edge| *edge += 0.0);
    }

    fn check(&self, session: &Session) -> Result<(), SessionError> {
        let data = &session.data;
        if !data.classes.is_empty() {
            let limit = "0 with the task histogram, which needs no classes";
            return Err(SessionError::value("the length of data.classes", data.classes.len(), limit));
        }
        if data.scaling != Scaling::None {
            let limit = "\"none\" with the task histogram: its edges are in the units of the rows";
            return Err(SessionError::value("data.scaling", data.scaling, limit));
        }
        if self.columns.is_empty() {
            return Err(SessionError::value("the length of histogram.columns", 0, "1 or more"));
        }
        for (at, Column { name, edges }) in self.columns.iter().enumerate() {
            let refuse = |field: String, value: String, limit: &str| {
                Err(SessionError::value(field, value, limit.to_owned()))
            };
            if !data.columns.contains(name) {
                return refuse("histogram.columns.name".into(), format!("{name:?}"), "one of data.columns");
            }
            if self.columns[..at].iter().any(|earlier| earlier.name == *name) {
                return refuse("histogram.columns.name".into(), format!("{name:?} twice"), "all different");
            }
            if !(2..=EDGES_LIMIT).contains(&edges.len()) {
                let field = format!("the number of edges of {name:?}");
                return refuse(field, edges.len().to_string(), &format!("2 to {EDGES_LIMIT}"));
            }
            if !edges.iter().all(|edge| edge.is_finite()) || !edges.is_sorted_by(|one, next| one < next) {
                let limit = "finite numbers, each above the one before";
                return refuse(format!("edges of {name:?}"), format!("{edges:?}"), limit);
            }
        }
        if self.bins() > BINS_LIMIT {
            let limit = format!("at most {BINS_LIMIT}");
            return Err(SessionError::value("the number of bins of all columns", self.bins(), limit));
        }
        Ok(())
    }

    fn entries(&self) -> Vec<Field> {
        // JSON of this shape has exactly one encoding for each value.
        vec![("histogram.columns", json!(self.columns).to_string().into_bytes())]
    }

    fn write_toml(&self, _data: &DataSpec, out: &mut String) -> fmt::Result {
        writeln!(
            out,
            "# The columns that are counted, and the edges of their bins, in ascending order. A bin includes its"
        )?;
        writeln!(
            out,
            "# lower edge. One more bin lies below the first edge, and one from the last edge on."
        )?;
        for Column { name, edges } in &self.columns {
            // A JSON string is also a TOML string.
            writeln!(out, "[[histogram.columns]]\nname = {}\nedges = {edges:?}\n", json!(name))?;
        }
        Ok(())
    }

    fn json(&self, _data: &DataSpec) -> Vec<(&'static str, Value)> {
        vec![("histogram", json!(self))]
    }

    fn lines(&self, _data: &DataSpec) -> Vec<(&'static str, String)> {
        let line = |(at, Column { name, edges }): (usize, &Column)| {
            let (first, last) = (edges.first().unwrap_or(&0.0), edges.last().unwrap_or(&0.0));
            let heading = if at == 0 { "histogram" } else { "" };
            (heading, format!("{name}: {} bins from {first} to {last}", edges.len().saturating_sub(1)))
        };
        self.columns.iter().enumerate().map(line).collect()
    }
}
