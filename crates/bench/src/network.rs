//! A network of its own for a run.
//!
//! TCP on the loopback interface goes by the machine's congestion control. BBR, which some machines
//! have for all of it, paces by a bandwidth that it estimates from the traffic, and on loopback that
//! estimate falls to either side of what the processors can do, anew for each connection: the same
//! server then has two speeds, a factor of 1.5 apart. So a run takes place in a network namespace
//! where the algorithm does not pace, and nothing else uses the interface.

use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// What Linux uses where nobody has chosen, and what every namespace may have whatever the kernel was
/// built to use. Neither paces.
const CONGESTION_CONTROLS: [&str; 2] = ["cubic", "reno"];

/// The setting, which is that of the namespace of whoever opens it.
const SETTING: &str = "/proc/sys/net/ipv4/tcp_congestion_control";

/// Whether this process may make a network namespace.
#[must_use]
pub fn may_be_made() -> bool {
    let mut command = Command::new("unshare");
    let command = command.args(["--net", "true"]).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Runs this program anew in a network namespace, with `flag` behind its arguments. Comes back only
/// with the reason why it could not.
#[must_use]
pub fn restart_within(flag: &str) -> io::Error {
    let own = match std::env::current_exe() {
        Ok(own) => own,
        Err(error) => return error,
    };
    let mut command = Command::new("unshare");
    command.args(["--net", "--"]).arg(own).args(std::env::args_os().skip(1)).arg(flag).exec()
}

/// Makes a fresh namespace fit for a run.
///
/// # Errors
///
/// When it is the namespace of whoever started this process, the interface cannot be set up, or the
/// kernel does not have the algorithm.
pub fn set_up() -> Result<()> {
    // The machine's own setting is not ours to change, should somebody give the flag by hand.
    let parent = format!("/proc/{}/ns/net", std::os::unix::process::parent_id());
    let outer = fs::read_link(&parent)
        .with_context(|| format!("{parent}: the parent has to live as long as this process"))?;
    ensure!(fs::read_link("/proc/self/ns/net")? != outer, "not in a namespace");
    let status = Command::new("ip").args(["link", "set", "lo", "up"]).status();
    ensure!(status.context("running ip")?.success(), "the loopback interface stays down");
    let [first, second] = CONGESTION_CONTROLS;
    fs::write(SETTING, first)
        .or_else(|_| fs::write(SETTING, second))
        .with_context(|| format!("choosing {first} or {second} for TCP"))
}

/// As long as it lives, nothing that is sent to an address of the loopback interface arrives, and
/// nobody is told. It takes a network of its own.
#[derive(Debug)]
pub struct Silence(Ipv4Addr);

impl Silence {
    /// # Errors
    ///
    /// When this process may not change the network.
    pub fn of(address: Ipv4Addr) -> Result<Self> {
        ensure!(Self::route("add", address)?, "what is sent to {address} cannot be dropped");
        Ok(Self(address))
    }

    fn route(change: &str, address: Ipv4Addr) -> Result<bool> {
        // In the table that is asked first, and more particular than what is there.
        let route = format!("blackhole {address}/32 table local");
        let mut command = Command::new("ip");
        let command = command.args(["route", change]).args(route.split(' '));
        Ok(command.stderr(Stdio::null()).status().context("running ip")?.success())
    }
}

impl Drop for Silence {
    fn drop(&mut self) {
        // The network goes with the run at the latest.
        let _ = Self::route("del", self.0);
    }
}

/// The congestion control of new connections.
#[must_use]
pub fn congestion_control() -> String {
    let text = fs::read_to_string(SETTING).unwrap_or_default();
    if text.trim().is_empty() { "unknown".into() } else { text.trim().into() }
}
