//! Outgoing frames: packed into packets, and handed to a carrier or queued for it.
//!
//! The first frame to a process leaves at once. Frames that follow soon after wait until the end of
//! the caller's batch ([`Outgoing::flush`]) and leave together: a busy pair of processes pays per
//! packet and not per message.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::fmt;
use std::ops::Deref;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use dtyp::ServerId;
use rustix::io::Errno;
use zeroize::Zeroize;

use super::clock::Clock;
use super::owner::Owner;
use super::packet::{ENTRY_BYTES, Entry, HEAD_BYTES, HEADER_BYTES, Header};
use super::socket;
use crate::counters::Counters;
use crate::message;
use crate::transport::{FRAME_BYTES_MAX, SendError};

/// Carries packets to processes. A transport consists of a carrier and a way to receive.
pub(super) trait Carrier: fmt::Debug {
    /// Connection or route to one process.
    type Line: fmt::Debug;

    /// Highest number of bytes of a packet.
    const PACKET_BYTES_MAX: usize;

    /// Highest number of descriptors of a packet.
    const DESCRIPTORS_MAX: usize;

    /// Creates a line to a living process.
    ///
    /// # Errors
    /// `ENOENT` or `ECONNREFUSED` if the process is dead; `EAGAIN` if it cannot be reached now.
    fn connect(&mut self, to: ServerId) -> Result<Self::Line, Errno>;

    /// Sends a packet, given in two parts, whole or not at all.
    ///
    /// # Errors
    /// `EAGAIN` if there is no room. After any other error the line is unusable.
    fn push(
        &mut self,
        line: &mut Self::Line,
        parts: [&[u8]; 2],
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), Errno>;

    /// Makes the wake source readable once a full receiver may have room.
    fn await_room(&mut self, to: ServerId, line: &mut Self::Line);

    /// Ends the wait for room: nothing is queued any more.
    fn stop_awaiting(&mut self, to: ServerId, line: &mut Self::Line);

    /// True if idle lines can be closed now.
    fn may_disconnect(&self) -> bool {
        true
    }

    /// True if all pushed bytes have left. A line that has not sent everything stays in use: frames
    /// over a second line could overtake the rest.
    fn has_left(&self, _line: &Self::Line) -> bool {
        true
    }

    /// Closes an idle line. Pushed packets still arrive.
    fn disconnect(&mut self, line: Self::Line);
}

/// Bytes of a frame to send.
#[derive(Debug)]
pub enum FrameBytes<'a> {
    /// The caller keeps its buffer.
    Borrowed(&'a [u8]),
    /// Its buffer may be taken, in exchange for another.
    Buffer(&'a mut Vec<u8>),
}

impl Deref for FrameBytes<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Borrowed(frame) => frame,
            Self::Buffer(frame) => frame,
        }
    }
}

impl FrameBytes<'_> {
    /// Returns a buffer with the bytes: the own one in exchange for the empty `spare`, if possible.
    fn into_buffer(self, mut spare: Vec<u8>) -> Vec<u8> {
        match self {
            Self::Borrowed(frame) => spare.extend_from_slice(frame),
            Self::Buffer(frame) => std::mem::swap(frame, &mut spare),
        }
        spare
    }
}

/// Bounds of the number and the age of idle lines.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lines {
    /// Highest number of idle lines created here.
    pub(super) idle_max: usize,
    /// Time for which an idle line is kept.
    pub(super) idle: Duration,
}

/// Sending half of a transport.
#[derive(Debug)]
pub(super) struct Outgoing<C: Carrier> {
    pub(super) carrier: C,
    pub(super) counters: Counters,
    /// Receivers of dropped messages, until a caller takes them.
    pub(super) dropped_for: BTreeSet<ServerId>,
    server_id: ServerId,
    owner: Owner,
    clock: Clock,
    lines: Lines,
    peers: HashMap<ServerId, Peer<C::Line>>,
    /// Peers with frames that wait for [`Outgoing::flush`], and the time since when.
    held: Vec<ServerId>,
    held_since: Option<Instant>,
    next_message_id: u64,
    /// Time of the next check for expired frames and idle lines; not later than the first of them.
    check_at: Option<Instant>,
    /// Buffers of parcels that have left, to use again.
    spares: Vec<Vec<u8>>,
}

/// A receiver of frames, with its queue.
#[derive(Debug)]
struct Peer<L> {
    line: L,
    /// True if the line was created here, not by the peer.
    is_ours: bool,
    outbox: VecDeque<Parcel>,
    /// Number of frames in `outbox`, and their bytes.
    frames: u64,
    frame_bytes: usize,
    /// True while the peer is in `held`.
    is_held: bool,
    /// True while the receiver has no room.
    waits: bool,
    pushed_at: Option<Instant>,
    last_used: Instant,
}

/// A queued packet of small frames, or one frame that is larger or has descriptors.
#[derive(Debug)]
struct Parcel {
    content: Content,
    frames: u64,
    frame_bytes: usize,
    deadline: Instant,
}

#[derive(Debug)]
enum Content {
    /// A packet, ready to be sent.
    Packet(Vec<u8>),
    /// A frame, or its rest: `entry.offset` advances past the sent part.
    Frame {
        entry: Entry,
        frame: Vec<u8>,
        /// Descriptors not sent yet: they leave with the first part.
        descriptors: Vec<OwnedFd>,
    },
}

impl<C: Carrier> Outgoing<C> {
    pub(super) fn new(carrier: C, server_id: ServerId, clock: Clock, lines: Lines) -> Self {
        Self {
            carrier,
            counters: Counters::default(),
            dropped_for: BTreeSet::new(),
            server_id,
            owner: Owner::here(),
            clock,
            lines,
            peers: HashMap::new(),
            held: Vec::new(),
            held_since: None,
            next_message_id: 0,
            check_at: None,
            spares: Vec::new(),
        }
    }

    /// Sends a frame, or queues it until it can leave.
    pub(super) fn send(
        &mut self,
        now: Instant,
        to: ServerId,
        frame: FrameBytes<'_>,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), SendError> {
        let total = checked_total(&frame)?;
        checked_count(descriptors, C::DESCRIPTORS_MAX)?;
        self.connect(now, to)?;
        let message_id = self.next_message_id;
        self.next_message_id += 1;
        let sent_at = self.clock.nanoseconds(now);
        let mut entry = Entry { total, offset: 0, message_id, sent_at };
        let is_small = descriptors.is_empty() && may_be_packed(&frame, C::PACKET_BYTES_MAX);
        let fits = descriptors.is_empty() && HEAD_BYTES + frame.len() <= C::PACKET_BYTES_MAX;
        let peer = self.peers.get_mut(&to).ok_or(SendError::NoSuchProcess)?;
        peer.last_used = now;
        let is_soon = peer.pushed_at.is_some_and(|at| now < at + HOLD);
        let holds = is_small && is_soon;
        if !holds && !peer.waits {
            self.flush_peer(now, to);
        }
        let has_room = self.has_room(to, frame.len());
        // A frame of several packets must fit in the queue, for the case that only its first part
        // leaves.
        if !holds && (fits || has_room) && self.is_clear(to) {
            match self.push(now, to, &mut entry, &frame, descriptors) {
                Ok(()) => return Ok(()),
                Err(Errno::AGAIN) => self.counters.retries += 1,
                Err(error) if is_end_of_line(error) => {
                    self.reconnect(now, to);
                    self.connect(now, to)?;
                    entry.offset = 0;
                }
                Err(error) => return Err(system(error)),
            }
        }
        if !has_room {
            self.counters.refused += 1;
            return Err(SendError::Full);
        }
        let unsent = if entry.offset == 0 { descriptors } else { &[] };
        let descriptors = socket::duplicate(unsent).map_err(system)?;
        self.keep(now, to, entry, frame, descriptors);
        Ok(())
    }

    /// Flushes for the last time, on drop.
    pub(super) fn flush_last(&mut self) {
        if self.owner.is_here() {
            self.flush(Instant::now());
        }
    }

    /// Sends frames that were delayed to leave together.
    pub(super) fn flush(&mut self, now: Instant) {
        if self.held_since.take().is_none() {
            return;
        }
        let mut held = std::mem::take(&mut self.held);
        for to in held.drain(..) {
            if let Some(peer) = self.peers.get_mut(&to) {
                peer.is_held = false;
                if !peer.waits {
                    self.flush_peer(now, to);
                }
            }
        }
        // Failed ones are tried again with the next flush.
        held.append(&mut self.held);
        self.held = held;
    }

    /// True if [`Outgoing::flush`] has frames to send.
    pub(super) fn wants_flush(&self) -> bool {
        self.held_since.is_some()
    }

    /// Tries to send again after a receiver may have got room.
    pub(super) fn room(&mut self, now: Instant, to: ServerId) {
        if self.peers.get(&to).is_some_and(|peer| peer.waits) {
            self.flush_peer(now, to);
        }
    }

    /// True if no frame is queued for a process.
    pub(super) fn is_clear(&self, to: ServerId) -> bool {
        self.peers.get(&to).is_none_or(|peer| peer.outbox.is_empty())
    }

    /// Replaces an unusable line. If the process lives, queued frames use the new one.
    pub(super) fn reconnect(&mut self, now: Instant, to: ServerId) {
        let Some(old) = self.peers.remove(&to) else { return };
        self.carrier.disconnect(old.line);
        let line = if old.outbox.is_empty() { None } else { self.carrier.connect(to).ok() };
        let Some(line) = line else {
            for parcel in old.outbox {
                self.counters.lost += parcel.frames;
                self.left(&parcel);
            }
            return;
        };
        let mut peer = Peer::new(line, true, now);
        for parcel in old.outbox {
            // Its first part left over the old line, where the rest can no longer follow.
            if parcel.has_begun() {
                self.counters.lost += parcel.frames;
                self.left(&parcel);
                continue;
            }
            peer.frames += parcel.frames;
            peer.frame_bytes += parcel.frame_bytes;
            peer.outbox.push_back(parcel);
        }
        self.peers.insert(to, peer);
        self.hold(now, to);
    }

    /// Removes a dead process, with all frames queued for it.
    pub(super) fn remove_dead(&mut self, dead: ServerId) {
        self.dropped_for.remove(&dead);
        let Some(peer) = self.peers.remove(&dead) else { return };
        self.carrier.disconnect(peer.line);
        for parcel in peer.outbox {
            self.counters.lost += parcel.frames;
            self.left(&parcel);
        }
    }

    /// Drops frames that have waited too long, and closes idle lines.
    pub(super) fn check_times(&mut self, now: Instant) {
        if self.check_at.is_none_or(|check_at| check_at > now) {
            return;
        }
        let all: Vec<ServerId> = self.peers.keys().copied().collect();
        for to in all {
            let Some(peer) = self.peers.get_mut(&to) else { continue };
            while peer.outbox.front().is_some_and(|parcel| parcel.deadline <= now) {
                let Some(expired) = peer.pop() else { break };
                self.counters.dropped += expired.frames;
                self.dropped_for.insert(to);
                self.counters.queued -= expired.frames;
                self.counters.queued_bytes -= expired.frame_bytes as u64;
            }
            if peer.outbox.is_empty() && std::mem::take(&mut peer.waits) {
                self.carrier.stop_awaiting(to, &mut peer.line);
            }
            if !peer.outbox.is_empty() || peer.last_used + self.lines.idle > now {
                continue;
            }
            if !self.carrier.may_disconnect() || !self.carrier.has_left(&peer.line) {
                peer.last_used = now;
            } else if let Some(peer) = self.peers.remove(&to) {
                self.carrier.disconnect(peer.line);
            }
        }
        let times = self.peers.values().map(|peer| match peer.outbox.front() {
            Some(parcel) => parcel.deadline,
            None => peer.last_used + self.lines.idle,
        });
        self.check_at = times.min();
    }

    /// Time of the next work that depends on nothing else.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        [self.check_at, self.held_since].into_iter().flatten().min()
    }

    /// Creates a line to a process, unless it exists.
    fn connect(&mut self, now: Instant, to: ServerId) -> Result<(), SendError> {
        if self.peers.contains_key(&to) {
            return Ok(());
        }
        let line = match self.carrier.connect(to) {
            Err(Errno::NOENT | Errno::CONNREFUSED | Errno::PROTOTYPE | Errno::SRCH) => {
                return Err(SendError::NoSuchProcess);
            }
            Err(Errno::AGAIN) => {
                self.counters.refused += 1;
                return Err(SendError::Full);
            }
            line => line.map_err(system)?,
        };
        self.make_place();
        if self.peers.len() >= PEERS_MAX {
            self.carrier.disconnect(line);
            self.counters.refused += 1;
            return Err(SendError::Full);
        }
        self.peers.insert(to, Peer::new(line, true, now));
        self.check_by(now + self.lines.idle);
        Ok(())
    }

    /// Closes the line that has been idle for longest if the maximum is reached.
    fn make_place(&mut self) {
        let lines_max = self.lines.idle_max.min(PEERS_MAX);
        if self.peers.len() < lines_max || !self.carrier.may_disconnect() {
            return;
        }
        let has_left = |peer: &Peer<C::Line>| self.carrier.has_left(&peer.line);
        let is_idle =
            |peer: &Peer<C::Line>| peer.is_ours && peer.outbox.is_empty() && has_left(peer);
        let idle = || self.peers.iter().filter(|(_, peer)| is_idle(peer));
        if idle().count() < lines_max && self.peers.len() < PEERS_MAX {
            return;
        }
        let longest = idle().min_by_key(|(_, peer)| peer.last_used).map(|(id, _)| *id);
        if let Some(peer) = longest.and_then(|longest| self.peers.remove(&longest)) {
            self.carrier.disconnect(peer.line);
        }
    }

    /// True if a frame of `len` bytes may be queued for `to`.
    fn has_room(&self, to: ServerId, len: usize) -> bool {
        let peer = self.peers.get(&to);
        let (frames, bytes) = peer.map_or((0, 0), |peer| (peer.frames, peer.frame_bytes));
        frames < QUEUE_MESSAGES_MAX
            && bytes + len <= QUEUE_BYTES_MAX
            && self.counters.queued_bytes + len as u64 <= QUEUES_BYTES_MAX
    }

    /// Sends a frame without queueing it.
    fn push(
        &mut self,
        now: Instant,
        to: ServerId,
        entry: &mut Entry,
        frame: &[u8],
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), Errno> {
        let peer = self.peers.get_mut(&to).ok_or(Errno::NOENT)?;
        let ends = (self.server_id, to);
        push_frame(&mut self.carrier, &mut peer.line, ends, entry, (frame, descriptors))?;
        peer.pushed_at = Some(now);
        self.counters.sent += 1;
        self.counters.bytes_sent += frame.len() as u64;
        Ok(())
    }

    /// Queues a frame. There is room for it.
    fn keep(
        &mut self,
        now: Instant,
        to: ServerId,
        entry: Entry,
        frame: FrameBytes<'_>,
        descriptors: Vec<OwnedFd>,
    ) {
        let frame_len = frame.len();
        let Some(peer) = self.peers.get_mut(&to) else { return };
        let deadline = now + QUEUE_TIMEOUT;
        let len = ENTRY_BYTES + frame_len;
        let is_small = descriptors.is_empty()
            && entry.offset == 0
            && may_be_packed(&frame, C::PACKET_BYTES_MAX);
        let mut is_full = true;
        match peer.outbox.back_mut() {
            Some(Parcel { content: Content::Packet(packet), frames, frame_bytes, .. })
                if is_small && packet.len() + len <= C::PACKET_BYTES_MAX =>
            {
                packet.extend_from_slice(&entry.encode());
                packet.extend_from_slice(&frame);
                *frames += 1;
                *frame_bytes += frame_len;
                is_full = packet.len() + len > C::PACKET_BYTES_MAX;
            }
            last => {
                if let Some(Parcel { content: Content::Packet(packet), .. }) = last {
                    packet.shrink_to_fit();
                }
                let mut packet = self.spares.pop().unwrap_or_default();
                packet.clear();
                let content = if is_small {
                    packet.extend_from_slice(&header(self.server_id, to, 0).encode());
                    packet.extend_from_slice(&entry.encode());
                    packet.extend_from_slice(&frame);
                    is_full = packet.len() + len > C::PACKET_BYTES_MAX;
                    Content::Packet(packet)
                } else {
                    Content::Frame { entry, frame: frame.into_buffer(packet), descriptors }
                };
                let parcel = Parcel { content, frames: 1, frame_bytes: frame_len, deadline };
                peer.outbox.push_back(parcel);
            }
        }
        peer.frames += 1;
        peer.frame_bytes += frame_len;
        self.counters.queued += 1;
        self.counters.queued_bytes += frame_len as u64;
        self.check_by(deadline);
        if self.peers.get(&to).is_some_and(|peer| peer.waits) {
            return;
        }
        self.hold(now, to);
        if is_full {
            self.flush_peer(now, to);
        }
    }

    /// Marks this process for the next flush.
    fn hold(&mut self, now: Instant, to: ServerId) {
        if let Some(peer) = self.peers.get_mut(&to)
            && !std::mem::replace(&mut peer.is_held, true)
        {
            self.held.push(to);
            self.held_since.get_or_insert(now);
        }
    }

    /// Sends queued frames to a process while there is room.
    fn flush_peer(&mut self, now: Instant, to: ServerId) {
        let Some(peer) = self.peers.get_mut(&to) else { return };
        while let Some(parcel) = peer.outbox.front_mut() {
            match parcel.push(&mut self.carrier, &mut peer.line, (self.server_id, to)) {
                Ok(()) => {}
                Err(Errno::AGAIN) => {
                    self.counters.retries += 1;
                    peer.waits = true;
                    return self.carrier.await_room(to, &mut peer.line);
                }
                // A line that never carried a packet is not replaced: the next would fail, too.
                Err(error) if is_end_of_line(error) && peer.pushed_at.is_some() => {
                    return self.reconnect(now, to);
                }
                Err(_) => return self.remove_dead(to),
            }
            peer.pushed_at = Some(now);
            peer.last_used = now;
            let Some(mut sent) = peer.pop() else { break };
            self.counters.sent += sent.frames;
            self.counters.bytes_sent += sent.frame_bytes as u64;
            self.counters.queued -= sent.frames;
            self.counters.queued_bytes -= sent.frame_bytes as u64;
            let buffer = sent.take_buffer();
            if self.spares.len() < SPARES_MAX && buffer.capacity() <= SPARE_BYTES_MAX {
                self.spares.push(buffer);
            }
        }
        if std::mem::take(&mut peer.waits) {
            self.carrier.stop_awaiting(to, &mut peer.line);
        }
    }

    fn left(&mut self, parcel: &Parcel) {
        self.counters.queued -= parcel.frames;
        self.counters.queued_bytes -= parcel.frame_bytes as u64;
    }

    fn check_by(&mut self, time: Instant) {
        self.check_at = Some(self.check_at.map_or(time, |check_at| check_at.min(time)));
    }
}

#[cfg(any(feature = "messaging-stream", test))]
impl<C: Carrier> Outgoing<C> {
    /// Returns the line to a process, if it exists.
    pub(super) fn line(&self, to: ServerId) -> Option<&C::Line> {
        self.peers.get(&to).map(|peer| &peer.line)
    }
}

/// Methods for lines in both directions.
#[cfg(feature = "messaging-stream")]
impl<C: Carrier> Outgoing<C> {
    /// Marks a line as used after a receipt over it.
    pub(super) fn used(&mut self, now: Instant, to: ServerId) {
        if let Some(peer) = self.peers.get_mut(&to) {
            peer.last_used = now;
        }
    }

    /// Uses a line that another process created for sending to it, unless one exists. Returns the
    /// line in that case.
    pub(super) fn adopt(&mut self, now: Instant, to: ServerId, line: C::Line) -> Option<C::Line> {
        if self.peers.contains_key(&to) || self.peers.len() >= PEERS_MAX {
            return Some(line);
        }
        self.peers.insert(to, Peer::new(line, false, now));
        self.check_by(now + self.lines.idle);
        None
    }
}

impl<L> Peer<L> {
    fn new(line: L, is_ours: bool, now: Instant) -> Self {
        Self {
            line,
            is_ours,
            outbox: VecDeque::new(),
            frames: 0,
            frame_bytes: 0,
            is_held: false,
            waits: false,
            pushed_at: None,
            last_used: now,
        }
    }

    fn pop(&mut self) -> Option<Parcel> {
        let parcel = self.outbox.pop_front()?;
        self.frames -= parcel.frames;
        self.frame_bytes -= parcel.frame_bytes;
        Some(parcel)
    }
}

impl Parcel {
    /// Takes the bytes, to use their memory again. Those that are secret are erased.
    fn take_buffer(&mut self) -> Vec<u8> {
        let (Content::Packet(buffer) | Content::Frame { frame: buffer, .. }) = &mut self.content;
        if message::is_secret(buffer) {
            buffer.zeroize();
        }
        std::mem::take(buffer)
    }

    fn push<C: Carrier>(
        &mut self,
        carrier: &mut C,
        line: &mut C::Line,
        ends: (ServerId, ServerId),
    ) -> Result<(), Errno> {
        match &mut self.content {
            Content::Packet(packet) => carrier.push(line, [packet, &[]], &[]),
            Content::Frame { entry, frame, descriptors } => {
                let borrowed = socket::borrow(descriptors);
                let pushed = push_frame(carrier, line, ends, entry, (frame, &borrowed));
                if entry.offset > 0 {
                    descriptors.clear();
                }
                pushed
            }
        }
    }

    /// True if its first part has left.
    fn has_begun(&self) -> bool {
        match &self.content {
            Content::Packet(_) => false,
            Content::Frame { entry, .. } => entry.offset > 0,
        }
    }
}

impl Drop for Parcel {
    fn drop(&mut self) {
        self.take_buffer();
    }
}

/// Sends a frame from `entry.offset` on, which advances past the sent parts.
fn push_frame<C: Carrier>(
    carrier: &mut C,
    line: &mut C::Line,
    (from, to): (ServerId, ServerId),
    entry: &mut Entry,
    (frame, descriptors): (&[u8], &[BorrowedFd<'_>]),
) -> Result<(), Errno> {
    loop {
        let offset = entry.offset as usize;
        let end = frame.len().min(offset + C::PACKET_BYTES_MAX - HEADER_BYTES - ENTRY_BYTES);
        let descriptors = if offset == 0 { descriptors } else { &[] };
        let count = u16::try_from(descriptors.len()).expect("DESCRIPTORS_MAX is small");
        let mut head = [0; HEADER_BYTES + ENTRY_BYTES];
        head[..HEADER_BYTES].copy_from_slice(&header(from, to, count).encode());
        head[HEADER_BYTES..].copy_from_slice(&entry.encode());
        carrier.push(line, [&head, &frame[offset..end]], descriptors)?;
        entry.offset = u32::try_from(end).expect("a frame is shorter than FRAME_BYTES_MAX");
        if end == frame.len() {
            return Ok(());
        }
    }
}

fn header(sender: ServerId, receiver: ServerId, descriptors: u16) -> Header {
    Header { descriptors, sender, receiver }
}

/// True for a frame that is packed with others: a packet has room for four of its size. Larger ones
/// gain little by that, and would have to be copied into the packet. Secret ones are not copied, so
/// that one buffer is to be erased.
fn may_be_packed(frame: &[u8], packet_bytes_max: usize) -> bool {
    HEADER_BYTES + 4 * (ENTRY_BYTES + frame.len()) <= packet_bytes_max && !message::is_secret(frame)
}

/// Returns the length of a frame, unless it exceeds the maximum.
fn checked_total(frame: &[u8]) -> Result<u32, SendError> {
    let len = frame.len();
    let total = u32::try_from(len).ok().filter(|_| len <= FRAME_BYTES_MAX);
    total.ok_or(SendError::TooLarge { len, max: FRAME_BYTES_MAX })
}

/// Refuses more descriptors than a frame may carry.
fn checked_count(descriptors: &[BorrowedFd<'_>], max: usize) -> Result<(), SendError> {
    match descriptors.len() {
        0 => Ok(()),
        _ if max == 0 => Err(SendError::NoDescriptors),
        count if count > max => Err(SendError::TooManyDescriptors { count, max }),
        _ => Ok(()),
    }
}

/// True for an error that means that the process at the other end of a line is gone.
fn is_end_of_line(error: Errno) -> bool {
    let ends = [
        Errno::CONNREFUSED,
        Errno::CONNRESET,
        Errno::NOENT,
        Errno::NOTCONN,
        Errno::PIPE,
        Errno::SRCH,
    ];
    ends.contains(&error)
}

fn system(error: Errno) -> SendError {
    SendError::System(error.raw_os_error())
}

/// Time after a packet in which the next frame to the same process waits for others to leave with
/// it. It adds no delay: such frames leave with the next flush, at the end of the caller's turn.
const HOLD: Duration = Duration::from_millis(1);

/// Highest number of spare buffers: as many large packets as a socket takes at once.
const SPARES_MAX: usize = 4;

/// Capacity in bytes up to which a spare buffer is kept: that of a packet, as vectors grow.
const SPARE_BYTES_MAX: usize = 128 * 1024;

/// Highest number of lines at once; each costs a descriptor or more.
const PEERS_MAX: usize = 256;

/// Highest number of messages queued for one process.
const QUEUE_MESSAGES_MAX: u64 = 4_096;

/// Highest number of bytes queued for one process: two frames of the largest size.
const QUEUE_BYTES_MAX: usize = 2 * FRAME_BYTES_MAX;

/// Highest number of bytes queued for all processes together.
const QUEUES_BYTES_MAX: u64 = 4 * QUEUE_BYTES_MAX as u64;

/// Time after which a queued message is dropped. A worker that takes nothing for a minute has other
/// troubles than a lost message.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::{Content, Entry, Parcel, may_be_packed};
    use crate::kind::MessageKind;
    use crate::message;

    fn frame(kind: MessageKind) -> Vec<u8> {
        let mut frame = Vec::new();
        message::Content::new(kind, b"key").encode(&mut frame).expect("it is short");
        frame
    }

    #[test]
    fn frames_with_keys_are_erased_before_their_memory_is_used_again() {
        let parcel = |frame| Parcel {
            content: Content::Frame {
                entry: Entry { total: 11, offset: 0, message_id: 1, sent_at: 0 },
                frame,
                descriptors: Vec::new(),
            },
            frames: 1,
            frame_bytes: 11,
            deadline: Instant::now(),
        };
        let (secret, ping) = (frame(MessageKind::LOGON_CHECKED), frame(MessageKind::PING));
        assert_eq!(parcel(ping.clone()).take_buffer(), ping);
        let erased = parcel(secret.clone()).take_buffer();
        assert!(erased.is_empty() && erased.capacity() >= 11, "the memory stays");
        assert!(may_be_packed(&ping, 4_096));
        assert!(!may_be_packed(&secret, 4_096), "no packet has a copy");
    }
}
