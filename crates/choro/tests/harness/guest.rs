//! A small guest with the Linux kernel's own client, which `tests/guest/` builds and boots.
//!
//! It needs root, `/dev/net/tun` and `debootstrap`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use super::namespace::Namespace;
use super::runs_as_root;
use super::smbtorture::progress;

/// Interval between reads of the guest's output.
const POLL: Duration = Duration::from_millis(20);

/// Reason why there cannot be a guest on this machine.
fn obstacle() -> Option<&'static str> {
    let has = |path: &str| Path::new(path).exists();
    if !runs_as_root() {
        Some("it needs root")
    } else if !has("/dev/net/tun") {
        Some("there is no /dev/net/tun")
    } else if !has("/usr/sbin/debootstrap") {
        Some("debootstrap is not installed")
    } else if cfg!(not(target_arch = "x86_64")) {
        Some("User-Mode Linux is for x86-64 only")
    } else {
        None
    }
}

/// Path of a script of `tests/guest/`.
pub fn script(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/guest").join(name)
}

/// Commands of the shell that make the tap device with this number, in the network they run in.
pub fn tap_device(number: usize) -> String {
    format!(
        "ip tuntap add dev guest{number} mode tap
        ip addr add 10.99.{number}.1/24 dev guest{number}
        ip link set guest{number} up\n"
    )
}

/// Builds the guest. False, and a line that says why, if this machine cannot boot one.
pub fn has_guest() -> bool {
    if let Some(reason) = obstacle() {
        progress(&format!("NOT RUN: the Linux kernel's client, because {reason}"));
        return false;
    }
    let built = Command::new(script("build.sh")).status().expect("it can be run");
    assert!(built.success(), "the guest cannot be built");
    true
}

/// A guest that runs a script of `tests/guest/` as root.
pub struct Guest {
    process: Child,
    /// The folder that it has as /job.
    job: PathBuf,
}

impl Guest {
    /// Boots a guest with the first tap devices of a network, for so many seconds at most. It sees
    /// the folder `job`, and its script has the variables of `environment`.
    pub fn boot(
        (network, links): (&Namespace, usize),
        (program, seconds): (&str, u64),
        job: &Path,
        environment: &str,
    ) -> Self {
        fs::write(job.join("env"), environment).expect("there is space");
        let process = network
            .command(script("run.sh"))
            .arg(script(program))
            .arg(seconds.to_string())
            .arg(job)
            .env("GUEST_LINKS", links.to_string())
            .spawn()
            .expect("it can be run");
        Self { process, job: job.to_owned() }
    }

    /// Waits until the script has made this file.
    pub fn wait_for(&mut self, name: &str, patience: Duration) {
        let end = Instant::now() + patience;
        while !self.job.join(name).exists() {
            let ended = self.process.try_wait().expect("it is our child");
            assert!(ended.is_none() && Instant::now() < end, "no {name}: {}", self.last_words());
            thread::sleep(POLL);
        }
    }

    /// Waits until it has ended well, and does this meanwhile, over and over; returns its folder.
    pub fn wait(&mut self, mut meanwhile: impl FnMut(&Path)) -> &Path {
        let status = loop {
            if let Some(status) = self.process.try_wait().expect("it is our child") {
                break status;
            }
            meanwhile(&self.job);
            thread::sleep(POLL);
        };
        assert!(status.success(), "the guest ended with {status}: {}", self.last_words());
        &self.job
    }

    /// Waits until it has ended, well or not.
    pub fn join(&mut self) {
        self.process.wait().expect("it is our child");
    }

    fn last_words(&self) -> String {
        let left = |name| fs::read_to_string(self.job.join(name)).unwrap_or_default();
        ["stdout", "stderr", "console"].map(left).join("\n")
    }
}
