//! The server as it runs in a container: as any user without capabilities, or as root.

mod harness;

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::thread;

use auth::NtHash;
use bench::server::ReservedPort;
use harness::choro::{
    built_executable, children, is_helper, signal_process, text, wait_until, without_io_uring,
};
use harness::process_memory::{forms_of_hash, memory_holds};
use harness::runs_as_root;
use harness::smbtorture::progress;
use rustix::process::Signal;
use tempfile::TempDir;

/// A user id that no system gives to anybody.
const STRANGER: u32 = 61_000;

/// Volumes and secrets of a container, and how its processes are started.
struct Volumes {
    root: TempDir,
    port: ReservedPort,
    variables: Vec<(String, String)>,
    /// Its processes are of a user without capabilities.
    is_stranger: bool,
}

/// A running container; it is killed in the end.
struct Running<'a> {
    volumes: &'a Volumes,
    child: Child,
}

impl Volumes {
    /// With these shares, whose folders belong to the user of the processes.
    fn new(shares: &[&str], is_stranger: bool) -> Self {
        let root = tempfile::tempdir().expect("there is space");
        let port = ReservedPort::new().expect("a port is free");
        let is_stranger = is_stranger && runs_as_root();
        let volumes = Self { root, port, variables: Vec::new(), is_stranger };
        fs::set_permissions(volumes.root.path(), Permissions::from_mode(0o755)).expect("ours");
        for name in ["state", "secrets"].iter().chain(shares) {
            let path = volumes.root.path().join(if ["state", "secrets"].contains(name) {
                (*name).to_owned()
            } else {
                format!("shares/{name}")
            });
            fs::create_dir_all(&path).expect("there is space");
            if is_stranger {
                chown(&path, Some(STRANGER), Some(STRANGER)).expect("we are root");
            }
        }
        // Others may be unable to reach the directory of the build.
        let copied = Command::new("cp").arg(built_executable()).arg(volumes.path("choro")).status();
        assert!(copied.expect("there is a cp").success());
        volumes
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn log(&self) -> String {
        fs::read_to_string(self.path("log")).expect("it exists")
    }

    fn with(mut self, variable: &str, value: &str) -> Self {
        self.variables.push((variable.to_owned(), value.to_owned()));
        self
    }

    /// A user with a secret.
    fn with_user(self, name: &str, password: &str) -> Self {
        let secret = self.path("secrets").join(name);
        fs::write(&secret, format!("{password}\n")).expect("there is space");
        self.with(&format!("CHORO_USER_{}_FILE", name.to_uppercase()), &text(&secret))
    }

    /// A command in the container: without io_uring, as seccomp profiles of containers have it.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut line = without_io_uring();
        if self.is_stranger {
            let user = format!("--reuid={STRANGER}");
            let group = format!("--regid={STRANGER}");
            let setpriv = ["setpriv", &user, &group, "--clear-groups", "--bounding-set=-all"];
            line.extend(setpriv.map(str::to_owned));
        }
        let mut command = Command::new(&line[0]);
        command
            .args(&line[1..])
            .arg(self.path("choro"))
            .args(arguments)
            .env("CHORO_SHARES", self.path("shares"))
            .env("CHORO_STATE", self.path("state"))
            .env("CHORO_PORT", self.port.port().to_string())
            .envs(self.variables.iter().cloned())
            .stdin(Stdio::null());
        command
    }

    /// A command beside the server, as `docker exec` runs it.
    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).env("CHORO_CONTAINER", "yes").output().expect("it starts")
    }

    fn start(&self) -> Running<'_> {
        let file = |name| fs::File::create(self.path(name)).expect("there is space");
        let child = self
            .command(&["serve", "--container"])
            .stdout(file("output"))
            .stderr(file("log"))
            .spawn()
            .expect("it starts");
        let mut running = Running { volumes: self, child };
        wait_until(
            || running.has_ended().is_some() || self.log().contains("listening on"),
            || format!("it does not listen: {}", self.log()),
        );
        running
    }

    /// Runs commands of smbclient. Returns whether they succeeded, and its words.
    fn smbclient(&self, share: &str, user: &str, password: &str, command: &str) -> (bool, String) {
        let output = Command::new("smbclient")
            .arg(format!("//127.0.0.1/{share}"))
            .args(["-U", &format!("{user}%{password}"), "-p", &self.port.port().to_string()])
            .args(["-c", command])
            .current_dir(self.root.path())
            .output()
            .expect("smbclient is installed");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.success(), text + &String::from_utf8_lossy(&output.stderr))
    }

    #[track_caller]
    fn put(&self, share: &str, user: &str, password: &str) {
        fs::write(self.path("local"), "text of the client").expect("there is space");
        let (done, printed) =
            self.smbclient(share, user, password, "put local name; get name back");
        assert!(done, "{printed}\n{}", fs::read_to_string(self.path("log")).expect("it exists"));
        assert_eq!(fs::read(self.path("back")).expect("it came"), b"text of the client");
        fs::remove_file(self.path("back")).expect("ours");
    }
}

impl Running<'_> {
    fn log(&self) -> String {
        self.volumes.log()
    }

    fn output(&self) -> String {
        fs::read_to_string(self.volumes.path("output")).expect("it exists")
    }

    fn has_ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("it is our child")
    }

    /// Stops the server as `docker stop` does.
    #[track_caller]
    fn stop(mut self) {
        signal_process(self.child.id(), Signal::TERM);
        let volumes = self.volumes;
        wait_until(|| self.has_ended().is_some(), || volumes.log());
        assert!(self.has_ended().expect("it has").success(), "{}", self.log());
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            progress(&self.log());
        }
    }
}

#[test]
fn a_user_without_capabilities_shares_each_volume_to_users_of_secrets() {
    let volumes = Volumes::new(&["drawings", "films"], true)
        .with_user("anna", "first password")
        .with_user("bob", "bobs password");
    let server = volumes.start();
    volumes.put("drawings", "anna", "first password");
    volumes.put("films", "bob", "bobs password");
    let (done, printed) = volumes.smbclient("films", "anna", "bobs password", "ls");
    assert!(!done && printed.contains("LOGON_FAILURE"), "{printed}");
    if volumes.is_stranger {
        let owner = fs::metadata(volumes.path("shares/drawings/name")).expect("it is there").uid();
        assert_eq!(owner, STRANGER);
    }
    let log = server.log();
    for line in log.lines() {
        let object: serde_json::Value = serde_json::from_str(line).expect(line);
        assert!(object["time"].is_string() && object["pid"].is_u64(), "{line}");
    }
    assert!(log.contains("clients are served through epoll and threads"), "{log}");
    assert!(!log.contains("first password") && !log.contains("bobs password"), "{log}");
    assert_eq!(server.output(), "", "no password was made up");
    server.stop();

    // A new secret, and a user less.
    let secret = volumes.path("secrets/anna");
    fs::write(secret, "second password").expect("ours");
    let mut volumes = volumes;
    volumes.variables.retain(|(name, _)| !name.contains("BOB"));
    let server = volumes.start();
    volumes.put("drawings", "anna", "second password");
    let (done, printed) = volumes.smbclient("films", "bob", "bobs password", "ls");
    assert!(!done && printed.contains("LOGON_FAILURE"), "{printed}");
    server.stop();
}

#[test]
fn a_password_that_was_made_up_is_printed_once_and_stays() {
    let volumes = Volumes::new(&["data"], true);
    let server = volumes.start();
    wait_until(|| server.output().ends_with('\n'), || server.log());
    let line: serde_json::Value = serde_json::from_str(&server.output()).expect("an object");
    assert_eq!(line["user"], "choro");
    let password = line["password"].as_str().expect("text").to_owned();
    assert_eq!(password.len(), 16);
    assert!(!server.log().contains(&password));
    volumes.put("data", "choro", &password);
    server.stop();
    let server = volumes.start();
    volumes.put("data", "choro", &password);
    assert_eq!(server.output(), "");
    server.stop();
}

#[test]
fn the_health_check_tells_a_server_that_serves_from_one_that_does_not() {
    let volumes = Volumes::new(&["data"], true).with_user("anna", "secret");
    let before = volumes.run(&["healthcheck"]);
    assert_eq!(before.status.code(), Some(1), "{before:?}");
    let server = volumes.start();
    let during = volumes.run(&["healthcheck"]);
    assert!(during.status.success(), "{during:?}");
    assert!(String::from_utf8_lossy(&during.stdout).contains("answers"), "{during:?}");
    // Neither a logon nor a failed one.
    assert!(!server.log().contains("auth"), "{}", server.log());
    signal_process(server.child.id(), Signal::STOP);
    let stopped = volumes.run(&["healthcheck", "--timeout", "1"]);
    assert_eq!(stopped.status.code(), Some(1), "{stopped:?}");
    signal_process(server.child.id(), Signal::CONT);
    let later = volumes.run(&["healthcheck"]);
    assert!(later.status.success(), "{later:?}");
    server.stop();
    let after = volumes.run(&["healthcheck"]);
    assert_eq!(after.status.code(), Some(1), "{after:?}");
}

#[test]
fn the_doctor_names_the_folder_of_another_user_and_the_variable_of_the_port() {
    if !runs_as_root() {
        return progress("only root has a folder that the server may not read");
    }
    let volumes = Volumes::new(&["data"], true).with_user("anna", "secret");
    let server = volumes.start();
    let folder = volumes.path("shares/data");
    chown(&folder, Some(0), Some(0)).expect("we are root");
    fs::set_permissions(&folder, Permissions::from_mode(0o700)).expect("we are root");
    let ask = |question: &[&str]| {
        let output = volumes.run(&[&["doctor"], question].concat());
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let told = ask(&["access", "anna", "data"]);
    assert!(told.contains("belongs to root:root and has the mode 0700"), "{told}");
    assert!(told.contains("Change: chmod o+rx") || told.contains("Change: setfacl"), "{told}");
    let told = ask(&["network"]);
    assert!(told.contains("start the container with CHORO_PORT=445"), "{told}");
    assert!(!told.contains("smb ports"), "{told}");
    server.stop();
}

/// As `logond::no_process_that_reads_bytes_of_clients_holds_a_password_hash`: here the supervisor
/// itself has read the list.
#[test]
fn workers_hold_no_hash_of_the_list_of_users() {
    let volumes = Volumes::new(&["data"], true).with_user("anna", "annas password");
    let users = volumes.path("users.conf");
    let hash = NtHash::of_password("bobs password");
    let digits = hash.as_bytes().map(|byte| format!("{byte:02X}")).concat();
    fs::write(&users, format!("bob - - {digits}\n")).expect("ours");
    let volumes = volumes.with("CHORO_USERS", &text(&users));
    let server = volumes.start();
    volumes.put("data", "bob", "bobs password");
    volumes.put("data", "anna", "annas password");
    let texts = ["annas password", "bobs password"].map(forms_of_hash).concat();
    let pids = children(server.child.id());
    let (logond, others): (Vec<u32>, Vec<u32>) =
        pids.into_iter().partition(|pid| is_helper(*pid, "logond"));
    assert!(logond.iter().all(|pid| memory_holds(*pid, &texts)), "they are not found at all");
    assert!(logond.len() == 1 && others.len() > 1, "{logond:?} {others:?}");
    for pid in others.into_iter().chain([server.child.id()]) {
        assert!(!memory_holds(pid, &texts), "process {pid}");
    }
    server.stop();
}

#[test]
fn a_server_of_roots_gives_users_the_ids_of_their_variables() {
    if !runs_as_root() {
        return progress("only root can give files to users");
    }
    let volumes = Volumes::new(&["data", "common"], false)
        .with_user("anna", "secret")
        .with("CHORO_USER_ANNA_UID", "61001")
        .with("CHORO_USER_ANNA_GID", "61002,61003");
    let users = volumes.path("users.conf");
    fs::write(&users, "# name uid gids secret\nbob 61004 61005,61003 -\n").expect("ours");
    let volumes = volumes.with("CHORO_USERS", &text(&users));
    let common = volumes.path("shares/common");
    chown(&common, Some(0), Some(61_003)).expect("we are root");
    fs::set_permissions(&common, Permissions::from_mode(0o2770)).expect("we are root");
    // No new volume: it stays with its owner.
    fs::write(common.join("file"), "").expect("there is space");
    let server = volumes.start();
    wait_until(|| server.output().ends_with('\n'), || server.log());
    let line: serde_json::Value = serde_json::from_str(&server.output()).expect("an object");
    assert_eq!(line["user"], "bob");
    let bobs = line["password"].as_str().expect("text").to_owned();
    volumes.put("data", "anna", "secret");
    let owner = |path: &str| {
        let metadata = fs::metadata(volumes.path(path)).expect("it is there");
        (metadata.uid(), metadata.gid())
    };
    assert_eq!(owner("shares/data"), (61_001, 61_002), "it was new and empty");
    assert_eq!(owner("shares/data/name"), (61_001, 61_002));
    // By a further group, and of the folder's group.
    volumes.put("common", "bob", &bobs);
    assert_eq!(owner("shares/common"), (0, 61_003));
    assert_eq!(owner("shares/common/name"), (61_004, 61_003));
    fs::set_permissions(volumes.path("shares/data"), Permissions::from_mode(0o700)).expect("root");
    let (done, printed) = volumes.smbclient("data", "bob", &bobs, "ls");
    assert!(!done && printed.contains("ACCESS_DENIED"), "{printed}");
    server.stop();
}

#[test]
fn root_without_the_means_to_be_a_user_serves_nobody() {
    if !runs_as_root() {
        return progress("only root can give up capabilities of root");
    }
    let volumes = Volumes::new(&["data"], false);
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set=-setuid", "--inh-caps=-setuid"]);
    let inner = volumes.command(&["serve", "--container"]);
    command.arg(inner.get_program()).args(inner.get_args());
    let variables = inner.get_envs().filter_map(|(name, value)| Some((name, value?)));
    let output = command.envs(variables).output().expect("it starts");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(printed.contains("SETUID and SETGID"), "{printed}");
}

#[test]
fn an_invalid_configuration_stops_the_start() {
    for (variable, value, why) in [
        ("CHORO_USER_ANNA", "secret", "CHORO_USER_ANNA is unknown"),
        ("CHORO_USER_ANNA_FILE", "/nonexistent", "cannot read the password of anna"),
        ("CHORO_USERS", "/nonexistent", "cannot read"),
    ] {
        let volumes = Volumes::new(&["data"], true).with(variable, value);
        let output = volumes.command(&["serve", "--container"]).output().expect("it starts");
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let printed = String::from_utf8_lossy(&output.stderr);
        assert!(printed.contains(why) && !printed.contains("secret\""), "{printed}");
    }
    let volumes = Volumes::new(&[], true);
    let output = volumes.command(&["serve", "--container"]).output().expect("it starts");
    assert!(!output.status.success());
}
