//! IOCTL requests of any kind, and messages of RPC for the pipes.

use dtyp::fscc::{ReparseData, ReparseTag, SymbolicLinkReparse};
use testkit::entropy::Random;
use testkit::seeds::pipe;
use testkit::{Peer, Request};
use wire::ioctl::{
    CopyChunk, CopyChunkCopy, DfsReferralRequest, DuplicateExtents, FsctlCode, IoctlFlags,
    IoctlRequest, NetworkResiliencyRequest, ResumeKey,
};
use wire::{Command, FileId};

use crate::requests::one_open;

/// Control codes that name an open.
const OF_OPENS: [FsctlCode; 23] = [
    FsctlCode::SRV_COPYCHUNK,
    FsctlCode::SRV_COPYCHUNK_WRITE,
    FsctlCode::SRV_REQUEST_RESUME_KEY,
    FsctlCode::SRV_ENUMERATE_SNAPSHOTS,
    FsctlCode::LMR_REQUEST_RESILIENCY,
    FsctlCode::PIPE_PEEK,
    FsctlCode::PIPE_TRANSCEIVE,
    FsctlCode::PIPE_WAIT,
    FsctlCode::GET_OBJECT_ID,
    FsctlCode::CREATE_OR_GET_OBJECT_ID,
    FsctlCode::SET_REPARSE_POINT,
    FsctlCode::GET_REPARSE_POINT,
    FsctlCode::DELETE_REPARSE_POINT,
    FsctlCode::GET_COMPRESSION,
    FsctlCode::SET_COMPRESSION,
    FsctlCode::SET_SPARSE,
    FsctlCode::SET_ZERO_DATA,
    FsctlCode::QUERY_ALLOCATED_RANGES,
    FsctlCode::FILE_LEVEL_TRIM,
    FsctlCode::DUPLICATE_EXTENTS_TO_FILE,
    FsctlCode::DUPLICATE_EXTENTS_TO_FILE_EX,
    FsctlCode::GET_INTEGRITY_INFORMATION,
    FsctlCode::SET_INTEGRITY_INFORMATION,
];

/// Control codes whose FileId is all ones.
const OF_NO_OPEN: [FsctlCode; 4] = [
    FsctlCode::QUERY_NETWORK_INTERFACE_INFO,
    FsctlCode::VALIDATE_NEGOTIATE_INFO,
    FsctlCode::DFS_GET_REFERRALS,
    FsctlCode::DFS_GET_REFERRALS_EX,
];

/// Paths to ask the namespace for.
const DFS_PATHS: [&str; 4] =
    ["\\host\\dfs\\deep\\link", "\\host\\dfs", "\\h", "\\\\h\\dfs\\deep\\link\\x\\y"];

const OUTPUT_BYTES: [u32; 7] = [0, 12, 16, 24, 32, 1_000, 65_536];

/// Returns any control of an open or of none, whose input often belongs to another one.
pub(crate) fn control(random: &mut Random, peer: &Peer, opens: &[FileId]) -> Request {
    let input = any_input(random, opens);
    let output = random.one_of(&OUTPUT_BYTES);
    let at = random.below(OF_OPENS.len() + OF_NO_OPEN.len());
    if let Some(ctl_code) = OF_OPENS.get(at) {
        return ioctl(peer, *ctl_code, one_open(random, opens), &input, output);
    }
    let ctl_code = OF_NO_OPEN[at - OF_OPENS.len()];
    if ctl_code == FsctlCode::DFS_GET_REFERRALS && random.percent(80) {
        let question = referral_request(random.one_of(&DFS_PATHS));
        return ioctl(peer, ctl_code, FileId::ANY, &question, output);
    }
    ioctl(peer, ctl_code, FileId::ANY, &input, output)
}

/// Returns a message of RPC to an open, by an IOCTL or a WRITE.
pub(crate) fn remote_call(random: &mut Random, peer: &Peer, opens: &[FileId]) -> Request {
    let open = one_open(random, opens);
    let message = if random.percent(33) {
        pipe::bind(random.one_of(&[pipe::SRVSVC, pipe::WKSSVC, pipe::LSARPC]))
    } else {
        call(random)
    };
    if random.percent(60) {
        let output = random.one_of(&[0, 12, 1_000]);
        ioctl(peer, FsctlCode::PIPE_TRANSCEIVE, open, &message, output)
    } else {
        peer.write_request(open, 0, &message)
    }
}

fn ioctl(
    peer: &Peer,
    ctl_code: FsctlCode,
    file_id: FileId,
    input: &[u8],
    max_output_response: u32,
) -> Request {
    let body = IoctlRequest {
        ctl_code,
        file_id,
        input,
        max_input_response: 0,
        output_count: 0,
        max_output_response,
        flags: IoctlFlags::all(),
    };
    peer.request(Command::IOCTL, &body)
}

/// Returns a call of any function, complete or one fragment of several.
fn call(random: &mut Random) -> Vec<u8> {
    // AllocHint, ContextId and Opnum: C706 12.6.4.9.
    let mut body = vec![0; 8];
    body[6] = random.one_of(&[0, 1, 15, 16, 21, 44, 57]);
    let stub_bytes = random.below(60);
    body.extend((0..stub_bytes).map(|_| random.one_of(&[0, 0, 0, 1, 2, 15, 255])));
    let mut message = pipe::fragment(0, &body);
    // PFC_FIRST_FRAG and PFC_LAST_FRAG.
    message[3] = random.one_of(&[3, 1, 2, 0]);
    message
}

fn any_input(random: &mut Random, opens: &[FileId]) -> Vec<u8> {
    let mut input = Vec::new();
    let small = |random: &mut Random| random.one_of(&[0, 1, 2, 3, 4, 5, 6, 7, 8]);
    match random.below(5) {
        0 => input = vec![0; random.below(70)],
        1 => {
            let chunks: Vec<_> = (0..random.below(3)).map(|_| chunk(random)).collect();
            CopyChunkCopy::encode(resume_key(one_open(random, opens)), &chunks, &mut input);
        }
        2 => DuplicateExtents {
            source_file_id: one_open(random, opens),
            source_file_offset: small(random),
            target_file_offset: small(random),
            byte_count: small(random),
        }
        .encode(&mut input),
        3 => NetworkResiliencyRequest { timeout: random.one_of(&[0, 5_000, u32::MAX]) }
            .encode(&mut input),
        _ => input = symbolic_link(),
    }
    input
}

fn chunk(random: &mut Random) -> CopyChunk {
    CopyChunk {
        source_offset: random.next_u64() % 9,
        target_offset: random.next_u64() % 9,
        length: random.one_of(&[0, 1, 4, 8]),
    }
}

/// Returns the key that the server gives for an open: its FileId.
fn resume_key(open: FileId) -> ResumeKey {
    let mut key = [0; 24];
    key[..8].copy_from_slice(&open.persistent.to_le_bytes());
    key[8..16].copy_from_slice(&open.volatile.to_le_bytes());
    ResumeKey(key)
}

fn symbolic_link() -> Vec<u8> {
    let (mut data, mut input) = (Vec::new(), Vec::new());
    let target = "a\\b".to_owned();
    SymbolicLinkReparse { substitute_name: target.clone(), print_name: target, is_relative: true }
        .encode(&mut data);
    ReparseData { tag: ReparseTag::SYMLINK, data: &data }.encode(&mut input);
    input
}

fn referral_request(path: &str) -> Vec<u8> {
    let mut input = Vec::new();
    DfsReferralRequest { max_referral_level: 3, request_file_name: path.to_owned() }
        .encode(&mut input);
    input
}
