//! Labels: texts that become indices of classes.

use std::collections::BTreeMap;

use super::prepare::read::same_boolean;
use super::{Dataset, Expected, Loaded, MAX_CLASS_NAME, MAX_CLASSES};

/// Turns label texts into indices, against a given list or one made on the way.
#[derive(Debug)]
pub(super) struct Labels {
    known: BTreeMap<String, usize>,
    given: bool,
    /// Whether a label may be missing.
    pub(super) partly: bool,
    /// Of each row; nothing where its label is missing.
    indices: Vec<Option<usize>>,
}

impl Labels {
    pub(super) fn new(expected: &Expected) -> Self {
        let classes = expected.classes.unwrap_or(&[]).iter().enumerate();
        let known = classes.map(|(i, name)| (name.trim().to_owned(), i)).collect();
        Self { known, given: expected.classes.is_some(), partly: expected.partly, indices: Vec::new() }
    }

    /// Adds one trimmed label; on failure says what was expected.
    pub(super) fn push(&mut self, text: &str) -> Result<(), String> {
        if self.partly && text.is_empty() {
            self.indices.push(None);
            return Ok(());
        }
        let alike = || same_boolean(text, self.known.iter().map(|(name, index)| (name.as_str(), index)));
        if let Some(&index) = self.known.get(text).or_else(alike) {
            self.indices.push(Some(index));
            return Ok(());
        }
        if self.given {
            let mut names: Vec<_> = self.known.iter().map(|(name, &i)| (i, name.as_str())).collect();
            names.sort_unstable();
            let shown: Vec<_> = names.iter().take(12).map(|&(_, name)| name).collect();
            let more = if names.len() > shown.len() { ", ..." } else { "" };
            let or = if self.partly { ", or nothing" } else { "" };
            return Err(format!("one of the {} classes {}{more}{or}", names.len(), shown.join(", ")));
        }
        check_class_name(text)?;
        let index = self.known.len();
        if index >= MAX_CLASSES {
            return Err(format!("at most {MAX_CLASSES} classes"));
        }
        self.known.insert(text.to_owned(), index);
        self.indices.push(Some(index));
        Ok(())
    }

    /// Puts rows and labels together; `values` is row-major.
    pub(super) fn finish(self, features: usize, values: Vec<f32>) -> Loaded {
        let mut names: Vec<(String, usize)> = self.known.into_iter().collect();
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
        let data = Dataset { features, values, labels: known, classes };
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

/// The class that a number stands for: whole numbers name classes, others are quantities that cannot be
/// learnt as classes.
pub(super) fn whole(x: f64) -> Result<String, String> {
    if x.fract() == 0.0 && x.abs() < 9e15 {
        Ok(format!("{}", x as i64))
    } else {
        Err("a class: text or a whole number (a quantity to predict is no class)".into())
    }
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
