//! Sessions of the task `sketch` as real processes.

use std::fs;
use std::process::Command;

use flyswarm::session::{NoiseMode, NoiseSpec, Scaling, TaskSpec};
use flyswarm::tasks::SketchSpec;
use serde_json::Value;

use super::check::same_and_exact;
use super::swarm::{NAMES, PROGRAM, Swarm};

const PEERS: usize = 5;
/// Arguments for the last column, which is the class of the rows: a session without classes does not
/// expect it.
const LABELLED: [&str; 2] = ["--label", "last"];

fn swarm() -> Swarm {
    Swarm::new(PEERS, |session| {
        session.data.classes.clear();
        session.data.scaling = Scaling::Center;
        let usual = SketchSpec::default();
        session.task = TaskSpec::from(SketchSpec {
            rows: 100,
            open_distances: true,
            pairwise: true,
            chosen: 2,
            ..usual
        });
    })
}

/// Returns a peer's output without its own distance, and that distance.
fn found(swarm: &Swarm, i: usize) -> (Value, Value) {
    let text =
        fs::read_to_string(swarm.file(i, "model")).unwrap_or_else(|error| panic!("{}: {error}", NAMES[i]));
    let mut found: Value = serde_json::from_str(&text).unwrap();
    let own = found["distance"].take();
    (found, own)
}

#[test]
fn killed_before_its_distance_is_summed_a_peer_comes_back_to_the_same_sketch_and_draw() {
    for aggregate in ["sketch", "scores", "draw"] {
        let mut swarm = swarm();
        let victim = 1;
        swarm.start(victim, &[&LABELLED[..], &["--hold-at", &format!("{aggregate}.compute")]].concat());
        (0..PEERS).filter(|&i| i != victim).for_each(|i| swarm.start(i, &LABELLED));
        swarm.wait_event(victim, "held");
        swarm.signal(victim, "KILL");
        assert_eq!(swarm.wait_end(victim).signal, Some(9));
        swarm.start(victim, &LABELLED);
        for (i, name) in NAMES.iter().enumerate().take(PEERS) {
            let ended = swarm.wait_end(i);
            assert_eq!(ended.code, Some(0), "{aggregate}: {name} {ended:?}");
        }
        let (first, _) = found(&swarm, 0);
        assert_eq!(first["selection"]["chosen"].as_array().unwrap().len(), 2);
        for (i, name) in NAMES.iter().enumerate().take(PEERS) {
            let (shared, own) = found(&swarm, i);
            assert_eq!(shared, first, "{aggregate}: {name}");
            // A peer that was in the sum of distances has published its own.
            let published = shared["published"][name].as_f64();
            let close = |published: f64| (published - own["row_mean"].as_f64().unwrap()).abs() < 1e-9;
            assert!(
                published.is_none_or(close) && (published.is_some() || i == victim),
                "{aggregate}: {name}"
            );
        }
    }
}

#[test]
fn the_demo_gives_seven_processes_one_sketch_and_ranks_them_by_their_classes() {
    let output = Command::new(PROGRAM).args(["demo", "sketch", "--json"]).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result["equal"], true, "{result:#}");
    assert_eq!(result["peers"].as_array().unwrap().len(), 7);
    assert_eq!(result["chosen"].as_array().unwrap().len(), 3);
    assert!(result["spearman"].as_f64().unwrap() > 0.7, "{result:#}");
}

/// The peer is killed when its release is committed and its distance is to be summed. It returns with
/// the release that it has drawn: a new one would cost budget again, and change its distance.
#[test]
fn a_private_release_outlives_a_peer_that_is_killed_after_it_was_summed() {
    let mut swarm = Swarm::new(PEERS, |session| {
        session.data.classes.clear();
        session.data.scaling = Scaling::UnitNorm;
        session.privacy.noise = Some(NoiseSpec::new("50".parse().expect("a number"), 0, NoiseMode::Parallel));
        let usual = SketchSpec::default();
        let spec =
            SketchSpec { rows: 10, range: 16, open_distances: true, pairwise: true, chosen: 2, ..usual };
        session.task = TaskSpec::from(spec);
    });
    let paid = [&LABELLED[..], &["--dataset", "ward", "--budget", "50"]].concat();
    let victim = 1;
    swarm.start(victim, &[&paid[..], &["--hold-at", "scores.compute"]].concat());
    (0..PEERS).filter(|&i| i != victim).for_each(|i| swarm.start(i, &paid));
    swarm.wait_event(victim, "held");
    swarm.signal(victim, "KILL");
    assert_eq!(swarm.wait_end(victim).signal, Some(9));
    swarm.start(victim, &paid);
    for (i, name) in NAMES.iter().enumerate().take(PEERS) {
        let ended = swarm.wait_end(i);
        assert_eq!(ended.code, Some(0), "{name} {ended:?}");
    }
    let (first, _) = found(&swarm, 0);
    assert_eq!(first["selection"]["chosen"].as_array().unwrap().len(), 2);
    assert!(
        first["counters"].as_array().unwrap().iter().any(|counter| counter.as_i64().unwrap() < 0),
        "there is noise"
    );
    for (i, name) in NAMES.iter().enumerate().take(PEERS) {
        let (shared, own) = found(&swarm, i);
        assert_eq!(shared, first, "{name}");
        let own = own["row_mean"].as_f64().unwrap();
        let published = shared["published"][name].as_f64();
        assert!(published.is_none_or(|published| (published - own.min(2.0)).abs() < 1e-9), "{name}");
        assert!(published.is_some() || i == victim, "{name}");
        assert!(swarm.receipt(i)["selection"]["chosen"] == first["selection"]["chosen"]);
    }
}

/// A drawn peer is killed when its counts are to be summed, and comes back.
#[test]
fn processes_that_draw_three_of_five_learn_from_these_alone() {
    for hold in [None, Some("holders.compute"), Some("counts.sum")] {
        let mut swarm = Swarm::new(PEERS, |session| {
            session.privacy.min_contributors = 1;
            let usual = SketchSpec::default();
            let Some(flynn) = session.task.get_mut::<flyswarm::tasks::FlynnSpec>() else {
                panic!("{:?}", session.task)
            };
            flynn.select = Some(SketchSpec { rows: 50, open_distances: true, chosen: 3, ..usual });
        });
        let victim = 2;
        match hold {
            None => swarm.start(victim, &[]),
            Some(hold) => swarm.start(victim, &["--hold-at", hold]),
        }
        (0..PEERS).filter(|&i| i != victim).for_each(|i| swarm.start(i, &[]));
        if hold.is_some() {
            swarm.wait_event(victim, "held");
            swarm.signal(victim, "KILL");
            assert_eq!(swarm.wait_end(victim).signal, Some(9));
            swarm.start(victim, &[]);
        }
        let all: Vec<_> = (0..PEERS).collect();
        for &i in &all {
            let ended = swarm.wait_end(i);
            assert_eq!((ended.code, &*ended.errors), (Some(0), ""), "{hold:?}: {}", NAMES[i]);
        }
        same_and_exact(&swarm, &all);
        let chosen = swarm.receipt(0)["selection"]["chosen"].as_array().unwrap().len();
        assert_eq!(chosen, 3, "{hold:?}");
    }
}

#[test]
fn the_demo_draws_three_of_seven_processes_and_gives_all_the_model_of_these() {
    let output = Command::new(PROGRAM).args(["demo", "--select", "sketch", "--json"]).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result["equal"], true, "{result:#}");
    assert_eq!(
        (result["peers"].as_array().unwrap().len(), result["chosen"].as_array().unwrap().len()),
        (7, 3)
    );
    let learnt = |peer: &&Value| peer["own_rows"].as_array().unwrap().iter().any(|name| name == "counts");
    assert_eq!(result["peers"].as_array().unwrap().iter().filter(learnt).count(), 3, "{result:#}");
}
