//! A file or directory whose security descriptor is read or set.

use std::os::fd::BorrowedFd;

use rustix::fs::Statx;

use crate::sys::xattr::Xattrs;

/// A file or directory, open for its descriptor to be read or set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SecuredObject<'a> {
    pub(crate) fd: BorrowedFd<'a>,
    /// True if `fd` may have been opened with O_PATH. Its attributes are then reached by another
    /// way, which any descriptor permits.
    pub(crate) path_only: bool,
    pub(crate) status: &'a Statx,
}

impl<'a> SecuredObject<'a> {
    pub(crate) fn xattrs(self) -> Xattrs<'a> {
        Xattrs::new(self.fd, self.path_only)
    }
}
