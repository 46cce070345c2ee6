//! The configuration in effect, written to a file for the other processes. They read it after a
//! notice from the supervisor; exec'ed ones read it at their start.
//!
//! All processes must have the same configuration, whatever happens to the operator's file: an edit
//! takes effect with a reload, and an invalid file never does.

use std::path::{Path, PathBuf};

use anyhow::Context;
use config::Config;
use settings::replace_file;

/// Path of the file in `lock directory`.
pub fn path(lock_directory: &Path) -> PathBuf {
    lock_directory.join("smb.conf.effective")
}

/// Replaces the file; a worker that reads it meanwhile sees the old or the new one.
pub(super) fn write(path: &Path, config: &Config) -> anyhow::Result<()> {
    let text = config::render_for_processes(config);
    let replaced = replace_file(path, text.as_bytes(), 0o600);
    replaced.with_context(|| format!("cannot write {}", path.display()))
}
