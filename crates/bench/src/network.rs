//! A network of its own for a run.
//!
//! TCP on the loopback interface uses the machine's congestion control. BBR, the default on some
//! machines, paces by an estimate of the bandwidth, and on loopback that estimate differs from the
//! processors' real capacity in both directions, for each connection anew: the same server then has
//! two speeds, a factor of 1.5 apart. So a run takes place in a network namespace with an algorithm
//! that does not pace, and without other users of the interface.

use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use bench_messaging::machine::TCP_CONGESTION_CONTROL;

/// Linux' default, and an algorithm that every namespace may use whatever the kernel's
/// configuration. Neither paces.
const CONGESTION_CONTROLS: [&str; 2] = ["cubic", "reno"];

/// Whether this process may make a network namespace.
#[must_use]
pub fn may_be_made() -> bool {
    let mut command = Command::new("unshare");
    let command = command.args(["--net", "true"]).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Restarts this program in a network namespace, with `flag` behind its arguments. Returns only on
/// failure, with the reason.
#[must_use]
pub fn restart_within(flag: &str) -> io::Error {
    let own = match std::env::current_exe() {
        Ok(own) => own,
        Err(error) => return error,
    };
    let mut command = Command::new("unshare");
    command.args(["--net", "--"]).arg(own).args(std::env::args_os().skip(1)).arg(flag).exec()
}

/// Sets up a new namespace for a run.
///
/// # Errors
///
/// It is the namespace of the parent process, the interface cannot be set up, or the kernel lacks
/// the algorithm.
pub fn set_up() -> Result<()> {
    // Never change the machine's own setting, in case the flag was given by hand.
    let parent = format!("/proc/{}/ns/net", std::os::unix::process::parent_id());
    let outer = fs::read_link(&parent)
        .with_context(|| format!("{parent}: the parent has to live as long as this process"))?;
    ensure!(fs::read_link("/proc/self/ns/net")? != outer, "not in a namespace");
    let status = Command::new("ip").args(["link", "set", "lo", "up"]).status();
    ensure!(status.context("running ip")?.success(), "the loopback interface stays down");
    let [first, second] = CONGESTION_CONTROLS;
    fs::write(TCP_CONGESTION_CONTROL, first)
        .or_else(|_| fs::write(TCP_CONGESTION_CONTROL, second))
        .with_context(|| format!("choosing {first} or {second} for TCP"))
}

/// Drops packets to an address of the loopback interface silently until it is dropped itself. Needs
/// its own network namespace.
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
        // In the first table of the lookup, and more specific than its other routes.
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
