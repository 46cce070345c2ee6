//! The server that serves nothing: this program, once more.

use std::process::Command;

use anyhow::{Context, Result};

use super::{Setup, Site};

/// Whom it lets in; it knows nobody else.
const USER: &str = "bench";

pub(super) fn set_up(site: &Site<'_>) -> Result<Setup> {
    let program = std::env::current_exe().context("where is this executable")?;
    let mut command = Command::new(program);
    command.arg("--serve-nothing").arg(site.port.to_string());
    let password = crate::null_server::PASSWORD.into();
    Ok(Setup { command, version: "a null server".into(), user: USER.into(), password })
}
