//! The date and time of `%T` and `%t` in smb.conf.

use std::time::SystemTime;

const DAY_SECONDS: u64 = 86_400;

/// Days in 400 years, after which the calendar repeats.
const ERA_DAYS: u64 = 146_097;

/// Days from 1 March of the year 0 to 1 January 1970.
const EPOCH_DAYS: u64 = 719_468;

/// `2026/11/20 23:16:59`, in UTC: it names folders, which should come in order also when clocks are
/// put back for the winter.
pub(super) fn text(time: SystemTime) -> String {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let (year, month, day) = date(since / DAY_SECONDS);
    let second = since % DAY_SECONDS;
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}/{month:02}/{day:02} {hour:02}:{minute:02}:{second:02}")
}

/// Year, month and day, from days since 1970. Years begin in March here, so that the leap day is
/// the last of its year and the months before it have lengths that repeat every five: 153 days.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + EPOCH_DAYS;
    let (era, day_of_era) = (days / ERA_DAYS, days % ERA_DAYS);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year_of_era + next, month, day)
}

#[cfg(test)]
mod tests {
    use super::text;
    use std::time::{Duration, SystemTime};

    #[track_caller]
    fn check(seconds: u64, want: &str) {
        assert_eq!(text(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)), want);
    }

    #[test]
    fn dates_are_those_of_the_gregorian_calendar() {
        check(0, "1970/01/01 00:00:00");
        check(951_782_399, "2000/02/28 23:59:59");
        check(951_782_400, "2000/02/29 00:00:00");
        check(951_868_800, "2000/03/01 00:00:00");
        check(1_795_216_619, "2026/11/20 23:16:59");
        check(4_107_542_399, "2100/02/28 23:59:59");
        check(4_107_542_400, "2100/03/01 00:00:00");
    }
}
