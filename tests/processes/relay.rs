//! Peers that cannot dial each other, and a relay that connects them.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Instant;

use flyswarm::Identity;
use flyswarm::net::PeerId;
use flyswarm::net::driver::peer_id;
use flyswarm::session::Session;
use serde_json::Value;

use super::check::same_and_exact;
use super::swarm::{PATIENCE, PROGRAM, Swarm, random};

/// The identity of a relay, and its port. The port was free when it was chosen.
pub(super) struct Place {
    key: Identity,
    port: u16,
}

impl Place {
    pub(super) fn new() -> Self {
        let free = TcpListener::bind("127.0.0.1:0").expect("a port");
        Self { key: Identity::from_seed(random()), port: free.local_addr().expect("bound").port() }
    }

    pub(super) fn peer(&self) -> PeerId {
        peer_id(&self.key.public())
    }

    pub(super) fn listen(&self) -> String {
        format!("/ip4/127.0.0.1/tcp/{}", self.port)
    }

    pub(super) fn address(&self) -> String {
        format!("{}/p2p/{}", self.listen(), self.key.public())
    }

    pub(super) fn start(&self, swarm: &Swarm, more: &[&str]) -> Relay {
        let key = swarm.folder.path().join(format!("relay-{}.key", self.port));
        self.key.save(&key).expect("a key");
        let mut child = Command::new(PROGRAM)
            .arg("relay")
            .arg("--session")
            .arg(swarm.folder.path().join("session.toml"))
            .arg("--key")
            .arg(key)
            .args(["--json", "--listen", &self.listen()])
            .args(more)
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let (sender, told) = mpsc::channel();
        let out = BufReader::new(child.stdout.take().expect("piped"));
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                let _ = sender.send(serde_json::from_str::<Value>(&line).expect("JSON"));
            }
        });
        let mut relay = Relay { child, told, log: Vec::new() };
        relay.wait("listening", 1);
        relay
    }
}

pub(super) struct Relay {
    child: Child,
    told: Receiver<Value>,
    log: Vec<Value>,
}

impl Drop for Relay {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Relay {
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until the relay has printed this number of events with this name.
    fn wait(&mut self, name: &str, count: usize) {
        let until = Instant::now() + PATIENCE;
        while self.events(name).len() < count {
            let left = until.saturating_duration_since(Instant::now());
            match self.told.recv_timeout(left) {
                Ok(event) => self.log.push(event),
                Err(error) => panic!("{name}: {error}: {:?}", self.log),
            }
        }
    }

    pub(super) fn events(&mut self, name: &str) -> Vec<Value> {
        self.log.extend(self.told.try_iter());
        self.log.iter().filter(|event| event["event"] == name).cloned().collect()
    }
}

/// A peer that listens only on this address accepts no TCP connections, so hole punching fails.
const NO_HOLE: &str = "/ip4/127.0.0.1/udp/0/quic-v1";

/// Makes peers that know no address of each other.
fn apart(peers: usize, change: impl FnOnce(&mut Session)) -> Swarm {
    let mut swarm = Swarm::new(peers, change);
    swarm.apart = (0..peers).flat_map(|i| (0..peers).map(move |j| (i, j))).collect();
    swarm
}

#[test]
fn peers_that_cannot_dial_each_other_meet_through_a_relay_which_serves_no_stranger() {
    let place = Place::new();
    let mut swarm = apart(3, |session| session.relays = vec![place.address()]);
    let mut relay = place.start(&swarm, &[]);
    // Three peers that are in no session of the relay.
    let mut strangers = apart(3, |session| {
        session.relays = vec![place.address()];
        (session.timing.start_wait_ms, session.timing.no_quorum_timeout_ms) = (3_000, 1_000);
    });
    strangers.start_all();
    swarm.start_all();
    for i in 0..3 {
        let ended = swarm.wait_end(i);
        assert_eq!((ended.code, &*ended.errors), (Some(0), ""));
    }
    assert_eq!(same_and_exact(&swarm, &[0, 1, 2]).len(), 3);
    for i in 0..3 {
        assert_eq!(strangers.wait_end(i).code, Some(3));
        assert_eq!(strangers.told(i, "joined"), Vec::<Value>::new());
    }
    let mut names: Vec<_> = relay.events("reserved").iter().map(|event| event["peer"].clone()).collect();
    names.sort_by_key(ToString::to_string);
    names.dedup();
    assert_eq!(names, ["alice", "bob", "carol"], "strangers have no place");
    for circuit in relay.events("opened") {
        assert!(names.contains(&circuit["from"]) && names.contains(&circuit["to"]), "{circuit}");
    }
    assert!(relay.events("opened").len() >= 3);
}

#[test]
fn peers_that_meet_through_a_relay_need_it_no_more_once_a_hole_is_punched() {
    let place = Place::new();
    let mut swarm = apart(3, |session| session.relays = vec![place.address()]);
    let mut relay = place.start(&swarm, &[]);
    swarm.start_all();
    swarm.wait_all(&[0, 1, 2], "view");
    // The session must not finish before the relay has ended.
    swarm.signal(2, "STOP");
    // Two circuits connect three peers. The relay may print them later than the peers begin the view.
    relay.wait("opened", 2);
    drop(relay);
    swarm.signal(2, "CONT");
    for i in 0..3 {
        let ended = swarm.wait_end(i);
        assert_eq!((ended.code, &*ended.errors), (Some(0), ""));
        assert_eq!(swarm.told(i, "disconnected"), Vec::<Value>::new());
    }
    assert_eq!(same_and_exact(&swarm, &[0, 1, 2]).len(), 3);
}

#[test]
fn when_a_relay_dies_the_view_fails_and_the_next_relay_is_used() {
    let (first, second) = (Place::new(), Place::new());
    let mut swarm = apart(3, |session| {
        session.relays = vec![first.address(), second.address()];
        session.timing.no_quorum_timeout_ms = 50_000;
    });
    swarm.listen = NO_HOLE.to_owned();
    let mut relay = first.start(&swarm, &[]);
    swarm.start_all();
    swarm.wait_event(0, "view");
    // The sum must not finish before the relay has ended.
    swarm.signal(2, "STOP");
    // All peers of the view are connected through the relay.
    relay.wait("opened", 2);
    drop(relay);
    let mut next = second.start(&swarm, &[]);
    swarm.signal(2, "CONT");
    for i in 0..3 {
        let ended = swarm.wait_end(i);
        assert_eq!((ended.code, &*ended.errors), (Some(0), ""));
    }
    assert_eq!(same_and_exact(&swarm, &[0, 1, 2]).len(), 3);
    assert!(!swarm.told(0, "disconnected").is_empty());
    assert!(!next.events("opened").is_empty(), "the second relay is used");
}

#[test]
fn a_relay_that_falls_silent_is_given_up_and_found_again() {
    let place = Place::new();
    let mut swarm = apart(3, |session| {
        session.relays = vec![place.address()];
        (session.timing.start_wait_ms, session.timing.no_quorum_timeout_ms) = (40_000, 1_000);
    });
    let mut relay = place.start(&swarm, &[]);
    // The peer has no other peers: its connection carries only pings.
    swarm.start(0, &[]);
    relay.wait("reserved", 1);
    let signal = |name: &str| {
        let id = relay.child.id().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &id]).status().expect("kill").success());
    };
    signal("STOP");
    swarm.wait_event(0, "listen-failed");
    signal("CONT");
    relay.wait("reserved", 2);
}

#[test]
fn no_more_places_and_circuits_are_given_than_the_operator_allows() {
    let place = Place::new();
    let mut swarm = apart(3, |session| {
        session.relays = vec![place.address()];
        (session.timing.start_wait_ms, session.timing.no_quorum_timeout_ms) = (5_000, 1_000);
    });
    swarm.listen = NO_HOLE.to_owned();
    let mut relay = place.start(&swarm, &["--reservations", "2", "--circuits", "1"]);
    swarm.start_all();
    for i in 0..3 {
        assert_eq!(swarm.wait_end(i).code, Some(3), "three need three circuits");
    }
    // The relay denies both requests of the peer that has no place, and every circuit after the first.
    relay.wait("denied", 2);
    let mut places = 0i32;
    let mut most = 0;
    for event in &relay.log {
        places += i32::from(event["event"] == "reserved") - i32::from(event["event"] == "left");
        most = most.max(places);
    }
    assert_eq!(most, 2);
}

#[test]
fn a_relay_says_in_one_line_what_is_wrong() {
    let swarm = Swarm::new(3, |_| {});
    let said = |arguments: &[&str]| {
        let mut command = Command::new(PROGRAM);
        command.arg("relay").args(arguments).current_dir(swarm.folder.path());
        let output = command.output().expect("it runs");
        (output.status.code(), String::from_utf8(output.stderr).expect("text"))
    };
    let (code, text) = said(&["--session", "session.toml", "--key", "alice.key"]);
    assert_eq!(code, Some(2));
    assert!(text.contains("a relay needs another identity (--key)"), "{text}");
    let (code, text) = said(&["--session", "none.toml", "--key", "alice.key"]);
    assert!(code == Some(2) && text.contains("none.toml"), "{text}");
    let key = Identity::from_seed(random());
    key.save(swarm.folder.path().join("relay.key")).expect("a key");
    let used = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("/ip4/127.0.0.1/tcp/{}", used.local_addr().expect("bound").port());
    let (code, text) = said(&["--session", "session.toml", "--key", "relay.key", "--listen", &address]);
    assert!(code == Some(4) && text.contains(&address), "{code:?} {text}");
}
