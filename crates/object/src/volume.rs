//! The file system that holds a share: [MS-FSCC] 2.5.

use dtyp::FileTime;

use crate::quota::Quota;

/// Size of a share and its free space, as its owner tells them and not the file system.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct FreeSpace {
    /// Size of the share in bytes.
    pub total_bytes: u64,
    /// Number of free bytes in it.
    pub available_bytes: u64,
    /// Bytes of the unit in which they were told.
    pub block_bytes: u64,
}

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

/// Highest number of bytes of a block that becomes the allocation unit.
const BLOCK_BYTES_MAX: u64 = 1 << 20;

impl Volume {
    /// Replaces the figures of the file system. A block of whole sectors becomes the allocation
    /// unit.
    pub fn set_free_space(&mut self, space: FreeSpace) {
        let FreeSpace { total_bytes, available_bytes, block_bytes } = space;
        self.total_bytes = total_bytes;
        self.available_bytes = available_bytes.min(total_bytes);
        self.free_bytes = self.available_bytes;
        let sector = u64::from(self.sector_bytes.max(1));
        if block_bytes.is_multiple_of(sector)
            && (sector..=BLOCK_BYTES_MAX).contains(&block_bytes)
            && let Ok(cluster_bytes) = u32::try_from(block_bytes)
        {
            self.cluster_bytes = cluster_bytes;
        }
    }

    /// Makes the volume seem no larger than the storage that a user may have, and its free space
    /// what remains of that, as Samba does. The soft limit counts: above it there is no free space.
    /// The free space of all users stays.
    pub fn limit_to_quota(&mut self, quota: &Quota) {
        let Quota { used_bytes, limits, is_out_of_files } = *quota;
        let is_over = |limit: Option<u64>| limit.is_some_and(|limit| used_bytes >= limit);
        let is_full = is_out_of_files || is_over(limits.soft_bytes) || is_over(limits.hard_bytes);
        let (size, room) = match limits.soft_bytes.or(limits.hard_bytes) {
            _ if is_full => (used_bytes, 0),
            Some(limit) => (limit, limit - used_bytes),
            None => return,
        };
        self.total_bytes = self.total_bytes.min(size);
        self.available_bytes = self.available_bytes.min(room);
    }

    /// Makes the volume seem no larger than this number of bytes. If all of that is free, a unit is
    /// not: some programs divide by the difference.
    pub fn limit(&mut self, bytes_max: u64) {
        let room = bytes_max.saturating_sub(u64::from(self.cluster_bytes));
        self.total_bytes = self.total_bytes.min(bytes_max);
        for bytes in [&mut self.free_bytes, &mut self.available_bytes] {
            if *bytes > bytes_max {
                *bytes = room;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{FreeSpace, Quota, Volume};
    use crate::quota::QuotaLimits;

    const GIB: u64 = 1 << 30;

    fn volume() -> Volume {
        Volume {
            total_bytes: 8 * GIB,
            free_bytes: 6 * GIB,
            available_bytes: 5 * GIB,
            cluster_bytes: 4_096,
            sector_bytes: 512,
            ..Volume::default()
        }
    }

    fn figures(volume: &Volume) -> (u64, u64, u64, u32) {
        let Volume { total_bytes, free_bytes, available_bytes, cluster_bytes, .. } = *volume;
        (total_bytes, free_bytes, available_bytes, cluster_bytes)
    }

    #[test]
    fn told_figures_replace_those_of_the_file_system() {
        let figures = |total_bytes, available_bytes, block_bytes| {
            let mut volume = volume();
            volume.set_free_space(FreeSpace { total_bytes, available_bytes, block_bytes });
            figures(&volume)
        };
        assert_eq!(figures(GIB, 4_096, 1_024), (GIB, 4_096, 4_096, 1_024));
        assert_eq!(figures(GIB, 2 * GIB, 1_024), (GIB, GIB, GIB, 1_024), "no more free than all");
        for odd in [0, 1, 100, 1_000, 1 << 40] {
            assert_eq!(figures(GIB, 0, odd), (GIB, 0, 0, 4_096), "no unit of {odd}");
        }
    }

    #[test]
    fn a_quota_bounds_the_size_and_the_free_space_of_its_user_alone() {
        let limited = |used_bytes, soft_bytes, hard_bytes, is_out_of_files| {
            let mut volume = volume();
            let limits = QuotaLimits { soft_bytes, hard_bytes };
            volume.limit_to_quota(&Quota { used_bytes, limits, is_out_of_files });
            assert_eq!(volume.free_bytes, 6 * GIB);
            (volume.total_bytes, volume.available_bytes)
        };
        assert_eq!(limited(GIB, None, None, false), (8 * GIB, 5 * GIB));
        assert_eq!(limited(GIB, None, Some(3 * GIB), false), (3 * GIB, 2 * GIB));
        assert_eq!(limited(GIB, Some(2 * GIB), Some(3 * GIB), false), (2 * GIB, GIB));
        assert_eq!(limited(2 * GIB, Some(2 * GIB), Some(3 * GIB), false), (2 * GIB, 0));
        assert_eq!(limited(4 * GIB, None, Some(3 * GIB), false), (4 * GIB, 0));
        assert_eq!(limited(GIB, None, None, true), (GIB, 0), "no file more");
        assert_eq!(limited(GIB, None, Some(20 * GIB), false), (8 * GIB, 5 * GIB), "a full disk");
    }

    #[test]
    fn a_limit_bounds_size_and_free_space() {
        let limited = |bytes_max| {
            let mut volume = volume();
            volume.limit(bytes_max);
            figures(&volume)
        };
        assert_eq!(limited(9 * GIB), figures(&volume()));
        assert_eq!(limited(5 * GIB), (5 * GIB, 5 * GIB - 4_096, 5 * GIB, 4_096));
        assert_eq!(limited(GIB), (GIB, GIB - 4_096, GIB - 4_096, 4_096));
        assert_eq!(limited(0), (0, 0, 0, 4_096));
    }
}
