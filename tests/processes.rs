//! Real processes of `flyswarm join`. Each test checks how the other peers end. Tests that hold a node at a
//! stage are in `crates/conform`.
#![cfg(all(feature = "net", unix))]
#![allow(clippy::disallowed_methods)] // the tests look at the clock to bound their waiting
#![allow(missing_docs, unreachable_pub)]

#[path = "processes/check.rs"]
pub mod check;
#[path = "processes/flood.rs"]
mod flood;
#[path = "processes/glm.rs"]
mod glm;
#[path = "processes/grouped.rs"]
mod grouped;
#[path = "processes/relay.rs"]
mod relay;
#[cfg(target_os = "linux")]
#[path = "processes/relay_flood.rs"]
mod relay_flood;
#[path = "processes/serves.rs"]
mod serves;
#[path = "processes/swarm.rs"]
pub mod swarm;
#[path = "processes/word.rs"]
mod word;
#[path = "processes/xclp.rs"]
mod xclp;
#[path = "processes/xclp_kills.rs"]
mod xclp_kills;

use std::os::unix::fs::PermissionsExt;

use check::same_and_exact;
use flyswarm::session::{Scaling, TaskSpec};
use flyswarm::tasks::{ModelSpec, Setting, TuneSpec};
use sha2::{Digest, Sha256};
use swarm::Swarm;

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_flyswarm");

#[test]
fn five_processes_arrive_at_the_pooled_model() {
    let mut swarm = Swarm::new(5, |_| {});
    swarm.start_all();
    let all: Vec<_> = (0..5).collect();
    for &i in &all {
        let ended = swarm.wait_end(i);
        assert_eq!((ended.code, &*ended.errors), (Some(0), ""));
    }
    assert_eq!(same_and_exact(&swarm, &all).len(), 5);
}

#[test]
fn the_receipt_has_the_digest_of_the_map_file_and_a_report_knows_own_rows_again() {
    let mut swarm = Swarm::new(3, |_| {});
    let (map, text) = (swarm.folder.path().join("alice.toml"), "# The rows are right as they are.\n");
    std::fs::write(&map, text).expect("written");
    let map = map.display().to_string();
    swarm.start(0, &["--map", &map]);
    (1..3).for_each(|i| swarm.start(i, &[]));
    for i in 0..3 {
        let ended = swarm.wait_end(i);
        assert_eq!((ended.code, &*ended.errors), (Some(0), ""));
    }
    assert_eq!(same_and_exact(&swarm, &[0, 1, 2]).len(), 3);
    assert_eq!(swarm.receipt(0)["map_sha256"], hex::encode(Sha256::digest(text)));
    assert_eq!(swarm.receipt(1)["map_sha256"], serde_json::Value::Null);

    let learnt = |model: usize, data: usize, more: &[&str]| {
        let mut report = std::process::Command::new(PROGRAM);
        report.arg("report").arg(swarm.file(model, "model")).arg("--json");
        let report = report.arg("--data").arg(swarm.file(data, "csv")).args(more).output().expect("it runs");
        let value: serde_json::Value = serde_json::from_slice(&report.stdout).expect("JSON");
        (value["rows_learnt_from"].as_u64(), String::from_utf8(report.stderr).expect("text"))
    };
    let (rows, warned) = learnt(0, 0, &["--map", &map]);
    assert_eq!(rows, Some(swarm.parts[0].len() as u64));
    assert!(warned.contains("\nwarning: 170 of these 170 rows equal rows that this model has"), "{warned}");
    assert_eq!(learnt(1, 1, &[]).0, Some(swarm.parts[1].len() as u64));
    // A peer does not know which rows another peer has contributed.
    assert_eq!(learnt(1, 2, &[]).0, Some(0));
    let mode = std::fs::metadata(swarm.file(1, "model.learnt-rows")).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_session_of_the_task_tune_gives_every_process_the_same_settings_which_a_session_takes() {
    let mut swarm = Swarm::new(3, |session| {
        let setting = |scaling, s| Setting { scaling, densify: false, m: 512, s, rho: 16 };
        let settings = vec![setting(Scaling::Center, 10), setting(Scaling::SoftBins { bins: 4 }, 3)];
        let model = *session.task.part::<ModelSpec>().expect("a model");
        session.task = TaskSpec::from(TuneSpec { model, folds: 3, settings });
    });
    swarm.start_all();
    for i in 0..3 {
        let ended = swarm.wait_end(i);
        assert_eq!((ended.code, &*ended.errors), (Some(0), ""));
    }
    let texts: Vec<_> =
        (0..3).map(|i| std::fs::read_to_string(swarm.file(i, "model")).expect("settings")).collect();
    assert!(texts[0] == texts[1] && texts[1] == texts[2], "{texts:?}");
    let scores: Vec<f64> =
        texts[0].lines().filter_map(|line| line.strip_prefix("#   ")?.get(..6)?.parse().ok()).collect();
    assert!(scores.len() == 3 && scores[0] > 0.85 && scores.is_sorted_by(|a, b| a >= b), "{}", texts[0]);
    let receipts: Vec<_> = (0..3).map(|i| swarm.receipt(i)).collect();
    assert!(
        receipts.iter().all(|receipt| receipt["settings"]["digest"] == receipts[0]["settings"]["digest"])
    );
    assert_eq!(check::members(&receipts[0], "scores").len(), 3);
    // The values that were found can be pasted into a session file as they are.
    let (data, flynn) =
        texts[0].split_once("\n\n").and_then(|(_, lines)| lines.split_once("\n\n")).expect("two tables");
    let mut session = swarm.session.clone();
    session.task = (*session.task.part::<ModelSpec>().expect("a model")).into();
    let text = session.to_toml();
    let (head, rest) = text.split_once("[data]").expect("a table");
    let (_, rest) = rest.split_once("[privacy]").expect("a table");
    let classes: Vec<_> = session.data.classes.iter().map(|class| format!("{class:?}")).collect();
    let text = format!(
        "{head}[data]\nfeatures = 64\nclasses = [{}]\n{data}\n{flynn}\n[privacy]{rest}",
        classes.join(", ")
    );
    flyswarm::session::Session::parse(&text).expect(&text);
}
