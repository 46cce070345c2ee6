//! `choro discoveryd`: the process by which other machines find the server. Started by the
//! supervisor, never by people.

use clap::Parser;
use discovery::Discoveryd;
use process::arguments::ProcessArguments;

/// Tell other machines of the server.
#[derive(Debug, Parser)]
#[command(name = "choro discoveryd")]
pub(crate) struct DiscoverydArguments {
    #[command(flatten)]
    process: ProcessArguments,
}

impl DiscoverydArguments {
    /// Serves until the server stops.
    ///
    /// # Errors
    /// The supervisor is gone, or rights cannot be given up.
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let start = self.process.begin(c"choro-discovery")?;
        Discoveryd::prepare(start)?.run()
    }
}
