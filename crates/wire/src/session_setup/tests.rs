use super::{SessionFlags, SessionSetupFlags, SessionSetupRequest, SessionSetupResponse};
use crate::check::{message, round_trip};
use crate::error::DecodeError;
use crate::message::Decode;
use crate::negotiate::{Capabilities, SecurityMode};

const REQUEST: SessionSetupRequest<'_> = SessionSetupRequest {
    flags: SessionSetupFlags::BINDING,
    security_mode: SecurityMode::SIGNING_ENABLED,
    capabilities: Capabilities::DFS,
    previous_session_id: 0x0102_0304_0506_0708,
    security_buffer: &[0x60, 0x48, 0x06],
};

#[test]
fn bodies_round_trip() {
    round_trip!(SessionSetupRequest<'_>, REQUEST, SessionSetupRequest::default());
    let response = SessionSetupResponse {
        session_flags: SessionFlags::IS_GUEST,
        security_buffer: &[0xA1, 2, 3],
    };
    round_trip!(SessionSetupResponse<'_>, response, SessionSetupResponse::default());
}

#[test]
fn the_bytes_of_a_request() {
    let want = [
        0x19, 0x00, 0x01, 0x01, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x58, 0x00, 0x03,
        0x00, 0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01, 0x60, 0x48, 0x06,
    ];
    assert_eq!(message(&REQUEST)[64..], want);
}

#[test]
fn a_security_buffer_outside_of_the_message_is_an_error() {
    let mut bytes = message(&REQUEST);
    bytes[64 + 14] = 4;
    let want = DecodeError::Offset { offset: 0x58, length: 4, have: 64 + 27 };
    assert_eq!(SessionSetupRequest::decode(&bytes), Err(want));
}

#[test]
fn an_empty_buffer_may_be_said_to_be_anywhere() {
    let mut bytes = message(&SessionSetupResponse::default());
    bytes[64 + 4..64 + 6].fill(0xFF);
    assert_eq!(SessionSetupResponse::decode(&bytes), Ok(SessionSetupResponse::default()));
}
