//! The file system that holds a share: [MS-FSCC] 2.5.

use dtyp::FileTime;

/// What is known of a file system.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Volume {
    /// Bytes in all.
    pub total_bytes: u64,
    /// Bytes free.
    pub free_bytes: u64,
    /// Bytes free for this user (quotas, reserved blocks).
    pub available_bytes: u64,
    /// Bytes in a cluster: the allocation unit shown to clients.
    pub cluster_bytes: u32,
    /// Bytes in a sector.
    pub sector_bytes: u32,
    /// A number that tells volumes apart.
    pub serial_number: u32,
    /// When it was made, if known.
    pub creation_time: FileTime,
    /// Its label.
    pub label: String,
    /// Its file system's name as told to clients ("NTFS" by default).
    pub file_system_name: String,
    /// FILE_SYSTEM_ATTRIBUTES: [MS-FSCC] 2.5.1.
    pub attributes: u32,
    /// Units in a component name.
    pub component_units_max: u32,
    /// Storage of a part of a file can be given back: [`ObjectOp::Trim`](crate::ObjectOp::Trim).
    pub supports_trim: bool,
}
