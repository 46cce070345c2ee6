//! The connection to daemons that are slow, lie, end, or say nothing.

use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use ctdb::{
    Answer, AttachError, Attachment, Connection, Control, DatabaseKind, Destination, Event,
    Failure, Lost, Malformed, NoDaemon, Observation, Unsent,
};
use tempfile::TempDir;

/// Longer than any test waits for what does come.
const LONG: Duration = Duration::from_secs(60);

/// A daemon whose one connection a function serves, in a thread that is joined when dropped.
struct Daemon {
    directory: TempDir,
    thread: Option<JoinHandle<()>>,
}

impl Daemon {
    fn start(serve: impl FnOnce(UnixStream) + Send + 'static) -> Self {
        let directory = tempfile::tempdir().expect("there is space");
        let listener = UnixListener::bind(directory.path().join("socket")).expect("it is new");
        let thread = Some(thread::spawn(move || {
            serve(listener.accept().expect("the test connects").0);
        }));
        Self { directory, thread }
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    fn connect(&self) -> Connection {
        Connection::open(&self.socket()).expect("it listens")
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            let done = thread.join();
            assert!(done.is_ok() || thread::panicking(), "the daemon of the test has failed");
        }
    }
}

/// Reads a request: its number, its opcode and its data.
fn read_control(stream: &mut UnixStream) -> io::Result<(u32, u32, Vec<u8>)> {
    let mut header = [0; 60];
    stream.read_exact(&mut header)?;
    let field = |at: usize| u32::from_ne_bytes(header[at..at + 4].try_into().expect("four bytes"));
    let mut data = vec![0; field(56) as usize];
    stream.read_exact(&mut data)?;
    assert_eq!(field(0) as usize, header.len() + data.len());
    Ok((field(28), field(32), data))
}

fn reply(request: u32, status: i32, data: &[u8]) -> Vec<u8> {
    let number = |number: usize| u32::try_from(number).expect("it is short");
    let header = [number(44 + data.len()), 0x4354_4442, 1, 77, 8, 0, 0, request];
    let mut packet: Vec<u8> = header.into_iter().flat_map(u32::to_ne_bytes).collect();
    packet.extend(status.to_ne_bytes());
    packet.extend(number(data.len()).to_ne_bytes());
    packet.extend([0; 4]);
    packet.extend(data);
    packet
}

/// Waits for the next event.
fn next(connection: &mut Connection) -> Result<Event, Lost> {
    loop {
        let now = Instant::now();
        if let Some(event) = connection.next_event(now)? {
            return Ok(event);
        }
        connection.wait(now + LONG, now).expect("the kernel waits");
    }
}

fn soon() -> Instant {
    Instant::now() + Duration::from_millis(50)
}

fn late() -> Instant {
    Instant::now() + LONG
}

#[test]
fn replies_in_another_order_and_in_pieces_find_their_requests() {
    let daemon = Daemon::start(|mut stream| {
        let requests = [(); 3].map(|()| read_control(&mut stream).expect("the test asks").0);
        for request in requests.into_iter().rev() {
            let status = i32::try_from(request).expect("it is low");
            for piece in reply(request, status, &[]).chunks(7) {
                stream.write_all(piece).expect("the test reads");
            }
        }
    });
    let mut connection = daemon.connect();
    let mut ask = || connection.exchange().ask(Destination::Own, &Control::OwnNumber, late());
    let asked = [ask(), ask(), ask()].map(|id| id.expect("there is room"));
    for (id, number) in asked.into_iter().zip([1, 2, 3]).rev() {
        let event = next(&mut connection).expect("it answers");
        assert_eq!(event, Event::Answered(id, Ok(Answer::OwnNumber(number))));
    }
    assert!(matches!(next(&mut connection), Err(Lost::Closed)));
}

#[test]
fn a_daemon_that_says_nothing_costs_its_caller_no_more_than_the_deadline() {
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let daemon = Daemon::start(move |_stream| _ = ended.recv());
    let mut connection = daemon.connect();
    let mut ask = |deadline| connection.exchange().ask(Destination::Own, &Control::Nodes, deadline);
    let (slow, quick) = (ask(late()).expect("room"), ask(soon()).expect("room"));
    let event = next(&mut connection).expect("the connection stands");
    assert_eq!(event, Event::Answered(quick, Err(Failure::Expired)));
    assert_ne!(slow, quick);
    drop(end);
    assert!(matches!(next(&mut connection), Err(Lost::Closed)));
}

#[test]
fn a_daemon_that_reads_nothing_does_not_block_its_caller() {
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let daemon = Daemon::start(move |_stream| _ = ended.recv());
    let mut connection = daemon.connect();
    let piece = vec![0; 1 << 20];
    let sent = std::iter::repeat_with(|| {
        assert_eq!(connection.next_event(Instant::now()).expect("it stands"), None);
        connection.exchange().send_message(Destination::Active, 1, &piece)
    });
    assert_eq!(sent.take(64).take_while(Result::is_ok).count(), 16, "more is refused");
    let refused = connection.exchange().send_message(Destination::Active, 1, &piece);
    assert_eq!(refused, Err(Unsent::Full));
    assert!(connection.wants_to_write());
    drop(end);
}

#[test]
fn replies_before_the_end_of_a_daemon_are_taken() {
    let daemon = Daemon::start(|mut stream| {
        let (request, ..) = read_control(&mut stream).expect("the test asks");
        let reply = reply(request, 4, &[]);
        stream.write_all(&reply).expect("the test reads");
        stream.write_all(&reply[..20]).expect("the test reads");
    });
    let mut connection = daemon.connect();
    let control = Control::OwnNumber;
    let id = connection.exchange().ask(Destination::Own, &control, late()).expect("there is room");
    let event = next(&mut connection).expect("it answers");
    assert_eq!(event, Event::Answered(id, Ok(Answer::OwnNumber(4))));
    assert!(matches!(next(&mut connection), Err(Lost::Closed)), "half a packet is none");
}

#[test]
fn replies_are_taken_before_a_failed_write_ends_the_connection() {
    let (go, may_go) = std::sync::mpsc::channel();
    let daemon = Daemon::start(move |mut stream| {
        let (request, ..) = read_control(&mut stream).expect("the test asks");
        may_go.recv().expect("the test says so");
        stream.write_all(&reply(request, 4, &[])).expect("the test reads");
    });
    let mut connection = daemon.connect();
    let ask = |connection: &mut Connection| {
        connection
            .exchange()
            .ask(Destination::Own, &Control::OwnNumber, late())
            .expect("there is room")
    };
    let answered = ask(&mut connection);
    assert_eq!(connection.next_event(Instant::now()).expect("it stands"), None);
    ask(&mut connection);
    go.send(()).expect("the daemon waits");
    // It has ended when this returns.
    drop(daemon);
    let event = next(&mut connection).expect("the reply is there");
    assert_eq!(event, Event::Answered(answered, Ok(Answer::OwnNumber(4))));
    assert!(matches!(next(&mut connection), Err(Lost::Closed)));
}

#[test]
fn a_daemon_that_lies_about_lengths_loses_the_connection() {
    let daemon = Daemon::start(|mut stream| {
        let mut packet = reply(1, 0, &[]);
        packet[..4].copy_from_slice(&u32::MAX.to_ne_bytes());
        stream.write_all(&packet).expect("the test reads");
    });
    let lost = next(&mut daemon.connect());
    assert!(matches!(lost, Err(Lost::Malformed(Malformed::Length(u32::MAX)))));
}

#[test]
fn a_database_is_attached_in_three_steps() {
    let daemon = Daemon::start(|mut stream| {
        let (request, ..) = read_control(&mut stream).expect("another question");
        stream.write_all(&reply(request, 2, &[])).expect("the test reads");
        let (request, opcode, data) = read_control(&mut stream).expect("attach");
        assert_eq!((opcode, data.as_slice()), (61, &b"x.tdb\0"[..]));
        stream.write_all(&reply(request, 0, &9u32.to_ne_bytes())).expect("the test reads");
        let mut asked = [(); 2].map(|()| read_control(&mut stream).expect("path and flags"));
        // The flags before the path.
        asked.sort_by_key(|(_, opcode, _)| std::cmp::Reverse(*opcode));
        let answers: [&[u8]; 2] = [&0x400u32.to_ne_bytes(), b"/var/x.tdb.0\0"];
        for ((request, _, data), answer) in asked.into_iter().zip(answers) {
            assert_eq!(data, 9u32.to_ne_bytes());
            stream.write_all(&reply(request, 0, answer)).expect("the test reads");
        }
    });
    let mut connection = daemon.connect();
    // Its answer arrives first, and is none of the attachment's.
    let asked = connection.exchange().ask(Destination::Own, &Control::OwnNumber, late());
    asked.expect("there is room");
    let kind = DatabaseKind::Persistent;
    let begun = Attachment::begin(&mut connection, "x.tdb", kind, late());
    let mut attachment = begun.expect("there is room");
    let attached = loop {
        let event = next(&mut connection).expect("it answers");
        let Event::Answered(id, result) = event else { panic!("{event:?}") };
        let done = attachment.advance(&mut connection, id, &result).expect("it answers well");
        if let Some(attached) = done {
            break attached;
        }
    };
    assert_eq!((attached.database, attached.kind, attached.flags), (9, kind, 0x400));
    assert_eq!(attached.path.to_str(), Some("/var/x.tdb.0"));
}

#[test]
fn attaching_ends_with_the_deadline_while_the_cluster_recovers() {
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let daemon = Daemon::start(move |_stream| _ = ended.recv());
    let mut connection = daemon.connect();
    let begun = Attachment::begin(&mut connection, "x.tdb", DatabaseKind::Volatile, soon());
    let mut attachment = begun.expect("there is room");
    let event = next(&mut connection).expect("the connection stands");
    let Event::Answered(id, result) = event else { panic!("{event:?}") };
    let failed = attachment.advance(&mut connection, id, &result);
    assert_eq!(failed, Err(AttachError::Failed(Failure::Expired)));
    drop(end);
}

#[test]
fn an_observation_says_whether_a_daemon_is_absent_silent_or_ends() {
    let directory = tempfile::tempdir().expect("there is space");
    let absent = directory.path().join("absent");
    let seen = |path: &std::path::Path| Observation::take(path, Duration::from_millis(50));
    assert!(matches!(seen(&absent), Err(NoDaemon::Absent(_))));
    drop(UnixListener::bind(&absent).expect("it is new"));
    assert!(matches!(seen(&absent), Err(NoDaemon::Absent(_))), "a socket that nobody has");

    let (end, ended) = std::sync::mpsc::channel::<()>();
    let daemon = Daemon::start(move |_stream| _ = ended.recv());
    assert!(matches!(seen(&daemon.socket()), Err(NoDaemon::Silent)));
    drop(end);

    let daemon = Daemon::start(|mut stream| _ = read_control(&mut stream));
    let lost = Observation::take(&daemon.socket(), LONG);
    assert!(matches!(lost, Err(NoDaemon::Lost(Lost::Closed))), "{lost:?}");
}

#[test]
fn an_observation_has_the_answers_that_came_and_names_the_others() {
    let daemon = Daemon::start(|mut stream| {
        while let Ok((request, opcode, _)) = read_control(&mut stream) {
            if opcode == 35 {
                stream.write_all(&reply(request, 3, &[])).expect("the test reads");
            }
        }
    });
    let seen = Observation::take(&daemon.socket(), Duration::from_secs(2));
    let seen = seen.expect("it has told its number");
    assert_eq!(seen.state.own_number, Some(3));
    assert_eq!(seen.keepalive, None);
    assert!(seen.unanswered.contains(&"generation".to_owned()), "{:?}", seen.unanswered);
}
