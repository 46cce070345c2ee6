//! A datagram socket per process.
//!
//! Every process has a socket in `msg/` of the lock directory and connects one to each process it
//! sends to. A packet is a datagram: the kernel keeps the order, refuses packets beyond the
//! receiver's queue (`net.unix.max_dgram_qlen`, 10 by default), and names the sender. An epoll
//! descriptor that holds the own socket and those of full receivers is the wake source.

use std::collections::{BTreeSet, HashMap};
use std::io::IoSlice;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use dtyp::ServerId;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::net::SocketType;
use zeroize::Zeroize;

use super::clock::Clock;
use super::inbox::Inbox;
use super::members::{Member, Members};
use super::outgoing::{Carrier, FrameBytes, Lines, Outgoing};
use super::socket::{self, DESCRIPTORS_MAX, Receiver};
use crate::counters::Counters;
use crate::transport::{Frame, InitError, SendError, Transport};

/// Transport over Unix datagram sockets.
#[derive(Debug)]
pub(crate) struct Dgram {
    outgoing: Outgoing<Datagrams>,
    inbox: Inbox,
    receiver: Option<Receiver>,
    /// True after the socket was emptied, until a caller has been told.
    is_drained: bool,
}

/// Sending half of a [`Dgram`].
#[derive(Debug)]
pub(super) struct Datagrams {
    member: Member,
    wake: OwnedFd,
    /// Full receivers, by the descriptors of their sockets: exactly those in `wake`.
    waiting: HashMap<u64, ServerId>,
}

impl Dgram {
    /// `name` is the name of the server's transport: this one may be the side channel of another.
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

    /// Makes the next [`Transport::poll_receive`] read the socket.
    #[cfg(feature = "messaging-tdb")]
    pub(super) fn look_again(&mut self) {
        self.is_drained = false;
    }

    /// Returns all living processes, and the dead ones that were found and removed.
    pub(super) fn take_census(&mut self) -> Result<(Vec<ServerId>, Vec<ServerId>), InitError> {
        let (living, dead) = super::take_census(self.outgoing.carrier.member.members())?;
        dead.iter().for_each(|dead| self.outgoing.remove_dead(*dead));
        Ok((living, dead))
    }
}

impl Carrier for Datagrams {
    type Line = OwnedFd;

    /// Room for a message of 64 KiB. A datagram is one allocation in the kernel and counts against
    /// the sender's socket buffer until it is read, so it should be well below that (208 KiB by
    /// default).
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
            // On failure queued frames leave at the timeout, or with the next poll.
            let _ = epoll::add(&self.wake, &*line, data, epoll::EventFlags::OUT);
        }
    }

    fn stop_awaiting(&mut self, _to: ServerId, line: &mut OwnedFd) {
        self.waiting.remove(&token(line));
        // Closing the socket removes it as well, so a failure costs one wake-up too many.
        let _ = epoll::delete(&self.wake, &*line);
    }

    fn disconnect(&mut self, line: OwnedFd) {
        self.waiting.remove(&token(&line));
    }
}

impl Transport for Dgram {
    fn send_frame(
        &mut self,
        now: Instant,
        to: ServerId,
        frame: FrameBytes<'_>,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), SendError> {
        self.outgoing.send(now, to, frame, descriptors)
    }

    fn poll_send(&mut self, now: Instant) {
        self.outgoing.flush(now);
        if !self.outgoing.carrier.waiting.is_empty() {
            let mut events = Vec::with_capacity(EVENTS_MAX);
            let buffer = rustix::buffer::spare_capacity(&mut events);
            // An error here is a signal; the next call sends the rest.
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
        // Save a look that most likely finds nothing; the wake source announces new datagrams.
        if std::mem::take(&mut self.is_drained) {
            return None;
        }
        let Outgoing { carrier, counters, .. } = &mut self.outgoing;
        self.inbox.expire(now, counters);
        // Spare the buffers: most workers end without a single message.
        if self.receiver.is_none() && !socket::has_something(carrier.member.socket.as_fd()) {
            return None;
        }
        let receiver = self.receiver.get_or_insert_with(|| Receiver::new(DATAGRAMS_AT_ONCE));
        for _ in 0..RECEIVES_PER_POLL_MAX {
            let inbox = &mut self.inbox;
            let take = |head: &[u8], body: &mut Vec<u8>, arrival| {
                match head.first_chunk() {
                    Some(head) => _ = inbox.take_parts(now, (head, body), arrival, counters),
                    None => _ = inbox.take(now, head, arrival, counters),
                }
                if inbox.take_secrecy() {
                    body.as_mut_slice().zeroize();
                }
            };
            let socket = carrier.member.socket.as_fd();
            // On any error, EAGAIN or not, nothing was received.
            let has_more = receiver.receive(socket, Datagrams::PACKET_BYTES_MAX, take).ok()?;
            if let Some(frame) = self.inbox.pop() {
                self.is_drained = !has_more;
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

    fn remove_dead(&mut self, dead: ServerId) -> bool {
        self.outgoing.remove_dead(dead);
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

/// Creates an epoll descriptor that contains the own socket.
fn wake_source_of(socket: &OwnedFd) -> Result<OwnedFd, Errno> {
    let wake = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let data = epoll::EventData::new_u64(token(socket));
    epoll::add(&wake, socket, data, epoll::EventFlags::IN)?;
    Ok(wake)
}

/// Key of a socket in the wake source.
fn token(socket: &OwnedFd) -> u64 {
    u64::try_from(socket.as_raw_fd()).expect("descriptors are not negative")
}

/// Bounds of idle lines. A line is only a descriptor, so a few are kept.
const LINES: Lines = Lines { idle_max: 256, idle: Duration::from_secs(10) };

/// Datagrams received by one system call.
const DATAGRAMS_AT_ONCE: usize = 8;

/// Receiving system calls in one poll, so that a sender of malformed datagrams does not occupy us.
const RECEIVES_PER_POLL_MAX: usize = 8;

/// Events of full receivers handled in one poll.
const EVENTS_MAX: usize = 64;

#[cfg(test)]
mod tests;
