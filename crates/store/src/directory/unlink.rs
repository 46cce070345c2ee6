//! Closing of opens, and removal of names.

use std::ffi::OsStr;
use std::os::fd::AsFd;

use dtyp::{AccessMask, NtStatus};
use object::LocalOpen;
use rustix::fs::{AtFlags, StatxFlags};
use tracing::warn;

use crate::Store;
use crate::cache::directories::{Directory, Inode};
use crate::directory::delete_vetoed as remains;
use crate::errno::{During, Operation};
use crate::model::opens::Open;
use crate::model::root::Root;
use crate::security::credentials::Depot;
use crate::sys::file_kind::is_directory;
use crate::sys::xattr::Xattrs;

impl Store {
    /// [MS-FSA] 2.1.5.5. The open is gone in any case; operations in flight keep the descriptor.
    pub(crate) fn close(&mut self, open: LocalOpen, unlink: bool) -> Result<(), NtStatus> {
        let closed = self.opens.remove(open)?;
        closed.release_locks();
        if !unlink {
            return Ok(());
        }
        closed.root.verify_changeable()?;
        if let Some(name) = &closed.stream {
            return closed.streams(&mut self.impersonation).delete(name);
        }
        self.unlink_file(&closed)
    }

    /// As [`Store::close`], and removes the file's name, even if a stream of it was open.
    pub(crate) fn close_and_unlink_file(&mut self, open: LocalOpen) -> Result<(), NtStatus> {
        let closed = self.opens.remove(open)?;
        closed.release_locks();
        if closed.root.settings.read_only {
            return Err(NtStatus::ACCESS_DENIED);
        }
        self.unlink_file(&closed)
    }

    fn unlink_file(&mut self, closed: &Open) -> Result<(), NtStatus> {
        let parent = closed.parent.as_ref().ok_or(NtStatus::CANNOT_DELETE)?;
        // A descriptor can grant a removal that the directory's mode does not. That of a link's
        // target does not apply to the link.
        let may = closed.root.settings.nt_acls.is_some()
            && closed.name_inode == closed.inode
            && closed.granted_access.contains(AccessMask::DELETE);
        if self.recycle(closed, parent, may)? {
            return Ok(());
        }
        match self.unlink(parent, &closed.name, closed.name_inode, may) {
            Err(NtStatus::DIRECTORY_NOT_EMPTY) => {
                remains::remove(&mut self.impersonation, closed, may)?;
                self.unlink(parent, &closed.name, closed.name_inode, may)?;
            }
            result => result?,
        }
        self.remove_streams(&closed.root, closed.xattrs());
        Ok(())
    }

    /// Removes the streams of an object from the depot of its share, if it has lost its last name.
    pub(crate) fn remove_streams(&mut self, root: &Root, object: Xattrs<'_>) {
        let Some(settings) = &root.settings.streams_depot else { return };
        let removed = match object.status() {
            Ok(status) if status.stx_nlink == 0 => {
                Depot::new(&mut self.impersonation, settings, object).clear()
            }
            status => status.map(drop),
        };
        if let Err(errno) = removed {
            warn!("streams of a removed file remain in {:?}: {errno}", settings.directory);
        }
    }

    /// Removes a name, if it still leads to `inode`: since then another process may have given the
    /// name to another object. With `may`, the user was granted the removal, even if the kernel
    /// refuses it.
    pub(crate) fn unlink(
        &mut self,
        directory: &Directory,
        name: &OsStr,
        inode: Inode,
        may: bool,
    ) -> Result<(), NtStatus> {
        let fd = directory.fd.as_fd();
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        let status = rustix::fs::statx(fd, name, flags, StatxFlags::BASIC_STATS);
        let status = status.during(Operation::Remove)?;
        if Inode::of(&status) != inode {
            return Err(NtStatus::OBJECT_NAME_NOT_FOUND);
        }
        let remove = if is_directory(&status) { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        let verified = self.names.verified(directory);
        self.impersonation.unlink(fd, name, remove, may).during(Operation::Remove)?;
        self.names.changed(directory, verified, None);
        Ok(())
    }
}
