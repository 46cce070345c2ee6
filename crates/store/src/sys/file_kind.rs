//! The kind of an object, as the mode in its status says.

use object::ObjectKind;
use rustix::fs::Statx;

pub(crate) fn kind_of(status: &Statx) -> ObjectKind {
    match format(status) {
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
    format(status) == libc::S_IFDIR
}

pub(crate) fn is_file(status: &Statx) -> bool {
    format(status) == libc::S_IFREG
}

pub(crate) fn is_link(status: &Statx) -> bool {
    format(status) == libc::S_IFLNK
}

fn format(status: &Statx) -> u32 {
    u32::from(status.stx_mode) & libc::S_IFMT
}
