//! The bins of a configuration, and the files in them. No symbolic link is followed.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::bail;
use config::{Config, Recycle, Share};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, Statx, StatxFlags, StatxTimestamp};
use rustix::io::Errno;

use super::faults::Faults;
use super::folders::{entries, open_beneath, open_directory};
use super::repository::Repository;

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
    DirectoryEnd {
        parent: BorrowedFd<'a>,
        name: &'a OsStr,
        path: &'a Path,
        /// Time at which it, or a folder above it, was moved into the bin.
        moved: Option<SystemTime>,
    },
    /// A folder that cannot be read. The walk goes on with others.
    Unreadable { path: &'a Path, error: &'a io::Error },
}

/// Called for each object that a walk finds.
type OnFound<'a> = dyn FnMut(Found<'_>) + 'a;

/// Returns the bins that exist, of one share or of all.
pub(super) fn find(
    config: &Config,
    share: Option<&str>,
    faults: &mut Faults,
) -> anyhow::Result<Vec<Bin>> {
    let mut bins = Vec::new();
    let is_wanted = |it: &&Share| share.is_none_or(|name| it.name.eq_ignore_ascii_case(name));
    let mut wanted = config.shares.iter().filter(is_wanted).peekable();
    if let (Some(name), None) = (share, wanted.peek()) {
        bail!("there is no share '{name}'");
    }
    for found in wanted {
        let Some(recycle) = Recycle::of(found) else {
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
        let repository = Repository::of(&recycle.repository);
        if !repository.has_text() {
            if share.is_some() {
                bail!(
                    "`recycle:repository = {}` of share '{}' could be any folder: it needs text of \
                     its own beside the variables",
                    recycle.repository,
                    found.name
                );
            }
            let error = io::Error::other("it could be any folder of the share");
            faults.report("find the bin", Path::new(&recycle.repository), &error);
            continue;
        }
        let folder = PathBuf::from(config.substitutions().expand_path(&found.path));
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = match rustix::fs::openat(CWD, &folder, flags, Mode::empty()) {
            Ok(root) => root,
            Err(errno) => {
                faults.report("open", &folder, &errno.into());
                continue;
            }
        };
        for path in repository.paths(root.as_fd(), faults) {
            let root = root.try_clone()?;
            let (share, keep_tree) = (found.name.clone(), recycle.keep_tree);
            bins.push(Bin { share, root, path, keep_tree });
        }
    }
    Ok(bins)
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
    pub(super) fn walk(&self, on_found: &mut OnFound<'_>) {
        let at = (self.root.as_fd(), &*self.path);
        Walk { bin: self, on_found }.folder(at, &self.path, None, DEPTH_MAX);
    }

    /// Returns the time of the last change of a folder below the bin, if users may have moved it
    /// there. Its files keep their own times then, which say nothing of the deletion.
    ///
    /// A rename changes the folder's inode alone, while a file that comes or goes changes the time
    /// of its entries as well. If that was the last change, a folder is the bin's own if the bin
    /// keeps paths, and the share's folder of this path was there before: it was made for a file
    /// of that one. The times of changes and births are the kernel's, and nobody can set them.
    fn moved(&self, directory: &OwnedFd, path: &Path) -> io::Result<Option<SystemTime>> {
        let folder = times(directory)?;
        let is_own = self.keep_tree
            && system_time(folder.stx_ctime) == system_time(folder.stx_mtime)
            && self.share_had(path, &folder)?;
        Ok((!is_own).then(|| system_time(folder.stx_ctime)))
    }

    /// Whether the share has a folder of this former path that is older than this one. A file
    /// system without times of birth says nothing against it.
    fn share_had(&self, path: &Path, folder: &Statx) -> io::Result<bool> {
        let Ok(former) = path.strip_prefix(&self.path) else { return Ok(false) };
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        let former = match open_beneath(self.root.as_fd(), former, flags) {
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(false),
            opened => times(&opened?)?,
        };
        let birth = |it: &Statx| {
            let has_birth = it.stx_mask & StatxFlags::BTIME.bits() != 0;
            has_birth.then(|| system_time(it.stx_btime))
        };
        Ok(birth(&former).zip(birth(folder)).is_none_or(|(former, folder)| former <= folder))
    }
}

/// A walk through a bin.
struct Walk<'a, 'b> {
    bin: &'a Bin,
    on_found: &'a mut OnFound<'b>,
}

impl Walk<'_, '_> {
    /// Walks through the folder of a name in another one; `path` is its path below the share.
    /// `moved` is the time at which a folder above was moved into the bin. Returns that of this
    /// folder, or the other one if that is later.
    fn folder(
        &mut self,
        (parent, name): (BorrowedFd<'_>, &Path),
        path: &Path,
        moved: Option<SystemTime>,
        depth: u32,
    ) -> Option<SystemTime> {
        let read = || {
            let Some(directory) = open_directory(parent, name)? else { return Ok(None) };
            if depth == 0 {
                return Err(io::Error::other("folders are nested too deeply"));
            }
            let own = match path == self.bin.path {
                true => renamed(&directory)?,
                false => self.bin.moved(&directory, path)?,
            };
            Ok(Some((entries(&directory)?, directory, moved.max(own))))
        };
        let (entries, directory, moved) = match read() {
            Ok(Some(read)) => read,
            Ok(None) => return moved,
            Err(error) => {
                (self.on_found)(Found::Unreadable { path, error: &error });
                return moved;
            }
        };
        for (name, is_directory) in entries {
            let path = path.join(&name);
            if is_directory {
                let parent = directory.as_fd();
                let moved = self.folder((parent, &name), &path, moved, depth - 1);
                let name = name.as_os_str();
                (self.on_found)(Found::DirectoryEnd { parent, name, path: &path, moved });
                continue;
            }
            let (flags, wanted) = (AtFlags::SYMLINK_NOFOLLOW, StatxFlags::BASIC_STATS);
            // Removed meanwhile.
            let Ok(status) = rustix::fs::statx(&directory, &name, flags, wanted) else { continue };
            // The move to the bin is the last change of a file, or of a folder that it is in.
            let changed = system_time(status.stx_ctime);
            let deleted = moved.map_or(changed, |moved| moved.max(changed));
            let (directory, name) = (directory.as_fd(), name.as_os_str());
            let size = status.stx_size;
            (self.on_found)(Found::File { directory, name, path: &path, size, deleted });
        }
        moved
    }
}

/// Returns the time of the last change of a bin's folder, unless that was a file that came or went.
/// With a variable in the path, any folder is a bin that somebody moves beside the others.
fn renamed(directory: &OwnedFd) -> io::Result<Option<SystemTime>> {
    let folder = times(directory)?;
    let changed = system_time(folder.stx_ctime);
    Ok((changed != system_time(folder.stx_mtime)).then_some(changed))
}

/// Returns the times of an open folder.
fn times(directory: &OwnedFd) -> io::Result<Statx> {
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    Ok(rustix::fs::statx(directory, c"", AtFlags::EMPTY_PATH, wanted)?)
}

fn system_time(time: StatxTimestamp) -> SystemTime {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    SystemTime::UNIX_EPOCH + Duration::new(seconds, time.tv_nsec)
}

/// The name of a file without the number that the bin gave it: `Copy #3 of NAME`, or one of 16
/// hexadecimal digits.
fn without_copy_number(name: &OsStr) -> &OsStr {
    /// Digits of a number that nobody foresees.
    const UNFORESEEN_DIGITS: usize = 16;
    let bytes = name.as_bytes();
    let stripped = bytes.strip_prefix(b"Copy #").and_then(|rest| {
        let end = rest.iter().position(|it| *it == b' ')?;
        let (number, rest) = rest.split_at(end);
        let is_counted = !number.is_empty() && number.iter().all(u8::is_ascii_digit);
        let is_unforeseen =
            number.len() == UNFORESEEN_DIGITS && number.iter().all(u8::is_ascii_hexdigit);
        let rest = rest.strip_prefix(b" of ").filter(|it| !it.is_empty())?;
        (is_counted || is_unforeseen).then_some(rest)
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
            ("Copy #00c0ffee00c0ffee of c", "c"),
            ("Copy #c0ffee of c", "Copy #c0ffee of c"),
            ("Copy #1 of ", "Copy #1 of "),
            ("d", "d"),
        ] {
            assert_eq!(without_copy_number(stored.as_ref()), name);
        }
    }
}
