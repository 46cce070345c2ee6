//! One connection of the stream transport.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};

use dtyp::ServerId;
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use zeroize::Zeroize;

use crate::transport::packet::Header;
use crate::transport::socket::{self, Credentials};

/// Id of a connection, never used again.
pub(super) type Token = u64;

/// Highest number of bytes of a packet on a stream: room for a message of 64 KiB. Two fit in a
/// socket's buffer (208 KiB by default).
pub(super) const PACKET_BYTES_MAX: usize = 64 * 1024 + 64;

/// A connection to or from another process.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) socket: OwnedFd,
    /// True if it was created here.
    pub(super) is_ours: bool,
    /// Process at the other end, once known.
    pub(super) peer: Option<ServerId>,
    /// Credentials of that process from the kernel, as of the connect.
    pub(super) credentials: Credentials,
    /// True once its first packet has arrived.
    pub(super) has_spoken: bool,
    /// True while its first packet is about to be taken.
    pub(super) is_being_taken: bool,
    /// True once the other half has ended: nothing more arrives.
    pub(super) is_read: bool,
    /// True once sending fails, too.
    pub(super) is_broken: bool,
    /// True if nothing new is sent over it; its own half ends after the rest of a packet.
    pub(super) is_left: bool,
    /// True once its own half has ended.
    pub(super) has_ended: bool,
    /// True while frames wait for room on it.
    pub(super) is_awaited: bool,
    /// Events that it is polled for.
    pub(super) polled: EventFlags,
    /// Received bytes, new from `taken` on, up to a possibly incomplete packet.
    received: Vec<u8>,
    taken: usize,
    /// Descriptors of incomplete packets, by packet, each with true if some were lost.
    descriptors: VecDeque<(Vec<OwnedFd>, bool)>,
    /// Rest of a packet whose first part has left.
    rest: Vec<u8>,
    rest_sent: usize,
}

/// Received bytes violate the form of a packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Malformed;

impl Link {
    pub(super) fn new(
        socket: OwnedFd,
        is_ours: bool,
        peer: Option<ServerId>,
        credentials: Credentials,
    ) -> Self {
        Self {
            socket,
            is_ours,
            peer,
            credentials,
            has_spoken: false,
            is_being_taken: false,
            is_read: false,
            is_broken: false,
            is_left: false,
            has_ended: false,
            is_awaited: false,
            polled: EventFlags::IN,
            received: Vec::new(),
            taken: 0,
            descriptors: VecDeque::new(),
            rest: Vec::new(),
            rest_sent: 0,
        }
    }

    /// Events that it needs to be polled for.
    pub(super) fn interest(&self) -> EventFlags {
        let mut interest = EventFlags::empty();
        interest.set(EventFlags::IN, !self.is_read);
        interest.set(EventFlags::OUT, self.is_awaited || self.has_rest());
        interest
    }

    /// Receives up to `bytes` and keeps them until their packets are complete. Returns their
    /// number, 0 if the other half has ended. Uses the buffer `spare` if there is nothing yet.
    pub(super) fn receive(&mut self, bytes: usize, spare: &mut Vec<u8>) -> Result<usize, Errno> {
        if self.received.capacity() < spare.capacity() && self.received.len() <= RECEIVED_BYTES_KEPT
        {
            let few = std::mem::replace(&mut self.received, std::mem::take(spare));
            self.received.extend_from_slice(&few);
        }
        let received = socket::receive_part(self.socket.as_fd(), bytes, &mut self.received);
        let (len, arrival) = received?;
        if !arrival.descriptors.is_empty() || arrival.truncated {
            self.descriptors.push_back((arrival.descriptors, arrival.truncated));
        }
        Ok(len)
    }

    /// Takes the next complete packet, as a range of the buffer.
    pub(super) fn next_packet(&mut self) -> Result<Option<Range<usize>>, Malformed> {
        let rest = &self.received[self.taken..];
        let Some((prefix, rest)) = rest.split_first_chunk() else { return Ok(None) };
        let len = usize::try_from(u32::from_le_bytes(*prefix)).map_err(|_| Malformed)?;
        if len > PACKET_BYTES_MAX {
            return Err(Malformed);
        }
        if rest.len() < len {
            return Ok(None);
        }
        let start = self.taken + prefix.len();
        self.taken = start + len;
        Ok(Some(start..start + len))
    }

    /// Number of the first message in the next packet, if it is complete.
    pub(super) fn first_number(&self) -> Option<u64> {
        let (prefix, rest) = self.received[self.taken..].split_first_chunk()?;
        let len = usize::try_from(u32::from_le_bytes(*prefix)).ok()?;
        first_of(rest.get(..len)?).map(|(_, number)| number)
    }

    /// Bytes of a packet, valid until [`Link::settle`].
    pub(super) fn bytes(&self, packet: &Range<usize>) -> &[u8] {
        &self.received[packet.clone()]
    }

    /// Erases a packet that was taken.
    pub(super) fn erase(&mut self, packet: &Range<usize>) {
        self.received[packet.clone()].zeroize();
    }

    /// Takes the descriptors of a packet whose header announces some; true means that some were
    /// lost.
    pub(super) fn take_descriptors(&mut self, packet: &Range<usize>) -> (Vec<OwnedFd>, bool) {
        match self.bytes(packet) {
            [_, _, 0, 0, ..] => (Vec::new(), false),
            _ => self.descriptors.pop_front().unwrap_or_default(),
        }
    }

    /// Removes taken packets from the buffer, once no complete one is left. Returns false if more
    /// descriptors are left than the incomplete packet can own. The buffer becomes `spare` if the
    /// connection needs none of its size.
    pub(super) fn settle(&mut self, spare: &mut Vec<u8>) -> bool {
        self.received.drain(..self.taken);
        self.taken = 0;
        if self.received.len() <= RECEIVED_BYTES_KEPT
            && self.received.capacity() > RECEIVED_BYTES_KEPT
        {
            let few = self.received.as_slice().into();
            let buffer = std::mem::replace(&mut self.received, few);
            if buffer.capacity() <= SPARE_BYTES_MAX {
                *spare = buffer;
                spare.clear();
            }
        }
        self.descriptors.len() <= usize::from(!self.received.is_empty())
    }

    /// True while the rest of a packet has not left.
    pub(super) fn has_rest(&self) -> bool {
        self.rest_sent < self.rest.len()
    }

    /// Keeps the unsent rest of a packet.
    pub(super) fn keep_rest(&mut self, parts: [&[u8]; 3], sent: usize) {
        self.rest = parts.concat();
        self.rest_sent = sent;
    }

    /// Sends the rest of a packet, as far as there is room.
    pub(super) fn send_rest(&mut self) -> Result<(), Errno> {
        while self.has_rest() {
            let rest = [IoSlice::new(&self.rest[self.rest_sent..])];
            self.rest_sent += socket::send(self.socket.as_fd(), &rest, &[])?;
        }
        self.rest = Vec::new();
        self.rest_sent = 0;
        Ok(())
    }
}

/// Sender of a packet, and the number of its first message.
pub(super) fn first_of(packet: &[u8]) -> Option<(ServerId, u64)> {
    let (header, mut entries) = Header::decode(packet).ok()?;
    let (entry, _) = entries.next()?.ok()?;
    Some((header.sender, entry.message_id))
}

/// Buffer capacity in bytes that an idle connection keeps.
const RECEIVED_BYTES_KEPT: usize = 4_096;

/// Capacity in bytes of a buffer that is kept for the next connection.
const SPARE_BYTES_MAX: usize = 512 * 1024;
