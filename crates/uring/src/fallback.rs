//! The fallback: epoll for descriptors with readiness, threads for files.
//!
//! Slower than the ring for data that is not cached, but cached reads and ready sockets cost one
//! plain system call each, without a thread in between.

mod interest;
mod poller;
mod pool;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use libc::iovec;

use crate::driver::{Deadline, Limits};
use crate::in_flight::{InFlight, Key};
use crate::op::{Completion, Op, Token};
use crate::operation::{Operation, Step, cancelled};
use crate::system;
use interest::Interests;
use poller::{Event, Poller};
use pool::Pool;

/// Operations in flight without a ring.
///
/// Invariant: an entry at [`Place::Queued`] is in `queue` once, one at [`Place::Waiting`] is in
/// `interests` once; one at [`Place::Pool`] is with the pool.
pub(crate) struct Fallback {
    // Dropped first: the pool finishes the jobs that its threads are executing.
    pool: Pool,
    in_flight: InFlight<Entry>,
    interests: Interests,
    poller: Arc<Poller>,
    queue: VecDeque<Key>,
    /// Completions outside of a wait: of cancelled operations.
    ready: Vec<Completion>,
    vectors: Vec<iovec>,
}

struct Entry {
    token: Token,
    place: Place,
}

enum Place {
    /// The operation is a job of the pool, which owns it.
    Pool,
    Queued(Operation),
    Waiting(Operation),
}

impl Fallback {
    pub(crate) fn new(limits: Limits) -> io::Result<Self> {
        let poller = Arc::new(Poller::new()?);
        Ok(Self {
            pool: Pool::new(Arc::clone(&poller), limits.threads_max),
            in_flight: InFlight::new(limits.operations_in_flight_max),
            interests: Interests::default(),
            poller,
            queue: VecDeque::new(),
            ready: Vec::new(),
            vectors: Vec::new(),
        })
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.len() + self.ready.len()
    }

    pub(crate) fn submit(&mut self, token: Token, op: Op) -> Result<(), Op> {
        // A completion that was not collected yet counts as well.
        if self.in_flight() >= self.in_flight.values_max() {
            return Err(op);
        }
        let place = Place::Queued(Operation::new(token, op));
        let key =
            self.in_flight.insert(Entry { token, place }).map_err(|entry| match entry.place {
                Place::Queued(operation) => operation.into_op(),
                Place::Pool | Place::Waiting(_) => unreachable!("it was just made"),
            })?;
        self.queue.push_back(key);
        Ok(())
    }

    pub(crate) fn cancel(&mut self, token: Token) {
        for key in self.in_flight.find(|entry| entry.token == token) {
            let entry = self.in_flight.get_mut(key).expect("it was just found");
            // A job that no thread has taken is returned; a running one cannot be stopped.
            if matches!(entry.place, Place::Pool) && !self.pool.withdraw(key, &mut entry.place) {
                continue;
            }
            let entry = self.in_flight.remove(key).expect("it was just found");
            let operation = match entry.place {
                // Its key in `queue` is stale now and skipped.
                Place::Queued(operation) => operation,
                Place::Waiting(operation) => {
                    let readiness = operation.readiness().expect("it waits for some");
                    self.interests.remove(readiness, key, &self.poller);
                    operation
                }
                Place::Pool => unreachable!("withdrawn above"),
            };
            self.ready.push(operation.complete(Err(cancelled())));
        }
    }

    pub(crate) fn wait(
        &mut self,
        deadline: Deadline,
        completions: &mut Vec<Completion>,
    ) -> io::Result<()> {
        let before = completions.len();
        completions.append(&mut self.ready);
        loop {
            self.start_queued(completions);
            // Polled even with completions to report, or a busy socket could starve the others.
            let timeout = if completions.len() == before {
                deadline.remaining()
            } else {
                Some(std::time::Duration::ZERO)
            };
            let mut polled = Ok(());
            match self.poller.wait(timeout) {
                Ok(events) => {
                    for event in events.iter() {
                        self.handle_event(event, completions);
                    }
                }
                Err(error) => polled = Err(error),
            }
            self.collect_from_pool(completions);
            if completions.len() > before {
                return Ok(());
            }
            polled?;
            if deadline.has_passed() {
                return Ok(());
            }
        }
    }

    fn start_queued(&mut self, completions: &mut Vec<Completion>) {
        while let Some(key) = self.queue.pop_front() {
            let Some(entry) = self.in_flight.get_mut(key) else { continue };
            let Place::Queued(operation) = std::mem::replace(&mut entry.place, Place::Pool) else {
                unreachable!("the queue names queued entries only");
            };
            match operation.readiness() {
                Some(readiness) => {
                    entry.place = Place::Waiting(operation);
                    // Earlier operations on the same descriptor come first.
                    if self.interests.push(readiness, key) {
                        self.attempt_waiting(readiness.0, Event::NONE, completions);
                    }
                }
                None => self.start_on_file(key, operation, completions),
            }
        }
    }

    fn start_on_file(
        &mut self,
        key: Key,
        mut operation: Operation,
        completions: &mut Vec<Completion>,
    ) {
        match system::read_cached(&mut operation) {
            Some(Step::Done(result)) => {
                self.in_flight.remove(key).expect("its place was just set");
                completions.push(operation.complete(result));
            }
            // The pool starts it again: no byte was consumed.
            _ => {
                if let Some((operation, result)) = self.pool.push(key, operation) {
                    self.in_flight.remove(key).expect("its place was just set");
                    completions.push(operation.complete(result));
                }
            }
        }
    }

    fn handle_event(&mut self, event: Event, completions: &mut Vec<Completion>) {
        match event.fd() {
            Some(fd) => {
                self.interests.disarm(fd);
                self.attempt_waiting(fd, event, completions);
            }
            // The pool woke this thread; its results are collected in any case.
            None => self.poller.clear_wake(),
        }
    }

    /// Attempts the operations that wait for `fd`, and watches it for the remaining ones.
    fn attempt_waiting(&mut self, fd: i32, event: Event, completions: &mut Vec<Completion>) {
        let (in_flight, vectors) = (&mut self.in_flight, &mut self.vectors);
        self.interests.retain(fd, |key| {
            let Some(entry) = in_flight.get_mut(key) else { return Attempt::Done };
            let Place::Waiting(operation) = &mut entry.place else {
                unreachable!("interests name waiting entries only");
            };
            let polled = operation.polls().map(|direction| event.ready(direction));
            let result = match polled {
                Some(Some(events)) => Ok(events),
                Some(None) => return Attempt::WaitsAlone,
                None => loop {
                    match system::attempt(operation, vectors) {
                        Step::Again => {}
                        Step::Done(result) => break result,
                        Step::WouldBlock => return Attempt::Blocks,
                    }
                },
            };
            let entry = in_flight.remove(key).expect("it was just there");
            if let Place::Waiting(operation) = entry.place {
                completions.push(operation.complete(result));
            }
            Attempt::Done
        });
        if let Err(error) = self.interests.arm(fd, &self.poller) {
            self.fail_waiting(fd, &error, completions);
        }
    }

    /// Ends all operations that wait for a descriptor that cannot be watched.
    fn fail_waiting(&mut self, fd: i32, error: &io::Error, completions: &mut Vec<Completion>) {
        let errno = error.raw_os_error().unwrap_or(libc::EIO);
        for key in self.interests.take(fd) {
            let Some(entry) = self.in_flight.remove(key) else { continue };
            let Place::Waiting(operation) = entry.place else { continue };
            // A file that epoll does not support is always ready, as in poll(2).
            let result = match operation.polls().filter(|_| errno == libc::EPERM) {
                Some(direction) => Ok(usize::from(direction.events().unsigned_abs())),
                None => Err(io::Error::from_raw_os_error(errno)),
            };
            completions.push(operation.complete(result));
        }
    }

    fn collect_from_pool(&mut self, completions: &mut Vec<Completion>) {
        for (key, operation, result) in self.pool.take_finished() {
            self.in_flight.remove(key).expect("an entry stays while its job runs");
            completions.push(operation.complete(result));
        }
    }
}

/// Result of an attempt at an operation that waits for readiness.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Attempt {
    /// Not ready, and neither are later operations in its direction.
    Blocks,
    Done,
    /// Not ready, without an effect on other operations.
    WaitsAlone,
}

impl std::fmt::Debug for Fallback {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fallback").field("in_flight", &self.in_flight()).finish_non_exhaustive()
    }
}
