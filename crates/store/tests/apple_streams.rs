//! Streams as Apple's clients know them: one without bytes is none, `AFP_AfpInfo` is a structure.

mod support;

use dtyp::NtStatus;
use object::{Disposition, LocalOpen, ObjectOp, ObjectReply};
use support::{DELETE, READ, Share, WRITE};

fn share() -> Share {
    let mut share = Share::with(|root| root.apple_streams = true);
    share.local("f", "x");
    share
}

fn open_if(share: &mut Share, path: &str) -> LocalOpen {
    let opened = share.try_open(path, |request| {
        request.disposition = Disposition::OpenIf;
        request.desired_access = READ | WRITE | DELETE;
    });
    opened.expect("opened or created").open
}

fn exists(share: &mut Share, path: &str) -> bool {
    match share.try_open(path, |_| {}) {
        Ok(opened) => {
            share.close(opened.open);
            true
        }
        Err(status) => {
            assert_eq!(status, NtStatus::OBJECT_NAME_NOT_FOUND);
            false
        }
    }
}

fn names(share: &mut Share) -> Vec<String> {
    let open = share.open("f");
    let names = share.streams(open).into_iter().map(|stream| stream.name).collect();
    share.close(open);
    names
}

fn resize(share: &mut Share, open: LocalOpen, size: u64) -> Result<ObjectReply, NtStatus> {
    share.run(ObjectOp::SetEndOfFile { open, size })
}

fn info(finder_info: &[u8; 8]) -> Vec<u8> {
    let mut info = b"AFP\0\0\x01\0\0\0\0\0\0\x80\0\0\0".to_vec();
    info.extend(finder_info);
    info.resize(60, 0);
    info
}

fn try_write(share: &mut Share, open: LocalOpen, offset: u64, data: &[u8]) -> Option<NtStatus> {
    let data = bytes::Bytes::copy_from_slice(data);
    let op = ObjectOp::Write {
        open,
        offset,
        data,
        piped: None,
        write_through: false,
        verify_locks: false,
    };
    share.run(op).err()
}

#[test]
fn a_stream_without_bytes_is_seen_by_its_open_alone() {
    for path in ["f:foo", "f:AFP_Resource"] {
        let mut share = share();
        let open = open_if(&mut share, path);
        assert_eq!(share.metadata(open).end_of_file, 0);
        assert!(!exists(&mut share, path), "nothing is written");
        assert_eq!(names(&mut share), [""]);
        share.write(open, 0, b"abc");
        assert!(exists(&mut share, path));
        resize(&mut share, open, 0).expect("truncated");
        assert!(!exists(&mut share, path), "truncated");
        share.write(open, 0, b"de");
        share.close(open);
        let again = share.open(path);
        assert_eq!(share.read(again, 0, 10), b"de", "what an earlier open wrote is kept");
    }
}

#[test]
fn the_deletion_of_a_resource_fork_is_ignored_and_others_are_not() {
    let mut share = share();
    for (path, stays) in [("f:AFP_Resource", true), ("f:foo", false), ("f:AFP_AfpInfo", false)] {
        let open = open_if(&mut share, path);
        share.write(open, 0, &info(b"TEXTttxt"));
        share.unlink(open).expect("accepted");
        assert_eq!(exists(&mut share, path), stays, "{path}");
    }
}

#[test]
fn finder_information_is_a_structure_of_sixty_bytes() {
    let mut share = share();
    let open = open_if(&mut share, "f:AFP_AfpInfo");
    assert_eq!(share.metadata(open).end_of_file, 60);
    assert_eq!(share.read(open, 0, 100), info(&[0; 8]), "without information it is the empty one");
    assert!(!exists(&mut share, "f:AFP_AfpInfo"));
    let tagged = info(b"TEXTttxt");
    share.write(open, 0, &tagged);
    assert!(exists(&mut share, "f:AFP_AfpInfo"));
    assert_eq!(share.read(open, 16, 8), b"AFP\0\0\x01\0\0", "any offset is the beginning");
    assert_eq!(share.read(open, 61, 1), b"");
    let too_long = resize(&mut share, open, 61).err();
    assert_eq!(too_long, Some(NtStatus::ALLOTTED_SPACE_EXCEEDED));
    resize(&mut share, open, 1).expect("without effect");
    assert_eq!(share.read(open, 0, 60), tagged);
    share.write(open, 0, &info(&[0; 8]));
    assert!(!exists(&mut share, "f:AFP_AfpInfo"), "nothing is left to tell");
}

#[test]
fn a_write_to_finder_information_begins_with_the_signature() {
    let mut share = share();
    let open = open_if(&mut share, "f:AFP_AfpInfo");
    let tagged = info(b"TEXTttxt");
    let refused = Some(NtStatus::INVALID_PARAMETER);
    for (offset, data) in
        [(0, &[0; 60][..]), (0, b"foo"), (0, b"AF"), (1, &tagged[..59]), (u64::MAX, &tagged[..3])]
    {
        assert_eq!(try_write(&mut share, open, offset, data), refused, "{offset}: {data:?}");
        assert!(!exists(&mut share, "f:AFP_AfpInfo"));
    }
    for (offset, length) in [(0, 24), (0, 60), (61, 60)] {
        assert_eq!(try_write(&mut share, open, offset, &tagged[..length]), None);
        assert_eq!(share.read(open, 0, 60), tagged, "{offset}, {length}");
    }
    let longer = [&tagged[..], &[7; 100]].concat();
    assert_eq!(try_write(&mut share, open, 10_000, &longer), None);
    assert_eq!(share.read(open, 0, 200), tagged, "the rest is ignored");
}

#[test]
fn damaged_finder_information_is_none() {
    let mut share = share();
    share.set_attribute("f", "user.DosStream.AFP_AfpInfo:$DATA", b"foo\0");
    assert_eq!(names(&mut share), [""]);
    assert!(!exists(&mut share, "f:AFP_AfpInfo"));
}

#[test]
fn all_streams_are_copied_at_once() {
    let mut share = share();
    share.local("g", "");
    for path in ["f:foo", "f:AFP_Resource"] {
        let open = open_if(&mut share, path);
        share.write(open, 0, path.as_bytes());
        share.close(open);
    }
    let (source, target) = (open_if(&mut share, "f"), open_if(&mut share, "g"));
    share.done(ObjectOp::CopyStreams { source, target });
    for (copy, data) in [("g:foo", "f:foo"), ("g:AFP_Resource", "f:AFP_Resource")] {
        let open = share.open(copy);
        assert_eq!(share.read(open, 0, 100), data.as_bytes());
    }
}
