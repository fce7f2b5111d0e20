//! Whole exchanges on a queue: every message in any order between pairs, every job at once.

mod audit;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::exchange::Output;
use super::roles::Roles;
use super::*;
use crate::crypto::stream::{Stream, derive};
use crate::data::Dataset;
use crate::data::digits::digits;
use crate::model::propagation::{Said, centralised, edges, label_counts};
use crate::protocol::view::Reason;
use crate::protocol::{Action, Fault, Input, Machine, Time};
use crate::session::Hamming;
use crate::sketch::lsh::Codes;

const BITS: usize = 512;
/// Every way to get shares of distances.
pub(super) const BACKENDS: [Hamming; 3] = [Hamming::Dealer, Hamming::Ot, Hamming::Phe];
const RULE: Propagation = Propagation { k: 5, alpha: 0.99, power: 1, balance: false, tolerance: 1e-6 };

pub(super) struct Net {
    pub(super) peers: BTreeMap<Peer, Exchange>,
    queue: VecDeque<(Peer, Peer, Body)>,
    order: Stream,
    pub(super) outcomes: BTreeMap<Peer, Outcome>,
    pub(super) failed: Vec<(Peer, Reason, Option<Peer>)>,
    pub(super) blamed: Vec<(Peer, Peer, Fault)>,
    /// Everything that anybody was sent: receiver, sender, message.
    pub(super) seen: Vec<(Peer, Peer, Body)>,
    pub(super) rows: BTreeMap<Peer, Rows>,
    pub(super) roles: Roles,
}

/// Rows of digits for each owner, of which those whose number is a multiple of `every` have a label.
pub(super) fn held(sizes: &[usize], every: usize) -> BTreeMap<Peer, Rows> {
    let data = digits();
    let mut first = 0;
    (0u16..)
        .zip(sizes)
        .filter(|(_, n)| **n > 0)
        .map(|(peer, &n)| {
            let some = data.subset(&(first..first + n).collect::<Vec<_>>());
            first += n;
            let labels =
                some.labels().iter().enumerate().map(|(i, &label)| (i % every == 0).then_some(label)).collect();
            (Peer(peer), Rows { data: Arc::new(some), labels: Arc::new(labels) })
        })
        .collect()
}

impl Net {
    /// Members 0, 1, ... with so many rows each, 0 for a witness.
    pub(super) fn new(sizes: &[usize], rule: Propagation, seed: u8, hamming: Hamming) -> Self {
        Self::with(held(sizes, 7), sizes.len() as u16, rule, (BITS, hamming), [seed; 2])
    }

    /// Members 0, 1, ... below `members`, of whom some have rows; the seeds of the coin and of everything that is drawn in secret.
    pub(super) fn with(
        rows: BTreeMap<Peer, Rows>,
        members: u16,
        rule: Propagation,
        (bits, hamming): (usize, Hamming),
        [coin, seed]: [u8; 2],
    ) -> Self {
        let counts = rows.iter().map(|(&peer, rows)| (peer, rows.data.rows() as u32)).collect();
        let members: Vec<_> = (0..members).map(Peer).collect();
        let roles = Roles::draw(&[coin; 32], &members, &counts).unwrap();
        let key = |a: Peer, b: Peer| Arc::new(*derive(b"pairs", "test", &[a.min(b).0 as u8, a.max(b).0 as u8, seed]));
        let peers = members.iter().map(|&me| {
            let setup = Setup {
                session: [1; 32],
                ballot: Ballot { counter: 1, proposer: Peer(0) },
                me,
                roles: roles.clone(),
                rule,
                bits,
                hamming,
                classes: 10,
                coin: [coin; 32],
                keys: members.iter().filter(|&&other| other != me).map(|&other| (other, key(me, other))).collect(),
                rows: rows.get(&me).cloned(),
                patience_ms: 10_000,
            };
            (me, Exchange::new(setup, *derive(b"secrets", "test", &[me.0 as u8, seed])))
        });
        Self {
            peers: peers.collect(),
            queue: VecDeque::new(),
            order: Stream::new(&[seed; 32], "test", b"order"),
            outcomes: BTreeMap::new(),
            failed: Vec::new(),
            blamed: Vec::new(),
            seen: Vec::new(),
            rows,
            roles,
        }
    }

    pub(super) fn input(&mut self, peer: Peer, now: Time, input: Input<Exchange>) {
        let Some(exchange) = self.peers.get_mut(&peer) else { return };
        let step = exchange.handle(now, input);
        for action in step.0 {
            match action {
                Action::Send { to, message } => self.queue.push_back((peer, to, message.body)),
                Action::Compute(job) => self.input(peer, now, Input::Done(job.run())),
                Action::Output(Output::Finished(outcome)) => drop(self.outcomes.insert(peer, outcome)),
                Action::Output(Output::Failed(reason, suspect)) => self.failed.push((peer, reason, suspect)),
                Action::Blame { peer: who, fault } => self.blamed.push((peer, who, fault)),
                Action::SetTimer { .. } | Action::Ahead(_) => {}
                Action::Persist(never) => match never {},
            }
        }
    }

    fn say(&mut self, from: Peer, to: Peer, body: Body) {
        let message = Message { ballot: Ballot { counter: 1, proposer: Peer(0) }, body };
        self.input(to, Time::default(), Input::Message { from, message });
    }

    /// Delivers messages, in order between two peers, until there are none; `alter` may change or swallow them.
    pub(super) fn run(&mut self, alter: &mut dyn FnMut(Peer, Peer, Body) -> Option<Body>) {
        let all: Vec<_> = self.peers.keys().copied().collect();
        all.iter().for_each(|&peer| self.input(peer, Time::default(), Input::Start));
        while !self.queue.is_empty() {
            let at = self.order.below(self.queue.len() as u32) as usize;
            let pair = (self.queue[at].0, self.queue[at].1);
            // The first of that pair.
            let at = self.queue.iter().position(|(from, to, _)| (*from, *to) == pair).unwrap_or(at);
            let Some((from, to, message)) = self.queue.remove(at) else { continue };
            let Some(message) = alter(from, to, message) else { continue };
            self.seen.push((to, from, message.clone()));
            self.say(from, to, message);
        }
    }

    /// What the same rows give in one place, under the planes that the owners drew.
    fn pooled(&self) -> (Vec<Option<u16>>, Codes) {
        let seed = self.outcomes[self.rows.keys().next().unwrap()].planes;
        let labels = self.rows.values().flat_map(|rows| rows.labels.iter().copied()).collect();
        let values = self.rows.values().flat_map(|rows| rows.data.values().to_vec()).collect();
        let all = Dataset::new(64, values, Vec::new(), Vec::new()).unwrap();
        (labels, Codes::of(&all, &seed, BITS).unwrap())
    }

    fn said(&self, rule: &Propagation) -> Vec<Said> {
        self.rows.keys().flat_map(|peer| rule.say(&self.outcomes[peer].scores, &self.outcomes[peer].counts)).collect()
    }
}

pub(super) fn pass(_: Peer, _: Peer, message: Body) -> Option<Body> {
    Some(message)
}

#[test]
fn every_owner_gets_the_labels_of_the_pooled_points() {
    let sizes =
        [(1, vec![30, 50, 20, 40, 60, 0, 0]), (2, vec![0, 25, 0, 70, 0, 31]), (3, vec![0, 40, 1, 0, 40, 40, 0, 12])];
    for ((seed, sizes), hamming) in sizes.iter().flat_map(|sizes| BACKENDS.map(|hamming| (sizes, hamming))) {
        for rule in [RULE, Propagation { power: 3, balance: true, k: 10, ..RULE }] {
            let mut net = Net::new(sizes, rule, *seed, hamming);
            net.run(&mut pass);
            assert!(net.failed.is_empty() && net.blamed.is_empty(), "{:?} {:?}", net.failed, net.blamed);
            assert_eq!(net.outcomes.len(), sizes.len(), "all have done their part");
            let (labels, codes) = net.pooled();
            let counts = label_counts(&labels, 10);
            let exact = centralised(&codes, &labels, 10, &rule);
            let found: Vec<f64> = net.rows.keys().flat_map(|peer| net.outcomes[peer].scores.clone()).collect();
            let worst = found.iter().zip(&exact).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            assert!(worst <= rule.tolerance, "{worst:e}");
            assert!(net.rows.keys().all(|peer| net.outcomes[peer].counts == counts));
            let said = net.said(&rule);
            let expected = rule.say(&exact, &counts);
            assert!(said.iter().zip(&expected).all(|(a, b)| a.label == b.label));
            assert!(said.iter().any(|said| said.label.is_some()));
        }
    }
}

#[test]
fn both_propagators_hold_the_very_edges_of_the_pooled_points() {
    for hamming in BACKENDS {
        let mut net = Net::new(&[30, 50, 20, 40, 60, 0, 0], RULE, 9, hamming);
        net.run(&mut pass);
        let (_, codes) = net.pooled();
        let expected = edges(&codes, RULE.k);
        for peer in net.roles.propagators {
            let graph = net.peers[&peer].graph().unwrap();
            assert_eq!(*graph, crate::model::propagation::graph::Graph::new(200, BITS, 1, &expected));
        }
    }
}

#[test]
fn wrong_shapes_ranges_and_commitments_are_blamed_by_name() {
    type Alter = fn(&Roles, Peer, Body) -> Body;
    let cases: [(&str, Hamming, Alter, &str); 14] = [
        (
            "a part that was not committed to",
            Hamming::Ot,
            |_, from, message| match message {
                Body::Reveal(_) if from == Peer(1) => Body::Reveal([3; 32]),
                other => other,
            },
            "does not match its commitment",
        ),
        (
            "strings of another length",
            Hamming::Ot,
            |_, from, message| match message {
                Body::Part { what: What::Strings(piece), length, data } if from == Peer(1) => {
                    Body::Part { what: What::Strings(piece), length: length - 2, data }
                }
                other => other,
            },
            "expected",
        ),
        (
            "choices that are no points",
            Hamming::Ot,
            |_, from, message| match message {
                Body::Part { what: What::Choices, length, data } if from == Peer(1) => {
                    Body::Part { what: What::Choices, length, data: vec![0xff; data.len()].into() }
                }
                other => other,
            },
            "no points of the group",
        ),
        (
            "a base that is no point",
            Hamming::Ot,
            |_, from, message| match message {
                Body::Part { what: What::Base, length, .. } if from == Peer(1) => {
                    Body::Part { what: What::Base, length, data: vec![0; 32].into() }
                }
                other => other,
            },
            "no points of the group",
        ),
        (
            "columns of a piece that there is not",
            Hamming::Ot,
            |_, from, message| match message {
                Body::Part { what: What::Columns(_), length, data } if from == Peer(1) => {
                    Body::Part { what: What::Columns(20), length, data }
                }
                other => other,
            },
            "parcel",
        ),
        (
            "a key with coefficients out of range",
            Hamming::Phe,
            |_, from, message| match message {
                Body::Part { what: What::Key, length, data } if from == Peer(1) => {
                    Body::Part { what: What::Key, length, data: vec![0xff; data.len()].into() }
                }
                other => other,
            },
            "a key with coefficients out of range",
        ),
        (
            "a ciphertext with coefficients out of range",
            Hamming::Phe,
            |_, from, message| match message {
                Body::Part { what: What::Ciphertext(0), length, data } if from == Peer(1) => {
                    Body::Part { what: What::Ciphertext(0), length, data: vec![0xff; data.len()].into() }
                }
                other => other,
            },
            "a ciphertext with coefficients out of range",
        ),
        (
            "an answer with coefficients out of range",
            Hamming::Phe,
            |_, from, message| match message {
                Body::Part { what: What::Answer(3), length, data } if from == Peer(1) => {
                    Body::Part { what: What::Answer(3), length, data: vec![0xff; data.len()].into() }
                }
                other => other,
            },
            "an answer with coefficients out of range",
        ),
        (
            "an answer of another length",
            Hamming::Phe,
            |_, from, message| match message {
                Body::Part { what: What::Answer(3), length, data } if from == Peer(1) => {
                    Body::Part { what: What::Answer(3), length: length + 1, data }
                }
                other => other,
            },
            "expected",
        ),
        (
            "hidden codes of another length",
            Hamming::Dealer,
            |_, from, message| match message {
                Body::Part { what: What::Hidden, length, data } if from == Peer(1) => {
                    Body::Part { what: What::Hidden, length: length + 2, data }
                }
                other => other,
            },
            "expected",
        ),
        (
            "smallest distances that are not sorted",
            Hamming::Dealer,
            |roles, from, message| match message {
                Body::Part { what: What::Smallest, length, data } if from == roles.custodian(Peer(0), Peer(1)) => {
                    let mut data = data.to_vec();
                    data[..2].copy_from_slice(&300u16.to_le_bytes());
                    Body::Part { what: What::Smallest, length, data: data.into() }
                }
                other => other,
            },
            "smallest distances",
        ),
        (
            "a limit of more than half the bits",
            Hamming::Dealer,
            |_, from, message| match message {
                Body::Part { what: What::Limits, length, data } if from == Peer(1) => {
                    let mut data = data.to_vec();
                    data[..2].copy_from_slice(&300u16.to_le_bytes());
                    Body::Part { what: What::Limits, length, data: data.into() }
                }
                other => other,
            },
            "half the bits",
        ),
        (
            "an edge out of range",
            Hamming::Dealer,
            |_, from, message| match message {
                Body::Part { what: What::Short(owner), length, data } if from == owner && owner == Peer(1) => {
                    let mut data = data.to_vec();
                    data[2..6].copy_from_slice(&5000u32.to_le_bytes());
                    Body::Part { what: What::Short(owner), length, data: data.into() }
                }
                other => other,
            },
            "out of range",
        ),
        (
            "labels that are too large",
            Hamming::Dealer,
            |_, from, message| match message {
                Body::Part { what: What::Labels, length, data } if from == Peer(1) => {
                    let mut data = data.to_vec();
                    data[15] = 0x7f;
                    Body::Part { what: What::Labels, length, data: data.into() }
                }
                other => other,
            },
            "too large",
        ),
    ];
    for (what, hamming, alter, text) in cases {
        let mut net = Net::new(&[20, 20, 20, 20, 0, 0], RULE, 4, hamming);
        let roles = net.roles.clone();
        net.run(&mut |from, _, message| Some(alter(&roles, from, message)));
        assert!(!net.blamed.is_empty(), "{what}");
        for (by, who, fault) in &net.blamed {
            assert!(fault.to_string().contains(text), "{what}: {by} blames {who}: {fault}");
        }
        assert!(net.failed.iter().all(|(_, reason, _)| *reason == Reason::Fault), "{what}: {:?}", net.failed);
    }
}

#[test]
fn shares_that_make_no_distances_and_different_graphs_end_the_view_and_name_nobody() {
    let mut net = Net::new(&[20, 20, 20, 20, 0, 0], RULE, 4, Hamming::Dealer);
    net.run(&mut |from, _, message| {
        Some(match message {
            Body::Part { what, length, data } if what == What::Share(Peer(0), Peer(1)) && from == Peer(0) => {
                let mut data = data.to_vec();
                data[1] ^= 0x40;
                Body::Part { what, length, data: data.into() }
            }
            other => other,
        })
    });
    assert!(
        net.blamed.is_empty() && net.failed.iter().any(|failed| failed.1 == Reason::Disagreement),
        "{:?}",
        net.failed
    );
    // One propagator is told another distance than the other.
    let mut net = Net::new(&[20, 20, 20, 20, 0, 0], RULE, 4, Hamming::Dealer);
    let one = net.roles.propagators[0];
    net.run(&mut |_, to, message| {
        Some(match message {
            Body::Part { what: What::Short(owner), length, data } if to == one => {
                let mut data = data.to_vec();
                data[10] ^= 1;
                Body::Part { what: What::Short(owner), length, data: data.into() }
            }
            other => other,
        })
    });
    assert!(
        net.blamed.is_empty() && net.failed.iter().all(|failed| failed.1 == Reason::Disagreement && failed.2.is_none())
    );
    assert_eq!(net.failed.len(), 2);
}

#[test]
fn nonsense_from_any_role_is_blamed_and_not_believed() {
    let whats = [
        What::Triple(Peer(0)),
        What::Triple(Peer(99)),
        What::Dealt(Peer(0)),
        What::Hidden,
        What::Base,
        What::Choices,
        What::Columns(0),
        What::Columns(u32::MAX),
        What::Strings(0),
        What::Key,
        What::Ciphertext(0),
        What::Ciphertext(u32::MAX),
        What::Answer(0),
        What::Share(Peer(0), Peer(1)),
        What::Smallest,
        What::Limits,
        What::Short(Peer(0)),
        What::Labels,
        What::Scores,
    ];
    let messages = whats.map(|what| Body::Part { what, length: u32::MAX, data: Bytes::new() });
    let messages = messages.into_iter().chain([
        Body::Keys(Vec::new()),
        Body::Mask([0; 32]),
        Body::Graph([0; 32]),
        Body::Credit,
        Body::Working,
        Body::Commit([0; 32]),
        Body::Reveal([0; 32]),
        Body::Part { what: What::Short(Peer(99)), length: 0, data: Bytes::new() },
    ]);
    for (message, hamming) in messages.flat_map(|message| BACKENDS.map(|hamming| (message.clone(), hamming))) {
        for to in (0..6).map(Peer) {
            for from in (0..6).map(Peer).filter(|&from| from != to) {
                let mut net = Net::new(&[8, 8, 8, 8, 0, 0], RULE, 4, hamming);
                net.input(to, Time::default(), Input::Start);
                let under_way = net
                    .queue
                    .iter()
                    .any(|(by, at, message)| (*by, *at) == (to, from) && matches!(message, Body::Part { .. }));
                net.say(from, to, message.clone());
                let fine = match &message {
                    // What its role may say at the start.
                    Body::Commit(_) => net.roles.rows.contains_key(&from) && net.roles.rows.contains_key(&to),
                    Body::Mask(_) => to == net.roles.propagators[1] && net.roles.rows.contains_key(&from),
                    Body::Graph(_) => net.roles.propagators.contains(&to) && net.roles.propagators.contains(&from),
                    Body::Credit => under_way,
                    Body::Working => true,
                    _ => false,
                };
                let blamed: Vec<_> = net.blamed.iter().map(|(by, who, _)| (*by, *who)).collect();
                let expected = if fine { vec![] } else { vec![(to, from)] };
                assert_eq!(blamed, expected, "{message:?} from {from} to {to}");
            }
        }
    }
}

#[test]
fn a_parcel_whose_length_changes_on_the_way_is_blamed() {
    let mut net = Net::new(&[20, 20, 20, 20, 0, 0], RULE, 4, Hamming::Dealer);
    let (to, from) = (net.roles.propagators[0], Peer(0));
    net.input(to, Time::default(), Input::Start);
    let part = |length: u32, data: usize| Body::Part { what: What::Short(from), length, data: vec![0; data].into() };
    // The longest that it may be has one part here; two need a longer one.
    let most = 12 * 20 * 80;
    assert!(most < PART);
    net.say(from, to, part(most as u32, 12));
    assert_eq!(net.blamed.len(), 1, "a first part that is neither whole nor full");
    let mut parcels = super::parcels::Parcels::new(Ballot { counter: 1, proposer: Peer(0) });
    let mut step = crate::protocol::Step::none();
    let mut take = |length: usize, data: usize| {
        let part = (What::Short(from), length as u32, Bytes::from(vec![0; data]));
        parcels.part(from, part, Some(0..=3 * PART), &mut step).map(|whole| whole.map(|data| data.len()))
    };
    assert_eq!(take(2 * PART, PART), Ok(None));
    assert!(take(5, 5).is_err(), "a shorter length than has come already");
    assert!(take(3 * PART, PART).is_err(), "another length");
    assert_eq!(take(2 * PART, PART), Ok(Some(2 * PART)));
    assert!(take(2 * PART, PART).is_err(), "twice");
}

#[test]
fn the_peer_that_says_nothing_is_named_by_who_waits_for_it_first() {
    for (silent, hamming) in (0..6).map(Peer).flat_map(|peer| BACKENDS.map(|hamming| (peer, hamming))) {
        let mut net = Net::new(&[20, 20, 20, 20, 0, 0], RULE, 4, hamming);
        net.run(&mut |from, _, message| (from != silent).then_some(message));
        let first = (0..40u64).find_map(|second| {
            let now = Time(second * 1_000_000);
            (0..6).map(Peer).filter(|&peer| peer != silent).for_each(|peer| {
                net.input(peer, now, Input::Timer(Timer(Ballot { counter: 1, proposer: Peer(0) })));
            });
            net.failed.first().copied()
        });
        assert_eq!(
            first.map(|(_, reason, who)| (reason, who)),
            Some((Reason::Stalled, Some(silent))),
            "{silent} is silent"
        );
    }
}

/// Nobody sends a propagator anything while owners compare their rows, however long that takes.
#[test]
fn who_waits_for_others_that_work_does_not_give_up() {
    let mut net = Net::new(&[20, 20, 20, 20, 0, 0], RULE, 4, Hamming::Ot);
    let tick = || Input::Timer(Timer(Ballot { counter: 1, proposer: Peer(0) }));
    let second = |second: u64| Time(second * 1_000_000);
    let (waits, works) = (net.roles.propagators[0], Peer(0));
    for peer in [waits, works] {
        net.input(peer, Time::default(), Input::Start);
    }
    net.say(Peer(1), works, Body::Commit([7; 32]));
    for (now, moved) in [(second(1), true), (second(2), false)] {
        net.queue.clear();
        net.input(works, now, tick());
        let told = net.queue.iter().filter(|(_, _, body)| *body == Body::Working).count();
        assert_eq!(told, if moved { 5 } else { 0 }, "to all others, once for each second in which something moved");
    }
    net.queue.clear();
    for now in (1..60).map(second) {
        let message = Message { ballot: Ballot { counter: 1, proposer: Peer(0) }, body: Body::Working };
        net.input(waits, now, Input::Message { from: works, message });
        net.input(waits, now, tick());
    }
    assert!(net.failed.is_empty() && net.queue.is_empty(), "what it was told is no progress of its own");
    (60..120).map(second).for_each(|now| net.input(waits, now, tick()));
    assert_eq!(net.failed.len(), 1, "in silence it gives up");
}

#[test]
fn a_lost_peer_ends_the_exchange() {
    let mut net = Net::new(&[20, 20, 20, 20, 0, 0], RULE, 4, Hamming::Dealer);
    net.input(Peer(0), Time::default(), Input::Start);
    net.input(Peer(0), Time::default(), Input::PeerLost(Peer(5)));
    assert_eq!(net.failed, [(Peer(0), Reason::Lost, Some(Peer(5)))]);
}
