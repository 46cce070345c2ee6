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

/// Number of parts of the bytes of all records. While one part has room, so has each client: a
/// guest may have a quarter of a user's part.
const PLENTY_PARTS: u64 = 8 * CLIENT_PARTS as u64;

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
    /// Shared by the processes of a server, or by the threads of a simulation.
    figures: Arc<SharedMemory<Figures>>,
    /// Bytes that this process has added, less those that it has removed.
    own: Cell<i64>,
}

impl Default for Room {
    fn default() -> Self {
        let room = Self::of(Arc::new(SharedMemory::private().expect("there is a page of memory")));
        room.set_max(RECORDS_BYTES_MAX);
        room
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
        let room = Self::of(Arc::new(SharedMemory::create(path)?));
        room.set_max(RECORDS_BYTES_MAX.min(bytes_left(path)? / 2));
        Ok(room)
    }

    pub(super) fn join(path: &Path) -> io::Result<Self> {
        Ok(Self::of(Arc::new(SharedMemory::join(path)?)))
    }

    fn of(figures: Arc<SharedMemory<Figures>>) -> Self {
        Self { figures, own: Cell::new(0) }
    }

    /// True if every client may have another open, as is usual. A negative sum of bytes is a large
    /// number here, and says nothing.
    pub(super) fn is_plentiful(&self) -> bool {
        let bytes = self.figures.bytes.load(Ordering::Relaxed).saturating_add(OPEN_BYTES as u64);
        bytes.saturating_mul(PLENTY_PARTS) <= self.figures.bytes_max.load(Ordering::Relaxed)
    }

    /// True if the client of this process may have another open.
    pub(super) fn permits_open(&self, standing: Standing) -> bool {
        let bytes = self.bytes();
        let max = self.figures.bytes_max.load(Ordering::Relaxed);
        let own = u64::try_from(self.own.get()).unwrap_or(0);
        let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        let others = size(bytes.saturating_sub(own));
        standing.permits((size(max), CLIENT_PARTS), (others, size(own), OPEN_BYTES))
    }

    /// Adds the bytes by which a record has grown; the sum of differences is right in any order.
    /// Called after the change. A process that is killed just before leaves the count wrong by one
    /// change.
    pub(super) fn add(&self, bytes: i64) {
        self.figures.bytes.fetch_add(bytes.cast_unsigned(), Ordering::Relaxed);
        self.own.set(self.own.get().wrapping_add(bytes));
    }

    /// Bytes of all records. A process that was killed between adding a record and counting it
    /// leaves the sum too low; a negative one is taken as zero.
    pub(super) fn bytes(&self) -> u64 {
        let bytes = self.figures.bytes.load(Ordering::Relaxed);
        if i64::try_from(bytes).is_ok() { bytes } else { 0 }
    }

    /// Sets the highest size of all records in bytes.
    pub(super) fn set_max(&self, bytes_max: u64) {
        self.figures.bytes_max.store(bytes_max, Ordering::Relaxed);
    }
}

/// Returns the bytes that a record with a value of this length takes; `None` for an absent one.
pub(super) fn bytes_of(length: Option<usize>) -> i64 {
    length.map_or(0, |it| i64::try_from(it + ENTRY_BYTES).expect("records are short"))
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
