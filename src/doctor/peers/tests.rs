//! Tests each finding about a peer: when it is made, and its line.

use super::*;
use crate::crypto::identity::Identity;

fn session() -> Session {
    let mut text = String::from(
        "name = \"wards\"\nrun_id = \"000102030405060708090a0b0c0d0e0f\"\ncreated = 2026-11-22T16:05:06Z\ntask = \"flynn\"\n[data]\nfeatures = 4\nclasses = [\"a\", \"b\"]\n[flynn]\nm = 64\ns = 2\nrho = 8\n\
         gamma = 0.5\n",
    );
    for (seed, name) in [(1, "north"), (2, "south"), (3, "harbour")] {
        let id = Identity::from_seed([seed; 32]).public();
        text += &format!("[[roster]]\nname = \"{name}\"\npeer_id = \"{id}\"\n");
    }
    Session::parse(&text).expect("a session")
}

fn here(session: &Session) -> Here<'_> {
    Here { session, mdns: true, mdns_works: true, keyed: false, chosen: true, vector: 1 << 20 }
}

fn address() -> Multiaddr {
    "/ip4/192.0.2.7/tcp/4001".parse().expect("an address")
}

fn answers() -> Answers {
    Answers {
        about: bytes::Bytes::new(),
        round_trip: Duration::from_micros(420),
        clock_ahead: -0.25,
        rates: Some((93.4e6, 8.04e6)),
        reach: Some(Reach::Connected),
    }
}

/// Returns a peer without problems.
fn well(session: &Session) -> Other {
    Other {
        name: "south".into(),
        file: vec![address()],
        found: BTreeSet::from([address()]),
        touched: BTreeMap::from([(address(), Some(Touch::Connected))]),
        up: Some(address()),
        about: Some(About::new(&session.settings(), Role::Doctor)),
        answers: Some(answers()),
        was_probed: 2,
        asked: Some(4001),
        ..Other::default()
    }
}

/// Returns a peer that is only in the session file.
fn absent() -> Other {
    Other { name: "south".into(), file: vec![address()], ..Other::default() }
}

fn lines(other: &Other, session: &Session) -> Vec<String> {
    other.findings(here(session), Level::Error).iter().map(Finding::line).collect()
}

#[track_caller]
fn only(other: &Other, begins: &str, advises: &str) {
    let session = session();
    let lines = lines(other, &session);
    let [line] = &lines[..] else { panic!("{lines:?}") };
    assert!(line.starts_with(begins) && line.contains(advises), "{line}");
    assert!(!other.is_ready(&session));
}

#[test]
fn a_peer_that_is_well_gets_one_line_with_how_it_was_found_and_the_way_to_it() {
    let session = session();
    let other = well(&session);
    let expected = "ok       south: ready at /ip4/192.0.2.7/tcp/4001 (from the session file and mDNS); known by mDNS and the session \
                    file, runs doctor, round trip 0.4 ms, 93 MB/s there, 8.0 MB/s back, its clock 0.25 s behind";
    assert_eq!(lines(&other, &session), [expected]);
    assert!(other.is_ready(&session) && other.is_complete());
}

#[test]
fn a_doctor_stays_until_the_other_has_its_answers_too() {
    let session = session();
    let mut other = well(&session);
    other.was_probed = 1;
    assert!(!other.is_complete());
    other.about = Some(About::new(&session.settings(), Role::Join));
    assert!(other.is_complete(), "a node that takes part asks no questions");
    other.touched.insert("/ip4/192.0.2.8/tcp/1".parse().expect("an address"), None);
    assert!(!other.is_complete());
}

#[test]
fn another_session_file_is_told_with_the_field_and_another_version_with_both() {
    let ours = session();
    let mut theirs = ours.clone();
    theirs.task.get_mut::<crate::tasks::FlynnSpec>().unwrap().model.gamma = 0.25;
    let mut other = well(&ours);
    other.about = Some(About::new(&theirs.settings(), Role::Join));
    only(
        &other,
        "error    south: has another session file: flynn.gamma differs",
        "give all peers the same file",
    );
    let mut about = About::new(&ours.settings(), Role::Join);
    about.version = VERSION + 1;
    other.about = Some(about);
    only(
        &other,
        &format!("error    south: speaks protocol version {}, this machine {VERSION}", VERSION + 1),
        "same flyswarm",
    );
}

#[test]
fn a_peer_that_answers_no_questions_is_known_by_its_greeting() {
    let session = session();
    let mut other = well(&session);
    (other.about, other.answers) = (None, None);
    other.unanswered = Some("the peer does not speak it".into());
    other.hello = Some((VERSION, session.id().0));
    assert!(other.is_ready(&session) && other.is_complete());
    assert!(lines(&other, &session)[1].starts_with("note     south: does not answer questions"));
    other.hello = Some((VERSION, [0; 32]));
    assert!(!other.is_ready(&session));
}

#[test]
fn a_clock_that_is_off_a_slow_way_and_a_firewall_here_are_warned_of() {
    let session = session();
    let mut other = well(&session);
    let mut odd = answers();
    (odd.clock_ahead, odd.rates, odd.reach) = (3600.4, Some((1e3, 5e3)), Some(Reach::Silence));
    other.answers = Some(odd);
    let lines = lines(&other, &session);
    let starts = [
        "ok       south: ready",
        "warning  south: its clock is 3600 s ahead of this machine's; set both clocks by NTP",
        "warning  south: 1.0 MB of counts take 1049 s at 1 kB/s",
        "warning  south: its connection to this machine's TCP port 4001 gets no answer in 3 s: probably \
         a firewall on this machine; open TCP port 4001",
    ];
    assert_eq!(lines.len(), starts.len(), "{lines:?}");
    for (line, start) in lines.iter().zip(starts) {
        assert!(line.starts_with(start), "{line}");
    }
}

#[test]
fn a_peer_known_by_one_way_only_is_told_so() {
    let session = session();
    let mut other = well(&session);
    other.found.clear();
    let told = lines(&other, &session);
    assert!(told[0].contains("(from the session file); known by the session file only"), "{told:?}");
    assert!(told[1].starts_with("note     south: not seen by mDNS, although it can be reached"), "{told:?}");
    let mut other = well(&session);
    other.file.clear();
    let told = lines(&other, &session);
    assert!(told.len() == 1 && told[0].contains("(from mDNS); known by mDNS only"), "{told:?}");
    other.found.clear();
    assert!(lines(&other, &session)[0].contains("(it connected to this machine); known by neither"));
}

#[test]
fn an_old_address_in_the_file_is_a_warning_where_another_works() {
    let session = session();
    let mut other = well(&session);
    let old: Multiaddr = "/ip4/192.0.2.9/tcp/4001".parse().expect("an address");
    other.file = vec![old.clone()];
    other.touched.insert(old, Some(Touch::Silence));
    let told = lines(&other, &session);
    assert!(
        told[1].starts_with("warning  south: no answer at /ip4/192.0.2.9/tcp/4001 (from the session file)"),
        "{told:?}"
    );
}

#[test]
fn a_peer_that_is_nowhere_is_told_by_what_was_tried() {
    let mut other = absent();
    other.file.clear();
    only(
        &other,
        "error    south: no contact: mDNS did not find it",
        "write its address into the session file",
    );
    let mut other = absent();
    other.touched.insert(address(), Some(Touch::Refused));
    only(
        &other,
        "error    south: no program listens at /ip4/192.0.2.7/tcp/4001 (from the session file): \
         connection refused",
        "running there?",
    );
    other.touched.insert(address(), Some(Touch::Silence));
    only(
        &other,
        "error    south: no answer at /ip4/192.0.2.7/tcp/4001 (from the session file) within 4 s: \
         probably a firewall",
        "open TCP port 4001",
    );
    other.touched.insert(address(), Some(Touch::Failed("No route to host (os error 113)".into())));
    only(
        &other,
        "error    south: /ip4/192.0.2.7/tcp/4001 (from the session file) cannot be reached: No route",
        "same network",
    );
    other.touched.insert(address(), Some(Touch::Connected));
    only(
        &other,
        "error    south: a program answers at /ip4/192.0.2.7/tcp/4001 (from the session file), but no \
         handshake follows",
        "overloaded",
    );
}

#[test]
fn who_answers_but_does_not_come_up_is_told_by_how_it_ends() {
    let mut other = absent();
    other.touched.insert(address(), Some(Touch::Connected));
    other.not_up.insert(address(), (true, "the connection was closed".into()));
    only(
        &other,
        "error    south: closes the connection at /ip4/192.0.2.7/tcp/4001",
        "may have another peer id for this machine",
    );
    other.not_up.insert("/ip4/192.0.2.7/tcp/50000".parse().expect("an address"), (true, "closed".into()));
    let session = session();
    assert_eq!(lines(&other, &session).len(), 1, "one line, with the known address");
    other.not_up.clear();
    other
        .not_up
        .insert(address(), (true, "cannot open /flyswarm/5/control: the peer does not speak it".into()));
    only(&other, "error    south: speaks another protocol version at", "install the same flyswarm");
    other.not_up.insert(address(), (false, "handshake failed".into()));
    only(&other, "error    south: a program answers at /ip4/192.0.2.7/tcp/4001", "it may use a network key");
    other.up = Some(address());
    other.unanswered = Some("no answers for 30 s".into());
    only(
        &other,
        "error    south: responds at /ip4/192.0.2.7/tcp/4001 (from the session file), but does not name",
        "same flyswarm",
    );
    other.up = None;
    other.others.insert(address(), PeerId::random());
    only(
        &other,
        "error    south: another peer answers at /ip4/192.0.2.7/tcp/4001 (from the session file): ",
        "new key",
    );
}

#[test]
fn what_comes_from_the_network_cannot_break_the_line() {
    let mut other = absent();
    other.not_up.insert(address(), (true, "a\nb\u{1b}[31m".into()));
    let session = session();
    assert!(lines(&other, &session).iter().all(|line| !line.chars().any(char::is_control)));
}
