use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::time::Instant;

use dtyp::ServerId;
use tempfile::TempDir;

use super::{Carrier as _, Datagrams, Dgram, LINES};
use crate::counters::Counters;
use crate::transport::packet::{ENTRY_BYTES, Entry, HEADER_BYTES, Header};
use crate::transport::reassembly::PARTIAL_TIMEOUT;
use crate::transport::socket::is_of_server;
use crate::transport::{Frame, InitError, Transport, members};

/// Transport of this process, which may send to itself.
struct Bench {
    dir: TempDir,
    me: ServerId,
    transport: Dgram,
    now: Instant,
}

impl Bench {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let me = ServerId { pid: std::process::id(), unique_id: 77 };
        let transport = Dgram::open(dir.path(), me, "dgram").expect("open");
        Self { dir, me, transport, now: Instant::now() }
    }

    fn socket_path(&self) -> PathBuf {
        self.dir.path().join("msg").join(members::name_of(self.me))
    }

    /// Sends a datagram from outside the transport.
    fn inject(&self, datagram: &[u8]) {
        let socket = UnixDatagram::unbound().expect("a socket");
        socket.send_to(datagram, self.socket_path()).expect("room");
    }

    fn header(&self) -> Header {
        Header { descriptors: 0, sender: self.me, receiver: self.me }
    }

    /// Polls twice: the first `None` may only mean that the socket was not read.
    fn receive(&mut self) -> Option<Frame> {
        let frame = self.transport.poll_receive(self.now);
        frame.or_else(|| self.transport.poll_receive(self.now))
    }

    /// Asserts that injected datagrams yield no frame and these counts.
    #[track_caller]
    fn check_dropped(&mut self, want: Counters) {
        let frame = self.receive();
        assert!(frame.is_none(), "{frame:?}");
        assert_eq!(self.transport.counters(), want);
    }
}

/// Builds a packet with a frame of five bytes, or its first part.
fn datagram(header: Header, fragment: &[u8]) -> Vec<u8> {
    let entry = Entry { total: 5, offset: 0, message_id: 1, sent_at: 0 };
    [&header.encode()[..], &entry.encode()[..], fragment].concat()
}

#[test]
fn an_injected_datagram_in_the_right_form_is_a_frame() {
    let mut bench = Bench::new();
    bench.inject(&datagram(bench.header(), b"hello"));
    assert_eq!(bench.receive().expect("a frame").bytes, b"hello");
}

/// The kernel names the sending process, whatever the datagram claims.
#[test]
fn a_forged_sender_is_dropped() {
    let mut bench = Bench::new();
    let sender = ServerId { pid: 1, unique_id: 5 };
    bench.inject(&datagram(Header { sender, ..bench.header() }, b"hello"));
    bench.check_dropped(Counters { forged: 1, ..Counters::default() });
}

#[test]
fn processes_of_root_and_of_our_own_user_alone_belong_to_the_server() {
    assert!(is_of_server(0, 1000));
    assert!(is_of_server(1000, 1000));
    assert!(!is_of_server(1001, 1000));
    assert!(!is_of_server(1000, 0));
}

/// Sends from a thread of this process under another user id; needs root.
#[test]
fn a_datagram_of_another_user_is_dropped() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    const NOBODY: libc::uid_t = 65_534;
    let mut bench = Bench::new();
    let socket = UnixDatagram::unbound().expect("a socket");
    socket.connect(bench.socket_path()).expect("there");
    let hello = datagram(bench.header(), b"hello");
    let send_as_nobody = move || {
        // SAFETY: the bare system call changes this thread alone, which then only sends and ends.
        let changed = unsafe { libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY) };
        assert_eq!(changed, 0);
        socket.send(&hello).expect("connected before");
    };
    std::thread::spawn(send_as_nobody).join().expect("sent");
    bench.check_dropped(Counters { forged: 1, ..Counters::default() });
}

#[test]
fn a_datagram_for_a_process_that_had_this_pid_is_dropped() {
    let mut bench = Bench::new();
    let receiver = ServerId { unique_id: 78, ..bench.me };
    bench.inject(&datagram(Header { receiver, ..bench.header() }, b"hello"));
    bench.check_dropped(Counters { misaddressed: 1, ..Counters::default() });
}

#[test]
fn datagrams_in_the_wrong_form_are_dropped() {
    let mut bench = Bench::new();
    let good = datagram(bench.header(), b"hello");
    for len in [0, 1, HEADER_BYTES - 1, HEADER_BYTES, HEADER_BYTES + ENTRY_BYTES - 1] {
        bench.inject(&good[..len]);
    }
    bench.check_dropped(Counters { malformed: 5, ..Counters::default() });

    let mut bench = Bench::new();
    bench.inject(&[&[9, 9], &good[2..]].concat());
    bench.check_dropped(Counters { version_unknown: 1, ..Counters::default() });

    // Longer than a packet: the kernel cuts it.
    let mut bench = Bench::new();
    bench.inject(&datagram(bench.header(), &vec![0; Datagrams::PACKET_BYTES_MAX]));
    bench.check_dropped(Counters { descriptors_lost: 1, ..Counters::default() });

    // Claims to come with a descriptor.
    let mut bench = Bench::new();
    bench.inject(&datagram(Header { descriptors: 1, ..bench.header() }, b"hello"));
    bench.check_dropped(Counters { descriptors_lost: 1, ..Counters::default() });
}

#[test]
fn a_fragment_that_never_completes_is_given_up() {
    let mut bench = Bench::new();
    bench.inject(&datagram(bench.header(), b"he"));
    bench.check_dropped(Counters::default());
    let deadline = bench.now + PARTIAL_TIMEOUT;
    assert_eq!(bench.transport.next_timeout(), Some(deadline));
    bench.now = deadline;
    bench.check_dropped(Counters { incomplete: 1, ..Counters::default() });
    assert_eq!(bench.transport.next_timeout(), None);
}

/// One poll ends, with a hundred times five malformed datagrams before a frame.
#[test]
fn rubbish_does_not_keep_frames_from_coming() {
    let mut bench = Bench::new();
    let good = datagram(bench.header(), b"hello");
    let mut frames = 0;
    for _ in 0..100 {
        for _ in 0..5 {
            bench.inject(b"rubbish");
        }
        bench.inject(&good);
        frames += u32::from(bench.receive().is_some());
    }
    assert_eq!(frames, 100);
    assert_eq!(bench.transport.counters().malformed, 500);
}

#[test]
fn a_connection_that_is_not_used_is_closed() {
    let mut bench = Bench::new();
    bench.transport.send(bench.now, bench.me, b"hello", &[]).expect("room");
    assert_eq!(bench.receive().expect("a frame").bytes, b"hello");
    assert_eq!(bench.transport.next_timeout(), Some(bench.now + LINES.idle));
    bench.transport.poll_send(bench.now + LINES.idle / 2);
    assert!(bench.transport.outgoing.line(bench.me).is_some());
    bench.transport.poll_send(bench.now + LINES.idle);
    assert!(bench.transport.outgoing.line(bench.me).is_none());
    assert_eq!(bench.transport.next_timeout(), None);
}

#[test]
fn the_socket_goes_with_the_transport_and_a_stale_one_is_replaced() {
    let bench = Bench::new();
    let path = bench.socket_path();
    assert!(path.exists());
    let Bench { dir, me, transport, now } = bench;
    drop(transport);
    assert!(!path.exists());

    drop(UnixDatagram::bind(&path).expect("the name is free"));
    assert!(path.exists(), "stale");
    let mut transport = Dgram::open(dir.path(), me, "dgram").expect("replaced");
    transport.send(now, me, b"hello", &[]).expect("room");
    assert_eq!(transport.poll_receive(now).expect("a frame").bytes, b"hello");
}

#[test]
fn a_folder_that_others_can_enter_is_refused() {
    let dir = tempfile::tempdir().expect("a folder");
    let msg = dir.path().join("msg");
    fs::create_dir(&msg).expect("made");
    fs::set_permissions(&msg, fs::Permissions::from_mode(0o755)).expect("ours");
    let me = ServerId { pid: std::process::id(), unique_id: 77 };
    match Dgram::open(dir.path(), me, "dgram") {
        Err(InitError::DirectoryNotOurs { mode, .. }) => assert_eq!(mode, 0o755),
        other => panic!("{other:?}"),
    }
    fs::set_permissions(&msg, fs::Permissions::from_mode(0o700)).expect("ours");
    Dgram::open(dir.path(), me, "dgram").expect("ours alone");
}

#[test]
fn a_long_path_is_no_obstacle() {
    let dir = tempfile::tempdir().expect("a folder");
    let long = dir.path().join("x".repeat(200));
    fs::create_dir(&long).expect("made");
    let me = ServerId { pid: std::process::id(), unique_id: 77 };
    let mut transport = Dgram::open(&long, me, "dgram").expect("open");
    let now = Instant::now();
    transport.send(now, me, b"hello", &[]).expect("room");
    assert_eq!(transport.poll_receive(now).expect("a frame").bytes, b"hello");
}
