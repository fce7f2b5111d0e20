//! Checks that decoding refuses any input from a peer, or gives a message that stays the same when it is
//! encoded and decoded again. Stored records are checked in the same way.
//!
//! Input: kind of the message (control, bulk, stored record), u16 LE length of the header, header,
//! payload.
#![no_main]

mod seeds;

use bytes::Bytes;
use flyswarm::node::Record;
use flyswarm::protocol::all_reduce::{self, Direction};
use flyswarm::protocol::ballot::Ballot;
use flyswarm::protocol::committee::{Accepted, Promise};
use flyswarm::protocol::deal::Release;
use flyswarm::protocol::failure::Failure;
use flyswarm::protocol::message::{Channel, Message, Trace};
use flyswarm::protocol::promise::{Begun, Promised};
use flyswarm::protocol::record::{Acknowledgement, Committed, Record as SumRecord};
use flyswarm::protocol::signed::{Item, Signed};
use flyswarm::protocol::sum_id::SumId;
use flyswarm::protocol::transfer::{self, Held, Want};
use flyswarm::protocol::view::{self, Order, Reason, Report};
use flyswarm::protocol::{pairwise::ViewKey, wire};
use flyswarm::session::Peer;
use flyswarm_sealed_sum::crypto::identity::Signature;
use libfuzzer_sys::fuzz_target;
use serde::Serialize;
use serde::de::DeserializeOwned;

fuzz_target!(init: seeds::write("frame", inputs()), |data: &[u8]| {
    let Some((&kind, rest)) = data.split_first() else { return };
    let Some((length, rest)) = rest.split_first_chunk::<2>() else { return };
    let (header, payload) = rest.split_at(usize::from(u16::from_le_bytes(*length)).min(rest.len()));
    match kind {
        0 => message(Channel::Control, header, payload),
        1 => message(Channel::Bulk, header, payload),
        _ => {
            if let Ok(record) = wire::decode_item::<Record>(header) {
                let again = wire::decode_item(&wire::canonical(&record));
                assert_eq!(again.as_ref(), Ok(&record));
            }
        }
    }
});

fn message(channel: Channel, header: &[u8], payload: &[u8]) {
    let Ok(message) = wire::decode(channel, header, Bytes::copy_from_slice(payload)) else { return };
    let frame = wire::encode(&message);
    assert_eq!(frame.channel, channel);
    let again = wire::decode(channel, &frame.header, frame.payload);
    assert_eq!(again.as_ref(), Ok(&message));
}

fn input(kind: u8, header: &[u8], payload: &[u8]) -> Vec<u8> {
    [&[kind], &(header.len() as u16).to_le_bytes()[..], header, payload].concat()
}

/// Adds an invalid signature, because decoding does not check it.
fn signed<T: Item + Serialize + DeserializeOwned>(item: T) -> Signed<T> {
    let bytes = wire::canonical(&(Peer(1), item, Signature::from_bytes([5; 64])));
    wire::decode_item(&bytes).expect("a signed item is author, item, signature")
}

/// Returns one of every message, and of every stored record.
fn inputs() -> Vec<Vec<u8>> {
    let peer = Peer(1);
    let ballot = Ballot { counter: 300, proposer: peer };
    let sum = SumId { ballot, slot: 1 };
    let acknowledgement = signed(Acknowledgement { ballot, slot: 1, value: [2; 32] });
    let key = signed(ViewKey { ballot, begun: [3; 32], public: [1; 32], commitment: Some([2; 32]) });
    let record = SumRecord::new(sum, vec![Peer(0), peer], [3; 32], vec![]);
    let (shares, challenge, response) = (vec![[5; 32]], [6; 32], [7; 32]);
    let release = Release { sum, value: [2; 32], shares, challenge, response };
    let committed = Committed {
        record: record.clone(),
        acknowledgements: vec![acknowledgement.clone()],
        pads: vec![[4; 32]],
        releases: vec![signed(release)],
    };
    let accepted = Accepted { ballot, slot: 1, value: [2; 32] };
    let promise = Promise { committed: 1, accepted: Some(accepted), released: true };
    let failure = Failure { ballot, slot: 1, reason: Reason::Stalled, suspect: Some(peer) };
    let promise = signed(Promised {
        ballot,
        promise,
        decision: vec![acknowledgement.clone()],
        reached: vec![3],
        marks: vec![signed(failure.clone())],
    });
    let data = Bytes::from_static(b"words");
    let messages = [
        Message::Hello { version: 1, session: [1; 32], committed: 1, trace: Some(Trace::Key(key.clone())) },
        Message::Fields(vec![("name".into(), [1; 8])]),
        Message::Status { committed: 2, in_view: true },
        Message::Prepare(ballot),
        Message::Promise(promise.clone()),
        Message::Refuse(ballot, ballot),
        Message::Begin(signed(Begun { ballot, promises: vec![promise.clone()] })),
        Message::Failed(signed(failure)),
        Message::View(view::Message::Up(ballot, Report::Keys(vec![key.clone()]))),
        Message::View(view::Message::Up(
            ballot,
            Report::TotalReady { slot: 1, total: [1; 32], deals: vec![] },
        )),
        Message::View(view::Message::Up(ballot, Report::Acknowledge(1, vec![acknowledgement.clone()]))),
        Message::View(view::Message::Up(ballot, Report::Release(1, vec![]))),
        Message::View(view::Message::Up(ballot, Report::Reveal(vec![]))),
        Message::View(view::Message::Down(ballot, Order::Keys(vec![key]))),
        Message::View(view::Message::Down(ballot, Order::Sum(1))),
        Message::View(view::Message::Down(ballot, Order::Accept(record.clone()))),
        Message::View(view::Message::Down(ballot, Order::Decide(1, vec![acknowledgement]))),
        Message::View(view::Message::KeepAlive(ballot)),
        Message::View(view::Message::Reduce(all_reduce::Message::Chunk {
            sum,
            direction: Direction::Up,
            index: 1,
            data: data.clone(),
        })),
        Message::View(view::Message::Reduce(all_reduce::Message::Credit {
            sum,
            direction: Direction::Down,
            index: 1,
        })),
        Message::Transfer(transfer::Message::Fetch(1, Want::Accepted([1; 32]))),
        Message::Transfer(transfer::Message::Head(1, Box::new(Held::Committed(committed.clone())))),
        Message::Transfer(transfer::Message::Head(1, Box::new(Held::Accepted(record.clone())))),
        Message::Transfer(transfer::Message::Piece { slot: 1, index: 0, data }),
        Message::Transfer(transfer::Message::Credit(1, 1)),
    ];
    let records = [
        Record::Promised(ballot),
        Record::Joined(ballot),
        Record::Released(1, [2; 32], vec![]),
        Record::Traces(vec![Trace::Promise(promise)]),
        Record::Silent,
        Record::Accepted(ballot, record, Bytes::new()),
        Record::Committed(committed, Bytes::new()),
    ];
    let frames = messages.iter().map(wire::encode);
    let frames =
        frames.map(|frame| input(u8::from(frame.channel == Channel::Bulk), &frame.header, &frame.payload));
    frames.chain(records.iter().map(|record| input(2, &wire::canonical(record), &[]))).collect()
}
