//! Deviations of a member that computes in the task `xclp`, towards another computing member (spec,
//! sections 15b and 15e). `flyswarm-conform join` offers these deviations, and
//! `crates/conform/python/cheats.py` uses them against released programs.

use bytes::Bytes;
use flyswarm::protocol::failure::Failure;
use flyswarm::protocol::message::{Content, Message};
use flyswarm::protocol::signed::Signed;
use flyswarm::protocol::view::Reason;
use flyswarm::protocol::wire::{self, Frame};
use flyswarm::tasks::xclp::internals::{Body, What, content};

use super::{Case, Expected, From, Kind, When};

type Change = fn(&Case<'_>) -> Option<Vec<Frame>>;

const fn once(name: &'static str, about: &'static str, change: Change) -> Kind {
    Kind::new(name, about, "section 15e", (From::Leader, Expected::Blame), change)
}

const fn always(name: &'static str, about: &'static str, change: Change) -> Kind {
    Kind { when: When::Always, ..once(name, about, change) }
}

/// Deviations in the exchange of `xclp`. A number after the name, such as `low-400`, is the first round that
/// is changed.
pub(super) const KINDS: [Kind; 10] = [
    once("input", "a share of its input with one wrong bit", |case| {
        vector(
            case,
            |what| what == What::Input,
            |data| {
                let middle = data.len() / 2;
                data[middle] ^= 1;
            },
        )
    }),
    once("commitment", "a commitment that differs from the one sent to the others", |case| {
        short(case, |body| {
            let Body::Commitment(hash) = body else { return false };
            hash[0] ^= 1;
            true
        })
    }),
    once("copies", "hashes of its shares that differ from those sent to the others", |case| {
        short(case, |body| {
            let Body::Copies(hashes) = body else { return false };
            hashes.swap(0, 1);
            true
        })
    }),
    once("low", "a round whose lowest bit is wrong", |case| in_round(case, |data| data[0] ^= 1)),
    once("high", "a round whose highest bit is wrong", |case| {
        in_round(case, |data| {
            if let Some(last) = data.last_mut() {
                *last ^= 0x80;
            }
        })
    }),
    once("short", "a round that is one byte short", |case| {
        in_round(case, |data| data.truncate(data.len() - 1))
    }),
    always("silent", "no message from this round on", |case| in_round(case, Vec::clear).map(|_| Vec::new())),
    once("output", "a share of the output with one wrong bit", |case| {
        vector(case, |what| what == What::Output, |data| data[0] ^= 1)
    }),
    once("holds", "a wrong hash of its share of the output", |case| {
        short(case, |body| {
            let Body::Holds(hash) = body else { return false };
            hash[0] ^= 1;
            true
        })
    }),
    once("accuses", "a claim that the other one deviates", |case| {
        let Message::Exchange { sum, .. } = case.message else { return None };
        in_round(case, |_| {})?;
        let (ballot, slot, suspect) = (sum.ballot, sum.slot, Some(case.to));
        let failure = Failure { ballot, slot, reason: Reason::Disagreement, suspect };
        Some(vec![wire::encode(&Message::Failed(Signed::new(case.ctx, failure)))])
    }),
];

/// Changes a part of a vector.
fn vector(case: &Case<'_>, is: impl Fn(What) -> bool, change: impl Fn(&mut Vec<u8>)) -> Option<Vec<Frame>> {
    let Message::Exchange { sum, content: Content::Bulk { header, data } } = case.message else {
        return None;
    };
    let Ok(body @ Body::Part { what, .. }) = wire::decode_item(header) else { return None };
    if !is(what) || data.is_empty() {
        return None;
    }
    let mut data = data.to_vec();
    change(&mut data);
    let changed = Message::Exchange { sum: *sum, content: content(&body, Bytes::from(data)) };
    Some(vec![wire::encode(&changed)])
}

fn in_round(case: &Case<'_>, change: impl Fn(&mut Vec<u8>)) -> Option<Vec<Frame>> {
    vector(case, |what| matches!(what, What::Round(round) if round >= case.round), change)
}

/// Changes a short message, if `change` returns true.
fn short(case: &Case<'_>, change: impl Fn(&mut Body) -> bool) -> Option<Vec<Frame>> {
    let Message::Exchange { sum, content: Content::Short(bytes) } = case.message else { return None };
    let mut body: Body = wire::decode_item(bytes).ok()?;
    let changed = |body| Message::Exchange { sum: *sum, content: content(&body, Bytes::new()) };
    change(&mut body).then(|| vec![wire::encode(&changed(body))])
}
