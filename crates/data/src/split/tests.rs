//! Seeded splits, with and without groups.

use proptest::prelude::*;

use super::*;
use crate::Group;
use crate::groups::in_both;

fn labels() -> Vec<u16> {
    (0..500).map(|i| (i * i % 7) as u16).collect()
}

fn bare(labels: &[u16]) -> Rows<'_> {
    Rows::new(labels, None)
}

#[test]
fn a_split_holds_every_row_once_and_every_class_in_proportion() {
    let labels = labels();
    let split = train_test(bare(&labels), 20, b"seed");
    let mut all = [split.train.clone(), split.test.clone()].concat();
    all.sort_unstable();
    assert_eq!(all, (0..labels.len()).collect::<Vec<_>>());
    for class in 0..7 {
        let whole = labels.iter().filter(|&&l| l == class).count();
        let test = split.test.iter().filter(|&&i| labels[i] == class).count();
        assert_eq!(test, (whole * 20 + 50) / 100, "class {class}");
    }
    assert_eq!(split, train_test(bare(&labels), 20, b"seed"));
    assert_ne!(split, train_test(bare(&labels), 20, b"other"));
}

#[test]
fn a_sample_holds_every_class_in_proportion() {
    let labels = labels();
    let sample = stratified_sample(&labels, 123, b"seed");
    assert_eq!(sample.len(), 123);
    assert!(sample.is_sorted_by(|a, b| a < b));
    for class in 0..7 {
        let share = |rows: &mut dyn Iterator<Item = u16>| rows.filter(|&l| l == class).count() as f64;
        let whole = share(&mut labels.iter().copied()) * 123.0 / 500.0;
        assert!((share(&mut sample.iter().map(|&i| labels[i])) - whole).abs() <= 1.0, "class {class}");
    }
    assert_eq!(stratified_sample(&labels, 1000, b"seed"), (0..500).collect::<Vec<_>>());
}

#[test]
fn folds_test_every_row_once() {
    let labels = labels();
    let folds = folds(bare(&labels), 10, b"seed");
    let mut tested: Vec<_> = folds.iter().flat_map(|f| f.test.clone()).collect();
    tested.sort_unstable();
    assert_eq!(tested, (0..labels.len()).collect::<Vec<_>>());
    assert!(folds.iter().all(|f| f.test.len() == 50 && f.train.len() == 450));
}

#[test]
fn parties_hold_equal_rows_out_alike_and_keep_some_of_each_class() {
    let classes = || vec!["a".to_owned(), "b".to_owned()];
    let values: Vec<f32> = (0..400).map(|i| (i / 2) as f32).collect();
    let data = Dataset::new(1, values, vec![0; 400], classes()).unwrap();
    let split = held_out(&data, 20, 1000, &[1; 32]);
    assert!((50..110).contains(&split.test.len()), "{}", split.test.len());
    assert!(split.test.chunks(2).all(|pair| pair[0] / 2 == pair[1] / 2), "equal rows are on the same side");
    assert_eq!(split.train.len() + split.test.len(), 400);
    // Another peer has every third of these rows.
    let rows: Vec<usize> = (0..400).step_by(3).collect();
    let other = held_out(&data.subset(&rows), 20, 1000, &[1; 32]);
    assert!(other.test.iter().all(|&row| split.test.contains(&rows[row])));
    assert_ne!(held_out(&data, 20, 1000, &[2; 32]), split);
    assert_eq!(held_out(&data, 20, 7, &[1; 32]).test.len(), 7);
    for percent in [0, 100] {
        let few = Dataset::new(1, vec![1.0, 2.0, 3.0, 4.0], vec![0, 0, 0, 1], classes()).unwrap();
        let split = held_out(&few, percent, 1000, &[1; 32]);
        assert!(split.train.contains(&3), "the only row of a class is not held out");
        assert_eq!(split.test.len(), if percent == 0 { 1 } else { 2 });
    }
    assert!(held_out(&data.subset(&[]), 20, 1000, &[1; 32]).test.is_empty());
}

fn classes() -> Vec<String> {
    ["a", "b", "c", "d"].map(String::from).to_vec()
}

fn rows_of(labels: &[u16], groups: &[Group]) -> Dataset {
    let values = (0..labels.len()).map(|row| row as f32).collect();
    Dataset::new(1, values, labels.to_vec(), classes()).unwrap().with_groups(groups.to_vec()).unwrap()
}

/// Labels, and groups of one to many rows.
fn any_rows() -> impl Strategy<Value = (Vec<u16>, Vec<Group>)> {
    prop::collection::vec((0u16..4, 0u32..12), 1..80).prop_map(|rows| {
        rows.into_iter().map(|(label, group)| (label, Group::of(&group.to_string()))).unzip()
    })
}

proptest! {
    #[test]
    fn no_split_parts_a_group(
        (labels, groups) in any_rows(), percent in 0u32..=100, count in 2usize..8, most in 0usize..90,
    ) {
        let data = rows_of(&labels, &groups);
        let one = [train_test(&data, percent, b"s"), held_out(&data, percent, most, &[3; 32])];
        let folds = folds(&data, count, b"s");
        let mut tested: Vec<_> = folds.iter().flat_map(|fold| fold.test.clone()).collect();
        tested.sort_unstable();
        prop_assert_eq!(tested, (0..labels.len()).collect::<Vec<_>>());
        for Split { train, test } in folds.into_iter().chain(one) {
            let mut all = [&train[..], &test].concat();
            all.sort_unstable();
            prop_assert_eq!(all, (0..labels.len()).collect::<Vec<_>>());
            let of = |rows: &[usize]| rows.iter().map(|&row| groups[row]).collect::<Vec<_>>();
            prop_assert_eq!(in_both(&of(&train), &of(&test)), 0);
        }
    }

    #[test]
    fn groups_of_one_row_split_as_rows_do(
        labels in prop::collection::vec(0u16..4, 1..60), percent in 0u32..=100,
    ) {
        let groups: Vec<_> = (0..labels.len()).map(|row| Group::of(&row.to_string())).collect();
        let data = rows_of(&labels, &groups);
        prop_assert_eq!(folds(&data, 3, b"s"), folds(bare(&labels), 3, b"s"));
        prop_assert_eq!(train_test(&data, percent, b"s"), train_test(bare(&labels), percent, b"s"));
        // Other rows are held out, but the same rules apply.
        let split = held_out(&data, percent, 20, &[3; 32]);
        for class in 0..4 {
            let count = |rows: &[usize]| rows.iter().filter(|&&row| labels[row] == class).count();
            let (kept, out) = (count(&split.train), count(&split.test));
            prop_assert!(kept > 0 || out == 0);
            prop_assert!(out > 0 || kept < 2);
        }
        prop_assert!(split.test.len() <= 20 + 4);
    }

    #[test]
    fn a_party_keeps_rows_of_each_of_its_classes((labels, groups) in any_rows(), percent in 0u32..=100) {
        let data = rows_of(&labels, &groups);
        let kept = data.subset(&held_out(&data, percent, 1000, &[3; 32]).train).class_counts(4);
        let all = data.class_counts(4);
        prop_assert!(kept.iter().zip(all).all(|(&kept, all)| kept > 0 || all == 0));
    }
}

#[test]
fn a_group_lies_on_one_side_in_all_files() {
    let groups: Vec<_> = (0..400).map(|row| Group::of(&format!("p{}", row / 4))).collect();
    let data = rows_of(&vec![0; 400], &groups);
    let split = held_out(&data, 20, 1000, &[1; 32]);
    assert!((40..120).contains(&split.test.len()), "{}", split.test.len());
    // Other visits of some of the patients, with other values.
    let some: Vec<usize> = (0..400).filter(|row| row % 4 < 2 && row % 12 < 8).rev().collect();
    let theirs: Vec<_> = some.iter().map(|&row| groups[row]).collect();
    let other = held_out(&rows_of(&vec![0; some.len()], &theirs), 20, 1000, &[1; 32]);
    assert!(other.test.iter().all(|&row| split.test.contains(&some[row])));
    assert_eq!(held_out(&data, 20, 7, &[1; 32]).test.len(), 4, "a second group would be one too many");
}

/// "b" and "c" are most frequent in no group. The group that is kept for "b" has a row of "c" as well, so the
/// later group with a row of "c" stays held out.
#[test]
fn a_group_that_is_kept_for_one_class_counts_for_the_next_ones() {
    let rows = [("p", "aaa"), ("q", "aabc"), ("r", "aac"), ("s", "aa")];
    let all = rows.iter().flat_map(|(group, labels)| labels.bytes().map(|label| (*group, label)));
    let (groups, labels): (Vec<_>, Vec<_>) =
        all.map(|(group, label)| (Group::of(group), u16::from(label - b'a'))).unzip();
    let place = |key: &[u8; 32], group: &str| -> [u8; 32] {
        let hash = tagged_hash("evaluate group").chain_update(key).chain_update(Group::of(group).as_bytes());
        hash.finalize().into()
    };
    let ordered = |key: &[u8; 32]| {
        // Places are numbers in little-endian order.
        let of = |group| place(key, group).first_chunk().map_or(0, |first| u64::from_le_bytes(*first));
        ["p", "q", "r", "s"].map(of).is_sorted()
    };
    let key = (0..=255).map(|byte| [byte; 32]).find(ordered).expect("one of 24 orders");
    let split = held_out(&rows_of(&labels, &groups), 100, 1000, &key);
    assert_eq!(split.test, [0, 1, 2, 7, 8, 9]);
}
