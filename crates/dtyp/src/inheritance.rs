//! Inheritance of a new object's descriptor: [MS-DTYP] 2.5.3.4.

use crate::ace::AceBody;
use crate::security_descriptor::Control;
use crate::{Ace, AceFlags, Acl, SecurityDescriptor, Sid};

/// Creator of an object, who replaces CREATOR OWNER and CREATOR GROUP.
#[derive(Clone, Copy, Debug)]
pub struct Creator<'a> {
    /// The owner of the new object.
    pub owner: &'a Sid,
    /// Primary group of the new object.
    pub group: &'a Sid,
}

/// True if files (or directories, with `container`) created beneath `parent` inherit an entry.
#[must_use]
pub fn has_inheritable_entries(parent: &SecurityDescriptor, container: bool) -> bool {
    parent.dacl.as_ref().is_some_and(|dacl| dacl.aces.iter().any(|ace| inherits(ace, container)))
}

/// Returns the descriptor of an object created in a directory with `parent`; `None` if the DACL of
/// `parent` has no entry to inherit. SACLs are not inherited.
///
/// This is [MS-DTYP] 2.5.3.4.1 for a creator that gave no descriptor. Entries are marked INHERITED
/// if the parent's own list was computed by inheritance, as in Samba, and as in Windows without
/// SEF_DACL_AUTO_INHERIT.
#[must_use]
pub fn inherited_descriptor(
    parent: &SecurityDescriptor,
    creator: Creator<'_>,
    container: bool,
) -> Option<SecurityDescriptor> {
    if !has_inheritable_entries(parent, container) {
        return None;
    }
    let automatic = parent.control & Control::DACL_AUTO_INHERITED;
    let mark = if automatic.is_empty() { AceFlags::empty() } else { AceFlags::INHERITED };
    let dacl = parent.dacl.as_ref()?;
    let mut aces: Vec<Ace> = Vec::with_capacity(dacl.aces.len());
    for ace in dacl.aces.iter().filter(|ace| inherits(ace, container)) {
        for ace in inherited_entries(ace, creator, container) {
            let ace = Ace { flags: ace.flags | mark, ..ace };
            // An entry for CREATOR OWNER duplicates the parent's entry for the creator's own SID.
            if !aces.contains(&ace) {
                aces.push(ace);
            }
        }
    }
    // Entries for creators become two, so a list of nearly 64 KiB can outgrow AclSize. The entries
    // dropped here are grants, if the list is in the usual order.
    let dacl = Acl::fitting(dacl.revision, aces);
    Some(SecurityDescriptor {
        control: Control::SELF_RELATIVE | Control::DACL_PRESENT | automatic,
        owner: Some(creator.owner.clone()),
        group: Some(creator.group.clone()),
        sacl: None,
        dacl: Some(dacl),
    })
}

/// True if an object inherits the entry. A directory also inherits entries for files, to pass them
/// on.
fn inherits(ace: &Ace, container: bool) -> bool {
    let flags = ace.flags;
    if !container {
        return flags.contains(AceFlags::OBJECT_INHERIT);
    }
    flags.contains(AceFlags::CONTAINER_INHERIT)
        || flags.contains(AceFlags::OBJECT_INHERIT)
            && !flags.contains(AceFlags::NO_PROPAGATE_INHERIT)
}

/// The entries that inherit from one entry of the parent: one, or two if a directory both applies
/// an entry for its creator and passes it on.
fn inherited_entries(ace: &Ace, creator: Creator<'_>, container: bool) -> Vec<Ace> {
    let substitute = match ace.sid() {
        Some(sid) if *sid == Sid::creator_owner() => Some(creator.owner),
        Some(sid) if *sid == Sid::creator_group() => Some(creator.group),
        _ => None,
    };
    let passed_on = container && !ace.flags.contains(AceFlags::NO_PROPAGATE_INHERIT);
    let applies = !container || ace.flags.contains(AceFlags::CONTAINER_INHERIT);
    if !passed_on {
        return vec![with(ace, substitute, AceFlags::empty())];
    }
    let kept = ace.flags & (AceFlags::OBJECT_INHERIT | AceFlags::CONTAINER_INHERIT);
    match (applies, substitute) {
        (true, None) => vec![with(ace, None, kept)],
        (true, Some(_)) => vec![
            with(ace, substitute, AceFlags::empty()),
            with(ace, None, kept | AceFlags::INHERIT_ONLY),
        ],
        (false, _) => vec![with(ace, None, kept | AceFlags::INHERIT_ONLY)],
    }
}

fn with(ace: &Ace, sid: Option<&Sid>, flags: AceFlags) -> Ace {
    let mut new = Ace { flags, ..ace.clone() };
    if let (AceBody::Sid { sid: trustee, .. }, Some(sid)) = (&mut new.body, sid) {
        *trustee = sid.clone();
    }
    new
}

#[cfg(test)]
mod tests;
