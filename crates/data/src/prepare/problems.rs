//! All problems of a table: each problem once, with its column, first line and number of rows.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use super::publish::{Publishable, Rule};
use super::read::Unseen;
use super::texts::blanked;
use super::value::{NoNumber, is_no_value, looks_missing};
use super::{Kind, MAX_LEVELS, MAX_TOKENS, TableSchema};
use crate::{quoted, row_names};

/// Number of different texts of one problem that are kept.
const TEXTS: usize = MAX_LEVELS;
/// Fewest rows with unknown texts that count as other codes instead of misspellings.
const FEW: u64 = 5;
/// Number of texts of one problem that a line shows.
const SHOWN: usize = 5;

/// All problems of a file, in the order of its lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problems {
    /// The file.
    pub file: PathBuf,
    /// One entry for each kind of problem of each column. An error has at least one.
    pub list: Vec<Problem>,
    /// Texts that are not levels but were accepted.
    pub unseen: Vec<Unseen>,
    /// Columns of the file that are not described.
    pub left_out: Vec<String>,
    /// Findings about the rows without problems: a keyword for programs and a line of text each.
    pub notices: Vec<(&'static str, String)>,
}

impl Problems {
    /// Returns the problems that a person needs to see. If a file has other column names, the missing
    /// columns are not listed one by one.
    #[must_use]
    pub fn shown(&self) -> &[Problem] {
        match self.list.first().map(|problem| &problem.trouble) {
            Some(Trouble::OtherNames(_)) => &self.list[..1],
            _ => &self.list,
        }
    }

    /// Returns a value without problems for this file.
    #[must_use]
    pub fn none(file: &Path) -> Self {
        Self {
            file: file.into(),
            list: Vec::new(),
            unseen: Vec::new(),
            left_out: Vec::new(),
            notices: Vec::new(),
        }
    }
}

/// A problem of one column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// First line with the problem, from 1; 0 if the problem is not in a row and the file has no lines.
    pub line: u64,
    /// Unit of `line`: `line`, or `row` in a format without lines.
    pub unit: &'static str,
    /// Name of the column.
    pub column: String,
    /// Kind of the problem.
    pub trouble: Trouble,
    /// Number of rows with the problem.
    pub rows: u64,
    /// Texts found, each with its number of rows; at most 1,000 texts.
    pub texts: Vec<(String, u64)>,
}

/// Kind of a problem with a column.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trouble {
    /// The header has none of the session's columns, such as these.
    OtherNames(String),
    /// No column has this name; the header may contain a similar one.
    NoColumn(Option<String>),
    /// Several columns have this name.
    Twice,
    /// A row has fewer or more fields than the header.
    Fields(usize),
    /// A value is missing, and the session has no fill for it.
    Missing,
    /// A row has no label.
    NoLabel,
    /// A row has no group.
    NoGroup,
    /// A text is not a number.
    Number(NoNumber),
    /// A text is not a date. This is the expected order.
    Date(&'static str),
    /// A text is not UTF-8.
    Encoding,
    /// A value is outside the limits, which are given as text.
    Outside(String),
    /// A text is not a level of the column.
    Level,
    /// No row has one of the column's levels, which are given as text.
    OtherCodes(String),
    /// A text is not a class. This is what was expected.
    Class(String),
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, ", self.file.display())?;
        match self.shown() {
            [] => f.write_str("no problem"),
            [one] => one.fmt(f),
            [first, rest @ ..] => {
                let s = if rest.len() == 1 { "" } else { "s" };
                write!(f, "{first} (and {} more problem{s}: `flyswarm schema check` lists all)", rest.len())
            }
        }
    }
}

impl std::error::Error for Problems {}

impl fmt::Display for Problem {
    /// Writes the line, the column, the texts with their numbers of rows, and what to do, without the file
    /// name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let column = quoted(self.column.as_bytes());
        match &self.trouble {
            Trouble::OtherNames(first) => {
                return write!(
                    f,
                    "{}: none of the session's columns, such as {first}, is in the header; if they have \
                     other names here, `flyswarm schema check --suggest-map` drafts a map file for --map; if \
                     the header is further down, remove the lines above it",
                    self.place()
                );
            }
            Trouble::NoColumn(near) => {
                write!(f, "{}: no column is called {column}", self.place())?;
                return match near {
                    Some(near) => {
                        write!(f, "; {} is: call it {column} in the header", quoted(near.as_bytes()))
                    }
                    None => {
                        f.write_str("; the session has it: add it to the file, or agree on a file without it")
                    }
                };
            }
            Trouble::Twice => {
                return write!(f, "{}: several columns are called {column}; rename one", self.place());
            }
            Trouble::Fields(expected) => {
                let found = self.texts.first().map_or("0", |(found, _)| found);
                write!(f, "{}: {found} columns, expected {expected} as in the header", self.place())?;
                self.count(f)?;
                f.write_str("; a delimiter inside a value needs quotes around the value")?;
                return f.write_str(found.parse().map_or("", |found| row_names(found, *expected)));
            }
            _ => {}
        }
        write!(f, "{}, column {column}: found ", self.place())?;
        let shown = self.texts.iter().take(SHOWN);
        for (at, (text, rows)) in shown.enumerate() {
            let comma = if at > 0 { ", " } else { "" };
            write!(f, "{comma}{}", quoted(text.as_bytes()))?;
            if self.texts.len() > 1 {
                write!(f, " ({rows})")?;
            }
        }
        if self.texts.len() > SHOWN {
            write!(f, ", and {} texts more", self.texts.len() - SHOWN)?;
        }
        self.count(f)?;
        write!(f, ", expected {}", self.advice())
    }
}

impl Problem {
    fn place(&self) -> String {
        if self.line == 0 { "the schema".into() } else { format!("{} {}", self.unit, self.line) }
    }

    fn count(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.rows > 1 { write!(f, " in {} rows", self.rows) } else { Ok(()) }
    }

    /// Makes a problem of a column without a place.
    pub(super) fn of_column(name: &str, trouble: Trouble) -> Self {
        Self { line: 0, unit: "line", column: name.to_owned(), trouble, rows: 0, texts: Vec::new() }
    }

    /// Returns what was expected, and what to do.
    pub(super) fn advice(&self) -> String {
        let column = quoted(self.column.as_bytes());
        match &self.trouble {
            Trouble::Missing => format!(
                "a value; leave these rows out, or agree on a value to fill in: `fill = ...` for \
                 {column} in the session file"
            ),
            Trouble::NoLabel => "a label; leave out rows without a label".into(),
            Trouble::NoGroup => {
                "the row's group, such as the patient; give each row without one a group of its own, or leave it out".into()
            }
            Trouble::Number(why) => match why {
                NoNumber::OtherDecimal => {
                    "a number with the session's decimal sign; set `decimal_comma` in the map file if \
                     this file has the other".into()
                }
                NoNumber::Ambiguous => {
                    "a number with one meaning: write it without a thousands separator, or set \
                     `decimal_comma` in the map file".into()
                }
                NoNumber::Limit => {
                    "a number; agree on a number for values that are too small or too large to be measured (half the limit is usual), and write that number".into()
                }
                NoNumber::Percent => "a number; write it without the sign, and agree whether all peers write percent or shares".into(),
                NoNumber::Unit => "a number; take the unit out, and make sure that all rows and peers use the same".into(),
                NoNumber::Minus => "a number; write a minus as -, without brackets".into(),
                NoNumber::Date => format!("a number; for dates agree on kind = \"date\" for {column} in the session file"),
                NoNumber::Large => "a finite number below 2^80".into(),
                NoNumber::Missing => {
                    "a number; if it stands for a missing value, `flyswarm schema check --amend` adds it to `missing` in the session file".into()
                }
                NoNumber::Text => format!(
                    "a number; correct it, or agree on kind = \"category\" or \"ignored\" for {column} in the session file"
                ),
            },
            Trouble::Date(order) => format!("a date written {order}, such as {}", example(order)),
            Trouble::Encoding => "UTF-8 text; save the file as UTF-8 (in a spreadsheet: \"CSV UTF-8\")".into(),
            Trouble::Outside(limits) => format!("{limits}, the limits of the session; correct it (other units?), or leave such rows out"),
            Trouble::OtherCodes(levels) => format!(
                "one of the levels of the session file, {levels}, and no row has one: does this file use \
                 other codes? write the codes of the session"
            ),
            Trouble::Level => "one of the levels of the session file; correct it, or `flyswarm schema check --amend` adds it".into(),
            Trouble::Class(expected) => expected.clone(),
            Trouble::OtherNames(_) | Trouble::NoColumn(_) => String::new(),
            Trouble::Twice | Trouble::Fields(_) => String::new(),
        }
    }
}

fn example(order: &str) -> &'static str {
    match order {
        "day-month-year" => "31.01.2026",
        "month-day-year" => "01/31/2026",
        _ => "2026-01-31",
    }
}

/// Problems that were found so far.
#[derive(Debug, Default)]
pub(super) struct Collector {
    met: BTreeMap<(String, Trouble), Met>,
}

#[derive(Debug)]
struct Met {
    line: u64,
    rows: u64,
    /// The texts in the order in which they were found, and the place of each text in this list.
    texts: Vec<(String, u64)>,
    places: BTreeMap<String, usize>,
}

impl Met {
    /// Counts `rows` more rows with a text.
    fn count(&mut self, text: String, rows: u64) {
        let next = self.texts.len();
        match self.places.get(&text) {
            Some(&place) => {
                if let Some((_, known)) = self.texts.get_mut(place) {
                    *known += rows;
                }
            }
            None if next < TEXTS => {
                self.texts.push((text.clone(), rows));
                self.places.insert(text, next);
            }
            None => {}
        }
    }
}

impl Collector {
    pub(super) fn add(&mut self, line: u64, column: &str, trouble: Trouble, text: &[u8]) {
        let met = self.met.entry((column.to_owned(), trouble)).or_insert_with(|| Met {
            line,
            rows: 0,
            texts: Vec::new(),
            places: BTreeMap::new(),
        });
        met.rows += 1;
        met.count(String::from_utf8_lossy(text).chars().take(256).collect(), 1);
    }

    /// Appends the problems of later rows. No problem in `behind` may have more than [`TEXTS`] texts.
    pub(super) fn append(&mut self, behind: Self) {
        for ((column, trouble), Met { line, rows, texts, places }) in behind.met {
            match self.met.entry((column, trouble)) {
                Entry::Vacant(place) => {
                    place.insert(Met { line, rows, texts, places });
                }
                Entry::Occupied(mut met) => {
                    let met = met.get_mut();
                    met.rows += rows;
                    texts.into_iter().for_each(|(text, rows)| met.count(text, rows));
                }
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.met.is_empty()
    }

    pub(super) fn finish(self, file: PathBuf, unit: &'static str) -> Problems {
        let met = self.met.into_iter();
        let mut list: Vec<Problem> = met
            .map(|((column, trouble), Met { line, rows, texts, .. })| Problem {
                line,
                unit,
                column,
                trouble,
                rows,
                texts,
            })
            .collect();
        list.sort_by_key(|problem| problem.line);
        Problems { list, ..Problems::none(&file) }
    }
}

/// Returns the name that `text` probably means: equal except for case, or for one or two letters.
pub(crate) fn near<'a>(text: &str, names: impl IntoIterator<Item = &'a String>) -> Option<&'a String> {
    let (small, blank) = (text.to_lowercase(), blanked(text));
    let distance = |name: &String| {
        // P002 is not a misspelling of P001.
        if blanked(name) == blank && name.to_lowercase() != small {
            return None;
        }
        let other = name.to_lowercase();
        let most = match small.chars().count().min(other.chars().count()) {
            0..=3 => 0,
            4..=7 => 1,
            _ => 2,
        };
        Some(strsim::damerau_levenshtein(&small, &other)).filter(|&distance| distance <= most)
    };
    let near =
        names.into_iter().filter(|name| *name != text).filter_map(|name| Some((distance(name)?, name)));
    near.min_by_key(|&(distance, _)| distance).map(|(_, name)| name)
}

impl Problems {
    /// Reports that a column has other codes if no row has one of its levels. `met` has the places of the
    /// columns with a known level.
    pub(super) fn mark_other_codes(&mut self, schema: &TableSchema, met: &BTreeSet<u16>) {
        for (column, place) in schema.columns.iter().zip(0u16..) {
            if met.contains(&place) || column.levels().is_empty() {
                continue;
            }
            let shown: Vec<_> =
                column.levels().iter().take(SHOWN).map(|level| quoted(level.as_bytes())).collect();
            let trouble = Trouble::OtherCodes(shown.join(", "));
            let of_column = |problem: &&mut Problem| {
                problem.column == column.name && problem.trouble == Trouble::Level && problem.rows >= FEW
            };
            if let Some(problem) = self.list.iter_mut().find(of_column) {
                problem.trouble = trouble;
                continue;
            }
            let others = self.unseen.iter().filter(|unseen| unseen.column == column.name);
            let texts: Vec<_> = others.map(|unseen| (unseen.level.clone(), unseen.rows)).collect();
            let rows = texts.iter().map(|(_, rows)| rows).sum();
            if rows >= FEW {
                self.list.push(Problem { rows, texts, ..Problem::of_column(&column.name, trouble) });
            }
        }
    }

    /// Returns the texts that are not levels, each with its column and number of rows.
    fn strangers(&self) -> impl Iterator<Item = (&str, &str, u64)> {
        let refused = self.list.iter().filter(|problem| problem.trouble == Trouble::Level);
        let refused = refused.flat_map(|problem| {
            problem.texts.iter().map(|(text, rows)| (problem.column.as_str(), text.as_str(), *rows))
        });
        let read = self.unseen.iter();
        refused.chain(read.map(|unseen| (unseen.column.as_str(), unseen.level.as_str(), unseen.rows)))
    }
}

/// Result of [`TableSchema::amend`].
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Amended {
    /// Levels that were added, each with its column.
    pub levels: Vec<(String, Publishable)>,
    /// Texts for missing values that were added.
    pub tokens: Vec<String>,
    /// Lines on the texts that were not added, with the reason.
    pub left: Vec<String>,
}

impl TableSchema {
    /// Adds the levels of categories and the texts for missing values that the file has but the schema lacks.
    ///
    /// A level is added only if `rule` allows others to see it. A level that looks like a misspelling of
    /// another one is not added. A level of an ordinal is not added either, because its place is unknown.
    #[must_use]
    pub fn amend(&mut self, problems: &Problems, rule: &Rule) -> Amended {
        let mut amended = Amended::default();
        // Missing values come first, so that no column gets them as levels. These words do not identify a
        // person.
        for problem in &problems.list {
            for (text, _) in &problem.texts {
                let missing = match problem.trouble {
                    Trouble::Number(_) | Trouble::Date(_) => looks_missing(text),
                    Trouble::Level => is_no_value(text),
                    _ => false,
                };
                if !missing || self.missing.contains(text) || self.missing.len() >= MAX_TOKENS {
                    continue;
                }
                match self.columns.iter().find(|column| column.levels().contains(text)) {
                    Some(column) => amended.left.push(format!(
                        "{text:?} is not added to `missing`: it is a level of {:?}; leave these fields empty",
                        column.name
                    )),
                    None => {
                        self.missing.push(text.clone());
                        amended.tokens.push(text.clone());
                    }
                }
            }
        }
        let mut rare: BTreeMap<&str, usize> = BTreeMap::new();
        for (name, text, rows) in
            problems.strangers().filter(|(_, text, _)| !self.missing.iter().any(|t| t == text))
        {
            let Some(column) = self.columns.iter_mut().find(|column| column.name == name) else {
                continue;
            };
            let near = near(text, column.levels()).cloned();
            let levels = match (&mut column.kind, near) {
                (_, Some(other)) => {
                    amended.left.push(format!(
                        "{name:?}: {text:?} is not added: it looks like {other:?} misspelt; correct the rows, or add it by \
                         hand"
                    ));
                    continue;
                }
                (Kind::Category(levels), None) => levels,
                (_, None) => {
                    amended.left.push(format!(
                        "{name:?}: {text:?} is not added: its place in the order is unknown; add it by hand"
                    ));
                    continue;
                }
            };
            match rule.admit(text, rows).filter(|_| levels.len() < MAX_LEVELS) {
                Some(level) => {
                    levels.push(level.as_str().to_owned());
                    amended.levels.push((name.to_owned(), level));
                }
                None => *rare.entry(name).or_default() += 1,
            }
        }
        amended.left.extend(rare.into_iter().map(|(name, texts)| {
            let least = rule.min_rows;
            format!(
                "{name:?}: {texts} texts are not added: each is in fewer than {least} rows here and could name a patient \
                 (--min-rows)"
            )
        }));
        amended
    }
}
