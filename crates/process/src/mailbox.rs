//! A queue between threads, with a descriptor to wait for.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::WakeUp;

/// A queue with a descriptor that is readable while values wait in the queue.
///
/// The queue has no limit of its own: those of the jobs or requests behind the values bound it.
pub struct Mailbox<T> {
    queue: Mutex<VecDeque<T>>,
    wake: WakeUp,
}

/// Values need not be printable: some are functions.
impl<T> fmt::Debug for Mailbox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mailbox").field("wake", &self.wake).finish_non_exhaustive()
    }
}

impl<T> Mailbox<T> {
    /// Creates an empty queue.
    ///
    /// # Errors
    /// There is no descriptor left.
    pub fn new() -> io::Result<Self> {
        Ok(Self { queue: Mutex::default(), wake: WakeUp::new()? })
    }

    /// Returns the descriptor that is readable while a value is in the queue.
    pub fn wake_source(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// Adds a value at the end.
    pub fn put(&self, value: T) {
        let mut queue = self.lock();
        queue.push_back(value);
        // Only the first value needs a wake-up: `take` empties the queue.
        let is_first = queue.len() == 1;
        drop(queue);
        if is_first {
            self.wake.wake();
        }
    }

    /// Takes all values, the oldest first.
    pub fn take(&self) -> VecDeque<T> {
        self.wake.clear();
        std::mem::take(&mut self.lock())
    }

    /// Takes the first value. The descriptor stays readable while others wait.
    pub fn take_first(&self) -> Option<T> {
        let mut queue = self.lock();
        let first = queue.pop_front();
        self.clear_if_empty(&queue);
        first
    }

    /// Takes the last value that fits, wherever it is in the queue.
    pub fn take_last(&self, fits: impl Fn(&T) -> bool) -> Option<T> {
        let mut queue = self.lock();
        let place = queue.iter().rposition(fits)?;
        let value = queue.remove(place);
        self.clear_if_empty(&queue);
        value
    }

    fn clear_if_empty(&self, queue: &VecDeque<T>) {
        if queue.is_empty() {
            // A `put` that has not woken anybody yet does so later, and nothing is found.
            self.wake.clear();
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
    fn the_descriptor_is_readable_while_values_wait() {
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
