//! Server-side copy: [MS-SMB2] 2.2.31.1, 2.2.32.1, 2.2.32.3.

use std::fmt;

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::error::DecodeError;
use crate::message;

/// Identifies the source of a copy. Its content has a meaning only for the server that made it.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct ResumeKey(pub [u8; 24]);

/// The response to SRV_REQUEST_RESUME_KEY: [MS-SMB2] 2.2.32.3.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct RequestResumeKeyResponse {
    /// Key of the open.
    pub resume_key: ResumeKey,
}

impl RequestResumeKeyResponse {
    /// Bytes of the structure: key, ContextLength, and four bytes of Context, which Windows sends
    /// although ContextLength is zero, and clients expect.
    pub const SIZE: usize = 32;

    /// Decodes the output of the IOCTL.
    ///
    /// # Errors
    ///
    /// If the output is too short.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let (resume_key, _) = message::prefix::<[u8; 24]>(bytes)?;
        Ok(Self { resume_key: ResumeKey(*resume_key) })
    }

    /// Appends the output of the IOCTL.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.resume_key.0);
        out.extend_from_slice(&[0; 8]);
    }
}

/// One range to copy: [MS-SMB2] 2.2.31.1.1.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct CopyChunk {
    /// First byte in the source.
    pub source_offset: u64,
    /// First byte in the target.
    pub target_offset: u64,
    /// Number of bytes.
    pub length: u32,
}

#[derive(Clone, Copy, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct ChunkLayout {
    source_offset: U64,
    target_offset: U64,
    length: U32,
    reserved: U32,
}

/// The received ranges of a copy.
#[derive(Clone, Copy)]
pub struct CopyChunks<'a>(&'a [ChunkLayout]);

impl<'a> CopyChunks<'a> {
    /// Number of ranges.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// True without ranges.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The ranges in the order of the client.
    pub fn iter(&self) -> impl Iterator<Item = CopyChunk> + use<'a> {
        self.0.iter().map(|layout| CopyChunk {
            source_offset: layout.source_offset.get(),
            target_offset: layout.target_offset.get(),
            length: layout.length.get(),
        })
    }
}

impl fmt::Debug for CopyChunks<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// The input of SRV_COPYCHUNK and SRV_COPYCHUNK_WRITE: [MS-SMB2] 2.2.31.1.
#[derive(Clone, Copy, Debug)]
pub struct CopyChunkCopy<'a> {
    /// Key of the source.
    pub source_key: ResumeKey,
    /// The ranges.
    pub chunks: CopyChunks<'a>,
}

#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct CopyLayout {
    source_key: [u8; 24],
    chunk_count: U32,
    reserved: U32,
}

impl<'a> CopyChunkCopy<'a> {
    /// Decodes the input of the IOCTL.
    ///
    /// # Errors
    ///
    /// If the input is too short for its number of ranges.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let (layout, rest) = message::prefix::<CopyLayout>(bytes)?;
        let count = usize::try_from(layout.chunk_count.get()).unwrap_or(usize::MAX);
        let length = count.saturating_mul(size_of::<ChunkLayout>());
        let chunks = message::slice(rest, 0, length)?;
        let chunks =
            <[ChunkLayout]>::ref_from_bytes(chunks).expect("a whole number of unaligned ranges");
        Ok(Self { source_key: ResumeKey(layout.source_key), chunks: CopyChunks(chunks) })
    }

    /// Appends the input of the IOCTL.
    ///
    /// # Panics
    ///
    /// If there are more than `u32::MAX` ranges.
    pub fn encode(source_key: ResumeKey, chunks: &[CopyChunk], out: &mut Vec<u8>) {
        let chunk_count = u32::try_from(chunks.len()).expect("a few ranges").into();
        let reserved = U32::ZERO;
        message::put(out, &CopyLayout { source_key: source_key.0, chunk_count, reserved });
        for chunk in chunks {
            let layout = ChunkLayout {
                source_offset: chunk.source_offset.into(),
                target_offset: chunk.target_offset.into(),
                length: chunk.length.into(),
                reserved,
            };
            message::put(out, &layout);
        }
    }
}

/// The output of SRV_COPYCHUNK: [MS-SMB2] 2.2.32.1. With STATUS_INVALID_PARAMETER it has the limits
/// of the server instead.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct CopyChunkResponse {
    /// Number of ranges written; or the highest number of a request.
    pub chunks_written: u32,
    /// Bytes written of the last, incomplete range; or the highest number of a range.
    pub chunk_bytes_written: u32,
    /// Bytes written in total; or the highest number of a request.
    pub total_bytes_written: u32,
}

impl CopyChunkResponse {
    /// Bytes of the encoded structure.
    pub const SIZE: usize = 12;

    /// Decodes the output of the IOCTL.
    ///
    /// # Errors
    ///
    /// If the output is too short.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let (fields, _) = message::prefix::<[U32; 3]>(bytes)?;
        let [chunks_written, chunk_bytes_written, total_bytes_written] =
            fields.map(|field| field.get());
        Ok(Self { chunks_written, chunk_bytes_written, total_bytes_written })
    }

    /// Appends the output of the IOCTL.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let fields = [self.chunks_written, self.chunk_bytes_written, self.total_bytes_written];
        message::put(out, &fields.map(U32::new));
    }
}
