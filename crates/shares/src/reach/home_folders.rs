//! Homes of the users of this machine, as its own files have them.
//!
//! The name service is not asked: its modules would be loaded into all workers, and may wait for a
//! network. If accounts come from elsewhere, their homes are not known.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use config::Global;

use crate::homes::is_root_folder;

/// Bytes of a file that are read at most.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Highest number of homes; more are unknown.
const HOMES_MAX: usize = 1_024;

/// Sources of the name service whose accounts this machine has.
const LOCAL: [&str; 5] = ["files", "compat", "altfiles", "systemd", "mymachines"];

/// A source that some systems name whether or not it is there, and its socket.
const OPTIONAL: (&str, &str) = ("sss", "/var/lib/sss/pipes/nss");

/// Returns the homes of users that have one by the configuration.
///
/// # Errors
/// The reason why they are not known, in words.
pub(super) fn of_system(global: &Global) -> Result<BTreeSet<PathBuf>, String> {
    if global.is_member() {
        return Err("the domain has their accounts".to_owned());
    }
    // A system without the file has accounts in files.
    let sources = read("/etc/nsswitch.conf").unwrap_or_default();
    if let Some(other) = other_source(&sources, |path| Path::new(path).exists()) {
        return Err(format!("accounts come from `{other}` (/etc/nsswitch.conf)"));
    }
    let accounts = read("/etc/passwd").map_err(|error| format!("/etc/passwd: {error}"))?;
    homes(&accounts, global.homes_min_uid)
}

fn read(path: &str) -> std::io::Result<String> {
    let mut text = Vec::new();
    File::open(path)?.take(FILE_BYTES_MAX).read_to_end(&mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Returns the first source of accounts that is not on this machine.
fn other_source(text: &str, is_there: impl Fn(&str) -> bool) -> Option<String> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    let sources = lines.filter_map(|line| line.strip_prefix("passwd")?.trim().strip_prefix(':'));
    // Actions are in brackets, and may have spaces.
    let without_actions = sources
        .flat_map(|line| line.split('[').map(|part| part.rsplit(']').next().unwrap_or_default()));
    let mut words = without_actions.flat_map(str::split_whitespace);
    let is_other = |it: &&str| !LOCAL.contains(it) && (*it != OPTIONAL.0 || is_there(OPTIONAL.1));
    words.find(is_other).map(str::to_owned)
}

/// Returns the homes of a file in the form of passwd(5).
fn homes(accounts: &str, min: u32) -> Result<BTreeSet<PathBuf>, String> {
    let mut found = BTreeSet::new();
    for line in accounts.lines() {
        let mut fields = line.split(':');
        let (Some(id), Some(home)) = (fields.nth(2), fields.nth(2)) else { continue };
        let has_home = id.parse::<u32>().is_ok_and(|id| id >= min);
        if has_home && home.starts_with('/') && !is_root_folder(Path::new(home)) {
            found.insert(PathBuf::from(home));
        }
        if found.len() > HOMES_MAX {
            return Err(format!("/etc/passwd has more than {HOMES_MAX} of them"));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::{HOMES_MAX, homes, other_source};

    #[test]
    fn homes_are_those_of_users_from_the_lowest_id_on() {
        let text = "root:x:0:0:root:/root:/bin/sh\nanna:x:1000:1000:Anna,,,:/home/anna:/bin/sh\n\
                    nobody:x:65534:65534::/:/usr/sbin/nologin\nbob:x:1001:1001::/home/bob:\n\
                    shared:x:1002:1002::/home/bob:/bin/sh\nbroken\nbad:x:y:1:::\n";
        let want = ["/home/anna", "/home/bob"].map(PathBuf::from);
        assert_eq!(homes(text, 1_000), Ok(want.into()));
        assert_eq!(homes(text, 1_001), Ok([PathBuf::from("/home/bob")].into()));
    }

    #[test]
    fn more_homes_than_a_ruleset_has_room_for_are_not_known() {
        let line = |number: usize| format!("u{number}:x:1000:1000::/home/u{number}:/bin/sh\n");
        let text: String = (0..=HOMES_MAX).map(line).collect();
        homes(&text, 0).expect_err("one too many");
    }

    #[test]
    fn sources_of_accounts_that_are_elsewhere_are_found() {
        let found = |line: &str, has_sss| other_source(line, |_| has_sss);
        for local in ["", "passwd: files systemd\n", "passwd:\tcompat\n", "group: files ldap\n"] {
            assert_eq!(found(local, true), None, "{local}");
        }
        let ldap = Some("ldap".to_owned());
        assert_eq!(found("passwd: files ldap # here\n", false), ldap);
        assert_eq!(found("passwd : files [SUCCESS=merge NOTFOUND=continue] ldap\n", false), ldap);
        assert_eq!(found("passwd: files # ldap\n", false), None);
        assert_eq!(found("passwd: files sss\n", false), None, "it is named and not there");
        assert_eq!(found("passwd: files sss\n", true), Some("sss".to_owned()));
    }
}
