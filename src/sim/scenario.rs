//! The scenario file. `simulations/README.md` documents every field, and a test compares it with this
//! module.
//!
//! A file is TOML. Each `[[variant]]` table overrides fields of the file and makes one run. In the small
//! form, `[small]` overrides fields of the file first. Unknown fields are refused, and absent fields have
//! defaults.

mod check;
mod fault;
mod settings;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::{Table, Value};

use crate::data::Contents;
use crate::privacy::Ratio;
use crate::session::{DataSpec, NoiseMode, Scaling, Session, TaskSpec, words};
use crate::tasks::{Select, kinds};

pub(crate) use fault::name as fault_name;
pub use fault::{Fault, Kind, Moment, Peers, Tamper};

/// Largest scenario file, in bytes.
const FILE_LIMIT: u64 = 1 << 20;

/// Reason why a scenario cannot be run, in one line that names the file and the field.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ScenarioError(pub String);

/// A run, as the file describes it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Scenario {
    /// Description of the scenario in one line.
    pub about: String,
    /// Number of peers.
    pub peers: u16,
    /// Seed of all randomness of the run.
    pub seed: u64,
    /// Virtual seconds after which the run is stopped.
    pub limit_s: f64,
    /// The rows.
    pub data: Data,
    /// The task.
    pub task: Task,
    /// Fields of the session file.
    pub session: SessionPart,
    /// Time-outs of the session, with their names in a session file.
    pub timing: BTreeMap<String, i64>,
    /// Limits of the session (`[limits]`), with their names in a session file.
    pub limits: BTreeMap<String, i64>,
    /// Path between two peers, unless a site or link gives another.
    pub network: Network,
    /// Groups of peers that are close to each other.
    pub site: Vec<Site>,
    /// Paths between sites or single peers.
    pub link: Vec<Link>,
    /// Work that a peer does per second.
    pub rates: Rates,
    /// Peers that are faster or slower than `rates`.
    pub speed: Vec<Speed>,
    /// Timeline of faults.
    pub fault: Vec<Fault>,
    /// Faults drawn from the seed.
    pub random: Random,
    /// Expected result.
    pub expect: Expect,
    /// Session that is run instead of `task`, `session` and `timing`.
    #[serde(skip)]
    pub played: Option<Box<Session>>,
}

impl Default for Scenario {
    fn default() -> Self {
        Self {
            about: String::new(),
            peers: 5,
            seed: 1,
            limit_s: 7200.0,
            data: Data::default(),
            task: Task::default(),
            session: SessionPart::default(),
            timing: BTreeMap::new(),
            limits: BTreeMap::new(),
            network: Network::default(),
            site: Vec::new(),
            link: Vec::new(),
            rates: Rates::default(),
            speed: Vec::new(),
            fault: Vec::new(),
            random: Random::default(),
            expect: Expect::default(),
            played: None,
        }
    }
}

/// Rows and their distribution.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Data {
    /// `digits`, or a file of rows with the label in the last column; the path is relative to the
    /// scenario's folder.
    pub set: String,
    /// With an NPY array: file of its labels.
    pub labels: String,
    /// Session file whose `[table]` describes the columns of the set, relative to the scenario's folder; if
    /// empty, the columns are numbers, or are guessed.
    pub columns_from: String,
    /// If true and the set is missing, the run is left out, and the results say so.
    pub optional: bool,
    /// Distribution of rows among the peers.
    pub split: Split,
    /// With `by-class`: number of peers that hold each class.
    pub holders: usize,
    /// With `dirichlet`: a small value gives an uneven distribution. With `mixes`: the value of the first
    /// peer.
    pub alpha: f64,
    /// With `mixes`: value of the last peer.
    pub alpha_to: f64,
    /// Percentage of rows that are reserved to measure accuracy.
    pub test_percent: u32,
    /// Maximum number of training rows; 0: all.
    pub rows: usize,
    /// Contents of the file of rows, if it is only in memory.
    #[serde(skip)]
    pub contents: Option<Contents>,
}

impl Default for Data {
    fn default() -> Self {
        Self {
            set: "digits".into(),
            labels: String::new(),
            columns_from: String::new(),
            optional: false,
            split: Split::Even,
            holders: 3,
            alpha: 0.5,
            alpha_to: 10.0,
            test_percent: 25,
            rows: 0,
            contents: None,
        }
    }
}

/// Distribution of rows among the peers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Split {
    /// Rows are shuffled, and the numbers of rows differ by at most one.
    #[default]
    Even,
    /// Each class is given to few peers, in uneven parts.
    ByClass,
    /// Each class is split into shares that are drawn from a Dirichlet distribution.
    Dirichlet,
    /// Each peer has class shares that are drawn from a Dirichlet distribution. They are uneven at the first
    /// peer and even at the last.
    Mixes,
}

/// A scenario's task.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct Task {
    /// Kind: `sum`, or the `task` of a session file.
    pub kind: String,
    /// `sum`: number of words of 4 bytes.
    pub words: u64,
    /// Scaling of the features.
    pub scaling: Scaling,
    /// True to apply a Walsh-Hadamard transform first.
    pub densify: bool,
    /// Number of peers without rows, the last ones.
    pub witnesses: u16,
    /// If some rows have labels: number of known labels of each class, over all peers.
    pub labels: usize,
    /// If some rows have labels: percentage of labelled rows, of any class, among the rows of peers that
    /// may have labels; if absent, `labels` is used.
    pub labelled_percent: Option<u32>,
    /// If some rows have labels: peers whose rows have no label.
    pub without_labels: Option<Peers>,
    /// How the training peers are drawn, as in a session file; if absent, all peers train.
    pub select: Option<Select>,
    /// All other fields: the sections of a session file, and fields of the task's first section.
    #[serde(flatten)]
    pub rest: Table,
}

impl Default for Task {
    fn default() -> Self {
        Self {
            kind: "flynn".into(),
            words: 10_000,
            scaling: Scaling::Center,
            densify: false,
            witnesses: 0,
            labels: 5,
            labelled_percent: None,
            without_labels: None,
            select: None,
            rest: Table::new(),
        }
    }
}

/// Defaults of a scenario that replace those of a session file.
const USUAL: &str = r#"
[flynn]
m = 2048
s = "0.3d"
rho = 32
gamma = 0.5
[xclp]
bits = 1024
most_rows = 0
"#;

impl Task {
    /// Returns whether the task is only a sum of random words.
    pub(crate) fn is_sum(&self) -> bool {
        self.kind == "sum"
    }

    /// Returns the session's task, for rows as in `data`.
    pub(crate) fn spec(&self, data: &DataSpec, peers: u16) -> Result<TaskSpec, ScenarioError> {
        let Some(kind) = kinds().find(|kind| kind.name == self.kind) else {
            let names: Vec<_> = kinds().map(|kind| kind.name).collect();
            let text = format!("task.kind is {:?}, must be one of sum, {}", self.kind, names.join(", "));
            return Err(ScenarioError(text));
        };
        let mut given = Table::new();
        let mut own = Table::new();
        for (name, value) in self.rest.clone() {
            let to = if value.is_table() { &mut given } else { &mut own };
            to.insert(name, value);
        }
        if let Some(first) = kind.sections.first().filter(|_| !own.is_empty()) {
            let section = given.entry(first.name).or_insert_with(|| Value::Table(Table::new()));
            section.as_table_mut().into_iter().for_each(|section| section.extend(own.clone()));
        }
        let usual = USUAL.parse().map_err(|error| syntax(USUAL, &error))?;
        TaskSpec::from_sections(kind, self.select, &given, usual, data, peers.into())
            .map_err(|error| ScenarioError(format!("task: {error}")))
    }
}

/// Fields of the session file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SessionPart {
    /// Minimum number of members of a view.
    pub min_peers: Option<u16>,
    /// Minimum number of peers that hold a class; a class with fewer is refused.
    pub min_contributors: Option<u16>,
    /// Share of the peers that may collude.
    pub collusion_threshold: Option<f64>,
    /// Budget of differential privacy.
    pub epsilon: Option<Ratio>,
    /// Number of counts of a release.
    pub top: Option<u32>,
    /// Unit that the budget protects.
    pub mode: NoiseMode,
}

/// The connections that peers keep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Connections {
    /// Each peer connects to all others, like the libp2p node.
    #[default]
    Mesh,
    /// Each peer connects to the committee, and along the tree of each view.
    Committee,
}

/// A path between two peers.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Network {
    /// Connections that peers keep.
    pub connections: Connections,
    /// One-way latency, in milliseconds.
    pub latency_ms: f64,
    /// Maximum of the uniform jitter, in milliseconds.
    pub jitter_ms: f64,
    /// Bandwidth of each direction of each connection, megabits per second.
    pub bandwidth_mbit: f64,
    /// Time after which a silent connection is closed, in milliseconds.
    pub silence_ms: f64,
}

impl Default for Network {
    fn default() -> Self {
        Self {
            connections: Connections::Mesh,
            latency_ms: 0.5,
            jitter_ms: 0.2,
            bandwidth_mbit: 1000.0,
            silence_ms: 7250.0,
        }
    }
}

/// Peers that are close to each other.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Site {
    /// Name of the site in links and faults.
    pub name: String,
    /// Peers of the site.
    pub peers: Peers,
    /// Latency within the site; see [`Network`].
    pub latency_ms: Option<f64>,
    /// Jitter within the site; see [`Network`].
    pub jitter_ms: Option<f64>,
    /// Bandwidth within the site; see [`Network`].
    pub bandwidth_mbit: Option<f64>,
}

/// A path between two sites or two peers.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Two names of sites, or two numbers of peers.
    pub between: (End, End),
    /// Latency; see [`Network`].
    pub latency_ms: Option<f64>,
    /// Jitter; see [`Network`].
    pub jitter_ms: Option<f64>,
    /// Bandwidth; see [`Network`].
    pub bandwidth_mbit: Option<f64>,
}

/// One end of a link.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum End {
    /// A peer.
    Peer(u16),
    /// A site.
    Site(String),
}

/// Work that a peer of speed 1 does per second. `flyswarm simulate --calibrate` measures these rates.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rates {
    /// Entries of the lifting matrix that are drawn.
    pub matrix: f64,
    /// Additions when rows are lifted: m x s per row.
    pub lift: f64,
    /// Sums that winner-take-all reads: m per row.
    pub select: f64,
    /// Bytes to which one mask or pad is added.
    pub mask: f64,
    /// Bytes of chunks that are added or digested.
    pub add: f64,
    /// Signatures that are made or checked, and shares that are checked.
    pub verify: f64,
    /// Keys that are agreed on. A share that is opened counts as two.
    pub agree: f64,
    /// Messages that are read and answered.
    pub message: f64,
}

impl Default for Rates {
    fn default() -> Self {
        // Rates of one core of a 2-core virtual machine of 2026, rounded; `--calibrate` measures another
        // machine.
        Self {
            matrix: 7e7,
            lift: 5e10,
            select: 1.2e9,
            mask: 6e9,
            add: 4e9,
            verify: 15_000.0,
            agree: 12_000.0,
            message: 200_000.0,
        }
    }
}

/// Peers that are faster or slower.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Speed {
    /// Peers with this speed.
    pub peers: Peers,
    /// Factor on the rates.
    pub factor: f64,
}

/// Faults that are drawn from the seed.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Random {
    /// Number of faults.
    pub faults: u32,
    /// Kinds of faults: crash, restart, pause, partition, slow-link.
    pub kinds: Vec<Kind>,
    /// Percentage of the crashed peers that return.
    pub return_percent: u32,
    /// Time before which the faults occur, in seconds.
    pub within_s: f64,
    /// Time in seconds at which all faults end and all peers run. 0 means that there is no such time.
    pub heal_s: f64,
}

impl Default for Random {
    fn default() -> Self {
        let kinds =
            vec![Kind::Crash, Kind::Crash, Kind::Restart, Kind::Pause, Kind::SlowLink, Kind::Partition];
        Self { faults: 0, kinds, return_percent: 50, within_s: 2.0, heal_s: 20.0 }
    }
}

/// Expected result. A run with another result has failed.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Expect {
    /// Number of peers that have the result.
    pub finished: Option<u16>,
    /// `flynn`: true if the model equals the pooled model of all peers' rows, bit for bit; `fedavg`:
    /// true if it equals the result of its members' rows in one place.
    pub pooled: Option<bool>,
    /// `flynn`: minimum accuracy.
    pub accuracy: Option<f64>,
    /// `sketch`: minimum Spearman correlation between the ranking of the peers by distance and their
    /// ranking by the total variation of their classes.
    pub spearman: Option<f64>,
    /// Maximum number of views.
    pub views: Option<u64>,
    /// Peers that are blamed; no other peer may be blamed.
    pub blamed: Option<Peers>,
}

/// A scenario file, which has one or more runs.
#[derive(Clone, Debug)]
pub struct File {
    /// Name of the file without its extension.
    pub name: String,
    /// Folder of the file; paths of data are relative to it.
    pub folder: PathBuf,
    /// Description of the scenarios in one line.
    pub about: String,
    /// Runs with their names.
    pub runs: Vec<(String, Scenario)>,
}

impl File {
    /// Reads a scenario file. If `small` is true, reads its small form.
    ///
    /// # Errors
    /// [`ScenarioError`].
    pub fn load(path: &Path, small: bool) -> Result<Self, ScenarioError> {
        let failed = |text: String| ScenarioError(format!("{}: {text}", path.display()));
        let size = std::fs::metadata(path).map_err(|error| failed(error.to_string()))?.len();
        if size > FILE_LIMIT {
            return Err(failed(format!("has {size} bytes, the limit of a scenario file is {FILE_LIMIT}")));
        }
        let text = std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
        let name = path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        Self::parse(&text, name, folder, small).map_err(|error| failed(error.0))
    }

    /// Reads the text of a scenario file.
    ///
    /// # Errors
    /// [`ScenarioError`].
    pub fn parse(text: &str, name: String, folder: PathBuf, small: bool) -> Result<Self, ScenarioError> {
        Self::of(text.parse().map_err(|error| syntax(text, &error))?, name, folder, small)
    }

    /// Makes a scenario from the fields of its file.
    pub(crate) fn of(
        mut table: Table,
        name: String,
        folder: PathBuf,
        small: bool,
    ) -> Result<Self, ScenarioError> {
        let over = take_table(&mut table, "small")?;
        let variants = take_variants(&mut table)?;
        if small && let Some(over) = over {
            lay_over(&mut table, over);
        }
        let mut runs = Vec::new();
        for (i, mut variant) in variants.into_iter().enumerate() {
            let Some(Value::String(name)) = variant.remove("name") else {
                return Err(ScenarioError(format!("variant {} has no name", i + 1)));
            };
            let mut run = table.clone();
            lay_over(&mut run, variant);
            let scenario =
                resolve(run).map_err(|error| ScenarioError(format!("variant {name:?}: {}", error.0)))?;
            runs.push((name, scenario));
        }
        if runs.is_empty() {
            runs.push((name.clone(), resolve(table)?));
        }
        let about = runs[0].1.about.clone();
        Ok(Self { name, folder, about, runs })
    }
}

fn resolve(table: Table) -> Result<Scenario, ScenarioError> {
    let scenario: Scenario = Value::Table(table).try_into().map_err(|error| one_line(&error))?;
    scenario.check()?;
    Ok(scenario)
}

fn one_line(error: &toml::de::Error) -> ScenarioError {
    let words: Vec<_> = error.to_string().split_whitespace().map(str::to_owned).collect();
    ScenarioError(words::plain(&words.join(" ")))
}

fn syntax(text: &str, error: &toml::de::Error) -> ScenarioError {
    let at = error.span().map_or(text.len(), |span| span.start);
    let line = text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1;
    let message: Vec<&str> = error.message().split_whitespace().collect();
    ScenarioError(format!("line {line}: {}", words::plain(&message.join(" "))))
}

fn take_table(table: &mut Table, name: &str) -> Result<Option<Table>, ScenarioError> {
    match table.remove(name) {
        None => Ok(None),
        Some(Value::Table(inner)) => Ok(Some(inner)),
        Some(_) => Err(ScenarioError(format!("{name} is not a table"))),
    }
}

fn take_variants(table: &mut Table) -> Result<Vec<Table>, ScenarioError> {
    match table.remove("variant") {
        None => Ok(Vec::new()),
        Some(Value::Array(items)) => items
            .into_iter()
            .map(|item| match item {
                Value::Table(inner) => Ok(inner),
                _ => Err(ScenarioError("variant is not a table".into())),
            })
            .collect(),
        Some(_) => Err(ScenarioError("variant must be written as [[variant]]".into())),
    }
}

/// Writes the values of `over` into `table`. Tables are merged, all other values are replaced.
fn lay_over(table: &mut Table, over: Table) {
    for (key, value) in over {
        match (table.get_mut(&key), value) {
            (Some(Value::Table(below)), Value::Table(above)) => lay_over(below, above),
            (_, value) => {
                table.insert(key, value);
            }
        }
    }
}
