//! Reparse points, tested through requests and responses.

use dtyp::fscc::{ReparseData, ReparseTag};
use dtyp::{AccessMask, NtStatus};
use object::{ObjectOp, ObjectReply};
use testkit::Outcome;
use trace::Reason;
use wire::Command;
use wire::ioctl::{FsctlCode, IoctlRequest};

use crate::fsctl::tests::{output, request};
use crate::scene::Scene;

fn point(tag: u32, data: &[u8]) -> Vec<u8> {
    let mut buffer = Vec::new();
    ReparseData { tag: ReparseTag(tag), data }.encode(&mut buffer);
    buffer
}

/// A tag of Microsoft with data of unknown format.
const TAG: u32 = 0x8000_0013;

#[track_caller]
fn refused(code: FsctlCode, input: &[u8], want: impl Into<Outcome>) {
    let want = want.into();
    let mut scene = Scene::new();
    let file_id = scene.open("f");
    let fsctl = IoctlRequest { max_output_response: 0, ..request(code, file_id, input) };
    assert_eq!(scene.ask(Command::IOCTL, &fsctl).outcome(), want);
    assert!(scene.server.poll_effect().is_none());
}

#[test]
fn a_buffer_that_contradicts_its_head_is_refused() {
    for code in [FsctlCode::SET_REPARSE_POINT, FsctlCode::DELETE_REPARSE_POINT] {
        refused(code, &[], Reason::ReparsePointMissing);
        refused(code, &[0; 7], Reason::ReparseDataInvalid);
        let whole = point(TAG, b"xy");
        refused(code, &whole[..9], Reason::ReparseDataInvalid);
        refused(code, &[&whole[..], b"z"].concat(), Reason::ReparseDataInvalid);
        refused(code, &point(TAG, &[0; 16_377]), Reason::ReparseDataInvalid);
        for tag in [0, 1] {
            refused(code, &point(tag, b""), Reason::ReparseTagReserved);
        }
    }
    // A link must have a target; and a deletion must have no data.
    let link = point(ReparseTag::SYMLINK.0, b"no names");
    refused(FsctlCode::SET_REPARSE_POINT, &link, Reason::ReparseDataInvalid);
    refused(FsctlCode::DELETE_REPARSE_POINT, &point(TAG, b"x"), Reason::ReparseDataInvalid);
}

#[test]
fn the_longest_buffer_reaches_the_store() {
    let mut scene = Scene::new();
    let file_id = scene.open("f");
    let longest = point(TAG, &[7; 16_376]);
    scene.send(Command::IOCTL, &request(FsctlCode::SET_REPARSE_POINT, file_id, &longest));
    let (id, op) = scene.op();
    let ObjectOp::WriteReparsePoint { buffer, .. } = op else { panic!("{op:?}") };
    assert_eq!(buffer, longest);
    scene.reply(id, Err(NtStatus::IO_REPARSE_TAG_MISMATCH));
    let answer = scene.receive().expect("answered");
    assert_eq!(answer.outcome(), NtStatus::IO_REPARSE_TAG_MISMATCH);
}

#[test]
fn either_of_two_rights_is_enough_to_change_one() {
    for (code, input) in [
        (FsctlCode::SET_REPARSE_POINT, point(TAG, b"x")),
        (FsctlCode::DELETE_REPARSE_POINT, point(TAG, b"")),
    ] {
        for (access, granted) in [
            (AccessMask::WRITE_DATA, true),
            (AccessMask::WRITE_ATTRIBUTES, true),
            (AccessMask::READ_DATA | AccessMask::APPEND_DATA | AccessMask::WRITE_EA, false),
        ] {
            let mut scene = Scene::new();
            let file_id = scene.open_with("f", access, false);
            scene.send(Command::IOCTL, &request(code, file_id, &input));
            assert_eq!(scene.server.poll_effect().is_some(), granted, "{access:?}");
            if !granted {
                let answer = scene.receive().expect("it is refused");
                assert_eq!(answer.outcome(), Reason::AccessNotGranted);
            }
        }
    }
}

#[test]
fn data_that_do_not_fit_are_cut_but_not_the_head() {
    let stored = point(TAG, b"abcd");
    for (max_output_response, want, returned) in [
        (7, Outcome::Refused(Reason::OutputBufferTooSmall), 0),
        (8, Outcome::Status(NtStatus::BUFFER_OVERFLOW), 8),
        (11, Outcome::Status(NtStatus::BUFFER_OVERFLOW), 11),
        (12, Outcome::SUCCESS, 12),
    ] {
        let mut scene = Scene::new();
        let file_id = scene.open("f");
        let fsctl = request(FsctlCode::GET_REPARSE_POINT, file_id, &[]);
        scene.send(Command::IOCTL, &IoctlRequest { max_output_response, ..fsctl });
        let (id, _) = scene.op();
        scene.reply(id, Ok(ObjectReply::ReparsePoint(stored.clone())));
        let answer = scene.receive().expect("answered");
        assert_eq!(answer.outcome(), want);
        if returned > 0 {
            assert_eq!(output(&answer), &stored[..returned]);
        }
    }
}
