//! The previous version token `@GMT-YYYY.MM.DD-HH.MM.SS`: [MS-SMB2] 2.2.32.2, [MS-SMB] 2.2.1.1.1.

use crate::FileTime;

/// Number of seconds of a day.
const DAY: i64 = 86_400;

/// Days from 0000-03-01 to 1970-01-01. Years that begin in March end with the leap day.
const EPOCH_DAYS: i64 = 719_468;

/// Days of 400 years, after which the calendar repeats.
const ERA_DAYS: i64 = 146_097;

impl FileTime {
    /// UTF-16 code units of a token.
    pub const GMT_TOKEN_UNITS: usize = 24;

    /// The token of this time, rounded down to a second. Years above 9999 become 9999.
    #[must_use]
    pub fn to_gmt_token(self) -> String {
        let (seconds, _) = self.to_unix();
        let (days, second) = (seconds.div_euclid(DAY), seconds.rem_euclid(DAY));
        let (year, month, day) = date(days);
        let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
        let year = year.min(9_999);
        format!("@GMT-{year:04}.{month:02}.{day:02}-{hour:02}.{minute:02}.{second:02}")
    }

    /// The time of a token; `None` if `token` has another form or is not a date.
    #[must_use]
    pub fn from_gmt_token(token: &str) -> Option<Self> {
        let (head, digits) = token.split_at_checked(5)?;
        if !head.eq_ignore_ascii_case("@GMT-") || digits.len() != 19 {
            return None;
        }
        let mut fields = [0; 6];
        let mut rest = digits;
        for (index, field) in fields.iter_mut().enumerate() {
            let (number, behind) = rest.split_at_checked(if index == 0 { 4 } else { 2 })?;
            if !number.bytes().all(|byte| byte.is_ascii_digit()) {
                return None;
            }
            *field = number.parse().ok()?;
            let separator = match index {
                2 => "-",
                5 => "",
                _ => ".",
            };
            rest = behind.strip_prefix(separator)?;
        }
        let [year, month, day, hour, minute, second] = fields;
        let days = days(year, month, day);
        let exists = date(days) == (year, month, day) && hour < 24 && minute < 60 && second < 60;
        let seconds = days * DAY + hour * 3_600 + minute * 60 + second;
        exists.then(|| Self::from_unix(seconds, 0))
    }
}

/// Year, month and day of the date `days` days after 1970-01-01.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + EPOCH_DAYS;
    let (era, day) = (days.div_euclid(ERA_DAYS), days.rem_euclid(ERA_DAYS));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    // Counted from March: the months have 153 days in each five.
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + carry, month, day)
}

/// Days from 1970-01-01 to a date. An invalid date counts as one near it.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let month = (month + 9).rem_euclid(12);
    let (era, year) = (year.div_euclid(400), year.rem_euclid(400));
    let day = (153 * month + 2) / 5 + day - 1 + year * 365 + year / 4 - year / 100;
    era * ERA_DAYS + day - EPOCH_DAYS
}

#[cfg(test)]
mod tests {
    use crate::FileTime;

    #[test]
    fn tokens_name_seconds() {
        for (seconds, token) in [
            (0, "@GMT-1970.01.01-00.00.00"),
            (951_782_400, "@GMT-2000.02.29-00.00.00"),
            (1_530_387_257, "@GMT-2018.06.30-19.34.17"),
            (1_709_251_199, "@GMT-2024.02.29-23.59.59"),
            (4_107_542_400, "@GMT-2100.03.01-00.00.00"),
            (-11_644_473_599, "@GMT-1601.01.01-00.00.01"),
        ] {
            let time = FileTime::from_unix(seconds, 0);
            assert_eq!(time.to_gmt_token(), token);
            assert_eq!(FileTime::from_gmt_token(token), Some(time));
            assert_eq!(token.encode_utf16().count(), FileTime::GMT_TOKEN_UNITS);
        }
        let within = FileTime::from_unix(0, 999_999_900);
        assert_eq!(within.to_gmt_token(), "@GMT-1970.01.01-00.00.00");
    }

    #[test]
    fn every_day_of_four_centuries_comes_back() {
        for day in 0..146_097 {
            let time = FileTime::from_unix(day * 86_400, 0);
            assert_eq!(FileTime::from_gmt_token(&time.to_gmt_token()), Some(time), "{day}");
        }
    }

    #[test]
    fn a_text_that_is_no_date_is_no_token() {
        for token in [
            "",
            "@GMT-",
            "@GMT-2018.06.30-19.34.1",
            "@GMT-2018.06.30-19.34.170",
            "@GMT-2018.06.31-19.34.17",
            "@GMT-2019.02.29-00.00.00",
            "@GMT-2018.13.01-00.00.00",
            "@GMT-2018.00.01-00.00.00",
            "@GMT-2018.06.30-24.00.00",
            "@GMT-2018.06.30 19.34.17",
            "@GMT-2018.06.30-19.34.+7",
            "@GMT-2018.06.30-19.34.1\u{661}",
            "xGMT-2018.06.30-19.34.17",
        ] {
            assert_eq!(FileTime::from_gmt_token(token), None, "{token}");
        }
    }
}
