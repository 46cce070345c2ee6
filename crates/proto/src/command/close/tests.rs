//! CLOSE, judged from outside.

use dtyp::NtStatus;
use object::ObjectOp;
use wire::Command;
use wire::close::CloseRequest;

use crate::scene::Scene;

/// Closes a directory that goes with this open; the store refuses to remove it.
#[track_caller]
fn check(refusal: NtStatus, want: NtStatus) {
    let mut scene = Scene::new();
    let file_id = scene.open_directory("d");
    scene.delete_on_close(file_id);
    scene.send(Command::CLOSE, &CloseRequest { file_id, ..CloseRequest::default() });
    let (id, op) = scene.op();
    assert!(matches!(op, ObjectOp::Close { unlink: true, .. }), "{op:?}");
    scene.reply(id, Err(refusal));
    assert_eq!(scene.receive().expect("answered").status(), want);
    assert!(scene.server.opens.is_empty());
}

#[test]
fn a_directory_that_is_not_empty_any_more_is_closed_and_stays() {
    check(NtStatus::DIRECTORY_NOT_EMPTY, NtStatus::SUCCESS);
    check(NtStatus::UNEXPECTED_IO_ERROR, NtStatus::UNEXPECTED_IO_ERROR);
}
