//! Reading into a pipe: what comes out of it, when it is done, and what happens to the file
//! meanwhile.

mod support;

use bytes::BytesMut;
use object::{LocalOpen, ObjectOp, ObjectReply, Piped};
use store::piped::{self, PIPED_LEN_MIN};
use store::{Piping, Started};
use support::Share;
use uring::Op;

fn share(piping: Piping) -> Share {
    Share::with(|settings| settings.piping = piping)
}

/// Bytes of which no two pages are alike.
fn content(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at ^ (at >> 8) ^ (at >> 15)).to_le_bytes()[0]).collect()
}

/// A file that is in the page cache.
fn file(share: &mut Share, data: &[u8]) -> LocalOpen {
    let open = share.create("f");
    share.write(open, 0, data);
    open
}

fn start(share: &mut Share, open: LocalOpen, offset: u64, length: usize) -> Started {
    let buffer = BytesMut::with_capacity(length);
    let length = u32::try_from(length).expect("a READ");
    share.store.start(
        share.user,
        ObjectOp::Read { open, offset, length, buffer, may_pipe: true, verify_locks: false },
    )
}

/// Returns the piped data of a range, if a pipe was used.
fn pipe(share: &mut Share, open: LocalOpen, offset: u64, length: usize) -> Option<Piped> {
    match start(share, open, offset, length) {
        Started::Done(Ok(ObjectReply::Piped(buffer, piped))) => {
            assert!(buffer.is_empty());
            Some(piped)
        }
        Started::Done(Ok(ObjectReply::Read(_))) | Started::Submit(..) => None,
        other => panic!("{other:?}"),
    }
}

fn bytes(piped: &mut Piped) -> Vec<u8> {
    let mut buffer = BytesMut::new();
    piped::read(piped, &mut buffer).expect("it is there");
    buffer.to_vec()
}

#[test]
fn piped_data_are_the_contents_of_the_file() {
    let mut share = share(Piping::Always);
    let data = content((3 << 20) + 777);
    let open = file(&mut share, &data);
    for length in [PIPED_LEN_MIN, PIPED_LEN_MIN + 1, 500_001, (1 << 20) - 4_096, 1 << 20] {
        for offset in [0, 1, 4_095, 4_096, 1 << 20, (2 << 20) + 5, data.len() - PIPED_LEN_MIN - 9] {
            let expected = &data[offset..data.len().min(offset + length)];
            let place = u64::try_from(offset).expect("a small file");
            // A pipe of more than a megabyte is not everybody's to make.
            let pages = (offset % 4_096 + length).div_ceil(4_096).next_power_of_two();
            let Some(mut piped) = pipe(&mut share, open, place, length) else {
                assert!(pages > 256, "{length} at {offset}");
                continue;
            };
            assert_eq!(piped.length(), expected.len(), "{length} at {offset}");
            assert!(bytes(&mut piped) == expected, "{length} at {offset}");
            share.store.give_back(piped);
        }
    }
}

#[test]
fn short_reads_reads_past_the_end_and_forbidden_pipes_come_into_memory() {
    let data = content(1 << 20);
    let mut never = share(Piping::Never);
    let open = file(&mut never, &data);
    assert!(pipe(&mut never, open, 0, 1 << 20).is_none());
    let mut share = share(Piping::Always);
    let open = file(&mut share, &data);
    assert!(pipe(&mut share, open, 0, PIPED_LEN_MIN - 1).is_none());
    assert!(pipe(&mut share, open, 1 << 20, PIPED_LEN_MIN).is_none(), "at the end");
    assert!(pipe(&mut share, open, 1 << 40, PIPED_LEN_MIN).is_none(), "past the end");
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
    assert!(matches!(started, Started::Done(Ok(ObjectReply::Read(_)))), "{started:?}");
    let stream = share.create("f:stream");
    share.write(stream, 0, &data[..100]);
    assert!(pipe(&mut share, stream, 0, PIPED_LEN_MIN).is_none(), "streams are not files");
}

#[test]
fn a_file_that_is_truncated_closed_and_removed_is_sent_with_the_length_that_was_promised() {
    let mut share = share(Piping::Always);
    let data = content(1 << 20);
    let open = file(&mut share, &data);
    let mut whole = pipe(&mut share, open, 0, 1 << 20).expect("it is cached");
    let mut part = pipe(&mut share, open, 300_000, 200_000).expect("it is cached");
    share.done(ObjectOp::SetEndOfFile { open, size: 100 });
    share.done(ObjectOp::Close { open, unlink: true });
    for (piped, before) in [(&mut whole, &data[..]), (&mut part, &data[300_000..500_000])] {
        let after = bytes(piped);
        assert_eq!(after.len(), before.len());
        let is_right = |(is, was): (&u8, &u8)| is == was || *is == 0;
        assert!(after.iter().zip(before).all(is_right), "what is gone is zeros, if anything");
    }
}

#[test]
fn data_outside_the_page_cache_come_through_the_ring() {
    let mut share = share(Piping::Always);
    let data = content(1 << 20);
    let open = file(&mut share, &data);
    share.done(ObjectOp::Flush { open });
    share.store.revert_to_server();
    let file = std::fs::File::open(share.host("f")).expect("there");
    for advice in [rustix::fs::Advice::DontNeed, rustix::fs::Advice::Random] {
        rustix::fs::fadvise(&file, 0, None, advice).expect("advice");
    }
    // Both ends say that there is something.
    for end in [0, (1 << 20) - 1] {
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut [0], end).expect("it is there");
    }
    let in_memory = rustix::fs::fstatfs(&file).expect("statfs").f_type == 0x0102_1994;
    let started = start(&mut share, open, 0, 1 << 20);
    // On a file system in memory nothing can leave the cache.
    assert!(matches!(started, Started::Submit(Op::ReadAt { .. }, _)) || in_memory, "{started:?}");
    match share.drive(started) {
        Ok(ObjectReply::Read(buffer)) => assert!(buffer == data),
        Ok(ObjectReply::Piped(_, mut piped)) if in_memory => assert!(bytes(&mut piped) == data),
        other => panic!("{other:?}"),
    }
}

#[test]
fn pipes_are_used_again_when_they_are_empty_and_closed_when_nobody_needs_them() {
    let mut share = share(Piping::Always);
    let data = content(1 << 20);
    let open = file(&mut share, &data);
    let number = |piped: &Piped| std::os::fd::AsRawFd::as_raw_fd(&piped.pipe().output);
    let mut first = pipe(&mut share, open, 0, 1 << 20).expect("it is cached");
    assert!(bytes(&mut first) == data);
    let was = number(&first);
    share.store.give_back(first);
    let second = pipe(&mut share, open, 4_096, PIPED_LEN_MIN).expect("it is cached");
    assert_eq!(number(&second), was);
    // A remainder must not reach another reader.
    share.store.give_back(second);
    let mut third = pipe(&mut share, open, 8_192, PIPED_LEN_MIN).expect("it is cached");
    assert!(bytes(&mut third) == data[8_192..8_192 + PIPED_LEN_MIN]);
    share.store.give_back(third);
    let at = share.store.next_timeout().expect("one is kept");
    share.store.forget_idle(at);
    assert_eq!(share.store.next_timeout(), None);
}

#[test]
fn there_are_only_so_many_pipes_and_then_data_come_into_memory() {
    let mut share = share(Piping::Always);
    let data = content(PIPED_LEN_MIN);
    let open = file(&mut share, &data);
    let mut taken = Vec::new();
    while let Some(piped) = pipe(&mut share, open, 0, PIPED_LEN_MIN) {
        taken.push(piped);
        assert!(taken.len() < 1_000, "there is no end to them");
    }
    assert!(taken.len() > 10, "{}", taken.len());
    let length = u32::try_from(PIPED_LEN_MIN).expect("a READ");
    assert!(share.read(open, 0, length) == data);
    // The pipes of a lost connection are closed with their content.
    taken.pop();
    assert!(pipe(&mut share, open, 0, PIPED_LEN_MIN).is_some());
}
