//! The session file as text: reading it, and writing it with a comment for every field.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde::Deserialize;

use super::noise::RawNoise;
use super::rules::{self, FILE_LIMIT, SessionError, TIMING};
use super::size::{Size, Sizes};
use super::sketch::{RawSketch, Select};
use super::xclp::RawXclp;
use super::{
    COUNCIL, DataSpec, Entry, FlynnSpec, NoiseMode, Privacy, Scaling, Score, Session, Setting, TaskKind,
    Timing, TuneSpec, words,
};
use crate::model::readout::Readout;

/// The file as it stands: every integer wide enough to be judged by our own rules, sizes not yet resolved.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSession {
    name: String,
    task: TaskKind,
    select: Option<Select>,
    min_peers: Option<i64>,
    data: RawData,
    flynn: Option<RawFlynn>,
    tune: Option<RawTune>,
    xclp: Option<RawXclp>,
    sketch: Option<RawSketch>,
    #[serde(default)]
    privacy: RawPrivacy,
    #[serde(default)]
    timing: BTreeMap<String, i64>,
    roster: Vec<RawEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawData {
    features: i64,
    #[serde(default)]
    columns: Vec<String>,
    #[serde(default)]
    classes: Vec<String>,
    #[serde(default = "no_scaling")]
    scaling: Scaling,
    #[serde(default)]
    densify: bool,
}

fn no_scaling() -> Scaling {
    Scaling::None
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFlynn {
    m: Size,
    s: Size,
    rho: Size,
    gamma: f64,
    #[serde(default)]
    score: Score,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTune {
    folds: Option<i64>,
    setting: Vec<RawSetting>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSetting {
    #[serde(default = "no_scaling")]
    scaling: Scaling,
    #[serde(default)]
    densify: bool,
    m: Size,
    s: Size,
    rho: Size,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPrivacy {
    min_holders: Option<i64>,
    colluding: Option<f64>,
    epsilon: Option<f64>,
    top: Option<i64>,
    mode: Option<NoiseMode>,
    colluders: Option<i64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawEntry {
    name: String,
    peer_id: String,
    #[serde(default)]
    addresses: Vec<String>,
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
        let raw: RawSession = toml::from_str(text).map_err(|error| syntax(text, &error))?;
        raw.resolve()?.check()
    }

    /// Reads a session file.
    ///
    /// # Errors
    /// [`SessionError::File`] around any of the others.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, SessionError> {
        let path = path.as_ref();
        read(path)
            .and_then(|text| Self::parse(&text))
            .map_err(|source| SessionError::File { path: path.into(), source: Box::new(source) })
    }

    /// The default of `min_peers`: the smallest that can work, [`TaskKind::smallest_view`].
    #[must_use]
    pub fn default_min_peers(task: TaskKind, roster: usize) -> u16 {
        u16::try_from(task.smallest_view(roster)).unwrap_or(u16::MAX)
    }

    /// The text of a session file with a comment for every field. Reading it gives this session again.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let mut out = String::new();
        self.write_toml(&mut out).unwrap_or_else(|_| unreachable!("BUG: writing to a string cannot fail"));
        out
    }

    fn write_toml(&self, out: &mut String) -> std::fmt::Result {
        let Self { name, task, min_peers, data, flynn, tune, xclp, sketch, privacy, timing, roster } = self;
        let peers = roster.len();
        writeln!(
            out,
            "# A flyswarm session. Every peer needs the same values; addresses, comments and layout may differ."
        )?;
        writeln!(out, "# Session id: {}\n", self.id())?;
        writeln!(out, "name = {}", quoted(name))?;
        writeln!(
            out,
            "# What is computed: \"flynn\", a nearest-neighbour-like classifier on the rows of all peers;"
        )?;
        writeln!(
            out,
            "# \"tune\", which of several settings of it is best; \"xclp\", labels for every peer's own rows,"
        )?;
        writeln!(
            out,
            "# propagated over the rows of all; or \"sketch\", how far each peer's rows lie from all."
        )?;
        writeln!(out, "task = \"{task}\"")?;
        if self.selects() {
            writeln!(
                out,
                "# Only the rows of peers that are drawn by their sketches are learnt from; see [sketch]."
            )?;
            writeln!(out, "select = \"sketch\"")?;
        }
        writeln!(
            out,
            "# Go on with at least so many peers: {} (a majority, and what the task needs) to {peers}.",
            task.smallest_view(peers)
        )?;
        writeln!(out, "min_peers = {min_peers}\n")?;

        writeln!(out, "[data]")?;
        writeln!(out, "# Features of a row: 1 to 65536.")?;
        writeln!(out, "features = {}", data.features)?;
        let list = |names: &[String]| names.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(", ");
        if data.columns.is_empty() {
            writeln!(
                out,
                "# Names may be given to all of them: columns = [...]. Rows that have names must then have these."
            )?;
        } else {
            writeln!(out, "# Their names; rows that have names must have these, in any order.")?;
            writeln!(out, "columns = [{}]", list(&data.columns))?;
        }
        if *task != TaskKind::Sketch {
            writeln!(out, "# 2 to 1000 classes, all different; their order decides ties.")?;
            writeln!(out, "classes = [{}]", list(&data.classes))?;
        }
        writeln!(
            out,
            "# \"none\", \"unit-norm\" (each row), \"center\" or \"standard\" (over all peers), or"
        )?;
        writeln!(
            out,
            "# {{ range = {{ lo = 0.0, hi = 255.0 }} }} (mapped to 0..1), or {{ soft-bins = {{ bins = 2 }} }} (2 to 64 for each feature)."
        )?;
        writeln!(out, "scaling = {}", data.scaling.to_toml())?;
        writeln!(
            out,
            "# Random signs, zero-padding to a power of two and a Walsh-Hadamard transform after scaling."
        )?;
        writeln!(out, "densify = {}\n", data.densify)?;

        match (xclp, sketch) {
            (Some(xclp), _) => xclp.write_toml(out)?,
            (_, sketch) => {
                if task.trains() {
                    flynn.write_toml(data, out)?;
                }
                sketch.iter().try_for_each(|sketch| sketch.write_toml(out))?;
            }
        }
        if let Some(tune) = tune {
            writeln!(out, "[tune]")?;
            writeln!(
                out,
                "# Parts of every peer's rows, each scored once by what was learnt from the others: 2 to 20."
            )?;
            writeln!(out, "folds = {}\n", tune.folds)?;
            writeln!(
                out,
                "# What is compared beside the setting above: 1 to 64 settings, m and s as numbers or multiples"
            )?;
            writeln!(out, "# of their own d. The counts of all of them, in every fold, make at most 1 GiB.")?;
            for Setting { scaling, densify, m, s, rho } in &tune.settings {
                writeln!(out, "[[tune.setting]]\nscaling = {}", scaling.to_toml())?;
                writeln!(out, "densify = {densify}\nm = {m}\ns = {s}\nrho = {rho}\n")?;
            }
        }

        writeln!(out, "[privacy]")?;
        writeln!(out, "# A class held by fewer peers is refused: 1 to {peers}.")?;
        writeln!(out, "min_holders = {}", privacy.min_holders)?;
        writeln!(
            out,
            "# Share of the peers that may collude without learning one peer's part: 0.01 to 0.99."
        )?;
        writeln!(out, "colluding = {:?}", privacy.colluding)?;
        if let Some(noise) = &privacy.noise {
            noise.write_toml(out)?;
        }
        writeln!(out)?;

        writeln!(out, "[timing]")?;
        for field in &TIMING {
            writeln!(out, "# {}: {} to {}.", capital(field.about), field.limit.lo, field.limit.hi)?;
            writeln!(out, "{} = {}", field.name(), (field.get)(timing))?;
        }

        writeln!(
            out,
            "\n# The peers, {} of them. Addresses (multiaddresses) may be left out where mDNS finds the peer.",
            peers
        )?;
        for entry in roster {
            writeln!(out, "\n[[roster]]")?;
            writeln!(out, "name = {}", quoted(&entry.name))?;
            writeln!(out, "peer_id = \"{}\"", entry.key)?;
            let addresses: Vec<String> = entry.addresses.iter().map(|address| quoted(address)).collect();
            writeln!(out, "addresses = [{}]", addresses.join(", "))?;
        }
        Ok(())
    }
}

impl FlynnSpec {
    fn write_toml(&self, data: &DataSpec, out: &mut String) -> std::fmt::Result {
        writeln!(out, "[flynn]")?;
        writeln!(
            out,
            "# d = {}, the features (times the soft bins; with densify: padded to a power of two).",
            data.dimension()
        )?;
        writeln!(
            out,
            "# Bits of a hash: a number, or a multiple of d such as \"256d\". The counts need m x classes x 4 bytes."
        )?;
        writeln!(out, "m = {}", self.m)?;
        writeln!(out, "# Features that a bit looks at: 2 to d, or a multiple of d such as \"0.1d\".")?;
        writeln!(out, "s = {}", self.s)?;
        writeln!(out, "# Bits set in a hash: 1 to m, or a multiple of m such as \"0.001m\".")?;
        writeln!(out, "rho = {}", self.rho)?;
        writeln!(
            out,
            "# Decay of a bit's weight each time it is set: from 0 to below 1; log scores add 1 - gamma to counts."
        )?;
        writeln!(out, "gamma = {:?}", self.gamma)?;
        writeln!(
            out,
            "# What counts mean at prediction: \"decay\" (the paper's), \"balanced-decay\", \"log\" or \"balanced-log\"."
        )?;
        writeln!(out, "score = \"{}\"\n", self.score)
    }
}

impl Scaling {
    /// As the value of `scaling` in a session file.
    #[must_use]
    pub fn to_toml(self) -> String {
        match self {
            Self::Range { lo, hi } => format!("{{ range = {{ lo = {}, hi = {} }} }}", single(lo), single(hi)),
            Self::SoftBins { bins } => format!("{{ soft-bins = {{ bins = {bins} }} }}"),
            other => format!("\"{other}\""),
        }
    }
}

impl Timing {
    /// Sets one time by the name it has in the file; `value` may come from outside.
    ///
    /// # Errors
    /// [`SessionError::Value`] when there is no such field or the value is out of range.
    pub fn set(&mut self, name: &str, value: i64) -> Result<(), SessionError> {
        let Some(field) = TIMING.iter().find(|field| field.name() == name) else {
            let names: Vec<&str> = TIMING.iter().map(rules::TimingField::name).collect();
            return Err(SessionError::value(
                "a field of timing",
                format!("{name:?}"),
                format!("one of {}", names.join(", ")),
            ));
        };
        (field.set)(self, field.limit.check(value)?);
        Ok(())
    }
}

impl RawSession {
    /// The numbers in their types; what else there is to check is left to [`Session::check`].
    fn resolve(self) -> Result<Session, SessionError> {
        rules::check_roster(self.task, self.roster.len())?;
        let roster = self.roster.into_iter().map(RawEntry::resolve).collect::<Result<Vec<_>, _>>()?;
        let data = DataSpec {
            features: rules::FEATURES.check(self.data.features)?,
            columns: self.data.columns,
            classes: self.data.classes,
            scaling: self.data.scaling,
            densify: self.data.densify,
        };
        data.check()?;
        let flynn = match (self.flynn, self.task) {
            (None, TaskKind::Xclp | TaskKind::Sketch) => FlynnSpec::NONE,
            (Some(flynn), TaskKind::Flynn | TaskKind::Tune) => {
                Sizes { m: flynn.m, s: flynn.s, rho: flynn.rho }
                    .resolve(&data, Readout { score: flynn.score, gamma: flynn.gamma })?
            }
            (None, task) => {
                return Err(SessionError::value("task", task, "xclp or sketch where there is no [flynn]"));
            }
            (Some(_), task) => {
                return Err(SessionError::value("task", task, "flynn or tune where there is a [flynn]"));
            }
        };
        let select = self.select;
        if select.is_some() && self.task != TaskKind::Flynn {
            return Err(SessionError::value("task", self.task, "flynn where there is a select"));
        }
        let xclp = match (self.xclp, self.task) {
            (raw, TaskKind::Xclp) => Some(raw.unwrap_or_default().resolve(data.features)?),
            (None, _) => None,
            (Some(_), task) => {
                return Err(SessionError::value("task", task, "xclp where there is an [xclp]"));
            }
        };
        let sketch = match (self.sketch, self.task) {
            (raw, TaskKind::Sketch) => Some(raw.unwrap_or_default().resolve(roster.len(), None)?),
            (raw, TaskKind::Flynn) if select.is_some() => {
                Some(raw.unwrap_or_default().resolve(roster.len(), select)?)
            }
            (None, _) => None,
            (Some(_), task) => {
                let limit = "sketch where there is a [sketch], or flynn with select = \"sketch\"";
                return Err(SessionError::value("task", task, limit));
            }
        };
        let tune = self.tune.map(|tune| tune.resolve(&data)).transpose()?;
        let min_peers = match self.min_peers {
            Some(number) => rules::min_peers(self.task, roster.len()).check(number)?,
            None => Session::default_min_peers(self.task, roster.len()),
        };
        let mut privacy = Privacy::default();
        if let Some(number) = self.privacy.min_holders {
            privacy.min_holders = rules::min_holders(roster.len()).check(number)?;
        }
        if let Some(share) = self.privacy.colluding {
            privacy.colluding = share;
        }
        let RawPrivacy { epsilon, top, mode, colluders, .. } = self.privacy;
        let counts = flynn.m as usize * data.classes.len();
        privacy.noise = RawNoise { epsilon, top, mode, colluders }.resolve(
            self.task,
            counts,
            (min_peers, roster.len().min(COUNCIL) / 2 + 1),
        )?;
        let mut timing = Timing::default();
        for (name, value) in self.timing {
            timing.set(&name, value)?;
        }
        Ok(Session {
            name: self.name,
            task: self.task,
            min_peers,
            data,
            flynn,
            tune,
            xclp,
            sketch,
            privacy,
            timing,
            roster,
        })
    }
}

impl RawTune {
    fn resolve(self, data: &DataSpec) -> Result<TuneSpec, SessionError> {
        let folds = self.folds.map_or(Ok(TuneSpec::FOLDS), |folds| rules::FOLDS.check(folds))?;
        let settings = self.setting.into_iter().enumerate().map(|(index, raw)| {
            let RawSetting { scaling, densify, m, s, rho } = raw;
            let rows = DataSpec { scaling, densify, ..data.clone() };
            let resolved = rows.check().and_then(|()| {
                Sizes { m, s, rho }.resolve(&rows, Readout { score: Score::Decay, gamma: 0.0 })
            });
            let FlynnSpec { m, s, rho, .. } =
                resolved.map_err(|error| rules::of_setting(error, index + 1))?;
            Ok(Setting { scaling, densify, m, s, rho })
        });
        Ok(TuneSpec { folds, settings: settings.collect::<Result<_, SessionError>>()? })
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

fn read(path: &Path) -> Result<String, SessionError> {
    let mut bytes = Vec::new();
    File::open(path)?.take(FILE_LIMIT as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > FILE_LIMIT {
        return Err(SessionError::TooLarge { limit: FILE_LIMIT });
    }
    String::from_utf8(bytes).map_err(|_| SessionError::NotText)
}

fn syntax(text: &str, error: &toml::de::Error) -> SessionError {
    let at = error.span().map_or(text.len(), |span| span.start);
    let line = text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1;
    let message: Vec<&str> = error.message().split_whitespace().collect();
    SessionError::Syntax { line, message: words::plain(&message.join(" ")) }
}

/// A text as a TOML string.
fn quoted(text: &str) -> String {
    toml::Value::String(text.into()).to_string()
}

/// A binary32 as a TOML float (which readers take for a binary64) that rounds back to the same: the short
/// form if it does.
fn single(value: f32) -> String {
    let short = format!("{value:?}");
    match short.parse::<f64>() {
        #[expect(clippy::cast_possible_truncation, reason = "rounding as the reader does is the point")]
        Ok(wide) if wide as f32 == value => short,
        _ => format!("{:?}", f64::from(value)),
    }
}

/// The sentence with its first letter (ASCII) in upper case.
fn capital(text: &str) -> String {
    let (first, rest) = text.split_at(1);
    first.to_uppercase() + rest
}
