//! Namespaces for what a test starts: networks and mounts that nobody else has, and that are gone
//! with the process that holds them, however the test ends.
//!
//! It needs root and util-linux, and a network iproute2.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A namespace. It lives as long as its process, which ends when its standard input is closed.
#[derive(Debug)]
pub struct Namespace {
    holder: Child,
    kind: Kind,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Machine,
    Mounts,
    Network,
}

impl Namespace {
    /// Mounts of its own; `setup` is a script of the shell that makes them, with these arguments.
    ///
    /// # Errors
    /// Says why this machine does not allow it.
    pub fn of_mounts(setup: &str, arguments: &[&Path]) -> Result<Self, String> {
        Self::hold(Kind::Mounts, &["--mount", "--propagation", "private"], setup, arguments)
    }

    /// A network of its own, with a loopback and what the script `setup` puts there.
    ///
    /// # Errors
    /// Says why this machine does not allow it.
    pub fn of_network(setup: &str) -> Result<Self, String> {
        Self::hold(Kind::Network, &["--net"], &format!("ip link set lo up\n{setup}"), &[])
    }

    /// A machine of its own: a copy of this one's files, whose changes nobody else sees, and a
    /// network with a loopback. `setup` is a script of the shell that changes the files; $root is
    /// their folder.
    ///
    /// # Errors
    /// Says why this machine does not allow it.
    pub fn of_machine(setup: &str, arguments: &[&Path]) -> Result<Self, String> {
        let options = ["--mount", "--propagation", "private", "--net"];
        let script = format!("{COPY_FILES}\n{setup}\n{ENTER_FILES}");
        Self::hold(Kind::Machine, &options, &script, arguments)
    }

    /// Makes a namespace with these options of `unshare`, and in it what the script does.
    fn hold(
        kind: Kind,
        options: &[&str],
        setup: &str,
        arguments: &[&Path],
    ) -> Result<Self, String> {
        let script = format!("set -e\n{{\n{setup}\n}} >&2\necho ready\nexec cat\n");
        let mut holder = Command::new("unshare")
            .args(options)
            .args(["sh", "-c", &script, "sh"])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("util-linux is installed");
        let mut line = String::new();
        let stdout = holder.stdout.as_mut().expect("it is piped");
        BufReader::new(stdout).read_line(&mut line).expect("it can be read");
        if line == "ready\n" {
            return Ok(Self { holder, kind });
        }
        let output = holder.wait_with_output().expect("it ends");
        Err(String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; "))
    }

    /// Pid of the holding process: its directory in /proc is that of the namespace.
    pub fn id(&self) -> u32 {
        self.holder.id()
    }

    /// The command that runs another one in it, without a process of its own.
    pub fn launcher(&self) -> Vec<String> {
        let folder = format!("/proc/{}/ns", self.id());
        let options = match self.kind {
            // The present working directory may be missing there.
            Kind::Mounts => vec![format!("--mount={folder}/mnt"), "--wd=/".to_owned()],
            Kind::Machine => vec![
                format!("--mount={folder}/mnt"),
                format!("--net={folder}/net"),
                format!("--root=/proc/{}/root", self.id()),
                format!("--wd=/proc/{}/root", self.id()),
            ],
            Kind::Network => vec![format!("--net={folder}/net")],
        };
        [vec!["nsenter".to_owned()], options, vec!["--".to_owned()]].concat()
    }

    /// Moves the calling thread into the network, with all that it starts from now on.
    pub fn enter(&self) {
        let path = format!("/proc/{}/ns/net", self.id());
        let network = File::open(path).expect("its holder lives");
        let kind = Some(rustix::thread::LinkNameSpaceType::Network);
        rustix::thread::move_into_link_name_space(network.as_fd(), kind).expect("root may");
    }

    /// A command that runs in it.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let launcher = self.launcher();
        let mut command = Command::new(&launcher[0]);
        command.args(&launcher[1..]).arg(program).stdin(Stdio::null());
        command
    }

    /// Runs a command in it to its end, which must succeed and complain of nothing.
    ///
    /// # Errors
    /// What it says on standard error.
    pub fn run(&self, command: &[&str]) -> Result<(), String> {
        let output = self.command(command[0]).args(&command[1..]).output();
        let output = output.expect("util-linux is installed");
        let printed = String::from_utf8_lossy(&output.stderr);
        let is_well = output.status.success() && printed.is_empty();
        if is_well { Ok(()) } else { Err(printed.into_owned()) }
    }
}

/// Begin of a script: files as they are, with changes in memory. The mounts are the namespace's.
const COPY_FILES: &str = r#"
    ip link set lo up
    mount -t tmpfs tmpfs /mnt
    root=/mnt/root
    mkdir $root /mnt/upper /mnt/work
    mount -t overlay overlay -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work $root
    for folder in proc sys dev; do mount --rbind "/$folder" "$root/$folder"; done
    mount -t tmpfs tmpfs "$root/run""#;

/// End of it: the files become those of the holding process.
const ENTER_FILES: &str = r#"
    mkdir -p "$root/old"
    cd "$root"
    pivot_root . old
    cd /"#;

impl Drop for Namespace {
    fn drop(&mut self) {
        drop(self.holder.stdin.take());
        let _ = self.holder.wait();
    }
}
