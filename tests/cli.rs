//! Tests of the real binary: its messages for invalid input, and the output of a demo. An error is one line
//! that names the value to correct.
#![allow(clippy::disallowed_methods)] // the tests look at the clock to bound their waiting
#![allow(missing_docs, unreachable_pub)]

#[cfg(all(feature = "net", unix))]
#[path = "cli/join.rs"]
mod join;
#[cfg(all(feature = "net", unix))]
#[path = "cli/private.rs"]
mod private;

use std::path::Path;
use std::process::{Command, Output};

/// Runs `flyswarm` with these arguments in `folder`.
fn flyswarm(folder: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_flyswarm")).args(words).current_dir(folder).output().expect("it runs")
}

#[cfg(not(feature = "net"))]
#[test]
fn without_the_network_there_is_neither_demo_nor_join() {
    for command in ["demo", "join"] {
        let output = flyswarm(Path::new("."), &[command]);
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&output.stderr).contains("unrecognized subcommand"));
    }
    let help = flyswarm(Path::new("."), &["--help"]);
    assert!(!String::from_utf8_lossy(&help.stdout).contains("demo"));
}

#[test]
fn the_help_of_session_new_describes_each_task() {
    let help = flyswarm(Path::new("."), &["session", "new", "--help"]);
    let text = String::from_utf8_lossy(&help.stdout).into_owned();
    for line in ["flynn        a classifier (FlyNN)", "xclp         labels for each peer's own rows"] {
        assert!(text.contains(line), "{text}");
    }
}

#[cfg(feature = "net")]
#[test]
fn a_demo_ends_with_equal_models_that_the_other_commands_read() {
    use std::collections::BTreeSet;

    let folder = tempfile::tempdir().expect("a folder");
    let output =
        flyswarm(folder.path(), &["demo", "--peers", "3", "--seed", "7", "--json", "--keep", "kept"]);
    assert_eq!((output.status.code(), &*String::from_utf8_lossy(&output.stderr)), (Some(0), ""));
    let text = String::from_utf8(output.stdout).expect("text");
    assert_eq!(text.trim_end().lines().count(), 1, "{text}");
    let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let keys =
        |value: &serde_json::Value| value.as_object().expect("an object").keys().cloned().collect::<Vec<_>>();
    for key in ["task", "peers", "pooled", "alone", "knn", "members", "stages", "seconds"] {
        assert!(keys(&value).iter().any(|known| known == key), "{key} is missing: {text}");
    }
    let peers = value["peers"].as_array().expect("peers");
    assert_eq!(peers.len(), 3);
    for peer in peers {
        assert_eq!(keys(peer), ["bytes_sent", "digest", "labels", "name", "own_rows", "rows"]);
        assert!(peer["bytes_sent"].as_u64().is_some_and(|bytes| bytes > 1000), "{peer}");
    }
    let digests: BTreeSet<_> = peers.iter().map(|each| each["digest"].to_string()).collect();
    assert_eq!((digests.len(), &value["equal"]), (1, &serde_json::Value::Bool(true)), "{digests:?}");
    assert_eq!(value["accuracy"], value["pooled"]["accuracy"]);
    assert!(value["pooled"]["accuracy"].as_f64() > value["alone"]["accuracy"].as_f64());
    assert!(value["knn"]["accuracy"].as_f64() > Some(0.9));
    assert_eq!(value["members"].as_array().map(Vec::len), Some(3));
    for stage in value["stages"].as_array().expect("stages") {
        assert_eq!(keys(stage), ["bytes", "name", "seconds"]);
    }
    let out = |words: &[&str]| {
        let output = flyswarm(folder.path(), words);
        // The line that column names were not compared is printed only by a command that reads rows.
        let said = if words.contains(&"--data") {
            "kept/bob.csv: the file and the model have no column names: names are not checked\n"
        } else {
            ""
        };
        // A demo writes no file of learnt rows. The program judges a model only if there are 20 rows of each
        // class.
        let few = "warning: it is unknown whether this model has learnt from these rows, because \
                   kept/alice.model.learnt-rows is not next to it\n\
                   warning: Too few events to say how good the model is: 11 rows of \"0\", and 20 are needed.\n";
        let said = format!("{said}{}", if words[0] == "report" { few } else { "" });
        assert_eq!(
            (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned()),
            (Some(0), said),
            "{words:?}"
        );
        String::from_utf8(output.stdout).expect("text")
    };
    let rows = std::fs::read_to_string(folder.path().join("kept/bob.csv")).expect("rows").lines().count();
    assert_eq!(
        out(&["predict", "kept/alice.model", "--data", "kept/bob.csv", "--label", "last"]).lines().count(),
        rows
    );
    let report = out(&["report", "kept/alice.model", "--data", "kept/bob.csv"]);
    assert!(report.contains(&format!("\n\nrows               {rows}\n")), "{report}");
    let digest = peers[0]["digest"].as_str().expect("a digest");
    assert!(out(&["inspect", "kept/carol.model"]).contains(digest));
    assert!(out(&["session", "check", "kept/session.toml"]).lines().count() >= 1);
    let again = flyswarm(folder.path(), &["demo", "--peers", "3", "--keep", "kept"]);
    assert_eq!(again.status.code(), Some(2));
    assert_eq!(String::from_utf8_lossy(&again.stderr), "flyswarm: kept: exists\n");
    let kept = std::fs::read_dir(folder.path()).expect("a folder").count();
    assert_eq!(kept, 1, "nothing outside the kept folder");
}

#[cfg(feature = "net")]
#[test]
fn a_demo_of_two_is_refused() {
    let output = flyswarm(Path::new("."), &["demo", "--peers", "2"]);
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("2 is not in 3..=16") || text.contains("3 to 16"), "{text}");
}
