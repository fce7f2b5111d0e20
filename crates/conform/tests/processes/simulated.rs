//! `simulate-processes`: the peers of a scenario as real processes, against the same peers in virtual time.

use std::process::{Command, Output};

use serde_json::Value;

use super::PROGRAM;

fn conform(words: &[&str]) -> Output {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    Command::new(PROGRAM).args(words).current_dir(root).output().expect("it runs")
}

/// Runs a scenario both ways, and returns the comparison of each run.
fn both(scenario: &str) -> Vec<Value> {
    let output = conform(&["simulate-processes", scenario, "--json"]);
    let texts = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!((output.status.code(), &*texts.1), (Some(0), ""), "{}", texts.0);
    serde_json::from_str(&texts.0).expect("JSON")
}

fn agrees(run: &Value, what: &str) -> (Value, Value) {
    let lines = run["lines"].as_array().expect("lines");
    let line = lines
        .iter()
        .find(|line| line["what"] == what)
        .unwrap_or_else(|| panic!("{what} is not compared: {run}"));
    assert_eq!(line["agrees"], true, "{line}");
    (line["simulated"].clone(), line["real"].clone())
}

#[test]
fn eight_processes_do_what_the_simulator_says_of_them() {
    let runs = both("simulations/processes.toml");
    assert_eq!(runs.len(), 1);
    for what in ["result", "views", "stages in their order", "sent in all"] {
        agrees(&runs[0], what);
    }
    let played = runs[0]["played"].as_array().expect("peers");
    assert_eq!(played.len(), 8);
    for peer in played {
        assert_eq!(peer["result"], played[0]["result"]);
        assert_eq!(peer["views"].as_array().map(Vec::len), Some(1), "{peer}");
        // The stage keys; then compute, sum, accept, release and open of coin, holders, moments and
        // counts.
        assert_eq!(peer["stages"].as_array().map(Vec::len), Some(1 + 4 * 5), "{peer}");
    }
}

#[test]
fn a_process_that_is_killed_at_a_stage_and_returns_has_the_result_of_the_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("killed.toml");
    let text = "peers = 5\n[task]\nm = 512\nrho = 8\n[expect]\nfinished = 5\n[timing]\nlinger_ms = 60_000\n\
                [[fault]]\nkind = \"crash\"\npeers = 2\nat = { slot = \"counts\", stage = \"sum\" }\nfor_s = 3\n";
    std::fs::write(&path, text).expect("a file");
    let runs = both(path.to_str().expect("text"));
    let (_, real) = agrees(&runs[0], "result");
    assert!(real.as_str().is_some_and(|real| real.ends_with(" at 5 of 5")), "{real}");
    let played = &runs[0]["played"][2];
    let at = |stages: &Value| {
        stages.as_array().map_or(0, |all| all.iter().filter(|each| each[0] == "counts").count())
    };
    assert_eq!(
        played["stages"].as_array().and_then(|all| all.last()),
        Some(&serde_json::json!(["counts", "sum"])),
        "{played}"
    );
    assert!(at(&played["stages"]) >= 2, "{played}");
}

#[test]
fn what_processes_cannot_do_is_refused_on_one_line_that_names_the_field() {
    let folder = tempfile::tempdir().expect("a folder");
    let cases = [
        ("peers = 65", "peers = 65 is not possible with processes"),
        ("[network]\nlatency_ms = 50", "network.latency_ms is not possible"),
        ("[network]\nconnections = \"committee\"", "network.connections is not possible"),
        ("[[site]]\nname = \"x\"\npeers = 1", "[[site]] is not possible"),
        ("[[speed]]\npeers = 1\nfactor = 0.5", "[[speed]] is not possible"),
        ("[[fault]]\nkind = \"partition\"\npeers = 1\nat_s = 1", "fault 1 (partition) is not possible"),
        (
            "[[fault]]\nkind = \"tamper\"\nhow = \"replay\"\npeers = 1\nat_s = 1",
            "fault 1 (tamper) is not possible",
        ),
        ("[random]\nfaults = 1", "random.kinds: slow-link is not possible"),
    ];
    for (text, expected) in cases {
        let path = folder.path().join("refused.toml");
        std::fs::write(&path, text).expect("a file");
        let output = conform(&["simulate-processes", path.to_str().expect("text")]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), errors.lines().count()), (Some(2), 1), "{text}: {errors}");
        assert!(errors.contains(expected), "{text}: {errors}");
    }
}

/// Only simulated peers may have randomness that follows from a seed: a peer with a key, a session file
/// or rows of its own cannot get it.
#[test]
fn no_real_peer_can_be_given_randomness() {
    let refused = |words: &[&str]| {
        let output = conform(words);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{words:?}: {errors}");
        assert!(errors.contains("unexpected argument"), "{words:?}: {errors}");
    };
    for word in ["--seed", "--start"] {
        refused(&["join", "session.toml", "--data", "rows.csv", word, "1"]);
    }
    let peer = [
        "simulated-peer",
        "s.toml",
        "--run",
        "0",
        "--seed",
        "1",
        "--peer",
        "0",
        "--start",
        "0",
        "--state",
        "x",
    ];
    for word in ["--key", "--data", "--session", "--listen"] {
        refused(&[&peer[..], &[word, "x"]].concat());
    }
}
