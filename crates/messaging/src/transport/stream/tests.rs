use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use dtyp::ServerId;
use tempfile::TempDir;

use super::{HALF_CLOSED_TIMEOUT, Stream};
use crate::counters::Counters;
use crate::transport::packet::{Entry, Header};
use crate::transport::{Frame, Settings, Transport, TransportKind, members};

/// Longest wait, more than any step takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Transport of this process, which may send to itself.
struct Bench {
    dir: TempDir,
    me: ServerId,
    transport: Stream,
    now: Instant,
}

impl Bench {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let me = ServerId { pid: std::process::id(), unique_id: 77 };
        let settings = Settings::new(TransportKind::Stream);
        let transport = Stream::open(dir.path(), me, settings).expect("open");
        Self { dir, me, transport, now: Instant::now() }
    }

    /// Connects from outside the transport.
    fn connect(&self) -> UnixStream {
        let path = self.dir.path().join("msg").join(members::name_of(self.me));
        UnixStream::connect(path).expect("it listens")
    }

    /// Starts a second process as its peers see it; it does nothing until it is polled.
    fn stopped(&self) -> Stream {
        let id = ServerId { unique_id: 78, ..self.me };
        Stream::open(self.dir.path(), id, Settings::new(TransportKind::Stream)).expect("open")
    }

    /// Sends to a stopped process until a connection keeps the rest of a packet, and frames queue
    /// up behind it. Returns the number of frames sent.
    fn fill(&mut self, to: ServerId) -> u64 {
        let before = self.transport.counters().queued;
        for number in 0.. {
            if self.transport.counters().queued > before + 2 {
                return number;
            }
            let sent = self.transport.send(self.now, to, &vec![b'x'; 100_000], &[]);
            assert_eq!(sent, Ok(()));
        }
        unreachable!("it is full some time");
    }

    fn receive(&mut self) -> Vec<Frame> {
        receive(&mut self.transport, self.now)
    }

    /// Asserts that these bytes yield no frame, these counts, and the end of the connection.
    #[track_caller]
    fn check_refused(&mut self, mut connection: UnixStream, bytes: &[u8], want: Counters) {
        connection.write_all(bytes).expect("there is room");
        assert!(self.receive().is_empty());
        assert_eq!(self.transport.counters(), want);
        connection.set_read_timeout(Some(PATIENCE)).expect("it is one");
        let has_ended = match connection.read(&mut [0]) {
            Ok(len) => len == 0,
            Err(error) => error.kind() != ErrorKind::WouldBlock,
        };
        assert!(has_ended, "the connection stays");
        assert!(self.transport.outgoing.carrier.links.is_empty());
    }
}

/// Polls until nothing is left to do.
fn receive(transport: &mut Stream, now: Instant) -> Vec<Frame> {
    let mut frames = Vec::new();
    for _ in 0..10 {
        transport.poll_send(now);
        frames.extend(std::iter::from_fn(|| transport.poll_receive(now)));
    }
    frames
}

/// Builds a packet with its length prefix.
fn packet(sender: ServerId, receiver: ServerId, message_id: u64, frame: &[u8]) -> Vec<u8> {
    let total = u32::try_from(frame.len()).expect("small");
    let entry = Entry { total, offset: 0, message_id, sent_at: 0 };
    let header = Header { descriptors: 0, sender, receiver };
    let packet = [&header.encode()[..], &entry.encode(), frame].concat();
    [&u32::try_from(packet.len()).expect("small").to_le_bytes()[..], &packet].concat()
}

#[test]
fn frames_are_taken_however_they_are_cut() {
    let mut bench = Bench::new();
    let bytes = [
        packet(bench.me, bench.me, 0, b"one"),
        packet(bench.me, bench.me, 1, b""),
        packet(bench.me, bench.me, 2, b"three"),
    ]
    .concat();
    for step in [1, 2, 7, 50, bytes.len()] {
        let mut connection = bench.connect();
        let mut frames = Vec::new();
        for part in bytes.chunks(step) {
            connection.write_all(part).expect("there is room");
            frames.extend(bench.receive().into_iter().map(|frame| frame.bytes));
        }
        assert_eq!(frames, [&b"one"[..], b"", b"three"]);
    }
}

/// The kernel names the process that connected, whatever it sends.
#[test]
fn a_forged_sender_ends_its_connection() {
    let mut bench = Bench::new();
    let connection = bench.connect();
    let bytes = packet(ServerId { pid: 1, unique_id: 5 }, bench.me, 0, b"hello");
    let want = Counters { forged: 1, malformed: 1, ..Counters::default() };
    bench.check_refused(connection, &bytes, want);
}

#[test]
fn a_packet_that_is_too_long_ends_its_connection() {
    let mut bench = Bench::new();
    let connection = bench.connect();
    let want = Counters { malformed: 1, ..Counters::default() };
    bench.check_refused(connection, &u32::MAX.to_le_bytes(), want);
}

/// Also if the connections are read, or even accepted, in another order.
#[test]
fn messages_of_one_process_over_several_connections_keep_their_order() {
    let mut bench = Bench::new();
    let mut connections: Vec<UnixStream> = (0..5).map(|_| bench.connect()).collect();
    for (number, connection) in connections.iter_mut().rev().enumerate() {
        let number = number.to_le_bytes();
        let bytes = packet(bench.me, bench.me, u64::from_le_bytes(number), &number);
        connection.write_all(&bytes).expect("there is room");
    }
    let frames: Vec<Vec<u8>> = bench.receive().into_iter().map(|frame| frame.bytes).collect();
    assert_eq!(frames, (0..5_usize).map(|number| number.to_le_bytes()).collect::<Vec<_>>());
}

/// Asserts that a process has one connection, and never had another.
#[track_caller]
fn check_one_connection(process: &Stream) {
    let carrier = &process.outgoing.carrier;
    assert_eq!((carrier.links.len(), carrier.next_token), (1, super::LISTENER + 2));
}

#[test]
fn an_answer_goes_back_over_the_connection_of_its_question() {
    let mut asker = Bench::new();
    let mut other = asker.stopped();
    let other_id = ServerId { unique_id: 78, ..asker.me };
    for number in 0..3_u8 {
        asker.transport.send(asker.now, other_id, &[number], &[]).expect("room");
        asker.transport.poll_send(asker.now);
        let questions = receive(&mut other, asker.now);
        let questions: Vec<_> = questions.iter().map(|it| (it.sender, &it.bytes[..])).collect();
        assert_eq!(questions, [(asker.me, &[number][..])]);
        other.send(asker.now, asker.me, &[number, 7], &[]).expect("room");
        other.poll_send(asker.now);
        let answers = asker.receive();
        let answers: Vec<_> = answers.iter().map(|it| (it.sender, &it.bytes[..])).collect();
        assert_eq!(answers, [(other_id, &[number, 7][..])]);
        check_one_connection(&asker.transport);
        check_one_connection(&other);
    }
    // A question of the other process uses it as well.
    other.send(asker.now, asker.me, b"and you?", &[]).expect("room");
    other.poll_send(asker.now);
    assert_eq!(asker.receive().len(), 1);
    check_one_connection(&asker.transport);
    check_one_connection(&other);
}

#[test]
fn an_idle_connection_is_closed_at_both_ends() {
    let mut bench = Bench::new();
    bench.transport.send(bench.now, bench.me, b"hello", &[]).expect("room");
    assert_eq!(bench.receive().len(), 1);
    assert_eq!(bench.transport.outgoing.carrier.links.len(), 2);
    let idle = Settings::new(TransportKind::Stream).stream_idle;
    assert_eq!(bench.transport.next_timeout(), Some(bench.now + idle));
    bench.now += idle;
    assert!(bench.receive().is_empty());
    assert!(bench.transport.outgoing.carrier.links.is_empty());
    assert_eq!(bench.transport.next_timeout(), None);
}

/// A process that does not read does not end its half.
#[test]
fn a_connection_with_an_open_other_half_is_given_up() {
    let mut bench = Bench::new();
    bench.transport.send(bench.now, bench.me, b"hello", &[]).expect("room");
    bench.now += Settings::new(TransportKind::Stream).stream_idle;
    bench.transport.poll_send(bench.now);
    bench.transport.poll_send(bench.now);
    assert_eq!(bench.transport.outgoing.carrier.links.len(), 1);
    let until = bench.now + HALF_CLOSED_TIMEOUT;
    assert_eq!(bench.transport.next_timeout(), Some(until));
    bench.transport.poll_send(until);
    assert!(bench.transport.outgoing.carrier.links.is_empty());
    // Bytes sent before are still readable.
    bench.now = until;
    assert_eq!(bench.receive().len(), 1);
}

/// Otherwise a process stopped for long would accumulate abandoned connections, and frames over a
/// later one could overtake the rest of a packet.
#[test]
fn a_connection_with_the_rest_of_a_packet_is_not_left_for_another() {
    let mut bench = Bench::new();
    let mut stopped = bench.stopped();
    let to = ServerId { unique_id: 78, ..bench.me };
    let sent = bench.fill(to);
    let waiting = bench.transport.counters().queued;
    for round in 0..5_u8 {
        // Queued frames are dropped; then the connection has been idle for long enough.
        for _ in 0..2 {
            bench.now += HALF_CLOSED_TIMEOUT;
            bench.transport.poll_send(bench.now);
        }
        assert_eq!(bench.transport.counters().queued, 0);
        assert_eq!(bench.transport.send(bench.now, to, &[round], &[]), Ok(()));
        assert_eq!(bench.transport.outgoing.carrier.links.len(), 1);
    }
    let mut frames = Vec::new();
    while frames.last().is_none_or(|last: &Vec<u8>| last.len() > 1) {
        bench.transport.poll_send(bench.now);
        frames.extend(stopped.poll_receive(bench.now).map(|frame| frame.bytes));
    }
    // A frame whose rest was dropped does not arrive.
    assert_eq!(frames.pop(), Some(vec![4]));
    assert!(frames.iter().all(|frame| frame.len() == 100_000));
    assert_eq!(u64::try_from(frames.len()), Ok(sent - waiting));
    let counters = bench.transport.counters();
    assert_eq!(
        (counters.dropped, counters.lost, stopped.counters().malformed),
        (waiting + 4, 0, 0)
    );
    // Other receivers have lost nothing.
    assert_eq!(bench.transport.take_receivers_of_dropped(), [to].into());
    assert_eq!(bench.transport.take_receivers_of_dropped(), [].into());
}

/// The other process was taken for dead and is only stopped.
#[test]
fn a_connection_that_is_left_with_the_rest_of_a_packet_is_given_up() {
    let mut bench = Bench::new();
    let _stopped = bench.stopped();
    let to = ServerId { unique_id: 78, ..bench.me };
    for _ in 0..3 {
        bench.fill(to);
        bench.transport.remove_dead(to);
    }
    bench.transport.poll_send(bench.now);
    assert_eq!(bench.transport.outgoing.carrier.links.len(), 3);
    let until = bench.now + HALF_CLOSED_TIMEOUT;
    // No other timeout is left.
    bench.transport.poll_send(bench.now + Settings::new(TransportKind::Stream).stream_idle);
    assert_eq!(bench.transport.next_timeout(), Some(until));
    bench.transport.poll_send(until);
    assert!(bench.transport.outgoing.carrier.links.is_empty());
    assert_eq!(bench.transport.next_timeout(), None);
}

/// The rest leaves first; the other process gets all of it.
#[test]
fn a_connection_that_is_left_ends_when_its_rest_has_left() {
    let mut bench = Bench::new();
    let mut stopped = bench.stopped();
    let to = ServerId { unique_id: 78, ..bench.me };
    let sent = bench.fill(to) - bench.transport.counters().queued;
    bench.transport.remove_dead(to);
    let mut received = 0;
    while !bench.transport.outgoing.carrier.links.is_empty() {
        bench.transport.turn(bench.now);
        received += u64::from(stopped.poll_receive(bench.now).is_some());
    }
    assert_eq!(received, sent);
    assert!(stopped.outgoing.carrier.links.is_empty());
    assert_eq!(stopped.counters().malformed, 0);
}
