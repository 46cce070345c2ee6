//! The numbers of the information classes: [MS-FSCC] 2.4 and 2.5.

use std::fmt;

/// FileInformationClass, as SMB2 carries it in one byte.
#[derive(Clone, Copy, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct FileInformationClass(pub u8);

/// FsInformationClass, as SMB2 carries it in one byte.
#[derive(Clone, Copy, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct FsInformationClass(pub u8);

macro_rules! classes {
    ($type:ident: $($name:ident = $code:literal, $long:literal, $len:literal;)*) => {
        impl $type {
            $(
                #[doc = $long]
                pub const $name: Self = Self($code);
            )*

            /// Bytes of the fixed part, and so of the smallest buffer for this class. `None` for a
            /// class without a fixed part, and for an unknown one.
            #[must_use]
            pub const fn minimum_len(self) -> Option<usize> {
                match self.0 {
                    $($code if $len > 0 => Some($len),)*
                    _ => None,
                }
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self.0 {
                    $($code => f.write_str($long),)*
                    code => write!(f, concat!(stringify!($type), "({})"), code),
                }
            }
        }
    };
}

classes! { FileInformationClass:
    DIRECTORY = 1, "FileDirectoryInformation", 64;
    FULL_DIRECTORY = 2, "FileFullDirectoryInformation", 68;
    BOTH_DIRECTORY = 3, "FileBothDirectoryInformation", 94;
    BASIC = 4, "FileBasicInformation", 40;
    STANDARD = 5, "FileStandardInformation", 24;
    INTERNAL = 6, "FileInternalInformation", 8;
    EA = 7, "FileEaInformation", 4;
    ACCESS = 8, "FileAccessInformation", 4;
    NAME = 9, "FileNameInformation", 4;
    RENAME = 10, "FileRenameInformation", 20;
    LINK = 11, "FileLinkInformation", 20;
    NAMES = 12, "FileNamesInformation", 12;
    DISPOSITION = 13, "FileDispositionInformation", 1;
    POSITION = 14, "FilePositionInformation", 8;
    FULL_EA = 15, "FileFullEaInformation", 8;
    MODE = 16, "FileModeInformation", 4;
    ALIGNMENT = 17, "FileAlignmentInformation", 4;
    ALL = 18, "FileAllInformation", 100;
    ALLOCATION = 19, "FileAllocationInformation", 8;
    END_OF_FILE = 20, "FileEndOfFileInformation", 8;
    ALTERNATE_NAME = 21, "FileAlternateNameInformation", 4;
    STREAM = 22, "FileStreamInformation", 24;
    PIPE = 23, "FilePipeInformation", 8;
    PIPE_LOCAL = 24, "FilePipeLocalInformation", 40;
    PIPE_REMOTE = 25, "FilePipeRemoteInformation", 12;
    COMPRESSION = 28, "FileCompressionInformation", 16;
    OBJECT_ID = 29, "FileObjectIdInformation", 64;
    QUOTA = 32, "FileQuotaInformation", 40;
    REPARSE_POINT = 33, "FileReparsePointInformation", 16;
    NETWORK_OPEN = 34, "FileNetworkOpenInformation", 56;
    ATTRIBUTE_TAG = 35, "FileAttributeTagInformation", 8;
    ID_BOTH_DIRECTORY = 37, "FileIdBothDirectoryInformation", 104;
    ID_FULL_DIRECTORY = 38, "FileIdFullDirectoryInformation", 80;
    VALID_DATA_LENGTH = 39, "FileValidDataLengthInformation", 8;
    SHORT_NAME = 40, "FileShortNameInformation", 4;
    NORMALIZED_NAME = 48, "FileNormalizedNameInformation", 4;
    ID_GLOBAL_TX_DIRECTORY = 50, "FileIdGlobalTxDirectoryInformation", 92;
    STANDARD_LINK = 54, "FileStandardLinkInformation", 12;
    ID = 59, "FileIdInformation", 24;
    ID_EXTD_DIRECTORY = 60, "FileIdExtdDirectoryInformation", 88;
    ID_EXTD_BOTH_DIRECTORY = 63, "FileIdExtdBothDirectoryInformation", 114;
    DISPOSITION_EX = 64, "FileDispositionInformationEx", 4;
    RENAME_EX = 65, "FileRenameInformationEx", 20;
    STAT = 68, "FileStatInformation", 72;
    LINK_EX = 72, "FileLinkInformationEx", 20;
    ID_64_EXTD_DIRECTORY = 78, "FileId64ExtdDirectoryInformation", 80;
    ID_64_EXTD_BOTH_DIRECTORY = 79, "FileId64ExtdBothDirectoryInformation", 106;
    ID_ALL_EXTD_DIRECTORY = 80, "FileIdAllExtdDirectoryInformation", 96;
    ID_ALL_EXTD_BOTH_DIRECTORY = 81, "FileIdAllExtdBothDirectoryInformation", 122;
    POSIX = 100, "FilePosixInformation", 80;
}

classes! { FsInformationClass:
    VOLUME = 1, "FileFsVolumeInformation", 18;
    LABEL = 2, "FileFsLabelInformation", 4;
    SIZE = 3, "FileFsSizeInformation", 24;
    DEVICE = 4, "FileFsDeviceInformation", 8;
    ATTRIBUTE = 5, "FileFsAttributeInformation", 12;
    CONTROL = 6, "FileFsControlInformation", 48;
    FULL_SIZE = 7, "FileFsFullSizeInformation", 32;
    OBJECT_ID = 8, "FileFsObjectIdInformation", 64;
    DRIVER_PATH = 9, "FileFsDriverPathInformation", 12;
    VOLUME_FLAGS = 10, "FileFsVolumeFlagsInformation", 4;
    SECTOR_SIZE = 11, "FileFsSectorSizeInformation", 28;
    POSIX = 100, "FileFsPosixInformation", 56;
}
