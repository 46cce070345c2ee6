//! The thread of the store of local file systems: the worker's, or one of its own while they are
//! slow.
//!
//! Nearly every operation on a local disk is answered by caches, in less time than another thread
//! takes to wake. No call tells beforehand whether it will wait. So operations that took long
//! decide: the whole store, with its opens, moves to a thread and comes back after a quiet time.

use std::time::Duration;

use trace::Clock;

/// Time of an operation that is slow: a healthy disk takes less, and a busy processor makes a
/// thread wait less.
pub(super) const SLOW_OPERATION: Duration = Duration::from_millis(100);

/// Time of an operation after which the store moves at once.
const VERY_SLOW_OPERATION: Duration = Duration::from_millis(500);

/// Two slow operations within this time make the store move.
const SLOW_INTERVAL: Duration = Duration::from_secs(10);

/// Time without a slow operation after which the store comes back.
const QUIET_TIME: Duration = Duration::from_secs(30);

/// Decides on the thread of the store of local file systems.
#[derive(Debug)]
pub(super) struct LocalStorage {
    /// Ticks of the tracer's clock from which on an operation is slow.
    pub(super) slow_ticks: u64,
    very_slow_ticks: u64,
    last_slow: Option<Duration>,
    pub(super) place: Place,
    /// A share demands to be served by the worker's thread.
    is_bound: bool,
}

/// Place of the store of local file systems.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Place {
    /// The thread of the worker's loop.
    Inline,
    /// The same, and it has to move as soon as that is possible.
    Slow,
    /// A thread of its own.
    OnThread,
}

impl LocalStorage {
    /// Begins with the store on the worker's thread.
    pub(super) fn new(clock: Clock) -> Self {
        Self {
            slow_ticks: clock.ticks_of(SLOW_OPERATION),
            very_slow_ticks: clock.ticks_of(VERY_SLOW_OPERATION),
            last_slow: None,
            place: Place::Inline,
            is_bound: false,
        }
    }

    /// Notes a slow operation of the worker's thread.
    #[cold]
    pub(super) fn inline_operation_was_slow(&mut self, now: Duration, ticks: u64) {
        self.note(now, ticks >= self.very_slow_ticks);
    }

    /// Notes the time that a part of a listing took on the worker's thread.
    pub(super) fn listing_took(&mut self, now: Duration, time: Duration) {
        if time >= SLOW_OPERATION {
            self.note(now, time >= VERY_SLOW_OPERATION);
        }
    }

    fn note(&mut self, now: Duration, is_very_slow: bool) {
        let is_recent = |last: Duration| now.saturating_sub(last) <= SLOW_INTERVAL;
        let is_slow = is_very_slow || self.last_slow.is_some_and(is_recent);
        self.last_slow = Some(now);
        if is_slow && !self.is_bound && self.place == Place::Inline {
            self.place = Place::Slow;
        }
    }

    /// Notes a slow operation of the store's own thread.
    pub(super) fn operation_was_slow(&mut self, now: Duration) {
        self.last_slow = Some(now);
    }

    /// Keeps the store on the worker's thread from now on.
    pub(super) fn bind(&mut self) {
        self.is_bound = true;
        if self.place == Place::Slow {
            self.place = Place::Inline;
        }
    }

    /// True if the store may come back.
    pub(super) fn is_quiet(&self, now: Duration) -> bool {
        self.last_slow.is_none_or(|last| now.saturating_sub(last) >= QUIET_TIME)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn local() -> LocalStorage {
        LocalStorage::new(Clock::of_kernel())
    }

    /// Notes an operation of so many milliseconds at this second; whether the store is to move.
    fn note(local: &mut LocalStorage, second: u64, ms: u64) -> bool {
        local.inline_operation_was_slow(Duration::from_secs(second), ms * 1_000_000);
        local.place == Place::Slow
    }

    #[test]
    fn two_slow_operations_soon_after_each_other_move_the_store() {
        let mut local = local();
        assert_eq!(local.slow_ticks, 100_000_000);
        assert!(!note(&mut local, 100, 120));
        assert!(!note(&mut local, 111, 120), "the first one is long ago");
        assert!(note(&mut local, 120, 120));
    }

    #[test]
    fn one_operation_that_hangs_moves_the_store() {
        assert!(note(&mut local(), 100, 500));
        let mut bound = local();
        bound.bind();
        assert!(!note(&mut bound, 100, 30_000), "a share demands the worker's thread");
    }

    #[test]
    fn parts_of_listings_count() {
        let mut local = local();
        for (second, is_slow) in [(100, false), (101, true)] {
            local.listing_took(Duration::from_secs(second), Duration::from_millis(99));
            local.listing_took(Duration::from_secs(second), Duration::from_millis(100));
            assert_eq!(local.place == Place::Slow, is_slow);
        }
    }

    #[test]
    fn the_store_comes_back_after_a_quiet_time() {
        let mut local = local();
        note(&mut local, 100, 500);
        local.operation_was_slow(Duration::from_secs(110));
        assert!(!local.is_quiet(Duration::from_secs(139)));
        assert!(local.is_quiet(Duration::from_secs(140)));
    }
}
