//! The supervisor and its workers, as processes.

mod choro;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixDatagram;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use choro::{Over, PATIENCE, Site, is_alive, signal_process, text, wait_until};
use rustix::process::Signal;

/// Whether the server has closed the connection.
fn is_closed(mut client: &TcpStream) -> bool {
    client.set_read_timeout(Some(PATIENCE)).expect("it is a socket");
    matches!(client.read(&mut [0; 16]), Ok(0) | Err(_))
}

#[test]
fn directories_are_made_with_the_modes_they_need() {
    let site = Site::new();
    let _server = site.serve();
    let mode =
        |name| fs::metadata(site.path(name)).expect("it exists").permissions().mode() & 0o777;
    assert_eq!(mode("private"), 0o700);
    for name in ["state", "lock", "run", "cache"] {
        assert_eq!(mode(name) & 0o022, 0, "{name}");
    }
}

/// RFC 1002 4.3: a client that comes by way of NetBIOS sends names first.
#[test]
fn a_netbios_session_request_is_confirmed() {
    let site = Site::new();
    let server = site.serve();
    let mut client = server.connect();
    client.set_read_timeout(Some(PATIENCE)).expect("it is a socket");
    let mut request = vec![0x81, 0, 0, 68];
    request.resize(4 + 68, b'A');
    client.write_all(&request).expect("it is read");
    let mut response = [0; 4];
    client.read_exact(&mut response).expect("it is answered");
    assert_eq!(response, [0x82, 0, 0, 0]);
}

#[test]
fn a_second_server_on_the_same_directories_is_refused() {
    let site = Site::new();
    let server = site.serve();
    let error = site.run(&["serve"]).fails(1);
    assert!(
        error.contains(&format!("a server is running already (pid {}", server.pid())),
        "{error}"
    );
    // The first one has not noticed.
    server.idle_workers();
    server.connect();
}

#[test]
fn the_lock_directory_alone_cannot_be_shared_either() {
    let site = Site::new();
    let _server = site.serve();
    let config = fs::read_to_string(site.path("smb.conf")).expect("it was written");
    let other = config.replace(&text(&site.path("run")), &text(&site.path("run2")));
    fs::write(site.path("smb.conf"), other).expect("it is ours");
    let error = site.run(&["serve"]).fails(1);
    assert!(error.contains("a server runs already"), "{error}");
}

#[test]
fn two_servers_run_side_by_side() {
    let (first, second) = (Site::new(), Site::new());
    let (first, second) = (first.serve(), second.serve());
    first.idle_workers();
    second.idle_workers();
}

#[test]
fn sigterm_ends_the_server_its_workers_and_its_pid_file() {
    let site = Site::new();
    let server = site.serve();
    let workers = server.idle_workers();
    let client = server.connect();
    let pid = fs::read_to_string(site.path("run/choro.pid")).expect("it is written");
    assert_eq!(pid.trim(), server.pid().to_string());
    let (code, took) = server.stop();
    assert_eq!(code, Some(0));
    assert!(took < Duration::from_secs(8), "workers had to be killed: {took:?}");
    assert!(is_closed(&client));
    assert!(workers.iter().all(|&worker| !is_alive(worker)));
    assert!(!site.path("run/choro.pid").exists());
}

#[test]
fn a_worker_that_hangs_is_killed_when_the_server_stops() {
    let site = Site::new();
    let server = site.serve();
    let workers = server.idle_workers();
    signal_process(workers[0], Signal::STOP);
    let (code, took) = server.stop();
    assert_eq!(code, Some(0));
    assert!(took >= Duration::from_secs(10), "it was not waited for: {took:?}");
    assert!(!is_alive(workers[0]));
}

#[test]
fn workers_die_with_the_supervisor() {
    let site = Site::new();
    let server = site.serve();
    let workers = server.idle_workers();
    let _client = server.connect();
    server.signal(Signal::KILL);
    wait_until(
        || workers.iter().all(|&worker| !is_alive(worker)),
        || "workers outlive their supervisor".to_owned(),
    );
    // Nothing is left that would keep the next server from starting.
    drop(server);
    site.serve().idle_workers();
}

/// A worker may have served its client and gone before the supervisor has heard that it started.
#[test]
fn clients_that_leave_at_once_hold_nobody_up() {
    let site = Site::new();
    let server = site.serve();
    for _ in 0..60 {
        drop(server.connect());
    }
    // Behind closed connections, an open one is served.
    let _client = server.connect();
    wait_until(|| server.workers().len() == 4, || server.log());
    assert!(!server.log().contains("next worker starts in"), "{}", server.log());
}

#[test]
fn a_worker_killed_with_a_client_harms_no_other_client() {
    let site = Site::new();
    let server = site.serve();
    let before = server.idle_workers();
    let first = server.connect();
    wait_until(|| server.workers().len() == 4, || format!("{:?}", server.workers()));
    // Of those that wait, none stays.
    server.signal(Signal::HUP);
    let serving = || before.iter().copied().filter(|&worker| is_alive(worker)).collect::<Vec<_>>();
    wait_until(|| serving().len() == 1, || format!("{before:?} {:?}", server.workers()));
    let of_first = serving()[0];
    wait_until(|| server.workers().len() == 4, || format!("{:?}", server.workers()));
    let second = server.connect();
    wait_until(|| server.workers().len() == 5, || format!("{:?}", server.workers()));
    signal_process(of_first, Signal::KILL);
    server.wait_for_log(&format!("worker {of_first} was killed by signal 9"));
    assert!(is_closed(&first));
    second.set_read_timeout(Some(Duration::from_millis(200))).expect("it is a socket");
    let error = (&second).read(&mut [0]).expect_err("nothing is sent and nothing is closed");
    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
    assert_eq!(site.run(&["status", "--json"]).succeeds().trim(), "[]");
}

/// A client that stays: smbclient that waits for its next command.
struct StayingClient {
    child: Child,
    commands: Option<ChildStdin>,
}

impl StayingClient {
    fn connect(site: &Site) -> Self {
        let authentication = site.path("smbclient-user");
        fs::write(&authentication, "username = tester\npassword = secret\n").expect("it is ours");
        let mut child = Command::new("smbclient")
            .arg(format!("//{}/data", site.address().ip()))
            .args(["-p", &site.address().port().to_string(), "-A"])
            .arg(authentication)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("smbclient is installed");
        Self { commands: child.stdin.take(), child }
    }
}

impl Drop for StayingClient {
    fn drop(&mut self) {
        drop(self.commands.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Objects of one kind in `choro status --json`.
fn status(site: &Site, kind: &str) -> Vec<serde_json::Value> {
    let rows: Vec<serde_json::Value> =
        serde_json::from_str(&site.run(&["status", "--json"]).succeeds()).expect("it is JSON");
    rows.into_iter().filter(|row| row["kind"] == kind).collect()
}

fn site_with_a_user() -> Site {
    let site = Site::new();
    let data = text(&site.path("data"));
    // Not root: everything is ours in any case.
    let force = if rustix::process::geteuid().is_root() { "force user = root\n" } else { "" };
    site.write_config(&format!("[data]\npath = {data}\nread only = no\n{force}"));
    site.run_with_input(&["user", "add", "tester", "--password-stdin"], "secret\n").succeeds();
    site
}

#[test]
fn a_killed_worker_leaves_no_stale_entry_and_harms_no_other_client() {
    let site = site_with_a_user();
    let _server = site.serve();
    let _clients = [StayingClient::connect(&site), StayingClient::connect(&site)];
    wait_until(|| status(&site, "tree_connect").len() == 2, || site.run(&["status"]).succeeds());
    assert_eq!(status(&site, "client").len(), 2);
    let sessions = status(&site, "session");
    assert_eq!(sessions.len(), 2);
    for session in &sessions {
        assert_eq!((&session["user"], &session["dialect"]), (&"tester".into(), &"3.1.1".into()));
    }
    let [killed, other] = [0, 1].map(|index| sessions[index]["pid"].as_u64().expect("a number"));
    assert_ne!(killed, other, "each client has a worker of its own");
    signal_process(u32::try_from(killed).expect("a pid"), Signal::KILL);
    for kind in ["client", "session", "tree_connect"] {
        wait_until(|| status(&site, kind).len() == 1, || site.run(&["status"]).succeeds());
        assert_eq!(status(&site, kind)[0]["pid"], other);
    }
}

/// Having acted as a user, a worker has lost the signal that the kernel sends when its parent dies:
/// prctl(2), PR_SET_PDEATHSIG.
#[test]
fn a_worker_that_serves_a_session_dies_with_the_supervisor() {
    let site = site_with_a_user();
    let server = site.serve();
    let _client = StayingClient::connect(&site);
    wait_until(|| !status(&site, "tree_connect").is_empty(), || server.log());
    let worker = status(&site, "session")[0]["pid"].as_u64().expect("a number");
    let worker = u32::try_from(worker).expect("a pid");
    server.signal(Signal::KILL);
    wait_until(|| !is_alive(worker), || "it outlives its supervisor".to_owned());
}

#[test]
fn status_is_a_table_for_people() {
    let site = site_with_a_user();
    let server = site.serve();
    let _client = StayingClient::connect(&site);
    wait_until(|| !status(&site, "tree_connect").is_empty(), || server.log());
    let status = site.run(&["status"]).succeeds();
    assert!(status.starts_with(&format!("Choro is running (pid {}).", server.pid())), "{status}");
    for expected in ["Clients: 1", "Sessions: 1", "Tree connects: 1", "tester", "127.0.0.1:"] {
        assert!(status.contains(expected), "{status}");
    }
}

#[test]
fn a_broken_configuration_changes_nothing() {
    let site = Site::new();
    let server = site.serve();
    server.idle_workers();
    let good = fs::read_to_string(site.path("smb.conf")).expect("it was written");
    fs::write(site.path("smb.conf"), "[global\n").expect("it is ours");
    server.signal(Signal::HUP);
    server.wait_for_log("the old configuration stays in effect");
    // Also workers that start now have it: more clients than there were idle workers.
    let _clients: Vec<TcpStream> = (0..5).map(|_| server.connect()).collect();
    wait_until(|| server.workers().len() == 8, || server.log());
    assert!(!server.log().contains("before it had a client"), "{}", server.log());
    fs::write(site.path("smb.conf"), good).expect("it is ours");
    server.signal(Signal::HUP);
    server.wait_for_log("configuration 2 is in effect");
}

#[test]
fn a_reload_replaces_idle_workers_and_keeps_clients() {
    let site = Site::new();
    let server = site.serve();
    let idle = server.idle_workers();
    let client = server.connect();
    wait_until(|| server.workers().len() == 4, || format!("{:?}", server.workers()));
    site.write_config("[other]\npath = /srv\n");
    server.signal(Signal::HUP);
    server.wait_for_log("configuration 2 is in effect");
    wait_until(
        // The one that stays serves the client.
        || {
            idle.iter().filter(|&&worker| is_alive(worker)).count() == 1
                && server.workers().len() == 4
        },
        || format!("{idle:?} {:?}", server.workers()),
    );
    client.set_read_timeout(Some(Duration::from_millis(100))).expect("it is a socket");
    assert!((&client).read(&mut [0]).is_err_and(|e| e.kind() == std::io::ErrorKind::WouldBlock));
    let effective =
        fs::read_to_string(site.path("lock/smb.conf.effective")).expect("it was written");
    assert!(effective.contains("[other]") && !effective.contains("[data]"), "{effective}");
}

#[test]
fn a_reload_finds_its_ports_free_while_workers_are_being_made() {
    let site = Site::new();
    let server = site.serve();
    let narrow = fs::read_to_string(site.path("smb.conf")).expect("it was written");
    let is_wide = |line: &&str| !line.contains("interfaces");
    let wide: String = narrow.lines().filter(is_wide).flat_map(|line| [line, "\n"]).collect();
    assert_ne!(narrow, wide);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        // Each of these clients costs a worker.
        let come_and_go = || {
            while !is_over.load(Ordering::Relaxed) {
                let _ = TcpStream::connect(site.address());
            }
        };
        scope.spawn(come_and_go);
        let _over = Over(&is_over);
        for number in 2..30 {
            let text = if number % 2 == 0 { &wide } else { &narrow };
            fs::write(site.path("smb.conf"), text).expect("it is ours");
            server.signal(Signal::HUP);
            server.wait_for_log(&format!("configuration {number} is in effect"));
        }
    });
    assert!(!server.log().contains("cannot listen"), "{}", server.log());
    server.connect();
}

/// As logrotate does it: rename, SIGHUP.
#[test]
fn a_reload_opens_the_log_file_again_and_sets_its_level() {
    let site = Site::new();
    let log = site.path("log");
    let global = |level| format!("log file = {}\nlog level = {level}\n", text(&log));
    site.write_config_with(&global(1), "");
    let mut child = site.command(&["serve"]).stderr(Stdio::null()).spawn().expect("it starts");
    let contains = |path: &str, text: &str| {
        fs::read_to_string(site.path(path)).is_ok_and(|log| log.contains(text))
    };
    wait_until(|| contains("log", "listening on"), || "it does not listen".to_owned());
    fs::rename(&log, site.path("log.1")).expect("it is ours");
    site.write_config_with(&global(3), "");
    signal_process(child.id(), Signal::HUP);
    wait_until(|| contains("log", "configuration 2 is in effect"), || "no new file".to_owned());
    let _client = TcpStream::connect(site.address()).expect("it listens");
    wait_until(|| contains("log", "DEBUG"), || "the level is the old one".to_owned());
    assert!(!contains("log.1", "configuration 2") && !contains("log.1", "DEBUG"));
    signal_process(child.id(), Signal::TERM);
    assert!(child.wait().expect("it is our child").success());
}

/// As Samba does it: `max log size` and the suffix `.old`.
#[test]
fn a_log_file_that_is_too_long_is_renamed_and_every_process_writes_to_the_new_one() {
    let site = Site::new();
    let global = format!("log file = {}\nmax log size = 1\n", text(&site.path("log")));
    site.write_config_with(&global, "");
    let mut child = site.command(&["serve"]).stderr(Stdio::null()).spawn().expect("it starts");
    let content = |name: &str| fs::read_to_string(site.path(name)).unwrap_or_default();
    wait_until(|| content("log").contains("listening on"), || "it does not listen".to_owned());
    let _client = TcpStream::connect(site.address()).expect("it listens");
    let broadcast = |text: &str| drop(site.run(&["message", "broadcast", text]).succeeds());
    let long = "x".repeat(400);
    broadcast(&long);
    wait_until(|| content("log.old").contains(&long), || content("log"));
    let mut number = 0;
    wait_until(
        || {
            number += 1;
            let line = format!("line {number} of all processes");
            broadcast(&line);
            // Supervisor, notifyd, and at least two workers.
            content("log").matches(&line).count() >= 4 && !content("log.old").contains(&line)
        },
        || content("log"),
    );
    signal_process(child.id(), Signal::TERM);
    assert!(child.wait().expect("it is our child").success());
    assert!(content("log").contains("stopped"), "the supervisor writes to the new one");
}

#[test]
fn server_smb_transports_name_the_ports_to_listen_on() {
    let (site, other) = (Site::new(), Site::new());
    let ports = [&site, &other].map(|it| it.address().port());
    let line = format!("server smb transports = tcp:{}, nbt:{}\n", ports[0], ports[1]);
    site.write_config_with(&line, "");
    let server = site.serve();
    let client = TcpStream::connect(other.address()).expect("it listens on both");
    drop((client, server.connect()));
    let shown = site.run(&["check"]).succeeds();
    assert!(shown.contains(&format!("smb ports = {} {}", ports[0], ports[1])), "{shown}");
}

#[test]
fn directories_cannot_be_changed_by_a_reload() {
    let site = Site::new();
    let server = site.serve();
    let config = fs::read_to_string(site.path("smb.conf")).expect("it was written");
    let other = config.replace(&text(&site.path("lock")), &text(&site.path("lock2")));
    fs::write(site.path("smb.conf"), other).expect("it is ours");
    server.signal(Signal::HUP);
    server.wait_for_log("can only be changed by a restart");
    assert!(!site.path("lock2").exists());
}

#[test]
fn clients_beyond_max_smbd_processes_are_turned_away() {
    let site = Site::new();
    site.write_config_with("max smbd processes = 2\n", "");
    let server = site.serve();
    let kept = [server.connect(), server.connect()];
    wait_until(|| server.workers().len() == 5, || format!("{:?}", server.workers()));
    assert!(is_closed(&server.connect()));
    server.wait_for_log("`max smbd processes`");
    drop(kept);
    wait_until(|| server.workers().len() == 3, || format!("{:?}", server.workers()));
    let _client = server.connect();
    wait_until(|| server.workers().len() == 4, || format!("{:?}", server.workers()));
}

#[test]
fn a_client_is_not_turned_away_for_one_that_has_left() {
    let site = Site::new();
    site.write_config_with("max smbd processes = 1\n", "");
    let server = site.serve();
    let kept = server.connect();
    wait_until(|| server.workers().len() == 4, || format!("{:?}", server.workers()));
    // The stopped supervisor finds a new client and the end of the other one's worker at the same
    // time, in this order.
    server.signal(Signal::STOP);
    drop(kept);
    wait_until(|| server.workers().len() == 3, || format!("{:?}", server.workers()));
    let _client = server.connect();
    server.signal(Signal::CONT);
    wait_until(|| server.workers().len() == 4, || format!("{:?}", server.workers()));
}

#[test]
fn a_client_is_not_given_to_a_worker_that_has_ended() {
    let site = Site::new();
    site.write_config_with("log level = 3\n", "");
    let server = site.serve();
    let idle = server.idle_workers();
    // It finds the client and the end of all its workers at the same time, in this order.
    server.signal(Signal::STOP);
    for worker in idle {
        signal_process(worker, Signal::KILL);
        wait_until(|| !is_alive(worker), || format!("{worker} lives"));
    }
    let client = server.connect();
    server.signal(Signal::CONT);
    let address = client.local_addr().expect("it is connected");
    server.wait_for_log(&format!("{address} connected"));
}

#[test]
fn clients_that_hosts_deny_names_never_meet_a_worker() {
    let site = Site::new();
    site.write_config_with("hosts deny = ALL\n", "");
    let server = site.serve();
    let workers = server.idle_workers();
    assert!(is_closed(&server.connect()));
    server.wait_for_log("refused by `hosts allow` or `hosts deny`");
    assert_eq!(server.workers(), workers);
}

/// Any number of strangers can come any number of times: the disk is not theirs to fill.
#[test]
fn invalid_frames_of_strangers_leave_no_line_in_the_log() {
    let site = Site::new();
    let server = site.serve();
    server.idle_workers();
    let before = server.log();
    for bytes in [&b""[..], b"GET / HTTP/1.1\r\n\r\n", &[0, 0, 0, 1, 0xff], &[0; 128], &[0xff; 128]]
    {
        let mut client = server.connect();
        // The server may be done with it already.
        let _ = client.write_all(bytes);
        let _ = client.shutdown(std::net::Shutdown::Write);
        assert!(is_closed(&client));
    }
    let is_over = || server.workers().len() == 3;
    wait_until(is_over, || format!("{:?}", server.workers()));
    assert_eq!(server.log(), before);
}

#[test]
fn a_port_in_use_is_named_and_nothing_is_left_behind() {
    let site = Site::new();
    let _other = std::net::TcpListener::bind(site.address()).expect("it is free");
    let error = site.run(&["serve"]).fails(1);
    assert!(error.contains(&format!("cannot listen on {}", site.address())), "{error}");
    assert!(error.contains("is another SMB server running?"), "{error}");
    assert!(!site.path("run/choro.pid").exists());
}

#[test]
fn the_service_manager_is_told_when_the_server_is_ready_and_when_it_stops() {
    let site = Site::new();
    let socket = UnixDatagram::bind(site.path("notify")).expect("it is new");
    socket.set_read_timeout(Some(PATIENCE)).expect("it is a socket");
    let mut child = site
        .command(&["serve"])
        .env("NOTIFY_SOCKET", site.path("notify"))
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let mut bytes = [0; 256];
    let len = socket.recv(&mut bytes).expect("it is told");
    assert!(bytes[..len].starts_with(b"READY=1\n"));
    signal_process(child.id(), Signal::TERM);
    let len = socket.recv(&mut bytes).expect("it is told");
    assert!(bytes[..len].starts_with(b"STOPPING=1\n"));
    assert!(child.wait().expect("it is our child").success());
}

/// Session keys and password hashes must not end in a core dump, nor be read by another process of
/// the same user: the kernel gives the files of a process that must not be dumped to root. To see
/// that, the server must not be root's; it then also shows that it need not be.
#[test]
fn workers_leave_no_core_dumps_and_need_no_root() {
    let mut site = Site::new();
    site.run_as_somebody();
    let server = site.serve();
    let workers = server.idle_workers();
    let owner = |pid: u32| fs::metadata(format!("/proc/{pid}/environ")).expect("it lives").uid();
    assert_ne!(owner(server.pid()), 0);
    wait_until(
        || workers.iter().all(|&worker| owner(worker) == 0),
        || "a worker can be dumped".to_owned(),
    );
    let limits = fs::read_to_string(format!("/proc/{}/limits", workers[0])).expect("it lives");
    let core = limits.lines().find(|line| line.starts_with("Max core file size"));
    assert_eq!(core.and_then(|line| line.split_whitespace().nth(4)), Some("1"), "{limits}");
}
