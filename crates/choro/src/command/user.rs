//! `choro user`, which manages users and passwords.

use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use auth::NtHash;
use clap::{Args, Subcommand};
use observe::report;
use settings::Settings;
use users::{self, Identity, ImportOutcome, ImportedLine, UserDatabase, UserEntry};
use zeroize::Zeroizing;

use super::system_user;

/// Longest password in bytes. Windows allows 256 characters.
const PASSWORD_BYTES_MAX: usize = 1_024;

/// Manage the users who may log on.
#[derive(Debug, Subcommand)]
pub(super) enum User {
    /// Add a user. Asks for the password twice.
    Add {
        /// Name of the user; must also be a user of this system unless shares use `force user`.
        name: String,
        /// Full name, shown in lists of users.
        #[arg(long, value_name = "TEXT", default_value = "")]
        full_name: String,
        /// Create the account disabled: the user cannot log on.
        #[arg(long)]
        disabled: bool,
        /// Id of the user's files, for a user whom this system does not know; needs --gid.
        #[arg(long, requires = "gid")]
        uid: Option<String>,
        /// Ids of the user's groups, the primary one first: `100` or `100,44`.
        #[arg(long, requires = "uid", value_name = "GIDS")]
        gid: Option<String>,
        #[command(flatten)]
        password: PasswordSource,
    },
    /// Set a user's password. Asks for it twice.
    Passwd {
        /// Name of the user to change.
        name: String,
        #[command(flatten)]
        password: PasswordSource,
    },
    /// Let a user log on again.
    Enable {
        /// Name of the user to enable.
        name: String,
    },
    /// Keep a user from logging on, and keep the password. Present sessions go on.
    Disable {
        /// Name of the user to disable.
        name: String,
    },
    /// Remove a user and the password.
    Remove {
        /// Name of the user to remove.
        name: String,
    },
    /// List all users with their state.
    List {
        /// Print a JSON array, one object for each user.
        #[arg(long)]
        json: bool,
    },
    /// Import users from Samba: the output of `pdbedit -Lw`, and then that of `pdbedit -Lv`.
    ///
    /// The first has the passwords, the second the SIDs that access lists name users by. Users who
    /// exist already get the imported password and state.
    Import {
        /// File to read; standard input if absent or `-`.
        file: Option<PathBuf>,
        /// Print a JSON array, one object for each user.
        #[arg(long)]
        json: bool,
    },
}

/// Source of a password. Never the command line, which everyone can see.
#[derive(Args, Debug)]
pub(super) struct PasswordSource {
    /// Read the password from the first line of standard input instead of asking.
    #[arg(long)]
    password_stdin: bool,
}

impl User {
    pub(super) fn run(self, config: Option<&Path>) -> anyhow::Result<()> {
        let path = Settings::find(config)?.users_path();
        match self {
            Self::Add { name, full_name, disabled, uid, gid, password } => {
                users::check_name(&name)?;
                let identity = identity(uid.as_deref(), gid.as_deref())?;
                // Fail before a password is typed in vain.
                if UserDatabase::open(&path)?.find(&name)?.is_some() {
                    bail!("user '{name}' exists already");
                }
                let nt_hash = password.read(&name)?;
                let full_name = users::fit_full_name(&full_name);
                let has_ids = identity.is_some();
                let enabled = !disabled;
                let entry = UserEntry::new(&name, nt_hash);
                let user = UserEntry { enabled, full_name, identity, ..entry };
                UserDatabase::update(&path, |database| database.add(user))?;
                report::print(&added(&name, disabled, has_ids, &path))
            }
            Self::Passwd { name, password } => {
                if UserDatabase::open(&path)?.find(&name)?.is_none() {
                    bail!("there is no user '{name}'");
                }
                let nt_hash = password.read(&name)?;
                Ok(UserDatabase::update(&path, |database| {
                    database.get_mut(&name)?.nt_hash = nt_hash;
                    Ok(())
                })?)
            }
            Self::Enable { name } => set_enabled(&path, &name, true),
            Self::Disable { name } => set_enabled(&path, &name, false),
            Self::Remove { name } => {
                Ok(UserDatabase::update(&path, |database| database.remove(&name))?)
            }
            Self::List { json } => list(&UserDatabase::open(&path)?, json),
            Self::Import { file, json } => import(&path, file.as_deref(), json),
        }
    }
}

/// Returns the ids of a user whom the system does not know; `None` without such arguments.
fn identity(uid: Option<&str>, gids: Option<&str>) -> anyhow::Result<Option<Identity>> {
    let both = uid.zip(gids);
    let read = |(uid, gids): (&str, &str)| Identity::parse(uid, gids).map_err(anyhow::Error::msg);
    both.map(read).transpose()
}

fn set_enabled(path: &Path, name: &str, enabled: bool) -> anyhow::Result<()> {
    Ok(UserDatabase::update(path, |database| {
        database.get_mut(name)?.enabled = enabled;
        Ok(())
    })?)
}

/// Returns a report: the change, and the steps that are missing for the user to reach files.
fn added(name: &str, disabled: bool, has_ids: bool, database: &Path) -> String {
    let database = database.display();
    let mut text = if disabled {
        format!("Added {name} to {database}; the account is disabled.\n")
    } else {
        format!("Added {name} to {database}; {name} can log on now.\n")
    };
    if has_ids {
        return text;
    }
    match nix::unistd::User::from_name(name) {
        Ok(Some(_)) => {}
        Ok(None) => text.push_str(&format!(
            "This system has no user {name}, so {name} reaches only shares with `force user`. \
             To make one: {}\n",
            system_user::adding(name)
        )),
        Err(error) => text.push_str(&format!("The system's users cannot be looked up: {error}\n")),
    }
    text
}

impl PasswordSource {
    fn read(&self, user: &str) -> anyhow::Result<NtHash> {
        let password =
            if self.password_stdin { first_line(io::stdin().lock())? } else { ask(user)? };
        if password.is_empty() {
            bail!("the password is empty");
        }
        Ok(NtHash::of_password(&password))
    }
}

fn ask(user: &str) -> anyhow::Result<Zeroizing<String>> {
    if !io::stdin().is_terminal() {
        bail!("there is no terminal to ask for a password; use --password-stdin");
    }
    let ask = |prompt: &str| -> anyhow::Result<Zeroizing<String>> {
        Ok(Zeroizing::new(rpassword::prompt_password(prompt).context("cannot ask for a password")?))
    };
    let password = ask(&format!("New password of {user}: "))?;
    if *ask("The same again: ")? != *password {
        bail!("the passwords differ");
    }
    Ok(password)
}

/// Reads a line without its line break.
fn first_line(source: impl Read) -> anyhow::Result<Zeroizing<String>> {
    let limit = PASSWORD_BYTES_MAX + 2;
    // Full capacity from the start: a growing buffer would leave copies of the password behind.
    let mut line = Zeroizing::new(Vec::with_capacity(limit));
    let mut source = source.take(u64::try_from(limit).expect("it is small"));
    let mut byte = [0];
    while source.read(&mut byte).context("cannot read the password")? == 1 && byte != *b"\n" {
        line.push(byte[0]);
    }
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    if line.len() > PASSWORD_BYTES_MAX {
        bail!("the password is longer than {PASSWORD_BYTES_MAX} bytes");
    }
    let text = str::from_utf8(&line).context("the password is not UTF-8")?;
    Ok(Zeroizing::new(text.to_owned()))
}

fn list(database: &UserDatabase, json: bool) -> anyhow::Result<()> {
    if json {
        return report::print_json(
            database
                .users()
                .iter()
                .map(|user| {
                    vec![
                        ("name", user.name.clone().into()),
                        ("enabled", user.enabled.into()),
                        ("full_name", user.full_name.clone().into()),
                    ]
                })
                .collect(),
        );
    }
    let rows: Vec<Vec<String>> = database
        .users()
        .iter()
        .map(|user| {
            let state = if user.enabled { "enabled" } else { "disabled" };
            vec![user.name.clone(), state.to_owned(), user.full_name.clone()]
        })
        .collect();
    report::print(&report::table(&["NAME", "STATE", "FULL NAME"], &rows))
}

fn import(path: &Path, file: Option<&Path>, json: bool) -> anyhow::Result<()> {
    let source: Box<dyn BufRead> = match file {
        Some(file) if file != Path::new("-") => Box::new(BufReader::new(
            File::open(file).with_context(|| format!("cannot open {}", file.display()))?,
        )),
        _ => Box::new(io::stdin().lock()),
    };
    let lines = UserDatabase::update(path, |database| users::import(database, source))?;
    let is_vain = !lines.is_empty() && lines.iter().all(|it| word(it.outcome).0 == "skipped");
    if json {
        let row = |imported: &ImportedLine| {
            let (outcome, reason) = word(imported.outcome);
            vec![
                ("line", imported.line.into()),
                ("name", imported.name.clone().into()),
                ("outcome", outcome.into()),
                ("reason", reason.into()),
            ]
        };
        report::print_json(lines.iter().map(row).collect())?;
    } else {
        report::print(&summary(&lines))?;
    }
    if is_vain {
        bail!("no user was imported: all lines were skipped");
    }
    Ok(())
}

/// Word for the outcome of a line, and the reason if it was skipped.
fn word(outcome: ImportOutcome) -> (&'static str, Option<&'static str>) {
    match outcome {
        ImportOutcome::Added => ("added", None),
        ImportOutcome::Skipped(reason) => ("skipped", Some(reason)),
        ImportOutcome::Identified => ("identified", None),
        ImportOutcome::Updated => ("updated", None),
    }
}

/// Returns the outcome of each line, and the sums.
fn summary(lines: &[ImportedLine]) -> String {
    let mut text = String::new();
    for imported in lines {
        let (outcome, reason) = word(imported.outcome);
        let name: String = imported.name.chars().filter(|c| !c.is_control()).take(64).collect();
        let reason = reason.map(|reason| format!(" (line {}: {reason})", imported.line));
        text.push_str(&format!("{outcome} {name}{}\n", reason.unwrap_or_default()));
    }
    let count = |wanted| lines.iter().filter(|line| word(line.outcome).0 == wanted).count();
    text.push_str(&format!(
        "{} added, {} updated, {} identified, {} skipped\n",
        count("added"),
        count("updated"),
        count("identified"),
        count("skipped")
    ));
    text
}
