//! Free space of a share as a command prints it: `dfree command`.

use std::path::Path;
use std::time::Duration;

use config::{ShellCommand, Substitutions, is_plain_path};
use object::{FreeSpace, ObjectPath};

use super::command_user::CommandUser;
use super::folder_command::{self, block_bytes};

/// Variable with the argument of the command.
const DIRECTORY: &str = "CHORO_DIRECTORY";

/// A command that prints the free space of a share, for one tree connect.
#[derive(Clone, Debug)]
pub struct FreeSpaceCommand {
    /// Name of the share, for the log.
    pub share: String,
    /// User whose tree connect it is for.
    pub user: CommandUser,
    /// Time for which an answer is cached ("dfree cache time").
    pub cache_time: Duration,
    /// Text for the shell and the values in it, but the argument.
    command: ShellCommand,
}

/// True if a command prints the free space of this share.
pub(super) fn has_command(share: &config::Share) -> bool {
    !share.dfree_command.trim().is_empty()
}

/// Size in bytes that no volume seems to exceed (`max disk size`).
pub(super) fn volume_bytes_max(global: &config::Global) -> Option<u64> {
    (global.max_disk_size > 0).then(|| u64::from(global.max_disk_size) << 20)
}

impl FreeSpaceCommand {
    /// Returns the command of a share, if it has one.
    pub(super) fn of(
        share: &config::Share,
        substitutions: &Substitutions,
        user: CommandUser,
    ) -> Option<Self> {
        if !has_command(share) {
            return None;
        }
        let mut command = folder_command::of(&share.dfree_command, share, substitutions);
        folder_command::add_arguments(&mut command, &[DIRECTORY]);
        let cache_time = Duration::from_secs(share.dfree_cache_time.into());
        let share = share.name.clone();
        Some(Self { share, user, cache_time, command })
    }

    /// Has `%P`, and the folder in which the command runs, be this one of a user. `None` if a shell
    /// could interpret its path.
    pub(super) fn set_folder(&mut self, folder: &Path) -> Option<()> {
        folder_command::set_folder(&mut self.command, folder)
    }

    /// Returns the command for a path of the share.
    #[must_use]
    pub fn for_argument(&self, argument: &str) -> ShellCommand {
        let mut command = self.command.clone();
        command.variables.insert(DIRECTORY.to_owned(), argument.to_owned());
        command
    }
}

/// Returns the argument of a command for a path: `.`, or `./` and the path. Commands can pass it to
/// a second shell, so a path with characters that mean something there is that of the share.
#[must_use]
pub fn argument(path: &ObjectPath) -> String {
    match path.as_str() {
        plain if !plain.is_empty() && is_plain_path(plain) => format!("./{plain}"),
        _ => ".".to_owned(),
    }
}

/// Reads the output of a command: the size, the free space, and optionally the bytes of a block, in
/// its first line.
#[must_use]
pub fn parse(output: &[u8]) -> Option<FreeSpace> {
    let text = str::from_utf8(output).ok()?;
    let mut words = text.lines().next()?.split_ascii_whitespace();
    let mut number = || words.next().map(str::parse::<u64>);
    let (total, available) = (number()?.ok()?, number()?.ok()?);
    let block_bytes = block_bytes(number())?;
    Some(FreeSpace {
        total_bytes: total.saturating_mul(block_bytes),
        available_bytes: available.saturating_mul(block_bytes),
        block_bytes,
    })
}

#[cfg(test)]
mod tests {
    use object::{FreeSpace, ObjectPath};

    use super::{argument, parse};

    #[test]
    fn two_numbers_are_blocks_of_1024_bytes_and_a_third_is_their_size() {
        let figures = |total_bytes, available_bytes, block_bytes| {
            Some(FreeSpace { total_bytes, available_bytes, block_bytes })
        };
        assert_eq!(parse(b"100 50\n"), figures(102_400, 51_200, 1_024));
        assert_eq!(parse(b"  100\t50  512 more\nlines\n"), figures(51_200, 25_600, 512));
        assert_eq!(parse(b"100 0"), figures(102_400, 0, 1_024), "a full share is full");
        let most = format!("{0} {0} {0}", u64::MAX);
        assert_eq!(parse(most.as_bytes()), figures(u64::MAX, u64::MAX, u64::MAX));
    }

    #[test]
    fn other_output_is_no_answer() {
        for output in ["", "\n100 50", "100", "100 x", "-1 5", "100 50 0", "100 50 x", "100K 5K"] {
            assert_eq!(parse(output.as_bytes()), None, "{output}");
        }
        assert_eq!(parse(b"100 50\xff"), None);
    }

    #[test]
    fn a_path_with_characters_for_a_shell_is_that_of_the_share() {
        let of = |path: &str| argument(&ObjectPath::from_stored(path.to_owned(), None));
        assert_eq!(of(""), ".");
        assert_eq!(of("films/2026"), "./films/2026");
        assert_eq!(of("-rf"), "./-rf");
        for evil in ["$(echo)", "`echo`", "a b", "a;b", "a'b", "a\"b", "a\nb", "a*", "a\\b"] {
            assert_eq!(of(evil), ".", "{evil}");
        }
    }
}
