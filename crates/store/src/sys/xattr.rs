//! Extended attributes of the host, read and written by descriptor or by name.

use std::ffi::CStr;
use std::os::fd::BorrowedFd;

use rustix::fs::{Statx, XattrFlags};
use rustix::io::Errno;
use rustix::path::Arg;

use crate::sys::system;

/// Bytes of the first buffer; most values fit.
const VALUE_BYTES_FIRST: usize = 1_024;

/// `XATTR_SIZE_MAX` and `XATTR_LIST_MAX`: the kernel has no longer ones.
const BYTES_MAX: usize = 65_536;

/// Presence of a name in a list of the names in `user.`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Listed {
    /// The list has no names.
    Nothing,
    /// The list has other names only.
    Others,
    /// The list has the wanted name.
    Wanted,
}

/// The extended attributes of one object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Xattrs<'a>(Of<'a>);

#[derive(Clone, Copy, Debug)]
enum Of<'a> {
    /// An open file, for reading attributes by descriptor.
    File(BorrowedFd<'a>),
    /// An object opened with O_PATH, for paths through `/proc` only.
    Path(BorrowedFd<'a>),
    /// An entry of a directory, the link itself if it is one.
    Entry(BorrowedFd<'a>, &'a CStr),
}

impl<'a> Xattrs<'a> {
    pub(crate) fn new(fd: BorrowedFd<'a>, path_only: bool) -> Self {
        Self(if path_only { Of::Path(fd) } else { Of::File(fd) })
    }

    /// Those of an entry of a directory, to be read only.
    pub(crate) fn at(directory: BorrowedFd<'a>, name: &'a CStr) -> Self {
        Self(Of::Entry(directory, name))
    }

    /// Status of the object that has them.
    pub(crate) fn status(self) -> Result<Statx, Errno> {
        match self.0 {
            Of::File(fd) | Of::Path(fd) => system::status_of(fd),
            Of::Entry(directory, entry) => system::status_at(directory, entry),
        }
    }

    /// Whether the effective user may access the object in all the ways of `mode` (R_OK…).
    pub(crate) fn may_access(self, mode: libc::c_int) -> Result<(), Errno> {
        match self.0 {
            Of::File(fd) | Of::Path(fd) => system::may_access(fd, mode),
            Of::Entry(directory, entry) => system::may_access_entry(directory, entry, mode),
        }
    }

    pub(crate) fn get(self, name: &str) -> Result<Vec<u8>, Errno> {
        grow(|buffer| self.get_into(name, buffer))
    }

    /// As [`get`](Self::get), into a buffer that the value is known to fit into and is not empty.
    pub(crate) fn get_into(self, name: impl Arg, buffer: &mut [u8]) -> Result<usize, Errno> {
        name.into_with_c_str(|name| match self.0 {
            Of::File(fd) => rustix::fs::fgetxattr(fd, name, buffer),
            Of::Path(fd) => system::attribute_of_path(fd, name, buffer),
            Of::Entry(directory, entry) => system::attribute_at(directory, entry, name, buffer),
        })
    }

    /// Returns the length of a value in bytes.
    pub(crate) fn length(self, name: &str) -> Result<usize, Errno> {
        match self.0 {
            Of::File(fd) => rustix::fs::fgetxattr_query(fd, name),
            Of::Path(_) | Of::Entry(..) => self.get_into(name, &mut []),
        }
    }

    pub(crate) fn set(self, name: &str, value: &[u8]) -> Result<(), Errno> {
        let flags = XattrFlags::empty();
        match self.0 {
            Of::File(fd) => rustix::fs::fsetxattr(fd, name, value, flags),
            Of::Path(fd) => rustix::fs::setxattr(system::magic_path(fd), name, value, flags),
            Of::Entry(..) => Err(Errno::BADF),
        }
    }

    pub(crate) fn remove(self, name: &str) -> Result<(), Errno> {
        match self.0 {
            Of::File(fd) => rustix::fs::fremovexattr(fd, name),
            Of::Path(fd) => rustix::fs::removexattr(system::magic_path(fd), name),
            Of::Entry(..) => Err(Errno::BADF),
        }
    }

    /// The names of all, each with a terminator, into a buffer; ERANGE if it is too small.
    pub(crate) fn names_into(self, buffer: &mut [u8]) -> Result<usize, Errno> {
        match self.0 {
            Of::File(fd) => rustix::fs::flistxattr(fd, buffer),
            Of::Path(fd) => system::attribute_names_of_path(fd, buffer),
            Of::Entry(directory, entry) => system::attribute_names_at(directory, entry, buffer),
        }
    }

    /// Whether an attribute is there, and whether any is. ERANGE if there are very many.
    pub(crate) fn listed(self, wanted: &str) -> Result<Listed, Errno> {
        let mut list = [0; VALUE_BYTES_FIRST];
        let length = self.names_into(&mut list)?;
        let list = list.get(..length).unwrap_or_default();
        let mut listed = Listed::Nothing;
        for name in list.split(|byte| *byte == 0).filter(|name| name.starts_with(b"user.")) {
            if name == wanted.as_bytes() {
                return Ok(Listed::Wanted);
            }
            listed = Listed::Others;
        }
        Ok(listed)
    }

    /// The names in `user.`, those left out that are not UTF-8. None where the file system has no
    /// extended attributes.
    pub(crate) fn names(self) -> Result<Vec<String>, Errno> {
        match grow(|buffer| self.names_into(buffer)) {
            Ok(list) => Ok(names_in(&list)),
            Err(Errno::OPNOTSUPP) => Ok(Vec::new()),
            Err(errno) => Err(errno),
        }
    }
}

/// The names of a list as the kernel gives it.
fn names_in(list: &[u8]) -> Vec<String> {
    let names = list.split(|byte| *byte == 0).filter_map(|name| std::str::from_utf8(name).ok());
    names.filter(|name| name.starts_with("user.")).map(str::to_owned).collect()
}

/// Calls with a small buffer, then with the largest that is ever needed.
fn grow(mut call: impl FnMut(&mut [u8]) -> Result<usize, Errno>) -> Result<Vec<u8>, Errno> {
    let mut buffer = vec![0; VALUE_BYTES_FIRST];
    let length = match call(&mut buffer) {
        Err(Errno::RANGE) => {
            buffer.resize(BYTES_MAX, 0);
            call(&mut buffer)?
        }
        result => result?,
    };
    buffer.truncate(length);
    Ok(buffer)
}
