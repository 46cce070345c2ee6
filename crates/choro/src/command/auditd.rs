//! `choro auditd`: the process that writes the records of audits. Started by the supervisor, never
//! by people.

use auditd::Auditd;
use clap::Parser;
use process::arguments::ProcessArguments;

/// Write the records of audited shares.
#[derive(Debug, Parser)]
#[command(name = "choro auditd")]
pub(crate) struct AuditdArguments {
    #[command(flatten)]
    process: ProcessArguments,
}

impl AuditdArguments {
    /// Serves until the server stops.
    ///
    /// # Errors
    /// The supervisor is gone, or the server cannot be joined.
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let start = self.process.begin(c"choro-auditd")?;
        Auditd::prepare(start)?.run()
    }
}
