//! `choro doctor`, which says why something does not work, and what to change.

mod access;
mod client;
mod configuration;
mod finding;
mod general;
mod network;
mod ports;
mod user_name;

use std::fmt;
use std::io;
use std::path::Path;

use anyhow::{Error, bail};
use clap::{Args, Subcommand};
use observe::report;
use settings::Settings;
use tables::{Registry, RegistryError};

use finding::{Change, Finding, Shown};

/// Find the reason why something does not work, and the change that ends it.
///
/// Without a question, examines the configuration, the running server, the shares for each user of
/// the database, the network and the connected clients.
///
/// A finding is a fault, a warning, or a note that needs no action. Exits with 0 without faults and
/// warnings, with 1 if there are some, and with 2 if the question cannot be answered.
#[derive(Args, Debug)]
pub(super) struct Doctor {
    #[command(subcommand)]
    question: Option<Question>,
    /// Print a JSON array; `kind` of each object is access, client or finding.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Question {
    Access(access::Access),
    Client(client::Client),
    /// Show why other machines do not list or reach this server.
    Network,
}

/// A question that could not be answered.
#[derive(Debug)]
pub(crate) struct Unanswered;

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no answer")
    }
}

impl Doctor {
    pub(super) fn run(&self, config: Option<&Path>) -> anyhow::Result<()> {
        let findings = self.answer(config).map_err(|error| error.context(Unanswered))?;
        match findings.iter().filter(|finding| finding.needs_action()).count() {
            0 => Ok(()),
            1 => bail!("1 finding"),
            count => bail!("{count} findings"),
        }
    }

    fn answer(&self, config: Option<&Path>) -> anyhow::Result<Vec<Finding>> {
        let settings = configuration::find(config)?;
        verify_rights(&settings)?;
        let shown = Shown::of(&settings);
        let findings = match &self.question {
            Some(Question::Access(access)) => access.run(&settings, &shown, self.json)?,
            Some(Question::Client(client)) => client.run(&settings, &shown, self.json)?,
            Some(Question::Network) => {
                let registry = Registry::observe(&settings.directories.lock);
                let supervisor = registry.map(|it| it.supervisor().pid).map_err(Error::from);
                let mut findings = network::examine(&settings, supervisor.as_ref().copied())?;
                findings.push(network::firewall(&settings.config.global));
                self.print_rows(&shown, &findings)?;
                findings
            }
            None => {
                let findings = general::examine(&settings)?;
                self.print_rows(&shown, &findings)?;
                findings
            }
        };
        if !self.json {
            report::print(&text(&shown, findings.clone()))?;
        }
        Ok(findings)
    }

    fn print_rows(&self, shown: &Shown, findings: &[Finding]) -> anyhow::Result<()> {
        match self.json {
            true => report::print_json(findings.iter().map(|it| it.row(shown)).collect()),
            false => Ok(()),
        }
    }
}

/// Fails for a user who may not examine the server: nothing else could be said then.
fn verify_rights(settings: &Settings) -> anyhow::Result<()> {
    match Registry::observe(&settings.directories.lock) {
        Err(RegistryError::File { path, source })
            if source.kind() == io::ErrorKind::PermissionDenied =>
        {
            Err(RegistryError::File { path, source }.into())
        }
        _ => Ok(()),
    }
}

/// Returns the findings as text, faults first.
fn text(shown: &Shown, mut findings: Vec<Finding>) -> String {
    if findings.is_empty() {
        return "Nothing found.\n".to_owned();
    }
    findings.sort_by_key(|finding| finding.severity);
    let mut text = String::new();
    for finding in &findings {
        text.push_str(&format!("\n{}", finding.text(shown)));
    }
    let changes = findings.iter().filter_map(|finding| finding.changes.first());
    // Files for single clients are read at each connect.
    if changes.into_iter().any(|change| matches!(change, Change::Line { file: None, .. })) {
        let reload = shown.command("choro message reload");
        text.push_str(&format!("\nAfter a change of {}: {reload}\n", shown.file));
    }
    text
}
