//! SMB2 LOGOFF ends a session: [MS-SMB2] 2.2.7, 2.2.8.

use crate::message::empty_bodies;

empty_bodies! {
    /// The request: [MS-SMB2] 2.2.7.
    LogoffRequest;
    /// The response: [MS-SMB2] 2.2.8.
    LogoffResponse;
}

#[cfg(test)]
mod tests {
    use super::{LogoffRequest, LogoffResponse};
    use crate::check::{message, round_trip};

    #[test]
    fn bodies_round_trip() {
        round_trip!(LogoffRequest, LogoffRequest);
        round_trip!(LogoffResponse, LogoffResponse);
        assert_eq!(message(&LogoffRequest)[64..], [4, 0, 0, 0]);
    }
}
