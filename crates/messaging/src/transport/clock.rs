//! The machine's monotonic clock, common to all processes.

use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};

/// Converts the times of callers to nanoseconds, without reading the clock again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    start: Instant,
    /// Machine's clock at `start`, in nanoseconds.
    start_ns: u64,
}

impl Clock {
    pub(super) fn new() -> Self {
        let start = Instant::now();
        let time = clock_gettime(ClockId::Monotonic);
        let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
        let start_ns = seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or_default();
        Self { start, start_ns }
    }

    /// Nanoseconds of the machine's clock at `now`.
    pub(super) fn nanoseconds(&self, now: Instant) -> u64 {
        let since = now.saturating_duration_since(self.start);
        self.start_ns + u64::try_from(since.as_nanos()).unwrap_or(u64::MAX >> 1)
    }
}
