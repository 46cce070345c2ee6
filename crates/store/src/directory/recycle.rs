//! The recycle bin of a share: deleted files are moved there, as Samba's `vfs_recycle` does.
//!
//! The user's rights decide, the path follows no symbolic link, and nothing is copied: a file that
//! cannot be renamed into the bin is deleted, unless only resources are lacking now. Directories,
//! links and special files are deleted, and so are files that a rename replaces.
//!
//! Where the server deletes for a user who is not known any more, its own rights would lead into
//! directories of anybody that somebody has renamed to be the bin, and replace files there. So it
//! replaces nothing, and uses only folders that the kernel lets the owner of the file use.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use dtyp::{AccessMask, NtStatus};
use rustix::fs::{Mode, OFlags, Statx, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT};
use rustix::io::Errno;
use tracing::{debug, warn};

use crate::Store;
use crate::cache::directories::{Directory, Inode};
use crate::model::opens::Open;
use crate::model::root::Root;
use crate::security::credentials::Identity;
use crate::settings::{RecycleSettings, Touch, Unforeseen, names_for};
use crate::sys::file_kind::is_file;
use crate::sys::{system, trusted_path, unforeseen};

/// Attempts to find a free name in the bin while other processes use the same names.
const ATTEMPTS_MAX: u32 = 8;

/// Further attempts to make the folders of a path in the bin while others remove or make them.
const FOLDER_ATTEMPTS_MAX: usize = 8;

/// Longest name on Linux's file systems, in bytes: `NAME_MAX`.
const NAME_BYTES_MAX: usize = 255;

/// How the bin's directories are opened: not through links, and without the right to list them.
const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW);

impl Store {
    /// Moves a file that is deleted into the bin of its share. Returns false if it is still there
    /// and has to be removed. `may`: the user was granted to remove it, whatever the kernel says.
    ///
    /// # Errors
    /// For want of resources the bin cannot be used now: the file stays.
    pub(crate) fn recycle(
        &mut self,
        closed: &Open,
        parent: &Rc<Directory>,
        may: bool,
    ) -> Result<bool, NtStatus> {
        let Some(settings) = &closed.root.settings.recycle else { return Ok(false) };
        let moved = self.move_to_bin(closed, parent, settings, may);
        moved.or_else(|errno| {
            let (share, path) = (&closed.root.settings.path, closed.path.as_str());
            let lacking = lack_of_resources(errno);
            let outcome = if lacking.is_some() { "stays" } else { "is deleted" };
            let reason = format!(
                "{path:?} of {share:?} cannot go to the recycle bin and {outcome}: {errno}"
            );
            tell(self.is_quiet(settings), &reason);
            lacking.map_or(Ok(false), Err)
        })
    }

    /// Whether guests, who have no password, would fill the log.
    fn is_quiet(&self, settings: &RecycleSettings) -> bool {
        settings.is_quiet || self.impersonation.identity().is_ok_and(Identity::is_guest)
    }

    fn move_to_bin(
        &mut self,
        closed: &Open,
        parent: &Rc<Directory>,
        settings: &RecycleSettings,
        may: bool,
    ) -> Result<bool, Errno> {
        let root = &closed.root;
        let status = system::status_at(parent.fd.as_fd(), &closed.name)?;
        if Inode::of(&status) != closed.name_inode || !is_file(&status) {
            return Ok(false);
        }
        let directory = path_below(root, parent)?;
        if !settings.takes(&directory, &root.shown(&closed.name), status.stx_size) {
            return Ok(false);
        }
        // Nobody without a right to the file makes folders in the bin.
        if !closed.granted_access.contains(AccessMask::DELETE)
            && system::may_access(parent.fd.as_fd(), libc::W_OK | libc::X_OK).is_err()
        {
            return Ok(false);
        }
        let place = settings.place_of(&directory);
        let keeps_versions = settings.keeps_versions_of(&root.shown(&closed.name));
        let replaces = !keeps_versions && !settings.gives_directories;
        let verified = self.names.verified(parent);
        let mut move_there = || {
            let target = self.open_bin(root, settings, &place, &status)?;
            let from = (&**parent, closed.name.as_os_str(), closed.name_inode);
            self.move_file(from, &target, replaces, may)
        };
        let mut moved = move_there();
        let mut attempts = 1..FOLDER_ATTEMPTS_MAX;
        // Somebody empties the bin, and has just removed the directory.
        while moved == Err(Errno::NOENT) && attempts.next().is_some() {
            moved = move_there();
        }
        // Whoever renames folders of the bin all the time has nothing deleted for good.
        if !moved.map_err(|it| if it == Errno::NOENT { Errno::AGAIN } else { it })? {
            return Ok(false);
        }
        self.names.changed(parent, verified, None);
        self.touch(closed, settings.touch);
        Ok(true)
    }

    /// Opens a directory of the bin, and makes it if it is missing. Where the server deletes, the
    /// kernel decides by the rights of the file's owner, in no group: that of a file is no proof
    /// that its owner belongs to it.
    fn open_bin(
        &mut self,
        root: &Root,
        settings: &RecycleSettings,
        path: &Path,
        deleted: &Statx,
    ) -> Result<OwnedFd, Errno> {
        let user = self.impersonation.effective().uid;
        let (is_quiet, unforeseen) = (self.is_quiet(settings), Unforeseen::default());
        let bin = Bin { root, settings, deleted, user, is_quiet, unforeseen };
        if !settings.gives_directories {
            return match bin.open(path)? {
                Place::Open(directory) => Ok(directory),
                Place::Missing(..) => Err(Errno::NOENT),
            };
        }
        for _ in 0..path.components().count() + FOLDER_ATTEMPTS_MAX {
            let place = self.impersonation.as_owner(deleted, || {
                let place = bin.open(path)?;
                let (Place::Open(directory) | Place::Missing(directory, ..)) = &place;
                bin.verify_owner_may_write(directory.as_fd())?;
                system::may_access(directory.as_fd(), libc::W_OK | libc::X_OK)?;
                Ok(place)
            })?;
            let (parent, name, mode) = match place {
                Place::Open(directory) => return Ok(directory),
                Place::Missing(parent, name, mode) => (parent, name, mode),
            };
            // A group is the file's only here: that of a guest could be anybody's.
            let at = (parent.as_fd(), name.as_os_str());
            match self.impersonation.make_directory_of_owner(deleted, at, mode) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno),
            }
        }
        Err(Errno::NOENT)
    }

    /// Moves a file to a directory of the bin, under its own name or that of a further copy.
    /// Returns false if the bin has the same file already, as another link to it, or the name is
    /// another file's by now, or nobody's.
    fn move_file(
        &mut self,
        (parent, name, file): (&Directory, &OsStr, Inode),
        target: &OwnedFd,
        replaces: bool,
        may: bool,
    ) -> Result<bool, Errno> {
        let (from, to) = (parent.fd.as_fd(), target.as_fd());
        let old = system::status_at(to, name).ok().filter(is_file).map(|it| Inode::of(&it));
        if old == Some(file) {
            return Ok(false);
        }
        // Only with the user's own rights: the earlier file may be somebody else's.
        if replaces && old.is_some() && rustix::fs::renameat(from, name, to, name).is_ok() {
            return Ok(true);
        }
        let mut wanted = name.to_owned();
        for attempt in 1..=ATTEMPTS_MAX {
            // A local program may have put another file there meanwhile, or removed it.
            match system::status_at(from, name) {
                Ok(now) if Inode::of(&now) == file => {}
                Ok(_) | Err(Errno::NOENT) => return Ok(false),
                Err(errno) => return Err(errno),
            }
            match self.impersonation.move_file((from, name), (to, &wanted), may) {
                // Others may put files where they expect this one.
                Err(Errno::EXIST) if attempt + 1 == ATTEMPTS_MAX => {
                    wanted = copy_name(unforeseen::number(), name);
                }
                Err(Errno::EXIST) => wanted = free_copy(target, name)?,
                result => return result.map(|()| true),
            }
        }
        Err(Errno::EXIST)
    }

    /// Sets the times that tell when a file was deleted. The file is in the bin whatever happens.
    fn touch(&mut self, closed: &Open, touch: Touch) {
        let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        let omitted = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
        let last_modification = match touch {
            Touch::Nothing => return,
            Touch::AccessTime => omitted,
            Touch::BothTimes => now,
        };
        let times = Timestamps { last_access: now, last_modification };
        if let Err(errno) = self.impersonation.set_times(closed.fd(), &times, true) {
            let (path, root) = (closed.path.as_str(), &closed.root);
            let is_quiet = root.settings.recycle.as_ref().is_some_and(|it| self.is_quiet(it));
            tell(is_quiet, &format!("{path:?} in the recycle bin keeps its times: {errno}"));
        }
    }
}

fn tell(is_quiet: bool, reason: &str) {
    if is_quiet { debug!("{reason}") } else { warn!("{reason}") }
}

/// Returns the status for an error that says nothing about the bin, but that the machine or this
/// process cannot do it now.
fn lack_of_resources(errno: Errno) -> Option<NtStatus> {
    match errno {
        Errno::MFILE | Errno::NFILE => Some(NtStatus::TOO_MANY_OPENED_FILES),
        Errno::NOMEM | Errno::AGAIN | Errno::INTR => Some(NtStatus::INSUFFICIENT_RESOURCES),
        Errno::IO => Some(NtStatus::UNEXPECTED_IO_ERROR),
        _ => None,
    }
}

/// Result of a walk to a folder of the bin.
#[derive(Debug)]
enum Place {
    /// The last folder of the path.
    Open(OwnedFd),
    /// The last folder that is there, and name and mode of the next one, which is to be made with
    /// other rights.
    Missing(OwnedFd, OsString, u32),
}

/// The bin of a share, for one deleted file. Calls have the rights of the thread.
struct Bin<'a> {
    root: &'a Root,
    settings: &'a RecycleSettings,
    deleted: &'a Statx,
    /// User who deletes, by uid.
    user: u32,
    is_quiet: bool,
    unforeseen: Unforeseen,
}

impl Bin<'_> {
    /// Opens a directory of the bin, and makes it if it is missing. Of folders that are private to
    /// users, only those of the right owner are used: somebody else may have made one to read what
    /// comes there. The first folder has no other one beside it: in the share's own folder, anybody
    /// who may write that could give others' folders such a name.
    fn open(&self, path: &Path) -> Result<Place, Errno> {
        let (root, settings) = (self.root.directory.fd.as_fd(), self.settings);
        let mut directory: Option<OwnedFd> = None;
        let mut components = path.iter().peekable();
        while let Some(component) = components.next() {
            let is_last = components.peek().is_none();
            let opened = match &directory {
                None => self.open_folder(root, settings.directory_mode, component)?,
                Some(parent) if settings.has_private_folders() => {
                    self.open_own_folder(parent.as_fd(), component, is_last)?
                }
                Some(parent) => {
                    self.open_folder(parent.as_fd(), settings.subdirectory_mode, component)?
                }
            };
            match opened {
                Place::Open(opened) => directory = Some(opened),
                missing @ Place::Missing(..) => return Ok(missing),
            }
        }
        directory.map(Place::Open).ok_or(Errno::INVAL)
    }

    /// Opens a folder of the bin. Makes it if it is missing and the user deletes.
    fn open_folder(&self, parent: BorrowedFd<'_>, mode: u32, name: &OsStr) -> Result<Place, Errno> {
        match system::open_beneath(parent, Path::new(name), DIRECTORY, 0, false) {
            Err(Errno::NOENT) => {}
            result => return result.map(Place::Open),
        }
        if self.settings.gives_directories {
            let parent = parent.try_clone_to_owned().map_err(|_| Errno::MFILE)?;
            return Ok(Place::Missing(parent, name.to_owned(), mode));
        }
        match rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(mode)) {
            Err(Errno::EXIST) => {}
            result => result?,
        }
        system::open_beneath(parent, Path::new(name), DIRECTORY, 0, false).map(Place::Open)
    }

    /// Opens a folder that belongs to the user, to root, or to the owner of the share or of the
    /// deleted file. Beside one of somebody else, a closed one, a file or a link it uses the first
    /// free name.
    fn open_own_folder(
        &self,
        parent: BorrowedFd<'_>,
        name: &OsStr,
        is_last: bool,
    ) -> Result<Place, Errno> {
        for folder in names_for(name, &self.unforeseen) {
            match self.open_folder(parent, self.settings.subdirectory_mode, &folder) {
                Ok(Place::Open(opened)) => {
                    match self.is_usable(opened.as_fd(), is_last) {
                        Ok(true) => return Ok(Place::Open(opened)),
                        Err(errno) if lack_of_resources(errno).is_some() => return Err(errno),
                        // A file system that somebody has mounted there may refuse all others.
                        Ok(false) | Err(_) => {}
                    }
                }
                Ok(missing) => return Ok(missing),
                // A file or a link has the name.
                Err(Errno::NOTDIR | Errno::LOOP) => {}
                Err(errno) => return Err(errno),
            }
            if folder == name {
                let share = &self.root.settings.path;
                let reason = format!(
                    "in the recycle bin of {share:?}, {name:?} is no folder, belongs to somebody \
                     else or is closed: remove it; another one is used beside it"
                );
                tell(self.is_quiet, &reason);
            }
        }
        Err(Errno::ACCESS)
    }

    /// Whether a folder belongs to the user, to root, or to the owner of the share or of the
    /// deleted file, and the user may write it. Otherwise the owner of a file would make deletions
    /// of it by others final, by a closed folder. On the way to the last folder those of operators
    /// may be closed: the next ones are in them, ready for their users.
    fn is_usable(&self, folder: BorrowedFd<'_>, is_last: bool) -> Result<bool, Errno> {
        let share = system::status_of(self.root.directory.fd.as_fd())?;
        let owner = system::status_of(folder)?.stx_uid;
        let by_server = self.settings.gives_directories;
        let is_known = [0, share.stx_uid].contains(&owner) || !by_server && owner == self.user;
        match is_known || owner == self.deleted.stx_uid {
            false => Ok(false),
            // The rights of the file's owner are verified at the end of the path.
            true if by_server || is_known && !is_last => Ok(true),
            true => system::may_access(folder, libc::W_OK | libc::X_OK).map(|()| true),
        }
    }

    /// Refuses a directory that the owner of the deleted file was not meant to use, though the
    /// kernel may let it: it has to belong to that owner; or to be one of root, of the server or of
    /// the owner of the share that all may write; or to be sticky for all.
    fn verify_owner_may_write(&self, directory: BorrowedFd<'_>) -> Result<(), Errno> {
        let directory = system::status_of(directory)?;
        let share = system::status_of(self.root.directory.fd.as_fd())?;
        let (owner, mode) = (directory.stx_uid, u32::from(directory.stx_mode));
        let is_operators = trusted_path::is_trusted(owner) || owner == share.stx_uid;
        let is_of_all = mode & libc::S_IWOTH != 0;
        let is_sticky = mode & libc::S_ISVTX != 0;
        let may_write = owner == self.deleted.stx_uid || is_of_all && (is_operators || is_sticky);
        may_write.then_some(()).ok_or(Errno::ACCESS)
    }
}

/// The path of a directory below its share, with the names on disk.
fn path_below(root: &Root, directory: &Directory) -> Result<PathBuf, Errno> {
    let path_of = |directory: &Directory| {
        let path = system::magic_path(directory.fd.as_fd());
        let path = rustix::fs::readlink(path, Vec::new())?;
        Ok::<_, Errno>(PathBuf::from(OsString::from_vec(path.into_bytes())))
    };
    let path = path_of(directory)?;
    // A wide link leads to directories outside, which have no bin.
    path.strip_prefix(path_of(&root.directory)?).map(Path::to_owned).map_err(|_| Errno::XDEV)
}

/// The name of a further copy in the bin, as in Samba. A long name loses its beginning, and keeps
/// its extension: without a name in the bin the file would be deleted.
fn copy_name(number: impl fmt::Display, name: &OsStr) -> OsString {
    let mut copy = format!("Copy #{number} of ").into_bytes();
    let name = name.as_bytes();
    let surplus = (copy.len() + name.len()).saturating_sub(NAME_BYTES_MAX);
    let kept = &name[surplus..];
    let is_within_character = |byte: &u8| byte & 0xC0 == 0x80;
    let rest = kept.iter().take_while(|byte| surplus > 0 && is_within_character(byte)).count();
    copy.extend_from_slice(&kept[rest..]);
    OsString::from_vec(copy)
}

/// A name of a further copy that is free. It is the one after the last, if numbers have no gaps;
/// the cost grows with the logarithm of the number of copies. Others who share the bin may have
/// taken all numbers that are tried: then it is one that nobody foresees.
fn free_copy(directory: &OwnedFd, name: &OsStr) -> Result<OsString, Errno> {
    let is_used = |number| match system::status_at(directory.as_fd(), copy_name(number, name)) {
        Err(Errno::NOENT) => Ok(false),
        result => result.map(|_| true),
    };
    let (mut used, mut free) = (0_u32, 1_u32);
    while is_used(free)? {
        used = free;
        let Some(next) = free.checked_mul(2) else {
            return Ok(copy_name(unforeseen::number(), name));
        };
        free = next;
    }
    while free - used > 1 {
        let middle = used + (free - used) / 2;
        if is_used(middle)? { used = middle } else { free = middle }
    }
    Ok(copy_name(free, name))
}
