//! Why a request is refused, and why a connection must go.

use arbitration::RecordsError;
use auth::AuthError;
use crypto::OpenError;
use dtyp::{AccessMask, NtStatus};
use wire::DecodeError;
use wire::ioctl::FsctlCode;
use wire::lock::LockFlags;

use crate::model::sequence_window::SequenceError;

/// Why a request was refused: one variant per broken rule.
///
/// Tests and traces see the variant; the client sees only [`Reject::status`]. Several rules share a
/// status, which is why handlers do not return an [`NtStatus`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Reject {
    /// The open lacks a right.
    AccessNotGranted {
        /// What the request needs.
        wanted: AccessMask,
        /// What the open has.
        granted: AccessMask,
    },
    /// The account may not log on.
    AccountDisabled,
    /// Nobody can say whose rights the user has.
    AccountUnavailable,
    /// Only the last request of a compound may wait for something without an end.
    AsyncInCompound,
    /// The mechanism refused.
    Authentication(AuthError),
    /// The signature does not match.
    BadSignature,
    /// The session is bound to the connection already.
    AlreadyBound,
    /// A session was to be bound to a further connection, which is not offered.
    BindingNotOffered,
    /// The request that binds a session does not prove to come from its client.
    BindingNotSigned,
    /// The connection has another cipher than the session's.
    BindingOfOtherCipher,
    /// The connection has another dialect than the session's.
    BindingOfOtherDialect,
    /// The session is still being set up.
    BindingTooEarly,
    /// The connection signs with AES-GMAC, and the session's does not.
    BindingWithGmac,
    /// The session's connection signs with AES-GMAC, and this one does not.
    BindingWithoutGmac,
    /// Whoever authenticated to bind a session is not its user.
    BoundByAnotherUser,
    /// Guests and anonymous users have no keys, and so no channels.
    BoundByNobody,
    /// Another worker has the session, for a client of another ClientGuid.
    BoundElsewhere,
    /// The request was cancelled, or what it waited for went away.
    Cancelled,
    /// The requests of one frame ask for more than is held for one.
    CompoundTooLarge,
    /// `change notify` is off.
    ChangeNotifyOff,
    /// The request pays for less than it sends or asks for: [MS-SMB2] 3.3.5.2.5.
    CreditChargeTooSmall {
        /// Credits needed.
        need: u32,
        /// Credits paid.
        got: u16,
    },
    /// The file is to be deleted when its last open is closed.
    DeletePending,
    /// The request shows that the connection cannot be trusted: it has no answer.
    Disconnect(Disconnect),
    /// An open with this CreateGuid is there, and the request does not say that it is a replay.
    DuplicateCreateGuid,
    /// Another open's lock is in the way.
    FileLockConflict,
    /// The first request of a compound says that it is related to one before it.
    FirstIsRelated,
    /// A FSCTL without an open names one.
    FileIdNotWanted,
    /// A persistent open of another client has the file to itself, or the request repeats one that is
    /// not through yet.
    FileNotAvailable,
    /// The client has given the key of this lease to another file.
    LeaseKeyInUse,
    /// Flags that an element of a LOCK cannot have together, or beside those of the others.
    LockFlags(LockFlags),
    /// Another lock is in the way, and the client does not want to wait.
    LockNotGranted,
    /// A range ends beyond what 64 bits can say.
    LockRange,
    /// The request has too many elements, or its file, open or client too many locks.
    TooManyLocks,
    /// A session of a guest, which has no keys, was to become a user's.
    GuestBecameUser,
    /// A request that would change something was overtaken by the loss of its channel: [MS-SMB2]
    /// 3.3.5.2.10.
    ChannelSequence {
        /// ChannelSequence of the request.
        got: u16,
        /// That of the open.
        current: Option<u16>,
    },
    /// More than the limit of its kind.
    LengthAboveMax {
        /// What was asked for, in bytes.
        length: u32,
        /// The limit, in bytes.
        max: u32,
    },
    /// The logon failed.
    LogonFailure,
    /// The client meant to log on to another server: somebody passes its logon on.
    MeantForAnotherServer,
    /// The body is not what it says it is.
    Malformed(DecodeError),
    /// The read brought less than the client insists on.
    MinimumCountNotReached {
        /// Bytes read.
        read: u32,
        /// Bytes wanted.
        minimum: u32,
    },
    /// No dialect is spoken by both sides.
    NoCommonDialect,
    /// NEGOTIATE offers no dialect at all.
    NoDialectOffered,
    /// A LOCK without an element.
    NoLocks,
    /// A related request needs a FileId, and the one before it had none.
    NoRelatedFileId,
    /// A related request needs a session or tree connect, and the one before it had none.
    NoRelatedIds,
    /// The session's open that a copy reads from is not there.
    NoSuchCopySource,
    /// There is no durable open that this client could take up.
    NoSuchDurableOpen,
    /// There is no such open.
    NoSuchOpen,
    /// There is no such session on this connection.
    NoSuchSession,
    /// There is no such share.
    NoSuchShare,
    /// There is no such tree connect.
    NoSuchTreeConnect,
    /// The handle is a pipe's, and the request is for files.
    NotOnPipes,
    /// The handle is a file's, and the request is for pipes.
    NotOnFiles,
    /// The encrypted session or share was addressed in the clear.
    NotEncrypted,
    /// The session or the server insists on signatures.
    NotSigned,
    /// The directory that a request watches was closed.
    NotifyCleanup,
    /// The store refused.
    Object(NtStatus),
    /// A 3.1.1 client sent no hash to preauthenticate with.
    PreauthMissing,
    /// A 3.1.1 client has no hash in common with the server.
    PreauthWithoutCommonHash,
    /// An earlier request of the compound failed, and this one depends on it.
    Previous(NtStatus),
    /// The open has no lock of exactly this range, or was closed while it waited for one.
    RangeNotLocked,
    /// The record of the file could not be read or kept.
    Records(RecordsError),
    /// The user or address may not use the share.
    ShareAccessDenied,
    /// The session must authenticate again.
    SessionExpired,
    /// Another open excludes this one.
    SharingViolation,
    /// A status that its rule names directly.
    Status(NtStatus),
    /// The connection has its limit of requests that wait.
    TooManyAsyncCommands,
    /// The session has its limit of channels.
    TooManyChannels,
    /// The share has its limit of connections.
    TooManyConnections,
    /// Too many logons from this address have failed, or wait.
    TooManyFailedLogons,
    /// The client has its limit of opens.
    TooManyOpens,
    /// The client has its limit of open pipes.
    TooManyPipes,
    /// The client has its limit of sessions.
    TooManySessions,
    /// The session has its limit of tree connects.
    TooManyTreeConnects,
    /// The client has its limit of watched directories.
    TooManyWatches,
    /// The client has its limit of memory: see [`crate::MemoryAccount`].
    TooMuchMemory,
    /// The request would wait for something without an end, and is longer than is kept for that.
    TooLongToWait,
    /// No such command.
    UnknownCommand,
    /// No such FSCTL, or not for what was opened.
    UnknownFsctl(FsctlCode),
    /// A session of one user was to become another's.
    UserChanged,
}

impl Reject {
    /// The status that the client is told: the one table from reason to wire.
    pub fn status(self) -> NtStatus {
        match self {
            Self::AccessNotGranted { .. }
            | Self::BadSignature
            | Self::BoundByAnotherUser
            | Self::GuestBecameUser
            | Self::MeantForAnotherServer
            | Self::NotEncrypted
            | Self::NotSigned
            | Self::ShareAccessDenied
            | Self::UserChanged => NtStatus::ACCESS_DENIED,
            Self::AccountDisabled => NtStatus::ACCOUNT_DISABLED,
            Self::AccountUnavailable => NtStatus::NO_LOGON_SERVERS,
            Self::AsyncInCompound => NtStatus::INTERNAL_ERROR,
            Self::Authentication(error) => error.status(),
            Self::AlreadyBound
            | Self::BindingNotOffered
            | Self::BindingTooEarly
            | Self::BoundElsewhere
            | Self::TooManyConnections => NtStatus::REQUEST_NOT_ACCEPTED,
            Self::BindingWithoutGmac => NtStatus::REQUEST_OUT_OF_SEQUENCE,
            Self::BindingWithGmac | Self::BoundByNobody => NtStatus::NOT_SUPPORTED,
            Self::ChannelSequence { .. } => NtStatus::FILE_NOT_AVAILABLE,
            Self::Cancelled => NtStatus::CANCELLED,
            Self::ChangeNotifyOff => NtStatus::NOT_IMPLEMENTED,
            Self::DeletePending => NtStatus::DELETE_PENDING,
            // Nobody hears it.
            Self::Disconnect(_) => NtStatus::INVALID_PARAMETER,
            Self::DuplicateCreateGuid => NtStatus::DUPLICATE_OBJECTID,
            Self::FileLockConflict => NtStatus::FILE_LOCK_CONFLICT,
            Self::FileNotAvailable => NtStatus::FILE_NOT_AVAILABLE,
            Self::BindingNotSigned
            | Self::BindingOfOtherCipher
            | Self::BindingOfOtherDialect
            | Self::CreditChargeTooSmall { .. }
            | Self::FileIdNotWanted
            | Self::FirstIsRelated
            | Self::LeaseKeyInUse
            | Self::LengthAboveMax { .. }
            | Self::LockFlags(_)
            | Self::Malformed(_)
            | Self::NoDialectOffered
            | Self::NoLocks
            | Self::NoRelatedIds
            | Self::PreauthMissing
            | Self::UnknownCommand => NtStatus::INVALID_PARAMETER,
            Self::LockNotGranted => NtStatus::LOCK_NOT_GRANTED,
            Self::LockRange => NtStatus::INVALID_LOCK_RANGE,
            Self::LogonFailure => NtStatus::LOGON_FAILURE,
            Self::MinimumCountNotReached { .. } => NtStatus::END_OF_FILE,
            Self::NoCommonDialect => NtStatus::NOT_SUPPORTED,
            Self::NoRelatedFileId => NtStatus::INVALID_HANDLE,
            Self::NoSuchCopySource | Self::NoSuchDurableOpen => NtStatus::OBJECT_NAME_NOT_FOUND,
            Self::NoSuchOpen => NtStatus::FILE_CLOSED,
            Self::NoSuchSession => NtStatus::USER_SESSION_DELETED,
            Self::NoSuchShare => NtStatus::BAD_NETWORK_NAME,
            Self::NoSuchTreeConnect => NtStatus::NETWORK_NAME_DELETED,
            Self::NotifyCleanup => NtStatus::NOTIFY_CLEANUP,
            Self::NotOnFiles | Self::NotOnPipes | Self::UnknownFsctl(_) => {
                NtStatus::INVALID_DEVICE_REQUEST
            }
            Self::Object(status) | Self::Previous(status) | Self::Status(status) => status,
            Self::PreauthWithoutCommonHash => NtStatus::SMB_NO_PREAUTH_INTEGRITY_HASH_OVERLAP,
            Self::RangeNotLocked => NtStatus::RANGE_NOT_LOCKED,
            Self::Records(RecordsError::Full) => NtStatus::INSUFFICIENT_RESOURCES,
            Self::Records(RecordsError::Damaged) => NtStatus::INTERNAL_DB_CORRUPTION,
            Self::SharingViolation => NtStatus::SHARING_VIOLATION,
            Self::SessionExpired => NtStatus::NETWORK_SESSION_EXPIRED,
            Self::TooLongToWait
            | Self::TooManyAsyncCommands
            | Self::TooManyChannels
            | Self::TooManyLocks
            | Self::TooManyPipes
            | Self::TooManyWatches
            | Self::TooMuchMemory => NtStatus::INSUFFICIENT_RESOURCES,
            // It says nothing of the user's account, which is not even looked up.
            Self::TooManyFailedLogons => NtStatus::ACCOUNT_LOCKED_OUT,
            Self::TooManyOpens => NtStatus::TOO_MANY_OPENED_FILES,
            Self::CompoundTooLarge | Self::TooManySessions | Self::TooManyTreeConnects => {
                NtStatus::INSUFF_SERVER_RESOURCES
            }
        }
    }
}

/// Why a connection must go: the client broke a rule after which no later message of it can be
/// trusted, or it is of no use any more.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Disconnect {
    /// The client's transport did not take a break notification in time.
    BreakNotConfirmed,
    /// Another connection needed its place, and no user had logged on over it.
    Crowded,
    /// A transform that is not encryption was sent without being negotiated.
    CompressionNotNegotiated,
    /// The administrator, or the server's end.
    Administrator,
    /// A header, or the chain of a compound, is not what it says it is.
    Malformed(DecodeError),
    /// What the client says that it negotiated is not what arrived here: somebody changed it on
    /// the way ([MS-SMB2] 3.3.5.15.12).
    NegotiationChanged,
    /// NEGOTIATE came twice.
    NegotiatedTwice,
    /// It is a guest's, and the worker serves a user whose connections come from elsewhere.
    GuestBesideUser,
    /// Something else than NEGOTIATE came first.
    NotNegotiated,
    /// The server ran out of nonces for the session.
    NoncesExhausted,
    /// A message that only a server sends.
    ResponseFromClient,
    /// An encrypted message did not decrypt.
    Sealed(OpenError),
    /// The session of an encrypted message is unknown, or is not the one inside it.
    SealedForAnotherSession,
    /// A message id that is not the client's to use.
    Sequence(SequenceError),
    /// An SMB1 client that cannot do SMB2.
    Smb1Only,
    /// No user logged on in time, or a guest used no share.
    TooSlow,
    /// A user of 3.1.1 connected to a share without proving what was negotiated.
    TreeConnectNotSigned,
    /// A 3.1.1 client, whose negotiation is protected otherwise, asks to validate it.
    ValidationNotWanted,
}

impl std::fmt::Display for Disconnect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let reason = match self {
            Self::BreakNotConfirmed => "a break notification was not acknowledged by TCP in time",
            Self::Crowded => "another client needs the place, and no user has logged on",
            Self::CompressionNotNegotiated => "compression was not negotiated",
            Self::Administrator => "the server or an administrator ended it",
            Self::Malformed(error) => return write!(f, "malformed message: {error}"),
            Self::NegotiationChanged => "the negotiation was changed on the way",
            Self::NegotiatedTwice => "NEGOTIATE was sent twice",
            Self::GuestBesideUser => "a guest may not share the worker of a user elsewhere",
            Self::NotNegotiated => "the first message was not NEGOTIATE",
            Self::NoncesExhausted => "the session has used up its nonces",
            Self::ResponseFromClient => "the client sent a response",
            Self::Sealed(error) => return write!(f, "cannot decrypt a message: {error}"),
            Self::SealedForAnotherSession => "an encrypted message names another session",
            Self::Sequence(SequenceError::OutsideWindow { message_id }) => {
                return write!(f, "message id {message_id} is outside the sequence window");
            }
            Self::Sequence(SequenceError::UsedTwice { message_id }) => {
                return write!(f, "message id {message_id} was used twice");
            }
            Self::Smb1Only => "the client speaks SMB 1 only",
            Self::TooSlow => "no user logged on in time, or a guest connected to no share",
            Self::TreeConnectNotSigned => "a TREE_CONNECT in dialect 3.1.1 was not signed",
            Self::ValidationNotWanted => "FSCTL_VALIDATE_NEGOTIATE_INFO is not allowed in 3.1.1",
        };
        f.write_str(reason)
    }
}
