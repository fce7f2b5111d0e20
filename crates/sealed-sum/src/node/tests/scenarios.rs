//! Schedules that broke earlier drafts. Each also runs under the naive rule, which opens a slot twice.

use std::collections::BTreeSet;

use super::network::{Fault, Hold, Network};
use super::numbers::timing;
use crate::node::Event;
use crate::protocol::context::OpeningRule::{self, Decided, Naive};
use crate::protocol::message::Message;
use crate::protocol::view::{self, Order, Report, Stage};
use crate::session::Peer;

const ALL: [Peer; 5] = [Peer(0), Peer(1), Peer(2), Peer(3), Peer(4)];

fn opens(message: &Message) -> bool {
    matches!(message, Message::View(view::Message::Down(_, Order::Open(1, _))))
}

fn opened(net: &Network, peer: Peer) -> bool {
    net.events
        .iter()
        .any(|(_, who, event)| *who == peer && matches!(event, Event::Opened(value) if value.sum.slot == 1))
}

/// Returns the leader of the first view.
fn leader(net: &Network) -> Peer {
    net.committee()[0]
}

/// Runs until `peer` has opened slot 1; `hold` keeps every other peer from opening it.
fn until_opened_at(net: &mut Network, peer: Peer, hold: Hold) {
    net.hold = Some(hold);
    net.run_unchecked(10_000, |net| opened(net, peer));
    net.hold = None;
    assert!(opened(net, peer), "the schedule must reach the opening");
    assert_eq!(ALL.iter().filter(|&&other| opened(net, other)).count(), 1);
}

fn two_openings(net: &Network) -> bool {
    net.openable().get(&1).is_some_and(|sums| sums.len() > 1)
}

/// The leader has the shares of all members and opens. Then the leader and one more peer are cut off
/// before any other peer has the shares.
fn cut_off_while_shares_travel(rule: OpeningRule, seed: u64) -> Network {
    let mut net = Network::with_rule(5, &[3], timing(), seed, rule);
    let c = leader(&net);
    let e =
        ALL.into_iter().find(|&peer| peer != c && seed % 4 == u64::from((peer.0 + 5 - c.0) % 5 - 1)).unwrap();
    until_opened_at(&mut net, c, Box::new(|_, _, message| opens(message)));
    for a in [c, e] {
        for b in ALL.into_iter().filter(|b| ![c, e].contains(b)) {
            net.at_ms(net.now_ms(), Fault::Cut(a, b));
        }
    }
    net.run_unchecked(net.now_ms() + 15_000, |_| false);
    net
}

#[test]
fn c_and_e_cut_off_while_shares_travel_and_c_has_everyones() {
    for seed in 0..8 {
        let mut net = cut_off_while_shares_travel(Decided, seed);
        let finished: BTreeSet<_> = net.finished().into_keys().collect();
        assert!(
            finished.len() >= 4,
            "seed {seed}: the majority continues without them: {finished:?} {:?}",
            net.endings()
        );
        net.at_ms(net.now_ms(), Fault::HealAll);
        net.run(net.now_ms() + 60_000);
        assert_eq!(net.finished().len(), 5, "seed {seed}: {:?}", net.endings());
        let first = net.finished()[&Peer(0)].clone();
        assert!(net.finished().values().all(|values| *values == first));
    }
}

#[test]
fn the_naive_rule_opens_twice_when_c_and_e_are_cut_off() {
    for seed in 0..8 {
        assert!(two_openings(&cut_off_while_shares_travel(Naive, seed)), "seed {seed}");
    }
}

/// Peer A has the shares of all members, opens, and is killed before its own share has left.
fn opener_killed(rule: OpeningRule, seed: u64) -> Network {
    let mut net = Network::with_rule(5, &[3], timing(), seed, rule);
    let a = leader(&net);
    until_opened_at(&mut net, a, Box::new(|_, _, message| opens(message)));
    net.at_ms(net.now_ms(), Fault::Crash(a));
    net.run_unchecked(net.now_ms() + 15_000, |_| false);
    net
}

#[test]
fn a_opens_and_is_killed_before_its_own_share_leaves() {
    for seed in 0..8 {
        let mut net = opener_killed(Decided, seed);
        let a = leader(&net);
        assert_eq!(
            net.finished().len(),
            5,
            "B to E finish the slot, and A has opened it: {:?}",
            net.endings()
        );
        net.at_ms(net.now_ms(), Fault::Restart(a));
        net.run(net.now_ms() + 60_000);
        let first = net.finished()[&a].clone();
        assert!(net.finished().values().all(|values| *values == first), "seed {seed}");
    }
}

#[test]
fn the_naive_rule_opens_twice_when_the_opener_is_killed() {
    for seed in 0..8 {
        assert!(two_openings(&opener_killed(Naive, seed)), "seed {seed}");
    }
}

/// In a committee of three, x (the leader) and y acknowledge while z is away. The acknowledgement of y is
/// stopped, and y dies. One peer that has acknowledged is left, and z returns.
fn one_acknowledges_one_dies(rule: OpeningRule, seed: u64) -> Network {
    let mut net = Network::with_rule(3, &[3], timing(), seed, rule);
    let committee = net.committee();
    let (x, y, z) = (committee[0], committee[1], committee[2]);
    let stopped: Hold = Box::new(move |from, _, message| {
        from != x && matches!(message, Message::View(view::Message::Up(_, Report::Acknowledge(1, _))))
    });
    net.hold = Some(stopped);
    net.kill_at = Some((y, 1, Stage::Accept));
    net.run_unchecked(10_000, |net| net.kill_at.is_none());
    assert!(net.kill_at.is_none(), "the schedule must reach the acknowledgement");
    for b in [x, y] {
        net.at_ms(net.now_ms(), Fault::Cut(b, z));
    }
    net.run_unchecked(net.now_ms() + 8_000, |_| false);
    assert!(!ALL.iter().any(|&peer| opened(&net, peer)), "one of three decides nothing");
    net
}

#[test]
fn in_a_committee_of_three_one_acknowledges_one_dies_the_third_returns() {
    for seed in 0..20 {
        let mut net = one_acknowledges_one_dies(Decided, seed);
        let z = net.committee()[2];
        let x = net.committee()[0];
        let before: Vec<_> = net.acknowledged(1);
        assert!(!before.is_empty(), "seed {seed}: some peer must have acknowledged");
        net.hold = None;
        net.at_ms(net.now_ms(), Fault::Heal(x, z));
        net.run(net.now_ms() + 15_000);
        assert_eq!(net.finished().len(), 0, "the session needs three peers for a new view");
        net.at_ms(net.now_ms(), Fault::HealAll);
        net.run(net.now_ms() + 60_000);
        let finished = net.finished();
        assert_eq!(finished.len(), 3, "seed {seed}: {:?}", net.endings());
        assert!(
            finished.values().all(|values| values[1].sum == before[0]),
            "the acknowledged value is finished"
        );
    }
}
