//! One module per SMB2 command: [MS-SMB2] 3.3.5.3 to 3.3.5.22.
//!
//! A command decides and returns; it never sends. Its checks stand in the order of its section,
//! which decides the status that a client sees when a request breaks two rules at once.

use wire::Decode;

use crate::engine::effect::Reply;
use crate::engine::pending_command::PendingCommand;
use crate::engine::request::Incoming;
use crate::engine::response::{Response, Step};
use crate::engine::scope::Scope;
use crate::model::reject::Reject;

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
    type Pending: PendingCommand;

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

    /// How a request ends whose session or tree connect ended while it waited, if not with what
    /// [`PendingCommand::abandon`] says.
    fn outlived() -> Option<Response> {
        None
    }
}
