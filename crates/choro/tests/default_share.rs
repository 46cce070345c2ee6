//! The server without a configuration: whom it acts as, and what it says.

mod harness;

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use dtyp::{AccessMask, NtStatus};
use harness::choro::{Site, built_executable, signal_process};
use harness::namespace::Namespace;
use harness::runs_as_root;
use harness::session::Session;
use harness::smbtorture::progress;
use rustix::process::Signal;
use wire::create::{CreateDisposition, CreateOptions};

/// Script that makes a machine of its own: lists of users that may be changed, an empty /srv and no
/// configuration. $1 is a folder to work in.
const SETUP: &str = r#"
    cp -a /etc "$1/etc"
    rm -rf "$1/etc/choro"
    sed -i /^choro-share:/d "$1"/etc/passwd "$1"/etc/shadow "$1"/etc/group "$1"/etc/gshadow
    mount --bind "$1/etc" /etc
    mount -t tmpfs none /srv"#;

/// System user that accesses the share.
const SHARE_USER: &str = "choro-share";

/// A machine on which root starts a server without configuration.
struct Machine {
    site: Site,
    view: Namespace,
}

/// A running server of it.
struct Running {
    child: Child,
    text: String,
    password: String,
}

impl Machine {
    /// `None`, and it says why, where the test cannot be made.
    fn new() -> Option<Self> {
        if !runs_as_root() {
            progress("whom a server of root's acts as only root can find out");
            return None;
        }
        let site = Site::new();
        match Namespace::of_mounts(SETUP, &[&site.path("")]) {
            Ok(view) => Some(Self { site, view }),
            Err(reason) => {
                progress(&format!("no mounts of its own: {reason}"));
                None
            }
        }
    }

    /// A path of the machine, as everybody else can reach it.
    fn outside(&self, path: &str) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.view.id()));
        root.join(path.strip_prefix('/').expect("paths of a machine begin at its root"))
    }

    fn shell(&self, script: &str) {
        self.view.run(&["sh", "-ec", script]).expect(script);
    }

    fn serve(&self, arguments: &[&str]) -> Command {
        let mut command = self.view.command(built_executable());
        command
            .arg("serve")
            .args(arguments)
            .env("XDG_STATE_HOME", self.site.path("state-home"))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn start(&self, arguments: &[&str]) -> Running {
        start(self.serve(arguments))
    }

    /// The id of the system user, which is there.
    fn share_user(&self) -> u32 {
        let list = fs::read_to_string(self.outside("/etc/passwd")).expect("it exists");
        let line = list.lines().find(|line| line.starts_with(&format!("{SHARE_USER}:")));
        let id = line.expect("it was made").split(':').nth(2).expect("a list of users");
        id.parse().expect("a number")
    }

    fn owner(&self, path: &str) -> u32 {
        fs::metadata(self.outside(path)).expect("it exists").uid()
    }
}

impl Running {
    fn put(&self, name: &str) -> Result<(), NtStatus> {
        let port = self.text.split("smbclient //").nth(1).expect("it says how");
        let port = port.split_once(" -p ").map_or(445, |(_, rest)| {
            rest.split_whitespace().next().and_then(|port| port.parse().ok()).expect("a port")
        });
        let mut session =
            Session::new(([127, 0, 0, 1], port).into(), "share", "choro", &self.password);
        let options = CreateOptions::default();
        let file =
            session.open(name, AccessMask::WRITE_DATA, CreateDisposition::OPEN_IF, options)?;
        session.write(file, b"text");
        session.close(file);
        Ok(())
    }

    /// Stops the server. Returns what it has said in its log.
    fn stop(mut self) -> String {
        signal_process(self.child.id(), Signal::TERM);
        let mut log = String::new();
        let mut stderr = self.child.stderr.take().expect("it is piped");
        stderr.read_to_string(&mut log).expect("it is UTF-8");
        assert!(self.child.wait().expect("it is our child").success(), "{log}");
        log
    }
}

fn start(mut command: Command) -> Running {
    let mut child = command.spawn().expect("it starts");
    let mut reader = BufReader::new(child.stdout.take().expect("it is piped"));
    let mut text = String::new();
    while !text.contains("stops the server") {
        if reader.read_line(&mut text).expect("it is UTF-8") == 0 {
            let mut log = String::new();
            let _ = child.stderr.take().map(|mut it| it.read_to_string(&mut log));
            panic!("{text}{log}");
        }
    }
    // Output that is not a terminal gets the file's name instead.
    let file = text.split("password     in ").nth(1).and_then(|it| it.split_whitespace().next());
    let password = file.map_or_else(String::new, |file| {
        let password = fs::read_to_string(file).expect("it is kept there for root");
        assert!(!text.contains(password.trim_end()), "{text}");
        password.trim_end().to_owned()
    });
    Running { child, text, password }
}

#[test]
fn one_folder_is_shared_and_the_password_is_printed_once() {
    let machine = Machine::new();
    let own = machine.is_none().then(Site::new);
    let site = machine.as_ref().map_or_else(|| own.as_ref().expect("one of them"), |it| &it.site);
    if own.is_some() && fs::exists("/etc/choro/smb.conf").unwrap_or(true) {
        return; // This machine has a server of its own.
    }
    let start = || match &machine {
        Some(machine) => machine.start(&["--share", "/srv/folder"]),
        None => {
            let mut command = Command::new(built_executable());
            command.args(["serve", "--share"]).arg(site.path("folder"));
            command.env("XDG_STATE_HOME", site.path("state-home"));
            start({
                command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
                command
            })
        }
    };
    let first = start();
    assert!(!first.password.is_empty(), "{}", first.text);
    for line in ["smbclient //", "mount -t cifs //", "net use * ", "open smb://"] {
        assert!(first.text.contains(line), "{}", first.text);
    }
    first.put("file").expect("it may write");
    first.stop();
    let second = start();
    assert!(second.password.is_empty(), "{}", second.text);
    second.stop();
    let users = fs::read_to_string(site.path("state-home/choro/private/users")).expect("written");
    assert!(users.contains("choro:"), "{users}");
}

#[test]
fn the_doctor_examines_the_folder_that_is_served() {
    let Some(machine) = Machine::new() else { return };
    machine.shell("mkdir /srv/mine");
    let server = machine.start(&["--share", "/srv/mine"]);
    let examine = || {
        let mut doctor = machine.view.command(built_executable());
        doctor.args(["doctor", "access", "choro", "share"]);
        let output = doctor.env("XDG_STATE_HOME", machine.site.path("state-home")).output();
        String::from_utf8(output.expect("it starts").stdout).expect("it is UTF-8")
    };
    let refused = examine();
    let change = refused.split("Change: ").nth(1).and_then(|it| it.lines().next()).expect(&refused);
    assert!(refused.contains("/srv/mine\n") && refused.contains("write no"), "{refused}");
    machine.shell(change);
    let granted = examine();
    assert!(granted.contains("write yes") && granted.contains("Nothing found."), "{granted}");
    server.put("file").expect("it may write");
    server.stop();
}

#[test]
fn files_made_through_roots_server_belong_to_a_system_user_created_for_it() {
    let Some(machine) = Machine::new() else { return };
    let server = machine.start(&[]);
    server.put("file").expect("it may write");
    let user = machine.share_user();
    assert_ne!(user, 0);
    assert_eq!(machine.owner("/srv/choro"), user);
    assert_eq!(machine.owner("/srv/choro/file"), user);
    let mode = fs::metadata(machine.outside("/srv/choro")).expect("it exists").mode();
    assert_eq!(mode & 0o7777, 0o770);
    let log = server.stop();
    assert!(log.contains("created the system user choro-share"), "{log}");
    assert!(!log.contains("WARN"), "{log}");
}

#[test]
fn a_folder_of_roots_stays_roots_and_the_log_says_how_clients_may_write_there() {
    let Some(machine) = Machine::new() else { return };
    machine.shell("mkdir /srv/mine; echo text >/srv/mine/old");
    let server = machine.start(&["--share", "/srv/mine"]);
    assert_eq!(server.put("file"), Err(NtStatus::ACCESS_DENIED));
    assert_eq!(machine.owner("/srv/mine"), 0);
    let password = server.password.clone();
    let log = server.stop();
    let advice = log.split("To let clients write: ").nth(1).expect(&log);
    let advice = advice.split(" or, ").next().expect("there is more");
    assert!(advice.starts_with("setfacl "), "{advice}");
    machine.shell(advice);
    let server = Running { password, ..machine.start(&["--share", "/srv/mine"]) };
    for name in ["file", "old"] {
        server.put(name).expect("it may write now");
    }
    assert_eq!(machine.owner("/srv/mine/file"), machine.share_user());
    assert_eq!(machine.owner("/srv/mine"), 0);
    let log = server.stop();
    assert!(!log.contains("setfacl"), "{log}");
}

#[test]
fn the_default_folder_of_an_earlier_root_is_given_over_only_while_it_is_empty() {
    let Some(machine) = Machine::new() else { return };
    machine.shell("mkdir /srv/choro; echo text >/srv/choro/old");
    let log = machine.start(&[]).stop();
    assert!(log.contains("chown -R choro-share: \"/srv/choro\""), "{log}");
    assert_eq!((machine.owner("/srv/choro"), machine.owner("/srv/choro/old")), (0, 0));
    machine.shell("rm /srv/choro/old");
    let log = machine.start(&[]).stop();
    assert!(!log.contains("chown"), "{log}");
    assert_eq!(machine.owner("/srv/choro"), machine.share_user());
    // A link to elsewhere is not followed for that.
    machine.shell("mkdir /srv/elsewhere; rmdir /srv/choro; ln -s elsewhere /srv/choro");
    machine.start(&[]).stop();
    assert_eq!(machine.owner("/srv/elsewhere"), 0);
}

#[test]
fn a_folder_of_somebody_is_served_as_its_owner() {
    let Some(machine) = Machine::new() else { return };
    machine.shell("mkdir /srv/his; chown nobody: /srv/his");
    let server = machine.start(&["--share", "/srv/his"]);
    server.put("file").expect("it may write");
    assert_eq!(machine.owner("/srv/his/file"), machine.owner("/srv/his"));
    server.stop();
    let list = fs::read_to_string(machine.outside("/etc/passwd")).expect("it exists");
    assert!(!list.contains(SHARE_USER), "a user was made for nothing");
}

#[test]
fn without_a_system_user_nothing_is_served_as_root() {
    let Some(machine) = Machine::new() else { return };
    machine.shell("mount --bind /bin/false $(command -v useradd)");
    let output = machine.serve(&[]).output().expect("it starts");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("start again: useradd --system "), "{error}");
    machine.shell("echo choro-share:x:0:0::/:/bin/sh >>/etc/passwd");
    let output = machine.serve(&[]).output().expect("it starts");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("has the id of root"), "{error}");
}

/// As an administrator has it who installs the package, and writes the file then.
#[test]
fn a_reload_reads_the_file_that_was_written_after_a_start_without_one() {
    let Some(machine) = Machine::new() else { return };
    let server = machine.start(&[]);
    let base = machine.site.path("state-home/choro");
    let port = machine.site.address().port();
    machine.shell(&format!(
        "mkdir /etc/choro /srv/later; chmod 777 /srv/later
         printf '%s\n' '[global]' 'base directory = {}' 'smb ports = {port}' '[later]' \
             'path = /srv/later' 'read only = no' 'force user = nobody' >/etc/choro/smb.conf",
        base.display()
    ));
    let mut reload = machine.view.command(built_executable());
    let output = reload.args(["message", "reload"]).output().expect("it starts");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{error}");
    let address = ([127, 0, 0, 1], port).into();
    let mut session = Session::new(address, "later", "choro", &server.password);
    let options = CreateOptions::default();
    let file = session.open("file", AccessMask::WRITE_DATA, CreateDisposition::OPEN_IF, options);
    session.close(file.expect("the share of the file is served"));
    let log = server.stop();
    assert!(log.contains("configuration: /etc/choro/smb.conf"), "{log}");
}
