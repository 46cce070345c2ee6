//! How much room the records of all files take together, and how much of it each client.
//!
//! The table lies in memory of the machine as a rule, which others need as well; and its opens may
//! outlive the worker that has counted them. So the number is one that all processes share.

use std::cell::Cell;
use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arbitration::Standing;

use crate::shared_memory::{Shared, SharedMemory};

/// Bytes that all records may have, where the file system has room for twice as many: some 700,000
/// opens with ordinary paths.
const RECORDS_BYTES_MAX: u64 = 256 << 20;

/// A client may have one of so many parts of what other clients have left of that.
const CLIENT_PARTS: usize = 8;

/// Bytes of one more open with an ordinary path.
const OPEN_BYTES: usize = 384;

/// Bytes that a record takes beside its value: its key, and libtdb's own.
const ENTRY_BYTES: usize = 64;

#[derive(Debug)]
#[repr(C)]
struct Figures {
    bytes: AtomicU64,
    bytes_max: AtomicU64,
}

// SAFETY: atomics, for which any bytes are a value.
unsafe impl Shared for Figures {}

/// The room, as one process sees it.
#[derive(Debug)]
pub(super) struct Room {
    figures: Memory,
    /// What this process has taken, less what it has given back.
    own: Cell<i64>,
}

#[derive(Clone, Debug)]
enum Memory {
    /// Shared by the threads of a simulation, or by nobody.
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
    /// The same room for another process, which has taken nothing of it yet.
    fn clone(&self) -> Self {
        Self::of(self.figures.clone())
    }
}

impl Room {
    /// Makes the figures anew. The records get at most half of what the file system has left.
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

    /// Whether the client of this process may have one more open.
    pub(super) fn has_room(&self, standing: Standing) -> bool {
        let bytes = self.bytes();
        let max = self.figures().bytes_max.load(Ordering::Relaxed);
        let own = u64::try_from(self.own.get()).unwrap_or(0);
        let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        let others = size(bytes.saturating_sub(own));
        standing.has_room((size(max), CLIENT_PARTS), (others, size(own), OPEN_BYTES))
    }

    /// The value of a record has another length: none if it is not there. To be said once it is
    /// kept. A process that is killed just before leaves the figure wrong by one change.
    pub(super) fn change(&self, before: Option<usize>, after: Option<usize>) {
        let bytes = |length: Option<usize>| length.map_or(0, |it| it + ENTRY_BYTES) as u64;
        let (before, after) = (bytes(before), bytes(after));
        // The sum of differences is right, in whichever order they come.
        self.figures().bytes.fetch_add(after.wrapping_sub(before), Ordering::Relaxed);
        self.own.set(self.own.get().wrapping_add_unsigned(after).wrapping_sub_unsigned(before));
    }

    /// Bytes of all records. Processes that were killed before they counted a record may have left fewer
    /// than none, once others have taken it out.
    pub(super) fn bytes(&self) -> u64 {
        let bytes = self.figures().bytes.load(Ordering::Relaxed);
        if i64::try_from(bytes).is_ok() { bytes } else { 0 }
    }

    #[cfg(test)]
    pub(super) fn set_max(&self, bytes_max: u64) {
        self.figures().bytes_max.store(bytes_max, Ordering::Relaxed);
    }
}

/// Bytes that a file system has left for the server.
fn bytes_left(path: &Path) -> io::Result<u64> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let mut status = std::mem::MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: the path is a string that lives, and there is room for what the kernel writes.
    if unsafe { libc::statvfs(path.as_ptr(), status.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it has been written, as there was no error.
    let status = unsafe { status.assume_init() };
    Ok(status.f_bavail.saturating_mul(status.f_frsize))
}

#[cfg(test)]
mod tests;
