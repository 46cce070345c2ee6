//! Whether anybody watches a directory, and who `notifyd` is: a page that all processes share.
//!
//! A change that nobody watches for must cost nothing but a look at this page. Whoever begins a
//! watch counts it here before telling `notifyd`, so that no change made after the client has its
//! interim response is kept back; `notifyd` alone counts down, for it alone also knows when a
//! worker has died. A count that is too high therefore costs messages; it is never too low, but
//! while a new `notifyd` begins, and then all watches end in a look anyway.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use dtyp::ServerId;

use crate::shared_memory::{Shared, SharedMemory};

/// The page, as one process sees it.
#[derive(Debug)]
pub struct WatchPage {
    page: SharedMemory<Page>,
}

/// What is in the file `watches` of the lock directory.
#[derive(Debug)]
#[repr(C, align(4096))]
struct Page {
    /// Watches of all workers.
    count: AtomicU32,
    notifyd_pid: AtomicU32,
    /// Zero while there is no `notifyd`.
    notifyd_unique_id: AtomicU64,
    /// `notifyd` needs every change, also of a client that is the only one to watch.
    needs_all: AtomicU32,
}

// SAFETY: all in it are atomics, for which any bytes are a value.
unsafe impl Shared for Page {}

impl WatchPage {
    /// Opens the page of the server on `lock_dir`, and makes it if it is not there.
    ///
    /// # Errors
    /// What the file system says.
    pub fn open(lock_dir: &Path) -> io::Result<Self> {
        Ok(Self { page: SharedMemory::open(&lock_dir.join(NAME))? })
    }

    /// Whether a change has to be told by a worker that has `own` of the watches.
    #[must_use]
    pub fn is_wanted(&self, own: u32) -> bool {
        let page = &*self.page;
        let count = page.count.load(Ordering::Acquire);
        count > own || (count != 0 && page.needs_all.load(Ordering::Relaxed) != 0)
    }

    /// Wants every change, also those that only the client itself watches for, or not any more: for
    /// `notifyd`, where the kernel tells it what changed but not who did it.
    pub fn set_needs_all(&self, needs_all: bool) {
        self.page.needs_all.store(needs_all.into(), Ordering::Release);
    }

    /// Watches that are counted.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.page.count.load(Ordering::Acquire)
    }

    /// Counts a watch that begins: for its worker, before it tells `notifyd`.
    pub fn add(&self) {
        let add = |count: u32| count.checked_add(1);
        let _ = self.page.count.fetch_update(Ordering::AcqRel, Ordering::Acquire, add);
    }

    /// Counts watches that have ended: for `notifyd`.
    pub fn remove(&self, watches: u32) {
        let remove = |count: u32| Some(count.saturating_sub(watches));
        let _ = self.page.count.fetch_update(Ordering::AcqRel, Ordering::Acquire, remove);
    }

    /// Who `notifyd` is at the moment.
    #[must_use]
    pub fn notifyd(&self) -> Option<ServerId> {
        let page = &*self.page;
        let unique_id = page.notifyd_unique_id.load(Ordering::Acquire);
        let pid = page.notifyd_pid.load(Ordering::Acquire);
        // If it was replaced in between, the new one is about to be announced.
        let is_whole = unique_id == page.notifyd_unique_id.load(Ordering::Acquire);
        (unique_id != 0 && is_whole).then_some(ServerId { pid, unique_id })
    }

    /// Begins anew, as `notifyd`: nobody watches.
    pub fn begin(&self, notifyd: ServerId) {
        let page = &*self.page;
        page.notifyd_unique_id.store(0, Ordering::SeqCst);
        page.count.store(0, Ordering::SeqCst);
        page.needs_all.store(0, Ordering::SeqCst);
        page.notifyd_pid.store(notifyd.pid, Ordering::SeqCst);
        page.notifyd_unique_id.store(notifyd.unique_id, Ordering::SeqCst);
    }
}

/// The file in the lock directory.
const NAME: &str = "watches";

#[cfg(test)]
mod tests {
    use std::fs;

    use dtyp::ServerId;

    use super::WatchPage;

    #[test]
    fn what_one_process_counts_all_see() {
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
