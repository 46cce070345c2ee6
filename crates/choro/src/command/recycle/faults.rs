//! Files and folders that a command leaves out, and goes on.

use std::io::{self, Write};
use std::path::Path;

use anyhow::bail;

/// Files and folders that a command had to leave out.
#[derive(Debug, Default)]
pub(super) struct Faults(u64);

impl Faults {
    /// Says that a file or folder is left out. The command goes on.
    pub(super) fn report(&mut self, task: &str, path: &Path, error: &io::Error) {
        self.0 += 1;
        // If standard error is closed, the exit code alone must do.
        let _ = writeln!(io::stderr(), "choro: cannot {task} {path:?}: {error}");
    }

    /// Ends the command.
    ///
    /// # Errors
    /// Something was left out.
    pub(super) fn verdict(self) -> anyhow::Result<()> {
        match self.0 {
            0 => Ok(()),
            1 => bail!("one file or folder was left out"),
            number => bail!("{number} files or folders were left out"),
        }
    }
}
