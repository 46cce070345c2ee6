//! Domain or workgroup, and the names of the machine: [MS-WKST] 3.2.4.12, 3.2.4.16, 3.2.4.17,
//! 3.2.4.21.

use crate::interface::{Environment, unsupported};
use crate::ndr::{Reader, Writer};
use crate::pdu::Fault;
use crate::win32::Win32Error;

/// NetSetupWorkgroupName and NetSetupDomainName: [MS-WKST] 2.2.3.1.
const WORKGROUP_NAME: u16 = 2;
const DOMAIN_NAME: u16 = 3;

/// NET_COMPUTER_NAME_TYPE: [MS-WKST] 2.2.3.3.
const PRIMARY: u16 = 0;
const ALTERNATE: u16 = 1;
const ALL: u16 = 2;

/// NetrGetJoinInformation: [MS-WKST] 3.2.4.12. The name in the request is ignored.
pub(super) fn get_join_information(
    _: &mut Reader<'_>,
    environment: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    let mut writer = Writer::default();
    if !environment.catalogue.admits(environment.caller) {
        writer.null();
        writer.u16(0);
        return Ok(writer.finish(Win32Error::ACCESS_DENIED));
    }
    writer.referent();
    writer.string(&environment.catalogue.server().domain);
    let is_member = environment.catalogue.is_member();
    writer.u16(if is_member { DOMAIN_NAME } else { WORKGROUP_NAME });
    Ok(writer.finish(Win32Error::SUCCESS))
}

/// Refuses NetrGetJoinableOUs, opnum 21, which is reserved for local use.
pub(super) fn get_joinable_ous(
    _: &mut Reader<'_>,
    _: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    Ok(without_units(Win32Error::NOT_SUPPORTED))
}

/// NetrValidateName2: [MS-WKST] 3.2.4.16. Windows wants it called on the machine itself.
pub(super) fn validate_name(
    _: &mut Reader<'_>,
    environment: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    Ok(Writer::default().finish(environment.for_administrators(Win32Error::REMOTE_DISABLED)))
}

/// NetrGetJoinableOUs2: [MS-WKST] 3.2.4.17. Windows wants it called on the machine itself.
pub(super) fn get_joinable_ous2(
    _: &mut Reader<'_>,
    environment: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    Ok(without_units(environment.for_administrators(Win32Error::REMOTE_DISABLED)))
}

/// Returns no organizational units, by their number and a null pointer.
fn without_units(result: Win32Error) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.u32(0);
    writer.null();
    writer.finish(result)
}

/// NetrEnumerateComputerNames: [MS-WKST] 3.2.4.21, for administrators only.
pub(super) fn enumerate_computer_names(
    reader: &mut Reader<'_>,
    environment: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    let _server_name = reader.unique_string()?;
    let (name_type, reserved) = (reader.u16()?, reader.u32()?);
    if !environment.catalogue.is_administrator(environment.caller) {
        return Ok(unsupported::without_value(Win32Error::ACCESS_DENIED));
    }
    let server = environment.catalogue.server();
    let primary = if server.dns_name.is_empty() { &server.name } else { &server.dns_name };
    let aliases = server.aliases.iter();
    let names: Vec<&String> = match (name_type, reserved) {
        (PRIMARY, 0) => vec![primary],
        (ALTERNATE, 0) => aliases.collect(),
        (ALL, 0) => [primary].into_iter().chain(aliases).collect(),
        _ => return Ok(unsupported::without_value(Win32Error::INVALID_PARAMETER)),
    };
    let mut writer = Writer::default();
    writer.referent();
    writer.count(names.len());
    if names.is_empty() {
        writer.null();
        return Ok(writer.finish(Win32Error::SUCCESS));
    }
    writer.referent();
    writer.count(names.len());
    names.iter().for_each(|name| writer.unicode_string(name));
    names.iter().for_each(|name| writer.unicode_buffer(name));
    Ok(writer.finish(Win32Error::SUCCESS))
}
