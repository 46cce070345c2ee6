//! Byte-range locks of one file: [MS-FSA] 2.1.4.10, 2.1.5.8, 2.1.5.9.

mod ordered;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use crate::byte_range::{ByteRange, ByteRangeLock, LockError, RangeAccess};
use crate::open::OpenId;
use crate::standing::Standing;
use ordered::OrderedLocks;

/// Locks that a file may have. Beyond it a lock is refused: no client is known to hold more, and the
/// list is read and written with the file's record.
pub const LOCKS_MAX: usize = 8_192;

/// Locks that one open may hold.
pub const LOCKS_OF_OPEN_MAX: usize = 1_024;

/// A client may hold one of so many parts of the locks that others have left of [`LOCKS_MAX`].
const LOCK_PARTS: usize = 4;

/// The locks of one file.
///
/// Exclusive locks never overlap each other, and of shared ones it only matters whether one is there:
/// so each kind by itself, in order, answers with a few steps whether a lock is in the way.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct LockList {
    exclusive: OrderedLocks,
    shared: OrderedLocks,
}

impl FromIterator<ByteRangeLock> for LockList {
    /// Returns the locks as [`LockList::iter`] gave them.
    fn from_iter<I: IntoIterator<Item = ByteRangeLock>>(locks: I) -> Self {
        let mut list = Self::default();
        list.add(locks);
        list
    }
}

impl LockList {
    /// Whether there is no lock.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Counts the locks.
    #[must_use]
    pub fn len(&self) -> usize {
        self.exclusive.as_slice().len() + self.shared.as_slice().len()
    }

    /// Whether a stream has a lock.
    #[must_use]
    pub fn is_locked(&self, stream: u64) -> bool {
        self.iter().any(|lock| lock.stream == stream)
    }

    /// All locks: the exclusive ones first, each kind by where it begins.
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

    /// Whether a READ or WRITE meets a lock: [MS-FSA] 2.1.4.10. A shared lock stops everyone's
    /// writes, its owner's included; an exclusive one everything but its owner's.
    #[must_use]
    pub fn blocks(&self, access: RangeAccess) -> bool {
        let RangeAccess { open, stream, range, writes } = access;
        // What touches no byte meets no lock, even where an empty lock would.
        if range.length == 0 {
            return false;
        }
        (writes && self.shared.overlaps(stream, range))
            || self.exclusive.overlapping(stream, range).any(|lock| lock.open != open)
    }

    /// Whether a lock would be in the way of `wanted`. An exclusive lock suffers no other beside it,
    /// its owner's included; but the owner of an exclusive lock may lock the same bytes shared on top
    /// of it.
    fn is_in_the_way_of(&self, wanted: &ByteRangeLock) -> bool {
        let ByteRangeLock { open, stream, range, exclusive } = *wanted;
        match exclusive {
            true => self.exclusive.overlaps(stream, range) || self.shared.overlaps(stream, range),
            false => self.exclusive.overlapping(stream, range).any(|lock| lock.open != open),
        }
    }

    /// Takes all of the locks, which are of one client, or none: [MS-FSA] 2.1.5.8.
    ///
    /// # Errors
    /// If one of them cannot be had.
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
            if self.is_in_the_way_of(lock) || taken.is_in_the_way_of(lock) {
                return Err(LockError::Conflict);
            }
            taken.add([*lock]);
        }
        if !self.has_room(wanted, standing) {
            return Err(LockError::TooMany);
        }
        self.add(wanted.iter().copied());
        Ok(())
    }

    /// Takes locks back that outlived the server, whoever holds them. One that is in the way of
    /// another would be a contradiction in what was kept; the first one stays.
    pub(crate) fn restore(&mut self, kept: &Self) {
        for lock in kept.iter().take(LOCKS_MAX.saturating_sub(self.len())) {
            if lock.range.is_valid() && !self.is_in_the_way_of(lock) {
                self.add([*lock]);
            }
        }
    }

    fn has_room(&self, wanted: &[ByteRangeLock], standing: Standing) -> bool {
        let Some(open) = wanted.first().map(|it| it.open) else { return true };
        let of_open = self.iter().filter(|it| it.open == open).count();
        let own = self.iter().filter(|it| it.open.server == open.server).count();
        let counts = (self.len() - own, own, wanted.len());
        of_open + wanted.len() <= LOCKS_OF_OPEN_MAX
            && standing.has_room((LOCKS_MAX, LOCK_PARTS), counts)
    }

    /// Releases locks of `open` one after the other, each of which has exactly that range, an exclusive
    /// one first; what was released before one fails stays so.
    ///
    /// # Errors
    /// If there is none, or the range cannot be one.
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

    /// Releases all locks of an open.
    pub fn release_all(&mut self, open: OpenId) {
        self.exclusive.retain(|lock| lock.open != open);
        self.shared.retain(|lock| lock.open != open);
    }
}
