//! Time that the whole machine waits for its storage: the kernel's pressure stall information,
//! `/proc/pressure/io`.

use std::fs;
use std::time::{Duration, Instant};

/// Interval between two reads of the file.
const MEASUREMENT_INTERVAL: Duration = Duration::from_secs(1);

/// The last measurement, if there was one.
#[derive(Debug, Default)]
pub(super) struct Pressure {
    last: Option<(Instant, u64)>,
}

impl Pressure {
    /// Returns the time of the next read.
    pub(super) fn next_measurement(&self, now: Instant) -> Instant {
        self.last.map_or(now, |(at, _)| at + MEASUREMENT_INTERVAL)
    }

    /// Returns the share of time, in thousandths, for which all tasks waited since the last read.
    /// `None` if it is too early, or the kernel has no such file.
    pub(super) fn measure(&mut self, now: Instant) -> Option<u64> {
        if now < self.next_measurement(now) {
            return None;
        }
        let total = fs::read_to_string("/proc/pressure/io").ok().and_then(|text| stalled_us(&text));
        let before = self.last.replace((now, total.unwrap_or(0)));
        let ((at, before), total) = (before?, total?);
        let elapsed = u64::try_from((now - at).as_micros()).unwrap_or(u64::MAX);
        (total.saturating_sub(before) * 1_000).checked_div(elapsed)
    }
}

/// Microseconds in which everything waited, since the machine started.
fn stalled_us(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with("full "))?;
    line.split_whitespace().find_map(|word| word.strip_prefix("total="))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::stalled_us;

    #[test]
    fn the_time_of_full_stalls_is_read() {
        let text = "some avg10=1.50 avg60=0.90 avg300=0.20 total=9000\n\
                    full avg10=1.00 avg60=0.50 avg300=0.10 total=7000\n";
        assert_eq!(stalled_us(text), Some(7000));
        assert_eq!(stalled_us("some total=1\n"), None);
    }
}
