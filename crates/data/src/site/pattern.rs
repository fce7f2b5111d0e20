//! Formats of a peer's own dates: `dd.mm.yyyy`, `m/d/yy`, `dd-mmm-yyyy`.

use std::fmt;
use std::str::FromStr;

use crate::prepare::value::{DateOrder, days};

/// Names of months; three letters are compared.
const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const EXPECTED: &str = "expected day, month and year, such as dd.mm.yyyy, m/d/yy, dd-mmm-yyyy or yyyymmdd";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Day,
    Month,
    MonthName,
    Year,
    /// Two digits; 30 to 99 are in the 20th century.
    ShortYear,
    Sign(char),
}

/// A format of dates: `d`, `m` (`mmm` for Jan), `yy` or `yyyy`, and the signs between them. Text after the
/// date, such as a time of day, is ignored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatePattern {
    text: String,
    parts: Vec<Part>,
}

impl fmt::Display for DatePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for DatePattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refuse = || format!("{text:?}: {EXPECTED}");
        let small = text.to_lowercase();
        let (mut parts, mut rest) = (Vec::new(), small.as_str());
        while let Some(first) = rest.chars().next() {
            let length = rest.chars().take_while(|other| *other == first).count();
            let (part, used) = match (first, length) {
                ('d', 1 | 2) => (Part::Day, length),
                ('m', 1 | 2) => (Part::Month, length),
                ('m', 3) => (Part::MonthName, length),
                ('y', 2) => (Part::ShortYear, length),
                ('y', 4) => (Part::Year, length),
                (sign, _) if !sign.is_alphanumeric() => (Part::Sign(sign), 1),
                _ => return Err(refuse()),
            };
            parts.push(part);
            rest = rest.get(first.len_utf8() * used..).unwrap_or_default();
        }
        let count = |wanted: &[Part]| parts.iter().filter(|part| wanted.contains(part)).count();
        let whole = count(&[Part::Day]) == 1
            && count(&[Part::Month, Part::MonthName]) == 1
            && count(&[Part::Year, Part::ShortYear]) == 1;
        if whole { Ok(Self { text: text.to_owned(), parts }) } else { Err(refuse()) }
    }
}

impl DatePattern {
    /// Returns the days from 1970-01-01 to a date in this format.
    #[must_use]
    pub fn read(&self, text: &str) -> Option<i32> {
        let (mut rest, mut day, mut month, mut year) = (text, 0, 0, 0);
        // Without signs between the parts, numbers have their full lengths.
        let least = if self.parts.iter().any(|part| matches!(part, Part::Sign(_))) { 1 } else { 2 };
        for part in &self.parts {
            match part {
                Part::Day => day = digits(&mut rest, least, 2)?,
                Part::Month => month = digits(&mut rest, least, 2)?,
                Part::Year => year = digits(&mut rest, 4, 4)?,
                Part::ShortYear => {
                    year = digits(&mut rest, 2, 2)?;
                    year += if year < 30 { 2000 } else { 1900 };
                }
                Part::MonthName => {
                    let letters = rest.bytes().take_while(u8::is_ascii_alphabetic).count();
                    let (name, left) = rest.split_at_checked(letters)?;
                    let name = name.get(..3)?.to_lowercase();
                    month = MONTHS.iter().zip(1..).find(|(month, _)| **month == name)?.1;
                    rest = left;
                }
                Part::Sign(sign) => rest = rest.strip_prefix(*sign)?,
            }
        }
        // A further digit means another date, for example if only two digits of a four-digit year were read.
        if rest.starts_with(|next: char| next.is_ascii_digit()) {
            return None;
        }
        days(&format!("{year:04}-{month}-{day}"), DateOrder::YearMonthDay)
    }
}

fn digits(rest: &mut &str, least: usize, most: usize) -> Option<u32> {
    let count = rest.bytes().take(most).take_while(u8::is_ascii_digit).count();
    let (number, left) = rest.split_at_checked(count)?;
    *rest = left;
    number.parse().ok().filter(|_| count >= least)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prepare::value::date;

    #[test]
    fn dates_are_read_as_a_pattern_says() {
        let day = |pattern: &str, text: &str| {
            let day = pattern.parse::<DatePattern>().unwrap().read(text);
            day.and_then(|day| date(day.into()))
        };
        for (pattern, text, iso) in [
            ("dd.mm.yyyy", "31.01.2026", Some("2026-01-31")),
            ("dd.mm.yyyy", "1.2.2026 08:30", Some("2026-02-01")),
            ("dd.mm.yy", "31.01.26", Some("2026-01-31")),
            ("dd.mm.yy", "31.01.57", Some("1957-01-31")),
            ("dd.mm.yy", "31.01.1957", None),
            ("m/d/yyyy", "01/31/2026", Some("2026-01-31")),
            ("dd-mmm-yyyy", "31-JAN-2026", Some("2026-01-31")),
            ("mmm d, yyyy", "January 31, 2026", Some("2026-01-31")),
            ("ddmmyyyy", "31012026", Some("2026-01-31")),
            ("yyyymmdd", "20260131", Some("2026-01-31")),
            ("ddmmyyyy", "3112026", None),
            ("dd.mm.yyyy", "31.02.2026", None),
            ("dd.mm.yyyy", "unknown", None),
        ] {
            assert_eq!(day(pattern, text).as_deref(), iso, "{pattern} {text}");
        }
        for wrong in ["", "dd.mm", "dd.mm.yyy", "dd.mm.yyyy.dd", "TT.MM.JJJJ", "mmmm yyyy d"] {
            assert!(wrong.parse::<DatePattern>().unwrap_err().contains("dd.mm.yyyy"), "{wrong}");
        }
    }
}
