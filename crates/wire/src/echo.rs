//! SMB2 ECHO asks whether the server is there: [MS-SMB2] 2.2.28, 2.2.29.

use crate::message::empty_bodies;

empty_bodies! {
    /// The request: [MS-SMB2] 2.2.28.
    EchoRequest;
    /// The response: [MS-SMB2] 2.2.29.
    EchoResponse;
}
