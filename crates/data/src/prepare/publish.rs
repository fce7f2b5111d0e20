//! Rules for the texts of one peer's rows that may be written to a file for all peers.
//!
//! Only [`Rule`] makes a [`Publishable`], and all drafted or added levels and classes are made of these. A
//! text that only a few rows have may be a name, an id or a remark, and so identify a patient.

use std::collections::BTreeMap;

use super::MAX_LEVELS;
use crate::check_class_name;

/// Rows that must have a text before others may read it, unless the user sets another number.
pub const MIN_ROWS: u64 = 10;
/// Most characters of a name in a session file.
pub(super) const LONGEST: usize = 64;
/// Most classes that are taken from the file. If there are more, the user must name them.
pub const MOST_CLASSES: usize = 50;

/// A text that may be written to a file for others.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Publishable(String);

impl Publishable {
    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the texts, to be written.
    #[must_use]
    pub fn texts(all: impl IntoIterator<Item = Self>) -> Vec<String> {
        all.into_iter().map(|text| text.0).collect()
    }
}

/// Rule for the texts that may be published.
#[derive(Debug, Clone, Copy)]
pub struct Rule<'a> {
    /// Fewest rows of this file that must have the text.
    pub min_rows: u64,
    /// Classes that the user named.
    pub classes: Option<&'a [String]>,
}

impl Rule<'_> {
    /// For rows that stay on this machine: every text may be used.
    pub const LOCAL: Rule<'static> = Rule { min_rows: 1, classes: None };

    /// Returns the text if enough rows have it and it can be a level. A text of more than 64 characters
    /// counts as free text.
    #[must_use]
    pub fn admit(&self, text: &str, rows: u64) -> Option<Publishable> {
        (rows >= self.min_rows && text.chars().count() <= LONGEST && check_class_name(text).is_ok())
            .then(|| Publishable(text.to_owned()))
    }

    /// Returns the classes of a label column with these texts; whole numbers are sorted by size, other
    /// texts by their bytes. If `chosen` is true because the user named the column, two rows of a class
    /// are enough.
    ///
    /// # Errors
    /// A text with the problem and what to do, but without any text of the column.
    pub fn admit_classes(
        &self,
        texts: &BTreeMap<String, u64>,
        chosen: bool,
    ) -> Result<Vec<Publishable>, String> {
        if let Some(named) = self.classes {
            return Ok(named.iter().cloned().map(Publishable).collect());
        }
        let most = if self.min_rows > 1 { MOST_CLASSES } else { MAX_LEVELS };
        if texts.len() > most {
            return Err(format!(
                "has more than {most} texts, which every peer would see as classes: --classes names the classes, --label \
                 another column"
            ));
        }
        let least = if chosen { self.min_rows.min(2) } else { self.min_rows };
        let rare = texts.values().filter(|&&rows| rows < least).count();
        if rare > 0 {
            let rows =
                if least == 2 { "one row only".to_owned() } else { format!("fewer than {least} rows") };
            return Err(format!(
                "has {rare} of {} texts in {rows}, and every peer would see them as classes: --classes names the \
                 classes, --label the column, --min-rows 1 lets them pass",
                texts.len()
            ));
        }
        let mut classes: Vec<Publishable> = texts.keys().cloned().map(Publishable).collect();
        if texts.keys().all(|class| class.parse::<i64>().is_ok()) {
            classes.sort_by_key(|class| class.0.parse::<i64>().unwrap_or_default());
        }
        Ok(classes)
    }
}
