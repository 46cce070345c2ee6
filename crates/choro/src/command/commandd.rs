//! `choro commandd`: the process that runs commands of shares. Started by the supervisor, never by
//! people.

use clap::Parser;
use commandd::Commandd;
use process::arguments::ProcessArguments;

/// Run the commands of shares.
#[derive(Debug, Parser)]
#[command(name = "choro commandd")]
pub(crate) struct CommanddArguments {
    #[command(flatten)]
    process: ProcessArguments,
}

impl CommanddArguments {
    /// Serves until the server stops.
    ///
    /// # Errors
    /// The supervisor is gone, or the server cannot be joined.
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let start = self.process.begin(c"choro-commandd")?;
        Commandd::prepare(start)?.run()
    }
}
