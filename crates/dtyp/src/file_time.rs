//! FILETIME: [MS-DTYP] 2.3.3.

use crate::utc_time::UtcTime;

/// Hundreds of nanoseconds since 1601-01-01T00:00:00Z.
///
/// Zero is an absent time; in a SetInfo request −1 (`u64::MAX`) and −2 have the meanings of
/// [MS-FSCC] 2.4.7.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct FileTime(pub u64);

/// Time between 1601-01-01 and 1970-01-01, in hundreds of nanoseconds.
const UNIX_EPOCH: i64 = 116_444_736_000_000_000;

impl FileTime {
    /// An absent time.
    pub const ZERO: Self = Self(0);

    /// The time `seconds` and `nanoseconds` after 1970. Times before 1601 become 1, because zero is
    /// an absent time; times after the last FILETIME become the last one.
    #[must_use]
    pub fn from_unix(seconds: i64, nanoseconds: u32) -> Self {
        let ticks = seconds.saturating_mul(10_000_000).saturating_add(UNIX_EPOCH);
        let ticks = ticks.saturating_add(i64::from(nanoseconds / 100));
        Self(u64::try_from(ticks.max(1)).expect("at least 1"))
    }

    /// Seconds and nanoseconds since 1970; seconds are negative before it.
    #[must_use]
    pub fn to_unix(self) -> (i64, u32) {
        let ticks = i64::try_from(self.0).unwrap_or(i64::MAX) - UNIX_EPOCH;
        let nanoseconds = ticks.rem_euclid(10_000_000) * 100;
        let nanoseconds = u32::try_from(nanoseconds).expect("a remainder below a second");
        (ticks.div_euclid(10_000_000), nanoseconds)
    }

    /// Returns the time in UTC with microseconds, as RFC 3339 writes it.
    #[must_use]
    pub fn to_rfc3339(self) -> String {
        let (seconds, nanoseconds) = self.to_unix();
        let UtcTime { year, month, day, hour, minute, second } = UtcTime::from_unix(seconds);
        let micros = nanoseconds / 1_000;
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
    }
}

#[cfg(test)]
mod tests {
    use super::FileTime;

    #[test]
    fn unix_times_round_trip_to_100_ns() {
        for (seconds, nanoseconds) in [(0, 0), (1, 999_999_900), (-1, 500), (1_800_000_000, 100)] {
            assert_eq!(FileTime::from_unix(seconds, nanoseconds).to_unix(), (seconds, nanoseconds));
        }
        assert_eq!(FileTime::from_unix(0, 0).0, 116_444_736_000_000_000);
    }

    #[test]
    fn a_time_is_written_with_microseconds() {
        let time = FileTime::from_unix(1_800_000_000, 1_234_567);
        assert_eq!(time.to_rfc3339(), "2027-01-15T08:00:00.001234Z");
    }

    #[test]
    fn times_out_of_range_are_clamped() {
        assert_eq!(FileTime::from_unix(i64::MIN, 0), FileTime(1));
        assert_eq!(FileTime::from_unix(i64::MAX, 0), FileTime(i64::MAX.cast_unsigned()));
    }
}
