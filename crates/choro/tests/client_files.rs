//! Files that `include` names by client or user, and variables of the connection, for Debian's
//! smbclient.

mod harness;

use std::fs;
use std::path::Path;

use harness::choro::text;
use harness::namespace::Namespace;
use harness::smbclient::Smbclient;
use harness::{OTHER_USER, PASSWORD, Setup, TestServer, give_to_server, runs_as_root};

/// A client on a machine of this name.
fn on_machine(server: &TestServer, name: &str) -> Smbclient {
    server.client().option(&format!("netbios name={name}"))
}

/// Files for single clients, in a folder beside the configuration.
fn write_files(setup: &Setup, files: &[(&str, &str)]) -> String {
    let folder = setup.path("clients.d");
    fs::create_dir_all(&folder).expect("there is space");
    for (name, lines) in files {
        fs::write(folder.join(name), lines).expect("there is space");
    }
    text(&folder)
}

fn make_folder(path: &Path) {
    fs::create_dir_all(path).expect("there is space");
    give_to_server(path);
}

#[test]
fn a_file_for_a_machine_adds_a_share_for_its_users_only() {
    let setup = Setup::new();
    let own = setup.path("shares/own");
    make_folder(&own);
    let section = format!("[own]\npath = {}\n", text(&own));
    let folder = write_files(&setup, &[("pc-1.conf", &section)]);
    let server = setup.global(&format!("include = {folder}/%m.conf")).share("data", "").start();
    // As Samba, which has the name of a machine in small letters.
    let listed = on_machine(&server, "PC-1").list_shares().succeeds();
    assert!(listed.contains("Disk|own|") && listed.contains("Disk|data|"), "{listed}");
    on_machine(&server, "PC-1").run("own", &["ls"]).succeeds();
    let listed = on_machine(&server, "PC-2").list_shares().succeeds();
    assert!(!listed.contains("Disk|own|") && listed.contains("Disk|data|"), "{listed}");
    on_machine(&server, "PC-2").run("own", &["ls"]).fails("NT_STATUS_BAD_NETWORK_NAME");
    server.stop();
}

#[test]
fn a_file_for_a_user_restricts_a_share_for_this_user() {
    let setup = Setup::new();
    let name = format!("{OTHER_USER}.conf");
    let folder = write_files(&setup, &[(&name, "read only = yes\n")]);
    let server = setup.share("data", &format!("include = {folder}/%U.conf")).start();
    server.client().run("data", &["mkdir made"]).succeeds();
    let other = server.client().user(OTHER_USER, PASSWORD);
    other.run("data", &["ls"]).succeeds();
    other.run("data", &["mkdir refused"]).fails("NT_STATUS_ACCESS_DENIED");
    // Without a reload: the file is read when a share is connected.
    fs::remove_file(Path::new(&folder).join(&name)).expect("it is there");
    other.run("data", &["mkdir later"]).succeeds();
    server.stop();
}

#[test]
fn a_file_for_an_address_may_exclude_its_clients() {
    let setup = Setup::new();
    let folder = write_files(&setup, &[("127_0_0_1.conf", "hosts deny = ALL\n")]);
    // Behind the share, which has not inherited the line.
    let end = format!("[global]\ninclude = {folder}/%J.conf\n");
    let server = setup.share("data", "").sections(&end).start();
    server.client().run("data", &["ls"]).fails("NT_STATUS_ACCESS_DENIED");
    server.stop();
}

#[test]
fn a_file_that_cannot_be_served_refuses_its_clients_and_no_others() {
    let setup = Setup::new();
    let folder = write_files(&setup, &[("pc-1.conf", "[global]\nserver signing = disabled\n")]);
    let server = setup.share("data", &format!("include = {folder}/%m.conf")).start();
    let told = server.site().run(&["check"]);
    assert!(told.is_success());
    let told = told.error();
    assert!(told.contains("its clients can connect no share"), "{told}");
    assert!(told.contains("`server signing = disabled` is not supported"), "{told}");
    on_machine(&server, "PC-1").run("data", &["ls"]).fails("NT_STATUS_ACCESS_DENIED");
    on_machine(&server, "PC-2").run("data", &["ls"]).succeeds();
    let log = server.log();
    assert!(log.contains("127.0.0.1 can connect no share: "), "{log}");
    server.stop();
}

#[test]
fn variables_of_the_connection_have_their_values_in_a_path() {
    let lines = "path = %FOLDER/%i/%j/%R/%a/%I/%M/%m";
    let server = Setup::new().share("data", lines).start();
    let server_part = "127.0.0.1/127_0_0_1/SMB3_00/Vista";
    let folder = format!("{server_part}/127.0.0.1/127.0.0.1/pc-1");
    make_folder(&server.share_path("data").join(folder).join("reached"));
    let client = on_machine(&server, "PC-1").dialect("SMB3_00");
    let listed = client.run("data", &["ls"]).succeeds();
    assert!(listed.contains("reached"), "{listed}");
    on_machine(&server, "PC-1").run("data", &["ls"]).fails("NT_STATUS_BAD_NETWORK_NAME");
    server.stop();
}

/// Needs root: mounts another /etc, with netgroups.
#[test]
fn a_netgroup_admits_and_excludes_its_users() {
    if !runs_as_root() {
        return;
    }
    let setup = Setup::new();
    let upper = setup.path("etc");
    fs::create_dir_all(upper.join("upper")).expect("there is space");
    fs::create_dir_all(upper.join("work")).expect("there is space");
    fs::write(upper.join("upper/netgroup"), format!("team (-,{OTHER_USER},)\n"))
        .expect("there is space");
    let switch = "passwd: files\ngroup: files\nnetgroup: files\nhosts: files\n";
    fs::write(upper.join("upper/nsswitch.conf"), switch).expect("there is space");
    let view = Namespace::of_mounts(MOUNT_ETC, &[&upper]).expect("we are root");
    let server = setup
        .launch_with(&view.launcher())
        .share("team", "valid users = &team")
        .share("either", "valid users = @team")
        .share("others", "invalid users = &team")
        .start();
    let other = server.client().user(OTHER_USER, PASSWORD);
    other.run("team", &["ls"]).succeeds();
    other.run("either", &["ls"]).succeeds();
    other.run("others", &["ls"]).fails("NT_STATUS_ACCESS_DENIED");
    server.client().run("team", &["ls"]).fails("NT_STATUS_ACCESS_DENIED");
    server.client().run("either", &["ls"]).fails("NT_STATUS_ACCESS_DENIED");
    server.client().run("others", &["ls"]).succeeds();
    server.stop();
}

/// Script for a mount namespace: files of a folder hide those of /etc.
const MOUNT_ETC: &str =
    r#"mount -t overlay overlay -o "lowerdir=/etc,upperdir=$1/upper,workdir=$1/work" /etc"#;
