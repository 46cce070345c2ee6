//! Identity, kind and metadata of files.

use dtyp::{FileAttributes, FileTime};

/// Identity of a file, independent of its names.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct FileIdentity {
    /// Number of the file system.
    pub device: u64,
    /// Inode number on the file system.
    pub inode: u64,
    /// Birth time in nanoseconds, from the file system: inode numbers are reused. 0 if it is
    /// unknown; always 0 for the parent directory of a file.
    pub birth: u64,
    /// Distinguishes the streams of one file: 0 is the unnamed stream, others a hash of the folded
    /// name.
    pub stream: u64,
}

/// Kind of object, from its POSIX file type.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ObjectKind {
    BlockDevice,
    CharacterDevice,
    Directory,
    /// A named pipe of the host.
    Fifo,
    #[default]
    File,
    /// A socket of the host.
    Socket,
    /// A symbolic link that was not followed.
    SymbolicLink,
}

/// Metadata of a file.
///
/// For an open of a named stream, the sizes are the stream's and all other fields the file's.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Metadata {
    pub identity: FileIdentity,
    pub kind: ObjectKind,
    /// Time of creation, from the stored DOS attributes or the file system.
    pub creation_time: FileTime,
    /// Time of the last read.
    pub last_access_time: FileTime,
    /// Time of the last write.
    pub last_write_time: FileTime,
    /// Time of the last change of data or metadata.
    pub change_time: FileTime,
    /// Length of the data in bytes; 0 for directories.
    pub end_of_file: u64,
    /// Allocated storage in bytes; 0 for directories.
    pub allocation_size: u64,
    /// Attributes, with DIRECTORY and REPARSE_POINT; never NORMAL beside others.
    pub attributes: FileAttributes,
    /// Number of hard links; 1 for directories.
    pub number_of_links: u32,
    /// Length of the extended attributes in FILE_FULL_EA_INFORMATION form, in bytes; 0 if it was
    /// not requested.
    pub ea_size: u32,
    /// The reparse tag, if the attributes have REPARSE_POINT; else 0.
    pub reparse_tag: u32,
    /// POSIX mode with the file type; for a reparse point that represents a POSIX file, the mode of
    /// that file.
    pub mode: u32,
    /// User id of the owner.
    pub uid: u32,
    /// Group id of the file.
    pub gid: u32,
}

impl Metadata {
    /// True if the object is a directory.
    #[must_use]
    pub fn is_directory(&self) -> bool {
        self.kind == ObjectKind::Directory
    }
}
