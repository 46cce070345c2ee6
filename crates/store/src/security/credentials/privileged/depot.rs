//! Files of named streams in a depot, laid out as by Samba's `vfs_streams_depot`.
//!
//! Users have no rights to the depot: those to the base file count. The kernel is asked for them
//! with the user's own rights; then the server's rights open the stream's file. A new file belongs
//! to the owner of the base file and has its permissions, so that Samba serves it to the same user.
//! Nothing below the depot is followed as a link, and no file with a second name is opened: users
//! may own directories there that Samba has made.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use rustix::fs::{AtFlags, Gid, Mode, OFlags, RenameFlags, Statx, StatxFlags, Uid};
use rustix::io::Errno;

use crate::cache::directories::Inode;
use crate::model::depot_path::DepotPath;
use crate::security::credentials::Impersonation;
use crate::settings::DepotSettings;
use crate::sys::entries::Entries;
use crate::sys::file_kind::is_file;
use crate::sys::system;
use crate::sys::trusted_path::{self, Links};
use crate::sys::xattr::Xattrs;

/// Extended attribute of a base file with streams in a depot. Its inode number may have been that
/// of a deleted file, whose streams must not appear again.
const MARK: &str = "user.SAMBA_STREAMS";

/// Value of that attribute: Samba writes no other.
const MARKED: &[u8] = b"1";

/// Mode of a depot that has to be made.
const DEPOT_MODE: u32 = 0o755;

/// Streams of one file that are listed.
const DEPOT_STREAMS_MAX: usize = 4_096;

/// Attempts to find a free name for streams that are lost.
const LOST_ATTEMPTS_MAX: u32 = 16;

/// How directories are opened: not through links, and without the right to list them.
const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW);

/// An object whose streams are in a depot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DepotBase<'a> {
    /// Settings of the share's depot.
    pub(crate) settings: &'a DepotSettings,
    /// The object, by its extended attributes.
    pub(crate) object: Xattrs<'a>,
}

/// Rights to the data of the base file that an operation on a stream needs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum DepotAccess {
    /// None: for names and sizes.
    Query,
    /// To read the base file.
    Read,
    /// To write the base file.
    Write,
    /// To read and write the base file.
    ReadWrite,
}

impl DepotAccess {
    /// Mode of `faccessat` for these rights.
    fn mode(self) -> libc::c_int {
        match self {
            Self::Query => libc::F_OK,
            Self::Read => libc::R_OK,
            Self::Write => libc::W_OK,
            Self::ReadWrite => libc::R_OK | libc::W_OK,
        }
    }

    /// Flags to open a stream's file with; its size can always be known.
    fn flags(self) -> OFlags {
        match self {
            Self::Query | Self::Read => OFlags::RDONLY,
            Self::Write | Self::ReadWrite => OFlags::RDWR,
        }
    }
}

impl Impersonation {
    /// Names of the files of an object's streams, no more than so many.
    pub(crate) fn list_depot(&mut self, base: DepotBase<'_>) -> Result<Vec<OsString>, Errno> {
        self.as_server(|| {
            let Some(folder) = if_there(base.folder())? else { return Ok(Vec::new()) };
            let folder = system::reopen(folder.as_fd(), OFlags::RDONLY | OFlags::DIRECTORY)?;
            let (mut names, mut entries) = (Vec::new(), Entries::default());
            while names.len() < DEPOT_STREAMS_MAX
                && let Some(name) = entries.next(folder.as_fd())?
            {
                names.push(OsString::from_vec(name.to_bytes().to_vec()));
            }
            Ok(names)
        })
    }

    /// Length of a stream in bytes; `None` if it is not there.
    pub(crate) fn depot_length(
        &mut self,
        base: DepotBase<'_>,
        name: &OsStr,
    ) -> Result<Option<u64>, Errno> {
        let status = self.as_server(|| {
            if_there(base.folder().and_then(|folder| system::status_at(folder.as_fd(), name)))
        })?;
        Ok(status.filter(is_file).map(|status| status.stx_size))
    }

    /// Opens a stream's file for a user who may access the base file so.
    pub(crate) fn open_in_depot(
        &mut self,
        base: DepotBase<'_>,
        name: &OsStr,
        access: DepotAccess,
    ) -> Result<OwnedFd, Errno> {
        base.object.may_access(access.mode())?;
        self.as_server(|| open_file(base.folder()?.as_fd(), name, access.flags(), 0))
    }

    /// Makes a stream's file, unless it is there, for a user who may write the base file; and opens
    /// it for reading and writing.
    pub(crate) fn create_in_depot(
        &mut self,
        base: DepotBase<'_>,
        name: &OsStr,
    ) -> Result<OwnedFd, Errno> {
        base.object.may_access(libc::W_OK)?;
        self.as_server(|| {
            let status = base.object.status()?;
            let folder = base.make_folder(&status)?;
            let mode = u32::from(status.stx_mode) & 0o666;
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
            match open_file(folder.as_fd(), name, flags, mode) {
                Err(Errno::EXIST) => open_file(folder.as_fd(), name, OFlags::RDWR, 0),
                file => file.inspect(|file| pass_to_owner(file.as_fd(), &status)),
            }
        })
    }

    /// Removes a stream's file for a user who may write the base file.
    pub(crate) fn remove_from_depot(
        &mut self,
        base: DepotBase<'_>,
        name: &OsStr,
    ) -> Result<(), Errno> {
        base.object.may_access(libc::W_OK)?;
        self.as_server(|| rustix::fs::unlinkat(base.folder()?, name, AtFlags::empty()))
    }

    /// Renames a stream's file, for a user who may write the base file. It replaces another one.
    pub(crate) fn rename_in_depot(
        &mut self,
        base: DepotBase<'_>,
        (old, new): (&OsStr, &OsStr),
    ) -> Result<(), Errno> {
        base.object.may_access(libc::W_OK)?;
        self.as_server(|| {
            let folder = base.folder()?;
            rustix::fs::renameat(&folder, old, &folder, new)
        })
    }

    /// Removes the streams of an object that has lost its last name.
    pub(crate) fn clear_depot(
        &mut self,
        settings: &DepotSettings,
        inode: Inode,
    ) -> Result<(), Errno> {
        self.as_server(|| {
            let path = DepotPath::of(inode);
            let Some(parent) = if_there(open_parent(settings, &path))? else { return Ok(()) };
            if_there(remove_folder(parent.as_fd(), &path.folder)).map(drop)
        })
    }
}

impl DepotBase<'_> {
    /// Opens the folder of the object's streams.
    ///
    /// # Errors
    /// NOENT if it has none.
    fn folder(&self) -> Result<OwnedFd, Errno> {
        let path = DepotPath::of(Inode::of(&self.object.status()?));
        let parent = open_parent(self.settings, &path)?;
        let folder = system::open_beneath(parent.as_fd(), &path.folder, DIRECTORY, 0, false)?;
        if self.is_marked()? { Ok(folder) } else { Err(Errno::NOENT) }
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

    /// Opens the folder of the object's streams, and makes it if it is missing.
    fn make_folder(&self, status: &Statx) -> Result<OwnedFd, Errno> {
        let path = DepotPath::of(Inode::of(status));
        let depot = self.make_depot()?;
        let [first, second] = &path.hashes;
        let first = make_directory(depot.as_fd(), first)?;
        let parent = make_directory(first.as_fd(), second)?;
        let is_marked = self.is_marked()?;
        if !is_marked && !is_made_for(parent.as_fd(), &path.folder, status) {
            self.set_aside(depot.as_fd(), parent.as_fd(), &path.folder)?;
        }
        let permissions = u32::from(status.stx_mode) & 0o777;
        // A directory is read with the right to enter it.
        let mode = permissions | (permissions & 0o444) >> 2 | 0o700;
        let made = not_there(rustix::fs::mkdirat(&parent, &path.folder, Mode::from(mode)))?;
        let folder = system::open_beneath(parent.as_fd(), &path.folder, DIRECTORY, 0, false)?;
        if made {
            pass_to_owner(folder.as_fd(), status);
        }
        if !is_marked {
            self.object.set(MARK, MARKED)?;
        }
        Ok(folder)
    }

    /// Opens the depot, and makes it if it is missing. It belongs to the owner of the directory
    /// that it is in, who could also replace it.
    fn make_depot(&self) -> Result<OwnedFd, Errno> {
        let directory = &self.settings.directory;
        match trusted_path::open(directory, Links::OfServer) {
            Err(Errno::NOENT) => {}
            opened => return opened,
        }
        let (parent, name) = directory.parent().zip(directory.file_name()).ok_or(Errno::INVAL)?;
        let parent = trusted_path::open(parent, Links::OfServer)?;
        make_with_mode(parent.as_fd(), name, DEPOT_MODE)
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
            let flags = RenameFlags::NOREPLACE;
            let moved = match rustix::fs::renameat_with(parent, folder, depot, &name, flags) {
                // A file system without NOREPLACE. Nothing else has such a name.
                Err(Errno::INVAL | Errno::NOSYS) => {
                    rustix::fs::renameat(parent, folder, depot, &name)
                }
                moved => moved,
            };
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

/// False if the object exists already.
fn not_there(made: Result<(), Errno>) -> Result<bool, Errno> {
    match made {
        Err(Errno::EXIST) => Ok(false),
        made => made.map(|()| true),
    }
}

/// Whether a folder is younger than an object. Then no earlier object of this number had it:
/// another client makes a stream of the same object right now. False without birth times.
fn is_made_for(parent: BorrowedFd<'_>, folder: &str, object: &Statx) -> bool {
    let birth = |status: &Statx| {
        let is_known = status.stx_mask & StatxFlags::BTIME.bits() != 0;
        is_known.then_some((status.stx_btime.tv_sec, status.stx_btime.tv_nsec))
    };
    let folder = system::status_at(parent, folder).ok().and_then(|status| birth(&status));
    folder.zip(birth(object)).is_some_and(|(folder, object)| folder > object)
}

/// Opens the directory of an object's folder.
fn open_parent(settings: &DepotSettings, path: &DepotPath) -> Result<OwnedFd, Errno> {
    let depot = trusted_path::open(&settings.directory, Links::OfServer)?;
    system::open_beneath(depot.as_fd(), path.hashes.join("/"), DIRECTORY, 0, false)
}

/// Opens a directory, and makes it with the permissions of the one that it is in.
fn make_directory(parent: BorrowedFd<'_>, name: &str) -> Result<OwnedFd, Errno> {
    match system::open_beneath(parent, name, DIRECTORY, 0, false) {
        Err(Errno::NOENT) => {
            let mode = u32::from(system::status_of(parent)?.stx_mode) & 0o1777;
            make_with_mode(parent, OsStr::new(name), mode)
        }
        opened => opened,
    }
}

/// Makes a directory for the owner of the one that it is in, and opens it.
fn make_with_mode(parent: BorrowedFd<'_>, name: &OsStr, mode: u32) -> Result<OwnedFd, Errno> {
    let made = not_there(rustix::fs::mkdirat(parent, name, Mode::from(mode)))?;
    let directory = system::open_beneath(parent, name, DIRECTORY, 0, false)?;
    if made {
        pass_to_owner(directory.as_fd(), &system::status_of(parent)?);
    }
    Ok(directory)
}

/// Gives something new to the owner of an object. A server without that right keeps it, and nobody
/// else has more rights to it.
fn pass_to_owner(fd: BorrowedFd<'_>, object: &Statx) {
    let owners = (Uid::from_raw(object.stx_uid), Gid::from_raw(object.stx_gid));
    let _ = rustix::fs::chownat(fd, c"", Some(owners.0), Some(owners.1), AtFlags::EMPTY_PATH);
}

/// Opens an ordinary file that has no other name.
fn open_file(
    folder: BorrowedFd<'_>,
    name: &OsStr,
    flags: OFlags,
    mode: u32,
) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = system::open_beneath(folder, name, flags, mode, false)?;
    let status = system::status_of(file.as_fd())?;
    if !is_file(&status) || status.stx_nlink > 1 {
        return Err(Errno::ACCESS);
    }
    rustix::fs::fcntl_setfl(&file, OFlags::empty())?;
    Ok(file)
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
