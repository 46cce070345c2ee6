//! The group of all users: [MS-SAMR] 3.1.5.1.7, 3.1.5.5.3, 3.1.5.8.2.

use dtyp::NtStatus;

use super::access::{self, GROUP_LIST_MEMBERS, GROUP_READ, LOOKUP, grant};
use super::information::Information;
use super::object::{domain, verify, with_handle};
use crate::handles::{HandleObject, SamDomain};
use crate::interface::Environment;
use crate::ndr::{Reader, Writer};
use crate::pdu::Fault;

/// Name of the group of all users, on a server that is no domain controller.
pub(super) const NONE: &str = "None";

/// DOMAIN_GROUP_RID_USERS: [MS-SAMR] 2.2.1.14.
pub(super) const NONE_RID: u32 = 513;

/// Remark of the group.
const DESCRIPTION: &str = "All users of the server";

/// SE_GROUP_MANDATORY, SE_GROUP_ENABLED_BY_DEFAULT and SE_GROUP_ENABLED: [MS-SAMR] 2.2.1.10.
pub(super) const ATTRIBUTES: u32 = 0x0000_0007;

/// SamrOpenGroup: [MS-SAMR] 3.1.5.1.7.
pub(super) fn open(
    reader: &mut Reader<'_>,
    environment: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    let within = domain(reader, environment, LOOKUP)?;
    let (desired_access, rid) = (reader.u32()?, reader.u32()?);
    let opened = match grant(environment, desired_access, access::GROUP) {
        Err(status) => Err(status),
        Ok(_) if within != SamDomain::Account || rid != NONE_RID => Err(NtStatus::NO_SUCH_GROUP),
        Ok(granted) => environment.handles.open(HandleObject::Group(rid), granted),
    };
    Ok(with_handle(opened))
}

/// Reads a handle, which must have these rights to the group.
fn read_group(
    reader: &mut Reader<'_>,
    environment: &Environment<'_>,
    required_access: u32,
) -> Result<(), Fault> {
    match environment.handles.object(reader.handle()?)? {
        (HandleObject::Group(_), granted_access) => verify(granted_access, required_access),
        _ => Err(Fault::ContextMismatch),
    }
}

/// SamrQueryInformationGroup: [MS-SAMR] 3.1.5.5.3.
pub(super) fn query_information(
    reader: &mut Reader<'_>,
    environment: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    read_group(reader, environment, GROUP_READ)?;
    let level = reader.u16()?;
    let mut information = Information::begin(level);
    match level {
        // GroupGeneralInformation and GroupReplicationInformation: [MS-SAMR] 2.2.5.4.
        1 | 5 => {
            let count = environment.catalogue.accounts().map_or(0, |it| it.len());
            information.text(NONE);
            information.writer().u32(ATTRIBUTES);
            information.writer().count(count);
            information.text(DESCRIPTION);
        }
        2 => information.text(NONE),
        3 => information.writer().u32(ATTRIBUTES),
        4 => information.text(DESCRIPTION),
        _ => return Ok(Information::refuse(NtStatus::INVALID_INFO_CLASS)),
    }
    Ok(information.finish())
}

/// SamrGetMembersInGroup: [MS-SAMR] 3.1.5.8.2.
pub(super) fn members(
    reader: &mut Reader<'_>,
    environment: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    read_group(reader, environment, GROUP_LIST_MEMBERS)?;
    let mut writer = Writer::default();
    let Some(accounts) = environment.catalogue.accounts() else {
        writer.null();
        return Ok(writer.finish_status(NtStatus::INSUFFICIENT_RESOURCES));
    };
    // SAMPR_GET_MEMBERS_BUFFER: [MS-SAMR] 2.2.5.7.
    writer.referent();
    writer.count(accounts.len());
    if accounts.is_empty() {
        writer.null();
        writer.null();
    } else {
        writer.referent();
        writer.referent();
        writer.count(accounts.len());
        accounts.iter().for_each(|account| writer.u32(account.rid));
        writer.count(accounts.len());
        accounts.iter().for_each(|_| writer.u32(ATTRIBUTES));
    }
    Ok(writer.finish_status(NtStatus::SUCCESS))
}
