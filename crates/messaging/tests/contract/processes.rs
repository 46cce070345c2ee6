//! Real processes.
//!
//! A test starts this test binary again as a peer, which is told over standard input what to do and
//! says over standard output what it is; [`peer`] plays it.

use std::collections::HashMap;
use std::fs::{self, DirEntry};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use dtyp::ServerId;
use messaging::transport::{self, Settings};
use messaging::{Messaging, Transport};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal};
use tempfile::TempDir;

use crate::part::Role;
use crate::stage::{Stage, test_id};
use crate::{each_built, settings};

const SETTINGS: &str = "MESSAGING_TEST_SETTINGS";
const LOCK_DIR: &str = "MESSAGING_TEST_LOCK_DIR";

/// Longest pause before another look: several transports of this process are open at once.
const MOMENT: Duration = Duration::from_millis(100);

/// Processes that meet in a lock directory.
pub(crate) struct Processes {
    /// Index of the settings in [`settings()`].
    settings: usize,
    peers: HashMap<ServerId, Peer>,
    lock_dir: PathBuf,
    _dir: TempDir,
}

/// Another process with a transport. It is killed when dropped.
struct Peer {
    child: Child,
    stdin: ChildStdin,
    _stdout: BufReader<ChildStdout>,
}

impl Processes {
    pub(crate) fn new(settings: usize) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let lock_dir = dir.path().to_owned();
        Self { settings, lock_dir, peers: HashMap::new(), _dir: dir }
    }

    /// Starts a peer that may fail to open its transport; the error is its message.
    pub(crate) fn try_start(&mut self) -> Result<ServerId, String> {
        let (id, peer) = Peer::start(self.settings, &self.lock_dir)?;
        self.peers.insert(id, peer);
        Ok(id)
    }

    fn settings(&self) -> Settings {
        settings()[self.settings]
    }
}

impl Stage for Processes {
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn open(&self) -> Box<dyn Transport> {
        transport::open(self.settings(), &self.lock_dir, test_id()).expect("open")
    }

    fn messaging(&self) -> Messaging {
        Messaging::init(&self.lock_dir, test_id(), self.settings()).expect("open")
    }

    fn start(&mut self) -> ServerId {
        self.try_start().expect("it finds a way in")
    }

    fn start_role(&mut self, peer: ServerId, role: Role) {
        let peer = self.peers.get_mut(&peer).expect("one of ours");
        peer.stdin.write_all(&[role.byte()]).expect("it runs");
    }

    fn stop(&mut self, peer: ServerId) {
        self.peers[&peer].signal(Signal::STOP);
        // The peer works in a thread of the test harness, which may run on for a moment after the
        // first thread has stopped.
        let threads = format!("/proc/{}/task", peer.pid);
        let is_stopped = |thread: io::Result<DirEntry>| {
            let status = thread.and_then(|it| fs::read_to_string(it.path().join("stat")));
            let status = status.unwrap_or_default();
            status.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('T'))
        };
        while !fs::read_dir(&threads).expect("it lives").all(is_stopped) {
            std::thread::yield_now();
        }
    }

    fn resume(&mut self, peer: ServerId) {
        self.peers[&peer].signal(Signal::CONT);
    }

    fn kill(&mut self, peer: ServerId) {
        drop(self.peers.remove(&peer).expect("one of ours"));
    }

    fn wait(&mut self, wake: Option<BorrowedFd<'_>>, until: Instant) {
        wait(wake, until);
    }

    fn lock_dir(&self) -> Option<&Path> {
        Some(&self.lock_dir)
    }
}

impl Peer {
    fn start(settings: usize, lock_dir: &Path) -> Result<(ServerId, Self), String> {
        let mut child = Command::new(std::env::current_exe().expect("this binary"))
            .args(["--exact", "processes::peer", "--nocapture", "--test-threads=1"])
            .env(SETTINGS, settings.to_string())
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
            if let Some((_, reason)) = line.split_once("no way in:") {
                child.wait().expect("ours");
                return Err(reason.trim().to_owned());
            }
        };
        let id = ServerId { pid: child.id(), unique_id };
        Ok((id, Self { child, stdin, _stdout: stdout }))
    }

    fn signal(&self, signal: Signal) {
        rustix::process::kill_process(Pid::from_child(&self.child), signal).expect("it runs");
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
    let Ok(place) = std::env::var(SETTINGS) else {
        return each_built(|place| {
            let dir = tempfile::tempdir().expect("a folder");
            let (_, mut peer) = Peer::start(place, dir.path()).expect("it finds a way in");
            let (_, closed) = io::pipe().expect("a pipe");
            drop(std::mem::replace(
                &mut peer.stdin,
                ChildStdin::from(std::os::fd::OwnedFd::from(closed)),
            ));
            assert!(peer.child.wait().expect("ours").success());
        });
    };
    // A test that is killed leaves no peers behind.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).expect("a signal");
    let place: usize = place.parse().expect("a number");
    let lock_dir = std::env::var(LOCK_DIR).expect("given with the settings");
    let unique_id = u64::from(std::process::id()) << 32 | 0xecc0;
    let id = ServerId { pid: std::process::id(), unique_id };
    let mut transport = match transport::open(settings()[place], Path::new(&lock_dir), id) {
        Ok(transport) => transport,
        Err(error) => return println!("no way in:{error}"),
    };
    println!("id:{unique_id}");
    let mut order = [0];
    if io::stdin().read(&mut order).expect("readable") == 0 {
        return;
    }
    let role = Role::ALL.into_iter().find(|role| role.byte() == order[0]).expect("a role");
    let mut part = role.begin(&mut *transport, id);
    loop {
        while part.turn(Instant::now(), &mut *transport) {}
        let until = transport.next_timeout().unwrap_or_else(|| Instant::now() + MOMENT);
        wait(transport.wake_source(), until);
    }
}

/// Waits for the wake source.
fn wait(wake: Option<BorrowedFd<'_>>, until: Instant) {
    let timeout = until.saturating_duration_since(Instant::now()).min(MOMENT);
    let timeout = Timespec { tv_sec: 0, tv_nsec: timeout.subsec_nanos().into() };
    let mut sources: Vec<PollFd<'_>> =
        wake.iter().map(|source| PollFd::new(source, PollFlags::IN)).collect();
    match poll(&mut sources, Some(&timeout)) {
        // A child was stopped, or goes on.
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => panic!("{error}"),
    }
}
