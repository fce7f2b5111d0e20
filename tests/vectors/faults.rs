//! Messages that decode, and that their receiver must blame or ignore: each is put into the session of `sum.json` at a
//! time given in microseconds.

use bytes::Bytes;
use flyswarm::protocol::Fault;
use flyswarm::protocol::all_reduce::{self, Direction, SumId};
use flyswarm::protocol::ballot::Ballot;
use flyswarm::protocol::council::Promise;
use flyswarm::protocol::message::Message;
use flyswarm::protocol::transfer::{self, Want};
use flyswarm::protocol::view::{self, Order, Reason, Report};
use flyswarm::session::Peer;
use serde_json::{Value, json};

use crate::items::made;
use crate::messages::frame;
use crate::run::Run;
use crate::sessions::small;

/// The leader of the run, and its two children.
const LEADER: Peer = Peer(2);
const CHILD: Peer = Peer(0);
const OTHER: Peer = Peer(1);

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
        Fault::LowOrderKey => "low-order-key",
        Fault::BadRecord(_) => "bad-record",
    }
}

pub(crate) fn faults() -> Value {
    let session = small(3);
    let id = session.id().0;
    let view = Ballot { counter: 1, proposer: LEADER };
    let later = Ballot { counter: 2, proposer: LEADER };
    let stale = Ballot { counter: 0, proposer: LEADER };
    let all = vec![Peer(0), Peer(1), Peer(2)];
    let begin = |ballot, members: &[Peer], frozen| Message::Begin { ballot, members: members.to_vec(), frozen };
    let up = |ballot, report| Message::View(view::Message::Up(ballot, report));
    let down = |ballot, order| Message::View(view::Message::Down(ballot, order));
    let hello = || Message::Hello { version: 1, session: id, frozen: 0 };
    let status = || Message::Status { frozen: 0, in_view: false };
    let sum = SumId { ballot: view, slot: 1 };
    let chunk = |sum, direction, index, length| {
        let data = Bytes::from(vec![0; length]);
        Message::View(view::Message::Reduce(all_reduce::Message::Chunk { sum, direction, index, data }))
    };
    let credit =
        |direction, index| Message::View(view::Message::Reduce(all_reduce::Message::Credit { sum, direction, index }));
    let foreign = made(1);
    let slots = u8::try_from(foreign.contexts[0].plan.len()).unwrap();

    let blamed: Vec<(&str, u64, Peer, Peer, Message)> = vec![
        ("a message before hello", START, LEADER, CHILD, status()),
        ("hello twice", GREETED, LEADER, CHILD, hello()),
        ("prepare for another proposer", GREETED, OTHER, CHILD, Message::Prepare(later)),
        (
            "a suspect outside the roster",
            GREETED,
            LEADER,
            CHILD,
            Message::Failed { ballot: view, reason: Reason::Lost, suspect: Some(Peer(3)) },
        ),
        ("begin: members do not ascend", GREETED, LEADER, CHILD, begin(later, &[Peer(1), Peer(0), Peer(2)], 0)),
        ("begin: a member twice", GREETED, LEADER, CHILD, begin(later, &[Peer(0), Peer(0), Peer(1), Peer(2)], 0)),
        (
            "begin: a member outside the roster",
            GREETED,
            LEADER,
            CHILD,
            begin(later, &[Peer(0), Peer(1), Peer(2), Peer(3)], 0),
        ),
        ("begin: the receiver is no member", GREETED, LEADER, CHILD, begin(later, &all[1..], 0)),
        ("begin: the proposer is no member", GREETED, LEADER, CHILD, begin(later, &all[..2], 0)),
        ("begin: the receiver is the proposer", GREETED, CHILD, LEADER, begin(later, &all, 0)),
        ("begin: more slots frozen than there are", GREETED, LEADER, CHILD, begin(later, &all, slots + 1)),
        ("begin: from no parent", GREETED, OTHER, CHILD, begin(later, &all, 0)),
        (
            "fetch: no such slot",
            GREETED,
            OTHER,
            CHILD,
            Message::Transfer(transfer::Message::Fetch(slots, Want::Frozen)),
        ),
        ("a status with more frozen slots than there are", GREETED, OTHER, CHILD, {
            Message::Status { frozen: slots + 1, in_view: false }
        }),
        ("a report from the parent", KEYS, LEADER, CHILD, up(view, Report::Keys(Vec::new()))),
        ("an order from a child", KEYS, CHILD, LEADER, down(view, Order::Sum(1))),
        ("keys twice", KEYS, CHILD, LEADER, up(view, Report::Keys(Vec::new()))),
        ("a key signed for another view", KEYS, CHILD, LEADER, {
            let mut key = foreign.keys[0].clone();
            key.item.ballot = view;
            up(view, Report::Keys(vec![key]))
        }),
        ("an item twice", KEYS, CHILD, LEADER, {
            let key = foreign.keys[0].clone();
            up(view, Report::Keys(vec![key.clone(), key]))
        }),
        ("an acknowledgement before anything is to be acknowledged", KEYS, CHILD, LEADER, {
            up(view, Report::Acknowledge(0, Vec::new()))
        }),
        ("a release before the decision", SUMMING, CHILD, LEADER, up(view, Report::Release(1, Vec::new()))),
        ("hold of another slot", SUMMING, CHILD, LEADER, {
            up(view, Report::Hold { slot: 0, total: [0; 32], deals: Vec::new() })
        }),
        ("a chunk that is not the next", SUMMING, CHILD, LEADER, chunk(sum, Direction::Up, 1, 12)),
        ("a chunk of another length", SUMMING, CHILD, LEADER, chunk(sum, Direction::Up, 0, 8)),
        ("a chunk upward from the parent", SUMMING, LEADER, CHILD, chunk(sum, Direction::Up, 0, 12)),
        ("a total from a child", SUMMING, CHILD, LEADER, chunk(sum, Direction::Down, 0, 12)),
        ("a total before the own part has left", SUMMING, LEADER, CHILD, chunk(sum, Direction::Down, 0, 12)),
        ("credit for what was not sent", SUMMING, LEADER, CHILD, credit(Direction::Up, 0)),
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
        ("a view message from no neighbour", KEYS, OTHER, CHILD, Message::View(view::Message::Working(view))),
        (
            "failed: another ballot",
            KEYS,
            LEADER,
            CHILD,
            Message::Failed { ballot: stale, reason: Reason::Lost, suspect: None },
        ),
        ("begin: the view that is joined", KEYS, LEADER, CHILD, begin(view, &all, 0)),
        ("a report of another view", KEYS, CHILD, LEADER, up(stale, Report::Keys(Vec::new()))),
        ("an order of another view", KEYS, LEADER, CHILD, down(later, Order::Sum(1))),
        ("a chunk of no sum under way", SUMMING, CHILD, LEADER, chunk(SumId { slot: 2, ..sum }, Direction::Up, 0, 12)),
        ("a promise that nobody asked for", KEYS, CHILD, LEADER, {
            Message::Promise(later, Promise { frozen: 0, accepted: None })
        }),
        ("a refusal of no proposal", KEYS, CHILD, LEADER, Message::Refuse(later, later)),
        ("a piece that nobody asked for", KEYS, CHILD, LEADER, {
            Message::Transfer(transfer::Message::Piece { slot: 1, index: 0, data: Bytes::from_static(&[0; 12]) })
        }),
        ("lacking what was not asked for", KEYS, CHILD, LEADER, Message::Transfer(transfer::Message::Lacking(1))),
        ("credit for no transfer", KEYS, CHILD, LEADER, Message::Transfer(transfer::Message::Credit(1, 0))),
    ];
    // Neither blamed nor ignored: the receiver says that it will not come.
    let (blames, answered) = {
        let mut run = Run::new();
        run.until(KEYS);
        run.inject(LEADER, CHILD, begin(stale, &all, 0))
    };
    assert!(blames.is_empty() && answered, "begin: a lower ballot: {blames:?}");
    let ignored: Vec<_> = ignored
        .into_iter()
        .map(|(what, us, from, to, message)| {
            let mut run = Run::new();
            run.until(us);
            let mut out = frame(&message);
            let (blames, other) = run.inject(from, to, message);
            assert!(blames.is_empty() && !other, "{what}: {blames:?}");
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
