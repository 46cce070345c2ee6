//! Who has logged on through each worker: a page that all processes share.
//!
//! The supervisor looks at it when a client comes, to know which clients may have to make room. A worker
//! writes a byte there when that changes, and sends nothing: a logon costs no message, and the supervisor
//! is not woken.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use crate::shared_memory::{Shared, SharedMemory};

/// Workers that have a place in the page: more than serve clients at a time, idle ones and those that are
/// about to end included.
pub const LOGON_SLOTS: usize = 32_768;

/// Slots whose changes are told by one word.
const WORD_SLOTS: usize = u64::BITS as usize;

/// Who has logged on through a worker: the highest of all that have.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
#[repr(u8)]
pub enum Logon {
    /// Nobody, or not yet.
    #[default]
    Nobody = 0,
    /// A guest, or an anonymous user.
    Guest = 1,
    /// A user.
    User = 2,
}

/// The page, as one process sees it.
#[derive(Debug)]
pub struct LogonPage {
    page: SharedMemory<Page>,
}

/// What is in the file `logons` of the lock directory.
#[derive(Debug)]
#[repr(C, align(4096))]
struct Page {
    /// A bit for each slot that was written since the supervisor looked.
    changed: [AtomicU64; LOGON_SLOTS / WORD_SLOTS],
    slots: [AtomicU8; LOGON_SLOTS],
}

// SAFETY: all in it are atomics, for which any bytes are a value.
unsafe impl Shared for Page {}

impl LogonPage {
    /// Makes the page anew: for the supervisor, before it starts a worker.
    ///
    /// # Errors
    /// What the file system says.
    pub fn create(lock_dir: &Path) -> io::Result<Self> {
        Ok(Self { page: SharedMemory::create(&lock_dir.join(NAME))? })
    }

    /// Opens the page of the server on `lock_dir`: for a worker.
    ///
    /// # Errors
    /// What the file system says.
    pub fn join(lock_dir: &Path) -> io::Result<Self> {
        Ok(Self { page: SharedMemory::join(&lock_dir.join(NAME))? })
    }

    /// Says who has logged on. A slot that is none is passed over.
    pub fn set(&self, slot: usize, logon: Logon) {
        let Some(place) = self.page.slots.get(slot) else { return };
        place.store(logon as u8, Ordering::Relaxed);
        // The bit is seen after what it is about.
        let bit = 1 << (slot % WORD_SLOTS);
        self.page.changed[slot / WORD_SLOTS].fetch_or(bit, Ordering::Release);
    }

    /// Returns what has changed since the last call: for the supervisor.
    pub fn take_changed(&self) -> impl Iterator<Item = (usize, Logon)> {
        let words = self.page.changed.iter().enumerate();
        words.flat_map(move |(index, word)| {
            // Mostly nothing has changed, and to look is cheaper than to exchange.
            let seen = word.load(Ordering::Relaxed);
            let bits = if seen == 0 { 0 } else { word.swap(0, Ordering::Acquire) };
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

/// The file in the lock directory.
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
