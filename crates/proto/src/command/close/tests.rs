//! CLOSE, tested through requests and responses.

use dtyp::NtStatus;
use model::request_id::RequestId;
use object::{ObjectOp, ObjectReply};
use testkit::Outcome;
use trace::Reason;
use wire::change_notify::{ChangeNotifyFlags, ChangeNotifyRequest, CompletionFilter};
use wire::close::CloseRequest;
use wire::echo::EchoRequest;
use wire::flush::FlushRequest;
use wire::read::{ReadRequest, ReadResponse};
use wire::{Command, FileId};

use crate::scene::{Answer, Scene};

/// Closes a directory with FILE_DELETE_ON_CLOSE; the store refuses to remove it.
#[track_caller]
fn check(refusal: NtStatus, want: impl Into<Outcome>) {
    let want = want.into();
    let mut scene = Scene::new();
    let file_id = scene.open_directory("d");
    scene.delete_on_close(file_id);
    scene.send(Command::CLOSE, &CloseRequest { file_id, ..CloseRequest::default() });
    let (id, op) = scene.op();
    assert!(matches!(op, ObjectOp::Close { unlink: true, .. }), "{op:?}");
    scene.reply(id, Err(refusal));
    assert_eq!(scene.receive().expect("answered").outcome(), want);
    assert!(scene.server.inspect().opens.is_empty());
}

#[test]
fn a_directory_that_is_not_empty_any_more_is_closed_and_stays() {
    check(NtStatus::DIRECTORY_NOT_EMPTY, NtStatus::SUCCESS);
    check(NtStatus::UNEXPECTED_IO_ERROR, NtStatus::UNEXPECTED_IO_ERROR);
}

/// A client with a file, and with credits for several requests at once.
fn scene_with_a_file() -> (Scene, FileId) {
    let mut scene = Scene::new();
    scene.ask(Command::ECHO, &EchoRequest);
    let file_id = scene.open("f");
    (scene, file_id)
}

/// Sends a READ, which the store has not finished yet.
fn begin_read(scene: &mut Scene, file_id: FileId) -> (Option<RequestId>, ObjectOp) {
    scene.send(Command::READ, &ReadRequest { file_id, length: 3, ..ReadRequest::default() });
    scene.op()
}

fn finish_read(scene: &mut Scene, (id, op): (Option<RequestId>, ObjectOp)) {
    let ObjectOp::Read { mut buffer, .. } = op else { panic!("{op:?}") };
    buffer.extend_from_slice(b"abc");
    scene.reply(id, Ok(ObjectReply::Read(buffer)));
    let answer = scene.receive().expect("it was read");
    assert_eq!(answer.body::<ReadResponse<'_>>().data, b"abc");
}

/// Sends a CLOSE that has to wait. Returns its interim response.
fn begin_close(scene: &mut Scene, file_id: FileId) -> Answer {
    scene.send(Command::CLOSE, &CloseRequest { file_id, ..CloseRequest::default() });
    let interim = scene.receive().expect("it says that it waits");
    assert_eq!(interim.outcome(), NtStatus::PENDING);
    interim
}

#[track_caller]
fn finish_close(scene: &mut Scene) {
    let (id, op) = scene.op();
    assert!(matches!(op, ObjectOp::Close { .. }), "{op:?}");
    scene.reply(id, Ok(ObjectReply::Done));
    assert_eq!(scene.receive().expect("answered").outcome(), NtStatus::SUCCESS);
    assert!(scene.server.inspect().opens.is_empty());
}

#[test]
fn pending_requests_of_an_open_are_answered_before_it_is_closed() {
    let (mut scene, file_id) = scene_with_a_file();
    let (one, two) = (begin_read(&mut scene, file_id), begin_read(&mut scene, file_id));
    begin_close(&mut scene, file_id);
    assert!(scene.server.poll_effect().is_none(), "it is not closed yet");
    finish_read(&mut scene, two);
    assert!(scene.server.poll_effect().is_none(), "one is still under way");
    finish_read(&mut scene, one);
    finish_close(&mut scene);
}

#[test]
fn a_close_does_not_wait_for_pending_requests_of_other_opens() {
    let (mut scene, file_id) = scene_with_a_file();
    let other = scene.open("g");
    let read = begin_read(&mut scene, other);
    scene.send(Command::CLOSE, &CloseRequest { file_id, ..CloseRequest::default() });
    let (id, op) = scene.op();
    assert!(matches!(op, ObjectOp::Close { .. }), "{op:?}");
    scene.reply(id, Ok(ObjectReply::Done));
    assert_eq!(scene.receive().expect("answered").outcome(), NtStatus::SUCCESS);
    finish_read(&mut scene, read);
}

#[test]
fn the_second_of_two_that_wait_finds_nothing_to_close() {
    let (mut scene, file_id) = scene_with_a_file();
    let read = begin_read(&mut scene, file_id);
    begin_close(&mut scene, file_id);
    begin_close(&mut scene, file_id);
    finish_read(&mut scene, read);
    let (id, _) = scene.op();
    assert_eq!(scene.receive().expect("answered").outcome(), Reason::NoSuchOpen);
    scene.reply(id, Ok(ObjectReply::Done));
    assert_eq!(scene.receive().expect("answered").outcome(), NtStatus::SUCCESS);
}

/// Sends a CHANGE_NOTIFY, which waits for a change.
fn begin_watch(scene: &mut Scene, file_id: FileId) {
    let completion_filter = CompletionFilter::all();
    let watch = ChangeNotifyRequest {
        flags: ChangeNotifyFlags::empty(),
        output_buffer_length: 100,
        file_id,
        completion_filter,
    };
    scene.send(Command::CHANGE_NOTIFY, &watch);
    assert_eq!(scene.receive().expect("it waits").outcome(), NtStatus::PENDING);
}

/// Each of them would wake the others, for ever.
#[test]
fn a_close_that_waits_wakes_no_requests_that_wait_for_an_event() {
    let mut scene = Scene::new();
    scene.ask(Command::ECHO, &EchoRequest);
    let file_id = scene.open_directory("d");
    begin_watch(&mut scene, file_id);
    begin_watch(&mut scene, file_id);
    let mut begin_flush = || {
        scene.send(Command::FLUSH, &FlushRequest { file_id });
        scene.op()
    };
    let flushes = [begin_flush(), begin_flush()];
    begin_close(&mut scene, file_id);
    begin_watch(&mut scene, file_id);
    for (id, _) in flushes {
        assert!(scene.server.poll_effect().is_none(), "a FLUSH is still under way");
        scene.reply(id, Ok(ObjectReply::Done));
        assert_eq!(scene.receive().expect("answered").outcome(), NtStatus::SUCCESS);
    }
    let (id, _) = scene.op();
    for _ in 0..3 {
        assert_eq!(scene.receive().expect("answered").outcome(), Reason::NotifyCleanup);
    }
    scene.reply(id, Ok(ObjectReply::Done));
    assert_eq!(scene.receive().expect("answered").outcome(), NtStatus::SUCCESS);
    assert!(scene.server.inspect().opens.is_empty());
}

#[test]
fn a_close_that_waits_cannot_be_cancelled() {
    let (mut scene, file_id) = scene_with_a_file();
    let read = begin_read(&mut scene, file_id);
    let interim = begin_close(&mut scene, file_id);
    scene.cancel(&interim);
    assert!(scene.receive().is_none(), "CANCEL has no answer, and changed nothing");
    finish_read(&mut scene, read);
    finish_close(&mut scene);
}
