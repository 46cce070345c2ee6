//! Translation of names to SIDs: [MS-LSAT] 3.1.4.6 to 3.1.4.8.

use super::referenced_domains::ReferencedDomains;
use super::resolve::{find_name, status_of};
use crate::interface::Environment;
use crate::ndr::{Reader, Writer};
use crate::pdu::Fault;
use crate::{Principal, PrincipalKind};

/// Highest number of names in a request: `range(0,1000)` in the definition.
const NAMES_MAX: usize = 1_000;

/// Form of the SIDs in a response.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Form {
    /// LSAPR_TRANSLATED_SID: [MS-LSAT] 2.2.14.
    Rid,
    /// LSAPR_TRANSLATED_SID_EX: [MS-LSAT] 2.2.22.
    RidAndFlags,
    /// LSAPR_TRANSLATED_SID_EX2: [MS-LSAT] 2.2.24.
    Sid,
}

/// Result for one of the names.
struct Translated {
    principal: Option<Principal>,
    domain_index: u32,
}

/// LsarLookupNames: [MS-LSAT] 3.1.4.8.
pub(super) fn lookup_names(
    reader: &mut Reader<'_>,
    environment: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    lookup(reader, environment, Form::Rid)
}

/// LsarLookupNames2: [MS-LSAT] 3.1.4.7.
pub(super) fn lookup_names2(
    reader: &mut Reader<'_>,
    environment: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    lookup(reader, environment, Form::RidAndFlags)
}

/// LsarLookupNames3: [MS-LSAT] 3.1.4.6.
pub(super) fn lookup_names3(
    reader: &mut Reader<'_>,
    environment: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    lookup(reader, environment, Form::Sid)
}

/// LookupLevel, LookupOptions and the fields behind them tell domain controllers to search further,
/// and have no meaning for this server.
fn lookup(
    reader: &mut Reader<'_>,
    environment: &mut Environment<'_>,
    form: Form,
) -> Result<Vec<u8>, Fault> {
    environment.handles.verify(reader.handle()?)?;
    let count = reader.count(NAMES_MAX)?;
    let names = reader.names(count, false)?;
    let mut domains = ReferencedDomains::default();
    let translated: Vec<_> = names
        .iter()
        .map(|name| {
            let principal = find_name(environment.catalogue, name);
            let domain_index = principal.as_ref().map_or(u32::MAX, |it| domains.index_of(it));
            Translated { principal, domain_index }
        })
        .collect();
    let mapped = translated.iter().filter(|it| it.principal.is_some()).count();
    let mut writer = Writer::default();
    domains.encode(&mut writer);
    encode(&mut writer, &translated, form);
    writer.count(mapped);
    Ok(writer.finish_status(status_of(mapped, names.len())))
}

fn encode(writer: &mut Writer, translated: &[Translated], form: Form) {
    writer.count(translated.len());
    if translated.is_empty() {
        return writer.null();
    }
    writer.referent();
    writer.count(translated.len());
    for Translated { principal, domain_index } in translated {
        let kind = principal.as_ref().map_or(PrincipalKind::Unknown, |it| it.kind);
        writer.u32(u32::from(kind as u16));
        match (form, principal) {
            (Form::Sid, Some(_)) => writer.referent(),
            (Form::Sid, None) => writer.null(),
            (_, Some(principal)) if kind != PrincipalKind::Domain => {
                writer.u32(principal.sid.subauthorities().last().copied().unwrap_or_default());
            }
            // Neither a domain nor an unknown name has a RID.
            (_, Some(_)) => writer.u32(u32::MAX),
            (_, None) => writer.u32(0),
        }
        writer.u32(*domain_index);
        if form != Form::Rid {
            writer.u32(0);
        }
    }
    if form == Form::Sid {
        for principal in translated.iter().filter_map(|it| it.principal.as_ref()) {
            writer.sid(&principal.sid);
        }
    }
}
