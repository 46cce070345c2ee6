//! How much may be in flight to a storage device, by how long it takes.
//!
//! A device serves some number of operations at once; beyond that they wait in it, first come first
//! served, and nobody can put one before another any more. So as much is let in flight as the device
//! needs to be busy, and little more. Now and then, for a moment, few are let in: what an operation
//! takes then is its *nominal* time, by kind and size. From there on the measured times divided by
//! the nominal ones say how much waits inside of the device: while that is little the limit rises, and
//! when it is more the limit falls by as much (a latency gradient).
//!
//! What was done by nominal times in some time says how many were served at once: never less than
//! that is let in, so noise in the times costs no throughput.
//!
//! What has no room there waits in the workers, and clients go on asking as long as they have credits.
//! While much more waits than is in flight, all of them are granted less.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::class::{Cost, Kind};

/// The whole of what is counted in parts.
pub const ONE: u64 = 256;

/// Operations in flight at most, whatever the times say.
pub const LIMIT_MAX: u64 = 1_024;

/// How many times the nominal time operations may take.
const SLOWDOWN_MAX: u64 = ONE * 5 / 4;

/// As above, while a latency target is missed or the machine waits for its storage.
const SLOWDOWN_MAX_UNDER_PRESSURE: u64 = ONE * 17 / 16;

/// Of a thousand requests with a latency target, how many may miss it.
const MISSED_MAX: u64 = 10;

/// Of a thousand parts of time, for how many all of the machine may wait for storage.
const STALLED_MAX: u64 = 900;

/// What is decided is decided by so many operations at least,
const OPERATIONS_MIN: u64 = 16;

/// in so much time at least,
const TIME_MIN: u64 = 5_000_000;

/// and in so many times of an operation.
const TIMES_MIN: u64 = 4;

/// Operations by which nominal times are known,
const PROBED_MIN: u64 = 8;

/// for which it is not waited longer than this once there is one.
const PROBE_TIME_MAX: u64 = 200_000_000;

/// Between two looks at nominal times when they were others than before, which happens when something
/// else than the storage was slow. Twice as long each time that they were the same,
const PROBE_INTERVAL_MIN: u64 = 1_000_000_000;

/// up to this.
const PROBE_INTERVAL_MAX: u64 = 10_000_000_000;

/// The part of their credits that clients keep at least.
const CREDITS_MIN: u64 = ONE / 16;

/// For each operation that may be in flight, how many may wait before clients are granted less.
const WAITING_MAX: u64 = 8;

/// After so long without a decision nobody is granted less.
const CREDITS_TIME_MAX: u64 = 1_000_000_000;

/// Kinds and sizes with a nominal time of their own.
const BUCKETS: usize = 32;

/// What is known of a device, and what follows from it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct State {
    /// Operations that may be in flight, in parts of [`ONE`].
    pub limit: u64,
    /// As many were served at once, in parts of [`ONE`].
    pub parallel: u64,
    /// What is done now.
    pub phase: Phase,
    /// When it began to know the nominal times that it has.
    pub probed: u64,
    /// How long until it looks at them again.
    pub probe_interval: u64,
    /// What clients may hold of their credits, in parts of [`ONE`].
    pub credits: u64,
}

/// What is done about a device.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Phase {
    /// Few are let in, to see how long an operation takes; then it goes on at the limit that was, or
    /// at the beginning.
    Probes(Option<u64>),
    /// The limit is doubled until the device has enough.
    Begins,
    /// The limit follows the times.
    Follows,
}

/// What was measured for a while.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Measured {
    /// When it ended, in nanoseconds of the machine's clock.
    pub now: u64,
    /// How long it was, in nanoseconds.
    pub elapsed: u64,
    /// Operations that ended.
    pub operations: u64,
    /// What they took together, in nanoseconds.
    pub took: u64,
    /// What they would have taken by their nominal times.
    pub nominal: u64,
    /// Somebody had to wait at the limit.
    pub was_full: bool,
    /// Requests that wait at the end.
    pub waiting: u64,
    /// Of a thousand requests with a latency target, how many missed it.
    pub missed: u64,
    /// Of a thousand parts of time, for how many all of the machine waited for storage.
    pub stalled: u64,
}

impl State {
    /// Nothing is known: begins with one operation.
    #[must_use]
    pub const fn new(now: u64) -> Self {
        Self {
            limit: ONE,
            parallel: ONE,
            phase: Phase::Probes(None),
            probed: now,
            probe_interval: PROBE_INTERVAL_MIN,
            credits: ONE,
        }
    }

    /// Whether so much was measured that it is time to decide.
    #[must_use]
    pub fn is_due(&self, measured: &Measured) -> bool {
        let Measured { elapsed, operations, took, .. } = *measured;
        match self.phase {
            Phase::Probes(_) => {
                operations >= PROBED_MIN || (operations > 0 && elapsed >= PROBE_TIME_MAX)
            }
            Phase::Begins | Phase::Follows => {
                operations >= OPERATIONS_MIN
                    && elapsed >= TIME_MIN
                    && elapsed.saturating_mul(operations) >= took.saturating_mul(TIMES_MIN)
            }
        }
    }

    /// What follows from what was measured.
    #[must_use]
    pub fn decide(self, measured: &Measured) -> Self {
        let Measured { now, elapsed, took, nominal, was_full, .. } = *measured;
        if let Phase::Probes(before) = self.phase {
            let phase = before.map_or(Phase::Begins, |_| Phase::Follows);
            let is_as_before = ratio(took, nominal).abs_diff(ONE) <= ONE / 4;
            let probe_interval = if is_as_before { self.probe_interval * 2 } else { 0 };
            return Self {
                limit: before.unwrap_or(ONE),
                phase,
                probed: now,
                probe_interval: probe_interval.clamp(PROBE_INTERVAL_MIN, PROBE_INTERVAL_MAX),
                // What was served at once was told by the nominal times of before.
                parallel: ONE,
                ..self
            };
        }
        let least = self.parallel - self.parallel / 16;
        let parallel = ratio(nominal, elapsed).clamp(least, LIMIT_MAX * ONE);
        let slowdown = ratio(took, nominal).max(1);
        let is_pressed = measured.missed > MISSED_MAX || measured.stalled > STALLED_MAX;
        let slowdown_max = if is_pressed { SLOWDOWN_MAX_UNDER_PRESSURE } else { SLOWDOWN_MAX };
        let is_saturated = self.is_saturated(measured, is_pressed);
        let mut next = Self { parallel, credits: self.credits_when(is_saturated), ..self };
        if slowdown > slowdown_max {
            let fallen = self.limit * slowdown_max.max(slowdown / 2) / slowdown;
            // Rounded up: half an operation in flight is none.
            next.limit = fallen.max(parallel.div_ceil(ONE) * ONE).min(self.limit);
            next.phase = Phase::Follows;
        } else if was_full {
            next.limit = match self.phase {
                Phase::Begins => self.limit * 2,
                _ => self.limit + ONE,
            };
        }
        next.limit = next.limit.clamp(ONE, LIMIT_MAX * ONE);
        let is_time = now.saturating_sub(self.probed) >= self.probe_interval;
        if is_time && was_full && next.limit > ONE {
            next.phase = Phase::Probes(Some(next.limit));
            next.limit = (next.limit / 4).max(ONE);
        }
        next
    }

    /// Whether more waits than is good for anybody, or less; nothing if it is right.
    fn is_saturated(&self, measured: &Measured, is_pressed: bool) -> Option<bool> {
        let waiting = measured.waiting.saturating_mul(ONE);
        if waiting > self.limit * WAITING_MAX || (is_pressed && waiting > self.limit) {
            return Some(true);
        }
        (waiting <= self.limit * WAITING_MAX / 2).then_some(false)
    }

    fn credits_when(&self, is_saturated: Option<bool>) -> u64 {
        match is_saturated {
            Some(true) => (self.credits * 7 / 8).max(CREDITS_MIN),
            Some(false) => (self.credits + ONE / 16).min(ONE),
            None => self.credits,
        }
    }

    /// As numbers: limit, parallel, phase, probed, probe interval, credits.
    fn to_numbers(self) -> [u64; 6] {
        let phase = match self.phase {
            Phase::Begins => 0,
            Phase::Follows => 1,
            Phase::Probes(None) => 2,
            Phase::Probes(Some(before)) => 3 + before,
        };
        let Self { limit, parallel, probed, probe_interval, credits, .. } = self;
        [limit, parallel, phase, probed, probe_interval, credits]
    }

    fn from_numbers(numbers: [u64; 6]) -> Self {
        let [limit, parallel, phase, probed, probe_interval, credits] = numbers;
        let phase = match phase {
            0 => Phase::Begins,
            1 => Phase::Follows,
            2 => Phase::Probes(None),
            before => Phase::Probes(Some(before - 3)),
        };
        Self { limit, parallel, phase, probed, probe_interval, credits }
    }
}

/// A controller in memory that all workers share. Whoever ends an operation adds what it measured,
/// and one of them decides when it is time.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Controller {
    /// As [`State::to_numbers`]; a limit of zero is [`State::new`].
    state: [AtomicU64; 6],
    /// Since when it is measured. Whoever moves it decides.
    since: AtomicU64,
    operations: AtomicU64,
    took: AtomicU64,
    nominal_took: AtomicU64,
    with_target: AtomicU64,
    missed: AtomicU64,
    /// Of a thousand.
    stalled: AtomicU64,
    full: AtomicU32,
    /// By bucket: the nominal time in nanoseconds, or zero.
    nominal: [AtomicU64; BUCKETS],
    /// By bucket: what was measured to know it.
    probed: [AtomicU64; BUCKETS],
    probed_count: [AtomicU64; BUCKETS],
    /// The last slowdown, for those who look.
    slowdown: AtomicU64,
    /// The last mean time of an operation, in nanoseconds, for those who look.
    mean: AtomicU64,
}

/// An operation that the device did.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation {
    pub(crate) cost: Cost,
    /// When it went to the device.
    pub(crate) began: u64,
    /// When it was back.
    pub(crate) ended: u64,
    /// Whether it took longer than its class's latency target, waiting included, if there is one.
    pub(crate) missed: Option<bool>,
}

impl Controller {
    /// Operations that may be in flight.
    pub fn limit(&self) -> u32 {
        let limit = self.state[0].load(Ordering::Acquire).max(ONE);
        u32::try_from(limit / ONE).unwrap_or(u32::MAX)
    }

    /// What clients may hold of their credits at `now`, in parts of [`ONE`].
    pub fn credits(&self, now: u64) -> u64 {
        let credits = self.state[5].load(Ordering::Acquire);
        let decided = self.since.load(Ordering::Acquire);
        let is_known = credits > 0 && now.saturating_sub(decided) < CREDITS_TIME_MAX;
        if is_known { credits.min(ONE) } else { ONE }
    }

    /// Times of operations in parts of their nominal times, in parts of [`ONE`]; zero if unknown.
    pub fn slowdown(&self) -> u64 {
        self.slowdown.load(Ordering::Relaxed)
    }

    /// What an operation took of late, in nanoseconds.
    pub fn mean_ns(&self) -> u64 {
        self.mean.load(Ordering::Relaxed)
    }

    /// What the kernel says of the machine: of a thousand parts of time, for how many all of it
    /// waited for storage.
    pub fn set_stalled(&self, stalled: u64) {
        self.stalled.store(stalled, Ordering::Relaxed);
    }

    pub(crate) fn was_full(&self) {
        if self.full.load(Ordering::Relaxed) == 0 {
            self.full.store(1, Ordering::Relaxed);
        }
    }

    /// Takes what an operation took, and decides if it is time; `waiting` counts the requests that
    /// wait.
    pub(crate) fn measure(&self, operation: &Operation, waiting: impl FnOnce() -> u64) {
        let Operation { cost, began, ended, missed } = *operation;
        let add = |figure: &AtomicU64, amount: u64| figure.fetch_add(amount, Ordering::AcqRel);
        if let Some(missed) = missed {
            add(&self.with_target, 1);
            add(&self.missed, missed.into());
        }
        let took = ended.saturating_sub(began);
        // What was answered at once did not come from the device.
        let Some(bucket) = bucket(cost).filter(|_| took > 0) else { return };
        let since = self.since.load(Ordering::Acquire);
        let state = self.state(ended);
        let nominal = &self.nominal[bucket];
        if let Phase::Probes(_) = state.phase {
            // What began before belongs to another limit.
            if began < since {
                return;
            }
            add(&self.probed[bucket], took);
            add(&self.probed_count[bucket], 1);
        } else if nominal.load(Ordering::Relaxed) == 0 {
            nominal.store(took, Ordering::Relaxed);
        }
        let nominal = nominal.load(Ordering::Relaxed);
        add(&self.operations, 1);
        add(&self.took, took);
        add(&self.nominal_took, nominal);
        let measured = self.measured(ended, since);
        if state.is_due(&measured) {
            let first =
                self.since.compare_exchange(since, ended, Ordering::AcqRel, Ordering::Acquire);
            if first.is_ok() {
                self.decide(state, &Measured { waiting: waiting(), ..measured });
            }
        }
    }

    fn state(&self, now: u64) -> State {
        let numbers = self.state.each_ref().map(|number| number.load(Ordering::Acquire));
        if numbers[0] == 0 { State::new(now) } else { State::from_numbers(numbers) }
    }

    fn measured(&self, now: u64, since: u64) -> Measured {
        let load = |figure: &AtomicU64| figure.load(Ordering::Acquire);
        let missed = (load(&self.missed) * 1_000).checked_div(load(&self.with_target));
        Measured {
            now,
            elapsed: now.saturating_sub(since),
            operations: load(&self.operations),
            took: load(&self.took),
            nominal: load(&self.nominal_took),
            was_full: self.full.load(Ordering::Acquire) != 0,
            waiting: 0,
            missed: missed.unwrap_or(0),
            stalled: load(&self.stalled),
        }
    }

    fn decide(&self, state: State, measured: &Measured) {
        if let Phase::Probes(_) = state.phase {
            for at in 0..BUCKETS {
                let count = self.probed_count[at].swap(0, Ordering::AcqRel);
                let took = self.probed[at].swap(0, Ordering::AcqRel);
                if let Some(nominal) = took.checked_div(count) {
                    self.nominal[at].store(nominal.max(1), Ordering::Release);
                }
            }
        } else {
            self.slowdown.store(ratio(measured.took, measured.nominal), Ordering::Relaxed);
        }
        let mean = measured.took.checked_div(measured.operations).unwrap_or(0);
        self.mean.store(mean, Ordering::Relaxed);
        let numbers = state.decide(measured).to_numbers();
        for (at, number) in self.state.iter().zip(numbers) {
            at.store(number, Ordering::Release);
        }
        for figure in
            [&self.operations, &self.took, &self.nominal_took, &self.with_target, &self.missed]
        {
            figure.store(0, Ordering::Release);
        }
        self.full.store(0, Ordering::Release);
    }
}

/// Which nominal time is that of an operation: by kind, and by size in powers of two. Names and
/// attributes have none.
fn bucket(cost: Cost) -> Option<usize> {
    let half = BUCKETS / 2;
    let size = usize::try_from(cost.bytes.checked_ilog2().unwrap_or(0).saturating_sub(9));
    let size = size.map_or(half - 1, |size| size.min(half - 1));
    match cost.kind {
        Kind::Read => Some(size),
        Kind::Write => Some(half + size),
        Kind::Metadata => None,
    }
}

/// In parts of [`ONE`].
fn ratio(of: u64, to: u64) -> u64 {
    let parts = u128::from(of) * u128::from(ONE) / u128::from(to.max(1));
    u64::try_from(parts).unwrap_or(u64::MAX)
}
