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
//!
//! A turn is a place in flight, from the time that it is given until the operation ends. Three
//! rules keep a client whose operations end late from all places:
//!
//! 1. Time that the bytes of an operation do not explain is charged like bytes: see `pace`. It is a
//!    debt of the client, and takes no turns from others of its class.
//! 2. Operations that move no data, whose time nobody knows, take their turn in order like others,
//!    but have no place while they are carried out; at most one for each row, beside those that
//!    are carried out in parts and have paused.
//! 3. A worker that does not look for its turns for [`ASLEEP_NS`] stands still: its places are
//!    taken back, and its requests wait until it looks again.

use std::cmp::Reverse;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use dtyp::ServerId;

use crate::class::{CLASSES_MAX, ClassId, Cost, Kind, Meter};
use crate::controller::Controller;
use crate::pace::Pace;
use crate::slot::Slot;

/// Highest number of shared devices. Requests to further ones do not wait for each other.
pub const DEVICES_MAX: usize = 8;

/// Highest number of clients that share a device, counted once for each class of their requests,
/// and once more for operations that move no data. Requests of further ones do not wait.
pub const ROWS_MAX: usize = 2_048;

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

/// Nanoseconds after which a worker that has not looked for its turns stands still: twice the
/// interval in which it looks while it has operations at the device, or requests that wait.
pub const ASLEEP_NS: u64 = 40_000_000;

/// Nanoseconds between searches for workers that stand still, while others wait for places.
const SEARCH_INTERVAL_NS: u64 = 10_000_000;

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
    /// Time of the last search for workers that stand still.
    searched_at: AtomicU64,
    /// Price of the time that operations keep their places.
    pace: Pace,
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
    /// True if its operations move data.
    moves_data: AtomicU32,
    /// Number of waiting requests in the upper half, and of those with a turn in the lower.
    queue: AtomicU64,
    /// Operations that began and have not ended: those with a place in the upper half, others in
    /// the lower.
    begun: AtomicU64,
    /// Time at which its worker last looked for turns.
    looked_at: AtomicU64,
    /// Time of the last turn that it was given.
    granted_at: AtomicU64,
    /// Cost of the first waiting request.
    cost: AtomicU64,
    moves: AtomicU64,
    /// Time since which the first one waits.
    since: AtomicU64,
    /// Virtual time of the client within the class.
    time: AtomicU64,
    /// Virtual time of the classes before which the row's requests are behind others: time of its
    /// operations that their bytes did not explain.
    debt_until: AtomicU64,
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
            searched_at: AtomicU64::new(0),
            pace: Pace::default(),
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
            moves_data: AtomicU32::new(0),
            queue: zero(),
            begun: zero(),
            looked_at: zero(),
            granted_at: zero(),
            cost: zero(),
            moves: zero(),
            since: zero(),
            time: zero(),
            debt_until: zero(),
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

    /// Number of waiting requests that move data. Others wait for those of their own client.
    pub fn waiting(&self) -> u64 {
        let of = |row: &Row| u64::from(row.queued().0.saturating_sub(row.queued().1));
        self.rows.iter().filter(|row| row.moves_data()).map(of).sum()
    }

    fn share(&self, is_shared: bool) {
        self.is_shared.store(is_shared.into(), Ordering::Release);
    }

    /// Assigns a row to a client's requests of a class, that move data or do not.
    pub(crate) fn take_row(
        &self,
        client: ServerId,
        class: ClassId,
        moves_data: bool,
    ) -> Option<RowId> {
        let is_free = |row: &Row| {
            let id = client.unique_id.max(1);
            row.unique_id.compare_exchange(0, id, Ordering::AcqRel, Ordering::Acquire).is_ok()
        };
        let (id, row) = (0..).zip(&self.rows).find(|(_, row)| is_free(row))?;
        row.pid.store(client.pid, Ordering::Relaxed);
        row.class.store(class.into(), Ordering::Relaxed);
        row.moves_data.store(moves_data.into(), Ordering::Relaxed);
        row.time.store(0, Ordering::Release);
        row.debt_until.store(0, Ordering::Release);
        Some(id)
    }

    /// Begins a request if there is room and no other waits. Returns true if it begins.
    pub(crate) fn begin(&self, slots: &[Slot], row: RowId, cost: Cost, now: u64) -> bool {
        let row = &self.rows[usize::from(row)];
        if self.somebody_waits() || row.is_occupied() || !self.try_start_operation() {
            return false;
        }
        self.charge(slots, row, cost, now);
        self.begin_in(row);
        true
    }

    /// Begins an operation of a row that has a place. It keeps that only if it moves data.
    fn begin_in(&self, row: &Row) {
        let moves_data = row.moves_data();
        row.begun.fetch_add(if moves_data { 1 << 32 } else { 1 }, Ordering::AcqRel);
        if !moves_data {
            self.end_operations(1);
        }
    }

    /// Notes that a row's worker looks for its turns.
    pub(crate) fn look(&self, row: RowId, now: u64) {
        let at = usize::from(row);
        self.rows[at].looked_at.store(now, Ordering::Release);
        let is_marked = self.waiting[at / 64].load(Ordering::Acquire) >> (at % 64) & 1 != 0;
        if !is_marked && self.rows[at].is_ready() {
            self.mark(at);
        }
    }

    /// Queues a request in a row.
    pub(crate) fn wait(&self, row: RowId) {
        self.rows[usize::from(row)].queue.fetch_add(1 << 32, Ordering::AcqRel);
        self.mark(usize::from(row));
    }

    /// Sets the cost of a row's first request, and the time since which it is the first.
    pub(crate) fn describe(&self, row: RowId, first: Cost, since: u64) {
        let row = &self.rows[usize::from(row)];
        row.cost.store(work(first), Ordering::Relaxed);
        row.moves.store(first.bytes, Ordering::Relaxed);
        row.since.store(since, Ordering::Release);
    }

    /// Takes the turn of a row's first request, if it has one. Returns the time since which it has
    /// its place, if it begins.
    pub(crate) fn take_turn(&self, row: RowId) -> Option<u64> {
        let row = &self.rows[usize::from(row)];
        let taken = row.queue.fetch_update(Ordering::AcqRel, Ordering::Acquire, |queue| {
            (low(queue) > 0).then(|| queue - (1 << 32) - 1)
        });
        taken.ok()?;
        self.begin_in(row);
        Some(row.granted_at.load(Ordering::Acquire))
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

    /// Ends an operation of a row. Returns true if it had a place until now.
    pub(crate) fn end_in(&self, row: RowId) -> bool {
        let at = usize::from(row);
        let row = &self.rows[at];
        let mut had_place = false;
        let _ = row.begun.fetch_update(Ordering::AcqRel, Ordering::Acquire, |begun| {
            had_place = low(begun) == 0 && high(begun) > 0;
            begun.checked_sub(if had_place { 1 << 32 } else { 1 })
        });
        if had_place {
            self.end_operations(1);
        } else if row.is_ready() {
            self.mark(at);
        }
        had_place
    }

    /// Charges the time of an operation that its cost does not explain: it took `held` nanoseconds,
    /// and had a place until its end or not. One that `is_measured` shows how much a place moves.
    pub(crate) fn charge_time(
        &self,
        slots: &[Slot],
        row: RowId,
        cost: Cost,
        (held, had_place, is_measured): (u64, bool, bool),
        now: u64,
    ) {
        let row = &self.rows[usize::from(row)];
        // A place that was taken back was not kept for longer.
        let held = if row.moves_data() && !had_place { held.min(ASLEEP_NS) } else { held };
        let price = self.pace.price(work(cost), held);
        if is_measured {
            self.pace.measure(work(cost), held);
        }
        if price > 0 {
            if !slots.get(row.class()).is_some_and(|slot| slot.is_owed(now)) {
                self.indebt(slots, row, price);
            }
            self.advance(slots, row, price, false, false);
        }
    }

    /// Has a row pay a price, and not the others of its class: it waits until its class could have
    /// moved as much. So many rows of a class with debts pay so many times as much: together they
    /// have the part of one class.
    fn indebt(&self, slots: &[Slot], row: &Row, price: u64) {
        let class = row.class();
        let slot = slots.get(class);
        let weight = slot.and_then(|it| it.number(Meter::Weight)).unwrap_or(WEIGHT).max(1);
        let reached = self.reached[level(priority_of(slot))].load(Ordering::Acquire);
        let has_debt = |it: &&Row| {
            it.unique_id.load(Ordering::Acquire) != 0
                && it.class() == class
                && it.debt_until.load(Ordering::Acquire) > reached
        };
        let others = self.rows.iter().filter(|it| !std::ptr::eq(*it, row)).filter(has_debt).count();
        let in_virtual_time =
            |bytes: u64| bytes.saturating_mul(PARTS).saturating_mul(count_of(others) + 1) / weight;
        let least = self.class_time[class].load(Ordering::Acquire).max(reached.saturating_sub(LAG));
        let most = least.saturating_add(in_virtual_time(self.pace.longest_debt()));
        let by = in_virtual_time(price);
        let owed = |debt: u64| Some(debt.max(least).saturating_add(by).min(most));
        let _ = row.debt_until.fetch_update(Ordering::AcqRel, Ordering::Acquire, owed);
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
        self.end_operations(turns + high(row.begun.swap(0, Ordering::AcqRel)));
        row.unique_id.store(0, Ordering::Release);
    }

    /// Gives turns to the next requests, as far as there is room. Adds their workers, to be
    /// notified, to `to_notify`.
    pub(crate) fn next(&self, slots: &[Slot], now: u64, to_notify: &mut Vec<ServerId>) {
        while self.somebody_waits() {
            if !self.try_start_operation() {
                if self.take_back(now) {
                    continue;
                }
                return;
            }
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

    /// Takes back the places of workers that stand still. Returns true if it took any.
    fn take_back(&self, now: u64) -> bool {
        let searched_at = self.searched_at.load(Ordering::Acquire);
        let next = searched_at + SEARCH_INTERVAL_NS;
        let (store, load) = (Ordering::AcqRel, Ordering::Acquire);
        if now < next || self.searched_at.compare_exchange(searched_at, now, store, load).is_err() {
            return false;
        }
        let stands_still =
            |row: &&Row| row.unique_id.load(Ordering::Acquire) != 0 && row.is_asleep(now);
        let places = self.rows.iter().filter(stands_still).map(Row::take_places).sum();
        self.end_operations(places);
        places > 0
    }

    /// Gives the next row its turn, and returns it.
    fn choose(&self, slots: &[Slot], now: u64) -> Option<usize> {
        loop {
            let turn = self.candidates(slots, now).min()?;
            let row = &self.rows[turn.row];
            let turns_max = if row.moves_data() { u32::MAX } else { 1 };
            // Before the turn: its worker reads the time as soon as there is one.
            row.granted_at.store(now, Ordering::Release);
            let granted = row.queue.fetch_update(Ordering::AcqRel, Ordering::Acquire, |queue| {
                (low(queue) < high(queue).min(turns_max)).then(|| queue + 1)
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
            let mut bits = bits.load(Ordering::Acquire);
            std::iter::from_fn(move || {
                let bit = bits.checked_ilog2()?;
                bits ^= 1 << bit;
                Some(word * 64 + usize::try_from(bit).expect("below 64"))
            })
        };
        self.waiting.iter().enumerate().flat_map(of_word).filter_map(move |at| {
            let row = &self.rows[at];
            if !row.is_ready() {
                self.unmark(at);
                return None;
            }
            if row.is_asleep(now) {
                // It is marked again when its worker looks.
                self.waiting[at / 64].fetch_and(!(1 << (at % 64)), Ordering::AcqRel);
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
            class_time: self.class_time[class]
                .load(Ordering::Acquire)
                .max(reached)
                .max(row.debt_until.load(Ordering::Acquire)),
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

    fn mark(&self, at: usize) {
        self.waiting[at / 64].fetch_or(1 << (at % 64), Ordering::AcqRel);
    }

    fn unmark(&self, at: usize) {
        self.waiting[at / 64].fetch_and(!(1 << (at % 64)), Ordering::AcqRel);
        // A request arrived between the check and the update.
        if self.rows[at].is_ready() {
            self.mark(at);
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

    fn moves_data(&self) -> bool {
        self.moves_data.load(Ordering::Acquire) != 0
    }

    /// True if nothing of the row may begin until an operation of it ends: of those without data
    /// one at a time is carried out.
    fn is_occupied(&self) -> bool {
        !self.moves_data() && (self.begun.load(Ordering::Acquire) != 0 || self.queued().1 > 0)
    }

    /// True if a request waits that may have a turn.
    fn is_ready(&self) -> bool {
        let (queued, granted) = self.queued();
        granted < queued && !self.is_occupied()
    }

    fn is_asleep(&self, now: u64) -> bool {
        now.saturating_sub(self.looked_at.load(Ordering::Acquire)) > ASLEEP_NS
    }

    /// Takes the places of a row whose worker stands still: of turns that did not begin, and of
    /// operations that it has not ended. Returns their number.
    fn take_places(&self) -> u32 {
        let without_turns = |queue: u64| Some(queue - u64::from(low(queue)));
        let queue = self.queue.fetch_update(Ordering::AcqRel, Ordering::Acquire, without_turns);
        let without_places = |begun: u64| Some(u64::from(high(begun)) + u64::from(low(begun)));
        let begun = self.begun.fetch_update(Ordering::AcqRel, Ordering::Acquire, without_places);
        queue.map_or(0, low) + begun.map_or(0, high)
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

fn count_of(rows: usize) -> u64 {
    u64::try_from(rows).expect("64 bits")
}

/// True for operations that move data.
pub(crate) fn moves_data(cost: Cost) -> bool {
    cost.kind != Kind::Metadata
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
