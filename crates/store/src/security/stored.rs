//! Descriptors in the extended attribute: reading one that still holds, and putting one into
//! effect.

use crate::model::secured_object::SecuredObject;
use crate::security::credentials::NewOwners;

use dtyp::{NtStatus, SecurityDescriptor, SecurityInformation, Sid};
use rustix::fs::Statx;
use rustix::io::Errno;

use super::mapping;
use super::mode;
use crate::errno::{During, Operation};
use crate::model::root::Root;
use crate::security::credentials::{Impersonation, Permissions};
use crate::security::nt_acl::{self, Basis, Hash};
use crate::security::posix_acl::SystemAcl;
use crate::settings::{NtAclSettings, Trustee};
use crate::sys::system;

/// The descriptor that decides on an object where NT ACLs are kept; `None` if mode and POSIX ACL
/// do.
///
/// # Errors
/// It cannot be read, or is damaged where nothing else could decide.
pub(crate) fn deciding(
    impersonation: &mut Impersonation,
    root: &Root,
    secured: SecuredObject<'_>,
) -> Result<Option<SecurityDescriptor>, NtStatus> {
    let Some(settings) = &root.settings.nt_acls else { return Ok(None) };
    let value = match impersonation.read_descriptor(secured.xattrs(), &settings.attribute) {
        Ok(value) => value,
        Err(Errno::NODATA | Errno::OPNOTSUPP) => return Ok(absent(settings, secured)),
        Err(errno) => return Err(errno).during(Operation::Query),
    };
    match nt_acl::decode(&value) {
        Some(stored) if holds(settings, secured, stored.basis)? => Ok(Some(stored.descriptor)),
        Some(_) => Ok(None),
        // The kernel would let everyone in.
        None if settings.ignore_system_acls => Err(NtStatus::ACCESS_DENIED),
        None => Ok(None),
    }
}

fn absent(settings: &NtAclSettings, secured: SecuredObject<'_>) -> Option<SecurityDescriptor> {
    let ignored = settings.ignore_system_acls;
    ignored.then(|| mode::default_descriptor(secured.status, settings.default_style))
}

/// Returns whether mode and POSIX ACL are still the same as when the descriptor was stored.
fn holds(
    settings: &NtAclSettings,
    secured: SecuredObject<'_>,
    basis: Basis,
) -> Result<bool, NtStatus> {
    if settings.ignore_system_acls || basis == Basis::None {
        return Ok(true);
    }
    let system = SystemAcl::read(secured.xattrs(), secured.status).during(Operation::Query)?;
    let descriptor =
        || Hash::of_descriptor(&mode::describe(secured.status, system.access.as_ref()));
    Ok(match basis {
        Basis::None => true,
        Basis::Unknown => false,
        Basis::Descriptor(stored) => stored == descriptor(),
        Basis::System { descriptor: stored, system: hash } => {
            hash == system.hash() || stored == descriptor()
        }
    })
}

/// The descriptor that clients are shown: the deciding one, or what mode and POSIX ACL amount to.
pub(crate) fn shown(
    impersonation: &mut Impersonation,
    root: &Root,
    secured: SecuredObject<'_>,
) -> Result<SecurityDescriptor, NtStatus> {
    if let Some(descriptor) = deciding(impersonation, root, secured)? {
        return Ok(descriptor);
    }
    if root.settings.nt_acls.is_none() {
        return Ok(mode::describe(secured.status, None));
    }
    let system = SystemAcl::read(secured.xattrs(), secured.status).during(Operation::Query)?;
    Ok(mode::describe(secured.status, system.access.as_ref()))
}

/// Returns the new owner and group of an object, if the user may set them: [MS-FSA] 2.1.5.17.
///
/// A user takes ownership and cannot give it away; an administrator of the system can. A SID that
/// stands for nobody here can be stored, and leaves the owner of the host as it is.
pub(crate) fn new_owners(
    impersonation: &Impersonation,
    status: &Statx,
    old: &SecurityDescriptor,
    new: &SecurityDescriptor,
    information: SecurityInformation,
) -> Result<NewOwners, NtStatus> {
    let identity = impersonation.identity()?;
    let mut owners = NewOwners::default();
    let changed = |part, old: &Option<Sid>, new: &Option<Sid>| {
        information.contains(part) && new.is_some() && old != new
    };
    if changed(SecurityInformation::OWNER, &old.owner, &new.owner)
        && let Some(sid) = &new.owner
    {
        if !identity.is_root && !identity.token().contains(sid) {
            return Err(NtStatus::INVALID_OWNER);
        }
        owners.uid = match mapping::trustee(impersonation, sid) {
            Some(Trustee::User(uid)) => Some(uid),
            // The administrators' user is root. Only it has them in its token.
            _ if *sid == Sid::administrators() => Some(0),
            _ => None,
        };
    }
    if changed(SecurityInformation::GROUP, &old.group, &new.group)
        && let Some(sid) = &new.group
        && let Some(Trustee::Group(gid)) = mapping::trustee(impersonation, sid)
    {
        owners.gid = Some(gid);
    }
    owners.uid = owners.uid.filter(|uid| *uid != status.stx_uid);
    owners.gid = owners.gid.filter(|gid| *gid != status.stx_gid);
    Ok(owners)
}

/// Rights of an open to change owner and DACL, which the kernel reserves to the owner.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mandate {
    /// True if the open has WRITE_OWNER.
    pub(crate) owner: bool,
    /// True if the open has WRITE_DAC.
    pub(crate) dacl: bool,
}

/// Puts a whole descriptor into effect: the owners first, then the POSIX ACL, then the attribute.
///
/// If storing the attribute fails, the old POSIX ACL is restored, so that the kernel does not grant
/// the rights of a refused descriptor.
pub(crate) fn install(
    impersonation: &mut Impersonation,
    settings: &NtAclSettings,
    secured: SecuredObject<'_>,
    descriptor: &SecurityDescriptor,
    owners: NewOwners,
    mandate: Mandate,
) -> Result<(), NtStatus> {
    if owners.uid.is_some() || owners.gid.is_some() {
        // Taking ownership was permitted already.
        let changed = impersonation.change_owners(secured, owners, mandate.owner);
        changed.during(Operation::SetMetadata)?;
    }
    let mut status = system::status_of(secured.fd).during(Operation::Query)?;
    let before = SystemAcl::read(secured.xattrs(), &status).during(Operation::Query)?;
    let mut system = before.clone();
    if !settings.ignore_system_acls {
        let changed = change_acl(impersonation, secured, &status, &before, descriptor, mandate)?;
        if changed {
            status = system::status_of(secured.fd).during(Operation::Query)?;
            system = SystemAcl::read(secured.xattrs(), &status).during(Operation::Query)?;
        }
    }
    let described = mode::describe(&status, system.access.as_ref());
    let value = nt_acl::encode(descriptor, Hash::of_descriptor(&described), system.hash());
    let granted = mandate.owner || mandate.dacl;
    let stored =
        impersonation.store_descriptor(secured.xattrs(), &settings.attribute, &value, granted);
    if stored.is_err()
        && let Some(access) = &before.access
    {
        // A second failure is ignored; the caller gets the failure to store.
        let _ = impersonation.put_back(SecuredObject { status: &status, ..secured }, access);
    }
    stored.during(Operation::SetMetadata)
}

/// Sets the POSIX ACL that follows from a descriptor. Returns whether it changed.
fn change_acl(
    impersonation: &mut Impersonation,
    secured: SecuredObject<'_>,
    status: &Statx,
    before: &SystemAcl,
    descriptor: &SecurityDescriptor,
    mandate: Mandate,
) -> Result<bool, NtStatus> {
    let wanted = mapping::posix_acl(impersonation, descriptor, status);
    if before.access.as_ref() == Some(&wanted) {
        return Ok(false);
    }
    let is_plain = before.access.as_ref().is_none_or(|access| access.as_mode().is_some());
    let sticky = u32::from(status.stx_mode) & libc::S_ISVTX;
    let permissions = match wanted.as_mode() {
        Some(bits) if is_plain => Permissions::Mode(sticky | u32::from(bits)),
        _ => Permissions::Acl(&wanted),
    };
    let secured = SecuredObject { status, ..secured };
    let changed = impersonation.change_permissions(secured, permissions, mandate.dacl);
    changed.during(Operation::SetMetadata)?;
    Ok(true)
}
