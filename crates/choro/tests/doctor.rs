//! `choro doctor`: each cause is made, must be named, and ends with the change that is printed.
//!
//! Causes in the file system need root, for users and a file system of the server's own. Without
//! that they are left out, with a message.

mod harness;

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use bench::client::requests::{self, Purpose};
use bench::client::{Client, Protection, Reply, Slot};
use harness::choro::{Outcome, Site, text, wait_until};
use harness::namespace::Namespace;
use harness::smbclient::Smbclient;
use harness::smbtorture::progress;
use harness::{OTHER_USER, PASSWORD, Setup, TestServer, USER, give_to_server, runs_as_root};
use serde_json::Value;

const DENIED: &str = "NT_STATUS_ACCESS_DENIED";

/// A question, with the answers as rows.
fn ask(server: &TestServer, question: &[&str]) -> Vec<Value> {
    let outcome = server.site().run(&[&["doctor", "--json"], question].concat());
    serde_json::from_str(&outcome.output()).unwrap_or_else(|_| panic!("{}", outcome.error()))
}

/// The finding with this cause.
#[track_caller]
fn find(rows: &[Value], cause: &str) -> Value {
    let found = rows.iter().find(|row| row["cause"] == cause);
    found.unwrap_or_else(|| panic!("no {cause} in {rows:#?}")).clone()
}

fn is_actionable(row: &Value) -> bool {
    row["kind"] == "finding" && row["severity"] != "note"
}

/// Returns the causes of faults and warnings in the order of the findings.
fn causes(rows: &[Value]) -> Vec<&str> {
    rows.iter().filter(|row| is_actionable(row)).filter_map(|row| row["cause"].as_str()).collect()
}

/// Carries out the change of a finding: the line in the configuration, or the command.
#[track_caller]
fn apply(server: &TestServer, finding: &Value) {
    if let (Some(section), Some(line)) = (finding["section"].as_str(), finding["line"].as_str()) {
        put_line(&server.site().path("smb.conf"), section, line);
        server.site().run(&["message", "reload"]).succeeds();
        return;
    }
    let command = finding["command"].as_str().unwrap_or_else(|| panic!("no command: {finding}"));
    run_in_server(server, command).succeeds();
}

/// Runs a command of the shell where the server runs, in which `choro` is the tested program.
fn run_in_server(server: &TestServer, command: &str) -> Outcome {
    let program = env!("CARGO_BIN_EXE_choro");
    let script = format!("choro() {{ '{program}' \"$@\"; }}\n{command}");
    let launcher = server.launcher();
    let mut line = launcher.iter().map(String::as_str).chain(["sh", "-c", script.as_str()]);
    let mut shell = Command::new(line.next().expect("there is a shell"));
    let password = format!("{PASSWORD}\n");
    let input = server.site().path("password");
    fs::write(&input, password).expect("there is space");
    let input = fs::File::open(input).expect("it was written");
    Outcome::of(shell.args(line).stdin(input).output().expect("it starts"))
}

/// Puts a line into a section of a configuration, in place of one with the same parameter.
fn put_line(file: &Path, section: &str, line: &str) {
    let config = fs::read_to_string(file).expect("it was written");
    let parameter = |line: &str| line.split('=').next().map(|it| it.trim().to_owned());
    let mut is_inside = false;
    let mut lines = Vec::new();
    for old in config.lines() {
        if old.starts_with('[') {
            is_inside = old == format!("[{section}]");
            lines.push(old.to_owned());
            lines.extend(is_inside.then(|| line.to_owned()));
        } else if !is_inside || parameter(old) != parameter(line) {
            lines.push(old.to_owned());
        }
    }
    fs::write(file, lines.join("\n") + "\n").expect("there is space");
}

/// Asks about [`USER`], who is refused and gets the status from smbclient. After the changes of
/// all findings, the same commands succeed, and none is found again.
#[track_caller]
fn check(server: &TestServer, target: &str, commands: &[&str], status: &str, wanted: &[&str]) {
    let share = target.split('/').next().expect("it begins with a share");
    let client = ready_client(server);
    client.run(share, commands).fails(status);
    let rows = ask(server, &["access", USER, target]);
    assert_eq!(causes(&rows), wanted, "{rows:#?}");
    rows.iter().filter(|row| is_actionable(row)).for_each(|row| apply(server, row));
    client.run(share, commands).succeeds();
    let rest = ask(server, &["access", USER, target]);
    let again: Vec<&Value> = rest.iter().filter(|row| rows.contains(row)).collect();
    assert!(rest[0]["may_connect"] == true && again.is_empty(), "{again:#?}");
}

/// A client with a file to send.
fn ready_client(server: &TestServer) -> Smbclient {
    fs::write(server.client_folder("work").join("file"), "text").expect("there is space");
    server.client()
}

#[test]
fn rules_of_a_share_are_named_with_the_line_that_changes_them() {
    let server = Setup::new()
        .share("strangers", "valid users = nobody \"two words\"")
        .share("excluded", &format!("invalid users = nobody {USER}"))
        .share("reading", "read only = yes")
        .share("listed", &format!("read list = {USER}"))
        .share("far", "hosts deny = 127.0.0.1")
        .share("closed", "available = no")
        .share("full", "max connections = 1")
        .share("veto", "veto files = /secret*/other/")
        .share("several", "valid users = nobody\nhosts deny = 127.0.0.1\nread only = yes")
        .start();
    let put = ["put file"];
    check(&server, "strangers", &put, DENIED, &["user_lists"]);
    check(&server, "excluded", &put, DENIED, &["user_lists"]);
    check(&server, "reading", &put, DENIED, &["read_only_share"]);
    check(&server, "listed", &put, DENIED, &["read_only_share"]);
    check(&server, "far", &put, DENIED, &["hosts"]);
    check(&server, "closed", &put, "NT_STATUS_BAD_NETWORK_NAME", &["no_share"]);
    let veto = ["put file secret1"];
    check(&server, "veto/secret1", &veto, "NT_STATUS_OBJECT_NAME_NOT_FOUND", &["veto_files"]);
    let several = ["hosts", "user_lists", "read_only_share"];
    check(&server, "several", &put, DENIED, &several);
    let staying = server.client().stay("full");
    check(&server, "full", &put, "NT_STATUS_REQUEST_NOT_ACCEPTED", &["max_connections"]);
    drop(staying);
    server.stop();
}

#[test]
fn a_line_of_a_file_for_a_user_is_changed_in_this_file() {
    let setup = Setup::new();
    let file = setup.path(&format!("data.{USER}"));
    fs::write(&file, "read only = yes\n").expect("there is space");
    let lines = format!("include = {}", text(&setup.path("data.%U")));
    let server = setup.share("data", &lines).start();
    let rows = ask(&server, &["access", USER, "data"]);
    assert_eq!(find(&rows, "read_only_share")["file"], text(&server.site().path("smb.conf")));
    let told = server.site().run(&["doctor", "access", USER, "data"]).output();
    let change = format!("in [data] of {}: read only = no", text(&file));
    assert!(told.contains(&change), "{told}");
    fs::write(&file, "read only = no\n").expect("there is space");
    assert!(causes(&ask(&server, &["access", USER, "data"])).is_empty());
    server.stop();
}

#[test]
fn a_group_of_valid_users_is_joined_and_a_misspelled_share_is_recognized() {
    let server = Setup::new()
        .share("family", "valid users = +daemon")
        .share("none", "valid users = +nosuchgroup")
        .start();
    server.add_user("games");
    let rows = ask(&server, &["access", "games", "family"]);
    assert_eq!(find(&rows, "user_lists")["command"], "usermod -aG daemon games");
    assert_eq!(causes(&rows), ["user_lists"]);
    // No group of this system, and no user of it.
    for (user, share) in [("games", "none"), (USER, "family")] {
        let rows = ask(&server, &["access", user, share]);
        assert!(find(&rows, "user_lists")["line"].is_string(), "{rows:#?}");
    }
    let finding = find(&ask(&server, &["access", "games", "famly"]), "no_share");
    let reason = finding["reason"].as_str().expect("there is one");
    assert!(reason.contains("Did you mean family?"), "{reason}");
    let command = finding["command"].as_str().expect("there is one");
    assert!(command.ends_with("doctor access games family"), "{command}");
    let finding = find(&ask(&server, &["access", "games", "photographs"]), "no_share");
    assert!(finding["command"].as_str().is_some_and(|it| it.contains("share add")), "{finding}");
    put_line(&server.site().path("smb.conf"), "family", "valid user = games");
    let finding = find(&ask(&server, &[]), "configuration");
    let reason = finding["reason"].as_str().expect("there is one");
    assert!(reason.ends_with('?') && finding["command"].is_null(), "{finding}");
    assert!(finding["advice"].as_str().is_some_and(|it| it.contains("correct line")), "{finding}");
    server.stop();
}

#[test]
fn a_user_without_rights_is_told_once_that_it_takes_root() {
    if !runs_as_root() {
        return progress("left out: a command of an ordinary user");
    }
    let server = Setup::new().share("data", "").start();
    let lock = server.site().path("lock");
    fs::set_permissions(lock, Permissions::from_mode(0o700)).expect("we are root");
    let program = server.site().path("choro");
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_choro")).arg(&program).status();
    assert!(copied.expect("there is a cp").success());
    for arguments in [&["doctor"][..], &["doctor", "network"], &["status"]] {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&program);
        command.arg("--config").arg(server.site().path("smb.conf")).args(arguments);
        let outcome = Outcome::of(command.output().expect("it starts"));
        let (output, error) = (outcome.output(), outcome.error());
        assert!(output.is_empty() && !outcome.is_success(), "{output}");
        assert!(error.starts_with("choro: run this command as root: "), "{error}");
        assert_eq!(error.matches("Permission denied").count(), 1, "{error}");
    }
    server.stop();
}

#[test]
fn a_refused_logon_is_explained_with_the_command_that_admits_the_user() {
    let server = Setup::new().share("data", "").start();
    server.site().run(&["user", "disable", USER]).succeeds();
    check(&server, "data", &["put file"], "NT_STATUS_ACCOUNT_DISABLED", &["disabled"]);
    server.site().run(&["user", "remove", USER]).succeeds();
    ready_client(&server).run("data", &["put file"]).fails("NT_STATUS_LOGON_FAILURE");
    let rows = ask(&server, &["access", USER, "data"]);
    let command = find(&rows, "unknown_user")["command"].as_str().unwrap_or_default().to_owned();
    assert!(command.ends_with(&format!("user add {USER}")), "{command}");
    run_in_server(&server, &format!("{command} --password-stdin")).succeeds();
    ready_client(&server).run("data", &["put file"]).succeeds();
    assert!(
        causes(&ask(&server, &["access", USER, "data"])).iter().all(|it| *it != "unknown_user")
    );
    server.stop();
}

#[test]
fn a_guest_is_told_how_a_share_opens_for_guests() {
    let server = Setup::new().global("map to guest = bad user").share("data", "").start();
    let rows = ask(&server, &["access", "stranger", "data"]);
    find(&rows, "becomes_guest");
    apply(&server, &find(&rows, "guest"));
    assert!(causes(&ask(&server, &["access", "stranger", "data"])).is_empty());
    server.stop();
}

/// A server with users and a file system of its own.
struct Files {
    server: TestServer,
    owner: u32,
}

impl Files {
    /// `None` where the machine does not allow it; that is printed.
    fn new(lines: &str) -> Option<Self> {
        let setup = Setup::with_machine();
        let Some((owner, _)) = setup.owner() else {
            progress("left out: causes in the file system");
            return None;
        };
        Some(Self { server: setup.share("data", lines).start(), owner })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.server.share_path("data").join(name)
    }

    /// A file or directory with this mode: of root, or of [`USER`].
    fn make(&self, name: &str, is_directory: bool, mode: u32, is_own: bool) {
        let path = self.path(name);
        match is_directory {
            true => fs::create_dir_all(&path).expect("we are root"),
            false => fs::write(&path, "text").expect("we are root"),
        }
        let owner = if is_own { self.owner } else { 0 };
        chown(&path, Some(owner), Some(owner)).expect("we are root");
        fs::set_permissions(&path, Permissions::from_mode(mode)).expect("we are root");
    }

    /// Runs a command of the shell in the share's directory.
    fn run(&self, command: &str) {
        let folder = text(&self.server.path_of_share("data"));
        run_in_server(&self.server, &format!("cd '{folder}' && {command}")).succeeds();
    }

    #[track_caller]
    fn check(&self, path: &str, commands: &[&str], wanted: &[&str]) {
        check(&self.server, &format!("data/{path}"), commands, DENIED, wanted);
    }
}

#[test]
fn missing_permissions_are_named_and_granted() {
    let Some(files) = Files::new("") else { return };
    files.make("closed", true, 0o755, false);
    files.check("closed", &["put file closed/file"], &["permissions"]);
    files.make("secret", false, 0o600, false);
    files.check("secret", &["get secret"], &["permissions", "permissions"]);
    files.make("own", true, 0o555, true);
    files.check("own", &["put file own/file"], &["permissions"]);
    files.make("deep", true, 0o700, false);
    files.make("deep/deeper", true, 0o777, false);
    files.check("deep/deeper", &["put file deep/deeper/file"], &["permissions"]);
    files.make("masked", true, 0o755, false);
    files.run(&format!("setfacl -m u:{USER}:rwx,m::rx masked"));
    let rows = ask(&files.server, &["access", USER, "data/masked"]);
    let reason = find(&rows, "permissions")["reason"].as_str().unwrap_or_default().to_owned();
    assert!(reason.contains("its POSIX ACL names tester, with r-x"), "{reason}");
    assert!(reason.contains("the mask of the ACL removes -w-"), "{reason}");
    files.check("masked", &["put file masked/file"], &["permissions"]);
    files.server.stop();
}

#[test]
fn paths_that_lead_nowhere_are_explained() {
    let Some(files) = Files::new("hide dot files = yes") else { return };
    let missing = text(&files.server.path_of_share("data").join("none/deeper"));
    let rows = ask(&files.server, &["access", USER, "data/none/deeper/file"]);
    let finding = find(&rows, "no_directory");
    assert_eq!(finding["command"], format!("mkdir -p {missing}"));
    apply(&files.server, &finding);
    let rows = ask(&files.server, &["access", USER, "data/none/deeper/file"]);
    assert_eq!((&rows[0]["exists"], causes(&rows)), (&false.into(), vec!["permissions"]));
    apply(&files.server, &find(&rows, "permissions"));
    ready_client(&files.server).run("data", &["put file none/deeper/file"]).succeeds();
    files.run("ln -s /etc out && touch .hidden");
    find(&ask(&files.server, &["access", USER, "data/out/passwd"]), "symbolic_link");
    let note = find(&ask(&files.server, &["access", USER, "data/.hidden"]), "hide_dot_files");
    assert_eq!((&note["severity"], &note["line"]), (&"note".into(), &"hide dot files = no".into()));
    let gone = text(&files.server.path_of_share("data").join("gone"));
    put_line(&files.server.site().path("smb.conf"), "data", &format!("path = {gone}"));
    files.server.site().run(&["message", "reload"]).succeeds();
    check(&files.server, "data", &["ls"], "NT_STATUS_BAD_NETWORK_NAME", &["share_folder"]);
    files.server.stop();
}

#[test]
fn directories_that_forbid_a_deletion_are_named() {
    let Some(files) = Files::new("") else { return };
    files.make("sticky", true, 0o1777, false);
    files.make("sticky/file", false, 0o666, false);
    let rows = ask(&files.server, &["access", USER, "data/sticky/file"]);
    assert_eq!((&rows[0]["may_write"], &rows[0]["may_delete"]), (&true.into(), &false.into()));
    files.check("sticky/file", &["del sticky/file"], &["sticky"]);
    files.make("held", true, 0o755, false);
    files.make("held/file", false, 0o666, false);
    files.check("held/file", &["del held/file"], &["permissions"]);
    files.server.stop();
}

#[test]
fn attributes_and_the_file_system_are_named() {
    let Some(files) = Files::new("") else { return };
    files.make("fixed", false, 0o666, true);
    files.run("chattr +i fixed");
    files.check("fixed", &["put file fixed"], &["immutable"]);
    files.make("locked", false, 0o666, true);
    let client = ready_client(&files.server);
    client.run("data", &["setmode locked +r"]).succeeds();
    client.run("data", &["put file locked"]).fails(DENIED);
    let rows = ask(&files.server, &["access", USER, "data/locked"]);
    let finding = find(&rows, "read_only_attribute");
    let command = finding["command"].as_str().expect("there is one");
    // The client asks for the password, and the server of a test has a port of its own.
    let port = files.server.port();
    let command =
        command.replace(&format!("-U {USER}"), &format!("-U {USER}%{PASSWORD} -p {port}"));
    run_in_server(&files.server, &command).succeeds();
    client.run("data", &["put file locked"]).succeeds();
    files.run("mkdir mounted && mount -t tmpfs -o size=64k,mode=777 tmpfs mounted");
    files.run("mount -o remount,ro mounted");
    let protected = "NT_STATUS_MEDIA_WRITE_PROTECTED";
    let put = ["put file mounted/file"];
    check(&files.server, "data/mounted", &put, protected, &["read_only_mount"]);
    files.run("dd if=/dev/zero of=mounted/filling bs=4k 2>/dev/null; true");
    client.run("data", &["put file mounted/other"]).fails("NT_STATUS_DISK_FULL");
    let rows = ask(&files.server, &["access", USER, "data/mounted"]);
    assert_eq!(causes(&rows), ["full"]);
    let command = find(&rows, "full")["command"].as_str().unwrap_or_default().to_owned();
    assert!(run_in_server(&files.server, &command).succeeds().contains("mounted"), "{command}");
    files.server.stop();
}

#[test]
fn a_folder_that_a_command_makes_at_the_connect_is_no_fault() {
    let setup = Setup::with_machine();
    if setup.owner().is_none() {
        return progress("left out: homes");
    }
    let homes = text(&setup.path("shares/homes"));
    let lines = format!(
        "[homes]\npath = {homes}/%S\nread only = no\n\
         root preexec = install -d -o %U -m 700 %P\n"
    );
    let server = setup.share("data", "").sections(&lines).start();
    fs::create_dir(server.share_path("homes")).expect("we are root");
    let rows = ask(&server, &["access", USER, USER]);
    let note = find(&rows, "made_at_connect");
    assert!(rows[0]["may_connect"] == true && causes(&rows).is_empty(), "{rows:#?}");
    assert!(note["reason"].as_str().is_some_and(|it| it.contains("root preexec")), "{note}");
    ready_client(&server).run(USER, &["put file"]).succeeds();
    let rows = ask(&server, &["access", USER, USER]);
    assert!(rows[0]["may_write"] == true && rows.len() == 1, "{rows:#?}");
    server.stop();
}

#[test]
fn the_missing_folder_of_a_user_is_made_for_this_user() {
    let setup = Setup::with_machine();
    if setup.owner().is_none() {
        return progress("left out: the folder of a user");
    }
    let server = setup.share("data", "path = %FOLDER/%U").start();
    let missing = text(&server.path_of_share("data").join(USER));
    let rows = ask(&server, &["access", USER, "data"]);
    let command = format!("install -d -o {USER} -m 700 {missing}");
    assert_eq!(find(&rows, "share_folder")["command"], command);
    check(&server, "data", &["put file"], "NT_STATUS_BAD_NETWORK_NAME", &["share_folder"]);
    assert!(causes(&ask(&server, &["access", USER, "data"])).is_empty());
    server.stop();
}

#[test]
fn rights_that_the_configuration_takes_from_a_user_are_no_findings_of_the_server() {
    let setup = Setup::with_machine();
    if setup.owner().is_none() {
        return progress("left out: folders of other users");
    }
    let lines = format!("valid users = {OTHER_USER}");
    let lines_of_reading = format!("{lines} {USER}\nread only = yes");
    let server = setup.share("closed", &lines).share("reading", &lines_of_reading).start();
    // A user whom this system does not have, and no share admits.
    server.add_user("stranger");
    let folder = |share| server.share_path(share);
    chown(folder("closed"), Some(0), Some(0)).expect("we are root");
    run_in_server(
        &server,
        &format!("chown {OTHER_USER} {}", text(&server.path_of_share("closed"))),
    )
    .succeeds();
    fs::set_permissions(folder("closed"), Permissions::from_mode(0o700)).expect("we are root");
    chown(folder("reading"), Some(0), Some(0)).expect("we are root");
    fs::set_permissions(folder("reading"), Permissions::from_mode(0o755)).expect("we are root");
    let rows = ask(&server, &[]);
    for cause in ["permissions", "no_system_user", "share_folder", "user_lists", "read_only_share"]
    {
        assert!(!causes(&rows).contains(&cause), "{rows:#?}");
    }
    // The question about one user names all causes still.
    let rows = ask(&server, &["access", USER, "closed"]);
    assert!(causes(&rows).contains(&"user_lists") && causes(&rows).contains(&"permissions"));
    put_line(&server.site().path("smb.conf"), "reading", "valid users = stranger");
    server.site().run(&["message", "reload"]).succeeds();
    let finding = find(&ask(&server, &[]), "no_system_user");
    let added = server
        .site()
        .run_with_input(&["user", "add", "other", "--password-stdin"], &format!("{PASSWORD}\n"));
    let command = finding["command"].as_str().expect("there is one").replace("stranger", "other");
    assert!(added.succeeds().contains(&command), "{finding}");
    server.stop();
}

#[test]
fn losses_of_records_snapshots_and_deleted_files_are_named() {
    let lost = "vfs objects = full_audit recycle shadow_copy2\nfull_audit:success = unlinkat\n\
                recycle:repository = .bin/%U\nshadow:snapdir = .missing";
    let setup = Setup::with_machine();
    if setup.owner().is_none() {
        return progress("left out: a recycle bin");
    }
    let records = text(&setup.path("missing/audit.json"));
    let audit = format!("choro:audit file = {records}");
    let server = setup.global(&audit).share("data", lost).start();
    let folder = server.share_path("data");
    fs::create_dir(folder.join(".bin")).expect("we are root");
    let put_and_delete = || {
        ready_client(&server).run("data", &["put file", "del file"]).succeeds();
        folder.join(".bin").join(USER).join("file").exists()
    };
    assert!(!put_and_delete());
    let rows = ask(&server, &[]);
    let found = ["audit_file", "snapshots", "recycle_bin"].map(|cause| find(&rows, cause));
    let [audit, snapshots, bin] = &found;
    assert!(snapshots["reason"].as_str().is_some_and(|it| it.contains(".missing")), "{snapshots}");
    let asked = ask(&server, &["access", USER, "data"]);
    assert_eq!(&find(&asked, "recycle_bin"), bin);
    apply(&server, audit);
    run_in_server(&server, bin["command"].as_str().expect("there is one")).succeeds();
    fs::create_dir(folder.join(".snapshots")).expect("we are root");
    put_line(&server.site().path("smb.conf"), "data", "shadow:snapdir = data/.snapshots");
    server.site().run(&["message", "reload"]).succeeds();
    assert!(put_and_delete(), "it is in the bin");
    let again = ask(&server, &[]);
    assert!(!again.iter().any(|row| found.contains(row)), "{again:#?}");
    // Somebody has taken the name of the user's folder.
    let bin = folder.join(".bin");
    fs::set_permissions(&bin, Permissions::from_mode(0o1777)).expect("we are root");
    fs::rename(bin.join(USER), bin.join("aside")).expect("we are root");
    fs::create_dir(bin.join(USER)).expect("we are root");
    fs::set_permissions(bin.join(USER), Permissions::from_mode(0o700)).expect("we are root");
    assert!(!put_and_delete() && bin.join(format!("{USER}-2/file")).exists());
    let again = ask(&server, &[]);
    assert!(!causes(&again).contains(&"recycle_bin"), "{again:#?}");
    server.stop();
}

#[test]
fn a_user_that_has_to_join_a_group_is_examined_as_its_member() {
    let setup = Setup::with_machine();
    if setup.owner().is_none() {
        return progress("left out: the folder of a group");
    }
    let server = setup.share("family", "valid users = @daemon").start();
    let group = nix::unistd::Group::from_name("daemon").expect("a name service");
    let gid = group.expect("every Linux has it").gid.as_raw();
    chown(server.share_path("family"), Some(0), Some(gid)).expect("we are root");
    let mode = Permissions::from_mode(0o2770);
    fs::set_permissions(server.share_path("family"), mode).expect("we are root");
    let rows = ask(&server, &["access", USER, "family"]);
    assert_eq!(causes(&rows), ["user_lists"], "{rows:#?}");
    assert_eq!(find(&rows, "user_lists")["command"], format!("usermod -aG daemon {USER}"));
    server.stop();
}

/// smbcacls connects to port 445 only, so the server has a network of its own.
#[test]
fn entries_of_an_nt_access_list_are_named() {
    let mut setup = Setup::with_machine();
    let network = Namespace::of_network("");
    let (Some(_), Ok(network)) = (setup.owner(), network) else {
        return progress("left out: an NT access list");
    };
    let launcher = [network.launcher(), setup.launcher()].concat();
    setup = setup.launch_with(&launcher).port_too(445);
    let server = setup.share("data", "vfs objects = acl_xattr").start();
    let folder = server.share_path("data").join("shared");
    fs::create_dir(&folder).expect("we are root");
    let owner = fs::metadata(server.share_path("data")).expect("it is there").uid();
    chown(&folder, Some(owner), Some(owner)).expect("we are root");
    fs::set_permissions(&folder, Permissions::from_mode(0o777)).expect("we are root");
    let run = |command: &str| {
        let command = command.replace("-U OWNER", &format!("-U {USER}%{PASSWORD}"));
        let script = format!("{command} --configfile=/dev/null");
        let mut shell = Command::new(&launcher[0]);
        let output = shell.args(&launcher[1..]).args(["sh", "-c", &script]);
        Outcome::of(output.output().expect("it starts")).succeeds()
    };
    let smbcacls = "smbcacls //localhost/data shared -U OWNER";
    let ask = || ask(&server, &["access", OTHER_USER, "data/shared"]);
    assert_eq!(ask()[0]["may_write"], true);
    run(&format!("{smbcacls} -a 'ACL:{OTHER_USER}:DENIED/0x0/W'"));
    let finding = find(&ask(), "nt_acl");
    assert!(finding["reason"].as_str().is_some_and(|it| it.contains("denies")), "{finding}");
    run(finding["command"].as_str().expect("there is one"));
    assert_eq!(ask()[0]["may_write"], true);
    run(&format!("{smbcacls} -S 'ACL:{USER}:ALLOWED/0x0/FULL'"));
    for finding in ask().iter().filter(|row| is_actionable(row)) {
        assert!(finding["reason"].as_str().is_some_and(|it| it.contains("allows")), "{finding}");
        run(finding["command"].as_str().expect("there is one"));
    }
    let rows = ask();
    assert!(rows[0]["may_write"] == true && causes(&rows).is_empty(), "{rows:#?}");
    server.stop();
}

#[test]
fn a_server_that_is_not_root_is_examined_as_its_own_user() {
    let server = Setup::new().share("data", "").run_as_somebody().start();
    if !runs_as_root() {
        return progress("left out: a directory of another user");
    }
    fs::create_dir(server.share_path("data").join("closed")).expect("we are root");
    check(&server, "data/closed", &["put file closed/file"], DENIED, &["permissions"]);
    server.stop();
}

#[test]
fn the_exit_code_tells_findings_from_questions_without_an_answer() {
    let server = Setup::new().share("data", "").share("reading", "read only = yes").start();
    let ask = |question: &[&str]| server.site().run(&[&["doctor"], question].concat());
    let nothing = ask(&["access", USER, "//server/data"]);
    assert!(nothing.succeeds().ends_with("Nothing found.\n"));
    assert_eq!(ask(&["access", USER, "reading"]).fails(1).lines().last(), Some("choro: 1 finding"));
    let error = ask(&["client", "192.0.2.1"]).fails(2);
    assert!(error.contains("no client 192.0.2.1 is connected"), "{error}");
    // This server is for the tests' own machine.
    let output = ask(&[]).output();
    assert!(output.contains("WARN") && output.contains("smb ports = 445"), "{output}");
    assert!(output.contains("message reload"), "{output}");
    let site = server.site().path("smb.conf");
    put_line(&site, "data", "comment = another");
    let output = ask(&[]).output();
    assert!(output.contains("serves another configuration"), "{output}");
    server.site().run(&["message", "reload"]).succeeds();
    assert!(!ask(&[]).output().contains("serves another configuration"));
    server.stop();
}

#[test]
fn a_server_that_does_not_run_is_a_finding_and_leaves_other_questions_open() {
    let site = Site::new();
    let output = site.run(&["doctor"]);
    assert!(output.output().contains("The server does not run"), "{}", output.output());
    output.fails(1);
    let output = site.run(&["doctor", "network"]);
    assert!(output.output().contains("The server does not run"), "{}", output.output());
    output.fails(1);
    site.run(&["doctor", "access", USER, "data"]).fails(2);
    site.run(&["doctor", "client", "all"]).fails(2);
}

#[test]
fn an_unsigned_client_with_one_channel_is_named_until_the_server_changes() {
    let server = TestServer::start();
    let question = ["client", "127.0.0.1"];
    let client = server.connect("data", Protection::Plain);
    let rows = ask(&server, &question);
    let (unsigned, single) = (find(&rows, "unsigned"), find(&rows, "single_channel"));
    assert_eq!((&rows[0]["signed"], &rows[0]["channels"]), (&false.into(), &1.into()));
    assert!(single["reason"].as_str().is_some_and(|it| it.contains("one interface")), "{single}");
    drop(client);
    apply(&server, &unsigned);
    let client = server.connect("data", Protection::Signed);
    let rows = ask(&server, &["client", USER]);
    assert!(causes(&rows).is_empty(), "{rows:#?}");
    apply(&server, &find(&rows, "unencrypted"));
    drop(client);
    let _client = server.connect("data", Protection::Sealed);
    let rows = ask(&server, &["client", "all"]);
    let now = rows.iter().find(|row| row["encrypted"] == true);
    assert!(now.is_some(), "{rows:#?}");
}

/// Reads so many times, one after the other.
fn read_repeatedly(server: &TestServer, count: u32) -> Client {
    let path = server.share_path("data").join("file");
    fs::write(&path, "text").expect("there is space");
    give_to_server(&path);
    let mut client = server.connect("data", Protection::Signed);
    let file = requests::open(&mut client, Purpose::Open, "file").expect("it is there");
    for _ in 0..count {
        requests::push_read(&mut client, file, 0, 4);
        client.flush(Slot(0)).expect("it is sent");
        client.receive().and_then(Reply::succeeded).expect("it is read");
    }
    client
}

#[test]
fn a_slow_client_is_told_the_limit_that_throttles_it() {
    let class = "[qos:slow]\nmatch = share data\nmax iops = 8\n[global]\n";
    let server = Setup::new().global(class).share("data", "").start();
    let _client = read_repeatedly(&server, 24);
    let rows = ask(&server, &["client", USER]);
    let finding = find(&rows, "slow");
    assert!(
        finding["reason"].as_str().is_some_and(|it| it.contains("QoS limit (throttled)")),
        "{rows:#?}"
    );
    apply(&server, &finding);
    let classes = server.site().run(&["qos", "show", "--json"]).succeeds();
    let classes: Vec<Value> = serde_json::from_str(&classes).expect("it is JSON");
    let held = classes[0]["throttled"].as_u64();
    drop(read_repeatedly(&server, 24));
    let classes = server.site().run(&["qos", "show", "--json"]).succeeds();
    let classes: Vec<Value> = serde_json::from_str(&classes).expect("it is JSON");
    assert_eq!(classes[0]["throttled"].as_u64(), held, "nothing is throttled any more");
    server.stop();
}

#[test]
fn few_requests_that_took_long_are_enough_for_a_slow_client() {
    let server = Setup::new().global("choro:storage delay = 1500000").share("data", "").start();
    let _client = read_repeatedly(&server, 3);
    let rows = ask(&server, &["client", "all"]);
    assert!(rows[0]["requests"].as_u64().is_some_and(|count| count < 20), "{rows:#?}");
    find(&rows, "slow");
    server.stop();
}

#[test]
fn a_slow_storage_is_named_as_the_reason_of_a_slow_client() {
    let server = Setup::new().global("choro:storage delay = 120000").share("data", "").start();
    let _client = read_repeatedly(&server, 24);
    let rows = ask(&server, &["client", "all"]);
    let reason = find(&rows, "slow")["reason"].to_string();
    assert!(reason.contains("storage"), "{rows:#?}");
    server.stop();
}

/// A server in a network of its own, with a cable to a container and no other interface.
struct Cable {
    namespace: Namespace,
    site: Site,
}

impl Cable {
    /// `None` where the machine does not allow it; that is printed.
    fn new() -> Option<Self> {
        let setup = "ip link add near type veth peer name far\n\
                     ip addr add 192.0.2.1/24 dev near\n\
                     ip link set far up\n\
                     ip link set near up";
        let namespace = Namespace::of_network(setup);
        let namespace = namespace.inspect_err(|why| progress(&format!("left out: {why}"))).ok()?;
        let mut site = Site::new();
        site.launch_with(&namespace.launcher());
        let all = "interfaces =\nbind interfaces only = no\nsmb ports = 445\n";
        let data = text(&site.path("data"));
        site.write_config_with(all, &format!("[data]\npath = {data}\n"));
        Some(Self { namespace, site })
    }

    fn ask(&self) -> Vec<Value> {
        let outcome = self.site.run(&["doctor", "network", "--json"]);
        serde_json::from_str(&outcome.output()).unwrap_or_else(|_| panic!("{}", outcome.error()))
    }

    /// A program that listens at a TCP port until its input ends.
    fn occupy(&self, port: u16) -> Child {
        let program = format!(
            "import socket, sys; s = socket.create_server(('', {port})); print(flush=True); \
             sys.stdin.read()"
        );
        let mut child = self
            .namespace
            .command("python3")
            .args(["-c", &program])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 is installed");
        let mut line = String::new();
        let stdout = child.stdout.as_mut().expect("it is piped");
        BufReader::new(stdout).read_line(&mut line).expect("it listens");
        child
    }
}

#[test]
fn a_program_that_has_a_port_of_the_server_is_named() {
    let Some(network) = Cable::new() else { return };
    assert!(!causes(&network.ask()).contains(&"port_taken"));
    let mut other = network.occupy(445);
    let finding = find(&network.ask(), "port_taken");
    assert!(finding["reason"].as_str().is_some_and(|it| it.contains("python3")), "{finding}");
    // A program can have any name, so no service is told by it.
    assert!(!finding["command"].as_str().is_some_and(|it| it.contains("python3")), "{finding}");
    drop(other.stdin.take());
    other.wait().expect("it ends");
    let mut other = network.occupy(5_357);
    let _server = network.site.serve();
    let rows = network.ask();
    assert!(!causes(&rows).contains(&"port_taken"), "the server has its port: {rows:#?}");
    find(&rows, "wsd_port_taken");
    drop(other.stdin.take());
    other.wait().expect("it ends");
}

#[test]
fn a_server_without_an_interface_is_announced_after_the_printed_line() {
    let Some(network) = Cable::new() else { return };
    let server = network.site.serve();
    let finding = find(&network.ask(), "interface");
    assert_eq!(finding["line"], "interfaces = near", "{finding}");
    put_line(&network.site.path("smb.conf"), "global", "interfaces = near");
    network.site.run(&["message", "reload"]).succeeds();
    server.wait_for_log("this server is announced on near");
    wait_until(|| causes(&network.ask()).is_empty(), || format!("{:#?}", network.ask()));
    for (line, want) in [
        ("choro:wsd = no", "choro:wsd = yes"),
        ("multicast dns register = no", "multicast dns register = yes"),
        ("smb ports = 4450", "smb ports = 445"),
        // One letter is in another place.
        ("interfaces = naer", "interfaces = near"),
    ] {
        put_line(&network.site.path("smb.conf"), "global", line);
        let rows = network.ask();
        let lines: Vec<&str> = rows.iter().filter_map(|row| row["line"].as_str()).collect();
        assert!(lines.contains(&want), "{rows:#?}");
        put_line(&network.site.path("smb.conf"), "global", want);
    }
    assert!(causes(&network.ask()).is_empty());
}
