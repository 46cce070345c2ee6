use dtyp::{FileTime, Guid};

use super::{Capabilities, NegotiateRequest, NegotiateResponse, SecurityMode};
use crate::check::{message, round_trip};
use crate::codes::Codes;
use crate::dialect::Dialect;
use crate::error::DecodeError;
use crate::message::Decode;
use crate::negotiate_context::{
    CipherId, EncryptionCapabilities, HashAlgorithmId, NegotiateContextList,
    PreauthIntegrityCapabilities,
};

const GUID: Guid = Guid([7; 16]);

fn contexts() -> NegotiateContextList {
    let mut list = NegotiateContextList::new();
    list.push(&PreauthIntegrityCapabilities {
        hash_algorithms: Codes::new(&[HashAlgorithmId::SHA_512]),
        salt: &[0xAA; 32],
    });
    let ciphers = Codes::new(&[CipherId::AES_128_GCM, CipherId::AES_128_CCM]);
    list.push(&EncryptionCapabilities { ciphers });
    list
}

#[test]
fn requests_round_trip() {
    let old = [Dialect::SMB_2_0_2, Dialect::SMB_2_1, Dialect::SMB_3_0_2];
    let new = [Dialect::SMB_2_0_2, Dialect::SMB_3_1_1];
    let list = contexts();
    let request = NegotiateRequest {
        security_mode: SecurityMode::SIGNING_ENABLED,
        capabilities: Capabilities::LEASING | Capabilities::ENCRYPTION,
        client_guid: GUID,
        dialects: Codes::new(&old),
        ..NegotiateRequest::default()
    };
    let newer = NegotiateRequest {
        dialects: Codes::new(&new),
        negotiate_contexts: list.contexts(),
        ..request
    };
    round_trip!(NegotiateRequest<'_>, request, newer, NegotiateRequest::default());
}

#[test]
fn responses_round_trip() {
    let list = contexts();
    let response = NegotiateResponse {
        security_mode: SecurityMode::SIGNING_REQUIRED,
        dialect_revision: Dialect::SMB_3_0,
        server_guid: GUID,
        capabilities: Capabilities::LARGE_MTU,
        max_transact_size: 0x10_0000,
        max_read_size: 0x20_0000,
        max_write_size: 0x30_0000,
        system_time: FileTime(0x01D0_0000_0000_0001),
        server_start_time: FileTime(2),
        security_buffer: &[0x60, 1, 2],
        ..NegotiateResponse::default()
    };
    let newer = NegotiateResponse {
        dialect_revision: Dialect::SMB_3_1_1,
        negotiate_contexts: list.contexts(),
        ..response
    };
    round_trip!(NegotiateResponse<'_>, response, newer);
}

/// The request of [MS-SMB2] 4.3: signing enabled, dialect 2.0.2 alone, all other fields zero.
#[test]
fn the_request_of_the_example() {
    let request = NegotiateRequest {
        security_mode: SecurityMode::SIGNING_ENABLED,
        dialects: Codes::new(&[Dialect::SMB_2_0_2]),
        ..NegotiateRequest::default()
    };
    let mut want = vec![0x24, 0, 1, 0, 1, 0, 0, 0];
    want.extend([0; 28]);
    want.extend([0x02, 0x02]);
    assert_eq!(message(&request)[64..], want);
}

#[test]
fn contexts_begin_8_byte_aligned_behind_dialects_and_security_buffer() {
    let list = contexts();
    let request = NegotiateRequest {
        dialects: Codes::new(&[Dialect::SMB_3_1_1]),
        negotiate_contexts: list.contexts(),
        ..NegotiateRequest::default()
    };
    let bytes = message(&request);
    assert_eq!(bytes[64 + 28..64 + 36], [0x68, 0, 0, 0, 2, 0, 0, 0]);
    assert_eq!(bytes[0x68..0x70], [1, 0, 38, 0, 0, 0, 0, 0]);

    let response = NegotiateResponse {
        dialect_revision: Dialect::SMB_3_1_1,
        security_buffer: &[1; 9],
        negotiate_contexts: list.contexts(),
        ..NegotiateResponse::default()
    };
    let bytes = message(&response);
    assert_eq!(bytes[64 + 56..64 + 64], [0x80, 0, 9, 0, 0x90, 0, 0, 0]);
    assert_eq!(bytes[0x90..0x94], [1, 0, 38, 0]);
}

/// Without 3.1.1 the last eight bytes are a time, with any value.
#[test]
fn a_start_time_is_not_a_context_list() {
    let request =
        NegotiateRequest { dialects: Codes::new(&[Dialect::SMB_2_1]), ..Default::default() };
    let mut bytes = message(&request);
    bytes[64 + 28..64 + 36].fill(0xFF);
    assert_eq!(NegotiateRequest::decode(&bytes), Ok(request));
}

#[test]
fn contexts_that_leave_the_message_are_errors() {
    let list = contexts();
    let request = NegotiateRequest {
        dialects: Codes::new(&[Dialect::SMB_3_1_1]),
        negotiate_contexts: list.contexts(),
        ..NegotiateRequest::default()
    };
    let bytes = message(&request);
    let with_offset = |offset: u32| {
        let mut bytes = bytes.clone();
        bytes[64 + 28..64 + 32].copy_from_slice(&offset.to_le_bytes());
        NegotiateRequest::decode(&bytes).map(|_| ())
    };
    let have = bytes.len();
    assert_eq!(with_offset(0x68), Ok(()));
    let odd = DecodeError::BadValue { field: "NegotiateContextOffset", value: 0x69 };
    assert_eq!(with_offset(0x69), Err(odd));
    let in_header = DecodeError::Offset { offset: 0x38, length: 8, have };
    assert_eq!(with_offset(0x38), Err(in_header));
    let beyond = DecodeError::Offset { offset: 0xFFFF_FFF8, length: 8, have };
    assert_eq!(with_offset(0xFFFF_FFF8), Err(beyond));
    let mut one_more = bytes.clone();
    one_more[64 + 32] = 3;
    assert_eq!(NegotiateRequest::decode(&one_more), Err(DecodeError::Short { need: 8, have: 0 }),);
}
