mod sets;

use proptest::prelude::*;

use super::*;
use crate::data::digits::digits;
use crate::data::{Dataset, deal};
use flyswarm_data::scaling::ColumnSums;

/// Makes rows from these columns, each a list of values.
fn rows(columns: &[&[f32]]) -> Dataset {
    let n = columns[0].len();
    let values = (0..n).flat_map(|row| columns.iter().map(move |column| column[row])).collect();
    Dataset::new(columns.len(), values, Vec::new(), Vec::new()).unwrap()
}

/// Returns the findings of the first peer in `peers` after the sums of all of them are opened.
fn told_by(sums: ColumnSums, peers: &[&Dataset]) -> Vec<Finding> {
    let mut all = vec![Wide::default(); sums.words(peers[0].features())];
    for words in peers.iter().map(|data| sums.of(*data)) {
        all.iter_mut().zip(words).for_each(|(sum, word)| *sum = sum.wrapping_add(word));
    }
    compare(peers[0], &all, true)
}

fn told(peers: &[&Dataset]) -> Vec<Finding> {
    told_by(ColumnSums::Compared, peers)
}

fn wave(n: usize, mean: f32, spread: f32) -> Vec<f32> {
    (0..n).map(|i| mean + spread * ((i * 7 % 11) as f32 - 5.0)).collect()
}

#[test]
fn a_file_in_other_units_is_found_by_its_owner_who_hears_what_to_do() {
    let (good, more) = (
        rows(&[&wave(60, 70.0, 3.0), &wave(60, 0.0, 1.0)]),
        rows(&[&wave(50, 71.0, 3.0), &wave(50, 0.0, 1.0)]),
    );
    assert_eq!(told(&[&good, &more]), []);
    // Factors of 1,000 and 1/1,000 are found. Pounds instead of kilograms are not found, because the values
    // vary more than the two units differ.
    let remedy = "; if so, convert the values in a map file (--map): `factor` in [columns.NAME]";
    for factor in [1000.0, 0.001] {
        let grams = rows(&[&wave(40, 70.0 * factor, 3.0 * factor), &wave(40, 0.0, factor)]);
        let found = told(&[&grams, &good, &more]);
        assert_eq!(found.iter().map(|(column, _)| *column).collect::<Vec<_>>(), [0, 1]);
        assert!(found.iter().all(|(_, odd)| matches!(odd, Anomaly::Scale(_))), "{found:?}");
        let lines = lines(&found, &[]);
        assert!(lines.len() == 1 && lines[0].ends_with(remedy), "{lines:?}");
    }
    let shifted = rows(&[&wave(40, 170.0, 3.0), &wave(40, 0.0, 1.0)]);
    let found = told(&[&shifted, &good, &more]);
    assert!(matches!(found[..], [(0, Anomaly::Mean(..))]), "{found:?}");
    let line = &lines(&found, &["weight".into(), "x".into()])[0];
    assert!(
        line.starts_with("other units? means far from those of the other peers: \"weight\" (mean 170"),
        "{line}"
    );
    assert!(line.ends_with(remedy), "{line}");
}

#[test]
fn a_constant_is_odd_where_others_would_show_other_values() {
    let others = rows(&[&wave(100, 70.0, 3.0), &[[0.0; 99].as_slice(), &[1.0]].concat()]);
    let constant = rows(&[&[0.0; 100], &[0.0; 100]]);
    let found = told(&[&constant, &others]);
    assert!(
        matches!(found[..], [(0, Anomaly::Constant(..))]),
        "a peer with few rows may lack a rare value: {found:?}"
    );
    assert_eq!(told(&[&rows(&[&[0.0; 9], &[0.0; 9]]), &others]), [], "too few rows to compare");
}

#[test]
fn honest_peers_with_classes_of_their_own_hear_of_no_other_units() {
    let data = digits();
    // Deals the rows so that each of ten peers has only two of the ten classes.
    let dealt = deal::by_classes(data.labels(), 10, 10, 2, &[1; 32]).unwrap();
    let parts: Vec<_> = dealt.iter().map(|rows| data.subset(rows)).collect();
    let mut units = 0;
    for i in 0..parts.len() {
        let order: Vec<_> = (0..parts.len()).map(|j| &parts[(i + j) % parts.len()]).collect();
        units += told(&order).iter().filter(|(_, odd)| !matches!(odd, Anomaly::Constant(..))).count();
    }
    // At most 2 of the 640 columns of all peers may be reported.
    assert!(units <= 2, "{units}");
}

/// Returns five peers with a weight in kilograms and a temperature. The first peer gives the weight in
/// pounds. The second peer has codes instead of values in nine rows.
fn pounds_and_codes() -> Vec<Dataset> {
    let peer = |number: usize| {
        let unit = if number == 0 { 2.2046 } else { 1.0 };
        let mut columns = [wave(100, 70.0, 2.0), wave(100, 36.6, 0.2)];
        columns[0].iter_mut().for_each(|weight| *weight = (*weight + number as f32) * unit);
        if number == 1 {
            columns.iter_mut().for_each(|column| column[..9].fill(-999.0));
        }
        rows(&[&columns[0], &columns[1]])
    };
    (0..5).map(peer).collect()
}

/// Returns the findings of each of these peers.
fn told_each(sums: ColumnSums, peers: &[Dataset]) -> Vec<Vec<Finding>> {
    let order = |i: usize| (0..peers.len()).map(move |j| &peers[(i + j) % peers.len()]).collect::<Vec<_>>();
    (0..peers.len()).map(|i| told_by(sums, &order(i))).collect()
}

#[test]
fn codes_at_one_peer_hide_no_pounds_at_another() {
    let told = told_each(ColumnSums::Compared, &pounds_and_codes());
    assert!(matches!(told[0][..], [(0, Anomaly::Mean(..))]), "{:?}", told[0]);
    // If only the sums over all rows are opened, without typical rows, the weight in pounds is not found.
    let told = told_each(ColumnSums::Spreads, &pounds_and_codes());
    assert!(told[0].iter().all(|(column, _)| *column != 0), "{:?}", told[0]);
}

#[test]
fn codes_at_one_peer_raise_no_alarm_at_honest_ones() {
    let told = told_each(ColumnSums::Compared, &pounds_and_codes());
    assert_eq!(told[2..], [vec![], vec![], vec![]]);
    // If only the sums over all rows are opened, the deviation of the honest temperatures seems too small.
    let alarms = told_each(ColumnSums::Spreads, &pounds_and_codes());
    assert!(alarms[2..].iter().all(|found| matches!(found[..], [(1, Anomaly::Scale(_))])), "{alarms:?}");
}

#[test]
fn codes_at_one_peer_raise_no_alarm_in_columns_that_are_mostly_zero() {
    let sparse = |n: usize| (0..n).map(|row| if row % 5 == 0 { 1.0 + row as f32 / 50.0 } else { 0.0 });
    let plain = rows(&[&sparse(100).collect::<Vec<_>>()]);
    let coded: Vec<f32> = std::iter::repeat_n(-9_999.0, 9).chain(sparse(91)).collect();
    let coded = rows(&[&coded]);
    assert_eq!(told(&[&plain, &coded, &plain]), []);
    assert!(matches!(told_by(ColumnSums::Spreads, &[&plain, &coded, &plain])[..], [(0, Anomaly::Scale(_))]));
}

#[test]
fn a_value_that_is_rare_at_others_and_frequent_here_is_no_other_unit() {
    let share = |ones: usize| {
        let values: Vec<f32> = (0..100).map(|row| f32::from(u8::from(row < ones))).collect();
        rows(&[&values])
    };
    let others = [share(26), share(0), share(30), share(5)];
    for frequent in [60, 76, 90] {
        let own = share(frequent);
        let peers: Vec<_> = [&own].into_iter().chain(&others).collect();
        assert_eq!(told(&peers), [], "{frequent}");
    }
}

proptest! {
    /// A peer compares with the opened sum minus its own part. If it was not counted, it subtracts nothing.
    #[test]
    fn who_was_not_counted_compares_with_the_whole_sum(shift in -50.0f32..50.0) {
        let (own, other) = (rows(&[&wave(30, shift, 1.0)]), rows(&[&wave(80, 0.0, 1.0)]));
        let apart = compare(&own, &ColumnSums::Compared.of(&other), false);
        prop_assert_eq!(apart, told(&[&own, &other]));
    }
}
