use super::directory::decode_directory_list;
use super::ea::is_valid_ea_name;
use super::*;
use crate::{AccessMask, FileAttributes, FileTime, Guid};
use proptest::prelude::*;

/// Checks a packet form: its bytes, decoding, and that no prefix decodes.
macro_rules! check {
    ($value:expr, $type:ty, $bytes:expr) => {{
        let (value, bytes): ($type, Vec<u8>) = ($value, $bytes);
        let mut out = Vec::new();
        value.encode(&mut out);
        assert_eq!(out, bytes);
        assert_eq!(<$type>::decode(&out).as_ref(), Some(&value));
        for cut in 0..bytes.len() {
            assert_eq!(<$type>::decode(&bytes[..cut]), None, "cut at {cut}");
        }
    }};
}

fn times() -> [FileTime; 4] {
    [1, 2, 3, 4].map(|n| FileTime(0x01DB_0000_0000_0000 + n))
}

#[test]
fn basic_information_has_40_bytes() {
    let [creation_time, last_access_time, last_write_time, change_time] = times();
    let value = FileBasicInformation {
        creation_time,
        last_access_time,
        last_write_time,
        change_time,
        file_attributes: FileAttributes::ARCHIVE | FileAttributes::HIDDEN,
        reserved: Reserved,
    };
    #[rustfmt::skip]
    let bytes = vec![
        1, 0, 0, 0, 0, 0, 0xDB, 1, 2, 0, 0, 0, 0, 0, 0xDB, 1,
        3, 0, 0, 0, 0, 0, 0xDB, 1, 4, 0, 0, 0, 0, 0, 0xDB, 1,
        0x22, 0, 0, 0, 0, 0, 0, 0,
    ];
    check!(value, FileBasicInformation, bytes);
}

#[test]
fn standard_information_pads_its_booleans() {
    let value = FileStandardInformation {
        allocation_size: 0x1000,
        end_of_file: 0x234,
        number_of_links: 2,
        delete_pending: true,
        directory: false,
        reserved: Reserved,
    };
    let bytes = vec![0, 0x10, 0, 0, 0, 0, 0, 0, 0x34, 2, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0];
    check!(value, FileStandardInformation, bytes);
}

#[test]
fn any_value_but_zero_is_true() {
    let deletes = FileDispositionInformation { delete_pending: true };
    assert_eq!(FileDispositionInformation::decode(&[0x80]), Some(deletes));
}

#[test]
fn all_information_is_its_parts_in_order() {
    let value = FileAllInformation {
        standard: FileStandardInformation { directory: true, ..Default::default() },
        internal: FileInternalInformation { index_number: 7 },
        ea: FileEaInformation { ea_size: 8 },
        access: FileAccessInformation { access_flags: AccessMask::FILE_ALL },
        position: FilePositionInformation { current_byte_offset: 9 },
        mode: FileModeInformation { mode: 0x20 },
        alignment: FileAlignmentInformation { alignment_requirement: 3 },
        name: FileNameInformation { file_name: "\\a".to_owned() },
        ..Default::default()
    };
    let mut bytes = vec![0; 61];
    bytes.extend([1, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0xFF, 0x01, 0x1F, 0]);
    bytes.extend([9, 0, 0, 0, 0, 0, 0, 0, 0x20, 0, 0, 0, 3, 0, 0, 0]);
    bytes.extend([4, 0, 0, 0, b'\\', 0, b'a', 0]);
    check!(value, FileAllInformation, bytes);
}

#[test]
fn rename_reads_one_byte_of_flags_and_the_ex_class_four() {
    let mut bytes = vec![2, 0xEE, 0xEE, 0xEE, 0xEE, 0xEE, 0xEE, 0xEE];
    bytes.extend([0; 8]);
    bytes.extend([4, 0, 0, 0, b'x', 0, b'y', 0]);
    let old = FileRenameInformation::decode(&bytes).expect("whole");
    assert_eq!((old.flags, old.file_name.as_str()), (1, "xy"));
    assert!(old.replace_if_exists());
    let ex = FileRenameInformation::decode_ex(&bytes).expect("whole");
    assert_eq!(ex.flags, 0xEEEE_EE02);
    for cut in 0..bytes.len() {
        assert_eq!(FileRenameInformation::decode(&bytes[..cut]), None);
    }
    let mut out = Vec::new();
    FileRenameInformation { file_name: "x".to_owned(), ..Default::default() }.encode(&mut out);
    assert_eq!(out.len(), 24);
    assert_eq!(FileRenameInformation::decode(&out).expect("whole").file_name, "x");
}

#[test]
fn a_name_that_is_longer_than_the_buffer_or_not_utf16_is_refused() {
    assert_eq!(FileNameInformation::decode(&[0xFF, 0xFF, 0xFF, 0xFF, b'a', 0]), None);
    assert_eq!(FileNameInformation::decode(&[1, 0, 0, 0, b'a', 0]), None);
    assert_eq!(FileNameInformation::decode(&[2, 0, 0, 0, 0, 0xD8]), None);
}

#[test]
fn file_system_classes_have_their_bytes() {
    let volume = FileFsVolumeInformation {
        volume_creation_time: FileTime(5),
        volume_serial_number: 0x1234_5678,
        supports_objects: true,
        volume_label: "d".to_owned(),
    };
    let bytes = vec![5, 0, 0, 0, 0, 0, 0, 0, 0x78, 0x56, 0x34, 0x12, 2, 0, 0, 0, 1, 0, b'd', 0];
    check!(volume, FileFsVolumeInformation, bytes);
    let attribute = FileFsAttributeInformation {
        file_system_attributes: file_system::FileSystemAttributes::PERSISTENT_ACLS,
        maximum_component_name_length: 255,
        file_system_name: "N".to_owned(),
    };
    check!(
        attribute,
        FileFsAttributeInformation,
        vec![8, 0, 0, 0, 255, 0, 0, 0, 2, 0, 0, 0, b'N', 0]
    );
    let object_id = FileFsObjectIdInformation { object_id: Guid([9; 16]), ..Default::default() };
    let bytes = [[9; 16], [0; 16], [0; 16], [0; 16]].concat();
    check!(object_id, FileFsObjectIdInformation, bytes);
    let label = FileFsLabelInformation { volume_label: "L".to_owned() };
    check!(label, FileFsLabelInformation, vec![2, 0, 0, 0, b'L', 0]);
}

/// The structures of fixed size have the length of their class.
#[test]
fn minimum_lengths_agree_with_the_structures() {
    use FileInformationClass as File;
    use FsInformationClass as Fs;
    for (class, len) in [
        (File::BASIC, FileBasicInformation::LEN),
        (File::STANDARD, FileStandardInformation::LEN),
        (File::INTERNAL, FileInternalInformation::LEN),
        (File::EA, FileEaInformation::LEN),
        (File::ACCESS, FileAccessInformation::LEN),
        (File::DISPOSITION, FileDispositionInformation::LEN),
        (File::POSITION, FilePositionInformation::LEN),
        (File::MODE, FileModeInformation::LEN),
        (File::ALIGNMENT, FileAlignmentInformation::LEN),
        (File::ALLOCATION, FileAllocationInformation::LEN),
        (File::END_OF_FILE, FileEndOfFileInformation::LEN),
        (File::PIPE, FilePipeInformation::LEN),
        (File::PIPE_LOCAL, FilePipeLocalInformation::LEN),
        (File::PIPE_REMOTE, FilePipeRemoteInformation::LEN),
        (File::COMPRESSION, FileCompressionInformation::LEN),
        (File::NETWORK_OPEN, FileNetworkOpenInformation::LEN),
        (File::ATTRIBUTE_TAG, FileAttributeTagInformation::LEN),
        (File::VALID_DATA_LENGTH, FileValidDataLengthInformation::LEN),
        (File::ID, FileIdInformation::LEN),
        (File::DISPOSITION_EX, FileDispositionInformationEx::LEN),
    ] {
        assert_eq!(class.minimum_len(), Some(len), "{class:?}");
    }
    for (class, len) in [
        (Fs::SIZE, FileFsSizeInformation::LEN),
        (Fs::DEVICE, FileFsDeviceInformation::LEN),
        (Fs::CONTROL, FileFsControlInformation::LEN),
        (Fs::FULL_SIZE, FileFsFullSizeInformation::LEN),
        (Fs::OBJECT_ID, FileFsObjectIdInformation::LEN),
        (Fs::SECTOR_SIZE, FileFsSectorSizeInformation::LEN),
    ] {
        assert_eq!(class.minimum_len(), Some(len), "{class:?}");
    }
    assert_eq!(File(0).minimum_len(), None);
    assert_eq!(
        format!("{:?} {:?}", File::ALL, File(0)),
        "FileAllInformation FileInformationClass(0)"
    );
}

const DIRECTORY_CLASSES: [FileInformationClass; 12] = [
    FileInformationClass::DIRECTORY,
    FileInformationClass::FULL_DIRECTORY,
    FileInformationClass::BOTH_DIRECTORY,
    FileInformationClass::NAMES,
    FileInformationClass::ID_BOTH_DIRECTORY,
    FileInformationClass::ID_FULL_DIRECTORY,
    FileInformationClass::ID_EXTD_DIRECTORY,
    FileInformationClass::ID_EXTD_BOTH_DIRECTORY,
    FileInformationClass::ID_64_EXTD_DIRECTORY,
    FileInformationClass::ID_64_EXTD_BOTH_DIRECTORY,
    FileInformationClass::ID_ALL_EXTD_DIRECTORY,
    FileInformationClass::ID_ALL_EXTD_BOTH_DIRECTORY,
];

fn entry(name: &str) -> DirectoryEntryFields<'static> {
    let [creation_time, last_access_time, last_write_time, change_time] = times();
    DirectoryEntryFields {
        file_index: 0,
        creation_time,
        last_access_time,
        last_write_time,
        change_time,
        end_of_file: 10,
        allocation_size: 4096,
        file_attributes: FileAttributes::ARCHIVE,
        ea_size: 77,
        reparse_tag: 0,
        short_name: "A~1.TXT".into(),
        file_id: 0x1122_3344_5566_7788,
        file_id_128: [0xAB; 16],
        file_name: name.to_owned().into(),
        apple: None,
    }
}

/// The offset of FileName is the fixed size that [MS-FSCC] gives for each class.
#[test]
fn directory_entries_put_the_name_behind_the_fixed_part() {
    for class in DIRECTORY_CLASSES {
        let mut out = Vec::new();
        encode_directory_entry(class, &entry("ab"), &mut out).expect("a directory class");
        let fixed = class.minimum_len().expect("a directory class");
        assert_eq!(out[fixed..], [b'a', 0, b'b', 0], "{class:?}");
        for cut in 0..out.len() {
            assert_eq!(decode_directory_entry(class, &out[..cut]), None);
        }
    }
    let mut out = Vec::new();
    assert_eq!(encode_directory_entry(FileInformationClass::BASIC, &entry("a"), &mut out), None);
    assert!(out.is_empty());
}

#[test]
fn id_both_directory_entry_has_its_bytes() {
    let class = FileInformationClass::ID_BOTH_DIRECTORY;
    let mut out = Vec::new();
    encode_directory_entry(class, &entry("ab"), &mut out).expect("a directory class");
    assert_eq!(out[56..64], [0x20, 0, 0, 0, 4, 0, 0, 0]);
    assert_eq!(out[64..70], [77, 0, 0, 0, 14, 0]);
    assert_eq!(out[70..74], [b'A', 0, b'~', 0]);
    assert_eq!(out[84..96], [0; 12]);
    assert_eq!(out[96..104], 0x1122_3344_5566_7788_u64.to_le_bytes());
    let decoded = decode_directory_entry(class, &out).expect("whole");
    assert_eq!(decoded, DirectoryEntryFields { file_id_128: [0; 16], ..entry("ab") });
}

#[test]
fn the_widest_class_round_trips_everything() {
    let class = FileInformationClass::ID_ALL_EXTD_BOTH_DIRECTORY;
    let mut fields = entry("ä\u{1F600}");
    fields.file_attributes |= FileAttributes::REPARSE_POINT;
    fields.reparse_tag = 0xA000_000C;
    let mut out = Vec::new();
    encode_directory_entry(class, &fields, &mut out).expect("a directory class");
    assert_eq!(decode_directory_entry(class, &out), Some(fields));
}

/// A class without a field for it has the reparse tag in EaSize: [MS-FSCC] 2.4.10.
#[test]
fn the_tag_of_a_reparse_point_stands_in_for_the_size_of_attributes() {
    let class = FileInformationClass::FULL_DIRECTORY;
    let mut fields = entry("a");
    fields.file_attributes = FileAttributes::REPARSE_POINT;
    fields.reparse_tag = 0xA000_000C;
    let mut out = Vec::new();
    encode_directory_entry(class, &fields, &mut out).expect("a directory class");
    assert_eq!(out[64..68], [0x0C, 0, 0, 0xA0]);
}

#[test]
fn a_short_name_that_does_not_fit_is_left_out() {
    let class = FileInformationClass::BOTH_DIRECTORY;
    let mut fields = entry("a");
    fields.short_name = "ABCDEFGHIJKLM".into();
    let mut out = Vec::new();
    encode_directory_entry(class, &fields, &mut out).expect("a directory class");
    assert_eq!(out[68..94], [0; 26]);
}

#[test]
fn a_list_is_chained_aligned_and_ends_at_the_limit() {
    let class = FileInformationClass::NAMES;
    for (limit, want) in [(0, 0), (13, 0), (14, 1), (29, 1), (30, 2), (52, 3), (1000, 3)] {
        let mut out = vec![0xCC; 3];
        let mut list = EntryListWriter::new(&mut out, limit, 8);
        for name in ["a", "b", "long"] {
            let wrote = list.push(|out| {
                encode_directory_entry(class, &entry(name), out).expect("a directory class");
            });
            if !wrote {
                break;
            }
        }
        let (entries, written) = (list.entries(), list.written());
        assert_eq!((entries, written <= limit), (want, true), "{limit}");
        assert_eq!(out.len(), 3 + written);
        let names = decode_directory_list(class, &out[3..]).expect("its own list");
        assert_eq!(names.len(), want);
        if want == 3 {
            assert_eq!(out[3..7], [16, 0, 0, 0]);
            assert_eq!(out[3 + 32..3 + 36], [0; 4]);
            assert_eq!(names[2].file_name, "long");
        }
    }
}

#[test]
fn streams_round_trip() {
    let streams = ["::$DATA", ":a:$DATA"].map(|name| StreamEntry {
        name: name.to_owned(),
        size: 5,
        allocation_size: 4096,
    });
    let mut out = Vec::new();
    let mut list = EntryListWriter::new(&mut out, 100, 8);
    for stream in &streams {
        assert!(list.push(|out| encode_stream_entry(stream, out)));
    }
    assert_eq!(out[..8], [40, 0, 0, 0, 14, 0, 0, 0]);
    assert_eq!(decode_stream_list(&out), Some(streams.to_vec()));
    assert_eq!(decode_stream_list(&[]), Some(Vec::new()));
    for cut in 1..out.len() {
        assert_eq!(decode_stream_list(&out[..cut]), None, "{cut}");
    }
}

fn ea(name: &str, value: &[u8]) -> FullEa {
    FullEa { flags: 0, name: name.to_owned(), value: value.to_vec() }
}

#[test]
fn extended_attributes_round_trip_with_an_alignment_of_4() {
    let attributes = [ea("EA1", b"value"), ea("second", b"")];
    let mut out = Vec::new();
    let mut list = EntryListWriter::new(&mut out, 100, 4);
    for attribute in &attributes {
        assert!(list.push(|out| encode_full_ea_entry(attribute, out).expect("a valid name")));
    }
    #[rustfmt::skip]
    let bytes = [
        20, 0, 0, 0, 0, 3, 5, 0, b'E', b'A', b'1', 0, b'v', b'a', b'l', b'u', b'e', 0, 0, 0,
        0, 0, 0, 0, 0, 6, 0, 0, b's', b'e', b'c', b'o', b'n', b'd', 0,
    ];
    assert_eq!(out, bytes);
    let decoded: Result<Vec<_>, _> = FullEaList(&out).iter().collect();
    assert_eq!(decoded.as_deref(), Ok(&attributes[..]));
    for cut in 1..out.len() {
        let decoded: Result<Vec<_>, _> = FullEaList(&out[..cut]).iter().collect();
        let at = if cut <= 20 { 0 } else { 20 };
        assert_eq!(decoded, Err(EaListError::Inconsistent { offset: at }), "{cut}");
    }
}

#[test]
fn names_of_extended_attributes_are_validated() {
    for name in ["", "a:b", "a\\b", "a=b", "a\tb", "ä", &"n".repeat(255)] {
        assert!(!is_valid_ea_name(name), "{name:?}");
        assert_eq!(encode_full_ea_entry(&ea(name, b""), &mut Vec::new()), None);
    }
    assert!(is_valid_ea_name(&"n".repeat(254)));
    let bytes = [0, 0, 0, 0, 0, 1, 0, 0, b'*', 0];
    let decoded: Result<Vec<_>, _> = FullEaList(&bytes).iter().collect();
    assert_eq!(decoded, Err(EaListError::InvalidName { offset: 0 }));
    let error = EaListError::InvalidName { offset: 0 };
    assert_eq!(error.status(), crate::NtStatus::INVALID_EA_NAME);
}

#[test]
fn lists_of_names_round_trip() {
    let mut out = Vec::new();
    let mut list = EntryListWriter::new(&mut out, 100, 4);
    for name in ["one", "three"] {
        assert!(list.push(|out| encode_get_ea_entry(name, out).expect("a valid name")));
    }
    assert_eq!(out[..10], [12, 0, 0, 0, 3, b'o', b'n', b'e', 0, 0]);
    let names: Result<Vec<_>, _> = GetEaList(&out).iter().collect();
    assert_eq!(names.as_deref(), Ok(&["one".to_owned(), "three".to_owned()][..]));
}

/// A chain that points at itself or backwards would never end.
#[test]
fn chains_only_lead_forward() {
    for next in [1_u32, 3, 10, 11, u32::MAX] {
        let mut bytes = vec![0, 0, 0, 0, 0, 1, 0, 0, b'a', 0];
        bytes[..4].copy_from_slice(&next.to_le_bytes());
        let decoded: Result<Vec<_>, _> = FullEaList(&bytes).iter().collect();
        assert_eq!(decoded, Err(EaListError::Inconsistent { offset: 0 }), "{next}");
    }
}

proptest! {
    #[test]
    fn hostile_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..160)) {
        for class in DIRECTORY_CLASSES {
            let _ = decode_directory_entry(class, &bytes);
            let _ = decode_directory_list(class, &bytes);
        }
        let _ = FullEaList(&bytes).iter().count();
        let _ = GetEaList(&bytes).iter().count();
        let _ = decode_stream_list(&bytes);
        let _ = FileAllInformation::decode(&bytes);
        let _ = FileRenameInformation::decode(&bytes);
        let _ = FileFsVolumeInformation::decode(&bytes);
        let _ = FileFsAttributeInformation::decode(&bytes);
    }

    #[test]
    fn chains_of_small_steps_end(steps in proptest::collection::vec(0_u8..12, 1..200)) {
        prop_assert!(FullEaList(&steps).iter().count() <= steps.len());
    }
}
