//! Recognizes the processes that are workers of this server.
//!
//! Workers report their own changes, in more detail than the kernel; so the kernel's reports count
//! only for other processes. A worker may have ended when the kernel's report is read, so it is
//! remembered for a while.

use std::collections::HashMap;
use std::fs;
use std::time::{Duration, Instant};

/// Time after which a process is checked again.
const TRUSTED: Duration = Duration::from_secs(1);

/// Time for which an ended worker is remembered: longer than the kernel's queue may be, shorter
/// than the time until its pid is reused.
const REMEMBERED: Duration = Duration::from_secs(10);

/// Highest number of remembered processes. Beyond it all but recent workers are dropped.
const PROCESSES_MAX: usize = 4_096;

/// Processes seen recently, with the result.
#[derive(Debug)]
pub(super) struct Siblings {
    parent: u32,
    seen: HashMap<u32, Seen>,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    is_sibling: bool,
    at: Instant,
}

impl Siblings {
    /// Begins with no process known. Workers are children of `parent`.
    pub(super) fn of(parent: u32) -> Self {
        Self { parent, seen: HashMap::new() }
    }

    /// Notes that the sender of a message is a worker.
    pub(super) fn note_worker(&mut self, now: Instant, pid: u32) {
        self.make_room(now, pid);
        self.seen.insert(pid, Seen { is_sibling: true, at: now });
    }

    /// True if a process is known to be a worker. Does not look into `/proc`.
    pub(super) fn knows(&self, now: Instant, pid: u32) -> bool {
        let seen = self.seen.get(&pid);
        seen.is_some_and(|seen| seen.is_sibling && now < seen.at + TRUSTED)
    }

    /// Returns whether a process is a worker, or was one recently.
    pub(super) fn contains(&mut self, now: Instant, pid: u32) -> bool {
        let seen = self.seen.get(&pid).copied();
        if let Some(seen) = seen.filter(|seen| now < seen.at + TRUSTED) {
            return seen.is_sibling;
        }
        let Some(parent) = parent_of(pid) else {
            return seen.is_some_and(|seen| seen.is_sibling && now < seen.at + REMEMBERED);
        };
        self.make_room(now, pid);
        let is_sibling = parent == self.parent;
        self.seen.insert(pid, Seen { is_sibling, at: now });
        is_sibling
    }

    /// Forgets others than workers, and workers that ended long ago, before one more process is
    /// entered than the limit permits.
    fn make_room(&mut self, now: Instant, pid: u32) {
        if self.seen.len() >= PROCESSES_MAX && !self.seen.contains_key(&pid) {
            self.seen.retain(|_, seen| seen.is_sibling && now < seen.at + REMEMBERED);
        }
    }
}

/// Returns the parent of a living process.
fn parent_of(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // pid (name) state parent …; the name may contain anything but the last parenthesis.
    let (_, tail) = stat.rsplit_once(") ")?;
    tail.split(' ').nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::Instant;

    use super::{PROCESSES_MAX, REMEMBERED, Siblings, TRUSTED};

    #[test]
    fn children_are_known_also_for_a_while_after_their_end() {
        let now = Instant::now();
        let mut siblings = Siblings::of(std::process::id());
        let mut child = Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .spawn()
            .expect("there is a cat");
        let pid = child.id();
        assert!(!siblings.knows(now, pid));
        assert!(siblings.contains(now, pid));
        assert!(siblings.knows(now, pid));
        assert!(!siblings.knows(now + TRUSTED, pid));
        assert!(!siblings.contains(now, std::process::id()));
        drop(child.stdin.take());
        child.wait().expect("it is ours");
        assert!(siblings.contains(now + TRUSTED, pid));
        assert!(!siblings.contains(now + REMEMBERED, pid));
        siblings.note_worker(now + REMEMBERED, pid);
        assert!(siblings.contains(now + REMEMBERED, pid));
    }

    #[test]
    fn workers_that_ended_long_ago_are_forgotten_where_only_workers_report() {
        let (now, mut siblings) = (Instant::now(), Siblings::of(1));
        for pid in 0..u32::try_from(PROCESSES_MAX).expect("a few thousand") {
            siblings.note_worker(now, pid);
        }
        siblings.note_worker(now + REMEMBERED, u32::MAX);
        assert_eq!(siblings.seen.len(), 1);
    }
}
