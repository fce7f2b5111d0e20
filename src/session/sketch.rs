//! The parameters of the task `sketch` in a session file, and of a task that draws its peers by sketches
//! (`select`).

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use super::rules::{Limit, check_number};
use super::{Scaling, Session, SessionError, TaskKind};
use crate::model::selection::Selection;
use crate::sketch::distribution::srp::MAX_ENTRIES;
use crate::sketch::distribution::{Family, MAX_COUNTERS, RANGE};

/// Fewest peers that may be drawn: the drawn ones' rows are a sum like any other, which needs 3 members.
const FEWEST: u16 = 3;
/// Most words of all peers' sketches side by side: 1 GiB.
const PAIRWISE_LIMIT: u64 = 1 << 28;

/// How a task draws the peers whose rows it learns from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Select {
    /// By the distances of their sketches: the `[sketch]` of the same file.
    Sketch,
}

/// The parameters of a distribution sketch (Liu, Xu, Coleman & Shrivastava, NeurIPS 2023, Algorithms 1 and
/// 3).
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SketchSpec {
    /// The hash of a row. Default SRP.
    pub hash: Family,
    /// Rows, the paper's R: 1 and more. Default 1,000, as in the authors' code.
    pub rows: u32,
    /// Counters of a row, the paper's B: 2 to 65,536, with SRP a power of two; rows x range at most 2^24.
    /// Default 64, as in the authors' code.
    pub range: u32,
    /// Whether every peer's distance to the global sketch is opened. Default false, with `select` true.
    pub publish: bool,
    /// Whether every peer's own sketch is opened, so that all distances between peers are known. Default
    /// false.
    pub pairwise: bool,
    /// Of the peers with a published distance so many are considered, the paper's L; 0: all. Default 0.
    pub active: u16,
    /// Of these so many are drawn, the paper's K; 0: no draw. Needs `publish`. Default 0.
    pub chosen: u16,
    /// Of the softmax of inverse distances: 0.001 to 1,000. Default 1, as in the authors' code.
    pub temperature: f64,
}

impl Default for SketchSpec {
    fn default() -> Self {
        let (publish, pairwise) = (false, false);
        Self {
            hash: Family::Srp,
            rows: 1000,
            range: 64,
            publish,
            pairwise,
            active: 0,
            chosen: 0,
            temperature: 1.0,
        }
    }
}

/// The section of the file.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawSketch {
    hash: Option<Family>,
    rows: Option<i64>,
    range: Option<i64>,
    publish: Option<bool>,
    pairwise: Option<bool>,
    active: Option<i64>,
    chosen: Option<i64>,
    temperature: Option<f64>,
}

const ROWS: Limit = Limit::new("sketch.rows", 1, (MAX_COUNTERS / 2) as u64);
const WIDTH: Limit = Limit::new("sketch.range", *RANGE.start() as u64, *RANGE.end() as u64);

fn places(field: &'static str, peers: usize) -> Limit {
    Limit::new(field, 0, peers as u64)
}

impl SketchSpec {
    /// How peers are selected; `None` where none are.
    #[must_use]
    pub fn selection(&self) -> Option<Selection> {
        let Self { active, chosen, temperature, .. } = *self;
        (chosen > 0).then_some(Selection { active, chosen, temperature })
    }

    /// From a table with the fields of the section, for so many peers; what is left out has its default, with
    /// or without `select`.
    ///
    /// # Errors
    /// [`SessionError`].
    pub fn from_table(
        table: toml::Table,
        peers: usize,
        select: Option<Select>,
    ) -> Result<Self, SessionError> {
        let raw: RawSketch = table.try_into().map_err(|error: toml::de::Error| SessionError::Syntax {
            line: 1,
            message: error.message().split_whitespace().collect::<Vec<_>>().join(" "),
        })?;
        raw.resolve(peers, select)
    }

    pub(super) fn check(&self, session: &Session) -> Result<(), SessionError> {
        let (data, peers) = (&session.data, session.roster.len());
        let refuse = |field: &str, value: &dyn std::fmt::Display, limit: String| {
            Err(SessionError::value(field, value.to_string(), limit))
        };
        ROWS.check::<u32>(self.rows)?;
        WIDTH.check::<u32>(self.range)?;
        let counters = u64::from(self.rows) * u64::from(self.range);
        if counters > MAX_COUNTERS as u64 {
            return refuse("sketch.rows x sketch.range", &counters, format!("at most {MAX_COUNTERS}"));
        }
        if self.hash == Family::Srp {
            if !self.range.is_power_of_two() {
                return refuse("sketch.range", &self.range, "a power of two with the hash srp".into());
            }
            let entries = u64::from(self.rows) * u64::from(self.range.ilog2()) * u64::from(data.width());
            if entries > MAX_ENTRIES as u64 {
                let limit = format!("at most {MAX_ENTRIES} (1 GiB of planes)");
                return refuse("sketch.rows x log2 of sketch.range x the numbers of a row", &entries, limit);
            }
        }
        if self.hash == Family::Minhash && data.scaling != Scaling::None {
            return refuse(
                "data.scaling",
                &data.scaling,
                "\"none\" with the hash minhash, which takes what is above 0".into(),
            );
        }
        let selects = session.selects();
        if data.densify && !selects {
            return refuse("data.densify", &true, "false with the task sketch".into());
        }
        if !data.classes.is_empty() && session.task == TaskKind::Sketch {
            return refuse(
                "the length of data.classes",
                &data.classes.len(),
                "0 with the task sketch, which needs none".into(),
            );
        }
        // A release has two words more.
        let words = counters + if session.privacy.noise.is_some() { 2 } else { 0 };
        if self.pairwise && words * peers as u64 > PAIRWISE_LIMIT {
            let limit = format!("at most {PAIRWISE_LIMIT} with pairwise = true");
            return refuse(
                "sketch.rows x sketch.range x the length of roster",
                &(words * peers as u64),
                limit,
            );
        }
        places("sketch.active", peers).check::<u16>(self.active)?;
        places("sketch.chosen", peers).check::<u16>(self.chosen)?;
        if self.chosen > 0 && !self.publish {
            return refuse("sketch.publish", &false, "true where peers are chosen".into());
        }
        if selects && self.pairwise {
            return refuse("sketch.pairwise", &true, "false with select, which needs distances alone".into());
        }
        let fewest = session.privacy.min_holders.max(FEWEST);
        if selects && self.chosen < fewest {
            let limit =
                format!("at least {fewest} with select ({FEWEST} for a sum, and privacy.min_holders)");
            return refuse("sketch.chosen", &self.chosen, limit);
        }
        if self.active > 0 && self.active < self.chosen {
            return refuse(
                "sketch.active",
                &self.active,
                format!("0 or at least sketch.chosen, {}", self.chosen),
            );
        }
        let temperature = self.temperature;
        check_number(
            "sketch.temperature",
            temperature,
            (0.001..=1000.0).contains(&temperature),
            "0.001 to 1000",
        )
    }

    pub(super) fn entries(&self) -> [(&'static str, Vec<u8>); 8] {
        let integer = |value: u64| value.to_le_bytes().to_vec();
        [
            ("sketch.hash", self.hash.name().as_bytes().to_vec()),
            ("sketch.rows", integer(self.rows.into())),
            ("sketch.range", integer(self.range.into())),
            ("sketch.publish", vec![u8::from(self.publish)]),
            ("sketch.pairwise", vec![u8::from(self.pairwise)]),
            ("sketch.active", integer(self.active.into())),
            ("sketch.chosen", integer(self.chosen.into())),
            ("sketch.temperature", self.temperature.to_le_bytes().to_vec()),
        ]
    }

    pub(super) fn write_toml(&self, out: &mut String) -> std::fmt::Result {
        let Self { hash, rows, range, publish, pairwise, active, chosen, temperature } = self;
        writeln!(out, "[sketch]")?;
        writeln!(
            out,
            "# \"srp\", signs of random projections, or \"minhash\" of the features that are above 0."
        )?;
        writeln!(out, "hash = \"{hash}\"")?;
        writeln!(
            out,
            "# Rows, each of so many counters (with srp a power of two); together at most {MAX_COUNTERS}."
        )?;
        writeln!(out, "rows = {rows}\nrange = {range}")?;
        writeln!(out, "# Whether every peer's distance to the global sketch is opened.")?;
        writeln!(out, "publish = {publish}")?;
        writeln!(
            out,
            "# Whether every peer's own sketch is opened, and so all distances between peers: this shows"
        )?;
        writeln!(out, "# how dense each peer's records are anywhere.")?;
        writeln!(out, "pairwise = {pairwise}")?;
        writeln!(
            out,
            "# Of the peers with a published distance so many are considered (0: all), and of these so many"
        )?;
        writeln!(
            out,
            "# drawn (0: no draw), by a softmax of inverse distances of this temperature: 0.001 to 1000."
        )?;
        writeln!(out, "active = {active}\nchosen = {chosen}\ntemperature = {temperature:?}\n")
    }
}

impl RawSketch {
    pub(super) fn resolve(self, peers: usize, select: Option<Select>) -> Result<SketchSpec, SessionError> {
        let defaults = SketchSpec::default();
        let place =
            |field, value: Option<i64>| value.map_or(Ok(0), |value| places(field, peers).check(value));
        Ok(SketchSpec {
            hash: self.hash.unwrap_or(defaults.hash),
            rows: self.rows.map_or(Ok(defaults.rows), |rows| ROWS.check(rows))?,
            range: self.range.map_or(Ok(defaults.range), |range| WIDTH.check(range))?,
            publish: self.publish.unwrap_or(select.is_some()),
            pairwise: self.pairwise.unwrap_or(defaults.pairwise),
            active: place("sketch.active", self.active)?,
            chosen: place("sketch.chosen", self.chosen)?,
            temperature: self.temperature.unwrap_or(defaults.temperature),
        })
    }
}
