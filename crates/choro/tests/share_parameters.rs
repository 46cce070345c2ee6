//! Parameters of shares for Debian's smbclient and the test peer: attributes where none are stored
//! (`map archive` and its relatives), `dos filemode`, `strict rename`, and `check parent directory
//! delete on close`.

mod harness;

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;

use dtyp::{AccessMask, FileAttributes, NtStatus, SecurityInformation};
use harness::session::Session;
use harness::{PASSWORD, Setup, TestServer, USER, daemon, give_to_server, runs_as_root};
use wire::create::{CreateDisposition, CreateOptions};

const ALL_MAPPED: &str = "store dos attributes = no\nmap hidden = yes\nmap system = yes\n\
                          map readonly = yes\ncreate mask = 0775";

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("it is there").permissions().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("it is ours");
}

/// Attributes of a file as smbclient lists them, `N` for none.
#[track_caller]
fn listed(server: &TestServer, name: &str) -> String {
    let text = server.client().run("data", &["ls"]).succeeds();
    let mut lines = text.lines().filter_map(|line| line.trim_start().strip_prefix(name));
    let rest = lines.find(|rest| rest.starts_with(' ')).expect("it is listed");
    let word = rest.split_whitespace().next().expect("a size");
    if word.chars().all(|it| it.is_ascii_digit()) { String::new() } else { word.to_owned() }
}

fn put(server: &TestServer, name: &str) {
    fs::write(server.client_folder("work").join(name), "text").expect("there is space");
    server.client().run("data", &[&format!("put {name}")]).succeeds();
}

#[test]
fn attributes_are_the_execute_bits_of_a_file_both_ways() {
    let server = Setup::new().share("data", ALL_MAPPED).start();
    put(&server, "file");
    let path = server.share_path("data").join("file");
    assert_eq!(mode(&path), 0o764, "a new file has ARCHIVE");
    for (change, attributes, wanted) in [
        ("+h", "AH", 0o765),
        ("+s", "AHS", 0o775),
        ("-a", "HS", 0o675),
        ("-hs", "N", 0o664),
        ("+ra", "AR", 0o544),
        ("-r", "A", 0o764),
    ] {
        server.client().run("data", &[&format!("setmode file {change}")]).succeeds();
        assert_eq!(format!("{:o}", mode(&path)), format!("{wanted:o}"), "{change}");
        assert_eq!(sorted(&listed(&server, "file")), sorted(attributes), "{change}");
    }
    // By a program of this machine.
    set_mode(&path, 0o611);
    assert_eq!(sorted(&listed(&server, "file")), "HS");
    set_mode(&path, 0o444);
    assert_eq!(listed(&server, "file"), "R");
    server.stop();
}

fn sorted(attributes: &str) -> String {
    let mut letters: Vec<char> = attributes.chars().collect();
    letters.sort_unstable();
    letters.into_iter().collect()
}

#[test]
fn only_archive_is_mapped_by_default_and_nothing_where_attributes_are_stored() {
    let server = Setup::new()
        .share("data", "store dos attributes = no")
        .share("stored", "map hidden = yes\nmap readonly = yes")
        .start();
    put(&server, "file");
    let path = server.share_path("data").join("file");
    assert_eq!(mode(&path), 0o744);
    server.client().run("data", &["setmode file +hs"]).succeeds();
    assert_eq!((mode(&path), listed(&server, "file")), (0o744, "A".to_owned()));
    set_mode(&path, 0o644);
    assert_eq!(listed(&server, "file"), "N");
    // A change of the data is for backups to see.
    let address = server.site().address();
    let mut session = Session::new(address, "data", USER, PASSWORD);
    let options = CreateOptions::default();
    let open = session.open("file", AccessMask::WRITE_DATA, CreateDisposition::OPEN, options);
    let open = open.expect("it may write");
    session.write(open, b"more");
    session.close(open);
    assert_eq!((mode(&path), listed(&server, "file")), (0o744, "A".to_owned()));
    server.client().run("stored", &["put file", "setmode file +hr"]).succeeds();
    assert_eq!(mode(&server.share_path("stored").join("file")), 0o644);
    server.stop();
}

#[test]
fn a_file_that_is_created_read_only_can_be_written_by_its_creator_alone() {
    let server = Setup::new().share("data", ALL_MAPPED).start();
    let mut session = Session::new(server.site().address(), "data", USER, PASSWORD);
    put(&server, "file");
    let (write, options) = (AccessMask::WRITE_DATA, CreateOptions::default());
    server.client().run("data", &["setmode file +r"]).succeeds();
    assert_eq!(session.try_access("file", write), NtStatus::ACCESS_DENIED);
    let open = session.open("other", AccessMask::FILE_ALL, CreateDisposition::CREATE, options);
    let open = open.expect("it may create");
    session.set_basic(open, 0, FileAttributes::READONLY);
    session.write(open, b"still");
    assert!(session.basic(open).2.contains(FileAttributes::READONLY));
    session.close(open);
    let path = server.share_path("data").join("other");
    assert_eq!((mode(&path) & 0o222, fs::read(&path).expect("it is ours")), (0, b"still".to_vec()));
    server.stop();
}

/// Needs root: a file of another owner.
#[test]
fn read_only_can_mean_that_the_user_may_not_write() {
    if !runs_as_root() {
        return;
    }
    let lines = "store dos attributes = no\nmap readonly = permissions";
    let server = Setup::new().share("data", lines).start();
    let path = server.share_path("data").join("file");
    fs::write(&path, "text").expect("there is space");
    set_mode(&path, 0o644);
    assert_eq!(listed(&server, "file"), "R");
    set_mode(&path, 0o666);
    assert_eq!(listed(&server, "file"), "N");
    set_mode(&path, 0o444);
    give_to_server(&path);
    assert_eq!(listed(&server, "file"), "R");
    server.stop();
}

/// Needs root for files of another owner.
#[test]
fn dos_filemode_lets_writers_change_permissions_and_nobody_else() {
    if !runs_as_root() {
        return;
    }
    for (line, granted) in [("yes", NtStatus::SUCCESS), ("no", NtStatus::ACCESS_DENIED)] {
        let lines = format!("{ALL_MAPPED}\ndos filemode = {line}");
        let server = Setup::new().share("data", &lines).start();
        let folder = server.share_path("data");
        for (name, mode) in [("open", 0o666), ("closed", 0o644)] {
            fs::write(folder.join(name), "text").expect("there is space");
            chown(folder.join(name), Some(daemon().uid.as_raw()), None).expect("we are root");
            set_mode(&folder.join(name), mode);
        }
        let mut session = Session::new(server.site().address(), "data", USER, PASSWORD);
        let mut access = |name, wanted| session.try_access(name, wanted);
        let descriptor = AccessMask::WRITE_DAC | AccessMask::WRITE_OWNER;
        assert_eq!(access("open", descriptor), granted, "{line}");
        assert_eq!(access("closed", descriptor), NtStatus::ACCESS_DENIED);
        let changed = server.client().run("data", &["setmode open +h"]);
        assert_eq!(mode(&folder.join("open")), if line == "yes" { 0o667 } else { 0o666 });
        match line {
            "yes" => drop(changed.succeeds()),
            _ => drop(changed.fails("NT_STATUS_ACCESS_DENIED")),
        }
        server.client().run("data", &["setmode closed +h"]).fails("NT_STATUS_ACCESS_DENIED");
        if line == "yes" {
            let options = CreateOptions::default();
            let all = descriptor | AccessMask::READ_CONTROL;
            let open = session.open("open", all, CreateDisposition::OPEN, options);
            let open = open.expect("it was granted");
            let mut descriptor = session.descriptor(open);
            let dacl = descriptor.dacl.as_mut().expect("a list");
            dacl.aces.retain(|ace| ace.sid() != Some(&dtyp::Sid::everyone()));
            session.set_descriptor(open, SecurityInformation::DACL, &descriptor);
            assert_eq!(mode(&folder.join("open")) & 0o7, 0);
        }
        server.stop();
    }
}

#[test]
fn nothing_is_created_in_a_directory_that_is_about_to_be_deleted_if_that_is_checked() {
    const PARAMETER: &str = "check parent directory delete on close";
    let server = Setup::new()
        .share("checked", &format!("{PARAMETER} = yes"))
        .share("unchecked", &format!("{PARAMETER} = no"))
        .start();
    let (access, create) = (AccessMask::FILE_ALL, CreateDisposition::CREATE);
    for (share, status) in [("checked", Err(NtStatus::DELETE_PENDING)), ("unchecked", Ok(()))] {
        let mut session = Session::new(server.site().address(), share, USER, PASSWORD);
        let directory = session.open("directory", access, create, CreateOptions::DIRECTORY_FILE);
        let directory = directory.expect("it may create");
        let kept = session.open("directory\\kept", access, create, CreateOptions::default());
        session.close(kept.expect("it may create"));
        let kept = server.share_path(share).join("directory/kept");
        assert!(kept.exists(), "it is not to be deleted yet");
        fs::remove_file(&kept).expect("we may");
        session.delete_on_close(directory);
        for (name, options) in
            [("file", CreateOptions::default()), ("folder", CreateOptions::DIRECTORY_FILE)]
        {
            let path = format!("directory\\{name}");
            let made = session.open(&path, access, create, options);
            assert_eq!(made.map(|open| session.close(open)), status, "{share}: {name}");
        }
        session.close(directory);
        let stays = server.share_path(share).join("directory").exists();
        assert_eq!(stays, status.is_ok(), "{share}");
    }
    server.stop();
}

/// Both with and without the parameter, as `choro check` says.
#[test]
fn a_folder_in_which_another_client_has_a_file_open_is_not_renamed() {
    let server = Setup::new()
        .share("strict", "strict rename = yes")
        .share("default", "strict rename = no")
        .start();
    let address = server.site().address();
    for share in ["strict", "default"] {
        let client = server.client();
        client.run(share, &["mkdir folder"]).succeeds();
        let mut other = Session::new(address, share, USER, PASSWORD);
        let (access, create) = (AccessMask::FILE_ALL, CreateDisposition::CREATE);
        let open = other.open("folder\\file", access, create, CreateOptions::default());
        let open = open.expect("it may create");
        client.run(share, &["rename folder moved"]).fails("NT_STATUS_ACCESS_DENIED");
        other.close(open);
        client.run(share, &["rename folder moved"]).succeeds();
    }
    let printed = server.site().run(&["check", "-v"]).error();
    assert_eq!(printed.matches("`strict rename = no` has no effect").count(), 1, "{printed}");
    server.stop();
}

/// The last name of the configured path may be a link of another name.
#[test]
fn a_depot_with_a_link_for_its_configured_path_is_hidden_by_the_name_of_its_place() {
    let setup = Setup::new();
    let (data, link) = (setup.path("shares").join("data"), setup.path("link"));
    std::os::unix::fs::symlink(data.join(".real"), &link).expect("there is space");
    let with_depot =
        format!("vfs objects = streams_depot\nstreams_depot:directory = {}", link.display());
    let plain = format!("[plain]\npath = {}\nread only = no\n", data.display());
    let server = setup.share("data", &with_depot).sections(&plain).start();
    let depot = server.share_path("data").join(".real");
    fs::create_dir(&depot).expect("there is space");
    give_to_server(&depot);
    for share in ["data", "plain"] {
        let listed = server.client().run(share, &["ls"]).succeeds();
        assert!(!listed.contains(".real"), "{share}: {listed}");
        server.client().run(share, &["rename .real stolen"]);
        assert!(depot.exists(), "no client reaches it");
    }
    server.stop();
}

/// The attack: who may write the folder renames the depot, and the streams of all are missing.
#[test]
fn a_depot_of_another_share_is_hidden_also_where_a_link_leads_to_its_folder() {
    let setup = Setup::new();
    let (data, link) = (setup.path("shares").join("data"), setup.path("link"));
    std::os::unix::fs::symlink(&data, &link).expect("there is space");
    let alias = format!("path = {}", link.display());
    let server = setup.share("data", "vfs objects = streams_depot").share("alias", &alias).start();
    let depot = server.share_path("data").join(".streams");
    fs::create_dir(&depot).expect("there is space");
    give_to_server(&depot);
    let listed = server.client().run("alias", &["mkdir seen", "ls"]).succeeds();
    assert!(server.share_path("data").join("seen").exists(), "the link leads there");
    assert!(listed.contains("seen") && !listed.contains(".streams"), "{listed}");
    server.client().run("alias", &["rename .streams stolen"]);
    server.client().run("alias", &["rmdir .streams"]);
    assert!(depot.exists(), "no client reaches it");
    server.stop();
}
