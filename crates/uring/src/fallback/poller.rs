//! An epoll instance that another thread can wake.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

use rustix::event::{EventfdFlags, epoll, eventfd};

use crate::operation::Direction;

/// An epoll instance and the eventfd that wakes it.
#[derive(Debug)]
pub(crate) struct Poller {
    epoll: OwnedFd,
    wake: OwnedFd,
}

/// Events that one wait found.
pub(crate) struct Events {
    events: [libc::epoll_event; EVENTS_MAX],
    count: usize,
}

/// A ready descriptor and its events.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    events: u32,
    data: u64,
}

/// Highest number of events per wait. The rest come first in the next one, so a small number is
/// fair.
const EVENTS_MAX: usize = 64;

/// Data of the wake-up; no descriptor has this number.
const WAKE: u64 = u64::MAX;

impl Poller {
    pub(crate) fn new() -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(&epoll, &wake, epoll::EventData::new_u64(WAKE), epoll::EventFlags::IN)?;
        Ok(Self { epoll, wake })
    }

    /// Watches a descriptor until its next event.
    ///
    /// Afterwards epoll still knows the descriptor, without a watch: the next watch costs one call.
    /// Closing it makes epoll forget it.
    pub(crate) fn watch_once(&self, fd: RawFd, events: u32) -> io::Result<()> {
        let data = u64::try_from(fd).map_err(|_| io::Error::from_raw_os_error(libc::EBADF))?;
        let mut event =
            libc::epoll_event { events: events | libc::EPOLLONESHOT.cast_unsigned(), u64: data };
        let mut control = |operation| {
            // SAFETY: `event` is a valid epoll_event for the duration of the call.
            let done =
                unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), operation, fd, &raw mut event) };
            if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
        };
        match control(libc::EPOLL_CTL_MOD) {
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {
                control(libc::EPOLL_CTL_ADD)
            }
            done => done,
        }
    }

    /// Ends the watch of a descriptor before its event.
    pub(crate) fn forget(&self, fd: RawFd) {
        // SAFETY: deleting takes no event. It fails if the descriptor was closed, which forgets it.
        unsafe {
            libc::epoll_ctl(self.epoll.as_raw_fd(), libc::EPOLL_CTL_DEL, fd, std::ptr::null_mut());
        }
    }

    /// Waits for events; returns none if the timeout passed or a signal came.
    pub(crate) fn wait(&self, timeout: Option<Duration>) -> io::Result<Events> {
        // Rounded up: a wait that ends early would spin until the deadline.
        let timeout = timeout.map_or(-1, |timeout| {
            i32::try_from(timeout.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX)
        });
        let mut events =
            Events { events: [libc::epoll_event { events: 0, u64: 0 }; EVENTS_MAX], count: 0 };
        let pointer = events.events.as_mut_ptr();
        let room = i32::try_from(EVENTS_MAX).expect("it is 64");
        // SAFETY: `pointer` has room for EVENTS_MAX events.
        let count = unsafe { libc::epoll_wait(self.epoll.as_raw_fd(), pointer, room, timeout) };
        match usize::try_from(count) {
            Ok(count) => events.count = count,
            Err(_) => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
        Ok(events)
    }

    /// Ends a wait, or the next one; from any thread.
    pub(crate) fn wake(&self) {
        // The only failure is a counter at its maximum, which wakes as well.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    pub(crate) fn clear_wake(&self) {
        // Fails if it was cleared already.
        let _ = rustix::io::read(&self.wake, &mut [0; 8]);
    }
}

impl Events {
    pub(crate) fn iter(&self) -> impl Iterator<Item = Event> {
        self.events[..self.count]
            .iter()
            .map(|event| Event { events: event.events, data: event.u64 })
    }
}

impl Event {
    /// No events, for a first attempt without polling.
    pub(crate) const NONE: Self = Self { events: 0, data: 0 };

    /// The descriptor, or `None` for a wake-up.
    pub(crate) fn fd(self) -> Option<RawFd> {
        RawFd::try_from(self.data).ok()
    }

    /// The events that end a wait in this direction; `None` without any. epoll numbers them as poll
    /// does.
    pub(crate) fn ready(self, direction: Direction) -> Option<usize> {
        let broken = (libc::EPOLLHUP | libc::EPOLLERR).cast_unsigned();
        let ends = u32::from(direction.events().unsigned_abs()) | broken;
        let events = self.events & ends;
        if events == 0 { None } else { usize::try_from(events).ok() }
    }
}
