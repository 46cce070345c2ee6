//! Random requests, the same for both servers.

use dtyp::{AccessMask, FileAttributes, FileInformationClass, FsInformationClass};
use wire::create::{CreateDisposition, CreateOptions, ShareAccess};
use wire::lock::LockFlags;

use super::random::Random;

/// Opens that a client has at a time.
pub(super) const SLOTS: usize = 4;

/// One request; opens are known by their slots.
#[derive(Clone, Debug)]
pub(super) enum Operation {
    Create {
        slot: usize,
        name: String,
        access: AccessMask,
        share: ShareAccess,
        disposition: CreateDisposition,
        options: CreateOptions,
        attributes: FileAttributes,
    },
    Close {
        slot: usize,
    },
    Read {
        slot: usize,
        offset: u64,
        length: u32,
    },
    Write {
        slot: usize,
        offset: u64,
        length: usize,
        fill: u8,
    },
    Flush {
        slot: usize,
    },
    Lock {
        slot: usize,
        offset: u64,
        length: u64,
        flags: LockFlags,
    },
    QueryFile {
        slot: usize,
        class: FileInformationClass,
    },
    QueryVolume {
        slot: usize,
        class: FsInformationClass,
    },
    SetAttributes {
        slot: usize,
        attributes: FileAttributes,
    },
    SetEndOfFile {
        slot: usize,
        end: u64,
    },
    SetDisposition {
        slot: usize,
        is_pending: bool,
    },
    Rename {
        slot: usize,
        name: String,
        replaces: bool,
    },
    List {
        slot: usize,
        pattern: &'static str,
    },
}

impl Operation {
    /// Chooses a request; `held` are the slots with an open.
    pub(super) fn choose(random: &mut Random, held: &[usize]) -> Self {
        let free: Vec<usize> = (0..SLOTS).filter(|slot| !held.contains(slot)).collect();
        if held.is_empty() || (!free.is_empty() && random.below(10) < 3) {
            return Self::create(random, free.first().copied().unwrap_or_default());
        }
        let slot = random.one_of(held);
        let offset = random.one_of(&[0, 0, 1, 100, 4096, 70_000]);
        match random.below(20) {
            0..=3 => Self::Close { slot },
            4 | 5 => Self::Read { slot, offset, length: random.one_of(&[0, 1, 100, 5000]) },
            6 | 7 => {
                let length = random.one_of(&[0, 1, 100, 5000]);
                Self::Write { slot, offset, length, fill: b'a' + random.one_of(&[0, 1, 2]) }
            }
            8 => Self::Flush { slot },
            9 | 10 => Self::Lock {
                slot,
                offset,
                length: random.one_of(&[0, 1, 100, 4096]),
                flags: random.one_of(LOCKS),
            },
            11 | 12 => Self::QueryFile { slot, class: random.one_of(FILE_CLASSES) },
            13 => Self::QueryVolume { slot, class: random.one_of(VOLUME_CLASSES) },
            14 => Self::SetAttributes { slot, attributes: random.one_of(ATTRIBUTES) },
            15 => Self::SetEndOfFile { slot, end: random.one_of(&[0, 1, 100, 9000]) },
            16 => Self::SetDisposition { slot, is_pending: !random.once_in(3) },
            17 => Self::Rename { slot, name: name(random), replaces: random.once_in(2) },
            _ => Self::List { slot, pattern: random.one_of(PATTERNS) },
        }
    }

    fn create(random: &mut Random, slot: usize) -> Self {
        Self::Create {
            slot,
            name: name(random),
            access: random.one_of(ACCESSES),
            share: random.one_of(SHARES),
            disposition: random.one_of(DISPOSITIONS),
            options: random.one_of(OPTIONS),
            attributes: random.one_of(ATTRIBUTES),
        }
    }

    /// Slot of the open that a request applies to; a CREATE makes one.
    pub(super) const fn slot_of_open(&self) -> Option<usize> {
        match self {
            Self::Create { .. } => None,
            Self::Close { slot }
            | Self::Read { slot, .. }
            | Self::Write { slot, .. }
            | Self::Flush { slot }
            | Self::Lock { slot, .. }
            | Self::QueryFile { slot, .. }
            | Self::QueryVolume { slot, .. }
            | Self::SetAttributes { slot, .. }
            | Self::SetEndOfFile { slot, .. }
            | Self::SetDisposition { slot, .. }
            | Self::Rename { slot, .. }
            | Self::List { slot, .. } => Some(*slot),
        }
    }

    /// True if the request renames its object, or marks it for deletion.
    pub(super) const fn changes_name(&self) -> bool {
        matches!(self, Self::Rename { .. } | Self::SetDisposition { is_pending: true, .. })
    }

    /// True for a CREATE that deletes the folder of its round at the close, if that is empty.
    pub(super) fn deletes_folder(&self) -> bool {
        let Self::Create { name, options, .. } = self else { return false };
        name.is_empty() && options.contains(CreateOptions::DELETE_ON_CLOSE)
    }

    /// True for a CREATE of a stream.
    pub(super) fn names_stream(&self) -> bool {
        matches!(self, Self::Create { name, .. } if name.contains(':'))
    }

    /// Name of the request in differences.
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Create { .. } => "create",
            Self::Close { .. } => "close",
            Self::Read { .. } => "read",
            Self::Write { .. } => "write",
            Self::Flush { .. } => "flush",
            Self::Lock { .. } => "lock",
            Self::QueryFile { .. } => "query",
            Self::QueryVolume { .. } => "volume",
            Self::SetAttributes { .. } => "attributes",
            Self::SetEndOfFile { .. } => "truncate",
            Self::SetDisposition { .. } => "disposition",
            Self::Rename { .. } => "rename",
            Self::List { .. } => "list",
        }
    }
}

/// Chooses a name, sometimes in another case.
fn name(random: &mut Random) -> String {
    let name = random.one_of(NAMES);
    match random.below(6) {
        0 => name.to_uppercase(),
        1 => name.to_lowercase(),
        _ => name.to_owned(),
    }
}

/// Names of files and folders, good ones and bad ones.
const NAMES: &[&str] = &[
    "a",
    "a",
    "B1.txt",
    "B1.txt",
    "long name of a file.document",
    ".hidden",
    "veto me.tmp",
    "UPPER",
    "größe",
    "dir",
    "dir",
    "dir\\inner",
    "dir\\inner",
    "dir\\sub\\deep",
    "other",
    "other\\B1.txt",
    "x~1",
    "semi;colon",
    "ends.",
    "ends ",
    "star*",
    "a?",
    "pipe|d",
    "a:stream",
    "B1.txt:side:$DATA",
    "dir:of folder",
    "a\\below a file",
    "",
];

const ACCESSES: &[AccessMask] = &[
    AccessMask::FILE_ALL,
    AccessMask::FILE_ALL,
    AccessMask::FILE_GENERIC_READ,
    AccessMask::FILE_GENERIC_READ.union(AccessMask::FILE_GENERIC_WRITE),
    AccessMask::FILE_GENERIC_READ.union(AccessMask::FILE_GENERIC_WRITE).union(AccessMask::DELETE),
    AccessMask::MAXIMUM_ALLOWED,
    AccessMask::READ_ATTRIBUTES,
    AccessMask::READ_ATTRIBUTES.union(AccessMask::DELETE),
    AccessMask::WRITE_DATA,
    AccessMask::APPEND_DATA,
    AccessMask::READ_CONTROL,
    AccessMask::GENERIC_EXECUTE,
    AccessMask::empty(),
];

const SHARES: &[ShareAccess] = &[
    ShareAccess::READ.union(ShareAccess::WRITE).union(ShareAccess::DELETE),
    ShareAccess::READ.union(ShareAccess::WRITE).union(ShareAccess::DELETE),
    ShareAccess::READ.union(ShareAccess::WRITE).union(ShareAccess::DELETE),
    ShareAccess::READ.union(ShareAccess::WRITE),
    ShareAccess::READ,
    ShareAccess::empty(),
];

const DISPOSITIONS: &[CreateDisposition] = &[
    CreateDisposition::OPEN,
    CreateDisposition::OPEN_IF,
    CreateDisposition::OPEN_IF,
    CreateDisposition::CREATE,
    CreateDisposition::CREATE,
    CreateDisposition::OVERWRITE,
    CreateDisposition::OVERWRITE_IF,
    CreateDisposition::SUPERSEDE,
];

const OPTIONS: &[CreateOptions] = &[
    CreateOptions::empty(),
    CreateOptions::empty(),
    CreateOptions::empty(),
    CreateOptions::NON_DIRECTORY_FILE,
    CreateOptions::DIRECTORY_FILE,
    CreateOptions::DIRECTORY_FILE,
    CreateOptions::DELETE_ON_CLOSE,
    CreateOptions::WRITE_THROUGH,
];

const ATTRIBUTES: &[FileAttributes] = &[
    FileAttributes::empty(),
    FileAttributes::NORMAL,
    FileAttributes::ARCHIVE,
    FileAttributes::READONLY,
    FileAttributes::HIDDEN,
    FileAttributes::SYSTEM.union(FileAttributes::HIDDEN),
    FileAttributes::READONLY.union(FileAttributes::ARCHIVE),
];

const LOCKS: &[LockFlags] = &[
    LockFlags::SHARED_LOCK.union(LockFlags::FAIL_IMMEDIATELY),
    LockFlags::EXCLUSIVE_LOCK.union(LockFlags::FAIL_IMMEDIATELY),
    LockFlags::EXCLUSIVE_LOCK.union(LockFlags::FAIL_IMMEDIATELY),
    LockFlags::UNLOCK,
];

const FILE_CLASSES: &[FileInformationClass] = &[
    FileInformationClass::BASIC,
    FileInformationClass::STANDARD,
    FileInformationClass::EA,
    FileInformationClass::ACCESS,
    FileInformationClass::ALL,
    FileInformationClass::ALTERNATE_NAME,
    FileInformationClass::STREAM,
    FileInformationClass::NETWORK_OPEN,
    FileInformationClass::ATTRIBUTE_TAG,
    FileInformationClass::MODE,
    FileInformationClass::NORMALIZED_NAME,
    FileInformationClass::COMPRESSION,
    FileInformationClass::POSITION,
];

const VOLUME_CLASSES: &[FsInformationClass] =
    &[FsInformationClass::VOLUME, FsInformationClass::DEVICE, FsInformationClass::ATTRIBUTE];

const PATTERNS: &[&str] = &["*", "*", "*.txt", "?", "<.>", "UPPER", "nothing"];
