//! Where the time of a worker and of its requests goes.
//!
//! Whoever works says what it does ([`Tracer::enter`], [`Request::wait`]…); only this file knows what
//! time it is. A look at the clock ends one phase and begins the next, for the worker and for the
//! request that it serves, so nothing is counted twice and nothing is left out.
//!
//! All of this is on the way of every request, so it is made of loads, additions and stores: one
//! thread writes, every cell has one owner, a request's cells stay where they are, and what a request
//! has gathered is counted once, when it ends.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::path::Path;
#[cfg(feature = "recorder")]
use std::rc::Rc;
use std::sync::atomic::Ordering;

use crate::clock::{self, Look};
use crate::names::{Kind as _, Operation, Phase, StoreOperation};
use crate::page::{Layout, Page};
use crate::party::{PartyId, Use};
use crate::slow::{Slow, SlowRequest};

/// Requests in flight that are traced. Credits allow a client half of it; further ones are served
/// like any others, and counted as untraced.
pub const REQUESTS_MAX: usize = 16_384;

/// Requests for whose times memory is taken at once.
const SPANS_AT_ONCE: usize = 32;

/// STATUS_CANCELLED: of a request that came to an end without a response.
const CANCELLED: u32 = 0xC000_0120;

/// Keeps the time of one worker. Every handle is the same one; the default one keeps nothing.
///
/// A worker has one for as long as it lives, so what it is made of is never given back.
#[derive(Clone, Copy, Default)]
pub struct Tracer(Option<&'static Inner>);

pub(crate) struct Inner {
    layout: &'static Layout,
    /// The time of the request that is served; without one, that of nobody.
    current: Cell<&'static Span>,
    nobody: &'static Span,
    free: Cell<Option<&'static Span>>,
    spans: Cell<usize>,
    /// Counts requests: so they are told apart in probes.
    requests: Cell<u64>,
    came: Cell<Came>,
    /// Bytes read and written for the request that is resumed next.
    read_bytes: Cell<u64>,
    written_bytes: Cell<u64>,
    /// Nanoseconds from which on a request is slow; nothing is if it is zero.
    slow_ns: Cell<u64>,
    slow: RefCell<Slow>,
    /// Until the processor's clock is known.
    first_look: Cell<Option<Look>>,
    #[cfg(feature = "recorder")]
    recorder: crate::recorder::Recorder,
    /// Set in tests: nanoseconds.
    #[cfg(feature = "recorder")]
    time: Option<Rc<Cell<u64>>>,
    #[cfg(feature = "recorder")]
    records: bool,
}

/// When the first byte of a frame came, and when the last.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Came {
    began: u64,
    whole: u64,
}

/// A moment, to be kept until it is needed.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Moment(u64);

/// The time of one request.
struct Span {
    mid: Cell<u64>,
    /// Of the request that has it now; another one each time.
    number: Cell<u64>,
    /// None until it is known which request it is.
    operation: Cell<Option<Operation>>,
    status: Cell<u32>,
    is_answered: Cell<bool>,
    /// What it goes through while it is not served.
    waits: Cell<Phase>,
    came: Cell<u64>,
    /// Up to when its time is in `phases`, while it is not served.
    since: Cell<u64>,
    subject: Cell<Subject>,
    read_bytes: Cell<u64>,
    written_bytes: Cell<u64>,
    /// The next one that was answered in the same frame, or that is free.
    next: Cell<Option<&'static Self>>,
    /// A bit for each of `phases` that may have something.
    touched: Cell<u32>,
    phases: [Cell<u64>; Phase::NAMES.len()],
    path: RefCell<Option<String>>,
}

/// A request, from its frame to its response. Dropped without one, it has come to an end.
#[derive(Default)]
pub struct Request {
    parts: Option<(&'static Inner, &'static Span)>,
    number: u64,
}

/// Whom and what a request is about.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Subject {
    /// Where its user is counted.
    pub user: PartyId,
    /// Where its share is counted.
    pub share: PartyId,
    /// The open that it named or made.
    pub open: Option<u64>,
}

/// Requests that were answered in one frame. Dropped, they have ended: the frame was taken by the
/// socket, or never will be.
#[derive(Default)]
pub struct Answered {
    tracer: Tracer,
    first: Option<&'static Span>,
    last: Option<&'static Span>,
}

/// Something that the file system was asked for.
#[derive(Clone, Copy, Debug)]
pub struct StoreWork {
    operation: StoreOperation,
    since: u64,
}

/// A visit to a table; it ends when this is dropped.
#[derive(Debug)]
#[must_use = "the visit ends when this is dropped"]
pub struct TableVisit {
    tracer: Tracer,
    before: Phase,
    since: u64,
}

impl Tracer {
    /// A tracer with a page in `lock_dir`, which others may look at.
    ///
    /// # Errors
    /// What the file system says.
    pub fn create(lock_dir: &Path, pid: u32, unique_id: u64) -> std::io::Result<Self> {
        Ok(Self::over(Page::create(lock_dir, pid, unique_id)?, |_| {}))
    }

    /// A tracer whose page nobody else sees.
    ///
    /// # Errors
    /// There is no memory.
    pub fn private() -> std::io::Result<Self> {
        Ok(Self::over(Page::private()?, |_| {}))
    }

    fn over(page: Page, change: impl FnOnce(&mut Inner)) -> Self {
        let nobody: &'static Span = Box::leak(Box::new(Span::new()));
        let mut inner = Inner {
            layout: page.keep(),
            current: Cell::new(nobody),
            nobody,
            free: Cell::new(None),
            spans: Cell::new(0),
            requests: Cell::new(0),
            came: Cell::default(),
            read_bytes: Cell::new(0),
            written_bytes: Cell::new(0),
            slow_ns: Cell::new(0),
            slow: RefCell::default(),
            first_look: Cell::new(clock::look()),
            #[cfg(feature = "recorder")]
            recorder: crate::recorder::Recorder::default(),
            #[cfg(feature = "recorder")]
            time: None,
            #[cfg(feature = "recorder")]
            records: false,
        };
        change(&mut inner);
        inner.begin();
        Self(Some(Box::leak(Box::new(inner))))
    }

    /// A tracer for a test: its time is what `time` says, in nanoseconds, and it keeps every event.
    ///
    /// # Panics
    /// There is no memory.
    #[cfg(feature = "recorder")]
    #[must_use]
    pub fn in_test(time: Rc<Cell<u64>>) -> Self {
        let page = Page::private().expect("there is memory");
        Self::over(page, |inner| {
            inner.first_look.set(None);
            inner.time = Some(time);
            inner.records = true;
        })
    }

    /// The events so far, of a tracer that is for a test.
    #[cfg(feature = "recorder")]
    #[must_use]
    pub fn recorded(&self) -> Vec<crate::recorder::Recorded> {
        self.inner().map(|inner| inner.recorder.events()).unwrap_or_default()
    }

    /// What was counted so far.
    #[must_use]
    pub fn figures(&self) -> crate::Figures {
        self.inner()
            .map(|inner| crate::Figures::of(inner.layout(), || inner.now()))
            .unwrap_or_default()
    }

    #[inline]
    fn inner(self) -> Option<&'static Inner> {
        if cfg!(feature = "on") { self.0 } else { None }
    }

    /// Whether anything is kept.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.inner().is_some()
    }

    /// From now on the worker does this.
    #[inline]
    pub fn enter(&self, phase: Phase) {
        if let Some(inner) = self.inner()
            && inner.phase_number() != phase.number()
        {
            inner.switch(phase);
        }
    }

    /// Waiting for events is over, for so many of them. Mostly they are bytes of clients; whoever
    /// takes something else enters another phase.
    pub fn woke(&self, completions: usize) {
        let Some(inner) = self.inner() else { return };
        if let Some(first) = inner.first_look.get()
            && inner.layout().clock.calibrate(first)
        {
            inner.first_look.set(None);
        }
        inner.switch(Phase::Receiving);
        inner.woke(u64::try_from(completions).unwrap_or(u64::MAX));
    }

    /// Now, as of the last change of phase.
    #[inline]
    #[must_use]
    pub fn moment(&self) -> Moment {
        Moment(self.inner().map_or(0, |inner| inner.layout().since.load(Ordering::Relaxed)))
    }

    /// A whole frame is here, and is handed to the engine next. `began` is when its first byte was
    /// here, if that was earlier than what was received last.
    pub fn frame_came(&self, connection: u32, bytes: usize, began: Option<Moment>, whole: Moment) {
        let Some(inner) = self.inner() else { return };
        inner.frame_received(connection.into(), u64::try_from(bytes).unwrap_or(u64::MAX));
        let began = began.unwrap_or(whole).0;
        inner.came.set(Came { began, whole: whole.0 });
    }

    /// When the frame came that the engine takes now.
    #[inline]
    #[must_use]
    pub fn take_came(&self) -> Came {
        self.inner().map(|inner| inner.came.take()).unwrap_or_default()
    }

    /// Begins with a request of a frame, which is served from now on, first by this.
    #[must_use]
    pub fn begin(&self, came: Came, phase: Phase) -> Request {
        let Some(inner) = self.inner() else { return Request::default() };
        let now = inner.switch(phase);
        // The one before it in its compound was answered, and waits for this one.
        inner.leave(Phase::Queued, now);
        let Some(span) = inner.begin_span(came, now) else { return Request::default() };
        inner.current.set(span);
        Request { parts: Some((inner, span)), number: span.number.get() }
    }

    /// A frame is to be sent.
    #[inline]
    pub fn sends(&self, connection: u32, bytes: usize) {
        if let Some(inner) = self.inner() {
            inner.frame_sent(connection.into(), u64::try_from(bytes).unwrap_or(u64::MAX));
        }
    }

    /// The file system is asked for something.
    #[must_use]
    pub fn store_begins(&self, operation: StoreOperation) -> StoreWork {
        let mut since = 0;
        if let Some(inner) = self.inner() {
            self.enter(Phase::Storage);
            since = inner.layout().since.load(Ordering::Relaxed);
            inner.read_bytes.set(0);
            inner.written_bytes.set(0);
            inner.store_start(operation.number());
        }
        StoreWork { operation, since }
    }

    /// The file system has answered: so many bytes of data, or an error.
    /// The request that is resumed next is the one that wanted it.
    pub fn store_ends(&self, work: StoreWork, bytes: u64, status: u32) {
        let Some(inner) = self.inner() else { return };
        let now = inner.switch(Phase::Running);
        let operation = work.operation.number();
        inner.store_end(operation, bytes, status.into(), now.saturating_sub(work.since));
        if bytes != 0 {
            inner.store_data(operation, bytes);
            match work.operation {
                StoreOperation::Read => inner.read_bytes.set(bytes),
                _ => inner.written_bytes.set(bytes),
            }
        }
    }

    /// A table that all processes share is read or changed until what this returns is dropped.
    pub fn visit_table(&self) -> TableVisit {
        let Some(inner) = self.inner() else {
            return TableVisit { tracer: Self::default(), before: Phase::Other, since: 0 };
        };
        let before = Phase::from_number(inner.phase_number());
        TableVisit { tracer: *self, before, since: inner.switch(Phase::Table) }
    }

    /// A message goes to another process.
    pub fn message_sent(&self, kind: u16, bytes: usize) {
        if let Some(inner) = self.inner() {
            inner.message_sent(kind.into(), u64::try_from(bytes).unwrap_or(u64::MAX));
        }
    }

    /// A message of another process came.
    pub fn message_received(&self, kind: u16, bytes: usize) {
        if let Some(inner) = self.inner() {
            inner.message_received(kind.into(), u64::try_from(bytes).unwrap_or(u64::MAX));
        }
    }

    /// Which requests are slow: those that take so many nanoseconds; none if it is zero.
    pub fn set_slow_threshold(&self, ns: u64) {
        if let Some(inner) = self.inner() {
            inner.slow_ns.set(ns);
        }
    }

    /// The slow requests that have ended since the last call, and how many more there were.
    #[must_use]
    pub fn take_slow(&self) -> (Vec<SlowRequest>, u64) {
        match self.inner() {
            Some(inner) if inner.slow_ns.get() != 0 => inner.slow.take().into_parts(),
            _ => Default::default(),
        }
    }

    /// Where a share is counted.
    #[must_use]
    pub fn share(&self, name: &str) -> PartyId {
        self.inner().map(|inner| inner.layout().shares.find(name)).unwrap_or_default()
    }

    /// Where a user is counted.
    #[must_use]
    pub fn user(&self, name: &str) -> PartyId {
        self.inner().map(|inner| inner.layout().users.find(name)).unwrap_or_default()
    }
}

impl Request {
    /// Says which request it is.
    pub fn identify(&self, mid: u64, command: u16) {
        let Some((inner, span)) = self.parts() else { return };
        let operation = Operation::from_number(command.into());
        span.mid.set(mid);
        span.operation.set(Some(operation));
        let before = span.since.get().saturating_sub(span.came.get());
        inner.request_start(mid, operation.number(), span.number.get(), before);
    }

    /// It is served from now on by this.
    #[inline]
    pub fn enter(&self, phase: Phase) {
        if let Some((inner, _)) = self.parts()
            && inner.phase_number() != phase.number()
        {
            inner.switch(phase);
        }
    }

    /// It waits from now on; the worker goes on with what it waits for, or with something else.
    pub fn wait(&self, phase: Phase) {
        let Some((inner, span)) = self.parts() else { return };
        let worker = match phase {
            Phase::Break | Phase::Event | Phase::Held => Phase::Other,
            Phase::Peer => Phase::Messages,
            other => other,
        };
        let now = inner.switch(worker);
        if inner.serves(span) {
            inner.leave(phase, now);
        } else {
            // One that was held, for example, waits for something else now.
            span.wait_until(now);
            span.waits.set(phase);
        }
    }

    /// It is served again.
    pub fn resume(&self) {
        let Some((inner, span)) = self.parts() else { return };
        // Whoever answered it may have looked at the clock just now.
        let is_known = inner.phase_number() == Phase::Running.number();
        let now = if is_known && inner.serves(inner.nobody) {
            inner.layout().since.load(Ordering::Relaxed)
        } else {
            inner.switch(Phase::Running)
        };
        add(&span.read_bytes, inner.read_bytes.take());
        add(&span.written_bytes, inner.written_bytes.take());
        if !inner.serves(span) {
            span.wait_until(now);
            inner.leave(Phase::Queued, now);
            inner.current.set(span);
        }
    }

    /// Its response is laid out.
    pub fn answer(&self, status: u32, subject: Subject, answered: &mut Answered) {
        let Some((inner, span)) = self.parts() else { return };
        span.status.set(status);
        span.is_answered.set(true);
        span.subject.set(subject);
        span.next.set(None);
        match answered.last.replace(span) {
            Some(last) => last.next.set(Some(span)),
            None => {
                answered.first = Some(span);
                answered.tracer = Tracer(Some(inner));
            }
        }
    }

    /// It has no response, and is not cancelled for that.
    pub fn ends_without_response(&self) {
        if let Some((_, span)) = self.parts() {
            span.status.set(0);
        }
    }

    /// Whether it is of use to say what it is about: if slow requests are told of.
    #[inline]
    #[must_use]
    pub fn wants_path(&self) -> bool {
        self.parts().is_some_and(|(inner, _)| inner.slow_ns.get() != 0)
    }

    /// The path of what it is about, which may not be found out any more when it has ended.
    pub fn set_path(&self, path: String) {
        if let Some((_, span)) = self.parts() {
            span.path.replace(Some(path));
        }
    }

    #[inline]
    fn parts(&self) -> Option<(&'static Inner, &'static Span)> {
        if cfg!(feature = "on") { self.parts } else { None }
    }
}

impl Drop for Request {
    #[inline]
    fn drop(&mut self) {
        let Some((inner, span)) = self.parts() else { return };
        // One that was answered ends with its frame, and its place may be another's by now.
        if span.number.get() == self.number && !span.is_answered.get() {
            inner.end_span(span, inner.now());
        }
    }
}

impl Answered {
    /// The worker does this for their frame from now on, and they wait for it.
    pub fn enter(&self, phase: Phase) {
        let Some(inner) = self.tracer.inner() else { return };
        let now = inner.switch(phase);
        let mut next = self.first;
        while let Some(span) = next {
            if inner.serves(span) {
                inner.leave(phase, now);
            } else {
                span.wait_until(now);
                span.waits.set(phase);
            }
            next = span.next.get();
        }
    }
}

impl Drop for Answered {
    fn drop(&mut self) {
        let Some(inner) = self.tracer.inner() else { return };
        let now = inner.now();
        let mut next = self.first;
        while let Some(span) = next {
            next = span.next.get();
            inner.end_span(span, now);
        }
    }
}

impl Drop for TableVisit {
    fn drop(&mut self) {
        let Some(inner) = self.tracer.inner() else { return };
        let now = inner.switch(self.before);
        inner.table_end(now.saturating_sub(self.since));
    }
}

impl Inner {
    #[inline]
    pub(crate) fn layout(&self) -> &'static Layout {
        self.layout
    }

    fn now(&self) -> u64 {
        self.quick_now().unwrap_or_else(|| self.slow_now())
    }

    /// What time it is, if that takes no more than an instruction.
    #[inline]
    fn quick_now(&self) -> Option<u64> {
        #[cfg(feature = "recorder")]
        if let Some(time) = &self.time {
            return Some(time.get());
        }
        self.layout.clock.quick_now()
    }

    #[cold]
    fn slow_now(&self) -> u64 {
        self.layout.clock.now()
    }

    /// The number of what the worker does.
    #[inline]
    fn phase_number(&self) -> u64 {
        self.layout.phase.load(Ordering::Relaxed)
    }

    fn begin(&self) {
        let now = self.now();
        self.layout.began.store(now, Ordering::Relaxed);
        self.layout.since.store(now, Ordering::Relaxed);
        self.layout.phase.store(Phase::Other.number(), Ordering::Relaxed);
    }

    #[cfg(feature = "recorder")]
    pub(crate) fn record(&self, name: &'static str, arguments: &[u64]) {
        if self.records {
            self.recorder.record(name, arguments);
        }
    }

    /// Ends a phase of the worker, and of the request that it serves.
    fn switch(&self, next: Phase) -> u64 {
        match self.quick_now() {
            Some(now) => self.switch_at(next, now),
            // Apart, so that the other way needs no room for a call.
            None => self.switch_slowly(next),
        }
    }

    #[cold]
    #[inline(never)]
    fn switch_slowly(&self, next: Phase) -> u64 {
        self.switch_at(next, self.slow_now())
    }

    #[inline(always)]
    fn switch_at(&self, next: Phase, now: u64) -> u64 {
        let layout = self.layout;
        let before = self.phase_number();
        let since = layout.since.load(Ordering::Relaxed);
        // Two looks at the clock may be in the wrong order only if the clock is.
        let now = now.max(since);
        layout.since.store(now, Ordering::Relaxed);
        layout.phase.store(next.number(), Ordering::Relaxed);
        self.phase(before, next.number(), now - since);
        self.current.get().spend(before, now - since);
        now
    }

    #[inline]
    fn serves(&self, span: &Span) -> bool {
        std::ptr::eq(self.current.get(), span)
    }

    /// The request that was served, if any, waits from now on.
    #[inline]
    fn leave(&self, phase: Phase, now: u64) {
        let span = self.current.replace(self.nobody);
        span.waits.set(phase);
        span.since.set(now);
    }

    /// A place for the time of one more request.
    #[cold]
    fn grow(&self) -> Option<&'static Span> {
        if self.spans.get() >= REQUESTS_MAX {
            crate::series::add(&self.layout.untraced, 1);
            return None;
        }
        self.spans.set(self.spans.get() + SPANS_AT_ONCE);
        for _ in 1..SPANS_AT_ONCE {
            self.release(Box::leak(Box::new(Span::new())));
        }
        Some(Box::leak(Box::new(Span::new())))
    }

    #[inline]
    fn release(&self, span: &'static Span) {
        span.next.set(self.free.replace(Some(span)));
    }

    #[inline]
    fn begin_span(&self, came: Came, now: u64) -> Option<&'static Span> {
        let span = match self.free.get() {
            Some(span) => {
                self.free.set(span.next.get());
                span
            }
            None => self.grow()?,
        };
        let number = self.requests.get() + 1;
        self.requests.set(number);
        span.number.set(number);
        span.operation.set(None);
        span.status.set(CANCELLED);
        span.is_answered.set(false);
        span.since.set(now);
        span.came.set(now);
        span.subject.set(Subject::default());
        span.read_bytes.set(0);
        span.written_bytes.set(0);
        if came != Came::default() {
            let began = came.began.min(now);
            let whole = came.whole.clamp(began, now);
            span.came.set(began);
            span.spend(Phase::Receiving.number(), whole - began);
            span.spend(Phase::Queued.number(), now - whole);
        }
        Some(span)
    }

    /// Counts a request, and forgets it.
    fn end_span(&self, span: &'static Span, now: u64) {
        if self.serves(span) {
            self.current.set(self.nobody);
            let since = self.layout.since.load(Ordering::Relaxed);
            span.spend(self.phase_number(), now.saturating_sub(since));
        } else {
            span.wait_until(now);
        }
        match span.operation.get() {
            Some(operation) => self.count(span, operation, now.saturating_sub(span.came.get())),
            // Nothing came of it: the connection was ended before it was a request.
            None => span.take_phases(|_, _| {}),
        }
        self.release(span);
    }

    fn count(&self, span: &Span, operation: Operation, total: u64) {
        if self.slow_ns.get() != 0 {
            self.note_slow(span, operation, total);
        }
        let (number, status) = (span.number.get(), span.status.get());
        span.take_phases(|phase, ns| self.request_phase(number, phase, ns));
        // Errors have their two highest bits set: [MS-ERREF] 2.3.
        if status >= 0xC000_0000 {
            self.request_failed(operation.number(), status.into());
        }
        let subject = span.subject.get();
        let (read_bytes, written_bytes) = (span.read_bytes.get(), span.written_bytes.get());
        let used = Use { ns: total, read_bytes, written_bytes };
        self.layout.shares.add(subject.share, &used);
        self.layout.users.add(subject.user, &used);
        self.request_end(span.mid.get(), operation.number(), status.into(), number, total);
    }

    #[cold]
    fn note_slow(&self, span: &Span, operation: Operation, total: u64) {
        let path = span.path.take();
        let ns = total - span.phases[Phase::Event as usize].get();
        if ns < self.slow_ns.get() {
            return;
        }
        let phases = Phase::ALL.iter().map(|phase| (*phase, span.phases[*phase as usize].get()));
        let subject = span.subject.get();
        self.slow.borrow_mut().push(SlowRequest {
            mid: span.mid.get(),
            operation,
            status: span.status.get(),
            ns,
            phases: phases.filter(|(_, ns)| *ns != 0).collect(),
            user: self.layout.users.name(subject.user),
            share: self.layout.shares.name(subject.share),
            open: subject.open,
            path,
        });
    }
}

impl Span {
    fn new() -> Self {
        Self {
            mid: Cell::new(0),
            number: Cell::new(0),
            operation: Cell::new(None),
            status: Cell::new(CANCELLED),
            is_answered: Cell::new(false),
            waits: Cell::new(Phase::Queued),
            came: Cell::new(0),
            since: Cell::new(0),
            subject: Cell::default(),
            read_bytes: Cell::new(0),
            written_bytes: Cell::new(0),
            next: Cell::new(None),
            touched: Cell::new(0),
            phases: Default::default(),
            path: RefCell::default(),
        }
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "there are no more than 32 phases")]
    fn spend(&self, phase: u64, ns: u64) {
        let index = phase as usize % Phase::NAMES.len();
        add(&self.phases[index], ns);
        self.touched.set(self.touched.get() | 1 << index);
    }

    /// Gives each phase that has something, by its number, and has nothing any more.
    #[inline]
    fn take_phases(&self, mut each: impl FnMut(u64, u64)) {
        let mut touched = self.touched.take();
        while touched != 0 {
            let phase = touched.trailing_zeros();
            touched &= touched - 1;
            let ns = self.phases[phase as usize % Phase::NAMES.len()].take();
            if ns != 0 {
                each(phase.into(), ns);
            }
        }
    }

    /// It has waited until now.
    #[inline]
    fn wait_until(&self, now: u64) {
        self.spend(self.waits.get().number(), now.saturating_sub(self.since.get()));
        self.since.set(now);
    }
}

#[inline]
fn add(to: &Cell<u64>, value: u64) {
    to.set(to.get().wrapping_add(value));
}

impl fmt::Debug for Tracer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Tracer" } else { "Tracer(off)" })
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request").field("number", &self.number).finish_non_exhaustive()
    }
}

impl fmt::Debug for Answered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answered").field("is_empty", &self.first.is_none()).finish()
    }
}

#[cfg(all(test, feature = "recorder"))]
mod tests;
