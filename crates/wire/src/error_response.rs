//! The body of a response with an error status: [MS-SMB2] 2.2.2.

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::codes::codes;
use crate::error::DecodeError;
use crate::header;
use crate::message::{self, Decode, Encode};

mod symbolic_link;

pub use symbolic_link::{SymbolicLinkError, SymbolicLinkFlags};

codes! {
    /// Subject of an error context: [MS-SMB2] 2.2.2.1.
    ErrorId(u32) {
        DEFAULT = 0x0000_0000,
        SHARE_REDIRECT = 0x7264_5253,
    }
}

/// The body: [MS-SMB2] 2.2.2. The header has the status.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ErrorResponse<'a> {
    /// Number of contexts in `error_data`; always zero before dialect 3.1.1.
    pub error_context_count: u8,
    /// Details of the error; empty for most statuses.
    pub error_data: &'a [u8],
}

#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct Layout {
    structure_size: U16,
    error_context_count: u8,
    reserved: u8,
    byte_count: U32,
}

const SIZE: u16 = 9;

impl<'a> Decode<'a> for ErrorResponse<'a> {
    fn decode(message: &'a [u8]) -> Result<Self, DecodeError> {
        let layout: &Layout = message::body(message, SIZE)?;
        let offset = message::offset_behind::<Layout>();
        let error_data = message::buffer(message, offset, layout.byte_count.get())?;
        Ok(Self { error_context_count: layout.error_context_count, error_data })
    }
}

impl Encode for ErrorResponse<'_> {
    /// Encodes empty data as one byte of zero: [MS-SMB2] 2.2.2 demands it, and clients rely on it.
    fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let layout = Layout {
            structure_size: SIZE.into(),
            error_context_count: self.error_context_count,
            reserved: 0,
            byte_count: message::len32(self.error_data).into(),
        };
        message::put(out, &layout);
        out.extend_from_slice(self.error_data);
        message::fill_request(out, start, SIZE);
    }
}

/// Whether the body of `message` has the form of an [`ErrorResponse`].
///
/// Responses with STATUS_BUFFER_OVERFLOW or STATUS_MORE_PROCESSING_REQUIRED have the body of the
/// command, whose StructureSize may be nine too; there the status decides.
#[must_use]
pub fn is_error_response(message: &[u8]) -> bool {
    message.get(header::SIZE..header::SIZE + 2) == Some(&SIZE.to_le_bytes())
}

/// One error context, 3.1.1: [MS-SMB2] 2.2.2.1.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ErrorContext<'a> {
    /// Subject of the context.
    pub error_id: ErrorId,
    /// Details, in a form that the subject decides.
    pub error_context_data: &'a [u8],
}

impl<'a> ErrorContext<'a> {
    /// The contexts of `error_data`, `count` of them according to the response. An unreadable one
    /// is an error value, which ends the iteration.
    pub fn iter(
        error_data: &'a [u8],
        count: u8,
    ) -> impl Iterator<Item = Result<Self, DecodeError>> + use<'a> {
        let mut rest = Some(error_data);
        (0..count).map_while(move |_| {
            let chain = rest.take()?;
            Some(split(chain).map(|(context, behind)| {
                rest = Some(behind);
                context
            }))
        })
    }

    /// Appends the context to the ErrorData that begins at `start` of `out`.
    pub fn encode(&self, out: &mut Vec<u8>, start: usize) {
        message::align(out, start, 8);
        let length = message::len32(self.error_context_data);
        message::put(out, &[U32::new(length), U32::new(self.error_id.0)]);
        out.extend_from_slice(self.error_context_data);
    }
}

/// Splits the first context off a chain, and returns the chain behind its padding too.
fn split(chain: &[u8]) -> Result<(ErrorContext<'_>, &[u8]), DecodeError> {
    let ([length, error_id], rest) = message::prefix::<[U32; 2]>(chain)?;
    let length = usize::try_from(length.get()).unwrap_or(usize::MAX);
    let error_context_data = message::slice(rest, 0, length)?;
    let behind = rest.get(length.next_multiple_of(8)..).unwrap_or_default();
    Ok((ErrorContext { error_id: ErrorId(error_id.get()), error_context_data }, behind))
}

#[cfg(test)]
mod tests;
