//! File information classes of fixed size: [MS-FSCC] 2.4.

use super::field::{Reserved, fixed};
use crate::{AccessMask, FileAttributes, FileTime};

fixed! {
    /// [MS-FSCC] 2.4.1: the access granted to the open.
    FileAccessInformation[4] {
        /// AccessFlags: rights of the open.
        access_flags: AccessMask,
    }

    /// [MS-FSCC] 2.4.3: alignment of buffers that the device requires, minus one.
    FileAlignmentInformation[4] {
        /// AlignmentRequirement: a mask of address bits.
        alignment_requirement: u32,
    }

    /// [MS-FSCC] 2.4.4: sets the space reserved for the file.
    FileAllocationInformation[8] {
        /// AllocationSize: reserved space in bytes.
        allocation_size: u64,
    }

    /// [MS-FSCC] 2.4.6.
    FileAttributeTagInformation[8] {
        /// FileAttributes of the file or directory.
        file_attributes: FileAttributes,
        /// ReparseTag; zero without a reparse point.
        reparse_tag: u32,
    }

    /// [MS-FSCC] 2.4.7. In a set, a time of zero is not changed; −1 and −2 have the meanings of the
    /// section.
    FileBasicInformation[40] {
        /// CreationTime: when the file was created.
        creation_time: FileTime,
        /// LastAccessTime: when data was last read.
        last_access_time: FileTime,
        /// LastWriteTime: when data was last written.
        last_write_time: FileTime,
        /// ChangeTime: when data or metadata last changed.
        change_time: FileTime,
        /// FileAttributes; in a set, zero does not change them.
        file_attributes: FileAttributes,
        /// Written as zero, ignored by readers.
        reserved: Reserved<4>,
    }

    /// [MS-FSCC] 2.4.9.
    FileCompressionInformation[16] {
        /// CompressedFileSize: bytes of the compressed file.
        compressed_file_size: u64,
        /// CompressionFormat: zero for an uncompressed file.
        compression_format: u16,
        /// CompressionUnitShift: logarithm of the bytes of a unit.
        compression_unit_shift: u8,
        /// ChunkShift: logarithm of the bytes of a chunk.
        chunk_shift: u8,
        /// ClusterShift: logarithm of the bytes of a cluster.
        cluster_shift: u8,
        /// Written as zero, ignored by readers.
        reserved: Reserved<3>,
    }

    /// [MS-FSCC] 2.4.11: deletes the file at its close.
    FileDispositionInformation[1] {
        /// DeletePending: deletion follows the last close.
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

    /// [MS-FSCC] 2.4.14: sets the length of the file.
    FileEndOfFileInformation[8] {
        /// EndOfFile: new length in bytes.
        end_of_file: u64,
    }

    /// [MS-FSCC] 2.4.26.
    FileIdInformation[24] {
        /// VolumeSerialNumber: identifies the file's volume.
        volume_serial_number: u64,
        /// FileId: 128 bits, unique in its volume.
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
        /// CreationTime: when the file was created.
        creation_time: FileTime,
        /// LastAccessTime: when data was last read.
        last_access_time: FileTime,
        /// LastWriteTime: when data was last written.
        last_write_time: FileTime,
        /// ChangeTime: when data or metadata last changed.
        change_time: FileTime,
        /// AllocationSize: bytes allocated on disk.
        allocation_size: u64,
        /// EndOfFile: length of the data in bytes.
        end_of_file: u64,
        /// FileAttributes of the file or directory.
        file_attributes: FileAttributes,
        /// Written as zero, ignored by readers.
        reserved: Reserved<4>,
    }

    /// [MS-FSCC] 2.4.40.
    FilePositionInformation[8] {
        /// CurrentByteOffset: position in bytes, kept for the client.
        current_byte_offset: u64,
    }

    /// [MS-FSCC] 2.4.47.
    FileStandardInformation[24] {
        /// AllocationSize: bytes allocated on disk.
        allocation_size: u64,
        /// EndOfFile: length of the data in bytes.
        end_of_file: u64,
        /// NumberOfLinks: number of hard links.
        number_of_links: u32,
        /// DeletePending: deletion follows the last close.
        delete_pending: bool,
        /// Directory: true for a directory.
        directory: bool,
        /// Written as zero, ignored by readers.
        reserved: Reserved<2>,
    }

    /// [MS-FSCC] 2.4.49: sets the length of the written part of the file.
    FileValidDataLengthInformation[8] {
        /// ValidDataLength: bytes that were written, from the beginning.
        valid_data_length: u64,
    }
}

impl FileDispositionInformationEx {
    /// FILE_DISPOSITION_DELETE: delete at close; without it, do not.
    pub const DELETE: u32 = 0x0000_0001;
    /// FILE_DISPOSITION_POSIX_SEMANTICS: the name is removed at once, the file with its last open.
    pub const POSIX_SEMANTICS: u32 = 0x0000_0002;
    /// FILE_DISPOSITION_FORCE_IMAGE_SECTION_CHECK.
    pub const FORCE_IMAGE_SECTION_CHECK: u32 = 0x0000_0004;
    /// FILE_DISPOSITION_ON_CLOSE: the open deletes at its close, regardless of its create options.
    pub const ON_CLOSE: u32 = 0x0000_0008;
    /// FILE_DISPOSITION_IGNORE_READONLY_ATTRIBUTE.
    pub const IGNORE_READONLY_ATTRIBUTE: u32 = 0x0000_0010;
}
