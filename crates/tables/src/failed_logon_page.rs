//! Failed logons of all workers, as numbers that the engine interprets.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::shared_memory::{Shared, SharedMemory};
use crate::unique_ids::random_unique_id;

/// The shared numbers, mapped into one process.
#[derive(Debug)]
pub struct FailedLogonPage {
    page: SharedMemory<Page>,
}

/// Slots for addresses, users, familiar users, lines about logons, logons without a line and other
/// lines, and records of the audit: 4,096 of each in 224 KiB. Unused ones take no memory.
const SLOTS: usize = 7 * 4_096;

/// Kinds of outcomes of a logon: the engine's, by their numbers, and room for more.
const OUTCOMES: usize = 16;

/// Content of the file `failed_logons` in the lock directory.
#[derive(Debug)]
#[repr(C, align(4096))]
struct Page {
    /// Number of logons of each kind.
    outcomes: [AtomicU64; OUTCOMES],
    /// A random number, which no client knows.
    key: AtomicU64,
    slots: [AtomicU64; SLOTS],
}

// SAFETY: the page consists of atomics, which have no invalid bytes.
unsafe impl Shared for Page {}

impl FailedLogonPage {
    /// Creates an empty page, for a starting supervisor.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn create(lock_dir: &Path) -> io::Result<Self> {
        Self { page: SharedMemory::create(&lock_dir.join("failed_logons"))? }.with_key()
    }

    /// Opens the page of the server on `lock_dir`, and creates it if it does not exist.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn open(lock_dir: &Path) -> io::Result<Self> {
        Self { page: SharedMemory::open(&lock_dir.join("failed_logons"))? }.with_key()
    }

    /// Opens an existing page, without a change to it.
    ///
    /// # Errors
    /// `NotFound` if no worker has created it; `InvalidData` if it is from another version; else
    /// those of the file system.
    pub fn join(lock_dir: &Path) -> io::Result<Self> {
        Ok(Self { page: SharedMemory::join(&lock_dir.join("failed_logons"))? })
    }

    /// Counts a logon. Kinds beyond the page are not counted.
    pub fn count(&self, outcome: u64) {
        let outcome = usize::try_from(outcome).ok().and_then(|it| self.page.outcomes.get(it));
        if let Some(count) = outcome {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Number of logons of each kind since the lock directory was created, with those of ended
    /// workers.
    #[must_use]
    pub fn outcomes(&self) -> Vec<u64> {
        self.page.outcomes.iter().map(|count| count.load(Ordering::Relaxed)).collect()
    }

    /// Chooses the key of a new page.
    fn with_key(self) -> io::Result<Self> {
        let random = random_unique_id()?;
        // Failing means that the page has one.
        let _ = self.page.key.compare_exchange(0, random, Ordering::Relaxed, Ordering::Relaxed);
        Ok(self)
    }

    /// Returns a random number, the same in all processes, for as long as the page exists.
    #[must_use]
    pub fn key(&self) -> u64 {
        self.page.key.load(Ordering::Relaxed)
    }

    /// All numbers of the page; initially zero.
    #[must_use]
    pub fn slots(&self) -> &[AtomicU64] {
        &self.page.slots
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::FailedLogonPage;

    #[test]
    fn all_processes_see_a_failed_logon_of_one() {
        let folder = tempfile::tempdir().expect("there is space");
        let [one, other] =
            [(); 2].map(|()| FailedLogonPage::open(folder.path()).expect("there is space"));
        assert!(one.slots().iter().all(|slot| slot.load(Ordering::Relaxed) == 0));
        one.slots()[16_383].store(7, Ordering::Relaxed);
        assert_eq!(other.slots()[16_383].load(Ordering::Relaxed), 7);
        let anew = FailedLogonPage::create(folder.path()).expect("there is space");
        assert_eq!(anew.slots()[16_383].load(Ordering::Relaxed), 0, "what was known is forgotten");
        assert_ne!(anew.key(), one.key(), "nobody can guess it");
        let one = FailedLogonPage::open(folder.path()).expect("there is space");
        assert_eq!(one.key(), anew.key());
        one.count(3);
        one.count(1_000);
        let joined = FailedLogonPage::join(folder.path()).expect("it is there");
        assert_eq!(joined.outcomes()[..5], [0, 0, 0, 1, 0]);
    }
}
