//! The commands that may be run: texts of the configuration.

use std::collections::HashMap;

use config::Config;
use mistake::{Mistake, is_made};
use process::{CommandRequest, Identity};
use shares::share_commands::{Runner, scripts};

/// The commands of a configuration, each with its users.
#[derive(Debug, Default)]
pub(super) struct Permissions {
    by_script: HashMap<String, Runners>,
    is_root: bool,
}

/// Users that a text may run as: it may be that of several parameters.
#[derive(Clone, Copy, Debug, Default)]
struct Runners {
    root: bool,
    users: bool,
}

impl Permissions {
    /// Those of the commands of all shares.
    pub(super) fn of(config: &Config) -> Self {
        let mut by_script: HashMap<String, Runners> = HashMap::new();
        for (script, runner) in scripts(config) {
            let runners = by_script.entry(script).or_default();
            match runner {
                Runner::Root => runners.root = true,
                Runner::User => runners.users = true,
            }
        }
        Self { by_script, is_root: rustix::process::geteuid().is_root() }
    }

    /// Permissions for texts of users, of a server without root's rights.
    #[cfg(test)]
    pub(super) fn of_scripts<const N: usize>(scripts: [&str; N]) -> Self {
        let users = Runners { users: true, ..Runners::default() };
        let by_script = scripts.map(|script| (script.to_owned(), users)).into();
        Self { by_script, is_root: false }
    }

    /// Checks that a command may be run.
    ///
    /// # Errors
    /// Says why not.
    pub(super) fn verify(&self, request: &CommandRequest) -> Result<(), &'static str> {
        if is_made(Mistake::CommandsUnverified) {
            return Ok(());
        }
        let Some(runners) = self.by_script.get(&request.script) else {
            return Err("it is not in the configuration");
        };
        let is_of_root = runners.root && !runners.users;
        match &request.identity {
            None if self.is_root => Err("it has no user"),
            Some(identity) if is_of_root && *identity != Identity::default() => {
                Err("it is a command of root")
            }
            _ if !request.variables.keys().all(|name| is_ours(name)) => {
                Err("it has variables of others")
            }
            _ => Ok(()),
        }
    }
}

/// Whether a variable is one that texts of the configuration refer to. Others change the shell.
fn is_ours(name: &str) -> bool {
    name.starts_with("CHORO_") && name.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'_')
}

#[cfg(test)]
mod tests {
    use config::Config;
    use process::{CommandRequest, Identity};

    use super::Permissions;

    const CONFIG: &str = "[global]\n[data]\npath = /srv/%U\npreexec = mkdir %P/%u\n\
                          root preexec = mount /srv/%S\ndfree command = /usr/bin/df-of %P\n";

    fn permissions() -> Permissions {
        let (config, _) = Config::parse(CONFIG, "test").expect("it is right");
        Permissions { is_root: true, ..Permissions::of(&config) }
    }

    fn request(script: &str, uid: u32) -> CommandRequest {
        CommandRequest {
            script: script.to_owned(),
            identity: Some(Identity { uid, ..Identity::default() }),
            ..CommandRequest::default()
        }
    }

    #[test]
    fn only_texts_of_the_configuration_are_run() {
        let permissions = permissions();
        let own = "mkdir \"${CHORO_P}\"/\"${CHORO_u}\"";
        assert_eq!(permissions.verify(&request(own, 1_000)), Ok(()));
        for other in ["", "mkdir", "mkdir \"${CHORO_P}\"/\"${CHORO_u}\"; sh", "true"] {
            let refused = permissions.verify(&request(other, 1_000));
            assert_eq!(refused, Err("it is not in the configuration"), "{other}");
        }
    }

    #[test]
    fn a_command_of_root_is_run_as_root_alone_and_none_without_a_user() {
        let permissions = permissions();
        let of_root = "mount /srv/\"${CHORO_S}\"";
        assert_eq!(permissions.verify(&request(of_root, 0)), Ok(()));
        assert_eq!(permissions.verify(&request(of_root, 1_000)), Err("it is a command of root"));
        let nobody = CommandRequest { identity: None, ..request(of_root, 0) };
        assert_eq!(permissions.verify(&nobody), Err("it has no user"));
        let unprivileged = Permissions { is_root: false, ..permissions };
        assert_eq!(unprivileged.verify(&nobody), Ok(()), "the server is somebody itself");
    }

    /// The text of a share's `root preexec` may be that of another share's `preexec`.
    #[test]
    fn a_text_that_several_shares_have_runs_as_the_users_of_each() {
        let share = |name: &str, parameter: &str| format!("[{name}]\npath = /srv\n{parameter}\n");
        let [of_root, of_user] = ["root preexec", "preexec"].map(|it| format!("{it} = mount /srv"));
        for [first, second] in [[&of_root, &of_user], [&of_user, &of_root]] {
            let text = [share("a", first), share("b", second)].concat();
            let (config, _) = Config::parse(&text, "test").expect("it is right");
            let permissions = Permissions { is_root: true, ..Permissions::of(&config) };
            for uid in [0, 1_000] {
                assert_eq!(permissions.verify(&request("mount /srv", uid)), Ok(()), "{uid}");
            }
        }
    }

    #[test]
    fn variables_that_change_the_shell_are_refused() {
        let permissions = permissions();
        let mut request = request("mount /srv/\"${CHORO_S}\"", 0);
        request.variables.insert("CHORO_S".to_owned(), "x".to_owned());
        assert_eq!(permissions.verify(&request), Ok(()));
        for name in ["LD_PRELOAD", "ENV", "CHORO_S()", "CHORO_\n"] {
            let mut request = request.clone();
            request.variables.insert(name.to_owned(), String::new());
            assert_eq!(permissions.verify(&request), Err("it has variables of others"), "{name}");
        }
    }
}
