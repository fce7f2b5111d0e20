//! The section `[glm]` of a session file.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use flyswarm_glm::{Family, Model};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::design::Design;
use crate::session::encoding::{Field, flag, integer, list, number, put, text};
use crate::session::fields::{Word, field};
use crate::session::rules::{Limit, check_number};
use crate::session::{DataSpec, Scaling, Sections, Session, SessionError, Spec};
use crate::tasks::common::checked;
use crate::tasks::{BuiltIn, Cheaters, Protection, Protections, TaskKind};

/// At least three peers, because three members compute. At most 64, because every two peers exchange
/// messages.
const ROSTER: Limit = Limit::new("the length of roster", 3, 64)
    .saying(" with the task glm: three members compute, and each peer exchanges messages with all others");
const THRESHOLD: Limit = Limit::new("glm.threshold", 10, 1_000_000);
const ROUNDS: Limit = Limit::new("glm.rounds", 1, 100);
/// Families by name.
const FAMILIES: [(&str, Family); 3] =
    [("linear", Family::Linear), ("logistic", Family::Logistic), ("poisson", Family::Poisson)];

/// Warning if the computing members do not prove their messages.
const TRUSTED: &str = "glm.cheaters is \"trusted\": a computing member that deviates can let a model pass whose cells are \
                       small, and no peer notices";
/// Warning to every peer.
const OPENS: &str = "every round opens the matrix of sums of products over all peers, not only the estimates; a second \
                     session over almost the same rows shows the difference of the two (docs/statistics.md)";

/// Parameters of the task `glm`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GlmSpec {
    /// `linear`, `logistic` or `poisson`. Default `linear`.
    pub family: String,
    /// Column that the model explains. `logistic`: a category of two levels, or numbers 0 and 1.
    pub outcome: String,
    /// Level of the outcome whose probability a `logistic` model describes. Default: the second level.
    pub event: Option<String>,
    /// Terms: columns, and pairs of columns with a colon between them. If the list is empty, all columns
    /// except the outcome.
    pub terms: Vec<String>,
    /// Reference levels of categories. Default: the first level.
    pub reference: BTreeMap<String, String>,
    /// Column of numbers that is added to the linear predictor.
    pub offset: Option<String>,
    /// Column of numbers that weight the rows.
    pub weights: Option<String>,
    /// Numbers are rounded to multiples of this step. Default 0.01. The step of dates is at least one day.
    pub grid: f64,
    /// Steps of columns for which `grid` does not fit.
    pub grids: BTreeMap<String, f64>,
    /// True for robust standard errors (HC1). Default false.
    pub robust: bool,
    /// Level of the confidence intervals. Default 0.95.
    pub level: f64,
    /// Largest number of rounds of a `logistic` or `poisson` model after the first round. Default 25.
    pub rounds: u32,
    /// Smallest number of rows that a cell of two terms must have. Default 10.
    pub threshold: u32,
    /// Smallest number of rows that a cell must have without the rows of any single peer. Default 5.
    pub rest: u32,
    /// Names of the three members that compute, and perhaps of a fourth, which replaces one that is lost.
    /// Default: the coin draws them.
    pub compute: Vec<String>,
    /// `caught` if the computing members prove their messages, otherwise `trusted`. Default `caught`.
    pub cheaters: String,
    /// Reserved for later versions. The only value is `matrices`: every round opens its matrix.
    #[serde(skip_serializing)]
    pub open: Option<String>,
    /// Reserved for later versions. The only value is false: the peers do not have intercepts of their own.
    #[serde(skip_serializing)]
    pub site_effects: Option<bool>,
}

impl Default for GlmSpec {
    fn default() -> Self {
        Self {
            family: "linear".to_owned(),
            outcome: String::new(),
            event: None,
            terms: Vec::new(),
            reference: BTreeMap::new(),
            offset: None,
            weights: None,
            grid: 0.01,
            grids: BTreeMap::new(),
            robust: false,
            level: 0.95,
            rounds: 25,
            threshold: 10,
            rest: 5,
            compute: Vec::new(),
            cheaters: Cheaters::Caught.word().to_owned(),
            open: None,
            site_effects: None,
        }
    }
}

impl GlmSpec {
    /// Reads the section.
    pub(super) fn read(sections: &mut Sections<'_>) -> Result<Self, SessionError> {
        Ok(sections.take("glm")?.unwrap_or_default())
    }

    /// Returns the family, or `None` if the word names none.
    pub(super) fn family(&self) -> Option<Family> {
        FAMILIES.iter().find(|(word, _)| *word == self.family).map(|(_, family)| *family)
    }

    /// Returns whether the computing members prove their messages.
    pub(super) fn proves(&self) -> bool {
        self.cheaters == Cheaters::Caught.word()
    }

    /// Returns the model of a design.
    pub(super) fn model(&self, design: &Design) -> Option<Model> {
        Some(Model {
            family: self.family()?,
            columns: design.columns(),
            outcome_step: design.outcome_step(),
            offset: design.has_offset(),
            weighted: design.has_weights(),
            robust: self.robust,
            rounds: self.rounds as usize,
            level: self.level,
        })
    }

    fn check_compute(&self, session: &Session) -> Result<(), SessionError> {
        let known = |name: &String| session.roster.iter().any(|entry| entry.name == *name);
        if let Some(stranger) = self.compute.iter().find(|name| !known(name)) {
            return Err(SessionError::value("glm.compute", stranger, "names of the roster"));
        }
        let twice = (1..self.compute.len()).any(|at| self.compute[..at].contains(&self.compute[at]));
        if twice || !matches!(self.compute.len(), 0 | 3 | 4) {
            let limit = "three different names, or four (the fourth in reserve), or none";
            return Err(SessionError::value("glm.compute", self.compute.join(", "), limit));
        }
        Ok(())
    }
}

/// Encodes the pairs of a map as canonical bytes.
fn pairs(map: impl Iterator<Item = (Vec<u8>, Vec<u8>)>) -> Vec<u8> {
    let items: Vec<Vec<u8>> = map
        .map(|(name, value)| {
            let mut item = Vec::new();
            put(&mut item, &name);
            item.extend(value);
            item
        })
        .collect();
    list(items.iter().map(Vec::as_slice))
}

impl Spec for GlmSpec {
    fn kind(&self) -> &'static TaskKind {
        &super::KIND
    }

    fn built_in(&self, session: &Session) -> Option<BuiltIn> {
        super::built_in(session, self)
    }

    fn about(&self) -> &'static str {
        "linear, logistic or Poisson regression over the rows of all peers, as in one place"
    }

    fn roster(&self) -> Limit {
        ROSTER
    }

    fn normalise(&mut self) {
        self.grids.values_mut().chain([&mut self.grid]).for_each(|grid| *grid += 0.0);
    }

    fn protections(&self) -> Protections {
        Protections {
            columns: Protection::OptOut("compares no columns, because it checks cells before any sum opens"),
            imputation: Protection::OptOut("leaves rows with missing values out and fills none"),
            ..Protections::ALL
        }
    }

    fn check(&self, session: &Session) -> Result<(), SessionError> {
        let data = &session.data;
        if !data.classes.is_empty() {
            let limit = "0 with the task glm: describe the outcome as a column";
            return Err(SessionError::value("the length of data.classes", data.classes.len(), limit));
        }
        if data.scaling != Scaling::None || data.densify {
            let limit = "\"none\", and densify false, with the task glm";
            return Err(SessionError::value("data.scaling", data.scaling, limit));
        }
        if let Some(open) = self.open.as_ref().filter(|open| *open != "matrices") {
            let limit = "\"matrices\": every round opens its matrix; this version has no fit on shares";
            return Err(SessionError::value("glm.open", format!("{open:?}"), limit));
        }
        if self.site_effects == Some(true) {
            let limit = "false: each opened matrix would have the sums of each peer, and this version has no fit on shares";
            return Err(SessionError::value("glm.site_effects", "true", limit));
        }
        THRESHOLD.check::<u32>(self.threshold)?;
        ROUNDS.check::<u32>(self.rounds)?;
        Limit::new("glm.rest", 1, self.threshold.into()).check::<u32>(self.rest)?;
        check_number("glm.level", self.level, (0.5..=0.999).contains(&self.level), "0.5 to 0.999")?;
        for (name, &grid) in self.grids.iter().chain([(&"glm.grid".to_owned(), &self.grid)]) {
            check_number(name, grid, (1e-9..=1e9).contains(&grid), "1e-9 to 1e9")?;
        }
        if !Cheaters::WORDS.iter().any(|(word, _)| *word == self.cheaters) {
            return Err(SessionError::value("glm.cheaters", &self.cheaters, "\"caught\" or \"trusted\""));
        }
        self.check_compute(session)?;
        match Design::new(self, data) {
            Ok(_) => Ok(()),
            Err((field, value, limit)) => Err(SessionError::value(field, value, limit)),
        }
    }

    fn entries(&self) -> Vec<Field> {
        let optional = |name: &Option<String>| text(name.as_deref().unwrap_or_default());
        let bytes = |name: &String| name.as_bytes().to_vec();
        let level = |level: &String| {
            let mut out = Vec::new();
            put(&mut out, level.as_bytes());
            out
        };
        vec![
            ("glm.family", text(&self.family)),
            ("glm.outcome", text(&self.outcome)),
            ("glm.event", optional(&self.event)),
            ("glm.terms", list(self.terms.iter().map(String::as_bytes))),
            ("glm.reference", pairs(self.reference.iter().map(|(name, of)| (bytes(name), level(of))))),
            ("glm.offset", optional(&self.offset)),
            ("glm.weights", optional(&self.weights)),
            ("glm.grid", number(self.grid)),
            ("glm.grids", pairs(self.grids.iter().map(|(name, &grid)| (bytes(name), number(grid))))),
            ("glm.robust", flag(self.robust)),
            ("glm.level", number(self.level)),
            ("glm.rounds", integer(self.rounds)),
            ("glm.threshold", integer(self.threshold)),
            ("glm.rest", integer(self.rest)),
            ("glm.compute", text(&self.compute.join(" "))),
            ("glm.cheaters", text(&self.cheaters)),
        ]
    }

    fn write_toml(&self, _data: &DataSpec, out: &mut String) -> fmt::Result {
        writeln!(out, "[glm]")?;
        // JSON strings and lists of strings are also valid TOML.
        let about = "\"linear\", \"logistic\" or \"poisson\".";
        field(about, "family", json!(self.family), out)?;
        let about =
            "The column that the model explains. \"logistic\": a category of two levels, or numbers 0 and 1.";
        field(about, "outcome", json!(self.outcome), out)?;
        match &self.event {
            Some(event) => field("", "event", json!(event), out)?,
            None => writeln!(out, "# event = \"yes\"  # default: the second level")?,
        }
        let about = "Columns, and pairs such as \"age:sex\". If the list is empty, all other columns.";
        field(about, "terms", json!(self.terms), out)?;
        let about = "Reference levels of categories; otherwise the first level.";
        let each: Vec<_> = self
            .reference
            .iter()
            .map(|(name, level)| format!("{} = {}", json!(name), json!(level)))
            .collect();
        field(about, "reference", format_args!("{{ {} }}", each.join(", ")), out)?;
        for (name, column) in [("offset", &self.offset), ("weights", &self.weights)] {
            match column {
                Some(column) => field("", name, json!(column), out)?,
                None => writeln!(out, "# {name} = \"a column of numbers\"")?,
            }
        }
        let about = "Numbers are rounded to multiples of this step; other steps for single columns.";
        field(about, "grid", format_args!("{:?}", self.grid), out)?;
        let each: Vec<_> =
            self.grids.iter().map(|(name, grid)| format!("{} = {grid:?}", json!(name))).collect();
        field("", "grids", format_args!("{{ {} }}", each.join(", ")), out)?;
        field("Robust standard errors (HC1); they open one more matrix.", "robust", self.robust, out)?;
        field("Level of the confidence intervals.", "level", format_args!("{:?}", self.level), out)?;
        field("Most rounds after the first.", "rounds", self.rounds, out)?;
        let about = "Before anything opens, every cell of two terms must have `threshold` rows of privacy.min_contributors \
                     peers, and `rest` rows without the rows of any one peer.";
        field(about, "threshold", self.threshold, out)?;
        field("", "rest", self.rest, out)?;
        let about = "Names of the three members that check the cells on shares, and of a fourth in reserve; drawn if \
                     empty. One of them alone learns nothing. Any two together see all cells.";
        field(about, "compute", json!(self.compute), out)?;
        let about = "\"caught\": the computing members prove each message. \"trusted\": they prove nothing.";
        field(about, "cheaters", json!(self.cheaters), out)?;
        writeln!(out)
    }

    fn json(&self, _data: &DataSpec) -> Vec<(&'static str, Value)> {
        vec![("glm", json!(self))]
    }

    fn lines(&self, data: &DataSpec) -> Vec<(&'static str, String)> {
        let Self { family, threshold, rest, .. } = self;
        let Ok(design) = Design::new(self, data) else { return Vec::new() };
        let names: Vec<_> = design.columns().into_iter().map(|column| column.name).collect();
        let mut lines = vec![
            ("model", format!("{family}: {} by {}", design.outcome_name(), names.join(", "))),
            ("rows", format!("at least {} in all, for {} columns", design.least_rows(), design.width())),
            (
                "cells",
                format!(
                    "{} are checked first: at least {threshold} rows of privacy.min_contributors peers, and {rest} \
                     without the rows of any one",
                    design.cells()
                ),
            ),
        ];
        let cautions = [Some(OPENS), (!self.proves()).then_some(TRUSTED)];
        lines.extend(cautions.into_iter().flatten().map(|text| ("caution", text.to_owned())));
        lines
    }

    fn reads_table(&self) -> bool {
        true
    }

    fn caution(&self) -> Option<&'static str> {
        Some(OPENS)
    }

    fn check_next(&self, changed: usize, contributors: usize) -> Result<Option<&'static str>, String> {
        checked::check_next(changed, contributors)
    }
}
