//! Real processes in sessions of the task `xclp`: four peers with rows and two without.

use std::fs;
use std::process::Command;

use flyswarm::session::{Scaling, Session, TaskSpec};
use flyswarm::tasks::XclpSpec;
use flyswarm_data::digits::digits;
use serde_json::Value;

use super::swarm::{NAMES, PROGRAM, Swarm};

pub const OWNERS: usize = 4;
pub const PEERS: usize = 6;
/// Rows of each owner. Three owners or more know labels of each class, so that it counts after one has left.
const ROWS: usize = 40;

/// Returns whether the label of a row is known. The row has this index at its owner.
pub fn known(place: usize) -> bool {
    place.is_multiple_of(3)
}

pub fn spec() -> XclpSpec {
    XclpSpec { bits: 512, ..XclpSpec::default() }
}

pub fn swarm(change: impl FnOnce(&mut Session)) -> Swarm {
    let mut swarm = Swarm::new(PEERS, |session| {
        session.task = TaskSpec::from(spec());
        session.data.scaling = Scaling::None;
        // No peer is given up because this machine is busy.
        session.timing.compute_ms = 180_000;
        change(session);
    });
    swarm.parts.iter_mut().for_each(|part| part.truncate(ROWS));
    let data = digits();
    for (i, part) in swarm.parts.iter().enumerate().take(OWNERS) {
        let mut text = String::new();
        for (place, &row) in part.iter().enumerate() {
            data.row(row).iter().for_each(|value| text += &format!("{value},"));
            text += if known(place) { &data.classes()[usize::from(data.labels()[row])] } else { "" };
            text.push('\n');
        }
        fs::write(swarm.file(i, "csv"), text).unwrap();
    }
    swarm
}

/// Runs peer i. The first four peers have rows.
pub fn start(swarm: &mut Swarm, i: usize) {
    if i < OWNERS {
        return swarm.start(i, &[]);
    }
    start_without_rows(swarm, i);
}

fn start_without_rows(swarm: &mut Swarm, i: usize) {
    let mut command = Command::new(PROGRAM);
    command
        .arg("join")
        .arg(swarm.folder.path().join("session.toml"))
        .args(["--no-data", "--json", "--force", "--no-mdns", "--listen", &swarm.listen])
        .arg("--key")
        .arg(swarm.file(i, "key"))
        .arg("--state")
        .arg(swarm.folder.path().join("state"))
        .arg("--out")
        .arg(swarm.file(i, "receipt.json"));
    swarm.start_command(i, command);
}

#[test]
fn the_demo_gives_every_process_the_labels_of_the_pooled_rows() {
    let output = Command::new(PROGRAM).args(["demo", "xclp", "--json"]).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result["equal"], true, "{result:#}");
    let number = |value: &Value| value.as_f64().unwrap();
    assert!(number(&result["accuracy"]) > 0.85, "{result:#}");
    assert!((number(&result["accuracy"]) - number(&result["pooled"]["accuracy"])).abs() < 1e-12);
    assert!(number(&result["accuracy"]) > number(&result["alone"]["accuracy"]) + 0.1, "{result:#}");
    assert_eq!(result["peers"].as_array().unwrap().len(), 5);
    let output = Command::new(PROGRAM).args(["demo", "flynn", "--hamming", "ot"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--hamming: not with the task flynn"));
}

#[test]
fn witnesses_without_an_xclp_session_and_too_few_with_rows_are_refused_on_one_line() {
    let flynn = Swarm::new(5, |_| ());
    let mut command = Command::new(PROGRAM);
    command
        .args(["join", "--no-data"])
        .arg(flynn.folder.path().join("session.toml"))
        .arg("--key")
        .arg(flynn.file(0, "key"));
    let output = command.arg("--out").arg(flynn.file(0, "none.json")).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), errors.lines().count()), (Some(2), 1), "{errors}");
    assert!(errors.contains("the task flynn has no peers without rows"), "{errors}");

    let mut swarm = swarm(|_| ());
    start(&mut swarm, 0);
    (1..PEERS).for_each(|i| start_without_rows(&mut swarm, i));
    for (i, name) in NAMES.iter().enumerate().take(PEERS) {
        let ended = swarm.wait_end(i);
        assert_eq!(ended.code, Some(3), "{name}: {ended:?}");
        let said = ended.errors.contains("only 1 members have rows; 2 are needed");
        assert!(said && ended.errors.lines().count() == 1, "{ended:?}");
    }
}
