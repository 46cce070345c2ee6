//! Server-side copies, tested through requests and responses.

use dtyp::{AccessMask, NtStatus};
use object::{ObjectOp, ObjectReply};
use testkit::Outcome;
use trace::Reason;
use wire::ioctl::{
    CopyChunk, CopyChunkCopy, CopyChunkResponse, FsctlCode, IoctlRequest, RequestResumeKeyResponse,
    ResumeKey,
};
use wire::lock::{LockElement, LockFlags, LockRequest, Locks};
use wire::{Command, FileId};

use super::{CHUNK_BYTES_MAX, CHUNKS_MAX, LIMITS};
use crate::fsctl::tests::{output, request};
use crate::scene::{Answer, Scene, metadata_of};

const COPY: FsctlCode = FsctlCode::SRV_COPYCHUNK;
const COPY_WRITE: FsctlCode = FsctlCode::SRV_COPYCHUNK_WRITE;

#[track_caller]
fn resume_key(scene: &mut Scene, file_id: FileId) -> ResumeKey {
    let fsctl = request(FsctlCode::SRV_REQUEST_RESUME_KEY, file_id, &[]);
    let answer = scene.ask(Command::IOCTL, &fsctl);
    assert_eq!(answer.outcome(), NtStatus::SUCCESS);
    RequestResumeKeyResponse::decode(output(&answer)).expect("it is whole").resume_key
}

fn chunk(source_offset: u64, target_offset: u64, length: u32) -> CopyChunk {
    CopyChunk { source_offset, target_offset, length }
}

fn input(key: ResumeKey, chunks: &[CopyChunk]) -> Vec<u8> {
    let mut input = Vec::new();
    CopyChunkCopy::encode(key, chunks, &mut input);
    input
}

fn send(scene: &mut Scene, code: FsctlCode, target: FileId, input: &[u8]) {
    scene.send(Command::IOCTL, &request(code, target, input));
}

#[track_caller]
fn answered(answer: &Answer) -> (Outcome, CopyChunkResponse) {
    (answer.outcome(), CopyChunkResponse::decode(output(answer)).expect("it is whole"))
}

fn written(chunks_written: u32, chunk_bytes_written: u32, total: u32) -> CopyChunkResponse {
    CopyChunkResponse { chunks_written, chunk_bytes_written, total_bytes_written: total }
}

/// Copies from a file of this size. The store copies every range.
fn copy(scene: &mut Scene, opens: (FileId, FileId), size: u64, chunks: &[CopyChunk]) -> Answer {
    let key = resume_key(scene, opens.0);
    send(scene, COPY, opens.1, &input(key, chunks));
    let (id, op) = scene.op();
    assert!(matches!(op, ObjectOp::QueryMetadata { .. }), "{op:?}");
    scene.reply(id, Ok(metadata_of(size)));
    let mut copied = Vec::new();
    loop {
        if let Some(answer) = scene.receive() {
            assert_eq!(copied[..], chunks[..copied.len()], "in the order of the client");
            return answer;
        }
        let (id, op) = scene.op();
        let ObjectOp::CopyRange { source_offset, target_offset, length, .. } = op else {
            panic!("{op:?}");
        };
        copied.push(chunk(source_offset, target_offset, length));
        scene.reply(id, Ok(ObjectReply::Written(length.into())));
    }
}

fn two_files() -> (Scene, (FileId, FileId)) {
    let mut scene = Scene::new();
    let opens = (scene.open("source"), scene.open("target"));
    (scene, opens)
}

#[test]
fn ranges_are_copied_one_after_the_other() {
    let (mut scene, opens) = two_files();
    let chunks = [chunk(0, 100, 10), chunk(50, 0, 50), chunk(0, 5, 1)];
    let answer = copy(&mut scene, opens, 100, &chunks);
    assert_eq!(answered(&answer), (Outcome::SUCCESS, written(3, 0, 61)));
}

#[test]
fn a_copy_of_nothing_succeeds() {
    let (mut scene, (source, target)) = two_files();
    let key = resume_key(&mut scene, source);
    send(&mut scene, COPY, target, &input(key, &[]));
    let answer = scene.receive().expect("answered at once");
    assert_eq!(answered(&answer), (Outcome::SUCCESS, written(0, 0, 0)));
}

#[test]
fn a_range_beyond_the_source_stops_the_copy() {
    let (mut scene, opens) = two_files();
    let chunks = [chunk(0, 0, 100), chunk(1, 0, 100)];
    let answer = copy(&mut scene, opens, 100, &chunks);
    assert_eq!(answered(&answer), (Reason::CopySourceTooShort.into(), written(1, 0, 100)));
}

#[test]
fn a_file_that_is_copied_behind_itself_grows_for_the_ranges_that_follow() {
    let mut scene = Scene::new();
    let opens = (scene.open("file"), scene.open("file"));
    let chunks = [chunk(0, 100, 100), chunk(100, 200, 100)];
    let answer = copy(&mut scene, opens, 100, &chunks);
    assert_eq!(answered(&answer), (Outcome::SUCCESS, written(2, 0, 200)));
}

#[test]
fn a_source_that_shrinks_meanwhile_stops_the_copy() {
    let (mut scene, (source, target)) = two_files();
    let key = resume_key(&mut scene, source);
    send(&mut scene, COPY, target, &input(key, &[chunk(0, 0, 100)]));
    let (id, _) = scene.op();
    scene.reply(id, Ok(metadata_of(100)));
    let (id, _) = scene.op();
    scene.reply(id, Ok(ObjectReply::Written(30)));
    let answer = scene.receive().expect("answered");
    assert_eq!(answered(&answer), (Reason::CopySourceTooShort.into(), written(0, 30, 30)));
}

#[test]
fn the_stores_refusal_has_the_progress_of_the_copy() {
    let (mut scene, (source, target)) = two_files();
    let key = resume_key(&mut scene, source);
    send(&mut scene, COPY, target, &input(key, &[chunk(0, 0, 10), chunk(0, 0, 10)]));
    let (id, _) = scene.op();
    scene.reply(id, Ok(metadata_of(100)));
    let (id, _) = scene.op();
    scene.reply(id, Ok(ObjectReply::Written(10)));
    let (id, _) = scene.op();
    scene.reply(id, Err(NtStatus::DISK_FULL));
    let answer = scene.receive().expect("answered");
    assert_eq!(answered(&answer), (NtStatus::DISK_FULL.into(), written(1, 0, 10)));
}

/// Sends a copy that is refused before it reaches the store.
#[track_caller]
fn refused(scene: &mut Scene, code: FsctlCode, target: FileId, input: &[u8]) -> Answer {
    send(scene, code, target, input);
    assert!(scene.server.poll_effect().is_none());
    scene.receive().expect("it is refused")
}

#[test]
fn a_request_beyond_the_limits_is_answered_with_the_limits() {
    let (mut scene, (source, target)) = two_files();
    let key = resume_key(&mut scene, source);
    let count = usize::try_from(CHUNKS_MAX).expect("it is small");
    let mut cut = input(key, &[chunk(0, 0, 1)]);
    cut.pop();
    for input in [
        input(key, &vec![chunk(0, 0, 1); count + 1]),
        input(key, &[chunk(0, 0, CHUNK_BYTES_MAX + 1)]),
        input(key, &[chunk(0, 0, 0)]),
        input(key, &[chunk(0, 0, CHUNK_BYTES_MAX); 17]),
        cut,
    ] {
        let answer = refused(&mut scene, COPY, target, &input);
        assert_eq!(answered(&answer), (Reason::CopyAboveLimits.into(), LIMITS));
    }
    let most = [chunk(0, 0, CHUNK_BYTES_MAX); 16];
    let answer = copy(&mut scene, (source, target), CHUNK_BYTES_MAX.into(), &most);
    assert_eq!(answered(&answer), (Outcome::SUCCESS, written(16, 0, 16 * CHUNK_BYTES_MAX)));
    let many = vec![chunk(0, 0, 1); count];
    let answer = copy(&mut scene, (source, target), 1, &many);
    assert_eq!(answered(&answer), (Outcome::SUCCESS, written(CHUNKS_MAX, 0, CHUNKS_MAX)));
}

#[test]
fn an_answer_without_room_is_invalid() {
    let (mut scene, (source, target)) = two_files();
    let key = resume_key(&mut scene, source);
    let input = input(key, &[chunk(0, 0, 1)]);
    let tight = IoctlRequest { max_output_response: 11, ..request(COPY, target, &input) };
    let answer = scene.ask(Command::IOCTL, &tight);
    assert_eq!(answer.outcome(), Reason::FsctlOutputTooSmall);
    let key = request(FsctlCode::SRV_REQUEST_RESUME_KEY, source, &[]);
    let tight = IoctlRequest { max_output_response: 31, ..key };
    assert_eq!(scene.ask(Command::IOCTL, &tight).outcome(), Reason::FsctlOutputTooSmall);
}

#[test]
fn a_key_that_names_no_open_of_the_session_is_not_found() {
    let (mut scene, (source, target)) = two_files();
    let key = resume_key(&mut scene, source);
    assert_eq!(resume_key(&mut scene, source), key);
    let (mut other, mut tail) = (key, key);
    other.0[0] ^= 1;
    tail.0[23] ^= 1;
    for key in [other, tail] {
        let answer = refused(&mut scene, COPY, target, &input(key, &[chunk(0, 0, 1)]));
        assert_eq!(answer.outcome(), Reason::NoSuchCopySource);
    }
    let open = scene.server.inspect().opens.get_mut(&source.volatile).expect("it is open");
    open.session_id += 1;
    let answer = refused(&mut scene, COPY, target, &input(key, &[chunk(0, 0, 1)]));
    assert_eq!(answer.outcome(), Reason::NoSuchCopySource);
    let open = scene.server.inspect().opens.get_mut(&source.volatile).expect("it is open");
    open.session_id -= 1;
    // An open on another share of the same session is a valid source.
    open.tree_id += 1_000;
    let answer = copy(&mut scene, (target, target), 1, &[chunk(0, 0, 1)]);
    assert_eq!(answer.outcome(), NtStatus::SUCCESS);
    send(&mut scene, COPY, target, &input(key, &[chunk(0, 0, 1)]));
    let (id, _) = scene.op();
    scene.server.inspect().opens.remove(&source.volatile);
    scene.reply(id, Ok(metadata_of(1)));
    let answer = scene.receive().expect("answered");
    assert_eq!(answered(&answer), (Reason::NoSuchOpen.into(), written(0, 0, 0)));
}

/// Compares whether opens with these rights permit a copy.
#[track_caller]
fn check_access(code: FsctlCode, source: AccessMask, target: AccessMask, granted: bool) {
    let mut scene = Scene::new();
    let source = scene.open_with("source", source, false);
    let target = scene.open_with("target", target, false);
    let key = resume_key(&mut scene, source);
    send(&mut scene, code, target, &input(key, &[chunk(0, 0, 1)]));
    assert_eq!(scene.server.poll_effect().is_some(), granted);
    if !granted {
        let answer = scene.receive().expect("it is refused");
        assert_eq!(answer.outcome(), Reason::AccessNotGranted);
    }
}

#[test]
fn a_copy_reads_its_source_and_writes_its_target() {
    let (read, write) = (AccessMask::READ_DATA, AccessMask::WRITE_DATA);
    check_access(COPY, read, read | write, true);
    check_access(COPY, AccessMask::EXECUTE, read | write, true);
    check_access(COPY, write, read | write, false);
    check_access(COPY, read, read, false);
    // The first of the two codes reads its target, too.
    check_access(COPY, read, write, false);
    check_access(COPY, read, AccessMask::EXECUTE | write, false);
    check_access(COPY_WRITE, read, write, true);
    check_access(COPY_WRITE, read, read, false);
    check_access(COPY_WRITE, write, write, false);
}

#[test]
fn directories_are_not_copied() {
    let mut scene = Scene::new();
    let (file, directory) = (scene.open("f"), scene.open_directory("d"));
    for (source, target) in [(file, directory), (directory, file)] {
        let key = resume_key(&mut scene, source);
        let answer = refused(&mut scene, COPY, target, &input(key, &[chunk(0, 0, 1)]));
        assert_eq!(answer.outcome(), Reason::DirectoryHasNoData);
    }
}

#[test]
fn locks_of_others_stop_a_copy() {
    for (path, flags, want) in [
        ("source", LockFlags::EXCLUSIVE_LOCK, Reason::FileLockConflict),
        ("source", LockFlags::SHARED_LOCK, Reason::NotRefused),
        ("target", LockFlags::SHARED_LOCK, Reason::FileLockConflict),
    ] {
        let (mut scene, opens) = two_files();
        let holder = scene.open(path);
        let elements = [LockElement { offset: 10, length: 1, flags }];
        let lock = LockRequest { lock_sequence: 0, file_id: holder, locks: Locks::new(&elements) };
        assert_eq!(scene.ask(Command::LOCK, &lock).reason, Reason::NotRefused);
        let answer = copy(&mut scene, opens, 100, &[chunk(0, 0, 10), chunk(10, 10, 10)]);
        assert_eq!(answer.reason, want, "{path}");
    }
}
