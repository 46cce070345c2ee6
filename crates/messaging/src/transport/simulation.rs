//! A transport in memory, for tests: what goes between the processes of a [`Network`] are packets in
//! queues, and time is what the caller says that it is.
//!
//! Everything follows from a seed. There is room for few packets, and now and then chance says that
//! there is none; packets of one process come in their order, and those of several in any; what has
//! been sent may be seen late. A process that is killed takes with it what it had not read. What is
//! above packets (packing, queues, limits, putting together) is that of the other transports.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::time::{Duration, Instant};

use dtyp::ServerId;
use rustix::io::Errno;

use super::clock::Clock;
use super::inbox::Inbox;
use super::outgoing::{Carrier, Lines, Outgoing};
use super::socket::{self, Arrival, Credentials};
use crate::counters::Counters;
use crate::transport::{Frame, InitError, SendError, Transport};

/// Processes that can send to each other, in one thread.
#[derive(Clone, Debug)]
pub struct Network {
    shared: Rc<RefCell<Shared>>,
}

#[derive(Debug)]
struct Shared {
    chance: Chance,
    /// What has come for each process that lives, by its sender.
    mailboxes: BTreeMap<ServerId, BTreeMap<ServerId, VecDeque<Packet>>>,
    /// Who waits for room, and at whom.
    waiting: BTreeSet<(ServerId, ServerId)>,
    /// Whose packets are to fail: after so many more, and how.
    failures: BTreeMap<ServerId, (usize, Errno)>,
}

#[derive(Debug)]
struct Packet {
    bytes: Vec<u8>,
    descriptors: Vec<OwnedFd>,
}

/// One process's end.
#[derive(Debug)]
struct Simulated {
    outgoing: Outgoing<Ways>,
    inbox: Inbox,
}

/// The sending half.
#[derive(Debug)]
struct Ways {
    server_id: ServerId,
    network: Network,
}

impl Network {
    /// Nobody is there yet. What chance says follows from `seed`.
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

    /// A process begins to live, until what this returns is dropped or it is killed.
    #[must_use]
    pub fn open(&self, server_id: ServerId) -> Box<dyn Transport> {
        self.shared.borrow_mut().mailboxes.entry(server_id).or_default();
        let clock = Clock::new();
        let carrier = Ways { server_id, network: self.clone() };
        Box::new(Simulated {
            outgoing: Outgoing::new(carrier, server_id, clock, LINES),
            inbox: Inbox::new(server_id, clock),
        })
    }

    /// A process dies, and what it had not read is gone.
    pub fn kill(&self, process: ServerId) {
        let mut shared = self.shared.borrow_mut();
        shared.waiting.retain(|(from, _)| *from != process);
        shared.mailboxes.remove(&process);
    }

    /// After so many more packets of this process, the next one fails with this error number.
    pub fn fail_after(&self, process: ServerId, packets: usize, error: i32) {
        let error = Errno::from_raw_os_error(error);
        self.shared.borrow_mut().failures.insert(process, (packets, error));
    }

    /// Whether there is something for a process to receive, or room that it waits for: what makes the
    /// wake source of another transport readable.
    #[must_use]
    pub fn is_ready(&self, process: ServerId) -> bool {
        let shared = self.shared.borrow();
        shared.mailboxes.get(&process).is_some_and(|mail| count(mail) > 0)
            || shared.waited_for(process).any(|to| shared.has_room(to))
    }

    /// A number below `end`, as chance says: for whoever decides what happens next.
    #[must_use]
    pub fn draw(&self, end: usize) -> usize {
        self.shared.borrow_mut().chance.below(end)
    }
}

impl Shared {
    /// Whether there is room for a packet to a process.
    fn has_room(&self, to: ServerId) -> bool {
        self.mailboxes.get(&to).is_none_or(|mail| count(mail) < PACKETS_MAX)
    }

    /// Those at whom a process waits for room.
    fn waited_for(&self, process: ServerId) -> impl Iterator<Item = ServerId> {
        self.waiting.iter().filter(move |(from, _)| *from == process).map(|(_, to)| *to)
    }

    /// A packet for a process, of any of its senders, unless chance says that none has come yet.
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

impl Ways {
    /// Those who had no room and have some.
    fn with_room(&self) -> Vec<ServerId> {
        let shared = self.network.shared.borrow();
        shared.waited_for(self.server_id).filter(|to| shared.has_room(*to)).collect()
    }
}

impl Carrier for Ways {
    type Line = ();

    /// Few, so that most frames are of several packets.
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
        // The dead say nothing.
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
    fn send(
        &mut self,
        now: Instant,
        to: ServerId,
        frame: &[u8],
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

    /// There is nothing to wait for: whoever lets time pass polls.
    fn wake_source(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn next_timeout(&self) -> Option<Instant> {
        [self.outgoing.next_timeout(), self.inbox.next_timeout()].into_iter().flatten().min()
    }

    fn descriptors_max(&self) -> usize {
        Ways::DESCRIPTORS_MAX
    }

    fn members(&mut self) -> Result<Vec<ServerId>, InitError> {
        Ok(self.outgoing.carrier.network.shared.borrow().mailboxes.keys().copied().collect())
    }

    fn bury(&mut self, dead: ServerId) -> bool {
        self.outgoing.carrier.stop_awaiting(dead, &mut ());
        self.outgoing.bury(dead);
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

/// Numbers that look drawn (SplitMix64).
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

/// A line is nothing.
const LINES: Lines = Lines { idle_max: 256, idle: Duration::from_secs(10) };

/// Packets that lie there for a process at most: as many as the kernel keeps of datagrams by default,
/// and the one that is being sent.
const PACKETS_MAX: usize = 11;

/// How often there is no room for a packet although there is.
const FULL_ONE_IN: usize = 16;

/// How often what has come is not seen yet.
const LATE_ONE_IN: usize = 8;
