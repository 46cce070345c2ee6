//! Findings about the configuration itself.

use std::fs;
use std::path::{Path, PathBuf};

use config::{Config, ShadowCopy, Share, Warning};
use settings::{Settings, Source};
use shares::mount_point::mount_point;
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
        .map(|Warning { file, line, message, .. }| {
            let (place, change) = match line {
                0 => (file.clone(), format!("correct {file}")),
                _ => (format!("{file}, line {line},"), format!("correct line {line} of {file}")),
            };
            let fact = format!("{place} is not in effect as written.");
            Finding::warning("configuration", fact, message.clone()).advice(change)
        })
        .collect();
    for (share, path, fault) in paths::missing(&settings.config) {
        let fact = format!("Nobody can connect to the share {share}.");
        let reason = format!("Its path, {path}, {fault}.");
        let finding = Finding::fault("share_folder", fact, reason);
        findings.push(finding.command(format!("mkdir -p {}", path_word(path.as_ref()))));
    }
    findings.extend(audit_file(&settings.config));
    findings.extend(settings.config.shares.iter().filter_map(|it| snapshots(&settings.config, it)));
    if let Some(reason) = relay::danger(&settings.config) {
        let fact = "A relayed logon reaches shares of this server.";
        let finding = Finding::note("relay", fact, reason);
        findings.push(finding.change(Change::global(relay::REMEDY)));
    }
    findings
}

/// The folder of the audit file: the server makes the file only.
fn audit_file(config: &Config) -> Option<Finding> {
    let file = config.audit_outputs().file.filter(|_| config.is_audited())?;
    let folder = file.parent().filter(|folder| !folder.is_dir())?;
    let fact = "No record of an audit is written to a file.";
    let reason = format!("The folder of `choro:audit file`, {}, is missing", folder.display());
    let finding = Finding::fault("audit_file", fact, reason);
    Some(finding.command(format!("install -d -m 700 {}", path_word(folder))))
}

/// The folder with the snapshots of a share, if that is one for all clients.
fn snapshots(config: &Config, share: &Share) -> Option<Finding> {
    let options = ShadowCopy::of(share).filter(|it| share.available && !it.everywhere)?;
    let directory = match options.directory {
        Some(directory) => directory,
        None if options.auto => return None,
        None => ".snapshots".to_owned(),
    };
    let texts = [Some(&share.path), Some(&directory), options.mount_point.as_ref()];
    let has_variable = |text: &String| text.replace("%%", "").contains('%');
    if texts.into_iter().flatten().any(has_variable) {
        return None;
    }
    let known = config.substitutions();
    // A missing share is another finding.
    let path = fs::canonicalize(known.expand_path(&share.path)).ok()?;
    let given = options.mount_point.map(|it| PathBuf::from(known.expand_path(&it)));
    let mount = given.filter(|it| path.starts_with(it)).unwrap_or_else(|| mount_point(&path));
    let folder = mount.join(known.expand_path(&directory));
    if folder.is_dir() {
        return None;
    }
    let fact = format!("Clients see no snapshots of the share {}.", share.name);
    let reason = format!("The folder of `shadow:snapdir`, {}, is missing", folder.display());
    let finding = Finding::warning("snapshots", fact, reason);
    Some(finding.change(Change::line(&share.name, "shadow:snapdir = FOLDER")))
}
