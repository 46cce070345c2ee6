//! Reasons why bytes cannot be decoded.

use std::fmt;

/// Reason why a header, a body or a structure inside a body could not be decoded.
///
/// Counts are in bytes. The caller decides between STATUS_INVALID_PARAMETER and the end of the
/// connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum DecodeError {
    /// The value of a field makes the rest unreadable.
    BadValue {
        /// Name of the field in the specification.
        field: &'static str,
        /// The value of the field.
        value: u64,
    },
    /// The bytes begin with no protocol identifier of [MS-SMB2] 2.2.
    NotSmb2 {
        /// The first four bytes, read as little-endian.
        protocol_id: u32,
    },
    /// Offset and length of a buffer point outside of the message.
    Offset {
        /// Stated offset of the buffer.
        offset: usize,
        /// Stated length of the buffer.
        length: usize,
        /// Length of the message in bytes.
        have: usize,
    },
    /// The message is too short for the fixed part.
    Short {
        /// Offset of the end of the fixed part.
        need: usize,
        /// Length of the message in bytes.
        have: usize,
    },
    /// StructureSize is not that of this structure.
    StructureSize {
        /// The value in the specification.
        want: u16,
        /// The value in the message.
        got: u16,
    },
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::BadValue { field, value } => write!(f, "{field} cannot be {value:#x}"),
            Self::NotSmb2 { protocol_id } => write!(f, "protocol id {protocol_id:#010x}"),
            Self::Offset { offset, length, have } => {
                write!(f, "{length} bytes at {offset} are outside of {have} bytes")
            }
            Self::Short { need, have } => write!(f, "{have} bytes where {need} are needed"),
            Self::StructureSize { want, got } => write!(f, "StructureSize {got}, not {want}"),
        }
    }
}

impl std::error::Error for DecodeError {}
