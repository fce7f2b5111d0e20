//! Groups of rows: the visits of one patient, the images of one device. A split never separates the rows
//! of a group.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use flyswarm_sealed_sum::crypto::tagged_hash;
use sha2::Digest;

use super::Dataset;
use super::labels::meaning;

/// Id of a group: SHA-256(tag "group" || the text of the group column). All rows of a group have the same
/// id. A group has the same id in every file.
///
/// The id stays in memory, because a pseudonym can be guessed from its hash.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Group([u8; 32]);

impl Group {
    /// Returns the group with this text. `7`, `7.0` and `7.00` are one group, because programs write 7.0
    /// for 7 if the column has missing values.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let number = meaning(text).filter(|meant| meant.parse::<i64>().is_ok());
        let text = number.as_deref().unwrap_or(text);
        Self(tagged_hash("group").chain_update(text).finalize().into())
    }

    pub(super) fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Group(<redacted>)")
    }
}

/// Input of a split: the class of each row, and its group if rows have groups.
#[derive(Debug, Clone, Copy)]
pub struct Rows<'a> {
    labels: &'a [u16],
    groups: Option<&'a [Group]>,
}

impl<'a> Rows<'a> {
    /// Takes a label for each row and, if rows have groups, a group for each row.
    ///
    /// # Panics
    /// If the numbers of groups and labels differ.
    #[must_use]
    pub fn new(labels: &'a [u16], groups: Option<&'a [Group]>) -> Self {
        assert!(groups.is_none_or(|groups| groups.len() == labels.len()), "a group for each label");
        Self { labels, groups }
    }

    /// The class of each row.
    #[must_use]
    pub fn labels(self) -> &'a [u16] {
        self.labels
    }

    /// The group of each row.
    pub(super) fn groups(self) -> Option<&'a [Group]> {
        self.groups
    }
}

impl<'a> From<&'a Dataset> for Rows<'a> {
    /// If the rows have no labels, the input is empty.
    fn from(data: &'a Dataset) -> Self {
        let labels = data.labels();
        Self { labels, groups: data.groups().filter(|_| !labels.is_empty()) }
    }
}

/// Rows that a split keeps together: the rows of one group, or single rows if there are no groups.
#[derive(Debug, Clone)]
pub struct Units {
    /// The rows of all units, unit after unit. Units are sorted by their first row; the rows of each are
    /// ascending.
    rows: Vec<usize>,
    /// The index in `rows` of the first row of each unit, then the length of `rows`.
    starts: Vec<usize>,
    labels: Vec<u16>,
}

impl Units {
    /// Returns the units of some rows.
    #[must_use]
    pub fn of<'a>(rows: impl Into<Rows<'a>>) -> Self {
        let Rows { labels, groups } = rows.into();
        let Some(groups) = groups else {
            let (rows, starts) = ((0..labels.len()).collect(), (0..=labels.len()).collect());
            return Self { rows, starts, labels: labels.to_vec() };
        };
        let rows = together(groups);
        let labels = rows.iter().map(|rows| most_frequent(rows, labels)).collect();
        let mut starts = vec![0];
        starts.extend(rows.iter().scan(0, |end, rows| {
            *end += rows.len();
            Some(*end)
        }));
        Self { rows: rows.concat(), starts, labels }
    }

    /// The most frequent class of each unit; the first class if several are equally frequent.
    #[must_use]
    pub fn labels(&self) -> &[u16] {
        &self.labels
    }

    /// Number of units.
    #[must_use]
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Returns true if the number of units is 0.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// Returns the rows of a unit, at least one.
    ///
    /// # Panics
    /// If `unit` is not below [`Units::len`].
    #[must_use]
    pub fn rows(&self, unit: usize) -> &[usize] {
        &self.rows[self.starts[unit]..self.starts[unit + 1]]
    }

    /// Returns the rows of these units, ascending.
    ///
    /// # Panics
    /// If a unit is not below [`Units::len`].
    #[must_use]
    pub fn expand(&self, units: &[usize]) -> Vec<usize> {
        let mut rows: Vec<usize> = units.iter().flat_map(|&unit| self.rows(unit)).copied().collect();
        rows.sort_unstable();
        rows
    }
}

/// Returns the rows of each group. Groups are in the order of their first rows.
fn together(groups: &[Group]) -> Vec<Vec<usize>> {
    let (mut rows, mut places): (Vec<Vec<usize>>, _) = (Vec::new(), BTreeMap::new());
    for (row, group) in groups.iter().enumerate() {
        let place = *places.entry(group).or_insert(rows.len());
        match rows.get_mut(place) {
            Some(rows) => rows.push(row),
            None => rows.push(vec![row]),
        }
    }
    rows
}

fn most_frequent(rows: &[usize], labels: &[u16]) -> u16 {
    let mut counts = BTreeMap::<u16, usize>::new();
    rows.iter().for_each(|&row| *counts.entry(labels[row]).or_default() += 1);
    counts.into_iter().max_by_key(|&(label, rows)| (rows, u16::MAX - label)).map_or(0, |(label, _)| label)
}

/// Returns the first `most` rows of each group, ascending.
#[must_use]
pub fn first_of_each(groups: &[Group], most: usize) -> Vec<usize> {
    let mut rows: Vec<usize> =
        together(groups).into_iter().flat_map(|rows| rows.into_iter().take(most)).collect();
    rows.sort_unstable();
    rows
}

/// Returns the rows of `data` whose group has no row in `other`; all rows if either has no groups.
#[must_use]
pub fn without(data: &Dataset, other: &Dataset) -> Dataset {
    let (Some(groups), Some(others)) = (data.groups(), other.groups()) else { return data.clone() };
    let others: BTreeSet<&Group> = others.iter().collect();
    let kept: Vec<usize> = (0..data.rows()).filter(|&row| !others.contains(&groups[row])).collect();
    data.subset(&kept)
}

/// Returns the number of groups that are in both.
#[must_use]
pub fn in_both(a: &[Group], b: &[Group]) -> usize {
    let [a, b] = [a, b].map(|groups| groups.iter().collect::<BTreeSet<_>>());
    a.intersection(&b).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_its_text_and_a_whole_number_in_any_spelling() {
        assert_eq!(Group::of("7"), Group::of("7.0"));
        assert_ne!(Group::of("7"), Group::of("07"));
        assert_ne!(Group::of("p-7"), Group::of("p-8"));
        assert_ne!(Group::of("True"), Group::of("true"), "two pseudonyms");
        assert_eq!(format!("{:?}", Group::of("p-7")), "Group(<redacted>)");
    }

    #[test]
    fn units_are_groups_with_their_most_frequent_class() {
        let groups = ["a", "b", "a", "c", "b", "a"].map(Group::of);
        let units = Units::of(Rows::new(&[1, 2, 0, 0, 1, 1], Some(&groups)));
        assert_eq!(units.labels(), [1, 1, 0]);
        assert_eq!(units.expand(&[0, 2]), [0, 2, 3, 5]);
        let single = Units::of(Rows::new(&[1, 0], None));
        assert_eq!((single.labels(), single.expand(&[1])), (&[1, 0][..], vec![1]));
    }

    #[test]
    fn the_first_rows_of_each_group_are_kept() {
        let groups = ["a", "b", "a", "c", "b", "a"].map(Group::of);
        assert_eq!(first_of_each(&groups, 1), [0, 1, 3]);
        assert_eq!(first_of_each(&groups, 2), [0, 1, 2, 3, 4]);
        assert_eq!(in_both(&groups[..2], &groups[2..4]), 1);
    }

    #[test]
    fn rows_of_groups_that_are_elsewhere_are_left_out() {
        let rows = |groups: &[&str]| {
            let data = Dataset::new(1, vec![1.0; groups.len()], Vec::new(), Vec::new()).unwrap();
            data.with_groups(groups.iter().map(|text| Group::of(text)).collect()).unwrap()
        };
        let (data, held) = (rows(&["a", "b", "a", "c"]), rows(&["a", "d"]));
        assert_eq!(without(&data, &held), data.subset(&[1, 3]));
        let bare = Dataset::new(1, vec![1.0], Vec::new(), Vec::new()).unwrap();
        assert_eq!((without(&data, &bare), without(&bare, &held)), (data, bare.clone()));
    }
}
