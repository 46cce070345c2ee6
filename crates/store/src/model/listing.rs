//! The position of an open in the listing of its directory.

use std::os::fd::{BorrowedFd, OwnedFd};

use object::DirectoryEntry;
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::sys::ahead::Ahead;
use crate::sys::entries::Entries;
use crate::sys::system;

/// The position of an open in its directory.
#[derive(Debug)]
pub(crate) struct Listing {
    /// A descriptor of its own, because the position belongs to it.
    pub(crate) fd: OwnedFd,
    pub(crate) next: Next,
    pub(crate) entries: Entries,
    /// Metadata of the next entries, if it is slow.
    pub(crate) ahead: Ahead,
    /// Entries of parts that paused, for the next one to append to.
    pub(crate) found: Vec<DirectoryEntry>,
    /// Its last part paused after few entries: they seem not to be in the caches.
    pub(crate) is_slow: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Next {
    Dot,
    DotDot,
    Entry,
}

impl Listing {
    /// Begins a listing with the first entry.
    pub(crate) fn new(directory: BorrowedFd<'_>) -> Result<Self, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let fd = system::open_beneath(directory, ".", flags, 0, false)?;
        let (entries, ahead) = (Entries::default(), Ahead::default());
        Ok(Self { fd, next: Next::Dot, entries, ahead, found: Vec::new(), is_slow: false })
    }
}
