//! Which texts of one site's rows may stand in a file that all peers get.
//!
//! [`Rule`] alone makes a [`Publishable`], and levels and classes that are drafted or added are made of
//! these: a text of few rows is a name, an id or a remark, and names a patient.

use std::collections::BTreeMap;

use super::MAX_LEVELS;
use crate::check_class_name;

/// Rows that must have a text before others may read it, unless somebody says otherwise.
pub const MIN_ROWS: u64 = 10;
/// Characters of a name in a session file.
pub(super) const LONGEST: usize = 64;
/// More classes than this are named by a person.
pub const MOST_CLASSES: usize = 50;

/// A text that may stand in a file for others.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Publishable(String);

impl Publishable {
    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The texts, to be written.
    #[must_use]
    pub fn texts(all: impl IntoIterator<Item = Self>) -> Vec<String> {
        all.into_iter().map(|text| text.0).collect()
    }
}

/// Which texts may be published.
#[derive(Debug, Clone, Copy)]
pub struct Rule<'a> {
    /// Rows of this file that must have the text.
    pub min_rows: u64,
    /// Classes that a person has named.
    pub classes: Option<&'a [String]>,
}

impl Rule<'_> {
    /// For rows that stay here: every text may be used.
    pub const LOCAL: Rule<'static> = Rule { min_rows: 1, classes: None };

    /// The text, if enough rows have it and it can be a level: free text is longer than 64 characters.
    #[must_use]
    pub fn admit(&self, text: &str, rows: u64) -> Option<Publishable> {
        (rows >= self.min_rows && text.chars().count() <= LONGEST && check_class_name(text).is_ok())
            .then(|| Publishable(text.to_owned()))
    }

    /// The classes of a label column with these texts, whole numbers by size, else by their bytes. `chosen`
    /// says that a person has named the column: then two rows of a class are enough.
    ///
    /// # Errors
    /// What is wrong, and what to do. It names no text.
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
