//! Names of shares for Debian's smbclient: `[homes]`, and the substitutions `%S` and `%G`. The
//! expectations are results of Debian's smbd 4.17 with the same sections.

mod harness;

use std::fs;

use harness::{
    OTHER_USER, PASSWORD, Setup, TestServer, USER, daemon, give_to_server, name_in_home,
    runs_as_root,
};
use nix::unistd::{Gid, Group};

/// As with Samba; the system user's id is low.
const DAEMON_HAS_HOME: &str = "homes min uid = 1";

/// Homes in a folder of each in the share `homes`, with a file that bears its user's name.
fn start_with_homes(lines: &str) -> TestServer {
    let lines = format!("path = %FOLDER/%S\n{lines}");
    let server =
        Setup::new().global(DAEMON_HAS_HOME).share("homes", &lines).share("data", "").start();
    let absent = daemon().name;
    for user in [USER, OTHER_USER, &absent] {
        let home = server.share_path("homes").join(user);
        fs::create_dir(&home).expect("there is space");
        fs::write(home.join(format!("of-{user}")), "").expect("there is space");
        give_to_server(&home);
    }
    server
}

#[test]
fn a_home_is_reached_by_the_name_of_its_user_and_as_homes() {
    let server = start_with_homes("");
    for name in [USER, "TESTER", "homes", "HOMES"] {
        let listed = server.client().run(name, &["ls"]).succeeds();
        assert!(listed.contains("of-tester "), "{name}:\n{listed}");
    }
    let other = server.client().user(OTHER_USER, PASSWORD);
    other.run("homes", &["mkdir made"]).succeeds();
    assert!(server.share_path("homes").join(OTHER_USER).join("made").is_dir());
    server.stop();
}

#[test]
fn others_reach_a_home_unless_valid_users_keeps_them_out() {
    let absent = daemon().name;
    let server = start_with_homes("");
    for name in [absent.clone(), absent.to_uppercase()] {
        let listed = server.client().run(&name, &["ls"]).succeeds();
        assert!(listed.contains(&format!("of-{absent} ")), "{name}:\n{listed}");
    }
    // A user unknown to the system has a home, which no other name leads to.
    server.client().run("no-such-user", &["ls"]).fails("NT_STATUS_BAD_NETWORK_NAME");
    server.stop();

    let server = start_with_homes("valid users = %S");
    server.client().run("homes", &["ls"]).succeeds();
    server.client().run(&absent, &["ls"]).fails("NT_STATUS_ACCESS_DENIED");
    server.stop();
}

#[test]
fn a_home_is_reached_by_the_names_that_the_username_map_has_for_its_user() {
    let absent = daemon().name;
    let setup = Setup::new();
    let map = setup.path("names");
    fs::write(&map, format!("{absent} = \"Anna Blume\"\n{OTHER_USER} = shared\n")).expect("space");
    let server = setup
        .global(&format!("username map = {}\n{DAEMON_HAS_HOME}", map.display()))
        .share("homes", "path = %FOLDER/%S")
        .share("shared", "")
        .start();
    let home = server.share_path("homes").join(&absent);
    fs::create_dir(&home).expect("there is space");
    fs::write(home.join("within"), "").expect("there is space");
    give_to_server(&home);
    server.client().run("anna blume", &["ls within"]).succeeds();
    server.client().run("nobody else", &["ls"]).fails("NT_STATUS_BAD_NETWORK_NAME");
    // A share's name is not mapped to a user.
    server.client().run("shared", &["ls"]).succeeds();
    server.stop();
}

#[test]
fn guests_have_no_home() {
    let server = Setup::new()
        .global("map to guest = bad user")
        .share("homes", "path = %FOLDER\nguest ok = yes")
        .start();
    let guest = server.client().user("no-such-user", "x");
    guest.run("homes", &["ls"]).fails("NT_STATUS_BAD_NETWORK_NAME");
    server.client().run("homes", &["ls"]).succeeds();
    server.stop();
}

#[test]
fn without_a_path_a_home_is_the_home_directory_of_the_system_user() {
    let user = daemon();
    let homes = "path =\nread only = yes";
    let server = Setup::new().global(DAEMON_HAS_HOME).share("homes", homes).start();
    let name = name_in_home(&user);
    let listed = server.client().run(&user.name, &[&format!("ls \"{name}\"")]).succeeds();
    assert!(listed.contains(&name), "{listed}");
    server.stop();
}

#[test]
fn accounts_of_the_systems_programs_have_no_home() {
    let user = daemon();
    for path in ["", "%FOLDER/%S", "%H"] {
        let server = Setup::new().share("homes", &format!("path = {path}")).start();
        server.add_user(&user.name);
        fs::create_dir(server.share_path("homes").join(&user.name)).expect("there is space");
        for name in [user.name.as_str(), "root"] {
            server.client().run(name, &["ls"]).fails("NT_STATUS_BAD_NETWORK_NAME");
        }
        let own = server.client().user(&user.name, PASSWORD);
        own.run("homes", &["ls"]).fails("NT_STATUS_BAD_NETWORK_NAME");
        let listed = own.list_shares().succeeds();
        assert!(!listed.contains(&format!("Disk|{}|", user.name)), "{listed}");
        server.stop();
    }
}

#[test]
fn a_path_below_the_home_of_somebody_without_one_leads_nowhere() {
    // Without the home it is the folder itself.
    let server = Setup::new().share("data", "path = %H%FOLDER\nforce user =").start();
    server.client().run("data", &["ls"]).fails("NT_STATUS_BAD_NETWORK_NAME");
    server.stop();
}

#[test]
fn a_share_of_that_name_goes_before_a_home() {
    let server = Setup::new().share("homes", "path = %FOLDER/%S").share(USER, "").start();
    fs::write(server.share_path(USER).join("configured"), "").expect("there is space");
    for name in [USER, "homes"] {
        let listed = server.client().run(name, &["ls"]).succeeds();
        assert!(listed.contains("configured "), "{name}:\n{listed}");
    }
    server.stop();
}

#[test]
fn the_section_hides_itself_and_not_the_homes() {
    let home = format!("Disk|{USER}|that of {USER}, {USER}\n");
    let server = start_with_homes("comment = that of %u, %S\nbrowseable = no");
    let listed = server.client().list_shares().succeeds();
    assert!(listed.contains(&home) && !listed.contains("|homes|"), "{listed}");
    server.stop();

    let server = start_with_homes("comment = that of %u, %S");
    let listed = server.client().list_shares().succeeds();
    let pattern = format!("Disk|homes|that of {USER}, homes\n");
    assert!(listed.contains(&home) && listed.contains(&pattern), "{listed}");
    let of_guests = server.client().anonymous().list_shares().text();
    assert!(!of_guests.contains(USER), "{of_guests}");
    server.stop();
}

#[test]
fn a_share_has_its_name_from_the_configuration() {
    let server = Setup::new().share("Data", "path = %FOLDER/../%S\ncomment = %S").start();
    fs::write(server.share_path("Data").join("file"), "").expect("there is space");
    for name in ["Data", "data", "DATA"] {
        let listed = server.client().run(name, &["ls"]).succeeds();
        assert!(listed.contains("file "), "{name}:\n{listed}");
    }
    let listed = server.client().list_shares().succeeds();
    assert!(listed.contains("Disk|Data|Data\n"), "{listed}");
    server.stop();
}

#[test]
fn the_group_in_a_path_is_that_of_the_impersonated_user() {
    if !runs_as_root() {
        return;
    }
    let group = Group::from_gid(Gid::from_raw(65_534)).expect("a name service");
    let group = group.expect("the group of nobody").name;
    let server = Setup::new().share("data", "path = %FOLDER/%G").start();
    let folder = server.share_path("data").join(&group);
    fs::create_dir(&folder).expect("there is space");
    give_to_server(&folder);
    server.client().run("data", &["mkdir made"]).succeeds();
    assert!(folder.join("made").is_dir());
    server.stop();
}

#[test]
fn a_share_for_the_group_of_a_user_is_listed_for_its_members() {
    if !runs_as_root() {
        return;
    }
    let lines = "valid users = +%G\naccess based share enum = yes\ncomment = of %G";
    let server = Setup::new().share("data", lines).start();
    let user = daemon();
    server.add_user(&user.name);
    let listed = server.client().user(&user.name, PASSWORD).list_shares().succeeds();
    let group = Group::from_gid(user.gid).expect("a name service").expect("it has one").name;
    assert!(listed.contains(&format!("Disk|data|of {group}\n")), "{listed}");
    server.stop();
}
