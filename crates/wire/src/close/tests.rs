use dtyp::{FileAttributes, FileTime};

use super::{CloseFlags, CloseRequest, CloseResponse};
use crate::check::{message, round_trip};
use crate::file_id::FileId;

#[test]
fn bodies_round_trip() {
    let file_id = FileId { persistent: 1, volatile: 2 };
    round_trip!(CloseRequest, CloseRequest { flags: CloseFlags::POSTQUERY_ATTRIB, file_id });
    let response = CloseResponse {
        flags: CloseFlags::POSTQUERY_ATTRIB,
        creation_time: FileTime(1),
        last_access_time: FileTime(2),
        last_write_time: FileTime(3),
        change_time: FileTime(4),
        allocation_size: 5,
        end_of_file: 6,
        file_attributes: FileAttributes::HIDDEN,
    };
    round_trip!(CloseResponse, response, CloseResponse::default());
}

#[test]
fn the_bytes_of_a_request() {
    let request = CloseRequest { flags: CloseFlags::POSTQUERY_ATTRIB, file_id: FileId::ANY };
    let mut want = vec![0x18, 0, 1, 0, 0, 0, 0, 0];
    want.extend([0xFF; 16]);
    assert_eq!(message(&request)[64..], want);
}

#[test]
fn a_response_is_as_long_as_its_structure_size() {
    assert_eq!(message(&CloseResponse::default()).len(), 64 + 60);
}
