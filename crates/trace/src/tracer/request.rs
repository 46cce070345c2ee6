//! Reports of a request, from its frame to its response.

use std::fmt;

use super::{Answered, CANCELLED, Request, Span, Spent, State, add};
use crate::names::{Operation, Phase};
use crate::party::PartyId;
use crate::reason::Reason;
use crate::schema::counted;

impl Request {
    /// Sets the MessageId and command of the request.
    #[inline(always)]
    pub fn identify(&self, mid: u64, command: u16) {
        let Some(span) = self.span() else { return };
        let operation = Operation::from_number(command.into());
        span.mid.set(mid);
        span.operation.set(Some(operation));
        if span.time.state.get().quick().is_some() {
            let clock = span.inner.clock();
            counted::request_start(span.layout, clock, mid, operation.number(), 0, 0);
        } else {
            span.identify_slowly();
        }
    }

    /// Sets the request's share and user.
    #[inline(always)]
    pub fn belongs_to(&self, party: PartyId) {
        if let Some(span) = self.span() {
            span.party.set(party);
        }
    }

    /// Serves the request in this phase.
    #[inline(always)]
    pub fn enter(&self, phase: Phase) {
        let Some(span) = self.span() else { return };
        match span.time.state.get().quick() {
            Some(before) => span.step(before, phase),
            None => span.enter_slowly(phase),
        }
    }

    /// Makes the request wait; the worker goes on with the operation, or with something else.
    #[inline(always)]
    pub fn wait(&self, phase: Phase) {
        let Some(span) = self.span() else { return };
        match span.time.state.get().quick() {
            Some(before) if phase == Phase::Storage => {
                // Most likely the worker executes the operation next.
                span.wait(before, Phase::Storage);
            }
            _ => span.wait_slowly(phase),
        }
    }

    /// Resumes the request after a wait.
    #[inline(always)]
    pub fn resume(&self) {
        let Some(span) = self.span() else { return };
        add(&span.bytes, span.inner.bytes.take());
        // The end of the operation has just read the clock, most likely for this request.
        if span.time.state.get() == State::of(Phase::Running) {
            span.time.waits.set(Phase::Queued);
        } else {
            span.resume_slowly();
        }
    }

    /// Counts the refusal of the request; its response comes next. `rule` explains the reason in
    /// the log, if the request turns out to be slow.
    #[cold]
    #[inline(never)]
    pub fn refuse(&self, reason: Reason, rule: &dyn fmt::Display) {
        let Some(span) = self.span() else { return };
        let inner = span.inner;
        let operation = span.operation.get().unwrap_or(Operation::Unknown);
        span.reason.set(reason);
        span.layout.refusals.add(reason, operation);
        inner.request_refused(operation.number(), reason.number(), span.number.get());
        if inner.slow_ns.get() != 0 {
            span.explanation.replace(Some(rule.to_string()));
        }
    }

    /// Adds its response to a frame, with which the request ends. `open` is the open that it named
    /// or created.
    #[inline(always)]
    pub fn answer(&self, status: u32, open: Option<u64>, answered: &mut Answered) {
        let Some(span) = self.0.take().filter(|_| cfg!(feature = "on")) else { return };
        span.status.set(status);
        if span.time.state.get().quick().is_none() {
            span.open.set(open);
        }
        let first = match answered.last.replace(span) {
            Some(last) => span.follow(last),
            None => Some(span),
        };
        span.next.set(first);
    }

    /// Ends the request without a response, and without counting it as cancelled.
    pub fn end_without_response(&self) {
        if let Some(span) = self.0.take().filter(|_| cfg!(feature = "on")) {
            end_unanswered(span, 0);
        }
    }

    /// True if a path is useful: slow requests are reported.
    #[inline]
    #[must_use]
    pub fn wants_path(&self) -> bool {
        self.span().is_some_and(|span| span.inner.slow_ns.get() != 0)
    }

    /// Sets the path of the request's file, which may be unknown once it has ended.
    pub fn set_path(&self, path: String) {
        if let Some(span) = self.span() {
            span.path.replace(Some(path));
        }
    }

    #[inline(always)]
    fn span(&self) -> Option<&'static Span> {
        if cfg!(feature = "on") { self.0.get() } else { None }
    }
}

impl Drop for Request {
    #[inline]
    fn drop(&mut self) {
        // An answered request ends with its frame.
        if let Some(span) = self.span() {
            end_unanswered(span, CANCELLED);
        }
    }
}

impl Answered {
    /// Enters a phase for a frame, while its requests wait.
    #[inline(always)]
    pub fn enter(&self, phase: Phase) {
        // A frame may contain no response.
        let Some(last) = self.last() else { return };
        match last.time.state.get().quick() {
            Some(before) => last.wait(before, phase),
            None => enter_all(last, phase),
        }
    }

    /// Makes the requests end with the next wait for events, whose call sends their frame.
    #[inline]
    pub fn end_with_waiting(self) {
        if let Some(last) = self.last() {
            std::mem::forget(self);
            // Joins two rings to one.
            if let Some(others) = last.inner.ending.replace(Some(last)) {
                last.next.swap(&others.next);
            }
        }
    }

    /// Moves ticks of the requests' current phase to another one.
    pub fn spent(&self, phase: Phase, spent: Spent) {
        let Some(last) = self.last() else { return };
        let inner = last.inner;
        let before = inner.moment();
        let now = inner.count_until_now();
        each(last, |span| {
            let waited = match inner.serves(&span.time) {
                true => now.saturating_sub(before),
                false => inner.wait_until(span, now),
            };
            let ticks = spent.0.min(waited);
            span.waited(span.time.waits.get(), ticks.wrapping_neg());
            span.waited(phase, ticks);
        });
    }

    /// Returns MessageId and reason of each request that was refused, for tests.
    #[cfg(feature = "recorder")]
    #[must_use]
    pub fn refused(&self) -> Vec<(u64, Reason)> {
        let mut refused = Vec::new();
        if let Some(last) = self.last() {
            each(last, |span| refused.push((span.mid.get(), span.reason.get())));
        }
        refused.retain(|(_, reason)| *reason != Reason::NotRefused);
        refused
    }

    #[inline(always)]
    pub(super) fn last(&self) -> Option<&'static Span> {
        if cfg!(feature = "on") { self.last } else { None }
    }
}

impl Drop for Answered {
    #[inline]
    fn drop(&mut self) {
        if let Some(last) = self.last() {
            end_all(last);
        }
    }
}

/// Ends a request without a response.
#[inline(never)]
fn end_unanswered(span: &'static Span, status: u32) {
    let inner = span.inner;
    span.status.set(status);
    inner.end_span(span, inner.count_until_now());
}

/// Ends the requests of a frame.
#[inline(never)]
fn end_all(last: &'static Span) {
    match last.time.state.get().quick() {
        Some(before) if last.is_alone() => {
            last.inner.end_served(last, before, Phase::ALL[before]);
        }
        _ => end_slowly(last),
    }
}

#[inline(never)]
fn end_slowly(last: &'static Span) {
    let inner = last.inner;
    let now = inner.count_until_now();
    each(last, |span| inner.end_span(span, now));
}

/// Enters a phase for a frame on the slow path, while its requests wait.
#[cold]
#[inline(never)]
fn enter_all(last: &'static Span, phase: Phase) {
    let (inner, time) = (last.inner, &last.time);
    if last.is_alone() && inner.serves(time) {
        time.waits.set(phase);
        inner.switch(phase);
        return;
    }
    let now = inner.switch(phase);
    inner.hand_over(inner.nobody, now);
    each(last, |span| {
        inner.wait_until(span, now);
        span.time.waits.set(phase);
    });
}

/// Calls `act` for all of a ring, given its last.
#[inline(always)]
pub(super) fn each(last: &'static Span, mut act: impl FnMut(&'static Span)) {
    let mut next = last.next.get();
    while let Some(span) = next {
        // Before `act`, which may free the span for another request.
        next = span.next.get().filter(|_| !std::ptr::eq(span, last));
        act(span);
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.span().map(|span| span.number.get());
        f.debug_struct("Request").field("number", &number).finish_non_exhaustive()
    }
}

impl fmt::Debug for Answered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answered").field("is_empty", &self.last.is_none()).finish()
    }
}
