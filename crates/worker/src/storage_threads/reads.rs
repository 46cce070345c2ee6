//! READs for a storage thread, and their memory.
//!
//! The buffers of READs that hang must not use up what a client may have queued: its connections
//! would no longer be served. So a thread gets READs of a few megabytes at once, and further ones
//! wait without a buffer.

use std::collections::VecDeque;

use bytes::BytesMut;
use object::{ObjectOp, UserId};
use proto::ConnectionId;

/// Bytes of READs that a thread works on at once; a single READ may have more. Enough for a
/// gigabit and 60 ms.
const READ_BYTES_MAX: usize = 8 << 20;

/// Part of what requests may hold on threads that the buffers of READs may take.
const READS_PART: usize = 8;

/// A READ for a storage thread.
#[derive(Debug)]
pub(crate) struct WaitingRead {
    /// Number of the operation for the worker.
    pub(crate) slot: usize,
    pub(crate) user: UserId,
    pub(crate) op: ObjectOp,
    /// Length of the READ in bytes.
    pub(crate) length: usize,
    pub(crate) connection: Option<ConnectionId>,
}

/// The READs of a thread.
#[derive(Debug)]
pub(super) struct Reads {
    /// Bytes of READs that the thread works on at once.
    max: usize,
    /// Bytes of READs that the thread has.
    under_way: usize,
    waiting: VecDeque<WaitingRead>,
}

impl Default for Reads {
    fn default() -> Self {
        Self { max: READ_BYTES_MAX, under_way: 0, waiting: VecDeque::new() }
    }
}

impl Reads {
    /// Sets the bytes that all requests of the client may hold on threads. READs have an
    /// eighth: the rest is for WRITEs that wait, and for those that the client has credits for.
    pub(super) fn set_held_max(&mut self, held_max: usize) {
        self.max = (held_max / READS_PART).min(READ_BYTES_MAX);
    }

    /// Takes back a READ that waits. Returns whether it did.
    pub(super) fn withdraw(&mut self, slot: usize) -> bool {
        let place = self.waiting.iter().position(|it| it.slot == slot);
        place.and_then(|place| self.waiting.remove(place)).is_some()
    }

    /// Takes back the last READ that waits, and returns its number.
    pub(super) fn withdraw_last(&mut self) -> Option<usize> {
        self.waiting.pop_back().map(|it| it.slot)
    }

    /// Returns a READ that may begin, or keeps it for later.
    pub(super) fn admit(&mut self, mut read: WaitingRead) -> Option<WaitingRead> {
        if self.waiting.is_empty() && self.fits(read.length) {
            self.under_way += read.length;
            return Some(read);
        }
        if let ObjectOp::Read { buffer, .. } = &mut read.op {
            *buffer = BytesMut::from(&buffer[..]);
        }
        self.waiting.push_back(read);
        None
    }

    /// Gives the bytes of a READ back that has ended.
    pub(super) fn end(&mut self, length: usize) {
        self.under_way -= length;
    }

    /// Takes the next READ that may begin, with a buffer for its data.
    pub(super) fn next(&mut self) -> Option<WaitingRead> {
        let length = self.waiting.front()?.length;
        if !self.fits(length) {
            return None;
        }
        self.under_way += length;
        let mut read = self.waiting.pop_front()?;
        if let ObjectOp::Read { buffer, .. } = &mut read.op {
            buffer.reserve(length);
        }
        Some(read)
    }

    fn fits(&self, length: usize) -> bool {
        self.under_way == 0 || self.under_way + length <= self.max
    }
}

#[cfg(test)]
mod tests {
    use object::LocalOpen;

    use super::*;

    fn read(slot: usize, length: usize) -> WaitingRead {
        let open = LocalOpen { index: 0, generation: 0 };
        let mut buffer = BytesMut::with_capacity(length + 4);
        buffer.extend_from_slice(b"head");
        let length_wanted = u32::try_from(length).expect("a few megabytes");
        let op = ObjectOp::Read {
            open,
            offset: 0,
            length: length_wanted,
            buffer,
            may_pipe: false,
            verify_locks: false,
        };
        WaitingRead { slot, user: UserId(0), op, length, connection: None }
    }

    fn buffer(read: &WaitingRead) -> &BytesMut {
        let ObjectOp::Read { buffer, .. } = &read.op else { panic!("nothing else is made here") };
        buffer
    }

    #[test]
    fn reads_beyond_the_limit_wait_without_a_buffer_and_in_their_order() {
        let mut reads = Reads::default();
        assert!(reads.admit(read(0, READ_BYTES_MAX + 1)).is_some(), "one always fits");
        for slot in 1..4 {
            assert!(reads.admit(read(slot, READ_BYTES_MAX / 2)).is_none());
        }
        assert!(reads.waiting.iter().all(|it| buffer(it).capacity() < 100));
        assert!(reads.next().is_none());
        reads.end(READ_BYTES_MAX + 1);
        for slot in [1, 2] {
            let next = reads.next().expect("there is room");
            assert_eq!((next.slot, &buffer(&next)[..]), (slot, &b"head"[..]));
            assert!(buffer(&next).capacity() - 4 >= READ_BYTES_MAX / 2);
        }
        assert!(reads.next().is_none());
        assert!(reads.admit(read(4, 1)).is_none(), "earlier ones first");
        reads.end(READ_BYTES_MAX / 2);
        assert_eq!([reads.next(), reads.next()].map(|it| it.map(|it| it.slot)), [Some(3), None]);
    }
}
