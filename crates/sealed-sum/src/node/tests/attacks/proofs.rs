//! Proofs that a pad is unsound, keys of a view, and stored records, with one rule broken at a time.

use bytes::Bytes;
use chacha20::rand_core::SeedableRng;
use sha2::Digest;

use super::items::Done;
use crate::node::archive::{self, RestoreError};
use crate::node::{Node, Record};
use crate::protocol::Fault;
use crate::protocol::ballot::Ballot;
use crate::protocol::context::{Context, Kind};
use crate::protocol::deal::{self, Opening, Release};
use crate::protocol::pairwise::{ViewKey, ViewKeys};
use crate::protocol::record::{Acknowledgement, Committed, Record as SumRecord};
use crate::protocol::signed::Signed;
use crate::protocol::sum_id::SumId;
use crate::protocol::view::Rng;
use crate::session::Peer;

/// Returns a decided slot with one deal whose pad does not match its published hash.
fn unsound(done: &Done, slot: u32) -> Committed {
    let ctx = done.net.context(Peer(0));
    let sum = SumId { slot, ..done.committed[1].record.value.sum };
    let mut rng = Rng::from_seed([5; 32]);
    let deal = |&peer: &Peer| deal::make(&done.net.context(peer), sum, &mut rng).1;
    let mut deals: Vec<_> = done.committee.iter().map(deal).collect();
    let mut item = deals[0].item.clone();
    item.pad_hash[0] ^= 1;
    deals[0] = done.sign(deals[0].author, item);
    let record = SumRecord::new(sum, done.net.peers().collect(), [0; 32], deals);
    let value = record.digest(&ctx);
    let item = Acknowledgement { ballot: sum.ballot, slot, value };
    let acknowledgements = done.committee.iter().map(|&by| done.sign(by, item.clone())).collect();
    let releases: Vec<_> = done.committee.iter().map(|&by| release(done, by, &record)).collect();
    let mut opening = Opening::default();
    releases.iter().for_each(|release| opening.add(&ctx, &record.deals, release).unwrap());
    let pads = opening.pads(&ctx, &record.deals).unwrap();
    let pads = pads.into_iter().map(|pad| pad.map(|pad| *pad)).collect();
    Committed { record, acknowledgements, pads, releases }
}

fn release(done: &Done, by: Peer, record: &SumRecord) -> Signed<Release> {
    let ctx = done.net.context(by);
    let shares = deal::own_shares(&ctx, ctx.committee_index(by).unwrap(), &record.deals).unwrap();
    done.sign(by, Release { sum: record.value.sum, value: record.digest(&ctx), shares })
}

#[test]
fn a_coin_goes_without_a_pad_that_releases_show_to_be_unsound_and_nothing_else_does() {
    let done = Done::new();
    let ctx = done.net.context(Peer(0));
    let [coin, sum] = [0, 1].map(|slot| unsound(&done, slot));
    assert_eq!(coin.pads.iter().filter(|pad| pad.is_none()).count(), 1);
    assert_eq!(coin.check(&ctx), Ok(()));
    assert!(sum.check(&ctx).is_err(), "a sum without a pad");
    let refused = |what: &str, change: &dyn Fn(&mut Committed)| {
        let mut committed = coin.clone();
        change(&mut committed);
        assert!(committed.check(&ctx).is_err(), "{what}");
    };
    let other = |at: usize, change: &dyn Fn(&mut Release)| {
        let mut item = coin.releases[at].item.clone();
        change(&mut item);
        done.sign(coin.releases[at].author, item)
    };
    refused("more releases than committee members", &|committed| {
        committed.releases.extend(coin.releases.clone())
    });
    refused("a release of another value", &|committed| {
        committed.releases[0] = other(0, &|item| item.value[0] ^= 1);
    });
    refused("a release with a wrong share", &|committed| {
        committed.releases[2] = other(2, &|item| item.shares[1].1[0] ^= 1);
    });
    refused("a release that its author has not signed", &|committed| {
        let mut forged = done.sign(done.committee[1], coin.releases[0].item.clone());
        forged.author = done.committee[0];
        committed.releases[0] = forged;
    });
    let mut altered = done.committed[1].clone();
    assert_eq!(altered.check(&ctx), Ok(()));
    altered.record.deals[1].item.share_hashes[0][0] ^= 1;
    assert!(altered.check(&ctx).is_err(), "a deal that its dealer has not signed");
}

#[test]
fn shares_count_as_their_dealer_has_published_them() {
    let done = Done::new();
    let deals = &done.committed[1].record.deals;
    let of = |at: usize| done.net.context(done.committee[at]);
    let with = |change: &dyn Fn(&mut deal::Deal)| {
        let mut deals = deals.clone();
        let mut item = deals[0].item.clone();
        change(&mut item);
        deals[0] = done.sign(deals[0].author, item);
        deals
    };
    assert!(deal::own_shares(&of(1), 1, deals).is_ok());
    let hash = with(&|deal| deal.share_hashes[1][0] ^= 1);
    let Err((dealer, Fault::BadDeal(_))) = deal::own_shares(&of(1), 1, &hash) else { panic!("another hash") };
    assert_eq!(dealer, deals[0].author);
    assert!(deal::own_shares(&of(0), 0, &hash).is_ok(), "of another's share");
    // The first two members reconstruct the pads. A pad counts only if the third hash fits its polynomial
    // too.
    let pads = |deals: &[Signed<deal::Deal>]| {
        let mut opening = Opening::default();
        for &by in &done.committee[..2] {
            let record = SumRecord { deals: deals.to_vec(), ..done.committed[1].record.clone() };
            opening.add(&of(2), deals, &release(&done, by, &record)).unwrap();
        }
        let pads = opening.pads(&of(2), deals).unwrap();
        pads.iter().map(Option::is_some).collect::<Vec<_>>()
    };
    assert_eq!(pads(deals), [true, true, true]);
    assert_eq!(pads(&with(&|deal| deal.share_hashes[2][0] ^= 1)), [false, true, true]);
    assert_eq!(pads(&with(&|deal| deal.pad_hash[0] ^= 1)), [false, true, true]);
    let mut wrong = release(&done, done.committee[0], &done.committed[1].record).item;
    wrong.shares[0].1[0] ^= 1;
    let wrong = done.sign(done.committee[0], wrong);
    let added = Opening::default().add(&of(2), deals, &wrong);
    assert_eq!(added, Err(Fault::BadShare(deals[0].author)));
    let mut nobody = release(&done, done.committee[0], &done.committed[1].record);
    nobody.author = Peer(99);
    assert!(!nobody.verify(&of(2)), "nobody of the roster");
    nobody.author = done.other;
    assert_eq!(Opening::default().add(&of(2), deals, &nobody), Err(Fault::OutOfOrder("release")));
}

#[test]
fn the_keys_of_a_view_are_one_of_each_member_and_of_this_view() {
    let done = Done::new();
    let ctx = done.net.context(Peer(0));
    let members: Vec<_> = done.net.peers().collect();
    let ballot = Ballot { counter: 7, proposer: done.committee[0] };
    let key = |by: Peer, ballot| done.sign(by, ViewKey { ballot, public: [9; 32], commitment: None });
    let keys: Vec<_> = members.iter().map(|&by| key(by, ballot)).collect();
    let fixed = |keys: &[Signed<ViewKey>]| ViewKeys::new(&ctx, ballot, &members, keys.to_vec()).is_some();
    assert!(fixed(&keys) && !fixed(&keys[1..]));
    assert!(!fixed(&[&keys[..], &keys[..1]].concat()), "one twice");
    let earlier = key(members[0], Ballot { counter: 6, ..ballot });
    assert!(!fixed(&[&[earlier], &keys[1..]].concat()), "of another view");
}

#[test]
fn stored_records_that_do_not_fit_each_other_or_their_proofs_are_refused() {
    let done = Done::new();
    let ctx = done.net.context(Peer(0));
    let stored = |slot: u32| match done.net.disk(Peer(0)).get(&format!("committed-{slot}")) {
        Some(Record::Committed(committed, total)) => (committed.clone(), total.clone()),
        _ => panic!("slot {slot} is not there"),
    };
    let ((coin, empty), (sum, total)) = (stored(0), stored(1));
    let ballot = sum.acknowledgements[0].item.ballot;
    let restore = |records: Vec<Record>| archive::restore(&ctx, records);
    let coin = Record::Committed(coin, empty);
    let committed = |sum: Committed, total: &Bytes| vec![coin.clone(), Record::Committed(sum, total.clone())];
    let refused = |what: &str, records: Vec<Record>| {
        let told = restore(records).err();
        assert!(matches!(told, Some(RestoreError::Broken(1, _))), "{what}: {told:?}");
    };
    let other = Bytes::from(vec![0xaa; total.len()]);
    assert_eq!(restore(committed(sum.clone(), &total)).unwrap().archive.committed(), 2);
    assert!(matches!(
        restore(committed(sum.clone(), &total)[1..].to_vec()),
        Err(RestoreError::MissingCell(1))
    ));
    let few = Committed { acknowledgements: sum.acknowledgements[..1].to_vec(), ..sum.clone() };
    refused("decided by too few", committed(few, &total));
    refused("another total", committed(sum.clone(), &other));
    // Acknowledged, but not yet committed.
    let accepted = |record: SumRecord, total: &Bytes| {
        vec![coin.clone(), Record::Accepted(ballot, record, total.clone())]
    };
    let good = restore(accepted(sum.record.clone(), &total)).unwrap();
    assert_eq!(good.votes.acceptor.accepted.unwrap().slot, 1);
    assert_eq!(good.votes.acceptor.promised, ballot, "what it acknowledged it has promised");
    refused("acknowledged, another total", accepted(sum.record.clone(), &other));
    let mut record = sum.record.clone();
    record.deals.pop();
    refused("acknowledged, a deal is missing", accepted(record, &total));
    let early = vec![Record::Accepted(ballot, sum.record.clone(), total.clone())];
    assert_eq!(restore(early).unwrap().votes.acceptor.accepted, None, "of a slot that is not the next");
    // Released.
    let value = sum.record.digest(&ctx);
    let released = |acks: &[Signed<Acknowledgement>]| Record::Released(1, value, acks.to_vec());
    let with = |acks: &[_]| [accepted(sum.record.clone(), &total), vec![released(acks)]].concat();
    let good = restore(with(&sum.acknowledgements)).unwrap();
    assert_eq!(
        (good.votes.acceptor.released, good.votes.decision.len()),
        (Some(value), sum.acknowledgements.len())
    );
    refused("released what was not decided", with(&sum.acknowledgements[..1]));
    let over = [committed(sum.clone(), &total), vec![released(&sum.acknowledgements)]].concat();
    assert_eq!(restore(over).unwrap().votes.acceptor.released, None, "of a slot that is committed");
    // Promises.
    let high = Ballot { counter: 70, ..ballot };
    for records in [vec![Record::Joined(high)], vec![Record::Promised(high), Record::Promised(ballot)]] {
        assert_eq!(restore(records).unwrap().votes.acceptor.promised, high);
    }
}

#[test]
fn stored_noise_is_that_which_was_written() {
    let done = Done::new();
    let of = |kind: Kind| {
        let mut ctx = done.net.context(Peer(0));
        ctx.plan[1].kind = kind;
        ctx
    };
    let refused = |what: &str, ctx: &Context, record: Record| {
        let told = archive::restore(ctx, vec![record]).err();
        assert!(matches!(told, Some(RestoreError::Broken(1, _))), "{what}: {told:?}");
    };
    let bytes = |length: usize| Bytes::from(vec![7; length]);
    let noised = |length: usize| Record::Noised(1, sha2::Sha256::digest(bytes(length)).into(), bytes(length));
    let noisy = of(Kind::Noised);
    assert_eq!(archive::restore(&noisy, vec![noised(12)]).unwrap().noised[&1], bytes(12));
    refused("another length", &noisy, noised(8));
    refused("another vector", &noisy, Record::Noised(1, [0; 32], bytes(12)));
    refused("noise of a sum without any", &of(Kind::Exact), noised(12));
    // The constructor of a node checks the stored records.
    let task = std::sync::Arc::new(super::super::numbers::Numbers { me: Peer(0), words: vec![3] });
    assert!(Node::new(std::sync::Arc::new(of(Kind::Exact)), task, [0; 32], vec![noised(12)]).is_err());
}
