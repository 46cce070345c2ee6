//! Users: [MS-SAMR] 3.1.5.1.9, 3.1.5.5.6, 3.1.5.9.1, 3.1.5.13.4. Nothing about a password but that
//! there is one.

use dtyp::NtStatus;

use super::access::{self, LOOKUP, USER_LIST_GROUPS, grant};
use super::domain::no_password_rules;
use super::enumeration::NORMAL_ACCOUNT;
use super::group::{ATTRIBUTES, NONE_RID};
use super::information::{Information, NEVER};
use super::object::{domain, verify, with_handle};
use crate::AccountEntry;
use crate::handles::{HandleObject, SamDomain};
use crate::interface::Environment;
use crate::ndr::{Reader, Writer};
use crate::pdu::Fault;

/// USER_ACCOUNT_DISABLED: [MS-SAMR] 2.2.1.12.
const ACCOUNT_DISABLED: u32 = 0x0000_0001;
/// USER_DONT_EXPIRE_PASSWORD: [MS-SAMR] 2.2.1.12.
const PASSWORD_NEVER_EXPIRES: u32 = 0x0000_0200;

/// Fields of a user that are not secret: USER_ALL_READ_GENERAL_MASK to USER_ALL_READ_ACCOUNT_MASK
/// ([MS-SAMR] 2.2.1.8).
const FIELDS: u32 = 0x00FF_FFFF;

/// Hours of a week, each a bit of SAMPR_LOGON_HOURS: [MS-SAMR] 2.2.6.5.
const HOURS: u16 = 168;
/// Bits of all hours: logons are possible at any time.
const ALL_HOURS: [u8; 21] = [0xFF; 21];
/// Announced size of the bits: `size_is(1260)` in the definition.
const HOURS_SIZE_MAX: u32 = 1_260;

/// Control bits of an account: [MS-SAMR] 2.2.1.12.
pub(super) fn control(account: &AccountEntry) -> u32 {
    let disabled = if account.enabled { 0 } else { ACCOUNT_DISABLED };
    NORMAL_ACCOUNT | PASSWORD_NEVER_EXPIRES | disabled
}

/// SamrOpenUser: [MS-SAMR] 3.1.5.1.9.
pub(super) fn open(
    reader: &mut Reader<'_>,
    environment: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    let within = domain(reader, environment, LOOKUP)?;
    let (desired_access, rid) = (reader.u32()?, reader.u32()?);
    let opened = match grant(environment, desired_access, access::USER) {
        Err(status) => Err(status),
        Ok(_)
            if within != SamDomain::Account
                || environment.catalogue.account_by_rid(rid).is_none() =>
        {
            Err(NtStatus::NO_SUCH_USER)
        }
        Ok(granted) => environment.handles.open(HandleObject::User(rid), granted),
    };
    Ok(with_handle(opened))
}

/// Reads a handle, which must have these rights to a user; the user may be gone meanwhile.
fn read_user(
    reader: &mut Reader<'_>,
    environment: &Environment<'_>,
    required_access: u32,
) -> Result<Option<AccountEntry>, Fault> {
    let (object, granted_access) = environment.handles.object(reader.handle()?)?;
    let HandleObject::User(rid) = object else { return Err(Fault::ContextMismatch) };
    verify(granted_access, required_access)?;
    Ok(environment.catalogue.account_by_rid(rid))
}

/// Rights that a query of a level needs: [MS-SAMR] 3.1.5.5.6. Of level 21, all that is told is
/// readable for everyone.
fn required_access(level: u16) -> u32 {
    const READ_GENERAL: u32 = 0x0001;
    const READ_PREFERENCES: u32 = 0x0002;
    const READ_LOGON: u32 = 0x0008;
    const READ_ACCOUNT: u32 = 0x0010;
    match level {
        1 | 6..=9 | 13 => READ_GENERAL,
        2 => READ_GENERAL | READ_PREFERENCES,
        3 | 5 => READ_GENERAL | READ_LOGON | READ_ACCOUNT,
        4 | 10..=12 | 14 => READ_LOGON,
        16 | 17 | 20 => READ_ACCOUNT,
        _ => 0,
    }
}

/// SamrQueryInformationUser and SamrQueryInformationUser2: [MS-SAMR] 3.1.5.5.6, 3.1.5.5.5.
pub(super) fn query_information(
    reader: &mut Reader<'_>,
    environment: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    let handle = reader.handle()?;
    let level = reader.u16()?;
    let required = required_access(level);
    let account = read_user(&mut Reader::new(&handle), environment, required)?;
    let Some(account) = account else {
        return Ok(Information::refuse(NtStatus::NO_SUCH_USER));
    };
    let mut information = Information::begin(level);
    let (name, full_name) = (account.name.as_str(), account.full_name.as_str());
    match level {
        1 => {
            information.text(name);
            information.text(full_name);
            information.writer().u32(NONE_RID);
            information.text("");
            information.text("");
        }
        2 => {
            information.text("");
            information.text("");
            // CountryCode and CodePage.
            information.writer().u16(0);
            information.writer().u16(0);
        }
        3 => logon(&mut information, &account),
        4 => {
            logon_hours(information.writer());
            hours_buffer(information.writer());
        }
        5 => account_information(&mut information, &account),
        6 => {
            information.text(name);
            information.text(full_name);
        }
        7 => information.text(name),
        8 => information.text(full_name),
        9 => information.writer().u32(NONE_RID),
        10 => {
            information.text("");
            information.text("");
        }
        11..=14 | 20 => information.text(""),
        16 => information.writer().u32(control(&account)),
        17 => information.writer().old_large_integer(NEVER),
        21 => all(&mut information, &account),
        _ => return Ok(Information::refuse(NtStatus::INVALID_INFO_CLASS)),
    }
    Ok(information.finish())
}

/// SAMPR_USER_LOGON_INFORMATION: [MS-SAMR] 2.2.6.10.
fn logon<'a>(information: &mut Information<'a>, account: &'a AccountEntry) {
    information.text(&account.name);
    information.text(&account.full_name);
    information.writer().u32(account.rid);
    information.writer().u32(NONE_RID);
    // Home directory and drive, script, profile, workstations.
    (0..5).for_each(|_| information.text(""));
    let writer = information.writer();
    // LastLogon, LastLogoff, PasswordLastSet, PasswordCanChange, PasswordMustChange.
    for time in [0, 0, 0, 0, NEVER] {
        writer.old_large_integer(time);
    }
    logon_hours(writer);
    // BadPasswordCount and LogonCount.
    writer.u16(0);
    writer.u16(0);
    writer.u32(control(account));
    information.buffers();
    hours_buffer(information.writer());
}

/// SAMPR_USER_ACCOUNT_INFORMATION: [MS-SAMR] 2.2.6.11.
fn account_information<'a>(information: &mut Information<'a>, account: &'a AccountEntry) {
    information.text(&account.name);
    information.text(&account.full_name);
    information.writer().u32(account.rid);
    information.writer().u32(NONE_RID);
    // Home directory and drive, script, profile, comment, workstations.
    (0..6).for_each(|_| information.text(""));
    let writer = information.writer();
    // LastLogon and LastLogoff.
    writer.old_large_integer(0);
    writer.old_large_integer(0);
    logon_hours(writer);
    // BadPasswordCount and LogonCount.
    writer.u16(0);
    writer.u16(0);
    // PasswordLastSet and AccountExpires.
    writer.old_large_integer(0);
    writer.old_large_integer(NEVER);
    writer.u32(control(account));
    information.buffers();
    hours_buffer(information.writer());
}

/// SAMPR_USER_ALL_INFORMATION: [MS-SAMR] 2.2.6.6. Passwords and private data are null.
fn all<'a>(information: &mut Information<'a>, account: &'a AccountEntry) {
    let writer = information.writer();
    // LastLogon, LastLogoff, PasswordLastSet, AccountExpires, PasswordCanChange,
    // PasswordMustChange.
    for time in [0, 0, 0, NEVER, 0, NEVER] {
        writer.old_large_integer(time);
    }
    information.text(&account.name);
    information.text(&account.full_name);
    // Home directory and drive, script, profile, comment, workstations, user's comment, parameters.
    (0..8).for_each(|_| information.text(""));
    let writer = information.writer();
    // LmOwfPassword, NtOwfPassword and PrivateData: lengths of zero and null pointers.
    for _ in 0..3 {
        writer.u32(0);
        writer.null();
    }
    // SecurityDescriptor.
    writer.u32(0);
    writer.null();
    writer.u32(account.rid);
    writer.u32(NONE_RID);
    writer.u32(control(account));
    writer.u32(FIELDS);
    logon_hours(writer);
    // BadPasswordCount, LogonCount, CountryCode, CodePage.
    (0..4).for_each(|_| writer.u16(0));
    // LmPasswordPresent, NtPasswordPresent, PasswordExpired, PrivateDataSensitive.
    writer.bytes(&[0, 1, 0, 0]);
    information.buffers();
    hours_buffer(information.writer());
}

/// Appends the fixed part of SAMPR_LOGON_HOURS: [MS-SAMR] 2.2.6.5.
fn logon_hours(writer: &mut Writer) {
    writer.u16(HOURS);
    writer.referent();
}

fn hours_buffer(writer: &mut Writer) {
    writer.u32(HOURS_SIZE_MAX);
    writer.u32(0);
    writer.count(ALL_HOURS.len());
    writer.bytes(&ALL_HOURS);
}

/// SamrGetGroupsForUser: [MS-SAMR] 3.1.5.9.1.
pub(super) fn groups(
    reader: &mut Reader<'_>,
    environment: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    let account = read_user(reader, environment, USER_LIST_GROUPS)?;
    let mut writer = Writer::default();
    if account.is_none() {
        writer.null();
        return Ok(writer.finish_status(NtStatus::NO_SUCH_USER));
    }
    // SAMPR_GET_GROUPS_BUFFER: [MS-SAMR] 2.2.6.13.
    writer.referent();
    writer.u32(1);
    writer.referent();
    writer.u32(1);
    writer.u32(NONE_RID);
    writer.u32(ATTRIBUTES);
    Ok(writer.finish_status(NtStatus::SUCCESS))
}

/// SamrGetUserDomainPasswordInformation: [MS-SAMR] 3.1.5.13.4.
pub(super) fn password_information(
    reader: &mut Reader<'_>,
    environment: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    read_user(reader, environment, 0)?;
    Ok(no_password_rules())
}
