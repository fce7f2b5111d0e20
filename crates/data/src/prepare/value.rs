//! Values of a table: numbers with either decimal sign, dates in three orders.

use time::{Date, Month};

use crate::magnitude_ok;

/// 1970-01-01 as a Julian day.
const EPOCH: i32 = 2_440_588;

/// Order of the parts of a date. The parts are separated by `-`, `/` or `.`, and a year has four digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DateOrder {
    /// 2026-01-31 (ISO 8601), or 20260131.
    #[default]
    YearMonthDay,
    /// 31.01.2026, 31/1/2026.
    DayMonthYear,
    /// 01/31/2026.
    MonthDayYear,
}

impl DateOrder {
    /// All orders.
    pub const ALL: [Self; 3] = [Self::YearMonthDay, Self::DayMonthYear, Self::MonthDayYear];

    /// Returns the name in a session file.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::YearMonthDay => "year-month-day",
            Self::DayMonthYear => "day-month-year",
            Self::MonthDayYear => "month-day-year",
        }
    }
}

/// Returns the days from 1970-01-01 to a date. A time of day after a `T` or a blank is ignored. A text
/// that begins with a year of four digits and a separator is read as year-month-day for every order.
/// Returns `None` if the text is not a date of this order.
#[must_use]
pub fn days(text: &str, order: DateOrder) -> Option<i32> {
    let text = text.split(['T', ' ']).next()?;
    let compact = text.len() == 8 && text.bytes().all(|b| b.is_ascii_digit());
    let mut parts = [""; 3];
    if compact && order == DateOrder::YearMonthDay {
        parts = [text.get(..4)?, text.get(4..6)?, text.get(6..)?];
    } else {
        let mut found = text.split(['-', '/', '.']);
        for part in &mut parts {
            *part = found.next().filter(|part| part.bytes().all(|b| b.is_ascii_digit()))?;
        }
        if found.next().is_some() {
            return None;
        }
    }
    let [year, month, day] = match (order, parts) {
        (_, parts) if parts[0].len() == 4 => parts,
        (DateOrder::YearMonthDay, parts) => parts,
        (DateOrder::DayMonthYear, [day, month, year]) | (DateOrder::MonthDayYear, [month, day, year]) => {
            [year, month, day]
        }
    };
    if year.len() != 4 || month.len() > 2 || day.len() > 2 {
        return None;
    }
    let month = Month::try_from(month.parse::<u8>().ok()?).ok()?;
    let date = Date::from_calendar_date(year.parse().ok()?, month, day.parse().ok()?).ok()?;
    Some(date.to_julian_day() - EPOCH)
}

/// Returns the date that is `days` days after 1970-01-01, as ISO 8601; `None` outside the years 0 to 9999
/// and for a fraction of a day.
#[must_use]
pub fn date(days: f64) -> Option<String> {
    #[expect(clippy::cast_possible_truncation, reason = "compared with what was given")]
    let whole = days as i32;
    let date = Date::from_julian_day(whole.checked_add(EPOCH)?).ok()?;
    let fits = f64::from(whole) == days && (0..=9999).contains(&date.year());
    fits.then(|| format!("{:04}-{:02}-{:02}", date.year(), u8::from(date.month()), date.day()))
}

/// Writes values of a format with types as in CSV by pandas, so that one table gives the same rows in
/// every format.
pub(crate) mod typed {
    use std::fmt::{self, Display, Write};

    struct Bytes<'a>(&'a mut Vec<u8>);

    impl Write for Bytes<'_> {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            self.0.extend(text.as_bytes());
            Ok(())
        }
    }

    /// Writes a value as `Display` does.
    pub(crate) fn plain(out: &mut Vec<u8>, value: impl Display) {
        // Writing to a vector cannot fail.
        let _ = write!(Bytes(out), "{value}");
    }

    /// Writes a number, with the decimal sign of the table.
    pub(crate) fn number(out: &mut Vec<u8>, value: impl Display, comma: bool) {
        let start = out.len();
        plain(out, value);
        for byte in out.iter_mut().skip(start).filter(|byte| comma && **byte == b'.') {
            *byte = b',';
        }
    }

    /// Writes a binary64 or binary32. NaN is written as nothing, because pandas uses it for a missing
    /// number.
    pub(crate) fn float(out: &mut Vec<u8>, value: impl Display + Into<f64> + Copy, comma: bool) {
        if !value.into().is_nan() {
            number(out, value, comma);
        }
    }

    pub(crate) fn truth(out: &mut Vec<u8>, value: bool) {
        out.extend(if value { &b"True"[..] } else { b"False" });
    }
}

/// Parses a boolean. In a column of numbers `True` and `TRUE` count as 1, in every format.
#[must_use]
pub fn truth(text: &str) -> Option<bool> {
    match text {
        "True" | "TRUE" | "true" => Some(true),
        "False" | "FALSE" | "false" => Some(false),
        _ => None,
    }
}

/// Reason why a text is not a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NoNumber {
    /// The text is a number with the other decimal sign.
    OtherDecimal,
    /// The thousands separator is ambiguous. `1,234` may be more than a thousand, or a little more than
    /// one. `1 234` and `1'234` may be two numbers.
    Ambiguous,
    /// `<0.5`: below or above the range of measurement.
    Limit,
    /// `12%`.
    Percent,
    /// `72 kg`, `€12`.
    Unit,
    /// `(5)`, or `−5` with a typographic minus sign.
    Minus,
    /// A date.
    Date,
    /// Not finite, or 2^80 or more.
    Large,
    /// `-`, `unknown`, `n/a` and similar texts.
    Missing,
    /// Any other text.
    Text,
}

/// Parses a number. With `comma`, the decimal sign is a comma. The other sign may separate thousands if it
/// is unambiguous: `1.234,5` and `1.234.567`, but not `1.234`.
///
/// # Errors
/// The kind of the text, if it is not such a number.
pub fn number(text: &str, comma: bool) -> Result<f32, NoNumber> {
    let parsed = if comma { with_comma(text) } else { with_point(text) };
    match parsed {
        Some(value) if magnitude_ok(value) => Ok(value),
        Some(value) if value.is_nan() => Err(NoNumber::Missing),
        Some(_) => Err(NoNumber::Large),
        None => grouped(text, comma).ok_or_else(|| what_else(text, comma)),
    }
}

fn with_point(text: &str) -> Option<f32> {
    text.parse().ok()
}

fn with_comma(text: &str) -> Option<f32> {
    if text.contains('.') { None } else { text.replacen(',', ".", 1).parse().ok() }
}

/// Returns the number of groups of three digits after a thousands separator, and whether a fraction
/// follows. Returns `None` if the groups are not well formed.
fn groups(text: &str, comma: bool) -> Option<(usize, bool)> {
    let (decimal, group) = if comma { (',', '.') } else { ('.', ',') };
    let (whole, fraction) = match text.split_once(decimal) {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (text, None),
    };
    let whole = whole.strip_prefix(['-', '+']).unwrap_or(whole);
    let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    let mut parts = whole.split(group);
    let first = parts.next()?;
    let mut count = 0;
    for part in parts {
        count += 1;
        if part.len() != 3 || !digits(part) {
            return None;
        }
    }
    let sound = (1..=3).contains(&first.len()) && digits(first) && fraction.is_none_or(digits);
    (sound && count > 0).then_some((count, fraction.is_some()))
}

/// Parses a number with unambiguous thousands separators.
fn grouped(text: &str, comma: bool) -> Option<f32> {
    let (count, fraction) = groups(text, comma)?;
    if count < 2 && !fraction {
        return None;
    }
    let group = if comma { '.' } else { ',' };
    text.replace(group, "").replacen(',', ".", 1).parse().ok().filter(|&value| magnitude_ok(value))
}

/// Returns the kind of a text that is not a number.
fn what_else(text: &str, comma: bool) -> NoNumber {
    let other = |text: &str| if comma { with_point(text) } else { with_comma(text) }.is_some();
    let either = |text: &str| with_point(text).or_else(|| with_comma(text)).is_some();
    let one = text.replace([' ', '\'', '’', '\u{a0}', '\u{202f}'], if comma { "." } else { "," });
    if groups(text, comma).is_some() || groups(&one, comma).is_some() {
        return NoNumber::Ambiguous;
    }
    if other(text) || grouped(text, !comma).is_some() {
        return NoNumber::OtherDecimal;
    }
    if text
        .strip_prefix(['<', '>', '≤', '≥', '~'])
        .is_some_and(|rest| either(rest.trim_start_matches('=').trim()))
    {
        return NoNumber::Limit;
    }
    if text.strip_suffix('%').is_some_and(|rest| either(rest.trim())) {
        return NoNumber::Percent;
    }
    if looks_missing(text) {
        return NoNumber::Missing;
    }
    let brackets = text.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
    if brackets.or_else(|| text.strip_prefix('−')).is_some_and(either) {
        return NoNumber::Minus;
    }
    if DateOrder::ALL.iter().any(|&order| days(text, order).is_some()) {
        return NoNumber::Date;
    }
    let start = text.trim_end_matches(|c: char| c.is_alphabetic() || "/^²³µ°%*".contains(c)).trim_end();
    let start = start.trim_start_matches(['€', '$', '£', '¥']).trim_start();
    if start.len() < text.len() && (either(start) || groups(start, comma).is_some()) {
        NoNumber::Unit
    } else {
        NoNumber::Text
    }
}

/// Returns whether a text means a missing value and is unlikely to be a class or a level (`none` may be
/// one).
#[must_use]
pub fn is_no_value(text: &str) -> bool {
    ["na", "n/a", "#n/a", "nan", "null", "?", "-", "--", "."].contains(&text.to_lowercase().as_str())
}

/// Returns whether a text is one that people often write for a missing value.
#[must_use]
pub fn looks_missing(text: &str) -> bool {
    const WORDS: [&str; 27] = [
        "na",
        "n/a",
        "n.a.",
        "n. a.",
        "#n/a",
        "nan",
        "null",
        "nil",
        "none",
        "-",
        "--",
        "---",
        "?",
        ".",
        "..",
        "*",
        "missing",
        "unknown",
        "unk",
        "not done",
        "not available",
        "k.a.",
        "k. a.",
        "keine angabe",
        "unbekannt",
        "nd",
        "n.d.",
    ];
    let small = text.to_lowercase();
    WORDS.contains(&small.as_str())
}
