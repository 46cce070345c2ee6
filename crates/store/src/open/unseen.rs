//! New objects that nobody can open before they have their descriptor.
//!
//! Until then an open would be granted by the mode alone, and would keep its rights. So a file is
//! made without a name, and a directory under a temporary one, which clients cannot use and nobody
//! can foresee; both get their own name last. A directory that a dead worker has left goes with its
//! parent (`directory::delete_vetoed`).

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use object::TEMPORARY_PREFIX;
use rustix::fs::{AtFlags, OFlags, Statx, StatxAttributes};
use rustix::io::Errno;

use crate::cache::directories::Inode;
use crate::open::lookup::open_regular;
use crate::security::credentials::Impersonation;
use crate::sys::{system, unforeseen};

/// An object without the name that it is to have.
#[derive(Debug)]
pub(crate) struct Unseen {
    pub(crate) fd: OwnedFd,
    /// Name of a directory for the time being.
    temporary: Option<OsString>,
}

impl Unseen {
    /// Makes a file without a name; `None` if the file system cannot.
    pub(crate) fn file(parent: BorrowedFd<'_>, mode: u32) -> Result<Option<Self>, Errno> {
        match system::open_beneath(parent, ".", OFlags::TMPFILE | OFlags::RDWR, mode, false) {
            Ok(fd) => Ok(Some(Self { fd, temporary: None })),
            // File systems without the flag see only the flag for directories in it.
            Err(errno) if is_missing(errno) || errno == Errno::ISDIR => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// Has `make` make a directory under a temporary name. `None` where names are only added.
    pub(crate) fn directory(
        parent: &Statx,
        make: impl Fn(&OsStr) -> Result<OwnedFd, Errno>,
    ) -> Result<Option<Self>, Errno> {
        if parent.stx_attributes.contains(StatxAttributes::APPEND) {
            return Ok(None);
        }
        // Nobody can have taken a name that nobody foresees.
        let name = OsString::from(format!("{TEMPORARY_PREFIX}D:{}", unforeseen::number()));
        make(&name).map(|fd| Some(Self { fd, temporary: Some(name) }))
    }

    /// Gives the object its name, which must be free. Whether the file system could.
    ///
    /// # Errors
    /// EXIST if the name is taken.
    pub(crate) fn give_name(
        &self,
        impersonation: &mut Impersonation,
        to: (BorrowedFd<'_>, &OsStr),
        is_new: bool,
    ) -> Result<bool, Errno> {
        let named = match &self.temporary {
            Some(temporary) => impersonation.name_directory(to, temporary, is_new),
            None => impersonation.name_file(self.fd.as_fd(), to),
        };
        match named {
            Err(errno) if is_missing(errno) => Ok(false),
            named => named.map(|()| true),
        }
    }

    /// Removes a directory that did not get its name.
    pub(crate) fn remove(
        &self,
        impersonation: &mut Impersonation,
        parent: BorrowedFd<'_>,
        is_new: bool,
    ) {
        if let Some(temporary) = &self.temporary {
            // One that stays goes with its parent.
            let _ = impersonation.unlink(parent, temporary, AtFlags::REMOVEDIR, is_new);
        }
    }

    /// The descriptor, for the time after the object got its name. The kernel reports what happens
    /// by a descriptor under the name that it was opened by, so a file is opened once more. One
    /// that does not permit that, or has lost its name already, keeps the first descriptor.
    pub(crate) fn into_opened(self, (parent, name): (BorrowedFd<'_>, &OsStr)) -> OwnedFd {
        if self.temporary.is_some() {
            return self.fd;
        }
        let Ok(status) = system::status_of(self.fd.as_fd()) else { return self.fd };
        let opened = open_regular(parent, name, OFlags::RDWR);
        let same = opened.filter(|it| it.name_inode == Inode::of(&status));
        same.map_or(self.fd, |it| it.fd)
    }
}

/// Whether an error says that a file system, or a sandbox, lacks a call or a flag.
fn is_missing(errno: Errno) -> bool {
    matches!(errno, Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS | Errno::XDEV)
}
