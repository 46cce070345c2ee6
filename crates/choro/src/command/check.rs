//! `choro check`.

mod interfaces;
mod relay;

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use messaging::TransportKind;
use serde_json::Value;

use crate::messaging_settings::messaging_settings;
use crate::multichannel::Multichannel;
use crate::report;
use crate::settings::{Settings, Source};

/// Check a configuration and show what it means.
///
/// Prints the configuration in effect, as `testparm -s` does, and remarks about lines that are not
/// understood, with the nearest known name.
///
/// Exits with 1 if the configuration cannot be served.
#[derive(Args, Debug)]
pub(super) struct Check {
    /// Configuration file, as with --config.
    file: Option<PathBuf>,
    /// Show parameters that have their default value too, and remarks that ask for nothing.
    #[arg(long, short)]
    verbose: bool,
    /// Show instead what clients are told of this machine's addresses, for further connections of a
    /// session (multichannel), and where each field comes from: found on this machine, said by
    /// `interfaces`, or a default. And which addresses they are not told of, and why.
    #[arg(long)]
    interfaces: bool,
    /// Print the remarks and all settings as a JSON array.
    #[arg(long)]
    json: bool,
}

impl Check {
    pub(super) fn run(&self, config: Option<&Path>) -> anyhow::Result<()> {
        if self.file.is_some() && config.is_some() {
            return Err(super::conflict("FILE and --config are the same; give one of them"));
        }
        let settings = Settings::find(self.file.as_deref().or(config))?;
        if self.interfaces {
            return interfaces::show(&settings.config.global, self.json);
        }
        let how = messaging_settings(&settings.config.global)?;
        let text = config::render_effective(&settings.config, self.verbose);
        if self.json {
            return report::print_json(self.rows(&settings, how.kind, &text));
        }
        let mut errors = io::stderr().lock();
        writeln!(errors, "Configuration: {}", settings.source)?;
        for warning in settings.warnings.iter().filter(|warning| self.is_shown(warning)) {
            writeln!(errors, "choro: {warning}")?;
        }
        if let Some(warning) = Multichannel::of(&settings.config.global).warning() {
            writeln!(errors, "choro: {warning}")?;
        }
        if let Some(warning) = relay::warning(&settings.config) {
            writeln!(errors, "Relay: {warning}")?;
        }
        if self.verbose {
            writeln!(
                errors,
                "Messages: the processes of the server talk by messaging type {}",
                how.kind.name()
            )?;
        }
        let len = queue_len(how.kind).filter(|len| self.verbose || *len <= QUEUE_LEN_SMALL);
        if let Some(len) = len {
            writeln!(
                errors,
                "Messages: net.unix.max_dgram_qlen is {len}: so many packets of messages wait for a \
                 process that is busy, further ones at their senders"
            )?;
        }
        drop(errors);
        report::print(&text)
    }

    fn is_shown(&self, warning: &config::Warning) -> bool {
        self.verbose || !warning.kind.is_note()
    }

    fn rows(&self, settings: &Settings, kind: TransportKind, effective: &str) -> Vec<report::Row> {
        let source = match &settings.source {
            Source::Default(_) => Value::Null,
            Source::File(path) => path.display().to_string().into(),
        };
        let mut rows = vec![vec![("kind", "source".into()), ("file", source)]];
        for warning in settings.warnings.iter().filter(|warning| self.is_shown(warning)) {
            rows.push(vec![
                ("kind", "warning".into()),
                ("file", warning.file.clone().into()),
                ("line", warning.line.into()),
                ("subject", warning.kind.name().into()),
                ("message", warning.message.clone().into()),
            ]);
        }
        rows.push(vec![
            ("kind", "messages".into()),
            ("type", kind.name().into()),
            ("max_dgram_qlen", queue_len(kind).into()),
        ]);
        for share in relay::reachable(&settings.config) {
            let (share, remedy) = (share.into(), relay::REMEDY.into());
            rows.push(vec![("kind", "relay".into()), ("share", share), ("remedy", remedy)]);
        }
        let mut section = "";
        for line in effective.lines().map(str::trim) {
            if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
                section = name;
            } else if let Some((parameter, value)) = line.split_once('=')
                && !line.starts_with('#')
            {
                rows.push(vec![
                    ("kind", "parameter".into()),
                    ("section", section.into()),
                    ("parameter", parameter.trim().into()),
                    ("value", value.trim().into()),
                ]);
            }
        }
        rows
    }
}

/// How many packets the kernel keeps for a process, where messages depend on it.
fn queue_len(kind: TransportKind) -> Option<u32> {
    (kind == TransportKind::Dgram).then(messaging::transport::datagram_queue_len).flatten()
}

/// What the kernel has unless the system sets more; systemd does.
const QUEUE_LEN_SMALL: u32 = 10;
