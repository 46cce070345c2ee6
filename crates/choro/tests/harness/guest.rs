//! A small guest with the Linux kernel's own client, which `tests/guest/` builds and boots.
//!
//! It needs root, `/dev/net/tun` and `debootstrap`.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::runs_as_root;
use super::smbtorture::progress;

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
