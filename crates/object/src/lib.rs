//! The interface between the protocol engine and an object store: operations and their replies.
//!
//! This is the vocabulary of [MS-FSA] as far as an SMB2 server needs it: values without I/O, except
//! for [`Pipe`] and [`Piped`], which own the descriptors of data on its way. `proto` emits an
//! [`ObjectOp`], the worker passes it to a store (`store` on POSIX files, `testkit` in memory), and
//! exactly one [`ObjectReply`] or an NTSTATUS comes back. An errno never crosses this interface.

#![forbid(unsafe_code)]

pub mod change;
pub mod kernel_claim;
pub mod metadata;
pub mod open;
pub mod path;
pub mod piped;
pub mod quota;
pub mod temporary_name;
pub mod volume;

use bytes::{Bytes, BytesMut};
use dtyp::fscc::{ReparseTag, SymbolicLinkReparse};
use dtyp::{AccessMask, FileAttributes, FileTime, NtStatus};

pub use change::{HostChange, HostChangeKind};
pub use kernel_claim::{FileRange, KernelClaim, RangeLock, WholeFileLock};
pub use metadata::{FileIdentity, Metadata, ObjectKind};
pub use open::{Disposition, ExtendedAttribute, OpenRequest, Opened, RequestedKind};
pub use path::{ObjectPath, PathError};
pub use piped::{Pipe, Piped};
pub use quota::{
    NewQuota, Quota, QuotaChange, QuotaLimits, QuotaOp, QuotaQuery, QuotaStart, QuotaState,
    QuotaSubject, QuotaUser, ToldQuota, UserQuota,
};
pub use temporary_name::{TEMPORARY_PREFIX, has_temporary, is_temporary};
pub use volume::{FreeSpace, Volume};

/// Number of a store among those of one worker. Its opens and roots have it in their upper bits, so
/// that each operation finds its store.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct StoreNumber(pub u8);

/// Bits of an index below the number of its store.
const INDEX_BITS: u32 = 24;

impl StoreNumber {
    /// First index that this store gives to opens and roots.
    #[must_use]
    pub const fn first_index(self) -> u32 {
        (self.0 as u32) << INDEX_BITS
    }

    const fn of_index(index: u32) -> Self {
        Self((index >> INDEX_BITS) as u8)
    }
}

/// Highest number of opens, and of roots, of one store.
pub const INDICES_MAX: u32 = 1 << INDEX_BITS;

/// `Open.LocalOpen` of [MS-SMB2] 3.3.1.10: a slot of the store, and a generation that tells it from
/// earlier users of the slot.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct LocalOpen {
    pub index: u32,
    /// Number of earlier uses of the slot.
    pub generation: u32,
}

impl LocalOpen {
    /// The store that has given it out.
    #[must_use]
    pub const fn store(self) -> StoreNumber {
        StoreNumber::of_index(self.index)
    }
}

/// The root of a share that the store has opened.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct RootId(pub u32);

impl RootId {
    /// The store that has given it out.
    #[must_use]
    pub const fn store(self) -> StoreNumber {
        StoreNumber::of_index(self.0)
    }
}

/// The user whose rights the kernel checks, registered with the store beforehand.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct UserId(pub u32);

/// One operation for one user. It is moved many times, so large and rare parts are boxed.
#[derive(Debug)]
pub enum ObjectOp {
    /// Opens or creates an object. Never truncates: see [`ObjectOp::Overwrite`]. Reply: `Opened`;
    /// `Stopped` at a symbolic link in the path that the client has to follow itself; or `Leased`.
    Open(Box<OpenRequest>),
    /// Empties an existing file for a CREATE that overwrites or supersedes, after the check of
    /// sharing: size 0, extended attributes and alternate streams removed, attributes replaced
    /// (supersede) or added (overwrite). Reply: `Metadata`.
    Overwrite {
        open: LocalOpen,
        /// Whether the disposition is SUPERSEDE rather than OVERWRITE.
        supersede: bool,
        /// Attributes from the client's request.
        attributes: FileAttributes,
        /// Extended attributes from the client's request.
        extended_attributes: Vec<ExtendedAttribute>,
        /// Allocation size from the client's request, or 0.
        allocation_size: u64,
    },
    /// Closes an open. With `unlink`, removes its name first (the last close of a file with a
    /// delete pending); a failed removal is an error, but the open is closed in any case. Reply:
    /// `Done`.
    Close {
        open: LocalOpen,
        /// Whether to remove the name (or the stream) before closing.
        unlink: bool,
    },
    /// Closes an open, possibly of a stream, and removes the file's name: the last close of a file
    /// with a delete pending. Otherwise as `Close`. Reply: `Done`.
    CloseAndUnlinkFile { open: LocalOpen },
    /// Appends up to `length` bytes at `offset` to `buffer`, which has the capacity for them.
    /// Reply: `Read`, with no bytes at or past the end; or `Piped`, if `may_pipe` is set.
    Read {
        open: LocalOpen,
        /// First byte in the file.
        offset: u64,
        /// Highest number of bytes to read.
        length: u32,
        /// Buffer for the data, returned in the reply.
        buffer: BytesMut,
        /// Whether the data may stay in a pipe, because no code reads it.
        may_pipe: bool,
        /// Whether a lock of a local program refuses it, with FILE_LOCK_CONFLICT.
        verify_locks: bool,
    },
    /// Writes all of `data` and then `piped`. Reply: `Written`, with the sum of both.
    Write {
        open: LocalOpen,
        /// First byte in the file.
        offset: u64,
        data: Bytes,
        /// Data in a pipe, written behind `data`.
        piped: Option<Piped>,
        /// Whether the data must be on stable storage before the reply.
        write_through: bool,
        /// Whether a lock of a local program refuses it, with FILE_LOCK_CONFLICT.
        verify_locks: bool,
    },
    /// Puts the file's data and metadata on stable storage. Reply: `Done`.
    Flush { open: LocalOpen },
    /// Reads the metadata of an open. Reply: `Metadata`.
    QueryMetadata {
        open: LocalOpen,
        /// Whether to include the size of the extended attributes, the most expensive part.
        with_ea_size: bool,
    },
    /// Sets times and attributes; `None` leaves a value unchanged. Reply: `Done`.
    SetBasic { open: LocalOpen, basic: Box<BasicChange> },
    /// Truncates or extends the file. Reply: `Done`.
    SetEndOfFile {
        open: LocalOpen,
        /// New size of the file in bytes.
        size: u64,
    },
    /// Reserves storage, or truncates to `size` if the file is longer. Reply: `Done`.
    SetAllocation {
        open: LocalOpen,
        /// Number of bytes to reserve.
        size: u64,
    },
    /// Gives the object another name within its share. Reply: `Renamed`.
    Rename {
        open: LocalOpen,
        /// The new path; for a stream, a path that differs in its stream only.
        target: Box<ObjectPath>,
        /// Whether to replace an existing target file; otherwise the status is
        /// OBJECT_NAME_COLLISION.
        replace: bool,
    },
    /// Tells the store the new path of an object that another process has renamed. Reply: `Done`.
    Relocate {
        open: LocalOpen,
        /// The new path of the object.
        path: Box<ObjectPath>,
    },
    /// Gives the file a further name. Reply: `Done`.
    Link {
        open: LocalOpen,
        /// Path of the further name.
        target: Box<ObjectPath>,
        /// Whether to replace an existing target file.
        replace: bool,
    },
    /// Reads the next entries of a directory, in a stable order, "." and ".." first. The store
    /// keeps the position; entries are never repeated or skipped while the directory does not
    /// change. Reply: `Entries`.
    ReadDirectory {
        open: LocalOpen,
        /// Whether to start again at the first entry.
        restart: bool,
        /// Level of detail for each entry.
        detail: EntryDetail,
        /// Highest number of entries; the reply may have fewer before the end.
        entries_max: u32,
    },
    /// Checks that a directory has no entries besides "." and "..". Reply: `Empty`.
    IsEmpty { open: LocalOpen },
    /// Lists the streams of a file, the unnamed one first (directories have no unnamed one). Reply:
    /// `Streams`.
    ListStreams { open: LocalOpen },
    /// Reads all extended attributes. Reply: `ExtendedAttributes`.
    ReadExtendedAttributes { open: LocalOpen },
    /// Sets extended attributes; an empty value removes one. Reply: `Done`.
    WriteExtendedAttributes {
        open: LocalOpen,
        /// Attributes to set or remove.
        attributes: Vec<ExtendedAttribute>,
    },
    /// Reads the parts of the security descriptor that `information` selects ([MS-DTYP] 2.4.7), in
    /// self-relative form ([MS-DTYP] 2.4.6). Reply: `Security`.
    ReadSecurity {
        open: LocalOpen,
        /// SECURITY_INFORMATION: [MS-DTYP] 2.4.7.
        information: u32,
        /// Whether the DACL ends with entries that tell mode, owner and group of POSIX.
        nfs_entries: bool,
    },
    /// Replaces the parts of the security descriptor that `information` selects. Reply: `Done`.
    WriteSecurity {
        open: LocalOpen,
        /// SECURITY_INFORMATION: [MS-DTYP] 2.4.7.
        information: u32,
        /// A security descriptor in self-relative form.
        descriptor: Bytes,
        /// Whether entries of the DACL may tell mode, owner and group of POSIX: the mode is set,
        /// the others are ignored.
        nfs_entries: bool,
    },
    /// Returns the 8.3 name of the open's object. Reply: `ShortName`.
    QueryShortName { open: LocalOpen },
    /// Queries the file system of the open. Its free space is that under the quota of the user.
    /// Reply: `Volume`.
    QueryVolume { open: LocalOpen },
    /// Queries or sets quotas of users on the file system of the open. Reply: that of the
    /// [`QuotaOp`].
    Quotas { open: LocalOpen, op: QuotaOp },
    /// Makes `from..to` read as zeros, and frees storage if possible. Reply: `Done`.
    ZeroRange {
        open: LocalOpen,
        /// First byte of the range.
        from: u64,
        /// One past the last byte.
        to: u64,
    },
    /// Lists the ranges in `from..to` with storage, at most `ranges_max`. Reply: `Ranges`.
    AllocatedRanges {
        open: LocalOpen,
        /// First byte of the range.
        from: u64,
        /// One past the last byte.
        to: u64,
        /// Highest number of ranges in the reply.
        ranges_max: u32,
    },
    /// Lists the snapshots that have the path of the open, in the order for clients. Reply:
    /// `Snapshots`.
    ListSnapshots { open: LocalOpen },
    /// Reads the reparse point of the open, as REPARSE_DATA_BUFFER ([MS-FSCC] 2.1.2.2);
    /// NOT_A_REPARSE_POINT for other objects. Reply: `ReparsePoint`.
    ReadReparsePoint { open: LocalOpen },
    /// Makes a file a reparse point, or changes an existing one with the same tag. Reply: `Done`.
    WriteReparsePoint {
        open: LocalOpen,
        /// REPARSE_DATA_BUFFER with verified lengths: [MS-FSCC] 2.1.2.2.
        buffer: Bytes,
    },
    /// Turns a reparse point into a plain file. Reply: `Done`.
    DeleteReparsePoint {
        open: LocalOpen,
        /// Expected tag; IO_REPARSE_TAG_MISMATCH if the reparse point has another.
        tag: ReparseTag,
    },
    /// Sets or clears the sparse attribute. Reply: `Done`.
    SetSparse {
        open: LocalOpen,
        /// Whether the file shall be sparse.
        sparse: bool,
    },
    /// Copies between two files without passing the data through the server. Reply: `Written`.
    CopyRange {
        /// Open of the source file.
        source: LocalOpen,
        /// Open of the target file.
        target: LocalOpen,
        /// First byte in the source.
        source_offset: u64,
        /// First byte in the target.
        target_offset: u64,
        /// Number of bytes to copy.
        length: u32,
    },
    /// Copies all named streams of a file to another one. Reply: `Done`.
    CopyStreams {
        /// Open of the source file.
        source: LocalOpen,
        /// Open of the target file.
        target: LocalOpen,
    },
    /// Shares the storage of a range of one file with another, with the effect of a copy: [MS-FSA]
    /// 2.1.5.10.4. The size of the target stays, so bytes behind its end are left out.
    /// INVALID_DEVICE_REQUEST if the file system does not support it. Reply: `Done`.
    DuplicateExtents {
        /// Open of the source file.
        source: LocalOpen,
        /// Open of the target file.
        target: LocalOpen,
        /// First byte in the source.
        source_offset: u64,
        /// First byte in the target.
        target_offset: u64,
        /// Number of bytes to share.
        length: u64,
    },
    /// Turns compression by the file system on or off, for data written from now on. NOT_SUPPORTED
    /// if the file system cannot compress; turning it off always succeeds. Reply: `Done`.
    SetCompression {
        open: LocalOpen,
        /// Whether to compress new data.
        compressed: bool,
    },
    /// Frees the storage of the whole pages in `from..to`, which have undefined content afterwards.
    /// A hint: it has no effect where storage cannot be freed. Reply: `Done`.
    Trim {
        open: LocalOpen,
        /// First byte of the range.
        from: u64,
        /// One past the last byte.
        to: u64,
    },
    /// Takes byte-range locks of the kernel, which local programs see: all of them, or none.
    /// FILE_LOCK_CONFLICT if another program holds one that conflicts. Never waits. The close
    /// releases them. Reply: `Done`.
    Lock {
        open: LocalOpen,
        /// The locks, which may overlap each other and earlier ones of the open.
        locks: Vec<RangeLock>,
    },
    /// Releases locks of [`ObjectOp::Lock`] one after the other, by their exact ranges and an
    /// exclusive one before a shared one, up to the first that the open does not hold. Bytes that
    /// its other locks cover stay locked. Reply: `Done`.
    Unlock {
        open: LocalOpen,
        /// Ranges of the locks to release.
        ranges: Vec<FileRange>,
    },
    /// Excludes local programs from the file of a new open, as far as the kernel can do that.
    /// SHARING_VIOLATION if a program holds a conflicting lock of the whole file. Reply: `Claimed`.
    Claim { open: LocalOpen, claim: KernelClaim },
    /// Ends the lease of [`ObjectOp::Claim`], for which a local program may wait. Reply: `Done`.
    EndLease { open: LocalOpen },
    /// Finds the first link of a DFS namespace in a path. The reply has the link's text in place of
    /// a target, and the rest of the path. OBJECT_PATH_NOT_FOUND without a link. Reply: `Stopped`.
    FindReferral { root: RootId, path: Box<ObjectPath> },
    /// Queries the metadata of a path without opening it. Reply: `Metadata`.
    Lookup { root: RootId, path: Box<ObjectPath> },
}

impl ObjectReply {
    /// Number of bytes read by a READ, the buffer of which had `room` bytes before it.
    #[must_use]
    pub fn bytes_read(&self, room: usize) -> usize {
        match self {
            Self::Read(buffer) => buffer.len().saturating_sub(room),
            Self::Piped(_, piped) => piped.length(),
            _ => 0,
        }
    }
}

impl ObjectOp {
    /// The store that carries the operation out.
    #[must_use]
    pub fn store(&self) -> StoreNumber {
        match self {
            Self::Open(request) => request.root.store(),
            Self::FindReferral { root, .. } | Self::Lookup { root, .. } => root.store(),
            Self::CopyRange { target: open, .. }
            | Self::CopyStreams { target: open, .. }
            | Self::DuplicateExtents { target: open, .. } => open.store(),
            Self::AllocatedRanges { open, .. }
            | Self::Close { open, .. }
            | Self::Claim { open, .. }
            | Self::CloseAndUnlinkFile { open }
            | Self::DeleteReparsePoint { open, .. }
            | Self::EndLease { open }
            | Self::Flush { open }
            | Self::IsEmpty { open }
            | Self::Link { open, .. }
            | Self::ListSnapshots { open }
            | Self::ListStreams { open }
            | Self::Lock { open, .. }
            | Self::Overwrite { open, .. }
            | Self::QueryMetadata { open, .. }
            | Self::QueryShortName { open }
            | Self::QueryVolume { open }
            | Self::Quotas { open, .. }
            | Self::Read { open, .. }
            | Self::ReadDirectory { open, .. }
            | Self::ReadExtendedAttributes { open }
            | Self::ReadReparsePoint { open }
            | Self::ReadSecurity { open, .. }
            | Self::Relocate { open, .. }
            | Self::Rename { open, .. }
            | Self::SetAllocation { open, .. }
            | Self::SetBasic { open, .. }
            | Self::SetCompression { open, .. }
            | Self::SetEndOfFile { open, .. }
            | Self::SetSparse { open, .. }
            | Self::Trim { open, .. }
            | Self::Unlock { open, .. }
            | Self::Write { open, .. }
            | Self::WriteExtendedAttributes { open, .. }
            | Self::WriteReparsePoint { open, .. }
            | Self::WriteSecurity { open, .. }
            | Self::ZeroRange { open, .. } => open.store(),
        }
    }

    /// True if the operation changes the data of an open file.
    #[must_use]
    pub fn changes_contents(&self) -> bool {
        matches!(
            self,
            Self::CopyRange { .. }
                | Self::DuplicateExtents { .. }
                | Self::Overwrite { .. }
                | Self::SetAllocation { .. }
                | Self::SetEndOfFile { .. }
                | Self::Trim { .. }
                | Self::Write { .. }
                | Self::ZeroRange { .. }
        )
    }
}

/// Changes of [`ObjectOp::SetBasic`]. A time that is `None` stays.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct BasicChange {
    pub creation_time: Option<FileTime>,
    pub last_access_time: Option<FileTime>,
    pub last_write_time: Option<FileTime>,
    /// Change time; ignored by a store that cannot set it.
    pub change_time: Option<FileTime>,
    /// All settable attributes at once.
    pub attributes: Option<FileAttributes>,
    /// Whether operations of this open leave the last access time unchanged from now on:
    /// `Open.UserSetAccessTime` of [MS-FSA] 2.1.1.6.
    pub keep_last_access_time: Option<bool>,
    /// The same for the last write time: `Open.UserSetModificationTime`.
    pub keep_last_write_time: Option<bool>,
}

impl BasicChange {
    /// True if all values stay unchanged.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Level of detail of directory entries. Each level costs more than the one before.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum EntryDetail {
    /// The name and no metadata.
    Name,
    /// Name, times, sizes, attributes and identity.
    Metadata,
    /// Metadata and the size of the extended attributes.
    MetadataAndEaSize,
    /// Metadata, and the fields for Apple's clients.
    Apple,
}

/// One entry of a directory.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DirectoryEntry {
    /// Name as stored, or the short name of a file with a name that clients cannot use.
    pub name: String,
    /// Short name of 8.3 form, if the file has one besides its name: [MS-FSCC] 2.1.5.2.1.
    pub short_name: Option<String>,
    /// Present at [`EntryDetail::Metadata`] and above. An entry that vanished during the
    /// enumeration is left out completely.
    pub metadata: Option<Metadata>,
    /// Present at [`EntryDetail::Apple`], if the entry could be opened.
    pub apple: Option<Box<AppleMetadata>>,
}

/// Fields for Apple's clients, besides the metadata.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct AppleMetadata {
    /// Maximal access of the user on the file.
    pub maximal_access: AccessMask,
    /// Length of the stream `AFP_Resource` in bytes.
    pub resource_fork_size: u64,
    /// The Finder information of the stream `AFP_AfpInfo`; zeros without that stream.
    pub finder_info: [u8; 32],
}

/// A symbolic link in the path of an object.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SymbolicLink {
    /// Target of the link, with its flags.
    pub link: SymbolicLinkReparse,
    /// Rest of the path behind the link, as clients write it: empty, or begins with `\`.
    pub unparsed_path: String,
}

/// One data stream of a file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct StreamEntry {
    /// Name without colons and type; empty for the unnamed stream.
    pub name: String,
    pub size: u64,
    /// Number of bytes of allocated storage.
    pub allocation_size: u64,
}

/// Reply of the store to a successful operation.
#[derive(Debug)]
pub enum ObjectReply {
    /// Whether the lease was taken.
    Claimed {
        leased: bool,
    },
    Done,
    /// Whether a directory is empty.
    Empty(bool),
    /// Entries of a directory; none at its end.
    Entries(Vec<DirectoryEntry>),
    ExtendedAttributes(Vec<ExtendedAttribute>),
    /// The file that cannot be opened yet: another program holds a lease, and has been asked to
    /// give it up.
    Leased(FileIdentity),
    Metadata(Box<Metadata>),
    Opened(Box<Opened>),
    /// Quotas of users, at most as many as the query permits.
    Quotas(Vec<UserQuota>),
    QuotaState(QuotaState),
    /// The users in the order of their SIDs.
    QuotaUsers(Vec<QuotaUser>),
    /// The buffer, unchanged, and the data in a pipe.
    Piped(BytesMut, Piped),
    /// Ranges with storage: offset and length in bytes.
    Ranges(Vec<(u64, u64)>),
    /// The buffer, with the data appended.
    Read(BytesMut),
    /// The object's path as it is stored now, and the one on disk if that is another: see
    /// [`Opened::path_on_disk`].
    Renamed(ObjectPath, Option<String>),
    /// A security descriptor in self-relative form.
    Security(Vec<u8>),
    /// A REPARSE_DATA_BUFFER: [MS-FSCC] 2.1.2.2.
    ReparsePoint(Vec<u8>),
    /// Creation times of snapshots, in whole seconds.
    Snapshots(Vec<FileTime>),
    /// A symbolic link that the store does not follow.
    Stopped(Box<SymbolicLink>),
    /// The short name; `None` if the object has none.
    ShortName(Option<String>),
    Streams(Vec<StreamEntry>),
    Volume(Box<Volume>),
    /// Number of bytes written or copied.
    Written(u64),
}

/// Result of an [`ObjectOp`]. Errors are NTSTATUS already; no errno leaves the store.
pub type ObjectResult = Result<ObjectReply, NtStatus>;
