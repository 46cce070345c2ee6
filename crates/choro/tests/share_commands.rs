//! Commands of shares at the start and the end of tree connects, for Debian's smbclient and for the
//! test peer: `preexec`, `postexec` and those that run as root.

mod harness;

use std::fs::{self, OpenOptions};
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use bench::client::Protection;
use dtyp::{Guid, NtStatus, utf16};
use harness::choro::{text, under_unit, wait_until};
use harness::connection::{Connection, random};
use harness::smbtorture::progress;
use harness::{FORCED_USER, PASSWORD, Setup, TestServer, USER, runs_as_root};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use wire::Command;
use wire::echo::EchoRequest;
use wire::header::HeaderFlags;
use wire::tree_connect::TreeConnectRequest;

/// More than a command may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Makes a home in a folder: $1/$2, owned by $3 if the script runs as root.
const MAKE_HOME: &str = "[ -d \"$1/$2\" ] || mkdir \"$1/$2\" || exit
[ \"$(id -u)\" != 0 ] || chown \"$3\" \"$1/$2\"
";

fn start_with_made_homes(setup: Setup) -> TestServer {
    let script = setup.path("mkhomedir.sh");
    fs::write(&script, MAKE_HOME).expect("there is space");
    let command = format!("root preexec = sh {} %FOLDER %U %u", text(&script));
    let lines = format!("path = %FOLDER/%S\n{command}\nroot preexec close = yes");
    setup.share("homes", &lines).start()
}

/// The lines of a file that a command writes; none before it has.
fn lines_of(path: &Path) -> Vec<String> {
    let content = fs::read_to_string(path).unwrap_or_default();
    content.lines().map(str::to_owned).collect()
}

#[track_caller]
fn wait_for_lines(path: &Path, wanted: &[&str]) {
    wait_until(|| lines_of(path) == wanted, || format!("{:?}", lines_of(path)));
}

#[track_caller]
fn connect(server: &TestServer) -> Connection {
    connect_from(server, Ipv4Addr::LOCALHOST)
}

#[track_caller]
fn connect_from(server: &TestServer, address: Ipv4Addr) -> Connection {
    let from = IpAddr::V4(address);
    let mut connection =
        Connection::connect(from, server.site().address(), PATIENCE).expect("it listens");
    connection.negotiate(Guid(random())).expect("it speaks 3.0");
    connection.log_on().expect("a user");
    connection
}

/// Sends a TREE_CONNECT, and returns its message id.
#[track_caller]
fn begin_tree(connection: &mut Connection, share: &str) -> u64 {
    let path = utf16::to_bytes(&format!(r"\\server\{share}"));
    let request = TreeConnectRequest { path: &path, ..TreeConnectRequest::default() };
    let flags = HeaderFlags::empty();
    connection.send(Command::TREE_CONNECT, flags, &request).expect("it is connected")
}

#[test]
fn root_preexec_makes_the_home_of_a_user_before_it_is_served() {
    let mut setups = vec![Setup::new()];
    match runs_as_root() {
        true => setups.push(Setup::new().launch_with(&under_unit())),
        false => progress("confining a server takes root"),
    }
    for setup in setups {
        let server = start_with_made_homes(setup);
        let home = server.share_path("homes").join(USER);
        assert!(!home.exists());
        // The second time it is there.
        for name in ["made", "again"] {
            server.client().run("homes", &[&format!("mkdir {name}")]).succeeds();
            assert!(home.join(name).is_dir(), "{}", server.log());
        }
        let owner =
            if runs_as_root() { FORCED_USER.1 } else { rustix::process::geteuid().as_raw() };
        assert_eq!(fs::metadata(&home).expect("it was made").uid(), owner);
        server.stop();
    }
}

#[test]
fn a_home_that_cannot_be_made_refuses_its_user() {
    let server = start_with_made_homes(Setup::new());
    fs::write(server.share_path("homes").join(USER), "no folder").expect("there is space");
    server.client().run("homes", &["ls"]).fails("NT_STATUS_ACCESS_DENIED");
    server.server().wait_for_log("share tester: root preexec has failed: exit status: 1");
    server.stop();
}

#[test]
fn a_failing_command_refuses_the_tree_connect_only_if_it_is_to() {
    let server = Setup::new()
        .share("kept", "preexec = false\nroot preexec = false")
        .share("closed", "preexec = exit 3\npreexec close = yes")
        .share("root", "root preexec = no-such-program\nroot preexec close = yes")
        .share("right", "exec = true\npreexec close = yes\nroot preexec close = yes")
        .start();
    for share in ["kept", "right"] {
        server.client().run(share, &["ls"]).succeeds();
    }
    for share in ["closed", "root"] {
        server.client().run(share, &["ls"]).fails("NT_STATUS_ACCESS_DENIED");
    }
    server.server().wait_for_log("share closed: preexec has failed: exit status: 3");
    server.server().wait_for_log("share root: root preexec has failed: exit status: 127");
    server.stop();
}

/// Strangers could fill the log by them, with names of their choice.
#[test]
fn commands_that_fail_for_guests_write_no_line() {
    let server = Setup::new()
        .share("gate", "guest ok = yes\npreexec = exit 3\npreexec close = yes")
        .share("disk", "guest ok = yes\ndfree command = exit 4")
        .start();
    server.client().anonymous().run("gate", &["ls"]).fails("NT_STATUS_ACCESS_DENIED");
    server.client().anonymous().run("disk", &["ls"]).succeeds();
    server.client().run("gate", &["ls"]).fails("NT_STATUS_ACCESS_DENIED");
    server.client().run("disk", &["ls"]).succeeds();
    let lines = [
        "share gate: preexec has failed: exit status: 3",
        "share disk: dfree command has failed for .: exit status: 4",
    ];
    for line in lines {
        server.server().wait_for_log(line);
        assert_eq!(server.log().matches(line).count(), 1, "that of the user: {}", server.log());
    }
    server.stop();
}

#[test]
fn preexec_runs_as_the_user_without_anything_of_the_server() {
    let report = "(cat /proc/$$/status; echo descriptors; ls /proc/$$/fd; echo variables; env) \
                  > %FOLDER/report";
    let server = Setup::new().share("data", &format!("preexec = {report}")).start();
    server.client().run("data", &["ls"]).succeeds();
    let lines = lines_of(&server.share_path("data").join("report"));
    let position = |wanted: &str| lines.iter().position(|line| line == wanted).expect("a part");
    let (descriptors, variables) = (position("descriptors"), position("variables"));
    let status = |name: &str| {
        let mut lines = lines[..descriptors].iter();
        let line = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.expect("it is Linux").split_whitespace().collect::<Vec<_>>()
    };
    if runs_as_root() {
        let nobody = FORCED_USER.1.to_string();
        assert_eq!(status("Uid"), [&nobody; 4]);
        assert!(!status("Gid").contains(&"0") && !status("Groups").contains(&"0"), "{lines:?}");
        for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
            assert_eq!(status(set), ["0000000000000000"], "{set}");
        }
    }
    for set in ["SigBlk", "SigIgn"] {
        assert_eq!(status(set), ["0000000000000000"], "{set}");
    }
    let numbers = &lines[descriptors + 1..variables];
    assert!(numbers.iter().all(|it| ["0", "1", "2"].contains(&it.as_str())), "{numbers:?}");
    for line in &lines[variables + 1..] {
        let known = ["PATH=", "PWD=", "OLDPWD=", "SHLVL=", "_="];
        assert!(known.iter().any(|known| line.starts_with(known)), "{line}");
    }
    server.stop();
}

#[test]
fn no_name_of_a_client_is_a_command() {
    let evil = [
        ("$(echo hit)", "__echo hit_"),
        ("`echo hit`", "_echo hit_"),
        ("x;echo hit", "x_echo hit"),
        ("-n", "_n"),
        ("anna blume", "anna blume"),
    ];
    let setup = Setup::new();
    let map = setup.path("map");
    let mapped = evil.map(|(name, _)| format!(" \"{name}\"")).concat();
    fs::write(&map, format!("{USER} ={mapped}\n")).expect("there is space");
    let command = "preexec = echo %U >> %FOLDER/names; sh -c \"echo %U\" >> %FOLDER/names";
    let server =
        setup.global(&format!("username map = {}", text(&map))).share("data", command).start();
    let names = server.share_path("data").join("names");
    for (name, plain) in evil {
        server.client().user(name, PASSWORD).run("data", &["ls"]).succeeds();
        assert_eq!(lines_of(&names), [plain, plain], "{name}");
        fs::remove_file(&names).expect("it was written");
    }
    server.stop();
}

#[test]
fn postexec_runs_when_a_tree_connect_its_connection_or_the_server_ends() {
    let commands =
        "postexec = echo %U >> %FOLDER/ended\nroot postexec = echo root >> %FOLDER/ended";
    let mut server = Setup::new().share("data", commands).share("other", "").start();
    let ended = server.share_path("data").join("ended");
    server.client().run("data", &["tcon other", "ls"]).succeeds();
    wait_for_lines(&ended, &[USER, "root"]);
    drop(server.connect("data", Protection::Signed));
    wait_for_lines(&ended, &[USER, "root", USER, "root"]);
    let client = server.connect("data", Protection::Signed);
    server.restart(false);
    assert_eq!(lines_of(&ended).len(), 6);
    drop(client);
    server.stop();
}

#[test]
fn a_client_is_served_while_its_tree_connect_waits_for_a_command() {
    let setup = Setup::new();
    let pipe = setup.path("pipe");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o666), 0).expect("there is space");
    rustix::fs::chmod(&pipe, Mode::from_raw_mode(0o666)).expect("it is ours");
    let server = setup
        .share("slow", &format!("preexec = cat {}\npreexec close = yes", text(&pipe)))
        .share("data", "")
        .start();
    let mut connection = connect(&server);
    let waiting = begin_tree(&mut connection, "slow");
    assert_eq!(connection.tree("data").expect("it answers"), NtStatus::SUCCESS);
    let (header, _) = connection.call(Command::ECHO, &EchoRequest).expect("it answers");
    assert_eq!(header.command, Command::ECHO);
    // The command ends when a writer has come and gone.
    drop(OpenOptions::new().write(true).open(&pipe).expect("it is ours"));
    let (header, _) = connection.receive().expect("it answers");
    assert_eq!((header.message_id, header.status), (waiting, NtStatus::SUCCESS));
    server.stop();
}

#[test]
fn clients_that_come_while_commands_run_count_for_max_connections() {
    let setup = Setup::new();
    let addresses = [Ipv4Addr::LOCALHOST, Ipv4Addr::new(127, 0, 0, 2)];
    let pipes = addresses.map(|address| setup.path(&address.to_string()));
    for pipe in &pipes {
        mknodat(CWD, pipe, FileType::Fifo, Mode::from_raw_mode(0o666), 0).expect("there is space");
        rustix::fs::chmod(pipe, Mode::from_raw_mode(0o666)).expect("it is ours");
    }
    let folder = pipes[0].parent().expect("it is in a folder");
    let lines = format!("max connections = 1\npreexec = cat {}/%I", text(folder));
    let server = setup.share("one", &lines).start();
    let mut clients = addresses.map(|address| connect_from(&server, address));
    for client in &mut clients {
        begin_tree(client, "one");
    }
    let open = |pipe| OpenOptions::new().write(true).open(pipe).expect("the command reads it");
    let writers = pipes.each_ref().map(open);
    let mut statuses = Vec::new();
    for (client, writer) in clients.iter_mut().zip(writers) {
        drop(writer);
        statuses.push(client.receive().expect("it answers").0.status);
        // The connection counts when the next request is answered.
        client.call(Command::ECHO, &EchoRequest).expect("it answers");
    }
    assert_eq!(statuses, [NtStatus::SUCCESS, NtStatus::REQUEST_NOT_ACCEPTED]);
    server.stop();
}

#[test]
fn a_command_without_an_end_is_ended_and_refuses_its_tree_connect() {
    let server = Setup::new()
        .share("hung", "preexec = kill -STOP $$\npreexec close = yes")
        .share("data", "preexec = true\npreexec close = yes")
        .start();
    let mut connection = connect(&server);
    let [hung, behind] = ["hung", "data"].map(|share| begin_tree(&mut connection, share));
    let answers = [(); 2].map(|()| connection.receive().expect("it answers in time").0);
    let answers = answers.map(|header| (header.message_id, header.status));
    assert_eq!(answers, [(hung, NtStatus::ACCESS_DENIED), (behind, NtStatus::SUCCESS)]);
    server.server().wait_for_log("share hung: preexec has failed: its time is over");
    server.stop();
}

#[test]
fn a_client_that_leaves_during_preexec_is_disconnected_all_the_same() {
    let setup = Setup::new();
    let pipe = setup.path("pipe");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o666), 0).expect("there is space");
    rustix::fs::chmod(&pipe, Mode::from_raw_mode(0o666)).expect("it is ours");
    let lines = format!("preexec = cat {}\npostexec = echo %U >> %FOLDER/ended", text(&pipe));
    let server = setup.share("slow", &lines).start();
    let mut connection = connect(&server);
    begin_tree(&mut connection, "slow");
    let writer = OpenOptions::new().write(true).open(&pipe).expect("the command reads it");
    drop(connection);
    drop(writer);
    wait_for_lines(&server.share_path("slow").join("ended"), &[USER]);
    server.stop();
}

/// Everything runs as the server then.
#[test]
fn a_server_that_is_not_root_runs_commands_as_itself() {
    let lines = "root preexec = id -u > %FOLDER/user\nroot preexec close = yes";
    let server = Setup::new().run_as_somebody().share("data", lines).start();
    server.client().user(USER, PASSWORD).run("data", &["ls"]).succeeds();
    let user = lines_of(&server.share_path("data").join("user"));
    let owner = fs::metadata(server.share_path("data").join("user")).expect("it was made").uid();
    assert_eq!(user, [owner.to_string()]);
    assert_ne!(owner, 0);
    server.stop();
}
