//! One module per SMB2 command: [MS-SMB2] 3.3.5.3 to 3.3.5.22.
//!
//! A command decides and returns; it never sends. It checks in the order of its section of the
//! specification, because that order decides the status of a request that breaks two rules at once.

use engine::effect::Reply;
use engine::pending_command::PendingCommand;
use engine::request::Incoming;
use engine::response::{Response, Step};
use engine::scope::Scope;
use model::reject::Reject;
use wire::Decode;

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

pub mod echo;
pub mod ioctl;

pub mod change_notify;
pub mod oplock_break;
pub mod query_directory;
pub mod query_info;
pub mod set_info;

/// One command of the SMB2 protocol.
pub trait Command {
    /// Objects to look up before the command runs.
    type Scope<'s>: for<'a> Scope<'s, Shorter<'a> = Self::Scope<'a>>;
    /// Body of the command's request.
    type Request<'a>: Decode<'a>;
    /// State of the command while it is pending.
    type Pending: PendingCommand;

    /// Begins to serve a request.
    ///
    /// # Errors
    /// The rule that the request breaks.
    fn start(
        scope: Self::Scope<'_>,
        incoming: &Incoming,
        request: Self::Request<'_>,
    ) -> Result<Step<Self::Pending>, Reject>;

    /// Resumes a request after a reply or a wake-up. The scope was looked up again.
    ///
    /// # Errors
    /// The rule that the request breaks, or the store's refusal.
    fn resume(
        scope: Self::Scope<'_>,
        incoming: &Incoming,
        pending: Self::Pending,
        reply: Reply,
    ) -> Result<Step<Self::Pending>, Reject>;

    /// Returns the response to a request whose session or tree connect ended while it was pending;
    /// without one, [`PendingCommand::abandon`] decides.
    fn outlived() -> Option<Response> {
        None
    }
}
