//! Policy handles and their queries: [MS-LSAD] 3.1.4.4, 3.1.4.7.8, and [MS-LSAT] 3.1.4.4.

use dtyp::NtStatus;

use crate::handles::{HANDLE_LEN, HandleObject};
use crate::interface::Environment;
use crate::ndr::{Reader, Writer};
use crate::pdu::Fault;

/// Access that a policy handle may have: POLICY_VIEW_LOCAL_INFORMATION,
/// POLICY_VIEW_AUDIT_INFORMATION, POLICY_LOOKUP_NAMES, READ_CONTROL, MAXIMUM_ALLOWED,
/// GENERIC_EXECUTE, GENERIC_READ: [MS-LSAD] 2.2.1.1.2.
const LOOKING: u32 =
    0x0000_0001 | 0x0000_0002 | 0x0000_0800 | 0x0002_0000 | 0x0200_0000 | 0x2000_0000 | 0x8000_0000;

/// POLICY_INFORMATION_CLASS: [MS-LSAD] 2.2.4.1.
mod class {
    pub(super) const PRIMARY_DOMAIN: u16 = 3;
    pub(super) const ACCOUNT_DOMAIN: u16 = 5;
    pub(super) const DNS_DOMAIN: u16 = 12;
    pub(super) const DNS_DOMAIN_INT: u16 = 13;
    pub(super) const LOCAL_ACCOUNT_DOMAIN: u16 = 14;
}

/// LsarClose: [MS-LSAD] 3.1.4.9.4.
pub(super) fn close(
    reader: &mut Reader<'_>,
    environment: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    environment.handles.close(reader.handle()?)?;
    let mut writer = Writer::default();
    writer.bytes(&[0; HANDLE_LEN]);
    Ok(writer.finish_status(NtStatus::SUCCESS))
}

/// LsarOpenPolicy: [MS-LSAD] 3.1.4.4.2. Its system name is a single character.
pub(super) fn open_policy(
    reader: &mut Reader<'_>,
    environment: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    if reader.pointer()? {
        let _system_name = reader.u16()?;
    }
    open(reader, environment)
}

/// LsarOpenPolicy2: [MS-LSAD] 3.1.4.4.1.
pub(super) fn open_policy2(
    reader: &mut Reader<'_>,
    environment: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    let _system_name = reader.unique_string()?;
    open(reader, environment)
}

fn open(reader: &mut Reader<'_>, environment: &mut Environment<'_>) -> Result<Vec<u8>, Fault> {
    let is_root = skip_object_attributes(reader)?;
    let desired_access = reader.u32()?;
    let handle = if !is_root {
        Err(NtStatus::INVALID_PARAMETER)
    } else if desired_access & !LOOKING != 0 || !environment.catalogue.admits(environment.caller) {
        // Lookups of names and SIDs require a handle, so a refused caller learns no names.
        Err(NtStatus::ACCESS_DENIED)
    } else {
        environment.handles.open(HandleObject::Policy, desired_access)
    };
    let mut writer = Writer::default();
    writer.bytes(&handle.unwrap_or_default());
    Ok(writer.finish_status(handle.err().unwrap_or(NtStatus::SUCCESS)))
}

/// Skips LSAPR_OBJECT_ATTRIBUTES: [MS-LSAD] 2.2.2.4. All fields are ignored but the root directory,
/// which must be absent; returns whether it is.
fn skip_object_attributes(reader: &mut Reader<'_>) -> Result<bool, Fault> {
    let _length = reader.u32()?;
    let root_directory = reader.pointer()?;
    let object_name = reader.pointer()?;
    let _attributes = reader.u32()?;
    let security_descriptor = reader.pointer()?;
    let quality_of_service = reader.pointer()?;
    if object_name || security_descriptor {
        // No client sends them, and their forms are long.
        return Err(Fault::BadStub);
    }
    if root_directory {
        let _byte = reader.u16()?;
    }
    if quality_of_service {
        // Length; ImpersonationLevel, ContextTrackingMode and EffectiveOnly.
        let (_, _, _) = (reader.u32()?, reader.u16()?, reader.u16()?);
    }
    Ok(!root_directory)
}

/// LsarQueryInformationPolicy and LsarQueryInformationPolicy2: [MS-LSAD] 3.1.4.4.4, 3.1.4.4.3.
pub(super) fn query_information_policy(
    reader: &mut Reader<'_>,
    environment: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    environment.handles.verify(reader.handle()?)?;
    let class = reader.u16()?;
    let server = environment.catalogue.server();
    let mut writer = Writer::default();
    let begin = |writer: &mut Writer| {
        writer.referent();
        // The tag of the union, and the padding before its arm.
        writer.u32(u32::from(class));
    };
    match class {
        class::PRIMARY_DOMAIN => {
            begin(&mut writer);
            // A server of a workgroup is in no domain, so it has no SID to return.
            writer.unicode_string(&server.domain);
            writer.null();
            writer.unicode_buffer(&server.domain);
        }
        class::ACCOUNT_DOMAIN | class::LOCAL_ACCOUNT_DOMAIN => {
            begin(&mut writer);
            writer.unicode_string(&server.name);
            writer.referent();
            writer.unicode_buffer(&server.name);
            writer.sid(&environment.catalogue.domain_sid());
        }
        class::DNS_DOMAIN | class::DNS_DOMAIN_INT => {
            begin(&mut writer);
            writer.unicode_string(&server.domain);
            writer.unicode_string("");
            writer.unicode_string("");
            writer.bytes(&[0; 16]);
            writer.null();
            writer.unicode_buffer(&server.domain);
            writer.unicode_buffer("");
            writer.unicode_buffer("");
        }
        _ => {
            writer.null();
            return Ok(writer.finish_status(NtStatus::INVALID_PARAMETER));
        }
    }
    Ok(writer.finish_status(NtStatus::SUCCESS))
}

/// LsarEnumerateTrustedDomains and LsarEnumerateTrustedDomainsEx: [MS-LSAD] 3.1.4.7.8, 3.1.4.7.9.
/// The list is empty.
pub(super) fn enumerate_trusted_domains(
    reader: &mut Reader<'_>,
    environment: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    environment.handles.verify(reader.handle()?)?;
    let (enumeration_context, _preferred_maximum_length) = (reader.u32()?, reader.u32()?);
    let mut writer = Writer::default();
    writer.u32(enumeration_context);
    writer.u32(0);
    writer.null();
    Ok(writer.finish_status(NtStatus::NO_MORE_ENTRIES))
}

/// LsarGetUserName: [MS-LSAT] 3.1.4.4.
pub(super) fn get_user_name(
    reader: &mut Reader<'_>,
    environment: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    let _system_name = reader.unique_string()?;
    skip_unicode_string(reader)?;
    let wants_domain = reader.pointer()?;
    let caller = environment.caller;
    let mut writer = Writer::default();
    writer.referent();
    writer.unicode_string(&caller.user);
    writer.unicode_buffer(&caller.user);
    if wants_domain {
        // A pointer to a pointer.
        writer.referent();
        writer.referent();
        writer.unicode_string(&caller.domain);
        writer.unicode_buffer(&caller.domain);
    } else {
        writer.null();
    }
    Ok(writer.finish_status(NtStatus::SUCCESS))
}

/// Skips a pointer to an RPC_UNICODE_STRING, ignored in a request.
fn skip_unicode_string(reader: &mut Reader<'_>) -> Result<(), Fault> {
    if reader.pointer()? && reader.unicode_string()? {
        let _text = reader.string()?;
    }
    Ok(())
}
