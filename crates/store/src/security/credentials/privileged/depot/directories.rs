//! The depot, and the directories in it by hashes: who may own them, and how they are made.
//!
//! The owner of such a directory can put anything in the place of its entries. So it belongs to
//! root, to the server's user or to the owner of the directory around it, who could also replace
//! it; and others may write to it only if it is sticky. The user of the request may own it, too,
//! as with `force user`: then nobody else's streams are at stake.

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
pub(super) const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW);

/// Mode of a depot that has to be made.
const DEPOT_MODE: u32 = 0o755;

/// Trusted directory, and the status that says so.
pub(super) struct Trusted {
    pub(super) fd: OwnedFd,
    status: Statx,
}

/// Opens the directory of an object's folder.
///
/// # Errors
/// NOENT if it is missing; ACCESS if it, or a directory above it in the depot, is not trusted.
pub(super) fn open_parent(
    settings: &DepotSettings,
    path: &DepotPath,
    user: u32,
) -> Result<OwnedFd, Errno> {
    let mut at = open_depot(settings, user)?;
    for hash in &path.hashes {
        at = open_hash(&at, hash, user)?;
    }
    Ok(at.fd)
}

/// Opens the depot, and makes it if it is missing. It belongs to the owner of the directory that it
/// is in.
pub(super) fn make_depot(
    settings: &DepotSettings,
    user: u32,
    may_keep: bool,
) -> Result<Trusted, Errno> {
    match open_depot(settings, user) {
        Err(Errno::NOENT) => {}
        opened => return opened,
    }
    let directory = &settings.directory;
    let (parent, name) = directory.parent().zip(directory.file_name()).ok_or(Errno::INVAL)?;
    let fd = trusted_path::open(parent, Links::OfServer)?;
    let status = system::status_of(fd.as_fd())?;
    let parent = Trusted { fd, status };
    make_for_owner(&parent, name, DEPOT_MODE, (&parent.status, may_keep))?;
    open_depot(settings, user)
}

/// Opens a directory of a hash, and makes it with owner and permissions of the one that it is in.
pub(super) fn make_hash(
    parent: &Trusted,
    name: &str,
    (user, may_keep): (u32, bool),
) -> Result<Trusted, Errno> {
    match open_hash(parent, name, user) {
        Err(Errno::NOENT) => {
            let mode = u32::from(parent.status.stx_mode) & 0o1777;
            make_for_owner(parent, OsStr::new(name), mode, (&parent.status, may_keep))?;
            open_hash(parent, name, user)
        }
        opened => opened,
    }
}

/// Opens a directory, and makes it for the owner of an object if it is missing. The server may keep
/// it if it may give nothing away.
///
/// It is opened by its name after it was made, and the owner of `parent` can have put another one
/// there: only one that is as new is given away.
pub(super) fn make_for_owner(
    parent: &Trusted,
    name: &OsStr,
    mode: u32,
    (object, may_keep): (&Statx, bool),
) -> Result<OwnedFd, Errno> {
    let (parent, around) = (parent.fd.as_fd(), &parent.status);
    let made = match rustix::fs::mkdirat(parent, name, Mode::from(mode)) {
        Err(Errno::EXIST) => false,
        made => made.map(|()| true)?,
    };
    let directory = system::open_beneath(parent, name, DIRECTORY, 0, false)?;
    if made {
        let status = system::status_of(directory.as_fd())?;
        let owners = [rustix::process::geteuid().as_raw(), around.stx_uid];
        if looks_new(directory.as_fd(), &status, owners) {
            let passed = pass_to_owner(directory.as_fd(), object, may_keep);
            or_remove(passed, parent, name, AtFlags::REMOVEDIR)?;
        }
    }
    Ok(directory)
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

fn open_depot(settings: &DepotSettings, user: u32) -> Result<Trusted, Errno> {
    let depot = trusted_path::open(&settings.directory, Links::OfServer)?;
    let around = system::status_at(depot.as_fd(), c"..")?;
    trusted(depot, &around, user)
}

fn open_hash(parent: &Trusted, name: &str, user: u32) -> Result<Trusted, Errno> {
    let directory = system::open_beneath(parent.fd.as_fd(), name, DIRECTORY, 0, false)?;
    trusted(directory, &parent.status, user)
}

/// Refuses a directory in which somebody could have prepared streams of others.
fn trusted(fd: OwnedFd, around: &Statx, user: u32) -> Result<Trusted, Errno> {
    static WARNING: Once = Once::new();
    let status = system::status_of(fd.as_fd())?;
    let owner = status.stx_uid;
    let is_owned = [around.stx_uid, user].contains(&owner) || trusted_path::is_trusted(owner);
    let mode = u32::from(status.stx_mode);
    if is_owned && (mode & libc::S_IWOTH == 0 || mode & libc::S_ISVTX != 0) {
        return Ok(Trusted { fd, status });
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
