//! The configuration in effect, written down for the other processes. They read it when they are told
//! that there is a new one, and those that are exec'ed when they start.
//!
//! All must see the same, whatever has happened to the operator's file since: an edit takes effect when
//! the server is told to reload, and a broken file not at all.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use config::Config;

/// The file in `lock directory`.
pub(crate) fn path(lock_directory: &Path) -> PathBuf {
    lock_directory.join("smb.conf.effective")
}

/// Replaces the file; a worker that reads it meanwhile sees the old or the new one.
pub(super) fn write(path: &Path, config: &Config) -> anyhow::Result<()> {
    let temporary = path.with_extension("new");
    let replace = || {
        match fs::remove_file(&temporary) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file =
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
        file.write_all(config::render_for_processes(config).as_bytes())?;
        fs::rename(&temporary, path)
    };
    replace().with_context(|| format!("cannot write {}", path.display()))
}
