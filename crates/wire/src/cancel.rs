//! SMB2 CANCEL gives up a request that was sent before: [MS-SMB2] 2.2.30. It has no response.

use crate::message::empty_bodies;

empty_bodies! {
    /// The request: [MS-SMB2] 2.2.30. Which request is meant stands in the header.
    CancelRequest;
}
