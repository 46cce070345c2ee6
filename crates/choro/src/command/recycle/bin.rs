//! The bins of a configuration, and the files in them. No symbolic link is followed.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, bail};
use config::Config;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, StatxFlags};
use rustix::io::Errno;

/// Deepest nesting of folders in a bin that is read.
const DEPTH_MAX: u32 = 128;

/// A bin of a share.
#[derive(Debug)]
pub(super) struct Bin {
    /// Name of the share with the bin.
    pub(super) share: String,
    /// Descriptor of the share's folder.
    pub(super) root: OwnedFd,
    /// Path of the bin below the share.
    path: PathBuf,
    keep_tree: bool,
}

/// Something that a walk through a bin has found. Paths are below the share.
#[derive(Clone, Copy, Debug)]
pub(super) enum Found<'a> {
    /// A file, or anything else that is no folder.
    File {
        directory: BorrowedFd<'a>,
        name: &'a OsStr,
        path: &'a Path,
        size: u64,
        deleted: SystemTime,
    },
    /// The end of a folder, after its files and folders.
    DirectoryEnd { parent: BorrowedFd<'a>, name: &'a OsStr, path: &'a Path },
}

/// Called for each object that a walk finds.
type OnFound<'a> = dyn FnMut(Found<'_>) -> anyhow::Result<()> + 'a;

/// Returns the bins that exist, of one share or of all.
pub(super) fn find(config: &Config, share: Option<&str>) -> anyhow::Result<Vec<Bin>> {
    let mut bins = Vec::new();
    let is_wanted =
        |it: &&config::Share| share.is_none_or(|name| it.name.eq_ignore_ascii_case(name));
    let mut wanted = config.shares.iter().filter(is_wanted).peekable();
    if let (Some(name), None) = (share, wanted.peek()) {
        bail!("there is no share '{name}'");
    }
    for found in wanted {
        let Some(recycle) = config::Recycle::of(found) else {
            if let Some(name) = share {
                bail!("share '{name}' has no recycle bin (`vfs objects = recycle`)");
            }
            continue;
        };
        if found.path.replace("%%", "").contains('%') {
            if share.is_some() {
                bail!("the folder of share '{}' depends on the client", found.name);
            }
            continue;
        }
        let folder = config.substitutions().expand_path(&found.path);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::openat(CWD, &folder, flags, Mode::empty())
            .map_err(io::Error::from)
            .with_context(|| format!("cannot open {folder}"))?;
        for path in paths(root.as_fd(), &recycle.repository)? {
            let root = root.try_clone()?;
            let (share, keep_tree) = (found.name.clone(), recycle.keep_tree);
            bins.push(Bin { share, root, path, keep_tree });
        }
    }
    Ok(bins)
}

/// The folders that a repository stands for; `%U` and other variables are any folder.
fn paths(root: BorrowedFd<'_>, repository: &str) -> anyhow::Result<Vec<PathBuf>> {
    let mut paths = vec![PathBuf::new()];
    for component in repository.split('/').filter(|it| !it.is_empty()) {
        let mut next = Vec::new();
        for path in paths {
            if !component.contains('%') {
                next.push(path.join(component));
                continue;
            }
            let Some(directory) = open_directory(root, &path)? else { continue };
            for (name, is_directory) in entries(&directory)? {
                if is_directory {
                    next.push(path.join(name));
                }
            }
        }
        paths = next;
    }
    Ok(paths)
}

/// Opens a folder below a share; `None` if it is missing or no folder.
fn open_directory(root: BorrowedFd<'_>, path: &Path) -> anyhow::Result<Option<OwnedFd>> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    match open_beneath(root, path, OFlags::RDONLY | OFlags::DIRECTORY) {
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
        result => result
            .map(Some)
            .map_err(io::Error::from)
            .with_context(|| format!("cannot open {path:?}")),
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
fn entries(directory: &OwnedFd) -> anyhow::Result<Vec<(PathBuf, bool)>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory).map_err(io::Error::from)? {
        let entry = entry.map_err(io::Error::from)?;
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

impl Bin {
    /// Whether a path below the share is in this bin.
    pub(super) fn has(&self, path: &Path) -> bool {
        path != self.path && path.starts_with(&self.path)
    }

    /// Former path of a file in the bin, if the bin keeps paths.
    pub(super) fn original(&self, path: &Path) -> Option<PathBuf> {
        let path = path.strip_prefix(&self.path).ok().filter(|_| self.keep_tree)?;
        Some(path.with_file_name(without_copy_number(path.file_name()?)))
    }

    /// Walks through all files and folders of the bin.
    pub(super) fn walk(&self, on_found: &mut OnFound<'_>) -> anyhow::Result<()> {
        match open_directory(self.root.as_fd(), &self.path)? {
            Some(directory) => walk(&directory, &self.path, DEPTH_MAX, on_found),
            None => Ok(()),
        }
    }
}

fn walk(
    directory: &OwnedFd,
    path: &Path,
    depth: u32,
    on_found: &mut OnFound<'_>,
) -> anyhow::Result<()> {
    for (name, is_directory) in entries(directory)? {
        let path = path.join(&name);
        if is_directory {
            let below = open_directory(directory.as_fd(), &name)?;
            if let (Some(below), Some(depth)) = (below, depth.checked_sub(1)) {
                walk(&below, &path, depth, on_found)?;
            }
            let parent = directory.as_fd();
            on_found(Found::DirectoryEnd { parent, name: name.as_os_str(), path: &path })?;
            continue;
        }
        let (flags, wanted) = (AtFlags::SYMLINK_NOFOLLOW, StatxFlags::BASIC_STATS);
        // Removed meanwhile.
        let Ok(status) = rustix::fs::statx(directory, &name, flags, wanted) else { continue };
        // The move to the bin is the last change of a file.
        let seconds = u64::try_from(status.stx_ctime.tv_sec).unwrap_or(0);
        let deleted = SystemTime::UNIX_EPOCH + Duration::new(seconds, status.stx_ctime.tv_nsec);
        let (directory, name) = (directory.as_fd(), name.as_os_str());
        on_found(Found::File { directory, name, path: &path, size: status.stx_size, deleted })?;
    }
    Ok(())
}

/// The name of a file without the number that the bin gave it: `Copy #3 of NAME`.
fn without_copy_number(name: &OsStr) -> &OsStr {
    let bytes = name.as_bytes();
    let stripped = bytes.strip_prefix(b"Copy #").and_then(|rest| {
        let digits = rest.iter().take_while(|it| it.is_ascii_digit()).count();
        let rest = rest[digits..].strip_prefix(b" of ")?;
        (digits > 0 && !rest.is_empty()).then_some(rest)
    });
    OsStr::from_bytes(stripped.unwrap_or(bytes))
}

#[cfg(test)]
mod tests {
    use super::without_copy_number;

    #[test]
    fn numbers_of_copies_are_no_part_of_a_name() {
        for (stored, name) in [
            ("Copy #1 of a.txt", "a.txt"),
            ("Copy #12 of Copy of b", "Copy of b"),
            ("Copy # of c", "Copy # of c"),
            ("Copy #1 of ", "Copy #1 of "),
            ("d", "d"),
        ] {
            assert_eq!(without_copy_number(stored.as_ref()), name);
        }
    }
}
