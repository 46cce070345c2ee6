//! The driver: one interface with two back ends.

use std::io;
use std::marker::PhantomData;
use std::time::{Duration, Instant};

use crate::fallback::Fallback;
use crate::op::{Completion, Op, Reason, Refused, Token};
use crate::ring::{self, Ring};

/// The event loop of one thread.
///
/// Not `Send`: the ring accepts submissions only from the thread that created it. Dropping cancels
/// all operations in flight and waits until the kernel releases the buffers.
#[derive(Debug)]
pub struct Driver {
    inner: Inner,
    ring_error: Option<io::Error>,
    not_send: PhantomData<*const ()>,
}

/// Mechanism that carries out the operations.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Backend {
    /// The ring if it is available, else the fallback.
    Auto,
    /// epoll and a thread pool.
    Fallback,
    /// io_uring, or an error without it.
    Ring,
}

impl Backend {
    /// The back ends that this process can use: the ring unless the kernel lacks io_uring or
    /// forbids it, and the fallback in any case.
    #[must_use]
    pub fn available() -> Vec<Self> {
        let ring = (!ring::is_forbidden()).then_some(Self::Ring);
        ring.into_iter().chain([Self::Fallback]).collect()
    }
}

/// Limits on the resources of a driver.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Limits {
    /// Operations in flight, 1 to [`OPERATIONS_IN_FLIGHT_MAX`]. It decides on the size of the
    /// completion queue, which therefore cannot overflow.
    pub operations_in_flight_max: u32,
    /// Threads for blocking file I/O, at least 1: the kernel's io-wq workers (of each of its two
    /// kinds) or the fallback's own.
    pub threads_max: u32,
}

/// Highest number of operations of a ring: its completion queue has at most 65,536 entries, and
/// every operation may need two, the second for its cancellation.
pub const OPERATIONS_IN_FLIGHT_MAX: u32 = 32_768;

impl Default for Limits {
    fn default() -> Self {
        Self { operations_in_flight_max: 1_024, threads_max: 4 }
    }
}

impl Driver {
    /// Opens a driver for the calling thread.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for limits out of range. With [`Backend::Ring`], the reason for the missing
    /// ring: an `Unsupported` error with [`Unavailable`](crate::Unavailable) names the features
    /// that the kernel lacks. Otherwise only if descriptors run out.
    pub fn new(backend: Backend, limits: Limits) -> io::Result<Self> {
        if !(1..=OPERATIONS_IN_FLIGHT_MAX).contains(&limits.operations_in_flight_max)
            || limits.threads_max == 0
        {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "limits out of range"));
        }
        let (inner, ring_error) = match backend {
            Backend::Fallback => (Inner::Fallback(Fallback::new(limits)?), None),
            Backend::Ring => (Inner::Ring(Ring::new(limits)?), None),
            Backend::Auto => match Ring::new(limits) {
                Ok(ring) => (Inner::Ring(ring), None),
                Err(error) => (Inner::Fallback(Fallback::new(limits)?), Some(error)),
            },
        };
        Ok(Self { inner, ring_error, not_send: PhantomData })
    }

    /// Accepts an operation; [`wait`](Self::wait) starts it.
    ///
    /// # Errors
    ///
    /// [`Refused`] returns the operation.
    pub fn submit(&mut self, token: Token, op: Op) -> Result<(), Refused> {
        if let Err(reason) = op.verify() {
            return Err(Refused { op, reason });
        }
        match &mut self.inner {
            Inner::Fallback(fallback) => fallback.submit(token, op),
            Inner::Ring(ring) => ring.submit(token, op),
        }
        .map_err(|op| Refused { op, reason: Reason::Full })
    }

    /// Ends the operations with this token early.
    ///
    /// Each still completes: with `ECANCELED`, or normally if the cancellation was too late. An
    /// operation that `wait` has not started yet never starts.
    pub fn cancel(&mut self, token: Token) {
        match &mut self.inner {
            Inner::Fallback(fallback) => fallback.cancel(token),
            Inner::Ring(ring) => ring.cancel(token),
        }
    }

    /// Starts the submitted operations, waits until at least one operation completed or `timeout`
    /// passed, and appends all completions to `completions`.
    ///
    /// With no operation in flight it sleeps for `timeout`.
    ///
    /// # Errors
    ///
    /// `InvalidInput` with no operation in flight and no timeout, a wait that could not end.
    /// `EAGAIN` or `ENOMEM` if the kernel is out of memory: no operation is lost, and the caller
    /// may call again. An error is returned only without completions.
    pub fn wait(
        &mut self,
        timeout: Option<Duration>,
        completions: &mut Vec<Completion>,
    ) -> io::Result<()> {
        if timeout.is_none() && self.in_flight() == 0 {
            let message = "no operation is in flight and there is no timeout";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let deadline = Deadline::after(timeout);
        match &mut self.inner {
            Inner::Fallback(fallback) => fallback.wait(deadline, completions),
            Inner::Ring(ring) => ring.wait(deadline, completions),
        }
    }

    /// Number of submitted operations without a collected completion.
    pub fn in_flight(&self) -> usize {
        match &self.inner {
            Inner::Fallback(fallback) => fallback.in_flight(),
            Inner::Ring(ring) => ring.in_flight(),
        }
    }

    /// The back end in use; never [`Backend::Auto`].
    pub fn backend(&self) -> Backend {
        match &self.inner {
            Inner::Fallback(_) => Backend::Fallback,
            Inner::Ring(_) => Backend::Ring,
        }
    }

    /// Reason why [`Backend::Auto`] chose the fallback; worth a line in the log.
    pub fn ring_error(&self) -> Option<&io::Error> {
        self.ring_error.as_ref()
    }
}

#[derive(Debug)]
enum Inner {
    Fallback(Fallback),
    Ring(Ring),
}

/// End of a wait; `None` is never.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(Option<Instant>);

impl Deadline {
    /// A timeout beyond the range of the clock is no timeout.
    pub(crate) fn after(timeout: Option<Duration>) -> Self {
        Self(timeout.and_then(|timeout| Instant::now().checked_add(timeout)))
    }

    /// Rest of the timeout; `None` waits without end.
    pub(crate) fn remaining(self) -> Option<Duration> {
        self.0.map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }

    pub(crate) fn has_passed(self) -> bool {
        self.remaining().is_some_and(|remaining| remaining.is_zero())
    }
}

#[cfg(test)]
mod tests;
