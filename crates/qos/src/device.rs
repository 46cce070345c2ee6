//! A storage device in memory that all workers share: its operations in flight, and the order of
//! waiting ones.
//!
//! Classes share room for operations in flight, of the size that the
//! [`controller`](crate::controller) has found for the device. While there is room and no request
//! waits, a request begins. Otherwise it waits in its `Row`, which is one client's part of one
//! class, and whenever an operation ends, the worker that ended it lets the next one begin. `Turn`
//! gives the order: starved requests first, then guaranteed minimums, then priority, then weight,
//! and within a class the client with the least consumption.
//!
//! Weights are kept by start-time fair queueing: each class has a virtual time that advances by the
//! cost of its requests, divided by its weight, and the class with the least time is next. An idle
//! class returns at the time that the others have reached, so unused capacity goes to them.

use std::cmp::Reverse;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use dtyp::ServerId;

use crate::class::{CLASSES_MAX, ClassId, Cost, Meter};
use crate::controller::Controller;
use crate::slot::Slot;

/// Highest number of shared devices. Requests to further ones do not wait for each other.
pub const DEVICES_MAX: usize = 8;

/// Highest number of clients that share a device, counted once for each class of their requests.
/// Requests of further ones do not wait.
pub const ROWS_MAX: usize = 1_024;

/// Id of a device: its index in the memory that all workers share.
pub type DeviceId = u8;

/// Id of a row: its index in the device.
pub type RowId = u16;

/// Class of requests without a class that has a part of its own.
pub const DEFAULT_CLASS: ClassId = 256;

const _: () = assert!(DEFAULT_CLASS as usize == CLASSES_MAX, "its index is after all classes");

/// Weight of a class without a configured one.
const WEIGHT: u64 = 1;

/// Highest priority of a class; the lowest is 0.
pub const PRIORITY_MAX: u64 = 7;

const PRIORITIES: usize = 8;

/// Fixed cost of an operation besides its data, in bytes.
const OPERATION_BYTES: u64 = 4 << 10;

/// Longest wait in nanoseconds of a client's first request behind higher priorities.
pub const STARVED_NS: u64 = 1_000_000_000;

/// Virtual time units per byte, so that large weights divide small requests.
const PARTS: u64 = 16;

/// Virtual time by which a class that was idle for a moment may stay behind the others: a worker
/// needs some time to send more after its turn.
pub const LAG: u64 = (512 << 10) * PARTS;

/// One device. All fields are atomics: other processes may change them at any time.
#[derive(Debug)]
#[repr(C)]
pub struct Device {
    /// Device number of the kernel plus one; zero for a free entry.
    key: AtomicU64,
    /// True if a class has a part of its own.
    is_shared: AtomicU32,
    in_flight: AtomicU32,
    /// Virtual time that classes have reached, by priority.
    reached: [AtomicU64; PRIORITIES],
    /// Virtual time of each class.
    class_time: [AtomicU64; CLASSES_MAX + 1],
    /// Virtual time that the clients of each class have reached.
    clients_reached: [AtomicU64; CLASSES_MAX + 1],
    /// Bits by row: set where a request may wait.
    waiting: [AtomicU64; ROWS_MAX / 64],
    rows: [Row; ROWS_MAX],
    /// Limit of operations in flight.
    pub controller: Controller,
}

/// Requests of one client in one class at a device.
#[derive(Debug)]
#[repr(C)]
struct Row {
    /// Owner of the row, or zero.
    unique_id: AtomicU64,
    pid: AtomicU32,
    class: AtomicU32,
    /// Number of waiting requests in the upper half, and of those with a turn in the lower.
    queue: AtomicU64,
    /// Operations that began and have not ended.
    in_flight: AtomicU32,
    /// Cost of the first waiting request.
    cost: AtomicU64,
    moves: AtomicU64,
    /// Time since which the first one waits.
    since: AtomicU64,
    /// Virtual time of the client within the class.
    time: AtomicU64,
}

/// Order of rows: the least is next.
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

/// Returns the id of a device by the kernel's number of it, a new one for an unknown device.
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

/// Updates the sharing of all devices, after a class has got or lost a part of its own.
pub fn share(devices: &[Device], slots: &[Slot]) {
    let is_shared = slots.iter().any(Slot::has_part);
    devices.iter().for_each(|device| device.share(is_shared));
}

impl Device {
    /// Device number of the kernel; `None` for a free entry.
    pub fn number(&self) -> Option<u64> {
        self.key.load(Ordering::Acquire).checked_sub(1)
    }

    /// True if classes have parts of it.
    pub fn is_shared(&self) -> bool {
        self.is_shared.load(Ordering::Acquire) != 0
    }

    /// Number of operations in flight.
    pub fn in_flight(&self) -> u32 {
        self.in_flight.load(Ordering::Acquire)
    }

    /// Number of requests that wait for it.
    pub fn waiting(&self) -> u64 {
        let of = |row: &Row| u64::from(row.queued().0.saturating_sub(row.queued().1));
        self.rows.iter().map(of).sum()
    }

    fn share(&self, is_shared: bool) {
        self.is_shared.store(is_shared.into(), Ordering::Release);
    }

    /// Assigns a row to a client's requests of a class.
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

    /// Begins a request if there is room and no other waits. Returns true if it begins.
    pub(crate) fn begin(&self, slots: &[Slot], row: RowId, cost: Cost, now: u64) -> bool {
        if self.somebody_waits() || !self.try_start_operation() {
            return false;
        }
        self.charge(slots, &self.rows[usize::from(row)], cost, now);
        self.rows[usize::from(row)].in_flight.fetch_add(1, Ordering::AcqRel);
        true
    }

    /// Queues a request in a row.
    pub(crate) fn wait(&self, row: RowId) {
        self.rows[usize::from(row)].queue.fetch_add(1 << 32, Ordering::AcqRel);
        self.mark(row);
    }

    /// Sets the cost of a row's first request, and the time since which it is the first.
    pub(crate) fn describe(&self, row: RowId, first: Cost, since: u64) {
        let row = &self.rows[usize::from(row)];
        row.cost.store(work(first), Ordering::Relaxed);
        row.moves.store(first.bytes, Ordering::Relaxed);
        row.since.store(since, Ordering::Release);
    }

    /// Takes the turn of a row's first request, if it has one. Returns true if it begins.
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

    /// Removes a queued request of a row, which will not begin.
    pub(crate) fn withdraw(&self, row: RowId) {
        let row = &self.rows[usize::from(row)];
        let mut had_turn = false;
        let _ = row.queue.fetch_update(Ordering::AcqRel, Ordering::Acquire, |queue| {
            had_turn = low(queue) >= high(queue) && high(queue) > 0;
            (high(queue) > 0).then(|| queue - (1 << 32) - u64::from(had_turn))
        });
        if had_turn {
            self.end_operations(1);
        }
    }

    /// Ends an operation of a row.
    pub(crate) fn end(&self, row: RowId) {
        self.rows[usize::from(row)].in_flight.fetch_sub(1, Ordering::AcqRel);
        self.end_operations(1);
    }

    /// Frees a client's row for others.
    pub(crate) fn leave_row(&self, row: RowId) {
        self.clear(&self.rows[usize::from(row)]);
    }

    /// Removes a dead worker with its operations and queued requests. Only the supervisor calls it.
    pub fn remove_worker(&self, unique_id: u64) {
        let of_it = |row: &&Row| row.unique_id.load(Ordering::Acquire) == unique_id.max(1);
        self.rows.iter().filter(of_it).for_each(|row| self.clear(row));
    }

    fn clear(&self, row: &Row) {
        let turns = low(row.queue.swap(0, Ordering::AcqRel));
        self.end_operations(turns + row.in_flight.swap(0, Ordering::AcqRel));
        row.unique_id.store(0, Ordering::Release);
    }

    /// Gives turns to the next requests, as far as there is room. Adds their workers, to be
    /// notified, to `to_notify`.
    pub(crate) fn next(&self, slots: &[Slot], now: u64, to_notify: &mut Vec<ServerId>) {
        while self.somebody_waits() && self.try_start_operation() {
            match self.choose(slots, now) {
                Some(row) => {
                    let client = self.rows[row].client();
                    if !to_notify.contains(&client) {
                        to_notify.push(client);
                    }
                }
                // A request that arrived meanwhile and found no room uses the room returned here,
                // or gets its turn at the next check.
                None => self.end_operations(1),
            }
        }
    }

    /// Gives the next row its turn, and returns it.
    fn choose(&self, slots: &[Slot], now: u64) -> Option<usize> {
        loop {
            let turn = self.candidates(slots, now).min()?;
            let row = &self.rows[turn.row];
            let granted = row.queue.fetch_update(Ordering::AcqRel, Ordering::Acquire, |queue| {
                (low(queue) < high(queue)).then(|| queue + 1)
            });
            if granted.is_ok() {
                // The next request becomes the first one now.
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

    /// Charges a request that begins without waiting.
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
        // Guaranteed minimums are not charged: weights share the rest.
        let by_weight = turn.is_in_time && turn.is_owed_nothing;
        self.advance(slots, row, work, turn.is_owed_nothing, by_weight);
        if let Some(slot) = slots.get(row.class()) {
            slot.serve_minimum(bytes, now);
        }
    }

    /// Advances the virtual times of a class and of a client. Only a turn by weight advances the
    /// time that all have reached.
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

    fn try_start_operation(&self) -> bool {
        let limit = self.controller.limit();
        let taken = self.in_flight.fetch_update(Ordering::AcqRel, Ordering::Acquire, |in_flight| {
            (in_flight < limit).then(|| in_flight + 1)
        });
        if taken.is_err() {
            self.controller.was_full();
        }
        taken.is_ok()
    }

    fn end_operations(&self, count: u32) {
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
        // A request arrived between the check and the update.
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

    /// Number of waiting requests, and of those with a turn.
    fn queued(&self) -> (u32, u32) {
        let queue = self.queue.load(Ordering::Acquire);
        (high(queue), low(queue))
    }
}

/// Advances a time from its value, or from `least` if that is later. Returns the start.
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

/// Cost of a request at a device, in bytes.
fn work(cost: Cost) -> u64 {
    cost.bytes.saturating_add(OPERATION_BYTES)
}

fn high(queue: u64) -> u32 {
    u32::try_from(queue >> 32).expect("half of it")
}

fn low(queue: u64) -> u32 {
    u32::try_from(queue & u64::from(u32::MAX)).expect("half of it")
}
