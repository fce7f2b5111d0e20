//! Seeded, stratified splits: training and test rows, and folds. Labels are class indices; every result is
//! row indices in ascending order. The rows of a group stay together.

use sha2::Digest;

use super::deal::shuffle;
pub use super::groups::Rows;
use super::groups::Units;
use super::{Borrowed, Dataset};
use flyswarm_sealed_sum::crypto::stream::Stream;
use flyswarm_sealed_sum::crypto::tagged_hash;

/// Row indices for training and for testing. Together they are all rows, each once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split {
    /// Rows for training.
    pub train: Vec<usize>,
    /// Rows for testing.
    pub test: Vec<usize>,
}

/// Puts `test_percent` of every class (rounded half up) into the test rows. If rows have groups, whole
/// groups are moved; each counts as one row of its most frequent class.
///
/// # Panics
/// If `test_percent` is above 100.
#[must_use]
pub fn train_test<'a>(rows: impl Into<Rows<'a>>, test_percent: u32, seed: &[u8]) -> Split {
    assert!(test_percent <= 100, "{test_percent} percent for testing, at most 100");
    let units = Units::of(rows);
    let mut stream = Stream::new(seed, "data/split", &test_percent.to_le_bytes());
    let (mut train, mut test) = (Vec::new(), Vec::new());
    for mut of_class in by_class(units.labels()) {
        shuffle(&mut of_class, &mut stream);
        let held_out = (of_class.len() * test_percent as usize + 50) / 100;
        let (a, b) = of_class.split_at(held_out);
        test.extend_from_slice(a);
        train.extend_from_slice(b);
    }
    Split { train: units.expand(&train), test: units.expand(&test) }
}

/// Returns `folds` splits. Each row is a test row of exactly one split. The counts of a class in the folds
/// differ by at most one. If rows have groups, whole groups are dealt; each counts as one row of its most
/// frequent class.
///
/// # Panics
/// If `folds` is below 2.
#[must_use]
pub fn folds<'a>(rows: impl Into<Rows<'a>>, folds: usize, seed: &[u8]) -> Vec<Split> {
    assert!(folds >= 2, "{folds} folds, at least 2");
    let units = Units::of(rows);
    let mut stream = Stream::new(seed, "data/folds", &(folds as u64).to_le_bytes());
    let mut fold_of = vec![0; units.len()];
    let mut next = 0;
    for mut of_class in by_class(units.labels()) {
        shuffle(&mut of_class, &mut stream);
        for unit in of_class {
            fold_of[unit] = next;
            next = (next + 1) % folds;
        }
    }
    (0..folds)
        .map(|fold| {
            let (test, train): (Vec<_>, Vec<_>) = (0..units.len()).partition(|&unit| fold_of[unit] == fold);
            Split { train: units.expand(&train), test: units.expand(&test) }
        })
        .collect()
}

/// Chooses test rows in the same way at several peers. Equal rows are on the same side at every peer, unless
/// the limit `most` or a rule on a class decides.
///
/// A row's place is the first 8 bytes (LE) of SHA-256(tag "evaluate" || key || values as f32 LE). The rows
/// in the first `percent` of all places are held out, but only the first `most` of them. If a class has
/// two or more rows, at least its first row is held out and at least its last is not. The row of a
/// class with one row is not held out. Rows with equal places count in their order.
///
/// If rows have groups, whole groups are held out. A group's place is that of SHA-256(tag "evaluate group"
/// || key || group). Its class is the most frequent one, the first if several are equally frequent. The
/// first groups are held out while they have at most `most` rows together. The rules on a class apply to
/// its groups. Then, for each class without a kept row, the last group with a row of this class is kept.
#[must_use]
pub fn held_out(data: &Dataset, percent: u32, most: usize, key: &[u8; 32]) -> Split {
    held_out_of(data.into(), data.into(), data.classes().len(), percent, most, key)
}

/// Like [`held_out`], for borrowed rows with labels below `classes`.
///
/// # Panics
/// If there are more labels than rows, or if a label is not below `classes`.
#[must_use]
pub fn held_out_of(
    data: Borrowed<'_>,
    rows: Rows<'_>,
    classes: usize,
    percent: u32,
    most: usize,
    key: &[u8; 32],
) -> Split {
    let units = Units::of(rows);
    let place = |unit: usize| {
        let row = units.rows(unit)[0];
        let hash = match rows.groups() {
            Some(groups) => {
                tagged_hash("evaluate group").chain_update(key).chain_update(groups[row].as_bytes())
            }
            None => {
                let mut hash = tagged_hash("evaluate").chain_update(key);
                data.row(row).iter().for_each(|value| hash.update(value.to_le_bytes()));
                hash
            }
        };
        let hash: [u8; 32] = hash.finalize().into();
        (hash.first_chunk().map_or(0, |first| u64::from_le_bytes(*first)), unit)
    };
    let mut order: Vec<_> = (0..units.len()).map(place).collect();
    order.sort_unstable();
    let below = (u128::from(percent) << 64) / 100;
    let mut left = most;
    let within = |&&(place, unit): &&(u64, usize)| {
        let rows = units.rows(unit).len();
        let fits = u128::from(place) < below && rows <= left;
        left -= if fits { rows } else { 0 };
        fits
    };
    let first = order.iter().take_while(within).count();
    let mut out = vec![false; order.len()];
    order[..first].iter().for_each(|&(_, unit)| out[unit] = true);
    let mut of_class = vec![Vec::new(); classes];
    order.iter().for_each(|&(_, unit)| of_class[usize::from(units.labels()[unit])].push(unit));
    for of_class in of_class {
        if let [first, .., last] = of_class[..] {
            (out[first], out[last]) = (true, false);
        } else {
            of_class.into_iter().for_each(|unit| out[unit] = false);
        }
    }
    // All rows of a class may be in groups of other classes.
    let classes_of = |unit: usize| units.rows(unit).iter().map(|&row| usize::from(rows.labels()[row]));
    let mut kept = vec![false; classes];
    (0..units.len()).filter(|&unit| !out[unit]).flat_map(classes_of).for_each(|class| kept[class] = true);
    for class in 0..classes {
        let has = |&&(_, unit): &&(u64, usize)| classes_of(unit).any(|other| other == class);
        if !kept[class]
            && let Some(&(_, unit)) = order.iter().rev().find(has)
        {
            out[unit] = false;
            // The group may have rows of later classes too.
            classes_of(unit).for_each(|other| kept[other] = true);
        }
    }
    let (test, train): (Vec<_>, Vec<_>) = (0..out.len()).partition(|&unit| out[unit]);
    Split { train: units.expand(&train), test: units.expand(&test) }
}

/// Returns at most `count` rows, with every class in proportion (to within one row). It may separate the
/// rows of a group: rows that are not sampled are used neither for training nor for testing.
#[must_use]
pub fn stratified_sample(labels: &[u16], count: usize, seed: &[u8]) -> Vec<usize> {
    let mut stream = Stream::new(seed, "data/sample", &(count as u64).to_le_bytes());
    let mut placed = Vec::with_capacity(labels.len());
    for mut rows in by_class(labels) {
        shuffle(&mut rows, &mut stream);
        // The places of a class are spread evenly over 0..1, so any prefix of the order has the class in
        // proportion.
        let share = rows.len() as f64;
        placed.extend(rows.into_iter().enumerate().map(|(i, row)| ((i as f64 + 0.5) / share, row)));
    }
    placed.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let mut sample: Vec<_> = placed.into_iter().take(count).map(|(_, row)| row).collect();
    sample.sort_unstable();
    sample
}

/// Returns the rows of each class, ascending, up to the highest class present.
pub(super) fn by_class(labels: &[u16]) -> Vec<Vec<usize>> {
    let classes = labels.iter().max().map_or(0, |&l| usize::from(l) + 1);
    let mut rows = vec![Vec::new(); classes];
    for (row, &label) in labels.iter().enumerate() {
        rows[usize::from(label)].push(row);
    }
    rows
}

#[cfg(test)]
mod tests;
