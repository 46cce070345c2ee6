//! Commands of the configuration for a shell, with values in them that clients can choose.
//!
//! The text of a command is the operator's, and a value never becomes part of it: `%U` becomes a
//! reference to a variable of the environment, quoted for its place in the text, so that the shell
//! neither interprets nor splits it. As commands can pass their arguments to a second shell (`ssh
//! host "mkdir %U"`), a value that a client can choose also loses all characters that mean
//! something to a shell, as in Samba.

use std::collections::BTreeMap;
use std::path::Path;

use crate::substitutions::{Substitutions, one_component};

/// A command that `/bin/sh -c` runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShellCommand {
    /// Text of the command, with references in the place of values.
    pub script: String,
    /// Variables that the text refers to, for the environment.
    pub variables: BTreeMap<String, String>,
}

impl ShellCommand {
    /// Has `%P` be this folder, which a user has chosen. `None` if the command gets it and a shell
    /// could interpret its path: with `_` for some characters it would be that of another folder.
    #[must_use]
    pub fn set_folder(&mut self, folder: &Path) -> Option<()> {
        if let Some(value) = self.variables.get_mut(FOLDER) {
            folder.to_str().filter(|path| is_plain_path(path))?.clone_into(value);
        }
        Some(())
    }
}

impl Substitutions {
    /// Returns a command with its substitutions. `folder` is the unexpanded path of the share: `%P`
    /// is the folder with the values that the command gets.
    #[must_use]
    pub fn shell_command(&self, text: &str, folder: &str) -> ShellCommand {
        let mut safe = self.harmless();
        safe.path = safe.expand_path(folder);
        let mut command = ShellCommand::default();
        let mut quotes = Quotes::None;
        let mut rest = text;
        while let Some(character) = rest.chars().next() {
            let after = &rest[character.len_utf8()..];
            match character {
                '%' => rest = safe.add_value(&mut command, quotes, after),
                '\\' if quotes != Quotes::Single => {
                    rest = quotes.copy_escaped(&mut command.script, after);
                }
                _ => {
                    quotes = quotes.after(character);
                    command.script.push(character);
                    rest = after;
                }
            }
        }
        command
    }

    /// Adds the value for the text behind a percent sign; returns the rest of the text.
    fn add_value<'a>(&self, command: &mut ShellCommand, quotes: Quotes, after: &'a str) -> &'a str {
        let Some((value, _, used)) = self.value(after) else {
            command.script.push('%');
            return after.strip_prefix('%').unwrap_or(after);
        };
        let name = variable_name(&after[..used]);
        command.script.push_str(&quotes.reference_to(&name));
        // The environment ends a value at a zero.
        command.variables.insert(name, value.replace('\0', "_"));
        &after[used..]
    }

    /// The same without what means something to a shell in the values that a client can choose.
    fn harmless(&self) -> Self {
        Self {
            user: harmless(&self.user),
            group: harmless(&self.group),
            client_name: harmless(&self.client_name),
            client_address: harmless(&self.client_address),
            server_name: harmless(&self.server_name),
            share: harmless(&self.share),
            domain: harmless(&self.domain),
            requested_user: harmless(&self.requested_user),
            arch: harmless(&self.arch),
            dialect: harmless(&self.dialect),
            interface: harmless(&self.interface),
            ..self.clone()
        }
    }
}

/// Quotes around a place in the text of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quotes {
    None,
    Single,
    Double,
}

impl Quotes {
    fn after(self, character: char) -> Self {
        match (self, character) {
            (Self::None, '\'') => Self::Single,
            (Self::None, '"') => Self::Double,
            (Self::Single, '\'') | (Self::Double, '"') => Self::None,
            _ => self,
        }
    }

    /// A reference that the shell replaces by one word, or by a part of the word around it.
    fn reference_to(self, variable: &str) -> String {
        match self {
            Self::None => format!("\"${{{variable}}}\""),
            Self::Single => format!("'\"${{{variable}}}\"'"),
            Self::Double => format!("${{{variable}}}"),
        }
    }

    /// Copies the character behind a backslash, which opens and closes no quotes; returns the rest.
    fn copy_escaped<'a>(self, script: &mut String, after: &'a str) -> &'a str {
        match after.chars().next() {
            // A backslash before a value must not change its reference: in double quotes it stands
            // for itself, outside for nothing.
            Some('%') if self == Self::Double => script.push_str("\\\\"),
            Some('%') => {}
            Some(escaped) => {
                script.extend(['\\', escaped]);
                return &after[escaped.len_utf8()..];
            }
            None => script.push('\\'),
        }
        after
    }
}

/// Variable of the environment for `%P`.
const FOLDER: &str = "CHORO_P";

/// Returns true for a path that is one word to a shell, and nothing but text.
#[must_use]
pub fn is_plain_path(path: &str) -> bool {
    path.chars().all(|c| c.is_alphanumeric() || "_-.@+,:/".contains(c))
}

/// Returns the variable for `U` (`CHORO_U`) or `$(NAME)` (`CHORO_ENV_NAME`).
fn variable_name(substitution: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    match substitution.strip_prefix("$(").and_then(|rest| rest.strip_suffix(')')) {
        Some(name) => format!("CHORO_ENV_{}", name.chars().map(plain).collect::<String>()),
        None => format!("CHORO_{substitution}"),
    }
}

/// Returns a value that is one component of a path, no option of a command, and nothing but text to
/// a shell.
fn harmless(value: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || " _-.@+,:\\".contains(c);
    let value = one_component(value);
    let plain = |(index, c)| if is_plain(c) && (index, c) != (0, '-') { c } else { '_' };
    value.chars().enumerate().map(plain).collect()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn substitutions(user: &str) -> Substitutions {
        Substitutions { requested_user: user.to_owned(), ..Substitutions::default() }
    }

    /// Output of a real shell for the command.
    fn run(substitutions: &Substitutions, text: &str) -> String {
        let ShellCommand { script, variables } = substitutions.shell_command(text, "/srv/%U");
        let output = Command::new("/bin/sh").args(["-c", &script]).envs(variables).output();
        let output = output.expect("every system has a shell");
        assert!(output.status.success(), "{script}: {output:?}");
        String::from_utf8(output.stdout).expect("text")
    }

    #[test]
    fn a_value_is_one_word_in_any_quotes() {
        let anna = substitutions("anna  blume");
        for text in ["%U", "'%U'", "\"%U\"", "\\%U", "a'\"'\\''\"'%U", "-n %U"] {
            let words = run(&anna, &format!("for word in {text}; do echo \"<$word>\"; done"));
            assert!(words.contains("anna  blume>"), "{text}: {words}");
        }
        assert_eq!(run(&anna, "printf %%s \"A\\%U\""), "A\\anna  blume");
        assert_eq!(run(&anna, "echo 100%% %Z '\\' \"%P\" \\'"), "100% %Z \\ /srv/anna  blume '\n");
    }

    #[test]
    fn no_value_of_a_client_is_text_for_a_shell_not_even_for_a_second_one() {
        let evil = "$(echo hit)`echo hit`;echo hit\n\"'|&<>(){}*?[~#!^";
        let texts =
            ["echo %U", "echo '%U'", "sh -c \"echo %U\"", "eval echo %U %P", "echo `eval %U`"];
        for text in texts {
            let command = substitutions(evil).shell_command(text, "/srv/%U");
            let output = run(&substitutions(evil), &format!("{text} || true"));
            assert!(!output.lines().any(|line| line.trim() == "hit"), "{text}: {output}");
            assert!(!command.script.contains("hit"), "{}", command.script);
        }
        assert_eq!(run(&substitutions("-rf"), "echo %U"), "_rf\n");
        assert_eq!(run(&substitutions("../../etc"), "echo /home/%U"), "/home/____etc\n");
        assert_eq!(run(&substitutions(""), "for word in %U; do echo \"<$word>\"; done"), "<>\n");
    }

    #[test]
    fn no_folder_of_a_user_is_text_for_a_shell_nor_becomes_another_folder() {
        let anna = substitutions("anna");
        let texts = ["sh -c \"echo %P\"", "echo '%P'", "eval echo %P"];
        for text in texts {
            for evil in ["/srv/$(echo hit)", "/srv/`id`", "/srv/a;id", "/srv/a /root", "/srv/a\\b"]
            {
                let mut command = anna.shell_command(text, "/srv");
                let before = command.clone();
                assert_eq!(command.set_folder(Path::new(evil)), None, "{text} {evil}");
                assert_eq!(command, before);
            }
            let mut command = anna.shell_command(text, "/srv/link");
            assert_eq!(command.set_folder(Path::new("/home/änna/my-films_2")), Some(()));
            let mut shell = Command::new("/bin/sh");
            shell.args(["-c", &command.script]).envs(command.variables);
            let output = shell.output().expect("every system has a shell");
            assert_eq!(output.stdout, "/home/änna/my-films_2\n".as_bytes(), "{text}");
        }
        let mut without = anna.shell_command("true", "/srv");
        assert_eq!(without.set_folder(Path::new("/srv/$(echo hit)")), Some(()));
        assert!(without.variables.is_empty());
    }

    #[test]
    fn a_user_of_a_domain_keeps_its_name() {
        let anna = Substitutions { user: "ADLAB\\anna".to_owned(), ..Substitutions::default() };
        assert_eq!(run(&anna, "printf %%s %u"), "ADLAB\\anna");
    }
}
