//! A page that all processes share: the number of processes that were ended for a system call that
//! they may not make. The supervisor writes it.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use confinement::ProcessKind;

use crate::shared_memory::{Shared, SharedMemory};

/// The page, mapped into one process.
#[derive(Debug)]
pub struct ViolationPage {
    page: SharedMemory<Page>,
}

/// Content of the file `violations` in the lock directory.
#[derive(Debug)]
#[repr(C, align(4096))]
struct Page {
    /// Ended processes of each kind, at its index.
    counts: [AtomicU64; ProcessKind::ALL.len()],
}

// SAFETY: the page consists of atomics, which have no invalid bytes.
unsafe impl Shared for Page {}

impl ViolationPage {
    /// Opens the page of the server on `lock_dir`, and creates it if it does not exist: counts go
    /// on over restarts of the server.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn open(lock_dir: &Path) -> io::Result<Self> {
        Ok(Self { page: SharedMemory::open(&lock_dir.join(NAME))? })
    }

    /// Opens the page that a server has created.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn join(lock_dir: &Path) -> io::Result<Self> {
        Ok(Self { page: SharedMemory::join(&lock_dir.join(NAME))? })
    }

    /// Counts a process that was ended.
    pub fn add(&self, kind: ProcessKind) {
        self.page.counts[kind.index()].fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of ended processes of each kind.
    #[must_use]
    pub fn counts(&self) -> Vec<(ProcessKind, u64)> {
        let count = |kind: ProcessKind| self.page.counts[kind.index()].load(Ordering::Relaxed);
        ProcessKind::ALL.into_iter().map(|kind| (kind, count(kind))).collect()
    }
}

/// Name of the file in the lock directory.
const NAME: &str = "violations";

#[cfg(test)]
mod tests {
    use confinement::ProcessKind;

    use super::ViolationPage;

    #[test]
    fn ended_processes_are_counted_by_kind_and_over_restarts() {
        let folder = tempfile::tempdir().expect("there is space");
        ViolationPage::join(folder.path()).expect_err("no server has run");
        let supervisor = ViolationPage::open(folder.path()).expect("there is space");
        supervisor.add(ProcessKind::Worker);
        supervisor.add(ProcessKind::Worker);
        drop(supervisor);
        ViolationPage::open(folder.path()).expect("it is there").add(ProcessKind::Notifyd);
        let observer = ViolationPage::join(folder.path()).expect("it is there");
        let of = |kind| observer.counts().into_iter().find(|it| it.0 == kind).map(|it| it.1);
        assert_eq!(of(ProcessKind::Worker), Some(2));
        assert_eq!(of(ProcessKind::Notifyd), Some(1));
        assert_eq!(of(ProcessKind::Logond), Some(0));
    }
}
