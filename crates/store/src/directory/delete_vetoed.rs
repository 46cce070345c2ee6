//! `delete veto files`: what clients do not see keeps no directory from being removed, and goes
//! with it.

use std::ffi::{CStr, OsStr};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;

use dtyp::NtStatus;
use object::LocalOpen;
use rustix::fs::{AtFlags, OFlags, unlinkat};
use rustix::io::Errno;

use crate::Store;
use crate::errno::{During, Operation};
use crate::model::listing::Listing;
use crate::model::opens::Open;
use crate::model::root::Root;
use crate::names::short_name;
use crate::settings::RootSettings;
use crate::sys::entries::Entries;
use crate::sys::system;

/// Deepest nesting of vetoed directories that are deleted with their parent; a deeper one prevents
/// the deletion.
const DEPTH_MAX: u32 = 64;

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

/// Deletes the vetoed entries of a directory, if it has no others.
///
/// # Errors
/// DIRECTORY_NOT_EMPTY: an entry is visible, and nothing was deleted; or an entry may not be
/// deleted, and remains.
pub(crate) fn remove(directory: &Open) -> Result<(), NtStatus> {
    let remove_all = || {
        let mut listing = Listing::new(directory.fd())?;
        if !is_deleted_with_directory(&directory.root, &mut listing)? {
            return Err(Errno::NOTEMPTY);
        }
        listing.entries.rewind(listing.fd.as_fd())?;
        while let Some(name) = listing.entries.next(listing.fd.as_fd())? {
            // Between the two readings something may have come that keeps it.
            if is_unseen(&directory.root, name) {
                remove_tree(listing.fd.as_fd(), name, DEPTH_MAX)?;
            }
        }
        Ok(())
    };
    remove_all().map_err(|_: Errno| NtStatus::DIRECTORY_NOT_EMPTY)
}

/// Whether all entries of a directory are vetoed and may be deleted with it.
fn is_deleted_with_directory(root: &Root, listing: &mut Listing) -> Result<bool, Errno> {
    while let Some(name) = listing.entries.next(listing.fd.as_fd())? {
        if !is_unseen(root, name) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn is_unseen(root: &Root, name: &CStr) -> bool {
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
