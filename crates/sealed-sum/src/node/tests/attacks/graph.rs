//! Choice of the partners that share masks, in views of more than 64 members. No peer can influence it,
//! not even the leader, which fixes its key last.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use chacha20::rand_core::{Rng as _, SeedableRng};

use super::super::network::Network;
use super::super::numbers::timing;
use crate::crypto::agreement::EphemeralSecret;
use crate::protocol::ballot::Ballot;
use crate::protocol::pairwise::{self, Reveal, ViewKey, ViewKeys};
use crate::protocol::signed::Signed;
use crate::protocol::view::{self, Order, Report, View};
use crate::protocol::{Action, Input, Machine, Time};
use crate::session::Peer;

#[test]
fn a_draw_needs_every_part_and_none_counts_under_other_keys() {
    let net = Network::new(66, &[1], timing(), 1);
    let members: Vec<_> = net.peers().collect();
    let ctx = net.context(members[0]);
    let ballot = Ballot { counter: 1, proposer: ctx.committee[0] };
    let part = |peer: Peer| [peer.0 as u8; 32];
    let key = |&peer: &Peer| {
        let commitment = pairwise::commitment(&ctx, ballot, peer, &part(peer));
        let commitment = ctx.draws(peer, &members).then_some(commitment);
        Signed::new(&net.context(peer), ViewKey { ballot, begun: [7; 32], public: [9; 32], commitment })
    };
    let keys: Vec<_> = members.iter().map(key).collect();
    let fixed = |keys: &[Signed<ViewKey>]| ViewKeys::new(&ctx, (ballot, [7; 32]), &members, keys.to_vec());
    let all = fixed(&keys).unwrap();
    let reveal = |keys: &ViewKeys, author: Peer, secret: [u8; 32]| {
        Signed::new(&net.context(author), Reveal { ballot, keys: keys.digest, secret })
    };
    let reveals: Vec<_> = ctx.committee.iter().map(|&peer| reveal(&all, peer, part(peer))).collect();
    assert!(reveals.len() > 3 && all.draw(&ctx, &reveals).is_some());
    assert_eq!(all.draw(&ctx, &reveals[1..]), None, "one is missing");
    let twice = [&reveals[1..], &reveals[1..2]].concat();
    assert_eq!(all.draw(&ctx, &twice), None, "one is there twice");
    let more = [&reveals[..], &reveals[..1]].concat();
    assert_eq!(all.draw(&ctx, &more), None, "all, and one of them twice");
    let with = |first: Signed<Reveal>| [vec![first], reveals[1..].to_vec()].concat();
    assert_eq!(
        all.draw(&ctx, &with(reveal(&all, ctx.committee[0], [0; 32]))),
        None,
        "not what was committed to"
    );
    let mut forged = reveal(&all, ctx.committee[1], part(ctx.committee[0]));
    forged.author = ctx.committee[0];
    assert_eq!(all.draw(&ctx, &with(forged)), None, "not signed by its author");
    // The leader puts another key of its own into the list.
    let last = ballot.proposer.index();
    let mut other = keys.clone();
    other[last] =
        Signed::new(&net.context(ballot.proposer), ViewKey { public: [8; 32], ..keys[last].item.clone() });
    assert_eq!(fixed(&other).unwrap().draw(&ctx, &reveals), None, "revealed for other keys");
    // The members that draw must commit themselves, and no others may do so.
    let mut bare = keys.clone();
    bare[last].item.commitment = None;
    assert!(fixed(&bare).is_none());
    let spare = members.iter().position(|&peer| !ctx.draws(peer, &members)).unwrap();
    let mut more = keys.clone();
    more[spare].item.commitment = Some([0; 32]);
    assert!(fixed(&more).is_none());
    // Its author joined with another beginning.
    let mut other = keys;
    other[spare].item.begun = [8; 32];
    assert!(fixed(&other).is_none());
}

/// Views of all members.
struct Views(BTreeMap<Peer, View>);

impl Views {
    fn new(net: &Network, ballot: Ballot, members: &[Peer]) -> Self {
        let tree = super::messages::tree(net, ballot, members);
        let view = |&peer: &Peer| {
            let ctx = Arc::new(net.context(peer));
            (peer, View::new(ctx, (ballot, [0; 32]), tree.clone(), [peer.0 as u8; 32]).unwrap())
        };
        Self(members.iter().map(view).collect())
    }

    /// Delivers all messages except those that `taken` takes. Returns the peers that have agreed on keys,
    /// and the peers that have given up.
    fn run(
        &mut self,
        mut queue: VecDeque<(Peer, Peer, view::Message)>,
        mut taken: impl FnMut(Peer, Peer, &view::Message) -> bool,
    ) -> (BTreeSet<Peer>, BTreeSet<Peer>) {
        let (mut agreed, mut failed) = (BTreeSet::new(), BTreeSet::new());
        let mut starts: VecDeque<Peer> =
            if queue.is_empty() { self.0.keys().copied().collect() } else { VecDeque::new() };
        loop {
            let (at, input) = match (starts.pop_front(), queue.pop_front()) {
                (Some(peer), other) => {
                    queue.extend(other);
                    (peer, Input::Start)
                }
                (None, Some((from, to, message))) => (to, Input::Message { from, message }),
                (None, None) => return (agreed, failed),
            };
            for action in self.0.get_mut(&at).unwrap().handle(Time(0), input).0 {
                match action {
                    Action::Send { to, message } if !taken(at, to, &message) => {
                        queue.push_back((at, to, message))
                    }
                    Action::Output(view::Output::Keys(_)) => drop(agreed.insert(at)),
                    Action::Output(view::Output::Failed(..)) => drop(failed.insert(at)),
                    _ => {}
                }
            }
        }
    }
}

/// The leader shows one half of the tree a different key of its own, and then knows all parts of the
/// draw. It could look for a key that makes its friends the only partners of a victim.
#[test]
fn a_leader_that_shows_two_keys_of_its_own_gets_nobody_to_agree_on_any() {
    let net = Network::new(66, &[1], timing(), 1);
    let members: Vec<_> = net.peers().collect();
    let leader = net.committee()[0];
    let ballot = Ballot { counter: 1, proposer: leader };
    let mut honest = Views::new(&net, ballot, &members);
    assert_eq!(
        honest.run(VecDeque::new(), |_, _, _| false),
        (members.iter().copied().collect(), BTreeSet::new())
    );

    let mut views = Views::new(&net, ballot, &members);
    let ctx = net.context(leader);
    let mut children = Vec::new();
    let mut keys = Vec::new();
    let first = views.run(VecDeque::new(), |from, to, message| {
        let view::Message::Down(_, Order::Keys(items)) = message else { return false };
        if from == leader {
            children.push(to);
            keys.clone_from(items);
        }
        from == leader
    });
    // The leader's own view has continued; it gets no further messages.
    assert!(first.0.is_empty() && first.1.is_empty() && children.len() == 2);
    let mut other = keys.clone();
    let own = other.iter_mut().find(|key| key.author == leader).unwrap();
    *own = Signed::new(&ctx, ViewKey { public: [9; 32], ..own.item.clone() });
    let shown = [keys, other].into_iter().zip(&children);
    let orders = shown.map(|(keys, &to)| (leader, to, view::Message::Down(ballot, Order::Keys(keys))));
    let mut reveals = Vec::new();
    views.run(orders.collect(), |_, to, message| {
        if let view::Message::Up(_, Report::Reveal(items)) = message
            && to == leader
        {
            reveals.extend(items.iter().cloned());
        }
        to == leader
    });
    assert_eq!(reveals.len() + 1, ctx.committee.len(), "all parts except its own");
    // The leader's own part of the draw; the leader signs it for each of the two lists.
    let mut secret = [0; 32];
    let mut random = <view::Rng as SeedableRng>::from_seed([leader.0 as u8; 32]);
    drop(EphemeralSecret::generate(&mut random));
    random.fill_bytes(&mut secret);
    let digests: BTreeSet<_> = reveals.iter().map(|reveal| reveal.item.keys).collect();
    assert_eq!(digests.len(), 2, "both halves have members that draw");
    let orders = children.iter().map(|&to| {
        let sign = |&keys| Signed::new(&ctx, Reveal { ballot, keys, secret });
        let own = digests.iter().map(sign).find(|own| views.0[&to].opens(own));
        let all = reveals.iter().cloned().chain(own).collect();
        (leader, to, view::Message::Down(ballot, Order::Reveal(all)))
    });
    let (agreed, failed) = views.run(orders.collect(), |_, to, _| to == leader);
    assert_eq!(agreed, BTreeSet::new(), "shares masks under a draw that its leader could choose");
    assert_eq!(
        failed,
        children.into_iter().collect(),
        "the peer that gets the order checks it and does not pass it on"
    );
}

#[test]
fn parts_of_a_draw_are_heeded_once_and_as_they_were_committed_to() {
    let net = Network::new(66, &[1], timing(), 1);
    let members: Vec<_> = net.peers().collect();
    let ballot = Ballot { counter: 1, proposer: net.committee()[0] };
    let mut views = Views::new(&net, ballot, &members);
    let (mut keys, mut parts) = (Vec::new(), Vec::new());
    views.run(VecDeque::new(), |from, to, message| {
        match message {
            view::Message::Down(_, Order::Keys(_)) => keys.push((from, to, message.clone())),
            // The first two parts for the leader are held back, and changed so that they break their
            // commitments.
            view::Message::Up(_, Report::Reveal(items))
                if !items.is_empty() && to == ballot.proposer && parts.len() < 2 =>
            {
                let mut other = items.clone();
                let mut item = items[0].item.clone();
                item.secret[0] ^= 1;
                other[0] = Signed::new(&net.context(items[0].author), item);
                parts.push((from, to, view::Message::Up(ballot, Report::Reveal(other))));
                return true;
            }
            _ => {}
        }
        false
    });
    let blamed = |views: &mut Views, (from, to, message): (Peer, Peer, view::Message)| {
        let step = views.0.get_mut(&to).unwrap().handle(Time(0), Input::Message { from, message });
        let failed = |action: &Action<View>| matches!(action, Action::Output(view::Output::Failed(..)));
        let named = |action: &Action<View>| matches!(action, Action::Blame { peer, .. } if *peer == from);
        (step.0.iter().any(named), step.0.iter().any(failed))
    };
    assert_eq!(parts.len(), 2);
    assert_eq!(blamed(&mut views, parts.remove(0)), (true, true), "not the part that it committed itself to");
    assert_eq!(blamed(&mut views, keys.swap_remove(0)), (false, true), "a second list of keys");
    let mut views = Views::new(&net, ballot, &members);
    let mut late = None;
    let (agreed, _) = views.run(VecDeque::new(), |from, to, message| {
        if matches!(message, view::Message::Up(_, Report::Reveal(_))) {
            late = Some((from, to, message.clone()));
        }
        false
    });
    assert_eq!(agreed.len(), members.len());
    assert_eq!(blamed(&mut views, late.unwrap()), (false, false), "a late item is not a fault");
}
