//! Sessions of the task `xclp` as real processes: four with rows, three witnesses, kills in every role.

use std::fs;
use std::process::Command;
use std::time::Duration;

use flyswarm::data::digits::digits;
use flyswarm::session::{FlynnSpec, Scaling, TaskKind, XclpSpec};
use serde_json::Value;

use super::swarm::{NAMES, PROGRAM, Swarm};

const OWNERS: usize = 4;
const PEERS: usize = 7;

fn swarm() -> Swarm {
    let swarm = Swarm::new(PEERS, |session| {
        session.task = TaskKind::Xclp;
        session.flynn = FlynnSpec::NONE;
        session.xclp = Some(XclpSpec { bits: 1024, ..XclpSpec::new(64) });
        session.data.scaling = Scaling::None;
    });
    let data = digits();
    for (i, part) in swarm.parts.iter().enumerate().take(OWNERS) {
        let mut text = String::new();
        for (place, &row) in part.iter().enumerate() {
            data.row(row).iter().for_each(|value| text += &format!("{value},"));
            text += if place % 4 == 0 { &data.classes()[usize::from(data.labels()[row])] } else { "" };
            text.push('\n');
        }
        fs::write(swarm.file(i, "csv"), text).unwrap();
    }
    swarm
}

fn start(swarm: &mut Swarm, i: usize) {
    if i < OWNERS {
        return swarm.start(i, &[]);
    }
    let mut command = Command::new(PROGRAM);
    command
        .arg("witness")
        .arg(swarm.folder.path().join("session.toml"))
        .args(["--json", "--addresses-from-stdin", "--force", "--no-mdns", "--listen", &swarm.listen])
        .arg("--key")
        .arg(swarm.file(i, "key"))
        .arg("--state")
        .arg(swarm.folder.path().join("state"))
        .arg("--receipt")
        .arg(swarm.file(i, "receipt.json"));
    swarm.start_command(i, command);
}

/// The share of a peer's rows whose label is right.
fn accuracy(swarm: &Swarm, i: usize) -> f64 {
    let text = fs::read_to_string(swarm.file(i, "model")).unwrap_or_else(|error| panic!("{}: {error}", NAMES[i]));
    let labels: Vec<&str> = text.lines().skip(1).map(|line| line.split(',').next().unwrap_or_default()).collect();
    let data = digits();
    assert_eq!(labels.len(), swarm.parts[i].len(), "a line for every row");
    let right = |(label, row): &(&&str, &usize)| **label == data.classes()[usize::from(data.labels()[**row])];
    labels.iter().zip(&swarm.parts[i]).filter(right).count() as f64 / labels.len() as f64
}

/// Who has the role in the exchange that peer `i` has just begun.
fn in_role(event: &Value, role: &str) -> usize {
    let names = |key: &str| -> Vec<usize> {
        let list = event[key].as_array().expect("a list");
        list.iter().map(|name| NAMES.iter().position(|known| name == known).expect("a peer")).collect()
    };
    match role {
        "propagator" => names("propagators")[0],
        "witness in the ring" => names("ring").into_iter().find(|&i| i >= OWNERS).expect("one of three witnesses"),
        _ => names("ring").into_iter().find(|&i| i < OWNERS).expect("an owner"),
    }
}

#[test]
fn killed_in_any_role_the_others_have_their_labels_and_so_has_who_comes_back() {
    let cases = [("owner", 0), ("owner", 80), ("propagator", 0), ("propagator", 80), ("witness in the ring", 20)];
    for (role, delay) in cases {
        let mut swarm = swarm();
        (0..PEERS).for_each(|i| start(&mut swarm, i));
        let event = swarm.wait("roles", |told| (told.value["event"] == "roles").then(|| told.value.clone()));
        let victim = in_role(&event, role);
        std::thread::sleep(Duration::from_millis(delay));
        swarm.signal(victim, "KILL");
        assert_eq!(swarm.wait_end(victim).signal, Some(9));
        start(&mut swarm, victim);
        for (i, name) in NAMES.iter().enumerate().take(PEERS) {
            let ended = swarm.wait_end(i);
            // Who was away while the others finished has no labels, and is told so.
            let without = i == victim && ended.errors.contains("finished without this peer");
            assert!(ended.code == Some(0) || (without && ended.code == Some(3)), "{role}: {name} {ended:?}");
            if i < OWNERS && !without {
                let share = accuracy(&swarm, i);
                assert!(share > 0.7, "{role}, {name}: {share}");
            }
        }
    }
}

#[test]
fn the_demo_gives_every_process_the_labels_of_the_pooled_rows() {
    let output = Command::new(PROGRAM).args(["demo", "--task", "xclp", "--json"]).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result["labels_equal_centralised"], true, "{result:#}");
    let number = |value: &Value| value.as_f64().unwrap();
    assert!(number(&result["accuracy"]) > 0.85, "{result:#}");
    assert!((number(&result["accuracy"]) - number(&result["centralised"]["accuracy"])).abs() < 1e-12);
    assert!(number(&result["accuracy"]) > number(&result["alone"]["accuracy"]) + 0.1, "{result:#}");
    assert_eq!(result["peers"].as_array().unwrap().len(), 5);
}

#[test]
fn witnesses_without_an_xclp_session_and_too_few_of_them_are_refused_on_one_line() {
    let flynn = Swarm::new(5, |_| ());
    let witness = |swarm: &Swarm| {
        let mut command = Command::new(PROGRAM);
        command.arg("witness").arg(swarm.folder.path().join("session.toml")).arg("--key").arg(swarm.file(0, "key"));
        command.arg("--receipt").arg(swarm.file(0, "none.json")).output().unwrap()
    };
    let output = witness(&flynn);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), errors.lines().count()), (Some(2), 1), "{errors}");
    assert!(errors.contains("the task flynn has no witnesses"), "{errors}");

    // One of the three witnesses has no rows left to be one: six owners and one witness.
    let mut swarm = swarm();
    for i in OWNERS..PEERS - 1 {
        let rows = fs::read(swarm.file(0, "csv")).unwrap();
        fs::write(swarm.file(i, "csv"), rows).unwrap();
        swarm.start(i, &[]);
    }
    (0..OWNERS).chain([PEERS - 1]).for_each(|i| start(&mut swarm, i));
    for (i, name) in NAMES.iter().enumerate().take(PEERS) {
        let ended = swarm.wait_end(i);
        assert_eq!(ended.code, Some(3), "{name}: {ended:?}");
        assert!(ended.errors.contains("two members without rows") && ended.errors.lines().count() == 1, "{ended:?}");
    }
}
