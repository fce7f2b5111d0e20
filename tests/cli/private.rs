//! The options of private sessions. The error for an invalid value names the option. A peer whose budget is
//! spent sends nothing.

use std::fs;
use std::process::{Command, Output, Stdio};

use flyswarm::session::{NoiseMode, NoiseSpec, Scaling, Session, TaskSpec};
use flyswarm::tasks::SketchSpec;

use crate::processes::swarm::{Swarm, files};

/// Makes a private session, of the task `sketch` if `sketches` is true, otherwise of the task `flynn`.
fn private(sketches: bool) -> impl FnOnce(&mut Session) {
    move |session| {
        session.data.scaling = Scaling::UnitNorm;
        let epsilon = "1".parse().expect("a number");
        session.privacy.noise =
            Some(NoiseSpec::new(epsilon, if sketches { 0 } else { 60 }, NoiseMode::Parallel));
        if sketches {
            session.data.classes.clear();
            let usual = SketchSpec::default();
            session.task = TaskSpec::from(SketchSpec { rows: 4, range: 8, open_distances: true, ..usual });
        }
    }
}

fn run(swarm: &Swarm, words: &[&str]) -> Output {
    let mut command = Command::new(crate::processes::swarm::PROGRAM);
    command.current_dir(swarm.folder.path()).args(words).stdin(Stdio::null()).output().expect("it runs")
}

/// Lets Alice join with these additional arguments.
fn join(swarm: &Swarm, more: &[&str]) -> Output {
    let words = [
        "join",
        "session.toml",
        "--data",
        "alice.csv",
        "--label",
        "last",
        "--key",
        "alice.key",
        "--out",
        "a.out",
    ];
    run(swarm, &[&words[..], &["--no-mdns", "--listen", "/ip4/127.0.0.1/tcp/0", "--json"], more].concat())
}

/// Checks that the program exited with code 2, contacted no peer, and printed an error that has all of
/// `words`. The error is one line, but the argument parser adds a hint to its own errors.
fn refused(output: &Output, words: &[&str]) {
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    let own = text.starts_with("flyswarm: ") && text.lines().count() == 1;
    assert!(own || text.starts_with("error: "), "{text}");
    assert!(words.iter().all(|word| text.contains(word)), "{words:?}: {text}");
    assert!(
        !String::from_utf8_lossy(&output.stdout).contains("listening"),
        "another peer could have been contacted"
    );
}

#[test]
fn bad_values_of_a_new_private_session_are_refused_by_the_name_of_the_option_or_field() {
    let folder = tempfile::tempdir().expect("a folder");
    let peers: Vec<String> =
        (0..3u8).map(|i| format!("p{i}={}", flyswarm::Identity::from_seed([i; 32]).public())).collect();
    let new = |task: &str, more: &[&str]| {
        let mut words = vec!["session", "new", task, "--name", "n", "--features", "4", "--out", "s.toml"];
        if task == "flynn" {
            words.extend(["--classes", "a,b"]);
        }
        peers.iter().for_each(|peer| words.extend(["--peer", peer]));
        words.extend(more);
        let mut command = Command::new(crate::processes::swarm::PROGRAM);
        command.current_dir(folder.path()).args(words).output().expect("it runs")
    };
    for (task, more, words) in [
        ("flynn", &["--epsilon", "much"][..], &["privacy.epsilon", "much"][..]),
        ("flynn", &["--epsilon", "0"], &["privacy.epsilon is 0"]),
        ("flynn", &["--epsilon", "-1"], &["-1"]),
        ("flynn", &["--epsilon", "0.0000001"], &["privacy.epsilon is"]),
        ("flynn", &["--epsilon", "0.0001"], &["privacy.epsilon is 0.0001, must be 0.001 to 100"]),
        ("flynn", &["--epsilon", "101"], &["privacy.epsilon is 101, must be 0.001 to 100"]),
        ("flynn", &["--set", "privacy.top=5"], &["privacy.top is given, must be left out"]),
        ("flynn", &["--epsilon", "1", "--set", "privacy.top=0"], &["privacy.top is 0, must be 1 to"]),
        ("flynn", &["--epsilon", "1", "--set", "privacy.top=many"], &["privacy.top", "many"]),
        ("flynn", &["--epsilon", "1", "--set", "privacy.mode=local"], &["privacy.mode", "local"]),
        ("flynn", &["--set", "privacy.mode=central"], &["privacy.mode is given, must be left out"]),
        (
            "flynn",
            &["--epsilon", "1", "--set", "privacy.colluders=1"],
            &["privacy.colluders is 1, must be left out with the mode per-party"],
        ),
        (
            "flynn",
            &["--epsilon", "1", "--set", "privacy.mode=central", "--set", "privacy.colluders=3"],
            &["privacy.colluders is 3, must be 1 to"],
        ),
        ("flynn", &["--epsilon", "1", "--set", "data.scaling=center"], &["data.scaling is center"]),
        (
            "sketch",
            &["--epsilon", "1", "--set", "privacy.top=5"],
            &["privacy.top is 5, must be left out with the task sketch"],
        ),
        (
            "sketch",
            &["--epsilon", "1", "--set", "privacy.mode=central"],
            &["privacy.mode is central, must be per-party or parallel"],
        ),
        ("sketch", &["--epsilon", "1", "--set", "data.scaling=center"], &["data.scaling is center"]),
    ] {
        refused(&new(task, more), words);
        assert!(!folder.path().join("s.toml").exists(), "{more:?}");
    }
    let made = new("sketch", &["--epsilon", "2.5", "--set", "privacy.mode=parallel", "--open-distances"]);
    assert!(made.status.success(), "{made:?}");
    let session = Session::load(folder.path().join("s.toml")).expect("a session");
    let noise = session.privacy.noise.expect("it is private");
    assert_eq!((noise.epsilon.to_string().as_str(), noise.top, noise.mode), ("2.5", 0, NoiseMode::Parallel));
    assert_eq!(
        (session.data.scaling, session.task.part::<SketchSpec>().map(|sketch| sketch.rows)),
        (Scaling::UnitNorm, Some(16))
    );
}

#[test]
fn a_private_session_is_joined_with_a_data_set_and_within_its_budget_or_not_at_all() {
    for sketches in [true, false] {
        let swarm = Swarm::new(3, private(sketches));
        let before = files(swarm.folder.path());
        let budget =
            "data set \"ward\" has spent 0 of its budget of 0.999999: a session of epsilon 1 would exceed it";
        refused(&join(&swarm, &[]), &["session.toml: a private session needs --dataset NAME"]);
        refused(&join(&swarm, &["--budget", "1"]), &["--dataset"]);
        refused(
            &join(&swarm, &["--dataset", ""]),
            &["--dataset is \"\", must be 1 to 64 printable characters"],
        );
        refused(&join(&swarm, &["--dataset", "a\u{7}b"]), &["--dataset is"]);
        refused(&join(&swarm, &["--dataset", "ward", "--budget", "all"]), &["--budget", "all"]);
        refused(&join(&swarm, &["--dataset", "ward", "--budget", "0"]), &["--budget"]);
        assert_eq!(files(swarm.folder.path()), before, "nothing is written");
        refused(&join(&swarm, &["--dataset", "ward", "--budget", "0.999999"]), &[budget]);
        if !sketches {
            // There are too few rows for such a small budget. A script gets the forecast, and nothing is
            // spent.
            let stopped = join(&swarm, &["--dataset", "ward"]);
            let errors = String::from_utf8_lossy(&stopped.stderr);
            assert_eq!(stopped.status.code(), Some(2), "{errors}");
            let last = errors.lines().last().unwrap_or_default();
            for part in
                ["forecast: balanced accuracy about", "of little use", "nothing was spent (--yes joins"]
            {
                assert!(last.contains(part), "{errors}");
            }
        }
        let spent = run(&swarm, &["ledger", "--key", "alice.key"]);
        assert!(String::from_utf8_lossy(&spent.stdout).ends_with("nothing spent\n"), "{spent:?}");
        assert!(!swarm.folder.path().join("a.out").exists());
    }
    let exact = Swarm::new(3, |_| {});
    let words = ["session.toml: --budget: the session has no privacy.epsilon"];
    refused(&join(&exact, &["--dataset", "ward", "--budget", "1"]), &words);
}

/// The first session spends the whole budget. The second session is refused before the peer listens. It would
/// not be refused if the data set had another name.
#[test]
fn a_second_session_of_sketches_beyond_the_budget_sends_nothing() {
    let mut swarm = Swarm::new(3, private(true));
    (0..3).for_each(|i| swarm.start(i, &["--label", "last", "--dataset", "ward", "--budget", "1.5"]));
    for i in 0..3 {
        let ended = swarm.wait_end(i);
        assert_eq!((ended.code, &*ended.errors), (Some(0), ""));
    }
    let mut second = swarm.session.clone();
    second.name = "second".into();
    fs::write(swarm.folder.path().join("session.toml"), second.to_toml()).expect("written");
    let words =
        ["data set \"ward\" has spent 1 of its budget of 1.5: a session of epsilon 1 would exceed it"];
    refused(&join(&swarm, &["--dataset", "ward", "--budget", "1.5"]), &words);
    let spent = run(&swarm, &["ledger", "--key", "alice.key", "--json"]);
    let ledger: serde_json::Value = serde_json::from_slice(&spent.stdout).expect("JSON");
    assert_eq!(
        ledger["datasets"],
        serde_json::json!([{"dataset": "ward", "spent": "1", "delta": 0.0, "on_shares": 0}])
    );
    assert_eq!(ledger["charges"].as_array().map(Vec::len), Some(1));
}

#[test]
fn a_ledger_that_cannot_be_read_is_named_with_its_line() {
    let swarm = Swarm::new(3, private(true));
    refused(
        &run(&swarm, &["ledger", "--key", "missing.key"]),
        &["missing.key: there is no key file; `flyswarm id --key "],
    );
    refused(&run(&swarm, &["ledger", "--colour"]), &["--colour"]);
    let path = swarm.folder.path().join("ledger").join(format!("{}.jsonl", swarm.keys[0].public()));
    fs::create_dir(path.parent().expect("a folder")).expect("made");
    fs::write(&path, "nonsense\n").expect("written");
    let words = ["line 1 of the ledger is damaged"];
    refused(&run(&swarm, &["ledger", "--key", "alice.key"]), &words);
    refused(&join(&swarm, &["--dataset", "ward"]), &words);
}

#[test]
fn rows_of_a_session_without_classes_need_no_label_column() {
    let mut swarm = Swarm::new(3, private(true));
    for i in 0..3 {
        let text = fs::read_to_string(swarm.file(i, "csv")).expect("rows");
        let bare: Vec<&str> = text.lines().map(|line| line.rsplit_once(',').expect("a label").0).collect();
        fs::write(swarm.file(i, "csv"), bare.join("\n") + "\n").expect("written");
        swarm.start(i, &["--dataset", "ward"]);
    }
    for i in 0..3 {
        let ended = swarm.wait_end(i);
        assert_eq!((ended.code, &*ended.errors), (Some(0), ""));
    }
    refused(&join(&swarm, &["--dataset", "ward", "--force"]), &["alice.csv", "63"]);
}
