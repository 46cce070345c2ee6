//! What holds for every transport, between real processes.
//!
//! A test starts this test binary again as a peer, which is told over standard input what to do
//! and says over standard output what it is; `peer` plays it. A new transport is tested by its
//! entry in [`TransportKind::BUILT`], and some also by other settings than the usual: [`variants`].

#![expect(clippy::print_stdout, reason = "a peer talks to its test through standard output")]

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use dtyp::ServerId;
use messaging::transport::{self, FRAME_BYTES_MAX, Frame, Settings};
use messaging::{Content, MessageKind, Messaging, SendError, Transport, TransportKind};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tempfile::TempDir;

const VARIANT: &str = "MESSAGING_TEST_VARIANT";
const LOCK_DIR: &str = "MESSAGING_TEST_LOCK_DIR";

/// How long at most is waited before looking again.
const MOMENT: Duration = Duration::from_millis(100);

/// The unique id of the test's own process.
const TEST_UNIQUE_ID: u64 = 42;

/// Frames from each to each.
const MESH_EACH: u32 = 5;

/// Longer than anything here takes, so that a test that fails ends.
const PATIENCE: Duration = Duration::from_secs(60);

/// Another process with a transport. It does nothing until told to; it is killed when dropped.
struct Peer {
    child: Child,
    id: ServerId,
    stdin: ChildStdin,
    _stdout: BufReader<ChildStdout>,
}

impl Peer {
    fn start(variant: usize, lock_dir: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("this binary"))
            .args(["--exact", "peer", "--nocapture", "--test-threads=1"])
            .env(VARIANT, variant.to_string())
            .env(LOCK_DIR, lock_dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("started");
        let stdin = child.stdin.take().expect("piped");
        let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
        let mut line = String::new();
        let unique_id = loop {
            line.clear();
            assert_ne!(stdout.read_line(&mut line).expect("text"), 0, "it ended at once");
            if let Some((_, id)) = line.split_once("id:") {
                break id.trim().parse().expect("a number");
            }
        };
        let id = ServerId { pid: child.id(), unique_id };
        Self { child, id, stdin, _stdout: stdout }
    }

    /// Tells it to send back every frame, to whoever sent it.
    fn echo(&mut self) {
        self.stdin.write_all(b"e").expect("it runs");
    }

    /// Tells it to play its part in [`many_peers_send_to_one_and_to_all`].
    fn mesh(&mut self) {
        self.stdin.write_all(b"m").expect("it runs");
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).expect("it runs");
    }

    /// Stops it; returns when it does nothing more.
    fn stop(&self) {
        self.signal(rustix::process::Signal::STOP);
        let path = format!("/proc/{}/stat", self.child.id());
        let is_stopped = || {
            let status = std::fs::read_to_string(&path).expect("it lives");
            status.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('T'))
        };
        while !is_stopped() {
            std::thread::yield_now();
        }
    }

    fn kill(mut self) -> ServerId {
        self.child.kill().expect("it runs");
        self.child.wait().expect("ours");
        self.id
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Plays a peer where the environment says so; else checks that a peer that is told nothing
/// leaves when its test does.
#[test]
fn peer() {
    let Ok(variant) = std::env::var(VARIANT) else {
        return each_transport(|variant| {
            let dir = tempfile::tempdir().expect("a folder");
            let mut peer = Peer::start(variant, dir.path());
            let (_, closed) = std::io::pipe().expect("a pipe");
            drop(std::mem::replace(
                &mut peer.stdin,
                ChildStdin::from(std::os::fd::OwnedFd::from(closed)),
            ));
            assert!(peer.child.wait().expect("ours").success());
        });
    };
    // A test that is killed leaves no peers behind.
    let kill = Some(rustix::process::Signal::KILL);
    rustix::process::set_parent_process_death_signal(kill).expect("a signal");
    let variant: usize = variant.parse().expect("a number");
    let settings = variants()[variant];
    let lock_dir = std::env::var(LOCK_DIR).expect("given with the kind");
    let unique_id = u64::from(std::process::id()) << 32 | 0xecc0;
    let id = ServerId { pid: std::process::id(), unique_id };
    let mut transport = transport::open(settings, Path::new(&lock_dir), id).expect("open");
    println!("id:{unique_id}");
    let mut told = [0];
    if std::io::stdin().read(&mut told).expect("readable") == 0 {
        return;
    }
    if told == *b"m" {
        return play_mesh(&mut *transport, id);
    }
    loop {
        while let Some(frame) = receive(&mut *transport) {
            let Frame { sender, bytes, descriptors } = frame;
            let descriptors: Vec<BorrowedFd<'_>> = descriptors.iter().map(AsFd::as_fd).collect();
            while let Err(error) = transport.send(Instant::now(), sender, &bytes, &descriptors) {
                assert_eq!(error, SendError::Full);
                wait(&*transport);
                transport.poll_send(Instant::now());
            }
        }
        wait(&*transport);
    }
}

/// Sends some frames to everyone, as fast as there is room, and takes those of all others; says to
/// the test that all have come. The test is the only member that does not send.
fn play_mesh(transport: &mut dyn Transport, me: ServerId) {
    let members = transport.members().expect("readable");
    let is_peer = |id: &ServerId| id.unique_id != TEST_UNIQUE_ID && *id != me;
    let mut to_send: Vec<(ServerId, u32)> = (0..MESH_EACH)
        .flat_map(|number| members.iter().map(move |to| (*to, number)))
        .filter(|(to, _)| *to != me)
        .rev()
        .collect();
    let mut next: HashMap<ServerId, u32> =
        members.iter().filter(|id| is_peer(id)).map(|id| (*id, 0)).collect();
    let test = *members.iter().find(|id| id.unique_id == TEST_UNIQUE_ID).expect("it is there");
    let mut has_said = false;
    loop {
        while let Some((to, number)) = to_send.last() {
            match transport.send(Instant::now(), *to, &number.to_le_bytes(), &[]) {
                Ok(()) => to_send.pop(),
                Err(SendError::Full) => break,
                // Who has all may have left.
                Err(SendError::NoSuchProcess) => to_send.pop(),
                Err(error) => panic!("{error}"),
            };
        }
        while let Some(frame) = receive(transport) {
            let expected = next.get_mut(&frame.sender).expect("a member");
            assert_eq!(frame.bytes, expected.to_le_bytes(), "from {}", frame.sender);
            *expected += 1;
        }
        let is_done = to_send.is_empty() && next.values().all(|next| *next == MESH_EACH);
        if is_done && !has_said {
            has_said = transport.send(Instant::now(), test, b"done", &[]).is_ok();
        }
        wait(transport);
    }
}

fn receive(transport: &mut dyn Transport) -> Option<Frame> {
    if !transport.has_ready() {
        transport.poll_send(Instant::now());
    }
    transport.poll_receive(Instant::now())
}

/// Waits until there may be something to do, for a tenth of a second at most: several transports of
/// this process are open at once.
fn wait(transport: &dyn Transport) {
    let until = transport.next_timeout().map(|at| at.saturating_duration_since(Instant::now()));
    let until = until.map_or(MOMENT, |until| until.min(MOMENT));
    wait_for(transport, until);
}

/// Waits for the wake source.
fn wait_for(transport: &dyn Transport, until: Duration) {
    let timeout = Timespec { tv_sec: 0, tv_nsec: until.subsec_nanos().into() };
    let source = transport.wake_source();
    let mut sources: Vec<PollFd<'_>> =
        source.iter().map(|source| PollFd::new(source, PollFlags::IN)).collect();
    match poll(&mut sources, Some(&timeout)) {
        // A child was stopped, or goes on.
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => panic!("{error}"),
    }
}

/// The end of the test's own process.
struct Bench {
    dir: TempDir,
    variant: usize,
    transport: Box<dyn Transport>,
}

impl Bench {
    fn new(variant: usize) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let settings = variants()[variant];
        let transport = transport::open(settings, dir.path(), test_id()).expect("open");
        Self { dir, variant, transport }
    }

    fn peer(&self) -> Peer {
        Peer::start(self.variant, self.dir.path())
    }

    fn echo(&self) -> Peer {
        let mut peer = self.peer();
        peer.echo();
        peer
    }

    fn send(&mut self, to: ServerId, frame: &[u8]) -> Result<(), SendError> {
        self.transport.send(Instant::now(), to, frame, &[])
    }

    /// The next frame; waits for it.
    #[track_caller]
    fn receive(&mut self) -> Frame {
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            if let Some(frame) = receive(&mut *self.transport) {
                return frame;
            }
            wait(&*self.transport);
        }
        panic!("nothing came; {:?}", self.transport.counters());
    }

    /// Sends a frame and expects it back.
    #[track_caller]
    fn check_echo(&mut self, peer: &Peer, frame: &[u8]) {
        assert_eq!(self.send(peer.id, frame), Ok(()));
        let echo = self.receive();
        assert_eq!(echo.sender, peer.id);
        assert!(echo.bytes == frame, "{} bytes came back of {}", echo.bytes.len(), frame.len());
    }
}

/// The test's own process.
fn test_id() -> ServerId {
    ServerId { pid: std::process::id(), unique_id: TEST_UNIQUE_ID }
}

/// All that were built in, as they are usually; a stream that ends its connections all the time; and
/// a file that is not mapped.
fn variants() -> Vec<Settings> {
    let mut variants: Vec<Settings> =
        TransportKind::BUILT.iter().copied().map(Settings::from).collect();
    for kind in TransportKind::BUILT {
        let usual = Settings::new(*kind);
        match kind {
            TransportKind::Stream => variants.push(Settings {
                stream_connections: 1,
                stream_idle: Duration::from_millis(1),
                ..usual
            }),
            TransportKind::Tdb => variants.push(Settings { use_mmap: false, ..usual }),
            TransportKind::Dgram => {}
        }
    }
    variants
}

/// Runs a test for each of [`variants`], at once: most of a test is waiting.
fn each_transport(test: impl Fn(usize) + Sync) {
    let variants = variants();
    assert!(!variants.is_empty());
    std::thread::scope(|scope| {
        for (variant, settings) in variants.iter().enumerate() {
            let test = &test;
            let run = move || test(variant);
            std::thread::Builder::new()
                .name(format!("{settings:?}"))
                .spawn_scoped(scope, run)
                .expect("a thread");
        }
    });
}

/// Bytes that differ along the frame and from frame to frame.
fn frame(len: usize, seed: u8) -> Vec<u8> {
    let byte = |at: usize| (at / 251).to_le_bytes()[0] ^ at.to_le_bytes()[0] ^ seed;
    (0..len).map(byte).collect()
}

/// Each frame comes once, in order, though most had to wait for room and they differ in size.
#[test]
fn frames_of_a_pair_arrive_in_order_and_once() {
    each_transport(|kind| {
        let mut bench = Bench::new(kind);
        let peer = bench.echo();
        let numbered = |number: u32| {
            let len = if number.is_multiple_of(100) { 100_000 } else { 11 };
            [&number.to_le_bytes()[..], &frame(len, number.to_le_bytes()[0])].concat()
        };
        let (mut sent, mut received) = (0, 0);
        while received < 20_000 {
            while sent < 20_000 && sent < received + 500 {
                let full = bench.send(peer.id, &numbered(sent)) == Err(SendError::Full);
                if full {
                    break;
                }
                sent += 1;
            }
            let echo = bench.receive();
            assert!(echo.bytes == numbered(received), "frame {received}");
            received += 1;
        }
        let counters = bench.transport.counters();
        assert_eq!((counters.sent, counters.received), (20_000, 20_000));
        assert_eq!((counters.queued, counters.queued_bytes, counters.incomplete), (0, 0, 0));
    });
}

/// Of every size, above all those around what a transport may have to cut.
#[test]
fn frames_of_every_size_arrive_whole() {
    each_transport(|kind| {
        let mut bench = Bench::new(kind);
        let peer = bench.echo();
        let around = |size: usize| [size - 1, size, size + 1];
        let sizes = [4 << 10, 32 << 10, 64 << 10, 128 << 10, 1 << 20].into_iter().flat_map(around);
        for (seed, size) in [0, 1, 2].into_iter().chain(sizes).enumerate() {
            bench.check_echo(&peer, &frame(size, seed.to_le_bytes()[0]));
        }
        bench.check_echo(&peer, &frame(FRAME_BYTES_MAX, 99));
    });
}

#[test]
fn a_frame_that_is_too_large_is_refused() {
    each_transport(|kind| {
        let mut bench = Bench::new(kind);
        let peer = bench.echo();
        let len = FRAME_BYTES_MAX + 1;
        let refused = SendError::TooLarge { len, max: FRAME_BYTES_MAX };
        assert_eq!(bench.send(peer.id, &vec![0; len]), Err(refused));
        bench.check_echo(&peer, b"the next one is not harmed");
    });
}

/// Frames to a peer that takes nothing wait up to a limit, then stay with the caller; no call
/// blocks, other peers notice nothing, and what was accepted arrives when the peer goes on.
#[test]
fn a_full_peer_blocks_nobody_and_loses_nothing() {
    each_transport(|kind| {
        let mut bench = Bench::new(kind);
        let (mut idle, busy) = (bench.peer(), bench.echo());
        let large = frame(100_000, 7);
        let mut accepted = 0_u64;
        // A call that waited for this peer would never return.
        let refused = loop {
            match bench.send(idle.id, &large) {
                Ok(()) => accepted += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(refused, SendError::Full);
        assert_eq!(bench.transport.counters().refused, 1);
        assert!(bench.transport.counters().queued_bytes <= 2 * FRAME_BYTES_MAX as u64);
        for seed in 0..100 {
            bench.check_echo(&busy, &frame(1_000, seed));
        }
        idle.echo();
        for number in 0..accepted {
            let echo = bench.receive();
            assert!(echo.sender == idle.id && echo.bytes == large, "frame {number}");
        }
        assert_eq!(bench.transport.counters().queued, 0);
        bench.check_echo(&idle, b"and it goes on");
    });
}

/// What has waited too long is dropped and counted. What comes after arrives, and a frame of which
/// a part had left comes not at all.
#[test]
fn frames_to_a_stopped_peer_are_dropped_after_their_time() {
    each_transport(|kind| {
        let mut bench = Bench::new(kind);
        let mut idle = bench.peer();
        let large = frame(300_000, 7);
        for _ in 0..20 {
            assert_eq!(bench.send(idle.id, &large), Ok(()));
        }
        let waiting = bench.transport.counters().queued;
        assert!(waiting >= 10, "{waiting}");
        let deadline = bench.transport.next_timeout().expect("something waits");
        assert!(deadline <= Instant::now() + Duration::from_secs(60));
        bench.transport.poll_send(Instant::now() + Duration::from_secs(61));
        let counters = bench.transport.counters();
        assert_eq!((counters.dropped, counters.queued, counters.queued_bytes), (waiting, 0, 0));

        idle.echo();
        // Refused at first: its queue is still full of what had left.
        assert_eq!(bench.send(idle.id, b"after"), Ok(()));
        let mut before = 0;
        while bench.receive().bytes != b"after" {
            before += 1;
        }
        assert_eq!(before, 20 - waiting);
    });
}

#[test]
fn a_peer_that_dies_is_noticed_and_its_successor_is_another() {
    each_transport(|kind| {
        let mut bench = Bench::new(kind);
        let peer = bench.echo();
        bench.check_echo(&peer, b"hello");
        let dead = peer.kill();
        // Later than it would be held back for others to leave with it.
        let later = Instant::now() + Duration::from_millis(10);
        let sent = bench.transport.send(later, dead, b"anyone?", &[]);
        assert_eq!(sent, Err(SendError::NoSuchProcess));
        let successor = bench.echo();
        bench.check_echo(&successor, b"hello again");
        assert_eq!(bench.send(dead, b"anyone?"), Err(SendError::NoSuchProcess));
    });
}

#[test]
fn what_waits_for_a_peer_that_dies_is_lost_and_counted() {
    each_transport(|kind| {
        let mut bench = Bench::new(kind);
        let peer = bench.peer();
        while bench.transport.counters().queued < 5 {
            assert_eq!(bench.send(peer.id, &frame(100_000, 1)), Ok(()));
        }
        let dead = peer.kill();
        // The wake source says so; nobody has to send again.
        let start = Instant::now();
        while bench.transport.counters().lost < 5 && start.elapsed() < PATIENCE {
            wait(&*bench.transport);
            bench.transport.poll_send(Instant::now());
        }
        let counters = bench.transport.counters();
        assert_eq!((counters.lost, counters.queued, counters.queued_bytes), (5, 0, 0));
        assert_eq!(bench.send(dead, b"anyone?"), Err(SendError::NoSuchProcess));
    });
}

/// The pid is right and the process lives, but it is not the one that is meant.
#[test]
fn a_frame_for_an_earlier_process_with_this_pid_is_not_delivered() {
    each_transport(|kind| {
        let mut bench = Bench::new(kind);
        let peer = bench.echo();
        let earlier = ServerId { unique_id: peer.id.unique_id ^ 1, ..peer.id };
        // Whether the sender can know it depends on the transport.
        let sent = bench.send(earlier, b"for the dead");
        assert!(matches!(sent, Ok(()) | Err(SendError::NoSuchProcess)), "{sent:?}");
        bench.check_echo(&peer, b"for the living");
    });
}

/// They are the same open files, not numbers.
#[test]
fn descriptors_arrive_with_their_frame() {
    each_transport(|kind| {
        let mut bench = Bench::new(kind);
        let max = bench.transport.descriptors_max();
        let peer = bench.echo();
        for (count, len) in [(1, 5), (max, 5), (2, 200_000)] {
            let (mut reader, writer) = std::io::pipe().expect("a pipe");
            let descriptors = vec![writer.as_fd(); count.min(max)];
            let sent = frame(len, 3);
            bench.transport.send(Instant::now(), peer.id, &sent, &descriptors).expect("room");
            drop(writer);
            let echo = bench.receive();
            assert!(echo.bytes == sent);
            assert_eq!(echo.descriptors.len(), count.min(max));
            for descriptor in echo.descriptors {
                let written = rustix::io::write(&descriptor, b"x").expect("the pipe");
                assert_eq!(written, 1);
            }
            let mut text = String::new();
            reader.read_to_string(&mut text).expect("all writers are closed");
            assert_eq!(text.len(), count.min(max));
        }
        let (_reader, writer) = std::io::pipe().expect("a pipe");
        let descriptors = vec![writer.as_fd(); max + 1];
        let sent = bench.transport.send(Instant::now(), peer.id, b"hello", &descriptors);
        let refused = match max {
            0 => SendError::NoDescriptors,
            _ => SendError::TooManyDescriptors { count: max + 1, max },
        };
        assert_eq!(sent, Err(refused));
    });
}

/// A frame that waits keeps its descriptors, though the caller has closed its own.
#[test]
fn descriptors_of_a_frame_that_waits_arrive_too() {
    each_transport(|kind| {
        let mut bench = Bench::new(kind);
        let mut idle = bench.peer();
        let mut before = 0;
        while bench.transport.counters().queued < 1 {
            assert_eq!(bench.send(idle.id, b"filler"), Ok(()));
            before += 1;
        }
        let (mut reader, writer) = std::io::pipe().expect("a pipe");
        let descriptors = vec![writer.as_fd(); bench.transport.descriptors_max().min(3)];
        bench.transport.send(Instant::now(), idle.id, b"with", &descriptors).expect("room");
        let want = descriptors.len();
        drop(descriptors);
        drop(writer);
        idle.echo();
        for _ in 0..before {
            assert_eq!(bench.receive().bytes, b"filler");
        }
        let echo = bench.receive();
        assert_eq!((&*echo.bytes, echo.descriptors.len()), (&b"with"[..], want));
        drop(echo);
        let mut text = String::new();
        reader.read_to_string(&mut text).expect("all writers are closed, also the peer's");
    });
}

/// Many senders to one; each pair keeps its order.
#[test]
fn many_peers_send_to_one_at_once() {
    each_transport(|kind| {
        let mut bench = Bench::new(kind);
        let peers: Vec<Peer> = (0..8).map(|_| bench.echo()).collect();
        const EACH: u32 = 500;
        for number in 0..EACH {
            for peer in &peers {
                let large = if number.is_multiple_of(50) { 70_000 } else { 4 };
                let bytes = [&number.to_le_bytes()[..], &frame(large, 1)].concat();
                while let Err(error) = bench.send(peer.id, &bytes) {
                    assert_eq!(error, SendError::Full);
                    wait(&*bench.transport);
                    bench.transport.poll_send(Instant::now());
                }
            }
        }
        let mut next = HashMap::new();
        for _ in 0..EACH * 8 {
            let echo = bench.receive();
            let number = u32::from_le_bytes(*echo.bytes.first_chunk().expect("a number"));
            let expected = next.entry(echo.sender).or_insert(0);
            assert_eq!(number, *expected, "{:?}", bench.transport.counters());
            *expected += 1;
        }
        assert!(peers.iter().all(|peer| next[&peer.id] == EACH));
    });
}

/// 64 processes, each of which sends to all others; the test only receives.
#[test]
fn many_peers_send_to_one_and_to_all() {
    const PEERS: usize = 64;
    each_transport(|kind| {
        let mut bench = Bench::new(kind);
        let mut peers: Vec<Peer> = (0..PEERS).map(|_| bench.peer()).collect();
        assert_eq!(bench.transport.members().expect("readable").len(), PEERS + 1);
        peers.iter_mut().for_each(Peer::mesh);
        let mut next: HashMap<ServerId, u32> = peers.iter().map(|peer| (peer.id, 0)).collect();
        let mut done = 0;
        while done < PEERS {
            let frame = bench.receive();
            if frame.bytes == b"done" {
                done += 1;
                continue;
            }
            let expected = next.get_mut(&frame.sender).expect("a peer");
            assert_eq!(frame.bytes, expected.to_le_bytes(), "from {}", frame.sender);
            *expected += 1;
        }
        assert!(next.values().all(|next| *next == MESH_EACH));
    });
}

#[test]
fn a_thousand_descriptors_arrive() {
    each_transport(|kind| {
        let mut bench = Bench::new(kind);
        if bench.transport.descriptors_max() == 0 {
            return;
        }
        let peer = bench.echo();
        let (mut reader, writer) = std::io::pipe().expect("a pipe");
        let descriptors = vec![writer.as_fd(); 100];
        for _ in 0..10 {
            bench.transport.send(Instant::now(), peer.id, b"with", &descriptors).expect("room");
            let echo = bench.receive();
            assert_eq!(echo.descriptors.len(), 100);
            for descriptor in echo.descriptors {
                assert_eq!(rustix::io::write(&descriptor, b"x").expect("the pipe"), 1);
            }
        }
        drop(descriptors);
        drop(writer);
        let mut text = String::new();
        reader.read_to_string(&mut text).expect("all writers are closed, also the peer's");
        assert_eq!(text.len(), 1_000);
    });
}

/// Where the transport carries none, they go by its side, and come before what was sent after them.
#[test]
fn messages_carry_descriptors_over_every_transport() {
    each_transport(|kind| {
        let dir = tempfile::tempdir().expect("a folder");
        let mut messaging = Messaging::init(dir.path(), test_id(), variants()[kind]).expect("open");
        let (me, now) = (messaging.server_id(), Instant::now());
        let (mut reader, writer) = std::io::pipe().expect("a pipe");
        let descriptors = [writer.as_fd()];
        let with = Content { kind: MessageKind::PING, data: b"with", descriptors: &descriptors };
        messaging.send(now, me, &with).expect("room");
        messaging.send(now, me, &Content::new(MessageKind::PONG, b"after")).expect("room");
        drop(writer);
        let mut messages = Vec::new();
        while messages.len() < 2 && now.elapsed() < PATIENCE {
            messages.extend(messaging.poll(Instant::now()));
        }
        assert_eq!((&*messages[0].data, &*messages[1].data), (&b"with"[..], &b"after"[..]));
        let descriptors = std::mem::take(&mut messages[0].descriptors);
        rustix::io::write(&descriptors[0], b"x").expect("the pipe");
        drop(descriptors);
        let mut text = String::new();
        reader.read_to_string(&mut text).expect("all writers are closed");
        assert_eq!(text, "x");
    });
}

/// With pauses of every length around that after which a connection is given up.
#[test]
fn frames_of_a_pair_keep_their_order_over_pauses() {
    each_transport(|kind| {
        let mut bench = Bench::new(kind);
        let peer = bench.echo();
        let (mut sent, mut received) = (0_u32, 0_u32);
        for round in 0..400_u32 {
            for _ in 0..round % 7 + 1 {
                while bench.send(peer.id, &sent.to_le_bytes()) == Err(SendError::Full) {
                    wait(&*bench.transport);
                    bench.transport.poll_send(Instant::now());
                }
                sent += 1;
            }
            let leave = if round.is_multiple_of(3) { sent } else { sent.saturating_sub(5) };
            while received < leave {
                assert_eq!(bench.receive().bytes, received.to_le_bytes());
                received += 1;
            }
            let pause = Duration::from_micros(u64::from(round * 37 % 2_500));
            bench.transport.poll_send(Instant::now());
            wait_for(&*bench.transport, pause);
        }
        while received < sent {
            assert_eq!(bench.receive().bytes, received.to_le_bytes());
            received += 1;
        }
        let counters = bench.transport.counters();
        assert_eq!((counters.lost, counters.dropped, counters.malformed), (0, 0, 0));
    });
}

/// Under full load: what waits for it is bounded, others are served, and when it goes on it gets
/// all that was accepted.
#[test]
fn a_stopped_peer_harms_nobody() {
    each_transport(|kind| {
        let mut bench = Bench::new(kind);
        let (stopped, busy) = (bench.echo(), bench.echo());
        bench.check_echo(&stopped, b"it runs");
        stopped.stop();
        let load = frame(1_000, 1);
        let (mut accepted, mut refused, mut echoes) = (0_u64, 0, 0);
        while refused < 1_000 {
            match bench.send(stopped.id, &load) {
                Ok(()) => accepted += 1,
                Err(SendError::Full) => refused += 1,
                Err(error) => panic!("{error}"),
            }
            if (accepted + refused) % 50 == 0 {
                bench.check_echo(&busy, b"to another");
                echoes += 1;
            }
            assert!(bench.transport.counters().queued_bytes <= 2 * FRAME_BYTES_MAX as u64);
        }
        assert!(echoes > 0 && bench.transport.counters().refused == refused);
        stopped.signal(rustix::process::Signal::CONT);
        for number in 0..accepted {
            let echo = bench.receive();
            assert!(echo.sender == stopped.id && echo.bytes == load, "frame {number}");
        }
        let counters = bench.transport.counters();
        assert_eq!((counters.queued, counters.lost, counters.dropped), (0, 0, 0));
        assert_eq!(counters.latency.count(), counters.received);
    });
}

#[test]
fn a_broadcast_reaches_each_that_lives_once_and_the_dead_are_buried() {
    each_transport(|kind| {
        let dir = tempfile::tempdir().expect("a folder");
        let mut messaging = Messaging::init(dir.path(), test_id(), variants()[kind]).expect("open");
        let mut peers: Vec<Peer> = (0..5).map(|_| Peer::start(kind, dir.path())).collect();
        peers.iter_mut().for_each(Peer::echo);
        let dead = peers.pop().expect("five").kill();
        let mut ids: Vec<ServerId> = peers.iter().map(|peer| peer.id).collect();
        ids.sort();
        let content = Content::new(MessageKind::PING, b"to all");
        let sent = messaging.broadcast(Instant::now(), &content).expect("readable");
        assert_eq!((&sent.receivers, sent.failed.len()), (&ids, 0));
        // To each a second message, so that a first that came twice would be seen.
        let content = Content::new(MessageKind::PONG, b"after");
        assert_eq!(messaging.send_all(Instant::now(), &ids, &content), []);
        let mut echoes: HashMap<ServerId, Vec<MessageKind>> = HashMap::new();
        let start = Instant::now();
        while echoes.values().map(Vec::len).sum::<usize>() < 8 && start.elapsed() < PATIENCE {
            match messaging.poll(Instant::now()) {
                Some(message) => echoes.entry(message.sender).or_default().push(message.kind),
                None => std::thread::yield_now(),
            }
        }
        assert_eq!(echoes.len(), 4);
        assert!(echoes.values().all(|kinds| *kinds == [MessageKind::PING, MessageKind::PONG]));
        let files = || std::fs::read_dir(dir.path().join("msg")).expect("there").count();
        let before = files();
        messaging.bury(dead);
        assert_eq!(files(), before - 1);
        // Nobody is taken for dead who is not.
        messaging.bury(ids[0]);
        assert_eq!(messaging.members().expect("readable").len(), 5);
        assert_eq!(files(), before - 1);
    });
}

/// A file of that name that is no socket, or the socket of a process that has ended.
#[test]
fn a_name_without_a_process_is_no_process() {
    each_transport(|kind| {
        let mut bench = Bench::new(kind);
        let msg = bench.dir.path().join("msg");
        let name = |pid: u32| format!("{pid}-{:016x}", 1);
        drop(std::os::unix::net::UnixDatagram::bind(msg.join(name(999_999))).expect("free"));
        drop(std::os::unix::net::UnixListener::bind(msg.join(name(999_998))).expect("free"));
        std::fs::write(msg.join(name(999_997)), b"").expect("written");
        for pid in [999_999, 999_998, 999_997, 999_996] {
            let gone = ServerId { pid, unique_id: 1 };
            assert_eq!(bench.send(gone, b"anyone?"), Err(SendError::NoSuchProcess));
        }
    });
}

/// A queue of signals at its limit is no reason to lose a message.
#[test]
fn a_receiver_without_room_for_a_signal_loses_nothing() {
    each_transport(|kind| {
        let mut bench = Bench::new(kind);
        let peer = bench.echo();
        bench.check_echo(&peer, b"hello");
        let pid = Some(rustix::process::Pid::from_child(&peer.child));
        let resource = rustix::process::Resource::Sigpending;
        let usual = rustix::process::getrlimit(resource);
        let none = rustix::process::Rlimit { current: Some(0), ..usual };
        rustix::process::prlimit(pid, resource, none).expect("ours");
        for number in 0..10_u8 {
            assert_eq!(bench.send(peer.id, &[number]), Ok(()));
        }
        bench.transport.poll_send(Instant::now());
        rustix::process::prlimit(pid, resource, usual).expect("ours");
        for number in 0..10_u8 {
            assert_eq!(bench.receive().bytes, [number]);
        }
    });
}
