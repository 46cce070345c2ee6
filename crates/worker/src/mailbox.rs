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

    /// Takes the first value. The descriptor stays readable while others wait.
    pub(super) fn take_first(&self) -> Option<T> {
        let mut queue = self.lock();
        let first = queue.pop_front();
        self.clear_if_empty(&queue);
        first
    }

    /// Takes the last value that fits, wherever it is in the queue.
    pub(super) fn take_last(&self, fits: impl Fn(&T) -> bool) -> Option<T> {
        let mut queue = self.lock();
        let place = queue.iter().rposition(fits)?;
        let value = queue.remove(place);
        self.clear_if_empty(&queue);
        value
    }

    fn clear_if_empty(&self, queue: &VecDeque<T>) {
        if queue.is_empty() {
            // It fails if the descriptor is not readable yet; then a wake-up finds nothing.
            let _ = rustix::io::read(&self.wake, &mut [0; 8]);
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<T>> {
        // Nothing panics with the lock held.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    fn is_readable(mailbox: &Mailbox<u32>) -> bool {
        let mut fds = [PollFd::from_borrowed_fd(mailbox.wake_source(), PollFlags::IN)];
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).expect("it can be polled") > 0
    }

    #[test]
    fn the_descriptor_is_readable_while_values_wait_however_they_are_taken() {
        let mailbox = Mailbox::new().expect("there are descriptors");
        (1..=4).for_each(|value| mailbox.put(value));
        assert_eq!(mailbox.take_last(|value| value % 2 == 1), Some(3));
        assert_eq!((mailbox.take_first(), is_readable(&mailbox)), (Some(1), true));
        assert_eq!((mailbox.take_first(), is_readable(&mailbox)), (Some(2), true));
        assert_eq!(mailbox.take_last(|value| *value == 1), None);
        assert_eq!((mailbox.take_last(|_| true), is_readable(&mailbox)), (Some(4), false));
        assert_eq!((mailbox.take_first(), is_readable(&mailbox)), (None, false));
        mailbox.put(5);
        assert!(is_readable(&mailbox));
        assert_eq!((mailbox.take(), is_readable(&mailbox)), ([5].into(), false));
    }
}
