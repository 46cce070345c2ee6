//! Audit of shares: Debian's smbclient acts, and the audit file and `choro audit` tell of it.

mod harness;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bench::client::{Client, Destination, Protection};
use dtyp::{AccessMask, Guid, NtStatus};
use harness::choro::{children, signal_process, wait_until};
use harness::connection::Connection;
use harness::{OTHER_USER, PASSWORD, Setup, TestServer, USER, terms};
use rustix::process::Signal;
use serde_json::Value;
use wire::close::CloseRequest;
use wire::create::{
    CreateDisposition, CreateOptions, CreateRequest, CreateResponse, ImpersonationLevel,
    ShareAccess,
};
use wire::{Command, Decode, FileId};

/// Lines for all records, without any for the machine's syslog.
const ALL: &str = "vfs objects = full_audit\nfull_audit:success = all\nfull_audit:failure = all\n\
                   full_audit:syslog = no";

fn server(lines: &str) -> TestServer {
    Setup::new().share("data", lines).start()
}

/// The records in the audit file and its older ones, in the order of their times.
fn records(server: &TestServer) -> Vec<Value> {
    let text = server.site().run(&["audit", "--json"]).succeeds();
    serde_json::from_str(&text).expect("an array")
}

/// Waits for a record: `auditd` writes it a moment after the client has its answer.
fn record(server: &TestServer, is_wanted: impl Fn(&Value) -> bool) -> Value {
    let file = server.site().path("state").join("audit.json");
    wait_until(|| file.exists(), || "there is no audit file".to_owned());
    let mut found = None;
    wait_until(
        || {
            found = records(server).into_iter().find(&is_wanted);
            found.is_some()
        },
        || format!("no such record in {:#?}", records(server)),
    );
    found.expect("waited for")
}

fn of(event: &str, path: &str) -> impl Fn(&Value) -> bool {
    move |record| record["event"] == event && record["path"] == path
}

/// The process that writes the records.
fn auditd(server: &TestServer) -> Option<u32> {
    let is_auditd = |pid: &u32| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        name.trim() == "choro-auditd"
    };
    children(server.server().pid()).into_iter().find(is_auditd)
}

fn local_file(server: &TestServer, name: &str, content: &str) -> PathBuf {
    let path = server.client_folder("work").join(name);
    fs::write(&path, content).expect("there is space");
    path
}

#[test]
fn each_change_has_a_record_with_user_address_and_path() {
    let server = server(ALL);
    local_file(&server, "letter", "dear");
    let commands =
        ["mkdir docs", "put letter docs/letter", "rename docs/letter docs/old", "del docs/old"];
    server.client().run("data", &commands).succeeds();
    server.client().run("data", &["rmdir docs"]).succeeds();

    let logon = record(&server, |it| it["event"] == "logon");
    assert_eq!((&logon["user"], &logon["result"]), (&USER.into(), &"ok".into()));
    let connect = record(&server, |it| it["event"] == "connect" && it["share"] == "data");
    assert_eq!((&connect["user"], &connect["address"]), (&USER.into(), &"127.0.0.1".into()));
    assert!(connect["client"].as_str().is_some_and(|name| !name.is_empty()), "{connect}");
    record(&server, of("create_directory", "docs"));
    record(&server, of("create", "docs/letter"));
    record(&server, of("write", "docs/letter"));
    let close = record(&server, of("close", "docs/letter"));
    assert_eq!(close["bytes"], 4);
    let rename = record(&server, of("rename", "docs/letter"));
    assert_eq!(rename["new_path"], "docs/old");
    let delete = record(&server, of("delete", "docs/old"));
    assert_eq!((&delete["user"], &delete["share"]), (&USER.into(), &"data".into()));
    assert!(delete["time"].as_str().is_some_and(|time| time.ends_with('Z')), "{delete}");
    record(&server, of("delete_directory", "docs"));
    record(&server, |it| it["event"] == "disconnect" && it["share"] == "data");
    server.stop();
}

#[test]
fn an_existing_file_that_is_overwritten_was_opened_and_written() {
    let server = server(ALL);
    let path = server.share_path("data").join("f");
    fs::write(&path, "old").expect("there is space");
    harness::give_to_server(&path);
    local_file(&server, "f", "newer");
    server.client().run("data", &["put f"]).succeeds();
    record(&server, of("open", "f"));
    record(&server, of("write", "f"));
    let close = record(&server, of("close", "f"));
    assert_eq!(close["bytes"], 5);
    assert!(!records(&server).iter().any(|it| it["event"] == "create"));
    server.stop();
}

#[test]
fn refusals_are_recorded_with_their_status() {
    let server = Setup::new()
        .share("data", &format!("{ALL}\nwrite list = {USER}\nread only = yes"))
        .share("hidden", &format!("{ALL}\nvalid users = {USER}"))
        .start();
    let other = || server.client().user(OTHER_USER, PASSWORD);
    let _ = other().run("data", &["mkdir docs"]);
    let refused = record(&server, of("create_directory", "docs"));
    assert!(refused["result"].as_str().is_some_and(|it| it.contains("ACCESS_DENIED")), "{refused}");
    assert_eq!(refused["user"], OTHER_USER);
    let _ = other().run("hidden", &["ls"]);
    let refused = record(&server, |it| it["event"] == "connect" && it["result"] != "ok");
    assert_eq!((&refused["share"], &refused["user"]), (&"hidden".into(), &OTHER_USER.into()));
    let _ = server.client().user(USER, "wrong").run("data", &["ls"]);
    let failed = record(&server, |it| it["event"] == "logon" && it["result"] != "ok");
    assert_eq!((&failed["user"], &failed["address"]), (&USER.into(), &"127.0.0.1".into()));
    server.stop();
}

/// Opens a file and lets others do anything with it.
fn open(client: &mut Client, name: &str, access: AccessMask, options: CreateOptions) -> FileId {
    let name = dtyp::utf16::to_bytes(name);
    let request = CreateRequest {
        impersonation_level: ImpersonationLevel::IMPERSONATION,
        desired_access: access,
        share_access: ShareAccess::READ | ShareAccess::WRITE | ShareAccess::DELETE,
        create_disposition: CreateDisposition::OPEN,
        create_options: options,
        name: &name,
        ..CreateRequest::default()
    };
    let reply = client.call(Command::CREATE, 0, &request).expect("it answers");
    assert!(!reply.header.status.is_error(), "{:?}", reply.header.status);
    CreateResponse::decode(client.message(&reply)).expect("well-formed").file_id
}

fn close(client: &mut Client, file_id: FileId) {
    let request = CloseRequest { file_id, ..CloseRequest::default() };
    let reply = client.call(Command::CLOSE, 0, &request).expect("it answers");
    assert!(!reply.header.status.is_error(), "{:?}", reply.header.status);
}

#[test]
fn a_wish_to_delete_is_recorded_though_another_user_closes_the_file_last() {
    let server = server(ALL);
    let path = server.share_path("data").join("f");
    fs::write(&path, "x").expect("there is space");
    harness::give_to_server(&path);
    let mut wishing = server.connect("data", Protection::Plain);
    let other = Destination { user: OTHER_USER.to_owned(), ..server.destination("data") };
    let mut reading = Client::connect(&other, terms(Protection::Plain)).expect("it is admitted");
    let read = open(&mut reading, "f", AccessMask::READ_DATA, CreateOptions::empty());
    let deleted = open(&mut wishing, "f", AccessMask::DELETE, CreateOptions::DELETE_ON_CLOSE);
    close(&mut wishing, deleted);
    let wish = record(&server, of("delete_pending", "f"));
    assert_eq!(wish["user"], USER);
    close(&mut reading, read);
    let delete = record(&server, of("delete", "f"));
    assert_eq!(delete["user"], USER, "the one who has closed last deletes nothing");
    assert!(!path.exists());
    server.stop();
}

#[test]
fn only_selected_operations_are_recorded() {
    let lines = "vfs objects = full_audit\nfull_audit:success = unlinkat\nfull_audit:syslog = no";
    let server = server(lines);
    local_file(&server, "f", "x");
    server.client().run("data", &["put f", "del f", "mkdir d"]).succeeds();
    record(&server, of("delete", "f"));
    server.client().run("data", &["rmdir d"]).succeeds();
    record(&server, of("delete_directory", "d"));
    let others = records(&server).into_iter().filter(|it| {
        let event = it["event"].as_str().unwrap_or_default();
        !matches!(event, "logon" | "delete" | "delete_directory")
    });
    assert_eq!(others.collect::<Vec<Value>>(), Vec::<Value>::new());
    server.stop();
}

#[test]
fn the_deletion_of_a_file_is_found_also_in_a_renamed_audit_file() {
    let server = server(ALL);
    local_file(&server, "letter", "dear");
    let commands = ["mkdir docs", "put letter docs/letter", "del docs/letter"];
    server.client().run("data", &commands).succeeds();
    record(&server, of("delete", "docs/letter"));
    let file = server.site().path("state").join("audit.json");
    fs::rename(&file, file.with_extension("json.1")).expect("it is ours");
    server.client().run("data", &["rename docs attic"]).succeeds();
    record(&server, of("rename", "docs"));

    let on_disk = server.path_of_share("data").join("docs/letter");
    for path in ["docs\\LETTER", harness::choro::text(&on_disk).as_str()] {
        let text = server.site().run(&["audit", "who-deleted", path, "--json"]).succeeds();
        let rows: Vec<Value> = serde_json::from_str(&text).expect("an array");
        let events: Vec<&str> = rows.iter().filter_map(|it| it["event"].as_str()).collect();
        assert_eq!(events, ["delete", "rename"], "{path}: {text}");
        assert_eq!(rows[0]["user"], USER);
    }
    let site = server.site();
    let table = site.run(&["audit", "who-deleted", "docs/letter", "--event", "delete"]).succeeds();
    assert!(table.contains("data/docs/letter") && !table.contains("attic"), "{table}");
    let nobody = site.run(&["audit", "--user", "nobody", "--since", "1d", "--json"]).succeeds();
    assert_eq!(nobody.trim(), "[]");
    server.stop();
}

#[test]
fn the_audit_file_is_the_owners_alone_and_no_link_is_followed() {
    let server = server(ALL);
    server.client().run("data", &["mkdir one"]).succeeds();
    record(&server, of("create_directory", "one"));
    let file = server.site().path("state").join("audit.json");
    assert_eq!(fs::metadata(&file).expect("it is there").mode() & 0o777, 0o600);
    let target = server.site().path("target");
    fs::write(&target, "").expect("there is space");
    fs::remove_file(&file).expect("it is ours");
    std::os::unix::fs::symlink(&target, &file).expect("there is space");
    server.client().run("data", &["mkdir two"]).succeeds();
    server.server().wait_for_log("cannot write to the audit file");
    fs::remove_file(&file).expect("it is ours");
    server.client().run("data", &["mkdir three"]).succeeds();
    let lost = record(&server, |it| it["event"] == "lost");
    assert!(lost["count"].as_u64().is_some_and(|count| count > 0), "{lost}");
    record(&server, of("create_directory", "three"));
    assert_eq!(fs::read(&target).expect("it is there"), b"");
    server.stop();
}

#[test]
fn records_go_on_after_the_death_of_auditd_and_until_the_end_of_the_server() {
    let mut server = server(ALL);
    server.client().run("data", &["mkdir one"]).succeeds();
    record(&server, of("create_directory", "one"));
    let first = auditd(&server).expect("it runs");
    signal_process(first, Signal::KILL);
    server.client().run("data", &["mkdir two"]).succeeds();
    record(&server, of("create_directory", "two"));
    assert_ne!(auditd(&server), Some(first));
    let staying = server.client().stay("data");
    record(&server, |it| it["event"] == "connect" && it["share"] == "data");
    let file = server.site().path("state").join("audit.json");
    let count = |event: &str| {
        let text = fs::read_to_string(&file).expect("it is there");
        text.lines().filter(|line| line.contains(&format!("\"event\":\"{event}\""))).count()
    };
    wait_until(|| count("connect") >= 3, || "the client has not connected".to_owned());
    server.restart(false);
    drop(staying);
    assert_eq!(count("connect"), count("disconnect"));
    server.stop();
}

#[test]
fn a_hanging_auditd_delays_no_client_and_gets_the_records_later() {
    let server = server(ALL);
    server.client().run("data", &["mkdir first"]).succeeds();
    record(&server, of("create_directory", "first"));
    let auditd = auditd(&server).expect("it runs");
    signal_process(auditd, Signal::STOP);
    let commands: Vec<String> = (0..200).map(|n| format!("mkdir d{n}")).collect();
    let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
    server.client().run("data", &commands).succeeds();
    assert!(server.share_path("data").join("d199").exists());
    signal_process(auditd, Signal::CONT);
    record(&server, of("create_directory", "d199"));
    server.stop();
}

#[test]
fn lines_for_syslog_and_records_for_a_socket_go_there() {
    let setup = Setup::new();
    let [log, socket] = ["log", "socket"].map(|name| setup.path(name));
    let receive = |path: &Path| {
        let receiver = UnixDatagram::bind(path).expect("the path is free");
        receiver.set_read_timeout(Some(Duration::from_secs(20))).expect("it is a socket");
        receiver
    };
    let [log_receiver, receiver] = [receive(&log), receive(&socket)];
    let global = format!(
        "choro:audit syslog = {}\nchoro:audit socket = {}\nchoro:audit file = none",
        harness::choro::text(&log),
        harness::choro::text(&socket)
    );
    let lines = "vfs objects = full_audit\nfull_audit:success = mkdirat\n\
                 full_audit:prefix = %S|%I\nfull_audit:facility = LOCAL5\n\
                 full_audit:priority = INFO";
    let server = setup.global(&global).share("data", lines).start();
    server.client().run("data", &["mkdir docs"]).succeeds();
    let text = |socket: &UnixDatagram| {
        let mut packet = vec![0; 65_536];
        let len = socket.recv(&mut packet).expect("it comes in time");
        String::from_utf8(packet[..len].to_vec()).expect("it is UTF-8")
    };
    assert_eq!(text(&log_receiver), "<174>smbd_audit: data|127.0.0.1|mkdirat|ok|docs");
    let logon: Value = serde_json::from_str(&text(&receiver)).expect("it is JSON");
    assert_eq!(logon["event"], "logon");
    let created: Value = serde_json::from_str(&text(&receiver)).expect("it is JSON");
    assert_eq!(created["path"], "docs");
    assert!(!server.site().path("state").join("audit.json").exists());
    server.site().run(&["audit"]).fails(1);
    server.stop();
}

#[test]
fn strangers_neither_fill_the_audit_file_nor_displace_records_of_users() {
    let server = server(ALL);
    let (from, patience) = ([127, 0, 0, 1].into(), Duration::from_secs(30));
    let to = server.site().address();
    let mut stranger = Connection::connect(from, to, patience).expect("it listens");
    stranger.negotiate(Guid([7; 16])).expect("it is served");
    for _ in 0..500 {
        stranger.smb.leave_session();
        stranger.log_on_anonymously().expect("anybody may");
    }
    for _ in 0..3_000 {
        assert_eq!(stranger.tree("none").expect("an answer"), NtStatus::BAD_NETWORK_NAME);
    }
    server.client().run("data", &["mkdir docs"]).succeeds();
    record(&server, |it| it["event"] == "logon" && it["user"] == USER);
    record(&server, of("create_directory", "docs"));
    let file = server.site().path("state").join("audit.json");
    let count = || {
        let text = fs::read_to_string(&file).expect("it is there");
        text.lines().filter(|it| it.contains("none") || it.contains("ANONYMOUS")).count()
    };
    // The stranger's worker sends for itself, later if it began before `auditd` was there.
    wait_until(|| count() >= 500, || format!("{} records", count()));
    let count = count();
    assert!(count < 1_500, "{count} records");
    server.stop();
}

#[test]
fn a_server_without_an_audit_has_no_auditd_and_no_file() {
    let server = server("vfs objects = full_audit");
    server.client().run("data", &["mkdir docs"]).succeeds();
    assert_eq!(auditd(&server), None);
    assert!(!server.site().path("state").join("audit.json").exists());
    server.stop();
}

#[test]
fn check_refuses_an_operation_that_samba_does_not_have() {
    let site = harness::choro::Site::new();
    site.write_config(
        "[data]\npath = /tmp\nvfs objects = full_audit\nfull_audit:success = unlnk\n",
    );
    let error = site.run(&["check"]).fails(1);
    assert!(error.contains("unlnk"), "{error}");
}
