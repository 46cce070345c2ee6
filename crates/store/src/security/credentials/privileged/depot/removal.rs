//! Removal of folders of streams: of objects that are gone, and of former ones of the same number.

use std::ffi::OsStr;
use std::os::fd::AsFd;

use rustix::fs::{AtFlags, OFlags, Statx, StatxFlags};
use rustix::io::Errno;

use super::directories::Way;
use super::folder::Folder;
use super::{DEPOT_STREAMS_MAX, entries_of, if_there, verify_name};
use crate::model::depot_path::DepotPath;
use crate::sys::file_kind::is_file;
use crate::sys::system;

/// Attempts to find a free name for streams that are lost.
const LOST_ATTEMPTS_MAX: u32 = 16;

/// Whether there is a folder, of an earlier object of this number. One that is younger than the
/// object, and its owner's or the maker's, is none: another client makes a stream of the same
/// object right now. True without birth times.
pub(super) fn is_lost(way: &Way, path: &DepotPath, object: &Statx) -> Result<bool, Errno> {
    let birth = |status: &Statx| {
        let is_known = status.stx_mask & StatxFlags::BTIME.bits() != 0;
        is_known.then_some((status.stx_btime.tv_sec, status.stx_btime.tv_nsec))
    };
    let found = if_there(system::status_at(way.parent.fd.as_fd(), path.folder.as_str()))?;
    let Some(folder) = found else { return Ok(false) };
    let owners = [object.stx_uid, rustix::process::geteuid().as_raw()];
    let is_younger = birth(&folder).zip(birth(object)).is_some_and(|(folder, it)| folder > it);
    Ok(!is_younger || !owners.contains(&folder.stx_uid))
}

/// Removes a folder of streams with its files. Others than the first [`DEPOT_STREAMS_MAX`] are set
/// aside with the folder, so that this takes no longer than it may.
///
/// # Errors
/// Nothing is removed then: PERM for a folder that does not belong to the object's owner, who could
/// have removed it; NOTEMPTY if anything in it is no stream.
pub(super) fn remove_folder(way: &Way, path: &DepotPath, folder: &Folder) -> Result<(), Errno> {
    if !folder.is_owners() {
        return Err(Errno::PERM);
    }
    let opened = system::reopen(folder.fd.as_fd(), OFlags::RDONLY | OFlags::DIRECTORY)?;
    let files = entries_of(opened.as_fd(), DEPOT_STREAMS_MAX)?;
    for file in &files {
        let status = if_there(system::status_at(opened.as_fd(), file.as_os_str()))?;
        let is_stream = verify_name(file).is_ok() && status.is_none_or(|status| is_file(&status));
        if !is_stream {
            return Err(Errno::NOTEMPTY);
        }
    }
    for file in &files {
        if_there(rustix::fs::unlinkat(&opened, file, AtFlags::empty()))?;
    }
    let parent = way.parent.fd.as_fd();
    match rustix::fs::unlinkat(parent, path.folder.as_str(), AtFlags::REMOVEDIR) {
        Err(Errno::NOTEMPTY | Errno::EXIST) => set_aside(way, path),
        removed => removed,
    }
}

/// Gives a folder of streams, with what is in it, a name in the depot that no object leads to.
pub(super) fn set_aside(way: &Way, path: &DepotPath) -> Result<(), Errno> {
    let folder = (way.parent.fd.as_fd(), OsStr::new(&path.folder));
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    for attempt in 0..LOST_ATTEMPTS_MAX {
        let name = format!("lost-{}{:09}{attempt:02}", time.tv_sec, time.tv_nsec);
        // Nothing else has such a name.
        match system::rename_to_free(folder, (way.depot.fd.as_fd(), OsStr::new(&name))) {
            Err(Errno::EXIST | Errno::NOTEMPTY) => {}
            moved => return if_there(moved).map(drop),
        }
    }
    Err(Errno::EXIST)
}
