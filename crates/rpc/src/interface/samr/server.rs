//! The server, and its domains: [MS-SAMR] 3.1.5.1, 3.1.5.2.1, 3.1.5.11.1.

use dtyp::upcase::equal_ignoring_case;
use dtyp::{NtStatus, Sid};

use super::access::{self, ENUMERATE_DOMAINS, LOOKUP_DOMAIN, grant};
use super::enumeration::{Entries, encode, refuse};
use super::object::with_handle;
use crate::Catalogue;
use crate::handles::{HandleObject, SamDomain};
use crate::interface::Environment;
use crate::ndr::{Reader, Writer};
use crate::pdu::Fault;

/// Name of the domain of well-known groups.
const BUILTIN: &str = "Builtin";

/// Revision of the client that SamrConnect5 answers with: 3 ([MS-SAMR] 2.2.7.15).
const REVISION: u32 = 3;

/// The domains, in the order of their numbers in an enumeration.
const DOMAINS: [SamDomain; 2] = [SamDomain::Account, SamDomain::Builtin];

impl SamDomain {
    /// Name of the domain; the account domain has the server's name.
    pub(super) fn name(self, catalogue: &dyn Catalogue) -> String {
        match self {
            Self::Account => catalogue.server().name,
            Self::Builtin => BUILTIN.to_owned(),
        }
    }

    /// SID of the domain, without a RID.
    pub(super) fn sid(self, catalogue: &dyn Catalogue) -> Sid {
        match self {
            Self::Account => catalogue.domain_sid(),
            Self::Builtin => Sid::new(5, &[32]),
        }
    }

    /// SID of an account of the domain.
    pub(super) fn sid_of(self, catalogue: &dyn Catalogue, rid: u32) -> Sid {
        let domain = self.sid(catalogue);
        Sid::new(domain.authority(), &[domain.subauthorities(), &[rid]].concat())
    }
}

/// SamrConnect: [MS-SAMR] 3.1.5.1.4. Its server name is a single character.
pub(super) fn connect(
    reader: &mut Reader<'_>,
    environment: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    if reader.pointer()? {
        let _server_name = reader.u16()?;
    }
    Ok(with_handle(open_server(reader.u32()?, environment)))
}

/// SamrConnect2: [MS-SAMR] 3.1.5.1.3.
pub(super) fn connect2(
    reader: &mut Reader<'_>,
    environment: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    let _server_name = reader.unique_string()?;
    Ok(with_handle(open_server(reader.u32()?, environment)))
}

/// SamrConnect4, and its predecessor of the same form: [MS-SAMR] 3.1.5.1.2. The revision of the
/// client is ignored.
pub(super) fn connect4(
    reader: &mut Reader<'_>,
    environment: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    let _server_name = reader.unique_string()?;
    let _client_revision = reader.u32()?;
    Ok(with_handle(open_server(reader.u32()?, environment)))
}

/// SamrConnect5: [MS-SAMR] 3.1.5.1.1.
pub(super) fn connect5(
    reader: &mut Reader<'_>,
    environment: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    let _server_name = reader.unique_string()?;
    let desired_access = reader.u32()?;
    let (version, tag) = (reader.u32()?, reader.u32()?);
    let opened = if version == 1 && tag == 1 {
        let (_revision, _supported_features) = (reader.u32()?, reader.u32()?);
        open_server(desired_access, environment)
    } else {
        Err(NtStatus::NOT_SUPPORTED)
    };
    let mut writer = Writer::default();
    writer.u32(1);
    writer.u32(1);
    writer.u32(REVISION);
    writer.u32(0);
    writer.bytes(&opened.unwrap_or_default());
    Ok(writer.finish_status(opened.err().unwrap_or(NtStatus::SUCCESS)))
}

fn open_server(
    desired_access: u32,
    environment: &mut Environment<'_>,
) -> Result<[u8; 20], NtStatus> {
    let granted_access = grant(environment, desired_access, access::SERVER)?;
    environment.handles.open(HandleObject::Server, granted_access)
}

/// Reads a handle, which must be that of the server. Returns whether it has these rights.
fn read_server(
    reader: &mut Reader<'_>,
    environment: &Environment<'_>,
    required_access: u32,
) -> Result<bool, Fault> {
    match environment.handles.object(reader.handle()?)? {
        (HandleObject::Server, granted_access) => Ok(required_access & !granted_access == 0),
        _ => Err(Fault::ContextMismatch),
    }
}

/// SamrLookupDomainInSamServer: [MS-SAMR] 3.1.5.11.1.
pub(super) fn lookup_domain(
    reader: &mut Reader<'_>,
    environment: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    let is_allowed = read_server(reader, environment, LOOKUP_DOMAIN)?;
    let name = if reader.unicode_string()? { reader.string()? } else { String::new() };
    let catalogue = environment.catalogue;
    let mut domains = DOMAINS.into_iter();
    let found = domains.find(|domain| equal_ignoring_case(&domain.name(catalogue), &name));
    let mut writer = Writer::default();
    match found {
        Some(domain) if is_allowed => {
            writer.referent();
            writer.sid(&domain.sid(catalogue));
            Ok(writer.finish_status(NtStatus::SUCCESS))
        }
        _ => {
            writer.null();
            Ok(writer.finish_status(match (is_allowed, name.is_empty()) {
                (false, _) => NtStatus::ACCESS_DENIED,
                (true, true) => NtStatus::INVALID_PARAMETER,
                (true, false) => NtStatus::NO_SUCH_DOMAIN,
            }))
        }
    }
}

/// SamrEnumerateDomainsInSamServer: [MS-SAMR] 3.1.5.2.1.
pub(super) fn enumerate_domains(
    reader: &mut Reader<'_>,
    environment: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    let is_allowed = read_server(reader, environment, ENUMERATE_DOMAINS)?;
    let (context, preferred_maximum_length) = (reader.u32()?, reader.u32()?);
    if !is_allowed {
        return Ok(refuse(context, NtStatus::ACCESS_DENIED));
    }
    let names = DOMAINS.map(|domain| (0, domain.name(environment.catalogue)));
    Ok(encode(&Entries { all: &names, context, preferred_maximum_length }))
}

/// SamrOpenDomain: [MS-SAMR] 3.1.5.1.5.
pub(super) fn open_domain(
    reader: &mut Reader<'_>,
    environment: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    let is_allowed = read_server(reader, environment, LOOKUP_DOMAIN)?;
    let (desired_access, sid) = (reader.u32()?, reader.sid()?);
    let found = DOMAINS.into_iter().find(|domain| domain.sid(environment.catalogue) == sid);
    let opened = match (found, grant(environment, desired_access, access::DOMAIN)) {
        (_, Err(status)) => Err(status),
        _ if !is_allowed => Err(NtStatus::ACCESS_DENIED),
        (None, Ok(_)) => Err(NtStatus::NO_SUCH_DOMAIN),
        (Some(domain), Ok(granted)) => {
            environment.handles.open(HandleObject::Domain(domain), granted)
        }
    };
    Ok(with_handle(opened))
}
