//! Event sources of a process, and the wait for them.

use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

/// Highest number of events that one wait returns.
const EVENTS_MAX: usize = 256;

/// A set of descriptors to wait for, by epoll. Each has a value of `E`, which the kernel keeps as a
/// number and returns when the descriptor is readable.
///
/// It is level-triggered: a source that stays readable is returned by the next wait, too.
pub struct EventSet<E> {
    epoll: OwnedFd,
    events: PhantomData<fn(E) -> E>,
}

impl<E> fmt::Debug for EventSet<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EventSet").field(&self.epoll).finish()
    }
}

impl<E: From<u64> + Into<u64>> EventSet<E> {
    /// Creates a set without sources.
    ///
    /// # Errors
    /// There is no descriptor left.
    pub fn new() -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Self { epoll, events: PhantomData })
    }

    /// Adds a source, which is waited for until it is readable. Closing its last descriptor removes
    /// it.
    ///
    /// # Errors
    /// The descriptor is in the set already, cannot be polled, or there is no memory.
    pub fn add(&self, source: impl AsFd, event: E) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, source, data(event), epoll::EventFlags::IN)?)
    }

    /// Waits for a source of the set again, or does not wait for it for a while.
    ///
    /// # Errors
    /// The descriptor is not in the set.
    pub fn enable(&self, source: impl AsFd, event: E, enable: bool) -> io::Result<()> {
        let flags = if enable { epoll::EventFlags::IN } else { epoll::EventFlags::empty() };
        Ok(epoll::modify(&self.epoll, source, data(event), flags)?)
    }

    /// Removes a source. A failure is logged only: the source is not in the set then.
    pub fn remove(&self, source: impl AsFd) {
        if let Err(error) = epoll::delete(&self.epoll, source) {
            tracing::debug!("cannot stop polling a descriptor: {error}");
        }
    }

    /// Waits until a source is readable, and returns the events of all readable ones. Returns none
    /// after `timeout`, which the kernel rounds up to a millisecond, or after a signal.
    ///
    /// # Errors
    /// The kernel cannot wait.
    pub fn wait(&self, timeout: Option<Duration>) -> io::Result<Vec<E>> {
        // A timeout too long for the kernel never ends.
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let mut events = Vec::with_capacity(EVENTS_MAX);
        match epoll::wait(&self.epoll, spare_capacity(&mut events), timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(events.into_iter().map(|event| E::from(event.data.u64())).collect())
    }
}

fn data(event: impl Into<u64>) -> epoll::EventData {
    epoll::EventData::new_u64(event.into())
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::time::Instant;

    use super::*;
    use crate::WakeUp;

    const AT_ONCE: Option<Duration> = Some(Duration::ZERO);

    fn set_with(source: impl AsFd, event: u64) -> EventSet<u64> {
        let events = EventSet::new().expect("there are descriptors");
        events.add(source, event).expect("it can be polled");
        events
    }

    #[test]
    fn a_readable_source_is_returned_by_each_wait_until_it_is_read() {
        let wake = WakeUp::new().expect("there are descriptors");
        let events = set_with(&wake, u64::MAX);
        assert_eq!(events.wait(AT_ONCE).expect("it waits"), []);
        wake.wake();
        for _ in 0..2 {
            assert_eq!(events.wait(None).expect("it waits"), [u64::MAX]);
        }
        wake.clear();
        assert_eq!(events.wait(AT_ONCE).expect("it waits"), []);
    }

    #[test]
    fn a_disabled_or_removed_source_is_not_waited_for() {
        let wake = WakeUp::new().expect("there are descriptors");
        let events = set_with(&wake, 1);
        wake.wake();
        events.enable(&wake, 1, false).expect("it is there");
        assert_eq!(events.wait(AT_ONCE).expect("it waits"), []);
        events.enable(&wake, 2, true).expect("it is there");
        assert_eq!(events.wait(AT_ONCE).expect("it waits"), [2]);
        events.remove(&wake);
        assert_eq!(events.wait(AT_ONCE).expect("it waits"), []);
    }

    #[test]
    fn a_closed_source_leaves_the_set() {
        let (source, _peer) = UnixStream::pair().expect("there are descriptors");
        let events = set_with(&source, 1);
        source.shutdown(std::net::Shutdown::Both).expect("connected");
        assert_eq!(events.wait(AT_ONCE).expect("it waits"), [1]);
        drop(source);
        // Another test may fork now: its child has the source, too, until it executes a program.
        let until = Instant::now() + Duration::from_secs(10);
        while !events.wait(AT_ONCE).expect("it waits").is_empty() {
            assert!(Instant::now() < until, "it is still there");
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_wait_without_an_event_ends_after_its_timeout_and_not_before() {
        let events = EventSet::<u64>::new().expect("there are descriptors");
        let (began, timeout) = (Instant::now(), Duration::from_micros(2_100));
        assert_eq!(events.wait(Some(timeout)).expect("it waits"), []);
        assert!(began.elapsed() >= timeout, "{:?}", began.elapsed());
    }
}
