//! Times between the kernel and SMB, which counts in 100 ns.

use dtyp::FileTime;
use rustix::fs::{Statx, StatxFlags, StatxTimestamp, Timespec, Timestamps, UTIME_OMIT};

/// The four times of a file as the kernel knows them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) creation: FileTime,
    pub(crate) last_access: FileTime,
    pub(crate) last_write: FileTime,
    pub(crate) change: FileTime,
}

impl Times {
    pub(crate) fn of(status: &Statx) -> Self {
        let last_access = file_time(&status.stx_atime);
        let last_write = file_time(&status.stx_mtime);
        let change = file_time(&status.stx_ctime);
        // Without a birth time the oldest of the others is the best guess, as in Samba.
        let creation = if has_birth_time(status) {
            file_time(&status.stx_btime)
        } else {
            last_access.min(last_write).min(change)
        };
        Self { creation, last_access, last_write, change }
    }
}

/// Returns the birth time of a file, in nanoseconds; 0 if the file system keeps none.
pub(crate) fn birth(status: &Statx) -> u64 {
    if !has_birth_time(status) {
        return 0;
    }
    let seconds = u64::try_from(status.stx_btime.tv_sec).unwrap_or(0);
    seconds.wrapping_mul(1_000_000_000).wrapping_add(status.stx_btime.tv_nsec.into())
}

/// Whether the file system keeps birth times.
pub(crate) fn has_birth_time(status: &Statx) -> bool {
    status.stx_mask & StatxFlags::BTIME.bits() != 0 && status.stx_btime.tv_sec != 0
}

fn file_time(time: &StatxTimestamp) -> FileTime {
    FileTime::from_unix(time.tv_sec, time.tv_nsec)
}

/// The form that `utimensat` takes; `None` leaves a time alone.
pub(crate) fn timestamps(
    last_access: Option<FileTime>,
    last_write: Option<FileTime>,
) -> Timestamps {
    Timestamps { last_access: timespec(last_access), last_modification: timespec(last_write) }
}

fn timespec(time: Option<FileTime>) -> Timespec {
    time.map_or(Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT }, |time| {
        let (seconds, nanoseconds) = time.to_unix();
        Timespec { tv_sec: seconds, tv_nsec: i64::from(nanoseconds) }
    })
}
