//! Time of a worker and of its requests, by phase.
//!
//! The worker reports each change of its activity ([`Tracer::enter`], [`Request::wait`]…); only
//! this module reads the clock. A reading ends one phase and begins the next, for the worker and
//! for the request that it serves, so no time is counted twice or lost.
//!
//! Usually no probe is attached, the clock is an instruction, and a request is served alone: then a
//! change of phase is inlined, without a call. One byte, the [`State`] of the current request,
//! tells whether that is so; all other cases take the slow path.
//!
//! Every request passes here, so the code consists of loads, additions and stores: one thread
//! writes, every cell has one owner, and a request's cells do not move. Times are ticks of the
//! processor's counter; conversion is left to the output. The time of a phase is added once, to the
//! worker's time without a request or with one; readers add up the two.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::path::Path;
#[cfg(feature = "recorder")]
use std::rc::Rc;
use std::sync::atomic::Ordering;

use crate::clock::Clock;
use crate::names::{Kind as _, LogonOutcome, Operation, Phase, StoreOperation};
use crate::page::{Layout, Page, PhaseTicks};
use crate::party::PartyId;
use crate::probe;
use crate::reason::Reason;
use crate::schema::counted;
use crate::slow::{Slow, SlowRequest};

mod inner;
mod request;
mod span;

/// Highest number of traced requests in flight. Credits allow a client half of it; further ones are
/// served normally, and counted as untraced.
pub const REQUESTS_MAX: usize = 16_384;

/// Highest number of spans allocated together.
const SPANS_AT_ONCE: usize = 32;

/// Number of the first ones, after which as many are added as there are: few clients have more
/// requests in flight, and 32 spans are three pages of memory.
const SPANS_AT_FIRST: usize = 4;

/// Number of phases that a [`State`] distinguishes.
const PHASES: usize = 16;
const _: () = assert!(Phase::NAMES.len() == PHASES);

/// STATUS_CANCELLED, of a request that ended without a response.
const CANCELLED: u32 = 0xC000_0120;

/// Errors have the two highest bits set: [MS-ERREF] 2.3.
const ERRORS: u32 = 0xC000_0000;

/// Keeps the times of one worker. All handles share the same state; the default tracer of a thread
/// has no page.
///
/// A worker has one for its whole life, so its memory is never freed.
#[derive(Clone, Copy)]
pub struct Tracer(&'static Inner);

thread_local! {
    /// Default tracer, without a page.
    static UNSEEN: Tracer = Tracer::private(Clock::of_kernel()).expect("there is memory");
}

impl Default for Tracer {
    /// # Panics
    /// The memory is exhausted.
    fn default() -> Self {
        UNSEEN.with(|it| *it)
    }
}

pub(crate) struct Inner {
    layout: &'static Layout,
    clock: Clock,
    /// Time of the served request, or `nobody`. Its state has the worker's phase; the page has it
    /// for readers.
    current: Cell<&'static Time>,
    /// True if events are emitted: a probe was attached before this turn of the event loop, or this
    /// is a test.
    emits: Cell<bool>,
    /// True if the phases of each request are kept: events are emitted, or slow requests reported.
    keeps_phases: Cell<bool>,
    nobody: &'static Time,
    free: Cell<Option<&'static Span>>,
    /// Last of a ring of requests that end when the worker waits for events.
    ending: Cell<Option<&'static Span>>,
    spans: Cell<usize>,
    /// Count of requests with kept phases, which gives their numbers in probes.
    requests: Cell<u64>,
    came: Cell<Came>,
    /// Bytes read or written for the request that is resumed next.
    bytes: Cell<u64>,
    /// Nanoseconds from which a request is slow; zero for never.
    slow_ns: Cell<u64>,
    slow: RefCell<Slow>,
    #[cfg(feature = "recorder")]
    recorder: crate::recorder::Recorder,
    /// Time in nanoseconds, set by tests.
    #[cfg(feature = "recorder")]
    time: Option<Rc<Cell<u64>>>,
    #[cfg(feature = "recorder")]
    records: bool,
}

/// Times of a frame's first and last byte; unknown by default.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Came {
    began: u64,
    whole: u64,
    /// Ticks that a lane spent decrypting the frame.
    opened: u64,
}

impl Default for Came {
    fn default() -> Self {
        Self { began: u64::MAX, whole: 0, opened: 0 }
    }
}

/// A moment of the clock, for later use.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Moment(u64);

/// Ticks that another thread spent.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Spent(u64);

/// Measures the work of another thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct Watch(Option<Clock>);

/// Phase of a request or worker in four bits, with flags that force the slow path.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct State(u8);

/// Times of a request, or of the worker without one.
struct Time {
    state: Cell<State>,
    /// Counters to use while it is served.
    served: &'static PhaseTicks,
    /// Ticks of each ended phase, if phases are kept.
    phases: [Cell<u64>; PHASES],
    /// Time up to which it is counted, while it is not served.
    since: Cell<u64>,
    /// Phase of the request while it is not served. It may still be the served one as long as the
    /// worker does nothing else: then nothing is counted twice.
    waits: Cell<Phase>,
}

/// A request in flight, as it is traced.
struct Span {
    inner: &'static Inner,
    layout: &'static Layout,
    time: Time,
    mid: Cell<u64>,
    /// Number of the current request, unique in the worker; zero if its phases are not kept.
    number: Cell<u64>,
    /// `None` until the command is known.
    operation: Cell<Option<Operation>>,
    status: Cell<u32>,
    /// Rule that it broke, if it was refused.
    reason: Cell<Reason>,
    came: Cell<u64>,
    /// Place of its share and user.
    party: Cell<PartyId>,
    bytes: Cell<u64>,
    /// Open that it names or created, if its phases are kept.
    open: Cell<Option<u64>>,
    /// Next request in the ring of a frame's responses, or in the list of free spans.
    next: Cell<Option<&'static Self>>,
    path: RefCell<Option<String>>,
    /// The reason in words, if slow requests are reported.
    explanation: RefCell<Option<String>>,
}

/// A request, from its frame to its response. A drop without a response ends it.
#[derive(Default)]
pub struct Request(Cell<Option<&'static Span>>);

/// Requests with responses in one frame. A drop ends them: the socket has taken the frame, or never
/// will.
#[derive(Default)]
pub struct Answered {
    /// Last of a ring: the first follows it.
    last: Option<&'static Span>,
}

/// An operation of the file system in progress.
#[derive(Clone, Copy, Debug)]
pub struct StoreWork {
    operation: StoreOperation,
    since: u64,
}

/// An access to a table; it ends when this is dropped.
#[derive(Debug)]
#[must_use = "the access ends when this is dropped"]
pub struct TableAccess {
    tracer: Tracer,
    before: Phase,
    since: u64,
}

impl Tracer {
    /// Creates a tracer with a page in `lock_dir`, which others may read.
    ///
    /// # Errors
    /// The page cannot be created or mapped.
    pub fn create(
        lock_dir: &Path,
        pid: u32,
        unique_id: u64,
        clock: Clock,
    ) -> std::io::Result<Self> {
        Ok(Self::over(Page::create(lock_dir, pid, unique_id)?, clock, |_| {}))
    }

    /// Creates a tracer with a page in private memory.
    ///
    /// # Errors
    /// Memory is exhausted.
    pub fn private(clock: Clock) -> std::io::Result<Self> {
        Ok(Self::over(Page::private()?, clock, |_| {}))
    }

    fn over(page: Page, clock: Clock, change: impl FnOnce(&mut Inner)) -> Self {
        let layout = page.keep();
        let nobody: &'static Time =
            Box::leak(Box::new(Time::new(&layout.idle, State::of(Phase::Other))));
        let mut inner = Inner {
            layout,
            clock,
            current: Cell::new(nobody),
            emits: Cell::new(false),
            keeps_phases: Cell::new(false),
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
        Self(Box::leak(Box::new(inner)))
    }

    /// Creates a tracer for a test: `time` is its clock, in nanoseconds, and it records every
    /// event.
    ///
    /// # Panics
    /// Memory is exhausted.
    #[cfg(feature = "recorder")]
    #[must_use]
    pub fn in_test(time: Rc<Cell<u64>>) -> Self {
        let page = Page::private().expect("there is memory");
        Self::over(page, Clock::of_kernel(), |inner| {
            inner.time = Some(time);
            inner.records = true;
        })
    }

    /// As [`Tracer::in_test`], but without a record of events, so it takes the fast path.
    ///
    /// # Panics
    /// Memory is exhausted.
    #[cfg(feature = "recorder")]
    #[must_use]
    pub fn in_test_silent(time: Rc<Cell<u64>>) -> Self {
        let page = Page::private().expect("there is memory");
        Self::over(page, Clock::of_kernel(), |inner| inner.time = Some(time))
    }

    /// Returns the events so far, of a test's tracer.
    #[cfg(feature = "recorder")]
    #[must_use]
    pub fn recorded(self) -> Vec<crate::recorder::Recorded> {
        self.inner().map(|inner| inner.recorder.events()).unwrap_or_default()
    }

    /// Returns the figures so far.
    #[must_use]
    pub fn figures(self) -> crate::Figures {
        self.inner()
            .map(|inner| crate::Figures::of(inner.layout(), || inner.now()))
            .unwrap_or_default()
    }

    #[inline]
    fn inner(self) -> Option<&'static Inner> {
        cfg!(feature = "on").then_some(self.0)
    }

    /// True if tracing was built in.
    #[must_use]
    pub fn is_on(self) -> bool {
        self.inner().is_some()
    }

    /// Enters a phase without a request; does nothing if the worker is in it already.
    #[inline(always)]
    pub fn enter(self, phase: Phase) {
        if let Some(inner) = self.inner()
            && inner.current.get().state.get() != State::of(phase)
        {
            inner.turn_to(phase);
        }
    }

    /// Enters [`Phase::Waiting`]. Ends the requests whose frames the waiting call sends.
    #[inline(never)]
    pub fn wait_for_events(self) {
        let Some(inner) = self.inner() else { return };
        let time = inner.current.get();
        let Some(before) = time.state.get().quick() else { return inner.wait_slowly() };
        match inner.ending.get() {
            None if std::ptr::eq(time, inner.nobody) => {
                inner.step(time, before, Phase::Waiting);
            }
            // Usually a single request, served until its end.
            Some(span) if std::ptr::eq(time, &span.time) && span.is_alone() => {
                inner.ending.set(None);
                inner.end_served(span, before, Phase::Waiting);
            }
            _ => inner.wait_slowly(),
        }
    }

    /// Ends the wait for events, with the number of completions. Most are bytes of clients; for
    /// other events the worker enters another phase.
    ///
    /// Probes attached before this call receive all events from now on.
    #[inline(never)]
    pub fn woke(self, completions: usize) {
        let Some(inner) = self.inner() else { return };
        let completions = u64::try_from(completions).unwrap_or(u64::MAX);
        let time = inner.current.get();
        if time.state.get() == State::of(Phase::Waiting) && !probe::are_on() {
            // No request is served.
            time.state.set(State::of(Phase::Receiving));
            let layout = inner.layout;
            let phases = [Phase::Waiting, Phase::Receiving];
            let [before, next] = phases.map(|it| &layout.idle[it as usize]);
            layout.step(before, next, inner.quick_ticks());
            counted::woke(layout, inner.clock(), completions);
        } else {
            inner.woke_slowly(completions);
        }
    }

    /// Enters [`Phase::Receiving`], and returns its start.
    #[inline(always)]
    #[must_use]
    pub fn receives(self) -> Moment {
        self.enter(Phase::Receiving);
        self.moment()
    }

    /// Returns the time of the last change of phase.
    #[inline(always)]
    #[must_use]
    pub fn moment(self) -> Moment {
        Moment(self.inner().map_or(0, Inner::moment))
    }

    /// Reports a complete frame, which the engine handles next; follow each reception by this or by
    /// [`Self::frame_passed`]. `began` is the time of its first byte, if earlier than the last
    /// receipt; `opened` is the time that a lane spent decrypting it.
    #[inline(always)]
    pub fn frame_came(
        self,
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

    /// Reports a frame that another worker received, at an unknown time; the engine handles it
    /// next.
    pub fn frame_passed(self) {
        if let Some(inner) = self.inner() {
            inner.came.take();
        }
    }

    /// Returns a watch for the work of lanes.
    #[must_use]
    pub fn watch(self) -> Watch {
        Watch(self.inner().map(|inner| inner.clock))
    }

    /// Counts the work of a lane on a frame under the corresponding phase of the worker.
    pub fn lane_worked(self, phase: Phase, spent: Spent) {
        if let Some(inner) = self.inner() {
            inner.lane_end(phase.number(), spent.0);
        }
    }

    /// Times of the engine's current frame, for requests after its first one.
    #[inline(always)]
    #[must_use]
    pub fn came(self) -> Came {
        self.inner().map(|inner| inner.came.get()).unwrap_or_default()
    }

    /// Begins the first request of the engine's current frame, and serves it in this phase.
    #[must_use]
    #[inline(never)]
    pub fn begin_frame(self, phase: Phase) -> Request {
        let Some(inner) = self.inner() else { return Request::default() };
        let (time, layout) = (inner.current.get(), inner.layout);
        if let Some(before) = time.state.get().quick()
            && let Some(span) = inner.free.get()
            && let Some(came) = inner.came.get().at_once()
        {
            let now = inner.quick_ticks();
            inner.free.set(span.next.get());
            inner.current.set(&span.time);
            // If the previous request was answered in the same turn, it waits for this one.
            time.state.set(State::UNSERVED);
            time.since.set(now);
            span.begin(came);
            layout.wait(Phase::Queued, now.wrapping_sub(came));
            span.time.state.set(State::of(phase));
            layout.step(&time.served[before], &layout.served[phase as usize], now);
            Request(Cell::new(Some(span)))
        } else {
            inner.begin_slowly(&inner.came, phase)
        }
    }

    /// Begins a further request of a frame, and serves it in this phase.
    #[must_use]
    pub fn begin(self, came: Came, phase: Phase) -> Request {
        let Some(inner) = self.inner() else { return Request::default() };
        inner.begin_slowly(&Cell::new(came), phase)
    }

    /// Enters [`Phase::Sending`] for a frame with these responses.
    #[inline(always)]
    pub fn sends(self, connection: u32, bytes: usize, answered: &Answered) {
        let Some(inner) = self.inner() else { return };
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let state = answered.last().map(|last| (last, last.time.state.get().quick()));
        if let Some((last, Some(before))) = state {
            counted::frame_sent(last.layout, inner.clock(), connection.into(), bytes);
            last.wait(before, Phase::Sending);
        } else {
            inner.sends_slowly(connection, bytes, answered);
        }
    }

    /// Begins an operation of the file system, for a request that waits for it or for none.
    #[must_use]
    #[inline(never)]
    pub fn store_begins(self, operation: StoreOperation, is_waited_for: bool) -> StoreWork {
        let Some(inner) = self.inner() else { return StoreWork { operation, since: 0 } };
        let state = inner.current.get().state.get();
        // A request that waits for another operation is not served by this one.
        if is_waited_for && state == State::of(Phase::Storage) {
            let layout = inner.layout;
            counted::store_start(layout, inner.clock(), operation.number());
            StoreWork { operation, since: layout.since.load(Ordering::Relaxed) }
        } else {
            inner.store_begins_slowly(operation, is_waited_for)
        }
    }

    /// Ends an operation of the file system, with its bytes of data or an error. The request that
    /// is resumed next is the one that waited for it. Returns its duration in ticks of the clock.
    #[inline(never)]
    pub fn store_ends(self, work: StoreWork, bytes: u64, status: u32) -> u64 {
        let Some(inner) = self.inner() else { return 0 };
        let (time, layout) = (inner.current.get(), inner.layout);
        inner.bytes.set(bytes);
        let Some(before) = time.state.get().quick() else {
            return inner.store_ends_slowly(work, bytes, status);
        };
        let operation = work.operation.number();
        let now = inner.step(time, before, Phase::Running);
        let ticks = now.wrapping_sub(work.since);
        counted::store_data(layout, inner.clock(), operation, bytes);
        // Last, because it may have to do more.
        layout.stores.add(work.operation as usize, ticks, inner.clock());
        ticks
    }

    /// Enters [`Phase::Table`] until the result is dropped.
    #[inline(never)]
    pub fn access_table(self) -> TableAccess {
        let Some(inner) = self.inner() else {
            return TableAccess { tracer: self, before: Phase::Other, since: 0 };
        };
        let before = inner.does();
        let since = inner.switch(Phase::Table);
        if inner.current.get().is_waiting() {
            inner.hand_over(inner.nobody, since);
        }
        TableAccess { tracer: self, before, since }
    }

    /// Counts a logon, successful or refused.
    pub fn logon(self, outcome: LogonOutcome) {
        if let Some(inner) = self.inner() {
            inner.logon(outcome.number());
        }
    }

    /// Counts a message to another process.
    pub fn message_sent(self, kind: u16, bytes: usize) {
        if let Some(inner) = self.inner() {
            inner.message_sent(kind.into(), u64::try_from(bytes).unwrap_or(u64::MAX));
        }
    }

    /// Counts a message from another process.
    pub fn message_received(self, kind: u16, bytes: usize) {
        if let Some(inner) = self.inner() {
            inner.message_received(kind.into(), u64::try_from(bytes).unwrap_or(u64::MAX));
        }
    }

    /// Sets the nanoseconds from which a request is slow; zero for never.
    pub fn set_slow_threshold(self, ns: u64) {
        if let Some(inner) = self.inner() {
            inner.slow_ns.set(ns);
            inner.update_emission();
        }
    }

    /// Returns slow requests that ended since the last call, and the number of further ones; `None`
    /// if slow requests are not reported.
    #[inline(always)]
    #[must_use]
    pub fn take_slow(self) -> Option<(Vec<SlowRequest>, u64)> {
        let inner = self.inner().filter(|inner| inner.slow_ns.get() != 0)?;
        Some(inner.slow.take().into_parts())
    }

    /// Returns the place of a user in a share; an empty share stands for none.
    #[must_use]
    pub fn party(self, share: &str, user: &str) -> PartyId {
        self.inner().map(|inner| inner.layout().parties.find(share, user)).unwrap_or_default()
    }
}

impl Watch {
    /// Runs `work`, and returns its result and duration.
    pub fn time<T>(self, work: impl FnOnce() -> T) -> (T, Spent) {
        let now = || self.0.map_or(0, Clock::now);
        let began = now();
        let done = work();
        (done, Spent(now().saturating_sub(began)))
    }
}
impl Drop for TableAccess {
    #[inline(never)]
    fn drop(&mut self) {
        let Some(inner) = self.tracer.inner() else { return };
        let now = inner.switch(self.before);
        inner.table_end(now.saturating_sub(self.since));
    }
}

#[inline]
fn add(to: &Cell<u64>, value: u64) {
    to.set(to.get().wrapping_add(value));
}

impl fmt::Debug for Tracer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_on() { "Tracer" } else { "Tracer(off)" })
    }
}

#[cfg(all(test, feature = "recorder"))]
mod tests;
