//! Invalid input to `join`. It exits with code 2, prints one line that names the file, the field or the line,
//! and writes no file.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use flyswarm::Identity;
use flyswarm::session::{Session, TaskSpec};
use flyswarm::tasks::{CustomSpec, FlynnSpec};

use crate::processes::check::same_and_exact;
use crate::processes::swarm::{NAMES, Swarm, files, random};

/// The files of a peer, for a `join` with one invalid file.
struct Bad {
    swarm: Swarm,
}

impl Bad {
    fn path(&self, name: &str) -> PathBuf {
        self.swarm.folder.path().join(name)
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        fs::write(self.path(name), bytes).expect("written");
        name.to_owned()
    }

    /// Runs alice's `join` with `what` replaced. Checks that `join` exits with `code`, prints one line that
    /// has all of `words`, and leaves no new file on disk.
    fn refused(&self, what: &str, file: &str, more: &[&str], code: i32, words: &[&str]) {
        let before = files(self.swarm.folder.path());
        let mut command = Command::new(crate::processes::swarm::PROGRAM);
        command.current_dir(self.swarm.folder.path());
        let pick = |name: &str, usual: &str| if what == name { file.to_owned() } else { usual.to_owned() };
        command.arg("join").arg(pick("session", "session.toml")).arg("--data").arg(pick("data", "alice.csv"));
        command.arg("--key").arg(pick("key", "alice.key")).arg("--out").arg(pick("out", "alice.model"));
        command.args(["--no-mdns", "--listen"]).arg(pick("listen", "/ip4/127.0.0.1/tcp/0"));
        command.args(more).stdin(Stdio::null());
        let output = command.output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{what} {file}: {text}");
        assert_eq!(text.lines().count(), 1, "{what} {file}: {text}");
        assert!(text.starts_with("flyswarm: ") && text.ends_with('\n'), "{what} {file}: {text}");
        for word in words {
            assert!(text.contains(word), "{what} {file}: {word:?} is not in: {text}");
        }
        assert_eq!(output.stdout, b"", "{what} {file}");
        assert_eq!(files(self.swarm.folder.path()), before, "{what} {file}: something was written");
        println!("{}", text.trim_end());
    }

    /// Writes alice's rows, and changes line `line` (counted from 1).
    fn rows(&self, name: &str, line: usize, change: impl Fn(&str) -> String) -> String {
        let text = fs::read_to_string(self.path("alice.csv")).expect("rows");
        let lines: Vec<_> = text
            .lines()
            .enumerate()
            .map(|(i, old)| if i + 1 == line { change(old) } else { old.to_owned() })
            .collect();
        self.write(name, lines.join("\n") + "\n")
    }

    fn session(&self, name: &str, from: &str, to: &str) -> String {
        let text = fs::read_to_string(self.path("session.toml")).expect("a session");
        assert!(text.contains(from), "{from} is not in the session file");
        self.write(name, text.replacen(from, to, 1))
    }
}

#[test]
fn names_of_columns_are_compared_with_the_session_file_before_anything_is_sent() {
    let bad = Bad {
        swarm: Swarm::new(3, |session| session.data.columns = (0..64).map(|i| format!("c{i}")).collect()),
    };
    let named = |name: &str, third: &str| {
        let names = (0..64).map(|i| if i == 2 { third.to_owned() } else { format!("c{i}") });
        let header: Vec<String> = names.chain(["class".to_owned()]).collect();
        let rows = fs::read_to_string(bad.path("alice.csv")).expect("rows");
        bad.write(name, header.join(",") + "\n" + &rows)
    };
    let file = named("named-other.csv", "age");
    bad.refused(
        "data",
        &file,
        &[],
        2,
        &["named-other.csv: column 3 is called \"age\", the session file calls it \"c2\""],
    );
    let file = named("named-same.csv", "c2");
    // The names are correct, so the program reports the next error.
    bad.refused(
        "data",
        &file,
        &["--label", "none"],
        2,
        &["column 65 is called \"class\"", "`drop` in the map file"],
    );
}

#[test]
fn bad_rows_are_refused_by_file_line_and_column() {
    let bad = Bad { swarm: Swarm::new(3, |_| {}) };
    let file = bad.rows("wide.csv", 1, |old| format!("1,{old}"));
    bad.refused("data", &file, &[], 2, &["wide.csv, line 1: 65 features", "expected 64"]);
    let file = bad.rows("long.csv", 7, |old| format!("1,{old}"));
    bad.refused("data", &file, &[], 2, &["long.csv, line 7", "66 columns", "expected 65"]);
    let file = bad.rows("class.csv", 3, |old| old.rsplit_once(',').expect("fields").0.to_owned() + ",zebra");
    bad.refused("data", &file, &[], 2, &["class.csv, line 3, column 65", "zebra"]);
    let file = bad.rows("nan.csv", 5, |old| format!("NaN,{}", old.split_once(',').expect("fields").1));
    bad.refused("data", &file, &[], 2, &["nan.csv, line 5, column 1", "NaN"]);
    let file = bad.rows("infinite.csv", 5, |old| format!("inf,{}", old.split_once(',').expect("fields").1));
    bad.refused("data", &file, &[], 2, &["infinite.csv, line 5, column 1", "inf"]);
    let file =
        bad.rows("text.csv", 2, |old| format!("abc\u{1b}[31m,{}", old.split_once(',').expect("fields").1));
    bad.refused("data", &file, &[], 2, &["text.csv, line 2, column 1", "abc"]);
    let file = bad.write("empty.csv", "");
    bad.refused("data", &file, &[], 2, &["empty.csv: no rows", "empty"]);
    bad.refused("data", "missing.csv", &[], 2, &["missing.csv: No such file"]);
    bad.refused("data", ".", &[], 2, &[".: "]);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(&fs::read(bad.path("alice.csv")).expect("rows")).expect("packed");
    let packed = gzip.finish().expect("packed");
    let file = bad.write("cut.csv.gz", &packed[..packed.len() / 2]);
    bad.refused("data", &file, &[], 2, &["cut.csv.gz", "truncated gzip"]);
    bad.refused("", "", &["--label", "nonsense"], 2, &["nonsense"]);
}

#[test]
fn bad_sessions_keys_and_places_are_refused_by_name() {
    let bad = Bad { swarm: Swarm::new(3, |_| {}) };
    bad.refused("session", "missing.toml", &[], 2, &["missing.toml: cannot be read"]);
    let file = bad.write("huge.toml", "#".repeat((1 << 20) + 1));
    bad.refused("session", &file, &[], 2, &["huge.toml: has more than 1048576 bytes"]);
    let file = bad.session("unknown.toml", "min_peers", "max_peers");
    bad.refused("session", &file, &[], 2, &["unknown.toml: line 12: unknown field `max_peers`"]);
    let file = bad.session("range.toml", "gamma = 0.5", "gamma = 1.5");
    bad.refused("session", &file, &[], 2, &["range.toml: flynn.gamma is 1.5, must be from 0 to below 1"]);
    let custom = CustomSpec { name: "fed-avg-2".into(), bytes: vec![1, 2] };
    let session = Session { task: TaskSpec::from(custom), ..bad.swarm.session.clone() };
    let file = bad.write("custom.toml", session.to_toml());
    bad.refused("session", &file, &[], 2, &["flyswarm: task fed-avg-2 is not built into this program\n"]);
    let file = bad.session("address.toml", "addresses = []", "addresses = [\"/ip4/300.1.1.1/tcp/1\"]");
    bad.refused("session", &file, &[], 2, &["address", "/ip4/300.1.1.1/tcp/1"]);
    Identity::from_seed(random()).save(bad.path("stranger.key")).expect("a key");
    bad.refused("key", "stranger.key", &[], 2, &["session.toml: 12D3", "is not in the roster"]);
    let file = bad.write("garbage.key", "garbage\n");
    fs::set_permissions(bad.path(&file), fs::Permissions::from_mode(0o600)).expect("mode");
    bad.refused("key", &file, &[], 2, &["garbage.key"]);
    bad.refused(
        "key",
        "missing.key",
        &[],
        2,
        &["missing.key: there is no key file; `flyswarm id --key ", "missing.key` makes one"],
    );
    fs::copy(bad.path("alice.key"), bad.path("open.key")).expect("copied");
    fs::set_permissions(bad.path("open.key"), fs::Permissions::from_mode(0o644)).expect("mode");
    bad.refused("key", "open.key", &[], 2, &["open.key: mode is 0644, must be 0600"]);
    let file = bad.write("old.model", "old");
    bad.refused("out", &file, &[], 2, &["old.model: exists; --force overwrites it"]);
    bad.write("new.receipt.json", "old");
    bad.refused("out", "new.model", &[], 2, &["new.receipt.json: exists"]);
    bad.refused("out", "nowhere/x.model", &[], 2, &["nowhere: no such folder"]);
}

#[test]
fn a_state_folder_or_address_that_cannot_be_used_is_told_by_name() {
    let bad = Bad { swarm: Swarm::new(3, |_| {}) };
    let file = bad.write("file", "");
    bad.refused("", "", &["--state", &file], 4, &["file/"]);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("/ip4/127.0.0.1/tcp/{}", taken.local_addr().expect("bound").port());
    let output = Command::new(crate::processes::swarm::PROGRAM)
        .current_dir(bad.swarm.folder.path())
        .args([
            "join",
            "session.toml",
            "--data",
            "alice.csv",
            "--key",
            "alice.key",
            "--no-mdns",
            "--listen",
            &address,
        ])
        .stdin(Stdio::null())
        .output()
        .expect("it runs");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), text.lines().count()), (Some(4), 1), "{text}");
    assert!(text.starts_with(&format!("flyswarm: cannot listen on {address}: ")), "{text}");
}

#[test]
fn a_peer_with_another_session_file_is_told_the_field_and_so_are_the_others() {
    let mut swarm = Swarm::new(5, |session| {
        session.timing.start_wait_ms = 2_000;
        session.timing.no_quorum_timeout_ms = 4_000;
    });
    let other = 2;
    let mut session: Session = swarm.session.clone();
    session.task.get_mut::<FlynnSpec>().expect("a model").model.gamma = 0.25;
    let path = swarm.folder.path().join("other.toml");
    fs::write(&path, session.to_toml()).expect("written");
    for i in 0..5 {
        let mut command = Command::new(crate::processes::swarm::PROGRAM);
        let (what, path) = if i == other { ("session", &*path) } else { ("", Path::new("")) };
        swarm.arguments_with(&mut command, i, what, path);
        swarm.start_command(i, command);
    }
    let others: Vec<_> = (0..5).filter(|&i| i != other).collect();
    for &i in &others {
        let ended = swarm.wait_end(i);
        assert_eq!((ended.code, &*ended.errors), (Some(0), ""));
        let refused = swarm.told(i, "refused");
        assert_eq!(refused.len(), 1, "{refused:?}");
        assert_eq!(refused[0]["peer"], NAMES[other]);
        assert_eq!(refused[0]["fields"], serde_json::json!(["flynn.gamma"]));
    }
    assert_eq!(same_and_exact(&swarm, &others).len(), 4);
    let ended = swarm.wait_end(other);
    assert_eq!(ended.code, Some(3), "{ended:?}");
    assert_eq!(ended.errors.lines().count(), 1, "{ended:?}");
    assert!(ended.errors.starts_with("flyswarm: only 1 of 5 peers are reachable"), "{ended:?}");
    assert!(
        ended.errors.contains(&format!("{} (another session: flynn.gamma)", NAMES[others[0]])),
        "{ended:?}"
    );
    assert!(!swarm.file(other, "model").exists());
}

/// Only `flyswarm-conform` can stop nodes at a stage, or let them deviate from the protocol. This program has
/// neither the options nor the code.
#[test]
fn the_program_has_no_switch_that_holds_or_deviates() {
    let program = fs::read(crate::processes::swarm::PROGRAM).expect("the program");
    // The search of a text is optimised code of the standard library, and the program is large.
    let program = String::from_utf8_lossy(&program);
    let has = |word: &str| program.contains(word);
    assert!(has("no-mdns"), "switches are found");
    for word in ["hold-at", "--deviate", "--randomness", "begin-forged-mark", "single-credits"] {
        assert!(!has(word), "{word}");
    }
}
