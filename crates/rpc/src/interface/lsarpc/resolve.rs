//! Lookup of names and SIDs on a server of a workgroup, or a member of a domain: [MS-LSAT] 3.1.4.5
//! and 3.1.4.9. The domain is asked last, for names that no other authority has.

use dtyp::upcase::equal_ignoring_case;
use dtyp::{NtStatus, Sid};

use super::well_known;
use crate::interface::Environment;
use crate::{Catalogue, NameQuestion, Principal, PrincipalKind};

/// Samba's names of the domains of the system's users and groups.
const UNIX_USER: &str = "Unix User";
const UNIX_GROUP: &str = "Unix Group";

/// Highest number of bytes of a name to look up; no system has users with longer names.
const NAME_BYTES_MAX: usize = 256;

/// Returns the principal named `name`, `domain\name` or `name@domain`, or a domain.
pub(super) fn find_name(catalogue: &dyn Catalogue, name: &str) -> Option<Principal> {
    if name.len() > NAME_BYTES_MAX || name.chars().any(char::is_control) {
        return None;
    }
    let (domain, name) = match (name.split_once('\\'), name.rsplit_once('@')) {
        (Some((domain, name)), _) | (None, Some((name, domain))) => (domain, name),
        (None, None) => ("", name),
    };
    if name.is_empty() {
        return find_domain(catalogue, domain);
    }
    let server = catalogue.server();
    let is = |other: &str| equal_ignoring_case(domain, other);
    // The domain of a member has users of its own, whose names may be those of local ones.
    let is_workgroup = !catalogue.is_member() && is(&server.domain);
    if domain.is_empty() || is(&server.name) || is_workgroup {
        let known = domain.is_empty().then(|| well_known::find_name(None, name)).flatten();
        return known
            .or_else(|| catalogue.find_user(name))
            .or_else(|| catalogue.find_group(name))
            .or_else(|| domain.is_empty().then(|| find_domain(catalogue, name)).flatten())
            .or_else(|| domain.is_empty().then(|| in_domain(catalogue, domain, name)).flatten());
    }
    if is(UNIX_USER) {
        return catalogue.find_user(name);
    }
    if is(UNIX_GROUP) {
        return catalogue.find_group(name);
    }
    well_known::find_name(Some(domain), name).or_else(|| in_domain(catalogue, domain, name))
}

fn in_domain(catalogue: &dyn Catalogue, domain: &str, name: &str) -> Option<Principal> {
    let (domain, name) = (domain.to_owned(), name.to_owned());
    catalogue.find_in_domain(NameQuestion::Name { domain, name })
}

/// Returns the principal with this SID. Guests learn no users of the server's own domain, as samr
/// gives them no handle.
pub(super) fn find_sid(environment: &Environment<'_>, sid: &Sid) -> Option<Principal> {
    let Environment { catalogue, caller, .. } = *environment;
    if *sid == catalogue.domain_sid() {
        return find_domain(catalogue, &catalogue.server().name);
    }
    let known = well_known::find_sid(sid).or_else(|| catalogue.find_sid(sid));
    let may_list = !caller.is_guest && catalogue.admits(caller);
    let known = known.or_else(|| may_list.then(|| find_account(catalogue, sid)).flatten());
    known.or_else(|| {
        let is_foreign = is_of_domain(sid) && !is_within(sid, &catalogue.domain_sid());
        is_foreign.then(|| catalogue.find_in_domain(NameQuestion::Sid(sid.clone()))).flatten()
    })
}

/// Returns the user with this SID of the server's own domain, as samr lists them.
fn find_account(catalogue: &dyn Catalogue, sid: &Sid) -> Option<Principal> {
    let domain = catalogue.domain_sid();
    let (rid, rest) = sid.subauthorities().split_last()?;
    if sid.authority() != domain.authority() || rest != domain.subauthorities() {
        return None;
    }
    let (kind, name) = match *rid {
        // The group of all users: DOMAIN_GROUP_RID_USERS of [MS-SAMR] 2.2.1.14.
        513 => (PrincipalKind::Group, "None".to_owned()),
        rid => (PrincipalKind::User, catalogue.account_by_rid(rid)?.name),
    };
    Some(Principal { kind, domain: catalogue.server().name, name, sid: sid.clone() })
}

/// True for SIDs that domains and machines issue, and those of the domains: S-1-5-21.
fn is_of_domain(sid: &Sid) -> bool {
    sid.authority() == 5 && sid.subauthorities().first() == Some(&21)
}

fn is_within(sid: &Sid, domain: &Sid) -> bool {
    sid.authority() == domain.authority()
        && sid.subauthorities().starts_with(domain.subauthorities())
}

fn find_domain(catalogue: &dyn Catalogue, name: &str) -> Option<Principal> {
    let server = catalogue.server();
    let (name, sid) = if equal_ignoring_case(name, &server.name) {
        (server.name, catalogue.domain_sid())
    } else if equal_ignoring_case(name, UNIX_USER) {
        (UNIX_USER.to_owned(), Sid::new(22, &[1]))
    } else if equal_ignoring_case(name, UNIX_GROUP) {
        (UNIX_GROUP.to_owned(), Sid::new(22, &[2]))
    } else {
        return well_known::find_domain(name);
    };
    Some(Principal { kind: PrincipalKind::Domain, domain: name.clone(), name, sid })
}

/// Status of a lookup as a whole: [MS-LSAT] 3.1.4.5.
pub(super) fn status_of(mapped: usize, asked: usize) -> NtStatus {
    match mapped {
        _ if mapped == asked => NtStatus::SUCCESS,
        0 => NtStatus::NONE_MAPPED,
        _ => NtStatus::SOME_NOT_MAPPED,
    }
}
