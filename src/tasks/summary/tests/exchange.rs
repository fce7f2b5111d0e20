//! The slots of a session after the exchange: what opens, and what a party that deviates can do.

use bytes::Bytes;
use flyswarm_mpc::shares::cells::boxed;
use flyswarm_mpc::shares::input::{Announced, Inputs, parcels_of_words, unpack_words};
use flyswarm_mpc::shares::memory::in_memory;
use flyswarm_mpc::shares::program::Outcome;
use zeroize::Zeroizing;

use super::*;
use crate::protocol::ballot::Ballot;
use crate::protocol::record::Value;
use crate::protocol::sum_id::SumId;
use crate::tasks::xclp::computed::{Computed, inputs_digest};
use crate::tasks::{History, Task};

/// Returns the tasks of five peers after the exchange, and the history of each. Peers 1, 3 and 4 computed.
fn computed(rows: &[Vec<Vec<f32>>]) -> (Vec<Summary>, Vec<History>) {
    let mut session = Session::parse(&with_roster(SESSION)).expect("a session");
    session.data = data();
    let layout = Arc::new(Layout::new(&spec(), &session.data).expect("fits"));
    let rule = layout.rule(&spec(), 2);
    let task = |peer: u16| {
        let own = rows[usize::from(peer)].concat();
        let dataset = match own.is_empty() {
            true => Dataset::new(10, vec![0.0; 10], vec![], vec![]).expect("a row").subset(&[]),
            false => Dataset::new(10, own, vec![], vec![]).expect("rows"),
        };
        Summary::new(session.clone(), spec(), layout.clone(), Peer(peer), &dataset, &[7; 32]).expect("fits")
    };
    let tasks: Vec<Summary> = (0..5).map(task).collect();
    let mut held: [Vec<Inputs>; 3] = Default::default();
    let mut commitments = Vec::new();
    for (place, rows) in rows.iter().enumerate() {
        let words = layout.words(rows.iter().map(Vec::as_slice)).expect("in range");
        let parcels = parcels_of_words(&words, place, &[1, 2, 3].map(|n| Zeroizing::new([n; 32])));
        let input = [place as u8 + 1; 32];
        commitments.push((Peer(place as u16), input));
        let said = Announced::of(input, &parcels);
        for (number, held) in held.iter_mut().enumerate() {
            held.push(unpack_words(&parcels[number], number, &said, words.len()).expect("a parcel"));
        }
    }
    let run = in_memory(7, |context| {
        let inputs = held[context.role()].clone();
        boxed(context, rule.clone(), inputs, false)
    });
    let inputs = inputs_digest(commitments.iter().copied());
    let mut vectors = Vec::new();
    let results: Vec<Bytes> = (0u16..5)
        .map(|peer| {
            let number = [1, 3, 4].iter().position(|&party| party == peer);
            let shares = number.map(|number| match &run.results[number] {
                Outcome::Sealed(sealed) => (number as u8, sealed.to_bytes()),
                other => panic!("{other:?}"),
            });
            let digest = if number.is_some() { inputs } else { [0; 32] };
            let commitment = commitments[usize::from(peer)].1;
            Computed { party: shares, commitment, inputs: digest }.to_bytes()
        })
        .collect();
    for (task, result) in tasks.iter().zip(&results) {
        vectors.push(task.contribution_from_exchange(1, result).expect("a vector"));
    }
    let histories = results.into_iter().map(|result| {
        let mut history = History::of([(value(0, &[0, 1, 2, 3, 4]), Bytes::from(vec![5; 32]))]);
        history.push(value(1, &[0, 1, 2, 3, 4]), Some(sum_of(4, &vectors)));
        history.set_exchanged(1, result);
        history
    });
    let histories = histories.collect();
    (tasks, histories)
}

fn value(slot: u32, members: &[u16]) -> Value {
    let sum = SumId { ballot: Ballot::default(), slot };
    let members = members.iter().copied().map(Peer).collect();
    Value { sum, members, total: [0; 32], deals: [0; 32] }
}

/// Returns the sum of vectors of words of 4 or 8 bytes.
fn sum_of(bytes: usize, vectors: &[Bytes]) -> Bytes {
    let word = |vector: &Bytes, at: usize| {
        let mut word = [0; 8];
        word[..bytes].copy_from_slice(&vector[at..at + bytes]);
        u64::from_le_bytes(word)
    };
    let words = (0..vectors[0].len()).step_by(bytes);
    let sums = words.map(|at| vectors.iter().fold(0u64, |sum, vector| sum.wrapping_add(word(vector, at))));
    sums.flat_map(|sum| sum.to_le_bytes()[..bytes].to_vec()).collect()
}

/// Adds a slot to all histories: the sum of the vectors of `members`, changed by `change`.
fn add(
    tasks: &[Summary],
    histories: &mut [History],
    slot: u32,
    members: &[u16],
    change: impl Fn(&mut Vec<u8>),
) -> Result<(), String> {
    let all: Vec<Peer> = members.iter().copied().map(Peer).collect();
    tasks[0].allows(slot, &histories[0], &all)?;
    let vectors = members.iter().map(|&peer| {
        let at = usize::from(peer);
        let mut vector = tasks[at].contribution(slot, &histories[at]).expect("a vector").to_vec();
        if peer == 3 {
            change(&mut vector);
        }
        Bytes::from(vector)
    });
    let sum = sum_of(8, &vectors.collect::<Vec<_>>());
    histories.iter_mut().for_each(|history| history.push(value(slot, members), Some(sum.clone())));
    tasks.iter().zip(&*histories).try_for_each(|(task, history)| task.check(slot, history))
}

#[test]
fn the_opened_file_is_that_of_the_pooled_rows_also_without_one_party() {
    let rows = some_rows();
    let layout = Layout::new(&spec(), &data()).expect("fits");
    let owners: Vec<Vec<u64>> =
        rows.iter().map(|own| layout.words(own.iter().map(Vec::as_slice)).expect("in range")).collect();
    let open = layout.open(&pattern(&layout.rule(&spec(), 2), &owners));
    for opened in [&open.cells, &open.quantiles] {
        assert!(opened.contains(&true) && opened.contains(&false));
    }
    let mut files = Vec::new();
    for here in [&[0, 1, 2, 3, 4][..], &[0, 1, 3]] {
        let (tasks, mut histories) = computed(&rows);
        tasks[0].check(1, &histories[0]).expect("three parties");
        add(&tasks, &mut histories, 2, &[0, 1, 2, 3, 4], |_| {}).expect("the pattern");
        add(&tasks, &mut histories, 3, here, |_| {}).expect("the cells");
        let outcome = tasks[2].outcome(&histories[2], 0).expect("an outcome");
        assert_eq!(outcome.warnings.is_empty(), here.len() == 5, "copies of one party alone are a warning");
        files.push(serde_json::from_slice::<serde_json::Value>(&outcome.file).expect("JSON"));
    }
    assert_eq!(files[0], files[1]);
    let all = owners.iter().fold(vec![0u64; owners[0].len()], |sum, own| {
        sum.iter().zip(own).map(|(a, b)| a.wrapping_add(*b)).collect()
    });
    let expected = file(&layout, &all, &open);
    for part in ["groups", "rows", "columns", "tables"] {
        assert_eq!(files[0][part], expected[part], "{part}");
    }
}

#[test]
fn a_changed_copy_of_a_share_ends_the_session_and_names_both_who_hold_it() {
    for (slot, at) in [(2, 9), (3, 9), (3, 0)] {
        let (tasks, mut histories) = computed(&some_rows());
        let members = [0, 1, 2, 3, 4];
        // Peer 3 is party 1: it holds the second copy of share 2 and the first of share 1.
        let change = |vector: &mut Vec<u8>| {
            let section = vector.len() / 6;
            vector[2 * section + at] ^= 1;
        };
        if slot == 3 {
            add(&tasks, &mut histories, 2, &members, |_| {}).expect("the pattern");
        }
        let error = add(&tasks, &mut histories, slot, &members, change).unwrap_err();
        let expected = "peer-3 and peer-1 gave different copies of one share";
        assert!(error.starts_with(expected) || at == 0 && error.contains("gave no shares"), "{error}");
    }
}

#[test]
fn a_party_that_gives_nothing_and_two_that_are_gone_end_the_session() {
    let (tasks, mut histories) = computed(&some_rows());
    let error = add(&tasks, &mut histories, 2, &[0, 1, 2, 3, 4], |vector| vector.fill(0)).unwrap_err();
    assert_eq!(error, "peer-3 computed, and gave no shares or others' shares");
    let (tasks, mut histories) = computed(&some_rows());
    let error = add(&tasks, &mut histories, 2, &[0, 1, 2], |_| {}).unwrap_err();
    assert_eq!(error, "fewer than two of the three computing peers are left");
}

#[test]
fn shares_of_closed_cells_are_in_no_vector() {
    let (tasks, mut histories) = computed(&some_rows());
    add(&tasks, &mut histories, 2, &[0, 1, 2, 3, 4], |_| {}).expect("the pattern");
    let layout = Layout::new(&spec(), &data()).expect("fits");
    let (open, rule) = (tasks[0].open(&histories[0]).expect("open"), layout.rule(&spec(), 2));
    assert!(open.quantiles.contains(&false));
    for (task, history) in tasks.iter().zip(&histories) {
        let vector = task.contribution(3, history).expect("a vector");
        for section in vector.chunks(vector.len() / 6) {
            let word = |at: usize| section[8 * (1 + at)..][..8].iter().any(|&byte| byte != 0);
            for (cell, open) in open.cells.iter().enumerate() {
                assert!(*open || !word(cell), "cell {cell}");
            }
            for (measure, open) in open.measures.iter().enumerate() {
                let sum = layout.cells() + 2 * measure;
                assert!(*open || !word(sum) && !word(sum + 1), "measure {measure}");
            }
            for (quantile, open) in open.quantiles.iter().enumerate() {
                assert!(
                    *open || !word(rule.cells() + 2 * rule.measures.len() + quantile),
                    "quantile {quantile}"
                );
            }
        }
    }
}
