//! Forms in which a share keeps named streams: extended attributes, or files in a depot.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;

use crate::model::root::Root;
use crate::model::stream_name::StreamName;
use crate::security::credentials::{Depot, DepotAccess, Impersonation};
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
    Depot(Depot<'a>),
}

impl<'a> StreamForm<'a> {
    pub(crate) fn new(user: &'a mut Impersonation, root: &'a Root, object: Xattrs<'a>) -> Self {
        match &root.settings.streams_depot {
            Some(settings) => Self::Depot(Depot::new(user, settings, object)),
            None => Self::Attributes(object),
        }
    }

    /// Returns the names of all streams, and those of attributes if they had to be read.
    pub(crate) fn names(&mut self) -> Result<(Vec<StreamName>, Option<Vec<String>>), Errno> {
        match self {
            Self::Attributes(xattrs) => {
                let names = xattrs.names()?;
                let streams = names.iter().filter_map(|name| StreamName::from_attribute(name));
                Ok((streams.collect(), Some(names)))
            }
            Self::Depot(depot) => {
                let mut files = depot.names()?;
                files.sort_unstable();
                let files = files.iter().filter_map(|name| name.to_str());
                Ok((files.filter_map(StreamName::from_file).collect(), None))
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
            Self::Depot(depot) => depot.length(OsStr::new(&name.file())),
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
            Self::Depot(depot) => {
                let access = DepotAccess { reads: true, writes: false };
                match depot.open(OsStr::new(&name.file()), access) {
                    Ok(file) => read_whole(&file).map(Some),
                    Err(Errno::NOENT) => Ok(None),
                    Err(errno) => Err(errno),
                }
            }
        }
    }

    /// As [`load`](Self::load), of a stream whose attribute fits `buffer`; others take memory.
    pub(crate) fn load_short<'b>(
        &mut self,
        name: &StreamName,
        buffer: &'b mut [u8],
    ) -> Result<Option<Cow<'b, [u8]>>, Errno> {
        if let Self::Attributes(xattrs) = self {
            match xattrs.get_into(&name.attribute, buffer) {
                Err(Errno::RANGE) => {}
                length => {
                    let value = if_there(length)?.map(|length| length.saturating_sub(1));
                    return Ok(value.and_then(|length| buffer.get(..length)).map(Cow::Borrowed));
                }
            }
        }
        Ok(self.load(name)?.map(Cow::Owned))
    }

    /// Replaces the bytes, and makes the stream if it is missing.
    pub(crate) fn save(&mut self, name: &StreamName, mut value: Vec<u8>) -> Result<(), Errno> {
        match self {
            Self::Attributes(xattrs) => {
                value.push(0);
                xattrs.set(&name.attribute, &value)
            }
            Self::Depot(depot) => {
                let file = depot.create(OsStr::new(&name.file()))?;
                rustix::fs::ftruncate(&file, 0)?;
                system::write_all_at(&file, &value, 0)
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
            Self::Depot(depot) => depot.open(OsStr::new(&name.file()), access).map(Some),
        }
    }

    /// Opens the file of a stream for writing, and makes it if it is missing; `None` where streams
    /// are no files.
    pub(crate) fn create(&mut self, name: &StreamName) -> Result<Option<OwnedFd>, Errno> {
        match self {
            Self::Attributes(_) => Ok(None),
            Self::Depot(depot) => depot.create(OsStr::new(&name.file())).map(Some),
        }
    }

    /// Removes a stream.
    ///
    /// # Errors
    /// NODATA if there is no such stream.
    pub(crate) fn remove(&mut self, name: &StreamName) -> Result<(), Errno> {
        match self {
            Self::Attributes(xattrs) => xattrs.remove(&name.attribute),
            Self::Depot(depot) => {
                let removed = depot.remove(OsStr::new(&name.file()));
                removed.map_err(|errno| if errno == Errno::NOENT { Errno::NODATA } else { errno })
            }
        }
    }

    /// Renames the file of a stream, which may replace another. Returns false where streams are no
    /// files, and nothing is done.
    pub(crate) fn rename(&mut self, old: &StreamName, new: &StreamName) -> Result<bool, Errno> {
        match self {
            Self::Attributes(_) => Ok(false),
            Self::Depot(depot) => {
                let (old, new) = (old.file(), new.file());
                depot.rename(OsStr::new(&old), OsStr::new(&new))?;
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
