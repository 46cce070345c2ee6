//! Metadata of a slow directory's next entries, asked for at the same time.
//!
//! Where each `statx` waits for a disk or a server, a listing would wait for one after the other.
//! So the next names of a directory that was found slow are looked up together, each by a thread
//! of its own for that one call. The entries come in their order all the same.

use std::collections::VecDeque;
use std::ffi::{CStr, CString};
use std::os::fd::BorrowedFd;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::Statx;
use rustix::io::Errno;

use crate::sys::entries::Entries;
use crate::sys::system;

/// Entries of a directory that are looked up at the same time. Each costs a thread meanwhile.
const AHEAD_MAX: usize = 16;

/// Time for which such metadata count as those of now.
const AHEAD_TIME_MAX: Duration = Duration::from_secs(1);

/// Metadata of the next entries of a listing, in their order.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    found: VecDeque<(CString, Result<Statx, Errno>)>,
    /// Time of the last look; none before the first one.
    filled_at: Option<Instant>,
}

impl Ahead {
    /// Returns the metadata of an entry, if they were looked up.
    pub(crate) fn take(&mut self, name: &CStr) -> Option<Result<Statx, Errno>> {
        if self.filled_at.is_none_or(|at| at.elapsed() >= AHEAD_TIME_MAX) {
            self.found.clear();
        }
        while let Some((found, status)) = self.found.pop_front() {
            // Names that are not listed are passed over.
            if found.as_c_str() == name {
                return Some(status);
            }
        }
        None
    }

    /// Looks up the next entries, if none is left. The threads have the credentials of this one.
    pub(crate) fn fill(&mut self, directory: BorrowedFd<'_>, entries: &Entries, max: usize) {
        if !self.found.is_empty() {
            return;
        }
        let names = entries.upcoming(max.min(AHEAD_MAX));
        let status_of = |name: &CString| system::status_at(directory, name.as_c_str());
        let status_of = &status_of;
        self.filled_at = Some(Instant::now());
        self.found = thread::scope(|scope| {
            let begin = |name| thread::Builder::new().spawn_scoped(scope, move || status_of(name));
            // Without resources for a thread, an entry is looked up when its turn comes.
            let begun: Vec<_> = names.iter().map_while(|name| begin(name).ok()).collect();
            let ended = begun.into_iter().map(|it| it.join().expect("it makes one call"));
            names.iter().cloned().zip(ended).collect()
        });
    }
}
