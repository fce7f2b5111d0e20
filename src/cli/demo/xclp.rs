//! `flyswarm demo --task xclp`: nodes that label their rows together, held against the same on pooled rows
//! and against each peer alone.

use std::fmt::Write as _;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};

use super::children::{Finished, Nodes};
use super::{Demo, NAMES};
use crate::cli::id::{new_run, random};
use crate::cli::{Failure, written};
use crate::crypto::identity::Identity;
use crate::crypto::stream::{Stream, derive};
use crate::data::deal::{self, shuffle};
use crate::data::digits::digits;
use crate::data::{DataError, Dataset};
use crate::model::neighbours::Neighbours;
use crate::session::{
    ColumnChecks, CouncilSpec, DataSpec, Entry, Peer, Privacy, Scaling, Session, TaskSpec, Timing, XclpSpec,
};
use crate::tasks::xclp::{Said, Xclp};

/// Labels of each class that are known, over all peers.
const LABELS: usize = 5;
/// Peers that hold rows of a class.
const HOLDERS: usize = 3;

/// A peer with rows, as the demo knows it.
struct Owner {
    name: String,
    task: Xclp,
    data: Arc<Dataset>,
    labels: Vec<Option<u16>>,
}

struct Setup {
    session: Session,
    /// In the order of the session's peers.
    owners: Vec<Owner>,
    names: Vec<String>,
}

pub(super) fn run(demo: &Demo, folder: &Path, out: &mut dyn Write) -> Result<(), Failure> {
    let setup = prepare(demo, folder)?;
    let mut nodes = Nodes::start(demo, folder, &setup.session, &setup.names, "labels.csv")?;
    let finished = nodes.wait(demo.json)?;
    let result = setup.compare(folder, &finished)?;
    let text = if demo.json { format!("{result}\n") } else { render(&result) };
    written(out.write_all(text.as_bytes()), "standard output")?;
    if result["labels_equal_centralised"] != json!(true) {
        return Err(Failure::Session("the peers' labels are not all those of the pooled rows".into()));
    }
    Ok(())
}

/// Deals the rows by class, keeps a few labels of each class, makes keys and the session file, and writes
/// each peer's part.
fn prepare(demo: &Demo, folder: &Path) -> Result<Setup, Failure> {
    let peers = demo.peers();
    let data = digits();
    let seed = demo.seed.to_le_bytes();
    let dealt = deal::by_classes(data.labels(), data.classes().len(), peers, HOLDERS, &seed)
        .map_err(|error| Failure::Input(error.to_string()))?;
    let known = known_labels(&data, &seed);
    let names: Vec<String> = NAMES.iter().take(peers).map(|&name| name.to_owned()).collect();
    let mut roster = Vec::new();
    let mut secrets = Vec::new();
    for name in &names {
        let identity = Identity::from_seed(*random()?);
        identity.save(folder.join(format!("{name}.key")))?;
        roster.push(Entry { key: identity.public(), name: name.clone(), addresses: Vec::new() });
        secrets.push(identity);
    }
    let features = u32::try_from(data.features()).unwrap_or(u32::MAX);
    let spec = XclpSpec { hamming: demo.hamming.unwrap_or_default(), ..XclpSpec::default() };
    let task = TaskSpec::Xclp(spec.clone());
    let session = Session {
        name: "demo".into(),
        run: new_run()?,
        min_peers: Session::default_min_peers(&task, names.len()),
        task,
        data: DataSpec {
            features,
            columns: Vec::new(),
            classes: data.classes().to_vec(),
            scaling: Scaling::None,
            densify: false,
            checks: ColumnChecks::default(),
            preparation: None,
        },
        privacy: Privacy::default(),
        voting: CouncilSpec::default(),
        relays: Vec::new(),
        timing: Timing { gather_ms: 15_000, linger_ms: 5_000, ..Timing::default() },
        roster,
    };
    let mut session = session;
    session.roster.sort_by_key(|entry| entry.key);
    let session = session.check().map_err(|error| Failure::Input(error.to_string()))?;
    fs::write(folder.join("session.toml"), session.to_toml())
        .map_err(|error| Failure::Environment(format!("session.toml: {error}")))?;
    let mut owners = Vec::new();
    for ((name, identity), rows) in names.iter().zip(&secrets).zip(&dealt) {
        let part = data.subset(rows);
        let labels: Vec<_> = rows.iter().map(|&row| known[row].then(|| data.labels()[row])).collect();
        write_csv(&folder.join(format!("{name}.csv")), &part, &labels)?;
        let me =
            session.peer(&identity.public()).ok_or_else(|| Failure::Input("a key without a peer".into()))?;
        let secret = derive(&*identity.seed(), "rows", &session.id().0);
        let part = Arc::new(part);
        let task = Xclp::new(session.clone(), spec.clone(), me, part.clone(), labels.clone(), &secret)
            .map_err(Failure::Input)?;
        owners.push((me, Owner { name: name.clone(), task, data: part, labels }));
    }
    owners.sort_by_key(|(peer, _): &(Peer, Owner)| *peer);
    Ok(Setup { session, owners: owners.into_iter().map(|(_, owner)| owner).collect(), names })
}

/// [`LABELS`] rows of each class, drawn from all.
pub(super) fn known_labels(data: &Dataset, seed: &[u8]) -> Vec<bool> {
    let mut rows: Vec<usize> = (0..data.rows()).collect();
    shuffle(&mut rows, &mut Stream::new(seed, "demo/labels", &[]));
    let mut left = vec![LABELS; data.classes().len()];
    let mut known = vec![false; data.rows()];
    for row in rows {
        let left = &mut left[usize::from(data.labels()[row])];
        known[row] = *left > 0;
        *left = left.saturating_sub(1);
    }
    known
}

impl Setup {
    /// Reads every peer's labels back and holds them against the truth, the pooled rows, and each peer alone.
    fn compare(&self, folder: &Path, finished: &Finished) -> Result<Value, Failure> {
        let planes = finished.planes.ok_or_else(|| Failure::Session("no peer has told the planes".into()))?;
        let pooled = |tasks: &[&Xclp]| Xclp::pooled(tasks, &planes, None).map_err(Failure::Session);
        let tasks: Vec<&Xclp> = self.owners.iter().map(|owner| &owner.task).collect();
        let (centralised, edges) = pooled(&tasks)?;
        let (mut peers, mut equal) = (Vec::new(), true);
        let (mut all, mut central, mut alone) = (Count::default(), Count::default(), Count::default());
        let receipt = |name: &str| finished.receipts.iter().find(|receipt| receipt["peer"] == name);
        for (owner, central_said) in self.owners.iter().zip(&centralised) {
            let found = owner.read(folder, self.session.data.classes.as_slice())?;
            equal &= found.iter().zip(central_said).all(|(label, said)| *label == said.label);
            let labels = |said: &[Said]| said.iter().map(|said| said.label).collect::<Vec<_>>();
            let own = owner.count(&found);
            central.add(owner.count(&labels(central_said)));
            let alone_said = pooled(&[&owner.task])?.0;
            let by_itself = owner.count(&labels(alone_said.first().map_or(&[], Vec::as_slice)));
            alone.add(by_itself);
            all.add(own);
            peers.push(json!({
                "name": owner.name,
                "rows": owner.data.rows(),
                "labels": owner.labels.iter().flatten().count(),
                "accuracy": own.share(),
                "alone": by_itself.share(),
                "bytes_sent": receipt(&owner.name).map_or(Value::Null, |receipt| receipt["bytes_sent"].clone()),
            }));
        }
        Ok(json!({
            "task": "xclp",
            "peers": peers,
            "accuracy": all.share(),
            "centralised": {"accuracy": central.share()},
            "labels_equal_centralised": equal,
            "alone": {"accuracy": alone.share()},
            "nearest": {"accuracy": self.nearest()?.share()},
            "points": self.owners.iter().map(|owner| owner.data.rows()).sum::<usize>(),
            "labels": self.owners.iter().flat_map(|owner| &owner.labels).flatten().count(),
            "edges": edges,
            "roles": finished.receipts.first().map_or(Value::Null, |receipt| receipt["roles"].clone()),
            "members": finished.members(),
            "stages": finished.stages(),
            "seconds": finished.seconds,
        }))
    }

    /// One nearest neighbour among the rows with labels of all peers.
    fn nearest(&self) -> Result<Count, Failure> {
        let mut count = Count::default();
        let (mut values, mut labels) = (Vec::new(), Vec::new());
        for owner in &self.owners {
            for (row, label) in owner.labels.iter().enumerate() {
                if let Some(label) = label {
                    values.extend(owner.data.row(row));
                    labels.push(*label);
                }
            }
        }
        let features = self.session.data.features as usize;
        let labelled = Dataset::new(features, values, labels, self.session.data.classes.clone())?;
        let neighbours = Neighbours::new(&labelled).ok_or_else(|| Failure::Input("no labels".into()))?;
        for owner in &self.owners {
            let found: Vec<_> = neighbours.predict(1, &owner.data).into_iter().map(Some).collect();
            count.add(owner.count(&found));
        }
        Ok(count)
    }
}

impl Owner {
    /// The labels that its node has written.
    fn read(&self, folder: &Path, classes: &[String]) -> Result<Vec<Option<u16>>, Failure> {
        let path = folder.join(format!("{}.labels.csv", self.name));
        let failed = |error: csv::Error| Failure::Environment(format!("{}: {error}", path.display()));
        let mut reader = csv::Reader::from_path(&path).map_err(failed)?;
        let label = |record: csv::Result<csv::StringRecord>| {
            let record = record.map_err(failed)?;
            let class = classes.iter().position(|class| Some(class.as_str()) == record.get(0));
            Ok(class.and_then(|class| u16::try_from(class).ok()))
        };
        reader.records().map(label).collect()
    }

    /// Of the rows whose label nobody was told.
    fn count(&self, found: &[Option<u16>]) -> Count {
        let rows = self.data.labels().iter().zip(&self.labels).zip(found);
        let unknown: Vec<_> = rows.filter(|((_, known), _)| known.is_none()).collect();
        let right = unknown.iter().filter(|((truth, _), found)| **found == Some(**truth)).count();
        Count { right, all: unknown.len() }
    }
}

#[derive(Clone, Copy, Default)]
struct Count {
    right: usize,
    all: usize,
}

impl Count {
    fn add(&mut self, other: Self) {
        self.right += other.right;
        self.all += other.all;
    }

    fn share(self) -> f64 {
        self.right as f64 / self.all.max(1) as f64
    }
}

pub(super) fn write_csv(path: &Path, data: &Dataset, labels: &[Option<u16>]) -> Result<(), Failure> {
    let mut text = String::new();
    for (row, label) in labels.iter().enumerate() {
        data.row(row).iter().for_each(|value| text.push_str(&format!("{value},")));
        text.push_str(label.map_or("", |label| &data.classes()[usize::from(label)]));
        text.push('\n');
    }
    fs::write(path, text).map_err(|source| DataError::Read { file: path.to_owned(), source }.into())
}

fn render(result: &Value) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write(&mut out, result);
    out
}

fn write(out: &mut String, result: &Value) -> std::fmt::Result {
    let percent = |value: &Value| value.as_f64().unwrap_or_default() * 100.0;
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let names = |value: &Value| list(value).iter().map(text).collect::<Vec<_>>().join(", ");
    writeln!(
        out,
        "\n{:<10} {:>6} {:>7} {:>12} {:>9} {:>9}",
        "peer", "rows", "labels", "bytes sent", "accuracy", "alone"
    )?;
    for peer in list(&result["peers"]) {
        writeln!(
            out,
            "{:<10} {:>6} {:>7} {:>12} {:>8.1}% {:>8.1}%",
            text(&peer["name"]),
            peer["rows"].to_string(),
            peer["labels"].to_string(),
            peer["bytes_sent"].to_string(),
            percent(&peer["accuracy"]),
            percent(&peer["alone"]),
        )?;
    }
    let equal = result["labels_equal_centralised"] == Value::Bool(true);
    writeln!(
        out,
        "{}",
        if equal {
            "Every label is the one that the pooled rows give."
        } else {
            "THE LABELS ARE NOT THOSE OF THE POOLED ROWS."
        }
    )?;
    writeln!(
        out,
        "\nOf the {} rows {} have a label; accuracy on the others:",
        result["points"], result["labels"]
    )?;
    for (name, value) in [
        ("together (XCLP)", &result["accuracy"]),
        ("centralised on the pooled rows", &result["centralised"]["accuracy"]),
        ("label propagation at each peer alone", &result["alone"]["accuracy"]),
        ("1NN to all labels, pooled", &result["nearest"]["accuracy"]),
    ] {
        writeln!(out, "  {name:<42} {:>6.1}%", percent(value))?;
    }
    writeln!(
        out,
        "\n{} edges, which nobody saw; {} computed on shares of them.",
        result["edges"],
        names(&result["roles"]["computing"])
    )?;
    writeln!(out, "\n{:<20} {:>8} {:>12}", "stage", "seconds", "bytes")?;
    for stage in list(&result["stages"]) {
        let seconds = stage["seconds"].as_f64().unwrap_or_default();
        writeln!(out, "{:<20} {seconds:>8.2} {:>12}", text(&stage["name"]), stage["bytes"].to_string())?;
    }
    writeln!(
        out,
        "\nIn it: {}. {:.1} s in all.",
        names(&result["members"]),
        result["seconds"].as_f64().unwrap_or_default()
    )
}
