//! `choro share`, which adds and removes shares in a file that the configuration includes.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Subcommand;
use observe::report;
use rustix::fs::{FlockOperation, flock};
use settings::{Settings, Source};

use super::message;
use super::message::requester::Requester;

/// Name of the file in the state directory.
const FILE_NAME: &str = "shares.conf";

/// First line of a new file.
const HEADER: &str = "# Written by `choro share`, and included by the configuration.\n";

/// Time for a running server to read its configuration again.
const RELOAD_TIMEOUT: Duration = Duration::from_secs(5);

/// Add, remove and list shares without editing the configuration.
///
/// They are kept in shares.conf in the `state directory`, which the configuration must include: a
/// line `include = /var/lib/choro/shares.conf` at its end. A running server loads them at once.
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
        let file = SharesFile::open(&settings)?;
        match self {
            Self::Add { name, path, comment, read_only, guest_ok } => {
                let path = path.canonicalize().with_context(|| path.display().to_string())?;
                verify(&settings, &name, &path, &comment)?;
                let yes_or_no = |yes| if yes { "yes" } else { "no" };
                // What follows a percent sign would be replaced.
                let [folder, comment] =
                    [path.display().to_string(), comment].map(|it| it.replace('%', "%%"));
                let (read_only, guest_ok) = (yes_or_no(read_only), yes_or_no(guest_ok));
                let section = format!(
                    "[{name}]\n\tpath = {folder}\n\tcomment = {comment}\n\tread only = \
                     {read_only}\n\tguest ok = {guest_ok}\n"
                );
                file.replace(&format!("{}{section}", file.text))?;
                if let Err(error) = is_served(&settings.source, &name, &path, &file.path) {
                    file.replace(&file.text)?;
                    return Err(error);
                }
                notify_server(&settings)
            }
            Self::Remove { name } => {
                let Some(rest) = without(&file.text, &name) else {
                    bail!("{} has no share {name:?}", file.path.display());
                };
                file.replace(&rest)?;
                notify_server(&settings)
            }
            Self::List { json } => list(&file.text, json),
        }
    }
}

/// The file, locked against other commands.
struct SharesFile {
    path: PathBuf,
    text: String,
    _lock: File,
}

impl SharesFile {
    fn open(settings: &Settings) -> anyhow::Result<Self> {
        let folder = &settings.directories.state;
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        let lock = File::open(folder).with_context(|| folder.display().to_string())?;
        flock(&lock, FlockOperation::LockExclusive).context("cannot lock the state directory")?;
        let path = folder.join(FILE_NAME);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => HEADER.to_owned(),
            Err(error) => return Err(error).with_context(|| path.display().to_string()),
        };
        Ok(Self { path, text, _lock: lock })
    }

    /// Replaces the file at once, so that nobody reads a part of it.
    fn replace(&self, text: &str) -> anyhow::Result<()> {
        let draft = self.path.with_extension("draft");
        let write = || {
            let mut file = File::create(&draft)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&draft, &self.path)
        };
        write().with_context(|| format!("cannot write {}", self.path.display()))
    }
}

/// Verifies that name, folder and comment are those of a share that can be added.
fn verify(settings: &Settings, name: &str, path: &Path, comment: &str) -> anyhow::Result<()> {
    if !config::is_share_name(name) {
        bail!("{name:?} cannot be the name of a share");
    }
    if settings.config.share(name).is_some() {
        bail!("there is a share {name:?} already");
    }
    if !path.is_dir() {
        bail!("{} is not a directory", path.display());
    }
    let is_line = |text: &str| !text.contains(char::is_control) && !text.ends_with('\\');
    if !path.to_str().is_some_and(is_line) || !is_line(comment) {
        bail!("a folder or comment with control characters or a `\\` at its end cannot be written");
    }
    Ok(())
}

/// Verifies that the configuration has the share now.
fn is_served(source: &Source, name: &str, path: &Path, file: &Path) -> anyhow::Result<()> {
    let config = Settings::load(source.clone())?.config;
    let share = config.share(name).with_context(|| {
        let file = file.display();
        format!(
            "{source} does not include the file of this command; add to its end: include = {file}"
        )
    })?;
    let served = config.substitutions().expand_path(&share.path);
    if Path::new(&served) != path {
        bail!("the configuration would read the folder as {served}");
    }
    Ok(())
}

/// Returns the text without the section of a share; `None` if there is none.
fn without(text: &str, name: &str) -> Option<String> {
    let (mut rest, mut is_in, mut found) = (String::new(), false, false);
    for line in text.split_inclusive('\n') {
        if let Some(section) = section_name(line) {
            is_in = section.to_lowercase() == name.to_lowercase();
            found |= is_in;
        }
        if !is_in {
            rest.push_str(line);
        }
    }
    found.then_some(rest)
}

fn section_name(line: &str) -> Option<&str> {
    line.trim().strip_prefix('[')?.strip_suffix(']')
}

fn list(text: &str, json: bool) -> anyhow::Result<()> {
    let (config, _) = config::Config::parse(text, FILE_NAME)?;
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

#[cfg(test)]
mod tests {
    use super::without;

    #[test]
    fn a_section_goes_and_all_others_stay() {
        let text = "# head\n[one]\n\tpath = /1\n[Two]\n\tpath = /2\n[three]\n\tpath = /3\n";
        let rest = "# head\n[one]\n\tpath = /1\n[three]\n\tpath = /3\n";
        assert_eq!(without(text, "tWO").as_deref(), Some(rest));
        assert_eq!(without(rest, "two"), None);
    }
}
