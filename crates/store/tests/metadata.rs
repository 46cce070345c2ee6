//! Times, attributes, sizes, extended attributes and streams, and that Samba keeps them alike.

mod support;

use dtyp::{AccessMask, FileAttributes, FileTime, NtStatus};
use object::{
    BasicChange, Disposition, ExtendedAttribute, LocalOpen, ObjectOp, ObjectPath, ObjectReply,
};
use support::{DELETE, READ, Share, WRITE};

/// `user.DOSATTRIB` as Samba 4.17 wrote it: READONLY, HIDDEN, SYSTEM, ARCHIVE and a creation time.
const FROM_SAMBA: [u8; 24] = [
    0x00, 0x00, 0x05, 0x00, 0x05, 0x00, 0x00, 0x00, 0x11, 0x00, 0x00, 0x00, 0x27, 0x00, 0x00, 0x00,
    0x5f, 0xec, 0xb1, 0x6d, 0x2c, 0x79, 0xdd, 0x01,
];

const CREATED: FileTime = FileTime(0x01dd_792c_6db1_ec5f);

#[test]
fn attributes_that_samba_stored_are_read() {
    let mut share = Share::new();
    share.local("f", "x");
    share.set_attribute("f", "user.DOSATTRIB", &FROM_SAMBA);
    let opened = share.try_open("f", |_| {}).expect("readable");
    let attributes = FileAttributes::READONLY
        | FileAttributes::HIDDEN
        | FileAttributes::SYSTEM
        | FileAttributes::ARCHIVE;
    assert_eq!(opened.metadata.attributes, attributes);
    assert_eq!(opened.metadata.creation_time, CREATED);
}

#[test]
fn attributes_that_an_open_file_is_given_by_others_are_seen_at_once() {
    let mut share = Share::new();
    for number in 0..100 {
        let name = format!("f{number}");
        let open = share.create(&name);
        let hidden = FileAttributes::HIDDEN;
        assert!(!share.metadata(open).attributes.contains(hidden));
        share.set_attribute(&name, "user.DOSATTRIB", &FROM_SAMBA);
        assert!(share.metadata(open).attributes.contains(hidden), "{name}");
        share.close(open);
    }
}

#[test]
fn attributes_are_stored_as_samba_does() {
    let mut share = Share::new();
    let open = share.create("f");
    assert_eq!(share.attribute("f", "user.DOSATTRIB"), None, "absence says ARCHIVE");
    let attributes = FileAttributes::READONLY
        | FileAttributes::HIDDEN
        | FileAttributes::SYSTEM
        | FileAttributes::ARCHIVE;
    share.set(
        open,
        BasicChange {
            attributes: Some(attributes),
            creation_time: Some(CREATED),
            ..BasicChange::default()
        },
    );
    assert_eq!(share.attribute("f", "user.DOSATTRIB"), Some(FROM_SAMBA.to_vec()));
    // As `setmode d +h` left it on a directory.
    let directory = share.create_directory("d");
    share.set(
        directory,
        BasicChange {
            attributes: Some(FileAttributes::HIDDEN),
            creation_time: Some(FileTime(0x01dd_792d_5968_eecc)),
            ..BasicChange::default()
        },
    );
    let stored = share.attribute("d", "user.DOSATTRIB").expect("stored");
    let samba = [
        0x00, 0x00, 0x05, 0x00, 0x05, 0x00, 0x00, 0x00, 0x11, 0x00, 0x00, 0x00, 0x12, 0x00, 0x00,
        0x00, 0xcc, 0xee, 0x68, 0x59, 0x2d, 0x79, 0xdd, 0x01,
    ];
    assert_eq!(stored, samba);
}

#[test]
fn a_value_that_is_no_attributes_is_as_good_as_none() {
    let mut share = Share::new();
    share.local("f", "x");
    share.set_attribute("f", "user.DOSATTRIB", b"nonsense");
    let opened = share.try_open("f", |_| {}).expect("readable");
    assert_eq!(opened.metadata.attributes, FileAttributes::ARCHIVE);
}

#[test]
fn new_objects_have_the_attributes_of_ms_fsa() {
    let mut share = Share::new();
    let file = share.create("f");
    assert_eq!(share.metadata(file).attributes, FileAttributes::ARCHIVE);
    let directory = share.create_directory("d");
    let metadata = share.metadata(directory);
    assert_eq!(metadata.attributes, FileAttributes::DIRECTORY);
    assert_eq!((metadata.end_of_file, metadata.allocation_size), (0, 0));
    assert_eq!(metadata.number_of_links, 1);
    let dot = share.create(".dot");
    let attributes = share.metadata(dot).attributes;
    assert_eq!(attributes, FileAttributes::ARCHIVE | FileAttributes::HIDDEN);
    let hidden = share.try_open("h", |request| {
        request.disposition = Disposition::Create;
        request.attributes = FileAttributes::HIDDEN | FileAttributes::NORMAL;
    });
    let attributes = hidden.expect("created").metadata.attributes;
    assert_eq!(attributes, FileAttributes::ARCHIVE | FileAttributes::HIDDEN);
}

#[test]
fn all_attributes_can_be_cleared() {
    let mut share = Share::new();
    let open = share.create("f");
    let attributes = Some(FileAttributes::NORMAL);
    share.set(open, BasicChange { attributes, ..BasicChange::default() });
    assert_eq!(share.metadata(open).attributes, FileAttributes::NORMAL);
    // Writing marks the file for backups again.
    share.write(open, 0, b"x");
    assert_eq!(share.metadata(open).attributes, FileAttributes::ARCHIVE);
}

#[test]
fn attributes_that_do_not_fit_the_kind_are_refused() {
    let mut share = Share::new();
    let file = share.create("f");
    let directory = share.create_directory("d");
    for (open, attributes) in
        [(file, FileAttributes::DIRECTORY), (directory, FileAttributes::TEMPORARY)]
    {
        let basic = BasicChange { attributes: Some(attributes), ..BasicChange::default() };
        let result = share.run(ObjectOp::SetBasic { open, basic: basic.into() });
        assert!(matches!(result, Err(NtStatus::INVALID_PARAMETER)));
    }
}

#[test]
fn times_are_kept_to_100_ns() {
    let mut share = Share::new();
    let open = share.create("f");
    let (created, accessed, written) = (
        FileTime(131_000_000_000_000_001),
        FileTime(131_000_000_000_000_002),
        FileTime(131_000_000_000_000_003),
    );
    share.set(
        open,
        BasicChange {
            creation_time: Some(created),
            last_access_time: Some(accessed),
            last_write_time: Some(written),
            ..BasicChange::default()
        },
    );
    let metadata = share.metadata(open);
    assert_eq!(metadata.creation_time, created);
    assert_eq!(metadata.last_access_time, accessed);
    assert_eq!(metadata.last_write_time, written);
    let later = FileTime(132_000_000_000_000_000);
    share.set(open, BasicChange { last_write_time: Some(later), ..BasicChange::default() });
    let metadata = share.metadata(open);
    assert_eq!(metadata.last_access_time, accessed, "what is not given stays");
    assert_eq!(metadata.last_write_time, later);
    assert_eq!(metadata.creation_time, created);
}

#[test]
fn a_write_time_that_was_set_stays_until_the_open_gives_it_up() {
    let mut share = Share::new();
    share.local("f", "abc");
    let open = share.open_for("f", READ | WRITE);
    let other = share.open_for("f", READ | WRITE);
    let set = FileTime(131_000_000_000_000_003);
    let keep = |keep_last_write_time, last_write_time| BasicChange {
        keep_last_write_time,
        last_write_time,
        ..BasicChange::default()
    };
    share.set(open, keep(Some(true), Some(set)));
    share.write(open, 0, b"x");
    share.done(ObjectOp::SetEndOfFile { open, size: 9 });
    assert_eq!(share.metadata(other).last_write_time, set);

    share.set(open, keep(Some(false), None));
    assert_eq!(share.metadata(open).last_write_time, set, "resuming changes nothing by itself");
    share.write(open, 0, b"y");
    let resumed = share.metadata(open).last_write_time;
    assert!(resumed > set);

    share.set(open, keep(Some(true), None));
    share.write(open, 0, b"z");
    assert_eq!(share.metadata(open).last_write_time, resumed, "stopping keeps what it is");
    share.write(other, 0, b"a");
    let by_other = share.metadata(open).last_write_time;
    assert!(by_other >= resumed, "other opens are not concerned");
    share.write(open, 0, b"b");
    assert_eq!(share.metadata(open).last_write_time, by_other, "and what they change stays");
}

#[test]
fn an_access_time_that_was_set_stays_when_the_open_reads() {
    let mut share = Share::new();
    share.local("f", "abc");
    let open = share.open_for("f", READ | WRITE);
    let set = FileTime(131_000_000_000_000_003);
    let basic = BasicChange {
        last_access_time: Some(set),
        keep_last_access_time: Some(true),
        ..BasicChange::default()
    };
    share.set(open, basic);
    assert_eq!(share.read(open, 0, 3), b"abc");
    assert_eq!(share.metadata(open).last_access_time, set);
}

#[test]
fn attributes_of_an_open_without_data_access_can_be_set() {
    let mut share = Share::new();
    share.local("f", "x");
    let access = AccessMask::WRITE_ATTRIBUTES | AccessMask::READ_ATTRIBUTES;
    let open = share.open_for("f", access);
    share.set(
        open,
        BasicChange {
            attributes: Some(FileAttributes::HIDDEN),
            last_write_time: Some(FileTime(131_000_000_000_000_000)),
            ..BasicChange::default()
        },
    );
    let metadata = share.metadata(open);
    assert_eq!(metadata.attributes, FileAttributes::HIDDEN);
    assert_eq!(metadata.last_write_time, FileTime(131_000_000_000_000_000));
}

#[test]
fn allocation_covers_the_size_in_whole_clusters() {
    let mut share = Share::new();
    let open = share.create("f");
    for size in [1, 4_096, 4_097, 100_000] {
        share.done(ObjectOp::SetEndOfFile { open, size });
        let metadata = share.metadata(open);
        assert_eq!(metadata.end_of_file, size);
        assert!(metadata.allocation_size >= size);
        assert_eq!(metadata.allocation_size % 4_096, 0);
    }
    share.done(ObjectOp::SetAllocation { open, size: 10 });
    assert_eq!(share.metadata(open).end_of_file, 10);
    share.done(ObjectOp::SetAllocation { open, size: 1 << 20 });
    let metadata = share.metadata(open);
    assert_eq!(metadata.end_of_file, 10);
    assert!(metadata.allocation_size >= 1 << 20);
    share.done(ObjectOp::SetAllocation { open, size: 4_096 });
    assert!(share.metadata(open).allocation_size < 1 << 20, "what was reserved is given back");
}

/// Steps of a coarse clock are at most 10 ms apart, and each attempt takes microseconds.
const ATTEMPTS_MAX: u32 = 100_000;

#[test]
fn setting_the_allocation_size_renews_the_change_time_and_keeps_the_last_write_time() {
    let mut share = Share::new();
    let open = share.create("f");
    share.done(ObjectOp::SetEndOfFile { open, size: 1 });
    for size in [1 << 20, 4_096, 1] {
        let before = share.metadata(open);
        let is_renewed = (0..ATTEMPTS_MAX).any(|_| {
            share.done(ObjectOp::SetAllocation { open, size });
            share.metadata(open).change_time != before.change_time
        });
        assert!(is_renewed, "allocation size {size}");
        assert_eq!(share.metadata(open).last_write_time, before.last_write_time, "{size}");
    }
}

#[track_caller]
fn attributes(share: &mut Share, open: LocalOpen) -> Vec<(String, Vec<u8>)> {
    match share.run(ObjectOp::ReadExtendedAttributes { open }) {
        Ok(ObjectReply::ExtendedAttributes(all)) => {
            all.into_iter().map(|one| (one.name, one.value)).collect()
        }
        other => panic!("{other:?}"),
    }
}

fn attribute(name: &str, value: &[u8]) -> ExtendedAttribute {
    ExtendedAttribute { flags: 0, name: name.to_owned(), value: value.to_vec() }
}

#[test]
fn extended_attributes_are_those_of_the_host() {
    let mut share = Share::new();
    let open = share.open_after_create("f");
    let set = |open, list: &[ExtendedAttribute]| ObjectOp::WriteExtendedAttributes {
        open,
        attributes: list.to_vec(),
    };
    share.done(set(open, &[attribute("myea", b"value1")]));
    assert_eq!(share.attribute("f", "user.myea"), Some(b"value1".to_vec()));
    share.set_attribute("f", "user.DOSATTRIB", &FROM_SAMBA);
    share.set_attribute("f", "user.DosStream.s:$DATA", b"x\0");
    assert_eq!(attributes(&mut share, open), [("myea".to_owned(), b"value1".to_vec())]);
    // 8 bytes, "myea", a zero, "value1".
    assert_eq!(share.metadata(open).ea_size, 19);
    share.done(set(open, &[attribute("MYEA", b"2"), attribute("other", b"3")]));
    assert_eq!(share.attribute("f", "user.myea"), Some(b"2".to_vec()), "the name's case is kept");
    // 14 and 15 bytes in the order of the file system, the first padded to 16.
    assert!(matches!(share.metadata(open).ea_size, 30 | 31));
    share.done(set(open, &[attribute("myea", b""), attribute("none", b"")]));
    assert_eq!(attributes(&mut share, open), [("other".to_owned(), b"3".to_vec())]);
    let reserved = ["DOSATTRIB", "dosattrib", "DosStream.s:$DATA", "NTACL", "SAMBA_PAI"];
    for name in reserved {
        let result = share.run(set(open, &[attribute("fine", b"1"), attribute(name, b"x")]));
        assert!(matches!(result, Err(NtStatus::ACCESS_DENIED)), "{name}");
    }
    for name in ["", "a\0b"] {
        let result = share.run(set(open, &[attribute(name, b"x")]));
        assert!(matches!(result, Err(NtStatus::INVALID_EA_NAME)), "{name:?}");
    }
    assert_eq!(share.attribute("f", "user.fine"), None, "checked before anything is changed");
}

#[test]
fn attributes_that_are_too_large_together_change_nothing() {
    let mut share = Share::new();
    let open = share.open_after_create("f");
    let set = |list: &[ExtendedAttribute]| ObjectOp::WriteExtendedAttributes {
        open,
        attributes: list.to_vec(),
    };
    let result = share.run(set(&[attribute("small", b"1"), attribute("large", &[0; 65_535])]));
    assert!(matches!(result, Err(NtStatus::EA_TOO_LARGE)), "{result:?}");
    assert_eq!(share.attribute("f", "user.small"), None);
    // What is removed in the same list counts no longer.
    share.done(set(&[attribute("old", &[0; 1_000])]));
    let large = &[0; 64 * 1024 - 5 - 14];
    let list = [
        attribute("old", b""),
        attribute("small", b"1"),
        attribute("SMALL", b""),
        attribute("large", large),
    ];
    // Whether it has room for them is up to the file system.
    let _ = share.run(set(&list));
    assert_eq!(share.attribute("f", "user.old"), None);
}

#[test]
fn streams_are_kept_as_samba_does() {
    let mut share = Share::new();
    share.local("f", "main");
    share.set_attribute("f", "user.DosStream.foo:$DATA", b"hello\n\0");
    let opened = share.try_open("f:FOO", |_| {}).expect("the stream");
    assert_eq!(opened.path.to_windows(), "f:foo");
    assert_eq!(opened.metadata.end_of_file, 6);
    assert_ne!(opened.metadata.identity.stream, 0);
    assert_eq!(share.read(opened.open, 0, 100), b"hello\n");
    assert_eq!(share.read(opened.open, 4, 100), b"o\n");
    assert_eq!(share.read(opened.open, 6, 100), b"");

    let stream = share.try_open("f:bar", |request| {
        request.disposition = Disposition::Create;
        request.desired_access = READ | WRITE;
    });
    let stream = stream.expect("created");
    assert!(stream.created);
    assert_ne!(stream.metadata.identity.stream, opened.metadata.identity.stream);
    assert_eq!(share.attribute("f", "user.DosStream.bar:$DATA"), Some(b"\0".to_vec()));
    share.write(stream.open, 2, b"xy");
    assert_eq!(share.attribute("f", "user.DosStream.bar:$DATA"), Some(b"\0\0xy\0".to_vec()));
    share.done(ObjectOp::SetEndOfFile { open: stream.open, size: 3 });
    assert_eq!(share.read(stream.open, 0, 100), b"\0\0x");
    assert_eq!(share.content("f"), "main");
    let streams = share.streams(stream.open);
    let mut names: Vec<_> = streams.iter().map(|one| (one.name.as_str(), one.size)).collect();
    names.sort_unstable();
    assert_eq!(names, [("", 4), ("bar", 3), ("foo", 6)]);
}

#[test]
fn a_stream_is_created_with_its_file_and_removed_alone() {
    let mut share = Share::new();
    let missing = share.status_of("f:s", |_| {});
    assert_eq!(missing, NtStatus::OBJECT_NAME_NOT_FOUND);
    assert!(!share.host("f").exists());
    let open = share.create("f:s");
    assert!(share.host("f").exists());
    let again = share.status_of("f:S", |request| request.disposition = Disposition::Create);
    assert_eq!(again, NtStatus::OBJECT_NAME_COLLISION);
    share.unlink(open).expect("the stream is removed");
    assert!(share.host("f").exists());
    assert_eq!(share.status_of("f:s", |_| {}), NtStatus::OBJECT_NAME_NOT_FOUND);
    assert_eq!(share.status_of("f", |_| {}), NtStatus::SUCCESS);
}

#[test]
fn directories_have_streams_but_no_unnamed_one() {
    let mut share = Share::new();
    share.create_directory("d");
    let open = share.create("d:s");
    let names: Vec<_> = share.streams(open).into_iter().map(|stream| stream.name).collect();
    assert_eq!(names, ["s"]);
    let directory = share.status_of("d:s", |r| r.kind = object::RequestedKind::Directory);
    assert_eq!(directory, NtStatus::NOT_A_DIRECTORY);
}

#[test]
fn a_stream_is_renamed_within_its_file() {
    let mut share = Share::new();
    share.create("f");
    let open = share.create("f:a");
    share.write(open, 0, b"content");
    share.create("f:b");
    assert_eq!(share.rename(open, "f:b", false), Err(NtStatus::OBJECT_NAME_COLLISION));
    assert_eq!(share.rename(open, "f:c", false), Ok("f:c".to_owned()));
    assert_eq!(share.read(open, 0, 100), b"content");
    assert_eq!(share.rename(open, "f:b", true), Ok("f:b".to_owned()));
    assert_eq!(share.rename(open, "f:B", false), Ok("f:B".to_owned()));
    let names: Vec<_> = share.streams(open).into_iter().map(|stream| stream.name).collect();
    assert_eq!(names, ["", "B"]);
}

#[test]
fn a_stream_that_is_too_large_is_a_full_disk() {
    let mut share = Share::new();
    let open = share.create("f:s");
    let result = share.run(ObjectOp::SetEndOfFile { open, size: 70_000 });
    assert!(matches!(result, Err(NtStatus::DISK_FULL)));
    let data = bytes::Bytes::from_static(b"x");
    let write = ObjectOp::Write {
        open,
        offset: u64::MAX,
        data,
        piped: None,
        write_through: false,
        verify_locks: false,
    };
    assert!(matches!(share.run(write), Err(NtStatus::DISK_FULL)));
}

#[test]
fn a_share_without_streams_has_no_such_names() {
    let mut share = Share::with(|settings| settings.streams = false);
    share.local("f", "x");
    assert_eq!(share.status_of("f:s", |_| {}), NtStatus::OBJECT_NAME_INVALID);
}

#[test]
fn overwriting_takes_streams_attributes_and_data_away() {
    let mut share = Share::new();
    for supersede in [false, true] {
        let name = if supersede { "s" } else { "o" };
        let open = share.create(name);
        share.write(open, 0, b"data");
        let stream = share.create(&format!("{name}:stream"));
        share.close(stream);
        let list = vec![attribute("old", b"1")];
        share.done(ObjectOp::WriteExtendedAttributes { open, attributes: list });
        let basic = BasicChange {
            attributes: Some(FileAttributes::TEMPORARY),
            creation_time: Some(CREATED),
            ..BasicChange::default()
        };
        share.set(open, basic);
        share.close(open);
        let disposition = if supersede { Disposition::Supersede } else { Disposition::OverwriteIf };
        let opened = share.try_open(name, |request| request.disposition = disposition);
        let open = opened.expect("opened").open;
        let result = share.run(ObjectOp::Overwrite {
            open,
            supersede,
            attributes: FileAttributes::HIDDEN,
            extended_attributes: vec![attribute("new", b"2")],
            allocation_size: 0,
        });
        let Ok(ObjectReply::Metadata(metadata)) = result else { panic!("{result:?}") };
        assert_eq!(metadata.end_of_file, 0);
        let given = FileAttributes::HIDDEN | FileAttributes::ARCHIVE;
        if supersede {
            assert_eq!(metadata.attributes, given);
            assert_ne!(metadata.creation_time, CREATED, "it is a new file");
        } else {
            assert_eq!(metadata.attributes, given | FileAttributes::TEMPORARY);
            assert_eq!(metadata.creation_time, CREATED);
        }
        assert_eq!(attributes(&mut share, open), [("new".to_owned(), b"2".to_vec())]);
        assert_eq!(share.streams(open).len(), 1);
    }
}

#[test]
fn a_further_name_leads_to_the_same_file() {
    let mut share = Share::new();
    let open = share.create("f");
    share.write(open, 0, b"x");
    share.create("taken");
    let link = |target: &str, replace| {
        let target = ObjectPath::parse(target).expect("a path");
        ObjectOp::Link { open, target: target.into(), replace }
    };
    share.done(link("g", false));
    assert_eq!(share.metadata(open).number_of_links, 2);
    assert_eq!(share.content("g"), "x");
    let taken = share.run(link("TAKEN", false));
    assert!(matches!(taken, Err(NtStatus::OBJECT_NAME_COLLISION)));
    share.done(link("TAKEN", true));
    assert_eq!(share.content("taken"), "x");
    let missing = share.run(link("none\\g", false));
    assert!(matches!(missing, Err(NtStatus::OBJECT_PATH_NOT_FOUND)));
    share.unlink(open).expect("one name of three");
    assert_eq!(share.content("g"), "x");
    let directory = share.create_directory("d");
    let target = ObjectPath::parse("h").expect("a path");
    let result =
        share.run(ObjectOp::Link { open: directory, target: target.into(), replace: false });
    assert!(matches!(result, Err(NtStatus::FILE_IS_A_DIRECTORY)));
}

#[test]
fn a_renamed_file_has_the_archive_attribute() {
    let mut share = Share::new();
    let open = share.open_after_create("f");
    let attributes = Some(FileAttributes::HIDDEN);
    share.set(open, BasicChange { attributes, ..BasicChange::default() });
    share.rename(open, "g", false).expect("nothing prevents it");
    let attributes = share.metadata(open).attributes;
    assert_eq!(attributes, FileAttributes::HIDDEN | FileAttributes::ARCHIVE);
}

#[test]
fn a_volume_without_nt_acl_support_reports_no_persistent_acls() {
    const PERSISTENT_ACLS: u32 = 0x0000_0008;
    for supports in [true, false] {
        let mut share = Share::with(|settings| settings.nt_acl_support = supports);
        let open = share.open("");
        let Ok(ObjectReply::Volume(volume)) = share.run(ObjectOp::QueryVolume { open }) else {
            panic!("the volume is there")
        };
        assert_eq!(volume.attributes & PERSISTENT_ACLS != 0, supports);
    }
}

#[test]
fn a_volume_has_room_and_a_name() {
    let mut share = Share::with(|settings| "data".clone_into(&mut settings.volume_label));
    let open = share.open("");
    let Ok(ObjectReply::Volume(volume)) = share.run(ObjectOp::QueryVolume { open }) else {
        panic!("no volume");
    };
    assert_eq!(volume.label, "data");
    assert_eq!(volume.file_system_name, "NTFS");
    assert!(volume.total_bytes >= volume.free_bytes);
    assert!(volume.free_bytes >= volume.available_bytes);
    assert_eq!(volume.cluster_bytes % volume.sector_bytes, 0);
    let again = share.open("");
    let Ok(ObjectReply::Volume(again)) = share.run(ObjectOp::QueryVolume { open: again }) else {
        panic!("no volume");
    };
    assert_eq!(volume.serial_number, again.serial_number);
}

impl Share {
    fn open_after_create(&mut self, name: &str) -> LocalOpen {
        let open = self.create(name);
        self.close(open);
        let access = READ | WRITE | DELETE | AccessMask::READ_EA | AccessMask::WRITE_EA;
        self.open_for(name, access)
    }
}

#[test]
fn names_to_be_hidden_are_hidden_however_they_are_asked_for() {
    let mut share =
        Share::with(|settings| settings.hide_files = vec![dtyp::NameExpression::new("Desk*")]);
    share.local("desktop.ini", "x");
    share.local("other", "x");
    let open = share.open_for("desktop.ini", READ | WRITE);
    assert!(share.metadata(open).attributes.contains(FileAttributes::HIDDEN));
    let stored = share.attribute("desktop.ini", "user.DOSATTRIB");
    assert_eq!(stored, None, "it is the name that hides it");
    let root = share.open("");
    let entries = share.entries(root, true, 10);
    let hidden = entries.iter().filter(|entry| {
        let metadata = entry.metadata.as_ref().expect("it was asked for");
        metadata.attributes.contains(FileAttributes::HIDDEN)
    });
    assert_eq!(hidden.map(|entry| entry.name.as_str()).collect::<Vec<_>>(), ["desktop.ini"]);
    let overwritten =
        share.try_open("desktop.ini", |request| request.disposition = Disposition::OverwriteIf);
    overwritten.expect("HIDDEN by its name need not be asked for");
}

#[test]
fn the_times_reported_at_creation_are_those_of_the_file() {
    let mut share = Share::new();
    let hidden = |request: &mut object::OpenRequest| {
        request.disposition = Disposition::Create;
        request.attributes = FileAttributes::HIDDEN;
    };
    let opened = share.try_open("f", hidden).expect("it is new");
    let metadata = share.metadata(opened.open);
    assert_eq!(opened.metadata.change_time, metadata.change_time);
    assert_eq!(opened.metadata.last_write_time, metadata.last_write_time);
    assert_eq!(opened.metadata.creation_time, metadata.creation_time);
}

#[test]
fn metadata_are_read_once_in_a_frame_until_a_change() {
    let mut share = Share::new();
    share.local("file", "1");
    let size = |share: &mut Share, open| share.metadata(open).end_of_file;
    share.store.begin_frame();
    let open = share.open_for("file", READ | WRITE);
    assert_eq!(size(&mut share, open), 1);
    share.write(open, 1, b"2");
    assert_eq!(size(&mut share, open), 2);
    // By others, which a request of this frame may or may not see.
    share.local("file", "123");
    let within = size(&mut share, open);
    assert!(matches!(within, 2 | 3), "{within}");
    share.store.end_frame();
    assert_eq!(size(&mut share, open), 3);
    share.local("file", "1234");
    assert_eq!(size(&mut share, open), 4);
}

/// The list of a file without attributes is answered from what its CREATE found.
#[test]
fn extended_attributes_of_a_compound_are_those_that_its_requests_set() {
    let mut share = Share::new();
    share.local("file", "1");
    share.store.begin_frame();
    let open = share.open_for("file", READ | WRITE);
    assert_eq!(attributes(&mut share, open), []);
    let list = vec![attribute("a", b"1")];
    share.done(ObjectOp::WriteExtendedAttributes { open, attributes: list });
    assert_eq!(attributes(&mut share, open), [("a".to_owned(), b"1".to_vec())]);
    share.store.end_frame();
    share.set_attribute("file", "user.b", b"2");
    assert_eq!(
        attributes(&mut share, open).len(),
        2,
        "the host's own count from the next frame on"
    );
}

#[test]
fn each_object_has_its_own_attributes_and_not_those_of_the_one_before() {
    let mut share = Share::new();
    for name in ["bare", "dos", "ea", "both"] {
        share.local(name, "");
    }
    for name in ["dos", "both"] {
        share.set_attribute(name, "user.DOSATTRIB", &FROM_SAMBA);
    }
    for name in ["ea", "both"] {
        share.set_attribute(name, "user.a", b"value");
    }
    let mut seen = |name: &str| {
        let open = share.open(name);
        share.store.begin_frame();
        let metadata = share.metadata(open);
        let without = ObjectOp::QueryMetadata { open, with_ea_size: false };
        assert!(matches!(share.run(without), Ok(ObjectReply::Metadata(it)) if it.ea_size == 0));
        share.store.end_frame();
        (metadata.attributes.contains(FileAttributes::HIDDEN), metadata.ea_size)
    };
    let names = ["bare", "dos", "ea", "both"];
    for first in names {
        for second in names {
            for name in [first, second] {
                let dos = matches!(name, "dos" | "both");
                // 8 bytes, "a", a zero, "value".
                let ea_size = if matches!(name, "ea" | "both") { 15 } else { 0 };
                assert_eq!(seen(name), (dos, ea_size), "{name} of {first} and {second}");
            }
        }
    }
}
