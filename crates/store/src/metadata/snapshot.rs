//! Earlier versions of a share: snapshots that an administrator takes, each a directory of its own.
//!
//! A snapshot is a root like the share's, in which nothing can be changed. The directory of the
//! snapshots has to belong to root, and links on the way are followed only if they do, since users
//! may make files beside it; within a snapshot a client stays as in the share. Rights are those of
//! the user, also on the directory that holds the snapshots.

use std::borrow::Cow;
use std::ffi::{CStr, OsStr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;

use dtyp::{FileTime, NtStatus};
use object::{FileIdentity, LocalOpen, ObjectPath};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::Store;
use crate::errno::{During, Operation};
use crate::model::root::Root;
use crate::settings::{SnapshotOrder, SnapshotSettings};
use crate::sys::entries::Entries;
use crate::sys::system;
use crate::sys::trusted_path;

/// Snapshots that are told to clients; of more, those that the directory lists first.
const SNAPSHOTS_MAX: usize = 4_096;

impl SnapshotSettings {
    /// Returns the name of a snapshot's directory.
    fn name_of(&self, time: FileTime) -> Option<String> {
        let (seconds, _) = time.to_unix();
        system::format_time(seconds, &self.format, self.local_time)
    }

    /// Returns the time of the snapshot of this name, if there is one in the name.
    fn time_of(&self, name: &CStr) -> Option<FileTime> {
        let seconds = system::parse_time(name, &self.format, self.local_time)?;
        Some(FileTime::from_unix(seconds, 0))
    }

    /// Opens the directory that holds the snapshots.
    fn open(&self) -> Result<OwnedFd, Errno> {
        let directory = trusted_path::open(&self.directory)?;
        if trusted_path::is_owned(&directory)? { Ok(directory) } else { Err(Errno::NOENT) }
    }

    /// Opens the share's folder in the snapshot of this name.
    fn open_share(&self, directory: &OwnedFd, name: &OsStr) -> Result<OwnedFd, Errno> {
        let directory = directory.try_clone().map_err(|_| Errno::MFILE)?;
        trusted_path::open_from(directory, &Path::new(name).join(&self.share))
    }
}

impl Store {
    /// The version of the share that a path asks for, and the path in it.
    pub(crate) fn version<'a>(
        &mut self,
        root: &Rc<Root>,
        path: &'a ObjectPath,
    ) -> Result<(Rc<Root>, Cow<'a, ObjectPath>), NtStatus> {
        let Some(settings) = &root.settings.snapshots else {
            return match path.snapshot() {
                // A share without snapshots has no version of the file from then.
                Some(_) => Err(NtStatus::OBJECT_NAME_NOT_FOUND),
                None => Ok((root.clone(), Cow::Borrowed(path))),
            };
        };
        let path = match path.snapshot() {
            Some(_) => Cow::Borrowed(path),
            None => path.split_gmt_token().map_or(Cow::Borrowed(path), Cow::Owned),
        };
        let Some(time) = path.snapshot() else { return Ok((root.clone(), path)) };
        let name = settings.name_of(time).ok_or(NtStatus::OBJECT_NAME_NOT_FOUND)?;
        let fd = settings
            .open()
            .and_then(|directory| settings.open_share(&directory, OsStr::new(&name)))
            .during(Operation::Open)?;
        let status = system::status_of(fd.as_fd()).during(Operation::Open)?;
        let directory = self.directories.share(fd, &status);
        let settings = root.settings.clone();
        Ok((Rc::new(Root::new(settings, directory, Some(time))), path))
    }

    /// The snapshots in which the path of an open exists.
    pub(crate) fn list_snapshots(&self, open: LocalOpen) -> Result<Vec<FileTime>, NtStatus> {
        let open = self.opens.get(open)?;
        let Some(settings) = &open.root.settings.snapshots else { return Ok(Vec::new()) };
        let directory = match settings.open() {
            Err(Errno::NOENT) => return Ok(Vec::new()),
            directory => directory.during(Operation::List)?,
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&directory, c".", flags, Mode::empty());
        let fd = fd.during(Operation::List)?;
        let mut entries = Entries::default();
        let mut snapshots = Vec::new();
        while snapshots.len() < SNAPSHOTS_MAX
            && let Some(name) = entries.next(fd.as_fd()).during(Operation::List)?
        {
            let Some(time) = settings.time_of(name) else { continue };
            let name = OsStr::from_bytes(name.to_bytes());
            let share = settings.open_share(&directory, name);
            if share.is_ok_and(|share| exists(share, open.path.as_str())) {
                snapshots.push(time);
            }
        }
        match settings.order {
            SnapshotOrder::Ascending => snapshots.sort_unstable(),
            SnapshotOrder::Descending => snapshots.sort_unstable_by(|a, b| b.cmp(a)),
            SnapshotOrder::Listed => {}
        }
        Ok(snapshots)
    }
}

/// Whether the snapshot of a share has something at `path`.
fn exists(share: OwnedFd, path: &str) -> bool {
    system::open_beneath(share.as_fd(), path, OFlags::PATH, 0, true).is_ok()
}

/// Tells a file in a snapshot from the one that there is now: snapshots below the file system have
/// the same numbers, and clients take equal numbers for one file. FNV-1a over the number and the
/// time.
pub(crate) fn mark(identity: &mut FileIdentity, time: FileTime) {
    let bytes = identity.inode.to_le_bytes().into_iter().chain(time.0.to_le_bytes());
    identity.inode = bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
}
