//! The logon of each worker's client, in a page that all processes share.
//!
//! The supervisor reads it when a client connects, to find clients that may have to make room. A
//! worker writes one byte at a logon and sends no message, so that a logon wakes no other process.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use crate::shared_memory::{Shared, SharedMemory};

/// Slots of the page, one per worker: more than the highest number of clients, idle workers and
/// ending ones together.
pub const LOGON_SLOTS: usize = 32_768;

/// Slots in one word of the bits that mark changes.
const WORD_SLOTS: usize = u64::BITS as usize;

/// The highest logon of a worker's client.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
#[repr(u8)]
pub enum Logon {
    /// No session exists for it yet.
    #[default]
    Nobody = 0,
    /// A guest, or an anonymous user.
    Guest = 1,
    /// An authenticated user of an account.
    User = 2,
}

/// The page, mapped into one process.
#[derive(Debug)]
pub struct LogonPage {
    page: SharedMemory<Page>,
}

/// Contents of the file `logons` in the lock directory.
#[derive(Debug)]
#[repr(C, align(4096))]
struct Page {
    /// A bit for each slot, set by its worker and cleared by the supervisor.
    changed: [AtomicU64; LOGON_SLOTS / WORD_SLOTS],
    slots: [AtomicU8; LOGON_SLOTS],
}

// SAFETY: the page consists of atomics, which have no invalid bytes.
unsafe impl Shared for Page {}

impl LogonPage {
    /// Creates the page: for the supervisor, before it starts a worker.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn create(lock_dir: &Path) -> io::Result<Self> {
        Ok(Self { page: SharedMemory::create(&lock_dir.join(NAME))? })
    }

    /// Opens the page of the server on `lock_dir`: for a worker.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn join(lock_dir: &Path) -> io::Result<Self> {
        Ok(Self { page: SharedMemory::join(&lock_dir.join(NAME))? })
    }

    /// Writes the logon of a worker's client. Ignores a slot beyond the last.
    pub fn set(&self, slot: usize, logon: Logon) {
        let Some(place) = self.page.slots.get(slot) else { return };
        place.store(logon as u8, Ordering::Relaxed);
        // The supervisor sees the bit after the byte.
        let bit = 1 << (slot % WORD_SLOTS);
        self.page.changed[slot / WORD_SLOTS].fetch_or(bit, Ordering::Release);
    }

    /// Returns the slots written since the last call: for the supervisor.
    pub fn take_changed(&self) -> impl Iterator<Item = (usize, Logon)> {
        // Usually no bit is set, and a load is cheaper than an exchange. Words without a bit are
        // passed over at once: this is done for each client that connects.
        let words = self.page.changed.iter().enumerate();
        let changed = words.filter(|(_, word)| word.load(Ordering::Relaxed) != 0);
        changed.flat_map(move |(index, word)| {
            let bits = word.swap(0, Ordering::Acquire);
            let changed = (0..WORD_SLOTS).filter(move |bit| bits & (1 << bit) != 0);
            changed.map(move |bit| {
                let slot = index * WORD_SLOTS + bit;
                (slot, self.get(slot))
            })
        })
    }

    fn get(&self, slot: usize) -> Logon {
        match self.page.slots[slot].load(Ordering::Relaxed) {
            2 => Logon::User,
            1 => Logon::Guest,
            _ => Logon::Nobody,
        }
    }
}

/// Name of the file in the lock directory.
const NAME: &str = "logons";

#[cfg(test)]
mod tests {
    use super::{LOGON_SLOTS, Logon, LogonPage};

    #[test]
    fn the_supervisor_is_told_each_change_once() {
        let folder = tempfile::tempdir().expect("there is space");
        let supervisor = LogonPage::create(folder.path()).expect("there is space");
        let worker = LogonPage::join(folder.path()).expect("it was made");
        assert_eq!(supervisor.take_changed().count(), 0);
        worker.set(0, Logon::Guest);
        worker.set(0, Logon::User);
        worker.set(64, Logon::Nobody);
        worker.set(LOGON_SLOTS - 1, Logon::Guest);
        worker.set(LOGON_SLOTS, Logon::Guest);
        let changed: Vec<_> = supervisor.take_changed().collect();
        let last = (LOGON_SLOTS - 1, Logon::Guest);
        assert_eq!(changed, [(0, Logon::User), (64, Logon::Nobody), last]);
        assert_eq!(supervisor.take_changed().count(), 0);
    }

    #[test]
    fn a_new_server_begins_with_an_empty_page() {
        let folder = tempfile::tempdir().expect("there is space");
        let old = LogonPage::create(folder.path()).expect("there is space");
        let new = LogonPage::create(folder.path()).expect("there is space");
        old.set(3, Logon::User);
        assert_eq!(new.take_changed().count(), 0);
    }
}
