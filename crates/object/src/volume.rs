//! The file system that holds a share: [MS-FSCC] 2.5.

use dtyp::FileTime;

/// Properties of a file system.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Volume {
    /// Size of the file system in bytes.
    pub total_bytes: u64,
    /// Number of free bytes, for any user.
    pub free_bytes: u64,
    /// Number of bytes free for this user (quotas, reserved blocks).
    pub available_bytes: u64,
    /// Bytes in a cluster: the allocation unit shown to clients.
    pub cluster_bytes: u32,
    /// Number of bytes in a sector.
    pub sector_bytes: u32,
    /// Number that distinguishes volumes from each other.
    pub serial_number: u32,
    /// Creation time, if it is known.
    pub creation_time: FileTime,
    /// Volume label as shown to clients.
    pub label: String,
    /// Name of the file system for clients ("NTFS" by default).
    pub file_system_name: String,
    /// FILE_SYSTEM_ATTRIBUTES: [MS-FSCC] 2.5.1.
    pub attributes: u32,
    /// Highest number of units in a component of a name.
    pub component_units_max: u32,
    /// True if the storage of a part of a file can be freed:
    /// [`ObjectOp::Trim`](crate::ObjectOp::Trim).
    pub supports_trim: bool,
}
