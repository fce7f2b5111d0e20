//! Real sessions of tables with a group column. All rows of a patient are used in the same way, and
//! pseudonyms stay secret.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use flyswarm::session::{DataSpec, NoiseMode, NoiseSpec, PrivacyUnit, Scaling, Session, TaskSpec};
use flyswarm::tasks::{EvaluateSpec, FedavgSpec, FlynnSpec, ModelSpec};
use flyswarm_data::prepare::{ColumnSpec, Kind, TableSchema};
use serde_json::Value;

use super::PROGRAM;
use super::swarm::Swarm;

const COLUMNS: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];
const PATIENTS: usize = 60;
const VISITS: usize = 4;

/// Returns the visits of a peer's patients. The visits of one patient look alike. The outcome of a patient is
/// random.
fn visits(peer: usize) -> String {
    let mut state = 7 + peer as u32;
    let mut draw = || {
        // The "quick and dirty" random numbers of Numerical Recipes.
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f64::from(state >> 8) / f64::from(1u32 << 24)
    };
    let mut text = format!("patient,{},outcome\n", COLUMNS.join(","));
    for patient in 0..PATIENTS {
        let own: Vec<f64> = COLUMNS.iter().map(|_| draw()).collect();
        let outcome = if draw() < 0.5 { "ill" } else { "well" };
        for _ in 0..VISITS {
            let visit: Vec<_> = own.iter().map(|x| format!("{:.4}", x + draw() / 2000.0)).collect();
            text += &format!("Pseudonym-{peer}-{patient},{},{outcome}\n", visit.join(","));
        }
    }
    text
}

/// Makes three peers with such visits, in a session that `change` alters.
fn swarm(change: impl FnOnce(&mut Session)) -> Swarm {
    let swarm = Swarm::new(3, |session| {
        let columns = COLUMNS.map(|name| ColumnSpec::new(name.to_owned(), Kind::Number)).to_vec();
        let (label, group) = (Some("outcome".to_owned()), Some("patient".to_owned()));
        let table = Arc::new(TableSchema { label, group, columns, ..TableSchema::default() });
        session.data = DataSpec {
            features: COLUMNS.len() as u32,
            columns: table.features(),
            classes: vec!["ill".into(), "well".into()],
            scaling: Scaling::Standard,
            preparation: Some(table),
            ..session.data.clone()
        };
        let model = *session.task.part::<ModelSpec>().expect("a model");
        session.task = ModelSpec { s: 3, ..model }.into();
        change(session);
    });
    (0..3).for_each(|i| fs::write(swarm.file(i, "csv"), visits(i)).expect("written"));
    swarm
}

/// Runs all peers with these additional arguments, and returns their events.
fn run(swarm: &mut Swarm, more: &[&str]) -> Vec<Value> {
    (0..3).for_each(|i| swarm.start(i, more));
    for i in 0..3 {
        let ended = swarm.wait_end(i);
        assert_eq!(ended.code, Some(0), "{}", ended.errors);
        assert!(!ended.errors.contains("Pseudonym"), "{}", ended.errors);
    }
    swarm.log.extend(swarm.waiting.drain(..));
    swarm.log.iter().map(|told| told.value.clone()).collect()
}

/// Returns whether a file under a folder contains a pseudonym. The peers' own tables do not count.
fn leaks(folder: &Path) -> bool {
    fs::read_dir(folder).expect("a folder").any(|entry| {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            return leaks(&path);
        }
        let bytes = fs::read(&path).expect("a file");
        path.extension().is_none_or(|ending| ending != "csv")
            && bytes.windows(9).any(|part| part == b"Pseudonym")
    })
}

/// Returns, for each patient of a peer, how many rows the result has used for training, as `report` shows.
fn learnt_of_patients(swarm: &Swarm, peer: usize) -> Vec<u64> {
    let (text, file) = (visits(peer), swarm.folder.path().join("one.csv"));
    let (header, rows) = text.split_once('\n').expect("a header");
    let rows: Vec<&str> = rows.lines().collect();
    let learnt = rows.chunks(VISITS).take(20).map(|rows| {
        fs::write(&file, format!("{header}\n{}\n", rows.join("\n"))).expect("written");
        let mut report = Command::new(PROGRAM);
        report.arg("report").arg(swarm.file(peer, "model")).arg("--data").arg(&file).arg("--json");
        let said = report.output().expect("it runs").stdout;
        let said: Value = serde_json::from_slice(&said).expect("JSON");
        said["rows_learnt_from"].as_u64().expect("a number of rows")
    });
    learnt.collect()
}

/// Checks that either all visits of a patient or none are used for training, and that some patients are held
/// out.
fn whole_patients(swarm: &Swarm) {
    let learnt = learnt_of_patients(swarm, 0);
    assert!(learnt.iter().all(|&rows| rows == 0 || rows == VISITS as u64), "{learnt:?}");
    assert!(learnt.contains(&0) && learnt.contains(&(VISITS as u64)), "{learnt:?}");
}

/// Returns the balanced accuracy on held-out rows in a receipt, and the number of these rows.
fn held_out(receipt: &Value) -> (f64, u64) {
    let swarm = &receipt["evaluation"]["pooled"]["swarm"];
    (
        swarm["balanced_accuracy"]["value"].as_f64().expect("a figure"),
        swarm["rows"].as_u64().expect("a number of rows"),
    )
}

#[test]
fn flynn_holds_patients_out_and_no_pseudonym_leaves_a_table() {
    let mut swarm = swarm(|session| {
        let model = *session.task.part::<ModelSpec>().expect("a model");
        let evaluate = Some(EvaluateSpec { held_out: 30, learn_all: false, ..EvaluateSpec::default() });
        session.task = TaskSpec::from(FlynnSpec { model, select: None, evaluate });
    });
    let said = run(&mut swarm, &[]);
    assert!(said.iter().all(|value| !value.to_string().contains("Pseudonym")));
    assert!(!leaks(swarm.folder.path()));
    for i in 0..3 {
        let (balanced, rows) = held_out(&swarm.receipt(i));
        assert!((0.2..0.75).contains(&balanced), "{balanced}: new patients, by chance");
        assert_eq!(rows % VISITS as u64, 0, "whole patients");
    }
    whole_patients(&swarm);
}

#[test]
fn fedavg_says_balanced_accuracy_on_patients_that_are_held_out() {
    let mut swarm = swarm(|session| {
        let spec = FedavgSpec { rounds: 3, epochs: 5, held_out: 30, ..FedavgSpec::default() };
        session.task = TaskSpec::from(spec);
    });
    let said = run(&mut swarm, &[]);
    assert!(!leaks(swarm.folder.path()));
    let (balanced, rows) = held_out(&swarm.receipt(0));
    assert!((0.2..0.75).contains(&balanced), "{balanced}: new patients, by chance");
    assert_eq!(rows, (3 * PATIENTS * VISITS) as u64 * 3 / 10);
    whole_patients(&swarm);
    let finished = said.iter().find(|value| value["event"] == "finished").expect("it has finished");
    let summary = finished["summary"].as_str().expect("a line");
    assert!(summary.starts_with("balanced accuracy on held-out rows 0."), "{summary}");
    assert!(summary.contains(", AUC 0.") && summary.contains("; always \""), "{summary}");
    let page = fs::read_to_string(swarm.file(0, "report.html")).expect("a page");
    assert!(page.contains("balanced accuracy on held-out rows 0.") && page.contains("sensitivity"));
    assert!(page.contains("balanced accuracy on its own held-out rows 0."));
}

#[test]
fn rows_beyond_the_bound_of_a_group_are_left_out_and_said() {
    let mut swarm = swarm(|session| {
        session.data.scaling = Scaling::UnitNorm;
        session.data.checks.compare = false;
        let epsilon = "1".parse().expect("a number");
        let mut noise = NoiseSpec::new(epsilon, 60, NoiseMode::Parallel);
        noise.unit = PrivacyUnit::Group { group_rows: 3 };
        session.privacy.noise = Some(noise);
    });
    let said = run(&mut swarm, &["--yes", "--dataset", "visits"]);
    let left_out = format!("{PATIENTS} rows are left out: privacy.group_rows bounds the rows of a group");
    let told = said.iter().filter(|value| value["event"] == "columns");
    let told = told.filter(|value| value["message"].as_str().is_some_and(|text| text.contains(&left_out)));
    assert_eq!(told.count(), 3, "{said:?}");
    assert_eq!(swarm.receipt(0)["data"]["rows"], (PATIENTS * (VISITS - 1)) as u64);
    assert!(!leaks(swarm.folder.path()));
}
