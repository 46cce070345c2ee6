//! Failed logons from an administrator's view, and the names that clients may use for the server.

mod harness;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use dtyp::{Guid, NtStatus};
use harness::choro::{signal_process, wait_until};
use harness::connection::Connection;
use harness::namespace::Namespace;
use harness::session::{EVERYTHING, Session};
use harness::smbtorture::progress;
use harness::{PASSWORD, Setup, TestServer, USER};
use rustix::process::Signal;

/// Returns the output of `choro metrics`.
fn metrics(server: &TestServer) -> String {
    let mut command = server.site().command(&["metrics", "--listen", "127.0.0.1:0"]);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
    let mut line = String::new();
    let mut stdout = BufReader::new(child.stdout.take().expect("it is piped"));
    stdout.read_line(&mut line).expect("it is text");
    let address = line.trim().trim_start_matches("http://").trim_end_matches('/');
    let mut stream = TcpStream::connect(address).expect("it listens");
    let request = format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it listens");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it is text");
    signal_process(child.id(), Signal::TERM);
    child.wait().expect("it ends");
    answer
}

/// The lines about refused logons.
fn refusals(server: &TestServer) -> Vec<String> {
    let log = server.log();
    log.lines().filter(|line| line.contains("logon refused: ")).map(ToOwned::to_owned).collect()
}

/// Returns fail2ban's findings in a log with the installed filter: the number of matching lines,
/// and the addresses.
fn banned(log: &Path) -> String {
    let filter = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/fail2ban/choro.conf");
    // It includes a file that stands beside the filters of the system.
    let filters = log.with_file_name("filter.d");
    fs::create_dir_all(&filters).expect("there is space");
    fs::copy("/etc/fail2ban/filter.d/common.conf", filters.join("common.conf"))
        .expect("fail2ban is installed");
    let own = filters.join("choro.conf");
    fs::copy(filter, &own).expect("it is in the tree");
    let output = Command::new("fail2ban-regex")
        .args(["--print-all-matched", "--out", "ip"])
        .args([log, &own])
        .output()
        .expect("fail2ban is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("addresses")
}

#[test]
fn the_beginning_and_the_end_of_a_connection_name_client_user_and_process() {
    let server = Setup::new().share("data", "").global("log level = 3").start();
    server.client().run("data", &["ls"]).succeeds();
    let ended = |log: &str| -> Option<String> {
        let line =
            log.lines().find(|it| it.contains(" ended: ") && it.contains("user=\"tester\""))?;
        Some(line.to_owned())
    };
    wait_until(|| ended(&server.log()).is_some(), || server.log());
    let log = server.log();
    let line = ended(&log).expect("it is there");
    let field = |name: &str| {
        let value = line.split_once(name).expect("it has the field").1;
        value.split([' ', ':']).next().unwrap_or_default().to_owned()
    };
    assert_eq!(field("client="), "127.0.0.1");
    let worker = field("worker=");
    let began = log.lines().any(|it| {
        it.contains(" 127.0.0.1:")
            && it.contains(&format!("connected: {} worker={worker}", field("connection ")))
    });
    assert!(began, "{log}");
}

/// The attack: a user takes over a command of a share, which runs in the cgroup of the service, and
/// has it send lines to the journal.
#[test]
fn lines_of_processes_of_users_ban_nobody() {
    let filter = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/fail2ban/choro.conf");
    let filter = fs::read_to_string(filter).expect("it is in the project");
    assert!(filter.contains("\njournalmatch = _SYSTEMD_UNIT=choro.service _UID=0\n"), "{filter}");
}

#[test]
fn failed_logons_leave_lines_that_fail2ban_reads_and_are_counted() {
    let server = Setup::new().share("data", "").global("log level = 1 auth_audit:3").start();
    let client = server.client();
    client.clone().user(USER, "wrong").run("data", &["ls"]).fails("NT_STATUS_LOGON_FAILURE");
    let forged = "x\" domain=\"\" mechanism=NTLMv2 reason=\"no such user\"";
    client.clone().user(forged, "wrong").run("data", &["ls"]).fails("NT_STATUS_LOGON_FAILURE");
    client.clone().user("mallory", "wrong").run("data", &["ls"]).fails("NT_STATUS_LOGON_FAILURE");
    client.run("data", &["ls"]).succeeds();
    wait_until(|| refusals(&server).len() == 3, || server.log());
    let lines = refusals(&server);
    assert!(
        lines[0].contains("WARN logon refused: address=127.0.0.1 user=\"tester\" "),
        "{lines:?}"
    );
    assert!(lines[0].ends_with("mechanism=NTLMv2 reason=\"wrong password\""), "{lines:?}");
    assert!(lines[2].ends_with("reason=\"no such user\""), "{lines:?}");
    let log = server.log();
    assert!(log.contains("logon: address=127.0.0.1 user=\"tester\""), "{log}");

    let file = server.site().path("copied.log");
    let addresses = banned_after(&file, &log, "");
    assert_eq!(addresses, ["127.0.0.1"; 3]);
    // The journal has them behind a prefix, and who knows the password is not banned.
    let journal = "Nov 23 14:01:37 host choro[7]: ";
    assert_eq!(banned_after(&file, &log, journal), ["127.0.0.1"; 3]);
    let others = [
        "reason=\"meant for another server\" target=\"cifs/x\" remedy=\"y\"",
        "reason=\"the account is disabled\"",
    ];
    let others = others.map(|reason| lines[0].replace("reason=\"wrong password\"", reason));
    assert_eq!(banned_after(&file, &others.join("\n"), ""), Vec::<String>::new());

    let counted = metrics(&server);
    for line in [
        "choro_logons_total{outcome=\"wrong password\"} 1",
        "choro_logons_total{outcome=\"no such user\"} 2",
        "choro_logons_total{outcome=\"user\"} 1",
    ] {
        assert!(counted.contains(line), "no {line}: {counted}");
    }
    server.stop();
}

/// Result of fail2ban for lines behind a prefix.
fn banned_after(file: &Path, log: &str, prefix: &str) -> Vec<String> {
    let lines: String = log.lines().map(|line| format!("{prefix}{line}\n")).collect();
    fs::write(file, lines).expect("there is space");
    banned(file).lines().map(ToOwned::to_owned).filter(|line| !line.is_empty()).collect()
}

#[test]
fn nobody_hides_failed_logons_behind_other_lines() {
    let setup = Setup::new().share("closed", "hosts deny = 127.0.0.1\n");
    let server = setup.global("log level = 1").start();
    let (from, to) = ([127, 0, 0, 1].into(), ([127, 0, 0, 1], server.port()).into());
    let connect = |guid| {
        let connection = Connection::connect(from, to, Duration::from_secs(30));
        let mut connection = connection.expect("it listens");
        connection.negotiate(Guid([guid; 16])).expect("it is served");
        connection
    };
    let (mut user, mut stranger) = (connect(7), connect(8));
    // A guest writes no such lines.
    user.log_on().expect("the right password");
    for _ in 0..3_000 {
        assert_eq!(user.tree("closed").expect("an answer"), NtStatus::ACCESS_DENIED);
    }
    for number in 0..5 {
        stranger.guess(&format!("user{number}"), "wrong").expect_err("it is wrong");
    }
    wait_until(|| refusals(&server).len() == 5, || server.log());
    let others = server.log().matches("may not use").count();
    assert!((1_000..2_000).contains(&others), "{others} {}", server.log());
    server.stop();
}

#[test]
fn failed_logons_are_counted_by_all_workers_together() {
    let server = Setup::new()
        .share("data", "")
        .global("logon failures max = 3\nlogon refusal time = 3600")
        .start();
    let wrong = server.client().user(USER, "wrong");
    for _ in 0..3 {
        wrong.run("data", &["ls"]).fails("NT_STATUS_LOGON_FAILURE");
    }
    wrong.run("data", &["ls"]).fails("NT_STATUS_ACCOUNT_LOCKED_OUT");
    server.client().run("data", &["ls"]).fails("NT_STATUS_ACCOUNT_LOCKED_OUT");
    server.stop();
}

/// Lists a share by a name of the server that leads to this machine.
fn list_by_name(server: &TestServer, name: &str) -> harness::smbclient::Outcome {
    server.client().argument("--ip-address=127.0.0.1").run_at(&format!("//{name}/data"), &["ls"])
}

/// Mounts of its own, of which the script makes none yet.
const NO_MOUNT: &str = ":";

#[test]
fn a_first_logon_that_the_name_service_hangs_on_ends_its_worker_alone() {
    if std::env::var_os("CHORO_LAUNCHER").is_some() {
        return progress("a server under a unit does not see what is mounted after its start");
    }
    let setup = Setup::new().share("data", "");
    let namespace = match Namespace::of_mounts(NO_MOUNT, &[]) {
        Ok(namespace) => namespace,
        Err(reason) => return progress(&format!("no mounts of its own: {reason}")),
    };
    let fifo = setup.path("fifo");
    // Who opens it waits for a writer, and none comes.
    let made = Command::new("mkfifo").arg(&fifo).status().expect("coreutils are installed");
    assert!(made.success());
    let fifo = fifo.display().to_string();
    let server = setup.launch_with(&namespace.launcher()).start();
    let mut before = Session::new(server.site().address(), "data", USER, PASSWORD);
    namespace.run(&["mount", "--bind", &fifo, "/etc/group"]).expect("we are root there");

    // `logond` keeps the answers about the user of the session before for a second.
    let mut began = Instant::now();
    let hung = (0..100).any(|_| {
        began = Instant::now();
        server.client().run("data", &["ls"]).text().contains("NT_STATUS_CONNECTION")
    });
    assert!(hung, "the name service has answered");
    assert!(began.elapsed() > Duration::from_secs(4), "it had its time");
    let ended = "ended: no answer of the name service";
    wait_until(|| server.log().contains(ended), || server.log());
    assert_eq!(before.try_access("missing", EVERYTHING), NtStatus::OBJECT_NAME_NOT_FOUND);

    // A thread of `logond` still hangs in it.
    namespace.run(&["umount", "--lazy", "/etc/group"]).expect("it was mounted");
    server.client().run("data", &["ls"]).succeeds();
    assert!(!server.log().contains("signal"), "it counts as no crash: {}", server.log());
    server.stop();
}

#[test]
fn the_server_is_reached_by_its_names_and_by_no_other_server_s() {
    let server = Setup::new()
        .share("data", "")
        .global("netbios name = FILES\nnetbios aliases = drawings\n")
        .global("additional dns hostnames = cname.example")
        .start();
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    for name in
        ["127.0.0.1", "localhost", &host, "FILES", "drawings", "files.local", "cname.example"]
    {
        list_by_name(&server, name).succeeds();
    }
    for name in ["evil.example", "files.evil.example", "192.0.2.66"] {
        list_by_name(&server, name).fails("NT_STATUS_ACCESS_DENIED");
    }
    let line = refusals(&server).remove(0);
    let remedy = "reason=\"meant for another server\" target=\"cifs/evil.example\" \
                  remedy=\"additional dns hostnames = evil.example\"";
    assert!(line.ends_with(remedy), "{line}");
    server.stop();
}

#[test]
fn restrict_anonymous_keeps_those_without_a_user_from_lists() {
    let server = |level: u32| {
        Setup::new()
            .share("data", "")
            .global(&format!("map to guest = bad user\nrestrict anonymous = {level}"))
            .start()
    };
    let open = server(0);
    let listed = open.client().anonymous().list_shares().succeeds();
    assert!(listed.contains("Disk|data"), "{listed}");
    open.stop();
    let closed = server(1);
    let clients = [closed.client().anonymous(), closed.client().user("stranger", "x")];
    for client in clients {
        let listed = client.list_shares().text();
        assert!(!listed.contains("data") && !listed.contains("IPC$"), "{listed}");
    }
    assert!(closed.client().list_shares().succeeds().contains("Disk|data"));
    closed.stop();
}

#[test]
fn a_server_of_unknown_names_accepts_logons_meant_for_any_name() {
    let server = Setup::new().share("data", "").global("additional dns hostnames = *").start();
    list_by_name(&server, "evil.example").succeeds();
    server.stop();
}

#[test]
fn failed_logons_beyond_the_limit_leave_no_line_each() {
    let global = "log level = 1\nlogon delay = no\nmax clients per address = 0\n";
    let server = Setup::new().share("data", "").global(global).start();
    let begun = Instant::now();
    let (listed, counted) = (" logon refused: ", " logons refused: ");
    let fail = || {
        let client = server.client().user("mallory", "wrong");
        client.run("data", &["ls"]).fails("NT_STATUS_LOGON_FAILURE");
        server.log().contains(counted)
    };
    for _ in 0..60 {
        fail();
    }
    wait_until(fail, || server.log());
    let log = server.log();
    let lines = log.lines().filter(|line| line.contains(listed) || line.contains(counted)).count();
    // A line that lists one may have another before it, with the number of those that are not.
    let further = usize::try_from(begun.elapsed().as_secs() / 5).expect("it is short") + 1;
    assert!((40..=40 + 2 * further).contains(&lines), "{lines} {further}: {log}");
    for line in log.lines().filter(|line| line.contains(counted)) {
        assert!(line.contains("logons refused: address=127.0.0.1 "), "{line}");
    }
}
