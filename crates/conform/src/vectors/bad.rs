//! Frames that must be refused before their contents are used.

use bytes::Bytes;
use flyswarm_sealed_sum::protocol::message::{Channel, Message};
use flyswarm_sealed_sum::protocol::wire::{self, MAX_FRAME};
use serde_json::{Value, json};

use super::hex;
use super::messages::{all, channel};

pub(crate) fn bad() -> Value {
    let messages = all();
    let header = |name: &str| {
        let (_, message) = messages.iter().find(|(what, _)| *what == name).unwrap();
        wire::encode(message).header.to_vec()
    };
    let message = |name: &str| &messages.iter().find(|(what, _)| *what == name).unwrap().1;
    let mut out = Vec::new();
    let mut refuse = |what: &str, on: Channel, header: &[u8], payload: &[u8]| {
        let fault = wire::decode(on, header, Bytes::copy_from_slice(payload)).expect_err(what);
        out.push(json!({
            "what": what, "channel": channel(on), "header": hex(header), "payload": hex(payload),
            "class": "malformed", "text": fault.to_string(),
        }));
    };
    use Channel::{Bulk, Control};

    refuse("empty header", Control, &[], &[]);
    refuse("unknown message", Control, &[11], &[]);
    refuse("unknown message, long variant number", Control, &[252, 0, 0, 1, 0], &[]);
    refuse("unknown view message", Control, &[8, 4], &[]);
    refuse("unknown report", Control, &[8, 0, 1, 1, 4], &[]);
    refuse("unknown order", Control, &[8, 1, 1, 1, 5], &[]);
    refuse("unknown reduce message", Control, &[8, 2, 2], &[]);
    refuse("unknown direction", Bulk, &[8, 2, 0, 1, 1, 1, 2, 0], &[]);
    refuse("unknown transfer message", Control, &[9, 5], &[]);
    refuse("unknown want", Control, &[9, 0, 1, 2], &[]);
    refuse("unknown held", Bulk, &[9, 2, 1, 2], &[]);
    refuse("unknown reason", Control, &[7, 1, 1, 7, 0], &[]);
    for (name, _) in messages.iter().filter(|(name, _)| !matches!(*name, "fields, none")) {
        let header = header(name);
        let on = message(name).channel();
        let other = if on == Control { Bulk } else { Control };
        let payload = message(name).payload();
        refuse(&format!("{name}: trailing byte"), on, &[&header[..], &[0]].concat(), &payload);
        refuse(&format!("{name}: cut short"), on, &header[..header.len() - 1], &payload);
        refuse(&format!("{name}: on the other channel"), other, &header, &payload);
        if payload.is_empty() {
            refuse(&format!("{name}: payload where none belongs"), on, &header, &[0]);
        }
    }
    let status = header("status");
    refuse("status: a boolean of 2", Control, &[&status[..2], &[2]].concat(), &[]);
    let failed = header("failed");
    refuse("failed: an option of 2", Control, &[&failed[..4], &[2, 0]].concat(), &[]);
    refuse("begin: 2^60 members", Control, &[&[6, 1, 1, 253][..], &(1u64 << 60).to_le_bytes()].concat(), &[]);
    refuse("fields: 2^60 of them", Control, &[&[1, 253][..], &(1u64 << 60).to_le_bytes()].concat(), &[]);
    refuse(
        "fields: a name of 2^40 bytes",
        Control,
        &[&[1, 1, 253][..], &(1u64 << 40).to_le_bytes()].concat(),
        &[],
    );
    refuse("fields: a name that is not UTF-8", Control, &[1, 1, 1, 0xff, 0, 0, 0, 0, 0, 0, 0, 0], &[]);
    refuse("begin: a peer of 17 bits", Control, &[6, 1, 1, 1, 252, 0, 0, 1, 0, 0], &[]);
    refuse(
        "hello: a version of 17 bits",
        Control,
        &[&[0, 252, 0, 0, 1, 0][..], &[0; 32], &[0]].concat(),
        &[],
    );

    // Too long for the file; the specification describes it.
    let long = [vec![1, 253], (MAX_FRAME as u64).to_le_bytes().to_vec(), vec![0; MAX_FRAME]].concat();
    let fault = wire::decode(Control, &long, Bytes::new()).expect_err("longer than a frame");
    assert!(fault.to_string().contains("the limit is 1048576"), "{fault}");
    let lenient: Vec<_> = [("prepare, counter and proposer longer than needed", vec![3, 252, 1, 0, 0, 0, 251, 1, 0])]
        .into_iter()
        .map(|(what, header)| {
            let read = wire::decode(Control, &header, Bytes::new()).unwrap();
            assert_eq!(&read, message("prepare"));
            let Message::Prepare(_) = read else { unreachable!() };
            json!({ "what": what, "channel": "control", "header": hex(header), "canonical": hex(self::header("prepare", &messages)) })
        })
        .collect();
    json!({
        "about": "frames that do not decode, and one that decodes although it is not canonical (spec, section 2)",
        "bad": out,
        "lenient": lenient,
    })
}

fn header(name: &str, messages: &[(&str, Message)]) -> Vec<u8> {
    let (_, message) = messages.iter().find(|(what, _)| *what == name).unwrap();
    wire::encode(message).header.to_vec()
}
