//! Seeds of the RPC pipes: C706 chapter 12, [MS-LSAT] 3.1.4.10, [MS-SAMR] 3.1.5, [MS-SRVS] 3.1.4,
//! [MS-WKST] 3.2.4.1.

use wire::FileId;
use wire::ioctl::{FsctlCode, IoctlFlags, IoctlRequest};

use super::{Recorder, join};

/// Transfer syntax NDR 2.0: 8a885d04-1ceb-11c9-9fe8-08002b104860.
const NDR: [u8; 20] = [
    0x04, 0x5D, 0x88, 0x8A, 0xEB, 0x1C, 0xC9, 0x11, 0x9F, 0xE8, 0x08, 0x00, 0x2B, 0x10, 0x48, 0x60,
    2, 0, 0, 0,
];

/// Interface identifier of lsarpc 0.0: 12345778-1234-abcd-ef00-0123456789ab.
pub const LSARPC: [u8; 20] = [
    0x78, 0x57, 0x34, 0x12, 0x34, 0x12, 0xCD, 0xAB, 0xEF, 0x00, 0x01, 0x23, 0x45, 0x67, 0x89, 0xAB,
    0, 0, 0, 0,
];

/// Interface identifier of samr 1.0: 12345778-1234-abcd-ef00-0123456789ac.
pub const SAMR: [u8; 20] = [
    0x78, 0x57, 0x34, 0x12, 0x34, 0x12, 0xCD, 0xAB, 0xEF, 0x00, 0x01, 0x23, 0x45, 0x67, 0x89, 0xAC,
    1, 0, 0, 0,
];

/// Interface identifier of srvsvc 3.0: 4b324fc8-1670-01d3-1278-5a47bf6ee188.
pub const SRVSVC: [u8; 20] = [
    0xC8, 0x4F, 0x32, 0x4B, 0x70, 0x16, 0xD3, 0x01, 0x12, 0x78, 0x5A, 0x47, 0xBF, 0x6E, 0xE1, 0x88,
    3, 0, 0, 0,
];

/// Interface identifier of wkssvc 1.0: 6bffd098-a112-3610-9833-46c3f87e345a.
pub const WKSSVC: [u8; 20] = [
    0x98, 0xD0, 0xFF, 0x6B, 0x12, 0xA1, 0x10, 0x36, 0x98, 0x33, 0x46, 0xC3, 0xF8, 0x7E, 0x34, 0x5A,
    1, 0, 0, 0,
];

const REQUEST: u8 = 0;
const BIND: u8 = 11;

pub(super) fn record(recorder: &mut Recorder) {
    // Number of the pipe, then the written data.
    let names = [vec![0], bind(LSARPC), request(44, &open_policy()), request(57, &lookup_sids())];
    recorder.put("rpc_pipe", "lsarpc", join(names));
    let users = [vec![1], bind(SAMR)].into_iter().chain(samr_requests());
    recorder.put("rpc_pipe", "samr", join(users));
    let shares = [vec![2], bind(SRVSVC), request(15, &share_enum())];
    recorder.put("rpc_pipe", "srvsvc", join(shares));
    let changes =
        [vec![2], bind(SRVSVC), request(14, &share_add()), request(17, &share_set_info())];
    recorder.put("rpc_pipe", "srvsvc_changes", join(changes));
    let info = [vec![3], bind(WKSSVC), request(0, &get_info())];
    recorder.put("rpc_pipe", "wkssvc", join(info));
}

/// Returns a message of one fragment, without authentication: C706 12.6.3.
///
/// # Panics
/// If the body has nearly 64 KiB.
#[must_use]
pub fn fragment(kind: u8, body: &[u8]) -> Vec<u8> {
    // Version 5.0, first and last fragment, little-endian, no authentication, call 1.
    let mut bytes = vec![5, 0, kind, 3, 0x10, 0, 0, 0];
    let len = u16::try_from(16 + body.len()).expect("a small fragment");
    bytes.extend_from_slice(&len.to_le_bytes());
    bytes.extend_from_slice(&[0, 0, 1, 0, 0, 0]);
    bytes.extend_from_slice(body);
    bytes
}

/// Returns the request that writes a message to a pipe and reads the answer: [MS-SMB2] 3.3.5.15.
#[must_use]
pub fn transceive_request(pipe: FileId, message: &[u8]) -> IoctlRequest<'_> {
    IoctlRequest {
        ctl_code: FsctlCode::PIPE_TRANSCEIVE,
        file_id: pipe,
        input: message,
        max_output_response: 4_096,
        flags: IoctlFlags::IS_FSCTL,
        ..IoctlRequest::default()
    }
}

/// Returns the bind of an interface by the NDR syntax: C706 12.6.4.3.
#[must_use]
pub fn bind(interface: [u8; 20]) -> Vec<u8> {
    let mut body = vec![0xB8, 0x10, 0xB8, 0x10, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0];
    body.extend_from_slice(&interface);
    body.extend_from_slice(&NDR);
    fragment(BIND, &body)
}

fn request(opnum: u16, stub: &[u8]) -> Vec<u8> {
    let mut body = u32::try_from(stub.len()).expect("a small stub").to_le_bytes().to_vec();
    body.extend_from_slice(&[0, 0]);
    body.extend_from_slice(&opnum.to_le_bytes());
    body.extend_from_slice(stub);
    fragment(REQUEST, &body)
}

/// Builds LsarOpenPolicy2 for MAXIMUM_ALLOWED, without attributes.
fn open_policy() -> Vec<u8> {
    let words = [0, 24, 0, 0, 0, 0, 0, 0x0200_0000_u32];
    words.into_iter().flat_map(u32::to_le_bytes).collect()
}

/// Builds LsarLookupSids2 for S-1-1-0 and S-1-22-1-1000, with the first handle of a pipe.
fn lookup_sids() -> Vec<u8> {
    let mut stub = vec![0; 12];
    stub.extend_from_slice(&1_u64.to_le_bytes());
    for word in [2, 0x0002_0000, 2, 0x0002_0004, 0x0002_0008_u32] {
        stub.extend_from_slice(&word.to_le_bytes());
    }
    stub.extend_from_slice(&[1, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0]);
    stub.extend_from_slice(&[2, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 22, 1, 0, 0, 0, 0xE8, 3, 0, 0]);
    for word in [0, 0, 1, 0, 0, 2_u32] {
        stub.extend_from_slice(&word.to_le_bytes());
    }
    stub
}

/// Builds NetrShareEnum of level 1, for the server `\\S`.
fn share_enum() -> Vec<u8> {
    let mut stub = server_name();
    // Level and its union, an empty container, no limit, no resume handle.
    for word in [1, 1, 0x0002_0004, 0, 0, u32::MAX, 0] {
        stub.extend_from_slice(&word.to_le_bytes());
    }
    stub
}

/// Builds SamrConnect2, SamrOpenDomain of the server's own domain, an enumeration, SamrOpenUser and
/// SamrQueryInformationUser, each with the handle before it.
fn samr_requests() -> [Vec<u8>; 5] {
    let words = |words: &[u32]| words.iter().flat_map(|it| it.to_le_bytes()).collect::<Vec<u8>>();
    let handle = |number: u64| [&[0; 12][..], &number.to_le_bytes()].concat();
    let sid = [1, 4, 0, 0, 0, 0, 0, 5, 21, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0];
    let domain = [&handle(1)[..], &words(&[0x0200_0000, 4]), &sid].concat();
    [
        request(57, &words(&[0, 0x0200_0000])),
        request(7, &domain),
        request(13, &[handle(2), words(&[0, 0, u32::MAX])].concat()),
        request(34, &[handle(2), words(&[0x0200_0000, 3_000])].concat()),
        request(36, &[&handle(3)[..], &[21, 0]].concat()),
    ]
}

/// Builds NetrShareAdd of level 2: the share `\\S` of the folder `\\S`.
fn share_add() -> Vec<u8> {
    let mut stub = server_name();
    // Level, tag, pointer; name, type, comment, permissions, users, folder, password; ParmErr.
    for word in [2, 2, 4, 8, 0, 0, 0, u32::MAX, 0, 12, 0] {
        stub.extend_from_slice(&word.to_le_bytes());
    }
    stub.extend_from_slice(&server_name()[4..]);
    stub.extend_from_slice(&server_name()[4..]);
    stub.extend_from_slice(&0_u32.to_le_bytes());
    stub
}

/// Builds NetrShareSetInfo of level 1501, with four bytes that are no descriptor.
fn share_set_info() -> Vec<u8> {
    let mut stub = server_name();
    stub.extend_from_slice(&server_name()[4..]);
    for word in [1_501, 1_501, 4, 4, 8, 4, 0, 0_u32] {
        stub.extend_from_slice(&word.to_le_bytes());
    }
    stub
}

/// Builds NetrWkstaGetInfo of level 100.
fn get_info() -> Vec<u8> {
    let mut stub = server_name();
    stub.extend_from_slice(&100_u32.to_le_bytes());
    stub
}

/// Builds a unique pointer to `\\S`.
fn server_name() -> Vec<u8> {
    let mut stub = Vec::new();
    for word in [0x0002_0000_u32, 4, 0, 4] {
        stub.extend_from_slice(&word.to_le_bytes());
    }
    stub.extend_from_slice(b"\\\0\\\0S\0\0\0");
    stub
}
