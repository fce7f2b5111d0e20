//! Messages of the election and of views with one rule broken at a time.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::super::network::{Fault, Network};
use super::super::numbers::timing;
use super::{honest_finish, leader, tree_of, without};
use crate::harness::numbers::Session;
use crate::node::Event;
use crate::protocol::ballot::Ballot;
use crate::protocol::committee::{Accepted, Promise};
use crate::protocol::failure::Failure;
use crate::protocol::message::Message;
use crate::protocol::promise::{self, Begun, Promised};
use crate::protocol::signed::Signed;
use crate::protocol::tree::Tree;
use crate::protocol::view::{self, Order, Reason};
use crate::session::Peer;

/// Returns five peers in their first view. The file names the committee of three.
pub(super) fn begun() -> Network {
    let named = |session: &mut Session| {
        session.voting.members = (0..3).map(|i| session.roster[i].name.clone()).collect();
    };
    let mut net = Network::altered(5, &[3], timing(), 3, named);
    net.run_unchecked(10_000, |net| net.current().is_some());
    net
}

/// Returns a promise of a peer that has committed nothing, reaches these peers and knows no marks.
pub(super) fn promised(net: &Network, ballot: Ballot, reached: &[Peer]) -> Promised {
    let promise = Promise { committed: 0, accepted: None, released: false };
    let reached = promise::bits_of(net.session().roster.len() as u16, reached.iter().copied());
    Promised { ballot, promise, decision: Vec::new(), reached, marks: Vec::new() }
}

/// Returns the promises of all committee members, if each of them reaches these peers.
pub(super) fn promises(net: &Network, ballot: Ballot, reached: &[Peer]) -> Vec<Signed<Promised>> {
    let item = || promised(net, ballot, reached);
    net.committee().iter().map(|&peer| Signed::new(&net.context(peer), item())).collect()
}

/// Returns the beginning of a view with these promises, signed by its leader.
pub(super) fn begin(net: &Network, ballot: Ballot, promises: Vec<Signed<Promised>>) -> Message {
    Message::Begin(Signed::new(&net.context(ballot.proposer), Begun { ballot, promises }))
}

/// Returns the tree of a view of these peers, if the whole committee promises it and reaches them.
pub(super) fn tree(net: &Network, ballot: Ballot, reached: &[Peer]) -> Arc<Tree> {
    let promises = promises(net, ballot, reached);
    promise::basis(&net.context(ballot.proposer), ballot, &promises).unwrap().tree
}

/// Returns the peers of that tree, each after its parent.
pub(super) fn order(net: &Network, ballot: Ballot, reached: &[Peer]) -> Vec<Peer> {
    tree(net, ballot, reached).order().to_vec()
}

/// Returns how often the peer has entered the view.
fn entered(net: &Network, peer: Peer, ballot: Ballot) -> usize {
    let began = |event: &Event| matches!(event, Event::ViewBegan(other, _) if *other == ballot);
    net.events.iter().filter(|(_, who, event)| *who == peer && began(event)).count()
}

#[test]
fn a_view_that_breaks_a_rule_of_its_beginning_is_not_joined() {
    let all: Vec<_> = (0..5).map(Peer).collect();
    let leads = begun().committee()[0];
    let high = Ballot { counter: 50, proposer: leads };
    let spare = *all.iter().find(|peer| !begun().committee().contains(peer)).unwrap();
    let tree = order(&begun(), high, &all);
    type Alter = fn(&mut Vec<Signed<Promised>>);
    let cases: [(&str, Ballot, Alter, bool); 5] = [
        ("nothing", high, |_| {}, true),
        ("its leader is not of the committee", Ballot { proposer: spare, ..high }, |_| {}, false),
        ("a ballot above the last", Ballot { counter: Ballot::LAST + 1, ..high }, |_| {}, false),
        ("too few promises", high, |promises| promises.truncate(1), false),
        ("a promise of another ballot", high, |promises| promises[0].item.ballot.counter -= 1, false),
    ];
    for (what, ballot, alter, sound) in cases {
        let mut net = begun();
        let (from, to) = (tree[0], tree[1]);
        net.liars.insert(from);
        let mut promises = promises(&net, ballot, &all);
        alter(&mut promises);
        let begin = begin(&net, ballot, promises);
        net.say(from, to, begin);
        assert_eq!(entered(&net, to, ballot), usize::from(sound), "{what}");
        assert_eq!(net.named().contains(&from), !sound, "{what}");
    }
    // The beginning is signed by another peer, or its promises reach too few peers. No peer can lead
    // such a view.
    for reached in [&all[..], &all[..2]] {
        let mut net = begun();
        let from = tree[0];
        net.liars.insert(from);
        let promises = promises(&net, high, reached);
        let by = if reached.len() == 5 { tree[1] } else { leads };
        let begin = Message::Begin(Signed::new(&net.context(by), Begun { ballot: high, promises }));
        net.say(from, tree[1], begin);
        assert_eq!((entered(&net, tree[1], high), net.named().contains(&from)), (0, true));
    }
    // The beginning comes from a peer that is not the parent, comes twice, and comes after the end.
    let mut net = begun();
    let begin = begin(&net, high, promises(&net, high, &all));
    net.say(tree[1], tree[2], begin.clone());
    assert_eq!(entered(&net, tree[2], high), 0, "not from its parent");
    net.say(tree[0], tree[1], begin.clone());
    net.say(tree[0], tree[1], begin.clone());
    assert_eq!(entered(&net, tree[1], high), 1, "once");
    let mut net = begun();
    net.run_unchecked(20_000, |net| net.finished_count() == 5);
    net.say(tree[0], tree[1], begin);
    assert_eq!(entered(&net, tree[1], high), 0, "it has finished");
}

#[test]
fn the_end_of_a_view_is_heeded_from_its_members_alone_and_only_as_they_signed_it() {
    let stopped = || {
        let mut net = Network::new(5, &[3], timing(), 2);
        let away = net.committee()[4];
        net.at_ms(0, Fault::Crash(away));
        net.hold = Some(Box::new(|_, _, message| {
            matches!(message, Message::View(view::Message::Down(_, Order::Accept(_))))
        }));
        net.run_unchecked(10_000, |net| net.current().is_some());
        let now = net.now_ms();
        net.at_ms(now + 10, Fault::Restart(away));
        net.run_unchecked(now + 300, |_| false);
        let ballot = net.current().unwrap();
        let tree = tree_of(&net, ballot);
        (net, ballot, tree, away)
    };
    let (net, ballot, tree, away) = stopped();
    let (at, by, from) = (tree[1], tree[3], tree[0]);
    let earlier = Ballot { counter: ballot.counter - 1, ..ballot };
    let ends = |ballot, author: Peer, suspect: Option<Peer>| {
        let suspect = suspect.or(Some(tree.iter().copied().find(|peer| *peer != author).unwrap()));
        Signed::new(&net.context(author), Failure { ballot, slot: 0, reason: Reason::Disagreement, suspect })
    };
    let mut forged = ends(ballot, from, None);
    forged.author = by;
    let cases = [
        ("a member's", from, ends(ballot, by, None), 1, false),
        ("of another view", from, ends(earlier, by, None), 0, false),
        ("passed on by a stranger to the view", away, ends(ballot, by, None), 0, false),
        ("of a stranger to the view", from, ends(ballot, away, None), 0, false),
        ("its own", from, ends(ballot, at, None), 0, false),
        ("a suspect outside the roster", from, ends(ballot, by, Some(Peer(9))), 1, true),
        ("not signed by its author", from, forged, 1, true),
    ];
    for (what, from, failed, failures, named) in cases {
        let (mut net, ..) = stopped();
        assert!(net.failures(at).is_empty());
        net.liars.insert(from);
        net.say(from, at, Message::Failed(failed));
        // If `at` blames the sender, its view ends too, as a fault.
        assert_eq!(net.failures(at).len(), failures, "{what}: {:?}", net.failures(at));
        assert_eq!(net.named().contains(&from), named, "{what}");
    }
}

#[test]
fn what_is_asked_and_told_in_elections_counts_from_whom_it_concerns() {
    let high = |proposer| Ballot { counter: 50, proposer };
    for kind in 0..6 {
        let mut net = begun();
        let committee = net.committee();
        let spare = without(&net, &committee)[0];
        let (liar, to) =
            if kind == 1 || kind == 3 { (spare, committee[1]) } else { (committee[0], committee[1]) };
        net.liars.insert(liar);
        let message = match kind {
            0 => Message::Prepare(high(committee[2])),
            1 => Message::Prepare(high(liar)),
            2 => Message::Refuse(high(liar), high(liar)),
            3 => Message::Refuse(high(to), high(liar)),
            4 => Message::Status { committed: 3, in_view: false },
            _ => Message::Fields(Vec::new()),
        };
        net.say(liar, to, message);
        assert_eq!(net.named(), BTreeSet::from([liar]), "{kind}");
    }
}

/// A leader that accepts such promises shows them to all peers, and would itself break a rule.
#[test]
fn a_promise_that_is_not_one_does_not_make_its_honest_receiver_break_a_rule() {
    for kind in 0..4 {
        let mut net = Network::new(5, &[3], timing(), 6);
        let (liar, other) = (net.committee()[1], net.committee()[2]);
        assert_ne!(liar, leader(&net));
        net.liars.insert(liar);
        let (own, others) = (net.context(liar), net.context(other));
        net.rewrite = Some(Box::new(move |from, _, message| {
            let Message::Promise(signed) = message else { return None };
            if from != liar {
                return None;
            }
            let mut item = signed.item.clone();
            match kind {
                0 => return Some(Message::Promise(Signed::new(&others, item))),
                1 => item.ballot.counter -= 1,
                2 => {
                    let accepted = Accepted { ballot: item.ballot, slot: 0, value: [3; 32] };
                    item.promise.accepted = Some(accepted);
                }
                _ => item.promise.committed = 9,
            }
            Some(Message::Promise(Signed::new(&own, item)))
        }));
        net.run(120_000);
        honest_finish(&net, &format!("kind {kind}"));
    }
}
