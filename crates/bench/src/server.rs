//! A server under test: a child process with a share of its own.

use std::fs;
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
pub use bench_messaging::own_directories;
use rustix::process::{Pid, Signal, kill_process};

use crate::client::{Client, Destination, Protection, Terms};
use crate::null_server::DataPath;

mod choro;
mod null;
pub mod process_tree;
mod reserved_port;
mod samba;

use process_tree::ProcessTree;
pub use reserved_port::ReservedPort;

/// The name of the share that the loads use.
pub const SHARE: &str = "bench";

/// Longest time for the start or stop of a server.
const PATIENCE: Duration = Duration::from_secs(20);

/// Time between checks for the start or stop.
const POLL: Duration = Duration::from_millis(20);

/// Kinds of servers to be measured.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Choro, from the build under test.
    Choro,
    /// Choro, from another build for comparison.
    #[value(skip)]
    Other,
    /// Ours where io_uring is forbidden.
    #[value(skip)]
    Fallback,
    /// Nothing but answers: see [`crate::null_server`].
    #[value(skip)]
    Null,
    /// The same with the files of its share.
    #[value(skip)]
    Raw(DataPath),
    /// Samba's smbd, as packaged by Debian.
    Samba,
}

impl Kind {
    /// The name as it stands in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Choro => "Choro",
            Self::Other => "Other",
            Self::Fallback => "Fallback",
            Self::Null => "Null",
            Self::Raw(DataPath::Pread) => "pread",
            Self::Raw(DataPath::Sendfile) => "sendfile",
            Self::Samba => "Samba",
        }
    }
}

/// A running server. It is stopped when it is dropped.
#[derive(Debug)]
pub struct Server {
    kind: Kind,
    version: String,
    child: Child,
    destination: Destination,
    share_path: PathBuf,
    log: PathBuf,
    _port: ReservedPort,
}

/// Files and settings to start a server from.
struct Setup {
    command: Command,
    version: String,
    user: String,
    password: String,
}

impl Setup {
    fn without_io_uring(self) -> Self {
        let launcher =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/without_io_uring.py");
        let mut command = Command::new(launcher);
        command.arg(self.command.get_program()).args(self.command.get_args());
        Self { command, version: format!("{} without io_uring", self.version), ..self }
    }
}

/// The place of a server: a fresh directory that holds everything it writes.
struct Site<'a> {
    directory: &'a Path,
    share_path: PathBuf,
    port: u16,
    /// Further lines for the section `[global]`.
    global: &'a str,
}

impl Server {
    /// Starts a server of this kind in `directory`, which is new, and waits until a client can log
    /// on. `choro` is the path of Choro's executable.
    ///
    /// # Errors
    ///
    /// It cannot be set up, ends, or refuses the client.
    pub fn start(kind: Kind, directory: &Path, choro: &Path) -> Result<Self> {
        Self::start_with(kind, directory, choro, "")
    }

    /// As [`Server::start`], with more lines for the section `[global]` of its configuration.
    ///
    /// # Errors
    ///
    /// As [`Server::start`].
    pub fn start_with(kind: Kind, directory: &Path, choro: &Path, global: &str) -> Result<Self> {
        let share_path = directory.join("share");
        fs::create_dir_all(&share_path)?;
        let port = ReservedPort::new()?;
        let site = Site { directory, share_path, port: port.port(), global };
        let setup = match kind {
            Kind::Choro | Kind::Other => choro::set_up(&site, choro),
            Kind::Fallback => choro::set_up(&site, choro).map(Setup::without_io_uring),
            Kind::Null => null::set_up(&site, None),
            Kind::Raw(way) => null::set_up(&site, Some(way)),
            Kind::Samba => samba::set_up(&site),
        };
        let Setup { mut command, version, user, password } =
            setup.with_context(|| format!("setting up {}", kind.name()))?;
        let log = directory.join("output");
        let output = fs::File::create(&log)?;
        let child = command
            // smbd ends by a signal to its process group, which must not be ours.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .with_context(|| format!("starting {command:?}"))?;
        let address = port.address();
        let destination = Destination { address, share: SHARE.into(), user, password };
        let share_path = site.share_path;
        let mut server = Self { kind, version, child, destination, share_path, log, _port: port };
        server.wait_until_it_serves()?;
        Ok(server)
    }

    /// Kind of the server, as started.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// Version that the server reports.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Share and user to connect with.
    #[must_use]
    pub const fn destination(&self) -> &Destination {
        &self.destination
    }

    /// The folder that it shares.
    #[must_use]
    pub fn share_path(&self) -> &Path {
        &self.share_path
    }

    /// Its processes as they are now.
    ///
    /// # Errors
    ///
    /// When /proc cannot be read.
    pub fn processes(&self) -> Result<ProcessTree> {
        ProcessTree::of(self.child.id())
    }

    /// Gives a server of ours another user; how to reach it as that one.
    ///
    /// # Errors
    ///
    /// When it is refused.
    pub fn add_user(&self, choro: &Path, user: &str) -> Result<Destination> {
        let directory = self.log.parent().context("the server has a directory")?;
        let password = choro::add_user(choro, &directory.join("smb.conf"), user)?;
        Ok(Destination { user: user.to_owned(), password, ..self.destination.clone() })
    }

    /// Connects a client.
    ///
    /// # Errors
    ///
    /// When the server does not let it in.
    pub fn connect(&self, protection: Protection) -> Result<Client> {
        let terms = Terms { dialect: wire::Dialect::SMB_3_1_1, protection };
        Client::connect(&self.destination, terms)
            .with_context(|| format!("a client of {}", self.kind.name()))
    }

    /// Connects a client from an address of its own.
    ///
    /// # Errors
    ///
    /// When the server does not let it in.
    pub fn connect_from(&self, source: Ipv4Addr, protection: Protection) -> Result<Client> {
        let terms = Terms { dialect: wire::Dialect::SMB_3_1_1, protection };
        Client::connect_from(source, &self.destination, terms)
            .with_context(|| format!("a client of {}", self.kind.name()))
    }

    /// Connects a further channel of a client.
    ///
    /// # Errors
    ///
    /// When the server does not let it in.
    pub fn bind(&self, first: &Client, protection: Protection, number: u8) -> Result<Client> {
        let terms = Terms { dialect: wire::Dialect::SMB_3_1_1, protection };
        first.bind(&self.destination, terms, number)
    }

    fn wait_until_it_serves(&mut self) -> Result<()> {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait()? {
                let output = fs::read_to_string(&self.log).unwrap_or_default();
                bail!("{} ended with {status}:\n{output}", self.kind.name());
            }
            if TcpStream::connect(self.destination.address).is_ok() {
                break;
            }
            ensure!(start.elapsed() < PATIENCE, "{} does not listen", self.kind.name());
            sleep(POLL);
        }
        self.connect(Protection::Plain)?.logoff()
    }

    /// Stops it, politely at first, and all it has started.
    fn stop(&mut self) -> Result<()> {
        let processes = self.processes()?;
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::TERM)?;
        let start = Instant::now();
        while self.child.try_wait()?.is_none() {
            if start.elapsed() > PATIENCE {
                self.child.kill()?;
            }
            sleep(POLL);
        }
        processes.kill_survivors();
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) && self.stop().is_err() {
            // Only the polite way failed; the child is still ours to end.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Runs a command with `input` on its standard input, and returns its output.
fn run_with_input(command: &mut Command, input: &str) -> Result<String> {
    use std::io::Write;

    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("starting {command:?}"))?;
    child.stdin.take().context("it is piped")?.write_all(input.as_bytes())?;
    let output = child.wait_with_output()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    ensure!(output.status.success(), "{command:?}: {}", text(&output.stderr));
    Ok(text(&output.stdout))
}
