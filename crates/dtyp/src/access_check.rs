//! The access check: [MS-DTYP] 2.5.3.2.
//!
//! A pure function from a descriptor, a token and requested rights to granted rights. Conditional
//! entries (callback types) and entries for objects of a directory service are not evaluated: one
//! that would grant grants nothing, and one that would deny denies, so that an unknown entry never
//! opens access.

use crate::{AccessMask, Ace, AceFlags, AceType, SecurityDescriptor, Sid};

/// Identity and privileges of a requester.
#[derive(Clone, Copy, Debug)]
pub struct Token<'a> {
    /// The user.
    pub user: &'a Sid,
    /// The groups of the user, with Everyone and other well-known groups among them.
    pub groups: &'a [Sid],
    /// Rights that the user has regardless of descriptors.
    pub privileges: Privileges,
}

/// The privileges that concern files.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Privileges {
    /// SeSecurityPrivilege: read and write SACLs.
    pub security: bool,
    /// SeTakeOwnershipPrivilege: become the owner of any file.
    pub take_ownership: bool,
    /// SeBackupPrivilege: read any file. Set it only for an open with backup intent.
    pub backup: bool,
    /// SeRestorePrivilege: write any file. Set it only for an open with backup intent.
    pub restore: bool,
}

/// Reason for a refused access.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AccessDenied {
    /// The DACL does not grant these rights, or denies them.
    Dacl {
        /// Requested rights that were not granted.
        missing: AccessMask,
    },
    /// ACCESS_SYSTEM_SECURITY requires a privilege; no DACL can grant it.
    PrivilegeNotHeld,
}

impl Token<'_> {
    /// True if `sid` is the user or one of the groups.
    #[must_use]
    pub fn contains(&self, sid: &Sid) -> bool {
        self.user == sid || self.groups.contains(sid)
    }
}

/// Returns the rights that `token` gets on an object with `descriptor`: all of `desired`, or an
/// error.
///
/// Generic bits are mapped to file rights first. With MAXIMUM_ALLOWED the result has all rights
/// that the token can have, which must include the other requested ones.
///
/// # Errors
/// If one of the rights is not granted.
pub fn access_check(
    descriptor: &SecurityDescriptor,
    token: &Token<'_>,
    desired: AccessMask,
) -> Result<AccessMask, AccessDenied> {
    let maximum = desired.contains(AccessMask::MAXIMUM_ALLOWED);
    let desired = desired.difference(AccessMask::MAXIMUM_ALLOWED).map_generic();
    if desired.contains(AccessMask::ACCESS_SYSTEM_SECURITY)
        && !(token.privileges.security || token.privileges.backup || token.privileges.restore)
    {
        return Err(AccessDenied::PrivilegeNotHeld);
    }
    let regardless = granted_by_privilege(token.privileges);
    let granted = match &descriptor.dacl {
        None => regardless | AccessMask::FILE_ALL,
        Some(dacl) => {
            let by_owner = granted_to_owner(descriptor, token, &dacl.aces);
            by_owner | regardless | granted_by_aces(descriptor, token, &dacl.aces, by_owner)
        }
    };
    let missing = desired.difference(granted);
    if !missing.is_empty() {
        return Err(AccessDenied::Dacl { missing });
    }
    // ACCESS_SYSTEM_SECURITY is not a right of the object, so MAXIMUM_ALLOWED does not include it.
    let all = granted.difference(AccessMask::ACCESS_SYSTEM_SECURITY);
    Ok(if maximum { all | desired } else { desired })
}

fn granted_by_privilege(privileges: Privileges) -> AccessMask {
    let mut granted = AccessMask::empty();
    if privileges.security {
        granted |= AccessMask::ACCESS_SYSTEM_SECURITY;
    }
    if privileges.take_ownership {
        granted |= AccessMask::WRITE_OWNER;
    }
    // [MS-FSA] 2.1.5.1: an open with backup intent.
    if privileges.backup {
        granted |= AccessMask::FILE_GENERIC_READ
            | AccessMask::EXECUTE
            | AccessMask::ACCESS_SYSTEM_SECURITY;
    }
    if privileges.restore {
        granted |= AccessMask::FILE_GENERIC_WRITE
            | AccessMask::WRITE_DAC
            | AccessMask::WRITE_OWNER
            | AccessMask::DELETE
            | AccessMask::ACCESS_SYSTEM_SECURITY;
    }
    granted
}

/// Rights of the owner: to read the descriptor and change the DACL, unless an entry for OWNER
/// RIGHTS replaces them.
fn granted_to_owner(
    descriptor: &SecurityDescriptor,
    token: &Token<'_>,
    aces: &[Ace],
) -> AccessMask {
    let owns = descriptor.owner.as_ref().is_some_and(|owner| token.contains(owner));
    let owner_rights = Sid::owner_rights();
    let limited = aces
        .iter()
        .any(|ace| !ace.flags.contains(AceFlags::INHERIT_ONLY) && ace.sid() == Some(&owner_rights));
    if owns && !limited {
        AccessMask::READ_CONTROL | AccessMask::WRITE_DAC
    } else {
        AccessMask::empty()
    }
}

/// Rights by the entries: the first entry with a right decides on it.
fn granted_by_aces(
    descriptor: &SecurityDescriptor,
    token: &Token<'_>,
    aces: &[Ace],
    before: AccessMask,
) -> AccessMask {
    let owns = descriptor.owner.as_ref().is_some_and(|owner| token.contains(owner));
    let owner_rights = Sid::owner_rights();
    let (mut granted, mut denied) = (before, AccessMask::empty());
    for ace in aces {
        let Some(sid) = ace.sid() else { continue };
        if ace.flags.contains(AceFlags::INHERIT_ONLY)
            || !(token.contains(sid) || (owns && *sid == owner_rights))
        {
            continue;
        }
        let mask = ace.mask().map_generic();
        match ace.ace_type {
            AceType::ACCESS_ALLOWED => granted |= mask.difference(denied),
            AceType::ACCESS_DENIED | AceType::ACCESS_DENIED_CALLBACK => {
                denied |= mask.difference(granted);
            }
            _ => {}
        }
    }
    // Only a privilege grants this right.
    granted.difference(AccessMask::ACCESS_SYSTEM_SECURITY)
}

#[cfg(test)]
mod tests;
