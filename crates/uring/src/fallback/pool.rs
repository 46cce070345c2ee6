//! Threads for file I/O that may wait for a disk.

use std::collections::VecDeque;
use std::io;
use std::mem::MaybeUninit;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use crate::fallback::Place;
use crate::fallback::poller::Poller;
use crate::in_flight::Key;
use crate::operation::Operation;
use crate::system;

/// A few threads, started while more jobs are queued than threads are idle.
///
/// The number of operations in flight bounds the queue. A thread starts with the credentials of the
/// submitting thread at that moment; its work on open files does not depend on them.
pub(crate) struct Pool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    threads_max: usize,
}

struct Shared {
    state: Mutex<State>,
    work: Condvar,
    poller: Arc<Poller>,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<(Key, Operation)>,
    finished: Vec<Finished>,
    idle: usize,
    stopping: bool,
}

type Finished = (Key, Operation, io::Result<usize>);

impl Pool {
    pub(crate) fn new(poller: Arc<Poller>, threads_max: u32) -> Self {
        let shared = Shared { state: Mutex::default(), work: Condvar::new(), poller };
        Self {
            shared: Arc::new(shared),
            threads: Vec::new(),
            threads_max: usize::try_from(threads_max).unwrap_or(usize::MAX),
        }
    }

    /// Queues a job. Executes it and returns its result if no thread can be started: slow is better
    /// than never.
    pub(crate) fn push(
        &mut self,
        key: Key,
        operation: Operation,
    ) -> Option<(Operation, io::Result<usize>)> {
        let mut state = self.shared.lock();
        state.jobs.push_back((key, operation));
        let too_few = state.idle < state.jobs.len() && self.threads.len() < self.threads_max;
        drop(state);
        if too_few {
            self.start_thread();
        }
        if self.threads.is_empty() {
            let (_, mut operation) = self.shared.lock().jobs.pop_back().expect("nobody took it");
            let result = system::run(&mut operation);
            return Some((operation, result));
        }
        self.shared.work.notify_one();
        None
    }

    /// Returns the operation of a queued job to `place`; false if a thread has taken the job.
    pub(crate) fn withdraw(&self, key: Key, place: &mut Place) -> bool {
        let mut state = self.shared.lock();
        let Some(at) = state.jobs.iter().position(|job| job.0 == key) else {
            return false;
        };
        let (_, operation) = state.jobs.remove(at).expect("its position was just found");
        *place = Place::Queued(operation);
        true
    }

    pub(crate) fn take_finished(&self) -> Vec<Finished> {
        std::mem::take(&mut self.shared.lock().finished)
    }

    /// Starts a thread, and does without it if that fails.
    fn start_thread(&mut self) {
        let shared = Arc::clone(&self.shared);
        let name = format!("file-io-{}", self.threads.len());
        let started = thread::Builder::new().name(name).spawn(move || {
            block_signals();
            shared.run();
        });
        self.threads.extend(started);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // No code panics with the lock held in a way that leaves the state half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut state = self.lock();
        while !state.stopping {
            let Some((key, mut operation)) = state.jobs.pop_front() else {
                state.idle += 1;
                state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.idle -= 1;
                continue;
            };
            drop(state);
            let result = system::run(&mut operation);
            state = self.lock();
            state.finished.push((key, operation, result));
            // The loop takes all results when it wakes for the first one.
            if state.finished.len() == 1 {
                self.poller.wake();
            }
        }
    }
}

impl Drop for Pool {
    /// Waits for running calls: afterwards the caller may close the files, and a thread that went
    /// on writing could write to a new file with the same descriptor.
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.stopping = true;
        state.jobs.clear();
        drop(state);
        self.shared.work.notify_all();
        for thread in self.threads.drain(..) {
            // A thread that panicked has reported it already.
            let _ = thread.join();
        }
    }
}

/// Leaves signals to the worker's main thread, which reads them from a signalfd.
fn block_signals() {
    let mut signals = MaybeUninit::uninit();
    // SAFETY: sigfillset initializes the set, and pthread_sigmask only reads it.
    unsafe {
        libc::sigfillset(signals.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, signals.as_ptr(), std::ptr::null_mut());
    }
}
