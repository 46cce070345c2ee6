//! Buffers for answers to READ, used again.
//!
//! An allocator gives the memory of a large buffer back to the kernel when it is freed, and gets it
//! again page by page: on a machine that reads a file from its page cache, that costs more than the
//! read itself.

use std::time::Duration;

use bytes::BytesMut;

/// Capacity that is kept, in bytes: sixteen answers of 1 MiB under way and their headers.
const POOL_BYTES_MAX: usize = 20 * 1024 * 1024;

/// Buffers below this are left to the allocator, which keeps those itself.
const BUFFER_BYTES_MIN: usize = 16 * 1024;

/// How long an idle client's buffers are kept.
const IDLE_TIMEOUT: Duration = Duration::from_secs(2);

/// Buffers that nobody uses at the moment.
#[derive(Debug, Default)]
pub struct BufferPool {
    buffers: Vec<BytesMut>,
    bytes: usize,
    /// Nothing was taken or given since.
    idle_since: Duration,
}

impl BufferPool {
    /// An empty buffer of at least this capacity.
    pub fn take(&mut self, capacity: usize, now: Duration) -> BytesMut {
        self.idle_since = now;
        // The last one given is the one whose memory is still in the processor's cache.
        let fits = self.buffers.iter().rposition(|buffer| buffer.capacity() >= capacity);
        let Some(position) = fits else { return BytesMut::with_capacity(capacity) };
        let buffer = self.buffers.swap_remove(position);
        self.bytes -= buffer.capacity();
        buffer
    }

    /// Takes a buffer back, whatever is in it. One that is too small, or for which there is no
    /// room, is freed.
    pub fn give(&mut self, mut buffer: BytesMut, now: Duration) {
        self.idle_since = now;
        buffer.clear();
        // What was cut off the front belongs to the buffer again. If nothing was, there is nothing
        // to reclaim.
        let _ = buffer.try_reclaim(buffer.capacity() + 1);
        let capacity = buffer.capacity();
        if capacity >= BUFFER_BYTES_MIN && self.bytes + capacity <= POOL_BYTES_MAX {
            self.bytes += capacity;
            self.buffers.push(buffer);
        }
    }

    /// When [`BufferPool::forget_idle`] has something to do.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Duration> {
        (!self.buffers.is_empty()).then(|| self.idle_since + IDLE_TIMEOUT)
    }

    /// Frees everything if nothing was used for a while.
    pub fn forget_idle(&mut self, now: Duration) {
        if self.idle_since + IDLE_TIMEOUT <= now {
            self.buffers = Vec::new();
            self.bytes = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Buf;

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
