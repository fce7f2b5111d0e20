//! The task `fedavg`: a session file, and every vector of six peers in two rounds; the last peer comes
//! late. The learning rate is so small that the weights do not change, and each row has only one
//! non-zero number. So the words are the same on every processor, except for the last bits of a loss.

use std::sync::Arc;

use bytes::Bytes;
use flyswarm::data::Dataset;
use flyswarm::session::{Peer, Session};
use flyswarm::tasks::fedavg::Best;
use flyswarm::tasks::{History, Rows, Task, built_in};
use flyswarm_sealed_sum::protocol::ballot::Ballot;
use flyswarm_sealed_sum::protocol::record;
use flyswarm_sealed_sum::protocol::sum_id::SumId;
use serde_json::{Value, json};

use super::sessions::toml;
use super::{bytes, hex};

pub(crate) const HEAD: &str = concat!(
    head!("fedavg", 3, r#""a", "b""#),
    r#"check_columns = false
[fedavg]
rounds = 2
rate = 1e-300
members = 0.5
[privacy]
min_contributors = 1
"#,
);

/// Session with every field.
pub(crate) const FULL: &str = concat!(
    head!("fedavg", 128, r#""a", "b""#),
    r#"scaling = "standard"
[fedavg]
network = "cnn"
image = [2, 8, 8]
filters = [2, 3, 4]
hidden = [5]
rounds = 3
epochs = 2
steps = 7
batch = 8
rate = 0.125
schedule = "constant"
momentum = 0.5
weight_decay = 0.0
proximal = 0.25
clip = 1.5
members = 0.75
weighting = "equal"
held_out = 10
patience = 2
flip = true
shift = 2
initial = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
"#,
);

/// Private session.
pub(crate) const PRIVATE: &str = concat!(
    head!("fedavg", 3, r#""a", "b""#),
    r#"[fedavg]
rounds = 3
weighting = "equal"
clip = 1.0
[privacy]
epsilon = 60.5
delta = 1e-7
colluders = 1
"#,
);

/// Session that trains a model that its users supply.
pub(crate) const OWN: &str = concat!(
    head!("fedavg", 3, r#""a", "b""#),
    r#"[fedavg]
network = "own"
rounds = 2
range = 0.5
initial = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
tensors = [
    { name = "conv 1.weight", dtype = "BF16", shape = [2, 3], rule = "average", range = 1024 },
    { name = "bn.num_batches_tracked", dtype = "I64", shape = [], rule = "first" },
    { name = "scale", dtype = "F64", shape = [1], rule = "average" },
    { name = "local", dtype = "BOOL", shape = [2], rule = "keep-own", range = 3 },
]
"#,
);

/// Returns a session with an unusual range, and the words of its first round, in which no weight
/// changes.
fn ranged(seed: &[u8; 32]) -> Value {
    let head = HEAD.replacen("rounds = 2", "rounds = 2\nrange = 1024.0", 1);
    let text = toml(&head, 3);
    let session = Session::parse(&text).unwrap();
    let parts = (0..3).map(|_| (vec![1.0, 0.0, 0.0, 0.0, 1.0, 0.0], vec![0, 1])).collect();
    let Played { vectors, .. } = played(&session, seed, parts, (Peer(3), 0));
    json!({"toml": text, "words": vectors[3]})
}

/// Returns private sessions: the budget in zero-concentrated privacy, and the variance of a member's
/// noise.
fn noise() -> Vec<Value> {
    let cases = [("60.5", "1e-7", 3, 1.0, 5), ("8", "1e-5", 20, 0.25, 20), ("100", "0.01", 1, 4.0, 3)];
    let case = |(epsilon, delta, rounds, clip, counted): (&str, &str, u32, f64, u16)| {
        let text = toml(PRIVATE, usize::from(counted))
            .replacen("60.5", epsilon, 1)
            .replacen("1e-7", delta, 1)
            .replacen("rounds = 3", &format!("rounds = {rounds}"), 1)
            .replacen("clip = 1.0", &format!("clip = {clip:?}"), 1);
        let session = Session::parse(&text).unwrap();
        let Some(spec) = session.task.get::<flyswarm::tasks::FedavgSpec>() else {
            panic!("{:?}", session.task)
        };
        let (noise, share) = (spec.noise(&session).unwrap(), (1 << 27) / u32::from(counted));
        json!({
            "epsilon": epsilon, "delta": delta, "rounds": rounds, "clip": clip, "counted": counted,
            "parties": noise.parties, "rho": noise.trillionths(), "share": share, "longest": noise.longest(share),
            "variance": noise.variance(share),
        })
    };
    cases.into_iter().map(case).collect()
}

/// Returns losses in the order of the judged weights, with the best weights and the round that ends
/// training. In the task fedavg-xclp, the weights of the rounds before the first propagation do not
/// count.
fn judged() -> Vec<Value> {
    let cases: [(u32, u32, &[u32]); 8] = [
        (2, 0, &[2303, 1900, 1700, 1700, 1701, 1600]),
        (2, 0, &[2303, 1900, 1950, 1899, 1900, 1898]),
        (1, 0, &[900, 900, 800]),
        (3, 0, &[900, 901, 902]),
        (1, 0, &[15_000, 14_999]),
        (2, 2, &[900, 901, 902, 903, 904, 905]),
        (1, 3, &[900, 901, 800, 801, 802, 700]),
        (2, 1, &[900, 901, 902, 899, 902, 903]),
    ];
    let case = |(patience, after, losses): (u32, u32, &[u32])| {
        let ends = (1..=losses.len()).find(|&count| {
            Best::of(losses[..count].iter().copied()).is_some_and(|best| best.waited(after) >= patience)
        });
        let seen = &losses[..ends.unwrap_or(losses.len())];
        let best = Best::of(seen.iter().copied()).map(|best| best.round);
        json!({
            "patience": patience, "after": after, "losses": losses, "best_round": best,
            "ends_with_round": ends,
        })
    };
    cases.into_iter().map(case).collect()
}

const PEERS: u16 = 6;
const LATE: (Peer, u32) = (Peer(5), 4);

/// A session computed in one place.
struct Played {
    members: Vec<Vec<Peer>>,
    /// Vectors of each slot, by member.
    vectors: Vec<Vec<Value>>,
    slots: Vec<String>,
    outcome: flyswarm::tasks::Outcome,
}

/// Sums slot after slot over peers with these rows and labels; the peer `late` takes part from its slot
/// on.
fn played(session: &Session, seed: &[u8; 32], parts: Vec<(Vec<f32>, Vec<u16>)>, late: (Peer, u32)) -> Played {
    let kind = built_in(session).unwrap();
    let task = |(peer, (rows, labels)): (u16, (Vec<f32>, Vec<u16>))| {
        let data = Dataset::new(3, rows, labels, session.data.classes.clone()).unwrap();
        let made = kind.make(session.clone(), Peer(peer), Rows::new(Arc::new(data)), &[0; 32]);
        Arc::new(made.unwrap()) as Arc<dyn Task>
    };
    let peers = parts.len();
    let tasks: Vec<Arc<dyn Task>> = (0..).zip(parts).map(task).collect();
    let (mut values, mut opened) = (Vec::new(), Vec::new());
    let (mut all_members, mut vectors) = (Vec::new(), Vec::new());
    let plan = tasks[0].plan();
    for (slot, aggregate) in (0u32..).zip(&plan) {
        let members: Vec<_> =
            (0..peers as u16).map(Peer).filter(|&peer| peer != late.0 || slot >= late.1).collect();
        let history = History::over(&values, &opened);
        let made: Vec<Bytes> = match slot {
            0 => Vec::new(),
            _ => members.iter().map(|p| tasks[p.index()].contribution(slot, &history).unwrap()).collect(),
        };
        let mut total = vec![0; aggregate.len()];
        for vector in &made {
            flyswarm_sealed_sum::crypto::mask::add(aggregate.word(), &mut total, vector);
        }
        opened.push(if slot == 0 { Bytes::copy_from_slice(seed) } else { total.into() });
        values.push(record::Value {
            sum: SumId { ballot: Ballot::default(), slot },
            members: members.clone(),
            total: [0; 32],
            deals: [0; 32],
        });
        tasks[0].check(slot, &History::over(&values, &opened)).unwrap();
        all_members.push(members);
        vectors.push(made.iter().map(hex).collect::<Vec<_>>());
        if tasks[0].ends(&History::over(&values, &opened)) {
            break;
        }
    }
    let outcome = tasks[0].outcome(&History::over(&values, &opened), 0).unwrap();
    let slots = plan.into_iter().map(|aggregate| aggregate.name).collect();
    Played { members: all_members, vectors, slots, outcome }
}

/// Returns a session with held-out rows: its holders of each class, and its predictions, also those that
/// replace a round after an early end. Each row has one non-zero number.
fn held_out(seed: &[u8; 32]) -> Value {
    let head = HEAD.replacen("rounds = 2", "rounds = 1", 1).replacen("members = 0.5", "held_out = 40", 1);
    let text = toml(&head, 4);
    let session = Session::parse(&text).unwrap();
    // The last peer has two rows of the second class. The first three have enough rows of both classes
    // for ranks.
    let rows = |peer: u16| [70, 66, 60, 12][usize::from(peer)];
    let label = |peer: u16, row: u16| {
        if peer == 3 { u16::from(row < 2) } else { u16::from((row / 2).is_multiple_of(2)) }
    };
    let number = |peer: u16, row: u16| f32::from((7 * row + 3 * peer) % 11) - 5.0;
    let values = |peer: u16| -> Vec<f32> {
        let row =
            |row: u16| (0..3).map(move |at| if at == (row + peer) % 3 { number(peer, row) } else { 0.0 });
        (0..rows(peer)).flat_map(row).collect()
    };
    let labels = |peer: u16| (0..rows(peer)).map(|row| label(peer, row)).collect::<Vec<_>>();
    let parts = || (0..4).map(|peer| (values(peer), labels(peer))).collect();
    let whole = played(&session, seed, parts(), (Peer(4), 0));
    let of = |name: &str| {
        let slot = whole.slots.iter().position(|slot| slot == name).unwrap();
        whole.vectors[slot].clone()
    };
    // The weights do not change: the second round judges weights that are not better.
    let patient = text.replacen("rounds = 1", "rounds = 4\npatience = 1", 1);
    let ended = played(&Session::parse(&patient).unwrap(), seed, parts(), (Peer(4), 0));
    let round = ended.slots.iter().position(|slot| slot == "round-3").unwrap();
    assert_eq!(ended.vectors.len(), round + 1, "the session ends with predictions instead of round 3");
    json!({
        "toml": text, "slots": whole.slots, "rows": (0..4).map(values).collect::<Vec<_>>(),
        "labels": (0..4).map(labels).collect::<Vec<_>>(), "holders": of("holders"),
        "predictions": of("predictions"), "digest": hex(whole.outcome.digest),
        "ended_toml": patient, "ended": ended.vectors[round], "ended_digest": hex(ended.outcome.digest),
    })
}

pub(crate) fn fedavg() -> Value {
    let seed = bytes::<32>("seed of rounds");
    let text = toml(HEAD, usize::from(PEERS));
    let session = Session::parse(&text).unwrap();
    let labels = |peer: u16| (0..=peer).map(|row| (peer + row) % 2).collect::<Vec<_>>();
    let rows = |peer: u16| -> Vec<f32> {
        let place = |row: u16| (0..3).map(move |at| if at == (2 * peer + row) % 3 { 1.0 } else { 0.0 });
        (0..=peer).flat_map(place).collect()
    };
    let parts = (0..PEERS).map(|peer| (rows(peer), labels(peer))).collect();
    let Played { members, vectors, outcome, .. } = played(&session, &seed, parts, LATE);
    json!({
        "toml": text, "seed": hex(seed),
        "rows": (0..PEERS).map(rows).collect::<Vec<_>>(),
        "labels": (0..PEERS).map(labels).collect::<Vec<_>>(),
        "members": members, "vectors": vectors, "rounds": outcome.details["rounds"], "judged": judged(),
        "noise": noise(), "held_out": held_out(&seed), "ranged": ranged(&seed),
    })
}
