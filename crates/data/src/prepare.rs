//! A *table schema*, also called a preparation: how the columns of a table become the numbers of a row.
//!
//! Peers agree on a schema in the session file, and a model stores it. So all peers read their rows in the
//! same way, and rows to predict are read like the training rows. Each described column is one of these:
//!
//! - a number;
//! - a category, which becomes one number of 0 or 1 for each level;
//! - an ordinal, which becomes the place of its level, from 0;
//! - a date, which becomes the days since 1970-01-01;
//! - ignored.
//!
//! A missing value is either refused or filled: with an agreed value, or with the mean or the most
//! frequent level over all peers ([`mod@pooled`]). An additional number of 0 or 1 can mark it as missing.
//!
//! [`mod@read`] reads a file with a schema and collects all problems ([`Problems`]). [`mod@draft`] drafts
//! a schema from one file, and [`mod@publish`] decides which texts the draft may contain. [`mod@whole`]
//! reads rows that are all in one file. [`mod@encoding`] is the only encoding of a schema, for session ids
//! and model files.

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
/// Most texts that mean a missing value.
pub const MAX_TOKENS: usize = 100;
/// Suffix that the name of an indicator adds to its column's name.
pub const INDICATOR: &str = " is missing";

/// Reason why a preparation is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} is {found}, must be {expected}")]
pub struct PrepareError {
    /// The part of the preparation.
    pub what: String,
    /// The value found.
    pub found: String,
    /// The value that was expected.
    pub expected: String,
}

impl PrepareError {
    fn new(what: impl Into<String>, found: impl Into<String>, expected: impl Into<String>) -> Self {
        Self { what: what.into(), found: found.into(), expected: expected.into() }
    }
}

/// A table schema: how the columns of a table become the numbers of a row; see the [module](self).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TableSchema {
    /// Delimiter of the columns: `,`, `;`, a tab or `|`. If not given, it is detected by the names in the
    /// header.
    pub delimiter: Option<u8>,
    /// True if numbers have a decimal comma; then points may separate thousands.
    pub decimal_comma: bool,
    /// Texts that mean a missing value, in addition to an empty field. A column that has such a text as a
    /// level keeps it as a level.
    pub missing: Vec<String>,
    /// The label column; `None` if the rows have no labels.
    pub label: Option<String>,
    /// The column with the group of each row, such as the patient; it does not become a feature.
    pub group: Option<String>,
    /// The columns, all with different names, in the order of a row.
    pub columns: Vec<ColumnSpec>,
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnSpec {
    /// Name in the header.
    pub name: String,
    /// Kind of the values.
    pub kind: Kind,
    /// Replacement for missing values.
    pub fill: Fill,
    /// True if an additional number, 0 or 1, marks missing values.
    pub indicator: bool,
    /// The smallest allowed value; for numbers and dates only.
    pub min: Option<f64>,
    /// The largest allowed value; for numbers and dates only.
    pub max: Option<f64>,
    /// If true, a value outside the limits becomes the nearest limit; otherwise its row is refused.
    pub clip: bool,
    /// If true, a text that is not a level counts as missing; otherwise its row is refused.
    pub others_missing: bool,
}

/// Kind of the values of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// Not a feature; any values are accepted.
    Ignored,
    /// Numbers.
    Number,
    /// One of these texts; each becomes a number of 0 or 1.
    Category(Vec<String>),
    /// One of these texts, in ascending order; the number is the place, from 0.
    Ordinal(Vec<String>),
    /// Days since 1970-01-01.
    Date(DateOrder),
}

/// Replacement for a missing value.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Fill {
    /// No replacement: the row is refused.
    #[default]
    Refuse,
    /// A number; for a date, the days since 1970-01-01.
    Number(f64),
    /// A level of a category or an ordinal.
    Level(String),
    /// No level of a category: all its numbers are 0.
    NoLevel,
    /// A value over all peers, known once the peers have computed the sum ([`mod@pooled`]). It is the mean
    /// for a number, the mean rounded to a day for a date, and the most frequent level for a category or
    /// an ordinal (the first if several are equally frequent).
    Pooled,
}

impl ColumnSpec {
    /// Returns a column of this kind that refuses missing values.
    #[must_use]
    pub fn new(name: impl Into<String>, kind: Kind) -> Self {
        let fill = Fill::Refuse;
        let (name, indicator, clip, others_missing) = (name.into(), false, false, false);
        Self { name, kind, fill, indicator, min: None, max: None, clip, others_missing }
    }

    /// Returns the levels; empty if the kind has no levels.
    #[must_use]
    pub fn levels(&self) -> &[String] {
        match &self.kind {
            Kind::Category(levels) | Kind::Ordinal(levels) => levels,
            Kind::Ignored | Kind::Number | Kind::Date(_) => &[],
        }
    }

    /// Returns how many numbers the column becomes.
    #[must_use]
    pub fn width(&self) -> usize {
        let own = match &self.kind {
            Kind::Ignored => return 0,
            Kind::Number | Kind::Ordinal(_) | Kind::Date(_) => 1,
            Kind::Category(levels) => levels.len(),
        };
        own + usize::from(self.indicator)
    }

    /// Returns the names of these numbers: `age`; `sex=f`, `sex=m`; with an indicator, `age is missing` at
    /// the end.
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
            let expected = "a number if the column has numbers or dates, otherwise one of its levels, or \"\" for no level";
            return Err(PrepareError::new(of("fill"), format!("{:?}", self.fill), expected));
        }
        // An indicator needs a column that may have missing values.
        if self.indicator && (self.fill == Fill::Refuse || self.kind == Kind::Ignored) {
            let expected = "false if missing values are refused (no fill)";
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
                "absent: only numbers and dates have limits",
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
            return Err(PrepareError::new(of("clip"), "true", "false without min and max"));
        }
        Ok(())
    }
}

fn name_rule() -> String {
    format!("1 to {MAX_CLASS_NAME} bytes without control characters or white space at the ends")
}

impl TableSchema {
    /// Checks all rules.
    ///
    /// # Errors
    /// [`PrepareError`] for the first broken rule.
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
            Some(twice) => Err(PrepareError::new(
                "a feature's name",
                format!("{twice:?} twice"),
                "the name of one feature only",
            )),
            None => Ok(()),
        }
    }

    /// Checks that the group column is neither the label nor a feature.
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
            true => refuse("outside the features: remove its [[table.column]], or set kind = \"ignored\""),
            false => Ok(()),
        }
    }

    /// Checks all rules of a preparation that is stored with a model: no fill may still depend on the sum
    /// of the peers.
    ///
    /// # Errors
    /// [`PrepareError`] for the first broken rule.
    pub fn check_resolved(&self) -> Result<(), PrepareError> {
        self.check()?;
        self.pooled().next().map_or(Ok(()), |column| {
            let what = format!("fill of column {:?}", column.name);
            Err(PrepareError::new(what, "still the value of all peers", "a number or level"))
        })
    }

    /// Returns the names of the numbers of a row, in their order.
    #[must_use]
    pub fn features(&self) -> Vec<String> {
        self.columns.iter().flat_map(ColumnSpec::features).collect()
    }

    /// Returns how many numbers a row has.
    #[must_use]
    pub fn width(&self) -> usize {
        self.columns.iter().map(ColumnSpec::width).sum()
    }

    /// Replaces -0.0 by 0.0, because the two are equal but have different encodings.
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
