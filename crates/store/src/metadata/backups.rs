//! Size of the backups in a share that Time Machine may fill up to a limit.
//!
//! A backup is a directory `*.sparsebundle`: its `Info.plist` tells the size of a band, and `bands`
//! has a file for each. Clients believe that the limit is the size of the volume.

use std::ffi::{CStr, OsStr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use object::Volume;
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::sys::entries::Entries;
use crate::sys::file_kind::is_file;
use crate::sys::system;

/// Allocation unit that a limit is told in, as by Samba.
const UNIT_BYTES: u32 = 1_024;

/// Bytes of an `Info.plist` that are read; one has a few hundred.
const PLIST_BYTES_MAX: usize = 16 * 1_024;

/// Highest number of backups to count; each machine has one.
const BACKUPS_MAX: usize = 256;

/// Makes a volume no larger than the limit, with the room that backups leave.
pub(crate) fn limit(volume: &mut Volume, root: BorrowedFd<'_>, bytes_max: u64) {
    let room = bytes_max.saturating_sub(size_of_all(root));
    volume.total_bytes = volume.total_bytes.min(bytes_max);
    volume.free_bytes = volume.free_bytes.min(room);
    volume.available_bytes = volume.available_bytes.min(room);
    volume.cluster_bytes = UNIT_BYTES;
}

/// Returns the size of all backups. One that is just being made counts as nothing.
fn size_of_all(root: BorrowedFd<'_>) -> u64 {
    let mut bundles = Vec::new();
    let counted = count(root, OsStr::new("."), |name| {
        if name.to_bytes().ends_with(b"sparsebundle") && bundles.len() < BACKUPS_MAX {
            bundles.push(OsStr::from_bytes(name.to_bytes()).to_owned());
        }
    });
    if counted.is_err() {
        return 0;
    }
    bundles.iter().fold(0, |sum: u64, bundle| sum.saturating_add(size_of(root, bundle)))
}

fn size_of(root: BorrowedFd<'_>, bundle: &OsStr) -> u64 {
    let path = Path::new(bundle);
    let band_bytes = band_bytes(root, &path.join("Info.plist"));
    let bands = count(root, path.join("bands").as_os_str(), |_| {});
    bands.unwrap_or(0).saturating_mul(band_bytes.unwrap_or(0))
}

/// Counts the entries of a directory, and shows the name of each.
fn count(root: BorrowedFd<'_>, path: &OsStr, mut show: impl FnMut(&CStr)) -> Result<u64, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let directory = system::open_beneath(root, path, flags, 0, false)?;
    let (mut entries, mut count) = (Entries::default(), 0);
    while let Some(name) = entries.next(directory.as_fd())? {
        show(name);
        count += 1;
    }
    Ok(count)
}

/// Reads the size of a band from the property list of a backup.
fn band_bytes(root: BorrowedFd<'_>, path: &Path) -> Option<u64> {
    // A client may have put anything there: nothing that waits is opened.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK;
    let file: OwnedFd = system::open_beneath(root, path, flags, 0, false).ok()?;
    if !is_file(&system::status_of(file.as_fd()).ok()?) {
        return None;
    }
    let mut text = vec![0; PLIST_BYTES_MAX];
    let length = rustix::io::retry_on_intr(|| rustix::io::pread(&file, &mut text[..], 0)).ok()?;
    let text = String::from_utf8_lossy(&text[..length]).into_owned();
    let (_, behind) = text.split_once("<key>band-size</key>")?;
    let number = behind.trim_start().strip_prefix("<integer>")?;
    number.split_once("</integer>")?.0.trim().parse().ok()
}
