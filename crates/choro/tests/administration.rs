//! Administration over the network: srvsvc and samr for Samba's `net rpc`, `rpcclient` and
//! `sharesec`.

mod harness;

use std::fs;
use std::os::unix::fs::PermissionsExt;

use bench::client::requests::{self, Purpose};
use bench::client::{Protection, Slot};
use harness::choro::{text, wait_until};
use harness::namespace::Namespace;
use harness::rpc_clients::{net_rpc, rpcclient, rpcclient_as, sharesec};
use harness::smbtorture::progress;
use harness::{OTHER_USER, Setup, TestServer, USER, give_to_server, runs_as_root};

/// Enters a network with a free port 445: `net` asks for no other. `None` where that is impossible.
fn network() -> Option<Namespace> {
    if !runs_as_root() {
        progress("left out: it needs root");
        return None;
    }
    let made = Namespace::of_network("");
    let made = made.inspect_err(|reason| progress(&format!("left out: no network: {reason}")));
    made.ok().inspect(Namespace::enter)
}

/// A server that [`USER`] may manage, with the share `data`; added shares can be served.
fn server(setup: Setup) -> TestServer {
    let include = format!("include = {}\n", text(&setup.path("state").join("shares.conf")));
    let names = "netbios name = CHOROTEST\nnetbios aliases = FILMS\n";
    let global = format!("{names}force user = nobody\nchoro:administrators = {USER}");
    setup.global(&global).share("data", "").sections(&include).start()
}

/// True if a client says that its user may not do that.
fn is_denied(printed: &str) -> bool {
    printed.contains("ACCESS_DENIED") || printed.contains("Access is denied")
}

#[track_caller]
fn net(server: &TestServer, arguments: &[&str]) -> String {
    let (printed, succeeded) = net_rpc(server, USER, arguments);
    assert!(succeeded, "{arguments:?}: {printed}");
    printed
}

#[test]
fn an_administrator_adds_and_removes_shares() {
    let Some(_network) = network() else { return };
    let server = server(Setup::new().port_too(445));
    let folder = server.site().path("films");
    fs::create_dir(&folder).expect("there is space");
    give_to_server(&folder);
    let add = format!("films={}", text(&folder));
    let (printed, succeeded) = net_rpc(&server, OTHER_USER, &["share", "add", &add]);
    assert!(!succeeded && is_denied(&printed), "{printed}");
    net(&server, &["share", "add", &add, "--comment=Old ones"]);
    assert!(net(&server, &["share", "list"]).contains("films"));
    let listed = server.site().run(&["share", "list"]).succeeds();
    assert!(listed.contains("films") && listed.contains(&*text(&folder)), "{listed}");
    server.client().run("films", &["mkdir made"]).succeeds();
    assert!(folder.join("made").is_dir());
    assert!(server.client().list_shares().succeeds().contains("Disk|films|Old ones"));
    let told = rpcclient(&server, "netsharegetinfo films 2");
    assert!(told.contains(&text(&folder).replace('/', "\\")), "{told}");
    let told = rpcclient_as(&server, OTHER_USER, "netsharegetinfo films 2");
    assert!(!told.contains(&text(&folder).replace('/', "\\")), "{told}");
    for (path, name, fault) in [
        (folder.clone(), "films", "WERR_NERR_DUPLICATESHARE"),
        (folder.join("none"), "other", "WERR_NERR_UNKNOWNDEVDIR"),
        (server.site().path("smb.conf"), "other", "WERR_NERR_UNKNOWNDEVDIR"),
        ("films".into(), "other", "WERR_NERR_UNKNOWNDEVDIR"),
        (folder.clone(), "homes", "WERR_INVALID_NAME"),
    ] {
        let printed = rpcclient(&server, &format!("netshareadd {} {name}", text(&path)));
        assert!(printed.contains(fault), "{name}: {printed}");
    }
    let added = server.site().path("state").join("shares.conf");
    let mode = fs::metadata(&added).expect("a share is in it").permissions().mode();
    assert_eq!(mode & 0o777, 0o644, "root reads it: others of this machine must not write to it");
    // `net` says nothing of the reason.
    let (printed, succeeded) = net_rpc(&server, OTHER_USER, &["share", "delete", "films"]);
    assert!(!succeeded, "{printed}");
    assert!(rpcclient_as(&server, OTHER_USER, "netsharedel films").contains("ACCESS_DENIED"));
    assert!(net(&server, &["share", "list"]).contains("films"));
    let stays = server.client().stay("films");
    net(&server, &["share", "delete", "films"]);
    server.client().run("films", &["ls"]).fails("NT_STATUS_BAD_NETWORK_NAME");
    assert!(!server.site().run(&["share", "list"]).succeeds().contains("films"));
    // Its tree connects have ended.
    let uses = || server.site().run(&["status"]).succeeds().contains("films");
    wait_until(|| !uses(), || "a client still uses the share".to_owned());
    drop(stays);
    // Shares of the configuration are the operator's.
    let printed = rpcclient(&server, "netsharedel data");
    assert!(is_denied(&printed), "{printed}");
    assert!(folder.join("made").is_dir(), "the folder stays");
    server.stop();
}

#[test]
fn without_the_include_no_share_is_added_over_the_network() {
    let Some(_network) = network() else { return };
    let global = format!("choro:administrators = {USER}");
    let server = Setup::new().port_too(445).global(&global).share("data", "").start();
    let folder = text(&server.share_path("data"));
    let (printed, succeeded) =
        net_rpc(&server, USER, &["share", "add", &format!("films={folder}")]);
    assert!(!succeeded && printed.contains("not supported"), "{printed}");
    assert!(!server.site().run(&["share", "list"]).succeeds().contains("films"));
    server.stop();
}

#[test]
fn sessions_and_open_files_are_listed_and_ended_by_administrators_alone() {
    let Some(_network) = network() else { return };
    let server = server(Setup::new().port_too(445));
    fs::write(server.share_path("data").join("kept.txt"), "x").expect("there is space");
    give_to_server(&server.share_path("data").join("kept.txt"));
    let mut client = server.connect("data", Protection::Signed);
    let file_id = requests::open(&mut client, Purpose::Open, "kept.txt").expect("it is there");
    for command in ["netfileenum", "netsessenum"] {
        let told = rpcclient_as(&server, OTHER_USER, command);
        assert!(told.contains("ACCESS_DENIED") && !told.contains("kept.txt"), "{told}");
    }
    let listed = net(&server, &["file"]);
    assert!(listed.contains("kept.txt") && listed.contains(USER), "{listed}");
    // The session of the client above, and that of rpcclient.
    let sessions = rpcclient(&server, "netsessenum");
    assert!(sessions.contains("Received 2 entries"), "{sessions}");
    let line = listed.lines().find(|line| line.contains("kept.txt")).expect("it is listed");
    let number = line.split_whitespace().next().expect("its number").to_owned();
    let (printed, succeeded) = net_rpc(&server, OTHER_USER, &["file", "close", &number]);
    assert!(!succeeded, "{printed}");
    assert!(net(&server, &["file"]).contains("kept.txt"), "it is open still");
    net(&server, &["file", "close", &number]);
    let is_listed = || net(&server, &["file"]).contains("kept.txt");
    wait_until(|| !is_listed(), || "the file is still open".to_owned());
    let (printed, succeeded) = net_rpc(&server, USER, &["file", "close", &number]);
    assert!(!succeeded, "{printed}");
    requests::push_read(&mut client, file_id, 0, 1);
    client.flush(Slot(0)).expect("it is connected");
    let reply = client.receive().expect("it is answered");
    assert_eq!(reply.header.status, dtyp::NtStatus::FILE_CLOSED);
    // The session of the client ends; that of the administrator stays until it has its answer.
    let other = server.client().user(OTHER_USER, harness::PASSWORD).stay("data");
    let of_other = || server.site().run(&["status"]).succeeds().contains(OTHER_USER);
    assert!(of_other());
    let told = rpcclient(&server, &format!("netsessdel 127.0.0.1 {OTHER_USER}"));
    assert!(!told.contains("ACCESS_DENIED"), "{told}");
    wait_until(|| !of_other(), || "the session is still there".to_owned());
    drop(other);
    server.stop();
}

#[test]
fn the_descriptor_of_a_share_decides_on_connections_and_writes() {
    let server = server(Setup::new());
    let client = server.client();
    client.run("data", &["mkdir before"]).succeeds();
    // Written by Samba, which stays able to read it.
    let (printed, succeeded) =
        sharesec(&server, "data", &["--replace", "S-1-1-0:ALLOWED/0x0/READ"]);
    assert!(succeeded, "{printed}");
    client.run("data", &["ls"]).succeeds();
    client.run("data", &["mkdir after"]).fails("NT_STATUS_ACCESS_DENIED");
    let told = rpcclient(&server, "netsharegetinfo data 502");
    assert!(told.contains("S-1-1-0") || told.contains("Everyone"), "{told}");
    let (printed, succeeded) =
        sharesec(&server, "data", &["--replace", "S-1-22-1-0:ALLOWED/0x0/FULL"]);
    assert!(succeeded, "{printed}");
    client.run("data", &["ls"]).fails("NT_STATUS_ACCESS_DENIED");
    // rpcclient writes what it has read, and the comment.
    let told = rpcclient_as(&server, OTHER_USER, "netsharesetinfo data");
    assert!(told.contains("ACCESS_DENIED"), "{told}");
    let told = rpcclient(&server, "netsharesetinfo data");
    assert!(!told.contains("WERR_") || told.contains("WERR_OK"), "{told}");
    let (printed, succeeded) = sharesec(&server, "data", &["--view"]);
    assert!(succeeded && printed.contains("S-1-22-1-0:ALLOWED"), "{printed}");
    client.run("data", &["ls"]).fails("NT_STATUS_ACCESS_DENIED");
    let (printed, succeeded) =
        sharesec(&server, "data", &["--replace", "S-1-1-0:ALLOWED/0x0/FULL"]);
    assert!(succeeded, "{printed}");
    client.run("data", &["mkdir after"]).succeeds();
    // A file that cannot be read gives nobody rights.
    fs::write(server.site().path("state").join("share_info.tdb"), "no table").expect("ours");
    client.run("data", &["ls"]).fails("NT_STATUS_ACCESS_DENIED");
    server.stop();
}

#[test]
fn users_and_groups_are_listed_and_nothing_about_them_changes() {
    let Some(_network) = network() else { return };
    let server = server(Setup::new().port_too(445));
    let daemon = harness::daemon();
    server.add_user(&daemon.name);
    let rid = 1_000 + 2 * daemon.uid.as_raw();
    let name = daemon.name.as_str();
    let shown = format!("user:[{name}] rid:[{rid:#x}]");
    for (command, wanted) in [
        ("enumdomains", "name:[CHOROTEST]"),
        ("enumdomusers", &*shown),
        ("enumdomgroups", "group:[None] rid:[0x201]"),
        ("enumalsgroups builtin", "group:[Administrators] rid:[0x220]"),
        ("querydispinfo", name),
        ("querydominfo", "CHOROTEST"),
        (&*format!("samlookupnames domain {name}"), &*format!("{rid:#x}")),
        (&*format!("samlookuprids domain {rid}"), name),
        (&*format!("queryuser {rid}"), &*format!("User Name   :\t{name}")),
        (&*format!("queryusergroups {rid}"), "group rid:[0x201]"),
        ("querygroup 513", "None"),
        ("querygroupmem 513", &*format!("rid:[{rid:#x}]")),
        ("queryaliasmem builtin 545", "S-1-5-11"),
        ("createdomuser newcomer", "NT_STATUS_ACCESS_DENIED"),
        (&*format!("deletedomuser {name}"), "NT_STATUS_ACCESS_DENIED"),
        ("getdompwinfo", "min_password_length"),
    ] {
        let told = rpcclient(&server, command);
        assert!(told.contains(wanted), "{command}: no `{wanted}` in:\n{told}");
    }
    let users = net(&server, &["user"]);
    assert!(users.lines().any(|line| line.trim() == name), "{users}");
    // lsarpc names the SIDs that samr gives.
    let sid = fs::read_to_string(server.site().path("state").join("domain_sid"));
    let sid = format!("{}-{rid}", sid.expect("it is kept").trim());
    let told = rpcclient(&server, &format!("lookupsids {sid}"));
    assert!(told.contains(&format!("CHOROTEST\\{name} (1)")), "{told}");
    server.stop();
}

#[test]
fn each_command_of_rpcclient_for_server_and_workstation_is_answered() {
    let Some(_network) = network() else { return };
    let server = server(Setup::new().port_too(445));
    for (command, wanted) in [
        ("srvinfo", "CHOROTEST"),
        ("netshareenum", "netname: data"),
        ("netshareenumall", "netname: data"),
        ("netdiskenum", ""),
        ("netconnenum", ""),
        ("netremotetod", ""),
        ("netnamevalidate films 9", ""),
        ("netnamevalidate a/b 9", "WERR_INVALID_NAME"),
        ("netfilegetsec x", "WERR_NOT_SUPPORTED"),
        ("wkssvc_wkstagetinfo", ""),
        ("wkssvc_wkstagetinfo 502", "WERR_NOT_SUPPORTED"),
        ("wkssvc_getjoininformation", "WORKGROUP (2)"),
        ("wkssvc_messagebuffersend hello", "WERR_NOT_SUPPORTED"),
        // It counts the names, and prints the first one each time.
        ("wkssvc_enumeratecomputernames", "name: 1"),
        ("wkssvc_enumerateusers", ""),
    ] {
        let told = rpcclient(&server, command);
        assert!(told.contains(wanted), "{command}: no `{wanted}` in:\n{told}");
        // A fault of the call, or an answer that the client cannot decode.
        for fault in ["RNG", "NT_STATUS_", "RPC_", "failed"] {
            assert!(!told.contains(fault), "{command}: `{fault}` in:\n{told}");
        }
    }
    let told = rpcclient_as(&server, OTHER_USER, "wkssvc_enumeratecomputernames");
    assert!(told.contains("ACCESS_DENIED") && !told.contains("name:"), "{told}");
    server.stop();
}
