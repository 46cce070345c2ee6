//! A place for one test's server: a folder with a configuration whose directories are all in it.

#![allow(dead_code, unreachable_pub, reason = "each test program uses a part of it")]

use std::cell::Cell;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use bench::server::ReservedPort;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// Longest wait of a test for events that take milliseconds on an idle machine.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// The user without rights of every Linux.
const NOBODY: u32 = 65_534;

/// A launcher that forbids io_uring to what it starts, as most containers do.
pub fn without_io_uring() -> Vec<String> {
    vec![concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/without_io_uring.py").to_owned()]
}

/// A launcher that confines what it starts as the service's unit file says.
pub fn under_unit() -> Vec<String> {
    let script = |name: &str| format!("{}/../../scripts/{name}", env!("CARGO_MANIFEST_DIR"));
    vec![script("under_unit.py"), script("choro.service.in")]
}

/// Returns the launcher named by CHORO_LAUNCHER. It starts servers and no other command: a suite is
/// run under a unit file with `scripts/under_unit.py UNIT`.
fn server_launcher() -> Vec<String> {
    let launcher = std::env::var("CHORO_LAUNCHER").unwrap_or_default();
    launcher.split_whitespace().map(str::to_owned).collect()
}

/// A folder of its own, removed at the end.
#[derive(Debug)]
pub struct Site {
    root: TempDir,
    port: ReservedPort,
    /// Executable and user id for commands of another user.
    somebody: Option<(PathBuf, u32)>,
    /// A program and its arguments that start every command, if they are not started directly.
    launcher: Vec<String>,
}

/// Output and status of an ended command.
#[derive(Debug)]
pub struct Outcome(Output);

impl Site {
    pub fn new() -> Self {
        let root = tempfile::tempdir().expect("there is space");
        let port = ReservedPort::new().expect("a port is free");
        let site = Self { root, port, somebody: None, launcher: Vec::new() };
        fs::create_dir(site.path("data")).expect("it is new");
        let data = text(&site.path("data"));
        site.write_config(&format!("[data]\npath = {data}\nread only = no\n"));
        site
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// Replaces the configuration; its directories and port stay.
    pub fn write_config(&self, shares: &str) {
        self.write_config_with("", shares);
    }

    /// As [`Site::write_config`], with more lines in `[global]`.
    pub fn write_config_with(&self, global: &str, shares: &str) {
        let directory = |name| text(&self.path(name));
        let config = format!(
            "[global]\n\
             state directory = {}\nlock directory = {}\nprivate dir = {}\n\
             pid directory = {}\ncache directory = {}\n\
             smb ports = {}\ninterfaces = 127.0.0.1\nbind interfaces only = yes\n{global}{shares}",
            directory("state"),
            directory("lock"),
            directory("private"),
            directory("run"),
            directory("cache"),
            self.port.port(),
        );
        fs::write(self.path("smb.conf"), config).expect("there is space");
    }

    /// Lines of the configuration: the number of its last one.
    pub fn config_lines(&self) -> usize {
        fs::read_to_string(self.path("smb.conf")).expect("it was written").lines().count()
    }

    /// From now on commands are started by this program, such as one that enters a namespace and
    /// then becomes the command.
    pub fn launch_with(&mut self, launcher: &[String]) {
        self.launcher = launcher.to_vec();
    }

    /// From now on commands run as a user who is not root, if the test runs as root.
    pub fn run_as_somebody(&mut self) {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        // Other users may be unable to reach the executable's directory.
        let executable = self.path("choro");
        // Not by this process: what other tests start meanwhile would for a moment hold the copy
        // open for writing, and it could not be executed.
        let copied = Command::new("cp").arg(built_executable()).arg(&executable).status();
        assert!(copied.expect("there is a cp").success());
        for entry in fs::read_dir(self.root.path()).expect("it exists").flatten() {
            chown(entry.path(), Some(NOBODY), Some(NOBODY)).expect("we are root");
        }
        chown(self.root.path(), Some(NOBODY), Some(NOBODY)).expect("we are root");
        self.somebody = Some((executable, NOBODY));
    }

    /// `choro` with these arguments and this site's configuration.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = match &self.somebody {
            Some((executable, uid)) => {
                let mut command = Command::new(executable);
                command.uid(*uid).gid(*uid);
                command
            }
            None => self.launched(arguments.first() == Some(&"serve")),
        };
        command.arg("--config").arg(self.path("smb.conf")).args(arguments).stdin(Stdio::null());
        command
    }

    fn launched(&self, is_server: bool) -> Command {
        let mut line: Vec<PathBuf> = self.launcher.iter().map(PathBuf::from).collect();
        if is_server {
            line.extend(server_launcher().iter().map(PathBuf::from));
        }
        line.push(built_executable());
        let mut command = Command::new(&line[0]);
        command.args(&line[1..]);
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Outcome {
        Outcome(self.command(arguments).output().expect("it starts"))
    }

    pub fn run_with_input(&self, arguments: &[&str], input: &str) -> Outcome {
        let mut child = self
            .command(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        // A command that does not want its input closes the pipe; that is for the test to judge.
        let _ = child.stdin.take().expect("it is piped").write_all(input.as_bytes());
        Outcome(child.wait_with_output().expect("it ends"))
    }

    /// Starts the server and waits until it listens.
    pub fn serve(&self) -> Server {
        let mut child = self
            .command(&["serve"])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let log = Arc::new(Mutex::new(String::new()));
        let stderr = BufReader::new(child.stderr.take().expect("it is piped"));
        let reader = thread::spawn({
            let log = Arc::clone(&log);
            move || {
                for line in stderr.lines().map_while(Result::ok) {
                    let mut log = log.lock().expect("nobody panics with it");
                    log.push_str(&line);
                    log.push('\n');
                }
            }
        });
        let server = Server { child, log, reader: Some(reader), address: self.address() };
        server.wait_for_log("listening on");
        server
    }
}

impl Outcome {
    /// Output and status of another program.
    pub fn of(output: Output) -> Self {
        Self(output)
    }

    /// Standard output of a command that must have succeeded.
    #[track_caller]
    pub fn succeeds(self) -> String {
        assert!(self.0.status.success(), "{:?}: {}", self.0.status, self.error());
        String::from_utf8(self.0.stdout).expect("it is UTF-8")
    }

    /// Standard error of a command that must have failed with this code.
    #[track_caller]
    pub fn fails(self, code: i32) -> String {
        assert_eq!(self.0.status.code(), Some(code), "{}", self.error());
        self.error()
    }

    pub fn is_success(&self) -> bool {
        self.0.status.success()
    }

    /// Standard output, whatever the command has come to.
    pub fn output(&self) -> String {
        String::from_utf8_lossy(&self.0.stdout).into_owned()
    }

    pub fn error(&self) -> String {
        String::from_utf8_lossy(&self.0.stderr).into_owned()
    }
}

/// A running server. Killed if the test ends without stopping it.
#[derive(Debug)]
pub struct Server {
    child: Child,
    log: Arc<Mutex<String>>,
    reader: Option<JoinHandle<()>>,
    address: SocketAddr,
}

impl Server {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: Signal) {
        signal_process(self.pid(), signal);
    }

    pub fn log(&self) -> String {
        self.log.lock().expect("nobody panics with it").clone()
    }

    /// Waits until the log contains a text.
    #[track_caller]
    pub fn wait_for_log(&self, text: &str) {
        wait_until(|| self.log().contains(text), || format!("no '{text}' in: {}", self.log()));
    }

    /// A client's connection, not yet negotiated.
    pub fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).expect("the server listens")
    }

    /// Pids of living workers, oldest first.
    pub fn workers(&self) -> Vec<u32> {
        let children = children(self.pid());
        let helpers = ["notifyd", "discoveryd", "logond", "commandd"];
        let is_other = |pid: &u32| helpers.iter().any(|it| is_helper(*pid, it));
        children.into_iter().filter(|pid| !is_other(pid)).collect()
    }

    /// Pids of the workers, once as many are there as a server keeps idle.
    #[track_caller]
    pub fn idle_workers(&self) -> Vec<u32> {
        wait_until(|| self.workers().len() >= 3, || format!("{:?}", self.workers()));
        self.workers()
    }

    /// The process that knows who watches which directory.
    pub fn notifyd(&self) -> Option<u32> {
        children(self.pid()).into_iter().find(|pid| is_helper(*pid, "notifyd"))
    }

    /// The process that checks passwords and tickets.
    pub fn logond(&self) -> Option<u32> {
        children(self.pid()).into_iter().find(|pid| is_helper(*pid, "logond"))
    }

    /// Asks the server to stop and returns its exit code and how long it took.
    pub fn stop(mut self) -> (Option<i32>, Duration) {
        let start = Instant::now();
        self.signal(Signal::TERM);
        let mut code = None;
        wait_until(
            || match self.child.try_wait().expect("it is our child") {
                Some(status) => {
                    code = Some(status.code());
                    true
                }
                None => false,
            },
            || "the server does not stop".to_owned(),
        );
        (code.expect("it was set"), start.elapsed())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

/// Pids of a process's living children, oldest first.
pub fn children(of: u32) -> Vec<u32> {
    let mut children = Vec::new();
    for entry in fs::read_dir("/proc").expect("it is mounted").flatten() {
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
        // pid (name) state parent …; the name may contain anything but the last parenthesis.
        let Some((head, tail)) = stat.rsplit_once(") ") else { continue };
        if tail.split(' ').nth(1) == Some(&of.to_string()) {
            let pid = head.split(' ').next().expect("it begins with the pid");
            children.push(pid.parse().expect("a pid is a number"));
        }
    }
    children.retain(|&pid| is_alive(pid));
    children.sort_unstable();
    children
}

/// Whether a child of the supervisor serves no client.
pub fn is_helper(pid: u32, name: &str) -> bool {
    fs::read_to_string(format!("/proc/{pid}/cmdline"))
        .is_ok_and(|line| line.split('\0').nth(1) == Some(name))
}

/// Waits for a condition; what another process does cannot be waited for in another way.
#[track_caller]
pub fn wait_until(mut condition: impl FnMut() -> bool, complaint: impl Fn() -> String) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "{}", complaint());
        thread::sleep(Duration::from_millis(10));
    }
}

pub fn signal_process(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("it is a pid");
    kill_process(pid, signal).expect("it lives");
}

/// Whether a process has not ended yet: its first thread may be gone before the others.
pub fn is_alive(pid: u32) -> bool {
    let threads = || fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
    match fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => {
            let (_, tail) = stat.rsplit_once(") ").expect("it has a name");
            !tail.starts_with('Z') || threads() > 1
        }
        Err(_) => false,
    }
}

/// Sets a flag on drop, also when a test fails, so that no thread waits for ever.
#[derive(Debug)]
pub struct Over<'a>(pub &'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Bytes of memory that a process has of its own.
pub fn memory_of(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it lives");
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).expect("it is Linux");
    let kibibytes = line.split_whitespace().nth(1).and_then(|it| it.parse::<u64>().ok());
    kibibytes.expect("a number") * 1024
}

/// As [`memory_of`], once it is above `least` and grows no more.
#[track_caller]
pub fn settled_memory(pid: u32, least: u64) -> u64 {
    let memory = Cell::new(0);
    wait_until(
        || memory.replace(memory_of(pid)) == memory.get() && memory.get() > least,
        || format!("{} bytes, and they change", memory.get()),
    );
    memory.get()
}

/// A path as text; those of tests are plain.
pub fn text(path: &Path) -> String {
    path.to_str().expect("paths of tests are UTF-8").to_owned()
}

/// The program under test: the one that cargo built along with the tests, unless the environment
/// names another, such as a release.
pub fn built_executable() -> PathBuf {
    std::env::var_os("CHORO_BIN").map_or_else(|| env!("CARGO_BIN_EXE_choro").into(), PathBuf::from)
}
