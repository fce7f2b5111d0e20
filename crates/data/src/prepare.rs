//! A *table schema*: how the columns of a table become the numbers of a row.
//!
//! Peers agree on it in the session file, and a model stores it, so that the rows of all are read alike and
//! rows to predict are read like those that were learnt. Each described column is a number, a category (one
//! number of 0 or 1 for each level), an ordinal (the place of its level, from 0), a date (days since
//! 1970-01-01) or ignored. A missing value is refused, or a value that was agreed on takes its place, or the
//! mean or the most frequent level over all peers ([`mod@pooled`]); a further number of 0 or 1 may say that
//! it was missing.
//!
//! [`mod@read`] reads a file so and collects all that is wrong with it ([`Problems`]); [`mod@draft`] guesses
//! a preparation from one file, and [`mod@publish`] says which texts it may hold; [`mod@whole`] reads rows
//! that are all in one file; [`mod@encoding`] is its one encoding, for session ids and model files.

use std::collections::BTreeSet;

pub mod draft;
pub mod encoding;
pub mod pooled;
pub mod problems;
pub mod publish;
pub mod read;
pub(super) mod rows;
mod tally;
mod texts;
pub mod value;
pub mod whole;

pub use pooled::MissingCell;
pub use problems::{Problem, Problems};
pub use value::DateOrder;

use super::{MAX_CLASS_NAME, MAX_FEATURES, check_class_name};

/// Most described columns.
pub const MAX_DESCRIBED: usize = 2_000;
/// Most levels of a category or an ordinal.
pub const MAX_LEVELS: usize = 1_000;
/// Most texts that stand for a missing value.
pub const MAX_TOKENS: usize = 100;
/// What the number of an indicator is called after its column's name.
pub const INDICATOR: &str = " is missing";

/// Why a preparation is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} is {found}, must be {expected}")]
pub struct PrepareError {
    /// Which part of it.
    pub what: String,
    /// What it is.
    pub found: String,
    /// What would be right.
    pub expected: String,
}

impl PrepareError {
    fn new(what: impl Into<String>, found: impl Into<String>, expected: impl Into<String>) -> Self {
        Self { what: what.into(), found: found.into(), expected: expected.into() }
    }
}

/// How the columns of a table become the numbers of a row; see the [module](self).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TableSchema {
    /// What stands between columns: `,`, `;`, a tab or `|`. Found by the names in the header where not given.
    pub delimiter: Option<u8>,
    /// Whether decimals follow a comma, and points may part thousands.
    pub decimal_comma: bool,
    /// Texts that stand for a missing value, beside an empty field, in each column whose levels do not name
    /// them.
    pub missing: Vec<String>,
    /// The column of the label; none where rows have none.
    pub label: Option<String>,
    /// The column whose text says which rows belong together, such as those of one patient; it is no feature.
    pub group: Option<String>,
    /// The columns, all with different names, in the order of a row.
    pub columns: Vec<ColumnSpec>,
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnSpec {
    /// What it is called in the header.
    pub name: String,
    /// What is in it.
    pub kind: Kind,
    /// What takes the place of a missing value.
    pub fill: Fill,
    /// Whether one more number says, by 0 or 1, that the value was missing.
    pub indicator: bool,
    /// The smallest value; of numbers and dates only.
    pub min: Option<f64>,
    /// The largest value; of numbers and dates only.
    pub max: Option<f64>,
    /// Whether a value outside becomes the nearest limit; else its row is refused.
    pub clip: bool,
    /// Whether a text that is no level counts as missing; else its row is refused.
    pub others_missing: bool,
}

/// What is in a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// No feature, whatever is in it.
    Ignored,
    /// Numbers.
    Number,
    /// One of these texts; a number of 0 or 1 for each.
    Category(Vec<String>),
    /// One of these texts, in ascending order; the number is the place, from 0.
    Ordinal(Vec<String>),
    /// Days since 1970-01-01.
    Date(DateOrder),
}

/// What takes the place of a missing value.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Fill {
    /// Nothing: the row is refused.
    #[default]
    Refuse,
    /// A number, for a date the days since 1970-01-01.
    Number(f64),
    /// A level of a category or an ordinal.
    Level(String),
    /// No level of a category: all its numbers are 0.
    NoLevel,
    /// The mean of the values of all peers, for a date rounded to a day, for a category or an ordinal the
    /// most frequent level, of equal ones the first: known once the peers have added up ([`mod@pooled`]).
    Pooled,
}

impl ColumnSpec {
    /// A column of this kind, whose missing values are refused.
    #[must_use]
    pub fn new(name: impl Into<String>, kind: Kind) -> Self {
        let fill = Fill::Refuse;
        let (name, indicator, clip, others_missing) = (name.into(), false, false, false);
        Self { name, kind, fill, indicator, min: None, max: None, clip, others_missing }
    }

    /// The levels; none where the kind has none.
    #[must_use]
    pub fn levels(&self) -> &[String] {
        match &self.kind {
            Kind::Category(levels) | Kind::Ordinal(levels) => levels,
            Kind::Ignored | Kind::Number | Kind::Date(_) => &[],
        }
    }

    /// Numbers that it becomes.
    #[must_use]
    pub fn width(&self) -> usize {
        let own = match &self.kind {
            Kind::Ignored => return 0,
            Kind::Number | Kind::Ordinal(_) | Kind::Date(_) => 1,
            Kind::Category(levels) => levels.len(),
        };
        own + usize::from(self.indicator)
    }

    /// What these numbers are called: `age`; `sex=f`, `sex=m`; with an indicator then `age is missing`.
    fn features(&self) -> impl Iterator<Item = String> + '_ {
        let one = match &self.kind {
            Kind::Number | Kind::Ordinal(_) | Kind::Date(_) => Some(self.name.clone()),
            Kind::Ignored | Kind::Category(_) => None,
        };
        let levels = match &self.kind {
            Kind::Category(levels) => &levels[..],
            _ => &[],
        };
        let levels = levels.iter().map(|level| format!("{}={level}", self.name));
        let indicator = (self.indicator && self.width() > 0).then(|| format!("{}{INDICATOR}", self.name));
        one.into_iter().chain(levels).chain(indicator)
    }

    fn check(&self) -> Result<(), PrepareError> {
        let of = |what: &str| format!("{what} of column {:?}", self.name);
        let levels = self.levels();
        if matches!(self.kind, Kind::Category(_) | Kind::Ordinal(_))
            && !(1..=MAX_LEVELS).contains(&levels.len())
        {
            let expected =
                format!("1 to {MAX_LEVELS} (more is an id or free text: group them, or kind = \"ignored\")");
            return Err(PrepareError::new(of("the number of levels"), levels.len().to_string(), expected));
        }
        let mut seen = BTreeSet::new();
        for level in levels {
            let found = || format!("{level:?}");
            if check_class_name(level).is_err() {
                return Err(PrepareError::new(of("a level"), found(), name_rule()));
            }
            if !seen.insert(level) {
                return Err(PrepareError::new(of("levels"), found() + " twice", "all different"));
            }
        }
        let number = matches!(self.kind, Kind::Number | Kind::Date(_));
        let fits = match &self.fill {
            Fill::Refuse => true,
            Fill::Pooled => self.kind != Kind::Ignored,
            Fill::Number(value) => {
                number && value.is_finite() && value.abs() < f64::from(super::MAX_MAGNITUDE)
            }
            Fill::Level(level) => levels.contains(level),
            Fill::NoLevel => matches!(self.kind, Kind::Category(_)),
        };
        if !fits {
            let expected = "a number or a date for such a column, else one of its levels, or \"\" for none";
            return Err(PrepareError::new(of("fill"), format!("{:?}", self.fill), expected));
        }
        // Only where a value may be missing is there something to say.
        if self.indicator && (self.fill == Fill::Refuse || self.kind == Kind::Ignored) {
            let expected = "false where missing values are refused (no fill)";
            return Err(PrepareError::new(of("indicator"), "true", expected));
        }
        if self.others_missing && (levels.is_empty() || self.fill == Fill::Refuse) {
            let expected = "false unless the column has levels and a fill";
            return Err(PrepareError::new(of("others_missing"), "true", expected));
        }
        let limits = [self.min, self.max];
        if (limits.iter().any(Option::is_some) || self.clip) && !number {
            return Err(PrepareError::new(
                of("min, max or clip"),
                "given",
                "absent: only of numbers and dates",
            ));
        }
        if limits.iter().flatten().any(|limit| !limit.is_finite()) {
            return Err(PrepareError::new(of("min or max"), "not finite", "finite"));
        }
        if let (Some(min), Some(max)) = (self.min, self.max)
            && min > max
        {
            return Err(PrepareError::new(of("max"), max.to_string(), format!("at least min, {min}")));
        }
        if self.clip && self.min.is_none() && self.max.is_none() {
            return Err(PrepareError::new(of("clip"), "true", "false where there is no min and no max"));
        }
        Ok(())
    }
}

fn name_rule() -> String {
    format!("1 to {MAX_CLASS_NAME} bytes without control characters or white space at the ends")
}

impl TableSchema {
    /// Checks every rule.
    ///
    /// # Errors
    /// [`PrepareError`] for the first that is broken.
    pub fn check(&self) -> Result<(), PrepareError> {
        if let Some(byte) = self.delimiter
            && !read::DELIMITERS.contains(&byte)
        {
            let found = format!("{:?}", char::from(byte));
            return Err(PrepareError::new("delimiter", found, r#"",", ";", "|" or a tab"#));
        }
        let count = self.columns.len();
        if !(1..=MAX_DESCRIBED).contains(&count) {
            let expected = format!("1 to {MAX_DESCRIBED} (beyond that: names in data.columns, all numbers)");
            return Err(PrepareError::new("the number of described columns", count.to_string(), expected));
        }
        if self.missing.len() > MAX_TOKENS {
            let (found, expected) = (self.missing.len().to_string(), format!("at most {MAX_TOKENS}"));
            return Err(PrepareError::new("the number of texts for missing values", found, expected));
        }
        let mut seen = BTreeSet::new();
        for token in &self.missing {
            if check_class_name(token).is_err() || !seen.insert(token) {
                let expected =
                    format!("all different, each {} (an empty field is always missing)", name_rule());
                return Err(PrepareError::new("a text for missing values", format!("{token:?}"), expected));
            }
        }
        let mut seen: BTreeSet<&str> = BTreeSet::new();
        for name in self.columns.iter().map(|column| &column.name).chain(&self.label) {
            if check_class_name(name).is_err() {
                return Err(PrepareError::new("a column's name", format!("{name:?}"), name_rule()));
            }
            if !seen.insert(name) {
                return Err(PrepareError::new(
                    "columns",
                    format!("{name:?} twice"),
                    "all different, also the label",
                ));
            }
        }
        self.check_group()?;
        self.columns.iter().try_for_each(ColumnSpec::check)?;
        let width: usize = self.columns.iter().map(ColumnSpec::width).sum();
        if !(1..=MAX_FEATURES).contains(&width) {
            let (found, expected) = (width.to_string(), format!("1 to {MAX_FEATURES}"));
            return Err(PrepareError::new("the number of features", found, expected));
        }
        let names = self.features();
        if let Some(long) = names.iter().find(|name| name.len() > MAX_CLASS_NAME) {
            let expected = format!("at most {MAX_CLASS_NAME} bytes: shorten the column's name or the level");
            return Err(PrepareError::new("a feature's name", format!("{long:?}"), expected));
        }
        let mut seen = BTreeSet::new();
        match names.iter().find(|name| !seen.insert(*name)) {
            Some(twice) => {
                Err(PrepareError::new("a feature's name", format!("{twice:?} twice"), "of one feature only"))
            }
            None => Ok(()),
        }
    }

    /// The group column is neither the label nor a feature.
    fn check_group(&self) -> Result<(), PrepareError> {
        let Some(group) = &self.group else { return Ok(()) };
        let refuse =
            |expected: &str| Err(PrepareError::new("the group column", format!("{group:?}"), expected));
        if check_class_name(group).is_err() {
            return refuse(&name_rule());
        }
        if self.label.as_ref() == Some(group) {
            return refuse("another column than the label");
        }
        let feature = |column: &ColumnSpec| column.name == *group && column.kind != Kind::Ignored;
        match self.columns.iter().any(feature) {
            true => refuse("no feature: remove its [[table.column]], or set kind = \"ignored\""),
            false => Ok(()),
        }
    }

    /// Checks every rule of a preparation that is stored with a model: it says what takes the place of every
    /// missing value.
    ///
    /// # Errors
    /// [`PrepareError`] for the first that is broken.
    pub fn check_resolved(&self) -> Result<(), PrepareError> {
        self.check()?;
        self.pooled().next().map_or(Ok(()), |column| {
            let what = format!("fill of column {:?}", column.name);
            Err(PrepareError::new(what, "that of all peers", "a value"))
        })
    }

    /// What the numbers of a row are called, in their order.
    #[must_use]
    pub fn features(&self) -> Vec<String> {
        self.columns.iter().flat_map(ColumnSpec::features).collect()
    }

    /// Numbers of a row.
    #[must_use]
    pub fn width(&self) -> usize {
        self.columns.iter().map(ColumnSpec::width).sum()
    }

    /// Replaces -0.0 by 0.0: the two are equal but have different encodings.
    pub fn normalise(&mut self) {
        for column in &mut self.columns {
            column.min.iter_mut().chain(&mut column.max).for_each(|limit| *limit += 0.0);
            if let Fill::Number(value) = &mut column.fill {
                *value += 0.0;
            }
        }
    }
}

#[cfg(test)]
mod tests;
