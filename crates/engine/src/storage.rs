//! The file store, as far as it begins operations while their requests are served.
//!
//! Most operations of a request are answered at once: data in the page cache, names in the
//! directory cache. Then the request goes on where it was, with everything that was looked up for
//! it. Any other operation becomes an [`Effect`], or is answered later.

use model::connection::ConnectionId;
use model::open::Open;
use model::request_id::RequestId;
use model::tree_connect::TreeConnect;
use object::{FileIdentity, ObjectOp, ObjectResult, UserId};
use qos::Classes;
use trace::Phase;
use wire::Command;

use crate::effect::Effect;
use crate::globals::Globals;
use crate::pending_command::PendingCommand;
use crate::request::Incoming;
use crate::response::Step;

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
    fn takes(&mut self, effect: &Effect) -> bool;

    /// Begins an operation. Without a result, it is answered by
    /// [`Server::handle_reply`](crate::Server::handle_reply).
    fn begin(&mut self, requester: Requester, user: UserId, op: ObjectOp) -> Option<ObjectResult>;
}

/// A file store that takes operations as effects only.
#[derive(Clone, Copy, Debug)]
pub struct EffectsOnly;

impl Storage for EffectsOnly {
    fn takes(&mut self, _: &Effect) -> bool {
        false
    }

    fn begin(&mut self, _: Requester, _: UserId, op: ObjectOp) -> Option<ObjectResult> {
        unreachable!("{op:?} was not taken")
    }
}

/// What a request of the store needs from its scope.
#[derive(Debug)]
pub struct InStorage<'s> {
    /// The file that is open, and the volatile id of the open.
    pub file: Option<(FileIdentity, u64)>,
    /// The classes whose limits the request has to keep.
    pub classes: Option<&'s Classes>,
    /// Everything that belongs to no connection or session.
    pub globals: &'s mut Globals,
}

impl<'s> InStorage<'s> {
    pub(crate) fn new(
        open: Option<&'s Open>,
        tree: &'s TreeConnect,
        globals: &'s mut Globals,
    ) -> Self {
        let file = open.and_then(|open| {
            let file = open.file().ok()?;
            Some((file.identity, open.file_id.volatile))
        });
        let classes = open.map_or(&tree.classes.always, |open| &open.classes).as_ref();
        Self { file, classes, globals }
    }
}

/// How far an operation got: see [`InStorage::ask_at_once`].
#[derive(Debug)]
pub enum StorageOutcome<P> {
    /// The store has answered the operation.
    Answered(ObjectResult, P),
    /// The request has to wait.
    Waits(Step<P>),
}

impl InStorage<'_> {
    /// Asks the store at once, if that changes nothing for anybody else: no effect waits before
    /// this one, handlers have left nothing behind, and no class limits the request.
    #[inline]
    pub fn ask_at_once<P: PendingCommand>(
        self,
        incoming: &Incoming,
        is_alone: bool,
        effect: Effect,
        pending: P,
        storage: &mut dyn Storage,
    ) -> StorageOutcome<P> {
        let Self { file, classes, globals } = self;
        // A CLOSE is never throttled.
        let is_free = classes.is_none() || incoming.header.command == Command::CLOSE;
        let is_next = globals.outbox.effects.is_empty() && globals.is_quiet(is_alone);
        let takes = is_free && is_next && storage.takes(&effect);
        let (user, op) = match effect {
            Effect::Object { user, op } if takes => (user, op),
            effect => return StorageOutcome::Waits(Step::Wait(effect, pending)),
        };
        let changed = file.filter(|_| op.changes_contents()).or_else(|| pending.changes());
        incoming.trace.wait(Phase::Storage);
        let requester = Requester { request: incoming.id, connection: incoming.connection };
        let Some(result) = storage.begin(requester, user, op) else {
            return StorageOutcome::Waits(Step::Begun { pending, changed });
        };
        incoming.trace.resume();
        if let Some((identity, volatile)) = changed
            && globals.files.word(identity).readers > 0
        {
            // Clients that have read the file meanwhile may cache its former contents. If the
            // record cannot be read, nobody can be notified.
            let _ = globals.files.break_after_change(identity, volatile);
        }
        StorageOutcome::Answered(result, pending)
    }
}
