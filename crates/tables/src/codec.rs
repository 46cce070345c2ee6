//! Encoding and decoding of records.
//!
//! All numbers are little-endian. A text is its length (`u16`) and UTF-8. Every record starts with
//! the version of its form and the server id of its owner, so that the records of a dead process
//! can be found even if the rest is damaged.

use dtyp::{FileTime, Guid, ServerId};

/// Number of bytes in front of a record's fields: version and owner.
const HEAD_BYTES: usize = 1 + ServerId::ENCODED_LEN;

/// Highest number of bytes of one text in a record.
///
/// Linux limits a path to 4,096 bytes; stream names and user names are far shorter.
pub const TEXT_BYTES_MAX: usize = 8_192;

/// Reason why bytes are not a record, or a record cannot be encoded.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum RecordError {
    /// The record lies under the key of another one.
    #[error("the record does not belong under its key")]
    KeyMismatch,
    /// The record ends within a field.
    #[error("{need} bytes needed, {have} there")]
    Short {
        /// Length of the field in bytes.
        need: usize,
        /// Number of bytes that were left.
        have: usize,
    },
    /// A text is longer than [`TEXT_BYTES_MAX`].
    #[error("a text of {0} bytes is too long")]
    TextTooLong(usize),
    /// A text is not UTF-8.
    #[error("a text is not UTF-8")]
    TextNotUtf8,
    /// More bytes follow the last field.
    #[error("{0} bytes follow the last field")]
    TrailingBytes(usize),
    /// A field has a value that is never written.
    #[error("a field has the impossible value {0}")]
    Value(u8),
    /// The record has a form of another version.
    #[error("version {0} is unknown")]
    Version(u8),
}

/// Returns the owner of the record in `value`, without decoding the rest.
pub(crate) fn owner(value: &[u8]) -> Option<ServerId> {
    let (_version, rest) = value.split_first()?;
    rest.first_chunk().map(ServerId::from_bytes)
}

/// Returns the first bytes of a record that has no owner, for [`Writer::behind`].
pub(crate) const fn head_without_owner(version: u8) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head[0] = version;
    head
}

/// Returns the length of a text as a record has it, unless it is too long.
fn text_length(bytes: usize) -> Result<u16, RecordError> {
    let length = u16::try_from(bytes).ok().filter(|_| bytes <= TEXT_BYTES_MAX);
    length.ok_or(RecordError::TextTooLong(bytes))
}

/// Encoder of a record's fields.
#[derive(Debug)]
pub(crate) struct Writer<'a> {
    out: &'a mut Vec<u8>,
}

impl<'a> Writer<'a> {
    /// Clears `out` and starts a record in it.
    pub(crate) fn new(out: &'a mut Vec<u8>, version: u8, owner: ServerId) -> Self {
        out.clear();
        out.push(version);
        out.extend_from_slice(&owner.to_bytes());
        Self { out }
    }

    /// Continues a record of which `out` has the first bytes.
    pub(crate) fn behind(out: &'a mut Vec<u8>) -> Self {
        Self { out }
    }

    pub(crate) fn bool(&mut self, value: bool) {
        self.out.push(u8::from(value));
    }

    pub(crate) fn u8(&mut self, value: u8) {
        self.out.push(value);
    }

    pub(crate) fn u16(&mut self, value: u16) {
        self.out.extend_from_slice(&value.to_le_bytes());
    }

    /// Appends an optional id; zero is a valid id.
    pub(crate) fn optional_u16(&mut self, value: Option<u16>) {
        self.bool(value.is_some());
        if let Some(value) = value {
            self.u16(value);
        }
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.out.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.out.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn guid(&mut self, value: Guid) {
        self.out.extend_from_slice(&value.0);
    }

    /// Appends a block, all of whose fields are there.
    #[inline]
    pub(crate) fn block<const LEN: usize>(&mut self, block: &Block<LEN>) {
        debug_assert_eq!(block.len, LEN, "every byte of a record has a meaning");
        self.out.extend_from_slice(&block.bytes);
    }

    pub(crate) fn text(&mut self, value: &str) -> Result<(), RecordError> {
        self.u16(text_length(value.len())?);
        self.out.extend_from_slice(value.as_bytes());
        Ok(())
    }
}

/// Fields of `LEN` bytes together, which a record receives in one step.
#[derive(Debug)]
pub(crate) struct Block<const LEN: usize> {
    bytes: [u8; LEN],
    len: usize,
}

impl<const LEN: usize> Default for Block<LEN> {
    #[inline]
    fn default() -> Self {
        Self { bytes: [0; LEN], len: 0 }
    }
}

impl<const LEN: usize> Block<LEN> {
    #[inline]
    pub(crate) fn put<const FIELD: usize>(&mut self, field: [u8; FIELD]) {
        self.bytes[self.len..self.len + FIELD].copy_from_slice(&field);
        self.len += FIELD;
    }
}

/// Decoder of a record's fields.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Starts to decode the record in `bytes`, which must be of `version`, and returns its owner.
    pub(crate) fn new(bytes: &'a [u8], version: u8) -> Result<(Self, ServerId), RecordError> {
        let mut reader = Self { rest: bytes };
        match reader.u8()? {
            found if found == version => {}
            found => return Err(RecordError::Version(found)),
        }
        let owner = ServerId::from_bytes(&reader.array()?);
        Ok((reader, owner))
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], RecordError> {
        let short = RecordError::Short { need: N, have: self.rest.len() };
        let (array, rest) = self.rest.split_first_chunk().ok_or(short)?;
        self.rest = rest;
        Ok(*array)
    }

    pub(crate) fn bool(&mut self) -> Result<bool, RecordError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(RecordError::Value(other)),
        }
    }

    pub(crate) fn u8(&mut self) -> Result<u8, RecordError> {
        self.array().map(u8::from_le_bytes)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, RecordError> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn optional_u16(&mut self) -> Result<Option<u16>, RecordError> {
        match self.bool()? {
            true => self.u16().map(Some),
            false => Ok(None),
        }
    }

    pub(crate) fn u32(&mut self) -> Result<u32, RecordError> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, RecordError> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn file_time(&mut self) -> Result<FileTime, RecordError> {
        self.u64().map(FileTime)
    }

    pub(crate) fn guid(&mut self) -> Result<Guid, RecordError> {
        self.array().map(Guid)
    }

    pub(crate) fn text(&mut self) -> Result<String, RecordError> {
        let len = usize::from(text_length(self.u16()?.into())?);
        let short = RecordError::Short { need: len, have: self.rest.len() };
        let (text, rest) = self.rest.split_at_checked(len).ok_or(short)?;
        self.rest = rest;
        std::str::from_utf8(text).map(str::to_owned).map_err(|_| RecordError::TextNotUtf8)
    }

    /// Ends decoding. Further bytes are an error, because every byte of a record has a meaning.
    pub(crate) fn finish(self) -> Result<(), RecordError> {
        match self.rest.len() {
            0 => Ok(()),
            left => Err(RecordError::TrailingBytes(left)),
        }
    }
}

#[cfg(test)]
mod tests {
    use dtyp::ServerId;

    use super::{Writer, head_without_owner};

    #[test]
    fn a_record_without_an_owner_begins_as_one_of_the_server_id_of_zeros() {
        let mut out = Vec::new();
        let _ = Writer::new(&mut out, 6, ServerId::default());
        assert_eq!(out, head_without_owner(6));
    }
}
