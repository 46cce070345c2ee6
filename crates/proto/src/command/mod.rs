//! One module per SMB2 command: [MS-SMB2] 3.3.5.3 to 3.3.5.22.
//!
//! A command decides and returns; it never sends. Its checks stand in the order of its section,
//! which decides the status that a client sees when a request breaks two rules at once.

use std::fmt::Debug;

use arbitration::FileKey;
use object::FileIdentity;
use wire::Decode;

use crate::dispatch::Pending;
use crate::effect::{Effect, Reply};
use crate::reject::Reject;
use crate::request::Incoming;
use crate::response::{Response, Step};
use crate::scope::Scope;

pub mod logoff;
pub mod negotiate;
pub mod session_setup;
pub mod tree_connect;
pub mod tree_disconnect;

pub mod close;
pub mod create;
pub mod flush;
pub mod lock;
pub mod read;
pub mod write;

pub mod cancel;
pub mod echo;
pub mod ioctl;

pub mod change_notify;
pub mod oplock_break;
pub mod query_directory;
pub mod query_info;
pub mod set_info;

/// One SMB2 command.
pub trait Command {
    /// What must be resolved before the command runs.
    type Scope<'s>: Scope<'s>;
    /// The body of its request.
    type Request<'a>: Decode<'a>;
    /// What the command keeps while it waits.
    type Pending: Debug + Into<Pending>;

    /// Begins to serve a request.
    ///
    /// # Errors
    /// The rule that the request breaks.
    fn start(
        scope: Self::Scope<'_>,
        incoming: &Incoming,
        request: Self::Request<'_>,
    ) -> Result<Step, Reject>;

    /// Goes on after a reply or a wake-up. The scope was resolved anew.
    ///
    /// # Errors
    /// The rule that the request breaks, or the store's refusal.
    fn resume(
        scope: Self::Scope<'_>,
        incoming: &Incoming,
        pending: Self::Pending,
        reply: Reply,
    ) -> Result<Step, Reject>;

    /// The file for whose record to change a suspended request waits, if it does.
    fn waits_for(pending: &Self::Pending) -> Option<FileKey> {
        _ = pending;
        None
    }

    /// The file whose contents are being changed, and the open through which, if the request does
    /// not name that.
    fn changes(pending: &Self::Pending) -> Option<(FileIdentity, u64)> {
        _ = pending;
        None
    }

    /// Gives up what `pending` holds, because the request was cancelled (no reply) or its scope
    /// was gone when the reply came.
    fn abandon(pending: Self::Pending, reply: Option<Reply>) -> Abandoned {
        drop((pending, reply));
        Abandoned::default()
    }

    /// How a request ends whose session or tree connect ended while it waited, if not with what
    /// [`Command::abandon`] says.
    fn outlived() -> Option<Response> {
        None
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
