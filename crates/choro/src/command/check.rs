//! `choro check`, the command that validates a configuration.

mod cluster;
mod controller_time;
mod depots;
mod domain;
mod interfaces;
mod listening;
mod names;
pub(super) mod paths;
mod programs;
pub(super) mod relay;

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use ::interfaces::Multichannel;
use clap::Args;
use confinement::Mode;
use messaging::TransportKind;
use observe::report;
use serde_json::Value;
use settings::messaging_settings::messaging_settings;
use settings::{Settings, Source};
use shares::{mapped_names, usershares};
use worker::{KeptMounts, PathRules};

/// Check a configuration and show its effect.
///
/// Prints the configuration in effect, as `testparm -s` does. Reports unknown parameters with the
/// nearest known name, shares whose folder is missing, and users, groups, programs and interfaces
/// that this machine does not have. Of a configuration with `clustering = yes`, which is refused,
/// shows the state of the cluster.
///
/// Exits with 1 if the configuration cannot be served.
#[derive(Args, Debug)]
pub(super) struct Check {
    /// Configuration file, as with --config.
    file: Option<PathBuf>,
    /// Also show parameters that have their default value, and notes that need no action.
    #[arg(long, short)]
    verbose: bool,
    /// Show instead the interfaces that clients may use for further connections of a session
    /// (multichannel), the source of each field (detected, set by `interfaces`, or a default), and
    /// the withheld interfaces with the reasons.
    #[arg(long)]
    interfaces: bool,
    /// Check instead the membership of a domain: join, password of the machine, clock, names,
    /// tickets and ids. Each fault comes with its remedy. With a fault, the exit code is 1.
    #[arg(long, conflicts_with = "interfaces")]
    domain: bool,
    /// With --domain: show also the SID, ids and groups of this user of the domain, such as `anna`.
    #[arg(long, requires = "domain", value_name = "USER")]
    domain_user: Option<String>,
    /// Print warnings and all settings as a JSON array.
    #[arg(long)]
    json: bool,
}

impl Check {
    pub(super) fn run(&self, config: Option<&Path>) -> anyhow::Result<()> {
        if self.file.is_some() && config.is_some() {
            return Err(super::conflict("give either FILE or --config, not both"));
        }
        let mut settings = match Settings::find(self.file.as_deref().or(config)) {
            Ok(settings) => settings,
            Err(refusal) => {
                cluster::explain(&refusal, self.json)?;
                return Err(refusal);
            }
        };
        if self.interfaces {
            return interfaces::show(&settings.config.global, self.json);
        }
        if self.domain {
            return domain::show(&settings, self.domain_user.as_deref(), self.json);
        }
        let how = messaging_settings(&settings.config.global)?;
        add_warnings_of_machine(&mut settings);
        let outcome = match listening::fault(&settings.config.global) {
            Some(fault) => Err(anyhow::anyhow!(fault)),
            None => Ok(()),
        };
        let text = config::render_effective(&settings.config, self.verbose);
        if self.json {
            report::print_json(self.rows(&settings, how.kind, &text))?;
            return outcome;
        }
        let mut errors = io::stderr().lock();
        writeln!(errors, "Configuration: {}", settings.source)?;
        for warning in settings.warnings.iter().filter(|warning| self.is_shown(warning)) {
            writeln!(errors, "choro: {warning}")?;
        }
        if let Some(warning) = Multichannel::of(&settings.config.global).warning() {
            writeln!(errors, "choro: {warning}")?;
        }
        for (share, path, fault) in paths::missing(&settings.config) {
            writeln!(errors, "Path: {path} {fault}, so clients cannot connect to [{share}]")?;
        }
        for (share, path, fault) in depots::unusable(&settings.config) {
            writeln!(errors, "Streams: {path} {fault}, so files in [{share}] get no streams")?;
        }
        for (share, path, fault) in depots::exposed(&settings.config) {
            writeln!(errors, "Streams: {path} {fault}, so they can hide the streams of [{share}]")?;
        }
        if let Some(fault) = usershares::fault(&settings.config) {
            writeln!(errors, "Usershares: {fault}, so users cannot have shares")?;
        }
        if let Some(fault) = mapped_names::fault(&settings.config) {
            writeln!(errors, "Users: {fault}, so nobody can log on with a name")?;
        }
        if let Some(warning) = relay::warning(&settings.config) {
            writeln!(errors, "Relay: {warning}")?;
        }
        for why in unconfined(&settings) {
            writeln!(errors, "Confinement: {why}")?;
        }
        if self.verbose {
            writeln!(
                errors,
                "Messages: the server's processes use messaging type {}",
                how.kind.name()
            )?;
        }
        let len = queue_len(how.kind).filter(|len| self.verbose || *len <= QUEUE_LEN_SMALL);
        if let Some(len) = len {
            writeln!(
                errors,
                "Messages: net.unix.max_dgram_qlen is {len}: the kernel queues at most that many \
                 packets for a busy process; further ones wait at their senders"
            )?;
        }
        drop(errors);
        report::print(&text)?;
        outcome
    }

    fn is_shown(&self, warning: &config::Warning) -> bool {
        self.verbose || !warning.kind.is_note()
    }

    fn rows(&self, settings: &Settings, kind: TransportKind, effective: &str) -> Vec<report::Row> {
        let source = match &settings.source {
            Source::Container(_) | Source::Default(_) => Value::Null,
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
        let missing = paths::missing(&settings.config).into_iter().map(|it| ("path", it));
        let unusable = depots::unusable(&settings.config).into_iter();
        let depots = unusable.chain(depots::exposed(&settings.config)).map(|it| ("streams", it));
        for (kind, (share, path, fault)) in missing.chain(depots) {
            rows.push(vec![
                ("kind", kind.into()),
                ("share", share.into()),
                ("path", path.into()),
                ("message", fault.into()),
            ]);
        }
        if let Some(fault) = usershares::fault(&settings.config) {
            rows.push(vec![("kind", "usershares".into()), ("message", fault.into())]);
        }
        if let Some(fault) = mapped_names::fault(&settings.config) {
            rows.push(vec![("kind", "users".into()), ("message", fault.into())]);
        }
        for why in unconfined(settings) {
            rows.push(vec![("kind", "confinement".into()), ("message", why.into())]);
        }
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

/// Adds warnings of lines that name something that this machine does not have.
fn add_warnings_of_machine(settings: &mut Settings) {
    let mut found = listening::warnings(&settings.config.global);
    found.extend(names::warnings(settings));
    found.extend(programs::warnings(&settings.config));
    found.sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
    settings.warnings.extend(found);
}

/// Returns why processes of the server will have more rights than they need.
fn unconfined(settings: &Settings) -> Vec<String> {
    let word = settings.config.global.option("choro", "confinement").unwrap_or("yes");
    // A word that means nothing has a warning already, and counts as yes.
    let mode = Mode::parse(word);
    if mode == Some(Mode::Log) {
        let text = "processes keep all rights, and the kernel logs their calls, but no paths";
        return vec![text.to_owned()];
    }
    if mode == Some(Mode::Off) {
        return vec!["processes keep all rights: choro:confinement = no".to_owned()];
    }
    let calls = confinement::unavailable();
    let calls = calls.map(|why| format!("processes may make all system calls: {why}"));
    let paths = confinement::paths_unavailable();
    let paths = paths.map(|why| format!("processes reach all paths: {why}")).or_else(|| {
        let rules = PathRules::of(settings, &mut KeptMounts::default(), 1);
        Some(format!("workers reach all paths: {}", rules.everything()?))
    });
    let tcp = confinement::tcp_unavailable();
    let tcp = tcp.map(|why| format!("processes connect by TCP to any machine: {why}"));
    [calls, paths, tcp].into_iter().flatten().collect()
}

/// Returns the kernel's queue length for datagrams of a process, where messages depend on it.
fn queue_len(kind: TransportKind) -> Option<u32> {
    (kind == TransportKind::Dgram).then(messaging::transport::datagram_queue_len).flatten()
}

/// The kernel's default; systemd sets more.
const QUEUE_LEN_SMALL: u32 = 10;
