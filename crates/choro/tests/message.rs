//! `choro message` against a running server.

mod harness;

use std::fs;
use std::net::TcpStream;
use std::process;

use bench::client::requests::{Purpose, open};
use bench::client::{Client, Protection, Slot};
use dtyp::NtStatus;
use harness::choro::{Server, Site, built_executable, signal_process, text, wait_until};
use harness::{Setup, TestServer};
use messaging::TransportKind;
use rustix::process::Signal;
use serde_json::Value;
use wire::Command;
use wire::change_notify::{ChangeNotifyRequest, CompletionFilter};

/// A server with its three idle workers, `notifyd` and `logond`.
fn serve(site: &Site) -> Server {
    let server = site.serve();
    wait_until(|| is_complete(&server), || format!("{:?}", server.workers()));
    server
}

fn is_complete(server: &Server) -> bool {
    server.workers().len() == 3 && server.notifyd().is_some() && server.logond().is_some()
}

fn rows(json: &str) -> Vec<Value> {
    serde_json::from_str(json).expect("it is an array")
}

/// A client with the share `data`.
fn connect(server: &TestServer) -> Client {
    server.connect("data", Protection::Signed)
}

#[test]
fn every_process_of_the_server_answers_a_ping() {
    let site = Site::new();
    let server = serve(&site);
    let rows = rows(&site.run(&["message", "ping", "--json"]).succeeds());
    let mut pids: Vec<u64> = rows.iter().filter_map(|row| row["pid"].as_u64()).collect();
    let mut want = server.workers();
    want.extend(server.notifyd().into_iter().chain(server.logond()).chain([server.pid()]));
    pids.sort_unstable();
    want.sort_unstable();
    assert_eq!(pids, want.into_iter().map(u64::from).collect::<Vec<_>>());
    for row in rows {
        assert!(row["round_trip_us"].as_f64().is_some_and(|us| us > 0.0), "{row}");
    }
}

#[test]
fn processes_are_pinged_by_pid_and_by_kind() {
    let site = Site::new();
    let server = serve(&site);
    let pinged = |target: &str| -> Vec<String> {
        let rows = rows(&site.run(&["message", "ping", target, "--json"]).succeeds());
        rows.iter().map(|row| row["process"].as_str().expect("a text").to_owned()).collect()
    };
    assert_eq!(pinged(&server.pid().to_string()), ["supervisor"]);
    assert_eq!(pinged(&server.workers()[0].to_string()), ["idle_worker"]);
    assert_eq!(pinged("supervisor"), ["supervisor"]);
    assert_eq!(pinged("notifyd"), ["notifyd"]);
    assert_eq!(pinged("logond"), ["logond"]);
    assert_eq!(pinged("workers"), ["idle_worker"; 3]);
}

#[test]
fn a_process_that_is_stopped_is_named_and_the_others_answer() {
    let site = Site::new();
    let server = serve(&site);
    let stopped = server.workers()[0];
    signal_process(stopped, Signal::STOP);
    let outcome = site.run(&["message", "--timeout", "1", "ping", "all"]);
    let shown = outcome.output();
    let error = outcome.fails(1);
    signal_process(stopped, Signal::CONT);
    assert_eq!(error, format!("choro: no answer from idle worker {stopped}\n"));
    assert_eq!(shown.matches(" ms").count(), 5, "{shown}");
    assert_eq!(shown.matches("no answer").count(), 1, "{shown}");
}

#[test]
fn a_supervisor_that_is_stopped_is_named() {
    let site = Site::new();
    let server = serve(&site);
    server.signal(Signal::STOP);
    let error = site.run(&["message", "--timeout", "0.5", "ping"]).fails(1);
    server.signal(Signal::CONT);
    let want =
        format!("choro: the supervisor (pid {}) did not answer within 0.5 s\n", server.pid());
    assert_eq!(error, want);
}

#[test]
fn a_pid_of_another_program_is_refused() {
    let site = Site::new();
    let _server = serve(&site);
    let other = process::id().to_string();
    let error = site.run(&["message", "ping", &other]).fails(1);
    assert!(error.contains(&format!("no process of the server has the pid {other}")), "{error}");
    let error = site.run(&["message", "ping", "smbd"]).fails(2);
    assert!(
        error.contains("expected a pid, all, logond, notifyd, supervisor or workers"),
        "{error}"
    );
}

#[test]
fn without_a_server_there_is_nobody_to_ask() {
    let site = Site::new();
    for arguments in [&["ping"][..], &["list"], &["reload"], &["stats"], &["close-share", "data"]] {
        let error = site.run(&[&["message"], arguments].concat()).fails(1);
        assert_eq!(error, "choro: no server is running\n");
    }
}

#[test]
fn somebody_else_may_not_send_messages_and_is_told_so() {
    let mut site = Site::new();
    let server = serve(&site);
    if !rustix::process::geteuid().is_root() {
        return;
    }
    site.run_as_somebody();
    // They may reach the directories, and nothing else.
    let error = site.run(&["message", "ping"]).fails(1);
    assert!(
        error.contains("only the user that the server runs as may send it messages"),
        "{error}"
    );
    drop(server);
}

#[test]
fn a_server_of_a_user_is_asked_by_that_user_and_root_is_told_so() {
    let mut site = Site::new();
    site.run_as_somebody();
    let _server = serve(&site);
    let rows = rows(&site.run(&["message", "ping", "--json"]).succeeds());
    assert_eq!(rows.len(), 6, "{rows:?}");
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let mut command = process::Command::new(built_executable());
    command.arg("--config").arg(site.path("smb.conf")).args(["message", "ping"]);
    let output = command.output().expect("it starts");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("run this as the user that the server runs as"), "{error}");
}

#[test]
fn a_command_leaves_no_files_behind() {
    let site = Site::new();
    let server = serve(&site);
    site.run(&["message", "ping"]).succeeds();
    let pid_of = |socket: &str| socket.split_once('-')?.0.parse().ok();
    let left: Vec<u32> = fs::read_dir(site.path("lock/msg"))
        .expect("it exists")
        .filter_map(|entry| pid_of(entry.ok()?.file_name().to_str()?))
        .collect();
    let helpers = server.notifyd().into_iter().chain(server.logond());
    let all: Vec<u32> = server.workers().into_iter().chain(helpers).chain([server.pid()]).collect();
    assert!(left.contains(&server.pid()), "{left:?}");
    assert!(left.iter().all(|pid| all.contains(pid)), "{left:?} of {all:?}");
}

/// One that was killed can remove nothing.
#[test]
fn a_command_removes_the_files_of_a_killed_command() {
    let site = Site::new();
    let server = serve(&site);
    server.signal(Signal::STOP);
    let mut killed =
        site.command(&["message", "--timeout", "60", "ping"]).spawn().expect("it runs");
    let name = format!("{}-", killed.id());
    let sockets = || {
        let entries = fs::read_dir(site.path("lock/msg")).expect("it exists");
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        names.filter(|other| other.starts_with(&name)).count()
    };
    wait_until(|| sockets() == 1, || "it has no socket".to_owned());
    killed.kill().expect("it runs");
    killed.wait().expect("ours");
    server.signal(Signal::CONT);
    assert_eq!(sockets(), 1);
    site.run(&["message", "ping"]).succeeds();
    assert_eq!(sockets(), 0);
}

#[test]
fn the_list_tells_workers_with_clients_from_those_that_wait() {
    let server = Setup::new().share("data", "").start();
    let client = connect(&server);
    let local = format!("127.0.0.1:{}", client.local_port().expect("it is connected"));
    let rows = rows(&server.site().run(&["message", "list", "--json"]).succeeds());
    let of = |role: &str| rows.iter().filter(|row| row["process"] == role).collect::<Vec<_>>();
    assert_eq!((of("supervisor").len(), of("worker").len()), (1, 1), "{rows:?}");
    assert_eq!(of("worker")[0]["client_address"], local.as_str());
    assert!(of("idle_worker").iter().all(|row| row["client_address"].is_null()), "{rows:?}");
    let table = server.site().run(&["message", "list"]).succeeds();
    assert!(table.lines().any(|line| line.contains("worker") && line.ends_with(&local)), "{table}");
}

#[test]
fn a_broadcast_is_in_the_log_once_for_each_process() {
    let site = Site::new();
    let data = site.path("data");
    let share = format!("[data]\npath = {}\n", data.display());
    // Whatever the detail is.
    site.write_config_with("log level = 0\n", &share);
    let mut child = site.command(&["serve"]);
    let log = fs::File::create(site.path("log")).expect("there is space");
    let mut child = child.stderr(log).spawn().expect("it starts");
    let ping = || site.run(&["message", "--timeout", "1", "ping", "--json"]);
    wait_until(
        || {
            let outcome = ping();
            outcome.is_success() && rows(&outcome.succeeds()).len() == 6
        },
        || ping().error(),
    );
    let printed = site.run(&["message", "broadcast", "the \"test\" begins"]).succeeds();
    let log = fs::read_to_string(site.path("log")).expect("it was written");
    signal_process(child.id(), Signal::TERM);
    child.wait().expect("it is our child");
    assert_eq!(printed, "6 processes wrote it to the log.\n");
    assert_eq!(log.matches(r#"announcement: "the \"test\" begins""#).count(), 6, "{log}");
}

#[test]
fn a_line_with_line_breaks_is_not_broadcast() {
    let site = Site::new();
    let error = site.run(&["message", "broadcast", "one\ntwo"]).fails(2);
    assert!(
        error.contains("the text must not contain control characters or line breaks"),
        "{error}"
    );
}

#[test]
fn a_reload_is_over_when_the_command_is() {
    let site = Site::new();
    let server = serve(&site);
    site.write_config(&format!("[later]\npath = {}\n", site.path("data").display()));
    let printed = site.run(&["message", "reload"]).succeeds();
    assert_eq!(printed, "The configuration was reloaded and is in effect.\n");
    let effective = fs::read_to_string(site.path("lock/smb.conf.effective")).expect("it is kept");
    assert!(effective.contains("[later]"), "{effective}");
    server.wait_for_log("configuration 2 is in effect");
}

#[test]
fn a_reload_says_that_there_are_warnings() {
    let site = Site::new();
    let _server = serve(&site);
    let folder = site.path("data").display().to_string();
    for (lines, want) in [
        ("raed only = no\n", "There is a warning: see the log, or `choro check`.\n"),
        (
            "raed only = no\nguset ok = no\n",
            "There are 2 warnings: see the log, or `choro check`.\n",
        ),
    ] {
        site.write_config(&format!("[later]\npath = {folder}\n{lines}"));
        let printed = site.run(&["message", "reload"]).succeeds();
        assert_eq!(printed, format!("The configuration was reloaded and is in effect. {want}"));
    }
}

#[test]
fn a_reload_of_a_broken_configuration_says_why_and_changes_nothing() {
    let site = Site::new();
    let server = serve(&site);
    let before = fs::read_to_string(site.path("smb.conf")).expect("it was written");
    let other = before.replace("lock directory", "state directory = /tmp\nlock directory");
    fs::write(site.path("smb.conf"), other).expect("it is ours");
    let error = site.run(&["message", "reload"]).fails(1);
    let want = "the server's directories can only be changed by a restart";
    let file = site.path("smb.conf");
    let want = format!("supervisor {}: {want}, and {} has others", server.pid(), file.display());
    assert_eq!(error, format!("choro: {want}\n"));
    fs::write(site.path("smb.conf"), before).expect("it is ours");
    site.run(&["message", "reload"]).succeeds();
}

#[test]
fn the_detail_of_the_log_changes_for_processes_that_run_and_those_that_are_started_later() {
    let site = Site::new();
    let server = serve(&site);
    site.run(&["message", "log-level", "0"]).succeeds();
    // More than wait, so that some of the workers are new.
    let quiet: Vec<TcpStream> = (0..5).map(|_| server.connect()).collect();
    let serving = || {
        let rows = rows(&site.run(&["message", "ping", "--json"]).succeeds());
        rows.iter().filter(|row| row["process"] == "worker").count()
    };
    wait_until(|| serving() == 5, || format!("{} are served", serving()));
    site.run(&["message", "log-level", "3"]).succeeds();
    let loud = server.connect();
    let address = |client: &TcpStream| client.local_addr().expect("it is connected").to_string();
    server.wait_for_log(&format!("{} connected", address(&loud)));
    for client in &quiet {
        assert!(!server.log().contains(&address(client)), "{}", server.log());
    }
}

#[test]
fn closing_a_share_disconnects_its_clients_and_leaves_others() {
    let server = Setup::new().share("data", "").share("other", "").start();
    let (mut first, mut second) = (connect(&server), connect(&server));
    open(&mut first, Purpose::NewFile, "file").expect("the share is writable");
    let printed = server.site().run(&["message", "close-share", "other"]).succeeds();
    assert_eq!(printed, "0 tree connects were closed.\n");
    open(&mut first, Purpose::Stat, "file").expect("it is another share");
    let printed = server.site().run(&["message", "close-share", "DATA"]).succeeds();
    assert_eq!(printed, "2 tree connects were closed.\n");
    for client in [&mut first, &mut second] {
        let refused = open(client, Purpose::Stat, "file").expect_err("it is disconnected");
        let refused = format!("{refused:#}");
        assert!(refused.contains("NETWORK_NAME_DELETED"), "{refused}");
    }
    let status = server.site().run(&["status", "--json"]).succeeds();
    let left = rows(&status).into_iter().filter(|row| row["kind"] == "open").count();
    assert_eq!(left, 0, "{status}");
    // The share itself is as it was.
    open(&mut connect(&server), Purpose::Stat, "file").expect("it can be connected again");
}

#[test]
fn a_request_that_waits_in_a_share_that_is_closed_is_answered() {
    let server = Setup::new().share("data", "").start();
    // A `notifyd` that has just begun sends those who watch already to look for themselves; that is
    // over when it answers, and the supervisor after it.
    for process in ["notifyd", "supervisor"] {
        wait_until(
            || server.site().run(&["message", "ping", process]).is_success(),
            || format!("{process} does not answer"),
        );
    }
    let mut client = connect(&server);
    let root = open(&mut client, Purpose::List, "").expect("a share has a root");
    let request = ChangeNotifyRequest {
        output_buffer_length: 4096,
        file_id: root,
        completion_filter: CompletionFilter::FILE_NAME,
        ..ChangeNotifyRequest::default()
    };
    client.push(Command::CHANGE_NOTIFY, 4096, &request);
    client.flush(Slot(0)).expect("it is connected");
    server.site().run(&["message", "close-share", "data"]).succeeds();
    let reply = client.receive().expect("an answer");
    assert_eq!(reply.header.command, Command::CHANGE_NOTIFY);
    // [MS-SMB2] 3.3.5.19: what is said when a watched directory is closed.
    assert_eq!(reply.header.status, NtStatus::NOTIFY_CLEANUP);
}

#[test]
fn a_star_is_all_shares() {
    let server = Setup::new().share("data", "").start();
    let _client = connect(&server);
    let printed = server.site().run(&["message", "close-share", "*"]).succeeds();
    assert_eq!(printed, "1 tree connects were closed.\n");
}

#[test]
fn closing_a_share_that_does_not_exist_is_an_error() {
    let site = Site::new();
    let _server = serve(&site);
    let error = site.run(&["message", "close-share", "nothing"]).fails(1);
    let want = "nobody is connected to a share \"nothing\", and the configuration has none";
    assert_eq!(error, format!("choro: {want}\n"));
}

#[test]
fn a_home_that_nobody_is_connected_to_is_closed_all_the_same() {
    let server = Setup::new().share("homes", "path = %FOLDER/%S").start();
    let printed = server.site().run(&["message", "close-share", "anna"]).succeeds();
    assert_eq!(printed, "0 tree connects were closed.\n");
    server.stop();
}

#[test]
fn processes_are_asked_over_every_messaging_type() {
    for kind in TransportKind::BUILT {
        let site = Site::new();
        let global = format!("messaging type = {}\n", kind.name());
        site.write_config_with(&global, &format!("[data]\npath = {}\n", text(&site.path("data"))));
        let server = serve(&site);
        let rows = rows(&site.run(&["message", "stats", "--json"]).succeeds());
        assert_eq!(rows.len(), 6, "{rows:?}");
        for row in &rows {
            assert_eq!(row["transport"], kind.name(), "{row}");
        }
        // The type in effect counts, whatever the file says by now.
        let config = fs::read_to_string(site.path("smb.conf")).expect("it was written");
        let other = TransportKind::BUILT.iter().find(|other| *other != kind).unwrap_or(kind);
        let changed = config.replace(&global, &format!("messaging type = {}\n", other.name()));
        fs::write(site.path("smb.conf"), changed).expect("it is ours");
        site.run(&["message", "ping"]).succeeds();
        // The next server takes what the file says, and leaves nothing of what was before.
        let has_records = || site.path("lock/messages.tdb").exists();
        assert_eq!(has_records(), *kind == TransportKind::Tdb);
        server.stop();
        let _server = serve(&site);
        site.run(&["message", "ping"]).succeeds();
        assert_eq!(has_records(), *other == TransportKind::Tdb);
    }
}

#[test]
fn counters_grow_with_the_messages() {
    let site = Site::new();
    let server = serve(&site);
    let pid = server.pid().to_string();
    let counted = || rows(&site.run(&["message", "stats", &pid, "--json"]).succeeds()).remove(0);
    let before = counted();
    assert_eq!(before["process"], "supervisor");
    assert_eq!(before["transport"], TransportKind::DEFAULT.name());
    site.run(&["message", "ping", &pid]).succeeds();
    let after = counted();
    for name in ["sent", "received", "bytes_sent", "bytes_received"] {
        let grown = |row: &Value| row[name].as_u64().unwrap_or_else(|| panic!("{name}: {row}"));
        assert!(grown(&after) > grown(&before), "{name}: {before} {after}");
    }
    for name in ["queued", "retries", "dropped"] {
        assert!(after[name].is_u64(), "{name}: {after}");
    }
    let steps = after.as_object().expect("it is one").iter();
    let steps = steps.filter(|(name, _)| name.starts_with("latency_below_"));
    let counted: u64 = steps.filter_map(|(_, count)| count.as_u64()).sum();
    assert_eq!(after["received"], counted, "{after}");
    let table = site.run(&["message", "stats"]).succeeds();
    let transport = format!(", transport {}\n", TransportKind::DEFAULT.name());
    assert_eq!(table.matches(&transport).count(), 6, "{table}");
    assert!(table.lines().any(|line| line.starts_with("bytes received ")), "{table}");
}
