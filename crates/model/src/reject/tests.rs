//! The table of all reasons.

use arbitration::RecordsError;
use auth::AuthError;
use dtyp::fscc::{FileInformationClass, FsInformationClass};
use dtyp::{AccessMask, FileAttributes, FileTime, NtStatus};
use trace::Reason;
use wire::create::{CreateDisposition, CreateOptions, ImpersonationLevel, ShareAccess};
use wire::ioctl::{FsctlCode, IoctlFlags};
use wire::lock::LockFlags;
use wire::query_info::InfoType;
use wire::{DecodeError, OplockLevel};

use super::{Disconnect, Reject};

/// One value of each variant.
const EVERY: &[Reject] = &[
    Reject::AccessNotGranted { wanted: AccessMask::READ_DATA, granted: AccessMask::WRITE_DATA },
    Reject::AccountDisabled,
    Reject::AccountUnavailable,
    Reject::AlreadyBound,
    Reject::AsyncInCompound,
    Reject::AttributesInvalid(FileAttributes::DIRECTORY),
    Reject::Authentication(AuthError::WrongPassword),
    Reject::BadSignature,
    Reject::BindingNotOffered,
    Reject::BindingNotSigned,
    Reject::BindingOfOtherCipher,
    Reject::BindingOfOtherDialect,
    Reject::BindingTooEarly,
    Reject::BindingWithGmac,
    Reject::BindingWithoutGmac,
    Reject::BoundByAnotherUser,
    Reject::BoundByNobody,
    Reject::BoundElsewhere,
    Reject::Cancelled,
    Reject::ChangeNotifyOff,
    Reject::ChannelSequence { got: 5, current: Some(9) },
    Reject::CompoundTooLarge,
    Reject::CompressionFormatUnknown(7),
    Reject::CopyAboveLimits,
    Reject::CopySourceTooShort,
    Reject::CreateContextNameTooShort(7),
    Reject::CreateOptionsContradict(CreateOptions::DIRECTORY_FILE),
    Reject::CreateOptionsReserved(CreateOptions::DIRECTORY_FILE),
    Reject::CreateOptionsUnsupported(CreateOptions::DIRECTORY_FILE),
    Reject::CreditChargeTooSmall { need: 7, got: 5 },
    Reject::DataOffsetTooLarge(7),
    Reject::DeleteOnCloseWithoutDelete(AccessMask::READ_DATA),
    Reject::DeletePending,
    Reject::DesiredAccessInvalid(AccessMask::READ_DATA),
    Reject::DfsOff,
    Reject::DirectoryHasNoData,
    Reject::DirectoryNotEmpty,
    Reject::Disconnect(Disconnect::NegotiationChanged),
    Reject::DispositionUnknown(CreateDisposition(9)),
    Reject::DomainRefused(NtStatus::PASSWORD_EXPIRED),
    Reject::DuplicateCreateGuid,
    Reject::DuplicateSourceNotFound,
    Reject::DuplicateSourceNotReadable(AccessMask::READ_DATA),
    Reject::DurableContextsExclude,
    Reject::DurableOpenOfAnotherName,
    Reject::DurableOpenOfAnotherUser,
    Reject::EntryTooLong(7),
    Reject::ExtendedAttributeListInvalid(7),
    Reject::ExtendedAttributeNameInvalid(7),
    Reject::ExtendedAttributeNotFound(7),
    Reject::ExtendedAttributesOff,
    Reject::ExtendedAttributesTooLarge(7),
    Reject::FileClassNotOffered(FileInformationClass::RENAME_EX),
    Reject::FileClassUnknown(FileInformationClass::RENAME_EX),
    Reject::FileIdNotWanted,
    Reject::FileLockConflict,
    Reject::FileNotAvailable,
    Reject::FirstIsRelated,
    Reject::FsClassNotOffered(FsInformationClass::LABEL),
    Reject::FsClassUnknown(FsInformationClass::LABEL),
    Reject::FsctlInputInvalid(7),
    Reject::FsctlInputTooShort(7),
    Reject::FsctlOutputTooSmall { need: 7, room: 5 },
    Reject::GuestBecameUser,
    Reject::ImpersonationLevelUnknown(ImpersonationLevel(9)),
    Reject::InfoTypeNotOffered(InfoType::QUOTA),
    Reject::InfoTypeUnknown(InfoType::QUOTA),
    Reject::InformationBufferTooSmall { need: 7, room: 5 },
    Reject::InformationEmpty,
    Reject::InformationInvalid,
    Reject::InformationTooShort { length: 5, minimum: 7 },
    Reject::IntegrityNotOffered(FsctlCode::GET_INTEGRITY_INFORMATION),
    Reject::IoctlNotFsctl(IoctlFlags::empty()),
    Reject::LeaseAcknowledgedTooHigh,
    Reject::LeaseKeyInUse,
    Reject::LeaseNotBreaking,
    Reject::LengthAboveMax { length: 5, max: 5 },
    Reject::LinkToDirectory,
    Reject::LockFlags(LockFlags::UNLOCK),
    Reject::LockNotGranted,
    Reject::LockRange,
    Reject::LockedByProgram,
    Reject::LogonFailure,
    Reject::Malformed(DecodeError::Short { need: 64, have: 7 }),
    Reject::MeantForAnotherServer,
    Reject::MinimumCountNotReached { read: 5, minimum: 7 },
    Reject::ModeInvalid(7),
    Reject::MultichannelNotNegotiated,
    Reject::NameBeginsWithSeparator,
    Reject::NameComponentInvalid,
    Reject::NameDotComponent,
    Reject::NameLeavesShare,
    Reject::NameNotUnicode,
    Reject::NameTooLong,
    Reject::NameVetoed,
    Reject::NegotiateContextTwice,
    Reject::NoCipherOffered,
    Reject::NoCommonDialect,
    Reject::NoDialectOffered,
    Reject::NoExtendedAttributes,
    Reject::NoLocks,
    Reject::NoMatchingEntry,
    Reject::NoMoreEntries,
    Reject::NoMoreExtendedAttributes,
    Reject::NoMoreQuotas,
    Reject::NoRelatedFileId,
    Reject::NoRelatedIds,
    Reject::NoShortName,
    Reject::NoSigningAlgorithmOffered,
    Reject::NoSuchCopySource,
    Reject::NoSuchDfsPath,
    Reject::NoSuchDurableOpen,
    Reject::NoSuchLease,
    Reject::NoSuchOpen,
    Reject::NoSuchPipe,
    Reject::NoSuchSession,
    Reject::NoSuchShare,
    Reject::NoSuchTreeConnect,
    Reject::NotDeleteOnClose,
    Reject::NotDirectory,
    Reject::NotEncrypted,
    Reject::NotOnDirectories,
    Reject::NotOnFiles,
    Reject::NotOnPipes,
    Reject::NotSigned,
    Reject::NotifyCleanup,
    Reject::Object(NtStatus::DISK_FULL),
    Reject::OffsetNegative(u64::MAX - 6),
    Reject::OpenBeneath,
    Reject::OplockAcknowledgedTooHigh,
    Reject::OplockIsLease,
    Reject::OplockLevelInvalid(OplockLevel::BATCH),
    Reject::OplockNotBreaking,
    Reject::OplockNotHeld,
    Reject::OutputBufferTooSmall { need: 7, room: 5 },
    Reject::OverwriteOfDirectory(CreateOptions::DIRECTORY_FILE),
    Reject::OverwriteOfReadOnly,
    Reject::PatternInvalid,
    Reject::PipeBroken,
    Reject::PipeBusy,
    Reject::PipeClassUnknown(FileInformationClass::RENAME_EX),
    Reject::PipeDataMissing(7),
    Reject::PipeEmpty,
    Reject::PosixDeletion,
    Reject::PreauthMissing,
    Reject::PreauthWithoutCommonHash,
    Reject::Previous(NtStatus::DISK_FULL),
    Reject::ProtectedMeanwhile,
    Reject::RangeBeyondMax { offset: 7, length: 5 },
    Reject::QuotaCommandFailed,
    Reject::QuotaLimitInvalid(7),
    Reject::QuotaListInvalid(7),
    Reject::QuotaOfAdministrators,
    Reject::QuotaStateFixed,
    Reject::RangeNotLocked,
    Reject::RangeReversed { from: 7, to: 5 },
    Reject::RdmaNotOffered,
    Reject::ReadOnlyDeletion,
    Reject::Records(RecordsError::Full),
    Reject::ReferralTooLong(7),
    Reject::RenameOfStream,
    Reject::ReparseDataInvalid,
    Reject::ReparsePointMissing,
    Reject::ReparseTagReserved(7),
    Reject::ReplayOfAnotherLease,
    Reject::ResiliencyBefore21,
    Reject::ResiliencyNotOffered,
    Reject::ResiliencyTooLong(7),
    Reject::RootCannotBeDeleted,
    Reject::RootCannotBeTarget,
    Reject::RootDirectoryNotZero(7),
    Reject::SecurityDescriptorInvalid,
    Reject::SessionExpired,
    Reject::ShareAccessDenied,
    Reject::ShareAccessInvalid(ShareAccess::from_bits_retain(8)),
    Reject::SharingViolation,
    Reject::SharingViolationByProgram,
    Reject::SnapshotCannotChange,
    Reject::StoppedOnSymbolicLink,
    Reject::StreamIsDirectory,
    Reject::StreamNameInvalid,
    Reject::StreamOfRoot,
    Reject::StreamToFile,
    Reject::StreamsOff,
    Reject::StreamsOpen,
    Reject::TargetNameEmpty,
    Reject::TargetOpen,
    Reject::TimeInvalid(FileTime(u64::MAX - 7)),
    Reject::TooLongToWait,
    Reject::TooManyAsyncCommands,
    Reject::TooManyChannels,
    Reject::TooManyConnections,
    Reject::TooManyFailedLogons,
    Reject::TooManyLocks,
    Reject::TooManyOpens,
    Reject::TooManyPipes,
    Reject::TooManyQuotaUsers(7),
    Reject::TooManySessions,
    Reject::TooManyTreeConnects,
    Reject::TooManyWatches,
    Reject::TooMuchMemory,
    Reject::UnknownCommand,
    Reject::UnknownFsctl(FsctlCode::GET_INTEGRITY_INFORMATION),
    Reject::UserChanged,
];

#[test]
fn each_reason_has_one_variant_and_a_sentence_of_its_own() {
    for reason in &Reason::ALL[1..] {
        let count = EVERY.iter().filter(|reject| reject.reason() == *reason).count();
        assert_eq!(count, 1, "{}", reason.name());
    }
    for reject in EVERY {
        let debug = format!("{reject:?}");
        assert!(debug.starts_with(reject.reason().name()), "{debug} has another name");
        let sentence = reject.to_string();
        let is_code = sentence.starts_with(char::is_uppercase) && !sentence.contains(' ');
        assert!(!is_code && !sentence.ends_with('.'), "{sentence}");
    }
}

#[test]
fn values_that_broke_a_rule_are_in_its_sentence() {
    let length = Reject::LengthAboveMax { length: 9_000_000, max: 8_388_608 };
    assert_eq!(length.to_string(), "9000000 bytes are above the maximum of 8388608");
    let sequence = Reject::ChannelSequence { got: 3, current: Some(4) };
    assert_eq!(sequence.to_string(), "ChannelSequence 3 is behind 4 of the open");
    let records = Reject::Records(RecordsError::Damaged);
    assert_eq!(records.to_string(), "the table of open files is damaged");
    assert_eq!(Reject::OffsetNegative(u64::MAX).to_string(), "-1 is negative");
}

/// The table of `docs/refusals.md`. The status is that of the wire, so a change of it shows there.
fn documented() -> String {
    let row = |(number, reason): (usize, &Reason)| {
        let reject = EVERY.iter().find(|reject| reject.reason() == *reason).expect("one of each");
        let status = match reject {
            Reject::Authentication(_)
            | Reject::Object(_)
            | Reject::Previous(_)
            | Reject::Records(_) => "varies".to_owned(),
            other => other.status().to_string(),
        };
        format!("| {number} | {} | {status} | {reject} |\n", reason.name())
    };
    Reason::ALL.iter().enumerate().skip(1).map(row).collect()
}

/// `KEEP_REFUSALS=1` writes the table instead.
#[test]
fn the_documentation_has_every_reason_with_its_number_and_status() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/refusals.md");
    let document = std::fs::read_to_string(path).expect("it is there");
    let end_of_head = document.find("|--:|").expect("the table has a head");
    let rows = document[end_of_head..].find('\n').expect("the line ends") + end_of_head + 1;
    if std::env::var_os("KEEP_REFUSALS").is_some() {
        let document = document[..rows].to_owned() + &documented();
        std::fs::write(path, document).expect("it can be written");
        return;
    }
    for (found, row) in document[rows..].lines().zip(documented().lines()) {
        assert_eq!(found, row, "KEEP_REFUSALS=1 writes it");
    }
    assert_eq!(document[rows..].lines().count(), Reason::ALL.len() - 1);
}
