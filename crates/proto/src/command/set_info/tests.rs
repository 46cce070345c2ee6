//! SET_INFO, with the test in place of the store.

use arbitration::{ByteRange, ByteRangeLock};
use dtyp::fscc::{
    FileAllocationInformation, FileBasicInformation, FileDispositionInformation,
    FileDispositionInformationEx, FileEndOfFileInformation, FileInformationClass,
    FileModeInformation, FilePositionInformation, FileRenameInformation, FullEa,
    encode_full_ea_entry,
};
use dtyp::name_expression::NameExpression;
use dtyp::{AccessMask, FileAttributes, FileTime, NtStatus, SecurityDescriptor};
use engine::effect::Effect;
use engine::files::BREAK_TIMEOUT;
use model::now::Now;
use model::reject::Reject;
use model::request_id::RequestId;
use object::{Metadata, ObjectOp, ObjectPath, ObjectReply, ObjectResult};
use testkit::Outcome;
use trace::Reason;
use wire::close::CloseRequest;
use wire::create::{CreateOptions, ShareAccess};
use wire::query_info::InfoType;
use wire::set_info::{SetInfoRequest, SetInfoResponse};
use wire::{Command, FileId};

use crate::scene::{PIPES, Scene, TRANSACT_MAX, identity_of};

mod quota;

const FILE_ALL: AccessMask = AccessMask::FILE_ALL;

fn set(
    scene: &mut Scene,
    file_id: FileId,
    class: FileInformationClass,
    encode: impl FnOnce(&mut Vec<u8>),
) {
    let mut buffer = Vec::new();
    encode(&mut buffer);
    let request = SetInfoRequest {
        info_type: InfoType::FILE,
        file_info_class: class.0,
        additional_information: 0,
        file_id,
        buffer: &buffer,
    };
    scene.send(Command::SET_INFO, &request);
}

/// Returns the outcome of a request, which must have its response by now.
#[track_caller]
fn outcome(scene: &mut Scene) -> Outcome {
    let answer = scene.receive().expect("it is answered");
    if answer.status() == NtStatus::SUCCESS {
        let SetInfoResponse = answer.body();
    }
    assert!(scene.receive().is_none() && scene.server.poll_effect().is_none());
    answer.outcome()
}

/// Replies in place of the store. Returns the store's operation.
#[track_caller]
fn store_says(scene: &mut Scene, result: ObjectResult) -> ObjectOp {
    let (id, op) = scene.op();
    scene.reply(id, result);
    op
}

#[track_caller]
fn store_does(scene: &mut Scene) -> ObjectOp {
    store_says(scene, Ok(ObjectReply::Done))
}

fn metadata(path: &str, attributes: FileAttributes) -> ObjectReply {
    let identity = identity_of(path);
    ObjectReply::Metadata(Box::new(Metadata { identity, attributes, ..Metadata::default() }))
}

mod request {
    use super::*;

    #[track_caller]
    fn check(info_type: InfoType, class: u8, length: usize, want: impl Into<Outcome>) {
        let want = want.into();
        let mut scene = Scene::new();
        let file_id = scene.open("file");
        let buffer = vec![0; length];
        let request = SetInfoRequest {
            info_type,
            file_info_class: class,
            additional_information: 0,
            file_id,
            buffer: &buffer,
        };
        scene.send(Command::SET_INFO, &request);
        assert_eq!(outcome(&mut scene), want, "{info_type:?} {class}");
    }

    #[test]
    fn classes_of_nothing_are_refused() {
        for class in [0, 1, 5, 6, 18, 22, 34, 200] {
            check(InfoType::FILE, class, 128, Reason::FileClassUnknown);
        }
        check(InfoType::FILE, 40, 128, Reason::FileClassNotOffered);
        check(InfoType::FILESYSTEM, 2, 128, Reason::FsClassNotOffered);
        check(InfoType::FILESYSTEM, 6, 40, Reason::InformationInvalid);
        check(InfoType::FILESYSTEM, 1, 128, Reason::FsClassUnknown);
        check(InfoType::QUOTA, 0, 128, Reason::QuotaListInvalid);
        check(InfoType(9), 4, 128, Reason::InfoTypeUnknown);
    }

    #[test]
    fn a_buffer_below_the_fixed_part_is_a_length_mismatch() {
        for (class, fixed) in [(4, 40), (10, 20), (13, 1), (14, 8), (16, 4), (19, 8), (20, 8)] {
            check(InfoType::FILE, class, 0, Reason::InformationEmpty);
            if fixed > 1 {
                check(InfoType::FILE, class, fixed - 1, Reason::InformationTooShort);
            }
        }
    }

    #[test]
    fn a_buffer_is_bounded() {
        let max = usize::try_from(TRANSACT_MAX).expect("small");
        check(InfoType::FILE, 4, max + 1, Reason::LengthAboveMax);
    }

    #[test]
    fn a_pipe_has_modes_alone() {
        let mut scene = Scene::new();
        let file_id = scene.open_pipe("srvsvc");
        for (class, want) in [(23, Reason::NotRefused), (4, Reason::FileClassNotOffered)] {
            let request = SetInfoRequest {
                info_type: InfoType::FILE,
                file_info_class: class,
                file_id,
                buffer: &[0; 64],
                ..SetInfoRequest::default()
            };
            let answer = scene.ask_in(PIPES, Command::SET_INFO, &request);
            assert_eq!(answer.reason, want);
        }
    }
}

mod basic {
    use super::*;

    const TIME: FileTime = FileTime(0x01DA_0000_0000_0000);

    fn send(scene: &mut Scene, file_id: FileId, basic: FileBasicInformation) {
        set(scene, file_id, FileInformationClass::BASIC, |out| basic.encode(out));
    }

    #[track_caller]
    fn check(is_directory: bool, attributes: FileAttributes, want: impl Into<Outcome>) {
        let want = want.into();
        let mut scene = Scene::new();
        let file_id = scene.open_with("it", FILE_ALL, is_directory);
        let basic = FileBasicInformation { file_attributes: attributes, ..Default::default() };
        send(&mut scene, file_id, basic);
        if want == NtStatus::SUCCESS {
            store_does(&mut scene);
        }
        assert_eq!(outcome(&mut scene), want, "{attributes:?}");
    }

    #[test]
    fn attributes_that_the_kind_cannot_have_are_refused() {
        check(false, FileAttributes::DIRECTORY, Reason::AttributesInvalid);
        check(true, FileAttributes::DIRECTORY, NtStatus::SUCCESS);
        check(true, FileAttributes::TEMPORARY, Reason::AttributesInvalid);
        check(false, FileAttributes::TEMPORARY, NtStatus::SUCCESS);
    }

    #[test]
    fn zero_and_the_special_times_leave_a_time_alone() {
        let mut scene = Scene::new();
        let file_id = scene.open("file");
        let basic = FileBasicInformation {
            creation_time: FileTime(u64::MAX),
            last_access_time: FileTime(u64::MAX - 1),
            last_write_time: TIME,
            file_attributes: FileAttributes::NORMAL,
            ..Default::default()
        };
        send(&mut scene, file_id, basic);
        let ObjectOp::SetBasic { basic, .. } = store_does(&mut scene) else { panic!("not set") };
        assert_eq!((basic.creation_time, basic.last_access_time), (None, None));
        assert_eq!((basic.last_write_time, basic.change_time), (Some(TIME), None));
        assert_eq!(basic.keep_last_access_time, Some(false), "-2 resumes the updates");
        assert_eq!(basic.keep_last_write_time, Some(true), "a time that was set stays");
        assert_eq!(basic.attributes, Some(FileAttributes::empty()));
        assert_eq!(outcome(&mut scene), NtStatus::SUCCESS);
        send(&mut scene, file_id, FileBasicInformation::default());
        assert_eq!(outcome(&mut scene), NtStatus::SUCCESS);
        let negative =
            FileBasicInformation { change_time: FileTime(1 << 63), ..Default::default() };
        send(&mut scene, file_id, negative);
        assert_eq!(outcome(&mut scene), Reason::TimeInvalid);
    }

    #[test]
    fn it_needs_the_right_to_write_attributes() {
        let mut scene = Scene::new();
        let access = FILE_ALL.difference(AccessMask::WRITE_ATTRIBUTES);
        let file_id = scene.open_with("file", access, false);
        send(&mut scene, file_id, FileBasicInformation::default());
        assert_eq!(outcome(&mut scene), Reason::AccessNotGranted);
    }
}

mod size {
    use super::*;

    const EOF: FileInformationClass = FileInformationClass::END_OF_FILE;

    fn send(scene: &mut Scene, file_id: FileId, end_of_file: u64) {
        set(scene, file_id, EOF, |out| FileEndOfFileInformation { end_of_file }.encode(out));
    }

    #[test]
    fn the_end_of_a_file_is_moved() {
        let mut scene = Scene::new();
        let file_id = scene.open("file");
        send(&mut scene, file_id, 37);
        let ObjectOp::SetEndOfFile { size, .. } = store_does(&mut scene) else { panic!("not it") };
        assert_eq!((size, outcome(&mut scene)), (37, NtStatus::SUCCESS.into()));
        let allocation = FileAllocationInformation { allocation_size: 4_096 };
        set(&mut scene, file_id, FileInformationClass::ALLOCATION, |out| allocation.encode(out));
        let ObjectOp::SetAllocation { size, .. } = store_does(&mut scene) else { panic!("not it") };
        assert_eq!((size, outcome(&mut scene)), (4_096, NtStatus::SUCCESS.into()));
    }

    #[test]
    fn a_lock_of_another_protects_the_data_behind_it() {
        let mut scene = Scene::new();
        let (file_id, other) = (scene.open("file"), scene.open("file"));
        let range = ByteRange { offset: 100, length: 10 };
        let files = &mut scene.server.inspect().globals.files;
        let open = files.open_id(other.volatile);
        let lock = ByteRangeLock { open, stream: 0, range, exclusive: false };
        let locked = files.change(model::file_key::key(identity_of("file")), |record, _| {
            (record.acquire_locks(&[lock], arbitration::Standing::User), true)
        });
        assert_eq!(locked, Ok(Ok(())));
        for (size, want) in [(100, false), (109, false), (110, true), (1 << 40, true)] {
            send(&mut scene, file_id, size);
            if want {
                store_does(&mut scene);
            }
            let refused = Outcome::from(Reason::FileLockConflict);
            let want = if want { NtStatus::SUCCESS.into() } else { refused };
            assert_eq!(outcome(&mut scene), want, "{size}");
        }
    }

    #[test]
    fn a_size_is_positive_and_of_a_file_that_may_be_written() {
        let mut scene = Scene::new();
        let access = FILE_ALL.difference(AccessMask::WRITE_DATA);
        let reader = scene.open_with("file", access, false);
        let (writer, directory) = (scene.open("file"), scene.open_directory("directory"));
        for (file_id, size, want) in [
            (reader, 1, Reason::AccessNotGranted),
            (writer, 1 << 63, Reason::OffsetNegative),
            (directory, 1, Reason::NotOnDirectories),
        ] {
            send(&mut scene, file_id, size);
            assert_eq!(outcome(&mut scene), want);
        }
    }
}

mod mode {
    use super::*;

    #[test]
    fn only_modes_that_can_change_are_taken() {
        let mut scene = Scene::new();
        let file_id = scene.open("file");
        for (mode, want) in [
            (0x02, Outcome::SUCCESS),
            (0x36, Outcome::Refused(Reason::ModeInvalid)),
            (0x01, Outcome::Refused(Reason::ModeInvalid)),
            (0x14, Outcome::SUCCESS),
            (0x00, Outcome::SUCCESS),
        ] {
            let before = scene.file(file_id).mode;
            let information = FileModeInformation { mode };
            set(&mut scene, file_id, FileInformationClass::MODE, |out| information.encode(out));
            assert_eq!(outcome(&mut scene), want, "{mode:#x}");
            let after = if want.is_success() { mode } else { before };
            assert_eq!(scene.file(file_id).mode, after);
        }
    }

    #[test]
    fn a_position_is_kept_for_this_open() {
        let mut scene = Scene::new();
        let (file_id, other) = (scene.open("file"), scene.open("file"));
        let position = |current_byte_offset| FilePositionInformation { current_byte_offset };
        let class = FileInformationClass::POSITION;
        set(&mut scene, file_id, class, |out| position(123_456).encode(out));
        assert_eq!(outcome(&mut scene), NtStatus::SUCCESS);
        assert_eq!((scene.file(file_id).position, scene.file(other).position), (123_456, 0));
        set(&mut scene, file_id, class, |out| position(1 << 63).encode(out));
        assert_eq!(outcome(&mut scene), Reason::OffsetNegative);
    }
}

mod disposition {
    use super::*;

    fn send(scene: &mut Scene, file_id: FileId, delete_pending: bool) {
        let information = FileDispositionInformation { delete_pending };
        set(scene, file_id, FileInformationClass::DISPOSITION, |out| information.encode(out));
    }

    fn send_ex(scene: &mut Scene, file_id: FileId, flags: u32) {
        let information = FileDispositionInformationEx { flags };
        set(scene, file_id, FileInformationClass::DISPOSITION_EX, |out| information.encode(out));
    }

    fn is_pending(scene: &mut Scene, path: &str) -> bool {
        scene.server.inspect().globals.files.is_delete_pending(identity_of(path), 0)
    }

    #[test]
    fn a_file_is_marked_and_spared() {
        let mut scene = Scene::new();
        let file_id = scene.open("file");
        send(&mut scene, file_id, true);
        store_says(&mut scene, Ok(metadata("file", FileAttributes::ARCHIVE)));
        assert_eq!(outcome(&mut scene), NtStatus::SUCCESS);
        assert!(is_pending(&mut scene, "file"));
        send(&mut scene, file_id, false);
        assert_eq!(outcome(&mut scene), NtStatus::SUCCESS);
        assert!(!is_pending(&mut scene, "file"));
    }

    #[test]
    fn a_read_only_file_stays_unless_that_is_to_be_ignored() {
        let mut scene = Scene::new();
        let file_id = scene.open("file");
        let read_only = || Ok(metadata("file", FileAttributes::READONLY));
        send(&mut scene, file_id, true);
        store_says(&mut scene, read_only());
        assert_eq!(outcome(&mut scene), Reason::ReadOnlyDeletion);
        assert!(!is_pending(&mut scene, "file"));
        send_ex(&mut scene, file_id, 0x01 | 0x10);
        store_says(&mut scene, read_only());
        assert_eq!(outcome(&mut scene), NtStatus::SUCCESS);
        assert!(is_pending(&mut scene, "file"));
    }

    #[test]
    fn a_read_only_file_is_deleted_where_the_share_permits() {
        let mut scene = Scene::new();
        scene.change_share(|share| share.delete_readonly = true);
        let file_id = scene.open("file");
        send(&mut scene, file_id, true);
        store_says(&mut scene, Ok(metadata("file", FileAttributes::READONLY)));
        assert_eq!(outcome(&mut scene), NtStatus::SUCCESS);
        assert!(is_pending(&mut scene, "file"));
    }

    #[test]
    fn a_directory_with_something_in_it_stays() {
        for (empty, want) in
            [(false, Outcome::Refused(Reason::DirectoryNotEmpty)), (true, Outcome::SUCCESS)]
        {
            let mut scene = Scene::new();
            let file_id = scene.open_directory("directory");
            send(&mut scene, file_id, true);
            store_says(&mut scene, Ok(metadata("directory", FileAttributes::DIRECTORY)));
            let op = store_says(&mut scene, Ok(ObjectReply::Empty(empty)));
            assert!(matches!(op, ObjectOp::IsEmpty { .. }));
            assert_eq!(outcome(&mut scene), want);
            assert_eq!(is_pending(&mut scene, "directory"), empty);
        }
    }

    #[test]
    fn delete_on_close_of_the_create_belongs_to_the_open() {
        let mut scene = Scene::new();
        let file_id = scene.open("file");
        send_ex(&mut scene, file_id, 0x08);
        assert_eq!(outcome(&mut scene), Reason::NotDeleteOnClose);
        scene.file(file_id).create_options = CreateOptions::DELETE_ON_CLOSE;
        scene.delete_on_close(file_id);
        send(&mut scene, file_id, false);
        assert_eq!(outcome(&mut scene), NtStatus::SUCCESS);
        assert!(scene.file(file_id).delete_on_close);
        send_ex(&mut scene, file_id, 0x08);
        assert_eq!(outcome(&mut scene), NtStatus::SUCCESS);
        assert!(!scene.file(file_id).delete_on_close);
    }

    #[test]
    fn a_file_of_a_snapshot_stays() {
        let mut scene = Scene::new();
        let file_id = scene.open("file");
        let open = scene.server.inspect().opens.get_mut(&file_id.volatile).expect("it is open");
        let file = open.file_mut().expect("it is a file");
        file.path = file.path.clone().with_snapshot(Some(FileTime::from_unix(1, 0)));
        send(&mut scene, file_id, true);
        assert_eq!(outcome(&mut scene), Reason::SnapshotCannotChange);
    }

    #[test]
    fn the_share_itself_and_files_without_delete_access_are_not_deleted() {
        let mut scene = Scene::new();
        let access = FILE_ALL.difference(AccessMask::DELETE);
        let file_id = scene.open_with("file", access, false);
        let root = scene.open_directory("");
        for (file_id, delete, want) in [
            (file_id, true, Reason::AccessNotGranted),
            (file_id, false, Reason::AccessNotGranted),
            (root, true, Reason::RootCannotBeDeleted),
        ] {
            send(&mut scene, file_id, delete);
            assert_eq!(outcome(&mut scene), want);
        }
        send_ex(&mut scene, root, 0x01 | 0x02);
        assert_eq!(outcome(&mut scene), Reason::PosixDeletion);
    }
}

mod rename {
    use super::*;

    fn send(scene: &mut Scene, file_id: FileId, name: &str, replace: bool) {
        let information = FileRenameInformation {
            flags: u32::from(replace),
            root_directory: 0,
            file_name: name.to_owned(),
        };
        set(scene, file_id, FileInformationClass::RENAME, |out| information.encode(out));
        find_directory(scene);
    }

    /// Replies that the directory of the new name exists, if the store has to look it up.
    fn find_directory(scene: &mut Scene) {
        let asked = scene.server.inspect().globals.outbox.effects.front();
        let Some((_, Effect::Object { op: ObjectOp::Lookup { path, .. }, .. })) = asked else {
            return;
        };
        let found = metadata(&path.to_windows(), FileAttributes::DIRECTORY);
        store_says(scene, Ok(found));
    }

    fn path(name: &str) -> ObjectPath {
        ObjectPath::parse(name).expect("a real path")
    }

    /// Makes a rename, which must succeed.
    #[track_caller]
    fn succeed(scene: &mut Scene, file_id: FileId, name: &str) {
        send(scene, file_id, name, false);
        let op = store_says(scene, Ok(ObjectReply::Renamed(path(name), None)));
        let ObjectOp::Rename { target, replace: false, .. } = op else { panic!("{op:?}") };
        assert_eq!((*target, outcome(scene)), (path(name), NtStatus::SUCCESS.into()));
    }

    /// Renames `file` in a scene, and compares the status.
    #[track_caller]
    fn check(prepare: impl FnOnce(&mut Scene), name: &str, want: impl Into<Outcome>) {
        let want = want.into();
        let mut scene = Scene::new();
        let file_id = scene.open("folder\\file");
        prepare(&mut scene);
        if want == NtStatus::SUCCESS {
            return succeed(&mut scene, file_id, name);
        }
        send(&mut scene, file_id, name, false);
        assert_eq!(outcome(&mut scene), want, "{name}");
    }

    #[test]
    fn every_open_of_the_file_has_the_new_name() {
        let mut scene = Scene::new();
        let (file_id, other) = (scene.open("a\\file"), scene.open("a\\file"));
        let neighbour = scene.open("a\\file2");
        succeed(&mut scene, file_id, "b\\name");
        for (file_id, want) in [(file_id, "b\\name"), (other, "b\\name"), (neighbour, "a\\file2")] {
            assert_eq!(scene.file(file_id).path, path(want));
        }
    }

    #[test]
    fn a_renamed_directory_takes_closed_files_beneath_it_along() {
        let mut scene = Scene::new();
        let directory = scene.open_directory("a\\b");
        let beside = scene.open("a\\bc");
        succeed(&mut scene, directory, "d");
        assert_eq!(scene.file(directory).path, path("d"));
        assert_eq!(scene.file(beside).path, path("a\\bc"));
    }

    #[test]
    fn a_directory_stays_while_something_is_open_beneath_it() {
        let mut scene = Scene::new();
        let directory = scene.open_directory("a\\b");
        let beneath = scene.open("a\\b\\c\\file");
        send(&mut scene, directory, "d", false);
        assert_eq!(outcome(&mut scene), Reason::OpenBeneath);
        scene.close(beneath);
        succeed(&mut scene, directory, "d");
    }

    /// Closes an open that deletes its file. Returns the request, for which the store has not yet
    /// closed the file.
    fn begin_deletion(scene: &mut Scene, file_id: FileId) -> Option<RequestId> {
        // Its response has the credits for two requests at a time.
        let other = scene.open("other");
        scene.close(other);
        scene.delete_on_close(file_id);
        scene.send(Command::CLOSE, &CloseRequest { file_id, ..CloseRequest::default() });
        let (id, op) = scene.op();
        assert!(matches!(op, ObjectOp::Close { unlink: true, .. }), "{op:?}");
        id
    }

    /// Replies in place of the store that the file is deleted, and takes the response to the close.
    fn end_deletion(scene: &mut Scene, id: Option<RequestId>) {
        scene.reply(id, Ok(ObjectReply::Done));
        let closed = scene.receive().expect("a close is answered");
        assert_eq!(closed.header.command, Command::CLOSE);
    }

    /// The deletion may be carried out by path: the name beneath the old one would stay.
    #[test]
    fn a_directory_stays_until_deletions_beneath_it_have_ended() {
        let mut scene = Scene::new();
        let directory = scene.open_directory("a\\b");
        let beneath = scene.open("a\\b\\c\\file");
        let deletion = begin_deletion(&mut scene, beneath);
        send(&mut scene, directory, "d", false);
        assert!(scene.server.poll_effect().is_none() && scene.receive().is_none());
        end_deletion(&mut scene, deletion);
        find_directory(&mut scene);
        let op = store_says(&mut scene, Ok(ObjectReply::Renamed(path("d"), None)));
        assert!(matches!(op, ObjectOp::Rename { .. }), "{op:?}");
        assert_eq!(outcome(&mut scene), NtStatus::SUCCESS);
    }

    #[test]
    fn a_deletion_beneath_a_directory_delays_its_rename_no_longer_than_a_break() {
        let mut scene = Scene::new();
        let directory = scene.open_directory("a\\b");
        let beneath = scene.open("a\\b\\file");
        begin_deletion(&mut scene, beneath);
        send(&mut scene, directory, "d", false);
        for (time, is_answered) in [(BREAK_TIMEOUT / 2, false), (BREAK_TIMEOUT, true)] {
            scene.server.handle_timeout(Now { monotonic: time, ..Now::default() });
            assert!(scene.server.poll_effect().is_none());
            assert_eq!(
                scene.receive().map(|it| it.reason),
                is_answered.then_some(Reason::OpenBeneath)
            );
        }
    }

    /// On some file systems both are one directory, and each client has its own spelling.
    #[test]
    fn a_directory_stays_while_something_is_open_beneath_it_in_another_case() {
        let mut scene = Scene::new();
        let directory = scene.open_directory("a\\B");
        let beneath = scene.open("A\\b\\file");
        send(&mut scene, directory, "d", false);
        assert_eq!(outcome(&mut scene), Reason::OpenBeneath);
        scene.close(beneath);
        succeed(&mut scene, directory, "d");
    }

    #[test]
    fn deletions_elsewhere_delay_no_rename() {
        let mut scene = Scene::new();
        let directory = scene.open_directory("a\\b");
        let beside = scene.open("a\\bc\\file");
        begin_deletion(&mut scene, beside);
        succeed(&mut scene, directory, "d");
    }

    #[test]
    fn a_file_stays_until_a_deletion_of_its_stream_has_ended() {
        let mut scene = Scene::new();
        let file = scene.open("file");
        let stream = scene.open("file:stream");
        let deletion = begin_deletion(&mut scene, stream);
        send(&mut scene, file, "new", false);
        assert!(scene.server.poll_effect().is_none() && scene.receive().is_none());
        end_deletion(&mut scene, deletion);
        find_directory(&mut scene);
        let op = store_says(&mut scene, Ok(ObjectReply::Renamed(path("new"), None)));
        assert!(matches!(op, ObjectOp::Rename { .. }), "{op:?}");
        assert_eq!(outcome(&mut scene), NtStatus::SUCCESS);
    }

    #[test]
    fn an_open_that_does_not_share_deletion_is_in_the_way() {
        let reader = |share| {
            move |scene: &mut Scene| {
                scene.open_sharing("folder\\file", AccessMask::READ_DATA, false, share);
            }
        };
        let read_write = ShareAccess::READ | ShareAccess::WRITE;
        check(reader(read_write), "folder\\new", Reason::SharingViolation);
        check(reader(ShareAccess::all()), "folder\\new", NtStatus::SUCCESS);
        let attributes = |scene: &mut Scene| {
            let access = AccessMask::READ_ATTRIBUTES;
            scene.open_sharing("folder\\file", access, false, ShareAccess::empty());
        };
        check(attributes, "folder\\new", NtStatus::SUCCESS);
    }

    #[test]
    fn an_open_stream_is_in_the_way_of_its_file() {
        let stream = |scene: &mut Scene| {
            scene.open("folder\\file:stream");
        };
        check(stream, "folder\\new", Reason::StreamsOpen);
    }

    #[test]
    fn an_open_of_the_target_directory_must_share_writing() {
        let directory = |access, share| {
            move |scene: &mut Scene| {
                scene.open_sharing("folder", access, true, share);
            }
        };
        let (data, all) = (AccessMask::READ_DATA, ShareAccess::all());
        let both = data | AccessMask::DELETE;
        check(directory(data, all), "folder\\new", NtStatus::SUCCESS);
        check(directory(both, all), "folder\\new", Reason::SharingViolation);
        check(directory(both, all), "elsewhere\\new", NtStatus::SUCCESS);
        let nothing = ShareAccess::empty();
        check(directory(data, nothing), "folder\\new", Reason::SharingViolation);
        let attributes = AccessMask::READ_ATTRIBUTES | AccessMask::SYNCHRONIZE;
        check(directory(attributes, nothing), "folder\\new", NtStatus::SUCCESS);
    }

    #[test]
    fn the_root_becomes_no_stream() {
        let mut scene = Scene::new();
        let root = scene.open_directory("");
        send(&mut scene, root, ":stream", false);
        assert_eq!(outcome(&mut scene), Reason::StreamOfRoot);
    }

    #[test]
    fn a_name_that_ends_behind_its_buffer_is_invalid() {
        let mut scene = Scene::new();
        let file_id = scene.open("file");
        let mut buffer = [0; 20];
        buffer[16] = 8;
        set(&mut scene, file_id, FileInformationClass::RENAME, |out| {
            out.extend_from_slice(&buffer);
        });
        assert_eq!(outcome(&mut scene), Reason::InformationInvalid);
    }

    #[test]
    fn the_name_must_be_one() {
        let nothing = |_: &mut Scene| {};
        for (name, want) in [
            ("", Reason::TargetNameEmpty),
            ("\\", Reason::RootCannotBeTarget),
            ("..\\x", Reason::NameLeavesShare),
            ("a\\..\\..\\x", Reason::NameLeavesShare),
            ("a*", Reason::NameComponentInvalid),
            ("secret", Reason::NameVetoed),
        ] {
            let veto = |scene: &mut Scene| {
                scene.change_share(|share| share.veto_files = vec![NameExpression::new("secret")]);
            };
            check(veto, name, want);
        }
        check(nothing, "secret", NtStatus::SUCCESS);
    }

    #[test]
    fn a_root_directory_is_not_for_smb2() {
        let mut scene = Scene::new();
        let file_id = scene.open("file");
        let information =
            FileRenameInformation { flags: 0, root_directory: 1, file_name: "new".to_owned() };
        let class = FileInformationClass::RENAME;
        set(&mut scene, file_id, class, |out| information.encode(out));
        assert_eq!(outcome(&mut scene), Reason::RootDirectoryNotZero);
    }

    #[test]
    fn renaming_needs_the_right_to_delete() {
        let mut scene = Scene::new();
        let file_id = scene.open_with("file", FILE_ALL.difference(AccessMask::DELETE), false);
        send(&mut scene, file_id, "new", false);
        assert_eq!(outcome(&mut scene), Reason::AccessNotGranted);
    }

    #[test]
    fn a_file_that_is_open_is_not_replaced() {
        for (is_open, want) in
            [(true, Outcome::Refused(Reason::TargetOpen)), (false, Outcome::SUCCESS)]
        {
            let mut scene = Scene::new();
            let file_id = scene.open("file");
            if is_open {
                scene.open("target");
            }
            send(&mut scene, file_id, "target", true);
            let op = store_says(&mut scene, Ok(metadata("target", FileAttributes::ARCHIVE)));
            assert!(matches!(op, ObjectOp::Lookup { .. }));
            if !is_open {
                let op = store_says(&mut scene, Ok(ObjectReply::Renamed(path("target"), None)));
                assert!(matches!(op, ObjectOp::Rename { replace: true, .. }));
            }
            assert_eq!(outcome(&mut scene), want);
        }
    }

    #[test]
    fn a_change_of_case_replaces_nothing_but_itself() {
        let mut scene = Scene::new();
        let file_id = scene.open("file");
        send(&mut scene, file_id, "FILE", true);
        store_says(&mut scene, Ok(metadata("file", FileAttributes::ARCHIVE)));
        store_says(&mut scene, Ok(ObjectReply::Renamed(path("FILE"), None)));
        assert_eq!(outcome(&mut scene), NtStatus::SUCCESS);
    }

    #[test]
    fn a_target_that_cannot_be_seen_ends_it() {
        for (found, want) in [
            (NtStatus::OBJECT_PATH_NOT_FOUND, NtStatus::OBJECT_PATH_NOT_FOUND),
            (NtStatus::ACCESS_DENIED, NtStatus::ACCESS_DENIED),
        ] {
            let mut scene = Scene::new();
            let file_id = scene.open("file");
            send(&mut scene, file_id, "no\\where", true);
            store_says(&mut scene, Err(found));
            assert_eq!(outcome(&mut scene), want);
        }
    }

    #[test]
    fn a_stream_stays_with_its_file() {
        let mut scene = Scene::new();
        let file_id = scene.open("file:one");
        send(&mut scene, file_id, "file:two", false);
        assert_eq!(outcome(&mut scene), Reason::RenameOfStream);
        send(&mut scene, file_id, "::$DATA", true);
        assert_eq!(outcome(&mut scene), Reason::StreamToFile);
        send(&mut scene, file_id, ":two:$DATA", true);
        let op = store_says(&mut scene, Ok(ObjectReply::Renamed(path("file:two"), None)));
        let ObjectOp::Rename { target, .. } = op else { panic!("{op:?}") };
        assert_eq!((*target, outcome(&mut scene)), (path("file:two"), NtStatus::SUCCESS.into()));
        assert_eq!(scene.file(file_id).path, path("file:two"));
    }

    #[test]
    fn a_directory_has_one_name() {
        let mut scene = Scene::new();
        let (directory, file_id) = (scene.open_directory("directory"), scene.open("file"));
        let information =
            FileRenameInformation { flags: 0, root_directory: 0, file_name: "link".to_owned() };
        for (file_id, want) in
            [(directory, Outcome::Refused(Reason::LinkToDirectory)), (file_id, Outcome::SUCCESS)]
        {
            let class = FileInformationClass::LINK;
            set(&mut scene, file_id, class, |out| information.encode(out));
            if want.is_success() {
                let root = metadata("", FileAttributes::DIRECTORY);
                let op = store_says(&mut scene, Ok(root));
                assert!(matches!(op, ObjectOp::Lookup { .. }), "{op:?}");
                let op = store_does(&mut scene);
                assert!(matches!(op, ObjectOp::Link { replace: false, .. }), "{op:?}");
            }
            assert_eq!(outcome(&mut scene), want);
        }
        assert_eq!(scene.file(file_id).path, path("file"));
    }
}

mod extended_attributes {
    use super::*;

    #[track_caller]
    fn check(access: AccessMask, buffer: &[u8], kept: bool, want: impl Into<Outcome>) {
        let want = want.into();
        let mut scene = Scene::new();
        let file_id = scene.open_with("file", access, false);
        scene.change_share(|share| share.extended_attributes = kept);
        let class = FileInformationClass::FULL_EA;
        set(&mut scene, file_id, class, |out| out.extend_from_slice(buffer));
        if want == NtStatus::SUCCESS {
            let op = store_does(&mut scene);
            let ObjectOp::WriteExtendedAttributes { attributes, .. } = op else { panic!("{op:?}") };
            assert_eq!((attributes.len(), attributes[0].name.as_str()), (1, "name"));
        }
        assert_eq!(outcome(&mut scene), want);
    }

    #[test]
    fn extended_attributes_are_set_with_the_right_if_the_share_keeps_them() {
        let mut list = Vec::new();
        let ea = FullEa { flags: 0, name: "name".to_owned(), value: vec![1] };
        encode_full_ea_entry(&ea, &mut list).expect("a good name");
        check(AccessMask::WRITE_EA, &list, true, NtStatus::SUCCESS);
        check(AccessMask::READ_EA, &list, true, Reason::AccessNotGranted);
        check(AccessMask::WRITE_EA, &list, false, Reason::ExtendedAttributesOff);
        check(AccessMask::WRITE_EA, &list[..12], true, Reason::ExtendedAttributeListInvalid);
        let refused = super::super::extended_attributes::decode(&list.repeat(10_000));
        let want = Reject::ExtendedAttributesTooLarge(10_000 * list.len());
        assert_eq!(refused.expect_err("a file has no room for them"), want);
        list[8] = b'*';
        check(AccessMask::WRITE_EA, &list, true, Reason::ExtendedAttributeNameInvalid);
    }
}

mod security {
    use super::*;

    #[track_caller]
    fn check(information: u32, access: AccessMask, buffer: &[u8], want: impl Into<Outcome>) {
        let want = want.into();
        let mut scene = Scene::new();
        let file_id = scene.open_with("file", access, false);
        let request = SetInfoRequest {
            info_type: InfoType::SECURITY,
            file_info_class: 0,
            additional_information: information,
            file_id,
            buffer,
        };
        scene.send(Command::SET_INFO, &request);
        if want == NtStatus::SUCCESS {
            let op = store_does(&mut scene);
            assert!(matches!(op, ObjectOp::WriteSecurity { .. }), "{op:?}");
        }
        assert_eq!(outcome(&mut scene), want, "{information:#x} with {access:?}");
    }

    #[test]
    fn each_part_needs_its_right() {
        const DAC: AccessMask = AccessMask::WRITE_DAC;
        const OWNER: AccessMask = AccessMask::WRITE_OWNER;
        const SYSTEM: AccessMask = AccessMask::ACCESS_SYSTEM_SECURITY;
        let descriptor = SecurityDescriptor::default().to_bytes();
        for (information, needed) in [
            (0x01, OWNER),
            (0x02, OWNER),
            (0x04, DAC),
            (0x08, SYSTEM),
            (0x10, OWNER),
            (0x20, DAC),
            (0x40, SYSTEM),
            (0x80, SYSTEM),
            (0x100, SYSTEM),
            (0x07, OWNER | DAC),
            (0x1_0000, OWNER | DAC | SYSTEM),
        ] {
            check(information, needed, &descriptor, NtStatus::SUCCESS);
            for right in needed.iter() {
                let access = (DAC | OWNER | SYSTEM).difference(right);
                check(information, access, &descriptor, Reason::AccessNotGranted);
            }
        }
    }

    #[test]
    fn a_buffer_that_is_no_descriptor_is_refused() {
        check(0x4, FILE_ALL, &[1; 20], Reason::SecurityDescriptorInvalid);
    }
}
