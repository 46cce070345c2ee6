//! Headers of encrypted and compressed messages, which precede the message's own: [MS-SMB2] 2.2.41,
//! 2.2.42.

use std::ops::Range;

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::error::DecodeError;
use crate::header;
use crate::message;
use crate::negotiate_context::CompressionAlgorithmId;

/// Form of a frame, told by its first four bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Protocol {
    /// A compressed message: [`CompressionTransformHeader`].
    Compressed,
    /// An encrypted message: [`TransformHeader`].
    Encrypted,
    /// A message of SMB 1, possibly a negotiate that leads to SMB 2.
    Smb1,
    /// A plain message, or a compound of them.
    Smb2,
}

impl Protocol {
    /// Form of `frame`.
    ///
    /// # Errors
    ///
    /// If the frame is shorter than four bytes, or begins with no protocol identifier.
    pub fn of(frame: &[u8]) -> Result<Self, DecodeError> {
        let Some(protocol_id) = frame.first_chunk::<4>() else {
            return Err(DecodeError::Short { need: 4, have: frame.len() });
        };
        match *protocol_id {
            COMPRESSION_PROTOCOL_ID => Ok(Self::Compressed),
            TRANSFORM_PROTOCOL_ID => Ok(Self::Encrypted),
            SMB1_PROTOCOL_ID => Ok(Self::Smb1),
            header::PROTOCOL_ID => Ok(Self::Smb2),
            other => Err(DecodeError::NotSmb2 { protocol_id: u32::from_le_bytes(other) }),
        }
    }
}

/// ProtocolId of a compressed message: `0xFC 'S' 'M' 'B'`.
pub const COMPRESSION_PROTOCOL_ID: [u8; 4] = [0xFC, b'S', b'M', b'B'];

/// ProtocolId of an encrypted message: `0xFD 'S' 'M' 'B'`.
pub const TRANSFORM_PROTOCOL_ID: [u8; 4] = [0xFD, b'S', b'M', b'B'];

/// ProtocolId of SMB 1: `0xFF 'S' 'M' 'B'`.
pub const SMB1_PROTOCOL_ID: [u8; 4] = [0xFF, b'S', b'M', b'B'];

bitflags::bitflags! {
    /// Flags (3.1.1) or EncryptionAlgorithm (3.0, 3.0.2) of a [`TransformHeader`].
    #[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
    pub struct TransformFlags: u16 {
        /// The message is encrypted; as an algorithm, this value is AES-128-CCM.
        const ENCRYPTED = 0x0001;

        const _ = !0;
    }
}

/// The header of an encrypted message: [MS-SMB2] 2.2.41.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct TransformHeader {
    /// Authentication tag of the message and of this header from Nonce on.
    pub signature: [u8; 16],
    /// The nonce: the first 11 bytes for CCM, 12 for GCM.
    pub nonce: [u8; 16],
    /// Bytes of the plain message.
    pub original_message_size: u32,
    /// Always ENCRYPTED in a valid header.
    pub flags: TransformFlags,
    /// The session with the key.
    pub session_id: u64,
}

#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct TransformLayout {
    protocol_id: [u8; 4],
    signature: [u8; 16],
    nonce: [u8; 16],
    original_message_size: U32,
    reserved: U16,
    flags: U16,
    session_id: U64,
}

impl TransformHeader {
    /// Bytes of the header, which the encrypted message follows.
    pub const SIZE: usize = size_of::<TransformLayout>();

    /// Range of Signature in the frame.
    pub const SIGNATURE: Range<usize> = 0x04..0x14;

    /// Range that is authenticated with the message: from Nonce to the end.
    pub const AUTHENTICATED: Range<usize> = 0x14..0x34;

    /// Decodes the header at the start of `frame`.
    ///
    /// # Errors
    ///
    /// If the frame is too short, or has another protocol identifier.
    pub fn decode(frame: &[u8]) -> Result<Self, DecodeError> {
        let (layout, _) = message::prefix::<TransformLayout>(frame)?;
        verify_protocol_id(layout.protocol_id, TRANSFORM_PROTOCOL_ID)?;
        Ok(Self {
            signature: layout.signature,
            nonce: layout.nonce,
            original_message_size: layout.original_message_size.get(),
            flags: TransformFlags::from_bits_retain(layout.flags.get()),
            session_id: layout.session_id.get(),
        })
    }

    /// Appends the 52 bytes of the header.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_bytes());
    }

    /// Returns the bytes of the header.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Self::SIZE] {
        zerocopy::transmute!(TransformLayout {
            protocol_id: TRANSFORM_PROTOCOL_ID,
            signature: self.signature,
            nonce: self.nonce,
            original_message_size: self.original_message_size.into(),
            reserved: U16::ZERO,
            flags: self.flags.bits().into(),
            session_id: self.session_id.into(),
        })
    }
}

bitflags::bitflags! {
    /// Flags of a compressed message.
    #[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
    pub struct CompressionFlags: u16 {
        /// The payloads form a chain.
        const CHAINED = 0x0001;

        const _ = !0;
    }
}

/// The header of a compressed message: [MS-SMB2] 2.2.42.
///
/// The second half belongs to the header in the unchained form, and is the header of the first
/// payload in the chained form; `flags` tells which.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct CompressionTransformHeader {
    /// Bytes of the compressed part after decompression.
    pub original_compressed_segment_size: u32,
    /// Algorithm of the compressed part.
    pub compression_algorithm: CompressionAlgorithmId,
    /// Whether payloads form a chain.
    pub flags: CompressionFlags,
    /// Unchained: uncompressed bytes between this header and the compressed ones. Chained: bytes of
    /// the first payload.
    pub offset_or_length: u32,
}

#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct CompressionLayout {
    protocol_id: [u8; 4],
    original_compressed_segment_size: U32,
    compression_algorithm: U16,
    flags: U16,
    offset_or_length: U32,
}

impl CompressionTransformHeader {
    /// Bytes of the encoded header.
    pub const SIZE: usize = size_of::<CompressionLayout>();

    /// Decodes the header at the start of `frame`.
    ///
    /// # Errors
    ///
    /// If the frame is too short, or has another protocol identifier.
    pub fn decode(frame: &[u8]) -> Result<Self, DecodeError> {
        let (layout, _) = message::prefix::<CompressionLayout>(frame)?;
        verify_protocol_id(layout.protocol_id, COMPRESSION_PROTOCOL_ID)?;
        Ok(Self {
            original_compressed_segment_size: layout.original_compressed_segment_size.get(),
            compression_algorithm: CompressionAlgorithmId(layout.compression_algorithm.get()),
            flags: CompressionFlags::from_bits_retain(layout.flags.get()),
            offset_or_length: layout.offset_or_length.get(),
        })
    }

    /// Appends the 16 bytes of the header.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let layout = CompressionLayout {
            protocol_id: COMPRESSION_PROTOCOL_ID,
            original_compressed_segment_size: self.original_compressed_segment_size.into(),
            compression_algorithm: self.compression_algorithm.0.into(),
            flags: self.flags.bits().into(),
            offset_or_length: self.offset_or_length.into(),
        };
        message::put(out, &layout);
    }
}

/// Checks the ProtocolId of a header.
fn verify_protocol_id(got: [u8; 4], want: [u8; 4]) -> Result<(), DecodeError> {
    if got == want {
        return Ok(());
    }
    Err(DecodeError::NotSmb2 { protocol_id: u32::from_le_bytes(got) })
}

#[cfg(test)]
mod tests;
