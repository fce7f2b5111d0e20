//! Sessions of the task `sketch` as real processes.

use std::fs;
use std::process::Command;

use flyswarm::session::{FlynnSpec, Scaling, SketchSpec, TaskKind};
use serde_json::Value;

use super::swarm::{NAMES, PROGRAM, Swarm};

const PEERS: usize = 5;

fn swarm() -> Swarm {
    Swarm::new(PEERS, |session| {
        session.task = TaskKind::Sketch;
        session.flynn = FlynnSpec::NONE;
        session.data.classes.clear();
        session.data.scaling = Scaling::Center;
        session.sketch =
            Some(SketchSpec { rows: 100, publish: true, pairwise: true, chosen: 2, ..SketchSpec::default() });
    })
}

/// What a peer has written, without its own distance, and that.
fn found(swarm: &Swarm, i: usize) -> (Value, Value) {
    let text = fs::read_to_string(swarm.file(i, "model")).unwrap_or_else(|error| panic!("{}: {error}", NAMES[i]));
    let mut found: Value = serde_json::from_str(&text).unwrap();
    let own = found["distance"].take();
    (found, own)
}

#[test]
fn killed_before_its_distance_is_summed_a_peer_comes_back_to_the_same_sketch_and_draw() {
    for quantity in ["sketch", "scores", "draw"] {
        let mut swarm = swarm();
        let victim = 1;
        swarm.start(victim, &["--hold-at", &format!("{quantity}.compute")]);
        (0..PEERS).filter(|&i| i != victim).for_each(|i| swarm.start(i, &[]));
        swarm.wait_event(victim, "held");
        swarm.signal(victim, "KILL");
        assert_eq!(swarm.wait_end(victim).signal, Some(9));
        swarm.start(victim, &[]);
        for (i, name) in NAMES.iter().enumerate().take(PEERS) {
            let ended = swarm.wait_end(i);
            assert_eq!(ended.code, Some(0), "{quantity}: {name} {ended:?}");
        }
        let (first, _) = found(&swarm, 0);
        assert_eq!(first["selection"]["chosen"].as_array().unwrap().len(), 2);
        for (i, name) in NAMES.iter().enumerate().take(PEERS) {
            let (shared, own) = found(&swarm, i);
            assert_eq!(shared, first, "{quantity}: {name}");
            // Whoever was in the sum of distances has published its own.
            let published = shared["published"][name].as_f64();
            let close = |published: f64| (published - own["row_mean"].as_f64().unwrap()).abs() < 1e-9;
            assert!(published.is_none_or(close) && (published.is_some() || i == victim), "{quantity}: {name}");
        }
    }
}

#[test]
fn the_demo_gives_seven_processes_one_sketch_and_ranks_them_by_their_classes() {
    let output = Command::new(PROGRAM).args(["demo", "--task", "sketch", "--json"]).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result["equal"], true, "{result:#}");
    assert_eq!(result["peers"].as_array().unwrap().len(), 7);
    assert_eq!(result["chosen"].as_array().unwrap().len(), 3);
    assert!(result["spearman"].as_f64().unwrap() > 0.7, "{result:#}");
}
