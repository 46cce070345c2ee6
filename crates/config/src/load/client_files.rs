//! `include` with a name that depends on the client, such as `smb.conf.%m`.
//!
//! The server itself has no client. It leaves these files to be read for each client, when all of
//! their variables are known, and keeps the rest of the text for that. A file of one client can
//! change shares, and cannot change the server that all clients share.

use std::path::Path;

use super::{Loader, Place, check, unsupported};
use crate::class;
use crate::limits::FILE_BYTES_MAX;
use crate::parameter::{Effect, Parameter, Scope};
use crate::substitutions::Substitutions;
use crate::warning::{LoadError, WarningKind, quoted};

/// Treatment of files that depend on the client.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ClientFiles<'a> {
    /// Left to be read for each client.
    Left,
    /// Read with the values of one client.
    Read,
    /// One file stands for all names of a pattern, to verify it; other files are left out.
    Only { pattern: &'a str, file: &'a Path },
}

/// An `include` that is left for each client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClientFile {
    /// Absolute path with its variables.
    pub(crate) pattern: String,
    pub(crate) place: Place,
}

/// Returns true if a name has a value for each client.
pub(super) fn is_of_client(name: &str) -> bool {
    Substitutions::letters(name).any(|letter| OF_CLIENT.contains(letter) || is_late(letter))
}

/// True for a variable that is known only when a share is connected already.
fn is_late(letter: char) -> bool {
    LATE.contains(letter)
}

impl Loader<'_> {
    /// Notes an `include` for each client. Returns the name to read now, if any.
    pub(super) fn client_file(
        &mut self,
        named: &str,
        folder: Option<&Path>,
        place: &Place,
    ) -> Result<Option<String>, LoadError> {
        if Substitutions::letters(named).any(is_late) {
            return Err(unsupported("include", named, TOO_EARLY, place));
        }
        let pattern = match folder {
            Some(folder) if !named.starts_with('/') => {
                // Its percent signs are no variables.
                format!("{}/{named}", folder.display().to_string().replace('%', "%%"))
            }
            _ => named.to_owned(),
        };
        match self.client_files {
            ClientFiles::Left => {
                self.record(format_args!("include = {pattern}"));
                let place = place.clone();
                self.loaded.client_files.push(ClientFile { pattern, place });
                Ok(None)
            }
            ClientFiles::Read => Ok(Some(self.substitutions.expand_path(&pattern))),
            ClientFiles::Only { pattern: only, file } => {
                Ok((only == pattern).then(|| file.display().to_string()))
            }
        }
    }

    /// Keeps a line of the text that is read again for each client.
    pub(super) fn record(&mut self, line: std::fmt::Arguments<'_>) {
        use std::fmt::Write as _;
        if matches!(self.client_files, ClientFiles::Left) {
            let _ = writeln!(self.loaded.text, "{line}");
        }
    }

    /// Drops the text if no client has files of its own.
    pub(super) fn finish_text(&mut self) -> Result<(), LoadError> {
        let Some(first) = self.loaded.client_files.first() else {
            self.loaded.text = String::new();
            return Ok(());
        };
        let size = u64::try_from(self.loaded.text.len()).unwrap_or(u64::MAX);
        let unit = "bytes in all files, which are read again for each client";
        // The processes of the server add parameters of their own.
        check(size, FILE_BYTES_MAX / 2, unit, &first.place)
    }

    /// Refuses a class in the file of a client: limits are those of the whole server.
    pub(super) fn verify_class(&self, name: &str, place: &Place) -> Result<(), LoadError> {
        if self.in_client_files == 0 {
            return Ok(());
        }
        let (file, line) = (place.file.clone(), place.line);
        let (class, reason) = (quoted(name), OF_SERVER.to_owned());
        Err(LoadError::BadClass { file, line, class, reason })
    }

    /// Refuses a parameter of the server in the file of a client. Returns false for one that is
    /// left out, because it opens nothing to anybody.
    pub(super) fn verify_parameter(
        &mut self,
        parameter: &'static Parameter,
        value: &str,
        place: &Place,
    ) -> Result<bool, LoadError> {
        let of_sessions = self.current.is_none() && parameter.name == "server smb encrypt";
        let is_servers = parameter.scope == Scope::Global && parameter.effect != Effect::Never;
        if self.in_client_files == 0 || !(is_servers || of_sessions) {
            return Ok(true);
        }
        if !HARMLESS.contains(&parameter.name) {
            return Err(unsupported(parameter.name, value, OF_SERVER, place));
        }
        let text = format!("`{}` has no effect in a file for some clients", parameter.name);
        self.warn(place, WarningKind::NoEffect, text);
        Ok(false)
    }

    /// Refuses an option of the server in the file of a client.
    pub(super) fn verify_option(
        &self,
        key: &str,
        value: &str,
        at: &Place,
    ) -> Result<(), LoadError> {
        let of_server = |prefix: &&str| key.starts_with(*prefix);
        let is_global = self.current.is_none();
        if self.in_client_files == 0 || !is_global || !OPTIONS_OF_SERVER.iter().any(of_server) {
            return Ok(());
        }
        Err(unsupported("parametric option", &format!("{key} = {value}"), OF_SERVER, at))
    }
}

/// Variables of a client and its logon: known before a share is.
const OF_CLIENT: &str = "aDgGIijJmMRU";

/// Variables of the tree connect. Samba's manual excludes them, too.
const LATE: &str = "HPSu";

/// Parameters of the server that only describe it or its log.
const HARMLESS: &[&str] =
    &["log file", "log level", "max log size", "server string", "socket options"];

/// Options in `[global]` that a whole process of the server has.
const OPTIONS_OF_SERVER: &[&str] = &["choro:", "smbd:", class::RATE_LIMITS];

const OF_SERVER: &str = "it holds for the whole server, and this file is read for some clients \
                         only; move the line to the main file";
const TOO_EARLY: &str = "`%u`, `%H`, `%P` and `%S` have no value in the name of a file, because \
                         it is read before a share is connected; `%U` is the user";
