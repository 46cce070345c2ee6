//! Configuration of one client, where `include` names files by client or user.
//!
//! The server's own configuration is that of a client without files. A client's own may add shares
//! and change them, and is refused if it needs more than that: audits, commands of shares and
//! classes are known to other processes, which know the server's configuration only.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::config::Config;
use crate::limits::{CLIENT_FILE_NAMES_MAX, CLIENT_FILES_VERIFIED_MAX};
use crate::load::client_files::{ClientFile, ClientFiles};
use crate::load::{self, Loaded};
use crate::source::{Disk, Source};
use crate::substitutions::Substitutions;
use crate::warning::{LoadError, Warning, WarningKind, quoted};

impl Config {
    /// Returns true if files are read for each client.
    #[must_use]
    pub fn has_client_files(&self) -> bool {
        !self.client_files.is_empty()
    }

    /// Returns true if the names of some files have a variable with this letter.
    #[must_use]
    pub fn client_files_name(&self, letter: char) -> bool {
        let names = |it: &ClientFile| Substitutions::letters(&it.pattern).any(|it| it == letter);
        self.client_files.iter().any(names)
    }

    /// Returns the configuration of one client; `None` if all clients have this one.
    ///
    /// # Errors
    /// A file of the client cannot be served.
    pub fn for_client(&self, client: &Substitutions) -> Result<Option<Self>, LoadError> {
        if !self.has_client_files() {
            return Ok(None);
        }
        Ok(Some(self.read_for(&Disk, client, ClientFiles::Read)?.0))
    }

    fn read_for(
        &self,
        source: &dyn Source,
        client: &Substitutions,
        files: ClientFiles<'_>,
    ) -> Result<(Self, Vec<Warning>), LoadError> {
        let loaded = load::parse(&self.text, "configuration", source, client, files)?;
        let (config, warnings) = Self::build(loaded)?;
        self.verify_client(&config)?;
        Ok((config, warnings))
    }

    /// Refuses a client's configuration that other processes would have to know.
    fn verify_client(&self, client: &Self) -> Result<(), LoadError> {
        let lines = |config: &Self| {
            let lines = config.classes.iter().map(|it| (it.class.name.clone(), it.lines.clone()));
            lines.collect::<BTreeSet<_>>()
        };
        let contradiction = match () {
            () if !commands(client).is_subset(&commands(self)) => COMMANDS,
            () if client.is_audited() && !self.is_audited() => AUDITS,
            () if lines(client) != lines(self) => LIMITS,
            () => return Ok(()),
        };
        Err(LoadError::Contradiction(contradiction))
    }

    /// Builds a configuration, and remarks on the files for single clients that are there now. A
    /// fault in one refuses its clients only.
    pub(crate) fn build_verified(
        loaded: Loaded,
        source: &dyn Source,
    ) -> Result<(Self, Vec<Warning>), LoadError> {
        let (config, mut warnings) = Self::build(loaded)?;
        let mut room = CLIENT_FILES_VERIFIED_MAX;
        for ClientFile { pattern, place } in &*config.client_files {
            let files = matching(source, pattern, room);
            room -= files.len();
            let text = format!(
                "{} is read for each client when it connects a share; {} such files are there",
                quoted(pattern),
                files.len()
            );
            warnings.push(Warning {
                file: place.file.clone(),
                line: place.line,
                kind: WarningKind::PerClient,
                message: text,
            });
            for file in files {
                let only = ClientFiles::Only { pattern, file: &file };
                match config.read_for(source, &config.substitutions(), only) {
                    Ok((_, of_all)) => {
                        let own = file.display().to_string();
                        warnings.extend(of_all.into_iter().filter(|it| it.file == own));
                    }
                    Err(error) => {
                        let (file, kind) = (file.display().to_string(), WarningKind::NotServed);
                        let message = format!("its clients can connect no share: {error}");
                        warnings.push(Warning { file, line: 0, kind, message });
                    }
                }
            }
        }
        Ok((config, warnings))
    }
}

/// Returns the texts of all commands that other processes know.
fn commands(config: &Config) -> BTreeSet<&str> {
    let shares = config.shares.iter().chain(&config.homes).chain(config.usershare_template());
    let texts = shares.flat_map(|share| share.commands()).chain(config.global.commands());
    texts.filter(|it| !it.trim().is_empty()).collect()
}

/// Returns files whose names fit a pattern. One with a variable in its folder has none: the folders
/// of clients are theirs.
fn matching(source: &dyn Source, pattern: &str, max: usize) -> Vec<PathBuf> {
    let Some((folder, name)) = pattern.rsplit_once('/') else { return Vec::new() };
    let folder = Substitutions::parts_around_variables(folder);
    let [folder] = &folder[..] else { return Vec::new() };
    let parts = Substitutions::parts_around_variables(name);
    let folder = Path::new(if folder.is_empty() { "/" } else { folder });
    let names = source.names(folder, CLIENT_FILE_NAMES_MAX).unwrap_or_default();
    let fitting = names.iter().filter(|name| fits(name, &parts)).map(|name| folder.join(name));
    let mut files: Vec<PathBuf> = fitting.collect();
    files.sort_unstable();
    files.truncate(max);
    files
}

/// Returns true if a name has these parts in their order, and something between them.
fn fits(name: &OsStr, parts: &[String]) -> bool {
    let (Some(name), [first, middle @ .., last]) = (name.to_str(), parts) else { return false };
    let Some(rest) = name.strip_prefix(first.as_str()) else { return false };
    let Some(mut rest) = rest.strip_suffix(last.as_str()) else { return false };
    for part in middle {
        let Some((before, after)) = rest.split_once(part.as_str()) else { return false };
        if before.is_empty() && !part.is_empty() {
            return false;
        }
        rest = after;
    }
    !rest.is_empty()
}

const AUDITS: &str = "a file for some clients has `vfs objects = full_audit`, and no share of the \
                      main file has it, so that nothing would write the records";
const COMMANDS: &str = "a file for some clients has a command (`preexec`, `dfree command`, …) that \
                        the main file has nowhere; commands are run from there only";
const LIMITS: &str = "a file for some clients changes limits of bandwidth, which are those of the \
                      main file";

#[cfg(test)]
mod tests;
