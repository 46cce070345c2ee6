//! Reading the output of Samba's `pdbedit -Lw`.
//!
//! The smbpasswd format: `name:uid:LM hash:NT hash:[flags]:LCT-seconds:`. Flags that matter here:
//! `D` the account is disabled, `L` locked after wrong passwords, `N` no password is required, `W`,
//! `S` and `I` mark machines and domain trusts, which are not users.

use std::io::{self, BufRead, Read};

use auth::NtHash;
use zeroize::Zeroize;

use super::line::check_name;
use super::{UserDatabase, UserEntry, UsersError};

/// Bytes of one line; a real one has less than 200.
const LINE_BYTES_MAX: u64 = 4_096;

/// Result for one line that names a user.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ImportOutcome {
    /// The user did not exist before.
    Added,
    /// Nothing was done, for this reason.
    Skipped(&'static str),
    /// An existing user's hash and state were replaced.
    Updated,
}

/// A line of the import and what became of it.
#[derive(Debug)]
pub struct ImportedLine {
    /// Number of the line, counted from 1.
    pub line: usize,
    /// The user's name as far as it could be read.
    pub name: String,
    /// Effect of the line on the database.
    pub outcome: ImportOutcome,
}

/// Takes all users of `source` into `database`. Full names of existing users stay.
///
/// # Errors
/// Reading fails. Lines that cannot be used are skipped, with the reason in the result.
pub fn import(
    database: &mut UserDatabase,
    mut source: impl BufRead,
) -> Result<Vec<ImportedLine>, UsersError> {
    let mut report = Vec::new();
    let mut text = Vec::new();
    for line in 1.. {
        text.zeroize();
        if read_line(&mut source, &mut text).map_err(read_error)? == 0 {
            break;
        }
        let Ok(line_text) = str::from_utf8(&text) else {
            let outcome = ImportOutcome::Skipped("not UTF-8");
            report.push(ImportedLine { line, name: String::new(), outcome });
            continue;
        };
        let line_text = line_text.trim_end_matches(['\r', '\n']);
        if line_text.is_empty() || line_text.starts_with('#') {
            continue;
        }
        let name = line_text.split(':').next().unwrap_or_default().to_owned();
        let outcome = match parse(line_text) {
            Ok(user) => put(database, user)?,
            Err(reason) => ImportOutcome::Skipped(reason),
        };
        report.push(ImportedLine { line, name, outcome });
    }
    Ok(report)
}

fn read_error(error: io::Error) -> UsersError {
    UsersError::Io { doing: "read", path: "the users to import".into(), error }
}

/// Reads a line of at most [`LINE_BYTES_MAX`]; what is longer appears as several lines, none of
/// which has the form of a user.
fn read_line(source: &mut impl BufRead, text: &mut Vec<u8>) -> io::Result<usize> {
    source.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', text)
}

fn parse(line: &str) -> Result<UserEntry, &'static str> {
    let fields: Vec<&str> = line.split(':').collect();
    let [name, _uid, _lm_hash, nt_hash, flags, ..] = fields[..] else {
        return Err("not a line of `pdbedit -Lw`");
    };
    if check_name(name).is_err() {
        return Err(if name.ends_with('$') { "a machine account" } else { "unfit name" });
    }
    let flags = flags
        .strip_prefix('[')
        .and_then(|flags| flags.strip_suffix(']'))
        .ok_or("not a line of `pdbedit -Lw`")?;
    if name.ends_with('$') || flags.contains(['W', 'S', 'I']) {
        return Err("a machine or trust account");
    }
    if flags.contains('N') {
        return Err("an account that needs no password");
    }
    if nt_hash.starts_with(['X', '*', 'N']) {
        return Err("it has no NT hash");
    }
    let nt_hash = NtHash::from_hex(nt_hash).ok_or("the NT hash is not 32 hexadecimal digits")?;
    let enabled = !flags.contains(['D', 'L']);
    Ok(UserEntry {
        name: name.to_owned(),
        nt_hash,
        enabled,
        full_name: String::new(),
        identity: None,
    })
}

fn put(database: &mut UserDatabase, user: UserEntry) -> Result<ImportOutcome, UsersError> {
    match database.get_mut(&user.name) {
        Ok(existing) => {
            existing.nt_hash = user.nt_hash;
            existing.enabled = user.enabled;
            Ok(ImportOutcome::Updated)
        }
        Err(_) => database.add(user).map(|()| ImportOutcome::Added),
    }
}
