//! SMB2 LOGOFF ends a session: [MS-SMB2] 2.2.7, 2.2.8.

use crate::message::empty_bodies;

empty_bodies! {
    /// The request: [MS-SMB2] 2.2.7.
    LogoffRequest;
    /// The response: [MS-SMB2] 2.2.8.
    LogoffResponse;
}
