//! Records in `messages.tdb`, and a signal to the receiver.
//!
//! Every process has a record in the file `messages.tdb` of the lock directory. A sender appends
//! packets to the receiver's record, under the lock of its chain; the receiver takes them all at
//! once. A sender that appends to an empty record sends a signal, before it stores the packets: the
//! receiver has to wait for the lock, and a sender that dies in between causes a wake-up too many
//! and not one too few. If the kernel has no room for the signal, the packet counts as not sent for
//! want of room.
//!
//! The signal is blocked and read as a descriptor, so that no handler runs and none is lost. It
//! goes to the thread that opened the transport, which blocks it; other threads are not affected.
//! The transport therefore stays in its thread.
//!
//! Sending and receiving do not wait for the lock of a record, because its holder may be stopped:
//! they try again later. Only joining, leaving and removing a dead process wait. Records carry no
//! descriptors; those use a datagram socket as a side channel, which is also the sign that a
//! process lives.

mod records;
mod signal;

use std::collections::BTreeSet;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use dtyp::ServerId;
use rustix::event::epoll;
use rustix::io::Errno;
use zeroize::Zeroize;

use self::records::Records;
use super::clock::Clock;
use super::dgram::Dgram;
use super::inbox::Inbox;
use super::outgoing::{FrameBytes, Lines, Outgoing};
use super::packet::Header;
use super::socket::{Arrival, Credentials};
use crate::counters::Counters;
use crate::transport::{Frame, InitError, SendError, Settings, Transport};

/// Transport over records and signals.
#[derive(Debug)]
pub(crate) struct TdbMessages {
    outgoing: Outgoing<Records>,
    inbox: Inbox,
    /// Packets taken out of the own record.
    taken: Vec<u8>,
    /// Socket for frames with descriptors; they precede frames in the record.
    side: Dgram,
    has_side: bool,
    /// True after a receipt, until a caller has been told that there is no more.
    is_drained: bool,
    wake: OwnedFd,
    /// Time of the next attempt for frames without room, and the pause between attempts.
    retry_at: Option<Instant>,
    retry_after: Duration,
}

impl TdbMessages {
    pub(crate) fn open(
        lock_dir: &Path,
        server_id: ServerId,
        settings: Settings,
    ) -> Result<Self, InitError> {
        // The record must exist before others can see this process.
        let records = Records::open(lock_dir, server_id, settings.use_mmap)?;
        let side = Dgram::open(lock_dir, server_id, settings.kind.name())?;
        let system =
            |error: Errno| InitError::System { path: lock_dir.into(), source: error.into() };
        let wake = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(system)?;
        let sources = [records.signal().as_fd()].into_iter().chain(side.wake_source());
        for (source, data) in sources.zip(0..) {
            let data = epoll::EventData::new_u64(data);
            epoll::add(&wake, source, data, epoll::EventFlags::IN).map_err(system)?;
        }
        let clock = Clock::new();
        Ok(Self {
            outgoing: Outgoing::new(records, server_id, clock, LINES),
            inbox: Inbox::new(server_id, clock),
            taken: Vec::new(),
            side,
            has_side: false,
            is_drained: false,
            wake,
            retry_at: None,
            retry_after: RETRY_FIRST,
        })
    }

    /// Takes the packets in the own record.
    fn take_record(&mut self, now: Instant) {
        let Outgoing { carrier, counters, .. } = &mut self.outgoing;
        // Take the signal first: a later one announces packets not seen here.
        if carrier.take_signals() {
            self.retry_at = None;
        }
        if !carrier.take(&mut self.taken) {
            return;
        }
        let mut rest = &self.taken[..];
        while let Some((prefix, following)) = rest.split_first_chunk() {
            let len = usize::try_from(u32::from_le_bytes(*prefix)).unwrap_or(usize::MAX);
            let Some((packet, following)) = following.split_at_checked(len) else {
                counters.malformed += 1;
                break;
            };
            self.inbox.take(now, packet, vouched(packet, carrier.uid()), counters);
            rest = following;
        }
        if self.inbox.take_secrecy() {
            self.taken.zeroize();
        }
        self.taken.clear();
        if self.taken.capacity() > TAKEN_BYTES_KEPT {
            self.taken = Vec::new();
        }
    }

    /// Tries again to send frames that found no room.
    fn retry(&mut self, now: Instant) {
        let waiting = self.outgoing.carrier.waiting();
        if waiting.is_empty() {
            self.retry_at = None;
            self.retry_after = RETRY_FIRST;
            return;
        }
        // A signal may announce room. If it announced packets, the own record is read soon.
        if self.outgoing.carrier.take_signals() {
            self.outgoing.carrier.look_by(now);
            self.retry_at = None;
        }
        if self.retry_at.is_some_and(|at| at > now) {
            return;
        }
        let sent = self.outgoing.counters.sent;
        for to in waiting {
            self.outgoing.room(now, to);
        }
        self.retry_after = match self.outgoing.counters.sent == sent {
            true => RETRY_LAST.min(self.retry_after * 2),
            false => RETRY_FIRST,
        };
        self.retry_at = Some(now + self.retry_after);
    }
}

impl Transport for TdbMessages {
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
        self.retry(now);
        self.outgoing.check_times(now);
        self.side.poll_send(now);
    }

    fn poll_receive(&mut self, now: Instant) -> Option<Frame> {
        if self.inbox.is_empty() && !self.has_side {
            // Save a look that most likely finds nothing; the wake source announces new packets.
            if std::mem::take(&mut self.is_drained) {
                return None;
            }
            self.inbox.expire(now, &mut self.outgoing.counters);
            self.take_record(now);
            self.has_side = true;
            self.side.look_again();
            self.is_drained = !self.inbox.is_empty();
        }
        // Frames sent by the side channel before an append have arrived by now, and come first.
        if self.has_side {
            if let Some(frame) = self.side.poll_receive(now) {
                return Some(frame);
            }
            self.has_side = false;
        }
        self.inbox.pop()
    }

    fn wants_flush(&self) -> bool {
        self.outgoing.wants_flush() || self.side.wants_flush()
    }

    fn has_ready(&self) -> bool {
        !self.inbox.is_empty() || self.side.has_ready()
    }

    fn wake_source(&self) -> Option<BorrowedFd<'_>> {
        Some(self.wake.as_fd())
    }

    fn next_timeout(&self) -> Option<Instant> {
        let retry_at = match self.outgoing.carrier.has_waiting() {
            true => self.retry_at.or_else(|| Some(self.outgoing.carrier.waiting_since())),
            false => None,
        };
        let look_at = self.outgoing.carrier.look_at();
        let side = self.side.next_timeout();
        let times =
            [self.outgoing.next_timeout(), self.inbox.next_timeout(), side, retry_at, look_at];
        times.into_iter().flatten().min()
    }

    fn descriptors_max(&self) -> usize {
        0
    }

    fn side_channel(&mut self) -> Option<&mut dyn Transport> {
        Some(&mut self.side)
    }

    fn members(&mut self) -> Result<Vec<ServerId>, InitError> {
        let (living, dead) = self.side.take_census()?;
        for dead in dead {
            self.outgoing.remove_dead(dead);
            self.outgoing.carrier.remove(dead);
        }
        Ok(living)
    }

    fn remove_dead(&mut self, dead: ServerId) -> bool {
        self.outgoing.remove_dead(dead);
        let has_left = self.side.remove_dead(dead);
        if has_left {
            self.outgoing.carrier.remove(dead);
        }
        has_left
    }

    fn take_receivers_of_dropped(&mut self) -> BTreeSet<ServerId> {
        let mut receivers = self.side.take_receivers_of_dropped();
        receivers.append(&mut self.outgoing.dropped_for);
        receivers
    }

    fn counters(&self) -> Counters {
        self.outgoing.counters.plus(self.side.counters())
    }
}

impl Drop for TdbMessages {
    fn drop(&mut self) {
        self.outgoing.flush_last();
    }
}

/// Returns the sender in the packet as its credentials. Only the file's permissions vouch for it:
/// all users that may write the file belong to this server.
fn vouched(packet: &[u8], uid: u32) -> Arrival {
    let sender = Header::decode(packet).map(|(header, _)| header.sender);
    let credentials = sender.ok().map(|sender| Credentials { pid: sender.pid, uid });
    Arrival { credentials, descriptors: Vec::new(), truncated: false }
}

/// Bounds of idle lines. A line is only a descriptor, so a few are kept.
const LINES: Lines = Lines { idle_max: 256, idle: Duration::from_secs(10) };

/// First and longest pause between attempts to send without room, if no signal comes before; it
/// doubles each time.
const RETRY_FIRST: Duration = Duration::from_millis(1);
const RETRY_LAST: Duration = Duration::from_secs(1);

/// Capacity in bytes that is kept for taken packets.
const TAKEN_BYTES_KEPT: usize = 32 * 1024;
