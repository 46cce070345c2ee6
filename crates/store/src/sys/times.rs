//! Times between the kernel and SMB, which counts in 100 ns.

use dtyp::FileTime;
use rustix::fs::{Statx, StatxFlags, StatxTimestamp, Timespec, Timestamps, UTIME_OMIT};

/// Returns the birth time of a file; `None` if the file system keeps none.
pub(crate) fn birth(status: &Statx) -> Option<&StatxTimestamp> {
    let is_kept = status.stx_mask & StatxFlags::BTIME.bits() != 0 && status.stx_btime.tv_sec != 0;
    is_kept.then_some(&status.stx_btime)
}

/// Returns the time of the last WRITE or other change of the data.
pub(crate) fn last_write(status: &Statx) -> FileTime {
    file_time(&status.stx_mtime)
}

/// Returns the time of the last change of data or metadata.
pub(crate) fn change(status: &Statx) -> FileTime {
    file_time(&status.stx_ctime)
}

/// Returns the oldest of the times of access and change.
pub(crate) fn oldest(status: &Statx) -> FileTime {
    file_time(&status.stx_atime).min(last_write(status)).min(change(status))
}

/// Returns a time of the kernel in the form of clients.
pub(crate) fn file_time(time: &StatxTimestamp) -> FileTime {
    FileTime::from_unix(time.tv_sec, time.tv_nsec)
}

/// Returns a time in nanoseconds; one before 1970 counts as one of that year.
pub(crate) fn nanoseconds(time: &StatxTimestamp) -> u64 {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds.wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec.into())
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
