//! `choro notifyd`: who watches which directory. Started by the supervisor, never by people.

use clap::Parser;

use super::worker::WorkerArguments;
use crate::notifyd::Notifyd;

/// Know who watches which directory.
#[derive(Debug, Parser)]
#[command(name = "choro notifyd")]
pub(crate) struct NotifydArguments {
    #[command(flatten)]
    process: WorkerArguments,
}

impl NotifydArguments {
    /// The name by which the supervisor asks for this.
    pub(crate) const NAME: &str = "notifyd";

    /// Serves until the server stops.
    ///
    /// # Errors
    /// The supervisor is gone, or the server cannot be joined.
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let start = self.process.begin(c"choro-notifyd")?;
        Notifyd::prepare(start)?.run()
    }
}
