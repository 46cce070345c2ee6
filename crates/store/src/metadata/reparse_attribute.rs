//! The extended attribute of a file that a client made a reparse point.

use dtyp::fscc::{ReparseData, ReparseTag};

use crate::sys::xattr::Xattrs;

/// Extended attribute in which Samba keeps the reparse data of a client.
pub(crate) const NAME: &str = "user.SmbReparse";

/// IO_REPARSE_TAG_NFS names things of POSIX by these: [MS-FSCC] 2.1.2.6.
pub(crate) const NFS_SPECFILE_CHR: u64 = 0x0000_0000_0052_4843;
pub(crate) const NFS_SPECFILE_BLK: u64 = 0x0000_0000_004B_4C42;
pub(crate) const NFS_SPECFILE_FIFO: u64 = 0x0000_0000_4F46_4946;
pub(crate) const NFS_SPECFILE_SOCK: u64 = 0x0000_0000_4B43_4F53;
pub(crate) const NFS_SPECFILE_LNK: u64 = 0x0000_0000_014B_4E4C;

/// The tag of a file that a client made a reparse point of.
pub(crate) fn stored_tag(xattrs: Xattrs<'_>) -> Option<ReparseTag> {
    let buffer = xattrs.get(NAME).ok()?;
    ReparseData::decode(&buffer).map(|point| point.tag)
}

/// The type of POSIX, as in a mode, of what a client made a reparse point: a link, or what NFS
/// calls a special file.
pub(crate) fn stored_type(xattrs: Xattrs<'_>) -> Option<u32> {
    let buffer = xattrs.get(NAME).ok()?;
    let point = ReparseData::decode(&buffer)?;
    let special = || point.data.first_chunk().map(|kind| u64::from_le_bytes(*kind));
    match point.tag {
        ReparseTag::SYMLINK => Some(libc::S_IFLNK),
        ReparseTag::NFS => match special()? {
            NFS_SPECFILE_CHR => Some(libc::S_IFCHR),
            NFS_SPECFILE_BLK => Some(libc::S_IFBLK),
            NFS_SPECFILE_FIFO => Some(libc::S_IFIFO),
            NFS_SPECFILE_SOCK => Some(libc::S_IFSOCK),
            NFS_SPECFILE_LNK => Some(libc::S_IFLNK),
            _ => None,
        },
        _ => None,
    }
}
