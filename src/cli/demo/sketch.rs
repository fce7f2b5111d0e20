//! `flyswarm demo --task sketch`: nodes with skewed parts of the digits learn how far each lies from all,
//! held against what is known of their classes.

use std::fmt::Write as _;
use std::fs;
use std::io::Write;
use std::path::Path;

use serde_json::{Value, json};

use super::children::{Finished, Nodes};
use super::{Demo, NAMES};
use crate::cli::id::{new_run, random};
use crate::cli::session::sketch::PRIVATE;
use crate::cli::{Failure, written};
use crate::crypto::identity::Identity;
use crate::data::deal;
use crate::data::digits::digits;
use crate::data::{DataError, Dataset};
use crate::model::heterogeneity::{spearman, total_variation};
use crate::session::{
    ColumnChecks, CouncilSpec, DataSpec, Entry, Privacy, Scaling, Session, SketchSpec, TaskSpec, Timing,
};

/// Concentration of the first peer's class mix and of the last one's.
const ALPHAS: (f64, f64) = (0.1, 10.0);
/// Peers that are drawn.
const CHOSEN: u16 = 3;

struct Setup {
    session: Session,
    names: Vec<String>,
    /// Each peer's rows.
    parts: Vec<Dataset>,
}

pub(super) fn run(demo: &Demo, folder: &Path, out: &mut dyn Write) -> Result<(), Failure> {
    let setup = prepare(demo, folder)?;
    let mut nodes = Nodes::start(demo, folder, &setup.session, &setup.names, "sketch.json")?;
    let finished = nodes.wait(demo.json)?;
    let result = setup.compare(folder, &finished)?;
    let text = if demo.json { format!("{result}\n") } else { render(&result) };
    written(out.write_all(text.as_bytes()), "standard output")?;
    if result["equal"] != json!(true) {
        return Err(Failure::Session("the peers have not all opened the same".into()));
    }
    Ok(())
}

/// Deals class mixes, from skewed to even, makes keys and the session file, and writes each peer's part
/// without its labels.
fn prepare(demo: &Demo, folder: &Path) -> Result<Setup, Failure> {
    let data = digits();
    let seed = demo.seed.to_le_bytes();
    let dealt = deal::mixes(data.labels(), data.classes().len(), demo.peers(), ALPHAS, &seed)
        .map_err(|error| Failure::Input(error.to_string()))?;
    let names: Vec<String> = NAMES.iter().take(demo.peers()).map(|&name| name.to_owned()).collect();
    let (mut roster, mut parts) = (Vec::new(), Vec::new());
    for (name, rows) in names.iter().zip(&dealt) {
        let identity = Identity::from_seed(*random()?);
        identity.save(folder.join(format!("{name}.key")))?;
        roster.push(Entry { key: identity.public(), name: name.clone(), addresses: Vec::new() });
        let part = data.subset(rows);
        write_csv(&folder.join(format!("{name}.csv")), &part)?;
        parts.push(part);
    }
    let noise = demo.noise.spec(0);
    let usual = SketchSpec::default();
    let (rows, range) = if noise.is_some() { PRIVATE } else { (usual.rows, usual.range) };
    let task = TaskSpec::Sketch(SketchSpec { rows, range, publish: true, chosen: CHOSEN, ..usual });
    let session = Session {
        name: "demo".into(),
        run: new_run()?,
        min_peers: Session::default_min_peers(&task, names.len()),
        task,
        data: DataSpec {
            features: u32::try_from(data.features()).unwrap_or(u32::MAX),
            columns: Vec::new(),
            classes: Vec::new(),
            scaling: if noise.is_some() { Scaling::UnitNorm } else { Scaling::Center },
            densify: false,
            checks: ColumnChecks::default(),
            preparation: None,
        },
        privacy: Privacy { noise, ..Privacy::default() },
        voting: CouncilSpec::default(),
        relays: Vec::new(),
        timing: Timing { gather_ms: 15_000, linger_ms: 5_000, ..Timing::default() },
        roster,
    }
    .check()
    .map_err(|error| Failure::Input(error.to_string()))?;
    fs::write(folder.join("session.toml"), session.to_toml())
        .map_err(|error| Failure::Environment(format!("session.toml: {error}")))?;
    Ok(Setup { session, names, parts })
}

impl Setup {
    /// Reads what every peer has written back, and holds distances against the total variation of the class
    /// mixes.
    fn compare(&self, folder: &Path, finished: &Finished) -> Result<Value, Failure> {
        let classes = self.parts.first().map_or(0, |part| part.classes().len());
        let counts: Vec<Vec<u64>> = self.parts.iter().map(|part| part.class_counts(classes)).collect();
        let all: Vec<u64> =
            (0..classes).map(|class| counts.iter().map(|counts| counts[class]).sum()).collect();
        let (mut peers, mut pairs, mut equal) = (Vec::new(), Vec::new(), true);
        let mut first: Option<Value> = None;
        for ((name, part), counts) in self.names.iter().zip(&self.parts).zip(&counts) {
            let path = folder.join(format!("{name}.sketch.json"));
            let failed = |error: String| Failure::Environment(format!("{}: {error}", path.display()));
            let text = fs::read_to_string(&path).map_err(|error| failed(error.to_string()))?;
            let mut found: Value = serde_json::from_str(&text).map_err(|error| failed(error.to_string()))?;
            // All but its own distance is the same at every peer, and that is what it has published.
            let own = found["distance"].take();
            let close =
                |published: f64| (published - own["row_mean"].as_f64().unwrap_or(f64::NAN)).abs() < 1e-9;
            equal &= found["published"][name].as_f64().is_some_and(close);
            equal &= *first.get_or_insert_with(|| found.clone()) == found;
            let variation = total_variation(counts, &all);
            pairs.push((own["row_mean"].as_f64().unwrap_or_default(), variation));
            let receipt = finished.receipts.iter().find(|receipt| receipt["peer"] == **name);
            peers.push(json!({
                "name": name,
                "rows": part.rows(),
                "distance": own,
                "total_variation": variation,
                "bytes_sent": receipt.map_or(Value::Null, |receipt| receipt["bytes_sent"].clone()),
            }));
        }
        Ok(json!({
            "task": "sketch",
            "peers": peers,
            "equal": equal,
            "epsilon": self.session.privacy.noise.map(|noise| noise.epsilon.to_f64()),
            "spearman": spearman(&pairs),
            "chosen": first.map_or(Value::Null, |found| found["selection"]["chosen"].clone()),
            "members": finished.members(),
            "stages": finished.stages(),
            "seconds": finished.seconds,
        }))
    }
}

/// Features alone: the task needs no labels.
fn write_csv(path: &Path, data: &Dataset) -> Result<(), Failure> {
    let mut text = String::new();
    for row in 0..data.rows() {
        let values: Vec<String> = data.row(row).iter().map(ToString::to_string).collect();
        text += &values.join(",");
        text.push('\n');
    }
    fs::write(path, text).map_err(|source| DataError::Read { file: path.to_owned(), source }.into())
}

fn render(result: &Value) -> String {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let names = |value: &Value| list(value).iter().map(text).collect::<Vec<_>>().join(", ");
    let number = |value: &Value| value.as_f64().unwrap_or_default();
    let mut out = format!(
        "\n{:<10} {:>6} {:>12} {:>16} {:>8} {:>16}\n",
        "peer", "rows", "bytes sent", "distance (mean)", "(plain)", "total variation"
    );
    // Writing to a string cannot fail.
    for peer in list(&result["peers"]) {
        let _ = writeln!(
            out,
            "{:<10} {:>6} {:>12} {:>16.4} {:>8.3} {:>16.3}",
            text(&peer["name"]),
            peer["rows"].to_string(),
            peer["bytes_sent"].to_string(),
            number(&peer["distance"]["row_mean"]),
            number(&peer["distance"]["plain"]),
            number(&peer["total_variation"]),
        );
    }
    let same = if result["equal"] == Value::Bool(true) {
        "Every peer has the same global sketch, the same published distances and the same draw."
    } else {
        "THE PEERS HAVE NOT ALL OPENED THE SAME."
    };
    let _ = writeln!(out, "{same}");
    if let Some(epsilon) = result["epsilon"].as_f64() {
        let _ = writeln!(out, "Every one of them has noise: epsilon = {epsilon}.");
    }
    let _ = writeln!(
        out,
        "\nDistances rank the peers as the total variation of their class mixes does: Spearman {:.3}.",
        number(&result["spearman"])
    );
    let _ = writeln!(out, "Drawn, the nearer the likelier: {}.", names(&result["chosen"]));
    let _ = writeln!(out, "\n{:<20} {:>8} {:>12}", "stage", "seconds", "bytes");
    for stage in list(&result["stages"]) {
        let (name, seconds) = (text(&stage["name"]), number(&stage["seconds"]));
        let _ = writeln!(out, "{name:<20} {seconds:>8.2} {:>12}", stage["bytes"].to_string());
    }
    let _ =
        writeln!(out, "\nIn it: {}. {:.1} s in all.", names(&result["members"]), number(&result["seconds"]));
    out
}
