//! SMB2 READ: [MS-SMB2] 2.2.19, 2.2.20.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::codes::codes;
use crate::error::DecodeError;
use crate::file_id::{FileId, FileIdLayout};
use crate::message::{self, Decode, Encode};

bitflags::bitflags! {
    /// Flags of the request: [MS-SMB2] 2.2.19.
    #[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
    pub struct ReadFlags: u8 {
        /// Bypass the server's cache: 3.0.2.
        const UNBUFFERED = 0x01;
        /// The response may be compressed: 3.1.1.
        const REQUEST_COMPRESSED = 0x02;

        const _ = !0;
    }
}

codes! {
    /// Transfer of the data of READ and WRITE.
    Channel(u32) {
        /// In the message.
        NONE = 0x0000_0000,
        RDMA_V1 = 0x0000_0001,
        RDMA_V1_INVALIDATE = 0x0000_0002,
        RDMA_TRANSFORM = 0x0000_0003,
    }
}

impl Channel {
    /// True if RDMA transfers the data, to or from memory that the channel information describes.
    #[must_use]
    pub fn is_rdma(self) -> bool {
        matches!(self, Self::RDMA_V1 | Self::RDMA_V1_INVALIDATE | Self::RDMA_TRANSFORM)
    }

    /// Returns the channel information; empty for a channel without RDMA, where it has no meaning.
    pub(crate) fn info(
        self,
        message: &[u8],
        offset: U16,
        length: U16,
    ) -> Result<&[u8], DecodeError> {
        if self.is_rdma() { message::buffer(message, offset.get(), length.get()) } else { Ok(&[]) }
    }
}

/// The request: [MS-SMB2] 2.2.19.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ReadRequest<'a> {
    /// Offset of the data that the client prefers, counted from the response's header.
    pub padding: u8,
    /// Caching and compression of the data.
    pub flags: ReadFlags,
    /// Number of bytes to read.
    pub length: u32,
    /// First byte in the file.
    pub offset: u64,
    /// The open to read from.
    pub file_id: FileId,
    /// Smallest number of bytes read that is a success.
    pub minimum_count: u32,
    /// Transfer of the data.
    pub channel: Channel,
    /// Bytes that the application will read after this.
    pub remaining_bytes: u32,
    /// Description of the memory of an RDMA channel.
    pub read_channel_info: &'a [u8],
}

#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct RequestLayout {
    structure_size: U16,
    padding: u8,
    flags: u8,
    length: U32,
    offset: U64,
    file_id: FileIdLayout,
    minimum_count: U32,
    channel: U32,
    remaining_bytes: U32,
    read_channel_info_offset: U16,
    read_channel_info_length: U16,
}

const REQUEST_SIZE: u16 = 49;

impl<'a> Decode<'a> for ReadRequest<'a> {
    fn decode(message: &'a [u8]) -> Result<Self, DecodeError> {
        let layout: &RequestLayout = message::body(message, REQUEST_SIZE)?;
        let (offset, length) = (layout.read_channel_info_offset, layout.read_channel_info_length);
        let channel = Channel(layout.channel.get());
        // Without RDMA it has no meaning.
        let info = channel.is_rdma().then(|| message::buffer(message, offset.get(), length.get()));
        Ok(Self {
            padding: layout.padding,
            flags: ReadFlags::from_bits_retain(layout.flags),
            length: layout.length.get(),
            offset: layout.offset.get(),
            file_id: layout.file_id.into(),
            minimum_count: layout.minimum_count.get(),
            channel,
            remaining_bytes: layout.remaining_bytes.get(),
            read_channel_info: info.transpose()?.unwrap_or_default(),
        })
    }

    fn file_id(&self) -> Option<FileId> {
        Some(self.file_id)
    }
}

impl Encode for ReadRequest<'_> {
    fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let has_info = !self.read_channel_info.is_empty();
        let info_offset = if has_info { message::offset_behind::<RequestLayout>() } else { 0 };
        let layout = RequestLayout {
            structure_size: REQUEST_SIZE.into(),
            padding: self.padding,
            flags: self.flags.bits(),
            length: self.length.into(),
            offset: self.offset.into(),
            file_id: self.file_id.into(),
            minimum_count: self.minimum_count.into(),
            channel: self.channel.0.into(),
            remaining_bytes: self.remaining_bytes.into(),
            read_channel_info_offset: info_offset.into(),
            read_channel_info_length: message::len16(self.read_channel_info).into(),
        };
        message::put(out, &layout);
        out.extend_from_slice(self.read_channel_info);
        message::fill_request(out, start, REQUEST_SIZE);
    }
}

bitflags::bitflags! {
    /// Flags of the response, 3.1.1.
    #[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
    pub struct ReadResponseFlags: u32 {
        /// The data was transformed for RDMA.
        const RDMA_TRANSFORM = 0x0000_0001;

        const _ = !0;
    }
}

/// The response without its data: [MS-SMB2] 2.2.20.
///
/// The data follows at message offset [`READ_DATA_OFFSET`]: the caller appends it, or sends it from
/// another buffer.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ReadResponseHead {
    /// Number of bytes of data that follow.
    pub data_length: u32,
    /// Number of bytes that RDMA transfers instead.
    pub data_remaining: u32,
    /// Whether the data was transformed.
    pub flags: ReadResponseFlags,
    /// Meaningless bytes before the data.
    pub padding: u8,
}

/// Offset of the data of an encoded [`ReadResponseHead`] without padding, counted from the header.
pub const READ_DATA_OFFSET: u8 = 0x50;

#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct ResponseLayout {
    structure_size: U16,
    data_offset: u8,
    reserved: u8,
    data_length: U32,
    data_remaining: U32,
    flags: U32,
}

const RESPONSE_SIZE: u16 = 17;

impl ReadResponseHead {
    /// Number of bytes without padding.
    pub const SIZE: usize = size_of::<ResponseLayout>();

    /// Returns the head without its padding, which is zeros.
    #[must_use]
    #[inline]
    pub fn to_bytes(&self) -> [u8; Self::SIZE] {
        zerocopy::transmute!(ResponseLayout {
            structure_size: RESPONSE_SIZE.into(),
            data_offset: READ_DATA_OFFSET + self.padding,
            reserved: 0,
            data_length: self.data_length.into(),
            data_remaining: self.data_remaining.into(),
            flags: self.flags.bits().into(),
        })
    }
}

impl Encode for ReadResponseHead {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_bytes());
        out.resize(out.len() + usize::from(self.padding), 0);
    }
}

/// The response: [MS-SMB2] 2.2.20.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ReadResponse<'a> {
    /// The data; may be empty.
    pub data: &'a [u8],
    /// Number of bytes that RDMA transfers instead.
    pub data_remaining: u32,
    /// Whether the data was transformed.
    pub flags: ReadResponseFlags,
}

impl<'a> Decode<'a> for ReadResponse<'a> {
    fn decode(message: &'a [u8]) -> Result<Self, DecodeError> {
        let layout: &ResponseLayout = message::body(message, RESPONSE_SIZE)?;
        Ok(Self {
            data: message::buffer(message, layout.data_offset, layout.data_length.get())?,
            data_remaining: layout.data_remaining.get(),
            flags: ReadResponseFlags::from_bits_retain(layout.flags.get()),
        })
    }
}

impl Encode for ReadResponse<'_> {
    fn encode(&self, out: &mut Vec<u8>) {
        let head = ReadResponseHead {
            data_length: message::len32(self.data),
            data_remaining: self.data_remaining,
            flags: self.flags,
            padding: 0,
        };
        head.encode(out);
        out.extend_from_slice(self.data);
    }
}

#[cfg(test)]
mod tests;
