//! Directory entries: [MS-FSCC] 2.4.8, 2.4.10, 2.4.15 to 2.4.25, 2.4.33.
//!
//! The classes are the same entry with more or fewer fields. One structure has the fields of all
//! classes, so that an enumeration collects once and encodes for the requested class.

use std::borrow::Cow;

use super::FileInformationClass;
use super::field::Field;
use crate::reader::Reader;
use crate::{AccessMask, FileAttributes, FileTime, utf16};

/// Fields of a file in all directory classes.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct DirectoryEntryFields<'a> {
    /// FileIndex; zero where the position in a directory is not stable, as on every file system of
    /// this server.
    pub file_index: u32,
    /// CreationTime.
    pub creation_time: FileTime,
    /// LastAccessTime.
    pub last_access_time: FileTime,
    /// LastWriteTime.
    pub last_write_time: FileTime,
    /// ChangeTime.
    pub change_time: FileTime,
    /// EndOfFile, in bytes.
    pub end_of_file: u64,
    /// AllocationSize, in bytes.
    pub allocation_size: u64,
    /// FileAttributes.
    pub file_attributes: FileAttributes,
    /// EaSize, in bytes.
    pub ea_size: u32,
    /// ReparsePointTag. Classes without that field have it in EaSize, if REPARSE_POINT is set.
    pub reparse_tag: u32,
    /// ShortName: at most 12 units; empty for a file without one.
    pub short_name: Cow<'a, str>,
    /// FileId of 64 bits.
    pub file_id: u64,
    /// FileId of 128 bits.
    pub file_id_128: [u8; 16],
    /// FileName.
    pub file_name: Cow<'a, str>,
    /// Fields for Apple's clients in FileIdBothDirectoryInformation, in place of EaSize and
    /// ShortName.
    pub apple: Option<AppleFields>,
}

/// Fields of FileIdBothDirectoryInformation for Apple's clients that requested them by the create
/// context `AAPL`. Not in [MS-FSCC].
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct AppleFields {
    /// Maximal access of the user on the file; in EaSize.
    pub maximal_access: AccessMask,
    /// Length of the resource fork in bytes; in the first part of ShortName.
    pub resource_fork_size: u64,
    /// The Finder information in short form; in the rest of ShortName.
    pub finder_info: [u8; 16],
    /// POSIX mode; in the reserved field before FileId.
    pub unix_mode: u16,
}

/// The fields between FileNameLength and FileName, in their order.
#[derive(Clone, Copy)]
enum Part {
    /// EaSize, or the reparse tag in its place.
    EaSizeOrTag,
    EaSize,
    Tag,
    ShortName,
    Id64,
    Id128,
    Reserved2,
    Reserved4,
}

/// Fields of a class after FileNameLength; `None` if it is not a directory class.
/// FileNamesInformation lacks the times and sizes as well.
fn parts(class: FileInformationClass) -> Option<&'static [Part]> {
    use Part::{EaSize, EaSizeOrTag, Id64, Id128, Reserved2, Reserved4, ShortName, Tag};
    Some(match class {
        FileInformationClass::DIRECTORY | FileInformationClass::NAMES => &[],
        FileInformationClass::FULL_DIRECTORY => &[EaSizeOrTag],
        FileInformationClass::BOTH_DIRECTORY => &[EaSizeOrTag, ShortName],
        FileInformationClass::ID_BOTH_DIRECTORY => &[EaSizeOrTag, ShortName, Reserved2, Id64],
        FileInformationClass::ID_FULL_DIRECTORY => &[EaSizeOrTag, Reserved4, Id64],
        FileInformationClass::ID_EXTD_DIRECTORY => &[EaSize, Tag, Id128],
        FileInformationClass::ID_EXTD_BOTH_DIRECTORY => &[EaSize, Tag, Id128, ShortName],
        FileInformationClass::ID_64_EXTD_DIRECTORY => &[EaSize, Tag, Id64],
        FileInformationClass::ID_64_EXTD_BOTH_DIRECTORY => &[EaSize, Tag, Id64, ShortName],
        FileInformationClass::ID_ALL_EXTD_DIRECTORY => &[EaSize, Tag, Id64, Id128],
        FileInformationClass::ID_ALL_EXTD_BOTH_DIRECTORY => &[EaSize, Tag, Id64, Id128, ShortName],
        _ => return None,
    })
}

/// Bytes before FileNameLength: NextEntryOffset, FileIndex, four times, two sizes, the attributes.
const HEAD_LEN: usize = 60;

/// Bytes of the ShortName field.
const SHORT_NAME_LEN: usize = 24;

/// Most bytes before FileName: those of [`FileInformationClass::ID_ALL_EXTD_BOTH_DIRECTORY`].
const FIXED_LEN_MAX: usize = HEAD_LEN + 4 + 4 + 4 + 8 + 16 + 2 + SHORT_NAME_LEN;

/// Fields before FileName, built in one piece because a directory has many entries.
struct Fixed {
    bytes: [u8; FIXED_LEN_MAX],
    len: usize,
}

impl Fixed {
    /// Begins with the fields before FileNameLength, whose places are the same in all classes.
    fn new(class: FileInformationClass, fields: &DirectoryEntryFields<'_>) -> Self {
        let mut bytes = [0; FIXED_LEN_MAX];
        bytes[4..8].copy_from_slice(&fields.file_index.to_le_bytes());
        if class == FileInformationClass::NAMES {
            return Self { bytes, len: 8 };
        }
        bytes[8..16].copy_from_slice(&fields.creation_time.0.to_le_bytes());
        bytes[16..24].copy_from_slice(&fields.last_access_time.0.to_le_bytes());
        bytes[24..32].copy_from_slice(&fields.last_write_time.0.to_le_bytes());
        bytes[32..40].copy_from_slice(&fields.change_time.0.to_le_bytes());
        bytes[40..48].copy_from_slice(&fields.end_of_file.to_le_bytes());
        bytes[48..56].copy_from_slice(&fields.allocation_size.to_le_bytes());
        bytes[56..HEAD_LEN].copy_from_slice(&fields.file_attributes.bits().to_le_bytes());
        Self { bytes, len: HEAD_LEN }
    }

    #[inline]
    fn put<const LEN: usize>(&mut self, value: [u8; LEN]) {
        self.bytes[self.len..self.len + LEN].copy_from_slice(&value);
        self.len += LEN;
    }

    /// Leaves `len` bytes of zeros.
    #[inline]
    fn skip(&mut self, len: usize) {
        self.len += len;
    }

    /// Appends the length of the short name, and its field.
    fn put_short_name(&mut self, name: &str) {
        let start = self.len;
        self.skip(2 + SHORT_NAME_LEN);
        if name.is_empty() {
            return;
        }
        let name = utf16::to_bytes(name);
        // A longer name is not of 8.3 form; no short name is better than half of one.
        if name.len() <= SHORT_NAME_LEN {
            self.bytes[start] = u8::try_from(name.len()).expect("at most 24");
            self.bytes[start + 2..][..name.len()].copy_from_slice(&name);
        }
    }
}

/// Appends one entry with a NextEntryOffset of zero, unpadded, for
/// [`EntryListWriter::push`](super::EntryListWriter::push). `None`, and nothing appended, if
/// `class` is not a directory class.
#[must_use]
#[inline] // A part of its one caller, which calls it for each entry of a listing.
pub fn encode_directory_entry(
    class: FileInformationClass,
    fields: &DirectoryEntryFields<'_>,
    out: &mut Vec<u8>,
) -> Option<()> {
    let parts = parts(class)?;
    let mut fixed = Fixed::new(class, fields);
    let name_len = out.len() + fixed.len;
    fixed.skip(4);
    let is_reparse_point = fields.file_attributes.contains(FileAttributes::REPARSE_POINT);
    let tag = if is_reparse_point { fields.reparse_tag } else { 0 };
    let for_apple = class == FileInformationClass::ID_BOTH_DIRECTORY;
    let apple = fields.apple.as_ref().filter(|_| for_apple);
    for part in parts {
        match (part, apple) {
            (Part::EaSizeOrTag, _) if is_reparse_point => fixed.put(tag.to_le_bytes()),
            (Part::EaSizeOrTag, Some(apple)) => {
                fixed.put(apple.maximal_access.bits().to_le_bytes());
            }
            (Part::ShortName, Some(apple)) => {
                // Clients expect the length of the field here, whatever its content.
                fixed.put([24, 0]);
                fixed.put(apple.resource_fork_size.to_le_bytes());
                fixed.put(apple.finder_info);
            }
            (Part::Reserved2, Some(apple)) => fixed.put(apple.unix_mode.to_le_bytes()),
            (Part::EaSizeOrTag | Part::EaSize, _) => fixed.put(fields.ea_size.to_le_bytes()),
            (Part::Tag, _) => fixed.put(tag.to_le_bytes()),
            (Part::ShortName, None) => fixed.put_short_name(&fields.short_name),
            (Part::Id64, _) => fixed.put(fields.file_id.to_le_bytes()),
            (Part::Id128, _) => fixed.put(fields.file_id_128),
            (Part::Reserved2, None) => fixed.skip(2),
            (Part::Reserved4, _) => fixed.skip(4),
        }
    }
    out.extend_from_slice(&fixed.bytes[..fixed.len]);
    let start = out.len();
    utf16::encode(&fields.file_name, out);
    let len = u32::try_from(out.len() - start).expect("a name is far below 4 GiB");
    out[name_len..name_len + 4].copy_from_slice(&len.to_le_bytes());
    Some(())
}

/// Reads one entry from its beginning; the caller follows NextEntryOffset. `None` if the entry is
/// incomplete, a name is not UTF-16, or `class` is not a directory class.
#[must_use]
pub fn decode_directory_entry(
    class: FileInformationClass,
    bytes: &[u8],
) -> Option<DirectoryEntryFields<'static>> {
    let parts = parts(class)?;
    let reader = &mut Reader::new(bytes);
    let _next_entry_offset = reader.u32()?;
    let mut fields = DirectoryEntryFields { file_index: reader.u32()?, ..Default::default() };
    if class != FileInformationClass::NAMES {
        fields.creation_time = Field::take(reader)?;
        fields.last_access_time = Field::take(reader)?;
        fields.last_write_time = Field::take(reader)?;
        fields.change_time = Field::take(reader)?;
        fields.end_of_file = Field::take(reader)?;
        fields.allocation_size = Field::take(reader)?;
        fields.file_attributes = Field::take(reader)?;
    }
    let file_name_len = reader.len32()?;
    let is_reparse_point = fields.file_attributes.contains(FileAttributes::REPARSE_POINT);
    for part in parts {
        match part {
            Part::EaSizeOrTag if is_reparse_point => fields.reparse_tag = reader.u32()?,
            Part::EaSizeOrTag | Part::EaSize => fields.ea_size = reader.u32()?,
            Part::Tag => fields.reparse_tag = reader.u32()?,
            Part::ShortName => {
                let (len, _reserved) = (usize::from(reader.u8()?), reader.u8()?);
                let name = reader.bytes(SHORT_NAME_LEN)?.get(..len)?;
                fields.short_name = utf16::decode(name).ok()?.into();
            }
            Part::Id64 => fields.file_id = reader.u64()?,
            Part::Id128 => fields.file_id_128 = reader.array()?,
            Part::Reserved2 => drop(reader.u16()?),
            Part::Reserved4 => drop(reader.u32()?),
        }
    }
    fields.file_name = utf16::decode(reader.bytes(file_name_len)?).ok()?.into();
    Some(fields)
}

/// The entries of a whole response; `None` if one is malformed.
#[must_use]
pub fn decode_directory_list(
    class: FileInformationClass,
    bytes: &[u8],
) -> Option<Vec<DirectoryEntryFields<'static>>> {
    super::entry_list::entries(bytes)
        .map(|entry| decode_directory_entry(class, entry.ok()?.1))
        .collect()
}
