//! Clients of two shares, and what makes them slow: one does not read its answers, the storage of
//! one is slow, and one has reached a limit.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use bench::client::requests::{Purpose, open, push_read};
use bench::client::{Client, Protection, Reply, Slot};
use rustix::process::Signal;
use wire::FileId;

use super::choro::signal_process;
use super::{Setup, TestServer, give_to_server};

pub const BLOCK: usize = 64 * 1024;
pub const LARGE: usize = 1024 * 1024;

/// A server with the shares `data` and `slow`. The class `gold` limits the second.
pub fn start() -> TestServer {
    start_with(["data", "slow"])
}

/// The same with other names of the shares.
pub fn start_with(shares: [&str; 2]) -> TestServer {
    let setup = shares.into_iter().fold(Setup::new(), |setup, share| setup.share(share, ""));
    let class = format!("[qos:gold]\nmatch = share {}\nmax bandwidth = 1M\n", shares[1]);
    let server = setup.global(&format!("{class}[global]\n")).start();
    for share in shares {
        let path = server.share_path(share).join("file");
        fs::write(&path, vec![b'x'; 24 * LARGE]).expect("the share is there");
        give_to_server(&path);
    }
    server
}

pub fn connect(server: &TestServer, share: &str) -> (Client, FileId) {
    let mut client = server.connect(share, Protection::Plain);
    let file_id = open(&mut client, Purpose::Open, "file").expect("it is there");
    (client, file_id)
}

pub fn name_of(client: &Client) -> String {
    format!("127.0.0.1:{}", client.local_port().expect("it is connected"))
}

/// Asks for so many blocks, and reads no answers.
pub fn ask(client: &mut Client, file_id: FileId, blocks: usize, length: usize) {
    client.gather_credits(blocks, length).expect("there are credits");
    for at in 0..blocks {
        let offset = u64::try_from(at * length).expect("a small file");
        push_read(client, file_id, offset, length);
        client.flush(Slot(at)).expect("it is connected");
    }
}

pub fn receive(client: &mut Client, blocks: usize) {
    for _ in 0..blocks {
        client.receive().and_then(Reply::succeeded).expect("it is answered");
    }
}

/// Slows a worker's reads of files down, until it is dropped.
#[derive(Debug)]
pub struct SlowStorage(Child);

impl SlowStorage {
    pub fn begin(pid: u32) -> Self {
        let mut command = Command::new("strace");
        command.args(["-f", "-p", &pid.to_string(), "-e", "trace=preadv2"]);
        command.args(["-e", "inject=preadv2:delay_enter=40ms", "-o", "/dev/null"]);
        let mut child = command.stderr(Stdio::piped()).spawn().expect("it starts");
        let mut line = String::new();
        BufReader::new(child.stderr.take().expect("it is piped"))
            .read_line(&mut line)
            .expect("it is text");
        assert!(line.contains("attached"), "{line}");
        Self(child)
    }
}

impl Drop for SlowStorage {
    fn drop(&mut self) {
        signal_process(self.0.id(), Signal::INT);
        self.0.wait().expect("it ends");
    }
}

pub fn has_strace() -> bool {
    Command::new("strace").arg("-V").stdout(Stdio::null()).status().is_ok_and(|it| it.success())
}

/// A client that does the same until this is dropped.
#[derive(Debug)]
pub struct Busy {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Busy {
    pub fn begin((mut client, file_id): (Client, FileId), work: fn(&mut Client, FileId)) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&is_over);
        let thread = thread::spawn(move || {
            while !until.load(Ordering::Relaxed) {
                work(&mut client, file_id);
            }
        });
        Self { is_over, thread: Some(thread) }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(thread::panicking() || matches!(ended, Some(Ok(()))), "a client failed");
    }
}
