//! Runs whole nodes that propagate labels. Peers crash at every stage of the exchange.

mod audit;
mod classes;
mod copies;
mod ending;
mod pairs;

use std::collections::BTreeSet;
use std::sync::Arc;

use super::network::{Fault, Network};
use super::{histories, session, timing};
use crate::crypto::identity::Identity;
use crate::data::Dataset;
use crate::data::digits::digits;
use crate::node::{Ending, Event};
use crate::protocol::failure::Failure;
use crate::protocol::message::Message;
use crate::protocol::signed::Signed;
use crate::protocol::view::Reason;
use crate::session::{ColumnChecks, DataSpec, Peer, Privacy, Scaling, Session, TaskSpec};
use crate::tasks::XclpSpec;
use crate::tasks::xclp::talk::{self, Body, What};
use crate::tasks::xclp::{self, RowLabel, Xclp};
use crate::tasks::{History, Task};

struct Lab {
    net: Network,
    tasks: Vec<Arc<Xclp>>,
    session: Session,
}

fn spec() -> XclpSpec {
    XclpSpec { bits: 128, k: 4, ..XclpSpec::default() }.with_alpha(0.8)
}

fn lab(rows: &[usize], scaling: Scaling, seed: u64, spec: XclpSpec) -> Lab {
    lab_of(1, rows, scaling, seed, spec)
}

fn lab_of(min_contributors: u16, rows: &[usize], scaling: Scaling, seed: u64, spec: XclpSpec) -> Lab {
    let mut identities: Vec<_> = (0..rows.len()).map(|i| Identity::from_seed([i as u8 + 1; 32])).collect();
    identities.sort_by_key(Identity::public);
    let data = digits();
    let task = TaskSpec::from(spec.clone());
    let session = Session {
        min_peers: Session::default_min_peers(&task, identities.len()),
        task,
        data: DataSpec {
            features: 64,
            columns: Vec::new(),
            classes: data.classes().to_vec(),
            scaling,
            densify: false,
            checks: ColumnChecks::default(),
            preparation: None,
        },
        privacy: Privacy { min_contributors, ..Privacy::default() },
        ..session(&identities, timing())
    }
    .check()
    .unwrap();
    let (mut first, mut tasks) = (0, Vec::new());
    for (peer, &n) in (0u16..).map(Peer).zip(rows) {
        let part = data.subset(&(first..first + n).collect::<Vec<_>>());
        first += n;
        let labels =
            part.labels().iter().enumerate().map(|(i, &label)| (i % 4 == 0).then_some(label)).collect();
        let task =
            Xclp::new(session.clone(), spec.clone(), peer, Arc::new(part), labels, &[peer.0 as u8; 32]);
        tasks.push(Arc::new(task.unwrap()));
    }
    let nodes = tasks.iter().map(|task| task.clone() as Arc<dyn Task>).collect();
    Lab { net: Network::with_tasks(identities, session.settings(), nodes, seed), tasks, session }
}

impl Lab {
    /// Returns from `history` the three computing members, and the members whose rows were used.
    fn computed(&self, history: &History) -> ([Peer; 3], Vec<Peer>) {
        let slot = history.committed() - 2;
        let words = history.vector(slot).map(|bytes| bytes.to_vec());
        assert_eq!(words, None, "who computed is forgotten with the shares");
        let members = history.members(slot).to_vec();
        let roles = self.net.events.iter().rev().find_map(|(_, _, event)| match event {
            Event::Exchange(roles) if !roles.is_empty() => Some(roles[0].1.clone()),
            _ => None,
        });
        (roles.unwrap().try_into().unwrap(), members)
    }

    /// Compares each owner's labels with those computed from the rows in one place. Returns the owners
    /// that have labels.
    fn holds(&self) -> Vec<Peer> {
        let histories = histories(&self.net);
        let (_, first) = histories.iter().next().expect("somebody finishes");
        let (_, members) = self.computed(first);
        let owners: Vec<Peer> =
            members.into_iter().filter(|peer| !self.tasks[peer.index()].labels().is_empty()).collect();
        let tasks: Vec<&Xclp> = owners.iter().map(|peer| &*self.tasks[peer.index()]).collect();
        let planes = xclp::planes(&self.session, first).unwrap();
        let moments = first.vector(2).filter(|_| first.committed() == 5).map(|bytes| &bytes[..]);
        let (pooled, _) = Xclp::pooled(&tasks, &planes, moments, &tasks[0].without_labels(first)).unwrap();
        let mut told = Vec::new();
        for (peer, expected) in owners.iter().zip(&pooled) {
            let Some(history) = histories.get(peer) else { continue };
            let Some(output) = self.tasks[peer.index()].output(history) else { continue };
            assert_eq!(&self.tasks[peer.index()].said(&output), expected, "{peer}");
            assert!(expected.iter().any(|said: &RowLabel| said.label.is_some()));
            told.push(*peer);
        }
        told
    }

    /// Kills the first peer that sends a message that `holds` accepts. This message and all later messages of
    /// the peer are not delivered.
    fn kill(&mut self, holds: impl Fn(&Body) -> bool + Send + 'static) -> Peer {
        let killed = std::sync::Arc::new(std::sync::Mutex::new(None));
        let seen = killed.clone();
        self.net.hold = Some(Box::new(move |from, _, message| {
            let body = match message {
                Message::Exchange { content, .. } => talk::read(content.clone()).ok(),
                _ => None,
            };
            let matches = body.is_some_and(|(body, _)| holds(&body));
            matches && *seen.lock().unwrap().get_or_insert(from) == from
        }));
        self.net.run_unchecked(60_000, |_| killed.lock().unwrap().is_some());
        let victim = killed.lock().unwrap().expect("it is sent");
        self.net.at_ms(self.net.now_ms(), Fault::Crash(victim));
        victim
    }

    fn kill_for_good(&mut self, holds: impl Fn(&Body) -> bool + Send + 'static) -> Peer {
        let victim = self.kill(holds);
        self.net.run_unchecked(self.net.now_ms() + 120_000, |_| false);
        victim
    }

    fn kill_for_a_while(&mut self, holds: impl Fn(&Body) -> bool + Send + 'static) -> Peer {
        let victim = self.kill(holds);
        let now = self.net.now_ms();
        self.net.at_ms(now + 4_000, Fault::HealAll);
        self.net.run(now + 120_000);
        victim
    }

    fn endings(&self) -> Vec<String> {
        let ended = |(_, _, event): &(_, Peer, Event)| match event {
            Event::Ended(Ending::Refused(text) | Ending::Own(text)) => Some(text.clone()),
            _ => None,
        };
        self.net.events.iter().filter_map(ended).collect()
    }
}

fn part(body: &Body, what: What) -> bool {
    matches!(body, Body::Part { what: found, .. } if *found == what)
}

#[test]
fn every_owner_gets_what_the_rows_in_one_place_give_bit_for_bit() {
    let cases: [(&[usize], Scaling); 4] = [
        // Two of the three members have rows. The third member only computes.
        (&[25, 25, 0], Scaling::None),
        (&[20, 10, 15], Scaling::Center),
        (&[1, 14, 12, 2, 0], Scaling::None),
        (&[9, 9, 9, 9, 9, 0, 0], Scaling::Standard),
    ];
    for (seed, (rows, scaling)) in (0..).zip(cases) {
        let mut lab = lab(rows, scaling, seed, spec());
        lab.net.run(120_000);
        let owners = rows.iter().filter(|rows| **rows > 0).count();
        assert_eq!(lab.holds().len(), owners, "{rows:?}: {:?}", lab.net.events);
        assert_eq!(histories(&lab.net).len(), rows.len());
    }
}

#[test]
fn the_parties_that_the_file_names_compute() {
    let spec = XclpSpec { compute: ["peer-4", "peer-1", "peer-2"].map(String::from).into(), ..spec() };
    let mut lab = lab(&[10, 10, 10, 10, 0], Scaling::None, 1, spec);
    lab.net.run(120_000);
    assert_eq!(lab.holds().len(), 4, "{:?}", lab.net.events);
    let (trio, _) = lab.computed(&histories(&lab.net)[&Peer(0)]);
    assert_eq!(trio, [Peer(4), Peer(1), Peer(2)]);
}

/// Name of a kind of message, and a function that recognises it.
type Place = (&'static str, fn(&Body) -> bool);

/// Kinds of messages. A peer is killed when it sends the first message of such a kind.
const PLACES: [Place; 6] = [
    ("commitment", |body| matches!(body, Body::Commitment(_))),
    ("input", |body| part(body, What::Input)),
    ("check of the input", |body| part(body, What::Round(1))),
    ("neighbours", |body| part(body, What::Round(60))),
    ("propagation", |body| part(body, What::Round(330))),
    ("output", |body| part(body, What::Output)),
];

#[test]
fn a_node_killed_at_any_stage_comes_back_and_the_others_have_their_labels() {
    for (seed, (what, sends)) in (0..).zip(PLACES) {
        let mut lab = lab(&[12, 12, 12, 12, 12, 0], Scaling::None, seed, spec());
        let victim = lab.kill_for_a_while(sends);
        let told = lab.holds();
        let others = (0..5).map(Peer).filter(|peer| *peer != victim);
        assert!(others.clone().all(|peer| told.contains(&peer)), "{what}, {victim}: {:?}", lab.net.events);
        assert_eq!(histories(&lab.net).len(), 6, "{what}, {victim}");
    }
}

#[test]
fn a_computing_party_lost_for_good_is_replaced_and_an_owner_lost_is_left_out() {
    for (seed, (what, sends)) in (10..).zip(PLACES) {
        let mut lab = lab(&[12, 12, 12, 12, 12, 0], Scaling::None, seed, spec());
        let victim = lab.kill_for_good(sends);
        let told = lab.holds();
        let others = (0..5).map(Peer).filter(|peer| *peer != victim);
        assert!(others.clone().all(|peer| told.contains(&peer)), "{what}, {victim}: {:?}", lab.net.events);
        let (trio, members) = lab.computed(&histories(&lab.net)[&told[0]]);
        // After the committee has decided, nothing is computed again. The two remaining computing members
        // send their results.
        let decided = what == "output";
        assert_eq!(trio.contains(&victim), decided, "{what}");
        assert_eq!(members.contains(&victim), decided, "{what}");
    }
}

#[test]
fn whoever_was_lost_while_it_computed_never_computes_again() {
    let mut lab = lab(&[12, 12, 12, 12, 0], Scaling::None, 3, spec());
    let first = lab.kill_for_a_while(|body| part(body, What::Round(40)));
    assert_eq!(lab.holds().len(), 4 - usize::from(!lab.told_later(first)), "{:?}", lab.net.events);
    let (trio, _) = lab.computed(&histories(&lab.net)[&Peer(0)]);
    assert!(!trio.contains(&first), "{first} in {trio:?}");
}

#[test]
fn an_owner_that_accuses_a_computing_party_does_not_choose_who_computes() {
    let spec =
        XclpSpec { compute: ["peer-4", "peer-0", "peer-1", "peer-2"].map(String::from).into(), ..spec() };
    let mut lab = lab(&[12, 12, 12, 12, 0], Scaling::None, 3, spec);
    // Peer 3 is not a candidate. When it should send its input, it claims that peer 0 stalls.
    let (context, mut told) = (lab.net.context(Peer(3)), BTreeSet::new());
    lab.net.liars.insert(Peer(3));
    lab.net.rewrite = Some(Box::new(move |from, to, message| {
        let Message::Exchange { sum, content } = message else { return None };
        let (body, _) = talk::read(content.clone()).ok()?;
        if from != Peer(3) || sum.ballot.counter > 1 || !part(&body, What::Input) || !told.insert(to) {
            return None;
        }
        let (ballot, slot) = (sum.ballot, sum.slot);
        let failure = Failure { ballot, slot, reason: Reason::Stalled, suspect: Some(Peer(0)) };
        Some(Message::Failed(Signed::new(&context, failure)))
    }));
    lab.net.run_unchecked(120_000, |_| false);
    let failed =
        |event: &Event| matches!(event, Event::ViewFailed(_, Peer(3), Reason::Stalled, Some(Peer(0))));
    assert!(
        lab.net.events.iter().any(|(.., event)| failed(event)),
        "the others believe that the view has failed"
    );
    let (trio, _) = lab.computed(&histories(&lab.net)[&Peer(0)]);
    assert_eq!(trio, [4, 0, 1].map(Peer));
}

impl Lab {
    /// Returns whether the rows of a peer were used, or the peer has no rows.
    fn told_later(&self, peer: Peer) -> bool {
        let history = histories(&self.net).into_values().next().unwrap();
        self.tasks[peer.index()].labels().is_empty() || self.computed(&history).1.contains(&peer)
    }
}

#[test]
fn three_that_lose_one_of_them_while_they_compute_go_on_when_it_comes_back() {
    let mut lab = lab(&[20, 20, 0], Scaling::None, 4, spec());
    let victim = lab.kill_for_a_while(|body| part(body, What::Round(100)));
    assert_eq!(histories(&lab.net).len(), 3, "{victim}: {:?}", lab.net.events);
    assert_eq!(lab.holds(), [0, 1].map(Peer), "{victim}");
}

#[test]
fn sessions_that_would_say_too_much_of_single_rows_are_refused_unless_the_file_allows_them() {
    let cases: [(&[usize], &str); 3] = [
        (&[12, 12, 0], "24 rows together, at least 25 are needed"),
        (&[30, 10, 5], "peer-0 has 30 of 45 rows, at most half are allowed"),
        (&[30, 0, 0], "only 1 members have rows; 2 are needed"),
    ];
    for (rows, expected) in cases {
        let mut refused = lab(rows, Scaling::None, 5, spec());
        refused.net.run_unchecked(60_000, |_| false);
        let endings = refused.endings();
        assert!(endings.len() == 3 && endings.iter().all(|text| text.starts_with(expected)), "{endings:?}");
    }
    let spec = XclpSpec { few_rows: true, large_owner: true, ..spec() };
    for rows in [[12, 12, 0], [30, 10, 5], [1, 2, 0]] {
        let mut allowed = lab(&rows, Scaling::None, 5, spec.clone());
        allowed.net.run(120_000);
        assert_eq!(allowed.holds().len(), rows.iter().filter(|rows| **rows > 0).count(), "{rows:?}");
    }
}

#[test]
fn fewer_owners_than_min_contributors_end_the_session() {
    let endings = |min_contributors, rows: &[usize]| {
        let mut lab = lab_of(min_contributors, rows, Scaling::None, 5, spec());
        lab.net.run_unchecked(120_000, |_| false);
        lab.endings()
    };
    let refusal = "only 2 members have rows; 3 are needed (privacy.min_contributors, at least 2)";
    assert_eq!(endings(3, &[20, 20, 0]), [refusal; 3]);
    assert!(endings(3, &[20, 20, 20]).is_empty() && endings(2, &[20, 20, 0]).is_empty());
}

#[test]
fn an_owner_with_more_rows_than_the_file_allows_does_not_begin_and_ends_the_session_if_it_lies() {
    let limited = XclpSpec { most_rows: 14, ..spec() };
    let data = Arc::new(digits().subset(&(0..15).collect::<Vec<_>>()));
    let task = |spec: &XclpSpec| {
        let session = lab(&[10, 10, 10], Scaling::None, 7, spec.clone()).session;
        Xclp::new(session, spec.clone(), Peer(0), data.clone(), vec![None; 15], &[0; 32])
    };
    let text = task(&limited).unwrap_err();
    assert_eq!(text, "15 rows, the session allows an owner at most 14 (xclp.most_rows)");
    assert!(task(&spec()).is_ok());
    // One peer's program does not check the limit.
    let mut lab = lab(&[15, 15, 12], Scaling::None, 7, spec());
    let looks = |peer: u16| {
        let part = digits().subset(&(0..12).collect::<Vec<_>>());
        Xclp::new(lab.session.clone(), limited.clone(), Peer(peer), Arc::new(part), vec![None; 12], &[0; 32])
    };
    let tasks: Vec<Arc<dyn Task>> =
        vec![lab.tasks[0].clone(), lab.tasks[1].clone(), Arc::new(looks(2).expect("12 rows"))];
    let mut identities: Vec<_> = (0..3).map(|i| Identity::from_seed([i + 1; 32])).collect();
    identities.sort_by_key(Identity::public);
    lab.net = Network::with_tasks(identities, lab.session.settings(), tasks, 7);
    lab.net.run_unchecked(60_000, |_| false);
    let endings = lab.endings();
    let told = "peer-1 has 15 rows, at most 14 are allowed (xclp.most_rows)";
    assert!(endings.iter().any(|text| text.starts_with(told)), "{endings:?} {:?}", lab.net.events);
}

#[test]
fn labels_that_an_owner_keeps_back_are_given_to_nobody_and_its_figures_stay_with_it() {
    let mut lab = lab(&[40, 40, 40], Scaling::None, 5, spec());
    let known: Vec<_> = digits().labels()[..40].iter().map(|&label| Some(label)).collect();
    let keeps_back = Arc::new((*lab.tasks[0]).clone().knowing(known.clone()));
    let mut tasks: Vec<Arc<dyn Task>> = lab.tasks.iter().map(|task| task.clone() as Arc<dyn Task>).collect();
    tasks[0] = keeps_back.clone();
    let mut identities: Vec<_> = (0..3).map(|i| Identity::from_seed([i + 1; 32])).collect();
    identities.sort_by_key(Identity::public);
    lab.net = Network::with_tasks(identities, lab.session.settings(), tasks, 5);
    lab.net.run(60_000);
    // All owners, including that one, get the result that follows from the given labels.
    assert_eq!(lab.holds().len(), 3);
    let histories = histories(&lab.net);
    let outcome = keeps_back.outcome(&histories[&Peer(0)], 0).unwrap();
    let own = outcome.own.unwrap();
    assert_eq!(own["swarm"]["rows"], 30);
    assert!(
        outcome.details.is_empty() && outcome.summary.contains("on 30 labels kept back"),
        "{}",
        outcome.summary
    );
    // 30 labels of ten classes are too few to judge the quality, so there is a warning.
    assert!(outcome.warnings.len() == 1 && outcome.warnings[0].starts_with("Too few events"));
    // The peer's file has its own labels, and none of them is marked as inferred.
    let text = String::from_utf8(outcome.file).unwrap();
    for (line, label) in text.lines().skip(1).zip(&known) {
        let fields: Vec<_> = line.split(',').collect();
        assert_eq!((fields[0].parse().ok(), fields[3]), (*label, "given"), "{line}");
    }
    let other = lab.tasks[1].outcome(&histories[&Peer(1)], 0).unwrap();
    assert!(other.own.is_none() && !other.summary.contains("kept back"));
}

#[test]
fn a_row_without_a_direction_is_refused_by_its_line() {
    let session = lab(&[10, 10, 10], Scaling::None, 8, spec()).session;
    let row = |at: usize| [f32::from(u8::from(at != 2)); 64];
    let data = Dataset::new(64, (0..5).flat_map(row).collect(), Vec::new(), Vec::new()).unwrap();
    let task = Xclp::new(session, spec(), Peer(0), Arc::new(data), vec![None; 5], &[0; 32]);
    assert_eq!(task.unwrap_err(), "row 3 is zero in every feature: it has no direction");
}

#[test]
fn more_rows_than_there_is_memory_for_and_machines_with_too_little_of_it_are_refused_with_the_numbers() {
    use crate::tasks::xclp::memory::{enough_for, party_bytes, refusal};
    let spec = XclpSpec {
        memory_mb: 150,
        compute: ["peer-0", "peer-1", "peer-2"].map(String::from).into(),
        ..spec()
    };
    let most = enough_for(150, 10, &spec);
    let mut refused = lab(&[300, 300, 0, 0], Scaling::None, 6, spec.clone());
    refused.net.run_unchecked(60_000, |_| false);
    let needed = party_bytes(600, 10, &spec).div_ceil(1_000_000);
    let expected = format!(
        "600 rows together: a computing party would take {needed} MB, and xclp.memory_mb = 150 is enough for \
         {most} rows"
    );
    assert!((300..600).contains(&most) && (170..240).contains(&needed), "{most} rows, {needed} MB");
    let endings = refused.endings();
    assert!(endings.len() == 4 && endings.iter().all(|text| *text == expected), "{endings:?}");
    // A peer that may have to compute needs memory for it on its machine.
    let of = |me: Option<u16>, available| refusal(&refused.session, me.map(Peer), available);
    let told = of(Some(1), Some(100_000_000)).unwrap();
    let expected = format!(
        "a computing party may take 150 MB of memory, for {most} rows together (xclp.memory_mb = 150), and this \
         machine has 100 MB left"
    );
    assert!(told.starts_with(&expected), "{told}");
    assert_eq!(of(None, Some(100_000_000)), Some(told));
    assert_eq!(of(Some(3), Some(100_000_000)), None, "another was named");
    assert_eq!((of(Some(1), Some(150_000_000)), of(Some(1), None)), (None, None));
}
