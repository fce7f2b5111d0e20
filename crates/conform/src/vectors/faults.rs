//! Messages that decode, but that their receiver must blame or ignore. Each is put into the session of
//! `sum.json` at a time given in microseconds.

use bytes::Bytes;
use flyswarm::session::Peer;
use flyswarm_sealed_sum::protocol::Fault;
use flyswarm_sealed_sum::protocol::all_reduce::{self, Direction};
use flyswarm_sealed_sum::protocol::ballot::Ballot;
use flyswarm_sealed_sum::protocol::committee::Promise;
use flyswarm_sealed_sum::protocol::failure::Failure;
use flyswarm_sealed_sum::protocol::message::{Message, VERSION};
use flyswarm_sealed_sum::protocol::promise::{Begun, Promised, bits_of};
use flyswarm_sealed_sum::protocol::record::{Acknowledgement, NO_VALUE, Record};
use flyswarm_sealed_sum::protocol::signed::{Item, Signed};
use flyswarm_sealed_sum::protocol::sum_id::SumId;
use flyswarm_sealed_sum::protocol::transfer::{self, Want};
use flyswarm_sealed_sum::protocol::view::{self, Order, Reason, Report};
use serde_json::{Value, json};

use super::items::made;
use super::messages::frame;
use super::run::Run;
use super::sessions::small;

/// No peer has sent a hello yet.
const START: u64 = 0;
const GREETED: u64 = 2_000;
/// The leader has proposed, and the others have promised.
const PROMISED: u64 = 3_000;
/// The leader is in the view, and the keys of the others are on their way.
const BEGUN: u64 = 5_000;
const KEYS: u64 = 6_000;
const SUMMING: u64 = 16_500;

fn class(fault: &Fault) -> &'static str {
    match fault {
        Fault::Malformed(_) => "malformed",
        Fault::OutOfOrder(_) => "out-of-order",
        Fault::Inconsistent(_) => "inconsistent",
        Fault::BadSignature(_) => "bad-signature",
        Fault::BadShare => "bad-share",
        Fault::BadDeal => "bad-deal",
        Fault::TwoValues => "two-values",
        Fault::LowOrderKey => "low-order-key",
        Fault::BadRecord(_) => "bad-record",
        Fault::Transport(_) => "transport",
    }
}

/// Returns the same item in the name of another author.
fn forged<T: Item>(mut signed: Signed<T>, author: Peer) -> Signed<T> {
    signed.author = author;
    signed
}

pub(crate) fn faults() -> Value {
    let session = small(3);
    let id = session.id().0;
    let all = [Peer(0), Peer(1), Peer(2)];
    // The first of the committee leads the run; the other two are its children.
    let leader = session.committee()[0];
    let [child, other] = all.iter().copied().filter(|&each| each != leader).collect::<Vec<_>>()[..] else {
        panic!("three peers")
    };
    let view = Ballot { counter: 1, proposer: leader };
    let later = Ballot { counter: 2, proposer: leader };
    let stale = Ballot { counter: 0, proposer: leader };
    let for_child = Ballot { counter: 2, proposer: child };
    let foreign = made(1);
    let by = |author: Peer| &foreign.contexts[author.index()];
    let promised = |ballot| {
        let promise = Promise { committed: 0, accepted: None, released: false };
        let reached = bits_of(3, all.iter().copied());
        Promised { ballot, promise, decision: Vec::new(), reached, marks: Vec::new() }
    };
    let promise = |author: Peer, ballot| Signed::new(by(author), promised(ballot));
    let begin_with = |ballot: Ballot, promises| {
        Message::Begin(Signed::new(by(ballot.proposer), Begun { ballot, promises }))
    };
    let begin = |ballot: Ballot| begin_with(ballot, vec![promise(leader, ballot), promise(child, ballot)]);
    // Begins another view with a changed promise of the leader, and with the child's promise for that
    // view.
    let begin_of = |change: &dyn Fn(&mut Promised)| {
        let mut own = promised(later);
        change(&mut own);
        begin_with(later, vec![Signed::new(by(leader), own), promise(child, later)])
    };
    let promise_of = |change: &dyn Fn(&mut Promised)| {
        let mut own = promised(view);
        change(&mut own);
        Message::Promise(Signed::new(by(child), own))
    };
    let mark = |author: Peer, ballot, suspect| {
        Signed::new(by(author), Failure { ballot, slot: 0, reason: Reason::Stalled, suspect })
    };
    let old_mark = |author: Peer, suspect| mark(author, Ballot { counter: 0, ..view }, Some(suspect));
    let ended = |author: Peer, ballot, reason, suspect| {
        Message::Failed(Signed::new(by(author), Failure { ballot, slot: 0, reason, suspect }))
    };
    let failed = |author: Peer, ballot, suspect| ended(author, ballot, Reason::Lost, suspect);
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
    let (begun, keys_of_child) = {
        let mut run = Run::new();
        run.until(KEYS);
        let begun = run.sent(leader, child, |message| matches!(message, Message::Begin(_)));
        let keys =
            |message: &Message| matches!(message, Message::View(view::Message::Up(_, Report::Keys(_))));
        (begun, run.sent(child, leader, keys))
    };
    let Message::Begin(beginning) = &begun else { panic!("just sent") };
    let beginning = beginning.item.digest();
    let key_of = |author: Peer| {
        let mut key = foreign.keys[author.index()].clone();
        (key.item.ballot, key.item.begun) = (view, beginning);
        key
    };

    let misdealt = |dealer: Peer| {
        let deal = foreign.deals.iter().find(|deal| deal.author == dealer).expect("all deal");
        let mut item = deal.item.clone();
        item.dealt.shares.swap(0, 1);
        Signed::new(by(dealer), item)
    };
    let blamed: Vec<(&str, u64, Peer, Peer, Message)> = vec![
        ("a message before hello", START, leader, child, status()),
        ("hello twice", GREETED, leader, child, hello()),
        ("prepare for another proposer", GREETED, other, child, Message::Prepare(later)),
        ("a suspect outside the roster", GREETED, leader, child, failed(leader, view, Some(Peer(3)))),
        (
            "promise: a bitmap of another length",
            GREETED,
            child,
            leader,
            promise_of(&|own| own.reached.push(0)),
        ),
        ("promise: it reaches a peer outside the roster", GREETED, child, leader, {
            promise_of(&|own| own.reached[0] = 0b1111)
        }),
        ("promise: a mark of its own ballot", GREETED, child, leader, {
            promise_of(&|own| own.marks.push(mark(child, view, Some(other))))
        }),
        ("promise: a mark of a later ballot", GREETED, child, leader, {
            promise_of(&|own| own.marks.push(mark(child, later, Some(other))))
        }),
        ("promise: a mark without a suspect", GREETED, child, leader, {
            promise_of(&|own| own.marks.push(mark(child, Ballot { counter: 0, ..view }, None)))
        }),
        ("promise: a mark on its author", GREETED, child, leader, {
            promise_of(&|own| own.marks.push(old_mark(child, child)))
        }),
        ("promise: a mark on a peer outside the roster", GREETED, child, leader, {
            promise_of(&|own| own.marks.push(old_mark(child, Peer(3))))
        }),
        ("promise: a mark twice", GREETED, child, leader, {
            promise_of(&|own| own.marks.extend([old_mark(child, other), old_mark(child, other)]))
        }),
        ("promise: a forged mark", GREETED, child, leader, {
            promise_of(&|own| own.marks.push(forged(old_mark(child, leader), other)))
        }),
        ("promise: forged", GREETED, child, leader, Message::Promise(forged(promise(other, view), child))),
        ("begin: the receiver is the proposer", GREETED, child, leader, begin(Ballot { counter: 2, ..view })),
        ("begin: the leader has not signed it", GREETED, leader, child, {
            let Message::Begin(begun) = begin(later) else { panic!("just made") };
            Message::Begin(Signed::new(by(other), begun.item))
        }),
        ("begin: forged", GREETED, leader, child, {
            let Message::Begin(begun) = begin(later) else { panic!("just made") };
            Message::Begin(forged(Signed::new(by(other), begun.item), leader))
        }),
        ("begin: the promise of one of three", GREETED, leader, child, {
            begin_with(later, vec![promise(leader, later)])
        }),
        ("begin: one promise twice", GREETED, leader, child, {
            begin_with(later, vec![promise(leader, later), promise(leader, later)])
        }),
        ("begin: promises of another ballot", GREETED, leader, child, {
            begin_with(later, vec![promise(leader, view), promise(child, view)])
        }),
        ("begin: a forged promise", GREETED, leader, child, {
            begin_with(later, vec![promise(leader, later), forged(promise(leader, later), other)])
        }),
        ("begin: a promise with more committed slots than there are", GREETED, leader, child, {
            begin_of(&|own| own.promise.committed = slots + 1)
        }),
        ("begin: a bitmap of another length", GREETED, leader, child, begin_of(&|own| own.reached.clear())),
        ("begin: a promise that reaches a peer outside the roster", GREETED, leader, child, {
            begin_of(&|own| own.reached[0] = 0b1111)
        }),
        ("begin: a mark of its own ballot", GREETED, leader, child, {
            begin_of(&|own| own.marks.push(mark(leader, later, Some(other))))
        }),
        ("begin: a forged mark", GREETED, leader, child, {
            begin_of(&|own| own.marks.push(forged(old_mark(leader, child), other)))
        }),
        ("begin: its promises reach too few peers", GREETED, leader, child, {
            let two = |author: Peer| {
                let reached = bits_of(3, [leader, child]);
                Signed::new(by(author), Promised { reached, ..promised(later) })
            };
            begin_with(later, vec![two(leader), two(child)])
        }),
        ("begin: the leader is outside the largest connected set", GREETED, leader, child, {
            begin_of(&|own| own.reached[0] = 0)
        }),
        ("a prepare far above every ballot", GREETED, leader, child, {
            Message::Prepare(Ballot { counter: Ballot::JUMP + 1, proposer: leader })
        }),
        ("a refusal of another peer's ballot", GREETED, child, leader, Message::Refuse(for_child, for_child)),
        ("a failure that its author has not signed", KEYS, leader, child, {
            Message::Failed(forged(mark(leader, view, Some(child)), other))
        }),
        ("an item of a peer that is not below the sender", KEYS, child, leader, {
            up(view, Report::Keys(vec![key_of(other)]))
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
        ("a report that leaves a key out", BEGUN, child, leader, up(view, Report::Keys(Vec::new()))),
        ("a report that leaves a deal out", SUMMING, child, leader, {
            up(view, Report::TotalReady { slot: 1, total: [0; 32], deals: Vec::new() })
        }),
        ("keys twice", KEYS, child, leader, keys_of_child),
        ("a key signed for another view", KEYS, child, leader, up(view, Report::Keys(vec![key_of(child)]))),
        ("a key of another beginning", BEGUN, child, leader, {
            let another =
                flyswarm_sealed_sum::protocol::pairwise::ViewKey { begun: [0; 32], ..key_of(child).item };
            up(view, Report::Keys(vec![Signed::new(by(child), another)]))
        }),
        ("an item twice", KEYS, child, leader, {
            let key = key_of(child);
            up(view, Report::Keys(vec![key.clone(), key]))
        }),
        ("an acknowledgement before anything is to be acknowledged", KEYS, child, leader, {
            let nothing = Acknowledgement { ballot: view, slot: 0, value: NO_VALUE };
            up(view, Report::Acknowledge(0, vec![Signed::new(by(child), nothing)]))
        }),
        ("an acknowledgement of a value that was not ordered", KEYS, child, leader, {
            let another = Acknowledgement { ballot: view, slot: 0, value: [1; 32] };
            up(view, Report::Acknowledge(0, vec![Signed::new(by(child), another)]))
        }),
        ("a release before the decision", SUMMING, child, leader, up(view, Report::Release(1, Vec::new()))),
        ("a total of a later slot", SUMMING, child, leader, {
            let deals = made(2).deals.into_iter().filter(|deal| deal.author == child).collect();
            up(view, Report::TotalReady { slot: 2, total: [0; 32], deals })
        }),
        ("a deal that one member cannot open", SUMMING, child, leader, {
            up(view, Report::TotalReady { slot: 1, total: [0; 32], deals: vec![misdealt(child)] })
        }),
        ("a record with a deal of the leader that one member cannot open", SUMMING, leader, child, {
            let mut deals = foreign.deals.clone();
            let own = deals.iter_mut().find(|deal| deal.author == leader).expect("all deal");
            *own = misdealt(leader);
            let Record { value, .. } = foreign.record.clone();
            let record = Record::new(value.sum, value.members, value.total, deals);
            down(view, Order::Accept(record))
        }),
        ("a chunk that is not the next one", SUMMING, child, leader, chunk(sum, Direction::Up, 1, 12)),
        ("a chunk of another length", SUMMING, child, leader, chunk(sum, Direction::Up, 0, 8)),
        ("a chunk upward from the parent", SUMMING, leader, child, chunk(sum, Direction::Up, 0, 12)),
        ("a total from a child", SUMMING, child, leader, chunk(sum, Direction::Down, 0, 12)),
        (
            "a total before the receiver's own part has left",
            SUMMING,
            leader,
            child,
            chunk(sum, Direction::Down, 0, 12),
        ),
        ("credit for a chunk that was not sent", SUMMING, leader, child, credit(Direction::Up, 0)),
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
            "a view message from a peer that is not a neighbour",
            KEYS,
            other,
            child,
            Message::View(view::Message::KeepAlive(view)),
        ),
        ("failed: another ballot", KEYS, leader, child, ended(leader, stale, Reason::Ended, None)),
        ("failed: ended by a peer that does not lead", KEYS, other, child, {
            ended(other, view, Reason::Ended, None)
        }),
        ("failed: by the leader, for a reason that requires a suspect", KEYS, other, child, {
            failed(leader, view, None)
        }),
        ("failed: ended by the leader, with a suspect", KEYS, other, child, {
            ended(leader, view, Reason::Ended, Some(child))
        }),
        ("failed: of a suspect that is its author", KEYS, other, child, failed(leader, view, Some(leader))),
        ("failed: a slot that is two after the current one", SUMMING, leader, child, {
            Message::Failed(Signed::new(
                by(other),
                Failure { ballot: view, slot: 3, reason: Reason::Lost, suspect: Some(leader) },
            ))
        }),
        ("begin: the view that is joined", KEYS, leader, child, begun),
        ("begin: a view below the one that is joined", KEYS, leader, child, begin(stale)),
        ("begin: not from the parent", GREETED, other, child, begin(later)),
        ("a report of another view", KEYS, child, leader, up(stale, Report::Keys(Vec::new()))),
        ("an order of another view", KEYS, leader, child, down(later, Order::Sum(1))),
        (
            "a chunk of a sum that is not running",
            SUMMING,
            child,
            leader,
            chunk(SumId { slot: 2, ..sum }, Direction::Up, 0, 12),
        ),
        ("a total of an earlier slot", SUMMING, child, leader, {
            up(view, Report::TotalReady { slot: 0, total: [0; 32], deals: Vec::new() })
        }),
        ("an acknowledgement of an earlier slot", SUMMING, child, leader, {
            up(view, Report::Acknowledge(0, foreign.acknowledgements[..1].to_vec()))
        }),
        ("a promise that no peer asked for", KEYS, child, leader, {
            Message::Promise(promise(child, later))
        }),
        ("a refusal of no proposal", KEYS, child, leader, Message::Refuse(later, later)),
        ("a piece that no peer asked for", KEYS, child, leader, {
            Message::Transfer(transfer::Message::Piece {
                slot: 1,
                index: 0,
                data: Bytes::from_static(&[0; 12]),
            })
        }),
        (
            "lacking a slot that was not asked for",
            KEYS,
            child,
            leader,
            Message::Transfer(transfer::Message::Lacking(1)),
        ),
        ("credit for no transfer", KEYS, child, leader, Message::Transfer(transfer::Message::Credit(1, 0))),
    ];
    // The receiver has promised a higher ballot. It neither blames nor ignores the message, but answers
    // that it does not join.
    let (blames, answered) = {
        let mut run = Run::new();
        run.until(PROMISED);
        let lower = Ballot { counter: 1, proposer: child };
        run.inject(child, other, begin_with(lower, vec![promise(child, lower), promise(other, lower)]))
    };
    assert!(child < leader && blames.is_empty() && answered, "begin: a lower ballot: {blames:?}");
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
