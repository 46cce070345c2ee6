//! The access check: [MS-DTYP] 2.5.3.2.
//!
//! Pure: a descriptor, a token and what is asked for in; what is granted out. Conditional entries
//! (callback types) and entries for objects of a directory are not evaluated: one that would grant
//! grants nothing, and one that would deny denies, so that not understanding never opens a door.

use crate::{AccessMask, Ace, AceFlags, AceType, SecurityDescriptor, Sid};

/// Who asks.
#[derive(Clone, Copy, Debug)]
pub struct Token<'a> {
    /// The user.
    pub user: &'a Sid,
    /// The groups, with Everyone and the like among them.
    pub groups: &'a [Sid],
    /// What the user may do regardless of descriptors.
    pub privileges: Privileges,
}

/// The privileges that matter to files.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Privileges {
    /// SeSecurityPrivilege: read and write SACLs.
    pub security: bool,
    /// SeTakeOwnershipPrivilege: become the owner of anything.
    pub take_ownership: bool,
    /// SeBackupPrivilege: read anything. Set it only for an open with backup intent.
    pub backup: bool,
    /// SeRestorePrivilege: write anything. Set it only for an open with backup intent.
    pub restore: bool,
}

/// Why access is refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AccessDenied {
    /// The DACL does not grant these rights, or denies them.
    Dacl {
        /// The rights asked for that were not granted.
        missing: AccessMask,
    },
    /// ACCESS_SYSTEM_SECURITY needs a privilege, whatever the DACL says.
    PrivilegeNotHeld,
}

impl Token<'_> {
    /// Whether `sid` is the user or one of the groups.
    #[must_use]
    pub fn contains(&self, sid: &Sid) -> bool {
        self.user == sid || self.groups.contains(sid)
    }
}

/// What `token` gets of `desired` on an object with `descriptor`: all of it or an error.
///
/// Generic bits are mapped to file rights first. With MAXIMUM_ALLOWED the answer is all that the
/// token can have, which must include what else was asked for.
///
/// # Errors
/// If any of the rights is not granted.
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
    // ACCESS_SYSTEM_SECURITY is no right of the object, so asking for the maximum does not give it.
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

/// The owner may read the descriptor and change the DACL, unless an entry for OWNER RIGHTS says
/// what the owner may do.
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

/// The first entry that names a right decides on it.
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
    // An ACE cannot grant this one; only a privilege does.
    granted.difference(AccessMask::ACCESS_SYSTEM_SECURITY)
}

#[cfg(test)]
mod tests {
    use super::{AccessDenied, Privileges, Token, access_check};
    use crate::security_descriptor::Control;
    use crate::{AccessMask, Ace, AceFlags, AceType, Acl, SecurityDescriptor, Sid};

    fn descriptor(aces: Vec<Ace>) -> SecurityDescriptor {
        SecurityDescriptor {
            control: Control::DACL_PRESENT,
            owner: Some(Sid::unix_user(1)),
            dacl: Some(Acl::new(aces)),
            ..SecurityDescriptor::default()
        }
    }

    fn allow(sid: Sid, mask: AccessMask) -> Ace {
        Ace::allow(sid, mask, AceFlags::empty())
    }

    fn deny(sid: Sid, mask: AccessMask) -> Ace {
        Ace::deny(sid, mask, AceFlags::empty())
    }

    #[track_caller]
    fn check(
        aces: Vec<Ace>,
        uid: u32,
        desired: AccessMask,
        want: Result<AccessMask, AccessDenied>,
    ) {
        let user = Sid::unix_user(uid);
        let groups = [Sid::everyone(), Sid::unix_group(7)];
        let token = Token { user: &user, groups: &groups, privileges: Privileges::default() };
        assert_eq!(access_check(&descriptor(aces), &token, desired), want);
    }

    const READ: AccessMask = AccessMask::READ_DATA;
    const WRITE: AccessMask = AccessMask::WRITE_DATA;
    const MAXIMUM: AccessMask = AccessMask::MAXIMUM_ALLOWED;
    const OF_OWNER: AccessMask = AccessMask::READ_CONTROL.union(AccessMask::WRITE_DAC);

    fn missing(missing: AccessMask) -> Result<AccessMask, AccessDenied> {
        Err(AccessDenied::Dacl { missing })
    }

    #[test]
    fn rights_add_up_over_entries() {
        let aces = vec![allow(Sid::everyone(), READ), allow(Sid::unix_group(7), WRITE)];
        check(aces.clone(), 5, READ | WRITE, Ok(READ | WRITE));
        check(aces, 5, READ | AccessMask::DELETE, missing(AccessMask::DELETE));
    }

    #[test]
    fn the_first_entry_that_names_a_right_decides() {
        let deny_first = vec![deny(Sid::unix_user(5), WRITE), allow(Sid::everyone(), READ | WRITE)];
        check(deny_first.clone(), 5, WRITE, missing(WRITE));
        check(deny_first.clone(), 5, MAXIMUM, Ok(READ));
        check(deny_first, 6, WRITE, Ok(WRITE));
        let allow_first = vec![allow(Sid::everyone(), WRITE), deny(Sid::unix_user(5), WRITE)];
        check(allow_first, 5, WRITE, Ok(WRITE));
    }

    #[test]
    fn the_owner_may_read_and_change_the_dacl_unless_owner_rights_say_otherwise() {
        check(Vec::new(), 1, OF_OWNER, Ok(OF_OWNER));
        check(Vec::new(), 1, READ, missing(READ));
        check(Vec::new(), 2, OF_OWNER, missing(OF_OWNER));
        check(vec![deny(Sid::everyone(), OF_OWNER)], 1, OF_OWNER, Ok(OF_OWNER));
        let limited = vec![allow(Sid::owner_rights(), READ)];
        check(limited.clone(), 1, MAXIMUM, Ok(READ));
        check(limited, 2, MAXIMUM, Ok(AccessMask::empty()));
    }

    #[test]
    fn maximum_must_include_what_else_was_asked_for() {
        let aces = vec![allow(Sid::everyone(), AccessMask::GENERIC_READ)];
        let read = AccessMask::FILE_GENERIC_READ;
        check(aces.clone(), 5, MAXIMUM | READ, Ok(read));
        check(aces.clone(), 5, MAXIMUM | WRITE, missing(WRITE));
        check(aces.clone(), 5, AccessMask::GENERIC_READ, Ok(read));
        check(aces, 1, MAXIMUM, Ok(read | OF_OWNER));
    }

    #[test]
    fn inherit_only_and_unevaluated_entries_grant_nothing() {
        let inherit_only = Ace::allow(Sid::everyone(), READ, AceFlags::INHERIT_ONLY);
        check(vec![inherit_only], 5, READ, missing(READ));
        let callback = |kind| Ace::simple(kind, Sid::everyone(), READ, AceFlags::empty());
        check(vec![callback(AceType::ACCESS_ALLOWED_CALLBACK)], 5, READ, missing(READ));
        let aces = vec![callback(AceType::ACCESS_DENIED_CALLBACK), allow(Sid::everyone(), READ)];
        check(aces, 5, READ, missing(READ));
    }

    #[test]
    fn no_dacl_grants_everything_that_needs_no_privilege() {
        let user = Sid::unix_user(5);
        let mut token = Token { user: &user, groups: &[], privileges: Privileges::default() };
        let open = SecurityDescriptor::default();
        assert_eq!(access_check(&open, &token, MAXIMUM), Ok(AccessMask::FILE_ALL));
        let sacl = AccessMask::ACCESS_SYSTEM_SECURITY;
        assert_eq!(access_check(&open, &token, sacl), Err(AccessDenied::PrivilegeNotHeld));
        token.privileges.security = true;
        assert_eq!(access_check(&open, &token, sacl), Ok(sacl));
        assert_eq!(access_check(&open, &token, MAXIMUM), Ok(AccessMask::FILE_ALL));
    }

    #[test]
    fn an_entry_cannot_grant_the_sacl() {
        let sacl = AccessMask::ACCESS_SYSTEM_SECURITY;
        let aces = vec![allow(Sid::everyone(), sacl | READ)];
        check(aces.clone(), 5, sacl, Err(AccessDenied::PrivilegeNotHeld));
        check(aces, 5, MAXIMUM, Ok(READ));
    }

    #[test]
    fn privileges_grant_past_a_deny() {
        let user = Sid::unix_user(5);
        let mut token = Token { user: &user, groups: &[], privileges: Privileges::default() };
        let closed = descriptor(vec![deny(user.clone(), AccessMask::FILE_ALL)]);
        token.privileges.take_ownership = true;
        let owner = AccessMask::WRITE_OWNER;
        assert_eq!(access_check(&closed, &token, owner), Ok(owner));
        assert_eq!(access_check(&closed, &token, READ), missing(READ));
        token.privileges.backup = true;
        assert_eq!(access_check(&closed, &token, READ), Ok(READ));
        assert_eq!(access_check(&closed, &token, WRITE), missing(WRITE));
        token.privileges.restore = true;
        assert_eq!(access_check(&closed, &token, WRITE), Ok(WRITE));
    }
}
