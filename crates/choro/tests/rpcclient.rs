//! Samba's clients of lsarpc against the real server: what a security tab asks to show names.

mod harness;

use std::fs;

use harness::rpc_clients::rpcclient;
use harness::{Setup, TestServer, USER};
use nix::unistd::{Gid, Group, Uid, User};

/// A server whose name is known.
fn server() -> TestServer {
    let global = "netbios name = CHOROTEST\nworkgroup = HOUSE";
    Setup::new().global(global).share("data", "").start()
}

#[track_caller]
fn check(server: &TestServer, commands: &str, wanted: &[&str]) {
    let printed = rpcclient(server, commands);
    for wanted in wanted {
        assert!(printed.contains(wanted), "{commands}: no `{wanted}` in:\n{printed}");
    }
}

#[test]
fn names_and_sids_of_the_system_are_translated() {
    let server = server();
    let root = User::from_uid(Uid::from_raw(0)).expect("a name service").expect("there is root");
    let group = Group::from_gid(Gid::from_raw(0)).expect("a name service").expect("one of id 0");
    for command in ["lookupnames", "lookupnames_level 1"] {
        let commands = format!("{command} {} \"Unix Group\\{}\"", root.name, group.name);
        check(&server, &commands, &["S-1-22-1-0 (User: 1)", "S-1-22-2-0"]);
    }
    let (user, group) = (root.name.as_str(), group.name.as_str());
    let user = format!("S-1-22-1-0 Unix User\\{user} (1)");
    let group = format!("S-1-22-2-0 Unix Group\\{group} (2)");
    check(&server, "lookupsids S-1-22-1-0 S-1-22-2-0", &[&user, &group]);
    server.stop();
}

#[test]
fn well_known_principals_are_translated() {
    let server = server();
    let names = "lookupnames Everyone SYSTEM Administrators \"BUILTIN\\Users\"";
    let wanted = ["S-1-1-0 (Well-known Group: 5)", "S-1-5-18", "S-1-5-32-544", "S-1-5-32-545"];
    check(&server, names, &wanted);
    let sids = "lookupsids S-1-1-0 S-1-5-11 S-1-3-0 S-1-5-32-546";
    let wanted = [
        "S-1-1-0 \\Everyone (5)",
        "S-1-5-11 NT AUTHORITY\\Authenticated Users (5)",
        "S-1-3-0 \\CREATOR OWNER (5)",
        "S-1-5-32-546 BUILTIN\\Guests (4)",
    ];
    check(&server, sids, &wanted);
    server.stop();
}

#[test]
fn unknown_names_and_sids_are_reported_as_unmapped() {
    let server = server();
    check(&server, "lookupnames no-such-user", &["NT_STATUS_NONE_MAPPED"]);
    let sid = "S-1-5-21-1-2-3-500";
    let known = "S-1-1-0 \\Everyone (5)";
    check(&server, &format!("lookupsids {sid} S-1-1-0"), &["(8)", known]);
    server.stop();
}

#[test]
fn the_domain_and_the_caller_are_reported() {
    let server = server();
    check(&server, "lsaquery", &["Domain Name: HOUSE"]);
    let printed = rpcclient(&server, "lookupnames CHOROTEST");
    let sid = printed.split_whitespace().find(|word| word.starts_with("S-1-5-21-"));
    let sid = sid.expect("the domain has a SID").to_owned();
    let kept = fs::read_to_string(server.site().path("state").join("domain_sid"));
    assert_eq!(kept.expect("it is kept").trim(), sid);
    check(&server, &format!("lookupsids {sid}"), &["CHOROTEST"]);
    check(&server, "getusername", &[&format!("Account Name: {USER}"), "HOUSE"]);
    assert_eq!(rpcclient(&server, "enumtrust"), "", "there is none, and that is no failure");
    server.stop();
}
