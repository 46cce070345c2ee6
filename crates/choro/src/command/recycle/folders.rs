//! Folders below a share. No symbolic link is followed.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// Opens a folder below a share; `None` if it is missing or no folder.
pub(super) fn open_directory(root: BorrowedFd<'_>, path: &Path) -> io::Result<Option<OwnedFd>> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    match open_beneath(root, path, OFlags::RDONLY | OFlags::DIRECTORY) {
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
        result => Ok(result.map(Some)?),
    }
}

/// Opens a path that must be below a folder, and has no symbolic link.
pub(super) fn open_beneath(
    root: BorrowedFd<'_>,
    path: &Path,
    flags: OFlags,
) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    rustix::fs::openat2(root, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve)
}

/// The names in a folder, and whether each is a folder.
pub(super) fn entries(directory: &OwnedFd) -> io::Result<Vec<(PathBuf, bool)>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let is_directory = match entry.file_type() {
            FileType::Unknown => {
                let flags = AtFlags::SYMLINK_NOFOLLOW;
                let status = rustix::fs::statat(directory, name, flags);
                status.is_ok_and(|it| FileType::from_raw_mode(it.st_mode).is_dir())
            }
            kind => kind.is_dir(),
        };
        names.push((PathBuf::from(OsStr::from_bytes(name.to_bytes())), is_directory));
    }
    names.sort();
    Ok(names)
}

/// The names of the folders in a folder; none in one that is missing.
pub(super) fn folders_of(directory: Option<&OwnedFd>) -> io::Result<Vec<PathBuf>> {
    let entries = directory.map_or_else(|| Ok(Vec::new()), entries)?;
    Ok(entries.into_iter().filter_map(|(name, is_folder)| is_folder.then_some(name)).collect())
}
