use super::{
    ChangeNotifyFlags, ChangeNotifyRequest, ChangeNotifyResponse, CompletionFilter, NotifyAction,
    NotifyInformation, NotifyInformationList,
};
use crate::check::{hostile, message, round_trip};
use crate::error::DecodeError;
use crate::file_id::FileId;

const REQUEST: ChangeNotifyRequest = ChangeNotifyRequest {
    flags: ChangeNotifyFlags::WATCH_TREE,
    output_buffer_length: 0x1000,
    file_id: FileId { persistent: 1, volatile: 2 },
    completion_filter: CompletionFilter::FILE_NAME.union(CompletionFilter::SECURITY),
};

#[test]
fn bodies_round_trip() {
    round_trip!(ChangeNotifyRequest, REQUEST);
    let response = ChangeNotifyResponse { output_buffer: &[7; 12] };
    round_trip!(ChangeNotifyResponse<'_>, response, ChangeNotifyResponse::default());
}

#[test]
fn the_bytes_of_a_request() {
    let want = [
        &[0x20, 0, 1, 0, 0, 0x10, 0, 0][..],
        &[1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0],
        &[1, 1, 0, 0, 0, 0, 0, 0],
    ];
    assert_eq!(message(&REQUEST)[64..], want.concat());
}

const OLD: NotifyInformation<'_> =
    NotifyInformation { action: NotifyAction::RENAMED_OLD_NAME, file_name: b"a\0" };
const NEW: NotifyInformation<'_> =
    NotifyInformation { action: NotifyAction::RENAMED_NEW_NAME, file_name: b"b\0c\0" };

#[test]
fn changes_are_a_chain_of_4_byte_aligned_entries() {
    let mut list = NotifyInformationList::new();
    assert!(list.push(&OLD, 0x1000));
    assert!(list.push(&NEW, 0x1000));
    let want = [
        &[0x10, 0, 0, 0, 4, 0, 0, 0, 2, 0, 0, 0][..],
        b"a\0\0\0",
        &[0, 0, 0, 0, 5, 0, 0, 0, 4, 0, 0, 0],
        b"b\0c\0",
    ];
    assert_eq!(list.as_bytes(), want.concat());
    let read: Vec<_> = NotifyInformation::iter(list.as_bytes()).collect();
    assert_eq!(read, [Ok(OLD), Ok(NEW)]);
    hostile(list.as_bytes(), |bytes| {
        assert!(NotifyInformation::iter(bytes).count() <= bytes.len());
    });
}

/// The client's buffer is the limit; a change that does not fit leaves the list unchanged.
#[test]
fn a_list_stays_within_the_buffer_of_the_client() {
    let mut list = NotifyInformationList::new();
    assert!(list.push(&OLD, 14));
    let before = list.as_bytes().to_vec();
    assert!(!list.push(&NEW, 31));
    assert_eq!(list.as_bytes(), before);
    assert!(list.push(&NEW, 32));
    assert_eq!(list.as_bytes().len(), 32);
}

#[test]
fn an_entry_that_points_into_itself_is_an_error() {
    let bytes = [0x0D, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, b'a', 0];
    let want = DecodeError::BadValue { field: "NextEntryOffset", value: 0x0D };
    assert_eq!(NotifyInformation::iter(&bytes).collect::<Vec<_>>(), [Err(want)]);
}
