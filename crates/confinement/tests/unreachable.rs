//! Each kind of process is kept from files and sockets beside its own, by system calls and by
//! rings, and a worker goes on with everything that it does in shares.
//!
//! A process cannot get rid of its rules, so each case runs in one of its own: this program with a
//! variable that names the case.

#[path = "unreachable/attacks.rs"]
mod attacks;
#[path = "unreachable/uses.rs"]
mod uses;

use std::fs;
use std::io::{self, Write};
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::{Path, PathBuf};
use std::process::Command;

use confinement::{
    Freedom, Place, ProcessKind, Ruleset, Signals, paths_unavailable, tcp_unavailable,
};
use rustix::fs::{Mode, OFlags};

/// Name of a kind and a case, whether it is restricted, and its site, for the process of one case.
const CASE: &str = "CHORO_TEST_UNREACHABLE_CASE";

/// The test that is the process of a case.
const PROCESS: &str = "the_process_of_one_case";

const FREEDOM: Freedom = Freedom { all_paths: false, signals: Signals::ToItself };

/// A server's directories, and what an attacker wants.
#[derive(Clone, Debug)]
pub struct Site {
    /// Directory with all of it.
    folder: PathBuf,
    /// Port of another machine, which is this one.
    port: u16,
}

impl Site {
    /// Path in the share that the worker serves.
    fn share(&self, name: &str) -> PathBuf {
        self.folder.join("share").join(name)
    }

    /// Path in a directory of somebody else.
    fn beside(&self, name: &str) -> PathBuf {
        self.folder.join("beside").join(name)
    }

    /// Name of a socket of another program.
    fn socket_name(&self) -> String {
        self.folder.display().to_string()
    }

    fn make(folder: &Path, port: u16) -> Self {
        for name in ["share/a", "share/b", "beside", "lock/msg", "private"] {
            fs::create_dir_all(folder.join(name)).expect("there is space");
        }
        for name in ["share/file", "beside/file", "private/users.json", "lock/page", "lock/users"] {
            fs::write(folder.join(name), name).expect("there is space");
        }
        Self { folder: folder.to_owned(), port }
    }
}

/// Has this process keep to the rules of a kind.
fn restrict(kind: ProcessKind, site: &Site) {
    let Some(ruleset) = Ruleset::new(kind, FREEDOM).expect("there is memory") else { return };
    let places =
        [(Place::Share, "share"), (Place::LockDirectory, "lock"), (Place::Messages, "lock/msg")];
    for (place, name) in places {
        let (path, flags) = (site.folder.join(name), OFlags::PATH | OFlags::CLOEXEC);
        let opened = rustix::fs::open(path, flags, Mode::empty()).expect("it was made");
        ruleset.reach(place, opened.as_fd()).expect("it is a directory");
    }
    ruleset.restrict().expect("the kernel has Landlock");
}

#[test]
fn the_process_of_one_case() {
    let Ok(case) = std::env::var(CASE) else { return };
    let mut words = case.splitn(5, ' ');
    let mut word = || words.next().expect("five words");
    let kind = ProcessKind::of_name(word()).expect("a kind");
    let is_restricted = word() == "restricted";
    let (name, port, folder) = (word(), word(), word());
    let site = Site { folder: folder.into(), port: port.parse().expect("a port") };
    if is_restricted {
        restrict(kind, &site);
    }
    let of_worker = uses::ALL.iter().map(|it| (it.0, it.1));
    let mut all = attacks::ALL.iter().map(|it| (it.name, it.make)).chain(of_worker);
    let (_, make) = all.find(|it| it.0 == name).expect("there is one of this name");
    let outcome = make(&site).map_err(|error| error.raw_os_error().unwrap_or(-1));
    let text = format!("outcome {}\n", outcome.err().unwrap_or(0));
    io::stderr().write_all(text.as_bytes()).expect("it is open");
    // SAFETY: ends the process, which is this test's own.
    unsafe { libc::_exit(0) };
}

/// Runs a case in a site of its own. Returns the number of the error, 0 for success.
fn run(kind: ProcessKind, is_restricted: bool, name: &str) -> i32 {
    let folder = tempfile::tempdir().expect("there is space");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = listener.local_addr().expect("it is bound").port();
    let site = Site::make(folder.path(), port);
    let address = SocketAddr::from_abstract_name(site.socket_name()).expect("it is short");
    let _socket = UnixDatagram::bind_addr(&address).expect("the name is free");
    let word = if is_restricted { "restricted" } else { "free" };
    let mut program = Command::new(std::env::current_exe().expect("it runs"));
    program.args(["--exact", PROCESS, "--nocapture", "--quiet"]);
    let case = format!("{} {word} {name} {port} {}", kind.name(), folder.path().display());
    let output = program.env(CASE, case).output().expect("it starts");
    let printed = String::from_utf8_lossy(&output.stderr);
    let outcome = printed.lines().find_map(|it| it.strip_prefix("outcome ")?.parse().ok());
    outcome.unwrap_or_else(|| panic!("{name} of {}: {printed}", kind.name()))
}

fn has_landlock() -> bool {
    let unavailable = paths_unavailable().or_else(tcp_unavailable);
    if let Some(why) = &unavailable {
        let _ = writeln!(io::stderr(), "{why}: not tested");
    }
    unavailable.is_none()
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn each_kind_is_kept_from_files_and_machines_that_it_would_reach_without_rules() {
    if !has_landlock() {
        return;
    }
    for attack in attacks::ALL.iter().filter(|it| is_root() || !it.takes_root) {
        let free = run(ProcessKind::Worker, false, attack.name);
        assert_eq!(free, 0, "{} fails without rules, too", attack.name);
        for kind in ProcessKind::ALL {
            let outcome = run(kind, true, attack.name);
            let (name, kind_name) = (attack.name, kind.name());
            if (attack.is_for)(kind) {
                assert!(attack.errors.contains(&outcome), "{name} of {kind_name}: {outcome}");
            } else {
                assert_eq!(outcome, 0, "{name} of {kind_name}");
            }
        }
    }
}

#[test]
fn rules_take_no_operation_in_a_share_from_a_worker() {
    if !has_landlock() {
        return;
    }
    for (name, _, absent) in uses::ALL {
        let [free, bound] = [false, true].map(|is_bound| run(ProcessKind::Worker, is_bound, name));
        assert!(free == 0 || absent.contains(&free), "{name}: {free}");
        assert_eq!(bound, free, "{name}");
    }
}
