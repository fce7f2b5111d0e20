//! Looks at the texts of a column and advises what to do with them in a draft.

use std::collections::BTreeMap;

use super::publish::{Publishable, Rule};
use super::value::{NoNumber, looks_missing, number};
use crate::labels::meaning;
use crate::site::DatePattern;
use crate::site::suggest::PATTERNS;

/// Reason why a column of numbered texts does not become a category.
pub(super) const NUMBERED: &str = "its texts are numbered and each is in few rows, like numbers of \
                                   patients; if they are not ids, write kind = \"category\" with the \
                                   levels";

/// Returns the reason why a column does not become a category: most of its texts are in fewer than `few` of
/// `rows` rows.
pub(super) fn of_few_rows(texts: &BTreeMap<String, u64>, rows: u64, few: u64) -> String {
    let what = advice(texts).unwrap_or_else(|| match rows < 5 * few {
        true => "an id or free text, or the file has few rows (then --min-rows 1)".into(),
        false => "an id or free text, which stays here; group them to make it a category".into(),
    });
    format!("most of its texts are in fewer than {few} rows: {what}")
}

/// Returns advice for texts that can be read in another way.
pub(super) fn advice(texts: &BTreeMap<String, u64>) -> Option<String> {
    let most = |is: &dyn Fn(&str) -> bool| {
        let count = texts.keys().filter(|text| is(text)).count();
        count > 0 && count * 5 >= texts.len() * 4
    };
    let patterns = PATTERNS.into_iter().filter(|pattern| {
        let pattern = pattern.parse::<DatePattern>();
        pattern.is_ok_and(|pattern| most(&|text| pattern.read(text).is_some()))
    });
    let dates: Vec<String> = patterns.map(|pattern| format!("date = {pattern:?}")).collect();
    if !dates.is_empty() {
        return Some(format!("they are dates: {} in the map file reads them", dates.join(" or ")));
    }
    if most(&is_time) {
        return Some("they are times of day: write hours as a number, such as 8.5".into());
    }
    if most(&|text| text.split_once('/').is_some_and(|(a, b)| is_number(a) && is_number(b))) {
        return Some("they are two numbers each: make two columns of them".into());
    }
    None
}

fn is_number(text: &str) -> bool {
    number(text.trim(), false).is_ok()
}

/// Returns whether a text is a time such as `8:30`, `08:30:15` or `8:30 PM`.
fn is_time(text: &str) -> bool {
    let small = text.to_ascii_lowercase();
    let time = small.trim_end_matches("am").trim_end_matches("pm").trim_end();
    let parts: Vec<&str> = time.split(':').collect();
    let digits = |part: &&str| (1..=2).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
    (2..=3).contains(&parts.len()) && parts.iter().all(digits)
}

/// Returns whether the texts differ only in their digits, like P001 and P002; they may be numbers of
/// patients.
pub(super) fn are_numbered<'a>(texts: impl Iterator<Item = &'a String>) -> bool {
    let mut texts = texts.filter(|text| !looks_missing(text));
    let Some(first) = texts.next().map(|text| blanked(text)) else { return false };
    first.contains('0') && texts.all(|text| blanked(text) == first)
}

/// Replaces each run of digits in the text by one 0.
pub(super) fn blanked(text: &str) -> String {
    let mut out = String::new();
    for letter in text.chars() {
        let letter = if letter.is_ascii_digit() { '0' } else { letter };
        if letter != '0' || !out.ends_with('0') {
            out.push(letter);
        }
    }
    out
}

/// Returns the texts with their rows. Spellings with the same meaning (`True` and `TRUE`, or `1` and
/// `1.0`) are counted together under the most frequent one.
pub(super) fn spelt_once(texts: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let mut spelt: BTreeMap<String, (&str, u64, u64)> = BTreeMap::new();
    for (text, &rows) in texts {
        let meant = meaning(text).unwrap_or_else(|| text.clone());
        let (best, most, all) = spelt.entry(meant).or_insert((text, rows, 0));
        *all += rows;
        if rows > *most {
            (*best, *most) = (text, rows);
        }
    }
    spelt.into_values().map(|(text, _, rows)| (text.to_owned(), rows)).collect()
}

/// Returns the texts of a column that may be its levels, and the number of rows with them.
pub(super) fn admitted(texts: &BTreeMap<String, u64>, rule: &Rule) -> (Vec<Publishable>, u64) {
    let texts = spelt_once(texts);
    let levels: Vec<_> = texts.iter().filter_map(|(text, &rows)| rule.admit(text, rows)).collect();
    let kept = levels.iter().filter_map(|level| texts.get(level.as_str())).sum();
    (levels, kept)
}

/// Similarity of a column's name to its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Likeness {
    /// The name is one of the values.
    Same,
    /// The name is a number or a date, like the values.
    Alike,
    Other,
}

impl Likeness {
    /// Compares a name with the values. `numbers` and `dates` are true if most values are numbers or
    /// dates.
    pub(super) fn of(name: &str, numbers: bool, dates: bool) -> Self {
        let number = number(name, false).or_else(|_| number(name, true));
        let alike = (numbers && number.is_ok()) || (dates && number == Err(NoNumber::Date));
        if alike { Self::Alike } else { Self::Other }
    }
}

/// Returns the problem of a header that is a row, because all peers would see its values as names.
pub(super) fn header_of_values(names: &[Likeness]) -> Option<String> {
    let values = names.iter().filter(|name| **name != Likeness::Other).count();
    if names.iter().all(|name| *name == Likeness::Same) {
        return Some(
            "each name in the header is also a value below it: if this line is a row, add a header above it; if \
             several files were joined, remove the other headers"
                .into(),
        );
    }
    // A single column may have the same name as one of its levels.
    (values > 1).then(|| {
        format!(
            "{values} of {} texts are like the values below: column names are expected, which all peers \
             see (`header = true` in the map file if these are names)",
            names.len()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(texts: &[&str]) -> BTreeMap<String, u64> {
        texts.iter().map(|text| ((*text).to_owned(), 1)).collect()
    }

    #[test]
    fn texts_that_can_be_read_otherwise_have_advice() {
        for (texts, said) in [
            (&["31.01.26", "02.12.25"][..], "date = \"dd.mm.yy\" in the map file"),
            (&["03-Jan-2024", "28-Feb-2024"], "date = \"dd-mmm-yyyy\""),
            (&["08:30", "23:59", "7:05 PM"], "times of day"),
            (&["120/80", "135/95"], "two numbers each"),
        ] {
            assert!(advice(&of(texts)).is_some_and(|advice| advice.contains(said)), "{texts:?}");
        }
        for texts in [&["ann@example.org", "bob@example.org"][..], &["E11.9", "I10"], &["a/b", "c/d"], &[]] {
            assert_eq!(advice(&of(texts)), None, "{texts:?}");
        }
    }

    #[test]
    fn numbered_texts_differ_in_digits_only() {
        let numbered = |texts: &[&str]| are_numbered(of(texts).keys());
        assert!(numbered(&["P001", "P002", "P117"]) && numbered(&["N-1 a", "N-23 a"]));
        assert!(!numbered(&["E11.9", "I10.0"]) && !numbered(&["never", "never "]) && !numbered(&[]));
    }

    #[test]
    fn a_row_is_no_header() {
        let like = |name, numbers, dates| Likeness::of(name, numbers, dates);
        assert_eq!(like("38,8", true, false), Likeness::Alike);
        assert_eq!(like("2026-04-20", false, true), Likeness::Alike);
        assert_eq!(like("2026-04-20", true, false), Likeness::Other);
        assert_eq!(like("age", true, true), Likeness::Other);
        let said = |names: &[Likeness]| header_of_values(names).unwrap_or_default();
        assert!(
            said(&[Likeness::Same, Likeness::Alike, Likeness::Other]).starts_with("2 of 3 texts are like")
        );
        assert!(said(&[Likeness::Same, Likeness::Same]).contains("if several files were joined"));
        assert_eq!(said(&[Likeness::Same, Likeness::Other]), "", "a column called as one of its levels");
    }

    #[test]
    fn spellings_of_one_value_are_one_text() {
        let rows = [("TRUE", 3), ("True", 5), ("false", 2), ("1", 4), ("1.0", 1), ("ill", 7)];
        let rows = rows.map(|(text, rows)| (text.to_owned(), rows)).into();
        let once = [("True", 8), ("false", 2), ("1", 5), ("ill", 7)];
        assert_eq!(spelt_once(&rows), once.map(|(text, rows)| (text.to_owned(), rows)).into());
    }
}
