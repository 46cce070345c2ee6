//! Copying between files without passing the data through the client.

use dtyp::NtStatus;
use object::{FileRange, LocalOpen};
use rustix::io::Errno;

use crate::Store;
use crate::data::kernel_claims::verify_unlocked_if_strict;
use crate::data::range::{CHUNK_BYTES, verify_range, verify_writable};
use crate::errno::{During, Operation};
use crate::metadata::stream::{self, STREAM_BYTES_MAX};
use crate::model::opens::Open;

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
        if from.stream.is_some() || to.stream.is_some() {
            return copy_streams(from, to, offsets, length);
        }
        for (open, offset, writes) in [(from, offsets.0, false), (to, offsets.1, true)] {
            let range = FileRange { offset, length: u64::from(length) };
            verify_unlocked_if_strict(open, range, writes)?;
        }
        copy_files(from, to, offsets, u64::from(length))
    }

    /// Copies the named streams of a file, of the open's as well as all others.
    pub(crate) fn copy_all_streams(
        &self,
        source: LocalOpen,
        target: LocalOpen,
    ) -> Result<(), NtStatus> {
        let (from, to) = (self.opens.get(source)?, self.opens.get(target)?);
        verify_writable(to)?;
        if !from.root.settings.streams || !to.root.settings.streams {
            return Ok(());
        }
        for name in from.streams().list()? {
            to.streams().save(&name, from.streams().load(&name)?)?;
        }
        Ok(())
    }
}

fn copy_files(from: &Open, to: &Open, offsets: (u64, u64), length: u64) -> Result<u64, NtStatus> {
    let mut copied = 0;
    while copied < length {
        let mut source = offsets.0 + copied;
        let mut target = offsets.1 + copied;
        let left = usize::try_from(length - copied).unwrap_or(usize::MAX);
        let (source, target) = (Some(&mut source), Some(&mut target));
        match rustix::fs::copy_file_range(from.fd(), source, to.fd(), target, left) {
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
    from: &Open,
    to: &Open,
    offsets: (u64, u64),
    mut copied: u64,
    length: u64,
) -> Result<u64, NtStatus> {
    let mut buffer = vec![0; CHUNK_BYTES];
    while copied < length {
        let left = usize::try_from(length - copied).unwrap_or(usize::MAX).min(buffer.len());
        let source = offsets.0 + copied;
        let count =
            rustix::io::retry_on_intr(|| rustix::io::pread(from.fd(), &mut buffer[..left], source));
        let count = count.during(Operation::Copy)?;
        if count == 0 {
            break;
        }
        let mut written = 0;
        while written < count {
            let target = offsets.1 + copied;
            let data = &buffer[written..count];
            let moved = rustix::io::retry_on_intr(|| rustix::io::pwrite(to.fd(), data, target));
            let moved = moved.during(Operation::Copy)?;
            if moved == 0 {
                return Err(NtStatus::UNEXPECTED_IO_ERROR);
            }
            written += moved;
            copied += u64::try_from(moved).unwrap_or(u64::MAX);
        }
    }
    Ok(copied)
}

/// A stream is small, so what is copied passes through memory.
fn copy_streams(from: &Open, to: &Open, offsets: (u64, u64), length: u32) -> Result<u64, NtStatus> {
    let length = u64::from(length).min(STREAM_BYTES_MAX + 1);
    let length = usize::try_from(length).unwrap_or(0);
    let data = if let Some(name) = &from.stream {
        let value = from.streams().load(name)?;
        let start = usize::try_from(offsets.0).unwrap_or(usize::MAX).min(value.len());
        value[start..value.len().min(start.saturating_add(length))].to_vec()
    } else {
        let mut buffer = vec![0; length];
        let count =
            rustix::io::retry_on_intr(|| rustix::io::pread(from.fd(), &mut buffer[..], offsets.0));
        buffer.truncate(count.during(Operation::Copy)?);
        buffer
    };
    if let Some(name) = &to.stream {
        stream::write(to, name, offsets.1, &data)?;
    } else {
        let mut written = 0;
        while written < data.len() {
            let target = offsets.1 + u64::try_from(written).unwrap_or(u64::MAX);
            let moved =
                rustix::io::retry_on_intr(|| rustix::io::pwrite(to.fd(), &data[written..], target));
            written += moved.during(Operation::Copy)?;
        }
    }
    Ok(u64::try_from(data.len()).unwrap_or(u64::MAX))
}
