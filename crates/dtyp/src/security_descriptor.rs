//! SECURITY_DESCRIPTOR, self-relative: [MS-DTYP] 2.4.6.

use crate::reader::Reader;
use crate::{Ace, AceType, Acl, SecurityInformation, Sid};

bitflags::bitflags! {
    /// The Control field: [MS-DTYP] 2.4.6.
    #[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
    pub struct Control: u16 {
        /// The owner was set by default.
        const OWNER_DEFAULTED = 0x0001;
        /// The group was set by default.
        const GROUP_DEFAULTED = 0x0002;
        /// The descriptor has a DACL; without bytes it is the NULL DACL, which grants everything.
        const DACL_PRESENT = 0x0004;
        /// The DACL was set by default.
        const DACL_DEFAULTED = 0x0008;
        /// The descriptor has a SACL.
        const SACL_PRESENT = 0x0010;
        /// The SACL was set by default.
        const SACL_DEFAULTED = 0x0020;
        /// DACL_TRUSTED: [MS-DTYP] 2.4.6.
        const DACL_TRUSTED = 0x0040;
        /// SERVER_SECURITY: [MS-DTYP] 2.4.6.
        const SERVER_SECURITY = 0x0080;
        /// The DACL shall be computed by inheritance.
        const DACL_AUTO_INHERIT_REQ = 0x0100;
        /// The SACL shall be computed by inheritance.
        const SACL_AUTO_INHERIT_REQ = 0x0200;
        /// The DACL was computed by inheritance.
        const DACL_AUTO_INHERITED = 0x0400;
        /// The SACL was computed by inheritance.
        const SACL_AUTO_INHERITED = 0x0800;
        /// The DACL inherits no entries.
        const DACL_PROTECTED = 0x1000;
        /// The SACL inherits no entries.
        const SACL_PROTECTED = 0x2000;
        /// The byte Sbz1 has a meaning.
        const RM_CONTROL_VALID = 0x4000;
        /// The packet form, with offsets. Always set by [`SecurityDescriptor::encode`].
        const SELF_RELATIVE = 0x8000;
    }
}

impl Control {
    const OF_DACL: Self = Self::from_bits_retain(0x150C);
    const OF_SACL: Self = Self::from_bits_retain(0x2A30);
}

/// Owner of an object, and the rights of others.
///
/// `dacl` has three states: `Some` with its entries; `None` with [`Control::DACL_PRESENT`], the
/// NULL DACL, which grants everything; `None` without that flag: no DACL, which grants everything
/// as well.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct SecurityDescriptor {
    /// Flags.
    pub control: Control,
    /// OwnerSid.
    pub owner: Option<Sid>,
    /// GroupSid.
    pub group: Option<Sid>,
    /// Sacl.
    pub sacl: Option<Acl>,
    /// Dacl.
    pub dacl: Option<Acl>,
}

impl SecurityDescriptor {
    /// Bytes before the first SID or ACL.
    const HEADER_LEN: usize = 20;

    /// Length of the packet form in bytes.
    #[must_use]
    pub fn encoded_len(&self) -> usize {
        let sid = |sid: &Option<Sid>| sid.as_ref().map_or(0, Sid::encoded_len);
        let acl = |acl: &Option<Acl>| acl.as_ref().map_or(0, Acl::encoded_len);
        Self::HEADER_LEN + sid(&self.owner) + sid(&self.group) + acl(&self.sacl) + acl(&self.dacl)
    }

    /// Appends the packet form. Existing ACLs are marked as present.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let mut control = self.control | Control::SELF_RELATIVE;
        control.set(Control::RM_CONTROL_VALID, false);
        if self.sacl.is_some() {
            control |= Control::SACL_PRESENT;
        }
        if self.dacl.is_some() {
            control |= Control::DACL_PRESENT;
        }
        out.extend_from_slice(&[1, 0]);
        out.extend_from_slice(&control.bits().to_le_bytes());
        out.extend_from_slice(&[0; 16]);
        let mut offsets = [0_u32; 4];
        let here = |out: &Vec<u8>| {
            u32::try_from(out.len() - start).expect("two SIDs and two ACLs are below 200 KiB")
        };
        for (sid, offset) in [(&self.owner, 0), (&self.group, 1)] {
            if let Some(sid) = sid {
                offsets[offset] = here(out);
                sid.encode(out);
            }
        }
        for (acl, offset) in [(&self.sacl, 2), (&self.dacl, 3)] {
            if let Some(acl) = acl {
                offsets[offset] = here(out);
                acl.encode(out);
            }
        }
        for (index, offset) in offsets.into_iter().enumerate() {
            let at = start + 4 + 4 * index;
            out[at..at + 4].copy_from_slice(&offset.to_le_bytes());
        }
    }

    /// Returns the packet form, self-relative.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.encoded_len());
        self.encode(&mut bytes);
        bytes
    }

    /// Reads the packet form.
    ///
    /// `None` if its revision is not 1, if it is not self-relative, if an offset points into the
    /// header or beyond the end, or if a part is malformed. An ACL is left out if its bit in
    /// Control is not set, even if it has an offset.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        let (revision, _sbz1) = (reader.u8()?, reader.u8()?);
        let control = Control::from_bits_retain(reader.u16()?);
        if revision != 1 || !control.contains(Control::SELF_RELATIVE) {
            return None;
        }
        let mut part = || -> Option<Option<&[u8]>> {
            match reader.len32()? {
                0 => Some(None),
                offset if offset < Self::HEADER_LEN => None,
                offset => bytes.get(offset..).map(Some),
            }
        };
        let (owner, group, sacl, dacl) = (part()?, part()?, part()?, part()?);
        let sid = |part: Option<&[u8]>| part.map_or(Some(None), |b| Sid::decode(b).map(Some));
        let acl = |part: Option<&[u8]>, present: Control| match part {
            Some(bytes) if control.contains(present) => Acl::decode(bytes).map(Some),
            _ => Some(None),
        };
        Some(Self {
            control,
            owner: sid(owner)?,
            group: sid(group)?,
            sacl: acl(sacl, Control::SACL_PRESENT)?,
            dacl: acl(dacl, Control::DACL_PRESENT)?,
        })
    }

    /// The parts that `information` selects, for the response to a query.
    #[must_use]
    pub fn select(&self, information: SecurityInformation) -> Self {
        let all = information.contains(SecurityInformation::BACKUP);
        let wants = |part| all || information.contains(part);
        let mut selected = Self { control: Control::SELF_RELATIVE, ..Self::default() };
        if wants(SecurityInformation::OWNER) {
            selected.owner.clone_from(&self.owner);
            selected.control |= self.control & Control::OWNER_DEFAULTED;
        }
        if wants(SecurityInformation::GROUP) {
            selected.group.clone_from(&self.group);
            selected.control |= self.control & Control::GROUP_DEFAULTED;
        }
        if wants(SecurityInformation::DACL) {
            selected.dacl.clone_from(&self.dacl);
            selected.control |= self.control & Control::OF_DACL;
        }
        if information.touches_sacl() {
            selected.sacl = self.sacl.as_ref().map(|acl| Acl {
                revision: acl.revision,
                aces: acl.aces.iter().filter(|ace| wants(part_of(ace))).cloned().collect(),
            });
            selected.control |= self.control & Control::OF_SACL;
        }
        selected
    }

    /// Replaces the parts that `information` selects by those of `new`, for a set. Entries of the
    /// SACL are replaced by kind: setting the label keeps the audit entries.
    pub fn replace(&mut self, information: SecurityInformation, new: Self) {
        let all = information.contains(SecurityInformation::BACKUP);
        let wants = |part| all || information.contains(part);
        if wants(SecurityInformation::OWNER) {
            self.owner = new.owner;
            self.take_control(Control::OWNER_DEFAULTED, new.control);
        }
        if wants(SecurityInformation::GROUP) {
            self.group = new.group;
            self.take_control(Control::GROUP_DEFAULTED, new.control);
        }
        if wants(SecurityInformation::DACL) {
            self.dacl = new.dacl;
            self.take_control(Control::OF_DACL, new.control);
        }
        if information.touches_sacl() {
            let kept = self.sacl.take().into_iter().flat_map(|acl| acl.aces);
            let mut aces: Vec<Ace> = kept.filter(|ace| !wants(part_of(ace))).collect();
            let revision = new.sacl.as_ref().map_or(Acl::REVISION, |acl| acl.revision);
            let given = new.sacl.is_some();
            let added = new.sacl.into_iter().flat_map(|acl| acl.aces);
            aces.extend(added.filter(|ace| wants(part_of(ace))));
            self.sacl = (given || !aces.is_empty()).then_some(Acl { revision, aces });
            self.take_control(Control::OF_SACL, new.control);
        }
    }

    fn take_control(&mut self, bits: Control, new: Control) {
        self.control = self.control.difference(bits) | (new & bits);
    }
}

/// The bit that selects an entry of a SACL.
fn part_of(ace: &Ace) -> SecurityInformation {
    match ace.ace_type {
        AceType::SYSTEM_MANDATORY_LABEL => SecurityInformation::LABEL,
        AceType::SYSTEM_RESOURCE_ATTRIBUTE => SecurityInformation::ATTRIBUTE,
        AceType::SYSTEM_SCOPED_POLICY_ID => SecurityInformation::SCOPE,
        AceType::SYSTEM_PROCESS_TRUST_LABEL => SecurityInformation::PROCESS_TRUST_LABEL,
        AceType::SYSTEM_ACCESS_FILTER => SecurityInformation::ACCESS_FILTER,
        _ => SecurityInformation::SACL,
    }
}

#[cfg(test)]
mod tests;
