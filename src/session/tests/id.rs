//! Tests the session id, the numbers of peers and the committee.

use super::*;

#[test]
fn the_id_does_not_depend_on_layout_order_of_peers_or_addresses() {
    let plain = Session::parse(&minimal()).unwrap();
    let text = minimal();
    let (head, peers) = text.split_once("[[roster]]").unwrap();
    let mut peers: Vec<&str> = peers.split("[[roster]]").collect();
    peers.reverse();
    let mut other = head
        .replace(" = ", "   =   ")
        .replace("\"256d\"", "200_704")
        .replace("gamma   =   0", "gamma = -0.0");
    for peer in peers {
        other += &format!("[[roster]] # a comment\n{peer}addresses = [\"/ip4/192.0.2.1/tcp/4001\"]\n");
    }
    let other = Session::parse(&other).unwrap();
    assert_ne!(plain, other);
    assert_eq!(plain.id(), other.id());
    assert_eq!(plain.fields(), other.fields());
}

#[test]
fn every_field_but_the_addresses_changes_the_id_and_is_named() {
    type Change = fn(&mut Session);
    let base = session(5);
    let changes: [(&str, Change); 31] = [
        ("name", |s| s.name.push('x')),
        ("run_id", |s| s.run.id[15] += 1),
        ("created", |s| s.run.created += 1),
        ("min_peers", |s| s.min_peers += 1),
        ("data.features", |s| s.data.features += 1),
        ("data.classes", |s| s.data.classes.swap(0, 1)),
        ("data.scaling", |s| s.data.scaling = Scaling::Center),
        ("data.scaling", |s| s.data.scaling = Scaling::Range { lo: 0.0, hi: 1.0 }),
        ("data.densify", |s| s.data.densify = true),
        ("data.check_columns", |s| s.data.checks.compare = true),
        ("flynn.m", |s| model(s).m += 1),
        ("flynn.s", |s| model(s).s += 1),
        ("flynn.rho", |s| model(s).rho += 1),
        ("data.scaling", |s| s.data.scaling = Scaling::SoftBins { bins: 2 }),
        ("data.scaling", |s| s.data.scaling = Scaling::SoftBins { bins: 3 }),
        ("flynn.gamma", |s| model(s).gamma = 0.25),
        ("flynn.score", |s| model(s).score = Score::BalancedLog),
        ("privacy.min_contributors", |s| s.privacy.min_contributors += 1),
        ("privacy.collusion_threshold", |s| s.privacy.collusion_threshold = 0.25),
        ("timing.start_wait_ms", |s| s.timing.start_wait_ms += 1),
        ("timing.proposal_backoff_ms", |s| s.timing.proposal_backoff_ms += 1),
        ("timing.view_timeout_ms", |s| s.timing.view_timeout_ms += 1),
        ("timing.no_quorum_timeout_ms", |s| s.timing.no_quorum_timeout_ms += 1),
        ("timing.compute_ms", |s| s.timing.compute_ms += 1),
        ("timing.linger_ms", |s| s.timing.linger_ms += 1),
        ("timing.regroup_interval_ms", |s| s.timing.regroup_interval_ms += 1),
        ("limits.max_views", |s| s.timing.max_views += 1),
        ("roster.name", |s| s.roster[2].name = "other".into()),
        ("roster.peer_id", |s| s.roster[2].key = key(99)),
        ("", |s| s.roster[2].addresses.push("/ip4/192.0.2.1/tcp/4001".into())),
        ("", |s| s.relays.push(format!("/ip4/192.0.2.1/tcp/4001/p2p/{}", s.roster[0].key))),
    ];
    for (field, change) in changes {
        let mut other = base.clone();
        change(&mut other);
        let other = other.check().unwrap();
        let (before, after) = (base.fields(), other.fields());
        let differing: Vec<&str> =
            before.iter().zip(&after).filter(|(a, b)| a != b).map(|((name, _), _)| name.as_str()).collect();
        if field.is_empty() {
            assert_eq!(base.id(), other.id());
            assert_eq!(differing, Vec::<&str>::new());
        } else {
            assert_ne!(base.id(), other.id(), "{field}");
            // With another key, the peer has another place in the roster. So the order of the names may
            // change too.
            assert!(
                differing.contains(&field) && (differing.len() == 1 || field == "roster.peer_id"),
                "{differing:?}"
            );
        }
    }
    assert_eq!(base.fields().len(), 27, "a field that is not listed above was added");
}

#[test]
fn names_of_columns_are_a_field_of_their_own_where_they_are_given() {
    let plain = session(5);
    let named = |names: [&str; 2]| {
        let mut named = plain.clone();
        named.data.columns = (0..64).map(|i| format!("f{i}")).collect();
        named.data.columns[0] = names[0].into();
        named.data.columns[1] = names[1].into();
        named.check()
    };
    let first = named(["age", "weight"]).unwrap();
    assert_eq!(Session::parse(&first.to_toml()).unwrap(), first);
    let (before, after) = (plain.fields(), first.fields());
    assert_eq!(after[..7], before[..7]);
    assert_eq!(after[7].0, "data.columns");
    assert_eq!(after[8..], before[7..]);
    let turned = named(["weight", "age"]).unwrap();
    assert!(first.id() != plain.id() && turned.id() != first.id() && turned.fields()[7] != after[7]);
    let told = |session: Result<Session, SessionError>| session.unwrap_err().to_string();
    assert!(told(named(["age", "age"])).contains("data.columns is \"age\" twice, must be all different"));
    assert!(told(named(["age", ""])).contains("a column of data.columns is \"\", must be 1 to 64 printable"));
    let mut short = first;
    short.data.columns.pop();
    let text = told(short.check());
    assert!(
        text.contains("the length of data.columns is 63, must be 64, one name for each of data.features"),
        "{text}"
    );
}

#[test]
fn a_place_in_a_series_is_two_fields_more() {
    let plain = session(5);
    let mut next = plain.clone();
    next.run.series = Some(Series { number: 2, parent: plain.id() });
    let next = next.check().unwrap();
    assert_eq!((plain.run.place(), next.run.place()), (1, 2));
    assert_eq!(Session::parse(&next.to_toml()).unwrap(), next);
    let (before, after) = (plain.fields(), next.fields());
    assert_eq!(after[..3], before[..3]);
    assert_eq!((&*after[3].0, &*after[4].0), ("series.number", "series.parent"));
    assert_eq!(after[5..], before[3..]);
    assert_ne!(plain.id(), next.id());
    let parent = plain.id().to_string();
    let created = "created = 2001-09-09T01:46:40Z";
    for (from, to, expected) in [
        ("number = 2", "number = 1", "series.number is 1, must be 2 to 1000000"),
        (&*parent, "00", "series.parent is \"00\", must be 64 digits 0 to 9 and a to f"),
        ("run_id = \"0707", "run_id = \"07", "must be 32 digits 0 to 9 and a to f"),
        ("run_id = \"0707", "run_id = \"0A07", "must be 32 digits 0 to 9 and a to f"),
        (created, "created = 2001-09-09T01:46:40+01:00", "created is 2001-09-09T01:46:40+01:00"),
        (created, "created = 2001-09-09", "must be a time such as 2026-11-22T16:05:06Z"),
        ("created = 2001-09-09T01:46:40Z\n", "", "missing field `created`"),
    ] {
        let text = next.to_toml();
        assert!(text.contains(from), "{from}");
        let told = refusal(&text.replacen(from, to, 1));
        assert!(told.contains(expected), "{told}");
    }
}

/// Writes the encoding by hand, as the documentation describes it, for a session that sets every field below.
#[test]
fn the_id_is_the_hash_of_the_documented_bytes() {
    use sha2::{Digest, Sha256};
    let mut session = session(3);
    session.data.scaling = Scaling::Range { lo: 0.0, hi: 255.0 };
    session.data.classes = vec!["no".into(), "yes".into()];
    model(&mut session).m = 100;
    let (id, fields) = (session.id(), session.fields());

    let mut bytes = b"flyswarm/5 session\0".to_vec();
    let mut index = 0;
    let mut put = |name: &str, value: &[u8]| {
        let length = |bytes: &[u8]| (bytes.len() as u64).to_le_bytes();
        let entry = [&length(name.as_bytes())[..], name.as_bytes(), &length(value), value].concat();
        bytes.extend(&entry);
        let hash = Sha256::digest([&b"flyswarm/5 session field\0"[..], &entry].concat());
        assert_eq!(fields[index], (name.to_owned(), hash[..8].try_into().unwrap()));
        index += 1;
    };
    let integer = |value: u64| value.to_le_bytes();
    put("name", b"digits");
    put("run_id", &[7; 16]);
    put("created", &integer(1_000_000_000));
    put("task", b"flynn");
    put("min_peers", &integer(3));
    put("data.features", &integer(64));
    put("data.classes", b"\x02\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0no\x03\0\0\0\0\0\0\0yes");
    // 255 = 1.9921875 x 2^7: sign 0, exponent 1023 + 7 = 0x406, fraction 0xfe0...
    put("data.scaling", b"range\0\0\0\0\0\0\0\0\0\0\0\0\0\xe0\x6f\x40");
    put("data.densify", &[0]);
    put("data.check_columns", &[0]);
    put("flynn.m", &integer(100));
    put("flynn.s", &integer(6));
    put("flynn.rho", &integer(32));
    put("flynn.gamma", b"\0\0\0\0\0\0\xe0\x3f");
    put("flynn.score", b"decay");
    put("privacy.min_contributors", &integer(3));
    put("privacy.collusion_threshold", &(1.0f64 / 3.0).to_le_bytes());
    put("timing.start_wait_ms", &integer(10_000));
    put("timing.proposal_backoff_ms", &integer(2_000));
    put("timing.view_timeout_ms", &integer(10_000));
    put("timing.no_quorum_timeout_ms", &integer(60_000));
    put("timing.compute_ms", &integer(600_000));
    put("timing.linger_ms", &integer(30_000));
    put("timing.regroup_interval_ms", &integer(30_000));
    put("limits.max_views", &integer(40));
    let mut keys = [key(0), key(1), key(2)];
    keys.sort();
    let mut list = integer(3).to_vec();
    keys.iter().for_each(|key| list.extend([&integer(32)[..], key.as_bytes()].concat()));
    put("roster.peer_id", &list);
    let mut list = integer(3).to_vec();
    for key in keys {
        list.extend([&integer(6)[..], session.name(session.peer(&key).unwrap()).as_bytes()].concat());
    }
    put("roster.name", &list);
    assert_eq!(index, fields.len());
    assert_eq!(id.0[..], Sha256::digest(&bytes)[..]);

    let rank = |peer: &Peer| {
        let key = session.key(*peer);
        Sha256::digest([&b"flyswarm/5 council\0"[..], &id.0, key.as_bytes()].concat())
    };
    let mut committee: Vec<Peer> = session.peers().collect();
    committee.sort_by_key(rank);
    assert_eq!(session.committee(), committee);
}

#[test]
fn peers_are_numbered_by_their_keys() {
    let session = session(40);
    for (index, peer) in session.peers().enumerate() {
        assert_eq!(peer.index(), index);
        assert_eq!(session.peer(&session.key(peer)), Some(peer));
        assert!(index == 0 || session.key(Peer(peer.0 - 1)) < session.key(peer));
    }
    assert_eq!(session.peer(&key(40)), None);
    assert!(session.contains(Peer(39)) && !session.contains(Peer(40)));
}

#[test]
fn the_committee_is_fifteen_or_all_and_differs_between_sessions() {
    for (peers, committee, quorum, majority) in
        [(3, 3, 2, 2), (4, 4, 3, 3), (5, 5, 4, 3), (15, 15, 10, 8), (16, 15, 10, 8), (40, 15, 10, 8)]
    {
        let mut session = session(peers);
        let members = session.committee();
        assert_eq!((members.len(), session.quorum()), (committee, quorum));
        let (usual, id) = (session.faults(), session.id());
        assert_eq!(usual, if peers < 4 { Faults::Crash } else { Faults::Byzantine });
        session.voting.faults = Some(usual);
        assert_eq!(session.id(), id, "a file that states the default is the same session");
        session.voting.faults = Some(Faults::Crash);
        assert_eq!((session.quorum(), session.id() == id), (majority, peers < 4));
        let distinct: std::collections::BTreeSet<_> = members.iter().collect();
        assert_eq!(distinct.len(), committee);
    }
    let (one, mut two) = (session(40), session(40));
    two.name = "another".into();
    assert_ne!(one.committee(), two.committee());
}

#[test]
fn a_committee_that_the_file_names_is_the_committee_whatever_the_author_tries_names_for() {
    let named = |names: &[&str]| {
        let mut session = session(40);
        session.voting.members = names.iter().map(|&name| name.to_owned()).collect();
        session
    };
    let all: Vec<String> = session(40).roster.iter().map(|entry| entry.name.clone()).collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let five = named(&all[10..15]).check().unwrap();
    assert_eq!(Session::parse(&five.to_toml()).unwrap(), five, "the file states it");
    let members =
        |session: &Session| session.committee().into_iter().collect::<std::collections::BTreeSet<_>>();
    assert_eq!((members(&five), five.quorum()), ((10..15).map(Peer).collect(), 4));
    for name in ["a", "b", "c"] {
        let tried = Session { name: name.into(), ..five.clone() };
        assert_ne!(tried.id(), five.id());
        assert_eq!(members(&tried), members(&five));
        assert_ne!(
            members(&Session { name: name.into(), ..session(40) }),
            members(&session(40)),
            "drawn anew"
        );
    }
    // The committee is part of the session id; its order in the file does not matter.
    let turned = named(&[all[14], all[13], all[12], all[11], all[10]]);
    assert!(
        turned.id() == five.id() && named(&all[10..14]).id() != five.id() && session(40).id() != five.id()
    );
    let stranger = [&all[..4], &["nobody"]].concat();
    let twice = [&all[..4], &all[..1]].concat();
    for wrong in [&all[..2], &all[..16], &stranger, &twice] {
        let told = named(wrong).check().unwrap_err().to_string();
        assert!(told.contains("committee.members"), "{told}");
    }
    assert!(named(&all[..15]).check().is_ok());
}
