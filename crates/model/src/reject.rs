//! Reasons to refuse a request, or to end a connection.

use arbitration::RecordsError;
use auth::AuthError;
use dtyp::fscc::{EaListError, FileInformationClass, FsInformationClass, QuotaListError};
use dtyp::{AccessMask, FileAttributes, FileTime, NtStatus};
use object::PathError;
use thiserror::Error;
use trace::Reason;
use wire::create::{CreateDisposition, CreateOptions, ImpersonationLevel, ShareAccess};
use wire::ioctl::{FsctlCode, IoctlFlags};
use wire::lock::LockFlags;
use wire::query_info::InfoType;
use wire::{DecodeError, OplockLevel};

pub use crate::disconnect::Disconnect;

/// Reason for refusing a request: one variant for each rule.
///
/// The client sees only [`Reject::status`], and several rules share a status. So handlers return
/// no [`NtStatus`]: `choro trace`, probes and the log of slow requests name the reason, and tests
/// expect it.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
pub enum Reject {
    /// The open lacks a right: [MS-SMB2] 3.3.5.12 and others.
    #[error("the request needs {wanted:?}, and the open has {granted:?}")]
    AccessNotGranted {
        /// Rights that the request needs.
        wanted: AccessMask,
        /// Rights that the open has.
        granted: AccessMask,
    },
    /// The account may not log on.
    #[error("the account is disabled")]
    AccountDisabled,
    /// The name service cannot tell the user's rights, or the users cannot be read.
    #[error("the account cannot be looked up")]
    AccountUnavailable,
    /// The session is bound to the connection already: [MS-SMB2] 3.3.5.5.2.
    #[error("the session is bound to this connection already")]
    AlreadyBound,
    /// A request in the middle of a compound would wait without an end: [MS-SMB2] 3.3.4.2.
    #[error("only the last request of a compound may wait for an event")]
    AsyncInCompound,
    /// Attributes that cannot be set, or not for this kind of file: [MS-FSA] 2.1.5.1,
    /// 2.1.5.15.2.
    #[error("{0:?} cannot be set on such a file")]
    AttributesInvalid(FileAttributes),
    /// The mechanism refused the token: [MS-SMB2] 3.3.5.5.3.
    #[error("the authentication failed: {0}")]
    Authentication(AuthError),
    /// The signature does not match: [MS-SMB2] 3.3.5.2.4.
    #[error("the signature does not match")]
    BadSignature,
    /// Further connections cannot be bound to a session: [MS-SMB2] 3.3.5.5.
    #[error("multichannel is not offered to this client")]
    BindingNotOffered,
    /// The request that binds a session does not prove to come from its client: [MS-SMB2]
    /// 3.3.5.5.
    #[error("the request to bind a session is not signed with its key")]
    BindingNotSigned,
    /// The connection has another cipher than the session's: [MS-SMB2] 3.3.5.5.
    #[error("the connection and the session have different ciphers")]
    BindingOfOtherCipher,
    /// The connection has another dialect than the session's: [MS-SMB2] 3.3.5.5.
    #[error("the connection and the session have different dialects")]
    BindingOfOtherDialect,
    /// The session is still being set up: [MS-SMB2] 3.3.5.5.
    #[error("the session is still being set up")]
    BindingTooEarly,
    /// The connection signs with AES-GMAC, and the session's does not.
    #[error("the connection signs with AES-GMAC, and the session's does not")]
    BindingWithGmac,
    /// The session's connection signs with AES-GMAC, and this one does not.
    #[error("the session's connection signs with AES-GMAC, and this one does not")]
    BindingWithoutGmac,
    /// The user who binds a session is not its own: [MS-SMB2] 3.3.5.5.3.
    #[error("the session is another user's")]
    BoundByAnotherUser,
    /// Guests and anonymous users have no keys, and so no channels.
    #[error("a session without keys has one connection")]
    BoundByNobody,
    /// Another worker has the session, for a client of another ClientGuid.
    #[error("the session is of a client with another ClientGuid")]
    BoundElsewhere,
    /// The request was cancelled, or its target went away: [MS-SMB2] 3.3.5.16.
    #[error("the request was cancelled")]
    Cancelled,
    /// `change notify` is off in the configuration.
    #[error("`change notify` is off")]
    ChangeNotifyOff,
    /// A request that changes something was overtaken by the loss of its channel: [MS-SMB2]
    /// 3.3.5.2.10.
    #[error("ChannelSequence {got} is behind {} of the open", .current.unwrap_or_default())]
    ChannelSequence {
        /// ChannelSequence in the request's header.
        got: u16,
        /// ChannelSequence that the open has reached.
        current: Option<u16>,
    },
    /// The requests of one frame ask for too many credits.
    #[error("the requests of the frame take more credits than one frame may")]
    CompoundTooLarge,
    /// FSCTL_SET_COMPRESSION with a format that is not LZNT1: [MS-FSCC] 2.3.67.
    #[error("{0:#x} is not a compression format of [MS-FSCC]")]
    CompressionFormatUnknown(u16),
    /// Too many chunks to copy, too long ones, or empty ones: [MS-SMB2] 3.3.5.15.6.
    #[error("the chunks to copy are empty, too long or too many")]
    CopyAboveLimits,
    /// A chunk to copy ends behind the end of the source: [MS-SMB2] 3.3.5.15.6.
    #[error("the source of the copy ends before the chunk does")]
    CopySourceTooShort,
    /// A create context has a name below four bytes: [MS-SMB2] 2.2.13.2.
    #[error("the name of a create context has {0} bytes")]
    CreateContextNameTooShort(usize),
    /// Options of CREATE that exclude each other: [MS-SMB2] 3.3.5.9.
    #[error("{0:?} exclude each other")]
    CreateOptionsContradict(CreateOptions),
    /// Options of CREATE that do not exist: [MS-SMB2] 2.2.13.
    #[error("{0:?} has reserved bits")]
    CreateOptionsReserved(CreateOptions),
    /// Options of CREATE that no server offers: [MS-SMB2] 2.2.13.
    #[error("{0:?} has bits that are not supported")]
    CreateOptionsUnsupported(CreateOptions),
    /// The request pays for less than it sends or asks for: [MS-SMB2] 3.3.5.2.5.
    #[error("the request needs {need} credits and pays {got}")]
    CreditChargeTooSmall {
        /// Number of credits that it needs.
        need: u32,
        /// CreditCharge in the request's header.
        got: u16,
    },
    /// DataOffset of a WRITE is too large: [MS-SMB2] 3.3.5.13.
    #[error("DataOffset {0:#x} of WRITE is too large")]
    DataOffsetTooLarge(u16),
    /// FILE_DELETE_ON_CLOSE without the right to delete: [MS-SMB2] 3.3.5.9.
    #[error("FILE_DELETE_ON_CLOSE needs DELETE, and {0:?} is desired")]
    DeleteOnCloseWithoutDelete(AccessMask),
    /// The file is to be deleted with its last close: [MS-FSA] 2.1.5.1.2.
    #[error("the file is about to be deleted")]
    DeletePending,
    /// DesiredAccess is zero or has reserved bits: [MS-SMB2] 3.3.5.9.
    #[error("DesiredAccess {0:?} is empty or reserved")]
    DesiredAccessInvalid(AccessMask),
    /// `host msdfs` is off in the configuration.
    #[error("`host msdfs` is off")]
    DfsOff,
    /// READ, WRITE or a copy of a directory's data: [MS-SMB2] 3.3.5.12, 3.3.5.13.
    #[error("a directory has no data to read or write")]
    DirectoryHasNoData,
    /// Deletion of a directory with entries: [MS-FSA] 2.1.5.15.3.
    #[error("the directory is not empty")]
    DirectoryNotEmpty,
    /// The request shows that the connection cannot be trusted: it has no answer.
    #[error("{0}")]
    Disconnect(Disconnect),
    /// CreateDisposition has no meaning: [MS-SMB2] 2.2.13.
    #[error("{0:?} has no meaning")]
    DispositionUnknown(CreateDisposition),
    /// The domain, or the process that asks it, refuses the logon.
    #[error("the domain refuses the logon with {0:?}")]
    DomainRefused(NtStatus),
    /// An open with this CreateGuid exists, and the request is no replay: [MS-SMB2] 3.3.5.9.10.
    #[error("an open has this CreateGuid already")]
    DuplicateCreateGuid,
    /// The session has no such open to share extents of: [MS-SMB2] 3.3.5.15.17.
    #[error("the source of the extents is not open")]
    DuplicateSourceNotFound,
    /// The source of the extents may not be read: [MS-SMB2] 3.3.5.15.17.
    #[error("the source of the extents needs READ_DATA, and has {0:?}")]
    DuplicateSourceNotReadable(AccessMask),
    /// Create contexts of durable opens that exclude each other: [MS-SMB2] 3.3.5.9.7,
    /// 3.3.5.9.12.
    #[error("create contexts for durable opens exclude each other")]
    DurableContextsExclude,
    /// A durable open is reconnected by another name: [MS-SMB2] 3.3.5.9.7.
    #[error("the durable open has another name")]
    DurableOpenOfAnotherName,
    /// A durable open is reconnected by another user: [MS-SMB2] 3.3.5.9.7.
    #[error("the durable open is another user's")]
    DurableOpenOfAnotherUser,
    /// No entry of the directory fits the client's buffer: [MS-SMB2] 3.3.5.18.
    #[error("no entry fits the buffer of {0} bytes")]
    EntryTooLong(usize),
    /// A list of extended attributes leaves its buffer: [MS-FSCC] 2.4.16.
    #[error("the extended attribute at offset {0} leaves its list")]
    ExtendedAttributeListInvalid(usize),
    /// The name of an extended attribute is invalid: [MS-FSCC] 2.4.16.
    #[error("the extended attribute at offset {0} has an invalid name")]
    ExtendedAttributeNameInvalid(usize),
    /// An index behind the last extended attribute: [MS-FSA] 2.1.5.12.14.
    #[error("the file has no extended attribute at index {0}")]
    ExtendedAttributeNotFound(usize),
    /// `ea support` is off for the share.
    #[error("`ea support` is off for the share")]
    ExtendedAttributesOff,
    /// A list of extended attributes beyond what a file may have: [MS-FSA] 2.1.5.15.5.
    #[error("a list of {0} bytes is more than the extended attributes of a file may take")]
    ExtendedAttributesTooLarge(usize),
    /// A class of information that the server does not offer: [MS-SMB2] 3.3.5.20.1, 3.3.5.21.1.
    #[error("the class {0:?} of file information is not offered")]
    FileClassNotOffered(FileInformationClass),
    /// A class of information that does not exist for files: [MS-SMB2] 2.2.37.
    #[error("{0:?} is not a class of file information here")]
    FileClassUnknown(FileInformationClass),
    /// A FSCTL without an open names one: [MS-SMB2] 3.3.5.15.
    #[error("the control code takes no FileId")]
    FileIdNotWanted,
    /// Another open's lock is in the way: [MS-FSA] 2.1.5.3, 2.1.5.4.
    #[error("another open has locked the range")]
    FileLockConflict,
    /// A persistent open of another client excludes this one, or the first attempt is pending.
    #[error("a disconnected client has the file, or the first attempt is pending")]
    FileNotAvailable,
    /// The first request of a compound is marked as related: [MS-SMB2] 3.3.5.2.7.2.
    #[error("the first request of a compound is marked as related")]
    FirstIsRelated,
    /// Information of a file system that clients cannot set: [MS-SMB2] 3.3.5.21.2.
    #[error("the class {0:?} of a file system cannot be set")]
    FsClassNotOffered(FsInformationClass),
    /// A class of information that does not exist for file systems: [MS-SMB2] 3.3.5.20.2.
    #[error("{0:?} is not a class of file system information here")]
    FsClassUnknown(FsInformationClass),
    /// The input of a control code is not its structure: [MS-SMB2] 3.3.5.15, [MS-FSCC] 2.3.
    #[error("{0} bytes of input are not the structure of the control code")]
    FsctlInputInvalid(usize),
    /// The input of FSCTL_DUPLICATE_EXTENTS_TO_FILE is too short: [MS-FSA] 2.1.5.10.4.
    #[error("{0} bytes of input are too few for the extents")]
    FsctlInputTooShort(usize),
    /// MaxOutputResponse does not hold the structure of the control code: [MS-FSCC] 2.3.
    #[error("the output has {need} bytes and MaxOutputResponse is {room}")]
    FsctlOutputTooSmall {
        /// Number of bytes of the output.
        need: usize,
        /// MaxOutputResponse of the request, in bytes.
        room: usize,
    },
    /// A user logs on in the session of a guest, which has no keys.
    #[error("the session is a guest's, without keys")]
    GuestBecameUser,
    /// ImpersonationLevel has no meaning: [MS-SMB2] 3.3.5.9.
    #[error("{0:?} has no meaning")]
    ImpersonationLevelUnknown(ImpersonationLevel),
    /// Whatever pipes do not have: [MS-SMB2] 3.3.5.20, 3.3.5.21.
    #[error("information of the type {0:?} is not offered")]
    InfoTypeNotOffered(InfoType),
    /// InfoType has no meaning: [MS-SMB2] 2.2.37, 2.2.39.
    #[error("the type {0:?} of information has no meaning")]
    InfoTypeUnknown(InfoType),
    /// OutputBufferLength is below the fixed part of the class: [MS-SMB2] 3.3.5.20.1.
    #[error("the class takes {need} bytes and OutputBufferLength is {room}")]
    InformationBufferTooSmall {
        /// Number of bytes of the fixed part.
        need: usize,
        /// OutputBufferLength of the request, in bytes.
        room: usize,
    },
    /// SET_INFO without a buffer: [MS-SMB2] 3.3.5.21.
    #[error("SET_INFO has no buffer")]
    InformationEmpty,
    /// A buffer of SET_INFO is not the structure of its class: [MS-FSCC] 2.4.
    #[error("the buffer is not the structure of its class")]
    InformationInvalid,
    /// A buffer of SET_INFO is below the fixed part of its class: [MS-SMB2] 3.3.5.21.1.
    #[error("the buffer has {length} bytes and its class {minimum}")]
    InformationTooShort {
        /// Number of bytes of the buffer.
        length: usize,
        /// Number of bytes of the fixed part.
        minimum: usize,
    },
    /// File systems of Linux keep checksums or do not: [MS-FSA] 2.1.5.10.33.
    #[error("{0:?} is not offered: no file decides on its checksums")]
    IntegrityNotOffered(FsctlCode),
    /// Flags of an IOCTL without SMB2_0_IOCTL_IS_FSCTL: [MS-SMB2] 3.3.5.15.
    #[error("{0:?} does not name an FSCTL")]
    IoctlNotFsctl(IoctlFlags),
    /// An acknowledgment keeps more than the break allows: [MS-SMB2] 3.3.5.22.2.
    #[error("the acknowledged lease is higher than the break allows")]
    LeaseAcknowledgedTooHigh,
    /// The client uses the key of this lease for another file: [MS-SMB2] 3.3.5.9.8.
    #[error("the lease key is that of another file")]
    LeaseKeyInUse,
    /// An acknowledgment without a break of the lease: [MS-SMB2] 3.3.5.22.2.
    #[error("the lease is not breaking")]
    LeaseNotBreaking,
    /// More bytes than were negotiated for the command: [MS-SMB2] 3.3.5.12 and others.
    #[error("{length} bytes are above the maximum of {max}")]
    LengthAboveMax {
        /// Number of bytes asked for.
        length: u32,
        /// Highest number of bytes allowed.
        max: u32,
    },
    /// A hard link to a directory: [MS-FSA] 2.1.5.15.6.
    #[error("a directory cannot have a further name")]
    LinkToDirectory,
    /// Flags of a LOCK that exclude each other: [MS-SMB2] 3.3.5.14.1, 3.3.5.14.2.
    #[error("{0:?} exclude each other")]
    LockFlags(LockFlags),
    /// Another lock is in the way, and the client does not wait: [MS-SMB2] 3.3.5.14.2.
    #[error("another open has locked a part of the range")]
    LockNotGranted,
    /// A range to lock ends beyond 64 bits: [MS-FSA] 2.1.5.8.
    #[error("the range ends beyond 64 bits")]
    LockRange,
    /// A local program has locked bytes, and the client does not wait: [MS-SMB2] 3.3.5.14.2.
    #[error("a program of the server has locked a part of the range")]
    LockedByProgram,
    /// There is no account for the guest.
    #[error("there is no account for guests")]
    LogonFailure,
    /// The body is not the structure of its command: [MS-SMB2] 2.2.
    #[error("malformed request: {0}")]
    Malformed(DecodeError),
    /// The client logs on to another server, and somebody relays it: [MS-NLMP] 2.2.2.1.
    #[error("the logon is meant for another server")]
    MeantForAnotherServer,
    /// The read brought less than the client insists on: [MS-SMB2] 3.3.5.12.
    #[error("{read} bytes were read and MinimumCount is {minimum}")]
    MinimumCountNotReached {
        /// Number of bytes that were read.
        read: u32,
        /// MinimumCount of the request, in bytes.
        minimum: u32,
    },
    /// Modes that cannot be set on an open: [MS-FSA] 2.1.5.15.9.
    #[error("the mode {0:#x} cannot be set on an open")]
    ModeInvalid(u32),
    /// Interfaces are listed for clients with multichannel only: [MS-SMB2] 3.3.5.15.11.
    #[error("multichannel was not negotiated")]
    MultichannelNotNegotiated,
    /// The name of a CREATE begins with a separator: [MS-SMB2] 3.3.5.9.
    #[error("the name begins with a separator")]
    NameBeginsWithSeparator,
    /// A component of the name has a forbidden form: [MS-FSCC] 2.1.5.
    #[error("a component of the name has a forbidden form")]
    NameComponentInvalid,
    /// A component before the last one is ".": [MS-FSCC] 2.1.5.1.
    #[error("a component before the last one is a dot")]
    NameDotComponent,
    /// The name leads out of the share.
    #[error("the name leads out of the share")]
    NameLeavesShare,
    /// The name is not valid UTF-16: [MS-SMB2] 2.2.13.
    #[error("the name is not valid UTF-16")]
    NameNotUnicode,
    /// A component or all of the name is too long: [MS-FSCC] 2.1.5.
    #[error("the name is too long")]
    NameTooLong,
    /// The name is in `veto files`, which do not exist for clients.
    #[error("the name is in `veto files`")]
    NameVetoed,
    /// A negotiate context that may come once comes twice: [MS-SMB2] 3.3.5.4.
    #[error("a negotiate context is there twice")]
    NegotiateContextTwice,
    /// A 3.1.1 client offers encryption without a cipher: [MS-SMB2] 3.3.5.4.
    #[error("the client offers no cipher")]
    NoCipherOffered,
    /// No dialect is spoken by both sides: [MS-SMB2] 3.3.5.4.
    #[error("the client and the server have no dialect in common")]
    NoCommonDialect,
    /// NEGOTIATE offers no dialect at all: [MS-SMB2] 3.3.5.4.
    #[error("the client offers no dialect")]
    NoDialectOffered,
    /// The file has no extended attributes: [MS-FSA] 2.1.5.12.14.
    #[error("the file has no extended attributes")]
    NoExtendedAttributes,
    /// A LOCK without an element: [MS-SMB2] 3.3.5.14.
    #[error("the request has no lock")]
    NoLocks,
    /// The directory has no entry of the pattern: [MS-SMB2] 3.3.5.18.
    #[error("no entry of the directory matches")]
    NoMatchingEntry,
    /// The listing is at its end: [MS-SMB2] 3.3.5.18.
    #[error("the directory has no more entries")]
    NoMoreEntries,
    /// The listing of extended attributes is at its end: [MS-FSA] 2.1.5.12.14.
    #[error("the file has no more extended attributes")]
    NoMoreExtendedAttributes,
    /// The listing of quotas is at its end: [MS-FSA] 2.1.5.21.
    #[error("there are no more quotas")]
    NoMoreQuotas,
    /// A related request needs a FileId, and the one before it has none: [MS-SMB2] 3.3.5.2.7.2.
    #[error("the request before has no FileId")]
    NoRelatedFileId,
    /// A related request needs a session, and the one before it has none: [MS-SMB2]
    /// 3.3.5.2.7.2.
    #[error("the request before has no session")]
    NoRelatedIds,
    /// The file has no short name: [MS-FSA] 2.1.5.12.4.
    #[error("the file has no short name")]
    NoShortName,
    /// A 3.1.1 client offers signing without an algorithm: [MS-SMB2] 3.3.5.4.
    #[error("the client offers no signing algorithm")]
    NoSigningAlgorithmOffered,
    /// The session has no open with the resume key: [MS-SMB2] 3.3.5.15.6.
    #[error("the source of the copy is not open")]
    NoSuchCopySource,
    /// The path leads to no referral: [MS-DFSC] 3.2.5.
    #[error("the path has no referral")]
    NoSuchDfsPath,
    /// The client has no such durable open to reconnect: [MS-SMB2] 3.3.5.9.7, 3.3.5.9.12.
    #[error("the client has no such durable open")]
    NoSuchDurableOpen,
    /// The client does not hold the acknowledged lease: [MS-SMB2] 3.3.5.22.2.
    #[error("the client holds no such lease")]
    NoSuchLease,
    /// The session has no such open: [MS-SMB2] 3.3.5.10 and others.
    #[error("the session has no such open")]
    NoSuchOpen,
    /// The server has no pipe of this name: [MS-SMB2] 3.3.5.9.
    #[error("the server has no such pipe")]
    NoSuchPipe,
    /// The connection has no such session: [MS-SMB2] 3.3.5.2.9.
    #[error("the connection has no such session")]
    NoSuchSession,
    /// The server has no such share: [MS-SMB2] 3.3.5.7.
    #[error("the server has no such share")]
    NoSuchShare,
    /// The session has no such tree connect: [MS-SMB2] 3.3.5.2.11.
    #[error("the session has no such tree connect")]
    NoSuchTreeConnect,
    /// FILE_DISPOSITION_ON_CLOSE for an open that was not made so: [MS-FSA] 2.1.5.15.3.
    #[error("the open was made without FILE_DELETE_ON_CLOSE")]
    NotDeleteOnClose,
    /// A request for directories names a file: [MS-SMB2] 3.3.5.18, 3.3.5.19.
    #[error("the open is not a directory")]
    NotDirectory,
    /// The encrypted session or share was addressed in the clear: [MS-SMB2] 3.3.5.2.9,
    /// 3.3.5.2.11.
    #[error("encryption is required")]
    NotEncrypted,
    /// A request for files names a directory: [MS-FSA] 2.1.5.8, 2.1.5.15.4 and others.
    #[error("the open is a directory")]
    NotOnDirectories,
    /// A request for pipes names a file: [MS-SMB2] 3.3.5.15.
    #[error("the open is a file, and the request is for pipes")]
    NotOnFiles,
    /// A request for files names a pipe: [MS-SMB2] 3.3.5.15 and others.
    #[error("the open is a pipe, and the request is for files")]
    NotOnPipes,
    /// The session or the server insists on signatures: [MS-SMB2] 3.3.5.2.4.
    #[error("signing is required")]
    NotSigned,
    /// The watched directory was closed: [MS-SMB2] 3.3.5.19.
    #[error("the watched directory was closed")]
    NotifyCleanup,
    /// The store refused, or failed.
    #[error("the file store answered {0}")]
    Object(NtStatus),
    /// An offset, a size or a length beyond 63 bits: [MS-FSCC] 2.3, 2.4.
    #[error("{} is negative", .0.cast_signed())]
    OffsetNegative(u64),
    /// Something beneath the directory to rename is open: [MS-FSA] 2.1.5.15.11.
    #[error("a file beneath the directory is open")]
    OpenBeneath,
    /// An acknowledgment keeps more than the break allows: [MS-SMB2] 3.3.5.22.1.
    #[error("the acknowledged oplock is higher than the break allows")]
    OplockAcknowledgedTooHigh,
    /// A lease acknowledged as an oplock: [MS-SMB2] 3.3.5.22.1.
    #[error("a lease is acknowledged as an oplock")]
    OplockIsLease,
    /// An acknowledgment with a level that cannot be kept: [MS-SMB2] 3.3.5.22.1.
    #[error("an oplock of the level {0:?} cannot be kept in a break")]
    OplockLevelInvalid(OplockLevel),
    /// An acknowledgment without a break of the oplock: [MS-SMB2] 3.3.5.22.1.
    #[error("the oplock is not breaking")]
    OplockNotBreaking,
    /// An acknowledgment for an open without an oplock: [MS-SMB2] 3.3.5.22.1.
    #[error("the open has no oplock")]
    OplockNotHeld,
    /// The response, or its first part, does not fit: [MS-SMB2] 3.3.5.15, 3.3.5.20.3.
    #[error("the response has {need} bytes, and the client takes {room}")]
    OutputBufferTooSmall {
        /// Number of bytes of the response.
        need: usize,
        /// Number of bytes that the client takes.
        room: usize,
    },
    /// A directory that is to be overwritten: [MS-SMB2] 3.3.5.9.
    #[error("a directory cannot be overwritten, and {0:?} asks for one")]
    OverwriteOfDirectory(CreateOptions),
    /// A read-only file that is to be overwritten: [MS-FSA] 2.1.5.1.2.1.
    #[error("a read-only file cannot be overwritten")]
    OverwriteOfReadOnly,
    /// The pattern of QUERY_DIRECTORY is no name expression: [MS-FSA] 2.1.5.6.
    #[error("the search pattern is too long, has a separator or is not UTF-16")]
    PatternInvalid,
    /// What was written to the pipe is not DCE/RPC.
    #[error("the pipe was written what is not DCE/RPC")]
    PipeBroken,
    /// The pipe has an unread response: [MS-SMB2] 3.3.5.15.10.
    #[error("the pipe has an unread response")]
    PipeBusy,
    /// A class for pipes asked of a file, or the reverse: [MS-SMB2] 3.3.5.20.1.
    #[error("{0:?} is a class for pipes or files alone")]
    PipeClassUnknown(FileInformationClass),
    /// Data of a WRITE to a pipe were left in the kernel.
    #[error("{0} bytes for the pipe were not received")]
    PipeDataMissing(usize),
    /// The pipe has no response to read: [MS-SMB2] 3.3.5.12.
    #[error("the pipe has no response")]
    PipeEmpty,
    /// Deletion as POSIX does it is not offered: [MS-FSA] 2.1.5.15.3.
    #[error("FILE_DISPOSITION_POSIX_SEMANTICS is not offered")]
    PosixDeletion,
    /// A 3.1.1 client sent no hash to preauthenticate with: [MS-SMB2] 3.3.5.4.
    #[error("the client offers no preauthentication hash")]
    PreauthMissing,
    /// A 3.1.1 client has no hash in common with the server: [MS-SMB2] 3.3.5.4.
    #[error("the client does not offer SHA-512")]
    PreauthWithoutCommonHash,
    /// An earlier request of the compound failed: [MS-SMB2] 3.3.5.2.7.2.
    #[error("the request before failed: {0}")]
    Previous(NtStatus),
    /// Data were read without a copy, and have to be protected since.
    #[error("the session has come to require signatures meanwhile")]
    ProtectedMeanwhile,
    /// A range ends beyond 63 bits: [MS-FSA] 2.1.5.3, 2.1.5.4.
    #[error("{length} bytes from {offset} end beyond the longest file")]
    RangeBeyondMax {
        /// Offset of the range, in bytes.
        offset: u64,
        /// Length of the range, in bytes.
        length: u64,
    },
    /// A command for quotas has failed, or has no right output.
    #[error("the command for quotas has failed")]
    QuotaCommandFailed,
    /// A threshold or limit of a quota is negative: [MS-FSCC] 2.4.40.
    #[error("{0:#x} is no limit of a quota")]
    QuotaLimitInvalid(u64),
    /// A list of quotas, or of users to query, is inconsistent: [MS-SMB2] 3.3.5.20.4, [MS-FSCC]
    /// 2.4.40.
    #[error("the entry at {0} of the list of quotas is invalid")]
    QuotaListInvalid(usize),
    /// Administrators have no limit: [MS-FSA] 2.1.5.22.
    #[error("administrators have no limit")]
    QuotaOfAdministrators,
    /// The file system's quotas are turned on and off by its administrator on the server, and have
    /// no default limits: [MS-FSA] 2.1.5.16.6.
    #[error("quotas of the file system cannot be turned on or off, and have no defaults")]
    QuotaStateFixed,
    /// The open has no lock of exactly this range: [MS-SMB2] 3.3.5.14.1.
    #[error("the open has no lock of this range")]
    RangeNotLocked,
    /// A range ends before it begins: [MS-FSCC] 2.3.85.
    #[error("the range ends at {to}, before its beginning at {from}")]
    RangeReversed {
        /// Offset of the first byte.
        from: u64,
        /// Offset behind the last byte.
        to: u64,
    },
    /// READ or WRITE by RDMA: [MS-SMB2] 3.3.5.12, 3.3.5.13.
    #[error("RDMA is not offered")]
    RdmaNotOffered,
    /// Deletion of a read-only file: [MS-FSA] 2.1.5.15.3.
    #[error("a read-only file cannot be deleted")]
    ReadOnlyDeletion,
    /// The record of the file could not be read or kept.
    #[error("{0}")]
    Records(RecordsError),
    /// No referral fits the client's buffer: [MS-DFSC] 3.2.5.1.
    #[error("no referral fits the buffer of {0} bytes")]
    ReferralTooLong(usize),
    /// A stream renamed to another file, which it keeps open: [MS-FSA] 2.1.5.15.11.
    #[error("a stream stays with its file")]
    RenameOfStream,
    /// The data of a reparse point are not those of its tag: [MS-FSA] 2.1.5.10.37.
    #[error("the data of the reparse point are invalid")]
    ReparseDataInvalid,
    /// The control code has no reparse point: [MS-FSA] 2.1.5.10.37.
    #[error("the request has no reparse point")]
    ReparsePointMissing,
    /// A reparse point with a reserved tag: [MS-FSA] 2.1.5.10.37.
    #[error("the reparse tag {0:#x} is reserved")]
    ReparseTagReserved(u32),
    /// A replay asks for another lease than the first request: [MS-SMB2] 3.3.5.9.10.
    #[error("the replay names another lease")]
    ReplayOfAnotherLease,
    /// Resilient opens came with dialect 2.1: [MS-SMB2] 3.3.5.15.9.
    #[error("dialect 2.0.2 has no resilient opens")]
    ResiliencyBefore21,
    /// Resilient opens of directories, guests or shares without them: [MS-SMB2] 3.3.5.15.9.
    #[error("the open cannot be made resilient")]
    ResiliencyNotOffered,
    /// A timeout above that of the server: [MS-SMB2] 3.3.5.15.9.
    #[error("a timeout of {0} ms is too long for a resilient open")]
    ResiliencyTooLong(u32),
    /// Deletion of the share's root: [MS-FSA] 2.1.5.15.3.
    #[error("the root of the share cannot be deleted")]
    RootCannotBeDeleted,
    /// A new name that is the share's root: [MS-FSA] 2.1.5.15.11.
    #[error("the new name is the root of the share")]
    RootCannotBeTarget,
    /// RootDirectory of a rename is not zero: [MS-SMB2] 2.2.39.
    #[error("RootDirectory is {0:#x}, and has to be zero")]
    RootDirectoryNotZero(u64),
    /// Bytes that are not a security descriptor: [MS-DTYP] 2.4.6.
    #[error("the security descriptor is malformed")]
    SecurityDescriptorInvalid,
    /// The session must authenticate again: [MS-SMB2] 3.3.5.2.9.
    #[error("the session has expired")]
    SessionExpired,
    /// The user or address may not use the share: [MS-SMB2] 3.3.5.7.
    #[error("the user may not use the share")]
    ShareAccessDenied,
    /// ShareAccess has reserved bits: [MS-SMB2] 3.3.5.9.
    #[error("{0:?} has reserved bits")]
    ShareAccessInvalid(ShareAccess),
    /// Another open excludes this one: [MS-FSA] 2.1.5.1.2.
    #[error("another open of the file excludes this one")]
    SharingViolation,
    /// A local program has locked the whole file: `kernel share modes`.
    #[error("a program of the server has locked the file")]
    SharingViolationByProgram,
    /// Deletion of a file in a snapshot.
    #[error("a snapshot cannot be changed")]
    SnapshotCannotChange,
    /// The client has to follow a symbolic link: [MS-SMB2] 2.2.2.2.1.
    #[error("the name leads through a symbolic link")]
    StoppedOnSymbolicLink,
    /// A stream that is to be opened as a directory: [MS-FSA] 2.1.5.1.
    #[error("a stream is not a directory")]
    StreamIsDirectory,
    /// The stream part of the name is invalid: [MS-FSCC] 2.1.5.
    #[error("the name of the stream is invalid")]
    StreamNameInvalid,
    /// A stream of the share's root gets a name: [MS-FSA] 2.1.5.15.11.
    #[error("the root of the share cannot become a stream")]
    StreamOfRoot,
    /// A stream renamed to the file proper: [MS-FSA] 2.1.5.15.11.
    #[error("data do not move between a stream and its file")]
    StreamToFile,
    /// `smbd:named streams` are off for the share.
    #[error("the share has no named streams")]
    StreamsOff,
    /// Streams of the file to rename are open: [MS-FSA] 2.1.5.15.11.
    #[error("another stream of the file is open")]
    StreamsOpen,
    /// A rename without a new name: [MS-FSCC] 2.4.42.
    #[error("the new name is empty")]
    TargetNameEmpty,
    /// The file that a rename replaces is open: [MS-FSA] 2.1.5.15.11.
    #[error("the file to replace is open")]
    TargetOpen,
    /// A time that is neither a time nor an instruction: [MS-FSCC] 2.4.7.
    #[error("{} is not a time", .0.0.cast_signed())]
    TimeInvalid(FileTime),
    /// A request that would wait without an end is too long to be kept.
    #[error("the request is too long to wait for an event")]
    TooLongToWait,
    /// The connection has its limit of requests that wait.
    #[error("too many requests of the connection wait")]
    TooManyAsyncCommands,
    /// The session has its limit of channels.
    #[error("the session has too many channels")]
    TooManyChannels,
    /// The share has its limit of connections.
    #[error("the share has too many connections")]
    TooManyConnections,
    /// Too many logons from this address have failed, or wait.
    #[error("too many failed logons")]
    TooManyFailedLogons,
    /// The request, its file, open or client has too many locks.
    #[error("there are too many locks")]
    TooManyLocks,
    /// The client or the file has its limit of opens.
    #[error("there are too many opens")]
    TooManyOpens,
    /// The client has its limit of open pipes.
    #[error("the client has too many open pipes")]
    TooManyPipes,
    /// A list of quotas has more users than one request may.
    #[error("quotas of {0} users are too many at once")]
    TooManyQuotaUsers(usize),
    /// The client has its limit of sessions.
    #[error("too many sessions")]
    TooManySessions,
    /// The session has its limit of tree connects.
    #[error("the session has too many tree connects")]
    TooManyTreeConnects,
    /// The client has its limit of watched directories.
    #[error("the client watches too many directories")]
    TooManyWatches,
    /// The client has its limit of memory: see
    /// [`MemoryAccount`](crate::memory_account::MemoryAccount).
    #[error("the client has used up its memory")]
    TooMuchMemory,
    /// The header names no command: [MS-SMB2] 2.2.1.2.
    #[error("the header names no command")]
    UnknownCommand,
    /// No such FSCTL, or not for this open: [MS-SMB2] 3.3.5.15.
    #[error("{0:?} is not a control code for this open")]
    UnknownFsctl(FsctlCode),
    /// Another user logs on in a session: [MS-SMB2] 3.3.5.5.2.
    #[error("the session is another user's")]
    UserChanged,
}

macro_rules! statuses {
    (
        given { $($given:ident($value:ident) => $make:expr,)* }
        $($status:ident: $($variant:ident)*;)*
    ) => {
        impl Reject {
            /// Status for the client: the one table from reasons to the wire.
            pub fn status(self) -> NtStatus {
                match self {
                    $(Self::$given($value) => $make,)*
                    $($(Self::$variant { .. })|* => NtStatus::$status,)*
                }
            }

            /// Name of the variant, for counters and probes.
            pub fn reason(self) -> Reason {
                match self {
                    $(Self::$given(_) => Reason::$given,)*
                    $($(Self::$variant { .. } => Reason::$variant,)*)*
                }
            }
        }
    };
}

statuses! {
    given {
        Authentication(error) => error.status(),
        DomainRefused(status) => status,
        Object(status) => status,
        Previous(status) => status,
        Records(error) => match error {
            RecordsError::Damaged => NtStatus::INTERNAL_DB_CORRUPTION,
            RecordsError::Full => NtStatus::INSUFFICIENT_RESOURCES,
        },
    }
    ACCESS_DENIED: AccessNotGranted BadSignature BoundByAnotherUser DesiredAccessInvalid
        DurableOpenOfAnotherUser GuestBecameUser MeantForAnotherServer NotEncrypted NotSigned
        OpenBeneath OverwriteOfReadOnly QuotaOfAdministrators ReplayOfAnotherLease
        RootCannotBeDeleted ShareAccessDenied StreamsOpen TargetOpen UserChanged;
    ACCOUNT_DISABLED: AccountDisabled;
    // It says nothing of the user's account, which is not even looked up.
    ACCOUNT_LOCKED_OUT: TooManyFailedLogons;
    BAD_IMPERSONATION_LEVEL: ImpersonationLevelUnknown;
    BAD_NETWORK_NAME: NoSuchShare;
    BUFFER_OVERFLOW: EntryTooLong ReferralTooLong;
    BUFFER_TOO_SMALL: FsctlInputTooShort OutputBufferTooSmall;
    CANCELLED: Cancelled;
    CANNOT_DELETE: ReadOnlyDeletion;
    DELETE_PENDING: DeletePending;
    DIRECTORY_NOT_EMPTY: DirectoryNotEmpty;
    DUPLICATE_OBJECTID: DuplicateCreateGuid;
    EAS_NOT_SUPPORTED: ExtendedAttributesOff;
    EA_LIST_INCONSISTENT: ExtendedAttributeListInvalid;
    EA_TOO_LARGE: ExtendedAttributesTooLarge;
    END_OF_FILE: MinimumCountNotReached;
    FILE_CLOSED: NoSuchOpen;
    FILE_IS_A_DIRECTORY: LinkToDirectory;
    FILE_LOCK_CONFLICT: FileLockConflict;
    FILE_NOT_AVAILABLE: ChannelSequence FileNotAvailable;
    FS_DRIVER_REQUIRED: DfsOff;
    INFO_LENGTH_MISMATCH: InformationBufferTooSmall InformationTooShort;
    INSUFFICIENT_RESOURCES: TooLongToWait TooManyAsyncCommands TooManyChannels TooManyLocks
        TooManyPipes TooManyQuotaUsers TooManyWatches TooMuchMemory;
    INSUFF_SERVER_RESOURCES: CompoundTooLarge TooManySessions TooManyTreeConnects;
    INTERNAL_ERROR: AsyncInCompound;
    INVALID_BUFFER_SIZE: ReparsePointMissing;
    INVALID_DEVICE_REQUEST: DirectoryHasNoData IntegrityNotOffered NotOnFiles NotOnPipes
        ResiliencyBefore21 UnknownFsctl;
    INVALID_DEVICE_STATE: OplockNotBreaking;
    INVALID_EA_NAME: ExtendedAttributeNameInvalid;
    INVALID_HANDLE: DuplicateSourceNotFound NoRelatedFileId;
    INVALID_INFO_CLASS: FileClassUnknown FsClassUnknown;
    INVALID_LOCK_RANGE: LockRange;
    INVALID_OPLOCK_PROTOCOL: OplockAcknowledgedTooHigh OplockLevelInvalid OplockNotHeld;
    INVALID_PARAMETER: AttributesInvalid BindingNotSigned BindingOfOtherCipher
        BindingOfOtherDialect CompressionFormatUnknown CopyAboveLimits CreateContextNameTooShort
        CreateOptionsContradict CreateOptionsReserved CreditChargeTooSmall DataOffsetTooLarge
        DeleteOnCloseWithoutDelete Disconnect DispositionUnknown DuplicateSourceNotReadable
        DurableContextsExclude DurableOpenOfAnotherName FileIdNotWanted FirstIsRelated
        FsctlInputInvalid FsctlOutputTooSmall InfoTypeUnknown InformationEmpty
        InformationInvalid LeaseKeyInUse LengthAboveMax LockFlags Malformed ModeInvalid
        NameBeginsWithSeparator NegotiateContextTwice NoCipherOffered NoDialectOffered NoLocks
        NoRelatedIds NoSigningAlgorithmOffered NotDirectory NotOnDirectories OffsetNegative
        OplockIsLease OverwriteOfDirectory PipeClassUnknown PipeDataMissing PreauthMissing
        QuotaLimitInvalid QuotaListInvalid RangeBeyondMax RangeReversed RdmaNotOffered
        ResiliencyTooLong RootCannotBeTarget RootDirectoryNotZero SecurityDescriptorInvalid
        ShareAccessInvalid StreamOfRoot TargetNameEmpty TimeInvalid UnknownCommand;
    INVALID_VIEW_SIZE: CopySourceTooShort;
    IO_REPARSE_DATA_INVALID: ReparseDataInvalid;
    IO_REPARSE_TAG_INVALID: ReparseTagReserved;
    LOCK_NOT_GRANTED: LockNotGranted LockedByProgram;
    LOGON_FAILURE: LogonFailure;
    MEDIA_WRITE_PROTECTED: SnapshotCannotChange;
    NETWORK_NAME_DELETED: NoSuchTreeConnect;
    NETWORK_SESSION_EXPIRED: SessionExpired;
    NONEXISTENT_EA_ENTRY: ExtendedAttributeNotFound;
    NOTIFY_CLEANUP: NotifyCleanup;
    NOT_A_DIRECTORY: StreamIsDirectory;
    NOT_FOUND: NoSuchDfsPath;
    NOT_IMPLEMENTED: ChangeNotifyOff;
    NOT_SUPPORTED: BindingWithGmac BoundByNobody CreateOptionsUnsupported FileClassNotOffered
        FsClassNotOffered InfoTypeNotOffered IoctlNotFsctl MultichannelNotNegotiated
        NoCommonDialect NotDeleteOnClose PosixDeletion QuotaStateFixed ResiliencyNotOffered
        StreamToFile;
    NO_EAS_ON_FILE: NoExtendedAttributes;
    NO_LOGON_SERVERS: AccountUnavailable;
    NO_MORE_EAS: NoMoreExtendedAttributes;
    NO_MORE_ENTRIES: NoMoreQuotas;
    NO_MORE_FILES: NoMoreEntries;
    NO_SUCH_FILE: NoMatchingEntry;
    OBJECT_NAME_INVALID: NameComponentInvalid NameNotUnicode NameTooLong PatternInvalid
        StreamNameInvalid StreamsOff;
    OBJECT_NAME_NOT_FOUND: NameVetoed NoShortName NoSuchCopySource NoSuchDurableOpen NoSuchLease
        NoSuchPipe;
    OBJECT_PATH_NOT_FOUND: NameDotComponent;
    OBJECT_PATH_SYNTAX_BAD: NameLeavesShare;
    PIPE_BUSY: PipeBusy;
    PIPE_DISCONNECTED: PipeBroken;
    PIPE_EMPTY: PipeEmpty;
    RANGE_NOT_LOCKED: RangeNotLocked;
    REQUEST_NOT_ACCEPTED: AlreadyBound BindingNotOffered BindingTooEarly BoundElsewhere
        LeaseAcknowledgedTooHigh TooManyConnections;
    REQUEST_OUT_OF_SEQUENCE: BindingWithoutGmac;
    RETRY: ProtectedMeanwhile;
    SHARING_VIOLATION: RenameOfStream SharingViolation SharingViolationByProgram;
    SMB_NO_PREAUTH_INTEGRITY_HASH_OVERLAP: PreauthWithoutCommonHash;
    STOPPED_ON_SYMLINK: StoppedOnSymbolicLink;
    TOO_MANY_OPENED_FILES: TooManyOpens;
    UNSUCCESSFUL: LeaseNotBreaking QuotaCommandFailed;
    USER_SESSION_DELETED: NoSuchSession;
}

impl From<EaListError> for Reject {
    fn from(error: EaListError) -> Self {
        match error {
            EaListError::Inconsistent { offset } => Self::ExtendedAttributeListInvalid(offset),
            EaListError::InvalidName { offset } => Self::ExtendedAttributeNameInvalid(offset),
        }
    }
}

impl From<QuotaListError> for Reject {
    fn from(error: QuotaListError) -> Self {
        Self::QuotaListInvalid(error.offset)
    }
}

impl From<PathError> for Reject {
    fn from(error: PathError) -> Self {
        match error {
            PathError::BadComponent => Self::NameComponentInvalid,
            PathError::BadStream => Self::StreamNameInvalid,
            PathError::DotComponent => Self::NameDotComponent,
            PathError::Escapes => Self::NameLeavesShare,
            PathError::TooLong => Self::NameTooLong,
        }
    }
}

#[cfg(test)]
mod tests;
