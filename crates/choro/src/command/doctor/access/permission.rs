//! Sentences about mode and POSIX ACL of a path, and the command that grants what is missing.

use std::path::Path;

use store::{HostEntry, HostRights};

use crate::command::doctor::finding::{Finding, path_word, word};
use crate::command::doctor::user_name::name_of;

/// Bits of a permission, as in a mode.
pub(super) const READ: u16 = 4;
pub(super) const WRITE: u16 = 2;
pub(super) const SEARCH: u16 = 1;

/// The mode's bit for sticky directories.
pub(super) const STICKY: u16 = 0o1000;

/// A finding about mode and POSIX ACL, with the command that grants what is missing.
pub(super) fn permission(
    fact: &str,
    path: &Path,
    rights: &HostRights,
    user: &str,
    needed: u16,
    verb: &str,
) -> Finding {
    let shown = path.display();
    let (owner, group) = (name_of(rights.owner, ""), group_name(rights.group));
    let has = letters(rights.granted);
    let entry = match rights.entry {
        HostEntry::Root => format!("{user} is root"),
        HostEntry::Owner => format!("{user} owns it, and the owner has {has}"),
        HostEntry::User => format!("its POSIX ACL names {user}, with {has}"),
        HostEntry::OwningGroup => format!("{user} is in its group, which has {has}"),
        HostEntry::Group(gid) => {
            format!("its POSIX ACL names {}, a group of {user}, with {has}", group_name(gid))
        }
        HostEntry::Other => {
            format!("{user} is neither its owner nor in its group, and others have {has}")
        }
    };
    let mask = match rights.masked & needed {
        0 => String::new(),
        _ => format!(" (the mask of the ACL removes {})", letters(rights.masked)),
    };
    let reason = format!(
        "To {verb} {shown} takes {}. It belongs to {owner}:{group} and has the mode {:04o}; \
         {entry}{mask}.",
        letters(needed),
        rights.mode
    );
    let path = path_word(path);
    // A client that writes reads as well, and a new entry of an ACL replaces what was granted.
    let with_reading = if needed & WRITE == 0 { 0 } else { READ };
    let bits = letters(needed | with_reading | rights.granted).replace('-', "");
    let finding = Finding::fault("permissions", fact, reason);
    match rights.entry {
        HostEntry::Owner => finding.command(format!("chmod u+{bits} {path}")),
        _ if rights.has_acls => {
            finding.command(format!("setfacl -m u:{}:{bits} {path}", word(user)))
        }
        HostEntry::OwningGroup => finding.command(format!("chmod g+{bits} {path}")),
        _ => finding.command(format!("chmod o+{bits} {path}")),
    }
}

fn letters(bits: u16) -> String {
    let all = [(READ, 'r'), (WRITE, 'w'), (SEARCH, 'x')];
    all.into_iter().map(|(bit, letter)| if bits & bit == 0 { '-' } else { letter }).collect()
}

fn group_name(gid: u32) -> String {
    let found = nix::unistd::Group::from_gid(gid.into()).ok().flatten();
    found.map_or_else(|| gid.to_string(), |group| group.name)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use store::{HostEntry, HostRights};

    use super::{READ, SEARCH, WRITE, letters, permission};
    use crate::command::doctor::finding::Change;

    #[track_caller]
    fn check(entry: HostEntry, has_acls: bool, want: &str) {
        let rights = HostRights {
            owner: 0,
            group: 0,
            mode: 0o750,
            is_directory: true,
            granted: READ,
            entry,
            masked: 0,
            has_acls,
            immutable: false,
            append_only: false,
        };
        let needed = WRITE | SEARCH;
        let finding = permission("No.", Path::new("/srv/a b"), &rights, "anna", needed, "write");
        assert_eq!(finding.changes, [Change::Command(want.to_owned())]);
        assert!(finding.reason.contains("root:root and has the mode 0750"), "{finding:?}");
    }

    #[test]
    fn a_missing_permission_is_granted_by_the_entry_that_decides() {
        check(HostEntry::Owner, true, "chmod u+rwx '/srv/a b'");
        check(HostEntry::Other, true, "setfacl -m u:anna:rwx '/srv/a b'");
        check(HostEntry::Group(7), true, "setfacl -m u:anna:rwx '/srv/a b'");
        check(HostEntry::OwningGroup, false, "chmod g+rwx '/srv/a b'");
        check(HostEntry::Other, false, "chmod o+rwx '/srv/a b'");
        assert_eq!(letters(READ | SEARCH), "r-x");
    }
}
