//! Promises, acknowledgements, deals and records with one rule broken at a time, and everything else correct.

use crate::harness::numbers::Session;
use crate::protocol::ballot::Ballot;
use crate::protocol::committee::{self, Accepted, Promise};
use crate::protocol::deal::{self, Deal};
use crate::protocol::promise::{self, Promised};
use crate::protocol::record::{self, Acknowledgement, Committed, Record};
use crate::protocol::signed::{Item, Signed};
use crate::protocol::view::Rng;
use crate::session::Peer;
use chacha20::rand_core::SeedableRng;

use super::super::network::Network;
use super::super::numbers::timing;

/// Change that makes a promise wrong.
type Change<'a> = dyn Fn(&mut Promised) + 'a;

/// Five peers that have finished; three of them are the committee.
pub(super) struct Done {
    pub(super) net: Network,
    pub(super) committee: Vec<Peer>,
    pub(super) other: Peer,
    pub(super) committed: [Committed; 2],
}

impl Done {
    pub(super) fn new() -> Self {
        let named = |session: &mut Session| {
            session.voting.members = (0..3).map(|i| session.roster[i].name.clone()).collect();
        };
        let mut net = Network::altered(5, &[3], timing(), 4, named);
        net.run(60_000);
        let committee = net.committee();
        let other = net.peers().find(|peer| !committee.contains(peer)).unwrap();
        let committed = [0, 1].map(|slot| match net.disk(Peer(0)).get(&format!("committed-{slot}")) {
            Some(crate::node::Record::Committed(committed, _) | crate::node::Record::Bare(committed)) => {
                committed.clone()
            }
            _ => panic!("slot {slot} is missing"),
        });
        Self { net, committee, other, committed }
    }

    pub(super) fn sign<T: Item>(&self, by: Peer, item: T) -> Signed<T> {
        Signed::new(&self.net.context(by), item)
    }
}

#[test]
fn a_promise_with_any_rule_of_it_broken_is_refused() {
    let done = Done::new();
    let ctx = done.net.context(Peer(0));
    let ballot = Ballot { counter: 50, proposer: done.committee[0] };
    let [coin, sum] = &done.committed;
    let (acks, earlier) = (&sum.acknowledgements, sum.acknowledgements[0].item.ballot);
    let accepted = Some(Accepted { ballot: earlier, slot: 1, value: sum.record.digest(&ctx) });
    let promise = Promise { committed: 1, accepted, released: true };
    let plain = super::messages::promised(&done.net, ballot, &[]);
    let good = Promised { promise, decision: acks.clone(), ..plain };
    let broken = |by: Peer, change: &dyn Fn(&mut Promised)| {
        let mut item = good.clone();
        change(&mut item);
        promise::check(&ctx, ballot, &done.sign(by, item))
    };
    let by = done.committee[0];
    assert_eq!(broken(by, &|_| ()), Ok(()));
    let free = |item: &mut Promised| {
        (item.promise.accepted, item.promise.released, item.decision) = (None, false, Vec::new());
    };
    assert_eq!(broken(by, &free), Ok(()));
    assert!(broken(done.other, &|_| ()).is_err(), "not of the committee");
    let accept = |item: &mut Promised, change: &dyn Fn(&mut Accepted<[u8; 32]>)| {
        change(item.promise.accepted.as_mut().unwrap());
    };
    let of_coin = |item: &mut Promised| {
        let value = coin.record.digest(&ctx);
        accept(item, &|accepted| (accepted.slot, accepted.value) = (0, value));
        item.decision.clone_from(&coin.acknowledgements);
    };
    let changes: [(&str, &Change<'_>); 8] = [
        ("another ballot", &|item| item.ballot.counter += 1),
        ("more committed slots than there are", &|item| {
            free(item);
            item.promise.committed = 3;
        }),
        ("a value of another slot than the next", &of_coin),
        ("a value of the same ballot", &|item| accept(item, &|accepted| accepted.ballot = ballot)),
        ("a decision without a release", &|item| item.promise.released = false),
        ("a release without a decision", &|item| item.decision = Vec::new()),
        ("a release without an acknowledged value", &|item| item.promise.accepted = None),
        ("a decision of too few", &|item| item.decision.truncate(1)),
    ];
    for (what, change) in changes {
        assert!(broken(by, change).is_err(), "{what}");
    }
    let mut forged = done.sign(by, good.clone());
    forged.author = done.committee[1];
    assert!(promise::check(&ctx, ballot, &forged).is_err(), "another's signature");
}

#[test]
fn nobody_is_convicted_by_what_it_did_not_sign_or_of_two_slots() {
    let done = Done::new();
    let ctx = done.net.context(Peer(0));
    let (a, b) = (done.committee[0], done.committee[1]);
    let ballot = Ballot { counter: 7, proposer: a };
    let ack = |by, slot, value| done.sign(by, Acknowledgement { ballot, slot, value: [value; 32] });
    let names = |items: &[Signed<Acknowledgement>]| promise::equivocator(&ctx, items.iter());
    assert_eq!(names(&[ack(a, 1, 1), ack(a, 1, 2)]), Some(a));
    assert_eq!(names(&[ack(a, 1, 1), ack(a, 0, 2)]), None, "two slots");
    assert_eq!(names(&[ack(a, 1, 1), ack(b, 1, 2)]), None, "two authors");
    let mut forged = ack(b, 1, 2);
    forged.author = a;
    assert_eq!(names(&[ack(a, 1, 1), forged]), None, "not its signature");
}

#[test]
fn acknowledgements_that_break_any_rule_decide_nothing() {
    let done = Done::new();
    let ctx = done.net.context(Peer(0));
    let sum = &done.committed[1];
    let (value, item) = (sum.record.digest(&ctx), sum.acknowledgements[0].item.clone());
    let (a, b) = (done.committee[0], done.committee[1]);
    let decided = |items: &[Signed<Acknowledgement>]| record::decided(&ctx, 1, &value, items);
    let first = done.sign(a, item.clone());
    let second = |by, change: &dyn Fn(&mut Acknowledgement)| {
        let mut item = item.clone();
        change(&mut item);
        [first.clone(), done.sign(by, item)]
    };
    assert!(decided(&second(b, &|_| ())));
    assert!(!decided(&second(b, &|item| item.ballot.counter += 1)), "of two ballots");
    assert!(!decided(&second(b, &|item| item.slot = 0)), "of another slot");
    assert!(!decided(&second(b, &|item| item.value[0] ^= 1)), "of another value");
    assert!(!decided(&second(done.other, &|_| ())), "not of the committee");
    assert!(!decided(&second(a, &|_| ())), "twice the same");
    assert!(!decided(&second(b, &|_| ())[..1]), "too few");
    let mut forged = second(done.committee[2], &|_| ());
    forged[1].author = b;
    assert!(!decided(&forged), "another's signature");
    let many = [second(b, &|_| ()), second(b, &|_| ())].concat();
    assert!(!decided(&many), "more than the committee has members");
    // An item that does not fit is not skipped, so all peers reach the same verdict.
    let third = |by, change: &dyn Fn(&mut Acknowledgement)| {
        let [_, third] = second(by, change);
        [&second(b, &|_| ())[..], &[third]].concat()
    };
    let c = done.committee[2];
    assert!(decided(&third(c, &|_| ())));
    assert!(!decided(&third(c, &|item| item.value[0] ^= 1)), "one of three for another value");
    assert!(!decided(&third(b, &|_| ())), "one of three twice");
}

/// A leader that lies can get two values acknowledged in one ballot.
#[test]
fn the_value_to_finish_does_not_depend_on_the_order_of_the_promises() {
    let ballot = |counter| Ballot { counter, proposer: Peer(0) };
    let promise = |counter, value, released| Promise {
        committed: 4,
        accepted: Some(Accepted { ballot: ballot(counter), slot: 4, value }),
        released,
    };
    for (promises, expected) in [
        ([promise(3, 'a', false), promise(3, 'b', false), promise(2, 'c', false)], 'a'),
        ([promise(2, 'a', false), promise(3, 'b', false), promise(3, 'c', false)], 'b'),
        ([promise(3, 'a', false), promise(2, 'b', true), promise(2, 'c', true)], 'b'),
    ] {
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let duty = committee::oblige(order.iter().map(|&at| (at, &promises[at]))).unwrap();
            assert_eq!(duty.resume.unwrap().1.value, expected, "{order:?}");
        }
    }
}

#[test]
fn records_and_deals_that_break_any_rule_are_refused() {
    let done = Done::new();
    let ctx = done.net.context(Peer(0));
    let good = &done.committed[1].record;
    let (value, deals) = (&good.value, &good.deals);
    let of =
        |members: Vec<Peer>, deals: Vec<Signed<Deal>>| Record::new(value.sum, members, value.total, deals);
    let refused = |what: &str, record: &Record| assert!(record.check(&ctx).is_err(), "{what}");
    assert_eq!(good.check(&ctx), Ok(()));
    let mut members = value.members.clone();
    members.reverse();
    refused("members do not ascend", &of(members, deals.clone()));
    let beyond = [value.members.clone(), vec![Peer(9)]].concat();
    refused("a member outside the roster", &of(beyond, deals.clone()));
    let mut other = good.clone();
    other.value.deals[0] ^= 1;
    refused("another digest of the deals", &other);
    refused("a deal is missing", &of(value.members.clone(), deals[1..].to_vec()));
    // All dealers make new deals for a slot that does not exist.
    let mut rng = Rng::from_seed([5; 32]);
    let mut beyond = value.clone();
    beyond.sum.slot = 9;
    let anew = deals.iter().map(|deal| deal::make(&done.net.context(deal.author), beyond.sum, &mut rng).1);
    refused("no such slot", &Record::new(beyond.sum, beyond.members, beyond.total, anew.collect()));
    let with = |change: &dyn Fn(&mut Deal)| {
        let mut deals = deals.clone();
        let mut item = deals[0].item.clone();
        change(&mut item);
        deals[0] = done.sign(deals[0].author, item);
        of(value.members.clone(), deals)
    };
    assert_eq!(with(&|_| ()).check(&ctx), Ok(()));
    refused("a deal of another sum", &with(&|deal| deal.sum.slot = 0));
    refused(
        "a share is missing",
        &with(&|deal| {
            deal.dealt.shares.pop();
        }),
    );
    refused(
        "a part of the proof is missing",
        &with(&|deal| {
            deal.dealt.responses.pop();
        }),
    );
    let mut forged = deals.clone();
    let mut item = forged[0].item.clone();
    item.dealt.challenge[0] ^= 1;
    forged[0] = done.sign(forged[1].author, item);
    forged[0].author = deals[0].author;
    refused("shares that were not dealt", &with(&|deal| deal.dealt.shares.swap(0, 1)));
    refused("a deal that its dealer has not signed", &of(value.members.clone(), forged));
}

#[test]
fn a_committed_slot_that_breaks_any_rule_is_refused() {
    let done = Done::new();
    let ctx = done.net.context(Peer(0));
    let [coin, sum] = &done.committed;
    assert_eq!((coin.check(&ctx), sum.check(&ctx)), (Ok(()), Ok(())));
    let refused = |what: &str, of: &Committed, change: &dyn Fn(&mut Committed)| {
        let mut committed = of.clone();
        change(&mut committed);
        assert!(committed.check(&ctx).is_err(), "{what}");
    };
    refused("deals", sum, &|committed| {
        committed.record.deals.pop();
    });
    refused("too few acknowledgements", sum, &|committed| committed.acknowledgements.truncate(1));
    refused("one pad too many", sum, &|committed| committed.pads.push([0; 32]));
    refused("one pad too few", sum, &|committed| {
        committed.pads.pop();
    });
    refused("another pad", sum, &|committed| committed.pads[0] = [1; 32]);
    for (what, of) in [("coin", coin), ("sum", sum)] {
        let other = |committed: &mut Committed, at: usize, change: &dyn Fn(&mut deal::Release)| {
            let mut item = committed.releases[at].item.clone();
            change(&mut item);
            committed.releases[at] = done.sign(committed.releases[at].author, item);
        };
        let refused = |why: &str, change: &dyn Fn(&mut Committed)| {
            refused(&format!("{what}: {why}"), of, change);
        };
        assert_eq!(of.releases.len(), ctx.quorum);
        refused("too few releases", &|committed| committed.releases.truncate(1));
        refused("more releases than a quorum", &|committed| {
            let by = *done
                .committee
                .iter()
                .find(|by| committed.releases.iter().all(|r| r.author != **by))
                .unwrap();
            committed.releases.push(deal::release(&done.net.context(by), &of.record).unwrap());
        });
        refused("one release twice", &|committed| committed.releases[1] = committed.releases[0].clone());
        refused("a release of another value", &|committed| other(committed, 0, &|item| item.value[0] ^= 1));
        refused("a release of another sum", &|committed| other(committed, 0, &|item| item.sum.slot ^= 1));
        refused("a release with a wrong share", &|committed| {
            other(committed, 1, &|item| item.shares[1] = item.shares[0]);
        });
        refused("a release with another member's proof", &|committed| {
            let from = committed.releases[0].item.clone();
            other(committed, 1, &|item| (item.challenge, item.response) = (from.challenge, from.response));
        });
        refused("a release that its author has not signed", &|committed| {
            let mut forged = done.sign(committed.releases[1].author, committed.releases[0].item.clone());
            forged.author = committed.releases[0].author;
            committed.releases[0] = forged;
        });
        refused("a release of a peer outside the committee", &|committed| {
            let item = committed.releases[0].item.clone();
            committed.releases[0] = done.sign(done.other, item);
        });
    }
}
