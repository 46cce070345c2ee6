//! Names of RIDs and RIDs of names: [MS-SAMR] 3.1.5.11.

use std::collections::HashMap;

use dtyp::NtStatus;
use dtyp::upcase::equal_ignoring_case;

use super::access::LOOKUP;
use super::alias;
use super::group::{NONE, NONE_RID};
use super::object::domain;
use crate::PrincipalKind;
use crate::handles::{HandleObject, SamDomain};
use crate::interface::Environment;
use crate::ndr::{Reader, Writer};
use crate::pdu::Fault;

/// Highest number of names or RIDs in a request: `range(0,1000)` in the definition.
const COUNT_MAX: usize = 1_000;

/// SamrLookupNamesInDomain: [MS-SAMR] 3.1.5.11.2.
pub(super) fn names(
    reader: &mut Reader<'_>,
    environment: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    let of = domain(reader, environment, LOOKUP)?;
    let count = reader.count(COUNT_MAX)?;
    let names = reader.names(count, true)?;
    // Each name is asked for once, however often it is in the request.
    let mut known = HashMap::new();
    let mut find = |name| *known.entry(name).or_insert_with(|| rid_of(environment, of, name));
    let found: Vec<_> = names.iter().map(|name| find(name.as_str())).collect();
    let mapped = found.iter().filter(|it| it.is_some()).count();
    let status = status_of(mapped, count);
    let mut writer = Writer::default();
    let is_any = status != NtStatus::NONE_MAPPED;
    let rids = found.iter().map(|it| it.map_or(0, |(rid, _)| rid));
    encode_numbers(&mut writer, is_any, rids);
    let unknown = PrincipalKind::Unknown;
    let kinds = found.iter().map(|it| u32::from(it.map_or(unknown, |(_, kind)| kind) as u16));
    encode_numbers(&mut writer, is_any, kinds);
    Ok(writer.finish_status(status))
}

/// SamrLookupIdsInDomain: [MS-SAMR] 3.1.5.11.3.
pub(super) fn rids(
    reader: &mut Reader<'_>,
    environment: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    let of = domain(reader, environment, LOOKUP)?;
    let count = reader.count(COUNT_MAX)?;
    let (_max_count, offset) = (reader.u32()?, reader.u32()?);
    if offset != 0 || reader.count(COUNT_MAX)? != count {
        return Err(Fault::BadStub);
    }
    let rids = (0..count).map(|_| reader.u32()).collect::<Result<Vec<_>, _>>()?;
    let mut known = HashMap::new();
    let mut find = |rid| known.entry(rid).or_insert_with(|| name_of(environment, of, rid)).clone();
    let found: Vec<_> = rids.iter().map(|rid| find(*rid)).collect();
    let mapped = found.iter().filter(|it| it.is_some()).count();
    let status = status_of(mapped, count);
    let is_any = status != NtStatus::NONE_MAPPED;
    let mut writer = Writer::default();
    encode_names(&mut writer, if is_any { &found } else { &[] });
    let unknown = PrincipalKind::Unknown;
    let kinds = found.iter().map(|it| it.as_ref().map_or(unknown, |(_, kind)| *kind));
    encode_numbers(&mut writer, is_any, kinds.map(|kind| u32::from(kind as u16)));
    Ok(writer.finish_status(status))
}

/// SamrRidToSid: [MS-SAMR] 3.1.5.13.8. Any handle but that of the server has a domain.
pub(super) fn rid_to_sid(
    reader: &mut Reader<'_>,
    environment: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    let (object, _) = environment.handles.object(reader.handle()?)?;
    let of = match object {
        HandleObject::Domain(domain) | HandleObject::Alias(domain, _) => domain,
        HandleObject::Group(_) | HandleObject::User(_) => SamDomain::Account,
        HandleObject::Policy | HandleObject::Server | HandleObject::Share(_) => {
            return Err(Fault::ContextMismatch);
        }
    };
    let rid = reader.u32()?;
    let mut writer = Writer::default();
    writer.referent();
    writer.sid(&of.sid_of(environment.catalogue, rid));
    Ok(writer.finish_status(NtStatus::SUCCESS))
}

fn rid_of(
    environment: &Environment<'_>,
    of: SamDomain,
    name: &str,
) -> Option<(u32, PrincipalKind)> {
    if let Some(alias) = alias::of(of).iter().find(|it| equal_ignoring_case(it.name, name)) {
        return Some((alias.rid, PrincipalKind::Alias));
    }
    if of != SamDomain::Account {
        return None;
    }
    if equal_ignoring_case(name, NONE) {
        return Some((NONE_RID, PrincipalKind::Group));
    }
    let found = environment.catalogue.account_by_name(name)?;
    Some((found.rid, PrincipalKind::User))
}

fn name_of(
    environment: &Environment<'_>,
    of: SamDomain,
    rid: u32,
) -> Option<(String, PrincipalKind)> {
    if let Some(alias) = alias::of(of).iter().find(|it| it.rid == rid) {
        return Some((alias.name.to_owned(), PrincipalKind::Alias));
    }
    if of != SamDomain::Account {
        return None;
    }
    if rid == NONE_RID {
        return Some((NONE.to_owned(), PrincipalKind::Group));
    }
    let found = environment.catalogue.account_by_rid(rid)?;
    Some((found.name, PrincipalKind::User))
}

/// Appends SAMPR_ULONG_ARRAY, empty if nothing was mapped: [MS-SAMR] 2.2.9.4.
fn encode_numbers(writer: &mut Writer, is_any: bool, numbers: impl ExactSizeIterator<Item = u32>) {
    if !is_any || numbers.len() == 0 {
        writer.u32(0);
        return writer.null();
    }
    writer.count(numbers.len());
    writer.referent();
    writer.count(numbers.len());
    numbers.for_each(|number| writer.u32(number));
}

/// Appends SAMPR_RETURNED_USTRING_ARRAY: [MS-SAMR] 2.2.9.5.
fn encode_names(writer: &mut Writer, names: &[Option<(String, PrincipalKind)>]) {
    writer.count(names.len());
    if names.is_empty() {
        return writer.null();
    }
    writer.referent();
    writer.count(names.len());
    let text = |it: &Option<(String, PrincipalKind)>| {
        it.as_ref().map(|(name, _)| name.clone()).unwrap_or_default()
    };
    names.iter().for_each(|it| writer.unicode_string(&text(it)));
    names.iter().for_each(|it| writer.unicode_buffer(&text(it)));
}

fn status_of(mapped: usize, asked: usize) -> NtStatus {
    match mapped {
        _ if mapped == asked => NtStatus::SUCCESS,
        0 => NtStatus::NONE_MAPPED,
        _ => NtStatus::SOME_NOT_MAPPED,
    }
}
