//! `choro recycle restore`: a file of a bin moves back.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, bail};
use rustix::fs::{Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use super::bin::Bin;
use super::folders::open_beneath;

/// Moves a file of a bin to its former path or to another one. Returns its new path.
pub(super) fn restore(bins: &[Bin], file: &Path, to: Option<PathBuf>) -> anyhow::Result<PathBuf> {
    let Some(bin) = bins.iter().find(|bin| bin.has(file)) else {
        bail!("{} is in no recycle bin of the share", file.display());
    };
    let Some(target) = to.or_else(|| bin.original(file)) else {
        bail!("the bin does not keep the paths of files; say --to PATH");
    };
    let (from, name) = split(file)?;
    let (folder, new_name) = split(&target)?;
    let from = open_beneath(bin.root.as_fd(), from, OFlags::PATH | OFlags::DIRECTORY)
        .map_err(io::Error::from)
        .with_context(|| format!("cannot open the folder of {}", file.display()))?;
    let folder = make_folder(bin, folder)?;
    match rustix::fs::renameat_with(&from, name, &folder, new_name, RenameFlags::NOREPLACE) {
        Err(Errno::EXIST) => {
            bail!("{} exists; say --to PATH to restore beside it", target.display())
        }
        result => result
            .map_err(io::Error::from)
            .with_context(|| format!("cannot move {} to {}", file.display(), target.display()))?,
    }
    Ok(target)
}

/// Folder and name of a path below the share.
fn split(path: &Path) -> anyhow::Result<(&Path, &OsStr)> {
    let is_plain = path.components().all(|it| matches!(it, Component::Normal(_)));
    let (Some(folder), Some(name), true) = (path.parent(), path.file_name(), is_plain) else {
        bail!("{} is not a path below the share", path.display());
    };
    Ok((if folder.as_os_str().is_empty() { Path::new(".") } else { folder }, name))
}

/// Opens a folder below the share; makes what is missing of it.
fn make_folder(bin: &Bin, path: &Path) -> anyhow::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY;
    let mut folder = bin.root.try_clone()?;
    for component in path.components().filter(|it| *it != Component::CurDir) {
        let name = Path::new(component.as_os_str());
        folder = match open_beneath(folder.as_fd(), name, flags) {
            Err(Errno::NOENT) => {
                make_one(&folder, name).and_then(|()| open_beneath(folder.as_fd(), name, flags))
            }
            result => result,
        }
        .map_err(io::Error::from)
        .with_context(|| format!("cannot open or make {}", path.display()))?;
    }
    Ok(folder)
}

/// Makes a folder with mode and owner of the one above. It is made by that owner: giving it away
/// afterwards could give another one, which a user has put in its place.
fn make_one(parent: &OwnedFd, name: &Path) -> Result<(), Errno> {
    let status = rustix::fs::fstat(parent)?;
    let mode = Mode::from_raw_mode(status.st_mode & 0o7777);
    let umask = rustix::process::umask(Mode::empty());
    let made = as_user(status.st_uid, status.st_gid, || rustix::fs::mkdirat(parent, name, mode));
    rustix::process::umask(umask);
    made
}

/// Runs a call with the rights of a user, if this process may be others.
fn as_user<T>(uid: u32, gid: u32, call: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
    let (own, own_group) = (rustix::process::geteuid(), rustix::process::getegid());
    if !own.is_root() || uid == 0 {
        return call();
    }
    // Of the user's other groups nothing is known here; root's would give rights.
    let own_groups = rustix::process::getgroups()?;
    set_thread_groups(&[])?;
    set_thread_res_gid(own_group, Gid::from_raw(gid), own_group)?;
    let result = set_thread_res_uid(own, Uid::from_raw(uid), own).and_then(|()| call());
    set_thread_res_uid(own, own, own)?;
    set_thread_res_gid(own_group, own_group, own_group)?;
    set_thread_groups(&own_groups)?;
    result
}
