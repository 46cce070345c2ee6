//! Local groups: [MS-SAMR] 3.1.5.1.8, 3.1.5.5.5, 3.1.5.8.3, 3.1.5.9.1.

use dtyp::{NtStatus, Sid};

use super::access::{self, ALIAS_LIST_MEMBERS, ALIAS_READ, GET_ALIAS_MEMBERSHIP, LOOKUP, grant};
use super::information::Information;
use super::object::{domain, verify, with_handle};
use crate::handles::{HandleObject, SamDomain};
use crate::interface::Environment;
use crate::ndr::{Reader, Writer};
use crate::pdu::Fault;

/// Highest number of SIDs in a request: `range(0,20480)` in the definition; the limit on a
/// request's length allows fewer.
const SIDS_MAX: usize = 20_480;

/// RID of Administrators.
const ADMINISTRATORS: u32 = 544;
/// RID of Users.
const USERS: u32 = 545;

/// A local group that is the same on every server.
#[derive(Debug)]
pub(super) struct Alias {
    pub(super) rid: u32,
    pub(super) name: &'static str,
    description: &'static str,
}

/// The local groups that have a meaning here, ordered by RID: [MS-SAMR] 3.1.4.2.
const BUILTIN: &[Alias] = &[
    Alias {
        rid: ADMINISTRATORS,
        name: "Administrators",
        description: "Manage shares, sessions and open files",
    },
    Alias { rid: USERS, name: "Users", description: "All users of the server" },
    Alias { rid: 546, name: "Guests", description: "Users without a proof of their names" },
];

/// Returns the local groups of a domain.
pub(super) fn of(domain: SamDomain) -> &'static [Alias] {
    match domain {
        SamDomain::Account => &[],
        SamDomain::Builtin => BUILTIN,
    }
}

/// SamrOpenAlias: [MS-SAMR] 3.1.5.1.8.
pub(super) fn open(
    reader: &mut Reader<'_>,
    environment: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    let within = domain(reader, environment, LOOKUP)?;
    let (desired_access, rid) = (reader.u32()?, reader.u32()?);
    let is_there = of(within).iter().any(|it| it.rid == rid);
    let opened = match grant(environment, desired_access, access::ALIAS) {
        Err(status) => Err(status),
        Ok(_) if !is_there => Err(NtStatus::NO_SUCH_ALIAS),
        Ok(granted) => environment.handles.open(HandleObject::Alias(within, rid), granted),
    };
    Ok(with_handle(opened))
}

/// Reads a handle, which must have these rights to an alias.
fn read_alias(
    reader: &mut Reader<'_>,
    environment: &Environment<'_>,
    required_access: u32,
) -> Result<&'static Alias, Fault> {
    let (object, granted_access) = environment.handles.object(reader.handle()?)?;
    let HandleObject::Alias(within, rid) = object else { return Err(Fault::ContextMismatch) };
    verify(granted_access, required_access)?;
    of(within).iter().find(|it| it.rid == rid).ok_or(Fault::ContextMismatch)
}

/// SamrQueryInformationAlias: [MS-SAMR] 3.1.5.5.5.
pub(super) fn query_information(
    reader: &mut Reader<'_>,
    environment: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    let alias = read_alias(reader, environment, ALIAS_READ)?;
    let level = reader.u16()?;
    let mut information = Information::begin(level);
    match level {
        // AliasGeneralInformation: [MS-SAMR] 2.2.6.2.
        1 => {
            let count = members_of(environment, alias).len();
            information.text(alias.name);
            information.writer().count(count);
            information.text(alias.description);
        }
        2 => information.text(alias.name),
        3 => information.text(alias.description),
        _ => return Ok(Information::refuse(NtStatus::INVALID_INFO_CLASS)),
    }
    Ok(information.finish())
}

/// SamrGetMembersInAlias: [MS-SAMR] 3.1.5.8.3.
pub(super) fn members(
    reader: &mut Reader<'_>,
    environment: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    let alias = read_alias(reader, environment, ALIAS_LIST_MEMBERS)?;
    let members = members_of(environment, alias);
    let mut writer = Writer::default();
    writer.count(members.len());
    if members.is_empty() {
        writer.null();
    } else {
        writer.referent();
        writer.count(members.len());
        members.iter().for_each(|_| writer.referent());
        members.iter().for_each(|sid| writer.sid(sid));
    }
    Ok(writer.finish_status(NtStatus::SUCCESS))
}

/// Returns the members of an alias that are known by name: a group in `choro:administrators` is
/// none, since only the system knows its members.
fn members_of(environment: &Environment<'_>, alias: &Alias) -> Vec<Sid> {
    let catalogue = environment.catalogue;
    match alias.rid {
        ADMINISTRATORS => {
            let accounts = catalogue.accounts().unwrap_or_default();
            let administrators = accounts.into_iter().filter(|it| it.is_administrator);
            administrators.map(|it| SamDomain::Account.sid_of(catalogue, it.rid)).collect()
        }
        USERS => vec![Sid::authenticated_users()],
        _ => Vec::new(),
    }
}

/// SamrGetAliasMembership: [MS-SAMR] 3.1.5.9.1.
pub(super) fn membership(
    reader: &mut Reader<'_>,
    environment: &mut Environment<'_>,
) -> Result<Vec<u8>, Fault> {
    let within = domain(reader, environment, GET_ALIAS_MEMBERSHIP)?;
    let sids = reader.sids(SIDS_MAX)?;
    let is_member =
        |alias: &&Alias| members_of(environment, alias).iter().any(|member| sids.contains(member));
    let found: Vec<_> = of(within).iter().filter(is_member).collect();
    let mut writer = Writer::default();
    writer.count(found.len());
    if found.is_empty() {
        writer.null();
    } else {
        writer.referent();
        writer.count(found.len());
        found.iter().for_each(|alias| writer.u32(alias.rid));
    }
    Ok(writer.finish_status(NtStatus::SUCCESS))
}
