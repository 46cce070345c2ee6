//! One connection.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};

use dtyp::ServerId;
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;

use crate::transport::packet::Header;
use crate::transport::socket::{self, Credentials, Receiver};

/// Names a connection; never used again for another.
pub(super) type Token = u64;

/// Bytes of a packet on a stream: a message of 64 KiB. Two fit in what a socket holds (208 KiB by
/// default).
pub(super) const PACKET_BYTES_MAX: usize = 64 * 1024 + 64;

/// A connection to or from another process.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) socket: OwnedFd,
    /// It was made here.
    pub(super) is_ours: bool,
    /// The process at the other end, once it is known.
    pub(super) peer: Option<ServerId>,
    /// Who it is, as the kernel saw it when the connection was made.
    pub(super) credentials: Credentials,
    /// Its first packet has come.
    pub(super) has_spoken: bool,
    /// One of its packets is about to be taken.
    pub(super) is_being_taken: bool,
    /// The other half has ended: nothing more comes.
    pub(super) is_read: bool,
    /// Nothing can be sent either.
    pub(super) is_broken: bool,
    /// Nothing new is sent over it; its own half ends when the rest has left.
    pub(super) is_left: bool,
    /// Its own half has ended.
    pub(super) has_ended: bool,
    /// Somebody waits for room.
    pub(super) is_awaited: bool,
    /// What it is polled for.
    pub(super) polled: EventFlags,
    /// What has come, from `taken` on, and ends in a packet that is not whole.
    received: Vec<u8>,
    taken: usize,
    /// Descriptors whose packets are not whole, by packet; and whether some of them are missing.
    descriptors: VecDeque<(Vec<OwnedFd>, bool)>,
    /// The rest of a packet of which the beginning has left.
    rest: Vec<u8>,
    rest_sent: usize,
}

/// What comes over a connection is not what it should be.
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

    /// What it is to be polled for.
    pub(super) fn interest(&self) -> EventFlags {
        let mut interest = EventFlags::empty();
        interest.set(EventFlags::IN, !self.is_read);
        interest.set(EventFlags::OUT, self.is_awaited || self.has_rest());
        interest
    }

    /// Receives what fits, and keeps it until its packets are whole; how many bytes that was, none
    /// if the other half has ended.
    pub(super) fn receive(&mut self, receiver: &mut Receiver) -> Result<usize, Errno> {
        let Self { socket, received, descriptors, .. } = self;
        let mut len = 0;
        receiver.receive(socket.as_fd(), |bytes, arrival| {
            len = bytes.len();
            received.extend_from_slice(bytes);
            if !arrival.descriptors.is_empty() || arrival.truncated {
                descriptors.push_back((arrival.descriptors, arrival.truncated));
            }
        })?;
        Ok(len)
    }

    /// The next packet that is whole.
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

    /// The number of the first message in the next packet, if that is whole.
    pub(super) fn first_number(&self) -> Option<u64> {
        let (prefix, rest) = self.received[self.taken..].split_first_chunk()?;
        let len = usize::try_from(u32::from_le_bytes(*prefix)).ok()?;
        first_of(rest.get(..len)?).map(|(_, number)| number)
    }

    /// The bytes of a packet, until [`Link::settle`].
    pub(super) fn bytes(&self, packet: &Range<usize>) -> &[u8] {
        &self.received[packet.clone()]
    }

    /// The descriptors that came with a packet, if it says that there are some; and whether some of
    /// them are missing.
    pub(super) fn take_descriptors(&mut self, packet: &Range<usize>) -> (Vec<OwnedFd>, bool) {
        match self.bytes(packet) {
            [_, _, 0, 0, ..] => (Vec::new(), false),
            _ => self.descriptors.pop_front().unwrap_or_default(),
        }
    }

    /// No packet is whole any more: forgets those that were taken. Whether the descriptors that are
    /// left can be those of the packet that is not whole, of which there is one.
    pub(super) fn settle(&mut self) -> bool {
        self.received.drain(..self.taken);
        self.taken = 0;
        if self.received.is_empty() && self.received.capacity() > RECEIVED_BYTES_KEPT {
            self.received = Vec::new();
        }
        self.descriptors.len() <= usize::from(!self.received.is_empty())
    }

    /// Whether the rest of a packet has not left yet.
    pub(super) fn has_rest(&self) -> bool {
        self.rest_sent < self.rest.len()
    }

    /// Keeps what has not left of a packet.
    pub(super) fn keep_rest(&mut self, parts: [&[u8]; 3], sent: usize) {
        self.rest = parts.concat();
        self.rest_sent = sent;
    }

    /// Sends what has not left, as far as there is room.
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

/// Who has sent a packet, and the number of its first message.
pub(super) fn first_of(packet: &[u8]) -> Option<(ServerId, u64)> {
    let (header, mut entries) = Header::decode(packet).ok()?;
    let (entry, _) = entries.next()?.ok()?;
    Some((header.sender, entry.message_id))
}

/// Memory that a connection keeps although nothing is in it.
const RECEIVED_BYTES_KEPT: usize = 4_096;
