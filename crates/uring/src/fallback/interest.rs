//! Operations that wait for descriptors.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::RawFd;

use crate::fallback::Attempt;
use crate::fallback::poller::Poller;
use crate::in_flight::Key;
use crate::operation::Direction;

/// Waiting operations by descriptor and direction, the oldest first.
///
/// Only descriptors with waiting operations are listed, so the number of operations in flight
/// bounds the map.
#[derive(Debug, Default)]
pub(crate) struct Interests {
    descriptors: HashMap<RawFd, Interest>,
}

#[derive(Debug, Default)]
struct Interest {
    readers: VecDeque<Key>,
    writers: VecDeque<Key>,
    /// Events that epoll watches for; 0 after it reported any.
    armed: u32,
}

impl Interest {
    fn queue(&mut self, direction: Direction) -> &mut VecDeque<Key> {
        match direction {
            Direction::Read => &mut self.readers,
            Direction::Write => &mut self.writers,
        }
    }
}

impl Interests {
    /// Appends to a queue. Returns true if the operation is alone there and can be attempted at
    /// once.
    pub(crate) fn push(&mut self, (fd, direction): (RawFd, Direction), key: Key) -> bool {
        let queue = self.descriptors.entry(fd).or_default().queue(direction);
        queue.push_back(key);
        queue.len() == 1
    }

    /// Records that epoll reported the descriptor, which ends its watch.
    pub(crate) fn disarm(&mut self, fd: RawFd) {
        if let Some(interest) = self.descriptors.get_mut(&fd) {
            interest.armed = 0;
        }
    }

    /// Attempts each operation in order, and keeps those that go on waiting.
    ///
    /// After one that blocks, the others in its direction are not attempted: data that arrived in
    /// between would go to the wrong one.
    pub(crate) fn retain(&mut self, fd: RawFd, mut attempt: impl FnMut(Key) -> Attempt) {
        let Some(interest) = self.descriptors.get_mut(&fd) else { return };
        for queue in [&mut interest.readers, &mut interest.writers] {
            let mut blocked = false;
            queue.retain(|key| {
                if blocked {
                    return true;
                }
                let attempt = attempt(*key);
                blocked = attempt == Attempt::Blocks;
                attempt != Attempt::Done
            });
        }
    }

    /// Makes epoll watch for the awaited events, or forgets a descriptor without any.
    pub(crate) fn arm(&mut self, fd: RawFd, poller: &Poller) -> io::Result<()> {
        let Some(interest) = self.descriptors.get_mut(&fd) else { return Ok(()) };
        let mut events = 0;
        if !interest.readers.is_empty() {
            events |= libc::EPOLLIN.cast_unsigned();
        }
        if !interest.writers.is_empty() {
            events |= libc::EPOLLOUT.cast_unsigned();
        }
        if events == 0 {
            self.forget(fd, poller);
        } else if events != interest.armed {
            poller.watch_once(fd, events)?;
            interest.armed = events;
        }
        Ok(())
    }

    /// Removes an operation that was cancelled.
    pub(crate) fn remove(
        &mut self,
        (fd, direction): (RawFd, Direction),
        key: Key,
        poller: &Poller,
    ) {
        let Some(interest) = self.descriptors.get_mut(&fd) else { return };
        interest.queue(direction).retain(|waiting| *waiting != key);
        if interest.readers.is_empty() && interest.writers.is_empty() {
            self.forget(fd, poller);
        }
    }

    /// Forgets a descriptor without waiting operations.
    ///
    /// A stale watch could report a file that outlives its descriptor here (passed to another
    /// process, for example) as if it were the next file with that number.
    fn forget(&mut self, fd: RawFd, poller: &Poller) {
        if self.descriptors.remove(&fd).is_some_and(|interest| interest.armed != 0) {
            poller.forget(fd);
        }
    }

    /// Forgets a descriptor and returns its waiting operations.
    pub(crate) fn take(&mut self, fd: RawFd) -> impl Iterator<Item = Key> + use<> {
        let interest = self.descriptors.remove(&fd).unwrap_or_default();
        interest.readers.into_iter().chain(interest.writers)
    }
}
