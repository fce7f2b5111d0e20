//! A peer that tries to prevent all progress.

use std::collections::BTreeSet;

use super::super::network::Network;
use super::super::numbers::timing;
use super::alone::One;
use super::{honest_finish, leader};
use crate::protocol::ballot::Ballot;
use crate::protocol::failure::Failure;
use crate::protocol::message::Message;
use crate::protocol::signed::Signed;
use crate::protocol::view::{self, Reason, Report, Stage};
use crate::session::Peer;

const FAR: u64 = 1 << 48;

#[test]
fn a_proposal_far_ahead_does_not_use_up_the_ballots_and_its_author_is_named() {
    for seed in 0..4 {
        let mut net = Network::new(5, &[3], timing(), seed);
        let liar = net.committee()[2];
        net.liars.insert(liar);
        net.run_unchecked(10_000, |net| net.reached(liar, 0, Stage::Accept));
        for peer in net.peers().filter(|&peer| peer != liar) {
            net.say(liar, peer, Message::Prepare(Ballot { counter: FAR, proposer: liar }));
        }
        net.run(120_000);
        honest_finish(&net, &format!("seed {seed}"));
        assert_eq!(net.named(), BTreeSet::from([liar]));
    }
}

#[test]
fn a_refusal_that_names_a_ballot_far_ahead_does_not_use_them_up() {
    let mut named = 0;
    for seed in 0..4 {
        let mut net = Network::new(5, &[3], timing(), seed);
        let liar = net.committee()[2];
        net.liars.insert(liar);
        net.rewrite = Some(Box::new(move |from, _, message| {
            let ballot = match message {
                Message::Promise(signed) => signed.item.ballot,
                _ => return None,
            };
            (from == liar).then_some(Message::Refuse(ballot, Ballot { counter: FAR, proposer: Peer(0) }))
        }));
        net.run(120_000);
        honest_finish(&net, &format!("seed {seed}"));
        named += net.named().len();
    }
    // The refusal may come after the others' promises; it is then ignored.
    assert!(named > 0, "no refusal came in time");
}

#[test]
fn a_member_that_ends_every_view_is_set_aside() {
    for seed in 0..4 {
        let mut net = Network::new(5, &[3], timing(), seed);
        let liar = net.committee()[2];
        net.liars.insert(liar);
        let ctx = net.context(liar);
        net.rewrite = Some(Box::new(move |from, _, message| {
            let Message::View(view::Message::Up(ballot, Report::Keys(_))) = message else { return None };
            let failed = Failure { ballot: *ballot, slot: 0, reason: Reason::Ended, suspect: None };
            (from == liar).then(|| Message::Failed(Signed::new(&ctx, failed)))
        }));
        net.run(120_000);
        honest_finish(&net, &format!("seed {seed}"));
    }
}

#[test]
fn who_claims_to_have_everything_and_gives_nothing_is_named_and_costs_no_time() {
    for seed in 0..4 {
        let mut net = Network::new(5, &[3], timing(), seed);
        let liar = net.committee()[3];
        assert_ne!(liar, leader(&net));
        net.liars.insert(liar);
        net.rewrite = Some(Box::new(move |from, _, message| {
            if from != liar {
                return None;
            }
            match message.clone() {
                Message::Hello { version, session, trace, .. } => {
                    Some(Message::Hello { version, session, committed: 2, trace })
                }
                Message::Status { in_view, .. } => Some(Message::Status { committed: 2, in_view }),
                _ => None,
            }
        }));
        net.run(120_000);
        honest_finish(&net, &format!("seed {seed}"));
        let when = net.events.iter().filter_map(|(at, peer, event)| {
            (*peer != liar && matches!(event, crate::node::Event::Finished(..))).then_some(at.0 / 1000)
        });
        let last = when.max().unwrap();
        assert!(last < 5_000, "seed {seed}: {last} ms");
        assert_eq!(net.named(), BTreeSet::from([liar]));
    }
}

impl One {
    /// Connects the node to all peers outside the committee and to `other`, and waits until it proposes.
    /// Returns the ballot and the time in milliseconds.
    pub(super) fn proposal_with(&mut self, other: Peer) -> (Ballot, u64) {
        for peer in self.others.clone().into_iter().chain([other]) {
            self.greet(peer);
        }
        let mut ms = 0;
        loop {
            if let Some(ballot) = self.node.elections.proposed() {
                return (ballot, ms);
            }
            ms += 10;
            self.wait(ms);
        }
    }
}

#[test]
fn a_promise_that_comes_after_its_proposal_was_refused_delays_the_next_proposal() {
    // The author of the promise counts a proposal that began nothing. So it would refuse an earlier
    // proposal.
    let lease = timing().proposal_backoff_ms;
    for late in [false, true] {
        let mut one = One::strange(Vec::new());
        let other = one.committee[1];
        let (ballot, ms) = one.proposal_with(other);
        one.hear(other, Message::Refuse(ballot, Ballot { counter: ballot.counter + 1, proposer: other }));
        assert_eq!(one.node.elections.proposed(), None);
        if late {
            one.hear(other, Message::Promise(one.promise(other, ballot, 0)));
        }
        one.wait(ms + lease);
        assert_eq!(one.node.elections.proposed().is_some(), !late);
        if late {
            one.wait(ms + 3 * lease - 20);
            assert_eq!(one.node.elections.proposed(), None, "it waits for two leases after its own lease");
            one.wait(ms + 3 * lease + 20);
            assert!(one.node.elections.proposed().is_some());
        }
    }
}
