//! A command for a shell that runs in the folder of a share, and prints figures of its storage.

use std::num::ParseIntError;
use std::path::Path;

use config::{Share, ShellCommand, Substitutions};

/// Bytes of a block unless the command prints them.
pub(super) const BLOCK_BYTES: u64 = 1_024;

/// Variable with the folder of the share, in which the command runs.
const FOLDER: &str = "CHORO_FOLDER";

/// Returns a command of a share, without arguments.
pub(super) fn of(text: &str, share: &Share, substitutions: &Substitutions) -> ShellCommand {
    let mut command = substitutions.shell_command(text, &share.path);
    // The shell changes its directory with the rights of the user, and in its own time.
    command.script = format!("cd -- \"${{{FOLDER}}}\" || exit\n{}", command.script.trim_end());
    command.variables.insert(FOLDER.to_owned(), substitutions.expand_path(&share.path));
    command
}

/// Has a command get the values of these variables as arguments.
pub(super) fn add_arguments(command: &mut ShellCommand, variables: &[&str]) {
    for name in variables {
        command.script.push_str(&format!(" \"${{{name}}}\""));
    }
}

/// Has `%P`, and the folder in which the command runs, be this one of a user. `None` if a shell
/// could interpret its path.
pub(super) fn set_folder(command: &mut ShellCommand, folder: &Path) -> Option<()> {
    command.set_folder(folder)?;
    command.variables.insert(FOLDER.to_owned(), folder.to_str()?.to_owned());
    Some(())
}

/// Returns the bytes of a block by the last number that a command prints, if it prints one. `None`
/// if they cannot be those of a block.
pub(super) fn block_bytes(printed: Option<Result<u64, ParseIntError>>) -> Option<u64> {
    match printed {
        Some(bytes) => bytes.ok().filter(|bytes| *bytes > 0),
        None => Some(BLOCK_BYTES),
    }
}
