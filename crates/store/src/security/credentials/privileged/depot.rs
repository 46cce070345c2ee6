//! Files of named streams in a depot, laid out as by Samba's `vfs_streams_depot`.
//!
//! Users have no rights to the depot: those to the base file count. The kernel is asked for them
//! with the user's own rights; then the server's rights open the stream's file. A new file belongs
//! to the owner of the base file and has its permissions, so that Samba serves it to the same user.
//!
//! That holds for a depot of the server's ([`Way`]); in any other one, such as that of a user of
//! Samba, all calls have the user's own rights. Owners of base files own the folders of their
//! streams, and can move files of others there. So the server's rights open only what belongs to
//! the owner of the base file; anything else takes the user's own rights, as with Samba. Nothing
//! below the depot is followed as a link, and no file with a second name is opened.

mod directories;

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use rustix::fs::{AtFlags, OFlags, Statx, StatxFlags};
use rustix::io::Errno;

use self::directories::{CallRights, Way, or_remove, pass_to_owner};
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

/// Streams of one file in a list, and in a removal of the file.
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
        let base = DepotBase { settings, object };
        Self { base, user, folder: None, lacks_folder: false }
    }

    /// Names of the files of the streams, no more than so many. None are told of a folder that the
    /// user may not list, unless it is one of the owner's in a depot of the server's.
    pub(crate) fn names(&mut self) -> Result<Vec<OsString>, Errno> {
        let Some((user, folder)) = if_there(self.folder())? else { return Ok(Vec::new()) };
        let names = user.in_folder(folder, || {
            let folder = system::reopen(folder.fd.as_fd(), OFlags::RDONLY | OFlags::DIRECTORY)?;
            entries_of(folder.as_fd(), DEPOT_STREAMS_MAX)
        });
        match names {
            Err(Errno::ACCESS | Errno::PERM) if !folder.takes_server() => Ok(Vec::new()),
            names => names,
        }
    }

    /// Length of a stream in bytes; `None` if it is not there, or is a file of somebody else's that
    /// the user may not read.
    pub(crate) fn length(&mut self, name: &OsStr) -> Result<Option<u64>, Errno> {
        verify_name(name)?;
        let Some((user, folder)) = if_there(self.folder())? else { return Ok(None) };
        let look = || {
            let flags = OFlags::PATH | OFlags::NOFOLLOW;
            let file = system::open_beneath(folder.fd.as_fd(), name, flags, 0, false)?;
            let status = folder.settled(file.as_fd(), system::status_of(file.as_fd())?)?;
            Ok((file, status))
        };
        let found = if folder.is_servers { user.as_server(look) } else { look() };
        let (file, status) = match found {
            // A link.
            Err(Errno::LOOP) => return Ok(None),
            Err(Errno::ACCESS) if !folder.is_servers => return Ok(None),
            found => match if_there(found)? {
                Some(found) => found,
                None => return Ok(None),
            },
        };
        let may_read = || {
            system::may_access(folder.fd.as_fd(), libc::X_OK).is_ok()
                && system::may_access(file.as_fd(), libc::R_OK).is_ok()
        };
        let is_told = is_stream(&status)
            && folder.verify_owner(&status).is_ok()
            && (folder.is_owners_stream(&status) || may_read());
        Ok(is_told.then_some(status.stx_size))
    }

    /// Opens a stream's file for a user who may access the base file so.
    pub(crate) fn open(&mut self, name: &OsStr, access: DepotAccess) -> Result<OwnedFd, Errno> {
        verify_name(name)?;
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
        verify_name(name)?;
        self.base.object.may_access(libc::W_OK)?;
        let may_keep = !self.user.enabled;
        if self.folder.is_none() {
            let base = self.base;
            let folder = self.user.in_depot(|rights| base.make_folder(rights, may_keep))?;
            self.folder = Some(Box::new(folder));
            self.lacks_folder = false;
        }
        let (user, folder) = self.folder()?;
        let made = user.in_folder(folder, || {
            let mode = u32::from(folder.base.stx_mode) & 0o666;
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
            let (file, _) = open_file(folder.fd.as_fd(), name, flags, mode)?;
            if folder.takes_server() {
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
        verify_name(name)?;
        self.base.object.may_access(libc::W_OK)?;
        let (user, folder) = self.folder()?;
        user.in_folder(folder, || rustix::fs::unlinkat(&folder.fd, name, AtFlags::empty()))
    }

    /// Renames a stream's file, for a user who may write the base file. It replaces another one.
    pub(crate) fn rename(&mut self, old: &OsStr, new: &OsStr) -> Result<(), Errno> {
        verify_name(old)?;
        verify_name(new)?;
        self.base.object.may_access(libc::W_OK)?;
        let (user, folder) = self.folder()?;
        user.in_folder(folder, || rustix::fs::renameat(&folder.fd, old, &folder.fd, new))
    }

    /// Removes the streams of an object that has lost its last name. Those of a former object of
    /// its number stay.
    ///
    /// # Errors
    /// As those of [`remove_folder`].
    pub(crate) fn clear(self) -> Result<(), Errno> {
        let Self { base, user, .. } = self;
        let cleared = user.in_depot(|rights| {
            let (way, path, folder) = base.open(rights)?;
            remove_folder(&way, &path, &folder)
        });
        if_there(cleared).map(drop)
    }

    /// Opens the folder of the streams, unless it is open. It comes with the user, whose rights
    /// calls in it may need.
    ///
    /// # Errors
    /// As those of [`DepotBase::open`].
    fn folder(&mut self) -> Result<(&mut Impersonation, &Folder), Errno> {
        let Self { base, user, folder, lacks_folder } = self;
        if folder.is_none() {
            if *lacks_folder {
                return Err(Errno::NOENT);
            }
            let opened = user.in_depot(|rights| base.open(rights));
            *lacks_folder = matches!(opened, Err(Errno::NOENT));
            *folder = Some(Box::new(opened?.2));
        }
        Ok((user, folder.as_deref().ok_or(Errno::NOENT)?))
    }
}

impl Impersonation {
    /// Runs calls from the depot to a folder of streams: with the server's rights, and once more
    /// with the user's own where a directory is not the server's. A user who is root has none
    /// beside the server's, and may not even be the requester (a delegated deletion).
    fn in_depot<T>(&mut self, call: impl Fn(CallRights) -> Result<T, Errno>) -> Result<T, Errno> {
        let done = self.as_server(|| call(CallRights::Server));
        let user = self.effective().uid;
        match done {
            Err(Errno::ACCESS) if user != 0 || !self.enabled => call(CallRights::User(user)),
            done => done,
        }
    }

    /// Opens the file of a stream that is there: with the server's rights if it belongs to the
    /// owner of the base file in a depot of the server's, otherwise with the user's own.
    fn open_stream(
        &mut self,
        folder: &Folder,
        name: &OsStr,
        flags: OFlags,
    ) -> Result<OwnedFd, Errno> {
        let at = folder.fd.as_fd();
        if folder.takes_server() {
            let opened = self.as_server(|| {
                let (file, status) = open_file(at, name, flags, 0)?;
                let status = folder.settled(file.as_fd(), status)?;
                Ok(folder.is_owners_stream(&status).then_some(file))
            })?;
            if let Some(file) = opened {
                return Ok(file);
            }
        }
        let (file, status) = open_file(at, name, flags, 0)?;
        folder.verify_owner(&status)?;
        Ok(file)
    }

    /// Runs a call in a folder of streams: with the server's rights if the folder belongs to the
    /// owner of the base file in a depot of the server's, otherwise with the user's own.
    fn in_folder<T>(
        &mut self,
        folder: &Folder,
        call: impl FnOnce() -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        if folder.takes_server() { self.as_server(call) } else { call() }
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
    /// It is in a depot of the server's.
    is_servers: bool,
    /// It is below a directory of a third party: only what belongs to this user or to the owner of
    /// the object is used.
    suspects_others_than: Option<u32>,
}

impl Folder {
    /// # Errors
    /// ACCESS for a folder that a third party could have put there.
    fn new(fd: OwnedFd, base: Statx, (way, rights): (&Way, CallRights)) -> Result<Self, Errno> {
        let status = system::status_of(fd.as_fd())?;
        let is_servers = rights == CallRights::Server;
        let user = match rights {
            CallRights::User(user) if way.is_third_partys => Some(user),
            _ => None,
        };
        let folder = Self { fd, status, base, is_servers, suspects_others_than: user };
        let status = folder.settled(folder.fd.as_fd(), status)?;
        folder.verify_owner(&status)?;
        Ok(Self { status, ..folder })
    }

    /// Refuses what a third party could have put there.
    fn verify_owner(&self, status: &Statx) -> Result<(), Errno> {
        let is_suspect = self
            .suspects_others_than
            .is_some_and(|user| ![user, self.base.stx_uid].contains(&status.stx_uid));
        if is_suspect { Err(Errno::ACCESS) } else { Ok(()) }
    }

    /// Whether calls in the folder have the server's rights.
    fn takes_server(&self) -> bool {
        self.is_servers && self.is_owners()
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

    /// Status of a stream's file, or of the folder itself, which had `status` a moment ago. In a
    /// depot of the server's another process may just have made it, and gives it to the owner of
    /// the object within these attempts.
    fn settled(&self, fd: BorrowedFd<'_>, mut status: Statx) -> Result<Statx, Errno> {
        let maker = rustix::process::geteuid().as_raw();
        let may_be_given = self.is_servers && maker != self.base.stx_uid;
        for _ in 0..SETTLE_ATTEMPTS_MAX {
            if !may_be_given || status.stx_uid != maker || !is_new(&status) {
                break;
            }
            std::thread::yield_now();
            status = system::status_of(fd)?;
        }
        Ok(status)
    }
}

impl DepotBase<'_> {
    /// Opens the folder of the object's streams, and the directories on the way to it.
    ///
    /// # Errors
    /// NOENT if it has none; ACCESS for a depot that may not be used with these rights.
    fn open(&self, rights: CallRights) -> Result<(Way, DepotPath, Folder), Errno> {
        let status = self.object.status()?;
        let path = DepotPath::of(Inode::of(&status));
        let way = Way::open(self.settings, &path, rights)?;
        let folder = way.folder(&path)?;
        if !self.is_marked()? {
            return Err(Errno::NOENT);
        }
        let folder = Folder::new(folder, status, (&way, rights))?;
        Ok((way, path, folder))
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
    fn make_folder(&self, rights: CallRights, may_keep: bool) -> Result<Folder, Errno> {
        let status = self.object.status()?;
        let path = DepotPath::of(Inode::of(&status));
        let way = Way::make(self.settings, &path, rights)?;
        let is_marked = self.is_marked()?;
        if !is_marked && is_lost(&way, &path, &status)? {
            self.take_away(&way, &path, (status, rights))?;
        }
        let permissions = u32::from(status.stx_mode) & 0o777;
        // A directory is read with the right to enter it.
        let mode = permissions | (permissions & 0o444) >> 2 | 0o700;
        let folder = match rights {
            CallRights::Server => way.make_folder_for_owner(&path, mode, (&status, may_keep))?,
            CallRights::User(_) => way.make_folder(&path, mode)?,
        };
        if !is_marked {
            self.object.set(MARK, MARKED)?;
        }
        Folder::new(folder, status, (&way, rights))
    }

    /// Takes away a folder of another object, which had the same number and is gone.
    fn take_away(
        &self,
        way: &Way,
        path: &DepotPath,
        (object, rights): (Statx, CallRights),
    ) -> Result<(), Errno> {
        if self.settings.delete_lost {
            let folder = Folder::new(way.folder(path)?, object, (way, rights))?;
            match remove_folder(way, path, &folder) {
                // Another owner's folder, or one with other files.
                Err(Errno::PERM | Errno::NOTEMPTY) => {}
                removed => return if_there(removed).map(drop),
            }
        }
        set_aside(way, path)
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
/// object, and its owner's or the maker's, is none: another client makes a stream of the same
/// object right now. True without birth times.
fn is_lost(way: &Way, path: &DepotPath, object: &Statx) -> Result<bool, Errno> {
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

/// Refuses a name that is none of a stream's file, such as a path.
fn verify_name(name: &OsStr) -> Result<(), Errno> {
    let is_name = |bytes: &[u8]| bytes.starts_with(b":") && !bytes.contains(&b'/');
    if is_name(name.as_bytes()) { Ok(()) } else { Err(Errno::INVAL) }
}

/// Names in a directory, no more than so many.
fn entries_of(directory: BorrowedFd<'_>, max: usize) -> Result<Vec<OsString>, Errno> {
    let (mut names, mut entries) = (Vec::new(), Entries::default());
    while names.len() < max
        && let Some(name) = entries.next(directory)?
    {
        names.push(OsString::from_vec(name.to_bytes().to_vec()));
    }
    Ok(names)
}

/// Removes a folder of streams with its files. Others than the first [`DEPOT_STREAMS_MAX`] are set
/// aside with the folder, so that this takes no longer than it may.
///
/// # Errors
/// Nothing is removed then: PERM for a folder that does not belong to the object's owner, who could
/// have removed it; NOTEMPTY if anything in it is no stream.
fn remove_folder(way: &Way, path: &DepotPath, folder: &Folder) -> Result<(), Errno> {
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
fn set_aside(way: &Way, path: &DepotPath) -> Result<(), Errno> {
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
