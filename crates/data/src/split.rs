//! Seeded, stratified splits: training and test rows, and folds. Labels are class indices; every result is
//! row indices in ascending order.

use sha2::Digest;

use super::deal::shuffle;
use super::{Borrowed, Dataset};
use flyswarm_sealed_sum::crypto::stream::Stream;
use flyswarm_sealed_sum::crypto::tagged_hash;

/// Row indices for training and for testing; together all rows, none twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split {
    /// Rows to learn from.
    pub train: Vec<usize>,
    /// Rows to test on.
    pub test: Vec<usize>,
}

/// `test_percent` of every class (rounded half up) goes to the test rows.
///
/// # Panics
/// If `test_percent` is above 100.
#[must_use]
pub fn train_test(labels: &[u16], test_percent: u32, seed: &[u8]) -> Split {
    assert!(test_percent <= 100, "{test_percent} percent for testing, at most 100");
    let mut stream = Stream::new(seed, "data/split", &test_percent.to_le_bytes());
    let (mut train, mut test) = (Vec::new(), Vec::new());
    for mut rows in by_class(labels) {
        shuffle(&mut rows, &mut stream);
        let held_out = (rows.len() * test_percent as usize + 50) / 100;
        let (a, b) = rows.split_at(held_out);
        test.extend_from_slice(a);
        train.extend_from_slice(b);
    }
    train.sort_unstable();
    test.sort_unstable();
    Split { train, test }
}

/// `folds` splits whose test rows together are all rows once; class counts in the folds differ by at most
/// one.
///
/// # Panics
/// If `folds` is below 2.
#[must_use]
pub fn folds(labels: &[u16], folds: usize, seed: &[u8]) -> Vec<Split> {
    assert!(folds >= 2, "{folds} folds, at least 2");
    let mut stream = Stream::new(seed, "data/folds", &(folds as u64).to_le_bytes());
    let mut fold_of = vec![0; labels.len()];
    let mut next = 0;
    for mut rows in by_class(labels) {
        shuffle(&mut rows, &mut stream);
        for row in rows {
            fold_of[row] = next;
            next = (next + 1) % folds;
        }
    }
    (0..folds)
        .map(|fold| {
            let (test, train) = (0..labels.len()).partition(|&row| fold_of[row] == fold);
            Split { train, test }
        })
        .collect()
}

/// Rows to test on that several parties hold out alike: equal rows are on the same side at every party,
/// except for the last two rules. A row's place is the first 8 bytes (LE) of SHA-256(tag "evaluate" || key
/// || values as f32 LE). Those in the first `percent` of all places are held out, at most the `most` first of
/// them; of a class of two or more rows at least the first is, and at least the last is not; of a class of
/// one row none is. Rows in equal places count in their order.
#[must_use]
pub fn held_out(data: &Dataset, percent: u32, most: usize, key: &[u8; 32]) -> Split {
    held_out_of(data.into(), data.labels(), data.classes().len(), percent, most, key)
}

/// [`held_out`] of borrowed rows with labels below `classes`.
///
/// # Panics
/// If there are more labels than rows, or one is not below `classes`.
#[must_use]
pub fn held_out_of(
    data: Borrowed<'_>,
    labels: &[u16],
    classes: usize,
    percent: u32,
    most: usize,
    key: &[u8; 32],
) -> Split {
    let place = |row: usize| {
        let mut hash = tagged_hash("evaluate").chain_update(key);
        data.row(row).iter().for_each(|value| hash.update(value.to_le_bytes()));
        let hash: [u8; 32] = hash.finalize().into();
        (hash.first_chunk().map_or(0, |first| u64::from_le_bytes(*first)), row)
    };
    let mut order: Vec<_> = (0..labels.len()).map(place).collect();
    order.sort_unstable();
    let below = (u128::from(percent) << 64) / 100;
    let first = order.iter().take(most).take_while(|(place, _)| u128::from(*place) < below).count();
    let mut out = vec![false; order.len()];
    order[..first].iter().for_each(|&(_, row)| out[row] = true);
    let mut of_class = vec![Vec::new(); classes];
    order.iter().for_each(|&(_, row)| of_class[usize::from(labels[row])].push(row));
    for rows in of_class {
        if let [first, .., last] = rows[..] {
            (out[first], out[last]) = (true, false);
        } else {
            rows.into_iter().for_each(|row| out[row] = false);
        }
    }
    let (test, train) = (0..out.len()).partition(|&row| out[row]);
    Split { train, test }
}

/// At most `count` rows, every class in proportion (to within one row).
#[must_use]
pub fn stratified_sample(labels: &[u16], count: usize, seed: &[u8]) -> Vec<usize> {
    let mut stream = Stream::new(seed, "data/sample", &(count as u64).to_le_bytes());
    let mut placed = Vec::with_capacity(labels.len());
    for mut rows in by_class(labels) {
        shuffle(&mut rows, &mut stream);
        // The places of a class are spread evenly over 0..1, so that any beginning of the order by place
        // holds its share.
        let share = rows.len() as f64;
        placed.extend(rows.into_iter().enumerate().map(|(i, row)| ((i as f64 + 0.5) / share, row)));
    }
    placed.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let mut sample: Vec<_> = placed.into_iter().take(count).map(|(_, row)| row).collect();
    sample.sort_unstable();
    sample
}

/// Rows of each class, ascending, up to the highest class present.
pub(super) fn by_class(labels: &[u16]) -> Vec<Vec<usize>> {
    let classes = labels.iter().max().map_or(0, |&l| usize::from(l) + 1);
    let mut rows = vec![Vec::new(); classes];
    for (row, &label) in labels.iter().enumerate() {
        rows[usize::from(label)].push(row);
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels() -> Vec<u16> {
        (0..500).map(|i| (i * i % 7) as u16).collect()
    }

    #[test]
    fn a_split_holds_every_row_once_and_every_class_in_proportion() {
        let labels = labels();
        let split = train_test(&labels, 20, b"seed");
        let mut all = [split.train.clone(), split.test.clone()].concat();
        all.sort_unstable();
        assert_eq!(all, (0..labels.len()).collect::<Vec<_>>());
        for class in 0..7 {
            let whole = labels.iter().filter(|&&l| l == class).count();
            let test = split.test.iter().filter(|&&i| labels[i] == class).count();
            assert_eq!(test, (whole * 20 + 50) / 100, "class {class}");
        }
        assert_eq!(split, train_test(&labels, 20, b"seed"));
        assert_ne!(split, train_test(&labels, 20, b"other"));
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
        let folds = folds(&labels, 10, b"seed");
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
        assert!(split.test.chunks(2).all(|pair| pair[0] / 2 == pair[1] / 2), "twins lie on one side");
        assert_eq!(split.train.len() + split.test.len(), 400);
        // Another party with some of the rows and others, and a class in between.
        let rows: Vec<usize> = (0..400).step_by(3).collect();
        let other = held_out(&data.subset(&rows), 20, 1000, &[1; 32]);
        assert!(other.test.iter().all(|&row| split.test.contains(&rows[row])));
        assert_ne!(held_out(&data, 20, 1000, &[2; 32]), split);
        assert_eq!(held_out(&data, 20, 7, &[1; 32]).test.len(), 7);
        for percent in [0, 100] {
            let few = Dataset::new(1, vec![1.0, 2.0, 3.0, 4.0], vec![0, 0, 0, 1], classes()).unwrap();
            let split = held_out(&few, percent, 1000, &[1; 32]);
            assert!(split.train.contains(&3), "of one row none is held out");
            assert_eq!(split.test.len(), if percent == 0 { 1 } else { 2 });
        }
        assert!(held_out(&data.subset(&[]), 20, 1000, &[1; 32]).test.is_empty());
    }
}
