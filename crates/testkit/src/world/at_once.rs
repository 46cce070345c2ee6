//! Operations of the store in the middle of a frame.

use std::cell::RefCell;
use std::collections::VecDeque;

use dtyp::FileTime;
use object::{ObjectOp, ObjectResult, UserId};
use proto::{Effect, Reply, RequestId, Requester, Storage};
use trace::{StoreOperation, Tracer};

use super::worker::{self, Worker};
use super::{Matches, engine};
use crate::entropy::Random;
use crate::store::MemoryStore;

/// Which operations of the store are answered at once.
#[derive(Debug)]
pub(super) enum AtOnce {
    /// All operations, without a choice.
    Always,
    /// A third or so, at random. Others become effects, or begin and are answered later.
    Sometimes(Random),
}

impl AtOnce {
    pub(super) fn new(seed: u64) -> Self {
        // Another sequence than that of the server's entropy.
        Self::Sometimes(Random::new(!seed))
    }
}

/// The store of a world, as it is given to the engine together with a frame.
pub(super) struct StorageAtOnce<'w> {
    pub(super) store: &'w RefCell<MemoryStore>,
    pub(super) worker: Option<&'w mut Worker>,
    pub(super) delays: Option<&'w Matches>,
    pub(super) now: FileTime,
    pub(super) at_once: &'w mut AtOnce,
    pub(super) trace: Tracer,
    /// Answers to operations that began, for a later round.
    pub(super) begun: &'w mut VecDeque<(RequestId, Reply)>,
}

impl Storage for StorageAtOnce<'_> {
    fn may_begin_now(&mut self, effect: &Effect) -> bool {
        // A reply that a test delays is no reply at once.
        let is_delayed = self.delays.is_some_and(|matches| matches(effect));
        !is_delayed
            && match self.at_once {
                AtOnce::Always => true,
                AtOnce::Sometimes(random) => random.below(3) > 0,
            }
    }

    fn begin(&mut self, from: Requester, _: UserId, op: ObjectOp) -> Option<ObjectResult> {
        let Self { store, worker, now, at_once, begun, trace, .. } = self;
        let result = engine::leave(|| {
            if !matches!(at_once, AtOnce::Always) {
                return worker::perform(store, worker.as_deref_mut(), *now, op);
            }
            let work = trace.store_begins(operation(&op), true);
            let result = worker::perform(store, worker.as_deref_mut(), *now, op);
            trace.store_ends(work, 0, result.as_ref().err().map_or(0, |status| status.0));
            result
        });
        let is_late = match at_once {
            AtOnce::Always => false,
            AtOnce::Sometimes(random) => random.below(2) == 0,
        };
        if !is_late {
            return Some(result);
        }
        let reply = Reply::Object(result);
        match worker {
            Some(worker) => worker.keep_answer(from.request, reply),
            None => begun.push_back((from.request, reply)),
        }
        None
    }
}

/// Kind of an operation in traces, as far as instructions are counted for it.
fn operation(op: &ObjectOp) -> StoreOperation {
    match op {
        ObjectOp::Open(_) => StoreOperation::Open,
        ObjectOp::Close { .. } => StoreOperation::Close,
        ObjectOp::Read { .. } => StoreOperation::Read,
        ObjectOp::Write { .. } => StoreOperation::Write,
        ObjectOp::ReadDirectory { .. } => StoreOperation::ReadDirectory,
        _ => StoreOperation::Other,
    }
}
