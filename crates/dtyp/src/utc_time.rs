//! A date and time of day in UTC, in the Gregorian calendar.

use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds of a day. UTC as computers count it has no leap seconds.
const DAY_SECONDS: i64 = 86_400;

/// Days from 0000-03-01 to 1970-01-01. Years that begin in March end with the leap day.
const EPOCH_DAYS: i64 = 719_468;

/// Days of 400 years, after which the calendar repeats.
const ERA_DAYS: i64 = 146_097;

/// A second of UTC, by its date and its time of day.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct UtcTime {
    /// The year; the year before 1 is 0, and the one before that -1.
    pub year: i64,
    /// The month, from 1 to 12.
    pub month: u8,
    /// The day of the month, from 1.
    pub day: u8,
    /// The hour, from 0 to 23.
    pub hour: u8,
    /// The minute, from 0 to 59.
    pub minute: u8,
    /// The second, from 0 to 59.
    pub second: u8,
}

impl UtcTime {
    /// Returns the time so many seconds after 1970-01-01, or before it if negative.
    #[must_use]
    pub fn from_unix(seconds: i64) -> Self {
        let (days, second) = (seconds.div_euclid(DAY_SECONDS), seconds.rem_euclid(DAY_SECONDS));
        let days = days + EPOCH_DAYS;
        let (era, day) = (days.div_euclid(ERA_DAYS), days.rem_euclid(ERA_DAYS));
        let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        // Counted from March: the months have 153 days in each five.
        let month = (5 * day + 2) / 153;
        let day = day - (153 * month + 2) / 5 + 1;
        let (month, carry) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
        Self {
            year: era * 400 + year + carry,
            month: small(month),
            day: small(day),
            hour: small(second / 3_600),
            minute: small(second / 60 % 60),
            second: small(second % 60),
        }
    }

    /// Returns the time of the system's clock. A time before 1970 counts as the first second of it.
    #[must_use]
    pub fn of(time: SystemTime) -> Self {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self::from_unix(i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
    }

    /// Returns the seconds from 1970-01-01; none if there is no such date or time of day, or the
    /// number is too large.
    #[must_use]
    pub fn to_unix(self) -> Option<i64> {
        let Self { year, month, day, hour, minute, second } = self;
        let [month, day, hour, minute, second] = [month, day, hour, minute, second].map(i128::from);
        let year = i128::from(year) - i128::from(month <= 2);
        let month = (month + 9).rem_euclid(12);
        let (era, year) = (year.div_euclid(400), year.rem_euclid(400));
        let day = (153 * month + 2) / 5 + day - 1 + year * 365 + year / 4 - year / 100;
        let days = era * i128::from(ERA_DAYS) + day - i128::from(EPOCH_DAYS);
        let seconds = days * i128::from(DAY_SECONDS) + hour * 3_600 + minute * 60 + second;
        let seconds = i64::try_from(seconds).ok()?;
        // A date that does not exist, such as 30 February, counts as one near it.
        (Self::from_unix(seconds) == self).then_some(seconds)
    }
}

/// A part of a date, all of which are below 100.
fn small(part: i64) -> u8 {
    u8::try_from(part).expect("a remainder of a division by less than 256")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn time([year, month, day]: [i64; 3], [hour, minute, second]: [u8; 3]) -> UtcTime {
        UtcTime { year, month: small(month), day: small(day), hour, minute, second }
    }

    #[test]
    fn seconds_have_the_dates_of_the_gregorian_calendar() {
        for (seconds, date, time_of_day) in [
            (-62_135_596_801, [0, 12, 31], [23, 59, 59]),
            (-11_644_473_599, [1601, 1, 1], [0, 0, 1]),
            (-1, [1969, 12, 31], [23, 59, 59]),
            (0, [1970, 1, 1], [0, 0, 0]),
            (951_782_399, [2000, 2, 28], [23, 59, 59]),
            (951_782_400, [2000, 2, 29], [0, 0, 0]),
            (951_868_800, [2000, 3, 1], [0, 0, 0]),
            (1_700_000_000, [2023, 11, 14], [22, 13, 20]),
            (1_709_251_199, [2024, 2, 29], [23, 59, 59]),
            (1_735_689_599, [2024, 12, 31], [23, 59, 59]),
            (4_107_542_399, [2100, 2, 28], [23, 59, 59]),
            (4_107_542_400, [2100, 3, 1], [0, 0, 0]),
        ] {
            let want = time(date, time_of_day);
            assert_eq!(UtcTime::from_unix(seconds), want);
            assert_eq!(want.to_unix(), Some(seconds));
        }
    }

    #[test]
    fn every_day_of_four_centuries_follows_the_day_before() {
        let mut before = UtcTime::from_unix(-DAY_SECONDS);
        for day in 0..ERA_DAYS {
            let now = UtcTime::from_unix(day * DAY_SECONDS);
            assert_eq!(now.to_unix(), Some(day * DAY_SECONDS));
            let order = |it: UtcTime| (it.year, it.month, it.day);
            assert!(order(before) < order(now), "{before:?} {now:?}");
            before = now;
        }
    }

    #[test]
    fn a_date_or_time_that_does_not_exist_has_no_seconds() {
        for (date, time_of_day) in [
            ([2018, 6, 31], [0, 0, 0]),
            ([2019, 2, 29], [0, 0, 0]),
            ([2100, 2, 29], [0, 0, 0]),
            ([2018, 13, 1], [0, 0, 0]),
            ([2018, 0, 1], [0, 0, 0]),
            ([2018, 1, 0], [0, 0, 0]),
            ([2018, 6, 30], [24, 0, 0]),
            ([2018, 6, 30], [0, 60, 0]),
            ([2018, 6, 30], [0, 0, 60]),
        ] {
            assert_eq!(time(date, time_of_day).to_unix(), None, "{date:?} {time_of_day:?}");
        }
    }

    #[test]
    fn the_ends_of_the_range_do_not_overflow() {
        for seconds in [i64::MIN, i64::MAX] {
            assert_eq!(UtcTime::from_unix(seconds).to_unix(), Some(seconds));
        }
        for year in [i64::MIN, i64::MAX] {
            assert_eq!(time([year, 1, 1], [0, 0, 0]).to_unix(), None);
        }
    }

    #[test]
    fn the_systems_clock_has_the_same_dates() {
        let at = UNIX_EPOCH + Duration::from_millis(951_782_400_999);
        assert_eq!(UtcTime::of(at), time([2000, 2, 29], [0, 0, 0]));
        let early = UNIX_EPOCH - Duration::from_secs(1);
        assert_eq!(UtcTime::of(early), UtcTime::from_unix(0));
    }
}
