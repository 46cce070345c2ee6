//! The user of a tree connect that has commands.

use process::Identity;

/// User whose commands run, and for whom.
#[derive(Clone, Debug)]
pub struct CommandUser {
    /// User to run a command; none for that of the server.
    pub identity: Option<Identity>,
    /// Name of the user who is served.
    pub requester: String,
    /// Guests write no line into the log by commands that fail.
    pub is_guest: bool,
}
