//! Real processes of `flyswarm join`, killed, paused, cut off and restarted. Each test says what the others
//! must end with.
#![cfg(all(feature = "net", unix))]
#![allow(clippy::disallowed_methods)] // the tests look at the clock to bound their waiting
#![allow(missing_docs, unreachable_pub)]

#[path = "processes/check.rs"]
pub mod check;
#[path = "processes/conform.rs"]
mod conform;
#[path = "processes/cut.rs"]
mod cut;
#[path = "processes/flood.rs"]
mod flood;
#[path = "processes/lives.rs"]
mod lives;
#[path = "processes/private.rs"]
mod private;
#[path = "processes/relay.rs"]
mod relay;
#[cfg(target_os = "linux")]
#[path = "processes/relay_flood.rs"]
mod relay_flood;
#[path = "processes/rows.rs"]
mod rows;
#[path = "processes/simulated.rs"]
mod simulated;
#[path = "processes/sketch.rs"]
mod sketch;
#[path = "processes/swarm.rs"]
pub mod swarm;
#[path = "processes/table.rs"]
mod table;
#[path = "processes/xclp.rs"]
mod xclp;
#[path = "processes/xclp_kills.rs"]
mod xclp_kills;

use std::process::Command;

use check::same_and_exact;
use flyswarm::session::{Scaling, Setting, TaskSpec, TuneSpec};
use swarm::Swarm;

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
fn traces_of_two_peers_agree_on_every_frame_between_them() {
    let mut swarm = Swarm::new(3, |_| {});
    let trace = |swarm: &Swarm, i: usize| swarm.file(i, "trace.json");
    for i in 0..3 {
        let path = trace(&swarm, i);
        swarm.start(i, &["--trace", path.to_str().expect("text")]);
    }
    for i in 0..3 {
        assert_eq!(swarm.wait_end(i).code, Some(0));
    }
    let mut frames = Vec::new();
    for (mine, theirs) in [(0, 1), (1, 2), (2, 0)] {
        let mut command = Command::new(swarm::PROGRAM);
        command.args(["conform", "diff"]).arg(trace(&swarm, mine)).arg(trace(&swarm, theirs));
        let output = command.output().expect("it runs");
        let said = String::from_utf8(output.stdout).expect("text");
        // Who ends first does not read the other's last words.
        let numbers = said.split_whitespace().filter_map(|word| word.parse::<usize>().ok());
        let fine = said.starts_with("the same: ") || said.contains(" goes on, with ");
        let compared = numbers.max().unwrap_or_default();
        assert!(fine && compared >= 2, "{said}");
        frames.push(compared);
    }
    // The two that do not lead only greet each other, and say that they are done.
    assert!(frames.iter().filter(|compared| **compared > 10).count() >= 2, "{frames:?}");
    let mode = std::fs::metadata(trace(&swarm, 0)).expect("it is there").permissions();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777, 0o600);
}

#[test]
fn a_session_of_the_task_tune_gives_every_process_the_same_settings_which_a_session_takes() {
    let mut swarm = Swarm::new(3, |session| {
        let setting = |scaling, s| Setting { scaling, densify: false, m: 512, s, rho: 16 };
        let settings = vec![setting(Scaling::Center, 10), setting(Scaling::SoftBins { bins: 4 }, 3)];
        let model = *session.task.model().expect("a model");
        session.task = TaskSpec::Tune(TuneSpec { model, folds: 3, settings });
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
