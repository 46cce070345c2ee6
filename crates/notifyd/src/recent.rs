//! Recognizes changes that both the kernel and a worker report, so that they are sent once.
//!
//! inotify does not report the author of a change, and a worker's change arrives twice: from the
//! worker, with more detail, and from the kernel, before or after that. So a report of inotify is
//! kept for a moment, and dropped if a worker reports the same change, or has just done so.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use object::{HostChange, HostChangeKind};

use super::work::bytes_of;

/// Time for which a report of the kernel is kept: longer than a worker's message takes.
const HELD: Duration = Duration::from_millis(200);

/// Time for which a worker's report is remembered: longer than the kernel's queue may be.
const REMEMBERED: Duration = Duration::from_secs(3);

/// Highest number of workers' reports to remember. Beyond it the oldest are dropped, and their
/// changes may be passed on twice.
const REMEMBERED_MAX: usize = 65_536;

/// Bytes of the kernel's reports to keep. Beyond them the oldest are passed on early.
const HELD_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Recent reports of workers and of the kernel.
#[derive(Debug, Default)]
pub(super) struct Recent {
    /// Number of workers' reports of each aspect of a path, by its hash.
    reported: HashMap<u64, u32>,
    /// Times of those reports, the oldest first.
    order: VecDeque<(Instant, u64)>,
    /// Keys of the hash, which nobody else knows: paths may be long, and clients choose them.
    hasher: RandomState,
    held: VecDeque<(Instant, HostChange)>,
    held_bytes: usize,
}

/// Changed aspect of a file. Writing to a new or removed file is part of its making or removal.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Aspect {
    Appeared,
    Content,
    Vanished,
}

impl Recent {
    /// Remembers the report of a worker.
    pub(super) fn note_report(&mut self, now: Instant, change: &HostChange) {
        for (path, aspect) in aspects(change) {
            // The kernel reports a new file, writes to it, and its attributes.
            for aspect in [aspect, Aspect::Content] {
                let hash = self.hasher.hash_one((path, aspect));
                *self.reported.entry(hash).or_default() += 1;
                self.order.push_back((now, hash));
            }
        }
        while self.order.len() > 2 * REMEMBERED_MAX {
            self.forget_oldest();
        }
    }

    /// Keeps a report of the kernel for a moment.
    pub(super) fn hold(&mut self, now: Instant, change: HostChange) {
        self.held_bytes += bytes_of(&change);
        self.held.push_back((now + HELD, change));
    }

    /// Takes the kernel's due reports, without those that match a worker's.
    pub(super) fn take(&mut self, now: Instant) -> Vec<HostChange> {
        let mut due = Vec::new();
        while self.held.front().is_some_and(|(at, _)| *at <= now)
            || self.held_bytes > HELD_BYTES_MAX
        {
            let Some((_, change)) = self.held.pop_front() else { break };
            self.held_bytes -= bytes_of(&change);
            if !self.is_reported(&change) {
                due.push(change);
            }
        }
        while self.order.front().is_some_and(|(at, _)| *at + REMEMBERED <= now) {
            self.forget_oldest();
        }
        due
    }

    /// Returns the time for the next [`Recent::take`].
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        self.held.front().map(|(at, _)| *at)
    }

    fn is_reported(&self, change: &HostChange) -> bool {
        let mut aspects = aspects(change).peekable();
        aspects.peek().is_some()
            && aspects.all(|aspect| self.reported.contains_key(&self.hasher.hash_one(aspect)))
    }

    fn forget_oldest(&mut self) {
        let Some((_, hash)) = self.order.pop_front() else { return };
        if let Some(count) = self.reported.get_mut(&hash) {
            *count -= 1;
            if *count == 0 {
                self.reported.remove(&hash);
            }
        }
    }
}

fn aspects(change: &HostChange) -> impl Iterator<Item = (&str, Aspect)> {
    let path = change.path.as_str();
    let is_stream = change.path.stream().is_some();
    let [first, second] = match &change.kind {
        // The kernel sees an attribute of the file.
        _ if is_stream => [Some((path, Aspect::Content)), None],
        HostChangeKind::Added => [Some((path, Aspect::Appeared)), None],
        HostChangeKind::Modified(_) => [Some((path, Aspect::Content)), None],
        HostChangeKind::Removed => [Some((path, Aspect::Vanished)), None],
        HostChangeKind::Renamed { to } => {
            let appeared = (to.as_str(), Aspect::Appeared);
            [Some((path, Aspect::Vanished)), Some(appeared)]
        }
        HostChangeKind::DeletePending(_) | HostChangeKind::Missed => [None, None],
    };
    first.into_iter().chain(second)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use object::{HostChange, HostChangeKind, ObjectPath};

    use super::{HELD, HELD_BYTES_MAX, REMEMBERED, Recent};

    fn path(path: &str) -> ObjectPath {
        ObjectPath::from_stored(path.to_owned(), None)
    }

    fn change(name: &str, kind: HostChangeKind) -> HostChange {
        HostChange { path: path(name), is_directory: false, kind }
    }

    #[test]
    fn a_change_from_a_worker_and_from_the_kernel_is_reported_once() {
        let start = Instant::now();
        let mut recent = Recent::default();
        let (early, late) =
            (change("early", HostChangeKind::Added), change("late", HostChangeKind::Added));
        let other = change("other", HostChangeKind::Added);
        recent.note_report(start, &early);
        for seen in [&early, &late, &other] {
            recent.hold(start, seen.clone());
        }
        recent.note_report(start + HELD / 2, &late);
        assert_eq!(recent.take(start + HELD - Duration::from_millis(1)), []);
        assert_eq!(recent.next_timeout(), Some(start + HELD));
        assert_eq!(recent.take(start + HELD), [other]);
        assert_eq!(recent.next_timeout(), None);
    }

    #[test]
    fn a_write_to_a_new_file_is_part_of_its_creation() {
        let start = Instant::now();
        let mut recent = Recent::default();
        recent.note_report(start, &change("f", HostChangeKind::Added));
        recent.hold(start, change("f", HostChangeKind::Modified(0x18)));
        recent.hold(start, change("f", HostChangeKind::Removed));
        assert_eq!(recent.take(start + HELD), [change("f", HostChangeKind::Removed)]);
    }

    #[test]
    fn both_halves_of_a_rename_count() {
        let start = Instant::now();
        let mut recent = Recent::default();
        let renamed = change("a", HostChangeKind::Renamed { to: path("b") });
        recent.note_report(start, &renamed);
        recent.hold(start, renamed.clone());
        recent.hold(start, change("a", HostChangeKind::Removed));
        recent.hold(start, change("b", HostChangeKind::Added));
        let other = change("a", HostChangeKind::Renamed { to: path("c") });
        recent.hold(start, other.clone());
        assert_eq!(recent.take(start + HELD), [other]);
    }

    #[test]
    fn reports_are_forgotten() {
        let start = Instant::now();
        let mut recent = Recent::default();
        let added = change("f", HostChangeKind::Added);
        recent.note_report(start, &added);
        recent.take(start + REMEMBERED);
        assert!(recent.reported.is_empty() && recent.order.is_empty());
        recent.hold(start + REMEMBERED, added.clone());
        assert_eq!(recent.take(start + REMEMBERED + HELD), [added]);
    }

    /// The attack: another program changes files with the longest paths, without a pause.
    #[test]
    fn reports_of_the_kernel_that_take_much_memory_are_passed_on_early() {
        let start = Instant::now();
        let mut recent = Recent::default();
        let long = "n".repeat(4_000);
        let mut passed = 0;
        for number in 0..8_192 {
            recent.hold(start, change(&format!("{number}{long}"), HostChangeKind::Added));
            passed += recent.take(start).len();
        }
        assert!(recent.held_bytes <= HELD_BYTES_MAX);
        assert_eq!(passed + recent.held.len(), 8_192, "none is lost");
        assert_eq!(recent.take(start + HELD).len() + passed, 8_192);
        assert_eq!(recent.held_bytes, 0);
    }
}
