//! The directory of a share before it is served.

use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use rustix::fs::Statx;

use crate::sys::system;

/// The directory of a share, open and not served yet: the caller of the store can verify it first.
#[derive(Debug)]
pub struct Folder {
    pub(crate) fd: OwnedFd,
    pub(crate) status: Statx,
}

impl Folder {
    /// Returns the id of its owner, as of the open.
    #[must_use]
    pub fn owner(&self) -> u32 {
        self.status.stx_uid
    }

    /// Returns its device and its inode.
    #[must_use]
    pub fn identity(&self) -> (u64, u64) {
        let Statx { stx_dev_major, stx_dev_minor, stx_ino, .. } = self.status;
        (rustix::fs::makedev(stx_dev_major, stx_dev_minor), stx_ino)
    }

    /// Returns its path without symbolic links, as the kernel names it now. A file system that was
    /// unmounted meanwhile has another one, or none: the path need not lead here.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        path_of(self.fd.as_fd())
    }
}

impl AsFd for Folder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Returns the path of an open directory, as the kernel names it; empty without `/proc`.
pub(crate) fn path_of(directory: BorrowedFd<'_>) -> PathBuf {
    let path = rustix::fs::readlink(system::magic_path(directory), Vec::new());
    PathBuf::from(OsString::from_vec(path.unwrap_or_default().into_bytes()))
}
