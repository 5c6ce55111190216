//! Dates, as in an entry's `until`.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A day of the Gregorian calendar, in UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Date {
    year: u16,
    month: u8,
    day: u8,
}

impl Date {
    /// Creates a date.
    pub const fn new(year: u16, month: u8, day: u8) -> Self {
        Self { year, month, day }
    }

    /// Returns the date that is this many days after 1970-01-01, computed with Howard Hinnant's
    /// [`civil_from_days`](https://howardhinnant.github.io/date_algorithms.html).
    pub fn from_days(days: u64) -> Self {
        // Years that begin in March end with the leap day. Four hundred such years have 146,097
        // days.
        let days = days + 719_468;
        let (era, day_of_era) = (days / 146_097, days % 146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month + 2) / 5 + 1;
        let month = if month < 10 { month + 3 } else { month - 9 };
        let year = era * 400 + year_of_era + u64::from(month <= 2);
        Self::new(year as u16, month as u8, day as u8)
    }
}

/// Formats as `2026-12-31`.
impl fmt::Display for Date {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

#[cfg(test)]
mod tests {
    use super::Date;

    #[test]
    fn days_are_counted_over_leap_years() {
        for (days, date) in [
            (0, "1970-01-01"),
            (59, "1970-03-01"),
            (11_016, "2000-02-29"),
            (20_453, "2025-12-31"),
            (20_454, "2026-01-01"),
            (47_540, "2100-02-28"),
            (47_541, "2100-03-01"),
        ] {
            assert_eq!(Date::from_days(days).to_string(), date, "{days}");
        }
    }

    #[test]
    fn an_earlier_day_is_less() {
        assert!(Date::new(2026, 1, 31) < Date::new(2026, 2, 1));
        assert!(Date::new(2025, 12, 31) < Date::new(2026, 1, 1));
    }
}
