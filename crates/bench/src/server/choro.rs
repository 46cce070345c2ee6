//! Choro's server, with a private directory for all of its files and default settings otherwise.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};

use super::samba::user_name;
use super::{SHARE, Setup, Site, own_directories, run_with_input};

const PASSWORD: &str = "bench-Passw0rd";

pub(super) fn set_up(site: &Site<'_>, program: &Path) -> Result<Setup> {
    ensure!(
        program.exists(),
        "there is no {}; build it, or name it with --choro",
        program.display()
    );
    let config = site.directory.join("smb.conf");
    fs::write(&config, text(site)?)?;
    let user = user_name()?;
    let password = add_user(program, &config, &user)?;
    let version = run_with_input(Command::new(program).arg("--version"), "")?;
    let mut command = Command::new(program);
    command.arg("serve").arg("--config").arg(&config);
    let version = version.trim().replacen("choro", "Choro", 1);
    Ok(Setup { command, version, user, password })
}

/// Adds a user and gives the password.
pub(super) fn add_user(program: &Path, config: &Path, user: &str) -> Result<String> {
    let mut command = Command::new(program);
    command.args(["user", "add", user, "--password-stdin", "--config"]).arg(config);
    run_with_input(&mut command, &format!("{PASSWORD}\n"))?;
    Ok(PASSWORD.to_owned())
}

fn text(site: &Site<'_>) -> Result<String> {
    let mut text = String::from(
        "[global]\n\
         interfaces = 127.0.0.1/8\n\
         bind interfaces only = yes\n\
         log level = 0\n",
    );
    text += &own_directories(site.directory)?;
    text += &format!("smb ports = {}\n{}", site.port, site.global);
    text += &format!("[{SHARE}]\npath = {}\nread only = no\n", site.share_path.display());
    Ok(text)
}
