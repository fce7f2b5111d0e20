//! Tests of whole nodes: liars can make no more views fail than the membership rule allows (spec,
//! section 8). No honest peer is left out.

use std::collections::BTreeSet;

use super::super::network::{Fault, Network};
use super::super::numbers::timing;
use super::honest_finish;
use crate::node::Event;
use crate::protocol::ballot::Ballot;
use crate::protocol::context::Context;
use crate::protocol::failure::Failure;
use crate::protocol::message::Message;
use crate::protocol::signed::Signed;
use crate::protocol::view::{self, Order, Reason};
use crate::session::Peer;

/// Behaviour of liars. If they follow, they do this instead of a report; if they lead, instead of an
/// order to sum.
#[derive(Clone, Copy, Debug)]
enum Lie {
    /// They accuse one honest peer after another.
    Accuse,
    /// They are silent.
    Silent,
    /// They end each view without a suspect, although their reason requires one.
    Nameless,
    /// They end each view in the way that only a leader may use.
    End,
}

fn lie(kind: Lie, ctx: &[Context], liars: &BTreeSet<Peer>, from: Peer, message: &Message) -> Option<Message> {
    let (ballot, slot) = match message {
        Message::View(view::Message::Up(ballot, report)) => (*ballot, slot_of(report)),
        Message::View(view::Message::Down(ballot, Order::Sum(slot))) if ballot.proposer == from => {
            (*ballot, *slot)
        }
        _ => return None,
    };
    let ctx = ctx.iter().find(|ctx| ctx.me == from)?;
    match kind {
        Lie::Accuse => {
            let honest: Vec<_> = ctx.session.peers().filter(|peer| !liars.contains(peer)).collect();
            let suspect = Some(honest[ballot.counter as usize % honest.len()]);
            let failure = Failure { ballot, slot, reason: Reason::Lost, suspect };
            Some(Message::Failed(Signed::new(ctx, failure)))
        }
        // A message without effect replaces it.
        Lie::Silent => Some(Message::Status { committed: 0, in_view: true }),
        Lie::Nameless | Lie::End => {
            let ends = matches!(kind, Lie::End);
            let reason = if ends { Reason::Ended } else { Reason::Disagreement };
            Some(Message::Failed(Signed::new(ctx, Failure { ballot, slot, reason, suspect: None })))
        }
    }
}

fn slot_of(report: &view::Report) -> u32 {
    use view::Report;
    match report {
        Report::Keys(_) | Report::Reveal(_) => 0,
        Report::TotalReady { slot, .. } | Report::Acknowledge(slot, _) | Report::Release(slot, _) => *slot,
    }
}

/// Largest numbers of failed views between two openings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Runs {
    /// Views that a mark ended, if none of their members should have been left out.
    pub(in super::super) marked: usize,
    /// Views that a mark ended, with a member that should have been left out.
    pub(in super::super) barred: usize,
    /// Views that their own leader ended. The leader then loses turns.
    pub(in super::super) ended: usize,
}

pub(in super::super) fn longest(net: &Network) -> Runs {
    let (mut marked, mut ended) = (BTreeSet::<Ballot>::new(), BTreeSet::new());
    let mut longest = Runs::default();
    for (_, peer, event) in &net.events {
        match event {
            _ if net.liars.contains(peer) => {}
            Event::Opened(_) => (marked, ended) = Default::default(),
            Event::ViewFailed(ballot, _, Reason::Ended, _) => drop(ended.insert(*ballot)),
            Event::ViewFailed(ballot, ..) => drop(marked.insert(*ballot)),
            _ => {}
        }
        let barred = marked.iter().filter(|ballot| net.had_a_barred_member(**ballot)).count();
        longest.marked = longest.marked.max(marked.len() - barred);
        longest.barred = longest.barred.max(barred);
        longest.ended = longest.ended.max(ended.len());
    }
    longest
}

pub(super) fn honest_are_in_every_sum(net: &Network, what: &str) {
    for (_, peer, event) in &net.events {
        if let Event::Opened(value) = event
            && !net.liars.contains(peer)
        {
            let out: Vec<_> = net
                .peers()
                .filter(|peer| !net.liars.contains(peer) && !value.members.contains(peer))
                .collect();
            assert!(out.is_empty(), "{what}: {out:?} are left out of {:?}", value.sum);
        }
    }
}

/// Returns the marks between honest peers: the view, the author and the suspect.
pub(in super::super) fn quarrels(net: &Network) -> BTreeSet<(Ballot, Peer, Peer)> {
    let honest = |peer: &Peer| !net.liars.contains(peer);
    let mark = |event: &Event| match event {
        Event::ViewFailed(ballot, author, _, Some(suspect)) if honest(author) && honest(suspect) => {
            Some((*ballot, *author, *suspect))
        }
        _ => None,
    };
    net.events.iter().filter(|(_, peer, _)| honest(peer)).filter_map(|(_, _, event)| mark(event)).collect()
}

#[test]
fn liars_fail_few_views_and_leave_nobody_out() {
    for (peers, liars, bound, seeds) in
        [(4u8, 1usize, 3, 3), (5, 1, 3, 3), (7, 2, 9, 3), (10, 3, 18, 3), (15, 4, 30, 1)]
    {
        for kind in [Lie::Accuse, Lie::Silent, Lie::Nameless, Lie::End] {
            for seed in 0..seeds {
                let mut net = Network::new(peers, &[3, 3], timing(), seed);
                let committee = net.committee();
                let chosen: BTreeSet<_> =
                    committee[seed as usize % 2..].iter().take(liars).copied().collect();
                net.liars.extend(&chosen);
                let contexts: Vec<_> = chosen.iter().map(|&peer| net.context(peer)).collect();
                net.rewrite =
                    Some(Box::new(move |from, _, message| lie(kind, &contexts, &chosen, from, message)));
                net.run_unchecked(3_600_000, |_| false);
                let what = format!("{peers} peers, {liars} liars, {kind:?}, seed {seed}");
                honest_finish(&net, &what);
                honest_are_in_every_sum(&net, &what);
                let Runs { marked, barred, ended } = longest(&net);
                assert!(marked + barred <= bound, "{what}: {marked} and {barred} views in a row");
                assert!(ended <= 3 * liars, "{what}: {ended} views in a row that their leader ended");
                eprintln!("{what}: {marked} of {bound} views ended by marks, {ended} by their leader");
                assert!(net.named().is_subset(&net.liars), "{what}: {:?}", net.blames);
            }
        }
    }
}

#[test]
fn a_broken_link_costs_one_view_and_nobody() {
    for seed in 0..10 {
        let mut net = Network::new(5, &[3, 3], timing(), seed);
        net.run_unchecked(10_000, |net| net.current().is_some());
        let ballot = net.current().unwrap();
        let tree = net.tree_of(ballot);
        let child = tree.order()[1 + seed as usize % 4];
        let parent = tree.parent(child).unwrap();
        let now = net.now_ms();
        net.at_ms(now, Fault::Cut(child.min(parent), child.max(parent)));
        net.run(120_000);
        assert_eq!(net.finished().len(), 5, "seed {seed}: {:?}", net.endings());
        assert_eq!(longest(&net), Runs { marked: 1, barred: 0, ended: 0 }, "seed {seed}");
        honest_are_in_every_sum(&net, &format!("seed {seed}"));
    }
}

#[test]
fn a_leader_that_skips_an_opening_gets_no_honest_peer_marked_by_another() {
    for peers in [4u8, 5, 7] {
        for seed in 0..4u64 {
            let mut net = Network::new(peers, &[3, 3], timing(), seed);
            let liar = net.committee()[0];
            net.liars.insert(liar);
            net.rewrite = Some(Box::new(move |_, to, message| {
                let opens = matches!(message, Message::View(view::Message::Down(_, Order::Open(..))));
                let skipped = opens && u64::from(to.0) % 2 == seed % 2;
                skipped.then_some(Message::Status { committed: 0, in_view: true })
            }));
            net.run_unchecked(600_000, |_| false);
            let what = format!("{peers} peers, seed {seed}");
            honest_finish(&net, &what);
            honest_are_in_every_sum(&net, &what);
            assert_eq!(quarrels(&net), BTreeSet::new(), "{what}");
        }
    }
}

#[test]
fn the_mark_of_a_view_that_a_peer_was_not_in_is_kept() {
    for peers in [4u8, 5] {
        let mut net = Network::new(peers, &[3, 3], timing(), 0);
        let (liar, suspect) = (net.committee()[1], net.committee()[0]);
        net.liars.insert(liar);
        // Instead of each report, the liar sends a mark of a view that no other peer was in.
        let ballot = Ballot { counter: 0, proposer: liar };
        let failure = Failure { ballot, slot: 0, reason: Reason::Lost, suspect: Some(suspect) };
        let mark = Signed::new(&net.context(liar), failure);
        let sent = mark.clone();
        net.rewrite = Some(Box::new(move |_, _, message| {
            matches!(message, Message::View(_)).then(|| Message::Failed(sent.clone()))
        }));
        net.run_unchecked(600_000, |_| false);
        honest_finish(&net, &format!("{peers} peers"));
        let (_, second) = net.begun.iter().nth(1).expect("the first view fails");
        let mut honest =
            second.iter().flat_map(|begun| &begun.promises).filter(|signed| signed.author != liar);
        assert!(honest.any(|signed| signed.item.marks.contains(&mark)), "{peers} peers");
    }
}

#[test]
fn a_mark_with_a_wrong_signature_is_a_fault_and_is_not_kept() {
    let mut net = Network::new(5, &[3, 3], timing(), 0);
    let committee = net.committee();
    let liar = committee[1];
    net.liars.insert(liar);
    let ballot = Ballot { counter: 0, proposer: liar };
    let failure = Failure { ballot, slot: 0, reason: Reason::Lost, suspect: Some(committee[0]) };
    let mut mark = Signed::new(&net.context(committee[2]), failure);
    mark.author = liar;
    let sent = mark.clone();
    net.rewrite = Some(Box::new(move |_, _, message| {
        matches!(message, Message::View(_)).then(|| Message::Failed(sent.clone()))
    }));
    net.run_unchecked(600_000, |_| false);
    honest_finish(&net, "wrong signature");
    let mut promises = net.begun.values().flatten().flat_map(|begun| &begun.promises);
    assert!(!promises.any(|signed| signed.author != liar && signed.item.marks.contains(&mark)));
    assert!(net.blames.iter().any(|(_, who, _)| *who == liar), "{:?}", net.blames);
}
