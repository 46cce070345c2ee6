//! FSCTL_DUPLICATE_EXTENTS_TO_FILE, tested through requests and responses.

use dtyp::{AccessMask, NtStatus};
use object::{ObjectOp, ObjectReply};
use testkit::Outcome;
use trace::Reason;
use wire::ioctl::{DuplicateExtents, DuplicateExtentsEx, DuplicateExtentsFlags, FsctlCode};
use wire::{Command, FileId};

use crate::fsctl::tests::request;
use crate::scene::Scene;

const CODE: FsctlCode = FsctlCode::DUPLICATE_EXTENTS_TO_FILE;
const CODE_EX: FsctlCode = FsctlCode::DUPLICATE_EXTENTS_TO_FILE_EX;

fn extents(source_file_id: FileId) -> DuplicateExtents {
    DuplicateExtents {
        source_file_id,
        source_file_offset: 4_096,
        target_file_offset: 8_192,
        byte_count: 4_096,
    }
}

fn input(extents: DuplicateExtents) -> Vec<u8> {
    let mut input = Vec::new();
    extents.encode(&mut input);
    input
}

#[track_caller]
fn refused(scene: &mut Scene, target: FileId, input: &[u8], want: impl Into<Outcome>) {
    let want = want.into();
    let answer = scene.ask(Command::IOCTL, &request(CODE, target, input));
    assert_eq!(answer.outcome(), want);
    assert!(scene.server.poll_effect().is_none());
}

#[test]
fn the_store_shares_the_requested_range_in_both_forms() {
    let mut scene = Scene::new();
    let (source, target) = (scene.open("source"), scene.open("target"));
    let plain = input(extents(source));
    let mut extended = Vec::new();
    let flags = DuplicateExtentsFlags::SOURCE_ATOMIC;
    DuplicateExtentsEx { extents: extents(source), flags }.encode(&mut extended);
    for (code, input) in [(CODE, plain), (CODE_EX, extended)] {
        for (result, want) in [
            (Ok(ObjectReply::Done), NtStatus::SUCCESS),
            (Err(NtStatus::NOT_SUPPORTED), NtStatus::NOT_SUPPORTED),
        ] {
            scene.send(Command::IOCTL, &request(code, target, &input));
            let (from, to) = (scene.file(source).local_open, scene.file(target).local_open);
            let (id, op) = scene.op();
            let ObjectOp::DuplicateExtents {
                source,
                target,
                source_offset: 4_096,
                target_offset: 8_192,
                length: 4_096,
            } = op
            else {
                panic!("{op:?}");
            };
            assert_eq!((source, target), (from, to));
            scene.reply(id, result);
            assert_eq!(scene.receive().expect("answered").outcome(), want);
        }
    }
}

#[test]
fn a_source_that_is_not_open_in_this_tree_is_no_handle() {
    let mut scene = Scene::new();
    let (source, target) = (scene.open("source"), scene.open("target"));
    let other = FileId { volatile: source.volatile + 1_000, ..source };
    refused(&mut scene, target, &input(extents(other)), Reason::DuplicateSourceNotFound);
    let open = scene.server.inspect().opens.get_mut(&source.volatile).expect("it is open");
    open.tree_id += 1_000;
    refused(&mut scene, target, &input(extents(source)), Reason::DuplicateSourceNotFound);
}

#[test]
fn input_that_is_cut_or_negative_is_refused() {
    let mut scene = Scene::new();
    let (source, target) = (scene.open("source"), scene.open("target"));
    let whole = input(extents(source));
    refused(&mut scene, target, &whole[..whole.len() - 1], Reason::FsctlInputTooShort);
    let extents = extents(source);
    for negative in [
        DuplicateExtents { source_file_offset: -1, ..extents },
        DuplicateExtents { target_file_offset: -1, ..extents },
        DuplicateExtents { byte_count: -1, ..extents },
    ] {
        refused(&mut scene, target, &input(negative), Reason::OffsetNegative);
    }
}

#[test]
fn a_source_is_read_and_a_target_written() {
    let (read, write) = (AccessMask::READ_DATA, AccessMask::WRITE_DATA);
    let mut scene = Scene::new();
    let [reader, writer] = [read, write].map(|access| scene.open_with("f", access, false));
    refused(&mut scene, reader, &input(extents(reader)), Reason::AccessNotGranted);
    refused(&mut scene, writer, &input(extents(writer)), Reason::DuplicateSourceNotReadable);
    let directory = scene.open_directory("d");
    refused(&mut scene, directory, &input(extents(reader)), Reason::NotOnDirectories);
    refused(&mut scene, writer, &input(extents(directory)), Reason::NotOnDirectories);
}
