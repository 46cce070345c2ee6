//! Translation of SIDs to names: [MS-LSAT] 3.1.4.10, 3.1.4.11.

use std::collections::HashMap;

use dtyp::Sid;

use super::referenced_domains::ReferencedDomains;
use super::resolve::{find_sid, status_of};
use crate::interface::Environment;
use crate::ndr::{Reader, Writer};
use crate::pdu::Fault;
use crate::{Principal, PrincipalKind};

/// Highest number of SIDs in a request: `range(0,20480)` in the definition; the limit on a
/// request's length allows fewer.
const SIDS_MAX: usize = 20_480;

/// Result for one of the SIDs. An unknown SID is named by its text.
struct Translated {
    kind: PrincipalKind,
    name: String,
    domain_index: u32,
}

/// LsarLookupSids: [MS-LSAT] 3.1.4.11. Responds with LSAPR_TRANSLATED_NAME.
pub(super) fn lookup_sids(
    reader: &mut Reader<'_>,
    environment: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    lookup(reader, environment, false)
}

/// LsarLookupSids2: [MS-LSAT] 3.1.4.10. Responds with LSAPR_TRANSLATED_NAME_EX, which has flags.
pub(super) fn lookup_sids2(
    reader: &mut Reader<'_>,
    environment: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    lookup(reader, environment, true)
}

fn lookup(
    reader: &mut Reader<'_>,
    environment: &mut Environment<'_>,
    flags: bool,
) -> Result<Vec<u8>, Fault> {
    environment.handles.verify(reader.handle()?)?;
    let sids = reader.sids(SIDS_MAX)?;
    let mut domains = ReferencedDomains::default();
    // Each SID is asked for once, however often it is in the request.
    let mut found = HashMap::new();
    let translated: Vec<_> = sids
        .iter()
        .map(|sid| {
            let principal = found.entry(sid).or_insert_with(|| find_sid(environment, sid));
            translate(sid, principal.clone(), &mut domains)
        })
        .collect();
    let mapped = translated.iter().filter(|it| it.kind != PrincipalKind::Unknown).count();
    let mut writer = Writer::default();
    domains.encode(&mut writer);
    encode(&mut writer, &translated, flags);
    writer.count(mapped);
    Ok(writer.finish_status(status_of(mapped, sids.len())))
}

fn translate(
    sid: &Sid,
    principal: Option<Principal>,
    domains: &mut ReferencedDomains,
) -> Translated {
    match principal {
        Some(principal) => Translated {
            kind: principal.kind,
            domain_index: domains.index_of(&principal),
            // The list of domains has the domain's name.
            name: match principal.kind {
                PrincipalKind::Domain => String::new(),
                _ => principal.name,
            },
        },
        None => Translated {
            kind: PrincipalKind::Unknown,
            name: sid.to_string(),
            domain_index: u32::MAX,
        },
    }
}

fn encode(writer: &mut Writer, translated: &[Translated], flags: bool) {
    writer.count(translated.len());
    if translated.is_empty() {
        return writer.null();
    }
    writer.referent();
    writer.count(translated.len());
    for Translated { kind, name, domain_index } in translated {
        writer.u32(u32::from(*kind as u16));
        writer.unicode_string(name);
        writer.u32(*domain_index);
        if flags {
            writer.u32(0);
        }
    }
    for Translated { name, .. } in translated {
        writer.unicode_buffer(name);
    }
}
