//! Buffers for responses to READ, kept for the next ones.
//!
//! An allocator gives the memory of a large buffer back to the kernel when it is freed, and gets it
//! again page by page: on a machine that reads a file from its page cache, that costs more than the
//! read itself.

use std::time::Duration;

use bytes::BytesMut;

/// Capacity to keep, in bytes: sixteen pending responses of 1 MiB, and their headers.
const POOL_BYTES_MAX: usize = 20 * 1024 * 1024;

/// Capacity of the smallest buffer to keep. The allocator itself keeps smaller ones.
const BUFFER_BYTES_MIN: usize = 16 * 1024;

/// Time without use after which all buffers are freed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(2);

/// Buffers that are not in use.
#[derive(Debug, Default)]
pub struct BufferPool {
    buffers: Vec<BytesMut>,
    bytes: usize,
    /// Time of the last call of `take` or `give`.
    idle_since: Duration,
}

impl BufferPool {
    /// Returns an empty buffer of at least this capacity.
    pub fn take(&mut self, capacity: usize, now: Duration) -> BytesMut {
        self.idle_since = now;
        // The last buffer given is most likely still in the processor's cache.
        let fits = self.buffers.iter().rposition(|buffer| buffer.capacity() >= capacity);
        let Some(position) = fits else { return BytesMut::with_capacity(capacity) };
        let buffer = self.buffers.swap_remove(position);
        self.bytes -= buffer.capacity();
        buffer
    }

    /// Takes a buffer back and empties it. Frees a small buffer, and any buffer beyond
    /// `POOL_BYTES_MAX`.
    pub fn give(&mut self, mut buffer: BytesMut, now: Duration) {
        self.idle_since = now;
        buffer.clear();
        // Bytes split off the front become part of the buffer again. Failing means that there were
        // none.
        let _ = buffer.try_reclaim(buffer.capacity() + 1);
        let capacity = buffer.capacity();
        if capacity >= BUFFER_BYTES_MIN && self.bytes + capacity <= POOL_BYTES_MAX {
            self.bytes += capacity;
            self.buffers.push(buffer);
        }
    }

    /// Returns the time for the next [`BufferPool::forget_idle`].
    #[must_use]
    pub fn next_timeout(&self) -> Option<Duration> {
        (!self.buffers.is_empty()).then(|| self.idle_since + IDLE_TIMEOUT)
    }

    /// Frees all buffers after `IDLE_TIMEOUT` without use.
    pub fn forget_idle(&mut self, now: Duration) {
        if self.idle_since + IDLE_TIMEOUT <= now {
            self.buffers = Vec::new();
            self.bytes = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Buf;

    use super::*;

    #[test]
    fn a_buffer_comes_back_with_its_whole_capacity() {
        let mut pool = BufferPool::default();
        let mut buffer = pool.take(100_000, Duration::ZERO);
        buffer.resize(100_000, 7);
        buffer.advance(52);
        let memory = buffer.as_ptr().addr() - 52;
        pool.give(buffer, Duration::ZERO);
        let buffer = pool.take(100_000, Duration::ZERO);
        assert_eq!((buffer.len(), buffer.as_ptr().addr()), (0, memory));
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut pool = BufferPool::default();
        for _ in 0..100 {
            pool.give(BytesMut::with_capacity(1 << 20), Duration::ZERO);
        }
        assert!(pool.bytes <= POOL_BYTES_MAX && pool.buffers.len() > 10);
    }

    #[test]
    fn an_idle_client_keeps_nothing() {
        let mut pool = BufferPool::default();
        pool.give(BytesMut::with_capacity(1 << 20), Duration::from_secs(5));
        let at = pool.next_timeout().expect("there is a buffer");
        pool.forget_idle(at - Duration::from_millis(1));
        assert!(pool.next_timeout().is_some());
        pool.forget_idle(at);
        assert_eq!(pool.next_timeout(), None);
    }
}
