//! Commands that a share has for the start and the end of a tree connect: `preexec`, `postexec` and
//! those that run as root.

use std::collections::VecDeque;
use std::path::Path;

use config::{ShellCommand, Substitutions};
use process::Identity;
use store::Credentials;

use super::command_user::CommandUser;
use super::free_space::FreeSpaceCommand;
use super::quota_commands::QuotaCommands;
use super::served::serves_guest;

/// A command, ready to run.
#[derive(Clone, Debug)]
pub struct ShareCommand {
    /// Name of the share, for the log.
    pub share: String,
    /// Parameter that the command is of.
    pub parameter: &'static str,
    /// Text for the shell, and the values in it.
    pub command: ShellCommand,
    /// User whose tree connect it is for.
    pub user: CommandUser,
    /// Its failure refuses the tree connect.
    pub refuses: bool,
}

/// The commands of one tree connect.
#[derive(Clone, Debug, Default)]
pub struct ShareCommands {
    /// Those before it, in their order.
    pub before: VecDeque<ShareCommand>,
    /// Those after its end, in their order.
    pub after: VecDeque<ShareCommand>,
    /// The command that prints the free space.
    pub free_space: Option<FreeSpaceCommand>,
    /// The commands that tell and set quotas.
    pub quotas: Option<QuotaCommands>,
}

/// User that a command runs as.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Runner {
    /// Root, whoever the user is.
    Root,
    /// The user of the tree connect.
    User,
}

/// Returns the texts of all commands of a configuration, as [`ShareCommand`], [`FreeSpaceCommand`]
/// and [`QuotaCommands`] have them for the shell, and their users.
#[must_use]
pub fn scripts(config: &config::Config) -> Vec<(String, Runner)> {
    // The text refers to values, and does not depend on them.
    let values = Substitutions::default();
    let shares = config.shares.iter().chain(&config.homes).chain(config.usershare_template());
    let of_share = |share: &config::Share| {
        let nobody = (None, "guest");
        let ShareCommands { before, after, free_space, quotas } =
            ShareCommands::of((&config.global, share), &values, nobody);
        let of_connect = before.into_iter().chain(after).map(|it| {
            let is_root = it.parameter.starts_with(ROOT);
            (it.command.script, if is_root { Runner::Root } else { Runner::User })
        });
        let free_space = free_space.map(|it| (it.for_argument("").script, Runner::User));
        let quotas = quotas.iter().flat_map(QuotaCommands::scripts);
        let quotas = quotas.map(|script| (script.to_owned(), Runner::User));
        of_connect.chain(free_space).chain(quotas).collect::<Vec<_>>()
    };
    shares.flat_map(of_share).collect()
}

/// First word of the parameters whose commands run as root.
const ROOT: &str = "root ";

impl ShareCommands {
    /// True if the share has none.
    pub(super) fn is_empty(&self) -> bool {
        self.before.is_empty()
            && self.after.is_empty()
            && self.free_space.is_none()
            && self.quotas.is_none()
    }

    /// Has `%P` in all of them be this folder of a user.
    ///
    /// # Errors
    /// The parameter of a command that would have to get a path which a shell could interpret.
    pub(super) fn set_folder(&mut self, folder: &Path) -> Result<(), &'static str> {
        for ShareCommand { parameter, command, .. } in self.before.iter_mut().chain(&mut self.after)
        {
            command.set_folder(folder).ok_or(*parameter)?;
        }
        if let Some(command) = &mut self.free_space {
            command.set_folder(folder).ok_or("dfree command")?;
        }
        self.quotas.iter_mut().try_for_each(|commands| commands.set_folder(folder))
    }

    /// Returns those of a share for a requester. They run as this user, or as that of a server that
    /// cannot act as others.
    pub(super) fn of(
        (global, share): (&config::Global, &config::Share),
        substitutions: &Substitutions,
        (user, requester): (Option<&Credentials>, &str),
    ) -> Self {
        let as_user = |identity| CommandUser {
            identity,
            requester: requester.to_owned(),
            is_guest: serves_guest(),
        };
        let of_user = user.map(|Credentials { uid, gid, groups, .. }| Identity {
            uid: *uid,
            gid: *gid,
            groups: groups.clone(),
        });
        let of_root = user.map(|_| Identity::default());
        let command = |parameter, text: &str, identity: &Option<Identity>, refuses| {
            (!text.trim().is_empty()).then(|| ShareCommand {
                share: share.name.clone(),
                parameter,
                command: substitutions.shell_command(text, &share.path),
                user: as_user(identity.clone()),
                refuses,
            })
        };
        let before = [
            command("root preexec", &share.root_preexec, &of_root, share.root_preexec_close),
            command("preexec", &share.preexec, &of_user, share.preexec_close),
        ];
        let after = [
            command("postexec", &share.postexec, &of_user, false),
            command("root postexec", &share.root_postexec, &of_root, false),
        ];
        Self {
            before: before.into_iter().flatten().collect(),
            after: after.into_iter().flatten().collect(),
            quotas: QuotaCommands::of(global, share, substitutions, as_user(of_user.clone())),
            free_space: FreeSpaceCommand::of(share, substitutions, as_user(of_user)),
        }
    }
}
