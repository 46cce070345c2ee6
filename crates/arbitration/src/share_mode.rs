//! Share modes: [MS-FSA] 2.1.5.1.2, "Check for sharing conflicts". Called by `admission` for each
//! other open of the same stream, and for a rename or deletion by `FileRecord::conflicts`.

use dtyp::AccessMask;

/// Access of an open, and the access that it shares.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ShareMode {
    /// Rights that the open was granted.
    pub granted_access: AccessMask,
    /// True if others may open for reading.
    pub share_read: bool,
    /// True if others may open for writing.
    pub share_write: bool,
    /// True if others may open for deleting or renaming.
    pub share_delete: bool,
}

/// Rights that read data; an open with none of the rights below conflicts with no other.
const READING: AccessMask = AccessMask::READ_DATA.union(AccessMask::EXECUTE);
const WRITING: AccessMask = AccessMask::WRITE_DATA.union(AccessMask::APPEND_DATA);

impl ShareMode {
    fn reads(self) -> bool {
        self.granted_access.intersects(READING)
    }

    fn writes(self) -> bool {
        self.granted_access.intersects(WRITING)
    }

    fn deletes(self) -> bool {
        self.granted_access.contains(AccessMask::DELETE)
    }

    /// True if the open takes part in sharing at all.
    pub(crate) fn counts(self) -> bool {
        self.reads() || self.writes() || self.deletes()
    }

    /// True if the open has an access that `other` does not share.
    fn disturbs(self, other: Self) -> bool {
        (self.reads() && !other.share_read)
            || (self.writes() && !other.share_write)
            || (self.deletes() && !other.share_delete)
    }
}

/// True if two opens of a file exclude each other. Symmetric.
#[must_use]
pub fn conflict(one: ShareMode, other: ShareMode) -> bool {
    one.counts() && other.counts() && (one.disturbs(other) || other.disturbs(one))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{ShareMode, conflict};
    use dtyp::AccessMask;

    fn mode(access: AccessMask, shares: &str) -> ShareMode {
        ShareMode {
            granted_access: access,
            share_read: shares.contains('r'),
            share_write: shares.contains('w'),
            share_delete: shares.contains('d'),
        }
    }

    #[track_caller]
    fn check(one: (AccessMask, &str), other: (AccessMask, &str), want: bool) {
        assert_eq!(conflict(mode(one.0, one.1), mode(other.0, other.1)), want);
    }

    const READ: AccessMask = AccessMask::READ_DATA;
    const WRITE: AccessMask = AccessMask::WRITE_DATA;

    #[test]
    fn readers_that_share_reading_get_along() {
        check((READ, "r"), (READ, "r"), false);
        check((READ, ""), (READ, "r"), true);
    }

    #[test]
    fn a_writer_needs_everyone_to_share_writing() {
        check((WRITE, "rwd"), (READ, "r"), true);
        check((WRITE, "r"), (READ, "rw"), false);
    }

    #[test]
    fn an_open_for_attributes_disturbs_nobody() {
        check((AccessMask::READ_ATTRIBUTES, ""), (WRITE, ""), false);
    }

    #[test]
    fn deleting_needs_shared_deletion() {
        check((AccessMask::DELETE, "rwd"), (READ, "rw"), true);
        check((AccessMask::DELETE, "rwd"), (READ, "rwd"), false);
    }

    proptest! {
        #[test]
        fn conflict_is_symmetric(a: u32, b: u32, shares: [bool; 6]) {
            let one = ShareMode { granted_access: AccessMask::from_bits_retain(a),
                share_read: shares[0], share_write: shares[1], share_delete: shares[2] };
            let other = ShareMode { granted_access: AccessMask::from_bits_retain(b),
                share_read: shares[3], share_write: shares[4], share_delete: shares[5] };
            prop_assert_eq!(conflict(one, other), conflict(other, one));
        }
    }
}
