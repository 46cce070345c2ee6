//! Paths that an administrator has configured, through places where others may make files, too.
//!
//! A symbolic link on the way is followed only if root or the server's user owns it. Anybody else's
//! could lead the user that a share forces to files that were never to be reached through that
//! share.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

/// Links on the way to one place; as many as the kernel follows.
const LINKS_MAX: usize = 40;

/// Owners of links that are followed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Links {
    /// Root alone, where clients may make links as the server's user.
    OfRoot,
    /// Root and the server's user.
    OfServer,
}

impl Links {
    fn trusts(self, uid: u32) -> bool {
        match self {
            Self::OfRoot => uid == 0,
            Self::OfServer => is_trusted(uid),
        }
    }
}

/// Returns the directory at an absolute path.
pub(crate) fn open(path: &Path, links: Links) -> Result<OwnedFd, Errno> {
    open_from(root()?, path, links)
}

/// Returns the directory at `path`, which begins at `directory` unless it is absolute.
///
/// # Errors
/// ACCESS if a link on the way belongs to somebody else.
pub(crate) fn open_from(directory: OwnedFd, path: &Path, links: Links) -> Result<OwnedFd, Errno> {
    let mut at = directory;
    let mut to_go = names(path);
    let mut followed = 0;
    while let Some(name) = to_go.pop() {
        let next = open_name(&at, &name)?;
        let stat = rustix::fs::fstat(&next)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => at = next,
            FileType::Symlink => {
                followed += 1;
                if followed > LINKS_MAX {
                    return Err(Errno::LOOP);
                }
                if !links.trusts(stat.st_uid) {
                    return Err(Errno::ACCESS);
                }
                let target = rustix::fs::readlinkat(&next, c"", Vec::new())?.into_bytes();
                let target = PathBuf::from(OsString::from_vec(target));
                if target.is_absolute() {
                    at = root()?;
                }
                to_go.extend(names(&target));
            }
            _ => return Err(Errno::NOTDIR),
        }
    }
    Ok(at)
}

/// Opens the entry of this name, also if it is a link. A directory is opened as one, which triggers
/// mounts on demand, such as the snapshots of ZFS.
fn open_name(directory: &OwnedFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open = |flags| rustix::fs::openat(directory, name.as_bytes(), flags, Mode::empty());
    match open(flags | OFlags::DIRECTORY) {
        Err(Errno::NOTDIR) => open(flags),
        opened => opened,
    }
}

/// Whether root or the server's user owns a directory: nobody else can have put it there.
pub(crate) fn is_owned(directory: impl AsFd) -> Result<bool, Errno> {
    Ok(is_trusted(rustix::fs::fstat(directory)?.st_uid))
}

/// Whether this is root or the server's user. The thread may have a user's rights, but its real
/// user is always the server's.
pub(crate) fn is_trusted(uid: u32) -> bool {
    uid == 0 || uid == rustix::process::getuid().as_raw()
}

fn root() -> Result<OwnedFd, Errno> {
    rustix::fs::open(c"/", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

/// The names of a path, the last one first.
fn names(path: &Path) -> Vec<OsString> {
    let is_name = |it: &Component<'_>| matches!(it, Component::Normal(_) | Component::ParentDir);
    let names = path.components().rev().filter(is_name);
    names.map(Component::as_os_str).map(OsStr::to_owned).collect()
}
