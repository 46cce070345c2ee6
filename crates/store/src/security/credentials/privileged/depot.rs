//! Files of named streams in a depot, laid out as by Samba's `vfs_streams_depot`.
//!
//! Users have no rights to the depot: those to the base file count. The kernel is asked for them
//! with the user's own rights; then the server's rights open the stream's file. A new file belongs
//! to the owner of the base file, so that Samba serves it to that user, and is closed to all
//! others: the base file may be closed by its path or an ACL, now or later.
//!
//! That holds for a depot of the server's ([`Way`]); in any other one, such as that of a user of
//! Samba, all calls have the user's own rights. Owners of base files own the folders of their
//! streams, and can move files of others there. So the server's rights open only what belongs to
//! the owner of the base file, in folders that nobody else may write; anything else takes the
//! user's own rights, as with Samba. Nothing below the depot is followed as a link, and no file
//! with a second name is opened.

mod directories;
mod folder;
mod removal;

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use rustix::fs::{AtFlags, OFlags, Statx};
use rustix::io::Errno;

use self::directories::{CallRights, Way, or_remove, pass_to_owner};
use self::folder::Folder;
use self::removal::{is_lost, remove_folder, set_aside};
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
            let mode = folder.mode_of_file();
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

    /// Gives the streams to the owner of the object, which belonged to `former` a moment ago. Those
    /// in a depot that is not the server's stay.
    ///
    /// # Errors
    /// As those of [`Folder::give_along`].
    pub(crate) fn give_along(self, former: u32) -> Result<(), Errno> {
        let Self { base, user, .. } = self;
        let given = user.as_server(|| match base.open(CallRights::Server) {
            Err(Errno::ACCESS) => Ok(()),
            opened => opened?.2.give_along(former),
        });
        if_there(given).map(drop)
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
        let folder = match rights {
            CallRights::Server => way.make_folder_for_owner(&path, (&status, may_keep))?,
            CallRights::User(_) => {
                let permissions = u32::from(status.stx_mode) & 0o777;
                // A directory is read with the right to enter it.
                let mode = permissions | (permissions & 0o444) >> 2 | 0o700;
                way.make_folder(&path, mode)?
            }
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
