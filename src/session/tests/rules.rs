//! Tests which sessions are refused, and the error texts.

use super::*;
use crate::protocol::context::{Aggregate, Context};

#[test]
fn every_breach_of_a_rule_is_told_with_field_value_and_limit() {
    let names = |n: usize| (0..n).map(|i| format!("\"{i}\"")).collect::<Vec<_>>().join(",");
    let long = "x".repeat(65);
    let [a, b] = [key(0), key(1)].map(|key| key.to_string());
    let address = |text: &str| with("peer_id", &format!("addresses = [{text:?}]\npeer_id"));
    let relay = |text: &str| with("task", &format!("relays = [{text:?}]\ntask"));
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
            with("[flynn]", "[privacy]\nmin_contributors = 4\n[flynn]"),
            "privacy.min_contributors is 4, must be 1 to 3 (the roster)",
        ),
        (
            with("[flynn]", "[privacy]\nmin_contributors = 0\n[flynn]"),
            "privacy.min_contributors is 0, must be 1 to 3",
        ),
        (
            with("[flynn]", "[privacy]\ncollusion_threshold = 0\n[flynn]"),
            "privacy.collusion_threshold is 0, must be 0.01 to 0.99",
        ),
        (
            with("[flynn]", "[privacy]\ncollusion_threshold = 1\n[flynn]"),
            "privacy.collusion_threshold is 1, must be 0.01 to 0.99",
        ),
        (
            with("[flynn]", "[timing]\nstart_wait_ms = -1\n[flynn]"),
            "timing.start_wait_ms is -1, must be 0 to 3600000",
        ),
        (
            with("[flynn]", "[timing]\nregroup_interval_ms = 86400001\n[flynn]"),
            "timing.regroup_interval_ms is 86400001, must be 0 to 86400000",
        ),
        (with("[flynn]", "[limits]\nmax_views = 0\n[flynn]"), "limits.max_views is 0, must be 24 to 1000"),
        (
            with("[flynn]", "[timing]\ngather = 1\n[flynn]"),
            "a field of timing is \"gather\", must be one of start_wait_ms, proposal_backoff_ms",
        ),
        (
            with("[flynn]", "[timing]\nview_timeout_ms = 3600001\n[flynn]"),
            "timing.view_timeout_ms is 3600001, must be 3000 to 3600000",
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
        (relay("192.0.2.1:4001"), "a relay is \"192.0.2.1:4001\", must be a multiaddress with a peer id"),
        (relay("/ip4/1.2.3.4/tcp/1"), "must be a multiaddress with a peer id"),
        (relay(&format!("/ip4/1.2.3.4/tcp/1/p2p/{b} ")), "must be a multiaddress with a peer id"),
        (relay(&format!("/ip4/1.2.3.4/p2p-circuit/p2p/{b}")), "must be a multiaddress with a peer id"),
        (relay(&format!("/dns/{}/tcp/1/p2p/{b}", "x".repeat(220))), "at most 256 characters"),
        (
            with("task", &format!("relays = [{}]\ntask", names(9))),
            "the length of relays is 9, must be 0 to 8",
        ),
    ];
    for (text, expected) in cases {
        let error = refusal(&text);
        assert!(error.contains(expected), "\n  said {error}\nexpected {expected}");
    }
}

#[test]
fn min_peers_that_can_never_work_is_refused_with_the_smallest_that_can() {
    let of = |task: &TaskSpec, peers: u64, min_peers: u16| {
        let made = Session { task: task.clone(), min_peers, ..session(peers) };
        let text = made.check().map_err(|error| error.to_string()).map(|made| made.to_toml());
        text.and_then(|text| Session::parse(&text).map_err(|error| error.to_string())).map(drop)
    };
    let flynn = session(3).task;
    let xclp = TaskSpec::from(XclpSpec::default());
    for (task, peers, smallest) in [
        (&flynn, 3, 3),
        (&flynn, 4, 3),
        (&flynn, 5, 3),
        (&flynn, 6, 4),
        (&xclp, 3, 3),
        (&xclp, 8, 5),
        (&xclp, 10, 6),
    ] {
        assert_eq!(Session::default_min_peers(task, peers as usize), smallest);
        assert_eq!(of(task, peers, smallest), Ok(()), "{task}, {peers} peers");
        let told = of(task, peers, smallest - 1).unwrap_err();
        assert!(
            told.starts_with(&format!("min_peers is {}, must be {smallest} to {peers} (", smallest - 1)),
            "{told}"
        );
    }
    for (peers, min_peers) in [(65, 33), (100, 51)] {
        let told = of(&xclp, peers, min_peers).unwrap_err();
        let expected = format!("the length of roster is {peers}, must be 3 to 64 with the task xclp");
        assert!(told.starts_with(&expected), "{told}");
        // A file is refused with this error too, before min_peers is checked.
        let text = Session { min_peers, ..session(peers) }.to_toml();
        let (head, rest) = text.split_once("[flynn]").unwrap();
        let rest = rest.split_once("[privacy]").unwrap().1;
        let text = format!("{}[privacy]{rest}", head.replacen("\"flynn\"", "\"xclp\"", 1));
        assert!(refusal(&text).starts_with(&expected), "{}", refusal(&text));
    }
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
    // Names of classes and columns may have any printable characters, because they are not used as names of
    // files.
    let free = with("features = 784", "features = 2\ncolumns = [\"../x\", \"h\u{f6}he in m\"]");
    let free = free.replace("\"a\", \"b\"", "\".b c\", \"/d\"").replace("0.025d", "1d");
    assert_eq!(Session::parse(&free).unwrap().data.classes, [".b c", "/d"]);
}

#[test]
fn rosters_of_three_to_1024_are_taken() {
    let two = minimal().rsplit_once("[[roster]]").unwrap().0.to_owned();
    assert_eq!(refusal(&two), "the length of roster is 2, must be 3 to 1024");
    let mut large = session(1024);
    assert_eq!((large.min_peers, large.quorum(), large.committee().len()), (513, 10, 15));
    assert_eq!(Session::parse(&large.to_toml()).unwrap(), large);
    large.roster.push(Entry { key: key(1024), name: "one-more".into(), addresses: vec![] });
    assert_eq!(refusal(&large.to_toml()), "the length of roster is 1025, must be 3 to 1024");
    assert_eq!(large.check().unwrap_err().to_string(), "the length of roster is 1025, must be 3 to 1024");
}

#[test]
#[should_panic(expected = "BUG: a plan of 100001 slots")]
fn a_plan_of_more_slots_than_a_session_may_have_is_a_bug_of_its_task() {
    let context = |slots| {
        let identity = Identity::from_seed([0; 32]);
        Context::new(session(3).settings(), Peer(0), identity, vec![Aggregate::coin(); slots])
    };
    let most = MOST_SLOTS as usize;
    assert_eq!(context(most).plan.len(), most);
    context(most + 1);
}

#[test]
fn evaluation_of_another_task_is_refused_with_what_that_has_in_its_place() {
    let text = minimal();
    let (head, rest) = text.split_once("[flynn]").unwrap();
    let (_, roster) = rest.split_once("gamma = 0\n").unwrap();
    for (task, section) in [("xclp", ""), ("fedavg", ""), ("custom", "[custom]\nname = \"mine\"\n")] {
        let head = head.replace("\"flynn\"", &format!("\"{task}\""));
        let text = |evaluate: &str| format!("{head}{section}{evaluate}{roster}");
        assert!(Session::parse(&text("")).is_ok(), "{}", text(""));
        let told = format!(
            "task is {task}, must be flynn if there is an [evaluate]; fedavg has fedavg.held_out, xclp \
             hold_out in the file of 'join --map'"
        );
        assert_eq!(refusal(&text("[evaluate]\n")), told);
    }
}
