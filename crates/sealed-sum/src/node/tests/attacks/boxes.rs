//! Attacks by dealers: their shares do not belong to one secret, or one peer cannot open its share.
//! Every peer can see this, so the first honest peer that gets such a deal names the dealer. In the
//! past only the victim noticed. Without proof, the victim was left out; or the sum could not be
//! opened, and the session ended.

use std::collections::BTreeSet;

use chacha20::rand_core::SeedableRng;
use curve25519_dalek::constants::EIGHT_TORSION;
use curve25519_dalek::edwards::CompressedEdwardsY;

use super::super::network::{Network, Rewrite};
use super::super::numbers::timing;
use super::bounds::{Runs, honest_are_in_every_sum, longest, quarrels};
use super::honest_finish;
use crate::crypto::sharing;
use crate::protocol::context::Context;
use crate::protocol::deal::Deal;
use crate::protocol::marks;
use crate::protocol::message::Message;
use crate::protocol::record::Record;
use crate::protocol::signed::{Item, Signed};
use crate::protocol::view::{self, Order, Report, Rng};
use crate::session::{Faults, Peer};

/// Ways to deal wrongly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Wrong {
    /// The members at these places of the committee get a point that is not their share.
    Shares(&'static [usize]),
    /// One member gets bytes that are not a point.
    NoPoint,
    /// The shares belong to a polynomial of too high a degree. All are points that their holders can
    /// open.
    Degree,
    /// One share has a part of small order.
    Twisted,
    /// The liar copies the deal of another dealer.
    Copied,
    /// The liar repeats its own deal of an earlier sum.
    Repeated,
}

pub(in super::super) const WRONG: [Wrong; 7] = [
    Wrong::Shares(&[1]),
    Wrong::Shares(&[0, 2]),
    Wrong::NoPoint,
    Wrong::Degree,
    Wrong::Twisted,
    Wrong::Copied,
    Wrong::Repeated,
];

/// Returns the liar's deal in a wrong form. `None` if there is nothing to copy or to repeat yet.
pub(in super::super) fn wrong(
    ctx: &Context,
    kind: Wrong,
    own: &Deal,
    others: &[Signed<Deal>],
    earlier: &[Deal],
) -> Option<Deal> {
    let mut item = own.clone();
    let shares = &mut item.dealt.shares;
    match kind {
        Wrong::Shares(places) => {
            let last = shares.len() - 1;
            places.iter().for_each(|&place| shares[place] = shares[(place + 1).min(last) % last]);
        }
        Wrong::NoPoint => shares[1] = [2; 32],
        Wrong::Degree => {
            let keys: Vec<_> = ctx.committee.iter().map(|&peer| ctx.session.key(peer)).collect();
            let context = [&ctx.id.0[..], &own.sum.to_bytes(), &ctx.me.0.to_le_bytes()].concat();
            let mut rng = Rng::from_seed([7; 32]);
            (_, item.dealt) = sharing::deal(&keys, ctx.quorum + 1, &context, &mut rng);
            item.dealt.responses.truncate(ctx.quorum);
        }
        Wrong::Twisted => {
            let point = CompressedEdwardsY(shares[1]).decompress()? + EIGHT_TORSION[1];
            shares[1] = point.compress().to_bytes();
        }
        Wrong::Copied => {
            item.dealt = others.iter().find(|deal| deal.author != ctx.me)?.item.dealt.clone();
        }
        Wrong::Repeated => item.dealt = earlier.iter().find(|deal| deal.sum != own.sum)?.dealt.clone(),
    }
    assert!(!item.is_sound(ctx, ctx.me), "{kind:?}");
    Some(item)
}

/// Makes the liar deal wrongly in each sum of `from` or a later slot, as a leader and as a follower.
fn deals_wrongly(ctx: Context, kind: Wrong, from: u32) -> Rewrite {
    let mut earlier: Vec<Deal> = Vec::new();
    let mut changed = move |deals: &[Signed<Deal>]| {
        let mut deals = deals.to_vec();
        let others = deals.clone();
        for deal in deals.iter_mut().filter(|deal| deal.author == ctx.me) {
            let item = wrong(&ctx, kind, &deal.item, &others, &earlier);
            earlier.push(deal.item.clone());
            if let Some(item) = item.filter(|item| item.sum.slot >= from) {
                *deal = Signed::new(&ctx, item);
            }
        }
        deals
    };
    Box::new(move |_, _, message| match message {
        Message::View(view::Message::Up(ballot, Report::TotalReady { slot, total, deals })) => {
            let report = Report::TotalReady { slot: *slot, total: *total, deals: changed(deals) };
            Some(Message::View(view::Message::Up(*ballot, report)))
        }
        Message::View(view::Message::Down(ballot, Order::Accept(record))) => {
            let value = &record.value;
            let deals = changed(&record.deals);
            let record = Record::new(value.sum, value.members.clone(), value.total, deals);
            Some(Message::View(view::Message::Down(*ballot, Order::Accept(record))))
        }
        _ => None,
    })
}

fn run(peers: u8, faults: Faults, kind: Wrong, from: u32, place: usize, seed: u64) -> BTreeSet<Peer> {
    let mut net = Network::altered(peers, &[3, 3], timing(), seed, |s| s.voting.faults = faults);
    let liar = net.committee()[place];
    net.liars.insert(liar);
    net.rewrite = Some(deals_wrongly(net.context(liar), kind, from));
    net.run_unchecked(1_200_000, |_| false);
    net.check();
    let what = format!("{peers} peers, {faults:?}, {kind:?} from slot {from}, place {place}, seed {seed}");
    honest_finish(&net, &what);
    honest_are_in_every_sum(&net, &what);
    assert!(net.named().is_subset(&net.liars), "{what}: {:?}", net.blames);
    assert_eq!(quarrels(&net), BTreeSet::new(), "{what}");
    let Runs { marked, barred, ended } = longest(&net);
    // The bound of the specification (section 8) for one liar.
    let bound = marks::borne(peers.into()).min(3) + 2;
    let fits = marked <= bound && barred == 0 && ended == 0;
    assert!(fits, "{what}: {marked} views in a row ended by marks, {barred} and {ended} others");
    net.named()
}

#[test]
fn a_dealer_that_gives_one_peer_a_bad_share_stops_nobody_and_gets_nobody_left_out() {
    for (peers, faults) in [
        (4, Faults::Crash),
        (4, Faults::Byzantine),
        (5, Faults::Crash),
        (5, Faults::Byzantine),
        (7, Faults::Byzantine),
        (15, Faults::Byzantine),
    ] {
        for seed in 0..if peers > 7 { 1 } else { 3 } {
            for place in [0, 2] {
                let named = run(peers, faults, Wrong::Shares(&[1]), 0, place, seed);
                assert_eq!(named.len(), 1, "{peers} peers, {faults:?}, place {place}, seed {seed}");
            }
        }
    }
}

#[test]
fn a_deal_that_is_wrong_in_any_way_names_its_dealer_and_stops_nobody() {
    for kind in WRONG {
        for (peers, faults) in [(4, Faults::Byzantine), (5, Faults::Crash)] {
            for from in 0..2 {
                for place in [0, 3] {
                    let named = run(peers, faults, kind, from, place, 1);
                    // A follower without peers below it has no deal to copy.
                    let can = kind != Wrong::Copied || place == 0 || named.len() == 1;
                    assert_eq!(named.len(), usize::from(can), "{peers} peers, {kind:?}, {from}, {place}");
                }
            }
        }
    }
}

/// A member may be away while a liar deals. When the member is back, it can open its shares without the
/// liar.
#[test]
fn a_member_that_was_away_opens_its_shares_when_the_dealer_is_gone() {
    use super::super::network::Fault;
    use crate::protocol::view::Stage;
    for seed in 0..6 {
        let mut net =
            Network::altered(4, &[3], timing(), seed, |session| session.voting.faults = Faults::Byzantine);
        let (away, gone) = (net.committee()[3], net.committee()[seed as usize % 3]);
        net.at_ms(0, Fault::Crash(away));
        let voted = |net: &Network| net.peers().any(|peer| net.reached(peer, 1, Stage::Release));
        net.run_unchecked(60_000, voted);
        assert!(!net.acknowledged(1).is_empty(), "seed {seed}");
        let now = net.now_ms();
        net.at_ms(now, Fault::Crash(gone));
        net.at_ms(now, Fault::Restart(away));
        net.run(120_000);
        let what = format!("seed {seed}: {:?}", net.endings());
        assert!(net.peers().filter(|peer| *peer != gone).all(|peer| net.opened(peer, 1)), "{what}");
    }
}

/// A liar passes on a deal that another liar has signed. Both are named.
#[test]
fn who_signs_a_wrong_deal_is_named_also_by_those_who_get_it_from_another() {
    let first = |seed| {
        let mut net = Network::altered(7, &[3], timing(), seed, |s| s.voting.faults = Faults::Byzantine);
        net.run_unchecked(10_000, |net| net.current().is_some());
        let tree = net.tree_of(net.current().unwrap());
        let above = |peer: Peer| tree.parent(peer);
        let dealer =
            tree.order().iter().copied().find(|&peer| above(peer).and_then(above).is_some()).unwrap();
        (tree.order()[0], above(dealer).unwrap(), dealer)
    };
    for seed in 0..3 {
        let (leader, carrier, dealer) = first(seed);
        let mut net = Network::altered(7, &[3], timing(), seed, |s| s.voting.faults = Faults::Byzantine);
        net.liars.extend([carrier, dealer]);
        let ctx = net.context(dealer);
        net.rewrite = Some(Box::new(move |from, _, message| {
            let Message::View(view::Message::Up(ballot, Report::TotalReady { slot, total, deals })) = message
            else {
                return None;
            };
            let mut deals = deals.clone();
            let deal = deals.iter_mut().find(|deal| deal.author == dealer).filter(|_| from == carrier)?;
            let item = wrong(&ctx, Wrong::Shares(&[1]), &deal.item, &[], &[])?;
            *deal = Signed::new(&ctx, item);
            let report = Report::TotalReady { slot: *slot, total: *total, deals };
            Some(Message::View(view::Message::Up(*ballot, report)))
        }));
        net.run_unchecked(600_000, |_| false);
        let what = format!("seed {seed}");
        honest_finish(&net, &what);
        honest_are_in_every_sum(&net, &what);
        let by_leader: BTreeSet<_> =
            net.blames.iter().filter(|(by, ..)| *by == leader).map(|(_, who, _)| *who).collect();
        assert_eq!(by_leader, net.liars, "{what}: {:?}", net.blames);
    }
}
