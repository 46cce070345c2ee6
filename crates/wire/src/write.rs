//! SMB2 WRITE: [MS-SMB2] 2.2.21, 2.2.22.

use std::ops::Range;

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::error::DecodeError;
use crate::file_id::{FileId, FileIdLayout};
use crate::header;
use crate::message::{self, Decode, Encode};
use crate::read::Channel;

bitflags::bitflags! {
    /// Flags of the request: [MS-SMB2] 2.2.21.
    #[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
    pub struct WriteFlags: u32 {
        /// Write to disk before the response: 2.1.
        const WRITE_THROUGH = 0x0000_0001;
        /// Bypass the server's cache: 3.0.2.
        const UNBUFFERED = 0x0000_0002;

        const _ = !0;
    }
}

/// The request: [MS-SMB2] 2.2.21.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct WriteRequest<'a> {
    /// First byte in the file.
    pub offset: u64,
    /// The open to write to.
    pub file_id: FileId,
    /// Transfer of the data.
    pub channel: Channel,
    /// Bytes that the application will write after this; the length for an RDMA channel.
    pub remaining_bytes: u32,
    /// Description of the memory of an RDMA channel.
    pub write_channel_info: &'a [u8],
    /// Caching of the data.
    pub flags: WriteFlags,
    /// DataOffset as received. Encoding ignores it and puts the data behind the fixed part.
    pub data_offset: u16,
    /// Range of the data in the message, `0..0` without data. Encoding ignores it.
    pub data_range: Range<usize>,
    /// Bytes of data that follow the message: see [`Decode::decode_front`]. Encoding ignores it.
    pub behind: usize,
    data: &'a [u8],
}

#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct RequestLayout {
    structure_size: U16,
    data_offset: U16,
    length: U32,
    offset: U64,
    file_id: FileIdLayout,
    channel: U32,
    remaining_bytes: U32,
    write_channel_info_offset: U16,
    write_channel_info_length: U16,
    flags: U32,
}

const REQUEST_SIZE: u16 = 49;

impl<'a> WriteRequest<'a> {
    /// Offset of the data of an encoded request, counted from the header.
    pub const DATA_OFFSET: u16 = message::offset_behind::<RequestLayout>();

    /// A plain write of `data` at `offset`.
    #[must_use]
    pub fn new(file_id: FileId, offset: u64, data: &'a [u8]) -> Self {
        let start = usize::from(Self::DATA_OFFSET);
        let data_range = if data.is_empty() { 0..0 } else { start..start + data.len() };
        let data_offset = Self::DATA_OFFSET;
        Self { offset, file_id, data_offset, data_range, data, ..Self::default() }
    }

    /// The part of the data that is in the message.
    #[must_use]
    pub const fn data(&self) -> &'a [u8] {
        self.data
    }
}

impl<'a> Decode<'a> for WriteRequest<'a> {
    fn decode(message: &'a [u8]) -> Result<Self, DecodeError> {
        Self::decode_front(message, 0)
    }

    /// The bytes behind the message must be data, to the last one.
    fn decode_front(message: &'a [u8], behind: usize) -> Result<Self, DecodeError> {
        let layout: &RequestLayout = message::body(message, REQUEST_SIZE)?;
        let (offset, length) = (layout.write_channel_info_offset, layout.write_channel_info_length);
        let channel = Channel(layout.channel.get());
        let write_channel_info = channel.info(message, offset, length)?;
        let data_offset = layout.data_offset.get();
        let data_range = match behind {
            0 => message::buffer_range(message, data_offset, layout.length.get())?,
            behind => range_in_front(message, behind, data_offset, layout.length.get())?,
        };
        Ok(Self {
            offset: layout.offset.get(),
            file_id: layout.file_id.into(),
            channel,
            remaining_bytes: layout.remaining_bytes.get(),
            write_channel_info,
            flags: WriteFlags::from_bits_retain(layout.flags.get()),
            data_offset,
            data: &message[data_range.clone()],
            data_range,
            behind,
        })
    }

    fn file_id(&self) -> Option<FileId> {
        Some(self.file_id)
    }
}

/// Returns the range of the part of the data that is in the message; the rest follows the message.
fn range_in_front(
    message: &[u8],
    behind: usize,
    offset: u16,
    length: u32,
) -> Result<Range<usize>, DecodeError> {
    let have = message.len() + behind;
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    let offset = usize::from(offset);
    let ends_with_it = offset.checked_add(length) == Some(have);
    if !ends_with_it || offset < header::SIZE || offset > message.len() {
        return Err(DecodeError::Offset { offset, length, have });
    }
    Ok(offset..message.len())
}

impl Encode for WriteRequest<'_> {
    fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let info_offset = if self.write_channel_info.is_empty() {
            0
        } else {
            let length = u16::try_from(self.data.len()).expect("RDMA requests have no data");
            Self::DATA_OFFSET.checked_add(length).expect("RDMA requests have no data")
        };
        let layout = RequestLayout {
            structure_size: REQUEST_SIZE.into(),
            data_offset: Self::DATA_OFFSET.into(),
            length: message::len32(self.data).into(),
            offset: self.offset.into(),
            file_id: self.file_id.into(),
            channel: self.channel.0.into(),
            remaining_bytes: self.remaining_bytes.into(),
            write_channel_info_offset: info_offset.into(),
            write_channel_info_length: message::len16(self.write_channel_info).into(),
            flags: self.flags.bits().into(),
        };
        message::put(out, &layout);
        out.extend_from_slice(self.data);
        out.extend_from_slice(self.write_channel_info);
        message::fill_request(out, start, REQUEST_SIZE);
    }
}

/// The response: [MS-SMB2] 2.2.22.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct WriteResponse {
    /// Bytes written.
    pub count: u32,
    /// Reserved; zero from a server, ignored by a client.
    pub remaining: u32,
}

#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct ResponseLayout {
    structure_size: U16,
    reserved: U16,
    count: U32,
    remaining: U32,
    write_channel_info_offset: U16,
    write_channel_info_length: U16,
}

const RESPONSE_SIZE: u16 = 17;

impl Decode<'_> for WriteResponse {
    fn decode(message: &[u8]) -> Result<Self, DecodeError> {
        let layout: &ResponseLayout = message::body(message, RESPONSE_SIZE)?;
        Ok(Self { count: layout.count.get(), remaining: layout.remaining.get() })
    }
}

impl WriteResponse {
    /// Length of the body in bytes.
    pub const SIZE: usize = size_of::<ResponseLayout>();

    /// Returns the bytes of the body.
    #[must_use]
    #[inline]
    pub fn to_bytes(&self) -> [u8; Self::SIZE] {
        zerocopy::transmute!(ResponseLayout {
            structure_size: RESPONSE_SIZE.into(),
            reserved: U16::ZERO,
            count: self.count.into(),
            remaining: self.remaining.into(),
            write_channel_info_offset: U16::ZERO,
            write_channel_info_length: U16::ZERO,
        })
    }
}

impl Encode for WriteResponse {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_bytes());
    }
}

#[cfg(test)]
mod tests;
