//! Whole nodes that propagate labels, with crashes at every stage of the exchange.

use std::sync::Arc;

use super::network::{Fault, Network};
use super::numbers::{session, timing};
use crate::crypto::identity::Identity;
use crate::data::digits::digits;
use crate::node::{Ending, Event};
use crate::protocol::message::Message;
use crate::protocol::xclp::{Body, Outcome, ParcelKind};
use crate::session::{ColumnChecks, DataSpec, Hamming, Peer, Scaling, Session, TaskSpec, XclpSpec};
use crate::task::Task;
use crate::task::xclp::{self, Xclp};

const ROWS: [usize; 7] = [40, 60, 30, 50, 20, 0, 0];

struct Lab {
    net: Network,
    tasks: Vec<Arc<Xclp>>,
    truth: Vec<Vec<u16>>,
}

fn lab(rows: &[usize], scaling: Scaling, hamming: Hamming, seed: u64) -> Lab {
    let mut identities: Vec<_> = (0..rows.len()).map(|i| Identity::from_seed([i as u8 + 1; 32])).collect();
    identities.sort_by_key(Identity::public);
    let data = digits();
    let spec = XclpSpec { bits: 512, hamming, ..XclpSpec::new(64) };
    let task = TaskSpec::Xclp(spec);
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
        },
        ..session(&identities, timing())
    }
    .check()
    .unwrap();
    let (mut first, mut tasks, mut truth) = (0, Vec::new(), Vec::new());
    for (peer, &n) in (0u16..).map(Peer).zip(rows) {
        let part = data.subset(&(first..first + n).collect::<Vec<_>>());
        first += n;
        truth.push(part.labels().to_vec());
        let labels =
            part.labels().iter().enumerate().map(|(i, &label)| (i % 5 == 0).then_some(label)).collect();
        let task =
            Xclp::new(session.clone(), spec, peer, Arc::new(part), labels, &[peer.0 as u8; 32]).unwrap();
        tasks.push(Arc::new(task));
    }
    let nodes = tasks.iter().map(|task| task.clone() as Arc<dyn Task>).collect();
    Lab { net: Network::with_tasks(identities, session, nodes, seed), tasks, truth }
}

impl Lab {
    fn outcome(&self, peer: Peer) -> Option<Outcome> {
        self.net.events.iter().rev().find_map(|(_, who, event)| match event {
            Event::Finished(history) if *who == peer => xclp::result(history),
            _ => None,
        })
    }

    /// The share of all points of `peers` whose label is right.
    fn accuracy(&self, peers: &[Peer]) -> f64 {
        let (mut right, mut all) = (0, 0);
        for &peer in peers {
            let Some(outcome) = self.outcome(peer) else { panic!("{peer} has no outcome") };
            let said = self.tasks[peer.index()].said(&outcome);
            let truth = &self.truth[peer.index()];
            assert_eq!(said.len(), truth.len());
            right += said.iter().zip(truth).filter(|(said, truth)| said.label == Some(**truth)).count();
            all += truth.len();
        }
        f64::from(right as u32) / f64::from(all as u32)
    }

    /// Kills whoever is the first of whom `holds` says that it would send this. A message that is held stops
    /// all after it, so that it seems to have gone silent before.
    fn kill(&mut self, holds: impl Fn(&Body) -> bool + Send + 'static) -> Peer {
        let killed = std::sync::Arc::new(std::sync::Mutex::new(None));
        let seen = killed.clone();
        self.net.hold = Some(Box::new(move |from, _, message| {
            let body = match message {
                Message::Exchange { content, .. } => xclp::body(content.clone()).ok(),
                _ => None,
            };
            let matches = body.is_some_and(|body| holds(&body));
            matches && *seen.lock().unwrap().get_or_insert(from) == from
        }));
        self.net.run_unchecked(60_000, |_| killed.lock().unwrap().is_some());
        let victim = killed.lock().unwrap().expect("it is sent");
        self.net.at_ms(self.net.now_ms(), Fault::Crash(victim));
        victim
    }

    /// The same for good; the others finish.
    fn kill_for_good(&mut self, holds: impl Fn(&Body) -> bool + Send + 'static) -> Peer {
        let victim = self.kill(holds);
        self.net.run_unchecked(self.net.now_ms() + 120_000, |_| false);
        victim
    }

    /// Over whom the last two slots were summed.
    fn members(&self) -> [Vec<Peer>; 2] {
        let values = self.net.events.iter().find_map(|(_, _, event)| match event {
            Event::Finished(history) => Some(history.values().to_vec()),
            _ => None,
        });
        let values = values.unwrap();
        [values[values.len() - 2].members.clone(), values[values.len() - 1].members.clone()]
    }

    /// Holds the labels of the owners that are left against those of all points in one place, where the lost
    /// ones have no labels.
    fn holds_without(&self, lost: &[Peer]) {
        let tasks: Vec<_> = (0u16..)
            .map(Peer)
            .zip(&self.tasks)
            .filter(|(peer, _)| ROWS.get(peer.index()).is_some_and(|&n| n > 0))
            .map(|(peer, task)| if lost.contains(&peer) { task.unlabelled() } else { Xclp::clone(task) })
            .collect();
        let here: Vec<_> = (0..5).map(Peer).filter(|peer| !lost.contains(peer)).collect();
        let planes = self.outcome(here[0]).unwrap().planes;
        let pooled = Xclp::pooled(&tasks.iter().collect::<Vec<_>>(), &planes, None).unwrap().0;
        for peer in here {
            let found = self.tasks[peer.index()].said(&self.outcome(peer).unwrap());
            let same = found.iter().zip(&pooled[peer.index()]).all(|(a, b)| a.label == b.label);
            assert!(same && found.iter().any(|each| each.label.is_some()), "{peer}");
        }
    }

    fn finished(&self) -> Vec<Peer> {
        let has = |peer: &Peer| {
            self.net.events.iter().any(|(_, who, event)| who == peer && matches!(event, Event::Finished(..)))
        };
        self.net.peers().filter(has).collect()
    }
}

#[test]
fn every_node_gets_labels_for_its_own_rows() {
    for (seed, scaling, hamming) in [
        (1, Scaling::None, Hamming::Dealer),
        (2, Scaling::Center, Hamming::Dealer),
        (3, Scaling::None, Hamming::Ot),
        (4, Scaling::None, Hamming::Phe),
    ] {
        let mut lab = lab(&ROWS, scaling, hamming, seed);
        lab.net.run(60_000);
        assert_eq!(lab.finished().len(), 7, "{:?}", lab.net.events);
        let accuracy = lab.accuracy(&[Peer(0), Peer(1), Peer(2), Peer(3), Peer(4)]);
        assert!(accuracy > 0.75, "{accuracy}");
        let owners: Vec<&Xclp> = lab.tasks[..5].iter().map(|task| &**task).collect();
        let planes = lab.outcome(Peer(0)).unwrap().planes;
        for (peer, pooled) in (0u16..).map(Peer).zip(Xclp::pooled(&owners, &planes, None).unwrap().0) {
            let found = lab.tasks[peer.index()].said(&lab.outcome(peer).unwrap());
            let labels = |said: &[crate::model::propagation::Prediction]| {
                said.iter().map(|each| each.label).collect::<Vec<_>>()
            };
            assert_eq!(labels(&found), labels(&pooled), "{peer}");
        }
        assert!(lab.outcome(Peer(6)).unwrap().scores.is_empty(), "a witness gets no scores");
        // The last sum says how many points there are and how many have a label now.
        let opened = lab.net.events.iter().find_map(|(_, _, event)| match event {
            Event::Finished(history) => history.vectors().last().cloned(),
            _ => None,
        });
        assert_eq!(opened.unwrap()[..4], 200u32.to_le_bytes());
    }
}

/// What it is called, in a session with which backend, and whether it is this that is sent.
type Place = (&'static str, Hamming, fn(&Body) -> bool);

/// Where a peer is killed: when this is sent for the first time by it.
const PLACES: [Place; 18] = [
    ("commitment", Hamming::Dealer, |body| matches!(body, Body::Commit(_))),
    ("part of the planes", Hamming::Ot, |body| matches!(body, Body::Reveal(_))),
    ("triple", Hamming::Dealer, |body| matches!(body, Body::Part { what: ParcelKind::Triple(_), .. })),
    ("base", Hamming::Ot, |body| matches!(body, Body::Part { what: ParcelKind::Base, .. })),
    ("choices", Hamming::Ot, |body| matches!(body, Body::Part { what: ParcelKind::Choices, .. })),
    ("columns", Hamming::Ot, |body| matches!(body, Body::Part { what: ParcelKind::Columns(_), .. })),
    ("strings", Hamming::Ot, |body| matches!(body, Body::Part { what: ParcelKind::Strings(9), .. })),
    ("key", Hamming::Phe, |body| matches!(body, Body::Part { what: ParcelKind::Key, .. })),
    ("ciphertext", Hamming::Phe, |body| matches!(body, Body::Part { what: ParcelKind::Ciphertext(1), .. })),
    ("answer", Hamming::Phe, |body| matches!(body, Body::Part { what: ParcelKind::Answer(10), .. })),
    ("hidden codes", Hamming::Dealer, |body| matches!(body, Body::Part { what: ParcelKind::Hidden, .. })),
    ("share", Hamming::Ot, |body| matches!(body, Body::Part { what: ParcelKind::Share(..), .. })),
    ("smallest", Hamming::Dealer, |body| matches!(body, Body::Part { what: ParcelKind::Smallest, .. })),
    ("limits", Hamming::Dealer, |body| matches!(body, Body::Part { what: ParcelKind::Limits, .. })),
    ("graph", Hamming::Ot, |body| matches!(body, Body::Graph(_))),
    ("labels", Hamming::Dealer, |body| matches!(body, Body::Part { what: ParcelKind::Labels, .. })),
    ("mask of labels", Hamming::Dealer, |body| matches!(body, Body::Mask(_))),
    ("scores", Hamming::Dealer, |body| matches!(body, Body::Part { what: ParcelKind::Scores, .. })),
];

#[test]
fn a_node_killed_at_any_stage_of_the_exchange_comes_back_and_all_have_labels() {
    for (seed, (what, hamming, sends)) in (0..).zip(PLACES) {
        let mut lab = lab(&ROWS, Scaling::None, hamming, seed);
        let victim = lab.kill(sends);
        let now = lab.net.now_ms();
        lab.net.at_ms(now + 4_000, Fault::HealAll);
        lab.net.run(now + 120_000);
        assert_eq!(lab.finished().len(), 7, "{what}: killed {victim}: {:?}", lab.net.events);
        let counted = lab.net.events.iter().find_map(|(_, _, event)| match event {
            Event::Finished(history) => history.values().last().cloned(),
            _ => None,
        });
        let members = counted.unwrap().members;
        let owners: Vec<_> = members.into_iter().filter(|peer| ROWS[peer.index()] > 0).collect();
        assert!(owners.len() >= 4, "{what}: {owners:?}");
        let accuracy = lab.accuracy(&owners);
        assert!(accuracy > 0.5, "{what}: {accuracy}");
    }
}

#[test]
fn an_owner_lost_for_good_after_the_graph_counts_as_unlabelled_and_no_distance_is_sent_again() {
    let mut lab = lab(&ROWS, Scaling::None, Hamming::Dealer, 5);
    let victim = lab.kill_for_good(|body| matches!(body, Body::Part { what: ParcelKind::Labels, .. }));
    assert!(ROWS[victim.index()] > 0 && lab.finished().len() == 6, "{victim}: {:?}", lab.net.events);
    let [graph, labelled] = lab.members();
    assert!(graph.contains(&victim) && !labelled.contains(&victim));
    lab.holds_without(&[victim]);
    let begun = lab.net.events.iter().filter(|(_, who, event)| {
        *who == Peer(if victim == Peer(0) { 1 } else { 0 }) && matches!(event, Event::Exchange(_))
    });
    assert_eq!(begun.count(), 1, "the roles of the graph are drawn once");
}

#[test]
fn a_propagator_lost_for_good_after_the_graph_is_replaced_by_a_witness_that_had_no_role() {
    let mut lab = lab(&[40, 60, 30, 50, 20, 0, 0, 0], Scaling::None, Hamming::Dealer, 6);
    let victim = lab.kill_for_good(|body| matches!(body, Body::Part { what: ParcelKind::Scores, .. }));
    assert!(victim.index() >= 5 && lab.finished().len() == 7, "{victim}: {:?}", lab.net.events);
    let [graph, labelled] = lab.members();
    assert!(graph.contains(&victim) && !labelled.contains(&victim));
    lab.holds_without(&[]);
    let drawn: Vec<_> = lab
        .net
        .events
        .iter()
        .filter_map(|(_, who, event)| match event {
            Event::Exchange(roles) if *who == Peer(0) => Some(roles[0].1.clone()),
            _ => None,
        })
        .collect();
    let [first, second] = &drawn[..] else { panic!("{drawn:?}") };
    assert!(first.contains(&victim) && !second.contains(&victim));
    assert_eq!(second.iter().filter(|peer| first.contains(peer)).count(), 1, "one of them knows the graph");
}

#[test]
fn without_two_witnesses_the_session_ends_with_the_reason() {
    let mut lab = lab(&[20, 20, 20, 20, 20, 20, 0], Scaling::None, Hamming::Dealer, 3);
    lab.net.run(200_000);
    let ended: Vec<_> = lab
        .net
        .events
        .iter()
        .filter_map(|(_, _, event)| match event {
            Event::Ended(Ending::Refused(text)) => Some(text.clone()),
            _ => None,
        })
        .collect();
    assert!(ended.len() == 7 && ended.iter().all(|text| text.contains("flyswarm witness")), "{ended:?}");
}
