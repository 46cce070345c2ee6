//! What clients do not see keeps no directory from being removed, and goes with it: vetoed entries
//! where the share says so (`delete veto files`), and directories that a dead worker has left
//! under a temporary name.

use std::ffi::{CStr, OsStr};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, UNIX_EPOCH};

use dtyp::NtStatus;
use object::{LocalOpen, is_temporary};
use rustix::fs::{AtFlags, OFlags, unlinkat};
use rustix::io::Errno;

use crate::Store;
use crate::errno::{During, Operation};
use crate::model::listing::Listing;
use crate::model::opens::Open;
use crate::model::root::Root;
use crate::names::short_name;
use crate::security::credentials::Impersonation;
use crate::settings::RootSettings;
use crate::sys::entries::Entries;
use crate::sys::file_kind::is_directory;
use crate::sys::system;
use crate::sys::times;

/// Deepest nesting of vetoed directories that are deleted with their parent; a deeper one prevents
/// the deletion.
const DEPTH_MAX: u32 = 64;

/// Time after which a directory that still has a temporary name has no maker any more. One that
/// lives takes milliseconds, or the time of a hanging disk.
const MAKING_TIME_MAX: Duration = Duration::from_secs(300);

impl Store {
    /// Whether nothing in a directory keeps it. One that may not be read counts as empty: removing
    /// it will tell.
    pub(crate) fn is_empty(&self, open: LocalOpen) -> Result<bool, NtStatus> {
        let open = self.opens.get(open)?;
        if !open.is_directory() {
            return Err(NtStatus::NOT_A_DIRECTORY);
        }
        match Listing::new(open.fd()) {
            Err(Errno::ACCESS) => Ok(true),
            listing => listing
                .and_then(|mut listing| is_deleted_with_directory(&open.root, &mut listing))
                .during(Operation::List),
        }
    }
}

/// Deletes the unseen entries of a directory, if it has no others. With `may`, the user was granted
/// the removal of the directory, even if the kernel refuses that of what was left in it.
///
/// # Errors
/// DIRECTORY_NOT_EMPTY: an entry is visible, and nothing was deleted; or an entry may not be
/// deleted, and remains.
pub(crate) fn remove(
    impersonation: &mut Impersonation,
    directory: &Open,
    may: bool,
) -> Result<(), NtStatus> {
    let mut remove_all = || {
        let mut listing = Listing::new(directory.fd())?;
        if !is_deleted_with_directory(&directory.root, &mut listing)? {
            return Err(Errno::NOTEMPTY);
        }
        listing.entries.rewind(listing.fd.as_fd())?;
        while let Some(name) = listing.entries.next(listing.fd.as_fd())? {
            // Between the two readings something may have come that keeps it.
            let within = listing.fd.as_fd();
            if is_temporary(name.to_bytes()) {
                if is_left(within, name) {
                    let name = OsStr::from_bytes(name.to_bytes());
                    impersonation.unlink(within, name, AtFlags::REMOVEDIR, may)?;
                }
            } else if is_vetoed(&directory.root, name) {
                remove_tree(within, name, DEPTH_MAX)?;
            }
        }
        Ok(())
    };
    remove_all().map_err(|_: Errno| NtStatus::DIRECTORY_NOT_EMPTY)
}

/// Whether all entries of a directory are unseen and may be deleted with it.
fn is_deleted_with_directory(root: &Root, listing: &mut Listing) -> Result<bool, Errno> {
    while let Some(name) = listing.entries.next(listing.fd.as_fd())? {
        let is_unseen = match is_temporary(name.to_bytes()) {
            true => is_left(listing.fd.as_fd(), name),
            false => is_vetoed(root, name),
        };
        if !is_unseen {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether the maker of a directory with a temporary name is dead.
fn is_left(directory: BorrowedFd<'_>, name: &CStr) -> bool {
    system::status_at(directory, name).is_ok_and(|status| {
        let made = UNIX_EPOCH + Duration::from_nanos(times::nanoseconds(&status.stx_mtime));
        let age = made.elapsed().unwrap_or_default();
        is_directory(&status) && age >= MAKING_TIME_MAX
    })
}

/// Whether an entry is vetoed and may be deleted with its directory.
fn is_vetoed(root: &Root, name: &CStr) -> bool {
    let RootSettings { vetoed, remove_vetoed, .. } = &root.settings;
    if !remove_vetoed || vetoed.is_empty() {
        return false;
    }
    let stored = OsStr::from_bytes(name.to_bytes());
    // The streams of all files: what is vetoed is deleted, and this must not be.
    let depot = root.settings.streams_depot.as_ref().and_then(|it| it.directory.file_name());
    if depot == Some(stored) {
        return false;
    }
    let shown = root.shown(stored);
    short_name::is_vetoed(&root.settings, stored) || vetoed.iter().any(|it| it.matches(&shown))
}

fn remove_tree(directory: BorrowedFd<'_>, name: &CStr, depth: u32) -> Result<(), Errno> {
    match unlinkat(directory, name, AtFlags::empty()) {
        Err(Errno::ISDIR) if depth > 0 => {}
        result => return result,
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
    let fd = system::open_beneath(directory, OsStr::from_bytes(name.to_bytes()), flags, 0, false)?;
    let mut entries = Entries::default();
    while let Some(name) = entries.next(fd.as_fd())? {
        remove_tree(fd.as_fd(), name, depth - 1)?;
    }
    unlinkat(directory, name, AtFlags::REMOVEDIR)
}
