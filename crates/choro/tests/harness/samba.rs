//! Debian's Samba on the folder of a share, beside the server under test.

use std::fs::{self, File};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use bench::server::{ReservedPort, own_directories};
use rustix::process::{Pid, Signal, kill_process_group};

use super::choro::{PATIENCE, text};
use super::{PASSWORD, TestServer};

/// User for logons at Samba: one that every system has, since Samba requires its users to exist.
pub const SAMBA_USER: &str = "root";

/// User that both servers impersonate, present on every Debian. Samba knows `nobody` as its guest,
/// by a SID that the user's own token lacks.
const ACTS_AS: (&str, u32) = ("daemon", 1);

/// Settings that store everything in extended attributes, for Samba and for the server under test.
pub const KEEPS_EVERYTHING: &str = "vfs objects = acl_xattr streams_xattr\n\
                                    store dos attributes = yes\n\
                                    ea support = yes\n\
                                    force user = daemon";

/// A running smbd in a namespace.
#[derive(Debug)]
pub struct Samba {
    child: Child,
    port: ReservedPort,
}

impl Samba {
    /// Serves the folder of `share` under the same name.
    pub fn start(server: &TestServer, share: &str) -> Self {
        Self::start_with(server, share, KEEPS_EVERYTHING)
    }

    /// The same with these lines in the section of the share.
    pub fn start_with(server: &TestServer, share: &str, lines: &str) -> Self {
        let folder = server.share_path(share);
        chown(&folder, Some(ACTS_AS.1), Some(ACTS_AS.1)).expect("we are root");
        assert!(lines.contains(ACTS_AS.0), "both act as the same");
        let site = server.site().path("samba");
        fs::create_dir_all(&site).expect("there is space");
        let port = ReservedPort::new().expect("a port is free");
        let address = port.address();
        let config = site.join("smb.conf");
        fs::write(&config, configuration(&site, address, (share, &folder), lines))
            .expect("there is space");
        let added = run_with_input(
            Command::new(program("smbpasswd"))
                .arg("-c")
                .arg(&config)
                .args(["-a", "-s", SAMBA_USER]),
            &format!("{PASSWORD}\n{PASSWORD}\n"),
        );
        assert!(added, "smbpasswd could not add {SAMBA_USER}");
        let output = File::create(site.join("output")).expect("there is space");
        let child = Command::new(program("smbd"))
            .args(["--foreground", "--no-process-group", "-s"])
            .arg(&config)
            // smbd ends by a signal to its process group, which must not be ours.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(output.try_clone().expect("a descriptor is free"))
            .stderr(output)
            .spawn()
            .expect("the package samba is installed");
        let samba = Self { child, port };
        samba.wait();
        samba
    }

    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }

    #[track_caller]
    fn wait(&self) {
        let begin = Instant::now();
        while TcpStream::connect(self.address()).is_err() {
            assert!(begin.elapsed() < PATIENCE, "smbd does not listen");
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Samba {
    fn drop(&mut self) {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            // It may have ended by itself, which the test has noticed.
            let _ = kill_process_group(pid, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

fn configuration(
    site: &Path,
    address: SocketAddr,
    (share, folder): (&str, &Path),
    lines: &str,
) -> String {
    let mut config = format!(
        "[global]\n\
         server role = standalone server\n\
         disable netbios = yes\n\
         interfaces = 127.0.0.1/8\n\
         bind interfaces only = yes\n\
         load printers = no\n\
         disable spoolss = yes\n\
         smb ports = {}\n\
         log file = {}\n",
        address.port(),
        text(&site.join("log")),
    );
    config += &own_directories(site).expect("there is space");
    config += &format!("[{share}]\npath = {}\nread only = no\n", text(folder));
    config += lines;
    config.push('\n');
    config
}

/// Runs a command; true if it succeeded.
fn run_with_input(command: &mut Command, input: &str) -> bool {
    use std::io::Write;
    let child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let mut child = child.expect("the package samba-common-bin is installed");
    // A command that does not want its input closes the pipe; its exit code tells.
    let _ = child.stdin.take().expect("it is piped").write_all(input.as_bytes());
    child.wait().expect("it ends").success()
}

/// Samba's programs are in /usr/sbin, which is not in everybody's PATH.
fn program(name: &str) -> PathBuf {
    let path = Path::new("/usr/sbin").join(name);
    if path.exists() { path } else { name.into() }
}
