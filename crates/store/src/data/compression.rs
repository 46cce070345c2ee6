//! Compression of single files, where the file system has it.

use std::os::fd::AsFd;

use dtyp::{AccessMask, NtStatus};
use object::LocalOpen;
use rustix::fs::OFlags;

use crate::Store;
use crate::errno::{During, Operation};
use crate::sys::features::Features;
use crate::sys::system;

impl Store {
    /// FSCTL_SET_COMPRESSION: [MS-FSA] 2.1.5.10.32. What is there already stays as it is stored.
    pub(crate) fn set_compression(
        &mut self,
        open: LocalOpen,
        compressed: bool,
    ) -> Result<(), NtStatus> {
        let open = self.opens.get(open)?;
        open.root.verify_changeable()?;
        // ext4 takes the mark, and compresses nothing.
        if compressed && !Features::of(open.fd()).compresses {
            return Err(NtStatus::NOT_SUPPORTED);
        }
        // A descriptor for reading will do, and one with O_PATH will not.
        let reopened = match open.path_only {
            true => Some(system::reopen(open.fd(), OFlags::RDONLY).during(Operation::SetMetadata)?),
            false => None,
        };
        let fd = reopened.as_ref().map_or_else(|| open.fd(), AsFd::as_fd);
        let may_write = open.granted_access.contains(AccessMask::WRITE_DATA);
        let result = self.impersonation.set_compressed(fd, compressed, may_write);
        result.during(Operation::SetMetadata)
    }
}
