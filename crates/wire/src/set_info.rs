//! SMB2 SET_INFO changes the metadata of a file: [MS-SMB2] 2.2.39, 2.2.40.

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::error::DecodeError;
use crate::file_id::{FileId, FileIdLayout};
use crate::message::{self, Decode, Encode};
use crate::query_info::InfoType;

/// The request: [MS-SMB2] 2.2.39.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct SetInfoRequest<'a> {
    /// Subject of the information.
    pub info_type: InfoType,
    /// Information class, from the list of `info_type`.
    pub file_info_class: u8,
    /// Parts of a security descriptor.
    pub additional_information: u32,
    /// Open of the file.
    pub file_id: FileId,
    /// The encoded information.
    pub buffer: &'a [u8],
}

#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct RequestLayout {
    structure_size: U16,
    info_type: u8,
    file_info_class: u8,
    buffer_length: U32,
    buffer_offset: U16,
    reserved: U16,
    additional_information: U32,
    file_id: FileIdLayout,
}

const REQUEST_SIZE: u16 = 33;

impl<'a> Decode<'a> for SetInfoRequest<'a> {
    fn decode(message: &'a [u8]) -> Result<Self, DecodeError> {
        let layout: &RequestLayout = message::body(message, REQUEST_SIZE)?;
        let (offset, length) = (layout.buffer_offset.get(), layout.buffer_length.get());
        Ok(Self {
            info_type: InfoType(layout.info_type),
            file_info_class: layout.file_info_class,
            additional_information: layout.additional_information.get(),
            file_id: layout.file_id.into(),
            buffer: message::buffer(message, offset, length)?,
        })
    }

    fn file_id(&self) -> Option<FileId> {
        Some(self.file_id)
    }
}

impl Encode for SetInfoRequest<'_> {
    fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let layout = RequestLayout {
            structure_size: REQUEST_SIZE.into(),
            info_type: self.info_type.0,
            file_info_class: self.file_info_class,
            buffer_length: message::len32(self.buffer).into(),
            buffer_offset: message::offset_behind::<RequestLayout>().into(),
            reserved: U16::ZERO,
            additional_information: self.additional_information.into(),
            file_id: self.file_id.into(),
        };
        message::put(out, &layout);
        out.extend_from_slice(self.buffer);
        message::fill_request(out, start, REQUEST_SIZE);
    }
}

/// The response: [MS-SMB2] 2.2.40. The only body without a field besides StructureSize.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct SetInfoResponse;

const RESPONSE_SIZE: u16 = 2;

impl Decode<'_> for SetInfoResponse {
    fn decode(message: &[u8]) -> Result<Self, DecodeError> {
        message::body::<U16>(message, RESPONSE_SIZE).map(|_| Self)
    }
}

impl Encode for SetInfoResponse {
    fn encode(&self, out: &mut Vec<u8>) {
        message::put(out, &U16::new(RESPONSE_SIZE));
    }
}

#[cfg(test)]
mod tests;
