//! Origin of a model: the session, the counted peers, the program and the date.
//!
//! Nothing here changes a prediction, and no part of it is in [`Model::digest`](super::Model::digest):
//! date and program differ between the peers of one session.

/// Length of the longest text of an origin, in bytes.
pub const MAX_TEXT: usize = 256;
/// Largest number of members.
pub const MAX_MEMBERS: usize = 1024;

/// Origin of a model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origin {
    /// Name of the session.
    pub session: String,
    /// Id of the session.
    pub id: [u8; 32],
    /// Peers whose rows were counted, in the order of the roster.
    pub members: Vec<String>,
    /// Number of peers of the roster.
    pub roster: u16,
    /// True if noise was added to the counts (differential privacy).
    pub noised: bool,
    /// Protocol of the session.
    pub protocol: String,
    /// Program that wrote the file, with its version.
    pub program: String,
    /// Time of writing, in seconds since 1970.
    pub unix: u64,
}

impl Origin {
    /// Returns the day and time of writing, UTC: `2026-11-22 14:05:00 UTC`.
    #[must_use]
    pub fn date(&self) -> String {
        let (days, second) = (self.unix / 86_400, self.unix % 86_400);
        // Howard Hinnant, chrono-compatible low-level date algorithms, civil_from_days. Valid for days
        // from 1970 on.
        let z = days + 719_468;
        let (era, day_of_era) = (z / 146_097, z % 146_097);
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * shifted + 2) / 5 + 1;
        let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
        let year = year_of_era + era * 400 + u64::from(month <= 2);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let date = |unix| Origin { unix, ..Origin::default() }.date();
        // Dates as printed by `date -u -d @N`.
        assert_eq!(date(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(date(951_782_399), "2000-02-28 23:59:59 UTC");
        assert_eq!(date(951_868_800), "2000-03-01 00:00:00 UTC");
        assert_eq!(date(1_709_164_800), "2024-02-29 00:00:00 UTC");
        assert_eq!(date(1_767_225_599), "2025-12-31 23:59:59 UTC");
        assert_eq!(date(4_102_444_800), "2100-01-01 00:00:00 UTC");
    }
}
