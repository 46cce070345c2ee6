//! Storage that is given back, shared or compressed, as the file system of the temporary directory
//! can: it tells in the volume's attributes what it promises, and these tests hold it to that.

mod support;

use dtyp::{FileAttributes, NtStatus};
use object::{LocalOpen, ObjectOp, ObjectReply, Volume};
use support::Share;

const FILE_COMPRESSION: u32 = 0x0000_0010;
const SUPPORTS_BLOCK_REFCOUNTING: u32 = 0x0800_0000;

/// A page of each of these bytes.
fn pages(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().flat_map(|byte| [*byte; 4_096]).collect()
}

#[track_caller]
fn volume(share: &mut Share, open: LocalOpen) -> Volume {
    match share.run(ObjectOp::QueryVolume { open }) {
        Ok(ObjectReply::Volume(volume)) => *volume,
        other => panic!("no volume: {other:?}"),
    }
}

#[test]
fn a_trim_gives_whole_pages_back() {
    let mut share = Share::new();
    let open = share.create("f");
    share.write(open, 0, &pages(b"abcd"));
    share.done(ObjectOp::Flush { open });
    let trims = volume(&mut share, open).supports_trim;
    // Less than a page on either side stays.
    share.done(ObjectOp::Trim { open, from: 4_095, to: 12_289 });
    share.done(ObjectOp::Trim { open, from: 1, to: 4_095 });
    share.done(ObjectOp::Trim { open, from: 1 << 40, to: 1 << 41 });
    let read = share.read(open, 0, 16_384);
    assert_eq!(read.len(), 16_384);
    assert_eq!(read[..4_096], pages(b"a"));
    assert_eq!(read[12_288..], pages(b"d"));
    let want = if trims { pages(b"\0\0") } else { pages(b"bc") };
    assert_eq!(read[4_096..12_288], want);
    assert_eq!(share.metadata(open).end_of_file, 16_384);
}

#[track_caller]
fn duplicate(
    share: &mut Share,
    (source, source_offset): (LocalOpen, u64),
    (target, target_offset): (LocalOpen, u64),
    length: u64,
) -> NtStatus {
    let op = ObjectOp::DuplicateExtents { source, target, source_offset, target_offset, length };
    match share.run(op) {
        Ok(ObjectReply::Done) => NtStatus::SUCCESS,
        Err(status) => status,
        other => panic!("not done: {other:?}"),
    }
}

#[test]
fn extents_are_shared_if_the_volume_promises_it() {
    let mut share = Share::new();
    let (source, target) = (share.create("source"), share.create("target"));
    share.write(source, 0, &pages(b"abc"));
    share.write(target, 0, &pages(b"xyz"));
    let promised = volume(&mut share, source).attributes & SUPPORTS_BLOCK_REFCOUNTING != 0;
    let status = duplicate(&mut share, (source, 0), (target, 4_096), 4_096);
    if !promised {
        assert_eq!(status, NtStatus::INVALID_DEVICE_REQUEST);
        assert_eq!(share.read(target, 0, 12_288), pages(b"xyz"));
        return;
    }
    assert_eq!(status, NtStatus::SUCCESS);
    assert_eq!(share.read(target, 0, 20_000), pages(b"xaz"));
    // The target keeps its size.
    assert_eq!(duplicate(&mut share, (source, 4_096), (target, 8_192), 8_192), NtStatus::SUCCESS);
    assert_eq!(share.read(target, 0, 20_000), pages(b"xab"));
    // Within one file, apart.
    assert_eq!(duplicate(&mut share, (source, 0), (source, 8_192), 4_096), NtStatus::SUCCESS);
    assert_eq!(share.read(source, 0, 20_000), pages(b"aba"));
    // An unaligned range has no extent of its own.
    let status = duplicate(&mut share, (source, 1), (target, 0), 4_096);
    assert_eq!(status, NtStatus::INVALID_PARAMETER);
}

/// Judged before the file system is asked, and so the same on all of them.
#[test]
fn extents_must_lie_in_the_source_and_apart() {
    let mut share = Share::new();
    let (source, target) = (share.create("source"), share.create("target"));
    share.write(source, 0, &pages(b"abc"));
    share.write(target, 0, &pages(b"xyz"));
    let unsupported = NtStatus::NOT_SUPPORTED;
    assert_eq!(duplicate(&mut share, (source, 4_096), (target, 0), 12_288), unsupported);
    assert_eq!(duplicate(&mut share, (source, 0), (source, 4_096), 8_192), unsupported);
    let overflow = duplicate(&mut share, (source, u64::MAX), (target, 0), 2);
    assert_eq!(overflow, NtStatus::INVALID_PARAMETER);
    assert_eq!(duplicate(&mut share, (source, 0), (target, 0), 0), NtStatus::SUCCESS);
    assert_eq!(duplicate(&mut share, (source, 0), (target, 1 << 40), 4_096), NtStatus::SUCCESS);
    share.done(ObjectOp::SetSparse { open: source, sparse: true });
    assert_eq!(duplicate(&mut share, (source, 0), (target, 0), 4_096), unsupported);
    let directory = share.create_directory("d");
    let status = duplicate(&mut share, (directory, 0), (target, 0), 4_096);
    assert_eq!(status, NtStatus::INVALID_PARAMETER);
    assert_eq!(share.read(target, 0, 20_000), pages(b"xyz"));
}

#[test]
fn files_are_compressed_if_the_volume_promises_it() {
    let mut share = Share::new();
    let (file, directory) = (share.create("f"), share.create_directory("d"));
    let promised = volume(&mut share, file).attributes & FILE_COMPRESSION != 0;
    for open in [file, directory] {
        share.done(ObjectOp::SetCompression { open, compressed: false });
        let result = share.run(ObjectOp::SetCompression { open, compressed: true });
        let attributes = share.metadata(open).attributes;
        assert_eq!(attributes.contains(FileAttributes::COMPRESSED), promised);
        if promised {
            result.expect("as promised");
        } else {
            assert_eq!(result.expect_err("not promised"), NtStatus::NOT_SUPPORTED);
        }
        share.done(ObjectOp::SetCompression { open, compressed: false });
        assert!(!share.metadata(open).attributes.contains(FileAttributes::COMPRESSED));
    }
}
