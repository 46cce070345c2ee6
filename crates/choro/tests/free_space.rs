//! Free space of shares for Debian's smbclient and for the test peer: `dfree command`, `dfree cache
//! time` and `max disk size`.

mod harness;

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::time::Duration;

use dtyp::{AccessMask, FsInformationClass, Guid, NtStatus};
use harness::choro::text;
use harness::connection::{Connection, random};
use harness::{FORCED_USER, Setup, TestServer, runs_as_root};
use wire::create::{
    CreateDisposition, CreateOptions, CreateRequest, CreateResponse, ImpersonationLevel,
    ShareAccess,
};
use wire::echo::EchoRequest;
use wire::header::HeaderFlags;
use wire::query_info::{InfoType, QueryInfoRequest};
use wire::{Command, Decode};

/// More than a command may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// The line with which smbclient ends a listing: blocks, their size, and the free ones.
#[track_caller]
fn free_space(server: &TestServer, share: &str, directory: &str) -> [u64; 3] {
    let said = server.client().run(share, &[&format!("cd {directory}"), "ls"]).succeeds();
    let line = said.lines().find(|line| line.contains("blocks of size")).expect("it ends with it");
    let numbers = line.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok());
    let numbers: Vec<u64> = numbers.collect();
    numbers.try_into().expect("three numbers")
}

fn lines_of(path: &Path) -> Vec<String> {
    let content = fs::read_to_string(path).unwrap_or_default();
    content.lines().map(str::to_owned).collect()
}

#[test]
fn a_command_determines_the_size_of_a_share_and_its_free_space() {
    let server = Setup::new()
        .share("plain", "dfree command = echo 2000 1000;:")
        .share("blocks", "dfree command = echo 100 50 4096")
        .share("full", "dfree command = echo 100 0;:")
        .start();
    assert_eq!(free_space(&server, "plain", "\\"), [2_000, 1_024, 1_000]);
    assert_eq!(free_space(&server, "blocks", "\\"), [100, 4_096, 50]);
    assert_eq!(free_space(&server, "full", "\\"), [100, 1_024, 0]);
    server.stop();
}

#[test]
fn the_command_runs_as_the_user_in_the_folder_with_the_path_as_its_last_argument() {
    let setup = Setup::new();
    let script = setup.path("dfree.sh");
    let content = "pwd > asked; id -u >> asked; for word; do echo \"<$word>\" >> asked; done\n\
                   echo 2000 1000\n";
    fs::write(&script, content).expect("there is space");
    let line = format!("dfree command = sh {} \"one word\" %S", text(&script));
    let server = setup.share("data", &line).start();
    let folder = server.share_path("data");
    let own = rustix::process::geteuid().as_raw();
    let user = if runs_as_root() { FORCED_USER.1 } else { own }.to_string();
    for (directory, argument) in [("\\", "."), ("films", "./films"), ("$(touch hit)", ".")] {
        if directory != "\\" {
            server.client().run("data", &[&format!("mkdir \"{directory}\"")]).succeeds();
        }
        let reported = free_space(&server, "data", &format!("\"{directory}\""));
        assert_eq!(reported, [2_000, 1_024, 1_000], "{directory}");
        let argument = format!("<{argument}>");
        let asked = [&*text(&folder), &user, "<one word>", "<data>", &argument];
        assert_eq!(lines_of(&folder.join("asked")), asked, "{directory}");
    }
    assert!(!folder.join("hit").exists());
    server.stop();
}

#[test]
fn a_command_without_output_leaves_the_figures_of_the_file_system() {
    let server = Setup::new()
        .share("data", "")
        .share("failing", "dfree command = echo 100 50; false")
        .share("silent", "dfree command = true")
        .start();
    let [size, unit, _] = free_space(&server, "data", "\\");
    for share in ["failing", "silent"] {
        let [reported_size, reported_unit, _] = free_space(&server, share, "\\");
        assert_eq!((reported_size, reported_unit), (size, unit), "{share}");
    }
    let failed =
        |share: &str, fault| format!("share {share}: dfree command has failed for .: {fault}");
    server.server().wait_for_log(&failed("failing", "exit status"));
    server.server().wait_for_log(&failed("silent", "it tells no two numbers"));
    server.stop();
}

#[test]
fn an_answer_is_cached_for_the_configured_time_only() {
    let command = "dfree command = echo run >> runs; echo 2000 1000 1024\n";
    let server = Setup::new()
        .share("each", command)
        .share("cached", &format!("{command}dfree cache time = 3600"))
        .start();
    for (share, runs) in [("each", 3), ("cached", 1)] {
        server.client().run(share, &["ls", "ls", "ls"]).succeeds();
        assert_eq!(lines_of(&server.share_path(share).join("runs")).len(), runs, "{share}");
    }
    // Another client's worker has no answer yet.
    server.client().run("cached", &["ls"]).succeeds();
    assert_eq!(lines_of(&server.share_path("cached").join("runs")).len(), 2);
    server.stop();
}

#[test]
fn no_share_seems_larger_than_max_disk_size() {
    let server = Setup::new()
        .global("max disk size = 1")
        .share("data", "")
        .share("told", "dfree command = echo 2000 1000 1024")
        .share("small", "dfree command = echo 100 50 1024")
        .start();
    let [blocks, unit, free] = free_space(&server, "data", "\\");
    assert_eq!((blocks * unit, free), (1 << 20, blocks - 1));
    assert_eq!(free_space(&server, "told", "\\"), [1_024, 1_024, 1_000]);
    assert_eq!(free_space(&server, "small", "\\"), [100, 1_024, 50]);
    server.stop();
}

/// Opens the folder of a share, and asks for its free space; returns the message id.
#[track_caller]
fn ask(connection: &mut Connection, share: &str) -> u64 {
    assert_eq!(connection.tree(share).expect("it answers"), NtStatus::SUCCESS);
    let request = CreateRequest {
        impersonation_level: ImpersonationLevel::IMPERSONATION,
        desired_access: AccessMask::READ_ATTRIBUTES,
        share_access: ShareAccess::READ | ShareAccess::WRITE | ShareAccess::DELETE,
        create_disposition: CreateDisposition::OPEN,
        create_options: CreateOptions::DIRECTORY_FILE,
        ..CreateRequest::default()
    };
    let (header, message) = connection.call(Command::CREATE, &request).expect("it answers");
    assert_eq!(header.status, NtStatus::SUCCESS);
    let file_id = CreateResponse::decode(&message).expect("well-formed").file_id;
    let request = QueryInfoRequest {
        info_type: InfoType::FILESYSTEM,
        file_info_class: FsInformationClass::FULL_SIZE.0,
        output_buffer_length: 64,
        file_id,
        ..QueryInfoRequest::default()
    };
    let flags = HeaderFlags::empty();
    connection.send(Command::QUERY_INFO, flags, &request).expect("it is connected")
}

#[test]
fn a_command_without_an_end_is_ended_and_delays_nothing_else_of_its_client() {
    let server = Setup::new()
        .share("hung", "dfree command = kill -STOP $$;:")
        .share("data", "dfree command = echo 2000 1000 1024")
        .start();
    let from = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let mut connection =
        Connection::connect(from, server.site().address(), PATIENCE).expect("it listens");
    connection.negotiate(Guid(random())).expect("it speaks 3.0");
    connection.log_on().expect("a user");
    let hung = ask(&mut connection, "hung");
    // A tree connect, a CREATE and an ECHO are answered meanwhile.
    let behind = ask(&mut connection, "data");
    let (header, _) = connection.call(Command::ECHO, &EchoRequest).expect("it answers");
    assert_eq!(header.command, Command::ECHO);
    let answers = [(); 2].map(|()| connection.receive().expect("it answers in time").0);
    assert_eq!(answers.map(|it| it.status), [NtStatus::SUCCESS; 2]);
    assert_eq!(answers.map(|it| it.message_id), [hung, behind]);
    server.server().wait_for_log("share hung: dfree command has failed for .: its time is over");
    // The figures of the file system are told at once now, without the command.
    ask(&mut connection, "data");
    let (header, _) = connection.receive().expect("it answers");
    assert_eq!(header.status, NtStatus::SUCCESS);
    server.stop();
}
