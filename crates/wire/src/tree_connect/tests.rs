use dtyp::AccessMask;

use super::{
    ShareCapabilities, ShareFlags, ShareType, TreeConnectFlags, TreeConnectRequest,
    TreeConnectResponse,
};
use crate::check::{message, round_trip};
use crate::message::Decode;

#[test]
fn bodies_round_trip() {
    let request = TreeConnectRequest {
        flags: TreeConnectFlags::CLUSTER_RECONNECT,
        path: b"\\\0\\\0s\0\\\0d\0",
    };
    round_trip!(TreeConnectRequest<'_>, request, TreeConnectRequest::default());
    let response = TreeConnectResponse {
        share_type: ShareType::PIPE,
        share_flags: ShareFlags::NO_CACHING,
        capabilities: ShareCapabilities::DFS,
        maximal_access: AccessMask::FILE_ALL,
    };
    round_trip!(TreeConnectResponse, response);
}

/// The response of [MS-SMB2] 4.1 for a disk share: manual caching, full access.
#[test]
fn the_bytes_of_a_response() {
    let response = TreeConnectResponse {
        share_type: ShareType::DISK,
        maximal_access: AccessMask::FILE_ALL,
        ..TreeConnectResponse::default()
    };
    let want = [0x10, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0x01, 0x1F, 0x00];
    assert_eq!(message(&response)[64..], want);
}

/// With an extension ([MS-SMB2] 2.2.9.1) the buffer begins with 16 other bytes.
#[test]
fn the_path_is_found_behind_an_extension() {
    let mut bytes =
        message(&TreeConnectRequest { flags: TreeConnectFlags::EXTENSION_PRESENT, path: &[0; 16] });
    bytes[64 + 4] = 0x48 + 16;
    bytes[64 + 6] = 4;
    bytes.extend(b"\\\0s\0");
    assert_eq!(TreeConnectRequest::decode(&bytes).unwrap().path, b"\\\0s\0");
}
