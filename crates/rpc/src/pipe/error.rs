//! Errors of a pipe below its calls.

use super::REQUEST_BYTES_MAX;
use dtyp::NtStatus;
use std::fmt;

/// Reason for a failed write to a pipe. All but [`Self::ResponsesUnread`] break the pipe.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum PipeError {
    /// The client's data representation is not little-endian.
    BigEndian,
    /// An earlier write broke the pipe.
    Broken,
    /// The length of a fragment is too small or too large.
    FragmentLength {
        /// Value of frag_length, in bytes.
        frag_length: u16,
    },
    /// A request is longer than 64 KiB.
    RequestTooLong,
    /// Too many bytes of earlier responses are unread. The write had no effect.
    ResponsesUnread,
    /// One write has another request behind the first one, or too many fragments.
    TooManyRequests,
    /// The bytes are not of this protocol's version.
    Version {
        /// First byte of the PDU, which is not 5.
        version: u8,
    },
}

impl PipeError {
    /// Status of the WRITE or FSCTL that carried the bytes.
    pub fn status(self) -> NtStatus {
        match self {
            Self::ResponsesUnread => NtStatus::PIPE_BUSY,
            Self::BigEndian
            | Self::Broken
            | Self::FragmentLength { .. }
            | Self::RequestTooLong
            | Self::TooManyRequests
            | Self::Version { .. } => NtStatus::PIPE_DISCONNECTED,
        }
    }
}

impl fmt::Display for PipeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BigEndian => f.write_str("the data representation is not little-endian"),
            Self::Broken => f.write_str("the pipe is broken"),
            Self::FragmentLength { frag_length } => {
                write!(f, "a fragment cannot have {frag_length} bytes")
            }
            Self::RequestTooLong => {
                write!(f, "the request has more than {REQUEST_BYTES_MAX} bytes")
            }
            Self::ResponsesUnread => f.write_str("too many responses are unread"),
            Self::TooManyRequests => f.write_str("one write has more than a request"),
            Self::Version { version } => write!(f, "protocol version {version} is not supported"),
        }
    }
}

impl std::error::Error for PipeError {}
