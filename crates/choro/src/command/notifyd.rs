//! `choro notifyd`: the process that knows the watchers of directories. Started by the supervisor,
//! never by people.

use clap::Parser;
use notifyd::Notifyd;
use process::arguments::ProcessArguments;

/// Keep the list of watched directories and pass changes on.
#[derive(Debug, Parser)]
#[command(name = "choro notifyd")]
pub(crate) struct NotifydArguments {
    #[command(flatten)]
    process: ProcessArguments,
}

impl NotifydArguments {
    /// Serves until the server stops.
    ///
    /// # Errors
    /// The supervisor is gone, or the server cannot be joined.
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let start = self.process.begin(c"choro-notifyd")?;
        Notifyd::prepare(start)?.run()
    }
}
