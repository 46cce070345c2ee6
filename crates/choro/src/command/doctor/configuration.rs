//! Findings about the configuration itself.

use std::fs;
use std::path::Path;

use settings::{Settings, Source};
use supervisor::effective_config;

use super::finding::{Change, Finding, path_word};
use crate::command::check::{paths, relay};

/// Returns the configuration to examine. Without a file that is the one of the server: only its
/// command line has the folder of the default share.
///
/// # Errors
/// The configuration cannot be read.
pub(super) fn find(config: Option<&Path>) -> anyhow::Result<Settings> {
    let settings = Settings::find(config)?;
    let in_effect = effective_config(&settings.directories.lock);
    if !matches!(settings.source, Source::Default(_)) || !in_effect.try_exists()? {
        return Ok(settings);
    }
    Ok(Settings { source: settings.source, ..Settings::load(Source::File(in_effect))? })
}

/// An edited configuration that the server has not read yet.
pub(super) fn is_outdated(settings: &Settings) -> Option<Finding> {
    let in_effect = fs::read_to_string(effective_config(&settings.directories.lock)).ok()?;
    if in_effect == config::render_for_processes(&settings.config) {
        return None;
    }
    let fact = "The server serves another configuration than this one.";
    let reason = "The file was changed after the server read it, or a share was added elsewhere.";
    Some(Finding::warning("not_reloaded", fact, reason).command("choro message reload"))
}

/// Lines of the configuration that are not in effect as written, and shares without a folder.
pub(super) fn examine(settings: &Settings) -> Vec<Finding> {
    let warnings = settings.warnings.iter().filter(|warning| !warning.kind.is_note());
    let mut findings: Vec<Finding> = warnings
        .map(|warning| {
            let fact =
                format!("{}, line {}, is not in effect as written.", warning.file, warning.line);
            Finding::warning("configuration", fact, warning.message.clone()).command("choro check")
        })
        .collect();
    for (share, path, fault) in paths::missing(&settings.config) {
        let fact = format!("Nobody can connect to the share {share}.");
        let reason = format!("Its path, {path}, {fault}.");
        let finding = Finding::fault("share_folder", fact, reason);
        findings.push(finding.command(format!("mkdir -p {}", path_word(path.as_ref()))));
    }
    if let Some(reason) = relay::danger(&settings.config) {
        let fact = "A relayed logon reaches shares of this server.";
        let finding = Finding::note("relay", fact, reason);
        findings.push(finding.change(Change::global(relay::REMEDY)));
    }
    findings
}
