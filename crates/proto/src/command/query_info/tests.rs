//! QUERY_INFO, with the test in place of the store.

use dtyp::fscc::ea::FullEaList;
use dtyp::fscc::stream::decode_stream_list;
use dtyp::fscc::{
    FileAllInformation, FileFsVolumeInformation, FileInformationClass, FileNameInformation,
    FileStandardInformation, FsInformationClass, encode_get_ea_entry,
};
use dtyp::{AccessMask, FileAttributes, NtStatus};
use object::{
    ExtendedAttribute, FileIdentity, FreeSpace, Metadata, ObjectOp, ObjectReply, QuotaState,
    StreamEntry, Volume,
};
use testkit::Outcome;
use trace::Reason;
use wire::error_response::{ErrorContext, ErrorResponse};
use wire::query_info::{InfoType, QueryInfoFlags, QueryInfoRequest, QueryInfoResponse};
use wire::{Command, Dialect, FileId};

use crate::scene::{Answer, PIPES, Scene};

mod quota;

const SYNCHRONIZE: AccessMask = AccessMask::SYNCHRONIZE;
const READ_ATTRIBUTES: AccessMask = AccessMask::READ_ATTRIBUTES;

/// File classes: number, fixed part as in Windows, and the right that they need.
const FILE_CLASSES: &[(u8, u32, AccessMask)] = &[
    (4, 40, READ_ATTRIBUTES),
    (5, 24, SYNCHRONIZE),
    (6, 8, SYNCHRONIZE),
    (7, 4, SYNCHRONIZE),
    (8, 4, SYNCHRONIZE),
    (14, 8, SYNCHRONIZE),
    (16, 4, SYNCHRONIZE),
    (17, 4, SYNCHRONIZE),
    (18, 104, READ_ATTRIBUTES),
    (21, 8, SYNCHRONIZE),
    (22, 32, SYNCHRONIZE),
    (28, 16, SYNCHRONIZE),
    (34, 56, READ_ATTRIBUTES),
    (35, 8, READ_ATTRIBUTES),
    (48, 8, SYNCHRONIZE),
    (59, 24, SYNCHRONIZE),
];

/// File system classes: number and fixed part.
const FILE_SYSTEM_CLASSES: &[(u8, u32)] =
    &[(1, 24), (3, 24), (4, 8), (5, 16), (6, 48), (7, 32), (8, 64), (11, 28)];

fn request(file_id: FileId, info_type: InfoType, class: u8) -> QueryInfoRequest<'static> {
    QueryInfoRequest {
        info_type,
        file_info_class: class,
        output_buffer_length: 0x1_0000,
        file_id,
        ..QueryInfoRequest::default()
    }
}

/// Sends a request, and replies in place of the store.
fn ask(scene: &mut Scene, request: &QueryInfoRequest<'_>) -> Answer {
    scene.send(Command::QUERY_INFO, request);
    if let Some(answer) = scene.receive() {
        return answer;
    }
    let (id, op) = scene.op();
    let reply = match op {
        ObjectOp::ListStreams { .. } => ObjectReply::Streams(streams()),
        ObjectOp::QueryMetadata { .. } => ObjectReply::Metadata(Box::new(metadata())),
        ObjectOp::QueryShortName { .. } => ObjectReply::ShortName(Some("FILE.TXT".to_owned())),
        ObjectOp::Quotas { .. } => ObjectReply::QuotaState(QuotaState::default()),
        ObjectOp::QueryVolume { .. } => ObjectReply::Volume(Box::new(volume())),
        ObjectOp::ReadExtendedAttributes { .. } => ObjectReply::ExtendedAttributes(attributes()),
        ObjectOp::ReadSecurity { .. } => ObjectReply::Security(vec![7; 100]),
        other => panic!("{other:?} asks for nothing"),
    };
    scene.reply(id, Ok(reply));
    scene.receive().expect("the store has answered")
}

fn metadata() -> Metadata {
    Metadata {
        identity: FileIdentity { device: 3, inode: 77, birth: 1, stream: 0 },
        end_of_file: 10,
        allocation_size: 4_096,
        attributes: FileAttributes::ARCHIVE,
        number_of_links: 2,
        ea_size: 33,
        ..Metadata::default()
    }
}

fn streams() -> Vec<StreamEntry> {
    let stream =
        |name: &str, size| StreamEntry { name: name.to_owned(), size, allocation_size: 4_096 };
    vec![stream("", 10), stream("one", 20)]
}

fn volume() -> Volume {
    Volume {
        total_bytes: 1 << 40,
        free_bytes: 1 << 39,
        available_bytes: 1 << 38,
        cluster_bytes: 4_096,
        sector_bytes: 512,
        serial_number: 5,
        label: "drawings".to_owned(),
        file_system_name: "NTFS".to_owned(),
        component_units_max: 255,
        ..Volume::default()
    }
}

fn attributes() -> Vec<ExtendedAttribute> {
    let attribute = |name: &str, value: &str| ExtendedAttribute {
        flags: 0,
        name: name.to_owned(),
        value: value.as_bytes().to_vec(),
    };
    vec![attribute("One", "1"), attribute("TWO", "22"), attribute("three", "333")]
}

fn output(answer: &Answer) -> Vec<u8> {
    let QueryInfoResponse { output_buffer } = answer.body();
    output_buffer.to_vec()
}

/// Sends requests of every length up to the whole response and beyond.
#[track_caller]
fn check_lengths(info_type: InfoType, class: u8, fixed: u32) {
    let mut scene = Scene::with_dialect(Dialect::SMB_3_1_1);
    let file_id = scene.open("short.txt");
    let request = request(file_id, info_type, class);
    let answer = ask(&mut scene, &request);
    assert_eq!(answer.outcome(), Outcome::SUCCESS, "{class}");
    let whole = output(&answer);
    let len = u32::try_from(whole.len()).expect("a short answer");
    for output_buffer_length in 0..len + 8 {
        let answer = ask(&mut scene, &QueryInfoRequest { output_buffer_length, ..request });
        let want = match output_buffer_length {
            length if length < fixed => Outcome::Refused(Reason::InformationBufferTooSmall),
            length if length < len => Outcome::Status(NtStatus::BUFFER_OVERFLOW),
            _ => Outcome::SUCCESS,
        };
        assert_eq!(answer.outcome(), want, "class {class}, {output_buffer_length} of {len}");
        if want == Outcome::Refused(Reason::InformationBufferTooSmall) {
            let ErrorResponse { .. } = answer.body();
            continue;
        }
        let limit = usize::try_from(output_buffer_length).expect("small");
        assert!(output(&answer).len() <= limit);
        assert!(whole.starts_with(&output(&answer)[..4]) || output(&answer)[..4] == [0; 4]);
    }
}

#[test]
fn a_long_answer_is_cut_behind_its_fixed_part() {
    for (class, fixed, _) in FILE_CLASSES.iter().filter(|(class, ..)| *class != 22) {
        check_lengths(InfoType::FILE, *class, *fixed);
    }
    for (class, fixed) in FILE_SYSTEM_CLASSES {
        check_lengths(InfoType::FILESYSTEM, *class, *fixed);
    }
}

#[test]
fn streams_are_listed_whole_or_not() {
    let mut scene = Scene::new();
    let file_id = scene.open("file");
    let request = request(file_id, InfoType::FILE, FileInformationClass::STREAM.0);
    // The first has 38 bytes; the second begins at 40 and has 44.
    for (output_buffer_length, want, count) in [
        (31, Outcome::Refused(Reason::InformationBufferTooSmall), 0),
        (32, Outcome::Status(NtStatus::BUFFER_OVERFLOW), 0),
        (38, Outcome::Status(NtStatus::BUFFER_OVERFLOW), 1),
        (83, Outcome::Status(NtStatus::BUFFER_OVERFLOW), 1),
        (84, Outcome::SUCCESS, 2),
    ] {
        let answer = ask(&mut scene, &QueryInfoRequest { output_buffer_length, ..request });
        assert_eq!(answer.outcome(), want, "{output_buffer_length}");
        if want != Outcome::Refused(Reason::InformationBufferTooSmall) {
            let listed = decode_stream_list(&output(&answer)).expect("whole entries");
            let names: Vec<_> = listed.iter().map(|it| it.name.as_str()).collect();
            assert_eq!(names, ["::$DATA", ":one:$DATA"][..count]);
        }
    }
}

#[test]
fn each_class_needs_its_right_and_no_other() {
    for (class, _, right) in FILE_CLASSES {
        for granted in [SYNCHRONIZE, READ_ATTRIBUTES] {
            let mut scene = Scene::with_dialect(Dialect::SMB_3_1_1);
            let file_id = scene.open_with("file", granted, false);
            let want = match *right {
                READ_ATTRIBUTES if granted == SYNCHRONIZE => Reason::AccessNotGranted,
                _ => Reason::NotRefused,
            };
            let answer = ask(&mut scene, &request(file_id, InfoType::FILE, *class));
            assert_eq!(answer.reason, want, "{class} with {granted:?}");
        }
    }
}

#[test]
fn a_file_that_is_to_be_deleted_has_one_name_less() {
    let mut scene = Scene::new();
    let file_id = scene.open("file");
    let request = request(file_id, InfoType::FILE, FileInformationClass::STANDARD.0);
    for pending in [false, true] {
        let identity = scene.file(file_id).identity;
        let files = &mut scene.server.inspect().globals.files;
        files.set_delete_pending(identity, 0, pending, None).expect("memory has room");
        let answer = output(&ask(&mut scene, &request));
        let standard = FileStandardInformation::decode(&answer).expect("whole");
        assert_eq!(standard.delete_pending, pending);
        assert_eq!(standard.number_of_links, 2 - u32::from(pending));
    }
}

#[test]
fn all_information_equals_the_single_classes() {
    let mut scene = Scene::new();
    let file_id = scene.open("folder\\file");
    let answer = ask(&mut scene, &request(file_id, InfoType::FILE, FileInformationClass::ALL.0));
    let all = FileAllInformation::decode(&output(&answer)).expect("whole");
    assert_eq!(all.name.file_name, "\\folder\\file");
    assert_eq!((all.internal.index_number, all.ea.ea_size), (77, 33));
    assert_eq!(all.basic.file_attributes, FileAttributes::ARCHIVE);
    assert_eq!(all.access.access_flags, AccessMask::FILE_ALL);
}

#[test]
fn a_normalized_name_is_for_3_1_1() {
    let class = FileInformationClass::NORMALIZED_NAME.0;
    for (dialect, want) in [
        (Dialect::SMB_3_0_2, Reason::FileClassNotOffered),
        (Dialect::SMB_3_1_1, Reason::NotRefused),
    ] {
        let mut scene = Scene::with_dialect(dialect);
        let file_id = scene.open("folder\\file:stream");
        let answer = ask(&mut scene, &request(file_id, InfoType::FILE, class));
        assert_eq!(answer.reason, want);
        if want == Reason::NotRefused {
            let name = FileNameInformation::decode(&output(&answer)).expect("whole");
            assert_eq!(name.file_name, "folder\\file:stream");
        }
    }
}

#[test]
fn the_short_name_is_that_of_the_store() {
    let class = FileInformationClass::ALTERNATE_NAME.0;
    for want in [Some("FILE.TXT"), None] {
        let mut scene = Scene::new();
        let file_id = scene.open("a longer name");
        scene.send(Command::QUERY_INFO, &request(file_id, InfoType::FILE, class));
        let (id, op) = scene.op();
        assert!(matches!(op, ObjectOp::QueryShortName { .. }));
        scene.reply(id, Ok(ObjectReply::ShortName(want.map(str::to_owned))));
        let answer = scene.receive().expect("the store has answered");
        if let Some(want) = want {
            let name = FileNameInformation::decode(&output(&answer)).expect("whole");
            assert_eq!(name.file_name, want);
        } else {
            assert_eq!(answer.outcome(), Reason::NoShortName);
        }
    }
}

#[test]
fn classes_of_nothing_are_refused() {
    for (info_type, class, want) in [
        (InfoType::FILE, 1, Reason::FileClassUnknown),
        (InfoType::FILE, 10, Reason::FileClassUnknown),
        (InfoType::FILE, 23, Reason::PipeClassUnknown),
        (InfoType::FILE, 200, Reason::FileClassUnknown),
        (InfoType::FILESYSTEM, 2, Reason::FsClassUnknown),
        (InfoType::FILESYSTEM, 200, Reason::FsClassUnknown),
        (InfoType(9), 4, Reason::InfoTypeUnknown),
    ] {
        let mut scene = Scene::new();
        let file_id = scene.open("file");
        let answer = ask(&mut scene, &request(file_id, info_type, class));
        assert_eq!(answer.reason, want, "{info_type:?} {class}");
    }
}

#[test]
fn an_answer_is_paid_for_and_bounded() {
    let mut scene = Scene::new();
    let file_id = scene.open("file");
    let request = request(file_id, InfoType::FILE, FileInformationClass::BASIC.0);
    for (output_buffer_length, want) in [
        (0x1_0000, Reason::NotRefused),
        (0x1_0001, Reason::CreditChargeTooSmall),
        (u32::MAX, Reason::LengthAboveMax),
    ] {
        let answer = ask(&mut scene, &QueryInfoRequest { output_buffer_length, ..request });
        assert_eq!(answer.reason, want, "{output_buffer_length}");
    }
}

#[test]
fn a_volume_label_that_is_cut_off_states_its_whole_length() {
    let mut scene = Scene::new();
    let file_id = scene.open("file");
    let request = request(file_id, InfoType::FILESYSTEM, FsInformationClass::VOLUME.0);
    let whole = output(&ask(&mut scene, &request));
    let volume = FileFsVolumeInformation::decode(&whole).expect("whole");
    assert_eq!((volume.volume_label.as_str(), volume.volume_serial_number), ("drawings", 5));
    let answer = ask(&mut scene, &QueryInfoRequest { output_buffer_length: 24, ..request });
    assert_eq!(answer.outcome(), NtStatus::BUFFER_OVERFLOW);
    assert_eq!(output(&answer), whole[..24]);
}

#[test]
fn the_command_of_a_share_determines_its_free_space_instead_of_the_file_system() {
    const MIB: u64 = 1 << 20;
    let classes = [FsInformationClass::SIZE, FsInformationClass::FULL_SIZE];
    let free_space = FreeSpace { total_bytes: 3 * MIB, available_bytes: MIB, block_bytes: 1_024 };
    for (class, free_space, units) in [
        (classes[0], Some(free_space), vec![3 * 1_024, 1_024]),
        (classes[1], Some(free_space), vec![3 * 1_024, 1_024, 1_024]),
        (classes[1], None, vec![1 << 28, 1 << 26, 1 << 27]),
    ] {
        let mut scene = Scene::new();
        let file_id = scene.open("file");
        scene.change_share(|share| share.has_free_space_command = true);
        scene.send(Command::QUERY_INFO, &request(file_id, InfoType::FILESYSTEM, class.0));
        let (id, _) = scene.op();
        scene.reply(id, Ok(ObjectReply::Volume(Box::new(volume()))));
        assert!(scene.receive().is_none(), "it waits for the command");
        scene.reply_to_free_space("file", free_space);
        let output = output(&scene.receive().expect("the command has answered"));
        let numbers = output.as_chunks::<8>().0.iter().map(|bytes| u64::from_le_bytes(*bytes));
        assert_eq!(numbers.take(units.len()).collect::<Vec<_>>(), units);
    }
    let mut scene = Scene::new();
    let file_id = scene.open("file");
    scene.change_share(|share| share.has_free_space_command = true);
    let label = request(file_id, InfoType::FILESYSTEM, FsInformationClass::VOLUME.0);
    assert_eq!(ask(&mut scene, &label).status(), NtStatus::SUCCESS, "no command for a label");
}

#[test]
fn a_volume_seems_no_larger_than_the_server_lets_it() {
    let mut scene = Scene::new();
    let file_id = scene.open("file");
    scene.change_share(|share| share.volume_bytes_max = Some(1 << 20));
    let request = request(file_id, InfoType::FILESYSTEM, FsInformationClass::FULL_SIZE.0);
    let output = output(&ask(&mut scene, &request));
    let numbers = output.as_chunks::<8>().0.iter().map(|bytes| u64::from_le_bytes(*bytes));
    assert_eq!(numbers.take(3).collect::<Vec<_>>(), [256, 255, 255]);
}

fn listed(answer: &Answer) -> Vec<(String, Vec<u8>)> {
    let list = output(answer);
    FullEaList(&list).iter().map(|ea| ea.map(|ea| (ea.name, ea.value)).expect("whole")).collect()
}

fn attribute_names(answer: &Answer) -> Vec<String> {
    assert!(!answer.status().is_error(), "{:?}", answer.status());
    listed(answer).into_iter().map(|(name, _)| name).collect()
}

#[test]
fn extended_attributes_go_on_after_the_query_before() {
    let mut scene = Scene::new();
    let file_id = scene.open("file");
    let request = request(file_id, InfoType::FILE, FileInformationClass::FULL_EA.0);
    let single = QueryInfoRequest { flags: QueryInfoFlags::RETURN_SINGLE_ENTRY, ..request };
    assert_eq!(attribute_names(&ask(&mut scene, &single)), ["One"]);
    assert_eq!(attribute_names(&ask(&mut scene, &single)), ["TWO"]);
    // "three" takes 8 + 6 + 3 bytes; an attribute that does not fit comes next.
    let short = QueryInfoRequest { output_buffer_length: 16, ..request };
    assert_eq!(ask(&mut scene, &short).outcome(), Reason::OutputBufferTooSmall);
    assert_eq!(attribute_names(&ask(&mut scene, &request)), ["three"]);
    assert_eq!(ask(&mut scene, &request).outcome(), Reason::NoMoreExtendedAttributes);
    let again = QueryInfoRequest { flags: QueryInfoFlags::RESTART_SCAN, ..request };
    assert_eq!(attribute_names(&ask(&mut scene, &again)), ["One", "TWO", "three"]);
    let two = QueryInfoRequest { output_buffer_length: 30, ..again };
    let answer = ask(&mut scene, &two);
    assert_eq!(answer.outcome(), NtStatus::BUFFER_OVERFLOW);
    assert_eq!(attribute_names(&answer), ["One", "TWO"]);
    assert_eq!(attribute_names(&ask(&mut scene, &request)), ["three"]);
}

#[test]
fn extended_attributes_are_found_by_index_and_by_name() {
    let mut scene = Scene::new();
    let file_id = scene.open("file");
    let request = request(file_id, InfoType::FILE, FileInformationClass::FULL_EA.0);
    let flags = QueryInfoFlags::INDEX_SPECIFIED | QueryInfoFlags::RETURN_SINGLE_ENTRY;
    let at = |index| QueryInfoRequest { flags, additional_information: index, ..request };
    assert_eq!(attribute_names(&ask(&mut scene, &at(2))), ["TWO"]);
    assert_eq!(ask(&mut scene, &at(4)).outcome(), Reason::NoMoreExtendedAttributes);
    assert_eq!(ask(&mut scene, &at(5)).outcome(), Reason::ExtendedAttributeNotFound);
    let mut names = Vec::new();
    encode_get_ea_entry("two", &mut names).expect("a good name");
    names.resize(12, 0);
    names[..4].copy_from_slice(&12_u32.to_le_bytes());
    encode_get_ea_entry("none", &mut names).expect("a good name");
    let answer = ask(&mut scene, &QueryInfoRequest { input_buffer: &names, ..request });
    let want = [("TWO".to_owned(), b"22".to_vec()), ("none".to_owned(), Vec::new())];
    assert_eq!(listed(&answer), want);
}

#[test]
fn extended_attributes_need_their_right_and_must_be_there() {
    let class = FileInformationClass::FULL_EA.0;
    for (granted, want) in
        [(READ_ATTRIBUTES, Reason::AccessNotGranted), (AccessMask::READ_EA, Reason::NotRefused)]
    {
        let mut scene = Scene::new();
        let file_id = scene.open_with("file", granted, false);
        let answer = ask(&mut scene, &request(file_id, InfoType::FILE, class));
        assert_eq!(answer.reason, want);
    }
    let mut scene = Scene::new();
    let file_id = scene.open("file");
    scene.send(Command::QUERY_INFO, &request(file_id, InfoType::FILE, class));
    let (id, _) = scene.op();
    scene.reply(id, Ok(ObjectReply::ExtendedAttributes(Vec::new())));
    let answer = scene.receive().expect("it is answered");
    assert_eq!(answer.reason, Reason::NoExtendedAttributes);
}

#[test]
fn a_descriptor_that_does_not_fit_is_told_by_its_size() {
    let size = 100_u32.to_le_bytes();
    for dialect in [Dialect::SMB_3_0_2, Dialect::SMB_3_1_1] {
        let mut scene = Scene::with_dialect(dialect);
        let file_id = scene.open("file");
        let request = request(file_id, InfoType::SECURITY, 0);
        let whole = QueryInfoRequest { output_buffer_length: 100, ..request };
        assert_eq!(output(&ask(&mut scene, &whole)), vec![7; 100]);
        for output_buffer_length in [0, 99] {
            let answer = ask(&mut scene, &QueryInfoRequest { output_buffer_length, ..request });
            assert_eq!(answer.outcome(), Reason::OutputBufferTooSmall);
            let ErrorResponse { error_context_count, error_data } = answer.body();
            if dialect == Dialect::SMB_3_1_1 {
                let mut contexts = ErrorContext::iter(error_data, error_context_count);
                let context = contexts.next().expect("one").expect("whole");
                assert_eq!((context.error_context_data, contexts.next()), (&size[..], None));
            } else {
                assert_eq!((error_context_count, error_data), (0, &size[..]));
            }
        }
    }
}

#[test]
fn each_part_of_a_descriptor_needs_its_right() {
    const READ_CONTROL: AccessMask = AccessMask::READ_CONTROL;
    const SYSTEM: AccessMask = AccessMask::ACCESS_SYSTEM_SECURITY;
    for (additional_information, granted, want) in [
        (0x0, SYNCHRONIZE, Reason::NotRefused),
        (0x1, SYNCHRONIZE, Reason::AccessNotGranted),
        (0x7, READ_ATTRIBUTES, Reason::AccessNotGranted),
        (0x7, READ_CONTROL, Reason::NotRefused),
        (0x10, SYNCHRONIZE, Reason::AccessNotGranted),
        (0x8, READ_CONTROL, Reason::AccessNotGranted),
        (0x8, SYSTEM, Reason::NotRefused),
        (0xF, SYSTEM, Reason::AccessNotGranted),
        (0xF, SYSTEM | READ_CONTROL, Reason::NotRefused),
    ] {
        let mut scene = Scene::new();
        let file_id = scene.open_with("file", granted, false);
        let request = request(file_id, InfoType::SECURITY, 0);
        let answer = ask(&mut scene, &QueryInfoRequest { additional_information, ..request });
        assert_eq!(answer.reason, want, "{additional_information:#x} with {granted:?}");
    }
}

#[test]
fn a_pipe_answers_the_classes_of_pipes() {
    let mut scene = Scene::new();
    let file_id = scene.open_pipe("srvsvc");
    for (info_type, class, want) in [
        (InfoType::FILE, 5, Reason::NotRefused),
        (InfoType::FILE, 8, Reason::NotRefused),
        (InfoType::FILE, 23, Reason::NotRefused),
        (InfoType::FILE, 24, Reason::NotRefused),
        (InfoType::FILE, 25, Reason::NotRefused),
        (InfoType::FILE, 18, Reason::PipeClassUnknown),
        (InfoType::FILESYSTEM, 1, Reason::InfoTypeNotOffered),
        (InfoType::SECURITY, 0, Reason::InfoTypeNotOffered),
    ] {
        let request = request(file_id, info_type, class);
        let answer = scene.ask_in(PIPES, Command::QUERY_INFO, &request);
        assert_eq!(answer.reason, want, "{info_type:?} {class}");
    }
}
