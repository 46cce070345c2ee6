//! A server under test with its users and shares, and Debian's clients for it.
//!
//! Everything a test makes is in one temporary folder and on one free port, so that tests run side
//! by side and leave nothing behind.

#![allow(dead_code, unreachable_pub, reason = "each test program uses a part of it")]

pub mod browser;
#[path = "../choro/mod.rs"]
pub mod choro;
pub mod connection;
pub mod content;
pub mod file_client;
pub mod guest;
pub mod machine;
pub mod metrics;
pub mod namespace;
pub mod process_memory;
pub mod rpc_clients;
pub mod samba;
pub mod session;
pub mod slow_clients;
pub mod smbclient;
pub mod smbtorture;

use std::fs::{self, Permissions};
use std::net::SocketAddr;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::thread;

use bench::client::{Client, Destination, Protection, Terms};
use choro::{Server, Site, text};
use machine::Machine;
use nix::unistd::User;
use smbclient::Smbclient;
use smbtorture::progress;
use wire::Dialect;

/// The users of every server under test; the clients act as the first.
pub const USER: &str = "tester";
pub const OTHER_USER: &str = "tester2";

/// Password of both users of the tests.
pub const PASSWORD: &str = "Passw0rd!";

/// Lines of a server's log that are shown when a test fails.
const LOG_LINES_SHOWN: usize = 60;

/// A user of every system without rights: a server that runs as root serves files as this one, so
/// that the kernel checks what it would check for any user.
pub const FORCED_USER: (&str, u32) = ("nobody", 65_534);

/// A server that is yet to be started.
#[derive(Debug)]
pub struct Setup {
    site: Site,
    machine: Option<Machine>,
    global: String,
    shares: String,
}

/// A running server. Killed if the test ends without stopping it; its log is shown if it fails.
#[derive(Debug)]
pub struct TestServer {
    server: Option<Server>,
    machine: Option<Machine>,
    site: Site,
}

impl Setup {
    pub fn new() -> Self {
        let site = Site::new();
        // The impersonated user must be able to reach the shares below.
        fs::set_permissions(site.path(""), Permissions::from_mode(0o755)).expect("it is ours");
        Self { site, machine: None, global: String::new(), shares: String::new() }
    }

    /// A server whose shares are in a file system of their own, and which serves them as the users
    /// that log on instead of as one user without rights. If the machine does not allow that, says
    /// so and does as [`Setup::new`].
    pub fn with_machine() -> Self {
        let mut setup = Self::new();
        match Machine::new(&setup.site.path("machine"), &setup.site.path("shares")) {
            Ok(machine) => {
                setup.site.launch_with(&machine.launcher());
                setup.machine = Some(machine);
            }
            Err(reason) => progress(&format!("no file system and users of its own: {reason}")),
        }
        setup
    }

    /// Lets the files of a share that is added later share blocks with each other.
    ///
    /// # Errors
    /// Says why this machine does not allow it.
    pub fn mount_clones(&self, share: &str) -> Result<(), String> {
        let machine = self.machine.as_ref().ok_or("there is no file system of its own")?;
        let folder = self.site.path("shares").join(share);
        machine.mount_clones(&self.site.path("machine"), &folder)
    }

    /// User and group id of [`USER`], if the server has users of its own.
    pub fn owner(&self) -> Option<(u32, u32)> {
        self.machine.as_ref().map(Machine::owner)
    }

    /// Command prefix that enters the namespace that the server will have.
    pub fn launcher(&self) -> Vec<String> {
        self.machine.as_ref().map(Machine::launcher).unwrap_or_default()
    }

    /// A path in the folder of the test; shares are in `shares`.
    pub fn path(&self, name: &str) -> PathBuf {
        self.site.path(name)
    }

    /// Adds lines to the section `[global]`.
    pub fn global(mut self, lines: &str) -> Self {
        self.global.push_str(lines);
        self.global.push('\n');
        self
    }

    /// Listens on another port as well, in a network where that is free.
    pub fn port_too(self, port: u16) -> Self {
        let own = self.site.address().port();
        self.global(&format!("smb ports = {own} {port}"))
    }

    /// A writable share with a folder of its own, and more lines for its section.
    pub fn share(mut self, name: &str, lines: &str) -> Self {
        let folder = self.site.path("shares").join(name);
        match &self.machine {
            Some(machine) => {
                let folder = machine.outside(&folder);
                let (user, group) = machine.owner();
                fs::create_dir_all(&folder).expect("there is space");
                chown(&folder, Some(user), Some(group)).expect("we are root");
                fs::set_permissions(&folder, Permissions::from_mode(0o777)).expect("we are root");
            }
            None => {
                fs::create_dir_all(&folder).expect("there is space");
                give_to_server(&folder);
            }
        }
        // Lines may give another path, which then lies in this folder.
        let path = text(&folder);
        let lines = lines.replace("%FOLDER", &path);
        self.shares.push_str(&format!("[{name}]\npath = {path}\nread only = no\n{lines}\n"));
        if runs_as_root() && self.machine.is_none() && !lines.contains("force user") {
            self.shares.push_str(&format!("force user = {}\n", FORCED_USER.0));
        }
        self
    }

    /// Sections that are not shares with a folder, as they are to stand in the configuration.
    pub fn sections(mut self, text: &str) -> Self {
        self.shares.push_str(text);
        self
    }

    /// Runs the server as a user who is not root.
    pub fn run_as_somebody(mut self) -> Self {
        self.site.run_as_somebody();
        self
    }

    /// Starts every command of the server by way of another one.
    pub fn launch_with(mut self, launcher: &[String]) -> Self {
        self.site.launch_with(launcher);
        self
    }

    /// Adds the users and starts the server; it listens when this returns.
    pub fn start(self) -> TestServer {
        let Self { site, machine, global, shares } = self;
        site.write_config_with(&global, &shares);
        for user in [USER, OTHER_USER] {
            add_user(&site, user);
        }
        let server = Some(site.serve());
        TestServer { server, machine, site }
    }
}

impl TestServer {
    /// A server with one writable share, `data`.
    pub fn start() -> Self {
        Setup::new().share("data", "").start()
    }

    /// Lets another user log on, with [`PASSWORD`].
    pub fn add_user(&self, user: &str) {
        add_user(&self.site, user);
    }

    pub fn site(&self) -> &Site {
        &self.site
    }

    /// The pid of the worker of a client.
    pub fn worker_of(&self, client: &Client) -> u32 {
        let address = format!("127.0.0.1:{}", client.local_port().expect("it is connected"));
        let status = self.site().run(&["status", "--json"]).succeeds();
        let rows: Vec<serde_json::Value> = serde_json::from_str(&status).expect("an array");
        let row = rows.iter().find(|row| row["client_address"] == address.as_str());
        let pid = row.and_then(|row| row["pid"].as_u64()).expect("it is connected");
        u32::try_from(pid).expect("a pid")
    }

    pub fn port(&self) -> u16 {
        self.site.address().port()
    }

    /// The folder of a share.
    pub fn share_path(&self, share: &str) -> PathBuf {
        let folder = self.site.path("shares").join(share);
        self.machine.as_ref().map_or_else(|| folder.clone(), |machine| machine.outside(&folder))
    }

    /// The folder of a share, as the server knows it.
    pub fn path_of_share(&self, share: &str) -> PathBuf {
        self.site.path("shares").join(share)
    }

    /// Command prefix that enters the server's namespace.
    pub fn launcher(&self) -> Vec<String> {
        self.machine.as_ref().map(Machine::launcher).unwrap_or_default()
    }

    /// A folder for what a client reads and writes, empty at first.
    pub fn client_folder(&self, name: &str) -> PathBuf {
        let folder = self.site.path("clients").join(name);
        fs::create_dir_all(&folder).expect("there is space");
        folder
    }

    /// Debian's smbclient, as [`USER`], with the highest dialect and no more protection than the
    /// server asks for.
    pub fn client(&self) -> Smbclient {
        Smbclient::new(self)
    }

    /// Address of a share for [`USER`].
    pub fn destination(&self, share: &str) -> Destination {
        destination(self.site.address(), share)
    }

    /// A client that says what a test wants said, as [`USER`] in a share.
    #[track_caller]
    pub fn connect(&self, share: &str, protection: Protection) -> Client {
        Client::connect(&self.destination(share), terms(protection)).expect("the server lets it in")
    }

    pub fn server(&self) -> &Server {
        self.server.as_ref().expect("it runs until it is stopped")
    }

    /// Descriptors of pipes that the worker with most of them has, beside those that all have: one
    /// always waits for a client, and uses none.
    pub fn pipes(&self) -> usize {
        let of_worker = |pid| {
            let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
            let targets = entries.filter_map(|it| it.path().read_link().ok());
            targets.filter(|it| it.to_string_lossy().starts_with("pipe:")).count()
        };
        let counts: Vec<usize> = self.server().workers().into_iter().map(of_worker).collect();
        counts.iter().max().zip(counts.iter().min()).map_or(0, |(most, least)| most - least)
    }

    pub fn log(&self) -> String {
        self.server.as_ref().expect("it runs until it is stopped").log()
    }

    /// Stops the server, or kills it, and starts it again.
    pub fn restart(&mut self, kill: bool) {
        let server = self.server.take().expect("it runs until it is stopped");
        if kill {
            let workers = server.workers();
            // The end of the supervisor is the end of the workers.
            drop(server);
            let is_over = || !workers.iter().any(|&pid| choro::is_alive(pid));
            choro::wait_until(is_over, || "workers outlive their supervisor".to_owned());
        } else {
            let (code, _) = server.stop();
            assert_eq!(code, Some(0), "the server did not end cleanly");
        }
        self.server = Some(self.site.serve());
    }

    /// Stops the server, which must end cleanly and never have panicked.
    #[track_caller]
    pub fn stop(mut self) {
        let server = self.server.take().expect("it runs until it is stopped");
        let log = server.log();
        let (code, _) = server.stop();
        assert!(!log.contains("panicked at"), "the server panicked:\n{log}");
        assert_eq!(code, Some(0), "the server did not end cleanly:\n{log}");
    }
}

impl Drop for TestServer {
    #[expect(clippy::print_stderr, reason = "that is where the messages of a failed test are")]
    fn drop(&mut self) {
        if let (true, Some(server)) = (thread::panicking(), &self.server) {
            let log = server.log();
            let lines: Vec<&str> = log.lines().collect();
            let shown = &lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..];
            eprintln!("end of the server's log:\n{}", shown.join("\n"));
        }
    }
}

fn add_user(site: &Site, user: &str) {
    let add = ["user", "add", user, "--password-stdin"];
    site.run_with_input(&add, &format!("{PASSWORD}\n")).succeeds();
}

/// A user of every system, who asks for nothing unless a test lets them log on.
pub fn daemon() -> User {
    User::from_name("daemon").expect("a name service").expect("every Linux has it")
}

/// The name of something in the home of a user.
pub fn name_in_home(user: &User) -> String {
    let first = fs::read_dir(&user.dir).expect("everybody may look").flatten().next();
    first.expect("there is something in it").file_name().into_string().expect("a plain name")
}

/// Address of a share for [`USER`], on the server at this address.
pub fn destination(address: SocketAddr, share: &str) -> Destination {
    let (user, password) = (USER.to_owned(), PASSWORD.to_owned());
    Destination { address, share: share.to_owned(), user, password }
}

/// Terms with the highest dialect.
pub fn terms(protection: Protection) -> Terms {
    Terms { dialect: Dialect::SMB_3_1_1, protection }
}

pub fn runs_as_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Makes what the test put into a share belong to whom the server acts as.
pub fn give_to_server(path: &Path) {
    if runs_as_root() {
        chown(path, Some(FORCED_USER.1), Some(FORCED_USER.1)).expect("we are root");
    }
}
