//! The session file as text: reading it, and writing it with a comment for every field.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use toml::de::{DeTable, Deserializer};

use super::fields::{self, comment, field};
use super::noise::{RawNoise, RawUnit};
use super::rules::{self, FILE_LIMIT, SessionError, TIMING};
use super::run::{RawRun, RawSeries};
use super::table::{self, RawTable};
use super::task::{Name, Sections};
use super::{
    Bounds, ColumnChecks, CommitteeSpec, DataSpec, Entry, NoiseMode, Privacy, Scaling, Session, SessionId,
    TaskSpec, Timing, words,
};
use crate::tasks::Select;

/// The file as it is written, without the sections of the tasks. Its integer types are wide, so that the
/// rules of this module can check every value. Sizes may still be multiples.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSession {
    name: String,
    run_id: String,
    created: toml::value::Datetime,
    series: Option<RawSeries>,
    task: Name,
    select: Option<Select>,
    min_peers: Option<i64>,
    #[serde(default)]
    relays: Vec<String>,
    data: RawData,
    table: Option<RawTable>,
    #[serde(default)]
    columns: BTreeMap<String, Bounds>,
    #[serde(default)]
    privacy: RawPrivacy,
    #[serde(default)]
    committee: CommitteeSpec,
    #[serde(default)]
    timing: BTreeMap<String, i64>,
    #[serde(default)]
    limits: BTreeMap<String, i64>,
    roster: Vec<RawEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawData {
    features: Option<i64>,
    #[serde(default)]
    columns: Vec<String>,
    #[serde(default)]
    classes: Vec<String>,
    #[serde(default)]
    scaling: Scaling,
    #[serde(default)]
    densify: bool,
    check_columns: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPrivacy {
    min_contributors: Option<i64>,
    collusion_threshold: Option<f64>,
    epsilon: Option<f64>,
    delta: Option<f64>,
    top: Option<i64>,
    mode: Option<NoiseMode>,
    colluders: Option<i64>,
    unit: Option<RawUnit>,
    group_rows: Option<i64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawEntry {
    name: String,
    peer_id: String,
    #[serde(default)]
    addresses: Vec<String>,
}

/// Beginning of the comment that shows the session id in a file.
const ID_COMMENT: &str = "# Session id: ";

/// Puts this id into the comment of a session file, and returns the text. The text may have been edited by
/// hand.
pub(crate) fn with_id(text: &str, id: SessionId) -> String {
    let line = |line: &str| match line.starts_with(ID_COMMENT) {
        true => format!("{ID_COMMENT}{id}\n"),
        false => line.to_owned(),
    };
    text.split_inclusive('\n').map(line).collect()
}

impl Session {
    /// Reads the text of a session file (at most 1 MiB).
    ///
    /// # Errors
    /// [`SessionError::TooLarge`], [`SessionError::Syntax`], [`SessionError::Value`].
    pub fn parse(text: &str) -> Result<Self, SessionError> {
        if text.len() > FILE_LIMIT {
            return Err(SessionError::TooLarge { limit: FILE_LIMIT });
        }
        let mut file = DeTable::parse(text).map_err(|error| syntax(text, &error))?;
        let sections = Sections::split(text, file.get_mut());
        let raw = RawSession::deserialize(Deserializer::from(file))
            .map_err(|error| Sections::listed(syntax(text, &error)))?;
        raw.resolve(sections)?.check()
    }

    /// Reads a session file.
    ///
    /// # Errors
    /// [`SessionError::File`], with any of the other errors as its source.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, SessionError> {
        let path = path.as_ref();
        read(path)
            .and_then(|text| Self::parse(&text))
            .map_err(|source| SessionError::File { path: path.into(), source: Box::new(source) })
    }

    /// Returns the default of `min_peers`: [`TaskSpec::smallest_view`].
    #[must_use]
    pub fn default_min_peers(task: &TaskSpec, roster: usize) -> u16 {
        u16::try_from(task.smallest_view(roster)).unwrap_or(u16::MAX)
    }

    /// Returns the text of a session file, with a comment for every field. [`Session::parse`] reads it
    /// back as this session.
    #[must_use]
    pub fn to_toml(&self) -> String {
        self.to_toml_with(&[])
    }

    /// Like [`Session::to_toml`], with a note on each described column.
    pub(crate) fn to_toml_with(&self, notes: &[String]) -> String {
        let mut out = String::new();
        self.write_toml(notes, &mut out)
            .unwrap_or_else(|_| unreachable!("BUG: writing to a string cannot fail"));
        out
    }

    fn write_toml(&self, notes: &[String], out: &mut String) -> std::fmt::Result {
        let Self { name, run, task, min_peers, data, privacy, voting, timing, relays, roster } = self;
        let peers = roster.len();
        writeln!(
            out,
            "# A flyswarm session. All peers need the same values; addresses, comments and layout may differ."
        )?;
        writeln!(out, "{ID_COMMENT}{}\n", self.id())?;
        writeln!(out, "name = {}", quoted(name))?;
        run.write_toml(out)?;
        field(&format!("Task: {}.", task.about()), "task", quoted(task.name()), out)?;
        if self.selects() {
            let about = "Only peers that are drawn by their sketches train; see [sketch].";
            field(about, "select", quoted("sketch"), out)?;
        }
        let least = task.smallest_view(peers);
        let about = format!(
            "The session continues if this number of peers is present. The others may be away. {least} (a \
             majority, and the minimum of the task) to {peers}."
        );
        field(&about, "min_peers", min_peers, out)?;
        if !relays.is_empty() {
            let about = "For peers that cannot dial each other; `flyswarm relay` prints such an address.";
            field(about, "relays", list(relays), out)?;
        }
        writeln!(out)?;
        run.write_series(out)?;

        writeln!(out, "[data]")?;
        if data.preparation.is_some() {
            writeln!(out, "# Features of a row: {}, as [table] says.", data.features)?;
        } else {
            field("Features of a row: 1 to 65536.", "features", data.features, out)?;
            write_names(&data.columns, out)?;
        }
        if !data.classes.is_empty() {
            let about = "2 to 1000 classes, all different; their order decides ties.";
            field(about, "classes", list(&data.classes), out)?;
        }
        let about = "\"none\", \"unit-norm\" (each row), \"center\" or \"standard\" (over all peers), or \
                     { range = { lo = 0.0, hi = 255.0 } } (mapped to 0..1), or { soft-bins = { bins = 2 } } \
                     (2 to 64).";
        field(about, "scaling", data.scaling.to_toml(), out)?;
        let about =
            "Random signs, zero-padding to a power of two and a Walsh-Hadamard transform after scaling.";
        field(about, "densify", data.densify, out)?;
        data.checks.write_field(out)?;
        writeln!(out)?;
        data.checks.write_toml(out)?;
        if let Some(preparation) = &data.preparation {
            table::write_toml(preparation, notes, out)?;
        }

        task.write_toml(data, out)?;

        writeln!(out, "[privacy]")?;
        let about = format!("A class is refused if fewer peers have rows of it: 1 to {peers}.");
        field(&about, "min_contributors", privacy.min_contributors, out)?;
        let about = "Share of the peers that may collude without learning one peer's part: 0.01 to 0.99.";
        field(about, "collusion_threshold", format_args!("{:?}", privacy.collusion_threshold), out)?;
        if let Some(noise) = &privacy.noise {
            noise.write_toml(out)?;
        }
        writeln!(out)?;

        voting.write_toml(out, peers)?;
        for (section, rows) in &TIMING {
            writeln!(out, "[{section}]")?;
            fields::write(rows, timing, out)?;
            writeln!(out)?;
        }
        writeln!(
            out,
            "# The {} peers. Addresses (multiaddresses) may be left out if mDNS finds the peer.",
            peers
        )?;
        for entry in roster {
            writeln!(out, "\n[[roster]]")?;
            writeln!(out, "name = {}", quoted(&entry.name))?;
            writeln!(out, "peer_id = \"{}\"", entry.key)?;
            writeln!(out, "addresses = {}", list(&entry.addresses))?;
        }
        Ok(())
    }
}

/// Formats texts as a TOML list of strings.
pub(crate) fn list(texts: &[String]) -> String {
    format!("[{}]", texts.iter().map(|text| quoted(text)).collect::<Vec<_>>().join(", "))
}

fn write_names(columns: &[String], out: &mut String) -> std::fmt::Result {
    if columns.is_empty() {
        let about = "They may have names: columns = [...]. Data files with names must then have these names.";
        return comment(about, out);
    }
    let about = "Their names; rows that have names must have these, in any order.";
    field(about, "columns", list(columns), out)
}

impl Scaling {
    /// Formats the scaling as the value of `scaling` in a session file.
    #[must_use]
    pub fn to_toml(self) -> String {
        match self {
            Self::Range { lo, hi } => format!("{{ range = {{ lo = {}, hi = {} }} }}", single(lo), single(hi)),
            Self::SoftBins { bins } => format!("{{ soft-bins = {{ bins = {bins} }} }}"),
            other => format!("\"{other}\""),
        }
    }
}

/// Reads the time-outs of `[timing]` and the limits of `[limits]`, with values that may come from outside.
///
/// # Errors
/// [`SessionError::Value`] if the field does not exist or the value is out of range.
pub(crate) fn timing(
    timing: &BTreeMap<String, i64>,
    limits: &BTreeMap<String, i64>,
) -> Result<Timing, SessionError> {
    let mut out = Timing::default();
    for ((section, rows), values) in TIMING.iter().zip([timing, limits]) {
        for (name, &value) in values {
            fields::set_whole(section, rows, &mut out, name, value)?;
        }
    }
    Ok(out)
}

impl RawSession {
    /// Converts the numbers to their types. [`Session::check`] checks all other rules.
    fn resolve(self, mut sections: Sections<'_>) -> Result<Session, SessionError> {
        rules::ROSTER.check::<u16>(self.roster.len() as i128)?;
        let roster = self.roster.into_iter().map(RawEntry::resolve).collect::<Result<Vec<_>, _>>()?;
        let mut preparation = self.table.map(RawTable::resolve).transpose()?;
        let (features, columns) = match (&mut preparation, self.data.features, self.data.columns) {
            (Some(preparation), None, columns) if columns.is_empty() => {
                preparation.normalise();
                table::check(preparation)?;
                (preparation.width() as i64, preparation.features())
            }
            (Some(_), ..) => {
                let expected = "absent if there is a [table], because they follow from it";
                return Err(SessionError::value("data.features or data.columns", "given", expected));
            }
            (None, Some(features), columns) => (features, columns),
            (None, None, _) => {
                let expected = "a number, or a [table] that describes the columns";
                return Err(SessionError::value("data.features", "absent", expected));
            }
        };
        let mut data = DataSpec {
            features: rules::FEATURES.check(features)?,
            columns,
            classes: self.data.classes,
            scaling: self.data.scaling,
            densify: self.data.densify,
            checks: ColumnChecks { compare: false, limits: self.columns },
            preparation: preparation.map(Arc::new),
        };
        data.check()?;
        let run = RawRun { id: self.run_id, created: self.created, series: self.series }.resolve()?;
        sections.select = self.select;
        let task = TaskSpec::read(self.task, sections, &data, roster.len())?;
        task.roster().check::<u16>(roster.len() as i128)?;
        let min_peers = match self.min_peers {
            Some(number) => rules::min_peers(&task, roster.len()).check(number)?,
            None => Session::default_min_peers(&task, roster.len()),
        };
        let mut privacy = Privacy::default();
        if let Some(number) = self.privacy.min_contributors {
            privacy.min_contributors = rules::min_contributors(roster.len()).check(number)?;
        }
        if let Some(share) = self.privacy.collusion_threshold {
            privacy.collusion_threshold = share;
        }
        let RawPrivacy { epsilon, delta, top, mode, colluders, unit, group_rows, .. } = self.privacy;
        let noise = RawNoise { epsilon, delta, top, mode, colluders, unit, group_rows };
        privacy.noise = noise.resolve(&task, &data, (min_peers, self.committee.quorum(roster.len())))?;
        let usual = ColumnChecks::usual(&task, privacy.noise.is_some());
        data.checks.compare = self.data.check_columns.unwrap_or(usual);
        let timing = timing(&self.timing, &self.limits)?;
        Ok(Session {
            name: self.name,
            run,
            task,
            min_peers,
            data,
            privacy,
            voting: self.committee,
            timing,
            relays: self.relays,
            roster,
        })
    }
}

impl RawEntry {
    fn resolve(self) -> Result<Entry, SessionError> {
        let key = self.peer_id.parse().map_err(|error| {
            let field = format!("peer_id of {:?}", self.name);
            SessionError::value(
                field,
                format!("{:?} ({error})", self.peer_id),
                "the peer id of an Ed25519 key",
            )
        })?;
        Ok(Entry { key, name: self.name, addresses: self.addresses })
    }
}

pub(crate) fn read(path: &Path) -> Result<String, SessionError> {
    let mut bytes = Vec::new();
    File::open(path)?.take(FILE_LIMIT as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > FILE_LIMIT {
        return Err(SessionError::TooLarge { limit: FILE_LIMIT });
    }
    String::from_utf8(bytes).map_err(|_| SessionError::NotText)
}

/// Converts an error of the TOML reader. The new error has the line in the text of the file.
pub(crate) fn syntax(text: &str, error: &toml::de::Error) -> SessionError {
    let at = error.span().map_or(text.len(), |span| span.start);
    let line = text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1;
    let message: Vec<&str> = error.message().split_whitespace().collect();
    SessionError::Syntax { line, message: words::plain(&message.join(" ")) }
}

/// Formats a text as a TOML string.
pub(crate) fn quoted(text: &str) -> String {
    toml::Value::String(text.into()).to_string()
}

/// Formats a binary32 as a TOML float. TOML readers read it as a binary64. The short form is used if it gives
/// the same binary32 again after rounding.
fn single(value: f32) -> String {
    let short = format!("{value:?}");
    match short.parse::<f64>() {
        #[expect(clippy::cast_possible_truncation, reason = "this rounds in the same way as the reader")]
        Ok(wide) if wide as f32 == value => short,
        _ => format!("{:?}", f64::from(value)),
    }
}
