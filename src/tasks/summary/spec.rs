//! The section `[summary]` of a session file.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::table::Layout;
use crate::session::encoding::{Field, integer, list, number, put, text};
use crate::session::fields::{Word, field};
use crate::session::rules::{Limit, check_number};
use crate::session::{DataSpec, Scaling, Sections, Session, SessionError, Spec};
use crate::tasks::common::checked;
use crate::tasks::{BuiltIn, Cheaters, Protection, Protections, TaskKind};

/// At least three peers, because three members compute. At most 64, because every two peers exchange
/// messages.
const ROSTER: Limit = Limit::new("the length of roster", 3, 64).saying(
    " with the task summary: three members compute, and each peer exchanges messages with all others",
);
/// Largest number of products for all quantiles. Each peer causes five products for each value of each group
/// of a column.
const MOST_PRODUCTS: usize = 1 << 25;
const THRESHOLD: Limit = Limit::new("summary.threshold", 2, 1_000_000);

/// Warning if the computing members do not prove their messages.
const TRUSTED: &str = "summary.cheaters is \"trusted\": a computing member that deviates can open a small cell, or change \
                       numbers, and no peer notices";
/// Warning to every peer.
const AGAIN: &str = "a second session over almost the same rows shows the difference of the two, and no threshold protects \
                     that; numbers with few different values are better described as categories (docs/statistics.md)";

/// Parameters of the task `summary`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SummarySpec {
    /// Columns that are summarised, in this order. If empty, all columns.
    pub columns: Vec<String>,
    /// One or two categories or ordinals. Their levels, or the combinations of their levels, are the groups.
    /// The file has one name or a list of names. Default: no groups.
    #[serde(deserialize_with = "one_or_more")]
    pub by: Vec<String>,
    /// Numbers are rounded to multiples of this step. A sum is a whole number of steps. Default 0.01. The
    /// step of dates is at least one day.
    pub grid: f64,
    /// Steps of columns for which `grid` does not fit.
    pub grids: BTreeMap<String, f64>,
    /// Columns of numbers for which quantiles are computed (median, quartiles, 5th and 95th percentile), each
    /// with its smallest and largest value. A quantile that is not strictly between these two values, or is
    /// next to one of them, stays closed.
    pub ranges: BTreeMap<String, [f64; 2]>,
    /// Smallest number of rows of a cell that is opened. Default 10.
    pub threshold: u32,
    /// Smallest number of rows that a cell must have without the rows of any single peer. Default 5.
    pub rest: u32,
    /// Cross tables of two columns.
    pub table: Vec<CrossTable>,
    /// Names of the three members that compute, and perhaps of a fourth, which replaces one that is lost.
    /// Default: the coin draws them.
    pub compute: Vec<String>,
    /// `caught` if the computing members prove their messages, otherwise `trusted`. Default `caught`.
    pub cheaters: String,
}

fn one_or_more<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "the name of a column, or a list of names")]
    enum Names {
        One(String),
        More(Vec<String>),
    }
    Ok(match Names::deserialize(deserializer)? {
        Names::One(name) => vec![name],
        Names::More(names) => names,
    })
}

/// A cross table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CrossTable {
    /// Column whose levels are the rows.
    pub rows: String,
    /// Column whose levels are the columns.
    pub columns: String,
}

impl Default for SummarySpec {
    fn default() -> Self {
        Self {
            columns: Vec::new(),
            by: Vec::new(),
            grid: 0.01,
            grids: BTreeMap::new(),
            ranges: BTreeMap::new(),
            threshold: 10,
            rest: 5,
            table: Vec::new(),
            compute: Vec::new(),
            cheaters: Cheaters::Caught.word().to_owned(),
        }
    }
}

impl SummarySpec {
    /// Reads the section. If the file does not have it, all values are defaults.
    pub(super) fn read(sections: &mut Sections<'_>) -> Result<Self, SessionError> {
        Ok(sections.take("summary")?.unwrap_or_default())
    }

    /// Returns whether the computing members prove their messages.
    pub(super) fn proves(&self) -> bool {
        self.cheaters == Cheaters::Caught.word()
    }

    fn check_compute(&self, session: &Session) -> Result<(), SessionError> {
        let known = |name: &String| session.roster.iter().any(|entry| entry.name == *name);
        if let Some(stranger) = self.compute.iter().find(|name| !known(name)) {
            return Err(SessionError::value("summary.compute", stranger, "names of the roster"));
        }
        let twice = (1..self.compute.len()).any(|at| self.compute[..at].contains(&self.compute[at]));
        if twice || !matches!(self.compute.len(), 0 | 3 | 4) {
            let (named, limit) =
                (self.compute.join(", "), "three different names, or four (the fourth in reserve), or none");
            return Err(SessionError::value("summary.compute", named, limit));
        }
        Ok(())
    }
}

impl Spec for SummarySpec {
    fn kind(&self) -> &'static TaskKind {
        &super::KIND
    }

    fn built_in(&self, session: &Session) -> Option<BuiltIn> {
        super::built_in(session, self)
    }

    fn about(&self) -> &'static str {
        "statistics over the rows of all peers: counts, means and cross tables without small cells"
    }

    fn roster(&self) -> Limit {
        ROSTER
    }

    fn normalise(&mut self) {
        let ends = self.ranges.values_mut().flatten();
        self.grids.values_mut().chain([&mut self.grid]).chain(ends).for_each(|number| *number += 0.0);
    }

    fn protections(&self) -> Protections {
        Protections {
            columns: Protection::OptOut(
                "compares no columns, because their sums over all peers would open small cells",
            ),
            imputation: Protection::OptOut("counts missing values and fills none"),
            ..Protections::ALL
        }
    }

    fn check(&self, session: &Session) -> Result<(), SessionError> {
        let data = &session.data;
        if !data.classes.is_empty() {
            let limit = "0 with the task summary: describe the label as a column";
            return Err(SessionError::value("the length of data.classes", data.classes.len(), limit));
        }
        if data.scaling != Scaling::None || data.densify {
            let limit = "\"none\", and densify false, with the task summary";
            return Err(SessionError::value("data.scaling", data.scaling, limit));
        }
        THRESHOLD.check::<u32>(self.threshold)?;
        Limit::new("summary.rest", 0, self.threshold.into()).check::<u32>(self.rest)?;
        for (name, &grid) in self.grids.iter().chain([(&"summary.grid".to_owned(), &self.grid)]) {
            check_number(name, grid, (1e-9..=1e9).contains(&grid), "1e-9 to 1e9")?;
        }
        if !Cheaters::WORDS.iter().any(|(word, _)| *word == self.cheaters) {
            return Err(SessionError::value("summary.cheaters", &self.cheaters, "\"caught\" or \"trusted\""));
        }
        for (name, &[low, high]) in &self.ranges {
            let ends = || format!("[{low:?}, {high:?}]");
            if !(low.is_finite() && high.is_finite() && low < high) {
                let field = format!("summary.ranges, {name:?}");
                return Err(SessionError::value(field, ends(), "a number and a larger one"));
            }
        }
        self.check_compute(session)?;
        let layout = Layout::new(self, data)
            .map_err(|(field, value, limit)| SessionError::value(field, value, limit))?;
        let products: usize = layout
            .rule(self, session.privacy.min_contributors)
            .scales
            .iter()
            .map(|scale| scale.products(session.roster.len()))
            .sum();
        if products > MOST_PRODUCTS {
            let limit = format!(
                "at most {MOST_PRODUCTS}; fewer columns in summary.ranges, larger grids or fewer groups need less"
            );
            return Err(SessionError::value("the work for quantiles", products, limit));
        }
        Ok(())
    }

    fn entries(&self) -> Vec<Field> {
        let texts = |texts: &[&str]| list(texts.iter().map(|text| text.as_bytes()));
        let columns: Vec<&str> = self.columns.iter().map(String::as_str).collect();
        let grids = self.grids.iter().map(|(name, &grid)| {
            let mut item = Vec::new();
            put(&mut item, name.as_bytes());
            item.extend(number(grid));
            item
        });
        let grids: Vec<Vec<u8>> = grids.collect();
        let ranges = self.ranges.iter().map(|(name, ends)| {
            let mut item = Vec::new();
            put(&mut item, name.as_bytes());
            ends.iter().for_each(|&end| item.extend(number(end)));
            item
        });
        let ranges: Vec<Vec<u8>> = ranges.collect();
        let by: Vec<&str> = self.by.iter().map(String::as_str).collect();
        let tables = self.table.iter().map(|CrossTable { rows, columns }| texts(&[rows, columns]));
        let tables: Vec<Vec<u8>> = tables.collect();
        vec![
            ("summary.columns", texts(&columns)),
            ("summary.by", texts(&by)),
            ("summary.grid", number(self.grid)),
            ("summary.grids", list(grids.iter().map(Vec::as_slice))),
            ("summary.ranges", list(ranges.iter().map(Vec::as_slice))),
            ("summary.threshold", integer(self.threshold)),
            ("summary.rest", integer(self.rest)),
            ("summary.table", list(tables.iter().map(Vec::as_slice))),
            ("summary.compute", text(&self.compute.join(" "))),
            ("summary.cheaters", text(&self.cheaters)),
        ]
    }

    fn write_toml(&self, _data: &DataSpec, out: &mut String) -> fmt::Result {
        let Self { columns, by, grid, grids, ranges, threshold, rest, table, compute, cheaters } = self;
        writeln!(out, "[summary]")?;
        // JSON strings and lists of strings are also valid TOML.
        let about = "Columns that are summarised; if the list is empty, all. With `by`, also for each group.";
        field(about, "columns", json!(columns), out)?;
        match &by[..] {
            [] => writeln!(out, "# by = \"arm\", or two columns: by = [\"arm\", \"sex\"]")?,
            [one] => field("", "by", json!(one), out)?,
            more => field("", "by", json!(more), out)?,
        }
        let about = "Numbers are rounded to multiples of this step; other steps for single columns.";
        field(about, "grid", format_args!("{grid:?}"), out)?;
        let each: Vec<_> = grids.iter().map(|(name, grid)| format!("{} = {grid:?}", json!(name))).collect();
        field("", "grids", format_args!("{{ {} }}", each.join(", ")), out)?;
        let about = "Columns with median, quartiles, 5th and 95th percentile, each with its smallest and largest value: \
                     { age = [0.0, 120.0] }. A quantile outside of them stays closed.";
        let each: Vec<_> = ranges
            .iter()
            .map(|(name, [low, high])| format!("{} = [{low:?}, {high:?}]", json!(name)))
            .collect();
        field(about, "ranges", format_args!("{{ {} }}", each.join(", ")), out)?;
        let about = "A cell opens if all peers together have `threshold` rows in it, if privacy.min_contributors peers have \
                     any, and if `rest` rows remain without the rows of any one peer.";
        field(about, "threshold", threshold, out)?;
        field("", "rest", rest, out)?;
        let about = "Cross tables of two categories: { rows = \"sex\", columns = \"smoker\" }.";
        let each = table.iter().map(|CrossTable { rows, columns }| {
            format!("{{ rows = {}, columns = {} }}", json!(rows), json!(columns))
        });
        field(about, "table", format_args!("[{}]", each.collect::<Vec<_>>().join(", ")), out)?;
        let about = "Names of the three members that compute on shares, and of a fourth in reserve; drawn if empty. \
                     One of them alone learns no more than the other peers, unless it deviates and `cheaters` is \"trusted\". Any two together see all cells.";
        field(about, "compute", json!(compute), out)?;
        let about = "\"caught\": the computing members prove each message. \"trusted\": they prove nothing.";
        field(about, "cheaters", json!(cheaters), out)?;
        writeln!(out)
    }

    fn json(&self, _data: &DataSpec) -> Vec<(&'static str, Value)> {
        vec![("summary", json!(self))]
    }

    fn lines(&self, data: &DataSpec) -> Vec<(&'static str, String)> {
        let Self { threshold, rest, by, .. } = self;
        let count = Layout::new(self, data).map_or(0, |layout| layout.columns());
        let by = if by.is_empty() { String::new() } else { format!(" by {}", by.join(" and ")) };
        let cells = format!(
            "at least {threshold} rows of privacy.min_contributors peers, and {rest} without the rows of any one"
        );
        let mut lines = vec![("summary", format!("{count} columns{by}")), ("cells", cells)];
        lines.extend(self.ranges.iter().map(|(name, [low, high])| {
            ("quantiles", format!("{name}, if between {low} and {high}: the value of one patient each"))
        }));
        lines.extend(self.table.iter().map(|table| ("table", format!("{} x {}", table.rows, table.columns))));
        let cautions = [Some(AGAIN), (!self.proves()).then_some(TRUSTED)];
        lines.extend(cautions.into_iter().flatten().map(|text| ("caution", text.to_owned())));
        lines
    }

    fn reads_table(&self) -> bool {
        true
    }

    fn caution(&self) -> Option<&'static str> {
        Some(AGAIN)
    }

    fn check_next(&self, changed: usize, contributors: usize) -> Result<Option<&'static str>, String> {
        checked::check_next(changed, contributors)
    }
}
