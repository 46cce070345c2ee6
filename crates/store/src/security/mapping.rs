//! From an NT DACL to a POSIX ACL, so that the kernel's check does not contradict the DACL.
//!
//! The kernel checks every open as the user, and it has the last word; the DACL is checked before,
//! by us. So the POSIX ACL has to grant at least what the DACL grants, as well as nine bits can,
//! and it should not grant more to local programs than it must. The rules:
//!
//! - Each user that the DACL names gets what the DACL grants to that user as far as we know its
//!   groups: a POSIX entry for a user is final, the entries of its groups no longer count.
//! - Each group gets what it and everyone are granted. The kernel grants what any of a user's
//!   groups has.
//! - A denial takes effect where it stands, for the trustee that it names. Where a group is denied
//!   what another group has, the kernel grants it and our check denies it.
//! - One bit stands for several rights: it is granted with any of them. Every user with a right
//!   on a directory may traverse it, as on Windows.
//! - The owner keeps reading a file, and everything on a directory: what is in the way of managing
//!   it are the DACL's rules, which the owner can change. A server that is not root keeps writing
//!   as well, or it could not store another descriptor: attributes in `user.` take that right.
//! - SIDs that stand for nobody on this system have no entry, and the kernel gives them what it
//!   gives everyone.

use std::collections::BTreeSet;

use dtyp::access_check::{Privileges, Token};
use dtyp::{AccessMask, SecurityDescriptor, Sid, access_check};
use rustix::fs::Statx;

use crate::security::credentials::Impersonation;
use crate::security::posix_acl::{PosixAcl, Tag, Triple};
use crate::security::rights::EXECUTE;
use crate::security::rights::READ;
use crate::security::rights::WRITE;
use crate::settings::Trustee;
use crate::sys::file_kind::is_directory;

/// Authority of the SIDs S-1-22-1-UID and S-1-22-2-GID.
const UNIX_AUTHORITY: u64 = 22;

/// Users and groups of a list, at most; the others have what everyone has. An ACL of this size
/// still fits into the extended attribute of any file system.
const NAMED_MAX: usize = 256;

/// `None` for SIDs that stand for many or nobody.
pub(crate) fn trustee(impersonation: &Impersonation, sid: &Sid) -> Option<Trustee> {
    match *sid.subauthorities() {
        [1, uid] if sid.authority() == UNIX_AUTHORITY && uid != u32::MAX => {
            Some(Trustee::User(uid))
        }
        [2, gid] if sid.authority() == UNIX_AUTHORITY && gid != u32::MAX => {
            Some(Trustee::Group(gid))
        }
        _ => {
            let known = impersonation.uid_of(sid).map(Trustee::User);
            known.or_else(|| impersonation.of_domain(sid))
        }
    }
}

/// Returns the POSIX ACL of an object with this descriptor, whose owners are in `status`.
pub(crate) fn posix_acl(
    impersonation: &Impersonation,
    descriptor: &SecurityDescriptor,
    status: &Statx,
) -> PosixAcl {
    let mapping = Mapping::new(impersonation, descriptor, status);
    let mut entries = vec![
        (Tag::Owner, mapping.owner()),
        (Tag::OwningGroup, mapping.group(status.stx_gid)),
        (Tag::Other, mapping.triple(&everyone())),
    ];
    let (mut users, mut groups) = (Vec::new(), Vec::new());
    for trustee in mapping.named() {
        match trustee {
            Trustee::User(uid) => users.push(uid),
            Trustee::Group(gid) => groups.push((gid, mapping.group(gid))),
        }
    }
    let of_groups = groups.iter().fold(0, |all, (_, triple)| all | triple);
    users.retain(|uid| *uid != status.stx_uid);
    groups.retain(|(gid, _)| *gid != status.stx_gid);
    let users = users.into_iter().map(|uid| (Tag::User(uid), mapping.user(uid, of_groups)));
    entries.extend(users);
    entries.extend(groups.into_iter().map(|(gid, triple)| (Tag::Group(gid), triple)));
    PosixAcl::new(entries)
}

/// Returns the SIDs of the class "other" of a mode.
fn everyone() -> Vec<Sid> {
    vec![Sid::everyone(), Sid::network(), Sid::authenticated_users(), Sid::users()]
}

struct Mapping<'a> {
    impersonation: &'a Impersonation,
    descriptor: &'a SecurityDescriptor,
    status: &'a Statx,
    /// SIDs in the DACL that stand for a user or a group. They are found once, because the ids of a
    /// domain are read from a file.
    trustees: Vec<(&'a Sid, Trustee)>,
    /// The descriptor's group, unless it stands for somebody: a user who takes a file may name a
    /// group that it cannot bring.
    owning_group: Option<&'a Sid>,
}

impl<'a> Mapping<'a> {
    fn new(
        impersonation: &'a Impersonation,
        descriptor: &'a SecurityDescriptor,
        status: &'a Statx,
    ) -> Self {
        let aces = descriptor.dacl.iter().flat_map(|dacl| &dacl.aces);
        let sids: BTreeSet<&Sid> = aces.filter_map(|ace| ace.sid()).collect();
        let found = |sid| trustee(impersonation, sid).map(|of| (sid, of));
        let trustees = sids.into_iter().filter_map(found).collect();
        let group = descriptor.group.as_ref();
        let owning_group = group.filter(|sid| trustee(impersonation, sid).is_none());
        Self { impersonation, descriptor, status, trustees, owning_group }
    }

    /// Users and groups that have entries, each once.
    fn named(&self) -> Vec<Trustee> {
        let mut named: Vec<_> = self.trustees.iter().map(|(_, of)| *of).collect();
        named.sort_unstable();
        named.dedup();
        named.truncate(NAMED_MAX);
        named
    }

    /// SIDs in the DACL that stand for a user or a group: a domain's have names of their own.
    fn sids_of(&self, of: Trustee) -> impl Iterator<Item = Sid> {
        let own = self.trustees.iter().filter(move |(_, it)| *it == of);
        own.map(|(sid, _)| (*sid).clone())
    }

    fn owner(&self) -> Triple {
        let mut sids = self.sids_of_user(self.status.stx_uid);
        sids.extend(self.descriptor.owner.clone());
        sids.extend(self.sids_of_owning_group(&sids));
        let kept = match (is_directory(self.status), self.impersonation.has_server()) {
            (true, _) => READ | WRITE | EXECUTE,
            (false, true) => READ,
            (false, false) => READ | WRITE,
        };
        self.triple(&sids) | kept
    }

    /// `of_groups` is what any group of the list has.
    fn user(&self, uid: u32, of_groups: Triple) -> Triple {
        let mut sids = self.sids_of_user(uid);
        sids.extend(self.sids_of_owning_group(&sids));
        let triple = self.triple(&sids);
        let is_absent = self.impersonation.identity_of(uid).is_none();
        let mut of_domain =
            self.sids_of(Trustee::User(uid)).filter(|it| *it != Sid::unix_user(uid));
        // The groups of a user who is not logged on here are unknown: its entry, which is final,
        // keeps what they may have.
        match is_absent && of_domain.next().is_some() {
            true => triple | of_groups,
            false => triple,
        }
    }

    fn group(&self, gid: u32) -> Triple {
        let mut sids = everyone();
        sids.push(Sid::unix_group(gid));
        sids.extend(self.sids_of(Trustee::Group(gid)));
        sids.extend(self.sids_of_owning_group(&sids));
        self.triple(&sids)
    }

    /// All SIDs of a user, as far as we know it.
    fn sids_of_user(&self, uid: u32) -> Vec<Sid> {
        let mut sids = everyone();
        sids.push(Sid::unix_user(uid));
        sids.extend(self.sids_of(Trustee::User(uid)));
        if let Some(identity) = self.impersonation.identity_of(uid) {
            sids.push(identity.user.clone());
            sids.extend(identity.groups.iter().cloned());
        }
        sids
    }

    /// The descriptor may call the owning group by a name of its own.
    fn sids_of_owning_group(&self, sids: &[Sid]) -> Option<Sid> {
        let is_member = sids.contains(&Sid::unix_group(self.status.stx_gid));
        self.owning_group.filter(|_| is_member).cloned()
    }

    /// Returns the permissions that the DACL grants to a user with all of `sids`.
    fn triple(&self, sids: &[Sid]) -> Triple {
        let nobody = Sid::anonymous();
        let token = Token { user: &nobody, groups: sids, privileges: Privileges::default() };
        let granted = access_check(self.descriptor, &token, AccessMask::MAXIMUM_ALLOWED);
        self.as_triple(granted.unwrap_or(AccessMask::empty()))
    }

    fn as_triple(&self, granted: AccessMask) -> Triple {
        let writes = AccessMask::WRITE_DATA | AccessMask::APPEND_DATA;
        let directory = is_directory(self.status);
        let (reads, writes) = if directory {
            (AccessMask::READ_DATA, writes | AccessMask::DELETE_CHILD)
        } else {
            (AccessMask::READ_DATA | AccessMask::EXECUTE, writes)
        };
        let mut triple = 0;
        if granted.intersects(reads) {
            triple |= READ;
        }
        if granted.intersects(writes) {
            triple |= WRITE;
        }
        // On a file full control alone does not make a program of it: the bit stays as it is where
        // any was set.
        let program = self.status.stx_mode & 0o111 != 0;
        let executes =
            if directory { reads | writes | AccessMask::EXECUTE } else { AccessMask::EXECUTE };
        if granted.intersects(executes) && (directory || program) {
            triple |= EXECUTE;
        }
        triple
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use dtyp::{Ace, AceFlags, Acl};
    use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

    use super::*;
    use crate::settings::DomainIds;

    const ALICE: u32 = 1_103;
    const ENGINEERS: u32 = 1_106;

    fn sid(rid: u32) -> Sid {
        Sid::new(5, &[21, 1, 2, 3, rid])
    }

    #[derive(Debug)]
    struct Domain;

    impl DomainIds for Domain {
        fn id_of(&self, of: &Sid) -> Option<Trustee> {
            let known = [(ALICE, Trustee::User(5)), (ENGINEERS, Trustee::Group(6))];
            known.into_iter().find(|(rid, _)| sid(*rid) == *of).map(|(_, id)| id)
        }
    }

    /// Entries of a DACL that lets alice read, and another one do everything.
    fn entries(domain: Option<Arc<dyn DomainIds>>, other: u32) -> Vec<(Tag, Triple)> {
        let status = statx(CWD, ".", AtFlags::empty(), StatxFlags::BASIC_STATS).expect("a folder");
        let allow = |rid, mask| Ace::allow(sid(rid), mask, AceFlags::empty());
        let list =
            [allow(ALICE, AccessMask::FILE_GENERIC_READ), allow(other, AccessMask::FILE_ALL)];
        let dacl = Some(Acl::new(list.to_vec()));
        let descriptor = SecurityDescriptor { dacl, ..SecurityDescriptor::default() };
        let impersonation = Impersonation::new(false).with_domain_ids(domain);
        let acl = posix_acl(&impersonation, &descriptor, &status);
        let is_named = |(tag, _): &(Tag, Triple)| matches!(tag, Tag::User(_) | Tag::Group(_));
        acl.effective().filter(is_named).collect()
    }

    #[test]
    fn users_and_groups_of_a_domain_have_entries_though_they_never_logged_on() {
        let domain = || Some(Arc::new(Domain) as Arc<dyn DomainIds>);
        let all = READ | WRITE | EXECUTE;
        // Alice may be in the group, and her entry is final.
        let both = [(Tag::User(5), all), (Tag::Group(6), all)];
        assert_eq!(entries(domain(), ENGINEERS), both);
        // A SID without an id counts for nobody.
        assert_eq!(entries(domain(), 1_107), [(Tag::User(5), READ | EXECUTE)]);
        assert_eq!(entries(None, ENGINEERS), []);
    }

    /// A domain whose SIDs are users with even ids, and groups with odd ones.
    #[derive(Debug, Default)]
    struct Counting(AtomicU32);

    impl DomainIds for Counting {
        fn id_of(&self, of: &Sid) -> Option<Trustee> {
            self.0.fetch_add(1, Ordering::Relaxed);
            let id = *of.subauthorities().last()?;
            Some(if id % 2 == 0 { Trustee::User(id) } else { Trustee::Group(id) })
        }
    }

    #[test]
    fn each_sid_is_looked_up_once_for_all_entries_of_a_list() {
        let status = statx(CWD, ".", AtFlags::empty(), StatxFlags::BASIC_STATS).expect("a folder");
        let ids = 1_000_001..=1_000_040;
        let thrice = ids.clone().chain(ids.clone()).chain(ids);
        let list = thrice.map(|id| Ace::allow(sid(id), AccessMask::READ_DATA, AceFlags::empty()));
        let dacl = Some(Acl::new(list.collect()));
        let descriptor = SecurityDescriptor { dacl, ..SecurityDescriptor::default() };
        let domain = Arc::new(Counting::default());
        let ids = Some(Arc::clone(&domain) as Arc<dyn DomainIds>);
        let impersonation = Impersonation::new(false).with_domain_ids(ids);
        let acl = posix_acl(&impersonation, &descriptor, &status);
        assert_eq!(acl.effective().count(), 3 + 40);
        assert_eq!(domain.0.load(Ordering::Relaxed), 40);
    }
}
