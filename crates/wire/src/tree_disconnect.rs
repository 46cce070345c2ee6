//! SMB2 TREE_DISCONNECT ends a tree connect: [MS-SMB2] 2.2.11, 2.2.12.

use crate::message::empty_bodies;

empty_bodies! {
    /// The request: [MS-SMB2] 2.2.11.
    TreeDisconnectRequest;
    /// The response: [MS-SMB2] 2.2.12.
    TreeDisconnectResponse;
}

#[cfg(test)]
mod tests {
    use super::{TreeDisconnectRequest, TreeDisconnectResponse};
    use crate::check::{message, round_trip};

    #[test]
    fn bodies_round_trip() {
        round_trip!(TreeDisconnectRequest, TreeDisconnectRequest);
        round_trip!(TreeDisconnectResponse, TreeDisconnectResponse);
        assert_eq!(message(&TreeDisconnectRequest)[64..], [4, 0, 0, 0]);
    }
}
