//! What the file system that holds an object can do, as far as it differs.
//!
//! There is no way to ask for this without changing a file, so it is known by the file system's
//! number. Whoever is not known is not promised to clients; asked all the same, the kernel decides.

use std::os::fd::BorrowedFd;

use crate::sys::system;

/// What a file system can do.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Features {
    /// Files can share storage.
    pub(crate) shares_extents: bool,
    /// Files can be compressed one by one.
    pub(crate) compresses: bool,
    /// Storage of a part of a file can be given back.
    pub(crate) trims: bool,
}

/// Numbers of statfs(2).
const BCACHEFS: u32 = 0xCA45_1A4E;
const BTRFS: u32 = 0x9123_683E;
const EXT4: u32 = 0x0000_EF53;
const F2FS: u32 = 0xF2F5_2010;
const TMPFS: u32 = 0x0102_1994;
const XFS: u32 = 0x5846_5342;

impl Features {
    /// Those of the file system of an object, opened in whatever way.
    pub(crate) fn of(object: BorrowedFd<'_>) -> Self {
        let none = Self::default();
        match system::file_system_number(object) {
            Some(BTRFS) => Self { shares_extents: true, compresses: true, trims: true },
            Some(BCACHEFS) => Self { shares_extents: true, trims: true, ..none },
            Some(XFS) => Self { shares_extents: system::xfs_reflinks(object), trims: true, ..none },
            Some(EXT4 | F2FS | TMPFS) => Self { trims: true, ..none },
            _ => none,
        }
    }
}
