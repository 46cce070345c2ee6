//! Reading the output of Samba's `pdbedit -Lw` and `pdbedit -Lv`.
//!
//! The first has the passwords, in the smbpasswd format:
//! `name:uid:LM hash:NT hash:[flags]:LCT-seconds:`. Flags that matter here:
//! `D` the account is disabled, `L` locked after wrong passwords, `N` no password is required, `W`,
//! `S` and `I` mark machines and domain trusts, which are not users.
//!
//! The second has the SIDs, in one block of lines for each user. It begins with a line of dashes;
//! `Unix username:` and `User SID:` matter here.

use std::io::{self, BufRead, Read};

use auth::NtHash;
use zeroize::Zeroize;

use super::line::{check_name, parse_samba_sid};
use super::{UserDatabase, UserEntry, UsersError};

/// Bytes of one line; a real one has less than 200.
const LINE_BYTES_MAX: u64 = 4_096;

/// Beginning of the line before each block of `pdbedit -Lv`.
const BLOCK_START: &str = "-----";

/// Result for one line that names a user.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ImportOutcome {
    /// The user did not exist before.
    Added,
    /// Nothing was done, for this reason.
    Skipped(&'static str),
    /// An existing user has the SID that Samba gave to it.
    Identified,
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
    let mut block = None;
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
        if line_text.starts_with(BLOCK_START) {
            block = Some(String::new());
            continue;
        }
        let fields: Vec<&str> = line_text.split(':').collect();
        if let (Some(name), false) = (&mut block, is_smbpasswd(&fields)) {
            if let Some(outcome) = read_block_line(database, name, &fields) {
                report.push(ImportedLine { line, name: name.clone(), outcome });
            }
            continue;
        }
        let name = fields[0].to_owned();
        let outcome = match parse(&fields) {
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

/// True for a line of the smbpasswd format, the flags of which are in brackets.
fn is_smbpasswd(fields: &[&str]) -> bool {
    fields.get(4).is_some_and(|flags| flags.starts_with('['))
}

/// Reads a line of the block of `pdbedit -Lv` about the user `name`, which is empty before the
/// block names one. Returns the outcome of the line with the SID.
fn read_block_line(
    database: &mut UserDatabase,
    name: &mut String,
    fields: &[&str],
) -> Option<ImportOutcome> {
    let [key, value] = fields[..] else { return None };
    let value = value.trim();
    if key == "Unix username" {
        value.clone_into(name);
    }
    // Those of machines are nobody's.
    if key != "User SID" || name.ends_with('$') {
        return None;
    }
    let Ok(user) = database.get_mut(name) else {
        return Some(ImportOutcome::Skipped("it has a SID and no password: import both"));
    };
    Some(match parse_samba_sid(value) {
        Ok(sid) => {
            user.samba_sid = Some(sid);
            ImportOutcome::Identified
        }
        Err(reason) => ImportOutcome::Skipped(reason),
    })
}

fn parse(fields: &[&str]) -> Result<UserEntry, &'static str> {
    let [name, _uid, _lm_hash, nt_hash, flags, ..] = fields[..] else {
        return Err("not a line of `pdbedit -Lw` or `pdbedit -Lv`");
    };
    if check_name(name).is_err() {
        return Err(if name.ends_with('$') { "a machine account" } else { "unfit name" });
    }
    let flags = flags
        .strip_prefix('[')
        .and_then(|flags| flags.strip_suffix(']'))
        .ok_or("not a line of `pdbedit -Lw` or `pdbedit -Lv`")?;
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
    Ok(UserEntry { enabled, ..UserEntry::new(name, nt_hash) })
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
