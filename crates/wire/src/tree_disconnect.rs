//! SMB2 TREE_DISCONNECT ends a tree connect: [MS-SMB2] 2.2.11, 2.2.12.

use crate::message::empty_bodies;

empty_bodies! {
    /// The request: [MS-SMB2] 2.2.11.
    TreeDisconnectRequest;
    /// The response: [MS-SMB2] 2.2.12.
    TreeDisconnectResponse;
}
