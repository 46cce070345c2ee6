//! Limits the time that each worker makes this process spend on watches of the kernel.
//!
//! A watch of a tree through inotify begins with a walk through the tree, which takes a second for
//! a large one. A client can repeat that at will, and all clients share this process.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use dtyp::ServerId;

/// Divisor of this process's time: each worker may use one such part.
const PARTS: u32 = 16;

/// Time that a worker may use at once, after a pause: as long as two large trees take.
const BURST: Duration = Duration::from_secs(2);

/// The workers that have used time lately, with the time at which their part makes up for it.
#[derive(Debug, Default)]
pub(super) struct Budget(HashMap<ServerId, Instant>);

impl Budget {
    /// True if a worker has used more than its part.
    pub(super) fn is_spent(&self, worker: ServerId, now: Instant) -> bool {
        let ahead = self.0.get(&worker).map(|until| until.saturating_duration_since(now));
        ahead.is_some_and(|ahead| ahead > BURST * PARTS)
    }

    /// Notes that time was used for a worker.
    pub(super) fn spend(&mut self, worker: ServerId, now: Instant, time: Duration) {
        let until = self.0.get(&worker).copied().unwrap_or(now).max(now) + time * PARTS;
        // Workers whose part has made up for their use need no entry.
        self.0.retain(|_, until| *until > now);
        self.0.insert(worker, until);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(pid: u32) -> ServerId {
        ServerId { pid, unique_id: pid.into() }
    }

    #[test]
    fn a_worker_that_has_used_more_than_its_part_waits_and_others_do_not() {
        let (mut budget, now) = (Budget::default(), Instant::now());
        budget.spend(worker(1), now, BURST);
        assert!(!budget.is_spent(worker(1), now));
        budget.spend(worker(1), now, Duration::from_millis(1));
        assert!(budget.is_spent(worker(1), now));
        assert!(!budget.is_spent(worker(2), now));
        let later = now + Duration::from_millis(u64::from(PARTS));
        assert!(!budget.is_spent(worker(1), later));
        budget.spend(worker(2), later + BURST * PARTS, Duration::from_millis(1));
        assert_eq!(budget.0.len(), 1, "what was made up for is forgotten");
    }
}
