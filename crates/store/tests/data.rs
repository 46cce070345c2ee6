//! Reading, writing, ranges, and what happens to files underneath their opens.

mod support;

use std::fs::File;
use std::num::NonZeroU64;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use dtyp::{AccessMask, FileAttributes, NtStatus};
use object::{Disposition, LocalOpen, ObjectOp, ObjectReply};
use rustix::fs::Advice;
use store::{FoundRanges, Started, StoreSettings};
use support::{DELETE, READ, Share, WRITE};
use uring::Op;

#[test]
fn written_data_are_read_back() {
    let mut share = Share::new();
    let open = share.create("f");
    share.write(open, 3, b"abc");
    assert_eq!(share.read(open, 0, 100), b"\0\0\0abc");
    assert_eq!(share.read(open, 4, 1), b"b");
    assert_eq!(share.read(open, 6, 10), b"", "at the end");
    assert_eq!(share.read(open, 1 << 40, 10), b"", "past the end");
    assert_eq!(share.read(open, 0, 0), b"");
}

#[test]
fn reading_appends_to_the_contents_of_the_buffer() {
    let mut share = Share::new();
    let open = share.create("f");
    share.write(open, 0, b"abc");
    let mut buffer = BytesMut::with_capacity(16);
    buffer.extend_from_slice(b"header");
    let result = share.run(ObjectOp::Read {
        open,
        offset: 1,
        length: 10,
        buffer,
        may_pipe: false,
        verify_locks: false,
    });
    let Ok(ObjectReply::Read(buffer)) = result else { panic!("{result:?}") };
    assert_eq!(&buffer[..], b"headerbc");
}

#[test]
fn cached_data_need_no_ring() {
    let mut share = Share::new();
    let open = share.create("f");
    share.write(open, 0, &[7; 100_000]);
    let buffer = BytesMut::with_capacity(65_536);
    let op = ObjectOp::Read {
        open,
        offset: 0,
        length: 65_536,
        buffer,
        may_pipe: false,
        verify_locks: false,
    };
    match share.store.start(share.user, op) {
        Started::Done(Ok(ObjectReply::Read(buffer))) => assert_eq!(buffer.len(), 65_536),
        other => panic!("{other:?}"),
    }
}

/// Data that left the cache come through the ring, in one piece with what was still cached, and the
/// file stays open for it even when the open is closed meanwhile.
#[test]
fn uncached_data_come_through_the_ring_also_after_a_close() {
    let mut share = Share::new();
    let open = share.create("f");
    let data: Vec<u8> = (0..=255u8).cycle().take(1 << 20).collect();
    share.write(open, 0, &data);
    share.done(ObjectOp::Flush { open });
    share.store.revert_to_server();
    let file = File::open(share.host("f")).expect("there");
    let started = start_uncached(&mut share, open, &file);
    share.close(open);
    share.create("other");
    match share.drive(started) {
        Ok(ObjectReply::Read(buffer)) => assert!(buffer == data),
        other => panic!("{other:?}"),
    }
}

/// Starts a read of the first 1 MiB, with as little of it in the cache as the kernel allows.
fn start_uncached(share: &mut Share, open: LocalOpen, file: &File) -> Started {
    // On a file system in memory nothing can leave the cache.
    let in_memory = rustix::fs::fstatfs(file).expect("statfs").f_type == 0x0102_1994;
    // Elsewhere a page stays while the kernel uses it, as for a list of recent pages.
    for _ in 0..1_000 {
        file.sync_all().expect("there is space");
        let length = NonZeroU64::new(1 << 20);
        rustix::fs::fadvise(file, 0, length, Advice::DontNeed).expect("advice");
        let buffer = BytesMut::with_capacity(1 << 20);
        let op = ObjectOp::Read {
            open,
            offset: 0,
            length: 1 << 20,
            buffer,
            may_pipe: false,
            verify_locks: false,
        };
        let started = share.store.start(share.user, op);
        if in_memory || matches!(started, Started::Submit(Op::ReadAt { .. }, _)) {
            return started;
        }
    }
    panic!("the data stay in the cache");
}

#[test]
fn large_reads_are_handed_over_when_more_waits() {
    let mut share = Share::new();
    let open = share.create("f");
    let data: Vec<u8> = (0..=250u8).cycle().take(900_000).collect();
    share.write(open, 0, &data);
    for (more_waits, length, want) in
        [(false, 1 << 20, false), (true, 1 << 20, true), (true, 1 << 18, false)]
    {
        share.store.set_more_waits(more_waits);
        let buffer = BytesMut::with_capacity(1 << 20);
        let read = ObjectOp::Read {
            open,
            offset: 0,
            length,
            buffer,
            may_pipe: false,
            verify_locks: false,
        };
        let started = share.store.start(share.user, read);
        let in_thread = matches!(started, Started::Submit(Op::ReadAt { in_thread: true, .. }, _));
        assert_eq!(in_thread, want, "{more_waits}, {length}");
        let length = usize::try_from(length).expect("64 bits").min(data.len());
        match share.drive(started) {
            Ok(ObjectReply::Read(buffer)) => assert!(buffer == data[..length]),
            other => panic!("{other:?}"),
        }
    }
    // One that ends in what is read here needs no thread.
    share.store.set_more_waits(true);
    assert_eq!(share.read(open, 899_990, 1 << 20), data[899_990..]);
}

/// io_uring fails a READ of a descriptor with O_NONBLOCK, instead of waiting for the disk.
#[test]
fn the_ring_may_wait_for_a_file_that_was_opened_without_waiting() {
    let mut share = Share::new();
    let created = share.create("f");
    share.write(created, 0, &[7; 1 << 20]);
    share.close(created);
    // The second open finds the name of an ordinary file.
    let first = share.open_for("f", AccessMask::READ_DATA);
    let second = share.open_for("f", AccessMask::READ_DATA);
    share.store.set_more_waits(true);
    for open in [first, second] {
        let buffer = BytesMut::with_capacity(1 << 20);
        let read = ObjectOp::Read {
            open,
            offset: 0,
            length: 1 << 20,
            buffer,
            may_pipe: false,
            verify_locks: false,
        };
        let started = share.store.start(share.user, read);
        let Started::Submit(Op::ReadAt { file, .. }, _) = &started else { panic!("{started:?}") };
        let info =
            std::fs::read_to_string(format!("/proc/self/fdinfo/{file}")).expect("it is open");
        let flags =
            info.lines().find_map(|line| line.strip_prefix("flags:")).expect("it has flags");
        let flags = i32::from_str_radix(flags.trim(), 8).expect("an octal number");
        assert_eq!(flags & libc::O_NONBLOCK, 0);
        assert!(
            matches!(share.drive(started), Ok(ObjectReply::Read(data)) if data.len() == 1 << 20)
        );
    }
}

#[test]
fn writing_through_waits_for_the_disk() {
    let mut share = Share::new();
    let open = share.create("f");
    let data = Bytes::from_static(b"x");
    let write = ObjectOp::Write {
        open,
        offset: 0,
        data,
        piped: None,
        write_through: true,
        verify_locks: false,
    };
    let started = share.store.start(share.user, write);
    assert!(matches!(started, Started::Submit(Op::Sync { data_only: true, .. }, _)));
    assert!(matches!(share.drive(started), Ok(ObjectReply::Written(1))));
    let flush = share.store.start(share.user, ObjectOp::Flush { open });
    assert!(matches!(flush, Started::Submit(Op::Sync { data_only: false, .. }, _)));
    assert!(matches!(share.drive(flush), Ok(ObjectReply::Done)));
}

#[test]
fn a_failure_of_the_ring_is_a_status() {
    let mut share = Share::new();
    let open = share.create("f");
    let flush = share.store.start(share.user, ObjectOp::Flush { open });
    let Started::Submit(op, continuation) = flush else { panic!("{flush:?}") };
    let error = std::io::Error::from_raw_os_error(5);
    let finished = share.store.finish(continuation, op, Err(error));
    assert!(matches!(finished, Started::Done(Err(NtStatus::UNEXPECTED_IO_ERROR))));
}

#[test]
fn offsets_beyond_the_kernels_limit_are_refused() {
    let mut share = Share::new();
    let open = share.create("f");
    for offset in [u64::MAX, i64::MAX.cast_unsigned()] {
        let data = Bytes::from_static(b"ab");
        let write = ObjectOp::Write {
            open,
            offset,
            data,
            piped: None,
            write_through: false,
            verify_locks: false,
        };
        assert!(matches!(share.run(write), Err(NtStatus::INVALID_PARAMETER)));
        let buffer = BytesMut::with_capacity(10);
        let read = ObjectOp::Read {
            open,
            offset,
            length: 10,
            buffer,
            may_pipe: false,
            verify_locks: false,
        };
        assert!(matches!(share.run(read), Err(NtStatus::INVALID_PARAMETER)));
    }
    let size = u64::MAX;
    let end = share.run(ObjectOp::SetEndOfFile { open, size });
    assert!(matches!(end, Err(NtStatus::INVALID_PARAMETER)));
}

#[test]
fn directories_and_attribute_opens_have_no_data() {
    let mut share = Share::new();
    share.local("f", "x");
    let directory = share.create_directory("d");
    let attributes = share.open_for("f", AccessMask::READ_ATTRIBUTES);
    for open in [directory, attributes] {
        let buffer = BytesMut::with_capacity(10);
        let read = ObjectOp::Read {
            open,
            offset: 0,
            length: 10,
            buffer,
            may_pipe: false,
            verify_locks: false,
        };
        assert!(matches!(share.run(read), Err(NtStatus::INVALID_DEVICE_REQUEST)));
    }
}

#[track_caller]
fn ranges(share: &mut Share, open: LocalOpen, from: u64, to: u64) -> Vec<(u64, u64)> {
    match share.run(ObjectOp::AllocatedRanges { open, from, to, ranges_max: 16 }) {
        Ok(ObjectReply::Ranges(ranges)) => ranges,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_query_of_many_ranges_pauses_for_its_time_and_goes_on_without_a_gap() {
    let settings = StoreSettings { listing_time: Duration::ZERO, ..StoreSettings::default() };
    let mut share = Share::in_store(settings, |_| {});
    let open = share.create("f");
    share.done(ObjectOp::SetSparse { open, sparse: true });
    (0..50).for_each(|at| share.write(open, at << 17, &[1]));
    let op = ObjectOp::AllocatedRanges { open, from: 0, to: 1 << 40, ranges_max: 40 };
    let Ok(ObjectReply::Ranges(whole)) = share.run(op) else { panic!("there are ranges") };
    assert_eq!(whole.len(), 40, "without pauses");
    let (mut found, mut from, mut parts) = (Vec::new(), Some(0), 0);
    while let Some(at) = from {
        let places = 40 - u32::try_from(found.len()).expect("few");
        let part = share.store.find_ranges(share.user, open, (at, 1 << 40), places);
        let FoundRanges { ranges, rest } = part.expect("it is readable");
        assert!(!ranges.is_empty());
        found.extend(ranges);
        (from, parts) = (rest, parts + 1);
    }
    assert_eq!(found, whole);
    assert_eq!(parts, 3);
}

#[test]
fn zeroed_ranges_have_no_storage() {
    let mut share = Share::new();
    let open = share.create("f");
    share.write(open, 0, &[1; 1 << 18]);
    assert_eq!(ranges(&mut share, open, 0, 1 << 20), [(0, 1 << 18)], "not sparse: all of it");
    share.done(ObjectOp::SetSparse { open, sparse: true });
    assert!(share.metadata(open).attributes.contains(FileAttributes::SPARSE_FILE));
    share.done(ObjectOp::ZeroRange { open, from: 1 << 16, to: 1 << 17 });
    assert_eq!(share.metadata(open).end_of_file, 1 << 18);
    assert_eq!(share.read(open, (1 << 16) - 1, 2), [1, 0]);
    assert_eq!(share.read(open, (1 << 17) - 1, 2), [0, 1]);
    let found = ranges(&mut share, open, 0, 1 << 20);
    assert_eq!(found, [(0, 1 << 16), (1 << 17, 1 << 17)]);
    assert_eq!(ranges(&mut share, open, 100, 200), [(100, 100)]);
    assert_eq!(ranges(&mut share, open, 1 << 19, 1 << 20), []);
    let backwards = share.run(ObjectOp::ZeroRange { open, from: 2, to: 1 });
    assert!(matches!(backwards, Err(NtStatus::INVALID_PARAMETER)));
    share.done(ObjectOp::ZeroRange { open, from: 1 << 18, to: 1 << 19 });
    assert_eq!(share.metadata(open).end_of_file, 1 << 18, "the size stays");
}

#[test]
fn ranges_are_copied_between_files_and_streams() {
    let mut share = Share::new();
    let from = share.create("from");
    share.write(from, 0, b"0123456789");
    let to = share.create("to");
    let stream = share.create("to:s");
    let copy = |source, target, source_offset, target_offset, length| ObjectOp::CopyRange {
        source,
        target,
        source_offset,
        target_offset,
        length,
    };
    let copied = share.run(copy(from, to, 2, 1, 5));
    assert!(matches!(copied, Ok(ObjectReply::Written(5))));
    assert_eq!(share.read(to, 0, 100), b"\x0023456");
    let copied = share.run(copy(from, to, 8, 0, 100));
    assert!(matches!(copied, Ok(ObjectReply::Written(2))), "the source ends");
    let copied = share.run(copy(from, stream, 3, 0, 4));
    assert!(matches!(copied, Ok(ObjectReply::Written(4))));
    assert_eq!(share.read(stream, 0, 100), b"3456");
    let copied = share.run(copy(stream, from, 1, 0, 2));
    assert!(matches!(copied, Ok(ObjectReply::Written(2))));
    // Within one file, overlapping.
    let copied = share.run(copy(from, from, 0, 2, 6));
    assert!(matches!(copied, Ok(ObjectReply::Written(6))));
    assert_eq!(share.read(from, 0, 100), b"4545234589");
}

#[test]
fn a_rename_moves_a_file_under_its_opens() {
    let mut share = Share::new();
    let open = share.create("a");
    share.write(open, 0, b"x");
    let other = share.open_for("a", READ | DELETE);
    share.create_directory("d");
    assert_eq!(share.rename(open, "D\\b", false), Ok("d\\b".to_owned()));
    assert_eq!(share.read(open, 0, 10), b"x");
    assert_eq!(share.status_of("a", |_| {}), NtStatus::OBJECT_NAME_NOT_FOUND);
    // The other open of the file knows its new name.
    share.unlink(other).expect("by its new name");
    assert!(!share.host("d/b").exists());
    assert_eq!(share.read(open, 0, 10), b"x", "still open");
    assert_eq!(share.rename(open, "c", false), Err(NtStatus::OBJECT_NAME_NOT_FOUND));
}

#[test]
fn a_rename_replaces_files_only_and_only_if_asked() {
    let mut share = Share::new();
    let open = share.create("a");
    share.local("b", "old");
    share.local_directory("d");
    share.local("d/child", "");
    assert_eq!(share.rename(open, "B", false), Err(NtStatus::OBJECT_NAME_COLLISION));
    assert_eq!(share.rename(open, "d", true), Err(NtStatus::ACCESS_DENIED));
    assert_eq!(share.rename(open, "d", false), Err(NtStatus::OBJECT_NAME_COLLISION));
    assert_eq!(share.rename(open, "none\\x", false), Err(NtStatus::OBJECT_PATH_NOT_FOUND));
    assert_eq!(share.rename(open, "B", true), Ok("B".to_owned()));
    assert_eq!(share.content("B"), "");
    assert!(!share.host("b").exists());
    let protected = share.try_open("r", |request| {
        request.disposition = Disposition::Create;
        request.attributes = FileAttributes::READONLY;
    });
    share.close(protected.expect("created").open);
    assert_eq!(share.rename(open, "r", true), Err(NtStatus::ACCESS_DENIED));
    let root = share.open("");
    assert_eq!(share.rename(root, "x", false), Err(NtStatus::ACCESS_DENIED));
}

#[test]
fn a_rename_may_change_the_case_alone() {
    let mut share = Share::new();
    let open = share.create("name");
    assert_eq!(share.rename(open, "NAME", false), Ok("NAME".to_owned()));
    assert_eq!(share.names(""), [".", "..", "NAME"]);
    assert_eq!(share.rename(open, "NAME", false), Ok("NAME".to_owned()));
    let directory = share.create_directory("dir");
    assert_eq!(share.rename(directory, "Dir", false), Ok("Dir".to_owned()));
}

#[test]
fn a_directory_is_renamed_with_opens_beneath_it() {
    let mut share = Share::new();
    let directory = share.create_directory("d");
    let open = share.create("d\\f");
    assert_eq!(share.rename(directory, "e", false), Ok("e".to_owned()));
    assert_eq!(share.rename(open, "e\\g", false), Ok("e\\g".to_owned()));
    assert_eq!(share.rename(directory, "e\\inside", false), Err(NtStatus::INVALID_PARAMETER));
    share.unlink(open).expect("removed");
    share.unlink(directory).expect("removed");
    assert!(!share.host("e").exists());
}

#[test]
fn replacing_one_name_of_a_file_by_another_leaves_one() {
    let mut share = Share::new();
    let open = share.create("a");
    let target = object::ObjectPath::parse("b").expect("a path");
    share.done(ObjectOp::Link { open, target: target.into(), replace: false });
    assert_eq!(share.rename(open, "b", true), Ok("b".to_owned()));
    assert_eq!(share.names(""), [".", "..", "b"]);
}

#[test]
fn removing_deletes_the_opened_file_and_no_other() {
    let mut share = Share::new();
    let open = share.create("f");
    share.store.revert_to_server();
    std::fs::rename(share.host("f"), share.host("moved")).expect("there");
    share.local("f", "another");
    assert_eq!(share.unlink(open), Err(NtStatus::OBJECT_NAME_NOT_FOUND));
    assert_eq!(share.content("f"), "another");
    let closed = share.run(ObjectOp::QueryMetadata { open, with_ea_size: false });
    assert!(matches!(closed, Err(NtStatus::FILE_CLOSED)), "the open is gone all the same");
}

#[test]
fn a_directory_is_removed_when_it_is_empty() {
    let mut share = Share::new();
    let directory = share.create_directory("d");
    let child = share.create("d\\f");
    let empty = share.run(ObjectOp::IsEmpty { open: directory });
    assert!(matches!(empty, Ok(ObjectReply::Empty(false))));
    let second = share.open_for("d", READ | DELETE);
    assert_eq!(share.unlink(second), Err(NtStatus::DIRECTORY_NOT_EMPTY));
    share.unlink(child).expect("removed");
    let empty = share.run(ObjectOp::IsEmpty { open: directory });
    assert!(matches!(empty, Ok(ObjectReply::Empty(true))));
    share.unlink(directory).expect("removed");
    assert!(!share.host("d").exists());
}

#[test]
fn an_open_for_writing_alone_writes() {
    let mut share = Share::new();
    share.local("f", "abc");
    let open = share.open_for("f", AccessMask::WRITE_DATA);
    share.write(open, 1, b"X");
    assert_eq!(share.content("f"), "aXc");
    let append = share.open_for("f", AccessMask::APPEND_DATA | WRITE);
    share.write(append, 3, b"d");
    assert_eq!(share.content("f"), "aXcd");
}

/// Windows grants a WRITE with either right at any offset, and its clients rely on it.
#[test]
fn an_open_for_appending_alone_writes_at_the_offset_of_the_request() {
    let mut share = Share::new();
    share.local("f", "abc");
    let open = share.open_for("f", AccessMask::APPEND_DATA);
    share.write(open, 0, b"x");
    share.write(open, 3, b"de");
    assert_eq!(share.content("f"), "xbcde");
}

/// ext4 takes 60 KiB more; other file systems know their limit themselves.
#[test]
fn a_write_beyond_the_largest_file_of_ext4_is_invalid() {
    const BYTES_MAX: u64 = (16 << 40) - (64 << 10);
    const EXT4: i64 = 0xEF53;
    let mut share = Share::new();
    share.local("f", "abc");
    let folder = rustix::fs::statfs(share.host("")).expect("it is there");
    let open = share.open_for("f", WRITE);
    let mut write = |offset, data: &'static [u8]| {
        share.run(ObjectOp::Write {
            open,
            offset,
            data: Bytes::from_static(data),
            piped: None,
            write_through: false,
            verify_locks: false,
        })
    };
    assert!(write(BYTES_MAX, b"").is_ok(), "nothing is written");
    let beyond = write(BYTES_MAX, b"x").err();
    let resized = share.run(ObjectOp::SetEndOfFile { open, size: BYTES_MAX + 1 }).err();
    if folder.f_type == EXT4 {
        assert_eq!(beyond, Some(NtStatus::INVALID_PARAMETER));
        assert_eq!(resized, Some(NtStatus::INVALID_PARAMETER));
    } else {
        assert_ne!(beyond, Some(NtStatus::INVALID_PARAMETER));
    }
}
