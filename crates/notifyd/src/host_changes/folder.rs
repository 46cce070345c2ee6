//! A folder to watch, found by its path and known by its inode.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use object::FileIdentity;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, StatxFlags};
use rustix::io::Errno;

use super::absolute;

/// Attempts to resolve a path while another program renames directories on it.
const RESOLVE_ATTEMPTS_MAX: u32 = 16;

/// A folder that a client has opened. Its path may lead elsewhere by now, through a symbolic link
/// that the client has put in the place of a directory above: the inode tells.
#[derive(Debug)]
pub(crate) struct Folder {
    path: Arc<str>,
    fd: OwnedFd,
}

impl Folder {
    /// Opens the folder of a path, from the root of the host's file system.
    ///
    /// # Errors
    /// NOENT if the path leads to nothing, or to another inode; else the kernel's error.
    pub(crate) fn open(path: &Arc<str>, identity: FileIdentity) -> Result<Self, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = match rustix::fs::open(absolute(path), flags, Mode::empty()) {
            Err(Errno::NOTDIR | Errno::LOOP) => return Err(Errno::NOENT),
            opened => opened?,
        };
        let found = rustix::fs::statx(&fd, c"", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS)?;
        let device = u64::from(found.stx_dev_major) << 32 | u64::from(found.stx_dev_minor);
        if (device, found.stx_ino) != (identity.device, identity.inode) {
            return Err(Errno::NOENT);
        }
        Ok(Self { path: Arc::clone(path), fd })
    }

    /// Returns the path that it was opened by.
    #[must_use]
    pub(crate) fn path(&self) -> &Arc<str> {
        &self.path
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Opens a directory below the folder; no symbolic link leads out of it.
    pub(super) fn directory(&self, path: &str) -> Result<OwnedFd, Errno> {
        let below = super::below(path, &self.path).ok_or(Errno::NOENT)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        open_beneath(self.fd(), below, flags)
    }
}

/// Opens `path` beneath `directory`, through no link.
fn open_beneath(directory: BorrowedFd<'_>, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
    let path = if path.is_empty() { "." } else { path };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_SYMLINKS;
    let flags = flags | OFlags::CLOEXEC;
    let mut attempts = 0;
    loop {
        match rustix::fs::openat2(directory, path, flags, Mode::empty(), resolve) {
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) if attempts < RESOLVE_ATTEMPTS_MAX => attempts += 1,
            result => return result,
        }
    }
}

/// The path that leads to the object of a descriptor, also one opened with O_PATH.
pub(super) fn magic_path(fd: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
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
