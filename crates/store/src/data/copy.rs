//! Copying between files without passing the data through the client.

use std::os::fd::{AsFd, BorrowedFd};

use dtyp::{AccessMask, NtStatus};
use object::{FileRange, LocalOpen};
use rustix::io::Errno;

use crate::Store;
use crate::data::kernel_claims::verify_unlocked_if_strict;
use crate::data::range::{CHUNK_BYTES, verify_range, verify_writable};
use crate::errno::{During, Operation};
use crate::metadata::stream;
use crate::metadata::stream_form::STREAM_BYTES_MAX;
use crate::model::opens::Open;
use crate::security::credentials::Impersonation;
use crate::sys::lengths::as_u64;
use crate::sys::system;

impl Store {
    /// Copies until the source ends; answers with the bytes copied.
    pub(crate) fn copy_range(
        &mut self,
        source: LocalOpen,
        target: LocalOpen,
        offsets: (u64, u64),
        length: u32,
    ) -> Result<u64, NtStatus> {
        let (from, to) = (self.opens.get(source)?, self.opens.get(target)?);
        verify_writable(to)?;
        for offset in [offsets.0, offsets.1] {
            verify_range(offset, offset.saturating_add(u64::from(length)))?;
        }
        if from.is_directory() && from.stream.is_none() {
            return Err(NtStatus::INVALID_DEVICE_REQUEST);
        }
        if from.stored_stream().is_some() || to.stored_stream().is_some() {
            return copy_streams(&mut self.impersonation, (from, to), offsets, length);
        }
        for (open, offset, writes) in [(from, offsets.0, false), (to, offsets.1, true)] {
            let range = FileRange { offset, length: u64::from(length) };
            verify_unlocked_if_strict(open, range, writes)?;
        }
        copy_files(from.data_fd(), to.data_fd(), offsets, u64::from(length))
    }

    /// Copies the named streams of a file, of the open's as well as all others.
    pub(crate) fn copy_all_streams(
        &mut self,
        source: LocalOpen,
        target: LocalOpen,
    ) -> Result<(), NtStatus> {
        let (from, to) = (self.opens.get(source)?, self.opens.get(target)?);
        verify_writable(to)?;
        if !from.root.settings.streams || !to.root.settings.streams {
            return Ok(());
        }
        let user = &mut self.impersonation;
        for name in from.streams(user).list()? {
            let source = from.streams(user).open(&name, AccessMask::READ_DATA)?;
            let target = match source {
                Some(_) => to.streams(user).make_file(&name)?,
                None => None,
            };
            if let (Some(source), Some(target)) = (source, target) {
                rustix::fs::ftruncate(&target, 0).during(Operation::Copy)?;
                copy_files(source.as_fd(), target.as_fd(), (0, 0), WHOLE)?;
            } else {
                let value = from.streams(user).load(&name)?;
                to.streams(user).save(&name, value)?;
            }
        }
        Ok(())
    }
}

/// More bytes than a file has.
const WHOLE: u64 = i64::MAX.unsigned_abs();

/// Bytes that the kernel copies with one call at most: a long copy must be divisible.
const COPY_BYTES_MAX: usize = 1 << 30;

fn copy_files(
    from: BorrowedFd<'_>,
    to: BorrowedFd<'_>,
    offsets: (u64, u64),
    length: u64,
) -> Result<u64, NtStatus> {
    let mut copied = 0;
    while copied < length {
        let mut source = offsets.0 + copied;
        let mut target = offsets.1 + copied;
        let left = usize::try_from(length - copied).unwrap_or(usize::MAX).min(COPY_BYTES_MAX);
        let (source, target) = (Some(&mut source), Some(&mut target));
        match rustix::fs::copy_file_range(from, source, to, target, left) {
            Ok(0) => break,
            Ok(count) => copied += u64::try_from(count).unwrap_or(u64::MAX),
            Err(Errno::INTR) => {}
            // Other file systems, ranges that overlap, files that the kernel copies by hand only.
            Err(Errno::XDEV | Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS | Errno::PERM) => {
                return copy_by_hand(from, to, offsets, copied, length);
            }
            Err(errno) => return Err(errno).during(Operation::Copy),
        }
    }
    Ok(copied)
}

fn copy_by_hand(
    from: BorrowedFd<'_>,
    to: BorrowedFd<'_>,
    offsets: (u64, u64),
    mut copied: u64,
    length: u64,
) -> Result<u64, NtStatus> {
    let mut buffer = vec![0; CHUNK_BYTES];
    while copied < length {
        let left = usize::try_from(length - copied).unwrap_or(usize::MAX).min(buffer.len());
        let source = offsets.0 + copied;
        let count =
            rustix::io::retry_on_intr(|| rustix::io::pread(from, &mut buffer[..left], source));
        let count = count.during(Operation::Copy)?;
        if count == 0 {
            break;
        }
        let data = &buffer[..count];
        system::write_all_at(to, data, offsets.1 + copied).during(Operation::Copy)?;
        copied += as_u64(count);
    }
    Ok(copied)
}

/// A stream that is no file is small, so what is copied passes through memory.
fn copy_streams(
    user: &mut Impersonation,
    (from, to): (&Open, &Open),
    offsets: (u64, u64),
    length: u32,
) -> Result<u64, NtStatus> {
    let length = u64::from(length).min(STREAM_BYTES_MAX + 1);
    let length = usize::try_from(length).unwrap_or(0);
    let data = if let Some(name) = from.stored_stream() {
        let value = from.streams(user).load(name)?;
        let start = usize::try_from(offsets.0).unwrap_or(usize::MAX).min(value.len());
        value[start..value.len().min(start.saturating_add(length))].to_vec()
    } else {
        let mut buffer = vec![0; length];
        let count = rustix::io::retry_on_intr(|| {
            rustix::io::pread(from.data_fd(), &mut buffer[..], offsets.0)
        });
        buffer.truncate(count.during(Operation::Copy)?);
        buffer
    };
    if let Some(name) = to.stored_stream() {
        stream::write(user, (to, name), offsets.1, &data)?;
    } else {
        system::write_all_at(to.data_fd(), &data, offsets.1).during(Operation::Copy)?;
    }
    Ok(as_u64(data.len()))
}
