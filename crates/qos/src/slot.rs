//! Slot of a class in memory that all workers share: its limits and its consumption.
//!
//! A limit applies to all processes together, so its state is shared, and there is no lock, to cost
//! a request next to nothing. The state of a limit is one number, the time at which everything
//! granted so far would be used up at exactly the limit's rate (the theoretical arrival time of the
//! generic cell rate algorithm, ITU-T I.371). A request advances that time by its cost; the time
//! before decides when the request may begin.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::class::{ClassId, Cost, Kind, Limits, Meter};
use crate::device::Device;

/// Highest number of bytes of a class's name.
pub const NAME_BYTES_MAX: usize = 64;

/// Nanoseconds by which a class may be ahead of its rate: the burst after a pause. Workers wake up
/// late now and then; a delay below this loses nothing of the rate.
pub const BURST_NS: u64 = 20_000_000;

/// Slot of one class. All fields are atomics: other processes may change them at any time.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Slot {
    name: [AtomicU64; NAME_BYTES_MAX / 8],
    is_taken: AtomicU32,
    /// Bits by [`Meter`]: limits that were set by hand, and override the configuration.
    by_hand: AtomicU32,
    /// Number of changes of limits; throttled requests compare it to notice a change.
    changes: AtomicU32,
    /// Limits by [`Meter`]; zero means none.
    numbers: [AtomicU64; Meter::COUNT],
    burst_bytes: AtomicU64,
    /// Arrival times by [`Meter`], in nanoseconds of the machine's clock.
    arrival: [AtomicU64; Meter::COUNT],
    read_bytes: AtomicU64,
    written_bytes: AtomicU64,
    operations: AtomicU64,
    throttled: AtomicU64,
    throttled_ns: AtomicU64,
    waiting: AtomicU64,
}

/// Consumption of a class so far.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Figures {
    /// Bytes read by its requests.
    pub read_bytes: u64,
    /// Bytes written by its requests.
    pub written_bytes: u64,
    /// Requests that have begun, throttled or not.
    pub operations: u64,
    /// Requests that were throttled before they began.
    pub throttled: u64,
    /// Total time in nanoseconds for which requests were throttled.
    pub throttled_ns: u64,
    /// Requests that are throttled now.
    pub waiting: u64,
}

/// Owner of the slots: mapped memory, or a test's vector.
pub trait Slots: std::fmt::Debug + Send + Sync {
    /// All slots, by the id of their class.
    fn slots(&self) -> &[Slot];

    /// Devices whose capacity classes share; empty if they share none.
    fn devices(&self) -> &[Device] {
        &[]
    }

    /// Present time of the machine's clock in nanoseconds, for the times of operations: all events
    /// of one turn of a worker have the same `now`. Without a clock it is that.
    fn clock(&self, now: u64) -> u64 {
        now
    }

    /// Number of clients; zero if unknown.
    fn clients(&self) -> u32 {
        0
    }
}

impl Slots for Vec<Slot> {
    fn slots(&self) -> &[Slot] {
        self
    }
}

impl Slot {
    /// Name of its class, if it has one.
    pub fn name(&self) -> Option<String> {
        if self.is_taken.load(Ordering::Acquire) == 0 {
            return None;
        }
        let bytes = self.name.iter().flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes());
        let bytes: Vec<u8> = bytes.take_while(|byte| *byte != 0).collect();
        String::from_utf8(bytes).ok()
    }

    /// Assigns the slot to a class. Only the supervisor calls it.
    pub fn take(&self, name: &str) {
        let mut bytes = [0; NAME_BYTES_MAX];
        let length = name.len().min(NAME_BYTES_MAX);
        bytes[..length].copy_from_slice(&name.as_bytes()[..length]);
        for (word, bytes) in self.name.iter().zip(bytes.chunks_exact(8)) {
            word.store(u64::from_le_bytes(bytes.try_into().expect("eight")), Ordering::Relaxed);
        }
        self.is_taken.store(1, Ordering::Release);
    }

    /// Takes the slot from its class: requests that still use it have no limit. Only the supervisor
    /// calls it.
    pub fn release(&self) {
        self.is_taken.store(0, Ordering::Release);
        self.by_hand.store(0, Ordering::Release);
        self.configure(&Limits::default());
        for figure in [
            &self.read_bytes,
            &self.written_bytes,
            &self.operations,
            &self.throttled,
            &self.throttled_ns,
            &self.waiting,
        ] {
            figure.store(0, Ordering::Relaxed);
        }
    }

    /// Sets the limits of the configuration, except those set by hand.
    pub fn configure(&self, limits: &Limits) {
        let by_hand = self.by_hand.load(Ordering::Acquire);
        for (meter, _) in Meter::NAMES {
            if by_hand & meter.bit() == 0 {
                self.store(meter, limits.numbers[meter as usize]);
            }
        }
        self.burst_bytes.store(limits.burst_bytes, Ordering::Relaxed);
    }

    /// Sets one limit by hand, which holds until [`Slot::clear`].
    pub fn set(&self, meter: Meter, number: Option<u64>) {
        self.by_hand.fetch_or(meter.bit(), Ordering::AcqRel);
        self.store(meter, number);
    }

    /// Returns to the configured limits.
    pub fn clear(&self, limits: &Limits) {
        self.by_hand.store(0, Ordering::Release);
        self.configure(limits);
    }

    /// True if a limit was set by hand.
    pub fn is_by_hand(&self, meter: Meter) -> bool {
        self.by_hand.load(Ordering::Acquire) & meter.bit() != 0
    }

    fn store(&self, meter: Meter, number: Option<u64>) {
        let before = self.numbers[meter as usize].swap(number.unwrap_or(0), Ordering::AcqRel);
        if before != number.unwrap_or(0) {
            // Consumption at the old rate would otherwise delay requests at the new one.
            self.arrival[meter as usize].store(0, Ordering::Release);
            self.changes.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Limits in force, configured or set by hand.
    pub fn limits(&self) -> Limits {
        let mut limits =
            Limits { burst_bytes: self.burst_bytes.load(Ordering::Relaxed), ..Limits::default() };
        for (meter, _) in Meter::NAMES {
            limits.numbers[meter as usize] = self.number(meter);
        }
        limits
    }

    /// Consumption of the class so far.
    pub fn figures(&self) -> Figures {
        let load = |figure: &AtomicU64| figure.load(Ordering::Relaxed);
        Figures {
            read_bytes: load(&self.read_bytes),
            written_bytes: load(&self.written_bytes),
            operations: load(&self.operations),
            throttled: load(&self.throttled),
            throttled_ns: load(&self.throttled_ns),
            waiting: load(&self.waiting),
        }
    }

    /// One of its limits, if it is set.
    pub fn number(&self, meter: Meter) -> Option<u64> {
        Some(self.numbers[meter as usize].load(Ordering::Acquire)).filter(|limit| *limit > 0)
    }

    /// True if it has a guaranteed or weighted part of a busy device.
    pub fn has_part(&self) -> bool {
        Meter::PARTS.iter().any(|meter| self.number(*meter).is_some())
    }

    /// True while the class is below its guaranteed minimum.
    pub(crate) fn is_owed(&self, now: u64) -> bool {
        [Meter::MinBandwidth, Meter::MinIops].into_iter().any(|meter| {
            self.number(meter).is_some()
                && self.arrival[meter as usize].load(Ordering::Acquire) <= now
        })
    }

    /// Counts a request toward the guaranteed minimum. Unused capacity is not saved for later.
    pub(crate) fn serve_minimum(&self, bytes: u64, now: u64) {
        for (meter, amount) in [(Meter::MinBandwidth, bytes), (Meter::MinIops, 1)] {
            let Some(per_second) = self.number(meter) else { continue };
            let least = now.saturating_sub(BURST_NS);
            let takes = nanoseconds(amount, per_second);
            let served = |arrival: u64| Some(arrival.max(least).saturating_add(takes));
            let arrival = &self.arrival[meter as usize];
            let _ = arrival.fetch_update(Ordering::AcqRel, Ordering::Acquire, served);
        }
    }

    /// Consumes a request's cost. Returns the time at which it may begin: `now` or later.
    fn reserve(&self, cost: Cost, now: u64) -> u64 {
        let mut begins = now;
        for (meter, amount) in cost.meters() {
            let Some(per_second) = self.number(meter) else { continue };
            let takes = nanoseconds(amount, per_second);
            let burst = match meter.is_bytes() {
                true => {
                    let more = self.burst_bytes.load(Ordering::Relaxed);
                    BURST_NS.saturating_add(nanoseconds(more, per_second))
                }
                false => BURST_NS,
            };
            let taken = |arrival: u64| Some(arrival.max(now).saturating_add(takes));
            let arrival = &self.arrival[meter as usize];
            let before = arrival.fetch_update(Ordering::AcqRel, Ordering::Acquire, taken);
            let before = before.unwrap_or_else(|arrival| arrival);
            begins = begins.max(before.saturating_sub(burst));
        }
        begins
    }

    /// Returns the cost of a request that will never begin.
    fn refund(&self, cost: Cost) {
        for (meter, amount) in cost.meters() {
            let Some(per_second) = self.number(meter) else { continue };
            let takes = nanoseconds(amount, per_second);
            let given_back = |arrival: u64| Some(arrival.saturating_sub(takes));
            let arrival = &self.arrival[meter as usize];
            let _ = arrival.fetch_update(Ordering::AcqRel, Ordering::Acquire, given_back);
        }
    }

    /// Returns the cost of bytes that were not read.
    fn give_back(&self, bytes: u64) {
        for meter in [Meter::Bandwidth, Meter::ReadBandwidth] {
            let Some(per_second) = self.number(meter) else { continue };
            let takes = nanoseconds(bytes, per_second);
            let given_back = |arrival: u64| Some(arrival.saturating_sub(takes));
            let arrival = &self.arrival[meter as usize];
            let _ = arrival.fetch_update(Ordering::AcqRel, Ordering::Acquire, given_back);
        }
        let unread = |read: u64| Some(read.saturating_sub(bytes));
        let _ = self.read_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, unread);
    }

    fn count(&self, cost: Cost, waited: Option<u64>) {
        let add = |figure: &AtomicU64, amount| figure.fetch_add(amount, Ordering::Relaxed);
        match cost.kind {
            Kind::Read => add(&self.read_bytes, cost.bytes),
            Kind::Write => add(&self.written_bytes, cost.bytes),
            Kind::Metadata => 0,
        };
        add(&self.operations, 1);
        if let Some(nanoseconds) = waited {
            add(&self.throttled, 1);
            add(&self.throttled_ns, nanoseconds);
        }
    }
}

impl Meter {
    const fn bit(self) -> u32 {
        1 << self as u32
    }
}

/// Consumes a request's cost in all of its classes. Returns the time at which it may begin.
pub(crate) fn reserve(slots: &[Slot], classes: &[ClassId], cost: Cost, now: u64) -> u64 {
    let of = |class: &ClassId| slots.get(usize::from(*class)).map(|it| it.reserve(cost, now));
    classes.iter().filter_map(of).fold(now, u64::max)
}

/// Returns a number that differs after a change of any limit of these classes.
pub(crate) fn changes(slots: &[Slot], classes: &[ClassId]) -> u32 {
    let of = |class: &ClassId| slots.get(usize::from(*class)).map(|it| &it.changes);
    let sum = |sum: u32, changes: &AtomicU32| sum.wrapping_add(changes.load(Ordering::Acquire));
    classes.iter().filter_map(of).fold(0, sum)
}

/// Returns the cost that [`reserve`] consumed.
pub(crate) fn refund(slots: &[Slot], classes: &[ClassId], cost: Cost) {
    let slots = classes.iter().filter_map(|class| slots.get(usize::from(*class)));
    slots.for_each(|slot| slot.refund(cost));
}

/// Returns the cost of bytes missing from a READ response.
pub(crate) fn give_back(slots: &[Slot], classes: &[ClassId], bytes: u64) {
    let slots = classes.iter().filter_map(|class| slots.get(usize::from(*class)));
    slots.for_each(|slot| slot.give_back(bytes));
}

/// Counts a request that begins; `waited` gives its throttled nanoseconds, if any.
pub(crate) fn count(slots: &[Slot], classes: &[ClassId], cost: Cost, waited: Option<u64>) {
    let slots = classes.iter().filter_map(|class| slots.get(usize::from(*class)));
    slots.for_each(|slot| slot.count(cost, waited));
}

/// Counts a request as throttled, or as throttled no longer.
pub(crate) fn count_waiting(slots: &[Slot], classes: &[ClassId], waits: bool) {
    for slot in classes.iter().filter_map(|class| slots.get(usize::from(*class))) {
        let update = |waiting: u64| {
            Some(if waits { waiting.saturating_add(1) } else { waiting.saturating_sub(1) })
        };
        let _ = slot.waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, update);
    }
}

/// Nanoseconds that `amount` takes at a rate. Rates below 1 are not configurable.
fn nanoseconds(amount: u64, per_second: u64) -> u64 {
    let nanoseconds = u128::from(amount) * 1_000_000_000 / u128::from(per_second.max(1));
    u64::try_from(nanoseconds).unwrap_or(u64::MAX)
}
