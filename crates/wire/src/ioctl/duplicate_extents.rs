//! Shared storage of files (reflinks): [MS-FSCC] 2.3.7.2, 2.3.9.2.

use zerocopy::little_endian::{I64, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::error::DecodeError;
use crate::file_id::{FileId, FileIdLayout};
use crate::message;

/// SMB2_DUPLICATE_EXTENTS_DATA, the input of FSCTL_DUPLICATE_EXTENTS_TO_FILE: [MS-FSCC] 2.3.7.2.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct DuplicateExtents {
    /// Open of the source. The IOCTL itself names the target.
    pub source_file_id: FileId,
    /// First byte in the source.
    pub source_file_offset: i64,
    /// First byte in the target.
    pub target_file_offset: i64,
    /// Bytes to share.
    pub byte_count: i64,
}

#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct Layout {
    source_file_id: FileIdLayout,
    source_file_offset: I64,
    target_file_offset: I64,
    byte_count: I64,
}

impl DuplicateExtents {
    /// Decodes the input of the IOCTL.
    ///
    /// # Errors
    ///
    /// If the input is too short.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let (layout, _) = message::prefix::<Layout>(bytes)?;
        Ok(Self {
            source_file_id: layout.source_file_id.into(),
            source_file_offset: layout.source_file_offset.get(),
            target_file_offset: layout.target_file_offset.get(),
            byte_count: layout.byte_count.get(),
        })
    }

    /// Appends the input of the IOCTL.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let layout = Layout {
            source_file_id: self.source_file_id.into(),
            source_file_offset: self.source_file_offset.into(),
            target_file_offset: self.target_file_offset.into(),
            byte_count: self.byte_count.into(),
        };
        message::put(out, &layout);
    }
}

bitflags::bitflags! {
    /// Flags of [`DuplicateExtentsEx`]: [MS-FSCC] 2.3.9.2.
    #[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
    pub struct DuplicateExtentsFlags: u32 {
        /// DUPLICATE_EXTENTS_DATA_EX_SOURCE_ATOMIC: share all of the range, or nothing.
        const SOURCE_ATOMIC = 0x0000_0001;

        const _ = !0;
    }
}

/// SMB2_DUPLICATE_EXTENTS_DATA_EX, the input of FSCTL_DUPLICATE_EXTENTS_TO_FILE_EX: [MS-FSCC]
/// 2.3.9.2.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct DuplicateExtentsEx {
    /// The range to share.
    pub extents: DuplicateExtents,
    /// Whether the operation is atomic.
    pub flags: DuplicateExtentsFlags,
}

#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct LayoutEx {
    structure_size: U64,
    extents: Layout,
    flags: U32,
    reserved: U32,
}

/// Value of StructureSize by [MS-FSCC]. Some clients send the true size of the structure, 0x38, so
/// decoding ignores it.
const STRUCTURE_SIZE: u64 = 0x30;

impl DuplicateExtentsEx {
    /// Decodes the input of the IOCTL.
    ///
    /// # Errors
    ///
    /// If the input is too short.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let (layout, _) = message::prefix::<LayoutEx>(bytes)?;
        let extents = DuplicateExtents::decode(layout.extents.as_bytes())?;
        let flags = DuplicateExtentsFlags::from_bits_retain(layout.flags.get());
        Ok(Self { extents, flags })
    }

    /// Appends the input of the IOCTL.
    pub fn encode(&self, out: &mut Vec<u8>) {
        message::put(out, &U64::new(STRUCTURE_SIZE));
        self.extents.encode(out);
        message::put(out, &[U32::new(self.flags.bits()), U32::ZERO]);
    }
}
