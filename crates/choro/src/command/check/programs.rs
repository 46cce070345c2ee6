//! Commands of the configuration whose program is missing.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use config::{Config, Place, Warning, WarningKind};
use process::PROGRAM_PATH;

/// Returns a warning for each command whose program is missing or not executable. Programs whose
/// names have a variable, such as `/srv/%U/run`, are left out.
pub(super) fn warnings(config: &Config) -> Vec<Warning> {
    let global = &config.global;
    let of_server = [
        ("get quota command", &global.get_quota_command),
        ("set quota command", &global.set_quota_command),
    ];
    let of_server = of_server.map(|(name, command)| (name, command, global.place(name)));
    let shares = config.shares.iter().chain(&config.homes);
    let of_shares = shares.flat_map(|share| {
        let commands = [
            ("dfree command", &share.dfree_command),
            ("postexec", &share.postexec),
            ("preexec", &share.preexec),
            ("root postexec", &share.root_postexec),
            ("root preexec", &share.root_preexec),
        ];
        commands.map(|(name, command)| (name, command, share.place(name)))
    });
    let warning = |(name, command, place): (&str, &String, Option<&Place>)| {
        let program = program(command)?;
        let message = format!("`{name}`: {program} {}", fault(program, PROGRAM_PATH)?);
        Some(Warning::at(place?, WarningKind::MissingProgram, message))
    };
    of_server.into_iter().chain(of_shares).filter_map(warning).collect()
}

/// Returns the program of a command for a shell; `None` if the shell decides what it is, or its
/// path begins at the folder in which the command runs.
fn program(command: &str) -> Option<&str> {
    let command = command.trim_start();
    let first = match command.strip_prefix(['"', '\'']) {
        Some(rest) => rest.split(command.chars().next()?).next()?,
        None => command.split(|it: char| it.is_whitespace() || ";&|<>()".contains(it)).next()?,
    };
    let is_plain = |it: char| it.is_alphanumeric() || "/._+-@, ".contains(it);
    let is_relative = first.contains('/') && !first.starts_with('/');
    let is_shells = first.is_empty() || first == "." || WORDS_OF_SHELL.contains(&first);
    (first.chars().all(is_plain) && !is_relative && !is_shells).then_some(first)
}

/// Returns the fault of a program, in words; `None` if there is none, or it cannot be found out.
fn fault(program: &str, directories: &str) -> Option<&'static str> {
    if program.starts_with('/') {
        return match fs::metadata(program) {
            Ok(metadata) if metadata.is_file() && metadata.permissions().mode() & 0o111 != 0 => {
                None
            }
            Ok(_) => Some("is not executable"),
            Err(error) if error.kind() == ErrorKind::NotFound => Some("does not exist"),
            Err(_) => None,
        };
    }
    let mut places = directories.split(':').map(|it| Path::new(it).join(program));
    let is_there = places.any(|place| !matches!(place.try_exists(), Ok(false)));
    (!is_there).then_some("is in no directory of programs (give its path)")
}

/// Words at the begin of a command that a shell interprets by itself.
const WORDS_OF_SHELL: &[&str] = &[
    ":", "alias", "bg", "break", "case", "cd", "command", "continue", "echo", "eval", "exec",
    "exit", "export", "false", "fg", "for", "getopts", "hash", "if", "jobs", "kill", "local",
    "printf", "pwd", "read", "readonly", "return", "set", "shift", "test", "time", "times", "trap",
    "true", "type", "ulimit", "umask", "unalias", "unset", "until", "wait", "while",
];

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use config::Config;

    use super::{program, warnings};

    #[test]
    fn commands_without_their_program_are_named_with_file_and_line() {
        let folder = tempfile::tempdir().expect("there is space");
        let plain = folder.path().join("plain");
        fs::write(&plain, "").expect("it is ours");
        fs::set_permissions(&plain, fs::Permissions::from_mode(0o644)).expect("it is ours");
        let (plain, root) = (plain.display(), folder.path().display());
        let text = format!(
            "[global]\nget quota command = /no/quota\n[a]\npath = /a\nroot preexec = {root}/no %U\n\
             preexec = {plain}\ndfree command = choro-mkdri -p x\npostexec = /srv/%U/run\n\
             root postexec = mkdir -p %P\n"
        );
        let (config, _) = Config::parse(&text, "smb.conf").expect("it is well-formed");
        let mut found: Vec<String> = warnings(&config).iter().map(ToString::to_string).collect();
        found.sort();
        let absent = "is in no directory of programs (give its path)";
        let want = [
            "smb.conf:2: `get quota command`: /no/quota does not exist".to_owned(),
            format!("smb.conf:5: `root preexec`: {root}/no does not exist"),
            format!("smb.conf:6: `preexec`: {plain} is not executable"),
            format!("smb.conf:7: `dfree command`: choro-mkdri {absent}"),
        ];
        assert_eq!(found, want);
    }

    #[test]
    fn a_program_is_known_only_where_the_shell_has_no_choice() {
        for (command, want) in [
            ("/bin/x -a", Some("/bin/x")),
            ("  mkdir; true", Some("mkdir")),
            ("\"/opt/a b/x\" y", Some("/opt/a b/x")),
            ("", None),
            ("A=b /bin/x", None),
            ("$HOME/x", None),
            ("/srv/%U/x", None),
            ("bin/x", None),
            ("(cd /; x)", None),
            ("[ -d /x ] || y", None),
            ("test -d /x", None),
            ("~/x", None),
        ] {
            assert_eq!(program(command), want, "{command}");
        }
    }
}
