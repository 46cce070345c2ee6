//! Operations on handles of any kind: [MS-SAMR] 3.1.5.12 and 3.1.5.13.

use dtyp::{AccessMask, Ace, AceFlags, Acl, NtStatus, SecurityDescriptor, Sid};

use crate::handles::{HandleObject, SamDomain};
use crate::interface::Environment;
use crate::ndr::{Reader, Writer};
use crate::pdu::Fault;

/// Rights to read any object, those of GENERIC_READ and GENERIC_EXECUTE together.
const READING: AccessMask = AccessMask::from_bits_retain(0x0002_0000 | 0x0000_0385);

/// SamrCloseHandle: [MS-SAMR] 3.1.5.13.1.
pub(super) fn close(
    reader: &mut Reader<'_>,
    environment: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    environment.handles.close(reader.handle()?)?;
    Ok(with_handle(Err(NtStatus::SUCCESS)))
}

/// SamrQuerySecurityObject: [MS-SAMR] 3.1.5.12.2. Everyone may read, and nobody change.
pub(super) fn query_security(
    reader: &mut Reader<'_>,
    environment: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    environment.handles.verify(reader.handle()?)?;
    let _security_information = reader.u32()?;
    let entry = Ace::allow(Sid::everyone(), READING, AceFlags::empty());
    let (owner, group) = (Some(Sid::administrators()), Some(Sid::administrators()));
    let dacl = Some(Acl::new(vec![entry]));
    let bytes = SecurityDescriptor { owner, group, dacl, ..SecurityDescriptor::default() };
    let bytes = bytes.to_bytes();
    let mut writer = Writer::default();
    writer.referent();
    writer.count(bytes.len());
    writer.referent();
    writer.count(bytes.len());
    writer.bytes(&bytes);
    Ok(writer.finish_status(NtStatus::SUCCESS))
}

/// Reads a handle, which must have these rights to a domain.
pub(super) fn domain(
    reader: &mut Reader<'_>,
    environment: &Environment<'_>,
    required_access: u32,
) -> Result<SamDomain, Fault> {
    let (object, granted_access) = environment.handles.object(reader.handle()?)?;
    let HandleObject::Domain(domain) = object else { return Err(Fault::ContextMismatch) };
    verify(granted_access, required_access)?;
    Ok(domain)
}

/// Refuses a handle without the rights that an operation needs.
pub(super) fn verify(granted_access: u32, required_access: u32) -> Result<(), Fault> {
    if required_access & !granted_access == 0 { Ok(()) } else { Err(Fault::AccessDenied) }
}

/// Returns the response of an operation that opens a handle, or has none to return.
pub(super) fn with_handle(opened: Result<[u8; 20], NtStatus>) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.bytes(&opened.unwrap_or_default());
    writer.finish_status(opened.err().unwrap_or(NtStatus::SUCCESS))
}
