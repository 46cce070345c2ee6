//! Loads: operations that a client repeats on a server until a limit.

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::client::Client;

pub mod channels;
pub mod connects;
pub mod creates;
pub mod dbench;
pub mod fixture;
pub mod listing;
pub mod lost_channel;
pub mod metadata;
pub mod small_files;
pub mod stream;
pub mod watcher;

/// End of a load: at a time, or after a number of operations.
#[derive(Clone, Copy, Debug)]
pub enum Limit {
    /// End after this number of operations.
    Operations(u64),
    /// End at this point in time, but not before one operation.
    Until { end: Instant, has_begun: bool },
}

impl Limit {
    /// Ends after this time from now, and after one operation if a busy machine took all of it.
    #[must_use]
    pub fn after(duration: Duration) -> Self {
        Self::Until { end: Instant::now() + duration, has_begun: false }
    }

    /// Whether one more operation is to be begun. It counts as begun.
    pub fn take(&mut self) -> bool {
        match self {
            Self::Until { end, has_begun } => {
                !std::mem::replace(has_begun, true) || Instant::now() < *end
            }
            Self::Operations(0) => false,
            Self::Operations(rest) => {
                *rest -= 1;
                true
            }
        }
    }
}

/// Work done by a load.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Done {
    /// Number of operations that were completed.
    pub operations: u64,
    /// Bytes of files that were read or written.
    pub bytes: u64,
}

/// A load that is connected and ready to run.
pub trait Load {
    /// Runs until `limit` says so and everything in flight is answered.
    ///
    /// # Errors
    ///
    /// The first refusal, wrong answer or broken connection.
    fn run(&mut self, limit: Limit) -> Result<Done>;

    /// Connection of the load; `None` if it makes its own.
    fn client(&self) -> Option<&Client>;
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Limit;

    #[test]
    fn a_limit_of_operations_ends_after_them() {
        let mut limit = Limit::Operations(2);
        assert_eq!([limit.take(), limit.take(), limit.take()], [true, true, false]);
    }

    #[test]
    fn a_limit_of_time_ends_when_it_is_over_and_permits_one_operation() {
        let mut over = Limit::after(Duration::ZERO);
        assert_eq!([over.take(), over.take()], [true, false]);
        let mut lasting = Limit::after(Duration::from_secs(60));
        assert_eq!([lasting.take(), lasting.take()], [true, true]);
    }
}
