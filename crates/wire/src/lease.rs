//! Leases: [MS-SMB2] 2.2.13.2.8, 2.2.23.2.

use std::fmt;

/// Key of a lease, chosen by the client.
#[derive(Clone, Copy, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct LeaseKey(pub [u8; 16]);

impl LeaseKey {
    /// The key of zeros: no parent lease in ParentLeaseKey.
    pub const ZERO: Self = Self([0; 16]);
}

impl fmt::Debug for LeaseKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

bitflags::bitflags! {
    /// Caching that a lease permits.
    #[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
    pub struct LeaseState: u32 {
        /// Cache data that was read.
        const READ_CACHING = 0x0000_0001;
        /// Keep the file open after the application closed it.
        const HANDLE_CACHING = 0x0000_0002;
        /// Cache data to be written.
        const WRITE_CACHING = 0x0000_0004;

        const _ = !0;
    }
}

bitflags::bitflags! {
    /// Flags of the lease create contexts: [MS-SMB2] 2.2.13.2.10, 2.2.14.2.11.
    #[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
    pub struct LeaseFlags: u32 {
        /// In a response: a break of the lease is in progress.
        const BREAK_IN_PROGRESS = 0x0000_0002;
        /// ParentLeaseKey has a value.
        const PARENT_LEASE_KEY_SET = 0x0000_0004;

        const _ = !0;
    }
}
