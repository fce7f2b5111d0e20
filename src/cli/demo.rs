//! `flyswarm demo`: several real nodes, each a process of its own, train one classifier on the digits data,
//! label it together, or find out how unlike their parts of it are.

mod children;
mod fedavg;
mod sketch;
mod table;
mod xclp;

use std::fs;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use self::children::{Finished, Nodes};
use super::dashboard::parse_address;
use super::id::{new_run, random};
use super::noise::{NoiseArguments, TOP};
use super::{Failure, written};
use crate::crypto::identity::Identity;
use crate::data::deal;
use crate::data::digits::digits;
use crate::data::split::train_test;
use crate::data::{DataError, Dataset};
use crate::model::Model;
use crate::model::neighbours::Neighbours;
use crate::model::score::Confusion;
use crate::session::{
    ColumnChecks, CouncilSpec, DataSpec, Entry, EvaluateSpec, FlynnSpec, Hamming, ModelSpec, Privacy,
    Scaling, Score, Session, SketchSpec, TaskSpec, Timing,
};
use crate::tasks::flynn::Plan;

/// Holders of each class among the peers.
const HOLDERS: usize = 3;
/// Share of the rows that nobody trains on, percent.
const TEST_PERCENT: u32 = 25;
/// m = 128 d, s = 0.3 d, rho = 64: among the best of our trials.
const PLAIN: ModelSpec = ModelSpec { m: 8192, s: 19, rho: 64, gamma: 0.5, score: Score::Decay };
/// With noise: fewer bits, so that each count is of more rows, and fewer of them set by a row, so that one
/// row weighs less.
const PRIVATE: ModelSpec = ModelSpec { m: 256, s: 19, rho: 8, gamma: 0.9, score: Score::Decay };
/// Peers that are drawn.
const CHOSEN: u16 = 3;
/// Where some are drawn, concentration of the first peer's class mix and of the last one's.
const ALPHAS: (f64, f64) = (0.1, 10.0);
/// What people call the peers.
const NAMES: [&str; 16] = [
    "alice", "bob", "carol", "dave", "erin", "frank", "grace", "heidi", "ivan", "judy", "kim", "leo",
    "mallory", "nina", "olga", "peggy",
];

/// Runs a session of several processes on this machine, and compares what it gives with the same from pooled
/// rows
#[derive(Debug, Args)]
pub(super) struct Demo {
    /// flynn (they train one classifier), xclp (they label their rows together), sketch (how unlike their
    /// rows are), fedavg (they train a network in rounds) or fedavg-xclp (the same where few rows have
    /// labels)
    #[arg(long, value_name = "TASK", default_value = "flynn")]
    #[arg(value_parser = ["flynn", "xclp", "sketch", "fedavg", "fedavg-xclp"])]
    task: String,
    /// How many nodes, 3 to 16 [default: 5, with the task sketch or --select 7]
    #[arg(long, value_parser = clap::value_parser!(u16).range(3..=16))]
    peers: Option<u16>,
    /// How rows are split and dealt; the session's own seed is agreed on by the peers
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// With the task flynn: learn only from three peers that are drawn by the distances of their sketches;
    /// they differ in how skewed their rows are
    #[arg(long, value_name = "HOW", value_parser = ["sketch"])]
    select: Option<String>,
    /// With the task xclp, how distances are made: replicated, ot or phe, as in `session new`
    #[arg(long, value_name = "WAY")]
    hamming: Option<Hamming>,
    #[command(flatten)]
    noise: NoiseArguments,
    /// Show all nodes side by side on a page in the browser; its address is printed. A port alone is one of
    /// 127.0.0.1, 0 any that is free
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = parse_address)]
    page: Option<SocketAddr>,
    /// Print one JSON object at the end, and nothing else on standard output
    #[arg(long)]
    json: bool,
    /// Keep the session file, keys, data, models and receipts in this folder, which must not exist
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

/// Where the demo's files are: a folder that is removed at the end, or one to keep.
enum Folder {
    Temporary(tempfile::TempDir),
    Kept(PathBuf),
}

impl Folder {
    fn path(&self) -> &Path {
        match self {
            Self::Temporary(folder) => folder.path(),
            Self::Kept(folder) => folder,
        }
    }
}

/// What the demo gives its peers, and keeps for itself.
struct Setup {
    session: Session,
    task: FlynnSpec,
    train: Dataset,
    test: Dataset,
    /// Rows of each peer, in the order of `names`.
    parts: Vec<Dataset>,
    names: Vec<String>,
}

impl Demo {
    pub(super) fn run(self, out: &mut dyn Write) -> Result<(), Failure> {
        let folder = self.folder()?;
        if self.select.is_some() && self.task != "flynn" {
            return Err(Failure::Input(format!("--select: not with the task {}", self.task)));
        }
        if self.hamming.is_some() && self.task != "xclp" {
            return Err(Failure::Input(format!("--hamming: not with the task {}", self.task)));
        }
        if self.task == "xclp" {
            if self.noise.spec(TOP).is_some() {
                return Err(Failure::Input("--epsilon: not with the task xclp".into()));
            }
            return xclp::run(&self, folder.path(), out);
        }
        if self.task.starts_with("fedavg") {
            if self.noise.spec(TOP).is_some() {
                return Err(Failure::Input(format!("--epsilon: not with the task {}", self.task)));
            }
            return fedavg::run(&self, folder.path(), out);
        }
        if self.task == "sketch" {
            return sketch::run(&self, folder.path(), out);
        }
        let setup = self.prepare(folder.path())?;
        let mut nodes = Nodes::start(&self, folder.path(), &setup.session, &setup.names, "model")?;
        let finished = nodes.wait(self.json)?;
        let result = setup.compare(folder.path(), &finished)?;
        let text = if self.json { format!("{result}\n") } else { table::render(&result) };
        written(out.write_all(text.as_bytes()), "standard output")?;
        if result["equal"] != json!(true) {
            let expected =
                if setup.session.privacy.noise.is_some() { "each other" } else { "the pooled one" };
            return Err(Failure::Session(format!("the peers' models are not all equal to {expected}")));
        }
        Ok(())
    }

    fn peers(&self) -> usize {
        let unlike = self.task == "sketch" || self.select.is_some();
        self.peers.map_or(if unlike { 7 } else { 5 }, usize::from)
    }

    fn folder(&self) -> Result<Folder, Failure> {
        let failed = |path: &Path, error| Failure::Environment(format!("{}: {error}", path.display()));
        match &self.keep {
            Some(path) if path.exists() => Err(Failure::Input(format!("{}: exists", path.display()))),
            Some(path) => {
                fs::create_dir(path).map_err(|error| failed(path, error))?;
                Ok(Folder::Kept(path.clone()))
            }
            None => {
                let folder = tempfile::Builder::new().prefix("flyswarm-demo-").tempdir();
                Ok(Folder::Temporary(folder.map_err(|error| failed(&std::env::temp_dir(), error))?))
            }
        }
    }

    /// Splits and deals the rows, makes keys and the session file, and writes each peer's part.
    fn prepare(&self, folder: &Path) -> Result<Setup, Failure> {
        let (data, noise) = (digits(), self.noise.spec(TOP));
        let seed = self.seed.to_le_bytes();
        let split = train_test(data.labels(), TEST_PERCENT, &seed);
        let (train, test) = (data.subset(&split.train), data.subset(&split.test));
        let peers = self.peers();
        let (labels, classes) = (train.labels(), train.classes().len());
        let dealt = match &self.select {
            None => deal::by_classes(labels, classes, peers, HOLDERS, &seed),
            Some(_) => deal::mixes(labels, classes, peers, ALPHAS, &seed),
        };
        let dealt = dealt.map_err(|error| Failure::Input(error.to_string()))?;
        let names: Vec<_> = NAMES.iter().take(peers).map(|&name| name.to_owned()).collect();
        let mut parts = Vec::new();
        let mut roster = Vec::new();
        for (name, rows) in names.iter().zip(&dealt) {
            let identity = Identity::from_seed(*random()?);
            identity.save(folder.join(format!("{name}.key")))?;
            roster.push(Entry { key: identity.public(), name: name.clone(), addresses: Vec::new() });
            let part = train.subset(rows);
            write_csv(&folder.join(format!("{name}.csv")), &part)?;
            parts.push(part);
        }
        // Three peers with class mixes of their own rarely share every class.
        let min_holders = if self.select.is_some() { 1 } else { Privacy::default().min_holders };
        let privacy = Privacy { noise, min_holders, ..Privacy::default() };
        let sketch = SketchSpec { publish: true, chosen: CHOSEN, ..SketchSpec::default() };
        let spec = FlynnSpec {
            model: if noise.is_some() { PRIVATE } else { PLAIN },
            select: self.select.is_some().then_some(sketch),
            evaluate: (noise.is_none() && self.select.is_none()).then(EvaluateSpec::default),
        };
        let task = TaskSpec::Flynn(spec);
        let session = Session {
            name: "demo".into(),
            run: new_run()?,
            min_peers: Session::default_min_peers(&task, peers),
            task,
            data: DataSpec {
                features: u32::try_from(train.features()).unwrap_or(u32::MAX),
                columns: Vec::new(),
                classes: train.classes().to_vec(),
                scaling: if noise.is_some() { Scaling::Range { lo: 0.0, hi: 16.0 } } else { Scaling::Center },
                densify: false,
                checks: ColumnChecks::default(),
                preparation: None,
            },
            privacy,
            voting: CouncilSpec::default(),
            relays: Vec::new(),
            timing: Timing { gather_ms: 15_000, linger_ms: 5_000, ..Timing::default() },
            roster,
        }
        .check()
        .map_err(|error| Failure::Input(error.to_string()))?;
        fs::write(folder.join("session.toml"), session.to_toml())
            .map_err(|error| Failure::Environment(format!("session.toml: {error}")))?;
        Ok(Setup { session, task: spec, train, test, parts, names })
    }
}

impl Setup {
    /// Reads every peer's model back and holds it against the pooled rows.
    fn compare(&self, folder: &Path, finished: &Finished) -> Result<Value, Failure> {
        let mut peers = Vec::new();
        let mut digests = Vec::new();
        let mut first = None;
        for ((name, part), receipt) in self.names.iter().zip(&self.parts).zip(&finished.receipts) {
            let model = Model::load(&folder.join(format!("{name}.model")))?;
            digests.push(model.digest());
            peers.push(json!({
                "name": name,
                "digest": hex::encode(model.digest()),
                "accuracy": self.accuracy(&model)?,
                "rows": part.rows(),
                "bytes_sent": receipt["bytes_sent"],
                "counted": receipt["counted"],
            }));
            first.get_or_insert(model);
        }
        let first = first.ok_or_else(|| Failure::Session("no peer has a model".into()))?;
        let seed = first.sketch().parameters().seed;
        let noise = self.session.privacy.noise;
        let rules = Plan::new(self.session.clone(), self.task);
        let model_of =
            |rows: &Dataset| rules.pooled(rows, seed).map_err(|error| Failure::Session(error.to_string()));
        let all = model_of(&self.train)?;
        let drawn = finished.drawn();
        let learnt: Vec<&Dataset> = self
            .names
            .iter()
            .zip(&self.parts)
            .filter(|(name, _)| drawn.contains(name))
            .map(|(_, part)| part)
            .collect();
        let pooled = match &learnt[..] {
            [] => all.clone(),
            // Means and variances are those of all rows.
            parts => rules
                .scaled(&together(parts)?, seed, first.scaler().clone())
                .map_err(|error| Failure::Session(error.to_string()))?,
        };
        let largest = self.parts.iter().max_by_key(|part| part.rows()).unwrap_or(&self.train);
        let neighbours = Neighbours::new(&self.train).ok_or_else(|| Failure::Input("no rows".into()))?;
        let tuned = neighbours.tune();
        let neighbour_accuracy = |k| self.score(&neighbours.predict(k, &self.test));
        Ok(json!({
            "task": "flynn",
            "peers": peers,
            "pooled": {"digest": hex::encode(pooled.digest()), "accuracy": self.accuracy(&pooled)?},
            "equal": match noise {
                None => digests.iter().all(|digest| *digest == pooled.digest()),
                Some(_) => digests.windows(2).all(|pair| pair[0] == pair[1]),
            },
            "noise": noise,
            "chosen": drawn,
            "everybody": {"accuracy": self.accuracy(&all)?},
            "alone": {"accuracy": self.accuracy(&model_of(largest)?)?, "rows": largest.rows()},
            "nearest": {"accuracy": neighbour_accuracy(1)},
            "knn": {"accuracy": neighbour_accuracy(tuned.k), "k": tuned.k},
            "rows": {
                "train": if learnt.is_empty() { self.train.rows() } else { learnt.iter().map(|part| part.rows()).sum() },
                "all": self.train.rows(),
                "test": self.test.rows(),
            },
            "members": if drawn.is_empty() { finished.members() } else { json!(drawn) },
            "stages": finished.stages(),
            "seconds": finished.seconds,
        }))
    }

    fn accuracy(&self, model: &Model) -> Result<f64, Failure> {
        Ok(self.score(&model.predictor().predict(&self.test)?))
    }

    fn score(&self, predicted: &[u16]) -> f64 {
        Confusion::new(self.test.classes(), self.test.labels(), predicted).accuracy()
    }
}

/// The rows of several peers as one set.
pub(super) fn together(parts: &[&Dataset]) -> Result<Dataset, DataError> {
    let values = parts.iter().flat_map(|part| part.values().to_vec()).collect();
    let labels = parts.iter().flat_map(|part| part.labels().to_vec()).collect();
    let (features, classes) = parts.first().map_or((0, &[][..]), |part| (part.features(), part.classes()));
    Dataset::new(features, values, labels, classes.to_vec())
}

pub(super) fn write_csv(path: &Path, data: &Dataset) -> Result<(), Failure> {
    let mut text = String::new();
    for (i, &label) in data.labels().iter().enumerate() {
        for value in data.row(i) {
            text.push_str(&format!("{value},"));
        }
        text.push_str(&data.classes()[usize::from(label)]);
        text.push('\n');
    }
    fs::write(path, text).map_err(|source| DataError::Read { file: path.to_owned(), source }.into())
}
