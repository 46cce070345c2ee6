//! The store of a worker, with what its operations touch: a connection's data, the kernel, traces.

use std::collections::VecDeque;

use object::{ObjectOp, ObjectResult, UserId};
use proto::{ConnectionId, Effect, RequestId, Requester};
use rustc_hash::FxHashMap;
use slab::Slab;
use store::{Started, Store};
use trace::{Phase, Tracer};
use uring::{Completion, Driver, Op, Token};

use super::connection::Channel;
use super::event_loop::{Worker, store_token, submit};
use super::store_request::{StoreRequest, Work};
use super::traced;

/// The store, while the rest of the worker does something else.
#[derive(Debug)]
pub(super) struct Storage<'w> {
    pub(super) store: &'w mut Store,
    pub(super) channels: &'w mut FxHashMap<ConnectionId, Channel>,
    requests: &'w mut Slab<StoreRequest>,
    driver: &'w mut Driver,
    refused: &'w mut VecDeque<(Token, Op)>,
    trace: Tracer,
    /// Every operation has to pass through the queue of effects.
    is_delayed: bool,
}

impl proto::Storage for Storage<'_> {
    #[inline]
    fn takes(&mut self, _: &Effect) -> bool {
        !self.is_delayed
    }

    fn begin(&mut self, requester: Requester, user: UserId, op: ObjectOp) -> Option<ObjectResult> {
        self.start((Some(requester.request), Some(requester.connection)), user, op)
    }
}

impl Worker {
    /// Splits the worker into its engine and its store.
    pub(super) fn server_and_storage(&mut self) -> (&mut proto::Server, Storage<'_>) {
        let storage = Storage {
            is_delayed: self.slow_storage.is_on(),
            store: &mut self.store,
            channels: &mut self.channels,
            requests: &mut self.store_requests,
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
        if let Some(result) = storage.start((request, connection), user, op) {
            self.answer(request, proto::Reply::Object(result));
        }
    }

    /// The kernel has done something for the store.
    pub(super) fn store_completed(&mut self, slot: usize, completion: Completion) {
        let (server, mut storage) = self.server_and_storage();
        let StoreRequest { request, continuation, work, promised } = storage.requests.remove(slot);
        if let Some((connection, bytes)) = promised
            && let Some(channel) = storage.channels.get_mut(&connection)
        {
            channel.keep_promise(bytes);
        }
        storage.trace.enter(Phase::Storage);
        let started = storage.store.finish(continuation, completion.op, completion.result);
        let connection = request.and_then(|request| server.connection_of(request));
        if let Some(result) = storage.go_on((request, connection), work, started) {
            self.answer(request, proto::Reply::Object(result));
        }
    }
}

impl Storage<'_> {
    /// Starts an operation, for a request if one waits for it. Without a result, the kernel has it.
    fn start(
        &mut self,
        (request, connection): (Option<RequestId>, Option<ConnectionId>),
        user: UserId,
        mut op: ObjectOp,
    ) -> Option<ObjectResult> {
        let more_waits =
            !self.requests.is_empty() || self.channels.values().any(Channel::has_received);
        self.store.set_more_waits(more_waits);
        let room = match &op {
            ObjectOp::Read { buffer, .. } => buffer.len(),
            _ => 0,
        };
        let work = self.trace.store_begins(traced::operation(&op), request.is_some());
        let work = Work { work, room };
        let probed = self.choose_way(connection, &mut op);
        let started = self.store.start(user, op);
        if let Some(probed) = probed {
            self.look_at_way(probed, &started);
        }
        self.go_on((request, connection), work, started)
    }

    fn go_on(
        &mut self,
        (request, connection): (Option<RequestId>, Option<ConnectionId>),
        work: Work,
        started: Started,
    ) -> Option<ObjectResult> {
        match started {
            Started::Done(result) => {
                let (bytes, status) = traced::outcome(&result, work.room);
                self.trace.store_ends(work.work, bytes, status);
                Some(result)
            }
            Started::Submit(op, continuation) => {
                self.trace.enter(Phase::Other);
                let promised = connection.and_then(|connection| self.promise(connection, &op));
                let request = StoreRequest { request, continuation, work, promised };
                let slot = self.requests.insert(request);
                submit(self.driver, self.refused, store_token(slot), op);
                None
            }
        }
    }

    /// Reserves room for a READ's data at the connection, so that a client cannot request more than
    /// may wait for it.
    fn promise(&mut self, connection: ConnectionId, op: &Op) -> Option<(ConnectionId, usize)> {
        let Op::ReadAt { length, .. } = *op else { return None };
        self.channels.get_mut(&connection)?.promise(length);
        Some((connection, length))
    }
}
