//! What a user may do with an object: POSIX permissions as NT rights.
//!
//! This answers a client's questions early and exactly; the kernel still has the last word on each
//! system call, because the thread wears the user's credentials.

use std::os::fd::{AsFd, BorrowedFd};

use dtyp::AccessMask;
use rustix::fs::Statx;
use rustix::io::Errno;

use crate::credentials::Effective;
use crate::lookup::{Parent, Root};
use crate::metadata::is_directory;
use crate::system;

/// What everyone has who can reach an object.
pub(crate) const EVERYONE: AccessMask = AccessMask::READ_CONTROL
    .union(AccessMask::READ_ATTRIBUTES)
    .union(AccessMask::READ_EA)
    .union(AccessMask::SYNCHRONIZE);

/// What an owner has in any case. WRITE_OWNER is among them because clients that ask for "full
/// control" of their own files would be refused without it; the kernel still refuses to give a file away.
pub(crate) const OWNER: AccessMask = AccessMask::READ_CONTROL
    .union(AccessMask::WRITE_DAC)
    .union(AccessMask::WRITE_OWNER)
    .union(AccessMask::WRITE_ATTRIBUTES);

/// What changes something, and so is not granted on a share that is read only.
const CHANGES: AccessMask = AccessMask::WRITE_DATA
    .union(AccessMask::APPEND_DATA)
    .union(AccessMask::WRITE_EA)
    .union(AccessMask::WRITE_ATTRIBUTES)
    .union(AccessMask::DELETE_CHILD)
    .union(AccessMask::DELETE)
    .union(AccessMask::WRITE_DAC)
    .union(AccessMask::WRITE_OWNER);

/// Data of a file, which a pipe, socket, device or link of the host does not have for clients.
pub(crate) const DATA: AccessMask = AccessMask::READ_DATA
    .union(AccessMask::WRITE_DATA)
    .union(AccessMask::APPEND_DATA)
    .union(AccessMask::EXECUTE);

pub(crate) const READ: u16 = 4;
pub(crate) const WRITE: u16 = 2;
pub(crate) const EXECUTE: u16 = 1;

/// All rights that the user has on the object of `fd`.
pub(crate) fn maximal(
    root: &Root,
    user: Effective,
    fd: BorrowedFd<'_>,
    status: &Statx,
    parent: Option<&Parent>,
) -> AccessMask {
    let mut rights =
        if user.uid == 0 { AccessMask::FILE_ALL } else { judge(user, fd, status, parent) };
    if root.settings.read_only {
        rights.remove(CHANGES);
    }
    rights
}

fn judge(
    user: Effective,
    fd: BorrowedFd<'_>,
    status: &Statx,
    parent: Option<&Parent>,
) -> AccessMask {
    let directory = is_directory(status);
    let permissions = permissions(user, fd, status);
    let mut rights = EVERYONE;
    if permissions & READ != 0 {
        rights |= AccessMask::FILE_GENERIC_READ;
        if !directory {
            // The x bit is for programs of this host. Files created by clients have none, and a client
            // that can read a program can run it in any case.
            rights |= AccessMask::FILE_GENERIC_EXECUTE;
        }
    }
    if permissions & WRITE != 0 {
        rights |= AccessMask::FILE_GENERIC_WRITE;
        if directory {
            rights |= AccessMask::DELETE_CHILD;
        }
    }
    if permissions & EXECUTE != 0 {
        rights |= AccessMask::FILE_GENERIC_EXECUTE;
    }
    if status.stx_uid == user.uid {
        rights |= OWNER;
        if !directory && permissions & (READ | WRITE) == READ | WRITE {
            // Means nothing on a file, but is part of "full control".
            rights |= AccessMask::DELETE_CHILD;
        }
    }
    let deletable = match parent {
        Some(parent) => may_remove(user, status, parent),
        // The root of a share is never removed; the right is granted as for any directory.
        None => permissions & WRITE != 0,
    };
    rights.set(AccessMask::DELETE, deletable);
    rights
}

/// Removing a name is a change of its directory, in a sticky one reserved to the owners.
fn may_remove(user: Effective, status: &Statx, parent: &Parent) -> bool {
    let directory = &parent.status;
    let sticky = u32::from(directory.stx_mode) & libc::S_ISVTX != 0;
    if sticky && user.uid != status.stx_uid && user.uid != directory.stx_uid {
        return false;
    }
    let permissions = permissions(user, parent.directory.fd.as_fd(), directory);
    permissions & (WRITE | EXECUTE) == WRITE | EXECUTE
}

/// The rwx bits that hold for the user. The owner's are exact in the mode; for others the kernel is asked,
/// which knows about ACLs.
fn permissions(user: Effective, fd: BorrowedFd<'_>, status: &Statx) -> u16 {
    if user.uid == 0 {
        return READ | WRITE | EXECUTE;
    }
    if status.stx_uid == user.uid {
        return status.stx_mode >> 6 & 7;
    }
    match system::may_access(fd, libc::R_OK | libc::W_OK | libc::X_OK) {
        Ok(()) => return READ | WRITE | EXECUTE,
        // A kernel before 5.8. The mode says too little for members of supplementary groups.
        Err(Errno::NOSYS) if status.stx_gid == user.gid => return status.stx_mode >> 3 & 7,
        Err(Errno::NOSYS) => return status.stx_mode & 7,
        Err(_) => {}
    }
    let bits = [(READ, libc::R_OK), (WRITE, libc::W_OK), (EXECUTE, libc::X_OK)];
    let granted = bits.into_iter().filter(|(_, mode)| system::may_access(fd, *mode).is_ok());
    granted.fold(0, |all, (bit, _)| all | bit)
}
