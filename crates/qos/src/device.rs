//! A storage device in memory that all workers share: how much is in flight there, and who goes next.
//!
//! What is shared between classes is room for operations in flight, as much as the
//! [`controller`](crate::controller) finds good for the device. While there is room and nobody waits,
//! a request begins. Otherwise it waits in its `Row`, which is one client's part of one class, and
//! whenever an operation ends, whoever ended it lets the next one begin. Who that is follows from
//! `Turn`: nobody waits for ever, what was promised comes first, then priority, then weight, and
//! within a class the client that had least.
//!
//! Weights are kept by start-time fair queueing: each class has a time that moves on by what its
//! requests cost, divided by its weight, and the class whose time is least goes next. A class that
//! had nothing to do comes back to the time that the others have reached, so what it left unused is
//! theirs.

use std::cmp::Reverse;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use dtyp::ServerId;

use crate::class::{CLASSES_MAX, ClassId, Cost, Meter};
use crate::controller::Controller;
use crate::slot::Slot;

/// Devices that are shared at most. Requests to further ones do not wait for each other.
pub const DEVICES_MAX: usize = 8;

/// Clients, counted once for each class that they have requests in, that may share a device.
/// Requests of further ones do not wait.
pub const ROWS_MAX: usize = 1_024;

/// Names a device: its place in the memory that all workers share.
pub type DeviceId = u8;

/// Names a row of a device.
pub type RowId = u16;

/// The class of requests that belong to none with a part of its own.
pub const DEFAULT_CLASS: ClassId = 256;

const _: () = assert!(DEFAULT_CLASS as usize == CLASSES_MAX, "it stands behind all classes");

/// The weight of a class that has none.
const WEIGHT: u64 = 1;

/// The highest priority.
pub const PRIORITY_MAX: u64 = 7;

const PRIORITIES: usize = 8;

/// What an operation costs beside the bytes that it moves, in bytes.
const OPERATION_BYTES: u64 = 4 << 10;

/// How long the first request of a client waits at most while others come first by priority.
pub const STARVED_NS: u64 = 1_000_000_000;

/// Parts of a byte in which classes' times are counted, so that large weights divide small requests.
const PARTS: u64 = 16;

/// How far a class that had nothing to do for a moment stays behind the others: a worker that was
/// told that it may begin needs some time to ask for more.
pub const LAG: u64 = (512 << 10) * PARTS;

/// One device. All in it are atomics: other processes may change them at any time.
#[derive(Debug)]
#[repr(C)]
pub struct Device {
    /// The kernel's number of it and one, or zero: nobody has this place.
    key: AtomicU64,
    /// A class has a part of its own.
    is_shared: AtomicU32,
    in_flight: AtomicU32,
    /// By priority: the time that classes have reached.
    reached: [AtomicU64; PRIORITIES],
    /// By class: its own time.
    class_time: [AtomicU64; CLASSES_MAX + 1],
    /// By class: the time that its clients have reached.
    clients_reached: [AtomicU64; CLASSES_MAX + 1],
    /// Bit by row: somebody may wait there.
    waiting: [AtomicU64; ROWS_MAX / 64],
    rows: [Row; ROWS_MAX],
    /// What may be in flight.
    pub controller: Controller,
}

/// What one client asks of a device as part of one class.
#[derive(Debug)]
#[repr(C)]
struct Row {
    /// Whose it is, or zero.
    unique_id: AtomicU64,
    pid: AtomicU32,
    class: AtomicU32,
    /// Requests that wait in the upper half, and how many of them may begin in the lower.
    queue: AtomicU64,
    /// What began and has not ended.
    in_flight: AtomicU32,
    /// What the first that waits costs.
    cost: AtomicU64,
    moves: AtomicU64,
    /// Since when the first waits.
    since: AtomicU64,
    /// The client's own time within the class.
    time: AtomicU64,
}

/// When a row comes: the least goes next.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Turn {
    is_in_time: bool,
    is_owed_nothing: bool,
    priority: Reverse<u64>,
    has_time: bool,
    class_time: u64,
    client_time: u64,
    row: usize,
}

impl Default for Device {
    fn default() -> Self {
        let zeros = || std::array::from_fn(|_| AtomicU64::new(0));
        Self {
            key: AtomicU64::new(0),
            is_shared: AtomicU32::new(0),
            in_flight: AtomicU32::new(0),
            reached: std::array::from_fn(|_| AtomicU64::new(0)),
            class_time: std::array::from_fn(|_| AtomicU64::new(0)),
            clients_reached: std::array::from_fn(|_| AtomicU64::new(0)),
            waiting: zeros(),
            rows: std::array::from_fn(|_| Row::default()),
            controller: Controller::default(),
        }
    }
}

impl Default for Row {
    fn default() -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            unique_id: zero(),
            pid: AtomicU32::new(0),
            class: AtomicU32::new(0),
            queue: zero(),
            in_flight: AtomicU32::new(0),
            cost: zero(),
            moves: zero(),
            since: zero(),
            time: zero(),
        }
    }
}

/// The place of a device by the kernel's number of it, a new one if it has none yet.
pub fn place(devices: &[Device], slots: &[Slot], number: u64) -> Option<DeviceId> {
    let key = number.wrapping_add(1).max(1);
    for (id, device) in (0..).zip(devices) {
        let taken = device.key.compare_exchange(0, key, Ordering::AcqRel, Ordering::Acquire);
        match taken {
            Ok(_) => {
                device.share(slots.iter().any(Slot::has_part));
                return Some(id);
            }
            Err(other) if other == key => return Some(id),
            Err(_) => {}
        }
    }
    None
}

/// A class has got a part of its own, or has none any more: the devices are shared from now on, or
/// not.
pub fn share(devices: &[Device], slots: &[Slot]) {
    let is_shared = slots.iter().any(Slot::has_part);
    devices.iter().for_each(|device| device.share(is_shared));
}

impl Device {
    /// The kernel's number of it, if it is one.
    pub fn number(&self) -> Option<u64> {
        self.key.load(Ordering::Acquire).checked_sub(1)
    }

    /// Whether classes have parts of it.
    pub fn is_shared(&self) -> bool {
        self.is_shared.load(Ordering::Acquire) != 0
    }

    /// Operations in flight.
    pub fn in_flight(&self) -> u32 {
        self.in_flight.load(Ordering::Acquire)
    }

    /// Requests that wait for it.
    pub fn waiting(&self) -> u64 {
        let of = |row: &Row| u64::from(row.queued().0.saturating_sub(row.queued().1));
        self.rows.iter().map(of).sum()
    }

    fn share(&self, is_shared: bool) {
        self.is_shared.store(is_shared.into(), Ordering::Release);
    }

    /// A row for a client's requests of a class.
    pub(crate) fn take_row(&self, client: ServerId, class: ClassId) -> Option<RowId> {
        let is_free = |row: &Row| {
            let id = client.unique_id.max(1);
            row.unique_id.compare_exchange(0, id, Ordering::AcqRel, Ordering::Acquire).is_ok()
        };
        let (id, row) = (0..).zip(&self.rows).find(|(_, row)| is_free(row))?;
        row.pid.store(client.pid, Ordering::Relaxed);
        row.class.store(class.into(), Ordering::Relaxed);
        row.time.store(0, Ordering::Release);
        Some(id)
    }

    /// Whether a request may begin now: there is room, and nobody waits.
    pub(crate) fn begin(&self, slots: &[Slot], row: RowId, cost: Cost, now: u64) -> bool {
        if self.somebody_waits() || !self.take_room() {
            return false;
        }
        self.charge(slots, &self.rows[usize::from(row)], cost, now);
        self.rows[usize::from(row)].in_flight.fetch_add(1, Ordering::AcqRel);
        true
    }

    /// A request waits in a row.
    pub(crate) fn wait(&self, row: RowId) {
        self.rows[usize::from(row)].queue.fetch_add(1 << 32, Ordering::AcqRel);
        self.mark(row);
    }

    /// What the first request of a row is like, and since when it is the first.
    pub(crate) fn describe(&self, row: RowId, first: Cost, since: u64) {
        let row = &self.rows[usize::from(row)];
        row.cost.store(work(first), Ordering::Relaxed);
        row.moves.store(first.bytes, Ordering::Relaxed);
        row.since.store(since, Ordering::Release);
    }

    /// Whether the first request of a row may begin. Then it has.
    pub(crate) fn take_turn(&self, row: RowId) -> bool {
        let row = &self.rows[usize::from(row)];
        let taken = row.queue.fetch_update(Ordering::AcqRel, Ordering::Acquire, |queue| {
            (low(queue) > 0).then(|| queue - (1 << 32) - 1)
        });
        if taken.is_ok() {
            row.in_flight.fetch_add(1, Ordering::AcqRel);
        }
        taken.is_ok()
    }

    /// A request of a row does not wait any more, and does not begin.
    pub(crate) fn withdraw(&self, row: RowId) {
        let row = &self.rows[usize::from(row)];
        let mut had_turn = false;
        let _ = row.queue.fetch_update(Ordering::AcqRel, Ordering::Acquire, |queue| {
            had_turn = low(queue) >= high(queue) && high(queue) > 0;
            (high(queue) > 0).then(|| queue - (1 << 32) - u64::from(had_turn))
        });
        if had_turn {
            self.give_room(1);
        }
    }

    /// An operation of a row has ended.
    pub(crate) fn end(&self, row: RowId) {
        self.rows[usize::from(row)].in_flight.fetch_sub(1, Ordering::AcqRel);
        self.give_room(1);
    }

    /// A client needs its row no more.
    pub(crate) fn leave_row(&self, row: RowId) {
        self.clear(&self.rows[usize::from(row)]);
    }

    /// A worker is gone, and with it what it had in flight and waiting: for the supervisor.
    pub fn bury(&self, unique_id: u64) {
        let of_it = |row: &&Row| row.unique_id.load(Ordering::Acquire) == unique_id.max(1);
        self.rows.iter().filter(of_it).for_each(|row| self.clear(row));
    }

    fn clear(&self, row: &Row) {
        let turns = low(row.queue.swap(0, Ordering::AcqRel));
        self.give_room(turns + row.in_flight.swap(0, Ordering::AcqRel));
        row.unique_id.store(0, Ordering::Release);
    }

    /// Lets those begin who are next, as far as there is room. Gives their workers, which are to be
    /// told.
    pub(crate) fn next(&self, slots: &[Slot], now: u64, tell: &mut Vec<ServerId>) {
        while self.somebody_waits() && self.take_room() {
            match self.choose(slots, now) {
                Some(row) => {
                    let client = self.rows[row].client();
                    if !tell.contains(&client) {
                        tell.push(client);
                    }
                }
                // Whoever came meanwhile and found no room sees the room that is given back here, or
                // is seen by the next look.
                None => self.give_room(1),
            }
        }
    }

    /// The row that is next, which has its turn from now on.
    fn choose(&self, slots: &[Slot], now: u64) -> Option<usize> {
        loop {
            let turn = self.candidates(slots, now).min()?;
            let row = &self.rows[turn.row];
            let granted = row.queue.fetch_update(Ordering::AcqRel, Ordering::Acquire, |queue| {
                (low(queue) < high(queue)).then(|| queue + 1)
            });
            if granted.is_ok() {
                // The one behind it waits as the first from now on.
                row.since.store(now, Ordering::Release);
                let bytes = row.moves.load(Ordering::Relaxed);
                self.charge_turn(slots, row, row.cost.load(Ordering::Relaxed), bytes, now, turn);
                return Some(turn.row);
            }
        }
    }

    fn candidates<'d>(&'d self, slots: &'d [Slot], now: u64) -> impl Iterator<Item = Turn> {
        let of_word = |(word, bits): (usize, &'d AtomicU64)| {
            let bits = bits.load(Ordering::Acquire);
            (0..64).filter(move |bit| bits >> bit & 1 != 0).map(move |bit| word * 64 + bit)
        };
        self.waiting.iter().enumerate().flat_map(of_word).filter_map(move |at| {
            let (queued, granted) = self.rows[at].queued();
            if granted >= queued {
                self.unmark(at);
                return None;
            }
            Some(self.turn(slots, at, now))
        })
    }

    fn turn(&self, slots: &[Slot], at: usize, now: u64) -> Turn {
        let row = &self.rows[at];
        let class = row.class();
        let slot = slots.get(class);
        let priority = priority_of(slot);
        let reached = self.reached[level(priority)].load(Ordering::Acquire).saturating_sub(LAG);
        let clients = self.clients_reached[class].load(Ordering::Acquire);
        let waits_since = row.since.load(Ordering::Acquire);
        Turn {
            is_in_time: now.saturating_sub(waits_since) < STARVED_NS,
            is_owed_nothing: !slot.is_some_and(|slot| slot.is_owed(now)),
            priority: Reverse(priority),
            has_time: slot.and_then(|slot| slot.number(Meter::LatencyTarget)).is_none(),
            class_time: self.class_time[class].load(Ordering::Acquire).max(reached),
            client_time: row.time.load(Ordering::Acquire).max(clients),
            row: at,
        }
    }

    /// Takes what a request costs that begins without having waited.
    fn charge(&self, slots: &[Slot], row: &Row, cost: Cost, now: u64) {
        let class = row.class();
        let slot = slots.get(class);
        let is_owed = slot.is_some_and(|slot| slot.is_owed(now));
        self.advance(slots, row, work(cost), !is_owed, !is_owed);
        if let Some(slot) = slot {
            slot.serve_minimum(cost.bytes, now);
        }
    }

    fn charge_turn(&self, slots: &[Slot], row: &Row, work: u64, bytes: u64, now: u64, turn: Turn) {
        // What was promised is not counted: weights share what is left.
        let by_weight = turn.is_in_time && turn.is_owed_nothing;
        self.advance(slots, row, work, turn.is_owed_nothing, by_weight);
        if let Some(slot) = slots.get(row.class()) {
            slot.serve_minimum(bytes, now);
        }
    }

    /// Moves the times of a class and of a client on. Only who goes by weight tells how far the
    /// others have come.
    fn advance(&self, slots: &[Slot], row: &Row, work: u64, counts: bool, by_weight: bool) {
        let class = row.class();
        if counts {
            let slot = slots.get(class);
            let weight = slot.and_then(|it| it.number(Meter::Weight)).unwrap_or(WEIGHT).max(1);
            let reached = &self.reached[level(priority_of(slot))];
            let least = reached.load(Ordering::Acquire).saturating_sub(LAG);
            let started = move_on(&self.class_time[class], least, work * PARTS / weight);
            if by_weight {
                reached.fetch_max(started, Ordering::AcqRel);
            }
        }
        let clients = &self.clients_reached[class];
        let started = move_on(&row.time, clients.load(Ordering::Acquire), work);
        clients.fetch_max(started, Ordering::AcqRel);
    }

    fn take_room(&self) -> bool {
        let limit = self.controller.limit();
        let taken = self.in_flight.fetch_update(Ordering::AcqRel, Ordering::Acquire, |in_flight| {
            (in_flight < limit).then(|| in_flight + 1)
        });
        if taken.is_err() {
            self.controller.was_full();
        }
        taken.is_ok()
    }

    fn give_room(&self, count: u32) {
        let _ = self.in_flight.fetch_update(Ordering::AcqRel, Ordering::Acquire, |in_flight| {
            Some(in_flight.saturating_sub(count))
        });
    }

    fn somebody_waits(&self) -> bool {
        self.waiting.iter().any(|bits| bits.load(Ordering::Acquire) != 0)
    }

    fn mark(&self, row: RowId) {
        let at = usize::from(row);
        self.waiting[at / 64].fetch_or(1 << (at % 64), Ordering::AcqRel);
    }

    fn unmark(&self, at: usize) {
        self.waiting[at / 64].fetch_and(!(1 << (at % 64)), Ordering::AcqRel);
        let (queued, granted) = self.rows[at].queued();
        // Somebody came between the look and the mark.
        if granted < queued {
            self.waiting[at / 64].fetch_or(1 << (at % 64), Ordering::AcqRel);
        }
    }
}

impl Row {
    fn class(&self) -> usize {
        let class = self.class.load(Ordering::Acquire);
        usize::try_from(class).map_or(CLASSES_MAX, |class| class.min(CLASSES_MAX))
    }

    fn client(&self) -> ServerId {
        ServerId {
            pid: self.pid.load(Ordering::Acquire),
            unique_id: self.unique_id.load(Ordering::Acquire),
        }
    }

    /// How many wait, and how many of them may begin.
    fn queued(&self) -> (u32, u32) {
        let queue = self.queue.load(Ordering::Acquire);
        (high(queue), low(queue))
    }
}

/// Moves a time on from where it is, or from `least`; gives where that was.
fn move_on(time: &AtomicU64, least: u64, by: u64) -> u64 {
    let moved = |time: u64| Some(time.max(least).saturating_add(by));
    let before = time.fetch_update(Ordering::AcqRel, Ordering::Acquire, moved);
    before.unwrap_or_else(|time| time).max(least)
}

fn priority_of(slot: Option<&Slot>) -> u64 {
    slot.and_then(|slot| slot.number(Meter::Priority)).unwrap_or(0).min(PRIORITY_MAX)
}

fn level(priority: u64) -> usize {
    usize::try_from(priority).map_or(PRIORITIES - 1, |level| level.min(PRIORITIES - 1))
}

/// What a request takes of a device.
fn work(cost: Cost) -> u64 {
    cost.bytes.saturating_add(OPERATION_BYTES)
}

fn high(queue: u64) -> u32 {
    u32::try_from(queue >> 32).expect("half of it")
}

fn low(queue: u64) -> u32 {
    u32::try_from(queue & u64::from(u32::MAX)).expect("half of it")
}
