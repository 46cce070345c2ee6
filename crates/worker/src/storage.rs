//! The store of a worker, with what its operations touch: a connection's data, the kernel, traces.
//!
//! `Storage` is lent to the engine with each frame (`proto::Storage`), and serves the effects
//! that come without one. An operation is done at once, or goes to the ring or to a thread; its
//! request then waits in `store_requests`, and `store_ended` answers it by `Server::handle_reply`.

use std::collections::VecDeque;
use std::time::Duration;

use dtyp::NtStatus;
use object::{ObjectOp, ObjectResult, UserId};
use process::clocks::machine_clock;
use proto::{ConnectionId, Effect, RequestId, Requester};
use rustc_hash::FxHashMap;
use slab::Slab;
use store::piped::PIPED_LEN_MIN;
use store::{Continuation, Started, Store};
use trace::{Phase, Tracer};
use uring::{Completion, Driver, Op, Token};

use super::connection::Transport;
use super::event_loop::{Worker, store_token, submit};
use super::listings::{Listings, PendingListing};
use super::local_storage::LocalStorage;
use super::storage_threads::{Outcome, StorageThreads, WaitingRead};
use super::store_request::{Held, Origin, StoreRequest, Work};
use super::traced;

/// Time of an operation after which its request gets an interim response. Disks answer sooner.
const SLOW_TIME: Duration = Duration::from_millis(10);

/// Shortest READ whose data may go through a pipe, in bytes.
#[expect(clippy::cast_possible_truncation, reason = "it is 64 KiB")]
const LONG_READ_MIN: u32 = PIPED_LEN_MIN as u32;

/// The store of a worker, and the parts of the worker that its operations change, borrowed beside
/// the engine.
#[derive(Debug)]
pub(super) struct Storage<'w> {
    pub(super) store: &'w mut Store,
    pub(super) transports: &'w mut FxHashMap<ConnectionId, Transport>,
    requests: &'w mut Slab<StoreRequest>,
    threads: &'w mut StorageThreads<Worker>,
    listings: &'w mut Listings,
    local: &'w mut LocalStorage,
    next_slow: &'w mut Option<Duration>,
    /// Start of this turn of the loop.
    now: Duration,
    driver: &'w mut Driver,
    refused: &'w mut VecDeque<(Token, Op)>,
    trace: Tracer,
    /// True if every operation has to go through the queue of effects.
    is_delayed: bool,
}

impl proto::Storage for Storage<'_> {
    #[inline]
    fn may_begin_now(&mut self, _: &Effect) -> bool {
        !self.is_delayed
    }

    fn begin(&mut self, requester: Requester, user: UserId, op: ObjectOp) -> Option<ObjectResult> {
        let Requester { request, connection } = requester;
        let origin = Origin { request: Some(request), connection: Some(connection) };
        self.start(origin, user, op)
    }
}

impl Worker {
    /// Splits the worker into its engine and its store.
    pub(super) fn server_and_storage(&mut self) -> (&mut proto::Server, Storage<'_>) {
        let storage = Storage {
            is_delayed: self.slow_storage.is_on(),
            store: &mut self.store,
            transports: &mut self.transports,
            requests: &mut self.store_requests,
            threads: &mut self.storage_threads,
            listings: &mut self.listings,
            local: &mut self.local_storage,
            next_slow: &mut self.next_slow,
            now: self.turn.monotonic,
            driver: &mut self.driver,
            refused: &mut self.refused,
            trace: self.trace,
        };
        (&mut self.server, storage)
    }

    /// Executes an operation that came as an effect.
    pub(super) fn serve_object(&mut self, request: Option<RequestId>, user: UserId, op: ObjectOp) {
        let (server, mut storage) = self.server_and_storage();
        let connection = request.and_then(|request| server.connection_of(request));
        if let Some(result) = storage.start(Origin { request, connection }, user, op) {
            self.answer(request, proto::Reply::Object(result));
        }
    }

    /// Handles a completed operation of the ring for the store.
    pub(super) fn store_completed(&mut self, slot: usize, completion: Completion) {
        self.store_ended(slot, |store, continuation| {
            let continuation = continuation.expect("the kernel had a part of an operation");
            store.finish(continuation, completion.op, completion.result)
        });
    }

    /// Handles the results of the storage threads.
    pub(super) fn read_storage_threads(&mut self) {
        self.limit_storage_threads();
        for outcome in self.storage_threads.take_done(self.turn.monotonic) {
            match outcome {
                Outcome::Object { slot, result, is_slow } => {
                    if is_slow {
                        self.local_storage.operation_was_slow(self.turn.monotonic);
                    }
                    self.store_ended(slot, |_, _| Started::Done(result));
                }
                Outcome::Call(completed) => completed(self),
            }
            self.serve_effects();
        }
        self.watch_storage_threads();
    }

    /// Tells the storage threads how much may wait for the client: that changes with its first
    /// logon, and with the configuration.
    pub(super) fn limit_storage_threads(&mut self) {
        self.storage_threads.set_in_transit_max(self.server.memory().in_transit_max());
    }

    /// Refuses operations that a hanging storage thread has not begun, if requests hold too much of
    /// the client's memory.
    pub(super) fn refuse_excess(&mut self) {
        while let Some(slot) = self.storage_threads.take_excess(self.turn.monotonic) {
            let refused = Err(NtStatus::INSUFFICIENT_RESOURCES);
            self.store_ended(slot, |_, _| Started::Done(refused));
            self.serve_effects();
        }
    }

    /// Ends the operation of a canceled request, if its storage thread has not begun it.
    pub(super) fn withdraw(&mut self, request: RequestId) {
        let mut requests = self.store_requests.iter();
        let found = requests.find(|(_, it)| it.request == Some(request));
        let Some((slot, held)) = found.and_then(|(slot, it)| Some((slot, it.held?))) else {
            return;
        };
        if self.storage_threads.withdraw(held.store, slot) {
            self.store_ended(slot, |_, _| Started::Done(Err(NtStatus::CANCELLED)));
        }
    }

    /// Reports slow requests to the engine, which returns credits by interim responses.
    pub(super) fn report_slow_storage(&mut self) {
        let now = self.now();
        let is_due = |at: &mut Duration| *at <= now.monotonic;
        let mut due = Vec::new();
        for (slot, it) in &mut self.store_requests {
            if it.slow_at.take_if(is_due).is_some() {
                due.extend(it.request.map(|request| (slot, request)));
            }
        }
        for (slot, request) in due {
            let again_at = self.server.handle_slow(now, request);
            if let Some(it) = self.store_requests.get_mut(slot) {
                it.slow_at = again_at;
            }
        }
        self.next_slow = self.store_requests.iter().filter_map(|(_, it)| it.slow_at).min();
        self.serve_effects();
    }

    /// Carries out the next part of a listing or a query of ranges that has paused.
    pub(super) fn continue_listing(&mut self) {
        for slot in self.listings.take_new() {
            self.listing_paused(slot);
        }
        let Some(slot) = self.listings.next() else { return };
        if let Some(request) = self.request_of(slot) {
            self.server.handle_resumed(self.turn, request);
        }
        self.trace.enter(Phase::Storage);
        let began = machine_clock();
        let ended = self.listings.list_next_part(&mut self.store);
        let now = machine_clock();
        self.local_storage.listing_took(now, now.saturating_sub(began));
        self.trace.enter(Phase::Other);
        match ended {
            Some((slot, result)) => self.store_ended(slot, |_, _| Started::Done(result)),
            None => self.listing_paused(slot),
        }
        self.serve_effects();
    }

    fn listing_paused(&mut self, slot: usize) {
        if let Some(request) = self.request_of(slot) {
            self.server.handle_paused(self.turn, request);
        }
    }

    fn request_of(&self, slot: usize) -> Option<RequestId> {
        self.store_requests.get(slot)?.request
    }

    fn store_ended(
        &mut self,
        slot: usize,
        finish: impl FnOnce(&mut Store, Option<Continuation>) -> Started,
    ) {
        let (server, mut storage) = self.server_and_storage();
        let ended = storage.requests.remove(slot);
        let StoreRequest { request, continuation, work, reserved, held, .. } = ended;
        if storage.requests.is_empty() {
            *storage.next_slow = None;
        }
        if let Some((connection, bytes)) = reserved
            && let Some(transport) = storage.transports.get_mut(&connection)
        {
            transport.end_reservation(bytes);
        }
        if let Some(Held { store, bytes, read }) = held {
            storage.threads.release(store, bytes);
            let begin = read.map(|length| storage.threads.read_ended(store, length));
            for read in begin.into_iter().flatten() {
                storage.begin_read(read);
            }
        }
        storage.trace.enter(Phase::Storage);
        let started = finish(storage.store, continuation);
        let connection = request.and_then(|request| server.connection_of(request));
        if let Some(result) = storage.advance(Origin { request, connection }, work, started) {
            self.answer(request, proto::Reply::Object(result));
        }
    }
}

impl Storage<'_> {
    /// Starts an operation. `None` if its result comes later, from the ring or a thread.
    fn start(&mut self, origin: Origin, user: UserId, op: ObjectOp) -> Option<ObjectResult> {
        if !self.threads.is_empty() && self.threads.serves(op.store()) {
            return self.start_on_thread(origin, user, op);
        }
        let more_waits =
            !self.requests.is_empty() || self.transports.values().any(Transport::has_received);
        self.store.set_more_waits(more_waits);
        let work = traced::store_begins(self.trace, &op, origin.request.is_some());
        let is_long = match &op {
            ObjectOp::Read { length, may_pipe, .. } => *may_pipe && *length >= LONG_READ_MIN,
            ObjectOp::ReadDirectory { .. } | ObjectOp::AllocatedRanges { .. } => true,
            _ => false,
        };
        if is_long {
            return self.start_long(origin, work, user, op);
        }
        let started = self.store.start(user, op);
        self.advance(origin, work, started)
    }

    /// Starts a listing, which may pause, or a READ whose data may go through a pipe.
    fn start_long(
        &mut self,
        origin: Origin,
        work: Work,
        user: UserId,
        op: ObjectOp,
    ) -> Option<ObjectResult> {
        let mut op = match PendingListing::of(user, op) {
            Ok(pending) => return self.list(origin, work, pending),
            Err(op) => op,
        };
        let probed = self.choose_path(origin.connection, &mut op);
        let started = self.store.start(user, op);
        if let Some(probed) = probed {
            self.verify_path(probed, &started);
        }
        self.advance(origin, work, started)
    }

    /// Has a storage thread carry out an operation.
    #[cold]
    fn start_on_thread(
        &mut self,
        origin: Origin,
        user: UserId,
        mut op: ObjectOp,
    ) -> Option<ObjectResult> {
        let begun = traced::store_begins(self.trace, &op, origin.request.is_some());
        let work = Work { is_inline: false, ..begun };
        if spans_stores(&op) {
            // Clients copy such data themselves.
            let refused = Started::Done(Err(NtStatus::NOT_SUPPORTED));
            return self.advance(origin, work, refused);
        }
        let refused = match self.threads.has(op.store()) {
            false => Some(NtStatus::FILE_CLOSED),
            true if !self.threads.accepts(&op, self.now) => Some(NtStatus::INSUFFICIENT_RESOURCES),
            true => None,
        };
        if let Some(status) = refused {
            return self.advance(origin, work, Started::Done(Err(status)));
        }
        self.trace.enter(Phase::Other);
        let slot = self.keep(origin.request, None, work, None);
        let (store, bytes) = (op.store(), self.threads.hold(&op));
        self.requests[slot].held = Some(Held { store, bytes, read: None });
        let ObjectOp::Read { length, may_pipe, .. } = &mut op else {
            self.threads.submit((self.store, self.now), slot, user, op);
            return None;
        };
        // Pipes belong to the worker's store.
        *may_pipe = false;
        let length = usize::try_from(*length).expect("32 bits fit memory");
        let connection = origin.connection;
        if let Some(read) = self.threads.admit(WaitingRead { slot, user, op, length, connection }) {
            self.begin_read(read);
        }
        None
    }

    /// Has a storage thread begin a READ that it has room for.
    fn begin_read(&mut self, read: WaitingRead) {
        let WaitingRead { slot, user, op, length, connection } = read;
        let reserved = connection.and_then(|id| self.reserve(id, length));
        let request = &mut self.requests[slot];
        request.reserved = reserved;
        if let Some(held) = &mut request.held {
            self.threads.hold_buffer(held.store, length);
            (held.bytes, held.read) = (held.bytes + length, Some(length));
        }
        self.threads.submit((self.store, self.now), slot, user, op);
    }

    /// Lists a directory or ranges, or a part of them if that takes long: the rest follows in later
    /// turns.
    fn list(
        &mut self,
        origin: Origin,
        work: Work,
        mut pending: PendingListing,
    ) -> Option<ObjectResult> {
        if !self.listings.delay(&pending) {
            let began = machine_clock();
            match pending.list(self.store) {
                Ok(result) => return self.advance(origin, work, Started::Done(result)),
                Err(rest) => pending = rest,
            }
            let now = machine_clock();
            self.local.listing_took(now, now.saturating_sub(began));
        }
        self.trace.enter(Phase::Other);
        let bytes = Some(pending.bytes_max()).filter(|bytes| *bytes > 0);
        let reserved = origin.connection.zip(bytes).and_then(|(id, bytes)| self.reserve(id, bytes));
        let slot = self.keep(origin.request, None, work, reserved);
        self.listings.keep(slot, pending);
        None
    }

    /// Returns the result of an operation, or submits its next part to the ring.
    fn advance(&mut self, origin: Origin, work: Work, started: Started) -> Option<ObjectResult> {
        match started {
            Started::Done(result) => {
                let ticks = traced::store_ends(self.trace, work, &result);
                if work.is_inline && ticks >= self.local.slow_ticks {
                    self.local.inline_operation_was_slow(machine_clock(), ticks);
                }
                Some(result)
            }
            Started::Submit(op, continuation) => self.submit(origin, work, op, continuation),
        }
    }

    /// Submits an operation to the ring. There is no result yet.
    fn submit(
        &mut self,
        origin: Origin,
        work: Work,
        op: Op,
        continuation: Continuation,
    ) -> Option<ObjectResult> {
        self.trace.enter(Phase::Other);
        let length = match op {
            Op::ReadAt { length, .. } => Some(length),
            _ => None,
        };
        let reserved =
            origin.connection.zip(length).and_then(|(id, length)| self.reserve(id, length));
        let slot = self.keep(origin.request, Some(continuation), work, reserved);
        submit(self.driver, self.refused, store_token(slot), op);
        None
    }

    /// Keeps an operation that has not ended; returns its slot.
    fn keep(
        &mut self,
        request: Option<RequestId>,
        continuation: Option<Continuation>,
        work: Work,
        reserved: Option<(ConnectionId, usize)>,
    ) -> usize {
        let slow_at = self.now + SLOW_TIME;
        *self.next_slow = Some(self.next_slow.map_or(slow_at, |at| at.min(slow_at)));
        let slow_at = Some(slow_at);
        self.requests.insert(StoreRequest {
            request,
            continuation,
            work: Work { is_inline: false, ..work },
            slow_at,
            held: None,
            reserved,
        })
    }

    /// Reserves room for a READ's data at the connection, so that a client cannot request more than
    /// may wait for it.
    fn reserve(
        &mut self,
        connection: ConnectionId,
        length: usize,
    ) -> Option<(ConnectionId, usize)> {
        self.transports.get_mut(&connection)?.reserve(length);
        Some((connection, length))
    }
}

/// True for an operation between files of two stores.
fn spans_stores(op: &ObjectOp) -> bool {
    match op {
        ObjectOp::CopyRange { source, target, .. }
        | ObjectOp::CopyStreams { source, target }
        | ObjectOp::DuplicateExtents { source, target, .. } => source.store() != target.store(),
        _ => false,
    }
}
