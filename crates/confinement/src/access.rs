//! Rights of Landlock on files, as sets of bits: `LANDLOCK_ACCESS_FS_*` of linux/landlock.h.

use crate::landlock;

pub(crate) const EXECUTE: u64 = 1;
pub(crate) const WRITE_FILE: u64 = 1 << 1;
pub(crate) const READ_FILE: u64 = 1 << 2;
pub(crate) const READ_DIR: u64 = 1 << 3;
pub(crate) const REMOVE_DIR: u64 = 1 << 4;
pub(crate) const REMOVE_FILE: u64 = 1 << 5;
#[cfg(test)]
pub(crate) const MAKE_CHAR: u64 = 1 << 6;
pub(crate) const MAKE_DIR: u64 = 1 << 7;
pub(crate) const MAKE_REG: u64 = 1 << 8;
pub(crate) const MAKE_SOCK: u64 = 1 << 9;
pub(crate) const MAKE_FIFO: u64 = 1 << 10;
#[cfg(test)]
pub(crate) const MAKE_BLOCK: u64 = 1 << 11;
pub(crate) const MAKE_SYM: u64 = 1 << 12;
pub(crate) const REFER: u64 = 1 << 13;
pub(crate) const TRUNCATE: u64 = 1 << 14;
pub(crate) const IOCTL_DEV: u64 = 1 << 15;

/// Rights of the first version.
const FIRST: u64 = (1 << 13) - 1;

/// Rights that a file can have; the others are those of directories.
pub(crate) const OF_FILES: u64 = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV;

/// Files and directories are read.
pub(crate) const READ: u64 = READ_FILE | READ_DIR;

/// Files are read and written where they are.
pub(crate) const CHANGE: u64 = READ | WRITE_FILE | TRUNCATE;

/// Files of the server are made, replaced and removed, sockets and directories too.
pub(crate) const OWN: u64 =
    CHANGE | MAKE_REG | MAKE_DIR | MAKE_SOCK | REMOVE_FILE | REMOVE_DIR | REFER;

/// Everything but running programs, devices and their control. To rename a link, a socket or a
/// FIFO takes the right to make one, and local programs make them in shares.
pub(crate) const CONTENT: u64 = OWN | MAKE_SYM | MAKE_FIFO;

/// Returns all rights that a version of Landlock knows. Each is forbidden without a rule.
pub(crate) fn known(version: u32) -> u64 {
    let since = |first, right| if version >= first { right } else { 0 };
    FIRST
        | since(landlock::RENAMES, REFER)
        | since(landlock::TRUNCATION, TRUNCATE)
        | since(landlock::DEVICES, IOCTL_DEV)
}

#[cfg(test)]
mod tests {
    use super::{CONTENT, EXECUTE, IOCTL_DEV, MAKE_BLOCK, MAKE_CHAR, known};

    #[test]
    fn content_is_all_that_is_known_but_programs_and_devices() {
        let left = EXECUTE | MAKE_CHAR | MAKE_BLOCK | IOCTL_DEV;
        assert_eq!((CONTENT & left, CONTENT | left), (0, known(u32::MAX)));
        assert_eq!(known(1), 0x1fff, "the rights of Linux 5.13");
    }
}
