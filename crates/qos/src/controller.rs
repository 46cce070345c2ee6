//! Limit of operations in flight to a storage device, derived from their latency.
//!
//! A device serves some number of operations at once and queues the others, first come first
//! served; once queued there, an operation cannot be overtaken. So only as many are let in flight
//! as keep the device busy, and a few more. Now and then the limit is lowered for a moment: the
//! latency of an operation is then its *nominal* time, by kind and size. Later, measured times
//! divided by nominal ones tell how much is queued inside of the device: while that is little the
//! limit rises, and when it is more the limit falls in proportion (a latency gradient).
//!
//! The sum of nominal times per elapsed time is the number of operations served at once. The limit
//! never falls below it, so noise in the times costs no throughput.
//!
//! Other requests wait in the workers, and clients go on sending as long as they have credits.
//! While far more requests wait than are in flight, all clients are granted fewer credits.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::class::{Cost, Kind};

/// Denominator of fractions: 256 means the whole.
pub const ONE: u64 = 256;

/// Highest number of operations in flight, whatever the times.
pub const LIMIT_MAX: u64 = 1_024;

/// Highest latency before the limit falls, relative to the nominal time.
const SLOWDOWN_MAX: u64 = ONE * 5 / 4;

/// The same, while a latency target is missed or the machine stalls on storage.
const SLOWDOWN_MAX_UNDER_PRESSURE: u64 = ONE * 17 / 16;

/// Requests per thousand that may miss their latency target.
const MISSED_MAX: u64 = 10;

/// Thousandths of time for which the whole machine may stall on storage.
const STALLED_MAX: u64 = 900;

/// Operations measured before a decision.
const OPERATIONS_MIN: u64 = 16;

/// Shortest measuring interval, in nanoseconds.
const TIME_MIN: u64 = 5_000_000;

/// Shortest measuring interval, in mean latencies of an operation.
const TIMES_MIN: u64 = 4;

/// Operations measured for nominal times.
const PROBED_MIN: u64 = 8;

/// Longest measurement of nominal times after its first operation, in nanoseconds.
const PROBE_TIME_MAX: u64 = 200_000_000;

/// Shortest time in nanoseconds between measurements of nominal times. Used after they have
/// changed, which happens when something other than the storage was slow; doubled each time that
/// they are the same.
const PROBE_INTERVAL_MIN: u64 = 1_000_000_000;

/// Longest time in nanoseconds between measurements of nominal times.
const PROBE_INTERVAL_MAX: u64 = 10_000_000_000;

/// Smallest part of their credits that clients keep.
const CREDITS_MIN: u64 = ONE / 16;

/// Waiting requests for each one in flight, above which clients get fewer credits.
const WAITING_MAX: u64 = 8;

/// Nanoseconds after the last decision at which a reduction of credits ends.
const CREDITS_TIME_MAX: u64 = 1_000_000_000;

/// Number of kinds and sizes with a nominal time of their own.
const BUCKETS: usize = 32;

/// Knowledge about a device, and the decisions from it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct State {
    /// Highest number of operations in flight, in parts of [`ONE`].
    pub limit: u64,
    /// Operations that the device serves at once, in parts of [`ONE`].
    pub parallel: u64,
    /// Phase of the control loop.
    pub phase: Phase,
    /// Time of the last measurement of nominal times.
    pub probed: u64,
    /// Nanoseconds until the next such measurement.
    pub probe_interval: u64,
    /// Part of their credits that clients may have, in parts of [`ONE`].
    pub credits: u64,
}

/// Phases of the control loop.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Phase {
    /// Measures nominal times at a low limit; then returns to the given limit, or to the start.
    Probes(Option<u64>),
    /// Doubles the limit until the device is busy.
    Begins,
    /// Adjusts the limit to the measured times.
    Follows,
}

/// Measurements of an interval between decisions.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Measured {
    /// End of the interval, in nanoseconds of the machine's clock.
    pub now: u64,
    /// Length of the interval, in nanoseconds.
    pub elapsed: u64,
    /// Operations that ended in the interval.
    pub operations: u64,
    /// Sum of their latencies, in nanoseconds.
    pub took: u64,
    /// Sum of their nominal times, in nanoseconds.
    pub nominal: u64,
    /// True if a request had to wait at the limit.
    pub was_full: bool,
    /// Requests that wait at the end of the interval.
    pub waiting: u64,
    /// Requests per thousand that missed their latency target.
    pub missed: u64,
    /// Thousandths of time for which the whole machine stalled on storage.
    pub stalled: u64,
}

impl State {
    /// Initial state, without knowledge: a limit of one operation.
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

    /// True once the measurements suffice for a decision.
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

    /// Returns the next state, from the measurements.
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
                // The number served at once was derived from the old nominal times.
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

    /// Returns true if too many requests wait, false if few do, and `None` between the two.
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

    /// Returns the state as numbers: limit, parallel, phase, probed, probe interval, credits.
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

/// A controller in memory that all workers share. Each worker adds the measurements of its
/// operations, and one of them decides when it is time.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Controller {
    /// Numbers of [`State::to_numbers`]; a limit of zero means [`State::new`].
    state: [AtomicU64; 6],
    /// Start of the interval. The worker that advances it decides.
    since: AtomicU64,
    operations: AtomicU64,
    took: AtomicU64,
    nominal_took: AtomicU64,
    with_target: AtomicU64,
    missed: AtomicU64,
    /// Stalled time, in thousandths of an interval.
    stalled: AtomicU64,
    full: AtomicU32,
    /// Nominal times in nanoseconds by bucket; zero if unknown.
    nominal: [AtomicU64; BUCKETS],
    /// Sums of latencies by bucket, to derive nominal times.
    probed: [AtomicU64; BUCKETS],
    probed_count: [AtomicU64; BUCKETS],
    /// Last slowdown, for display only.
    slowdown: AtomicU64,
    /// Last mean latency of an operation in nanoseconds, for display only.
    mean: AtomicU64,
}

/// A completed operation of the device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation {
    pub(crate) cost: Cost,
    /// Time at which it was sent to the device.
    pub(crate) began: u64,
    /// Time at which it was completed.
    pub(crate) ended: u64,
    /// True if it exceeded its class's latency target, waiting included; `None` without a target.
    pub(crate) missed: Option<bool>,
}

impl Controller {
    /// Highest number of operations in flight.
    pub fn limit(&self) -> u32 {
        let limit = self.state[0].load(Ordering::Acquire).max(ONE);
        u32::try_from(limit / ONE).unwrap_or(u32::MAX)
    }

    /// Part of their credits that clients may have at `now`, in parts of [`ONE`].
    pub fn credits(&self, now: u64) -> u64 {
        let credits = self.state[5].load(Ordering::Acquire);
        let decided = self.since.load(Ordering::Acquire);
        let is_known = credits > 0 && now.saturating_sub(decided) < CREDITS_TIME_MAX;
        if is_known { credits.min(ONE) } else { ONE }
    }

    /// Latency relative to nominal times, in parts of [`ONE`]; zero if unknown.
    pub fn slowdown(&self) -> u64 {
        self.slowdown.load(Ordering::Relaxed)
    }

    /// Recent mean latency of an operation, in nanoseconds.
    pub fn mean_ns(&self) -> u64 {
        self.mean.load(Ordering::Relaxed)
    }

    /// Sets the kernel's stall figure: thousandths of time for which the whole machine waited for
    /// storage.
    pub fn set_stalled(&self, stalled: u64) {
        self.stalled.store(stalled, Ordering::Relaxed);
    }

    pub(crate) fn was_full(&self) {
        if self.full.load(Ordering::Relaxed) == 0 {
            self.full.store(1, Ordering::Relaxed);
        }
    }

    /// Adds an operation's measurements, and decides if it is time; `waiting` counts the waiting
    /// requests.
    pub(crate) fn measure(&self, operation: &Operation, waiting: impl FnOnce() -> u64) {
        let Operation { cost, began, ended, missed } = *operation;
        let add = |figure: &AtomicU64, amount: u64| figure.fetch_add(amount, Ordering::AcqRel);
        if let Some(missed) = missed {
            add(&self.with_target, 1);
            add(&self.missed, missed.into());
        }
        let took = ended.saturating_sub(began);
        // Operations completed at once did not reach the device.
        let Some(bucket) = bucket(cost).filter(|_| took > 0) else { return };
        let since = self.since.load(Ordering::Acquire);
        let state = self.state(ended);
        let nominal = &self.nominal[bucket];
        if let Phase::Probes(_) = state.phase {
            // Operations sent before belong to another limit.
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

/// Index of an operation's nominal time: by kind, and by size in powers of two. `None` for
/// operations on names and attributes.
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

/// Quotient in parts of [`ONE`].
fn ratio(of: u64, to: u64) -> u64 {
    let parts = u128::from(of) * u128::from(ONE) / u128::from(to.max(1));
    u64::try_from(parts).unwrap_or(u64::MAX)
}
