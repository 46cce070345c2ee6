//! Principals that are the same on every server: [MS-DTYP] 2.4.2.4.

use dtyp::Sid;
use dtyp::upcase::equal_ignoring_case;

use crate::{Principal, PrincipalKind};

const ALIAS: PrincipalKind = PrincipalKind::Alias;
const DOMAIN: PrincipalKind = PrincipalKind::Domain;
const GROUP: PrincipalKind = PrincipalKind::WellKnownGroup;
const LABEL: PrincipalKind = PrincipalKind::Label;

const NONE: &str = "";
const AUTHORITY: &str = "NT AUTHORITY";
const BUILTIN: &str = "BUILTIN";
const LABELS: &str = "Mandatory Label";

type Row = (u64, &'static [u32], PrincipalKind, &'static str, &'static str);

/// Authority, subauthorities, kind, domain, name.
const TABLE: &[Row] = &[
    (1, &[0], GROUP, NONE, "Everyone"),
    (2, &[0], GROUP, NONE, "LOCAL"),
    (2, &[1], GROUP, NONE, "CONSOLE LOGON"),
    (3, &[0], GROUP, NONE, "CREATOR OWNER"),
    (3, &[1], GROUP, NONE, "CREATOR GROUP"),
    (3, &[2], GROUP, NONE, "CREATOR OWNER SERVER"),
    (3, &[3], GROUP, NONE, "CREATOR GROUP SERVER"),
    (3, &[4], GROUP, NONE, "OWNER RIGHTS"),
    (5, &[1], GROUP, AUTHORITY, "DIALUP"),
    (5, &[2], GROUP, AUTHORITY, "NETWORK"),
    (5, &[3], GROUP, AUTHORITY, "BATCH"),
    (5, &[4], GROUP, AUTHORITY, "INTERACTIVE"),
    (5, &[6], GROUP, AUTHORITY, "SERVICE"),
    (5, &[7], GROUP, AUTHORITY, "ANONYMOUS LOGON"),
    (5, &[8], GROUP, AUTHORITY, "PROXY"),
    (5, &[9], GROUP, AUTHORITY, "ENTERPRISE DOMAIN CONTROLLERS"),
    (5, &[10], GROUP, AUTHORITY, "SELF"),
    (5, &[11], GROUP, AUTHORITY, "Authenticated Users"),
    (5, &[12], GROUP, AUTHORITY, "RESTRICTED"),
    (5, &[13], GROUP, AUTHORITY, "TERMINAL SERVER USER"),
    (5, &[14], GROUP, AUTHORITY, "REMOTE INTERACTIVE LOGON"),
    (5, &[15], GROUP, AUTHORITY, "This Organization"),
    (5, &[17], GROUP, AUTHORITY, "IUSR"),
    (5, &[18], GROUP, AUTHORITY, "SYSTEM"),
    (5, &[19], GROUP, AUTHORITY, "LOCAL SERVICE"),
    (5, &[20], GROUP, AUTHORITY, "NETWORK SERVICE"),
    (5, &[64, 10], GROUP, AUTHORITY, "NTLM Authentication"),
    (5, &[64, 14], GROUP, AUTHORITY, "SChannel Authentication"),
    (5, &[64, 21], GROUP, AUTHORITY, "Digest Authentication"),
    (5, &[32], DOMAIN, BUILTIN, BUILTIN),
    (5, &[32, 544], ALIAS, BUILTIN, "Administrators"),
    (5, &[32, 545], ALIAS, BUILTIN, "Users"),
    (5, &[32, 546], ALIAS, BUILTIN, "Guests"),
    (5, &[32, 547], ALIAS, BUILTIN, "Power Users"),
    (5, &[32, 548], ALIAS, BUILTIN, "Account Operators"),
    (5, &[32, 549], ALIAS, BUILTIN, "Server Operators"),
    (5, &[32, 550], ALIAS, BUILTIN, "Print Operators"),
    (5, &[32, 551], ALIAS, BUILTIN, "Backup Operators"),
    (5, &[32, 552], ALIAS, BUILTIN, "Replicator"),
    (5, &[32, 554], ALIAS, BUILTIN, "Pre-Windows 2000 Compatible Access"),
    (5, &[32, 555], ALIAS, BUILTIN, "Remote Desktop Users"),
    (5, &[32, 556], ALIAS, BUILTIN, "Network Configuration Operators"),
    (5, &[32, 558], ALIAS, BUILTIN, "Performance Monitor Users"),
    (5, &[32, 559], ALIAS, BUILTIN, "Performance Log Users"),
    (5, &[32, 562], ALIAS, BUILTIN, "Distributed COM Users"),
    (5, &[32, 569], ALIAS, BUILTIN, "Cryptographic Operators"),
    (5, &[32, 573], ALIAS, BUILTIN, "Event Log Readers"),
    (16, &[4_096], LABEL, LABELS, "Low Mandatory Level"),
    (16, &[8_192], LABEL, LABELS, "Medium Mandatory Level"),
    (16, &[12_288], LABEL, LABELS, "High Mandatory Level"),
    (16, &[16_384], LABEL, LABELS, "System Mandatory Level"),
];

/// Returns the well-known principal with this SID.
pub(super) fn find_sid(sid: &Sid) -> Option<Principal> {
    let found = TABLE.iter().find(|row| row.0 == sid.authority() && row.1 == sid.subauthorities());
    found.map(principal)
}

/// Returns the well-known principal named `name`, in `domain` or in any domain.
pub(super) fn find_name(domain: Option<&str>, name: &str) -> Option<Principal> {
    let is_it = |row: &&Row| {
        let (_, _, kind, of, called) = **row;
        kind != DOMAIN
            && equal_ignoring_case(called, name)
            && domain.is_none_or(|domain| equal_ignoring_case(domain, of))
    };
    TABLE.iter().find(is_it).map(principal)
}

/// Returns the well-known domain named `name`.
pub(super) fn find_domain(name: &str) -> Option<Principal> {
    let found = TABLE.iter().find(|row| row.2 == DOMAIN && equal_ignoring_case(row.4, name));
    found.map(principal)
}

fn principal(&(authority, subauthorities, kind, domain, name): &Row) -> Principal {
    let sid = Sid::new(authority, subauthorities);
    Principal { kind, domain: domain.to_owned(), name: name.to_owned(), sid }
}
