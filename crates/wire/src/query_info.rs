//! SMB2 QUERY_INFO returns information on a file or file system: [MS-SMB2] 2.2.37, 2.2.38.

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::codes::codes;
use crate::error::DecodeError;
use crate::file_id::{FileId, FileIdLayout};
use crate::message::{self, Decode, Encode};

codes! {
    /// Subject of the information: [MS-SMB2] 2.2.37.
    InfoType(u8) {
        /// The file: classes of [MS-FSCC] 2.4.
        FILE = 0x01,
        /// The file system: classes of [MS-FSCC] 2.5.
        FILESYSTEM = 0x02,
        /// The security descriptor.
        SECURITY = 0x03,
        /// The quota.
        QUOTA = 0x04,
    }
}

bitflags::bitflags! {
    /// Flags of the request, for FileFullEaInformation.
    #[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
    pub struct QueryInfoFlags: u32 {
        /// Start again at the first attribute.
        const RESTART_SCAN = 0x0000_0001;
        /// Return one attribute only.
        const RETURN_SINGLE_ENTRY = 0x0000_0002;
        /// Start at the index in AdditionalInformation.
        const INDEX_SPECIFIED = 0x0000_0004;

        const _ = !0;
    }
}

/// The request: [MS-SMB2] 2.2.37.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct QueryInfoRequest<'a> {
    /// Subject of the information.
    pub info_type: InfoType,
    /// Information class, from the list of `info_type`.
    pub file_info_class: u8,
    /// Highest number of bytes in the response's buffer.
    pub output_buffer_length: u32,
    /// Parts of a security descriptor, or an index, by `info_type`.
    pub additional_information: u32,
    /// Part of the extended attributes to return.
    pub flags: QueryInfoFlags,
    /// Open of the file.
    pub file_id: FileId,
    /// Names of attributes, or a quota query; may be empty.
    pub input_buffer: &'a [u8],
}

#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct RequestLayout {
    structure_size: U16,
    info_type: u8,
    file_info_class: u8,
    output_buffer_length: U32,
    input_buffer_offset: U16,
    reserved: U16,
    input_buffer_length: U32,
    additional_information: U32,
    flags: U32,
    file_id: FileIdLayout,
}

const REQUEST_SIZE: u16 = 41;

impl<'a> Decode<'a> for QueryInfoRequest<'a> {
    fn decode(message: &'a [u8]) -> Result<Self, DecodeError> {
        let layout: &RequestLayout = message::body(message, REQUEST_SIZE)?;
        let (offset, length) = (layout.input_buffer_offset, layout.input_buffer_length);
        Ok(Self {
            info_type: InfoType(layout.info_type),
            file_info_class: layout.file_info_class,
            output_buffer_length: layout.output_buffer_length.get(),
            additional_information: layout.additional_information.get(),
            flags: QueryInfoFlags::from_bits_retain(layout.flags.get()),
            file_id: layout.file_id.into(),
            input_buffer: message::buffer(message, offset.get(), length.get())?,
        })
    }

    fn file_id(&self) -> Option<FileId> {
        Some(self.file_id)
    }
}

impl Encode for QueryInfoRequest<'_> {
    fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let is_empty = self.input_buffer.is_empty();
        let offset = if is_empty { 0 } else { message::offset_behind::<RequestLayout>() };
        let layout = RequestLayout {
            structure_size: REQUEST_SIZE.into(),
            info_type: self.info_type.0,
            file_info_class: self.file_info_class,
            output_buffer_length: self.output_buffer_length.into(),
            input_buffer_offset: offset.into(),
            reserved: U16::ZERO,
            input_buffer_length: message::len32(self.input_buffer).into(),
            additional_information: self.additional_information.into(),
            flags: self.flags.bits().into(),
            file_id: self.file_id.into(),
        };
        message::put(out, &layout);
        out.extend_from_slice(self.input_buffer);
        message::fill_request(out, start, REQUEST_SIZE);
    }
}

message::output_buffer_body! {
    /// The response: [MS-SMB2] 2.2.38. Its buffer has the information.
    QueryInfoResponse;
}

#[cfg(test)]
mod tests;
