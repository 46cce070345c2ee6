//! A datagram socket per process.
//!
//! Every process has a socket in `msg/` of the lock directory and connects one to each process it
//! sends to. The kernel keeps the order, refuses what the receiver has no room for
//! (`net.unix.max_dgram_qlen`, 10 by default), and says who sent it. Frames larger than a datagram
//! are cut into fragments that follow each other. What a receiver has no room for waits here; an
//! epoll descriptor that holds the own socket and those of full receivers is the wake source.

mod datagram;
mod directory;
mod peer;
mod reassembly;
mod socket;

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use dtyp::ServerId;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

use self::datagram::{DatagramError, FRAGMENT_BYTES_MAX, HEADER_BYTES, Header};
use self::directory::{Bound, Directory};
use self::peer::{Peer, Queued};
use self::reassembly::{Outcome, Reassembly};
use self::socket::{Arrival, DESCRIPTORS_MAX};
use crate::counters::Counters;
use crate::transport::{FRAME_BYTES_MAX, Frame, InitError, SendError, Transport};

pub use self::directory::remove_stale_sockets;

/// The transport.
#[derive(Debug)]
pub(crate) struct Dgram {
    server_id: ServerId,
    bound: Bound,
    wake: OwnedFd,
    /// Users whose processes are of this server: root and our own.
    uid: u32,
    peers: HashMap<ServerId, Peer>,
    /// Peers with a queue, by token: exactly those whose sockets are in `wake`.
    waiting: HashMap<u64, ServerId>,
    next_token: u64,
    next_message_id: u64,
    /// When to look for expired queues and idle peers; not later than the first of them.
    check_at: Option<Instant>,
    reassembly: Reassembly,
    buffer: Box<[u8]>,
    counters: Counters,
}

impl Dgram {
    pub(crate) fn open(lock_dir: &Path, server_id: ServerId) -> Result<Self, InitError> {
        let bound = Directory::open(lock_dir)?.bind(server_id.pid)?;
        let wake = wake_source_of(&bound.socket)
            .map_err(|error| InitError::System { path: lock_dir.into(), source: error.into() })?;
        Ok(Self {
            server_id,
            bound,
            wake,
            uid: rustix::process::geteuid().as_raw(),
            peers: HashMap::new(),
            waiting: HashMap::new(),
            next_token: OWN_TOKEN + 1,
            next_message_id: 0,
            check_at: None,
            reassembly: Reassembly::default(),
            buffer: vec![0; HEADER_BYTES + FRAGMENT_BYTES_MAX].into(),
            counters: Counters::default(),
        })
    }

    /// Connects to the process, unless that is done already.
    fn connect(&mut self, now: Instant, to: ServerId) -> Result<(), SendError> {
        if self.peers.contains_key(&to) {
            return Ok(());
        }
        if self.peers.len() >= PEERS_MAX {
            self.disconnect_longest_idle()?;
        }
        let socket = match self.bound.directory().connect(to.pid) {
            Err(Errno::NOENT | Errno::CONNREFUSED) => return Err(SendError::NoSuchProcess),
            socket => socket.map_err(system)?,
        };
        let token = self.next_token;
        self.next_token += 1;
        let (queue, queue_bytes) = Default::default();
        self.peers.insert(to, Peer { socket, queue, queue_bytes, token, last_used: now });
        self.check_by(now + PEER_IDLE);
        Ok(())
    }

    fn disconnect_longest_idle(&mut self) -> Result<(), SendError> {
        let idle = self.peers.iter().filter(|(_, peer)| peer.queue.is_empty());
        let longest = idle.min_by_key(|(_, peer)| peer.last_used).map(|(id, _)| *id);
        self.peers.remove(&longest.ok_or(SendError::Full)?);
        Ok(())
    }

    /// Whether a frame of `len` bytes may wait for `to`.
    fn has_room(&self, to: ServerId, len: usize) -> bool {
        let peer = self.peers.get(&to);
        let (messages, bytes) = peer.map_or((0, 0), |peer| (peer.queue.len(), peer.queue_bytes));
        messages < QUEUE_MESSAGES_MAX
            && bytes + len <= QUEUE_BYTES_MAX
            && self.counters.queued_bytes + len as u64 <= QUEUES_BYTES_MAX
    }

    /// Lets a frame wait. There is room for it.
    fn enqueue(&mut self, to: ServerId, queued: Queued) -> Result<(), SendError> {
        let peer = self.peers.get_mut(&to).ok_or(SendError::NoSuchProcess)?;
        if peer.queue.is_empty() {
            let data = epoll::EventData::new_u64(peer.token);
            epoll::add(&self.wake, &peer.socket, data, epoll::EventFlags::OUT).map_err(system)?;
            self.waiting.insert(peer.token, to);
        }
        let deadline = queued.deadline;
        self.counters.queued += 1;
        self.counters.queued_bytes += queued.frame.len() as u64;
        peer.push(queued);
        self.check_by(deadline);
        Ok(())
    }

    /// Sends what waits for a peer until it is full again.
    fn flush(&mut self, now: Instant, to: ServerId) {
        let Some(peer) = self.peers.get_mut(&to) else { return };
        peer.last_used = now;
        while !peer.queue.is_empty() {
            match peer.send_head() {
                Ok(()) => {}
                Err(Errno::AGAIN) => {
                    self.counters.retries += 1;
                    return;
                }
                Err(_) => return self.disconnect(to),
            }
            if let Some(sent) = peer.pop() {
                self.counters.sent += 1;
                self.counters.bytes_sent += sent.frame.len() as u64;
                left_queue(&mut self.counters, &sent);
            }
        }
        self.waiting.remove(&peer.token);
        // Closing the socket would take it out as well, so a failure leaves a wake-up too many.
        let _ = epoll::delete(&self.wake, &peer.socket);
    }

    /// Forgets a process that is gone, with all that waits for it.
    fn disconnect(&mut self, to: ServerId) {
        let Some(mut peer) = self.peers.remove(&to) else { return };
        self.waiting.remove(&peer.token);
        while let Some(queued) = peer.pop() {
            self.counters.lost += 1;
            left_queue(&mut self.counters, &queued);
        }
    }

    /// Drops messages that have waited too long, and connections that are not used.
    fn check_times(&mut self, now: Instant) {
        let waiting: Vec<ServerId> = self.waiting.values().copied().collect();
        for to in waiting {
            let Some(peer) = self.peers.get_mut(&to) else { continue };
            while peer.queue.front().is_some_and(|queued| queued.deadline <= now) {
                let Some(expired) = peer.pop() else { break };
                self.counters.dropped += 1;
                left_queue(&mut self.counters, &expired);
            }
            if peer.queue.is_empty() {
                self.waiting.remove(&peer.token);
                let _ = epoll::delete(&self.wake, &peer.socket);
            }
        }
        self.peers.retain(|_, peer| !peer.queue.is_empty() || peer.last_used + PEER_IDLE > now);
        let times = self.peers.values().map(|peer| match peer.queue.front() {
            Some(queued) => queued.deadline,
            None => peer.last_used + PEER_IDLE,
        });
        self.check_at = times.min();
    }

    fn check_by(&mut self, time: Instant) {
        self.check_at = Some(self.check_at.map_or(time, |check_at| check_at.min(time)));
    }

    /// Judges a datagram in the buffer; a frame if it is the last fragment of one.
    fn handle_arrival(&mut self, now: Instant, arrival: Arrival) -> Option<Frame> {
        let counters = &mut self.counters;
        let Arrival { len, credentials, descriptors, truncated } = arrival;
        let (header, fragment) = match Header::decode(&self.buffer[..len]) {
            Ok(decoded) => decoded,
            Err(error) => {
                match error {
                    DatagramError::Length => counters.malformed += 1,
                    DatagramError::Version => counters.version_unknown += 1,
                }
                return None;
            }
        };
        let trusted = credentials.is_some_and(|credentials| {
            credentials.pid == header.sender.pid && is_of_server(credentials.uid, self.uid)
        });
        if !trusted {
            counters.forged += 1;
            return None;
        }
        if header.receiver != self.server_id {
            counters.misaddressed += 1;
            return None;
        }
        let expected = if header.offset == 0 { usize::from(header.descriptors) } else { 0 };
        if truncated || descriptors.len() != expected {
            counters.descriptors_lost += 1;
            return None;
        }
        let incomplete = &mut counters.incomplete;
        match self.reassembly.add(now, &header, fragment, descriptors, incomplete) {
            Outcome::Whole(frame) => {
                counters.received += 1;
                counters.bytes_received += frame.bytes.len() as u64;
                Some(frame)
            }
            Outcome::More => None,
            Outcome::Refused => {
                counters.malformed += 1;
                None
            }
        }
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
        let sizes = checked_sizes(frame, descriptors)?;
        self.connect(now, to)?;
        let has_room = self.has_room(to, frame.len());
        let Some(peer) = self.peers.get_mut(&to) else { return Err(SendError::NoSuchProcess) };
        peer.last_used = now;
        let mut header = peer::header(self.server_id, to, self.next_message_id, sizes);
        self.next_message_id += 1;
        // A frame of several fragments must be able to wait once the first has left.
        let may_start = has_room || frame.len() <= FRAGMENT_BYTES_MAX;
        if peer.queue.is_empty() && may_start {
            match peer::send_fragments(peer.socket.as_fd(), &mut header, frame, descriptors) {
                Ok(()) => {
                    self.counters.sent += 1;
                    self.counters.bytes_sent += frame.len() as u64;
                    return Ok(());
                }
                Err(Errno::AGAIN) => self.counters.retries += 1,
                Err(Errno::CONNREFUSED | Errno::CONNRESET | Errno::NOTCONN) => {
                    self.disconnect(to);
                    return Err(SendError::NoSuchProcess);
                }
                Err(error) => return Err(system(error)),
            }
        }
        if !has_room {
            self.counters.refused += 1;
            return Err(SendError::Full);
        }
        let unsent = if header.offset == 0 { descriptors } else { &[] };
        let descriptors = socket::duplicate(unsent).map_err(system)?;
        let deadline = now + QUEUE_TIMEOUT;
        self.enqueue(to, Queued { header, frame: frame.to_vec(), descriptors, deadline })
    }

    fn poll_send(&mut self, now: Instant) {
        if !self.waiting.is_empty() {
            let mut events = Vec::with_capacity(EVENTS_MAX);
            let buffer = rustix::buffer::spare_capacity(&mut events);
            // An error here is a signal; what could go will go with the next call.
            let _ = epoll::wait(&self.wake, buffer, Some(&Timespec::default()));
            for event in events {
                if let Some(to) = self.waiting.get(&event.data.u64()).copied() {
                    self.flush(now, to);
                }
            }
        }
        if self.check_at.is_some_and(|check_at| check_at <= now) {
            self.check_times(now);
        }
    }

    fn poll_receive(&mut self, now: Instant) -> Option<Frame> {
        self.counters.incomplete += self.reassembly.expire(now);
        for _ in 0..DATAGRAMS_PER_POLL_MAX {
            // Whatever the error is, EAGAIN or not, there is nothing to take.
            let arrival = socket::receive(&self.bound.socket, &mut self.buffer).ok()?;
            if let Some(frame) = self.handle_arrival(now, arrival) {
                return Some(frame);
            }
        }
        None
    }

    fn wake_source(&self) -> Option<BorrowedFd<'_>> {
        Some(self.wake.as_fd())
    }

    fn next_timeout(&self) -> Option<Instant> {
        [self.check_at, self.reassembly.next_timeout()].into_iter().flatten().min()
    }

    fn descriptors_max(&self) -> usize {
        DESCRIPTORS_MAX
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}

/// An epoll descriptor with the own socket in it.
fn wake_source_of(socket: &OwnedFd) -> Result<OwnedFd, Errno> {
    let wake = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let data = epoll::EventData::new_u64(OWN_TOKEN);
    epoll::add(&wake, socket, data, epoll::EventFlags::IN)?;
    Ok(wake)
}

/// Bytes and descriptors of a frame, if it may be sent.
fn checked_sizes(frame: &[u8], descriptors: &[BorrowedFd<'_>]) -> Result<(u32, u16), SendError> {
    let (len, count) = (frame.len(), descriptors.len());
    let total = u32::try_from(len).ok().filter(|_| len <= FRAME_BYTES_MAX);
    let total = total.ok_or(SendError::TooLarge { len, max: FRAME_BYTES_MAX })?;
    let descriptors = u16::try_from(count).ok().filter(|_| count <= DESCRIPTORS_MAX);
    let descriptors =
        descriptors.ok_or(SendError::TooManyDescriptors { count, max: DESCRIPTORS_MAX })?;
    Ok((total, descriptors))
}

/// Whether a process of the user `uid` may send to one of `own_uid`.
fn is_of_server(uid: u32, own_uid: u32) -> bool {
    uid == 0 || uid == own_uid
}

fn left_queue(counters: &mut Counters, queued: &Queued) {
    counters.queued -= 1;
    counters.queued_bytes -= queued.frame.len() as u64;
}

fn system(error: Errno) -> SendError {
    SendError::System(error.raw_os_error())
}

/// Processes that we are connected to at once; each is a descriptor.
const PEERS_MAX: usize = 256;

/// How long a connection is kept that nothing is sent over.
const PEER_IDLE: Duration = Duration::from_secs(10);

/// Messages that may wait for one process.
const QUEUE_MESSAGES_MAX: usize = 4_096;

/// Bytes that may wait for one process: two frames of the largest size.
const QUEUE_BYTES_MAX: usize = 2 * FRAME_BYTES_MAX;

/// Bytes that may wait for all processes together.
const QUEUES_BYTES_MAX: u64 = 4 * QUEUE_BYTES_MAX as u64;

/// How long a message waits for room before it is dropped. A worker that takes nothing for a
/// minute has other troubles than a lost message.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(60);

/// Datagrams taken in one poll, so that one that sends nothing but rubbish does not hold us.
const DATAGRAMS_PER_POLL_MAX: usize = 64;

/// Full receivers that are looked after in one poll.
const EVENTS_MAX: usize = 64;

/// The own socket in the wake source.
const OWN_TOKEN: u64 = 0;

#[cfg(test)]
mod tests;
