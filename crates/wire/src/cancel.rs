//! SMB2 CANCEL withdraws an earlier request: [MS-SMB2] 2.2.30. It has no response.

use crate::message::empty_bodies;

empty_bodies! {
    /// The request: [MS-SMB2] 2.2.30. The header names the request to cancel.
    CancelRequest;
}

#[cfg(test)]
mod tests {
    use super::CancelRequest;
    use crate::check::{message, round_trip};
    use crate::error::DecodeError;
    use crate::message::Decode;

    #[test]
    fn the_body_round_trips() {
        round_trip!(CancelRequest, CancelRequest);
    }

    #[test]
    fn another_structure_size_is_an_error() {
        let mut bytes = message(&CancelRequest);
        bytes[64] = 5;
        let want = DecodeError::StructureSize { want: 4, got: 5 };
        assert_eq!(CancelRequest::decode(&bytes), Err(want));
    }
}
