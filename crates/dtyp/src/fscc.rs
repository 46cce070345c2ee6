//! Information classes: [MS-FSCC] 2.4 and 2.5.
//!
//! A class is a value with `encode` (append the packet form) and `decode` (read it from the front
//! of a slice; `None` if it is incomplete). The caller decides how much of a variable response
//! fits, and on the status if it does not; [`FileInformationClass::minimum_len`] has the fixed
//! sizes.
//!
//! Sizes and offsets are LARGE_INTEGER on the wire and `u64` here; a value above `i64::MAX` was
//! negative, and the caller has to refuse it.

pub mod class;
pub mod directory;
pub mod ea;
pub mod entry_list;
mod field;
pub mod file;
pub mod file_all;
pub mod file_system;
pub mod name;
pub mod pipe;
pub mod posix;
pub mod quota;
pub mod reparse;
pub mod stream;

pub use class::{FileInformationClass, FsInformationClass};
pub use directory::{
    AppleFields, DirectoryEntryFields, decode_directory_entry, encode_directory_entry,
};
pub use ea::{
    EaListError, FullEa, FullEaList, GetEaList, encode_full_ea_entry, encode_get_ea_entry,
};
pub use entry_list::EntryListWriter;
pub use field::Reserved;
pub use file::{
    FileAccessInformation, FileAlignmentInformation, FileAllocationInformation,
    FileAttributeTagInformation, FileBasicInformation, FileCompressionInformation,
    FileDispositionInformation, FileDispositionInformationEx, FileEaInformation,
    FileEndOfFileInformation, FileIdInformation, FileInternalInformation, FileModeInformation,
    FileNetworkOpenInformation, FilePositionInformation, FileStandardInformation,
    FileValidDataLengthInformation,
};
pub use file_all::FileAllInformation;
pub use file_system::{
    FileFsAttributeInformation, FileFsControlInformation, FileFsDeviceInformation,
    FileFsFullSizeInformation, FileFsLabelInformation, FileFsObjectIdInformation,
    FileFsSectorSizeInformation, FileFsSizeInformation, FileFsVolumeInformation,
};
pub use name::{FileNameInformation, FileRenameInformation};
pub use pipe::{FilePipeInformation, FilePipeLocalInformation, FilePipeRemoteInformation};
pub use posix::{FileFsPosixInformation, FilePosixInformation};
pub use quota::{
    FileQuotaInformation, GetQuotaList, QuotaList, QuotaListError, encode_get_quota_entry,
};
pub use reparse::{ReparseData, ReparseTag, SymbolicLinkReparse};
pub use stream::{StreamEntry, decode_stream_list, encode_stream_entry};

#[cfg(test)]
mod tests;
