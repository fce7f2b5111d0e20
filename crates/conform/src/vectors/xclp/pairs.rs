//! Pairs of owners: their meetings, masks of shares, lengths of vectors, and parts of distances.

use serde_json::{Value, json};

use super::super::{bytes, hex};
use flyswarm::session::Peer;
use flyswarm::tasks::Hamming;
use flyswarm::tasks::xclp::internals::{lengths, masks, partner, rounds};
use flyswarm_sealed_sum::crypto::stream::Stream;
use flyswarm_sealed_sum::protocol::ballot::Ballot;
use flyswarm_sealed_sum::protocol::sum_id::SumId;

/// Index of the first of 8 points of each owner, and the end of the last owner.
pub(super) const OWNERS: [usize; 4] = [0, 2, 5, 8];

pub(super) fn pairs() -> Value {
    let partners = |owners| {
        let round = |round| (0..owners).map(|place| partner(owners, round, place)).collect();
        (0..rounds(owners)).map(round).collect::<Vec<Vec<Option<usize>>>>()
    };
    let sum = SumId { ballot: Ballot { counter: 3, proposer: Peer(2) }, slot: 4 };
    let key = bytes::<32>("key of a pair");
    let cases = [(3, 500, 4096), (7, 9, 64), (4, 4, 16_384), (600, 1000, 64), (600, 700, 4096)];
    let lengths = [Hamming::Ot, Hamming::Phe].into_iter().flat_map(|hamming| {
        cases.into_iter().map(move |(smaller, larger, bits)| {
            let to = [true, false].map(|to_smaller| {
                let (own, theirs) = if to_smaller { (smaller, larger) } else { (larger, smaller) };
                lengths(hamming, to_smaller, own, theirs, bits)
            });
            json!({
                "way": hamming.name(), "smaller": smaller, "larger": larger, "bits": bits,
                "count": to.each_ref().map(Vec::len), "first": to.each_ref().map(|all| &all[..all.len().min(3)]),
                "last": to.each_ref().map(|all| all.last()), "all": to.each_ref().map(|all| all.iter().sum::<usize>()),
                "said": hamming.bytes(smaller as u64, larger as u64, bits as u64),
            })
        })
    });
    json!({
        "partners": (2..=7).map(partners).collect::<Vec<_>>(),
        "mask": {
            "key": hex(key), "ballot": [3, 2], "slot": 4, "earlier": 2, "later": 3,
            "words": masks(&key, sum, 6).to_vec(),
        },
        "lengths": lengths.collect::<Vec<_>>(),
    })
}

/// Returns the parts of each owner. In a pair, the part of the earlier owner is drawn at random.
pub(super) fn parts(distances: &[u16]) -> Vec<Vec<u16>> {
    let mut drawn = [0; 128];
    Stream::new(b"flyswarm test vectors", "parts", &[]).fill(&mut drawn);
    let drawn = |x: usize, y: usize| u16::from_le_bytes([drawn[16 * x + 2 * y], drawn[16 * x + 2 * y + 1]]);
    let owner = |own: std::ops::Range<usize>| {
        let part = |x: usize, y: usize| match () {
            () if own.contains(&y) => distances[8 * x + y],
            () if x < y => drawn(x, y),
            () => distances[8 * x + y].wrapping_sub(drawn(y, x)),
        };
        own.clone().flat_map(|x| (0..8).map(move |y| (x, y))).map(|(x, y)| part(x, y)).collect()
    };
    OWNERS.windows(2).map(|ends| owner(ends[0]..ends[1])).collect()
}
