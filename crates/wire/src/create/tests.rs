use dtyp::{AccessMask, FileAttributes, FileTime};

use super::{
    CreateAction, CreateDisposition, CreateOptions, CreateRequest, CreateResponse,
    CreateResponseFlags, ImpersonationLevel, ShareAccess,
};
use crate::check::{message, round_trip};
use crate::create_context::{CreateContextList, LeaseContext, TimewarpToken};
use crate::error::DecodeError;
use crate::file_id::FileId;
use crate::message::Decode;
use crate::oplock_level::OplockLevel;

const REQUEST: CreateRequest<'_> = CreateRequest {
    requested_oplock_level: OplockLevel::LEASE,
    impersonation_level: ImpersonationLevel::IMPERSONATION,
    desired_access: AccessMask::GENERIC_READ,
    file_attributes: FileAttributes::NORMAL,
    share_access: ShareAccess::READ,
    create_disposition: CreateDisposition::OPEN_IF,
    create_options: CreateOptions::NON_DIRECTORY_FILE,
    name: b"a\0.\0t\0",
    create_contexts: crate::create_context::CreateContexts::EMPTY,
};

fn contexts() -> CreateContextList {
    let mut list = CreateContextList::new();
    list.push(&LeaseContext::default());
    list.push(&TimewarpToken { timestamp: FileTime(5) });
    list
}

#[test]
fn requests_round_trip() {
    let list = contexts();
    let with_contexts = CreateRequest { create_contexts: list.contexts(), ..REQUEST };
    let root = CreateRequest { name: &[], ..with_contexts };
    round_trip!(CreateRequest<'_>, REQUEST, with_contexts, root, CreateRequest::default());
}

#[test]
fn responses_round_trip() {
    let list = contexts();
    let response = CreateResponse {
        oplock_level: OplockLevel::BATCH,
        flags: CreateResponseFlags::REPARSEPOINT,
        create_action: CreateAction::CREATED,
        creation_time: FileTime(1),
        last_access_time: FileTime(2),
        last_write_time: FileTime(3),
        change_time: FileTime(4),
        allocation_size: 0x1000,
        end_of_file: 0x0FFF,
        file_attributes: FileAttributes::ARCHIVE,
        file_id: FileId { persistent: 6, volatile: 7 },
        ..CreateResponse::default()
    };
    let with_contexts = CreateResponse { create_contexts: list.contexts(), ..response };
    round_trip!(CreateResponse<'_>, response, with_contexts);
}

#[test]
fn the_bytes_of_a_request() {
    let mut want = vec![0x39, 0, 0, 0xFF, 2, 0, 0, 0];
    want.extend([0; 16]);
    want.extend([0, 0, 0, 0x80, 0x80, 0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0, 0x40, 0, 0, 0]);
    want.extend([0x78, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    want.extend(b"a\0.\0t\0");
    assert_eq!(message(&REQUEST)[64..], want);
}

#[test]
fn the_contexts_of_a_request_begin_8_byte_aligned() {
    let list = contexts();
    let bytes = message(&CreateRequest { create_contexts: list.contexts(), ..REQUEST });
    let length = u32::try_from(list.contexts().as_bytes().len()).unwrap();
    assert_eq!(bytes[64 + 48..64 + 52], 0x80_u32.to_le_bytes());
    assert_eq!(bytes[64 + 52..64 + 56], length.to_le_bytes());
    assert_eq!(&bytes[0x80..], list.contexts().as_bytes());
}

/// Servers may insist on StructureSize bytes, so an empty name is one byte long.
#[test]
fn a_request_without_a_name_has_one_byte_of_buffer() {
    assert_eq!(message(&CreateRequest::default()).len(), 64 + 57);
}

#[test]
fn a_response_names_its_open() {
    let file_id = FileId { persistent: 1, volatile: 2 };
    let bytes = message(&CreateResponse { file_id, ..CreateResponse::default() });
    assert_eq!(bytes.len(), 64 + 88);
    assert_eq!(CreateResponse::decode(&bytes).unwrap().file_id(), Some(file_id));
}

#[test]
fn a_name_outside_of_the_message_is_an_error() {
    let mut bytes = message(&REQUEST);
    let have = bytes.len();
    bytes[64 + 46] = 7;
    let want = DecodeError::Offset { offset: 0x78, length: 7, have };
    assert_eq!(CreateRequest::decode(&bytes), Err(want));
}

#[test]
fn a_name_inside_of_the_header_is_an_error() {
    let mut bytes = message(&REQUEST);
    let have = bytes.len();
    bytes[64 + 44] = 0x3E;
    let want = DecodeError::Offset { offset: 0x3E, length: 6, have };
    assert_eq!(CreateRequest::decode(&bytes), Err(want));
}
