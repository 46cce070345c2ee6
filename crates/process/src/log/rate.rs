//! The rate at which one process may write lines.

use std::time::{Duration, Instant};

/// Lines at once: more than anything says that happens once.
const LINES_MAX: u32 = 1_000;

/// Bytes that count as one line: a longer one counts several times.
const LINE_BYTES: usize = 256;

/// Interval between further lines. A client can cause a line with each request, for as long as it
/// likes: at this rate a day of them is 1 GiB at most, and not a full disk. It may have one process
/// after the other, too: see [`SharedRate`].
const LINE_INTERVAL: Duration = Duration::from_millis(20);

/// Decides whether lines may be written, together with other processes.
pub(super) type SharedRate = Box<dyn Fn(u32) -> bool + Send>;

/// Lines that may still be written.
pub(super) struct Rate {
    lines: u32,
    /// The time up to which lines were given out.
    counted: Instant,
    left_out: u64,
}

impl Rate {
    pub(super) const fn new(now: Instant) -> Self {
        Self { lines: LINES_MAX, counted: now, left_out: 0 }
    }

    /// Takes a line of some length in bytes. Returns the number of those left out before it; `None`
    /// if this one is, because this process or those that `shared` knows have written too many.
    pub(super) fn take(
        &mut self,
        now: Instant,
        len: usize,
        shared: Option<&SharedRate>,
    ) -> Option<u64> {
        let passed = now.saturating_duration_since(self.counted);
        let more = passed.as_nanos() / LINE_INTERVAL.as_nanos();
        let more = u32::try_from(more).unwrap_or(LINES_MAX).min(LINES_MAX);
        if more == LINES_MAX {
            self.counted = now;
        } else {
            self.counted += LINE_INTERVAL * more;
        }
        self.lines = (self.lines + more).min(LINES_MAX);
        let taken = u32::try_from(len.div_ceil(LINE_BYTES).max(1)).unwrap_or(u32::MAX);
        let own = self.lines.checked_sub(taken);
        let Some(lines) = own.filter(|_| shared.is_none_or(|shared| shared(taken))) else {
            self.left_out += 1;
            return None;
        };
        self.lines = lines;
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_is_made_to_write_for_ever_writes_little() {
        let start = Instant::now();
        let mut rate = Rate::new(start);
        // A line each millisecond, for an hour.
        let (mut written, mut left_out) = (0_u64, 0);
        for at in 0..3_600_000 {
            if let Some(before) = rate.take(start + Duration::from_millis(at), 100, None) {
                (written, left_out) = (written + 1, left_out + before);
            }
        }
        assert_eq!(written, u64::from(LINES_MAX) + 3_600 * 50 - 1);
        assert!((3_600_000 - 50..=3_600_000).contains(&(written + left_out)), "{left_out}");
    }

    #[test]
    fn occasional_lines_are_all_written() {
        let start = Instant::now();
        let mut rate = Rate::new(start);
        for hour in 0..24 {
            for _ in 0..LINES_MAX {
                assert_eq!(
                    rate.take(start + Duration::from_secs(3_600) * hour, 256, None),
                    Some(0)
                );
            }
        }
    }

    #[test]
    fn a_long_line_counts_as_several() {
        let start = Instant::now();
        let mut rate = Rate::new(start);
        let lines =
            (0..LINES_MAX).take_while(|_| rate.take(start, 10 * LINE_BYTES, None).is_some());
        assert_eq!(lines.count(), 100);
        assert_eq!(
            rate.take(start + LINE_INTERVAL, 1, None),
            Some(1),
            "a short one is soon written"
        );
    }

    #[test]
    fn a_line_needs_the_consent_of_other_processes() {
        let start = Instant::now();
        let mut rate = Rate::new(start);
        let shared: SharedRate = Box::new(|lines| lines < 2);
        assert_eq!(rate.take(start, 2 * LINE_BYTES, Some(&shared)), None);
        assert_eq!(rate.take(start, LINE_BYTES, Some(&shared)), Some(1));
    }
}
