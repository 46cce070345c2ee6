//! Enumerations of accounts: [MS-SAMR] 3.1.5.2.

use dtyp::NtStatus;

use super::access::LIST_ACCOUNTS;
use super::alias;
use super::group::{NONE, NONE_RID};
use super::object::domain;
use crate::handles::SamDomain;
use crate::interface::Environment;
use crate::ndr::{Reader, Writer};
use crate::pdu::Fault;

/// USER_NORMAL_ACCOUNT: [MS-SAMR] 2.2.1.12.
pub(super) const NORMAL_ACCOUNT: u32 = 0x0000_0010;

/// Bytes of an entry without its name, near enough for the limit on a response.
const ENTRY_BYTES: usize = 24;

/// Entries of a response at most: a few hundred KiB at the longest names.
pub(super) const ENTRIES_MAX: usize = 1_024;

/// RIDs and names of all accounts, and the part that a request asks for.
#[derive(Debug)]
pub(super) struct Entries<'a> {
    pub(super) all: &'a [(u32, String)],
    /// Number of entries returned so far.
    pub(super) context: u32,
    pub(super) preferred_maximum_length: u32,
}

/// SamrEnumerateUsersInDomain: [MS-SAMR] 3.1.5.2.5. A filter without normal accounts finds none.
pub(super) fn users(
    reader: &mut Reader<'_>,
    environment: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    let of = domain(reader, environment, LIST_ACCOUNTS)?;
    let (context, account_control) = (reader.u32()?, reader.u32()?);
    let preferred_maximum_length = reader.u32()?;
    let is_wanted = account_control == 0 || account_control & NORMAL_ACCOUNT != 0;
    let all = match of {
        SamDomain::Account if is_wanted => match environment.catalogue.accounts() {
            Some(accounts) => accounts.into_iter().map(|it| (it.rid, it.name)).collect(),
            None => return Ok(refuse(context, NtStatus::INSUFFICIENT_RESOURCES)),
        },
        _ => Vec::new(),
    };
    Ok(encode(&Entries { all: &all, context, preferred_maximum_length }))
}

/// SamrEnumerateGroupsInDomain: [MS-SAMR] 3.1.5.2.3.
pub(super) fn groups(
    reader: &mut Reader<'_>,
    environment: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    let of = domain(reader, environment, LIST_ACCOUNTS)?;
    let (context, preferred_maximum_length) = (reader.u32()?, reader.u32()?);
    let all = match of {
        SamDomain::Account => vec![(NONE_RID, NONE.to_owned())],
        SamDomain::Builtin => Vec::new(),
    };
    Ok(encode(&Entries { all: &all, context, preferred_maximum_length }))
}

/// SamrEnumerateAliasesInDomain: [MS-SAMR] 3.1.5.2.4.
pub(super) fn aliases(
    reader: &mut Reader<'_>,
    environment: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    let of = domain(reader, environment, LIST_ACCOUNTS)?;
    let (context, preferred_maximum_length) = (reader.u32()?, reader.u32()?);
    let all: Vec<_> = alias::of(of).iter().map(|it| (it.rid, it.name.to_owned())).collect();
    Ok(encode(&Entries { all: &all, context, preferred_maximum_length }))
}

/// Returns the response of an enumeration: context, SAMPR_ENUMERATION_BUFFER, count. One entry is
/// returned at least, so that an enumeration ends.
pub(super) fn encode(entries: &Entries<'_>) -> Vec<u8> {
    let begin = usize::try_from(entries.context).unwrap_or(usize::MAX).min(entries.all.len());
    let rest = &entries.all[begin..];
    let limit = usize::try_from(entries.preferred_maximum_length).unwrap_or(usize::MAX);
    let mut len = 0_usize;
    let fits = |(_, name): &&(u32, String)| {
        len += ENTRY_BYTES + 2 * name.len();
        len <= limit
    };
    let count = rest.iter().take(ENTRIES_MAX).take_while(fits).count().max(1).min(rest.len());
    let page = &rest[..count];
    let mut writer = Writer::default();
    writer.count(begin + count);
    writer.referent();
    writer.count(count);
    if page.is_empty() {
        writer.null();
    } else {
        writer.referent();
        writer.count(count);
        for (rid, name) in page {
            writer.u32(*rid);
            writer.unicode_string(name);
        }
        for (_, name) in page {
            writer.unicode_buffer(name);
        }
    }
    writer.count(count);
    let is_end = count == rest.len();
    writer.finish_status(if is_end { NtStatus::SUCCESS } else { NtStatus::MORE_ENTRIES })
}

/// Returns the response without entries.
pub(super) fn refuse(context: u32, status: NtStatus) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.u32(context);
    writer.null();
    writer.u32(0);
    writer.finish_status(status)
}
