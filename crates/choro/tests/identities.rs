//! Identities that Debian's smbclient is served with: `username map`, `force user`, `admin users`.
//! The expectations are results of Debian's smbd 4.17 with the same lines.

mod harness;

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use dtyp::security_descriptor::Control;
use dtyp::{AccessMask, Ace, AceFlags, Acl, SecurityDescriptor, SecurityInformation, Sid};
use harness::choro::wait_until;
use harness::content::write_file;
use harness::session::{EVERYTHING, Session};
use harness::{
    OTHER_USER, PASSWORD, Setup, TestServer, USER, daemon, give_to_server, name_in_home,
    runs_as_root,
};
use wire::create::{CreateDisposition, CreateOptions};

/// Needs root: other users cannot impersonate anyone.
#[test]
fn every_share_of_a_client_has_its_own_forced_user() {
    if !runs_as_root() {
        return;
    }
    let server = Setup::new().share("data", "").share("other", "force user = daemon").start();
    let other = server.share_path("other");
    fs::set_permissions(&other, Permissions::from_mode(0o777)).expect("we are root");
    write_file(&server.client_folder("work").join("source"), 1, 1);
    // The first share makes the worker impersonate its user before the second one is connected.
    let commands = ["put source there", "tcon other", "put source there"];
    server.client().run("data", &commands).succeeds();
    let owner = |share: &str| fs::metadata(server.share_path(share).join("there")).unwrap().uid();
    assert_ne!(owner("data"), daemon().uid.as_raw());
    assert_eq!(owner("other"), daemon().uid.as_raw());
    server.stop();
}

/// Needs root, as above. A program that is setuid acts as the forced user, for whoever starts it.
#[test]
fn no_client_has_a_program_that_acts_as_the_forced_user() {
    if !runs_as_root() {
        return;
    }
    let server = Setup::new().share("data", "force user = root").start();
    let mut client = Session::new(server.site().address(), "data", USER, PASSWORD);
    let there = server.share_path("data").join("there");
    write_file(&there, 1, 1);
    fs::set_permissions(&there, Permissions::from_mode(0o6755)).expect("we are root");
    let options = CreateOptions::empty();
    // S-1-5-88-3-MODE, as the Linux client and Windows' NFS server say a mode.
    let mode = Ace::allow(Sid::new(5, &[88, 3, 0o6755]), AccessMask::empty(), AceFlags::empty());
    let descriptor = SecurityDescriptor {
        control: Control::DACL_PRESENT,
        dacl: Some(Acl::new(vec![mode])),
        ..SecurityDescriptor::default()
    };
    for (name, disposition, sets_mode) in
        [("made", CreateDisposition::CREATE, true), ("there", CreateDisposition::OPEN, false)]
    {
        let file = client.open(name, EVERYTHING, disposition, options).expect("the share's");
        client.write(file, b"a program of the client's");
        if sets_mode {
            client.set_descriptor(file, SecurityInformation::DACL, &descriptor);
        }
        client.close(file);
        let found = fs::metadata(server.share_path("data").join(name)).expect("it is there");
        assert_eq!((found.uid(), found.mode() & 0o7777), (0, 0o755), "{name}");
    }
    server.stop();
}

/// Needs root, as the first test.
#[test]
fn an_administrators_files_through_a_forced_user_are_roots_in_that_users_groups() {
    if !runs_as_root() {
        return;
    }
    let lines = format!("admin users = {USER}\nforce user = daemon");
    let server = Setup::new().share("data", &lines).start();
    server.client().run("data", &["mkdir made"]).succeeds();
    let made = fs::metadata(server.share_path("data").join("made")).expect("it was made");
    assert_eq!((made.uid(), made.gid()), (0, daemon().gid.as_raw()));
    server.stop();
}

/// Needs root, as the first test.
#[test]
fn an_administrator_has_a_name_and_a_home_of_their_own() {
    if !runs_as_root() {
        return;
    }
    let server = Setup::new()
        // Homes of other accounts are no paths of workers.
        .global("homes min uid = 1")
        .share("name", "path = %FOLDER/%u\nadmin users = daemon\nforce user =")
        .share("home", "path = %H\nadmin users = daemon\nforce user =")
        .start();
    server.add_user("daemon");
    fs::create_dir(server.share_path("name").join("daemon")).expect("there is space");
    let client = server.client().user("daemon", PASSWORD);
    client.run("name", &["mkdir made"]).succeeds();
    let name = name_in_home(&daemon());
    client.run("home", &[&format!("ls \"{name}\"")]).succeeds();
    server.stop();
}

/// Needs root, as the first test.
#[test]
fn an_administrators_files_are_roots_in_the_administrators_groups() {
    if !runs_as_root() {
        return;
    }
    let server = Setup::new().share("data", "admin users = daemon\nforce user =").start();
    server.add_user("daemon");
    server.client().user("daemon", PASSWORD).run("data", &["mkdir made"]).succeeds();
    let made = fs::metadata(server.share_path("data").join("made")).expect("it was made");
    assert_eq!((made.uid(), made.gid()), (0, daemon().gid.as_raw()));
    server.stop();
}

/// Needs root: other users have no foreign groups.
#[test]
fn a_group_of_the_system_is_no_netgroup_of_that_name() {
    if !runs_as_root() {
        return;
    }
    let server = Setup::new()
        .share("unix", "valid users = +daemon")
        .share("either", "valid users = @daemon")
        .share("netgroup", "valid users = &daemon")
        .start();
    server.add_user("daemon");
    let client = server.client().user("daemon", PASSWORD);
    client.run("unix", &["ls"]).succeeds();
    client.run("either", &["ls"]).succeeds();
    client.run("netgroup", &["ls"]).fails("NT_STATUS_ACCESS_DENIED");
    server.stop();
}

#[test]
fn clients_are_the_users_that_the_username_map_has_for_the_names_they_give() {
    let setup = Setup::new();
    let map = setup.path("names");
    let lines = format!("username map = {}", map.display());
    let server = setup.global(&lines).share("data", &format!("valid users = {USER}")).start();
    let reaches = |name: &str| {
        let client = server.client().user(name, PASSWORD);
        client.run("data", &["ls"]).text()
    };
    fs::write(&map, format!("{USER} = Anna \"Anna Blume\"\n")).expect("there is space");
    for name in [USER, "anna", "ANNA BLUME"] {
        assert!(!reaches(name).contains("NT_STATUS_"), "{name}: {}", reaches(name));
    }
    // Users with names of their own are mapped as well, from the next logon on.
    assert!(reaches(OTHER_USER).contains("NT_STATUS_ACCESS_DENIED"));
    fs::write(&map, format!("!{OTHER_USER} = anna\n{USER} = *\n")).expect("there is space");
    assert!(reaches("anna").contains("NT_STATUS_ACCESS_DENIED"));
    assert!(!reaches(OTHER_USER).contains("NT_STATUS_"));
    // The password is that of the mapped user.
    let wrong = server.client().user("anybody", "not-the-password");
    wrong.run("data", &["ls"]).fails("NT_STATUS_LOGON_FAILURE");

    // A name in another encoding than UTF-8 does not keep the others from being what they are.
    let lines = format!("{OTHER_USER} = M\\\n  anna");
    fs::write(&map, [b"daemon = J\xF6rg\n".as_slice(), lines.as_bytes()].concat()).expect("space");
    assert!(reaches("anna").contains("NT_STATUS_ACCESS_DENIED"), "{}", server.log());

    // Without the map nobody knows which user a name means.
    fs::remove_file(&map).expect("it is there");
    for name in [USER, "anna"] {
        assert!(reaches(name).contains("NT_STATUS_NO_LOGON_SERVERS"), "{name}: {}", reaches(name));
    }
    let output = format!("username map {}: ", map.display());
    wait_until(|| server.log().contains(&output), || server.log());
    server.stop();
}

#[test]
fn a_path_names_the_user_as_the_client_does_and_lists_of_users_as_they_are() {
    let setup = Setup::new();
    let map = setup.path("names");
    fs::write(&map, format!("{USER} = anna\n")).expect("there is space");
    let server = setup
        .global(&format!("username map = {}", map.display()))
        .share("data", "path = %FOLDER/%U\nvalid users = %U\ncomment = that of %U")
        .start();
    for name in ["anna", USER] {
        let folder = server.share_path("data").join(name);
        fs::create_dir(&folder).expect("there is space");
        give_to_server(&folder);
    }
    let anna = server.client().user("ANNA", PASSWORD);
    anna.run("data", &["mkdir made"]).succeeds();
    assert!(server.share_path("data").join("anna/made").is_dir());
    let listed = anna.list_shares().succeeds();
    assert!(listed.contains("Disk|data|that of anna\n"), "{listed}");
    server.client().run("data", &["mkdir own"]).succeeds();
    assert!(server.share_path("data").join(USER).join("own").is_dir());
    server.stop();
}

/// Creates a file that grants everything to authenticated users, and nothing to others.
fn make_file_for_authenticated_users(server: &TestServer, share: &str, user: &str) {
    make_file_for(&Sid::authenticated_users(), "members only", server, share, user);
}

/// Creates a file that grants everything to these, and nothing to others.
fn make_file_for(these: &Sid, name: &str, server: &TestServer, share: &str, user: &str) {
    let mut owner = Session::new(server.site().address(), share, user, PASSWORD);
    let (disposition, options) = (CreateDisposition::CREATE, CreateOptions::empty());
    let file = owner.open(name, EVERYTHING, disposition, options).expect("it is new");
    owner.write(file, b"text");
    let everything = Ace::allow(these.clone(), AccessMask::FILE_ALL, AceFlags::empty());
    let descriptor = SecurityDescriptor {
        control: Control::DACL_PRESENT,
        dacl: Some(Acl::new(vec![everything])),
        ..SecurityDescriptor::default()
    };
    owner.set_descriptor(file, SecurityInformation::DACL, &descriptor);
    owner.close(file);
}

/// Needs root: the kernel checks a user's rights, too. As clients of Samba have written it, an
/// access list names the user of its database by a SID of the machine.
#[test]
fn an_imported_user_has_the_rights_that_samba_gave_to_its_sid() {
    if !runs_as_root() {
        return;
    }
    let server = Setup::new().share("data", "vfs objects = acl_xattr\nforce user =").start();
    fs::set_permissions(server.share_path("data"), Permissions::from_mode(0o777)).expect("root");
    server.add_user("daemon");
    server.add_user("bin");
    let sid = Sid::new(5, &[21, 7, 8, 9, 1_001]);
    let daemon = server.client().user("daemon", PASSWORD);
    make_file_for(&sid, "before", &server, "data", "bin");
    daemon.run("data", &["get before mine"]).fails("NT_STATUS_ACCESS_DENIED");
    let block = format!("---------------\nUnix username:        daemon\nUser SID: {sid}\n");
    server.site().run_with_input(&["user", "import"], &block).succeeds();
    make_file_for(&sid, "after", &server, "data", "bin");
    daemon.run("data", &["get after mine", "put mine after"]).succeeds();
    server.client().run("data", &["get after mine"]).fails("NT_STATUS_ACCESS_DENIED");
    server.stop();
}

/// Needs root: nobody else can be forced to be somebody, or in a group.
#[test]
fn a_guest_is_no_authenticated_user_under_a_forced_user_or_group() {
    if !runs_as_root() {
        return;
    }
    let lines = "guest ok = yes\nvfs objects = acl_xattr\nacl_xattr:ignore system acls = yes";
    let server = Setup::new()
        .global("map to guest = bad user")
        .share("user", &format!("{lines}\nforce user = nobody"))
        .share("group", &format!("{lines}\nforce user =\nforce group = daemon"))
        .start();
    let group = server.share_path("group");
    fs::set_permissions(&group, Permissions::from_mode(0o777)).expect("we are root");
    server.add_user("daemon");
    let guest = server.client().user("no-such-user", "x");
    for share in ["user", "group"] {
        make_file_for_authenticated_users(&server, share, "daemon");
        let known = server.client().user("daemon", PASSWORD);
        known.run(share, &["get \"members only\" mine"]).succeeds();
        let refused = "NT_STATUS_ACCESS_DENIED";
        guest.run(share, &["get \"members only\" stolen"]).fails(refused);
    }
    server.stop();
}

#[test]
fn ipc_is_for_those_that_its_section_lets_in() {
    let refused = |lines: &str, status: &str| {
        let server = Setup::new().share("data", "").sections(&format!("[IPC$]\n{lines}\n")).start();
        server.client().run("IPC$", &["help"]).fails(status);
        server.client().run("data", &["ls"]).succeeds();
        server.stop();
    };
    let denied = "NT_STATUS_ACCESS_DENIED";
    refused("hosts deny = 127.0.0.0/8", denied);
    refused("hosts allow = 192.0.2.1\nhosts deny = ALL", denied);
    refused(&format!("invalid users = {USER}"), denied);
    refused(&format!("valid users = {OTHER_USER}"), denied);
    refused("available = no", "NT_STATUS_BAD_NETWORK_NAME");

    let server = Setup::new().share("data", "").sections("[IPC$]\nhosts allow = 127.\n").start();
    server.client().run("IPC$", &["help"]).succeeds();
    server.stop();
}
