//! The depot, and the directories in it by hashes: who may own them, and how they are made.
//!
//! The owner of such a directory can put anything in the place of its entries. So the server's
//! rights are used only where all three belong to root or the server's user, as those that the
//! server has made, and others may write to them only if they are sticky.
//!
//! Elsewhere all calls have the user's own rights, as with Samba. There the owner of the directory
//! around may own one, who could also replace it, and so may the user of the request, as with
//! `force user`: then nobody else's streams are at stake. Below a directory of such a third party
//! only folders and files of the base file's owner, or of the user, are streams: the third party
//! could have put others there.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Once;

use rustix::fs::{AtFlags, Gid, Mode, OFlags, Statx, Uid};
use rustix::io::Errno;
use tracing::warn;

use super::super::looks_new;
use crate::model::depot_path::DepotPath;
use crate::settings::DepotSettings;
use crate::sys::system;
use crate::sys::trusted_path::{self, Links};

/// How directories are opened: not through links, and without the right to list them.
const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW);

/// Mode of a depot that the server makes, and of folders of streams in it. A copy of the base
/// file's mode would let in users from whom a path or an ACL keeps that file.
const CLOSED: u32 = 0o700;

/// Mode of a depot that is made with a user's rights, as by Samba.
const OPEN: u32 = 0o755;

/// Bits of a mode that let others than the owner change the entries of a directory. In an ACL those
/// of the group are its mask, which no entry of somebody else exceeds.
pub(super) const WRITABLE: u32 = libc::S_IWGRP | libc::S_IWOTH;

/// Rights that calls in a depot have.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum CallRights {
    /// Those of the server. A directory that is not the server's is refused with ACCESS.
    Server,
    /// Those of the user of the request, by uid.
    User(u32),
}

/// Directory that may be used, and the status that says so.
#[derive(Debug)]
pub(super) struct Trusted {
    pub(super) fd: OwnedFd,
    status: Statx,
    /// It belongs to a third party, neither the server's nor the user's of the request.
    is_third_partys: bool,
}

/// Directories on the way to the folder of an object's streams.
#[derive(Debug)]
pub(super) struct Way {
    pub(super) depot: Trusted,
    /// Directory that has the folder.
    pub(super) parent: Trusted,
    /// One of the directories belongs to a third party, who can put anything below it.
    pub(super) is_third_partys: bool,
}

impl Way {
    /// Opens the directories.
    ///
    /// # Errors
    /// NOENT if one is missing; ACCESS if one may not be used with these rights.
    pub(super) fn open(
        settings: &DepotSettings,
        path: &DepotPath,
        rights: CallRights,
    ) -> Result<Self, Errno> {
        let depot = open_depot(settings, rights)?;
        let [first, second] = &path.hashes;
        let first = open_hash(&depot, first, rights)?;
        let parent = open_hash(&first, second, rights)?;
        Ok(Self::of(depot, &first, parent))
    }

    /// Opens the directories, and makes the missing ones. They stay with their maker.
    ///
    /// # Errors
    /// As those of [`Way::open`], and what the kernel says if one cannot be made.
    pub(super) fn make(
        settings: &DepotSettings,
        path: &DepotPath,
        rights: CallRights,
    ) -> Result<Self, Errno> {
        let depot = make_depot(settings, rights)?;
        let [first, second] = &path.hashes;
        let first = make_hash(&depot, first, rights)?;
        let parent = make_hash(&first, second, rights)?;
        Ok(Self::of(depot, &first, parent))
    }

    fn of(depot: Trusted, first: &Trusted, parent: Trusted) -> Self {
        let all = [&depot, first, &parent];
        let is_third_partys = all.into_iter().any(|directory| directory.is_third_partys);
        Self { depot, parent, is_third_partys }
    }

    /// Opens the folder of the streams.
    pub(super) fn folder(&self, path: &DepotPath) -> Result<OwnedFd, Errno> {
        open_directory(self.parent.fd.as_fd(), OsStr::new(&path.folder))
    }

    /// Opens the folder of the streams, and makes it if it is missing.
    pub(super) fn make_folder(&self, path: &DepotPath, mode: u32) -> Result<OwnedFd, Errno> {
        make(self.parent.fd.as_fd(), OsStr::new(&path.folder), mode).map(|(folder, _)| folder)
    }

    /// The same, and the owner of an object gets a new folder. The server may keep it if it may
    /// give nothing away.
    ///
    /// It is opened by its name after it was made, and in a sticky directory somebody can have put
    /// an own one there: only one that is as new is given away.
    pub(super) fn make_folder_for_owner(
        &self,
        path: &DepotPath,
        (object, may_keep): (&Statx, bool),
    ) -> Result<OwnedFd, Errno> {
        let (parent, name) = (self.parent.fd.as_fd(), OsStr::new(&path.folder));
        let (folder, is_new) = make(parent, name, CLOSED)?;
        if is_new {
            let status = system::status_of(folder.as_fd())?;
            let owners = [rustix::process::geteuid().as_raw(), self.parent.status.stx_uid];
            if looks_new(folder.as_fd(), &status, owners) {
                let passed = pass_to_owner(folder.as_fd(), object, may_keep);
                or_remove(passed, parent, name, AtFlags::REMOVEDIR)?;
            }
        }
        Ok(folder)
    }
}

/// Opens the depot, and makes it if it is missing.
fn make_depot(settings: &DepotSettings, rights: CallRights) -> Result<Trusted, Errno> {
    match open_depot(settings, rights) {
        Err(Errno::NOENT) => {
            let directory = &settings.directory;
            let (parent, name) =
                directory.parent().zip(directory.file_name()).ok_or(Errno::INVAL)?;
            let parent = trusted_path::open(parent, Links::OfServer)?;
            let mode = if rights == CallRights::Server { CLOSED } else { OPEN };
            make(parent.as_fd(), name, mode)?;
            open_depot(settings, rights)
        }
        opened => opened,
    }
}

/// Opens a directory of a hash, and makes it with the permissions of the one that it is in.
fn make_hash(parent: &Trusted, name: &str, rights: CallRights) -> Result<Trusted, Errno> {
    match open_hash(parent, name, rights) {
        Err(Errno::NOENT) => {
            let mode = u32::from(parent.status.stx_mode) & 0o1777;
            make(parent.fd.as_fd(), OsStr::new(name), mode)?;
            open_hash(parent, name, rights)
        }
        opened => opened,
    }
}

/// Opens a directory, and makes it if it is missing: then the flag is set.
fn make(parent: BorrowedFd<'_>, name: &OsStr, mode: u32) -> Result<(OwnedFd, bool), Errno> {
    let is_new = match rustix::fs::mkdirat(parent, name, Mode::from(mode)) {
        Err(Errno::EXIST) => false,
        made => made.map(|()| true)?,
    };
    open_directory(parent, name).map(|directory| (directory, is_new))
}

fn open_directory(parent: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, Errno> {
    system::open_beneath(parent, name, DIRECTORY, 0, false)
}

/// Gives something new to the owner of an object.
///
/// # Errors
/// DQUOT if the owner has no space left, among others. PERM is none where the server `may_keep` it:
/// such a server has one user for all clients, and nobody else has more rights to it.
pub(super) fn pass_to_owner(
    fd: BorrowedFd<'_>,
    object: &Statx,
    may_keep: bool,
) -> Result<(), Errno> {
    let owners = (Uid::from_raw(object.stx_uid), Gid::from_raw(object.stx_gid));
    match rustix::fs::chownat(fd, c"", Some(owners.0), Some(owners.1), AtFlags::EMPTY_PATH) {
        Err(Errno::PERM) if may_keep => Ok(()),
        passed => passed,
    }
}

/// Removes something new that its owner could not get.
pub(super) fn or_remove(
    passed: Result<(), Errno>,
    parent: BorrowedFd<'_>,
    name: &OsStr,
    flags: AtFlags,
) -> Result<(), Errno> {
    passed.inspect_err(|_| {
        let _ = rustix::fs::unlinkat(parent, name, flags);
    })
}

fn open_depot(settings: &DepotSettings, rights: CallRights) -> Result<Trusted, Errno> {
    let depot = trusted_path::open(&settings.directory, Links::OfServer)?;
    let around = system::status_at(depot.as_fd(), c"..")?;
    trusted(depot, &around, rights)
}

fn open_hash(parent: &Trusted, name: &str, rights: CallRights) -> Result<Trusted, Errno> {
    let directory = open_directory(parent.fd.as_fd(), OsStr::new(name))?;
    trusted(directory, &parent.status, rights)
}

/// Refuses a directory that is not the server's for calls with the server's rights. For those with
/// a user's, refuses one in which somebody could have prepared streams of others.
fn trusted(fd: OwnedFd, around: &Statx, rights: CallRights) -> Result<Trusted, Errno> {
    static WARNING: Once = Once::new();
    let status = system::status_of(fd.as_fd())?;
    let (owner, mode) = (status.stx_uid, u32::from(status.stx_mode));
    let is_closed_to = |writers| mode & writers == 0 || mode & libc::S_ISVTX != 0;
    let is_servers = trusted_path::is_trusted(owner);
    let CallRights::User(user) = rights else {
        let may_be_used = is_servers && is_closed_to(WRITABLE);
        let directory = Trusted { fd, status, is_third_partys: false };
        return may_be_used.then_some(directory).ok_or(Errno::ACCESS);
    };
    let is_owned = is_servers || [around.stx_uid, user].contains(&owner);
    if is_owned && is_closed_to(libc::S_IWOTH) {
        return Ok(Trusted { fd, status, is_third_partys: !is_servers && owner != user });
    }
    WARNING.call_once(|| {
        let path = std::fs::read_link(system::magic_path(fd.as_fd())).unwrap_or_default();
        warn!(
            "streams in {path:?} are refused: it has mode {:o} and belongs to uid {}; it must \
             belong to root or to the owner of the directory around it, and others may write to \
             it only if it is sticky",
            mode & 0o7777,
            owner
        );
    });
    Err(Errno::ACCESS)
}
