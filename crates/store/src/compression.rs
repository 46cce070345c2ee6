//! Compression of single files, where the file system has it.

use std::os::fd::{AsFd, BorrowedFd};

use dtyp::NtStatus;
use object::LocalOpen;
use rustix::fs::{IFlags, OFlags};
use rustix::io::Errno;

use crate::Store;
use crate::errno::{During, Operation};
use crate::features::Features;
use crate::system;

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
        let set = || set(fd, compressed);
        match set() {
            // POSIX lets owners only; with NT it is who may write.
            Err(Errno::PERM | Errno::ACCESS) => {
                self.wardrobe.as_server(set).unwrap_or(Err(Errno::PERM))
            }
            result => result,
        }
        .during(Operation::SetMetadata)
    }
}

fn set(fd: BorrowedFd<'_>, compressed: bool) -> Result<(), Errno> {
    let flags = match rustix::fs::ioctl_getflags(fd) {
        Ok(flags) => flags,
        // A file system that knows of no flags compresses nothing.
        Err(Errno::NOTTY | Errno::OPNOTSUPP | Errno::NOSYS) if !compressed => return Ok(()),
        Err(errno) => return Err(errno),
    };
    let mut wanted = flags;
    wanted.set(IFlags::COMPRESSED, compressed);
    if wanted == flags { Ok(()) } else { rustix::fs::ioctl_setflags(fd, wanted) }
}
