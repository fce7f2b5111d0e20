//! `check`, `diff` and `play`: our own program passes every case, and a faulty program is reported.

use std::process::{Command, Output};

use serde_json::Value;

use super::swarm::{PROGRAM, Swarm};

const ARGUMENTS: &str = "{session} --key {key} --data {data} --state {state} --out {out} --listen {listen} \
     --no-mdns --force";

/// Runs `check` on the program with this command.
fn check(program: &str, more: &[&str]) -> Output {
    let mut command = Command::new(PROGRAM);
    command.args(["check", "--program", program]).args(more);
    command.output().expect("it runs")
}

fn ours() -> String {
    format!("'{PROGRAM}' join {ARGUMENTS}")
}

/// Returns a command that runs our own program, and then something else.
fn ours_and(then: &str) -> String {
    format!("sh -c \"'{PROGRAM}' join {ARGUMENTS}; {then}\"")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("text")
}

/// Returns each case's name, its result, and the reason.
fn cases(output: &Output) -> Vec<(String, String, String)> {
    let values = text(&output.stdout).lines().map(|line| serde_json::from_str::<Value>(line).expect(line));
    let word = |value: &Value, name: &str| value[name].as_str().expect("text").to_owned();
    values.map(|value| (word(&value, "case"), word(&value, "result"), value["wrong"].to_string())).collect()
}

#[test]
fn our_own_program_passes_every_case_of_the_check() {
    let folder = tempfile::tempdir().expect("a folder");
    let junit = folder.path().join("junit.xml");
    let more = ["--json", "--with-network-key", "--network-key {network-key}", "--junit"];
    let output = check(&ours(), &[&more[..], &[junit.to_str().expect("text")]].concat());
    let cases = cases(&output);
    assert!(cases.len() >= 13, "{cases:?} {}", text(&output.stderr));
    let failed: Vec<_> = cases.iter().filter(|(_, result, _)| result != "passed").collect();
    assert!(failed.is_empty() && output.status.success(), "{failed:?} {}", text(&output.stderr));
    let junit = std::fs::read_to_string(junit).expect("it is written");
    assert_eq!(junit.matches("<testcase ").count(), cases.len());
    assert!(junit.contains(" failures=\"0\" skipped=\"0\">"), "{junit}");
}

#[test]
fn a_program_that_gives_no_model_or_a_wrong_one_or_ends_badly_fails_and_the_line_says_why() {
    let other_rows = ours().replacen("--data {data}", "--data {out}.rows", 1);
    let other_rows = format!("sh -c \"tail -n +2 {{data}} > {{out}}.rows; {other_rows}\"");
    for (program, why) in [
        (ours_and("rm {out}"), "the program has written no model"),
        (ours_and("printf x >> {out}"), "the program's model cannot be read: "),
        (ours_and("exit 3"), "the program ended with exit status: 3: "),
        (other_rows, "the model is not that of all rows in one place: its counts or moments are wrong"),
    ] {
        let output = check(&program, &["--only", "follower", "--json"]);
        let cases = cases(&output);
        let (name, result, wrong) = &cases[0];
        assert_eq!((cases.len(), &**name, &**result), (1, "follower", "failed"), "{wrong}");
        assert!(wrong.contains(why), "{why}: {wrong}");
        assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains("1 of 1 cases failed"), "{}", text(&output.stderr));
    }
}

#[test]
fn all_cases_are_listed_without_a_program() {
    let output = Command::new(PROGRAM).args(["check", "--list"]).output().expect("it runs");
    let lines = text(&output.stdout).lines().count();
    assert!(output.status.success() && lines >= 60, "{lines} cases");
    assert!(
        text(&output.stdout)
            .contains("begin-forged-mark: a view with a promise that shows a forged mark (spec, ")
    );
}

#[test]
fn what_cannot_be_checked_is_refused_before_anything_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let kept = folder.path().to_str().expect("text");
    for (program, more, why) in [
        ("peer {session} {key} {data} {listen}", &[][..], "--program: {out} is missing"),
        (
            &*ours(),
            &["--only", "inner,outer"],
            "--only outer: unknown case; the cases are follower, leader, ",
        ),
        (&*ours(), &["--keep", kept], ": exists"),
    ] {
        let output = check(program, more);
        let said = text(&output.stderr);
        assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{said}");
        assert!(said.contains(why) && output.stdout.is_empty(), "{said}");
    }
}

/// Runs our own program as peer `live` of `sum.json`, and plays the other peers to it. It draws the
/// random values of the trace as changed by `edit`.
fn played(live: u16, edit: impl Fn(Value) -> Value) -> Output {
    let trace = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/vectors/sum.json");
    let folder = tempfile::tempdir().expect("a folder");
    let files = folder.path().join("peer");
    let others: Vec<_> = (0..3).filter(|peer| *peer != live).map(|peer: u16| peer.to_string()).collect();
    let play = |more: &[&str]| {
        let mut command = Command::new(PROGRAM);
        command.args(["play", trace, "--as", &others.join(",")]).args(more);
        command.output().expect("it runs")
    };
    let prepared = play(&["--prepare", files.to_str().expect("text")]);
    assert!(prepared.status.success(), "{}", text(&prepared.stderr));
    let drawn = files.join("randomness.json");
    let value = serde_json::from_slice(&std::fs::read(&drawn).expect("it is written")).expect("JSON");
    std::fs::write(&drawn, edit(value).to_string()).expect("it can be written");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("/ip4/127.0.0.1/tcp/{}", listener.local_addr().expect("bound").port());
    drop(listener);
    let mut command = Command::new(PROGRAM);
    command.current_dir(&files).args(["join", "session.toml", "--key", "peer.key", "--data", "peer.csv"]);
    command.args(["--state", "state", "--out", "model", "--no-mdns", "--listen", &address]);
    command.args(["--randomness", "randomness.json"]).stdin(std::process::Stdio::null());
    command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    let mut peer = command.spawn().expect("it starts");
    let output = play(&["--at", &address, "--json"]);
    peer.kill().expect("it can be killed");
    peer.wait().expect("it ends");
    output
}

#[test]
fn our_own_program_sends_byte_for_byte_what_a_trace_shows_whichever_peer_it_is() {
    for live in 0..3 {
        let output = played(live, |drawn| drawn);
        let value: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert!(output.status.success() && value["same"] == true, "{live}: {value} {}", text(&output.stderr));
        assert!(value["frames"].as_u64() >= Some(20), "{live}: {value}");
    }
}

#[test]
fn a_peer_that_draws_something_else_differs_first_in_the_key_of_its_view() {
    let output = played(1, |mut drawn| {
        drawn["node_seed"] = "07".repeat(32).into();
        drawn
    });
    let value: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let what = value["what"].as_str().expect("text");
    assert!(what.starts_with("View.Down.1.Keys[1].item.public differs, header bytes "), "{value}");
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("peer 1 differs from "), "{}", text(&output.stderr));
}

#[test]
fn a_real_session_can_be_played_again_to_the_peer_that_has_recorded_it() {
    let mut swarm = Swarm::new(3, |_| {});
    let seed = swarm.folder.path().join("seed.json");
    std::fs::write(&seed, format!("{{\"node_seed\": \"{}\"}}", "5a".repeat(32))).expect("written");
    let trace = swarm.file(1, "trace.json");
    let drawn = ["--randomness", seed.to_str().expect("text")];
    swarm.start(0, &[]);
    let mut recorded = swarm.command(1);
    recorded.args(drawn).env("FLYSWARM_TRACE", &trace);
    swarm.start_command(1, recorded);
    swarm.start(2, &[]);
    for i in 0..3 {
        assert_eq!(swarm.wait_end(i).code, Some(0));
    }
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("/ip4/127.0.0.1/tcp/{}", listener.local_addr().expect("bound").port());
    drop(listener);
    // The live peer gets a new state, and a new mark of the session (a file next to the key).
    let key = swarm.file(1, "again-key");
    std::fs::copy(swarm.file(1, "key"), &key).expect("copied");
    let mut again = Command::new(PROGRAM);
    again.arg("join").arg(swarm.folder.path().join("session.toml"));
    again.arg("--key").arg(&key).arg("--data").arg(swarm.file(1, "csv")).args(drawn);
    again.args(["--no-mdns", "--force", "--listen", &address]);
    again.arg("--state").arg(swarm.file(1, "again")).arg("--out").arg(swarm.file(1, "again-model"));
    again.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::null());
    let mut peer = again.stderr(std::process::Stdio::null()).spawn().expect("it starts");
    let mut play = Command::new(PROGRAM);
    play.args(["play"]).arg(&trace).args(["--as", "0,2", "--json", "--at", &address]);
    play.arg("--keys").arg(swarm.file(0, "key")).arg("--keys").arg(swarm.file(2, "key"));
    let output = play.output().expect("it runs");
    peer.kill().expect("it can be killed");
    peer.wait().expect("it ends");
    let value: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    assert!(output.status.success() && value["same"] == true, "{value} {}", text(&output.stderr));
}

#[test]
fn what_cannot_be_played_is_refused_on_one_line_and_nothing_is_written() {
    let trace = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/vectors/sum.json");
    let faults = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/vectors/faults.json");
    let folder = tempfile::tempdir().expect("a folder");
    let stranger = folder.path().join("stranger.key");
    flyswarm::Identity::from_seed([9; 32]).save(&stranger).expect("a key");
    let (stranger, files) = (stranger.to_str().expect("text"), folder.path().join("peer"));
    let here = files.to_str().expect("text");
    for (arguments, why) in [
        (&[faults, "--as", "0,1", "--prepare", here][..], "faults.json: has no session file (toml)"),
        (&[trace, "--as", "0", "--prepare", here], "--as: expected all peers from 0 to 2 except one"),
        (&[trace, "--as", "0,1,2", "--prepare", here], "--as: expected all peers from 0 to 2 except one"),
        (
            &[trace, "--as", "0,1", "--at", "/ip4/127.0.0.1/tcp/1", "--keys", stranger],
            "the key for peer 0 belongs to another peer",
        ),
    ] {
        let output = Command::new(PROGRAM).args(["play"]).args(arguments).output().expect("it runs");
        let said = text(&output.stderr);
        assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{said}");
        assert!(said.contains(why) && output.stdout.is_empty() && !files.exists(), "{why}: {said}");
    }
}

#[test]
fn traces_of_two_peers_agree_on_every_frame_between_them() {
    let mut swarm = Swarm::new(3, |_| {});
    let trace = |swarm: &Swarm, i: usize| swarm.file(i, "trace.json");
    for i in 0..3 {
        let path = trace(&swarm, i);
        let mut command = swarm.command(i);
        command.env("FLYSWARM_TRACE", path);
        swarm.start_command(i, command);
    }
    for i in 0..3 {
        assert_eq!(swarm.wait_end(i).code, Some(0));
    }
    let mut frames = Vec::new();
    for (mine, theirs) in [(0, 1), (1, 2), (2, 0)] {
        let mut command = Command::new(PROGRAM);
        command.args(["diff"]).arg(trace(&swarm, mine)).arg(trace(&swarm, theirs));
        let output = command.output().expect("it runs");
        let said = String::from_utf8(output.stdout).expect("text");
        // A peer that ends first does not read the last messages of the other peer.
        let numbers = said.split_whitespace().filter_map(|word| word.parse::<usize>().ok());
        let fine = said.starts_with("the same: ") || said.contains(" continues, with ");
        let compared = numbers.max().unwrap_or_default();
        assert!(fine && compared >= 2, "{said}");
        frames.push(compared);
    }
    // The two peers that do not lead send each other only a greeting and the message that they are
    // done.
    assert!(frames.iter().filter(|compared| **compared > 10).count() >= 2, "{frames:?}");
    let mode = std::fs::metadata(trace(&swarm, 0)).expect("it is there").permissions();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777, 0o600);
}

#[test]
fn a_switch_that_fits_nothing_is_refused_before_anything_runs() {
    for (switch, why) in [
        (&["--hold-at", "nothing.sum"][..], "--hold-at nothing.sum: expected AGGREGATE.STAGE"),
        (&["--hold-at", "counts.nothing"], "--hold-at counts.nothing: expected AGGREGATE.STAGE"),
        (&["--deviate", "nothing", "bob"], "--deviate nothing: unknown deviation"),
        (&["--deviate", "begin-twice", "nobody"], "--deviate: nobody is not in the roster"),
    ] {
        let swarm = Swarm::new(3, |_| {});
        let output = swarm.command(0).args(switch).output().expect("it runs");
        let said = text(&output.stderr);
        assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{said}");
        assert!(said.contains(why), "{why}: {said}");
    }
}
