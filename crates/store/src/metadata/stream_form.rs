//! Forms in which a share keeps named streams: extended attributes, or files in a depot.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;

use crate::model::root::Root;
use crate::model::stream_name::StreamName;
use crate::security::credentials::{DepotAccess, DepotBase, Impersonation};
use crate::sys::lengths::as_u64;
use crate::sys::system;
use crate::sys::xattr::Xattrs;

/// Longest stream in an extended attribute: `XATTR_SIZE_MAX` without the byte at the end. File
/// systems may take less (ext4: a block). A longer one in a depot is never read whole.
pub(crate) const STREAM_BYTES_MAX: u64 = 65_535;

/// The streams of one object, as bytes by name.
#[derive(Debug)]
pub(crate) enum StreamForm<'a> {
    /// Extended attributes, as Samba's `vfs_streams_xattr` keeps them: the stream `s` is the value
    /// of `user.DosStream.s:$DATA`, followed by one byte of zero.
    Attributes(Xattrs<'a>),
    /// Files in a depot, as Samba's `vfs_streams_depot` keeps them: the stream `s` is `:s:$DATA`.
    Depot(DepotBase<'a>, &'a mut Impersonation),
}

impl<'a> StreamForm<'a> {
    pub(crate) fn new(user: &'a mut Impersonation, root: &'a Root, object: Xattrs<'a>) -> Self {
        match &root.settings.streams_depot {
            Some(settings) => {
                let base = DepotBase { settings, object, user: user.effective().uid };
                Self::Depot(base, user)
            }
            None => Self::Attributes(object),
        }
    }

    /// Returns the names of all streams.
    pub(crate) fn names(&mut self) -> Result<Vec<StreamName>, Errno> {
        match self {
            Self::Attributes(xattrs) => {
                let names = xattrs.names()?;
                Ok(names.iter().filter_map(|name| StreamName::from_attribute(name)).collect())
            }
            Self::Depot(base, user) => {
                let mut files = user.list_depot(*base)?;
                files.sort_unstable();
                let files = files.iter().filter_map(|name| name.to_str());
                Ok(files.filter_map(StreamName::from_file).collect())
            }
        }
    }

    /// Returns the length in bytes; `None` if there is no such stream.
    pub(crate) fn length(&mut self, name: &StreamName) -> Result<Option<u64>, Errno> {
        match self {
            Self::Attributes(xattrs) => {
                let length = if_there(xattrs.length(&name.attribute))?;
                Ok(length.map(|length| as_u64(length.saturating_sub(1))))
            }
            Self::Depot(base, user) => user.depot_length(*base, OsStr::new(&name.file())),
        }
    }

    /// Returns the bytes; `None` if there is no such stream.
    ///
    /// # Errors
    /// FBIG for a stream that no attribute could hold.
    pub(crate) fn load(&mut self, name: &StreamName) -> Result<Option<Vec<u8>>, Errno> {
        match self {
            Self::Attributes(xattrs) => {
                let value = if_there(xattrs.get(&name.attribute))?;
                Ok(value.map(|mut value| {
                    value.pop();
                    value
                }))
            }
            Self::Depot(..) => match self.open(name, DepotAccess::Read) {
                Ok(Some(file)) => read_whole(&file).map(Some),
                Ok(None) | Err(Errno::NOENT) => Ok(None),
                Err(errno) => Err(errno),
            },
        }
    }

    /// Replaces the bytes, and makes the stream if it is missing.
    pub(crate) fn save(&mut self, name: &StreamName, mut value: Vec<u8>) -> Result<(), Errno> {
        match self {
            Self::Attributes(xattrs) => {
                value.push(0);
                xattrs.set(&name.attribute, &value)
            }
            Self::Depot(base, user) => {
                let file = user.create_in_depot(*base, OsStr::new(&name.file()))?;
                rustix::fs::ftruncate(&file, 0)?;
                let mut written = 0;
                while written < value.len() {
                    let (rest, offset) = (&value[written..], as_u64(written));
                    match rustix::io::retry_on_intr(|| rustix::io::pwrite(&file, rest, offset))? {
                        0 => return Err(Errno::IO),
                        count => written += count,
                    }
                }
                Ok(())
            }
        }
    }

    /// Opens the file of a stream; `None` where streams are no files.
    ///
    /// # Errors
    /// NOENT if there is no such stream.
    pub(crate) fn open(
        &mut self,
        name: &StreamName,
        access: DepotAccess,
    ) -> Result<Option<OwnedFd>, Errno> {
        match self {
            Self::Attributes(_) => Ok(None),
            Self::Depot(base, user) => {
                user.open_in_depot(*base, OsStr::new(&name.file()), access).map(Some)
            }
        }
    }

    /// Opens the file of a stream for writing, and makes it if it is missing; `None` where streams
    /// are no files.
    pub(crate) fn create(&mut self, name: &StreamName) -> Result<Option<OwnedFd>, Errno> {
        match self {
            Self::Attributes(_) => Ok(None),
            Self::Depot(base, user) => {
                user.create_in_depot(*base, OsStr::new(&name.file())).map(Some)
            }
        }
    }

    /// Removes a stream.
    ///
    /// # Errors
    /// NODATA if there is no such stream.
    pub(crate) fn remove(&mut self, name: &StreamName) -> Result<(), Errno> {
        match self {
            Self::Attributes(xattrs) => xattrs.remove(&name.attribute),
            Self::Depot(base, user) => {
                let removed = user.remove_from_depot(*base, OsStr::new(&name.file()));
                removed.map_err(|errno| if errno == Errno::NOENT { Errno::NODATA } else { errno })
            }
        }
    }

    /// Renames the file of a stream, which may replace another. Returns false where streams are no
    /// files, and nothing is done.
    pub(crate) fn rename(&mut self, old: &StreamName, new: &StreamName) -> Result<bool, Errno> {
        match self {
            Self::Attributes(_) => Ok(false),
            Self::Depot(base, user) => {
                let (old, new) = (old.file(), new.file());
                user.rename_in_depot(*base, (OsStr::new(&old), OsStr::new(&new)))?;
                Ok(true)
            }
        }
    }
}

/// `None` for an attribute that is not there, also where the file system has none.
fn if_there<T>(result: Result<T, Errno>) -> Result<Option<T>, Errno> {
    match result {
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(None),
        result => result.map(Some),
    }
}

fn read_whole(file: &OwnedFd) -> Result<Vec<u8>, Errno> {
    let size = system::status_of(file.as_fd())?.stx_size;
    let size = usize::try_from(size).ok().filter(|_| size <= STREAM_BYTES_MAX);
    let mut value = vec![0; size.ok_or(Errno::FBIG)?];
    let length = rustix::io::retry_on_intr(|| rustix::io::pread(file, &mut value[..], 0))?;
    value.truncate(length);
    Ok(value)
}
