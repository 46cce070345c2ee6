//! SECURITY_INFORMATION: [MS-DTYP] 2.4.7.

bitflags::bitflags! {
    /// Parts of a security descriptor that a request reads or changes.
    #[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
    pub struct SecurityInformation: u32 {
        /// The owner.
        const OWNER = 0x0000_0001;
        /// The primary group.
        const GROUP = 0x0000_0002;
        /// The DACL.
        const DACL = 0x0000_0004;
        /// The audit entries of the SACL.
        const SACL = 0x0000_0008;
        /// The integrity label in the SACL.
        const LABEL = 0x0000_0010;
        /// The resource attributes in the SACL.
        const ATTRIBUTE = 0x0000_0020;
        /// The central access policy in the SACL.
        const SCOPE = 0x0000_0040;
        /// The process trust label in the SACL.
        const PROCESS_TRUST_LABEL = 0x0000_0080;
        /// The access filter in the SACL.
        const ACCESS_FILTER = 0x0000_0100;
        /// All parts, for a backup.
        const BACKUP = 0x0001_0000;
        /// The SACL inherits from the parent from now on.
        const UNPROTECTED_SACL = 0x1000_0000;
        /// The DACL inherits from the parent from now on.
        const UNPROTECTED_DACL = 0x2000_0000;
        /// The SACL inherits no longer.
        const PROTECTED_SACL = 0x4000_0000;
        /// The DACL inherits no longer.
        const PROTECTED_DACL = 0x8000_0000;

        // A client may set any bit; unknown ones select no part.
        const _ = !0;
    }
}

impl SecurityInformation {
    /// The bits that select entries of the SACL.
    pub const IN_SACL: Self = Self::from_bits_retain(0x0001_01F8);

    /// True if one of the selected parts is in the SACL.
    #[must_use]
    pub fn touches_sacl(self) -> bool {
        self.intersects(Self::IN_SACL)
    }
}
