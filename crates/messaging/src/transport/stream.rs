//! A listening stream socket per process.
//!
//! A process connects to another one's socket in `msg/` of the lock directory; answers use the same
//! connection. The kernel names the process at the other end at the connect. On the stream every
//! packet follows its length.
//!
//! An idle connection is closed only by the process that created it: it ends its half and goes on
//! reading until the other half ends, and so loses nothing. Two rules keep the order of a pair with
//! several connections: a process never sends over a connection that it has left for another, and
//! before it takes the first packet of a connection it takes all packets that the same process has
//! sent before over others.

mod link;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::io::IoSlice;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use dtyp::ServerId;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::net::{Shutdown, SocketFlags, SocketType};

use self::link::{Link, Token};
use super::clock::Clock;
use super::inbox::Inbox;
use super::members::{Member, Members};
use super::outgoing::{Carrier, FrameBytes, Lines, Outgoing};
use super::socket::{self, Arrival, DESCRIPTORS_MAX};
use crate::counters::Counters;
use crate::transport::{Frame, InitError, SendError, Settings, Transport};

/// Transport over connected Unix sockets.
#[derive(Debug)]
pub(crate) struct Stream {
    outgoing: Outgoing<Streams>,
    inbox: Inbox,
    /// Buffer for the connection that is read next.
    spare: Vec<u8>,
    /// Connections that were read and may have packets not taken yet.
    filled: Vec<Token>,
    /// True after a receipt, until a caller has been told that there is no more.
    is_drained: bool,
}

/// Sending half of a [`Stream`], with its connections.
#[derive(Debug)]
struct Streams {
    member: Member,
    wake: OwnedFd,
    /// User of this server; processes of this user and of root may connect.
    uid: u32,
    links: HashMap<Token, Link>,
    next_token: Token,
    /// Connections that were left, the oldest first, with the time at which they are dropped. Their
    /// own half ends after the rest of a packet.
    half_closed: VecDeque<(Token, Option<Instant>)>,
    /// Number of connections on which frames wait for room.
    awaited: usize,
    /// Time at which connections are accepted again, after there were too many.
    accept_at: Option<Instant>,
}

impl Stream {
    pub(crate) fn open(
        lock_dir: &Path,
        server_id: ServerId,
        settings: Settings,
    ) -> Result<Self, InitError> {
        let name = settings.kind.name();
        let member = Members::open(lock_dir)?.join(server_id, SocketType::STREAM, name)?;
        let system =
            |error: Errno| InitError::System { path: lock_dir.into(), source: error.into() };
        let wake = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(system)?;
        let data = epoll::EventData::new_u64(LISTENER);
        epoll::add(&wake, &member.socket, data, epoll::EventFlags::IN).map_err(system)?;
        let carrier = Streams {
            member,
            wake,
            uid: rustix::process::geteuid().as_raw(),
            links: HashMap::new(),
            next_token: LISTENER + 1,
            half_closed: VecDeque::new(),
            awaited: 0,
            accept_at: None,
        };
        let clock = Clock::new();
        let lines =
            Lines { idle_max: settings.stream_connections.max(1), idle: settings.stream_idle };
        let outgoing = Outgoing::new(carrier, server_id, clock, lines);
        let inbox = Inbox::new(server_id, clock);
        Ok(Self { outgoing, inbox, spare: Vec::new(), filled: Vec::new(), is_drained: false })
    }

    /// Handles ready sockets. Receives nothing more while received frames wait to be taken.
    fn turn(&mut self, now: Instant) {
        let receives = self.inbox.is_empty();
        let mut events = Vec::with_capacity(EVENTS_MAX);
        let buffer = rustix::buffer::spare_capacity(&mut events);
        // An error here is a signal; the next call handles the rest.
        let _ = epoll::wait(&self.outgoing.carrier.wake, buffer, Some(&Timespec::default()));
        for event in events {
            let (token, flags) = (event.data.u64(), event.flags);
            if token == LISTENER && receives {
                let others = self.outgoing.carrier.accept(now, ACCEPTS_PER_TURN_MAX);
                self.outgoing.counters.forged += others;
                continue;
            }
            if flags.contains(epoll::EventFlags::OUT) {
                self.write(now, token);
            }
            if flags.intersects(READABLE) && receives {
                self.read(now, token);
            }
        }
        while let Some(token) = self.filled.pop() {
            self.advance(now, token);
        }
    }

    /// Continues to send over a connection that has room.
    fn write(&mut self, now: Instant, token: Token) {
        let carrier = &mut self.outgoing.carrier;
        let Some(link) = carrier.links.get_mut(&token) else { return };
        let (peer, sent) = (link.peer, link.send_rest());
        match sent {
            Ok(()) | Err(Errno::AGAIN) => {}
            Err(_) => return self.end(now, token),
        }
        if link.has_rest() {
            return;
        }
        if let Some(peer) = peer
            && self.outgoing.line(peer) == Some(&token)
        {
            self.outgoing.room(now, peer);
        }
        self.outgoing.carrier.after_write(token);
        self.end_if_done(now, token);
    }

    /// Reads a connection and takes its complete packets.
    fn read(&mut self, now: Instant, token: Token) {
        self.fill(token, READS_PER_TURN_MAX);
        self.advance(now, token);
    }

    /// Reads a connection into its buffer, with at most `reads` system calls.
    fn fill(&mut self, token: Token, reads: usize) {
        let Some(link) = self.outgoing.carrier.links.get_mut(&token) else { return };
        for _ in 0..reads {
            if link.is_read {
                return;
            }
            match link.receive(READ_BYTES, &mut self.spare) {
                Err(Errno::AGAIN) => return,
                // Nobody is left to read our answers.
                Err(_) => (link.is_read, link.is_broken) = (true, true),
                Ok(0) => link.is_read = true,
                // Most likely empty now; if not, it stays ready.
                Ok(len) if reads == READS_PER_TURN_MAX && len < READ_BYTES / 2 => return,
                Ok(_) => {}
            }
        }
    }

    /// Takes the complete packets of a connection, and closes it if it has ended.
    fn advance(&mut self, now: Instant, token: Token) {
        let is_in_order = loop {
            let Some(link) = self.outgoing.carrier.links.get_mut(&token) else { return };
            match link.next_packet() {
                Ok(Some(packet)) => {
                    if !link.has_spoken {
                        link.has_spoken = true;
                        link.is_being_taken = true;
                        let first = link::first_of(link.bytes(&packet));
                        self.take_earlier(now, token, first);
                    }
                    if !self.take(now, token, &packet) {
                        break false;
                    }
                }
                Ok(None) => break link.settle(&mut self.spare),
                Err(_) => break false,
            }
        };
        if !is_in_order {
            self.outgoing.counters.malformed += 1;
            return self.end(now, token);
        }
        let Some(link) = self.outgoing.carrier.links.get(&token) else { return };
        match link.is_read {
            true if link.is_broken || link.is_ours => self.end(now, token),
            true => self.peer_has_ended(now, token),
            false => {}
        }
    }

    /// Takes a packet. Returns false if the connection violates the protocol.
    fn take(&mut self, now: Instant, token: Token, packet: &Range<usize>) -> bool {
        let Some(link) = self.outgoing.carrier.links.get_mut(&token) else { return true };
        link.is_being_taken = false;
        let (descriptors, truncated) = link.take_descriptors(packet);
        let arrival = Arrival { credentials: Some(link.credentials), descriptors, truncated };
        let bytes = link.bytes(packet);
        let sender = self.inbox.take(now, bytes, arrival, &mut self.outgoing.counters);
        if self.inbox.take_secrecy() {
            link.erase(packet);
        }
        match (sender, link.peer) {
            (None, None) => return false,
            (Some(sender), None) => {
                link.peer = Some(sender);
                // Send answers over it.
                let _ = self.outgoing.adopt(now, sender, token);
            }
            (Some(sender), Some(peer)) if sender != peer => return false,
            (Some(sender), Some(_)) => {
                if self.outgoing.line(sender) == Some(&token) {
                    self.outgoing.used(now, sender);
                }
            }
            (None, Some(_)) => {}
        }
        true
    }

    /// Takes all packets that the sender of a connection's first packet has sent before over
    /// others, even those not accepted yet. A process numbers its messages.
    fn take_earlier(&mut self, now: Instant, token: Token, first: Option<(ServerId, u64)>) {
        let Some((sender, message_id)) = first else { return };
        self.outgoing.counters.forged += self.outgoing.carrier.accept(now, LINKS_MAX);
        let is_other = |(other, link): &(&Token, &Link)| match link.peer {
            _ if **other == token || link.is_being_taken => false,
            Some(peer) => peer == sender,
            None => link.credentials.pid == sender.pid,
        };
        let others = self.outgoing.carrier.links.iter().filter(is_other);
        let others: Vec<Token> = others.map(|(other, _)| *other).collect();
        for other in &others {
            self.fill(*other, READS_OF_OTHERS_MAX);
        }
        loop {
            let links = &self.outgoing.carrier.links;
            let next = |other: &Token| Some((links.get(other)?.first_number()?, *other));
            let Some((number, other)) = others.iter().filter_map(next).min() else { break };
            if number >= message_id {
                break;
            }
            let Some(link) = self.outgoing.carrier.links.get_mut(&other) else { break };
            link.has_spoken = true;
            let Ok(Some(packet)) = link.next_packet() else { break };
            if !self.take(now, other, &packet) {
                self.outgoing.counters.malformed += 1;
                self.end(now, other);
            }
        }
        self.filled.extend(others);
    }

    /// Handles the end of the peer's half: it sends nothing more, but still reads until our half
    /// ends.
    fn peer_has_ended(&mut self, now: Instant, token: Token) {
        self.outgoing.carrier.watch(token);
        self.end_if_done(now, token);
    }

    /// Closes a connection whose other half has ended, once nothing is left to send over it.
    fn end_if_done(&mut self, now: Instant, token: Token) {
        let Some(link) = self.outgoing.carrier.links.get(&token) else { return };
        if !link.is_read || link.has_rest() {
            return;
        }
        let is_clear = link.peer.is_none_or(|peer| {
            self.outgoing.line(peer) != Some(&token) || self.outgoing.is_clear(peer)
        });
        if is_clear {
            self.end(now, token);
        }
    }

    /// Removes a connection. Queued frames for its process use another, if the process lives.
    fn end(&mut self, now: Instant, token: Token) {
        let Some(link) = self.outgoing.carrier.remove(token) else { return };
        if let Some(peer) = link.peer
            && self.outgoing.line(peer) == Some(&token)
        {
            drop(link);
            self.outgoing.reconnect(now, peer);
        }
    }
}

impl Streams {
    /// Accepts connections of processes of this server. Returns the number of foreign ones.
    fn accept(&mut self, now: Instant, accepts: usize) -> u64 {
        let mut others = 0;
        for _ in 0..accepts {
            if self.links.len() >= LINKS_MAX {
                self.pause(now);
                break;
            }
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let accepted = match rustix::net::accept_with(&self.member.socket, flags) {
                Ok(accepted) => accepted,
                Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => break,
                // Out of descriptors or memory.
                Err(_) => {
                    self.pause(now);
                    break;
                }
            };
            match socket::peer_credentials(accepted.as_fd()) {
                Ok(credentials) if socket::is_of_server(credentials.uid, self.uid) => {
                    self.add(Link::new(accepted, false, None, credentials));
                }
                _ => others += 1,
            }
        }
        others
    }

    /// Leaves new connections to the kernel's queue for a while.
    fn pause(&mut self, now: Instant) {
        let _ = epoll::delete(&self.wake, &self.member.socket);
        self.accept_at = Some(now + ACCEPT_PAUSE);
    }

    fn resume(&mut self, now: Instant) {
        if self.accept_at.is_some_and(|at| at <= now) {
            self.accept_at = None;
            let data = epoll::EventData::new_u64(LISTENER);
            let _ = epoll::add(&self.wake, &self.member.socket, data, epoll::EventFlags::IN);
        }
    }

    fn add(&mut self, link: Link) -> Token {
        let token = self.next_token;
        self.next_token += 1;
        let data = epoll::EventData::new_u64(token);
        let _ = epoll::add(&self.wake, &link.socket, data, link.interest());
        self.links.insert(token, link);
        token
    }

    fn remove(&mut self, token: Token) -> Option<Link> {
        let link = self.links.remove(&token)?;
        self.awaited -= usize::from(link.is_awaited);
        let _ = epoll::delete(&self.wake, &link.socket);
        if link.is_left {
            self.half_closed.retain(|(half_closed, _)| *half_closed != token);
        }
        Some(link)
    }

    /// Updates the events that a connection is polled for.
    fn watch(&mut self, token: Token) {
        let Some(link) = self.links.get_mut(&token) else { return };
        let interest = link.interest();
        if interest != link.polled {
            link.polled = interest;
            let data = epoll::EventData::new_u64(token);
            let _ = epoll::modify(&self.wake, &link.socket, data, interest);
        }
    }

    /// Ends the own half of a left connection that has sent everything.
    fn after_write(&mut self, token: Token) {
        self.watch(token);
        let Some(link) = self.links.get_mut(&token) else { return };
        if link.is_left && !link.has_rest() && !link.has_ended {
            link.has_ended = true;
            // A failure means a broken connection, which the next read reports.
            let _ = rustix::net::shutdown(&link.socket, Shutdown::Write);
        }
    }

    /// Drops connections whose other half does not end, because their process does not read. Bytes
    /// sent to it stay readable, except an incomplete packet.
    fn give_up(&mut self, now: Instant) {
        for (_, until) in &mut self.half_closed {
            until.get_or_insert(now + HALF_CLOSED_TIMEOUT);
        }
        while let Some((oldest, Some(until))) = self.half_closed.front().copied()
            && until <= now
        {
            self.remove(oldest);
        }
    }
}

impl Carrier for Streams {
    type Line = Token;

    const PACKET_BYTES_MAX: usize = link::PACKET_BYTES_MAX;

    const DESCRIPTORS_MAX: usize = DESCRIPTORS_MAX;

    fn connect(&mut self, to: ServerId) -> Result<Token, Errno> {
        if self.links.len() >= LINKS_MAX {
            return Err(Errno::AGAIN);
        }
        let socket = self.member.members().connect(to, SocketType::STREAM)?;
        let credentials = socket::peer_credentials(socket.as_fd())?;
        // The socket's owner is not the process of its name.
        if credentials.pid != to.pid || !socket::is_of_server(credentials.uid, self.uid) {
            return Err(Errno::NOENT);
        }
        Ok(self.add(Link::new(socket, true, Some(to), credentials)))
    }

    fn push(
        &mut self,
        line: &mut Token,
        parts: [&[u8]; 2],
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), Errno> {
        let link = self.links.get_mut(line).ok_or(Errno::NOTCONN)?;
        if link.has_rest() {
            return Err(Errno::AGAIN);
        }
        let len = parts[0].len() + parts[1].len();
        let prefix = u32::try_from(len).map_err(|_| Errno::MSGSIZE)?.to_le_bytes();
        let parts = [&prefix[..], parts[0], parts[1]];
        let sent = socket::send(link.socket.as_fd(), &parts.map(IoSlice::new), descriptors)?;
        if sent < prefix.len() + len {
            link.keep_rest(parts, sent);
            self.watch(*line);
        }
        Ok(())
    }

    fn await_room(&mut self, _to: ServerId, line: &mut Token) {
        if let Some(link) = self.links.get_mut(line) {
            self.awaited += usize::from(!link.is_awaited);
            link.is_awaited = true;
        }
        self.watch(*line);
    }

    fn stop_awaiting(&mut self, _to: ServerId, line: &mut Token) {
        if let Some(link) = self.links.get_mut(line) {
            self.awaited -= usize::from(link.is_awaited);
            link.is_awaited = false;
        }
        self.watch(*line);
    }

    fn may_disconnect(&self) -> bool {
        self.half_closed.len() < HALF_CLOSED_MAX
    }

    fn has_left(&self, line: &Token) -> bool {
        self.links.get(line).is_none_or(|link| !link.has_rest())
    }

    fn disconnect(&mut self, line: Token) {
        self.stop_awaiting(ServerId::default(), &mut { line });
        // The peer closes connections that it created.
        let Some(link) = self.links.get_mut(&line).filter(|link| link.is_ours) else { return };
        if !std::mem::replace(&mut link.is_left, true) {
            self.half_closed.push_back((line, None));
        }
        self.after_write(line);
    }
}

impl Transport for Stream {
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
        self.outgoing.carrier.resume(now);
        if !self.outgoing.carrier.half_closed.is_empty() {
            self.outgoing.carrier.give_up(now);
        }
        if self.outgoing.carrier.awaited > 0 {
            self.turn(now);
        }
        self.outgoing.check_times(now);
    }

    fn poll_receive(&mut self, now: Instant) -> Option<Frame> {
        if self.inbox.is_empty() {
            // Save a look that most likely finds nothing; the wake source announces new packets.
            if std::mem::take(&mut self.is_drained) {
                return None;
            }
            self.inbox.expire(now, &mut self.outgoing.counters);
            self.turn(now);
            self.is_drained = !self.inbox.is_empty();
        }
        self.inbox.pop()
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
        let accept_at = self.outgoing.carrier.accept_at;
        let give_up_at = self.outgoing.carrier.half_closed.front().and_then(|(_, until)| *until);
        let times =
            [self.outgoing.next_timeout(), self.inbox.next_timeout(), accept_at, give_up_at];
        times.into_iter().flatten().min()
    }

    fn descriptors_max(&self) -> usize {
        Streams::DESCRIPTORS_MAX
    }

    fn members(&mut self) -> Result<Vec<ServerId>, InitError> {
        let (living, dead) = super::take_census(self.outgoing.carrier.member.members())?;
        dead.iter().for_each(|dead| self.outgoing.remove_dead(*dead));
        Ok(living)
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

impl Drop for Stream {
    fn drop(&mut self) {
        self.outgoing.flush_last();
    }
}

/// Key of the listening socket in the wake source.
const LISTENER: Token = 0;

/// Events after which a connection is read.
const READABLE: epoll::EventFlags =
    epoll::EventFlags::IN.union(epoll::EventFlags::HUP).union(epoll::EventFlags::ERR);

/// Highest number of connections in both directions; each is a descriptor. Further ones wait in the
/// kernel until others are closed, which happens soon to idle ones, and none are created.
const LINKS_MAX: usize = 1_024;

/// Highest number of left connections that wait for the end of the other half. At the maximum idle
/// connections are kept instead.
const HALF_CLOSED_MAX: usize = 64;

/// Time for which a left connection waits for the rest of a packet to leave and for the end of the
/// other half.
const HALF_CLOSED_TIMEOUT: Duration = Duration::from_secs(60);

/// Pause of accepting at the maximum of connections.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Connections accepted in one turn.
const ACCEPTS_PER_TURN_MAX: usize = 16;

/// Sockets handled in one turn.
const EVENTS_MAX: usize = 64;

/// Bytes received by one system call: two packets, and no less than the kernel buffers for a socket
/// that is written in small packets.
const READ_BYTES: usize = 128 * 1024;

/// System calls to empty a connection that its process has left: enough for all that the kernel
/// buffers.
const READS_OF_OTHERS_MAX: usize = 16;

/// System calls for one connection in one turn.
const READS_PER_TURN_MAX: usize = 4;

#[cfg(test)]
mod tests;
