use dtyp::FileInformationClass;

use super::{QueryDirectoryFlags, QueryDirectoryRequest, QueryDirectoryResponse};
use crate::check::{message, round_trip};
use crate::error::DecodeError;
use crate::file_id::FileId;
use crate::message::Decode;

const REQUEST: QueryDirectoryRequest<'_> = QueryDirectoryRequest {
    file_information_class: FileInformationClass(0x25),
    flags: QueryDirectoryFlags::REOPEN,
    file_index: 0x0102,
    file_id: FileId { persistent: 1, volatile: 2 },
    output_buffer_length: 0x1_0000,
    file_name: b"*\0",
};

#[test]
fn bodies_round_trip() {
    let no_pattern = QueryDirectoryRequest { file_name: &[], ..REQUEST };
    round_trip!(QueryDirectoryRequest<'_>, REQUEST, no_pattern);
    let response = QueryDirectoryResponse { output_buffer: &[7; 33] };
    round_trip!(QueryDirectoryResponse<'_>, response, QueryDirectoryResponse::default());
}

#[test]
fn the_bytes_of_a_request() {
    let want = [
        &[0x21, 0, 0x25, 0x10, 2, 1, 0, 0][..],
        &[1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0],
        &[0x60, 0, 2, 0, 0, 0, 1, 0],
        b"*\0",
    ];
    assert_eq!(message(&REQUEST)[64..], want.concat());
}

#[test]
fn the_bytes_of_a_response() {
    let bytes = message(&QueryDirectoryResponse { output_buffer: &[7; 3] });
    assert_eq!(bytes[64..], [9, 0, 0x48, 0, 3, 0, 0, 0, 7, 7, 7]);
}

#[test]
fn a_buffer_that_does_not_fit_is_an_error() {
    let mut bytes = message(&QueryDirectoryResponse { output_buffer: &[7; 3] });
    bytes[64 + 4] = 4;
    let want = DecodeError::Offset { offset: 0x48, length: 4, have: 0x4B };
    assert_eq!(QueryDirectoryResponse::decode(&bytes), Err(want));
}
