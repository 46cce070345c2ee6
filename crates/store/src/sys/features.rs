//! Features in which file systems differ.
//!
//! The kernel has no query for them that leaves files unchanged, so the number of the file system
//! decides. Features of unknown file systems are not promised to clients; if a client uses one all
//! the same, the kernel decides.

use std::os::fd::BorrowedFd;

use crate::sys::system;

/// Optional features of a file system.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Features {
    /// Files can share storage (reflinks).
    pub(crate) shares_extents: bool,
    /// Files can be compressed one by one.
    pub(crate) compresses: bool,
    /// Storage of a part of a file can be given back.
    pub(crate) trims: bool,
}

/// Numbers of file systems in statfs(2).
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

/// Returns whether the file system of an object is ext4, or an older one of its family.
pub(crate) fn is_ext4(object: BorrowedFd<'_>) -> bool {
    system::file_system_number(object) == Some(EXT4)
}
