//! The file system that holds a share: [MS-FSCC] 2.5.

use dtyp::{FileTime, NtStatus};
use object::{LocalOpen, Volume};
use rustix::fs::StatVfsMountFlags;
use std::os::fd::AsFd;

use crate::Store;
use crate::errno::{During, Operation};
use crate::metadata::backups;
use crate::metadata::clusters::CLUSTER_BYTES;
use crate::sys::features::Features;

/// Bytes in a sector, as every file system here shows itself.
const SECTOR_BYTES: u32 = 512;

/// FileFsAttributeInformation.FileSystemAttributes: [MS-FSCC] 2.5.1.
const CASE_SENSITIVE_SEARCH: u32 = 0x0000_0001;
const CASE_PRESERVED_NAMES: u32 = 0x0000_0002;
const UNICODE_ON_DISK: u32 = 0x0000_0004;
const PERSISTENT_ACLS: u32 = 0x0000_0008;
const FILE_COMPRESSION: u32 = 0x0000_0010;
const VOLUME_QUOTAS: u32 = 0x0000_0020;
const SUPPORTS_SPARSE_FILES: u32 = 0x0000_0040;
const SUPPORTS_REPARSE_POINTS: u32 = 0x0000_0080;
const NAMED_STREAMS: u32 = 0x0004_0000;
const READ_ONLY_VOLUME: u32 = 0x0008_0000;
const SUPPORTS_HARD_LINKS: u32 = 0x0040_0000;
const SUPPORTS_EXTENDED_ATTRIBUTES: u32 = 0x0080_0000;
const SUPPORTS_BLOCK_REFCOUNTING: u32 = 0x0800_0000;

impl Store {
    pub(crate) fn query_volume(&self, open: LocalOpen) -> Result<Volume, NtStatus> {
        let open = self.opens.get(open)?;
        let settings = &open.root.settings;
        let found = rustix::fs::fstatvfs(open.fd()).during(Operation::Query)?;
        let block = found.f_frsize.max(1);
        // Samba too names the case-sensitive search always: the files of the host are so.
        let mut attributes =
            CASE_SENSITIVE_SEARCH | CASE_PRESERVED_NAMES | UNICODE_ON_DISK | SUPPORTS_HARD_LINKS;
        let mut set = |condition: bool, flag: u32| attributes |= if condition { flag } else { 0 };
        set(settings.nt_acl_support, PERSISTENT_ACLS);
        set(settings.store_dos_attributes, SUPPORTS_SPARSE_FILES);
        // Without it Linux makes neither symbolic links nor special files.
        set(settings.store_dos_attributes, SUPPORTS_REPARSE_POINTS);
        set(settings.streams, NAMED_STREAMS);
        set(settings.ea_support, SUPPORTS_EXTENDED_ATTRIBUTES);
        let features = Features::of(open.fd());
        set(features.shares_extents, SUPPORTS_BLOCK_REFCOUNTING);
        set(features.compresses, FILE_COMPRESSION);
        let read_only = found.f_flag.contains(StatVfsMountFlags::RDONLY) || settings.read_only;
        set(read_only, READ_ONLY_VOLUME);
        let mut volume = Volume {
            total_bytes: found.f_blocks.saturating_mul(block),
            free_bytes: found.f_bfree.saturating_mul(block),
            available_bytes: found.f_bavail.saturating_mul(block),
            cluster_bytes: cluster_bytes(block),
            sector_bytes: SECTOR_BYTES,
            serial_number: serial_number(open.root.directory.inode.device, settings),
            creation_time: FileTime::ZERO,
            label: settings.volume_label.clone(),
            file_system_name: settings.file_system_name.clone(),
            attributes,
            component_units_max: u32::try_from(found.f_namemax.min(255)).unwrap_or(255),
            supports_trim: features.trims,
        };
        if let Some(quota) = self.quota_of_requester(open.fd()) {
            volume.attributes |= VOLUME_QUOTAS;
            volume.limit_to_quota(&quota);
        }
        if let Some(max) = settings.backup_bytes_max {
            backups::limit(&mut volume, open.root.directory.fd.as_fd(), max);
        }
        Ok(volume)
    }
}

/// At least what sizes of files are rounded to, and whole sectors.
fn cluster_bytes(block: u64) -> u32 {
    let cluster = block.max(CLUSTER_BYTES).next_multiple_of(u64::from(SECTOR_BYTES));
    u32::try_from(cluster).unwrap_or(4_096)
}

/// Stays the same across restarts, differs between shares: FNV-1a over the device and the path.
fn serial_number(device: u64, settings: &crate::RootSettings) -> u32 {
    use std::os::unix::ffi::OsStrExt;
    let path = settings.path.as_os_str().as_bytes();
    let bytes = device.to_le_bytes().into_iter().chain(path.iter().copied());
    bytes.fold(0x811c_9dc5, |hash: u32, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}
