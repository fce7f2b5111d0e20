//! Roles of the columns of a file: the label, a feature at its place in a row, or a dropped column.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::str::FromStr;

use super::{DataError, Expected, Loaded, MAX_FEATURES, quoted};

/// The column that holds the label.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum LabelColumn {
    /// The column of this name; the file must have names.
    Name(String),
    /// The column of this number, from 1.
    Number(usize),
    /// The last column.
    #[default]
    Last,
    /// No column: all are features, and the rows have no labels.
    None,
}

impl LabelColumn {
    /// Returns the column of this name, even if the name has only digits. `last` and `none` keep their
    /// meanings.
    #[must_use]
    pub fn named(name: String) -> Self {
        match &*name {
            "last" => Self::Last,
            "none" => Self::None,
            _ => Self::Name(name),
        }
    }
}

impl FromStr for LabelColumn {
    type Err = String;

    /// Parses `last`, `none`, a number from 1, `name:NAME`, or any other text as a name.
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "last" => Ok(Self::Last),
            "none" => Ok(Self::None),
            "" => Err("expected a column name, a number from 1, last or none".into()),
            _ if text.bytes().all(|b| b.is_ascii_digit()) => match text.parse() {
                Ok(number) if number > 0 => Ok(Self::Number(number)),
                _ => Err(format!("column {text}: expected a number from 1 to {MAX_FEATURES}")),
            },
            _ => Ok(Self::Name(text.strip_prefix("name:").unwrap_or(text).to_owned())),
        }
    }
}

/// A column by name or number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Column {
    /// The column of this name.
    Name(String),
    /// The column of this number, from 1.
    Number(usize),
}

impl FromStr for Column {
    type Err = String;

    /// Parses a number from 1, `name:NAME`, or any other text as a name.
    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse()? {
            LabelColumn::Number(number) => Ok(Self::Number(number)),
            LabelColumn::Name(name) => Ok(Self::Name(name)),
            LabelColumn::Last | LabelColumn::None => Ok(Self::Name(text.into())),
        }
    }
}

/// Role of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// The feature at this place in a row, from 0.
    Feature(usize),
    Label,
    Dropped,
}

/// The columns of a file, before the reader knows whether it can compare their names.
#[derive(Debug)]
pub(super) struct Header<'a> {
    pub(super) file: &'a Path,
    /// Place of the names in the file, for errors, such as `line 1`.
    pub(super) place: &'static str,
    /// The line that shows the number of columns, from 1 (1 if the file has no lines).
    pub(super) line: u64,
    /// Number of columns.
    pub(super) count: usize,
    /// The names; `None` if the file has no names.
    pub(super) names: Option<Vec<String>>,
}

/// The columns that are not features, as indices from 0.
#[derive(Debug, Default)]
pub(super) struct Aside {
    pub(super) label: Option<usize>,
    dropped: BTreeSet<usize>,
}

impl Aside {
    pub(super) fn contains(&self, column: usize) -> bool {
        self.label == Some(column) || self.dropped.contains(&column)
    }
}

/// The role of every column, and the features that follow from the roles.
#[derive(Debug)]
pub(super) struct Columns {
    /// The role of each column of the file.
    pub(super) roles: Vec<Role>,
    /// Number of features in a row.
    pub(super) features: usize,
    /// Names of the features in the order of a row; empty if the file has no names.
    pub(super) names: Vec<String>,
    pub(super) reordered: bool,
}

impl Loaded {
    /// Adds the names of the columns.
    pub(super) fn named(self, columns: Columns) -> Self {
        Self { columns: columns.names, reordered: columns.reordered, ..self }
    }
}

impl Header<'_> {
    fn refuse<T>(&self, problem: String) -> Result<T, DataError> {
        Err(DataError::Layout { file: self.file.into(), problem })
    }

    /// Returns the index of the column with this name, from 0.
    fn named(&self, name: &str) -> Result<usize, DataError> {
        let place = self.place;
        let Some(names) = &self.names else {
            return self.refuse(format!(
                "column {name:?} is given by name, but {place} has no names: give its number"
            ));
        };
        let mut found = names.iter().enumerate().filter(|(_, other)| *other == name.trim());
        match (found.next(), found.next()) {
            (Some((at, _)), None) => Ok(at),
            (None, _) => self.refuse(format!("{place} has no column named {name:?}, expected one")),
            _ => self.refuse(format!("{place} has several columns named {name:?}, expected one")),
        }
    }

    /// Finds the label column, unless the labels come from elsewhere, and the columns to drop.
    pub(super) fn aside(&self, label: &LabelColumn, drop: &[Column]) -> Result<Aside, DataError> {
        let count = self.count;
        let label = match label {
            LabelColumn::None => None,
            LabelColumn::Last => count.checked_sub(1),
            &LabelColumn::Number(number) => {
                if number == 0 || number > count {
                    return self.refuse(format!("the label column is {number}, expected 1 to {count}"));
                }
                Some(number - 1)
            }
            LabelColumn::Name(name) => Some(self.named(name)?),
        };
        let mut dropped = BTreeSet::new();
        for column in drop {
            let at = match column {
                Column::Name(name) => self.named(name)?,
                &Column::Number(number) if number == 0 || number > count => {
                    return self.refuse(format!("column {number} cannot be left out, expected 1 to {count}"));
                }
                &Column::Number(number) => number - 1,
            };
            if label == Some(at) {
                return self.refuse(format!("column {} is the label and cannot be left out", at + 1));
            }
            dropped.insert(at);
        }
        let features = count - dropped.len() - usize::from(label.is_some());
        if features == 0 {
            return self.refuse(match (label, count) {
                (Some(_), 1) => "one column, the label: expected at least one feature".into(),
                _ => "no column is left: expected at least one feature".into(),
            });
        }
        if features > MAX_FEATURES {
            let (found, limit) = (features as u64, MAX_FEATURES as u64);
            return Err(DataError::Limit { file: self.file.into(), what: "too many columns", found, limit });
        }
        Ok(Aside { label, dropped })
    }

    /// Checks the number of features.
    pub(super) fn check_count(&self, aside: &Aside, expected: &Expected) -> Result<(), DataError> {
        let labelled = aside.label.is_some();
        let found = self.count - aside.dropped.len() - usize::from(labelled);
        match expected.features {
            Some(expected) if expected != found => Err(DataError::Features {
                file: self.file.into(),
                line: self.line,
                found,
                expected,
                labelled,
            }),
            _ => Ok(()),
        }
    }

    /// Returns the role of every column.
    ///
    /// Columns are matched by name if the file has names and `expected` has some, and by place otherwise.
    pub(super) fn columns(self, aside: &Aside, expected: &Expected) -> Result<Columns, DataError> {
        let features: Vec<usize> = (0..self.count).filter(|&column| !aside.contains(column)).collect();
        let mut names: Vec<String> = match &self.names {
            Some(names) => features.iter().map(|&column| names[column].clone()).collect(),
            None => Vec::new(),
        };
        recase(&mut names, &expected.columns.iter().map(String::as_str).collect());
        let compared = !expected.columns.is_empty() && !names.is_empty() && names != expected.columns;
        if compared {
            self.compare(&features, &names, expected)?;
        }
        self.check_count(aside, expected)?;
        let mut roles = vec![Role::Dropped; self.count];
        if let Some(label) = aside.label {
            roles[label] = Role::Label;
        }
        let places: BTreeMap<&str, usize> = expected.columns.iter().map(String::as_str).zip(0..).collect();
        for (place, &column) in features.iter().enumerate() {
            let place = if compared { places.get(names[place].as_str()).copied() } else { Some(place) };
            roles[column] = place.map_or(Role::Dropped, Role::Feature);
        }
        if compared {
            names = expected.columns.to_vec();
        }
        Ok(Columns { roles, features: features.len(), names, reordered: compared })
    }

    /// Reports the first difference between the names of the file and the expected names.
    fn compare(&self, features: &[usize], names: &[String], expected: &Expected) -> Result<(), DataError> {
        let (by, expected) = (expected.named_by, expected.columns);
        let known: BTreeSet<&String> = expected.iter().collect();
        let there: BTreeSet<&String> = names.iter().collect();
        let missing = expected.iter().find(|name| !there.contains(name));
        let shown = |name: &String| quoted(name.as_bytes());
        let mut seen = BTreeSet::new();
        if let Some(twice) = names.iter().find(|name| !seen.insert(*name)) {
            return self.refuse(format!("several columns are called {}, expected one", shown(twice)));
        }
        let unknown = names.iter().enumerate().find(|(_, name)| !known.contains(name));
        match (unknown, missing) {
            (None, None) => Ok(()),
            (None, Some(name)) => self.refuse(format!("no column is called {}, which {by} has", shown(name))),
            (Some((at, name)), None) => self.refuse(format!(
                "column {} is called {}, which {by} does not have (`drop` in the map file leaves a column out)",
                features[at] + 1,
                shown(name)
            )),
            (Some((at, name)), Some(missing)) => {
                let column = features[at] + 1;
                let says = match expected.get(at) {
                    Some(here) if !there.contains(here) => format!("{by} calls it {}", shown(here)),
                    _ => format!("{by} has no such column; it has {}, which this file does not have", shown(missing)),
                };
                self.refuse(format!("column {column} is called {}, {says}", shown(name)))
            }
        }
    }
}

/// Gives a name the known spelling if the two differ only in capitals and the match is unique.
pub(super) fn recase(names: &mut [String], known: &BTreeSet<&str>) {
    let there: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    let mut absent: BTreeMap<String, Option<&str>> = BTreeMap::new();
    for name in known.iter().filter(|name| !there.contains(*name)) {
        absent.entry(name.to_lowercase()).and_modify(|one| *one = None).or_insert(Some(name));
    }
    let mut own: BTreeMap<String, u32> = BTreeMap::new();
    if absent.is_empty() {
        return;
    }
    names.iter().for_each(|name| *own.entry(name.to_lowercase()).or_default() += 1);
    for name in names.iter_mut().filter(|name| !known.contains(name.as_str())) {
        let small = name.to_lowercase();
        if let (Some(Some(spelt)), Some(1)) = (absent.get(&small), own.get(&small)) {
            *name = (*spelt).to_owned();
        }
    }
}

/// Returns advice for a column without numbers, to follow `expected a number`.
pub(super) fn advice(name: &str) -> String {
    let name = quoted(name.as_bytes());
    format!(
        "a number: describe categories in the session (`session new flynn --from`), leave the column out (drop = [{name}] in the map file), or is it the label (--label {name})?"
    )
}
