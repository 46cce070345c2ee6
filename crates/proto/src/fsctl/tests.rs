//! FSCTLs, tested through requests and responses.

use std::sync::Arc;
use std::time::Duration;

use dtyp::{AccessMask, FileAttributes, FileTime, Guid, NtStatus};
use engine::effect::{Effect, Reply};
use model::now::Now;
use model::reject::Disconnect;
use model::settings::ServerSettings;
use object::{Metadata, ObjectOp, ObjectReply};
use testkit::Outcome;
use trace::Reason;
use wire::ioctl::{
    FsctlCode, IoctlFlags, IoctlRequest, IoctlResponse, SnapshotArray,
    ValidateNegotiateInfoRequest, ValidateNegotiateInfoResponse,
};
use wire::lock::{LockElement, LockFlags, LockRequest, Locks};
use wire::negotiate::{Capabilities, SecurityMode};
use wire::read::{READ_DATA_OFFSET, ReadRequest, ReadResponse};
use wire::{Codes, Command, Dialect, FileId};

use crate::scene::{Answer, CLIENT_GUID, FILES, PIPES, Scene, TRANSACT_MAX};

pub(super) fn request(ctl_code: FsctlCode, file_id: FileId, input: &[u8]) -> IoctlRequest<'_> {
    IoctlRequest {
        ctl_code,
        file_id,
        input,
        max_output_response: 1_024,
        flags: IoctlFlags::IS_FSCTL,
        ..IoctlRequest::default()
    }
}

#[track_caller]
fn ask(scene: &mut Scene, request: &IoctlRequest<'_>) -> Answer {
    scene.ask(Command::IOCTL, request)
}

pub(super) fn output(answer: &Answer) -> &[u8] {
    answer.body::<IoctlResponse<'_>>().output
}

/// Sends one request on a file, with an immediate response.
#[track_caller]
fn check(ctl_code: FsctlCode, input: &[u8], want: impl Into<Outcome>) {
    let want = want.into();
    let mut scene = Scene::new();
    let file_id = scene.open("f");
    assert_eq!(ask(&mut scene, &request(ctl_code, file_id, input)).outcome(), want);
}

/// Sends one request for the store, on a file opened with these rights.
#[track_caller]
fn check_access(ctl_code: FsctlCode, input: &[u8], access: AccessMask, granted: bool) {
    let mut scene = Scene::new();
    let file_id = scene.open_with("f", access, false);
    scene.send(Command::IOCTL, &request(ctl_code, file_id, input));
    assert_eq!(scene.server.poll_effect().is_some(), granted, "{access:?}");
    if !granted {
        let answer = scene.receive().expect("it is refused");
        assert_eq!(answer.outcome(), Reason::AccessNotGranted);
    }
}

fn offsets(first: i64, second: i64) -> Vec<u8> {
    [first.to_le_bytes(), second.to_le_bytes()].concat()
}

#[test]
fn a_request_that_is_no_fsctl_is_not_supported() {
    let mut scene = Scene::new();
    let file_id = scene.open("f");
    let fsctl = request(FsctlCode::GET_COMPRESSION, file_id, &[]);
    for flags in [IoctlFlags::empty(), IoctlFlags::from_bits_retain(3)] {
        let answer = ask(&mut scene, &IoctlRequest { flags, ..fsctl });
        assert_eq!(answer.outcome(), Reason::IoctlNotFsctl);
    }
}

#[test]
fn an_unknown_code_is_no_request_for_the_device() {
    for code in [
        FsctlCode(0x0009_FFFC),
        FsctlCode::DELETE_OBJECT_ID,
        FsctlCode::FILESYSTEM_GET_STATISTICS,
        FsctlCode::GET_NTFS_VOLUME_DATA,
        FsctlCode::OFFLOAD_READ,
        FsctlCode::OFFLOAD_WRITE,
        FsctlCode::QUERY_FILE_REGIONS,
        FsctlCode::SET_OBJECT_ID,
        FsctlCode::SET_OBJECT_ID_EXTENDED,
        FsctlCode::SRV_READ_HASH,
    ] {
        check(code, &[0; 64], Reason::UnknownFsctl);
    }
}

#[test]
fn the_open_is_looked_up_before_the_code() {
    let mut scene = Scene::new();
    let nobody = FileId { persistent: 1, volatile: 1 };
    for code in [FsctlCode(0x0009_FFFC), FsctlCode::GET_COMPRESSION] {
        let answer = ask(&mut scene, &request(code, nobody, &[]));
        assert_eq!(answer.outcome(), Reason::NoSuchOpen);
    }
}

#[test]
fn lengths_keep_to_max_transact_size_and_are_paid_for() {
    let mut scene = Scene::new();
    let file_id = scene.open("f");
    let fsctl = request(FsctlCode::GET_OBJECT_ID, file_id, &[]);
    let too_long = TRANSACT_MAX + 1;
    let refused = [
        (IoctlRequest { max_input_response: too_long, ..fsctl }, Reason::LengthAboveMax),
        (IoctlRequest { max_output_response: too_long, ..fsctl }, Reason::LengthAboveMax),
        // One credit covers 64 KiB.
        (IoctlRequest { max_output_response: 65_537, ..fsctl }, Reason::CreditChargeTooSmall),
    ];
    for (fsctl, want) in refused {
        assert_eq!(ask(&mut scene, &fsctl).outcome(), want);
    }
    let paid = IoctlRequest { max_output_response: 65_536, ..fsctl };
    assert_eq!(ask(&mut scene, &paid).outcome(), NtStatus::SUCCESS);
}

#[test]
fn output_that_does_not_fit_is_not_sent() {
    let mut scene = Scene::new();
    let file_id = scene.open("f");
    let fsctl = request(FsctlCode::CREATE_OR_GET_OBJECT_ID, file_id, &[]);
    for (max_output_response, want) in
        [(63, Reason::OutputBufferTooSmall), (64, Reason::NotRefused)]
    {
        let answer = ask(&mut scene, &IoctlRequest { max_output_response, ..fsctl });
        assert_eq!(answer.reason, want);
    }
}

#[test]
fn codes_without_an_open_may_not_name_one() {
    let mut scene = Scene::new();
    let file_id = scene.open("f");
    for code in [
        FsctlCode::DFS_GET_REFERRALS,
        FsctlCode::DFS_GET_REFERRALS_EX,
        FsctlCode::PIPE_WAIT,
        FsctlCode::QUERY_NETWORK_INTERFACE_INFO,
        FsctlCode::VALIDATE_NEGOTIATE_INFO,
    ] {
        let answer = ask(&mut scene, &request(code, file_id, &[]));
        assert_eq!(answer.outcome(), Reason::FileIdNotWanted, "{code:?}");
    }
}

#[test]
fn an_fsctl_that_is_not_offered_is_refused_as_in_windows() {
    let mut scene = Scene::new();
    for (code, want) in [
        (FsctlCode::DFS_GET_REFERRALS, Reason::DfsOff),
        (FsctlCode::DFS_GET_REFERRALS_EX, Reason::DfsOff),
        (FsctlCode::QUERY_NETWORK_INTERFACE_INFO, Reason::MultichannelNotNegotiated),
    ] {
        assert_eq!(ask(&mut scene, &request(code, FileId::ANY, &[])).outcome(), want);
    }
}

#[test]
fn an_fsctl_that_is_for_no_file_is_refused_for_every_file() {
    let mut scene = Scene::new();
    let file_id = scene.open("f");
    for code in [
        FsctlCode::GET_INTEGRITY_INFORMATION,
        FsctlCode::SET_INTEGRITY_INFORMATION,
        FsctlCode::SET_INTEGRITY_INFORMATION_EX,
    ] {
        let answer = ask(&mut scene, &request(code, file_id, &[0; 24]));
        assert_eq!(answer.outcome(), Reason::IntegrityNotOffered, "{code:?}");
        let answer = ask(&mut scene, &request(code, FileId::ANY, &[0; 24]));
        assert_eq!(answer.outcome(), Reason::NoSuchOpen, "{code:?}");
    }
}

/// Returns the parameters of the negotiation, as an honest client repeats them.
fn repeated(scene: &mut Scene) -> ValidateNegotiateInfoRequest<'static> {
    const DIALECTS: [Dialect; 3] = [Dialect::SMB_2_0_2, Dialect::SMB_2_1, Dialect::SMB_3_0];
    assert!(scene.server.inspect().connections.contains_key(&scene.connection));
    ValidateNegotiateInfoRequest {
        capabilities: Capabilities::LARGE_MTU,
        guid: CLIENT_GUID,
        security_mode: SecurityMode::SIGNING_ENABLED,
        dialects: Codes::new(&DIALECTS),
    }
}

fn validate(scene: &mut Scene, repetition: &ValidateNegotiateInfoRequest<'_>) -> Option<Answer> {
    let mut input = Vec::new();
    repetition.encode(&mut input);
    let fsctl = request(FsctlCode::VALIDATE_NEGOTIATE_INFO, FileId::ANY, &input);
    scene.send(Command::IOCTL, &fsctl);
    scene.receive()
}

#[test]
fn an_honest_negotiation_is_confirmed() {
    let mut scene = Scene::new();
    let repetition = repeated(&mut scene);
    let answer = validate(&mut scene, &repetition).expect("answered");
    assert_eq!(answer.outcome(), NtStatus::SUCCESS);
    let confirmed = ValidateNegotiateInfoResponse::decode(output(&answer)).expect("it is whole");
    let want = ValidateNegotiateInfoResponse {
        capabilities: Capabilities::LARGE_MTU,
        guid: Guid([8; 16]),
        security_mode: SecurityMode::SIGNING_ENABLED,
        dialect: Dialect::SMB_3_0,
    };
    assert_eq!(confirmed, want);
}

#[test]
fn a_changed_negotiation_ends_the_connection() {
    let more = [Dialect::SMB_3_0, Dialect::SMB_3_0_2];
    let none = [Dialect(0x0999)];
    let honest = repeated(&mut Scene::new());
    for repetition in [
        ValidateNegotiateInfoRequest { capabilities: Capabilities::all(), ..honest },
        ValidateNegotiateInfoRequest { guid: Guid([6; 16]), ..honest },
        ValidateNegotiateInfoRequest { security_mode: SecurityMode::SIGNING_REQUIRED, ..honest },
        ValidateNegotiateInfoRequest { dialects: Codes::new(&more), ..honest },
        ValidateNegotiateInfoRequest { dialects: Codes::new(&none), ..honest },
    ] {
        let mut scene = Scene::new();
        assert!(validate(&mut scene, &repetition).is_none());
        assert_eq!(scene.disconnected(), Some(Disconnect::NegotiationChanged), "{repetition:?}");
        assert!(scene.server.is_idle());
    }
}

#[test]
fn a_validation_that_is_cut_short_or_has_no_room_ends_the_connection() {
    let mut input = Vec::new();
    repeated(&mut Scene::new()).encode(&mut input);
    let whole = request(FsctlCode::VALIDATE_NEGOTIATE_INFO, FileId::ANY, &input);
    let cut = IoctlRequest { input: &input[..input.len() - 1], ..whole };
    let tight = IoctlRequest { max_output_response: 23, ..whole };
    for fsctl in [cut, tight] {
        let mut scene = Scene::new();
        scene.send(Command::IOCTL, &fsctl);
        assert!(scene.receive().is_none());
        assert_eq!(scene.disconnected(), Some(Disconnect::NegotiationChanged));
    }
}

#[test]
fn a_3_1_1_client_that_validates_loses_its_connection() {
    let mut scene = Scene::with_dialect(Dialect::SMB_3_1_1);
    let repetition = repeated(&mut scene);
    assert!(validate(&mut scene, &repetition).is_none());
    assert_eq!(scene.disconnected(), Some(Disconnect::ValidationNotWanted));
}

/// Returns the bind of a client for srvsvc.
fn bind() -> Vec<u8> {
    let mut bind = vec![5, 0, 11, 3, 0x10, 0, 0, 0, 72, 0, 0, 0, 1, 0, 0, 0];
    bind.extend_from_slice(&[0xB8, 0x10, 0xB8, 0x10, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0]);
    // 4b324fc8-1670-01d3-1278-5a47bf6ee188, version 3.0; NDR, version 2.
    bind.extend_from_slice(&[0xC8, 0x4F, 0x32, 0x4B, 0x70, 0x16, 0xD3, 0x01]);
    bind.extend_from_slice(&[0x12, 0x78, 0x5A, 0x47, 0xBF, 0x6E, 0xE1, 0x88, 3, 0, 0, 0]);
    bind.extend_from_slice(&[0x04, 0x5D, 0x88, 0x8A, 0xEB, 0x1C, 0xC9, 0x11]);
    bind.extend_from_slice(&[0x9F, 0xE8, 0x08, 0x00, 0x2B, 0x10, 0x48, 0x60, 2, 0, 0, 0]);
    bind
}

/// Packet type of an accepted bind.
const BIND_ACK: u8 = 12;

#[test]
fn a_pipe_answers_a_transceive_in_one_exchange() {
    let mut scene = Scene::new();
    let pipe = scene.open_pipe("srvsvc");
    let bind = bind();
    let fsctl = request(FsctlCode::PIPE_TRANSCEIVE, pipe, &bind);
    let answer = scene.ask_in(PIPES, Command::IOCTL, &fsctl);
    assert_eq!(answer.outcome(), NtStatus::SUCCESS);
    assert_eq!(output(&answer)[2], BIND_ACK);
    // The pipe has no data left to read, and no response to wait for.
    let empty = IoctlRequest { input: &[], ..fsctl };
    let answer = scene.ask_in(PIPES, Command::IOCTL, &empty);
    assert_eq!(answer.outcome(), Reason::PipeEmpty);
}

#[test]
fn a_part_of_a_pipes_answer_overflows_and_the_rest_is_for_read() {
    let mut scene = Scene::new();
    let pipe = scene.open_pipe("srvsvc");
    let bind = bind();
    let fsctl = request(FsctlCode::PIPE_TRANSCEIVE, pipe, &bind);
    let short = IoctlRequest { max_output_response: 10, ..fsctl };
    let answer = scene.ask_in(PIPES, Command::IOCTL, &short);
    assert_eq!(answer.outcome(), NtStatus::BUFFER_OVERFLOW);
    assert_eq!(output(&answer).len(), 10);
    let answer = scene.ask_in(PIPES, Command::IOCTL, &fsctl);
    assert_eq!(answer.outcome(), Reason::PipeBusy);
    let read = ReadRequest { length: 1_000, file_id: pipe, ..ReadRequest::default() };
    let answer = scene.ask_in(PIPES, Command::READ, &read);
    assert_eq!(answer.outcome(), NtStatus::SUCCESS);
}

#[test]
fn a_peek_leaves_the_data_in_the_pipe() {
    let mut scene = Scene::new();
    let pipe = scene.open_pipe("srvsvc");
    let peek = request(FsctlCode::PIPE_PEEK, pipe, &[]);
    let figures = |answer: &Answer| -> Vec<u32> {
        let (figures, _) = output(answer).as_chunks::<4>();
        figures.iter().take(4).map(|figure| u32::from_le_bytes(*figure)).collect()
    };
    let answer = scene.ask_in(PIPES, Command::IOCTL, &peek);
    assert_eq!((answer.status(), figures(&answer)), (NtStatus::SUCCESS, vec![3, 0, 0, 0]));
    let bind = bind();
    let write = wire::write::WriteRequest::new(pipe, 0, &bind);
    assert_eq!(scene.ask_in(PIPES, Command::WRITE, &write).outcome(), NtStatus::SUCCESS);
    for _ in 0..2 {
        let answer = scene.ask_in(PIPES, Command::IOCTL, &peek);
        let whole = u32::try_from(output(&answer).len() - 16).expect("it is short");
        assert_eq!(
            (answer.status(), figures(&answer)),
            (NtStatus::SUCCESS, vec![3, whole, 1, whole])
        );
        let part = IoctlRequest { max_output_response: 20, ..peek };
        let answer = scene.ask_in(PIPES, Command::IOCTL, &part);
        assert_eq!((answer.status(), output(&answer).len()), (NtStatus::BUFFER_OVERFLOW, 20));
    }
    let tight = IoctlRequest { max_output_response: 15, ..peek };
    let answer = scene.ask_in(PIPES, Command::IOCTL, &tight);
    assert_eq!(answer.outcome(), Reason::OutputBufferTooSmall);
}

#[test]
fn a_pipe_that_there_is_need_not_be_waited_for() {
    let mut scene = Scene::new();
    for (tree_id, name, want) in [
        (PIPES, "srvsvc", Reason::NotRefused),
        (PIPES, "nothing", Reason::NoSuchPipe),
        (FILES, "srvsvc", Reason::NotOnFiles),
    ] {
        let name = dtyp::utf16::to_bytes(name);
        let mut input = Vec::new();
        wire::ioctl::PipeWait { timeout: None, name: &name }.encode(&mut input);
        let fsctl = request(FsctlCode::PIPE_WAIT, FileId::ANY, &input);
        assert_eq!(scene.ask_in(tree_id, Command::IOCTL, &fsctl).reason, want);
    }
    let cut = request(FsctlCode::PIPE_WAIT, FileId::ANY, &[0; 13]);
    let answer = scene.ask_in(PIPES, Command::IOCTL, &cut);
    assert_eq!(answer.reason, Reason::FsctlInputInvalid);
}

#[test]
fn files_are_no_pipes_and_pipes_no_files() {
    check(FsctlCode::PIPE_TRANSCEIVE, b"x", Reason::NotOnFiles);
    check(FsctlCode::PIPE_PEEK, &[], Reason::NotOnFiles);
    let mut scene = Scene::new();
    let pipe = scene.open_pipe("srvsvc");
    for code in [
        FsctlCode::CREATE_OR_GET_OBJECT_ID,
        FsctlCode::FILE_LEVEL_TRIM,
        FsctlCode::GET_COMPRESSION,
        FsctlCode::GET_OBJECT_ID,
        FsctlCode::QUERY_ALLOCATED_RANGES,
        FsctlCode::SET_COMPRESSION,
        FsctlCode::SET_SPARSE,
        FsctlCode::SET_ZERO_DATA,
        FsctlCode::SRV_ENUMERATE_SNAPSHOTS,
        FsctlCode::SRV_REQUEST_RESUME_KEY,
    ] {
        let answer = scene.ask_in(PIPES, Command::IOCTL, &request(code, pipe, &[0; 32]));
        assert_eq!(answer.outcome(), Reason::NotOnPipes, "{code:?}");
    }
}

#[test]
fn a_file_becomes_sparse_unless_the_client_says_otherwise() {
    for (input, want) in [(&[][..], true), (&[1], true), (&[0], false), (&[0, 1], false)] {
        let mut scene = Scene::new();
        let file_id = scene.open("f");
        scene.send(Command::IOCTL, &request(FsctlCode::SET_SPARSE, file_id, input));
        let (id, op) = scene.op();
        let ObjectOp::SetSparse { sparse, .. } = op else { panic!("{op:?}") };
        assert_eq!(sparse, want, "{input:?}");
        scene.reply(id, Ok(ObjectReply::Done));
        assert_eq!(scene.receive().expect("answered").outcome(), NtStatus::SUCCESS);
    }
}

#[test]
fn sparse_files_ask_for_the_right_rights() {
    let code = FsctlCode::SET_SPARSE;
    for access in [AccessMask::WRITE_DATA, AccessMask::APPEND_DATA, AccessMask::WRITE_ATTRIBUTES] {
        check_access(code, &[], access, true);
    }
    check_access(code, &[], AccessMask::READ_DATA | AccessMask::WRITE_EA, false);
    let code = FsctlCode::SET_ZERO_DATA;
    check_access(code, &offsets(0, 1), AccessMask::WRITE_DATA, true);
    check_access(code, &offsets(0, 1), AccessMask::APPEND_DATA, false);
    let code = FsctlCode::QUERY_ALLOCATED_RANGES;
    check_access(code, &offsets(0, 1), AccessMask::READ_DATA, true);
    check_access(code, &offsets(0, 1), AccessMask::WRITE_DATA, false);
}

#[test]
fn directories_have_no_ranges() {
    let mut scene = Scene::new();
    let directory = scene.open_directory("d");
    for code in [
        FsctlCode::FILE_LEVEL_TRIM,
        FsctlCode::QUERY_ALLOCATED_RANGES,
        FsctlCode::SET_SPARSE,
        FsctlCode::SET_ZERO_DATA,
    ] {
        let answer = ask(&mut scene, &request(code, directory, &[0; 32]));
        assert_eq!(answer.outcome(), Reason::NotOnDirectories, "{code:?}");
    }
}

#[test]
fn ranges_must_make_sense() {
    for code in [FsctlCode::SET_ZERO_DATA, FsctlCode::QUERY_ALLOCATED_RANGES] {
        check(code, &offsets(-1, 1), Reason::OffsetNegative);
        check(code, &offsets(0, -1), Reason::OffsetNegative);
        check(code, &[0; 15], Reason::FsctlInputInvalid);
        check(code, &[], Reason::FsctlInputInvalid);
    }
    check(FsctlCode::SET_ZERO_DATA, &offsets(2, 1), Reason::RangeReversed);
    check(FsctlCode::QUERY_ALLOCATED_RANGES, &offsets(i64::MAX, 1), Reason::RangeBeyondMax);
}

#[test]
fn a_range_that_another_open_has_locked_is_not_zeroed() {
    let mut scene = Scene::new();
    let (holder, file_id) = (scene.open("f"), scene.open("f"));
    let elements = [LockElement { offset: 5, length: 1, flags: LockFlags::SHARED_LOCK }];
    let lock = LockRequest { lock_sequence: 0, file_id: holder, locks: Locks::new(&elements) };
    assert_eq!(scene.ask(Command::LOCK, &lock).outcome(), NtStatus::SUCCESS);
    let (apart, touching) = (offsets(0, 5), offsets(0, 6));
    let answer = ask(&mut scene, &request(FsctlCode::SET_ZERO_DATA, file_id, &touching));
    assert_eq!(answer.outcome(), Reason::FileLockConflict);
    scene.send(Command::IOCTL, &request(FsctlCode::SET_ZERO_DATA, file_id, &apart));
    let (id, op) = scene.op();
    assert!(matches!(op, ObjectOp::ZeroRange { from: 0, to: 5, .. }), "{op:?}");
    scene.reply(id, Ok(ObjectReply::Done));
    assert_eq!(scene.receive().expect("answered").outcome(), NtStatus::SUCCESS);
}

/// Queries the ranges of a file that has two, with room for this number of bytes.
fn allocated_ranges(max_output_response: u32) -> Answer {
    let mut scene = Scene::new();
    let file_id = scene.open("f");
    let input = offsets(0, 100);
    let fsctl = request(FsctlCode::QUERY_ALLOCATED_RANGES, file_id, &input);
    scene.send(Command::IOCTL, &IoctlRequest { max_output_response, ..fsctl });
    let (id, op) = scene.op();
    let ObjectOp::AllocatedRanges { from: 0, to: 100, ranges_max, .. } = op else {
        panic!("{op:?}");
    };
    let ranges = [(0, 10), (20, 10)];
    let wanted = usize::try_from(ranges_max).expect("it is small");
    let ranges = ranges.into_iter().take(wanted).collect();
    scene.reply(id, Ok(ObjectReply::Ranges(ranges)));
    scene.receive().expect("answered")
}

#[test]
fn ranges_that_do_not_fit_are_left_out() {
    for (room, want, bytes) in [
        (15, Outcome::Refused(Reason::OutputBufferTooSmall), 0),
        (16, Outcome::Status(NtStatus::BUFFER_OVERFLOW), 16),
        (31, Outcome::Status(NtStatus::BUFFER_OVERFLOW), 16),
        (32, Outcome::SUCCESS, 32),
    ] {
        let answer = allocated_ranges(room);
        assert_eq!(answer.outcome(), want, "{room}");
        if bytes > 0 {
            let ranges = [[0, 10], [20, 10]].concat();
            let want: Vec<u8> = ranges.into_iter().flat_map(u64::to_le_bytes).take(bytes).collect();
            assert_eq!(output(&answer), want);
        }
    }
}

#[test]
fn no_bytes_have_no_ranges() {
    check(FsctlCode::QUERY_ALLOCATED_RANGES, &offsets(5, 0), NtStatus::SUCCESS);
}

#[test]
fn how_a_file_is_compressed_says_its_attribute() {
    for (attributes, want) in
        [(FileAttributes::NORMAL, [0, 0]), (FileAttributes::COMPRESSED, [2, 0])]
    {
        let mut scene = Scene::new();
        let file_id = scene.open("f");
        scene.send(Command::IOCTL, &request(FsctlCode::GET_COMPRESSION, file_id, &[]));
        let (id, op) = scene.op();
        assert!(matches!(op, ObjectOp::QueryMetadata { .. }), "{op:?}");
        let metadata = Metadata { attributes, ..Metadata::default() };
        scene.reply(id, Ok(ObjectReply::Metadata(Box::new(metadata))));
        let answer = scene.receive().expect("answered");
        assert_eq!((answer.status(), output(&answer)), (NtStatus::SUCCESS, &want[..]));
    }
    let mut scene = Scene::new();
    let file_id = scene.open("f");
    let tight = IoctlRequest {
        max_output_response: 1,
        ..request(FsctlCode::GET_COMPRESSION, file_id, &[])
    };
    assert_eq!(ask(&mut scene, &tight).outcome(), Reason::FsctlOutputTooSmall);
}

#[test]
fn a_file_is_compressed_in_the_formats_that_there_are() {
    for (input, want) in [([0, 0], false), ([1, 0], true), ([2, 0], true)] {
        let mut scene = Scene::new();
        let file_id = scene.open("f");
        scene.send(Command::IOCTL, &request(FsctlCode::SET_COMPRESSION, file_id, &input));
        let (id, op) = scene.op();
        let ObjectOp::SetCompression { compressed, .. } = op else { panic!("{op:?}") };
        assert_eq!(compressed, want, "{input:?}");
        scene.reply(id, Err(NtStatus::NOT_SUPPORTED));
        assert_eq!(scene.receive().expect("answered").outcome(), NtStatus::NOT_SUPPORTED);
    }
    check(FsctlCode::SET_COMPRESSION, &[3, 0], Reason::CompressionFormatUnknown);
    check(FsctlCode::SET_COMPRESSION, &[0], Reason::FsctlInputInvalid);
    check(FsctlCode::SET_COMPRESSION, &[], Reason::FsctlInputInvalid);
    let code = FsctlCode::SET_COMPRESSION;
    check_access(code, &[1, 0], AccessMask::WRITE_DATA, true);
    check_access(code, &[1, 0], AccessMask::READ_DATA | AccessMask::WRITE_ATTRIBUTES, false);
}

fn trim(key: u32, count: u32, ranges: &[(i64, i64)]) -> Vec<u8> {
    let head = [key.to_le_bytes(), count.to_le_bytes()].concat();
    let ranges = ranges.iter().flat_map(|&(offset, length)| offsets(offset, length));
    head.into_iter().chain(ranges).collect()
}

#[test]
fn a_trim_gives_its_ranges_back_one_by_one() {
    for (max_output_response, want) in [(0, &[][..]), (4, &[2, 0, 0, 0])] {
        let mut scene = Scene::new();
        let file_id = scene.open("f");
        let two = trim(0, 2, &[(0, 1), (5, 5)]);
        let fsctl = request(FsctlCode::FILE_LEVEL_TRIM, file_id, &two);
        scene.send(Command::IOCTL, &IoctlRequest { max_output_response, ..fsctl });
        for range in [(0, 1), (5, 10)] {
            let (id, op) = scene.op();
            let ObjectOp::Trim { from, to, .. } = op else { panic!("{op:?}") };
            assert_eq!((from, to), range);
            scene.reply(id, Ok(ObjectReply::Done));
        }
        let answer = scene.receive().expect("answered");
        assert_eq!((answer.status(), output(&answer)), (NtStatus::SUCCESS, want));
    }
}

#[test]
fn a_trim_that_makes_no_sense_is_refused() {
    for (input, want) in [
        (trim(0, 0, &[]), Reason::FsctlInputInvalid),
        (trim(0, 2, &[(0, 1)]), Reason::FsctlInputInvalid),
        (trim(0, u32::MAX, &[(0, 1)]), Reason::FsctlInputInvalid),
        (trim(1, 1, &[(0, 1)]), Reason::FsctlInputInvalid),
        (trim(0, 1, &[(-1, 1)]), Reason::OffsetNegative),
        (trim(0, 1, &[(i64::MAX, 1)]), Reason::RangeBeyondMax),
        (vec![0; 7], Reason::FsctlInputInvalid),
    ] {
        check(FsctlCode::FILE_LEVEL_TRIM, &input, want);
    }
    let one = trim(0, 1, &[(0, 1)]);
    check_access(FsctlCode::FILE_LEVEL_TRIM, &one, AccessMask::WRITE_DATA, true);
    check_access(FsctlCode::FILE_LEVEL_TRIM, &one, AccessMask::APPEND_DATA, false);
}

#[test]
fn a_range_locked_by_another_open_is_not_trimmed() {
    let mut scene = Scene::new();
    let (holder, file_id) = (scene.open("f"), scene.open("f"));
    let elements = [LockElement { offset: 5, length: 1, flags: LockFlags::SHARED_LOCK }];
    let lock = LockRequest { lock_sequence: 0, file_id: holder, locks: Locks::new(&elements) };
    assert_eq!(scene.ask(Command::LOCK, &lock).outcome(), NtStatus::SUCCESS);
    let input = trim(0, 1, &[(0, 6)]);
    let answer = ask(&mut scene, &request(FsctlCode::FILE_LEVEL_TRIM, file_id, &input));
    assert_eq!(answer.outcome(), Reason::FileLockConflict);
}

#[test]
fn an_object_id_is_the_files_own() {
    let mut scene = Scene::new();
    let opens = [
        ("f", FsctlCode::CREATE_OR_GET_OBJECT_ID),
        ("f", FsctlCode::GET_OBJECT_ID),
        ("g", FsctlCode::GET_OBJECT_ID),
    ];
    let [one, same, other] = opens.map(|(path, code)| {
        let file_id = scene.open(path);
        let fsctl = request(code, file_id, &[]);
        output(&scene.ask(Command::IOCTL, &fsctl)).to_vec()
    });
    assert_eq!((one.len(), &one), (64, &same));
    assert_ne!(one[..16], other[..16]);
}

/// Lists the snapshots of a file, with room for this number of bytes.
fn snapshots(max_output_response: u32, found: &[FileTime]) -> Answer {
    let mut scene = Scene::new();
    let file_id = scene.open("f");
    let fsctl = request(FsctlCode::SRV_ENUMERATE_SNAPSHOTS, file_id, &[]);
    scene.send(Command::IOCTL, &IoctlRequest { max_output_response, ..fsctl });
    if let Some(answer) = scene.receive() {
        return answer;
    }
    let (id, op) = scene.op();
    assert!(matches!(op, ObjectOp::ListSnapshots { .. }), "{op:?}");
    scene.reply(id, Ok(ObjectReply::Snapshots(found.to_vec())));
    scene.receive().expect("answered")
}

#[test]
fn snapshots_are_counted_and_listed_if_there_is_room() {
    let found = [FileTime::from_unix(2, 0), FileTime::from_unix(1, 0)];
    assert_eq!(snapshots(15, &found).outcome(), Reason::FsctlOutputTooSmall);
    for (room, listed) in [(16, &[][..]), (113, &[]), (114, &found)] {
        let answer = snapshots(room, &found);
        assert_eq!(answer.outcome(), NtStatus::SUCCESS);
        let array = SnapshotArray::decode(output(&answer)).expect("it is whole");
        let counts = (array.number_of_snapshots, array.snapshot_array_size);
        assert_eq!((counts, &array.snapshots[..]), ((2, 102), listed), "{room}");
    }
    let answer = snapshots(16, &[]);
    assert_eq!((answer.status(), output(&answer)), (NtStatus::SUCCESS, &[0; 16][..]));
}

#[test]
fn hooks_for_tests_are_unknown_codes_until_they_are_allowed() {
    let ioctl = FsctlCode::SMBTORTURE_IOCTL_RESPONSE_BODY_PADDING8;
    let read = FsctlCode::SMBTORTURE_GLOBAL_READ_RESPONSE_BODY_PADDING8;
    let mut scene = Scene::new();
    for code in [ioctl, read] {
        let answer = ask(&mut scene, &request(code, FileId::ANY, &[]));
        assert_eq!(answer.outcome(), Reason::UnknownFsctl);
    }
    let mut settings = ServerSettings::clone(&scene.server.inspect().globals.settings);
    settings.smbtorture_hooks = true;
    scene.server.inspect().globals.settings = Arc::new(settings);
    let answer = ask(&mut scene, &request(ioctl, FileId::ANY, &[]));
    assert_eq!(output(&answer), [8; 1_024]);
    let answer = ask(&mut scene, &request(read, FileId::ANY, &[1]));
    assert_eq!(answer.outcome(), Reason::FsctlInputInvalid, "it has no input");

    let file_id = scene.open("f");
    let length = 3;
    for offset in [READ_DATA_OFFSET, READ_DATA_OFFSET + 8] {
        scene.send(Command::READ, &ReadRequest { file_id, length, ..ReadRequest::default() });
        let (id, op) = scene.op();
        let ObjectOp::Read { mut buffer, .. } = op else { panic!("it reads") };
        buffer.extend_from_slice(b"abc");
        scene.reply(id, Ok(ObjectReply::Read(buffer)));
        let answer = scene.receive().expect("it was read");
        assert_eq!(answer.message[wire::header::SIZE + 2], offset);
        assert_eq!(answer.body::<ReadResponse<'_>>().data, b"abc");
        ask(&mut scene, &request(read, FileId::ANY, &[]));
    }
}

#[test]
fn a_test_may_have_an_open_busy_for_a_while() {
    let sleep = FsctlCode::SMBTORTURE_FSP_ASYNC_SLEEP;
    let mut scene = Scene::new();
    let file_id = scene.open("f");
    let answer = ask(&mut scene, &request(sleep, file_id, &[200]));
    assert_eq!(answer.outcome(), Reason::UnknownFsctl, "hooks are off");
    let mut settings = ServerSettings::clone(&scene.server.inspect().globals.settings);
    settings.smbtorture_hooks = true;
    scene.server.inspect().globals.settings = Arc::new(settings);
    for input in [&[][..], &[1, 2]] {
        let answer = ask(&mut scene, &request(sleep, file_id, input));
        assert_eq!(answer.outcome(), Reason::FsctlInputInvalid);
    }
    scene.send(Command::IOCTL, &request(sleep, file_id, &[200]));
    let (id, effect) = scene.server.poll_effect().expect("it sleeps");
    assert!(matches!(effect, Effect::Sleep(time) if time == Duration::from_millis(200)));
    let id = id.expect("it waits for that");
    scene.server.handle_reply(Now::default(), id, Reply::Woken);
    assert_eq!(scene.receive().expect("it is over").outcome(), NtStatus::SUCCESS);
}
