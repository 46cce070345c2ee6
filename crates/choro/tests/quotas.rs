//! Quotas for Samba's smbcquotas: those of a kernel, and those of `get quota command` and `set
//! quota command`.
//!
//! smbcquotas connects to port 445 only, so each server has a network of its own. Many kernels
//! count no quotas, so that of a small guest does (see `tests/guest/`).

mod harness;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use harness::choro::{Outcome, built_executable, text};
use harness::guest::{Guest, has_guest, script, tap_device};
use harness::namespace::Namespace;
use harness::smbtorture::progress;
use harness::{OTHER_USER, PASSWORD, Setup, TestServer, USER};

/// Runs smbcquotas in a network, with these arguments behind the share.
fn smbcquotas(launcher: &[String], (host, share): (&str, &str), arguments: &[&str]) -> Outcome {
    let mut command = Command::new(&launcher[0]);
    command.args(&launcher[1..]).args(["timeout", "60", "smbcquotas", "--configfile=/dev/null"]);
    command.arg("-n").arg(format!("//{host}/{share}")).args(arguments);
    Outcome::of(command.output().expect("it starts"))
}

#[track_caller]
fn assert_refused(outcome: &Outcome, status: &str) {
    let said = outcome.output() + &outcome.error();
    assert!(!outcome.is_success() && said.contains(status), "no {status}: {said}");
}

fn logon(user: &str) -> String {
    format!("{user}%{PASSWORD}")
}

/// The numbers of a line, such as used bytes, threshold and limit of a user; none for no limit.
fn numbers(line: &str) -> Vec<Option<u64>> {
    let (_, quota) = line.rsplit_once(':').expect("a user and the numbers");
    let number = |word: &str| word.trim().parse().ok().filter(|number| *number != u64::MAX);
    quota.split('/').map(number).collect()
}

/// Size of a share and its free space in bytes, for smbclient in a network.
#[track_caller]
fn free_space(launcher: &[String], (host, share): (&str, &str)) -> (u64, u64) {
    let mut command = Command::new(&launcher[0]);
    command.args(&launcher[1..]).args(["timeout", "60", "smbclient", "--configfile=/dev/null"]);
    command.args(["-U", &logon(USER)]).arg(format!("//{host}/{share}")).args(["-c", "ls"]);
    let said = Outcome::of(command.output().expect("it starts")).succeeds();
    let line = said.lines().find(|line| line.contains("blocks of size")).expect("its end");
    let numbers = line.split(|c: char| !c.is_ascii_digit());
    let numbers: Vec<u64> = numbers.filter_map(|word| word.parse().ok()).collect();
    let [size, unit, free] = numbers[..] else { panic!("{line}") };
    (size * unit, free * unit)
}

/// A server whose commands keep quotas in a folder.
struct Commanded {
    server: TestServer,
    launcher: Vec<String>,
    /// Lives as long as the server in it.
    _network: Namespace,
    /// Id of [`USER`] on the system.
    uid: u32,
}

impl Commanded {
    /// `None` if the machine allows no users and network of the server's own.
    fn start() -> Option<Self> {
        let setup = Setup::with_machine();
        let (Some((uid, _)), Ok(network)) = (setup.owner(), Namespace::of_network("")) else {
            progress("left out: quotas of commands");
            return None;
        };
        let launcher = [network.launcher(), setup.launcher()].concat();
        let kept = setup.path("kept");
        fs::create_dir(&kept).expect("there is space");
        fs::set_permissions(&kept, Permissions::from_mode(0o777)).expect("it is ours");
        let (get, set) = (setup.path("get.sh"), setup.path("set.sh"));
        let kept = text(&kept);
        let content = format!(
            "echo \"get $* as $(id -u)\" >> {kept}/asked; chmod -f 666 {kept}/asked\n\
             cat {kept}/$3 2>/dev/null || echo 2 1000 0 0 5 0 0\n"
        );
        fs::write(&get, content).expect("there is space");
        let content = format!(
            "echo \"set $* as $(id -u)\" >> {kept}/asked\n[ $5 -ne 666 ] || exit 1\n\
             echo \"$4 1000 $5 $6 5 $7 $8 $9\" > {kept}/$3; echo done\n"
        );
        fs::write(&set, content).expect("there is space");
        let commands =
            format!("get quota command = sh {}\nset quota command = sh {}", text(&get), text(&set));
        let server = setup
            .launch_with(&launcher)
            .port_too(445)
            .global(&commands)
            .share("data", "")
            .share("managed", &format!("admin users = {USER}"))
            .share("shown", &format!("admin users = {USER}\nread only = yes"))
            .start();
        Some(Self { server, launcher, _network: network, uid })
    }

    fn run(&self, share: &str, arguments: &[&str]) -> Outcome {
        smbcquotas(&self.launcher, ("localhost", share), arguments)
    }
}

#[test]
fn a_command_tells_a_user_its_own_quota_and_that_of_others_to_administrators() {
    let Some(commanded) = Commanded::start() else { return };
    let (user, other) = (logon(USER), logon(OTHER_USER));
    let own = commanded.run("data", &["-U", &user, "-u", USER]).succeeds();
    assert_eq!(numbers(&own), [Some(1_024_000), None, None], "{own}");
    assert_refused(
        &commanded.run("data", &["-U", &user, "-u", OTHER_USER]),
        "NT_STATUS_ACCESS_DENIED",
    );
    let of_other = commanded.run("managed", &["-U", &user, "-u", OTHER_USER]).succeeds();
    assert_eq!(numbers(&of_other), [Some(1_024_000), None, None], "{of_other}");
    let own = commanded.run("data", &["-U", &other, "-L"]).succeeds();
    assert_eq!(own.lines().count(), 1, "{own}");
    commanded.server.stop();
}

#[test]
fn administrators_set_quotas_by_a_command_and_nobody_else() {
    let Some(commanded) = Commanded::start() else { return };
    let (user, other) = (logon(USER), logon(OTHER_USER));
    let set = |limits: &str| format!("UQLIM:{OTHER_USER}:{limits}");
    let wanted = set("2097152/4194304");
    assert_refused(
        &commanded.run("data", &["-U", &user, "-S", &wanted]),
        "NT_STATUS_ACCESS_DENIED",
    );
    commanded.run("managed", &["-U", &user, "-S", &wanted]).succeeds();
    let told = commanded.run("data", &["-U", &other, "-u", OTHER_USER]).succeeds();
    assert_eq!(numbers(&told), [Some(1_024_000), Some(2 << 20), Some(4 << 20)], "{told}");
    // 666 KiB are refused by the command.
    let refused = set("681984/681984");
    assert_refused(
        &commanded.run("managed", &["-U", &user, "-S", &refused]),
        "NT_STATUS_UNSUCCESSFUL",
    );
    let asked = commanded.server.site().path("kept/asked");
    let asked = fs::read_to_string(asked).expect("the commands wrote it");
    let line = asked.lines().find(|line| line.starts_with("set")).expect("it was run");
    assert!(line.starts_with("set . 1 "), "{line}");
    assert!(line.ends_with(" 2 2048 4096 0 0 1024 as 0"), "{line}");
    commanded.server.stop();
}

#[test]
fn a_share_that_is_read_only_sets_no_quotas_for_administrators_either() {
    let Some(commanded) = Commanded::start() else { return };
    let user = logon(USER);
    let set = format!("UQLIM:{OTHER_USER}:2097152/4194304");
    let refused = commanded.run("shown", &["-U", &user, "-S", &set]);
    assert_refused(&refused, "NT_STATUS_ACCESS_DENIED");
    let shown = commanded.run("shown", &["-U", &user, "-u", OTHER_USER]).succeeds();
    assert_eq!(numbers(&shown), [Some(1_024_000), None, None], "{shown}");
    let asked = commanded.server.site().path("kept/asked");
    let asked = fs::read_to_string(asked).expect("the commands wrote it");
    assert!(!asked.lines().any(|line| line.starts_with("set")), "{asked}");
    commanded.server.stop();
}

#[test]
fn a_quota_that_a_command_tells_bounds_the_free_space() {
    let Some(commanded) = Commanded::start() else { return };
    let own = commanded.server.site().path("kept");
    fs::write(own.join(commanded.uid.to_string()), "2 1000 2000 4000 5 0 0")
        .expect("there is space");
    let (size, free) = free_space(&commanded.launcher, ("localhost", "data"));
    assert_eq!((size, free), (2_000 << 10, 1_000 << 10));
    commanded.server.stop();
}

/// Longest time of a guest's start, of its server and of its end.
const PATIENCE: Duration = Duration::from_secs(120);

/// A server in a guest whose kernel counts quotas.
struct CountingServer {
    guest: Guest,
    folder: tempfile::TempDir,
    network: Namespace,
}

impl CountingServer {
    fn boot() -> Self {
        let network = Namespace::of_network(&tap_device(0)).expect("root may make a network");
        let folder = tempfile::tempdir().expect("there is space");
        let job = folder.path();
        for disk in ["limited", "counted"] {
            make_disk(&job.join(format!("{disk}.ext4")));
        }
        fs::copy(built_executable(), job.join("choro")).expect("there is space");
        fs::copy(libtdb(), job.join("libtdb.so.1")).expect("there is space");
        build_shim(&job.join("no_vdso.so"));
        let environment = format!("ACCOUNT={USER}\nOTHER={OTHER_USER}\nPASSWORD='{PASSWORD}'\n");
        let share = |name: &str, folder: &str, lines: &str| {
            format!("[{name}]\npath = /tmp/{folder}\nread only = no\n{lines}\n")
        };
        let shares = [
            share("data", "limited", ""),
            share("managed", "limited", &format!("admin users = {USER}")),
            share("counted", "counted", ""),
        ];
        fs::write(job.join("shares"), shares.concat()).expect("there is space");
        let program = ("quota.sh", 3 * PATIENCE.as_secs());
        let guest = Guest::boot((&network, 1), program, job, &environment);
        let mut server = Self { guest, folder, network };
        server.guest.wait_for("ready", PATIENCE);
        server
    }

    fn run(&self, share: &str, arguments: &[&str]) -> Outcome {
        smbcquotas(&self.network.launcher(), ("10.99.0.2", share), arguments)
    }

    fn stop(mut self) {
        self.tell_to_end();
        self.guest.wait(|_| ());
    }

    fn tell_to_end(&self) {
        fs::write(self.folder.path().join("stop"), "").expect("there is space");
    }
}

/// The guest ends also with a test that fails.
impl Drop for CountingServer {
    fn drop(&mut self) {
        self.tell_to_end();
        self.guest.join();
    }
}

/// Makes a file system that counts quotas.
fn make_disk(path: &Path) {
    fs::File::create(path).and_then(|file| file.set_len(64 << 20)).expect("there is space");
    let mut made = Command::new("mke2fs");
    made.args(["-q", "-F", "-t", "ext4", "-O", "quota"]).arg(path);
    assert!(made.status().expect("e2fsprogs are installed").success());
}

/// Builds the library that lets the server start in the guest.
fn build_shim(path: &Path) {
    let mut built = Command::new("cc");
    built.args(["-shared", "-fPIC", "-o"]).arg(path).arg(script("no_vdso.c"));
    assert!(built.status().expect("there is a compiler").success());
}

/// The library that the server is linked with.
fn libtdb() -> String {
    let linked = Command::new("ldd").arg(built_executable()).output().expect("it is installed");
    let linked = String::from_utf8_lossy(&linked.stdout).into_owned();
    let line = linked.lines().find(|line| line.contains("libtdb.so.1")).expect("it is linked");
    line.split_whitespace().nth(2).expect("a path").to_owned()
}

#[test]
fn quotas_of_a_kernel_are_told_and_set_with_the_rights_of_each_user() {
    if !has_guest() {
        return;
    }
    let guest = CountingServer::boot();
    let (user, other) = (logon(USER), logon(OTHER_USER));
    // Users see their own quota.
    let own = guest.run("data", &["-U", &user, "-u", USER]).succeeds();
    assert_eq!(numbers(&own), [Some(1 << 20), None, None], "{own}");
    assert_refused(&guest.run("data", &["-U", &user, "-u", OTHER_USER]), "NT_STATUS_ACCESS_DENIED");
    let own = guest.run("data", &["-U", &user, "-L"]).succeeds();
    assert_eq!(own.lines().count(), 1, "{own}");
    // Administrators set and see all of them.
    let set = |user: &str| format!("UQLIM:{user}:2097152/4194304");
    assert_refused(&guest.run("data", &["-U", &user, "-S", &set(USER)]), "NT_STATUS_ACCESS_DENIED");
    guest.run("managed", &["-U", &user, "-S", &set(USER)]).succeeds();
    guest.run("managed", &["-U", &user, "-S", &set(OTHER_USER)]).succeeds();
    let listed = guest.run("managed", &["-U", &user, "-L"]).succeeds();
    // Those of root and of both.
    assert_eq!(listed.lines().count(), 3, "{listed}");
    let told = guest.run("data", &["-U", &other, "-u", OTHER_USER]).succeeds();
    assert_eq!(numbers(&told), [Some(0), Some(2 << 20), Some(4 << 20)], "{told}");
    // The first user has one of two MiB left.
    let free = |share| free_space(&guest.network.launcher(), ("10.99.0.2", share));
    assert_eq!(free("data"), (2 << 20, 1 << 20));
    assert!(free("counted").0 > 32 << 20, "without a limit it is that of the disk");
    guest.stop();
}
