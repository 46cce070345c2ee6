//! Ranges of bytes, and what locks them.

use crate::open::OpenId;

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
    /// The file, the open or the client has its limit of locks: see [`crate::lock_list`].
    TooMany,
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
