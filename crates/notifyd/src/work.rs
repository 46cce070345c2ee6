//! Work that workers give to this process: their changes, and the kernel's part of their watches.
//!
//! A client may cause any amount of it, and all clients share this process. So workers take turns
//! by the cost of their work, and a flood of one delays the next work of another by one turn.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use arbitration::Standing;
use dtyp::ServerId;
use object::{FileIdentity, HostChange};
use process::Turns;

/// Bytes of waiting changes of all workers. Beyond it those of one worker are forgotten, and the
/// clients that watch directories above or below them must list their directories.
const CHANGE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Divisor of the bytes that the changes of other workers have left: a worker may have one part.
const WORKER_PARTS: usize = 16;

/// Cost of a turn, in visits, after which another worker has one: a few dozen microseconds.
const TURN_VISITS: u64 = 512;

/// Cost of a message, in visits: its receipt, and entries of tables.
const MESSAGE_VISITS: u64 = 10;

/// Bytes of a message that are read and decoded in the time of a visit.
const MESSAGE_BYTES_PER_VISIT: usize = 64;

/// Time of a visit: of a look at a group of watches.
const VISIT: Duration = Duration::from_nanos(100);

/// Cost of a task, in visits.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cost {
    /// Part of the worker in turn, not charged yet.
    pub(super) own: u64,
    /// Sum of the other workers' parts, charged already.
    pub(super) others: u64,
}

/// Work of all workers that waits for its turn.
#[derive(Debug, Default)]
pub(super) struct Work {
    turns: Turns<ServerId>,
    of_workers: HashMap<ServerId, Waiting>,
    /// The worker in turn, and the cost of its turn so far.
    turn: Option<(ServerId, u64)>,
    change_bytes: usize,
}

/// Work of one worker that waits for its turn.
#[derive(Debug, Default)]
struct Waiting {
    /// Changes by its client, each with its time.
    changes: VecDeque<(Duration, HostChange)>,
    change_bytes: usize,
    /// Its watches that have not begun, by their numbers: no more than it may have watches.
    beginnings: BTreeMap<u64, Beginning>,
    /// Directories whose watches have ended, and which the kernel may still watch: no more than it
    /// does watch.
    ended: BTreeSet<Arc<str>>,
    /// The task before was the beginning or the end of a watch: the next one is a change.
    has_had_watch: bool,
}

/// A registered watch that has not begun.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Beginning {
    /// Id of the open at the worker.
    pub(super) open: u64,
    /// The directory, by the text that all tables share.
    pub(super) path: Arc<str>,
    pub(super) identity: FileIdentity,
    /// True if changes by other programs of this host count.
    pub(super) kernel: bool,
    /// True if the file system of the directory may wait long.
    pub(super) may_wait: bool,
}

/// The next thing to do.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Task {
    /// Report the change of a worker's client, which happened before this time.
    Report(ServerId, Duration, HostChange),
    /// Begin a watch: verify its directory, and ask the kernel for changes by other programs.
    Begin(ServerId, Beginning),
    /// End the kernel's watch of a directory, unless another worker needs it.
    End(ServerId, Arc<str>),
}

impl Work {
    /// Adds changes of a worker's client that happened before `at`. If they take more memory than
    /// its part, all its waiting changes become one that sends watchers to look.
    pub(super) fn add_changes(&mut self, worker: ServerId, at: Duration, changes: Vec<HostChange>) {
        let waiting = self.of_workers.entry(worker).or_default();
        let bytes = changes.iter().map(bytes_of).sum();
        let others = self.change_bytes - waiting.change_bytes;
        let counts = (others, waiting.change_bytes, bytes);
        let is_permitted = Standing::User.permits((CHANGE_BYTES_MAX, WORKER_PARTS), counts);
        waiting.changes.extend(changes.into_iter().map(|change| (at, change)));
        waiting.change_bytes += bytes;
        if !is_permitted {
            waiting.forget_changes(at);
        }
        self.change_bytes = others + waiting.change_bytes;
        self.turns.enter(worker);
    }

    /// Adds the beginning of a watch with this number.
    pub(super) fn add_beginning(&mut self, worker: ServerId, number: u64, beginning: Beginning) {
        self.of_workers.entry(worker).or_default().beginnings.insert(number, beginning);
        self.turns.enter(worker);
    }

    /// Removes the beginning of a watch that has ended.
    pub(super) fn remove_beginning(&mut self, worker: ServerId, number: u64) {
        if let Some(waiting) = self.of_workers.get_mut(&worker) {
            waiting.beginnings.remove(&number);
            self.leave_if_done(worker);
        }
    }

    /// Adds the end of the kernel's watch of a directory. False if the worker has that already.
    pub(super) fn add_end(&mut self, worker: ServerId, path: Arc<str>) -> bool {
        let is_new = self.of_workers.entry(worker).or_default().ended.insert(path);
        self.turns.enter(worker);
        is_new
    }

    /// Removes the beginnings of all watches of a worker. Its changes stay: others wait for them.
    pub(super) fn remove_beginnings(&mut self, worker: ServerId) {
        if let Some(waiting) = self.of_workers.get_mut(&worker) {
            waiting.beginnings.clear();
            self.leave_if_done(worker);
        }
    }

    /// True if no work waits.
    pub(super) fn is_idle(&self) -> bool {
        self.turns.is_idle()
    }

    /// Takes the next task. It has to be charged to the turn once it is done.
    pub(super) fn next_task(&mut self) -> Option<Task> {
        if self.turn.is_some_and(|(_, cost)| cost >= TURN_VISITS) {
            self.end_turn();
        }
        loop {
            let worker = match self.turn {
                Some((worker, _)) => worker,
                None => self.turns.next_party()?,
            };
            self.turn.get_or_insert((worker, 0));
            let waiting = self.of_workers.get_mut(&worker);
            let before = waiting.as_ref().map_or(0, |waiting| waiting.change_bytes);
            let task = waiting.and_then(|waiting| {
                let task = waiting.next_task(worker);
                self.change_bytes -= before - waiting.change_bytes;
                task
            });
            self.leave_if_done(worker);
            match task {
                Some(task) => return Some(task),
                None => self.end_turn(),
            }
        }
    }

    /// Charges the task before to the worker in turn.
    pub(super) fn charge_turn(&mut self, visits: u64) {
        if let Some((_, cost)) = &mut self.turn {
            *cost = cost.saturating_add(visits.max(1));
        }
    }

    /// Charges other workers for their parts of a task. Returns the sum of those.
    pub(super) fn charge_others(&mut self, parts: &[(ServerId, u64)]) -> u64 {
        parts.iter().for_each(|(worker, visits)| self.charge(*worker, *visits));
        parts.iter().fold(0, |sum, (_, visits)| sum.saturating_add(*visits))
    }

    /// Charges a worker for the receipt of a message with so many bytes.
    pub(super) fn charge_message(&mut self, worker: ServerId, bytes: usize) {
        let of_bytes = u64::try_from(bytes / MESSAGE_BYTES_PER_VISIT).unwrap_or(u64::MAX);
        self.charge(worker, of_bytes.saturating_add(MESSAGE_VISITS));
    }

    /// Charges a worker for work out of turn.
    pub(super) fn charge(&mut self, worker: ServerId, visits: u64) {
        match &mut self.turn {
            Some((of, cost)) if *of == worker => *cost = cost.saturating_add(visits),
            _ => self.turns.charge(worker, visits),
        }
    }

    fn end_turn(&mut self) {
        if let Some((worker, cost)) = self.turn.take() {
            self.turns.charge(worker, cost);
        }
    }

    /// Forgets a worker without work.
    fn leave_if_done(&mut self, worker: ServerId) {
        if self.of_workers.get(&worker).is_some_and(Waiting::is_empty) {
            self.of_workers.remove(&worker);
            self.turns.leave(worker);
        }
    }
}

impl Waiting {
    fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.beginnings.is_empty() && self.ended.is_empty()
    }

    /// Takes a change, and the beginning or end of a watch, by turns: neither waits for all of the
    /// other. Ends come first: a worker has no more watches of the kernel than of its own.
    fn next_task(&mut self, worker: ServerId) -> Option<Task> {
        if !self.has_had_watch || self.changes.is_empty() {
            let ended = self.ended.pop_first().map(|path| Task::End(worker, path));
            let begin = || Some(Task::Begin(worker, self.beginnings.pop_first()?.1));
            if let Some(task) = ended.or_else(begin) {
                self.has_had_watch = true;
                return Some(task);
            }
        }
        self.has_had_watch = false;
        let (at, change) = self.changes.pop_front()?;
        self.change_bytes -= bytes_of(&change);
        Some(Task::Report(worker, at, change))
    }

    /// Replaces all changes by one. A watch that began before `at` hears of it.
    fn forget_changes(&mut self, at: Duration) {
        let missed = HostChange::missed_instead_of(self.changes.iter().map(|(_, change)| change));
        self.change_bytes = bytes_of(&missed);
        self.changes = VecDeque::from([(at, missed)]);
    }
}

/// Returns the cost of something that has taken so much time.
pub(super) fn visits_in(time: Duration) -> u64 {
    u64::try_from(time.as_nanos() / VISIT.as_nanos()).unwrap_or(u64::MAX)
}

/// Bytes of memory of a waiting change.
pub(super) fn bytes_of(change: &HostChange) -> usize {
    let paths = [Some(&change.path), change.new_path()].into_iter().flatten();
    let text = paths.map(|path| path.as_str().len() + path.stream().map_or(0, str::len));
    size_of::<(Duration, HostChange)>() + text.sum::<usize>()
}
