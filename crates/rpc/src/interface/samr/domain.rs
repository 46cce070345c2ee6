//! Properties of a domain: [MS-SAMR] 3.1.5.5.1, 3.1.5.5.2, 3.1.5.13.3.

use dtyp::NtStatus;

use super::access::{READ_OTHER_PARAMETERS, READ_PASSWORD_PARAMETERS};
use super::alias;
use super::information::{Information, NEVER};
use super::object::domain;
use crate::handles::SamDomain;
use crate::interface::Environment;
use crate::ndr::{Reader, Writer};
use crate::pdu::Fault;

/// DomainServerEnabled: [MS-SAMR] 2.2.3.1.
const ENABLED: u32 = 1;
/// DomainServerRolePrimary: [MS-SAMR] 2.2.3.2.
const PRIMARY: u32 = 3;

/// SamrQueryInformationDomain and SamrQueryInformationDomain2: [MS-SAMR] 3.1.5.5.2, 3.1.5.5.1.
///
/// The server has no rules for passwords, and locks nobody out: `choro:logon delay` and its like
/// protect against guesses.
pub(super) fn query_information(
    reader: &mut Reader<'_>,
    environment: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    let handle = reader.handle()?;
    let level = reader.u16()?;
    let required = match level {
        1 | 12 => READ_PASSWORD_PARAMETERS,
        2 | 11 => READ_PASSWORD_PARAMETERS | READ_OTHER_PARAMETERS,
        _ => READ_OTHER_PARAMETERS,
    };
    let of = domain(&mut Reader::new(&handle), environment, required)?;
    let name = of.name(environment.catalogue);
    let mut information = Information::begin(level);
    match level {
        // DOMAIN_PASSWORD_INFORMATION: [MS-SAMR] 2.2.3.5.
        1 => {
            let writer = information.writer();
            // MinPasswordLength, PasswordHistoryLength, PasswordProperties, ages.
            writer.u16(0);
            writer.u16(0);
            writer.u32(0);
            writer.old_large_integer(-NEVER);
            writer.old_large_integer(0);
        }
        2 => general(&mut information, environment, of, &name),
        3 => information.writer().old_large_integer(NEVER),
        4 | 6 => information.text(""),
        5 => information.text(&name),
        7 => information.writer().u32(PRIMARY),
        // DOMAIN_MODIFIED_INFORMATION: [MS-SAMR] 2.2.3.8.
        8 => {
            information.writer().old_large_integer(0);
            information.writer().old_large_integer(0);
        }
        9 => information.writer().u32(ENABLED),
        11 => {
            general(&mut information, environment, of, &name);
            // LARGE_INTEGERs behind the structure of level 2; its texts come after all.
            lockout(information.writer());
        }
        12 => lockout(information.writer()),
        13 => {
            information.writer().old_large_integer(0);
            information.writer().old_large_integer(0);
            information.writer().old_large_integer(0);
        }
        _ => return Ok(Information::refuse(NtStatus::INVALID_INFO_CLASS)),
    }
    Ok(information.finish())
}

/// SAMPR_DOMAIN_GENERAL_INFORMATION: [MS-SAMR] 2.2.3.10.
fn general<'a>(
    information: &mut Information<'a>,
    environment: &Environment<'_>,
    of: SamDomain,
    name: &'a str,
) {
    let (users, groups) = match of {
        SamDomain::Account => (environment.catalogue.accounts().map_or(0, |it| it.len()), 1),
        SamDomain::Builtin => (0, 0),
    };
    information.writer().old_large_integer(NEVER);
    information.text("");
    information.text(name);
    information.text("");
    let writer = information.writer();
    writer.old_large_integer(0);
    writer.u32(ENABLED);
    writer.u32(PRIMARY);
    // UasCompatibilityRequired, with padding.
    writer.u32(1);
    writer.count(users);
    writer.count(groups);
    writer.count(alias::of(of).len());
}

/// LockoutDuration, LockoutObservationWindow and LockoutThreshold: [MS-SAMR] 2.2.3.13.
fn lockout(writer: &mut Writer) {
    writer.i64(0);
    writer.i64(0);
    writer.u16(0);
}

/// SamrGetDomainPasswordInformation: [MS-SAMR] 3.1.5.13.3. Without a handle, for anybody.
pub(super) fn password_information(
    _: &mut Reader<'_>,
    _: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    Ok(no_password_rules())
}

/// Returns USER_DOMAIN_PASSWORD_INFORMATION without rules: [MS-SAMR] 2.2.3.19.
pub(super) fn no_password_rules() -> Vec<u8> {
    let mut writer = Writer::default();
    writer.u16(0);
    writer.u32(0);
    writer.finish_status(NtStatus::SUCCESS)
}
