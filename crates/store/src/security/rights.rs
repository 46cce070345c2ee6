//! Rights of POSIX, and the NT rights that everyone and owners have by them.

use dtyp::AccessMask;

/// Rights of every user who can look up an object.
pub(crate) const EVERYONE: AccessMask = AccessMask::READ_CONTROL
    .union(AccessMask::READ_ATTRIBUTES)
    .union(AccessMask::READ_EA)
    .union(AccessMask::SYNCHRONIZE);

/// Rights that an owner always has. WRITE_OWNER is among them because clients that ask for "full
/// control" of their own files would be refused without it; the kernel still refuses to give a file
/// away.
pub(crate) const OWNER: AccessMask = AccessMask::READ_CONTROL
    .union(AccessMask::WRITE_DAC)
    .union(AccessMask::WRITE_OWNER)
    .union(AccessMask::WRITE_ATTRIBUTES);

pub(crate) const READ: u16 = 4;
pub(crate) const WRITE: u16 = 2;
pub(crate) const EXECUTE: u16 = 1;
