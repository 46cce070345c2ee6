//! The previous version token `@GMT-YYYY.MM.DD-HH.MM.SS`: [MS-SMB2] 2.2.32.2, [MS-SMB] 2.2.1.1.1.

use crate::{FileTime, UtcTime};

impl FileTime {
    /// UTF-16 code units of a token.
    pub const GMT_TOKEN_UNITS: usize = 24;

    /// The token of this time, rounded down to a second. Years above 9999 become 9999.
    #[must_use]
    pub fn to_gmt_token(self) -> String {
        let (seconds, _) = self.to_unix();
        let UtcTime { year, month, day, hour, minute, second } = UtcTime::from_unix(seconds);
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
        let mut fields = [0_u16; 6];
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
        let [year, rest @ ..] = fields;
        let [month, day, hour, minute, second] = rest.map(|field| u8::try_from(field).ok());
        let (month, day, hour) = (month?, day?, hour?);
        let (minute, second) = (minute?, second?);
        let time = UtcTime { year: year.into(), month, day, hour, minute, second };
        Some(Self::from_unix(time.to_unix()?, 0))
    }
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
