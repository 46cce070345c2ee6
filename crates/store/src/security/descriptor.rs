//! Security descriptors: [MS-FSA] 2.1.5.14 and 2.1.5.17.
//!
//! A share either keeps NT descriptors (`stored`, in Samba's encoding; `mapping` makes POSIX ACLs
//! of them for the kernel) or makes them of the mode (`mode`).

use dtyp::inheritance::{Creator, inherited_descriptor};
use dtyp::security_descriptor::Control;
use dtyp::{AccessMask, Acl, NtStatus, SecurityDescriptor, SecurityInformation, Sid};
use object::{LocalOpen, OpenRequest};
use rustix::fs::Statx;
use tracing::warn;

use crate::Store;
use crate::errno::{During, Operation};
use crate::model::place::Parent;
use crate::model::root::Root;
use crate::model::secured_object::SecuredObject;
use crate::security::credentials::{Depot, NewOwners};
use crate::security::mode::{self, By};
use crate::security::stored;
use crate::security::stored::Mandate;
use crate::settings::{InheritOwner, NtAclSettings};
use crate::sys::file_kind::is_directory;
use crate::sys::system;

/// The parts of a descriptor that a created object may be given, beside the SACL.
const OF_CREATION: SecurityInformation =
    SecurityInformation::OWNER.union(SecurityInformation::GROUP).union(SecurityInformation::DACL);

impl Store {
    pub(crate) fn read_security(
        &mut self,
        open: LocalOpen,
        information: u32,
        nfs_entries: bool,
    ) -> Result<Vec<u8>, NtStatus> {
        let open = self.opens.get(open)?;
        let status = system::status_of(open.fd()).during(Operation::Query)?;
        let information = SecurityInformation::from_bits_retain(information);
        let mut shown = stored::shown(&mut self.impersonation, &open.root, open.secured(&status))?;
        if nfs_entries && let Some(list) = shown.dacl.take() {
            let aces = list.aces.into_iter().chain(mode::nfs_entries(&status));
            shown.dacl = Some(Acl::fitting(list.revision, aces.collect()));
        }
        Ok(shown.select(information).to_bytes())
    }

    pub(crate) fn write_security(
        &mut self,
        open: LocalOpen,
        information: u32,
        descriptor: &[u8],
        nfs_entries: bool,
    ) -> Result<(), NtStatus> {
        let wanted = SecurityInformation::from_bits_retain(information);
        if !wanted.contains(SecurityInformation::OWNER) {
            return self.change_security(open, information, descriptor, nfs_entries);
        }
        let former = system::status_of(self.opens.get(open)?.fd()).during(Operation::Query)?;
        let result = self.change_security(open, information, descriptor, nfs_entries);
        // Also after a failure: the owner is changed first.
        self.give_streams_along(open, former.stx_uid);
        result
    }

    /// Gives the streams of an object in a depot to its owner, if it had another one.
    fn give_streams_along(&mut self, open: LocalOpen, former: u32) {
        let Ok(open) = self.opens.get(open) else { return };
        let Some(settings) = &open.root.settings.streams_depot else { return };
        if system::status_of(open.fd()).is_ok_and(|it| it.stx_uid == former) {
            return;
        }
        let depot = Depot::new(&mut self.impersonation, settings, open.xattrs());
        if let Err(errno) = depot.give_along(former) {
            let path = open.path.as_str();
            warn!("streams of {path:?} stay with the former owner, uid {former}: {errno}");
        }
    }

    fn change_security(
        &mut self,
        open: LocalOpen,
        information: u32,
        descriptor: &[u8],
        nfs_entries: bool,
    ) -> Result<(), NtStatus> {
        let open = self.opens.get(open)?;
        open.root.verify_changeable()?;
        let status = system::status_of(open.fd()).during(Operation::Query)?;
        let mut information = SecurityInformation::from_bits_retain(information);
        let stripped;
        let descriptor = if nfs_entries && information.contains(SecurityInformation::DACL) {
            stripped = without_unchanged(descriptor, &status, &mut information)?;
            &stripped
        } else {
            descriptor
        };
        let Some(settings) = &open.root.settings.nt_acls else {
            let by = match open.root.settings.writers_change_permissions {
                true => By::Writer,
                false => By::Owner,
            };
            let secured = open.secured(&status);
            return mode::apply(&mut self.impersonation, secured, information, descriptor, by);
        };
        let given =
            SecurityDescriptor::decode(descriptor).ok_or(NtStatus::INVALID_SECURITY_DESCR)?;
        if (nfs_entries || open.path.is_posix())
            && given.dacl.as_ref().and_then(mode::said_mode).is_some()
        {
            // A new mode makes a stored descriptor void, as with every program that changes it.
            let secured = open.secured(&status);
            let by = By::Owner;
            return mode::apply(&mut self.impersonation, secured, information, descriptor, by);
        }
        information.set(
            SecurityInformation::OWNER,
            information.contains(SecurityInformation::OWNER) && given.owner.is_some(),
        );
        information.set(
            SecurityInformation::GROUP,
            information.contains(SecurityInformation::GROUP) && given.group.is_some(),
        );
        if !information.intersects(OF_CREATION | SecurityInformation::IN_SACL) {
            return Ok(());
        }
        let secured = open.secured(&status);
        let old = stored::shown(&mut self.impersonation, &open.root, secured)?;
        let new = changed(&old, information, given, settings)?;
        let owners = stored::new_owners(&self.impersonation, &status, &old, &new, information)?;
        let mandate = Mandate {
            owner: open.granted_access.contains(AccessMask::WRITE_OWNER),
            dacl: open.granted_access.contains(AccessMask::WRITE_DAC),
        };
        stored::install(&mut self.impersonation, settings, secured, &new, owners, mandate)
    }

    /// Gives a created object the descriptor of the request, or the inherited one: [MS-FSA]
    /// 2.1.5.1.1, [MS-DTYP] 2.5.3.4. Without either none is stored, and the mode decides. Returns
    /// whether owner, mode or ACL were changed.
    pub(crate) fn secure_created(
        &mut self,
        root: &Root,
        request: &OpenRequest,
        parent: &Parent,
        secured: SecuredObject<'_>,
        can_have_made: bool,
    ) -> Result<bool, NtStatus> {
        let owner_changed = self.inherit_owner(root, parent, secured)?;
        if root.settings.nt_acls.is_none() && request.security.is_none() {
            return Ok(owner_changed);
        }
        // The mode that a client gives may have been changed once more.
        let status = if owner_changed || request.posix_mode.is_some() && request.security.is_some()
        {
            system::status_of(secured.fd).during(Operation::Query)?
        } else {
            *secured.status
        };
        let secured = SecuredObject { status: &status, ..secured };
        let Some(settings) = &root.settings.nt_acls else {
            let Some(given) = &request.security else { return Ok(owner_changed) };
            let by = By::Creator(&root.settings);
            mode::apply(&mut self.impersonation, secured, OF_CREATION, given, by)?;
            return Ok(true);
        };
        let (descriptor, owners) = match &request.security {
            Some(given) => {
                // Missing parts are inherited, as without a descriptor.
                let inherited = self.inherited(root, parent, &status)?;
                let base = inherited.unwrap_or_else(|| self.of_creator(&status));
                self.given_descriptor(settings, &status, &base, given)?
            }
            None => match self.inherited(root, parent, &status)? {
                Some(descriptor) => (descriptor, NewOwners::default()),
                None => return Ok(owner_changed),
            },
        };
        // The creator decides on the first descriptor of an object.
        let is_new = owner_changed || can_have_made;
        let mandate = Mandate { owner: is_new, dacl: is_new };
        stored::install(&mut self.impersonation, settings, secured, &descriptor, owners, mandate)?;
        Ok(true)
    }

    /// Whether the owner was changed.
    fn inherit_owner(
        &mut self,
        root: &Root,
        parent: &Parent,
        secured: SecuredObject<'_>,
    ) -> Result<bool, NtStatus> {
        let owner = parent.status.stx_uid;
        if root.settings.inherit_owner == InheritOwner::No || owner == secured.status.stx_uid {
            return Ok(false);
        }
        let passed = self.impersonation.pass_to_owner(secured, &parent.status);
        passed.during(Operation::SetMetadata)?;
        Ok(true)
    }

    /// A descriptor that came with the request, made whole.
    fn given_descriptor(
        &self,
        settings: &NtAclSettings,
        status: &Statx,
        base: &SecurityDescriptor,
        given: &[u8],
    ) -> Result<(SecurityDescriptor, NewOwners), NtStatus> {
        let given = SecurityDescriptor::decode(given).ok_or(NtStatus::INVALID_SECURITY_DESCR)?;
        let mut information = OF_CREATION;
        if given.sacl.as_ref().is_some_and(|sacl| !sacl.aces.is_empty()) {
            if !self.impersonation.identity()?.is_root {
                return Err(NtStatus::PRIVILEGE_NOT_HELD);
            }
            information |= SecurityInformation::SACL;
        }
        let has_dacl = given.control.contains(Control::DACL_PRESENT);
        information.set(SecurityInformation::DACL, has_dacl);
        information.set(SecurityInformation::OWNER, given.owner.is_some());
        information.set(SecurityInformation::GROUP, given.group.is_some());
        let new = changed(base, information, given, settings)?;
        let owners = stored::new_owners(&self.impersonation, status, base, &new, information)?;
        Ok((new, owners))
    }

    /// Returns the descriptor of a mode, with the creator's own SID as owner.
    fn of_creator(&self, status: &Statx) -> SecurityDescriptor {
        let owner = Some(self.owner_sid(status));
        SecurityDescriptor { owner, ..mode::describe(status, None) }
    }

    fn owner_sid(&self, status: &Statx) -> Sid {
        let known = self.impersonation.identity_of(status.stx_uid);
        known.map_or_else(|| Sid::unix_user(status.stx_uid), |known| known.user.clone())
    }

    /// Returns the descriptor that a new object inherits; `None` if it inherits nothing.
    fn inherited(
        &mut self,
        root: &Root,
        parent: &Parent,
        status: &Statx,
    ) -> Result<Option<SecurityDescriptor>, NtStatus> {
        let Some(above) = stored::deciding(&mut self.impersonation, root, parent.secured())? else {
            return Ok(None);
        };
        let owner = match (&above.owner, root.settings.inherit_owner) {
            (Some(owner), InheritOwner::WindowsAndUnix) => owner.clone(),
            (_, InheritOwner::UnixOnly) => self.impersonation.identity()?.user.clone(),
            _ => self.owner_sid(status),
        };
        let group = Sid::unix_group(status.stx_gid);
        let creator = Creator { owner: &owner, group: &group };
        Ok(inherited_descriptor(&above, creator, is_directory(status)))
    }
}

/// Takes the entries for NFS from the list of a descriptor that a client has read and sends back,
/// but for a new mode. A list that had no others is not set.
fn without_unchanged(
    descriptor: &[u8],
    status: &Statx,
    information: &mut SecurityInformation,
) -> Result<Vec<u8>, NtStatus> {
    let mut given =
        SecurityDescriptor::decode(descriptor).ok_or(NtStatus::INVALID_SECURITY_DESCR)?;
    let Some(list) = &mut given.dacl else { return Ok(descriptor.to_vec()) };
    if mode::changes_mode(list, status) {
        return Ok(descriptor.to_vec());
    }
    let had_entries = !list.aces.is_empty();
    list.aces.retain(|ace| !mode::is_nfs_entry(ace));
    if had_entries && list.aces.is_empty() {
        information.remove(SecurityInformation::DACL);
    }
    Ok(given.to_bytes())
}

/// `old` with the parts that `information` names taken from `given`. Entries of the SACL that stay
/// and those that come can be too many for one list.
fn changed(
    old: &SecurityDescriptor,
    information: SecurityInformation,
    mut given: SecurityDescriptor,
    settings: &NtAclSettings,
) -> Result<SecurityDescriptor, NtStatus> {
    canonicalize(&mut given.control, settings);
    for acl in [&mut given.dacl, &mut given.sacl].into_iter().flatten() {
        map_generic(acl);
    }
    if information.contains(SecurityInformation::DACL) {
        // A missing list means the NULL DACL, which grants everything.
        given.control |= Control::DACL_PRESENT;
    }
    let mut new = old.clone();
    new.replace(information, given);
    new.control |= Control::SELF_RELATIVE;
    let fits = [&new.dacl, &new.sacl].into_iter().flatten().all(Acl::fits);
    fits.then_some(new).ok_or(NtStatus::INVALID_ACL)
}

/// [MS-DTYP] 2.5.3.4: a list counts as computed by inheritance if its writer says both that it was
/// and that it should be. The request to compute it is not stored.
fn canonicalize(control: &mut Control, settings: &NtAclSettings) {
    for (requested, inherited) in [
        (Control::DACL_AUTO_INHERIT_REQ, Control::DACL_AUTO_INHERITED),
        (Control::SACL_AUTO_INHERIT_REQ, Control::SACL_AUTO_INHERITED),
    ] {
        if settings.canonicalize_inherited && !control.contains(requested) {
            control.remove(inherited);
        }
        control.remove(requested);
    }
}

fn map_generic(acl: &mut Acl) {
    for ace in &mut acl.aces {
        ace.map_generic();
    }
}
