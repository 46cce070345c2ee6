//! A datagram socket per process.
//!
//! Every process has a socket in `msg/` of the lock directory and connects one to each process it
//! sends to. A packet is a datagram: the kernel keeps the order, refuses what the receiver has no
//! room for (`net.unix.max_dgram_qlen`, 10 by default), and says who sent it. An epoll descriptor
//! that holds the own socket and those of full receivers is the wake source.

use std::collections::{BTreeSet, HashMap};
use std::io::IoSlice;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use dtyp::ServerId;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::net::SocketType;

use super::clock::Clock;
use super::inbox::Inbox;
use super::members::{Member, Members};
use super::outgoing::{Carrier, Lines, Outgoing};
use super::socket::{self, DESCRIPTORS_MAX, Receiver};
use crate::counters::Counters;
use crate::transport::{Frame, InitError, SendError, Transport};

/// The transport.
#[derive(Debug)]
pub(crate) struct Dgram {
    outgoing: Outgoing<Datagrams>,
    inbox: Inbox,
    receiver: Option<Receiver>,
    /// All that was there has been received, and nobody has been told so yet.
    is_drained: bool,
}

/// The sending half.
#[derive(Debug)]
pub(super) struct Datagrams {
    member: Member,
    wake: OwnedFd,
    /// Processes without room, by the descriptors of their sockets: exactly those that are in
    /// `wake`.
    waiting: HashMap<u64, ServerId>,
}

impl Dgram {
    /// `name` is what the server's transport is called: this one may be at the side of another.
    pub(crate) fn open(
        lock_dir: &Path,
        server_id: ServerId,
        name: &'static str,
    ) -> Result<Self, InitError> {
        let member = Members::open(lock_dir)?.join(server_id, SocketType::DGRAM, name)?;
        let wake = wake_source_of(&member.socket)
            .map_err(|error| InitError::System { path: lock_dir.into(), source: error.into() })?;
        let carrier = Datagrams { member, wake, waiting: HashMap::new() };
        let clock = Clock::new();
        let outgoing = Outgoing::new(carrier, server_id, clock, LINES);
        Ok(Self {
            outgoing,
            inbox: Inbox::new(server_id, clock),
            receiver: None,
            is_drained: false,
        })
    }

    /// The next [`Transport::poll_receive`] is to look at the socket.
    #[cfg(feature = "messaging-tdb")]
    pub(super) fn look_again(&mut self) {
        self.is_drained = false;
    }

    /// All that live, and those that were found dead and are buried.
    pub(super) fn take_census(&mut self) -> Result<(Vec<ServerId>, Vec<ServerId>), InitError> {
        let (living, dead) = super::take_census(self.outgoing.carrier.member.members())?;
        dead.iter().for_each(|dead| self.outgoing.bury(*dead));
        Ok((living, dead))
    }
}

impl Carrier for Datagrams {
    type Line = OwnedFd;

    /// A message of 64 KiB. A datagram is one allocation in the kernel and counts against the sender's
    /// socket buffer until it is read, so it should be well below that (208 KiB by default).
    const PACKET_BYTES_MAX: usize = 64 * 1024 + 64;

    const DESCRIPTORS_MAX: usize = DESCRIPTORS_MAX;

    fn connect(&mut self, to: ServerId) -> Result<OwnedFd, Errno> {
        self.member.members().connect(to, SocketType::DGRAM)
    }

    fn push(
        &mut self,
        line: &mut OwnedFd,
        parts: [&[u8]; 2],
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), Errno> {
        socket::send(line.as_fd(), &parts.map(IoSlice::new), descriptors).map(|_| ())
    }

    fn await_room(&mut self, to: ServerId, line: &mut OwnedFd) {
        let token = token(line);
        if self.waiting.insert(token, to).is_none() {
            let data = epoll::EventData::new_u64(token);
            // Without it what waits leaves when its time is up, or with the next look.
            let _ = epoll::add(&self.wake, &*line, data, epoll::EventFlags::OUT);
        }
    }

    fn stop_awaiting(&mut self, _to: ServerId, line: &mut OwnedFd) {
        self.waiting.remove(&token(line));
        // Closing the socket would take it out as well, so a failure leaves a wake-up too many.
        let _ = epoll::delete(&self.wake, &*line);
    }

    fn disconnect(&mut self, line: OwnedFd) {
        self.waiting.remove(&token(&line));
    }
}

impl Transport for Dgram {
    fn send(
        &mut self,
        now: Instant,
        to: ServerId,
        frame: &[u8],
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), SendError> {
        self.outgoing.send(now, to, frame, descriptors)
    }

    fn poll_send(&mut self, now: Instant) {
        self.outgoing.flush(now);
        if !self.outgoing.carrier.waiting.is_empty() {
            let mut events = Vec::with_capacity(EVENTS_MAX);
            let buffer = rustix::buffer::spare_capacity(&mut events);
            // An error here is a signal; what could go will go with the next call.
            let _ = epoll::wait(&self.outgoing.carrier.wake, buffer, Some(&Timespec::default()));
            for event in events {
                let to = self.outgoing.carrier.waiting.get(&event.data.u64()).copied();
                if let Some(to) = to {
                    self.outgoing.room(now, to);
                }
            }
        }
        self.outgoing.check_times(now);
    }

    fn poll_receive(&mut self, now: Instant) -> Option<Frame> {
        if let Some(frame) = self.inbox.pop() {
            return Some(frame);
        }
        // A look that most likely finds nothing is saved; if there is something, the wake source says
        // so.
        if std::mem::take(&mut self.is_drained) {
            return None;
        }
        let Outgoing { carrier, counters, .. } = &mut self.outgoing;
        self.inbox.expire(now, counters);
        // Most workers end before anybody has told them anything.
        if self.receiver.is_none() && !socket::has_something(carrier.member.socket.as_fd()) {
            return None;
        }
        let receiver = self
            .receiver
            .get_or_insert_with(|| Receiver::new(DATAGRAMS_AT_ONCE, Datagrams::PACKET_BYTES_MAX));
        for _ in 0..RECEIVES_PER_POLL_MAX {
            let inbox = &mut self.inbox;
            let take = |packet: &[u8], arrival| _ = inbox.take(now, packet, arrival, counters);
            // Whatever the error is, EAGAIN or not, there is nothing to take.
            let count = receiver.receive(carrier.member.socket.as_fd(), take).ok()?;
            if let Some(frame) = self.inbox.pop() {
                self.is_drained = count < DATAGRAMS_AT_ONCE;
                return Some(frame);
            }
        }
        None
    }

    fn wants_flush(&self) -> bool {
        self.outgoing.wants_flush()
    }

    fn has_ready(&self) -> bool {
        !self.inbox.is_empty()
    }

    fn wake_source(&self) -> Option<BorrowedFd<'_>> {
        Some(self.outgoing.carrier.wake.as_fd())
    }

    fn next_timeout(&self) -> Option<Instant> {
        [self.outgoing.next_timeout(), self.inbox.next_timeout()].into_iter().flatten().min()
    }

    fn descriptors_max(&self) -> usize {
        Datagrams::DESCRIPTORS_MAX
    }

    fn members(&mut self) -> Result<Vec<ServerId>, InitError> {
        Ok(self.take_census()?.0)
    }

    fn bury(&mut self, dead: ServerId) -> bool {
        self.outgoing.bury(dead);
        super::remove_socket(self.outgoing.carrier.member.members(), dead)
    }

    fn take_receivers_of_dropped(&mut self) -> BTreeSet<ServerId> {
        std::mem::take(&mut self.outgoing.dropped_for)
    }

    fn counters(&self) -> Counters {
        self.outgoing.counters
    }
}

impl Drop for Dgram {
    fn drop(&mut self) {
        self.outgoing.flush_last();
    }
}

/// An epoll descriptor with the own socket in it.
fn wake_source_of(socket: &OwnedFd) -> Result<OwnedFd, Errno> {
    let wake = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let data = epoll::EventData::new_u64(token(socket));
    epoll::add(&wake, socket, data, epoll::EventFlags::IN)?;
    Ok(wake)
}

/// Names a socket in the wake source.
fn token(socket: &OwnedFd) -> u64 {
    u64::try_from(socket.as_raw_fd()).expect("descriptors are not negative")
}

/// A line is a descriptor and nothing else, so it is kept for as long as there are few.
const LINES: Lines = Lines { idle_max: 256, idle: Duration::from_secs(10) };

/// Datagrams taken by one system call.
const DATAGRAMS_AT_ONCE: usize = 8;

/// System calls in one poll, so that one that sends nothing but rubbish does not hold us.
const RECEIVES_PER_POLL_MAX: usize = 8;

/// Full receivers that are looked after in one poll.
const EVENTS_MAX: usize = 64;

#[cfg(test)]
mod tests;
