//! The system's user as whom root's server acts in the default share.

use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use nix::unistd::User;

/// The user's name; `scripts/choro.sysusers` makes it where the server is installed.
pub(super) const NAME: &str = "choro-share";

/// The program that makes the user. Its package has passwd(1) too, so nearly every system has it.
const MAKER: &str = "useradd";

/// A user that owns files and cannot log on to the machine.
const MAKER_ARGUMENTS: [&str; 7] = [
    "--system",
    "--user-group",
    "--no-create-home",
    "--home-dir=/nonexistent",
    "--shell=/usr/sbin/nologin",
    "--comment=Choro",
    NAME,
];

/// Directories of administration programs; the PATH of a user of sudo may lack them.
const MAKER_PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";

/// Returns the user, which is made if there is none.
///
/// # Errors
/// The user cannot be made; the message says what to run.
pub(super) fn find_or_make() -> anyhow::Result<User> {
    let user = match find()? {
        Some(user) => user,
        None => {
            make()?;
            find()?
                .with_context(|| format!("{MAKER} has made {NAME}, but the user cannot be found"))?
        }
    };
    if user.uid.is_root() {
        bail!("the user {NAME} has the id of root; the default share is not served as root");
    }
    Ok(user)
}

fn find() -> anyhow::Result<Option<User>> {
    User::from_name(NAME).with_context(|| format!("cannot look up the user {NAME}"))
}

fn make() -> anyhow::Result<()> {
    let output = Command::new(MAKER)
        .args(MAKER_ARGUMENTS)
        .env("PATH", MAKER_PATH)
        .stdin(Stdio::null())
        .output();
    let why = match output {
        Ok(output) if output.status.success() => {
            tracing::info!("created the system user {NAME} for the default share");
            return Ok(());
        }
        Ok(output) => match String::from_utf8_lossy(&output.stderr).trim() {
            "" => format!("{MAKER}: {}", output.status),
            other => other.to_owned(),
        },
        Err(error) => format!("{MAKER}: {error}"),
    };
    bail!(
        "the default share needs the system user {NAME}, which could not be created ({why}). \
         Create it and start again: {MAKER} {}",
        MAKER_ARGUMENTS.join(" ")
    )
}
