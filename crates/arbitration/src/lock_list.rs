//! Byte-range locks of one file: [MS-FSA] 2.1.4.10, 2.1.5.8, 2.1.5.9.

mod ordered;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use crate::byte_range::{ByteRange, ByteRangeLock, LockError, RangeAccess};
use crate::open::OpenId;
use crate::standing::Standing;
use ordered::OrderedLocks;

/// Highest number of locks of a file. Further ones are refused: no known client holds more, and
/// each change of the file's record reads and writes all of them.
pub const LOCKS_MAX: usize = 8_192;

/// Highest number of locks of one open.
pub const LOCKS_OF_OPEN_MAX: usize = 1_024;

/// Number of equal parts of the locks left by other clients; a client may hold one part.
const LOCK_PARTS: usize = 4;

/// The locks of one file.
///
/// Exclusive locks never overlap each other. A shared lock may overlap other shared locks, and an
/// exclusive one of the same open. Each kind is ordered, so a conflict is found in a few steps.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct LockList {
    exclusive: OrderedLocks,
    shared: OrderedLocks,
}

impl FromIterator<ByteRangeLock> for LockList {
    /// Makes a list of locks that come from [`LockList::iter`].
    fn from_iter<I: IntoIterator<Item = ByteRangeLock>>(locks: I) -> Self {
        let mut list = Self::default();
        list.add(locks);
        list
    }
}

impl LockList {
    /// True if the file has no lock.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of locks of the file.
    #[must_use]
    pub fn len(&self) -> usize {
        self.exclusive.as_slice().len() + self.shared.as_slice().len()
    }

    /// True if a stream has a lock.
    #[must_use]
    pub fn is_locked(&self, stream: u64) -> bool {
        self.iter().any(|lock| lock.stream == stream)
    }

    /// True if a stream has a lock that begins before this offset: [MS-FSA] 2.1.5.18.1 grants no
    /// caching of reads then, but beside locks of bytes that do not exist.
    #[must_use]
    pub fn is_locked_below(&self, stream: u64, offset: u64) -> bool {
        self.iter().any(|lock| lock.stream == stream && lock.range.offset < offset)
    }

    /// Returns all locks: the exclusive ones first, each kind by offset.
    pub fn iter(&self) -> impl Iterator<Item = &ByteRangeLock> {
        self.exclusive.as_slice().iter().chain(self.shared.as_slice())
    }

    fn add(&mut self, locks: impl IntoIterator<Item = ByteRangeLock>) {
        let (exclusive, shared): (Vec<_>, Vec<_>) = locks.into_iter().partition(|it| it.exclusive);
        for (list, locks) in [(&mut self.exclusive, exclusive), (&mut self.shared, shared)] {
            if !locks.is_empty() {
                list.add(locks);
            }
        }
    }

    /// Gives the locks of one open to another.
    pub(crate) fn hand_over(&mut self, from: OpenId, to: OpenId) {
        self.exclusive.hand_over(from, to);
        self.shared.hand_over(from, to);
    }

    /// True if a lock blocks a READ or WRITE: [MS-FSA] 2.1.4.10. A shared lock blocks all writes,
    /// its owner's included; an exclusive one everything except its owner's access.
    #[must_use]
    pub fn blocks(&self, access: RangeAccess) -> bool {
        let RangeAccess { open, stream, range, writes } = access;
        // An access to no bytes meets no lock, even where an empty lock would.
        if range.length == 0 {
            return false;
        }
        (writes && self.shared.overlaps(stream, range))
            || self.exclusive.overlapping(stream, range).any(|lock| lock.open != open)
    }

    /// True if a lock conflicts with `wanted`. An exclusive lock excludes all others, its owner's
    /// included; but its owner may add a shared lock of the same bytes.
    fn conflicts_with(&self, wanted: &ByteRangeLock) -> bool {
        let ByteRangeLock { open, stream, range, exclusive } = *wanted;
        match exclusive {
            true => self.exclusive.overlaps(stream, range) || self.shared.overlaps(stream, range),
            false => self.exclusive.overlapping(stream, range).any(|lock| lock.open != open),
        }
    }

    /// Acquires all locks of one request, or none of them: [MS-FSA] 2.1.5.8.
    ///
    /// # Errors
    /// One of them conflicts, is invalid, or exceeds a limit.
    pub fn acquire(
        &mut self,
        wanted: &[ByteRangeLock],
        standing: Standing,
    ) -> Result<(), LockError> {
        let mut taken = Self::default();
        for lock in wanted {
            if !lock.range.is_valid() {
                return Err(LockError::RangeTooLong);
            }
            if self.conflicts_with(lock) || taken.conflicts_with(lock) {
                return Err(LockError::Conflict);
            }
            taken.add([*lock]);
        }
        if !self.permits(wanted, standing) {
            return Err(LockError::TooManyLocks);
        }
        self.add(wanted.iter().copied());
        Ok(())
    }

    /// Restores locks that survived the server, without the limits of opens and clients. A conflict
    /// would be a contradiction in the table; the first lock stays.
    pub(crate) fn restore(&mut self, kept: &Self) {
        for lock in kept.iter().take(LOCKS_MAX.saturating_sub(self.len())) {
            if lock.range.is_valid() && !self.conflicts_with(lock) {
                self.add([*lock]);
            }
        }
    }

    fn permits(&self, wanted: &[ByteRangeLock], standing: Standing) -> bool {
        let Some(open) = wanted.first().map(|it| it.open) else { return true };
        let of_open = self.iter().filter(|it| it.open == open).count();
        let own = self.iter().filter(|it| it.open.worker == open.worker).count();
        let counts = (self.len() - own, own, wanted.len());
        of_open + wanted.len() <= LOCKS_OF_OPEN_MAX
            && standing.permits((LOCKS_MAX, LOCK_PARTS), counts)
    }

    /// Releases locks of `open` one after the other, by their exact ranges and an exclusive one
    /// before a shared one. A failure leaves earlier ones released.
    ///
    /// # Errors
    /// No lock has that range, or the range ends beyond 64 bits.
    pub fn release(
        &mut self,
        open: OpenId,
        stream: u64,
        mut ranges: impl Iterator<Item = ByteRange>,
    ) -> Result<(), LockError> {
        let (mut exclusive, mut shared) = (BTreeSet::new(), BTreeSet::new());
        let result = ranges.try_for_each(|range| {
            if !range.is_valid() {
                return Err(LockError::RangeTooLong);
            }
            if let Some(at) = self.exclusive.find(open, stream, range, &exclusive) {
                exclusive.insert(at);
            } else {
                let at = self.shared.find(open, stream, range, &shared);
                shared.insert(at.ok_or(LockError::NotLocked)?);
            }
            Ok(())
        });
        self.exclusive.remove(&exclusive);
        self.shared.remove(&shared);
        result
    }

    /// Removes exactly these locks, each once, as far as they are there.
    pub(crate) fn withdraw(&mut self, locks: &[ByteRangeLock]) {
        for exclusive in [true, false] {
            let list = if exclusive { &mut self.exclusive } else { &mut self.shared };
            let mut places = BTreeSet::new();
            for lock in locks.iter().filter(|it| it.exclusive == exclusive) {
                places.extend(list.find(lock.open, lock.stream, lock.range, &places));
            }
            list.remove(&places);
        }
    }

    /// Removes the locks that no open of the list holds.
    pub(crate) fn retain_of(&mut self, is_there: impl Fn(OpenId) -> bool) {
        self.exclusive.retain(|lock| is_there(lock.open));
        self.shared.retain(|lock| is_there(lock.open));
    }

    /// Releases all locks of an open.
    pub fn release_all(&mut self, open: OpenId) {
        self.exclusive.retain(|lock| lock.open != open);
        self.shared.retain(|lock| lock.open != open);
    }
}
