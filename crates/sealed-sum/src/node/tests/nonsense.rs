//! A peer that sends nonsense: no panic, no honest peer blamed, and the others finish.

use bytes::Bytes;

use super::network::Network;
use super::numbers::timing;
use crate::protocol::all_reduce::{self, Direction};
use crate::protocol::ballot::Ballot;
use crate::protocol::committee::{Accepted, Promise};
use crate::protocol::context::Context;
use crate::protocol::failure::Failure;
use crate::protocol::message::{Message, VERSION};
use crate::protocol::promise::{Begun, Promised};
use crate::protocol::record::Record;
use crate::protocol::signed::Signed;
use crate::protocol::sum_id::SumId;
use crate::protocol::transfer::{self, Held, Want};
use crate::protocol::view::{self, Order, Reason, Report};
use crate::session::Peer;

/// Returns one message of each harmful kind: out of order, stale, or with a wrong member, slot or size.
fn catalogue(ctx: &Context, current: Ballot, liar: Peer) -> Vec<Message> {
    let last = Ballot { counter: u64::MAX, proposer: liar };
    let high = Ballot { counter: current.counter + 1, proposer: liar };
    let stale = Ballot { counter: 0, proposer: Peer(u16::MAX) };
    let mut out = vec![
        Message::Hello { version: VERSION, session: [0; 32], committed: 0, trace: None },
        Message::Hello { version: u16::MAX, session: [7; 32], committed: u32::MAX, trace: None },
        Message::Fields(vec![("\u{1b}[2J".into(), [0; 8]); 1000]),
        Message::Fields(Vec::new()),
        Message::Status { committed: u32::MAX, in_view: true },
        Message::Status { committed: 2, in_view: true },
        Message::Status { committed: 0, in_view: false },
    ];
    for ballot in [last, high, stale, current, Ballot { proposer: Peer(u16::MAX), ..high }] {
        out.push(Message::Prepare(ballot));
        out.push(Message::Refuse(current, ballot));
        out.push(Message::Refuse(ballot, ballot));
        let accepted = Accepted { ballot, slot: 0, value: [9; 32] };
        for committed in [0, 1, 2, u32::MAX] {
            let promise = |ballot, accepted, released| {
                let promise = Promise { committed, accepted, released };
                let (decision, reached, marks) = (Vec::new(), vec![31], Vec::new());
                Signed::new(ctx, Promised { ballot, promise, decision, reached, marks })
            };
            out.push(Message::Promise(promise(current, Some(accepted.clone()), false)));
            out.push(Message::Promise(promise(current, Some(accepted.clone()), true)));
            out.push(Message::Promise(promise(ballot, None, false)));
        }
        let bitmaps: [&[u8]; 5] = [&[], &[31], &[0], &[255], &[31, 1]];
        for reached in bitmaps {
            let promise = || Promise { committed: 0, accepted: None, released: false };
            let promised = || Promised {
                ballot,
                promise: promise(),
                decision: Vec::new(),
                reached: reached.to_vec(),
                marks: Vec::new(),
            };
            for promises in [Vec::new(), vec![Signed::new(ctx, promised()); 3]] {
                out.push(Message::Begin(Signed::new(ctx, Begun { ballot, promises })));
            }
        }
        for suspect in [None, Some(liar), Some(Peer(u16::MAX))] {
            for slot in [0, 1, u32::MAX] {
                let failure = Failure { ballot, slot, reason: Reason::Stalled, suspect };
                out.push(Message::Failed(Signed::new(ctx, failure)));
            }
        }
        out.extend(in_view(ballot).into_iter().map(Message::View));
    }
    for slot in [0, 1, 2, u32::MAX] {
        out.push(Message::Transfer(transfer::Message::Fetch(slot, Want::Committed)));
        out.push(Message::Transfer(transfer::Message::Fetch(slot, Want::Accepted([0; 32]))));
        out.push(Message::Transfer(transfer::Message::Lacking(slot)));
        out.push(Message::Transfer(transfer::Message::Head(
            slot,
            Box::new(Held::Accepted(record(current, slot))),
        )));
        for index in [0, 1, u32::MAX] {
            out.push(Message::Transfer(transfer::Message::Credit(slot, index)));
            let data = Bytes::from_static(&[1; 5]);
            out.push(Message::Transfer(transfer::Message::Piece { slot, index, data }));
        }
    }
    out
}

fn record(ballot: Ballot, slot: u32) -> Record {
    Record::new(SumId { ballot, slot }, vec![Peer(0), Peer(u16::MAX)], [3; 32], Vec::new())
}

fn in_view(ballot: Ballot) -> Vec<view::Message> {
    let mut out = vec![
        view::Message::KeepAlive(ballot),
        view::Message::Up(ballot, Report::Keys(Vec::new())),
        view::Message::Down(ballot, Order::Keys(Vec::new())),
    ];
    for slot in [0, 1, u32::MAX] {
        let sum = SumId { ballot, slot };
        out.extend([
            view::Message::Up(ballot, Report::TotalReady { slot, total: [1; 32], deals: Vec::new() }),
            view::Message::Up(ballot, Report::Acknowledge(slot, Vec::new())),
            view::Message::Up(ballot, Report::Release(slot, Vec::new())),
            view::Message::Down(ballot, Order::Sum(slot)),
            view::Message::Down(ballot, Order::Accept(record(ballot, slot))),
            view::Message::Down(ballot, Order::Decide(slot, Vec::new())),
            view::Message::Down(ballot, Order::Open(slot, Vec::new())),
        ]);
        for direction in [Direction::Up, Direction::Down] {
            for index in [0, 1, u32::MAX] {
                out.push(view::Message::Reduce(all_reduce::Message::Credit { sum, direction, index }));
                for length in [0, 3, 12, 1000] {
                    let data = Bytes::from(vec![1; length]);
                    out.push(view::Message::Reduce(all_reduce::Message::Chunk {
                        sum,
                        direction,
                        index,
                        data,
                    }));
                }
            }
        }
    }
    out
}

/// Checks that the honest peers finish. The liar may or may not finish.
fn the_others_finish(net: &Network, liar: Peer, what: &str) {
    let finished = net.finished();
    for peer in net.peers().filter(|&peer| peer != liar) {
        assert!(
            finished.contains_key(&peer),
            "{what}: {peer} does not finish: {:?} {:?}",
            net.endings(),
            net.blames
        );
    }
}

/// A liar sends one such message at some time. A peer at this place in the tree may send each of these
/// messages, so only their effect shows that it lies.
#[test]
fn one_message_of_nonsense_at_any_time_stops_nobody_else() {
    let ctx = Network::new(5, &[3], timing(), 0).context(Peer(0));
    let count = catalogue(&ctx, Ballot { counter: 1, proposer: Peer(0) }, Peer(0)).len();
    for number in 0..count {
        for turn in 0..2 {
            let when = [20, 60, 90, 130, 70][(number + 2 * turn) % 5];
            let mut net = Network::new(5, &[3], timing(), number as u64);
            let liar = Peer((number + when as usize) as u16 % 5);
            net.liars.insert(liar);
            net.run_unchecked(60_000, |net| net.frames >= when);
            let current = net.current().unwrap_or_default();
            let message = catalogue(&net.context(liar), current, liar).swap_remove(number);
            for peer in net.peers().filter(|&peer| peer != liar) {
                net.say(liar, peer, message.clone());
            }
            net.run(400_000);
            the_others_finish(&net, liar, &format!("{message:?} from {liar} after {when} frames"));
        }
    }
}

/// About every eighth frame of the liar has a changed bit. It is carried if it still decodes.
#[test]
fn changed_bytes_in_frames_stop_nobody_else() {
    for seed in 0..300 {
        let mut net = Network::new(5, &[3], timing(), seed);
        let liar = Peer(seed as u16 % 5);
        net.liars.insert(liar);
        net.garble = Some(liar);
        net.run(400_000);
        the_others_finish(&net, liar, &format!("seed {seed}, liar {liar}"));
    }
}
