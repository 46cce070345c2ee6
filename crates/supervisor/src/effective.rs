//! The configuration in effect, written to a file for the other processes. They read it after a
//! notice from the supervisor; exec'ed ones read it at their start.
//!
//! All processes must have the same configuration, whatever happens to the operator's file: an edit
//! takes effect with a reload, and an invalid file never does.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use config::Config;

/// Path of the file in `lock directory`.
pub fn path(lock_directory: &Path) -> PathBuf {
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
