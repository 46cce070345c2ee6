//! Dialect revisions: [MS-SMB2] 2.2.3, 2.2.4.

use crate::codes::{Codes, codes};

codes! {
    /// A revision of the protocol. Later revisions are greater.
    Dialect(u16) {
        SMB_2_0_2 = 0x0202,
        SMB_2_1 = 0x0210,
        /// The response to an SMB1 negotiate that offered "SMB 2.???"; the client negotiates again.
        SMB_2_WILDCARD = 0x02FF,
        SMB_3_0 = 0x0300,
        SMB_3_0_2 = 0x0302,
        SMB_3_1_1 = 0x0311,
    }
}

/// The dialects of a NEGOTIATE request.
pub type Dialects<'a> = Codes<'a, Dialect>;
