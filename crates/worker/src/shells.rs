//! Commands of shares, which another process runs: a worker may execute nothing.

use config::ShellCommand;
use process::{CommandRequest, PassedCommand};
use shares::command_user::CommandUser;
use tracing::{debug, warn};

use super::event_loop::Worker;

/// Use of a command's output.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Output {
    /// It goes to `/dev/null`, unread.
    Dropped,
    /// The beginning of it is kept.
    Kept,
}

impl Worker {
    /// Has a shell run a command, as this user if there is one, for the one with this SID.
    ///
    /// # Errors
    /// Says in words what prevents it.
    pub(super) fn start_shell(
        &mut self,
        command: &ShellCommand,
        user: &CommandUser,
        output: Output,
    ) -> Result<PassedCommand, String> {
        // The socket is the server's.
        if !self.store.revert_to_server() && user.identity.is_some() {
            return Err("the server's rights are not there".to_owned());
        }
        let ShellCommand { script, variables } = command.clone();
        let CommandUser { identity, requester, .. } = user.clone();
        let keeps_output = output == Output::Kept;
        let request = CommandRequest { script, variables, identity, requester, keeps_output };
        PassedCommand::start(&self.settings.directories.lock, &request)
            .map_err(|error| error.to_string())
    }
}

/// Logs that a command has failed. Guests cause that at will, perhaps with names of their choice,
/// so their lines are for an operator who debugs.
pub(super) fn log_failure(is_guest: bool, line: &str) {
    match is_guest {
        true => debug!("{line}"),
        false => warn!("{line}"),
    }
}
