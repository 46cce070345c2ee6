//! The contract of the driver, tested against both back ends.
//!
//! Without io_uring only the fallback is tested. The tests of the ring then report that, and check
//! that the driver does without.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use uring::{Backend, Completion, Driver, Limits, Op, Reason, SendBuffer, Token};

/// Makes a test of each claim for each back end.
macro_rules! contract {
    ($($claim:ident)*) => {
        mod ring {
            $(#[test] fn $claim() { super::with_ring(super::$claim); })*
        }
        mod fallback {
            $(#[test] fn $claim() { super::$claim(uring::Backend::Fallback); })*
        }
    };
}

contract! {
    accept_gives_the_connection
    accept_of_a_non_blocking_listener_waits
    bad_descriptors_are_errors
    cancelled_operations_complete_with_their_buffers
    cancelling_one_reader_leaves_the_next
    cancelling_an_unknown_operation_does_nothing
    completions_of_one_socket_come_in_order
    dropping_frees_each_buffer_once
    dropping_leaves_the_sockets_alone
    end_of_stream_is_zero_bytes
    errors_of_the_disk_are_reported
    files_are_read_at_any_offset
    large_send_through_a_small_buffer_arrives_whole
    many_reads_share_few_threads
    non_blocking_sockets_wait
    nothing_starts_before_wait
    operations_without_room_are_refused
    poll_readable_completes_once
    poll_writable_waits_for_room
    receive_takes_no_more_than_its_limit
    reset_is_an_error
    send_and_receive_share_a_socket
    send_at_once_is_reported_with_the_next_completion
    send_at_once_takes_as_many_bytes_as_there_is_room_for
    send_to_a_closed_peer_is_an_error
    ten_thousand_round_trips
    timeouts_end_waits
    waiting_for_nothing_is_an_error
    a_refused_operation_comes_back
    written_data_are_read_back
    whole_receives_end_with_the_stream
}

/// Tests a claim against the ring; without io_uring, tests that the driver has the fallback
/// instead.
fn with_ring(claim: fn(Backend)) {
    if Backend::available().contains(&Backend::Ring) {
        return claim(Backend::Ring);
    }
    let error = Driver::new(Backend::Ring, Limits::default()).expect_err("it is forbidden");
    // The output may be closed.
    let _ = writeln!(io::stderr(), "not tested with a ring: {error}");
    let driver = Driver::new(Backend::Auto, Limits::default()).expect("the fallback needs nothing");
    assert_eq!(driver.backend(), Backend::Fallback);
    let why = driver.ring_error().expect("it is not what was wanted");
    assert_eq!(why.raw_os_error(), error.raw_os_error());
}

const SECONDS_MAX: Duration = Duration::from_secs(20);

struct Loop {
    driver: Driver,
    done: Vec<Completion>,
}

impl Loop {
    fn new(backend: Backend) -> Self {
        Self::with_limits(backend, Limits::default())
    }

    fn with_limits(backend: Backend, limits: Limits) -> Self {
        let driver = Driver::new(backend, limits).expect("it is not forbidden");
        assert_eq!(driver.backend(), backend);
        Self { driver, done: Vec::new() }
    }

    #[track_caller]
    fn submit(&mut self, token: u64, op: Op) {
        self.driver.submit(Token(token), op).expect("there is room");
    }

    /// Waits for the next completion of any operation.
    #[track_caller]
    fn next(&mut self) -> Completion {
        if self.done.is_empty() {
            self.driver.wait(Some(SECONDS_MAX), &mut self.done).expect("waiting works");
        }
        assert!(!self.done.is_empty(), "nothing completed in time");
        self.done.remove(0)
    }

    /// Runs one operation to its end.
    #[track_caller]
    fn run(&mut self, op: Op) -> Completion {
        self.submit(7, op);
        let completion = self.next();
        assert_eq!(completion.token, Token(7));
        completion
    }

    /// Starts the submitted operations, and asserts that none of them completes.
    #[track_caller]
    fn start(&mut self) {
        self.driver.wait(Some(Duration::from_millis(20)), &mut self.done).expect("waiting works");
        assert!(self.done.is_empty(), "completed early: {:?}", self.done);
    }
}

fn pair() -> (UnixStream, UnixStream) {
    UnixStream::pair().expect("a socket pair")
}

fn tcp_pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it is bound");
    let client = TcpStream::connect(address).expect("it listens");
    (client, listener.accept().expect("it was connected").0)
}

fn receive(socket: &impl AsRawFd, limit: usize) -> Op {
    let buffer = BytesMut::with_capacity(limit);
    Op::Receive { socket: socket.as_raw_fd(), buffer, limit, poll_first: false, whole: false }
}

fn send(socket: &impl AsRawFd, data: &'static [u8]) -> Op {
    let buffers = vec![Bytes::from_static(data).into()];
    Op::Send { socket: socket.as_raw_fd(), buffers }
}

fn read_at(file: &impl AsRawFd, offset: u64, length: usize) -> Op {
    let buffer = BytesMut::with_capacity(length);
    Op::ReadAt { file: file.as_raw_fd(), offset, buffer, length, in_thread: false }
}

fn write_at(file: &impl AsRawFd, offset: u64, data: impl Into<Bytes>) -> Op {
    Op::WriteAt { file: file.as_raw_fd(), offset, data: data.into() }
}

#[track_caller]
fn buffer(op: &Op) -> &[u8] {
    match op {
        Op::ReadAt { buffer, .. } | Op::Receive { buffer, .. } => buffer,
        other => panic!("{other:?} has no buffer"),
    }
}

#[track_caller]
fn assert_errno(result: &io::Result<usize>, want: i32) {
    let errno = result.as_ref().expect_err("it fails").raw_os_error();
    assert_eq!(errno, Some(want), "{result:?}");
}

/// Bytes that depend on their position.
fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at.wrapping_mul(2_654_435_761) >> 13).to_le_bytes()[0]).collect()
}

fn accept_gives_the_connection(backend: Backend) {
    let mut io = Loop::new(backend);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    io.submit(1, Op::Accept { socket: listener.as_raw_fd(), accepted: None });
    io.start();
    let address = listener.local_addr().expect("it is bound");
    let mut client = TcpStream::connect(address).expect("it listens");
    let Completion { op: Op::Accept { accepted, .. }, result, .. } = io.next() else {
        panic!("an accept stays an accept");
    };
    assert_eq!(result.expect("it was accepted"), 0);
    let mut server = TcpStream::from(accepted.expect("success carries the connection"));
    client.write_all(b"hello").expect("it is connected");
    let mut hello = [0; 5];
    server.read_exact(&mut hello).expect("it is connected, and blocking");
    assert_eq!(&hello, b"hello");
}

fn accept_of_a_non_blocking_listener_waits(backend: Backend) {
    let mut io = Loop::new(backend);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("it can be");
    io.submit(1, Op::Accept { socket: listener.as_raw_fd(), accepted: None });
    io.start();
    let _client = TcpStream::connect(listener.local_addr().expect("it is bound"));
    assert!(io.next().result.is_ok_and(|zero| zero == 0));
}

fn bad_descriptors_are_errors(backend: Backend) {
    let mut io = Loop::new(backend);
    for fd in [-1, RawFd::MAX] {
        let buffer = || BytesMut::with_capacity(8);
        let socket = fd;
        for op in [
            Op::Accept { socket, accepted: None },
            Op::PollReadable { fd },
            Op::PollWritable { fd },
            Op::ReadAt { file: fd, offset: 0, buffer: buffer(), length: 8, in_thread: false },
            Op::Receive { socket, buffer: buffer(), limit: 8, poll_first: true, whole: false },
            Op::Send { socket, buffers: vec![Bytes::from_static(b"lost").into()] },
            Op::Sync { file: fd, data_only: true },
            Op::WriteAt { file: fd, offset: 0, data: Bytes::from_static(b"lost") },
        ] {
            assert_errno(&io.run(op).result, libc::EBADF);
        }
    }
}

fn cancelled_operations_complete_with_their_buffers(backend: Backend) {
    let mut io = Loop::new(backend);
    let (ours, mut theirs) = pair();
    let mut storage = BytesMut::with_capacity(64);
    storage.extend_from_slice(b"kept");
    let socket = ours.as_raw_fd();
    io.submit(
        1,
        Op::Receive { socket, buffer: storage, limit: 60, poll_first: false, whole: false },
    );
    io.start();
    io.driver.cancel(Token(1));
    io.driver.cancel(Token(1));
    let completion = io.next();
    assert_errno(&completion.result, libc::ECANCELED);
    assert_eq!(buffer(&completion.op), b"kept");
    assert_eq!(io.driver.in_flight(), 0);
    // The cancelled receive takes no byte from its successor.
    theirs.write_all(b"after").expect("it is connected");
    assert_eq!(buffer(&io.run(receive(&ours, 64)).op), b"after");
}

fn cancelling_one_reader_leaves_the_next(backend: Backend) {
    let mut io = Loop::new(backend);
    let (ours, mut theirs) = pair();
    io.submit(1, receive(&ours, 8));
    io.start();
    io.submit(2, receive(&ours, 8));
    io.submit(3, Op::PollReadable { fd: ours.as_raw_fd() });
    io.start();
    io.driver.cancel(Token(1));
    io.driver.cancel(Token(3));
    let mut cancelled = [io.next(), io.next()];
    cancelled.sort_by_key(|completion| completion.token.0);
    for (completion, want) in cancelled.iter().zip([1, 3]) {
        assert_eq!(completion.token, Token(want));
        assert_errno(&completion.result, libc::ECANCELED);
    }
    theirs.write_all(b"second").expect("it is connected");
    let completion = io.next();
    assert_eq!((completion.token, buffer(&completion.op)), (Token(2), &b"second"[..]));
}

fn cancelling_an_unknown_operation_does_nothing(backend: Backend) {
    let mut io = Loop::new(backend);
    let (ours, mut theirs) = pair();
    io.driver.cancel(Token(1));
    theirs.write_all(b"x").expect("it is connected");
    io.submit(1, receive(&ours, 8));
    let completion = io.next();
    io.driver.cancel(Token(1));
    assert_eq!(completion.result.expect("cancelled too early to matter"), 1);
    io.start();
}

fn completions_of_one_socket_come_in_order(backend: Backend) {
    let mut io = Loop::new(backend);
    let (ours, theirs) = pair();
    for number in 0..100_u8 {
        let buffers = vec![SendBuffer::from(vec![number])];
        io.submit(u64::from(number), Op::Send { socket: theirs.as_raw_fd(), buffers });
        let completion = io.next();
        assert_eq!(completion.token, Token(number.into()));
    }
    for number in 0..100_u8 {
        assert_eq!(buffer(&io.run(receive(&ours, 1)).op), [number]);
    }
}

/// Bytes that count how often they are freed, and overwrite their memory then.
struct Counted {
    bytes: Vec<u8>,
    freed: Arc<AtomicUsize>,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.bytes.fill(0xdd);
        self.freed.fetch_add(1, Ordering::Relaxed);
    }
}

fn dropping_frees_each_buffer_once(backend: Backend) {
    let freed = Arc::new(AtomicUsize::new(0));
    let counted = |length| {
        Bytes::from_owner(Counted { bytes: vec![0x11; length], freed: Arc::clone(&freed) })
    };
    let file = tempfile::tempfile().expect("a temporary file");
    for round in 1..=50 {
        let mut io = Loop::new(backend);
        let (ours, theirs) = pair();
        // In the kernel: the socket's buffer is full.
        let buffers = vec![counted(4 << 20).into(), counted(1).into()];
        io.submit(1, Op::Send { socket: ours.as_raw_fd(), buffers });
        io.start();
        // Not started, or running.
        io.submit(2, write_at(&file, 0, counted(1 << 16)));
        io.submit(3, Op::Send { socket: theirs.as_raw_fd(), buffers: vec![counted(1).into()] });
        if round % 2 == 0 {
            io.driver.wait(Some(Duration::ZERO), &mut io.done).expect("waiting works");
        }
        drop(io);
        assert_eq!(freed.load(Ordering::Relaxed), 4 * round);
        // The sent bytes are those of the buffers, and not of freed memory.
        theirs.set_nonblocking(true).expect("it can be");
        let mut sent = Vec::new();
        let end = (&theirs).read_to_end(&mut sent).expect_err("ours is still open");
        assert_eq!(end.kind(), io::ErrorKind::WouldBlock);
        assert!(!sent.is_empty());
        assert!(sent.iter().all(|byte| *byte == 0x11));
    }
}

fn dropping_leaves_the_sockets_alone(backend: Backend) {
    for _ in 0..50 {
        let (ours, mut theirs) = pair();
        let mut io = Loop::new(backend);
        io.submit(1, receive(&ours, 4_096));
        io.submit(2, Op::PollReadable { fd: theirs.as_raw_fd() });
        io.start();
        drop(io);
        theirs.write_all(b"for the next driver").expect("it is connected");
        let mut io = Loop::new(backend);
        assert_eq!(buffer(&io.run(receive(&ours, 64)).op), b"for the next driver");
    }
}

fn end_of_stream_is_zero_bytes(backend: Backend) {
    let mut io = Loop::new(backend);
    let (ours, theirs) = pair();
    io.submit(1, receive(&ours, 8));
    io.start();
    drop(theirs);
    assert_eq!(io.next().result.expect("an end is no error"), 0);
    assert_eq!(io.run(receive(&ours, 8)).result.expect("an end stays one"), 0);
}

fn errors_of_the_disk_are_reported(backend: Backend) {
    let mut io = Loop::new(backend);
    let full = std::fs::File::options().write(true).open("/dev/full").expect("it exists");
    let completion = io.run(write_at(&full, 0, &b"does not fit"[..]));
    assert_errno(&completion.result, libc::ENOSPC);
    let Op::WriteAt { data, .. } = completion.op else { panic!("a write stays a write") };
    assert_eq!(data, &b"does not fit"[..]);
    let folder = std::fs::File::open("/").expect("it exists");
    assert_errno(&io.run(read_at(&folder, 0, 8)).result, libc::EISDIR);
}

fn files_are_read_at_any_offset(backend: Backend) {
    let mut io = Loop::new(backend);
    let content = pattern(100_000);
    let mut file = tempfile::tempfile().expect("a temporary file");
    file.write_all(&content).expect("there is room on the disk");
    for (offset, length, want) in [
        (0, 100_000, 100_000),
        (5, 10, 10),
        (99_999, 1, 1),
        (99_999, 10, 1),
        (100_000, 10, 0),
        (1 << 40, 10, 0),
        (0, 0, 0),
    ] {
        let completion = io.run(read_at(&file, offset, length));
        assert_eq!(completion.result.expect("reading works"), want);
        let start = usize::try_from(offset).expect("64 bits").min(content.len());
        assert_eq!(buffer(&completion.op), &content[start..start + want]);
    }
    // Reading appends.
    let mut storage = BytesMut::with_capacity(64);
    storage.extend_from_slice(b"header");
    let file = file.as_raw_fd();
    let read = Op::ReadAt { file, offset: 3, buffer: storage, length: 4, in_thread: false };
    let op = io.run(read).op;
    assert_eq!(buffer(&op), [b"header", &content[3..7]].concat());
    // A thread reads the same bytes, and the same end of the file.
    for (offset, want) in [(3, &content[3..]), (1 << 40, &[])] {
        let (buffer, length) = (BytesMut::with_capacity(content.len()), content.len());
        let read = Op::ReadAt { file, offset, buffer, length, in_thread: true };
        assert_eq!(self::buffer(&io.run(read).op), want);
    }
}

fn large_send_through_a_small_buffer_arrives_whole(backend: Backend) {
    let content = pattern(8 << 20);
    for pieces in [1, 3, 5_000] {
        let mut io = Loop::new(backend);
        let (ours, theirs) = pair();
        let small = 8_192_i32;
        // SAFETY: the option's value is the integer that the pointer and the length describe.
        let set = unsafe {
            let value = (&raw const small).cast();
            libc::setsockopt(ours.as_raw_fd(), libc::SOL_SOCKET, libc::SO_SNDBUF, value, 4)
        };
        assert_eq!(set, 0);
        let shared = Bytes::from(content.clone());
        let buffers = (0..pieces).map(|piece| {
            let at = |piece: usize| content.len() * piece / pieces;
            let (start, end) = (at(piece), at(piece + 1));
            if piece % 2 == 0 {
                return shared.slice(start..end).into();
            }
            let bytes = [b"room for a header", &content[start..end]].concat();
            SendBuffer::Vec { bytes, start: 17 }
        });
        let reader = thread::spawn(move || {
            let mut arrived = Vec::new();
            (&theirs).read_to_end(&mut arrived).expect("it is connected");
            arrived
        });
        let completion = io.run(Op::Send { socket: ours.as_raw_fd(), buffers: buffers.collect() });
        assert_eq!(completion.result.expect("it was read"), content.len());
        drop(ours);
        assert!(reader.join().expect("reading works") == content, "in {pieces} pieces");
    }
}

fn many_reads_share_few_threads(backend: Backend) {
    let limits = Limits { operations_in_flight_max: 256, threads_max: 2 };
    let mut io = Loop::with_limits(backend, limits);
    let file = tempfile::tempfile().expect("a temporary file");
    for number in 0..128_u32 {
        io.submit(
            number.into(),
            write_at(&file, u64::from(number) * 4, number.to_le_bytes().to_vec()),
        );
        io.submit(1_000, Op::Sync { file: file.as_raw_fd(), data_only: true });
    }
    for _ in 0..256 {
        io.next().result.expect("the disk works");
    }
    for number in 0..128_u32 {
        io.submit(number.into(), read_at(&file, u64::from(number) * 4, 4));
    }
    let mut seen = [false; 128];
    for _ in 0..128 {
        let Completion { token, op, .. } = io.next();
        let number = u32::try_from(token.0).expect("as submitted");
        assert_eq!(buffer(&op), number.to_le_bytes());
        assert!(!std::mem::replace(&mut seen[number as usize], true), "completed twice");
    }
    assert_eq!(io.driver.in_flight(), 0);
}

fn send_at_once_is_reported_with_the_next_completion(backend: Backend) {
    let mut io = Loop::new(backend);
    let (ours, mut theirs) = pair();
    let peer = thread::spawn(move || {
        let mut question = [0; 8];
        theirs.read_exact(&mut question).expect("it was sent");
        theirs.write_all(b"answer").expect("it is connected");
        question
    });
    io.submit(1, receive(&ours, 100));
    let buffers = vec![Bytes::from_static(b"ques").into(), Bytes::from_static(b"tion").into()];
    io.submit(2, Op::SendAtOnce { socket: ours.as_raw_fd(), buffers });
    let (sent, answered) = (io.next(), io.next());
    assert_eq!((sent.token, sent.result.expect("there is room")), (Token(2), 8));
    assert_eq!(answered.token, Token(1));
    assert_eq!(buffer(&answered.op), b"answer");
    assert_eq!(&peer.join().expect("no panic"), b"question");
    assert_eq!(io.driver.in_flight(), 0);
}

fn send_at_once_takes_as_many_bytes_as_there_is_room_for(backend: Backend) {
    let mut io = Loop::new(backend);
    let (ours, mut theirs) = tcp_pair();
    let content = pattern(64 << 20);
    let at_once = |io: &mut Loop, from: usize| {
        let buffers = vec![content[from..content.len().min(from + (4 << 20))].to_vec().into()];
        io.submit(1, Op::SendAtOnce { socket: ours.as_raw_fd(), buffers });
        // Reported with the next completion, or here with the end of the timeout.
        let soon = Some(Duration::from_millis(1));
        io.driver.wait(soon, &mut io.done).expect("waiting works");
        io.next().result
    };
    // Unread bytes fill the buffers of both sides.
    let mut taken = 0;
    loop {
        match at_once(&mut io, taken).expect("nobody has gone") {
            0 => break,
            more => taken += more,
        }
    }
    assert!((1..content.len()).contains(&taken), "{taken}");
    let mut arrived = vec![0; taken];
    theirs.read_exact(&mut arrived).expect("it was sent");
    assert!(arrived == content[..taken]);
    drop(theirs);
    // The first may be accepted before a reset refuses the others.
    let failed = (0..1_000).any(|_| at_once(&mut io, content.len() - 1).is_err());
    assert!(failed, "a peer that has gone is an error");
}

fn non_blocking_sockets_wait(backend: Backend) {
    let mut io = Loop::new(backend);
    let (ours, mut theirs) = pair();
    ours.set_nonblocking(true).expect("it can be");
    for poll_first in [false, true] {
        let (socket, buffer) = (ours.as_raw_fd(), BytesMut::with_capacity(8));
        io.submit(1, Op::Receive { socket, buffer, limit: 8, poll_first, whole: false });
        io.start();
        theirs.write_all(b"data").expect("it is connected");
        assert_eq!(io.next().result.expect("it waited"), 4);
    }
    let content = pattern(1 << 20);
    let buffers = vec![content.clone().into()];
    io.submit(2, Op::Send { socket: ours.as_raw_fd(), buffers });
    io.start();
    let reader = thread::spawn(move || {
        let mut arrived = vec![0; 1 << 20];
        theirs.read_exact(&mut arrived).map(|()| (theirs, arrived))
    });
    assert_eq!(io.next().result.expect("it waited"), content.len());
    let (_theirs, arrived) = reader.join().expect("no panic").expect("reading works");
    assert!(arrived == content);
    // Cancelled while it waits for readiness.
    io.submit(3, receive(&ours, 8));
    io.start();
    io.driver.cancel(Token(3));
    assert_errno(&io.next().result, libc::ECANCELED);
}

fn nothing_starts_before_wait(backend: Backend) {
    let mut io = Loop::new(backend);
    let (ours, mut theirs) = pair();
    theirs.write_all(b"there").expect("it is connected");
    io.submit(1, receive(&ours, 8));
    io.submit(2, send(&ours, b"never sent"));
    io.driver.cancel(Token(1));
    io.driver.cancel(Token(2));
    assert_eq!(io.driver.in_flight(), 2);
    assert_errno(&io.next().result, libc::ECANCELED);
    assert_errno(&io.next().result, libc::ECANCELED);
    assert_eq!(buffer(&io.run(receive(&ours, 8)).op), b"there");
    drop(ours);
    let mut sent = Vec::new();
    theirs.read_to_end(&mut sent).expect("the end is reached");
    assert!(sent.is_empty());
}

fn operations_without_room_are_refused(backend: Backend) {
    let mut io = Loop::new(backend);
    let (ours, _theirs) = pair();
    let socket = ours.as_raw_fd();
    let mut check = |op, want| {
        let refused = io.driver.submit(Token(1), op).expect_err("it is refused");
        assert_eq!(refused.reason, want);
    };
    let mut full = BytesMut::with_capacity(8);
    full.resize(full.capacity(), 0);
    let limit = 8;
    check(
        Op::Receive { socket, buffer: full, limit, poll_first: false, whole: false },
        Reason::NoRoom,
    );
    check(receive(&ours, 0), Reason::NoRoom);
    let buffer = BytesMut::with_capacity(8);
    check(
        Op::ReadAt { file: socket, offset: 0, buffer, length: 1 << 20, in_thread: false },
        Reason::NoRoom,
    );
    check(read_at(&ours, u64::MAX, 1), Reason::OffsetTooLarge);
    check(write_at(&ours, u64::MAX, &b"x"[..]), Reason::OffsetTooLarge);
    assert_eq!(io.driver.in_flight(), 0);
}

fn poll_readable_completes_once(backend: Backend) {
    let mut io = Loop::new(backend);
    let (ours, mut theirs) = pair();
    let poll = || Op::PollReadable { fd: ours.as_raw_fd() };
    io.submit(1, poll());
    io.start();
    theirs.write_all(b"x").expect("it is connected");
    let readable = usize::from(libc::POLLIN.unsigned_abs());
    assert_eq!(io.next().result.expect("it is readable") & readable, readable);
    io.start();
    // The byte is still there: the next poll completes at once, and consumes nothing.
    assert_eq!(io.run(poll()).result.expect("it is readable") & readable, readable);
    assert_eq!(buffer(&io.run(receive(&ours, 8)).op), b"x");
    io.submit(1, poll());
    io.start();
    drop(theirs);
    assert!(io.next().result.is_ok_and(|events| events != 0), "the end is readable");
    let file = tempfile::tempfile().expect("a temporary file");
    let always = io.run(Op::PollReadable { fd: file.as_raw_fd() });
    assert_eq!(always.result.expect("files are always ready") & readable, readable);
}

fn poll_writable_waits_for_room(backend: Backend) {
    let mut io = Loop::new(backend);
    let (mut ours, mut theirs) = pair();
    let poll = Op::PollWritable { fd: ours.as_raw_fd() };
    let writable = usize::from(libc::POLLOUT.unsigned_abs());
    assert_eq!(io.run(poll).result.expect("there is room") & writable, writable);
    ours.set_nonblocking(true).expect("it can be");
    let mut filled = 0;
    while let Ok(count) = ours.write(&[7; 4_096]) {
        filled += count;
    }
    // Together with a receive, which waits for the other direction.
    io.submit(1, receive(&ours, 8));
    io.submit(2, Op::PollWritable { fd: ours.as_raw_fd() });
    io.start();
    theirs.write_all(b"x").expect("it is connected");
    let completion = io.next();
    assert_eq!((completion.token, buffer(&completion.op)), (Token(1), &b"x"[..]));
    io.start();
    theirs.read_exact(&mut vec![0; filled]).expect("it was written");
    let completion = io.next();
    assert_eq!(completion.token, Token(2));
    assert_eq!(completion.result.expect("there is room again") & writable, writable);
    while ours.write(&[7; 4_096]).is_ok() {}
    io.submit(2, Op::PollWritable { fd: ours.as_raw_fd() });
    io.start();
    drop(theirs);
    assert!(io.next().result.is_ok_and(|events| events != 0), "nothing more will be taken");
}

fn receive_takes_no_more_than_its_limit(backend: Backend) {
    let mut io = Loop::new(backend);
    let (ours, mut theirs) = pair();
    theirs.write_all(b"0123456789").expect("it is connected");
    let mut storage = BytesMut::with_capacity(64);
    storage.extend_from_slice(b"ab");
    let socket = ours.as_raw_fd();
    let op = Op::Receive { socket, buffer: storage, limit: 4, poll_first: false, whole: false };
    let completion = io.run(op);
    assert_eq!(completion.result.expect("data is there"), 4);
    assert_eq!(buffer(&completion.op), b"ab0123");
    // The spare capacity is the other limit.
    let Op::Receive { mut buffer, .. } = completion.op else { panic!("it stays a receive") };
    buffer.resize(buffer.capacity() - 3, 0);
    let op = Op::Receive { socket, buffer, limit: 1_000, poll_first: true, whole: false };
    assert_eq!(io.run(op).result.expect("data is there"), 3);
}

/// A whole receive waits for missing bytes; bytes before the end of the stream are not lost.
fn whole_receives_end_with_the_stream(backend: Backend) {
    let mut io = Loop::new(backend);
    let (ours, mut theirs) = pair();
    let whole = |limit| {
        let (socket, buffer) = (ours.as_raw_fd(), BytesMut::with_capacity(64));
        Op::Receive { socket, buffer, limit, poll_first: false, whole: true }
    };
    io.submit(1, whole(5));
    io.start();
    theirs.write_all(b"abc").expect("it is connected");
    io.start();
    assert_eq!(io.driver.in_flight(), 1);
    theirs.write_all(b"de and more").expect("it is connected");
    let completion = io.next();
    assert_eq!(completion.result.expect("all of it came"), 5);
    assert_eq!(buffer(&completion.op), b"abcde");
    assert_eq!(buffer(&io.run(whole(3)).op), b" an");
    drop(theirs);
    let completion = io.run(whole(60));
    assert_eq!(completion.result.expect("something came"), 6);
    assert_eq!(buffer(&completion.op), b"d more");
    assert_eq!(io.run(whole(60)).result.expect("an end is no error"), 0);
}

fn reset_is_an_error(backend: Backend) {
    let mut io = Loop::new(backend);
    let (ours, theirs) = tcp_pair();
    io.submit(1, receive(&ours, 8));
    io.start();
    // Closing with unread data resets the connection.
    (&ours).write_all(b"unread").expect("it is connected");
    let mut peeked = [0; 6];
    while theirs.peek(&mut peeked).expect("it is connected") < 6 {}
    drop(theirs);
    assert_errno(&io.next().result, libc::ECONNRESET);
}

fn send_and_receive_share_a_socket(backend: Backend) {
    let mut io = Loop::new(backend);
    let (ours, mut theirs) = pair();
    io.submit(1, receive(&ours, 64));
    io.start();
    assert_eq!(io.run(send(&ours, b"out")).result.expect("it is connected"), 3);
    // A full buffer in one direction does not stop the other.
    let socket = ours.as_raw_fd();
    io.submit(2, Op::Send { socket, buffers: vec![vec![0; 4 << 20].into()] });
    io.start();
    theirs.write_all(b"in").expect("it is connected");
    let completion = io.next();
    assert_eq!((completion.token, buffer(&completion.op)), (Token(1), &b"in"[..]));
    io.submit(3, receive(&ours, 64));
    io.start();
    let reader =
        thread::spawn(move || io::copy(&mut (&theirs).take((4 << 20) + 3), &mut io::sink()));
    let completion = io.next();
    assert_eq!(completion.token, Token(2));
    assert_eq!(completion.result.expect("it was read"), 4 << 20);
    assert_eq!(reader.join().expect("no panic").expect("reading works"), (4 << 20) + 3);
    assert_eq!(io.next().result.expect("the reader has left"), 0);
}

fn send_to_a_closed_peer_is_an_error(backend: Backend) {
    let mut io = Loop::new(backend);
    let (ours, theirs) = pair();
    let socket = ours.as_raw_fd();
    // Too much for the socket's buffer: the peer leaves in the middle.
    io.submit(1, Op::Send { socket, buffers: vec![vec![0; 4 << 20].into()] });
    io.start();
    drop(theirs);
    let errno = io.next().result.expect_err("the peer has left").raw_os_error();
    assert!(matches!(errno, Some(libc::EPIPE | libc::ECONNRESET)), "{errno:?}");
    // A SIGPIPE would be seen: Rust ignores it at start, so give it its default back.
    // SAFETY: no handler is installed, and the test sends by the driver only.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    assert_errno(&io.run(send(&ours, b"x")).result, libc::EPIPE);
}

fn ten_thousand_round_trips(backend: Backend) {
    let mut io = Loop::with_limits(backend, Limits { operations_in_flight_max: 2, threads_max: 1 });
    let (ours, theirs) = pair();
    for round in 0..10_000_u32 {
        io.submit(1, receive(&theirs, 4));
        let buffers = vec![round.to_le_bytes().to_vec().into()];
        io.submit(2, Op::Send { socket: ours.as_raw_fd(), buffers });
        for _ in 0..2 {
            let completion = io.next();
            assert_eq!(completion.result.expect("it is connected"), 4);
            if completion.token == Token(1) {
                assert_eq!(buffer(&completion.op), round.to_le_bytes());
            }
        }
    }
    assert_eq!(io.driver.in_flight(), 0);
}

fn timeouts_end_waits(backend: Backend) {
    let mut io = Loop::new(backend);
    let (ours, _theirs) = pair();
    for in_flight in [0, 1] {
        for timeout in [0, 1, 30].map(Duration::from_millis) {
            let start = Instant::now();
            io.driver.wait(Some(timeout), &mut io.done).expect("waiting works");
            assert!(start.elapsed() >= timeout);
            assert!(start.elapsed() < SECONDS_MAX);
            assert!(io.done.is_empty());
            assert_eq!(io.driver.in_flight(), in_flight);
        }
        if in_flight == 0 {
            io.submit(1, receive(&ours, 8));
        }
    }
    // A timeout beyond the clock counts as none, and must not be an error.
    io.submit(2, send(&ours, b"x"));
    io.driver.wait(Some(Duration::MAX), &mut io.done).expect("waiting works");
    assert_eq!(io.next().token, Token(2));
}

fn waiting_for_nothing_is_an_error(backend: Backend) {
    let mut io = Loop::new(backend);
    let error = io.driver.wait(None, &mut io.done).expect_err("it could not end");
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
}

fn a_refused_operation_comes_back(backend: Backend) {
    let mut io = Loop::with_limits(backend, Limits { operations_in_flight_max: 3, threads_max: 1 });
    let (ours, mut theirs) = pair();
    for token in 0..3 {
        io.submit(token, Op::PollReadable { fd: ours.as_raw_fd() });
    }
    let refused = io.driver.submit(Token(3), send(&ours, b"mine")).expect_err("it is full");
    assert_eq!(refused.reason, Reason::Full);
    io.start();
    // Cancelled operations count until they are collected.
    io.driver.cancel(Token(0));
    let refused = io.driver.submit(Token(3), refused.op).expect_err("it is still full");
    assert_errno(&io.next().result, libc::ECANCELED);
    io.submit(3, refused.op);
    let completion = io.next();
    assert_eq!((completion.token, completion.result.expect("it is sent")), (Token(3), 4));
    let mut mine = [0; 4];
    theirs.read_exact(&mut mine).expect("it was sent");
    assert_eq!(&mine, b"mine");
    theirs.write_all(b"x").expect("it is connected");
    let mut rest = [io.next().token.0, io.next().token.0];
    rest.sort_unstable();
    assert_eq!(rest, [1, 2]);
}

fn written_data_are_read_back(backend: Backend) {
    let mut io = Loop::new(backend);
    let file = tempfile::tempfile().expect("a temporary file");
    let content = pattern(3 << 20);
    let completion = io.run(write_at(&file, 1_000, content.clone()));
    assert_eq!(completion.result.expect("there is room on the disk"), content.len());
    for data_only in [true, false] {
        let synced = io.run(Op::Sync { file: file.as_raw_fd(), data_only });
        assert_eq!(synced.result.expect("the disk works"), 0);
    }
    let op = io.run(read_at(&file, 0, (3 << 20) + 1_000)).op;
    assert!(buffer(&op)[..1_000].iter().all(|byte| *byte == 0), "a hole is zeros");
    assert!(buffer(&op)[1_000..] == content);
    assert_eq!(io.run(write_at(&file, 0, Bytes::new())).result.expect("nothing is easy"), 0);
}
