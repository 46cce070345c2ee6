//! Information classes that consist of a name: [MS-FSCC] 2.4.5, 2.4.28, 2.4.32, 2.4.36 and 2.4.41.

use super::field::Field;
use crate::reader::Reader;
use crate::utf16;

/// FILE_NAME_INFORMATION: [MS-FSCC] 2.1.7. Also FileAlternateNameInformation and
/// FileNormalizedNameInformation.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct FileNameInformation {
    /// FileName.
    pub file_name: String,
}

impl FileNameInformation {
    /// Appends the packet form to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_name(&self.file_name, out);
    }

    /// Reads the packet form; `None` if it is incomplete or the name is not UTF-16.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        Some(Self { file_name: take_name(&mut Reader::new(bytes))? })
    }
}

/// FileRenameInformation and FileLinkInformation in their SMB2 form: [MS-FSCC] 2.4.28.2 and
/// 2.4.41.2; with flags instead of a boolean, FileRenameInformationEx and FileLinkInformationEx.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct FileRenameInformation {
    /// Flags. In the older classes bit 0 is ReplaceIfExists, and the other bits are ignored.
    pub flags: u32,
    /// RootDirectory; must be zero in SMB2.
    pub root_directory: u64,
    /// FileName: the path from the root of the share.
    pub file_name: String,
}

impl FileRenameInformation {
    /// ReplaceIfExists, and FILE_RENAME_REPLACE_IF_EXISTS.
    pub const REPLACE_IF_EXISTS: u32 = 0x0000_0001;
    /// FILE_RENAME_POSIX_SEMANTICS: replace a file that is open.
    pub const POSIX_SEMANTICS: u32 = 0x0000_0002;
    /// FILE_RENAME_IGNORE_READONLY_ATTRIBUTE.
    pub const IGNORE_READONLY_ATTRIBUTE: u32 = 0x0000_0040;

    /// True if an existing file with the new name shall be replaced.
    #[must_use]
    pub fn replace_if_exists(&self) -> bool {
        self.flags & Self::REPLACE_IF_EXISTS != 0
    }

    /// Appends the packet form. Windows requires at least 24 bytes, so a short name is padded.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        self.flags.put(out);
        0_u32.put(out);
        self.root_directory.put(out);
        put_name(&self.file_name, out);
        let len = out.len() - start;
        out.resize(start + len.max(24), 0);
    }

    /// Reads the form of the older classes, in which the seven bytes after ReplaceIfExists are
    /// reserved. `None` if it is incomplete or the name is not UTF-16.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut information = Self::decode_ex(bytes)?;
        information.flags = u32::from(information.flags & 0xFF != 0);
        Some(information)
    }

    /// Reads the form of the Ex classes, which have 32 bits of flags.
    #[must_use]
    pub fn decode_ex(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        let (flags, _reserved) = (reader.u32()?, reader.u32()?);
        let root_directory = reader.u64()?;
        Some(Self { flags, root_directory, file_name: take_name(&mut reader)? })
    }
}

/// Appends the length of `name` in bytes (32 bits), and the name.
pub(super) fn put_name(name: &str, out: &mut Vec<u8>) {
    put_len(utf16::encoded_len(name), out);
    utf16::encode(name, out);
}

/// Appends a length in bytes as a 32-bit field.
pub(super) fn put_len(len: usize, out: &mut Vec<u8>) {
    u32::try_from(len).expect("a name is far below 4 GiB").put(out);
}

pub(super) fn take_name(reader: &mut Reader<'_>) -> Option<String> {
    let len = reader.len32()?;
    utf16::decode(reader.bytes(len)?).ok()
}
