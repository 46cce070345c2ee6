//! `choro worker`: one client's process, on systems where it cannot be forked. Started by the
//! supervisor, never by people.
//!
//! It has a command line of its own: parsing that of the other commands costs a tenth of a MiB in a
//! process that lives for one client.

use clap::Parser;
use process::arguments::ProcessArguments;
use process::properties;
use worker::{self, WorkerStart};

/// Serve a single client until it leaves.
#[derive(Debug, Parser)]
#[command(name = "choro worker")]
pub(crate) struct WorkerArguments {
    #[command(flatten)]
    process: ProcessArguments,
}

impl WorkerArguments {
    /// Serves one client.
    ///
    /// # Errors
    /// The supervisor is gone, or the server cannot be joined.
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let start = WorkerStart::join(self.process.begin(properties::WORKER)?)?;
        match worker::serve(Box::new(start))? {}
    }
}
