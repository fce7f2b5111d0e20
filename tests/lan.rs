//! `flyswarm doctor`, and other output of a node on a LAN. Real processes run on the loopback device of this
//! machine. The tests make each fault that is possible there, and check the line that reports it.
//! `scripts/lan-lab` does the same with separate hosts.
#![cfg(all(feature = "net", unix))]
#![allow(clippy::disallowed_methods)] // the tests look at the clock to bound their waiting
#![allow(missing_docs, unreachable_pub)]

#[path = "lan/raw.rs"]
mod raw;
#[path = "lan/secrecy.rs"]
mod secrecy;

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use crate::processes::check::same_and_exact;
use crate::processes::swarm::{NAMES, PROGRAM, Swarm, random};
use flyswarm::Identity;
use flyswarm::net::driver::peer_id;
use flyswarm::protocol::about::{About, Role};
use flyswarm::session::Session;
use raw::Odd;

/// Returns ports that were free when this was called.
fn ports(count: usize) -> Vec<u16> {
    let taken: Vec<_> = (0..count).map(|_| TcpListener::bind("127.0.0.1:0").expect("a port")).collect();
    taken.iter().map(|listener| listener.local_addr().expect("bound").port()).collect()
}

/// A session whose file has the addresses of all peers.
struct Ward {
    swarm: Swarm,
    ports: Vec<u16>,
}

impl Ward {
    fn new(peers: usize) -> Self {
        let ports = ports(peers);
        let swarm = Swarm::new(peers, |session| {
            for (entry, port) in session.roster.iter_mut().zip(&ports) {
                entry.addresses = vec![format!("/ip4/127.0.0.1/tcp/{port}")];
            }
        });
        Self { swarm, ports }
    }

    fn folder(&self) -> &Path {
        self.swarm.folder.path()
    }

    fn listen(&self, i: usize) -> String {
        format!("/ip4/127.0.0.1/tcp/{}", self.ports[i])
    }

    /// Writes another session file.
    fn other(&self, name: &str, change: impl FnOnce(&mut Session)) {
        let mut session = self.swarm.session.clone();
        change(&mut session);
        fs::write(self.folder().join(name), session.to_toml()).expect("written");
    }

    fn command(&self, i: usize, session: &str, more: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        let listen = self.listen(i);
        command.args(["doctor", session, "--no-mdns"]);
        for (option, usual) in
            [("--state", "state"), ("--key", &*format!("{}.key", NAMES[i])), ("--listen", &*listen)]
        {
            if !more.contains(&option) {
                command.args([option, usual]);
            }
        }
        command.args(more).current_dir(self.folder()).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn start(&self, i: usize, session: &str, more: &[&str]) -> Child {
        self.command(i, session, more).spawn().expect("it starts")
    }

    fn run(&self, i: usize, session: &str, more: &[&str]) -> Report {
        Report::of(self.command(i, session, more).output().expect("it runs"))
    }
}

/// The report of a doctor.
#[derive(Debug)]
struct Report {
    code: Option<i32>,
    lines: Vec<String>,
    errors: String,
}

impl Report {
    fn of(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        let (lines, errors) = (text(output.stdout), text(output.stderr));
        assert!(!errors.contains("panicked"), "{errors}");
        Self { code: output.status.code(), lines: lines.lines().map(Into::into).collect(), errors }
    }

    fn end(child: Child) -> Self {
        Self::of(child.wait_with_output().expect("its end"))
    }

    /// Returns the only line that begins with `begins` and contains all these parts.
    #[track_caller]
    fn line(&self, begins: &str, parts: &[&str]) -> &str {
        let fits = |line: &&String| line.starts_with(begins) && parts.iter().all(|part| line.contains(part));
        let found: Vec<_> = self.lines.iter().filter(fits).collect();
        let [line] = found[..] else {
            panic!("{} lines begin with {begins:?} and have {parts:?}: {self:#?}", found.len())
        };
        line
    }

    #[track_caller]
    fn could_not_start(&self, why: &str) {
        assert_eq!(self.code, Some(3), "{self:#?}");
        assert!(self.errors.ends_with(&format!("flyswarm: a session could not start: {why}\n")), "{self:#?}");
    }
}

#[test]
fn doctors_that_find_each_other_say_that_a_session_could_start() {
    let ward = Ward::new(3);
    let doctors: Vec<_> = (0..3).map(|i| ward.start(i, "session.toml", &["--wait", "20"])).collect();
    for (i, doctor) in doctors.into_iter().enumerate() {
        let report = Report::end(doctor);
        assert_eq!(report.code, Some(0), "{report:#?}");
        for other in (0..3).filter(|other| *other != i) {
            let begins = format!("ok       {}: ready at ", NAMES[other]);
            report.line(&begins, &["runs doctor, round trip ", " MB/s there, ", " back, its clock 0.0"]);
        }
        assert_eq!(
            report.lines.last().map(String::as_str),
            Some("a session could start: 3 of 3 peers are ready, 3 are needed")
        );
    }
}

#[test]
fn a_doctor_tells_nodes_that_wait_and_does_not_get_in_their_way() {
    let mut ward = Ward::new(3);
    for i in 1..3 {
        let listen = ward.listen(i);
        ward.swarm.start(i, &["--listen", &listen]);
        ward.swarm.wait_event(i, "listening");
    }
    let report = ward.run(0, "session.toml", &["--wait", "20"]);
    assert_eq!(report.code, Some(0), "{report:#?}");
    report.line("ok       bob: ready at ", &["runs join"]);
    report.line("ok       carol: ready at ", &["runs join"]);
    // The doctor did not take part in the session. Now the peer itself starts, and all peers finish.
    let listen = ward.listen(0);
    ward.swarm.start(0, &["--listen", &listen]);
    for i in 0..3 {
        let ended = ward.swarm.wait_end(i);
        assert_eq!((ended.code, &*ended.errors), (Some(0), ""));
        assert!(ward.swarm.told(i, "view-failed").is_empty() && ward.swarm.told(i, "blamed").is_empty());
    }
    assert_eq!(same_and_exact(&ward.swarm, &[0, 1, 2]).len(), 3);
}

#[test]
fn nobody_there_is_told_with_the_address_that_was_tried() {
    let ward = Ward::new(3);
    let report = ward.run(0, "session.toml", &["--wait", "2"]);
    report.could_not_start("1 of 3 peers are ready, 3 are needed");
    report.line(
        "error    bob: no program listens at /ip4/127.0.0.1/tcp/",
        &["connection refused", "is `flyswarm join`"],
    );
    ward.other("bare.toml", |session| session.roster.iter_mut().for_each(|entry| entry.addresses.clear()));
    let report = ward.run(0, "bare.toml", &["--wait", "1"]);
    report.line("error    bob: no contact", &["mDNS is off", "write its address"]);
    ward.other("nowhere.toml", |session| {
        session.roster[1].addresses = vec!["/dns4/nowhere.invalid/tcp/4001".into()];
    });
    let report = ward.run(0, "nowhere.toml", &["--wait", "8"]);
    report.line(
        "error    bob: /dns4/nowhere.invalid/tcp/4001",
        &["cannot be reached: nowhere.invalid is not known to DNS"],
    );
}

#[test]
fn another_session_file_is_told_with_its_field_at_both_ends() {
    let ward = Ward::new(3);
    ward.other("other.toml", |session| {
        session.task.get_mut::<flyswarm::tasks::FlynnSpec>().expect("a model").model.gamma = 0.25;
        session.name = "other".into();
    });
    let files = ["session.toml", "session.toml", "other.toml"];
    let doctors: Vec<_> = (0..3).map(|i| ward.start(i, files[i], &["--wait", "20"])).collect();
    let reports: Vec<_> = doctors.into_iter().map(Report::end).collect();
    let differs = "has another session file: flynn.gamma, name differs";
    reports[0].line("error    carol: ", &[differs, "give all peers the same file"]);
    reports[0].line("ok       bob: ready", &[]);
    reports[0].could_not_start("2 of 3 peers are ready, 3 are needed");
    reports[2].line("error    alice: ", &[differs]);
    reports[2].line("error    bob: ", &[differs]);
}

#[test]
fn a_roster_that_lacks_a_peer_is_told_here_and_by_the_peer() {
    let ward = Ward::new(3);
    let stranger = Identity::from_seed(random());
    stranger.save(ward.folder().join("stranger.key")).expect("a key");
    let report = ward.run(0, "session.toml", &["--wait", "1", "--key", "stranger.key"]);
    report.line(
        "error    roster: 12D3",
        &[&stranger.public().to_string(), "is not in the roster of session.toml"],
    );
    ward.other("without.toml", |session| {
        session.roster[0].key = stranger.public();
        *session = session.clone().check().expect("a session");
    });
    let files = ["session.toml", "session.toml", "without.toml"];
    let doctors: Vec<_> = (0..3).map(|i| ward.start(i, files[i], &["--wait", "6"])).collect();
    let reports: Vec<_> = doctors.into_iter().map(Report::end).collect();
    reports[0].line("error    carol: closes the connection at ", &["another peer id for this machine"]);
    let me = ward.swarm.keys[0].public().to_string();
    reports[2]
        .line(&format!("warning  stranger: {me} at /ip4/127.0.0.1/tcp/"), &["is not in this session file"]);
}

#[test]
fn an_identity_that_runs_already_is_not_shown_again() {
    let mut ward = Ward::new(3);
    let listen = ward.listen(0);
    ward.swarm.start(0, &["--listen", &listen]);
    ward.swarm.wait_event(0, "waiting");
    let report = ward.run(0, "session.toml", &["--wait", "2"]);
    report.line("error    twice: `flyswarm join` runs on this machine", &["is locked", "stop it"]);
    assert_eq!(report.code, Some(3));
    // The same key is used with a second state folder, as on another machine. A program with this identity
    // answers at its address.
    ward.other("mine.toml", |session| session.roster[1].addresses = vec![listen.clone()]);
    let report = ward.run(
        0,
        "mine.toml",
        &["--wait", "5", "--state", "elsewhere", "--listen", "/ip4/127.0.0.1/tcp/0"],
    );
    report.line(&format!("error    twice: this identity is in use at {listen}"), &["stop the node there"]);
    assert_eq!(report.code, Some(3));
    let report = ward.run(1, "mine.toml", &["--wait", "1"]);
    assert_eq!(report.code, Some(3), "{report:#?}");
}

#[test]
fn an_address_that_leads_to_another_peer_is_told_with_its_id() {
    let ward = Ward::new(3);
    let carol = ward.start(2, "session.toml", &["--wait", "6"]);
    ward.other("crossed.toml", |session| session.roster[1].addresses = vec![ward.listen(2)]);
    let report = ward.run(0, "crossed.toml", &["--wait", "4"]);
    let id = peer_id(&ward.swarm.keys[2].public()).to_string();
    report.line("error    bob: another peer answers at /ip4/127.0.0.1/tcp/", &[&id, "new key"]);
    Report::end(carol);
}

#[test]
fn a_taken_port_few_open_files_and_a_folder_that_cannot_be_written_are_told() {
    let ward = Ward::new(3);
    let _taken = TcpListener::bind(("127.0.0.1", ward.ports[0])).expect("the port");
    let report = ward.run(0, "session.toml", &["--wait", "1"]);
    report.line("error    listen: cannot listen on /ip4/127.0.0.1/tcp/", &["in use", "--listen"]);
    assert_eq!(report.code, Some(3));
    fs::write(ward.folder().join("file"), "").expect("written");
    let report = ward.run(0, "session.toml", &["--wait", "1", "--state", "file/state"]);
    assert_eq!(report.code, Some(3), "{report:#?}");
    for (limit, begins) in [(100, "warning  files: only 100 "), (60, "error    files: only 60 ")] {
        let script = format!(
            "ulimit -n {limit}; exec {PROGRAM} doctor session.toml --key alice.key --no-mdns --wait 1"
        );
        let mut command = Command::new("sh");
        command.args(["-c", &script]).current_dir(ward.folder()).stdin(Stdio::null());
        let report = Report::of(command.output().expect("it runs"));
        report.line(begins, &["a session of 3 peers needs up to 134", "ulimit -n 1024"]);
    }
}

#[test]
fn a_peer_with_another_network_key_or_none_is_told_so() {
    let ward = Ward::new(3);
    for name in ["one", "two"] {
        let made = Command::new(PROGRAM)
            .args(["id", "--new", "--network-key", name])
            .current_dir(ward.folder())
            .output();
        assert!(made.expect("it runs").status.success());
    }
    let keys: [&[&str]; 3] =
        [&["--network-key", "one"], &["--network-key", "one"], &["--network-key", "two"]];
    let wait: &[&str] = &["--wait", "6"];
    let doctors: Vec<_> = (0..3).map(|i| ward.start(i, "session.toml", &[wait, keys[i]].concat())).collect();
    let reports: Vec<_> = doctors.into_iter().map(Report::end).collect();
    reports[0].line("ok       bob: ready", &[]);
    for (i, j) in [(0, 2), (2, 0)] {
        let begins = format!("error    {}: a program answers at ", NAMES[j]);
        reports[i].line(&begins, &["it may use no network key or another one", "flyswarm id --network-key"]);
    }
    let doctors =
        [ward.start(0, "session.toml", &[wait, keys[0]].concat()), ward.start(1, "session.toml", wait)];
    let reports = doctors.map(Report::end);
    reports[1].line("error    alice: a program answers at ", &["it may use a network key"]);
}

/// Runs a doctor as peer 0 or 1. The other peer is made from the parts of libp2p, and connects to the doctor.
fn with_odd(ward: &Ward, victim: usize, odd: Odd) -> Report {
    let other = 1 - victim;
    let doctor = ward.start(victim, "session.toml", &["--wait", "6"]);
    let address = ward.listen(victim).parse().expect("an address");
    let _raw = raw::dial(&ward.swarm.keys[other], &ward.swarm.keys[victim], address, odd);
    Report::end(doctor)
}

#[test]
fn a_clock_an_hour_ahead_is_told() {
    let ward = Ward::new(3);
    let about = About::new(&ward.swarm.session.settings(), Role::Join).encode().to_vec();
    let report = with_odd(&ward, 0, Odd::Clock(3600, about));
    report.line("ok       bob: ready at ", &["its clock 3600.0", " s ahead"]);
    report.line("warning  bob: its clock is 3600 s ahead of this machine's", &["NTP"]);
}

#[test]
fn another_version_is_told_by_the_greeting_and_by_what_it_does_not_speak() {
    let ward = Ward::new(3);
    let mut about = About::new(&ward.swarm.session.settings(), Role::Join);
    about.version += 1;
    let report = with_odd(&ward, 0, Odd::Clock(0, about.encode().to_vec()));
    report.line(
        &format!("error    bob: speaks protocol version {}, this machine ", about.version),
        &["install the same"],
    );
    // The peer with the smaller name opens streams first, so that peer is refused.
    let names = [0, 1].map(|i| peer_id(&ward.swarm.keys[i].public()));
    let victim = usize::from(names[1] < names[0]);
    let report = with_odd(&ward, victim, Odd::Foreign);
    report.line(
        &format!("error    {}: speaks another protocol version at ", NAMES[1 - victim]),
        &["cannot open /flyswarm/5/"],
    );
}

#[test]
fn nonsense_in_answer_to_a_question_is_told_and_does_no_harm() {
    let ward = Ward::new(3);
    let clock = 0u64.to_le_bytes();
    let huge = [&clock[..], &u32::MAX.to_le_bytes()].concat();
    let report = with_odd(&ward, 0, Odd::Nonsense(huge));
    report.line("error    bob: ", &["4294967295 bytes about itself, the limit is 65536"]);
    let empty: Vec<u8> = (0..8).flat_map(|_| [&clock[..], &[0; 4]].concat()).collect();
    let report = with_odd(&ward, 0, Odd::Nonsense(empty));
    assert_eq!(report.code, Some(3), "{report:#?}");
}

#[test]
fn json_lines_say_the_same_for_machines() {
    let ward = Ward::new(3);
    let report = ward.run(0, "session.toml", &["--wait", "1", "--json"]);
    let values: Vec<serde_json::Value> =
        report.lines.iter().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let bob = values.iter().find(|value| value["peer"] == "bob").expect("a line on bob");
    assert_eq!((&bob["level"], &bob["check"]), (&"error".into(), &"refused".into()));
    assert!(bob["text"].as_str().is_some_and(|text| text.contains("connection refused")));
    let verdict = values.last().expect("lines");
    assert_eq!(
        (&verdict["check"], &verdict["could_start"], &verdict["ready"]),
        (&"verdict".into(), &false.into(), &1.into())
    );
    assert_eq!(report.code, Some(3));
}
