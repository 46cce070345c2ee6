//! SMB2 CHANGE_NOTIFY waits for a change in a directory: [MS-SMB2] 2.2.35, 2.2.36.

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::error::DecodeError;
use crate::file_id::{FileId, FileIdLayout};
use crate::message::{self, Decode, Encode};

mod notify_information;

pub use notify_information::{NotifyAction, NotifyInformation, NotifyInformationList};

bitflags::bitflags! {
    /// Flags of the request: [MS-SMB2] 2.2.35.
    #[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
    pub struct ChangeNotifyFlags: u16 {
        /// Changes in all subdirectories count too.
        const WATCH_TREE = 0x0001;

        const _ = !0;
    }
}

bitflags::bitflags! {
    /// Changes that complete the request: [MS-SMB2] 2.2.35.
    #[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
    pub struct CompletionFilter: u32 {
        /// A file is created, deleted or renamed.
        const FILE_NAME = 0x0000_0001;
        /// A directory is created, deleted or renamed.
        const DIR_NAME = 0x0000_0002;
        /// Attributes.
        const ATTRIBUTES = 0x0000_0004;
        /// The length.
        const SIZE = 0x0000_0008;
        /// The time of the last write.
        const LAST_WRITE = 0x0000_0010;
        /// The time of the last access.
        const LAST_ACCESS = 0x0000_0020;
        /// The time of creation.
        const CREATION = 0x0000_0040;
        /// Extended attributes.
        const EA = 0x0000_0080;
        /// The security descriptor.
        const SECURITY = 0x0000_0100;
        /// A stream is created, deleted or renamed.
        const STREAM_NAME = 0x0000_0200;
        /// The length of a stream.
        const STREAM_SIZE = 0x0000_0400;
        /// A stream is written.
        const STREAM_WRITE = 0x0000_0800;

        const _ = !0;
    }
}

/// The request: [MS-SMB2] 2.2.35.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ChangeNotifyRequest {
    /// Whether to watch subdirectories too.
    pub flags: ChangeNotifyFlags,
    /// Highest number of bytes in the response's buffer.
    pub output_buffer_length: u32,
    /// The directory.
    pub file_id: FileId,
    /// Changes that complete the request.
    pub completion_filter: CompletionFilter,
}

#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct RequestLayout {
    structure_size: U16,
    flags: U16,
    output_buffer_length: U32,
    file_id: FileIdLayout,
    completion_filter: U32,
    reserved: U32,
}

const REQUEST_SIZE: u16 = 32;

impl Decode<'_> for ChangeNotifyRequest {
    fn decode(message: &[u8]) -> Result<Self, DecodeError> {
        let layout: &RequestLayout = message::body(message, REQUEST_SIZE)?;
        Ok(Self {
            flags: ChangeNotifyFlags::from_bits_retain(layout.flags.get()),
            output_buffer_length: layout.output_buffer_length.get(),
            file_id: layout.file_id.into(),
            completion_filter: CompletionFilter::from_bits_retain(layout.completion_filter.get()),
        })
    }

    fn file_id(&self) -> Option<FileId> {
        Some(self.file_id)
    }
}

impl Encode for ChangeNotifyRequest {
    fn encode(&self, out: &mut Vec<u8>) {
        let layout = RequestLayout {
            structure_size: REQUEST_SIZE.into(),
            flags: self.flags.bits().into(),
            output_buffer_length: self.output_buffer_length.into(),
            file_id: self.file_id.into(),
            completion_filter: self.completion_filter.bits().into(),
            reserved: U32::ZERO,
        };
        message::put(out, &layout);
    }
}

message::output_buffer_body! {
    /// The response: [MS-SMB2] 2.2.36. Its buffer is read by [`NotifyInformation::iter`].
    ChangeNotifyResponse;
}

#[cfg(test)]
mod tests;
