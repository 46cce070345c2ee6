//! Reasons of refused requests: the names of the variants of `proto::Reject`.

use crate::names::Kind;

macro_rules! reasons {
    ($($name:ident)*) => {
        /// Reason why a request was refused, for counters, probes and the log.
        ///
        /// Each is a variant of `proto::Reject`, which has the rule and its values. Numbers stay as
        /// they are: a further reason goes to the end, and `docs/refusals.md` lists it.
        #[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
        #[repr(u8)]
        pub enum Reason {
            /// The request broke no rule.
            NotRefused,
            $(
                #[doc = concat!("Reason `Reject::", stringify!($name), "` of the engine.")]
                $name,
            )*
        }

        impl Kind for Reason {
            const NAMES: &'static [&'static str] = &["NotRefused", $(stringify!($name),)*];
        }

        impl Reason {
            /// All values, in the order of their numbers.
            pub const ALL: &'static [Self] = &[Self::NotRefused, $(Self::$name,)*];
        }
    };
}

impl Reason {
    /// Number in the page and in probes; zero is [`Reason::NotRefused`].
    #[must_use]
    pub const fn number(self) -> u64 {
        self as u64
    }

    /// Name in reports and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// Returns the value with a number; an unknown number has no reason.
    #[must_use]
    pub fn from_number(number: u64) -> Self {
        let index = usize::try_from(number).unwrap_or(usize::MAX);
        Self::ALL.get(index).copied().unwrap_or(Self::NotRefused)
    }
}

reasons! {
    AccessNotGranted
    AccountDisabled
    AccountUnavailable
    AlreadyBound
    AsyncInCompound
    AttributesInvalid
    Authentication
    BadSignature
    BindingNotOffered
    BindingNotSigned
    BindingOfOtherCipher
    BindingOfOtherDialect
    BindingTooEarly
    BindingWithGmac
    BindingWithoutGmac
    BoundByAnotherUser
    BoundByNobody
    BoundElsewhere
    Cancelled
    ChangeNotifyOff
    ChannelSequence
    CompoundTooLarge
    CompressionFormatUnknown
    CopyAboveLimits
    CopySourceTooShort
    CreateContextNameTooShort
    CreateOptionsContradict
    CreateOptionsReserved
    CreateOptionsUnsupported
    CreditChargeTooSmall
    DataOffsetTooLarge
    DeleteOnCloseWithoutDelete
    DeletePending
    DesiredAccessInvalid
    DfsOff
    DirectoryHasNoData
    DirectoryNotEmpty
    Disconnect
    DispositionUnknown
    DomainRefused
    DuplicateCreateGuid
    DuplicateSourceNotFound
    DuplicateSourceNotReadable
    DurableContextsExclude
    DurableOpenOfAnotherName
    DurableOpenOfAnotherUser
    EntryTooLong
    ExtendedAttributeListInvalid
    ExtendedAttributeNameInvalid
    ExtendedAttributeNotFound
    ExtendedAttributesOff
    FileClassNotOffered
    FileClassUnknown
    FileIdNotWanted
    FileLockConflict
    FileNotAvailable
    FirstIsRelated
    FsClassNotOffered
    FsClassUnknown
    FsctlInputInvalid
    FsctlInputTooShort
    FsctlOutputTooSmall
    GuestBecameUser
    ImpersonationLevelUnknown
    InfoTypeNotOffered
    InfoTypeUnknown
    InformationBufferTooSmall
    InformationEmpty
    InformationInvalid
    InformationTooShort
    IntegrityNotOffered
    IoctlNotFsctl
    LeaseAcknowledgedTooHigh
    LeaseKeyInUse
    LeaseNotBreaking
    LengthAboveMax
    LinkToDirectory
    LockFlags
    LockNotGranted
    LockRange
    LogonFailure
    Malformed
    MeantForAnotherServer
    MinimumCountNotReached
    ModeInvalid
    MultichannelNotNegotiated
    NameBeginsWithSeparator
    NameComponentInvalid
    NameDotComponent
    NameLeavesShare
    NameNotUnicode
    NameTooLong
    NameVetoed
    NegotiateContextTwice
    NoCipherOffered
    NoCommonDialect
    NoDialectOffered
    NoExtendedAttributes
    NoLocks
    NoMatchingEntry
    NoMoreEntries
    NoMoreExtendedAttributes
    NoRelatedFileId
    NoRelatedIds
    NoShortName
    NoSigningAlgorithmOffered
    NoSuchCopySource
    NoSuchDfsPath
    NoSuchDurableOpen
    NoSuchLease
    NoSuchOpen
    NoSuchPipe
    NoSuchSession
    NoSuchShare
    NoSuchTreeConnect
    NotDeleteOnClose
    NotDirectory
    NotEncrypted
    NotOnDirectories
    NotOnFiles
    NotOnPipes
    NotSigned
    NotifyCleanup
    Object
    OffsetNegative
    OpenBeneath
    OplockAcknowledgedTooHigh
    OplockIsLease
    OplockLevelInvalid
    OplockNotBreaking
    OplockNotHeld
    OutputBufferTooSmall
    OverwriteOfDirectory
    OverwriteOfReadOnly
    PatternInvalid
    PipeBroken
    PipeBusy
    PipeClassUnknown
    PipeDataMissing
    PipeEmpty
    PosixDeletion
    PreauthMissing
    PreauthWithoutCommonHash
    Previous
    ProtectedMeanwhile
    RangeBeyondMax
    RangeNotLocked
    RangeReversed
    RdmaNotOffered
    ReadOnlyDeletion
    Records
    ReferralTooLong
    RenameOfStream
    ReparseDataInvalid
    ReparsePointMissing
    ReparseTagReserved
    ReplayOfAnotherLease
    ResiliencyBefore21
    ResiliencyNotOffered
    ResiliencyTooLong
    RootCannotBeDeleted
    RootCannotBeTarget
    RootDirectoryNotZero
    SecurityDescriptorInvalid
    SessionExpired
    ShareAccessDenied
    ShareAccessInvalid
    SharingViolation
    SnapshotCannotChange
    StoppedOnSymbolicLink
    StreamIsDirectory
    StreamNameInvalid
    StreamOfRoot
    StreamToFile
    StreamsOff
    StreamsOpen
    TargetNameEmpty
    TargetOpen
    TimeInvalid
    TooLongToWait
    TooManyAsyncCommands
    TooManyChannels
    TooManyConnections
    TooManyFailedLogons
    TooManyLocks
    TooManyOpens
    TooManyPipes
    TooManySessions
    TooManyTreeConnects
    TooManyWatches
    TooMuchMemory
    UnknownCommand
    UnknownFsctl
    UserChanged
    ExtendedAttributesTooLarge
    LockedByProgram
    SharingViolationByProgram
    NoMoreQuotas
    QuotaCommandFailed
    QuotaLimitInvalid
    QuotaListInvalid
    QuotaStateFixed
    TooManyQuotaUsers
    QuotaOfAdministrators
}
