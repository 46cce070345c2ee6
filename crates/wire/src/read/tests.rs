use super::{
    Channel, READ_DATA_OFFSET, ReadFlags, ReadRequest, ReadResponse, ReadResponseFlags,
    ReadResponseHead,
};
use crate::check::{message, round_trip};
use crate::error::DecodeError;
use crate::file_id::FileId;
use crate::message::Decode;

const REQUEST: ReadRequest<'_> = ReadRequest {
    padding: 0x50,
    flags: ReadFlags::UNBUFFERED,
    length: 0x1_0000,
    offset: 0x0102_0304_0506_0708,
    file_id: FileId { persistent: 1, volatile: 2 },
    minimum_count: 3,
    channel: Channel::NONE,
    remaining_bytes: 4,
    read_channel_info: &[],
};

#[test]
fn requests_round_trip() {
    let rdma = ReadRequest { channel: Channel::RDMA_V1, read_channel_info: &[5; 16], ..REQUEST };
    round_trip!(ReadRequest<'_>, REQUEST, rdma, ReadRequest::default());
}

#[test]
fn the_bytes_of_a_request() {
    let want = [
        &[0x31, 0, 0x50, 1, 0, 0, 1, 0, 8, 7, 6, 5, 4, 3, 2, 1][..],
        &[1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0],
        &[3, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0],
        &[0],
    ];
    assert_eq!(message(&REQUEST)[64..], want.concat());
}

/// Some clients leave out the one byte of buffer, which has no content.
#[test]
fn a_request_without_a_buffer_is_read() {
    let bytes = message(&REQUEST);
    assert_eq!(ReadRequest::decode(&bytes[..64 + 48]), Ok(REQUEST));
    let short = DecodeError::Short { need: 64 + 48, have: 64 + 47 };
    assert_eq!(ReadRequest::decode(&bytes[..64 + 47]), Err(short));
}

#[test]
fn responses_round_trip_with_and_without_data() {
    let flags = ReadResponseFlags::RDMA_TRANSFORM;
    let response = ReadResponse { data: &[7; 100], data_remaining: 1, flags };
    round_trip!(ReadResponse<'_>, response, ReadResponse::default());
}

#[test]
fn the_data_follows_the_head() {
    let mut bytes = message(&ReadResponseHead { data_length: 3, ..Default::default() });
    assert_eq!(bytes.len(), usize::from(READ_DATA_OFFSET));
    assert_eq!(bytes[64..], [0x11, 0, 0x50, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    bytes.extend([1, 2, 3]);
    assert_eq!(ReadResponse::decode(&bytes).unwrap().data, [1, 2, 3]);
}

#[test]
fn data_that_is_said_to_be_longer_than_the_message_is_an_error() {
    let bytes = message(&ReadResponseHead { data_length: u32::MAX, ..Default::default() });
    let length = usize::try_from(u32::MAX).unwrap();
    let want = DecodeError::Offset { offset: 0x50, length, have: 0x50 };
    assert_eq!(ReadResponse::decode(&bytes), Err(want));
}

#[test]
fn a_padded_response_has_the_offset_of_its_data() {
    let head = ReadResponseHead { data_length: 3, padding: 8, ..Default::default() };
    let mut bytes = message(&head);
    bytes.extend_from_slice(b"abc");
    let response = ReadResponse::decode(&bytes).expect("it is whole");
    assert_eq!(response.data, b"abc");
}
