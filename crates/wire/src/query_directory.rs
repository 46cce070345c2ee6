//! SMB2 QUERY_DIRECTORY lists a directory: [MS-SMB2] 2.2.33, 2.2.34.

use dtyp::FileInformationClass;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::error::DecodeError;
use crate::file_id::{FileId, FileIdLayout};
use crate::message::{self, Decode, Encode};

bitflags::bitflags! {
    /// Flags of the request: [MS-SMB2] 2.2.33.
    #[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
    pub struct QueryDirectoryFlags: u8 {
        /// Start again at the first entry.
        const RESTART_SCANS = 0x01;
        /// Return one entry only.
        const RETURN_SINGLE_ENTRY = 0x02;
        /// Start at FileIndex.
        const INDEX_SPECIFIED = 0x04;
        /// Start again at the first entry, with another pattern.
        const REOPEN = 0x10;

        const _ = !0;
    }
}

/// The request: [MS-SMB2] 2.2.33.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct QueryDirectoryRequest<'a> {
    /// Form of an entry in the response.
    pub file_information_class: FileInformationClass,
    /// Start of the listing, and number of entries.
    pub flags: QueryDirectoryFlags,
    /// Start of the listing, if INDEX_SPECIFIED is set.
    pub file_index: u32,
    /// The directory.
    pub file_id: FileId,
    /// Highest number of bytes in the response's buffer.
    pub output_buffer_length: u32,
    /// Pattern of the names in UTF-16LE; may be empty.
    pub file_name: &'a [u8],
}

#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct RequestLayout {
    structure_size: U16,
    file_information_class: u8,
    flags: u8,
    file_index: U32,
    file_id: FileIdLayout,
    file_name_offset: U16,
    file_name_length: U16,
    output_buffer_length: U32,
}

const REQUEST_SIZE: u16 = 33;

impl<'a> Decode<'a> for QueryDirectoryRequest<'a> {
    fn decode(message: &'a [u8]) -> Result<Self, DecodeError> {
        let layout: &RequestLayout = message::body(message, REQUEST_SIZE)?;
        let (offset, length) = (layout.file_name_offset.get(), layout.file_name_length.get());
        Ok(Self {
            file_information_class: FileInformationClass(layout.file_information_class),
            flags: QueryDirectoryFlags::from_bits_retain(layout.flags),
            file_index: layout.file_index.get(),
            file_id: layout.file_id.into(),
            output_buffer_length: layout.output_buffer_length.get(),
            file_name: message::buffer(message, offset, length)?,
        })
    }

    fn file_id(&self) -> Option<FileId> {
        Some(self.file_id)
    }
}

impl Encode for QueryDirectoryRequest<'_> {
    fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let layout = RequestLayout {
            structure_size: REQUEST_SIZE.into(),
            file_information_class: self.file_information_class.0,
            flags: self.flags.bits(),
            file_index: self.file_index.into(),
            file_id: self.file_id.into(),
            file_name_offset: message::offset_behind::<RequestLayout>().into(),
            file_name_length: message::len16(self.file_name).into(),
            output_buffer_length: self.output_buffer_length.into(),
        };
        message::put(out, &layout);
        out.extend_from_slice(self.file_name);
        message::fill_request(out, start, REQUEST_SIZE);
    }
}

message::output_buffer_body! {
    /// The response: [MS-SMB2] 2.2.34. Its buffer has entries of the requested class.
    QueryDirectoryResponse;
}

#[cfg(test)]
mod tests;
