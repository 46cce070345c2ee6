//! What the protocol engine asks of an object store, and what the store answers.
//!
//! This is the vocabulary of [MS-FSA] as far as an SMB2 server needs it: values only, no I/O.
//! `proto` emits an [`ObjectOp`], the worker hands it to a store (`store` on POSIX files, `testkit`
//! in memory), and exactly one [`ObjectReply`] or an NTSTATUS comes back. errno never crosses this
//! line.

#![forbid(unsafe_code)]

pub mod change;
pub mod metadata;
pub mod open;
pub mod path;
pub mod piped;
pub mod volume;

use bytes::{Bytes, BytesMut};
use dtyp::fscc::{ReparseTag, SymbolicLinkReparse};
use dtyp::{AccessMask, FileAttributes, FileTime, NtStatus};

pub use change::{HostChange, HostChangeKind};
pub use metadata::{FileIdentity, Metadata, ObjectKind};
pub use open::{Disposition, ExtendedAttribute, KindWanted, OpenRequest, Opened};
pub use path::{ObjectPath, PathError};
pub use piped::{Pipe, Piped};
pub use volume::Volume;

/// `Open.LocalOpen` of [MS-SMB2] 3.3.1.10: a slot of the store and the generation that tells it
/// from earlier users of the slot.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct LocalOpen {
    /// The slot.
    pub index: u32,
    /// How often the slot was used before.
    pub generation: u32,
}

/// The root of a share that the store has opened.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct RootId(pub u32);

/// The identity whose rights the kernel checks, registered with the store beforehand.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct UserId(pub u32);

/// One thing to do, for one user. It goes from hand to hand, so what is large and rare is boxed.
#[derive(Debug)]
pub enum ObjectOp {
    /// Opens or creates. Never truncates: see [`ObjectOp::Overwrite`]. Answer: `Opened`, or
    /// `Stopped` if a symbolic link is on the way that the client is to follow itself.
    Open(Box<OpenRequest>),
    /// Empties an existing file that CREATE is to overwrite or supersede, once sharing was judged:
    /// size 0, extended attributes and alternate streams gone, attributes replaced (supersede) or
    /// added (overwrite). Answer: `Metadata`.
    Overwrite {
        /// The open.
        open: LocalOpen,
        /// SUPERSEDE rather than OVERWRITE.
        supersede: bool,
        /// The attributes that the client gave.
        attributes: FileAttributes,
        /// The extended attributes that the client gave.
        extended_attributes: Vec<ExtendedAttribute>,
        /// The allocation size that the client gave, or 0.
        allocation_size: u64,
    },
    /// Ends an open. With `unlink`, removes its name first (the last close of a file with a
    /// delete pending); removal that fails is an error, but the open is gone in any case.
    /// Answer: `Done`.
    Close {
        /// The open.
        open: LocalOpen,
        /// Remove the name (or the stream) before closing.
        unlink: bool,
    },
    /// Ends an open, of a stream maybe, and removes the file's name with it: the last close of a
    /// file whose deletion is pending. Otherwise as `Close`. Answer: `Done`.
    CloseAndUnlinkFile {
        /// The open.
        open: LocalOpen,
    },
    /// Appends up to `length` bytes at `offset` to `buffer`, which has the capacity for them.
    /// Answer: `Read`; reading at or past the end appends nothing. Or `Piped`, if that may be.
    Read {
        /// The open.
        open: LocalOpen,
        /// Where to begin.
        offset: u64,
        /// Bytes wanted.
        length: u32,
        /// What to append to. It comes back in the answer.
        buffer: BytesMut,
        /// The data need not pass through memory: nobody wants to look at them.
        may_pipe: bool,
    },
    /// Writes all of `data` and what is `piped`. Answer: `Written`, both together.
    Write {
        /// The open.
        open: LocalOpen,
        /// Where to begin.
        offset: u64,
        /// What to write.
        data: Bytes,
        /// What to write behind it.
        piped: Option<Piped>,
        /// The data must be on stable storage before the answer.
        write_through: bool,
    },
    /// Puts the file's data and metadata on stable storage. Answer: `Done`.
    Flush {
        /// The open.
        open: LocalOpen,
    },
    /// Answer: `Metadata`.
    QueryMetadata {
        /// The open.
        open: LocalOpen,
        /// Whether the size of the extended attributes is wanted: it costs most.
        with_ea_size: bool,
    },
    /// Sets times and attributes; `None` leaves a value alone. Answer: `Done`.
    SetBasic {
        /// The open.
        open: LocalOpen,
        /// What to set.
        basic: Box<BasicChange>,
    },
    /// Truncates or extends. Answer: `Done`.
    SetEndOfFile {
        /// The open.
        open: LocalOpen,
        /// The new size.
        size: u64,
    },
    /// Reserves storage, or truncates to `size` if the file is longer. Answer: `Done`.
    SetAllocation {
        /// The open.
        open: LocalOpen,
        /// Bytes to reserve.
        size: u64,
    },
    /// Gives the object another name within its share. Answer: `Renamed`.
    Rename {
        /// The open.
        open: LocalOpen,
        /// The new path; for a stream, a path whose stream alone differs.
        target: Box<ObjectPath>,
        /// An existing target file is replaced; without this it is OBJECT_NAME_COLLISION.
        replace: bool,
    },
    /// Another process has renamed the object: its path is this now. Answer: `Done`.
    Relocate {
        /// The open.
        open: LocalOpen,
        /// The path.
        path: Box<ObjectPath>,
    },
    /// Gives the file a further name. Answer: `Done`.
    Link {
        /// The open.
        open: LocalOpen,
        /// The further path.
        target: Box<ObjectPath>,
        /// An existing target file is replaced.
        replace: bool,
    },
    /// The next entries of a directory, in a stable order, "." and ".." first. The store keeps the
    /// position; entries are never repeated or skipped while the directory does not change.
    /// Answer: `Entries`.
    ReadDirectory {
        /// The open.
        open: LocalOpen,
        /// Begin again.
        restart: bool,
        /// What of each entry is wanted.
        detail: EntryDetail,
        /// Entries wanted at most; fewer may come before the end.
        entries_max: u32,
    },
    /// Whether a directory holds nothing but "." and "..". Answer: `Empty`.
    IsEmpty {
        /// The open.
        open: LocalOpen,
    },
    /// The streams of a file, the unnamed one first (directories have none unnamed). Answer: `Streams`.
    ListStreams {
        /// The open.
        open: LocalOpen,
    },
    /// Answer: `ExtendedAttributes`.
    ReadExtendedAttributes {
        /// The open.
        open: LocalOpen,
    },
    /// Sets extended attributes; an empty value removes one. Answer: `Done`.
    WriteExtendedAttributes {
        /// The open.
        open: LocalOpen,
        /// What to set.
        attributes: Vec<ExtendedAttribute>,
    },
    /// The security descriptor, self-relative ([MS-DTYP] 2.4.6), with the parts that
    /// `information` ([MS-DTYP] 2.4.7) names. Answer: `Security`.
    ReadSecurity {
        /// The open.
        open: LocalOpen,
        /// SECURITY_INFORMATION.
        information: u32,
    },
    /// Replaces the parts of the security descriptor that `information` names. Answer: `Done`.
    WriteSecurity {
        /// The open.
        open: LocalOpen,
        /// SECURITY_INFORMATION.
        information: u32,
        /// A self-relative security descriptor.
        descriptor: Bytes,
    },
    /// The name of 8.3 form under which the open's object can be found, too. Answer: `ShortName`.
    QueryShortName {
        /// The open.
        open: LocalOpen,
    },
    /// The file system that holds the open. Answer: `Volume`.
    QueryVolume {
        /// The open.
        open: LocalOpen,
    },
    /// Makes `from..to` read as zeros, freeing storage where possible. Answer: `Done`.
    ZeroRange {
        /// The open.
        open: LocalOpen,
        /// First byte.
        from: u64,
        /// One past the last byte.
        to: u64,
    },
    /// The ranges in `from..to` that have storage, at most `ranges_max`. Answer: `Ranges`.
    AllocatedRanges {
        /// The open.
        open: LocalOpen,
        /// First byte.
        from: u64,
        /// One past the last byte.
        to: u64,
        /// Ranges wanted at most.
        ranges_max: u32,
    },
    /// The snapshots in which the path of the open exists, in the order in which clients are to
    /// see them. Answer: `Snapshots`.
    ListSnapshots {
        /// The open.
        open: LocalOpen,
    },
    /// The reparse point that was opened, as REPARSE_DATA_BUFFER ([MS-FSCC] 2.1.2.2);
    /// NOT_A_REPARSE_POINT if it is none. Answer: `ReparsePoint`.
    ReadReparsePoint {
        /// The open.
        open: LocalOpen,
    },
    /// Makes a file a reparse point, or changes the one that it is, whose tag stays. Answer: `Done`.
    WriteReparsePoint {
        /// The open.
        open: LocalOpen,
        /// REPARSE_DATA_BUFFER, its lengths verified.
        buffer: Bytes,
    },
    /// Makes a plain file of a reparse point. Answer: `Done`.
    DeleteReparsePoint {
        /// The open.
        open: LocalOpen,
        /// The tag that it has; IO_REPARSE_TAG_MISMATCH if it has another.
        tag: ReparseTag,
    },
    /// Sets or clears the sparse attribute. Answer: `Done`.
    SetSparse {
        /// The open.
        open: LocalOpen,
        /// Whether the file is sparse.
        sparse: bool,
    },
    /// Copies between two files without passing the data through the server. Answer: `Written`.
    CopyRange {
        /// Where from.
        source: LocalOpen,
        /// Where to.
        target: LocalOpen,
        /// First byte in the source.
        source_offset: u64,
        /// First byte in the target.
        target_offset: u64,
        /// Bytes to copy.
        length: u32,
    },
    /// Shares the storage of a range of one file with another, as if it had been copied:
    /// [MS-FSA] 2.1.5.10.4. The size of the target stays, so what would lie behind its end is left
    /// out. INVALID_DEVICE_REQUEST where the file system cannot do it. Answer: `Done`.
    DuplicateExtents {
        /// Where from.
        source: LocalOpen,
        /// Where to.
        target: LocalOpen,
        /// First byte in the source.
        source_offset: u64,
        /// First byte in the target.
        target_offset: u64,
        /// Bytes to share.
        length: u64,
    },
    /// Has the file system compress the data that are written from now on, or not. NOT_SUPPORTED
    /// if it cannot; not to compress can be had everywhere. Answer: `Done`.
    SetCompression {
        /// The open.
        open: LocalOpen,
        /// Whether data are compressed.
        compressed: bool,
    },
    /// Gives back the storage of `from..to` as far as it consists of whole pages; what is read
    /// there afterwards is undefined. A hint: where storage cannot be given back nothing happens.
    /// Answer: `Done`.
    Trim {
        /// The open.
        open: LocalOpen,
        /// First byte.
        from: u64,
        /// One past the last byte.
        to: u64,
    },
    /// The first link of a DFS namespace on a path: what it says in place of a target, and what of the
    /// path is behind it. OBJECT_PATH_NOT_FOUND if there is none. Answer: `Stopped`.
    FindReferral {
        /// The share.
        root: RootId,
        /// The path.
        path: Box<ObjectPath>,
    },
    /// Whether a path exists and what it is, without opening it. Answer: `Metadata`.
    Lookup {
        /// The share.
        root: RootId,
        /// The path.
        path: Box<ObjectPath>,
    },
}

impl ObjectReply {
    /// Bytes of data that came of a READ, whose buffer held `room` bytes before it.
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
    /// Whether it changes the data of what is open.
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

/// What [`ObjectOp::SetBasic`] changes. A time that is `None` stays as it is.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct BasicChange {
    /// Creation (birth) time.
    pub creation_time: Option<FileTime>,
    /// Last access time.
    pub last_access_time: Option<FileTime>,
    /// Last write time.
    pub last_write_time: Option<FileTime>,
    /// Change time; a store that cannot set it ignores it.
    pub change_time: Option<FileTime>,
    /// All settable attributes at once.
    pub attributes: Option<FileAttributes>,
    /// Whether what this open does from now on leaves the last access time alone:
    /// `Open.UserSetAccessTime` of [MS-FSA] 2.1.1.6.
    pub keep_last_access_time: Option<bool>,
    /// Likewise for the last write time: `Open.UserSetModificationTime`.
    pub keep_last_write_time: Option<bool>,
}

impl BasicChange {
    /// Whether nothing is changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What of a directory entry is wanted. Each level costs more than the one before.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum EntryDetail {
    /// The name alone.
    Name,
    /// Times, sizes, attributes, identity.
    Metadata,
    /// Metadata and the size of the extended attributes.
    MetadataAndEaSize,
    /// Metadata, and what Apple's clients want of every file.
    Apple,
}

/// One entry of a directory.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DirectoryEntry {
    /// The name as stored, or the short name of one that no client could use.
    pub name: String,
    /// Its short name of 8.3 form, if it has one beside its name: [MS-FSCC] 2.1.5.2.1.
    pub short_name: Option<String>,
    /// Present if [`EntryDetail::Metadata`] or more was asked for. An entry that vanished while it
    /// was read is left out altogether.
    pub metadata: Option<Metadata>,
    /// Present if [`EntryDetail::Apple`] was asked for and the entry could be looked at.
    pub apple: Option<Box<AppleMetadata>>,
}

/// What Apple's clients want of every file, beside its metadata.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct AppleMetadata {
    /// All rights that the user has on it.
    pub maximal_access: AccessMask,
    /// Bytes of the stream `AFP_Resource`.
    pub resource_fork_size: u64,
    /// The Finder's information, from the stream `AFP_AfpInfo`; zeros if there is none.
    pub finder_info: [u8; 32],
}

/// A symbolic link on the way to an object.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SymbolicLink {
    /// Where it leads.
    pub link: SymbolicLinkReparse,
    /// What of the path is behind it, as clients write it: empty, or begins with `\`.
    pub unparsed_path: String,
}

/// One stream of a file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct StreamEntry {
    /// The name without colons and type; empty for the unnamed stream.
    pub name: String,
    /// Bytes in it.
    pub size: u64,
    /// Bytes of storage.
    pub allocation_size: u64,
}

/// What the store answers when it succeeds.
#[derive(Debug)]
pub enum ObjectReply {
    /// Done; nothing to say.
    Done,
    /// A directory is empty, or not.
    Empty(bool),
    /// Entries of a directory; no entries means that the end was reached.
    Entries(Vec<DirectoryEntry>),
    /// Extended attributes.
    ExtendedAttributes(Vec<ExtendedAttribute>),
    /// Metadata.
    Metadata(Box<Metadata>),
    /// An object was opened.
    Opened(Box<Opened>),
    /// The buffer as it was, and what was read beside it.
    Piped(BytesMut, Piped),
    /// Ranges with storage: offset and length.
    Ranges(Vec<(u64, u64)>),
    /// The buffer, with what was read appended.
    Read(BytesMut),
    /// The object's path as it is stored now.
    Renamed(ObjectPath),
    /// A self-relative security descriptor.
    Security(Vec<u8>),
    /// A reparse point.
    ReparsePoint(Vec<u8>),
    /// When snapshots were made, in whole seconds.
    Snapshots(Vec<FileTime>),
    /// A symbolic link that is not followed.
    Stopped(Box<SymbolicLink>),
    /// The short name; `None` if there is none.
    ShortName(Option<String>),
    /// Streams of a file.
    Streams(Vec<StreamEntry>),
    /// The file system.
    Volume(Box<Volume>),
    /// Bytes written.
    Written(u64),
}

/// What comes back for an [`ObjectOp`]. The status is already an NTSTATUS: errno stops in the store.
pub type ObjectResult = Result<ObjectReply, NtStatus>;
