//! The server that serves nothing, or files and nothing else: this program, once more.

use std::process::Command;

use anyhow::{Context, Result};

use super::{Kind, Setup, Site};
use crate::null_server::DataPath;

/// Only user that can log on.
const USER: &str = "bench";

pub(super) fn set_up(site: &Site<'_>, way: Option<DataPath>) -> Result<Setup> {
    let program = std::env::current_exe().context("where is this executable")?;
    let mut command = Command::new(program);
    command.arg("--serve-nothing").arg(site.port.to_string());
    let mut version = "a null server".to_owned();
    if let Some(way) = way {
        let name = Kind::Raw(way).name();
        command.arg("--serve-folder").arg(&site.share_path).args(["--against-raw", name]);
        version = format!("a bare server, by {name}");
    }
    let password = crate::null_server::PASSWORD.into();
    Ok(Setup { command, version, user: USER.into(), password })
}
