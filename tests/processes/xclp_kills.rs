//! Processes of XCLP that are killed with SIGKILL, in each stage and role. The other peers must have the same
//! result, line for line, as the pooled rows of the peers that took part. A peer that comes back in time must
//! have it too.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use flyswarm::session::Peer;
use flyswarm::tasks::Hamming;
use flyswarm::tasks::xclp::{RowLabel, Xclp};
use flyswarm_data::digits::digits;
use flyswarm_learn::sketch::lsh::Codes;
use serde_json::Value;

use super::check::members;
use super::swarm::{NAMES, PROGRAM, Swarm};
use super::xclp::{OWNERS, PEERS, known, spec, start, swarm};

/// The moment when a peer is killed.
struct Point {
    name: &'static str,
    /// The event that the process of the peer has just reported: its name, its aggregate, and its stage if it
    /// has one.
    said: (&'static str, &'static str, &'static str),
    /// Time from the event to the kill, in milliseconds.
    later: u64,
    /// True if the point is also tried with a peer that does not come back.
    for_good: bool,
}

const fn point(
    name: &'static str,
    said: (&'static str, &'static str, &'static str),
    for_good: bool,
) -> Point {
    Point { name, said, later: 0, for_good }
}

/// The points, in the order in which a session reaches them.
static POINTS: [Point; 10] = [
    point("rows open", ("opened", "rows", ""), true),
    point("computing begins", ("roles", "", ""), false),
    Point { later: 60, ..point("inputs under way", ("roles", "", ""), false) },
    Point { later: 250, ..point("neighbours under way", ("roles", "", ""), true) },
    Point { later: 900, ..point("propagation under way", ("roles", "", ""), false) },
    point("computed, summed", ("stage", "computed", "sum"), true),
    point("computed, decided", ("stage", "computed", "accept"), false),
    point("computed, open", ("opened", "computed", ""), true),
    point("labels summed", ("stage", "labelled", "sum"), false),
    point("labels open", ("stage", "labelled", "open"), true),
];

fn says(value: &Value, (event, aggregate, stage): (&str, &str, &str)) -> bool {
    let is = |key: &str, expected: &str| expected.is_empty() || value[key] == expected;
    value["event"] == event && (is("slot", aggregate) || is("aggregate", aggregate)) && is("stage", stage)
}

#[derive(Clone, Copy, PartialEq)]
enum Role {
    /// A peer that has rows but does not compute.
    Owner,
    /// One of the three computing members. It may have rows.
    Party,
}

/// Returns a peer that has the role. Before the roles are drawn, returns a peer that may get it.
fn victim(swarm: &mut Swarm, role: Role, drawn: bool) -> usize {
    if !drawn {
        return if role == Role::Owner { 1 } else { PEERS - 1 };
    }
    let event = swarm.wait("roles", |told| (told.value["event"] == "roles").then(|| told.value.clone()));
    let names = event["computing"].as_array().expect("a list");
    let parties: Vec<usize> =
        names.iter().map(|name| NAMES.iter().position(|known| known == name).expect("a peer")).collect();
    match role {
        Role::Owner => (0..OWNERS).find(|i| !parties.contains(i)).expect("four owners, three parties"),
        Role::Party => parties[0],
    }
}

/// Returns the labels that the members of a receipt must have, for each owner. They are the labels of the
/// pooled rows of all owners that took part.
fn expected(swarm: &Swarm, receipt: &Value, planes: &[u8; 32]) -> Vec<(usize, Vec<String>)> {
    let of = |aggregate: &str| members(receipt, aggregate).into_iter().collect::<BTreeSet<_>>();
    let (counted, computed) = (of("rows"), of("computed"));
    let data = digits();
    let owners = (0..OWNERS).filter(|&i| counted.contains(NAMES[i]) && computed.contains(NAMES[i]));
    let tasks: Vec<(usize, Xclp)> = owners
        .map(|i| {
            let rows = &swarm.parts[i];
            let label = |(place, &row): (usize, &usize)| known(place).then(|| data.labels()[row]);
            let labels = rows.iter().enumerate().map(label).collect();
            let part = Arc::new(data.subset(rows));
            let task = Xclp::new(swarm.session.clone(), spec(), Peer(i as u16), part, labels, &[0; 32]);
            (i, task.expect("a task"))
        })
        .collect();
    let references: Vec<_> = tasks.iter().map(|(_, task)| task).collect();
    let (said, _) = Xclp::pooled(&references, planes, None, &[]).expect("labels");
    let class =
        |label: Option<u16>| label.map_or(String::new(), |label| data.classes()[usize::from(label)].clone());
    let line = |(place, said): (usize, &RowLabel)| {
        let disputed = if said.disputed { "yes" } else { "" };
        let source = match said.label {
            _ if known(place) => "given",
            Some(_) => "inferred",
            None => "none",
        };
        format!("{},{:.6},{},{source},{disputed}", class(said.label), said.confidence, place + 1)
    };
    let lines = said.iter().map(|said| said.iter().enumerate().map(line).collect());
    tasks.iter().map(|(i, _)| *i).zip(lines).collect()
}

/// Checks the results of all `finished` peers. Returns the owners whose rows were labelled, and the seed of
/// the planes.
fn same_and_exact(swarm: &Swarm, finished: &[usize]) -> (Vec<usize>, [u8; 32]) {
    let receipt = swarm.receipt(finished[0]);
    for &i in finished {
        assert_eq!(swarm.receipt(i)["aggregates"], receipt["aggregates"], "receipts of {}", NAMES[i]);
    }
    let planes: BTreeSet<String> = finished
        .iter()
        .flat_map(|&i| swarm.told(i, "planes"))
        .map(|told| told["seed"].as_str().expect("a seed").to_owned())
        .collect();
    assert_eq!(planes.len(), 1, "one seed of the planes");
    let mut seed = [0; 32];
    hex::decode_to_slice(planes.first().expect("one"), &mut seed).expect("32 bytes");
    let mut labelled = Vec::new();
    for (i, labels) in expected(swarm, &receipt, &seed) {
        if !finished.contains(&i) {
            continue;
        }
        let text = fs::read_to_string(swarm.file(i, "model")).expect("labels");
        let found: Vec<_> = text.lines().skip(1).collect();
        assert_eq!(found, labels, "labels of {}", NAMES[i]);
        labelled.push(i);
    }
    (labelled, seed)
}

fn killed(role: Role, point: &Point, returns: bool) {
    let context = format!("{}, comes back: {returns}", point.name);
    let mut swarm = swarm(|session| {
        session.timing.linger_ms = if returns { 15_000 } else { 500 };
    });
    (0..PEERS).for_each(|i| start(&mut swarm, i));
    let victim = victim(&mut swarm, role, point.said.1 != "rows");
    // The peer may have reported the event while the test waited for the roles.
    if !swarm.told(victim, point.said.0).iter().any(|value| says(value, point.said)) {
        swarm.wait(&context, |told| (told.peer == victim && says(&told.value, point.said)).then_some(()));
    }
    std::thread::sleep(Duration::from_millis(point.later));
    swarm.signal(victim, "KILL");
    assert_eq!(swarm.wait_end(victim).signal, Some(9));
    let held = state(&swarm, victim);
    assert!(held.len() > 2, "{context}: {} has begun", NAMES[victim]);
    only_what_a_restart_needs(&swarm, victim, &held);
    if returns {
        start(&mut swarm, victim);
    }
    let mut finished = Vec::new();
    for (i, name) in NAMES.iter().enumerate().take(PEERS).filter(|(i, _)| returns || *i != victim) {
        let ended = swarm.wait_end(i);
        // A peer that was away while the others finished has no labels. It prints this.
        let without =
            i == victim && ended.code == Some(3) && ended.errors.contains("finished without this peer");
        assert!(ended.code == Some(0) || without, "{context}: {name} {ended:?}");
        if !without {
            finished.push(i);
        }
    }
    let (labelled, planes) = same_and_exact(&swarm, &finished);
    let words = code_words(&swarm, &planes);
    let planted = [("planted".to_owned(), words.iter().take(3).flatten().copied().collect())];
    assert_eq!(with_codes(&planted, &words), ["planted"]);
    assert_eq!(with_codes(&held, &words), [""; 0], "{context}");
    for &i in &finished {
        nothing_is_left(&swarm, i);
    }
    for &i in finished.iter().filter(|i| **i < OWNERS) {
        let key = swarm.file(i, "key");
        let ledger = Command::new(PROGRAM).args(["ledger", "--key"]).arg(key).output().expect("runs");
        let text = String::from_utf8_lossy(&ledger.stdout).into_owned();
        assert!(text.contains("0 spent, 1 session on shares\n"), "{context}: {text}");
    }
    let others = (0..OWNERS).filter(|&i| i != victim);
    assert!(others.clone().all(|i| labelled.contains(&i)), "{context}: labels of {labelled:?}");
}

/// Kills a peer in every stage. Each stage has a new swarm.
fn killed_everywhere(role: Role, returns: bool) {
    for point in POINTS.iter().filter(|point| returns || point.for_good) {
        killed(role, point, returns);
    }
}

#[test]
fn an_owner_that_is_killed_in_any_stage_and_comes_back_ends_with_its_labels_or_is_told_that_it_has_none() {
    killed_everywhere(Role::Owner, true);
}

#[test]
fn an_owner_that_is_killed_in_any_stage_and_stays_away_leaves_the_others_their_labels() {
    killed_everywhere(Role::Owner, false);
}

#[test]
fn a_computing_party_that_is_killed_in_any_stage_and_comes_back_leaves_the_others_their_labels() {
    killed_everywhere(Role::Party, true);
}

#[test]
fn a_computing_party_that_is_killed_in_any_stage_and_stays_away_is_replaced() {
    killed_everywhere(Role::Party, false);
}

/// Returns the contents of the files in a peer's state folder, with their names.
fn state(swarm: &Swarm, i: usize) -> Vec<(String, Vec<u8>)> {
    let (mut files, mut folders) = (Vec::new(), vec![swarm.folder.path().join("state")]);
    let id = swarm.keys[i].public().to_string();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.to_string_lossy().contains(&id) {
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                files.push((name, fs::read(&path).unwrap_or_default()));
            }
        }
    }
    files
}

/// Returns all words of the codes of all owners' rows.
fn code_words(swarm: &Swarm, planes: &[u8; 32]) -> BTreeSet<[u8; 8]> {
    let data = digits();
    let of = |rows: &Vec<usize>| Codes::of(&data.subset(rows), planes, spec().bits as usize).expect("codes");
    let codes: Vec<Codes> = swarm.parts[..OWNERS].iter().map(of).collect();
    let rows = codes.iter().flat_map(|codes| (0..codes.rows()).flat_map(|row| codes.row(row)));
    rows.map(|word| word.to_le_bytes()).collect()
}

/// Returns the files that contain a word of any code.
fn with_codes<'a>(files: &'a [(String, Vec<u8>)], words: &BTreeSet<[u8; 8]>) -> Vec<&'a str> {
    let word = |window: &[u8]| <[u8; 8]>::try_from(window).is_ok_and(|word| words.contains(&word));
    let has = |bytes: &[u8]| bytes.windows(8).any(word);
    files.iter().filter(|(_, bytes)| has(bytes)).map(|(name, _)| &**name).collect()
}

/// Checks the state of a peer while a session runs. The state has what a restart needs: sums, and the results
/// of exchanges. These are the commitment of an owner, the shares of the output that a computing member has,
/// and later the output of the owner. The state has no row, code or key, and no share of an input.
fn only_what_a_restart_needs(swarm: &Swarm, i: usize, files: &[(String, Vec<u8>)]) {
    let classes = digits().classes().len();
    let (row, rows) = (classes + 2, |i: usize| swarm.parts[i].len());
    let mut lengths = BTreeSet::from([0, 4, 65, 4 * (PEERS + classes), 4 * 9 * PEERS]);
    lengths.extend((i < OWNERS).then(|| 1 + rows(i) * row));
    for owners in 0..1u32 << OWNERS {
        let points: usize = (0..OWNERS).filter(|i| owners >> i & 1 == 1).map(rows).sum();
        lengths.insert(65 + 2 * points * row);
    }
    for (name, bytes) in files.iter().filter(|(name, _)| name.starts_with("total-")) {
        assert!(lengths.contains(&bytes.len()), "{}: {name} has {} bytes", NAMES[i], bytes.len());
    }
}

/// Checks that nothing of the exchange is left when the session is over.
fn nothing_is_left(swarm: &Swarm, i: usize) {
    for (name, bytes) in state(swarm, i) {
        let stays = ["lock", "over", "promised", "joined", "released", "silent", "paid"].contains(&&*name);
        assert!(stays && bytes.len() < 4096, "{}: {name}, {} bytes", NAMES[i], bytes.len());
    }
}

#[test]
fn processes_whose_distances_are_made_by_pairs_have_the_labels_of_the_pooled_rows_and_leave_nothing() {
    let mut swarm = swarm(|session| {
        let Some(spec) = session.task.get_mut::<flyswarm::tasks::XclpSpec>() else {
            panic!("{:?}", session.task)
        };
        spec.hamming = Hamming::Phe;
    });
    (0..PEERS).for_each(|i| start(&mut swarm, i));
    for (i, name) in NAMES.iter().enumerate().take(PEERS) {
        let ended = swarm.wait_end(i);
        assert_eq!(ended.code, Some(0), "{name}: {ended:?}");
    }
    let all: Vec<usize> = (0..PEERS).collect();
    let (labelled, _) = same_and_exact(&swarm, &all);
    assert_eq!(labelled, all[..OWNERS]);
    all.into_iter().for_each(|i| nothing_is_left(&swarm, i));
}
