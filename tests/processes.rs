//! Real processes of `flyswarm join`. Each test says what the others must end with. Those whose nodes are
//! held at a stage are tests of `crates/conform`.
#![cfg(all(feature = "net", unix))]
#![allow(clippy::disallowed_methods)] // the tests look at the clock to bound their waiting
#![allow(missing_docs, unreachable_pub)]

#[path = "processes/check.rs"]
pub mod check;
#[path = "processes/flood.rs"]
mod flood;
#[path = "processes/relay.rs"]
mod relay;
#[cfg(target_os = "linux")]
#[path = "processes/relay_flood.rs"]
mod relay_flood;
#[path = "processes/swarm.rs"]
pub mod swarm;
#[path = "processes/word.rs"]
mod word;
#[path = "processes/xclp.rs"]
mod xclp;
#[path = "processes/xclp_kills.rs"]
mod xclp_kills;

use check::same_and_exact;
use flyswarm::session::{Scaling, TaskSpec};
use flyswarm::tasks::{Setting, TuneSpec};
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
fn a_session_of_the_task_tune_gives_every_process_the_same_settings_which_a_session_takes() {
    let mut swarm = Swarm::new(3, |session| {
        let setting = |scaling, s| Setting { scaling, densify: false, m: 512, s, rho: 16 };
        let settings = vec![setting(Scaling::Center, 10), setting(Scaling::SoftBins { bins: 4 }, 3)];
        let model = *session.task.model().expect("a model");
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
    // What was found goes into a session file as it stands.
    let (data, flynn) =
        texts[0].split_once("\n\n").and_then(|(_, lines)| lines.split_once("\n\n")).expect("two tables");
    let mut session = swarm.session.clone();
    session.task = (*session.task.model().expect("a model")).into();
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
