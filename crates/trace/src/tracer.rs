//! Where the time of a worker and of its requests goes.
//!
//! Whoever works says what it does ([`Tracer::enter`], [`Request::wait`]…); only what is here knows what
//! time it is. A look at the clock ends one phase and begins the next, for the worker and for the
//! request that it serves, so nothing is counted twice and nothing is left out.
//!
//! Nearly always nobody looks, the clock is an instruction, and a request is served alone: then a
//! change of phase is a part of whoever makes it, without a call. One byte, the [`State`] of whom
//! the worker serves, says whether it is so; everything else goes the long way.
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
use crate::names::{Kind as _, LogonOutcome, Operation, Phase, StoreOperation};
use crate::page::{Layout, Page, PhaseTicks};
use crate::party::PartyId;
use crate::probe;
use crate::schema::counted;
use crate::slow::{Slow, SlowRequest};

mod inner;
mod request;
mod span;

/// Requests in flight that are traced. Credits allow a client half of it; further ones are served
/// like any others, and counted as untraced.
pub const REQUESTS_MAX: usize = 16_384;

/// Requests for whose times memory is taken at once.
const SPANS_AT_ONCE: usize = 32;

/// As many as a [`State`] tells apart.
const PHASES: usize = 16;
const _: () = assert!(Phase::NAMES.len() == PHASES);

/// STATUS_CANCELLED: of a request that came to an end without a response.
const CANCELLED: u32 = 0xC000_0120;

/// Errors have their two highest bits set: [MS-ERREF] 2.3.
const ERRORS: u32 = 0xC000_0000;

/// Keeps the time of one worker. Every handle is the same one; what the default one of a thread keeps
/// nobody sees.
///
/// A worker has one for as long as it lives, so what it is made of is never given back.
#[derive(Clone, Copy)]
pub struct Tracer(&'static Inner);

thread_local! {
    /// Of whoever is not told where to keep its time.
    static UNSEEN: Tracer = Tracer::private(Clock::of_kernel()).expect("there is memory");
}

impl Default for Tracer {
    /// # Panics
    /// There is no memory.
    fn default() -> Self {
        UNSEEN.with(|it| *it)
    }
}

pub(crate) struct Inner {
    layout: &'static Layout,
    clock: Clock,
    /// The time of the request that is served; without one, that of nobody. Its state has what the
    /// worker does; the page has it for others.
    current: Cell<&'static Time>,
    /// Whether events are told to somebody: to who has attached to a probe before this turn of the
    /// worker, or to a test.
    tells: Cell<bool>,
    /// Whether somebody wants to know which phases a request went through: who is told of events, or
    /// of slow requests.
    keeps_phases: Cell<bool>,
    nobody: &'static Time,
    free: Cell<Option<&'static Span>>,
    /// The last of a ring of requests that end when the worker waits for events.
    ending: Cell<Option<&'static Span>>,
    spans: Cell<usize>,
    /// Counts requests whose phases are kept, so that they are told apart in probes.
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

/// When the first byte of a frame came, and when the last; by default nobody knows.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Came {
    began: u64,
    whole: u64,
    /// How much of it a lane opened what had come.
    opened: u64,
}

impl Default for Came {
    fn default() -> Self {
        Self { began: u64::MAX, whole: 0, opened: 0 }
    }
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

/// What the worker does for whom it serves, in four bits, and what keeps that from being quick.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct State(u8);

/// Where the time of a request goes, or that of nobody.
struct Time {
    state: Cell<State>,
    /// Where it is counted while it is served.
    served: &'static PhaseTicks,
    /// In each phase that is over, if somebody wants to know.
    phases: [Cell<u64>; PHASES],
    /// Up to when it is counted, while the request is not served.
    since: Cell<u64>,
    /// What the request goes through while it is not served. It may be served all the same, for as
    /// long as the worker does nothing else: then nothing has to be counted twice.
    waits: Cell<Phase>,
}

/// One request.
struct Span {
    inner: &'static Inner,
    layout: &'static Layout,
    time: Time,
    mid: Cell<u64>,
    /// Of the request that has it now, another one each time; zero if nobody wanted to know its phases
    /// when it began.
    number: Cell<u64>,
    /// None until it is known which request it is.
    operation: Cell<Option<Operation>>,
    status: Cell<u32>,
    came: Cell<u64>,
    /// Where its share and user are counted.
    party: Cell<PartyId>,
    bytes: Cell<u64>,
    /// The open that it named or made, if its phases are kept.
    open: Cell<Option<u64>>,
    /// The next one that was answered in the same frame, in a ring, or that is free.
    next: Cell<Option<&'static Self>>,
    path: RefCell<Option<String>>,
}

/// A request, from its frame to its response. Dropped without one, it has come to an end.
#[derive(Default)]
pub struct Request(Cell<Option<&'static Span>>);

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
        let nobody: &'static Time =
            Box::leak(Box::new(Time::new(&layout.idle, State::of(Phase::Other))));
        let mut inner = Inner {
            layout,
            clock,
            current: Cell::new(nobody),
            tells: Cell::new(false),
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

    /// Likewise, but it keeps no events: nobody is told, so everything goes the quick way.
    ///
    /// # Panics
    /// There is no memory.
    #[cfg(feature = "recorder")]
    #[must_use]
    pub fn in_test_untold(time: Rc<Cell<u64>>) -> Self {
        let page = Page::private().expect("there is memory");
        Self::over(page, Clock::of_kernel(), |inner| inner.time = Some(time))
    }

    /// The events so far, of a tracer that is for a test.
    #[cfg(feature = "recorder")]
    #[must_use]
    pub fn recorded(self) -> Vec<crate::recorder::Recorded> {
        self.inner().map(|inner| inner.recorder.events()).unwrap_or_default()
    }

    /// What was counted so far.
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

    /// Whether anything is kept.
    #[must_use]
    pub fn is_on(self) -> bool {
        self.inner().is_some()
    }

    /// From now on the worker does this, and serves no request, unless it does so already.
    #[inline(always)]
    pub fn enter(self, phase: Phase) {
        if let Some(inner) = self.inner()
            && inner.current.get().state.get() != State::of(phase)
        {
            inner.turn_to(phase);
        }
    }

    /// From now on the worker waits for events. Requests that end with that have ended.
    #[inline(never)]
    pub fn wait_for_events(self) {
        let Some(inner) = self.inner() else { return };
        let time = inner.current.get();
        let Some(before) = time.state.get().quick() else { return inner.wait_slowly() };
        match inner.ending.get() {
            None if std::ptr::eq(time, inner.nobody) => {
                inner.step(time, before, Phase::Waiting);
            }
            // Nearly always it is one, which is served until it ends.
            Some(span) if std::ptr::eq(time, &span.time) && span.is_alone() => {
                inner.ending.set(None);
                inner.end_served(span, before, Phase::Waiting);
            }
            _ => inner.wait_slowly(),
        }
    }

    /// Waiting for events is over, for so many of them. Mostly they are bytes of clients; whoever
    /// takes something else enters another phase.
    ///
    /// Who has attached to a probe before this is told of all events from now on.
    #[inline(never)]
    pub fn woke(self, completions: usize) {
        let Some(inner) = self.inner() else { return };
        let completions = u64::try_from(completions).unwrap_or(u64::MAX);
        let time = inner.current.get();
        if time.state.get() == State::of(Phase::Waiting) && !probe::are_on() {
            // For nobody.
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

    /// What came of a client is taken: [`Self::enter`] for [`Phase::Receiving`], and since when.
    #[inline(always)]
    #[must_use]
    pub fn receives(self) -> Moment {
        self.enter(Phase::Receiving);
        self.moment()
    }

    /// Now, as of the last change of phase.
    #[inline(always)]
    #[must_use]
    pub fn moment(self) -> Moment {
        Moment(self.inner().map_or(0, Inner::moment))
    }

    /// A whole frame is here, and is handed to the engine next; whoever says so of one says so of each,
    /// or [`Self::frame_passed`]. `began` is when its first byte was
    /// here, if that was earlier than what was received last; `opened` is how long a lane has opened
    /// it.
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

    /// A frame is handed to the engine next that came to another worker: nobody knows when.
    pub fn frame_passed(self) {
        if let Some(inner) = self.inner() {
            inner.came.take();
        }
    }

    /// Takes the time of what lanes do.
    #[must_use]
    pub fn watch(self) -> Watch {
        Watch(self.inner().map(|inner| inner.clock))
    }

    /// A lane has done with a frame what would be this phase of the worker.
    pub fn lane_worked(self, phase: Phase, spent: Spent) {
        if let Some(inner) = self.inner() {
            inner.lane_end(phase.number(), spent.0);
        }
    }

    /// When the frame came that the engine has taken, for what is behind its first request.
    #[inline(always)]
    #[must_use]
    pub fn came(self) -> Came {
        self.inner().map(|inner| inner.came.get()).unwrap_or_default()
    }

    /// Begins with the first request of the frame that the engine takes now, which is served from now
    /// on, first by this.
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
            // If the one before it was answered in the same turn, it waits for this one.
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

    /// Begins with a request of a frame, which is served from now on, first by this.
    #[must_use]
    pub fn begin(self, came: Came, phase: Phase) -> Request {
        let Some(inner) = self.inner() else { return Request::default() };
        inner.begin_slowly(&Cell::new(came), phase)
    }

    /// A frame is to be sent, with these answers; from now on the worker sends it.
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

    /// The file system is asked for something, for a request that waits for it or for none.
    #[must_use]
    #[inline(never)]
    pub fn store_begins(self, operation: StoreOperation, is_waited_for: bool) -> StoreWork {
        let Some(inner) = self.inner() else { return StoreWork { operation, since: 0 } };
        let state = inner.current.get().state.get();
        // Whoever waits for the file system, but not for this, is not served by it.
        if is_waited_for && state == State::of(Phase::Storage) {
            let layout = inner.layout;
            counted::store_start(layout, inner.clock(), operation.number());
            StoreWork { operation, since: layout.since.load(Ordering::Relaxed) }
        } else {
            inner.store_begins_slowly(operation, is_waited_for)
        }
    }

    /// The file system has answered: so many bytes of data, or an error.
    /// The request that is resumed next is the one that wanted it.
    #[inline(never)]
    pub fn store_ends(self, work: StoreWork, bytes: u64, status: u32) {
        let Some(inner) = self.inner() else { return };
        let (time, layout) = (inner.current.get(), inner.layout);
        inner.bytes.set(bytes);
        let Some(before) = time.state.get().quick() else {
            return inner.store_ends_slowly(work, bytes, status);
        };
        let operation = work.operation.number();
        let now = inner.step(time, before, Phase::Running);
        let ticks = now.wrapping_sub(work.since);
        counted::store_data(layout, inner.clock(), operation, bytes);
        // The last, because it may have to do more.
        counted::store_end(layout, inner.clock(), operation, bytes, status.into(), ticks);
    }

    /// A table that all processes share is read or changed until what this returns is dropped.
    #[inline(never)]
    pub fn visit_table(self) -> TableVisit {
        let Some(inner) = self.inner() else {
            return TableVisit { tracer: self, before: Phase::Other, since: 0 };
        };
        let before = inner.does();
        let since = inner.switch(Phase::Table);
        if inner.current.get().is_waiting() {
            inner.hand_over(inner.nobody, since);
        }
        TableVisit { tracer: self, before, since }
    }

    /// Somebody has logged on, or was refused.
    pub fn logon(self, outcome: LogonOutcome) {
        if let Some(inner) = self.inner() {
            inner.logon(outcome.number());
        }
    }

    /// A message goes to another process.
    pub fn message_sent(self, kind: u16, bytes: usize) {
        if let Some(inner) = self.inner() {
            inner.message_sent(kind.into(), u64::try_from(bytes).unwrap_or(u64::MAX));
        }
    }

    /// A message of another process came.
    pub fn message_received(self, kind: u16, bytes: usize) {
        if let Some(inner) = self.inner() {
            inner.message_received(kind.into(), u64::try_from(bytes).unwrap_or(u64::MAX));
        }
    }

    /// Which requests are slow: those that take so many nanoseconds; none if it is zero.
    pub fn set_slow_threshold(self, ns: u64) {
        if let Some(inner) = self.inner() {
            inner.slow_ns.set(ns);
            inner.tell_if_wanted();
        }
    }

    /// The slow requests that have ended since the last call, and how many more there were; nothing
    /// if nobody wants to know.
    #[inline(always)]
    #[must_use]
    pub fn take_slow(self) -> Option<(Vec<SlowRequest>, u64)> {
        let inner = self.inner().filter(|inner| inner.slow_ns.get() != 0)?;
        Some(inner.slow.take().into_parts())
    }

    /// Where a user is counted in a share; outside of any, if that has no name.
    #[must_use]
    pub fn party(self, share: &str, user: &str) -> PartyId {
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
impl Drop for TableVisit {
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
