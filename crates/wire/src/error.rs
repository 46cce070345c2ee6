//! Why bytes are not what they claim to be.

use std::fmt;

/// Why a header, a body or a structure inside a body could not be decoded.
///
/// Counts are in bytes. Whether the sender gets STATUS_INVALID_PARAMETER or loses its connection
/// for it is decided elsewhere.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum DecodeError {
    /// A field has a value with which the rest cannot be read.
    BadValue {
        /// The field's name in the document.
        field: &'static str,
        /// What it holds.
        value: u64,
    },
    /// The bytes begin with none of the protocol identifiers of [MS-SMB2] 2.2.
    NotSmb2 {
        /// The first four bytes, read as little-endian.
        protocol_id: u32,
    },
    /// An offset and length point outside of the message.
    Offset {
        /// Where the buffer is said to begin.
        offset: usize,
        /// How long it is said to be.
        length: usize,
        /// How long the message is.
        have: usize,
    },
    /// The fixed part does not fit.
    Short {
        /// Bytes that the fixed part ends at.
        need: usize,
        /// Bytes there are.
        have: usize,
    },
    /// StructureSize is not the one of this structure.
    StructureSize {
        /// What the document says.
        want: u16,
        /// What the bytes say.
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
