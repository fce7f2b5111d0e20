//! Whole exchanges on a queue: every message in any order between pairs, every job at once.

mod audit;
mod blame;
mod later;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::exchange::Output;
use super::roles::Roles;
use super::*;
use crate::crypto::stream::{Stream, derive};
use crate::data::Dataset;
use crate::data::digits::digits;
use crate::model::propagation::{Prediction, centralised, edges, label_counts};
use crate::protocol::view::Reason;
use crate::protocol::{Action, Fault, Input, Machine, Time};
use crate::session::Hamming;
use crate::sketch::lsh::Codes;

const BITS: usize = 512;
/// Every way to get shares of distances.
pub(super) const BACKENDS: [Hamming; 3] = [Hamming::Dealer, Hamming::Ot, Hamming::Phe];
const RULE: Propagation = Propagation { k: 5, alpha: 0.99, power: 1, balance: false, tolerance: 1e-6 };

pub(super) struct Net {
    /// The stage that goes on, and who is in it.
    sum: SumId,
    pub(super) peers: BTreeMap<Peer, Exchange>,
    /// A peer's part in a stage.
    part: Box<dyn Fn(SumId, Peer, Roles, Stage) -> Exchange>,
    coin: [u8; 32],
    queue: VecDeque<(Peer, Peer, Body)>,
    order: Stream,
    /// Of the stage that goes on, or was the last.
    pub(super) outcomes: BTreeMap<Peer, Outcome>,
    /// Of the first stage.
    made: BTreeMap<Peer, Outcome>,
    pub(super) failed: Vec<(Peer, Reason, Option<Peer>)>,
    pub(super) blamed: Vec<(Peer, Peer, Fault)>,
    /// Everything that anybody was sent: receiver, sender, message.
    pub(super) seen: Vec<(Peer, Peer, Body)>,
    pub(super) rows: BTreeMap<Peer, Rows>,
    /// Of the first stage.
    pub(super) roles: Roles,
    members: u16,
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
            let labels = some
                .labels()
                .iter()
                .enumerate()
                .map(|(i, &label)| (i % every == 0).then_some(label))
                .collect();
            (Peer(peer), Rows { data: Arc::new(some), labels: Arc::new(labels) })
        })
        .collect()
}

impl Net {
    /// Members 0, 1, ... with so many rows each, 0 for a witness.
    pub(super) fn new(sizes: &[usize], rule: Propagation, seed: u8, hamming: Hamming) -> Self {
        Self::with(held(sizes, 7), sizes.len() as u16, rule, (BITS, hamming), [seed; 2])
    }

    /// Members 0, 1, ... below `members`, of whom some have rows; the seeds of the coin and of everything
    /// that is drawn in secret.
    pub(super) fn with(
        rows: BTreeMap<Peer, Rows>,
        members: u16,
        rule: Propagation,
        (bits, hamming): (usize, Hamming),
        [coin, seed]: [u8; 2],
    ) -> Self {
        let counts = rows.iter().map(|(&peer, rows)| (peer, rows.data.rows() as u32)).collect();
        let count = members;
        let members: Vec<_> = (0..members).map(Peer).collect();
        let roles = Roles::draw(&[coin; 32], &members, &members, &counts).unwrap();
        let key = move |a: Peer, b: Peer| {
            Arc::new(*derive(b"pairs", "test", &[a.min(b).0 as u8, a.max(b).0 as u8, seed]))
        };
        let held = rows.clone();
        let part = move |sum: SumId, me: Peer, roles: Roles, stage: Stage| {
            let setup = Setup {
                session: [1; 32],
                sum,
                stage,
                me,
                roles,
                rule,
                bits,
                hamming,
                classes: 10,
                coin: [coin; 32],
                keys: members
                    .iter()
                    .filter(|&&other| other != me)
                    .map(|&other| (other, key(me, other)))
                    .collect(),
                rows: held.get(&me).cloned(),
                patience_ms: 10_000,
                longest_ms: 600_000,
            };
            Exchange::new(
                setup,
                *derive(b"secrets", "test", &[me.0 as u8, seed, sum.slot as u8, sum.ballot.counter as u8]),
            )
        };
        let sum = SumId { ballot: Ballot { counter: 1, proposer: Peer(0) }, slot: 2 };
        let all = roles.ring.iter().chain(&roles.propagators);
        let peers = all.map(|&me| (me, part(sum, me, roles.clone(), Stage::Graph)));
        Self {
            peers: peers.collect(),
            sum,
            part: Box::new(part),
            coin: [coin; 32],
            made: BTreeMap::new(),
            queue: VecDeque::new(),
            order: Stream::new(&[seed; 32], "test", b"order"),
            outcomes: BTreeMap::new(),
            failed: Vec::new(),
            blamed: Vec::new(),
            seen: Vec::new(),
            rows,
            roles,
            members: count,
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
                Action::SetTimer { .. } | Action::WriteEarly(_) => {}
                Action::Persist(never) => match never {},
            }
        }
    }

    fn say(&mut self, from: Peer, to: Peer, body: Body) {
        let message = Message { sum: self.sum, body };
        self.input(to, Time::default(), Input::Message { from, message });
    }

    /// Both stages, or the first alone if that fails.
    pub(super) fn run(&mut self, alter: &mut dyn FnMut(Peer, Peer, Body) -> Option<Body>) {
        self.stage(alter);
        if self.outcomes.len() == self.peers.len() {
            self.second(self.sum.ballot, &self.peers.keys().copied().collect::<Vec<_>>());
            self.stage(alter);
        }
    }

    /// Prepares the second stage, in a view of these.
    fn second(&mut self, ballot: Ballot, members: &[Peer]) {
        if self.made.is_empty() {
            self.made = std::mem::take(&mut self.outcomes);
        }
        let counts = self.rows.iter().map(|(&peer, rows)| (peer, rows.data.rows() as u32)).collect();
        let counted: Vec<_> = self.made.keys().copied().chain(self.spares()).collect();
        let roles = self.roles.later(&self.coin, &counted, members, &counts).unwrap();
        self.sum = SumId { ballot, slot: 3 };
        let graph = Ballot { counter: 1, proposer: Peer(0) };
        let all = roles.ring.iter().chain(&roles.propagators).map(|&me| {
            let digest = self.made[&self.roles.propagators[0]].digest;
            let before = self.made.get(&me).cloned().unwrap_or_default();
            let known = Known { ballot: graph, digest, knowers: self.roles.propagators, before };
            (me, (self.part)(self.sum, me, roles.clone(), Stage::Labels(known)))
        });
        self.peers = all.collect();
        self.outcomes = BTreeMap::new();
        self.queue.clear();
    }

    fn members(&self) -> impl Iterator<Item = Peer> + use<> {
        (0..self.members).map(Peer)
    }

    /// Witnesses who had no role in the first stage.
    fn spares(&self) -> impl Iterator<Item = Peer> {
        self.members().filter(|peer| !self.made.contains_key(peer))
    }

    /// Delivers messages, in order between two peers, until there are none; `alter` may change or swallow
    /// them.
    pub(super) fn stage(&mut self, alter: &mut dyn FnMut(Peer, Peer, Body) -> Option<Body>) {
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

    fn said(&self, rule: &Propagation) -> Vec<Prediction> {
        self.rows
            .keys()
            .flat_map(|peer| rule.say(&self.outcomes[peer].scores, &self.outcomes[peer].counts))
            .collect()
    }
}

pub(super) fn pass(_: Peer, _: Peer, message: Body) -> Option<Body> {
    Some(message)
}

#[test]
fn every_owner_gets_the_labels_of_the_pooled_points() {
    let sizes = [
        (1, vec![30, 50, 20, 40, 60, 0, 0]),
        (2, vec![0, 25, 0, 70, 0, 31]),
        (3, vec![0, 40, 1, 0, 40, 40, 0, 12]),
    ];
    for ((seed, sizes), hamming) in sizes.iter().flat_map(|sizes| BACKENDS.map(|hamming| (sizes, hamming))) {
        for rule in [RULE, Propagation { power: 3, balance: true, k: 10, ..RULE }] {
            let mut net = Net::new(sizes, rule, *seed, hamming);
            net.run(&mut pass);
            assert!(net.failed.is_empty() && net.blamed.is_empty(), "{:?} {:?}", net.failed, net.blamed);
            assert_eq!(net.outcomes.len(), net.peers.len(), "all have done their part");
            assert!(net.peers.len() >= sizes.len() - 1, "one witness at most has no role");
            let (labels, codes) = net.pooled();
            let counts = label_counts(&labels, 10);
            let exact = centralised(&codes, &labels, 10, &rule);
            let found: Vec<f64> =
                net.rows.keys().flat_map(|peer| net.outcomes[peer].scores.clone()).collect();
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
fn the_peer_that_says_nothing_is_named_by_who_waits_for_it_first() {
    for (silent, hamming) in (0..6).map(Peer).flat_map(|peer| BACKENDS.map(|hamming| (peer, hamming))) {
        for second in [false, true] {
            if second && hamming != Hamming::Dealer {
                continue;
            }
            let mut net = Net::new(&[20, 20, 20, 20, 0, 0], RULE, 4, hamming);
            if second {
                net.stage(&mut pass);
                net.second(net.sum.ballot, &(0..6).map(Peer).collect::<Vec<_>>());
            }
            net.stage(&mut |from, _, message| (from != silent).then_some(message));
            let first = (0..40u64).find_map(|second| {
                let now = Time(second * 1_000_000);
                (0..6).map(Peer).filter(|&peer| peer != silent).for_each(|peer| {
                    net.input(peer, now, Input::Timer(Timer(net.sum)));
                });
                net.failed.first().copied()
            });
            assert_eq!(
                first.map(|(_, reason, who)| (reason, who)),
                Some((Reason::Stalled, Some(silent))),
                "{silent} is silent, second stage: {second}"
            );
        }
    }
}

/// Nobody sends a propagator anything while owners compare their rows, however long that takes.
#[test]
fn who_waits_for_others_that_work_does_not_give_up() {
    let mut net = Net::new(&[20, 20, 20, 20, 0, 0], RULE, 4, Hamming::Ot);
    let sum = net.sum;
    let tick = || Input::Timer(Timer(sum));
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
        assert_eq!(
            told,
            if moved { 5 } else { 0 },
            "to all others, once for each second in which something moved"
        );
    }
    net.queue.clear();
    for now in (1..60).map(second) {
        let message = Message { sum, body: Body::Working };
        net.input(waits, now, Input::Message { from: works, message });
        net.input(waits, now, tick());
    }
    assert!(net.failed.is_empty() && net.queue.is_empty(), "what it was told is no progress of its own");
    (60..120).map(second).for_each(|now| net.input(waits, now, tick()));
    assert_eq!(net.failed.len(), 1, "in silence it gives up");
    let mut net = Net::new(&[20, 20, 20, 20, 0, 0], RULE, 4, Hamming::Ot);
    net.input(waits, Time::default(), Input::Start);
    for now in (1..=600).map(second) {
        assert!(net.failed.is_empty(), "at {now:?}");
        let message = Message { sum, body: Body::Working };
        net.input(waits, now, Input::Message { from: works, message });
        net.input(waits, now, tick());
    }
    assert_eq!(net.failed.len(), 1, "nobody is held for longer than a computation may take");
}

#[test]
fn a_lost_peer_ends_the_exchange() {
    let mut net = Net::new(&[20, 20, 20, 20, 0, 0], RULE, 4, Hamming::Dealer);
    net.input(Peer(0), Time::default(), Input::Start);
    net.input(Peer(0), Time::default(), Input::PeerLost(Peer(5)));
    assert_eq!(net.failed, [(Peer(0), Reason::Lost, Some(Peer(5)))]);
}
