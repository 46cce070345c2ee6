//! Paths that workers reach: those of shares, whatever the configuration does with them, and no
//! others.

mod harness;

use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::time::Duration;

use confinement::paths_unavailable;
use dtyp::{AccessMask, Guid, NtStatus};
use harness::choro::{text, wait_until};
use harness::connection::{Connection, random};
use harness::smbtorture::progress;
use harness::{Setup, TestServer, USER, give_to_server};
use wire::close::CloseRequest;
use wire::create::{
    CreateDisposition, CreateOptions, CreateRequest, CreateResponse, ImpersonationLevel,
    ShareAccess,
};
use wire::{Command, Decode, FileId};

/// Far longer than any answer takes.
const PATIENCE: Duration = Duration::from_secs(60);

fn has_landlock() -> bool {
    let unavailable = paths_unavailable();
    if let Some(why) = &unavailable {
        progress(why);
    }
    unavailable.is_none()
}

/// The confinement of the server's processes, once there is a worker that is set up.
fn status(server: &TestServer) -> String {
    let show = || server.site().run(&["status", "--confinement"]).succeeds();
    let is_ready = |it: &str| it.contains(" worker ") && it.contains("its list");
    wait_until(|| show().lines().any(is_ready), || server.log());
    show()
}

fn worker_line(shown: &str) -> &str {
    shown.lines().find(|line| line.contains(" worker ")).expect("some are idle")
}

/// A client that uses several shares over one connection.
fn connected(server: &TestServer) -> Connection {
    let address = server.site().address();
    let here = IpAddr::from([127, 0, 0, 1]);
    let mut client = Connection::connect(here, address, PATIENCE).expect("the server listens");
    client.negotiate(Guid(random())).expect("it speaks 3.0");
    client.log_on().expect("the password is right");
    client
}

fn open(client: &mut Connection, name: &str) -> FileId {
    let name = dtyp::utf16::to_bytes(name);
    let request = CreateRequest {
        impersonation_level: ImpersonationLevel::IMPERSONATION,
        desired_access: AccessMask::FILE_ALL,
        share_access: ShareAccess::READ | ShareAccess::WRITE,
        create_disposition: CreateDisposition::OPEN_IF,
        create_options: CreateOptions::default(),
        name: &name,
        ..CreateRequest::default()
    };
    let (header, answer) = client.call(Command::CREATE, &request).expect("it answers");
    assert_eq!(header.status, NtStatus::SUCCESS);
    CreateResponse::decode(&answer).expect("well-formed").file_id
}

fn close(client: &mut Connection, file_id: FileId) -> NtStatus {
    let request = CloseRequest { file_id, ..CloseRequest::default() };
    client.call(Command::CLOSE, &request).expect("it answers").0.status
}

/// Adds a share with a folder of its own to a running server.
fn add_share(server: &TestServer, name: &str) -> PathBuf {
    let folder = server.site().path("added").join(name);
    fs::create_dir_all(&folder).expect("there is space");
    give_to_server(&folder);
    let config = server.site().path("smb.conf");
    let before = fs::read_to_string(&config).expect("ours");
    let own = before.lines().find(|it| it.starts_with("force user")).unwrap_or_default();
    let section = format!("[{name}]\npath = {}\nread only = no\n{own}\n", text(&folder));
    fs::write(&config, format!("{before}\n{section}")).expect("ours");
    server.site().run(&["message", "reload"]).succeeds();
    folder
}

#[test]
fn workers_reach_no_paths_but_their_own_and_make_no_connections() {
    if !has_landlock() {
        return;
    }
    let server = Setup::new().share("data", "").start();
    server.client().run("data", &["mkdir made", "rename made moved", "ls"]).succeeds();
    let shown = status(&server);
    assert!(worker_line(&shown).contains("its own  no connections"), "{shown}");
    assert!(!shown.contains("reaches all paths"), "{shown}");
    let checked = server.site().run(&["check"]).error();
    assert!(!checked.contains("reach all paths"), "{checked}");
    server.stop();
}

#[test]
fn a_share_that_may_be_anywhere_opens_all_paths_and_the_reason_is_shown() {
    if !has_landlock() {
        return;
    }
    let server = Setup::new().share("data", "wide links = yes").start();
    let why = "links lead out of share data: `wide links = yes`";
    let shown = status(&server);
    assert!(shown.contains(&format!("worker: reaches all paths: {why}")), "{shown}");
    assert!(worker_line(&shown).contains("all      no connections"), "{shown}");
    let checked = server.site().run(&["check"]).error();
    assert!(checked.contains(&format!("workers reach all paths: {why}")), "{checked}");
    let outside = server.site().path("outside");
    fs::create_dir(&outside).expect("there is space");
    fs::write(outside.join("file"), "text").expect("there is space");
    give_to_server(&outside);
    symlink(&outside, server.share_path("data").join("link")).expect("there is space");
    server.client().run("data", &["cd link", "get file -"]).succeeds();
    server.stop();
}

/// What a variable stands for is not known when the rules are made, but the directory before it.
#[test]
fn of_a_path_with_a_variable_the_directory_before_it_is_reached_and_no_link_leads_out() {
    if !has_landlock() {
        return;
    }
    for (mode, is_served) in [("yes", false), ("no", true)] {
        let setup = Setup::new().global(&format!("choro:confinement = {mode}"));
        let lines = "path = %FOLDER/%U/files";
        let server = setup.share("homes-of-users", lines).start();
        let folder = server.share_path("homes-of-users");
        let share = folder.join(USER).join("files");
        fs::create_dir_all(&share).expect("there is space");
        give_to_server(&share);
        server.client().run("homes-of-users", &["mkdir made"]).succeeds();
        assert!(share.join("made").is_dir());
        let elsewhere = server.site().path("elsewhere");
        fs::rename(&share, &elsewhere).expect("it is ours");
        symlink(&elsewhere, &share).expect("there is space");
        let listed = server.client().run("homes-of-users", &["ls"]);
        if is_served {
            assert!(listed.succeeds().contains("made"), "without rules all paths are reached");
        } else {
            listed.fails("NT_STATUS_BAD_NETWORK_NAME");
            server.server().wait_for_log("processes of clients have no rule for it");
        }
        server.stop();
    }
}

#[test]
fn a_client_that_connects_to_a_share_newer_than_its_process_gets_another_one() {
    if !has_landlock() {
        return;
    }
    let server = Setup::new().share("data", "").start();
    let mut client = connected(&server);
    assert_eq!(client.tree("data").expect("it answers"), NtStatus::SUCCESS);
    let folder = add_share(&server, "new");
    assert!(client.tree("new").is_err(), "its connection ends");
    server.server().wait_for_log("is newer than this client's process");
    let mut client = connected(&server);
    assert_eq!(client.tree("new").expect("it answers"), NtStatus::SUCCESS);
    let file = open(&mut client, "file");
    assert_eq!(close(&mut client, file), NtStatus::SUCCESS);
    assert!(folder.join("file").is_file());
    server.stop();
}

#[test]
fn a_client_with_open_files_keeps_them_and_is_refused_a_newer_share() {
    if !has_landlock() {
        return;
    }
    let server = Setup::new().share("data", "").start();
    let mut client = connected(&server);
    assert_eq!(client.tree("data").expect("it answers"), NtStatus::SUCCESS);
    let tree_id = client.smb.tree_id;
    let file = open(&mut client, "file");
    add_share(&server, "new");
    assert_eq!(client.tree("new").expect("it answers"), NtStatus::BAD_NETWORK_NAME);
    server.server().wait_for_log("its client has open files in a process that is older");
    client.smb.tree_id = tree_id;
    assert_eq!(close(&mut client, file), NtStatus::SUCCESS);
    assert!(client.tree("new").is_err(), "now it gets another process");
    server.stop();
}

/// By an operator, or by a command when the first client connects.
#[test]
fn a_folder_that_is_made_after_the_rules_is_reached_by_later_clients() {
    if !has_landlock() {
        return;
    }
    let server = Setup::new().share("data", "path = %FOLDER/later").share("other", "").start();
    server.client().run("data", &["ls"]).fails("NT_STATUS_BAD_NETWORK_NAME");
    let mut client = connected(&server);
    assert_eq!(client.tree("other").expect("it answers"), NtStatus::SUCCESS);
    let folder = server.share_path("data").join("later");
    fs::create_dir(&folder).expect("there is space");
    give_to_server(&folder);
    server.client().run("data", &["mkdir made"]).succeeds();
    assert!(folder.join("made").is_dir());
    assert!(client.tree("data").is_err(), "the connection of an older process ends");
    server.stop();
}

#[test]
fn homes_of_users_of_this_machine_are_reached_and_other_paths_are_not() {
    if !has_landlock() {
        return;
    }
    let server = Setup::new().share("data", "").sections("[homes]\nread only = no\n").start();
    let shown = status(&server);
    let sources = fs::read_to_string("/etc/nsswitch.conf").unwrap_or_default();
    let is_local = |line: &str| line.split_whitespace().skip(1).all(|it| LOCAL.contains(&it));
    if sources.lines().filter(|it| it.starts_with("passwd:")).all(is_local) {
        assert!(!shown.contains("reaches all paths"), "{shown}");
    } else {
        assert!(shown.contains("homes of users are not known"), "{shown}");
    }
    server.stop();
}

/// Sources of accounts that are on this machine.
const LOCAL: [&str; 3] = ["files", "compat", "systemd"];

/// The supervisor opens it for them.
#[test]
fn workers_write_to_the_log_file_of_a_reload_and_to_its_successor() {
    if !has_landlock() {
        return;
    }
    let server = Setup::new().share("data", "").start();
    let mut client = connected(&server);
    assert_eq!(client.tree("data").expect("it answers"), NtStatus::SUCCESS);
    let (path, config) = (server.site().path("log of server"), server.site().path("smb.conf"));
    let before = fs::read_to_string(&config).expect("ours");
    let with_log = format!("[global]\nlog file = {}\n", text(&path));
    fs::write(&config, before.replacen("[global]\n", &with_log, 1)).expect("ours");
    let reload = || server.site().run(&["message", "reload"]).succeeds();
    let has_lines_of_worker = || {
        let lines = fs::read_to_string(&path).unwrap_or_default();
        lines.contains("configuration reloaded")
    };
    reload();
    wait_until(has_lines_of_worker, || server.log());
    fs::rename(&path, path.with_extension("old")).expect("it is ours");
    reload();
    wait_until(has_lines_of_worker, || server.log());
    assert_eq!(client.tree("data").expect("it still serves"), NtStatus::SUCCESS);
    server.stop();
}
