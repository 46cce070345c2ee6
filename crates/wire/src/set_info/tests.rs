use super::{SetInfoRequest, SetInfoResponse};
use crate::check::{message, round_trip};
use crate::file_id::FileId;
use crate::query_info::InfoType;

const REQUEST: SetInfoRequest<'_> = SetInfoRequest {
    info_type: InfoType::FILE,
    file_info_class: 0x14,
    additional_information: 0x0506,
    file_id: FileId { persistent: 1, volatile: 2 },
    buffer: &[7; 8],
};

#[test]
fn bodies_round_trip() {
    round_trip!(SetInfoRequest<'_>, REQUEST, SetInfoRequest::default());
    round_trip!(SetInfoResponse, SetInfoResponse);
}

#[test]
fn the_bytes_of_a_request() {
    let want = [
        &[0x21, 0, 1, 0x14, 8, 0, 0, 0, 0x60, 0, 0, 0, 6, 5, 0, 0][..],
        &[1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0],
        &[7; 8],
    ];
    assert_eq!(message(&REQUEST)[64..], want.concat());
}

#[test]
fn a_response_is_two_bytes() {
    assert_eq!(message(&SetInfoResponse)[64..], [2, 0]);
}
