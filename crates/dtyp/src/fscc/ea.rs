//! Extended attributes: FileFullEaInformation, [MS-FSCC] 2.4.16, and FILE_GET_EA_INFORMATION,
//! 2.4.16.1.

use super::entry_list::entries;
use super::field::Field;
use crate::NtStatus;
use crate::reader::Reader;

/// One extended attribute.
///
/// The name is ASCII, as the section asks; servers compare it without case.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FullEa {
    /// Flags: FILE_NEED_EA or nothing.
    pub flags: u8,
    /// EaName.
    pub name: String,
    /// EaValue; empty means "delete this attribute" in a set.
    pub value: Vec<u8>,
}

impl FullEa {
    /// FILE_NEED_EA: the file cannot be understood without this attribute.
    pub const NEED_EA: u8 = 0x80;
}

/// Why a list of extended attributes is refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum EaListError {
    /// An entry is not whole, or the chain leads outside the list.
    Inconsistent {
        /// Where the entry begins.
        offset: usize,
    },
    /// A name is empty, longer than 254 bytes, or has a character that it must not have.
    InvalidName {
        /// Where the entry begins.
        offset: usize,
    },
}

impl EaListError {
    /// What the section says to answer.
    pub fn status(self) -> NtStatus {
        match self {
            Self::Inconsistent { .. } => NtStatus::EA_LIST_INCONSISTENT,
            Self::InvalidName { .. } => NtStatus::INVALID_EA_NAME,
        }
    }
}

/// A list of extended attributes, decoded one by one.
///
/// Iteration ends at the first error. An empty list has no entries and no error.
#[derive(Clone, Copy, Debug)]
pub struct FullEaList<'a>(pub &'a [u8]);

impl<'a> FullEaList<'a> {
    /// The entries.
    pub fn iter(self) -> impl Iterator<Item = Result<FullEa, EaListError>> + use<'a> {
        entries(self.0).map(|entry| {
            let (offset, bytes) = entry.map_err(|offset| EaListError::Inconsistent { offset })?;
            let mut reader = Reader::new(bytes);
            let mut read = || {
                let _next_entry_offset = reader.u32()?;
                let (flags, name_len) = (reader.u8()?, usize::from(reader.u8()?));
                let value_len = usize::from(reader.u16()?);
                let name = reader.bytes(name_len)?;
                (reader.u8()? == 0).then_some(())?;
                Some((flags, name, reader.bytes(value_len)?))
            };
            let (flags, name, value) = read().ok_or(EaListError::Inconsistent { offset })?;
            let name = valid_name(name).ok_or(EaListError::InvalidName { offset })?;
            Ok(FullEa { flags, name, value: value.to_vec() })
        })
    }
}

/// A list of names of extended attributes, decoded one by one.
#[derive(Clone, Copy, Debug)]
pub struct GetEaList<'a>(pub &'a [u8]);

impl<'a> GetEaList<'a> {
    /// The names.
    pub fn iter(self) -> impl Iterator<Item = Result<String, EaListError>> + use<'a> {
        entries(self.0).map(|entry| {
            let (offset, bytes) = entry.map_err(|offset| EaListError::Inconsistent { offset })?;
            let mut reader = Reader::new(bytes);
            let mut read = || {
                let _next_entry_offset = reader.u32()?;
                let name_len = usize::from(reader.u8()?);
                reader.bytes(name_len)
            };
            let name = read().ok_or(EaListError::Inconsistent { offset })?;
            valid_name(name).ok_or(EaListError::InvalidName { offset })
        })
    }
}

/// The name as text, if it may be one: [MS-FSCC] 2.4.16.
fn valid_name(name: &[u8]) -> Option<String> {
    let valid = !name.is_empty()
        && name.len() < 255
        && name.iter().all(|&byte| (0x20..0x7F).contains(&byte) && !FORBIDDEN.contains(&byte));
    if valid { String::from_utf8(name.to_vec()).ok() } else { None }
}

/// Characters that a name must not have, besides control characters.
const FORBIDDEN: &[u8] = b"\\/:*?\"<>|,+=[];";

/// Whether `name` may be the name of an extended attribute.
#[must_use]
pub fn is_valid_ea_name(name: &str) -> bool {
    valid_name(name.as_bytes()).is_some()
}

/// Appends one attribute with a NextEntryOffset of zero: what
/// [`EntryListWriter::push`](super::EntryListWriter::push), with an alignment of 4, expects. `None`,
/// and nothing appended, if the name is not valid or the value longer than 64 KiB less one.
#[must_use]
pub fn encode_full_ea_entry(ea: &FullEa, out: &mut Vec<u8>) -> Option<()> {
    valid_name(ea.name.as_bytes())?;
    let (name_len, value_len) =
        (u8::try_from(ea.name.len()).ok()?, u16::try_from(ea.value.len()).ok()?);
    0_u32.put(out);
    ea.flags.put(out);
    name_len.put(out);
    value_len.put(out);
    out.extend_from_slice(ea.name.as_bytes());
    out.push(0);
    out.extend_from_slice(&ea.value);
    Some(())
}

/// Appends one name with a NextEntryOffset of zero. `None`, and nothing appended, if it is not
/// valid.
#[must_use]
pub fn encode_get_ea_entry(name: &str, out: &mut Vec<u8>) -> Option<()> {
    valid_name(name.as_bytes())?;
    0_u32.put(out);
    u8::try_from(name.len()).ok()?.put(out);
    out.extend_from_slice(name.as_bytes());
    out.push(0);
    Some(())
}
