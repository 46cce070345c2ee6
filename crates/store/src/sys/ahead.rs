//! Metadata of a slow directory's next entries, asked for at the same time.
//!
//! Where each `statx` waits for a disk or a server, a listing would wait for one after the other.
//! So the next names of a directory that was found slow are looked up together, each by a thread
//! of its own for that one call. The entries come in their order all the same.
//!
//! A listing also takes long where its process has to wait for a processor. There the threads would
//! only add to that, so the times of the calls themselves tell whether the directory is slow.

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

/// Shortest time of a call that waits for a disk or a server. The caches answer in a tenth of that.
const WAIT_MIN: Duration = Duration::from_micros(60);

/// Metadata of the next entries of a listing, in their order.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    found: VecDeque<(CString, Result<Statx, Errno>)>,
    /// Time of the last look; none before the first one.
    filled_at: Option<Instant>,
    /// Most calls of the last look have waited.
    has_waited: bool,
}

impl Ahead {
    /// True if most calls of the last look have waited: the directory is slow indeed.
    pub(crate) fn has_waited(&self) -> bool {
        self.has_waited
    }

    /// Returns the metadata of an entry, if they were looked up.
    pub(crate) fn take(&mut self, name: &CStr) -> Option<Result<Statx, Errno>> {
        if self.found.is_empty() {
            return None;
        }
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
        let status_of = |name: &CString| {
            let began = Instant::now();
            (system::status_at(directory, name.as_c_str()), began.elapsed())
        };
        let status_of = &status_of;
        self.filled_at = Some(Instant::now());
        let (found, times): (Vec<_>, Vec<_>) = thread::scope(|scope| {
            let begin = |name| thread::Builder::new().spawn_scoped(scope, move || status_of(name));
            // Without resources for a thread, an entry is looked up when its turn comes.
            let begun: Vec<_> = names.iter().map_while(|name| begin(name).ok()).collect();
            begun.into_iter().map(|it| it.join().expect("it makes one call")).unzip()
        });
        self.has_waited = have_waited(&times);
        self.found = names.into_iter().zip(found).collect();
    }
}

/// True if most calls with these times have waited.
fn have_waited(times: &[Duration]) -> bool {
    times.iter().filter(|time| **time >= WAIT_MIN).count() > times.len() / 2
}

#[cfg(test)]
mod tests {
    use super::{WAIT_MIN, have_waited};

    #[test]
    fn a_single_call_that_had_to_wait_for_a_processor_makes_no_directory_slow() {
        let cached = WAIT_MIN / 10;
        assert!(!have_waited(&[]));
        assert!(!have_waited(&[cached, WAIT_MIN * 100, cached, cached]));
        assert!(have_waited(&[WAIT_MIN, WAIT_MIN * 2, cached, WAIT_MIN]));
    }
}
