//! Incoming packets: checked, and split into frames.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::time::Instant;

use dtyp::ServerId;
use mistake::{Mistake, is_made};

use super::clock::Clock;
#[cfg(any(feature = "messaging-dgram", feature = "messaging-tdb"))]
use super::packet::HEAD_BYTES;
use super::packet::{Entries, Entry, Header, PacketError};
use super::reassembly::{Fragment, Outcome, Reassembly};
use super::socket::{self, Arrival, Credentials};
use crate::counters::Counters;
use crate::message::is_secret;
use crate::transport::Frame;

/// Frames and parts of frames that arrived and were not taken yet.
#[derive(Debug)]
pub(super) struct Inbox {
    server_id: ServerId,
    /// User of this server; processes of this user and of root may send.
    uid: u32,
    clock: Clock,
    reassembly: Reassembly,
    /// Complete frames of the last receipt.
    ready: VecDeque<Frame>,
    /// Time of the last receipt.
    received_at: Instant,
    /// A packet had keys or proofs of users since [`Inbox::take_secrecy`].
    has_secret: bool,
}

impl Inbox {
    pub(super) fn new(server_id: ServerId, clock: Clock) -> Self {
        let (reassembly, ready) = Default::default();
        let uid = rustix::process::geteuid().as_raw();
        let received_at = Instant::now();
        let has_secret = false;
        Self { server_id, uid, clock, reassembly, ready, received_at, has_secret }
    }

    /// Takes a packet with its descriptors. `arrival.credentials` are those of the sender, from the
    /// kernel. Returns the sending process, unless the packet is refused as a whole.
    pub(super) fn take(
        &mut self,
        now: Instant,
        packet: &[u8],
        arrival: Arrival,
        counters: &mut Counters,
    ) -> Option<ServerId> {
        self.take_entries(now, Header::decode(packet), arrival, counters)
    }

    /// Likewise, of a packet whose head lies apart. If the rest of the packet is one large frame,
    /// its buffer becomes the frame's, which saves a copy.
    #[cfg(any(feature = "messaging-dgram", feature = "messaging-tdb"))]
    pub(super) fn take_parts(
        &mut self,
        now: Instant,
        (head, body): (&[u8; HEAD_BYTES], &mut Vec<u8>),
        arrival: Arrival,
        counters: &mut Counters,
    ) -> Option<ServerId> {
        let decoded = Header::decode_parts(head, body);
        let frame = match &decoded {
            Ok((header, entries)) if body.len() >= BUFFER_FRAME_MIN => {
                let first = entries.clone().next().and_then(Result::ok);
                first
                    .filter(|(entry, _)| entry.total as usize == body.len())
                    .map(|it| (*header, it.0))
            }
            _ => None,
        };
        let Some((header, entry)) = frame else {
            return self.take_entries(now, decoded, arrival, counters);
        };
        let mut descriptors = self.admit(&header, arrival, counters)?;
        self.add(
            now,
            (&header, &mut descriptors),
            entry,
            Cow::Owned(std::mem::take(body)),
            counters,
        );
        Some(header.sender)
    }

    fn take_entries(
        &mut self,
        now: Instant,
        decoded: Result<(Header, Entries<'_>), PacketError>,
        arrival: Arrival,
        counters: &mut Counters,
    ) -> Option<ServerId> {
        let (header, entries) = match decoded {
            Ok(decoded) => decoded,
            // Longer than any packet, and cut by the kernel.
            Err(_) if arrival.truncated => {
                counters.malformed += 1;
                return None;
            }
            Err(error) => {
                match error {
                    PacketError::Length => counters.malformed += 1,
                    PacketError::Version => counters.version_unknown += 1,
                }
                return None;
            }
        };
        let mut descriptors = self.admit(&header, arrival, counters)?;
        for entry in entries {
            let Ok((entry, bytes)) = entry else {
                counters.malformed += 1;
                break;
            };
            self.add(now, (&header, &mut descriptors), entry, Cow::Borrowed(bytes), counters);
        }
        Some(header.sender)
    }

    /// Checks sender, receiver and descriptors of a packet. Returns the descriptors, unless it is
    /// refused.
    fn admit(
        &self,
        header: &Header,
        arrival: Arrival,
        counters: &mut Counters,
    ) -> Option<Vec<OwnedFd>> {
        let vouches = |it: Credentials| {
            let is_sender = it.pid == header.sender.pid || is_made(Mistake::SendersUnverified);
            is_sender && socket::is_of_server(it.uid, self.uid)
        };
        if !arrival.credentials.is_some_and(vouches) {
            counters.forged += 1;
            return None;
        }
        if header.receiver != self.server_id {
            counters.misaddressed += 1;
            return None;
        }
        if arrival.truncated || arrival.descriptors.len() != usize::from(header.descriptors) {
            counters.descriptors_lost += 1;
            return None;
        }
        Some(arrival.descriptors)
    }

    /// Adds an entry. The descriptors belong to the first one.
    fn add(
        &mut self,
        now: Instant,
        (header, descriptors): (&Header, &mut Vec<OwnedFd>),
        entry: Entry,
        bytes: Cow<'_, [u8]>,
        counters: &mut Counters,
    ) {
        self.received_at = now;
        let descriptors = std::mem::take(descriptors);
        let fragment = Fragment { sender: header.sender, entry, bytes, descriptors };
        match self.reassembly.add(now, fragment, &mut counters.incomplete) {
            Outcome::Whole(frame) => {
                counters.received += 1;
                counters.bytes_received += frame.bytes.len() as u64;
                let taken_at = self.clock.nanoseconds(now);
                counters.latency.add(taken_at.saturating_sub(entry.sent_at));
                self.has_secret |= is_secret(&frame.bytes);
                self.ready.push_back(frame);
            }
            // The kind comes last.
            Outcome::More => self.has_secret = true,
            Outcome::Refused => counters.malformed += 1,
        }
    }

    /// Returns whether a packet since the last call may have held keys or proofs of users. The
    /// caller erases it in the buffer that it was received in.
    pub(super) fn take_secrecy(&mut self) -> bool {
        std::mem::take(&mut self.has_secret)
    }

    /// Takes the next complete frame.
    pub(super) fn pop(&mut self) -> Option<Frame> {
        self.ready.pop_front()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ready.is_empty()
    }

    /// Drops frames without a new part for too long.
    pub(super) fn expire(&mut self, now: Instant, counters: &mut Counters) {
        counters.incomplete += self.reassembly.expire(now);
    }

    /// Time at which [`Inbox::expire`] or [`Inbox::pop`] has work.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        match self.ready.is_empty() {
            true => self.reassembly.next_timeout(),
            false => Some(self.received_at),
        }
    }
}

/// Bytes of a frame that keeps its receive buffer, at least: half of the buffer.
#[cfg(any(feature = "messaging-dgram", feature = "messaging-tdb"))]
const BUFFER_FRAME_MIN: usize = 32 * 1024;
