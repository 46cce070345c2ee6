//! SMB2 ECHO tests the connection: [MS-SMB2] 2.2.28, 2.2.29.

use crate::message::empty_bodies;

empty_bodies! {
    /// The request: [MS-SMB2] 2.2.28.
    EchoRequest;
    /// The response: [MS-SMB2] 2.2.29.
    EchoResponse;
}

#[cfg(test)]
mod tests {
    use super::{EchoRequest, EchoResponse};
    use crate::check::{message, round_trip};

    #[test]
    fn bodies_round_trip() {
        round_trip!(EchoRequest, EchoRequest);
        round_trip!(EchoResponse, EchoResponse);
        assert_eq!(message(&EchoRequest)[64..], [4, 0, 0, 0]);
    }
}
