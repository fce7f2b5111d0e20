//! Attacks from a review: false accusations, endless claims to be working, false totals, unexpected
//! messages of an exchange, and deals and releases that are too long.

use std::collections::BTreeSet;

use bytes::Bytes;

use super::super::network::Network;
use super::super::numbers::timing;
use super::{honest_finish, tree_of, without};
use crate::node::Event;
use crate::protocol::all_reduce;
use crate::protocol::context::Context;
use crate::protocol::deal::Deal;
use crate::protocol::failure::Failure;
use crate::protocol::message::{Content, Message};
use crate::protocol::record::Record;
use crate::protocol::signed::Signed;
use crate::protocol::sum_id::SumId;
use crate::protocol::view::{self, Order, Reason, Report};
use crate::session::{Faults, Peer};

/// Returns the members of every sum of `slot` that at least one peer has opened.
fn opened(net: &Network, slot: u32) -> BTreeSet<Vec<Peer>> {
    let members = |event: &Event| match event {
        Event::Opened(value) if value.sum.slot == slot => Some(value.members.clone()),
        _ => None,
    };
    net.events.iter().filter_map(|(_, _, event)| members(event)).collect()
}

/// Checks that only liars are named.
fn only_liars_are_named(net: &Network, what: &str) {
    assert!(net.named().is_subset(&net.liars), "{what}: {:?}", net.blames);
}

#[test]
fn no_reason_for_failed_views_stops_a_session() {
    let reasons =
        [Reason::Disagreement, Reason::Stalled, Reason::Lost, Reason::Fault, Reason::Left, Reason::Ended];
    let mut stopped = Vec::new();
    for reason in reasons {
        for suspected in [None, Some(2), Some(4)] {
            for seed in 0..3 {
                let mut net = Network::new(5, &[3], timing(), seed);
                let liar = net.committee()[2];
                let suspect = suspected.map(|place: usize| net.committee()[place]);
                net.liars.insert(liar);
                let ctx = net.context(liar);
                net.rewrite = Some(Box::new(move |_, _, message| {
                    let ballot = match message {
                        Message::View(view::Message::Up(ballot, Report::Keys(_))) => *ballot,
                        // The false statement replaces the true one.
                        Message::Failed(failed) if failed.author == liar => failed.item.ballot,
                        _ => return None,
                    };
                    Some(Message::Failed(Signed::new(&ctx, Failure { ballot, slot: 0, reason, suspect })))
                }));
                net.run_unchecked(1_200_000, |_| false);
                only_liars_are_named(&net, &format!("{reason:?} {suspect:?}"));
                if net.finished().keys().filter(|peer| **peer != liar).count() < 4 {
                    stopped.push((reason, suspect, seed));
                }
            }
        }
    }
    assert!(stopped.is_empty(), "{stopped:?}");
}

#[test]
fn two_accusers_open_no_sum_with_one_honest_member() {
    for faults in [Faults::Crash, Faults::Byzantine] {
        for seed in 0..6 {
            let mut net = Network::altered(5, &[3], timing(), seed, |s| s.voting.faults = faults);
            net.delay_us = (100, 2_000);
            let rest = without(&net, &[net.committee()[0]]);
            let (liars, victims) = ([rest[0], rest[1]], [rest[2], rest[3]]);
            net.liars.extend(liars);
            let mut seen = BTreeSet::new();
            for _ in 0..20 {
                let known = seen.clone();
                let next = move |net: &Network| net.current().is_some_and(|ballot| !known.contains(&ballot));
                net.run_unchecked(net.now_ms() + 60_000, |net| next(net) || net.finished_count() >= 3);
                let Some(ballot) = net.current().filter(|ballot| !seen.contains(ballot)) else { break };
                seen.insert(ballot);
                let members = net.members_of(ballot);
                net.run_unchecked(net.now_ms() + 15, |_| false);
                for (liar, victim) in liars.into_iter().zip(victims) {
                    if members.contains(&liar) && members.contains(&victim) {
                        accuse(
                            &mut net,
                            liar,
                            Failure { ballot, slot: 0, reason: Reason::Lost, suspect: Some(victim) },
                        );
                    }
                }
            }
            net.run_unchecked(net.now_ms() + 120_000, |_| false);
            for members in opened(&net, 1) {
                let honest = members.iter().filter(|peer| !liars.contains(peer)).count();
                assert!(honest >= 2, "{faults:?}, seed {seed}: opened over {members:?}, liars {liars:?}");
            }
        }
    }
}

/// Sends the liar's failure of the view to all other peers.
fn accuse(net: &mut Network, liar: Peer, failure: Failure) {
    let signed = Signed::new(&net.context(liar), failure);
    for peer in without(net, &[liar]) {
        net.say(liar, peer, Message::Failed(signed.clone()));
    }
}

#[test]
fn a_member_that_works_for_ever_is_not_waited_for() {
    works_for_ever(1);
}

#[test]
fn a_leader_that_works_for_ever_is_not_waited_for() {
    works_for_ever(0);
}

/// Lets the liar at this place in the first view's tree claim for an hour that it works.
fn works_for_ever(place: usize) {
    let mut net = Network::new(5, &[3], timing(), 1);
    net.delay_us = (100, 2_000);
    net.run_unchecked(10_000, |net| net.current().is_some());
    let ballot = net.current().unwrap();
    net.run_unchecked(net.now_ms() + 5, |_| false);
    let liar = tree_of(&net, ballot)[place];
    net.liars.insert(liar);
    let chunk = |message: &Message| {
        matches!(message, Message::View(view::Message::Reduce(all_reduce::Message::Chunk { .. })))
    };
    net.hold = Some(Box::new(move |from, _, message| from == liar && chunk(message)));
    let begun = net.now_ms();
    for second in 1..=3_600 {
        net.run_unchecked(begun + second * 1_000, |_| false);
        let Some(ballot) = net.current() else { continue };
        for peer in without(&net, &[liar]) {
            net.say(liar, peer, Message::View(view::Message::KeepAlive(ballot)));
        }
    }
    honest_finish(&net, &format!("the liar has place {place} in the tree"));
    only_liars_are_named(&net, "it works for ever");
}

#[test]
fn exchange_messages_where_no_slot_has_an_exchange_are_not_kept() {
    let mut net = Network::new(5, &[3], timing(), 1);
    net.run_unchecked(10_000, |net| net.current().is_some());
    net.run_unchecked(net.now_ms() + 10, |_| false);
    let ballot = net.current().unwrap();
    let order = tree_of(&net, ballot);
    let (victim, liar) = (order[2], order[4]);
    net.liars.insert(liar);
    let content = Content::Bulk { header: Bytes::new(), data: vec![1; 1_000_000].into() };
    net.say(liar, victim, Message::Exchange { sum: SumId { ballot, slot: 1 }, content });
    assert_eq!(net.named(), net.liars);
    net.run_unchecked(120_000, |_| false);
    honest_finish(&net, "after the message");
    only_liars_are_named(&net, "after the message");
}

/// Lets a liar of the committee change its reports before an opening; the others must finish without it.
fn changes_its_reports(what: &str, change: fn(&Network, Peer) -> super::super::network::Rewrite) {
    for place in [1usize, 2, 4] {
        for seed in 0..3 {
            let mut net = Network::new(5, &[3], timing(), seed);
            let liar = net.committee()[place];
            net.liars.insert(liar);
            net.rewrite = Some(change(&net, liar));
            net.run_unchecked(600_000, |_| false);
            let what = format!("{what}, place {place} of the committee, seed {seed}");
            honest_finish(&net, &what);
            only_liars_are_named(&net, &what);
            for members in opened(&net, 1) {
                let honest = members.iter().filter(|peer| **peer != liar).count();
                assert_eq!(honest, 4, "{what}: an honest peer is left out: {members:?}");
            }
        }
    }
}

#[test]
fn a_false_total_leaves_no_honest_peer_out() {
    changes_its_reports("a false total", |_, _| {
        Box::new(|_, _, message| {
            let Message::View(view::Message::Up(ballot, Report::TotalReady { slot, total, deals })) = message
            else {
                return None;
            };
            let mut total = *total;
            total[0] ^= 1;
            Some(Message::View(view::Message::Up(
                *ballot,
                Report::TotalReady { slot: *slot, total, deals: deals.clone() },
            )))
        })
    });
}

/// Extends the deals of this peer by more shares or parts of the proof, and signs them again.
fn with_longer_deals(
    ctx: &Context,
    deals: &[Signed<Deal>],
    shares: usize,
    responses: usize,
) -> Vec<Signed<Deal>> {
    let longer = |deal: &Signed<Deal>| {
        if deal.author != ctx.me {
            return deal.clone();
        }
        let mut item = deal.item.clone();
        item.dealt.shares.extend(vec![item.dealt.shares[0]; shares]);
        item.dealt.responses.extend(vec![[0; 32]; responses]);
        Signed::new(ctx, item)
    };
    deals.iter().map(longer).collect()
}

#[test]
fn a_deal_with_too_many_shares_or_responses_stops_nobody() {
    // With 32,711 shares, the order with this deal would exceed the limit of a frame.
    for (shares, responses) in [(1, 0), (0, 1), (32_711, 0)] {
        for place in [1usize, 2, 4] {
            let mut net = Network::new(5, &[3], timing(), place as u64);
            let liar = net.committee()[place];
            net.liars.insert(liar);
            let ctx = net.context(liar);
            net.rewrite = Some(Box::new(move |_, _, message| {
                let Message::View(view::Message::Up(ballot, Report::TotalReady { slot, total, deals })) =
                    message
                else {
                    return None;
                };
                let deals = with_longer_deals(&ctx, deals, shares, responses);
                let report = Report::TotalReady { slot: *slot, total: *total, deals };
                Some(Message::View(view::Message::Up(*ballot, report)))
            }));
            net.run_unchecked(600_000, |_| false);
            let what = format!("{shares} shares, {responses} responses, place {place} of the committee");
            honest_finish(&net, &what);
            only_liars_are_named(&net, &what);
        }
    }
}

#[test]
fn a_leader_whose_deal_is_too_long_is_named() {
    for seed in 0..3 {
        let mut net = Network::new(5, &[3], timing(), seed);
        let liar = net.committee()[0];
        net.liars.insert(liar);
        let ctx = net.context(liar);
        net.rewrite = Some(Box::new(move |_, _, message| {
            let Message::View(view::Message::Down(ballot, Order::Accept(record))) = message else {
                return None;
            };
            let value = &record.value;
            let deals = with_longer_deals(&ctx, &record.deals, 1, 0);
            let record = Record::new(value.sum, value.members.clone(), value.total, deals);
            Some(Message::View(view::Message::Down(*ballot, Order::Accept(record))))
        }));
        net.run_unchecked(600_000, |_| false);
        honest_finish(&net, "a long deal of the leader");
        assert_eq!(net.named(), net.liars, "{:?}", net.blames);
    }
}

#[test]
fn a_release_with_too_many_shares_stops_nobody() {
    changes_its_reports("a release with too many shares", |net, liar| {
        let ctx = net.context(liar);
        Box::new(move |_, _, message| {
            let Message::View(view::Message::Up(ballot, Report::Release(slot, items))) = message else {
                return None;
            };
            let mut items = items.clone();
            for each in items.iter_mut().filter(|each| each.author == liar) {
                let mut item = each.item.clone();
                item.shares.extend(vec![[0; 32]; 16]);
                *each = Signed::new(&ctx, item);
            }
            Some(Message::View(view::Message::Up(*ballot, Report::Release(*slot, items))))
        })
    });
}
