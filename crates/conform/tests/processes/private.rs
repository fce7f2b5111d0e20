//! Differentially private sessions of real processes: each peer releases once, and pays for it once.

use std::fs;
use std::process::Command;

use flyswarm::session::{NoiseMode, NoiseSpec, Scaling, Session, TaskSpec};
use flyswarm::tasks::{FedavgSpec, FlynnSpec, Weighting};

use super::lives::succeeded;
use super::swarm::{NAMES, PROGRAM, Swarm};

/// Arguments with `--yes`, because the forecast warns: with few rows and a small budget, the model is of
/// little use.
const PAID: [&str; 5] = ["--dataset", "ward", "--budget", "1", "--yes"];

fn private(mode: NoiseMode) -> impl FnOnce(&mut Session) {
    move |session| {
        session.data.scaling = Scaling::Range { lo: 0.0, hi: 16.0 };
        let model = &mut session.task.get_mut::<FlynnSpec>().expect("a model").model;
        (model.m, model.rho) = (256, 8);
        session.privacy.noise = Some(NoiseSpec::new("1".parse().expect("a number"), 60, mode));
    }
}

fn ledger(swarm: &Swarm, i: usize) -> String {
    let output = Command::new(PROGRAM)
        .current_dir(swarm.folder.path())
        .args(["ledger", "--key", &format!("{}.key", NAMES[i])])
        .output()
        .expect("it runs");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn private_processes_get_one_model_and_a_killed_one_pays_once() {
    for mode in [NoiseMode::Parallel, NoiseMode::Central] {
        let mut swarm = Swarm::new(3, private(mode));
        swarm.start(0, &[&PAID[..], &["--hold-at", "counts.sum"]].concat());
        (1..3).for_each(|i| swarm.start(i, &PAID));
        swarm.wait("the first held", |told| (told.value["event"] == "held").then_some(()));
        swarm.signal(0, "KILL");
        swarm.wait_end(0);
        swarm.start(0, &PAID);
        for i in 0..3 {
            succeeded(&swarm.wait_end(i));
            let spent = ledger(&swarm, i);
            assert!(spent.contains("ward: 1 spent\n") && spent.lines().count() == 3, "{spent}");
        }
        let model = |i| flyswarm_learn::model::Model::load(&swarm.file(i, "model")).expect("a model");
        let digests: Vec<_> = (0..3).map(|i| model(i).digest()).collect();
        assert!(digests[0] == digests[1] && digests[1] == digests[2]);
        // The next session finds the budget spent, and sends nothing.
        let mut other = swarm.session.clone();
        other.name = "another".into();
        fs::write(swarm.folder.path().join("session.toml"), other.to_toml()).expect("written");
        swarm.start(1, &PAID);
        let ended = swarm.wait_end(1);
        assert_eq!(ended.code, Some(2), "{ended:?}");
        assert!(ended.errors.contains("data set \"ward\" has spent 1 of its budget of 1"), "{ended:?}");
        swarm.start(2, &[]);
        assert!(swarm.wait_end(2).errors.contains("needs --dataset"));
    }
}

/// Sets three rounds with noise. With three peers, the noise leaves little of the updates, as the
/// forecast says.
fn private_rounds(session: &mut Session) {
    let fedavg =
        FedavgSpec { rounds: 3, rate: 0.1, clip: 0.5, weighting: Weighting::Equal, ..FedavgSpec::default() };
    session.task = TaskSpec::from(fedavg);
    session.min_peers = Session::default_min_peers(&session.task, session.roster.len());
    session.data.scaling = Scaling::Range { lo: 0.0, hi: 16.0 };
    let noise = NoiseSpec::new("8".parse().expect("a number"), 0, NoiseMode::Member);
    session.privacy.noise = Some(NoiseSpec { delta: NoiseSpec::exact_delta(1e-5), ..noise });
}

#[test]
fn private_rounds_of_processes_give_one_network_and_a_killed_one_pays_once() {
    let paid = ["--dataset", "ward", "--budget", "8", "--yes"];
    let mut swarm = Swarm::new(3, private_rounds);
    swarm.start(0, &[&paid[..], &["--hold-at", "round-2.sum"]].concat());
    (1..3).for_each(|i| swarm.start(i, &paid));
    swarm.wait("the first held", |told| (told.value["event"] == "held").then_some(()));
    swarm.signal(0, "KILL");
    swarm.wait_end(0);
    swarm.start(0, &paid);
    let mut networks = Vec::new();
    for i in 0..3 {
        succeeded(&swarm.wait_end(i));
        let spent = ledger(&swarm, i);
        assert!(spent.contains("ward: 8 spent (delta 1.0e-5)\n") && spent.lines().count() == 3, "{spent}");
        assert!(swarm.told(i, "figures").is_empty(), "a private session reports no exact sums");
        let network = flyswarm_learn::learner::Classifier::load(&swarm.file(i, "model"));
        networks.push(network.expect("a network").weights().to_vec());
    }
    assert!(networks[0] == networks[1] && networks[1] == networks[2]);
    assert!(networks[0].iter().any(|weight| weight.abs() > 0.5), "noise is much longer than any update");
}
