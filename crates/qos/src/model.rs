//! Model of a slow storage device, for tests: it serves a number of operations at once, each for
//! the same time, and queues the others.

use std::sync::atomic::{AtomicU64, Ordering};

/// Highest number of operations served at once.
pub const SERVERS_MAX: usize = 64;

/// A slow device in memory that all workers share.
#[derive(Debug)]
#[repr(C)]
pub struct SlowStorage {
    /// Times at which each server is free.
    free: [AtomicU64; SERVERS_MAX],
}

impl Default for SlowStorage {
    fn default() -> Self {
        Self { free: std::array::from_fn(|_| AtomicU64::new(0)) }
    }
}

impl SlowStorage {
    /// Returns the time at which an operation that arrives at `now` is done, with `servers` in
    /// parallel and `service_ns` nanoseconds for each.
    pub fn serve(&self, servers: usize, service_ns: u64, now: u64) -> u64 {
        let servers = &self.free[..servers.clamp(1, SERVERS_MAX)];
        loop {
            let of = |server: &AtomicU64| server.load(Ordering::Acquire);
            let (free, server) =
                servers.iter().map(|it| (of(it), it)).min_by_key(|it| it.0).expect("there is one");
            let done = free.max(now).saturating_add(service_ns);
            if server.compare_exchange(free, done, Ordering::AcqRel, Ordering::Acquire).is_ok() {
                return done;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::SlowStorage;

    #[test]
    fn so_many_are_served_at_once_and_others_wait() {
        let storage = SlowStorage::default();
        let done: Vec<u64> = (0..5).map(|_| storage.serve(2, 10, 100)).collect();
        assert_eq!(done, [110, 110, 120, 120, 130]);
        assert_eq!(storage.serve(2, 10, 200), 210);
    }
}
