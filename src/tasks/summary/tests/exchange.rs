//! Tests the slots of a session after the exchange: what is opened, and what a computing member that deviates
//! can do.

use bytes::Bytes;

use super::*;
use crate::tasks::common::checked::harness;
use crate::tasks::{History, Task};

/// Returns the tasks of five peers after the exchange, and the history of each.
fn computed(rows: &[Vec<Vec<f32>>]) -> (Vec<Summary>, Vec<History>) {
    let mut session = Session::parse(&with_roster(SESSION)).expect("a session");
    session.data = data();
    let layout = Arc::new(Layout::new(&spec(), &session.data).expect("fits"));
    let task = |peer: u16| {
        let dataset = dataset(10, &rows[usize::from(peer)]);
        Summary::new(session.clone(), spec(), layout.clone(), Peer(peer), &dataset, &[7; 32]).expect("fits")
    };
    let tasks: Vec<Summary> = (0..5).map(task).collect();
    let words = |own: &Vec<Vec<f32>>| layout.words(own.iter().map(Vec::as_slice)).expect("in range");
    let words: Vec<Vec<u64>> = rows.iter().map(words).collect();
    let histories = harness::computed(&tasks, &layout.rule(&spec(), 2), &words);
    (tasks, histories)
}

/// Adds a slot with the sum of the vectors of `members` to all histories. `change` alters the vector of peer
/// 3.
fn add(
    tasks: &[Summary],
    histories: &mut [History],
    slot: u32,
    members: &[u16],
    change: impl Fn(&mut Vec<u8>),
) -> Result<(), String> {
    harness::add(tasks, histories, slot, members, |task, history, peer| {
        let mut vector = task.contribution(slot, history).expect("a vector").to_vec();
        if peer == 3 {
            change(&mut vector);
        }
        Ok(Bytes::from(vector))
    })
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
        assert_eq!(
            outcome.warnings.is_empty(),
            here.len() == 5,
            "copies that were not compared cause a warning"
        );
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
    assert_eq!(error, "peer-3 computed, but gave no shares, or gave the shares of another peer");
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
