//! Buffers for responses to READ, kept for the next ones.
//!
//! An allocator gives the memory of a large buffer back to the kernel when it is freed, and gets it
//! again page by page: on a machine that reads a file from its page cache, that costs more than the
//! read itself.

use std::time::Duration;

use bytes::BytesMut;

/// Capacity to keep, in bytes: sixteen pending responses of 1 MiB, and their headers.
const POOL_BYTES_MAX: usize = 20 * 1024 * 1024;

/// Capacity of the smallest buffer of `buffers`.
const BUFFER_BYTES_MIN: usize = 16 * 1024;

/// Capacity of new buffers of `small`: for READs of 4 KiB, the most frequent length of small ones.
/// The allocator has longer ways for these than for less.
const SMALL_BYTES: usize = 8 * 1024;

/// Highest number of small buffers to keep.
const SMALL_COUNT_MAX: usize = 32;

/// Time without use after which all buffers are freed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(2);

/// Buffers that are not in use.
#[derive(Debug, Default)]
pub struct BufferPool {
    buffers: Vec<BytesMut>,
    bytes: usize,
    small: Vec<BytesMut>,
    /// Time of the last call of `take` or `give`.
    idle_since: Duration,
}

impl BufferPool {
    /// Returns an empty buffer of at least this capacity.
    pub fn take(&mut self, capacity: usize, now: Duration) -> BytesMut {
        self.idle_since = now;
        if !(SMALL_BYTES / 4..=SMALL_BYTES).contains(&capacity) {
            return self.take_other(capacity);
        }
        let mut buffer = self.small.pop().unwrap_or_else(|| BytesMut::with_capacity(SMALL_BYTES));
        // Makes bytes that were split off the front part of it again, if it needs them.
        buffer.reserve(capacity);
        buffer
    }

    fn take_other(&mut self, capacity: usize) -> BytesMut {
        // The last buffer given is most likely still in the processor's cache.
        let fits = self.buffers.iter().rposition(|buffer| buffer.capacity() >= capacity);
        let Some(position) = fits else { return BytesMut::with_capacity(capacity) };
        let buffer = self.buffers.swap_remove(position);
        self.bytes -= buffer.capacity();
        buffer
    }

    /// Takes a buffer back and empties it, of which nothing but headers may be missing at the front
    /// ([`BytesMut::try_reclaim`]). Frees it if its capacity is none to keep, or beyond
    /// `POOL_BYTES_MAX` or `SMALL_COUNT_MAX`.
    pub fn give(&mut self, mut buffer: BytesMut, now: Duration) {
        self.idle_since = now;
        buffer.clear();
        let capacity = buffer.capacity();
        // The headers of one of these do not make it long enough to keep.
        if capacity < SMALL_BYTES / 4 {
            return;
        }
        // `take` makes room at the front again, if it needs that. A large buffer has lost no more
        // than its headers there.
        if capacity <= SMALL_BYTES {
            if self.small.len() < SMALL_COUNT_MAX {
                self.small.push(buffer);
            }
            return;
        }
        // Bytes split off the front become part of the buffer again. Failing means that there were
        // none.
        let _ = buffer.try_reclaim(capacity + 1);
        let capacity = buffer.capacity();
        if capacity >= BUFFER_BYTES_MIN && self.bytes + capacity <= POOL_BYTES_MAX {
            self.bytes += capacity;
            self.buffers.push(buffer);
        }
    }

    /// Returns the time for the next [`BufferPool::forget_idle`].
    #[must_use]
    pub fn next_timeout(&self) -> Option<Duration> {
        let is_empty = self.buffers.is_empty() && self.small.is_empty();
        (!is_empty).then(|| self.idle_since + IDLE_TIMEOUT)
    }

    /// Frees all buffers after `IDLE_TIMEOUT` without use.
    pub fn forget_idle(&mut self, now: Duration) {
        if self.idle_since + IDLE_TIMEOUT <= now {
            *self = Self { idle_since: self.idle_since, ..Self::default() };
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
    fn a_large_buffer_comes_back_without_its_headers() {
        for sent in [0, 52, 120] {
            let mut pool = BufferPool::default();
            let mut buffer = pool.take(65_536, Duration::ZERO);
            buffer.resize(65_536, 7);
            let memory = buffer.as_ptr().addr();
            buffer.advance(sent);
            pool.give(buffer, Duration::ZERO);
            assert_eq!(pool.buffers.len(), 1);
            let buffer = pool.take(65_536, Duration::ZERO);
            assert_eq!((buffer.len(), buffer.as_ptr().addr()), (0, memory), "{sent}");
        }
    }

    #[test]
    fn a_small_buffer_comes_back_to_reads_of_4_kib() {
        let mut pool = BufferPool::default();
        pool.give(BytesMut::with_capacity(SMALL_BYTES), Duration::ZERO);
        let first = pool.small[0].as_ptr().addr();
        for _ in 0..200 {
            let mut buffer = pool.take(4_232, Duration::ZERO);
            assert!(buffer.is_empty() && buffer.capacity() >= 4_232);
            assert!((first..first + SMALL_BYTES).contains(&buffer.as_ptr().addr()));
            buffer.resize(4_232, 7);
            buffer.advance(52);
            pool.give(buffer, Duration::ZERO);
        }
    }

    #[test]
    fn kept_buffers_are_bounded() {
        let mut pool = BufferPool::default();
        for _ in 0..100 {
            pool.give(BytesMut::with_capacity(SMALL_BYTES), Duration::ZERO);
        }
        assert!(pool.small.len() <= SMALL_COUNT_MAX && pool.buffers.is_empty());
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
