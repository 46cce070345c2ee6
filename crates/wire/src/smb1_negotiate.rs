//! The SMB 1 negotiate that may begin a connection: [MS-SMB2] 3.3.5.3, [MS-CIFS] 2.2.4.52.
//!
//! Only the names of the dialects are read, which lead to SMB 2. The rest of SMB 1 is not
//! supported.

use std::ffi::CStr;

use zerocopy::little_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::error::DecodeError;
use crate::message;
use crate::transform::SMB1_PROTOCOL_ID;

/// "SMB 2.002": the client speaks 2.0.2.
pub const DIALECT_SMB_2_002: &[u8] = b"SMB 2.002";

/// "SMB 2.???": the client speaks 2.1 or later, and negotiates again in SMB 2.
pub const DIALECT_SMB_2_WILDCARD: &[u8] = b"SMB 2.???";

/// SMB_COM_NEGOTIATE: [MS-CIFS] 2.2.4.52.
const COMMAND_NEGOTIATE: u8 = 0x72;

/// The byte before each name.
const BUFFER_FORMAT_DIALECT: u8 = 0x02;

#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct Layout {
    protocol_id: [u8; 4],
    command: u8,
    /// Status, flags and identifiers, without a meaning for SMB 2.
    header: [u8; 27],
    word_count: u8,
    byte_count: U16,
}

/// Names of the dialects that a client offers in SMB 1.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Smb1Negotiate<'a> {
    /// Names, each between its format byte and its terminator.
    bytes: &'a [u8],
}

impl<'a> Smb1Negotiate<'a> {
    /// Decodes the request in `frame`.
    ///
    /// # Errors
    ///
    /// If the frame is not an SMB 1 negotiate, or its list of names is malformed.
    pub fn decode(frame: &'a [u8]) -> Result<Self, DecodeError> {
        let (layout, rest) = message::prefix::<Layout>(frame)?;
        if layout.protocol_id != SMB1_PROTOCOL_ID {
            let protocol_id = u32::from_le_bytes(layout.protocol_id);
            return Err(DecodeError::NotSmb2 { protocol_id });
        }
        for (field, got, want) in
            [("Command", layout.command, COMMAND_NEGOTIATE), ("WordCount", layout.word_count, 0)]
        {
            if got != want {
                return Err(DecodeError::BadValue { field, value: got.into() });
            }
        }
        let bytes = message::slice(rest, 0, layout.byte_count.get().into())?;
        let mut left = bytes;
        while !left.is_empty() {
            (_, left) = split(left)?;
        }
        Ok(Self { bytes })
    }

    /// The names in the order of the client.
    pub fn dialects(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let mut rest = self.bytes;
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let (dialect, behind) = split(rest).ok()?;
            rest = behind;
            Some(dialect)
        })
    }

    /// True if the client offers `dialect`.
    #[must_use]
    pub fn offers(&self, dialect: &[u8]) -> bool {
        self.dialects().any(|each| each == dialect)
    }

    /// Appends the request that offers `dialects`.
    ///
    /// # Panics
    ///
    /// If the names together are longer than 65,535 bytes.
    pub fn encode(dialects: &[&CStr], out: &mut Vec<u8>) {
        let mut names = Vec::new();
        for dialect in dialects {
            names.push(BUFFER_FORMAT_DIALECT);
            names.extend_from_slice(dialect.to_bytes_with_nul());
        }
        let layout = Layout {
            protocol_id: SMB1_PROTOCOL_ID,
            command: COMMAND_NEGOTIATE,
            header: [0; 27],
            word_count: 0,
            byte_count: message::len16(&names).into(),
        };
        message::put(out, &layout);
        out.extend_from_slice(&names);
    }
}

/// Splits the first name off a list that is not empty, and returns the rest too.
fn split(list: &[u8]) -> Result<(&[u8], &[u8]), DecodeError> {
    let short = DecodeError::Short { need: list.len() + 1, have: list.len() };
    let (&format, list) = list.split_first().ok_or(short)?;
    if format != BUFFER_FORMAT_DIALECT {
        return Err(DecodeError::BadValue { field: "BufferFormat", value: format.into() });
    }
    let end = list.iter().position(|byte| *byte == 0).ok_or(short)?;
    Ok((&list[..end], &list[end + 1..]))
}

#[cfg(test)]
mod tests {
    use super::{DIALECT_SMB_2_002, DIALECT_SMB_2_WILDCARD, Smb1Negotiate};
    use crate::check::hostile;
    use crate::error::DecodeError;

    fn request() -> Vec<u8> {
        let mut out = Vec::new();
        Smb1Negotiate::encode(&[c"NT LM 0.12", c"SMB 2.002", c"SMB 2.???"], &mut out);
        out
    }

    #[test]
    fn the_bytes_of_a_request() {
        let bytes = request();
        assert_eq!(bytes[..5], [0xFF, b'S', b'M', b'B', 0x72]);
        assert_eq!(bytes[32..35], [0, 34, 0]);
        assert_eq!(&bytes[35..], b"\x02NT LM 0.12\0\x02SMB 2.002\0\x02SMB 2.???\0");
    }

    #[test]
    fn the_dialects_are_found() {
        let bytes = request();
        let request = Smb1Negotiate::decode(&bytes).unwrap();
        assert_eq!(request.dialects().count(), 3);
        assert!(request.offers(DIALECT_SMB_2_002));
        assert!(request.offers(DIALECT_SMB_2_WILDCARD));
        assert!(!request.offers(b"SMB 2"));
    }

    #[test]
    fn a_name_without_an_end_is_an_error() {
        let mut bytes = request();
        *bytes.last_mut().unwrap() = b'x';
        let want = DecodeError::Short { need: 12, have: 11 };
        assert_eq!(Smb1Negotiate::decode(&bytes), Err(want));
    }

    #[test]
    fn other_commands_are_errors() {
        let mut bytes = request();
        bytes[4] = 0x73;
        let want = DecodeError::BadValue { field: "Command", value: 0x73 };
        assert_eq!(Smb1Negotiate::decode(&bytes), Err(want));
    }

    #[test]
    fn broken_requests_are_errors_or_values() {
        hostile(&request(), |bytes| {
            if let Ok(request) = Smb1Negotiate::decode(bytes) {
                assert!(request.dialects().count() <= bytes.len());
            }
        });
    }
}
