//! A folder to watch, found by its path and known by its inode.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use object::FileIdentity;
use rustix::fs::{Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::absolute;
use crate::cache::directories::Inode;
use crate::sys::system;

/// A folder that a client has opened. Its path may lead elsewhere by now, through a symbolic link
/// that the client has put in the place of a directory above: the inode tells.
#[derive(Debug)]
pub struct Folder {
    path: String,
    fd: OwnedFd,
}

impl Folder {
    /// Opens the folder of a path, from the root of the host's file system.
    ///
    /// # Errors
    /// NOENT if the path leads to nothing, or to another inode; else the kernel's error.
    pub fn open(path: &str, identity: FileIdentity) -> Result<Self, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = match rustix::fs::open(absolute(path), flags, Mode::empty()) {
            Err(Errno::NOTDIR | Errno::LOOP) => return Err(Errno::NOENT),
            opened => opened?,
        };
        let found = Inode::of(&system::status_of(fd.as_fd())?).identity();
        if (found.device, found.inode) != (identity.device, identity.inode) {
            return Err(Errno::NOENT);
        }
        Ok(Self { path: path.to_owned(), fd })
    }

    /// Returns the path that it was opened by.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Opens a directory below the folder; no symbolic link leads out of it.
    pub(super) fn directory(&self, path: &str) -> Result<OwnedFd, Errno> {
        let below = super::below(path, &self.path).ok_or(Errno::NOENT)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        system::open_beneath(self.fd(), OsStr::new(below), flags, 0, false)
    }
}

/// The entries of a directory that was opened by its path alone, but "." and "..".
pub(super) fn entries(directory: BorrowedFd<'_>) -> impl Iterator<Item = (String, FileType)> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let listed = rustix::fs::openat(directory, c".", flags, Mode::empty()).and_then(Dir::new);
    let entries = listed.into_iter().flatten().flatten();
    let named = entries
        .filter_map(|entry| Some((entry.file_name().to_str().ok()?.to_owned(), entry.file_type())));
    named.filter(|(name, _)| name != "." && name != "..")
}
