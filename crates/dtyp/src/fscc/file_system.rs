//! File system information classes: [MS-FSCC] 2.5.

use super::field::{Field, Reserved, fixed};
use super::name::{put_len, put_name, take_name};
use crate::reader::Reader;
use crate::{FileTime, Guid, utf16};

fixed! {
    /// [MS-FSCC] 2.5.2: quotas.
    FileFsControlInformation[48] {
        /// FreeSpaceStartFiltering: for content indexing; here always zero.
        free_space_start_filtering: u64,
        /// FreeSpaceThreshold: for content indexing; here always zero.
        free_space_threshold: u64,
        /// FreeSpaceStopFiltering: for content indexing; here always zero.
        free_space_stop_filtering: u64,
        /// DefaultQuotaThreshold: bytes that cause a warning; `u64::MAX` for none.
        default_quota_threshold: u64,
        /// DefaultQuotaLimit: bytes that a user may have; `u64::MAX` for none.
        default_quota_limit: u64,
        /// FileSystemControlFlags: tracking and enforcement of quotas.
        file_system_control_flags: u32,
        /// Written as zero, ignored by readers.
        reserved: Reserved<4>,
    }

    /// [MS-FSCC] 2.5.10.
    FileFsDeviceInformation[8] {
        /// DeviceType: 7 for a disk.
        device_type: u32,
        /// Characteristics: the constants of this type.
        characteristics: u32,
    }

    /// [MS-FSCC] 2.5.4.
    FileFsFullSizeInformation[32] {
        /// TotalAllocationUnits: size of the volume, in units.
        total_allocation_units: u64,
        /// CallerAvailableAllocationUnits: free space of this user, under its quota.
        caller_available_allocation_units: u64,
        /// ActualAvailableAllocationUnits: free space regardless of quotas.
        actual_available_allocation_units: u64,
        /// SectorsPerAllocationUnit: sectors in one unit.
        sectors_per_allocation_unit: u32,
        /// BytesPerSector: bytes in one sector.
        bytes_per_sector: u32,
    }

    /// [MS-FSCC] 2.5.6.
    FileFsObjectIdInformation[64] {
        /// ObjectId: identifier of the volume.
        object_id: Guid,
        /// ExtendedInfo, without a meaning in any specification.
        extended_info: Reserved<48>,
    }

    /// [MS-FSCC] 2.5.7.
    FileFsSectorSizeInformation[28] {
        /// LogicalBytesPerSector: smallest addressable block, in bytes.
        logical_bytes_per_sector: u32,
        /// PhysicalBytesPerSectorForAtomicity: bytes that the device writes atomically.
        physical_bytes_per_sector_for_atomicity: u32,
        /// PhysicalBytesPerSectorForPerformance: preferred size of accesses, in bytes.
        physical_bytes_per_sector_for_performance: u32,
        /// FileSystemEffectivePhysicalBytesPerSectorForAtomicity: unit of the file system, in
        /// bytes.
        effective_physical_bytes_per_sector_for_atomicity: u32,
        /// Flags: the constants of this type.
        flags: u32,
        /// ByteOffsetForSectorAlignment: zero for aligned sectors.
        byte_offset_for_sector_alignment: u32,
        /// ByteOffsetForPartitionAlignment: zero for an aligned partition.
        byte_offset_for_partition_alignment: u32,
    }

    /// [MS-FSCC] 2.5.8.
    FileFsSizeInformation[24] {
        /// TotalAllocationUnits: size of the volume, in units.
        total_allocation_units: u64,
        /// AvailableAllocationUnits: free space of this user, under its quota.
        available_allocation_units: u64,
        /// SectorsPerAllocationUnit: sectors in one unit.
        sectors_per_allocation_unit: u32,
        /// BytesPerSector: bytes in one sector.
        bytes_per_sector: u32,
    }
}

impl FileFsDeviceInformation {
    /// FILE_DEVICE_DISK.
    pub const DISK: u32 = 0x0000_0007;
    /// FILE_READ_ONLY_DEVICE.
    pub const READ_ONLY: u32 = 0x0000_0002;
    /// FILE_REMOTE_DEVICE.
    pub const REMOTE: u32 = 0x0000_0010;
    /// FILE_DEVICE_IS_MOUNTED.
    pub const IS_MOUNTED: u32 = 0x0000_0020;
}

impl FileFsControlInformation {
    /// FILE_VC_QUOTA_TRACK: quotas are counted, and not enforced.
    pub const QUOTA_TRACK: u32 = 0x0000_0001;
    /// FILE_VC_QUOTA_ENFORCE: quotas are counted and enforced.
    pub const QUOTA_ENFORCE: u32 = 0x0000_0002;
}

impl FileFsSectorSizeInformation {
    /// SSINFO_FLAGS_ALIGNED_DEVICE.
    pub const ALIGNED_DEVICE: u32 = 0x0000_0001;
    /// SSINFO_FLAGS_PARTITION_ALIGNED_ON_DEVICE.
    pub const PARTITION_ALIGNED_ON_DEVICE: u32 = 0x0000_0002;
    /// SSINFO_FLAGS_NO_SEEK_PENALTY.
    pub const NO_SEEK_PENALTY: u32 = 0x0000_0004;
    /// SSINFO_FLAGS_TRIM_ENABLED.
    pub const TRIM_ENABLED: u32 = 0x0000_0008;
    /// SSINFO_OFFSET_UNKNOWN, for the two offsets.
    pub const OFFSET_UNKNOWN: u32 = 0xFFFF_FFFF;
}

/// [MS-FSCC] 2.5.1.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct FileFsAttributeInformation {
    /// FileSystemAttributes.
    pub file_system_attributes: FileSystemAttributes,
    /// MaximumComponentNameLength, in units.
    pub maximum_component_name_length: u32,
    /// FileSystemName, such as `NTFS`, which some programs check.
    pub file_system_name: String,
}

bitflags::bitflags! {
    /// FileSystemAttributes: [MS-FSCC] 2.5.1.
    #[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
    pub struct FileSystemAttributes: u32 {
        /// Names may differ in case only.
        const CASE_SENSITIVE_SEARCH = 0x0000_0001;
        /// Names keep their case.
        const CASE_PRESERVED_NAMES = 0x0000_0002;
        /// Names are Unicode.
        const UNICODE_ON_DISK = 0x0000_0004;
        /// ACLs are kept and enforced.
        const PERSISTENT_ACLS = 0x0000_0008;
        /// Single files can be compressed.
        const FILE_COMPRESSION = 0x0000_0010;
        /// Quotas per user.
        const VOLUME_QUOTAS = 0x0000_0020;
        /// Sparse files.
        const SUPPORTS_SPARSE_FILES = 0x0000_0040;
        /// Reparse points.
        const SUPPORTS_REPARSE_POINTS = 0x0000_0080;
        /// Remote storage.
        const SUPPORTS_REMOTE_STORAGE = 0x0000_0100;
        /// The whole volume is compressed.
        const VOLUME_IS_COMPRESSED = 0x0000_8000;
        /// Object ids.
        const SUPPORTS_OBJECT_IDS = 0x0001_0000;
        /// Encryption of files.
        const SUPPORTS_ENCRYPTION = 0x0002_0000;
        /// Alternate data streams.
        const NAMED_STREAMS = 0x0004_0000;
        /// The volume cannot be written.
        const READ_ONLY_VOLUME = 0x0008_0000;
        /// Sequential write once.
        const SEQUENTIAL_WRITE_ONCE = 0x0010_0000;
        /// Transactions.
        const SUPPORTS_TRANSACTIONS = 0x0020_0000;
        /// Hard links.
        const SUPPORTS_HARD_LINKS = 0x0040_0000;
        /// Extended attributes.
        const SUPPORTS_EXTENDED_ATTRIBUTES = 0x0080_0000;
        /// Files can be opened by their id.
        const SUPPORTS_OPEN_BY_FILE_ID = 0x0100_0000;
        /// A journal of changes.
        const SUPPORTS_USN_JOURNAL = 0x0200_0000;
        /// Integrity streams.
        const SUPPORTS_INTEGRITY_STREAMS = 0x0400_0000;
        /// Clones of ranges (FSCTL_DUPLICATE_EXTENTS_TO_FILE).
        const SUPPORTS_BLOCK_REFCOUNTING = 0x0800_0000;
        /// Sparse files without a valid data length.
        const SUPPORTS_SPARSE_VDL = 0x1000_0000;

        // Unknown bits are kept for the caller.
        const _ = !0;
    }
}

impl FileFsAttributeInformation {
    /// Appends the packet form to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.file_system_attributes.bits().put(out);
        self.maximum_component_name_length.put(out);
        put_name(&self.file_system_name, out);
    }

    /// Reads the packet form; `None` if it is incomplete or the name is not UTF-16.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        Some(Self {
            file_system_attributes: FileSystemAttributes::from_bits_retain(reader.u32()?),
            maximum_component_name_length: reader.u32()?,
            file_system_name: take_name(&mut reader)?,
        })
    }
}

/// [MS-FSCC] 2.5.9.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct FileFsVolumeInformation {
    /// VolumeCreationTime.
    pub volume_creation_time: FileTime,
    /// VolumeSerialNumber.
    pub volume_serial_number: u32,
    /// SupportsObjects: whether files have object ids.
    pub supports_objects: bool,
    /// VolumeLabel.
    pub volume_label: String,
}

impl FileFsVolumeInformation {
    /// Appends the packet form to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.volume_creation_time.put(out);
        self.volume_serial_number.put(out);
        put_len(utf16::encoded_len(&self.volume_label), out);
        self.supports_objects.put(out);
        0_u8.put(out);
        utf16::encode(&self.volume_label, out);
    }

    /// Reads the packet form; `None` if it is incomplete or the label is not UTF-16.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let reader = &mut Reader::new(bytes);
        let (volume_creation_time, volume_serial_number) = (Field::take(reader)?, reader.u32()?);
        let len = reader.len32()?;
        let (supports_objects, _reserved) = (Field::take(reader)?, reader.u8()?);
        let volume_label = utf16::decode(reader.bytes(len)?).ok()?;
        Some(Self { volume_creation_time, volume_serial_number, supports_objects, volume_label })
    }
}

/// [MS-FSCC] 2.5.5: sets the label of the volume.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct FileFsLabelInformation {
    /// VolumeLabel.
    pub volume_label: String,
}

impl FileFsLabelInformation {
    /// Appends the packet form to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_name(&self.volume_label, out);
    }

    /// Reads the packet form; `None` if it is incomplete or the label is not UTF-16.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        Some(Self { volume_label: take_name(&mut Reader::new(bytes))? })
    }
}
