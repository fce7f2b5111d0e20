//! The rows that a session's state belongs to, and the events of a peer about its own rows.

use std::process::Stdio;

use flyswarm::session::Scaling;
use flyswarm_data::digits::digits;

use super::check::same_and_exact;
use super::lives::{one_line, succeeded};
use super::swarm::{NAMES, PROGRAM, Swarm, csv};

/// The restart comes in the middle, after one sum was opened with the first rows.
#[test]
fn a_restart_with_other_rows_is_refused_and_one_with_the_same_goes_on() {
    let mut swarm = Swarm::new(5, |session| {
        session.min_peers = 5;
        session.timing.no_quorum_timeout_ms = 60_000;
    });
    let victim = swarm.first_tree()[4];
    for i in 0..5 {
        if i == victim { swarm.start(i, &["--hold-at", "counts.compute"]) } else { swarm.start(i, &[]) }
    }
    swarm.wait(&format!("{} held", NAMES[victim]), |told| (told.value["event"] == "held").then_some(()));
    swarm.signal(victim, "KILL");
    swarm.wait_end(victim);
    let other = swarm.folder.path().join("other.csv");
    std::fs::write(&other, csv(&digits(), &swarm.parts[(victim + 1) % 5])).expect("written");
    // Neither the same state nor another folder accepts other rows.
    for state in ["state", "elsewhere"] {
        let mut command = std::process::Command::new(PROGRAM);
        swarm.arguments_with(&mut command, victim, "data", &other);
        if state == "elsewhere" {
            let at = command.get_args().position(|word| word == "--state").expect("--state") + 1;
            let words: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
            command = std::process::Command::new(PROGRAM);
            command.args(&words[..at]).arg(swarm.folder.path().join(state)).args(&words[at + 1..]);
        }
        let output = command.stdin(Stdio::null()).output().expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let errors = String::from_utf8_lossy(&output.stderr);
        for part in ["other.csv: this session already holds the counts of other rows (", "session next"] {
            assert!(errors.contains(part), "{errors}");
        }
        let first = format!("{}.csv)", NAMES[victim]);
        assert!(errors.contains(&first) && errors.lines().count() == 1, "{errors}");
    }
    swarm.start(victim, &[]);
    for i in 0..5 {
        succeeded(&swarm.wait_end(i));
    }
    assert_eq!(same_and_exact(&swarm, &[0, 1, 2, 3, 4]).len(), 5);
    let receipt = swarm.receipt(victim);
    assert_eq!(receipt["own_rows"]["left_out"].as_array().map(Vec::len), Some(0));
    assert_eq!(receipt["data"]["rows"].as_u64(), Some(swarm.parts[victim].len() as u64));
    assert_eq!(receipt["run_id"], hex::encode(swarm.session.run.id));
    // Now the session is over, and `doctor` reports it.
    let mut doctor = std::process::Command::new(PROGRAM);
    doctor.arg("doctor").arg(swarm.folder.path().join("session.toml")).args(["--wait", "1", "--no-mdns"]);
    doctor.args(["--listen", "/ip4/127.0.0.1/tcp/0", "--key"]).arg(swarm.file(victim, "key"));
    doctor.arg("--state").arg(swarm.folder.path().join("state"));
    let output = doctor.output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("error    over: this peer has finished the session"), "{text}");
}

#[test]
fn a_peer_with_other_units_is_warned_alone_and_leaves_before_its_counts_are_given_if_asked_to() {
    let mut swarm = Swarm::new(4, |session| {
        session.data.scaling = Scaling::UnitNorm;
        session.data.checks.compare = true;
    });
    let odd = 2;
    let text = std::fs::read_to_string(swarm.file(odd, "csv")).expect("rows");
    let thousands = |line: &str| {
        let (values, label) = line.rsplit_once(',').expect("a label");
        let values: Vec<_> =
            values.split(',').map(|value| value.parse::<f32>().expect("a number") * 1000.0).collect();
        values.iter().map(|value| format!("{value},")).collect::<String>() + label
    };
    let lines: Vec<_> = text.lines().map(thousands).collect();
    std::fs::write(swarm.file(odd, "csv"), lines.join("\n") + "\n").expect("written");
    for i in 0..4 {
        swarm.start(i, if i == odd { &["--strict"] } else { &[] });
    }
    let ended = swarm.wait_end(odd);
    assert_eq!(ended.code, Some(2), "{ended:?}");
    let line = one_line(&ended);
    for part in
        ["left before its rows were counted (--strict)", "other units?", "times the others' deviation"]
    {
        assert!(line.contains(part), "{line}");
    }
    assert!(!swarm.told(odd, "warning").is_empty() || line.contains("feature"));
    let others: Vec<_> = (0..4).filter(|&i| i != odd).collect();
    for &i in &others {
        succeeded(&swarm.wait_end(i));
        // The warning does not name the peer with these rows.
        for told in swarm.told(i, "warning") {
            assert!(!told["message"].as_str().expect("a line").contains(NAMES[odd]), "{told}");
        }
    }
    let counted = same_and_exact(&swarm, &others);
    assert!(!counted.iter().any(|name| name == NAMES[odd]), "{counted:?}");
}
