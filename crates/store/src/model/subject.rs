//! An object whose security descriptor is read or set.

use std::os::fd::BorrowedFd;

use rustix::fs::Statx;

use crate::sys::xattr::Attributes;

/// Objects whose descriptor is asked for and set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject<'a> {
    pub(crate) fd: BorrowedFd<'a>,
    /// `fd` is good for paths only.
    pub(crate) path_only: bool,
    pub(crate) status: &'a Statx,
}

impl<'a> Subject<'a> {
    pub(crate) fn attributes(self) -> Attributes<'a> {
        Attributes::new(self.fd, self.path_only)
    }
}
