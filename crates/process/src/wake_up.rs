//! A descriptor by which one thread wakes another.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};

/// A descriptor that is readable between [`Self::wake`] and [`Self::clear`].
#[derive(Debug)]
pub struct WakeUp(OwnedFd);

impl WakeUp {
    /// Creates one that is not readable.
    ///
    /// # Errors
    /// There is no descriptor left.
    pub fn new() -> io::Result<Self> {
        Ok(Self(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Makes the descriptor readable, however often it is called.
    pub fn wake(&self) {
        // It fails only when the counter is full, and then it is readable.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    /// Makes the descriptor unreadable until the next [`Self::wake`]. Clear first and take the work
    /// afterwards: a wake-up in between then finds no work, and none is missed.
    pub fn clear(&self) {
        // It fails if the descriptor is not readable.
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

impl AsFd for WakeUp {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
