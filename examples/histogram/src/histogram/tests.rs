//! Compares the sums over all peers with the counts of the same rows in one place, for random splits of the
//! rows.

use bytes::Bytes;
use flyswarm::Identity;
use flyswarm::data::Dataset;
use flyswarm::session::{Peer, Session};
use flyswarm::tasks::{History, Rows, Task, built_in, register};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn session(peers: u8) -> Session {
    register(&KIND);
    let mut text = String::from(
        "name = \"test\"\nrun_id = \"000102030405060708090a0b0c0d0e0f\"\ncreated = 2026-11-22T16:05:06Z\n\
         task = \"histogram\"\n[data]\nfeatures = 2\ncolumns = [\"age\", \"bmi\"]\nscaling = \"none\"\n\
         [[histogram.columns]]\nname = \"bmi\"\nedges = [15, 25, 35]\n\
         [[histogram.columns]]\nname = \"age\"\nedges = [0, 18, 65.5, 100]\n",
    );
    for i in 0..peers {
        let key = Identity::from_seed([i; 32]).public();
        text += &format!("[[roster]]\nname = \"peer-{i}\"\npeer_id = \"{key}\"\n");
    }
    Session::parse(&text).unwrap()
}

/// Takes one value from a row.
type Value32 = fn(&(f32, f32)) -> f32;
/// Rows of one peer.
type Part = Vec<(f32, f32)>;

/// Runs a session whose peers have these rows, and returns its result.
fn result(parts: &[Part]) -> Value {
    let session = session(parts.len() as u8);
    let built_in = built_in(&session).unwrap();
    let task = |(peer, rows): (usize, &Part)| {
        let values = rows.iter().flat_map(|&(age, bmi)| [age, bmi]).collect();
        let data = Arc::new(Dataset::new(2, values, Vec::new(), Vec::new()).unwrap());
        built_in.make(session.clone(), Peer(peer as u16), Rows::new(data), &[1; 32]).unwrap()
    };
    let tasks: Vec<_> = parts.iter().enumerate().map(task).collect();
    let mut opened = vec![Bytes::from_static(&[7; 32])];
    for (slot, aggregate) in (0u32..).zip(&built_in.plan).skip(1) {
        let history = History::of_vectors(&opened);
        let vectors: Vec<_> = tasks.iter().map(|task| task.contribution(slot, &history).unwrap()).collect();
        opened.push(match aggregate.word_bytes {
            4 => sum::<4>(&vectors, |word| u32::from_le_bytes(word).into(), |sum| (sum as u32).to_le_bytes()),
            _ => sum::<8>(&vectors, u64::from_le_bytes, u64::to_le_bytes),
        });
        assert_eq!(tasks[0].check(slot, &History::of_vectors(&opened)), Ok(()));
    }
    let outcome = tasks[0].outcome(&History::of_vectors(&opened), 0).unwrap();
    assert!(recognised(&outcome.file));
    assert_eq!(contents(&outcome.file).unwrap().digest, outcome.digest);
    serde_json::from_slice(&outcome.file).unwrap()
}

fn sum<const N: usize>(vectors: &[Bytes], read: fn([u8; N]) -> u64, write: fn(u64) -> [u8; N]) -> Bytes {
    let words = vectors[0].len() / N;
    let word =
        |at: usize| vectors.iter().map(|each| read(each.as_chunks::<N>().0[at])).fold(0, u64::wrapping_add);
    (0..words).flat_map(|at| write(word(at))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn the_result_is_the_counts_of_all_rows_however_they_are_cut(
        rows in prop::collection::vec((-5f32..120.0, 10f32..45.0), 40..80),
        cuts in prop::collection::vec(0usize..1000, 7),
        peers in 4usize..8,
    ) {
        let mut parts = vec![Part::new(); peers];
        for (i, row) in rows.iter().enumerate() {
            // Every peer has at least one row. `cuts` decides which peers have the other rows.
            let to = if i < peers { i } else { cuts[i % cuts.len()] * (i + 1) };
            parts[to % peers].push(*row);
        }
        let within = |from: f32, to: f32, of: Value32| {
            rows.iter().filter(|row| (from..to).contains(&of(row))).count()
        };
        let (age, bmi): (Value32, Value32) = (|row| row.0, |row| row.1);
        let (least, most) = (f32::NEG_INFINITY, f32::INFINITY);
        let expected = json!([
            {"name": "bmi", "edges": [15.0, 25.0, 35.0], "below": within(least, 15.0, bmi),
             "counts": [within(15.0, 25.0, bmi), within(25.0, 35.0, bmi)], "above": within(35.0, most, bmi)},
            {"name": "age", "edges": [0.0, 18.0, 65.5, 100.0], "below": within(least, 0.0, age),
             "counts": [within(0.0, 18.0, age), within(18.0, 65.5, age), within(65.5, 100.0, age)],
             "above": within(100.0, most, age)},
        ]);
        prop_assert_eq!(&result(&parts)["columns"], &expected);
    }
}

#[test]
fn every_protection_is_on_without_a_line_of_the_task() {
    let names: Vec<_> = built_in(&session(3)).unwrap().plan.into_iter().map(|each| each.name).collect();
    assert_eq!(names, ["coin", "holders", "moments", "bins"]);
}
