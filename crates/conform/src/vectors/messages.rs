//! Every message, encoded.

use std::sync::Arc;

use bytes::Bytes;
use flyswarm::session::Peer;
use flyswarm::tasks::xclp::internals::{Body, Statement, Topic, What, content};
use flyswarm_mpc::shares::accounts::{Account, Place, Progress};
use flyswarm_sealed_sum::protocol::about::{About, Role};
use flyswarm_sealed_sum::protocol::all_reduce::{self, Direction};
use flyswarm_sealed_sum::protocol::ballot::Ballot;
use flyswarm_sealed_sum::protocol::committee::{Accepted, Promise};
use flyswarm_sealed_sum::protocol::context::Context;
use flyswarm_sealed_sum::protocol::failure::Failure;
use flyswarm_sealed_sum::protocol::message::{Channel, Message, Trace, VERSION};
use flyswarm_sealed_sum::protocol::promise::{Begun, Promised};
use flyswarm_sealed_sum::protocol::signed::Signed;
use flyswarm_sealed_sum::protocol::sum_id::SumId;
use flyswarm_sealed_sum::protocol::transfer::{self, Held, Want};
use flyswarm_sealed_sum::protocol::view::{self, Order, Reason, Report};
use flyswarm_sealed_sum::protocol::wire;
use serde_json::{Value, json};

use super::hex;
use super::items::{made, reveal};
use super::primitives::shown;
use super::sessions::{small, small_text, sum_id};
use super::statements::{account, statement};

pub(crate) fn all() -> Vec<(&'static str, Message)> {
    let made = made(1);
    let ctx = &made.contexts[0];
    let ballot = sum_id(1).ballot;
    let other = Ballot { counter: 70_000, proposer: Peer(2) };
    let digest = made.record.digest(ctx);
    let data = Bytes::from_static(&[1, 0, 0, 0, 2, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]);
    let up = |report| Message::View(view::Message::Up(ballot, report));
    let down = |order| Message::View(view::Message::Down(ballot, order));
    let reduce = |message| Message::View(view::Message::Reduce(message));
    let transfer = Message::Transfer;
    let exchanged = |body: Body, data| Message::Exchange {
        sum: SumId { ballot, slot: 3 },
        content: content(&body, data),
    };
    let exchange = |body| exchanged(body, Bytes::new());
    let part = |what, last| exchanged(Body::Part { what, last }, data.clone());
    let accepted = Accepted { ballot, slot: 1, value: digest };
    let mark = Failure { ballot, slot: 1, reason: Reason::Lost, suspect: Some(Peer(2)) };
    let mark = Signed::new(&made.contexts[1], mark);
    let promises = [(0, 0, None, false), (1, 1, Some(accepted.clone()), false), (2, 1, Some(accepted), true)];
    let promises = promises.map(|(author, committed, accepted, released)| {
        let decision = if released { made.acknowledgements[..2].to_vec() } else { Vec::new() };
        let promise = Promise { committed, accepted, released };
        let marks = if released { vec![mark.clone()] } else { Vec::new() };
        let promised = Promised { ballot: other, promise, decision, reached: vec![0b111], marks };
        Signed::new(&made.contexts[author], promised)
    });
    let hello =
        |trace| Message::Hello { version: VERSION, session: ctx.id.0, committed: 0, trace: Some(trace) };
    let failed =
        |reason, suspect| Message::Failed(Signed::new(ctx, Failure { ballot, slot: 1, reason, suspect }));
    vec![
        ("hello", Message::Hello { version: VERSION, session: ctx.id.0, committed: 0, trace: None }),
        ("hello, with a promise", hello(Trace::Promise(promises[1].clone()))),
        ("hello, with a view key", hello(Trace::Key(made.keys[0].clone()))),
        ("fields", Message::Fields(small(3).fields())),
        ("fields, none", Message::Fields(Vec::new())),
        ("status", Message::Status { committed: 2, in_view: true }),
        ("prepare", Message::Prepare(ballot)),
        ("prepare, large counter", Message::Prepare(Ballot { counter: u64::MAX, proposer: Peer(1023) })),
        ("promise, nothing acknowledged", Message::Promise(promises[0].clone())),
        ("promise", Message::Promise(promises[1].clone())),
        ("promise, with a released value", Message::Promise(promises[2].clone())),
        ("refuse", Message::Refuse(ballot, other)),
        ("begin", Message::Begin(Signed::new(ctx, Begun { ballot, promises: promises[..2].to_vec() }))),
        ("failed", failed(Reason::Lost, Some(Peer(2)))),
        ("failed, ended by the leader", failed(Reason::Ended, None)),
        ("up keys", up(Report::Keys(made.keys[..2].to_vec()))),
        (
            "up hold",
            up(Report::TotalReady {
                slot: 1,
                total: made.record.value.total,
                deals: made.deals[..1].to_vec(),
            }),
        ),
        (
            "up hold, no dealers",
            up(Report::TotalReady { slot: 1, total: made.record.value.total, deals: Vec::new() }),
        ),
        ("up acknowledge", up(Report::Acknowledge(1, made.acknowledgements[..1].to_vec()))),
        ("up release", up(Report::Release(1, made.releases[..1].to_vec()))),
        ("up reveal", up(Report::Reveal(vec![reveal(ctx)]))),
        ("up reveal, without committee members", up(Report::Reveal(Vec::new()))),
        ("down keys", down(Order::Keys(made.keys.clone()))),
        ("down sum", down(Order::Sum(1))),
        ("down accept", down(Order::Accept(made.record.clone()))),
        ("down decide", down(Order::Decide(1, made.acknowledgements.clone()))),
        ("down open", down(Order::Open(1, made.releases.clone()))),
        ("down reveal", down(Order::Reveal(vec![reveal(ctx)]))),
        (
            "chunk up",
            reduce(all_reduce::Message::Chunk {
                sum: sum_id(1),
                direction: Direction::Up,
                index: 0,
                data: data.clone(),
            }),
        ),
        (
            "chunk down",
            reduce(all_reduce::Message::Chunk {
                sum: sum_id(1),
                direction: Direction::Down,
                index: 4095,
                data: data.clone(),
            }),
        ),
        (
            "credit",
            reduce(all_reduce::Message::Credit { sum: sum_id(1), direction: Direction::Up, index: 0 }),
        ),
        ("working", Message::View(view::Message::KeepAlive(ballot))),
        ("fetch committed", transfer(transfer::Message::Fetch(1, Want::Committed))),
        ("fetch accepted", transfer(transfer::Message::Fetch(1, Want::Accepted(digest)))),
        ("lacking", transfer(transfer::Message::Lacking(1))),
        (
            "head committed",
            transfer(transfer::Message::Head(1, Box::new(Held::Committed(made.committed.clone())))),
        ),
        (
            "head accepted",
            transfer(transfer::Message::Head(1, Box::new(Held::Accepted(made.record.clone())))),
        ),
        ("head bare", transfer(transfer::Message::Head(1, Box::new(Held::Bare(made.committed.clone()))))),
        ("piece", transfer(transfer::Message::Piece { slot: 1, index: 0, data: data.clone() })),
        ("transfer credit", transfer(transfer::Message::Credit(1, 300))),
        ("part input", part(What::Input, false)),
        ("part round", part(What::Round(70_000), true)),
        ("part output", part(What::Output, true)),
        ("part pair", part(What::Pair(300), true)),
        ("exchange credit", exchange(Body::Credit)),
        ("exchange working", exchange(Body::KeepAlive)),
        ("exchange commitment", exchange(Body::Commitment([8; 32]))),
        ("exchange copies", exchange(Body::Copies([[1; 32], [2; 32], [3; 32]]))),
        ("exchange holds", exchange(Body::Holds([4; 32]))),
        ("exchange statements", exchange(Body::Statements(statements(&made.contexts)))),
    ]
}

/// Returns a statement about a place and one about rounds.
fn statements(contexts: &[Arc<Context>]) -> Vec<Signed<Statement>> {
    let heard = Account { heard: [None, Some([7; 32])], verdicts: [Some(true), None], ..account(1) };
    let check = Topic::Check(Place { chunk: 70_000, number: 0 }, heard);
    let rounds = Topic::Rounds(Progress { sent: 300, missing: [true, false] });
    vec![statement(contexts, 1, false, check), statement(contexts, 2, true, rounds)]
}

/// Writes a message for a vector.
pub(crate) fn frame(message: &Message) -> Value {
    let frame = wire::encode(message);
    assert_eq!(&wire::decode(frame.channel, &frame.header, frame.payload.clone()).unwrap(), message);
    json!({
        "message": shown(message),
        "channel": channel(frame.channel),
        "header": hex(&frame.header),
        "payload": hex(&frame.payload),
    })
}

pub(crate) fn channel(channel: Channel) -> &'static str {
    match channel {
        Channel::Control => "control",
        Channel::Bulk => "bulk",
    }
}

pub(crate) fn messages() -> Value {
    let messages: Vec<_> = all()
        .into_iter()
        .map(|(what, message)| {
            let mut out = frame(&message);
            let encoded = wire::encode(&message);
            let length = u32::try_from(4 + encoded.header.len() + encoded.payload.len()).unwrap();
            let header = u32::try_from(encoded.header.len()).unwrap();
            let stream =
                [&length.to_le_bytes()[..], &header.to_le_bytes(), &encoded.header, &encoded.payload]
                    .concat();
            out["what"] = what.into();
            out["stream"] = hex(stream);
            out
        })
        .collect();
    let abouts = [Role::Join, Role::Doctor].map(|role| {
        let about = About::new(&small(3).settings(), role);
        assert_eq!(About::decode(&about.encode()).unwrap(), about);
        json!({"item": shown(&about), "bytes": hex(about.encode())})
    });
    json!({
        "about": "every message: header, payload, and the bytes on the stream (spec, sections 2 and 6)",
        "toml": small_text(3),
        "messages": messages,
        "abouts": abouts,
    })
}
