//! Files of named streams in a depot, laid out as by Samba's `vfs_streams_depot`.
//!
//! Users have no rights to the depot: those to the base file count. The kernel is asked for them
//! with the user's own rights; then the server's rights open the stream's file. A new file belongs
//! to the owner of the base file and has its permissions, so that Samba serves it to the same user.
//! Owners of base files own the folders of their streams, and can move files of others there. So
//! the server's rights open only what belongs to the owner of the base file; anything else takes
//! the user's own rights, as with Samba. Nothing below the depot is followed as a link, and no file
//! with a second name is opened.

mod directories;

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use rustix::fs::{AtFlags, OFlags, Statx, StatxFlags};
use rustix::io::Errno;

use self::directories::{
    DIRECTORY, make_depot, make_for_owner, make_hash, open_parent, or_remove, pass_to_owner,
};
use super::{FRESH_SECONDS_MAX, is_fresh};
use crate::cache::directories::Inode;
use crate::model::depot_path::DepotPath;
use crate::security::credentials::Impersonation;
use crate::settings::DepotSettings;
use crate::sys::entries::Entries;
use crate::sys::file_kind::is_file;
use crate::sys::system;
use crate::sys::xattr::Xattrs;

/// Extended attribute of a base file with streams in a depot. Its inode number may have been that
/// of a deleted file, whose streams must not appear again.
const MARK: &str = "user.SAMBA_STREAMS";

/// Value of that attribute: Samba writes no other.
const MARKED: &[u8] = b"1";

/// Streams of one file that are listed.
const DEPOT_STREAMS_MAX: usize = 4_096;

/// Looks at something that another process of the server is about to give away.
const SETTLE_ATTEMPTS_MAX: u32 = 1_000;

/// Attempts to find a free name for streams that are lost.
const LOST_ATTEMPTS_MAX: u32 = 16;

/// An object whose streams are in a depot.
#[derive(Clone, Copy, Debug)]
struct DepotBase<'a> {
    /// Settings of the share's depot.
    settings: &'a DepotSettings,
    /// The object, by its extended attributes.
    object: Xattrs<'a>,
    /// Uid of the user, who may own the depot.
    user: u32,
}

/// Rights to the data of the base file that an operation on a stream needs; none for names and
/// sizes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct DepotAccess {
    /// To read the base file.
    pub(crate) reads: bool,
    /// To write the base file.
    pub(crate) writes: bool,
}

impl DepotAccess {
    /// Mode of `faccessat` for these rights.
    fn mode(self) -> libc::c_int {
        let reads = if self.reads { libc::R_OK } else { libc::F_OK };
        if self.writes { reads | libc::W_OK } else { reads }
    }

    /// Flags to open a stream's file with; its size can always be known.
    fn flags(self) -> OFlags {
        if self.writes { OFlags::RDWR } else { OFlags::RDONLY }
    }
}

/// The streams of an object in a depot, for one operation of a user.
#[derive(Debug)]
pub(crate) struct Depot<'a> {
    base: DepotBase<'a>,
    user: &'a mut Impersonation,
    /// Folder of the streams, kept from the first call to the others of the operation.
    folder: Option<Box<Folder>>,
    /// The first call has found none.
    lacks_folder: bool,
}

impl<'a> Depot<'a> {
    pub(crate) fn new(
        user: &'a mut Impersonation,
        settings: &'a DepotSettings,
        object: Xattrs<'a>,
    ) -> Self {
        let base = DepotBase { settings, object, user: user.effective().uid };
        Self { base, user, folder: None, lacks_folder: false }
    }

    /// Names of the files of the streams, no more than so many. None are told of a folder of
    /// somebody else's that the user may not list.
    pub(crate) fn names(&mut self) -> Result<Vec<OsString>, Errno> {
        let Some((user, folder)) = if_there(self.folder())? else { return Ok(Vec::new()) };
        let names = user.in_folder(folder, || {
            let folder = system::reopen(folder.fd.as_fd(), OFlags::RDONLY | OFlags::DIRECTORY)?;
            let (mut names, mut entries) = (Vec::new(), Entries::default());
            while names.len() < DEPOT_STREAMS_MAX
                && let Some(name) = entries.next(folder.as_fd())?
            {
                names.push(OsString::from_vec(name.to_bytes().to_vec()));
            }
            Ok(names)
        });
        match names {
            Err(Errno::ACCESS | Errno::PERM) if !folder.is_owners() => Ok(Vec::new()),
            names => names,
        }
    }

    /// Length of a stream in bytes; `None` if it is not there, or is a file of somebody else's that
    /// the user may not read.
    pub(crate) fn length(&mut self, name: &OsStr) -> Result<Option<u64>, Errno> {
        let found = self.in_folder_as_server(|folder| {
            let flags = OFlags::PATH | OFlags::NOFOLLOW;
            let file = system::open_beneath(folder.fd.as_fd(), name, flags, 0, false)?;
            let status = system::status_of(file.as_fd())?;
            let status = settled(file.as_fd(), status, &folder.base)?;
            Ok((file, status))
        });
        let found = match found {
            // A link.
            Err(Errno::LOOP) => None,
            found => if_there(found)?,
        };
        Ok(found.zip(self.folder.as_deref()).and_then(|((file, status), folder)| {
            let may_read = || {
                system::may_access(folder.fd.as_fd(), libc::X_OK).is_ok()
                    && system::may_access(file.as_fd(), libc::R_OK).is_ok()
            };
            let is_told = is_stream(&status) && (folder.is_owners_stream(&status) || may_read());
            is_told.then_some(status.stx_size)
        }))
    }

    /// Opens a stream's file for a user who may access the base file so.
    pub(crate) fn open(&mut self, name: &OsStr, access: DepotAccess) -> Result<OwnedFd, Errno> {
        self.base.object.may_access(access.mode())?;
        let (user, folder) = self.folder()?;
        user.open_stream(folder, name, access.flags())
    }

    /// Makes a stream's file, unless it is there, for a user who may write the base file; and opens
    /// it for reading and writing.
    ///
    /// # Errors
    /// What the kernel says if the file cannot be given to the owner of the base file (DQUOT…);
    /// then no new file is left.
    pub(crate) fn create(&mut self, name: &OsStr) -> Result<OwnedFd, Errno> {
        self.base.object.may_access(libc::W_OK)?;
        let may_keep = !self.user.enabled;
        if self.folder.is_none() {
            let base = self.base;
            self.folder = Some(Box::new(self.user.as_server(|| base.make_folder(may_keep))?));
            self.lacks_folder = false;
        }
        let (user, folder) = self.folder()?;
        let made = user.in_folder(folder, || {
            let mode = u32::from(folder.base.stx_mode) & 0o666;
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
            let (file, _) = open_file(folder.fd.as_fd(), name, flags, mode)?;
            if folder.is_owners() {
                let passed = pass_to_owner(file.as_fd(), &folder.base, may_keep);
                or_remove(passed, folder.fd.as_fd(), name, AtFlags::empty())?;
            }
            Ok(file)
        });
        match made {
            Err(Errno::EXIST) => user.open_stream(folder, name, OFlags::RDWR),
            made => made,
        }
    }

    /// Removes a stream's file for a user who may write the base file.
    pub(crate) fn remove(&mut self, name: &OsStr) -> Result<(), Errno> {
        self.base.object.may_access(libc::W_OK)?;
        let (user, folder) = self.folder()?;
        user.in_folder(folder, || rustix::fs::unlinkat(&folder.fd, name, AtFlags::empty()))
    }

    /// Renames a stream's file, for a user who may write the base file. It replaces another one.
    pub(crate) fn rename(&mut self, old: &OsStr, new: &OsStr) -> Result<(), Errno> {
        self.base.object.may_access(libc::W_OK)?;
        let (user, folder) = self.folder()?;
        user.in_folder(folder, || rustix::fs::renameat(&folder.fd, old, &folder.fd, new))
    }

    /// Removes the streams of an object that has lost its last name. Those of a former object of
    /// its number stay.
    pub(crate) fn clear(self, inode: Inode) -> Result<(), Errno> {
        let Self { base, user, .. } = self;
        user.as_server(|| {
            let path = DepotPath::of(inode);
            let Some((parent, _)) = if_there(base.open(&path))? else { return Ok(()) };
            if_there(remove_folder(parent.as_fd(), &path.folder)).map(drop)
        })
    }

    /// Opens the folder of the streams, unless it is open. It comes with the user, whose rights
    /// calls in it may need.
    ///
    /// # Errors
    /// As [`DepotBase::folder`].
    fn folder(&mut self) -> Result<(&mut Impersonation, &Folder), Errno> {
        if self.folder.is_none() {
            self.in_folder_as_server(|_| Ok(()))?;
        }
        Ok((&mut *self.user, self.folder.as_deref().ok_or(Errno::NOENT)?))
    }

    /// Runs a call with the server's rights, which also open the folder of the streams first,
    /// unless it is open.
    fn in_folder_as_server<T>(
        &mut self,
        call: impl FnOnce(&Folder) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let Self { base, user, folder, lacks_folder } = self;
        if *lacks_folder {
            return Err(Errno::NOENT);
        }
        user.as_server(|| {
            let folder = match folder {
                Some(folder) => folder,
                None => {
                    let opened = base.folder();
                    *lacks_folder = matches!(opened, Err(Errno::NOENT));
                    folder.insert(Box::new(opened?))
                }
            };
            call(folder)
        })
    }
}

impl Impersonation {
    /// Opens the file of a stream that is there: with the server's rights if it belongs to the
    /// owner of the base file, otherwise with the user's own.
    fn open_stream(
        &mut self,
        folder: &Folder,
        name: &OsStr,
        flags: OFlags,
    ) -> Result<OwnedFd, Errno> {
        let at = folder.fd.as_fd();
        if folder.is_owners() {
            let opened = self.as_server(|| {
                let (file, status) = open_file(at, name, flags, 0)?;
                let status = settled(file.as_fd(), status, &folder.base)?;
                Ok(folder.is_owners_stream(&status).then_some(file))
            })?;
            if let Some(file) = opened {
                return Ok(file);
            }
        }
        open_file(at, name, flags, 0).map(|(file, _)| file)
    }

    /// Runs a call in a folder of streams: with the server's rights if the folder belongs to the
    /// owner of the base file, otherwise with the user's own.
    fn in_folder<T>(
        &mut self,
        folder: &Folder,
        call: impl FnOnce() -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        if folder.is_owners() { self.as_server(call) } else { call() }
    }
}

/// Folder of an object's streams.
#[derive(Debug)]
struct Folder {
    fd: OwnedFd,
    /// Owner and permissions of the folder.
    status: Statx,
    /// Owner and permissions of the object.
    base: Statx,
}

impl Folder {
    fn new(fd: OwnedFd, base: Statx) -> Result<Self, Errno> {
        let status = settled(fd.as_fd(), system::status_of(fd.as_fd())?, &base)?;
        Ok(Self { fd, status, base })
    }

    /// Whether the folder belongs to the owner of the object. That of somebody else has lost its
    /// own object, or a user of Samba has made it.
    fn is_owners(&self) -> bool {
        self.status.stx_uid == self.base.stx_uid
    }

    /// Whether a file in the folder is a stream of the object's owner. Whoever may write the folder
    /// can have moved a file there that others must not read: where more than the owner may, the
    /// file must be open to the same users as the folder.
    fn is_owners_stream(&self, file: &Statx) -> bool {
        let (folder, mode) = (u32::from(self.status.stx_mode), u32::from(file.stx_mode));
        let is_as_open = || file.stx_gid == self.status.stx_gid && folder & 0o066 & !mode == 0;
        self.is_owners()
            && file.stx_uid == self.base.stx_uid
            && (folder & 0o022 == 0 || is_as_open())
    }
}

impl DepotBase<'_> {
    /// Opens the folder of the object's streams.
    ///
    /// # Errors
    /// NOENT if it has none; ACCESS for a depot that others could have prepared.
    fn folder(&self) -> Result<Folder, Errno> {
        let status = self.object.status()?;
        let (_, folder) = self.open(&DepotPath::of(Inode::of(&status)))?;
        Folder::new(folder, status)
    }

    /// Opens the directory of the object's folder, and the folder; with errors as those of
    /// [`DepotBase::folder`].
    fn open(&self, path: &DepotPath) -> Result<(OwnedFd, OwnedFd), Errno> {
        let parent = open_parent(self.settings, path, self.user)?;
        let folder = system::open_beneath(parent.as_fd(), &path.folder, DIRECTORY, 0, false)?;
        if self.is_marked()? { Ok((parent, folder)) } else { Err(Errno::NOENT) }
    }

    /// Whether streams in the depot can be the object's own.
    fn is_marked(&self) -> Result<bool, Errno> {
        if !self.settings.check_valid {
            return Ok(true);
        }
        match self.object.get(MARK) {
            Ok(value) => Ok(value == MARKED),
            Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(false),
            Err(errno) => Err(errno),
        }
    }

    /// Opens the folder of the object's streams, and makes it if it is missing. The server may keep
    /// it if it may give nothing away.
    fn make_folder(&self, may_keep: bool) -> Result<Folder, Errno> {
        let status = self.object.status()?;
        let path = DepotPath::of(Inode::of(&status));
        let depot = make_depot(self.settings, self.user, may_keep)?;
        let [first, second] = &path.hashes;
        let first = make_hash(&depot, first, (self.user, may_keep))?;
        let parent = make_hash(&first, second, (self.user, may_keep))?;
        let is_marked = self.is_marked()?;
        if !is_marked && is_lost(parent.fd.as_fd(), &path.folder, &status)? {
            self.set_aside(depot.fd.as_fd(), parent.fd.as_fd(), &path.folder)?;
        }
        let permissions = u32::from(status.stx_mode) & 0o777;
        // A directory is read with the right to enter it.
        let mode = permissions | (permissions & 0o444) >> 2 | 0o700;
        let name = OsStr::new(&path.folder);
        let folder = make_for_owner(&parent, name, mode, (&status, may_keep))?;
        if !is_marked {
            self.object.set(MARK, MARKED)?;
        }
        Folder::new(folder, status)
    }

    /// Takes away a folder of another object, which had the same number and is gone.
    fn set_aside(
        &self,
        depot: BorrowedFd<'_>,
        parent: BorrowedFd<'_>,
        folder: &str,
    ) -> Result<(), Errno> {
        if self.settings.delete_lost {
            return if_there(remove_folder(parent, folder)).map(drop);
        }
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
        for attempt in 0..LOST_ATTEMPTS_MAX {
            let name = format!("lost-{}{:09}{attempt:02}", time.tv_sec, time.tv_nsec);
            // Nothing else has such a name.
            let moved =
                system::rename_to_free((parent, OsStr::new(folder)), (depot, OsStr::new(&name)));
            match moved {
                Err(Errno::EXIST | Errno::NOTEMPTY) => {}
                moved => return if_there(moved).map(drop),
            }
        }
        Err(Errno::EXIST)
    }
}

/// `None` for something that is not there.
fn if_there<T>(result: Result<T, Errno>) -> Result<Option<T>, Errno> {
    match result {
        Err(Errno::NOENT) => Ok(None),
        result => result.map(Some),
    }
}

/// Whether there is a folder, of an earlier object of this number. One that is younger than the
/// object, and its owner's or the server's, is none: another client makes a stream of the same
/// object right now. True without birth times.
fn is_lost(parent: BorrowedFd<'_>, folder: &str, object: &Statx) -> Result<bool, Errno> {
    let birth = |status: &Statx| {
        let is_known = status.stx_mask & StatxFlags::BTIME.bits() != 0;
        is_known.then_some((status.stx_btime.tv_sec, status.stx_btime.tv_nsec))
    };
    let Some(folder) = if_there(system::status_at(parent, folder))? else { return Ok(false) };
    let owners = [object.stx_uid, rustix::process::geteuid().as_raw()];
    let is_younger = birth(&folder).zip(birth(object)).is_some_and(|(folder, it)| folder > it);
    Ok(!is_younger || !owners.contains(&folder.stx_uid))
}

/// Status of a stream's file, or of a folder of streams, which had `status` a moment ago. Another
/// process of the server may just have made it, and gives it to the owner of the object within
/// these attempts.
fn settled(fd: BorrowedFd<'_>, mut status: Statx, object: &Statx) -> Result<Statx, Errno> {
    let maker = rustix::process::geteuid().as_raw();
    for _ in 0..SETTLE_ATTEMPTS_MAX {
        if status.stx_uid != maker || maker == object.stx_uid || !is_new(&status) {
            break;
        }
        std::thread::yield_now();
        status = system::status_of(fd)?;
    }
    Ok(status)
}

/// Whether something was made within the last seconds. Anything older stays with its owner.
fn is_new(status: &Statx) -> bool {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse).tv_sec;
    let age = status.stx_ctime.tv_sec.abs_diff(now);
    is_fresh(status) && age <= FRESH_SECONDS_MAX.unsigned_abs()
}

/// Whether this is an ordinary file that has no other name.
fn is_stream(status: &Statx) -> bool {
    is_file(status) && status.stx_nlink <= 1
}

/// Opens an ordinary file that has no other name, and returns its status, too.
fn open_file(
    folder: BorrowedFd<'_>,
    name: &OsStr,
    flags: OFlags,
    mode: u32,
) -> Result<(OwnedFd, Statx), Errno> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = system::open_beneath(folder, name, flags, mode, false)?;
    let status = system::status_of(file.as_fd())?;
    if !is_stream(&status) {
        return Err(Errno::ACCESS);
    }
    rustix::fs::fcntl_setfl(&file, OFlags::empty())?;
    Ok((file, status))
}

/// Removes a folder of streams with its files.
fn remove_folder(parent: BorrowedFd<'_>, name: &str) -> Result<(), Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
    let folder = system::open_beneath(parent, name, flags, 0, false)?;
    let mut entries = Entries::default();
    while let Some(file) = entries.next(folder.as_fd())? {
        rustix::fs::unlinkat(&folder, OsStr::from_bytes(file.to_bytes()), AtFlags::empty())?;
    }
    rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::{FRESH_SECONDS_MAX, is_new};
    use crate::sys::system;

    #[test]
    fn only_something_made_within_the_last_seconds_is_new() {
        let file = tempfile::tempfile().expect("there is space");
        let mut status = system::status_of(file.as_fd()).expect("open");
        assert!(is_new(&status));
        status.stx_btime.tv_sec -= FRESH_SECONDS_MAX + 1;
        status.stx_ctime.tv_sec -= FRESH_SECONDS_MAX + 1;
        assert!(!is_new(&status), "made and last changed before");
    }
}
