//! Size of the records of all files together, and of each client's.
//!
//! The tables usually lie in the machine's memory, which other programs need as well; and their
//! opens may outlive the worker that has counted them. So all processes share one count.

use std::cell::Cell;
use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arbitration::Standing;

use crate::shared_memory::{Shared, SharedMemory};

/// Highest size of all records in bytes, if the file system has twice that: some 700,000 opens with
/// ordinary paths.
const RECORDS_BYTES_MAX: u64 = 256 << 20;

/// Number of equal parts of the bytes left by other clients; a client may have one part.
const CLIENT_PARTS: usize = 8;

/// Bytes of another open with an ordinary path.
const OPEN_BYTES: usize = 384;

/// Bytes of a record besides its value: its key, and libtdb's header.
const ENTRY_BYTES: usize = 64;

#[derive(Debug)]
#[repr(C)]
struct Figures {
    bytes: AtomicU64,
    bytes_max: AtomicU64,
}

// SAFETY: atomics, which have no invalid bytes.
unsafe impl Shared for Figures {}

/// The shared count, as one process accesses it.
#[derive(Debug)]
pub(super) struct Room {
    figures: Memory,
    /// Bytes that this process has added, less those that it has removed.
    own: Cell<i64>,
}

#[derive(Clone, Debug)]
enum Memory {
    /// Shared by the threads of a simulation, or private.
    Own(Arc<Figures>),
    /// Shared by the processes of a server.
    Mapped(Arc<SharedMemory<Figures>>),
}

impl Default for Room {
    fn default() -> Self {
        let (bytes, bytes_max) = (AtomicU64::new(0), AtomicU64::new(RECORDS_BYTES_MAX));
        Self::of(Memory::Own(Arc::new(Figures { bytes, bytes_max })))
    }
}

impl Clone for Room {
    /// The same count for another process, which has added nothing yet.
    fn clone(&self) -> Self {
        Self::of(self.figures.clone())
    }
}

impl Room {
    /// Creates the count. The records get at most half of the file system's free bytes.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let room = Self::of(Memory::Mapped(Arc::new(SharedMemory::create(path)?)));
        let bytes_max = RECORDS_BYTES_MAX.min(bytes_left(path)? / 2);
        room.figures().bytes_max.store(bytes_max, Ordering::Relaxed);
        Ok(room)
    }

    pub(super) fn join(path: &Path) -> io::Result<Self> {
        Ok(Self::of(Memory::Mapped(Arc::new(SharedMemory::join(path)?))))
    }

    fn of(figures: Memory) -> Self {
        Self { figures, own: Cell::new(0) }
    }

    fn figures(&self) -> &Figures {
        match &self.figures {
            Memory::Own(figures) => figures,
            Memory::Mapped(figures) => figures,
        }
    }

    /// True if the client of this process may have another open.
    pub(super) fn has_room(&self, standing: Standing) -> bool {
        let bytes = self.bytes();
        let max = self.figures().bytes_max.load(Ordering::Relaxed);
        // As a rule there is room for everybody.
        if bytes.saturating_add(OPEN_BYTES as u64).saturating_mul(8 * CLIENT_PARTS as u64) <= max {
            return true;
        }
        let own = u64::try_from(self.own.get()).unwrap_or(0);
        let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        let others = size(bytes.saturating_sub(own));
        standing.has_room((size(max), CLIENT_PARTS), (others, size(own), OPEN_BYTES))
    }

    /// Counts a changed length of a record's value, `None` for an absent record. Called after the
    /// change. A process that is killed just before leaves the count wrong by one change.
    pub(super) fn change(&self, before: Option<usize>, after: Option<usize>) {
        let bytes = |length: Option<usize>| length.map_or(0, |it| it + ENTRY_BYTES) as u64;
        let (before, after) = (bytes(before), bytes(after));
        // The sum of differences is right in any order.
        self.figures().bytes.fetch_add(after.wrapping_sub(before), Ordering::Relaxed);
        self.own.set(self.own.get().wrapping_add_unsigned(after).wrapping_sub_unsigned(before));
    }

    /// Bytes of all records. A process that was killed between adding a record and counting it
    /// leaves the sum too low; a negative one is taken as zero.
    pub(super) fn bytes(&self) -> u64 {
        let bytes = self.figures().bytes.load(Ordering::Relaxed);
        if i64::try_from(bytes).is_ok() { bytes } else { 0 }
    }

    /// Sets the highest size of all records in bytes.
    pub(super) fn set_max(&self, bytes_max: u64) {
        self.figures().bytes_max.store(bytes_max, Ordering::Relaxed);
    }
}

/// Free bytes of a file system.
fn bytes_left(path: &Path) -> io::Result<u64> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let mut status = std::mem::MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: the path is a string that outlives the call, and the kernel writes to a buffer of the
    // right size.
    if unsafe { libc::statvfs(path.as_ptr(), status.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded, so the kernel has filled it in.
    let status = unsafe { status.assume_init() };
    Ok(status.f_bavail.saturating_mul(status.f_frsize))
}

#[cfg(test)]
mod tests;
