//! XCLP's processes killed with -9 in each stage and role. The others end with the labels that the pooled
//! rows of whoever was counted have in one place, label for label, and so does a peer that comes back in
//! time; one that does not is counted where its part was decided already.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;
use std::time::Duration;

use flyswarm::crypto::stream::derive;
use flyswarm::data::digits::digits;
use flyswarm::session::{Hamming, Peer, Session, TaskSpec, XclpSpec};
use flyswarm::task::xclp::{Plan, Xclp};
use serde_json::Value;

use super::check::members;
use super::swarm::{NAMES, Swarm};
use super::xclp::{OWNERS, PEERS, known, start, swarm};

/// Where a peer is killed.
struct Point {
    name: &'static str,
    /// What its process has just said: event, quantity, and stage of it where it has one.
    said: (&'static str, &'static str, &'static str),
    /// How long before, milliseconds.
    later: u64,
    hamming: Hamming,
    /// Whether it is tried too with a peer that stays away: once for each stage.
    for_good: bool,
}

const fn point(
    name: &'static str,
    said: (&'static str, &'static str, &'static str),
    for_good: bool,
) -> Point {
    Point { name, said, later: 0, hamming: Hamming::Dealer, for_good }
}

/// In the order of a session. Those of quantities that a session has not are passed over.
const POINTS: [Point; 9] = [
    point("rows open", ("opened", "rows", ""), true),
    point("roles drawn", ("roles", "", ""), false),
    // Oblivious transfer, for these distances take a second.
    Point { later: 100, hamming: Hamming::Ot, ..point("distances under way", ("roles", "", ""), true) },
    Point { later: 30, ..point("distances, or what comes of them", ("roles", "", ""), false) },
    point("graph summed", ("stage", "graph", "sum"), false),
    point("graph open", ("opened", "graph", ""), true),
    point("labels summed", ("stage", "labelled", "sum"), true),
    point("labels decided", ("stage", "labelled", "accept"), false),
    point("labels open", ("stage", "labelled", "open"), true),
];

fn says(value: &Value, (event, quantity, stage): (&str, &str, &str)) -> bool {
    let is = |key: &str, expected: &str| expected.is_empty() || value[key] == expected;
    value["event"] == event && (is("slot", quantity) || is("quantity", quantity)) && is("stage", stage)
}

#[derive(Clone, Copy, PartialEq)]
enum Role {
    /// All owners of four are in the ring, and so all keep distances.
    Owner,
    /// Or, before the roles are drawn, a witness.
    Propagator,
    /// A witness in the ring.
    Keeper,
}

/// Who has the role; before they are drawn, who may get it.
fn victim(swarm: &mut Swarm, role: Role, drawn: bool) -> usize {
    if !drawn {
        return if role == Role::Owner { 1 } else { PEERS - 1 };
    }
    let event = swarm.wait("roles", |told| (told.value["event"] == "roles").then(|| told.value.clone()));
    let names =
        event[if role == Role::Propagator { "propagators" } else { "ring" }].as_array().expect("a list");
    let mut peers = names.iter().map(|name| NAMES.iter().position(|known| known == name).expect("a peer"));
    peers
        .find(|&i| (i < OWNERS) == (role == Role::Owner))
        .expect("four owners, two propagators and a witness in the ring")
}

fn spec(session: &Session) -> XclpSpec {
    let TaskSpec::Xclp(spec) = session.task else { panic!("{:?}", session.task) };
    spec
}

/// The labels that the members of a receipt must have, by owner: those of the pooled rows of all whom the
/// distances were between, of whom those that were lost before the end have told no labels.
fn expected(swarm: &Swarm, receipt: &Value, planes: &[u8; 32]) -> Vec<(usize, Vec<String>)> {
    let of = |quantity: &str| members(receipt, quantity).into_iter().collect::<BTreeSet<_>>();
    let plan = Plan::new(swarm.session.clone(), spec(&swarm.session)).quantities();
    let (counted, labelled) = (of("rows"), of("labelled"));
    let with_points =
        if plan.iter().any(|quantity| quantity.name == "graph") { of("graph") } else { of("labelled") };
    let data = digits();
    let owners = (0..OWNERS).filter(|&i| counted.contains(NAMES[i]) && with_points.contains(NAMES[i]));
    let tasks: Vec<(usize, Xclp)> = owners
        .map(|i| {
            let (rows, tells) = (&swarm.parts[i], labelled.contains(NAMES[i]));
            let label = |(place, &row): (usize, &usize)| (tells && known(place)).then(|| data.labels()[row]);
            let labels = rows.iter().enumerate().map(label).collect();
            let secret = derive(&*swarm.keys[i].seed(), "rows", &swarm.session.id().0);
            let part = Arc::new(data.subset(rows));
            let task =
                Xclp::new(swarm.session.clone(), spec(&swarm.session), Peer(i as u16), part, labels, &secret);
            (i, task.expect("a task"))
        })
        .collect();
    let references: Vec<_> = tasks.iter().map(|(_, task)| task).collect();
    let (said, _) = Xclp::pooled(&references, planes, None).expect("labels");
    let class =
        |label: Option<u16>| label.map_or(String::new(), |label| data.classes()[usize::from(label)].clone());
    let labels = said.iter().map(|said| said.iter().map(|said| class(said.label)).collect());
    tasks.iter().map(|(i, _)| *i).zip(labels).collect()
}

/// Checks all that `finished`, and gives the owners whose rows were labelled.
fn same_and_exact(swarm: &Swarm, finished: &[usize]) -> Vec<usize> {
    let receipt = swarm.receipt(finished[0]);
    for &i in finished {
        assert_eq!(swarm.receipt(i)["quantities"], receipt["quantities"], "receipts of {}", NAMES[i]);
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
        let found: Vec<_> =
            text.lines().skip(1).map(|line| line.split(',').next().unwrap_or_default()).collect();
        assert_eq!(found, labels, "labels of {}", NAMES[i]);
        labelled.push(i);
    }
    labelled
}

fn killed(role: Role, point: &Point, returns: bool) {
    let context = format!("{}, comes back: {returns}", point.name);
    let mut swarm = swarm(|session| {
        session.timing.linger_ms = if returns { 15_000 } else { 500 };
        // Labels that are compared one by one must not hang on the last digits of a score.
        let spec = XclpSpec { bits: 2048, tolerance: 1e-9, hamming: point.hamming, ..XclpSpec::new(64) };
        session.task = TaskSpec::Xclp(spec);
    });
    (0..PEERS).for_each(|i| start(&mut swarm, i));
    let victim = victim(&mut swarm, role, point.said.1 != "rows");
    // It may have said so while the roles were waited for.
    if !swarm.told(victim, point.said.0).iter().any(|value| says(value, point.said)) {
        swarm.wait(&context, |told| (told.peer == victim && says(&told.value, point.said)).then_some(()));
    }
    std::thread::sleep(Duration::from_millis(point.later));
    swarm.signal(victim, "KILL");
    assert_eq!(swarm.wait_end(victim).signal, Some(9));
    if point.hamming == Hamming::Ot {
        let stages = swarm.told(victim, "stage");
        let exchanging =
            stages.last().is_some_and(|last| last["stage"] == "compute" || last["stage"] == "keys");
        assert!(exchanging, "{context}: killed too late: {:?}", stages.last());
    }
    if returns {
        start(&mut swarm, victim);
    }
    let mut finished = Vec::new();
    for (i, name) in NAMES.iter().enumerate().take(PEERS).filter(|(i, _)| returns || *i != victim) {
        let ended = swarm.wait_end(i);
        // Who was away while the others finished has no labels, and is told so.
        let without =
            i == victim && ended.code == Some(3) && ended.errors.contains("finished without this peer");
        assert!(ended.code == Some(0) || without, "{context}: {name} {ended:?}");
        if !without {
            finished.push(i);
        }
    }
    let labelled = same_and_exact(&swarm, &finished);
    let others = (0..OWNERS).filter(|&i| i != victim);
    assert!(others.clone().all(|i| labelled.contains(&i)), "{context}: labels of {labelled:?}");
}

/// In every stage, one swarm after the other.
fn killed_everywhere(role: Role, returns: bool) {
    let session = swarm(|_| ()).session.clone();
    let plan = Plan::new(session.clone(), spec(&session)).quantities();
    let has = |quantity: &str| quantity.is_empty() || plan.iter().any(|each| each.name == quantity);
    // Before the roles are drawn a witness is a witness.
    let points = POINTS.iter().filter(|point| role != Role::Keeper || point.said.1 != "rows");
    for point in points.filter(|point| has(point.said.1) && (returns || point.for_good)) {
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
fn a_propagator_that_is_killed_in_any_stage_comes_back_to_its_part() {
    killed_everywhere(Role::Propagator, true);
}

#[test]
fn a_propagator_that_is_killed_in_any_stage_and_stays_away_is_replaced() {
    killed_everywhere(Role::Propagator, false);
}

#[test]
fn a_witness_that_keeps_distances_and_is_killed_in_any_stage_comes_back_to_its_part() {
    killed_everywhere(Role::Keeper, true);
}

#[test]
fn a_witness_that_keeps_distances_and_is_killed_in_any_stage_and_stays_away_is_replaced() {
    killed_everywhere(Role::Keeper, false);
}
