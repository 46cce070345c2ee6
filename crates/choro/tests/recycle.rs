//! The recycle bin of a share: Debian's smbclient deletes, and `choro recycle` brings back.

mod harness;

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;

use bench::client::requests::{Purpose, close, open};
use bench::client::{Client, Destination, Protection};
use dtyp::security_descriptor::Control;
use dtyp::{
    AccessMask, Ace, AceFlags, Acl, FileInformationClass, SecurityDescriptor, SecurityInformation,
    Sid,
};
use harness::choro::{Site, signal_process, wait_until};
use harness::session::Session;
use harness::{OTHER_USER, PASSWORD, Setup, TestServer, USER, daemon, give_to_server, terms};
use rustix::process::{Pid, Resource, Rlimit, Signal, prlimit};
use wire::create::{
    CreateDisposition, CreateOptions, CreateRequest, ImpersonationLevel, ShareAccess,
};
use wire::query_info::InfoType;
use wire::set_info::SetInfoRequest;
use wire::{Command, FileId};

fn server(lines: &str) -> TestServer {
    Setup::new().share("data", &format!("vfs objects = recycle\n{lines}\n")).start()
}

/// A file of the share, made by a local program.
fn make(folder: &Path, path: &str, content: &str) {
    let path = folder.join(path);
    if let Some(parent) = path.parent().filter(|it| *it != folder) {
        fs::create_dir_all(parent).expect("there is space");
        give_to_server(parent);
    }
    fs::write(&path, content).expect("there is space");
    give_to_server(&path);
}

fn content(folder: &Path, path: &str) -> String {
    fs::read_to_string(folder.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Opens a file so that it is deleted at the end of the open.
fn open_to_delete(client: &mut Client, name: &str) {
    let name = dtyp::utf16::to_bytes(name);
    let request = CreateRequest {
        impersonation_level: ImpersonationLevel::IMPERSONATION,
        desired_access: AccessMask::DELETE,
        share_access: ShareAccess::empty(),
        create_disposition: CreateDisposition::OPEN,
        create_options: CreateOptions::DELETE_ON_CLOSE,
        name: &name,
        ..CreateRequest::default()
    };
    let reply = client.call(Command::CREATE, 0, &request).expect("it answers");
    assert!(!reply.header.status.is_error(), "{:?}", reply.header.status);
}

/// Marks the file of an open for deletion.
fn mark(client: &mut Client, file_id: FileId) {
    let request = SetInfoRequest {
        info_type: InfoType::FILE,
        file_info_class: FileInformationClass::DISPOSITION.0,
        file_id,
        buffer: &[1],
        ..SetInfoRequest::default()
    };
    let reply = client.call(Command::SET_INFO, 0, &request).expect("it answers");
    assert!(!reply.header.status.is_error(), "{:?}", reply.header.status);
}

#[test]
fn a_deleted_file_is_listed_and_restored() {
    let server = server("recycle:repository = .bin/%U\nrecycle:keeptree = yes");
    let folder = server.share_path("data");
    make(&folder, "docs/letter", "dear");
    server.client().run("data", &["cd docs", "del letter", "cd ..", "rmdir docs"]).succeeds();
    assert!(!folder.join("docs").exists());
    let stored = format!(".bin/{USER}/docs/letter");
    assert_eq!(content(&folder, &stored), "dear");

    let listed = server.site().run(&["recycle", "list", "--json"]).succeeds();
    let rows: Vec<serde_json::Value> = serde_json::from_str(&listed).expect("an array");
    assert_eq!(rows.len(), 1, "{listed}");
    let row = ["share", "original", "stored"].map(|name| rows[0][name].as_str());
    assert_eq!(row, [Some("data"), Some("docs/letter"), Some(stored.as_str())]);
    assert_eq!(rows[0]["size"], 4);

    server.site().run(&["recycle", "restore", "data", &stored]).succeeds();
    server.client().run("data", &["cd docs", "get letter"]).succeeds();
    assert_eq!(content(&server.client_folder("work"), "letter"), "dear");
    server.stop();
}

#[test]
fn a_restored_file_replaces_none_and_stays_in_the_share() {
    let server = server("recycle:keeptree = yes");
    let (folder, site) = (server.share_path("data"), server.site());
    make(&folder, "f", "old");
    server.client().run("data", &["del f"]).succeeds();
    make(&folder, "f", "new");
    let refused = site.run(&["recycle", "restore", "data", ".recycle/f"]).fails(1);
    assert!(refused.contains("f exists"), "{refused}");
    for outside in ["../f", "/tmp/f"] {
        site.run(&["recycle", "restore", "data", ".recycle/f", "--to", outside]).fails(1);
    }
    site.run(&["recycle", "restore", "data", ".recycle/../f", "--to", "g"]).fails(1);
    site.run(&["recycle", "restore", "data", "f", "--to", "g"]).fails(1);
    site.run(&["recycle", "restore", "data", ".recycle/f", "--to", "sub/g"]).succeeds();
    assert_eq!((content(&folder, "f"), content(&folder, "sub/g")), ("new".into(), "old".into()));
    server.stop();
}

#[test]
fn emptying_deletes_the_files_that_are_old_enough() {
    let server = server("recycle:versions = yes");
    let (folder, site) = (server.share_path("data"), server.site());
    for _ in 0..2 {
        make(&folder, "f", "1234");
        server.client().run("data", &["del f"]).succeeds();
    }
    assert!(folder.join(".recycle/Copy #1 of f").exists());
    let text = site.run(&["recycle", "empty", "--older-than", "1h"]).succeeds();
    assert_eq!(text, "Deleted 0 files of 0 bytes\n");
    let text = site.run(&["recycle", "empty", "data"]).succeeds();
    assert_eq!(text, "Deleted 2 files of 8 bytes\n");
    assert_eq!(fs::read_dir(folder.join(".recycle")).expect("it stays").count(), 0);
    server.stop();
}

#[test]
fn emptying_goes_on_beside_a_folder_that_cannot_be_read_and_says_so() {
    let mut site = Site::new();
    let data = site.path("data");
    let lines = "vfs objects = recycle\nrecycle:repository = .bin";
    site.write_config(&format!("[data]\npath = {}\n{lines}\n", data.display()));
    for file in ["a/f", "locked/f", "z/f"] {
        let path = data.join(".bin").join(file);
        fs::create_dir_all(path.parent().expect("a folder")).expect("there is space");
        fs::write(&path, "1234").expect("there is space");
    }
    site.run_as_somebody();
    for folder in [".bin", ".bin/a", ".bin/z"].map(|it| data.join(it)) {
        fs::set_permissions(folder, Permissions::from_mode(0o777)).expect("ours");
    }
    let locked = data.join(".bin/locked");
    fs::set_permissions(&locked, Permissions::from_mode(0o000)).expect("ours");
    for (command, output) in [("list", ".bin/a/f"), ("empty", "Deleted 2 files of 8 bytes\n")] {
        let outcome = site.run(&["recycle", command, "data"]);
        assert!(outcome.output().contains(output), "{}", outcome.output());
        let output = outcome.fails(1);
        assert!(output.contains("cannot read \".bin/locked\""), "{output}");
    }
    fs::set_permissions(&locked, Permissions::from_mode(0o700)).expect("ours");
    let left: Vec<_> = fs::read_dir(data.join(".bin")).expect("it stays").flatten().collect();
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!(content(&locked, "f"), "1234");
}

#[test]
fn folders_beside_those_of_somebody_else_are_emptied_without_a_variable() {
    let site = Site::new();
    let data = site.path("data");
    let lines = "vfs objects = recycle\nrecycle:repository = .bin/all\nrecycle:keeptree = yes";
    site.write_config(&format!("[data]\npath = {}\n{lines}\n", data.display()));
    for folder in [".bin/all", ".bin/all-2/docs", ".bin/all-1", ".bin/other"] {
        fs::create_dir_all(data.join(folder)).expect("there is space");
        fs::write(data.join(folder).join("f"), "1234").expect("there is space");
    }
    let restored = site.run(&["recycle", "restore", "data", ".bin/all-2/docs/f"]).succeeds();
    assert_eq!(restored, "Restored docs/f\n");
    fs::write(data.join(".bin/all-2/f"), "12").expect("there is space");
    let text = site.run(&["recycle", "empty", "data"]).succeeds();
    assert_eq!(text, "Deleted 2 files of 6 bytes\n");
    assert_eq!(content(&data, ".bin/all-1/f"), "1234", "no folder of the bin");
    assert_eq!(content(&data, ".bin/other/f"), "1234", "no folder of the bin");
}

#[test]
fn a_variable_in_the_repository_makes_no_bin_of_other_folders() {
    let site = Site::new();
    let data = site.path("data");
    for folder in [".bin-ann", "data"] {
        fs::create_dir_all(data.join(folder)).expect("there is space");
        fs::write(data.join(folder).join("f"), "1234").expect("there is space");
    }
    let configure = |repository: &str| {
        let lines = format!("vfs objects = recycle\nrecycle:repository = {repository}");
        site.write_config(&format!("[data]\npath = {}\n{lines}\n", data.display()));
    };
    configure("%U");
    let refused = site.run(&["recycle", "empty", "data"]).fails(1);
    assert!(refused.contains("could be any folder"), "{refused}");
    let outcome = site.run(&["recycle", "empty"]);
    assert_eq!(outcome.output(), "Deleted 0 files of 0 bytes\n");
    assert!(outcome.fails(1).contains("could be any folder"));
    configure(".bin-%U");
    assert_eq!(site.run(&["recycle", "empty"]).succeeds(), "Deleted 1 files of 4 bytes\n");
    assert_eq!(content(&data, "data/f"), "1234");
    site.run(&["recycle", "restore", "data", "data/f", "--to", "g"]).fails(1);
}

#[test]
fn the_deletion_that_a_dead_worker_leaves_goes_to_the_bin() {
    let server = server("recycle:repository = .bin/%U");
    let folder = server.share_path("data");
    make(&folder, "f", "kept");
    let mut client = server.connect("data", Protection::Signed);
    open_to_delete(&mut client, "f");
    signal_process(server.worker_of(&client), Signal::KILL);
    wait_until(|| !folder.join("f").exists(), || "f is still there".to_owned());
    assert_eq!(content(&folder, ".bin/_/f"), "kept");
    server.stop();
}

/// With the server's rights the second file would be a copy beside the first one.
#[test]
fn the_bin_of_a_deleted_file_is_that_of_the_share_and_user_of_its_deletion() {
    for (is_on_close, share) in [(false, "plain"), (true, "plain"), (false, "data")] {
        let setup = Setup::new();
        let path = harness::choro::text(&setup.path("shares").join("data"));
        let lines = "vfs objects = recycle\nrecycle:repository = .bin/%U";
        let plain = format!("[plain]\npath = {path}\nread only = yes\n");
        let server = setup.share("data", lines).sections(&plain).start();
        let folder = server.share_path("data");
        for text in ["first", "second"] {
            make(&folder, "f", text);
            let other = Destination { user: OTHER_USER.to_owned(), ..server.destination(share) };
            let mut other = Client::connect(&other, terms(Protection::Signed)).expect("a user");
            let attributes = open(&mut other, Purpose::Stat, "f").expect("anybody may look");
            let mut client = server.connect("data", Protection::Signed);
            if is_on_close {
                open_to_delete(&mut client, "f");
                client.logoff().expect("it is connected");
            } else {
                let file_id = open(&mut client, Purpose::Change, "f").expect("its user's");
                mark(&mut client, file_id);
                close(&mut client, file_id).expect("it is open");
            }
            assert!(folder.join("f").exists(), "it is open elsewhere");
            close(&mut other, attributes).expect("it is open");
            wait_until(|| !folder.join("f").exists(), || "f is still there".to_owned());
            assert_eq!(content(&folder, &format!(".bin/{USER}/f")), text, "{share}");
            let users: Vec<_> = fs::read_dir(folder.join(".bin")).expect("there").collect();
            assert_eq!(users.len(), 1, "no folders of others: {users:?}");
        }
        server.stop();
    }
}

#[test]
fn the_deletion_of_a_disconnected_user_goes_to_the_bin_of_that_user() {
    let server = server("recycle:repository = .bin/%U");
    let folder = server.share_path("data");
    for text in ["first", "second"] {
        make(&folder, "f", text);
        let mut client = server.connect("data", Protection::Signed);
        let _attributes = open(&mut client, Purpose::Stat, "f").expect("its user's");
        let file_id = open(&mut client, Purpose::Change, "f").expect("its user's");
        mark(&mut client, file_id);
        close(&mut client, file_id).expect("it is open");
        assert!(folder.join("f").exists(), "its attributes are open");
        client.reset().expect("it is connected");
        wait_until(|| !folder.join("f").exists(), || "f is still there".to_owned());
        assert_eq!(content(&folder, &format!(".bin/{USER}/f")), text);
    }
    assert!(!server.log().contains("cannot delete"), "it was deleted once");
    server.stop();
}

/// The attack: a client that may only look the file up, through another share of its folder, moves
/// a directory above it before the last close, and back afterwards.
#[test]
fn a_directory_above_a_deleted_file_that_is_open_through_another_share_keeps_its_name() {
    let server = server_with_twin(Setup::new(), "");
    let folder = server.share_path("data");
    make(&folder, "d/f", "gone");
    let mut other = connect_as(&server, "plain", OTHER_USER);
    let attributes = open(&mut other, Purpose::Stat, "d\\f").expect("anybody may look");
    mark_and_close(&mut server.connect("data", Protection::Signed), "d\\f");
    let renamer = server.client().user(OTHER_USER, PASSWORD);
    renamer.run("data", &["rename d moved"]).fails("NT_STATUS_ACCESS_DENIED");
    close(&mut other, attributes).expect("it is open");
    wait_until(|| !folder.join("d/f").exists(), || "f is still there".to_owned());
    renamer.run("data", &["rename d moved"]).succeeds();
    server.stop();
}

/// Has another user, who may only look the file `f` of a directory up, open it through a share by
/// one name of the directory, rename the directory in the share `data`, and close the file last.
/// Its deletion in the meantime stays.
#[track_caller]
fn undo_by_last_close(
    server: &TestServer,
    (share, seen_as): (&str, &str),
    directory: &str,
    file: &Path,
) {
    let mut other = connect_as(server, share, OTHER_USER);
    let seen = open(&mut other, Purpose::Stat, &format!("{seen_as}\\f")).expect("it is readable");
    let deleted = format!("{directory}\\f");
    mark_and_close(&mut server.connect("data", Protection::Signed), &deleted);
    let renamer = server.client().user(OTHER_USER, PASSWORD);
    let rename = format!("rename {directory} moved");
    renamer.run("data", &[&rename]).fails("NT_STATUS_ACCESS_DENIED");
    close(&mut other, seen).expect("it is open");
    wait_until(|| !file.exists(), || server.log());
    renamer.run("data", &[&rename]).succeeds();
}

/// The attack: a client that may only look the file up closes it last, in a folder whose name has
/// other characters on disk.
#[test]
fn a_deletion_below_a_folder_with_mapped_characters_is_not_undone_by_the_last_close() {
    let mappings = "vfs objects = catia\ncatia:mappings = 0x3a:0xf022";
    let server = Setup::new().share("data", mappings).start();
    let folder = server.share_path("data");
    make(&folder, "s:ub/f", "gone");
    undo_by_last_close(&server, ("data", "s\u{f022}ub"), "s\u{f022}ub", &folder.join("s:ub/f"));
    server.stop();
}

/// The attack: as above, by a share of the same folder that shows the directory by another name.
#[test]
fn a_directory_above_a_deleted_file_keeps_its_name_where_another_share_shows_another() {
    let server = server_with_twin(Setup::new(), "mangled names = no");
    let folder = server.share_path("data");
    make(&folder, "CON/f", "gone");
    let listing = server.client().run("plain", &["ls"]).succeeds();
    let short = listing.split_whitespace().find(|it| it.contains('~'));
    let short = short.expect("no client may name it CON");
    undo_by_last_close(&server, ("plain", short), "CON", &folder.join("CON/f"));
    server.stop();
}

/// Nobody can tell whether it had a recycle bin.
#[test]
fn a_file_stays_if_the_share_in_which_it_was_deleted_is_gone() {
    let setup = Setup::new();
    let path = harness::choro::text(&setup.path("shares").join("data"));
    let plain = format!("[plain]\npath = {path}\nread only = yes\n");
    let server = setup.share("data", "vfs objects = recycle").sections(&plain).start();
    let folder = server.share_path("data");
    make(&folder, "f", "kept");
    let mut other = server.connect("plain", Protection::Signed);
    let attributes = open(&mut other, Purpose::Stat, "f").expect("anybody may look");
    let mut client = server.connect("data", Protection::Signed);
    let file_id = open(&mut client, Purpose::Change, "f").expect("its user's");
    mark(&mut client, file_id);
    close(&mut client, file_id).expect("it is open");
    server.site().write_config(&plain);
    server.site().run(&["message", "reload"]).succeeds();
    wait_until(
        || {
            let data = Client::connect(&server.destination("data"), terms(Protection::Signed));
            data.is_err()
        },
        || "the share is still there".to_owned(),
    );
    close(&mut other, attributes).expect("it is open");
    wait_until(|| server.log().contains("cannot delete"), || server.log());
    assert_eq!(content(&folder, "f"), "kept");
    server.stop();
}

/// Files that others may look at through a second share of the same folder, `plain`.
fn server_with_twin(setup: Setup, lines: &str) -> TestServer {
    let path = harness::choro::text(&setup.path("shares").join("data"));
    let plain = format!("[plain]\npath = {path}\nread only = yes\n");
    setup.share("data", lines).sections(&plain).start()
}

fn connect_as(server: &TestServer, share: &str, user: &str) -> Client {
    let destination = Destination { user: user.to_owned(), ..server.destination(share) };
    Client::connect(&destination, terms(Protection::Signed)).expect("a user")
}

fn mark_and_close(client: &mut Client, name: &str) {
    let file_id = open(client, Purpose::Change, name).expect("its user's");
    mark(client, file_id);
    close(client, file_id).expect("it is open");
}

/// The bin is one for a group, which the owner of the file does not belong to: the server's rights
/// would not lead there.
#[test]
fn a_removal_for_another_open_has_the_right_that_a_descriptor_has_granted() {
    if !harness::runs_as_root() {
        return;
    }
    let setup = Setup::new();
    let path = harness::choro::text(&setup.path("shares").join("data"));
    let root = format!(
        "[root]\npath = {path}\nread only = no\nvfs objects = acl_xattr\nforce user = root\n"
    );
    let lines = "vfs objects = acl_xattr recycle\nrecycle:repository = .bin";
    let server = server_with_twin(setup.sections(&root), lines);
    let folder = server.share_path("data");
    let bin = folder.join(".bin");
    fs::create_dir(&bin).expect("there is space");
    fs::set_permissions(&bin, Permissions::from_mode(0o770)).expect("we are root");
    chown(&bin, Some(0), Some(harness::FORCED_USER.1)).expect("we are root");
    let directory = folder.join("d");
    fs::create_dir(&directory).expect("there is space");
    let daemon = daemon().uid.as_raw();
    chown(&directory, Some(daemon), None).expect("we are root");
    for is_own in [false, true] {
        let file = directory.join("f");
        fs::write(&file, "kept").expect("there is space");
        chown(&file, Some(daemon), None).expect("we are root");
        grant_everything(&server, "d\\f");
        let share = if is_own { "data" } else { "plain" };
        let mut last = connect_as(&server, share, if is_own { USER } else { OTHER_USER });
        let attributes = open(&mut last, Purpose::Stat, "d\\f").expect("anybody may look");
        let mut client = server.connect("data", Protection::Signed);
        mark_and_close(&mut client, "d\\f");
        close(&mut last, attributes).expect("it is open");
        wait_until(|| !file.exists(), || "f is still there".to_owned());
        assert_eq!(content(&folder, ".bin/f"), "kept", "last open of the same user: {is_own}");
        fs::remove_file(bin.join("f")).expect("we are root");
    }
    server.stop();
}

/// Gives all rights to a file to everybody, by its descriptor.
fn grant_everything(server: &TestServer, path: &str) {
    let mut session = Session::new(server.destination("root").address, "root", USER, PASSWORD);
    let access = AccessMask::WRITE_DAC;
    let file_id = session.open(path, access, CreateDisposition::OPEN, CreateOptions::default());
    let file_id = file_id.expect("root may");
    let ace = Ace::allow(Sid::everyone(), AccessMask::FILE_ALL, AceFlags::empty());
    let descriptor = SecurityDescriptor {
        control: Control::DACL_PRESENT,
        dacl: Some(Acl::new(vec![ace])),
        ..SecurityDescriptor::default()
    };
    session.set_descriptor(file_id, SecurityInformation::DACL, &descriptor);
    session.close(file_id);
}

/// Lets a worker open no further file.
fn take_descriptors(server: &TestServer, client: &Client) {
    let pid = i32::try_from(server.worker_of(client)).expect("it is a pid");
    let limit = Rlimit { current: Some(3), maximum: Some(3) };
    prlimit(Pid::from_raw(pid), Resource::Nofile, limit).expect("it is ours");
}

#[test]
fn without_descriptors_for_the_bin_a_deletion_is_refused_to_its_closer() {
    let server = server("recycle:repository = .bin/%U");
    let folder = server.share_path("data");
    make(&folder, "f", "kept");
    let mut client = server.connect("data", Protection::Signed);
    let file_id = open(&mut client, Purpose::Change, "f").expect("its user's");
    mark(&mut client, file_id);
    take_descriptors(&server, &client);
    close(&mut client, file_id).expect_err("it cannot go to the bin");
    assert_eq!(content(&folder, "f"), "kept");
    server.stop();
}

/// The attack: a client that may only look up files takes all descriptors of its worker, and closes
/// a file last that another user has deleted.
#[test]
fn a_worker_without_descriptors_leaves_the_deletion_of_another_user_to_another_worker() {
    let server =
        server_with_twin(Setup::new(), "vfs objects = recycle\nrecycle:repository = .bin/%U");
    let folder = server.share_path("data");
    make(&folder, "f", "kept");
    let mut other = connect_as(&server, "plain", OTHER_USER);
    let attributes = open(&mut other, Purpose::Stat, "f").expect("anybody may look");
    mark_and_close(&mut server.connect("data", Protection::Signed), "f");
    take_descriptors(&server, &other);
    close(&mut other, attributes).expect("it is open");
    wait_until(|| !folder.join("f").exists(), || "f is still there".to_owned());
    assert_eq!(content(&folder, &format!(".bin/{USER}/f")), "kept");
    server.stop();
}

#[test]
fn a_removal_for_another_user_has_the_configuration_of_that_users_files() {
    let setup = Setup::new();
    let own = setup.path("own.d");
    fs::create_dir(&own).expect("there is space");
    let file = own.join(format!("{USER}.conf"));
    fs::write(&file, "vfs objects = recycle\nrecycle:repository = .bin\n").expect("space");
    let include = format!("include = {}/%U.conf", harness::choro::text(&own));
    let server = server_with_twin(setup, &include);
    let folder = server.share_path("data");
    for is_readable in [true, false] {
        make(&folder, "f", "kept");
        let mut other = connect_as(&server, "plain", OTHER_USER);
        let attributes = open(&mut other, Purpose::Stat, "f").expect("anybody may look");
        mark_and_close(&mut server.connect("data", Protection::Signed), "f");
        if !is_readable {
            fs::write(&file, "[broken\n").expect("there is space");
        }
        close(&mut other, attributes).expect("it is open");
        if is_readable {
            wait_until(|| !folder.join("f").exists(), || "f is still there".to_owned());
            assert_eq!(content(&folder, ".bin/f"), "kept");
        } else {
            wait_until(|| server.log().contains("cannot delete"), || server.log());
            assert_eq!(content(&folder, "f"), "kept", "nobody can tell where its bin is");
        }
    }
    server.stop();
}

/// The attack: a user of this machine gives a share the name of another user's home.
#[test]
fn a_share_of_a_user_does_not_decide_on_deletions_in_a_home_of_its_name() {
    if !harness::runs_as_root() {
        return;
    }
    let setup = Setup::new();
    let (files, homes) = (setup.path("usershares"), setup.path("shares").join("data"));
    let (homes, text) = (harness::choro::text(&homes), harness::choro::text);
    fs::create_dir(&files).expect("there is space");
    fs::set_permissions(&files, Permissions::from_mode(0o1770)).expect("we are root");
    let usershares = format!("usershare path = {}\nusershare max shares = 10", text(&files));
    let lines = format!(
        "[homes]\npath = {homes}/%S\nread only = no\nforce user = {}\nvfs objects = recycle\n\
         recycle:repository = .bin\n",
        harness::FORCED_USER.0
    );
    let server = setup.global(&usershares).share("data", "").sections(&lines).start();
    let folder = server.share_path("data");
    let home = folder.join(USER);
    fs::create_dir(&home).expect("there is space");
    give_to_server(&home);
    make(&folder, &format!("{USER}/f"), "kept");
    let mut other = connect_as(&server, "data", OTHER_USER);
    let attributes = open(&mut other, Purpose::Stat, &format!("{USER}\\f")).expect("it may look");
    mark_and_close(&mut server.connect(USER, Protection::Signed), "f");
    let mine = files.join(USER);
    let share = format!(
        "#VERSION 2\npath={homes}\ncomment=\nusershare_acl=S-1-1-0:F\nguest_ok=n\n\
         sharename={USER}\n"
    );
    fs::write(&mine, share).expect("there is space");
    give_to_server(&mine);
    close(&mut other, attributes).expect("it is open");
    wait_until(|| !home.join("f").exists(), || "f is still there".to_owned());
    assert_eq!(content(&home, ".bin/f"), "kept");
    server.stop();
}

#[test]
fn check_has_nothing_to_say_about_a_good_bin_and_names_unknown_options() {
    let server = server("recycle:keeptree = yes\nrecycle:keptree = yes");
    let output = server.site().run(&["check", "--json"]).succeeds();
    let rows: Vec<serde_json::Value> = serde_json::from_str(&output).expect("an array");
    let about: Vec<&str> = rows
        .iter()
        .filter(|row| row["kind"] == "warning")
        .filter_map(|row| row["message"].as_str())
        .filter(|message| message.contains("recycle"))
        .collect();
    let want = "unknown parameter `recycle:keptree`, did you mean `recycle:keeptree`?";
    assert_eq!(about, [want]);
    server.stop();
}
