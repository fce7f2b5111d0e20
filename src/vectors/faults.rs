//! Messages that decode, and that their receiver must blame or ignore: each is put into the session of
//! `sum.json` at a time given in microseconds.

use crate::protocol::Fault;
use crate::protocol::all_reduce::{self, Direction};
use crate::protocol::ballot::Ballot;
use crate::protocol::committee::Promise;
use crate::protocol::failure::Failure;
use crate::protocol::message::{Message, VERSION};
use crate::protocol::promise::Promised;
use crate::protocol::signed::Signed;
use crate::protocol::sum_id::SumId;
use crate::protocol::transfer::{self, Want};
use crate::protocol::view::{self, Order, Reason, Report};
use crate::session::Peer;
use bytes::Bytes;
use serde_json::{Value, json};

use super::items::made;
use super::messages::frame;
use super::run::Run;
use super::sessions::small;

/// Nobody has said hello yet; everybody has; the view stands with its keys; slot 1 is being summed.
const START: u64 = 0;
const GREETED: u64 = 2_000;
const KEYS: u64 = 6_000;
const SUMMING: u64 = 16_500;

fn class(fault: &Fault) -> &'static str {
    match fault {
        Fault::Malformed(_) => "malformed",
        Fault::OutOfOrder(_) => "out-of-order",
        Fault::Inconsistent(_) => "inconsistent",
        Fault::BadSignature(_) => "bad-signature",
        Fault::BadShare(_) => "bad-share",
        Fault::BadDeal(_) => "bad-deal",
        Fault::TwoValues => "two-values",
        Fault::LowOrderKey => "low-order-key",
        Fault::BadRecord(_) => "bad-record",
        Fault::Transport(_) => "transport",
    }
}

pub(crate) fn faults() -> Value {
    let session = small(3);
    let id = session.id().0;
    let all = vec![Peer(0), Peer(1), Peer(2)];
    // The first of the committee leads the run; the two others are its children.
    let leader = session.committee()[0];
    let without = |peer| all.iter().copied().filter(|&each| each != peer).collect::<Vec<_>>();
    let [child, other] = without(leader)[..] else { panic!("three peers") };
    let view = Ballot { counter: 1, proposer: leader };
    let later = Ballot { counter: 2, proposer: leader };
    let stale = Ballot { counter: 0, proposer: leader };
    let for_child = Ballot { counter: 2, proposer: child };
    let foreign = made(1);
    let promise = |author: Peer, ballot| {
        let promise = Promise { committed: 0, accepted: None, released: false };
        Signed::new(&foreign.contexts[author.index()], Promised { ballot, promise, decision: Vec::new() })
    };
    let justified = |ballot, members: &[Peer], committed, promises| Message::Begin {
        ballot,
        members: members.to_vec(),
        committed,
        promises,
    };
    let begin = |ballot: Ballot, members: &[Peer], committed| {
        justified(ballot, members, committed, vec![promise(leader, ballot), promise(child, ballot)])
    };
    let failed = |author: Peer, ballot, suspect| {
        let failure = Failure { ballot, reason: Reason::Lost, suspect };
        Message::Failed(Signed::new(&foreign.contexts[author.index()], failure))
    };
    let up = |ballot, report| Message::View(view::Message::Up(ballot, report));
    let down = |ballot, order| Message::View(view::Message::Down(ballot, order));
    let hello = || Message::Hello { version: VERSION, session: id, committed: 0, trace: None };
    let status = || Message::Status { committed: 0, in_view: false };
    let sum = SumId { ballot: view, slot: 1 };
    let chunk = |sum, direction, index, length| {
        let data = Bytes::from(vec![0; length]);
        Message::View(view::Message::Reduce(all_reduce::Message::Chunk { sum, direction, index, data }))
    };
    let credit = |direction, index| {
        Message::View(view::Message::Reduce(all_reduce::Message::Credit { sum, direction, index }))
    };
    let slots = u32::try_from(foreign.contexts[0].plan.len()).unwrap();

    let blamed: Vec<(&str, u64, Peer, Peer, Message)> = vec![
        ("a message before hello", START, leader, child, status()),
        ("hello twice", GREETED, leader, child, hello()),
        ("prepare for another proposer", GREETED, other, child, Message::Prepare(later)),
        ("a suspect outside the roster", GREETED, leader, child, failed(leader, view, Some(Peer(3)))),
        (
            "begin: members do not ascend",
            GREETED,
            leader,
            child,
            begin(later, &[Peer(1), Peer(0), Peer(2)], 0),
        ),
        (
            "begin: a member twice",
            GREETED,
            leader,
            child,
            begin(later, &[Peer(0), Peer(0), Peer(1), Peer(2)], 0),
        ),
        (
            "begin: a member outside the roster",
            GREETED,
            leader,
            child,
            begin(later, &[Peer(0), Peer(1), Peer(2), Peer(3)], 0),
        ),
        ("begin: the receiver is no member", GREETED, leader, child, begin(later, &without(child), 0)),
        ("begin: the proposer is no member", GREETED, leader, child, begin(later, &without(leader), 0)),
        ("begin: the receiver is the proposer", GREETED, child, leader, begin(later, &all, 0)),
        ("begin: more slots committed than there are", GREETED, leader, child, begin(later, &all, slots + 1)),
        ("begin: from no parent", GREETED, other, child, begin(later, &all, 0)),
        ("begin: the promise of one of three", GREETED, leader, child, {
            justified(later, &all, 0, vec![promise(leader, later)])
        }),
        ("begin: one promise twice", GREETED, leader, child, {
            justified(later, &all, 0, vec![promise(leader, later), promise(leader, later)])
        }),
        ("begin: promises of another ballot", GREETED, leader, child, {
            justified(later, &all, 0, vec![promise(leader, view), promise(child, view)])
        }),
        ("begin: a forged promise", GREETED, leader, child, {
            let mut forged = promise(other, later);
            forged.item.promise.committed = 1;
            justified(later, &all, 1, vec![promise(leader, later), forged])
        }),
        ("begin: before what its promises have committed", GREETED, leader, child, {
            let mut ahead = promise(leader, later).item;
            ahead.promise.committed = 1;
            let ahead = Signed::new(&foreign.contexts[leader.index()], ahead);
            justified(later, &all, 0, vec![ahead, promise(child, later)])
        }),
        ("a prepare far above every ballot", GREETED, leader, child, {
            Message::Prepare(Ballot { counter: Ballot::JUMP + 1, proposer: leader })
        }),
        ("a refusal of another's ballot", GREETED, child, leader, Message::Refuse(for_child, for_child)),
        ("a failure that its author has not signed", KEYS, leader, child, {
            let Message::Failed(mut forged) = failed(leader, view, None) else { panic!("just made") };
            forged.author = other;
            Message::Failed(forged)
        }),
        ("an item of a peer that is not below its carrier", KEYS, child, leader, {
            let mut key = foreign.keys[other.index()].clone();
            key.item.ballot = view;
            up(view, Report::Keys(vec![key]))
        }),
        (
            "fetch: no such slot",
            GREETED,
            other,
            child,
            Message::Transfer(transfer::Message::Fetch(slots, Want::Committed)),
        ),
        ("a status with more committed slots than there are", GREETED, other, child, {
            Message::Status { committed: slots + 1, in_view: false }
        }),
        ("a report from the parent", KEYS, leader, child, up(view, Report::Keys(Vec::new()))),
        ("an order from a child", KEYS, child, leader, down(view, Order::Sum(1))),
        ("keys twice", KEYS, child, leader, up(view, Report::Keys(Vec::new()))),
        ("a key signed for another view", KEYS, child, leader, {
            let mut key = foreign.keys[0].clone();
            key.item.ballot = view;
            up(view, Report::Keys(vec![key]))
        }),
        ("an item twice", KEYS, child, leader, {
            let key = foreign.keys[0].clone();
            up(view, Report::Keys(vec![key.clone(), key]))
        }),
        ("an acknowledgement before anything is to be acknowledged", KEYS, child, leader, {
            up(view, Report::Acknowledge(0, Vec::new()))
        }),
        ("a release before the decision", SUMMING, child, leader, up(view, Report::Release(1, Vec::new()))),
        ("hold of a later slot", SUMMING, child, leader, {
            up(view, Report::TotalReady { slot: 2, total: [0; 32], deals: Vec::new() })
        }),
        ("a chunk that is not the next", SUMMING, child, leader, chunk(sum, Direction::Up, 1, 12)),
        ("a chunk of another length", SUMMING, child, leader, chunk(sum, Direction::Up, 0, 8)),
        ("a chunk upward from the parent", SUMMING, leader, child, chunk(sum, Direction::Up, 0, 12)),
        ("a total from a child", SUMMING, child, leader, chunk(sum, Direction::Down, 0, 12)),
        ("a total before the own part has left", SUMMING, leader, child, chunk(sum, Direction::Down, 0, 12)),
        ("credit for what was not sent", SUMMING, leader, child, credit(Direction::Up, 0)),
    ];
    let blamed: Vec<_> = blamed
        .into_iter()
        .map(|(what, us, from, to, message)| {
            let mut run = Run::new();
            run.until(us);
            let mut out = frame(&message);
            let (blames, _) = run.inject(from, to, message);
            let [(peer, fault)] = &blames[..] else { panic!("{what}: {blames:?}") };
            assert_eq!(*peer, from, "{what}");
            let fields = json!({ "what": what, "us": us, "from": from, "to": to, "class": class(fault), "text": fault.to_string() });
            out.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            out
        })
        .collect();

    let ignored: Vec<(&str, u64, Peer, Peer, Message)> = vec![
        (
            "a view message from no neighbour",
            KEYS,
            other,
            child,
            Message::View(view::Message::KeepAlive(view)),
        ),
        ("failed: another ballot", KEYS, leader, child, failed(leader, stale, None)),
        ("begin: the view that is joined", KEYS, leader, child, begin(view, &all, 0)),
        ("a report of another view", KEYS, child, leader, up(stale, Report::Keys(Vec::new()))),
        ("an order of another view", KEYS, leader, child, down(later, Order::Sum(1))),
        (
            "a chunk of no sum under way",
            SUMMING,
            child,
            leader,
            chunk(SumId { slot: 2, ..sum }, Direction::Up, 0, 12),
        ),
        ("hold of an earlier slot", SUMMING, child, leader, {
            up(view, Report::TotalReady { slot: 0, total: [0; 32], deals: Vec::new() })
        }),
        ("an acknowledgement of an earlier slot", SUMMING, child, leader, {
            up(view, Report::Acknowledge(0, foreign.acknowledgements[..1].to_vec()))
        }),
        ("a promise that nobody asked for", KEYS, child, leader, { Message::Promise(promise(child, later)) }),
        ("a refusal of no proposal", KEYS, child, leader, Message::Refuse(later, later)),
        ("a piece that nobody asked for", KEYS, child, leader, {
            Message::Transfer(transfer::Message::Piece {
                slot: 1,
                index: 0,
                data: Bytes::from_static(&[0; 12]),
            })
        }),
        (
            "lacking what was not asked for",
            KEYS,
            child,
            leader,
            Message::Transfer(transfer::Message::Lacking(1)),
        ),
        ("credit for no transfer", KEYS, child, leader, Message::Transfer(transfer::Message::Credit(1, 0))),
    ];
    // Neither blamed nor ignored: the receiver says that it will not come.
    let (blames, answered) = {
        let mut run = Run::new();
        run.until(KEYS);
        run.inject(leader, child, begin(stale, &all, 0))
    };
    assert!(blames.is_empty() && answered, "begin: a lower ballot: {blames:?}");
    let ignored: Vec<_> = ignored
        .into_iter()
        .map(|(what, us, from, to, message)| {
            let mut run = Run::new();
            run.until(us);
            let mut out = frame(&message);
            let (blames, answered) = run.inject(from, to, message);
            assert!(blames.is_empty() && !answered, "{what}: {blames:?}");
            let fields = json!({ "what": what, "us": us, "from": from, "to": to });
            out.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            out
        })
        .collect();
    json!({
        "about": "one more message in the session of sum.json, after all that happens up to `us`: blamed or without effect \
                  (spec, sections 7 to 14)",
        "blamed": blamed,
        "ignored": ignored,
    })
}
