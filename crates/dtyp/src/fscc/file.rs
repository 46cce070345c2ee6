//! File information classes of fixed size: [MS-FSCC] 2.4.

use super::field::{Reserved, fixed};
use crate::{AccessMask, FileAttributes, FileTime};

fixed! {
    /// [MS-FSCC] 2.4.1: the access granted to the open.
    FileAccessInformation[4] {
        /// AccessFlags.
        access_flags: AccessMask,
    }

    /// [MS-FSCC] 2.4.3: the alignment of buffers that the device needs, less one.
    FileAlignmentInformation[4] {
        /// AlignmentRequirement.
        alignment_requirement: u32,
    }

    /// [MS-FSCC] 2.4.4: set the space reserved for the file.
    FileAllocationInformation[8] {
        /// AllocationSize, in bytes.
        allocation_size: u64,
    }

    /// [MS-FSCC] 2.4.6.
    FileAttributeTagInformation[8] {
        /// FileAttributes.
        file_attributes: FileAttributes,
        /// ReparseTag; zero without a reparse point.
        reparse_tag: u32,
    }

    /// [MS-FSCC] 2.4.7. In a set, a time of zero leaves it; −1 and −2 as the section says.
    FileBasicInformation[40] {
        /// CreationTime.
        creation_time: FileTime,
        /// LastAccessTime.
        last_access_time: FileTime,
        /// LastWriteTime.
        last_write_time: FileTime,
        /// ChangeTime.
        change_time: FileTime,
        /// FileAttributes; in a set, zero leaves them.
        file_attributes: FileAttributes,
        /// Reserved.
        reserved: Reserved<4>,
    }

    /// [MS-FSCC] 2.4.9.
    FileCompressionInformation[16] {
        /// CompressedFileSize, in bytes.
        compressed_file_size: u64,
        /// CompressionFormat: 0 for none.
        compression_format: u16,
        /// CompressionUnitShift.
        compression_unit_shift: u8,
        /// ChunkShift.
        chunk_shift: u8,
        /// ClusterShift.
        cluster_shift: u8,
        /// Reserved.
        reserved: Reserved<3>,
    }

    /// [MS-FSCC] 2.4.11: delete the file at close.
    FileDispositionInformation[1] {
        /// DeletePending.
        delete_pending: bool,
    }

    /// [MS-FSCC] 2.4.12.
    FileDispositionInformationEx[4] {
        /// Flags: the constants of this type.
        flags: u32,
    }

    /// [MS-FSCC] 2.4.13.
    FileEaInformation[4] {
        /// EaSize: bytes of all extended attributes.
        ea_size: u32,
    }

    /// [MS-FSCC] 2.4.14: set the size of the file.
    FileEndOfFileInformation[8] {
        /// EndOfFile, in bytes.
        end_of_file: u64,
    }

    /// [MS-FSCC] 2.4.26.
    FileIdInformation[24] {
        /// VolumeSerialNumber.
        volume_serial_number: u64,
        /// FileId, 128 bits.
        file_id: [u8; 16],
    }

    /// [MS-FSCC] 2.4.27.
    FileInternalInformation[8] {
        /// IndexNumber: the 64-bit file id.
        index_number: u64,
    }

    /// [MS-FSCC] 2.4.31.
    FileModeInformation[4] {
        /// Mode: bits of the create options.
        mode: u32,
    }

    /// [MS-FSCC] 2.4.34.
    FileNetworkOpenInformation[56] {
        /// CreationTime.
        creation_time: FileTime,
        /// LastAccessTime.
        last_access_time: FileTime,
        /// LastWriteTime.
        last_write_time: FileTime,
        /// ChangeTime.
        change_time: FileTime,
        /// AllocationSize, in bytes.
        allocation_size: u64,
        /// EndOfFile, in bytes.
        end_of_file: u64,
        /// FileAttributes.
        file_attributes: FileAttributes,
        /// Reserved.
        reserved: Reserved<4>,
    }

    /// [MS-FSCC] 2.4.40.
    FilePositionInformation[8] {
        /// CurrentByteOffset.
        current_byte_offset: u64,
    }

    /// [MS-FSCC] 2.4.47.
    FileStandardInformation[24] {
        /// AllocationSize, in bytes.
        allocation_size: u64,
        /// EndOfFile, in bytes.
        end_of_file: u64,
        /// NumberOfLinks.
        number_of_links: u32,
        /// DeletePending.
        delete_pending: bool,
        /// Directory.
        directory: bool,
        /// Reserved.
        reserved: Reserved<2>,
    }

    /// [MS-FSCC] 2.4.49: set how much of the file was written.
    FileValidDataLengthInformation[8] {
        /// ValidDataLength, in bytes.
        valid_data_length: u64,
    }
}

impl FileDispositionInformationEx {
    /// FILE_DISPOSITION_DELETE: delete at close; without it, do not.
    pub const DELETE: u32 = 0x0000_0001;
    /// FILE_DISPOSITION_POSIX_SEMANTICS: the name goes at once, the file with its last handle.
    pub const POSIX_SEMANTICS: u32 = 0x0000_0002;
    /// FILE_DISPOSITION_FORCE_IMAGE_SECTION_CHECK.
    pub const FORCE_IMAGE_SECTION_CHECK: u32 = 0x0000_0004;
    /// FILE_DISPOSITION_ON_CLOSE: the handle deletes at close, whatever was asked at create.
    pub const ON_CLOSE: u32 = 0x0000_0008;
    /// FILE_DISPOSITION_IGNORE_READONLY_ATTRIBUTE.
    pub const IGNORE_READONLY_ATTRIBUTE: u32 = 0x0000_0010;
}
