use dtyp::{FileTime, Guid, utf16};

use super::{
    CopyChunk, CopyChunkCopy, CopyChunkResponse, DuplicateExtents, DuplicateExtentsEx,
    DuplicateExtentsFlags, FsctlCode, IoctlFlags, IoctlRequest, IoctlResponse, NetworkInterface,
    NetworkInterfaceCapability, NetworkInterfaceList, NetworkInterfaces, NetworkResiliencyRequest,
    PipeWait, RequestResumeKeyResponse, ResumeKey, SnapshotArray, ValidateNegotiateInfoRequest,
    ValidateNegotiateInfoResponse,
};
use crate::check::{hostile, message, round_trip};
use crate::codes::Codes;
use crate::dialect::Dialect;
use crate::error::DecodeError;
use crate::file_id::FileId;
use crate::negotiate::{Capabilities, SecurityMode};

const REQUEST: IoctlRequest<'_> = IoctlRequest {
    ctl_code: FsctlCode::PIPE_TRANSCEIVE,
    file_id: FileId { persistent: 1, volatile: 2 },
    input: &[7; 5],
    max_input_response: 3,
    output_count: 0,
    max_output_response: 0x0400,
    flags: IoctlFlags::IS_FSCTL,
};

const RESPONSE: IoctlResponse<'_> = IoctlResponse {
    ctl_code: FsctlCode::VALIDATE_NEGOTIATE_INFO,
    file_id: FileId::ANY,
    input: &[],
    output: &[8; 24],
    padding: 0,
};

#[test]
fn bodies_round_trip() {
    round_trip!(IoctlRequest<'_>, REQUEST, IoctlRequest::default());
    let with_input = IoctlResponse { input: &[6; 3], ..RESPONSE };
    round_trip!(IoctlResponse<'_>, RESPONSE, with_input, IoctlResponse::default());
}

#[test]
fn the_bytes_of_a_request() {
    let want = [
        &[0x39, 0, 0, 0, 0x17, 0xC0, 0x11, 0][..],
        &[1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0],
        &[0x78, 0, 0, 0, 5, 0, 0, 0, 3, 0, 0, 0],
        &[0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0],
        &[1, 0, 0, 0, 0, 0, 0, 0],
        &[7; 5],
    ];
    assert_eq!(message(&REQUEST)[64..], want.concat());
}

#[test]
fn the_output_of_a_response_begins_aligned_behind_its_input() {
    let bytes = message(&RESPONSE);
    assert_eq!(bytes[64 + 24..64 + 40], [0x70, 0, 0, 0, 0, 0, 0, 0, 0x70, 0, 0, 0, 24, 0, 0, 0]);
    assert_eq!(bytes[0x70..], [8; 24]);
    let bytes = message(&IoctlResponse { input: &[6; 3], ..RESPONSE });
    assert_eq!(bytes[64 + 24..64 + 40], [0x70, 0, 0, 0, 3, 0, 0, 0, 0x78, 0, 0, 0, 24, 0, 0, 0]);
}

#[test]
fn validate_negotiate_info_has_the_bytes_of_the_document() {
    let request = ValidateNegotiateInfoRequest {
        capabilities: Capabilities::LEASING,
        guid: Guid([5; 16]),
        security_mode: SecurityMode::SIGNING_ENABLED,
        dialects: Codes::new(&[Dialect::SMB_2_1, Dialect::SMB_3_0]),
    };
    let mut bytes = Vec::new();
    request.encode(&mut bytes);
    let want = [&[2, 0, 0, 0][..], &[5; 16], &[1, 0, 2, 0, 0x10, 2, 0, 3]];
    assert_eq!(bytes, want.concat());
    assert_eq!(ValidateNegotiateInfoRequest::decode(&bytes), Ok(request));
    let want = DecodeError::Offset { offset: 0, length: 4, have: 3 };
    assert_eq!(ValidateNegotiateInfoRequest::decode(&bytes[..27]), Err(want));

    let response = ValidateNegotiateInfoResponse {
        capabilities: Capabilities::LEASING,
        guid: Guid([5; 16]),
        security_mode: SecurityMode::SIGNING_ENABLED,
        dialect: Dialect::SMB_3_0_2,
    };
    let mut bytes = Vec::new();
    response.encode(&mut bytes);
    assert_eq!(bytes.len(), ValidateNegotiateInfoResponse::SIZE);
    assert_eq!(bytes[20..], [1, 0, 2, 3]);
    assert_eq!(ValidateNegotiateInfoResponse::decode(&bytes), Ok(response));
}

#[test]
fn copy_chunks_round_trip() {
    let chunk = CopyChunk { source_offset: 1, target_offset: 2, length: 3 };
    let mut bytes = Vec::new();
    CopyChunkCopy::encode(ResumeKey([4; 24]), &[chunk, chunk], &mut bytes);
    assert_eq!(bytes.len(), 32 + 2 * 24);
    assert_eq!(bytes[24..32], [2, 0, 0, 0, 0, 0, 0, 0]);
    let copy = CopyChunkCopy::decode(&bytes).unwrap();
    assert_eq!(copy.source_key, ResumeKey([4; 24]));
    assert_eq!(copy.chunks.iter().collect::<Vec<_>>(), [chunk, chunk]);
    hostile(&bytes, |bytes| {
        if let Ok(copy) = CopyChunkCopy::decode(bytes) {
            assert_eq!(copy.chunks.iter().count(), copy.chunks.len());
        }
    });
}

/// A count of ranges beyond the address space must not wrap around.
#[test]
fn a_count_of_ranges_that_do_not_fit_is_an_error() {
    let mut bytes = Vec::new();
    CopyChunkCopy::encode(ResumeKey::default(), &[], &mut bytes);
    bytes[24..28].fill(0xFF);
    assert!(matches!(
        CopyChunkCopy::decode(&bytes),
        Err(DecodeError::Offset { offset: 0, have: 0, .. })
    ));
}

#[test]
fn copy_answers_round_trip() {
    let response = CopyChunkResponse {
        chunks_written: 1,
        chunk_bytes_written: 2,
        total_bytes_written: 0x0304,
    };
    let mut bytes = Vec::new();
    response.encode(&mut bytes);
    assert_eq!(bytes, [1, 0, 0, 0, 2, 0, 0, 0, 4, 3, 0, 0]);
    assert_eq!(CopyChunkResponse::decode(&bytes), Ok(response));

    let response = RequestResumeKeyResponse { resume_key: ResumeKey([9; 24]) };
    let mut bytes = Vec::new();
    response.encode(&mut bytes);
    assert_eq!(bytes, [&[9; 24][..], &[0; 8]].concat());
    assert_eq!(RequestResumeKeyResponse::decode(&bytes), Ok(response));
}

#[test]
fn network_interfaces_are_a_chain_of_152_bytes_each() {
    let v4 = NetworkInterface {
        if_index: 1,
        capability: NetworkInterfaceCapability::RSS_CAPABLE,
        link_speed: 10_000_000_000,
        address: Some([192, 168, 0, 1].into()),
    };
    let v6 = NetworkInterface {
        if_index: 2,
        capability: NetworkInterfaceCapability::empty(),
        link_speed: 1_000_000_000,
        address: Some([0xFE80, 0, 0, 0, 1, 2, 3, 4].into()),
    };
    let mut list = NetworkInterfaceList::new();
    list.push(&v4);
    list.push(&v6);
    let bytes = list.as_bytes();
    assert_eq!(bytes.len(), 2 * 152);
    assert_eq!(bytes[..16], [0x98, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bytes[24..32], [2, 0, 0, 0, 192, 168, 0, 1]);
    assert_eq!(bytes[152 + 24..152 + 36], [0x17, 0, 0, 0, 0, 0, 0, 0, 0xFE, 0x80, 0, 0]);
    assert_eq!(NetworkInterfaces::new(bytes).collect::<Vec<_>>(), [Ok(v4), Ok(v6)]);
    hostile(bytes, |bytes| {
        assert!(NetworkInterfaces::new(bytes).count() <= 1 + bytes.len() / 152);
    });
}

#[test]
fn pipe_waits_round_trip() {
    let wait = PipeWait { timeout: Some(0x0102), name: b"p\0" };
    let mut bytes = Vec::new();
    wait.encode(&mut bytes);
    assert_eq!(bytes, [2, 1, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1, 0, b'p', 0]);
    assert_eq!(PipeWait::decode(&bytes), Ok(wait));
    let want = DecodeError::Offset { offset: 0, length: 2, have: 1 };
    assert_eq!(PipeWait::decode(&bytes[..15]), Err(want));
    bytes[12] = 0;
    assert_eq!(PipeWait::decode(&bytes), Ok(PipeWait { timeout: None, ..wait }));
}

#[test]
fn extents_to_duplicate_have_the_bytes_of_the_document() {
    let extents = DuplicateExtents {
        source_file_id: FileId { persistent: 1, volatile: 2 },
        source_file_offset: 3,
        target_file_offset: -1,
        byte_count: 5,
    };
    let mut bytes = Vec::new();
    extents.encode(&mut bytes);
    let fields = [1_u64, 2, 3, u64::MAX, 5].map(u64::to_le_bytes).concat();
    assert_eq!(bytes, fields);
    assert_eq!(DuplicateExtents::decode(&bytes), Ok(extents));

    let extended = DuplicateExtentsEx { extents, flags: DuplicateExtentsFlags::SOURCE_ATOMIC };
    let mut bytes = Vec::new();
    extended.encode(&mut bytes);
    let want = [&0x30_u64.to_le_bytes()[..], &fields, &[1, 0, 0, 0, 0, 0, 0, 0]].concat();
    assert_eq!(bytes, want);
    assert_eq!(DuplicateExtentsEx::decode(&bytes), Ok(extended));
    for cut in 0..bytes.len() {
        DuplicateExtentsEx::decode(&bytes[..cut]).expect_err("it is cut");
        DuplicateExtents::decode(&fields[..cut.min(39)]).expect_err("it is cut");
    }
}

#[test]
fn snapshots_are_listed_if_all_of_them_fit() {
    let snapshots = vec![FileTime::from_unix(1_530_387_257, 0), FileTime::from_unix(0, 0)];
    let list = "@GMT-2018.06.30-19.34.17\0@GMT-1970.01.01-00.00.00\0\0";
    let list = utf16::to_bytes(list);
    assert_eq!(list.len(), 102);
    for (room, want) in [
        (114, [&[2, 0, 0, 0, 2, 0, 0, 0, 102, 0, 0, 0], &list[..]].concat()),
        (113, vec![2, 0, 0, 0, 0, 0, 0, 0, 102, 0, 0, 0, 0, 0, 0, 0]),
    ] {
        let array = SnapshotArray::fitting(snapshots.clone(), room);
        let mut bytes = Vec::new();
        array.encode(&mut bytes);
        assert_eq!(bytes, want);
        assert_eq!(SnapshotArray::decode(&bytes), Ok(array));
    }
    let mut bytes = Vec::new();
    SnapshotArray::fitting(Vec::new(), 16).encode(&mut bytes);
    assert_eq!(bytes, [0; 16]);
}

#[test]
fn a_cut_list_of_snapshots_is_an_error() {
    let mut bytes = Vec::new();
    SnapshotArray::fitting(vec![FileTime::from_unix(0, 0); 2], 1_000).encode(&mut bytes);
    for cut in 0..bytes.len() - 2 {
        assert!(SnapshotArray::decode(&bytes[..cut]).is_err(), "{cut}");
    }
    bytes[12] ^= 1;
    SnapshotArray::decode(&bytes).expect_err("no token");
}

#[test]
fn a_request_for_resiliency_has_the_bytes_of_the_document() {
    let request = NetworkResiliencyRequest { timeout: 0x1234 };
    let mut bytes = Vec::new();
    request.encode(&mut bytes);
    assert_eq!(bytes, [0x34, 0x12, 0, 0, 0, 0, 0, 0]);
    assert_eq!(NetworkResiliencyRequest::decode(&bytes), Ok(request));
    NetworkResiliencyRequest::decode(&bytes[..7]).expect_err("it is cut");
}

#[test]
fn a_padded_response_has_the_offset_of_its_output() {
    let padded = message(&IoctlResponse { padding: 8, ..RESPONSE });
    assert_eq!(padded.len(), message(&RESPONSE).len() + 8);
    assert_eq!(padded[0x70..], [&[0; 8][..], &[8; 24]].concat());
    assert_eq!(padded[64 + 32..64 + 40], [0x78, 0, 0, 0, 24, 0, 0, 0]);
}
