use proptest::prelude::*;

use super::*;
use crate::data::digits::digits;
use crate::data::{Dataset, deal};
use flyswarm_data::scaling::moments;

/// Rows of these columns, each a list of values.
fn rows(columns: &[&[f32]]) -> Dataset {
    let n = columns[0].len();
    let values = (0..n).flat_map(|row| columns.iter().map(move |column| column[row])).collect();
    Dataset::new(columns.len(), values, Vec::new(), Vec::new()).unwrap()
}

/// What the first of these peers is told.
fn told(peers: &[&Dataset]) -> Vec<Finding> {
    let words: Vec<_> = peers.iter().map(|data| moments(*data, true)).collect();
    let mut all = vec![0u64; words[0].len()];
    words
        .iter()
        .for_each(|words| all.iter_mut().zip(words).for_each(|(sum, word)| *sum = sum.wrapping_add(*word)));
    compare(&words[0], &all, true, peers[0].features())
}

fn wave(n: usize, mean: f32, spread: f32) -> Vec<f32> {
    (0..n).map(|i| mean + spread * ((i * 7 % 11) as f32 - 5.0)).collect()
}

#[test]
fn a_file_in_other_units_is_found_by_its_owner() {
    let (good, more) = (
        rows(&[&wave(60, 70.0, 3.0), &wave(60, 0.0, 1.0)]),
        rows(&[&wave(50, 71.0, 3.0), &wave(50, 0.0, 1.0)]),
    );
    assert_eq!(told(&[&good, &more]), []);
    // Thousandths; pounds for kilograms stay unnoticed beside so wide a spread.
    for factor in [1000.0, 0.001] {
        let grams = rows(&[&wave(40, 70.0 * factor, 3.0 * factor), &wave(40, 0.0, factor)]);
        let found = told(&[&grams, &good, &more]);
        assert_eq!(found.iter().map(|(column, _)| *column).collect::<Vec<_>>(), [0, 1]);
        assert!(found.iter().all(|(_, odd)| matches!(odd, Anomaly::Scale(_))), "{found:?}");
    }
    let shifted = rows(&[&wave(40, 170.0, 3.0), &wave(40, 0.0, 1.0)]);
    let found = told(&[&shifted, &good, &more]);
    assert!(matches!(found[..], [(0, Anomaly::Mean(..))]), "{found:?}");
    let line = &lines(&found, &["weight".into(), "x".into()])[0];
    assert!(
        line.starts_with("other units? means far from those of the other peers: \"weight\" (mean 170"),
        "{line}"
    );
}

#[test]
fn a_constant_is_odd_where_others_would_show_other_values() {
    let others = rows(&[&wave(100, 70.0, 3.0), &[[0.0; 99].as_slice(), &[1.0]].concat()]);
    let constant = rows(&[&[0.0; 100], &[0.0; 100]]);
    let found = told(&[&constant, &others]);
    assert!(matches!(found[..], [(0, Anomaly::Constant(..))]), "a rare value may be absent: {found:?}");
    assert_eq!(told(&[&rows(&[&[0.0; 9], &[0.0; 9]]), &others]), [], "too few rows to say");
}

#[test]
fn honest_peers_with_classes_of_their_own_hear_of_no_other_units() {
    let data = digits();
    // Each of ten peers has rows of two classes.
    let dealt = deal::by_classes(data.labels(), 10, 10, 2, &[1; 32]).unwrap();
    let parts: Vec<_> = dealt.iter().map(|rows| data.subset(rows)).collect();
    let mut units = 0;
    for i in 0..parts.len() {
        let order: Vec<_> = (0..parts.len()).map(|j| &parts[(i + j) % parts.len()]).collect();
        units += told(&order).iter().filter(|(_, odd)| !matches!(odd, Anomaly::Constant(..))).count();
    }
    // Of 640 columns.
    assert!(units <= 2, "{units}");
}

proptest! {
    /// The others' moments are the sum less the own part, whoever else is in it.
    #[test]
    fn who_was_not_counted_compares_with_the_whole_sum(shift in -50.0f32..50.0) {
        let (own, other) = (rows(&[&wave(30, shift, 1.0)]), rows(&[&wave(80, 0.0, 1.0)]));
        let (own_words, all) = (moments(&own, true), moments(&other, true));
        let apart = compare(&own_words, &all, false, 1);
        prop_assert_eq!(apart, told(&[&own, &other]));
    }
}
