//! Progress of a request that waits, kept by its command.

use std::any::Any;
use std::convert::Infallible;
use std::fmt::Debug;

use arbitration::FileKey;
use object::FileIdentity;

use crate::engine::effect::{Effect, Reply};
use crate::model::reject::Reject;

/// Bytes that a command may keep while its request waits, without those that it keeps elsewhere.
pub(crate) const PENDING_COMMAND_BYTES: usize = 128;

/// What a command keeps while its request waits. `dispatch` hands it back to the command.
pub trait PendingCommand: Any + Debug {
    /// The file for whose record to change a suspended request waits, if it does.
    fn waits_for(&self) -> Option<FileKey> {
        None
    }

    /// The file whose contents are being changed, and the open through which, if the request does
    /// not name that.
    fn changes(&self) -> Option<(FileIdentity, u64)> {
        None
    }

    /// True for a request that ends with its connection, because its client can only send it anew.
    fn ends_with_connection(&self, is_suspended: bool) -> bool {
        _ = is_suspended;
        false
    }

    /// Gives up what is held, because the request was cancelled (no reply) or its scope was gone
    /// when the reply came.
    fn abandon(self: Box<Self>, reply: Option<Reply>) -> Abandoned {
        drop(reply);
        Abandoned::default()
    }
}

/// Of commands that never wait.
impl PendingCommand for Infallible {}

impl dyn PendingCommand {
    /// Returns what is kept, if it is of this type.
    pub(crate) fn downcast_ref<P: PendingCommand>(&self) -> Option<&P> {
        let any: &dyn Any = self;
        any.downcast_ref()
    }

    /// Returns what is kept by a command whose requests keep this type.
    ///
    /// # Panics
    /// If another command has made it: `dispatch` goes by the code in the request's header, which
    /// never changes.
    pub(crate) fn downcast<P: PendingCommand>(self: Box<Self>) -> P {
        let any: Box<dyn Any> = self;
        *any.downcast().expect("a command is resumed with what it has kept")
    }
}

/// How a request ends that cannot go on.
#[derive(Debug, Default)]
pub struct Abandoned {
    /// What must be undone in the world.
    pub effect: Option<Effect>,
    /// What the client is told; by default what made the request end.
    pub reject: Option<Reject>,
}
