//! The bytes of one connection: frames in, frames out.
//!
//! A `Transport` has buffers, queues and limits, and makes operations for the ring; `turn` submits
//! them and hands their results back. At most one receive and one send are under way, each of which
//! owns its buffers meanwhile. It knows nothing of SMB2 but the length of a frame.

pub(super) mod confirmations;
mod filling;
mod lane;
mod sending;

use std::collections::VecDeque;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::{Duration, Instant};
use std::{fmt, io};

use bytes::{Buf, BytesMut};
use object::Piped;
use proto::{Charge, ConnectionId, MemoryAccount, Transmit};
use trace::{Answered, Moment};
use uring::Op;
use wire::frame::{self, FrameHeader, FrameType};

pub(crate) use self::sending::make_whole;
use super::arrival::Arrival;
use super::framing::{FRAME_TIMEOUT, make_room, missing, wanted};
use super::lanes::{LaneFrame, LaneId, Outgoing};
use super::piping::probes::Probes;
use confirmations::Confirmations;
pub(super) use filling::Filled;
use filling::{FRONT_LEN, Filling, Source};

/// Bytes to receive at once while no frame is known to be longer. Large enough for a burst of
/// small requests and for a WRITE of 64 KiB with its header, small enough that the head of a large
/// WRITE is copied cheaply.
const RECEIVE_LEN: usize = 68 * 1024;

/// Bytes that are received at once without a session, beside other connections of a client: a token
/// of a ticket takes a few receives.
const STRANGERS_RECEIVE_LEN: usize = 4 * 1024;

/// Bytes that are received at once if the frame before had as many: a WRITE of 1 MiB. A client that
/// writes nothing more keeps as much memory.
const EXPECTED_LEN_MAX: usize = 1024 * 1024 + 4 * 1024;

/// Longest request of a NetBIOS session that is read: two names with scopes (RFC 1002 4.3.2).
const SESSION_REQUEST_LEN_MAX: usize = 512;

/// Highest number of unsent frames of a connection. Bytes alone are no bound: a small frame takes
/// more memory than its length.
const OUTGOING_FRAMES_MAX: usize = 1_024;

/// Frames that may wait in buffers that are much too large for them, as a READ at the end of a file
/// leaves them. Further ones are copied.
const SPACIOUS_FRAMES_MAX: usize = 16;

/// Highest number of unsent bytes to a client over all of its connections. Only the answers to one
/// frame of each connection may exceed it.
///
/// A connection may use as much as remains free: one alone has half, and a client that does not
/// read from one leaves room to the others. Beyond that, the worker neither receives from the
/// connection nor serves its received requests: those of one receive alone could request gigabytes.
const OUTGOING_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Longest answers that are sent by the call that waits for the next request: a READ of 4 KiB with
/// its header, and a few small ones. More bytes take so long that the send gets a call of its own,
/// and a phase of its own in traces.
const SENT_WAITING_MAX: usize = 6 * 1024;

/// Longest time to send the last answers after the engine has ended a connection. A client that
/// acknowledges packets and reads nothing would otherwise keep its worker for ever.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// A TCP connection with its buffers and queues.
#[derive(Debug)]
pub(super) struct Transport {
    socket: TcpStream,
    /// Received bytes before the end of a frame. Absent while a receive writes into them.
    received: Option<BytesMut>,
    /// Frame whose end goes into a pipe. The next received bytes belong to it.
    filling: Option<Filling>,
    /// Lowest number of missing bytes of a WRITE that go into a pipe; `None` if no WRITE does.
    piped_write_min: Option<usize>,
    /// Number of times that the capacity of new pipes was doubled, because pages from the network
    /// were nearly empty.
    page_doublings: u32,
    /// Bytes of the last frame: large files are written in pieces of one length.
    last_length: usize,
    /// Results of a lane for the whole frames in `received`.
    checked: VecDeque<LaneFrame>,
    pub(super) arrival: Arrival,
    queued: VecDeque<Outgoing>,
    queued_bytes: usize,
    /// Requests answered by the queued frames, one entry for each frame.
    answered: VecDeque<Answered>,
    /// The same for frames in transmission, here or by the lane.
    sending: VecDeque<Answered>,
    /// Memory of all frames that the kernel has not taken: queued or in transmission.
    outgoing: Charge,
    /// Reservation for data that the store reads now and that will be queued here.
    reserved: Charge,
    /// The memory of the frame that is here in part, if it is a long one.
    frame_memory: Option<Charge>,
    /// Start of the wait for the rest of a partly received frame, by the clock of
    /// [`proto::Now::monotonic`].
    frame_since: Option<Duration>,
    /// Bytes of frames that the lane has and has not sent.
    lane_bytes: usize,
    lane: Option<LaneId>,
    last_bulk: Option<Instant>,
    last_bulk_received: Option<Instant>,
    /// All bytes that were queued since the connection began.
    queued_total: u64,
    /// Bytes of `queued_total` that the kernel has taken.
    taken_total: u64,
    confirmations: Confirmations,
    /// Choice between memory and pipe for large reads and writes.
    pub(super) probes: Probes,
    pub(super) write_probes: Probes,
    is_sending: bool,
    /// A part of the first queued frame has left.
    is_front_begun: bool,
    /// The socket has not taken all of the last frames.
    is_full: bool,
    /// The engine has ended the connection: close it when the queued frames have left.
    pub(super) is_closing: bool,
    /// Deadline for the queued frames: the connection is closed then.
    drain_by: Option<Instant>,
    /// True while the connection is offered to another worker: nothing is received from it.
    pub(super) is_in_handover: bool,
}

/// Fault of the received bytes, for which the connection ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum FrameError {
    /// A frame is longer than this connection may send.
    TooLong { length: usize, max: usize },
    /// Neither a message nor a keep-alive, nor the first request of a NetBIOS session.
    UnknownType,
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { length, max } => write!(f, "a frame of {length} bytes, above {max}"),
            Self::UnknownType => f.write_str("a frame of an unknown type"),
        }
    }
}

impl Transport {
    pub(super) fn new(socket: TcpStream, memory: &MemoryAccount) -> Self {
        Self {
            socket,
            received: Some(BytesMut::new()),
            filling: None,
            piped_write_min: None,
            page_doublings: 0,
            last_length: 0,
            checked: VecDeque::new(),
            arrival: Arrival::default(),
            queued: VecDeque::new(),
            queued_bytes: 0,
            answered: VecDeque::new(),
            sending: VecDeque::new(),
            outgoing: memory.pass(0),
            reserved: memory.pass(0),
            frame_memory: None,
            frame_since: None,
            lane_bytes: 0,
            lane: None,
            last_bulk: None,
            last_bulk_received: None,
            queued_total: 0,
            taken_total: 0,
            confirmations: Confirmations::default(),
            probes: Probes::default(),
            write_probes: Probes::default(),
            is_sending: false,
            is_front_begun: false,
            is_full: false,
            is_closing: false,
            drain_by: None,
            is_in_handover: false,
        }
    }

    /// Returns the client's address and the server's.
    ///
    /// # Errors
    /// The connection is gone.
    pub(super) fn addresses(&self) -> io::Result<(SocketAddr, SocketAddr)> {
        Ok((self.socket.peer_addr()?, self.socket.local_addr()?))
    }

    /// The socket, to pass it on.
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Small frames leave at once: Nagle's algorithm would hold them back.
    pub(super) fn send_small_frames_at_once(&self) {
        if let Err(error) = self.socket.set_nodelay(true) {
            tracing::debug!("TCP_NODELAY: {error}");
        }
    }

    /// The operation that receives more, unless one is under way or the client has to read first,
    /// or there is no memory for the frame that comes. With `expects_more`, a long frame is
    /// expected after a long one.
    pub(super) fn receive(&mut self, expects_more: bool) -> Option<Op> {
        if self.is_closing || self.is_in_handover {
            return None;
        }
        if let Some(filling) = &mut self.filling {
            let before = std::mem::replace(&mut filling.source, Source::Polled);
            let is_new = before != Source::Polled;
            return is_new.then(|| Op::PollReadable { fd: self.socket.as_raw_fd() });
        }
        let mut wanted = wanted(self.received.as_ref()?, RECEIVE_LEN);
        if wanted > RECEIVE_LEN && !self.take_frame_memory() {
            // The server receives nothing more for now, so the client has no deadline.
            self.frame_since = None;
            return None;
        }
        let mut buffer = self.received.take()?;
        // The rest of a long frame, which comes as fast as the client can send it.
        let whole = wanted == missing(&buffer);
        if buffer.is_empty() {
            self.arrival.expect_new();
            let is_long = (RECEIVE_LEN..=EXPECTED_LEN_MAX).contains(&self.last_length);
            wanted = match self.piped_write_min {
                // Bytes received into memory could not go into a pipe any more.
                Some(_) if is_long => FRONT_LEN,
                _ if expects_more && is_long => wanted.max(self.last_length),
                _ => wanted,
            };
        }
        make_room(&mut buffer, wanted);
        let socket = self.socket.as_raw_fd();
        Some(Op::Receive { socket, buffer, limit: wanted, poll_first: !whole, whole })
    }

    /// As [`Transport::receive`], for a stranger's or guest's connection beside a user's: the
    /// frames of one receive are served before those of another connection.
    #[cold]
    pub(super) fn receive_little(&mut self) -> Option<Op> {
        match self.receive(false)? {
            Op::Receive { socket, buffer, limit, .. } => {
                let limit = limit.min(STRANGERS_RECEIVE_LEN);
                Some(Op::Receive { socket, buffer, limit, poll_first: true, whole: false })
            }
            other => Some(other),
        }
    }

    /// Takes back what [`Transport::receive`] lent, with what came at `at`.
    pub(super) fn received(&mut self, buffer: BytesMut, at: Moment) {
        self.arrival.received(at);
        self.received = Some(buffer);
    }

    /// Whether something was received that is not taken yet.
    pub(super) fn has_received(&self) -> bool {
        self.received.as_ref().is_some_and(|buffer| !buffer.is_empty())
    }

    /// The next whole frame, without its length. `length_max` returns the highest length, which is
    /// never below [`RECEIVE_LEN`].
    // Inlined like other small functions of this path: as calls, they cost a small request hundreds
    // of instructions.
    #[inline(always)]
    pub(super) fn next_frame(
        &mut self,
        length_max: impl Fn() -> usize,
    ) -> Result<Option<BytesMut>, FrameError> {
        let Some(buffer) = &mut self.received else { return Ok(None) };
        let Some(head) = buffer.first_chunk() else { return Ok(None) };
        let header = FrameHeader::decode(*head);
        let is_short = header.length <= RECEIVE_LEN || header.length <= length_max();
        if header.frame_type != FrameType::SESSION_MESSAGE || !is_short {
            return self.next_after_other(header, length_max);
        }
        if buffer.len() < frame::SIZE + header.length {
            return Ok(None);
        }
        buffer.advance(frame::SIZE);
        let frame = buffer.split_to(header.length);
        self.note_whole_frame(frame::SIZE + header.length);
        Ok(Some(frame))
    }

    /// Takes the next frame after a keep-alive or a session request of NetBIOS.
    #[cold]
    fn next_after_other(
        &mut self,
        mut header: FrameHeader,
        length_max: impl Fn() -> usize,
    ) -> Result<Option<BytesMut>, FrameError> {
        let Some(buffer) = &mut self.received else { return Ok(None) };
        // RFC 1002 4.3.6: a keep-alive says nothing and is not answered.
        while header.frame_type == FrameType::SESSION_KEEP_ALIVE && header.length == 0 {
            buffer.advance(frame::SIZE);
            let Some(head) = buffer.first_chunk() else { return Ok(None) };
            header = FrameHeader::decode(*head);
        }
        let FrameHeader { frame_type, length } = header;
        match frame_type {
            FrameType::SESSION_MESSAGE if length > length_max() => {
                Err(FrameError::TooLong { length, max: length_max() })
            }
            FrameType::SESSION_MESSAGE => self.next_frame(length_max),
            FrameType::SESSION_REQUEST => self.answer_session_request(length, length_max),
            _ => Err(FrameError::UnknownType),
        }
    }

    /// Takes the lane's result for the next frame.
    pub(super) fn take_checked(&mut self) -> LaneFrame {
        self.checked.pop_front().unwrap_or_default()
    }

    /// Answers the request of a NetBIOS session, the first frame on port 139: RFC 1002 4.3.2. Any
    /// name is right, as NEGOTIATE does not ask for one either. Returns the frame behind it.
    #[cold]
    fn answer_session_request(
        &mut self,
        length: usize,
        length_max: impl Fn() -> usize,
    ) -> Result<Option<BytesMut>, FrameError> {
        // A second one would let a client that reads nothing fill the queue.
        if length > SESSION_REQUEST_LEN_MAX || self.queued_total > 0 {
            return Err(FrameError::UnknownType);
        }
        let Some(buffer) = &mut self.received else { return Ok(None) };
        if buffer.len() < frame::SIZE + length {
            return Ok(None);
        }
        buffer.advance(frame::SIZE + length);
        let response = [FrameType::POSITIVE_SESSION_RESPONSE.0, 0, 0, 0];
        self.queue(Transmit {
            connection: ConnectionId::NONE,
            frame: BytesMut::from(&response[..]),
            piped: None,
            protection: None,
            confirmation: None,
            answered: Answered::default(),
        });
        self.next_frame(length_max)
    }

    /// Takes memory for the frame that is here in part. Returns whether there is room for it.
    pub(super) fn take_frame_memory(&mut self) -> bool {
        let Some(buffer) = &self.received else { return false };
        let whole = buffer.len() + missing(buffer);
        if self.frame_memory.as_ref().is_none_or(|it| it.bytes() < whole) {
            self.frame_memory = None;
            self.frame_memory = self.outgoing.account().receive(whole);
        }
        self.frame_memory.is_some()
    }

    /// True if a frame is here in part, or was before the last receive.
    pub(super) fn has_partial_frame(&self) -> bool {
        self.frame_since.is_some() || self.filling.is_some() || self.has_received()
    }

    /// Starts or ends the wait for the rest of a frame. Time in which the server receives nothing
    /// (`is_received`) does not count.
    pub(super) fn time_frame(&mut self, now: Duration, is_received: bool) {
        let is_partial = match (&self.received, &self.filling) {
            (_, Some(_)) => true,
            (Some(buffer), None) => !buffer.is_empty(),
            // A receive is under way, whatever the other connections wait for.
            (None, None) => return,
        };
        let since = self.frame_since.unwrap_or(now);
        self.frame_since = (is_partial && is_received).then_some(since);
    }

    /// Returns the deadline for the rest of a partly received frame.
    pub(super) fn frame_deadline(&self) -> Option<Duration> {
        self.frame_since.filter(|_| !self.is_closing).map(|since| since + FRAME_TIMEOUT)
    }

    /// Notes the length of a taken frame, header included: the next one may be as long.
    fn note_whole_frame(&mut self, bytes: usize) {
        (self.frame_memory, self.frame_since, self.last_length) = (None, None, bytes);
    }

    /// Puts a frame behind those that wait.
    pub(super) fn queue(&mut self, transmit: Transmit) {
        let Transmit { mut frame, piped, protection, confirmation, answered, .. } = transmit;
        if self.answered.len() >= SPACIOUS_FRAMES_MAX && frame.capacity() > 2 * frame.len() {
            frame = BytesMut::from(&frame[..]);
        }
        let outgoing = Outgoing { frame, piped, protection };
        self.answered.push_back(answered);
        self.queued_bytes += outgoing.length();
        self.outgoing.add(outgoing.length());
        self.queued_total += count(outgoing.length());
        self.queued.push_back(outgoing);
        if let Some(id) = confirmation {
            self.expect_confirmation(id);
        }
    }

    /// Sends all queued frames, unless a send is under way.
    ///
    /// Nearly always the socket accepts everything at once. So a few bytes are left to the call
    /// that waits for the next request, if the ring can do both in one (`waits_with_sends`). More
    /// are sent here; the rest, and any failure, is left to the operation that this function
    /// returns. Sent frames are given to `done`, with the pipes that they ended in.
    #[inline(always)]
    pub(super) fn send(
        &mut self,
        waits_with_sends: bool,
        done: impl FnMut(BytesMut, Option<Piped>),
    ) -> Option<Op> {
        if self.is_sending || self.queued.is_empty() {
            return None;
        }
        if self.queued.iter().any(|it| it.protection.is_some()) {
            self.protect();
        }
        let is_little = self.queued_bytes <= SENT_WAITING_MAX && !self.has_piped();
        if waits_with_sends && is_little && !self.is_full {
            // Their requests end here: there is room again.
            self.answered.drain(..).for_each(Answered::end_with_waiting);
            (self.is_sending, self.queued_bytes) = (true, 0);
            let buffers = self.queued.drain(..).map(|it| it.frame.freeze().into()).collect();
            return Some(Op::SendAtOnce { socket: self.socket.as_raw_fd(), buffers });
        }
        self.send_now(done)
    }

    /// Counts bytes that the store reads for this connection.
    pub(super) fn reserve(&mut self, bytes: usize) {
        self.reserved.add(bytes);
    }

    /// Ends a reservation: the bytes were read, or the READ has failed.
    pub(super) fn end_reservation(&mut self, bytes: usize) {
        self.reserved.sub(bytes);
    }

    /// Unsent bytes: frames that the kernel has not taken, and data that the store reads now.
    pub(super) fn outgoing_bytes(&self) -> usize {
        self.outgoing.bytes() + self.reserved.bytes()
    }

    /// True if the client must read answers before more of its requests are served here; `waiting`
    /// returns the unsent bytes on all of its connections.
    pub(super) fn must_drain(&self, waiting: impl FnOnce() -> usize) -> bool {
        let here = self.outgoing_bytes();
        let in_transit_max = self.outgoing.account().in_transit_max();
        let is_much = || here > OUTGOING_BYTES_MAX.min(in_transit_max).saturating_sub(waiting());
        here > 0 && (self.answered.len() >= OUTGOING_FRAMES_MAX || is_much())
    }

    /// Whether something is queued that no send has taken yet.
    pub(super) fn wants_to_send(&self) -> bool {
        !self.is_sending && !self.queued.is_empty()
    }

    /// Whether everything that was queued has left.
    pub(super) fn is_drained(&self) -> bool {
        self.outgoing.bytes() == 0
    }

    /// Whether the engine has ended the connection, and nothing is left to wait for.
    pub(super) fn is_over(&self) -> bool {
        self.is_closing && self.is_drained() && !self.is_busy()
    }

    /// Nothing more is served; queued frames may still leave.
    pub(super) fn end(&mut self, now: Instant) {
        self.is_closing = true;
        self.drain_by = Some(now + DRAIN_TIMEOUT);
    }

    /// Returns the deadline for queued frames of an ended connection that is not closed.
    pub(super) fn next_drain_timeout(&self) -> Option<Instant> {
        self.drain_by
    }

    /// Makes operations in flight end.
    pub(super) fn shut_down(&mut self) {
        (self.is_closing, self.drain_by) = (true, None);
        // It fails if the other side was first, which is as good.
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
    }

    /// Whether the kernel still works for this connection.
    pub(super) fn is_busy(&self) -> bool {
        let is_polled = self.filling.as_ref().is_some_and(|it| it.source == Source::Polled);
        self.is_sending || self.lane_bytes > 0 || self.received.is_none() || is_polled
    }
}

/// A length, to be added up.
fn count(bytes: usize) -> u64 {
    u64::try_from(bytes).expect("a length has 64 bits at most")
}

#[cfg(test)]
mod tests;
