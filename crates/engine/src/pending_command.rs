//! State of a pending request, kept for its command.

use std::any::Any;
use std::convert::Infallible;
use std::fmt::Debug;

use arbitration::FileKey;
use model::reject::Reject;
use object::FileIdentity;

use crate::change::AddedName;
use crate::effect::{Effect, Reply, Unlocked};
use crate::notice::AuditRecord;

/// Highest size of a command's state, in bytes, without memory on the heap.
pub const PENDING_COMMAND_BYTES: usize = 128;

/// State of a command while its request is pending. `dispatch` hands it back to the command.
pub trait PendingCommand: Any + Debug {
    /// Returns the file whose record a suspended request waits for, if any.
    fn waits_for(&self) -> Option<FileKey> {
        None
    }

    /// True if a suspended request may wait for a local program, which notifies nobody: the file is
    /// then checked every [`LOCAL_CHECK_INTERVAL`].
    ///
    /// [`LOCAL_CHECK_INTERVAL`]: crate::files::LOCAL_CHECK_INTERVAL
    fn waits_for_program(&self) -> bool {
        false
    }

    /// True for a suspended request without an interim response, whose compound is answered as a
    /// whole.
    fn is_silent(&self) -> bool {
        false
    }

    /// Returns the file whose contents the store is changing, and the volatile id of the open, if
    /// the request does not name the open itself. Read caching granted meanwhile is broken when the
    /// reply comes.
    fn file_being_changed(&self) -> Option<(FileIdentity, u64)> {
        None
    }

    /// True for a request that ends with its connection, because its client can only send it anew.
    fn ends_with_connection(&self, is_suspended: bool) -> bool {
        _ = is_suspended;
        false
    }

    /// Returns whether another pending request is the same one to its client, which sent it twice.
    fn is_same(&self, other: &dyn PendingCommand) -> bool {
        _ = other;
        false
    }

    /// Releases the state's resources, because the request cannot be resumed.
    ///
    /// Without a reply, the request was suspended or throttled, so the store holds nothing for it:
    /// a request that waits for the store is never ended before the reply. With one, its session,
    /// tree connect or open was gone when the reply came, and what the store has opened must be
    /// closed.
    fn abandon(self: Box<Self>, reply: Option<Reply>) -> Abandoned {
        drop(reply);
        Abandoned::default()
    }
}

/// State of commands that never wait.
impl PendingCommand for Infallible {}

impl dyn PendingCommand {
    /// Returns the state, if it has this type.
    pub fn downcast_ref<P: PendingCommand>(&self) -> Option<&P> {
        let any: &dyn Any = self;
        any.downcast_ref()
    }

    /// Returns the state of a command whose requests have this type.
    ///
    /// # Panics
    /// If another command has made it: `dispatch` goes by the code in the request's header, which
    /// never changes.
    pub fn downcast<P: PendingCommand>(self: Box<Self>) -> P {
        let any: Box<dyn Any> = self;
        *any.downcast().expect("a command is resumed with what it has kept")
    }
}

/// End of a request that cannot be resumed.
#[derive(Debug, Default)]
pub struct Abandoned {
    /// Effect that releases the request's resources.
    pub effect: Option<Effect>,
    /// Volatile id of an open in the tables that its client does not know of.
    pub unknown_open: Option<u64>,
    /// Reason in the response; by default the reason for which the request ended.
    pub reject: Option<Reject>,
    /// A name that the store has added for the request.
    pub added: Option<Box<AddedName>>,
    /// Byte-range locks of an open that the store closes meanwhile.
    pub unlocked: Option<Unlocked>,
    /// Record of the request for the audit of its share, even if its client gets no response.
    pub audited: Option<Box<AuditRecord>>,
}
