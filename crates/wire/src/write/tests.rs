use super::{WriteFlags, WriteRequest, WriteResponse};
use crate::check::{message, round_trip};
use crate::error::DecodeError;
use crate::file_id::FileId;
use crate::message::Decode;
use crate::read::{Channel, ReadRequest};

const FILE_ID: FileId = FileId { persistent: 1, volatile: 2 };

#[test]
fn bodies_round_trip() {
    let request = WriteRequest {
        remaining_bytes: 9,
        flags: WriteFlags::WRITE_THROUGH,
        ..WriteRequest::new(FILE_ID, 0x1234, &[7; 50])
    };
    let rdma = WriteRequest {
        channel: Channel::RDMA_V1_INVALIDATE,
        write_channel_info: &[5; 16],
        ..WriteRequest::new(FILE_ID, 0, &[])
    };
    round_trip!(WriteRequest<'_>, request, rdma, WriteRequest::new(FILE_ID, 0, &[]));
    round_trip!(WriteResponse, WriteResponse { count: 50, remaining: 0 });
}

#[test]
fn the_bytes_of_a_request() {
    let want = [
        &[0x31, 0, 0x70, 0, 3, 0, 0, 0, 0x34, 0x12, 0, 0, 0, 0, 0, 0][..],
        &[1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0],
        &[0; 16],
        b"abc",
    ];
    assert_eq!(message(&WriteRequest::new(FILE_ID, 0x1234, b"abc"))[64..], want.concat());
}

#[test]
fn the_range_of_the_data_is_counted_from_the_header() {
    let bytes = message(&WriteRequest::new(FILE_ID, 0, b"abc"));
    let request = WriteRequest::decode(&bytes).unwrap();
    assert_eq!(request.data_range, 112..115);
    assert_eq!(request.data_offset, 112);
    assert_eq!(request.data(), b"abc");
    assert_eq!(&bytes[request.data_range], b"abc");
}

#[test]
fn data_outside_of_the_message_is_an_error() {
    let mut bytes = message(&WriteRequest::new(FILE_ID, 0, b"abc"));
    bytes[64 + 4] = 4;
    let want = DecodeError::Offset { offset: 112, length: 4, have: 115 };
    assert_eq!(WriteRequest::decode(&bytes), Err(want));
}

#[test]
fn data_may_follow_a_message_or_a_part_of_them() {
    let bytes = message(&WriteRequest::new(FILE_ID, 7, b"abcde"));
    for (front, in_front) in [(112, &b""[..]), (114, b"ab"), (117, b"abcde")] {
        let request = WriteRequest::decode_front(&bytes[..front], 117 - front).unwrap();
        assert_eq!((request.data(), request.behind, request.offset), (in_front, 117 - front, 7));
        assert_eq!(&bytes[request.data_range], in_front);
    }
}

#[test]
fn nothing_but_data_follows_a_message() {
    let bytes = message(&WriteRequest::new(FILE_ID, 0, b"abcde"));
    let front = |length: u8, behind| {
        let mut bytes = bytes[..112].to_vec();
        bytes[64 + 4] = length;
        WriteRequest::decode_front(&bytes, behind).map(|it| it.behind)
    };
    assert_eq!(front(5, 5), Ok(5));
    // Fewer bytes of data than follow the message, more, and none.
    for length in [4_u8, 6, 0] {
        let want = DecodeError::Offset { offset: 112, length: length.into(), have: 117 };
        assert_eq!(front(length, 5), Err(want));
    }
    // Padding between the fixed part and the data is refused.
    let mut padded = bytes[..112].to_vec();
    padded[64 + 2] = 120;
    let want = DecodeError::Offset { offset: 120, length: 5, have: 125 };
    assert_eq!(WriteRequest::decode_front(&padded, 13), Err(want));
    let want = DecodeError::Short { need: 117, have: 112 };
    assert_eq!(ReadRequest::decode_front(&bytes[..112], 5), Err(want), "a READ has no data");
}

#[test]
fn channel_information_without_a_channel_is_ignored() {
    let mut bytes = message(&WriteRequest::new(FILE_ID, 0, b"abc"));
    // Channel, RemainingBytes, WriteChannelInfoOffset and -Length.
    bytes[64 + 32..64 + 44].fill(0xA5);
    let request = WriteRequest::decode(&bytes).unwrap();
    assert_eq!((request.channel, request.write_channel_info), (Channel(0xA5A5_A5A5), &[][..]));
    bytes[64 + 32..64 + 36].copy_from_slice(&1_u32.to_le_bytes());
    assert!(WriteRequest::decode(&bytes).is_err(), "its information is not in the message");
}

#[test]
fn a_response_has_16_bytes() {
    let bytes = message(&WriteResponse { count: 0x0102, remaining: 0 });
    assert_eq!(bytes[64..], [0x11, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
}
