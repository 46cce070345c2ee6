//! Commands that tell and set quotas in the place of the file system: `get quota command` and `set
//! quota command`.

use std::path::Path;

use config::{ShellCommand, Substitutions};
use object::{Quota, QuotaChange, QuotaLimits, QuotaState, QuotaSubject, ToldQuota};

use super::command_user::CommandUser;
use super::folder_command::{self, BLOCK_BYTES, block_bytes};

/// Variables with arguments of the commands.
const TYPE: &str = "CHORO_QUOTA_TYPE";
const ID: &str = "CHORO_QUOTA_ID";
const STATE: &str = "CHORO_QUOTA_STATE";
const SOFT: &str = "CHORO_QUOTA_SOFT";
const HARD: &str = "CHORO_QUOTA_HARD";

/// The commands for quotas of one tree connect.
#[derive(Clone, Debug)]
pub struct QuotaCommands {
    /// Name of the share, for the log.
    pub share: String,
    /// User whose tree connect they are for.
    pub user: CommandUser,
    /// Texts for the shell and the values in them, but the arguments.
    get: Option<ShellCommand>,
    set: Option<ShellCommand>,
}

/// Returns which commands a configuration has.
pub(super) fn of(global: &config::Global) -> proto::share::QuotaCommands {
    let has = |text: &str| !text.trim().is_empty();
    proto::share::QuotaCommands {
        get: has(&global.get_quota_command),
        set: has(&global.set_quota_command),
    }
}

impl QuotaCommands {
    /// Returns the commands for a share, if there are some.
    pub(super) fn of(
        global: &config::Global,
        share: &config::Share,
        substitutions: &Substitutions,
        user: CommandUser,
    ) -> Option<Self> {
        let command = |text: &str, arguments: &[&str]| {
            let mut command = folder_command::of(text, share, substitutions);
            command.script.push_str(" .");
            folder_command::add_arguments(&mut command, arguments);
            command
        };
        let has = of(global);
        let get = has.get.then(|| command(&global.get_quota_command, &[TYPE, ID]));
        let set = has.set.then(|| {
            let mut set = command(&global.set_quota_command, &[TYPE, ID, STATE, SOFT, HARD]);
            // Limits of the number of files: there are none in SMB.
            set.script.push_str(&format!(" 0 0 {BLOCK_BYTES}"));
            set
        });
        let share = share.name.clone();
        (get.is_some() || set.is_some()).then_some(Self { share, user, get, set })
    }

    /// Texts of the commands for the shell.
    pub(super) fn scripts(&self) -> impl Iterator<Item = &str> {
        self.get.iter().chain(&self.set).map(|command| command.script.as_str())
    }

    /// Has `%P`, and the folder in which the commands run, be this one of a user.
    ///
    /// # Errors
    /// The parameter of a command that would have to get a path which a shell could interpret.
    pub(super) fn set_folder(&mut self, folder: &Path) -> Result<(), &'static str> {
        for (command, parameter) in [(&mut self.get, GET), (&mut self.set, SET)] {
            let Some(command) = command else { continue };
            folder_command::set_folder(command, folder).ok_or(parameter)?;
        }
        Ok(())
    }

    /// Returns the command that prints a quota.
    #[must_use]
    pub fn get(&self, subject: QuotaSubject) -> Option<ShellCommand> {
        self.get.clone().map(|command| self.about(command, subject))
    }

    /// Returns the command that makes a change.
    #[must_use]
    pub fn set(&self, change: QuotaChange) -> Option<ShellCommand> {
        let mut command = self.about(self.set.clone()?, change.subject);
        let state = match change.state {
            QuotaState::Off => 0,
            QuotaState::Tracked => 1,
            QuotaState::Enforced => 2,
        };
        let [soft, hard] = change.limits.in_blocks();
        let values = [(STATE, state), (SOFT, soft), (HARD, hard)];
        command.variables.extend(values.map(|(name, value)| (name.to_owned(), value.to_string())));
        Some(command)
    }

    fn about(&self, mut command: ShellCommand, subject: QuotaSubject) -> ShellCommand {
        let (kind, id) = match subject {
            QuotaSubject::Defaults => ("2", "-1".to_owned()),
            QuotaSubject::Requester => {
                let own = || rustix::process::geteuid().as_raw();
                ("1", self.user.identity.as_ref().map_or_else(own, |it| it.uid).to_string())
            }
            QuotaSubject::User(uid) => ("1", uid.to_string()),
        };
        command.variables.extend([(TYPE.to_owned(), kind.to_owned()), (ID.to_owned(), id)]);
        command
    }
}

/// Name of the parameter with the command that tells quotas.
pub const GET: &str = "get quota command";
/// Name of the parameter with the command that sets quotas.
pub const SET: &str = "set quota command";

/// Reads the output of `get quota command`: the state, used blocks, their soft and hard limit, the
/// same of files, and optionally the bytes of a block, in its first line.
#[must_use]
pub fn parse(output: &[u8]) -> Option<ToldQuota> {
    let text = str::from_utf8(output).ok()?;
    let mut words = text.lines().next()?.split_ascii_whitespace();
    let mut number = || words.next().map(str::parse::<u64>);
    let mut next = || number()?.ok();
    let (state, used, soft, hard) = (next()?, next()?, next()?, next()?);
    let (used_files, soft_files, hard_files) = (next()?, next()?, next()?);
    let block_bytes = block_bytes(number())?;
    let limit = |blocks: u64| (blocks > 0).then(|| blocks.saturating_mul(block_bytes));
    let state = match state {
        0 => QuotaState::Off,
        1 => QuotaState::Tracked,
        2 => QuotaState::Enforced,
        _ => return None,
    };
    Some(ToldQuota {
        state,
        quota: Quota {
            used_bytes: used.saturating_mul(block_bytes),
            limits: QuotaLimits { soft_bytes: limit(soft), hard_bytes: limit(hard) },
            is_out_of_files: Quota::has_most_files(used_files, [soft_files, hard_files]),
        },
    })
}

/// Returns whether the output of `set quota command` says that the change was made: at least one
/// line.
#[must_use]
pub fn is_done(output: &[u8]) -> bool {
    !output.trim_ascii().is_empty()
}

#[cfg(test)]
mod tests {
    use object::{Quota, QuotaLimits, QuotaState, ToldQuota};

    use super::{is_done, parse};

    #[test]
    fn seven_numbers_are_a_quota_and_an_eighth_is_the_size_of_a_block() {
        let quota = |used_bytes, soft_bytes, hard_bytes, is_out_of_files| ToldQuota {
            state: QuotaState::Enforced,
            quota: Quota {
                used_bytes,
                limits: QuotaLimits { soft_bytes, hard_bytes },
                is_out_of_files,
            },
        };
        let told = parse(b"2 10 20 30 1 0 0\n");
        assert_eq!(told, Some(quota(10_240, Some(20_480), Some(30_720), false)));
        let told = parse(b" 2\t10 0 30 5 0 5 512 more\nlines\n");
        assert_eq!(told, Some(quota(5_120, None, Some(15_360), true)));
        let state = |output: &[u8]| parse(output).map(|it| it.state);
        assert_eq!(state(b"0 0 0 0 0 0 0"), Some(QuotaState::Off));
        assert_eq!(state(b"1 0 0 0 0 0 0"), Some(QuotaState::Tracked));
    }

    #[test]
    fn other_output_is_no_quota() {
        for output in [
            "",
            "\n2 1 1 1 1 1 1",
            "2",
            "2 1 1 1 1 1",
            "2 1 1 1 1 1 x",
            "3 1 1 1 1 1 1",
            "-1 1 1 1 1 1 1",
            "2 1 1 1 1 1 1 0",
            "2 1 1 1 1 1 1 1K",
        ] {
            assert_eq!(parse(output.as_bytes()), None, "{output}");
        }
        assert_eq!(parse(b"2 1 1 1 1 1 1 \xff"), None);
    }

    #[test]
    fn a_change_is_made_if_the_command_prints_something() {
        assert!(is_done(b"ok\n") && !is_done(b"") && !is_done(b"\n \n"));
    }
}
