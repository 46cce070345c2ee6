//! Shares of users: files of Debian's `net usershare`, for Debian's smbclient.

mod harness;

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use dtyp::{Guid, NtStatus};
use harness::choro::{Outcome, PATIENCE, text};
use harness::connection::{Connection, random};
use harness::smbtorture::progress;
use harness::{OTHER_USER, PASSWORD, Setup, TestServer, USER};

const NOT_THERE: &str = "NT_STATUS_BAD_NETWORK_NAME";

/// A server whose first user may have shares.
struct Users {
    server: TestServer,
    /// User and group of the tests' first user.
    owner: (u32, u32),
    files: PathBuf,
    net_config: PathBuf,
}

impl Users {
    /// `None` where users of their own are not possible.
    fn start(global: &str, sections: &str) -> Option<Self> {
        let setup = Setup::with_machine();
        let Some(owner) = setup.owner() else {
            progress("users of their own take root");
            return None;
        };
        let files = setup.path("usershares");
        fs::create_dir(&files).expect("there is space");
        chown(&files, Some(0), Some(owner.1)).expect("we are root");
        fs::set_permissions(&files, Permissions::from_mode(0o1770)).expect("we are root");
        let lines = format!("usershare path = {}\nusershare max shares = 10", text(&files));
        let net_config = setup.path("net.conf");
        let own = setup.path("net");
        fs::create_dir(&own).expect("there is space");
        chown(&own, Some(owner.0), Some(owner.1)).expect("we are root");
        let own = text(&own);
        let directories = ["lock directory", "state directory", "cache directory", "private dir"]
            .map(|name| format!("{name} = {own}\n"));
        // `net` verifies less than the server must.
        let net_lines = format!(
            "[global]\n{lines}\nusershare owner only = no\nusershare allow guests = yes\n{}",
            directories.concat()
        );
        fs::write(&net_config, net_lines).expect("there is space");
        let setup = setup.global(&format!("{lines}\n{global}"));
        let server = setup.share("data", "").sections(sections).start();
        Some(Self { server, owner, files, net_config })
    }

    /// Runs `net usershare` as the first user.
    fn net(&self, arguments: &[&str]) -> Outcome {
        let (uid, gid) = self.owner;
        let mut line = self.server.launcher();
        let user = [format!("--reuid={uid}"), format!("--regid={gid}")];
        line.extend(["setpriv".to_owned(), "--clear-groups".to_owned()].into_iter().chain(user));
        line.extend(["net".to_owned(), "-s".to_owned(), text(&self.net_config)]);
        let mut command = Command::new(&line[0]);
        command.args(&line[1..]).arg("usershare").args(arguments);
        Outcome::of(command.output().expect("Debian's net is installed"))
    }

    /// Runs a command as root, where the server runs.
    fn run(&self, command: &[&str]) {
        let mut line = self.server.launcher();
        line.extend(command.iter().map(ToString::to_string));
        let status = Command::new(&line[0]).args(&line[1..]).status();
        assert!(status.is_ok_and(|it| it.success()), "{command:?} fails");
    }

    /// A folder of this user, as the server knows it.
    fn folder(&self, name: &str, owner: u32) -> PathBuf {
        let folder = self.server.share_path(name);
        fs::create_dir(&folder).expect("there is space");
        chown(&folder, Some(owner), None).expect("we are root");
        fs::set_permissions(&folder, Permissions::from_mode(0o777)).expect("we are root");
        self.server.path_of_share(name)
    }

    /// Writes a file of a share as its user could, without `net`.
    fn write(&self, name: &str, content: &str) -> PathBuf {
        let file = self.files.join(name);
        fs::write(&file, content).expect("there is space");
        chown(&file, Some(self.owner.0), Some(self.owner.1)).expect("we are root");
        file
    }

    #[track_caller]
    fn is_refused(&self, share: &str, fault: &str) {
        self.server.client().run(share, &["ls"]).fails(NOT_THERE);
        self.server.server().wait_for_log(&format!("usershare {share:?} is not served: {fault}"));
        let told = self.ask(USER, share);
        assert!(told.contains("not serve") && told.contains(fault), "{told}");
        assert!(told.contains("Change: its owner"), "{told}");
    }

    /// Returns the doctor's answer about a share.
    fn ask(&self, user: &str, share: &str) -> String {
        self.server.site().run(&["doctor", "access", user, share]).output()
    }
}

/// The file of a share that everyone may change.
fn content(path: &Path) -> String {
    let path = text(path);
    format!("#VERSION 2\npath={path}\ncomment=\nusershare_acl=S-1-1-0:F\nguest_ok=n\n")
}

#[test]
fn a_share_of_net_usershare_is_there_at_once_for_those_on_its_list() {
    let Some(users) = Users::start("", "") else { return };
    let client = users.server.client();
    client.run("films", &["ls"]).fails(NOT_THERE);
    let folder = text(&users.folder("folder of films", users.owner.0));
    let own = format!("S-1-22-1-{}:F", users.owner.0);
    users.net(&["add", "films", &folder, "100% old ones", &own]).succeeds();
    client.run("FILMS", &["mkdir made"]).succeeds();
    assert!(users.server.share_path("folder of films/made").is_dir());
    let listed = client.list_shares().succeeds();
    assert!(listed.contains("Disk|films|100% old ones"), "{listed}");
    let other = client.clone().user(OTHER_USER, PASSWORD);
    other.run("films", &["ls"]).fails("NT_STATUS_ACCESS_DENIED");
    users.net(&["add", "films", &folder, "", &format!("{own},S-1-1-0:R")]).succeeds();
    other.run("films", &["ls"]).succeeds();
    other.run("films", &["mkdir other"]).fails("NT_STATUS_ACCESS_DENIED");
    users.net(&["delete", "films"]).succeeds();
    client.run("films", &["ls"]).fails(NOT_THERE);
    assert!(!client.list_shares().succeeds().contains("films"));
    users.server.stop();
}

#[test]
fn the_doctor_says_that_an_access_list_is_for_reading_only() {
    let Some(users) = Users::start("", "") else { return };
    let folder = text(&users.folder("films", users.owner.0));
    users.run(&["setfacl", "-m", &format!("u:{OTHER_USER}:rwx"), &folder]);
    users.net(&["add", "films", &folder, "", "S-1-1-0:R"]).succeeds();
    let other = users.server.client().user(OTHER_USER, PASSWORD);
    other.run("films", &["mkdir other"]).fails("NT_STATUS_ACCESS_DENIED");
    let told = users.ask(OTHER_USER, "films");
    assert!(told.contains("connect yes, read yes, write no"), "{told}");
    assert!(told.contains("The access list of this usershare lets the user read only."), "{told}");
    users.net(&["add", "films", &folder, "", "S-1-1-0:F"]).succeeds();
    assert!(users.ask(OTHER_USER, "films").ends_with("Nothing found.\n"));
    users.server.stop();
}

#[test]
fn hostile_files_are_no_shares() {
    let denied = Setup::new().path("denied");
    let lines = format!("usershare prefix deny list = {} /etc", text(&denied));
    let Some(users) = Users::start(&lines, "") else { return };
    let own = users.folder("own", users.owner.0);
    let of_root = users.folder("root", 0);
    users.write("good", &content(&own));
    users.server.client().run("good", &["mkdir made"]).succeeds();

    users.write("foreign", &content(&of_root));
    users.is_refused("foreign", "its folder does not belong to the owner of its file");
    let link = users.server.share_path("link");
    symlink("root", &link).expect("there is space");
    users.write("linked", &content(&users.server.path_of_share("link")));
    users.is_refused("linked", "its folder does not belong to the owner of its file");
    users.write("denied", &content(&denied));
    users.is_refused("denied", "its path is denied by");
    users.write("up", &content(&own.join("../root")));
    users.is_refused("up", "its path is not absolute, or has `..`");
    users.write("large", &format!("{}{}", content(&own), "#".repeat(10 * 1_024)));
    users.is_refused("large", "it has more than 10240 bytes");
    users.write("bad", &content(&own).replace("S-1-1-0:F", "S-1-1-0:W"));
    users.is_refused("bad", "`usershare_acl` has \"S-1-1-0:W\"");
    symlink("good", users.files.join("soft")).expect("there is space");
    users.is_refused("soft", "Too many levels of symbolic links");
    fs::hard_link(users.files.join("good"), users.files.join("hard")).expect("one file system");
    users.is_refused("hard", "it is no file, or has other names");
    fs::remove_file(users.files.join("hard")).expect("it is there");
    let status = Command::new("mkfifo").arg(users.files.join("pipe")).status();
    assert!(status.expect("there is mkfifo").success());
    users.is_refused("pipe", "it is no file, or has other names");
    let mounted = users.write("mounted", &content(&own));
    users.run(&["mount", "--bind", &text(&users.files.join("good")), &text(&mounted)]);
    users.is_refused("mounted", "Invalid cross-device link");
    users.run(&["umount", &text(&mounted)]);
    fs::remove_file(&mounted).expect("it is there");
    // A share of the configuration stays what it is, and `%` is text.
    users.write("data", &content(&own));
    users.server.client().run("data", &["cd made"]).fails("NT_STATUS_OBJECT_NAME_NOT_FOUND");
    let listed = users.server.client().list_shares().succeeds();
    let disks = listed.lines().filter(|line| line.starts_with("Disk|")).count();
    // Listing opens no folder.
    assert_eq!(disks, 4, "{listed}");

    fs::set_permissions(&users.files, Permissions::from_mode(0o1777)).expect("we are root");
    users.server.client().run("good", &["ls"]).fails(NOT_THERE);
    users.server.server().wait_for_log("have the sticky bit, and not be writable by everyone");
    let checked = users.server.site().run(&["check"]).error();
    assert!(checked.contains("Usershares: usershare path"), "{checked}");
    users.server.stop();
}

/// Shares that refuse everybody, each with the reason in the log.
const REFUSING: [(&str, &str); 5] = [
    ("root", "[homes]: root has the id 0, below `homes min uid = 1`"),
    ("elsewhere", "may not use share elsewhere"),
    ("listed", "may not use share listed"),
    ("gone", "share gone: cannot open"),
    ("broken", "usershare \"broken\" is not served: its version"),
];

/// They need no password, and would replace the whole log with their lines.
#[test]
fn a_guest_writes_no_line_by_tree_connects_that_are_refused() {
    let sections = "[homes]\npath = /srv/%S\n\
                    [elsewhere]\npath = /srv\nguest ok = yes\nhosts deny = 127.0.0.1\n\
                    [listed]\npath = /srv\nguest ok = yes\nvalid users = nobody-else\n\
                    [gone]\npath = /nonexistent\nguest ok = yes\n";
    let Some(users) = Users::start("homes min uid = 1", sections) else { return };
    users.write("broken", "#VERSION 7\n");
    let connect = || {
        let address = users.server.site().address();
        let mut connection =
            Connection::connect(address.ip(), address, PATIENCE).expect("it listens");
        connection.negotiate(Guid(random())).expect("it is served");
        connection
    };
    let refuse_all = |connection: &mut Connection| {
        for _ in 0..3 {
            for (share, _) in REFUSING {
                assert_ne!(
                    connection.tree(share).expect("an answer"),
                    NtStatus::SUCCESS,
                    "{share}"
                );
            }
        }
    };
    let mut guest = connect();
    guest.log_on_anonymously().expect("anybody may");
    let before = users.server.log();
    refuse_all(&mut guest);
    assert_eq!(users.server.log(), before);
    let mut user = connect();
    user.log_on().expect("the right password");
    refuse_all(&mut user);
    for (share, reason) in REFUSING {
        users.server.server().wait_for_log(reason);
        let told = users.server.log().matches(reason).count();
        assert_eq!(told, if share == "broken" { 1 } else { 3 }, "{}", users.server.log());
    }
    users.server.stop();
}

#[test]
fn a_template_gives_its_parameters_and_guests_need_the_server_s_permission_too() {
    let lines = "usershare template share = pattern\nusershare allow guests = yes\n\
                 map to guest = Bad User";
    let pattern = "[pattern]\n-valid = no\npath = /\nveto files = /secret/\n";
    let Some(users) = Users::start(lines, pattern) else { return };
    let folder = users.folder("folder", users.owner.0);
    fs::create_dir(users.server.share_path("folder/secret")).expect("there is space");
    users.write("closed", &content(&folder));
    users.write("open", &content(&folder).replace("guest_ok=n", "guest_ok=y"));
    let client = users.server.client();
    client.run("pattern", &["ls"]).fails(NOT_THERE);
    for share in ["closed", "open"] {
        client.run(share, &["cd secret"]).fails("NT_STATUS_OBJECT_NAME_NOT_FOUND");
    }
    let guest = client.anonymous();
    guest.run("open", &["ls"]).succeeds();
    guest.run("closed", &["ls"]).fails("NT_STATUS_ACCESS_DENIED");
    users.server.stop();
}

/// A template for shares of users, with these lines.
fn pattern(lines: &str) -> [String; 2] {
    let pattern = format!("[pattern]\n-valid = no\npath = /\n{lines}\n");
    ["usershare template share = pattern".to_owned(), pattern]
}

#[test]
fn commands_of_a_users_share_run_only_for_a_folder_that_was_verified() {
    let command = "mkdir -p %P && touch %P/hit && echo %P > %P/path && sh -c \"touch %P/again\"";
    let [lines, pattern] = pattern(&format!("root preexec = {command}"));
    let Some(users) = Users::start(&lines, &pattern) else { return };
    let of_root = users.folder("root", 0);
    fs::set_permissions(users.server.share_path("root"), Permissions::from_mode(0o755))
        .expect("we are root");
    let own = users.folder("own", users.owner.0);
    let link = |name: &str, target: &str| {
        symlink(target, users.server.share_path(name)).expect("there is space");
        users.server.path_of_share(name)
    };
    let client = users.server.client();
    for (name, path) in [
        ("of_root", of_root.clone()),
        ("linked", link("to_root", "root")),
        ("missing", of_root.join("made")),
        ("dangling", link("to_missing", "root/made")),
    ] {
        users.write(name, &content(&path));
        client.run(name, &["ls"]).fails(NOT_THERE);
        let left = fs::read_dir(users.server.share_path("root")).expect("it is there").count();
        assert_eq!(left, 0, "{name}: {}", users.server.log());
    }

    // A command for the second shell.
    let evil = "own/x$(touch own)y";
    let folder = users.folder("own/x$(touch own)y", users.owner.0);
    users.write("evil", &content(&folder));
    users.is_refused("evil", "its path has characters that a shell could interpret");
    assert_eq!(fs::read_dir(users.server.share_path(evil)).expect("it is there").count(), 0);

    users.write("good", &content(&link("to_own", "own")));
    client.run("good", &["ls again"]).succeeds();
    let path = fs::read_to_string(users.server.share_path("own/path")).expect("it was written");
    assert_eq!(Path::new(path.trim_end()), own, "the path has no link that somebody could move");
    users.server.stop();
}

#[test]
fn previous_versions_are_those_of_the_folder_that_is_served() {
    const TOKEN: &str = "@GMT-2015.10.31-19.40.30";
    let elsewhere = Setup::new();
    let script = elsewhere.path("move.sh");
    let command = format!("vfs objects = shadow_copy2\nroot preexec = sh {}", text(&script));
    let [lines, pattern] = pattern(&command);
    let Some(users) = Users::start(&lines, &pattern) else { return };
    for folder in ["first", "second"] {
        users.folder(folder, users.owner.0);
        let image = users.server.share_path(&format!(".snapshots/{TOKEN}/{folder}"));
        fs::create_dir_all(&image).expect("there is space");
        for path in [users.server.share_path(folder).join("f"), image.join("f")] {
            fs::write(path, folder).expect("there is space");
        }
        chown(&image, Some(users.owner.0), None).expect("we are root");
    }
    let link = users.server.share_path("link");
    symlink("first", &link).expect("there is space");
    let link = users.server.path_of_share("link");
    fs::write(&script, format!("ln -sfn second {}\n", text(&link))).expect("there is space");
    users.write("films", &content(&link));
    let get = [&format!("get {TOKEN}/f then"), "get f now"];
    users.server.client().run("films", &get).succeeds();
    let got = ["then", "now"].map(|name| users.server.client_folder("work").join(name));
    let got = got.map(|path| fs::read_to_string(path).expect("it was got"));
    assert_eq!(got, ["second", "second"], "{}", users.server.log());
    users.server.stop();
}

/// The attack: a user makes a folder where another user's was. With `force user` its earlier
/// versions show the other user's files.
#[test]
fn a_share_that_forces_a_user_shows_no_previous_versions_of_another_users_folder() {
    const OTHERS: &str = "@GMT-2015.10.31-19.40.30";
    const OWN: &str = "@GMT-2016.10.31-19.40.30";
    let [lines, pattern] = pattern("vfs objects = shadow_copy2\nforce user = root");
    let Some(users) = Users::start(&lines, &pattern) else { return };
    let folder = users.folder("films", users.owner.0);
    fs::write(users.server.share_path("films/f"), "now").expect("there is space");
    for (token, owner) in [(OTHERS, users.owner.0 + 1), (OWN, users.owner.0)] {
        let image = users.server.share_path(&format!(".snapshots/{token}/films"));
        fs::create_dir_all(&image).expect("there is space");
        fs::write(image.join("f"), token).expect("there is space");
        fs::set_permissions(&image, Permissions::from_mode(0o700)).expect("we are root");
        chown(&image, Some(owner), None).expect("we are root");
    }
    users.write("films", &content(&folder));
    let client = users.server.client();
    client.run("films", &[&format!("get {OWN}/f own")]).succeeds();
    let own = users.server.client_folder("work").join("own");
    assert_eq!(fs::read_to_string(own).expect("it was got"), OWN);
    let refused = client.run("films", &[&format!("get {OTHERS}/f others")]);
    refused.fails("NT_STATUS_OBJECT_NAME_NOT_FOUND");
    let listed = client.run("films", &["allinfo f"]).succeeds();
    assert!(listed.contains(OWN) && !listed.contains(OTHERS), "{listed}");
    users.server.stop();
}

#[test]
fn a_denied_prefix_is_denied_to_all_clients() {
    let elsewhere = Setup::new();
    let closed = elsewhere.path("closed");
    let lines = format!("usershare prefix deny list = {}", text(&closed.join("secret")));
    let Some(users) = Users::start(&lines, "") else { return };
    fs::create_dir(&closed).expect("there is space");
    fs::set_permissions(&closed, Permissions::from_mode(0o700)).expect("it is ours");
    let secret = users.folder("secret", users.owner.0);
    symlink(&secret, closed.join("secret")).expect("there is space");
    users.write("films", &content(&users.folder("secret/films", users.owner.0)));
    users.is_refused("films", "its path is denied by");
    users.server.stop();
}
