//! Where the time of a worker and of its requests goes.
//!
//! Whoever works says what it does ([`Tracer::enter`], [`Request::wait`]…); only this file knows what
//! time it is. A look at the clock ends one phase and begins the next, for the worker and for the
//! request that it serves, so nothing is counted twice and nothing is left out.
//!
//! What is called from many places is never a part of its callers: they would not be parts of theirs
//! then, which costs more than the call.
//!
//! All of this is on the way of every request, so it is made of loads, additions and stores: one
//! thread writes, every cell has one owner, a request's cells stay where they are. Times are ticks of
//! the processor's counter; nobody multiplies before there is something to tell. The time of a phase
//! is added once, to what workers do without a request, or with one; what both of them are in all is
//! for readers to find out.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::path::Path;
#[cfg(feature = "recorder")]
use std::rc::Rc;
use std::sync::atomic::Ordering;

use crate::clock::Clock;
use crate::names::{Kind as _, Operation, Phase, StoreOperation};
use crate::page::{Layout, Page, PhaseTicks};
use crate::party::PartyId;
use crate::schema;
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
    clock: Clock,
    /// What the worker does; the page has it for others.
    phase: Cell<Phase>,
    /// The time of the request that is served; without one, that of nobody.
    current: Cell<&'static Time>,
    nobody: &'static Time,
    free: Cell<Option<&'static Span>>,
    /// The last of a ring of requests that end when the worker waits for events.
    ending: Cell<Option<&'static Span>>,
    spans: Cell<usize>,
    /// Counts requests: so they are told apart in probes.
    requests: Cell<u64>,
    came: Cell<Came>,
    /// Bytes read or written for the request that is resumed next.
    bytes: Cell<u64>,
    /// Nanoseconds from which on a request is slow; nothing is if it is zero.
    slow_ns: Cell<u64>,
    slow: RefCell<Slow>,
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
    /// How much of it a lane opened what had come.
    opened: u64,
}

/// A moment, to be kept until it is needed.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Moment(u64);

/// How long something took that another thread did.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Spent(u64);

/// Takes the time of what another thread does.
#[derive(Clone, Copy, Debug, Default)]
pub struct Watch(Option<Clock>);

/// Where the time of a request goes, or that of nobody.
struct Time {
    /// Where it is counted while it is served.
    served: &'static PhaseTicks,
    /// In each phase.
    phases: [Cell<u64>; Phase::NAMES.len()],
    /// Up to when it is in `phases`, while the request is not served.
    since: Cell<u64>,
    /// What the request goes through while it is not served. It may be served all the same, for as
    /// long as the worker does nothing else: then nothing has to be counted twice.
    waits: Cell<Phase>,
}

/// One request.
struct Span {
    inner: &'static Inner,
    time: Time,
    mid: Cell<u64>,
    /// Of the request that has it now; another one each time.
    number: Cell<u64>,
    /// None until it is known which request it is.
    operation: Cell<Option<Operation>>,
    status: Cell<u32>,
    came: Cell<u64>,
    subject: Cell<Subject>,
    bytes: Cell<u64>,
    /// The next one that was answered in the same frame, in a ring, or that is free.
    next: Cell<Option<&'static Self>>,
    path: RefCell<Option<String>>,
}

/// A request, from its frame to its response. Dropped without one, it has come to an end.
#[derive(Default)]
pub struct Request(Cell<Option<&'static Span>>);

/// Whom and what a request is about.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Subject {
    /// Where its share and user are counted.
    pub party: PartyId,
    /// The open that it named or made.
    pub open: Option<u64>,
}

/// Requests that were answered in one frame. Dropped, they have ended: the frame was taken by the
/// socket, or never will be.
#[derive(Default)]
pub struct Answered {
    /// The last of a ring: behind it comes the first.
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
    pub fn create(
        lock_dir: &Path,
        pid: u32,
        unique_id: u64,
        clock: Clock,
    ) -> std::io::Result<Self> {
        Ok(Self::over(Page::create(lock_dir, pid, unique_id)?, clock, |_| {}))
    }

    /// A tracer whose page nobody else sees.
    ///
    /// # Errors
    /// There is no memory.
    pub fn private(clock: Clock) -> std::io::Result<Self> {
        Ok(Self::over(Page::private()?, clock, |_| {}))
    }

    fn over(page: Page, clock: Clock, change: impl FnOnce(&mut Inner)) -> Self {
        let layout = page.keep();
        let nobody: &'static Time = Box::leak(Box::new(Time::new(&layout.idle)));
        let mut inner = Inner {
            layout,
            clock,
            phase: Cell::new(Phase::Other),
            current: Cell::new(nobody),
            nobody,
            free: Cell::new(None),
            ending: Cell::new(None),
            spans: Cell::new(0),
            requests: Cell::new(0),
            came: Cell::default(),
            bytes: Cell::new(0),
            slow_ns: Cell::new(0),
            slow: RefCell::default(),
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
        Self::over(page, Clock::of_kernel(), |inner| {
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

    /// From now on the worker does this, and serves no request, unless it does so already.
    #[inline]
    pub fn enter(&self, phase: Phase) {
        if let Some(inner) = self.inner()
            && inner.phase.get() != phase
        {
            inner.turn_to(phase);
        }
    }

    /// From now on the worker waits for events. Requests that end with that have ended.
    #[inline(never)]
    pub fn wait_for_events(&self) {
        let Some(inner) = self.inner() else { return };
        let now = inner.switch_here(Phase::Waiting);
        if let Some(last) = inner.ending.take() {
            each(last, |span| inner.end_span(span, now));
        }
        inner.leave(now);
    }

    /// Waiting for events is over, for so many of them. Mostly they are bytes of clients; whoever
    /// takes something else enters another phase.
    #[inline(never)]
    pub fn woke(&self, completions: usize) {
        let Some(inner) = self.inner() else { return };
        inner.switch_here(Phase::Receiving);
        inner.woke(u64::try_from(completions).unwrap_or(u64::MAX));
    }

    /// Now, as of the last change of phase.
    #[inline]
    #[must_use]
    pub fn moment(&self) -> Moment {
        Moment(self.inner().map_or(0, |inner| inner.layout().since.load(Ordering::Relaxed)))
    }

    /// A whole frame is here, and is handed to the engine next. `began` is when its first byte was
    /// here, if that was earlier than what was received last; `opened` is how long a lane has opened
    /// it.
    #[inline(never)]
    pub fn frame_came(
        &self,
        connection: u32,
        bytes: usize,
        (began, whole): (Option<Moment>, Moment),
        opened: Spent,
    ) {
        let Some(inner) = self.inner() else { return };
        inner.frame_received(connection.into(), u64::try_from(bytes).unwrap_or(u64::MAX));
        let began = began.unwrap_or(whole).0;
        inner.came.set(Came { began, whole: whole.0, opened: opened.0 });
    }

    /// Takes the time of what lanes do.
    #[must_use]
    pub fn watch(&self) -> Watch {
        Watch(self.inner().map(|inner| inner.clock))
    }

    /// A lane has done with a frame what would be this phase of the worker.
    pub fn lane_worked(&self, phase: Phase, spent: Spent) {
        if let Some(inner) = self.inner() {
            inner.lane_end(phase.number(), spent.0);
        }
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
        let now = inner.switch_here(phase);
        // If the one before it was answered in the same compound, it waits for this one.
        inner.leave(now);
        let Some(span) = inner.begin_span(came, now) else { return Request::default() };
        inner.current.set(&span.time);
        Request(Cell::new(Some(span)))
    }

    /// A frame is to be sent.
    #[inline]
    pub fn sends(&self, connection: u32, bytes: usize) {
        if let Some(inner) = self.inner() {
            inner.frame_sent(connection.into(), u64::try_from(bytes).unwrap_or(u64::MAX));
        }
    }

    /// The file system is asked for something, for a request that waits for it or for none.
    #[must_use]
    #[inline(never)]
    pub fn store_begins(&self, operation: StoreOperation, is_waited_for: bool) -> StoreWork {
        let Some(inner) = self.inner() else { return StoreWork { operation, since: 0 } };
        // Whoever waits for the file system, but not for this, is not served by it.
        if inner.phase.get() != Phase::Storage || !is_waited_for {
            inner.turn_to(Phase::Storage);
        }
        inner.store_start(operation.number());
        StoreWork { operation, since: inner.layout().since.load(Ordering::Relaxed) }
    }

    /// The file system has answered: so many bytes of data, or an error.
    /// The request that is resumed next is the one that wanted it.
    #[inline(never)]
    pub fn store_ends(&self, work: StoreWork, bytes: u64, status: u32) {
        let Some(inner) = self.inner() else { return };
        let now = inner.switch_here(Phase::Running);
        let operation = work.operation.number();
        inner.store_end(operation, bytes, status.into(), now.saturating_sub(work.since));
        inner.bytes.set(bytes);
        if bytes != 0 {
            inner.store_data(operation, bytes);
        }
    }

    /// A table that all processes share is read or changed until what this returns is dropped.
    #[inline(never)]
    pub fn visit_table(&self) -> TableVisit {
        let Some(inner) = self.inner() else {
            return TableVisit { tracer: Self::default(), before: Phase::Other, since: 0 };
        };
        let before = inner.phase.get();
        let since = inner.switch(Phase::Table);
        if inner.current.get().is_waiting() {
            inner.leave(since);
        }
        TableVisit { tracer: *self, before, since }
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

    /// Where a user is counted in a share; outside of any, if that has no name.
    #[must_use]
    pub fn party(&self, share: &str, user: &str) -> PartyId {
        self.inner().map(|inner| inner.layout().parties.find(share, user)).unwrap_or_default()
    }
}

impl Watch {
    /// Does something, and says how long that took.
    pub fn time<T>(self, work: impl FnOnce() -> T) -> (T, Spent) {
        let now = || self.0.map_or(0, Clock::now);
        let began = now();
        let done = work();
        (done, Spent(now().saturating_sub(began)))
    }
}

impl Request {
    /// Says which request it is.
    #[inline(never)]
    pub fn identify(&self, mid: u64, command: u16) {
        let Some(span) = self.span() else { return };
        let operation = Operation::from_number(command.into());
        span.mid.set(mid);
        span.operation.set(Some(operation));
        let before = span.time.since.get().saturating_sub(span.came.get());
        span.inner.request_start(mid, operation.number(), span.number.get(), before);
    }

    /// It is served from now on by this.
    #[inline]
    pub fn enter(&self, phase: Phase) {
        if let Some(span) = self.span() {
            span.inner.switch(phase);
        }
    }

    /// It waits from now on; the worker goes on with what it waits for, or with something else.
    #[inline(never)]
    pub fn wait(&self, phase: Phase) {
        let Some(span) = self.span() else { return };
        let (inner, time) = (span.inner, &span.time);
        if phase == Phase::Storage && inner.serves(time) {
            // Most likely the worker does what it waits for next.
            time.waits.set(phase);
            inner.switch(phase);
        } else {
            inner.wait_for_others(time, phase);
        }
    }

    /// It is served again.
    #[inline(never)]
    pub fn resume(&self) {
        let Some(span) = self.span() else { return };
        let (inner, time) = (span.inner, &span.time);
        add(&span.bytes, inner.bytes.take());
        let current = inner.current.get();
        // Whoever answered it may have looked at the clock just now, for nobody or for this.
        let is_known = inner.phase.get() == Phase::Running && current.is_waiting();
        if is_known && std::ptr::eq(current, time) {
            time.waits.set(Phase::Queued);
        } else {
            inner.resume_beside(time, is_known);
        }
    }

    /// Its response is laid out; from now on it goes with its frame.
    #[inline(never)]
    pub fn answer(&self, status: u32, subject: Subject, answered: &mut Answered) {
        let Some(span) = self.0.take().filter(|_| cfg!(feature = "on")) else { return };
        span.status.set(status);
        span.subject.set(subject);
        let first = match answered.last.replace(span) {
            Some(last) => last.next.replace(Some(span)),
            None => Some(span),
        };
        span.next.set(first);
    }

    /// It has no response, and is not cancelled for that.
    pub fn ends_without_response(&self) {
        if let Some(span) = self.span() {
            span.status.set(0);
        }
    }

    /// Whether it is of use to say what it is about: if slow requests are told of.
    #[inline]
    #[must_use]
    pub fn wants_path(&self) -> bool {
        self.span().is_some_and(|span| span.inner.slow_ns.get() != 0)
    }

    /// The path of what it is about, which may not be found out any more when it has ended.
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
        // One that was answered ends with its frame.
        if let Some(span) = self.span() {
            end_unanswered(span);
        }
    }
}

impl Answered {
    /// The worker does this for their frame from now on, and they wait for it.
    #[inline]
    pub fn enter(&self, phase: Phase) {
        // A frame may answer no request.
        if let Some(last) = self.last() {
            enter_all(last, phase);
        }
    }

    /// They end when the worker waits for events, whose call sends their frame.
    #[inline]
    pub fn end_with_waiting(self) {
        if let Some(last) = self.last() {
            std::mem::forget(self);
            // One ring of two.
            if let Some(others) = last.inner.ending.replace(Some(last)) {
                last.next.swap(&others.next);
            }
        }
    }

    /// Of the time that they waited, so much was spent on something else than what they wait for.
    pub fn spent(&self, phase: Phase, spent: Spent) {
        let Some(last) = self.last() else { return };
        let inner = last.inner;
        let now = inner.look();
        each(last, |span| {
            let time = &span.time;
            if !inner.serves(time) {
                inner.wait_until(time, now);
            }
            let waits = time.waits.get();
            let ticks = spent.0.min(time.phases[waits as usize].get());
            inner.wait(time, waits, ticks.wrapping_neg());
            inner.wait(time, phase, ticks);
        });
    }

    #[inline(always)]
    fn last(&self) -> Option<&'static Span> {
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

/// A request has come to an end without a response.
#[inline(never)]
fn end_unanswered(span: &'static Span) {
    let inner = span.inner;
    span.subject.set(Subject::default());
    inner.end_span(span, inner.look());
}

/// The requests of a frame have ended.
#[inline(never)]
fn end_all(last: &'static Span) {
    let inner = last.inner;
    let now = inner.look();
    each(last, |span| inner.end_span(span, now));
}

/// The worker does something for the frame of these, and they wait for it.
#[inline(never)]
fn enter_all(last: &'static Span, phase: Phase) {
    let (inner, time) = (last.inner, &last.time);
    let is_alone = last.next.get().is_some_and(|first| std::ptr::eq(first, last));
    if is_alone && inner.serves(time) {
        time.waits.set(phase);
        inner.switch(phase);
    } else {
        enter_each(last, phase);
    }
}

#[cold]
#[inline(never)]
fn enter_each(last: &'static Span, phase: Phase) {
    let inner = last.inner;
    let now = inner.switch(phase);
    inner.leave(now);
    each(last, |span| {
        inner.wait_until(&span.time, now);
        span.time.waits.set(phase);
    });
}

/// All of a ring, of which this is the last.
#[inline(always)]
fn each(last: &'static Span, mut act: impl FnMut(&'static Span)) {
    let mut next = last.next.get();
    while let Some(span) = next {
        // Before it may be another's.
        next = span.next.get().filter(|_| !std::ptr::eq(span, last));
        act(span);
    }
}

impl Drop for TableVisit {
    #[inline(never)]
    fn drop(&mut self) {
        let Some(inner) = self.tracer.inner() else { return };
        let now = inner.switch(self.before);
        inner.table_end(now.saturating_sub(self.since));
    }
}

impl Inner {
    #[inline(always)]
    pub(crate) fn layout(&self) -> &'static Layout {
        self.layout
    }

    #[inline(always)]
    pub(crate) fn clock(&self) -> Clock {
        self.clock
    }

    /// What its counter says.
    #[inline(always)]
    fn now(&self) -> u64 {
        self.quick_now().unwrap_or_else(|| self.clock.now())
    }

    /// The same, if that takes no more than an instruction.
    #[inline(always)]
    fn quick_now(&self) -> Option<u64> {
        #[cfg(feature = "recorder")]
        if let Some(time) = &self.time {
            return Some(time.get());
        }
        self.clock.is_processor().then(|| self.clock.now())
    }

    fn begin(&self) {
        self.layout.begin(self.now(), self.clock);
    }

    /// Whether every event is kept.
    #[inline(always)]
    pub(crate) fn records(&self) -> bool {
        #[cfg(feature = "recorder")]
        return self.records;
        #[cfg(not(feature = "recorder"))]
        false
    }

    #[cfg(feature = "recorder")]
    pub(crate) fn record(&self, name: &'static str, arguments: &[u64]) {
        if self.records {
            self.recorder.record(name, arguments);
        }
    }

    /// Ends a phase of the worker, and of the request that it serves.
    ///
    /// Nothing is done after what is rarely called, so that the usual way needs no room for a call.
    #[inline(never)]
    fn switch(&self, next: Phase) -> u64 {
        match self.quick_now() {
            Some(now) => self.switch_at(next, now),
            None => self.switch_slowly(next),
        }
    }

    /// The same, as a part of whoever has to save its registers anyway.
    #[inline(always)]
    fn switch_here(&self, next: Phase) -> u64 {
        self.switch_at(next, self.now())
    }

    #[cold]
    #[inline(never)]
    fn switch_slowly(&self, next: Phase) -> u64 {
        self.switch_at(next, self.now())
    }

    #[inline(always)]
    fn switch_at(&self, next: Phase, now: u64) -> u64 {
        let layout = self.layout;
        let before = self.phase.replace(next);
        // Should the counter of another processor be a little behind, the next phase is shorter by
        // what this one is too long: sums wrap around, and stay right.
        let passed = now.wrapping_sub(layout.since.load(Ordering::Relaxed));
        // In this order: by it whoever reads sees whether all of it is done.
        layout.since.store(now, Ordering::Release);
        layout.phase.store(next.number(), Ordering::Release);
        let time = self.current.get();
        crate::series::add(&time.served[before as usize], passed);
        add(&time.phases[before as usize], passed);
        if schema::probes::phase::is_on() || self.records() {
            return self.tell_switch(before, next, (passed, now));
        }
        now
    }

    #[cold]
    #[inline(never)]
    fn tell_switch(&self, before: Phase, next: Phase, (passed, now): (u64, u64)) -> u64 {
        self.phase(before.number(), next.number(), passed);
        now
    }

    /// Now, with all time up to it counted.
    fn look(&self) -> u64 {
        self.switch(self.phase.get())
    }

    /// The worker does something, and serves no request.
    #[inline(never)]
    fn turn_to(&self, phase: Phase) {
        let now = self.switch(phase);
        self.leave(now);
    }

    #[inline(always)]
    fn serves(&self, time: &Time) -> bool {
        std::ptr::eq(self.current.get(), time)
    }

    /// The request that was served, if any, is not served from now on.
    #[inline(always)]
    fn leave(&self, now: u64) {
        self.current.replace(self.nobody).since.set(now);
    }

    /// A request waits for what others do, or waits for something else now.
    #[cold]
    #[inline(never)]
    fn wait_for_others(&self, time: &Time, phase: Phase) {
        let now = self.switch(match phase {
            Phase::Break | Phase::Event | Phase::Held => Phase::Other,
            Phase::Peer => Phase::Messages,
            other => other,
        });
        if !self.serves(time) {
            // One that was held, for example.
            self.wait_until(time, now);
        }
        self.leave(now);
        time.waits.set(phase);
    }

    /// A request is served again, perhaps in the place of another one.
    #[inline(never)]
    fn resume_beside(&self, time: &'static Time, is_known: bool) {
        let now = match is_known {
            true => self.layout.since.load(Ordering::Relaxed),
            false => self.switch(Phase::Running),
        };
        if !self.serves(time) {
            self.wait_until(time, now);
            self.leave(now);
            self.current.set(time);
        }
        time.waits.set(Phase::Queued);
    }

    /// A request has waited so long in a phase.
    #[inline(always)]
    fn wait(&self, time: &Time, phase: Phase, ticks: u64) {
        crate::series::add(&self.layout.waited[phase as usize], ticks);
        add(&time.phases[phase as usize], ticks);
    }

    /// A request has waited until now.
    #[inline(always)]
    fn wait_until(&self, time: &Time, now: u64) {
        self.wait(time, time.waits.get(), now.wrapping_sub(time.since.replace(now)));
    }

    /// A place for the time of one more request.
    #[cold]
    fn grow(&'static self) -> Option<&'static Span> {
        if self.spans.get() >= REQUESTS_MAX {
            crate::series::add(&self.layout.untraced, 1);
            return None;
        }
        self.spans.set(self.spans.get() + SPANS_AT_ONCE);
        for _ in 1..SPANS_AT_ONCE {
            self.release(Box::leak(Box::new(Span::new(self))));
        }
        Some(Box::leak(Box::new(Span::new(self))))
    }

    #[inline]
    fn release(&self, span: &'static Span) {
        span.next.set(self.free.replace(Some(span)));
    }

    #[inline(always)]
    fn begin_span(&'static self, came: Came, now: u64) -> Option<&'static Span> {
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
        span.bytes.set(0);
        let time = &span.time;
        time.since.set(now);
        time.waits.set(Phase::Queued);
        time.phases.iter().for_each(|phase| phase.set(0));
        let mut before = 0;
        if came.whole != 0 {
            // Should the counter of another processor be a little behind, nothing becomes less.
            let received = came.whole.saturating_sub(came.began);
            let queued = now.saturating_sub(came.whole);
            before = received + queued;
            self.wait(time, Phase::Receiving, received);
            self.wait(time, Phase::Queued, queued);
            if came.opened != 0 {
                let opened = came.opened.min(received);
                self.wait(time, Phase::Receiving, opened.wrapping_neg());
                self.wait(time, Phase::Verifying, opened);
            }
        }
        span.came.set(now.wrapping_sub(before));
        Some(span)
    }

    /// Counts a request, and forgets it. While it is served, its time is counted up to now.
    #[inline(never)]
    fn end_span(&self, span: &'static Span, now: u64) {
        if self.serves(&span.time) {
            self.leave(now);
        } else {
            self.wait_until(&span.time, now);
        }
        // Without one nothing came of it: the connection was ended before it was a request.
        if let Some(operation) = span.operation.get() {
            self.count(span, operation, now.saturating_sub(span.came.get()));
        }
        self.release(span);
    }

    #[inline(always)]
    fn count(&self, span: &Span, operation: Operation, ticks: u64) {
        if self.slow_ns.get() != 0 {
            self.note_slow(span, operation, ticks);
        }
        if schema::probes::request_phase::is_on() || self.records() {
            self.tell_phases(span);
        }
        let status = span.status.get();
        // Errors have their two highest bits set: [MS-ERREF] 2.3.
        if status >= 0xC000_0000 {
            self.request_failed(operation.number(), status.into());
        }
        let party = span.subject.get().party;
        self.layout.parties.add(party, operation, (ticks, span.bytes.get()), self.clock);
        let (mid, number) = (span.mid.get(), span.number.get());
        self.request_end(mid, operation.number(), status.into(), number, ticks);
    }

    #[cold]
    fn tell_phases(&self, span: &Span) {
        for (phase, ticks) in Phase::ALL.iter().zip(&span.time.phases) {
            if ticks.get() != 0 {
                self.request_phase(span.number.get(), phase.number(), ticks.get());
            }
        }
    }

    #[cold]
    fn note_slow(&self, span: &Span, operation: Operation, ticks: u64) {
        let path = span.path.take();
        let in_phase = |phase: Phase| span.time.phases[phase as usize].get();
        let ns = self.clock.ns(ticks.saturating_sub(in_phase(Phase::Event)));
        if ns < self.slow_ns.get() {
            return;
        }
        let phases = Phase::ALL.iter().map(|phase| (*phase, self.clock.ns(in_phase(*phase))));
        let subject = span.subject.get();
        let (share, user) = self.layout.parties.names(subject.party);
        self.slow.borrow_mut().push(SlowRequest {
            mid: span.mid.get(),
            operation,
            status: span.status.get(),
            ns,
            phases: phases.filter(|(_, ns)| *ns != 0).collect(),
            user,
            share,
            open: subject.open,
            path,
        });
    }
}

impl Time {
    fn new(served: &'static PhaseTicks) -> Self {
        let (phases, since, waits) = (Default::default(), Cell::new(0), Cell::new(Phase::Other));
        Self { served, phases, since, waits }
    }

    /// Whether what it goes through is anything but its turn; nobody's always is.
    #[inline(always)]
    fn is_waiting(&self) -> bool {
        self.waits.get() != Phase::Queued
    }
}

impl Span {
    fn new(inner: &'static Inner) -> Self {
        Self {
            inner,
            time: Time::new(&inner.layout.served),
            mid: Cell::new(0),
            number: Cell::new(0),
            operation: Cell::new(None),
            status: Cell::new(CANCELLED),
            came: Cell::new(0),
            subject: Cell::default(),
            bytes: Cell::new(0),
            next: Cell::new(None),
            path: RefCell::default(),
        }
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
        let number = self.span().map(|span| span.number.get());
        f.debug_struct("Request").field("number", &number).finish_non_exhaustive()
    }
}

impl fmt::Debug for Answered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answered").field("is_empty", &self.last.is_none()).finish()
    }
}

#[cfg(all(test, feature = "recorder"))]
mod tests;
