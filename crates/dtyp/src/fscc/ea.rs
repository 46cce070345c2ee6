//! Extended attributes: FileFullEaInformation, [MS-FSCC] 2.4.16, and FILE_GET_EA_INFORMATION,
//! 2.4.16.1.

use super::entry_list::entries;
use super::field::Field;
use crate::NtStatus;
use crate::reader::Reader;

/// One extended attribute.
///
/// The name is ASCII, as the section demands; servers ignore its case.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FullEa {
    /// Flags: FILE_NEED_EA or zero.
    pub flags: u8,
    /// EaName.
    pub name: String,
    /// EaValue; empty deletes the attribute in a set.
    pub value: Vec<u8>,
}

impl FullEa {
    /// FILE_NEED_EA: the file cannot be interpreted without this attribute.
    pub const NEED_EA: u8 = 0x80;
}

/// Reason for refusing a list of extended attributes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum EaListError {
    /// An entry is incomplete, or the chain leaves the list.
    Inconsistent {
        /// Offset of the entry in the list.
        offset: usize,
    },
    /// A name is empty, longer than 254 bytes, or has a forbidden character.
    InvalidName {
        /// Offset of the entry in the list.
        offset: usize,
    },
}

impl EaListError {
    /// Status for a client: [MS-FSCC] 2.4.16.
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
    /// Decodes the entries in order.
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
    /// Decodes the names in order.
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

/// The name as text; `None` if it is invalid: [MS-FSCC] 2.4.16.
fn valid_name(name: &[u8]) -> Option<String> {
    let valid = !name.is_empty()
        && name.len() < 255
        && name.iter().all(|&byte| (0x20..0x7F).contains(&byte) && !FORBIDDEN.contains(&byte));
    if valid { String::from_utf8(name.to_vec()).ok() } else { None }
}

/// Characters that are forbidden in a name, besides control characters.
const FORBIDDEN: &[u8] = b"\\/:*?\"<>|,+=[];";

/// True if `name` is valid for an extended attribute.
#[must_use]
pub fn is_valid_ea_name(name: &str) -> bool {
    valid_name(name.as_bytes()).is_some()
}

/// Appends one attribute with a NextEntryOffset of zero, for
/// [`EntryListWriter::push`](super::EntryListWriter::push) with an alignment of 4. `None`, and
/// nothing appended, if the name is invalid or the value longer than 65,535 bytes.
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

/// Appends one name with a NextEntryOffset of zero. `None`, and nothing appended, if it is invalid.
#[must_use]
pub fn encode_get_ea_entry(name: &str, out: &mut Vec<u8>) -> Option<()> {
    valid_name(name.as_bytes())?;
    0_u32.put(out);
    u8::try_from(name.len()).ok()?.put(out);
    out.extend_from_slice(name.as_bytes());
    out.push(0);
    Some(())
}
