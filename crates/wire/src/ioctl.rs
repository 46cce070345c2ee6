//! SMB2 IOCTL carries control codes: [MS-SMB2] 2.2.31, 2.2.32.

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::error::DecodeError;
use crate::file_id::{FileId, FileIdLayout};
use crate::message::{self, Decode, Encode};

mod copy_chunk;
mod dfs_referral;
mod duplicate_extents;
mod fsctl_code;
mod network_interface;
mod network_resiliency;
mod pipe_wait;
mod snapshot_array;
mod validate_negotiate;

pub use copy_chunk::{
    CopyChunk, CopyChunkCopy, CopyChunkResponse, CopyChunks, RequestResumeKeyResponse, ResumeKey,
};
pub use dfs_referral::{DfsReferralFlags, DfsReferralRequest, DfsReferralResponse};
pub use duplicate_extents::{DuplicateExtents, DuplicateExtentsEx, DuplicateExtentsFlags};
pub use fsctl_code::FsctlCode;
pub use network_interface::{
    NetworkInterface, NetworkInterfaceCapability, NetworkInterfaceList, NetworkInterfaces,
};
pub use network_resiliency::NetworkResiliencyRequest;
pub use pipe_wait::PipeWait;
pub use snapshot_array::SnapshotArray;
pub use validate_negotiate::{ValidateNegotiateInfoRequest, ValidateNegotiateInfoResponse};

bitflags::bitflags! {
    /// Flags of the request: [MS-SMB2] 2.2.31.
    #[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
    pub struct IoctlFlags: u32 {
        /// The code is an FSCTL; no other kind is defined.
        const IS_FSCTL = 0x0000_0001;

        const _ = !0;
    }
}

/// The request: [MS-SMB2] 2.2.31.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct IoctlRequest<'a> {
    /// The operation.
    pub ctl_code: FsctlCode,
    /// The open; [`FileId::ANY`] for the codes that need none.
    pub file_id: FileId,
    /// Parameters of the operation.
    pub input: &'a [u8],
    /// Highest number of bytes of input in the response.
    pub max_input_response: u32,
    /// OutputCount: clients send no output, so this should be zero. Servers ignore it.
    pub output_count: u32,
    /// Highest number of bytes of output in the response.
    pub max_output_response: u32,
    /// Whether the code is an FSCTL.
    pub flags: IoctlFlags,
}

#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct RequestLayout {
    structure_size: U16,
    reserved: U16,
    ctl_code: U32,
    file_id: FileIdLayout,
    input_offset: U32,
    input_count: U32,
    max_input_response: U32,
    output_offset: U32,
    output_count: U32,
    max_output_response: U32,
    flags: U32,
    reserved2: U32,
}

const REQUEST_SIZE: u16 = 57;

impl<'a> Decode<'a> for IoctlRequest<'a> {
    fn decode(message: &'a [u8]) -> Result<Self, DecodeError> {
        let layout: &RequestLayout = message::body(message, REQUEST_SIZE)?;
        Ok(Self {
            ctl_code: FsctlCode(layout.ctl_code.get()),
            file_id: layout.file_id.into(),
            input: message::buffer(message, layout.input_offset.get(), layout.input_count.get())?,
            max_input_response: layout.max_input_response.get(),
            output_count: layout.output_count.get(),
            max_output_response: layout.max_output_response.get(),
            flags: IoctlFlags::from_bits_retain(layout.flags.get()),
        })
    }

    fn file_id(&self) -> Option<FileId> {
        Some(self.file_id)
    }
}

impl Encode for IoctlRequest<'_> {
    fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let offset = u32::from(message::offset_behind::<RequestLayout>());
        let layout = RequestLayout {
            structure_size: REQUEST_SIZE.into(),
            reserved: U16::ZERO,
            ctl_code: self.ctl_code.0.into(),
            file_id: self.file_id.into(),
            input_offset: if self.input.is_empty() { 0 } else { offset }.into(),
            input_count: message::len32(self.input).into(),
            max_input_response: self.max_input_response.into(),
            output_offset: U32::ZERO,
            output_count: self.output_count.into(),
            max_output_response: self.max_output_response.into(),
            flags: self.flags.bits().into(),
            reserved2: U32::ZERO,
        };
        message::put(out, &layout);
        out.extend_from_slice(self.input);
        message::fill_request(out, start, REQUEST_SIZE);
    }
}

/// The response: [MS-SMB2] 2.2.32.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct IoctlResponse<'a> {
    /// The operation.
    pub ctl_code: FsctlCode,
    /// The open of the request.
    pub file_id: FileId,
    /// The input, for codes that return it; mostly empty.
    pub input: &'a [u8],
    /// Result of the operation.
    pub output: &'a [u8],
    /// Meaningless bytes before the input. Zero after decoding.
    pub padding: u8,
}

#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct ResponseLayout {
    structure_size: U16,
    reserved: U16,
    ctl_code: U32,
    file_id: FileIdLayout,
    input_offset: U32,
    input_count: U32,
    output_offset: U32,
    output_count: U32,
    flags: U32,
    reserved2: U32,
}

const RESPONSE_SIZE: u16 = 49;

impl<'a> Decode<'a> for IoctlResponse<'a> {
    fn decode(message: &'a [u8]) -> Result<Self, DecodeError> {
        let layout: &ResponseLayout = message::body(message, RESPONSE_SIZE)?;
        let (offset, count) = (layout.output_offset.get(), layout.output_count.get());
        Ok(Self {
            ctl_code: FsctlCode(layout.ctl_code.get()),
            file_id: layout.file_id.into(),
            input: message::buffer(message, layout.input_offset.get(), layout.input_count.get())?,
            output: message::buffer(message, offset, count)?,
            padding: 0,
        })
    }

    fn file_id(&self) -> Option<FileId> {
        Some(self.file_id)
    }
}

impl Encode for IoctlResponse<'_> {
    /// Sets both offsets even for empty buffers: [MS-SMB2] 3.3.5.15. The output begins at the first
    /// multiple of eight behind the input.
    fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let padding = usize::from(self.padding);
        let input_end = size_of::<ResponseLayout>() + padding + self.input.len();
        let output_offset = crate::header::SIZE + input_end.next_multiple_of(8);
        let layout = ResponseLayout {
            structure_size: RESPONSE_SIZE.into(),
            reserved: U16::ZERO,
            ctl_code: self.ctl_code.0.into(),
            file_id: self.file_id.into(),
            input_offset: (u32::from(message::offset_behind::<ResponseLayout>())
                + u32::from(self.padding))
            .into(),
            input_count: message::len32(self.input).into(),
            output_offset: u32::try_from(output_offset).expect("inputs are short").into(),
            output_count: message::len32(self.output).into(),
            flags: U32::ZERO,
            reserved2: U32::ZERO,
        };
        message::put(out, &layout);
        out.resize(out.len() + padding, 0);
        out.extend_from_slice(self.input);
        message::align(out, start, 8);
        out.extend_from_slice(self.output);
    }
}

#[cfg(test)]
mod tests;
