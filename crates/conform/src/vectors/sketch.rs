//! The task `sketch`: a session file, numbers of records under both hashes, sketches, distances, draws,
//! and one peer's vectors.

use std::sync::Arc;

use bytes::Bytes;
use flyswarm::data::Dataset;
use flyswarm::session::{Peer, Session};
use flyswarm::tasks::flynn::Flynn;
use flyswarm::tasks::sketch::SketchTask;
use flyswarm::tasks::{History, Task};
use flyswarm_learn::model::selection::{Selection, score, weights};
use flyswarm_learn::privacy::Ratio;
use flyswarm_learn::sketch::distribution::private::{PrivateSketch, noise_variance};
use flyswarm_learn::sketch::distribution::{DistributionSketch, Family};
use serde_json::{Value, json};

use super::sessions::{flynn_spec, toml};
use super::{bytes, hex};

/// First lines of the section `sketch`.
macro_rules! sketch {
    () => {
        "[sketch]\nrows = 5\nrange = 4\n"
    };
}

pub(crate) const HEAD: &str = concat!(
    head!("sketch"),
    r#"features = 3
check_columns = false
scaling = "unit-norm"
"#,
    sketch!(),
    r#"open_distances = true
pairwise = true
active = 3
chosen = 2
temperature = 2.5
"#,
);

/// Session of the task flynn; its training peers are drawn by their sketches.
pub(crate) const SELECT: &str = concat!(
    r#"name = "vectors"
task = "flynn"
select = "sketch"
[data]
features = 3
check_columns = false
classes = ["cat", "dog"]
scaling = "unit-norm"
"#,
    flynn!(),
    sketch!(),
    r#"active = 4
chosen = 3
temperature = 2.5
[privacy]
min_contributors = 1
"#,
);

/// Session with noisy sketches.
pub(crate) const PRIVATE: &str = concat!(
    head!("sketch"),
    r#"features = 3
scaling = "unit-norm"
"#,
    sketch!(),
    r#"open_distances = true
pairwise = true
chosen = 2
[privacy]
epsilon = 0.7
"#,
);

const VALUES: [f32; 24] = [
    1., 2., -3., 0.5, -1., 2., 4., 4., 4., -1., 0., 0.25, 3., -2., 1., 0.125, 7., -5., 2., 2., 2.5, 0., 0.,
    0.,
];

fn records(values: &[f32]) -> Dataset {
    Dataset::new(3, values.to_vec(), Vec::new(), Vec::new()).unwrap()
}

fn words(bytes: &Bytes) -> Vec<u32> {
    bytes.as_chunks::<4>().0.iter().map(|&word| u32::from_le_bytes(word)).collect()
}

/// Returns the sum of all peers' vectors.
fn summed(vectors: &[Bytes]) -> Bytes {
    let mut sum = vec![0u32; vectors[0].len() / 4];
    for vector in vectors {
        sum.iter_mut().zip(words(vector)).for_each(|(sum, word)| *sum = sum.wrapping_add(word));
    }
    sum.into_iter().flat_map(u32::to_le_bytes).collect()
}

/// Returns every vector of five peers, three of them drawn.
fn select() -> Value {
    let seed = bytes::<32>("seed of a sketch");
    let text = toml(SELECT, 5);
    let session = Session::parse(&text).unwrap();
    let parts: [&[f32]; 5] = [&VALUES[..6], &VALUES[6..9], &VALUES[9..15], &VALUES[15..18], &VALUES[18..]];
    let labels: [&[u16]; 5] = [&[0, 1], &[1], &[0, 0], &[1], &[1, 0]];
    let task = |peer: u16| {
        let place = usize::from(peer);
        let data =
            Dataset::new(3, parts[place].to_vec(), labels[place].to_vec(), session.data.classes.clone());
        let secret = bytes::<32>(&format!("secret {peer}"));
        Flynn::new(session.clone(), flynn_spec(&session), Peer(peer), Arc::new(data.unwrap()), &secret)
            .unwrap()
    };
    let tasks = [0, 1, 2, 3, 4].map(task);
    let mut opened = vec![Bytes::copy_from_slice(&seed)];
    let (mut slots, mut vectors) = (Vec::new(), Vec::new());
    for (slot, aggregate) in (0u32..).zip(tasks[0].plan()).skip(1) {
        let all: Vec<_> = tasks
            .iter()
            .map(|task| task.contribution(slot, &History::of_vectors(&opened)).unwrap())
            .collect();
        opened.push(summed(&all));
        tasks[0].check(slot, &History::of_vectors(&opened)).unwrap();
        slots.push(aggregate.name);
        vectors.push(all.iter().map(hex).collect::<Vec<_>>());
    }
    let draw = flyswarm::tasks::flynn::Plan::new(session.clone(), flynn_spec(&session))
        .drawn(&opened)
        .unwrap()
        .unwrap();
    json!({
        "toml": text, "seed": hex(seed), "rows": parts, "labels": labels, "slots": slots, "vectors": vectors,
        "active": draw.active, "chosen": draw.chosen,
    })
}

/// Returns the distances of synthetic releases, as words.
fn releases() -> Vec<Value> {
    let release = |start: u32, records: u32, releases: u32| -> Vec<u32> {
        let counters = (0..20u32).map(|i| (i * start % 23).wrapping_sub(i % 3 * 7));
        counters.chain([records, releases]).collect()
    };
    let (own, other, whole) = (release(5, 12, 1), release(11, 7, 1), release(17, 40, 4));
    let distances = |epsilon: &str| {
        let ratio: Ratio = epsilon.parse().unwrap();
        let [one, two, all] =
            [&own, &other, &whole].map(|words| PrivateSketch::from_words(words, 5, 4).unwrap());
        let variance = noise_variance(ratio, 5);
        json!({
            "rows": 5, "epsilon": epsilon, "own": own, "other": other, "whole": whole, "variance": variance,
            "apart": one.distance(&two, variance).unwrap().row_mean,
            "within": one.distance_within(&all, variance).unwrap().row_mean,
        })
    };
    ["0.5", "8", "40", "100"].map(distances).to_vec()
}

fn hashed(family: Family, seed: &[u8; 32], rows: usize, range: usize) -> Value {
    let hashes = family.hashes(seed, rows, range, 3).unwrap();
    let data = records(&VALUES);
    let numbers: Vec<_> = (0..data.rows()).map(|row| hashes.buckets(data.row(row))).collect();
    let of = |rows: &[usize]| {
        let mut sketch = DistributionSketch::new(hashes.rows(), range).unwrap();
        sketch.extend(&*hashes, &data.subset(rows)).unwrap();
        sketch
    };
    let (one, all) = (of(&[0, 1, 4]), of(&[0, 1, 2, 3, 4, 5, 6, 7]));
    let distance = one.distance(&all).unwrap();
    json!({
        "hash": family.name(), "rows": rows, "range": range, "seed": hex(seed), "numbers": numbers,
        "part": [0, 1, 4], "part_words": one.to_words(), "words": all.to_words(),
        "row_mean": distance.row_mean, "plain": distance.plain, "score": score(distance.row_mean),
    })
}

pub(crate) fn sketch() -> Value {
    let seed = bytes::<32>("seed of a sketch");
    let hashes: Vec<_> = [
        (Family::Srp, 6, 2),
        (Family::Srp, 4, 64),
        (Family::Srp, 2, 1024),
        (Family::Minhash, 7, 3),
        (Family::Minhash, 4, 100),
    ]
    .map(|(family, rows, range)| hashed(family, &seed, rows, range))
    .to_vec();

    let scores: Vec<u32> = [0.0, 1e-9, 0.01, 0.011, 0.2, 0.2, 0.5, 1.0, 2f64.sqrt()]
        .into_iter()
        .map(score)
        .chain([0, 1 << 30])
        .collect();
    let known: Vec<u32> = scores.iter().copied().filter(|&score| score > 0).collect();
    let near: Vec<u32> = known[4..].to_vec();
    let weighed: Vec<_> = [(&known, 1.0), (&near, 1.0), (&near, 0.05), (&near, 40.0)]
        .map(|(scores, temperature)| json!([scores, temperature, weights(scores, temperature)]))
        .to_vec();
    let coin = bytes::<32>("coin of a draw");
    let mut draws = Vec::new();
    for (active, chosen, temperature) in [(0, 4, 1.0), (5, 3, 0.5), (10, 20, 3.0), (2, 1, 100.0)] {
        for round in [0, 1, 70_000] {
            let draw = Selection { active, chosen, temperature }.draw(&coin, round, &scores);
            draws.push(json!([active, chosen, temperature, round, draw.active, draw.chosen]));
        }
    }

    // All vectors of peer 1 of three, and only the opened values of the others.
    let text = toml(HEAD, 3);
    let session = Session::parse(&text).unwrap();
    let task = |peer: u16, rows: &[f32]| {
        let secret = bytes::<32>(&format!("secret {peer}"));
        SketchTask::new(
            session.clone(),
            *session.task.part::<flyswarm::tasks::SketchSpec>().unwrap(),
            Peer(peer),
            Arc::new(records(rows)),
            &secret,
        )
        .unwrap()
    };
    let tasks = [task(0, &VALUES[..9]), task(1, &VALUES[9..15]), task(2, &VALUES[15..])];
    let mut opened = vec![Bytes::copy_from_slice(&seed)];
    let mut own = Vec::new();
    let mut slots = Vec::new();
    for (slot, aggregate) in (0u32..).zip(tasks[0].plan()).skip(1) {
        let vectors: Vec<_> = tasks
            .iter()
            .map(|task| task.contribution(slot, &History::of_vectors(&opened)).unwrap())
            .collect();
        slots.push(aggregate.name);
        own.push(hex(&vectors[1]));
        opened.push(summed(&vectors));
    }
    let outcome = tasks[1].session_plan().outcome(&opened).unwrap();
    let (draw, _) = outcome.draw.clone().unwrap();
    json!({
        "about": "the task sketch, peers that are drawn by it, and releases (spec, sections 15d and 15.2)",
        "records": VALUES,
        "hashes": hashes,
        "weights": weighed,
        "scores": scores,
        "coin": hex(coin),
        "draws": draws,
        "select": select(),
        "releases": releases(),
        "session": {
            "toml": text, "seed": hex(seed), "rows": [&VALUES[..9], &VALUES[9..15], &VALUES[15..]],
            "slots": slots, "own": own, "opened": opened[1..].iter().map(hex).collect::<Vec<_>>(),
            "distance": task_distance(&tasks[1], &opened), "digest": hex(outcome.digest),
            "matrix": outcome.matrix, "active": draw.active, "chosen": draw.chosen,
        },
    })
}

fn task_distance(task: &SketchTask, opened: &[Bytes]) -> Value {
    let distance = task.distance(opened).unwrap().unwrap();
    json!([distance.row_mean, distance.plain])
}
