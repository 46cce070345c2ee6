//! ACE: [MS-DTYP] 2.4.4.

use crate::reader::Reader;
use crate::{AccessMask, Sid};
use std::fmt;

/// The AceType of an ACE_HEADER: [MS-DTYP] 2.4.4.1.
#[derive(Clone, Copy, Eq, Hash, PartialEq)]
pub struct AceType(pub u8);

macro_rules! ace_types {
    ($($(#[doc = $doc:literal])* $name:ident = $code:literal;)*) => {
        impl AceType {
            $($(#[doc = $doc])* pub const $name: Self = Self($code);)*
        }

        impl fmt::Debug for AceType {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match *self {
                    $(Self::$name => f.write_str(stringify!($name)),)*
                    Self(code) => write!(f, "AceType({code:#04x})"),
                }
            }
        }
    };
}

ace_types! {
    /// Grants.
    ACCESS_ALLOWED = 0x00;
    /// Denies.
    ACCESS_DENIED = 0x01;
    /// Audits.
    SYSTEM_AUDIT = 0x02;
    /// Grants rights to an object or property of a directory service.
    ACCESS_ALLOWED_OBJECT = 0x05;
    /// Denies rights to an object or property of a directory service.
    ACCESS_DENIED_OBJECT = 0x06;
    /// Audits an object or property of a directory service.
    SYSTEM_AUDIT_OBJECT = 0x07;
    /// Grants under a condition.
    ACCESS_ALLOWED_CALLBACK = 0x09;
    /// Denies under a condition.
    ACCESS_DENIED_CALLBACK = 0x0A;
    /// Grants on an object under a condition.
    ACCESS_ALLOWED_CALLBACK_OBJECT = 0x0B;
    /// Denies on an object under a condition.
    ACCESS_DENIED_CALLBACK_OBJECT = 0x0C;
    /// Audits under a condition.
    SYSTEM_AUDIT_CALLBACK = 0x0D;
    /// Audits an object under a condition.
    SYSTEM_AUDIT_CALLBACK_OBJECT = 0x0F;
    /// The integrity label.
    SYSTEM_MANDATORY_LABEL = 0x11;
    /// Resource attributes.
    SYSTEM_RESOURCE_ATTRIBUTE = 0x12;
    /// A central access policy.
    SYSTEM_SCOPED_POLICY_ID = 0x13;
    /// A process trust label.
    SYSTEM_PROCESS_TRUST_LABEL = 0x14;
    /// An access filter.
    SYSTEM_ACCESS_FILTER = 0x15;
}

impl AceType {
    /// True if a mask, a SID and perhaps more data follow the header.
    fn has_sid(self) -> bool {
        matches!(
            self,
            Self::ACCESS_ALLOWED
                | Self::ACCESS_DENIED
                | Self::SYSTEM_AUDIT
                | Self::ACCESS_ALLOWED_CALLBACK
                | Self::ACCESS_DENIED_CALLBACK
                | Self::SYSTEM_AUDIT_CALLBACK
                | Self::SYSTEM_MANDATORY_LABEL
                | Self::SYSTEM_RESOURCE_ATTRIBUTE
                | Self::SYSTEM_SCOPED_POLICY_ID
        )
    }
}

bitflags::bitflags! {
    /// The AceFlags of an ACE_HEADER: [MS-DTYP] 2.4.4.1.
    #[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
    pub struct AceFlags: u8 {
        /// Files created in this directory inherit the entry.
        const OBJECT_INHERIT = 0x01;
        /// Directories created in this directory inherit the entry.
        const CONTAINER_INHERIT = 0x02;
        /// Objects that inherit the entry do not pass it on.
        const NO_PROPAGATE_INHERIT = 0x04;
        /// The entry has no effect on the directory itself.
        const INHERIT_ONLY = 0x08;
        /// The entry was inherited.
        const INHERITED = 0x10;
        /// Granted accesses are audited.
        const SUCCESSFUL_ACCESS = 0x40;
        /// Denied accesses are audited.
        const FAILED_ACCESS = 0x80;

        // Other bits survive a round trip.
        const _ = !0;
    }
}

/// One entry of an [`Acl`](crate::Acl).
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Ace {
    /// Effect of the entry.
    pub ace_type: AceType,
    /// Inheritance and auditing of the entry.
    pub flags: AceFlags,
    /// Trustee and rights of the entry.
    pub body: AceBody,
}

/// The bytes behind the header of an ACE.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum AceBody {
    /// The bytes of a type that this crate does not interpret.
    Opaque(Vec<u8>),
    /// Mask and SID, as most types have.
    Sid {
        /// Rights that are granted, denied or audited.
        mask: AccessMask,
        /// User or group with these rights.
        sid: Sid,
        /// A condition or attribute; empty in simple entries.
        application_data: Vec<u8>,
    },
}

impl Ace {
    /// An entry that grants `mask` to `sid`.
    #[must_use]
    pub fn allow(sid: Sid, mask: AccessMask, flags: AceFlags) -> Self {
        Self::simple(AceType::ACCESS_ALLOWED, sid, mask, flags)
    }

    /// An entry that denies `mask` to `sid`.
    #[must_use]
    pub fn deny(sid: Sid, mask: AccessMask, flags: AceFlags) -> Self {
        Self::simple(AceType::ACCESS_DENIED, sid, mask, flags)
    }

    /// An entry of a type that has a mask and a SID.
    #[must_use]
    pub fn simple(ace_type: AceType, sid: Sid, mask: AccessMask, flags: AceFlags) -> Self {
        Self { ace_type, flags, body: AceBody::Sid { mask, sid, application_data: Vec::new() } }
    }

    /// Rights of the entry; empty for an opaque one.
    #[must_use]
    pub fn mask(&self) -> AccessMask {
        match &self.body {
            AceBody::Sid { mask, .. } => *mask,
            AceBody::Opaque(_) => AccessMask::empty(),
        }
    }

    /// Replaces generic bits by file rights.
    pub fn map_generic(&mut self) {
        if let AceBody::Sid { mask, .. } = &mut self.body {
            *mask = mask.map_generic();
        }
    }

    /// Trustee of the entry; `None` for an opaque one.
    #[must_use]
    pub fn sid(&self) -> Option<&Sid> {
        match &self.body {
            AceBody::Sid { sid, .. } => Some(sid),
            AceBody::Opaque(_) => None,
        }
    }

    /// Length of the packet form in bytes, a multiple of 4.
    #[must_use]
    pub fn encoded_len(&self) -> usize {
        let body = match &self.body {
            AceBody::Sid { sid, application_data, .. } => {
                4 + sid.encoded_len() + application_data.len()
            }
            AceBody::Opaque(bytes) => bytes.len(),
        };
        (4 + body).next_multiple_of(4)
    }

    /// Appends the packet form.
    ///
    /// # Panics
    /// If it is longer than 64 KiB, the limit of AceSize.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let len = self.encoded_len();
        out.extend_from_slice(&[self.ace_type.0, self.flags.bits()]);
        out.extend_from_slice(
            &u16::try_from(len).expect("an ACE has at most 64 KiB").to_le_bytes(),
        );
        match &self.body {
            AceBody::Sid { mask, sid, application_data } => {
                out.extend_from_slice(&mask.bits().to_le_bytes());
                sid.encode(out);
                out.extend_from_slice(application_data);
            }
            AceBody::Opaque(bytes) => out.extend_from_slice(bytes),
        }
        out.resize(start + len, 0);
    }

    /// Reads one entry from the front of `reader`; `None` if it is incomplete, or its size is not a
    /// multiple of 4 or too small for its type.
    pub(crate) fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let (ace_type, flags) = (AceType(reader.u8()?), AceFlags::from_bits_retain(reader.u8()?));
        let size = usize::from(reader.u16()?);
        if size % 4 != 0 {
            return None;
        }
        let body = reader.bytes(size.checked_sub(4)?)?;
        let body = if ace_type.has_sid() {
            let (mask, rest) = body.split_first_chunk::<4>()?;
            let sid = Sid::decode(rest)?;
            AceBody::Sid {
                mask: AccessMask::from_bits_retain(u32::from_le_bytes(*mask)),
                application_data: rest[sid.encoded_len()..].to_vec(),
                sid,
            }
        } else {
            AceBody::Opaque(body.to_vec())
        };
        Some(Self { ace_type, flags, body })
    }
}
