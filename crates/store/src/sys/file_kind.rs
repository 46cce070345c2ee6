//! The kind of an object, as the mode in its status says.

use object::ObjectKind;
use rustix::fs::Statx;

pub(crate) fn kind_of(status: &Statx) -> ObjectKind {
    match u32::from(status.stx_mode) & libc::S_IFMT {
        libc::S_IFBLK => ObjectKind::BlockDevice,
        libc::S_IFCHR => ObjectKind::CharacterDevice,
        libc::S_IFDIR => ObjectKind::Directory,
        libc::S_IFIFO => ObjectKind::Fifo,
        libc::S_IFLNK => ObjectKind::SymbolicLink,
        libc::S_IFSOCK => ObjectKind::Socket,
        _ => ObjectKind::File,
    }
}

pub(crate) fn is_directory(status: &Statx) -> bool {
    kind_of(status) == ObjectKind::Directory
}

pub(crate) fn is_file(status: &Statx) -> bool {
    kind_of(status) == ObjectKind::File
}

pub(crate) fn is_link(status: &Statx) -> bool {
    kind_of(status) == ObjectKind::SymbolicLink
}
