//! Byte-range locks of one file: [MS-FSA] 2.1.4.10, 2.1.5.8, 2.1.5.9.

use crate::open::OpenId;

/// Locks that a file may have. Beyond it a lock is refused: no client is known to hold more, and
/// every READ and WRITE of a locked file walks the list.
pub const LOCKS_MAX: usize = 8_192;

/// A range of bytes. May end beyond 2^63, and a length of zero lies between two bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ByteRange {
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
}

/// A lock that is held.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ByteRangeLock {
    /// The open that holds it.
    pub open: OpenId,
    /// The stream that is locked.
    pub stream: u64,
    /// What it covers.
    pub range: ByteRange,
    /// Nobody else may read, either.
    pub exclusive: bool,
}

/// A READ or WRITE that is about to happen.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RangeAccess {
    /// The open that it goes through.
    pub open: OpenId,
    /// The stream that is touched.
    pub stream: u64,
    /// What it touches.
    pub range: ByteRange,
    /// It writes.
    pub writes: bool,
}

/// Why a lock was not taken or released.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LockError {
    /// Another lock is in the way.
    Conflict,
    /// No lock of this open has exactly this range.
    NotLocked,
    /// The range ends beyond what 64 bits can say.
    RangeTooLong,
    /// There are [`LOCKS_MAX`] already.
    TooMany,
}

/// The locks of one file.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct LockList {
    locks: Vec<ByteRangeLock>,
}

impl ByteRange {
    /// Whether two ranges share a byte. An empty range overlaps one that has bytes on both sides
    /// of it, and no other empty one.
    #[must_use]
    pub fn overlaps(self, other: Self) -> bool {
        let (first, last) = if self.offset <= other.offset { (self, other) } else { (other, self) };
        let distance = last.offset - first.offset;
        match (first.length, last.length) {
            (0, 0) => false,
            // An empty range at the very start of another does not lie inside it.
            (_, 0) => distance > 0 && distance < first.length,
            (0, _) => false,
            _ => distance < first.length,
        }
    }

    /// Whether the last byte can be named by 64 bits.
    #[must_use]
    pub fn is_valid(self) -> bool {
        self.length == 0 || self.offset.checked_add(self.length - 1).is_some()
    }
}

impl LockList {
    /// Whether there is no lock.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.locks.is_empty()
    }

    /// Whether a stream has a lock.
    #[must_use]
    pub fn is_locked(&self, stream: u64) -> bool {
        self.locks.iter().any(|lock| lock.stream == stream)
    }

    /// All locks, in the order in which they were taken.
    #[must_use]
    pub fn as_slice(&self) -> &[ByteRangeLock] {
        &self.locks
    }

    /// The locks as [`LockList::as_slice`] gave them.
    #[must_use]
    pub fn from_locks(locks: Vec<ByteRangeLock>) -> Self {
        Self { locks }
    }

    /// Gives the locks of one open to another.
    pub(crate) fn hand_over(&mut self, from: OpenId, to: OpenId) {
        self.locks.iter_mut().filter(|lock| lock.open == from).for_each(|lock| lock.open = to);
    }

    /// Whether a READ or WRITE meets a lock: [MS-FSA] 2.1.4.10. A shared lock stops everyone's
    /// writes, its owner's included; an exclusive one everything but its owner's.
    #[must_use]
    pub fn blocks(&self, access: RangeAccess) -> bool {
        // What touches no byte meets no lock, even where an empty lock would.
        if access.range.length == 0 {
            return false;
        }
        self.locks
            .iter()
            .filter(|lock| lock.stream == access.stream && lock.range.overlaps(access.range))
            .any(|lock| if lock.exclusive { lock.open != access.open } else { access.writes })
    }

    /// Takes a lock: [MS-FSA] 2.1.5.8.
    ///
    /// # Errors
    /// If another is in the way. An exclusive lock suffers no other beside it, its owner's
    /// included; but the owner of an exclusive lock may lock the same bytes shared on top of it.
    pub fn acquire(&mut self, lock: ByteRangeLock) -> Result<(), LockError> {
        if !lock.range.is_valid() {
            return Err(LockError::RangeTooLong);
        }
        let in_the_way =
            |it: &&ByteRangeLock| it.stream == lock.stream && it.range.overlaps(lock.range);
        let mut overlapping = self.locks.iter().filter(in_the_way);
        if overlapping.any(|it| lock.exclusive || (it.exclusive && it.open != lock.open)) {
            return Err(LockError::Conflict);
        }
        if self.locks.len() >= LOCKS_MAX {
            return Err(LockError::TooMany);
        }
        self.locks.push(lock);
        Ok(())
    }

    /// Releases the lock of `open` that has exactly this range; an exclusive one first.
    ///
    /// # Errors
    /// If there is none, or the range cannot be one.
    pub fn release(&mut self, open: OpenId, range: ByteRange) -> Result<(), LockError> {
        if !range.is_valid() {
            return Err(LockError::RangeTooLong);
        }
        let of_open = |lock: &ByteRangeLock| lock.open == open && lock.range == range;
        let exclusive = self.locks.iter().position(|lock| of_open(lock) && lock.exclusive);
        let found = exclusive.or_else(|| self.locks.iter().position(of_open));
        self.locks.remove(found.ok_or(LockError::NotLocked)?);
        Ok(())
    }

    /// Gives a lock back that was just taken and is not wanted after all.
    pub fn undo(&mut self, lock: ByteRangeLock) {
        if let Some(last) = self.locks.iter().rposition(|it| *it == lock) {
            self.locks.remove(last);
        }
    }

    /// Releases all locks of an open.
    pub fn release_all(&mut self, open: OpenId) {
        self.locks.retain(|lock| lock.open != open);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{ByteRange, ByteRangeLock, LockError, LockList, RangeAccess};
    use crate::open::OpenId;

    fn id(number: u64) -> OpenId {
        OpenId { number, ..OpenId::default() }
    }

    fn lock(open: u64, offset: u64, length: u64, exclusive: bool) -> ByteRangeLock {
        ByteRangeLock { open: id(open), stream: 0, range: ByteRange { offset, length }, exclusive }
    }

    fn access(open: u64, offset: u64, length: u64, writes: bool) -> RangeAccess {
        RangeAccess { open: id(open), stream: 0, range: ByteRange { offset, length }, writes }
    }

    #[test]
    fn a_shared_lock_stops_its_owners_writes_but_nobodys_reads() {
        let mut list = LockList::default();
        list.acquire(lock(1, 0, 10, false)).expect("nothing is locked");
        assert!(list.blocks(access(1, 5, 1, true)));
        assert!(!list.blocks(access(2, 5, 1, false)));
        assert!(!list.blocks(access(1, 10, 1, true)));
    }

    #[test]
    fn an_exclusive_lock_leaves_its_owner_alone() {
        let mut list = LockList::default();
        list.acquire(lock(1, 0, 10, true)).expect("nothing is locked");
        assert!(!list.blocks(access(1, 0, 10, true)));
        assert!(list.blocks(access(2, 9, 1, false)));
    }

    #[test]
    fn exclusive_locks_do_not_stack_on_one_open() {
        let mut list = LockList::default();
        list.acquire(lock(1, 0, 10, true)).expect("nothing is locked");
        assert_eq!(list.acquire(lock(1, 0, 10, true)), Err(LockError::Conflict));
    }

    #[test]
    fn a_shared_lock_stacks_on_an_exclusive_one_of_the_same_open_alone() {
        let mut list = LockList::default();
        list.acquire(lock(1, 0, 10, true)).expect("nothing is locked");
        assert_eq!(list.acquire(lock(1, 0, 10, false)), Ok(()));
        assert_eq!(list.acquire(lock(2, 0, 10, false)), Err(LockError::Conflict));
        // The exclusive one goes first, and then others may lock shared.
        list.release(id(1), ByteRange { offset: 0, length: 10 }).expect("it is locked twice");
        assert_eq!(list.acquire(lock(2, 0, 10, false)), Ok(()));
    }

    #[test]
    fn an_exclusive_lock_does_not_stack_on_a_shared_one() {
        let mut list = LockList::default();
        list.acquire(lock(1, 0, 10, false)).expect("nothing is locked");
        assert_eq!(list.acquire(lock(1, 0, 10, true)), Err(LockError::Conflict));
    }

    #[test]
    fn an_access_to_no_bytes_meets_no_lock() {
        let mut list = LockList::default();
        list.acquire(lock(1, 0, 10, true)).expect("nothing is locked");
        assert!(!list.blocks(access(2, 5, 0, true)));
        assert!(list.blocks(access(2, 5, 1, true)));
    }

    #[test]
    fn an_empty_lock_conflicts_where_bytes_lie_on_both_sides_of_it() {
        let beside = [(10, 0), (9, 1), (10, 1), (11, 1), (10, 2)];
        let across = [(9, 2), (9, 3)];
        for (wanted, cases) in [(Ok(()), &beside[..]), (Err(LockError::Conflict), &across[..])] {
            for (offset, length) in cases.iter().copied() {
                let (empty, other) = (lock(1, 10, 0, true), lock(2, offset, length, true));
                for (first, second) in [(empty, other), (other, empty)] {
                    let mut list = LockList::default();
                    list.acquire(first).expect("nothing is locked");
                    assert_eq!(list.acquire(second), wanted, "{first:?} {second:?}");
                }
            }
        }
    }

    #[test]
    fn release_wants_the_exact_range() {
        let mut list = LockList::default();
        list.acquire(lock(1, 0, 10, false)).expect("nothing is locked");
        let part = ByteRange { offset: 0, length: 5 };
        assert_eq!(list.release(id(1), part), Err(LockError::NotLocked));
        assert_eq!(
            list.release(id(2), ByteRange { offset: 0, length: 10 }),
            Err(LockError::NotLocked)
        );
        assert_eq!(list.release(id(1), ByteRange { offset: 0, length: 10 }), Ok(()));
        assert!(list.is_empty());
    }

    #[test]
    fn a_range_may_reach_the_last_byte_and_no_further() {
        let mut list = LockList::default();
        assert_eq!(list.acquire(lock(1, u64::MAX, 1, true)), Ok(()));
        assert_eq!(list.acquire(lock(1, u64::MAX, 2, true)), Err(LockError::RangeTooLong));
        let range = ByteRange { offset: u64::MAX, length: 2 };
        assert_eq!(list.release(id(1), range), Err(LockError::RangeTooLong));
    }

    proptest! {
        /// Against a set of bytes, for ranges that have some.
        #[test]
        fn overlap_means_a_shared_byte(a in 0_u64..20, n in 1_u64..9, b in 0_u64..20, m in 1_u64..9) {
            let shared = (a..a + n).any(|byte| (b..b + m).contains(&byte));
            let (one, other) = (ByteRange { offset: a, length: n }, ByteRange { offset: b, length: m });
            prop_assert_eq!(one.overlaps(other), shared);
            prop_assert_eq!(other.overlaps(one), shared);
        }
    }
}
