//! Reading and writing.
//!
//! Data in the page cache are read at once; reads of other data go to the ring, so that one slow
//! disk does not delay everything else. Of several large reads all but the first go there as well:
//! one processor copies no faster than it can, and the answers before them can be sent meanwhile.
//! Writes go to the page cache.

use crate::data::range::verify_end;
use crate::sys::lengths::as_u64;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use dtyp::{FileAttributes, NtStatus};
use object::{FileRange, LocalOpen, ObjectReply, Piped};
use rustix::io::Errno;
use rustix::param::page_size;
use uring::Op;

use crate::data::kernel_claims::verify_unlocked;
use crate::data::piped::{self, PIPED_LEN_MIN, Pipes};
use crate::errno::{During, Operation, status_from_errno};
use crate::metadata::stream;
use crate::model::opens::Open;
use crate::model::stream_name::StreamName;
use crate::security::credentials::Impersonation;
use crate::settings::Piping;
use crate::sys::system::{self, Uncached};
use crate::{Continuation, Started, Store};

/// Reads of the cache before the missing rest is left to the ring: the first, and one that
/// distinguishes the end of the file from the end of the cached part.
const CACHE_READS_MAX: u32 = 4;

/// Bytes of a read from which on another thread copies them out of the page cache, if this one has
/// something else to do meanwhile: it takes several times as long as handing it over.
const HANDED_OVER_MIN: usize = 512 * 1024;

/// Bytes of such a read that are copied here, to see if the file is in the cache at all.
const PROBE_LEN: usize = 64 * 1024;

/// Bytes between two places where it is looked whether a file is in the page cache, if the kernel
/// does not report all at once. It reads ahead in pieces of this length at least.
const SAMPLE_INTERVAL: usize = 64 * 1024;

/// Options of a READ in [`object::ObjectOp`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadOptions {
    pub(crate) may_pipe: bool,
    pub(crate) verify_locks: bool,
}

/// Options of a WRITE in [`object::ObjectOp`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriteOptions {
    pub(crate) write_through: bool,
    pub(crate) verify_locks: bool,
}

/// An operation that the ring works on. It keeps the file open, even if the open is closed.
#[derive(Debug)]
pub(crate) enum Pending {
    Read { file: Arc<OwnedFd> },
    Sync { file: Arc<OwnedFd>, reply: ObjectReply },
}

impl Store {
    pub(crate) fn read(
        &mut self,
        open: LocalOpen,
        offset: u64,
        length: u32,
        mut buffer: BytesMut,
        ReadOptions { may_pipe, verify_locks }: ReadOptions,
    ) -> Result<Started, NtStatus> {
        let opened = self.opens.get(open)?;
        if let Some(name) = opened.stored_stream() {
            return read_stream(&mut self.impersonation, (opened, name), offset, length, buffer);
        }
        if opened.stream.is_none() && (opened.is_directory() || opened.path_only) {
            return Err(NtStatus::INVALID_DEVICE_REQUEST);
        }
        if verify_locks {
            verify_unlocked(opened, FileRange { offset, length: length.into() }, false)?;
        }
        let wanted = usize::try_from(length).expect("32 bits fit memory");
        if may_pipe
            && opened.stream.is_none()
            && wanted >= PIPED_LEN_MIN
            && let Some(piped) =
                read_piped(&mut self.pipes, &mut self.impersonation, opened, offset, wanted)
        {
            return Ok(Started::Done(Ok(ObjectReply::Piped(buffer, piped))));
        }
        // The contract gives the capacity; a caller that did not must not make us write beyond it.
        buffer.reserve(wanted);
        let is_long = self.more_waits && wanted >= HANDED_OVER_MIN;
        let here = if is_long { PROBE_LEN } else { wanted };
        let mut have = 0;
        for _ in 0..CACHE_READS_MAX {
            if have == here {
                break;
            }
            let (position, uncached) = (offset + as_u64(have), opened.uncached.get());
            match read_at(opened.data_fd(), &mut buffer, position, here - have, uncached) {
                Ok(0) => return Ok(Started::Done(Ok(ObjectReply::Read(buffer)))),
                Ok(count) => have += count,
                Err(errno) if may_try_again(opened, errno)? => {}
                Err(_) => break,
            }
        }
        if have == wanted {
            return Ok(Started::Done(Ok(ObjectReply::Read(buffer))));
        }
        // If the cache ended early, the ring waits for the disk without a thread.
        submit_read(opened, offset + as_u64(have), buffer, wanted - have, have == here)
    }

    pub(crate) fn write(
        &mut self,
        open: LocalOpen,
        offset: u64,
        data: Bytes,
        piped: Option<Piped>,
        WriteOptions { write_through, verify_locks }: WriteOptions,
    ) -> Result<Started, NtStatus> {
        let opened = self.opens.get(open)?;
        verify_data(opened)?;
        opened.root.verify_changeable()?;
        let sync = write_through || opened.write_through;
        let written = as_u64(data.len() + piped.as_ref().map_or(0, Piped::length));
        let started = if let Some(name) = opened.stored_stream() {
            let data = into_memory(data, piped)?;
            stream::write(&mut self.impersonation, (opened, name), offset, &data)?;
            Started::Done(Ok(ObjectReply::Written(written)))
        } else {
            if written > 0 {
                verify_end(opened, offset.saturating_add(written))?;
                if verify_locks {
                    verify_unlocked(opened, FileRange { offset, length: written }, true)?;
                }
            }
            let piped_at = offset + as_u64(data.len());
            write_all(opened, offset, &data)?;
            if let Some(mut piped) = piped {
                write_piped(opened, piped_at, &mut piped)?;
                self.pipes.give(piped);
            }
            let reply = ObjectReply::Written(written);
            if sync { submit_sync(opened, true, reply) } else { Started::Done(Ok(reply)) }
        };
        if opened.archive_on_write {
            self.mark_changed(open)?;
        }
        Ok(started)
    }

    /// Sets ARCHIVE, once per open: backups see by it that the file changed. The change itself
    /// matters more than the mark.
    pub(crate) fn mark_changed(&mut self, open: LocalOpen) -> Result<(), NtStatus> {
        let _ = self.change_dos_attributes(open, |attributes, _| {
            *attributes |= FileAttributes::ARCHIVE;
        });
        self.opens.get_mut(open)?.archive_on_write = false;
        Ok(())
    }

    pub(crate) fn flush(&mut self, open: LocalOpen) -> Result<Started, NtStatus> {
        let opened = self.opens.get(open)?;
        if opened.path_only && opened.stream_file.is_none() {
            // Streams and attributes: nothing of them is in the page cache that fsync would reach
            // through this descriptor.
            return Ok(Started::Done(Ok(ObjectReply::Done)));
        }
        Ok(submit_sync(opened, false, ObjectReply::Done))
    }
}

fn verify_data(open: &Open) -> Result<(), NtStatus> {
    let no_data = open.is_directory() && open.stream.is_none();
    if no_data || open.path_only && open.stream.is_none() {
        return Err(NtStatus::INVALID_DEVICE_REQUEST);
    }
    Ok(())
}

fn read_stream(
    user: &mut Impersonation,
    stream: (&Open, &StreamName),
    offset: u64,
    length: u32,
    buffer: BytesMut,
) -> Result<Started, NtStatus> {
    let read = stream::read(user, stream, offset, length, buffer)?;
    Ok(Started::Done(Ok(ObjectReply::Read(read))))
}

/// Reads into a pipe, if that is possible now.
fn read_piped(
    pipes: &mut Pipes,
    impersonation: &mut Impersonation,
    open: &Open,
    offset: u64,
    wanted: usize,
) -> Option<Piped> {
    let may_read =
        open.root.settings.piping != Piping::Never && pipes.may_read(open, offset, wanted);
    match may_read && is_cached(open, offset, wanted) {
        true => pipes.read(impersonation, open, offset, wanted),
        false => None,
    }
}

/// Whether a read that has failed may be repeated at once; otherwise it is left to the ring.
fn may_try_again(open: &Open, errno: Errno) -> Result<bool, NtStatus> {
    match errno {
        Errno::INTR => Ok(true),
        Errno::OPNOTSUPP
            if open.uncached.get() == Uncached::Refuse && system::is_in_memory(open.data_fd()) =>
        {
            open.uncached.set(Uncached::Wait);
            Ok(true)
        }
        // Not in the cache, or a file system that cannot tell.
        Errno::AGAIN | Errno::OPNOTSUPP => Ok(false),
        errno => Err(errno).during(Operation::Read),
    }
}

fn submit_read(
    open: &Open,
    offset: u64,
    buffer: BytesMut,
    length: usize,
    in_thread: bool,
) -> Result<Started, NtStatus> {
    open.let_ring_wait().during(Operation::Read)?;
    let op = Op::ReadAt { file: open.data_file().as_raw_fd(), offset, buffer, length, in_thread };
    Ok(Started::Submit(
        op,
        Continuation { pending: Pending::Read { file: open.data_file().clone() } },
    ))
}

/// Reads at `offset`, appending to `buffer` within its capacity.
fn read_at(
    file: BorrowedFd<'_>,
    buffer: &mut BytesMut,
    offset: u64,
    length: usize,
    uncached: Uncached,
) -> Result<usize, Errno> {
    let offset = libc::off_t::try_from(offset).map_err(|_| Errno::INVAL)?;
    let spare = buffer.spare_capacity_mut();
    let length = length.min(spare.len());
    let vector = libc::iovec { iov_base: spare.as_mut_ptr().cast(), iov_len: length };
    let flags = if uncached == Uncached::Refuse { libc::RWF_NOWAIT } else { 0 };
    // SAFETY: the vector describes `length` bytes of spare capacity that this function borrows
    // mutably; the kernel writes no more than that.
    let count = unsafe { libc::preadv2(file.as_raw_fd(), &raw const vector, 1, offset, flags) };
    let count = usize::try_from(count).map_err(|_| system::last_errno())?;
    assert!(count <= length, "the kernel fills no more than it was given");
    // SAFETY: the kernel has written the first `count` bytes of the spare capacity.
    unsafe { buffer.set_len(buffer.len() + count) };
    Ok(count)
}

/// Returns whether a part of a file can probably be read without waiting for a disk.
fn is_cached(open: &Open, offset: u64, length: usize) -> bool {
    if open.uncached.get() == Uncached::Wait {
        return true;
    }
    let has = |at: u64| has_byte(open, at);
    let last = offset + as_u64(length) - 1;
    let pages = |length: u64| {
        let page = as_u64(page_size());
        (offset % page + length).div_ceil(page)
    };
    match system::pages_cached(open.fd(), offset, as_u64(length)) {
        Ok(cached) => {
            let is_there = cached >= pages(as_u64(length))
                || system::status_of(open.fd()).is_ok_and(|status| {
                    let there = status.stx_size.saturating_sub(offset).min(as_u64(length));
                    cached >= pages(there)
                });
            // Both ends have come; between them the kernel may have begun to read, but not at the
            // end first. What is not there is not asked for: that would begin to read ahead from
            // the end.
            is_there && has(offset) && has(last)
        }
        // An older kernel; or a file of somebody else, whose use nobody is to find out.
        Err(_) => (offset..last).step_by(SAMPLE_INTERVAL).all(has) && has(last),
    }
}

/// Whether a byte is in the page cache, or behind the end of the file.
fn has_byte(open: &Open, offset: u64) -> bool {
    if open.uncached.get() == Uncached::Wait {
        return true;
    }
    let mut byte = BytesMut::with_capacity(1);
    match read_at(open.fd(), &mut byte, offset, 1, Uncached::Refuse) {
        Ok(_) => true,
        Err(Errno::OPNOTSUPP) if system::is_in_memory(open.fd()) => {
            open.uncached.set(Uncached::Wait);
            true
        }
        Err(Errno::OPNOTSUPP) => {
            open.pipe_support.is_read_impossible.set(true);
            false
        }
        Err(_) => false,
    }
}

/// All of it in memory.
fn into_memory(data: Bytes, piped: Option<Piped>) -> Result<Bytes, NtStatus> {
    let Some(mut piped) = piped else { return Ok(data) };
    let mut whole = BytesMut::from(data);
    piped::read(&mut piped, &mut whole).during(Operation::Write)?;
    Ok(whole.freeze())
}

/// Writes the data of a pipe.
fn write_piped(open: &Open, mut offset: u64, piped: &mut Piped) -> Result<(), NtStatus> {
    while piped.length() > 0 {
        match piped::write(piped, open.data_fd(), &mut offset) {
            Ok(0) => return Err(NtStatus::UNEXPECTED_IO_ERROR),
            Ok(_) | Err(Errno::INTR) => {}
            Err(Errno::INVAL) => {
                open.pipe_support.is_write_impossible.set(true);
                let mut rest = BytesMut::new();
                piped::read(piped, &mut rest).during(Operation::Write)?;
                return write_all(open, offset, &rest);
            }
            Err(errno) => return Err(errno).during(Operation::Write),
        }
    }
    Ok(())
}

fn write_all(open: &Open, offset: u64, data: &[u8]) -> Result<(), NtStatus> {
    system::write_all_at(open.data_fd(), data, offset).during(Operation::Write)
}

fn submit_sync(open: &Open, data_only: bool, reply: ObjectReply) -> Started {
    let op = Op::Sync { file: open.data_file().as_raw_fd(), data_only };
    Started::Submit(
        op,
        Continuation { pending: Pending::Sync { file: open.data_file().clone(), reply } },
    )
}

/// Turns the ring's result into the result of the operation.
pub(crate) fn finish(pending: Pending, op: Op, result: std::io::Result<usize>) -> Started {
    let errno =
        |error: std::io::Error| error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error);
    Started::Done(match (pending, op) {
        (Pending::Read { file }, Op::ReadAt { buffer, .. }) => {
            drop(file);
            match result {
                Ok(_) => Ok(ObjectReply::Read(buffer)),
                Err(error) => Err(status_from_errno(Operation::Read, errno(error))),
            }
        }
        (Pending::Sync { file, reply }, Op::Sync { .. }) => {
            drop(file);
            match result {
                Ok(_) => Ok(reply),
                // Some file systems have nothing to synchronize.
                Err(error) if errno_is_harmless(&error) => Ok(reply),
                Err(error) => Err(status_from_errno(Operation::Sync, errno(error))),
            }
        }
        // The caller gave the answer to another question.
        _ => Err(NtStatus::INTERNAL_ERROR),
    })
}

fn errno_is_harmless(error: &std::io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EROFS))
}
