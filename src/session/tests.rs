//! Sessions: what is read, what is refused and in which words, what the id depends on.

mod sketch;
mod tune;

use proptest::prelude::*;

use super::*;
use crate::crypto::identity::Identity;

fn key(seed: u64) -> PublicKey {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    Identity::from_seed(bytes).public()
}

fn session(peers: u64) -> Session {
    let entry = |i| Entry { key: key(i), name: format!("peer-{i}"), addresses: vec![] };
    let session = Session {
        name: "digits".into(),
        task: TaskKind::Flynn,
        min_peers: Session::default_min_peers(TaskKind::Flynn, peers as usize),
        data: DataSpec {
            features: 64,
            columns: Vec::new(),
            classes: (0..10).map(|class| class.to_string()).collect(),
            scaling: Scaling::UnitNorm,
            densify: false,
        },
        flynn: FlynnSpec { m: 16_384, s: 6, rho: 32, gamma: 0.5, score: Score::Decay },
        tune: None,
        xclp: None,
        sketch: None,
        privacy: Privacy::default(),
        timing: Timing::default(),
        roster: (0..peers).map(entry).collect(),
    };
    session.check().unwrap()
}

/// The smallest file: nothing that has a default.
fn minimal() -> String {
    let mut text = r#"
name = "digits"
task = "flynn"
[data]
features = 784
classes = ["a", "b"]
[flynn]
m = "256d"
s = "0.025d"
rho = 16
gamma = 0
"#
    .to_owned();
    for i in 0..3 {
        text += &format!("[[roster]]\nname = \"peer-{i}\"\npeer_id = \"{}\"\n", key(i));
    }
    text
}

/// The minimal file with one piece of text replaced.
fn with(from: &str, to: &str) -> String {
    let text = minimal();
    assert!(text.contains(from), "{from}");
    text.replacen(from, to, 1)
}

fn refusal(text: &str) -> String {
    let error = Session::parse(text).expect_err(text).to_string();
    assert!(!error.contains('\n'), "{error:?}");
    error
}

#[test]
fn a_minimal_file_gets_the_defaults() {
    let read = Session::parse(&minimal()).unwrap();
    assert_eq!(read.min_peers, 3);
    assert_eq!(read.privacy, Privacy { min_holders: 3, colluding: 1.0 / 3.0, noise: None });
    assert_eq!(read.timing, Timing::default());
    assert_eq!(read.data.scaling, Scaling::None);
    assert!(!read.data.densify);
    // "0.025d" of 784 is 19, as in the authors' code.
    assert_eq!(read.flynn, FlynnSpec { m: 200_704, s: 19, rho: 16, gamma: 0.0, score: Score::Decay });
    assert_eq!(read.counts(), 401_408);
}

#[test]
fn multiples_are_truncated_and_at_least_two_and_densify_pads_d() {
    let sizes = |m: &str, s: &str, rho: &str, data: &DataSpec| {
        let size = |text: &str| text.parse().unwrap();
        Sizes { m: size(m), s: size(s), rho: size(rho) }.resolve(data, 0.5).unwrap()
    };
    let mut data = session(3).data;
    data.features = 100;
    assert_eq!(
        sizes("2.999d", "0.001d", "0.0001m", &data),
        FlynnSpec { m: 299, s: 2, rho: 2, gamma: 0.5, score: Score::Decay }
    );
    assert_eq!(
        sizes("299", "2", "1", &data),
        FlynnSpec { m: 299, s: 2, rho: 1, gamma: 0.5, score: Score::Decay }
    );
    data.densify = true;
    assert_eq!(data.dimension(), 128);
    assert_eq!(
        sizes("2d", "0.5d", "0.1m", &data),
        FlynnSpec { m: 256, s: 64, rho: 25, gamma: 0.5, score: Score::Decay }
    );
}

#[test]
fn every_breach_of_a_rule_is_told_with_field_value_and_limit() {
    let names = |n: usize| (0..n).map(|i| format!("\"{i}\"")).collect::<Vec<_>>().join(",");
    let long = "x".repeat(65);
    let [a, b] = [key(0), key(1)].map(|key| key.to_string());
    let address = |text: &str| with("peer_id", &format!("addresses = [{text:?}]\npeer_id"));
    let cases = [
        (
            with("digits", ""),
            "name is \"\", must be 1 to 64 ASCII letters, digits, '-', '_' and '.', the first no",
        ),
        (with("digits", &long), "1 to 64 ASCII letters"),
        (with("digits", "a\\u0007b"), "name is \"a\\u{7}b\", must be"),
        (with("digits", "a\\u202eb"), "name is \"a\\u{202e}b\", must be"),
        (
            with("task", "min_peers = 1\ntask"),
            "min_peers is 1, must be 3 to 3 (a majority of the roster, and the 3 members that a sum needs)",
        ),
        (with("task", "min_peers = 4\ntask"), "min_peers is 4, must be 3 to 3"),
        (with("task", "min_peers = -1\ntask"), "min_peers is -1, must be 3 to 3"),
        (with("784", "0"), "data.features is 0, must be 1 to 65536"),
        (with("784", "65537"), "data.features is 65537, must be 1 to 65536"),
        (with("784", "-1"), "data.features is -1, must be 1 to 65536"),
        (with("\"a\", \"b\"", "\"a\""), "the length of data.classes is 1, must be 2 to 1000"),
        (with("\"a\", \"b\"", &names(1001)), "the length of data.classes is 1001, must be 2 to 1000"),
        (with("\"a\", \"b\"", "\"a\", \"a\""), "data.classes is \"a\" twice, must be all different"),
        (with("\"a\", \"b\"", "\"a\", \"\""), "a class of data.classes is \"\", must be 1 to 64 printable"),
        (
            with("[flynn]", "scaling = { range = { lo = 1, hi = 1 } }\n[flynn]"),
            "data.scaling.range.hi is 1, must be above lo, 1",
        ),
        (
            with("[flynn]", "scaling = { range = { lo = nan, hi = 1 } }\n[flynn]"),
            "data.scaling.range.lo is NaN, must be finite as a 32-bit float",
        ),
        (
            with("[flynn]", "scaling = { range = { lo = 0, hi = 1e39 } }\n[flynn]"),
            "data.scaling.range.hi is inf, must be finite as a 32-bit float",
        ),
        (
            with("\"256d\"", "0"),
            "flynn.m is 0, must be 1 to 134217728 (m x classes x 4 bytes is at most 1 GiB)",
        ),
        (with("\"256d\"", "134217729"), "flynn.m is 134217729, must be 1 to 134217728"),
        (with("\"256d\"", "\"1000000d\""), "flynn.m is 784000000, must be 1 to 134217728"),
        (with("\"256d\"", "\"0.0001d\""), "flynn.m is 0, must be 1 to 134217728"),
        (
            with("\"256d\"", "\"256\""),
            "flynn.m is \"256\", must be an integer or a multiple such as \"0.5d\"",
        ),
        (with("\"256d\"", "\"256m\""), "flynn.m is \"256m\", must be"),
        (with("\"256d\"", "\"1e3d\""), "flynn.m is \"1e3d\", must be"),
        (with("\"256d\"", "\"-1d\""), "flynn.m is \"-1d\", must be"),
        (with("\"256d\"", "\"0d\""), "flynn.m is \"0d\", must be"),
        (with("\"256d\"", "\"d\""), "flynn.m is \"d\", must be"),
        (with("\"256d\"", "\"infd\""), "flynn.m is \"infd\", must be"),
        (with("\"0.025d\"", "1"), "flynn.s is 1, must be 2 to 784 (the dimension d)"),
        (with("\"0.025d\"", "785"), "flynn.s is 785, must be 2 to 784 (the dimension d)"),
        (with("rho = 16", "rho = 0"), "flynn.rho is 0, must be 1 to 200704 (m)"),
        (with("rho = 16", "rho = 200705"), "flynn.rho is 200705, must be 1 to 200704 (m)"),
        (
            with("rho = 16", "rho = \"2d\""),
            "flynn.rho is \"2d\", must be an integer or a multiple such as \"0.5m\"",
        ),
        (with("gamma = 0", "gamma = 1"), "flynn.gamma is 1, must be from 0 to below 1"),
        (with("gamma = 0", "gamma = -0.1"), "flynn.gamma is -0.1, must be from 0 to below 1"),
        (with("gamma = 0", "gamma = nan"), "flynn.gamma is NaN, must be from 0 to below 1"),
        (with("gamma = 0", "gamma = inf"), "flynn.gamma is inf, must be from 0 to below 1"),
        (
            with("[flynn]", "[privacy]\nmin_holders = 4\n[flynn]"),
            "privacy.min_holders is 4, must be 1 to 3 (the roster)",
        ),
        (with("[flynn]", "[privacy]\nmin_holders = 0\n[flynn]"), "privacy.min_holders is 0, must be 1 to 3"),
        (
            with("[flynn]", "[privacy]\ncolluding = 0\n[flynn]"),
            "privacy.colluding is 0, must be 0.01 to 0.99",
        ),
        (
            with("[flynn]", "[privacy]\ncolluding = 1\n[flynn]"),
            "privacy.colluding is 1, must be 0.01 to 0.99",
        ),
        (
            with("[flynn]", "[timing]\ngather_ms = -1\n[flynn]"),
            "timing.gather_ms is -1, must be 0 to 3600000",
        ),
        (with("[flynn]", "[timing]\nmax_views = 0\n[flynn]"), "timing.max_views is 0, must be 1 to 1000"),
        (
            with("[flynn]", "[timing]\ngather = 1\n[flynn]"),
            "a field of timing is \"gather\", must be one of gather_ms, propose_ms",
        ),
        (
            with("[flynn]", "[timing]\nstall_ms = 3600001\n[flynn]"),
            "timing.stall_ms is 3600001, must be 3000 to 3600000",
        ),
        (with("peer-1", "peer-0"), "roster.name is \"peer-0\" twice, must be different for each peer"),
        (with("peer-1", ""), "roster.name is \"\", must be 1 to 64 ASCII letters, digits, '-', '_' and '.'"),
        (with(&b, &a), "twice, must be different for each peer"),
        (
            with(&b, "12D3"),
            "peer_id of \"peer-1\" is \"12D3\" (peer id \"12D3\" is not that of an Ed25519 key",
        ),
        (
            address("192.0.2.1:4001"),
            "an address of \"peer-0\" is \"192.0.2.1:4001\", must be a multiaddress such as",
        ),
        (address("/ip4/1.2.3.4/tcp/1 "), "must be a multiaddress such as"),
        (address(&format!("/dns/{}", "x".repeat(252))), "at most 256 characters"),
        (address(&format!("/ip4/1.2.3.4/tcp/1/p2p/{b}")), "must be one of that peer, 12D3KooW"),
        (
            with("peer_id", &format!("addresses = [{}]\npeer_id", names(17))),
            "the length of addresses of \"peer-0\" is 17, must be 0 to 16",
        ),
    ];
    for (text, expected) in cases {
        let error = refusal(&text);
        assert!(error.contains(expected), "\n  said {error}\nexpected {expected}");
    }
}

#[test]
fn min_peers_that_can_never_work_is_refused_with_the_smallest_that_can() {
    let of = |task: TaskKind, peers: u64, min_peers: u16| {
        let xclp = (task == TaskKind::Xclp).then(|| XclpSpec::new(64));
        let flynn = if xclp.is_some() { FlynnSpec::NONE } else { session(peers).flynn };
        let made = Session { task, min_peers, xclp, flynn, ..session(peers) };
        let text = made.check().map_err(|error| error.to_string()).map(|made| made.to_toml());
        text.and_then(|text| Session::parse(&text).map_err(|error| error.to_string())).map(drop)
    };
    for (task, peers, smallest) in [
        (TaskKind::Flynn, 3, 3),
        (TaskKind::Flynn, 4, 3),
        (TaskKind::Flynn, 5, 3),
        (TaskKind::Flynn, 6, 4),
        (TaskKind::Xclp, 6, 5),
        (TaskKind::Xclp, 8, 5),
        (TaskKind::Xclp, 10, 6),
    ] {
        assert_eq!(Session::default_min_peers(task, peers as usize), smallest);
        assert_eq!(of(task, peers, smallest), Ok(()), "{task}, {peers} peers");
        let told = of(task, peers, smallest - 1).unwrap_err();
        assert!(
            told.starts_with(&format!("min_peers is {}, must be {smallest} to {peers}", smallest - 1)),
            "{told}"
        );
    }
    let told = of(TaskKind::Xclp, 5, 5).unwrap_err();
    assert!(told.starts_with("the length of roster is 5, must be 6 to 64 with the task xclp"), "{told}");
}

#[test]
fn no_name_of_a_session_or_a_peer_leads_out_of_a_folder() {
    for bad in
        ["../../pwned", "/etc/x", "a/b", "a\\\\b", "..", ".", ".hidden", "C:x", "a b", "a~", "*", "\u{fc}"]
    {
        let name = refusal(&with("digits", bad));
        assert!(name.starts_with("name is \"") && name.contains("ASCII letters"), "{name}");
        let peer = refusal(&with("peer-1", bad));
        assert!(peer.starts_with("roster.name is \"") && peer.contains("ASCII letters"), "{peer}");
    }
    for good in ["wards-2.b", "_", "-", "A1", &"x".repeat(64)] {
        assert_eq!(Session::parse(&with("digits", good)).unwrap().name, good);
        assert!(Session::parse(&with("peer-1", good)).unwrap().roster.iter().any(|entry| entry.name == good));
    }
    // Names of classes and columns are no names of files.
    let free = with("features = 784", "features = 2\ncolumns = [\"../x\", \"h\u{f6}he in m\"]");
    let free = free.replace("\"a\", \"b\"", "\".b c\", \"/d\"").replace("0.025d", "1d");
    assert_eq!(Session::parse(&free).unwrap().data.classes, [".b c", "/d"]);
}

#[test]
fn rosters_of_three_to_1024_are_taken() {
    let two = minimal().rsplit_once("[[roster]]").unwrap().0.to_owned();
    assert_eq!(refusal(&two), "the length of roster is 2, must be 3 to 1024");
    let mut large = session(1024);
    assert_eq!((large.min_peers, large.majority(), large.council().len()), (513, 8, 15));
    assert_eq!(Session::parse(&large.to_toml()).unwrap(), large);
    large.roster.push(Entry { key: key(1024), name: "one-more".into(), addresses: vec![] });
    assert_eq!(refusal(&large.to_toml()), "the length of roster is 1025, must be 3 to 1024");
    assert_eq!(large.check().unwrap_err().to_string(), "the length of roster is 1025, must be 3 to 1024");
}

#[test]
fn what_is_not_a_session_file_is_refused_with_its_line() {
    assert_eq!(
        refusal(&with("[flynn]", "[flynn]\nq = 1")),
        "line 8: unknown field `q`, expected one of `m`, `s`, `rho`, `gamma`, `score`"
    );
    assert!(refusal(&with("[data]", "colour = 1\n[data]")).starts_with("line 4: unknown field `colour`"));
    assert!(refusal(&with("peer_id", "port = 1\npeer_id")).contains("unknown field `port`"));
    assert!(
        refusal(&with("[flynn]", "[privacy]\ncoluding = 0.5\n[flynn]")).contains("unknown field `coluding`")
    );
    assert_eq!(
        refusal(&with("[flynn]", "scaling = { range = { lo = 0, hi = 1, mid = 0 } }\n[flynn]")),
        "line 7: unexpected keys in table: mid, available keys: lo, hi"
    );
    assert!(
        refusal(&with("[flynn]", "scaling = \"log\"\n[flynn]")).starts_with("line 7: unknown variant `log`")
    );
    assert!(refusal(&with("flynn", "fedavg")).starts_with("line 3: unknown variant `fedavg`"));
    assert!(
        refusal(&with("784", "\"784\""))
            .starts_with("line 5: found the text \"784\", expected a whole number")
    );
    assert!(refusal(&with("\"256d\"", "1.5")).contains("expected an integer or a multiple such as \"256d\""));
    assert!(refusal(&with("rho = 16\n", "")).contains("missing field `rho`"));
    assert!(refusal(&with("rho = 16", "rho = 16\nrho = 17")).contains("duplicate key"));
    assert!(refusal(&with("rho = 16", "rho = 99999999999999999999999")).starts_with("line 10:"));
    assert!(refusal("").contains("missing field"));
    assert!(refusal("name = ").starts_with("line 1:"));
    assert!(matches!(
        Session::parse(&"#".repeat((1 << 20) + 1)),
        Err(SessionError::TooLarge { limit: 1_048_576 })
    ));
    assert!(matches!(Session::parse(&"[".repeat(1 << 20)), Err(SessionError::Syntax { .. })));
}

#[test]
fn errors_of_a_file_begin_with_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("session.toml");
    let told = |expected: &str| {
        let error = Session::load(&path).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{}: {expected}", path.display())), "{error}");
    };
    told("cannot be read: ");
    std::fs::write(&path, with("784", "0")).unwrap();
    told("data.features is 0, must be 1 to 65536");
    std::fs::write(&path, [0xff]).unwrap();
    told("is not UTF-8 text");
    std::fs::write(&path, vec![b'#'; (1 << 20) + 1]).unwrap();
    told("has more than 1048576 bytes, the limit of a session file");
    std::fs::write(&path, minimal()).unwrap();
    assert_eq!(Session::load(&path).unwrap(), Session::parse(&minimal()).unwrap());
}

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
    let changes: [(&str, Change); 26] = [
        ("name", |s| s.name.push('x')),
        ("min_peers", |s| s.min_peers += 1),
        ("data.features", |s| s.data.features += 1),
        ("data.classes", |s| s.data.classes.swap(0, 1)),
        ("data.scaling", |s| s.data.scaling = Scaling::Center),
        ("data.scaling", |s| s.data.scaling = Scaling::Range { lo: 0.0, hi: 1.0 }),
        ("data.densify", |s| s.data.densify = true),
        ("flynn.m", |s| s.flynn.m += 1),
        ("flynn.s", |s| s.flynn.s += 1),
        ("flynn.rho", |s| s.flynn.rho += 1),
        ("data.scaling", |s| s.data.scaling = Scaling::SoftBins { bins: 2 }),
        ("data.scaling", |s| s.data.scaling = Scaling::SoftBins { bins: 3 }),
        ("flynn.gamma", |s| s.flynn.gamma = 0.25),
        ("flynn.score", |s| s.flynn.score = Score::BalancedLog),
        ("privacy.min_holders", |s| s.privacy.min_holders += 1),
        ("privacy.colluding", |s| s.privacy.colluding = 0.25),
        ("timing.gather_ms", |s| s.timing.gather_ms += 1),
        ("timing.propose_ms", |s| s.timing.propose_ms += 1),
        ("timing.stall_ms", |s| s.timing.stall_ms += 1),
        ("timing.quorum_ms", |s| s.timing.quorum_ms += 1),
        ("timing.compute_ms", |s| s.timing.compute_ms += 1),
        ("timing.linger_ms", |s| s.timing.linger_ms += 1),
        ("timing.max_views", |s| s.timing.max_views += 1),
        ("roster.name", |s| s.roster[2].name = "other".into()),
        ("roster.peer_id", |s| s.roster[2].key = key(99)),
        ("", |s| s.roster[2].addresses.push("/ip4/192.0.2.1/tcp/4001".into())),
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
            // Another key moves its peer in the roster, and so the names may move too.
            assert!(
                differing.contains(&field) && (differing.len() == 1 || field == "roster.peer_id"),
                "{differing:?}"
            );
        }
    }
    assert_eq!(base.fields().len(), 23, "a field that is not listed above was added");
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
    assert_eq!(after[..5], before[..5]);
    assert_eq!(after[5].0, "data.columns");
    assert_eq!(after[6..], before[5..]);
    let turned = named(["weight", "age"]).unwrap();
    assert!(first.id() != plain.id() && turned.id() != first.id() && turned.fields()[5] != after[5]);
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

/// The encoding spelt out by hand from the module documentation, for a session whose every field is written
/// below.
#[test]
fn the_id_is_the_hash_of_the_documented_bytes() {
    use sha2::{Digest, Sha256};
    let mut session = session(3);
    session.data.scaling = Scaling::Range { lo: 0.0, hi: 255.0 };
    session.data.classes = vec!["no".into(), "yes".into()];
    session.flynn.m = 100;
    let (id, fields) = (session.id(), session.fields());

    let mut bytes = b"flyswarm/4 session\0".to_vec();
    let mut index = 0;
    let mut put = |name: &str, value: &[u8]| {
        let length = |bytes: &[u8]| (bytes.len() as u64).to_le_bytes();
        let entry = [&length(name.as_bytes())[..], name.as_bytes(), &length(value), value].concat();
        bytes.extend(&entry);
        let hash = Sha256::digest([&b"flyswarm/4 session field\0"[..], &entry].concat());
        assert_eq!(fields[index], (name.to_owned(), hash[..8].try_into().unwrap()));
        index += 1;
    };
    let integer = |value: u64| value.to_le_bytes();
    put("name", b"digits");
    put("task", b"flynn");
    put("min_peers", &integer(3));
    put("data.features", &integer(64));
    put("data.classes", b"\x02\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0no\x03\0\0\0\0\0\0\0yes");
    // 255 = 1.9921875 x 2^7: sign 0, exponent 1023 + 7 = 0x406, fraction 0xfe0...
    put("data.scaling", b"range\0\0\0\0\0\0\0\0\0\0\0\0\0\xe0\x6f\x40");
    put("data.densify", &[0]);
    put("flynn.m", &integer(100));
    put("flynn.s", &integer(6));
    put("flynn.rho", &integer(32));
    put("flynn.gamma", b"\0\0\0\0\0\0\xe0\x3f");
    put("flynn.score", b"decay");
    put("privacy.min_holders", &integer(3));
    put("privacy.colluding", &(1.0f64 / 3.0).to_le_bytes());
    put("timing.gather_ms", &integer(10_000));
    put("timing.propose_ms", &integer(2_000));
    put("timing.stall_ms", &integer(10_000));
    put("timing.quorum_ms", &integer(60_000));
    put("timing.compute_ms", &integer(600_000));
    put("timing.linger_ms", &integer(30_000));
    put("timing.max_views", &integer(16));
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
        Sha256::digest([&b"flyswarm/4 council\0"[..], &id.0, key.as_bytes()].concat())
    };
    let mut council: Vec<Peer> = session.peers().collect();
    council.sort_by_key(rank);
    assert_eq!(session.council(), council);
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
fn the_council_is_fifteen_or_all_and_differs_between_sessions() {
    for (peers, council, majority) in [(3, 3, 2), (4, 4, 3), (15, 15, 8), (16, 15, 8), (40, 15, 8)] {
        let session = session(peers);
        let members = session.council();
        assert_eq!((members.len(), session.majority()), (council, majority));
        let distinct: std::collections::BTreeSet<_> = members.iter().collect();
        assert_eq!(distinct.len(), council);
    }
    let (one, mut two) = (session(40), session(40));
    two.name = "another".into();
    assert_ne!(one.council(), two.council());
}

fn sessions() -> impl Strategy<Value = Session> {
    let text = "[ -~]{1,20}|[\\PC]{1,20}";
    let name = move || text.prop_map(|name: String| format!("x{}", name.trim()));
    let plain = "[A-Za-z0-9_-][A-Za-z0-9._-]{0,19}";
    let scaling = prop_oneof![
        Just(Scaling::None),
        Just(Scaling::UnitNorm),
        Just(Scaling::Center),
        Just(Scaling::Standard),
        (any::<f32>(), any::<f32>()).prop_map(|(lo, hi)| Scaling::Range { lo, hi }),
    ];
    let data = (1u32..3000, 2usize..20, scaling, any::<bool>(), name());
    let flynn = (1u32..100_000, 2u32..100, 1u32..1000, 0.0..1.0f64);
    let rest = (
        3u64..20,
        0.01..0.99f64,
        proptest::array::uniform7(1u64..1000),
        proptest::collection::vec(plain, 20),
    );
    (plain, data, flynn, rest).prop_map(|(name, data, flynn, (peers, colluding, times, names))| {
        let mut session = session(peers);
        session.name = name;
        let (features, classes, scaling, densify, class) = data;
        let classes = (0..classes).map(|i| format!("{i}{class}")).collect();
        session.data = DataSpec { features, columns: Vec::new(), classes, scaling, densify };
        let (m, s, rho, gamma) = flynn;
        session.flynn = FlynnSpec { m, s, rho, gamma, score: Score::Decay };
        session.privacy.colluding = colluding;
        for (field, time) in rules::TIMING.iter().zip(times) {
            (field.set)(&mut session.timing, time);
        }
        session.timing.stall_ms += 3_000;
        for (i, (entry, name)) in session.roster.iter_mut().zip(names).enumerate() {
            entry.name = format!("{i}-{name}");
            entry.addresses = vec![format!("/ip4/192.0.2.{i}/tcp/4001/p2p/{}", entry.key); i % 3];
        }
        session
    })
}

proptest! {
    #[test]
    fn a_written_session_reads_back_the_same(session in sessions()) {
        let Ok(session) = session.check() else { return Err(TestCaseError::reject("breaks a rule")) };
        let read = Session::parse(&session.to_toml()).unwrap();
        prop_assert_eq!(read.id(), session.id());
        prop_assert_eq!(read, session);
    }

    #[test]
    fn any_text_is_read_or_refused_without_a_panic(text in "\\PC{0,200}|[a-z=\\[\\]\"{}.,0-9#\n ]{0,200}") {
        let _ = Session::parse(&text);
    }

    #[test]
    fn a_damaged_file_is_read_or_refused_on_one_line(
        cuts in proptest::collection::vec((any::<prop::sample::Index>(), 0usize..8, "[\\PC\n]{0,4}|-|\"|[0-9]{1,25}|nan"), 1..4),
    ) {
        let mut text: Vec<char> = session(3).to_toml().chars().collect();
        for (at, length, new) in cuts {
            let at = at.index(text.len());
            let end = (at + length).min(text.len());
            text.splice(at..end, new.chars());
        }
        match Session::parse(&text.into_iter().collect::<String>()) {
            // What is read keeps all the rules: checking again changes nothing.
            Ok(session) => prop_assert_eq!(session.clone().check().unwrap(), session),
            Err(error) => prop_assert!(!error.to_string().contains('\n')),
        }
    }
}
