//! Operations of the store in the middle of a frame.

use std::cell::RefCell;
use std::collections::VecDeque;

use dtyp::FileTime;
use object::{ObjectOp, ObjectResult, UserId};
use proto::{Effect, Reply, RequestId, Requester, Storage};

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
    pub(super) hold: Option<&'w Matches>,
    pub(super) now: FileTime,
    pub(super) at_once: &'w mut AtOnce,
    /// Answers to operations that began, for a later round.
    pub(super) begun: &'w mut VecDeque<(RequestId, Reply)>,
}

impl Storage for StorageAtOnce<'_> {
    fn takes(&mut self, effect: &Effect) -> bool {
        // A reply that a test delays is no reply at once.
        let is_held = self.hold.is_some_and(|matches| matches(effect));
        !is_held
            && match self.at_once {
                AtOnce::Always => true,
                AtOnce::Sometimes(random) => random.below(3) > 0,
            }
    }

    fn begin(&mut self, from: Requester, _: UserId, op: ObjectOp) -> Option<ObjectResult> {
        let Self { store, worker, now, at_once, begun, .. } = self;
        let result = engine::leave(|| worker::perform(store, worker.as_deref_mut(), *now, op));
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
