//! One test for each check of the protocol that could once be deleted without a failing test. Each test
//! fails if its check is deleted.

use std::collections::BTreeSet;

use super::super::network::{Fault, Network, Rewrite};
use super::super::numbers::timing;
use super::messages::{begin, order, promised as promised_plain, promises};
use super::{honest_finish, leader, tree_of, without};
use crate::protocol::ballot::Ballot;
use crate::protocol::committee::{Accepted, Promise};
use crate::protocol::message::Message;
use crate::protocol::pairwise::ViewKey;
use crate::protocol::promise::Promised;
use crate::protocol::record::{Acknowledgement, Record};
use crate::protocol::signed::Signed;
use crate::protocol::sum_id::SumId;
use crate::protocol::transfer;
use crate::protocol::view::{self, Order, Reason, Report, Stage};
use crate::session::Peer;

/// Changes orders of the first leader in its first view, and stops when that view has failed at some
/// peer. The fifth peer has no vote and deals no pad.
fn ordered(seed: u64, change: impl Fn(&Order) -> Option<Order> + 'static) -> (Network, Vec<Peer>) {
    let mut net = Network::altered(5, &[3], timing(), seed, |session| {
        session.voting.members = session.roster[..4].iter().map(|entry| entry.name.clone()).collect();
    });
    let leader = leader(&net);
    net.liars.insert(leader);
    net.rewrite = Some(Box::new(move |from, _, message| {
        let Message::View(view::Message::Down(ballot, order)) = message else { return None };
        let changed = (from == leader).then(|| change(order)).flatten()?;
        Some(Message::View(view::Message::Down(*ballot, changed)))
    }));
    let over = |net: &Network| net.peers().any(|peer| !net.failures(peer).is_empty());
    net.run_unchecked(60_000, over);
    assert!(over(&net), "the order must end the view");
    let honest = without(&net, &[leader]);
    (net, honest)
}

#[test]
fn nobody_releases_shares_before_a_quorum_has_acknowledged() {
    for seed in 0..4 {
        let (net, honest) = ordered(seed, |order| match order {
            Order::Decide(1, acks) => Some(Order::Decide(1, acks[..2].to_vec())),
            _ => None,
        });
        assert!(net.released(1).iter().all(|(author, _)| !honest.contains(author)), "seed {seed}");
    }
}

#[test]
fn nobody_acknowledges_another_total_or_other_members_than_its_own_views() {
    for seed in 0..4 {
        let altered = move |order: &Order| {
            let Order::Accept(record) = order else { return None };
            let mut value = record.value.clone();
            if value.sum.slot != 1 {
                return None;
            }
            if seed % 2 == 0 {
                value.total[0] ^= 1;
            } else {
                // The deals stay valid if all dealers are still members.
                let dealers: BTreeSet<_> = record.deals.iter().map(|deal| deal.author).collect();
                let spare = value.members.iter().rposition(|member| !dealers.contains(member)).unwrap();
                value.members.remove(spare);
            }
            Some(Order::Accept(Record { value, deals: record.deals.clone() }))
        };
        let (net, honest) = ordered(seed, altered);
        assert!(honest.iter().all(|&peer| !net.reached(peer, 1, Stage::Accept)), "seed {seed}");
    }
}

#[test]
fn a_slot_is_summed_once_in_a_view() {
    for seed in 0..4 {
        let mut net = Network::new(5, &[3], timing(), seed);
        net.run_unchecked(10_000, |net| net.current().is_some());
        let ballot = net.current().unwrap();
        let order = tree_of(&net, ballot);
        net.liars.insert(order[0]);
        net.run_unchecked(10_000, |net| net.reached(order[1], 1, Stage::Sum));
        net.say(order[0], order[1], Message::View(view::Message::Down(ballot, Order::Sum(1))));
        assert_eq!(net.failures(order[1]), [Reason::Disagreement], "seed {seed}");
        net.run(120_000);
        honest_finish(&net, &format!("seed {seed}"));
    }
}

#[test]
fn a_view_goes_no_further_when_a_childs_total_differs() {
    for seed in 0..4 {
        let mut net = Network::new(5, &[3], timing(), seed);
        net.run_unchecked(10_000, |net| net.current().is_some());
        let first = net.current().unwrap();
        let liar = tree_of(&net, first)[3];
        net.liars.insert(liar);
        net.rewrite = Some(Box::new(move |from, _, message| {
            let Message::View(view::Message::Up(ballot, Report::TotalReady { slot: 1, total, deals })) =
                message
            else {
                return None;
            };
            let mut total = *total;
            total[0] ^= 1;
            let report = Report::TotalReady { slot: 1, total, deals: deals.clone() };
            (from == liar && *ballot == first).then(|| Message::View(view::Message::Up(*ballot, report)))
        }));
        net.run(120_000);
        honest_finish(&net, &format!("seed {seed}"));
        assert!(net.openable()[&1].iter().all(|sum| sum.ballot > first), "seed {seed}");
    }
}

#[test]
fn a_fetched_total_that_is_not_the_decided_one_is_refused_and_its_server_named() {
    for seed in 0..4 {
        let mut net = Network::new(5, &[3], timing(), seed);
        let (liar, late) = (net.committee()[0], net.committee()[4]);
        for peer in without(&net, &[late]) {
            net.at_ms(0, Fault::Cut(late, peer));
        }
        net.run_unchecked(5_000, |_| false);
        net.liars.insert(liar);
        net.rewrite = Some(Box::new(|_, _, message| {
            let Message::Transfer(transfer::Message::Piece { slot, index, data }) = message else {
                return None;
            };
            let mut data = data.to_vec();
            data[0] ^= 1;
            let piece = transfer::Message::Piece { slot: *slot, index: *index, data: data.into() };
            Some(Message::Transfer(piece))
        }));
        net.at_ms(5_000, Fault::Heal(late, liar));
        for peer in without(&net, &[late, liar]) {
            net.at_ms(9_000, Fault::Heal(late, peer));
        }
        net.run(60_000);
        honest_finish(&net, &format!("seed {seed}"));
        assert_eq!(net.named(), BTreeSet::from([liar]), "seed {seed}");
    }
}

#[test]
fn a_view_below_what_was_promised_is_joined_without_a_vote() {
    let mut net = Network::new(5, &[3], timing(), 3);
    net.run_unchecked(10_000, |net| net.current().is_some());
    let (liar, members): (_, Vec<_>) = (leader(&net), net.peers().collect());
    net.liars.insert(liar);
    net.run_unchecked(20, |_| false);
    let ballot = |counter| Ballot { counter, proposer: liar };
    let low = ballot(50);
    let order = order(&net, low, &members);
    net.say(liar, order[1], Message::Prepare(ballot(60)));
    let begin = begin(&net, low, promises(&net, low, &members));
    net.say(liar, order[1], begin);
    assert_eq!(net.current(), Some(low));
    net.run_unchecked(60_000, |_| false);
    let acknowledged = net.acknowledged(0);
    assert!(acknowledged.iter().all(|sum| sum.ballot != low), "{acknowledged:?}");
}

#[test]
fn a_view_without_the_promises_of_a_quorum_is_not_joined_and_its_leader_named() {
    for shown in [0..2, 0..1] {
        let mut net = Network::new(5, &[3], timing(), 3);
        net.run_unchecked(10_000, |net| net.current().is_some());
        let (liar, members): (_, Vec<_>) = (leader(&net), net.peers().collect());
        net.liars.insert(liar);
        let ballot = Ballot { counter: 50, proposer: liar };
        let order = order(&net, ballot, &members);
        let promises = promises(&net, ballot, &members)[shown].to_vec();
        // Three copies of one author's promise are not a quorum either.
        let promises = if promises.len() == 1 { vec![promises[0].clone(); 3] } else { promises };
        let begin = begin(&net, ballot, promises);
        net.say(liar, order[1], begin);
        assert_ne!(net.current(), Some(ballot));
        assert_eq!(net.named(), BTreeSet::from([liar]));
    }
}

#[test]
fn two_decisions_in_one_ballot_name_who_acknowledged_both() {
    let mut net = Network::new(5, &[3], timing(), 3);
    net.run_unchecked(10_000, |net| net.current().is_some());
    let (liar, members): (_, Vec<_>) = (leader(&net), net.peers().collect());
    net.liars.insert(liar);
    let (earlier, ballot) = (Ballot { counter: 40, proposer: liar }, Ballot { counter: 50, proposer: liar });
    let order = order(&net, ballot, &members);
    let honest = without(&net, &[liar]);
    let promised = |author: Peer, value: [u8; 32], voters: [Peer; 3]| {
        let acknowledge = |&peer: &Peer| {
            Signed::new(&net.context(peer), Acknowledgement { ballot: earlier, slot: 0, value })
        };
        let decision = voters.iter().map(acknowledge).collect();
        let accepted = Some(Accepted { ballot: earlier, slot: 0, value });
        let promise = Promise { committed: 0, accepted, released: true };
        let plain = promised_plain(&net, ballot, &members);
        Signed::new(&net.context(author), Promised { promise, decision, ..plain })
    };
    let mut shown = promises(&net, ballot, &members);
    shown.retain(|signed| ![honest[0], honest[2]].contains(&signed.author));
    shown.push(promised(honest[0], [1; 32], [liar, honest[0], honest[1]]));
    shown.push(promised(honest[2], [2; 32], [liar, honest[2], honest[3]]));
    let begin = begin(&net, ballot, shown);
    net.say(liar, order[1], begin);
    assert_eq!(net.named(), BTreeSet::from([liar]));
    let why = &net.blames[0].2;
    assert!(why.contains("two values"), "{why}");
}

/// Changes the reports of a leaf in the first view.
fn reported(seed: u64, leaves: [Peer; 2], change: impl Fn(&mut Report) -> bool + 'static) -> Network {
    let mut net = Network::new(5, &[3], timing(), seed);
    let [liar, _] = leaves;
    net.liars.insert(liar);
    let rewrite: Rewrite = Box::new(move |from, _, message| {
        let Message::View(view::Message::Up(ballot, report)) = message else { return None };
        let mut report = report.clone();
        let changed = from == liar && change(&mut report);
        changed.then(|| Message::View(view::Message::Up(*ballot, report)))
    });
    net.rewrite = Some(rewrite);
    net.run(120_000);
    honest_finish(&net, &format!("seed {seed}"));
    net
}

/// Returns the leaves below the first child of the first view's leader.
fn leaves(seed: u64) -> (Ballot, [Peer; 2], Vec<crate::protocol::context::Context>) {
    let mut net = Network::new(5, &[3], timing(), seed);
    net.run_unchecked(10_000, |net| net.current().is_some());
    let ballot = net.current().unwrap();
    let order = tree_of(&net, ballot);
    (ballot, [order[3], order[4]], net.peers().map(|peer| net.context(peer)).collect())
}

#[test]
fn a_report_with_items_that_do_not_fit_the_round_names_who_passes_it_on() {
    for seed in 0..3 {
        let (ballot, both, ctx) = leaves(seed);
        let liar = both[0];
        let other = Ballot { counter: ballot.counter + 7, ..ballot };
        let sign = std::rc::Rc::new(move || {
            let ctx = &ctx[liar.index()];
            let key = Signed::new(
                ctx,
                ViewKey { ballot: other, begun: [0; 32], public: [9; 32], commitment: None },
            );
            let acknowledgement = Acknowledgement { ballot, slot: 0, value: [9; 32] };
            let (pad, deal) = crate::protocol::deal::make(
                ctx,
                SumId { ballot: other, slot: 0 },
                &mut <view::Rng as chacha20::rand_core::SeedableRng>::from_seed([3; 32]),
            );
            drop(pad);
            let release = crate::protocol::deal::Release {
                sum: SumId { ballot, slot: 0 },
                value: [9; 32],
                shares: Vec::new(),
                challenge: [0; 32],
                response: [0; 32],
            };
            (key, Signed::new(ctx, acknowledgement), deal, Signed::new(ctx, release))
        });
        for kind in 0..4 {
            let sign = sign.clone();
            let net = reported(seed, both, move |report| {
                let (key, acknowledgement, deal, release) = sign();
                match (kind, report) {
                    (0, Report::Keys(items)) => *items = vec![key],
                    (1, Report::Acknowledge(0, items)) => *items = vec![acknowledgement],
                    (2, Report::TotalReady { slot: 0, deals, .. }) => *deals = vec![deal],
                    (3, Report::Release(0, items)) => *items = vec![release],
                    _ => return false,
                }
                true
            });
            assert_eq!(net.named(), BTreeSet::from([liar]), "seed {seed}, kind {kind}");
        }
    }
}

#[test]
fn an_item_of_a_peer_that_is_no_member_is_held_against_who_passes_it_on() {
    let mut net = Network::new(5, &[3], timing(), 2);
    let away = net.committee()[4];
    net.at_ms(0, Fault::Crash(away));
    net.run_unchecked(10_000, |net| net.current().is_some());
    let liar = tree_of(&net, net.current().unwrap())[3];
    net.liars.insert(liar);
    let ctx = net.context(away);
    net.rewrite = Some(Box::new(move |from, _, message| {
        let Message::View(view::Message::Up(ballot, Report::Keys(keys))) = message else { return None };
        let begun = keys[0].item.begun;
        let foreign =
            Signed::new(&ctx, ViewKey { ballot: *ballot, begun, public: [9; 32], commitment: None });
        let keys = keys.iter().cloned().chain([foreign]).collect();
        (from == liar).then(|| Message::View(view::Message::Up(*ballot, Report::Keys(keys))))
    }));
    net.run(60_000);
    assert_eq!(net.named(), BTreeSet::from([liar]));
}
