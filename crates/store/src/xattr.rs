//! Extended attributes of the host, of objects that are open in whatever way.

use std::os::fd::BorrowedFd;

use rustix::fs::XattrFlags;
use rustix::io::Errno;

use crate::system;

/// What most values fit into.
const VALUE_BYTES_FIRST: usize = 1_024;

/// `XATTR_SIZE_MAX` and `XATTR_LIST_MAX`: the kernel has no longer ones.
const BYTES_MAX: usize = 65_536;

/// The extended attributes of one object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attributes<'a> {
    fd: BorrowedFd<'a>,
    /// The descriptor was opened with O_PATH and is good for paths only.
    path_only: bool,
}

impl<'a> Attributes<'a> {
    pub(crate) fn new(fd: BorrowedFd<'a>, path_only: bool) -> Self {
        Self { fd, path_only }
    }

    pub(crate) fn get(self, name: &str) -> Result<Vec<u8>, Errno> {
        grow(|buffer| self.get_into(name, buffer))
    }

    /// As [`get`](Self::get), into a buffer that the value is known to fit into.
    pub(crate) fn get_into(self, name: &str, buffer: &mut [u8]) -> Result<usize, Errno> {
        if self.path_only {
            rustix::fs::getxattr(system::magic_path(self.fd), name, buffer)
        } else {
            rustix::fs::fgetxattr(self.fd, name, buffer)
        }
    }

    /// Bytes of a value.
    pub(crate) fn length(self, name: &str) -> Result<usize, Errno> {
        if self.path_only {
            rustix::fs::getxattr_query(system::magic_path(self.fd), name)
        } else {
            rustix::fs::fgetxattr_query(self.fd, name)
        }
    }

    pub(crate) fn set(self, name: &str, value: &[u8]) -> Result<(), Errno> {
        let flags = XattrFlags::empty();
        if self.path_only {
            rustix::fs::setxattr(system::magic_path(self.fd), name, value, flags)
        } else {
            rustix::fs::fsetxattr(self.fd, name, value, flags)
        }
    }

    pub(crate) fn remove(self, name: &str) -> Result<(), Errno> {
        if self.path_only {
            rustix::fs::removexattr(system::magic_path(self.fd), name)
        } else {
            rustix::fs::fremovexattr(self.fd, name)
        }
    }

    /// The names in `user.`, those left out that are not UTF-8. None where the file system has no
    /// extended attributes.
    pub(crate) fn names(self) -> Result<Vec<String>, Errno> {
        let list = grow(|buffer| {
            if self.path_only {
                rustix::fs::listxattr(system::magic_path(self.fd), buffer)
            } else {
                rustix::fs::flistxattr(self.fd, buffer)
            }
        });
        match list {
            Ok(list) => Ok(names_in(&list)),
            Err(Errno::OPNOTSUPP) => Ok(Vec::new()),
            Err(errno) => Err(errno),
        }
    }
}

/// The names of a list as the kernel gives it.
pub(crate) fn names_in(list: &[u8]) -> Vec<String> {
    let names = list.split(|byte| *byte == 0).filter_map(|name| std::str::from_utf8(name).ok());
    names.filter(|name| name.starts_with("user.")).map(str::to_owned).collect()
}

/// Calls with a small buffer, then with the largest that is ever needed.
pub(crate) fn grow(
    mut call: impl FnMut(&mut [u8]) -> Result<usize, Errno>,
) -> Result<Vec<u8>, Errno> {
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
