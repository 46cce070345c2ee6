//! Encoding and decoding of message bodies.
//!
//! A message is one element of a compound: its 64-byte header, its body, and the padding up to the
//! next element. Offsets in bodies are relative to the header ([MS-SMB2] 2.2), so decoders take the
//! whole message and index it directly. Encoders append the body behind a header that lies anywhere
//! in `out`: only distances from the start of the body count.

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::error::DecodeError;
use crate::file_id::FileId;
use crate::header;
pub(crate) use crate::header::{body, buffer, buffer_range};

/// A body that can be decoded from a message.
pub trait Decode<'a>: Sized {
    /// Decodes the body of `message`, which begins with its SMB2 header.
    ///
    /// # Errors
    ///
    /// If the message is shorter than the fixed part, StructureSize is wrong, or a buffer leaves
    /// the message. A buffer of length zero may have any offset.
    fn decode(message: &'a [u8]) -> Result<Self, DecodeError>;

    /// Decodes a body without its last `behind` bytes, which are not in memory. Only WRITE supports
    /// that.
    ///
    /// # Errors
    ///
    /// As for [`Decode::decode`]; and for a command that needs its whole body, if `behind` is not
    /// zero.
    fn decode_front(message: &'a [u8], behind: usize) -> Result<Self, DecodeError> {
        match behind {
            0 => Self::decode(message),
            behind => Err(DecodeError::Short { need: message.len() + behind, have: message.len() }),
        }
    }

    /// FileId of the body, if its structure has one.
    fn file_id(&self) -> Option<FileId> {
        None
    }
}

/// A body that can be appended to a message.
///
/// # Panics
///
/// Implementations panic if a buffer is too long for its length field. The negotiated limits are
/// far below that.
pub trait Encode {
    /// Appends the body to `out`, directly behind the SMB2 header.
    fn encode(&self, out: &mut Vec<u8>);
}

/// Splits the structure at the start off `bytes`, and returns the rest too.
pub(crate) fn prefix<T>(bytes: &[u8]) -> Result<(&T, &[u8]), DecodeError>
where
    T: FromBytes + Immutable + KnownLayout + Unaligned,
{
    let short = DecodeError::Short { need: size_of::<T>(), have: bytes.len() };
    T::ref_from_prefix(bytes).map_err(|_| short)
}

/// Returns the `length` bytes at `offset` of a structure that is not a message.
pub(crate) fn slice(bytes: &[u8], offset: usize, length: usize) -> Result<&[u8], DecodeError> {
    let error = DecodeError::Offset { offset, length, have: bytes.len() };
    let end = offset.checked_add(length).ok_or(error)?;
    bytes.get(offset..end).ok_or(error)
}

/// Appends the fixed part of a body.
pub(crate) fn put<T: IntoBytes + Immutable>(out: &mut Vec<u8>, fixed: &T) {
    out.extend_from_slice(fixed.as_bytes());
}

/// Offset in the message behind a fixed part of type `T`, where the first buffer goes.
pub(crate) const fn offset_behind<T>() -> u16 {
    assert!(header::SIZE + size_of::<T>() <= 0xFF, "fixed parts are shorter than 192 bytes");
    #[expect(clippy::cast_possible_truncation, reason = "asserted above")]
    let offset = (header::SIZE + size_of::<T>()) as u16;
    offset
}

/// Length of `bytes` for a 16-bit field.
pub(crate) fn len16(bytes: &[u8]) -> u16 {
    u16::try_from(bytes.len()).expect("a buffer with a 16-bit length is shorter than 64 KiB")
}

/// Length of `bytes` for a 32-bit field.
pub(crate) fn len32(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).expect("a buffer with a 32-bit length is shorter than 4 GiB")
}

/// Appends zeros up to the next multiple of `alignment`, counted from `start`.
pub(crate) fn align(out: &mut Vec<u8>, start: usize, alignment: usize) {
    let length = (out.len() - start).next_multiple_of(alignment);
    out.resize(start + length, 0);
}

/// Appends zeros up to the StructureSize of a request.
///
/// An odd StructureSize counts one byte of the variable part, and servers may insist on it.
pub(crate) fn fill_request(out: &mut Vec<u8>, start: usize, structure_size: u16) {
    let length = (out.len() - start).max(usize::from(structure_size));
    out.resize(start + length, 0);
}

/// Declares bodies of a StructureSize of 4 and two reserved bytes.
macro_rules! empty_bodies {
    ($($(#[$meta:meta])* $type:ident;)*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
        pub struct $type;

        impl $crate::message::Decode<'_> for $type {
            fn decode(message: &[u8]) -> Result<Self, $crate::error::DecodeError> {
                $crate::message::body::<[u8; 4]>(message, 4).map(|_| Self)
            }
        }

        impl $crate::message::Encode for $type {
            fn encode(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&[4, 0, 0, 0]);
            }
        }
    )*};
}
pub(crate) use empty_bodies;

/// The fixed part of responses with a single buffer.
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct OutputBufferLayout {
    structure_size: U16,
    output_buffer_offset: U16,
    output_buffer_length: U32,
}

impl OutputBufferLayout {
    pub(crate) const STRUCTURE_SIZE: u16 = 9;

    /// The fixed part before a buffer of `length` bytes.
    pub(crate) fn new(length: u32) -> Self {
        Self {
            structure_size: Self::STRUCTURE_SIZE.into(),
            output_buffer_offset: offset_behind::<Self>().into(),
            output_buffer_length: length.into(),
        }
    }

    /// Returns the single buffer of `message`.
    pub(crate) fn decode(message: &[u8]) -> Result<&[u8], DecodeError> {
        let layout: &Self = body(message, Self::STRUCTURE_SIZE)?;
        buffer(message, layout.output_buffer_offset.get(), layout.output_buffer_length.get())
    }
}

/// Declares the responses with a single buffer: QUERY_DIRECTORY, CHANGE_NOTIFY, QUERY_INFO.
macro_rules! output_buffer_body {
    ($(#[$meta:meta])* $type:ident;) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
        pub struct $type<'a> {
            /// The answer; may be empty. It is encoded at message offset 0x48.
            pub output_buffer: &'a [u8],
        }

        impl<'a> $crate::message::Decode<'a> for $type<'a> {
            fn decode(message: &'a [u8]) -> Result<Self, $crate::error::DecodeError> {
                let output_buffer = $crate::message::OutputBufferLayout::decode(message)?;
                Ok(Self { output_buffer })
            }
        }

        impl $crate::message::Encode for $type<'_> {
            fn encode(&self, out: &mut Vec<u8>) {
                let length = $crate::message::len32(self.output_buffer);
                $crate::message::put(out, &$crate::message::OutputBufferLayout::new(length));
                out.extend_from_slice(self.output_buffer);
            }
        }
    };
}
pub(crate) use output_buffer_body;
