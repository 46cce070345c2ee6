//! The date and time of `%T` and `%t` in smb.conf.

use std::time::SystemTime;

use dtyp::UtcTime;

/// `2026/11/20 23:16:59`, in UTC: it names folders, which should come in order also when clocks are
/// put back for the winter.
pub(super) fn text(time: SystemTime) -> String {
    let UtcTime { year, month, day, hour, minute, second } = UtcTime::of(time);
    format!("{year:04}/{month:02}/{day:02} {hour:02}:{minute:02}:{second:02}")
}

#[cfg(test)]
mod tests {
    use super::text;
    use std::time::{Duration, SystemTime};

    #[test]
    fn a_date_is_written_in_an_order_that_sorts() {
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_216_619);
        assert_eq!(text(time), "2026/11/20 23:16:59");
    }
}
