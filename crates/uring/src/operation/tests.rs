use bytes::{Bytes, BytesMut};

use super::*;

fn write(data: &'static [u8]) -> Operation {
    let op = Op::WriteAt { file: 0, offset: 100, data: Bytes::from_static(data) };
    Operation::new(Token(1), op)
}

#[test]
fn a_short_write_goes_on_where_it_stopped() {
    let mut operation = write(b"0123456789");
    // SAFETY: a write fills no buffer and makes no descriptor; the count is within the data.
    assert!(matches!(unsafe { operation.advance(Ok(4)) }, Step::Again));
    let Call::WriteAt { offset, length, .. } = operation.next_call(&mut Vec::new()) else {
        panic!("a write stays a write");
    };
    assert_eq!((offset, length), (104, 6));
    // SAFETY: as above.
    assert!(matches!(unsafe { operation.advance(Ok(6)) }, Step::Done(Ok(10))));
}

#[test]
fn a_write_of_nothing_does_not_go_on_for_ever() {
    let mut operation = write(b"0123456789");
    // SAFETY: a write fills no buffer and makes no descriptor.
    let step = unsafe { operation.advance(Ok(0)) };
    assert!(matches!(step, Step::Done(Err(error)) if error.kind() == io::ErrorKind::WriteZero));
}

#[test]
fn a_cancelled_short_write_ends() {
    let mut operation = write(b"0123456789");
    operation.cancelled = true;
    // SAFETY: a write fills no buffer and makes no descriptor; the count is within the data.
    let Step::Done(Err(error)) = (unsafe { operation.advance(Ok(4)) }) else {
        panic!("a cancelled operation is not continued");
    };
    assert_eq!(error.raw_os_error(), Some(libc::ECANCELED));
}

#[test]
fn gathering_skips_sent_and_empty_parts() {
    let buffers: [SendBuffer; 4] = [
        Bytes::from_static(b"abc").into(),
        Vec::new().into(),
        SendBuffer::Vec { bytes: b"--defg".to_vec(), start: 2 },
        SendBuffer::Vec { bytes: b"x".to_vec(), start: 2 },
    ];
    let mut vectors = Vec::new();
    for (skip, want) in [(0, vec![3, 4]), (2, vec![1, 4]), (3, vec![4]), (6, vec![1]), (7, vec![])]
    {
        gather(&buffers, skip, &mut vectors);
        let lengths: Vec<usize> = vectors.iter().map(|vector| vector.iov_len).collect();
        assert_eq!(lengths, want, "after {skip} bytes");
    }
}

#[test]
fn one_call_carries_no_more_vectors_than_the_kernel_takes() {
    let buffers: Vec<SendBuffer> = (0..3_000).map(|_| vec![0].into()).collect();
    let mut vectors = Vec::new();
    gather(&buffers, 500, &mut vectors);
    assert_eq!(vectors.len(), VECTORS_MAX);
}

#[test]
fn ranges_end_below_two_to_the_63() {
    #[track_caller]
    fn check(offset: u64, want: Result<(), Reason>) {
        let read = Op::ReadAt {
            file: 0,
            offset,
            buffer: BytesMut::with_capacity(2),
            length: 2,
            in_thread: false,
        };
        assert_eq!(read.verify(), want);
        let write = Op::WriteAt { file: 0, offset, data: Bytes::from_static(b"ab") };
        assert_eq!(write.verify(), want);
    }
    let end = i64::MAX.unsigned_abs();
    check(end - 2, Ok(()));
    check(end - 1, Err(Reason::OffsetTooLarge));
    check(u64::MAX, Err(Reason::OffsetTooLarge));
}
