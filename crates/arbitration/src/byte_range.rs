//! Ranges of bytes, and locks of them.

use crate::open::OpenId;

/// A range of bytes. May end beyond 2^63, and a length of zero lies between two bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ByteRange {
    /// Offset of the first byte.
    pub offset: u64,
    /// Number of bytes, or zero.
    pub length: u64,
}

/// A byte-range lock of an open.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ByteRangeLock {
    /// Open that holds the lock.
    pub open: OpenId,
    /// Id of the locked stream.
    pub stream: u64,
    /// Range of bytes that it covers.
    pub range: ByteRange,
    /// True if it also excludes reads of other opens.
    pub exclusive: bool,
}

/// A READ or WRITE to be checked against locks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RangeAccess {
    /// Open that it goes through.
    pub open: OpenId,
    /// Stream that it reads or writes.
    pub stream: u64,
    /// Range that it reads or writes.
    pub range: ByteRange,
    /// True for a WRITE, false for a READ.
    pub writes: bool,
}

/// Reason why a lock was not acquired or released.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LockError {
    /// Another lock conflicts with it.
    Conflict,
    /// No lock of this open has exactly this range.
    NotLocked,
    /// The last byte is beyond 2^64.
    RangeTooLong,
    /// The file, the open or the client has its limit of locks: see [`crate::lock_list`].
    TooManyLocks,
}

impl ByteRange {
    /// True if two ranges share a byte. An empty range overlaps one that has bytes on both sides of
    /// it, and no other empty one.
    #[must_use]
    pub fn overlaps(self, other: Self) -> bool {
        let (first, last) = if self.offset <= other.offset { (self, other) } else { (other, self) };
        let distance = last.offset - first.offset;
        match (first.length, last.length) {
            (0, 0) => false,
            // An empty range at the very start of another lies outside of it.
            (_, 0) => distance > 0 && distance < first.length,
            (0, _) => false,
            _ => distance < first.length,
        }
    }

    /// True if the offset of the last byte fits 64 bits.
    #[must_use]
    pub fn is_valid(self) -> bool {
        self.length == 0 || self.offset.checked_add(self.length - 1).is_some()
    }

    /// Returns the last byte; an empty range has none.
    pub(crate) fn last(self) -> Option<u64> {
        Some(self.offset.saturating_add(self.length.checked_sub(1)?))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::ByteRange;

    proptest! {
        /// Compares with a set of bytes, for ranges that are not empty.
        #[test]
        fn overlap_means_a_shared_byte(
            a in 0_u64..20,
            n in 1_u64..9,
            b in 0_u64..20,
            m in 1_u64..9,
        ) {
            let shared = (a..a + n).any(|byte| (b..b + m).contains(&byte));
            let one = ByteRange { offset: a, length: n };
            let other = ByteRange { offset: b, length: m };
            prop_assert_eq!(one.overlaps(other), shared);
            prop_assert_eq!(other.overlaps(one), shared);
        }
    }
}
