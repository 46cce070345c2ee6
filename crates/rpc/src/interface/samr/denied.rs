//! Operations that would change accounts. Each is refused with ACCESS_DENIED, after its handle was
//! found: `choro user` manages them.

use dtyp::NtStatus;

use crate::handles::HANDLE_LEN;
use crate::interface::Environment;
use crate::ndr::{Reader, Writer};
use crate::pdu::Fault;

/// Refuses an operation that returns a status only.
pub(super) fn status(_: &mut Reader<'_>, _: &mut Environment<'_>) -> Result<Vec<u8>, Fault> {
    Ok(Writer::default().finish_status(NtStatus::ACCESS_DENIED))
}

/// Refuses SamrCreateGroupInDomain, SamrCreateAliasInDomain and SamrCreateUserInDomain, which
/// return a handle and a RID: [MS-SAMR] 3.1.5.4.
pub(super) fn create(
    reader: &mut Reader<'_>,
    environment: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    refuse(reader, environment, &[0; HANDLE_LEN + 4])
}

/// Refuses SamrCreateUser2InDomain, which returns the granted rights as well: [MS-SAMR] 3.1.5.4.4.
pub(super) fn create_user2(
    reader: &mut Reader<'_>,
    environment: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    refuse(reader, environment, &[0; HANDLE_LEN + 8])
}

/// Refuses an operation with an open handle. It returns these results, all of which are empty.
fn refuse(
    reader: &mut Reader<'_>,
    environment: &Environment<'_>,
    results: &[u8],
) -> Result<Vec<u8>, Fault> {
    environment.handles.verify(reader.handle()?)?;
    let mut writer = Writer::default();
    writer.bytes(results);
    Ok(writer.finish_status(NtStatus::ACCESS_DENIED))
}

/// Refuses SamrDeleteGroup, SamrDeleteAlias and SamrDeleteUser, whose handle stays open:
/// [MS-SAMR] 3.1.5.7.
pub(super) fn delete(
    reader: &mut Reader<'_>,
    environment: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    let handle = reader.handle()?;
    environment.handles.verify(handle)?;
    let mut writer = Writer::default();
    writer.bytes(&handle);
    Ok(writer.finish_status(NtStatus::ACCESS_DENIED))
}
