//! Labels: texts that become indices of classes.

use std::collections::BTreeMap;

use super::prepare::value::truth;
use super::{Dataset, Expected, Loaded, MAX_CLASS_NAME, MAX_CLASSES};

/// Texts that are known, such as classes and levels, by their places.
///
/// A text is one of them if it is the same byte for byte, or else the same boolean or whole number as one
/// alone: programs write `True`, `TRUE` and `true`, and `1.0` for the 1 of a column with missing values.
#[derive(Debug, Default)]
pub(super) struct Known {
    exact: BTreeMap<String, usize>,
    /// By what the text means; nothing where several mean the same.
    meant: BTreeMap<String, Option<usize>>,
}

impl Known {
    pub(super) fn new<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut known = Self::default();
        texts.into_iter().zip(0..).for_each(|(text, place)| known.insert(text, place));
        known
    }

    fn insert(&mut self, text: &str, place: usize) {
        if let Some(meant) = meaning(text) {
            let one = self.meant.entry(meant).or_insert(Some(place));
            *one = one.filter(|known| *known == place);
        }
        self.exact.insert(text.to_owned(), place);
    }

    pub(super) fn get(&self, text: &str) -> Option<usize> {
        let meant = || self.meant.get(&meaning(text)?).copied().flatten();
        self.exact.get(text).copied().or_else(meant)
    }
}

/// The boolean or whole number that a text is, in one spelling.
pub(super) fn meaning(text: &str) -> Option<String> {
    if let Some(value) = truth(text) {
        return Some(value.to_string());
    }
    let (whole, zeros) = text.split_once('.').unwrap_or((text, "0"));
    let number = whole.parse::<i64>().is_ok_and(|number| number.to_string() == whole);
    (number && !zeros.is_empty() && zeros.bytes().all(|byte| byte == b'0')).then(|| whole.to_owned())
}

/// Turns label texts into indices, against a given list or one made on the way.
#[derive(Debug)]
pub(super) struct Labels {
    known: Known,
    given: bool,
    /// Whether a label may be missing.
    pub(super) partly: bool,
    /// Of each row; nothing where its label is missing.
    indices: Vec<Option<usize>>,
}

impl Labels {
    pub(super) fn new(expected: &Expected) -> Self {
        let known = Known::new(expected.classes.unwrap_or(&[]).iter().map(|name| name.trim()));
        Self { known, given: expected.classes.is_some(), partly: expected.partly, indices: Vec::new() }
    }

    /// The class that a text names; classes that the file itself gives are taken as they stand.
    pub(super) fn find(&self, text: &str) -> Option<usize> {
        if self.given { self.known.get(text) } else { self.known.exact.get(text).copied() }
    }

    /// Adds one trimmed label; on failure says what was expected.
    pub(super) fn push(&mut self, text: &str) -> Result<(), String> {
        if self.partly && text.is_empty() {
            self.indices.push(None);
            return Ok(());
        }
        if let Some(index) = self.find(text) {
            self.indices.push(Some(index));
            return Ok(());
        }
        if self.given {
            let mut names: Vec<_> = self.known.exact.iter().map(|(name, &i)| (i, name.as_str())).collect();
            names.sort_unstable();
            let shown: Vec<_> = names.iter().take(12).map(|&(_, name)| name).collect();
            let more = if names.len() > shown.len() { ", ..." } else { "" };
            let or = if self.partly { ", or nothing" } else { "" };
            return Err(format!("one of the {} classes {}{more}{or}", names.len(), shown.join(", ")));
        }
        check_class_name(text)?;
        let index = self.known.exact.len();
        if index >= MAX_CLASSES {
            return Err(format!("at most {MAX_CLASSES} classes"));
        }
        self.known.exact.insert(text.to_owned(), index);
        self.indices.push(Some(index));
        Ok(())
    }

    /// Rows whose labels were added.
    pub(super) fn rows(&self) -> usize {
        self.indices.len()
    }

    /// Puts rows and labels together; `values` is row-major.
    pub(super) fn finish(self, features: usize, values: Vec<f32>) -> Loaded {
        let mut names: Vec<(String, usize)> = self.known.exact.into_iter().collect();
        if self.given {
            names.sort_unstable_by_key(|&(_, index)| index);
        } else if names.iter().all(|(name, _)| name.parse::<i64>().is_ok()) {
            // Stable, so that "1" and "01" keep their byte order.
            names.sort_by_key(|(name, _)| name.parse::<i64>().unwrap_or_default());
        }
        let mut place = vec![0u16; names.len()];
        for (new, (_, old)) in (0u16..).zip(&names) {
            if let Some(place) = place.get_mut(*old) {
                *place = new;
            }
        }
        let labels = self.indices.iter().map(|old| old.and_then(|old| place.get(old).copied()));
        let (labels, known) = if self.partly {
            (labels.collect(), Vec::new())
        } else {
            (Vec::new(), labels.map(Option::unwrap_or_default).collect())
        };
        let classes =
            if self.partly { Vec::new() } else { names.into_iter().map(|(name, _)| name).collect() };
        let data = Dataset { features, values, labels: known, classes, groups: None };
        Loaded {
            data,
            labels,
            columns: Vec::new(),
            reordered: false,
            left_out: Vec::new(),
            unseen: Vec::new(),
            gaps: Vec::new(),
        }
    }
}

/// A class name is 1 to [`MAX_CLASS_NAME`] bytes without control characters and without white space around
/// it.
///
/// # Errors
/// What was expected, as text.
pub fn check_class_name(name: &str) -> Result<(), String> {
    if name.is_empty()
        || name.len() > MAX_CLASS_NAME
        || name.trim() != name
        || name.chars().any(char::is_control)
    {
        return Err(format!("a class name of 1 to {MAX_CLASS_NAME} bytes without control characters"));
    }
    Ok(())
}

pub(super) const NO_CLASS: &str = "a class: text or a whole number (a quantity to predict is no class)";

/// The class that a number stands for: whole numbers name classes, others are quantities that cannot be
/// learnt as classes.
pub(super) fn whole(x: f64) -> Result<String, String> {
    if x.fract() == 0.0 && x.abs() < 9e15 { Ok(format!("{}", x as i64)) } else { Err(NO_CLASS.into()) }
}

/// A field as it is quoted in an error: escaped, at most 40 characters.
pub(super) fn quoted(field: &[u8]) -> String {
    if field.is_empty() {
        return "nothing".into();
    }
    let text = String::from_utf8_lossy(field);
    let short: String = text.chars().take(40).collect();
    format!("{short:?}{}", if short.len() < text.len() { "..." } else { "" })
}
