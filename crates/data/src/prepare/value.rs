//! Values of a table: numbers with either decimal sign, dates in three orders.

use time::{Date, Month};

use crate::magnitude_ok;

/// 1970-01-01 as a Julian day.
const EPOCH: i32 = 2_440_588;

/// In which order a date has its parts; they are parted by `-`, `/` or `.`, and a year has four digits.
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
    /// All of them.
    pub const ALL: [Self; 3] = [Self::YearMonthDay, Self::DayMonthYear, Self::MonthDayYear];

    /// How a session file writes it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::YearMonthDay => "year-month-day",
            Self::DayMonthYear => "day-month-year",
            Self::MonthDayYear => "month-day-year",
        }
    }
}

/// Days from 1970-01-01 to a date; a time of day after a `T` or a blank does not count. `None` for what is no
/// date of this order.
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

/// The date so many days after 1970-01-01, as ISO 8601; `None` beyond the years 0 to 9999, or between days.
#[must_use]
pub fn date(days: f64) -> Option<String> {
    #[expect(clippy::cast_possible_truncation, reason = "compared with what was given")]
    let whole = days as i32;
    let date = Date::from_julian_day(whole.checked_add(EPOCH)?).ok()?;
    let fits = f64::from(whole) == days && (0..=9999).contains(&date.year());
    fits.then(|| format!("{:04}-{:02}-{:02}", date.year(), u8::from(date.month()), date.day()))
}

/// Why a text is no number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NoNumber {
    /// It is one with the other decimal sign.
    OtherDecimal,
    /// `1,234` is a thousand and more, or one and less than a quarter.
    Ambiguous,
    /// `<0.5`: below or above what can be measured.
    Limit,
    /// `12%`.
    Percent,
    /// `72 kg`.
    Unit,
    /// A date.
    Date,
    /// Not finite, or 2^80 and more.
    Large,
    /// `-`, `unknown`, `n/a` and the like.
    Missing,
    /// Any other text.
    Text,
}

/// Reads a number. With `comma` decimals follow a comma. The other sign may part thousands, where that is
/// plain: `1.234,5` and `1.234.567`, but not `1.234`.
///
/// # Errors
/// What the text is, if it is no such number.
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

/// The groups of three digits that `sign` parts, if they are well formed, and what follows the decimal sign.
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

/// A number whose thousands are parted plainly.
fn grouped(text: &str, comma: bool) -> Option<f32> {
    let (count, fraction) = groups(text, comma)?;
    if count < 2 && !fraction {
        return None;
    }
    let group = if comma { '.' } else { ',' };
    text.replace(group, "").replacen(',', ".", 1).parse().ok().filter(|&value| magnitude_ok(value))
}

/// What a text is that is no number.
fn what_else(text: &str, comma: bool) -> NoNumber {
    let other = |text: &str| if comma { with_point(text) } else { with_comma(text) }.is_some();
    let either = |text: &str| with_point(text).or_else(|| with_comma(text)).is_some();
    if groups(text, comma).is_some() {
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
    if DateOrder::ALL.iter().any(|&order| days(text, order).is_some()) {
        return NoNumber::Date;
    }
    let start = text.trim_end_matches(|c: char| c.is_alphabetic() || "/^²³µ°%*".contains(c)).trim_end();
    if start.len() < text.len() && either(start) { NoNumber::Unit } else { NoNumber::Text }
}

/// Whether a text is one that people write for a missing value.
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
