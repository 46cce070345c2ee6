use super::{LockElement, LockFlags, LockRequest, LockResponse, Locks};
use crate::check::{message, round_trip};
use crate::error::DecodeError;
use crate::file_id::FileId;
use crate::message::Decode;

const ELEMENTS: [LockElement; 2] = [
    LockElement { offset: 0x0102, length: 3, flags: LockFlags::EXCLUSIVE_LOCK },
    LockElement { offset: u64::MAX, length: u64::MAX, flags: LockFlags::UNLOCK },
];

const REQUEST: LockRequest<'_> = LockRequest {
    lock_sequence: 0x0000_0405,
    file_id: FileId { persistent: 1, volatile: 2 },
    locks: Locks::new(&ELEMENTS),
};

#[test]
fn bodies_round_trip() {
    round_trip!(LockRequest<'_>, REQUEST, LockRequest::default());
    round_trip!(LockResponse, LockResponse);
}

#[test]
fn the_bytes_of_a_request() {
    let one = LockRequest { locks: Locks::new(&ELEMENTS[..1]), ..REQUEST };
    let want = [
        &[0x30, 0, 1, 0, 5, 4, 0, 0][..],
        &[1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0],
        &[2, 1, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0],
    ];
    assert_eq!(message(&one)[64..], want.concat());
}

#[test]
fn the_sequence_is_a_number_of_4_bits_and_an_index_of_28() {
    assert_eq!(REQUEST.lock_sequence_number(), 0x5);
    assert_eq!(REQUEST.lock_sequence_index(), 0x40);
}

#[test]
fn ranges_that_do_not_fit_are_an_error() {
    let mut bytes = message(&REQUEST);
    bytes[64 + 2] = 3;
    let want = DecodeError::Offset { offset: 88, length: 72, have: 88 + 48 };
    assert_eq!(LockRequest::decode(&bytes), Err(want));
}
