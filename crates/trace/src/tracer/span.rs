//! Times of a request, and the end of a phase.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, Ordering};

use super::{CANCELLED, Came, Inner, PHASES, Span, State, Time, add};
use crate::names::Phase;
use crate::page::{Layout, PhaseTicks};
use crate::party::PartyId;
use crate::reason::Reason;

impl Came {
    /// Time of the frame, if all of it came at once, and no lane has decrypted it.
    #[inline(always)]
    pub(super) fn at_once(self) -> Option<u64> {
        (self.began == self.whole && self.opened == 0).then_some(self.whole)
    }
}

impl State {
    /// State of a request that the worker does not serve.
    pub(super) const UNSERVED: Self = Self(0x80);
    /// Flag: phases are kept, or the clock is slower than an instruction.
    const SLOW: u8 = 0x10;
    /// Flag: it was answered together with others.
    const CROWDED: u8 = 0x20;

    /// State of a served request without flags.
    #[inline(always)]
    pub(super) const fn of(phase: Phase) -> Self {
        Self(phase as u8)
    }

    /// Number of the phase, unless a flag forces the slow path.
    #[inline(always)]
    pub(super) fn quick(self) -> Option<usize> {
        let number = usize::from(self.0);
        (number < PHASES).then_some(number)
    }

    pub(super) fn phase(self) -> Phase {
        Phase::ALL[usize::from(self.0) % PHASES]
    }

    /// Changes the phase and keeps the flags of a served request.
    pub(super) fn with(self, phase: Phase) -> Self {
        Self(self.0 & (Self::SLOW | Self::CROWDED) | phase as u8)
    }

    pub(super) fn slow_if(self, is_slow: bool) -> Self {
        Self(if is_slow { self.0 | Self::SLOW } else { self.0 & !Self::SLOW })
    }

    /// Removes the flag of shared responses.
    #[inline(always)]
    pub(super) const fn alone(self) -> Self {
        Self(self.0 & !Self::CROWDED)
    }

    #[inline(always)]
    pub(super) fn is_served(self) -> bool {
        self.0 & Self::UNSERVED.0 == 0
    }
}

impl Layout {
    /// Ends a phase of the worker, and begins the next one.
    ///
    /// If the counter of another processor is a little behind, the next phase is shorter by the
    /// error of this one: sums wrap around, and stay right.
    #[inline(always)]
    pub(super) fn step(&self, before: &AtomicU64, next: &AtomicU64, now: u64) {
        // This order shows readers whether the change is complete.
        self.since.store(now, Ordering::Release);
        crate::series::add(before, now);
        crate::series::add(next, now.wrapping_neg());
    }

    /// Adds waiting time of a request to a phase.
    #[inline(always)]
    pub(super) fn wait(&self, phase: Phase, ticks: u64) {
        crate::series::add(&self.waited[phase as usize], ticks);
    }
}

impl Time {
    pub(super) fn new(served: &'static PhaseTicks, state: State) -> Self {
        Self {
            state: Cell::new(state),
            served,
            phases: Default::default(),
            since: Cell::new(0),
            waits: Cell::new(Phase::Other),
        }
    }

    /// True unless the request only waits for its turn; always true without a request.
    #[inline(always)]
    pub(super) fn is_waiting(&self) -> bool {
        self.waits.get() != Phase::Queued
    }
}

impl Span {
    pub(super) fn new(inner: &'static Inner) -> Self {
        Self {
            inner,
            layout: inner.layout,
            time: Time::new(&inner.layout.served, State::UNSERVED),
            mid: Cell::new(0),
            number: Cell::new(0),
            operation: Cell::new(None),
            status: Cell::new(CANCELLED),
            reason: Cell::new(Reason::NotRefused),
            came: Cell::new(0),
            party: Cell::default(),
            bytes: Cell::new(0),
            open: Cell::default(),
            next: Cell::new(None),
            path: RefCell::default(),
            explanation: RefCell::default(),
        }
    }

    /// Ends a phase of the worker and of this request, on the fast path.
    #[inline(always)]
    pub(super) fn step(&self, before: usize, next: Phase) {
        let now = self.inner.quick_ticks();
        self.time.state.set(State::of(next));
        let served = &self.layout.served;
        self.layout.step(&served[before], &served[next as usize], now);
    }

    /// Likewise, when the request begins to wait.
    #[inline(always)]
    pub(super) fn wait(&self, before: usize, next: Phase) {
        self.time.waits.set(next);
        self.step(before, next);
    }

    /// Resets the span for a request that came at `came`.
    #[inline(always)]
    pub(super) fn begin(&self, came: u64) {
        self.operation.set(None);
        self.reason.set(Reason::NotRefused);
        self.party.set(PartyId::default());
        self.bytes.set(0);
        self.came.set(came);
        self.time.waits.set(Phase::Queued);
    }

    /// Adds waiting time to a phase of the request and the totals.
    pub(super) fn waited(&self, phase: Phase, ticks: u64) {
        self.layout.wait(phase, ticks);
        add(&self.time.phases[phase as usize], ticks);
    }

    /// Resets the span for a request that begins now, with the times before.
    pub(super) fn begin_slowly(&self, came: &Came, now: u64) {
        self.time.since.set(now);
        self.time.phases.iter().for_each(|phase| phase.set(0));
        self.open.set(None);
        if came.whole == 0 {
            return self.begin(now);
        }
        // If the counter of another processor is a little behind, no time is negative.
        let received = came.whole.saturating_sub(came.began);
        let queued = now.saturating_sub(came.whole);
        self.begin(now.wrapping_sub(received + queued));
        let opened = came.opened.min(received);
        self.waited(Phase::Receiving, received - opened);
        self.waited(Phase::Verifying, opened);
        self.waited(Phase::Queued, queued);
    }

    /// Ticks in each phase; empty unless phases are kept.
    pub(super) fn phases(&self) -> impl Iterator<Item = (Phase, u64)> + Clone {
        let are_kept = self.number.get() != 0;
        let phases = Phase::ALL.iter().zip(&self.time.phases).filter(move |_| are_kept);
        phases.map(|(phase, ticks)| (*phase, ticks.get()))
    }

    /// True if no other request was answered in its frame.
    #[inline(always)]
    pub(super) fn is_alone(&'static self) -> bool {
        self.next.get().is_some_and(|first| std::ptr::eq(first, self))
    }

    #[cold]
    #[inline(never)]
    pub(super) fn enter_slowly(&self, phase: Phase) {
        self.inner.switch(phase);
    }

    #[cold]
    #[inline(never)]
    pub(super) fn identify_slowly(&self) {
        let Some(operation) = self.operation.get() else { return };
        let before = self.time.since.get().saturating_sub(self.came.get());
        let (mid, number) = (self.mid.get(), self.number.get());
        self.inner.request_start(mid, operation.number(), number, before);
    }

    #[cold]
    #[inline(never)]
    pub(super) fn wait_slowly(&self, phase: Phase) {
        let (inner, time) = (self.inner, &self.time);
        if phase == Phase::Storage && inner.serves(time) {
            time.waits.set(phase);
            inner.switch(phase);
            return;
        }
        let now = inner.switch(match phase {
            Phase::Break | Phase::Event | Phase::Throttled => Phase::Other,
            Phase::Peer => Phase::Messages,
            other => other,
        });
        if !inner.serves(time) {
            // For example a throttled request.
            inner.wait_until(self, now);
        }
        inner.hand_over(inner.nobody, now);
        time.waits.set(phase);
    }

    /// Resumes the request, possibly in place of another one.
    #[inline(never)]
    pub(super) fn resume_slowly(&'static self) {
        let (inner, time) = (self.inner, &self.time);
        let is_known = inner.does() == Phase::Running && inner.current.get().is_waiting();
        let now = match is_known {
            true => inner.moment(),
            false => inner.switch(Phase::Running),
        };
        if !inner.serves(time) {
            inner.wait_until(self, now);
            inner.hand_over(time, now);
        }
        time.waits.set(Phase::Queued);
    }

    /// Appends it to the ring of a frame's responses. Returns the first of them.
    #[cold]
    #[inline(never)]
    pub(super) fn follow(&'static self, last: &'static Self) -> Option<&'static Self> {
        let state = self.time.state.get();
        self.time.state.set(State(state.0 | State::CROWDED));
        last.next.replace(Some(self))
    }
}
