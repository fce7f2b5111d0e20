//! `flyswarm demo --task fedavg`: nodes with parts of the digits train one network in rounds, held against
//! the same network trained on all rows in one place, and on each peer's rows alone. With the task
//! `fedavg-xclp` few rows have labels, and the other networks learn from these alone.

use std::fmt::Write as _;
use std::fs;
use std::io::Write;
use std::path::Path;

use flyswarm_learn::learner::{Architecture, Classifier};
use serde_json::{Value, json};

use super::children::{Finished, Nodes};
use super::xclp::{known_labels, write_csv as write_partly};
use super::{Demo, HOLDERS, NAMES, TEST_PERCENT, write_csv};
use crate::cli::id::{new_run, random};
use crate::cli::{Failure, written};
use crate::crypto::identity::Identity;
use crate::data::digits::digits;
use crate::data::split::train_test;
use crate::data::{Dataset, deal};
use crate::session::{
    ColumnChecks, CouncilSpec, DataSpec, Entry, FedavgSpec, FedavgXclpSpec, Privacy, Scaling, Session,
    TaskSpec, Timing,
};
use crate::tasks::fedavg::Plan;

struct Setup {
    session: Session,
    spec: FedavgSpec,
    names: Vec<String>,
    train: Dataset,
    test: Dataset,
    /// Each peer's rows with labels.
    parts: Vec<Dataset>,
    /// How many rows each peer has, with a label or without.
    rows: Vec<usize>,
}

pub(super) fn run(demo: &Demo, folder: &Path, out: &mut dyn Write) -> Result<(), Failure> {
    let setup = prepare(demo, folder)?;
    let mut nodes = Nodes::start(demo, folder, &setup.session, &setup.names, "safetensors")?;
    let finished = nodes.wait(demo.json)?;
    let result = setup.compare(folder, &finished)?;
    let text = if demo.json { format!("{result}\n") } else { render(&result) };
    written(out.write_all(text.as_bytes()), "standard output")?;
    if result["equal"] != json!(true) {
        return Err(Failure::Session("the peers' networks are not all equal".into()));
    }
    Ok(())
}

/// Splits and deals the rows, makes keys and the session file, and writes each peer's part.
fn prepare(demo: &Demo, folder: &Path) -> Result<Setup, Failure> {
    let (data, seed) = (digits(), demo.seed.to_le_bytes());
    let split = train_test(data.labels(), TEST_PERCENT, &seed);
    let (train, test) = (data.subset(&split.train), data.subset(&split.test));
    let names: Vec<String> = NAMES.iter().take(demo.peers()).map(|&name| name.to_owned()).collect();
    let dealt = deal::by_classes(train.labels(), train.classes().len(), names.len(), HOLDERS, &seed);
    let dealt = dealt.map_err(|error| Failure::Input(error.to_string()))?;
    let partly = demo.task == "fedavg-xclp";
    let known = if partly { known_labels(&train, &seed) } else { vec![true; train.rows()] };
    let (mut roster, mut parts) = (Vec::new(), Vec::new());
    for (name, rows) in names.iter().zip(&dealt) {
        let identity = Identity::from_seed(*random()?);
        identity.save(folder.join(format!("{name}.key")))?;
        roster.push(Entry { key: identity.public(), name: name.clone(), addresses: Vec::new() });
        let (part, path) = (train.subset(rows), folder.join(format!("{name}.csv")));
        let labels: Vec<_> = rows.iter().map(|&row| known[row].then(|| train.labels()[row])).collect();
        match partly {
            true => write_partly(&path, &part, &labels)?,
            false => write_csv(&path, &part)?,
        }
        let labelled: Vec<usize> = (0..rows.len()).filter(|&row| labels[row].is_some()).collect();
        parts.push(part.subset(&labelled));
    }
    let spec = FedavgSpec {
        network: Architecture::Perceptron { hidden: vec![32] },
        epochs: 2,
        // A pass over ten labels is one batch: too little for a round.
        steps: if partly { 30 } else { 0 },
        batch: 16,
        // A peer may have no label to hold out.
        held_out: if partly { 0 } else { 10 },
        ..FedavgSpec::default()
    };
    let task = match partly {
        true => TaskSpec::FedavgXclp(FedavgXclpSpec { refresh: 5, ..FedavgXclpSpec::new(spec.clone()) }),
        false => TaskSpec::Fedavg(spec.clone()),
    };
    let session = Session {
        name: "demo".into(),
        run: new_run()?,
        min_peers: Session::default_min_peers(&task, names.len()),
        task,
        data: DataSpec {
            features: u32::try_from(train.features()).unwrap_or(u32::MAX),
            columns: Vec::new(),
            classes: train.classes().to_vec(),
            scaling: Scaling::Range { lo: 0.0, hi: 16.0 },
            densify: false,
            checks: ColumnChecks::default(),
            preparation: None,
        },
        // Of few labels a class may have one holder: then nothing could be learnt of it.
        privacy: if partly { Privacy { min_holders: 1, ..Privacy::default() } } else { Privacy::default() },
        voting: CouncilSpec::default(),
        relays: Vec::new(),
        timing: Timing { gather_ms: 15_000, linger_ms: 5_000, ..Timing::default() },
        roster,
    }
    .check()
    .map_err(|error| Failure::Input(error.to_string()))?;
    fs::write(folder.join("session.toml"), session.to_toml())
        .map_err(|error| Failure::Environment(format!("session.toml: {error}")))?;
    let labelled: Vec<usize> = (0..train.rows()).filter(|&row| known[row]).collect();
    let rows = dealt.iter().map(Vec::len).collect();
    Ok(Setup { session, spec, names, train: train.subset(&labelled), test, parts, rows })
}

impl Setup {
    /// Part of the test rows whose class is right.
    fn accuracy(&self, network: &Classifier) -> Result<f64, Failure> {
        let said = network.predict(self.test.view()).map_err(|error| Failure::Input(error.to_string()))?;
        let right = said.iter().zip(self.test.labels()).filter(|(said, label)| said == label).count();
        Ok(right as f64 / self.test.rows().max(1) as f64)
    }

    /// Reads every peer's network back, and trains the same one in other places.
    fn compare(&self, folder: &Path, finished: &Finished) -> Result<Value, Failure> {
        let failed = |error: &dyn std::fmt::Display| Failure::Session(error.to_string());
        let plan = Plan::new(self.session.clone(), self.spec.clone()).map_err(|error| failed(&error))?;
        let curve = |rows: &Dataset| -> Result<Vec<f64>, Failure> {
            if rows.rows() == 0 {
                return Ok(Vec::new());
            }
            let trained = plan.in_one_place(rows, &[0; 32]).map_err(|error| failed(&error))?;
            trained.iter().map(|network| self.accuracy(network)).collect()
        };
        let last = |curve: Vec<f64>| curve.last().copied();
        let (mut peers, mut digests, mut ours) = (Vec::new(), Vec::new(), 0.0);
        let parts = self.parts.iter().zip(&self.rows);
        for ((name, (part, rows)), receipt) in self.names.iter().zip(parts).zip(&finished.receipts) {
            let path = folder.join(format!("{name}.safetensors"));
            let network = Classifier::load(&path)
                .map_err(|error| Failure::Environment(format!("{}: {error}", path.display())))?;
            digests.push(network.digest());
            ours = self.accuracy(&network)?;
            peers.push(json!({
                "name": name,
                "digest": hex::encode(network.digest()),
                "accuracy": ours,
                "alone": last(curve(part)?),
                "rows": rows,
                "labels": part.rows(),
                "bytes_sent": receipt["bytes_sent"],
            }));
        }
        let pooled = curve(&self.train)?;
        let rounds = finished.receipts.first().map_or(Value::Null, |receipt| receipt["rounds"].clone());
        Ok(json!({
            "task": self.session.task.name(),
            "peers": peers,
            "equal": digests.windows(2).all(|pair| pair[0] == pair[1]) && !digests.is_empty(),
            "accuracy": ours,
            "pooled": pooled,
            "rounds": rounds,
            "rows": {"train": self.rows.iter().sum::<usize>(), "test": self.test.rows()},
            "labels": self.train.rows(),
            "members": finished.members(),
            "stages": finished.stages(),
            "seconds": finished.seconds,
        }))
    }
}

fn render(result: &Value) -> String {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let number = |value: &Value| value.as_f64().unwrap_or_default();
    let percent = |value: &Value| 100.0 * number(value);
    let partly = result["task"] == json!("fedavg-xclp");
    // Nobody holds out of few labels.
    let (held, pooled) = if partly {
        ("", "the labels alone, in one place")
    } else {
        ("held out before", "all rows in one place")
    };
    // Writing to a string cannot fail.
    let mut out = format!("\n{:<8} {:>8} {held:>18} {pooled:>31}, on the test rows\n", "round", "loss");
    for ((at, round), pooled) in (1..).zip(list(&result["rounds"])).zip(list(&result["pooled"])) {
        let held =
            round.get("held_out_accuracy").map_or(String::new(), |part| format!("{:.1}%", percent(part)));
        let loss = number(&round["loss"]);
        let _ = writeln!(out, "{at:<8} {loss:>8.3} {held:>18} {:>30.1}%", percent(&pooled));
    }
    let head =
        format!("{:<10} {:>6} {:>7} {:>12}   {:<18}", "peer", "rows", "labels", "bytes sent", "network");
    let _ = writeln!(out, "\n{head} {:>9} {:>9}", "together", "alone");
    for peer in list(&result["peers"]) {
        let digest: String = text(&peer["digest"]).chars().take(16).collect();
        let _ = writeln!(
            out,
            "{:<10} {:>6} {:>7} {:>12}   {digest:<18} {:>8.1}% {:>9}",
            text(&peer["name"]),
            peer["rows"].to_string(),
            peer["labels"].to_string(),
            peer["bytes_sent"].to_string(),
            percent(&peer["accuracy"]),
            peer["alone"].as_f64().map_or("-".into(), |alone| format!("{:.1}%", 100.0 * alone)),
        );
    }
    let same = if result["equal"] == Value::Bool(true) {
        "All peers have the same network, bit for bit."
    } else {
        "THE NETWORKS ARE NOT EQUAL."
    };
    let pooled = list(&result["pooled"]).last().map_or(0.0, percent);
    let _ = writeln!(out, "{same}");
    let _ = writeln!(
        out,
        "\nOn the {} test rows: {:.1} % together, {pooled:.1} % by the same network on all {} rows with labels in \
         one place.",
        result["rows"]["test"],
        percent(&result["accuracy"]),
        result["labels"]
    );
    let _ = writeln!(out, "{:.1} s in all.", number(&result["seconds"]));
    out
}
