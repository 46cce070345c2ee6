//! The file store, as far as it begins operations while their requests are served.
//!
//! Most operations of a request are answered at once: data in the page cache, names in the
//! directory cache. Then the request goes on where it was, with everything that was looked up for
//! it. Any other operation becomes an [`Effect`], or is answered later.
//!
//! `proto::dispatch` calls `ask_at_once` (`scope`) for each `Step::Wait` of a command. The
//! worker implements [`Storage`] with its store and passes it to `handle_frame_with`; requests that
//! are resumed by other events get [`EffectsOnly`]. The order of operations stays that of the
//! requests: nothing begins at once while an effect waits or a handler has left work behind.

use model::connection::ConnectionId;
use model::request_id::RequestId;
use object::{ObjectOp, ObjectResult, UserId};

use crate::effect::Effect;

/// A request, and the connection that its response is for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Requester {
    /// The request that the operation is for.
    pub request: RequestId,
    /// The connection on which it is answered.
    pub connection: ConnectionId,
}

/// A file store that may answer at once.
pub trait Storage {
    /// Returns true if the operation of this effect may begin now. Otherwise the effect is polled.
    fn may_begin_now(&mut self, effect: &Effect) -> bool;

    /// Begins an operation. Without a result, it is answered by
    /// [`Server::handle_reply`](crate::Server::handle_reply).
    fn begin(&mut self, requester: Requester, user: UserId, op: ObjectOp) -> Option<ObjectResult>;
}

/// A file store that takes operations as effects only.
#[derive(Clone, Copy, Debug)]
pub struct EffectsOnly;

impl Storage for EffectsOnly {
    fn may_begin_now(&mut self, _: &Effect) -> bool {
        false
    }

    fn begin(&mut self, _: Requester, _: UserId, op: ObjectOp) -> Option<ObjectResult> {
        unreachable!("{op:?} was not taken")
    }
}
