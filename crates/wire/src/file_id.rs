//! SMB2_FILEID: [MS-SMB2] 2.2.14.1.

use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Identifies an open on its connection.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct FileId {
    /// Part that stays the same when a durable open is reconnected.
    pub persistent: u64,
    /// Part that is new on every connection.
    pub volatile: u64,
}

impl FileId {
    /// All ones: the open of the previous request of the compound in a related request, and no file
    /// in the FSCTLs that need none.
    pub const ANY: Self = Self { persistent: u64::MAX, volatile: u64::MAX };
}

/// Encoded form of a [`FileId`].
#[derive(Clone, Copy, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct FileIdLayout {
    persistent: U64,
    volatile: U64,
}

impl From<FileIdLayout> for FileId {
    fn from(layout: FileIdLayout) -> Self {
        Self { persistent: layout.persistent.get(), volatile: layout.volatile.get() }
    }
}

impl From<FileId> for FileIdLayout {
    fn from(id: FileId) -> Self {
        Self { persistent: id.persistent.into(), volatile: id.volatile.into() }
    }
}
