//! Users and groups of the system: `logond` runs the modules of the name service, and no worker
//! does.
//!
//! Needs root: mounts another /etc, with netgroups and a module.

mod harness;

use std::fs::{self, File};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use bench::client::Protection;
use harness::choro::{signal_process, wait_until};
use harness::namespace::Namespace;
use harness::smbtorture::progress;
use harness::{Setup, TestServer, USER};
use rustix::process::Signal;

/// Script for a mount namespace: files of a folder hide those of /etc.
const MOUNT_ETC: &str =
    r#"mount -t overlay overlay -o "lowerdir=/etc,upperdir=$1/upper,workdir=$1/work" /etc"#;

/// Users and groups are looked up by a module that is a library of its own.
const SWITCH: &str = "passwd: compat\ngroup: compat\nnetgroup: files\nhosts: files\n";

/// A server in a system with a netgroup `team`, which [`USER`] is in; `None` if this machine does
/// not allow it.
fn start() -> Option<(Namespace, TestServer)> {
    let setup = Setup::new();
    let files = setup.path("etc");
    fs::create_dir_all(files.join("upper")).expect("there is space");
    fs::create_dir_all(files.join("work")).expect("there is space");
    let team = format!("team (-,{USER},)\nothers (-,nobody,)\n");
    fs::write(files.join("upper/netgroup"), team).expect("there is space");
    fs::write(files.join("upper/nsswitch.conf"), SWITCH).expect("there is space");
    let view = match Namespace::of_mounts(MOUNT_ETC, &[&files]) {
        Ok(view) => view,
        Err(reason) => {
            progress(&format!("no /etc of its own: {reason}"));
            return None;
        }
    };
    let server = setup
        .launch_with(&view.launcher())
        .share("data", "")
        .share("team", "valid users = &team, +daemon")
        .share("not others", "invalid users = &others")
        .start();
    Some((view, server))
}

/// Names of the name service's modules that a process has loaded.
fn modules(pid: u32) -> Vec<String> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).expect("it runs");
    let names = maps.lines().filter_map(|line| line.rsplit('/').next());
    names.filter(|name| name.starts_with("libnss_")).map(str::to_owned).collect()
}

#[test]
fn no_worker_loads_a_module_of_the_name_service() {
    let Some((_view, server)) = start() else { return };
    let mut client = server.connect("data", Protection::Signed);
    client.tree_connect(&server.destination("team")).expect("it is in the netgroup");
    let worker = server.worker_of(&client);
    assert_eq!(modules(worker), [""; 0]);
    for pid in server.server().idle_workers() {
        assert_eq!(modules(pid), [""; 0], "process {pid}");
    }
    let logond = server.server().logond().expect("it runs");
    let loaded = modules(logond);
    assert!(loaded.iter().any(|name| name.starts_with("libnss_compat")), "{loaded:?}");
    let socket = fs::metadata(server.site().path("lock/names")).expect("workers connect to it");
    assert_eq!(socket.permissions().mode() & 0o777, 0o600, "nobody else asks");
    drop(client);
    server.stop();
}

/// As if `logond` were taken over, or its machine's memory were exhausted.
#[test]
fn a_logond_that_hangs_delays_a_tree_connect_and_lets_nobody_in() {
    let Some((_view, server)) = start() else { return };
    let mut client = server.connect("data", Protection::Signed);
    let logond = server.server().logond().expect("it runs");
    signal_process(logond, Signal::STOP);
    let began = Instant::now();
    client.tree_connect(&server.destination("team")).expect_err("nobody knows who is in it");
    let waited = began.elapsed();
    assert!(waited > Duration::from_secs(4) && waited < Duration::from_secs(20), "{waited:?}");
    let began = Instant::now();
    let excluding = client.tree_connect(&server.destination("not others"));
    excluding.expect_err("nobody knows who is in the other one");
    assert!(began.elapsed() < Duration::from_secs(4), "it waits once");
    signal_process(logond, Signal::CONT);
    let team = server.destination("team");
    wait_until(|| client.tree_connect(&team).is_ok(), || server.log());
    client.tree_connect(&server.destination("not others")).expect("it is not in that");
    drop(client);
    server.stop();
}

/// The question is in the queue of a process that never answers it.
#[test]
fn a_tree_connect_waits_for_the_successor_of_a_logond_that_dies() {
    let Some((_view, server)) = start() else { return };
    let mut client = server.connect("data", Protection::Signed);
    let worker = server.worker_of(&client);
    let logond = server.server().logond().expect("it runs");
    signal_process(logond, Signal::STOP);
    thread::scope(|scope| {
        let asked = scope.spawn(|| client.tree_connect(&server.destination("team")));
        wait_until(|| has_thread(worker, "name service"), || server.log());
        assert!(!asked.is_finished(), "somebody else has looked the netgroup up");
        signal_process(logond, Signal::KILL);
        asked.join().expect("it returns").expect("it is in the netgroup");
    });
    drop(client);
    server.stop();
}

/// As a directory in the network that does not answer.
#[test]
fn a_name_service_that_hangs_delays_no_logon_that_does_not_need_its_answer() {
    let Some((view, server)) = start() else { return };
    let fifo = server.site().path("fifo");
    // Who opens it waits for a writer, and none comes.
    let made = Command::new("mkfifo").arg(&fifo).status().expect("coreutils are installed");
    assert!(made.success());
    let mut hanging = server.connect("data", Protection::Signed);
    mount(&view, &fifo);
    thread::scope(|scope| {
        let asked = scope.spawn(|| hanging.tree_connect(&server.destination("team")));
        let began = Instant::now();
        while !asked.is_finished() {
            let began = Instant::now();
            drop(server.connect("data", Protection::Signed));
            assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
        }
        asked.join().expect("it returns").expect_err("nobody knows who is in it");
        assert!(began.elapsed() > Duration::from_secs(4), "it had its time");
    });
    // The thread of `logond` goes on when there is a writer, and finds nobody.
    let go_on = || File::options().write(true).custom_flags(libc::O_NONBLOCK).open(&fifo).is_ok();
    wait_until(|| !go_on(), || server.log());
    view.run(&["umount", "/etc/netgroup"]).expect("it was mounted");
    let team = server.destination("team");
    wait_until(|| hanging.tree_connect(&team).is_ok(), || server.log());
    drop(hanging);
    server.stop();
}

fn has_thread(pid: u32, name: &str) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).expect("it runs").flatten();
    let named = |thread: fs::DirEntry| fs::read_to_string(thread.path().join("comm"));
    threads.map(named).any(|comm| comm.is_ok_and(|comm| comm.trim_end() == name))
}

fn mount(view: &Namespace, fifo: &Path) {
    let fifo = fifo.display().to_string();
    view.run(&["mount", "--bind", &fifo, "/etc/netgroup"]).expect("we are root there");
}
