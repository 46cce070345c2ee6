//! CHANGE_NOTIFY across processes: clients of other workers, programs of the host, and the process
//! that tells who has to hear of what.

mod harness;

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;

use harness::choro::{signal_process, wait_until};
use harness::smbclient::Watching;
use harness::{Setup, TestServer, daemon, give_to_server, runs_as_root};
use rustix::process::Signal;
use tables::WatchPage;

/// FILE_ACTION_…: [MS-FSCC] 2.7.1, as smbclient prints them.
const ADDED: &str = "0001";
const REMOVED: &str = "0002";
const OLD_NAME: &str = "0004";
const NEW_NAME: &str = "0005";

/// Waits until so many directories are watched.
#[track_caller]
fn wait_for_watches(server: &TestServer, count: u32) {
    let page = WatchPage::open(&server.site().path("lock")).expect("the server has made it");
    wait_until(|| page.count() == count, || format!("{} are watched", page.count()));
}

/// A client that watches the share, once the server knows it.
#[track_caller]
fn watch(server: &TestServer) -> Watching {
    let watching = server.client().watch("data", "\\");
    wait_for_watches(server, 1);
    watching
}

/// As [`watch`], once the kernel has been asked as well.
#[track_caller]
fn watch_host(server: &TestServer) -> Watching {
    let watching = watch(server);
    wait_for_host(server, &watching);
    watching
}

/// Waits until a watching client receives changes made on the host.
#[track_caller]
fn wait_for_host(server: &TestServer, watching: &Watching) {
    let path = |name: &str| server.share_path("data").join(name);
    for attempt in 0..100 {
        touch(&path(&format!("attempt{attempt}")));
        if watching.says_something() {
            touch(&path("ready"));
            watching.until("ready");
            return;
        }
    }
    panic!("nothing is told of what is done on the host");
}

/// Makes a file on the host.
fn touch(path: &Path) {
    fs::write(path, "").expect("there is space");
    give_to_server(path);
}

/// Names in the reported changes.
fn names(output: &[String]) -> Vec<&str> {
    let is_name = |line: &&str| !line.starts_with("0003");
    output.iter().map(String::as_str).filter(is_name).collect()
}

fn lines<const N: usize>(changes: [(&str, &str); N]) -> Vec<String> {
    changes.map(|(action, name)| format!("{action} {name}")).into()
}

#[test]
fn a_change_by_another_client_is_reported_once() {
    let server = TestServer::start();
    let watching = watch(&server);
    fs::write(server.client_folder("work").join("f"), "data").expect("there is space");
    server.client().run("data", &["mkdir d", "put f d\\f", "rename d\\f d\\g"]).succeeds();
    // For a directory removed before the first look into it, only the removal is reported.
    let mut output = watching.until("d\\g");
    server.client().run("data", &["del d\\g", "rmdir d", "mkdir end"]).succeeds();
    output.extend(watching.until("end"));
    let want = lines([
        (ADDED, "d"),
        (ADDED, "d\\f"),
        (OLD_NAME, "d\\f"),
        (NEW_NAME, "d\\g"),
        (REMOVED, "d\\g"),
        (REMOVED, "d"),
        (ADDED, "end"),
    ]);
    assert_eq!(names(&output), want);
    drop(watching);
    wait_for_watches(&server, 0);
    server.stop();
}

/// Starts a server with a directory in two shares: `data`, which the tests watch, and `other`,
/// which acts as another user and has these lines.
fn shared_by_two(data: &str, other: &str) -> TestServer {
    let setup = Setup::new().share("data", data);
    let folder = setup.path("shares/data");
    fs::set_permissions(&folder, Permissions::from_mode(0o777)).expect("it is ours");
    let lines = format!("path = {}\n{other}", folder.display());
    setup.share("other", &lines).start()
}

#[test]
fn names_in_a_directory_that_one_may_not_enter_are_not_reported() {
    if !runs_as_root() {
        return;
    }
    let server = shared_by_two("", "force user = daemon");
    let path = |name| server.share_path("data").join(name);
    let daemon = daemon();
    for (name, mode) in [("private", 0o700), ("open", 0o755), ("listed", 0o744)] {
        fs::create_dir(path(name)).expect("it is new");
        fs::set_permissions(path(name), Permissions::from_mode(mode)).expect("we are root");
        chown(path(name), Some(daemon.uid.into()), Some(daemon.gid.into())).expect("we are root");
    }
    let watching = watch_host(&server);
    for name in ["private/1", "listed/2", "open/3"] {
        fs::write(path(name), "").expect("we are root");
    }
    let commands = [
        "mkdir private\\4",
        "mkdir private\\4\\5",
        "rename private\\4\\5 private\\4\\6",
        "mkdir listed\\7",
        "rename private\\4 open\\4",
        "rename open\\4 listed\\8",
        "mkdir open\\end",
    ];
    server.client().run("other", &commands).succeeds();
    let output = watching.until("end");
    let want = [(ADDED, "open\\3"), (ADDED, "open\\4"), (REMOVED, "open\\4"), (ADDED, "open\\end")];
    assert_eq!(names(&output), lines(want));
    server.stop();
}

#[test]
fn changes_of_vetoed_names_are_reported_at_no_depth() {
    let server = shared_by_two("veto files = /secret*/", "");
    fs::create_dir(server.share_path("data").join("d")).expect("it is new");
    give_to_server(&server.share_path("data").join("d"));
    let watching = watch_host(&server);
    let path = |name| server.share_path("data").join(name);
    fs::create_dir(path("secret1")).expect("it is new");
    fs::write(path("secret1/file"), "").expect("there is space");
    fs::write(path("d/secret2"), "").expect("there is space");
    let commands = [
        "mkdir secret3",
        "mkdir secret3\\below",
        "mkdir d\\secret4",
        "rename d\\secret4 d\\open",
        "rename d\\open d\\secret5",
        "mkdir end",
    ];
    server.client().run("other", &commands).succeeds();
    let output = watching.until("end");
    let want = lines([(ADDED, "d\\open"), (REMOVED, "d\\open"), (ADDED, "end")]);
    assert_eq!(names(&output), want);
    server.stop();
}

#[test]
fn a_change_by_a_program_of_the_host_is_reported_once() {
    check_change_by_a_program(&TestServer::start());
}

/// Without the privileges for fanotify, by inotify, which does not say who made a change.
#[test]
fn a_server_without_privileges_reports_everything_once_as_well() {
    let server = Setup::new().share("data", "").run_as_somebody().start();
    check_change_by_a_program(&server);
    let watching = watch_host(&server);
    fs::write(server.client_folder("work").join("p"), "data").expect("there is space");
    server.client().run("data", &["put p", "rename p q", "del q"]).succeeds();
    // Later than what inotify says of that would be told.
    touch(&server.share_path("data").join("last"));
    let want = lines([(ADDED, "p"), (OLD_NAME, "p"), (NEW_NAME, "q"), (REMOVED, "q")]);
    let output = watching.until("last");
    assert_eq!(names(&output[..output.len() - 1]), want);
    server.stop();
}

#[track_caller]
fn check_change_by_a_program(server: &TestServer) {
    let watching = watch_host(server);
    let path = |name| server.share_path("data").join(name);
    fs::create_dir(path("d")).expect("it is new");
    touch(&path("f"));
    // inotify sees what is done in a new directory only once that is watched as well.
    let mut output = watching.until("f");
    fs::rename(path("f"), path("g")).expect("it is ours");
    fs::rename(path("g"), path("d/g")).expect("it is ours");
    fs::remove_file(path("d/g")).expect("it is ours");
    touch(&path("end"));
    output.extend(watching.until("end"));
    let want = lines([
        (ADDED, "d"),
        (ADDED, "f"),
        (OLD_NAME, "f"),
        (NEW_NAME, "g"),
        (REMOVED, "g"),
        (ADDED, "d\\g"),
        (REMOVED, "d\\g"),
        (ADDED, "end"),
    ]);
    assert_eq!(names(&output), want);
    drop(watching);
    wait_for_watches(server, 0);
}

#[test]
fn without_kernel_change_notify_clients_alone_are_heard() {
    let server = Setup::new().share("data", "kernel change notify = no").start();
    let watching = watch(&server);
    touch(&server.share_path("data").join("unheard"));
    server.client().run("data", &["mkdir end"]).succeeds();
    assert_eq!(watching.until("end"), lines([(ADDED, "end")]));
    server.stop();
}

#[test]
fn without_change_notify_nothing_is_watched() {
    let server = Setup::new().global("change notify = no").share("data", "").start();
    let refused = server.client().run("data", &["notify \\"]);
    refused.fails("NT_STATUS_NOT_IMPLEMENTED");
    assert_eq!(server.server().notifyd(), None);
    server.stop();
}

#[test]
fn a_worker_that_is_killed_watches_no_longer() {
    let server = TestServer::start();
    let watching = watch(&server);
    for worker in server.server().workers() {
        signal_process(worker, Signal::KILL);
    }
    wait_for_watches(&server, 0);
    drop(watching);
    server.stop();
}

/// Watchers go on, and are told that changes may have been missed.
#[test]
fn a_killed_notifyd_is_replaced_and_watchers_go_on() {
    let server = TestServer::start();
    let watching = watch(&server);
    let first = server.server().notifyd().expect("it runs");
    signal_process(first, Signal::KILL);
    wait_until(
        || server.server().notifyd().is_some_and(|pid| pid != first),
        || "there is no other".to_owned(),
    );
    assert_eq!(watching.until("ENUM_DIR"), ["NOTIFY_ENUM_DIR"]);
    wait_for_watches(&server, 1);
    wait_for_host(&server, &watching);
    server.client().run("data", &["mkdir after"]).succeeds();
    touch(&server.share_path("data").join("end"));
    let output = watching.until("end");
    assert_eq!(names(&output), lines([(ADDED, "after"), (ADDED, "end")]));
    server.server().wait_for_log(&format!("notifyd (pid {first}) was killed by signal 9"));
    server.stop();
}
