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
fn check(aces: Vec<Ace>, uid: u32, desired: AccessMask, want: Result<AccessMask, AccessDenied>) {
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
fn maximum_allowed_must_include_the_other_requested_rights() {
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
