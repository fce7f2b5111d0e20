//! `flyswarm demo`: a session of several real nodes on this machine, and the same computation in one place.
//!
//! Each task brings a [`Scene`]: its session, the rows of each peer, and how to judge what the peers have.

mod fedavg;
mod flynn;
mod nodes;
mod sketch;
mod xclp;

use std::fs;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use self::nodes::{Ended, Nodes};
use super::dashboard::parse_address;
use super::id::{new_run, random};
use super::noise::{NoiseArguments, TOP};
use super::simulate::columns;
use super::{Failure, written};
use crate::crypto::identity::Identity;
use crate::data::Dataset;
use crate::session::{
    CommitteeSpec, DataSpec, Entry, NoiseSpec, Privacy, Scaling, Session, TaskSpec, Timing,
};
use crate::tasks::Hamming;

/// Holders of each class among the peers.
const HOLDERS: usize = 3;
/// Share of the rows that nobody trains on, percent.
const TEST_PERCENT: u32 = 25;
/// Peers that are drawn.
const CHOSEN: u16 = 3;
/// If some are drawn: concentration of the first peer's class mix and of the last one's.
const ALPHAS: (f64, f64) = (0.1, 10.0);
/// Names of the peers.
const NAMES: [&str; 16] = [
    "alice", "bob", "carol", "dave", "erin", "frank", "grace", "heidi", "ivan", "judy", "kim", "leo",
    "mallory", "nina", "olga", "peggy",
];

/// Run a session of several nodes on this machine, and compare the result with the same from pooled rows
#[derive(Debug, Args)]
pub(super) struct Demo {
    /// flynn (train a classifier), xclp (label rows together), sketch (compare the peers' rows), fedavg
    /// (train a network in rounds) or fedavg-xclp (the same with few labels)
    #[arg(value_name = "TASK", default_value = "flynn")]
    #[arg(value_parser = ["flynn", "xclp", "sketch", "fedavg", "fedavg-xclp"])]
    task: String,
    /// Number of nodes, 3 to 16 [default: 5, with the task sketch or --select 7]
    #[arg(long, value_parser = clap::value_parser!(u16).range(3..=16))]
    peers: Option<u16>,
    /// How rows are split and dealt; the peers agree on the session's own seed
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// With the task flynn: train only on three peers, sampled by sketch distance; their rows differ
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

/// What a task's scene is made for.
struct Wish<'a> {
    task: &'a str,
    peers: usize,
    /// Of splitting and dealing.
    seed: [u8; 8],
    noise: Option<NoiseSpec>,
    select: bool,
    hamming: Hamming,
}

/// The rows of a peer.
#[derive(Clone)]
struct Part {
    /// All of them with their true labels.
    rows: Dataset,
    /// The labels that the peer has; empty if the task looks at none.
    labels: Vec<Option<u16>>,
}

/// A task's part of the demo.
struct Scene {
    task: TaskSpec,
    scaling: Scaling,
    privacy: Privacy,
    parts: Vec<Part>,
    judge: Judge,
}

/// Compares what the peers have with the computation in one place; gives one line as its error.
type Judge = Box<dyn FnOnce(&Session, &[Ended]) -> Result<Verdict, String>>;

/// What came out.
struct Verdict {
    /// Whether all peers have what they must have.
    equal: bool,
    /// That in a sentence.
    says: String,
    /// Fields of the result.
    fields: Value,
    /// Fields of each peer.
    peers: Vec<Value>,
    /// The peers whose rows are in it, if not those of the last sum.
    members: Option<Value>,
    /// More columns of the table of peers: their heads, and a line of cells for each peer.
    heads: &'static [&'static str],
    cells: Vec<Vec<String>>,
    /// Lines below the table.
    notes: Vec<String>,
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

impl Part {
    /// Rows whose labels are all known.
    fn labelled(rows: Dataset) -> Self {
        let labels = rows.labels().iter().copied().map(Some).collect();
        Self { rows, labels }
    }

    /// As CSV: the label last, empty if it is not known.
    fn csv(&self) -> String {
        let mut text = String::new();
        for row in 0..self.rows.rows() {
            let mut fields: Vec<String> = self.rows.row(row).iter().map(ToString::to_string).collect();
            if let Some(label) = self.labels.get(row) {
                fields.push(
                    label.map_or(String::new(), |label| self.rows.classes()[usize::from(label)].clone()),
                );
            }
            text += &(fields.join(",") + "\n");
        }
        text
    }
}

impl Demo {
    pub(super) fn run(self, out: &mut dyn Write) -> Result<(), Failure> {
        let folder = self.folder()?;
        let refused =
            |option: &str| Err(Failure::Input(format!("{option}: not with the task {}", self.task)));
        let (top, noisy) = match &*self.task {
            "flynn" => (TOP, true),
            "sketch" => (0, true),
            _ => (0, false),
        };
        let noise = self.noise.spec(top);
        if self.select.is_some() && self.task != "flynn" {
            return refused("--select");
        }
        if self.hamming.is_some() && self.task != "xclp" {
            return refused("--hamming");
        }
        if noise.is_some() && !noisy {
            return refused("--epsilon");
        }
        let usual = if self.task == "sketch" || self.select.is_some() { 7 } else { 5 };
        let wish = Wish {
            task: &self.task,
            peers: self.peers.map_or(usual, usize::from),
            seed: self.seed.to_le_bytes(),
            noise,
            select: self.select.is_some(),
            hamming: self.hamming.unwrap_or_default(),
        };
        let scene = match &*self.task {
            "xclp" => xclp::scene(&wish),
            "sketch" => sketch::scene(&wish),
            "fedavg" | "fedavg-xclp" => fedavg::scene(&wish),
            _ => flynn::scene(&wish),
        };
        let scene = scene.map_err(Failure::Input)?;
        let identities: Vec<_> =
            (0..wish.peers).map(|_| Ok(Identity::from_seed(*random()?))).collect::<Result<_, Failure>>()?;
        let session = session(&scene, &identities)?;
        write_file(folder.path(), "session.toml", &session.to_toml())?;
        let mut nodes = Nodes::start(self.page, folder.path(), &session, identities, scene.parts)?;
        let (ended, seconds) = nodes.wait(self.json)?;
        let verdict = (scene.judge)(&session, &ended).map_err(Failure::Session)?;
        let (equal, says) = (verdict.equal, verdict.says.clone());
        let text = if self.json {
            format!("{}\n", verdict.json(&self.task, &ended, seconds))
        } else {
            verdict.text(&ended, seconds)
        };
        written(out.write_all(text.as_bytes()), "standard output")?;
        if equal { Ok(()) } else { Err(Failure::Session(says)) }
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
}

/// The session of a scene.
fn session(scene: &Scene, identities: &[Identity]) -> Result<Session, Failure> {
    let entry = |(identity, name): (&Identity, &&str)| Entry {
        key: identity.public(),
        name: (*name).to_owned(),
        addresses: Vec::new(),
    };
    let rows = scene.parts.first().map(|part| &part.rows);
    let labelled = scene.parts.iter().any(|part| !part.labels.is_empty());
    let session = Session {
        name: "demo".into(),
        run: new_run()?,
        min_peers: Session::default_min_peers(&scene.task, identities.len()),
        task: scene.task.clone(),
        data: DataSpec {
            features: rows.map_or(0, |rows| u32::try_from(rows.features()).unwrap_or(u32::MAX)),
            classes: rows.filter(|_| labelled).map_or_else(Vec::new, |rows| rows.classes().to_vec()),
            scaling: scene.scaling,
            ..DataSpec::default()
        },
        privacy: scene.privacy,
        voting: CommitteeSpec::default(),
        relays: Vec::new(),
        timing: Timing { gather_ms: 15_000, linger_ms: 5_000, ..Timing::default() },
        roster: identities.iter().zip(&NAMES).map(entry).collect(),
    };
    session.check().map_err(|error| Failure::Input(error.to_string()))
}

fn write_file(folder: &Path, name: &str, text: &str) -> Result<(), Failure> {
    let path = folder.join(name);
    fs::write(&path, text).map_err(|error| Failure::Environment(format!("{}: {error}", path.display())))
}

/// The rows of several peers as one set.
fn together(parts: &[&Dataset]) -> Result<Dataset, String> {
    let values = parts.iter().flat_map(|part| part.values().to_vec()).collect();
    let labels = parts.iter().flat_map(|part| part.labels().to_vec()).collect();
    let (features, classes) = parts.first().map_or((0, &[][..]), |part| (part.features(), part.classes()));
    Dataset::new(features, values, labels, classes.to_vec()).map_err(|error| error.to_string())
}

/// An error as one line.
fn line(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn percent(part: f64) -> String {
    format!("{:.1}%", 100.0 * part)
}

/// The peers whose rows were drawn, in the order of the draw; none if all peers' were taken.
fn drawn(ended: &[Ended]) -> Vec<String> {
    let chosen = ended.first().and_then(|ended| ended.receipt["selection"]["chosen"].as_array());
    chosen.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// The peers in the last sum.
fn members(ended: &[Ended]) -> Value {
    let quantities = ended.first().and_then(|ended| ended.receipt["quantities"].as_array());
    quantities.and_then(|all| all.last()).map_or(json!([]), |last| last["members"].clone())
}

/// Stages in the order of the first peer: the longest time at any peer, bytes of all.
fn stages(ended: &[Ended]) -> Vec<(String, f64, u64)> {
    let of = |ended: &Ended| ended.receipt["stages"].as_array().cloned().unwrap_or_default();
    let first = ended.first().map(of).unwrap_or_default();
    let stage = |stage: &Value| {
        let same: Vec<_> = ended.iter().flat_map(of).filter(|other| other["name"] == stage["name"]).collect();
        let seconds = same.iter().filter_map(|other| other["seconds"].as_f64()).fold(0.0, f64::max);
        let bytes = same.iter().filter_map(|other| other["bytes"].as_u64()).sum();
        (stage["name"].as_str().unwrap_or_default().to_owned(), seconds, bytes)
    };
    first.iter().map(stage).collect()
}

impl Verdict {
    fn json(self, task: &str, ended: &[Ended], seconds: f64) -> Value {
        let peers = ended.iter().zip(self.peers).map(|(ended, fields)| {
            let mut peer = json!({
                "name": ended.name, "rows": ended.part.rows.rows(), "bytes_sent": ended.receipt["bytes_sent"],
            });
            merge(&mut peer, fields);
            peer
        });
        let stages = stages(ended).into_iter();
        let stages =
            stages.map(|(name, seconds, bytes)| json!({"name": name, "seconds": seconds, "bytes": bytes}));
        let mut value = json!({
            "task": task,
            "peers": peers.collect::<Vec<_>>(),
            "equal": self.equal,
            "members": self.members.unwrap_or_else(|| members(ended)),
            "stages": stages.collect::<Vec<_>>(),
            "seconds": seconds,
        });
        merge(&mut value, self.fields);
        value
    }

    fn text(self, ended: &[Ended], seconds: f64) -> String {
        let mut rows = vec![["peer", "rows", "bytes sent"].map(String::from).to_vec()];
        rows[0].extend(self.heads.iter().map(|&head| head.to_owned()));
        for (ended, cells) in ended.iter().zip(self.cells) {
            let (all, sent) = (ended.part.rows.rows().to_string(), ended.receipt["bytes_sent"].to_string());
            rows.push([ended.name.clone(), all, sent].into_iter().chain(cells).collect());
        }
        let mut text = format!("\n{}{}\n\n{}\n\n", columns(&rows), self.says, self.notes.join("\n"));
        let mut rows = vec![["stage", "seconds", "bytes"].map(String::from).to_vec()];
        rows.extend(
            stages(ended)
                .into_iter()
                .map(|(name, time, bytes)| vec![name, format!("{time:.2}"), bytes.to_string()]),
        );
        let counted = self.members.unwrap_or_else(|| members(ended));
        let counted: Vec<_> = counted.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        text += &format!("{}\nCounted: {}. {seconds:.1} s in all.\n", columns(&rows), counted.join(", "));
        text
    }
}

/// Adds fields to an object.
fn merge(into: &mut Value, fields: Value) {
    if let (Some(into), Value::Object(fields)) = (into.as_object_mut(), fields) {
        into.extend(fields);
    }
}
