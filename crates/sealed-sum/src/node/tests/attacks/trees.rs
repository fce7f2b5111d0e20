//! Attacks by a member of the tree that passes on items that do not belong there.

use std::collections::BTreeSet;

use super::super::network::Network;
use super::super::numbers::timing;
use super::{honest_finish, leader, tree_of};
use crate::protocol::message::Message;
use crate::protocol::pairwise::ViewKey;
use crate::protocol::signed::Signed;
use crate::protocol::view::{self, Order, Report, Stage};

/// In its first view, the leader replaces releases of slot 1 by releases of slot 0.
#[test]
fn a_release_of_an_earlier_slot_convicts_nobody() {
    for seed in 0..6 {
        let mut net = Network::new(5, &[3], timing(), seed);
        let leader = leader(&net);
        net.liars.insert(leader);
        let (mut old, mut first) = (Vec::new(), None);
        net.rewrite = Some(Box::new(move |from, _, message| {
            let Message::View(view::Message::Down(ballot, Order::Open(slot, releases))) = message else {
                return None;
            };
            if from != leader || *first.get_or_insert(*ballot) != *ballot {
                return None;
            }
            if *slot == 0 {
                old.clone_from(releases);
                return None;
            }
            let swapped = releases.iter().map(|release| {
                let stale = old.iter().find(|stale| stale.author == release.author);
                stale.filter(|stale| stale.author != leader).unwrap_or(release).clone()
            });
            Some(Message::View(view::Message::Down(*ballot, Order::Open(*slot, swapped.collect()))))
        }));
        net.run(120_000);
        honest_finish(&net, &format!("seed {seed}"));
    }
}

/// The leader continues before a subtree has reported.
#[test]
fn an_order_that_comes_early_makes_nobody_blame_those_below() {
    for seed in 0..20 {
        let mut net = Network::new(5, &[3], timing(), seed);
        net.run_unchecked(10_000, |net| net.current().is_some());
        let ballot = net.current().unwrap();
        let order = tree_of(&net, ballot);
        let (liar, child) = (order[0], order[1]);
        net.liars.insert(liar);
        net.run_unchecked(10_000, |net| net.reached(child, 0, Stage::Accept));
        net.say(liar, child, Message::View(view::Message::Down(ballot, Order::Sum(1))));
        net.run(120_000);
        honest_finish(&net, &format!("seed {seed}"));
    }
}

/// One of two siblings has given its signed item to the other one. Their parent would pass the item on
/// twice.
#[test]
fn an_item_of_a_sibling_is_held_against_who_passes_it_on() {
    for seed in 0..3 {
        let mut net = Network::new(5, &[3], timing(), seed);
        net.run_unchecked(10_000, |net| net.current().is_some());
        let order = tree_of(&net, net.current().unwrap());
        let (giver, taker) = (order[3], order[4]);
        net.liars.extend([giver, taker]);
        let ctx = net.context(giver);
        net.rewrite = Some(Box::new(move |from, _, message| {
            let Message::View(view::Message::Up(ballot, Report::Keys(keys))) = message else { return None };
            let mut keys = keys.clone();
            let begun = keys[0].item.begun;
            keys.push(Signed::new(
                &ctx,
                ViewKey { ballot: *ballot, begun, public: [9; 32], commitment: None },
            ));
            (from == taker).then(|| Message::View(view::Message::Up(*ballot, Report::Keys(keys))))
        }));
        net.run(120_000);
        honest_finish(&net, &format!("seed {seed}"));
        assert!(net.named().is_subset(&BTreeSet::from([giver, taker])) && net.named().contains(&taker));
    }
}
