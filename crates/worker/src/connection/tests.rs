use std::sync::Arc;

use object::Piped;
use proto::{ConnectionId, FrameKeys};
use uring::SendBuffer;

use super::*;
use crate::framing::{LANE_RECEIVE_LEN, wanted_by_lane, whole_frames};
use crate::lanes::Job;

fn transport_with(bytes: &[u8]) -> Transport {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = listener.local_addr().expect("bound");
    let mut transport = Transport::new(
        TcpStream::connect(address).expect("listening"),
        &MemoryAccount::new(256 << 20),
    );
    transport.received(BytesMut::from(bytes), Moment::default());
    transport
}

fn transmit(length: usize) -> Transmit {
    let frame = BytesMut::zeroed(length);
    let connection = ConnectionId(1);
    let answered = Answered::default();
    Transmit { connection, frame, piped: None, protection: None, confirmation: None, answered }
}

#[test]
fn frames_of_one_receive_come_out_one_by_one() {
    let mut transport = transport_with(&[0, 0, 0, 2, 7, 8, 0, 0, 0, 1, 9, 0, 0]);
    assert_eq!(transport.next_frame(|| 100).unwrap().unwrap()[..], [7, 8]);
    assert_eq!(transport.next_frame(|| 100).unwrap().unwrap()[..], [9]);
    assert!(transport.next_frame(|| 100).unwrap().is_none());
}

#[test]
fn a_frame_above_its_limit_is_refused_before_it_is_there() {
    let mut transport = transport_with(&[0, 0xFF, 0xFF, 0xFF]);
    let error = FrameError::TooLong { length: 0x00FF_FFFF, max: 100 };
    assert_eq!(transport.next_frame(|| 100), Err(error));
}

#[test]
fn a_client_that_does_not_read_is_not_served_until_it_does() {
    let mut transport = transport_with(&[]);
    transport.queue(transmit(OUTGOING_BYTES_MAX / 2));
    assert!(!transport.must_drain(|| transport.outgoing_bytes()));
    assert!(transport.must_drain(|| transport.outgoing_bytes() + 1), "others have something, too");
    transport.queue(transmit(1));
    assert!(transport.must_drain(|| transport.outgoing_bytes()) && transport.wants_to_send());
    let Some(Op::Send { buffers, .. }) = transport.send(true, |_, _| ()) else {
        panic!("nobody reads")
    };
    assert!(!transport.wants_to_send());
    transport.sent(&buffers, true);
    assert!(!transport.must_drain(|| OUTGOING_BYTES_MAX + 1), "there is always room for one");
    assert!(transport.receive(true).is_some());
}

#[test]
fn bytes_refused_by_a_socket_are_sent_first_and_by_a_waiting_operation() {
    let mut transport = transport_with(&[]);
    for byte in [1, 2] {
        let mut frame = transmit(100);
        frame.frame.fill(byte);
        transport.queue(frame);
    }
    let Some(Op::SendAtOnce { buffers, .. }) = transport.send(true, |_, _| ()) else {
        panic!("it is little")
    };
    assert!(!transport.wants_to_send() && transport.is_busy());
    transport.sent_at_once(buffers, 150);
    assert!(transport.wants_to_send() && !transport.is_drained());
    transport.queue(transmit(1));
    let queued: Vec<&[u8]> = transport.queued.iter().map(|it| &it.frame[..]).collect();
    assert_eq!(queued, [&[2; 50][..], &[0]]);
    let Some(Op::Send { buffers, .. }) = transport.send(true, |_, _| ()) else {
        panic!("nobody takes it at once")
    };
    transport.sent(&buffers, true);
    assert!(transport.is_drained());
}

/// The ends of a connection, of which the other one is not read from.
fn transport_and_client() -> (Transport, TcpStream) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = listener.local_addr().expect("bound");
    let transport = Transport::new(
        TcpStream::connect(address).expect("listening"),
        &MemoryAccount::new(256 << 20),
    );
    (transport, listener.accept().expect("it was connected").0)
}

/// A frame of `head` bytes in memory and `tail` in a pipe, each with a value of its own.
fn piped(head: (usize, u8), tail: (usize, u8)) -> Transmit {
    piped_counted(&Arc::default(), head, tail)
}

fn piped_counted(counted: &Arc<()>, head: (usize, u8), tail: (usize, u8)) -> Transmit {
    let (output, input) = rustix::pipe::pipe().expect("descriptors");
    let pages = tail.0.next_multiple_of(4096);
    rustix::pipe::fcntl_setpipe_size(&input, pages).expect("a megabyte is allowed");
    let put = rustix::io::write(&input, &vec![tail.1; tail.0]).expect("there is room");
    assert_eq!(put, tail.0);
    let (pages_max, counted) = (pages / 4096, Arc::clone(counted));
    let pipe = object::Pipe { output, input, pages_max, counted };
    let mut transmit = transmit(head.0);
    transmit.frame.fill(head.1);
    transmit.piped = Some(Piped::new(pipe, tail.0));
    transmit
}

/// Sends all that is queued, as the loop does.
fn drive(transport: &mut Transport, driver: &mut uring::Driver) -> io::Result<usize> {
    let mut pipes = 0;
    while !transport.is_drained() {
        let waits_with_sends = driver.backend() == uring::Backend::Ring;
        let done = |_, piped: Option<Piped>| {
            pipes += usize::from(piped.is_some_and(|it| it.into_empty().is_some()));
        };
        let Some(op) = transport.send(waits_with_sends, done) else { continue };
        driver.submit(uring::Token(1), op).expect("there is room");
        let mut completions = Vec::new();
        driver.wait(None, &mut completions)?;
        for uring::Completion { op, result, .. } in completions {
            match op {
                Op::PollWritable { .. } => transport.may_send(),
                Op::SendAtOnce { buffers, .. } => {
                    transport.sent_at_once(buffers, result?);
                }
                Op::Send { buffers, .. } => transport.sent(&buffers, result.map(|_| true)?),
                other => panic!("{other:?} sends nothing"),
            }
        }
    }
    Ok(pipes)
}

#[test]
fn piped_data_leave_in_order_to_a_slow_reader_too() {
    for backend in uring::Backend::available() {
        let (mut transport, mut client) = transport_and_client();
        let mut expected = Vec::new();
        for round in 0..24 {
            for (transmit, bytes) in [
                (
                    piped((150, round), (1 << 20, 100 + round)),
                    vec![(150, round), (1 << 20, 100 + round)],
                ),
                (transmit(70), vec![(70, 0)]),
                (piped((9, 250), (100_001, round)), vec![(9, 250), (100_001, round)]),
            ] {
                transport.queue(transmit);
                let bytes = bytes.into_iter();
                bytes.for_each(|(length, value)| expected.extend(vec![value; length]));
            }
        }
        assert_eq!(transport.outgoing_bytes(), expected.len());
        let reader = std::thread::spawn(move || {
            let mut all = Vec::new();
            io::Read::read_to_end(&mut client, &mut all).expect("it comes to an end");
            all
        });
        let driver = uring::Driver::new(backend, uring::Limits::default());
        let mut driver = driver.expect("it is available");
        let pipes = drive(&mut transport, &mut driver).expect("it is read");
        assert_eq!((pipes, transport.outgoing_bytes(), transport.queued_bytes), (48, 0, 0));
        transport.shut_down();
        assert!(reader.join().expect("it reads") == expected, "{backend:?}");
    }
}

#[test]
fn a_client_that_goes_away_leaves_no_pipe_and_ends_its_connection() {
    for backend in uring::Backend::available() {
        let (mut transport, client) = transport_and_client();
        let counted = Arc::default();
        for _ in 0..24 {
            transport.queue(piped_counted(&counted, (150, 1), (1 << 20, 2)));
        }
        assert!(transport.must_drain(|| OUTGOING_BYTES_MAX), "what is piped counts");
        let driver = uring::Driver::new(backend, uring::Limits::default());
        let mut driver = driver.expect("it is available");
        let op = transport.send(true, |_, _| ()).expect("nobody reads");
        assert!(matches!(op, Op::PollWritable { .. }), "{op:?}");
        driver.submit(uring::Token(1), op).expect("there is room");
        drop(client);
        driver.wait(None, &mut Vec::new()).expect("it is told");
        transport.may_send();
        drive(&mut transport, &mut driver).expect_err("nobody is there");
        assert_eq!(Arc::strong_count(&counted), 1, "{backend:?}");
    }
}

#[test]
fn a_frame_that_left_in_two_parts_gives_its_whole_buffer_back() {
    let (mut transport, _client) = transport_and_client();
    transport.queue(transmit(16 << 20));
    let Some(Op::Send { buffers, .. }) = transport.send(true, |_, _| ()) else {
        panic!("the socket does not take all of it")
    };
    let Some(SendBuffer::Bytes(rest)) = buffers.into_iter().next() else { panic!("in memory") };
    assert!(!rest.is_empty() && rest.len() < 16 << 20, "{}", rest.len());
    assert!(transport.take_front_begun() && !transport.take_front_begun());
    let mut frame = rest.try_into_mut().expect("nobody else has it");
    make_whole(&mut frame);
    assert!(frame.is_empty() && frame.capacity() >= 16 << 20, "{}", frame.capacity());
}

#[test]
fn piped_data_of_any_size_are_left_to_no_operation() {
    let (mut transport, mut client) = transport_and_client();
    transport.queue(piped((10, 1), (2_000, 2)));
    let op = transport.send(true, |_, piped| assert!(piped.is_some_and(|it| it.length() == 0)));
    assert!(op.is_none() && transport.is_drained(), "{op:?}");
    let mut received = [0; 2_010];
    io::Read::read_exact(&mut client, &mut received).expect("it was sent");
    assert_eq!(received[..], [vec![1; 10], vec![2; 2_000]].concat());
}

#[test]
fn a_frame_without_its_end_ends_the_connection() {
    let (mut transport, mut client) = transport_and_client();
    let mut frame = piped((10, 1), (2_000, 2));
    // Announces more bytes than the pipe will ever have.
    let mut all = frame.piped.take().expect("it was just made");
    let length = all.length();
    store::piped::read(&mut all, &mut BytesMut::new()).expect("it is there");
    let object::Pipe { output, pages_max, counted, .. } = all.into_empty().expect("all of it");
    let input = std::fs::File::open("/dev/null").expect("it is everywhere").into();
    let pipe = object::Pipe { output, input, pages_max, counted };
    frame.piped = Some(Piped::new(pipe, length));
    transport.queue(frame);
    let Some(Op::Send { buffers, .. }) = transport.send(true, |_, _| ()) else {
        panic!("it waits, for what never comes")
    };
    assert_eq!(transport.outgoing_bytes(), buffers[0].as_slice().len());
    let mut received = Vec::new();
    io::Read::read_to_end(&mut client, &mut received).expect("it comes to an end");
    assert_eq!(received, [1; 10]);
}

#[test]
fn a_lane_is_given_bytes_and_no_pipe() {
    let mut transport = transport_with(&[]);
    transport.queue(piped((9, 1), (70_000, 2)));
    let Job::Send { frames, .. } = transport.lane_send() else { panic!("it sends") };
    let expected: Vec<u8> = [vec![1; 9], vec![2; 70_000]].concat();
    assert!(frames[0].piped.is_none() && frames[0].frame[..] == expected);
    assert_eq!(transport.outgoing_bytes(), expected.len());
}

#[test]
fn a_client_that_reads_nothing_is_not_waited_for_when_it_was_ended() {
    let (mut transport, now) = (transport_with(&[]), Instant::now());
    transport.queue(transmit(OUTGOING_BYTES_MAX));
    assert_eq!(transport.next_drain_timeout(), None);
    transport.end(now);
    assert!(transport.is_closing && !transport.is_drained());
    assert_eq!(transport.next_drain_timeout(), Some(now + DRAIN_TIMEOUT));
    transport.shut_down();
    assert_eq!(transport.next_drain_timeout(), None);
}

#[test]
fn keep_alives_say_nothing() {
    let mut transport = transport_with(&[0x85, 0, 0, 0, 0, 0, 0, 1, 3]);
    assert_eq!(transport.next_frame(|| 100).unwrap().unwrap()[..], [3]);
}

/// RFC 1002 4.3.2: clients on port 139 begin so, with the names of both sides.
#[test]
fn a_netbios_session_request_is_confirmed_once() {
    let mut request = vec![0x81, 0, 0, 68];
    request.resize(4 + 68, b'A');
    let mut transport = transport_with(&request[..50]);
    assert!(transport.next_frame(|| 100).unwrap().is_none(), "it is here in part");
    transport.received(
        BytesMut::from(&[&request[..], &[0, 0, 0, 1, 7]].concat()[..]),
        Moment::default(),
    );
    assert_eq!(transport.next_frame(|| 100).unwrap().unwrap()[..], [7]);
    let Job::Send { frames, .. } = transport.lane_send() else { panic!("it sends") };
    assert_eq!(frames.len(), 1);
    assert_eq!(frames[0].frame[..], [0x82, 0, 0, 0]);
    transport.received(BytesMut::from(&request[..]), Moment::default());
    assert_eq!(transport.next_frame(|| 100), Err(FrameError::UnknownType));
    let mut transport = transport_with(&[0x81, 0, 2, 1]);
    assert_eq!(transport.next_frame(|| 100), Err(FrameError::UnknownType), "513 bytes");
}

/// Returns the length of the next receive, and whether it waits for all of it.
fn next_receive(transport: &mut Transport) -> (usize, bool) {
    let Some(Op::Receive { buffer, limit, whole, .. }) = transport.receive(true) else {
        panic!("nothing is under way");
    };
    assert!(buffer.capacity() - buffer.len() >= limit);
    transport.received(buffer, Moment::default());
    (limit, whole)
}

#[test]
fn a_frame_is_expected_to_be_as_long_as_the_one_before() {
    let mut long = BytesMut::from(&[0, 0x02, 0, 0][..]);
    long.resize(4 + 0x2_0000, 0);
    let mut transport = transport_with(&long[..1000]);
    assert_eq!(next_receive(&mut transport), (long.len() - 1000, true));
    transport.received(long.clone(), Moment::default());
    transport.next_frame(|| 1 << 20).unwrap().expect("it is whole");
    assert_eq!(next_receive(&mut transport), (long.len(), false));
    transport.received(BytesMut::from(&[0, 0, 0, 1, 7][..]), Moment::default());
    transport.next_frame(|| 100).unwrap().expect("it is whole");
    assert_eq!(next_receive(&mut transport), (RECEIVE_LEN, false));
}

/// Returns a buffer that begins `offset` bytes behind the start of a page, and a frame before it.
fn buffer_at(offset: usize) -> (BytesMut, BytesMut) {
    let mut buffer = BytesMut::zeroed(4 * 4_096);
    let start = buffer.as_ptr().addr();
    let before = buffer.split_to(start.next_multiple_of(4_096) + offset - start);
    (buffer, before)
}

#[test]
fn a_frame_does_not_begin_in_the_first_bytes_of_a_page() {
    let offset = |buffer: &BytesMut| buffer.as_ptr().addr() % 4_096;
    for (received_at, frame_at) in [(0, 0), (1, 64), (16, 64), (63, 64), (64, 64), (4_095, 4_095)] {
        let (mut buffer, _before) = buffer_at(received_at);
        buffer.clear();
        make_room(&mut buffer, 1_000);
        assert_eq!((offset(&buffer), buffer.len()), (frame_at, 0));
        assert!(buffer.capacity() >= 1_000);
        let (mut rest, _before) = buffer_at(received_at);
        rest.truncate(5);
        make_room(&mut rest, 1_000);
        assert_eq!((offset(&rest), rest.len()), (received_at, 5), "nothing is moved");
    }
}

#[test]
fn the_rest_of_a_long_frame_is_wanted_exactly() {
    let mut long = BytesMut::from(&[0, 0x10, 0, 0][..]);
    long.resize(10_000, 0);
    assert_eq!(wanted(&long, RECEIVE_LEN), 0x10_0000 + 4 - 10_000);
    long.resize(0x10_0000 - 10, 0);
    assert_eq!(wanted(&long, RECEIVE_LEN), 14);
    assert_eq!(wanted(&BytesMut::new(), RECEIVE_LEN), RECEIVE_LEN);
    let short = BytesMut::from(&[0, 0, 1, 0, 7][..]);
    assert_eq!(wanted(&short, RECEIVE_LEN), RECEIVE_LEN);
}

#[test]
fn the_rest_of_a_frame_is_received_behind_its_beginning_without_moving_that() {
    let mut buffer = BytesMut::new();
    make_room(&mut buffer, wanted(&BytesMut::new(), RECEIVE_LEN));
    let at = buffer.as_ptr();
    // A WRITE of 64 KiB, of which the last byte is missing.
    buffer.extend_from_slice(&[0, 1, 0, 0x74]);
    buffer.resize(frame::SIZE + 0x1_0074 - 1, 7);
    let rest = wanted(&buffer, RECEIVE_LEN);
    assert!(rest >= 1, "further frames may come with it");
    make_room(&mut buffer, rest);
    assert_eq!(buffer.as_ptr(), at);
    // This buffer has no room for the last byte, so the frame is moved.
    let full = BytesMut::from(&buffer[..]);
    assert_eq!(wanted(&full, RECEIVE_LEN), RECEIVE_LEN);
}

#[test]
fn a_lane_finds_the_frames_that_are_taken_afterwards() {
    let bytes = [0, 0, 0, 2, 7, 8, 0x85, 0, 0, 0, 0, 0, 0, 1, 9, 0, 0, 0, 3, 1];
    let found: Vec<&[u8]> = whole_frames(&bytes, 100).map(|at| &bytes[at]).collect();
    assert_eq!(found, [&[7, 8][..], &[9]]);
    let mut transport = transport_with(&bytes);
    for frame in found {
        assert_eq!(transport.next_frame(|| 100).unwrap().unwrap()[..], *frame);
    }
    assert!(transport.next_frame(|| 100).unwrap().is_none());
}

#[test]
fn a_lane_receives_until_a_frame_is_whole_or_makes_no_sense() {
    let wanted = |bytes: &[u8]| wanted_by_lane(&BytesMut::from(bytes), 0x10_0000);
    assert_eq!(wanted(&[]), Some(LANE_RECEIVE_LEN));
    assert_eq!(wanted(&[0, 0, 0, 2, 7]), Some(LANE_RECEIVE_LEN));
    assert_eq!(wanted(&[0, 0x10, 0, 0, 7]), Some(0x10_0000 - 1), "a long one exactly");
    assert_eq!(wanted(&[0, 0, 0, 2, 7, 8, 0]), None, "it is whole");
    assert_eq!(wanted(&[0, 0x10, 0, 1]), None, "it is too long");
    assert_eq!(wanted(&[0x81, 0, 0, 0]), None, "it is of no known type");
    assert_eq!(wanted(&[0x85, 0, 0, 0]), None, "it is no frame, and more of them would gather");
}

#[test]
fn frames_checked_by_a_lane_are_taken_before_a_lane_receives_again() {
    let mut transport = transport_with(&[]);
    let buffer = BytesMut::from(&[0, 0, 0, 1, 9, 0, 0, 0, 1, 8][..]);
    transport.received_by_lane(
        buffer,
        VecDeque::from([LaneFrame::default(), LaneFrame::default()]),
        Moment::default(),
    );
    let frame_keys = || FrameKeys::default();
    assert!(transport.lane_receive(frame_keys(), 100).is_none());
    for _ in 0..2 {
        assert!(transport.next_frame(|| 100).unwrap().is_some());
        assert!(transport.take_checked().checked.is_none());
    }
    assert!(transport.lane_receive(frame_keys(), 100).is_some());
}

/// The head of a frame of so many bytes, and the first of them.
fn part_of_frame(length: usize) -> Vec<u8> {
    let mut bytes = FrameHeader::message(length).expect("short").to_vec();
    bytes.extend_from_slice(&[7; 100]);
    bytes
}

fn transport_of(memory: &MemoryAccount, bytes: &[u8]) -> Transport {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = listener.local_addr().expect("bound");
    let mut transport = Transport::new(TcpStream::connect(address).expect("listening"), memory);
    transport.received(BytesMut::from(bytes), Moment::default());
    transport
}

const FRAME_LEN: usize = 8 << 20;

#[test]
fn long_frames_of_many_connections_are_received_as_far_as_there_is_memory() {
    let memory = MemoryAccount::new(256 << 20);
    let part = part_of_frame(FRAME_LEN);
    let mut transports: Vec<_> = (0..256).map(|_| transport_of(&memory, &part)).collect();
    let received = transports.iter_mut().filter_map(|it| it.receive(false)).count();
    assert_eq!(received, 15, "15 frames of a little more than 8 MiB are half of 256 MiB");
    assert!(memory.taken() <= 128 << 20);
    // One that ends makes room for another.
    transports.remove(0);
    let more: Vec<_> = transports.iter_mut().filter_map(|it| it.receive(false)).collect();
    assert_eq!(more.len(), 1);
    drop(transports);
    assert_eq!(memory.taken(), 0);
}

#[test]
fn a_client_with_little_memory_can_still_send_one_frame_after_another() {
    let memory = MemoryAccount::new(4 << 20);
    let part = part_of_frame(FRAME_LEN);
    let (mut first, mut second) = (transport_of(&memory, &part), transport_of(&memory, &part));
    let Some(Op::Receive { mut buffer, limit, .. }) = first.receive(false) else { panic!("one") };
    assert!(second.receive(false).is_none());
    let have = buffer.len();
    buffer.resize(have + limit, 7);
    first.received(buffer, Moment::default());
    assert!(second.receive(false).is_none(), "it is not taken yet");
    assert!(matches!(first.next_frame(|| FRAME_LEN), Ok(Some(_))));
    assert!(second.receive(false).is_some());
}

#[test]
fn a_frame_has_a_minute_from_its_first_byte_however_little_comes_of_it() {
    let memory = MemoryAccount::new(256 << 20);
    let mut transport = transport_of(&memory, &part_of_frame(FRAME_LEN));
    let second = Duration::from_secs(1);
    transport.time_frame(10 * second, true);
    for elapsed in 11..70 {
        let Some(Op::Receive { mut buffer, .. }) = transport.receive(true) else { panic!("more") };
        transport.time_frame(elapsed * second, true);
        buffer.extend_from_slice(&[7]);
        transport.received(buffer, Moment::default());
        transport.time_frame(elapsed * second, true);
        assert_eq!(transport.frame_deadline(), Some(70 * second));
    }
    // The next one has a minute of its own.
    let mut buffer = transport.received.take().expect("nothing is under way");
    buffer.resize(frame::SIZE + FRAME_LEN, 7);
    buffer.extend_from_slice(&part_of_frame(FRAME_LEN));
    transport.received(buffer, Moment::default());
    assert!(matches!(transport.next_frame(|| FRAME_LEN), Ok(Some(_))));
    transport.time_frame(71 * second, true);
    assert_eq!(transport.frame_deadline(), Some(131 * second));
}

#[test]
fn a_pause_within_a_frame_does_not_count() {
    let memory = MemoryAccount::new(4 << 20);
    let part = part_of_frame(FRAME_LEN);
    let (mut first, mut second) = (transport_of(&memory, &part), transport_of(&memory, &part));
    let second_of_time = Duration::from_secs(1);
    for transport in [&mut first, &mut second] {
        transport.time_frame(second_of_time, true);
        let _ = transport.receive(false);
    }
    assert_eq!(first.frame_deadline(), Some(61 * second_of_time));
    assert_eq!(second.frame_deadline(), None, "there is no memory for it");
    // Answers have to leave first, say, which stops no receive that is under way.
    first.time_frame(2 * second_of_time, false);
    assert_eq!(first.frame_deadline(), Some(61 * second_of_time));
    first.received(BytesMut::from(&part[..]), Moment::default());
    first.time_frame(3 * second_of_time, false);
    assert_eq!(first.frame_deadline(), None);
    first.time_frame(4 * second_of_time, true);
    assert_eq!(first.frame_deadline(), Some(64 * second_of_time));
}

#[test]
fn an_idle_connection_and_one_with_whole_frames_only_have_no_deadline() {
    let memory = MemoryAccount::new(4 << 20);
    let mut transport = transport_of(&memory, &[]);
    transport.time_frame(Duration::ZERO, true);
    assert_eq!(transport.frame_deadline(), None);
    transport.received(BytesMut::from(&[0, 0, 0, 1, 7][..]), Moment::default());
    assert!(matches!(transport.next_frame(|| 100), Ok(Some(_))));
    transport.time_frame(Duration::ZERO, true);
    assert_eq!(transport.frame_deadline(), None);
}

#[test]
fn small_answers_that_are_not_read_keep_no_large_buffers_and_stop_their_client() {
    let memory = MemoryAccount::new(256 << 20);
    let mut transport = transport_of(&memory, &[]);
    for _ in 0..OUTGOING_FRAMES_MAX {
        assert!(!transport.must_drain(|| 0));
        let mut frame = BytesMut::with_capacity(1 << 20);
        frame.extend_from_slice(&[7; 100]);
        transport.queue(Transmit { frame, ..transmit(0) });
    }
    assert!(transport.must_drain(|| 0));
    let kept: usize = transport.queued.iter().map(|it| it.frame.capacity()).sum();
    assert!(kept <= (SPACIOUS_FRAMES_MAX << 20) + OUTGOING_FRAMES_MAX * 200, "{kept}");
    assert_eq!(memory.taken(), 100 * OUTGOING_FRAMES_MAX);
}

#[test]
fn a_connection_that_is_not_read_leaves_room_to_the_others_of_a_client_with_little_memory() {
    let memory = MemoryAccount::new(4 << 20);
    let (mut unread, other) = (transport_of(&memory, &[]), transport_of(&memory, &[]));
    while !unread.must_drain(|| memory.taken()) {
        unread.queue(transmit(64 << 10));
    }
    assert!(!memory.must_wait() && !other.must_drain(|| memory.taken()));
}

#[test]
fn little_is_received_at_once_from_a_stranger_beside_a_user() {
    let mut transport = transport_with(&[]);
    let Some(Op::Receive { limit, whole, buffer, .. }) = transport.receive_little() else {
        panic!("a receive")
    };
    assert_eq!((limit, whole), (STRANGERS_RECEIVE_LEN, false));
    // Not even the rest of a frame that has begun.
    let mut begun = buffer;
    begun.extend_from_slice(&[0, 0, 0xFF, 0]);
    transport.received(begun, Moment::default());
    let Some(Op::Receive { limit, whole, .. }) = transport.receive_little() else {
        panic!("a receive")
    };
    assert_eq!((limit, whole), (STRANGERS_RECEIVE_LEN, false));
}
