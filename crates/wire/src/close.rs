//! SMB2 CLOSE: [MS-SMB2] 2.2.15, 2.2.16.

use dtyp::{FileAttributes, FileTime};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::error::DecodeError;
use crate::file_id::{FileId, FileIdLayout};
use crate::message::{self, Decode, Encode};

bitflags::bitflags! {
    /// Flags of the request and the response: [MS-SMB2] 2.2.15.
    #[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
    pub struct CloseFlags: u16 {
        /// The response has the attributes after the close.
        const POSTQUERY_ATTRIB = 0x0001;

        const _ = !0;
    }
}

/// The request: [MS-SMB2] 2.2.15.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct CloseRequest {
    /// Whether the response shall have the attributes.
    pub flags: CloseFlags,
    /// The open to close.
    pub file_id: FileId,
}

#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct RequestLayout {
    structure_size: U16,
    flags: U16,
    reserved: U32,
    file_id: FileIdLayout,
}

const REQUEST_SIZE: u16 = 24;

impl Decode<'_> for CloseRequest {
    fn decode(message: &[u8]) -> Result<Self, DecodeError> {
        let layout: &RequestLayout = message::body(message, REQUEST_SIZE)?;
        Ok(Self {
            flags: CloseFlags::from_bits_retain(layout.flags.get()),
            file_id: layout.file_id.into(),
        })
    }

    fn file_id(&self) -> Option<FileId> {
        Some(self.file_id)
    }
}

impl Encode for CloseRequest {
    fn encode(&self, out: &mut Vec<u8>) {
        let layout = RequestLayout {
            structure_size: REQUEST_SIZE.into(),
            flags: self.flags.bits().into(),
            reserved: U32::ZERO,
            file_id: self.file_id.into(),
        };
        message::put(out, &layout);
    }
}

/// The response: [MS-SMB2] 2.2.16. Fields other than the flags are zero unless POSTQUERY_ATTRIB is
/// set.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct CloseResponse {
    /// Whether the other fields have values.
    pub flags: CloseFlags,
    /// Time of the file's creation.
    pub creation_time: FileTime,
    /// Time of the last read.
    pub last_access_time: FileTime,
    /// Time of the last change of the data.
    pub last_write_time: FileTime,
    /// Time of the last change of data or metadata.
    pub change_time: FileTime,
    /// Bytes allocated on disk.
    pub allocation_size: u64,
    /// Length in bytes.
    pub end_of_file: u64,
    /// Attributes of the file.
    pub file_attributes: FileAttributes,
}

#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct ResponseLayout {
    structure_size: U16,
    flags: U16,
    reserved: U32,
    creation_time: U64,
    last_access_time: U64,
    last_write_time: U64,
    change_time: U64,
    allocation_size: U64,
    end_of_file: U64,
    file_attributes: U32,
}

const RESPONSE_SIZE: u16 = 60;

impl Decode<'_> for CloseResponse {
    fn decode(message: &[u8]) -> Result<Self, DecodeError> {
        let layout: &ResponseLayout = message::body(message, RESPONSE_SIZE)?;
        Ok(Self {
            flags: CloseFlags::from_bits_retain(layout.flags.get()),
            creation_time: FileTime(layout.creation_time.get()),
            last_access_time: FileTime(layout.last_access_time.get()),
            last_write_time: FileTime(layout.last_write_time.get()),
            change_time: FileTime(layout.change_time.get()),
            allocation_size: layout.allocation_size.get(),
            end_of_file: layout.end_of_file.get(),
            file_attributes: FileAttributes::from_bits_retain(layout.file_attributes.get()),
        })
    }
}

impl CloseResponse {
    /// Length of the body in bytes.
    pub const SIZE: usize = size_of::<ResponseLayout>();

    /// Returns the bytes of the body.
    #[must_use]
    #[inline]
    pub fn to_bytes(&self) -> [u8; Self::SIZE] {
        zerocopy::transmute!(ResponseLayout {
            structure_size: RESPONSE_SIZE.into(),
            flags: self.flags.bits().into(),
            reserved: U32::ZERO,
            creation_time: self.creation_time.0.into(),
            last_access_time: self.last_access_time.0.into(),
            last_write_time: self.last_write_time.0.into(),
            change_time: self.change_time.0.into(),
            allocation_size: self.allocation_size.into(),
            end_of_file: self.end_of_file.into(),
            file_attributes: self.file_attributes.bits().into(),
        })
    }
}

impl Encode for CloseResponse {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_bytes());
    }
}

#[cfg(test)]
mod tests;
