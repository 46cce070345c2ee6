//! Rights that handles have: [MS-SAMR] 2.2.1 and 3.1.5.1.

use dtyp::NtStatus;

use crate::interface::Environment;

/// MAXIMUM_ALLOWED: [MS-SAMR] 2.2.1.1.
const MAXIMUM_ALLOWED: u32 = 0x0200_0000;
/// GENERIC_ALL, GENERIC_EXECUTE, GENERIC_WRITE and GENERIC_READ: [MS-SAMR] 2.2.1.2.
const GENERIC: [u32; 4] = [0x1000_0000, 0x2000_0000, 0x4000_0000, 0x8000_0000];
/// ACCESS_SYSTEM_SECURITY, which only administrators may have.
const SYSTEM_SECURITY: u32 = 0x0100_0000;

/// Rights of one kind of objects.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rights {
    all: u32,
    execute: u32,
    write: u32,
    read: u32,
}

/// Rights to a server: [MS-SAMR] 2.2.1.3.
pub(super) const SERVER: Rights =
    Rights { all: 0x000F_003F, execute: 0x0002_0021, write: 0x0002_000E, read: 0x0002_0010 };
/// Rights to a domain: [MS-SAMR] 2.2.1.4.
pub(super) const DOMAIN: Rights =
    Rights { all: 0x000F_07FF, execute: 0x0002_0301, write: 0x0002_047A, read: 0x0002_0084 };
/// Rights to a group: [MS-SAMR] 2.2.1.5.
pub(super) const GROUP: Rights =
    Rights { all: 0x000F_001F, execute: 0x0002_0001, write: 0x0002_000E, read: 0x0002_0010 };
/// Rights to an alias: [MS-SAMR] 2.2.1.6.
pub(super) const ALIAS: Rights =
    Rights { all: 0x000F_001F, execute: 0x0002_0008, write: 0x0002_0013, read: 0x0002_0004 };
/// Rights to a user: [MS-SAMR] 2.2.1.7.
pub(super) const USER: Rights =
    Rights { all: 0x000F_07FF, execute: 0x0002_0041, write: 0x0002_0044, read: 0x0002_031A };

/// SAM_SERVER_ENUMERATE_DOMAINS: [MS-SAMR] 2.2.1.3.
pub(super) const ENUMERATE_DOMAINS: u32 = 0x0010;
/// SAM_SERVER_LOOKUP_DOMAIN: [MS-SAMR] 2.2.1.3.
pub(super) const LOOKUP_DOMAIN: u32 = 0x0020;
/// DOMAIN_READ_PASSWORD_PARAMETERS: [MS-SAMR] 2.2.1.4.
pub(super) const READ_PASSWORD_PARAMETERS: u32 = 0x0001;
/// DOMAIN_READ_OTHER_PARAMETERS: [MS-SAMR] 2.2.1.4.
pub(super) const READ_OTHER_PARAMETERS: u32 = 0x0004;
/// DOMAIN_GET_ALIAS_MEMBERSHIP: [MS-SAMR] 2.2.1.4.
pub(super) const GET_ALIAS_MEMBERSHIP: u32 = 0x0080;
/// DOMAIN_LIST_ACCOUNTS: [MS-SAMR] 2.2.1.4.
pub(super) const LIST_ACCOUNTS: u32 = 0x0100;
/// DOMAIN_LOOKUP: [MS-SAMR] 2.2.1.4.
pub(super) const LOOKUP: u32 = 0x0200;
/// GROUP_READ_INFORMATION: [MS-SAMR] 2.2.1.5.
pub(super) const GROUP_READ: u32 = 0x0001;
/// GROUP_LIST_MEMBERS: [MS-SAMR] 2.2.1.5.
pub(super) const GROUP_LIST_MEMBERS: u32 = 0x0010;
/// ALIAS_LIST_MEMBERS: [MS-SAMR] 2.2.1.6.
pub(super) const ALIAS_LIST_MEMBERS: u32 = 0x0004;
/// ALIAS_READ_INFORMATION: [MS-SAMR] 2.2.1.6.
pub(super) const ALIAS_READ: u32 = 0x0008;
/// USER_LIST_GROUPS: [MS-SAMR] 2.2.1.7.
pub(super) const USER_LIST_GROUPS: u32 = 0x0100;

/// Returns the rights that a handle gets: all for administrators, and those to read for others.
/// Even with the rights to change something, each operation that would is refused.
///
/// # Errors
/// ACCESS_DENIED, also for callers who may not list users.
pub(super) fn grant(
    environment: &Environment<'_>,
    desired_access: u32,
    rights: Rights,
) -> Result<u32, NtStatus> {
    let caller = environment.caller;
    if caller.is_guest || !environment.catalogue.admits(caller) {
        return Err(NtStatus::ACCESS_DENIED);
    }
    let allowed = if environment.catalogue.is_administrator(caller) {
        rights.all | SYSTEM_SECURITY
    } else {
        rights.read | rights.execute
    };
    let mut desired = desired_access & !MAXIMUM_ALLOWED;
    let specific = [rights.all, rights.execute, rights.write, rights.read];
    for (generic, specific) in GENERIC.into_iter().zip(specific) {
        if desired & generic != 0 {
            desired = desired & !generic | specific;
        }
    }
    if desired & !allowed != 0 {
        return Err(NtStatus::ACCESS_DENIED);
    }
    let maximum = if desired_access & MAXIMUM_ALLOWED == 0 { 0 } else { allowed };
    Ok(desired | maximum)
}
