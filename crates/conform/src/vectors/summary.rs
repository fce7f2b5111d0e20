//! The task `summary`: words of three owners, their parcels, the messages of the parties, the pattern, and
//! the cells that stay closed.

use flyswarm::data::Dataset;
use flyswarm::session::{Peer, Session};
use flyswarm::tasks::summary::internals;
use flyswarm_mpc::shares::cells::{Opened, add_up, boxed};
use flyswarm_mpc::shares::input::{Announced, parcels_of_words, unpack_words};
use flyswarm_mpc::shares::memory::with_keys;
use flyswarm_mpc::shares::program::Outcome;
use flyswarm_sealed_sum::crypto::stream::{Stream, derive};
use flyswarm_sealed_sum::protocol::ballot::Ballot;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::sessions::toml;
use super::{bytes, hex};

/// Session up to the section of the task.
macro_rules! start {
    () => {
        concat!(
            head!("summary"),
            "scaling = \"none\"\n[table]\n",
            column!("arm", "category", r#"levels = ["a", "b"]"#),
            column!("sex", "category", r#"levels = ["f", "m"]"#, r#"fill = """#),
            column!("stage", "ordinal", r#"levels = ["1", "2", "3"]"#, r#"fill = "2""#, "indicator = true"),
            column!("age", "number"),
            column!("bmi", "number", "fill = 25.0", "indicator = true"),
        )
    };
}

pub(crate) const HEAD: &str = concat!(
    start!(),
    r#"[summary]
by = "arm"
grid = 0.1
grids = { bmi = 0.5 }
ranges = { age = [0.0, 80.0], bmi = [20.0, 35.0] }
threshold = 3
rest = 1
table = [{ rows = "sex", columns = "stage" }]
compute = ["peer-2", "peer-0", "peer-3"]
cheaters = "caught"
[privacy]
min_contributors = 2
"#
);

/// Groups of two columns, with tables of one of them.
pub(crate) const TWO: &str = concat!(
    start!(),
    r#"[summary]
by = ["sex", "arm"]
grid = 1.0
ranges = { bmi = [20.0, 35.0] }
table = [{ rows = "arm", columns = "stage" }, { rows = "stage", columns = "sex" }]
"#
);

/// Session without a table and without a section.
pub(crate) const PLAIN: &str =
    concat!(head!("summary"), "features = 2\n", r#"columns = ["height in m", "weight"]"#, "\n");

/// Returns random rows of the columns of `HEAD`.
fn rows(owner: u8) -> Vec<f32> {
    let mut stream = Stream::new(b"flyswarm test vectors", "rows of a summary", &[owner]);
    let mut rows = Vec::new();
    for _ in 0..9 + owner {
        let (arm, sex, stage) = (stream.below(4) / 3, stream.below(5) / 2, stream.below(7) / 2);
        rows.extend([arm == 0, arm == 1, sex == 0, sex == 1].map(|bit| f32::from(u8::from(bit))));
        rows.extend([if stage == 3 { 1.0 } else { stage as f32 }, f32::from(u8::from(stage == 3))]);
        rows.push(stream.below(900) as f32 / 10.0 - 5.0);
        let missing = stream.below(8) == 0;
        rows.extend([if missing { 25.0 } else { 16.0 + stream.below(90) as f32 / 4.0 }]);
        rows.push(f32::from(u8::from(missing)));
    }
    rows
}

pub(crate) fn summary() -> Value {
    let text = toml(HEAD, 4);
    let session = Session::parse(&text).unwrap();
    let rule = internals::rule(&session).unwrap();
    let (id, salt) = (session.id().0, bytes::<32>("salt"));
    let seeds = ["one", "two", "salt of a share"].map(|seed| Zeroizing::new(bytes::<32>(seed)));
    let ballot = Ballot { counter: 3, proposer: Peer(2) };
    let attempt = [&ballot.to_bytes()[..], &2u32.to_le_bytes()].concat();
    let pairs = ["first pair", "second pair", "third pair"].map(bytes::<32>);
    let keys = pairs.map(|pair| *derive(&pair, "computing parties", &attempt));

    let (mut words, mut shown, mut commitments, mut sent) = (vec![], vec![], vec![], vec![]);
    for owner in 0..3u8 {
        let rows = rows(owner);
        shown.push(rows.chunks(9).map(<[f32]>::to_vec).collect::<Vec<_>>());
        let data = Dataset::new(9, rows, Vec::new(), Vec::new()).unwrap();
        let own = internals::words(&session, &data).unwrap();
        commitments.push(internals::commitment(&id, Peer(owner.into()), &salt, &own));
        sent.push(parcels_of_words(&own, owner.into(), &seeds));
        words.push(own);
    }
    let announced: Vec<_> =
        commitments.iter().zip(&sent).map(|(&input, sent)| Announced::of(input, sent)).collect();
    let mut received: [Sha256; 3] = Default::default();
    let run = with_keys(
        keys,
        |context| {
            let number = context.role();
            let inputs = sent.iter().zip(&announced);
            let inputs =
                inputs.map(|(sent, said)| unpack_words(&sent[number], number, said, rule.words()).unwrap());
            boxed(context, rule.clone(), inputs.collect(), false)
        },
        |party, _, bytes| received[party].update(bytes),
    );
    let shares = run.results.map(|outcome| match outcome {
        Outcome::Sealed(sealed) => {
            sealed.own.as_chunks::<8>().0.iter().map(|&word| u64::from_le_bytes(word)).collect::<Vec<_>>()
        }
        other => panic!("{other:?}"),
    });
    let all = add_up(&rule, shares.each_ref().map(Vec::as_slice));
    let (pattern, totals) = all.split_at(rule.pattern_words());
    let two_text = toml(TWO, 4);
    let two = Session::parse(&two_text).unwrap();
    let data = Dataset::new(9, rows(0), Vec::new(), Vec::new()).unwrap();
    json!({
        "toml": text,
        "rows": shown,
        "words": words,
        "salt": hex(salt),
        "seeds": seeds.each_ref().map(|seed| hex(**seed)),
        "commitments": commitments.iter().map(hex).collect::<Vec<_>>(),
        "parcels": sent.iter().map(|sent| sent.each_ref().map(|parcel| hex(&**parcel))).collect::<Vec<_>>(),
        "ballot": [ballot.counter, u64::from(ballot.proposer.0)],
        "pairs": pairs.map(hex),
        "received": received.map(|hash| hex(hash.finalize())),
        "pattern": pattern,
        "totals": totals,
        "open": opens(&session, &Opened::of(&rule, pattern)),
        "cases": cases(&session),
        "two": {"toml": two_text, "words": internals::words(&two, &data).unwrap(), "cases": cases(&two)},
    })
}

fn opens(session: &Session, pattern: &Opened) -> Value {
    let open = internals::open(session, pattern).unwrap();
    json!([open.cells, open.measures, open.quantiles])
}

/// Returns random patterns, and what opens of each. In case n, a cell passes with probability 1 - n /
/// 16.
fn cases(session: &Session) -> Vec<Value> {
    let rule = internals::rule(session).unwrap();
    let case = |case: u8| {
        let mut stream = Stream::new(b"flyswarm test vectors", "patterns of a summary", &[case]);
        let mut bits = |count: usize| (0..count).map(|_| stream.below(16) >= case.into()).collect::<Vec<_>>();
        let (cells, measures) = (bits(rule.cells()), bits(rule.measures.len()));
        let pattern = Opened { cells, measures, quantiles: bits(rule.quantiles()) };
        let open = opens(session, &pattern);
        json!({
            "cells": pattern.cells, "measures": pattern.measures, "quantiles": pattern.quantiles, "open": open,
        })
    };
    (0..12u8).map(case).collect()
}
