//! Event sources of the supervisor.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

/// Events taken in one turn.
const EVENTS_PER_TURN: usize = 256;

/// An event source that became ready.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Event {
    /// A listener, by its place in the list, may have a client.
    Listener(usize),
    /// A message may have come.
    Message,
    /// A signal may have come.
    Signal,
    /// A worker, by its pid, says something or has gone.
    Worker(u32),
}

impl Event {
    /// The kind in the upper half, the number in the lower.
    fn to_data(self) -> epoll::EventData {
        let (kind, number) = match self {
            Self::Signal => (0, 0),
            // Listeners are few; a number that does not fit is one that is not watched.
            Self::Listener(index) => (1, u32::try_from(index).unwrap_or(u32::MAX)),
            Self::Worker(pid) => (2, pid),
            Self::Message => (3, 0),
        };
        epoll::EventData::new_u64(kind << 32 | u64::from(number))
    }

    fn from_data(data: epoll::EventData) -> Self {
        let data = data.u64();
        let number = u32::try_from(data & 0xffff_ffff).expect("it is masked");
        match data >> 32 {
            0 => Self::Signal,
            1 => Self::Listener(usize::try_from(number).unwrap_or(usize::MAX)),
            2 => Self::Worker(number),
            _ => Self::Message,
        }
    }
}

/// An epoll set, level-triggered: what was not dealt with comes again.
#[derive(Debug)]
pub(super) struct Events(OwnedFd);

impl Events {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self(epoll::create(epoll::CreateFlags::CLOEXEC)?))
    }

    /// Begins to wait for readability. Closing the descriptor ends it.
    pub(super) fn add(&self, source: impl AsFd, event: Event) -> io::Result<()> {
        Ok(epoll::add(&self.0, source, event.to_data(), epoll::EventFlags::IN)?)
    }

    /// Waits for a source that was added, or does not for a while.
    pub(super) fn enable(&self, source: impl AsFd, event: Event, enable: bool) -> io::Result<()> {
        let flags = if enable { epoll::EventFlags::IN } else { epoll::EventFlags::empty() };
        Ok(epoll::modify(&self.0, source, event.to_data(), flags)?)
    }

    /// Stops to poll a source.
    pub(super) fn remove(&self, source: impl AsFd) {
        if let Err(error) = epoll::delete(&self.0, source) {
            tracing::debug!("cannot stop polling a descriptor: {error}");
        }
    }

    /// Waits for events; returns none after `timeout`.
    pub(super) fn wait(&self, timeout: Option<Duration>) -> io::Result<Vec<Event>> {
        let timeout = timeout.map(|timeout| Timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        });
        let mut events = Vec::with_capacity(EVENTS_PER_TURN);
        match epoll::wait(&self.0, rustix::buffer::spare_capacity(&mut events), timeout.as_ref()) {
            // A signal: its socket will be readable.
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(events.into_iter().map(|event| Event::from_data(event.data)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::Event;

    #[test]
    fn events_survive_the_kernel() {
        for event in [Event::Signal, Event::Listener(3), Event::Worker(u32::MAX), Event::Message] {
            assert_eq!(Event::from_data(event.to_data()), event);
        }
    }
}
