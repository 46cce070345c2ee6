//! What is known of a file without reading it.

use dtyp::{FileAttributes, FileTime};

/// Which file this is, whatever its names are.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct FileIdentity {
    /// The file system.
    pub device: u64,
    /// The file in it.
    pub inode: u64,
    /// When the file was made, in nanoseconds, as the file system tells it: numbers of files are given
    /// again. 0 if it is not told; of the directory that a file is in it never is.
    pub birth: u64,
    /// Tells the streams of one file apart: 0 is the unnamed stream, others a hash of the folded name.
    pub stream: u64,
}

/// What kind of object a name leads to.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ObjectKind {
    /// A block device.
    BlockDevice,
    /// A character device.
    CharacterDevice,
    /// A directory.
    Directory,
    /// A named pipe of the host.
    Fifo,
    /// A regular file.
    #[default]
    File,
    /// A socket of the host.
    Socket,
    /// A symbolic link that was not followed.
    SymbolicLink,
}

/// What is known of a file without reading it.
///
/// For an open of a named stream, the sizes are the stream's and the rest the file's.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Metadata {
    /// Which file.
    pub identity: FileIdentity,
    /// What kind.
    pub kind: ObjectKind,
    /// Birth, from the stored DOS attributes or the file system.
    pub creation_time: FileTime,
    /// Last read.
    pub last_access_time: FileTime,
    /// Last written.
    pub last_write_time: FileTime,
    /// Last change of data or metadata.
    pub change_time: FileTime,
    /// Bytes of data; 0 for directories.
    pub end_of_file: u64,
    /// Bytes of storage; 0 for directories.
    pub allocation_size: u64,
    /// Attributes, DIRECTORY and REPARSE_POINT included; never NORMAL beside others.
    pub attributes: FileAttributes,
    /// Names that the file has; 1 for directories.
    pub number_of_links: u32,
    /// Bytes that the extended attributes take in FILE_FULL_EA_INFORMATION form; 0 if not asked for.
    pub ea_size: u32,
    /// The reparse tag, if attributes contain REPARSE_POINT; else 0.
    pub reparse_tag: u32,
    /// POSIX mode bits, type included: that of what a reparse point stands for, if it stands for
    /// something of POSIX.
    pub mode: u32,
    /// POSIX owner.
    pub uid: u32,
    /// POSIX group.
    pub gid: u32,
}

impl Metadata {
    /// Whether this is a directory.
    #[must_use]
    pub fn is_directory(&self) -> bool {
        self.kind == ObjectKind::Directory
    }
}
