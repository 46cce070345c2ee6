//! What can go wrong on a pipe below its calls.

use super::REQUEST_BYTES_MAX;
use dtyp::NtStatus;
use std::fmt;

/// Why a write to a pipe fails. All but [`Self::ResponsesUnread`] break the pipe.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum PipeError {
    /// The client's data representation is not little-endian.
    BigEndian,
    /// An earlier write broke the pipe.
    Broken,
    /// A fragment's length is none that it may have.
    FragmentLength {
        /// Its frag_length.
        frag_length: u16,
    },
    /// A request is longer than 64 KiB.
    RequestTooLong,
    /// Too much of earlier responses waits to be read. The write had no effect.
    ResponsesUnread,
    /// The requests of one write have more responses than may wait to be read.
    TooManyRequests,
    /// The bytes are no PDU of this protocol's version.
    Version {
        /// The first byte, which is not 5.
        version: u8,
    },
}

impl PipeError {
    /// What the WRITE or FSCTL that carried the bytes is answered with.
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
                write!(f, "a fragment of {frag_length} bytes")
            }
            Self::RequestTooLong => {
                write!(f, "a request of more than {REQUEST_BYTES_MAX} bytes")
            }
            Self::ResponsesUnread => f.write_str("responses wait to be read"),
            Self::TooManyRequests => f.write_str("too many requests in one write"),
            Self::Version { version } => write!(f, "protocol version {version}"),
        }
    }
}

impl std::error::Error for PipeError {}
