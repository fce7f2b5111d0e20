//! `flyswarm demo`: a session of several real nodes on this machine, compared with the same computation
//! in one place.
//!
//! Each task has a scenario: `tasks/NAME/demo.toml`.

mod nodes;

use std::fs;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use serde_json::{Value, json};

use self::nodes::{Ended, Nodes};
use super::columns;
use super::dashboard::parse_address;
use super::id::{new_run, random};
use super::noise::NoiseArguments;
use super::{Failure, written};
use crate::crypto::identity::Identity;
use crate::model::neighbours::Neighbours;
use crate::model::score::Confusion;
use crate::session::{Entry, Privacy, Release, Session, Timing};
use crate::sim::participants::Participants;
use crate::sim::scenario::{File, Scenario};
use crate::tasks::compare::{self, Accuracy, DealtRows, Worth};
use crate::tasks::{Hamming, Select, Task, built_in, kinds};

/// Default number of counts that a model with noise keeps.
const TOP: u32 = 100;
/// Names of the peers.
const NAMES: [&str; 16] = [
    "alice", "bob", "carol", "dave", "erin", "frank", "grace", "heidi", "ivan", "judy", "kim", "leo",
    "mallory", "nina", "olga", "peggy",
];

/// Run a session of several nodes on this machine, and compare the result with that of all rows in one place
#[derive(Debug, Args)]
pub(super) struct Demo {
    /// Task of the demo: flynn (train a classifier), xclp (label rows together), sketch (compare the peers'
    /// rows), fedavg (train a network in rounds) or fedavg-xclp (train a network on few labels)
    #[arg(value_name = "TASK", default_value = "flynn")]
    task: String,
    /// Number of nodes, 3 to 16 [default: 5; 7 with the task sketch or --select]
    #[arg(long, value_parser = clap::value_parser!(u16).range(3..=16))]
    peers: Option<u16>,
    /// Seed that decides which rows each peer gets and which rows are held out
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// With the task flynn: train only on the rows of three peers, which are drawn by sketch distance. The
    /// demo gives the peers different mixes of classes
    #[arg(long, value_name = "HOW", value_parser = parse_select)]
    select: Option<Select>,
    /// With the task xclp: method to compute distances (replicated, ot or phe), as in `session new`
    #[arg(long, value_name = "WAY")]
    hamming: Option<Hamming>,
    #[command(flatten)]
    noise: NoiseArguments,
    /// Show all nodes side by side on a page in the browser, and print the address of the page. The default
    /// ADDRESS is 127.0.0.1; port 0 selects a free port
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = parse_address)]
    page: Option<SocketAddr>,
    /// Print the result as one JSON object, and nothing else, to standard output
    #[arg(long)]
    json: bool,
    /// Keep the session file, keys, data, models and receipts in this folder, which must not exist
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

/// Folder of the demo's files: temporary and removed at the end, or kept.
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

impl Demo {
    pub(super) fn run(self, out: &mut dyn Write) -> Result<(), Failure> {
        let folder = self.folder()?;
        let scenario = self.scenario()?;
        let dealt = Participants::new(&scenario, Path::new("")).map_err(|error| Failure::Input(error.0))?;
        let Some(rows) = dealt.rows else { return Err(Failure::Input("a demo needs rows".into())) };
        let mut identities: Vec<_> = (0..scenario.peers)
            .map(|_| Ok(Identity::from_seed(*random()?)))
            .collect::<Result<_, Failure>>()?;
        identities.sort_by_key(Identity::public);
        let session = self.session(dealt.session, &identities)?;
        write_file(folder.path(), "session.toml", &session.to_toml())?;
        let mut nodes = Nodes::start(self.page, folder.path(), &session, identities, &rows.parts)?;
        let (ended, seconds) = nodes.wait(self.json)?;
        let verdict = Verdict::new(&session, &rows, &ended).map_err(Failure::Session)?;
        let text = if self.json {
            format!("{}\n", verdict.json(&session, &ended, seconds))
        } else {
            verdict.text(&session, &ended, seconds)
        };
        written(out.write_all(text.as_bytes()), "standard output")?;
        if verdict.equal { Ok(()) } else { Err(Failure::Session(verdict.says)) }
    }

    /// Returns the variant of the task's scenario that the options select.
    fn scenario(&self) -> Result<Scenario, Failure> {
        let Some((kind, text)) =
            kinds().find_map(|kind| (kind.name == self.task).then_some((kind, kind.demo?)))
        else {
            let names: Vec<_> = kinds().filter(|kind| kind.demo.is_some()).map(|kind| kind.name).collect();
            let names = names.join(", ");
            return Err(Failure::Input(format!(
                "the task {:?} has no demo; tasks with a demo: {names}",
                self.task
            )));
        };
        let options = [
            ("select", self.select.is_some()),
            ("hamming", self.hamming.is_some()),
            ("epsilon", self.noise.spec(0).is_some()),
        ];
        let asked: Vec<_> = options.into_iter().filter_map(|(name, asked)| asked.then_some(name)).collect();
        let wanted = if asked.is_empty() { "plain".to_owned() } else { asked.join(", --") };
        let file = File::parse(text, kind.name.into(), PathBuf::new(), false)
            .map_err(|error| Failure::Input(error.0))?;
        let Some((_, mut scenario)) = file.runs.into_iter().find(|(name, _)| *name == wanted) else {
            return Err(Failure::Input(format!("--{wanted}: not with the task {}", kind.name)));
        };
        scenario.seed = self.seed;
        scenario.peers = self.peers.unwrap_or(scenario.peers);
        if let Some(way) = self.hamming {
            scenario.task.rest.insert("hamming".into(), way.name().into());
        }
        Ok(scenario)
    }

    /// Returns the session of the scenario for these peers.
    fn session(&self, dealt: Session, identities: &[Identity]) -> Result<Session, Failure> {
        let entry = |(identity, name): (&Identity, &&str)| Entry {
            key: identity.public(),
            name: (*name).to_owned(),
            addresses: Vec::new(),
        };
        let top = if matches!(dealt.task.release(&dealt.data), Release::Top(_)) { TOP } else { 0 };
        let session = Session {
            name: "demo".into(),
            run: new_run()?,
            privacy: Privacy { noise: self.noise.spec(top), ..dealt.privacy },
            timing: Timing { start_wait_ms: 15_000, linger_ms: 5_000, ..Timing::default() },
            roster: identities.iter().zip(&NAMES).map(entry).collect(),
            ..dealt
        };
        session.check().map_err(|error| Failure::Input(error.to_string()))
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

fn parse_select(text: &str) -> Result<Select, String> {
    match text {
        "sketch" => Ok(Select::Sketch),
        _ => Err("expected sketch".into()),
    }
}

fn write_file(folder: &Path, name: &str, text: &str) -> Result<(), Failure> {
    let path = folder.join(name);
    fs::write(&path, text).map_err(|error| Failure::Environment(format!("{}: {error}", path.display())))
}

/// Returns the members of the last sum.
fn members(ended: &[Ended]) -> Value {
    let aggregates = ended.first().and_then(|ended| ended.receipt["aggregates"].as_array());
    aggregates.and_then(|all| all.last()).map_or(json!([]), |last| last["members"].clone())
}

/// Returns the stages in the order of the first peer, each with the longest time at any peer and the bytes of
/// all peers.
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

/// Result of the demo.
struct Verdict {
    worth: Worth,
    /// True if all peers have the expected result.
    equal: bool,
    /// Says in a sentence whether they have it.
    says: String,
    /// Accuracy of nearest neighbours among all rows, and the number of neighbours, if there are test rows.
    nearest: Option<(f64, usize)>,
}

impl Verdict {
    /// Compares the results of the peers with the computation in one place.
    fn new(session: &Session, rows: &DealtRows, ended: &[Ended]) -> Result<Self, String> {
        let task = built_in(session).ok_or("no such task")?;
        let make = |own: &Ended| {
            let made =
                task.make(session.clone(), own.peer, rows.parts[own.peer.index()].clone(), &own.secret);
            made.map(|task| Arc::new(task) as Arc<dyn Task>)
        };
        let tasks: Vec<_> = ended.iter().map(make).collect::<Result<_, _>>()?;
        let run = compare::Ended {
            session,
            plan: &task.plan,
            rows,
            tasks: &tasks,
            secrets: ended.iter().map(|own| own.secret.clone()).collect(),
            finished: ended.iter().filter_map(|own| Some((own.peer, own.history.as_ref()?))).collect(),
        };
        let mut failures = Vec::new();
        let worth = (session.task.kind().compare)(&run, &mut failures);
        let (accuracy, ranking) = (worth.accuracy.as_ref(), worth.ranking.as_ref());
        let opened: Vec<_> = run.finished.values().map(|history| history.vectors()).collect();
        let same = opened.len() == ended.len() && opened.windows(2).all(|pair| pair[0] == pair[1]);
        // A model with noise is never equal to the model of all rows in one place.
        let exact = session.privacy.noise.is_none();
        let right = accuracy.map_or(ranking.is_some(), |accuracy| accuracy.equal || !exact)
            && ranking.is_none_or(|ranking| ranking.equal);
        let equal = same && right && failures.is_empty();
        let says = match (equal, exact) {
            (true, true) => {
                "All peers have the same result, and it equals the result from all rows in one place.".into()
            }
            (true, false) => {
                "All peers have the same result. It has noise; the result from all rows in one place has none."
                    .into()
            }
            (false, _) if failures.is_empty() => {
                "the peers' results differ from each other or from the result of all rows in one place".into()
            }
            (false, _) => failures.join("; "),
        };
        let nearest = Neighbours::new(&rows.train).filter(|_| rows.test.rows() > 0).map(|neighbours| {
            let (test, k) = (&rows.test, neighbours.tune().k);
            (Confusion::new(test.classes(), test.labels(), &neighbours.predict(k, test)).accuracy(), k)
        });
        Ok(Self { worth, equal, says, nearest })
    }

    /// Returns the drawn peers, in the order of the draw.
    fn drawn(&self) -> Vec<&'static str> {
        let chosen = self.worth.ranking.iter().flat_map(|ranking| &ranking.chosen);
        chosen.map(|&peer| NAMES[usize::from(peer)]).collect()
    }

    fn json(&self, session: &Session, ended: &[Ended], seconds: f64) -> Value {
        let peer = |own: &Ended| {
            json!({
                "name": own.name, "rows": own.rows.data.rows(), "labels": own.labels(), "digest": own.digest(),
                "bytes_sent": own.receipt["bytes_sent"], "own_rows": own.receipt["own_rows"]["included"],
            })
        };
        let stage = |(name, seconds, bytes)| json!({"name": name, "seconds": seconds, "bytes": bytes});
        let accuracy = |of: fn(&Accuracy) -> f64| json!({"accuracy": self.worth.accuracy.as_ref().map(of)});
        json!({
            "task": session.task.name(),
            "noise": session.privacy.noise,
            "peers": ended.iter().map(peer).collect::<Vec<_>>(),
            "equal": self.equal,
            "accuracy": self.worth.accuracy.as_ref().map(|accuracy| accuracy.swarm),
            "pooled": accuracy(|accuracy| accuracy.pooled),
            "alone": accuracy(|accuracy| accuracy.alone),
            "knn": self.nearest.map(|(accuracy, k)| json!({"accuracy": accuracy, "k": k})),
            "spearman": self.worth.ranking.as_ref().map(|ranking| ranking.spearman),
            "chosen": self.drawn(),
            "members": members(ended),
            "stages": stages(ended).into_iter().map(stage).collect::<Vec<_>>(),
            "seconds": seconds,
        })
    }

    fn text(&self, session: &Session, ended: &[Ended], seconds: f64) -> String {
        let mut rows = vec![["peer", "rows", "labels", "bytes sent", "result"].map(String::from).to_vec()];
        rows.extend(ended.iter().map(|own| {
            let sent = own.receipt["bytes_sent"].to_string();
            let digest = own.digest().chars().take(16).collect();
            vec![own.name.clone(), own.rows.data.rows().to_string(), own.labels().to_string(), sent, digest]
        }));
        let mut text = format!("\n{}{}\n\n", columns(&rows), self.says);
        let percent = |part: f64| format!("{:.1}%", 100.0 * part);
        if let Some(accuracy) = &self.worth.accuracy {
            let mut rows = vec![
                vec![format!("accuracy on {} rows whose labels no peer has", accuracy.rows), String::new()],
                vec![format!("  together ({})", session.task), percent(accuracy.swarm)],
                vec!["  on all rows in one place".into(), percent(accuracy.pooled)],
                vec!["  on the rows of the largest peer".into(), percent(accuracy.alone)],
            ];
            rows.extend(self.nearest.map(|(accuracy, k)| {
                vec![format!("  kNN on all rows and labels (tuned: k = {k})"), percent(accuracy)]
            }));
            text += &format!("{}\n", columns(&rows));
        }
        if let Some(ranking) = &self.worth.ranking {
            let mut rows = vec![["peer", "distance", "total variation"].map(String::from).to_vec()];
            rows.extend(ranking.peers.iter().map(|&(peer, _, distance, variation)| {
                vec![NAMES[usize::from(peer)].into(), format!("{distance:.4}"), format!("{variation:.3}")]
            }));
            let (spearman, drawn) = (ranking.spearman, self.drawn().join(", "));
            text += &format!("{}Spearman {spearman:.3}. Drawn by distance: {drawn}.\n\n", columns(&rows));
        }
        let mut rows = vec![["stage", "seconds", "bytes"].map(String::from).to_vec()];
        rows.extend(
            stages(ended)
                .into_iter()
                .map(|(name, time, bytes)| vec![name, format!("{time:.2}"), bytes.to_string()]),
        );
        let counted = members(ended);
        let counted: Vec<_> = counted.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        text + &format!("{}\nCounted: {}. {seconds:.1} s in all.\n", columns(&rows), counted.join(", "))
    }
}
