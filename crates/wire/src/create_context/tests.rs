use std::fmt::Debug;

use dtyp::{AccessMask, FileTime, Guid, NtStatus, Sid};

use super::{
    AllocationSize, AppInstanceId, AppInstanceVersion, AppleCapabilities, AppleQuery, AppleRequest,
    AppleResponse, AppleVolumeCapabilities, CreateContextData, CreateContextList,
    CreateContextName, CreateContexts, DurableFlags, DurableHandleReconnect,
    DurableHandleReconnectV2, DurableHandleRequest, DurableHandleRequestV2, DurableHandleResponse,
    DurableHandleResponseV2, LeaseContext, LeaseV2, PosixRequest, PosixResponse,
    QueryMaximalAccessRequest, QueryMaximalAccessResponse, QueryOnDiskIdResponse, TimewarpToken,
};
use crate::check::hostile;
use crate::error::DecodeError;
use crate::file_id::FileId;
use crate::lease::{LeaseFlags, LeaseKey, LeaseState};

const FILE_ID: FileId = FileId { persistent: 1, volatile: 2 };
const GUID: Guid = Guid([0x33; 16]);

/// Asserts that `value` survives, has `length` bytes, and that every shorter form is an error.
#[track_caller]
fn check<T>(value: &T, length: usize)
where
    T: for<'a> CreateContextData<'a> + Debug + PartialEq,
{
    let mut bytes = Vec::new();
    value.encode(&mut bytes);
    assert_eq!(bytes.len(), length);
    assert_eq!(T::decode(&bytes).as_ref(), Ok(value));
    for end in 1..length {
        assert!(T::decode(&bytes[..end]).is_err(), "{end} bytes are no {value:?}");
    }
}

#[test]
fn typed_contexts_round_trip_at_the_length_of_the_document() {
    check(&DurableHandleRequest, 16);
    check(&DurableHandleResponse, 8);
    check(&DurableHandleReconnect { file_id: FILE_ID }, 16);
    let flags = DurableFlags::PERSISTENT;
    check(&DurableHandleRequestV2 { timeout_ms: 60_000, flags, create_guid: GUID }, 32);
    check(&DurableHandleResponseV2 { timeout_ms: 60_000, flags }, 8);
    check(&DurableHandleReconnectV2 { file_id: FILE_ID, create_guid: GUID, flags }, 36);
    check(&AllocationSize { allocation_size: 0x10_0000 }, 8);
    check(&QueryMaximalAccessRequest { timestamp: Some(FileTime(9)) }, 8);
    check(&QueryMaximalAccessRequest { timestamp: None }, 0);
    let maximal_access = AccessMask::FILE_ALL;
    check(&QueryMaximalAccessResponse { query_status: NtStatus::SUCCESS, maximal_access }, 8);
    check(&TimewarpToken { timestamp: FileTime(9) }, 8);
    check(&QueryOnDiskIdResponse { disk_file_id: 3, volume_id: 4 }, 32);
    check(&AppInstanceId { app_instance_id: GUID }, 20);
    check(&AppInstanceVersion { app_instance_version_high: 1, app_instance_version_low: 2 }, 24);
    check(&PosixRequest { mode: 0o644 }, 4);
    let client_capabilities = AppleCapabilities::READ_DIRECTORY_ATTRIBUTES;
    check(&AppleRequest { query: AppleQuery::MODEL, client_capabilities }, 24);
    let model = Some("Mac".to_owned());
    let server_capabilities = Some(AppleCapabilities::UNIX_BASED);
    let volume_capabilities = Some(AppleVolumeCapabilities::FULL_SYNC);
    check(&AppleResponse { server_capabilities, volume_capabilities, model }, 16 + 16 + 8 + 6);
    check(&AppleResponse::default(), 16);
    let (owner, group) = (Sid::unix_user(1000), Sid::unix_group(100));
    let length = 12 + owner.encoded_len() + group.encoded_len();
    check(&PosixResponse { hard_links: 1, reparse_tag: 0, mode: 0o644, owner, group }, length);
}

const LEASE: LeaseContext = LeaseContext {
    lease_key: LeaseKey([0x11; 16]),
    lease_state: LeaseState::READ_CACHING.union(LeaseState::HANDLE_CACHING),
    lease_flags: LeaseFlags::PARENT_LEASE_KEY_SET,
    v2: Some(LeaseV2 { parent_lease_key: LeaseKey([0x22; 16]), epoch: 0x0102 }),
};

fn encoded(context: &LeaseContext) -> Vec<u8> {
    let mut bytes = Vec::new();
    context.encode(&mut bytes);
    bytes
}

#[test]
fn the_bytes_of_a_lease() {
    let mut want = vec![0x11; 16];
    want.extend([3, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    want.extend([0x22; 16]);
    want.extend([0x02, 0x01, 0, 0]);
    assert_eq!(encoded(&LEASE), want);
}

#[test]
fn a_lease_is_32_or_52_bytes_long() {
    let first = LeaseContext { v2: None, ..LEASE };
    assert_eq!(LeaseContext::decode(&encoded(&LEASE)), Ok(LEASE));
    assert_eq!(LeaseContext::decode(&encoded(&first)), Ok(first));
    let bytes = [encoded(&LEASE), vec![0; 8]].concat();
    for length in (32..=60).filter(|length| ![32, 52].contains(length)) {
        let want = DecodeError::BadValue { field: "DataLength", value: length };
        assert_eq!(LeaseContext::decode(&bytes[..length.try_into().unwrap()]), Err(want));
    }
}

#[test]
fn an_app_instance_id_of_another_size_is_an_error() {
    let want = DecodeError::StructureSize { want: 20, got: 21 };
    let mut bytes = [0; 20];
    bytes[0] = 21;
    assert_eq!(AppInstanceId::decode(&bytes), Err(want));
}

#[test]
fn a_list_is_a_chain_of_aligned_contexts() {
    let mut list = CreateContextList::new();
    list.push(&TimewarpToken { timestamp: FileTime(0x0102) });
    list.push_raw(CreateContextName::QUERY_ON_DISK_ID, &[]);
    list.push_raw(CreateContextName::POSIX, &[1, 2, 3]);
    let want = [
        &[0x20, 0, 0, 0, 0x10, 0, 4, 0, 0, 0, 0x18, 0, 8, 0, 0, 0][..],
        b"TWrp\0\0\0\0",
        &[2, 1, 0, 0, 0, 0, 0, 0],
        &[0x18, 0, 0, 0, 0x10, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        b"QFid\0\0\0\0",
        &[0, 0, 0, 0, 0x10, 0, 0x10, 0, 0, 0, 0x20, 0, 3, 0, 0, 0],
        CreateContextName::POSIX.0,
        &[1, 2, 3],
    ];
    let bytes = want.concat();
    assert_eq!(list.contexts().as_bytes(), bytes);

    let contexts = CreateContexts::parse(&bytes).unwrap();
    assert_eq!(contexts.find(), Ok(Some(TimewarpToken { timestamp: FileTime(0x0102) })));
    assert_eq!(contexts.get(CreateContextName::QUERY_ON_DISK_ID), Some(&[][..]));
    assert_eq!(contexts.get(CreateContextName::POSIX), Some(&[1, 2, 3][..]));
    assert_eq!(contexts.get(CreateContextName::AAPL), None);
    assert_eq!(contexts.find::<LeaseContext>(), Ok(None));
    assert_eq!(contexts.iter().count(), 3);
    hostile(&bytes, |bytes| {
        if let Ok(contexts) = CreateContexts::parse(bytes) {
            assert!(contexts.iter().count() <= bytes.len() / 16);
        }
    });
}

/// A context of 24 bytes, and another one behind it, with a field of the first overwritten.
fn chain(at: usize, field: u8) -> Vec<u8> {
    let mut list = CreateContextList::new();
    list.push_raw(CreateContextName::QUERY_ON_DISK_ID, &[]);
    list.push_raw(CreateContextName::QUERY_ON_DISK_ID, &[]);
    let mut bytes = list.bytes;
    bytes[at] = field;
    bytes
}

#[test]
fn a_chain_that_cannot_be_followed_is_an_error() {
    let bad = |value| DecodeError::BadValue { field: "Next", value };
    assert_eq!(CreateContexts::parse(&chain(0, 0x14)), Err(bad(0x14)));
    assert_eq!(CreateContexts::parse(&chain(0, 0x08)), Err(bad(0x08)));
    let beyond = DecodeError::Offset { offset: 0x30, length: 16, have: 0x30 };
    assert_eq!(CreateContexts::parse(&chain(0, 0x30)), Err(beyond));
}

/// Name and data may not lie in the next context, although the chain has room for them.
#[test]
fn name_and_data_stay_in_their_context() {
    let name = DecodeError::Offset { offset: 0x10, length: 9, have: 0x18 };
    assert_eq!(CreateContexts::parse(&chain(6, 9)), Err(name));
    let data = DecodeError::Offset { offset: 0, length: 0x19, have: 0x18 };
    assert_eq!(CreateContexts::parse(&chain(12, 0x19)), Err(data));
}

#[test]
fn names_are_shown_by_their_meaning() {
    assert_eq!(format!("{:?}", CreateContextName(b"RqLs")), "REQUEST_LEASE");
    assert_eq!(format!("{:?}", CreateContextName(b"a\n")), "a\\n");
}
