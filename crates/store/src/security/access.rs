//! Rights of a user on an object: those of its NT descriptor, or POSIX permissions as NT rights.
//!
//! This answers a client's questions early and exactly; the kernel still has the last word on each
//! system call, because the thread impersonates the user. Changes that POSIX has no right for are
//! made with the server's rights, if NT's right for them was granted: attributes and times
//! (WRITE_ATTRIBUTES), the POSIX ACL (WRITE_DAC), taking ownership (WRITE_OWNER), and removing
//! (DELETE, where NT descriptors are kept). `credentials/privileged.rs` has these calls, and the
//! limits that hold in any case.
//!
//! The *deciding* descriptor (`stored::deciding`) is one that Samba or Choro has stored with the
//! object and that is still valid; if there is none, mode and POSIX ACL decide. Root has all
//! rights.

use crate::security::rights::EVERYONE;
use crate::security::rights::EXECUTE;
use crate::security::rights::OWNER;
use crate::security::rights::READ;
use crate::security::rights::WRITE;
use std::os::fd::{AsFd, BorrowedFd};

use dtyp::{AccessMask, NtStatus, SecurityDescriptor, Sid, access_check};
use rustix::fs::Statx;
use rustix::io::Errno;

use crate::cache::directories::Inode;
use crate::model::place::Parent;
use crate::model::root::Root;
use crate::model::secured_object::SecuredObject;
use crate::security::credentials::{Effective, Identity, Impersonation};
use crate::security::mapping::trustee;
use crate::security::stored;
use crate::sys::file_kind::is_directory;
use crate::sys::system;

/// Rights to change an object, which a read-only share never grants.
const CHANGES: AccessMask = AccessMask::WRITE_DATA
    .union(AccessMask::APPEND_DATA)
    .union(AccessMask::WRITE_EA)
    .union(AccessMask::WRITE_ATTRIBUTES)
    .union(AccessMask::DELETE_CHILD)
    .union(AccessMask::DELETE)
    .union(AccessMask::WRITE_DAC)
    .union(AccessMask::WRITE_OWNER);

/// Data of a file, which a pipe, socket, device or link of the host does not have for clients.
pub(crate) const DATA: AccessMask = AccessMask::READ_DATA
    .union(AccessMask::WRITE_DATA)
    .union(AccessMask::APPEND_DATA)
    .union(AccessMask::EXECUTE);

/// Rights without which "hide unreadable" leaves an object out of a listing, as in Windows.
pub(crate) const TO_SEE: AccessMask = AccessMask::READ_DATA
    .union(AccessMask::READ_EA)
    .union(AccessMask::READ_ATTRIBUTES)
    .union(AccessMask::READ_CONTROL);

/// Name that an object was found by. Its directory may let a user remove the object.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NamedBy<'a> {
    /// None: it is the root of a share.
    Root,
    /// A name of its own in this directory.
    Entry(&'a Parent),
    /// A symbolic link in this directory, which was followed.
    Link(&'a Parent),
}

impl<'a> NamedBy<'a> {
    /// Name of `object` in the directory `parent`, where the name itself leads to `inode`.
    pub(crate) fn of(parent: Option<&'a Parent>, inode: Inode, object: &Statx) -> Self {
        match parent {
            None => Self::Root,
            Some(parent) if inode == Inode::of(object) => Self::Entry(parent),
            Some(parent) => Self::Link(parent),
        }
    }
}

/// All rights of the impersonated user on an object: [MS-FSA] 2.1.5.1.2.1.
///
/// # Errors
/// The descriptor cannot be read.
pub(crate) fn maximal_rights(
    impersonation: &mut Impersonation,
    root: &Root,
    secured: SecuredObject<'_>,
    named_by: NamedBy<'_>,
) -> Result<AccessMask, NtStatus> {
    let user = impersonation.effective();
    let mut rights = match &root.settings.nt_acls {
        _ if user.uid == 0 => AccessMask::FILE_ALL,
        None => rights_by_mode(user, secured.fd, secured.status),
        Some(_) => object_rights(impersonation, root, secured)?,
    };
    let settings = &root.settings;
    if settings.writers_change_permissions
        && settings.nt_acls.is_none()
        && rights.contains(AccessMask::WRITE_DATA)
    {
        rights |= AccessMask::WRITE_DAC | AccessMask::WRITE_OWNER;
    }
    // A user who can look up an object may read its attributes.
    rights |= AccessMask::READ_ATTRIBUTES;
    // Whoever may write a directory can put a link to any file there. So that directory gives no
    // right to the target but to those who may change it anyway.
    let may_be_removed = match named_by {
        NamedBy::Link(_) => rights.contains(AccessMask::WRITE_DATA),
        NamedBy::Root | NamedBy::Entry(_) => true,
    };
    if !rights.contains(AccessMask::DELETE)
        && may_be_removed
        && may_remove(impersonation, root, secured, named_by)?
    {
        rights |= AccessMask::DELETE;
    }
    if root.settings.read_only {
        rights.remove(CHANGES);
    }
    Ok(rights)
}

/// The rights that the object itself gives.
pub(crate) fn object_rights(
    impersonation: &mut Impersonation,
    root: &Root,
    secured: SecuredObject<'_>,
) -> Result<AccessMask, NtStatus> {
    let user = impersonation.effective();
    if user.uid == 0 {
        return Ok(AccessMask::FILE_ALL);
    }
    match stored::deciding(impersonation, root, secured)? {
        Some(descriptor) => granted(impersonation, &descriptor, secured.status),
        None => Ok(rights_by_mode(user, secured.fd, secured.status)),
    }
}

/// All rights that a descriptor gives to the impersonated user.
///
/// Another server may have stored the descriptor, with other SIDs for the same user and groups.
/// While a descriptor is valid, its owner and group stand for those of the file on the host, so a
/// user who is owner or member there gets the rights of these SIDs.
fn granted(
    impersonation: &Impersonation,
    descriptor: &SecurityDescriptor,
    status: &Statx,
) -> Result<AccessMask, NtStatus> {
    let identity = impersonation.identity()?;
    let mut token = identity.token();
    let mut groups;
    let aliases = aliases(impersonation, identity, descriptor, status);
    if aliases.iter().any(Option::is_some) {
        groups = identity.groups.clone();
        groups.extend(aliases.into_iter().flatten());
        token.groups = &groups;
    }
    let maximum = AccessMask::MAXIMUM_ALLOWED;
    Ok(access_check(descriptor, &token, maximum).unwrap_or(AccessMask::empty()))
}

/// SIDs of the descriptor's owner and group that the user's token lacks, though the user is the
/// owner or in the group.
fn aliases(
    impersonation: &Impersonation,
    identity: &Identity,
    descriptor: &SecurityDescriptor,
    status: &Statx,
) -> [Option<Sid>; 2] {
    let token = identity.token();
    let unknown = |sid: &&Sid| !token.contains(sid) && trustee(impersonation, sid).is_none();
    let owns = identity.uid == status.stx_uid;
    let is_member = identity.groups.contains(&Sid::unix_group(status.stx_gid));
    [
        descriptor.owner.as_ref().filter(|_| owns).filter(unknown).cloned(),
        descriptor.group.as_ref().filter(|_| is_member).filter(unknown).cloned(),
    ]
}

/// Verifies by the descriptor that the impersonated user may add an entry to a directory. Without a
/// descriptor, the kernel decides.
pub(crate) fn verify_may_add(
    impersonation: &mut Impersonation,
    root: &Root,
    parent: &Parent,
    directory: bool,
) -> Result<(), NtStatus> {
    if root.settings.nt_acls.is_none() || impersonation.effective().uid == 0 {
        return Ok(());
    }
    let Some(descriptor) = stored::deciding(impersonation, root, parent.secured())? else {
        return Ok(());
    };
    // ADD_SUBDIRECTORY and ADD_FILE.
    let needed = if directory { AccessMask::APPEND_DATA } else { AccessMask::WRITE_DATA };
    if granted(impersonation, &descriptor, &parent.status)?.contains(needed) {
        Ok(())
    } else {
        Err(NtStatus::ACCESS_DENIED)
    }
}

/// Rights that mode and POSIX ACL give, as NT rights.
fn rights_by_mode(user: Effective, fd: BorrowedFd<'_>, status: &Statx) -> AccessMask {
    let directory = is_directory(status);
    let permissions = permissions(user, fd, status);
    let mut rights = EVERYONE;
    if permissions & READ != 0 {
        rights |= AccessMask::FILE_GENERIC_READ;
        if !directory {
            // The x bit is for programs of this host. Files created by clients have none, and a
            // client that can read a program can run it in any case.
            rights |= AccessMask::FILE_GENERIC_EXECUTE;
        }
    }
    if permissions & WRITE != 0 {
        rights |= AccessMask::FILE_GENERIC_WRITE;
        if directory {
            rights |= AccessMask::DELETE_CHILD;
        }
    }
    if permissions & EXECUTE != 0 {
        rights |= AccessMask::FILE_GENERIC_EXECUTE;
    }
    if status.stx_uid == user.uid {
        rights |= OWNER;
        if !directory && permissions & (READ | WRITE) == READ | WRITE {
            // Means nothing on a file, but is part of "full control".
            rights |= AccessMask::DELETE_CHILD;
        }
    }
    rights
}

/// Returns whether the directory lets the user remove the object, even if the object does not.
fn may_remove(
    impersonation: &mut Impersonation,
    root: &Root,
    secured: SecuredObject<'_>,
    named_by: NamedBy<'_>,
) -> Result<bool, NtStatus> {
    let user = impersonation.effective();
    let (NamedBy::Entry(parent) | NamedBy::Link(parent)) = named_by else {
        // The root of a share is never removed; the right is granted as for any directory.
        return Ok(permissions(user, secured.fd, secured.status) & WRITE != 0);
    };
    if root.settings.nt_acls.is_some()
        && let Some(descriptor) = stored::deciding(impersonation, root, parent.secured())?
    {
        let granted = granted(impersonation, &descriptor, &parent.status)?;
        return Ok(granted.contains(AccessMask::DELETE_CHILD));
    }
    // Removing a name is a change of its directory, in a sticky one reserved to the owners.
    let (status, directory) = (secured.status, &parent.status);
    let sticky = u32::from(directory.stx_mode) & libc::S_ISVTX != 0;
    if sticky && user.uid != status.stx_uid && user.uid != directory.stx_uid {
        return Ok(false);
    }
    let permissions = permissions(user, parent.directory.fd.as_fd(), directory);
    Ok(permissions & (WRITE | EXECUTE) == WRITE | EXECUTE)
}

/// True if the impersonated user may enter a directory and list its names.
///
/// # Errors
/// The descriptor cannot be read.
pub(crate) fn may_list(
    impersonation: &mut Impersonation,
    root: &Root,
    directory: &Parent,
) -> Result<bool, NtStatus> {
    let secured = directory.secured();
    let permissions = permissions(impersonation.effective(), secured.fd, secured.status);
    if permissions & (READ | EXECUTE) != READ | EXECUTE {
        return Ok(false);
    }
    // A descriptor can refuse more than the kernel does.
    Ok(root.settings.nt_acls.is_none()
        || object_rights(impersonation, root, secured)?.contains(AccessMask::READ_DATA))
}

/// The rwx bits that hold for the user. The owner's are exact in the mode; for others the kernel is
/// asked, which knows about ACLs.
pub(crate) fn permissions(user: Effective, fd: BorrowedFd<'_>, status: &Statx) -> u16 {
    if user.uid == 0 {
        return READ | WRITE | EXECUTE;
    }
    if status.stx_uid == user.uid {
        return status.stx_mode >> 6 & 7;
    }
    match system::may_access(fd, libc::R_OK | libc::W_OK | libc::X_OK) {
        Ok(()) => return READ | WRITE | EXECUTE,
        // A kernel before 5.8. The mode says too little for members of supplementary groups.
        Err(Errno::NOSYS) if status.stx_gid == user.gid => return status.stx_mode >> 3 & 7,
        Err(Errno::NOSYS) => return status.stx_mode & 7,
        Err(_) => {}
    }
    let bits = [(READ, libc::R_OK), (WRITE, libc::W_OK), (EXECUTE, libc::X_OK)];
    let granted = bits.into_iter().filter(|(_, mode)| system::may_access(fd, *mode).is_ok());
    granted.fold(0, |all, (bit, _)| all | bit)
}
