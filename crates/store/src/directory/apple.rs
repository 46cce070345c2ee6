//! Metadata that Apple's clients want of every file in a listing.
//!
//! The Finder's information and the resource fork are in the streams `AFP_AfpInfo` and
//! `AFP_Resource`, as `vfs_fruit` has them with `fruit:metadata = stream` and `fruit:resource =
//! stream`. Its other forms are read, and converted when they are met.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd};

use dtyp::NtStatus;
use object::{AppleMetadata, LocalOpen};
use rustix::fs::{Mode, OFlags};

use crate::Store;
use crate::errno::{During, Operation};
use crate::metadata::apple_double_conversion;
use crate::metadata::stream::Streams;
use crate::model::place::Parent;
use crate::model::root::Root;
use crate::model::secured_object::SecuredObject;
use crate::model::stream_name::AppleNames;
use crate::security::access::{self, NamedBy};
use crate::security::credentials::Impersonation;
use crate::sys::system;
use crate::sys::xattr::Xattrs;

/// Reads Apple's metadata of the entries of one directory.
#[derive(Debug)]
pub(crate) struct AppleReader {
    parent: Parent,
    streams: AppleNames,
}

impl Store {
    /// For the entries of the directory that is open.
    pub(crate) fn apple_reader(&mut self, open: LocalOpen) -> Result<AppleReader, NtStatus> {
        let opened = self.opens.get(open)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        let fd = system::open_beneath(opened.fd(), ".", flags, 0, false).during(Operation::List)?;
        let path = opened.root.path_from_here(&opened.path).to_owned();
        let status = system::status_of(fd.as_fd()).during(Operation::List)?;
        let directory = self.directories.intern(fd, &status);
        Ok(AppleReader {
            parent: Parent { directory, path, path_on_disk: None, status },
            streams: AppleNames::new(),
        })
    }
}

impl AppleReader {
    /// `None` if it vanished meanwhile.
    pub(crate) fn of(
        &self,
        impersonation: &mut Impersonation,
        root: &Root,
        directory: BorrowedFd<'_>,
        name: &OsStr,
    ) -> Option<Box<AppleMetadata>> {
        apple_double_conversion::convert_entry(impersonation, root, directory, name);
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(directory, name, flags, Mode::empty()).ok()?;
        let status = system::status_of(fd.as_fd()).ok()?;
        let secured = SecuredObject { fd: fd.as_fd(), path_only: true, status: &status };
        let maximal_access =
            access::maximal_rights(impersonation, root, secured, NamedBy::Entry(&self.parent))
                .ok()?;
        let xattrs = Xattrs::new(fd.as_fd(), true);
        let mut streams = Streams::new(impersonation, root, xattrs);
        let (resource_fork_size, info) = streams.apple(&self.streams);
        let finder_info = info.finder_info();
        Some(Box::new(AppleMetadata { maximal_access, resource_fork_size, finder_info }))
    }
}
