//! Threads that run modules of the system's name service, as many as there is work for.
//!
//! A module may hang with a directory in the network. So threads are no fixed number: the caller
//! gives a question only to as many as it wants to have busy, and this starts those that are
//! missing.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use process::{Mailbox, NameAnswer, NameQuestion};

/// Answers one question, without a time limit.
pub(crate) type LookUp = fn(&NameQuestion) -> anyhow::Result<NameAnswer>;

/// An answer, or why there is none, with the number of its question.
pub(crate) type Found = (u64, Result<NameAnswer, String>);

/// The threads. Questions that they have are counted, and end with [`Self::finish`].
pub(crate) struct NameThreads {
    shared: Arc<Shared>,
    /// Highest number of threads that wait for a question.
    idle_max: usize,
    started: usize,
    running: usize,
}

struct Shared {
    look_up: LookUp,
    /// Questions for threads; `None` ends one.
    given: Mutex<VecDeque<Option<(u64, NameQuestion)>>>,
    has_given: Condvar,
    found: Mailbox<Found>,
}

impl fmt::Debug for NameThreads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { started, running, .. } = self;
        f.debug_struct("NameThreads")
            .field("started", started)
            .field("running", running)
            .finish_non_exhaustive()
    }
}

impl NameThreads {
    /// Begins without threads.
    ///
    /// # Errors
    /// There is no descriptor left.
    pub(crate) fn new(look_up: LookUp, idle_max: usize) -> io::Result<Self> {
        let shared = Shared {
            look_up,
            given: Mutex::default(),
            has_given: Condvar::new(),
            found: Mailbox::new()?,
        };
        Ok(Self { shared: Arc::new(shared), idle_max, started: 0, running: 0 })
    }

    /// Answers that the caller has not taken.
    pub(crate) fn found(&self) -> &Mailbox<Found> {
        &self.shared.found
    }

    /// Number of questions that threads have.
    #[cfg(test)]
    pub(crate) fn running(&self) -> usize {
        self.running
    }

    /// Gives a question to a thread.
    ///
    /// # Errors
    /// No further thread can be started.
    pub(crate) fn give(&mut self, number: u64, question: NameQuestion) -> io::Result<()> {
        if self.running == self.started {
            let shared = Arc::clone(&self.shared);
            let name = "name service".to_owned();
            thread::Builder::new().name(name).spawn(move || shared.answer())?;
            self.started += 1;
        }
        self.running += 1;
        self.shared.put(Some((number, question)));
        Ok(())
    }

    /// Notes that a thread has answered. Those that have replaced hanging ones end.
    pub(crate) fn finish(&mut self) {
        self.running -= 1;
        if self.started - self.running > self.idle_max {
            self.started -= 1;
            self.shared.put(None);
        }
    }
}

impl Shared {
    fn put(&self, question: Option<(u64, NameQuestion)>) {
        self.lock().push_back(question);
        self.has_given.notify_one();
    }

    /// Answers questions until it is told to end.
    fn answer(&self) {
        while let Some((number, question)) = self.take() {
            let answer = (self.look_up)(&question).map_err(|error| format!("{error:#}"));
            self.found.put((number, answer));
        }
    }

    fn take(&self) -> Option<(u64, NameQuestion)> {
        let mut given = self.lock();
        loop {
            if let Some(question) = given.pop_front() {
                return question;
            }
            given = self.has_given.wait(given).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Option<(u64, NameQuestion)>>> {
        // Nothing panics with the lock held.
        self.given.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use process::{NameAnswer, NameQuestion};

    use super::{Found, NameThreads};

    fn take(threads: &mut NameThreads) -> Found {
        loop {
            if let Some(found) = threads.found().take_first() {
                threads.finish();
                return found;
            }
            thread::yield_now();
        }
    }

    #[test]
    fn an_answer_has_the_number_of_its_question_and_a_failure_is_none() {
        let look_up = |question: &NameQuestion| match question {
            NameQuestion::UserName(uid) => Ok(NameAnswer::Named(Some((uid.to_string(), *uid)))),
            _ => anyhow::bail!("the directory is away"),
        };
        let mut threads = NameThreads::new(look_up, 1).expect("descriptors are left");
        threads.give(7, NameQuestion::UserName(1_000)).expect("there are threads");
        let want = NameAnswer::Named(Some(("1000".to_owned(), 1_000)));
        assert_eq!(take(&mut threads), (7, Ok(want)));
        threads.give(8, NameQuestion::GroupName(0)).expect("there are threads");
        assert_eq!(take(&mut threads), (8, Err("the directory is away".to_owned())));
        assert_eq!((threads.started, threads.running), (1, 0), "one was enough");
    }

    #[test]
    fn threads_that_have_replaced_others_end() {
        let look_up = |_: &NameQuestion| Ok(NameAnswer::Membership(true));
        let mut threads = NameThreads::new(look_up, 2).expect("descriptors are left");
        for number in 0..10 {
            threads.give(number, NameQuestion::UserName(0)).expect("there are threads");
        }
        assert_eq!((threads.started, threads.running), (10, 10));
        for _ in 0..10 {
            assert_eq!(take(&mut threads).1, Ok(NameAnswer::Membership(true)));
        }
        assert_eq!((threads.started, threads.running), (2, 0));
        threads.give(11, NameQuestion::UserName(0)).expect("there are threads");
        assert_eq!(take(&mut threads).0, 11);
    }
}
