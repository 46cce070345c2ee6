//! FILETIME: [MS-DTYP] 2.3.3.

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
        let ticks = i128::from(seconds) * 10_000_000
            + i128::from(nanoseconds / 100)
            + i128::from(UNIX_EPOCH);
        Self(u64::try_from(ticks.clamp(1, i128::from(i64::MAX))).expect("clamped above zero"))
    }

    /// Seconds and nanoseconds since 1970; seconds are negative before it.
    #[must_use]
    pub fn to_unix(self) -> (i64, u32) {
        let ticks = i64::try_from(self.0).unwrap_or(i64::MAX) - UNIX_EPOCH;
        let nanoseconds = ticks.rem_euclid(10_000_000) * 100;
        let nanoseconds = u32::try_from(nanoseconds).expect("a remainder below a second");
        (ticks.div_euclid(10_000_000), nanoseconds)
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
    fn times_out_of_range_are_clamped() {
        assert_eq!(FileTime::from_unix(i64::MIN, 0), FileTime(1));
        assert_eq!(FileTime::from_unix(i64::MAX, 0), FileTime(i64::MAX.cast_unsigned()));
    }
}
