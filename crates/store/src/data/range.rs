//! Sizes, storage and ranges of files.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use dtyp::{FileAttributes, NtStatus};
use object::{FileRange, LocalOpen, UserId};
use rustix::fs::{FallocateFlags, SeekFrom};
use rustix::io::Errno;

use crate::Store;
use crate::data::kernel_claims::verify_unlocked_if_strict;
use crate::errno::{During, Operation};
use crate::metadata::basic::stored_attributes;
use crate::metadata::clusters::CLUSTER_BYTES;
use crate::metadata::clusters::round_up;
use crate::metadata::stream;
use crate::model::opens::Open;
use crate::sys::times;
use crate::sys::{features, system};

/// Bytes moved at once where the file system cannot do it by itself.
pub(crate) const CHUNK_BYTES: usize = 256 * 1_024;

/// Largest file on ext4: its own limit with blocks of 4 KiB, rounded down to the 64 KiB in which
/// clients write out their caches. NTFS has the same one, MAXFILESIZE of [MS-FSA] 2.1.5.4.
const EXT4_FILE_BYTES_MAX: u64 = 0xFFF_FFFF_0000;

/// Ranges between two looks at the clock.
const CLOCK_INTERVAL: usize = 16;

/// Allocated ranges of a file, in its order.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FoundRanges {
    /// Offset and length of each, in bytes.
    pub ranges: Vec<(u64, u64)>,
    /// Offset from which there may be more; none if the query has ended.
    pub rest: Option<u64>,
}

/// Reserves storage without changing the size.
pub(crate) fn reserve(file: BorrowedFd<'_>, size: u64) -> Result<(), NtStatus> {
    match rustix::fs::fallocate(file, FallocateFlags::KEEP_SIZE, 0, size) {
        // Without reservations the space is taken when it is written.
        Ok(()) | Err(Errno::OPNOTSUPP) => Ok(()),
        Err(errno) => Err(errno).during(Operation::SetSize),
    }
}

/// Sets the change time to now, also where the kernel saw no change.
fn renew_change_time(open: &Open) {
    // Changing neither owner nor group renews this time alone. A file system that refuses has made
    // the change all the same.
    let _ = rustix::fs::fchown(open.fd(), None, None);
}

/// A range that is not empty, ends after it begins, and that the kernel can express.
pub(crate) fn verify_range(from: u64, to: u64) -> Result<(), NtStatus> {
    if from > to || i64::try_from(to).is_err() { Err(NtStatus::INVALID_PARAMETER) } else { Ok(()) }
}

/// Refuses a file that would end beyond the largest one: [MS-FSA] 2.1.5.4, 2.1.5.15.4. Other file
/// systems than ext4 know their limit themselves.
#[inline]
pub(crate) fn verify_end(open: &Open, end: u64) -> Result<(), NtStatus> {
    if end <= EXT4_FILE_BYTES_MAX { Ok(()) } else { verify_far_end(open, end) }
}

#[cold]
fn verify_far_end(open: &Open, end: u64) -> Result<(), NtStatus> {
    let is_valid = i64::try_from(end).is_ok() && !features::is_ext4(open.fd());
    if is_valid { Ok(()) } else { Err(NtStatus::INVALID_PARAMETER) }
}

pub(crate) fn verify_writable(open: &Open) -> Result<(), NtStatus> {
    open.root.verify_changeable()?;
    if open.is_directory() && open.stream.is_none() {
        return Err(NtStatus::INVALID_PARAMETER);
    }
    Ok(())
}

impl Store {
    /// [MS-FSA] 2.1.5.15.4.
    pub(crate) fn set_end_of_file(&mut self, open: LocalOpen, size: u64) -> Result<(), NtStatus> {
        let open = self.opens.get(open)?;
        verify_writable(open)?;
        verify_end(open, size)?;
        match open.stored_stream() {
            Some(name) => stream::resize(&mut self.impersonation, (open, name), size),
            None => rustix::fs::ftruncate(open.data_fd(), size).during(Operation::SetSize),
        }
    }

    /// [MS-FSA] 2.1.5.15.1: less than the size truncates, more reserves.
    pub(crate) fn set_allocation(&mut self, id: LocalOpen, size: u64) -> Result<(), NtStatus> {
        let open = self.opens.get(id)?;
        verify_writable(open)?;
        verify_end(open, size)?;
        if let Some(name) = open.stored_stream() {
            let user = &mut self.impersonation;
            let shorter = open.streams(user).size(name)? > size;
            return if shorter { stream::resize(user, (open, name), size) } else { Ok(()) };
        }
        let status = system::status_of(open.data_fd()).during(Operation::Query)?;
        if size < status.stx_size {
            rustix::fs::ftruncate(open.data_fd(), size).during(Operation::SetSize)?;
        } else if size > 0 {
            if round_up(size) < status.stx_blocks.saturating_mul(512) {
                // Truncating to the same size gives back what was reserved beyond it.
                rustix::fs::ftruncate(open.data_fd(), status.stx_size)
                    .during(Operation::SetSize)?;
            }
            reserve(open.data_fd(), size)?;
        }
        if size >= status.stx_size && open.stream.is_none() {
            // On Windows the change time is that of the request, and the data keep their time.
            renew_change_time(open);
            let current = system::status_of(open.data_fd()).during(Operation::Query)?;
            let kept = times::last_write(&status);
            if times::last_write(&current) != kept {
                self.keep_write_time(id, kept);
            }
        }
        Ok(())
    }

    /// FSCTL_SET_ZERO_DATA: fills a range with zeros without changing the size.
    pub(crate) fn zero_range(
        &mut self,
        open: LocalOpen,
        from: u64,
        to: u64,
    ) -> Result<(), NtStatus> {
        let open = self.opens.get(open)?;
        verify_writable(open)?;
        verify_range(from, to)?;
        if from == to {
            return Ok(());
        }
        if let Some(name) = open.stored_stream() {
            let user = &mut self.impersonation;
            let size = open.streams(user).size(name)?;
            let end = to.min(size);
            let length = usize::try_from(end.saturating_sub(from)).unwrap_or(0);
            return stream::write(user, (open, name), from, &vec![0; length]);
        }
        verify_unlocked_if_strict(open, FileRange { offset: from, length: to - from }, true)?;
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match rustix::fs::fallocate(open.data_fd(), flags, from, to - from) {
            Err(Errno::OPNOTSUPP) => write_zeros(open, from, to),
            result => result.during(Operation::SetSize),
        }
    }

    /// FSCTL_FILE_LEVEL_TRIM: [MS-FSA] 2.1.5.10.6. The range shrinks to whole pages, as on Windows.
    pub(crate) fn trim(&self, open: LocalOpen, from: u64, to: u64) -> Result<(), NtStatus> {
        let open = self.opens.get(open)?;
        verify_writable(open)?;
        verify_range(from, to)?;
        let (from, to) = (round_up(from), to - to % CLUSTER_BYTES);
        if from >= to || open.stream.is_some() {
            return Ok(());
        }
        verify_unlocked_if_strict(open, FileRange { offset: from, length: to - from }, true)?;
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match rustix::fs::fallocate(open.fd(), flags, from, to - from) {
            Err(Errno::OPNOTSUPP) => Ok(()),
            result => result.during(Operation::SetSize),
        }
    }

    /// Finds allocated ranges for a limited time: a file may have more than can be found in one
    /// turn of a worker.
    ///
    /// # Errors
    /// As for [`ObjectOp::AllocatedRanges`](object::ObjectOp::AllocatedRanges).
    pub fn find_ranges(
        &mut self,
        user: UserId,
        open: LocalOpen,
        (from, to): (u64, u64),
        ranges_max: u32,
    ) -> Result<FoundRanges, NtStatus> {
        if !self.impersonation.is_for(user) {
            self.impersonation.impersonate(user)?;
        }
        self.allocated_ranges(open, (from, to), ranges_max, self.settings.listing_time)
    }

    /// FSCTL_QUERY_ALLOCATED_RANGES: [MS-FSA] 2.1.5.10.22. All of a file that is not sparse is
    /// allocated.
    pub(crate) fn allocated_ranges(
        &mut self,
        open: LocalOpen,
        (from, to): (u64, u64),
        ranges_max: u32,
        time_max: Duration,
    ) -> Result<FoundRanges, NtStatus> {
        let whole = |ranges| Ok(FoundRanges { ranges, rest: None });
        let open = self.opens.get(open)?;
        verify_range(from, to)?;
        if open.is_directory() && open.stream.is_none() {
            return Err(NtStatus::INVALID_PARAMETER);
        }
        let size = match &open.stream {
            Some(name) => open.stream_size(&mut self.impersonation, name)?,
            None => system::status_of(open.fd()).during(Operation::Query)?.stx_size,
        };
        let end = to.min(size);
        if from >= end || ranges_max == 0 {
            return whole(Vec::new());
        }
        let stored = stored_attributes(&open.root, open.xattrs());
        let sparse = stored.attributes.unwrap_or_default().contains(FileAttributes::SPARSE_FILE);
        if !sparse || open.stream.is_some() {
            return whole(vec![(from, end - from)]);
        }
        data_ranges(open, (from, end), ranges_max, time_max)
    }

    pub(crate) fn set_sparse(&mut self, open: LocalOpen, sparse: bool) -> Result<(), NtStatus> {
        let opened = self.opens.get(open)?;
        verify_writable(opened)?;
        self.change_dos_attributes(open, |attributes, _| {
            attributes.set(FileAttributes::SPARSE_FILE, sparse);
        })
    }
}

/// Writes zeros, for file systems without holes. Bytes beyond the end of the file are zero already.
fn write_zeros(open: &Open, from: u64, to: u64) -> Result<(), NtStatus> {
    let size = system::status_of(open.data_fd()).during(Operation::Query)?.stx_size;
    let zeros = vec![0; CHUNK_BYTES];
    let (mut at, end) = (from, to.min(size));
    while at < end {
        let left = usize::try_from(end - at).unwrap_or(usize::MAX).min(zeros.len());
        let written =
            rustix::io::retry_on_intr(|| rustix::io::pwrite(open.data_fd(), &zeros[..left], at));
        at += u64::try_from(written.during(Operation::Write)?).unwrap_or(u64::MAX);
    }
    Ok(())
}

fn data_ranges(
    open: &Open,
    (from, end): (u64, u64),
    ranges_max: u32,
    time_max: Duration,
) -> Result<FoundRanges, NtStatus> {
    let began = Instant::now();
    let ranges_max = usize::try_from(ranges_max).unwrap_or(usize::MAX);
    let mut ranges = Vec::new();
    let mut at = from;
    while at < end && ranges.len() < ranges_max {
        let is_time = !ranges.is_empty() && ranges.len().is_multiple_of(CLOCK_INTERVAL);
        if is_time && began.elapsed() >= time_max {
            return Ok(FoundRanges { ranges, rest: Some(at) });
        }
        let start = match rustix::fs::seek(open.fd(), SeekFrom::Data(at)) {
            // No data from here to the end.
            Err(Errno::NXIO) => break,
            result => result.during(Operation::Query)?,
        };
        if start >= end {
            break;
        }
        let hole = rustix::fs::seek(open.fd(), SeekFrom::Hole(start)).during(Operation::Query)?;
        let stop = hole.min(end);
        // Another process may change the file between the two calls; going on is what matters.
        if stop <= start {
            break;
        }
        ranges.push((start, stop - start));
        at = stop;
    }
    Ok(FoundRanges { ranges, rest: None })
}
