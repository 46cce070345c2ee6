//! Whether a file is open to all users that another one is open to, so that its contents may go
//! there. In doubt it is not.

use dtyp::ace::AceBody;
use dtyp::{AccessMask, Ace, AceFlags, AceType, SecurityDescriptor, Sid};

use crate::model::root::Root;
use crate::model::secured_object::SecuredObject;
use crate::security::credentials::Impersonation;
use crate::security::posix_acl::{SystemAcl, Tag};
use crate::security::rights::{READ, WRITE};
use crate::security::{mode, stored};

/// Rights to the data of a file.
const DATA: AccessMask =
    AccessMask::READ_DATA.union(AccessMask::WRITE_DATA).union(AccessMask::APPEND_DATA);

/// The same in a triple of a mode.
const DATA_BITS: u16 = READ | WRITE;

/// Rights that stand for several ones, and can include those to the data.
const GENERIC: AccessMask = AccessMask::GENERIC.union(AccessMask::MAXIMUM_ALLOWED);

/// Whether all users who may read or write the data of `other` may do so with those of `file`, by
/// mode, POSIX ACL and descriptor. Both have one owner, and are in one directory.
pub(crate) fn is_as_open(
    impersonation: &mut Impersonation,
    root: &Root,
    file: SecuredObject<'_>,
    other: SecuredObject<'_>,
) -> bool {
    let systems = [file, other].map(|it| SystemAcl::read(it.xattrs(), it.status));
    let [Ok(system), Ok(system_of_other)] = &systems else { return false };
    if !is_as_open_to_kernel((system, file), (system_of_other, other)) {
        return false;
    }
    let descriptors = [file, other].map(|it| stored::deciding(impersonation, root, it));
    match descriptors {
        [Ok(None), Ok(_)] => true,
        [Ok(Some(descriptor)), Ok(Some(of_other))] => grants_as_much(&descriptor, &of_other),
        [Ok(Some(descriptor)), Ok(None)] => {
            let of_other = mode::describe(other.status, system_of_other.access.as_ref());
            grants_as_much(&descriptor, &of_other)
        }
        _ => false,
    }
}

fn is_as_open_to_kernel(
    (system, file): (&SystemAcl, SecuredObject<'_>),
    (system_of_other, other): (&SystemAcl, SecuredObject<'_>),
) -> bool {
    let has_one_group = file.status.stx_gid == other.status.stx_gid;
    let (Some(acl), Some(of_other)) = (&system.access, &system_of_other.access) else {
        // A file system without ACLs.
        return is_mode_as_open(file.status.stx_mode, other.status.stx_mode, has_one_group);
    };
    let mut others = of_other.effective().filter(|(tag, _)| *tag != Tag::Owner);
    let is_closed = others.all(|(_, triple)| triple & DATA_BITS == 0);
    let is_as_open = match (acl.as_mode(), of_other.as_mode()) {
        (Some(mode), Some(of_other)) => is_mode_as_open(mode, of_other, has_one_group),
        _ => acl == of_other && has_one_group,
    };
    is_closed || is_as_open
}

/// The group of one file may be others to the other one.
fn is_mode_as_open(mode: u16, of_other: u16, has_one_group: bool) -> bool {
    let of = |mode: u16| (mode >> 3 & DATA_BITS, mode & DATA_BITS);
    let ((group, all), (other_group, other_all)) = (of(mode), of(of_other));
    let is_as_open = other_group & !group == 0 && other_all & !all == 0;
    has_one_group && is_as_open || (other_group | other_all) & !(group & all) == 0
}

/// Whether a descriptor denies nothing, and grants to each user or group, or to everyone, the
/// rights to data that the other one grants.
fn grants_as_much(descriptor: &SecurityDescriptor, other: &SecurityDescriptor) -> bool {
    let Some(dacl) = &descriptor.dacl else { return true };
    let Some(of_other) = &other.dacl else { return false };
    if dacl == of_other {
        return true;
    }
    let is_effective = |ace: &&Ace| !ace.flags.contains(AceFlags::INHERIT_ONLY);
    let aces = || dacl.aces.iter().filter(is_effective);
    let grants = |sid: &Sid, wanted: AccessMask| {
        aces().any(|ace| match &ace.body {
            AceBody::Sid { mask, sid: trustee, .. } => {
                (trustee == sid || *trustee == Sid::everyone()) && mask.contains(wanted)
            }
            AceBody::Opaque(_) => false,
        })
    };
    // Owners of both are one user, and may give themselves any right.
    let is_owner = |sid: &Sid| other.owner.as_ref() == Some(sid);
    aces().all(|ace| ace.ace_type == AceType::ACCESS_ALLOWED)
        && of_other.aces.iter().filter(is_effective).all(|ace| match &ace.body {
            _ if ace.ace_type == AceType::ACCESS_DENIED => true,
            AceBody::Sid { mask, sid, .. } => {
                let wanted = if mask.intersects(GENERIC) { DATA } else { *mask & DATA };
                wanted.is_empty() || is_owner(sid) || grants(sid, wanted)
            }
            AceBody::Opaque(_) => false,
        })
}

#[cfg(test)]
mod tests {
    use dtyp::{AccessMask, Ace, AceFlags, Acl, SecurityDescriptor, Sid};

    use super::grants_as_much;

    const READ: AccessMask = AccessMask::FILE_GENERIC_READ;
    const ALL: AccessMask = AccessMask::FILE_ALL;

    fn with(aces: Vec<Ace>) -> SecurityDescriptor {
        SecurityDescriptor { dacl: Some(Acl::new(aces)), ..SecurityDescriptor::default() }
    }

    #[test]
    fn a_descriptor_is_as_open_as_another_if_it_grants_each_of_its_rights_to_data() {
        let none = AceFlags::empty();
        let (anna, bob) = (Sid::unix_user(1), Sid::unix_user(2));
        let allow = |sid: &Sid, mask| Ace::allow(sid.clone(), mask, none);
        let everyone = Sid::everyone();
        let for_bob = with(vec![allow(&bob, ALL), allow(&anna, READ)]);
        assert!(grants_as_much(&for_bob, &for_bob));
        assert!(grants_as_much(
            &with(vec![allow(&everyone, READ)]),
            &with(vec![allow(&bob, READ)])
        ));
        assert!(!grants_as_much(&for_bob, &with(vec![allow(&anna, ALL)])));
        assert!(!grants_as_much(&for_bob, &with(vec![allow(&everyone, READ)])));
        assert!(!grants_as_much(&for_bob, &SecurityDescriptor::default()), "open to everybody");
        assert!(grants_as_much(&SecurityDescriptor::default(), &for_bob));
        let attributes = allow(&everyone, AccessMask::READ_ATTRIBUTES);
        assert!(grants_as_much(&for_bob, &with(vec![attributes])));
        let all = allow(&everyone, AccessMask::GENERIC_ALL);
        assert!(!grants_as_much(&with(vec![allow(&everyone, READ)]), &with(vec![all])));
        let denies = with(vec![Ace::deny(bob, READ, none), allow(&everyone, ALL)]);
        assert!(!grants_as_much(&denies, &with(vec![allow(&anna, READ)])), "in doubt");
    }
}
