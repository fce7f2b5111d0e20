//! Who shares masks with whom in views of more than 64: nobody chooses it, the leader neither, although it fixes
//! its key last.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;

use super::super::network::Network;
use super::super::numbers::timing;
use super::leader;
use crate::protocol::ballot::Ballot;
use crate::protocol::message::Message;
use crate::protocol::pairwise::{self, Reveal, ViewKey, ViewKeys};
use crate::protocol::signed::Signed;
use crate::protocol::view::{self, Order};
use crate::session::Peer;

#[test]
fn a_draw_needs_every_part_and_none_counts_under_other_keys() {
    let net = Network::new(66, &[1], timing(), 1);
    let members: Vec<_> = net.peers().collect();
    let ctx = net.context(members[0]);
    let ballot = Ballot { counter: 1, proposer: ctx.council[0] };
    let part = |peer: Peer| [peer.0 as u8; 32];
    let key = |&peer: &Peer| {
        let commitment = pairwise::commitment(&ctx, ballot, peer, &part(peer));
        let commitment = ctx.draws(peer, &members).then_some(commitment);
        Signed::new(&net.context(peer), ViewKey { ballot, public: [9; 32], commitment })
    };
    let keys: Vec<_> = members.iter().map(key).collect();
    let fixed = |keys: &[Signed<ViewKey>]| ViewKeys::new(&ctx, ballot, &members, keys.to_vec());
    let all = fixed(&keys).unwrap();
    let reveal = |keys: &ViewKeys, author: Peer, secret: [u8; 32]| {
        Signed::new(&net.context(author), Reveal { ballot, keys: keys.digest, secret })
    };
    let reveals: Vec<_> = ctx.council.iter().map(|&peer| reveal(&all, peer, part(peer))).collect();
    assert!(reveals.len() > 3 && all.draw(&ctx, &reveals).is_some());
    assert_eq!(all.draw(&ctx, &reveals[1..]), None, "one is missing");
    let twice = [&reveals[1..], &reveals[1..2]].concat();
    assert_eq!(all.draw(&ctx, &twice), None, "one is there twice");
    let with = |first: Signed<Reveal>| [vec![first], reveals[1..].to_vec()].concat();
    assert_eq!(
        all.draw(&ctx, &with(reveal(&all, ctx.council[0], [0; 32]))),
        None,
        "not what was committed to"
    );
    let mut forged = reveal(&all, ctx.council[1], part(ctx.council[0]));
    forged.author = ctx.council[0];
    assert_eq!(all.draw(&ctx, &with(forged)), None, "not signed by its author");
    // The leader puts another key of its own in the list.
    let last = ballot.proposer.index();
    let mut other = keys.clone();
    other[last] =
        Signed::new(&net.context(ballot.proposer), ViewKey { public: [8; 32], ..keys[last].item.clone() });
    assert_eq!(fixed(&other).unwrap().draw(&ctx, &reveals), None, "revealed for other keys");
    // Who must commit itself does, and nobody else.
    let mut bare = keys.clone();
    bare[last].item.commitment = None;
    assert!(fixed(&bare).is_none());
    let spare = members.iter().position(|&peer| !ctx.draws(peer, &members)).unwrap();
    let mut more = keys;
    more[spare].item.commitment = Some([0; 32]);
    assert!(fixed(&more).is_none());
}

/// It knows all parts by then: it could look for a key that makes its friends a victim's only partners.
#[test]
fn a_leader_that_changes_its_key_after_the_draw_gets_no_sum() {
    let mut net = Network::new(66, &[1], timing(), 1);
    let liar = leader(&net);
    net.liars.insert(liar);
    let (ctx, victim) = (net.context(liar), Rc::new(Cell::new(None)));
    net.rewrite = Some(Box::new(move |from, to, message| {
        let Message::View(view::Message::Down(ballot, Order::Keys(keys))) = message else { return None };
        let first = victim.get().unwrap_or(to);
        victim.set(Some(first));
        if from != liar || first != to {
            return None;
        }
        let mut keys = keys.clone();
        let own = keys.iter_mut().find(|key| key.author == liar)?;
        *own = Signed::new(&ctx, ViewKey { public: [9; 32], ..own.item.clone() });
        Some(Message::View(view::Message::Down(*ballot, Order::Keys(keys))))
    }));
    let over = |net: &Network| net.peers().any(|peer| !net.failures(peer).is_empty());
    net.run_unchecked(20_000, |net| over(net) || !net.travelled.is_empty());
    assert!(over(&net) && net.travelled.is_empty(), "a sum began: {:?}", net.current());
    assert!(net.named().is_subset(&BTreeSet::from([liar])));
}
