//! What holds for every transport, between real processes.
//!
//! A test starts this test binary again as a peer, which is told over standard input what to do
//! and says over standard output what it is; `peer` plays it. A new transport is tested by its
//! entry in [`TransportKind::BUILT`].

#![expect(clippy::print_stdout, reason = "a peer talks to its test through standard output")]

use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use dtyp::ServerId;
use messaging::transport::{self, FRAME_BYTES_MAX, Frame};
use messaging::{SendError, Transport, TransportKind};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tempfile::TempDir;

const KIND: &str = "MESSAGING_TEST_KIND";
const LOCK_DIR: &str = "MESSAGING_TEST_LOCK_DIR";

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
    fn start(kind: TransportKind, lock_dir: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("this binary"))
            .args(["--exact", "peer", "--nocapture", "--test-threads=1"])
            .env(KIND, kind.name())
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
    let Ok(kind) = std::env::var(KIND) else {
        return each_transport(|kind| {
            let dir = tempfile::tempdir().expect("a folder");
            let mut peer = Peer::start(kind, dir.path());
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
    let kind = TransportKind::from_name(&kind).expect("built");
    let lock_dir = std::env::var(LOCK_DIR).expect("given with the kind");
    let unique_id = u64::from(std::process::id()) << 32 | 0xecc0;
    let id = ServerId { pid: std::process::id(), unique_id };
    let mut transport = transport::open(kind, Path::new(&lock_dir), id).expect("open");
    println!("id:{unique_id}");
    let mut told = [0];
    if std::io::stdin().read(&mut told).expect("readable") == 0 {
        return;
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

fn receive(transport: &mut dyn Transport) -> Option<Frame> {
    transport.poll_send(Instant::now());
    transport.poll_receive(Instant::now())
}

/// Waits for the wake source, or a moment where there is none.
fn wait(transport: &dyn Transport) {
    let timeout = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
    let source = transport.wake_source();
    let mut sources: Vec<PollFd<'_>> =
        source.iter().map(|source| PollFd::new(source, PollFlags::IN)).collect();
    poll(&mut sources, Some(&timeout)).expect("no signal");
}

/// The end of the test's own process.
struct Bench {
    dir: TempDir,
    kind: TransportKind,
    transport: Box<dyn Transport>,
}

impl Bench {
    fn new(kind: TransportKind) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let me = ServerId { pid: std::process::id(), unique_id: 42 };
        let transport = transport::open(kind, dir.path(), me).expect("open");
        Self { dir, kind, transport }
    }

    fn peer(&self) -> Peer {
        Peer::start(self.kind, self.dir.path())
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

fn each_transport(test: impl Fn(TransportKind)) {
    assert!(!TransportKind::BUILT.is_empty());
    TransportKind::BUILT.iter().for_each(|kind| test(*kind));
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
        let (mut accepted, mut slowest) = (0_u64, Duration::ZERO);
        let refused = loop {
            let start = Instant::now();
            let sent = bench.send(idle.id, &large);
            slowest = slowest.max(start.elapsed());
            match sent {
                Ok(()) => accepted += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(refused, SendError::Full);
        assert!(slowest < Duration::from_secs(1), "{slowest:?}");
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
        let mut next = std::collections::HashMap::new();
        for _ in 0..EACH * 8 {
            let echo = bench.receive();
            let number = u32::from_le_bytes(*echo.bytes.first_chunk().expect("a number"));
            let expected = next.entry(echo.sender).or_insert(0);
            assert_eq!(number, *expected);
            *expected += 1;
        }
        assert!(peers.iter().all(|peer| next[&peer.id] == EACH));
    });
}
