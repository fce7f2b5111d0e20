//! The program does what it promises, even if its terminal, its page or other peers behave in unusual ways.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use flyswarm::session::Run;

use super::PROGRAM;
use super::check::same_and_exact;
use super::swarm::{Ended, Swarm};

/// Runs a command whose standard error is broken in this way.
fn mute(folder: &Path, words: &[&str], errors: Stdio) -> Output {
    let mut command = Command::new(PROGRAM);
    command.current_dir(folder).args(words).stdin(Stdio::null()).stderr(errors);
    command.output().expect("it runs")
}

/// Returns two kinds of standard error that accept nothing: a full disk, and a pipe whose reader has ended.
fn gone() -> Vec<(&'static str, Stdio)> {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let full = File::options().write(true).open("/dev/full").ok().map(|full| ("full disk", full.into()));
    [("no reader", writer.into())].into_iter().chain(full).collect()
}

#[test]
fn work_is_done_although_nobody_reads_standard_error() {
    let swarm = Swarm::new(3, |_| {});
    let folder = swarm.folder.path();
    let peers: Vec<_> = swarm.keys.iter().zip(["a", "b", "c"]).collect();
    let peers: Vec<_> = peers.iter().map(|(key, name)| format!("{name}={}", key.public())).collect();
    std::fs::write(folder.join("few.csv"), "a,b,c\n1,2,x\n2,1,y\n3,2,x\n").expect("a file");
    let mut words = vec!["session", "new", "flynn", "--name", "d", "--from", "few.csv", "--label", "c"];
    words.extend(["--min-rows", "1", "--classes", "x,y", "--out", "new.toml"]);
    words.extend(peers.iter().flat_map(|peer| ["--peer", peer]));
    for (what, errors) in gone().into_iter().chain([("a reader", Stdio::piped())]) {
        let made = mute(folder, &words, errors);
        assert_eq!(made.status.code(), Some(0), "{what}: {made:?}");
        // This checks that the command writes to standard error. Otherwise the test would prove nothing.
        assert_eq!(!made.stderr.is_empty(), what == "a reader", "{made:?}");
        std::fs::remove_file(folder.join("new.toml")).expect("it was written");
    }
    for (what, errors) in gone() {
        let next = mute(folder, &["session", "next", "session.toml", "--out", "next.toml"], errors);
        assert_eq!(next.status.code(), Some(0), "{what}: {next:?}");
        std::fs::remove_file(folder.join("next.toml")).expect("it was written");
    }
    for (what, errors) in gone() {
        let wrong = mute(folder, &["schema", "check", "nothere.toml", "--data", "alice.csv"], errors);
        assert_eq!(wrong.status.code(), Some(2), "{what}: {wrong:?}");
    }
    for (what, errors) in gone() {
        let words = ["--log", "debug", "session", "show", "session.toml"];
        assert_eq!(mute(folder, &words, errors).status.code(), Some(0), "{what}");
    }
}

#[test]
fn a_join_that_cannot_finish_ends_with_3_although_nobody_reads_it() {
    let swarm = Swarm::new(3, |session| {
        session.timing.start_wait_ms = 300;
        session.timing.no_quorum_timeout_ms = 300;
    });
    let mut running = Vec::new();
    for (i, (what, errors)) in gone().into_iter().enumerate() {
        let mut command = Command::new(PROGRAM);
        command.arg("join").arg(swarm.folder.path().join("session.toml"));
        command.arg("--data").arg(swarm.file(i, "csv")).arg("--key").arg(swarm.file(i, "key"));
        command.args(["--no-mdns", "--listen", "/ip4/127.0.0.1/tcp/0", "--log", "info", "--out"]);
        command.arg(swarm.file(i, "model")).stdin(Stdio::null()).stderr(errors);
        running.push((what, command.spawn().expect("it starts")));
    }
    for (what, mut child) in running {
        assert_eq!(child.wait().expect("its end").code(), Some(3), "{what}");
    }
}

fn left(ended: &Ended) {
    assert_eq!(ended.code, Some(130), "{ended:?}");
    assert_eq!(ended.errors, "flyswarm: interrupted: left the session before it was finished\n");
}

#[test]
fn a_node_whose_terminal_closes_leaves_with_a_word() {
    let mut swarm = Swarm::new(3, |session| session.timing.start_wait_ms = 60_000);
    swarm.start(0, &[]);
    swarm.wait_event(0, "listening");
    // A terminal may send the signal twice. The second signal must not end the program at once.
    swarm.signal(0, "HUP");
    swarm.signal(0, "HUP");
    left(&swarm.wait_end(0));
}

#[cfg(target_os = "linux")]
#[test]
fn a_node_that_was_started_with_nohup_stays() {
    let mut swarm = Swarm::new(3, |session| session.timing.start_wait_ms = 60_000);
    let join = swarm.command(0);
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' HUP; exec \"$0\" \"$@\""]).arg(join.get_program()).args(join.get_args());
    swarm.start_command(0, command);
    swarm.wait_event(0, "listening");
    swarm.signal(0, "HUP");
    assert!(
        swarm
            .wait_within(Duration::from_secs(1), |told| (told.value["event"] == "error").then_some(()))
            .is_none()
    );
    swarm.signal(0, "TERM");
    left(&swarm.wait_end(0));
}

/// Each peer first gets the addresses of the processes of the other session. mDNS may do this too.
#[test]
fn two_sessions_of_the_same_identities_at_once_both_finish() {
    let mut one = Swarm::new(3, |_| {});
    let mut other =
        Swarm::with_keys(one.keys.clone(), |session| session.run = Run::new([8; 16], 1_000_000_000));
    let listens = |swarm: &mut Swarm, i: usize| {
        swarm.start(i, &[]);
        swarm.wait_event(i, "listening")["address"].as_str().expect("an address").to_owned()
    };
    let first: Vec<_> = (0..3).map(|i| listens(&mut one, i)).collect();
    let second: Vec<_> = (0..3).map(|i| listens(&mut other, i)).collect();
    for (i, j) in (0..3).flat_map(|i| (0..3).map(move |j| (i, j))) {
        one.introduce(i, j, &second[j]);
        other.introduce(i, j, &first[j]);
    }
    for swarm in [&mut one, &mut other] {
        for i in 0..3 {
            let ended = swarm.wait_end(i);
            assert_eq!((ended.code, &*ended.errors), (Some(0), ""), "{}", swarm.story());
        }
        assert_eq!(same_and_exact(swarm, &[0, 1, 2]).len(), 3);
    }
    let met: usize = (0..3).map(|i| one.told(i, "refused").len() + other.told(i, "refused").len()).sum();
    println!("{met} processes met one of the other session first");
}

#[test]
fn a_page_that_nobody_saw_is_kept_and_a_report_replaces_that_of_join() {
    let mut swarm = Swarm::new(3, |_| {});
    for i in 0..3 {
        swarm.start(i, if i == 0 { &["--page", "0"] } else { &[] });
    }
    for i in 0..3 {
        let ended = swarm.wait_end(i);
        assert_eq!((ended.code, &*ended.errors), (Some(0), ""));
    }
    let page = std::fs::read_to_string(swarm.file(0, "page.html")).expect("a page");
    for part in
        ["Content-Security-Policy", "\"event\":\"own-rows\"", "\"event\":\"opened\"", "[\"over\",null,0]"]
    {
        assert!(page.contains(part), "{part}");
    }
    let said = swarm.told(0, "page").pop().expect("told");
    assert_eq!(said["kept"], swarm.file(0, "page.html").to_str().expect("a path"));
    assert!(!swarm.file(1, "page.html").exists());

    let report = |out: &Path| {
        let mut command = Command::new(PROGRAM);
        command.arg("report").arg(swarm.file(0, "model")).arg("--data").arg(swarm.file(0, "csv"));
        command.arg("--out").arg(out).output().expect("it runs")
    };
    let (own, before) = (swarm.file(0, "report.html"), std::fs::read(swarm.file(0, "report.html")));
    let made = report(&own);
    assert!(made.status.success(), "{made:?}");
    assert_ne!(std::fs::read(&own).expect("a page"), before.expect("that of join"));
    let foreign = swarm.folder.path().join("foreign.html");
    std::fs::write(&foreign, "<!DOCTYPE html><html lang=\"en\"><p>by hand</p>").expect("written");
    let refused = report(&foreign);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(
        String::from_utf8_lossy(&refused.stderr).contains("exists; --force overwrites it"),
        "{refused:?}"
    );
}
