//! A clock that stands still until a test moves it.

use std::time::Duration;

use dtyp::FileTime;
use proto::Now;

/// Ticks of 100 ns in a second.
const TICKS_PER_SECOND: u64 = 10_000_000;

/// 2026-01-01T00:00:00Z, in ticks of 100 ns since 1601.
const START: FileTime = FileTime(134_116_992_000_000_000);

/// Clock under the control of a test.
#[derive(Clone, Copy, Debug, Default)]
pub struct VirtualClock {
    elapsed: Duration,
}

impl VirtualClock {
    /// Returns the current time of the test.
    #[must_use]
    pub fn now(&self) -> Now {
        let seconds = self.elapsed.as_secs() * TICKS_PER_SECOND;
        let ticks = seconds + u64::from(self.elapsed.subsec_nanos()) / 100;
        Now { monotonic: self.elapsed, wall: FileTime(START.0 + ticks) }
    }

    /// Advances the time by a duration.
    pub fn advance(&mut self, by: Duration) {
        self.elapsed += by;
    }

    /// Advances to a moment, unless it is past already.
    pub fn advance_to(&mut self, monotonic: Duration) {
        self.elapsed = self.elapsed.max(monotonic);
    }
}
