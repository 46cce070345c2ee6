//! A transport in memory, for tests: the processes of a [`Network`] exchange packets through
//! queues, and the caller sets the time.
//!
//! Everything follows from a seed. There is room for few packets, and at random a push finds none;
//! packets of one process arrive in order, those of several in any order; sent packets may become
//! visible late. A killed process loses its unread packets. The layers above packets (packing,
//! queues, limits, reassembly) are those of the other transports.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::time::{Duration, Instant};

use dtyp::ServerId;
use rustix::io::Errno;

use super::clock::Clock;
use super::inbox::Inbox;
use super::outgoing::{Carrier, FrameBytes, Lines, Outgoing};
use super::socket::{self, Arrival, Credentials};
use crate::counters::Counters;
use crate::transport::{Frame, InitError, SendError, Transport};

/// Processes that can send to each other, all in one thread.
#[derive(Clone, Debug)]
pub struct Network {
    shared: Rc<RefCell<Shared>>,
}

#[derive(Debug)]
struct Shared {
    chance: Chance,
    /// Packets that arrived for each living process, by their senders.
    mailboxes: BTreeMap<ServerId, BTreeMap<ServerId, VecDeque<Packet>>>,
    /// Pairs of a sender that waits for room and its receiver.
    waiting: BTreeSet<(ServerId, ServerId)>,
    /// Processes whose packets are to fail: the number of packets before that, and the error.
    failures: BTreeMap<ServerId, (usize, Errno)>,
}

#[derive(Debug)]
struct Packet {
    bytes: Vec<u8>,
    descriptors: Vec<OwnedFd>,
}

/// Transport of one simulated process.
#[derive(Debug)]
struct Simulated {
    outgoing: Outgoing<SimulatedCarrier>,
    inbox: Inbox,
}

/// Sending half of a [`Simulated`].
#[derive(Debug)]
struct SimulatedCarrier {
    server_id: ServerId,
    network: Network,
}

impl Network {
    /// Creates a network without processes. `seed` determines all random choices.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let shared = Shared {
            chance: Chance(seed),
            mailboxes: BTreeMap::new(),
            waiting: BTreeSet::new(),
            failures: BTreeMap::new(),
        };
        Self { shared: Rc::new(RefCell::new(shared)) }
    }

    /// Starts a process, which lives until the returned transport is dropped or the process killed.
    #[must_use]
    pub fn open(&self, server_id: ServerId) -> Box<dyn Transport> {
        self.shared.borrow_mut().mailboxes.entry(server_id).or_default();
        let clock = Clock::new();
        let carrier = SimulatedCarrier { server_id, network: self.clone() };
        Box::new(Simulated {
            outgoing: Outgoing::new(carrier, server_id, clock, LINES),
            inbox: Inbox::new(server_id, clock),
        })
    }

    /// Ends a process, with the loss of its unread packets.
    pub fn kill(&self, process: ServerId) {
        let mut shared = self.shared.borrow_mut();
        shared.waiting.retain(|(from, _)| *from != process);
        shared.mailboxes.remove(&process);
    }

    /// Makes a packet of this process fail with this error number, after `packets` more.
    pub fn fail_after(&self, process: ServerId, packets: usize, error: i32) {
        let error = Errno::from_raw_os_error(error);
        self.shared.borrow_mut().failures.insert(process, (packets, error));
    }

    /// True if a process has something to receive, or room that it waits for: the state in which
    /// the wake source of another transport is readable.
    #[must_use]
    pub fn is_ready(&self, process: ServerId) -> bool {
        let shared = self.shared.borrow();
        shared.mailboxes.get(&process).is_some_and(|mail| count(mail) > 0)
            || shared.waited_for(process).any(|to| shared.has_room(to))
    }

    /// Returns a random number below `end`, for a test that chooses the next step.
    #[must_use]
    pub fn draw(&self, end: usize) -> usize {
        self.shared.borrow_mut().chance.below(end)
    }
}

impl Shared {
    /// True if there is room for a packet to a process.
    fn has_room(&self, to: ServerId) -> bool {
        self.mailboxes.get(&to).is_none_or(|mail| count(mail) < PACKETS_MAX)
    }

    /// Receivers at which a process waits for room.
    fn waited_for(&self, process: ServerId) -> impl Iterator<Item = ServerId> {
        self.waiting.iter().filter(move |(from, _)| *from == process).map(|(_, to)| *to)
    }

    /// Takes a packet for a process from a random sender, or at random none.
    fn take(&mut self, receiver: ServerId) -> Option<(ServerId, Packet)> {
        let mail = self.mailboxes.get_mut(&receiver).filter(|mail| !mail.is_empty())?;
        if self.chance.is_one_in(LATE_ONE_IN) {
            return None;
        }
        let sender = *mail.keys().nth(self.chance.below(mail.len()))?;
        let packets = mail.get_mut(&sender)?;
        let packet = packets.pop_front()?;
        if packets.is_empty() {
            mail.remove(&sender);
        }
        Some((sender, packet))
    }
}

impl SimulatedCarrier {
    /// Receivers that were full and have room again.
    fn with_room(&self) -> Vec<ServerId> {
        let shared = self.network.shared.borrow();
        shared.waited_for(self.server_id).filter(|to| shared.has_room(*to)).collect()
    }
}

impl Carrier for SimulatedCarrier {
    type Line = ();

    /// Small, so that most frames take several packets.
    const PACKET_BYTES_MAX: usize = 4_096;

    const DESCRIPTORS_MAX: usize = socket::DESCRIPTORS_MAX;

    fn connect(&mut self, to: ServerId) -> Result<(), Errno> {
        let lives = self.network.shared.borrow().mailboxes.contains_key(&to);
        lives.then_some(()).ok_or(Errno::NOENT)
    }

    fn push(
        &mut self,
        _line: &mut (),
        parts: [&[u8]; 2],
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), Errno> {
        let bytes = parts.concat();
        let to = super::packet::Header::decode(&bytes).map_err(|_| Errno::INVAL)?.0.receiver;
        let mut shared = self.network.shared.borrow_mut();
        // A killed process sends nothing.
        if !shared.mailboxes.contains_key(&self.server_id) {
            return Err(Errno::PIPE);
        }
        if let Some((packets, error)) = shared.failures.remove(&self.server_id) {
            match packets.checked_sub(1) {
                Some(packets) => shared.failures.insert(self.server_id, (packets, error)),
                None => return Err(error),
            };
        }
        let has_room = shared.has_room(to) && !shared.chance.is_one_in(FULL_ONE_IN);
        let mail = shared.mailboxes.get_mut(&to).ok_or(Errno::CONNREFUSED)?;
        if !has_room {
            return Err(Errno::AGAIN);
        }
        let packet = Packet { bytes, descriptors: socket::duplicate(descriptors)? };
        mail.entry(self.server_id).or_default().push_back(packet);
        Ok(())
    }

    fn await_room(&mut self, to: ServerId, _line: &mut ()) {
        self.network.shared.borrow_mut().waiting.insert((self.server_id, to));
    }

    fn stop_awaiting(&mut self, to: ServerId, _line: &mut ()) {
        self.network.shared.borrow_mut().waiting.remove(&(self.server_id, to));
    }

    fn disconnect(&mut self, _line: ()) {}
}

impl Transport for Simulated {
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
        for to in self.outgoing.carrier.with_room() {
            self.outgoing.room(now, to);
        }
        self.outgoing.check_times(now);
    }

    fn poll_receive(&mut self, now: Instant) -> Option<Frame> {
        let Outgoing { carrier, counters, .. } = &mut self.outgoing;
        self.inbox.expire(now, counters);
        let uid = rustix::process::geteuid().as_raw();
        while self.inbox.is_empty() {
            let taken = carrier.network.shared.borrow_mut().take(carrier.server_id);
            let (sender, Packet { bytes, descriptors }) = taken?;
            let credentials = Some(Credentials { pid: sender.pid, uid });
            let arrival = Arrival { credentials, descriptors, truncated: false };
            self.inbox.take(now, &bytes, arrival, counters);
        }
        self.inbox.pop()
    }

    fn wants_flush(&self) -> bool {
        self.outgoing.wants_flush()
    }

    fn has_ready(&self) -> bool {
        !self.inbox.is_empty()
    }

    /// `None`: the code that advances the time polls.
    fn wake_source(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn next_timeout(&self) -> Option<Instant> {
        [self.outgoing.next_timeout(), self.inbox.next_timeout()].into_iter().flatten().min()
    }

    fn descriptors_max(&self) -> usize {
        SimulatedCarrier::DESCRIPTORS_MAX
    }

    fn members(&mut self) -> Result<Vec<ServerId>, InitError> {
        Ok(self.outgoing.carrier.network.shared.borrow().mailboxes.keys().copied().collect())
    }

    fn remove_dead(&mut self, dead: ServerId) -> bool {
        self.outgoing.carrier.stop_awaiting(dead, &mut ());
        self.outgoing.remove_dead(dead);
        false
    }

    fn take_receivers_of_dropped(&mut self) -> BTreeSet<ServerId> {
        std::mem::take(&mut self.outgoing.dropped_for)
    }

    fn counters(&self) -> Counters {
        self.outgoing.counters
    }
}

impl Drop for Simulated {
    fn drop(&mut self) {
        self.outgoing.flush_last();
        self.outgoing.carrier.network.kill(self.outgoing.carrier.server_id);
    }
}

fn count(mail: &BTreeMap<ServerId, VecDeque<Packet>>) -> usize {
    mail.values().map(VecDeque::len).sum()
}

/// Pseudorandom numbers by the SplitMix64 algorithm.
#[derive(Debug)]
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() >> 33).expect("31 bits") % end.max(1)
    }

    fn is_one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }
}

/// Bounds of idle lines, which cost nothing here.
const LINES: Lines = Lines { idle_max: 256, idle: Duration::from_secs(10) };

/// Highest number of packets queued for a process: the kernel's default for datagrams, and one that
/// is being sent.
const PACKETS_MAX: usize = 11;

/// One in this many pushes finds no room at random.
const FULL_ONE_IN: usize = 16;

/// One in this many looks misses packets that have arrived.
const LATE_ONE_IN: usize = 8;
