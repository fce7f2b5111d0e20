//! Fields that make a session unique: a random number, the time at which its file was made, and its number in
//! a series.
//!
//! Two sessions with the same settings and peers have different random numbers, and therefore different ids.
//! So the state of one session is never used for the other.

use std::fmt::{self, Write};

use serde::{Deserialize, Serialize, Serializer};
use toml::value::{Date, Datetime, Offset, Time};

use super::encoding::{Field, integer};
use super::fields::field;
use super::file::quoted;
use super::rules::Limit;
use super::{SessionError, SessionId};

const SERIES: Limit = Limit::new("series.number", 2, 1_000_000);
/// Last second of the year 9999.
const LATEST: u64 = 253_402_300_799;
const DAY: i64 = 86_400;

/// Fields that make a session unique.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// Random number, which is different for each session.
    pub id: [u8; 16],
    /// Time at which the file was made, in seconds since 1970; at most the year 9999.
    pub created: u64,
    /// Place of the session in a series, if it follows another session.
    pub series: Option<Series>,
}

/// A session's place in a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Series {
    /// Number of the session, 2 or more. The first session of a series does not have this field.
    pub number: u32,
    /// Previous session of the series.
    #[serde(serialize_with = "as_text")]
    pub parent: SessionId,
}

fn as_text<S: Serializer>(id: &SessionId, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(id)
}

impl Run {
    /// Makes the fields of a session that is not in a series. `id` must be random if state is stored.
    #[must_use]
    pub fn new(id: [u8; 16], created: u64) -> Self {
        Self { id, created, series: None }
    }

    /// Returns the number of the session in its series, from 1.
    #[must_use]
    pub fn place(&self) -> u32 {
        self.series.map_or(1, |series| series.number)
    }

    /// Returns the time at which the file was made in RFC 3339 format: `2026-11-22T16:05:06Z`.
    #[must_use]
    pub fn created_text(&self) -> String {
        datetime(self.created).to_string()
    }

    pub(crate) fn check(&self) -> Result<(), SessionError> {
        if self.created > LATEST {
            return Err(SessionError::value("created", self.created, "a time before the year 10000"));
        }
        self.series.map_or(Ok(()), |series| SERIES.check::<u32>(series.number).map(drop))
    }

    /// Returns the fields that are part of the session id.
    pub(crate) fn entries(&self) -> Vec<Field> {
        let mut entries = vec![("run_id", self.id.to_vec()), ("created", integer(self.created))];
        if let Some(Series { number, parent }) = self.series {
            entries.push(("series.number", integer(number)));
            entries.push(("series.parent", parent.0.to_vec()));
        }
        entries
    }

    /// Adds the fields to a parsed file.
    pub(crate) fn put(&self, file: &mut toml::Table) {
        file.insert("run_id".into(), hex::encode(self.id).into());
        file.insert("created".into(), datetime(self.created).into());
    }

    /// Writes the fields that precede the first section of a session file.
    pub(crate) fn write_toml(&self, out: &mut String) -> fmt::Result {
        let about = "Random number of this session. State and receipts of other sessions are not accepted.";
        field(about, "run_id", quoted(&hex::encode(self.id)), out)?;
        writeln!(out, "created = {}", self.created_text())
    }

    /// Writes the section `[series]`, if there is one.
    pub(crate) fn write_series(&self, out: &mut String) -> fmt::Result {
        let Some(Series { number, parent }) = self.series else { return Ok(()) };
        writeln!(out, "[series]")?;
        let about = "The place of this session in its series, and the id of the one before it.";
        field(about, "number", number, out)?;
        writeln!(out, "parent = \"{parent}\"\n")
    }
}

/// `[series]` as it is written in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawSeries {
    number: i64,
    parent: String,
}

/// Fields as they are written in the file.
pub(crate) struct RawRun {
    pub(crate) id: String,
    pub(crate) created: Datetime,
    pub(crate) series: Option<RawSeries>,
}

impl RawRun {
    pub(crate) fn resolve(self) -> Result<Run, SessionError> {
        let id = bytes("run_id", &self.id)?;
        let created = seconds(&self.created).ok_or_else(|| {
            SessionError::value("created", self.created, "a time such as 2026-11-22T16:05:06Z")
        })?;
        let series = match self.series {
            None => None,
            Some(raw) => Some(Series {
                number: SERIES.check(raw.number)?,
                parent: SessionId(bytes("series.parent", &raw.parent)?),
            }),
        };
        Ok(Run { id, created, series })
    }
}

/// Reads N bytes from hexadecimal digits.
pub(crate) fn bytes<const N: usize>(field: &str, text: &str) -> Result<[u8; N], SessionError> {
    let mut out = [0; N];
    let lower = text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    match hex::decode_to_slice(text, &mut out) {
        Ok(()) if lower => Ok(out),
        _ => Err(SessionError::value(
            field,
            format!("{text:?}"),
            format!("{} digits 0 to 9 and a to f", 2 * N),
        )),
    }
}

/// Returns the seconds since 1970 of a time in UTC; only whole seconds are allowed.
fn seconds(when: &Datetime) -> Option<u64> {
    let (Some(date), Some(time), Some(Offset::Z)) = (when.date, when.time, when.offset) else { return None };
    let second = time.second.unwrap_or(0);
    if time.nanosecond.unwrap_or(0) != 0 || second > 59 {
        return None;
    }
    // Howard Hinnant, chrono-compatible low-level date algorithms, days_from_civil.
    let (month, day) = (i64::from(date.month), i64::from(date.day));
    let year = i64::from(date.year) - i64::from(month <= 2);
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    let days = era * 146_097 + day_of_era - 719_468;
    let second = i64::from(time.hour) * 3600 + i64::from(time.minute) * 60 + i64::from(second);
    u64::try_from(days * DAY + second).ok()
}

/// Converts seconds since 1970 to a time, the inverse of [`seconds`]. Works up to the year 9999.
fn datetime(unix: u64) -> Datetime {
    let unix = i64::try_from(unix.min(LATEST)).unwrap_or(i64::MAX);
    let (days, second) = (unix / DAY, unix % DAY);
    // civil_from_days from the same source, for days since 1970.
    let z = days + 719_468;
    let (era, day_of_era) = (z / 146_097, z % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let small = |value: i64| u8::try_from(value).unwrap_or_else(|_| unreachable!("BUG: {value} in a date"));
    let date = Date {
        year: u16::try_from(year).unwrap_or(u16::MAX),
        month: small(month),
        day: small(day_of_year - (153 * shifted + 2) / 5 + 1),
    };
    let time = Time {
        hour: small(second / 3600),
        minute: small(second / 60 % 60),
        second: Some(small(second % 60)),
        nanosecond: None,
    };
    Datetime { date: Some(date), time: Some(time), offset: Some(Offset::Z) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        // The expected values are the output of `date -u -d @N +%FT%TZ`.
        for (unix, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_709_164_800, "2024-02-29T00:00:00Z"),
            (4_102_444_800, "2100-01-01T00:00:00Z"),
            (LATEST, "9999-12-31T23:59:59Z"),
        ] {
            assert_eq!(Run::new([0; 16], unix).created_text(), text);
            assert_eq!(seconds(&text.parse().unwrap()), Some(unix));
        }
        for other in
            ["2024-02-29T00:00:00+01:00", "2024-02-29T00:00:00", "2024-02-29", "1969-12-31T23:59:59Z"]
        {
            assert_eq!(seconds(&other.parse().unwrap()), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn every_time_is_read_as_it_is_written(unix in 0..=LATEST) {
            prop_assert_eq!(seconds(&Run::new([0; 16], unix).created_text().parse().unwrap()), Some(unix));
        }
    }
}
