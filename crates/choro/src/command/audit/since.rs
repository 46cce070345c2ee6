//! Times from which records are shown.

use dtyp::{FileTime, UtcTime};
use process::clocks::wall_clock;

/// Reads an age or a time in UTC. Returns the time as records have it.
pub(super) fn parse(text: &str) -> Result<String, String> {
    let (now, _) = wall_clock().to_unix();
    let seconds = age(text).map(|age| now.saturating_sub(age)).or_else(|| date(text));
    let expected = "expected an age such as 90m, 12h, 30d or 8w, or a time such as 2026-11-27 or \
                    2026-11-27T08:30:00";
    Ok(FileTime::from_unix(seconds.ok_or(expected)?, 0).to_rfc3339())
}

fn age(text: &str) -> Option<i64> {
    let unit = match text.chars().last()? {
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        'w' => 7 * 86_400,
        _ => return None,
    };
    let number: u32 = text[..text.len() - 1].parse().ok()?;
    Some(i64::from(number) * unit)
}

fn date(text: &str) -> Option<i64> {
    let (date, time) = text.trim_end_matches('Z').split_once(['T', ' ']).unwrap_or((text, "0:0:0"));
    let mut of_date = date.splitn(3, '-');
    let year = of_date.next()?.parse().ok()?;
    let [month, day] = [of_date.next()?, of_date.next()?].map(str::parse);
    let mut of_time = time.splitn(3, ':').map(str::parse);
    let [hour, minute] = [of_time.next()?, of_time.next()?];
    let second = of_time.next().unwrap_or(Ok(0)).ok()?;
    let (month, day, hour, minute) = (month.ok()?, day.ok()?, hour.ok()?, minute.ok()?);
    UtcTime { year, month, day, hour, minute, second }.to_unix()
}

#[cfg(test)]
mod tests {
    use super::{age, date, parse};

    #[test]
    fn ages_and_times_are_read() {
        assert_eq!([age("90m"), age("2h"), age("1d")], [Some(5_400), Some(7_200), Some(86_400)]);
        assert_eq!(date("1970-01-02"), Some(86_400));
        assert_eq!(date("1970-01-01T01:00:05Z"), Some(3_605));
        assert_eq!(date("1970-01-01 01:30"), Some(5_400));
        assert_eq!(parse("2026-11-27").as_deref(), Ok("2026-11-27T00:00:00.000000Z"));
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "yesterday", "2026-02-30", "2026-11", "d", "-1d", "2026-11-27T25:00:00"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
