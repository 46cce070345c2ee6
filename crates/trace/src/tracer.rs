//! Where the time of a worker and of its requests goes.
//!
//! Whoever works says what it does ([`Tracer::enter`], [`Request::wait`]…); only this file knows what
//! time it is. A look at the clock ends one phase and begins the next, for the worker and for the
//! request that it serves, so nothing is counted twice and nothing is left out.

#[cfg(feature = "recorder")]
use std::cell::Cell;
use std::cell::RefCell;
use std::fmt;
use std::path::Path;
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

/// STATUS_CANCELLED: of a request that came to an end without a response.
const CANCELLED: u32 = 0xC000_0120;

/// Keeps the time of one worker. Every handle is the same one; the default one keeps nothing.
#[derive(Clone, Default)]
pub struct Tracer(Option<Rc<Inner>>);

pub(crate) struct Inner {
    page: Page,
    state: RefCell<State>,
    #[cfg(feature = "recorder")]
    recorder: crate::recorder::Recorder,
    /// Set in tests: nanoseconds.
    #[cfg(feature = "recorder")]
    time: Option<Rc<Cell<u64>>>,
    #[cfg(feature = "recorder")]
    records: bool,
}

#[derive(Default)]
struct State {
    /// The request that is served: an index into `spans`.
    current: Option<u32>,
    spans: Vec<Span>,
    free: Vec<u32>,
    /// Counts requests: so they are told apart in probes.
    requests: u64,
    came: Came,
    /// Bytes read and written for the request that is resumed next.
    data: (u64, u64),
    slow: Slow,
    /// Until the processor's clock is known.
    first_look: Option<Look>,
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
#[derive(Clone)]
struct Span {
    mid: u64,
    number: u64,
    operation: Option<Operation>,
    status: u32,
    is_answered: bool,
    came: u64,
    since: u64,
    /// What it goes through while it is not served.
    waits: Phase,
    /// The next one that was answered in the same frame.
    next: Option<u32>,
    subject: Subject,
    read_bytes: u64,
    written_bytes: u64,
    phases: [u64; Phase::NAMES.len()],
}

/// A request, from its frame to its response. Dropped without one, it has come to an end.
#[derive(Debug, Default)]
pub struct Request {
    tracer: Tracer,
    index: Option<u32>,
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
#[derive(Debug, Default)]
pub struct Answered {
    tracer: Tracer,
    first: Option<u32>,
    last: Option<u32>,
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
        Ok(Self::over(Page::create(lock_dir, pid, unique_id)?))
    }

    /// A tracer whose page nobody else sees.
    ///
    /// # Errors
    /// There is no memory.
    pub fn private() -> std::io::Result<Self> {
        Ok(Self::over(Page::private()?))
    }

    fn over(page: Page) -> Self {
        let state = State { first_look: clock::look(), ..State::default() };
        let inner = Inner {
            page,
            state: RefCell::new(state),
            #[cfg(feature = "recorder")]
            recorder: crate::recorder::Recorder::default(),
            #[cfg(feature = "recorder")]
            time: None,
            #[cfg(feature = "recorder")]
            records: false,
        };
        inner.begin();
        Self(Some(Rc::new(inner)))
    }

    /// A tracer for a test: its time is what `time` says, in nanoseconds, and it keeps every event.
    ///
    /// # Panics
    /// There is no memory.
    #[cfg(feature = "recorder")]
    #[must_use]
    pub fn in_test(time: Rc<Cell<u64>>) -> Self {
        Self::in_virtual_time(time, true)
    }

    /// As [`Tracer::in_test`], which may keep no events: to count what it costs.
    ///
    /// # Panics
    /// There is no memory.
    #[cfg(feature = "recorder")]
    #[must_use]
    pub fn in_virtual_time(time: Rc<Cell<u64>>, records: bool) -> Self {
        let inner = Inner {
            page: Page::private().expect("there is memory"),
            state: RefCell::default(),
            recorder: crate::recorder::Recorder::default(),
            time: Some(time),
            records,
        };
        inner.begin();
        Self(Some(Rc::new(inner)))
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
    fn inner(&self) -> Option<&Inner> {
        if cfg!(feature = "on") { self.0.as_deref() } else { None }
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
            && inner.phase_now() != phase
        {
            inner.switch(&mut inner.state.borrow_mut(), phase);
        }
    }

    /// Waiting for events is over, for so many of them. Mostly they are bytes of clients; whoever
    /// takes something else enters another phase.
    pub fn woke(&self, completions: usize) {
        let Some(inner) = self.inner() else { return };
        let mut state = inner.state.borrow_mut();
        if let Some(first) = state.first_look
            && inner.layout().clock.calibrate(first)
        {
            state.first_look = None;
        }
        inner.switch(&mut state, Phase::Receiving);
        inner.woke(u64::try_from(completions).unwrap_or(u64::MAX));
    }

    /// Now, as of the last change of phase.
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
        inner.state.borrow_mut().came = Came { began, whole: whole.0 };
    }

    /// When the frame came that the engine takes now.
    #[must_use]
    pub fn take_came(&self) -> Came {
        self.inner()
            .map(|inner| std::mem::take(&mut inner.state.borrow_mut().came))
            .unwrap_or_default()
    }

    /// Begins with a request of a frame, which is served from now on.
    #[must_use]
    pub fn begin(&self, came: Came) -> Request {
        let Some(inner) = self.inner() else { return Request::default() };
        let mut state = inner.state.borrow_mut();
        let now = inner.switch(&mut state, Phase::Parsing);
        // The one before it in its compound was answered, and waits for this one.
        if let Some(before) = state.current.take()
            && let Some(span) = state.span(before)
        {
            span.waits = Phase::Queued;
        }
        let index = inner.begin_span(&mut state, came, now);
        state.current = index;
        let number = state.requests;
        drop(state);
        Request { tracer: index.map(|_| self.clone()).unwrap_or_default(), index, number }
    }

    /// A frame is to be sent.
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
            inner.state.borrow_mut().data = (0, 0);
            inner.store_start(operation.number());
        }
        StoreWork { operation, since }
    }

    /// The file system has answered: so many bytes of data, or an error.
    /// The request that is resumed next is the one that wanted it.
    pub fn store_ends(&self, work: StoreWork, bytes: u64, status: u32) {
        let Some(inner) = self.inner() else { return };
        let mut state = inner.state.borrow_mut();
        let now = inner.switch(&mut state, Phase::Running);
        let operation = work.operation.number();
        inner.store_end(operation, bytes, status.into(), now.saturating_sub(work.since));
        if bytes != 0 {
            inner.store_data(operation, bytes);
            state.data = match work.operation {
                StoreOperation::Read => (bytes, 0),
                _ => (0, bytes),
            };
        }
    }

    /// A table that all processes share is read or changed until what this returns is dropped.
    pub fn visit_table(&self) -> TableVisit {
        let Some(inner) = self.inner() else {
            return TableVisit { tracer: Self::default(), before: Phase::Other, since: 0 };
        };
        let before = inner.phase_now();
        let since = inner.switch(&mut inner.state.borrow_mut(), Phase::Table);
        TableVisit { tracer: self.clone(), before, since }
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
            inner.state.borrow_mut().slow.threshold = ns;
        }
    }

    /// The slow requests that have ended since the last call, and how many more there were.
    #[must_use]
    pub fn take_slow(&self) -> (Vec<SlowRequest>, u64) {
        let Some(inner) = self.inner() else { return Default::default() };
        let slow = &mut inner.state.borrow_mut().slow;
        (std::mem::take(&mut slow.requests), std::mem::take(&mut slow.left_out))
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
        let Some((inner, index)) = self.parts() else { return };
        let mut state = inner.state.borrow_mut();
        let Some(span) = state.span(index) else { return };
        let operation = Operation::from_number(command.into());
        (span.mid, span.operation) = (mid, Some(operation));
        let before = span.since.saturating_sub(span.came);
        inner.request_start(mid, operation.number(), span.number, before);
    }

    /// It is served from now on by this.
    #[inline]
    pub fn enter(&self, phase: Phase) {
        self.tracer.enter(phase);
    }

    /// It waits from now on; the worker goes on with what it waits for, or with something else.
    pub fn wait(&self, phase: Phase) {
        let Some((inner, index)) = self.parts() else { return };
        let mut state = inner.state.borrow_mut();
        let worker = match phase {
            Phase::Break | Phase::Event | Phase::Held => Phase::Other,
            Phase::Peer => Phase::Messages,
            other => other,
        };
        let now = inner.switch(&mut state, worker);
        if state.current == Some(index) {
            state.current = None;
        }
        if let Some(span) = state.span(index) {
            // One that was held, for example, waits for something else now.
            span.spend(span.waits, now);
            span.waits = phase;
        }
    }

    /// It is served again.
    pub fn resume(&self) {
        let Some((inner, index)) = self.parts() else { return };
        let mut state = inner.state.borrow_mut();
        // Whoever answered it may have looked at the clock just now.
        let now = match inner.phase_now() {
            Phase::Running if state.current.is_none() => {
                inner.layout().since.load(Ordering::Relaxed)
            }
            _ => inner.switch(&mut state, Phase::Running),
        };
        let (read_bytes, written_bytes) = std::mem::take(&mut state.data);
        if let Some(span) = state.span(index) {
            span.spend(span.waits, now);
            span.read_bytes += read_bytes;
            span.written_bytes += written_bytes;
        }
        state.current = Some(index);
    }

    /// Its response is laid out.
    pub fn answer(&self, status: u32, subject: Subject, answered: &mut Answered) {
        let Some((inner, index)) = self.parts() else { return };
        let mut state = inner.state.borrow_mut();
        let Some(span) = state.span(index) else { return };
        span.status = status;
        span.is_answered = true;
        span.subject = subject;
        span.next = None;
        match answered.last.replace(index) {
            Some(last) => {
                if let Some(last) = state.span(last) {
                    last.next = Some(index);
                }
            }
            None => {
                answered.first = Some(index);
                answered.tracer = self.tracer.clone();
            }
        }
    }

    /// It has no response, and is not cancelled for that.
    pub fn ends_without_response(&self) {
        let Some((inner, index)) = self.parts() else { return };
        if let Some(span) = inner.state.borrow_mut().span(index) {
            span.status = 0;
        }
    }

    fn parts(&self) -> Option<(&Inner, u32)> {
        Some((self.tracer.inner()?, self.index?))
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        let Some((inner, index)) = self.parts() else { return };
        let mut state = inner.state.borrow_mut();
        // One that was answered ends with its frame, and its place may be another's by now.
        let is_ours = |span: &mut Span| span.number == self.number && !span.is_answered;
        if state.span(index).is_some_and(is_ours) {
            let now = inner.now();
            inner.end_span(&mut state, index, now);
        }
    }
}

impl Answered {
    /// The worker does this for their frame from now on, and they wait for it.
    pub fn enter(&self, phase: Phase) {
        let Some(inner) = self.tracer.inner() else { return };
        let mut state = inner.state.borrow_mut();
        let now = inner.switch(&mut state, phase);
        let mut next = self.first;
        while let Some(index) = next {
            if state.current == Some(index) {
                state.current = None;
            }
            let Some(span) = state.span(index) else { return };
            span.spend(span.waits, now);
            span.waits = phase;
            next = span.next;
        }
    }
}

impl Drop for Answered {
    fn drop(&mut self) {
        let Some(inner) = self.tracer.inner() else { return };
        let mut state = inner.state.borrow_mut();
        let now = inner.now();
        let mut next = self.first;
        while let Some(index) = next {
            next = state.span(index).and_then(|span| span.next);
            inner.end_span(&mut state, index, now);
        }
    }
}

impl Drop for TableVisit {
    fn drop(&mut self) {
        let Some(inner) = self.tracer.inner() else { return };
        let now = inner.switch(&mut inner.state.borrow_mut(), self.before);
        inner.table_end(now.saturating_sub(self.since));
    }
}

impl State {
    #[inline]
    fn span(&mut self, index: u32) -> Option<&mut Span> {
        self.spans.get_mut(usize::try_from(index).unwrap_or(usize::MAX))
    }
}

impl Span {
    #[inline]
    fn spend(&mut self, phase: Phase, now: u64) {
        // Two looks at the clock may be in the wrong order only if the clock is.
        self.phases[phase as usize] += now.saturating_sub(self.since);
        self.since = now.max(self.since);
    }
}

impl Inner {
    #[inline]
    pub(crate) fn layout(&self) -> &Layout {
        self.page.layout()
    }

    #[inline]
    fn phase_now(&self) -> Phase {
        Phase::from_number(self.layout().phase.load(Ordering::Relaxed))
    }

    #[inline]
    fn now(&self) -> u64 {
        #[cfg(feature = "recorder")]
        if let Some(time) = &self.time {
            return time.get();
        }
        self.layout().clock.now()
    }

    fn begin(&self) {
        let now = self.now();
        self.layout().began.store(now, Ordering::Relaxed);
        self.layout().since.store(now, Ordering::Relaxed);
        self.layout().phase.store(Phase::Other.number(), Ordering::Relaxed);
    }

    #[cfg(feature = "recorder")]
    pub(crate) fn record(&self, name: &'static str, arguments: &[u64]) {
        if self.records {
            self.recorder.record(name, arguments);
        }
    }

    /// Ends a phase of the worker, and of the request that it serves.
    fn switch(&self, state: &mut State, next: Phase) -> u64 {
        let layout = self.layout();
        let before = self.phase_now();
        let since = layout.since.load(Ordering::Relaxed);
        let now = self.now().max(since);
        layout.since.store(now, Ordering::Relaxed);
        layout.phase.store(next.number(), Ordering::Relaxed);
        self.phase(before.number(), next.number(), now - since);
        if let Some(index) = state.current
            && let Some(span) = state.span(index)
        {
            span.spend(before, now);
        }
        now
    }

    fn begin_span(&self, state: &mut State, came: Came, now: u64) -> Option<u32> {
        let index = match state.free.pop() {
            Some(index) => index,
            None if state.spans.len() < REQUESTS_MAX => {
                state.spans.push(Span::new());
                u32::try_from(state.spans.len() - 1).ok()?
            }
            None => {
                crate::series::add(&self.layout().untraced, 1);
                return None;
            }
        };
        state.requests += 1;
        let number = state.requests;
        let span = state.span(index)?;
        *span = Span::new();
        span.number = number;
        span.since = now;
        span.came = now;
        if came != Came::default() {
            span.came = came.began.min(now);
            let whole = came.whole.clamp(span.came, now);
            span.phases[Phase::Receiving as usize] = whole - span.came;
            span.phases[Phase::Queued as usize] = now - whole;
        }
        Some(index)
    }

    fn note_slow(&self, state: &mut State, index: u32, total: u64) {
        let Some(span) = state.span(index).cloned() else { return };
        let event_ns = span.phases[Phase::Event as usize];
        if !state.slow.is_slow(total, event_ns) {
            return;
        }
        let phases = Phase::ALL.iter().copied().zip(span.phases).filter(|(_, ns)| *ns != 0);
        state.slow.push(SlowRequest {
            mid: span.mid,
            operation: span.operation.unwrap_or(Operation::Unknown),
            status: span.status,
            ns: total - event_ns,
            phases: phases.collect(),
            user: self.layout().users.name(span.subject.user),
            share: self.layout().shares.name(span.subject.share),
            open: span.subject.open,
        });
    }

    /// Counts a request, and forgets it.
    fn end_span(&self, state: &mut State, index: u32, now: u64) {
        let is_current = state.current == Some(index);
        let phase = self.phase_now();
        if is_current {
            state.current = None;
        }
        let Some(span) = state.span(index) else { return };
        span.spend(if is_current { phase } else { span.waits }, now);
        let Some(operation) = span.operation else {
            // Nothing came of it: the connection was ended before it was one.
            state.free.push(index);
            return;
        };
        let (operation, total) = (operation.number(), now.saturating_sub(span.came));
        for (phase, ns) in span.phases.iter().enumerate() {
            if *ns != 0 {
                let phase = u64::try_from(phase).unwrap_or(u64::MAX);
                self.request_phase(span.number, phase, *ns);
            }
        }
        // Errors have their two highest bits set: [MS-ERREF] 2.3.
        if span.status >= 0xC000_0000 {
            self.request_failed(operation, span.status.into());
        }
        let Span { read_bytes, written_bytes, subject, .. } = *span;
        let used = Use { ns: total, read_bytes, written_bytes };
        self.layout().shares.add(subject.share, &used);
        self.layout().users.add(subject.user, &used);
        self.request_end(span.mid, operation, span.status.into(), span.number, total);
        if state.slow.threshold != 0 {
            self.note_slow(state, index, total);
        }
        state.free.push(index);
    }
}

impl Span {
    fn new() -> Self {
        Self {
            mid: 0,
            number: 0,
            operation: None,
            status: CANCELLED,
            is_answered: false,
            came: 0,
            since: 0,
            waits: Phase::Queued,
            next: None,
            subject: Subject::default(),
            read_bytes: 0,
            written_bytes: 0,
            phases: [0; Phase::NAMES.len()],
        }
    }
}

impl fmt::Debug for Tracer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Tracer" } else { "Tracer(off)" })
    }
}

#[cfg(all(test, feature = "recorder"))]
mod tests;
