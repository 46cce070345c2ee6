//! Incoming packets: checked, and split into frames.

use std::collections::VecDeque;
use std::time::Instant;

use dtyp::ServerId;

use super::clock::Clock;
use super::packet::{Header, PacketError};
use super::reassembly::{Fragment, Outcome, Reassembly};
use super::socket::{self, Arrival, Credentials};
use crate::counters::Counters;
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
}

impl Inbox {
    pub(super) fn new(server_id: ServerId, clock: Clock) -> Self {
        let (reassembly, ready) = Default::default();
        let uid = rustix::process::geteuid().as_raw();
        let received_at = Instant::now();
        Self { server_id, uid, clock, reassembly, ready, received_at }
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
        let (header, entries) = match Header::decode(packet) {
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
        let vouches =
            |it: Credentials| it.pid == header.sender.pid && socket::is_of_server(it.uid, self.uid);
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
        let mut descriptors = arrival.descriptors;
        self.received_at = now;
        let taken_at = self.clock.nanoseconds(now);
        for entry in entries {
            let Ok((entry, bytes)) = entry else {
                counters.malformed += 1;
                break;
            };
            let descriptors = std::mem::take(&mut descriptors);
            let fragment = Fragment { sender: header.sender, entry, bytes, descriptors };
            match self.reassembly.add(now, fragment, &mut counters.incomplete) {
                Outcome::Whole(frame) => {
                    counters.received += 1;
                    counters.bytes_received += frame.bytes.len() as u64;
                    counters.latency.add(taken_at.saturating_sub(entry.sent_at));
                    self.ready.push_back(frame);
                }
                Outcome::More => {}
                Outcome::Refused => counters.malformed += 1,
            }
        }
        Some(header.sender)
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
