//! Debian's smbclient, run to the end under a time limit.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;

use super::choro::text;
use super::{PASSWORD, TestServer, USER};

/// Receives the lines that a program prints, as they come.
pub fn lines_of(stdout: ChildStdout) -> Receiver<String> {
    let (printed, lines) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if printed.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

/// Time limit of a client for work that takes seconds.
const LIMIT: Duration = Duration::from_secs(60);

/// Exit code of `timeout` after the limit.
const TIMED_OUT: i32 = 124;

/// Protection of a client's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// Signed only where the dialect demands it (the first TREE_CONNECT of 3.1.1).
    Plain,
    Signed,
    Sealed,
}

/// The dialects by the names that smbclient has for them.
pub const DIALECTS: [&str; 5] = ["SMB2_02", "SMB2_10", "SMB3_00", "SMB3_02", "SMB3_11"];

impl Protection {
    /// The protections that a dialect has.
    pub fn of_dialect(dialect: &str) -> &'static [Self] {
        let all = &[Self::Plain, Self::Signed, Self::Sealed];
        if dialect.starts_with("SMB3") { all } else { &all[..2] }
    }

    fn argument(self) -> &'static str {
        match self {
            Self::Plain => "--client-protection=off",
            Self::Signed => "--client-protection=sign",
            Self::Sealed => "--client-protection=encrypt",
        }
    }
}

/// One client, yet to be run.
#[derive(Clone, Debug)]
pub struct Smbclient {
    arguments: Vec<String>,
    credentials: Vec<String>,
    folder: PathBuf,
    port: u16,
    limit: Duration,
}

/// A connected client. Dropping it ends it and waits.
#[derive(Debug)]
pub struct Staying {
    child: Child,
    /// Kept open, since the client would otherwise end at its next word.
    _stdout: BufReader<ChildStdout>,
}

/// A client that waits for changes in a directory and below. It leaves when this is dropped.
#[derive(Debug)]
pub struct Watching {
    child: Child,
    lines: Receiver<String>,
}

/// Output and status of an ended client.
#[derive(Debug)]
pub struct Outcome {
    code: Option<i32>,
    text: String,
}

impl Smbclient {
    pub(super) fn new(server: &TestServer) -> Self {
        // The client keeps a cache and reads the system's configuration if it is not given its own.
        let own = server.client_folder("own");
        let config = own.join("smb.conf");
        let directories = ["lock", "state", "cache", "private"].map(|kind| {
            let suffix = if kind == "private" { "dir" } else { "directory" };
            format!("{kind} {suffix} = {}\n", text(&own))
        });
        // Written once and not again, since other clients may be reading it.
        if !config.exists() {
            let draft = own.join(format!("draft-{:?}", thread::current().id()));
            fs::write(&draft, format!("[global]\n{}", directories.concat()))
                .expect("there is space");
            fs::rename(&draft, &config).expect("it is in the same folder");
        }
        Self {
            arguments: vec![format!("--configfile={}", text(&config))],
            credentials: vec![format!("--user={USER}%{PASSWORD}")],
            folder: server.client_folder("work"),
            port: server.port(),
            limit: LIMIT,
        }
    }

    /// This dialect and no other.
    pub fn dialect(self, dialect: &str) -> Self {
        self.option(&format!("client min protocol={dialect}"))
            .argument(&format!("--max-protocol={dialect}"))
    }

    pub fn protection(self, protection: Protection) -> Self {
        self.argument(protection.argument())
    }

    /// One more line of the client's smb.conf.
    pub fn option(self, line: &str) -> Self {
        self.argument(&format!("--option={line}"))
    }

    pub fn argument(mut self, argument: &str) -> Self {
        self.arguments.push(argument.to_owned());
        self
    }

    /// Another server of this machine.
    pub fn port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    pub fn user(mut self, user: &str, password: &str) -> Self {
        self.credentials = vec![format!("--user={user}%{password}")];
        self
    }

    pub fn anonymous(mut self) -> Self {
        self.credentials = vec!["--user=%".to_owned(), "--no-pass".to_owned()];
        self
    }

    /// Sets the directory of the client's own files.
    pub fn folder(mut self, folder: PathBuf) -> Self {
        self.folder = folder;
        self
    }

    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Runs commands on a share.
    #[track_caller]
    pub fn run(&self, share: &str, commands: &[&str]) -> Outcome {
        self.spawn(&[format!("//127.0.0.1/{share}"), format!("--command={}", commands.join(";"))])
    }

    /// Runs commands on a share of a server that is called by another name.
    #[track_caller]
    pub fn run_at(&self, share: &str, commands: &[&str]) -> Outcome {
        self.spawn(&[share.to_owned(), format!("--command={}", commands.join(";"))])
    }

    /// Lists the shares of the server.
    #[track_caller]
    pub fn list_shares(&self) -> Outcome {
        self.spawn(&["--list=127.0.0.1".to_owned(), "--grepable".to_owned()])
    }

    /// Connects to a share and stays until the result is dropped.
    #[track_caller]
    pub fn stay(&self, share: &str) -> Staying {
        let mut child = self
            .command(&[format!("//127.0.0.1/{share}")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("Debian's smbclient is installed");
        // It answers the first command when it is connected.
        child.stdin.as_mut().expect("it is piped").write_all(b"ls\n").expect("it reads");
        let mut stdout = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut printed = String::new();
        while !printed.contains("blocks of size") {
            let count = stdout.read_line(&mut printed).expect("it is text");
            assert!(count != 0 && !printed.contains("NT_STATUS_"), "it did not stay: {printed}");
        }
        Staying { child, _stdout: stdout }
    }

    /// Connects to a share and waits for changes in a directory until the result is dropped. The
    /// server need not know of it yet when this returns.
    pub fn watch(&self, share: &str, directory: &str) -> Watching {
        let share = format!("//127.0.0.1/{share}");
        let mut child = self
            .command(&[share, format!("--command=notify {directory}")])
            .stdout(Stdio::piped())
            .spawn()
            .expect("Debian's smbclient is installed");
        let lines = lines_of(child.stdout.take().expect("it is piped"));
        Watching { child, lines }
    }

    #[track_caller]
    fn spawn(&self, arguments: &[String]) -> Outcome {
        let output = self.command(arguments).output().expect("Debian's smbclient is installed");
        let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.push_str(&String::from_utf8_lossy(&output.stderr));
        let code = output.status.code();
        assert_ne!(code, Some(TIMED_OUT), "after {:?} it still ran: {text}", self.limit);
        Outcome { code, text }
    }

    fn command(&self, arguments: &[String]) -> Command {
        let mut command = Command::new("timeout");
        command
            .arg("--kill-after=5")
            .arg(self.limit.as_secs().to_string())
            // Into a pipe it would otherwise speak once at the end.
            .args(["stdbuf", "-oL", "smbclient"])
            .args(arguments)
            .arg(format!("--port={}", self.port))
            .args(&self.credentials)
            .args(&self.arguments)
            .env("LC_ALL", "C.UTF-8")
            .current_dir(&self.folder)
            .stdin(Stdio::null());
        command
    }
}

impl Drop for Staying {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

impl Watching {
    /// Whether anything is told within a second.
    pub fn says_something(&self) -> bool {
        self.lines.recv_timeout(Duration::from_secs(1)).is_ok()
    }

    /// Returns the lines up to one that contains this.
    #[track_caller]
    pub fn until(&self, last: &str) -> Vec<String> {
        let mut output: Vec<String> = Vec::new();
        while !output.last().is_some_and(|line| line.contains(last)) {
            match self.lines.recv_timeout(LIMIT) {
                Ok(line) => output.push(line),
                Err(error) => panic!("no '{last}' but {output:?}: {error}"),
            }
        }
        output
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            // `timeout` passes it on.
            super::choro::signal_process(self.child.id(), Signal::TERM);
        }
        let _ = self.child.wait();
    }
}

impl Outcome {
    /// Returns the output, whatever the result.
    pub fn text(self) -> String {
        self.text
    }

    /// Returns the output; every command must have succeeded.
    #[track_caller]
    pub fn succeeds(self) -> String {
        // The exit code is that of the last command.
        let clean = self.code == Some(0) && !self.text.contains("NT_STATUS_");
        assert!(clean, "exit code {:?}: {}", self.code, self.text);
        self.text
    }

    /// Returns the output; a command must have failed with this status, and none with another.
    #[track_caller]
    pub fn fails(self, status: &str) -> String {
        assert!(
            self.text.contains(status),
            "exit code {:?}, no {status}: {}",
            self.code,
            self.text
        );
        let others = self.text.replace(status, "");
        assert!(!others.contains("NT_STATUS_"), "another failure: {}", self.text);
        self.text
    }
}
