//! `choro logond`: the process that checks passwords of the server's users and Kerberos tickets,
//! asks the domain, and looks up users and groups of the system for workers. Started by the
//! supervisor, never by people.

use clap::Parser;
use logond::Logond;
use process::arguments::ProcessArguments;

/// Check logons, and look up users and groups of the system.
#[derive(Debug, Parser)]
#[command(name = "choro logond")]
pub(crate) struct LogondArguments {
    #[command(flatten)]
    process: ProcessArguments,
}

impl LogondArguments {
    /// Serves until the server stops.
    ///
    /// # Errors
    /// The supervisor is gone, the server cannot be joined, or a library is missing.
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let start = self.process.begin(c"choro-logond")?;
        Logond::prepare(start)?.run()
    }
}
