//! Labels: texts that become indices of classes.

use std::collections::BTreeMap;

use super::prepare::value::truth;
use super::{Dataset, Expected, Loaded, MAX_CLASS_NAME, MAX_CLASSES};

/// Known texts, such as classes and levels, by their places.
///
/// A text matches a known text if both are equal byte for byte. Otherwise it matches if exactly one known
/// text is the same boolean or whole number. Programs write `True`, `TRUE` and `true`, and they write
/// `1.0` for 1 if the column has missing values.
#[derive(Debug, Default)]
pub(super) struct Known {
    exact: BTreeMap<String, usize>,
    /// Places by the meaning of the text; `None` if several texts have the same meaning.
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

/// Returns the boolean or whole number of a text, in one spelling.
pub(super) fn meaning(text: &str) -> Option<String> {
    if let Some(value) = truth(text) {
        return Some(value.to_string());
    }
    let (whole, zeros) = text.split_once('.').unwrap_or((text, "0"));
    let number = whole.parse::<i64>().is_ok_and(|number| number.to_string() == whole);
    (number && !zeros.is_empty() && zeros.bytes().all(|byte| byte == b'0')).then(|| whole.to_owned())
}

/// Turns label texts into indices, with a given list of classes or a list that is made from the texts.
#[derive(Debug)]
pub(super) struct Labels {
    known: Known,
    given: bool,
    /// True if a label may be missing.
    pub(super) partly: bool,
    /// The class of each row; `None` if its label is missing.
    indices: Vec<Option<usize>>,
}

impl Labels {
    pub(super) fn new(expected: &Expected) -> Self {
        let known = Known::new(expected.classes.unwrap_or(&[]).iter().map(|name| name.trim()));
        Self { known, given: expected.classes.is_some(), partly: expected.partly, indices: Vec::new() }
    }

    /// Returns the class with this text. Classes that come from the file itself must match byte for byte.
    pub(super) fn find(&self, text: &str) -> Option<usize> {
        if self.given { self.known.get(text) } else { self.known.exact.get(text).copied() }
    }

    /// Adds one trimmed label. The error text names what was expected.
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

    /// Number of labels that were added.
    pub(super) fn rows(&self) -> usize {
        self.indices.len()
    }

    /// Joins rows and labels; `values` is row-major.
    pub(super) fn finish(self, features: usize, values: Vec<f32>) -> Loaded {
        let mut names: Vec<(String, usize)> = self.known.exact.into_iter().collect();
        if self.given {
            names.sort_unstable_by_key(|&(_, index)| index);
        } else if names.iter().all(|(name, _)| name.parse::<i64>().is_ok()) {
            // A stable sort keeps the byte order of "1" and "01".
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

/// Checks that a class name has 1 to [`MAX_CLASS_NAME`] bytes, no control characters and no white space
/// around it.
///
/// # Errors
/// A text with what was expected.
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

pub(super) const NO_CLASS: &str = "a class: text or a whole number (a quantity to predict is not a class)";

/// Returns the class of a number. Whole numbers name classes; other numbers are quantities, which cannot
/// be learnt as classes.
pub(super) fn whole(x: f64) -> Result<String, String> {
    if x.fract() == 0.0 && x.abs() < 9e15 { Ok(format!("{}", x as i64)) } else { Err(NO_CLASS.into()) }
}

/// Quotes a field for an error: escaped, at most 40 characters.
pub(super) fn quoted(field: &[u8]) -> String {
    if field.is_empty() {
        return "nothing".into();
    }
    let text = String::from_utf8_lossy(field);
    let short: String = text.chars().take(40).collect();
    format!("{short:?}{}", if short.len() < text.len() { "..." } else { "" })
}
