//! What arrives: packets, judged and taken apart into frames.

use std::collections::VecDeque;
use std::time::Instant;

use dtyp::ServerId;

use super::clock::Clock;
use super::packet::{Header, PacketError};
use super::reassembly::{Fragment, Outcome, Reassembly};
use super::socket::{self, Arrival, Credentials};
use crate::counters::Counters;
use crate::transport::Frame;

/// What has arrived for this process and was not taken yet.
#[derive(Debug)]
pub(super) struct Inbox {
    server_id: ServerId,
    /// The user whose processes are of this server, as are those of root.
    uid: u32,
    clock: Clock,
    reassembly: Reassembly,
    /// Frames that are whole, of what was received at once.
    ready: VecDeque<Frame>,
    /// When the last of them was received.
    received_at: Instant,
}

impl Inbox {
    pub(super) fn new(server_id: ServerId, clock: Clock) -> Self {
        let (reassembly, ready) = Default::default();
        let uid = rustix::process::geteuid().as_raw();
        let received_at = Instant::now();
        Self { server_id, uid, clock, reassembly, ready, received_at }
    }

    /// Takes a packet and what came with it. `arrival.credentials` are those of whoever sent it,
    /// as the kernel says. Returns the process that it is from, unless it is refused as a whole.
    pub(super) fn take(
        &mut self,
        now: Instant,
        packet: &[u8],
        arrival: Arrival,
        counters: &mut Counters,
    ) -> Option<ServerId> {
        let (header, entries) = match Header::decode(packet) {
            Ok(decoded) => decoded,
            // Cut by the kernel because it is longer than any packet.
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

    /// The next frame.
    pub(super) fn pop(&mut self) -> Option<Frame> {
        self.ready.pop_front()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ready.is_empty()
    }

    /// Gives up frames of which nothing has come for too long.
    pub(super) fn expire(&mut self, now: Instant, counters: &mut Counters) {
        counters.incomplete += self.reassembly.expire(now);
    }

    /// When [`Inbox::expire`] has something to do, or [`Inbox::pop`] has had.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        match self.ready.is_empty() {
            true => self.reassembly.next_timeout(),
            false => Some(self.received_at),
        }
    }
}
