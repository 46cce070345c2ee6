//! Gate of a worker: requests beyond a limit wait here until they may begin, and then for their
//! turn at the storage.
//!
//! Requests of the same classes and the same kind (read, write, anything else) form a flow, and
//! keep their order. Only the first request of a flow has consumed its cost, and knows when it may
//! begin: so a client with a hundred waiting requests is no further ahead than one with a single
//! request, and every worker with a flow of a class gets its turn.
//!
//! Where classes share a [`device`](crate::device), requests within their limits queue for it: two
//! queues for each class with a part of its own, with data and without, and two for all others.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::mem;

use dtyp::ServerId;

use crate::class::{ClassId, Classes, Cost, Kind, Meter};
use crate::controller::{ONE, Operation};
use crate::device::{ASLEEP_NS, DEFAULT_CLASS, Device, DeviceId, RowId, moves_data};
use crate::slot::{Slot, Slots, changes, count, count_waiting, give_back, refund, reserve};

/// Highest number of bytes of one client's throttled requests. Beyond it the client is granted no
/// further credits.
pub const THROTTLED_BYTES_MAX: u64 = 64 << 20;

/// Highest number of one client's throttled requests, with the same effect.
pub const THROTTLED_REQUESTS_MAX: usize = 1_024;

/// Bytes of throttled requests at which reception from the client stops. It gets here only with
/// credits that it already had; until then its CANCEL, CLOSE and acknowledgments of breaks are
/// received.
pub const THROTTLED_BYTES_STOP: u64 = 2 * THROTTLED_BYTES_MAX;

/// Throttled requests at which reception stops: more than the default credits of a connection,
/// besides those throttled when its credits ended.
pub const THROTTLED_REQUESTS_STOP: usize = 16 * THROTTLED_REQUESTS_MAX;

/// Nanoseconds between checks for a changed limit, while requests wait for it.
pub const CHECK_INTERVAL_NS: u64 = 200_000_000;

/// Nanoseconds between checks for a turn at a device: the worker is notified of its turn, but a
/// message can be lost.
pub const TURN_INTERVAL_NS: u64 = 20_000_000;

const _: () = assert!(ASLEEP_NS >= 2 * TURN_INTERVAL_NS, "one late check is not standing still");

/// Fate of a request at the gate.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Admission {
    /// The request begins at once.
    Begins,
    /// The request is throttled by a limit.
    Waits,
    /// The request waits for its turn at the storage, as a rule not for long.
    WaitsForTurn,
}

/// Throttled requests of a client; `T` identifies one.
#[derive(Debug)]
pub struct Gate<T> {
    slots: Box<dyn Slots>,
    /// Owner of the gate; turns are announced to this process.
    client: ServerId,
    flows: Vec<Flow<T>>,
    lines: Vec<Line<T>>,
    /// Operations in flight at shared devices.
    begun: HashMap<T, Begun>,
    throttled_bytes: u64,
    throttled_requests: usize,
    checked_at: u64,
    to_notify: Vec<ServerId>,
}

#[derive(Debug)]
struct Flow<T> {
    classes: Classes,
    kind: Kind,
    /// Requests in order, never empty.
    waiting: VecDeque<Waiting<T>>,
    /// Time at which the first may begin: its cost is consumed.
    begins: u64,
    /// Value of [`changes`] at that consumption.
    changes: u32,
}

#[derive(Debug)]
struct Waiting<T> {
    what: T,
    cost: Cost,
    since: u64,
}

/// Queue of a class at a device: of requests that move data, or of others.
#[derive(Debug)]
struct Line<T> {
    device: DeviceId,
    class: ClassId,
    moves_data: bool,
    row: RowId,
    waiting: VecDeque<(Waiting<T>, Classes)>,
}

/// An operation at a device.
#[derive(Clone, Copy, Debug)]
struct Begun {
    device: DeviceId,
    class: ClassId,
    row: RowId,
    cost: Cost,
    came: u64,
    began: u64,
    /// Time since which it has its place or its present part runs, by [`Slots::clock`]; `None`
    /// while it is paused.
    held_since: Option<u64>,
    /// Nanoseconds of its parts before.
    held: u64,
    /// True if it has paused: others of its row begin beside it.
    is_in_parts: bool,
}

impl Begun {
    /// Nanoseconds in which it has run until `clock`.
    fn held_until(&self, clock: u64) -> u64 {
        self.held + self.held_since.map_or(0, |since| clock.saturating_sub(since))
    }
}

impl<T: Copy + Eq + Hash> Gate<T> {
    /// Creates a client's gate over the memory that all workers share.
    #[must_use]
    pub fn new(slots: Box<dyn Slots>, client: ServerId) -> Self {
        Self {
            slots,
            client,
            flows: Vec::new(),
            lines: Vec::new(),
            begun: HashMap::new(),
            throttled_bytes: 0,
            throttled_requests: 0,
            checked_at: 0,
            to_notify: Vec::new(),
        }
    }

    /// Admits a request at `now` (nanoseconds of the machine's clock), or queues it. The caller
    /// must [end](Self::end) each request that begins.
    pub fn admit(&mut self, now: u64, classes: &Classes, cost: Cost, what: T) -> Admission {
        let slots = self.slots.slots();
        let same = |flow: &&mut Flow<T>| flow.kind == cost.kind && flow.classes == *classes;
        let waiting = Waiting { what, cost, since: now };
        let admission = if let Some(flow) = self.flows.iter_mut().find(same) {
            flow.waiting.push_back(waiting);
            Admission::Waits
        } else {
            let begins = reserve(slots, &classes.ids, cost, now);
            if begins <= now {
                if self.arrive(now, classes, waiting) {
                    count(self.slots.slots(), &classes.ids, cost, None);
                    return Admission::Begins;
                }
                Admission::WaitsForTurn
            } else {
                let changes = changes(slots, &classes.ids);
                let waiting = VecDeque::from([waiting]);
                let (classes, kind) = (classes.clone(), cost.kind);
                self.flows.push(Flow { classes, kind, waiting, begins, changes });
                Admission::Waits
            }
        };
        count_waiting(self.slots.slots(), &classes.ids, true);
        self.throttled_bytes = self.throttled_bytes.saturating_add(cost.memory());
        self.throttled_requests += 1;
        admission
    }

    /// Passes a request within its limits on to its device. Returns true if it begins; otherwise it
    /// is queued.
    fn arrive(&mut self, now: u64, classes: &Classes, waiting: Waiting<T>) -> bool {
        let (slots, devices) = (self.slots.slots(), self.slots.devices());
        let device = classes.device.and_then(|id| Some((id, devices.get(usize::from(id))?)));
        let Some((id, device)) = device.filter(|(_, device)| device.is_shared()) else {
            return true;
        };
        let has_part =
            |class: &&ClassId| slots.get(usize::from(**class)).is_some_and(Slot::has_part);
        let class = classes.ids.iter().find(has_part).copied().unwrap_or(DEFAULT_CLASS);
        let moves_data = moves_data(waiting.cost);
        let is_its =
            |line: &Line<T>| (line.device, line.class, line.moves_data) == (id, class, moves_data);
        let at = match self.lines.iter().position(is_its) {
            Some(at) => at,
            None => {
                // Without a free row it begins at once.
                let Some(row) = device.take_row(self.client, class, moves_data) else {
                    return true;
                };
                let waiting = VecDeque::new();
                self.lines.push(Line { device: id, class, moves_data, row, waiting });
                self.lines.len() - 1
            }
        };
        let line = &mut self.lines[at];
        let Waiting { what, cost, since: came } = waiting;
        device.look(line.row, now);
        if line.waiting.is_empty() && device.begin(slots, line.row, cost, now) {
            let (device, row, began) = (id, line.row, now);
            let held_since = Some(self.slots.clock(now));
            let (held, is_in_parts) = (0, false);
            let begun =
                Begun { device, class, row, cost, came, began, held_since, held, is_in_parts };
            self.begun.insert(what, begun);
            return true;
        }
        if line.waiting.is_empty() {
            device.describe(line.row, cost, now);
        }
        line.waiting.push_back((waiting, classes.clone()));
        device.wait(line.row);
        // Room may have appeared in the meantime.
        device.next(slots, now, &mut self.to_notify);
        false
    }

    /// Returns the next request that may begin at `now`.
    pub fn release(&mut self, now: u64) -> Option<T> {
        self.checked_at = now;
        loop {
            if let Some(what) = self.release_from_lines(now) {
                return Some(what);
            }
            let (waiting, classes) = self.release_from_flows(now)?;
            let Waiting { what, cost, since } = waiting;
            if self.arrive(now, &classes, waiting) {
                self.end_throttling(&classes, cost, Some(now.saturating_sub(since)));
                return Some(what);
            }
        }
    }

    fn release_from_flows(&mut self, now: u64) -> Option<(Waiting<T>, Classes)> {
        let slots = self.slots.slots();
        for flow in &mut self.flows {
            let changes = changes(slots, &flow.classes.ids);
            if changes != flow.changes {
                // The change also reset the consumption under the old limit.
                flow.changes = changes;
                let first = flow.waiting.front().expect("never empty");
                flow.begins = reserve(slots, &flow.classes.ids, first.cost, now);
            }
        }
        let at = (0..self.flows.len()).min_by_key(|at| self.flows[*at].begins)?;
        let flow = self.flows.get_mut(at).filter(|flow| flow.begins <= now)?;
        let waiting = flow.waiting.pop_front().expect("never empty");
        let classes = flow.classes.clone();
        match flow.waiting.front() {
            Some(next) => flow.begins = reserve(slots, &flow.classes.ids, next.cost, now),
            None => drop(self.flows.swap_remove(at)),
        }
        Some((waiting, classes))
    }

    fn release_from_lines(&mut self, now: u64) -> Option<T> {
        let (slots, devices) = (self.slots.slots(), self.slots.devices());
        for line in &self.lines {
            devices[usize::from(line.device)].look(line.row, now);
        }
        for line in &self.lines {
            if !line.waiting.is_empty() {
                devices[usize::from(line.device)].next(slots, now, &mut self.to_notify);
            }
        }
        let (line, granted_at) = self.lines.iter_mut().find_map(|line| {
            if line.waiting.is_empty() {
                return None;
            }
            let granted_at = devices[usize::from(line.device)].take_turn(line.row)?;
            Some((line, granted_at))
        })?;
        let (Waiting { what, cost, since: came }, classes) =
            line.waiting.pop_front().expect("it is not empty");
        let Line { device, class, row, moves_data, .. } = *line;
        if let Some((next, _)) = line.waiting.front() {
            devices[usize::from(device)].describe(row, next.cost, now);
        }
        // A place is missing to other clients from the grant of the turn on.
        let held_since = Some(if moves_data { granted_at } else { self.slots.clock(now) });
        let (began, held, is_in_parts) = (now, 0, false);
        let begun = Begun { device, class, row, cost, came, began, held_since, held, is_in_parts };
        self.begun.insert(what, begun);
        self.end_throttling(&classes, cost, Some(now.saturating_sub(came)));
        Some(what)
    }

    /// Pauses an operation that moves no data and runs in parts: others of its client begin beside
    /// it from now on, and the pause is not charged.
    pub fn pause(&mut self, now: u64, what: T) {
        if self.begun.is_empty() {
            return;
        }
        let clock = self.slots.clock(now);
        let Some(begun) = self.begun.get_mut(&what).filter(|it| !moves_data(it.cost)) else {
            return;
        };
        (begun.held, begun.held_since) = (begun.held_until(clock), None);
        if !mem::replace(&mut begun.is_in_parts, true) {
            let device = &self.slots.devices()[usize::from(begun.device)];
            device.end_in(begun.row);
            device.next(self.slots.slots(), now, &mut self.to_notify);
        }
    }

    /// Begins the next part of a paused operation.
    pub fn resume(&mut self, now: u64, what: T) {
        if self.begun.is_empty() {
            return;
        }
        let clock = self.slots.clock(now);
        if let Some(begun) = self.begun.get_mut(&what).filter(|it| it.held_since.is_none()) {
            begun.held_since = Some(clock);
        }
    }

    /// Ends a request that began, and gives its room to others. It moved `moved` bytes, and counts
    /// for no more: a READ may ask for more than there is.
    pub fn end(&mut self, now: u64, what: T, moved: u64) {
        if self.begun.is_empty() {
            return;
        }
        let Some(begun) = self.begun.remove(&what) else { return };
        let Begun { class, row, cost, came, began, is_in_parts, .. } = begun;
        let (slots, devices) = (self.slots.slots(), self.slots.devices());
        let device = &devices[usize::from(begun.device)];
        let had_place = !is_in_parts && device.end_in(row);
        let held = begun.held_until(self.slots.clock(now));
        let moved = Cost { bytes: cost.bytes.min(moved), ..cost };
        // An operation that ends at once did not reach the device, and says nothing of its speed.
        let is_measured = had_place && now > began;
        device.charge_time(slots, row, moved, (held, had_place, is_measured), now);
        let target = slots.get(usize::from(class)).and_then(|it| it.number(Meter::LatencyTarget));
        let missed = target.map(|target| now.saturating_sub(came) > target);
        let operation = Operation { cost, began, ended: now, missed };
        device.controller.measure(&operation, || device.waiting());
        device.next(slots, now, &mut self.to_notify);
    }

    /// Returns the cost of bytes missing from a READ response. Returns true if a waiting request
    /// may begin earlier for that.
    pub fn give_back(&mut self, now: u64, classes: &Classes, bytes: u64) -> bool {
        let slots = self.slots.slots();
        give_back(slots, &classes.ids, bytes);
        let mut is_earlier = false;
        for flow in &mut self.flows {
            if flow.classes.ids.iter().any(|id| classes.ids.contains(id)) {
                let first = flow.waiting.front().expect("never empty").cost;
                refund(slots, &flow.classes.ids, first);
                let begins = reserve(slots, &flow.classes.ids, first, now);
                is_earlier |= begins < flow.begins;
                flow.begins = flow.begins.min(begins);
            }
        }
        is_earlier
    }

    /// Returns a worker to notify that it may [`release`](Self::release) a request, possibly this
    /// one.
    pub fn poll_turn(&mut self) -> Option<ServerId> {
        self.to_notify.pop()
    }

    /// Removes a throttled request. Returns true if it was queued.
    pub fn forget(&mut self, now: u64, what: T) -> bool {
        self.forget_in_flows(now, what) || self.forget_in_lines(now, what)
    }

    fn forget_in_flows(&mut self, now: u64, what: T) -> bool {
        let slots = self.slots.slots();
        let find = |flow: &Flow<T>| flow.waiting.iter().position(|it| it.what == what);
        let found = self.flows.iter().enumerate().find_map(|(at, flow)| Some((at, find(flow)?)));
        let Some((at, place)) = found else { return false };
        let flow = &mut self.flows[at];
        let Waiting { cost, .. } = flow.waiting.remove(place).expect("found above");
        let classes = flow.classes.clone();
        if place == 0 {
            refund(slots, &flow.classes.ids, cost);
            match flow.waiting.front() {
                Some(next) => flow.begins = reserve(slots, &flow.classes.ids, next.cost, now),
                None => drop(self.flows.swap_remove(at)),
            }
        }
        self.end_throttling(&classes, cost, None);
        true
    }

    fn forget_in_lines(&mut self, now: u64, what: T) -> bool {
        let find = |line: &Line<T>| line.waiting.iter().position(|(it, _)| it.what == what);
        let found = self.lines.iter().enumerate().find_map(|(at, line)| Some((at, find(line)?)));
        let Some((at, place)) = found else { return false };
        let line = &mut self.lines[at];
        let (Waiting { cost, .. }, classes) = line.waiting.remove(place).expect("found above");
        let (slots, devices) = (self.slots.slots(), self.slots.devices());
        let device = &devices[usize::from(line.device)];
        device.withdraw(line.row);
        device.next(slots, now, &mut self.to_notify);
        refund(slots, &classes.ids, cost);
        self.end_throttling(&classes, cost, None);
        true
    }

    /// Ends the count of a throttled request, which begins after `waited`, or never if `None`.
    fn end_throttling(&mut self, classes: &Classes, cost: Cost, waited: Option<u64>) {
        let slots = self.slots.slots();
        count_waiting(slots, &classes.ids, false);
        if waited.is_some() {
            count(slots, &classes.ids, cost, waited);
        }
        self.throttled_bytes = self.throttled_bytes.saturating_sub(cost.memory());
        self.throttled_requests -= 1;
    }

    /// Time of the next call of [`Gate::release`].
    #[must_use]
    pub fn next_timeout(&self) -> Option<u64> {
        let begins = self.flows.iter().map(|flow| flow.begins).min();
        let begins = begins.map(|at| at.min(self.checked_at + CHECK_INTERVAL_NS));
        let waits = self.lines.iter().any(|line| !line.waiting.is_empty());
        // A worker that does not look loses the places of its operations.
        let waits = waits || !self.begun.is_empty();
        let turn = waits.then_some(self.checked_at + TURN_INTERVAL_NS);
        begins.into_iter().chain(turn).min()
    }

    /// Lowest limit of a client's credits in these classes.
    #[must_use]
    pub fn least_credits(&self, classes: impl Iterator<Item = ClassId>) -> Option<u32> {
        let slots = self.slots.slots();
        let limit = |class: ClassId| slots.get(usize::from(class))?.number(Meter::Credits);
        classes.filter_map(limit).min().map(|limit| u32::try_from(limit).unwrap_or(u32::MAX))
    }

    /// Number of clients that share the total of credits.
    #[must_use]
    pub fn clients(&self) -> u32 {
        self.slots.clients()
    }

    /// Part of its credits that a client may have at `now`, in parts of [`controller::ONE`]:
    /// reduced while many requests wait for a shared device.
    ///
    /// [`controller::ONE`]: crate::controller::ONE
    #[must_use]
    pub fn credits(&self, now: u64) -> u64 {
        let devices = self.slots.devices().iter().take_while(|device| device.number().is_some());
        let shared = devices.filter(|device| device.is_shared());
        shared.map(|device| device.controller.credits(now)).min().unwrap_or(ONE)
    }

    /// True if the credits of the client may be limited now: see [`Self::is_full`] and
    /// [`Self::credits`].
    #[must_use]
    pub fn limits_credits(&self) -> bool {
        self.is_full() || self.slots.devices().first().is_some_and(|it| it.number().is_some())
    }

    /// True if no request is throttled.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.throttled_requests == 0
    }

    /// True if no request is throttled, and nobody is to be notified of a turn.
    #[must_use]
    pub const fn is_idle(&self) -> bool {
        self.throttled_requests == 0 && self.to_notify.is_empty()
    }

    /// True if the client must get no further credits.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        self.throttled_bytes >= THROTTLED_BYTES_MAX
            || self.throttled_requests >= THROTTLED_REQUESTS_MAX
    }

    /// True if reception from the client must stop.
    #[must_use]
    pub const fn must_stop(&self) -> bool {
        self.throttled_bytes >= THROTTLED_BYTES_STOP
            || self.throttled_requests >= THROTTLED_REQUESTS_STOP
    }

    /// True if there is room for many more requests: the client may get its credits back.
    #[must_use]
    pub const fn has_much_room(&self) -> bool {
        self.throttled_bytes < THROTTLED_BYTES_MAX / 2
            && self.throttled_requests < THROTTLED_REQUESTS_MAX / 2
    }
}

impl<T> Drop for Gate<T> {
    /// Releases the requests of a worker that ends, so that they delay no others. The next worker
    /// at a device notices at its next check: see [`TURN_INTERVAL_NS`].
    fn drop(&mut self) {
        let (slots, devices) = (self.slots.slots(), self.slots.devices());
        for flow in &self.flows {
            flow.waiting.iter().for_each(|_| count_waiting(slots, &flow.classes.ids, false));
            if let Some(first) = flow.waiting.front() {
                refund(slots, &flow.classes.ids, first.cost);
            }
        }
        for line in &self.lines {
            for (waiting, classes) in &line.waiting {
                count_waiting(slots, &classes.ids, false);
                refund(slots, &classes.ids, waiting.cost);
            }
            if let Some(device) = devices.get(usize::from(line.device)) {
                Device::leave_row(device, line.row);
            }
        }
    }
}

#[cfg(test)]
mod tests;
