//! Memory that the watches of each worker take.

use std::collections::HashMap;

use arbitration::Standing;
use dtyp::ServerId;

use super::WORKER_PARTS;

/// Bytes of the watches of all workers. Beyond its part of them, a worker gets no changes by
/// others: paths may have thousands of bytes, and clients choose them.
const BYTES_MAX: usize = 256 * 1024 * 1024;

/// Bytes of a watch besides its path: its entries in the tables here, as one of few in its
/// directory.
const WATCH_BYTES: usize = 1_536;

/// Bytes of watches, by worker. The text of a path is shared, but counts for each watch.
#[derive(Debug, Default)]
pub(crate) struct PathAccount {
    total: usize,
    of_workers: HashMap<ServerId, usize>,
}

impl PathAccount {
    /// True if a worker may have one more watch of this path.
    pub(super) fn permits(&self, worker: ServerId, standing: Standing, path: &str) -> bool {
        let own = self.of_workers.get(&worker).copied().unwrap_or_default();
        standing.permits((BYTES_MAX, WORKER_PARTS), (self.total - own, own, bytes_of(path)))
    }

    /// Adds a watch of a worker.
    pub(crate) fn add(&mut self, worker: ServerId, path: &str) {
        self.total += bytes_of(path);
        *self.of_workers.entry(worker).or_default() += bytes_of(path);
    }

    /// Removes a watch of a worker.
    pub(crate) fn remove(&mut self, worker: ServerId, path: &str) {
        let Some(own) = self.of_workers.get_mut(&worker) else { return };
        self.total -= bytes_of(path);
        *own -= bytes_of(path);
        if *own == 0 {
            self.of_workers.remove(&worker);
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.total == 0 && self.of_workers.is_empty()
    }
}

fn bytes_of(path: &str) -> usize {
    WATCH_BYTES + path.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds watches of a path until one is refused. Returns their number.
    fn fill(account: &mut PathAccount, worker: ServerId, standing: Standing, path: &str) -> usize {
        let mut add = |_: &usize| {
            let is_permitted = account.permits(worker, standing, path);
            if is_permitted {
                account.add(worker, path);
            }
            !is_permitted
        };
        (0..).find(&mut add).expect("it ends")
    }

    /// The attack: many clients watch directories with the longest paths, as many as each may.
    #[test]
    fn clients_that_watch_long_paths_take_bounded_memory_and_leave_some_to_others() {
        let mut account = PathAccount::default();
        let (long, short) = ("n".repeat(4_000), "srv/alice/documents");
        for pid in 0..512 {
            let standing = if pid % 2 == 0 { Standing::User } else { Standing::Guest };
            fill(&mut account, ServerId { pid, unique_id: 0 }, standing, &long);
        }
        assert!(account.total <= BYTES_MAX);
        let alone = fill(&mut PathAccount::default(), ServerId::default(), Standing::User, &long);
        assert!(alone > 2_500, "{alone}");
        let guest = fill(&mut PathAccount::default(), ServerId::default(), Standing::Guest, &long);
        assert!((600..alone).contains(&guest), "{guest}");
        let mut guests = PathAccount::default();
        for pid in 1..=512 {
            fill(&mut guests, ServerId { pid, unique_id: 0 }, Standing::Guest, &long);
        }
        let user = fill(&mut guests, ServerId::default(), Standing::User, short);
        assert!(user > 2_000, "{user} beside any number of guests");
    }
}
