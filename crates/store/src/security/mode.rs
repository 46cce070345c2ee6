//! Security descriptors from POSIX owners, groups, modes and ACLs.
//!
//! Shares without stored NT ACLs have these descriptors, and so have objects without a stored one.
//! A mode is read as three entries (owner, group, everyone), and a POSIX ACL as one more for each
//! that it names. A descriptor that is written to a share without stored NT ACLs is mapped onto the
//! three triples of the mode. An entry that a mode cannot express is refused, never dropped in
//! silence, with these exceptions: inherit-only entries (there is no place for them), entries for
//! the system and the administrators (root may do everything), and the difference between rights
//! that one mode bit stands for. The SACL is not kept.

use crate::model::secured_object::SecuredObject;
use crate::security::credentials::NewOwners;
use dtyp::security_descriptor::Control;
use dtyp::{
    AccessMask, Ace, AceFlags, AceType, Acl, NtStatus, SecurityDescriptor, SecurityInformation, Sid,
};
use rustix::fs::Statx;

use crate::errno::{During, Operation};
use crate::security::credentials::{Impersonation, Permissions};
use crate::security::given_mode;
use crate::security::posix_acl::{PosixAcl, Tag, Triple};
use crate::security::rights;
use crate::settings::{DefaultStyle, RootSettings};
use crate::sys::file_kind::is_directory;
use crate::sys::system;

/// Authority of the SIDs S-1-22-1-UID and S-1-22-2-GID.
const UNIX_AUTHORITY: u64 = 22;

/// S-1-5-88-1-UID, S-1-5-88-2-GID and S-1-5-88-3-MODE: how Windows' NFS server, and the Linux
/// client, say what POSIX says.
const NFS: u32 = 88;

/// The descriptor that corresponds to a mode.
pub(crate) fn describe(status: &Statx, acl: Option<&PosixAcl>) -> SecurityDescriptor {
    let directory = is_directory(status);
    let (owner, group) = (Sid::unix_user(status.stx_uid), Sid::unix_group(status.stx_gid));
    let from_mode;
    let acl = match acl {
        Some(acl) => acl,
        None => {
            from_mode = PosixAcl::from_mode(status.stx_mode);
            &from_mode
        }
    };
    let entry = |(tag, triple): (Tag, Triple)| {
        let (sid, rights) = match tag {
            Tag::Owner => (owner.clone(), owner_rights_of(triple, directory)),
            Tag::User(uid) => (Sid::unix_user(uid), rights(triple, directory)),
            Tag::OwningGroup => (group.clone(), rights(triple, directory)),
            Tag::Group(gid) => (Sid::unix_group(gid), rights(triple, directory)),
            Tag::Mask => return None,
            Tag::Other => (Sid::everyone(), rights(triple, directory)),
        };
        Some(Ace::allow(sid, rights, AceFlags::empty()))
    };
    // A POSIX ACL may have more entries than a DACL. All of them are grants.
    let aces = acl.effective().filter_map(entry).collect();
    SecurityDescriptor {
        control: Control::SELF_RELATIVE | Control::DACL_PRESENT,
        owner: Some(owner.clone()),
        group: Some(group.clone()),
        sacl: None,
        dacl: Some(Acl::fitting(Acl::REVISION, aces)),
    }
}

/// Returns the descriptor of an object without a stored one, where the system's ACLs are ignored.
pub(crate) fn default_descriptor(status: &Statx, style: DefaultStyle) -> SecurityDescriptor {
    let mut descriptor = describe(status, None);
    let all = |sid: Sid, flags| Ace::allow(sid, AccessMask::FILE_ALL, flags);
    let none = AceFlags::empty();
    let owner = Sid::unix_user(status.stx_uid);
    let aces = match style {
        DefaultStyle::Everyone => {
            let passed_on = AceFlags::OBJECT_INHERIT | AceFlags::CONTAINER_INHERIT;
            vec![all(Sid::everyone(), if is_directory(status) { passed_on } else { none })]
        }
        DefaultStyle::Posix => {
            let mut aces = descriptor.dacl.take().map(|acl| acl.aces).unwrap_or_default();
            aces.push(all(Sid::system(), none));
            aces
        }
        DefaultStyle::Windows => vec![all(owner, none), all(Sid::system(), none)],
    };
    descriptor.dacl = Some(Acl::new(aces));
    descriptor
}

/// As it is granted: an owner that may read and write has full control.
fn owner_rights_of(triple: Triple, directory: bool) -> AccessMask {
    if triple & 6 == 6 { AccessMask::FILE_ALL } else { rights(triple, directory) | rights::OWNER }
}

/// The NT rights of one triple of a mode.
fn rights(bits: u16, directory: bool) -> AccessMask {
    let mut rights = rights::EVERYONE;
    if bits & rights::READ != 0 {
        rights |= AccessMask::FILE_GENERIC_READ;
        if !directory {
            rights |= AccessMask::FILE_GENERIC_EXECUTE;
        }
    }
    if bits & rights::WRITE != 0 {
        rights |= AccessMask::FILE_GENERIC_WRITE;
        if directory {
            rights |= AccessMask::DELETE_CHILD;
        }
    }
    if bits & rights::EXECUTE != 0 {
        rights |= AccessMask::FILE_GENERIC_EXECUTE;
    }
    rights
}

/// Requester of a change of a descriptor, with the right to it by the rules of NT.
#[derive(Clone, Copy, Debug)]
pub(crate) enum By<'a> {
    /// The creator of an object that was just made, in a share with these settings.
    Creator(&'a RootSettings),
    /// The owner, if the kernel agrees.
    Owner,
    /// Everyone who may write the object ("dos filemode").
    Writer,
}

/// Changes owner, group and mode as far as `information` names them. The engine has checked the
/// right for each part.
pub(crate) fn apply(
    impersonation: &mut Impersonation,
    secured: SecuredObject<'_>,
    information: SecurityInformation,
    descriptor: &[u8],
    by: By<'_>,
) -> Result<(), NtStatus> {
    let status = secured.status;
    let granted = matches!(by, By::Writer);
    let new = match by {
        By::Creator(settings) => Some(settings),
        By::Owner | By::Writer => None,
    };
    let descriptor =
        SecurityDescriptor::decode(descriptor).ok_or(NtStatus::INVALID_SECURITY_DESCR)?;
    if information.touches_sacl() && descriptor.sacl.is_some() {
        return Err(NtStatus::NOT_SUPPORTED);
    }
    let uid = match descriptor.owner.as_ref() {
        Some(sid) if information.contains(SecurityInformation::OWNER) => Some(unix_id(sid, 1)?),
        _ => None,
    };
    let gid = match descriptor.group.as_ref() {
        Some(sid) if information.contains(SecurityInformation::GROUP) => Some(unix_id(sid, 2)?),
        _ => None,
    };
    let new_owner = (uid.unwrap_or(status.stx_uid), gid.unwrap_or(status.stx_gid));
    // Understood before anything is changed.
    let mode = if information.contains(SecurityInformation::DACL) {
        Some(mode_of(descriptor.dacl.as_ref(), new_owner, status, new)?)
    } else {
        None
    };
    let mut changed = None;
    if new_owner != (status.stx_uid, status.stx_gid) {
        let uid = uid.filter(|uid| *uid != status.stx_uid);
        let gid = gid.filter(|gid| *gid != status.stx_gid);
        let owners = NewOwners { uid, gid };
        impersonation.change_owners(secured, owners, granted).during(Operation::SetMetadata)?;
        changed = Some(system::status_of(secured.fd).during(Operation::Query)?);
    }
    if let Some(mode) = mode {
        let secured = SecuredObject { status: changed.as_ref().unwrap_or(status), ..secured };
        let result = impersonation.change_permissions(secured, Permissions::Mode(mode), granted);
        result.during(Operation::SetMetadata)?;
    }
    Ok(())
}

/// The uid (`kind` 1) or gid (`kind` 2) that a SID stands for.
fn unix_id(sid: &Sid, kind: u32) -> Result<u32, NtStatus> {
    match *sid.subauthorities() {
        [found, id] if sid.authority() == UNIX_AUTHORITY && found == kind && id != u32::MAX => {
            Ok(id)
        }
        [NFS, found, id] if sid.authority() == 5 && found == kind && id != u32::MAX => Ok(id),
        _ => Err(NtStatus::INVALID_OWNER),
    }
}

/// Returns the mode that an entry of a list states, as the Linux client sends it for `chmod`.
pub(crate) fn said_mode(dacl: &Acl) -> Option<u32> {
    let sids = dacl.aces.iter().filter_map(Ace::sid);
    let mut modes = sids.filter_map(|sid| match *sid.subauthorities() {
        [NFS, 3, mode] if sid.authority() == 5 => Some(mode),
        _ => None,
    });
    modes.next()
}

/// Returns whether an entry states a mode, an owner or a group of POSIX, and grants nothing.
pub(crate) fn is_nfs_entry(ace: &Ace) -> bool {
    let is_one =
        |sid: &Sid| sid.authority() == 5 && matches!(*sid.subauthorities(), [NFS, 1..=3, _]);
    ace.sid().is_some_and(is_one)
}

/// Returns whether a list states another mode than that of the object.
pub(crate) fn changes_mode(dacl: &Acl, status: &Statx) -> bool {
    let directory = is_directory(status);
    let current = given_mode::permitted(u32::from(status.stx_mode), directory);
    said_mode(dacl).is_some_and(|mode| given_mode::permitted(mode, directory) != current)
}

/// Returns the entries that state mode, owner and group, without any right to deny.
pub(crate) fn nfs_entries(status: &Statx) -> [Ace; 3] {
    let mode = u32::from(status.stx_mode);
    [(3, mode), (1, status.stx_uid), (2, status.stx_gid)].map(|(kind, value)| {
        Ace::deny(Sid::new(5, &[NFS, kind, value]), AccessMask::empty(), AceFlags::empty())
    })
}

/// Returns the mode that grants the same rights as a list. Without a list everything is granted.
fn mode_of(
    dacl: Option<&Acl>,
    owner: (u32, u32),
    status: &Statx,
    new: Option<&RootSettings>,
) -> Result<u32, NtStatus> {
    let sticky = u32::from(status.stx_mode) & libc::S_ISVTX;
    let Some(dacl) = dacl else { return Ok(sticky | 0o777) };
    if let Some(mode) = said_mode(dacl) {
        let directory = is_directory(status);
        return Ok(match new {
            Some(settings) => given_mode::of_new(settings, mode, directory),
            // As in Samba, the masks hold for new entries only.
            None => given_mode::permitted(mode, directory),
        });
    }
    let classes = [
        vec![Sid::unix_user(owner.0), owner_rights()],
        vec![Sid::unix_group(owner.1)],
        vec![Sid::everyone(), Sid::authenticated_users()],
    ];
    for ace in dacl.aces.iter().filter(|ace| !ace.flags.contains(AceFlags::INHERIT_ONLY)) {
        let sid = ace.sid().ok_or(NtStatus::INVALID_ACL)?;
        let simple = matches!(ace.ace_type, AceType::ACCESS_ALLOWED | AceType::ACCESS_DENIED);
        let ours = classes.iter().flatten().any(|class| class == sid);
        let ignored =
            [Sid::system(), Sid::administrators(), Sid::creator_owner(), Sid::creator_group()];
        if !simple || !ours && !ignored.contains(sid) {
            return Err(NtStatus::INVALID_ACL);
        }
    }
    let [owner, group, everyone] = &classes;
    let triple = |class: &[Sid]| {
        let trustees = class.iter().chain(everyone);
        triple_of(dacl, &trustees.collect::<Vec<_>>(), status)
    };
    let (owner, group, other) = (triple(owner), triple(group), triple(&[]));
    Ok(sticky | owner << 6 | group << 3 | other)
}

/// Returns the SID of OWNER RIGHTS, S-1-3-4.
fn owner_rights() -> Sid {
    Sid::new(3, &[4])
}

/// Returns the permissions that a list grants to a user who is all of `trustees`: the first entry
/// for a right decides.
fn triple_of(dacl: &Acl, trustees: &[&Sid], status: &Statx) -> u32 {
    let (mut granted, mut decided) = (AccessMask::empty(), AccessMask::empty());
    for ace in &dacl.aces {
        let about = ace.sid().is_some_and(|sid| trustees.contains(&sid));
        if !about || ace.flags.contains(AceFlags::INHERIT_ONLY) {
            continue;
        }
        let mask = ace.mask().map_generic();
        if ace.ace_type == AceType::ACCESS_ALLOWED {
            granted |= mask.difference(decided);
        }
        decided |= mask;
    }
    let directory = is_directory(status);
    let mut triple = 0;
    if granted.contains(AccessMask::READ_DATA) {
        triple |= 4;
    }
    if granted.contains(AccessMask::WRITE_DATA) {
        triple |= 2;
    }
    // On a file reading comes with executing, so that alone does not make a program of it: the bit
    // stays as it is where any was set.
    let program = directory || u32::from(status.stx_mode) & 0o111 != 0;
    if granted.contains(AccessMask::EXECUTE) && program {
        triple |= 1;
    }
    triple
}

#[cfg(test)]
mod tests {
    use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

    use super::*;

    #[test]
    fn a_list_with_too_many_entries_for_a_dacl_is_shown_in_part() {
        let status = statx(CWD, ".", AtFlags::empty(), StatxFlags::BASIC_STATS).expect("a folder");
        let users = (1..=8_000).map(|uid| (Tag::User(uid), rights::READ));
        let shown = describe(&status, Some(&PosixAcl::new(users.collect())));
        let read = SecurityDescriptor::decode(&shown.to_bytes()).expect("it is whole");
        assert_eq!(read, shown);
        assert_eq!(read.dacl.map(|list| list.aces.len()), Some(2_730), "24 bytes each, in 64 KiB");
    }
}
