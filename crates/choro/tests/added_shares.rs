//! Shares that `choro share` adds and removes, for Debian's smbclient.

mod harness;

use std::fs;

use harness::choro::text;
use harness::{Setup, give_to_server};

#[test]
fn a_share_is_served_once_it_is_added_and_until_it_is_removed() {
    let setup = Setup::new();
    let file = setup.path("state").join("shares.conf");
    let include = format!("include = {}\n", text(&file));
    let folder = setup.path("films of 100%U");
    fs::create_dir(&folder).expect("there is space");
    give_to_server(&folder);
    // The added share has this from the shares above it.
    let server = setup.global("force user = nobody").share("data", "").sections(&include).start();
    let site = server.site();
    let config = fs::read_to_string(site.path("smb.conf")).expect("it was written");
    let client = server.client();
    client.run("films", &["ls"]).fails("NT_STATUS_BAD_NETWORK_NAME");
    let said = site.run(&["share", "add", "films", &text(&folder), "--comment", "Old"]).succeeds();
    assert!(said.contains("in effect"), "{said}");
    client.run("films", &["mkdir made"]).succeeds();
    assert!(folder.join("made").is_dir());
    assert!(client.list_shares().succeeds().contains("Disk|films|Old"));
    let listed = site.run(&["share", "list"]).succeeds();
    assert!(listed.contains("films") && listed.contains("films of 100%U"), "{listed}");
    for (arguments, fault) in [
        (["add", "FILMS", &*text(&folder)], "already"),
        (["add", "data", &*text(&folder)], "already"),
        (["add", "no", &*text(&folder.join("none"))], "No such file"),
        (["add", "homes", &*text(&folder)], "cannot be the name"),
        (["add", "a]\n[b", &*text(&folder)], "cannot be the name"),
    ] {
        let said = site.run(&[&["share"], &arguments[..]].concat()).fails(1);
        assert!(said.contains(fault), "{arguments:?}: {said}");
    }
    assert!(site.run(&["share", "remove", "data"]).fails(1).contains("has no share"));
    site.run(&["share", "remove", "Films"]).succeeds();
    client.run("films", &["ls"]).fails("NT_STATUS_BAD_NETWORK_NAME");
    let now = fs::read_to_string(site.path("smb.conf")).expect("it is there");
    assert_eq!(now, config, "the configuration is the operator's");
    server.stop();
}

#[test]
fn without_the_include_nothing_is_added() {
    let server = Setup::new().share("data", "").start();
    let folder = text(&server.share_path("data"));
    let said = server.site().run(&["share", "add", "films", &folder]).fails(1);
    assert!(said.contains("include = ") && said.contains("shares.conf"), "{said}");
    assert!(!server.site().run(&["share", "list"]).succeeds().contains("films"));
    server.stop();
}
