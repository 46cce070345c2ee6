//! Pause before the next worker, if workers die while they start.

use std::time::{Duration, Instant};

/// The pause after the first failure; it doubles with each further one.
const PAUSE_MIN: Duration = Duration::from_millis(100);

/// Longest pause between two attempts.
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// Doublings that lead from [`PAUSE_MIN`] past [`PAUSE_MAX`].
const DOUBLINGS_MAX: u32 = 7;

/// Counts failures in a row. Time is an argument.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
    until: Option<Instant>,
}

impl Backoff {
    /// A worker died before it could serve. Returns the pause.
    pub(super) fn record_failure(&mut self, now: Instant) -> Duration {
        let pause = (PAUSE_MIN * 2_u32.pow(self.failures.min(DOUBLINGS_MAX))).min(PAUSE_MAX);
        self.failures = self.failures.saturating_add(1);
        self.until = Some(now + pause);
        pause
    }

    /// A worker started as it should.
    pub(super) fn record_success(&mut self) {
        *self = Self::default();
    }

    /// Whether the last worker that was to start did not.
    pub(super) fn is_failing(&self) -> bool {
        self.failures > 0
    }

    /// Returns the time of the next attempt; `None` if it may be now.
    pub(super) fn blocked_until(&self, now: Instant) -> Option<Instant> {
        self.until.filter(|until| *until > now)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::Backoff;

    #[test]
    fn pauses_double_up_to_the_longest_and_end_with_a_success() {
        let start = Instant::now();
        let mut backoff = Backoff::default();
        assert_eq!(backoff.blocked_until(start), None);
        let pauses: Vec<u64> = (0..10)
            .map(|_| u64::try_from(backoff.record_failure(start).as_millis()).expect("it is short"))
            .collect();
        assert_eq!(pauses, [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000, 10_000]);
        assert_eq!(backoff.blocked_until(start), Some(start + Duration::from_secs(10)));
        assert_eq!(backoff.blocked_until(start + Duration::from_secs(10)), None);
        assert!(backoff.is_failing());
        backoff.record_success();
        assert!(!backoff.is_failing());
        assert_eq!(backoff.record_failure(start), Duration::from_millis(100));
    }
}
