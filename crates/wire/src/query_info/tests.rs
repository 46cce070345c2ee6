use super::{InfoType, QueryInfoFlags, QueryInfoRequest, QueryInfoResponse};
use crate::check::{message, round_trip};
use crate::file_id::FileId;

const REQUEST: QueryInfoRequest<'_> = QueryInfoRequest {
    info_type: InfoType::SECURITY,
    file_info_class: 0x12,
    output_buffer_length: 0x0304,
    additional_information: 0x0506,
    flags: QueryInfoFlags::RESTART_SCAN,
    file_id: FileId { persistent: 1, volatile: 2 },
    input_buffer: &[7; 5],
};

#[test]
fn bodies_round_trip() {
    round_trip!(QueryInfoRequest<'_>, REQUEST, QueryInfoRequest::default());
    round_trip!(QueryInfoResponse<'_>, QueryInfoResponse { output_buffer: &[7; 33] });
}

#[test]
fn the_bytes_of_a_request() {
    let want = [
        &[0x29, 0, 3, 0x12, 4, 3, 0, 0, 0x68, 0, 0, 0, 5, 0, 0, 0][..],
        &[6, 5, 0, 0, 1, 0, 0, 0],
        &[1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0],
        &[7; 5],
    ];
    assert_eq!(message(&REQUEST)[64..], want.concat());
}
