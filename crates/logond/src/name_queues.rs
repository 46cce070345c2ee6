//! Questions for names that wait for a thread, in the order of purposes and of workers' turns.
//!
//! Users and guests choose names, and some may hang. So what a logon needs is first, and the
//! questions of clients never have all threads.

use dtyp::ServerId;
use process::{FairQueue, NamePurpose};

/// Threads with a question that is not late. A directory in the network takes milliseconds.
pub(crate) const NAME_THREADS_MAX: usize = 16;

/// Threads with a question, late ones included.
pub(crate) const NAME_THREADS_HANGING_MAX: usize = 256;

/// Threads with a question of a client, a guest or not, that is not late.
pub(crate) const CLIENT_THREADS_MAX: usize = 8;

/// Threads with a question of a client, a guest or not, late ones included.
pub(crate) const CLIENT_THREADS_HANGING_MAX: usize = 128;

/// Threads with a question of a guest that is not late.
pub(crate) const GUEST_THREADS_MAX: usize = 4;

/// Threads with a question of a guest, late ones included.
pub(crate) const GUEST_THREADS_HANGING_MAX: usize = 64;

/// Number of a question, with its worker.
pub(crate) type Waiting = (ServerId, u64);

/// Purposes, the first one first.
const PURPOSES: [NamePurpose; 3] = [NamePurpose::Server, NamePurpose::Client, NamePurpose::Guest];

/// Highest numbers of threads for each purpose and those behind it: with questions that are not
/// late, and with late ones.
const THREADS_MAX: [(usize, usize); 3] = [
    (NAME_THREADS_MAX, NAME_THREADS_HANGING_MAX),
    (CLIENT_THREADS_MAX, CLIENT_THREADS_HANGING_MAX),
    (GUEST_THREADS_MAX, GUEST_THREADS_HANGING_MAX),
];

/// Threads that have questions of one purpose.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Busy {
    running: usize,
    /// Threads among these whose time is over.
    late: usize,
}

/// The questions that wait, and the numbers of those that threads have.
#[derive(Debug)]
pub(crate) struct NameQueues {
    waiting: [FairQueue<Waiting>; 3],
    busy: [Busy; 3],
}

impl NameQueues {
    /// Begins without questions. Each purpose may have so many that wait.
    pub(crate) fn new(waiting_max: usize) -> Self {
        Self { waiting: PURPOSES.map(|_| FairQueue::new(waiting_max)), busy: Default::default() }
    }

    /// Adds a question. Returns the one that has to be refused for it, if there is no room.
    pub(crate) fn push(&mut self, purpose: NamePurpose, waiting: Waiting) -> Option<Waiting> {
        self.waiting[purpose as usize].push(waiting.0, waiting).unwrap_or_else(Some)
    }

    /// Takes the question in turn, if a thread may have it.
    pub(crate) fn pop(&mut self) -> Option<Waiting> {
        for purpose in PURPOSES {
            if !self.has_room(purpose) {
                return None;
            }
            if let Some(waiting) = self.waiting[purpose as usize].pop() {
                return Some(waiting);
            }
        }
        None
    }

    fn has_room(&self, purpose: NamePurpose) -> bool {
        let behind = &self.busy[purpose as usize..];
        let running: usize = behind.iter().map(|it| it.running).sum();
        let late: usize = behind.iter().map(|it| it.late).sum();
        let (max, hanging_max) = THREADS_MAX[purpose as usize];
        running - late < max && running < hanging_max
    }

    /// Notes that a thread has a question.
    pub(crate) fn begin(&mut self, purpose: NamePurpose) {
        self.busy[purpose as usize].running += 1;
    }

    /// Notes that a thread has its question for too long.
    pub(crate) fn be_late(&mut self, purpose: NamePurpose) {
        self.busy[purpose as usize].late += 1;
    }

    /// Notes that a thread has answered.
    pub(crate) fn end(&mut self, purpose: NamePurpose, was_late: bool) {
        let busy = &mut self.busy[purpose as usize];
        busy.running -= 1;
        busy.late -= usize::from(was_late);
    }

    /// True if no thread has a question.
    #[cfg(test)]
    pub(crate) fn is_idle(&self) -> bool {
        self.busy == [Busy::default(); 3]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(pid: u32) -> ServerId {
        ServerId { pid, unique_id: 0 }
    }

    #[test]
    fn questions_of_logons_are_first_and_those_of_guests_last() {
        let mut queues = NameQueues::new(10);
        for (number, purpose) in PURPOSES.into_iter().enumerate().rev() {
            let number = u64::try_from(number).expect("there are three");
            assert_eq!(queues.push(purpose, (worker(1), number)), None);
        }
        let order: Vec<_> = std::iter::from_fn(|| queues.pop()).map(|it| it.1).collect();
        assert_eq!(order, [0, 1, 2]);
    }

    #[test]
    fn threads_of_clients_and_guests_count_together() {
        let mut queues = NameQueues::new(10);
        (0..GUEST_THREADS_MAX).for_each(|_| queues.begin(NamePurpose::Guest));
        assert!(!queues.has_room(NamePurpose::Guest) && queues.has_room(NamePurpose::Client));
        (GUEST_THREADS_MAX..CLIENT_THREADS_MAX).for_each(|_| queues.begin(NamePurpose::Client));
        assert!(!queues.has_room(NamePurpose::Client) && queues.has_room(NamePurpose::Server));
        queues.be_late(NamePurpose::Guest);
        assert!(queues.has_room(NamePurpose::Client) && queues.has_room(NamePurpose::Guest));
        queues.end(NamePurpose::Guest, true);
        assert!(queues.has_room(NamePurpose::Client));
    }
}
