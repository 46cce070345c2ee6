//! The common layout of the three NTLM messages: a header with offsets of variable fields, and a
//! payload with their content. [MS-NLMP] 2.2.1.

use super::MessageType;
use crate::error::AuthError;

/// "NTLMSSP" with its final zero, at the beginning of every message.
pub(crate) const SIGNATURE: &[u8; 8] = b"NTLMSSP\0";

/// Highest length of a message in bytes. Every field has 16 bits of length and there are at most
/// six; names, four hashes and a target information take a small part of this.
const MESSAGE_BYTES_MAX: usize = 16 * 1_024;

/// A message with valid signature, type and size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message<'a> {
    bytes: &'a [u8],
}

impl<'a> Message<'a> {
    /// Checks the beginning of a message with a header of at least `header_len` bytes.
    pub(crate) fn parse(
        bytes: &'a [u8],
        message_type: MessageType,
        header_len: usize,
    ) -> Result<Self, AuthError> {
        if bytes.len() > MESSAGE_BYTES_MAX {
            return Err(AuthError::TooLong(bytes.len()));
        }
        if bytes.len() < header_len {
            return Err(AuthError::Malformed("an NTLM message is cut off"));
        }
        if !bytes.starts_with(SIGNATURE) {
            return Err(AuthError::Malformed("no NTLM message"));
        }
        let message = Self { bytes };
        if message.u32_at(8) != message_type as u32 {
            return Err(AuthError::Malformed("another NTLM message was expected"));
        }
        Ok(message)
    }

    /// Reads a 32-bit number of the header.
    pub(crate) fn u32_at(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.bytes[at..at + 4].try_into().expect("inside the header"))
    }

    /// Returns the payload of a field of the header. The offset of an empty one has no meaning.
    pub(crate) fn field(&self, at: usize) -> Result<&'a [u8], AuthError> {
        let len = usize::from(u16::from_le_bytes(
            self.bytes[at..at + 2].try_into().expect("inside the header"),
        ));
        if len == 0 {
            return Ok(&[]);
        }
        usize::try_from(self.u32_at(at + 4))
            .ok()
            .and_then(|offset| self.bytes.get(offset..offset.checked_add(len)?))
            .ok_or(AuthError::Malformed("an NTLM field points outside its message"))
    }

    /// All bytes, header and payload.
    pub(crate) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }
}

/// Builder of a message: first the header, with zeros in the descriptions of the fields, then the
/// fields in the order of the payload.
#[derive(Debug)]
pub(crate) struct Builder {
    bytes: Vec<u8>,
}

impl Builder {
    /// Starts a message with a header of `header_len` bytes.
    pub(crate) fn new(message_type: MessageType, header_len: usize) -> Self {
        let mut bytes = vec![0; header_len];
        bytes[..8].copy_from_slice(SIGNATURE);
        bytes[8..12].copy_from_slice(&(message_type as u32).to_le_bytes());
        Self { bytes }
    }

    /// Writes `value` into the header.
    pub(crate) fn set(mut self, at: usize, value: &[u8]) -> Self {
        self.bytes[at..at + value.len()].copy_from_slice(value);
        self
    }

    /// Appends a field, and describes it at `at` of the header.
    pub(crate) fn field(mut self, at: usize, value: &[u8]) -> Self {
        let len = u16::try_from(value.len()).expect("names and hashes are short");
        let offset = u32::try_from(self.bytes.len()).expect("a message is short");
        self.bytes[at..at + 2].copy_from_slice(&len.to_le_bytes());
        self.bytes[at + 2..at + 4].copy_from_slice(&len.to_le_bytes());
        self.bytes[at + 4..at + 8].copy_from_slice(&offset.to_le_bytes());
        self.bytes.extend_from_slice(value);
        self
    }

    /// Returns the bytes of the message.
    pub(crate) fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

/// Encodes a name in UTF-16LE, as NTLM requires.
pub(crate) fn unicode(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

/// Decodes a name from UTF-16LE.
pub(crate) fn name(bytes: &[u8]) -> Result<String, AuthError> {
    text(bytes, NAME_BYTES_MAX)
}

/// Decodes the service principal name of a server from UTF-16LE.
pub(crate) fn target_name(bytes: &[u8]) -> Result<String, AuthError> {
    text(bytes, TARGET_NAME_BYTES_MAX)
}

fn text(bytes: &[u8], bytes_max: usize) -> Result<String, AuthError> {
    if bytes.len() > bytes_max {
        return Err(AuthError::TooLong(bytes.len()));
    }
    let (pairs, rest) = bytes.as_chunks::<2>();
    let units = pairs.iter().map(|pair| u16::from_le_bytes(*pair));
    match char::decode_utf16(units).collect() {
        Ok(name) if rest.is_empty() => Ok(name),
        _ => Err(AuthError::Malformed("a name is not UTF-16")),
    }
}

/// Bytes of a user, domain or workstation name: 256 characters, the limit of Windows.
const NAME_BYTES_MAX: usize = 512;

/// Bytes of a service principal name: a class, a host name of 255 characters, a port and a realm.
const TARGET_NAME_BYTES_MAX: usize = 2_048;
