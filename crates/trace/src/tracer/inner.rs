//! Clock of a tracer, and the assignment of its time.

use std::cell::Cell;
use std::sync::atomic::Ordering;

use super::request::each;
use super::{
    Answered, Came, ERRORS, Inner, REQUESTS_MAX, Request, SPANS_AT_FIRST, SPANS_AT_ONCE, Span,
    State, StoreWork, Time, add,
};
use crate::clock::Clock;
use crate::names::{Operation, Phase, StoreOperation};
use crate::page::Layout;
use crate::probe;
use crate::slow::SlowRequest;

impl Inner {
    #[inline(always)]
    pub(crate) fn layout(&self) -> &'static Layout {
        self.layout
    }

    #[inline(always)]
    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Time of the tracer's clock, in ticks.
    #[inline(always)]
    pub(super) fn now(&self) -> u64 {
        self.quick_now().unwrap_or_else(|| self.clock.now())
    }

    /// The same, if the clock is a processor's instruction.
    #[inline(always)]
    pub(super) fn quick_now(&self) -> Option<u64> {
        #[cfg(feature = "recorder")]
        if let Some(time) = &self.time {
            return Some(time.get());
        }
        self.clock.is_processor().then(|| self.clock.now())
    }

    /// Time in ticks, of a clock known to be an instruction.
    #[inline(always)]
    pub(super) fn quick_ticks(&self) -> u64 {
        #[cfg(feature = "recorder")]
        if let Some(time) = &self.time {
            return time.get();
        }
        crate::clock::ticks()
    }

    /// Starts counting in the page.
    pub(super) fn begin(&self) {
        self.layout.begin(self.now(), self.clock);
        self.update_emission();
    }

    /// Updates whether events are emitted and phases kept.
    pub(super) fn update_emission(&self) {
        #[cfg(feature = "recorder")]
        let is_recorded = self.records;
        #[cfg(not(feature = "recorder"))]
        let is_recorded = false;
        self.emits.set(probe::are_on() || is_recorded);
        self.keeps_phases.set(self.emits.get() || self.slow_ns.get() != 0);
        let is_quick = self.quick_now().is_some() && !self.keeps_phases.get();
        let time = self.current.get();
        time.state.set(time.state.get().slow_if(!is_quick));
    }

    /// True if events are emitted.
    #[inline(always)]
    pub(crate) fn emits(&self) -> bool {
        self.emits.get()
    }

    #[cfg(feature = "recorder")]
    pub(crate) fn record(&self, name: &'static str, arguments: &[u64]) {
        if self.records {
            self.recorder.record(name, arguments);
        }
    }

    /// Phase of the worker as of now.
    pub(super) fn does(&self) -> Phase {
        self.current.get().state.get().phase()
    }

    /// Ends a phase of the worker and of the served request on the fast path. The caller knows that
    /// `time` is current and has no flag.
    #[inline(always)]
    pub(super) fn step(&self, time: &Time, before: usize, next: Phase) -> u64 {
        let now = self.quick_ticks();
        time.state.set(State::of(next));
        self.layout.step(&time.served[before], &time.served[next as usize], now);
        now
    }

    /// Ends a phase of the worker, and of the served request, if any.
    #[inline(always)]
    pub(super) fn switch(&self, next: Phase) -> u64 {
        let time = self.current.get();
        match time.state.get().quick() {
            Some(before) => self.step(time, before, next),
            None => self.switch_slowly(next),
        }
    }

    #[cold]
    #[inline(never)]
    pub(super) fn switch_slowly(&self, next: Phase) -> u64 {
        let (time, now) = (self.current.get(), self.now());
        let before = time.state.get().phase();
        let passed = now.wrapping_sub(self.moment());
        time.state.set(time.state.get().with(next));
        add(&time.phases[before as usize], passed);
        self.layout.step(&time.served[before as usize], &time.served[next as usize], now);
        self.phase(before.number(), next.number(), passed);
        now
    }

    #[inline(never)]
    pub(super) fn wait_slowly(&self) {
        let now = self.switch(Phase::Waiting);
        if let Some(last) = self.ending.take() {
            each(last, |span| self.end_span(span, now));
        }
        self.hand_over(self.nobody, now);
    }

    #[cold]
    #[inline(never)]
    pub(super) fn woke_slowly(&self, completions: u64) {
        self.update_emission();
        self.switch(Phase::Receiving);
        self.woke(completions);
    }

    #[inline(never)]
    pub(super) fn sends_slowly(&self, connection: u32, bytes: u64, answered: &Answered) {
        self.frame_sent(connection.into(), bytes);
        answered.enter(Phase::Sending);
    }

    #[inline(never)]
    pub(super) fn begin_slowly(&'static self, came: &Cell<Came>, phase: Phase) -> Request {
        let now = self.switch(phase);
        let span = self.begin_span(&came.get(), now);
        // If the previous request was answered in the same compound, it waits for this one.
        self.hand_over(span.map_or(self.nobody, |span| &span.time), now);
        Request(Cell::new(span))
    }

    #[inline(never)]
    pub(super) fn store_begins_slowly(
        &self,
        operation: StoreOperation,
        is_waited_for: bool,
    ) -> StoreWork {
        if self.does() != Phase::Storage || !is_waited_for {
            let now = self.switch(Phase::Storage);
            self.hand_over(self.nobody, now);
        }
        self.store_start(operation.number());
        StoreWork { operation, since: self.moment() }
    }

    #[cold]
    #[inline(never)]
    pub(super) fn store_ends_slowly(&self, work: StoreWork, bytes: u64, status: u32) -> u64 {
        let now = self.switch_slowly(Phase::Running);
        let operation = work.operation.number();
        let ticks = now.saturating_sub(work.since);
        self.layout.stores.add(work.operation as usize, ticks, &self.clock);
        self.store_end(operation, bytes, status.into(), ticks);
        if bytes != 0 {
            self.store_data(operation, bytes);
        }
        ticks
    }

    /// Start of the worker's current phase.
    #[inline(always)]
    pub(super) fn moment(&self) -> u64 {
        self.layout.since.load(Ordering::Relaxed)
    }

    /// Counts all time up to now, and returns it.
    pub(super) fn count_until_now(&self) -> u64 {
        self.switch(self.does())
    }

    /// Enters a phase without a request, unless the worker is in it.
    #[inline(never)]
    pub(super) fn turn_to(&self, phase: Phase) {
        if self.does() != phase {
            let now = self.switch(phase);
            self.hand_over(self.nobody, now);
        }
    }

    #[inline(always)]
    pub(super) fn serves(&self, time: &Time) -> bool {
        std::ptr::eq(self.current.get(), time)
    }

    /// Switches the served request, keeping the current phase, which has just begun.
    #[inline(always)]
    pub(super) fn hand_over(&self, to: &'static Time, now: u64) {
        let from = self.current.replace(to);
        let state = from.state.replace(State::UNSERVED);
        let phase = state.phase() as usize;
        from.since.set(now);
        self.layout.step(&from.served[phase], &to.served[phase], now);
        to.state.set(state.alone());
    }

    /// Counts the time that a request has waited until now, and returns it.
    #[inline(always)]
    pub(super) fn wait_until(&self, span: &Span, now: u64) -> u64 {
        let waited = now.wrapping_sub(span.time.since.replace(now));
        span.waited(span.time.waits.get(), waited);
        waited
    }

    /// Allocates spans for further requests, and returns one.
    #[cold]
    pub(super) fn grow(&'static self) -> Option<&'static Span> {
        if self.spans.get() >= REQUESTS_MAX {
            crate::series::add(&self.layout.untraced, 1);
            return None;
        }
        let more = self.spans.get().clamp(SPANS_AT_FIRST, SPANS_AT_ONCE);
        self.spans.set(self.spans.get() + more);
        for _ in 1..more {
            self.release(Box::leak(Box::new(Span::new(self))));
        }
        Some(Box::leak(Box::new(Span::new(self))))
    }

    #[inline]
    pub(super) fn release(&self, span: &'static Span) {
        span.next.set(self.free.replace(Some(span)));
    }

    pub(super) fn begin_span(&'static self, came: &Came, now: u64) -> Option<&'static Span> {
        let span = match self.free.get() {
            Some(span) => {
                self.free.set(span.next.get());
                span
            }
            None => self.grow()?,
        };
        span.begin_slowly(came, now);
        if self.keeps_phases.get() {
            self.requests.set(self.requests.get() + 1);
            span.number.set(self.requests.get());
        }
        Some(span)
    }

    /// Counts a request that is served alone and ends now, on the fast path, and frees its span.
    /// The worker enters `next` without a request.
    #[inline(always)]
    pub(super) fn end_served(&self, span: &'static Span, before: usize, next: Phase) {
        let Some(operation) = span.operation.get().filter(|_| span.status.get() < ERRORS) else {
            let now = self.step(&span.time, before, next);
            return self.end_span(span, now);
        };
        let (layout, now) = (span.layout, self.quick_ticks());
        self.current.set(self.nobody);
        self.nobody.state.set(State::of(next));
        span.time.state.set(State::UNSERVED);
        layout.step(&layout.served[before], &layout.idle[next as usize], now);
        self.release(span);
        let ticks = now.wrapping_sub(span.came.get());
        let party = span.party.get();
        // Last, because it may have to do more.
        layout.parties.add(party, operation, (ticks, span.bytes.get()), &self.clock);
    }

    /// Counts a request and frees its span. The time of a served one is counted up to now.
    #[inline(never)]
    pub(super) fn end_span(&self, span: &'static Span, now: u64) {
        if span.time.state.get().is_served() {
            self.hand_over(self.nobody, now);
        } else {
            self.wait_until(span, now);
        }
        // Without a command it never became a request: the connection ended before.
        if let Some(operation) = span.operation.get() {
            self.count(span, operation, now.saturating_sub(span.came.get()));
        }
        span.number.set(0);
        self.release(span);
    }

    #[inline(always)]
    pub(super) fn count(&self, span: &Span, operation: Operation, ticks: u64) {
        if self.slow_ns.get() != 0 {
            self.note_slow(span, operation, ticks);
        }
        if self.emits() || span.status.get() >= ERRORS {
            self.emit_end(span, operation, ticks);
        }
        let party = span.party.get();
        self.layout.parties.add(party, operation, (ticks, span.bytes.get()), &self.clock);
    }

    /// Counts an error, and emits the end of a request.
    #[cold]
    #[inline(never)]
    pub(super) fn emit_end(&self, span: &Span, operation: Operation, ticks: u64) {
        let (mid, number, status) = (span.mid.get(), span.number.get(), span.status.get());
        for (phase, ticks) in span.phases().filter(|(_, ticks)| *ticks != 0) {
            self.request_phase(number, phase.number(), ticks);
        }
        if status >= ERRORS {
            self.request_failed(operation.number(), status.into());
        }
        let reason = span.reason.get().number();
        self.request_end(mid, operation.number(), status.into(), number, reason, ticks);
    }

    #[cold]
    pub(super) fn note_slow(&self, span: &Span, operation: Operation, ticks: u64) {
        let (path, explanation) = (span.path.take(), span.explanation.take());
        let ns = self.clock.ns(ticks);
        if ns < self.slow_ns.get() || span.number.get() == 0 {
            return; // Not slow, or begun before slow requests were reported.
        }
        // If the counter of another processor is a little behind, no time is negative.
        let phases = span.phases().filter(|(_, ticks)| ticks.cast_signed() >= 0);
        let phases = phases.map(|(phase, ticks)| (phase, self.clock.ns(ticks)));
        let for_event = phases.clone().find(|(phase, _)| *phase == Phase::Event);
        let ns = ns.saturating_sub(for_event.map_or(0, |(_, ns)| ns));
        if ns < self.slow_ns.get() {
            return;
        }
        let (share, user) = span.party.get().names();
        self.slow.borrow_mut().push(SlowRequest {
            mid: span.mid.get(),
            operation,
            status: span.status.get(),
            refusal: explanation.map(|words| (span.reason.get(), words)),
            ns,
            phases: phases.filter(|(_, ns)| *ns != 0).collect(),
            user,
            share,
            open: span.open.get(),
            path,
        });
    }
}
