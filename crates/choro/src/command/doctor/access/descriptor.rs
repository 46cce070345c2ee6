//! NT security descriptors as the cause of a refusal.

use dtyp::{AccessMask, AceType, SecurityDescriptor, SecurityInformation, Sid};
use object::{ObjectOp, ObjectReply, OpenRequest};

use super::Inquiry;
use super::place::{Place, Target};
use crate::command::doctor::finding::{Finding, word};

impl Inquiry<'_> {
    /// Explains a right by the NT descriptor of the object.
    pub(super) fn explain_descriptor(
        &mut self,
        place: &Place,
        target: &Target,
        fact: &str,
        needed: AccessMask,
        word_of_right: &str,
    ) {
        let denying =
            self.descriptor(place, target).and_then(|it| self.denying_entry(place, &it, needed));
        let share = word(&self.request.name);
        let path = word(&target.path.to_windows());
        let user = word(&place.name);
        let (reason, change) = match denying {
            Some((sid, flags, mask)) => (
                format!("Its NT access list has an entry that denies {word_of_right} to {sid}."),
                format!("-D 'ACL:{sid}:DENIED/{flags:#x}/{mask:#010x}'"),
            ),
            None => (
                format!("Its NT access list has no entry that allows {word_of_right} to {user}."),
                format!("-a 'ACL:{user}:ALLOWED/0x0/{word_of_right}'"),
            ),
        };
        let command = format!("smbcacls //localhost/{share} {path} -U OWNER {change}");
        let finding = Finding::fault("nt_acl", fact, reason).command(command);
        self.add(finding.advice("its owner changes it in Windows: Properties, Security"));
    }

    fn descriptor(&mut self, place: &Place, target: &Target) -> Option<SecurityDescriptor> {
        let request = OpenRequest {
            desired_access: AccessMask::READ_CONTROL,
            open_reparse_point: false,
            ..OpenRequest::to_remove(place.root, target.path.clone())
        };
        let reply = self.ask(place.root_user, ObjectOp::Open(Box::new(request))).ok()?;
        let ObjectReply::Opened(opened) = reply else { return None };
        let read = ObjectOp::ReadSecurity {
            open: opened.open,
            information: SecurityInformation::DACL.bits(),
            nfs_entries: false,
        };
        let read = self.ask(place.root_user, read);
        let _ = self.ask(place.root_user, ObjectOp::Close { open: opened.open, unlink: false });
        let Ok(ObjectReply::Security(bytes)) = read else { return None };
        SecurityDescriptor::decode(&bytes)
    }

    /// Returns the entry that denies a right to the user: its SID, flags and mask.
    fn denying_entry(
        &self,
        place: &Place,
        descriptor: &SecurityDescriptor,
        needed: AccessMask,
    ) -> Option<(String, u8, u32)> {
        let user = self.store.users().nth(usize::try_from(place.user.0).ok()?)?;
        let groups = user.groups.iter().chain([&user.gid]);
        let mut sids: Vec<Sid> = groups.map(|gid| Sid::unix_group(*gid)).collect();
        sids.extend(user.sid.iter().cloned());
        sids.push(Sid::unix_user(user.uid));
        sids.extend(user.sids.iter().cloned());
        let entries = &descriptor.dacl.as_ref()?.aces;
        let entry = entries.iter().find(|ace| {
            ace.ace_type == AceType::ACCESS_DENIED
                && ace.mask().map_generic().intersects(needed)
                && ace.sid().is_some_and(|sid| sids.contains(sid))
        })?;
        Some((entry.sid()?.to_string(), entry.flags.bits(), entry.mask().bits()))
    }
}
