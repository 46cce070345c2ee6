//! OplockLevel: [MS-SMB2] 2.2.13, 2.2.14, 2.2.23.1.

use crate::codes::codes;

codes! {
    /// The oplock that is requested, granted, or left after a break.
    OplockLevel(u8) {
        NONE = 0x00,
        /// Level II: shared reading.
        II = 0x01,
        EXCLUSIVE = 0x08,
        BATCH = 0x09,
        /// A lease, described by a create context.
        LEASE = 0xFF,
    }
}
