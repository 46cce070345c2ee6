//! Debian's smbd, with everything it writes in a directory of its own and its defaults otherwise.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::{SHARE, Setup, Site, own_directories, run_with_input};

/// Lives as long as the temporary directory that its hash is in.
const PASSWORD: &str = "bench-Passw0rd";

pub(super) fn set_up(site: &Site<'_>) -> Result<Setup> {
    let config = site.directory.join("smb.conf");
    fs::write(&config, text(site)?)?;
    // A Samba user has to be a Unix user, and this one is there.
    let user = user_name()?;
    run_with_input(
        Command::new(program("smbpasswd")).arg("-c").arg(&config).args(["-a", "-s", &user]),
        &format!("{PASSWORD}\n{PASSWORD}\n"),
    )?;
    let version = run_with_input(Command::new(program("smbd")).arg("--version"), "")?;
    let mut command = Command::new(program("smbd"));
    command.args(["--foreground", "--no-process-group"]).arg("-s").arg(&config);
    let version = format!("Samba {}", version.trim().trim_start_matches("Version "));
    Ok(Setup { command, version, user, password: PASSWORD.into() })
}

fn text(site: &Site<'_>) -> Result<String> {
    let mut text = String::from(
        "[global]\n\
         server role = standalone server\n\
         disable netbios = yes\n\
         interfaces = 127.0.0.1/8\n\
         bind interfaces only = yes\n\
         log level = 0\n\
         load printers = no\n\
         disable spoolss = yes\n",
    );
    text += &own_directories(site.directory)?;
    text += &format!("log file = {}\n", site.directory.join("log").display());
    text += &format!("smb ports = {}\n{}", site.port, site.global);
    text += &format!("[{SHARE}]\npath = {}\nread only = no\n", site.share_path.display());
    Ok(text)
}

/// Samba's programs are in /usr/sbin, which is not in everybody's PATH.
fn program(name: &str) -> PathBuf {
    let path = Path::new("/usr/sbin").join(name);
    if path.exists() { path } else { name.into() }
}

/// The name of the user that this process runs as.
pub(super) fn user_name() -> Result<String> {
    let name = run_with_input(Command::new("id").arg("-un"), "").context("who runs this")?;
    Ok(name.trim().to_owned())
}
