//! A page that all processes share: the number of watched directories, and the identity of
//! `notifyd`.
//!
//! A change without a watcher must cost only a read of this page. A worker counts a new watch here
//! before it tells `notifyd`, so that no change after the client's interim response is withheld;
//! `notifyd` alone decrements the count, because it also knows when a worker has died. A count that
//! is too high therefore costs messages; it is too low only while a new `notifyd` starts, and then
//! all watches end with a rescan anyway.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use dtyp::ServerId;

use crate::shared_memory::{Shared, SharedMemory};

/// The page, mapped into one process.
#[derive(Debug)]
pub struct WatchPage {
    page: SharedMemory<Page>,
}

/// Content of the file `watches` in the lock directory.
#[derive(Debug)]
#[repr(C, align(4096))]
struct Page {
    /// Number of watches of all workers.
    count: AtomicU32,
    notifyd_pid: AtomicU32,
    /// Zero without a running `notifyd`.
    notifyd_unique_id: AtomicU64,
    /// True if `notifyd` needs every change, even of a client that is the only watcher.
    needs_all: AtomicU32,
}

// SAFETY: the page consists of atomics, which have no invalid bytes.
unsafe impl Shared for Page {}

impl WatchPage {
    /// Opens the page of the server on `lock_dir`, and creates it if it does not exist.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn open(lock_dir: &Path) -> io::Result<Self> {
        Ok(Self { page: SharedMemory::open(&lock_dir.join(NAME))? })
    }

    /// True if a worker with `own` of the watches must report a change.
    #[must_use]
    pub fn is_wanted(&self, own: u32) -> bool {
        let page = &*self.page;
        let count = page.count.load(Ordering::Acquire);
        count > own || (count != 0 && page.needs_all.load(Ordering::Relaxed) != 0)
    }

    /// Requests every change, also those that only the client itself watches for, or cancels that:
    /// for `notifyd`, if the kernel reports changes without their author.
    pub fn set_needs_all(&self, needs_all: bool) {
        self.page.needs_all.store(needs_all.into(), Ordering::Release);
    }

    /// Number of counted watches of all workers.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.page.count.load(Ordering::Acquire)
    }

    /// Counts a new watch: for its worker, before it tells `notifyd`.
    pub fn add(&self) {
        let add = |count: u32| count.checked_add(1);
        let _ = self.page.count.fetch_update(Ordering::AcqRel, Ordering::Acquire, add);
    }

    /// Counts watches that have ended: for `notifyd`.
    pub fn remove(&self, watches: u32) {
        let remove = |count: u32| Some(count.saturating_sub(watches));
        let _ = self.page.count.fetch_update(Ordering::AcqRel, Ordering::Acquire, remove);
    }

    /// Identity of the current `notifyd`.
    #[must_use]
    pub fn notifyd(&self) -> Option<ServerId> {
        let page = &*self.page;
        let unique_id = page.notifyd_unique_id.load(Ordering::Acquire);
        let pid = page.notifyd_pid.load(Ordering::Acquire);
        // A different id means that a new `notifyd` is about to be announced.
        let is_whole = unique_id == page.notifyd_unique_id.load(Ordering::Acquire);
        (unique_id != 0 && is_whole).then_some(ServerId { pid, unique_id })
    }

    /// Resets the page for a new `notifyd`: no watches.
    pub fn begin(&self, notifyd: ServerId) {
        let page = &*self.page;
        page.notifyd_unique_id.store(0, Ordering::SeqCst);
        page.count.store(0, Ordering::SeqCst);
        page.needs_all.store(0, Ordering::SeqCst);
        page.notifyd_pid.store(notifyd.pid, Ordering::SeqCst);
        page.notifyd_unique_id.store(notifyd.unique_id, Ordering::SeqCst);
    }
}

/// Name of the file in the lock directory.
const NAME: &str = "watches";

#[cfg(test)]
mod tests {
    use std::fs;

    use dtyp::ServerId;

    use super::WatchPage;

    #[test]
    fn all_processes_see_the_count_of_one() {
        let folder = tempfile::tempdir().expect("there is space");
        let [worker, notifyd] =
            [(); 2].map(|()| WatchPage::open(folder.path()).expect("there is space"));
        assert!(!worker.is_wanted(0));
        assert_eq!(worker.notifyd(), None);
        let id = ServerId { pid: 7, unique_id: 8 };
        notifyd.begin(id);
        assert_eq!(worker.notifyd(), Some(id));
        worker.add();
        worker.add();
        assert_eq!(notifyd.count(), 2);
        assert!(worker.is_wanted(1));
        assert!(!worker.is_wanted(2));
        notifyd.set_needs_all(true);
        assert!(worker.is_wanted(2));
        notifyd.remove(5);
        assert!(!worker.is_wanted(0));
        worker.add();
        notifyd.begin(ServerId { pid: 9, unique_id: 10 });
        assert!(!worker.is_wanted(0));
    }

    #[test]
    fn a_file_that_is_too_short_is_made_longer_and_a_link_is_not_followed() {
        let folder = tempfile::tempdir().expect("there is space");
        fs::write(folder.path().join("watches"), [1]).expect("there is space");
        assert_eq!(WatchPage::open(folder.path()).expect("it is ours").count(), 1);
        fs::rename(folder.path().join("watches"), folder.path().join("other")).expect("ours");
        std::os::unix::fs::symlink("other", folder.path().join("watches")).expect("ours");
        WatchPage::open(folder.path()).expect_err("somebody else's file");
    }
}
