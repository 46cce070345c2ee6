//! The part of a client's credits and memory that its requests for slow storage may take.
//!
//! A credit is the right to send 64 KiB, which the server keeps for as long as the storage hangs.
//! So requests that wait for a storage thread keep their credits, instead of returning them by
//! interim responses, once they hold a quarter of what may wait for the client. What they hold and
//! what the client can still send is never more than half of it: requests for other shares find
//! credits and memory, and nothing that waits has to be refused.

use std::cell::Cell;
use std::rc::Rc;

use qos::credits::FLOOR;

/// Part of what may wait for a client that requests for slow storage take freely. Beyond it they
/// keep their credits, and others return as many as they cost.
const CREDITS_PART: usize = 4;

/// Part of what may wait for a client that its last credits can add: see [`StorageLoad::reserve`].
const RESERVE_PART: usize = 8;

/// Data that one credit lets a client send, in bytes: [MS-SMB2] 3.1.5.2. The request itself takes
/// a few kilobytes more.
const CREDIT_BYTES: usize = 64 * 1024;

/// Memory of a client's requests that wait for storage threads. Clones share one sum.
#[derive(Clone, Debug, Default)]
pub struct StorageLoad(Rc<Sums>);

#[derive(Debug, Default)]
struct Sums {
    has_threads: Cell<bool>,
    bytes: Cell<usize>,
    connections: Cell<usize>,
}

impl StorageLoad {
    /// Sets whether the client has storage threads. Without any there is no limit.
    pub fn set_has_threads(&self, has_threads: bool) {
        self.0.has_threads.set(has_threads);
    }

    /// Sets the number of connections that share the credits.
    pub fn set_connections(&self, connections: usize) {
        self.0.connections.set(connections);
    }

    /// Adds bytes of a request that waits.
    pub fn hold(&self, bytes: usize) {
        self.0.bytes.set(self.0.bytes.get() + bytes);
    }

    /// Removes bytes of a request that has ended.
    pub fn release(&self, bytes: usize) {
        self.0.bytes.set(self.0.bytes.get() - bytes);
    }

    /// Returns the bytes of all requests that wait.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.bytes.get()
    }

    /// Returns whether the client's credits have a limit for its storage threads.
    #[must_use]
    #[inline]
    pub fn limits_credits(&self) -> bool {
        self.0.has_threads.get()
    }

    /// Returns whether requests for slow storage keep their credits now, and others return no more
    /// than they cost. `in_transit_max` bytes may wait for the client.
    #[must_use]
    pub fn is_full(&self, in_transit_max: usize) -> bool {
        let bytes = self.bytes();
        self.limits_credits() && bytes > 0 && bytes >= in_transit_max / CREDITS_PART
    }

    /// Returns the limit of a connection's credits. None without storage threads.
    #[must_use]
    pub fn credits(&self, in_transit_max: usize) -> Option<u32> {
        if !self.limits_credits() {
            return None;
        }
        let free = (in_transit_max / CREDITS_PART).saturating_sub(self.bytes());
        // Rounded up: a small request takes none of them.
        let credits = free.div_ceil(CREDIT_BYTES) / self.0.connections.get().max(1);
        Some(u32::try_from(credits).unwrap_or(u32::MAX).max(self.reserve(in_transit_max)))
    }

    /// Returns the credits that a connection keeps for other shares, however much waits.
    fn reserve(&self, in_transit_max: usize) -> u32 {
        let bytes = in_transit_max / RESERVE_PART;
        let credits = bytes / CREDIT_BYTES / self.0.connections.get().max(1);
        u32::try_from(credits).unwrap_or(u32::MAX).clamp(1, FLOOR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that may wait for a client with the default limit of its memory.
    const PASSING_MAX: usize = 128 << 20;

    fn load() -> StorageLoad {
        let load = StorageLoad::default();
        load.set_has_threads(true);
        load
    }

    #[test]
    fn a_client_without_storage_threads_has_no_limit() {
        let load = StorageLoad::default();
        assert_eq!((load.credits(PASSING_MAX), load.is_full(PASSING_MAX)), (None, false));
    }

    #[test]
    fn credits_fall_with_waiting_bytes_and_come_back() {
        let load = load();
        assert_eq!(load.credits(PASSING_MAX), Some(512));
        load.hold(16 << 20);
        assert_eq!(load.credits(PASSING_MAX), Some(256));
        load.hold(16 << 20);
        assert_eq!((load.credits(PASSING_MAX), load.is_full(PASSING_MAX)), (Some(FLOOR), true));
        load.release(1);
        assert!(!load.is_full(PASSING_MAX));
        load.release((32 << 20) - 1);
        assert_eq!((load.credits(PASSING_MAX), load.bytes()), (Some(512), 0));
    }

    #[test]
    fn connections_share_the_credits() {
        let load = load();
        load.set_connections(4);
        assert_eq!(load.credits(PASSING_MAX), Some(128));
        load.hold(32 << 20);
        assert_eq!(load.credits(PASSING_MAX), Some(64));
        load.set_connections(256);
        assert_eq!(load.credits(PASSING_MAX), Some(1));
    }

    #[test]
    fn waiting_bytes_and_credits_take_at_most_half_of_the_memory() {
        for in_transit_max in [2 << 20, 8 << 20, 24 << 20, PASSING_MAX, 1 << 40] {
            for connections in [1, 2, 4, 32] {
                let load = load();
                load.set_connections(connections);
                while !load.is_full(in_transit_max) {
                    let credits = load.credits(in_transit_max).expect("there are threads");
                    let credits = usize::try_from(credits).expect("a number");
                    // A client always has its last credit.
                    let request_bytes = CREDIT_BYTES + 4 * 1024;
                    let sendable = credits * connections * request_bytes;
                    let least = connections * request_bytes;
                    let bytes = load.bytes() + sendable.max(least) - least;
                    assert!(bytes <= in_transit_max / 2, "{bytes} of {in_transit_max}");
                    load.hold(in_transit_max / 64);
                }
            }
        }
    }

    #[test]
    fn a_client_with_nothing_waiting_is_never_full() {
        assert!(!load().is_full(0));
    }
}
