//! Writing out of a pipe: what is in the file afterwards, and where it cannot be done.

mod support;

use bytes::Bytes;
use dtyp::NtStatus;
use object::{LocalOpen, ObjectOp, ObjectReply, ObjectResult, Piped};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use std::os::fd::BorrowedFd;
use support::Share;

/// Bytes of which no two pages are alike.
fn content(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at ^ (at >> 8) ^ (at >> 15)).to_le_bytes()[0]).collect()
}

/// A pipe with these data.
fn filled(share: &mut Share, data: &[u8]) -> Piped {
    let mut piped = share.store.lend_pipe(data.len()).expect("there are pipes");
    while piped.length() < data.len() {
        let rest = &data[piped.length()..];
        let came = rustix::io::write(&piped.pipe().input, rest).expect("it has room");
        piped.came(came);
    }
    piped
}

/// Writes these data, of which all but the first so many are in a pipe.
fn write(
    share: &mut Share,
    open: LocalOpen,
    offset: u64,
    data: &[u8],
    in_memory: usize,
) -> ObjectResult {
    let piped = Some(filled(share, &data[in_memory..]));
    let data = Bytes::copy_from_slice(&data[..in_memory]);
    share.run(ObjectOp::Write {
        open,
        offset,
        data,
        piped,
        write_through: false,
        verify_locks: false,
    })
}

fn host_content(share: &mut Share, path: &str) -> Vec<u8> {
    share.store.revert_to_server();
    std::fs::read(share.host(path)).expect("it is there")
}

fn number(piped: &Piped) -> i32 {
    std::os::fd::AsRawFd::as_raw_fd(&piped.pipe().output)
}

#[test]
fn piped_data_are_written_behind_those_in_memory() {
    let mut share = Share::new();
    let open = share.create("f");
    let data = content(1 << 20);
    let mut expected = vec![0; 3 << 20];
    for (offset, length, in_memory) in [
        (0, 1 << 20, 0),
        (5, 70_000, 100),
        (1 << 20, 1 << 20, 4_097),
        ((2 << 20) + 9, 300_001, 300_000),
    ] {
        let place = u64::try_from(offset).expect("a small file");
        let written = write(&mut share, open, place, &data[..length], in_memory);
        let count = u64::try_from(length).expect("a WRITE");
        assert!(matches!(written, Ok(ObjectReply::Written(it)) if it == count), "{written:?}");
        expected[offset..offset + length].copy_from_slice(&data[..length]);
        let end = host_content(&mut share, "f");
        assert!(end == expected[..end.len()], "{length} at {offset}");
    }
    // With it the file has a size, a time and a mark like any other that was written.
    assert_eq!(share.metadata(open).end_of_file, (2 << 20) + 9 + 300_001);
}

#[test]
fn pipes_are_used_again_when_they_are_empty() {
    let mut share = Share::new();
    let open = share.create("f");
    let data = content(1 << 20);
    let first = filled(&mut share, &data);
    let was = number(&first);
    let op = |piped| {
        let data = Bytes::new();
        ObjectOp::Write {
            open,
            offset: 0,
            data,
            piped: Some(piped),
            write_through: false,
            verify_locks: false,
        }
    };
    share.run(op(first)).expect("it is written");
    let second = filled(&mut share, &data[..70_000]);
    assert_eq!(number(&second), was);
    share.run(op(second)).expect("it is written");
    let at = share.store.next_timeout().expect("one is kept");
    share.store.forget_idle(at);
    assert_eq!(share.store.next_timeout(), None);
}

#[test]
fn a_stream_is_written_from_memory() {
    let mut share = Share::new();
    share.create("f");
    let stream = share.create("f:stream");
    assert_eq!(share.store.takes_pipes(stream), None);
    let data = content(300);
    write(&mut share, stream, 0, &data, 100).expect("it is written");
    assert_eq!(share.read(stream, 0, 1_000), data);
}

#[test]
fn a_refused_write_leaves_the_file_and_the_pipes_unchanged() {
    let mut share = Share::new();
    let open = share.create("f");
    share.write(open, 0, b"before");
    let beyond = write(&mut share, open, u64::MAX - 10, b"beyond", 0);
    assert_eq!(beyond.expect_err("it is"), NtStatus::INVALID_PARAMETER);
    let ends_beyond = write(&mut share, open, i64::MAX.unsigned_abs() - 3, b"beyond", 2);
    assert_eq!(ends_beyond.expect_err("it is"), NtStatus::INVALID_PARAMETER);
    assert_eq!(host_content(&mut share, "f"), b"before");
    // The content of dropped pipes never comes out of other ones.
    write(&mut share, open, 6, b" after", 0).expect("it is written");
    assert_eq!(host_content(&mut share, "f"), b"before after");
}

#[test]
fn a_file_that_takes_no_pipe_is_written_from_memory() {
    let mut share = Share::new();
    let open = share.create("f");
    assert!(share.store.takes_pipes(open).is_some());
    share.write(open, 0, b"0123");
    // The kernel refuses to write from a pipe to a file that is only appended to.
    share.store.revert_to_server();
    let path = share.host("f").canonicalize().expect("it is there");
    let mut changed = 0;
    for entry in std::fs::read_dir("/proc/self/fd").expect("proc is there").flatten() {
        if std::fs::read_link(entry.path()).is_ok_and(|it| it == path) {
            let number = entry.file_name().to_string_lossy().parse().expect("a number");
            // SAFETY: the store has it open until the end of the test.
            let file = unsafe { BorrowedFd::borrow_raw(number) };
            let flags = fcntl_getfl(file).expect("it is open");
            changed += usize::from(!flags.contains(OFlags::PATH));
            if !flags.contains(OFlags::PATH) {
                fcntl_setfl(file, flags | OFlags::APPEND).expect("it may be");
            }
        }
    }
    assert_eq!(changed, 1, "the open has one descriptor");
    write(&mut share, open, 4, b"456789", 2).expect("it is written");
    assert_eq!(host_content(&mut share, "f"), b"0123456789");
    assert_eq!(share.store.takes_pipes(open), None, "it is not tried again");
}
