//! `choro share`, which adds and removes shares in a file that the configuration includes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Subcommand;
use observe::report;
use settings::{Settings, Source};
use shares::added_shares::{AddedShares, NewShare};

use super::message;
use super::message::requester::Requester;

/// Time for a running server to read its configuration again.
const RELOAD_TIMEOUT: Duration = Duration::from_secs(5);

/// Add, remove and list shares without editing the configuration.
///
/// They are kept in shares.conf in the `state directory`, which the configuration must include: a
/// line `include = /var/lib/choro/shares.conf` at its end. A running server loads them at once.
/// Shares that administrators add over the network (`choro:administrators`) are kept there, too.
#[derive(Debug, Subcommand)]
pub(super) enum Share {
    /// Add a share that users may write to.
    Add {
        /// Name of the new share.
        name: String,
        /// Folder to share, which must exist.
        path: PathBuf,
        /// Description in lists of shares.
        #[arg(long, default_value = "")]
        comment: String,
        /// Let nobody write to it.
        #[arg(long)]
        read_only: bool,
        /// Let guests connect to it.
        #[arg(long)]
        guest_ok: bool,
    },
    /// Remove a share that was added by this command. Its folder stays.
    Remove {
        /// Name of the share, in any case of letters.
        name: String,
    },
    /// List the shares that were added, with their folders.
    List {
        /// Print a JSON array, one object for each share.
        #[arg(long)]
        json: bool,
    },
}

impl Share {
    pub(super) fn run(self, config: Option<&Path>) -> anyhow::Result<()> {
        let settings = Settings::find(config)?;
        if !matches!(settings.source, Source::File(_)) {
            bail!("{} cannot include a file; write a configuration first", settings.source);
        }
        match self {
            Self::Add { name, path, comment, read_only, guest_ok } => {
                let path = path.canonicalize().with_context(|| path.display().to_string())?;
                let new =
                    NewShare { name, path, comment, read_only, guest_ok, ..NewShare::default() };
                AddedShares::open(&settings)?.add(&new)?;
                notify_server(&settings)
            }
            Self::Remove { name } => {
                AddedShares::open(&settings)?.remove(&name)?;
                notify_server(&settings)
            }
            Self::List { json } => {
                let (file, text) = AddedShares::read(&settings)?;
                list((&file, &text), json)
            }
        }
    }
}

fn list((file, text): (&Path, &str), json: bool) -> anyhow::Result<()> {
    let (config, _) = config::Config::parse(text, &file.display().to_string())?;
    let folder = |share: &config::Share| config.substitutions().expand_path(&share.path);
    if json {
        let row = |share: &config::Share| {
            vec![("share", share.name.clone().into()), ("path", folder(share).into())]
        };
        return report::print_json(config.shares.iter().map(row).collect());
    }
    let row = |share: &config::Share| vec![share.name.clone(), folder(share)];
    let rows: Vec<Vec<String>> = config.shares.iter().map(row).collect();
    report::print(&report::table(&["SHARE", "PATH"], &rows))
}

/// Has a running server read its configuration.
fn notify_server(settings: &Settings) -> anyhow::Result<()> {
    match Requester::join(&settings.directories.lock, RELOAD_TIMEOUT) {
        Ok(mut requester) => message::reload(&mut requester),
        Err(error) => {
            report::print(&format!("Written; no running server has loaded it: {error:#}\n"))
        }
    }
}
