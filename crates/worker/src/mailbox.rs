//! A queue between threads that a [`uring::Driver`] can wait for.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::event::{EventfdFlags, eventfd};

/// A queue with a descriptor that is readable while values wait in the queue.
pub(super) struct Mailbox<T> {
    queue: Mutex<VecDeque<T>>,
    wake: OwnedFd,
}

/// Values need not be printable: some are functions.
impl<T> fmt::Debug for Mailbox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mailbox").field("wake", &self.wake).finish_non_exhaustive()
    }
}

impl<T> Mailbox<T> {
    /// An empty queue.
    ///
    /// # Errors
    /// There is no descriptor left.
    pub(super) fn new() -> io::Result<Self> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { queue: Mutex::default(), wake })
    }

    /// Readable while something is in the queue.
    pub(super) fn wake_source(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    pub(super) fn put(&self, value: T) {
        let mut queue = self.lock();
        queue.push_back(value);
        // Only the first value needs a wake-up: `take` empties the queue.
        let is_first = queue.len() == 1;
        drop(queue);
        if is_first {
            // It fails only when the counter is full, and then it is readable.
            let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
        }
    }

    pub(super) fn take(&self) -> VecDeque<T> {
        // It fails when somebody has taken what was put already.
        let _ = rustix::io::read(&self.wake, &mut [0; 8]);
        std::mem::take(&mut self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<T>> {
        // Nothing panics with the lock held.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
