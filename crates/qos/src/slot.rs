//! The place of a class in memory that all workers share: what it may have, and how much it had.
//!
//! A limit is for all whom it names together, so its state is one for all processes; and it must cost
//! a request next to nothing, so there is no lock. The state of a limit is one number, the time at
//! which everything granted so far would be used up at exactly the limit's rate (the theoretical
//! arrival time of the generic cell rate algorithm, ITU-T I.371). To take more is to move that time
//! on; when a request may begin follows from where it was.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::class::{ClassId, Cost, Kind, Limits, Meter};
use crate::device::Device;

/// Bytes of a class's name that the slot holds.
pub const NAME_BYTES_MAX: usize = 64;

/// How far a class may be ahead of its rate: after a pause it has so much of it at once. Workers
/// wake up late now and then; as long as they are not later than this, nothing of the rate is lost.
pub const BURST_NS: u64 = 20_000_000;

/// One class. All in it are atomics: other processes may change them at any time.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Slot {
    name: [AtomicU64; NAME_BYTES_MAX / 8],
    is_taken: AtomicU32,
    /// Bit by [`Meter`]: somebody has set it by hand, and the configuration does not.
    by_hand: AtomicU32,
    /// Counts changes of limits: who waits by an old one looks again.
    changes: AtomicU32,
    /// By [`Meter`]; zero is none.
    numbers: [AtomicU64; Meter::COUNT],
    burst_bytes: AtomicU64,
    /// By [`Meter`]: in nanoseconds of the machine's clock.
    arrival: [AtomicU64; Meter::COUNT],
    read_bytes: AtomicU64,
    written_bytes: AtomicU64,
    operations: AtomicU64,
    held: AtomicU64,
    held_ns: AtomicU64,
    waiting: AtomicU64,
}

/// What a class had so far.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Figures {
    /// Bytes that were read.
    pub read_bytes: u64,
    /// Bytes that were written.
    pub written_bytes: u64,
    /// Requests that began.
    pub operations: u64,
    /// Those of them that had to wait.
    pub held: u64,
    /// How long these waited, in nanoseconds.
    pub held_ns: u64,
    /// Requests that wait now.
    pub waiting: u64,
}

/// Slots that somebody keeps: mapped memory, or that of a test.
pub trait Slots: std::fmt::Debug + Send + Sync {
    /// All of them.
    fn slots(&self) -> &[Slot];

    /// What classes share; nothing if they share nothing.
    fn devices(&self) -> &[Device] {
        &[]
    }

    /// Clients that there are; zero if that is not known.
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
    /// The name of its class, if it has one.
    pub fn name(&self) -> Option<String> {
        if self.is_taken.load(Ordering::Acquire) == 0 {
            return None;
        }
        let bytes = self.name.iter().flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes());
        let bytes: Vec<u8> = bytes.take_while(|byte| *byte != 0).collect();
        String::from_utf8(bytes).ok()
    }

    /// Gives it to a class. For the supervisor alone.
    pub fn take(&self, name: &str) {
        let mut bytes = [0; NAME_BYTES_MAX];
        let length = name.len().min(NAME_BYTES_MAX);
        bytes[..length].copy_from_slice(&name.as_bytes()[..length]);
        for (word, bytes) in self.name.iter().zip(bytes.chunks_exact(8)) {
            word.store(u64::from_le_bytes(bytes.try_into().expect("eight")), Ordering::Relaxed);
        }
        self.is_taken.store(1, Ordering::Release);
    }

    /// Takes it away from its class: whoever still asks for it has no limit. For the supervisor
    /// alone.
    pub fn release(&self) {
        self.is_taken.store(0, Ordering::Release);
        self.by_hand.store(0, Ordering::Release);
        self.configure(&Limits::default());
        for figure in [
            &self.read_bytes,
            &self.written_bytes,
            &self.operations,
            &self.held,
            &self.held_ns,
            &self.waiting,
        ] {
            figure.store(0, Ordering::Relaxed);
        }
    }

    /// Sets what the configuration says, but for what was set by hand.
    pub fn configure(&self, limits: &Limits) {
        let by_hand = self.by_hand.load(Ordering::Acquire);
        for (meter, _) in Meter::NAMES {
            if by_hand & meter.bit() == 0 {
                self.store(meter, limits.numbers[meter as usize]);
            }
        }
        self.burst_bytes.store(limits.burst_bytes, Ordering::Relaxed);
    }

    /// Sets one limit by hand, until [`Slot::clear`].
    pub fn set(&self, meter: Meter, number: Option<u64>) {
        self.by_hand.fetch_or(meter.bit(), Ordering::AcqRel);
        self.store(meter, number);
    }

    /// Forgets what was set by hand.
    pub fn clear(&self, limits: &Limits) {
        self.by_hand.store(0, Ordering::Release);
        self.configure(limits);
    }

    /// Whether a limit was set by hand.
    pub fn is_by_hand(&self, meter: Meter) -> bool {
        self.by_hand.load(Ordering::Acquire) & meter.bit() != 0
    }

    fn store(&self, meter: Meter, number: Option<u64>) {
        let before = self.numbers[meter as usize].swap(number.unwrap_or(0), Ordering::AcqRel);
        if before != number.unwrap_or(0) {
            // What was taken at the old rate would have to be waited for at it.
            self.arrival[meter as usize].store(0, Ordering::Release);
            self.changes.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// What holds now.
    pub fn limits(&self) -> Limits {
        let mut limits =
            Limits { burst_bytes: self.burst_bytes.load(Ordering::Relaxed), ..Limits::default() };
        for (meter, _) in Meter::NAMES {
            limits.numbers[meter as usize] = self.number(meter);
        }
        limits
    }

    /// What was had so far.
    pub fn figures(&self) -> Figures {
        let load = |figure: &AtomicU64| figure.load(Ordering::Relaxed);
        Figures {
            read_bytes: load(&self.read_bytes),
            written_bytes: load(&self.written_bytes),
            operations: load(&self.operations),
            held: load(&self.held),
            held_ns: load(&self.held_ns),
            waiting: load(&self.waiting),
        }
    }

    /// One of its numbers, if it has it.
    pub fn number(&self, meter: Meter) -> Option<u64> {
        Some(self.numbers[meter as usize].load(Ordering::Acquire)).filter(|limit| *limit > 0)
    }

    /// Whether it has a part of its own of what a busy device can do.
    pub fn has_part(&self) -> bool {
        Meter::PARTS.iter().any(|meter| self.number(*meter).is_some())
    }

    /// Whether it had less than it is to have whatever others want.
    pub(crate) fn is_owed(&self, now: u64) -> bool {
        [Meter::MinBandwidth, Meter::MinIops].into_iter().any(|meter| {
            self.number(meter).is_some()
                && self.arrival[meter as usize].load(Ordering::Acquire) <= now
        })
    }

    /// Counts a request for what the class is to have. What it did not ask for in a moment is not
    /// owed to it later.
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

    /// Takes what a request costs, and says when it may begin: at `now`, or later.
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

    /// Gives back what a request took that will never begin.
    fn refund(&self, cost: Cost) {
        for (meter, amount) in cost.meters() {
            let Some(per_second) = self.number(meter) else { continue };
            let takes = nanoseconds(amount, per_second);
            let given_back = |arrival: u64| Some(arrival.saturating_sub(takes));
            let arrival = &self.arrival[meter as usize];
            let _ = arrival.fetch_update(Ordering::AcqRel, Ordering::Acquire, given_back);
        }
    }

    /// Gives back bytes that were not read.
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
            add(&self.held, 1);
            add(&self.held_ns, nanoseconds);
        }
    }
}

impl Meter {
    const fn bit(self) -> u32 {
        1 << self as u32
    }
}

/// Takes what a request costs of all of its classes, and says when it may begin.
pub(crate) fn reserve(slots: &[Slot], classes: &[ClassId], cost: Cost, now: u64) -> u64 {
    let of = |class: &ClassId| slots.get(usize::from(*class)).map(|it| it.reserve(cost, now));
    classes.iter().filter_map(of).fold(now, u64::max)
}

/// A number that is another one when a limit of these classes was changed.
pub(crate) fn changes(slots: &[Slot], classes: &[ClassId]) -> u32 {
    let of = |class: &ClassId| slots.get(usize::from(*class)).map(|it| &it.changes);
    let sum = |sum: u32, changes: &AtomicU32| sum.wrapping_add(changes.load(Ordering::Acquire));
    classes.iter().filter_map(of).fold(0, sum)
}

/// Gives back what [`reserve`] took.
pub(crate) fn refund(slots: &[Slot], classes: &[ClassId], cost: Cost) {
    let slots = classes.iter().filter_map(|class| slots.get(usize::from(*class)));
    slots.for_each(|slot| slot.refund(cost));
}

/// Gives back bytes that a READ did not bring.
pub(crate) fn give_back(slots: &[Slot], classes: &[ClassId], bytes: u64) {
    let slots = classes.iter().filter_map(|class| slots.get(usize::from(*class)));
    slots.for_each(|slot| slot.give_back(bytes));
}

/// Counts a request that begins; `waited` is how long it was held, if it was.
pub(crate) fn count(slots: &[Slot], classes: &[ClassId], cost: Cost, waited: Option<u64>) {
    let slots = classes.iter().filter_map(|class| slots.get(usize::from(*class)));
    slots.for_each(|slot| slot.count(cost, waited));
}

/// Counts a request that waits from now on, or does not any more.
pub(crate) fn count_waiting(slots: &[Slot], classes: &[ClassId], waits: bool) {
    for slot in classes.iter().filter_map(|class| slots.get(usize::from(*class))) {
        let update = |waiting: u64| {
            Some(if waits { waiting.saturating_add(1) } else { waiting.saturating_sub(1) })
        };
        let _ = slot.waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, update);
    }
}

/// How long `amount` takes at a rate. Below a rate of 1 nothing is configured.
fn nanoseconds(amount: u64, per_second: u64) -> u64 {
    let nanoseconds = u128::from(amount) * 1_000_000_000 / u128::from(per_second.max(1));
    u64::try_from(nanoseconds).unwrap_or(u64::MAX)
}
