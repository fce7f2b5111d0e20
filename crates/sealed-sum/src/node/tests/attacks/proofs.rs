//! Released shares, keys of a view, and stored records, with one rule broken at a time.

use bytes::Bytes;
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
use crate::session::Peer;

#[test]
fn released_shares_count_if_they_are_those_that_were_dealt() {
    let done = Done::new();
    let record = &done.committed[1].record;
    let deals = &record.deals;
    let of = |at: usize| done.net.context(done.committee[at]);
    let ctx = of(2);
    let good = |at: usize| deal::release(&of(at), record).unwrap();
    // Any two members reconstruct the same pads.
    let pads = |members: [usize; 2]| {
        let mut opening = Opening::default();
        members.iter().for_each(|&at| opening.add(&ctx, deals, &good(at)).unwrap());
        opening.pads(&ctx, deals).unwrap().iter().map(|pad| **pad).collect::<Vec<_>>()
    };
    for members in [[0, 1], [0, 2], [1, 2]] {
        assert_eq!(pads(members), done.committed[1].pads, "{members:?}");
    }
    let mut one = Opening::default();
    one.add(&ctx, deals, &good(0)).unwrap();
    one.add(&ctx, deals, &good(0)).unwrap();
    assert!(one.pads(&ctx, deals).is_none(), "one member is not a quorum of two");
    let added = |by: Peer, change: &dyn Fn(&mut Release)| {
        let mut item = good(0).item;
        change(&mut item);
        Opening::default().add(&ctx, deals, &done.sign(by, item))
    };
    let by = done.committee[0];
    assert_eq!(added(by, &|_| ()), Ok(()));
    let bad = Err(Fault::BadShare);
    assert_eq!(added(by, &|item| item.shares[0] = item.shares[1]), bad, "another share");
    assert_eq!(added(by, &|item| item.shares[0] = [2; 32]), bad, "not a point");
    assert_eq!(added(by, &|item| item.challenge[0] ^= 1), bad);
    assert_eq!(added(by, &|item| item.response[0] ^= 1), bad);
    assert_eq!(added(done.committee[1], &|_| ()), bad, "of another member");
    let fits = |result: Result<(), Fault>| !matches!(result, Err(Fault::Inconsistent(_)));
    assert!(!fits(added(by, &|item| item.shares.truncate(1))), "a share is missing");
    assert!(!fits(added(by, &|item| item.shares.push([2; 32]))), "a share too many");
    assert!(!fits(added(by, &|item| item.sum.slot = 0)), "of another sum");
    let mut nobody = good(0);
    nobody.author = Peer(99);
    assert!(!nobody.verify(&ctx), "not a peer of the roster");
    nobody.author = done.other;
    assert_eq!(Opening::default().add(&ctx, deals, &nobody), Err(Fault::OutOfOrder("release")));
}

#[test]
fn the_keys_of_a_view_are_one_of_each_member_and_of_this_view() {
    let done = Done::new();
    let ctx = done.net.context(Peer(0));
    let members: Vec<_> = done.net.peers().collect();
    let ballot = Ballot { counter: 7, proposer: done.committee[0] };
    let key = |by: Peer, ballot| {
        done.sign(by, ViewKey { ballot, begun: [7; 32], public: [9; 32], commitment: None })
    };
    let keys: Vec<_> = members.iter().map(|&by| key(by, ballot)).collect();
    let fixed =
        |keys: &[Signed<ViewKey>]| ViewKeys::new(&ctx, (ballot, [7; 32]), &members, keys.to_vec()).is_some();
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
        _ => panic!("slot {slot} is missing"),
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
    // Records of a value that is acknowledged, but not yet committed.
    let accepted = |record: SumRecord, total: &Bytes| {
        vec![coin.clone(), Record::Accepted(ballot, record, total.clone())]
    };
    let good = restore(accepted(sum.record.clone(), &total)).unwrap();
    assert_eq!(good.votes.acceptor.accepted.unwrap().slot, 1);
    assert_eq!(good.votes.acceptor.promised, ballot, "it has promised the ballot in which it acknowledged");
    refused("acknowledged, another total", accepted(sum.record.clone(), &other));
    let mut record = sum.record.clone();
    record.deals.pop();
    refused("acknowledged, a deal is missing", accepted(record, &total));
    let early = vec![Record::Accepted(ballot, sum.record.clone(), total.clone())];
    assert_eq!(restore(early).unwrap().votes.acceptor.accepted, None, "of a slot that is not the next");
    // Records of a release.
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
    // Records of promises.
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
